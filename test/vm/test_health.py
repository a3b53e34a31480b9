#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
A server in the guest, with an engine on QEMU's NVMe device: the device is formatted by the helper, and its health is read, by `fathom` in
the guest, and by DAOS's `dmg` on this machine, if it is in the PATH. Drives are plugged and unplugged while the engine runs.

QEMU's device has no firmware commands, which is refused; it counts no media errors, and never hangs. For these a library stands in at the
helper's ioctl() (nvme_stand_in.c), in a second guest.
"""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.request

import guest
import kernel
import targets

MIB = 1 << 20
DISK_BYTES = 400 * MIB
SLOW_SECONDS = 100
PORT, METRICS_PORT = 10001, 9191
SERIAL = "fathom-test-nvme0"
DMG = shutil.which("dmg")
HELPER_CONF = "mounts /srv\ndevice nvme*\nfirmware /etc/fathom/firmware\n"
SERVER_YML = """name: fathom
port: 10001
control_iface: eth0
mgmt_svc_replicas: [10.0.2.15]
transport_config:
  allow_insecure: true
socket_dir: /run/fathom
state_dir: /tmp/state
control_log_file: /tmp/server.log
telemetry_port: 9191
telemetry_address: 10.0.2.15
health_interval: 1s
engines:
- storage:
  - class: nvme
    bdev_list: [/dev/nvme0n1]
    scm_mount: /srv/engine0
