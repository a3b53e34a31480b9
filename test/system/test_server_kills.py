# SPDX-License-Identifier: BSD-2-Clause
"""
fathom-server is killed with -9 at moments of its start, of formatting, joins, stops and its own orderly end; chance picks them, by the
seed that is printed. Then: the engines that there were, each with its rank, and every event once.
"""

import json
import os
import random
import signal
import subprocess
import threading
import time
import unittest

from harness import FATHOM, run
from server_rig import SERVER, Refused, ServerTest

ENGINES = 2
FORMAT_KILLS, START_KILLS, STOP_KILLS, LEAVE_KILLS = 10, 8, 6, 8
PLUGGED, DIED, FORMAT_REQUIRED = 23, 2, 1
TOLD = (1010, 1011, 1012, 1013)     # servers that start and end, storage that is formatted, ranks that join


class Kills(ServerTest):
    def setUp(self):
        super().setUp()
        self.seed = int(os.environ.get("FATHOM_SEED", "0")) or random.randrange(1, 1 << 31)
        self.chance = random.Random(self.seed)
        print(f"# FATHOM_SEED={self.seed}", flush=True)
        self.one = self.server(engines=ENGINES, size="16MiB")
        self.raised = []

    def kill_after(self, seconds):
        time.sleep(self.chance.random() * seconds)
        self.one.kill()

    def ask(self, path, request):
        """A call whose caller is not there any more when it is answered, if ever."""
        def call():
            try:
                self.one.call(path, request, timeout=5)
            except (Refused, ValueError):   # the server was killed, or the channel is closed already
                pass
        self.asking = threading.Thread(target=call)
        self.asking.start()

    def answered(self):
        self.asking.join(20)
        self.assertFalse(self.asking.is_alive())

    def raise_events(self):
        """A device for each engine, which sees within a second that it has come."""
        self.unseen = {engine.index: self.seen(engine) for engine in self.one.engines()}
        for engine in self.one.engines():
            name = f"d{len(self.raised)}"
            run(FATHOM, "rpc", "-s", engine.rpc_socket, "bdev_null_create", name, "1", "4096")
            self.raised.append(f"device {name} was added")

    def seen(self, engine):
        """How many events it has raised."""
        return json.loads(run(FATHOM, "rpc", "-s", engine.rpc_socket, "framework_get_control").stdout)["events"]["last"]

    def all_seen(self):
        """What is killed before it has looked cannot tell."""
        deadline = time.monotonic() + 20
        while any(self.seen(engine) == self.unseen[engine.index] for engine in self.one.engines()):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def events(self):
        return self.one.call("/fathom.ControlSvc/SystemEvents", self.messages.fathom.SystemEventsReq()).events

    def settled(self, what):
        """All have joined, each once. The engines, by rank."""
        with self.subTest(what, seed=self.seed):
            engines = {engine.rank: engine for engine in self.one.wait_joined()}
            self.assertEqual(sorted(engines), list(range(ENGINES)))
            members = {member.rank: member.uuid for member in self.one.wait_members("joined")}
            self.assertEqual(members, {rank: engine.uuid for rank, engine in engines.items()})
            self.assertEqual(self.one.running_engine_pids(), {engine.pid for engine in engines.values()})
            events = self.events()
            self.assertEqual([event.number for event in events], list(range(1, len(events) + 1)))
            died = [event.event.incarnation for event in events if event.event.id == DIED]
            self.assertEqual(len(set(died)), len(died), events)
            return engines

    def identities(self, engines):
        return {rank: engine.uuid for rank, engine in engines.items()}

    def processes(self, engines):
        return {rank: (engine.uuid, engine.pid, engine.incarnation) for rank, engine in engines.items()}

    def test_whenever_a_server_is_killed_its_engines_ranks_and_events_are_there(self):
        for turn in range(FORMAT_KILLS):     # ever later, so that many come before the storage is formatted, and some behind
            self.one.start()
            self.ask("/ctl.CtlSvc/StorageFormat", self.messages.ctl.StorageFormatReq())
            self.kill_after(0.015 * (turn + 1))
            self.answered()
        self.one.start()
        self.one.wait(lambda engines: all(engine.state in ("await_format", "joined") for engine in engines))
        if any(engine.state == "await_format" for engine in self.one.engines()):
            self.one.format()
        first = self.settled("formatting and joining")
        self.assertEqual([event for event in self.events() if event.event.id not in (FORMAT_REQUIRED, DIED) + TOLD], [])

        self.raise_events()
        self.one.kill()
        for _ in range(START_KILLS):
            self.begin()
            self.kill_after(0.08)
        self.one.start()
        self.assertEqual(self.processes(self.settled("starting")), self.processes(first))

        for turn in range(LEAVE_KILLS):
            if turn == 2:
                self.raise_events()
            self.one.process.send_signal(signal.SIGTERM)
            self.kill_after(0.02)
            self.one.start()
        self.all_seen()
        self.assertEqual(self.processes(self.settled("leaving")), self.processes(first))

        for turn in range(STOP_KILLS):
            if turn == 2:
                self.raise_events()
                self.all_seen()
            self.ask("/ctl.CtlSvc/StopRanks", self.messages.ctl.RanksReq(force=self.chance.random() < 0.5))
            self.kill_after(0.04)
            self.answered()
            self.one.start()
            self.one.wait_joined()
        last = self.settled("stopping")
        self.assertEqual(self.identities(last), self.identities(first))
        self.raise_events()
        self.every_event_is_there()

    def begin(self):
        """As start(), without waiting for it."""
        with open(self.one.log_path, "a") as log:
            self.one.process = subprocess.Popen([SERVER, "start", "-o", self.one.config_path, "--name", self.one.trace_name],
                                                stdout=log, stderr=log)

    def every_event_is_there(self):
        deadline = time.monotonic() + 20
        while True:
            seen = sorted(event.event.msg for event in self.events() if event.event.id == PLUGGED)
            if len(seen) >= len(self.raised) or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        self.assertEqual(seen, sorted(self.raised), self.seed)


if __name__ == "__main__":
    unittest.main()
