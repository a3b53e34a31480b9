#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The tests' tools: the guest, missing parts of a machine, and the errors that verify_io detects."""

import functools
import os
import pathlib
import re
import sys
import tempfile
import time
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import guest        # noqa: E402
import kernel       # noqa: E402
import scenarios    # noqa: E402
import targets      # noqa: E402


@functools.cache
def booted():
    """The guest for all classes that do not end it; skips the class if it cannot boot. Pair: tearDownModule()."""
    try:
        return guest.boot()
    except kernel.Missing as missing:
        raise unittest.SkipTest(str(missing)) from None


def tearDownModule():
    if booted.cache_info().currsize:
        booted().close()


class TestGuest(unittest.TestCase):
    """Commands, their ends and their output."""

    @classmethod
    def setUpClass(cls):
        cls.host = booted()

    def test_command_gives_status_and_both_outputs(self):
        self.assertEqual(self.host.run("echo out; echo err >&2; exit 7"), (7, "out\nerr\n"))

    def test_killed_command_gives_128_and_signal(self):
        self.assertEqual(self.host.run("kill -9 $$"), (137, ""))

    def test_check_raises_with_the_output(self):
        with self.assertRaisesRegex(AssertionError, "exit status 3.*\n.*why"):
            self.host.check("echo why; exit 3")

    def test_output_of_a_megabyte_arrives_whole(self):
        _, output = self.host.run("yes 0123456789abcde | head -c 1048576")
        self.assertEqual(output, "0123456789abcde\n" * 65536)

    def test_command_over_its_time_is_killed_and_its_output_kept(self):
        began = time.monotonic()
        with self.assertRaisesRegex(guest.CommandTimeout, "early"):
            self.host.run("echo early; sleep 1000", timeout=1)
        self.assertLess(time.monotonic() - began, 500)
        self.host.check("while pidof sleep; do usleep 10000; done", timeout=10)     # it dies when it is next scheduled

    def test_commands_run_side_by_side(self):
        slow = self.host.start("sleep 1; echo slow")
        self.assertEqual(self.host.run("echo quick"), (0, "quick\n"))
        self.assertFalse(self.host.is_done(slow))
        self.assertEqual(self.host.wait(slow), (0, "slow\n"))

    def test_a_background_process_does_not_delay_the_reply(self):
        began = time.monotonic()
        self.assertEqual(self.host.run("sleep 1000 & echo done"), (0, "done\n"))
        self.assertLess(time.monotonic() - began, 500)
        self.host.check("killall -9 sleep")     # other cases run in the same guest

    def test_dmesg_new_gives_each_line_once(self):
        self.host.dmesg_new()
        self.host.check("echo fathom was here > /dev/kmsg")
        self.assertRegex("\n".join(self.host.dmesg_new()), "fathom was here")
        self.assertNotRegex("\n".join(self.host.dmesg_new()), "fathom was here")
        self.assertRegex("\n".join(self.host.dmesg()), "(?s)Linux version .*fathom was here")


class TestGuestDies(unittest.TestCase):
    """The errors after the guest has died."""

    def test_a_panic_is_reported_with_the_console(self):
        try:
            host = guest.boot()
        except kernel.Missing as missing:
            self.skipTest(str(missing))
        with host:
            with self.assertRaisesRegex(guest.GuestDied, "Kernel panic"):
                host.run("echo c > /proc/sysrq-trigger; sleep 10")


class TestMissing(unittest.TestCase):
    """Each missing part of a machine is named."""

    def test_missing_qemu_is_named(self):
        linux = mock.Mock(image="vmlinuz")
        with mock.patch("shutil.which", return_value=None):
            with self.assertRaisesRegex(kernel.Missing, "qemu-system-x86_64 not found .*package qemu-system-x86"):
                guest.qemu_command(linux, "archive", "tcg", shell=False)

    def test_a_missing_kernel_package_is_named(self):
        with tempfile.TemporaryDirectory() as empty:
            with mock.patch("kernel.CACHE", pathlib.Path(empty)), mock.patch("kernel.META_PACKAGE", "no-such-kernel"):
                with self.assertRaisesRegex(kernel.Missing, "no guest kernel.*no-such-kernel"):
                    kernel.get()

    def test_a_missing_module_is_named(self):
        try:
            linux = kernel.get()
        except kernel.Missing as missing:
            self.skipTest(str(missing))
        with self.assertRaisesRegex(kernel.Missing, "has no module no_such"):
            linux.module_closure(["no-such"])

    def test_a_missing_engine_is_named(self):
        with mock.patch.dict(os.environ, FATHOM_BIN="/nonexistent"):
            with self.assertRaisesRegex(kernel.Missing, "/nonexistent/fathom-engine not found"):
                targets.engine_binaries()


