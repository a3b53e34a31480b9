#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
A client host that is a whole Debian: systemd starts the installed fathom-agent, udev names its volumes, a file system on one is in /etc/fstab. After
a reboot the volume is attached and mounted, without anything typed. Server and engine run outside (relayed.py).
"""

import os
import pathlib
import re
import shutil
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import guest                            # noqa: E402
import kernel                           # noqa: E402
import system_disk                      # noqa: E402
from relayed import BIN, HOST_NQN, LINK, RelayedSystem  # noqa: E402

MEMORY_MB = 768
SECONDS = 240                           # emulated, beside other tests


class Reboot(RelayedSystem):
    def setUp(self):
        super().setUp()
        place = tempfile.mkdtemp(prefix="fathom-reboot-", dir="/var/tmp")
        self.addCleanup(shutil.rmtree, place, ignore_errors=True)
        try:
            self.disk = system_disk.make(os.path.dirname(BIN), place, {"/etc/nvme/hostnqn": HOST_NQN + "\n",
                                                                       "/etc/fathom/fathom_agent.yml": self.agent_configuration,
                                                                       "/etc/fstab": "/dev/vda / ext4 defaults 0 1\n"})
        except kernel.Missing as missing:
            self.skipTest(str(missing))
        self.host = None
        self.addCleanup(lambda: self.host and self.host.close())

    def boot(self):
        self.host = guest.boot(memory_mb=MEMORY_MB, devices=guest.Devices(system=self.disk))

    def reboot(self):
        """As an operator does. QEMU ends instead of starting again (-no-reboot)."""
        self.host.start("systemctl reboot", SECONDS)
        self.host.wait_for_end(SECONDS)
        self.host.close()
        self.boot()

    def wait_in_guest(self, command):
        end = time.monotonic() + SECONDS
        while self.host.run(command, SECONDS)[0] != 0:
            if time.monotonic() > end:
                self.fail(f"{command}: {self.host.run('journalctl -b -u fathom-agent --no-pager; systemctl --failed; ls -lR /dev/fathom', SECONDS)[1]}")
            time.sleep(0.5)

    def test_a_volume_in_fstab_is_attached_and_mounted_after_a_reboot(self):
        self.boot()
        self.wait_in_guest("systemctl is-active fathom-agent")
        self.assertEqual(self.host.check("fathom volume attach p1/db", SECONDS).strip(), LINK)
        with self.subTest("udev made the name, not the agent"):
            self.assertIn("fathom/p1/db", self.host.check(f"udevadm info --query symlink $(readlink -f {LINK})"))
        self.host.check(f"mke2fs -q -t ext4 {LINK} && mkdir /data && echo '{LINK} /data ext4 _netdev 0 2' >> /etc/fstab && mount /data", SECONDS)
        self.host.check("echo kept > /data/file && sync", SECONDS)
        self.reboot()
        self.wait_in_guest("[ \"$(cat /data/file)\" = kept ]")
        self.wait_in_guest("fathom-agent attachments | grep -q 'p1/db *attached'")
        self.assertIn(f"{LINK} /data ext4", self.host.check("findmnt -rn --fstab -o SOURCE,TARGET,FSTYPE /data"))
        with self.subTest("a detached volume does not come back"):
            self.host.check("umount /data && sed -i '\\,/data,d' /etc/fstab && fathom volume detach p1/db", SECONDS)
            self.reboot()
            self.wait_in_guest("systemctl is-active fathom-agent")
            self.assertNotIn("p1/db", self.host.check("fathom-agent attachments", SECONDS))
            self.host.check(f"[ ! -e {LINK} ]")
        with self.subTest("a volume that was connected by hand before gets its name"):
            said = self.one.fathom("volume", "publish", "p1/db", HOST_NQN).stdout
            typed = re.search(r"nvme connect .*", said)[0]
            self.host.check(typed.replace("127.0.0.1", guest.HOST_ADDRESS), SECONDS)
            self.wait_in_guest("[ -b /dev/nvme0n1 ] && udevadm settle")
            self.host.check("fathom volume attach p1/db", SECONDS)
            self.wait_in_guest(f"[ -b {LINK} ]")


if __name__ == "__main__":
    unittest.main()