"""


def serial_of(device):
    return f"fathom-test-{device}"


class Monitor:
    """QEMU's monitor."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(path))
        self.lines = self.socket.makefile("r")
        self.lines.readline()
        self.call("qmp_capabilities")

    def call(self, command, **arguments):
        self.socket.sendall(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        while "return" not in (said := json.loads(self.lines.readline())):
            if "error" in said:
                raise AssertionError(said)
        return said["return"]

    def close(self):
        self.lines.close()
        self.socket.close()


class HealthTest(unittest.TestCase):
    """A guest with a server. Its drives are `drives`: {id: (the file's name, the hot-plug slot's number)}; one slot more is empty."""
    drives = {"nvme0": ("disk", 7)}
    stand_in = False

    @classmethod
    def fill_folder(cls, folder):
        (folder / "etc/firmware").mkdir(parents=True)
        (folder / "etc/firmware/image").write_bytes(os.urandom(64 << 10))
        (folder / "etc/firmware/odd").write_bytes(b"odd")
        (folder / "etc/firmware/bad").write_bytes(b"BAD!" * 1024)
        (folder / "etc/helper.conf").write_text(HELPER_CONF)
        (folder / "etc/server.yml").write_text(SERVER_YML)
        (folder / "etc/control.yml").write_text("name: fathom\nhostlist: [10.0.2.15]\ntransport_config:\n  allow_insecure: true\n")
        if cls.stand_in:
            subprocess.run([kernel.need_program("gcc", "gcc"), "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", folder / "etc/stand_in.so",
                            pathlib.Path(__file__).with_name("nvme_stand_in.c")], check=True)
        for path in (folder / "etc").rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)

    @classmethod
    def qemu_words(cls, folder):
        """The slots have lamps, which the kernel drives, not ACPI."""
        words = ["-global", "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off", "-qmp", f"unix:{folder}/qmp,server=on,wait=off"]
        slots = [slot for _, slot in cls.drives.values()]
        for slot in [*slots, max(slots) + 1]:
            words += ["-device", f"pcie-root-port,id=port{slot},chassis={slot},slot={slot}"]
        for name in ("disk", "other"):
            with open(folder / name, "wb") as file:
                file.truncate(DISK_BYTES)
            words += ["-drive", f"file={folder}/{name},format=raw,if=none,id={name}"]
        for device, (name, slot) in cls.drives.items():
            words += ["-device", f"nvme,serial={serial_of(device)},drive={name},id={device},bus=port{slot}"]
        return words

    @classmethod
    def setUpClass(cls):
        try:
            programs = [*targets.engine_binaries()]
            programs += [programs[0].with_name(name) for name in ("fathom-server", "fathom-helper")]
            programs.append(kernel.need_program("mkfs.xfs", "xfsprogs"))
            directory = tempfile.TemporaryDirectory(prefix="fathom-health-")
            cls.addClassCleanup(directory.cleanup)
            folder = pathlib.Path(directory.name)
            cls.fill_folder(folder)
            cls.port, cls.metrics = targets.free_port(), targets.free_port()
            cls.host = guest.boot(programs, 1024, {"etc/fathom": folder / "etc"}, guest.Devices(ports={cls.port: PORT, cls.metrics: METRICS_PORT}), words=cls.qemu_words(folder))
        except kernel.Missing as missing:
            raise unittest.SkipTest(str(missing)) from None
        cls.addClassCleanup(cls.host.close)
        cls.monitor = Monitor(folder / "qmp")
        cls.addClassCleanup(cls.monitor.close)
        cls.host.check("modprobe xfs; cp /usr/bin/mkfs.xfs /usr/sbin/; mkdir -p /srv /dev/shm /var/tmp /run/fathom /tmp/state /etc/daos; "
                       "chmod 755 /srv /usr/bin/fathom-helper; mount -t tmpfs shm /dev/shm; ls -l /dev/nvme0n1", SLOW_SECONDS)
        if cls.stand_in:
            cls.host.check("echo /etc/fathom/stand_in.so > /etc/ld.so.preload; : > /tmp/stand_in")
        cls.host.check("fathom-server start -o /etc/fathom/server.yml >/tmp/server.out 2>&1 &")
        cls.wait_for("fathom -o /etc/fathom/control.yml server query", "the server answers")

    @classmethod
    def wait_for(cls, command, what):
        limit = time.monotonic() + SLOW_SECONDS
        while True:
            status, output = cls.host.run(command, SLOW_SECONDS)
            if status == 0:
                return output
            if time.monotonic() > limit:
                raise AssertionError(f"{what}: {output}\n{cls.host.run('cat /tmp/server.out /tmp/server.log')[1]}")
            time.sleep(0.3)

    def fathom(self, *words, status=0):
        """The output of `fathom`, which ends with `status`; None: any."""
        done, output = self.host.run("fathom -o /etc/fathom/control.yml " + " ".join(words), SLOW_SECONDS)
        if status is not None:
            self.assertEqual(done, status, output)
        return output

    def health(self, status=0):
        said = self.fathom("storage", "query", "device-health", "--json", status=status)
        said = json.loads(said[said.index("{"):said.rindex("}") + 1])       # standard error is in it
        return next(iter(said["response"]["HostHealth"].values()))["health"]["devices"]

    def figures(self):
        """The metrics of the guest, which this machine reads: {name and labels: value}."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}/metrics", timeout=SLOW_SECONDS) as answer:
            lines = [line for line in answer.read().decode().splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    def wait_for_state(self, state, serial=serial_of("nvme0")):
        """The device with that serial number, when it has the state; None: when it is not on the list."""
        limit = time.monotonic() + SLOW_SECONDS
        while True:
            devices = [device for device in self.health(status=None) if device["serial"] == serial]
            if not devices and state is None:
                return None
            if devices and devices[-1]["state"] == state:
                return devices[-1]
            self.assertLess(time.monotonic(), limit, devices)
            time.sleep(0.2)

    def wait_for_finding(self, name, *words):
        """`fathom doctor` has a finding of this name, whose text has the words."""
        limit = time.monotonic() + SLOW_SECONDS
        while True:
            said = self.host.run("fathom doctor --json --server /etc/fathom/server.yml 2>/dev/null", SLOW_SECONDS)[1]
            found = [row["says"] for row in json.loads(said)["findings"] if row["name"] == name]
            if any(all(word in says for word in words) for says in found):
                return
            self.assertLess(time.monotonic(), limit, said)

    def wait_for_event(self, *words):
        """The line of the server's log with the words."""
        def found():
            lines = [line for line in self.host.check("cat /tmp/server.log").splitlines() if all(word in line for word in words)]
            return lines[-1] if lines else None
        limit = time.monotonic() + SLOW_SECONDS
        while not found():
            self.assertLess(time.monotonic(), limit, (words, self.host.check("cat /tmp/server.log")))
            time.sleep(0.3)
        return found()


