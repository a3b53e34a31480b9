# SPDX-License-Identifier: BSD-2-Clause
"""
Storage whose disk returns I/O errors, and blocks that change below the engine. As root, on XFS images.

The disk that fails is a loop device on a file of another XFS, which a test shuts down: from then on all reads, writes and syncs of the disk end
with EIO, and what was not synced is lost, as with a disk that is unplugged. Mounted again, it works.
"""

import contextlib
import glob
import json
import os
import re
import struct
import subprocess
import threading
import unittest

import xfs
from harness import FATHOM, run, wait_for
from loop_device import NO_LOOP
from server_rig import Refused, ServerTest

MIB, BLOCK = 1 << 20, 4096
LOAD = os.environ.get("FATHOM_POWER_LOAD", "")
HOST = "nqn.2014-08.org.nvmexpress:uuid:6cf5e4a2-0f0e-4f0b-9d6e-70a1b8f3c001"    # that of power_load.c
MISMATCH, STORAGE_FAILED, READ_ONLY = 1052, 1057, 1061
DAMAGED = 5                         # a block
LEDGER_BYTES = 5 * 2048 * 8 + 16    # power_load.c: at its end the numbers of writes and flushes


class FailingDisk:
    """An XFS image mounted at `folder`, on a disk that can be made to fail."""

    def __init__(self, case, folder):
        below = folder + ".below"
        self.mounts = [(below + ".img", below), (os.path.join(below, "image"), folder)]
        os.mkdir(below)
        for image, place in self.mounts:
            xfs.make(image, 1024 if place == below else 512)
            run("mount", "-o", "loop", image, place)
            case.addCleanup(subprocess.run, ["umount", "-l", place], check=False)

    def fail(self):
        run("xfs_io", "-x", "-c", "shutdown", self.mounts[0][1])

    def repair(self):
        """No process may use it."""
        for _, place in reversed(self.mounts):
            # the kernel closes the files of a killed process's io_uring later
            wait_for(lambda place=place: subprocess.run(["umount", place], stderr=subprocess.DEVNULL, check=False).returncode == 0)
        for image, place in self.mounts:
            run("mount", "-o", "loop", image, place)


def mounted(case, folder):
    """A disk that works."""
    if not xfs.mount(case, folder):
        raise unittest.SkipTest("no XFS image can be mounted here")


def flushes_of(ledger):
    with open(ledger, "rb") as file:
        return struct.unpack("<Q", file.read()[-8:])[0]


