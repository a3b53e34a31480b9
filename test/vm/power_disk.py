# SPDX-License-Identifier: BSD-2-Clause
"""A disk that loses unflushed writes at a power cut: an NBD server for QEMU, with a volatile cache.

    with power_disk.PowerDisk(image, seed) as disk:
        ... QEMU with -drive file=nbd+unix:///?socket=disk.socket ...
        disk.cut(qemu)      # kill QEMU; each unflushed sector keeps one of its contents since the last flush
    moment = disk.moment(...)   # beside that, what a cut at this moment could leave: moment.write_state(...) makes one such image

A flush moves the cache into the image file. At a cut each block of 4 KiB becomes what it was at the last flush, or what any later write
put there, at random: writes are lost, reordered and torn, but each block of 4 KiB is old or new as a whole. This is the model of an NVMe disk with
blocks of 4 KiB and without power-loss protection. With sectors of 512 bytes some mounts after a cut failed ("Bad message"). Probably the cut had
torn a metadata block of XFS: its recovery skips a block whose first sector is newer than the record in the log. No disk image proves this.

A moment is the disk's flushed content and its cache, both as a whole. Which writes of the cache survive is chosen for each state: none, all, those
before some moment, or any of them.
"""

import os
import random
import socket
import struct
import tempfile
import threading

COPY_BYTES = 1 << 20
SECTOR = 4096      # the logical block of the guest's disk, too: guest.Devices
OPTION_MAGIC, OPTION_REPLY_MAGIC = 0x49484156454F5054, 0x3E889045565A9
REQUEST_MAGIC, REPLY_MAGIC = 0x25609513, 0x67446698
FIXED_NEWSTYLE, NO_ZEROES = 1, 2
OPTION_EXPORT_NAME, OPTION_ABORT, OPTION_GO = 1, 2, 7
REPLY_ACK, REPLY_INFO, REPLY_UNSUPPORTED = 1, 3, 0x80000001
HAS_FLAGS, SEND_FLUSH, SEND_FUA = 1, 4, 8
READ, WRITE, DISCONNECT, FLUSH = 0, 1, 2, 3
FLAG_FUA = 1
EINVAL = 22


def choose(cache, chance):
    """What a cut leaves of a cache: ({sector: content}, sectors that lost something, of those the ones that became neither old nor new)."""
    kind, kept = chance.randrange(6), {}
    last = max((writes[-1][0] for writes in cache.values()), default=0)
    first = min((writes[0][0] for writes in cache.values()), default=0)
    until = {0: -1, 1: last, 2: chance.randint(first, last)}.get(kind)     # nothing, everything, the first writes
    some = (0.0, 0.5, 0.9)[kind % 3]
    lost = torn = 0
    for sector, writes in cache.items():
        if until is not None:
            count = sum(number <= until for number, _ in writes)
        else:
            count = len(writes) if chance.random() < some else chance.randrange(len(writes) + 1)
        lost += count < len(writes)
        torn += 0 < count < len(writes)
        if count:
            kept[sector] = writes[count - 1][1]
    return kept, lost, torn


def copy_sparse(source, target):
    """Copy a file; its holes stay holes."""
    with open(source, "rb") as reader, open(target, "wb") as writer:
        size, at = os.fstat(reader.fileno()).st_size, 0
        writer.truncate(size)
        while at < size:
            try:
                at = os.lseek(reader.fileno(), at, os.SEEK_DATA)
            except OSError:     # only a hole is left
                return
            end = os.lseek(reader.fileno(), at, os.SEEK_HOLE)
            while at < end:
                at += os.pwrite(writer.fileno(), os.pread(reader.fileno(), min(end - at, COPY_BYTES), at), at)


class Moment:
    """What the disk had at one moment: the file `image`, which is ours, and the unflushed writes."""

    def __init__(self, image, cache):
        self.image, self.cache = image, cache

    def write_state(self, path, chance):
        """Make `path` an image that a cut at this moment could have left."""
        copy_sparse(self.image, path)
        kept, _, _ = choose(self.cache, chance)
        with open(path, "r+b") as file:
            for sector, content in kept.items():
                os.pwrite(file.fileno(), content, sector * SECTOR)

    def discard(self):
        os.unlink(self.image)