class TestHealth(HealthTest):
    """The health of an NVMe device of an engine."""

    def test_an_engine_on_the_device_reports_its_health(self):
        self.fathom("storage", "format")
        device = self.wait_for_state("ok")          # a slow guest may not have read it at once
        self.assertEqual({key: device[key] for key in ("path", "class", "serial", "state", "instances")},
                         {"path": "/dev/nvme0n1", "class": "nvme", "serial": SERIAL, "state": "ok", "instances": [0]})
        self.assertEqual((device["temperature_k"], device["warning_k"]), (323, 343))     # of QEMU
        self.assertEqual([slot["active"] for slot in device["slots"]], [True])
        self.assertFalse(device["can_update"])
        self.assertGreater(device["read_bytes"], 0)
        self.assertIn("Temperature:323K(49.85C)", self.fathom("storage", "query", "device-health", SERIAL, status=None))
        self.assertIn("Temperature:323K(49.85C)", self.fathom("storage", "scan", "--nvme-health"))
        said = self.fathom("storage", "query", "list-devices", "--health")
        self.assertIn("TrAddr:0000:", said)
        self.assertIn("Media Errors:0", said)
        refused = self.fathom("firmware", "update", SERIAL, "--file", "/etc/fathom/firmware/image", status=1)
        self.assertIn("code = 173 ", refused)       # its storage is mounted
        figures, label = self.figures(), 'device="/dev/nvme0n1"'
        self.assertEqual(figures[f'fathom_device_state{{{label},state="ok"}}'], 1)
        self.assertEqual(figures[f"fathom_device_temperature_celsius{{{label}}}"], 50)
        self.assertEqual(figures[f"fathom_nvme_commands_media_errs_total{{{label}}}"], 0)
        self.assertEqual(figures[f"fathom_nvme_reliability_percentage_used{{{label}}}"], 0)
        self.assertEqual(figures[f'fathom_device_condition{{{label},condition="read-only"}}'], 0)
        self.assertGreater(figures[f"fathom_nvme_commands_read_bytes_total{{{label}}}"], 0)
        self.assertIn(f'serial="{SERIAL}"', next(name for name in figures if name.startswith("fathom_device_info")))
        self.assertEqual(sum(label in name for name in figures), 19)     # as docs/metrics.md says

    def test_a_critical_warning_is_an_event_and_so_is_its_end(self):
        self.monitor.call("qom-set", path="/machine/peripheral/nvme0", property="smart_critical_warning", value=0b11101)
        device = self.wait_for_state("warning")
        self.assertEqual({one["name"] for one in device["conditions"]}, {"spare-low", "unreliable", "read-only", "backup-failed"})
        self.assertGreater(device["since_ns"], 0)
        self.assertIn("its medium takes no writes any more", self.fathom("storage", "query", "device-health", status=1))
        self.assertTrue(device["health_stats"]["read_only_warn"])
        figures, label = self.figures(), 'device="/dev/nvme0n1"'
        self.assertEqual(figures[f'fathom_device_state{{{label},state="warning"}}'], 1)
        self.assertEqual(figures[f'fathom_device_condition{{{label},condition="read-only"}}'], 1)
        self.assertEqual(figures['fathom_health_check{code="device_warning",severity="degraded",muted="no"}'], 1)
        self.wait_for_finding("drive_unhealthy", "/dev/nvme0n1", "its medium takes no writes any more")
        self.monitor.call("qom-set", path="/machine/peripheral/nvme0", property="smart_critical_warning", value=0)
        self.wait_for_state("ok")
        for name in ("spare-low", "unreliable", "read-only", "backup-failed"):
            self.wait_for_event("id: [device_recovered]", f"no longer {name}")
        self.wait_for_event("id: [device_warning]", "its medium takes no writes any more")

    def test_a_temperature_above_the_devices_threshold_is_an_event(self):
        self.host.check("nvme set-feature /dev/nvme0 --feature-id=4 --value=320")       # Kelvin; the device has 323
        device = self.wait_for_state("warning")
        self.assertEqual([one["name"] for one in device["conditions"]], ["hot"])
        self.assertTrue(device["health_stats"]["temp_warn"])
        self.host.check("nvme set-feature /dev/nvme0 --feature-id=4 --value=343")
        self.wait_for_state("ok")
        self.wait_for_event("id: [device_warning]", "/dev/nvme0n1")
        self.wait_for_event("id: [device_recovered]", "no longer hot")

    def test_the_lamp_of_a_hot_plug_slot_is_switched(self):
        self.assertIn("LED:off", self.fathom("storage", "led", "check", SERIAL))
        self.assertIn("LED:on", self.fathom("storage", "led", "identify", "/dev/nvme0n1"))
        self.assertEqual(self.host.check("cat /sys/bus/pci/slots/7/attention").strip(), "1")
        self.assertIn("LED:on", self.fathom("storage", "led", "check", SERIAL))
        self.assertIn("LED:off", self.fathom("storage", "led", "reset", SERIAL))
        self.assertEqual(self.host.check("cat /sys/bus/pci/slots/7/attention").strip(), "0")
        self.assertIn("code = 175", self.fathom("storage", "led", "check", "/dev/no", status=1))
        self.wait_for_event("id: [device_led_set]", "the lamp of /dev/nvme0n1 was switched on")

    def test_firmware_is_shown_and_an_update_is_refused(self):
        self.assertIn("1: 1.0, active", self.fathom("firmware", "query", SERIAL))
        image = "/etc/fathom/firmware/image"
        for code, words in ((170, [SERIAL, "--force", "--file", image]),                # QEMU's device has no commands for firmware
                            (171, [SERIAL, "--force", "--file", image + "2"]),
                            (171, [SERIAL, "--force", "--file", "/etc/fathom/firmware/odd"]),
                            (175, ["/dev/no", "--file", image])):
            self.assertIn(f"code = {code} ", self.fathom("firmware", "update", *words, status=1), words)
        self.assertIn("is in no folder of the helper's list", self.fathom("firmware", "update", SERIAL, "--file", "/etc/passwd", status=1))
        self.host.check(f"chmod 666 {image}")
        self.assertIn("other users than root can change it", self.fathom("firmware", "update", SERIAL, "--force", "--file", image, status=1))
        self.host.check(f"chmod 644 {image}; ln -s image /etc/fathom/firmware/link")
        self.assertIn("code = 171 ", self.fathom("firmware", "update", SERIAL, "--force", "--file", "/etc/fathom/firmware/link", status=1))

    def dmg(self, *words, status=0):
        done = subprocess.run([DMG, "-i", *words, "-l", f"127.0.0.1:{self.port}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=SLOW_SECONDS, check=False)
        self.assertEqual(done.returncode, status, done.stdout)
        return done.stdout

    @unittest.skipUnless(DMG, "dmg is not in the PATH")
    def test_dmg_shows_the_health_as_fathom_does(self):
        self.fathom("storage", "format", status=None)       # unless it is formatted
        for words in (["storage", "scan", "--nvme-health"], ["storage", "query", "list-devices", "--health"]):
            theirs, ours = ([line for line in text.splitlines()[3:] if "Lifetime Percent Used" not in line]     # an older dmg lacks this line
                            for text in (self.dmg(*words), self.fathom(*words)))
            self.assertIn("Temperature:323K(49.85C)", "\n".join(theirs))
            self.assertEqual(theirs, ours)     # without the host's address

    @unittest.skipUnless(DMG, "dmg is not in the PATH")
    def test_dmg_switches_the_lamp(self):
        address = self.host.check("ls /sys/bus/pci/drivers/nvme | grep :").strip()
        for words, state, attention in ((["check"], "OFF", 0), (["identify", address], "QUICK_BLINK", 1), (["check", address], "QUICK_BLINK", 1),
                                        (["identify", "--reset"], "OFF", 0), (["identify", "--timeout", "60"], "QUICK_BLINK", 1),
                                        (["identify", "--reset", address], "OFF", 0)):
            self.assertIn(f"TrAddr:{address} NSID:1", said := self.dmg("storage", "led", *words))
            self.assertIn(f"LED:{state}", said)
            self.assertEqual(self.host.check("cat /sys/bus/pci/slots/7/attention").strip(), str(attention), words)
        self.assertIn('this host has no device "0000:99:00.0"', self.dmg("storage", "led", "check", "0000:99:00.0", status=1))

    def test_unplugged_drives_are_gone_and_plugged_ones_are_back(self):
        self.fathom("storage", "format", status=None)       # unless it is formatted
        self.wait_for("fathom -o /etc/fathom/control.yml system query | grep Joined", "the engine has joined")
        other = serial_of("nvme1")
        plug = {"driver": "nvme", "bus": "port8", "id": "nvme1", "serial": other, "drive": "other"}
        self.monitor.call("device_add", **plug)
        device = self.wait_for_state("ok", other)
        self.assertFalse(device["instances"])
        self.wait_for_event("id: [device_plugged]", f"{device['path']} was added: ", other)
        self.monitor.call("device_del", id="nvme1")
        self.wait_for_state(None, other)
        self.wait_for_event("id: [device_unplugged]", f"{device['path']} was removed: ", other)
        self.monitor.call("device_del", id="nvme0")
        device = self.wait_for_state("gone")
        self.assertEqual((device["instances"], device["reason"]), ([0], "the device is not in this host any more"))
        self.wait_for_event("id: [device_unplugged]", f"{device['path']} was removed: ", "; an engine here uses it")
        self.wait_for_finding("drive_gone", device["path"], "below engine 0")
        self.fathom("network", "scan")          # the server goes on


class WithStandIn(HealthTest):
    """What QEMU's device cannot do. The helper, its confinement and the server are the real ones."""
    drives = {"nvme0": ("disk", 7), "nvme1": ("other", 8)}
    stand_in = True

    def order(self, line):
        self.host.check(f"printf '{line}\\n' | dd of=/tmp/stand_in conv=notrunc 2>/dev/null")

    def tearDown(self):
        self.order("none" + " " * 40)

    def test_firmware_is_stored_and_active_after_a_reset(self):
        serial = serial_of("nvme0")
        self.assertIn("1: 1.0, active", self.fathom("firmware", "query", serial))
        said = self.fathom("firmware", "update", serial, "--file", "/etc/fathom/firmware/image", "--slot", "2")
        self.assertIn("the firmware is stored, and active after a power cycle of the host", said)
        self.host.check("cmp -n 65536 /tmp/stand_in.flash /etc/fathom/firmware/image")
        self.wait_for_event("id: [firmware_updated]", self.path_of("nvme0"))
        self.wait_for("fathom -o /etc/fathom/control.yml firmware query | grep '2: NEW 2.0, active after the next reset'", "the slot is shown")
        self.assertIn("code = 172 ", self.fathom("firmware", "update", serial, "--file", "/etc/fathom/firmware/bad", status=1))
        self.assertIn("code = 170 ", self.fathom("firmware", "update", serial, "--file", "/etc/fathom/firmware/image", "--slot", "4", status=1))

    def test_media_errors_and_few_spare_blocks_are_events(self):
        self.order("errors 5")
        self.wait_for_event("id: [device_media_error]", "5 media errors, 5 more than before")
        self.order("spare 4 ")
        self.assertEqual([one["name"] for one in self.wait_for_state("warning")["conditions"]], ["spare-low"])
        self.wait_for_event("id: [device_warning]", "4 %")

    def path_of(self, device):
        """The kernel numbers drives as it finds them."""
        return next(row["path"] for row in self.health(status=None) if row["serial"] == serial_of(device))

    def test_a_drive_that_hangs_delays_no_other_and_is_named(self):
        path = self.path_of("nvme1")
        self.wait_for_state("ok", serial_of("nvme1"))
        self.order("hang " + serial_of("nvme1"))
        hung = self.wait_for_state("unread", serial_of("nvme1"))       # the helper has killed its child after 5 s
        self.assertIn(f"health of {path}", hung["reason"])
        self.wait_for_event("id: [device_health_unread]", f"health of {path}")
        self.wait_for_finding("drive_unread", path)
        read = self.wait_for_state("ok")["read_ns"]
        limit = time.monotonic() + SLOW_SECONDS
        while self.wait_for_state("ok")["read_ns"] == read:             # the other is read again and again
            self.assertLess(time.monotonic(), limit)
        self.fathom("storage", "led", "check", serial_of("nvme1"))
        self.fathom("network", "scan")
        self.order("none" + " " * 40)
        self.wait_for_state("ok", serial_of("nvme1"))
        self.wait_for_event("id: [device_recovered]", f"{path}: its health can be read again")

    def test_a_helper_that_is_stopped_is_replaced(self):
        before = self.host.check("for pid in $(pidof fathom-helper); do grep -q \"^PPid:.$(pidof fathom-server)$\" /proc/$pid/status && "
                                 "echo $pid; done; :").split()[0]     # not one of its children
        self.host.check(f"kill -STOP {before}")
        self.fathom("network", "scan")
        refused = self.fathom("storage", "led", "check", serial_of("nvme0"), status=1)
        self.assertRegex(refused, "code = 5[01] ")
        self.fathom("network", "scan")
        self.wait_for(f"test ! -d /proc/{before}", "the server killed the helper")
        self.wait_for(f"fathom -o /etc/fathom/control.yml storage led check {serial_of('nvme0')}", "another helper answers")


if __name__ == "__main__":
    unittest.main()
