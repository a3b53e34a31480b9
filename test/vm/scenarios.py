# SPDX-License-Identifier: BSD-2-Clause
"""Tests of a Linux host with any NVMe/TCP target of targets.py.

A test class has one guest; each test has a fresh target and, at its end, a disconnected host whose kernel log held
nothing unexpected.
"""

import json
import random
import re
import sys
import time
import unittest

import guest
import kernel

HOSTNQN = "nqn.2014-08.org.nvmexpress:uuid:2cd2c43b-a90a-45c1-a8cd-86b33ab273b5"
HOSTID = "2cd2c43b-a90a-45c1-a8cd-86b33ab273b5"
MIB = 1 << 20
WAIT_S = 30
DIGESTS = "--hdr-digest --data-digest"

VERIFY_CELLS = 4096             # of 4 KiB
VERIFY_DEPTH = 64
CRASHES = 5
CRASH_PROGRESS = 300            # writes that must be acknowledged before a crash, and again after it
CRASH_CONNECT = "--reconnect-delay=1 --ctrl-loss-tmo=120 --keep-alive-tmo=60"     # an emulated guest may pause for many seconds

# Messages of the guest's kernel that are allowed in all tests, with the reason. Any other fails the test.
EXPECTED_DMESG = [
    (r"nvme nvme\d+: new ctrl: ", "connected"),
    (r"nvme nvme\d+: creating \d+ I/O queues", "connected"),
    (r"nvme nvme\d+: mapped \d+/\d+/\d+ default/read/poll queues", "connected"),
    (r"nvme nvme\d+: Removing ctrl: ", "disconnected"),
    (r"nvme nvme\d+: rescanning namespaces", "a namespace came or went, or we asked for it"),
    (r"nvme nvme\d+: resetting controller", "we asked for it"),
    (r"EXT4-fs \(nvme\w+\): (mounted|unmounting) filesystem", "we asked for it"),
    (r"(nvmet|nvmet_tcp|loop|brd): ", "the guest's own target, or a module, is loaded and used"),
    (r"clocksource: |tsc: |hrtimer: interrupt took|sched: ", "an emulated CPU on a busy machine"),
    (r"random: crng|kauditd|IPv6: ADDRCONF|link becomes ready", "of the machine, not of storage"),
    (r"drop_caches: 3", "we asked for it"),
]
# Messages also allowed when the target dies and restarts.
EXPECTED_AFTER_CRASH = [
    (r"nvme nvme\d+: starting error recovery", "the connection broke"),
    (r"nvme nvme\d+: Reconnecting in \d+ seconds", "as told by --reconnect-delay"),
    (r"nvme nvme\d+: failed to send request -(32|104)", "broken while the host was sending"),
    (r"nvme nvme\d+: receive failed:\s+-104", "broken while the host was receiving"),
    (r"nvme nvme\d+: unsupported pdu type \(0\)", "Linux 6.1 reads an ICResp that arrives in two pieces only in part, and the rest is zeroes"),
    (r"nvme nvme\d+: receive failed:\s+-22", "the same; it connects again"),
    (r"nvme nvme\d+: queue \d+ socket state 11$", "TCP's CLOSING: both sides closed at once, and the two FINs crossed"),
    (r"nvme nvme\d+: failed to connect socket: -111", "refused: no process listens until the restart"),
    (r"nvme nvme\d+: Failed reconnect attempt \d+", "the same"),
    (r"nvme nvme\d+: Successfully reconnected", "what we want"),
    (r"nvme nvme\d+: failed nvme_keep_alive_end_io", "the keep-alive in flight was cut off"),
    (r"nvme nvme\d+: Property Set error: \d+, offset 0x14", "disabling the controller, with the connection gone"),
    (r"block nvme\w+: no usable path - requeuing I/O", "held until the path is back: no I/O fails"),
    (r"nvme_ns_head_submit_bio: \d+ callbacks suppressed", "more of these lines"),
]


def connect_command(target, options=""):
    return (f"nvme connect -t tcp -a {target.address} -s {target.port} -n {target.nqn} "
            f"--hostnqn={HOSTNQN} --hostid={HOSTID} {options}")


