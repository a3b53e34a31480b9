#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The device of namespace 2 of a real engine hangs: other namespaces and operator commands continue, and the engine ends quickly."""
import subprocess
import threading
import time
import unittest

import harness
from harness import FATHOM, NQN, EngineTest, RpcError

HOST = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-0000000000bb"
ADDRESS = {"trtype": "TCP", "adrfam": "IPv4", "traddr": "127.0.0.1"}


class HungNamespace(EngineTest):
    def setUp(self):
        super().setUp()
        self.hosts = []

    def tearDown(self):
        for host in self.hosts:
            host.kill()
            host.wait()
        super().tearDown()

    def start_perf(self, engine, *options):
        host = subprocess.Popen([FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", NQN, *map(str, options)],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.hosts.append(host)
        return host

    def queue_depth(self, engine, device):
        return engine.rpc("bdev_get_iostat", names=[device])["bdevs"][0]["queue_depth"]

    def hold_read(self, engine):
        """Make the device of namespace 2 hold one more read; the host that sent it."""
        before = self.queue_depth(engine, "EE_M1")
        engine.rpc("bdev_error_inject_error", name="EE_M1", io_type="read", error_type="pending", num=1)
        host = self.start_perf(engine, "--nsid", 2, "--rw", "read", "--depth", 1, "--count", 1)
        while self.queue_depth(engine, "EE_M1") == before:
            self.assertIsNone(host.poll())
            time.sleep(0.01)
        return host

    def serving(self):
        engine = self.engine()
        engine.serve("bdev_malloc_create", "-b", "M0", 16, 512)
        engine.run_commands(f"""bdev_malloc_create -b M1 16 512
bdev_error_create M1
bdev_malloc_create -b M2 16 512
nvmf_subsystem_add_ns {NQN} EE_M1 -n 2
""")
        return engine

    def reads(self, engine):
        return engine.rpc("bdev_get_iostat", names=["M0"])["bdevs"][0]["num_read_ops"]

    def check_progress(self, engine):
        """The load on namespace 1 makes progress, and a new host is served."""
        before = self.reads(engine)
        while self.reads(engine) < before + 100:
            self.assertIsNone(self.load.poll())
            time.sleep(0.01)
        engine.perf("--rw", "read", "--count", 10, timeout=20)

    def test_an_operator_can_change_the_rest_of_the_subsystem(self):
        engine = self.serving()
        self.load = self.start_perf(engine, "--rw", "read", "--depth", 4, "--time", 100)
        self.hold_read(engine)
        port = harness.free_port()
        changes = [
            ("nvmf_subsystem_add_host", {"host": HOST}),
            ("nvmf_subsystem_add_listener", {"listen_address": {**ADDRESS, "trsvcid": str(port)}}),
            ("nvmf_subsystem_add_ns", {"namespace": {"bdev_name": "M2", "nsid": 3}}),
            ("nvmf_subsystem_remove_ns", {"nsid": 3}),
            ("nvmf_subsystem_remove_listener", {"listen_address": {**ADDRESS, "trsvcid": str(port)}}),
            ("nvmf_subsystem_remove_host", {"host": HOST}),
            ("nvmf_subsystem_allow_any_host", {"allow_any_host": True}),
        ]
        for method, params in changes * 2:
            with self.subTest(method):
                engine.rpc(method, nqn=NQN, **params)
                self.check_progress(engine)
        self.assertEqual(self.queue_depth(engine, "EE_M1"), 1)

    def test_a_hung_namespace_is_removed_in_bounded_time_and_delays_no_other_command(self):
        engine = self.serving()
        self.load = self.start_perf(engine, "--rw", "read", "--depth", 4, "--time", 100)
        host = self.hold_read(engine)
        removed = threading.Thread(target=engine.rpc, args=("nvmf_subsystem_remove_ns",),
                                   kwargs={"nqn": NQN, "nsid": 2, "drain_timeout_ms": 4000})
        removed.start()
        engine.rpc("nvmf_subsystem_add_host", nqn=NQN, host=HOST)
        engine.rpc("nvmf_subsystem_add_ns", nqn=NQN, namespace={"bdev_name": "M2", "nsid": 3})
        self.check_progress(engine)
        self.assertTrue(removed.is_alive())
        removed.join(30)
        self.assertFalse(removed.is_alive())
        self.assertNotEqual(host.wait(60), 0)               # its read has failed
        self.assertIn("Internal", host.stdout.read())
        self.check_progress(engine)
        # the device still has the read: it may not be used again
        with self.assertRaisesRegex(RpcError, "has not returned commands"):
            engine.rpc("nvmf_subsystem_add_ns", nqn=NQN, namespace={"bdev_name": "EE_M1", "nsid": 2})
        self.assertEqual([ns["nsid"] for ns in self.namespaces(engine)], [1, 3])

    def namespaces(self, engine):
        return next(s for s in engine.rpc("nvmf_get_subsystems") if s["nqn"] == NQN)["namespaces"]

    def test_controllers_of_killed_hosts_are_removed_although_their_reads_hang(self):
        engine = self.serving()
        self.load = self.start_perf(engine, "--rw", "read", "--depth", 4, "--time", 100)
        for _ in range(3):
            host = self.hold_read(engine)
            host.kill()
            host.wait()
        deadline = time.monotonic() + 60
        while len(engine.rpc("nvmf_subsystem_get_controllers", nqn=NQN)) > 1:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)
        self.assertEqual(self.queue_depth(engine, "EE_M1"), 3)
        self.check_progress(engine)

    def test_sigterm_ends_the_engine_without_waiting_for_the_device(self):
        engine = self.serving()
        self.load = self.start_perf(engine, "--rw", "read", "--depth", 4, "--time", 100)
        self.hold_read(engine)
        self.assertEqual(engine.stop(), 1)
        log = engine.log_text()
        self.assertIn("1 command at block devices that do not respond: exiting without it", log)
        self.assertIn("Read at block device EE_M1", log)
        self.assertNotIn("not stopped after", log)
        stuck = engine.trace("stuck", "-f", engine.trace_path, check=False)
        self.assertIn("PARKED", stuck.stdout)

    def test_a_subsystem_with_a_hung_device_is_deleted_in_bounded_time(self):
        engine = self.serving()
        self.hold_read(engine)
        engine.rpc("nvmf_delete_subsystem", nqn=NQN, timeout=20)
        engine.run_commands(f"""nvmf_create_subsystem {NQN} -a -s SPDK00000000000001 -m 10
nvmf_subsystem_add_listener {NQN} -t tcp -a 127.0.0.1 -s {engine.port}
nvmf_subsystem_add_ns {NQN} M0
""")
        engine.perf("--rw", "read", "--count", 10, timeout=20)


if __name__ == "__main__":
    unittest.main()
