# SPDX-License-Identifier: BSD-2-Clause
"""Illnesses that show only under load: one command in a million, floods, messages without a pause, no buffers, commands that the engine loses."""

import os
import re
import shutil
import unittest

from ward import FATHOM, NQN, Ward, illness, run, wait_for

FLOOD = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-0000000000f1"
CALM = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-0000000000f2"
MILLION = 1000000


class Loads(Ward):
    @illness("one command in a million is slow", "rare_slow_io")
    def test_one_slow_command_in_a_million(self):
        engine = self.engine()
        self.error_device(engine)
        self.inject(engine, "delay", num=1, skip=MILLION // 2, delay_us=400000)
        self.load(engine, "--nsid", 2, "--rw", "read", "--depth", 64, "--count", MILLION).wait(600)
        first = self.check_with_cpu(engine.pid)["findings"][0]
        self.assertIn("EE_M1", first["says"])
        evidence = "\n".join(first["evidence"])
        self.assertRegex(evidence, rf"(?m)^\d+ I/Os of the last minutes took 50 ms or more at the device, of {MILLION} in all$")

    @illness("a host floods the engine with commands", "host_floods")
    def test_a_flood_of_commands(self):
        engine = self.engine()
        engine.serve("bdev_malloc_create", "-b", "M0", 64, 512)
        self.load(engine, "--queues", 8, "--depth", 120, "--hostnqn", FLOOD)
        self.load(engine, "--depth", 1, "--rate", 100, "--hostnqn", CALM)
        wait_for(lambda: {row["hostnqn"] for row in engine.rpc("nvmf_subsystem_get_qpairs", nqn=NQN) if row["num_commands"] > 100} >= {FLOOD, CALM})
        self.assertIn(FLOOD, self.check_with_cpu(engine.pid)["findings"][0]["says"])

    @illness("threads send messages without a pause", "message_storm")
    def test_a_storm_of_messages(self):
        engine = self.engine("--test-methods")
        engine.serve("bdev_malloc_create", "-b", "M0", 16, 512)
        engine.rpc("message_storm", reactor=0, milliseconds=30000)
        first = self.check_with_cpu(engine.pid)["findings"][0]
        self.assertIn("storm_message", first["says"])
        self.assertIn("reactor_0", first["says"])

    @illness("the engine has fewer buffers than its hosts need", "buffers_exhausted")
    def test_no_buffers(self):
        engine = self.engine("-m", hex(1 << min(os.sched_getaffinity(0))))
        engine.serve("bdev_malloc_create", "-b", "M0", 256, 512)
        self.load(engine, "--rw", "read", "--bs", "128k", "--queues", 16, "--depth", 120)
        wait_for(lambda: engine.rpc("nvmf_get_stats")["poll_groups"][0]["transports"][0]["buffers"]["waiting"] > 100)
        wait_for(lambda: self.ios(engine, "M0") > 2000)
        self.check_with_cpu(engine.pid)

    @illness("the engine loses a command after its device has returned it", "request_leaked")
    def test_a_leaked_request(self):
        if not shutil.which("gdb"):
            raise unittest.SkipTest("gdb is missing")
        engine = self.engine()
        engine.serve("bdev_malloc_create", "-b", "M0", 16, 512)
        self.load(engine, "--depth", 4, "--rate", 500)
        wait_for(lambda: self.ios(engine, "M0") > 0)
        # the debugger takes the completion of one I/O away from the command
        done = run("gdb", "-q", "-nx", "-batch", "-p", engine.pid, "-ex", "set confirm off", "-ex", "break request/io.c:io_done", "-ex", "continue",
                   "-ex", "return", "-ex", "delete", "-ex", "detach", check=False, timeout=300)
        if not re.search(r"Breakpoint 1, .*io_done", done.stdout):
            raise unittest.SkipTest(f"the debugger did not stop the engine: {done.stdout[-500:]}{done.stderr[-500:]}")
        self.wait_under_way(engine, "EXECUTING")
        self.assertIn("lost 1 commands", self.check_with_cpu(engine.pid)["findings"][0]["says"])


__all__ = ["FATHOM"]

if __name__ == "__main__":
    unittest.main()
