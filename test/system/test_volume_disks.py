# SPDX-License-Identifier: BSD-2-Clause
"""Volumes on a full disk, on a file system that becomes read-only, and on one that fails. As root, on XFS images."""

import os
import shutil
import subprocess
import unittest

import xfs
from harness import NQN, EngineTest, RpcError, run, wait_for
from loop_device import NO_LOOP
from server_rig import Refused, ServerTest

MIB = 1 << 20
WAITS = "1256"


def fill(folder):
    """Take all free space of the file system with one file; its path."""
    path = os.path.join(folder, "filler")
    with open(path, "wb") as file:
        for bytes_ in (64 * MIB, MIB, 4096):
            at = file.tell()
            while True:
                try:
                    os.posix_fallocate(file.fileno(), at, bytes_)
                except OSError:
                    break
                at += bytes_
            file.seek(at)
    return path


def remount(folder, option):
    """Busy: a file that a refused change made is still open for writing, or being removed."""
    wait_for(lambda: run("mount", "-o", f"remount,{option}", folder, check=False).returncode == 0)


@unittest.skipIf(NO_LOOP, NO_LOOP)
class Disks(EngineTest):
    def setUp(self):
        super().setUp()
        self.storage = os.path.join(self.directory, "storage")
        os.mkdir(self.storage)
        if not xfs.mount(self, self.storage):
            raise unittest.SkipTest("no XFS image can be mounted here")

    def start(self):
        return self.engine("--storage", self.storage)

    def refusal(self, engine, method, **params):
        """The error's text, None: the change was made."""
        try:
            engine.rpc(method, **params)
        except RpcError as error:
            return str(error)
        return None

    def test_a_full_disk_refuses_changes_and_data_of_thin_volumes_and_goes_on_with_space(self):
        engine, state = self.start(), os.path.join(self.directory, "state")
        engine.rpc("pool_create", pool="p", overcommit=True)
        engine.serve("volume_create", "p", "thick", "16M", "--thick")
        engine.rpc("volume_create", pool="p", volume="thin", size=64 * MIB)
        engine.run_commands(f"nvmf_subsystem_add_ns {NQN} p/thin\n")
        filler = fill(self.storage)
        self.assertIn("No space left", self.refusal(engine, "volume_create", pool="p", volume="other", size=64 * MIB, thick=True))
        full = engine.perf("--nsid", "2", "--rw", "write", "--bs", "64k", "--count", "600", check=False)
        self.assertEqual(full.returncode, 1, full.stdout)
        self.assertIn("CAPACITY EXCEEDED", (full.stdout + full.stderr).upper())
        engine.perf("--rw", "mix", "--count", "1000", "--verify-state", state)     # the thick volume has its blocks
        for method, params in (("volume_resize", {"size": 24 * MIB}), ("volume_snapshot", {"snapshot": "s"}),
                               ("volume_rename", {"new_name": "renamed"})):
            text = self.refusal(engine, method, pool="p", volume="thick", **params)
            if text:    # the file system has a reserve for names
                self.assertIn("No space left", text)
        os.unlink(filler)   # the file system frees the blocks later
        wait_for(lambda: engine.perf("--nsid", "2", "--rw", "write", "--bs", "64k", "--count", "600", check=False).returncode == 0)
        wait_for(lambda: not self.refusal(engine, "volume_create", pool="p", volume="other", size=64 * MIB, thick=True))
        engine.kill()
        engine = self.start()
        names = {volume["name"]: volume["state"] for volume in engine.rpc("volume_get_volumes")}
        self.assertEqual(set(names.values()), {"ONLINE"})
        self.assertEqual(set(names) - {"thick", "renamed"}, {"thin", "other"})
        self.assertEqual(engine.stop(), 0)

    def test_a_read_only_file_system_refuses_changes_and_a_start_names_its_volumes(self):
        engine = self.start()
        engine.rpc("pool_create", pool="p")
        remount(self.storage, "ro")
        for method, params in (("pool_create", {"pool": "q"}), ("volume_create", {"pool": "p", "volume": "a", "size": 8 * MIB}),
                               ("pool_destroy", {"pool": "p"})):
            self.assertIn("Read-only file system", self.refusal(engine, method, **params))
        self.assertEqual([pool["name"] for pool in engine.rpc("pool_get_pools")["pools"]], ["p"])
        remount(self.storage, "rw")
        engine.rpc("volume_create", pool="p", volume="a", size=8 * MIB)
        self.assertEqual(engine.stop(), 0)
        remount(self.storage, "ro")
        engine = self.start()
        volume, = engine.rpc("volume_get_volumes")
        self.assertEqual(volume["state"], "ERRORED")
        self.assertIn("Read-only file system", volume["reason"])
        self.assertEqual(engine.stop(), 0)

    @unittest.skipUnless(shutil.which("xfs_io"), "xfs_io is missing")
    def test_a_file_system_that_fails_fails_its_volumes_and_no_others(self):
        engine, state = self.start(), os.path.join(self.directory, "state")
        engine.rpc("pool_create", pool="p")
        engine.serve("volume_create", "p", "a", "16M")
        engine.run_commands(f"bdev_malloc_create 8 4096 -b other\nnvmf_subsystem_add_ns {NQN} other\n")
        engine.perf("--rw", "write", "--count", "300", "--verify-state", state)
        run("xfs_io", "-x", "-c", "shutdown -f", self.storage)
        self.assertEqual(engine.perf("--rw", "write", "--count", "10", check=False).returncode, 1)
        self.assertIn("Input/output error", self.refusal(engine, "volume_create", pool="p", volume="b", size=8 * MIB))
        engine.perf("--nsid", "2", "--rw", "mix", "--count", "300", "--verify")
        engine.kill()
        # the kernel closes the files of a killed process's io_uring later
        wait_for(lambda: subprocess.run(["umount", self.storage], stderr=subprocess.DEVNULL).returncode == 0)
        run("mount", "-o", "loop", self.storage + ".img", self.storage)
        engine = self.start()
        self.assertEqual([volume["state"] for volume in engine.rpc("volume_get_volumes")], ["ONLINE"])
        self.assertEqual(engine.stop(), 0)


