# SPDX-License-Identifier: BSD-2-Clause
"""The doctor at a target of SPDK: a process that answers as it does, and the trace file of a real one that was killed. FATHOM_SPDK_BIN: where the real program is."""

import json
import os
import signal
import socket
import sys
import unittest

from ward import FATHOM, Ward, diagnose, run, wait_for

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
        for mode, name in (("blocked", "reactor_blocked"), ("hung", "device_hung"), ("silent", "reactor_silent")):
            with self.subTest(mode):
                self.assertEqual(self.names(self.target(mode)[0])[0], name)

    def test_a_stopped_target(self):
        pid, _ = self.target("well")
        os.kill(pid, signal.SIGSTOP)
        self.assertEqual(self.names(pid)[0], "process_stopped")

    @unittest.skipUnless(os.environ.get("FATHOM_SPDK_BIN"), "FATHOM_SPDK_BIN does not say where nvmf_tgt is")
    def test_the_real_target(self):
        path = os.path.join(self.directory, "spdk.sock")
        program = self.program(os.path.join(os.environ["FATHOM_SPDK_BIN"], "nvmf_tgt"), "--no-huge", "-s", 512, "-m", "0x1", "--no-pci", "-r", path)
        wait_for(lambda: run(FATHOM, "rpc", "-s", path, "framework_wait_init", check=False).returncode == 0, pause=0.5)
        self.assertEqual(self.names(program.pid), [])
        os.kill(program.pid, signal.SIGSTOP)
        self.assertEqual(self.names(program.pid)[0], "process_stopped")
        report = json.loads(run(FATHOM, "doctor", "--json", program.pid, check=False).stdout)
        self.assertIn("nvmf_tgt", report["engine"])


if __name__ == "__main__":
    unittest.main()
