#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The disk that loses unflushed writes: what a cut may leave of them, as seen by an NBD client that is no QEMU."""

import os
import pathlib
import random
import socket
import struct
import sys
import tempfile
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent)]

import power_disk   # noqa: E402
from power_disk import SECTOR   # noqa: E402

SECTORS = 8
SECONDS = 60        # for an answer


def block(number):
    return bytes([number]) * SECTOR


class Client:
    """One connection."""

    def __init__(self, disk):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(SECONDS)
        self.socket.connect(disk.socket)
        self.receive(18)
        self.socket.sendall(struct.pack(">I", 3) + b"IHAVEOPT" + struct.pack(">II", power_disk.OPTION_EXPORT_NAME, 0))
        self.receive(10)

    def receive(self, count):
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            if not piece:
                raise ConnectionError
            data += piece
        return data

    def send(self, kind, sector=0, data=b"", length=0):
        self.socket.sendall(struct.pack(">IHHQQI", power_disk.REQUEST_MAGIC, 0, kind, 0, sector * SECTOR, length or len(data)) + data)

    def ask(self, kind, sector=0, data=b"", length=0):
        self.send(kind, sector, data, length)
        magic, error, _ = struct.unpack(">IIQ", self.receive(16))
        assert (magic, error) == (power_disk.REPLY_MAGIC, 0)
        return self.receive(length)

    def write(self, sector, number):
        self.ask(power_disk.WRITE, sector, block(number))

    def flush(self):
        self.ask(power_disk.FLUSH)

    def read(self):
        """The first byte of each sector."""
        return list(self.ask(power_disk.READ, length=SECTORS * SECTOR)[::SECTOR])


class TestPowerDisk(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="fathom-disk-")
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.image = self.directory / "image"
        with open(self.image, "wb") as file:
            file.truncate(SECTORS * SECTOR)
        self.disk = power_disk.PowerDisk(self.image, 1)
        self.addCleanup(self.disk.__exit__)

    def client(self):
        client = Client(self.disk)
        self.addCleanup(client.socket.close)
        return client

    def on_image(self, path=None):
        return list((path or self.image).read_bytes()[::SECTOR])

    def test_a_flush_keeps_what_was_written_before_and_a_cut_each_sector_old_or_new(self):
        client = self.client()
        for sector in range(SECTORS):
            client.write(sector, 1)
        client.flush()
        for number in (2, 3):
            for sector in range(SECTORS):
                client.write(sector, number)
        self.assertEqual(client.read(), [3] * SECTORS)
        moment = self.disk.cut(client.socket.close, self.directory / "moment")
        self.assertLessEqual(set(self.on_image()), {1, 2, 3})
        self.assertEqual(self.client().read(), self.on_image())
        seen, chance = set(), random.Random(1)
        for _ in range(300):
            moment.write_state(self.directory / "state", chance)
            state = self.on_image(self.directory / "state")
            self.assertLessEqual(set(state), {1, 2, 3})
            seen.add(tuple(state))
        everything, nothing, first = (3,) * SECTORS, (1,) * SECTORS, (2,) * SECTORS
        self.assertLessEqual({everything, nothing, first, (3, 3, 3, *(2,) * (SECTORS - 3))}, seen)
        self.assertTrue(any(list(state) not in (sorted(state), sorted(state, reverse=True)) for state in seen), "no write overtook another one")

    def test_a_moment_is_what_the_disk_had_then(self):
        client = self.client()
        client.write(0, 1)
        client.flush()
        client.write(1, 2)
        moment, note = self.disk.moment(self.directory / "moment", lambda: "note")
        self.assertEqual(note, "note")
        client.write(1, 9)
        client.write(2, 9)
        client.flush()
        seen, chance = set(), random.Random(1)
        for _ in range(50):
            moment.write_state(self.directory / "state", chance)
            seen.add(tuple(self.on_image(self.directory / "state"))[:3])
        self.assertEqual(seen, {(1, 0, 0), (1, 2, 0)})
        moment.discard()
        self.assertFalse(os.path.exists(self.directory / "moment"))

    def test_a_request_that_a_killed_client_had_sent_does_not_arrive_after_the_cut(self):
        client = self.client()
        client.write(0, 1)
        client.flush()
        self.disk.cut(lambda: client.send(power_disk.WRITE, 0, block(7)))
        with self.assertRaises(ConnectionError):
            client.receive(1)
        self.assertEqual(self.client().read()[0], 1)


if __name__ == "__main__":
    unittest.main()
