# SPDX-License-Identifier: BSD-2-Clause
"""
fathom-helper with real loop devices and real XFS; also when devices, mkfs.xfs or the caller fail. Needs root and loop devices.
"""

import errno
import glob
import os
import shutil
import signal
import struct
import threading
import time
import unittest

from harness import run
from helper_rig import ANSWER_SECONDS, CHECK_FORMAT, FIRMWARE, FORCE, FORMAT, FORMATS, HEALTH, LED, MIB, MOUNT, OWN, PING, PREPARE, READ_LABEL, UNMOUNT, WIPE, HelperTest, Refused
from loop_device import NOBODY, NO_LOOP, is_attached


@unittest.skipIf(NO_LOOP, NO_LOOP or "")
class Devices(HelperTest):
    def test_a_device_is_formatted_mounted_written_and_unmounted(self):
        helper, device, target = self.helper(), self.loop(), self.mounts + "/engine0"
        self.assertEqual(FORMATS[helper.call(CHECK_FORMAT, device)["format"]], "none")
        self.assert_refused(errno.EMEDIUMTYPE, "format this one", lambda: helper.call(MOUNT, device, target, ""))
        made = helper.call(FORMAT, device, "fathom0", 0)
        self.assertEqual((FORMATS[made["format"]], made["type"], made["label"]), ("xfs", "xfs", "fathom0"))
        self.assertEqual(made["uuid"], run("blkid", "-p", "-s", "UUID", "-o", "value", device).stdout.strip())
        self.assertEqual(helper.call(READ_LABEL, device), {"type": "xfs", "label": "fathom0", "uuid": made["uuid"]})
        self.assert_refused(errno.EMEDIUMTYPE, "has fathom0, not fathom1", lambda: helper.call(MOUNT, device, target, "fathom1"))
        self.assertEqual(helper.call(MOUNT, device, target, "fathom0"), {"already": 0})
        self.assertTrue(os.path.ismount(target))
        self.assertEqual(helper.call(MOUNT, device, target, "fathom0"), {"already": 1})
        options = [line.split()[5] for line in open("/proc/self/mountinfo") if line.split()[4] == target][0].split(",")
        for option in ("nosuid", "nodev", "noexec", "noatime"):
            self.assertIn(option, options)
        self.assertEqual(os.stat(target).st_mode & 0o7777, 0o700)
        with open(target + "/data", "wb") as file:
            file.write(os.urandom(MIB))
        # each operation refuses a mounted device
        self.assert_refused(errno.EBUSY, "mounted at " + target, lambda: helper.call(FORMAT, device, "again", FORCE))
        self.assert_refused(errno.EBUSY, lambda: helper.call(PREPARE, device, WIPE | FORCE))
        self.assert_refused(errno.EBUSY, lambda: helper.call(MOUNT, device, self.mounts + "/other", ""))
        with open(target + "/data", "rb"):
            self.assert_refused(errno.EBUSY, "stop the engine", lambda: helper.call(UNMOUNT, target))
        self.assertEqual(helper.call(UNMOUNT, target), {"already": 0})
        self.assertFalse(os.path.ismount(target))
        self.assertEqual(helper.call(UNMOUNT, target), {"already": 1})
        self.assert_refused(errno.EEXIST, "fathom0", lambda: helper.call(FORMAT, device, "again", 0))
        helper.call(MOUNT, device, target, "")
        self.assertEqual(os.path.getsize(target + "/data"), MIB)
        helper.call(UNMOUNT, target)
        again = helper.call(FORMAT, device, "again", FORCE)
        self.assertNotEqual(again["uuid"], made["uuid"])

    def test_mount_points_and_prepared_devices_belong_to_the_caller(self):
        device, target = self.loop(), self.mounts + "/engine0"
        helper = self.helper(uid=NOBODY)
        helper.call(FORMAT, device, "x", 0)
        helper.call(MOUNT, device, target, "")
        self.assertEqual((os.stat(target).st_uid, os.stat(target).st_gid), (NOBODY, NOBODY))
        helper.call(UNMOUNT, target)
        helper.call(PREPARE, device, OWN)
        self.assertEqual((os.stat(device).st_uid, os.stat(device).st_gid, os.stat(device).st_mode & 0o777), (NOBODY, NOBODY, 0o600))
        os.chown(device, 0, 0)

    def test_a_damaged_superblock_is_recognised(self):
        helper, device = self.helper(), self.loop()
        helper.call(FORMAT, device, "fathom0", 0)
        with open(device, "r+b") as file:
            file.seek(108)
            file.write(b"damage")
            os.fsync(file.fileno())
        found = helper.call(CHECK_FORMAT, device)
        self.assertEqual((FORMATS[found["format"]], found["damage"]), ("damaged-xfs", "the superblock's checksum is wrong"))
        self.assert_refused(errno.EUCLEAN, "xfs_repair", lambda: helper.call(MOUNT, device, self.mounts + "/a", ""))
        with open(device, "r+b") as file:
            file.write(bytes(512))
            os.fsync(file.fileno())
        found = helper.call(CHECK_FORMAT, device)
        self.assertEqual(FORMATS[found["format"]], "damaged-xfs")
        self.assert_refused(errno.EEXIST, "xfs_repair", lambda: helper.call(FORMAT, device, "again", 0))
        if shutil.which("xfs_repair", path="/usr/sbin:/sbin"):
            run("xfs_repair", device)
            self.assertEqual(helper.call(READ_LABEL, device)["label"], "fathom0")
        helper.call(FORMAT, device, "again", FORCE)
        self.assertEqual(FORMATS[helper.call(CHECK_FORMAT, device)["format"]], "xfs")

    def test_a_device_with_data_is_formatted_only_by_force(self):
        helper, device = self.helper(), self.loop()
        with open(device, "r+b") as file:
            file.write(b"somebody's bytes")
        self.assertEqual(FORMATS[helper.call(CHECK_FORMAT, device)["format"]], "unknown")
        self.assert_refused(errno.EEXIST, "no known kind", lambda: helper.call(FORMAT, device, "x", 0))
        self.assert_refused(errno.EEXIST, lambda: helper.call(PREPARE, device, WIPE))
        run("mkfs.ext4", "-q", "-F", device)
        self.assertEqual(helper.call(CHECK_FORMAT, device)["type"], "ext4")
        self.assert_refused(errno.EEXIST, "ext4", lambda: helper.call(FORMAT, device, "x", 0))
        helper.call(PREPARE, device, WIPE | FORCE)
        self.assertEqual(FORMATS[helper.call(CHECK_FORMAT, device)["format"]], "none")
        helper.call(FORMAT, device, "x", 0)

    def test_a_device_with_partitions_is_refused_even_by_force(self):
        helper, device = self.helper(), self.loop()
        with open(device, "r+b") as file:
            entry = struct.pack("<B3sB3sII", 0, b"\0" * 3, 0x83, b"\0" * 3, 2048, 100000)
            file.write(bytes(446) + entry + bytes(48) + b"\x55\xaa")
        self.assertEqual(helper.call(CHECK_FORMAT, device)["type"], "dos")
        self.assert_refused(errno.EBUSY, "partition", lambda: helper.call(FORMAT, device, "x", FORCE))

    def test_only_the_caller_may_access_a_prepared_device(self):
        helper, device = self.helper(), self.loop(16)
        os.chmod(device, 0o666)
        os.chown(device, 65534, 65534)
        helper.call(PREPARE, device, OWN)
        self.assertEqual(os.stat(device).st_mode & 0o777, 0o600)
        self.assertEqual((os.stat(device).st_uid, os.stat(device).st_gid), (0, 0))

    def test_links_and_missing_devices_are_refused(self):
        helper, device = self.helper(), self.loop(16)
        link = "/dev/loopfathom" + str(os.getpid())
        os.symlink(device, link)
        self.addCleanup(os.unlink, link)
        self.assert_refused(errno.ENODEV, "is a link: name the device itself", lambda: helper.call(CHECK_FORMAT, link))
        self.assert_refused(errno.ENODEV, lambda: helper.call(CHECK_FORMAT, "/dev/loop99"))
        self.assert_refused(errno.ENODEV, lambda: helper.call(CHECK_FORMAT, "/dev/loop-control"))

    def test_the_health_of_a_device_that_is_no_nvme_device_is_refused(self):
        helper, device = self.helper(), self.loop(16)
        self.assert_refused(errno.ENOTTY, "is no NVMe device", lambda: helper.call(HEALTH, device))
        self.assert_refused(errno.ENODEV, "has no lamp", lambda: helper.call(LED, device, 8))
        self.assert_refused(errno.EPERM, "is in no folder of the helper's list", lambda: helper.call(FIRMWARE, device, "/etc/passwd", 0, 0))
        helper = self.helper(self.write_config("device loop*", f"firmware {self.folder}/images", name="firmware.conf"))
        self.assert_refused(errno.EOPNOTSUPP, "it is no NVMe device", lambda: helper.call(FIRMWARE, device, f"{self.folder}/images/a", 0, 0))

    def test_a_link_or_a_file_as_mount_point_is_refused(self):
        helper, device = self.helper(), self.loop()
        helper.call(FORMAT, device, "x", 0)
        os.mkdir(self.folder + "/elsewhere")
        os.symlink(self.folder + "/elsewhere", self.mounts + "/engine0")
        self.assert_refused(errno.ELOOP, lambda: helper.call(MOUNT, device, self.mounts + "/engine0", ""))
        os.unlink(self.mounts + "/engine0")
        open(self.mounts + "/engine0", "w").close()
        self.assert_refused(errno.ENOTDIR, lambda: helper.call(MOUNT, device, self.mounts + "/engine0", ""))
        self.assertEqual([line for line in open("/proc/self/mountinfo") if self.folder in line.split()[4]], [])

    def test_a_filesystem_that_others_mounted_is_left_alone(self):
        helper, device, target = self.helper(), self.loop(), self.mounts + "/engine0"
        helper.call(FORMAT, device, "x", 0)
        os.mkdir(target)
        run("mount", "-t", "tmpfs", "none", target)
        self.assert_refused(errno.EPERM, "is not on the helper's list", lambda: helper.call(UNMOUNT, target))
        self.assert_refused(errno.EBUSY, "another filesystem is mounted", lambda: helper.call(MOUNT, device, target, ""))
        run("umount", target)

    def test_the_error_of_mkfs_is_reported_for_a_device_that_is_too_small(self):
        helper, device = self.helper(), self.loop(16)
        self.assert_refused(errno.EIO, "mkfs.xfs failed", "300", lambda: helper.call(FORMAT, device, "x", 0))

    def test_a_device_that_another_program_opens_exclusively_for_a_moment_is_formatted(self):
        helper, device = self.helper(), self.loop()
        fd = os.open(device, os.O_RDWR | os.O_EXCL)
        release = threading.Timer(0.3, os.close, [fd])
        release.start()
        helper.call(FORMAT, device, "x", 0)
        release.join()

    def test_a_device_that_stays_open_exclusively_is_refused(self):
        helper, device = self.helper(), self.loop()
        fd = os.open(device, os.O_RDWR | os.O_EXCL)
        try:
            self.assert_refused(errno.EBUSY, "has opened it exclusively", lambda: helper.call(FORMAT, device, "x", FORCE))
        finally:
            os.close(fd)
        helper.call(FORMAT, device, "x", 0)


