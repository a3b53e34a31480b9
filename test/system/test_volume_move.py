# SPDX-License-Identifier: BSD-2-Clause
"""
Moves of a volume between two real engines, while a host writes and verifies: one rank has the volume afterwards, with all that was confirmed,
although the server or an engine is killed at any moment.
"""

import os
import random
import signal
import subprocess
import time
import unittest

from harness import FATHOM
from server_rig import Refused, ServerTest

HOST = "nqn.2014-08.org.nvmexpress:uuid:11111111-1111-4111-8111-111111111111"
MIB = 1 << 20
SIZE = 48 * MIB
WAIT_SECONDS = 120
SEED = int(os.environ.get("FATHOM_SEED", "14"))
KILLS = int(os.environ.get("FATHOM_KILLS", "4"))
ABSENT = "1351"


class Moves(ServerTest):
    def start(self):
        self.rig = self.server(engines=2, size="256MiB").start()
        self.rig.format()
        self.rig.wait_joined()
        mgmt = self.messages.mgmt
        self.rig.call("/mgmt.MgmtSvc/PoolCreate", mgmt.PoolCreateReq(properties=[mgmt.PoolProperty(number=1, strval="p")]), timeout=60)
        self.change("VolumeCreate", name="p/db", size_bytes=SIZE, ranks="0")
        self.nqn = self.change("VolumePublish", name="p/db", host=HOST).nqn
        self.state = os.path.join(self.directory, "state")

    def call(self, method, timeout=60, **fields):
        return self.rig.call("/fathom.ControlSvc/" + method, getattr(self.messages.fathom, method + "Req")(**fields), timeout=timeout)

    def change(self, method, timeout=60, **fields):
        return self.call(method, timeout, **fields).volume

    def volume(self):
        return self.call("VolumeList", name="p/db").volumes[0]

    def engine_volume(self, rank):
        """The volume as the engine of the rank has it; None: it has none."""
        answer = self.rig.call("/fathom.ControlSvc/Storage", self.messages.store.StorageReq(rank=rank), role="server", timeout=60)
        self.assertEqual(answer.error, 0, answer.text)
        volumes = [volume for pool in answer.pools for volume in pool.volumes]
        self.assertLessEqual(len(volumes), 1)
        return volumes[0] if volumes else None

    def perf_words(self, rank, *options):
        return (FATHOM, "perf", "-a", "127.0.0.1", "-s", str(self.rig.engine_ports[rank]), "-n", self.nqn, "--hostnqn", HOST, "--quiet",
                "--verify-state", self.state, "--bs", "64k", *options)

    def perf(self, rank, *options):
        return subprocess.run(self.perf_words(rank, *options), capture_output=True, text=True, timeout=WAIT_SECONDS)

    def assert_one_has_it(self, rank):
        """Only this rank has the volume and serves it, with all that was confirmed to the host."""
        mine, other = self.engine_volume(rank), self.engine_volume(1 - rank)
        self.assertIsNotNone(mine, self.rig.log())
        self.assertIsNone(other)
        self.assertEqual((mine.move, [host.nqn for host in mine.hosts]), ("", [HOST]))
        deadline = time.monotonic() + WAIT_SECONDS
        while (checked := self.perf(rank, "--time", "0")).returncode == 2 and time.monotonic() < deadline:
            time.sleep(0.05)    # a restarted engine waits for its server's permission
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr + self.rig.engine_logs())
        self.assertEqual(self.perf(1 - rank, "--time", "0").returncode, 2)

    def wait_connected(self):
        deadline = time.monotonic() + WAIT_SECONDS
        while not any(host.connections for host in self.volume().hosts):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def wait_settled(self):
        """Wait until the volume is ready and nothing of it is pending: then it is in one place."""
        deadline, why = time.monotonic() + WAIT_SECONDS, "?"
        while time.monotonic() < deadline:
            try:
                volume = self.volume()
                if volume.state == "ready" and not volume.pending and volume.asked_ns:
                    for rank in (0, 1):
                        self.engine_volume(rank)
                    return volume.rank
                why = volume
            except (Refused, AssertionError) as error:
                why = error     # an engine or the server is starting
            time.sleep(0.05)
        raise AssertionError(f"not settled within {WAIT_SECONDS} s: {why}\n{self.rig.log()}\n{self.rig.engine_logs()}")

    def test_a_volume_moves_while_a_host_writes(self):
        self.start()
        self.assertEqual(self.perf(0, "--rw", "write", "--count", str(SIZE // 2 // 65536)).returncode, 0)
        writer = subprocess.Popen(self.perf_words(0, "--rw", "mix", "--read-percent", "50", "--depth", "4", "--time", "600"),
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            self.wait_connected()
            moved = self.change("VolumeMove", name="p/db", rank=1)
            output, _ = writer.communicate(timeout=WAIT_SECONDS)
        finally:
            writer.kill()
            writer.wait()
        self.assertIn(writer.returncode, (1, 2), output)   # it was disconnected; 2: before its first write, on a busy machine
        self.assertEqual((moved.rank, moved.pending, list(moved.addresses)), (1, "", [f"127.0.0.1:{self.rig.engine_ports[1]}"]))
        self.assert_one_has_it(1)
        self.assertEqual(self.change("VolumeMove", name="p/db", rank=1).rank, 1)   # repeated
        self.assertEqual(self.perf(1, "--rw", "mix", "--count", "500").returncode, 0)
        self.assertEqual(self.change("VolumeMove", name="p/db", rank=0).rank, 0)   # and back, with what was written there
        self.assert_one_has_it(0)
        with self.assertRaises(Refused) as refused:
            self.change("VolumeMove", name="p/db", cancel=True)
        self.assertEqual(refused.exception.fault.get("Code"), ABSENT)

    def test_kills_at_any_moment_leave_the_volume_in_one_place(self):
        self.start()
        chance = random.Random(SEED)
        self.assertEqual(self.perf(0, "--rw", "write", "--count", str(SIZE // 65536)).returncode, 0)
        for number in range(KILLS):
            rank = self.volume().rank
            victim = ("server", "source", "target")[number % 3]
            pids = {engine.rank: engine.pid for engine in self.rig.engines()}
            self.assertEqual(self.perf(rank, "--rw", "randwrite", "--count", "200").returncode, 0)
            try:
                self.change("VolumeMove", timeout=chance.choice((0.02, 0.1, 0.3, 0.6)), name="p/db", rank=1 - rank)
            except Refused:
                pass  # it is under way
            if victim == "server":
                self.rig.kill()
                self.rig.start()
            else:
                os.kill(pids[rank if victim == "source" else 1 - rank], signal.SIGKILL)
            self.assert_one_has_it(self.wait_settled())


if __name__ == "__main__":
    unittest.main()
