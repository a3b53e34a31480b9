# SPDX-License-Identifier: BSD-2-Clause
"""
Moves of a volume between two real engines, while a host writes and verifies: one rank has the volume afterwards, with all that was confirmed,
although the server or an engine is killed at any moment.
"""

import hashlib
import json
import os
import random
import signal
import subprocess
import time
import unittest

import xfs
from harness import FATHOM
from server_rig import Refused, ServerTest, read

HOST = "nqn.2014-08.org.nvmexpress:uuid:11111111-1111-4111-8111-111111111111"
MIB = 1 << 20
SIZE = 48 * MIB
WAIT_SECONDS = 120
SEED = int(os.environ.get("FATHOM_SEED", "14"))
KILLS = int(os.environ.get("FATHOM_KILLS", "4"))
ABSENT = "1351"
DAMAGED = "1353"


class Moves(ServerTest):
    def start(self, snapshots=False, checksums=False):
        self.rig = self.server(engines=2, size="256MiB")
        if snapshots and not all(xfs.mount(self, self.rig.mount_path(rank)) for rank in (0, 1)):
            raise unittest.SkipTest("no XFS image can be mounted here")
        self.rig.start()
        self.rig.format()
        self.rig.wait_joined()
        mgmt = self.messages.mgmt
        self.rig.call("/mgmt.MgmtSvc/PoolCreate", mgmt.PoolCreateReq(properties=[mgmt.PoolProperty(number=1, strval="p")]), timeout=60)
        self.change("VolumeCreate", name="p/db", size_bytes=SIZE, ranks="0", checksums=checksums)
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
        volumes = [volume for pool in answer.pools for volume in pool.volumes if volume.name == "db"]
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

    # ---- snapshots and checksums ----

    def folder(self, rank, volume="db"):
        for folder, _, _ in os.walk(self.rig.mount_path(rank)):
            if folder.endswith("/pools/p/volumes/" + volume):
                return folder
        raise AssertionError(f"rank {rank} has no volume {volume}")

    def used_bytes(self, rank):
        space = os.statvfs(self.rig.mount_path(rank))
        return (space.f_blocks - space.f_bfree) * space.f_frsize

    def snapshot(self, name):
        self.call("SnapshotCreate", names=["p/db@" + name])

    def snapshots(self, rank):
        """What the engine says about each snapshot, and a digest of its data."""
        found = {}
        for snapshot in self.engine_volume(rank).snapshots:
            with open(os.path.join(self.folder(rank), "snapshots", snapshot.name, "data"), "rb") as file:
                digest = hashlib.sha256(file.read()).hexdigest()
            found[snapshot.name] = (snapshot.uuid, snapshot.size_bytes, snapshot.created_ns, snapshot.group_uuid, digest)
        return found

    def write(self, *options):
        done = self.perf(self.volume().rank, *options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def take_snapshots(self):
        """Three, of different contents and sizes."""
        self.state += "0"   # a state is of one size
        self.write("--rw", "write", "--count", "256")
        self.snapshot("first")
        self.change("VolumeResize", name="p/db", size_bytes=SIZE + 8 * MIB)
        self.state = self.state[:-1]
        for name in ("a-second", "third", None):
            self.write("--rw", "randwrite", "--count", "50")
            if name:
                self.snapshot(name)

    def rpc(self, rank, text):
        socket = os.path.join(self.rig.socket_dir, f"engine{rank}.sock")
        return subprocess.run([FATHOM, "rpc", "-s", socket], input=text, capture_output=True, text=True, timeout=WAIT_SECONDS, check=True).stdout

    def scrubbed(self, rank):
        """Read all blocks of the volume against their checksums; the engine's figures."""
        self.rpc(rank, "volume_scrub p db --rate 1G\n")
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            scrub = next(volume["scrub"] for volume in json.loads(self.rpc(rank, "volume_get_volumes\n")) if volume["name"] == "db")
            if scrub["state"] == "IDLE" and "ended_ns" in scrub:
                return scrub
            self.assertLess(time.monotonic(), deadline, scrub)
            time.sleep(0.1)

    def test_a_volume_with_checksums_moves_with_its_snapshots(self):
        self.start(snapshots=True, checksums=True)
        self.take_snapshots()
        self.change("VolumeCreate", **{"name": "p/clone", "from": "p/db@first"})
        before = self.snapshots(0)
        with open(os.path.join(self.folder(0, "clone"), "data.1"), "rb") as file:
            clone = hashlib.sha256(file.read()).hexdigest()
        self.assertEqual(clone, before["first"][4])
        self.assertEqual(len({row[4] for row in before.values()}), 3)
        used = self.used_bytes(1)
        self.assertEqual(self.change("VolumeMove", name="p/db", rank=1).rank, 1)
        self.assertEqual(self.snapshots(1), before)
        self.assert_one_has_it(1)
        scrub = self.scrubbed(1)
        self.assertEqual((scrub["mismatches"], scrub["failed_reads"], scrub["suspect_regions"]), (0, 0, 0))
        self.assertGreaterEqual(scrub["bytes_done"], SIZE + 8 * MIB)
        with open(os.path.join(self.folder(0, "clone"), "data.1"), "rb") as file:
            self.assertEqual(hashlib.sha256(file.read()).hexdigest(), clone)
        # volumes and their moves have their subsystems; those that were saved would be there after a restart, and in the way of the next move
        saved = [read(os.path.join(self.rig.mount_path(index), "engine.json")) for index in (0, 1)
                 if os.path.exists(os.path.join(self.rig.mount_path(index), "engine.json"))]
        self.assertTrue(saved)
        self.assertNotIn('"nvmf_create_subsystem"', "".join(saved))
        self.assertLess(self.used_bytes(1) - used, 48 * MIB)    # blocks that did not change are shared there, too: else 82 MiB
        self.call("SnapshotRestore", name="p/db@a-second", force=True)
        self.state += "1"
        self.write("--rw", "write", "--count", "100")

    def test_a_damaged_block_stops_the_move_and_is_named(self):
        self.start(checksums=True)
        with open(os.path.join(self.folder(0), "data.1"), "r+b") as file:     # of a region that nothing has marked
            file.seek(5000 * 4096)
            file.write(b"damaged" * 100)
            os.fsync(file.fileno())
        with self.assertRaises(Refused) as refused:
            self.change("VolumeMove", name="p/db", rank=1)
        self.assertEqual(refused.exception.fault.get("Code"), DAMAGED)
        self.assertIn("LBA 5000", str(refused.exception.fault))
        self.assertIsNone(self.engine_volume(1))
        self.assertEqual(self.engine_volume(0).move, "")

    def test_kills_while_snapshots_move_leave_all_of_them_in_one_place(self):
        self.start(snapshots=True)
        self.take_snapshots()
        before = self.snapshots(0)
        for fields in ({"rank": 1, "timeout": 0.3}, {"cancel": True}):
            try:
                self.change("VolumeMove", name="p/db", **fields)
            except Refused:
                pass    # it is under way; or it has ended, and the cancel comes too late
        rank = self.wait_settled()
        self.assert_one_has_it(rank)
        self.assertEqual(self.snapshots(rank), before)
        self.move_and_kill(int(os.environ.get("FATHOM_KILLS", "3")), before)

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
        self.assertEqual(self.perf(0, "--rw", "write", "--count", str(SIZE // 65536)).returncode, 0)
        self.move_and_kill(KILLS)

    def move_and_kill(self, count, snapshots=None):
        chance = random.Random(SEED)
        for number in range(count):
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
            rank = self.wait_settled()
            self.assert_one_has_it(rank)
            if snapshots:
                self.assertEqual(self.snapshots(rank), snapshots)


if __name__ == "__main__":
    unittest.main()
