# SPDX-License-Identifier: BSD-2-Clause
"""host - an NVMe/TCP host, for what fathom perf does not do: outstanding Asynchronous Event Requests, and flushes."""

import socket
import struct

from harness import NQN

ICREQ, ICRESP, COMMAND, RESPONSE = 0, 1, 4, 5
SGL_IN_CAPSULE, SGL_TRANSPORT = 0x01, 0x5A
FLUSH, ASYNC_EVENT_REQUEST, FABRICS = 0x00, 0x0C, 0x7F
PROPERTY_SET, CONNECT = 0x00, 0x01
CC = 0x14
CC_ENABLE = 0x00460001  # 64-byte submission and 16-byte completion entries


class Host:
    def __init__(self, engine):
        self.socket = socket.create_connection(("127.0.0.1", engine.port), timeout=10)
        self.cid = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, kind, header, data=b""):
        self.socket.sendall(struct.pack("<BBBBI", kind, 0, 8 + len(header), 8 + len(header) if data else 0,
                                        8 + len(header) + len(data)) + header + data)

    def receive_exactly(self, count):
        taken = b""
        while len(taken) < count:
            taken += self.socket.recv(count - len(taken)) or self.raise_closed()
        return taken

    @staticmethod
    def raise_closed():
        raise AssertionError("the target has closed the connection")

    def receive(self):
        """Receive a PDU: (type, the bytes after the common header)."""
        kind, _, _, _, length = struct.unpack("<BBBBI", self.receive_exactly(8))
        return kind, self.receive_exactly(length - 8)

    def command(self, opcode, fabrics=0, cdws=b"", data=b""):
        """Send a command; its command identifier."""
        self.cid += 1
        sgl = struct.pack("<QI3xB", 0, len(data), SGL_IN_CAPSULE if data else SGL_TRANSPORT)
        self.send(COMMAND, struct.pack("<BBHI16x", opcode, 0x40, self.cid, fabrics) + sgl + cdws.ljust(24, b"\0"), data)
        return self.cid

    def receive_completion(self, cid):
        """Receive the successful completion of command `cid`; its first eight bytes."""
        kind, body = self.receive()
        result, _, _, answered, status = struct.unpack("<8sHHHH", body)
        if (kind, answered, status >> 1) != (RESPONSE, cid, 0):
            raise AssertionError(f"PDU {kind} answers {answered} with status 0x{status >> 1:x}, not {cid}")
        return result

    def connect_queue(self, queue, controller):
        """Connect this queue of a controller; the number of the controller."""
        self.send(ICREQ, struct.pack("<HBBI112x", 0, 0, 0, 0))
        assert self.receive()[0] == ICRESP
        names = NQN.encode().ljust(256, b"\0") + b"nqn.2026-11.org.fathom:host".ljust(256, b"\0")
        data = bytes(range(16)) + struct.pack("<H238x", controller) + names + bytes(256)
        return struct.unpack("<H6x", self.receive_completion(self.command(FABRICS, CONNECT, struct.pack("<HHHBxI", 0, queue, 31, 0, 0), data)))[0]

    def connect(self):
        """Connect the admin queue and enable the controller."""
        self.controller = self.connect_queue(0, 0xFFFF)
        self.receive_completion(self.command(FABRICS, PROPERTY_SET, struct.pack("<B3xIQ", 0, CC, CC_ENABLE)))

    def async_event_request(self):
        """Send an Asynchronous Event Request and do not wait for its completion."""
        return self.command(ASYNC_EVENT_REQUEST)

    def flush(self, namespace):
        """On an I/O queue."""
        self.receive_completion(self.command(FLUSH, namespace))
