# SPDX-License-Identifier: BSD-2-Clause
"""`fathom probe check` against what happens: its answer under confinements is compared with bpftrace's attempt under the same."""

import ctypes
import json
import os
import shutil
import struct
import subprocess
import threading
import unittest

from harness import ENGINE, FATHOM, EngineTest, need_to_attach, run

NOBODY = 65534
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
SECCOMP_ALLOW, SECCOMP_EPERM = 0x7FFF0000, 0x00050000 | 1
SYSCALLS = {"bpf": 321, "perf_event_open": 298}     # x86-64


def refuse(name):
    """A seccomp filter that has one system call fail with EPERM, from here on."""
    code = [(0x20, 0, 0, 0), (0x15, 0, 1, SYSCALLS[name]), (0x06, 0, 0, SECCOMP_EPERM), (0x06, 0, 0, SECCOMP_ALLOW)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in code))

    class Filter(ctypes.Structure):
        _fields_ = [("count", ctypes.c_ushort), ("code", ctypes.c_void_p)]

    wanted = Filter(len(code), ctypes.addressof(program))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(wanted), 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")


# how to run a command in it, and the obstacle that must be reported: "" for none, None if that depends on the kernel
CONFINEMENTS = {
    "root": ([], ""),
    "the capabilities of our advice": (["setpriv", "--bounding-set", "-all,+sys_admin,+sys_ptrace"], ""),
    "those of Linux 5.8": (["setpriv", "--bounding-set", "-all,+bpf,+perfmon,+sys_ptrace"], None),
    "no capabilities": (["setpriv", "--bounding-set", "-all"], "capabilities"),
    "one of the two": (["setpriv", "--bounding-set", "-all,+bpf,+sys_ptrace"], "capabilities"),
    "an ordinary user": (["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"], "bpftrace"),
    "a user namespace": (["unshare", "--user", "--map-root-user"], "user namespace"),
    "a filter without bpf": ("bpf", "BPF program"),
    "a filter without perf_event_open": ("perf_event_open", "uprobe"),
    "no /sys": (["unshare", "--mount", "sh", "-c", 'umount -R /sys; exec "$@"', "sh"], "uprobe"),
}


class Checking(EngineTest):
    @classmethod
    def setUpClass(cls):
        need_to_attach("bpftrace", "setpriv", "unshare")

    def setUp(self):
        super().setUp()
        os.chmod(self.directory, 0o755)
        self.program = os.path.join(self.directory, "fathom-engine")
        shutil.copy(ENGINE, self.program)
        self.traced = self.engine(program=self.program)

    def confined(self, how, *command):
        words, setup = (how, None) if isinstance(how, list) else ([], lambda: refuse(how))
        return subprocess.run([*words, *command], capture_output=True, text=True, timeout=60, check=False, preexec_fn=setup)

    def bpftrace_sees(self, how, path):
        """Whether it sees remote procedure calls that are made meanwhile."""
        stop = threading.Event()

        def call():
            while not stop.wait(0.2):
                self.traced.rpc("spdk_get_version")

        caller = threading.Thread(target=call)
        caller.start()
        try:
            done = self.confined(how, "timeout", "-s", "INT", "10", "bpftrace", "-p", str(self.traced.pid), "-e",
                                 f'usdt:{path}:fathom:rpc_request_received {{ printf("seen\\n"); exit(); }}')
        finally:
            stop.set()
            caller.join()
        return "seen" in done.stdout

    def check(self, how):
        done = self.confined(how, FATHOM, "probe", "check", "--json", str(self.traced.pid))
        self.assertIn(done.returncode, (0, 1), done.stderr)
        answer = json.loads(done.stdout)
        self.assertEqual(answer["may_attach"], done.returncode == 0)
        return answer, {row["requirement"]: row["met"] for row in answer["requirements"]}

    def test_the_answer_is_what_bpftrace_finds(self):
        for name, (how, in_the_way) in CONFINEMENTS.items():
            with self.subTest(name):
                answer, met = self.check(how)
                self.assertEqual(answer["may_attach"], self.bpftrace_sees(how, self.program), answer)
                if in_the_way is not None:
                    self.assertEqual(answer["may_attach"], in_the_way == "", answer)
                if in_the_way:
                    self.assertIs(met[in_the_way], False, answer)

    def test_a_file_that_is_not_the_one_running(self):
        os.unlink(self.program)
        answer, met = self.check([])
        self.assertIs(met["file"], False)
        self.assertIn("is gone", answer["requirements"][1]["why"])
        shutil.copy(FATHOM, self.program)       # somebody installs something else under its name
        answer, met = self.check([])
        self.assertIs(met["file"], False)
        self.assertRegex(answer["requirements"][1]["why"], r"build-id [0-9a-f]{40} there, [0-9a-f]{40} runs")
        self.assertFalse(self.bpftrace_sees([], self.program))

    def test_a_program_without_notes(self):
        done = run(FATHOM, "probe", "check", str(os.getpid()), check=False)
        if "may the kernel attach" not in done.stdout:      # Debian's python has probes of its own
            self.assertIn("has no probes", done.stderr)
            self.assertEqual(done.returncode, 1)

    def test_what_a_container_needs_is_said_where_rights_are_missing(self):
        text = self.confined(CONFINEMENTS["no capabilities"][0], FATHOM, "probe", "check", str(self.traced.pid)).stdout
        self.assertIn("--cap-add=SYS_ADMIN --cap-add=SYS_PTRACE", text)
        self.assertIn("add: [SYS_ADMIN, SYS_PTRACE]", text)
        self.assertNotIn("docker", run(FATHOM, "probe", "check", str(self.traced.pid)).stdout)


if __name__ == "__main__":
    unittest.main()