@unittest.skipIf(NO_LOOP, NO_LOOP)
class Failing(ServerTest):
    def start(self, disk, **keys):
        """One rank and a pool."""
        self.rig, mgmt = self.server(size="16MiB", **keys), self.messages.mgmt
        self.disk = disk(self, self.rig.mount_path(0))
        self.rig.start()
        self.rig.format()
        self.rig.wait_joined()
        self.rig.call("/mgmt.MgmtSvc/PoolCreate", mgmt.PoolCreateReq(properties=[mgmt.PoolProperty(number=1, strval="p")]), timeout=60)

    def call(self, method, **fields):
        return self.rig.call("/fathom.ControlSvc/" + method, getattr(self.messages.fathom, method + "Req")(**fields), timeout=60)

    def create(self, name, **fields):
        self.call("VolumeCreate", name=f"p/{name}", size_bytes=8 * MIB, **fields)
        return self.call("VolumePublish", name=f"p/{name}", host=HOST).volume

    def perf(self, volume, *options):
        address, _, port = volume.addresses[0].rpartition(":")
        return run(FATHOM, "perf", "-a", address, "-s", port, "-n", volume.nqn, "--hostnqn", HOST, *options, check=False)

    def wait_for_event(self, number):
        """The text of the event, which comes once."""
        text, = wait_for(lambda: [event.event.msg for event in self.call("SystemEvents").events if event.event.id == number])
        return text

    def member(self):
        member, = self.rig.members()
        return member

    def restart_rank(self, meanwhile, force):
        """Stop the rank, call `meanwhile`, start the rank."""
        mgmt = self.messages.mgmt
        self.rig.call("/mgmt.MgmtSvc/SystemStop", mgmt.SystemStopReq(ranks="0", force=force), timeout=60)
        wait_for(lambda: not self.rig.running_engine_pids())
        meanwhile()
        self.rig.call("/mgmt.MgmtSvc/SystemStart", mgmt.SystemStartReq(ranks="0"), timeout=60)
        self.rig.wait_joined()

    def load(self, mode, volume, ledger, seed=1):
        _, _, port = volume.addresses[0].rpartition(":")
        process = subprocess.Popen([LOAD, mode, port, volume.nqn, ledger, str(seed)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        return process

    def finish(self, process):
        return process.communicate(timeout=120)[0]

    def test_a_disk_that_changes_what_was_written_is_named_by_a_paranoid_engine(self):
        """The server's configuration has `paranoid_blocks`."""
        self.start(mounted, engine_keys="  paranoid_blocks: 4096\n")
        engine, = self.rig.engines()
        with open(f"/proc/{engine.pid}/cmdline") as file:
            self.assertIn("--paranoid\x004096\x00", file.read())
        volume = self.create("a")
        done = self.perf(volume, "--rw", "write", "--bs", "64k", "--depth", "1", "--count", "16", "--range", "1M")
        self.assertEqual(done.returncode, 0, done.stderr)
        path, = glob.glob(os.path.join(self.rig.mount_path(0), "**", "volumes", "a", "data.*"), recursive=True)
        with open(path, "r+b") as file:
            file.seek(DAMAGED * BLOCK + 100)
            file.write(b"changed by the disk")
        done = self.perf(volume, "--rw", "read", "--bs", "4k", "--count", "256", "--depth", "1", "--range", "1M")
        self.assertIn("Unrecovered Read Error", done.stderr)
        lba = DAMAGED * BLOCK // volume.block_bytes
        self.assertRegex(self.wait_for_event(MISMATCH), f"^device .*: 1 block was not read as written: LBA {lba}$")
        done = run(FATHOM, "doctor", engine.pid, check=False)
        self.assertRegex(done.stdout, "returned 1 blocks? that differ from what was written: the device below corrupts data")
        self.assertEqual(self.perf(volume, "--rw", "read", "--bs", "4k", "--count", "256", "--depth", "1", "--range", "2M:1M").returncode, 0)

    @unittest.skipUnless(LOAD, "FATHOM_POWER_LOAD is not set")
    def test_a_sync_that_fails_makes_the_volume_read_only_until_a_restart(self):
        self.start(FailingDisk)
        volume, ledger = self.create("a"), os.path.join(self.directory, "ledger")
        load = self.load("load", volume, ledger)
        wait_for(lambda: os.path.exists(ledger) and os.path.getsize(ledger) == LEDGER_BYTES and flushes_of(ledger) > 3)
        self.disk.fail()
        self.assertIn("Write Fault", self.finish(load))
        for seed in range(2, 100):      # until the first writes of a run are durable ones, which are syncs
            if self.member().storage.read_only_volumes:
                break
            self.finish(self.load("load", volume, ledger + "-failing", seed))
        self.assertRegex(self.wait_for_event(READ_ONLY), "^volume p/a: a sync of its file failed: Input/output error")
        self.assertRegex(self.member().info, "^1 volume READ_ONLY since .*: p/a: a sync of its file failed")
        self.assertIn("Namespace is Write Protected", self.perf(volume, "--rw", "write", "--count", "1").stderr)
        self.restart_rank(self.disk.repair, force=True)
        self.assertEqual(self.member().info, "")
        self.assertEqual(self.finish(self.load("check", volume, ledger)), "wrong=0 of 2048 blocks\n")   # what was flushed is there
        self.assertEqual(self.perf(volume, "--rw", "write", "--count", "10").returncode, 0)

    def test_a_change_that_cannot_be_synced_fails_the_storage_until_a_restart(self):
        self.start(FailingDisk)
        for name in ("a", "b"):
            self.create(name)
        self.call("VolumeUnpublish", name="p/b", host=HOST)
        self.disk.fail()
        destroy = threading.Thread(target=self.destroy, args=("b",))    # its first change on the disk is a rename
        destroy.start()
        self.addCleanup(destroy.join)
        self.assertRegex(self.wait_for_event(STORAGE_FAILED), "^an earlier change could not be synced")
        wait_for(lambda: self.member().state == "errored")
        self.assertTrue(self.member().storage.failed)
        self.assertRegex(self.member().info, "^an earlier change could not be synced")
        self.restart_rank(self.disk.repair, force=True)
        self.assertEqual(self.member().info, "")
        wait_for(lambda: [volume.name for volume in self.call("VolumeList").volumes] == ["p/a"])    # the destroy goes on

    def test_a_block_that_changed_below_the_engine_is_an_error_and_an_event_with_its_address(self):
        self.start(mounted)
        volume, state = self.create("a", checksums=True), os.path.join(self.directory, "state")
        self.assertEqual(self.perf(volume, "--rw", "write", "--count", "64", "--depth", "1", "--verify-state", state).returncode, 0)
        wait_for(lambda: self.marked_regions() == 0)    # until then a crash would make the region suspect
        self.restart_rank(self.damage, force=False)
        answer = self.perf(volume, "--time", "0", "--verify-state", state)
        self.assertEqual(answer.returncode, 1)
        self.assertEqual(re.findall("block ([0-9]+): .*(Unrecovered Read Error)", answer.stderr), [(str(DAMAGED), "Unrecovered Read Error")], answer.stderr)
        self.assertEqual(self.wait_for_event(MISMATCH), f"volume p/a: 1 block does not fit its checksum: LBA {DAMAGED}")
        self.assertEqual(self.perf(volume, "--range", f"{DAMAGED * BLOCK}:{BLOCK}", "--rw", "write", "--depth", "1", "--count", "1").returncode, 0)
        self.assertEqual(self.perf(volume, "--rw", "read", "--count", "64", "--depth", "1").returncode, 0)

    def destroy(self, name):
        """The answer says whether it waits for the rank: after a restart it goes on."""
        with contextlib.suppress(Refused):
            self.call("VolumeDestroy", name=f"p/{name}")

    def marked_regions(self):
        volume, = json.loads(run(FATHOM, "rpc", "-s", self.rig.engines()[0].rpc_socket, "volume_get_volumes").stdout)
        return volume["scrub"]["marked_regions"]

    def damage(self):
        data, = glob.glob(os.path.join(self.rig.mount_path(0), "**", "volumes", "a", "data.*"), recursive=True)
        with open(data, "r+b") as file:
            file.seek(DAMAGED * BLOCK + 100)
            byte, = file.read(1)
            file.seek(DAMAGED * BLOCK + 100)
            file.write(bytes([byte ^ 1]))


if __name__ == "__main__":
    unittest.main()
