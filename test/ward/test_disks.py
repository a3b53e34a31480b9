# SPDX-License-Identifier: BSD-2-Clause
"""Devices that hang, lose, delay or fail I/O, and file systems below volumes."""

import os
import subprocess
import threading
import unittest

from ward import Ward, diagnose, illness, run, wait_for

from hanging import HangingFile, READ, STATFS
from harness import NQN

MIB = 1 << 20


class Devices(Ward):
    @illness("a device hangs", "device_hung")
    def test_a_device_that_hangs(self):
        engine = self.engine()
        self.error_device(engine)
        self.load(engine, "--depth", 4, "--rate", 500)
        self.inject(engine, "pending", num=0)
        self.load(engine, "--nsid", 2, "--rw", "read", "--depth", 4)
        self.wait_under_way(engine, "DISPATCHED", count=4)
        self.check(engine.pid)

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
