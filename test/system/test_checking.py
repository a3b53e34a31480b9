# SPDX-License-Identifier: BSD-2-Clause
"""`fathom probe check` under confinements: its answer must agree with an attempt of bpftrace under the same confinement."""

import ctypes
import json
import os
import shutil
import struct
import subprocess
import threading
import unittest

from harness import ENGINE, FATHOM, EngineTest, skip_unless_attachable, run

NOBODY = 65534
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
SECCOMP_ALLOW, SECCOMP_EPERM = 0x7FFF0000, 0x00050000 | 1
SYSCALLS = {"bpf": 321, "perf_event_open": 298}     # x86-64


def refuse_syscall(name):
    """Make one system call of this process fail with EPERM, by seccomp."""
    code = [(0x20, 0, 0, 0), (0x15, 0, 1, SYSCALLS[name]), (0x06, 0, 0, SECCOMP_EPERM), (0x06, 0, 0, SECCOMP_ALLOW)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in code))

    class Filter(ctypes.Structure):
        _fields_ = [("count", ctypes.c_ushort), ("code", ctypes.c_void_p)]

    wanted = Filter(len(code), ctypes.addressof(program))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(wanted), 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")


# {name: (how to run a command in it, the obstacle that must be reported)}; "": none, None: it depends on the kernel
CONFINEMENTS = {
    "root": ([], ""),
    "the recommended capabilities": (["setpriv", "--bounding-set", "-all,+sys_admin,+sys_ptrace"], ""),
    "bpf and perfmon of Linux 5.8": (["setpriv", "--bounding-set", "-all,+bpf,+perfmon,+sys_ptrace"], None),
    "no capabilities": (["setpriv", "--bounding-set", "-all"], "capabilities"),
    "bpf without perfmon": (["setpriv", "--bounding-set", "-all,+bpf,+sys_ptrace"], "capabilities"),
    "an ordinary user": (["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"], "bpftrace"),
    "a user namespace": (["unshare", "--user", "--map-root-user"], "user namespace"),
    "a filter without bpf": ("bpf", "BPF program"),
    "a filter without perf_event_open": ("perf_event_open", "uprobe"),
    "no /sys": (["unshare", "--mount", "sh", "-c", 'umount -R /sys; exec "$@"', "sh"], "uprobe"),
}


class Checking(EngineTest):
    @classmethod
    def setUpClass(cls):
        skip_unless_attachable("bpftrace", "setpriv", "unshare")

    def setUp(self):
        super().setUp()
        os.chmod(self.directory, 0o755)
        self.program = os.path.join(self.directory, "fathom-engine")
        shutil.copy(ENGINE, self.program)
        self.traced = self.engine(program=self.program)

    def confined(self, how, *command):
        """Run a command under a confinement of CONFINEMENTS."""
        words, setup = (how, None) if isinstance(how, list) else ([], lambda: refuse_syscall(how))
        return subprocess.run([*words, *command], capture_output=True, text=True, timeout=150, check=False, preexec_fn=setup)

    def bpftrace_sees(self, how, path, seconds=10):
        """Whether bpftrace sees the RPCs that are made meanwhile. It ends with the first."""
        stop = threading.Event()

        def call():
            while not stop.wait(0.2):
                self.traced.rpc("spdk_get_version")

        caller = threading.Thread(target=call)
        caller.start()
        try:
            done = self.confined(how, "timeout", "-s", "INT", str(seconds), "bpftrace", "-p", str(self.traced.pid), "-e",
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

    def test_the_answer_agrees_with_an_attempt_of_bpftrace(self):
        for name, (how, in_the_way) in CONFINEMENTS.items():
            with self.subTest(name):
                answer, met = self.check(how)
                self.assertEqual(answer["may_attach"], self.bpftrace_sees(how, self.program, 60 if answer["may_attach"] else 10), answer)
                if in_the_way is not None:
                    self.assertEqual(answer["may_attach"], in_the_way == "", answer)
                if in_the_way:
                    self.assertIs(met[in_the_way], False, answer)

    def test_a_deleted_or_replaced_program_file_is_reported(self):
        os.unlink(self.program)
        answer, met = self.check([])
        self.assertIs(met["file"], False)
        self.assertIn("was removed", answer["requirements"][1]["why"])
        shutil.copy(FATHOM, self.program)       # another program is installed under its name
        answer, met = self.check([])
        self.assertIs(met["file"], False)
        self.assertRegex(answer["requirements"][1]["why"], r"\(build-id [0-9a-f]{40}\) is not the running program \(build-id [0-9a-f]{40}\)")
        self.assertFalse(self.bpftrace_sees([], self.program))

    def test_a_program_without_probes_is_reported(self):
        done = run(FATHOM, "probe", "check", str(os.getpid()), check=False)
        if "can a tracer attach" not in done.stdout:      # Debian's python has probes of its own
            self.assertIn("has no probes", done.stderr)
            self.assertEqual(done.returncode, 1)

    def test_missing_capabilities_are_reported_with_the_options_for_a_container(self):
        text = self.confined(CONFINEMENTS["no capabilities"][0], FATHOM, "probe", "check", str(self.traced.pid)).stdout
        self.assertIn("--cap-add=SYS_ADMIN --cap-add=SYS_PTRACE", text)
        self.assertIn("add: [SYS_ADMIN, SYS_PTRACE]", text)
        self.assertNotIn("docker", run(FATHOM, "probe", "check", str(self.traced.pid)).stdout)


if __name__ == "__main__":
    unittest.main()
