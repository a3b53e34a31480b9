# SPDX-License-Identifier: BSD-2-Clause
"""Devices that hang, lose, delay or fail I/O, and file systems below volumes."""

import os
import shutil
import struct
import subprocess
import threading
import unittest

from ward import Ward, diagnose, illness, run, wait_for

import test_hostile as hostile
from hanging import HangingFile, READ, STATFS
from harness import NQN

MIB = 1 << 20
RESET = struct.pack("<BBHB35xB3xIQ8x", hostile.FABRICS, 0x40, 2, hostile.PROPERTY_SET, 0, 0x14, 0x460000)    # CC.EN: 0


def read_of(cid, nsid):
    return struct.pack("<BBHI16x", hostile.READ, 0x40, cid, nsid) + hostile.sgl_transport(4096) + struct.pack("<QI12x", 8 * cid, 7)


class Devices(Ward):
    @illness("a device hangs", "device_hung")
    def test_a_device_that_hangs(self):
        engine = self.engine()
        self.error_device(engine)
        self.load(engine, "--depth", 4, "--rate", 500)
        self.inject(engine, "pending", num=0)
        self.load(engine, "--nsid", 2, "--rw", "read", "--depth", 4)
        self.wait_under_way(engine, "DISPATCHED", count=4)
        first = self.check(engine.pid)["findings"][0]
        self.assertTrue(any("BDEV_IO_DISPATCH" in line for line in first["evidence"]), first)     # the last records of a request that hangs

    @illness("a device loses the completion of one command", "command_lost")
    def test_a_lost_completion(self):
        engine = self.engine()
        self.error_device(engine)
        self.inject(engine, "pending", num=1)
        self.load(engine, "--nsid", 2, "--rw", "read", "--depth", 4, "--rate", 500)
        self.wait_under_way(engine, "DISPATCHED")
        self.check(engine.pid)

    @illness("a device is slow", "device_slow")
    def test_a_slow_device(self):
        engine = self.engine()
        self.error_device(engine)
        self.inject(engine, "delay", num=0, delay_us=200000)
        self.load(engine, "--nsid", 2, "--rw", "read", "--depth", 8)
        wait_for(lambda: self.ios(engine, "EE_M1") >= 32)
        self.check(engine.pid)

    @illness("a few commands of many are slow", "rare_slow_io")
    def test_a_few_slow_commands(self):
        engine = self.engine()
        self.error_device(engine)
        self.inject(engine, "delay", num=3, skip=5000, delay_us=400000)
        self.load(engine, "--nsid", 2, "--rw", "read", "--depth", 4, "--count", 8000).wait(60)
        self.check(engine.pid)

    @illness("a device fails I/O", "device_fails")
    def test_a_device_that_fails(self):
        engine = self.engine()
        self.error_device(engine)
        self.inject(engine, "failure", num=20)
        self.load(engine, "--nsid", 2, "--rw", "read", "--depth", 4, "--count", 1000).wait(60)
        self.check(engine.pid)

    @illness("a device fails after many good I/Os", "device_fails")
    def test_a_device_that_fails_late(self):
        engine = self.engine()
        self.error_device(engine)
        self.inject(engine, "nvme_failure", num=20, skip=20000, nvme_sct=2, nvme_sc=0x81)
        self.load(engine, "--nsid", 2, "--rw", "read", "--depth", 16, "--count", 20100).wait(120)
        first = self.check(engine.pid)["findings"][0]
        self.assertIn("20 ended with MEDIA_ERROR", first["says"])
        self.assertRegex("\n".join(first["evidence"]), r"(?m)^20[01]\d\d I/Os ended well, 20 failed; ")

    @illness("a device hangs while its host resets the controller", "device_hung")
    def test_a_reset_during_a_hang(self):
        engine = self.engine()
        self.error_device(engine)
        self.inject(engine, "pending", num=0)
        admin, io = hostile.Host(engine), hostile.Host(engine)
        self.addCleanup(admin.s.close)
        self.addCleanup(io.s.close)
        cntlid, status = admin.connect()
        self.assertEqual(status, 0)
        self.assertEqual(admin.enable()[1], 0)
        self.assertEqual(io.connect(1, cntlid & 0xffff)[1], 0)
        io.s.sendall(b"".join(hostile.capsule(read_of(cid, 2)) for cid in range(8)))
        self.wait_under_way(engine, "DISPATCHED", count=8)
        admin.s.sendall(hostile.capsule(RESET))
        self.assertEqual(admin.response()[1], 0)
        self.assertIn("8 I/Os wait", self.check(engine.pid)["findings"][0]["says"])

    @illness("a device changes what was written (--paranoid)", "checksum_mismatch")
    def test_a_device_that_corrupts(self):
        path = self.file("disk", 16)
        engine = self.engine("--paranoid", "4096")
        engine.serve("bdev_uring_create", path, "u0", 4096)
        engine.perf("--rw", "write", "--bs", "64k", "--depth", 8, "--count", 64, "--range", "4M")
        with open(path, "r+b") as file:
            file.seek(77 * 4096 + 5)
            file.write(b"damage")
        engine.perf("--rw", "read", "--bs", "4k", "--depth", 1, "--count", 1, "--range", f"{77 * 4096}:4k", check=False)
        first = self.check(engine.pid)["findings"][0]
        self.assertIn("u0 returned 1 blocks", first["says"])
        self.assertIn("the latest is block 77", first["evidence"])

    @illness("the file system below a volume becomes read-only", "file_system_read_only")
    def test_a_read_only_file_system(self):
        folder, image = os.path.join(self.directory, "small"), self.file("image", 24)
        os.mkdir(folder)
        if not shutil.which("mkfs.ext4"):
            raise unittest.SkipTest("mkfs.ext4 is missing")
        run("mkfs.ext4", "-q", "-F", image)
        if subprocess.run(["mount", "-o", "loop,errors=remount-ro", image, folder], check=False, stderr=subprocess.DEVNULL).returncode != 0:
            raise unittest.SkipTest("loop devices cannot be mounted here")
        self.addCleanup(run, "umount", "-l", folder)
        device = os.path.basename(run("findmnt", "-n", "-o", "SOURCE", folder).stdout.strip())
        path = os.path.join(folder, "volume")
        with open(path, "wb") as file:
            file.truncate(8 * MIB)
        engine = self.engine()
        engine.serve("bdev_aio_create", path, "F0", 4096)
        try:
            with open(f"/sys/fs/ext4/{device}/trigger_fs_error", "w", encoding="ascii") as file:
                file.write("1")
        except OSError as error:
            raise unittest.SkipTest(f"an error of the file system cannot be made: {error}") from error
        self.load(engine, "--rw", "write", "--depth", 4, "--count", 100).wait(60)
        self.check(engine.pid)

    @illness("the file system below a volume does not answer", "file_system_hangs")
    def test_a_file_system_that_hangs(self):
        hanging = HangingFile(self.directory, 16 * MIB)
        self.addCleanup(hanging.close)
        engine = self.engine()
        engine.serve("bdev_aio_create", hanging.path, "F0", 512)
        hanging.hang(READ, STATFS)
        try:
            self.load(engine, "--rw", "read", "--depth", 4)
            self.wait_under_way(engine, "DISPATCHED", count=4)
            self.check(engine.pid)
        finally:
            hanging.release()   # the kernel keeps a process until its calls return

    @illness("the file system below a volume is full", "file_system_full")
    def test_a_full_file_system(self):
        folder = os.path.join(self.directory, "small")
        os.mkdir(folder)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "none", folder], check=False).returncode != 0:
            raise unittest.SkipTest("mounting needs root")
        self.addCleanup(run, "umount", "-l", folder)
        path = os.path.join(folder, "volume")
        with open(path, "wb") as file:
            file.truncate(32 * MIB)
        engine = self.engine()
        engine.serve("bdev_aio_create", path, "F0", 512)
        self.load(engine, "--rw", "write", "--depth", 4, "--bs", "64k", "--count", 500).wait(60)
        self.check(engine.pid)


