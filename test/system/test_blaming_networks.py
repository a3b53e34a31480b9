#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`fathom blame` names slow networks: engines and hosts are in network namespaces of their own, with a narrow or a long network between them."""

import ctypes
import json
import os
import shutil
import subprocess
import sys
import unittest

import long_way
from harness import FATHOM, NQN, TOP, EngineTest, run

HOST = "nqn.2026-11.x:host"     # short: the engine keeps no long names of connections
READS, DEPTH = 400, 127
WAY_SECONDS = 0.1               # a round trip takes twice as long
SLOW_MS = 100


def enter_new_network():
    if long_way.LIBC.unshare(long_way.CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare")


class Networks(EngineTest):
    def setUp(self):
        super().setUp()
        for program in ("ip", "tc", "nsenter"):
            if not shutil.which(program):
                self.skipTest(f"{program} is missing")
        if subprocess.run(["unshare", "-n", "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
            self.skipTest("network namespaces need root")

    def start(self, address):
        """An engine in a network of its own, which listens at `address` after self.prepare()."""
        engine = self.engine("-m", "0x1", preexec_fn=enter_new_network)
        self.inside(engine.pid, "ip", "link", "set", "lo", "up")
        self.prepare(engine)
        engine.run_commands(f"""bdev_malloc_create -b Disk0 64 512
nvmf_create_transport -t tcp
nvmf_create_subsystem {NQN} -a -s SPDK00000000000001 -m 10
nvmf_subsystem_add_ns {NQN} Disk0
nvmf_subsystem_add_listener {NQN} -t tcp -a {address} -s {engine.port}
""")
        return engine

    @staticmethod
    def inside(pid, *command, check=True):
        return run("nsenter", "-t", pid, "-n", *command, check=check)

    def load(self, engine, pid, address, *words):
        """I/O of a host in the network of process `pid`."""
        self.inside(pid, FATHOM, "perf", "-a", address, "-s", engine.port, "-n", NQN, "--hostnqn", HOST, "--timeout", 0, "--connect-timeout", 60000,
                    "--quiet", *words)

    @staticmethod
    def blame(engine):
        answer = json.loads(run(FATHOM, "blame", "Disk0", "--slow", f"{SLOW_MS}ms", "--json", "-f", engine.trace_path).stdout)
        return answer, {row["cause"]: row for row in answer["causes"]}

    def check_network(self, engine, stage):
        answer, rows = self.blame(engine)
        self.assertEqual((answer["cause"], rows["network"]["stage"]), ("network", stage), json.dumps(answer, indent=1))
        self.assertGreater(rows["network"]["us"], rows["host"]["us"])
        self.assertIn(f"is the network (to {HOST}): ", answer["sentence"])
        return rows

    def test_a_narrow_network_is_blamed_for_the_send_queue(self):
        """50 MB at 25 MB a second, of which 16 MB wait at a time, for longer than half a second."""
        self.prepare = self.make_narrow
        engine = self.start("127.0.0.1")
        self.load(engine, engine.pid, "127.0.0.1", "--rw", "read", "--bs", "128k", "--depth", DEPTH, "--count", READS)
        self.check_network(engine, "SENDING")

    def make_narrow(self, engine):
        done = self.inside(engine.pid, "tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate", "200mbit", "burst", "256kb", "limit", "100mb", check=False)
        if done.returncode != 0:
            self.skipTest(f"tc: {done.stderr.strip()}")

    def make_long(self, engine):
        if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
            self.skipTest("/dev/net/tun is missing")
        self.host = self.process("unshare", "-n", "sleep", "600")
        # until the host's namespace is another than ours
        while os.readlink(f"/proc/{self.host.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
            pass
        way = self.process(sys.executable, os.path.join(TOP, "test/system/long_way.py"), engine.pid, self.host.pid, WAY_SECONDS)
        self.assertEqual(way.stdout.readline(), "ready\n")

    def process(self, *command):
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)

        def end():
            process.kill()
            process.communicate()
        self.addCleanup(end)
        return process

    def test_a_long_network_is_blamed_for_waits_in_both_directions(self):
        """Its window is full until the acknowledgements arrive, but the host reads."""
        self.prepare = self.make_long
        engine = self.start(long_way.FIRST)
        self.load(engine, self.host.pid, long_way.FIRST, "--rw", "write", "--bs", "64k", "--depth", 2, "--count", 6)
        rows = self.check_network(engine, "TRANSFER_IN")
        self.assertGreaterEqual(rows["network"]["us"], 6 * 2 * WAY_SECONDS * 1e6 * 0.9)
        self.load(engine, self.host.pid, long_way.FIRST, "--rw", "read", "--bs", "128k", "--depth", DEPTH, "--count", READS)
        self.check_network(engine, "SENDING")


if __name__ == "__main__":
    unittest.main()
