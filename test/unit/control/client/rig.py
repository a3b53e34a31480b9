# SPDX-License-Identifier: BSD-2-Clause
"""rig - shared by the tests of the operator's commands: runs `fathom` with its own home folder, and compares golden output."""

import json
import os
import re
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
FATHOM = os.path.join(os.environ.get("FATHOM_BIN", os.path.join(HERE, *[os.pardir] * 4, "build", "bin")), "fathom")


def free_port():
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class CommandTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="fathom-commands-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def run_plain(self, *words, timeout=60, program=FATHOM, **kwargs):
        """Run `fathom` without added options."""
        return subprocess.run([program, *map(str, words)], capture_output=True, text=True, timeout=timeout, cwd=self.folder,
                              env=dict(os.environ, HOME=self.folder, LC_ALL="C", TZ="UTC"), **kwargs)

    def fathom(self, servers, *words, status=0, **kwargs):
        """Run `fathom` with these servers (or addresses), without certificates."""
        hosts = ",".join(getattr(server, "address", server) for server in (servers if isinstance(servers, list) else [servers]))
        done = self.run_plain(*words, "-i", "-l", hosts, **kwargs)
        self.assertEqual(done.returncode, status, f"{words}\n{done.stdout}\n{done.stderr}")
        return done

    def golden(self, name, said):
        """Assert that `said` equals the golden file; FATHOM_GOLDEN=write writes the file instead."""
        path = os.path.join(HERE, "golden", name)
        if os.environ.get("FATHOM_GOLDEN") == "write":
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write(said)
        with open(path) as file:
            self.assertEqual(said, file.read(), name)

    def with_places(self, servers, said):
        """Replace the ports of fake servers by their position in the list."""
        for number, server in enumerate(servers if isinstance(servers, list) else [servers]):
            said = said.replace(str(getattr(server, "port", server)), f"1000{number + 1}")
        return said

    def show_errors(self, name, servers, *words):
        """Compare standard error with a golden file."""
        self.golden(f"{name}.err", self.with_places(servers, self.fathom(servers, *words, status=1).stderr))

    def show(self, name, servers, *words, status=0, hosts=()):
        """Compare the text and the JSON of a command with golden files."""
        for suffix, more in (("txt", ()), ("json", ("--json",))):
            said = self.with_places(servers, self.fathom(servers, *words, *more, status=status).stdout)
            if suffix == "json":
                json.loads(said)
                said = re.sub(r'(?m)^( +)"\d{9,20}": {', r'\1"HASH": {', said)
            self.golden(f"{name}.{suffix}", said)
