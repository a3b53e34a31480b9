# SPDX-License-Identifier: BSD-2-Clause
"""
A core of each kind of crash, opened by `fathom core`; and the report that the program wrote itself.

FATHOM_CORE_KINDS=short runs the rows that are marked so, and only cases without "long" in their name. Each ends when its condition is true.
"""

import fcntl
import json
import os
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import unittest

from control_rig import SystemTest
from core_rig import HELD, CoreTest
from harness import ENGINE, FATHOM, TOP, RpcError, run, wait_for
from server_rig import SERVER

sys.path.insert(0, os.path.join(TOP, "test/unit/control/agent"))

import agent_rig  # noqa: E402

SHORT = os.environ.get("FATHOM_CORE_KINDS") == "short"
INCOMPLETE, ERROR = 1, 2
PLACE = r" at src/data/engine/rpc/crash\.c:\d+"
OVERFLOW = r"^SIGSEGV: .*: the stack has overflowed, in recurse_without_end\(\)"

KINDS = (   # how, where, whether it is short, the words of the crash, where the address lies
    ("store", "reactor", False, r"^SIGSEGV: write of 4 bytes at address 0x40, near the null pointer, in crash_store\(\)" + PLACE, "nothing is mapped there"),
    ("unmapped", "reactor", False, r"^SIGSEGV: write of 8 bytes at address 0x\w+, the pointer 0x\w+ in register \w+ plus 8, in crash_unmapped\(\)" + PLACE, "nothing is mapped there"),
    ("constant", "control", True, r"^SIGSEGV: write of 4 bytes at address 0x\w+, .*which is read-only, in crash_constant\(\)" + PLACE, r"r--, .*/fathom-engine at offset"),
    ("jump", "reactor", False, r"^SIGSEGV: a jump to address 0x123456789000", "nothing is mapped there"),
    ("call", "reactor", False, r"^SIGSEGV: a jump to address 0x0: a call of a null pointer", "nothing is mapped there"),
    ("wild", "completion", True, r"^SIGSEGV: read of 8 bytes at address 0x6b6b6b6b6b6b6b6b; this is no address at all", "nothing is mapped there"),
    ("mapping", "worker", True, r"^SIGBUS: read of 1 byte at address 0x\w+.*: memory behind the end of a mapped file.*, in crash_mapping\(\)" + PLACE, "memfd:crash"),
    ("divide", "reactor", False, r"^SIGFPE: an integer division by zero.*, in crash_divide\(\)" + PLACE, "^$"),
    ("illegal", "control", False, r"^SIGILL: an invalid instruction.*, in crash_illegal\(\)" + PLACE, "fathom-engine"),
    ("abort", "worker", False, r"^SIGABRT: the program called abort\(\), in crash_abort\(\)" + PLACE, "^$"),
    ("free", "reactor", True, r"^SIGABRT: the program called abort\(\), in crash_free\(\)" + PLACE, "^$"),
    ("must", "worker", False, r"^must\(unused == crash_must\) failed" + PLACE + r", in crash_must\(\)", "^$"),
    ("check", "completion", False, r"^must\(crash_room\.used \+ wanted <= 7 \|\| crash_room\.left > 0\) failed" + PLACE + r", in crash_check\(\)", "^$"),
    ("stack", "reactor", False, OVERFLOW, "---"),
    ("stack", "control", False, OVERFLOW, "mapp"),
    ("stack", "worker", False, OVERFLOW, "---"),
    ("stack", "helper", True, OVERFLOW, "---"),
    ("store", "helper", False, r"^SIGSEGV: write of 4 bytes at address 0x40, .*in crash_store\(\)", "nothing is mapped there"),
    ("store", "completion", False, r"^SIGSEGV: write of 4 bytes at address 0x40, .*in crash_store\(\)", "nothing is mapped there"),
)
BELOW = {"control": "main", "worker": "run_job", "helper": "helper_main", "completion": "crash_completion", "reactor": "reactor_main"}


def core_json(core, *words, status=0):
    done = run(FATHOM, "core", "--json", core, *words, check=False)
    if done.returncode != status:
        raise AssertionError(f"exit status {done.returncode}: {done.stderr}{done.stdout[:500]}...{done.stdout[-1000:]}")
    return json.loads(done.stdout)


def functions(thread):
    return [frame["function"] for frame in thread["frames"]]