class PowerDisk:
    """One client at a time. The image file has the size of the disk."""

    def __init__(self, image, seed):
        self.path, self.image = image, os.open(image, os.O_RDWR)
        self.bytes = os.fstat(self.image).st_size
        self.random = random.Random(seed)
        self.cache = {}             # sector: its (number, content)s since the last flush, oldest first
        self.writes = 0
        self.lost = self.torn = self.cuts = self.flushes = 0
        self._lock = threading.Lock()
        self._directory = tempfile.TemporaryDirectory(prefix="fathom-disk-")
        self.socket = os.path.join(self._directory.name, "nbd")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.socket)
        self._listener.listen(1)
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._listener.close()
        self._directory.cleanup()

    def moment(self, path, note):
        """This moment, its image at `path`; and the result of `note()`, called while no request is served."""
        with self._lock:
            copy_sparse(self.path, path)
            return Moment(path, {sector: list(writes) for sector, writes in self.cache.items()}), note()

    def cut(self, kill, path=None):
        """Call `kill`, which ends QEMU, then lose what was not flushed. No request is served in between. `path`: return this moment, too."""
        with self._lock:
            kill()
            moment = None
            if path:
                copy_sparse(self.path, path)
                moment = Moment(path, dict(self.cache))
            kept, lost, torn = choose(self.cache, self.random)
            for sector, content in kept.items():
                os.pwrite(self.image, content, sector * SECTOR)
            self.lost += lost
            self.torn += torn
            self.cache = {}
            self.cuts += 1
            return moment

    def _serve(self):
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            life = self.cuts
            with client:
                try:
                    self._negotiate(client)
                    while self._request(client, life):
                        pass
                except (ConnectionError, OSError):
                    pass            # QEMU was killed

    @staticmethod
    def _receive(client, count):
        data = bytearray()
        while len(data) < count:
            piece = client.recv(count - len(data))
            if not piece:
                raise ConnectionError
            data += piece
        return bytes(data)

    def _negotiate(self, client):
        client.sendall(b"NBDMAGIC" + struct.pack(">QH", OPTION_MAGIC, FIXED_NEWSTYLE | NO_ZEROES))
        self._receive(client, 4)
        export = struct.pack(">QH", self.bytes, HAS_FLAGS | SEND_FLUSH | SEND_FUA)
        while True:
            _, option, length = struct.unpack(">QII", self._receive(client, 16))
            self._receive(client, length)

            def reply(kind, data=b"", option=option):
                client.sendall(struct.pack(">QIII", OPTION_REPLY_MAGIC, option, kind, len(data)) + data)
            if option == OPTION_EXPORT_NAME:
                client.sendall(export)
                return
            if option == OPTION_ABORT:
                raise ConnectionError
            if option != OPTION_GO:
                reply(REPLY_UNSUPPORTED)
                continue
            reply(REPLY_INFO, struct.pack(">H", 0) + export)
            reply(REPLY_ACK)
            return

    def _request(self, client, life):
        magic, flags, kind, handle, offset, length = struct.unpack(">IHHQQI", self._receive(client, 28))
        if magic != REQUEST_MAGIC or kind == DISCONNECT:
            return False
        data, answer, error = self._receive(client, length) if kind == WRITE else b"", b"", 0
        with self._lock:
            if life != self.cuts:
                return False        # it was in the socket when QEMU was killed: it has not reached the disk
            if kind in (READ, WRITE) and (offset % SECTOR or length % SECTOR or offset + length > self.bytes):
                error = EINVAL
            elif kind == READ:
                answer = self._read(offset, length)
            elif kind == WRITE:
                self._write(offset, data)
            elif kind == FLUSH:
                self._flush()
            else:
                error = EINVAL
            if kind == WRITE and flags & FLAG_FUA:
                self._flush()       # more than was asked for, as disks do
            client.sendall(struct.pack(">IIQ", REPLY_MAGIC, error, handle) + answer)
        return True

    def _read(self, offset, length):
        data = bytearray(os.pread(self.image, length, offset))
        for at in range(0, length, SECTOR):
            contents = self.cache.get((offset + at) // SECTOR)
            if contents:
                data[at:at + SECTOR] = contents[-1][1]
        return bytes(data)

    def _write(self, offset, data):
        self.writes += 1
        for at in range(0, len(data), SECTOR):
            self.cache.setdefault((offset + at) // SECTOR, []).append((self.writes, data[at:at + SECTOR]))

    def _flush(self):
        for sector, contents in self.cache.items():
            os.pwrite(self.image, contents[-1][1], sector * SECTOR)
        self.cache.clear()
        self.flushes += 1
