#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Power cuts: QEMU is killed under load, its disk loses what was not flushed, and the engine must have kept its promises.

    FATHOM_CUTS=200 FATHOM_STATES=12 FATHOM_SEED=7 python3 test/vm/test_power.py -v

The engine runs in the guest, on XFS on a disk that loses unflushed writes (power_disk.py). power_load, outside, writes to one volume with
flushes and FUA. Meanwhile volumes are created, made larger and smaller, renamed and destroyed, and snapshots are taken of this volume and others at
one instant, cloned, restored and destroyed. In some cuts power_load does not run, and its volume is restored instead. Volumes have checksums, or not.
After each cut: every change that was confirmed is there as a whole, one that was under way is there or not, every acknowledged and flushed block is
right, each snapshot has what the volume had then, and nothing else is there. `fathom ddb` verifies records, files, space and checksums. In the end
all volumes are destroyed, and all space is free.

The guest boots once; after a cut it continues from its saved state (saved.py), with the disk that the cut has left. An engine of this machine
checks a copy of the disk first (power_state.py). FATHOM_STATES says how many other states of each cut are checked the same way: other choices of
what survived, of this moment and of two earlier ones. FATHOM_CHECKSUMS=1 or 0 decides if power_load's volume has checksums. What failed is kept in the folder FATHOM_KEEP. A machine that cannot mount XFS checks in the
guest, and no other states.
"""

import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]

import guest        # noqa: E402
import kernel       # noqa: E402
import power_disk   # noqa: E402
import power_state  # noqa: E402
import saved        # noqa: E402
import targets      # noqa: E402
from power_state import Thing   # noqa: E402

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


CUTS, STATES = int(os.environ.get("FATHOM_CUTS", "3")), int(os.environ.get("FATHOM_STATES", "2"))
MOMENTS = 2            # before each cut
USE_SECONDS, RESTORE_SECONDS = 6.0, 1.5     # at most, before a cut
KEPT = 5               # images that failed
LOAD_BYTES = 8 * MIB   # power_load writes to these; the volume may be larger


class TestPower(unittest.TestCase):
    """An engine that loses power."""

    @classmethod
    def setUpClass(cls):
        try:
            programs = targets.engine_binaries()
            cls.load = pathlib.Path(os.environ.get("FATHOM_POWER_LOAD", "build/test/power_load"))
            mkfs = kernel.need_program("mkfs.xfs", "xfsprogs")
            directory = power_state.scratch_folder()
            cls.addClassCleanup(directory.cleanup)
            cls.directory = pathlib.Path(directory.name)
            cls.saved = saved.Saved(cls.directory, programs, MEMORY_MB, [
                "modprobe -a xfs; mkdir -p /srv /dev/shm /var/tmp; mount -t tmpfs shm /dev/shm"])
        except kernel.Missing as missing:
            raise unittest.SkipTest(str(missing)) from None
        cls.image = cls.directory / "disk"
        with open(cls.image, "wb") as file:
            file.truncate(DISK_BYTES)
        subprocess.run([mkfs, "-q", "-m", "reflink=1,rmapbt=0", "-s", "size=4096", cls.image], check=True)
        power_disk.copy_sparse(cls.image, cls.directory / "empty")

    def setUp(self):
        self.seed = int(os.environ.get("FATHOM_SEED", random.randrange(1 << 31)))
        self.chance = random.Random(self.seed)
        self.model = power_state.Model()
        self.ledger_path = self.directory / "ledger"
        self.disk = power_disk.PowerDisk(self.image, self.seed)
        self.addCleanup(self.disk.__exit__)
        self.checker = None if power_state.NO_LOOP else power_state.Checker(self.directory, self.load, self.seed)
        self.has_checksums = os.environ.get("FATHOM_CHECKSUMS", str(self.chance.randrange(2))) == "1"
        self.moments, self.number, self.changes, self.refused, self.restores, self.failures = [], 0, 0, 0, 0, []
        self.saved.save(self.devices())

    def devices(self):
        self.port = targets.free_port()
        return guest.Devices([self.disk.socket], {self.port: 4420})

    def boot(self):
        host = self.saved.start(self.devices())
        self.addCleanup(host.close)
        host.check("modprobe virtio_blk; for i in $(seq 600); do [ -b /dev/vda ] && break; sleep 0.1; done;"
                   "mount -t xfs /dev/vda /srv || { dmesg | tail -40; exit 1; }", SLOW_SECONDS)
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
        self.rpc(host, "volume_create", "p1", "load", "8M", *(["--checksums"] if self.has_checksums else []))
        self.model.objects["load"] = Thing(LOAD_BYTES, self.has_checksums, None, None)
        return host

    def objects(self, host):
        return power_state.ask_objects(json.loads(self.rpc(host, "volume_get_volumes")),
                                       lambda volume: json.loads(self.rpc(host, "volume_get_snapshots", "p1", volume)))

    def check_objects(self, host):
        """They are those of the model; a change that was under way may have been made or not."""
        found = self.objects(host)
        if self.model.after is not None and found == power_state.shown(self.model.after):
            self.model.end(self.ledger())
        self.model.after = None
        self.assertEqual(found, power_state.shown(self.model.objects), f"seed {self.seed}")
        there = host.check("cd /srv/pools/p1/volumes; ls -d * */snapshots/* 2>/dev/null | sed s,/snapshots/,@,", SLOW_SECONDS).split()
        self.assertEqual(set(there), set(found), f"seed {self.seed}")

    def ledger(self):
        return self.ledger_path.read_bytes() if self.ledger_path.exists() else power_state.ZEROES

    def note(self):
        """What a cut now may leave."""
        ledger = self.ledger()
        return ledger, self.model.allowed(ledger)

    def take_moment(self):
        self.number += 1
        moment, note = self.disk.moment(self.directory / f"moment{self.number}", self.note)
        self.moments.append((moment, *note))

    def check_image(self, image, allowed, ledger):
        """The state that the image has, one of those allowed. An image that fails is kept as it was."""
        copy = self.directory / "copy"
        power_disk.copy_sparse(image, copy)
        try:
            return self.checker.check(copy, allowed, ledger, self.chance)
        except Exception as failure:
            keep = os.environ.get("FATHOM_KEEP")
            if keep and len(self.failures) < KEPT:
                path = pathlib.Path(keep) / f"power-{self.seed}-{self.disk.cuts}-{self.checker.checked}"
                power_disk.copy_sparse(image, path)
                path.with_suffix(".ledger").write_bytes(ledger)
                path.with_suffix(".txt").write_text(f"{failure}\n")
            raise AssertionError(f"seed {self.seed}, {self.disk.cuts} cuts, {self.checker.checked} states: {failure}") from failure

    def check_states(self, moment):
        """The disk as the cut left it, which says what the model is; then other states that this cut and earlier ones could have left."""
        ledger, allowed = self.note()
        self.model.objects, self.model.after = self.check_image(self.disk.path, allowed, ledger), None
        restored = self.model.objects["load"]
        if restored.low:        # from now on the ledger says what it has
            self.ledger_path.write_bytes(self.checker.adopted)
            self.model.objects = {**self.model.objects, "load": restored._replace(low=None, high=None)}     # `allowed` stays
            self.restores += 1
        moments = [(moment, ledger, allowed), *self.moments]
        for number in range(STATES):
            which, ledger, allowed = moments[number % len(moments)]
            which.write_state(self.directory / "state", self.chance)
            try:
                self.check_image(self.directory / "state", allowed, ledger)
            except AssertionError as failure:       # the run goes on: the next cut may tell more
                print(f"# FAILED: {failure}", flush=True)
                self.failures.append(str(failure))
        for which, _, _ in moments:
            which.discard()
        self.moments = []

    def run_load(self, mode):
        return subprocess.Popen([self.load, mode, str(self.port), NQN, self.ledger_path, str(self.seed)], stdout=subprocess.PIPE,
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
        kind = self.chance.randrange(4) if any(key.startswith("load@") for key in snapshots) else 0
        if kind == 0 and not any(f"{volume}@{name}" in after for volume in ("load", *members)):
            after.update({f"{volume}@{name}": after[volume] for volume in members})
            after[f"load@{name}"] = after["load"]._replace(low=self.ledger())
            return ("volume_snapshot", "p1", "load", name, *(["--members", ",".join(f"p1/{member}" for member in members)] if members else []))
        if kind == 1 and snapshots:
            key = self.chance.choice(snapshots)
            del after[key]
            return ("snapshot_destroy", "p1", *key.split("@"))
        if kind == 2 and snapshots and free:
            key = self.chance.choice(snapshots)
            after[free[0]] = after[key]
            return ("volume_clone", "p1", *key.split("@"), free[0])
        snapshots = [key for key in snapshots if not key.startswith("load@")]
        if kind == 3 and snapshots:
            return self.restore(after, self.chance.choice(snapshots))
        return None

    @staticmethod
    def restore(after, key):
        volume, snapshot = key.split("@")
        after[volume] = after[key]
        return ("volume_restore", "p1", volume, snapshot, "--force")

    def volume_change(self, after):
        """Likewise, of volumes."""
        name = self.chance.choice([*NAMES, "load"])
        thing, others, kind = after.get(name), [other for other in NAMES if other not in after], self.chance.random()
        if thing is None:
            after[name] = Thing(self.chance.randrange(1, 9) * MIB, self.chance.random() < 0.5)
            return ("volume_create", "p1", name, str(after[name].bytes), *(["--thick"] if self.chance.random() < 0.5 else []),
                    *(["--checksums"] if after[name].checksums else []))
        if kind < 0.3 and thing.bytes < 24 * MIB:
            after[name] = thing._replace(bytes=thing.bytes + self.chance.randrange(1, 4) * MIB)
            return ("volume_resize", "p1", name, str(after[name].bytes))
        if (kind < 0.5 or name == "load") and thing.bytes > MIB:
            return self.shrink(after, name, max(self.chance.randrange(1, thing.bytes // MIB) for _ in range(2)) * MIB)
        if name == "load":
            return None
        if kind < 0.6 and others:
            for key in self.model.of_volume(name):
                after[key.replace(name, others[0], 1)] = after.pop(key)
            return ("volume_rename", "p1", name, others[0])
        for key in self.model.of_volume(name):
            del after[key]
        return ("volume_destroy", "p1", name, "--force")

    def shrink(self, after, name, size):
        """Refused if there are data behind the new end."""
        low, high = power_state.data_end(after[name], self.ledger())
        if name == "load":
            high = LOAD_BYTES
        if low <= size < high:
            return None
        self.must_refuse = size < high
        if not self.must_refuse:
            after[name] = after[name]._replace(bytes=size)
        return ("volume_resize", "p1", name, str(size), "--force")

    def change(self, host):
        """Begin a random change, as a job."""
        words = None
        while not words:
            self.model.after, self.must_refuse = dict(self.model.objects), False
            words = self.chance.choice((self.snapshot_change, self.volume_change))(self.model.after)
        return host.start(f"fathom rpc {' '.join(words)}", SLOW_SECONDS), words

    def use_until_cut(self, host, seconds):
        """Changes under load, then the cut."""
        begin = time.monotonic()
        moments = sorted(begin + self.chance.uniform(0, seconds) for _ in range(MOMENTS if self.checker and STATES > 1 else 0))
        while True:
            job, words = self.change(host)
            while not host.is_done(job) and time.monotonic() < begin + seconds:
                if moments and time.monotonic() > moments[0]:
                    del moments[0]
                    self.take_moment()
                time.sleep(0.01)
            if time.monotonic() >= begin + seconds:
                return
            self.end_change(words, *host.wait(job))

    def end_change(self, words, status, output):
        if self.must_refuse:
            self.assertTrue(status != 0 and "cannot be made smaller than that" in output, f"seed {self.seed}: {words}, status {status}: {output}")
            self.model.after = None
            self.refused += 1
        elif status != 0 and words[0] in ("volume_resize", "volume_restore") and "is slow" in output:     # a busy machine: the volume stays as it was
            self.model.after = None
        else:
            self.assertEqual(status, 0, f"seed {self.seed}: {words}: {output}")
            self.model.end(self.ledger())
            self.changes += 1

    def restore_until_cut(self, host):
        """Without load: restore its volume, and cut at any moment of that, or after it."""
        self.model.after, self.must_refuse = dict(self.model.objects), False
        words = self.restore(self.model.after, self.chance.choice([key for key in self.model.objects if key.startswith("load@")]))
        job, end = host.start(f"fathom rpc {' '.join(words)}", SLOW_SECONDS), time.monotonic() + RESTORE_SECONDS * self.chance.random() ** 2
        while time.monotonic() < end and not host.is_done(job):
            time.sleep(0.005)
        if host.is_done(job):
            self.end_change(words, *host.wait(job))

    def use(self, host, may_restore):
        """Use the volumes, then cut the power; the disk as it was then, for the checker."""
        self.serve(host)
        if self.disk.cuts and not self.checker:
            self.finish_load(self.run_load("check"), host)
        is_restoring = may_restore and self.checker and any(key.startswith("load@") for key in self.model.objects)
        load = None
        if is_restoring:
            self.restore_until_cut(host)
        else:
            load = self.run_load("load")
            self.addCleanup(load.kill)
            self.assertEqual(load.stdout.readline(), "connected\n", f"seed {self.seed}, {self.disk.cuts} cuts")
            self.use_until_cut(host, self.chance.uniform(0.2, USE_SECONDS))
        moment = self.disk.cut(host.kill, self.directory / "moment" if self.checker else None)
        if load:
            self.finish_load(load)
        host.close()
        return moment

    def test_confirmed_changes_and_flushed_blocks_survive_power_cuts(self):
        host, begin = self.first_boot(), time.monotonic()
        for cut in range(CUTS):
            moment = self.use(host, may_restore=cut > 0 and self.chance.random() < 0.4)
            if self.checker:
                self.check_states(moment)
            host = self.boot()
            self.check_objects(host)
            print(f"# cut {self.disk.cuts}: {time.monotonic() - begin:.0f} s, {self.changes} changes confirmed, {self.refused} refused, "
                  f"{self.restores} restores of the load, {self.disk.lost} blocks lost, "
                  f"{self.checker.checked if self.checker else 0} states checked, {len(self.failures)} failures, {len(self.model.objects)} volumes and snapshots", flush=True)
        self.serve(host)
        print(f"# seed {self.seed}: {self.disk.cuts} cuts, {self.disk.flushes} flushes, {self.disk.lost} blocks lost, of them {self.disk.torn} older; "
              f"{self.finish_load(self.run_load('check'), host).strip()}", flush=True)
        self.assertEqual(self.failures, [])
        if CUTS > 9:
            self.assertGreater(self.disk.lost, 0, "the disk lost nothing, so this test has shown nothing")
        host.check("kill $(pidof fathom-engine)", SLOW_SECONDS)
        self.assertEqual(host.wait(self.engine)[0], 0, host.run("cat /tmp/engine.log")[1])
        if self.checker:
            host.check("umount /srv", SLOW_SECONDS)
            self.disk.cut(host.kill)
            self.checker.check_space(self.disk.path, self.directory / "empty")

    def serve(self, host):
        host.check(f"printf '%s' '{SERVE}' | fathom rpc", SLOW_SECONDS)


if __name__ == "__main__":
    unittest.main()
