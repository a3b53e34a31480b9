# SPDX-License-Identifier: BSD-2-Clause
"""peer - our server and client as programs (peer.c), and grpcio's for the same methods."""

import os
import subprocess

PEER = os.environ["GRPC_PEER"]


def varint(n):
    out = b""
    n &= (1 << 64) - 1
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def status(code, text):
    """A google.rpc.Status {code, message}, by hand: no generated code is needed."""
    text = text.encode()
    return (b"\x08" + varint(code) if code else b"") + (b"\x12" + varint(len(text)) + text if text else b"")


def read_status(data):
    code, text, at = 0, "", 0

    def number(at):
        n = shift = 0
        while True:
            n |= (data[at] & 127) << shift
            shift += 7
            at += 1
            if data[at - 1] < 128:
                return n, at
    while at < len(data):
        key, at = number(at)
        value, at = number(at)
        if key == 8:
            code = value
        elif key == 18:
            text = data[at:at + value].decode()
            at += value
        else:
            raise ValueError(f"field {key}")
    return code, text


class Server:
    def __init__(self, *arguments):
        self.process = subprocess.Popen([PEER, "serve", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        kind, rest = self.line()
        if kind != "port":
            self.close(1)
            raise RuntimeError(rest)
        self.port = int(rest)
        self.address = f"127.0.0.1:{self.port}"

    def line(self):
        kind, _, rest = self.process.stdout.readline().rstrip("\n").partition(" ")
        return kind, rest

    def say(self, command):
        self.process.stdin.write(command + "\n")

    def ask(self, command):
        self.say(command)
        return self.line()[1]

    def wait_held(self, count):
        while not self.ask("stats").endswith(f"held {count}"):
            pass

    def close(self, wanted=0):
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()
        if self.process.returncode != wanted:
            raise RuntimeError(f"the server ended with {self.process.returncode}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def call(address, path, code=0, text="", timeout_ms=60000, role="admin", tls=()):
    """Make a call with the C client; return the lines that it prints as a dictionary."""
    out = subprocess.run([PEER, "call", address, path, str(code), text, str(timeout_ms), role, *tls], stdout=subprocess.PIPE, text=True,
                         check=True, timeout=90).stdout
    return dict(line.partition(" ")[::2] for line in out.splitlines())
