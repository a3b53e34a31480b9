# SPDX-License-Identifier: BSD-2-Clause
"""
fathom-helper, driven by its protocol as docs/formats/helper.md has it: real loop devices, real XFS, and all that it must refuse.

Most of it takes root and loop devices; without them the cases say so.
"""

import contextlib
import errno
import fcntl
import glob
import os
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest

from harness import BIN, run

HELPER = os.path.join(BIN, "fathom-helper")
PING, CHECK_FORMAT, FORMAT, MOUNT, UNMOUNT, READ_LABEL, PREPARE = range(1, 8)
FORCE, WIPE, OWN = 1, 2, 4
FORMATS = ("none", "xfs", "damaged-xfs", "other", "unknown")
MIB = 1 << 20
ANSWER_SECONDS = 60
NOBODY = 65534
REQUEST_FIELDS = {PING: "", CHECK_FORMAT: "s", FORMAT: "ssu", MOUNT: "sss", UNMOUNT: "s", READ_LABEL: "s", PREPARE: "su"}
REPLY_FIELDS = {PING: (("version", "s"), ("privileged", "u")),
                CHECK_FORMAT: (("format", "u"), ("type", "s"), ("label", "s"), ("uuid", "s"), ("damage", "s")),
                FORMAT: (("format", "u"), ("type", "s"), ("label", "s"), ("uuid", "s")),
                MOUNT: (("already", "u"),), UNMOUNT: (("already", "u"),),
                READ_LABEL: (("type", "s"), ("label", "s"), ("uuid", "s")), PREPARE: ()}


LOOP_CTL_REMOVE = 0x4C81    # <linux/loop.h>


def attach(path, own=False):
    """A loop device of that file. `own`: its number is beyond those that LOOP_CTL_GET_FREE gives out, so no other process gets it after its release."""
    device = f"/dev/loop{64 + os.getpid() % 900}"
    if own and run("losetup", device, path, check=False).returncode == 0:
        return device
    return run("losetup", "-f", "--show", path).stdout.strip()


def is_attached(device, path):
    try:
        with open(f"/sys/block/{os.path.basename(device)}/loop/backing_file") as file:
            return file.read().strip().removesuffix(" (deleted)") == path
    except OSError:
        return False


def detach(device, path):
    """If it is still ours: another test may have been given its number."""
    if is_attached(device, path):
        subprocess.run(["losetup", "-d", device], stderr=subprocess.DEVNULL, check=False)
    number = int(device.removeprefix("/dev/loop"))
    if number >= 64:
        with open("/dev/loop-control") as control, contextlib.suppress(OSError):    # it goes when its last user closes it
            fcntl.ioctl(control, LOOP_CTL_REMOVE, number)


