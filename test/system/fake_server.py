# SPDX-License-Identifier: BSD-2-Clause
"""
fake_server - fathom-server's side of dRPC, for tests of the engine: it serves the server's socket and calls the engine's.

Chunks are packed by hand and messages by protoc's Python, so no code of the engine is on both sides.
"""

import importlib
import os
import select
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHUNK = struct.Struct("=QQII")
CHUNK_BYTES_MAX = 131072 - CHUNK.size
MGMT, SRV, FATHOM = 2, 3, 70
SET_RANK, SET_UP, PREP_SHUTDOWN, PING_RANK, GROUP_UPDATE, SET_LOG_MASKS = 202, 209, 218, 225, 232, 238
NOTIFY_READY, CLUSTER_EVENT, DESCRIBE, STORAGE = 301, 304, 7001, 7004
RANK_NONE = 2 ** 32 - 1


class Protocol:
    """The Python modules that protoc makes from src/rpc/proto: protocol.mgmt.SetRankReq() ..."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="fathom-proto-")
        names = ["ctl", "drpc", "security", "fathom", "mgmt", "shared", "srv", "store"]
        subprocess.run(["protoc", f"--proto_path={TOP}/src", f"--python_out={self.folder.name}",
                        *[f"rpc/proto/{name}.proto" for name in names]], check=True)
        sys.path.insert(0, self.folder.name)
        try:
            for name in names:
                setattr(self, name, importlib.import_module(f"rpc.proto.{name}_pb2"))
        finally:
            sys.path.remove(self.folder.name)


protocol = Protocol()


def chunks(message):
    """The packets of `message`, which is split into chunks of at most CHUNK_BYTES_MAX."""
    pieces = [message[at:at + CHUNK_BYTES_MAX] for at in range(0, len(message), CHUNK_BYTES_MAX)] or [b""]
    return [CHUNK.pack(len(message), len(piece), i, len(pieces)) + piece for i, piece in enumerate(pieces)]


def receive(sock):
    """Receive a whole message; None: the peer closed the connection."""
    message = b""
    while True:
        packet = sock.recv(1 << 17)
        if not packet:
            return None
        total, piece, index, count = CHUNK.unpack_from(packet)
        message += packet[CHUNK.size:CHUNK.size + piece]
        if index + 1 == count:
            assert len(message) == total, (len(message), total)
            return message


def call(path, module, method, request=None, response=None, timeout=20):
    """Call a method of the program that listens at `path`: (dRPC status, response or None)."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
        sock.settimeout(timeout)
        sock.connect(path)
        body = request.SerializeToString() if request is not None else b""
        message = protocol.drpc.Call(module=module, method=method, sequence=7, body=body).SerializeToString()
        for packet in chunks(message):
            sock.send(packet)
        answer = receive(sock)
        if answer is None:
            raise ConnectionResetError(f"method {method} was not answered")
        reply = protocol.drpc.Response.FromString(answer)
        assert reply.status != 0 or reply.sequence == 7, reply
        return reply.status, response.FromString(reply.body) if response and reply.status == 0 else None


class Server:
    """
    Serves FOLDER/fathom_server.sock on its own thread until stop(). `answer_event(event)` returns the status for an event; None: no answer.

    `ready` has the NotifyReady requests and `offered` the events, in order of arrival; `events` has the events accepted with status 0.
    """

    def __init__(self, folder, answer_event=lambda event: 0):
        self.path = os.path.join(folder, "fathom_server.sock")
        self.answer_event = answer_event
        self.ready, self.events, self.offered = [], [], []
        self.changed = threading.Condition()
        if os.path.exists(self.path):
            os.unlink(self.path)        # left by a server that was killed
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(self.path)
        self.listener.listen(8)
        self.wake, self.woken = socket.socketpair()
        self.connections = []
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            readable, _, _ = select.select([self.listener, self.woken, *self.connections], [], [])
            if self.woken in readable:
                return
            for sock in readable:
                if sock is self.listener:
                    self.connections.append(sock.accept()[0])
                else:
                    self.answer(sock)

    def answer(self, sock):
        try:
            message = receive(sock)
        except ConnectionResetError:
            message = None
        if message is None:
            self.connections.remove(sock)
            sock.close()
            return
        request = protocol.drpc.Call.FromString(message)
        reply = protocol.drpc.Response(sequence=request.sequence)
        with self.changed:
            if (request.module, request.method) == (SRV, NOTIFY_READY):
                self.ready.append(protocol.srv.NotifyReadyReq.FromString(request.body))
            elif (request.module, request.method) == (SRV, CLUSTER_EVENT):
                event = protocol.shared.ClusterEventReq.FromString(request.body)
                self.offered.append(event)
                status = self.answer_event(event)
                self.changed.notify_all()
                if status is None:
                    return              # the engine gets no answer
                if status == 0:
                    self.events.append(event)
                reply.body = protocol.shared.ClusterEventResp(sequence=event.sequence, status=status).SerializeToString()
            else:
                reply.status = protocol.drpc.UNKNOWN_METHOD
            self.changed.notify_all()
        for packet in chunks(reply.SerializeToString()):
            sock.send(packet)

    def wait(self, condition, timeout=60):
        """Wait until `condition()` holds; false after `timeout` seconds."""
        with self.changed:
            return self.changed.wait_for(condition, timeout)

    def stop(self, remove=True):
        """Close all sockets, as a server that ends. remove=False: leave the socket's file, as a killed server does."""
        self.wake.send(b"x")
        self.thread.join()
        for sock in [self.listener, self.wake, self.woken, *self.connections]:
            sock.close()
        if remove:
            os.unlink(self.path)