class Storage(Ward):
    def setUp(self):
        super().setUp()
        self.storage = os.path.join(self.directory, "storage")
        os.mkdir(self.storage)

    def start(self):
        return self.engine("--storage", self.storage)

    def files(self, name):
        return sorted(os.path.join(folder, file) for folder, _, files in os.walk(self.storage) for file in files if file.startswith(name))

    @illness("a block changes below a volume with checksums", "checksum_mismatch")
    def test_a_corrupted_block(self):
        engine = self.start()
        engine.run_commands("pool_create p\n")
        engine.rpc("volume_create", pool="p", volume="a", size=8 * MIB, checksums=True)
        engine.run_commands(f"nvmf_create_transport -t tcp\nnvmf_create_subsystem {NQN} -a -m 10\n"
                            f"nvmf_subsystem_add_listener {NQN} -t tcp -a 127.0.0.1 -s {engine.port}\nnvmf_subsystem_add_ns {NQN} p/a\n")
        engine.perf("--rw", "write", "--depth", 1, "--count", 64)
        path = next(path for path in self.files("data") if os.path.getsize(path) == 8 * MIB)
        with open(path, "r+b") as file:
            file.seek(5 * 4096 + 100)
            byte, = file.read(1)
            file.seek(5 * 4096 + 100)
            file.write(bytes([byte ^ 1]))
        engine.perf("--rw", "read", "--depth", 1, "--count", 64, check=False)
        self.check(engine.pid)

    @illness("the record of a volume is damaged", "storage_damaged")
    def test_a_damaged_record(self):
        engine = self.start()
        engine.run_commands("pool_create p\nvolume_create p a 8M\n")
        engine.kill()
        path = next(path for path in self.files("") if os.path.basename(os.path.dirname(path)) == "a" and "data" not in os.path.basename(path))
        with open(path, "r+b") as file:
            file.seek(20)
            file.write(b"damaged")
        self.check(self.start().pid)

    @illness("a call of an operator does not end", "call_hangs")
    def test_a_call_that_hangs(self):
        engine = self.start()
        if not engine.rpc("fault_get_points")["built"]:
            raise unittest.SkipTest("a build without fault injection")
        engine.run_commands("pool_create p\n")
        engine.rpc("fault_inject", point="pool_sync", action="hang")
        call = threading.Thread(target=engine.rpc, args=("volume_create", 600), kwargs={"pool": "p", "volume": "a", "size": 8 * MIB})
        call.start()
        try:
            wait_for(lambda: any(row["name"] == "call_hangs" for row in diagnose(engine.pid)["findings"]), pause=2)     # after 12 s
            self.assertIn("volume_create", self.check(engine.pid)["findings"][0]["says"])
        finally:
            engine.rpc("fault_clear", point="all")
            call.join(60)

    @illness("a pool promises more than it has", "pool_overcommitted")
    def test_an_overcommitted_pool(self):
        engine = self.start()
        engine.rpc("pool_create", pool="p", size=64 * MIB, overcommit=True)
        for name in "abc":
            engine.rpc("volume_create", pool="p", volume=name, size=60 * MIB)
        self.check(engine.pid)

    @illness("a pool is nearly full", "pool_nearly_full")
    def test_a_pool_that_is_nearly_full(self):
        engine = self.start()
        engine.rpc("pool_create", pool="p", size=64 * MIB, overcommit=True)
        engine.rpc("volume_create", pool="p", volume="a", size=62 * MIB, thick=True)
        wait_for(lambda: engine.rpc("pool_get_pools")["pools"][0]["used_percent"] >= 95)
        self.check(engine.pid)

    @illness("the saved configuration cannot be read", "configuration_unsaved")
    def test_a_damaged_state_file(self):
        path = os.path.join(self.directory, "state")
        with open(path, "w", encoding="ascii") as file:
            file.write("{ damaged")
        self.check(self.engine("--state", path).pid)


if __name__ == "__main__":
    unittest.main()