def mkfs_processes(device):
    """The processes of mkfs.xfs at that device. Others belong to tests that run beside this one."""
    found = []
    for path in glob.glob("/proc/[0-9]*"):
        try:
            if open(path + "/comm").read().strip() == "mkfs.xfs" and device in open(path + "/cmdline").read().split("\0"):
                found.append(int(path.split("/")[2]))
        except OSError:
            pass
    return found


@unittest.skipIf(NO_LOOP, NO_LOOP or "")
class FailuresAndRaces(HelperTest):
    def stop_child(self, helper):
        """Stop the child that serves the request just sent, so that the request stays under way; the child's pid."""
        deadline = time.monotonic() + ANSWER_SECONDS
        while time.monotonic() < deadline:
            for pid in helper.children():
                os.kill(pid, signal.SIGSTOP)
                return pid
        self.fail("the helper did not start a child")

    def wait_gone(self, *pids):
        deadline = time.monotonic() + ANSWER_SECONDS
        while any(os.path.exists(f"/proc/{pid}") for pid in pids):
            self.assertLess(time.monotonic(), deadline, f"{pids} still run")
            time.sleep(0.01)

    def test_of_two_requests_for_one_device_the_second_is_refused(self):
        helper, device = self.helper(), self.loop()
        first = helper.send(FORMAT, device, "first", 0)
        child = self.stop_child(helper)
        self.assert_refused(errno.EBUSY, "another request (format)", lambda: helper.call(FORMAT, device, "second", FORCE))
        self.assert_refused(errno.EBUSY, lambda: helper.call(CHECK_FORMAT, device))
        helper.call(PING)  # no request blocks a ping
        os.kill(child, signal.SIGCONT)
        self.assertEqual(helper.receive()[1:3], (first, 0))
        self.assertEqual(helper.call(READ_LABEL, device)["label"], "first")

    def test_two_helpers_do_not_format_one_device_at_the_same_time(self):
        one, other, device = self.helper(), self.helper(), self.loop()
        for _ in range(5):
            one.send(FORMAT, device, "one", FORCE)
            other.send(FORMAT, device, "other", FORCE)
            answers = one.receive()[2], other.receive()[2]
            self.assertLessEqual(set(answers), {0, errno.EBUSY}, answers)
            self.assertIn(0, answers)
            self.assertEqual(FORMATS[one.call(CHECK_FORMAT, device)["format"]], "xfs")

    def test_of_two_requests_for_one_mount_point_the_second_is_refused(self):
        helper, target = self.helper(), self.mounts + "/engine0"
        devices = [self.loop(), self.loop()]
        for device in devices:
            helper.call(FORMAT, device, "x", 0)
        first = helper.send(MOUNT, devices[0], target, "")
        child = self.stop_child(helper)
        self.assert_refused(errno.EBUSY, "another request (mount)", lambda: helper.call(MOUNT, devices[1], target, ""))
        self.assert_refused(errno.EBUSY, "another request (mount)", lambda: helper.call(UNMOUNT, target))
        os.kill(child, signal.SIGCONT)
        self.assertEqual(helper.receive()[1:3], (first, 0))

    def test_requests_beyond_the_limit_are_refused_and_the_others_are_served(self):
        helper, devices = self.helper(), [self.loop(16) for _ in range(2)]
        numbers = [helper.send(CHECK_FORMAT, devices[0]) for _ in range(40)]
        answers = [helper.receive()[1:3] for _ in numbers]
        self.assertEqual(sorted(number for number, _ in answers), numbers)
        self.assertLessEqual({error for _, error in answers}, {0, errno.EBUSY})
        self.assertEqual(FORMATS[helper.call(CHECK_FORMAT, devices[1])["format"]], "none")

    def test_a_child_that_exceeds_its_timeout_is_killed(self):
        helper, device = self.helper(), self.loop()
        number = helper.send(FORMAT, device, "x", 0, timeout_ms=1500)   # long enough to find the child before
        child = self.stop_child(helper)
        operation, got, error, fields = helper.receive()
        self.assertEqual((operation, got, error), (FORMAT, number, errno.ETIMEDOUT))
        self.assertIn(device, fields["text"])
        self.wait_gone(child)
        self.assertIn(FORMATS[helper.call(CHECK_FORMAT, device)["format"]], ("none", "unknown", "damaged-xfs", "xfs"))
        helper.call(FORMAT, device, "again", FORCE)

    def test_the_signal_that_killed_a_child_is_reported(self):
        helper, device = self.helper(), self.loop()
        for killed_by in (signal.SIGKILL, signal.SIGTERM):
            number = helper.send(FORMAT, device, "x", FORCE)
            child = self.stop_child(helper)
            os.kill(child, killed_by)
            os.kill(child, signal.SIGCONT)
            _, got, error, fields = helper.receive()
            self.assertEqual((got, error), (number, errno.ECHILD))
            self.assertIn(f"signal {int(killed_by)}", fields["text"])
        helper.call(FORMAT, device, "x", FORCE)

    def test_children_and_mkfs_end_with_a_killed_helper_and_no_damaged_filesystem_is_mounted(self):
        device, target = self.loop(2048), self.mounts + "/engine0"
        seen = set()
        began = time.monotonic()
        self.helper().call(FORMAT, device, "x", FORCE)
        step = (time.monotonic() - began) / 16
        for moment in range(20):  # the last ones kill after the end of mkfs
            helper = self.helper()
            helper.call(PING)
            with open(device, "r+b") as file:
                file.write(bytes(MIB))
            helper.send(FORMAT, device, "x", FORCE)
            time.sleep(moment * step)
            children = helper.children()
            helper.process.kill()
            helper.process.wait()
            self.wait_gone(*children)
            deadline = time.monotonic() + ANSWER_SECONDS
            while mkfs_processes(device) and time.monotonic() < deadline:
                time.sleep(0.01)
            self.assertEqual(mkfs_processes(device), [])
            after = self.helper()
            found = FORMATS[after.call(CHECK_FORMAT, device)["format"]]
            seen.add(found)
            if found == "xfs":
                after.call(MOUNT, device, target, "x")
                after.call(UNMOUNT, target)
                run("xfs_repair", "-n", device)
            else:
                self.assert_refused(errno.EMEDIUMTYPE if found != "damaged-xfs" else errno.EUCLEAN, lambda: after.call(MOUNT, device, target, "x"))
            after.close()
            helper.close()
        self.assertIn("none", seen)

    def test_the_helper_finishes_its_request_and_ends_when_its_caller_disconnects(self):
        helper, device = self.helper(), self.loop()
        helper.send(FORMAT, device, "finished", 0)
        child = self.stop_child(helper)
        helper.socket.close()
        time.sleep(0.1)
        self.assertIsNone(helper.process.poll())
        os.kill(child, signal.SIGCONT)
        self.assertEqual(helper.process.wait(ANSWER_SECONDS), 0)
        self.assertEqual(self.helper().call(READ_LABEL, device)["label"], "finished")

    def test_a_device_that_fails_or_vanishes_in_use_is_reported(self):
        helper, device, target = self.helper(), self.loop(own=True), self.mounts + "/engine0"
        helper.call(FORMAT, device, "x", 0)
        helper.call(MOUNT, device, target, "")
        os.truncate(self.loops[0][1], 0)  # every read and write fails from now on
        with self.assertRaises(OSError):
            with open(target + "/data", "wb") as file:
                file.write(bytes(MIB))
                os.fsync(file.fileno())
        helper.call(UNMOUNT, target)
        run("blockdev", "--flushbufs", device)
        with self.assertRaises(Refused) as caught:
            helper.call(FORMAT, device, "x", FORCE)
        self.assertIn(caught.exception.code, (errno.EIO, errno.ENODEV))
        self.detach_and_wait(device)
        self.assert_refused(errno.ENODEV, "has vanished", lambda: helper.call(CHECK_FORMAT, device))

    def detach_and_wait(self, device):
        """Detach the device. It vanishes when the last process closes it: a scan of another test may have it open."""
        path = dict(self.loops)[device]
        run("losetup", "-d", device)
        deadline = time.monotonic() + ANSWER_SECONDS
        while is_attached(device, path):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def test_the_helper_answers_when_a_device_is_detached_during_its_formatting(self):
        helper, device = self.helper(), self.loop(own=True)
        number = helper.send(FORMAT, device, "x", 0)
        child = self.stop_child(helper)
        run("losetup", "-d", device, check=False)  # takes effect when the last process closes the device
        os.kill(child, signal.SIGCONT)
        _, got, error, fields = helper.receive()
        self.assertEqual(got, number)
        self.assertIn(error, (0, errno.ENODEV, errno.EIO, errno.EBUSY, errno.ENXIO), fields)
        helper.call(PING)


if __name__ == "__main__":
    unittest.main()