def no_loop_reason():
    if os.geteuid() != 0:
        return "loop devices take root"
    if not os.path.exists("/dev/loop-control"):
        return "there is no /dev/loop-control"
    if not shutil.which("mkfs.xfs", path="/usr/sbin:/sbin"):
        return "mkfs.xfs is missing"
    subprocess.run(["modprobe", "xfs"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False) if shutil.which("modprobe") else None
    if "xfs" not in open("/proc/filesystems").read().split():
        return "the kernel has no XFS"
    return None


NO_LOOP = no_loop_reason()


def frame(operation, *values, number=1, timeout_ms=0, version=1, magic=b"FHRQ", length=None):
    body = b""
    for value in values:
        body += struct.pack("<I", value) if isinstance(value, int) else struct.pack("<H", len(value.encode())) + value.encode()
    return struct.pack("<4sIHHIQ", magic, len(body) + 24 if length is None else length, version, operation, timeout_ms, number) + body


class Refused(Exception):
    def __init__(self, code, text):
        super().__init__(f"{errno.errorcode.get(code, code)}: {text}")
        self.code, self.text = code, text


def unpack(data):
    """(operation, number, error, {field: value})"""
    magic, length, version, operation, error, number = struct.unpack("<4sIHHIQ", data[:24])
    assert magic == b"FHRP" and version == 1 and length == len(data), data[:24]
    fields, at = {}, 24
    for name, kind in ((("text", "s"), ("code", "u"), ("resolution", "s")) if error else REPLY_FIELDS[operation]):
        if kind == "u":
            fields[name] = struct.unpack_from("<I", data, at)[0]
            at += 4
        else:
            count = struct.unpack_from("<H", data, at)[0]
            fields[name] = data[at + 2:at + 2 + count].decode()
            at += 2 + count
    assert at == len(data), (at, data)
    return operation, number, error, fields


class Helper:
    """A fathom-helper with a socketpair to it. `uid`: whose the socketpair is."""

    def __init__(self, config, uid=None, env=None, options=()):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if uid is not None:
            ours.close()
            theirs.close()
            ours = Asker(uid)
            theirs = socket.socket(fileno=ours.theirs)
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)  # before anything is sent
        self.socket, self.number = ours, 0
        self.log = tempfile.TemporaryFile("w+")
        read_fd = theirs.fileno()

        def place():
            os.dup2(read_fd, 200)
            os.dup2(200, 3)
            os.set_inheritable(3, True)

        self.process = subprocess.Popen([HELPER, "--config", config, *options], preexec_fn=place, close_fds=False,
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env=env)
        theirs.close()
        self.pid = self.process.pid

    def send(self, operation, *values, timeout_ms=0):
        self.number += 1
        self.socket.send(frame(operation, *values, number=self.number, timeout_ms=timeout_ms))
        return self.number

    def receive(self, seconds=ANSWER_SECONDS):
        ready, _, _ = select.select([self.socket], [], [], seconds)
        assert ready, "no answer"
        data = self.socket.recv(65536)
        assert data, f"the helper has gone:\n{self.log_text()}"
        return unpack(data)

    def call(self, operation, *values, timeout_ms=0):
        number = self.send(operation, *values, timeout_ms=timeout_ms)
        _, got, error, fields = self.receive()
        assert got == number, (got, number)
        if error:
            raise Refused(error, f"{fields['text']}; {fields['resolution']}")
        return fields

    def log_text(self):
        self.log.seek(0)
        return self.log.read()

    def cpu_ticks(self):
        fields = open(f"/proc/{self.pid}/stat").read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    def children(self):
        return [int(pid) for pid in open(f"/proc/{self.pid}/task/{self.pid}/children").read().split()]

    def close(self):
        self.socket.close()
        if self.process.poll() is None:
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()


class Asker:
    """A process of another user, which makes the socketpair and sends what the test orders; answers are read here."""

    def __init__(self, uid):
        self.told, orders = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if self.pid == 0:
            self.told.close()
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            socket.send_fds(orders, [b"x"], [ours.fileno(), theirs.fileno()])
            theirs.close()
            while data := orders.recv(65536):
                ours.send(data)
            os._exit(0)
        orders.close()
        _, (ours, self.theirs), _, _ = socket.recv_fds(self.told, 1, 2)
        self.answers = socket.socket(fileno=ours)
        self.send, self.recv, self.fileno = self.told.send, self.answers.recv, self.answers.fileno

    def close(self):
        self.told.close()
        self.answers.close()
        os.waitpid(self.pid, 0)


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="fathom-helper-")
        os.chmod(self.folder, 0o755)
        self.mounts = os.path.join(self.folder, "mnt")
        os.mkdir(self.mounts, 0o755)
        self.config = self.write_config()
        self.loops, self.helpers = [], []
        self.addCleanup(self.clean)

    def write_config(self, *lines, name="helper.conf"):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write("\n".join(lines or ("# all that the tests need", f"mounts {self.mounts}", "device loop*", f"user {NOBODY}")) + "\n")
        os.chmod(path, 0o644)
        return path

    def clean(self):
        for helper in self.helpers:
            helper.close()
        for target in sorted(glob.glob(self.mounts + "/*")):
            if os.path.ismount(target):
                subprocess.run(["umount", target], check=False)
        for device, path in self.loops:
            detach(device, path)
        shutil.rmtree(self.folder)

    def helper(self, config=None, **kwargs):
        self.helpers.append(Helper(config or self.config, **kwargs))
        return self.helpers[-1]

    def loop(self, mib=400, own=False):
        path = os.path.join(self.folder, f"image{len(self.loops)}")
        with open(path, "wb") as file:
            file.truncate(mib * MIB)
        device = attach(path, own)
        self.loops.append((device, path))
        return device

    def refused(self, code, *words, helper=None):
        """The call is refused with that errno, and says these words."""
        *words, call = words
        with self.assertRaises(Refused) as caught:
            call()
        self.assertEqual(caught.exception.code, code, caught.exception.text)
        for word in words:
            self.assertIn(word, caught.exception.text)


