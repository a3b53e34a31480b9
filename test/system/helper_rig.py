# SPDX-License-Identifier: BSD-2-Clause
"""Starts a fathom-helper and speaks its protocol as docs/formats/helper.md describes it."""

import errno
import glob
import os
import select
import shutil
import socket
import struct
import subprocess
import tempfile
import unittest

from harness import BIN
from loop_device import NOBODY, attach, detach

HELPER = os.path.join(BIN, "fathom-helper")
PING, CHECK_FORMAT, FORMAT, MOUNT, UNMOUNT, READ_LABEL, PREPARE, HEALTH, FIRMWARE, LED = range(1, 11)
FORCE, WIPE, OWN = 1, 2, 4
FORMATS = ("none", "xfs", "damaged-xfs", "other", "unknown")
MIB = 1 << 20
ANSWER_SECONDS = 60
REQUEST_FIELDS = {PING: "", CHECK_FORMAT: "s", FORMAT: "ssu", MOUNT: "sss", UNMOUNT: "s", READ_LABEL: "s", PREPARE: "su", HEALTH: "s", FIRMWARE: "ssuu", LED: "su"}
REPLY_FIELDS = {PING: (("version", "s"), ("privileged", "u")),
                CHECK_FORMAT: (("format", "u"), ("type", "s"), ("label", "s"), ("uuid", "s"), ("damage", "s")),
                FORMAT: (("format", "u"), ("type", "s"), ("label", "s"), ("uuid", "s")),
                MOUNT: (("already", "u"),), UNMOUNT: (("already", "u"),),
                READ_LABEL: (("type", "s"), ("label", "s"), ("uuid", "s")), PREPARE: (), HEALTH: (("identify", 320), ("smart", 216), ("slots", 64)),
                FIRMWARE: (("activation", "u"), ("slots", 64)), LED: (("led", "u"),)}


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
        elif isinstance(kind, int):     # that many bytes
            fields[name] = data[at:at + kind]
            at += kind
        else:
            count = struct.unpack_from("<H", data, at)[0]
            fields[name] = data[at + 2:at + 2 + count].decode()
            at += 2 + count
    assert at == len(data), (at, data)
    return operation, number, error, fields


class Helper:
    """A fathom-helper with a socketpair to it. `uid`: the user that makes the socketpair and sends requests; None: this process."""

    def __init__(self, config, uid=None, env=None, options=()):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if uid is not None:
            ours.close()
            theirs.close()
            ours = OtherUser(uid)
            theirs = socket.socket(fileno=ours.theirs)
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)  # a request sent before has no credentials
        self.socket, self.number = ours, 0
        self.log = tempfile.TemporaryFile("w+")
        read_fd = theirs.fileno()

        def place_socket_at_3():
            os.dup2(read_fd, 200)
            os.dup2(200, 3)
            os.set_inheritable(3, True)

        self.process = subprocess.Popen([HELPER, "--config", config, *options], preexec_fn=place_socket_at_3, close_fds=False,
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
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise
        self.log.close()


class OtherUser:
    """A child process of another user. It makes the socketpair and sends the frames given to send(); this process reads the answers."""

    def __init__(self, uid):
        self.orders, received_orders = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if self.pid == 0:
            self.orders.close()
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            socket.send_fds(received_orders, [b"x"], [ours.fileno(), theirs.fileno()])
            theirs.close()
            while data := received_orders.recv(65536):
                ours.send(data)
            os._exit(0)
        received_orders.close()
        _, (ours, self.theirs), _, _ = socket.recv_fds(self.orders, 1, 2)
        os.set_inheritable(ours, False)  # received descriptors are inheritable: a helper that has it never sees the end
        self.answers = socket.socket(fileno=ours)
        self.send, self.recv, self.fileno = self.orders.send, self.answers.recv, self.answers.fileno

    def close(self):
        self.orders.close()
        self.answers.close()
        os.waitpid(self.pid, 0)


class HelperTest(unittest.TestCase):
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

    def assert_refused(self, code, *words, helper=None):
        """The last argument, a call, is refused with errno `code`; the reply contains the other arguments."""
        *words, call = words
        with self.assertRaises(Refused) as caught:
            call()
        self.assertEqual(caught.exception.code, code, caught.exception.text)
        for word in words:
            self.assertIn(word, caught.exception.text)