def zstd_of(data):
    """A frame of zstd without compression: blocks as they are, and one byte for a block of one byte repeated."""
    out, step = [b"\x28\xb5\x2f\xfd\x00\x58"], 1 << 17
    for at in range(0, len(data), step):
        block, last = data[at:at + step], at + step >= len(data)
        same = block == block[:1] * len(block)
        out.append(struct.pack("<I", len(block) << 3 | same << 1 | last)[:3] + (block[:1] if same else block))
    return b"".join(out)


@unittest.skipUnless(CoreTest.has_kernel_cores(None), "the kernel writes no core files here (core_pattern, or the hard limit)")
class Kinds(CoreTest):
    def crash(self, engine, how, where="reactor"):
        """The core, with a name of its own."""
        most = resource.prlimit(engine.pid, resource.RLIMIT_CORE)[1]
        resource.prlimit(engine.pid, resource.RLIMIT_CORE, (most, most))
        try:
            engine.rpc("engine_crash", how=how, where=where)
        except OSError:
            pass    # it may crash before it has replied
        self.assertLess(engine.process.wait(60), 0)
        return self.taken(engine)

    def taken(self, engine):
        return self.take_core(f"core-{engine.pid}")

    def take_core(self, name):
        core = os.path.join(self.directory, name)
        os.rename(next(os.path.join(self.directory, name) for name in os.listdir(self.directory) if re.fullmatch(r"core(\.\d+)?", name)), core)
        return core

    def report(self, engine):
        with open(engine.trace_path + ".crash") as f:
            return f.read()

    def engine_for_crash(self, *options, **kwargs):
        return self.engine("-m", self.two_cpus(), "--test-methods", *options, cwd=self.directory, **kwargs)

    # ---- the table ----

    def test_each_kind_on_each_thread(self):
        for how, where, short, words, mapping in KINDS:
            if SHORT and not short:
                continue
            with self.subTest(how=how, where=where):
                engine = self.engine_for_crash()
                engine.run_commands("bdev_malloc_create -b M0 16 512\n")
                core = self.crash(engine, how, where)
                self.check_core(core_json(core), engine, how, where, words, mapping)
                self.check_report(self.report(engine), how, where)
                os.unlink(core)

    def check_core(self, found, engine, how, where, words, mapping):
        crash, first = found["crash"], found["threads"][0]
        self.assertRegex(crash["text"], words)
        self.assertRegex(crash["mapping"] or "", mapping)
        self.assertEqual((crash["tid"], found["program"]["pid"]), (first["tid"], engine.pid))
        if how not in ("jump", "call", "stack"):    # a stack that has overflowed has too many frames
            self.assertIn(BELOW[where], functions(first))
        if how == "free":
            self.assertRegex(crash["message"], "double free")
        if how == "check":
            self.assertEqual(crash["values"], "crash_room.used = 3, wanted = 5, crash_room.left = -2")
        if where in ("reactor", "completion"):
            self.assertIn("thread reactor_", crash["text"])
        self.assertGreaterEqual(len(found["threads"]), 4)
        self.assertEqual((found["problems"], found["missing"]), ([], {}))
        self.assertEqual(len(found["trace"]), 32)
        self.assertLessEqual({"fathom-engine", "libc.so.6"}, {os.path.basename(row["path"]) for row in found["modules"] if row["build_id"] and row["file"]})

    def check_report(self, report, how, where):
        self.assertRegex(report, r"^crash of process \d+, fathom-engine ")
        self.assertEqual(len(re.findall("<- crashed", report)), 1)
        self.assertRegex(report, {"worker": r"\n  worker, tid \d+, is not in the trace <- crashed\n", "helper": r"\n  file_io, tid \d+, is not in the trace <- crashed\n",
                                  "control": r"\n  control, tid \d+, runs .* <- crashed\n"}.get(where, r"\n  reactor_\d+, tid \d+, runs .* <- crashed\n"))
        self.assertTrue(report.splitlines()[-1].startswith("`fathom core FILE` reads the core"), report)
        self.assertNotIn("cannot be read", report)
        records = report.splitlines()[report.splitlines().index("last records, the newest first:") + 1:-1]
        self.assertEqual(len(records), 32)
        if how == "stack":
            self.assertRegex(report, r"\n  recurse_without_end\S* \(fathom-engine\+0x\w+\), called by itself \d+ times or more\n")

    def test_signals_that_were_sent_long(self):
        for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGSYS, signal.SIGQUIT, signal.SIGXCPU):
            with self.subTest(number):
                # a shell without a terminal starts its jobs with SIGQUIT ignored, which programs inherit
                before = signal.signal(number, signal.SIG_DFL)
                engine = self.engine(cwd=self.directory)
                signal.signal(number, before)
                self.core_of(engine, number)
                core = self.taken(engine)
                self.assertIn(f"{signal.Signals(number).name}: sent by process {os.getpid()}, in ", core_json(core)["crash"]["text"])
                os.unlink(core)

    def test_a_forbidden_system_call_long(self):
        """A program that a filter of system calls ends, as it would end the jail of the probe registry."""
        program = ("import ctypes, os, resource, struct; resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2); libc = ctypes.CDLL(None, use_errno=True);"
                   "code = struct.pack('HBBIHBBIHBBIHBBI', 0x20, 0, 0, 0, 0x15, 0, 1, 39, 0x06, 0, 0, 0x80000000, 0x06, 0, 0, 0x7fff0000); keep = ctypes.create_string_buffer(code);"
                   "filter = struct.pack('HxxxxxxP', 4, ctypes.addressof(keep)); libc.prctl(38, 1, 0, 0, 0); libc.prctl(22, 2, ctypes.create_string_buffer(filter)); libc.getpid()")
        done = subprocess.run([sys.executable, "-c", program], cwd=self.directory)
        self.assertEqual(done.returncode, -signal.SIGSYS)
        found = json.loads(run(FATHOM, "core", "--json", self.take_core("core-sys"), check=False).stdout)
        self.assertRegex(found["crash"]["text"], r"^SIGSYS: system call 39, which a filter \(seccomp\) forbids, in \w*getpid")

    # ---- the report ----

    def test_a_stack_overflow_without_a_trace_is_reported_in_the_log_long(self):
        engine = self.engine_for_crash("--num-trace-entries", "0")
        core = self.crash(engine, "stack", "control")
        self.assertRegex(core_json(core, "crash")["crash"]["text"], OVERFLOW)
        self.assertIn("called by itself", engine.log_text())
        self.assertIn("is not in the trace <- crashed", engine.log_text())

    def test_a_crash_while_a_crash_is_reported_leaves_a_part_out(self):
        """The trace file is truncated: each access to it in the handler is a crash of its own."""
        engine = self.engine_for_crash()
        most = resource.prlimit(engine.pid, resource.RLIMIT_CORE)[1]
        resource.prlimit(engine.pid, resource.RLIMIT_CORE, (most, most))
        os.truncate(engine.trace_path, 0)
        self.assertEqual(engine.process.wait(60), -signal.SIGBUS)
        report = self.report(engine)
        self.assertRegex(report, r"^crash of process \d+, +\.\.\. \(the rest of this part cannot be read\)\n")
        self.assertRegex(report, r"\nSIGBUS, code 2, address 0x\w+, thread \d+, in ")
        self.assertIn("\nbacktrace:\n", report)
        self.assertTrue(report.splitlines()[-1].startswith("`fathom core FILE` reads the core"), report)
        found = json.loads(run(FATHOM, "core", "--json", self.taken(engine), check=False).stdout)
        self.assertRegex(found["crash"]["text"], r"^SIGBUS: .*memory behind the end of a mapped file")
        self.assertIn("holds no trace", found["program"]["trace_problem"])
        self.assertEqual((found["trace"], bool(found["reactors"])), ([], True))

    def test_a_log_that_is_not_read_does_not_hold_a_crash_long(self):
        read, write = os.pipe()
        engine = self.engine_for_crash(preexec_fn=lambda: (os.dup2(write, 1), os.dup2(write, 2)))
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
        own = os.open(f"/proc/self/fd/{write}", os.O_WRONLY | os.O_NONBLOCK)
        try:
            while os.write(own, b"x" * 4096):
                pass
        except BlockingIOError:
            pass
        self.crash(engine, "store")
        self.assertIn("last records, the newest first:", self.report(engine))
        for fd in (read, write, own):
            os.close(fd)

    def test_the_trace_and_the_doctor_name_the_report(self):
        engine = self.engine_for_crash()
        self.crash(engine, "store")
        path = engine.trace_path + ".crash"
        self.assertIn(f"# the report of the crash: {path}\n", engine.trace("-f", engine.trace_path).stdout)
        doctor = json.loads(run(FATHOM, "doctor", "--json", engine.trace_path, check=False).stdout)
        self.assertIn(f"cat {path}", json.dumps(doctor["findings"][0]))

    # ---- under load, and what is missing ----

    def test_a_crash_under_load_with_and_without_the_programs_parts(self):
        """One core: with the program, with its debug file, stripped, replaced, missing; truncated, compressed, of another machine."""
        folder = os.path.join(self.directory, "bin")
        os.mkdir(folder)
        program = shutil.copy(ENGINE, folder)
        engine = self.engine_with_held_reads(program=program, options=["--test-methods"])
        core = self.crash(engine, "store")
        whole = core_json(core)
        self.assertEqual((len(whole["io"]), whole["by_trace"]), (HELD, ["in-progress"]))
        self.assertGreaterEqual(len([row for row in whole["in_progress"] if row["object"] == "nvmf_req"]), HELD)
        run("objcopy", "--only-keep-debug", program, os.path.join(self.directory, "debug"))
        run("strip", program)
        self.check_without_debug_information(core, whole, "has no debug information")
        os.rename(os.path.join(self.directory, "debug"), program + ".debug")
        run("objcopy", f"--add-gnu-debuglink={program}.debug", program)
        self.check_same(core_json(core), whole)
        os.unlink(program + ".debug")
        shutil.copy(FATHOM, program)
        found = self.check_without_debug_information(core, whole, "has another build-id", "--program", program)
        self.assertIn("has another build-id", found["program"]["program_problem"])
        os.unlink(program)
        if not SHORT:
            self.check_packed(core)
            self.check_other_machines(core)
            self.check_truncated(core)

    @staticmethod
    def rows_of(found):
        return [{key: row[key] for key in row if key not in ("address", "host_nqn")} for row in found["io"]]

    def check_same(self, found, whole):
        for key in ("crash", "threads", "io", "devices", "qpairs", "reactors", "pollers"):
            self.assertEqual(found[key], whole[key])

    def check_without_debug_information(self, core, whole, problem, *words):
        found = core_json(core, *words, status=INCOMPLETE)
        self.assertEqual(self.rows_of(found), self.rows_of(whole))
        self.assertEqual((found["by_trace"], found["in_progress"]), (["io", "in-progress"], whole["in_progress"]))
        self.assertEqual(found["reactors"], [])
        self.assertIn("not known: ", found["missing"]["reactors"])
        self.assertLessEqual({"reactors", "devices", "qpairs", "volumes"}, set(found["missing"]))
        self.assertTrue(any(problem in line for line in found["problems"]), found["problems"])
        self.assertEqual([thread["tid"] for thread in found["threads"]], [thread["tid"] for thread in whole["threads"]])
        self.assertTrue(found["threads"][0]["frames"])
        text = run(FATHOM, "core", core, *words, check=False).stdout
        self.assertIn(f"io: {HELD}, by the trace\n", text)
        self.assertNotIn("reactors: ", text)
        return found

    def check_packed(self, core):
        packed = os.path.join(self.directory, "core.zst")
        with open(core, "rb") as f, open(packed, "wb") as out:
            data = zstd_of(f.read())
            out.write(data)
        done = run(FATHOM, "core", "--json", "--program", ENGINE, packed)
        found = json.loads(done.stdout)
        self.assertEqual((found["program"]["core"], len(found["io"]), len(found["trace"])), (packed, HELD, 32))
        self.assertIn("process_signal", run(FATHOM, "trace", "-f", packed).stdout.lower())
        os.truncate(packed, len(data) // 2)
        found = json.loads(run(FATHOM, "core", "--json", packed, check=False).stdout)
        self.assertTrue(found["program"]["truncated"])
        for magic, command in ((b"\x04\x22\x4d\x18", "lz4 -d"), (b"\xfd7zXZ\0", "xz -d"), (b"\x1f\x8b\x08\0", "gzip -d"), (b"BZh91AY", "bzip2 -d")):
            with open(packed, "wb") as out:
                out.write(magic + bytes(100))
            done = run(FATHOM, "core", packed, check=False)
            self.assertEqual((done.returncode, done.stdout), (ERROR, ""))
            self.assertIn(f"decompress it first by `{command}`", done.stderr)

    def check_other_machines(self, core):
        for at, value, words in ((4, 1, "is of a 32-bit program"), (5, 2, "is of a big-endian program")):
            self.patch(core, at, bytes([value]))
            done = run(FATHOM, "core", core, check=False)
            self.assertEqual((done.returncode, done.stdout), (ERROR, ""))
            self.assertIn(words, done.stderr)
            self.patch(core, at, bytes([3 - value]))
        for machine in (183, 243):      # aarch64, RISC-V
            self.patch(core, 18, struct.pack("<H", machine))
            found = core_json(core, "--program", ENGINE, status=INCOMPLETE if machine == 243 else 0)
            self.assertEqual(len(found["io"]), HELD)
            self.assertEqual(any("another kind of machine (ELF's number 243)" in line for line in found["problems"]), machine == 243)
        self.patch(core, 18, struct.pack("<H", 62))

    @staticmethod
    def patch(core, at, data):
        with open(core, "r+b") as f:
            f.seek(at)
            f.write(data)

    def check_truncated(self, core):
        size = os.path.getsize(core)
        for part in (0.9, 0.7, 0.3, 0.01, 20000 / size, 5000 / size):
            os.truncate(core, int(size * part))
            found = json.loads(run(FATHOM, "core", "--json", "--program", ENGINE, core, check=False).stdout)
            self.assertTrue(found["program"]["truncated"])
            self.assertTrue(any("the core is truncated" in line for line in found["problems"]), found["problems"])
        os.truncate(core, 63)
        done = run(FATHOM, "core", core, check=False)
        self.assertEqual((done.returncode, done.stdout), (ERROR, ""))

    def test_cores_without_some_kinds_of_memory_long(self):
        """0: nothing but notes. 1: private memory alone. 0x31: without shared memory. 0x7b: all but pages of private files."""
        for mask, objects, trace in ((0, False, False), (1, True, False), (0x31, True, False), (0x3b, True, True), (0x7b, True, True)):
            with self.subTest(mask):
                engine = self.engine_for_crash()
                with open(f"/proc/{engine.pid}/coredump_filter", "w") as f:
                    f.write(hex(mask))
                core = self.crash(engine, "store")
                done = run(FATHOM, "core", "--json", core, check=False)
                self.assertIn(done.returncode, (0, INCOMPLETE))
                found = json.loads(done.stdout)
                self.assertIn("SIGSEGV: ", found["crash"]["text"])
                self.assertEqual((bool(found["trace"]), bool(found.get("reactors"))), (trace, objects), found["problems"])
                os.unlink(core)


@unittest.skipUnless(CoreTest.has_kernel_cores(None), "the kernel writes no core files here (core_pattern, or the hard limit)")
class Daemons(SystemTest):
    """A server and an agent crash at a point of fault injection."""

    def setUp(self):
        super().setUp()
        if "fault injection" not in run(SERVER, "version").stdout:
            self.skipTest("a build without fault injection")
        before = os.getcwd(), resource.getrlimit(resource.RLIMIT_CORE)
        os.chdir(self.directory)        # the kernel writes the core there
        self.addCleanup(os.chdir, before[0])
        resource.setrlimit(resource.RLIMIT_CORE, (before[1][1],) * 2)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_CORE, before[1])

    def core(self):
        return next(os.path.join(self.directory, name) for name in os.listdir(self.directory) if re.fullmatch(r"core(\.\d+)?", name))

    def test_a_server(self):
        system = self.system(1)
        system.fathom("server", "faults", "--arm", "db_write=crash,count=1")
        system.fathom("pool", "create", "p1", check=False, timeout=120)
        self.assertEqual(system.process.wait(60), -signal.SIGABRT)
        found = core_json(self.core())
        self.assertEqual(found["crash"]["text"][:8], "SIGABRT:")
        self.assertIn("inject_pass", functions(found["threads"][0]))
        self.assertEqual(([row["rank"] for row in found["members"]], [row["index"] for row in found["instances"]], found["missing"]), ([0], [0], {}))
        self.assertTrue(found["calls"] and found["pollers"])
        self.assertIn("ERROR: crash: SIGABRT, code -6, ", system.log_text())

    def test_an_agent(self):
        folder = os.path.join(self.directory, "client")
        os.mkdir(folder)
        os.environ["FATHOM_INJECT"] = "drpc_receive=crash"
        self.addCleanup(os.environ.pop, "FATHOM_INJECT")
        agent = agent_rig.Agent(folder, ["127.0.0.1:1"], "name: test", None)
        self.addCleanup(agent.discard)
        agent.start()
        try:
            agent.attach_info()
        except (OSError, RpcError, AssertionError):
            pass        # it crashed
        self.assertEqual(agent.process.wait(60), -signal.SIGABRT)
        wait_for(lambda: any(name.startswith("core") for name in os.listdir(self.directory)))
        found = core_json(self.core())
        self.assertIn("inject_pass", functions(found["threads"][0]))
        self.assertEqual((found["program"]["debug_information"], os.path.basename(found["program"]["program"])), (True, "fathom-agent"))
        self.assertTrue(found["trace"])


def load_tests(loader, tests, pattern):
    """Leave the long cases out of a short run."""
    def kept(suite):
        for test in suite:
            if isinstance(test, unittest.TestSuite):
                yield from kept(test)
            elif not (SHORT and test.id().endswith("_long")):
                yield test
    return unittest.TestSuite(kept(tests))


if __name__ == "__main__":
    unittest.main()
