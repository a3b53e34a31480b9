#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Power cuts: QEMU is killed under load, its disk loses what was not flushed, and the engine must have kept its promises.

    FATHOM_CUTS=20 FATHOM_SEED=7 python3 test/vm/test_power.py -v

The engine runs in the guest, on XFS on a disk that loses unflushed writes (power_disk.py). power_load, outside, writes to one volume with
flushes and FUA. Meanwhile volumes are created, resized, renamed and destroyed, and snapshots are taken of this volume and others at one instant,
cloned and destroyed. After each cut: every change that was confirmed is there as a whole, one that was under way is there or not, every
acknowledged and flushed block is right, and nothing else is there.
"""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]

import guest        # noqa: E402
import kernel       # noqa: E402
import power_disk   # noqa: E402
import targets      # noqa: E402

DISK_BYTES = 512 << 20
MIB = 1 << 20
NQN = "nqn.2016-06.io.spdk:cnode1"
MEMORY_MB = 768
SLOW_SECONDS = 240     # for a command in an emulated guest on a busy machine
SERVE = f"""framework_wait_init
nvmf_create_transport -t tcp
nvmf_create_subsystem {NQN} -a -s SPDK00000000000001 -m 8
nvmf_subsystem_add_ns {NQN} p1/load
nvmf_subsystem_add_listener {NQN} -t tcp -a 0.0.0.0 -s 4420
"""
NAMES = ["a", "b", "c"]


class Model:
    """What must exist: {volume or volume@snapshot: size}; `after`: the same after the change under way, None: no change."""

    def __init__(self):
        self.objects, self.after = {}, None

    def end(self):
        self.objects, self.after = self.after, None

    def of_volume(self, name):
        return [key for key in self.objects if key.split("@")[0] == name]


class TestPower(unittest.TestCase):
    """An engine that loses power."""

    @classmethod
    def setUpClass(cls):
        try:
            cls.programs = [*targets.engine_binaries()]
            cls.load = pathlib.Path(os.environ.get("FATHOM_POWER_LOAD", "build/test/vm/power_load"))
            mkfs = kernel.need_program("mkfs.xfs", "xfsprogs")
            kernel.get()
        except kernel.Missing as missing:
            raise unittest.SkipTest(str(missing)) from None
        cls.directory = tempfile.TemporaryDirectory(prefix="fathom-power-", dir=kernel.cache_directory())
        cls.addClassCleanup(cls.directory.cleanup)
        cls.image = pathlib.Path(cls.directory.name) / "disk"
        with open(cls.image, "wb") as file:
            file.truncate(DISK_BYTES)
        subprocess.run([mkfs, "-q", "-m", "reflink=1,rmapbt=0", "-s", "size=4096", cls.image], check=True)

    def setUp(self):
        self.seed = int(os.environ.get("FATHOM_SEED", random.randrange(1 << 31)))
        self.chance = random.Random(self.seed)
        self.model = Model()
        self.port = targets.free_port()
        self.ledger = pathlib.Path(self.directory.name) / "ledger"
        self.disk = power_disk.PowerDisk(self.image, self.seed)
        self.addCleanup(self.disk.__exit__)

    def boot(self):
        host = guest.boot(self.programs, MEMORY_MB, devices=guest.Devices([self.disk.socket], {self.port: 4420}))
        self.addCleanup(host.close)
        host.check("modprobe -a virtio_blk xfs; mkdir -p /srv /dev/shm /var/tmp; mount -t tmpfs shm /dev/shm", SLOW_SECONDS)
        host.check("for i in $(seq 600); do [ -b /dev/vda ] && break; sleep 0.1; done; mount /dev/vda /srv || { dmesg | tail -40; exit 1; }", SLOW_SECONDS)
        self.engine = host.start("fathom-engine --storage /srv --wait-for-rpc >/tmp/engine.log 2>&1", 3600)
        host.check("for i in $(seq 1200); do [ -S /var/tmp/fathom.sock ] && exit 0; sleep 0.1; done; cat /tmp/engine.log; exit 1", SLOW_SECONDS)
        host.check("echo framework_start_init | fathom rpc", SLOW_SECONDS)
        return host

    def rpc(self, host, *words, timeout=SLOW_SECONDS):
        status, output = host.run(f"fathom rpc {' '.join(words)}", timeout)
        if status != 0:
            raise AssertionError(f"seed {self.seed}: {words}: {output}\n{host.run('cat /tmp/engine.log')[1]}")
        return output

    def first_boot(self):
        host = self.boot()
        self.rpc(host, "pool_create", "p1", "--overcommit")
        self.rpc(host, "volume_create", "p1", "load", "8M")
        self.model.objects["load"] = 8 * MIB
        return host

    def objects(self, host):
        found = json.loads(self.rpc(host, "volume_get_volumes"))
        self.assertEqual([v for v in found if v["state"] != "ONLINE"], [], f"seed {self.seed}")
        objects = {v["name"]: v["size"] for v in found}
        for volume in found:
            for snapshot in json.loads(self.rpc(host, "volume_get_snapshots", "p1", volume["name"])) if volume["snapshots"] else []:
                objects[f"{volume['name']}@{snapshot['name']}"] = snapshot["size"]
        return objects

    def check_objects(self, host):
        """They are those of the model; a change that was under way may have been made or not."""
        found = self.objects(host)
        if self.model.after is not None and found == self.model.after:
            self.model.end()
        self.model.after = None
        self.assertEqual(found, self.model.objects, f"seed {self.seed}")
        there = host.check("cd /srv/pools/p1/volumes; ls -d * */snapshots/* 2>/dev/null | sed s,/snapshots/,@,", SLOW_SECONDS).split()
        self.assertEqual(set(there), set(found), f"seed {self.seed}")

    def run_load(self, mode):
        return subprocess.Popen([self.load, mode, str(self.port), NQN, self.ledger, str(self.seed)], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)

    def finish_load(self, process, host=None, timeout=300):
        try:
            output = process.communicate(timeout=timeout)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        if process.returncode != 0:
            raise AssertionError(f"seed {self.seed}, {self.disk.cuts} cuts: {output}\n{host.run('cat /tmp/engine.log; dmesg | tail -20')[1] if host else ''}")
        return output

    def snapshot_change(self, after):
        """The words of a random change of snapshots; `after` becomes what is there afterwards. None: it is not possible now."""
        snapshots = [key for key in after if "@" in key]
        members = [name for name in NAMES if name in after and self.chance.random() < 0.5]
        name, free = f"s{self.chance.randrange(4)}", [volume for volume in NAMES if volume not in after]
        kind = self.chance.randrange(3)
        if kind == 0 and not any(f"{volume}@{name}" in after for volume in ("load", *members)):
            after.update({f"{volume}@{name}": after[volume] for volume in ("load", *members)})
            return ("volume_snapshot", "p1", "load", name, *(["--members", ",".join(f"p1/{member}" for member in members)] if members else []))
        if kind == 1 and snapshots:
            key = self.chance.choice(snapshots)
            del after[key]
            return ("snapshot_destroy", "p1", *key.split("@"))
        if kind == 2 and snapshots and free:
            key = self.chance.choice(snapshots)
            after[free[0]] = after[key]
            return ("volume_clone", "p1", *key.split("@"), free[0])
        return None

    def volume_change(self, after):
        """Likewise, of volumes."""
        name = self.chance.choice(NAMES)
        size, others, kind = after.get(name), [other for other in NAMES if other not in after], self.chance.random()
        if size is None:
            after[name] = self.chance.randrange(1, 9) * MIB
            return ("volume_create", "p1", name, str(after[name]), *(["--thick"] if self.chance.random() < 0.5 else []))
        if kind < 0.4 and size < 24 * MIB:
            after[name] = size + MIB
            return ("volume_resize", "p1", name, str(after[name]))
        if kind < 0.6 and others:
            for key in self.model.of_volume(name):
                after[key.replace(name, others[0], 1)] = after.pop(key)
            return ("volume_rename", "p1", name, others[0])
        for key in self.model.of_volume(name):
            del after[key]
        return ("volume_destroy", "p1", name, "--force")

    def change(self, host):
        """Begin a random change, as a job."""
        words = None
        while not words:
            self.model.after = dict(self.model.objects)
            words = self.chance.choice((self.snapshot_change, self.volume_change))(self.model.after)
        return host.start(f"fathom rpc {' '.join(words)}", SLOW_SECONDS), words

    def use_until_cut(self, host, seconds):
        """Changes under load, then the cut."""
        deadline = time.monotonic() + seconds
        while True:
            job, words = self.change(host)
            while not host.is_done(job) and time.monotonic() < deadline:
                time.sleep(0.01)
            if time.monotonic() >= deadline:
                return
            status, output = host.wait(job)
            self.assertEqual(status, 0, f"seed {self.seed}: {words}: {output}")
            self.model.end()

    def test_confirmed_changes_and_flushed_blocks_survive_power_cuts(self):
        host = self.first_boot()
        for cut in range(int(os.environ.get("FATHOM_CUTS", "3"))):
            self.serve(host)
            if cut:
                self.finish_load(self.run_load("check"), host)
            load = self.run_load("load")
            self.addCleanup(load.kill)
            self.assertEqual(load.stdout.readline(), "connected\n", f"seed {self.seed}, {self.disk.cuts} cuts")
            self.use_until_cut(host, self.chance.uniform(0.2, 4.0))
            self.disk.cut(host.kill)
            self.finish_load(load)
            host.close()
            host = self.boot()
            self.check_objects(host)
        self.serve(host)
        print(f"# seed {self.seed}: {self.disk.cuts} cuts, {self.disk.flushes} flushes, {self.disk.lost} sectors lost, of them {self.disk.torn} older; "
              f"{self.finish_load(self.run_load('check'), host).strip()}", flush=True)
        self.assertGreater(self.disk.lost, 0, "the disk lost nothing, so this test has shown nothing")
        host.check("kill $(pidof fathom-engine)", SLOW_SECONDS)
        self.assertEqual(host.wait(self.engine)[0], 0, host.run("cat /tmp/engine.log")[1])

    def serve(self, host):
        host.check(f"printf '%s' '{SERVE}' | fathom rpc", SLOW_SECONDS)


if __name__ == "__main__":
    unittest.main()