class HostScenarios:
    """Mix into a unittest.TestCase; make_target(guest) gives the target."""

    make_target = None
    host = None
    longMessage = False

    @classmethod
    def setUpClass(cls):
        try:
            cls.check_needs()
            cls.host = cls.boot()
        except kernel.Missing as missing:
            raise unittest.SkipTest(str(missing)) from None
        cls.addClassCleanup(cls.host.close)

    @classmethod
    def boot(cls):
        """A guest for all tests of the class."""
        return guest.boot()

    @classmethod
    def check_needs(cls):
        """Raise kernel.Missing before the boot if the target is not available."""

    def setUp(self):
        self.expected_dmesg = [pattern for pattern, _ in EXPECTED_DMESG]
        self.host.dmesg_new()
        self.target = self.make_target(self.host)
        self.expected_dmesg += [pattern for pattern, _ in self.target.expected_dmesg]
        self.addCleanup(self.check_dmesg)
        self.addCleanup(self.target.stop)
        self.addCleanup(self.keep_story)
        self.addCleanup(self.host.run, "umount /mnt 2>/dev/null; nvme disconnect-all; rm -f /tmp/ledger /tmp/stop", 90)
        self.target.start({"Vol0": 64 * MIB})

    def run(self, result=None):
        """Like unittest's, and add the target's state to a failure."""
        result = result or self.defaultTestResult()
        wrong = len(result.failures) + len(result.errors)
        self.story = ""
        super().run(result)
        if len(result.failures) + len(result.errors) > wrong and self.story:
            sys.stderr.write(f"\n{self.id()}: {self.story}\n")
        return result

    # --- helpers ---

    def keep_story(self):
        self.story = self.target.describe()

    def check_dmesg(self):
        surprises = [line for line in self.host.dmesg_new()
                     if not any(re.search(pattern, line) for pattern in self.expected_dmesg)]
        self.assertFalse(surprises, "unexpected in the guest's kernel log:\n" + "\n".join(surprises))

    def wait_until(self, what, condition, timeout=WAIT_S):
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline:
                self.fail(f"not within {timeout} s: {what}\n{self.target.describe()}\n"
                          + "\n".join(self.host.dmesg()[-15:]))
            time.sleep(0.1)

    def connect(self, options=""):
        """Connect and wait for namespace 1. Return the controller's name ("nvme0")."""
        self.host.check(connect_command(self.target, options), WAIT_S)
        names = self.host.check("ls /sys/class/nvme").split()
        self.assertEqual(len(names), 1, "controllers after connecting")
        self.wait_until("namespace 1 in the guest", lambda: "1" in self.namespaces())
        return names[0]

    def disconnect(self):
        """Disconnect, and assert that the engine has no controller left."""
        output = self.host.check(f"nvme disconnect -n {self.target.nqn}", 60)
        self.assertIn("disconnected 1 controller", output)
        self.wait_until("no controllers in the target", lambda: self.target.controllers() in (0, None))

    def namespaces(self):
        """{NSID: device} of the guest's namespaces. One may vanish during the call."""
        output = self.host.check("""for device in /dev/nvme*n*; do
            nsid=$(cat /sys/block/${device#/dev/}/nsid 2>/dev/null) && [ -n "$nsid" ] && echo $nsid $device; done; true""")
        return dict(re.findall(r"^(\d+) (/dev/\S+)$", output, re.MULTILINE))   # the kernel writes to the same console

    def device(self):
        return self.namespaces()["1"]

    def wait_until_live(self, controller):
        self.wait_until("the controller to live", lambda: self.host.check(
            f"cat /sys/class/nvme/{controller}/state") == "live\n")

    def expect_broken_connection(self):
        self.expected_dmesg += [pattern for pattern, _ in EXPECTED_AFTER_CRASH]

    def nvme_json(self, arguments):
        return json.loads(self.host.check(f"nvme {arguments} --output-format=json"))

    def verify_io(self, arguments, timeout=60):
        status, output = self.host.run(f"verify_io {arguments}", timeout)
        self.assertEqual(status, 0, f"verify_io {arguments}\n{output}\n{self.target.describe()}")
        return verify_counts(output)

    # --- scenarios ---

    def test_discover_names_the_subsystem(self):
        output = self.host.check(f"nvme discover -t tcp -a {self.target.address} -s {self.target.port} "
                                 f"--hostnqn={HOSTNQN} --hostid={HOSTID}")
        self.assertRegex(output, rf"subnqn:\s+{re.escape(self.target.nqn)}\n")
        self.assertRegex(output, r"trtype:\s+tcp\n")
        self.assertRegex(output, r"subtype:\s+nvme subsystem\n")
        self.assertRegex(output, rf"trsvcid:\s+{self.target.port}\s*\n")
        self.wait_until("the discovery controller to go", lambda: self.host.check("ls /sys/class/nvme") == "")

    def test_admin_commands_answer_without_digests(self):
        self.check_admin_commands("")

    def test_admin_commands_answer_with_digests(self):
        self.check_admin_commands(DIGESTS)

    def check_admin_commands(self, options):
        controller = self.connect(options)
        device = self.device()
        identity = self.nvme_json(f"id-ctrl /dev/{controller}")
        self.assertEqual(identity["sn"].strip(), "SPDK00000000000001")
        self.assertEqual(identity["subnqn"], self.target.nqn)
        namespace = self.nvme_json(f"id-ns {device}")
        in_use = namespace["lbafs"][namespace["flbas"] & 0xF]
        self.assertEqual(namespace["nsze"] << in_use["ds"], 64 * MIB)
        self.assertEqual(int(self.host.check(f"blockdev --getsize64 {device}")), 64 * MIB)
        self.assertIn(device, self.host.check("nvme list"))
        self.assertIn(self.target.nqn, self.host.check("nvme list-subsys"))
        self.assertIn("critical_warning", self.nvme_json(f"smart-log /dev/{controller}"))
        self.assertIn("errors", self.nvme_json(f"error-log /dev/{controller} -e 1"))
        # 7: number of queues, which the host itself has set; 0xf: keep-alive timer
        self.assertIn("get-feature:0x07", self.host.check(f"nvme get-feature /dev/{controller} -f 7"))
        self.assertIn("get-feature:0x0f", self.host.check(f"nvme get-feature /dev/{controller} -f 0xf"))
        self.host.check(f"nvme reset /dev/{controller}", 60)
        self.wait_until_live(controller)
        self.host.check(f"nvme ns-rescan /dev/{controller}")
        self.host.check(f"dd if={device} of=/dev/null bs=64k count=16 iflag=direct")
        self.disconnect()

    def test_verified_io_without_digests(self):
        self.check_verified_io("")

    def test_verified_io_with_digests(self):
        self.check_verified_io(DIGESTS)

    def check_verified_io(self, options):
        self.connect(options)
        counts = self.verify_io(f"run {self.device()} /tmp/ledger --cells {VERIFY_CELLS} --depth {VERIFY_DEPTH} "
                                "--seed 1 --seconds 3")
        self.assertGreaterEqual(counts["in_flight_max"], 32)
        self.disconnect()
        self.connect(options)
        self.verify_io(f"check {self.device()} /tmp/ledger")
        self.disconnect()

    def test_filesystem_keeps_its_files(self):
        self.connect()
        device = self.device()
        # otherwise the kernel writes inode tables in the background, which adds blocks to the volume after the trim
        self.host.check(f"mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 {device} && mount {device} /mnt")
        self.host.check("""set -e; cd /mnt; mkdir -p a/b
            for i in 1 2 3 4 5 6 7 8; do dd if=/dev/urandom of=a/$i bs=${i}11k count=3 2>/dev/null; done
            for i in $(seq 200); do echo $i > a/b/$i; done
            find . -type f | sort | xargs sha256sum > /tmp/sums""", 60)
        self.host.check("umount /mnt && echo 3 > /proc/sys/vm/drop_caches")
        self.host.check(f"mount {device} /mnt && cd /mnt && sha256sum -c -s /tmp/sums", 60)
        self.check_trim()
        self.host.check("umount /mnt")
        self.host.check(f"e2fsck -f -n {device}", 60)
        self.disconnect()

    def check_trim(self):
        self.host.check("dd if=/dev/urandom of=/mnt/big bs=1M count=8 2>/dev/null && sync")
        full = self.target.volume_blocks("Vol0")
        self.host.check("rm /mnt/big && sync", 60)

        def are_blocks_given_back():
            self.host.check("fstrim /mnt", 60)      # ext4 may free the blocks only a moment after sync has returned
            return self.target.volume_blocks("Vol0") < full - 6 * MIB // 512
        self.wait_until("fewer blocks of the volume after fstrim", are_blocks_given_back)
        self.host.check("cd /mnt && sha256sum -c -s /tmp/sums", 60)

    def test_namespaces_are_added_and_removed_while_connected(self):
        # the asynchronous event alone must make the host rescan
        self.connect()
        self.target.add_namespace("Vol1", 32 * MIB)
        self.wait_until("namespace 2 to appear", lambda: "2" in self.namespaces())
        device = self.namespaces()["2"]
        self.assertEqual(int(self.host.check(f"blockdev --getsize64 {device}")), 32 * MIB)
        self.host.check(f"dd if=/dev/zero of={device} bs=64k count=16 oflag=direct")
        self.target.remove_namespace("Vol1")
        self.wait_until("namespace 2 to vanish", lambda: "2" not in self.namespaces())
        self.host.check(f"dd if={self.device()} of=/dev/null bs=64k count=16 iflag=direct")
        self.target.add_namespace("Vol2", 16 * MIB)
        self.wait_until("namespace 2 to appear again", lambda: "2" in self.namespaces())
        self.disconnect()

    def test_acknowledged_writes_survive_crashes(self):
        self.expect_broken_connection()
        chance = random.Random(4420)        # the times of the crashes, as far as the test decides them
        self.connect(CRASH_CONNECT)
        for crash in range(CRASHES):
            self.crash_once(crash, chance.uniform(0.0, 0.8))
        self.verify_io(f"check {self.device()} /tmp/ledger")
        # the last crash: all writes acknowledged to the host must be in the file of the dead engine
        job = self.start_verify_io(CRASHES)
        self.wait_for_writes(job, CRASH_PROGRESS)
        self.target.crash()
        self.host.check("killall -9 verify_io")
        status, output = self.target.check_volume("Vol0", "/tmp/ledger")
        self.assertEqual(status, 0, output)
        self.target.restart()
        self.host.wait(job)
        self.disconnect()

    def crash_once(self, crash, delay):
        job = self.start_verify_io(crash)
        self.wait_for_writes(job, CRASH_PROGRESS)
        time.sleep(delay)
        self.target.crash()
        time.sleep(0.3)
        self.target.restart()
        self.wait_for_writes(job, CRASH_PROGRESS)
        self.host.check("touch /tmp/stop")
        status, output = self.host.wait(job)
        self.assertEqual(status, 0, f"verify_io over crash {crash}\n{output}\n{self.target.describe()}")
        self.assertGreaterEqual(verify_counts(output)["in_flight_max"], 32)

    def start_verify_io(self, seed):
        self.host.check("rm -f /tmp/stop")
        job = self.host.start(f"verify_io run {self.device()} /tmp/ledger --cells {VERIFY_CELLS} "
                              f"--depth {VERIFY_DEPTH} --seed {seed} --stop /tmp/stop", 120)
        self.wait_until("the ledger", lambda: self.host.run("[ -s /tmp/ledger ]")[0] == 0)
        return job

    def wait_for_writes(self, job, count):
        """Wait until `count` more writes are acknowledged than now."""
        wanted = self.writes_acked() + count

        def are_enough_acked():
            if self.host.is_done(job):
                self.fail(f"verify_io ended too early\n{self.host.wait(job)}")
            return self.writes_acked() >= wanted
        self.wait_until(f"{count} more acknowledged writes", are_enough_acked)

    def writes_acked(self):
        return verify_counts(self.host.check("verify_io status /tmp/ledger"))["writes_acked"]


def verify_counts(output):
    """The counts in the last line of verify_io's output."""
    return {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", output.splitlines()[-1])}
