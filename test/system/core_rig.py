# SPDX-License-Identifier: BSD-2-Clause
"""core_rig - engines with I/Os under way, and cores of them, for the tests of gdb's commands and of `fathom core`."""

import os
import resource
import signal
import subprocess
import time

from harness import FATHOM, NQN, EngineTest

HELD = 200
CORE_PATTERN = open("/proc/sys/kernel/core_pattern").read().strip()


class CoreTest(EngineTest):
    def setUp(self):
        super().setUp()
        self.hosts = []

    def tearDown(self):
        for host in self.hosts:
            host.kill()
            host.wait()
        super().tearDown()

    def engine_with_held_reads(self, above="", options=(), **kwargs):
        """An engine with HELD reads under way that a faulty device holds. `above`: commands that make another device on top of it."""
        engine = self.engine("-m", self.two_cpus(), *options, cwd=self.directory, **kwargs)
        engine.run_commands("bdev_malloc_create -b Disk0 64 512\nbdev_malloc_create -b Spare 16 4096\nbdev_error_create Disk0\n")
        engine.serve("bdev_null_create", "Null0", 16, 512)
        top = engine.run_commands(above).split()[-1] if above else "EE_Disk0"
        engine.run_commands(f"nvmf_subsystem_add_ns {NQN} {top} -n 2\nbdev_error_inject_error EE_Disk0 read pending -n {HELD}\n")
        self.load(engine, 2)
        self.wait(lambda: sum(group["pending_bdev_io"] for group in engine.rpc("nvmf_get_stats")["poll_groups"]) == HELD)
        return engine

    @staticmethod
    def two_cpus():
        return "[" + ",".join(map(str, sorted(os.sched_getaffinity(0))[:2])) + "]"

    def load(self, engine, nsid, count=HELD):
        host = subprocess.Popen([FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", NQN, "--nsid", str(nsid), "--rw", "read",
                                 "--bs", "4k", "--depth", str(count // 2), "--queues", "2", "--count", str(count), "--timeout", "0",
                                 "--keep-alive", "0", "--quiet"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.hosts.append(host)

    def wait(self, condition, seconds=60):
        end = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), end, "the condition did not become true in time")
            time.sleep(0.02)

    def core_of(self, engine, number=signal.SIGSEGV):
        """Kill the engine; its core. The kernel writes it where core_pattern names a plain file, else gdb."""
        most = resource.prlimit(engine.pid, resource.RLIMIT_CORE)[1]
        if "/" in CORE_PATTERN or CORE_PATTERN.startswith("|") or most == 0:
            core = os.path.join(self.directory, "core")
            subprocess.run(["gdb", "-q", "-nx", "-batch", "-p", str(engine.pid), "-ex", f"generate-core-file {core}"], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, timeout=100, cwd="/")
            engine.process.send_signal(number)
        else:
            resource.prlimit(engine.pid, resource.RLIMIT_CORE, (most, most))
            engine.process.send_signal(number)
        self.assertEqual(engine.process.wait(60), -number)
        return next(os.path.join(self.directory, name) for name in os.listdir(self.directory) if name.startswith("core"))

    def has_kernel_cores(self):
        """Whether the kernel writes cores to the process's folder."""
        return not ("/" in CORE_PATTERN or CORE_PATTERN.startswith("|") or resource.getrlimit(resource.RLIMIT_CORE)[1] == 0)
