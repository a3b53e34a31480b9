# SPDX-License-Identifier: BSD-2-Clause
"""
fathom-helper's privileges: set-user-ID for an ordinary user, and how it confines itself. Needs root and loop devices.
"""

import os
import shutil
import unittest

from harness import BIN, run
from helper_rig import FORMAT, HELPER, PING, HelperTest
from loop_device import NOBODY, NO_LOOP


@unittest.skipIf(NO_LOOP, NO_LOOP or "")
class SetUserId(HelperTest):
    """The helper as installed: set-user-ID root, started by an ordinary user, with its list in /etc/fathom (of a private mount namespace)."""

    def setUp(self):
        super().setUp()
        self.program = os.path.join(self.folder, "fathom-helper")
        shutil.copy(HELPER, self.program)
        os.chown(self.program, 0, NOBODY)
        os.chmod(self.program, 0o4750)

    def run_as_nobody(self, *words):
        return run("setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", self.program, *words, check=False)

    def test_a_list_given_by_an_ordinary_user_is_refused(self):
        done = self.run_as_nobody("--config", self.config, "--check")
        self.assertEqual(done.returncode, 2)
        self.assertIn("only for root", done.stderr)
        done = run("setpriv", "--reuid", "1", "--regid", "1", "--clear-groups", self.program, "--check", check=False)
        self.assertNotEqual(done.returncode, 0)  # the mode lets only its group start it

    def run_as_server(self, script, setup="", **values):
        """Run SERVER and `script` as one program of an ordinary user who may start the helper. root runs `setup` before, in the same namespace."""
        path = os.path.join(self.folder, "server.py")
        modules = os.path.join(self.folder, "modules")  # this folder at a path that the user can reach: a clone may lie below one of mode 0700
        os.mkdir(modules)
        with open(path, "w") as file:
            file.write((SERVER + script).format(folder=modules, program=self.program, **values))
        done = run("unshare", "-m", "sh", "-e", "-c", f"""
            mount --make-rprivate /
            mount --bind {os.path.dirname(os.path.abspath(__file__))} {modules}
            cp /etc/passwd {self.folder}/passwd
            mount -t tmpfs none /etc
            mkdir /etc/fathom
            cp {self.folder}/passwd /etc/passwd
            printf 'user nobody\nmounts {self.mounts}\ndevice loop*\n' > /etc/fathom/helper.conf
            {setup}
            exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups {shutil.which("python3", path="/usr/bin:/bin")} {path}
            """, check=False, env={"FATHOM_BIN": BIN, "PATH": os.environ["PATH"]})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("all done", done.stdout)

    def test_an_ordinary_user_formats_and_mounts_through_the_helper_and_may_kill_it(self):
        self.run_as_server(FORMATTING, device=self.loop(), target=self.mounts + "/engine0")

    def test_mkfs_runs_as_root_and_ends_with_the_helper(self):
        slow, began = os.path.join(self.folder, "mkfs.xfs"), os.path.join(self.folder, "began")
        with open(slow, "w") as file:
            file.write(f"#!/bin/sh\necho $$ > {began}\nexec sleep 100\n")
        os.chmod(slow, 0o755)
        open(began, "w").close()  # made by root, so that mkfs can write and the ordinary user read it
        self.run_as_server(KILLING, f"mount --bind {slow} /usr/sbin/mkfs.xfs", device=self.loop(), began=began)

SERVER = """
import atexit, errno, os, signal, socket, sys
sys.path.insert(0, "{folder}")
import helper_rig as t

ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
theirs.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
pid = os.fork()
if pid == 0:
    os.dup2(theirs.fileno(), 200)
    os.dup2(200, 3)
    os.execv("{program}", ["fathom-helper"])
theirs.close()
atexit.register(os.kill, pid, signal.SIGKILL)  # its pid is not reused: no process reaps it before


def call(operation, *values):
    ours.send(t.frame(operation, *values))
    answer = t.unpack(ours.recv(65536))
    assert answer[2] == 0, answer
    return answer[3]


"""
FORMATTING = """
assert call(t.PING)["privileged"] == 1
assert call(t.FORMAT, "{device}", "x", 0)["label"] == "x"
call(t.MOUNT, "{device}", "{target}", "x")
with open("{target}/data", "w") as file:
    file.write("an ordinary user's")
call(t.UNMOUNT, "{target}")
call(t.PREPARE, "{device}", t.OWN)
os.close(os.open("{device}", os.O_RDWR))
os.kill(pid, signal.SIGKILL)
assert os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT).si_status == signal.SIGKILL
print("all done")
"""
KILLING = """
import time

ours.send(t.frame(t.FORMAT, "{device}", "x", 0))
deadline = time.monotonic() + t.ANSWER_SECONDS
while "\\n" not in open("{began}").read():
    assert time.monotonic() < deadline, "mkfs.xfs did not begin"
    time.sleep(0.01)
mkfs = int(open("{began}").read())
status = open(f"/proc/{{mkfs}}/status").read()
assert "\\nUid:\\t0\\t0\\t0\\t0\\n" in status, status
try:
    os.kill(mkfs, signal.SIGTERM)
except PermissionError:
    pass
else:
    raise AssertionError("an ordinary user may end mkfs.xfs")
os.kill(pid, signal.SIGKILL)
deadline = time.monotonic() + 60
while os.path.exists(f"/proc/{{mkfs}}"):
    assert time.monotonic() < deadline, "mkfs.xfs lives on: " + open(f"/proc/{{mkfs}}/status").read()
    time.sleep(0.01)
print("all done")
"""


@unittest.skipIf(NO_LOOP, NO_LOOP or "")
class HelperConfinement(HelperTest):
    def status(self, pid):
        return dict(line.rstrip("\n").split(":\t", 1) for line in open(f"/proc/{pid}/status") if ":\t" in line)

    def test_the_helper_has_a_seccomp_filter_no_environment_and_few_capabilities(self):
        helper = self.helper(env={"LD_BIND_NOW": "1", "SECRET": "x", "PATH": "/tmp"})
        helper.call(PING)
        status = self.status(helper.pid)
        self.assertEqual(status["Seccomp"].strip(), "2")
        self.assertEqual(status["NoNewPrivs"].strip(), "1")
        wanted = 1 << 0 | 1 << 1 | 1 << 3 | 1 << 21  # CHOWN, DAC_OVERRIDE, FOWNER, SYS_ADMIN
        for name in ("CapPrm", "CapEff", "CapBnd"):
            self.assertEqual(int(status[name], 16), wanted, name)
        for name in ("CapInh", "CapAmb"):
            self.assertEqual(int(status[name], 16), 0, name)
        self.assertEqual(os.readlink(f"/proc/{helper.pid}/cwd"), "/")
        if shutil.which("gdb"):
            out = run("gdb", "-p", helper.pid, "-batch", "-ex", "print (void *)environ", check=False)
            self.assertIn("= (void *) 0x0", out.stdout + out.stderr)

    def test_mkfs_has_a_second_filter_and_fewer_capabilities(self):
        helper, device = self.helper(), self.loop()
        number = helper.send(FORMAT, device, "x", 0)
        seen = None
        while seen is None and helper.children():
            for pid in helper.children():
                try:
                    seen = self.status(pid) if int(self.status(pid)["Seccomp_filters"]) > 1 else None
                except (OSError, KeyError):
                    pass
        self.assertEqual(helper.receive()[1:3], (number, 0))
        if seen is None:
            self.skipTest("mkfs.xfs ended before its status was read")
        self.assertEqual(int(seen["CapEff"], 16), 1 << 1 | 1 << 21)


if __name__ == "__main__":
    unittest.main()
