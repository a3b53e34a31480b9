# SPDX-License-Identifier: BSD-2-Clause
"""
Three engines and their server through steps by chance: engines killed, the server killed and ended, ranks and the system stopped,
started, excluded and let back, attributes set. After each: no rank is lost, doubled or another's; no event is lost or doubled; at the end all have joined.

FATHOM_STEPS: how many (default 1,000); FATHOM_SEED: which.
"""

import os
import random
import signal
import time
import unittest

from server_rig import RANK_NONE, ServerTest, is_alive

STEPS = int(os.environ.get("FATHOM_STEPS", "1000"))
SEED = int(os.environ.get("FATHOM_SEED", "1"))
ENGINES = 3


class Steps(ServerTest):
    def joined_engines(self):
        return [engine for engine in self.rig.engines() if engine.state == "joined"]

    def kill_engine(self):
        running = self.joined_engines()
        if not running:
            return
        victim = self.random.choice(running)
        self.killed.append((victim.rank, victim.incarnation))
        os.kill(victim.pid, signal.SIGKILL)
        self.rig.wait(lambda engines: engines[victim.index].incarnation != victim.incarnation or engines[victim.index].state != "joined")

    def kill_server(self):
        before = {engine.index: engine for engine in self.joined_engines()}
        self.rig.kill()
        self.assertTrue(all(is_alive(engine.pid) for engine in before.values()))
        self.rig.start()
        after = self.rig.wait(lambda engines: all(engines[index].state == "joined" for index in before))
        self.assertEqual({index: after[index].incarnation for index in before}, {index: engine.incarnation for index, engine in before.items()})

    def end_server(self):
        self.assertEqual(self.rig.stop(), 0)
        self.rig.start()

    def stop_ranks(self):
        ranks = ",".join(map(str, self.random.sample(range(ENGINES), self.random.randint(1, ENGINES))))
        self.rig.call("/mgmt.MgmtSvc/SystemStop", self.messages.mgmt.SystemStopReq(prep=True, kill=True, ranks=ranks, ignore_admin_excluded=True,
                                                                                force=self.random.random() < 0.5), timeout=60)

    def start_system(self):
        self.rig.call("/mgmt.MgmtSvc/SystemStart", self.messages.mgmt.SystemStartReq(ignore_admin_excluded=True), timeout=60)

    def exclude(self):
        """Some rank but the first, or back again; an engine that is excluded ends itself."""
        rank = self.random.randrange(1, ENGINES)
        excluded = [member.rank for member in self.rig.members() if member.state == "adminexcluded"]
        self.rig.call("/mgmt.MgmtSvc/SystemExclude", self.messages.mgmt.SystemExcludeReq(ranks=str(rank), clear=rank in excluded), timeout=60)
        if rank not in excluded:
            self.rig.wait(lambda engines: all(engine.state != "joined" for engine in engines if engine.rank == rank))

    def set_attribute(self):
        name, value = f"a{self.random.randrange(5)}", str(self.random.randrange(1000))
        self.rig.call("/mgmt.MgmtSvc/SystemSetAttr", self.messages.mgmt.SystemSetAttrReq(attributes={name: value}))
        self.attributes[name] = value

    def scan(self):
        self.rig.call("/ctl.CtlSvc/StorageScan", self.messages.ctl.StorageScanReq())

    def events(self):
        found, after = [], 0
        while True:
            answer = self.rig.call("/fathom.ControlSvc/SystemEvents", self.messages.fathom.SystemEventsReq(after=after, max=100))
            if not answer.events:
                return found
            found += answer.events
            after = found[-1].number

    def check(self):
        engines = self.rig.engines()
        self.assertEqual([engine.index for engine in engines], list(range(ENGINES)))
        for engine in engines:
            if engine.uuid and engine.rank != RANK_NONE:
                self.assertEqual(self.ranks[engine.uuid], engine.rank)
        members = self.rig.members()
        self.assertEqual(sorted(member.rank for member in members), list(range(ENGINES)))
        self.assertEqual({member.uuid: member.rank for member in members}, self.ranks)
        events = self.events()
        self.assertEqual([event.number for event in events], list(range(1, len(events) + 1)))
        self.assertEqual(dict(self.rig.call("/mgmt.MgmtSvc/SystemGetAttr", self.messages.mgmt.SystemGetAttrReq()).attributes), self.attributes)

    def died(self):
        """Of engines that had said they are ready. One that had not has no incarnation that anybody knows."""
        return [(event.event.rank, event.event.incarnation) for event in self.events() if event.event.id == 2 and event.event.incarnation]

    def test_no_rank_and_no_event_is_lost_or_doubled(self):
        self.random, self.killed, self.attributes = random.Random(SEED), [], {}
        self.rig = self.server(engines=ENGINES, size="1MiB", keys="engine_restart: {killed: {delay_min: 20ms, delay_max: 40ms}, "
                               "gone: {delay_min: 20ms, delay_max: 40ms}, failed: {delay_min: 50ms, delay_max: 100ms}}\n").start()
        self.rig.format()
        self.ranks = {engine.uuid: engine.rank for engine in self.rig.joined()}
        self.rig.wait_members("joined")
        steps = [self.kill_engine] * 4 + [self.kill_server] * 3 + [self.exclude] * 2 + [self.end_server, self.stop_ranks, self.start_system,
                                                                                             self.scan, self.set_attribute]
        done = []
        for _ in range(STEPS):
            step = self.random.choice(steps)
            done.append(step.__name__)
            with self.subTest(seed=SEED, steps=done[-5:], count=len(done)):
                step()
                self.check()
        excluded = [str(member.rank) for member in self.rig.members() if member.state == "adminexcluded"]
        if excluded:
            self.rig.call("/mgmt.MgmtSvc/SystemExclude", self.messages.mgmt.SystemExcludeReq(ranks=",".join(excluded), clear=True))
        self.start_system()
        self.rig.joined()
        self.rig.wait_members("joined")
        deadline = time.monotonic() + 20
        while not set(self.killed) <= set(self.died()) and time.monotonic() < deadline:
            time.sleep(0.05)
        died = self.died()
        self.assertEqual(len(died), len(set(died)), "an event came twice")
        self.assertLessEqual(set(self.killed), set(died), "an event was lost")


if __name__ == "__main__":
    unittest.main()
