# SPDX-License-Identifier: BSD-2-Clause
"""
The ranks of a pool with real engines: a pool gets a rank, its first rank is drained while the server and the engines are killed, and is used
again. What a host wrote before is where the volume is. A rank whose storage was formatted again is brought back by the commands of the runbook.
"""

import os
import signal
import subprocess
import time
import unittest

from harness import FATHOM
from server_rig import Refused, ServerTest

HOST = "nqn.2014-08.org.nvmexpress:uuid:11111111-1111-4111-8111-111111111111"
MIB = 1 << 20
WAIT_SECONDS = 120
SHARE_NOT_UP = "1360"
SHARE_LOST = "1363"


class Ranks(ServerTest):
    def start(self):
        self.rig = self.server(engines=2, size="256MiB", name="fathom").start()
        self.rig.format()
        self.rig.wait_joined()
        mgmt = self.messages.mgmt
        self.pool("PoolCreate", mgmt.PoolCreateReq(properties=[mgmt.PoolProperty(number=1, strval="p")], ranks=[0]))
        for name in ("p/a", "p/b", "p/c"):
            self.volume("VolumeCreate", name=name, size_bytes=16 * MIB)
        self.nqn = self.volume("VolumePublish", name="p/a", host=HOST).volume.nqn
        self.state = os.path.join(self.directory, "verified")

    def pool(self, method, request, timeout=60):
        return self.rig.call("/mgmt.MgmtSvc/" + method, request, timeout=timeout)

    def volume(self, method, **fields):
        return self.rig.call("/fathom.ControlSvc/" + method, getattr(self.messages.fathom, method + "Req")(**fields), timeout=60)

    def storage(self, rank, **fields):
        return self.rig.call("/fathom.ControlSvc/Storage", self.messages.store.StorageReq(rank=rank, **fields), role="server", timeout=60)

    def perf(self, rank, *options):
        return subprocess.run((FATHOM, "perf", "-a", "127.0.0.1", "-s", str(self.rig.engine_ports[rank]), "-n", self.nqn, "--hostnqn", HOST,
                               "--quiet", "--verify-state", self.state, "--bs", "64k", *options),
                              capture_output=True, text=True, timeout=WAIT_SECONDS)

    def fathom(self, *words, group="pool", status=0):
        done = subprocess.run((FATHOM, group, *words, "-i", "-l", f"127.0.0.1:{self.rig.port}"), capture_output=True, text=True, timeout=WAIT_SECONDS)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr + self.rig.log())
        return done.stdout + done.stderr

    def share(self, rank):
        pool = self.pool("PoolQuery", self.messages.mgmt.PoolQueryReq(id="p"))
        return {one.rank: one for one in pool.ranks}.get(rank)

    def wait_share(self, rank, state):
        """Also while the server or an engine starts."""
        deadline, seen = time.monotonic() + WAIT_SECONDS, "?"
        while time.monotonic() < deadline:
            try:
                seen = self.share(rank)
                if seen and seen.share == state:
                    return seen
            except Refused as error:
                seen = error
            time.sleep(0.05)
        raise AssertionError(f"rank {rank} is not {state} within {WAIT_SECONDS} s: {seen}\n{self.rig.log()}\n{self.rig.engine_logs()}")

    def engine_pid(self, rank):
        """Of the engine, once it runs."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not (pid := {engine.rank: engine.pid for engine in self.rig.engines()}.get(rank)):
            self.assertLess(time.monotonic(), deadline, self.rig.log())
            time.sleep(0.05)
        return pid

    def wait_read(self, rank):
        """All that was confirmed to the host is there. A restarted engine waits for its server's permission."""
        deadline = time.monotonic() + WAIT_SECONDS
        while (checked := self.perf(rank, "--time", "0")).returncode == 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr + self.rig.engine_logs())

    def volumes_of_engine(self, rank):
        answer = self.storage(rank)
        self.assertEqual(answer.error, 0, answer.text)
        return sorted((volume.name, volume.move) for pool in answer.pools for volume in pool.volumes)

    def test_a_rank_is_added_and_another_one_drained_although_all_is_killed(self):
        self.start()
        self.assertEqual(self.perf(0, "--rw", "write", "--count", "256").returncode, 0)
        try:
            self.pool("PoolExtend", self.messages.mgmt.PoolExtendReq(id="p", ranks=[1]), timeout=0.03)
        except Refused:
            pass  # it is under way
        self.rig.kill()
        self.rig.start()
        self.rig.wait_joined()
        self.fathom("extend", "p", "--ranks", "1")     # repeated, or for the first time
        self.assertEqual(self.wait_share(1, "up").rank, 1)
        self.fathom("drain", "p", "--ranks", "0")
        for victim in ("server", 0, 1):
            if victim == "server":
                self.rig.kill()
                self.rig.start()
            else:
                os.kill(self.engine_pid(victim), signal.SIGKILL)
        self.wait_share(0, "drained")
        self.assertEqual(self.volumes_of_engine(0), [])
        self.assertEqual(self.volumes_of_engine(1), [("a", ""), ("b", ""), ("c", "")])
        self.wait_read(1)
        with self.assertRaises(Refused) as refused:
            self.volume("VolumeMove", name="p/a", rank=0)
        self.assertEqual(refused.exception.fault.get("Code"), SHARE_NOT_UP)
        self.assertIn("Share of rank 0: drained since", self.fathom("query", "p"))
        self.fathom("reintegrate", "p", "--ranks", "0")
        self.assertEqual(self.volume("VolumeMove", name="p/a", rank=0).volume.rank, 0)
        self.wait_read(0)
        # a volume that was not moved away is not erased
        erase = self.messages.store.Action.Value("MOVE_ERASE")
        answer = self.storage(0, action=erase, pool="p", volume="a", volume_uuid=self.volume("VolumeList", name="p/a").volumes[0].uuid)
        self.assertEqual(answer.error, -22, answer.text)
        self.assertEqual(self.volumes_of_engine(0), [("a", "")])

    def test_a_pool_gets_the_new_engine_of_a_rank_that_was_formatted_again(self):
        self.start()
        self.fathom("extend", "p", "--ranks", "1")
        self.volume("VolumeCreate", name="p/x", size_bytes=16 * MIB, ranks="1")
        self.assertEqual(self.perf(0, "--rw", "write", "--count", "64").returncode, 0)
        self.fathom("stop", "--ranks", "1", group="system")
        self.fathom("format", "--instances", "1", "--force", "--replace", group="storage")
        self.rig.wait_joined()
        self.assertIn("lost volumes: 1, the first is volume \"p/x\"", self.fathom("events", group="system"))
        self.assertRegex(self.fathom("query", "p"), r"Share of rank 1: lost: .*1 volume, the first is \"x\"\. Destroy each with `fathom volume destroy p/VOLUME --force`")
        self.assertRegex(self.fathom("list", "p", group="volume"), r"p/x +\S.* lost ")
        self.rig.kill()
        self.rig.start()
        self.rig.wait_joined()
        self.assertIn(f"code = {SHARE_LOST}", self.fathom("extend", "p", "--ranks", "1", status=1))
        self.assertIn("code = 1262", self.fathom("destroy", "p/x", group="volume", status=1))
        self.fathom("destroy", "p/x", "--force", group="volume")
        self.fathom("extend", "p", "--ranks", "1")
        self.assertEqual(self.wait_share(1, "up").share_info, "")
        self.volume("VolumeCreate", name="p/x", size_bytes=16 * MIB, ranks="1")
        self.assertEqual(self.volume("VolumeMove", name="p/a", rank=1).volume.rank, 1)
        self.assertEqual(self.volumes_of_engine(1), [("a", ""), ("x", "")])
        self.wait_read(1)


if __name__ == "__main__":
    unittest.main()
