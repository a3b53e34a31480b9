# SPDX-License-Identifier: BSD-2-Clause
"""Hosts that are refused, vanish, do not read or do not send, and engines without descriptors."""

import os
import resource
import signal
import socket
import unittest

from ward import FATHOM, NQN, Ward, illness, run, wait_for

import test_hostile as hostile
import test_sharing as sharing

CLOSED = "nqn.2016-06.io.spdk:closed"
HOST = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-0000000000cc"
DEPTH = 64


class Hosts(Ward):
    def setUp(self):
        super().setUp()
        self.engine_ = self.engine()
        self.engine_.serve("bdev_malloc_create", "-b", "Disk0", 64, 512)

    @illness("a host is refused by its NQN", "host_refused")
    def test_a_refused_host(self):
        engine = self.engine_
        engine.run_commands(f"nvmf_create_subsystem {CLOSED} -s SPDK2\n"
                            f"nvmf_subsystem_add_listener {CLOSED} -t tcp -a 127.0.0.1 -s {engine.port}\n")
        done = run(FATHOM, "perf", "-a", "127.0.0.1", "-s", engine.port, "-n", CLOSED, "--hostnqn", HOST, "--count", 1, check=False)
        self.assertNotEqual(done.returncode, 0)
        report = self.check(engine.pid)
        self.assertIn(HOST, report["findings"][0]["says"])
        self.assertIn("not allowed", report["findings"][0]["says"])

    @illness("a host's keep-alives stop", "keep_alive_expired")
    def test_a_host_that_stops(self):
        host = self.load(self.engine_, "--keep-alive", 1000, "--rate", 10, "--depth", 1, "--hostnqn", HOST)
        wait_for(lambda: self.ios(self.engine_, "Disk0") > 0)
        host.send_signal(signal.SIGSTOP)
        self.wait_for_event(self.engine_, "nvmf_ctrlr_keep_alive_expired")
        self.assertIn(HOST, self.check(self.engine_.pid)["findings"][0]["says"])

    @illness("one of two paths of a host is dead", "path_lost")
    def test_a_dead_path(self):
        engine = self.engine_
        engine.run_commands(f"nvmf_subsystem_add_listener {NQN} -t tcp -a 127.0.0.2 -s {engine.port}\n")
        for address in ("127.0.0.1", "127.0.0.2"):
            load = self.program(FATHOM, "perf", "-a", address, "-s", engine.port, "-n", NQN, "--time", 3600, "--timeout", 0, "--connect-timeout", 120000,
                                "--keep-alive", 1000, "--rate", 10, "--depth", 1, "--hostnqn", HOST)
        wait_for(lambda: sum(row["hostnqn"] == HOST and row["qid"] == 1 for row in engine.rpc("nvmf_subsystem_get_qpairs", nqn=NQN)) == 2)
        load.send_signal(signal.SIGSTOP)    # nothing comes over the second path any more
        self.wait_for_event(engine, "nvmf_ctrlr_keep_alive_expired")
        wait_for(lambda: all(row["listen_address"]["traddr"] == "127.0.0.1" for row in engine.rpc("nvmf_subsystem_get_qpairs", nqn=NQN)))
        says = self.check(engine.pid)["findings"][0]["says"]
        self.assertIn(f"the host {HOST} lost its path to 127.0.0.2", says)
        self.assertIn("2 connections over 127.0.0.1", says)

    @illness("a host floods the engine with connections", "connections_refused")
    def test_a_flood_of_connections(self):
        engine = self.engine()
        engine.run_commands(f"nvmf_create_transport -t tcp --max-connections-per-address 8\nnvmf_create_subsystem {NQN} -a\n"
                            f"nvmf_subsystem_add_listener {NQN} -t tcp -a 127.0.0.1 -s {engine.port}\n")
        for _ in range(64):
            s = socket.create_connection(("127.0.0.1", engine.port), timeout=30)
            self.addCleanup(s.close)
        self.wait_for_event(engine, "tcp_refuse")
        first = self.check(engine.pid)["findings"][0]
        self.assertIn("the latest was from 127.0.0.1", first["evidence"])

    def connect_queues(self, number):
        host = b"nqn.2026-11.org.fathom:slow%d" % number
        admin, io = hostile.Host(self.engine_), hostile.Host(self.engine_, receive_bytes=4096)
        self.addCleanup(admin.s.close)
        self.addCleanup(io.s.close)
        cntlid, status = admin.connect(host=host)
        self.assertEqual(status, 0)
        self.assertEqual(admin.enable()[1], 0)
        self.assertEqual(io.connect(1, cntlid & 0xffff, host=host)[1], 0)
        return io

    def be_slow(self, command, stage):
        io = self.connect_queues(0)
        io.s.sendall(b"".join(hostile.capsule(command(cid, hostile.LARGE)) for cid in range(DEPTH)))
        self.wait_under_way(self.engine_, stage)
        self.check(self.engine_.pid)

    @illness("a host does not read its socket", "host_not_reading")
    def test_a_host_that_does_not_read(self):
        self.be_slow(hostile.read, "SENDING")

    @illness("a host does not send the data of its writes", "host_not_sending")
    def test_a_host_that_does_not_send(self):
        self.be_slow(sharing.write, "TRANSFER_IN")

    @illness("a host sends PDUs that are not valid", "protocol_errors")
    def test_a_broken_host(self):
        with socket.create_connection(("127.0.0.1", self.engine_.port), timeout=30) as s:
            s.sendall(b"GET / HTTP/1.1\r\nHost: fathom\r\n\r\n" + bytes(200))
            while s.recv(4096):
                pass
        self.wait_for_event(self.engine_, "tcp_protocol_error")
        self.check(self.engine_.pid)

    def used(self):
        return len(os.listdir(f"/proc/{self.engine_.pid}/fd"))

    @illness("the engine is out of descriptors", "descriptors_exhausted")
    def test_no_descriptors(self):
        _, most = resource.prlimit(self.engine_.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(self.engine_.pid, resource.RLIMIT_NOFILE, (self.used() + 4, most))
        for _ in range(8):
            try:
                s = socket.create_connection(("127.0.0.1", self.engine_.port), timeout=30)
                self.addCleanup(s.close)
            except OSError:
                pass
        self.wait_for_event(self.engine_, "tcp_refuse")
        self.check(self.engine_.pid)

    @illness("few descriptors are left", "descriptors_scarce")
    def test_few_descriptors(self):
        _, most = resource.prlimit(self.engine_.pid, resource.RLIMIT_NOFILE)
        for _ in range(40):
            s = socket.create_connection(("127.0.0.1", self.engine_.port), timeout=30)
            self.addCleanup(s.close)
        count = wait_for(lambda: self.used() if self.used() >= 45 else 0)
        resource.prlimit(self.engine_.pid, resource.RLIMIT_NOFILE, (count + 3, most))
        self.check(self.engine_.pid)


if __name__ == "__main__":
    unittest.main()
