# SPDX-License-Identifier: BSD-2-Clause
"""
fathom-server's database: backups, restore, loss, and a full disk.
"""

import contextlib
import glob
import json
import os
import signal
import sqlite3
import subprocess
import time
import unittest

from harness import run
from server_rig import SERVER, Refused, ServerTest, is_alive


class Database(ServerTest):
    """Copies of the database, its loss and its restore."""

    def map_version(self, path):
        with contextlib.closing(sqlite3.connect(path)) as database:
            return json.loads(database.execute("SELECT value FROM kv WHERE key = 'system/versions'").fetchone()[0])["map_version"]

    def copies(self, server):
        return sorted(glob.glob(server.database + ".copy-*"))

    def test_the_last_seven_daily_copies_are_kept_for_each_system(self):
        server = self.server(keys="database_copy_after: 100ms\n").start()
        server.format()
        server.wait_joined()
        deadline = time.monotonic() + 60
        while (not self.copies(server) or self.copies(server)[0].count(".copy-") > 1) and time.monotonic() < deadline:
            time.sleep(0.02)
        ours = self.copies(server)[0]
        self.assertRegex(ours, r"/system\.db\.copy-[0-9a-f-]{36}-\d{4}-\d\d-\d\d$")
        beside, others = ours[:-10], ours[:-47] + "11111111-1111-4111-8111-111111111111-2001-01-01"
        old = [f"{beside}2001-01-{day:02}" for day in range(1, 10)]
        for path in (*old, others, old[0] + ".copy-abcdef"):
            with open(path, "w") as f:
                f.write("old")
        server.call("/mgmt.MgmtSvc/SystemSetAttr", self.messages.mgmt.SystemSetAttrReq(attributes={"a": "b"}))
        server.stop()
        self.assertEqual(self.copies(server), sorted([others, *old[3:], ours]))
        # the map version must exceed all that engines may have got since the copy was made
        run(SERVER, "restore", "-o", server.config_path, "--from", ours, "--force")
        self.assertEqual(self.map_version(server.database), self.map_version(ours) + 65536)
        server.start()
        server.wait_joined()
        self.assertEqual(len(server.wait_members("joined")), 1)

    def test_a_start_without_the_database_is_refused_until_it_is_restored(self):
        server = self.server().start()
        server.format()
        before = server.wait_joined()[0]
        server.stop()
        copy = os.path.join(server.directory, "copy.db")
        self.assertIn(copy, run(SERVER, "backup", "-o", server.config_path, copy).stdout)
        for suffix in ("", "-wal", "-shm"):
            if os.path.exists(server.database + suffix):
                os.unlink(server.database + suffix)
        self.assertEqual(server.start(ready=False), 1)
        self.assertIn("code = 690 ", server.log())
        self.assertIn("fathom-server restore --from", server.log())
        self.assertFalse(os.path.exists(server.database))
        self.assertTrue(is_alive(before.pid))
        self.assertIn(server.database + ".copy", server.log())
        kept = os.path.join(self.directory, "kept.db")
        os.rename(self.copies(server)[0], kept)
        for source in (kept, copy):
            run(SERVER, "restore", "-o", server.config_path, "--from", source, *(["--force"] if source == copy else []))
        server.start()
        after = server.wait_joined()[0]
        self.assertEqual((after.pid, after.rank), (before.pid, before.rank))
        self.assertEqual([member.uuid for member in server.members()], [before.uuid])

    def test_an_empty_database_refuses_an_engine_that_has_a_rank(self):
        server = self.server().start()
        server.format()
        server.wait_joined()
        server.stop()
        os.unlink(server.database)
        self.assertEqual(server.start(ready=False), 1)
        open(server.database, "w").close()  # SQLite opens an empty file as a new database
        server.start()
        refused = server.wait(lambda engines: f"has no members, but instance 0 of {server.address} has rank 0" in engines[0].info)[0]
        self.assertIn("--new-system", refused.info)
        self.assertIn("rank: server: code = 691 ", server.log())
        server.stop()
        server.start("--new-system")
        self.assertEqual(server.wait_joined()[0].rank, 0)
        self.assertEqual(len(server.wait_members("joined")), 1)

    def test_restore_does_not_replay_the_wal_of_the_lost_database(self):
        server = self.server().start()
        server.format()
        server.wait_joined()
        attributes = lambda: dict(server.call("/mgmt.MgmtSvc/SystemGetAttr", self.messages.mgmt.SystemGetAttrReq()).attributes)
        copy = os.path.join(server.directory, "copy.db")
        for owner in ("when it was copied", "later"):
            server.call("/mgmt.MgmtSvc/SystemSetAttr", self.messages.mgmt.SystemSetAttrReq(attributes={"owner": owner}))
            if not os.path.exists(copy):
                run(SERVER, "backup", "-o", server.config_path, copy)
        server.kill()
        os.unlink(server.database)
        self.assertTrue(os.path.getsize(server.database + "-wal"))
        run(SERVER, "restore", "-o", server.config_path, "--from", copy)
        self.assertTrue(os.path.getsize(server.database + ".before-1-wal"))
        server.start()
        server.wait_joined()
        self.assertEqual(attributes(), {"owner": "when it was copied"})

    def test_an_empty_database_refuses_an_engine_of_another_host_that_has_a_rank(self):
        """Its engine, running or just started, waits, and joins by itself once the database is restored."""
        first = self.server().start()
        second = self.server(keys=f"mgmt_svc_replicas: ['{first.address}']\n").start()
        for server in (first, second):
            server.format()
            server.wait_joined()
        mgmt = self.messages.mgmt
        first.call("/mgmt.MgmtSvc/SystemSetAttr", mgmt.SystemSetAttrReq(attributes={"owner": "we"}))
        first.stop()
        copy = os.path.join(first.directory, "copy.db")
        run(SERVER, "backup", "-o", first.config_path, copy)
        for suffix in ("", "-wal", "-shm"):
            if os.path.exists(first.database + suffix):
                os.unlink(first.database + suffix)
        open(first.database, "w").close()
        first.start()
        second.stop()
        second.start()
        waits = f"has no members, but instance 0 of {second.address} has rank 1"
        adopted = second.wait(lambda engines: waits in engines[0].info)[0]
        os.kill(adopted.pid, signal.SIGKILL)
        new = second.wait(lambda engines: engines[0].pid not in (0, adopted.pid) and waits in engines[0].info)[0]
        self.assertEqual(second.log().count("rank: server: code = 691 "), 2)  # description and resolution
        first.stop()
        run(SERVER, "restore", "-o", first.config_path, "--force", "--from", copy)
        first.start()
        self.assertEqual(first.wait_joined()[0].rank, 0)
        again = second.wait_joined()[0]
        self.assertEqual((again.pid, again.rank), (new.pid, 1))
        self.assertEqual(first.call("/mgmt.MgmtSvc/SystemGetAttr", mgmt.SystemGetAttrReq()).attributes["owner"], "we")

    def large_database_server(self):
        """A server whose database takes a while to be copied."""
        server = self.server().start()
        server.format()
        server.wait_joined()
        server.stop()
        with contextlib.closing(sqlite3.connect(server.database)) as database, database:
            database.execute("CREATE TABLE large AS SELECT randomblob(32000000) AS data")
        server.start()
        server.wait_joined()
        return server

    def start_backup(self, server, copy):
        """Start the command and wait until the server copies; the process."""
        command = subprocess.Popen([SERVER, "backup", "-o", server.config_path, copy], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(command.stdout.close)
        while not glob.glob(copy + ".copy-*") and command.poll() is None:
            time.sleep(0.001)
        return command

    def test_the_server_answers_calls_during_a_backup(self):
        server, meanwhile = self.large_database_server(), 0
        copy = os.path.join(server.directory, "copy.db")
        while meanwhile < 10:
            command, done = self.start_backup(server, copy), 0
            while not os.path.exists(copy) and command.poll() is None:
                server.call("/mgmt.MgmtSvc/SystemSetAttr", self.messages.mgmt.SystemSetAttrReq(attributes={"done": str(done)}))
                done += not os.path.exists(copy)
            out, _ = command.communicate(timeout=60)
            self.assertEqual(command.returncode, 0, out)
            self.assertGreater(done, 0, "no call was answered during the backup")
            meanwhile += done
            with contextlib.closing(sqlite3.connect(copy)) as database:
                self.assertEqual(database.execute("PRAGMA integrity_check").fetchone()[0], "ok")
                self.assertIn(f", revision {database.execute('SELECT value FROM meta').fetchone()[0]}\n", out)
            os.unlink(copy)

    def test_a_server_that_ends_aborts_a_backup(self):
        server = self.large_database_server()
        copy = os.path.join(server.directory, "copy.db")
        command = self.start_backup(server, copy)
        self.assertEqual(server.stop(), 0)
        out, _ = command.communicate(timeout=60)
        if command.returncode == 0:
            self.assertTrue(os.path.exists(copy))
            self.skipTest("the backup was complete before the server ended")
        self.assertIn("the server is leaving", out)
        self.assertEqual(glob.glob(copy + "*"), [])

    def test_restore_replaces_a_database_only_with_force(self):
        server = self.server(engines=0).start()
        self.assertIn("code = 1054 ", run(SERVER, "backup", "-o", server.config_path, "/dev/null/x", check=False).stderr)
        self.assertIn("the database itself", run(SERVER, "backup", "-o", server.config_path, server.database, check=False).stderr)
        live = run(SERVER, "backup", "-o", server.config_path, "live.db", cwd=server.directory).stdout
        self.assertRegex(live, r"^copied .* to live\.db, revision \d+\n$")
        server.stop()
        run(SERVER, "restore", "-o", server.config_path, "--from", os.path.join(server.directory, "live.db"), "--force")
        copy = os.path.join(server.directory, "copy.db")
        run(SERVER, "backup", "-o", server.config_path, copy)
        self.assertIn("code = 1057 ", run(SERVER, "restore", "-o", server.config_path, "--from", copy, check=False).stderr)
        run(SERVER, "restore", "-o", server.config_path, "--from", copy, "--force")
        server.start()


@unittest.skipUnless("fault injection" in run(SERVER, "version").stdout, "a build without fault injection")
class InjectedFullDisk(ServerTest):
    def inject(self, server, **fields):
        server.call("/fathom.ControlSvc/FaultInject", self.messages.fathom.FaultInjectReq(**fields))

    def test_events_raised_on_a_full_disk_are_stored_when_there_is_room(self):
        server = self.server(keys="engine_restart: {killed: {delay_min: 10ms, delay_max: 10ms}}\n").start()
        server.format()
        server.wait_joined()
        server.wait_members("joined")
        self.inject(server, arm="spool_write=fail")
        killed = []
        for _ in range(3):
            engine = server.wait(lambda engines: engines[0].pid and engines[0].incarnation not in (0, *killed))[0]
            killed.append(engine.incarnation)
            os.kill(engine.pid, signal.SIGKILL)
            server.wait(lambda engines: engines[0].pid != engine.pid)
        self.assertIn("events are kept in memory", server.log())
        self.inject(server, clear="spool_write")
        server.wait_joined()
        deadline = time.monotonic() + 60
        while len(self.died_incarnations(server)) < len(killed) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(self.died_incarnations(server), killed)

    def died_incarnations(self, server):
        answer = server.call("/fathom.ControlSvc/SystemEvents", self.messages.fathom.SystemEventsReq())
        return [event.event.incarnation for event in answer.events if event.event.id == 2]

    def test_starting_ranks_on_a_full_disk_fails_with_the_reason_of_the_database(self):
        server = self.server()
        server.start()
        server.format()
        server.wait_joined()
        server.wait_members("joined")
        mgmt = self.messages.mgmt
        server.call("/mgmt.MgmtSvc/SystemStop", mgmt.SystemStopReq(), timeout=60)
        server.wait_members("stopped")
        self.inject(server, arm="db_write=fail:ENOSPC")
        with self.assertRaises(Refused) as refused:
            server.call("/mgmt.MgmtSvc/SystemStart", mgmt.SystemStartReq(), timeout=150)
        fault = refused.exception.fault     # not DEADLINE_EXCEEDED
        self.assertEqual(fault.get("Code"), "1052")
        self.assertIn(server.database, fault["Description"])
        # no engine was started, and no state has changed
        self.assertEqual([(member.rank, member.state) for member in server.members()], [(0, "stopped")])
        self.assertEqual([(engine.state, engine.pid) for engine in server.engines()], [("stopped", 0)])
        self.inject(server, clear="db_write")
        server.call("/mgmt.MgmtSvc/SystemStart", mgmt.SystemStartReq(), timeout=60)
        server.wait_joined()
        server.wait_members("joined")


if __name__ == "__main__":
    unittest.main()
