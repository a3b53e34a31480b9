# SPDX-License-Identifier: BSD-2-Clause
"""registry_rig - runs a private fathom-probed and programs that register with it; checks its tree of files."""

import glob
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest

from harness import BIN, FATHOM, run, wait_for

PROBED = os.path.join(BIN, "fathom-probed")
PROGRAMS = os.path.join(os.environ.get("FATHOM_BUILD", os.path.dirname(BIN)), "test", "system", "registry")
CLIENT = os.path.join(PROGRAMS, "registry-client")
NOTES_CLIENT = os.path.join(PROGRAMS, "registry-notes")
OWN_DOF, OWN_NOTES, OWN_NOTHING = (os.path.join(PROGRAMS, f"registry-own-{kind}") for kind in ("dof", "notes", "nothing"))
LIBRARY = os.path.join(PROGRAMS, "registry-library.so")
LARGE = os.path.join(PROGRAMS, "registry-large.so")
HELLO, ADD, REMOVE, LIST, NOTES = 1, 2, 3, 4, 5
REQUEST, REPLY = struct.Struct("<IIQQQQ80s"), struct.Struct("<IIQiIQ")
WAIT_SECONDS = 60
OBJECT_PROBES, LIBRARY_PROBES, LARGE_PROBES = 2, 3, 5000
counter = 0


def read(path):
    with open(path) as file:
        return file.read()