@unittest.skipIf(os.geteuid() != 0, "its list of what is allowed must be root's")
class Protocol(Case):
    def test_it_waits_quietly_where_it_may_have_few_descriptors(self):
        helper = self.helper()
        resource.prlimit(helper.pid, resource.RLIMIT_NOFILE, (10, 10))
        helper.call(PING)       # the wait that has begun before is over
        before = helper.cpu_ticks()
        time.sleep(1)
        self.assertLess(helper.cpu_ticks() - before, 30)
        helper.call(PING)

    def test_ping_says_the_version_and_whether_it_may_do_anything(self):
        answer = self.helper().call(PING)
        self.assertEqual(answer["version"], run(HELPER, "--version").stdout.split()[1])
        self.assertIn(answer["privileged"], (0, 1))

    def test_malformed_frames_are_refused_and_the_next_one_is_answered(self):
        helper = self.helper()
        good = frame(CHECK_FORMAT, "/dev/loop0", number=77)
        bad = {
            "too short": good[:23],
            "a byte": b"x",
            "another beginning": frame(PING, magic=b"GET "),
            "an answer": frame(PING, magic=b"FHRP"),
            "a length that is not so": frame(PING, length=25),
            "something behind": good + b"x",
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

    def test_descriptors_that_come_along_are_closed(self):
        helper = self.helper()
        helper.call(PING)       # it has begun: what it opens for that is closed
        before = len(os.listdir(f"/proc/{helper.pid}/fd"))
        for number in range(5):
            socket.send_fds(helper.socket, [frame(PING, number=number)], [0, 1, 2])
            self.assertEqual(helper.receive()[1:3], (number, 0))
        self.assertEqual(len(os.listdir(f"/proc/{helper.pid}/fd")), before)

    def test_names_that_are_not_on_the_list_are_refused(self):
        helper = self.helper()
        self.refused(errno.EPERM, "device sda", lambda: helper.call(CHECK_FORMAT, "/dev/sda"))
        for name in ("loop0", "/dev/../dev/loop0", "/dev/./loop0", "/dev//loop0", "/dev/mapper/loop0", "/dev/", "/dev/..", "/etc/loop0",
                     "/dev/loop0/", "/dev/loop 0", "/dev/loop0\n", ""):
            with self.subTest(name):
                self.refused(errno.EINVAL, lambda: helper.call(FORMAT, name, "x", 0))
        for target in ("/etc/x", self.mounts, self.mounts + "/a/b", self.mounts + "x/a", "/"):
            with self.subTest(target):
                self.refused(errno.EPERM if target != "/" else errno.EINVAL, lambda: helper.call(UNMOUNT, target))
        for target in (self.mounts + "/../x", self.mounts + "/..", self.mounts + "//a", self.mounts + "/a/", "mnt/a", self.mounts + "/./a"):
            with self.subTest(target):
                self.refused(errno.EINVAL, lambda: helper.call(MOUNT, "/dev/loop0", target, ""))
        self.refused(errno.EINVAL, "label", lambda: helper.call(FORMAT, "/dev/loop0", "", 0))
        self.refused(errno.EINVAL, "label", lambda: helper.call(FORMAT, "/dev/loop0", "a b", 0))
        self.refused(errno.EINVAL, "flags", lambda: helper.call(FORMAT, "/dev/loop0", "a", 8))

    def test_an_operation_that_is_not_on_the_list_is_refused(self):
        helper = self.helper(self.write_config("operation check-format", "device loop*"))
        self.refused(errno.EPERM, "operation format", lambda: helper.call(FORMAT, "/dev/loop0", "x", 0))
        helper.call(PING)

    def test_a_user_who_is_not_on_the_list_is_refused(self):
        helper = self.helper(uid=12345)
        self.assertEqual(helper.socket.recv(100), b"")
        self.assertEqual(helper.process.wait(20), 1)
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
        self.assertIn("is not who started the helper", fields["text"])
        helper.call(PING)

    def test_a_list_that_others_could_write_is_refused(self):
        for mode, words in ((0o666, "chmod go-w"), (0o664, "chmod go-w")):
            os.chmod(self.config, mode)
            done = run(HELPER, "--config", self.config, "--check", check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn(words, done.stderr)
        os.chmod(self.config, 0o644)
        os.chmod(self.mounts, 0o777)
        self.assertIn("can be changed by others", run(HELPER, "-c", self.config, "--check", check=False).stderr)
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

    def test_the_list_is_told(self):
        out = run(HELPER, "-c", self.config, "--check").stdout
        self.assertIn("devices:    loop*", out)
        self.assertIn("mounts in:  " + self.mounts, out)
        self.assertIn("read-label prepare", out)


class CommandLine(unittest.TestCase):
    def test_it_says_what_it_is_and_that_people_do_not_start_it(self):
        self.assertIn("usage: fathom-helper", run(HELPER, "--help").stdout)
        self.assertEqual(run(HELPER, "--nonsense", check=False).returncode, 2)
        self.assertEqual(run(HELPER, "word", check=False).returncode, 2)

    @unittest.skipIf(os.geteuid() != 0, "takes root")
    def test_without_its_socket_it_says_so(self):
        with tempfile.NamedTemporaryFile("w", prefix="fathom-helper-", suffix=".conf") as file:
            done = run(HELPER, "-c", file.name, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("fathom-server starts the helper", done.stderr)


@unittest.skipIf(NO_LOOP, NO_LOOP or "")
class Devices(Case):
    def test_a_device_is_formatted_mounted_written_and_unmounted(self):
        helper, device, target = self.helper(), self.loop(), self.mounts + "/engine0"
        self.assertEqual(FORMATS[helper.call(CHECK_FORMAT, device)["format"]], "none")
        self.refused(errno.EMEDIUMTYPE, "format this one", lambda: helper.call(MOUNT, device, target, ""))
        made = helper.call(FORMAT, device, "fathom0", 0)
        self.assertEqual((FORMATS[made["format"]], made["type"], made["label"]), ("xfs", "xfs", "fathom0"))
        self.assertEqual(made["uuid"], run("blkid", "-p", "-s", "UUID", "-o", "value", device).stdout.strip())
        self.assertEqual(helper.call(READ_LABEL, device), {"type": "xfs", "label": "fathom0", "uuid": made["uuid"]})
        self.refused(errno.EMEDIUMTYPE, "has fathom0, not fathom1", lambda: helper.call(MOUNT, device, target, "fathom1"))
        self.assertEqual(helper.call(MOUNT, device, target, "fathom0"), {"already": 0})
        self.assertTrue(os.path.ismount(target))
        self.assertEqual(helper.call(MOUNT, device, target, "fathom0"), {"already": 1})
        options = [line.split()[5] for line in open("/proc/self/mountinfo") if line.split()[4] == target][0].split(",")
        for option in ("nosuid", "nodev", "noexec", "noatime"):
            self.assertIn(option, options)
        self.assertEqual(os.stat(target).st_mode & 0o7777, 0o700)
        with open(target + "/data", "wb") as file:
            file.write(os.urandom(MIB))
        # in use, in each of the ways
        self.refused(errno.EBUSY, "mounted at " + target, lambda: helper.call(FORMAT, device, "again", FORCE))
        self.refused(errno.EBUSY, lambda: helper.call(PREPARE, device, WIPE | FORCE))
        self.refused(errno.EBUSY, lambda: helper.call(MOUNT, device, self.mounts + "/other", ""))
        with open(target + "/data", "rb"):
            self.refused(errno.EBUSY, "stop the engine", lambda: helper.call(UNMOUNT, target))
        self.assertEqual(helper.call(UNMOUNT, target), {"already": 0})
        self.assertFalse(os.path.ismount(target))
        self.assertEqual(helper.call(UNMOUNT, target), {"already": 1})
        self.refused(errno.EEXIST, "fathom0", lambda: helper.call(FORMAT, device, "again", 0))
        helper.call(MOUNT, device, target, "")
        self.assertEqual(os.path.getsize(target + "/data"), MIB)
        helper.call(UNMOUNT, target)
        again = helper.call(FORMAT, device, "again", FORCE)
        self.assertNotEqual(again["uuid"], made["uuid"])

    def test_what_is_mounted_or_prepared_belongs_to_who_asked(self):
        device, target = self.loop(), self.mounts + "/engine0"
        helper = self.helper(uid=NOBODY)
        helper.call(FORMAT, device, "x", 0)
        helper.call(MOUNT, device, target, "")
        self.assertEqual((os.stat(target).st_uid, os.stat(target).st_gid), (NOBODY, NOBODY))
        helper.call(UNMOUNT, target)
        helper.call(PREPARE, device, OWN)
        self.assertEqual((os.stat(device).st_uid, os.stat(device).st_gid, os.stat(device).st_mode & 0o777), (NOBODY, NOBODY, 0o600))
        os.chown(device, 0, 0)

    def test_a_damaged_superblock_is_recognised(self):
        helper, device = self.helper(), self.loop()
        helper.call(FORMAT, device, "fathom0", 0)
        with open(device, "r+b") as file:
            file.seek(108)
            file.write(b"damage")
            os.fsync(file.fileno())
        found = helper.call(CHECK_FORMAT, device)
        self.assertEqual((FORMATS[found["format"]], found["damage"]), ("damaged-xfs", "the superblock's checksum is wrong"))
        self.refused(errno.EUCLEAN, "xfs_repair", lambda: helper.call(MOUNT, device, self.mounts + "/a", ""))
        with open(device, "r+b") as file:
            file.write(bytes(512))
            os.fsync(file.fileno())
        found = helper.call(CHECK_FORMAT, device)
        self.assertEqual(FORMATS[found["format"]], "damaged-xfs")
        self.refused(errno.EEXIST, "xfs_repair", lambda: helper.call(FORMAT, device, "again", 0))
        if shutil.which("xfs_repair", path="/usr/sbin:/sbin"):
            run("xfs_repair", device)
            self.assertEqual(helper.call(READ_LABEL, device)["label"], "fathom0")
        helper.call(FORMAT, device, "again", FORCE)
        self.assertEqual(FORMATS[helper.call(CHECK_FORMAT, device)["format"]], "xfs")

    def test_what_holds_data_is_not_formatted_unless_told_to(self):
        helper, device = self.helper(), self.loop()
        with open(device, "r+b") as file:
            file.write(b"somebody's bytes")
        self.assertEqual(FORMATS[helper.call(CHECK_FORMAT, device)["format"]], "unknown")
        self.refused(errno.EEXIST, "no known kind", lambda: helper.call(FORMAT, device, "x", 0))
        self.refused(errno.EEXIST, lambda: helper.call(PREPARE, device, WIPE))
        run("mkfs.ext4", "-q", "-F", device)
        self.assertEqual(helper.call(CHECK_FORMAT, device)["type"], "ext4")
        self.refused(errno.EEXIST, "ext4", lambda: helper.call(FORMAT, device, "x", 0))
        helper.call(PREPARE, device, WIPE | FORCE)
        self.assertEqual(FORMATS[helper.call(CHECK_FORMAT, device)["format"]], "none")
        helper.call(FORMAT, device, "x", 0)

    def test_a_device_with_partitions_is_refused_also_by_force(self):
        helper, device = self.helper(), self.loop()
        with open(device, "r+b") as file:
            entry = struct.pack("<B3sB3sII", 0, b"\0" * 3, 0x83, b"\0" * 3, 2048, 100000)
            file.write(bytes(446) + entry + bytes(48) + b"\x55\xaa")
        self.assertEqual(helper.call(CHECK_FORMAT, device)["type"], "dos")
        self.refused(errno.EBUSY, "partition", lambda: helper.call(FORMAT, device, "x", FORCE))

    def test_a_prepared_device_belongs_to_who_asked_and_nobody_else(self):
        helper, device = self.helper(), self.loop(16)
        os.chmod(device, 0o666)
        os.chown(device, 65534, 65534)
        helper.call(PREPARE, device, OWN)
        self.assertEqual(os.stat(device).st_mode & 0o777, 0o600)
        self.assertEqual((os.stat(device).st_uid, os.stat(device).st_gid), (0, 0))

    def test_links_and_devices_that_are_not_there_are_refused(self):
        helper, device = self.helper(), self.loop(16)
        link = "/dev/loopfathom" + str(os.getpid())
        os.symlink(device, link)
        self.addCleanup(os.unlink, link)
        self.refused(errno.ENODEV, "is a link: name the device itself", lambda: helper.call(CHECK_FORMAT, link))
        self.refused(errno.ENODEV, lambda: helper.call(CHECK_FORMAT, "/dev/loop99"))
        self.refused(errno.ENODEV, lambda: helper.call(CHECK_FORMAT, "/dev/loop-control"))

    def test_a_link_in_place_of_the_folder_is_refused(self):
        helper, device = self.helper(), self.loop()
        helper.call(FORMAT, device, "x", 0)
        os.mkdir(self.folder + "/elsewhere")
        os.symlink(self.folder + "/elsewhere", self.mounts + "/engine0")
        self.refused(errno.ELOOP, lambda: helper.call(MOUNT, device, self.mounts + "/engine0", ""))
        os.unlink(self.mounts + "/engine0")
        open(self.mounts + "/engine0", "w").close()
        self.refused(errno.ENOTDIR, lambda: helper.call(MOUNT, device, self.mounts + "/engine0", ""))
        self.assertEqual([line for line in open("/proc/self/mountinfo") if self.folder in line.split()[4]], [])

    def test_what_others_mounted_is_left_alone(self):
        helper, device, target = self.helper(), self.loop(), self.mounts + "/engine0"
        helper.call(FORMAT, device, "x", 0)
        os.mkdir(target)
        run("mount", "-t", "tmpfs", "none", target)
        self.refused(errno.EPERM, "none of the devices", lambda: helper.call(UNMOUNT, target))
        self.refused(errno.EBUSY, "something else is mounted", lambda: helper.call(MOUNT, device, target, ""))
        run("umount", target)

    def test_a_device_that_is_too_small_says_what_mkfs_says(self):
        helper, device = self.helper(), self.loop(16)
        self.refused(errno.EIO, "mkfs.xfs failed", "300", lambda: helper.call(FORMAT, device, "x", 0))

    def test_a_device_that_is_open_for_itself_alone_is_refused(self):
        helper, device = self.helper(), self.loop()
        fd = os.open(device, os.O_RDWR | os.O_EXCL)
        try:
            self.refused(errno.EBUSY, "has it for itself alone", lambda: helper.call(FORMAT, device, "x", FORCE))
        finally:
            os.close(fd)
        helper.call(FORMAT, device, "x", 0)


def formatting(device):
    """The processes of mkfs.xfs at that device; others are of tests that run beside this one."""
    found = []
    for path in glob.glob("/proc/[0-9]*"):
        try:
            if open(path + "/comm").read().strip() == "mkfs.xfs" and device in open(path + "/cmdline").read().split("\0"):
                found.append(int(path.split("/")[2]))
        except OSError:
            pass
    return found


@unittest.skipIf(NO_LOOP, NO_LOOP or "")
class Trouble(Case):
    def child(self, helper):
        """The child that is at the request that was just sent; stopped, so that it stays."""
        deadline = time.monotonic() + ANSWER_SECONDS
        while time.monotonic() < deadline:
            for pid in helper.children():
                os.kill(pid, signal.SIGSTOP)
                return pid
        self.fail("no child came")

    def wait_gone(self, *pids):
        deadline = time.monotonic() + ANSWER_SECONDS
        while any(os.path.exists(f"/proc/{pid}") for pid in pids):
            self.assertLess(time.monotonic(), deadline, f"{pids} live on")
            time.sleep(0.01)

    def test_of_two_requests_for_one_device_the_second_is_refused(self):
        helper, device = self.helper(), self.loop()
        first = helper.send(FORMAT, device, "first", 0)
        child = self.child(helper)
        self.refused(errno.EBUSY, "another request (format)", lambda: helper.call(FORMAT, device, "second", FORCE))
        self.refused(errno.EBUSY, lambda: helper.call(CHECK_FORMAT, device))
        helper.call(PING)  # which nothing holds up
        os.kill(child, signal.SIGCONT)
        self.assertEqual(helper.receive()[1:3], (first, 0))
        self.assertEqual(helper.call(READ_LABEL, device)["label"], "first")

    def test_of_two_helpers_at_one_device_one_is_refused(self):
        one, other, device = self.helper(), self.helper(), self.loop()
        for _ in range(5):
            one.send(FORMAT, device, "one", FORCE)
            other.send(FORMAT, device, "other", FORCE)
            answers = one.receive()[2], other.receive()[2]
            self.assertLessEqual(set(answers), {0, errno.EBUSY}, answers)
            self.assertIn(0, answers)
            self.assertEqual(FORMATS[one.call(CHECK_FORMAT, device)["format"]], "xfs")

    def test_for_one_folder_too(self):
        helper, target = self.helper(), self.mounts + "/engine0"
        devices = [self.loop(), self.loop()]
        for device in devices:
            helper.call(FORMAT, device, "x", 0)
        first = helper.send(MOUNT, devices[0], target, "")
        child = self.child(helper)
        self.refused(errno.EBUSY, "another request (mount)", lambda: helper.call(MOUNT, devices[1], target, ""))
        self.refused(errno.EBUSY, "another request (mount)", lambda: helper.call(UNMOUNT, target))
        os.kill(child, signal.SIGCONT)
        self.assertEqual(helper.receive()[1:3], (first, 0))

    def test_more_requests_than_it_takes_are_refused_and_the_rest_goes_on(self):
        helper, devices = self.helper(), [self.loop(16) for _ in range(2)]
        numbers = [helper.send(CHECK_FORMAT, devices[0]) for _ in range(40)]
        answers = [helper.receive()[1:3] for _ in numbers]
        self.assertEqual(sorted(number for number, _ in answers), numbers)
        self.assertLessEqual({error for _, error in answers}, {0, errno.EBUSY})
        self.assertEqual(FORMATS[helper.call(CHECK_FORMAT, devices[1])["format"]], "none")

    def test_a_child_that_takes_too_long_is_killed_with_what_it_runs(self):
        helper, device = self.helper(), self.loop()
        number = helper.send(FORMAT, device, "x", 0, timeout_ms=1500)   # and it is found before
        child = self.child(helper)
        operation, got, error, fields = helper.receive()
        self.assertEqual((operation, got, error), (FORMAT, number, errno.ETIMEDOUT))
        self.assertIn(device, fields["text"])
        self.wait_gone(child)
        self.assertIn(FORMATS[helper.call(CHECK_FORMAT, device)["format"]], ("none", "unknown", "damaged-xfs", "xfs"))
        helper.call(FORMAT, device, "again", FORCE)

    def test_a_child_that_dies_is_told(self):
        helper, device = self.helper(), self.loop()
        for killed_by in (signal.SIGKILL, signal.SIGTERM):
            number = helper.send(FORMAT, device, "x", FORCE)
            child = self.child(helper)
            os.kill(child, killed_by)
            os.kill(child, signal.SIGCONT)
            _, got, error, fields = helper.receive()
            self.assertEqual((got, error), (number, errno.ECHILD))
            self.assertIn(f"signal {int(killed_by)}", fields["text"])
        helper.call(FORMAT, device, "x", FORCE)

    def test_a_killed_helper_takes_its_children_and_mkfs_along_and_nothing_broken_is_mounted(self):
        device, target = self.loop(2048), self.mounts + "/engine0"
        seen = set()
        began = time.monotonic()
        self.helper().call(FORMAT, device, "x", FORCE)
        step = (time.monotonic() - began) / 16
        for moment in range(20):  # the last ones are behind the end
            helper = self.helper()
            helper.call(PING)
            with open(device, "r+b") as file:
                file.write(bytes(MIB))
            helper.send(FORMAT, device, "x", FORCE)
            time.sleep(moment * step)
            children = helper.children()
            helper.process.kill()
            helper.process.wait()
            self.wait_gone(*children)
            deadline = time.monotonic() + ANSWER_SECONDS
            while formatting(device) and time.monotonic() < deadline:
                time.sleep(0.01)
            self.assertEqual(formatting(device), [])
            after = self.helper()
            found = FORMATS[after.call(CHECK_FORMAT, device)["format"]]
            seen.add(found)
            if found == "xfs":
                after.call(MOUNT, device, target, "x")
                after.call(UNMOUNT, target)
                run("xfs_repair", "-n", device)
            else:
                self.refused(errno.EMEDIUMTYPE if found != "damaged-xfs" else errno.EUCLEAN, lambda: after.call(MOUNT, device, target, "x"))
            after.close()
            helper.close()
        self.assertIn("none", seen)

    def test_when_the_asker_goes_what_runs_is_finished_and_the_helper_ends(self):
        helper, device = self.helper(), self.loop()
        helper.send(FORMAT, device, "finished", 0)
        child = self.child(helper)
        helper.socket.close()
        time.sleep(0.1)
        self.assertIsNone(helper.process.poll())
        os.kill(child, signal.SIGCONT)
        self.assertEqual(helper.process.wait(ANSWER_SECONDS), 0)
        self.assertEqual(self.helper().call(READ_LABEL, device)["label"], "finished")

    def test_a_device_that_goes_while_it_is_used_is_told(self):
        helper, device, target = self.helper(), self.loop(own=True), self.mounts + "/engine0"
        helper.call(FORMAT, device, "x", 0)
        helper.call(MOUNT, device, target, "")
        os.truncate(self.loops[0][1], 0)  # every read and write fails from now on
        with self.assertRaises(OSError):
            with open(target + "/data", "wb") as file:
                file.write(bytes(MIB))
                os.fsync(file.fileno())
        helper.call(UNMOUNT, target)
        run("blockdev", "--flushbufs", device)
        with self.assertRaises(Refused) as caught:
            helper.call(FORMAT, device, "x", FORCE)
        self.assertIn(caught.exception.code, (errno.EIO, errno.ENODEV))
        self.let_go(device)
        self.refused(errno.ENODEV, "has vanished", lambda: helper.call(CHECK_FORMAT, device))

    def let_go(self, device):
        """It goes with the last who has it open: a scan of another test's, maybe."""
        path = dict(self.loops)[device]
        run("losetup", "-d", device)
        deadline = time.monotonic() + ANSWER_SECONDS
        while is_attached(device, path):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def test_a_device_that_is_taken_away_in_the_middle_of_formatting(self):
        helper, device = self.helper(), self.loop(own=True)
        number = helper.send(FORMAT, device, "x", 0)
        child = self.child(helper)
        run("losetup", "-d", device, check=False)  # goes with the last who has it open
        os.kill(child, signal.SIGCONT)
        _, got, error, fields = helper.receive()
        self.assertEqual(got, number)
        self.assertIn(error, (0, errno.ENODEV, errno.EIO, errno.EBUSY, errno.ENXIO), fields)
        helper.call(PING)


@unittest.skipIf(NO_LOOP, NO_LOOP or "")
class SetUserId(Case):
    """As it is installed: set-user-ID root, started by an ordinary user, its list at its own place (in a namespace of the test's)."""

    def setUp(self):
        super().setUp()
        self.program = os.path.join(self.folder, "fathom-helper")
        shutil.copy(HELPER, self.program)
        os.chown(self.program, 0, NOBODY)
        os.chmod(self.program, 0o4750)

    def as_nobody(self, *words):
        return run("setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", self.program, *words, check=False)

    def test_it_takes_no_list_of_its_callers(self):
        done = self.as_nobody("--config", self.config, "--check")
        self.assertEqual(done.returncode, 2)
        self.assertIn("only for root", done.stderr)
        done = run("setpriv", "--reuid", "1", "--regid", "1", "--clear-groups", self.program, "--check", check=False)
        self.assertNotEqual(done.returncode, 0)  # the mode lets only its group start it

    def as_server(self, script, setup="", **values):
        """What the script, SERVER and then `script`, says: an ordinary user's who has the helper. `setup` is root's, in the same namespace."""
        path = os.path.join(self.folder, "server.py")
        with open(path, "w") as file:
            file.write((SERVER + script).format(folder=os.path.dirname(os.path.abspath(__file__)), program=self.program, **values))
        done = run("unshare", "-m", "sh", "-e", "-c", f"""
            mount --make-rprivate /
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

    def test_an_ordinary_user_formats_and_mounts_by_it_and_may_kill_it(self):
        self.as_server(FORMATTING, device=self.loop(), target=self.mounts + "/engine0")

    def test_mkfs_is_roots_alone_and_does_not_outlive_it(self):
        slow, began = os.path.join(self.folder, "mkfs.xfs"), os.path.join(self.folder, "began")
        with open(slow, "w") as file:
            file.write(f"#!/bin/sh\necho $$ > {began}\nexec sleep 100\n")
        os.chmod(slow, 0o755)
        open(began, "w").close()  # that the ordinary user may read it
        self.as_server(KILLING, f"mount --bind {slow} /usr/sbin/mkfs.xfs", device=self.loop(), began=began)


SERVER = """
import atexit, errno, os, signal, socket, sys
sys.path.insert(0, "{folder}")
import test_helper as t

ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
theirs.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
pid = os.fork()
if pid == 0:
    os.dup2(theirs.fileno(), 200)
    os.dup2(200, 3)
    os.execv("{program}", ["fathom-helper"])
theirs.close()
atexit.register(os.kill, pid, signal.SIGKILL)  # no process waits for it before


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
deadline = time.monotonic() + 20
while os.path.exists(f"/proc/{{mkfs}}"):
    assert time.monotonic() < deadline, "mkfs.xfs lives on: " + open(f"/proc/{{mkfs}}/status").read()
    time.sleep(0.01)
print("all done")
"""


@unittest.skipIf(NO_LOOP, NO_LOOP or "")
class Confinement(Case):
    def status(self, pid):
        return dict(line.rstrip("\n").split(":\t", 1) for line in open(f"/proc/{pid}/status") if ":\t" in line)

    def test_it_has_a_filter_no_environment_and_few_capabilities(self):
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

    def test_mkfs_runs_with_less(self):
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
            self.skipTest("it was over before it was seen")
        self.assertEqual(int(seen["CapEff"], 16), 1 << 1 | 1 << 21)


if __name__ == "__main__":
    unittest.main()
