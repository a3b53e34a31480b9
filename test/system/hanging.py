# SPDX-License-Identifier: BSD-2-Clause
"""hanging - a file whose I/O a test suspends and resumes: a FUSE filesystem with one file, served by this process."""

import ctypes
import os
import stat
import struct
import tempfile
import threading
import unittest

LOOKUP, GETATTR, SETATTR, OPEN, READ, WRITE, STATFS, RELEASE, FSYNC = 1, 3, 4, 14, 15, 16, 17, 18, 20
GETXATTR, FLUSH, INIT, OPENDIR, RELEASEDIR, ACCESS = 22, 25, 26, 27, 29, 34
FORGET, INTERRUPT, BATCH_FORGET = 2, 36, 42
ENODATA, ENOSYS, ENOENT = 61, 38, 2
FILE = 2
MNT_DETACH = 2
libc = ctypes.CDLL(None, use_errno=True)


class HangingFile:
    """`path` is a file of zeroes. After hang(), the chosen requests get no answer until release()."""

    def __init__(self, directory, size):
        if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
            raise unittest.SkipTest("mounting needs root and /dev/fuse")
        self.mount = tempfile.mkdtemp(prefix="hanging", dir=directory)
        self.path = os.path.join(self.mount, "disk")
        self.data = bytearray(size)
        self.lock = threading.Lock()
        self.hung, self.held = (), []
        self.fd = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={self.fd},rootmode=40000,user_id=0,group_id=0,allow_other"
        if libc.mount(b"hanging", self.mount.encode(), b"fuse", 0, options.encode()) != 0:
            os.close(self.fd)
            raise unittest.SkipTest(f"mounting FUSE: {os.strerror(ctypes.get_errno())}")
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def hang(self, *opcodes):
        """Default: reads, writes and syncs. An open is OPEN, a close FLUSH."""
        with self.lock:
            self.hung = opcodes or (READ, WRITE, FSYNC)

    def release(self):
        with self.lock:
            self.hung, held, self.held = (), self.held, []
        for request in held:
            self.answer(*request)

    def held_count(self):
        with self.lock:
            return len(self.held)

    def close(self):
        self.release()
        libc.umount2(self.mount.encode(), MNT_DETACH)
        self.thread.join(10)
        os.close(self.fd)

    def serve(self):
        while True:
            try:
                message = os.read(self.fd, (1 << 20) + 4096)
            except OSError as error:
                if error.errno == 4:
                    continue
                return      # unmounted
            _, opcode, unique, node = struct.unpack_from("<IIQQ", message)
            request = (opcode, unique, node, message[40:])
            if opcode in (FORGET, BATCH_FORGET, INTERRUPT):
                continue
            with self.lock:
                if opcode in self.hung:
                    self.held.append(request)
                    continue
            self.answer(*request)

    def attributes(self, node):
        is_file = node == FILE
        mode = stat.S_IFREG | 0o600 if is_file else stat.S_IFDIR | 0o700
        size = len(self.data) if is_file else 0
        return struct.pack("<QQQQQQIIIIIIIIII", node, size, size // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def reply(self, unique, body=b"", error=0):
        try:
            os.write(self.fd, struct.pack("<IiQ", 16 + len(body), -error, unique) + body)
        except OSError:
            pass            # the process that sent the request has ended

    def answer(self, opcode, unique, node, body):
        if opcode == INIT:
            major, minor, readahead, flags = struct.unpack_from("<IIII", body)
            wanted = 1 | 1 << 5 | 1 << 15 | 1 << 22     # ASYNC_READ, BIG_WRITES, ASYNC_DIO, MAX_PAGES
            self.reply(unique, struct.pack("<IIIIHHIIHHI28x", 7, 31, readahead, flags & wanted, 1024, 1024, 1 << 20, 1, 256, 0, 0))
        elif opcode == LOOKUP:
            if body.rstrip(b"\0") != b"disk":
                self.reply(unique, error=ENOENT)
            else:
                self.reply(unique, struct.pack("<QQQQII", FILE, 0, 3600, 3600, 0, 0) + self.attributes(FILE))
        elif opcode in (GETATTR, SETATTR):
            self.reply(unique, struct.pack("<QII", 3600, 0, 0) + self.attributes(node))
        elif opcode in (OPEN, OPENDIR):
            self.reply(unique, struct.pack("<QII", 1, 0, 0))
        elif opcode == READ:
            offset, size = struct.unpack_from("<QI", body, 8)
            self.reply(unique, bytes(self.data[offset:offset + size]))
        elif opcode == WRITE:
            offset, size = struct.unpack_from("<QI", body, 8)
            self.data[offset:offset + size] = body[40:40 + size]
            self.reply(unique, struct.pack("<II", size, 0))
        elif opcode == STATFS:
            self.reply(unique, struct.pack("<QQQQQIIII24x", 1 << 20, 1 << 19, 1 << 19, 16, 8, 4096, 255, 4096, 0))
        elif opcode == GETXATTR:
            self.reply(unique, error=ENODATA)
        elif opcode in (RELEASE, RELEASEDIR, FLUSH, FSYNC, ACCESS):
            self.reply(unique)
        else:
            self.reply(unique, error=ENOSYS)
