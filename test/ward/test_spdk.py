# SPDX-License-Identifier: BSD-2-Clause
"""The doctor at a target of SPDK: a process that answers as it does, and the trace file of a real one that was killed. FATHOM_SPDK_BIN: where the real program is."""

import json
import os
import signal
import socket
import sys
import time
import unittest

from ward import FATHOM, Ward, diagnose, run, wait_for

NQN = "nqn.2026-11.io.fathom:ward"
LATENCIES = ("avg_read_latency", "p99_read_latency", "avg_write_latency", "p99_write_latency")
FAKE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake_spdk.py")


class Spdk(Ward):
    def target(self, mode):
        """A target, its process and its control socket."""
        path = os.path.join(self.directory, f"{mode}.sock")
        program = self.program(sys.executable, FAKE, path, mode)
        wait_for(lambda: self.listens(path) and self.has_reactor(program.pid))
        return program.pid, path

    @staticmethod
    def listens(path):
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(path) == 0

    @staticmethod
    def has_reactor(pid):
        names = []
        for tid in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{tid}/comm", encoding="ascii") as file:
                names.append(file.read().strip())
        return "reactor_0" in names

    def names(self, target):
        return [row["name"] for row in diagnose(target)["findings"] if row["severity"] != "note"]

    def test_a_target_that_is_well_has_no_finding(self):
        pid, path = self.target("well")
        for target in (pid, path):
            self.assertEqual(self.names(target), [])

    def test_what_the_process_and_the_socket_tell(self):
        for mode, name in (("blocked", "reactor_blocked"), ("fails", "device_fails"), ("silent", "reactor_silent")):
            with self.subTest(mode):
                found = [row["name"] for row in diagnose(self.target(mode)[0])["findings"]]
                # on a machine without free CPUs the doctor does not tell a silent reactor from one that waits for a CPU, and says so
                self.assertIn(found[0], {name, "cpu_contended"} if mode == "silent" else {name})

    def test_a_stopped_target(self):
        pid, _ = self.target("well")
        os.kill(pid, signal.SIGSTOP)
        self.assertEqual(self.names(pid)[0], "process_stopped")

    @unittest.skipUnless(os.environ.get("FATHOM_SPDK_BIN"), "FATHOM_SPDK_BIN does not say where nvmf_tgt is")
    def test_the_real_target(self):
        path = os.path.join(self.directory, "spdk.sock")
        program = self.program(os.path.join(os.environ["FATHOM_SPDK_BIN"], "nvmf_tgt"), "--no-huge", "-s", 512, "-m", "0x1", "--no-pci", "-r", path,
                               "-e", "all")
        wait_for(lambda: run(FATHOM, "rpc", "-s", path, "framework_wait_init", check=False).returncode == 0, pause=0.5)
        self.assertEqual(self.names(program.pid), [])
        for method, parameters in (
                ("bdev_malloc_create", {"name": "memory", "num_blocks": 131072, "block_size": 512}),
                ("bdev_error_create", {"base_name": "memory"}),
                ("bdev_delay_create", {"base_bdev_name": "EE_memory", "name": "late", **dict.fromkeys(LATENCIES, 0)}),
                ("nvmf_create_transport", {"trtype": "TCP"}),
                ("nvmf_create_subsystem", {"nqn": NQN, "allow_any_host": True, "serial_number": "S1"}),
                ("nvmf_subsystem_add_ns", {"nqn": NQN, "namespace": {"bdev_name": "late"}}),
                ("nvmf_subsystem_add_listener", {"nqn": NQN, "listen_address": {"trtype": "TCP", "adrfam": "IPv4", "traddr": "127.0.0.1", "trsvcid": "4433"}})):
            self.ask(path, method, parameters)
        self.program(FATHOM, "perf", "-a", "127.0.0.1", "-s", 4433, "-n", NQN, "--depth", 8, "--time", 300, "--timeout", 0)
        wait_for(lambda: self.ask(path, "bdev_get_iostat")["bdevs"][-1]["num_read_ops"] > 1000)
        self.assertEqual(self.names(program.pid), [])
        self.ask(path, "bdev_error_inject_error", {"name": "EE_memory", "io_type": "read", "error_type": "failure", "num": 1000000})
        self.assertEqual(self.names(path), ["device_fails", "device_fails"])     # the one that fails, and the one on top of it
        self.ask(path, "bdev_error_inject_error", {"name": "EE_memory", "io_type": "clear", "error_type": "failure"})
        self.delay(path, 100000)
        self.assertEqual(self.names(program.pid)[0], "device_slow")
        self.delay(path, 3600 * 1000000)
        time.sleep(3)
        report = diagnose(program.pid)
        self.assertIn("the device late hangs", report["findings"][0]["says"])
        os.kill(program.pid, signal.SIGSTOP)
        self.assertEqual(self.names(program.pid)[0], "process_stopped")
        report = json.loads(run(FATHOM, "doctor", "--json", program.pid, check=False).stdout)
        self.assertIn("nvmf", report["engine"])

    def ask(self, path, method, parameters=None):
        """Call a method with these parameters, as they are: the result."""
        request = {"jsonrpc": "2.0", "id": 1, "method": method, **({"params": parameters} if parameters else {})}
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            client.sendall(json.dumps(request).encode())
            answer = json.loads(client.makefile().readline())
        self.assertIn("result", answer, answer)
        return answer["result"]

    def delay(self, path, microseconds):
        for which in ("avg_read", "p99_read"):
            self.ask(path, "bdev_delay_update_latency", {"delay_bdev_name": "late", "latency_type": which, "latency_us": microseconds})


if __name__ == "__main__":
    unittest.main()
