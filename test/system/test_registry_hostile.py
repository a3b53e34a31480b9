# SPDX-License-Identifier: BSD-2-Clause
"""fathom-probed with clients that send malformed messages, lie about sizes, send nothing or read nothing."""

import os
import random
import shutil
import socket
import struct
import unittest

from harness import run
from registry_rig import ADD, HELLO, LARGE, LARGE_PROBES, LIST, OBJECT_PROBES, REMOVE, RegistryTest, read, wait_for


class Hostile(RegistryTest):
    def address(self):
        return int(read("/proc/self/maps").split("-")[0], 16)

    def test_malformed_requests_are_refused(self):
        probed = self.probed()
        for message in (b"x", b"\0" * 119, b"\xff" * 120, b"\0" * 60000):
            with probed.connect() as one:
                one.s.send(message)
                self.assertEqual(one.reply()[0], -71)       # EPROTO
                self.assertRaises(EOFError, one.reply)
        with probed.connect() as one:
            self.assertEqual(one.ask(99)[0], -95)
            self.assertEqual(one.ask(LIST, value=1 << 40)[0], -22)
            self.assertEqual(one.ask(HELLO)[0], 0)
            self.assertEqual(one.ask(HELLO, version=2)[0], -71)
        self.assertEqual(probed.status()["clients"], 1)

    def test_a_truncated_message_is_refused(self):
        probed = self.probed()
        with probed.connect() as one:
            one.s.send(b"\1\0\0\0\2\0\0\0" + bytes(100000))
            self.assertEqual(one.reply()[0], -71)

    def test_random_requests_change_no_registration_and_leak_no_descriptor(self):
        """Random requests from a fixed seed."""
        probed = self.probed()
        client = self.client(probed)
        before = probed.descriptor_count()
        random_ = random.Random(20261122)
        file = os.memfd_create("any")
        os.write(file, random_.randbytes(5000))
        for number in range(3000):
            message = bytearray(random_.randbytes(random_.choice((0, 1, 119, 120, 121, 200, 5000))))
            if random_.random() < 0.9 and len(message) >= 120:
                message[:8] = struct.pack("<II", 1, random_.randrange(7))
                if random_.random() < 0.7:
                    message[24:40] = struct.pack("<QQ", len(message) - 120, self.address())
            with probed.connect() as one:
                try:
                    fds = [file] * random_.choice((0, 0, 0, 1, 2))
                    socket.send_fds(one.s, [bytes(message)], fds) if fds else one.s.send(message)
                    if message and random_.random() < 0.8:
                        one.reply()
                except (EOFError, OSError, UnicodeDecodeError):
                    pass
            if number % 1000 == 999:
                self.assertEqual(len(probed.rows(str(client.pid))), OBJECT_PROBES)
        os.close(file)
        wait_for(lambda: probed.descriptor_count() <= before + 8)    # more parsers may run, each with its pipes
        self.check_tree(probed.tree, [client.pid, os.getpid()])

    def test_unexpected_descriptors_are_closed(self):
        probed = self.probed()
        before = probed.descriptor_count()
        ends = os.pipe()
        for operation, count in ((HELLO, 1), (ADD, 2), (REMOVE, 1), (ADD, 20)):
            with probed.connect() as one:
                one.send(operation, fds=[ends[0]] * count)
                self.assertEqual(one.reply()[0], -71)
        for end in ends:
            os.close(end)
        wait_for(lambda: probed.descriptor_count() == before)

    def test_only_a_memfd_is_read(self):
        """A read from a pipe could block the daemon for all clients."""
        probed = self.probed()
        ends = os.pipe()
        with probed.connect() as one, open("/dev/zero") as zero, open("/proc/self/maps") as file:
            for fd in (ends[0], zero.fileno(), file.fileno()):
                error, _, text = one.ask(ADD, length=4096, address=self.address(), fds=[fd])
                self.assertEqual(error, -22)
                self.assertIn("memfd", text)
            short = os.memfd_create("short")
            os.write(short, bytes(100))
            self.assertIn("has 100 bytes instead of 4096", one.ask(ADD, length=4096, address=self.address(), fds=[short])[2])
            os.close(short)
        for end in ends:
            os.close(end)

    def test_wrong_and_too_large_sizes_are_refused(self):
        probed = self.probed("--limit-object-bytes", "1M")
        with probed.connect() as one:
            self.assertEqual(one.ask(ADD, data=bytes(100), length=99, address=self.address())[0], -22)
            file = os.memfd_create("long")
            os.truncate(file, 1 << 31)
            for length, wanted in ((1 << 63, -7), (1 << 30, -7), ((1 << 20) + 1, -7)):
                self.assertEqual(one.ask(ADD, length=length, address=self.address(), fds=[file])[0], wanted)
            os.close(file)
            self.assertEqual(one.ask(HELLO)[0], 0)

    def test_an_invalid_object_is_refused_after_one_parse(self):
        """A deterministic error is not retried, and the parser keeps running."""
        probed = self.probed()
        with probed.connect() as one:
            for i in range(20):
                self.assertIn(one.ask(ADD, data=b"\x7fDOF" + bytes(60 + i), address=self.address())[0], (-22, -95))
        status = probed.status()
        self.assertEqual(status["jail"]["refused"], 20)
        self.assertEqual(status["jail"]["children_started"], 1)
        self.assertEqual(status["refused"], 20)

    def refusal_line(self, why, module=', module "m"'):
        return f"WARNING: refused probes of process {os.getpid()} (user {os.getuid()}){module}, sent to the socket: {why}"

    def wait_for_log(self, probed, text):
        wait_for(lambda: text in probed.text())

    def test_each_refused_registration_is_logged(self):
        """With the process, its user, its module and the reason, at whichever step it was refused."""
        probed = self.probed("--limit-object-bytes", "1M")
        file = os.memfd_create("long")
        os.truncate(file, 4 << 20)
        with probed.connect() as one:
            # by the parser; a name with control characters, which must not reach the log
            one.ask(ADD, data=b"\x7fDOF" + bytes(60), address=self.address(), module=b"lib\n\x1b.so")
            one.ask(ADD, data=b"\x7fDOF" + bytes(60), address=0x10)                    # by the mapping
            one.ask(ADD, length=(1 << 20) + 1, address=self.address(), fds=[file])     # by the daemon's limit
            one.ask(ADD, data=bytes(100), length=99, address=self.address())           # before the object is read
        with probed.connect() as one:
            one.s.send(b"\0" * 119)
            one.reply()
        os.close(file)
        self.wait_for_log(probed, self.refusal_line("", module=", module \"lib??.so\""))
        self.wait_for_log(probed, self.refusal_line("no file is mapped at address 0x10"))
        self.wait_for_log(probed, self.refusal_line("the object has 1048577 bytes; the limit is 1048576"))
        self.wait_for_log(probed, self.refusal_line("100 bytes follow the request instead of 99"))
        self.wait_for_log(probed, self.refusal_line("the message is shorter than a request", module=""))
        self.assertEqual(probed.status()["refused"], 5)

    def test_log_lines_of_refused_registrations_are_rate_limited(self):
        probed = self.probed()
        with probed.connect() as one:
            for _ in range(2000):
                one.ask(ADD, data=b"\x7fDOF" + bytes(60), address=0x10)
        self.assertGreaterEqual(probed.text().count("refused probes of process"), 20)
        self.assertLess(probed.text().count("refused probes of process"), 200)

    def test_an_address_in_no_file_is_refused(self):
        probed = self.probed()
        with probed.connect() as one:
            error, _, text = one.ask(ADD, data=b"\x7fDOF" + bytes(60), address=0x10)
            self.assertEqual(error, -22)
            self.assertIn("no file is mapped at address", text)

    def test_a_process_cannot_remove_the_generations_of_another(self):
        probed = self.probed()
        client = self.client(probed)
        with probed.connect() as one:
            for generation in (0, 1, 1 << 40, (1 << 64) - 1):
                one.ask(REMOVE, value=generation)
        self.assertEqual(len(probed.rows(str(client.pid))), OBJECT_PROBES)

    def test_a_client_that_sends_nothing_is_disconnected(self):
        probed = self.probed("--silent", "300ms")
        one = probed.connect()
        self.assertEqual(one.s.recv(10), b"")
        one.close()

    def test_a_client_that_does_not_read_its_replies_is_disconnected(self):
        probed = self.probed("--silent", "500ms")
        client = self.client(probed, "load", LARGE, 0)
        one = probed.connect()
        for _ in range(3):
            one.send(LIST)
        wait_for(lambda: probed.status()["clients"] == 1)
        self.assertEqual(len(probed.rows(f"large{client.pid}")), LARGE_PROBES)
        one.close()

    def test_connections_beyond_the_limit_wait(self):
        probed = self.probed("--limit-connections", "8")
        silent = [probed.connect() for _ in range(60)]
        client = self.client(probed)
        wait_for(lambda: probed.providers(client.pid) == ["client"])
        for one in silent:
            one.close()
        self.assertIn("8 clients are connected, the limit; new ones wait", probed.text())

    def test_the_connections_of_one_user_are_limited(self):
        if os.geteuid() != 0 or not shutil.which("setpriv"):
            self.skipTest("root and setpriv are needed to run as another user")
        probed = self.probed("--limit-connections-user", "4")
        program = ("import socket, sys\nall = []\nfor _ in range(6):\n s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
                   " s.connect(sys.argv[1]); s.settimeout(2); all.append(s)\n"
                   "def closed(s):\n try:\n  return s.recv(1) == b''\n except TimeoutError:\n  return False\n"
                   "print(sum(map(closed, all)))")
        done = run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "python3", "-c", program, probed.socket)
        self.assertEqual(done.stdout, "2\n")


if __name__ == "__main__":
    unittest.main()
