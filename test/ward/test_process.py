# SPDX-License-Identifier: BSD-2-Clause
"""Processes that are stopped, held, killed or crashed, threads that do not turn, and programs that are not those on disk."""

import json
import os
import re
import resource
import shutil
import signal
import socket
import sys
import tarfile
import unittest

from ward import FATHOM, Ward, diagnose, allow_cores, illness, run, wait_for

from harness import ENGINE, RpcError

HOLD_THREAD = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
for tid in map(int, sys.argv[1:]):
    if libc.ptrace(0x4206, tid, None, None) or libc.ptrace(0x4207, tid, None, None):    # PTRACE_SEIZE, PTRACE_INTERRUPT
        sys.exit(1)
time.sleep(3600)
"""


class Process(Ward):
    def serving(self, *options, **kwargs):
        engine = self.engine("--test-methods", *options, **kwargs)
        engine.serve("bdev_malloc_create", "-b", "M0", 16, 512)
        return engine

    @illness("the process is stopped", "process_stopped")
    def test_a_stopped_process(self):
        engine = self.serving()
        os.kill(engine.pid, signal.SIGSTOP)
        self.check(engine.pid)

    def threads(self, engine):
        return sorted(int(tid) for tid in os.listdir(f"/proc/{engine.pid}/task"))

    def hold(self, engine, tids):
        program = self.program(sys.executable, "-c", HOLD_THREAD, *tids)
        wait_for(lambda: program.poll() is not None or all(re.search(r"State:\s+t", open(f"/proc/{engine.pid}/task/{tid}/status").read()) for tid in tids))
        if program.poll() is not None:
            raise unittest.SkipTest("a process may not be traced here")

    @illness("a debugger holds the process", "process_traced")
    def test_a_process_in_a_debugger(self):
        engine = self.serving()
        self.hold(engine, self.threads(engine))
        self.check(engine.pid)

    @illness("a debugger holds the control thread", "thread_held")
    def test_a_thread_in_a_debugger(self):
        engine = self.serving()
        self.hold(engine, [engine.pid])
        self.check(engine.pid)

    def wait_held(self, engine):
        """Wait until reactor 0 has not turned for three seconds."""
        wait_for(lambda: re.search(r"reactor_0.*runs reactor_hold .* for ([3-9]|\d\d)[.]\d* s", engine.trace("threads", "-f", engine.trace_path).stdout))

    @illness("a reactor sleeps in a system call", "reactor_blocked")
    def test_a_poller_that_sleeps(self):
        engine = self.serving()
        engine.rpc("reactor_hold", reactor=0, milliseconds=60000)
        self.wait_held(engine)
        self.check(engine.pid)

    @illness("a poller does not return", "reactor_runaway")
    def test_a_poller_that_does_not_return(self):
        def start():    # it must get CPU time, whatever else runs on this machine
            allow_cores()
            os.nice(-15 if os.geteuid() == 0 else 0)
        engine = self.serving(preexec_fn=start)
        engine.rpc("reactor_hold", reactor=0, milliseconds=60000, busy=True)
        self.wait_held(engine)
        self.check_with_cpu(engine.pid)

    def hold_control(self, how):
        engine = self.serving()
        engine.rpc("control_hold", how=how)
        wait_for(lambda: re.search(r"(?m)^control .*runs .* for ([3-9]|\d\d)[.]\d* s", engine.trace("threads", "-f", engine.trace_path).stdout), pause=0.2)
        return self.check(engine.pid)["findings"][0]

    @illness("the control thread and another one wait for each other's locks", "threads_deadlocked")
    def test_a_deadlock(self):
        self.assertRegex(self.hold_control("locks")["says"], r"control \(tid \d+\) for second_lock, second_lock \(tid \d+\) for control$")

    @illness("a system call of the control thread does not return", "control_blocked")
    def test_a_blocked_call(self):
        first = self.hold_control("call")
        self.assertIn("read()", first["says"])
        self.assertRegex("\n".join(first["evidence"]), r"(?m)^the call is on descriptor \d+: pipe:\[\d+\]$")

    @illness("the program that takes the engine's log does not read it", "control_blocked")
    def test_a_log_that_is_not_read(self):
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        def start():
            allow_cores()
            os.dup2(writer, 1)
            os.dup2(writer, 2)
        engine = self.serving(preexec_fn=start)
        os.set_blocking(writer, True)
        own = os.open(f"/proc/self/fd/{writer}", os.O_WRONLY | os.O_NONBLOCK)
        try:
            while True:
                os.write(own, bytes(1))
        except BlockingIOError:
            pass
        os.close(own)
        os.close(writer)
        with socket.socket(socket.AF_UNIX) as client:   # the engine logs that this call has no meaning
            client.connect(engine.sock)
            client.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "bdev_nvme_set_hotplug", "params": {"enable": False}}).encode())
            wait_for(lambda: re.search(r"(?m)^control .*runs .* for ([3-9]|\d\d)[.]\d* s", engine.trace("threads", "-f", engine.trace_path).stdout), pause=0.2)
            first = self.check(engine.pid)["findings"][0]
        self.assertIn("write()", first["says"])
        self.assertRegex("\n".join(first["evidence"]), r"(?m)^the call is on descriptor [12]: pipe:\[\d+\]$")

    def test_messages_that_a_thread_does_not_take(self):
        """They follow from the reactor that does not turn, and are gone with it."""
        engine = self.serving()
        engine.rpc("reactor_hold", reactor=0, milliseconds=60000)
        run(FATHOM, "rpc", "-s", engine.sock, "-t", 1, "nvmf_get_stats", check=False)      # a message to each poll group
        self.wait_held(engine)

        def find():
            found = [row for row in diagnose(engine.pid)["findings"] if row["name"] == "reactor_silent"]
            return found[0] if found else None
        found = wait_for(find)
        self.assertRegex(found["says"], r"does not consume its messages: [1-9]\d* wait for the light thread nvmf_tgt_poll_group_000, the oldest for \d")
        self.assertEqual((found["because_of"], found["certainty"]), ("reactor_blocked", "certain"))

    @illness("the process was killed", "process_killed")
    def test_kill_9(self):
        engine = self.serving()
        engine.kill()
        self.check(engine.trace_path)

    def crash(self, how, **where):
        engine = self.serving()
        try:
            engine.rpc("engine_crash", how=how, **where)
        except (OSError, RpcError):
            pass
        engine.process.wait(60)
        return engine

    @illness("a must() failed", "must_failed")
    def test_a_failed_must(self):
        self.check(self.crash("must").trace_path)

    @illness("a store to an unmapped address", "process_crashed")
    def test_a_crash(self):
        engine, path = self.crash("store"), os.path.join(self.directory, "bundle.tar")
        self.check(engine.trace_path)
        run(FATHOM, "doctor", "--bundle", path, engine.trace_path, check=False)
        with tarfile.open(path) as archive:     # also the report that the engine wrote
            self.assertIn(b"crash_store", archive.extractfile("crash.txt").read())

    @illness("another process sent SIGSEGV", "process_crashed")
    def test_a_signal_that_was_sent(self):
        engine = self.serving()
        engine.process.send_signal(signal.SIGSEGV)
        engine.process.wait(60)
        shown = "\n".join(self.check(engine.trace_path)["findings"][0]["evidence"])
        self.assertRegex(shown, rf"(?m)^thread \d+, at offset 0x\w+ of the file, sent by process {os.getpid()}$")

    @illness("a crash in the completion of an I/O", "process_crashed")
    def test_a_crash_in_a_completion(self):
        first = self.check(self.crash("store", where="completion").trace_path)["findings"][0]
        self.assertRegex(first["says"], r"ended by SIGSEGV in crash_store\b")
        self.assertRegex("\n".join(first["evidence"]), r"(?m)^called from crash_completion\b")

    @illness("the engine was stopped in an orderly way", "process_ended")
    def test_an_orderly_end(self):
        engine = self.serving()
        self.assertEqual(engine.stop(), 0)
        self.check(engine.trace_path)

    @illness("the control socket was removed", "control_missing")
    def test_a_removed_socket(self):
        engine = self.serving()
        os.unlink(engine.sock)
        self.check(engine.pid)


class Program(Ward):
    def copy(self, source):
        path = os.path.join(self.directory, os.path.basename(source))
        shutil.copy(os.path.realpath(source), path)
        return path

    def replace(self, path):
        """As a package manager does: a new file gets the name."""
        with open(path, "rb") as old, open(path + ".new", "wb") as new:
            new.write(old.read())
        os.chmod(path + ".new", 0o755)
        os.rename(path + ".new", path)

    @illness("the program was replaced on disk", "program_replaced")
    def test_a_replaced_program(self):
        program = self.copy(ENGINE)
        engine = self.engine(program=program)
        self.replace(program)
        self.check(engine.pid)

    @illness("a library was replaced on disk", "library_replaced")
    def test_a_replaced_library(self):
        listed = run("ldd", ENGINE).stdout
        name, path = re.search(r"(libjansson\S*) => (\S+)", listed).groups()
        library = os.path.join(self.directory, name)
        shutil.copy(os.path.realpath(path), library)
        engine = self.engine(env={"LD_LIBRARY_PATH": self.directory})
        self.replace(library)
        self.check(engine.pid)

    @illness("the program has no symbols", "program_stripped")
    def test_a_stripped_program(self):
        program = self.copy(ENGINE)
        if not shutil.which("strip"):
            raise unittest.SkipTest("strip is missing")
        run("strip", program)
        self.check(self.engine(program=program).pid)

    @illness("a crash would leave no core", "core_lost")
    def test_no_core(self):
        self.check(self.engine(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0))).pid)


if __name__ == "__main__":
    unittest.main()
