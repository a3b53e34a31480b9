# SPDX-License-Identifier: BSD-2-Clause
"""
night - the patient of test_night.py: an engine with five devices under load by six hosts, which faults are put into and removed from.

A fault of night_faults.py is a generator: it puts the fault in, waits until its symptom is there, yields what the doctor's finding must contain, and
removes the fault. `night.check(...)` is not for faults: they use the functions of this class.
"""

import contextlib
import dataclasses
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import typing

from ward import FATHOM, LONG_MS, NQN, RpcError, Ward, diagnose, run, wait_for     # first: it finds the modules of test/system

from hanging import HangingFile
from harness import BIN
from test_machine import Cgroup

MIB = 1 << 20
CLOSED = "nqn.2016-06.io.spdk:closed"
SMALL_BYTES = 128 * MIB         # of the file system below the device F0
FAULTS = []
HOLD_THREAD = """
import ctypes, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
for tid in map(int, sys.argv[1:]):
    if libc.ptrace(0x4206, tid, None, None) or libc.ptrace(0x4207, tid, None, None):    # PTRACE_SEIZE, PTRACE_INTERRUPT
        sys.exit(1)
time.sleep(3600)
"""


@dataclasses.dataclass
class Fault:
    """`uses`: parts of the patient; two faults at once have none in common. An empty set: the fault hides all others, so it is alone."""
    text: str
    finding: str
    uses: frozenset
    also: tuple         # findings that may come with it and do not follow from it
    restarts: bool      # the engine must be started again to remove it
    put: typing.Callable

    @property
    def key(self):
        return self.put.__name__


def fault(text, finding, uses=(), also=(), restarts=False):
    """Add a generator to the table of faults."""
    def mark(function):
        FAULTS.append(Fault(text, finding, frozenset(uses), tuple(also), restarts, contextlib.contextmanager(function)))
        return function
    return mark


def host(number):
    return f"nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-{number:012d}"