class TestVerifyIo(unittest.TestCase):
    """verify_io finds no error on a good disk, and names each kind of wrong block."""

    CELLS = 1024

    @classmethod
    def setUpClass(cls):
        cls.host = booted()
        if cls.host.run("modprobe brd rd_nr=1 rd_size=16384")[0] != 0:
            raise unittest.SkipTest("the guest's kernel has no brd")

    def setUp(self):
        self.host.check("rm -f /tmp/ledger")
        self.write(seed=1)

    def write(self, seed):
        acked = in_flight = 0
        for _ in range(20):     # an emulated processor on a busy machine is slow
            counts = scenarios.verify_counts(self.host.check(
                f"verify_io run /dev/ram0 /tmp/ledger --cells {self.CELLS} --depth 64 --seed {seed} --seconds 1"))
            acked += counts["writes_acked"]
            in_flight = max(in_flight, counts["in_flight_max"])
            if acked > 2 * self.CELLS and in_flight >= 32:
                return
        self.fail(f"{acked} writes, {in_flight} at once: too few")

    def check_finds(self, wrong_byte, words):
        status, output = self.host.run("verify_io check /dev/ram0 /tmp/ledger")
        self.assertEqual(status, 1, output)
        self.assertRegex(output, rf"WRONG byte {wrong_byte}: {words}")
        self.assertEqual({int(byte) // 4096 for byte in re.findall(r"WRONG byte (\d+)", output)}, {wrong_byte // 4096})

    def test_a_good_disk_has_no_errors(self):
        self.assertEqual(self.host.run("verify_io check /dev/ram0 /tmp/ledger")[0], 0)

    def test_ledger_outlives_a_killed_writer(self):
        job = self.host.start("verify_io run /dev/ram0 /tmp/ledger --cells 1024 --depth 64 --seed 3")
        time.sleep(0.5)
        self.host.check("killall -9 verify_io")
        self.assertEqual(self.host.wait(job)[0], 137)
        self.assertEqual(self.host.run("verify_io check /dev/ram0 /tmp/ledger")[0], 0)

    def test_a_stale_block_is_detected(self):
        self.host.check("dd if=/dev/ram0 of=/tmp/old bs=4k skip=100 count=1 2>/dev/null")
        self.write(seed=2)
        self.host.check("dd if=/tmp/old of=/dev/ram0 bs=4k seek=100 oflag=direct 2>/dev/null")
        self.check_finds(100 * 4096, "stale, generation ")

    def test_a_torn_block_is_detected(self):
        self.host.check("dd if=/dev/ram0 of=/tmp/old bs=512 skip=807 count=1 2>/dev/null")
        self.write(seed=2)
        self.host.check("dd if=/tmp/old of=/dev/ram0 bs=512 seek=807 2>/dev/null && sync")
        self.check_finds(807 * 512, "stale, generation ")

    def test_a_flipped_bit_is_detected(self):
        self.host.check("""dd if=/dev/ram0 of=/tmp/one bs=1 skip=410000 count=1 2>/dev/null
            printf "\\\\$(printf %o $((0x$(xxd -p /tmp/one) ^ 1)))" |
            dd of=/dev/ram0 bs=1 seek=410000 2>/dev/null; sync""")
        self.check_finds(410000 // 512 * 512, "corrupted, generation ")

    def test_a_misdirected_block_is_detected(self):
        self.host.check("dd if=/dev/ram0 of=/dev/ram0 bs=4k skip=7 seek=9 count=1 conv=notrunc 2>/dev/null; sync")
        self.check_finds(9 * 4096, f"(misdirected, for byte {7 * 4096}|stale|never written)")

    def test_a_lost_block_is_detected(self):
        self.host.check("dd if=/dev/zero of=/dev/ram0 bs=4k seek=50 count=1 2>/dev/null; sync")
        self.check_finds(50 * 4096, "not ours, begins with 0000000000000000")

    def test_a_failed_write_may_be_stored_or_not(self):
        if self.host.run("modprobe null_blk nr_devices=0")[0] != 0:
            self.skipTest("the guest's kernel has no null_blk")
        self.host.check("""set -e
            [ -d /sys/kernel/config/nullb ] || mount -t configfs config /sys/kernel/config
            mkdir /sys/kernel/config/nullb/nullb0 && cd /sys/kernel/config/nullb/nullb0
            echo 1 > memory_backed; echo 16 > size; echo 4096 > blocksize; echo 1 > power
            verify_io run /dev/nullb0 /tmp/ledger2 --cells 1024 --depth 64 --seed 1 --seconds 1
            echo +800-899 > badblocks""")
        status, output = self.host.run(
            "verify_io run /dev/nullb0 /tmp/ledger2 --cells 1024 --depth 64 --seed 2 --seconds 1")
        self.assertEqual(status, 3, output)
        self.assertRegex(output, "FAILED write of [0-9]+ cells at byte [0-9]+: Input/output error")
        self.host.check("echo -800-899 > /sys/kernel/config/nullb/nullb0/badblocks")
        self.host.check("verify_io check /dev/nullb0 /tmp/ledger2")


if __name__ == "__main__":
    unittest.main()
