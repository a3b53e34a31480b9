# SPDX-License-Identifier: BSD-2-Clause
"""
`fathom-server restore` and `backup`, killed at random moments. The target is the old or the new database, complete; restore keeps
the old one; the same command succeeds when it runs again.
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


def query(path, sql):
    """The first value that `sql` returns. It reads a copy of the database and its log, since SQLite may change what it opens."""
    copied = path + ".looked-at"
    for ending in ("", "-wal"):
        if os.path.exists(path + ending):
            shutil.copy(path + ending, copied + ending)
    try:
        with contextlib.closing(sqlite3.connect(copied)) as database:
            whole = database.execute("PRAGMA integrity_check").fetchone()[0]
            assert whole == "ok", whole
            return database.execute(sql).fetchone()[0]
    finally:
        for left in glob.glob(copied + "*"):
            os.unlink(left)


def owner_attribute(path):
    value = query(path, "SELECT value FROM kv WHERE key = 'system/attribute/owner'")
    return value.encode() if isinstance(value, str) else value


class KillTimes:
    """Random moments to kill a command at, spread over the time that it needs."""

    def __init__(self, seed):
        self.random, self.seconds, self.outcomes, self.kills = random.Random(seed), 0.02, set(), 0

    def kill(self, *command):
        """Start the command and kill it at a random moment; True: it had succeeded before."""
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        time.sleep(self.random.random() * self.seconds)
        process.kill()
        out, _ = process.communicate()
        assert process.returncode in (0, -9), out
        return process.returncode == 0

    def more(self, outcomes):
        """Whether another kill is due: after KILLS of them only until all `outcomes` were seen."""
        self.kills += 1
        assert self.kills < KILLS_MAX, f"{self.kills} kills had the outcomes {self.outcomes}, not {outcomes}"
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
        self.system.kill()  # SIGKILL, so that a write-ahead log remains
        self.kept = os.path.join(self.system.directory, "kept.db")
        for ending in ("", "-wal"):
            shutil.copy(self.path + ending, self.kept + ending)
        self.command = (SERVER, "restore", "-o", self.system.config_path, "--from", self.copy)
        self.kill_times = KillTimes(1)
        began = time.monotonic()
        run(*self.command, "--force")
        self.kill_times.seconds = 1.1 * (time.monotonic() - began)

    def put_back(self, *endings):
        """Put the files of the database with these endings back, as they were when the server was killed; remove all others."""
        for left in glob.glob(self.path + "*"):
            os.unlink(left)
        for ending in endings:
            shutil.copy(self.kept + ending, self.path + ending)

    def set_aside(self):
        """The databases that restore has set aside."""
        return [path for path in glob.glob(self.path + ".before-*") if not path.endswith(("-wal", "-journal", "-shm"))]

    def test_a_killed_restore_leaves_the_old_or_the_new_database(self):
        while self.kill_times.more({OLD, NEW}):
            self.put_back("", "-wal")
            done = self.kill_times.kill(*self.command, "--force")
            found = owner_attribute(self.path)
            self.kill_times.outcomes.add(found)
            self.assertIn(found, (OLD, NEW))
            self.assertTrue(found == NEW or not done)
            if found == NEW:
                self.assertIn(OLD, [owner_attribute(path) for path in self.set_aside()])
            run(*self.command, "--force")
            self.assertEqual(owner_attribute(self.path), NEW)
            self.assertIn(OLD, [owner_attribute(path) for path in self.set_aside()])
            self.assertEqual(glob.glob(self.path + ".copy-*"), [])

    def test_a_killed_restore_never_pairs_the_new_database_with_an_old_log(self):
        with open(self.kept + "-wal", "rb") as file:
            log = file.read()
        while self.kill_times.more({None, NEW}):
            self.put_back("-wal")
            done = self.kill_times.kill(*self.command)
            found = owner_attribute(self.path) if os.path.exists(self.path) else None
            self.kill_times.outcomes.add(found)
            self.assertTrue(found == NEW or (found is None and not done), found)
            logs = [open(path, "rb") for path in glob.glob(self.path + "*-wal")]
            self.assertIn(log, [file.read() for file in logs])
            for file in logs:
                file.close()
            if found is None:
                run(*self.command)
            self.assertEqual(owner_attribute(self.path), NEW)


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

    def write_mark(self):
        self.number += 1
        with contextlib.closing(sqlite3.connect(self.system.database)) as database, database:
            database.execute("UPDATE mark SET number = ?", (self.number,))

    def check(self, done, before):
        """Check that the copy has the mark `before` or the current one; after a completed backup, the current one. Returns the mark."""
        found = query(self.copy, "SELECT number FROM mark")
        self.assertIn(found, (before, self.number))
        self.assertTrue(found == self.number or not done)
        self.assertEqual(query(self.system.database, "SELECT number FROM mark"), self.number)
        for left in glob.glob(self.copy + ".copy-*"):
            os.unlink(left)
        return found

    def measured_kill_times(self):
        began = time.monotonic()
        run(*self.command)
        kill_times = KillTimes(2)
        kill_times.seconds = 1.1 * (time.monotonic() - began)
        return kill_times

    def test_a_killed_backup_leaves_the_old_or_the_new_copy(self):
        kill_times, found = self.measured_kill_times(), 0
        while kill_times.more({"old", "new"}):
            before = found
            self.write_mark()
            found = self.check(kill_times.kill(*self.command), before)
            kill_times.outcomes.add("new" if found == self.number else "old")

    def test_a_killed_server_that_makes_a_backup_leaves_the_old_or_the_new_copy(self):
        kill_times, found = self.measured_kill_times(), 0
        while kill_times.more({"old", "new"}):
            before = found
            self.write_mark()
            self.system.start()
            command = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            time.sleep(kill_times.random.random() * 2 * kill_times.seconds)
            self.system.kill()
            command.communicate(timeout=60)
            found = self.check(command.returncode == 0, before)
            kill_times.outcomes.add("new" if found == self.number else "old")


if __name__ == "__main__":
    unittest.main()
