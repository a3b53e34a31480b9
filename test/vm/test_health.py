#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
A server in the guest, with an engine on QEMU's NVMe device: the device is formatted by the helper, and its health is read, by `fathom` in
the guest, and by DAOS's `dmg` on this machine, if it is in the PATH. QEMU's device has no firmware commands, which is refused.
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
SERIAL = "fathom-test-1"
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


class TestHealth(unittest.TestCase):
    """The health of an NVMe device of an engine."""

    @classmethod
    def setUpClass(cls):
        try:
            programs = [*targets.engine_binaries()]
            programs += [programs[0].with_name(name) for name in ("fathom-server", "fathom-helper")]
            programs.append(kernel.need_program("mkfs.xfs", "xfsprogs"))
            directory = tempfile.TemporaryDirectory(prefix="fathom-health-")
            cls.addClassCleanup(directory.cleanup)
            folder = pathlib.Path(directory.name)
            (folder / "etc").mkdir()
            (folder / "etc/firmware").mkdir()
            (folder / "etc/firmware/image").write_bytes(os.urandom(64 << 10))
            (folder / "etc/firmware/odd").write_bytes(b"odd")
            (folder / "etc/helper.conf").write_text(HELPER_CONF)
            (folder / "etc/server.yml").write_text(SERVER_YML)
            (folder / "etc/control.yml").write_text("name: fathom\nhostlist: [10.0.2.15]\ntransport_config:\n  allow_insecure: true\n")
            for path in (folder / "etc").rglob("*"):
                path.chmod(0o755 if path.is_dir() else 0o644)
            with open(folder / "disk", "wb") as file:
                file.truncate(DISK_BYTES)
            cls.port, cls.metrics = targets.free_port(), targets.free_port()
            cls.host = guest.boot(programs, 1024, {"etc/fathom": folder / "etc"}, guest.Devices(ports={cls.port: PORT, cls.metrics: METRICS_PORT}), words=[
                "-drive", f"file={folder}/disk,format=raw,if=none,id=health",
                # a hot-plug slot with a lamp, which the kernel drives, not ACPI
                "-global", "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off", "-device", "pcie-root-port,id=port0,chassis=1,slot=7",
                "-device", f"nvme,serial={SERIAL},drive=health,id=nvme0,bus=port0",
                "-qmp", f"unix:{folder}/qmp,server=on,wait=off"])
        except kernel.Missing as missing:
            raise unittest.SkipTest(str(missing)) from None
        cls.addClassCleanup(cls.host.close)
        cls.monitor = Monitor(folder / "qmp")
        cls.addClassCleanup(cls.monitor.close)
        cls.host.check("modprobe xfs; cp /usr/bin/mkfs.xfs /usr/sbin/; mkdir -p /srv /dev/shm /var/tmp /run/fathom /tmp/state /etc/daos; "
                       "chmod 755 /srv /usr/bin/fathom-helper; mount -t tmpfs shm /dev/shm; ls -l /dev/nvme0n1", SLOW_SECONDS)
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

    def wait_for_state(self, state):
        limit = time.monotonic() + SLOW_SECONDS
        while True:
            device, = self.health(status=None)
            if device["state"] == state:
                return device
            self.assertLess(time.monotonic(), limit, device)
            time.sleep(0.2)

    def test_an_engine_on_the_device_reports_its_health(self):
        self.fathom("storage", "format")
        device, = self.health()
        self.assertEqual({key: device[key] for key in ("path", "class", "serial", "state", "instances")},
                         {"path": "/dev/nvme0n1", "class": "nvme", "serial": SERIAL, "state": "ok", "instances": [0]})
        self.assertEqual((device["temperature_k"], device["warning_k"]), (323, 343))     # of QEMU
        self.assertEqual([slot["active"] for slot in device["slots"]], [True])
        self.assertFalse(device["can_update"])
        self.assertGreater(device["read_bytes"], 0)
        self.assertIn("Temperature:323K(49.85C)", self.fathom("storage", "query", "device-health", SERIAL))
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
        self.monitor.call("qom-set", path="/machine/peripheral/nvme0", property="smart_critical_warning", value=8)
        device = self.wait_for_state("warning")
        self.assertEqual([one["name"] for one in device["conditions"]], ["read-only"])
        self.assertGreater(device["since_ns"], 0)
        self.assertIn("its medium takes no writes any more", self.fathom("storage", "query", "device-health", status=1))
        self.assertTrue(device["health_stats"]["read_only_warn"])
        figures, label = self.figures(), 'device="/dev/nvme0n1"'
        self.assertEqual(figures[f'fathom_device_state{{{label},state="warning"}}'], 1)
        self.assertEqual(figures[f'fathom_device_condition{{{label},condition="read-only"}}'], 1)
        self.assertEqual(figures['fathom_health_check{code="device_warning",severity="degraded",muted="no"}'], 1)
        self.monitor.call("qom-set", path="/machine/peripheral/nvme0", property="smart_critical_warning", value=0)
        self.wait_for_state("ok")
        log = self.host.check("cat /tmp/server.log")
        self.assertIn("id: [device_warning]", log)
        self.assertIn("id: [device_recovered]", log)

    def test_the_lamp_of_a_hot_plug_slot_is_switched(self):
        self.assertIn("LED:off", self.fathom("storage", "led", "check", SERIAL))
        self.assertIn("LED:on", self.fathom("storage", "led", "identify", "/dev/nvme0n1"))
        self.assertEqual(self.host.check("cat /sys/bus/pci/slots/7/attention").strip(), "1")
        self.assertIn("LED:on", self.fathom("storage", "led", "check", SERIAL))
        self.assertIn("LED:off", self.fathom("storage", "led", "reset", SERIAL))
        self.assertEqual(self.host.check("cat /sys/bus/pci/slots/7/attention").strip(), "0")
        self.assertIn("code = 175", self.fathom("storage", "led", "check", "/dev/no", status=1))
        self.assertIn("id: [device_led_set]", self.host.check("cat /tmp/server.log"))

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

    @unittest.skipUnless(DMG, "dmg is not in the PATH")
    def test_dmg_shows_the_health_as_fathom_does(self):
        for words in (["storage", "scan", "--nvme-health"],):
            theirs = subprocess.run([DMG, "-i", *words, "-l", f"127.0.0.1:{self.port}"], stdout=subprocess.PIPE, text=True,
                                    timeout=SLOW_SECONDS, check=True)
            self.assertIn("Temperature:323K(49.85C)", theirs.stdout)
            ours = self.fathom(*words)
            self.assertEqual(theirs.stdout.splitlines()[3:], ours.splitlines()[3:])     # without the host's address


if __name__ == "__main__":
    unittest.main()