@unittest.skipIf(NO_LOOP, NO_LOOP)
class ControlDisks(ServerTest):
    """The same under a server: the other engine goes on."""

    def create(self, name, rank, **fields):
        request = self.messages.fathom.VolumeCreateReq(name=f"p/{name}", size_bytes=8 * MIB, ranks=str(rank), **fields)
        return self.rig.call("/fathom.ControlSvc/VolumeCreate", request, timeout=60).volume

    def refused(self, name, rank):
        with self.assertRaises(Refused) as caught:
            self.create(name, rank, thick=True)
        return caught.exception

    def names(self):
        return {volume.name for volume in self.rig.call("/fathom.ControlSvc/VolumeList", self.messages.fathom.VolumeListReq(), timeout=60).volumes}

    def test_the_engine_of_a_disk_that_is_full_or_read_only_refuses_and_the_other_goes_on(self):
        self.rig, mgmt = self.server(engines=2, size="16MiB"), self.messages.mgmt
        bad = self.rig.mount_path(0)
        if not xfs.mount(self, bad):
            raise unittest.SkipTest("no XFS image can be mounted here")
        self.rig.start()
        self.rig.format()
        bad = self.rig.mount_path({engine.index: engine.index for engine in self.rig.wait_joined()}[0])
        rank = {engine.index: engine.rank for engine in self.rig.engines()}[0]
        self.rig.call("/mgmt.MgmtSvc/PoolCreate", mgmt.PoolCreateReq(properties=[mgmt.PoolProperty(number=1, strval="p")]), timeout=60)
        filler = fill(bad)
        full = self.refused("full", rank)
        self.assertNotEqual(full.fault.get("Code"), WAITS, full.text)
        self.create("a", 1 - rank)
        os.unlink(filler)
        remount(bad, "ro")
        self.assertIn("Read-only file system", self.refused("ro", rank).text)
        self.create("b", 1 - rank)
        self.assertEqual(self.names(), {"p/a", "p/b"})
        remount(bad, "rw")
        self.create("c", rank)
        self.assertEqual(self.names(), {"p/a", "p/b", "p/c"})


if __name__ == "__main__":
    unittest.main()