class Night(Ward):
    # Of each host: the options of `fathom perf`. Their rates are low: the faults are to be found, not the limits of this machine.
    LOADS = {
        "memory": ["--nsid", 1, "--rw", "mix", "--depth", 8, "--rate", 200],
        "error": ["--nsid", 2, "--rw", "read", "--depth", 4, "--rate", 100],
        "hanging": ["--nsid", 3, "--rw", "read", "--depth", 2, "--rate", 20],
        "file": ["--nsid", 4, "--rw", "write", "--depth", 2, "--rate", 20, "--range", "4M"],
        "volume": ["--nsid", 5, "--rw", "mix", "--depth", 2, "--rate", 20, "--range", "4M"],
        "lively": ["--nsid", 1, "--rw", "randread", "--depth", 1, "--rate", 20, "--keep-alive", 5000],
    }

    def setUp(self):
        super().setUp()
        self.hosts, self.starts, self.groups, self.patient = {}, {}, {}, None
        self.cpus = sorted(os.sched_getaffinity(0))[:2]
        self.storage, self.small, self.certificates = (self.folder(name) for name in ("storage", "small", "certificates"))
        run("mount", "-t", "tmpfs", "-o", f"size={SMALL_BYTES},nr_inodes=64", "none", self.small)
        self.addCleanup(run, "umount", "-l", self.small)
        self.volume = os.path.join(self.small, "volume")
        with open(self.volume, "wb") as file:
            file.write(bytes(4 * MIB))
            file.truncate(64 * MIB)
        self.hanging = HangingFile(self.directory, 16 * MIB)
        self.addCleanup(self.hanging.close)
        self.make_certificate("server", 365)
        self.program_path = os.path.join(self.directory, "fathom-engine")
        shutil.copy(os.path.realpath(os.path.join(BIN, "fathom-engine")), self.program_path)
        name, path = re.search(r"(libjansson\S*) => (\S+)", run("ldd", self.program_path).stdout).groups()
        self.library = os.path.join(self.folder("libraries"), name)
        shutil.copy(os.path.realpath(path), self.library)
        self.start()

    def tearDown(self):
        self.stop_hosts()
        self.hanging.release()
        super().tearDown()

    def folder(self, name):
        path = os.path.join(self.directory, name)
        os.mkdir(path)
        return path

    def make_certificate(self, name, days):
        key, request = os.path.join(self.directory, name + ".key"), os.path.join(self.directory, name + ".request")
        run("openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-subj", "/CN=" + name, "-out", request)
        path = os.path.join(self.certificates, name + ".crt")
        run("openssl", "x509", "-req", "-in", request, "-signkey", key, "-days", days, "-out", path)
        return path

    # ---- the engine and its hosts ----

    def start(self):
        self.state = os.path.join(self.directory, "state")
        if os.path.exists(self.state):
            os.unlink(self.state)
        mask = hex(sum(1 << cpu for cpu in self.cpus))
        engine = self.patient = self.engine("--test-methods", "--storage", self.storage, "--state", self.state, "-m", mask, program=self.program_path,
                                            env={"LD_LIBRARY_PATH": os.path.dirname(self.library)})
        pools = engine.rpc("pool_get_pools")["pools"]
        if not pools:
            engine.run_commands("pool_create p\n")
            engine.rpc("volume_create", pool="p", volume="a", size=16 * MIB, checksums=True)
        for row in engine.rpc("volume_get_volumes"):    # what a fault left when it ended the engine
            if (row["pool"], row["name"]) != ("p", "a"):
                engine.rpc("volume_destroy", pool=row["pool"], volume=row["name"])
        for row in pools:
            if row["name"] != "p":
                engine.rpc("pool_destroy", pool=row["name"])
        engine.serve("bdev_malloc_create", "-b", "M0", 64, 512)
        engine.run_commands(f"""bdev_malloc_create -b M1 16 512
bdev_error_create M1
bdev_aio_create {self.hanging.path} H0 512
bdev_aio_create {self.volume} F0 512
nvmf_subsystem_add_ns {NQN} EE_M1 -n 2
nvmf_subsystem_add_ns {NQN} H0 -n 3
nvmf_subsystem_add_ns {NQN} F0 -n 4
nvmf_subsystem_add_ns {NQN} p/a -n 5
nvmf_create_subsystem {CLOSED} -s SPDK2
nvmf_subsystem_add_listener {CLOSED} -t tcp -a 127.0.0.1 -s {engine.port}
""")
        self.tend()

    def restart(self):
        """End the engine, and start another one with the same storage."""
        self.stop_hosts()
        self.hanging.release()
        self.engines.remove(self.patient)
        self.patient.discard()
        self.start()

    def stop_hosts(self):
        for process in self.hosts.values():
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
        self.hosts = {}

    def tend(self):
        """Start each host that has ended, as a real one would connect again."""
        for number, (name, options) in enumerate(self.LOADS.items()):
            process = self.hosts.get(name)
            if process and process.poll() is None:
                continue
            self.hosts[name] = self.load(self.patient, "--hostnqn", host(number), *options)
            self.starts[name] = self.starts.get(name, 0) + 1
        self.loads = [process for process in self.loads if process.poll() is None]

    @contextlib.contextmanager
    def flooded(self):
        """One host sends as much as it can."""
        before = self.ios(self.patient, "M0")
        flood = self.load(self.patient, "--rw", "mix", "--depth", 128)
        try:
            wait_for(lambda: self.ios(self.patient, "M0") > before + 10000)
            yield
        finally:
            flood.kill()
            flood.wait()

    def wait_served(self):
        """Wait until each device ends I/O of its host."""
        before = self.all_ios()

        def are_served():
            self.tend()
            return all(now > before[name] for name, now in self.all_ios().items() if name in ("M0", "EE_M1", "H0", "F0", "p/a"))
        wait_for(are_served, pause=0.5)

    def all_ios(self):
        return {row["name"]: row["num_read_ops"] + row["num_write_ops"] for row in self.patient.rpc("bdev_get_iostat")["bdevs"]}

    def diagnose(self, target=None):
        """(report, seconds)"""
        began = time.monotonic()
        report = diagnose(target or self.patient.pid, "--certificates", self.certificates)
        return report, time.monotonic() - began

    # ---- for faults ----

    def rpc(self, method, **params):
        return self.patient.rpc(method, **params)

    def inject_io(self, error, **options):
        self.inject(self.patient, error, **options)

    def clear_io(self):
        self.rpc("bdev_error_inject_error", name="EE_M1", io_type="clear", error_type="failure")

    def is_hung(self, stage, owner, milliseconds):
        rows = self.patient.operations_under_way("--older-than", f"{milliseconds}ms")
        return any(row.get("stage") == stage and row["stage_us"] >= milliseconds * 1000 and owner in str(row) for row in rows)

    def wait_hung(self, stage, owner=""):
        """Wait until an operation has been in this stage for long."""
        wait_for(lambda: self.is_hung(stage, owner, LONG_MS), pause=0.5)

    def wait_record(self, point, text="", newer_than=None):
        """Wait until the trace has an event of this point that contains `text`."""
        wait_for(lambda: self.count_records(point, text) > (newer_than or 0), pause=0.3)

    def count_records(self, point, text=""):
        done = self.patient.trace("--json", "-n", point, "-f", self.patient.trace_path, check=False)
        return sum(text in line for line in done.stdout.splitlines())

    def threads(self):
        return sorted(int(tid) for tid in os.listdir(f"/proc/{self.patient.pid}/task"))

    @contextlib.contextmanager
    def held(self, tids):
        """Threads are held by a debugger."""
        program = self.program(sys.executable, "-c", HOLD_THREAD, *tids)

        def states():
            return [open(f"/proc/{self.patient.pid}/task/{tid}/status").read().split("State:")[1].split()[0] for tid in tids]
        wait_for(lambda: program.poll() is not None or set(states()) == {"t"})
        assert program.poll() is None, "a process may not be traced here"
        try:
            yield
        finally:
            program.kill()
            program.wait()
            wait_for(lambda: "t" not in states())

    @contextlib.contextmanager
    def in_cgroup(self, controller):
        """The engine is in a cgroup of this controller; the cgroup."""
        if controller not in self.groups:
            self.groups[controller] = Cgroup(self, controller)
        group = self.groups[controller]
        group.set("cgroup.procs", self.patient.pid)
        try:
            yield group
        finally:
            with open(os.path.join(os.path.dirname(group.path), "cgroup.procs"), "w", encoding="ascii") as file:
                file.write(str(self.patient.pid))

    @contextlib.contextmanager
    def limit(self, kind, soft):
        """The engine has another soft limit."""
        before = resource.prlimit(self.patient.pid, kind)
        resource.prlimit(self.patient.pid, kind, (soft, before[1]))
        try:
            yield
        finally:
            resource.prlimit(self.patient.pid, kind, before)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.patient.pid}/fd"))

    def perf(self, *options, subsystem=NQN):
        return subprocess.run([str(word) for word in (FATHOM, "perf", "-a", "127.0.0.1", "-s", self.patient.port, "-n", subsystem, *options)],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, timeout=120)

    def crash(self, how):
        try:
            self.rpc("engine_crash", how=how)
        except (OSError, RpcError):
            pass
        self.patient.process.wait(60)


__all__ = ["CLOSED", "FAULTS", "Fault", "MIB", "NQN", "Night", "RpcError", "fault", "host", "run", "wait_for"]
