#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
A client host with fathom-agent: the guest attaches a volume of a real server and engine, which run outside of it. Data survive kill -9 of engine,
server and agent; a resize is seen. test_reboot.py has systemd, udev and a reboot.
"""

import os
import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import guest                            # noqa: E402
import kernel                           # noqa: E402
from relayed import BIN, HOST_NQN, LINK, RelayedSystem   # noqa: E402

SECONDS = 60
WRITE = f"dd if=/tmp/data of={LINK} bs=64k oflag=direct && sync"
COMPARE = f"dd if={LINK} bs=64k count=16 iflag=direct 2>/dev/null | cmp - /tmp/data"


class TestAgent(RelayedSystem):
    def setUp(self):
        super().setUp()
        try:
            self.guest = guest.boot(programs=[os.path.join(BIN, name) for name in ("fathom-agent", "fathom")])
        except kernel.Missing as missing:
            self.skipTest(str(missing))
        self.addCleanup(self.guest.close)
        self.guest.check("mkdir -p /etc/nvme /etc/fathom /run /var/lib /dev/shm && modprobe nvme-tcp")
        self.guest.check(f"echo {HOST_NQN} > /etc/nvme/hostnqn")
        # what the credential of root needs: the names of this host, its users and its groups
        self.guest.check("hostname client1; echo root:x:0:0:root:/root:/bin/sh > /etc/passwd; echo root:x:0: > /etc/group")
        self.guest.check(f"cat > /etc/fathom/fathom_agent.yml <<'END'\n{self.agent_configuration}END")
        self.guest.check("dd if=/dev/urandom of=/tmp/data bs=64k count=16 2>/dev/null")
        self.start_agent()

    def start_agent(self):
        self.guest.check("(fathom-agent >> /tmp/agent.log 2>&1 & echo $! > /tmp/agent.pid)")
        self.wait_in_guest("[ -S /run/fathom/agent/fathom_agent.sock ] && fathom-agent stats")

    def wait_in_guest(self, command):
        end = time.monotonic() + SECONDS
        while self.guest.run(command, 60)[0] != 0:
            if time.monotonic() > end:
                self.fail(f"{command}: {self.guest.run('cat /tmp/agent.log; dmesg | tail -20')[1]}")
            time.sleep(0.3)

    def test_a_volume_is_attached_survives_kills_grows_and_is_detached(self):
        path = self.guest.check("fathom volume attach p1/db", 120).strip()
        self.assertEqual(path, LINK)
        self.assertIn("nvme0n1", self.guest.check("nvme list"))
        self.guest.check(WRITE, 60)
        self.guest.check(COMPARE, 60)
        with self.subTest("kill -9 of the agent: the volume stays, and the next one finds it"):
            self.guest.check("kill -9 $(cat /tmp/agent.pid)")
            self.guest.check(COMPARE, 60)
            self.start_agent()
            self.wait_in_guest("fathom-agent attachments | grep -q 'p1/db *attached'")
        with self.subTest("kill -9 of the engine: its server starts it again, and I/O goes on"):
            os.kill(self.one.pid(0), 9)
            self.guest.check(COMPARE, SECONDS)
        with self.subTest("kill -9 of the server"):
            self.one.kill()
            self.guest.check(COMPARE, 60)
            self.one.start()
        with self.subTest("a resize is seen"):
            self.one.fathom("volume", "resize", "p1/db", "32M")
            self.wait_in_guest("[ $(cat /sys/block/nvme0n1/size) = 65536 ]")
            self.guest.check(COMPARE, 60)
        with self.subTest("a volume in use is not detached"):
            self.guest.check(f"mkswap {LINK} && swapon {LINK}")
            self.assertIn("code = 1155", self.guest.run("fathom volume detach p1/db", 120)[1])
            self.guest.check(f"swapoff {LINK}")
        self.wait_in_guest("fathom volume detach p1/db")
        self.guest.check(f"[ ! -e /sys/block/nvme0n1 ] && [ ! -e {LINK} ] && [ -z \"$(ls /var/lib/fathom/attachments)\" ]")


if __name__ == "__main__":
    unittest.main()