class Connection:
    """One connection to the daemon's socket, also for requests that the library never sends."""

    def __init__(self, path, timeout=20):
        self.s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.s.connect(path)
        self.s.settimeout(timeout)

    def send(self, operation, value=0, data=b"", length=None, address=0, base=0, module=b"m", version=1, fds=()):
        helper = module.ljust(64, b"\0") + struct.pack("<QQ", base, address)
        message = REQUEST.pack(version, operation, 7, value, len(data) if length is None else length, address, helper) + data
        socket.send_fds(self.s, [message], list(fds)) if fds else self.s.send(message)

    def reply(self):
        """Read a whole reply, all its parts: (error, value, text)."""
        text = b""
        while True:
            message = self.s.recv(65536)
            if not message:
                raise EOFError
            _, _, _, error, more, value = REPLY.unpack(message[:REPLY.size])
            text += message[REPLY.size:]
            if not more:
                return error, value, text.decode()

    def ask(self, *args, **kwargs):
        self.send(*args, **kwargs)
        return self.reply()

    def close(self):
        self.s.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Probed:
    """A running daemon."""

    def __init__(self, directory, *options, prefix=(), ready=True):
        global counter
        counter += 1
        self.name = f"reg{os.getpid()}n{counter}"
        self.socket = os.path.join(directory, "probed.sock")
        self.tree = os.path.join(directory, "tree")
        self.log_path = os.path.join(directory, f"{self.name}.log")
        self.log = open(self.log_path, "w")
        self.process = subprocess.Popen([*prefix, PROBED, "--no-cuse", "--socket", self.socket, "--state-dir", self.tree, "--name",
                                         self.name, *options], stdout=self.log, stderr=subprocess.STDOUT)
        self.pid = self.process.pid
        if ready:
            wait_for(lambda: "ready: " in self.text() or self.process.poll() is not None)
            if self.process.poll() is not None:
                raise AssertionError(f"the daemon ended:\n{self.text()}")

    def text(self):
        with open(self.log_path) as file:
            return file.read()

    @property
    def trace_path(self):
        return f"/dev/shm/{self.name}_trace.pid{self.pid}"

    def connect(self, **kwargs):
        return Connection(self.socket, **kwargs)

    def status(self):
        """The daemon's status. With all connections in use, the daemon closes those that have sent nothing; so retry."""
        for _ in range(100):
            try:
                with self.connect() as one:
                    return json.loads(one.ask(HELLO)[2])
            except ConnectionResetError:
                if self.process.poll() is not None:
                    raise
                time.sleep(0.05)
        raise AssertionError("the daemon closes each connection")

    def rows(self, *targets):
        """What `fathom probe registry` shows."""
        done = run(FATHOM, "probe", "registry", "--json", "--socket", self.socket, *targets, check=False)
        if done.returncode == 2:
            raise AssertionError(done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def providers(self, pid):
        return sorted({row["provider"] for row in self.rows(str(pid))})

    def descriptor_count(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the daemon did not stop:\n{self.text()}") from None

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def discard(self):
        self.kill()
        self.log.close()
        for path in glob.glob(self.trace_path + "*"):
            os.unlink(path)


class Client:
    """A program that registers when it is loaded."""

    def __init__(self, probed, *words, prefix=(), ready=True, program=CLIENT):
        self.process = subprocess.Popen([*prefix, program, *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=dict(os.environ, FATHOM_PROBED_SOCKET=probed.socket))
        self.pid = self.process.pid
        if ready:
            self.wait_ready()

    def wait_ready(self):
        said = self.process.stdout.readline()
        if said != "ready\n":
            raise AssertionError(f"the client printed {said!r} and ended with {self.process.wait()}")

    def refresh(self):
        """Let a client that runs "refresh" retry the registrations that had no answer."""
        self.send_line()
        if not self.process.stdout.readline():
            raise AssertionError(f"the client ended with {self.process.wait()}")

    def send_line(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def close_and_wait(self):
        """Close its standard input, so that it unregisters and ends; its exit status."""
        self.process.stdin.close()
        status = self.process.wait(WAIT_SECONDS)
        self.process.stdout.close()
        return status

    def discard(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for end in (self.process.stdin, self.process.stdout):
            if not end.closed:
                end.close()


class RegistryTest(unittest.TestCase):
    def setUp(self):
        if not os.path.exists(CLIENT):
            self.skipTest(f"{CLIENT} is missing: the build directory is needed (FATHOM_BUILD)")
        self.directory = tempfile.mkdtemp(prefix="fathom-registry-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        os.chmod(self.directory, 0o755)

    def probed(self, *options, **kwargs):
        probed = Probed(self.directory, *options, **kwargs)
        self.addCleanup(probed.discard)
        return probed

    def client(self, probed, *words, **kwargs):
        client = Client(probed, *words, **kwargs)
        self.addCleanup(client.discard)
        return client

    # ---- the tree ----

    def check_tree(self, tree, living=()):
        """The invariants of the tree while no registration is in progress. `living`: the pids that may be in it."""
        pids = {name for name in os.listdir(f"{tree}/stash/dof-pid") if name.isdigit()}
        self.assertLessEqual(set(os.listdir(f"{tree}/probes")), pids)
        self.assertLessEqual(pids, set(map(str, living)))
        links = {}
        for pid in pids:
            folder = f"{tree}/stash/dof-pid/{pid}"
            mappings = {name for name in os.listdir(folder) if re.fullmatch(r"\d+-\d+", name)}
            for name in mappings:
                links[name] = links.get(name, 0) + 1
                self.assertTrue({"raw", "dh", "parsed"} <= set(os.listdir(f"{folder}/{name}")), name)
                for file in set(os.listdir(f"{folder}/{name}/parsed")) - {"version"}:
                    if not file.startswith(":"):
                        self.check_probe_file(tree, pid, f"{folder}/{name}/parsed/{file}", file)
            for name in os.listdir(folder):
                if name.isdigit():
                    self.assertIn(os.readlink(f"{folder}/{name}"), mappings)
                    self.assertLess(int(name), os.stat(f"{folder}/next-gen").st_size)
        # an object with notes has a second block, NAME-1: its .rodata
        self.assertEqual({re.sub(r"^(\d+-\d+)-1$", r"\1", name) for name in os.listdir(f"{tree}/stash/dof")}, set(links))
        for name, count in links.items():
            self.assertEqual(os.stat(f"{tree}/stash/dof/{name}").st_nlink, 1 + count, name)

    def check_probe_file(self, tree, pid, path, name):
        provider, module, function, probe = name.split(":")
        seen = f"{tree}/probes/{pid}/{provider}/{module}/{function}/{probe}"
        self.assertTrue(os.path.samefile(path, seen), seen)
        self.assertGreater(os.stat(path).st_size, 8)

    def tree_is_empty(self, probed):
        return probed.status()["tree"]["processes"] == 0
