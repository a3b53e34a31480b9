# SPDX-License-Identifier: BSD-2-Clause
"""
`fathom-server restore` and `backup`, killed at any moment: what is in the place is the old or the new, whole; what was there is not
lost; and the same command again does it.
"""

import contextlib
import glob
import os
import random
import shutil
import sqlite3
import subprocess
import time
import unittest

from harness import run
from server_rig import SERVER, ServerTest

KILLS = 30        # and more, until both outcomes were seen
KILLS_MAX = 1000
OLD, NEW = b"later", b"when it was copied"


def ask(path, sql):
    """Of the database there, with its log, but of a copy of both: to look changes nothing."""
    looked_at = path + ".looked-at"
    for ending in ("", "-wal"):
        if os.path.exists(path + ending):
            shutil.copy(path + ending, looked_at + ending)
    try:
        with contextlib.closing(sqlite3.connect(looked_at)) as database:
            whole = database.execute("PRAGMA integrity_check").fetchone()[0]
            assert whole == "ok", whole
            return database.execute(sql).fetchone()[0]
    finally:
        for left in glob.glob(looked_at + "*"):
            os.unlink(left)


def owner(path):
    value = ask(path, "SELECT value FROM kv WHERE key = 'system/attribute/owner'")
    return value.encode() if isinstance(value, str) else value


class Moments:
    """When to kill: spread over as long as it takes unless it is killed."""

    def __init__(self, seed):
        self.random, self.seconds, self.outcomes, self.kills = random.Random(seed), 0.02, set(), 0

    def kill(self, *command):
        """The command, killed; True: it had ended well before."""
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        time.sleep(self.random.random() * self.seconds)
        process.kill()
        out, _ = process.communicate()
        assert process.returncode in (0, -9), out
        return process.returncode == 0

    def more(self, outcomes):
        """Is another one due? `outcomes`: all that there are."""
        self.kills += 1
        assert self.kills < KILLS_MAX, f"of {outcomes} there were but {self.outcomes}"
        return self.kills <= KILLS or self.outcomes != outcomes


class Restore(ServerTest):
    def setUp(self):
        super().setUp()
        self.system = self.server().start()
        self.system.format()
        self.system.wait_joined()
        self.path, self.copy = self.system.database, os.path.join(self.system.directory, "copy.db")
        for value in (NEW, OLD):
            request = self.messages.mgmt.SystemSetAttrReq(attributes={"owner": value.decode()})
            self.system.call("/mgmt.MgmtSvc/SystemSetAttr", request)
            if value == NEW:
                run(SERVER, "backup", "-o", self.system.config_path, self.copy)
        self.system.kill()  # so that there is a log
        self.kept = os.path.join(self.system.directory, "kept.db")
        for ending in ("", "-wal"):
            shutil.copy(self.path + ending, self.kept + ending)
        self.command = (SERVER, "restore", "-o", self.system.config_path, "--from", self.copy)
        self.moments = Moments(1)
        began = time.monotonic()
        run(*self.command, "--force")
        self.moments.seconds = 1.1 * (time.monotonic() - began)

    def put(self, *endings):
        """As it was when the server died, but only these files."""
        for left in glob.glob(self.path + "*"):
            os.unlink(left)
        for ending in endings:
            shutil.copy(self.kept + ending, self.path + ending)

    def aside(self):
        return [path for path in glob.glob(self.path + ".before-*") if not path.endswith(("-wal", "-journal", "-shm"))]

    def test_the_old_database_or_the_new_one_is_there_whole(self):
        while self.moments.more({OLD, NEW}):
            self.put("", "-wal")
            done = self.moments.kill(*self.command, "--force")
            found = owner(self.path)
            self.moments.outcomes.add(found)
            self.assertIn(found, (OLD, NEW))
            self.assertTrue(found == NEW or not done)
            if found == NEW:
                self.assertIn(OLD, [owner(path) for path in self.aside()])
            run(*self.command, "--force")
            self.assertEqual(owner(self.path), NEW)
            self.assertIn(OLD, [owner(path) for path in self.aside()])
            self.assertEqual(glob.glob(self.path + ".copy-*"), [])

    def test_no_log_that_was_left_is_beside_the_new_one(self):
        with open(self.kept + "-wal", "rb") as file:
            log = file.read()
        while self.moments.more({None, NEW}):
            self.put("-wal")
            done = self.moments.kill(*self.command)
            found = owner(self.path) if os.path.exists(self.path) else None
            self.moments.outcomes.add(found)
            self.assertTrue(found == NEW or (found is None and not done), found)
            logs = [open(path, "rb") for path in glob.glob(self.path + "*-wal")]
            self.assertIn(log, [file.read() for file in logs])
            for file in logs:
                file.close()
            if found is None:
                run(*self.command)
            self.assertEqual(owner(self.path), NEW)


class Backup(ServerTest):
    def setUp(self):
        super().setUp()
        self.system = self.server(engines=0).start()
        self.system.stop()
        self.copy = os.path.join(self.system.directory, "copy.db")
        self.command = (SERVER, "backup", "-o", self.system.config_path, self.copy)
        with contextlib.closing(sqlite3.connect(self.system.database)) as database, database:
            database.execute("CREATE TABLE mark AS SELECT 0 AS number, randomblob(4000000) AS data")
        self.number = 0
        run(*self.command)

    def mark(self):
        self.number += 1
        with contextlib.closing(sqlite3.connect(self.system.database)) as database, database:
            database.execute("UPDATE mark SET number = ?", (self.number,))

    def check(self, done, before):
        """`before`: what the copy was."""
        found = ask(self.copy, "SELECT number FROM mark")
        self.assertIn(found, (before, self.number))
        self.assertTrue(found == self.number or not done)
        self.assertEqual(ask(self.system.database, "SELECT number FROM mark"), self.number)
        for left in glob.glob(self.copy + ".copy-*"):
            os.unlink(left)
        return found

    def measure(self):
        began = time.monotonic()
        run(*self.command)
        moments = Moments(2)
        moments.seconds = 1.1 * (time.monotonic() - began)
        return moments

    def test_a_copy_is_the_old_one_or_the_new_one(self):
        moments, found = self.measure(), 0
        while moments.more({"old", "new"}):
            before = found
            self.mark()
            found = self.check(moments.kill(*self.command), before)
            moments.outcomes.add("new" if found == self.number else "old")

    def test_also_when_a_server_makes_it_and_is_killed(self):
        moments, found = self.measure(), 0
        while moments.more({"old", "new"}):
            before = found
            self.mark()
            self.system.start()
            command = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            time.sleep(moments.random.random() * 2 * moments.seconds)
            self.system.kill()
            command.communicate(timeout=60)
            found = self.check(command.returncode == 0, before)
            moments.outcomes.add("new" if found == self.number else "old")


if __name__ == "__main__":
    unittest.main()
