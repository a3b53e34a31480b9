# SPDX-License-Identifier: BSD-2-Clause
"""Servers that hang, do not start or cannot write, engines that they cannot start, members that were excluded; healthy servers."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import unittest

from ward import FATHOM, Ward, allow_cores, diagnose, illness, run, wait_for

from control_rig import System, make_certificates, transport_config
MIB = 1 << 20
NO_RESTART = "disable_engine_auto_restart: true"


class Servers(Ward):
    def setUp(self):
        super().setUp()
        allow_cores()
        self.systems = []

    def tearDown(self):
        for system in self.systems:
            system.discard()
        super().tearDown()

    def system(self, *args, formatted=True, start=True, **kwargs):
        system = System(self.directory, *args, **kwargs)
        self.systems.append(system)
        if start:
            system.start()
        if formatted:
            system.format()
        return system

    def mount_state(self, megabytes):
        """A file system of its own for the server's state; its folder."""
        folder = os.path.join(self.directory, "state")
        os.mkdir(folder)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "none", folder], check=False).returncode != 0:
            raise unittest.SkipTest("mounting needs root")
        self.addCleanup(run, "umount", "-l", folder)
        return folder

    def check_config(self, system):
        """As check(), for a server that need not run."""
        return self.check_of("--server", system.config)

    def check_of(self, *target):
        case = getattr(self, self._testMethodName)
        report = diagnose(*reversed(target), note=f"{case.illness}: ")
        self.assertEqual(report["findings"][0]["name"], case.finding, json.dumps(report, indent=1))
        return report

    def end(self, system):
        """Stop the server and end its engines."""
        self.assertEqual(system.stop(), 0)
        for pids in system.pids().values():
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not system.pids())

    # ---- the server ----

    @illness("the server is stopped", "process_stopped")
    def test_a_stopped_server(self):
        system = self.system(1)
        os.kill(system.process.pid, signal.SIGSTOP)
        report = self.check(system.process.pid)
        self.assertIn("server_silent", [row["name"] for row in report["findings"] if row["because_of"] == "process_stopped"])
        os.kill(system.process.pid, signal.SIGCONT)

    @illness("the certificate of the server has expired", "server_certificate_expired")
    def test_an_expired_certificate_of_the_server(self):
        folder = make_certificates(os.path.join(self.directory, "certs"))
        request = os.path.join(folder, "request")
        run("openssl", "req", "-new", "-key", f"{folder}/server.key", "-subj", "/CN=server", "-out", request)
        run("openssl", "x509", "-req", "-in", request, "-CA", f"{folder}/ca.crt", "-CAkey", f"{folder}/ca.key", "-days", "-1", "-out", f"{folder}/server.crt")
        system = self.system(1, transport_config(folder, "server"), formatted=False, start=False)
        system.start(wait=False)
        self.assertNotEqual(system.process.wait(60), 0)
        report = self.check_config(system)
        self.assertIn("server.crt", report["findings"][0]["says"])
        self.assertEqual([row["because_of"] for row in report["findings"] if row["name"] == "server_absent"], ["server_certificate_expired"])

    @illness("the configuration of the server is not valid", "server_configuration_bad")
    def test_a_configuration_with_an_error(self):
        system = self.system(1, "no_such_key: 1", formatted=False, start=False)
        self.check_config(system)

    # ---- its database ----

    @illness("the file system of the database is read-only", "file_system_read_only")
    def test_a_read_only_file_system_below_the_database(self):
        folder = self.mount_state(64)
        system = self.system(1, formatted=False, state=folder)
        self.end(system)
        run("mount", "-o", "remount,ro", folder)
        system.start(wait=False)
        self.assertNotEqual(system.process.wait(60), 0)
        report = self.check_config(system)
        self.assertEqual([row["because_of"] for row in report["findings"] if row["name"] == "server_absent"], ["file_system_read_only"])

    @illness("the file system of the database is full", "file_system_full")
    def test_a_full_file_system_below_the_database(self):
        folder = self.mount_state(16)
        system = self.system(1, formatted=False, state=folder)
        with open(os.path.join(folder, "filler"), "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(MIB // 4))
            except OSError:
                pass
        self.check(system.process.pid)

    @illness("the database cannot be written", "database_unwritable")
    def test_a_database_that_cannot_be_written(self):
        system = self.system(1)
        if "db_write" not in system.fathom("server", "faults", check=False).stdout:
            raise unittest.SkipTest("built without fault injection")
        system.fathom("server", "faults", "--arm", "db_write=fail:EROFS")
        self.assertNotEqual(system.fathom("system", "set-attr", "a:b", check=False).returncode, 0)
        report = self.check(system.process.pid)
        self.assertIn("Read-only file system", report["findings"][0]["says"])

    @illness("the database is damaged", "database_damaged")
    def test_a_damaged_database(self):
        system = self.system(1, formatted=False)
        self.end(system)
        with open(os.path.join(system.state_dir, "system.db"), "r+b") as file:
            file.write(bytes(4096))
        system.start(wait=False)
        self.assertNotEqual(system.process.wait(60), 0)
        self.check_config(system)

    # ---- its engines ----

    def engine_state(self, system, index):
        return system.engines()[index]["state"]

    @illness("the superblock of an engine is damaged", "superblock_damaged")
    def test_a_damaged_superblock(self):
        system = self.system(1, NO_RESTART)
        self.end(system)
        path = pathlib.Path(self.directory, "e0", "superblock")
        path.write_bytes(path.read_bytes().replace(b"rank: 0", b"rank: 7"))
        system.start()
        wait_for(lambda: self.engine_state(system, 0) == "errored")
        report = self.check(system.process.pid)
        self.assertIn(str(path), report["findings"][0]["says"])

    def binds(self, listener, port):
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True

    @illness("an engine does not start, because its port is taken", "engine_down")
    def test_an_engine_that_does_not_start(self):
        system = self.system(1, NO_RESTART)
        self.end(system)
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            wait_for(lambda: self.binds(taken, system.ports[0]))    # the kernel closes the killed engine's socket a moment later
            taken.listen()
            system.start()
            wait_for(lambda: self.engine_state(system, 0) == "errored")
            self.check(system.process.pid)

    @illness("an operator has excluded a rank", "member_excluded")
    def test_an_excluded_member(self):
        system = self.system(2, NO_RESTART)
        system.fathom("system", "exclude", "--ranks", "1")
        wait_for(lambda: self.engine_state(system, 1) == "errored")
        report = self.check(system.process.pid)
        self.assertIn("rank 1 at", report["findings"][0]["says"])
        self.assertEqual([row["name"] for row in report["findings"] if row["severity"] != "note"], ["member_excluded"])

    @illness("the storage of an engine is not formatted", "engine_idle")
    def test_an_engine_that_waits_for_a_format(self):
        system = self.system(1, formatted=False)
        wait_for(lambda: self.engine_state(system, 0) == "await_format")
        self.check(system.process.pid)

    # ---- healthy ----

    def test_a_healthy_server_and_its_engines(self):
        system = self.system(2)
        for target in ([], [system.process.pid], ["fathom-server"], ["--server", system.config]):
            report = diagnose(*reversed(target)) if target else json.loads(run(FATHOM, "doctor", "--json").stdout)
            self.assertEqual([row for row in report["findings"] if row["severity"] != "note"], [], json.dumps(report, indent=1))
            self.assertEqual([row["health"] for row in report["engines"]], ["healthy"] * 2)
        report = json.loads(run(FATHOM, "system", "doctor", "--json", "-o", system.client_config).stdout)["response"]
        self.assertEqual((report["health"], report["host_count"]), ("healthy", 1))


if __name__ == "__main__":
    unittest.main()
