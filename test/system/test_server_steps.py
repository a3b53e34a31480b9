# SPDX-License-Identifier: BSD-2-Clause
"""
Three engines and their server take random steps. Engines are killed in any state, the server is killed or ended, ranks and
the system are stopped, started, excluded and cleared, attributes are set. After each step no rank is lost, doubled or changed,
and no event is lost or doubled. At the end all engines have joined. During the first steps verified I/O runs on one engine,
which is spared: deaths of its server must not disturb it.

FATHOM_STEPS: how many steps (default 1,000). FATHOM_SEED: the seed.
"""

import os
import random
import signal
import subprocess
import threading
import time
import unittest

from harness import FATHOM, NQN, run
from server_rig import RANK_NONE, ServerTest, is_alive

STEPS = int(os.environ.get("FATHOM_STEPS", "1000"))
SEED = int(os.environ.get("FATHOM_SEED", "1"))
ENGINES = 3
WITH_IO = 300   # steps


class Load:
    """Repeats runs of verified I/O on an engine's storage until end(). `failed`: output of the first run that failed."""

    def __init__(self, rig, index):
        self.runs, self.failed, self.ending = 0, "", False
        run(FATHOM, "rpc", "-s", os.path.join(rig.socket_dir, f"engine{index}.sock"), input=f"""nvmf_create_subsystem {NQN} -a -m 10
nvmf_subsystem_add_listener {NQN} -t tcp -a 127.0.0.1 -s {rig.engine_ports[index]}
bdev_aio_create {rig.mount_path(index)}/data.img Data 4096
nvmf_subsystem_add_ns {NQN} Data
""")
        self.command = [FATHOM, "perf", "-a", "127.0.0.1", "-s", str(rig.engine_ports[index]), "-n", NQN, "--rw", "mix", "--bs", "4k", "--depth",
                        "1", "--verify", "--time", "1", "--quiet"]
        self.thread = threading.Thread(target=self.run_until_end)
        self.thread.start()

    def run_until_end(self):
        while not self.ending and not self.failed:
            done = subprocess.run(self.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            self.runs += 1
            if done.returncode:
                self.failed = f"status {done.returncode}: {done.stdout}"

    def end(self):
        self.ending = True
        self.thread.join()


def signal_process(pid, number=signal.SIGKILL):
    """Send a signal; False if the process has ended. An engine that is excluded or stopping may end by itself."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


class Steps(ServerTest):
    def joined_engines(self):
        return [engine for engine in self.rig.engines() if engine.state == "joined"]

    def unspared_ranks(self):
        """Ranks that may be stopped and excluded."""
        return [rank for rank in range(ENGINES) if rank != self.spared]

    def victim(self, engines):
        running = [engine for engine in engines if engine.pid and engine.rank != self.spared]
        return self.random.choice(running) if running else None

    def kill_and_wait(self, victim):
        if signal_process(victim.pid):
            self.seen.add(victim.state)
            if victim.state == "joined":  # in other states it may be ending by itself, excluded
                self.killed.append((victim.rank, victim.incarnation, victim.state))
        self.rig.wait(lambda engines: engines[victim.index].pid != victim.pid)

    def kill_engine(self):
        """Kill an engine in any state. Before it has reported ready it has no incarnation."""
        victim = self.victim(self.rig.engines())
        if not victim:
            return
        self.kill_and_wait(victim)
        if self.random.random() < 0.5:  # also the next process, while it starts
            begins = self.rig.wait(lambda engines: engines[victim.index].pid != 0 or not engines[victim.index].restart_in_ms)[victim.index]
            if begins.pid:
                self.kill_and_wait(begins)

    def kill_engine_that_stops(self):
        """Kill an engine that hangs in its stop. Its death is no event."""
        victim = self.victim(self.joined_engines())
        if not victim:
            return
        if not signal_process(victim.pid, signal.SIGSTOP):
            return
        ask = self.rig.channel.unary_unary("/ctl.CtlSvc/StopRanks", request_serializer=lambda r: r.SerializeToString(),
                                           response_deserializer=self.messages.ctl.RanksResp.FromString).future(
            self.messages.ctl.RanksReq(ranks=str(victim.rank)), metadata=(("x-daos-component", "server"),))
        state = self.rig.wait(lambda engines: engines[victim.index].state != "joined")[victim.index].state
        self.seen.add(state)
        signal_process(victim.pid)
        row = ask.result(60).results[0]
        self.assertEqual((row.errored, row.state), (False, "stopped"), row.msg)
        self.stopped.add((victim.rank, victim.incarnation))

    def kill_server_and_engine(self):
        """Kill the server, and an engine before the new server starts or while it adopts engines."""
        victim = self.victim(self.joined_engines())
        self.rig.kill()
        before = self.random.random() < 0.5
        if victim and before and signal_process(victim.pid):
            self.killed.append((victim.rank, victim.incarnation, "no server"))
            self.seen.add("no server")
        self.rig.start()
        if not victim:
            return
        if not before:
            state = self.rig.engines()[victim.index].state
            if signal_process(victim.pid):
                self.killed.append((victim.rank, victim.incarnation, state))
                self.seen.add(state)
        self.rig.wait(lambda engines: engines[victim.index].pid != victim.pid and engines[victim.index].state != "adopting")

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
        ranks = ",".join(map(str, self.random.sample(self.unspared_ranks(), self.random.randint(1, len(self.unspared_ranks())))))
        self.rig.call("/mgmt.MgmtSvc/SystemStop", self.messages.mgmt.SystemStopReq(prep=True, kill=True, ranks=ranks, ignore_admin_excluded=True,
                                                                                force=self.random.random() < 0.5), timeout=60)

    def start_system(self):
        self.rig.call("/mgmt.MgmtSvc/SystemStart", self.messages.mgmt.SystemStartReq(ignore_admin_excluded=True), timeout=60)

    def exclude_or_clear(self):
        """
        Exclude a rank other than the first, or clear it. An excluded engine ends, also one that is about to join; one that
        starts is refused; one that is being adopted keeps running, refused.
        """
        rank = self.random.choice([rank for rank in self.unspared_ranks() if rank > 0])
        excluded = [member.rank for member in self.rig.members() if member.state == "adminexcluded"]
        self.rig.call("/mgmt.MgmtSvc/SystemExclude", self.messages.mgmt.SystemExcludeReq(ranks=str(rank), clear=rank in excluded), timeout=60)
        if rank not in excluded:
            self.rig.wait(lambda engines: all(engine.state not in ("adopting", "starting", "ready", "joined")
                                              for engine in engines if engine.rank == rank))

    def set_attribute(self):
        name, value = f"a{self.random.randrange(5)}", str(self.random.randrange(1000))
        self.rig.call("/mgmt.MgmtSvc/SystemSetAttr", self.messages.mgmt.SystemSetAttrReq(attributes={name: value}))
        self.attributes[name] = value

    def scan(self):
        self.rig.call("/ctl.CtlSvc/StorageScan", self.messages.ctl.StorageScanReq())

    def events(self):
        """All events. Reads the new ones and checks that their numbers follow without a gap."""
        while True:
            answer = self.rig.call("/fathom.ControlSvc/SystemEvents", self.messages.fathom.SystemEventsReq(after=len(self.read), max=100))
            if not answer.events:
                return self.read
            self.assertEqual([event.number for event in answer.events],
                             list(range(len(self.read) + 1, len(self.read) + len(answer.events) + 1)))
            self.read += answer.events

    def check_invariants(self):
        engines = self.rig.engines()
        self.assertEqual([engine.index for engine in engines], list(range(ENGINES)))
        for engine in engines:
            if engine.uuid and engine.rank != RANK_NONE:
                self.assertEqual(self.rank_of[engine.uuid], engine.rank)
        members = self.rig.members()
        self.assertEqual(sorted(member.rank for member in members), list(range(ENGINES)))
        self.assertEqual({member.uuid: member.rank for member in members}, self.rank_of)
        self.events()
        self.assertEqual(dict(self.rig.call("/mgmt.MgmtSvc/SystemGetAttr", self.messages.mgmt.SystemGetAttrReq()).attributes), self.attributes)

    def died_engines(self):
        """(rank, incarnation) of engines reported dead. An engine that died before it was ready has no incarnation."""
        return [(event.event.rank, event.event.incarnation) for event in self.events() if event.event.id == 2 and event.event.incarnation]

    def test_random_steps_lose_and_double_no_rank_and_no_event(self):
        self.random, self.killed, self.stopped, self.attributes, self.seen, self.spared = random.Random(SEED), [], set(), {}, set(), 0
        self.read = []
        self.rig = self.server(engines=ENGINES, size="4MiB", keys="engine_restart: {killed: {delay_min: 20ms, delay_max: 40ms}, "
                               "gone: {delay_min: 20ms, delay_max: 40ms}, failed: {delay_min: 50ms, delay_max: 100ms}}\n").start()
        self.rig.pause = 0.005
        self.rig.format()
        self.rank_of = {engine.uuid: engine.rank for engine in self.rig.wait_joined()}
        self.rig.wait_members("joined")
        steps = [self.kill_engine] * 4 + [self.kill_server] * 3 + [self.exclude_or_clear] * 2 + [
            self.kill_server_and_engine, self.kill_engine_that_stops, self.end_server, self.stop_ranks, self.start_system, self.scan, self.set_attribute]
        serving = [engine for engine in self.rig.engines() if engine.rank == self.spared][0]
        load = Load(self.rig, serving.index)
        self.addCleanup(load.end)
        done = []
        for number in range(STEPS):
            if number == min(WITH_IO, STEPS - 1):
                self.assertEqual([engine.incarnation for engine in self.rig.engines() if engine.rank == self.spared],
                                 [serving.incarnation])
                load.end()
                self.assertGreater(load.runs, 0)
                self.assertEqual(load.failed, "")
                self.spared = None
            step = self.random.choice(steps)
            done.append(step.__name__)
            try:
                step()
                self.check_invariants()
            except Exception as error:
                raise AssertionError(f"seed {SEED}, step {len(done)}, the last {done[-5:]}: {error}") from error
        excluded = [str(member.rank) for member in self.rig.members() if member.state == "adminexcluded"]
        if excluded:
            self.rig.call("/mgmt.MgmtSvc/SystemExclude", self.messages.mgmt.SystemExcludeReq(ranks=",".join(excluded), clear=True))
        self.start_system()
        self.rig.wait_joined()
        self.rig.wait_members("joined")
        deadline = time.monotonic() + 60
        while not {kill[:2] for kill in self.killed} <= set(self.died_engines()) and time.monotonic() < deadline:
            time.sleep(0.05)
        died, read, self.read = self.died_engines(), self.read, []
        self.assertEqual(self.events()[:len(read)], read, "an event has changed")
        self.assertEqual(len(died), len(set(died)), "an event came twice")
        self.assertEqual([kill for kill in self.killed if kill[:2] not in died], [], "an event was lost")
        self.assertEqual(self.stopped & set(died), set(), "an engine that was stopped is reported dead")
        if STEPS >= 1000:
            self.assertLessEqual({"joined", "starting", "stopping", "no server"}, self.seen)


if __name__ == "__main__":
    unittest.main()
