# SPDX-License-Identifier: BSD-2-Clause
"""
Pools and volumes of a real fathom-server with real engines: each operation, and operations while an engine hangs, an engine is killed, or the
server is killed. Each operation ends in one place, which the catalog and the engines agree about.
"""

import glob
import json
import os
import random
import shutil
import signal
import subprocess
import time
import unittest

from harness import FATHOM
from server_rig import Refused, ServerTest

HOST = "nqn.2014-08.org.nvmexpress:uuid:11111111-1111-4111-8111-111111111111"
MIB = 1 << 20
WAIT_SECONDS = 60
SEED = int(os.environ.get("FATHOM_SEED", "14"))
WAITS, CHANGING, NO_VOLUME, UNSUPPORTED, EXISTS = "1256", "1257", "1253", "1261", "1286"


class Volumes(ServerTest):
    def start(self, engines=2, **fields):
        self.rig = self.server(engines=engines, size="256MiB", name="fathom").start()
        self.rig.format()
        self.rig.wait_joined()
        mgmt = self.messages.mgmt
        self.rig.call("/mgmt.MgmtSvc/PoolCreate", mgmt.PoolCreateReq(properties=[mgmt.PoolProperty(number=1, strval="p")], **fields), timeout=60)
        return self.rig

    def call(self, method, timeout=60, **fields):
        return self.rig.call("/fathom.ControlSvc/" + method, getattr(self.messages.fathom, method + "Req")(**fields), timeout=timeout)

    def change(self, method, timeout=60, **fields):
        """The volume afterwards."""
        return self.call(method, timeout, **fields).volume

    def code_of(self, call, *args, **fields):
        with self.assertRaises(Refused) as refused:
            call(*args, **fields)
        return refused.exception.fault.get("Code")

    def volumes(self, **fields):
        return {volume.name: volume for volume in self.call("VolumeList", **fields).volumes}

    def engine_volumes(self, rank):
        """{name: volume} as the engine of the rank has them."""
        answer = self.rig.call("/fathom.ControlSvc/Storage", self.messages.store.StorageReq(rank=rank), role="server", timeout=60)
        self.assertEqual(answer.error, 0, answer.text)
        return {f"{pool.name}/{volume.name}": volume for pool in answer.pools for volume in pool.volumes}

    def wait_settled(self, ranks=(0, 1)):
        """Wait until nothing is pending and all engines have answered; then the catalog and the engines must agree."""
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            try:
                volumes = self.volumes()
                if all(volume.state == "ready" and not volume.pending and volume.asked_ns for volume in volumes.values()):
                    of_engines = {name: (rank, volume) for rank in ranks for name, volume in self.engine_volumes(rank).items()}
                    self.assertEqual({name: (volume.rank, volume.uuid, volume.size_bytes) for name, volume in volumes.items()},
                                     {name: (rank, volume.uuid, volume.size_bytes) for name, (rank, volume) in of_engines.items()})
                    return volumes
            except Refused:
                pass  # an engine or the server is starting
            time.sleep(0.05)
        raise AssertionError(f"not settled within {WAIT_SECONDS} s:\n{self.volumes()}\n{self.rig.members()}\n{self.rig.log()}\n{self.rig.engine_logs()}")

    def pid_of(self, rank):
        return {engine.rank: engine for engine in self.rig.engines()}[rank].pid

    def test_a_restart_without_a_volume_is_shown_with_the_rank(self):
        self.start(engines=1)
        self.change("VolumeCreate", name="p/db", size_bytes=8 * MIB)
        self.assertFalse(self.rig.members()[0].HasField("storage"))
        data, = glob.glob(os.path.join(self.rig.mount_path(0), "**", "volumes", "db", "data.*"), recursive=True)
        os.remove(data)
        os.kill(self.pid_of(0), signal.SIGKILL)
        deadline = time.monotonic() + WAIT_SECONDS
        member = self.rig.members()[0]
        while (member.state, member.storage.errored_volumes) != ("joined", 1):
            self.assertLess(time.monotonic(), deadline, f"{member}\n{self.rig.log()}\n{self.rig.engine_logs()}")
            time.sleep(0.05)
            member = self.rig.members()[0]
        self.assertIn("p/db", member.storage.reason)
        self.assertRegex(member.info, "^1 volume ERRORED since .*p/db")
        self.assertEqual([(volume.state, volume.reason) for volume in self.volumes().values()],
                         [("errored", "cannot open data.1: No such file or directory")])

    def test_a_restart_without_a_pool_is_shown_with_the_rank(self):
        """The engine does not know that it had one."""
        self.start(engines=1)
        self.change("VolumeCreate", name="p/db", size_bytes=8 * MIB)
        shutil.rmtree(os.path.join(self.rig.mount_path(0), "pools", "p"))
        pid = self.pid_of(0)
        os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + WAIT_SECONDS
        member = self.rig.members()[0]
        while (member.state, member.storage.errored_pools) != ("joined", 1):
            self.assertLess(time.monotonic(), deadline, f"{member}\n{self.rig.log()}\n{self.rig.engine_logs()}")
            time.sleep(0.05)
            member = self.rig.members()[0]
        self.assertRegex(member.info, "^1 pool ERRORED since .*pool p with all its volumes: its engine does not have it")
        self.assertIn("ERROR: fathom: rank 0 is joined: 1 pool ERRORED", self.fathom("system", "query", "--check", status=1))
        self.assertEqual([volume.state for volume in self.volumes().values()], ["missing"])
        self.assertIn("the pool is missing: its engine does not have it", self.fathom("pool", "query", "p"))
        self.assertIn('"failure": "missing"', self.fathom("pool", "query", "p", "--json"))
        self.assertRegex(self.fathom("pool", "list", "-v"), "(?m)^p .* TargetsExcluded .* 1/1 ")

    def test_a_volume_goes_through_its_life(self):
        self.start()
        made = self.change("VolumeCreate", name="p/db", size_bytes=8 * MIB)
        self.assertEqual((made.state, made.size_bytes, made.block_bytes, made.rank_state), ("ready", 8 * MIB, 4096, "joined"))
        self.assertEqual(self.change("VolumeCreate", name="p/db", size_bytes=8 * MIB).uuid, made.uuid)
        self.assertEqual(self.change("VolumeResize", name="p/db", size_bytes=16 * MIB).size_bytes, 16 * MIB)
        self.assertEqual(self.change("VolumeRename", name="p/db", new_name="mail").name, "p/mail")
        published = self.change("VolumePublish", name="p/mail", host=HOST)
        self.assertEqual([host.nqn for host in published.hosts], [HOST])
        self.assertIn(made.uuid, published.nqn)
        self.assertEqual(list(published.addresses), [f"127.0.0.1:{self.rig.engine_ports[made.rank]}"])
        other = self.change("VolumeCreate", name="p/other", size_bytes=8 * MIB)
        self.assertEqual(other.rank, 1 - made.rank)  # which has more space
        self.assertEqual(set(self.wait_settled()), {"p/mail", "p/other"})
        pool = self.rig.call("/mgmt.MgmtSvc/PoolQuery", self.messages.mgmt.PoolQueryReq(id="p"), timeout=60)
        self.assertEqual((pool.volume_count, pool.active_targets, sum(rank.promised_bytes for rank in pool.ranks)), (2, 2, 24 * MIB))
        self.assertEqual(self.change("VolumeUnpublish", name="p/mail", host=HOST).hosts[:], [])
        self.change("VolumeDestroy", name="p/mail")
        self.assertEqual(self.code_of(self.change, "VolumeDestroy", name="p/mail"), NO_VOLUME)
        self.assertEqual(set(self.wait_settled()), {"p/other"})
        destroy = self.messages.mgmt.PoolDestroyReq(id="p")
        self.assertEqual(self.code_of(self.rig.call, "/mgmt.MgmtSvc/PoolDestroy", destroy), "618")
        destroy.recursive = True
        self.rig.call("/mgmt.MgmtSvc/PoolDestroy", destroy, timeout=60)
        self.assertEqual((self.engine_volumes(0), self.engine_volumes(1), self.volumes()), ({}, {}, {}))

    def call_until_done(self, method, request):
        """A repeated call succeeds when the engines are back."""
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                return self.rig.call("/mgmt.MgmtSvc/" + method, request, timeout=20)
            except Refused:
                self.assertLess(time.monotonic(), deadline, f"{self.rig.members()}\n{self.rig.log()}\n{self.rig.engine_logs()}")
                time.sleep(0.05)

    def test_properties_and_evictions_survive_kills(self):
        """The engine of rank 1 hangs and is killed, and the server is killed, while both are under way."""
        self.start()
        for rank in (0, 1):
            self.change("VolumeCreate", name=f"p/on{rank}", size_bytes=8 * MIB, ranks=str(rank))
            self.change("VolumePublish", name=f"p/on{rank}", host=HOST)
        pid = self.pid_of(1)
        os.kill(pid, signal.SIGSTOP)
        mgmt = self.messages.mgmt
        evict = mgmt.PoolEvictReq(id="p", machine=HOST)
        size = mgmt.PoolSetPropReq(id="p", properties=[mgmt.PoolProperty(name="size", text="64M")])
        self.assertIn(self.code_of(self.rig.call, "/mgmt.MgmtSvc/PoolSetProp", size, timeout=2), (WAITS, None))
        self.assertIn(self.code_of(self.rig.call, "/mgmt.MgmtSvc/PoolEvict", evict, timeout=2), (WAITS, None))
        self.rig.kill()
        os.kill(pid, signal.SIGKILL)
        self.rig.start()
        self.call_until_done("PoolSetProp", size)
        self.call_until_done("PoolEvict", evict)
        self.assertEqual([len(volume.hosts) for volume in self.wait_settled().values()], [0, 0])
        pool = self.rig.call("/mgmt.MgmtSvc/PoolQuery", mgmt.PoolQueryReq(id="p"), timeout=60)
        self.assertEqual((pool.size_bytes, pool.pending), (64 * MIB, ""))
        for rank in (0, 1):
            answer = self.rig.call("/fathom.ControlSvc/Storage", self.messages.store.StorageReq(rank=rank), role="server", timeout=60)
            self.assertEqual([pool.size_bytes for pool in answer.pools], [32 * MIB])
        self.check_commands()

    def fathom(self, *words, status=0):
        """What the command prints."""
        done = subprocess.run([FATHOM, *words, "-i", "-l", self.rig.address], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
                              env=dict(os.environ, HOME=self.rig.directory), cwd=self.rig.directory, check=False)
        self.assertEqual(done.returncode, status, f"{words}\n{done.stdout}")
        return done.stdout

    def check_commands(self):
        self.fathom("pool", "set-prop", "p", "label=q", "thick:true,scrub:off")
        self.assertEqual(json.loads(self.fathom("pool", "get-prop", "q", "size,thick", "scrub", "-j"))["response"],
                         [{"name": "scrub", "description": "Checksum scrubbing mode", "value": "off"},
                          {"name": "size", "description": "Most bytes of its volumes on all ranks (0: no limit)", "value": str(64 * MIB)},
                          {"name": "thick", "description": "New volumes are thick", "value": "true"}])
        self.fathom("volume", "create", "q/new", "8M")
        self.fathom("volume", "publish", "q/new", HOST)
        self.assertTrue(self.volumes()["q/new"].thick)
        self.assertIn("1 publication of volumes withdrawn", self.fathom("pool", "evict", "q", "--host", HOST))
        self.assertIn("pools have no property rd_fac here: a volume is on one engine", self.fathom("pool", "set-prop", "q", "rd_fac=1", status=1))
        self.assertIn("cannot be limited to 4194304 bytes", self.fathom("pool", "set-prop", "q", "size=8M", status=1))
        self.assertIn(str(64 * MIB), self.fathom("pool", "get-prop", "q"))

    def test_a_volume_that_does_not_fit_leaves_nothing(self):
        self.start(engines=1)
        for thick in (False, True):
            with self.assertRaises(Refused):
                self.change("VolumeCreate", name="p/huge", size_bytes=1 << 50, thick=thick)
        self.assertEqual((self.volumes(), self.engine_volumes(0)), ({}, {}))

    def test_a_snapshot_is_taken_or_the_file_system_is_named(self):
        """The storage may be on a file system without reflinks."""
        self.start(engines=1)
        self.change("VolumeCreate", name="p/a", size_bytes=8 * MIB)
        try:
            volumes = self.call("SnapshotCreate", names=["p/a@s"]).volumes
            self.assertEqual([snapshot.name for snapshot in volumes[0].snapshots], ["s"])
            self.assertEqual(self.code_of(self.call, "SnapshotCreate", names=["p/a@s"]), EXISTS)
            self.call("SnapshotDestroy", name="p/a@s")
        except Refused as refused:
            self.assertEqual(refused.fault.get("Code"), UNSUPPORTED, refused.text)
        self.assertEqual(list(self.volumes()["p/a"].snapshots), [])
        self.change("VolumeDestroy", name="p/a")

    def test_an_engine_that_hangs_delays_no_other_and_gets_its_change_later(self):
        self.start()
        for rank in (0, 1):
            self.change("VolumeCreate", name=f"p/on{rank}", size_bytes=8 * MIB, ranks=str(rank))
        pid = self.pid_of(0)
        os.kill(pid, signal.SIGSTOP)
        try:
            self.assertEqual(self.code_of(self.change, "VolumeResize", timeout=2, name="p/on0", size_bytes=16 * MIB), WAITS)
            self.assertEqual(self.change("VolumeResize", name="p/on1", size_bytes=16 * MIB).size_bytes, 16 * MIB)
            self.assertEqual(self.code_of(self.change, "VolumePublish", name="p/on0", host=HOST), CHANGING)
            waiting = self.volumes()["p/on0"]
            self.assertEqual((waiting.size_bytes, waiting.pending), (8 * MIB, f"resize to {16 * MIB} bytes"))
            self.assertGreater(waiting.pending_ns, 0)
            # the server is killed while the change waits
            self.rig.kill()
            self.rig.start()
        finally:
            os.kill(pid, signal.SIGCONT)
        self.assertEqual(self.wait_settled()["p/on0"].size_bytes, 16 * MIB)

    def test_a_killed_engine_has_its_volumes_when_it_is_back(self):
        self.start(engines=1)
        self.change("VolumeCreate", name="p/a", size_bytes=8 * MIB)
        self.change("VolumePublish", name="p/a", host=HOST)
        os.kill(self.pid_of(0), signal.SIGKILL)
        # no restart policy restarts it yet, or it is restarting: the change waits, or is done
        try:
            self.change("VolumeResize", timeout=3, name="p/a", size_bytes=16 * MIB)
        except Refused as refused:
            self.assertEqual(refused.fault.get("Code"), WAITS)
        self.rig.call("/mgmt.MgmtSvc/SystemStart", self.messages.mgmt.SystemStartReq(), timeout=60)
        volume = self.wait_settled(ranks=(0,))["p/a"]
        self.assertEqual((volume.size_bytes, [host.nqn for host in volume.hosts]), (16 * MIB, [HOST]))

    def step(self, chance, number):
        """One random operation; the answer may be a refusal."""
        name = f"p/v{chance.randrange(4)}"
        operations = (lambda: self.change("VolumeCreate", timeout=5, name=name, size_bytes=4 * MIB),
                      lambda: self.change("VolumeResize", timeout=5, name=name, size_bytes=(4 + number) * MIB),
                      lambda: self.change("VolumeRename", timeout=5, name=name, new_name=f"v{chance.randrange(4)}"),
                      lambda: self.change("VolumePublish", timeout=5, name=name, host=HOST),
                      lambda: self.change("VolumeUnpublish", timeout=5, name=name, host=HOST),
                      lambda: self.change("VolumeDestroy", timeout=5, name=name))
        try:
            chance.choice(operations)()
        except Refused:
            pass

    def test_random_operations_with_kills_end_in_one_place(self):
        self.start()
        chance = random.Random(SEED)
        for number in range(24):
            self.step(chance, number)
            if number % 8 == 3:
                os.kill(self.pid_of(chance.randrange(2)), signal.SIGKILL)
            if number % 8 == 7:
                self.rig.kill()
                self.rig.start()
                self.rig.wait_joined()  # it has started the killed engine
                self.wait_settled()


if __name__ == "__main__":
    unittest.main()
