# SPDX-License-Identifier: BSD-2-Clause
"""What the machine takes away: CPU time, memory, and the right to run."""

import os
import sys
import tempfile
import unittest

from ward import Ward, allow_cores, illness, wait_for

MIB = 1 << 20


class Cgroup:
    """A cgroup of a version 1 controller, or of version 2 if that has the controller."""

    def __init__(self, case, controller):
        self.case, self.version2 = case, False
        root = f"/sys/fs/cgroup/{controller}"
        if not os.path.isdir(root):
            root, self.version2 = "/sys/fs/cgroup", True
            if controller not in open(f"{root}/cgroup.subtree_control", encoding="ascii").read():
                raise unittest.SkipTest(f"no cgroup controller {controller}")
        try:
            self.path = tempfile.mkdtemp(prefix=f"fathom-ward-{controller}-", dir=root)     # pids are not unique: tests run in namespaces
        except OSError as error:
            raise unittest.SkipTest(f"cgroups cannot be made: {error}") from error
        case.addCleanup(self.remove)

    def remove(self):
        for engine in self.case.engines:
            engine.kill()
        wait_for(self.try_remove)

    def try_remove(self):
        try:
            os.rmdir(self.path)
        except OSError:
            return not os.path.exists(self.path)
        return True

    def set(self, name, value):
        try:
            with open(f"{self.path}/{name}", "w", encoding="ascii") as file:
                file.write(str(value))
        except OSError as error:
            raise unittest.SkipTest(f"{name} cannot be set: {error}") from error

    def get(self, name):
        return open(f"{self.path}/{name}", encoding="ascii").read()


@unittest.skipUnless(os.geteuid() == 0, "cgroups and priorities need root")
class Machine(Ward):
    def serving(self, *options):
        engine = self.engine(*options)
        engine.serve("bdev_malloc_create", "-b", "M0", 16, 512)
        return engine

    @illness("the cgroup of the engine has no CPU time left", "cgroup_throttled")
    def test_a_throttled_cgroup(self):
        group = Cgroup(self, "cpu")
        def start():    # it must reach the limit, whatever else runs on this machine
            allow_cores()
            os.nice(-15)
        engine = self.engine("-m", hex(1 << min(os.sched_getaffinity(0))), preexec_fn=start)
        engine.serve("bdev_malloc_create", "-b", "M0", 16, 512)
        if group.version2:
            group.set("cpu.max", "5000 100000")
        else:
            group.set("cpu.cfs_period_us", 100000)
            group.set("cpu.cfs_quota_us", 5000)
        self.load(engine, "--depth", 64)
        wait_for(lambda: self.ios(engine, "M0") > 0)
        group.set("cgroup.procs", engine.pid)

        def is_throttled():
            rows = dict(line.split() for line in group.get("cpu.stat").splitlines())
            return int(rows["nr_throttled"]) >= 20
        wait_for(is_throttled)
        self.check(engine.pid)

    @illness("a cgroup freezes the engine", "process_frozen")
    def test_a_frozen_cgroup(self):
        group = Cgroup(self, "freezer")
        engine = self.serving()
        group.set("cgroup.procs", engine.pid)
        name, value = ("cgroup.freeze", "1") if group.version2 else ("freezer.state", "FROZEN")
        thawed = "0" if group.version2 else "THAWED"
        self.addCleanup(lambda: os.path.exists(group.path) and group.set(name, thawed))
        group.set(name, value)
        wait_for(lambda: group.get(name).strip() == value)
        self.check(engine.pid)
        group.set(name, thawed)

    @illness("a cgroup freezes one thread, which is never polled again", "reactor_not_run")
    def test_a_frozen_thread(self):
        group = Cgroup(self, "freezer")
        if group.version2:
            raise unittest.SkipTest("a thread has a cgroup of its own only in version 1")
        engine = self.serving()
        tid, = (int(tid) for tid in os.listdir(f"/proc/{engine.pid}/task")
                if open(f"/proc/{engine.pid}/task/{tid}/comm", encoding="ascii").read().strip() == "reactor_0")
        group.set("tasks", tid)
        group.set("freezer.state", "FROZEN")
        try:
            wait_for(lambda: group.get("freezer.state").strip() == "FROZEN")
            first = self.check(engine.pid)["findings"][0]
        finally:
            group.set("freezer.state", "THAWED")    # else the process cannot end
        self.assertIn("reactor_0: a cgroup has frozen it", first["says"])

    @illness("a process is bound to a reactor's CPU", "reactor_cpu_shared")
    def test_a_neighbour_on_the_cpu(self):
        cpu = min(os.sched_getaffinity(0))
        engine = self.serving("-m", hex(1 << cpu))
        def be_greedy():    # its share of the CPU must be large, whatever else runs on this machine
            os.sched_setaffinity(0, {cpu})
            os.nice(-15)
        self.program(sys.executable, "-c", "while True: pass", preexec_fn=be_greedy)
        self.load(engine, "--depth", 16)
        wait_for(lambda: self.ios(engine, "M0") > 1000)
        self.check(engine.pid)

    @illness("the kernel kills the engine for memory", "killed_out_of_memory")
    def test_out_of_memory(self):
        group = Cgroup(self, "memory")
        engine = self.engine()
        group.set("cgroup.procs", engine.pid)
        limit = "memory.max" if group.version2 else "memory.limit_in_bytes"
        group.set(limit, 32 * MIB)
        try:
            engine.rpc("bdev_malloc_create", name="M9", num_blocks=1 << 18, block_size=4096)
            engine.serve("bdev_malloc_create", "-b", "M0", 512, 512)
            self.load(engine, "--rw", "write", "--bs", "128k", "--depth", 64)
        except Exception:   # it is killed while it answers  # pylint: disable=broad-except
            pass
        engine.process.wait(60)
        self.check(engine.trace_path)


if __name__ == "__main__":
    unittest.main()
