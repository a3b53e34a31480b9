# SPDX-License-Identifier: BSD-2-Clause
"""
Space of a small storage: what was promised to volumes stays free for them, and a volume without a promise gets Capacity Exceeded alone, until space
is freed.
"""

import os
import unittest

import xfs
from harness import NQN, EngineTest, run, wait_for

MIB = 1 << 20
IMAGE_MEGABYTES, FREE_MEGABYTES = 320, 96    # XFS has at least 300 MB; a file takes the rest


class Space(EngineTest):
    def setUp(self):
        super().setUp()
        self.storage = os.path.join(self.directory, "storage")
        os.mkdir(self.storage)

    def mount_xfs(self):
        if not xfs.mount(self, self.storage, IMAGE_MEGABYTES):
            self.skipTest("needs root, mkfs.xfs and loop devices")
        self.take_all_but(FREE_MEGABYTES)

    def mount_tmpfs(self):
        if os.geteuid() != 0 or run("mount", "-t", "tmpfs", "-o", f"size={FREE_MEGABYTES}m", "none", self.storage, check=False).returncode != 0:
            self.skipTest("needs root, and to mount a tmpfs")
        self.addCleanup(run, "umount", "-l", self.storage)

    def take_all_but(self, mebibytes, name="other"):
        """The path of a file that takes the rest of the free space."""
        path, left = os.path.join(self.storage, name), os.statvfs(self.storage)
        with open(path, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, left.f_bavail * left.f_frsize - mebibytes * MIB)
        return path

    def start(self):
        """The engine, with the volumes plain/a (namespace 1), which has a promise, and over/b and over/c (2 and 3), which have none."""
        engine = self.engine("--storage", self.storage)
        engine.rpc("pool_create", pool="plain")
        engine.rpc("pool_create", pool="over", overcommit=True)
        engine.serve("volume_create", "plain", "a", 32 * MIB)
        for name in ("b", "c"):
            engine.rpc("volume_create", pool="over", volume=name, size=128 * MIB)
            engine.rpc("nvmf_subsystem_add_ns", nqn=NQN, namespace={"bdev_name": f"over/{name}"})
        return engine

    def write(self, engine, namespace, mebibytes, first=0):
        """Write so many MiB from the MiB `first` on, once; the completed process."""
        return engine.perf("--nsid", namespace, "--rw", "write", "--bs", "64k", "--depth", "8", "--count", mebibytes * 16,
                           "--range", f"{first}M:{mebibytes}M", "--quiet", check=False)

    def assert_written(self, result):
        self.assertEqual(result.returncode, 0, result)

    def assert_full(self, result):
        self.assertEqual(result.returncode, 1, result)
        self.assertIn("Capacity Exceeded", result.stdout + result.stderr)

    def space(self, engine):
        return engine.rpc("pool_get_pools")["storage"]

    def check_promise_is_kept(self, engine):
        """over/b gets what is not promised, and no more; plain/a gets all that it was promised."""
        self.assert_full(self.write(engine, 2, 128))
        free = os.statvfs(self.storage)
        self.assertGreater(free.f_bavail * free.f_frsize, 32 * MIB)
        self.assertGreater(self.space(engine)["space_refusals"], 0)
        wait_for(lambda: "ended with Capacity Exceeded: other pools were promised the free space" in engine.log_text())
        self.assert_full(self.write(engine, 3, 32))     # the other volume without a promise
        self.assert_written(self.write(engine, 1, 32))

    def test_space_promised_to_one_pool_is_not_used_by_another(self):
        self.mount_xfs()
        engine = self.start()
        self.check_promise_is_kept(engine)
        # what it has can be overwritten, and after kill -9 it is the same
        self.assert_written(self.write(engine, 2, 16))
        engine.kill()
        engine = self.engine("--storage", self.storage)
        engine.run_commands(f"nvmf_create_transport -t tcp\nnvmf_create_subsystem {NQN} -a -m 10\n"
                            f"nvmf_subsystem_add_listener {NQN} -t tcp -a 127.0.0.1 -s {engine.port}\n"
                            f"nvmf_subsystem_add_ns {NQN} plain/a -n 1\nnvmf_subsystem_add_ns {NQN} over/b -n 2\n"
                            f"nvmf_subsystem_add_ns {NQN} over/c -n 3\n")
        self.assert_full(self.write(engine, 3, 32))
        self.assert_written(self.write(engine, 2, 16))
        # a volume goes on when space is freed
        engine.rpc("nvmf_subsystem_remove_ns", nqn=NQN, nsid=2)
        engine.rpc("volume_destroy", pool="over", volume="b")
        wait_for(lambda: self.write(engine, 3, 32).returncode == 0)
        self.assert_written(self.write(engine, 1, 32))
        self.assertEqual(engine.stop(), 0)

    def test_a_file_system_without_quick_lookups_keeps_promises_too(self):
        """There all writes of a volume without a promise count, also to blocks that it has."""
        self.mount_tmpfs()
        engine = self.start()
        self.check_promise_is_kept(engine)
        self.assertEqual(engine.stop(), 0)

    def test_a_thick_volume_shrinks_although_a_program_has_read_its_file(self):
        if not xfs.mount(self, self.storage, IMAGE_MEGABYTES):
            self.skipTest("needs root, mkfs.xfs and loop devices")
        engine = self.engine("--storage", self.storage)
        engine.rpc("pool_create", pool="p")
        engine.rpc("volume_create", pool="p", volume="a", size=8 * MIB, thick=True)
        with open(os.path.join(self.storage, "pools/p/volumes/a/data.1"), "rb") as file:     # its pages stay in the page cache
            self.assertEqual(file.read().strip(b"\0"), b"")
        engine.rpc("volume_resize", pool="p", volume="a", size=4 * MIB, force=True)
        self.assertEqual(engine.rpc("volume_get_volumes")[0]["size"], 4 * MIB)

    def test_a_full_file_system_ends_the_writes_of_the_volumes_that_need_space_and_no_others(self):
        """A file of another program takes the space, the promised part of it included."""
        self.mount_xfs()
        engine = self.start()
        self.assert_written(self.write(engine, 1, 8))
        hog = self.take_all_but(4, "hog")
        self.assert_full(self.write(engine, 1, 16, first=8))
        wait_for(lambda: self.space(engine)["level"] == "OVER_95")
        wait_for(lambda: "the storage: " in engine.log_text())
        self.assert_full(self.write(engine, 2, 8))
        self.assert_written(self.write(engine, 1, 8))
        os.unlink(hog)  # the file system frees the blocks later
        wait_for(lambda: self.write(engine, 1, 16, first=8).returncode == 0)
        wait_for(lambda: self.write(engine, 2, 8).returncode == 0)
        self.assertEqual(engine.stop(), 0)


if __name__ == "__main__":
    unittest.main()
