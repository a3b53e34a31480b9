# SPDX-License-Identifier: BSD-2-Clause
"""Snapshots of an engine's volumes: taken under verified load, kept through kill -9, cloned and restored. As root, on an XFS image."""

import contextlib
import os
import signal
import subprocess
import threading
import unittest

import xfs
from harness import FATHOM, NQN, EngineTest, RpcError, wait_for

MIB = 1 << 20


class Snapshots(EngineTest):
    def setUp(self):
        super().setUp()
        self.storage = os.path.join(self.directory, "storage")
        os.mkdir(self.storage)

    def start(self, *options):
        return self.engine("--storage", self.storage, *options)

    def mount(self):
        if not xfs.mount(self, self.storage):
            raise unittest.SkipTest("no XFS image can be mounted here")

    @staticmethod
    def snapshots(engine, volume):
        return {row["name"]: row for row in engine.rpc("volume_get_snapshots", pool="p1", volume=volume)}

    def assert_rejected(self, text, engine, method, **params):
        with self.assertRaises(RpcError) as caught:
            engine.rpc(method, **params)
        self.assertIn(text, str(caught.exception))

    def test_without_reflinks_a_snapshot_is_refused_with_what_to_do(self):
        if not os.path.ismount("/dev/shm"):
            raise unittest.SkipTest("there is no tmpfs")
        self.storage = os.path.join("/dev/shm", os.path.basename(self.directory))
        os.mkdir(self.storage)
        engine = self.start()
        engine.run_commands("pool_create p1\nvolume_create p1 a 8M\n")
        self.assert_rejected("use XFS", engine, "volume_snapshot", pool="p1", volume="a", snapshot="s")
        self.assertEqual(engine.stop(), 0)

    def test_snapshots_under_verified_load_survive_kill_9(self):
        self.mount()
        engine, state = self.start(), os.path.join(self.directory, "state")
        engine.rpc("pool_create", pool="p1", overcommit=True)
        engine.serve("volume_create", "p1", "a", "64M")
        engine.rpc("volume_create", pool="p1", volume="b", size=16 * MIB)
        done = threading.Event()

        def load():
            while not done.is_set():
                engine.perf("--rw", "mix", "--count", "3000", "--depth", "16", "--verify-state", state)
        loader = threading.Thread(target=load)
        loader.start()
        try:
            for number in range(8):
                engine.rpc("volume_snapshot", pool="p1", volume="a", snapshot=f"s{number}", members=["p1/b"])
        finally:
            done.set()
            loader.join()
        group = self.snapshots(engine, "a")["s3"]["group"]
        self.assertEqual(self.snapshots(engine, "b")["s3"]["group"], group)
        engine.kill()
        engine = self.start()
        self.assertEqual(set(self.snapshots(engine, "a")), {f"s{number}" for number in range(8)})
        engine.run_commands(f"""nvmf_create_transport -t tcp
nvmf_create_subsystem {NQN} -a -m 10
nvmf_subsystem_add_listener {NQN} -t tcp -a 127.0.0.1 -s {engine.port}
nvmf_subsystem_add_ns {NQN} p1/a
""")
        engine.perf("--time", "0", "--verify-state", state)
        self.assert_rejected("8 snapshots", engine, "volume_destroy", pool="p1", volume="b")
        for number in range(8):
            engine.rpc("snapshot_destroy", pool="p1", volume="b", snapshot=f"s{number}")
        engine.rpc("volume_destroy", pool="p1", volume="b")
        wait_for(lambda: not os.listdir(os.path.join(self.storage, "trash")))
        self.assertEqual(engine.stop(), 0)

    def test_writes_that_the_kernel_hands_to_workers_do_not_run_on_a_reactor_s_cpu(self):
        self.mount()
        cpus = os.sched_getaffinity(0)
        engine = self.start("-m", hex(1 << min(cpus)))
        engine.rpc("pool_create", pool="p1", overcommit=True)
        engine.serve("volume_create", "p1", "a", "64M")
        engine.rpc("volume_snapshot", pool="p1", volume="a", snapshot="s")     # from now on XFS does not write at once
        load = subprocess.Popen([FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", NQN, "--time", "60", "--quiet", "--rw", "randwrite"],
                                stdout=subprocess.DEVNULL)

        def cpus_of_workers():
            found = []
            for task in os.listdir(f"/proc/{engine.pid}/task"):
                with contextlib.suppress(OSError):  # it has ended
                    with open(f"/proc/{engine.pid}/task/{task}/comm") as file:
                        if file.read().startswith("iou-wrk"):
                            found.append(os.sched_getaffinity(int(task)))
            return found
        try:
            if "helper threads" in engine.log_text():
                raise unittest.SkipTest("there is no io_uring")
            workers = wait_for(cpus_of_workers)
        finally:
            load.send_signal(signal.SIGINT)
            load.wait(60)
        if len(cpus) > 1:
            self.assertEqual([worker for worker in workers if min(cpus) in worker], [])
        self.assertEqual(engine.stop(), 0)

    def test_a_clone_and_a_restored_volume_have_the_data_of_the_snapshot(self):
        self.mount()
        engine, state = self.start(), os.path.join(self.directory, "state")
        engine.rpc("pool_create", pool="p1", overcommit=True)
        engine.serve("volume_create", "p1", "a", "32M")
        engine.perf("--rw", "write", "--count", "500", "--verify-state", state)
        engine.rpc("volume_snapshot", pool="p1", volume="a", snapshot="s")
        self.assert_rejected("has a snapshot", engine, "volume_snapshot", pool="p1", volume="a", snapshot="s")     # it is not of now
        engine.rpc("volume_snapshot", pool="p1", volume="a", snapshot="s", uuid=self.snapshots(engine, "a")["s"]["uuid"])
        engine.perf("--rw", "write", "--count", "500")      # not noted in `state`
        self.assert_rejected("in use", engine, "volume_restore", pool="p1", volume="a", snapshot="s")
        engine.rpc("volume_restore", pool="p1", volume="a", snapshot="s", force=True)
        engine.perf("--time", "0", "--verify-state", state)
        engine.rpc("volume_clone", pool="p1", volume="a", snapshot="s", new_name="c")
        shown = {volume["name"]: volume for volume in engine.rpc("volume_get_volumes")}
        self.assertEqual((shown["a"]["snapshots"], shown["c"]["snapshots"]), (1, 0))
        self.assertEqual(shown["c"]["origin"], {"volume": shown["a"]["uuid"], "snapshot": self.snapshots(engine, "a")["s"]["uuid"]})
        self.assertTrue(engine.rpc("pool_get_pools")["storage"]["reflinks"])
        engine.perf("--rw", "write", "--count", "500")
        engine.rpc("snapshot_destroy", pool="p1", volume="a", snapshot="s")
        engine.run_commands(f"nvmf_subsystem_remove_ns {NQN} 1\nnvmf_subsystem_add_ns {NQN} p1/c -n 1\n")
        engine.perf("--time", "0", "--verify-state", state)
        self.assertEqual(engine.stop(), 0)

    def test_the_changes_between_two_snapshots_are_listed_in_parts(self):
        self.mount()
        engine = self.start()
        engine.rpc("pool_create", pool="p1", overcommit=True)
        engine.rpc("volume_create", pool="p1", volume="a", size=8 * MIB)

        def write(*blocks):
            with open(os.path.join(self.storage, "pools/p1/volumes/a/data.1"), "r+b") as file:
                for block in blocks:
                    file.seek(block * 4096)
                    file.write(os.urandom(4096))

        def changes(**params):
            found, answer = [], {"next_offset": 0, "size": 1}
            while answer["next_offset"] < answer["size"]:
                answer = engine.rpc("snapshot_get_changes", pool="p1", volume="a", offset=answer["next_offset"], max=2, **params)
                self.assertLessEqual(len(answer["ranges"]), 2)
                found += [block for row in answer["ranges"]
                          for block in range(row["offset"] // 4096, (row["offset"] + row["bytes"]) // 4096)]
            return found, answer
        write(1, 2, 100)
        engine.rpc("volume_snapshot", pool="p1", volume="a", snapshot="s")
        write(2, 4, 6, 8, 10)
        engine.rpc("volume_snapshot", pool="p1", volume="a", snapshot="t")
        write(7)
        found, answer = changes(snapshot="s")
        self.assertLessEqual({1, 2, 100}, set(found))
        self.assertNotIn("from_uuid", answer)
        self.assertEqual((answer["size"], answer["block_size"]), (8 * MIB, 4096))
        found, answer = changes(snapshot="t", **{"from": "s"})
        self.assertLessEqual({2, 4, 6, 8, 10}, set(found))
        self.assertNotIn(100, found)
        rows = self.snapshots(engine, "a")
        self.assertEqual((answer["uuid"], answer["from_uuid"]), (rows["t"]["uuid"], rows["s"]["uuid"]))
        self.assertEqual(changes(snapshot="t", **{"from": "t"})[0], [])
        self.assertIn(7, changes(**{"from": "t"})[0])
        for text, params in (("no snapshot \"u\"", {"snapshot": "u"}), ("no snapshot \"u\"", {"snapshot": "t", "from": "u"}),
                             ("behind the end", {"snapshot": "t", "offset": 16 * MIB}), ("no multiple", {"snapshot": "t", "offset": 5}),
                             ("at most 63", {"snapshot": "t", "from": "u" * 64})):
            self.assert_rejected(text, engine, "snapshot_get_changes", pool="p1", volume="a", **params)
        self.assertEqual(engine.stop(), 0)


if __name__ == "__main__":
    unittest.main()
