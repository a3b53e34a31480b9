# SPDX-License-Identifier: BSD-2-Clause
"""
fathom-helper by its protocol, and its command line: what it answers, and which requests it rejects. Needs root.
"""

import errno
import os
import resource
import socket
import tempfile
import time
import unittest

from harness import run
from helper_rig import CHECK_FORMAT, FORMAT, HELPER, MOUNT, PING, PREPARE, UNMOUNT, HelperTest, frame


@unittest.skipIf(os.geteuid() != 0, "the helper's list must belong to root")
class Protocol(HelperTest):
    def test_an_idle_helper_with_few_descriptors_does_not_spin(self):
        helper = self.helper()
        resource.prlimit(helper.pid, resource.RLIMIT_NOFILE, (10, 10))
        helper.call(PING)       # ends the wait that began before the limit changed
        before = helper.cpu_ticks()
        time.sleep(0.5)     # a busy loop takes 50 ticks of 10 ms
        self.assertLess(helper.cpu_ticks() - before, 15)
        helper.call(PING)

    def test_ping_returns_the_version_and_whether_the_helper_is_privileged(self):
        answer = self.helper().call(PING)
        self.assertEqual(answer["version"], run(HELPER, "--version").stdout.split()[1])
        self.assertIn(answer["privileged"], (0, 1))

    def test_malformed_frames_are_refused_and_the_next_one_is_answered(self):
        helper = self.helper()
        good = frame(CHECK_FORMAT, "/dev/loop0", number=77)
        bad = {
            "too short": good[:23],
            "a byte": b"x",
            "a wrong magic": frame(PING, magic=b"GET "),
            "the magic of a reply": frame(PING, magic=b"FHRP"),
            "a wrong length": frame(PING, length=25),
            "a byte after the end": good + b"x",
            "a string cut short": frame(CHECK_FORMAT, "/dev/loop0", length=len(good) - 3)[:-3],
            "a NUL": frame(CHECK_FORMAT, "/dev/lo\0op"),
            "a long name": frame(CHECK_FORMAT, "/dev/" + "x" * 100),
            "a number cut short": frame(PREPARE, "/dev/loop0", length=24 + 12 + 2) + b"\0\0",
        }
        for what, data in bad.items():
            with self.subTest(what):
                helper.socket.send(data)
                _, _, error, fields = helper.receive()
                self.assertEqual(error, errno.EBADMSG, fields)
        helper.socket.send(frame(PING, version=2, number=5))
        self.assertEqual(helper.receive()[1:3], (5, errno.EPROTONOSUPPORT))
        helper.socket.send(frame(99, number=6))
        self.assertEqual(helper.receive()[:3], (0, 6, errno.EOPNOTSUPP))
        helper.call(PING)

    def test_oversized_frames_are_refused_and_the_next_one_is_answered(self):
        helper = self.helper()
        for data in (frame(CHECK_FORMAT, "x" * 5000), frame(PING, length=4097), frame(CHECK_FORMAT, "x" * 60000)):
            helper.socket.send(data)
            _, _, error, _ = helper.receive()
            self.assertEqual(error, errno.EMSGSIZE)
        helper.call(PING)

    def test_descriptors_sent_with_a_request_are_closed(self):
        helper = self.helper()
        helper.call(PING)       # after this its start is complete and has closed what it opened
        before = len(os.listdir(f"/proc/{helper.pid}/fd"))
        for number in range(5):
            socket.send_fds(helper.socket, [frame(PING, number=number)], [0, 1, 2])
            self.assertEqual(helper.receive()[1:3], (number, 0))
        self.assertEqual(len(os.listdir(f"/proc/{helper.pid}/fd")), before)

    def test_names_that_are_invalid_or_not_on_the_list_are_refused(self):
        helper = self.helper()
        self.assert_refused(errno.EPERM, "device sda", lambda: helper.call(CHECK_FORMAT, "/dev/sda"))
        for name in ("loop0", "/dev/../dev/loop0", "/dev/./loop0", "/dev//loop0", "/dev/mapper/loop0", "/dev/", "/dev/..", "/etc/loop0",
                     "/dev/loop0/", "/dev/loop 0", "/dev/loop0\n", ""):
            with self.subTest(name):
                self.assert_refused(errno.EINVAL, lambda: helper.call(FORMAT, name, "x", 0))
        for target in ("/etc/x", self.mounts, self.mounts + "/a/b", self.mounts + "x/a", "/"):
            with self.subTest(target):
                self.assert_refused(errno.EPERM if target != "/" else errno.EINVAL, lambda: helper.call(UNMOUNT, target))
        for target in (self.mounts + "/../x", self.mounts + "/..", self.mounts + "//a", self.mounts + "/a/", "mnt/a", self.mounts + "/./a"):
            with self.subTest(target):
                self.assert_refused(errno.EINVAL, lambda: helper.call(MOUNT, "/dev/loop0", target, ""))
        self.assert_refused(errno.EINVAL, "label", lambda: helper.call(FORMAT, "/dev/loop0", "", 0))
        self.assert_refused(errno.EINVAL, "label", lambda: helper.call(FORMAT, "/dev/loop0", "a b", 0))
        self.assert_refused(errno.EINVAL, "flags", lambda: helper.call(FORMAT, "/dev/loop0", "a", 8))

    def test_an_operation_that_is_not_on_the_list_is_refused(self):
        helper = self.helper(self.write_config("operation check-format", "device loop*"))
        self.assert_refused(errno.EPERM, "operation format", lambda: helper.call(FORMAT, "/dev/loop0", "x", 0))
        helper.call(PING)

    def test_a_user_who_is_not_on_the_list_is_refused(self):
        helper = self.helper(uid=12345)
        self.assertEqual(helper.socket.recv(100), b"")
        self.assertEqual(helper.process.wait(60), 1)
        self.assertIn("user 12345 is not on the helper's list", helper.log_text())

    def test_another_process_with_the_same_socket_is_refused(self):
        helper = self.helper()
        pid = os.fork()
        if pid == 0:
            helper.socket.send(frame(PING, number=9))
            os._exit(0)
        os.waitpid(pid, 0)
        _, number, error, fields = helper.receive()
        self.assertEqual((number, error), (9, errno.EPERM), fields)
        self.assertIn("did not start the helper", fields["text"])
        helper.call(PING)

    def test_a_list_that_others_could_write_is_refused(self):
        for mode, words in ((0o666, "chmod go-w"), (0o664, "chmod go-w")):
            os.chmod(self.config, mode)
            done = run(HELPER, "--config", self.config, "--check", check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn(words, done.stderr)
        os.chmod(self.config, 0o644)
        os.chmod(self.mounts, 0o777)
        self.assertIn("can be changed by other users", run(HELPER, "-c", self.config, "--check", check=False).stderr)
        os.chmod(self.mounts, 0o755)
        os.symlink(self.config, self.folder + "/link")
        self.assertIn("symbolic link", run(HELPER, "-c", self.folder + "/link", "--check", check=False).stderr)
        os.chown(self.config, 65534, 65534)
        self.assertIn("chown root", run(HELPER, "-c", self.config, "--check", check=False).stderr)

    def test_an_error_in_the_list_names_its_line(self):
        for line, words in (("mount /x", "not one of"), ("user nobody-of-that-name", "there is no such user"), ("device a/b", "not a name"),
                            ("mounts /a/../b", "not an absolute path of plain names"), ("mounts a", "not an absolute path"),
                            ("operation fly", "there is no such operation"),
                            ("device", "a value is missing"), ("device a b", "more than one")):
            with self.subTest(line):
                done = run(HELPER, "-c", self.write_config("# comment", "", line, name="bad.conf"), "--check", check=False)
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"bad.conf:3: {words}", done.stderr)

    def test_check_prints_the_list(self):
        out = run(HELPER, "-c", self.config, "--check").stdout
        self.assertIn("devices:    loop*", out)
        self.assertIn("mounts in:  " + self.mounts, out)
        self.assertIn("read-label prepare", out)


class CommandLine(unittest.TestCase):
    def test_help_is_printed_and_wrong_arguments_are_rejected(self):
        self.assertIn("usage: fathom-helper", run(HELPER, "--help").stdout)
        self.assertEqual(run(HELPER, "--nonsense", check=False).returncode, 2)
        self.assertEqual(run(HELPER, "word", check=False).returncode, 2)

    @unittest.skipIf(os.geteuid() != 0, "needs root")
    def test_a_start_without_a_socket_is_rejected_with_the_reason(self):
        with tempfile.NamedTemporaryFile("w", prefix="fathom-helper-", suffix=".conf") as file:
            done = run(HELPER, "-c", file.name, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("fathom-server starts the helper", done.stderr)


if __name__ == "__main__":
    unittest.main()
