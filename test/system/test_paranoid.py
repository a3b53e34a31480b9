# SPDX-License-Identifier: BSD-2-Clause
"""--paranoid: a disk that changes what was written is caught at the next read and named; nothing else is."""

import os
import threading
import unittest

from harness import EngineTest, run, wait_for

import xfs

MIB, BLOCK = 1 << 20, 4096


class Paranoid(EngineTest):
    def keeps(self, engine, device):
        """The figures of a device: blocks, recorded, checked, mismatches."""
        row, = engine.rpc("bdev_get_bdevs", name=device)
        own, = row["driver_specific"].values()
        return {key.removeprefix("paranoid_"): value for key, value in own.items() if key.startswith("paranoid_")}

    def write_all(self, engine, megabytes=4):
        engine.perf("--rw", "write", "--bs", "64k", "--depth", 8, "--count", megabytes * 16, "--range", f"{megabytes}M")

    def read_block(self, engine, block):
        return engine.perf("--rw", "read", "--bs", "4k", "--count", 1, "--depth", 1, "--range", f"{block * BLOCK}:4k", check=False).returncode

    def test_a_disk_that_changes_a_block_is_caught_and_named(self):
        path = self.file("disk", 16)
        engine = self.engine("--paranoid", "4096")
        engine.serve("bdev_uring_create", path, "u0", 4096)
        self.write_all(engine)
        self.assertEqual({key: self.keeps(engine, "u0")[key] for key in ("blocks", "recorded", "mismatches")},
                         {"blocks": 4096, "recorded": 1024, "mismatches": 0})
        with open(path, "r+b") as file:
            file.seek(77 * BLOCK + 5)
            file.write(b"damage")
        self.assertEqual(self.read_block(engine, 76), 0)
        self.assertEqual(self.read_block(engine, 77), 1)
        self.assertEqual(self.read_block(engine, 78), 0)
        self.assertEqual(self.read_block(engine, 2000), 0)      # never written
        self.assertGreaterEqual(self.keeps(engine, "u0")["mismatches"], 1)
        wait_for(lambda: "device u0: 1 block was not read as written: LBA 77; do not trust the disk below it" in engine.log_text())
        self.write_all(engine)
        self.assertEqual(self.read_block(engine, 77), 0)
        self.assertEqual(engine.stop(), 0)

    def test_a_normal_engine_keeps_nothing(self):
        engine = self.engine()
        engine.serve("bdev_uring_create", self.file("disk", 16), "u0", 4096)
        self.assertEqual(self.keeps(engine, "u0"), {})
        self.assertEqual(self.engine("--paranoid", "1", ready=False).process.wait(60), 2)

    def test_volumes_that_change_and_hosts_that_overlap_cause_no_alarm(self):
        storage = os.path.join(self.directory, "storage")
        os.mkdir(storage)
        has_snapshots = xfs.mount(self, storage)
        engine = self.engine("--storage", storage, "--paranoid", "16384")
        engine.rpc("pool_create", pool="p1", overcommit=True)
        device = engine.serve("volume_create", "p1", "v", "8M")
        loads = [threading.Thread(target=engine.perf, args=("--rw", "mix", "--bs", bs, "--count", 3000, "--depth", 32, "--queues", 2, "--range", "1M"))
                 for bs in ("4k", "12k")]    # both write the same blocks at the same time
        for load in loads:
            load.start()
        for load in loads:
            load.join(120)
            self.assertFalse(load.is_alive())
        if has_snapshots:
            engine.rpc("volume_snapshot", pool="p1", volume="v", snapshot="s")
            self.write_all(engine, 1)
            engine.rpc("volume_restore", pool="p1", volume="v", snapshot="s", force=True)
            engine.rpc("snapshot_destroy", pool="p1", volume="v", snapshot="s")
        engine.perf("--rw", "read", "--bs", "64k", "--depth", 8, "--count", 16, "--range", "1M")
        for size in (12 * MIB, 10 * MIB, 16 * MIB):
            engine.rpc("volume_resize", pool="p1", volume="v", size=size, force=True)
            engine.perf("--rw", "read", "--bs", "64k", "--count", size // 65536)
        engine.perf("--rw", "mix", "--verify", "--count", 3000, "--depth", 16)
        figures = self.keeps(engine, device)
        self.assertEqual(figures["mismatches"], 0)
        self.assertGreater(figures["checked"], 1000)
        self.assertNotIn("not read as written", engine.log_text())
        self.assertEqual(engine.stop(), 0)


if __name__ == "__main__":
    unittest.main()
