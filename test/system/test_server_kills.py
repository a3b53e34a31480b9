# SPDX-License-Identifier: BSD-2-Clause
"""
fathom-server is killed with SIGKILL at random moments of its start, of formatting, joins, stops and its orderly end. The
test prints its seed. Afterwards the same engines run, each with its rank, and every event is stored once.
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
ORDINARY = (1010, 1011, 1012, 1013)     # events: a server starts or ends, storage is formatted, a rank joins


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

    def start_call(self, path, request):
        """Call in a thread. The server may be killed before it answers."""
        def call():
            try:
                self.one.call(path, request, timeout=5)
            except (Refused, ValueError):   # the server was killed, or the channel is closed already
                pass
        self.asking = threading.Thread(target=call)
        self.asking.start()

    def finish_call(self):
        self.asking.join(20)
        self.assertFalse(self.asking.is_alive())

    def raise_events(self):
        """Add a device to each engine, which raises an event within a second."""
        self.last_event_before = {engine.index: self.last_event(engine) for engine in self.one.engines()}
        for engine in self.one.engines():
            name = f"d{len(self.raised)}"
            run(FATHOM, "rpc", "-s", engine.rpc_socket, "bdev_null_create", name, "1", "4096")
            self.raised.append(f"device {name} was added")

    def last_event(self, engine):
        """The number of the last event that the engine raised."""
        return json.loads(run(FATHOM, "rpc", "-s", engine.rpc_socket, "framework_get_control").stdout)["events"]["last"]

    def wait_events_raised(self):
        """Wait for the events of raise_events(): an engine that is killed before raises none."""
        deadline = time.monotonic() + 60
        while any(self.last_event(engine) == self.last_event_before[engine.index] for engine in self.one.engines()):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def events(self):
        return self.one.call("/fathom.ControlSvc/SystemEvents", self.messages.fathom.SystemEventsReq()).events

    def check_all_joined(self, what):
        """Wait until all engines have joined, each once: {rank: engine}."""
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

    def test_a_kill_of_the_server_at_any_moment_loses_no_engine_rank_or_event(self):
        for turn in range(FORMAT_KILLS):     # later in each turn: many kills before the storage is formatted, some after
            self.one.start()
            self.start_call("/ctl.CtlSvc/StorageFormat", self.messages.ctl.StorageFormatReq())
            self.kill_after(0.015 * (turn + 1))
            self.finish_call()
        self.one.start()
        self.one.wait(lambda engines: all(engine.state in ("await_format", "joined") for engine in engines))
        if any(engine.state == "await_format" for engine in self.one.engines()):
            self.one.format()
        first = self.check_all_joined("formatting and joining")
        self.assertEqual([event for event in self.events() if event.event.id not in (FORMAT_REQUIRED, DIED) + ORDINARY], [])

        self.raise_events()
        self.one.kill()
        for _ in range(START_KILLS):
            self.start_without_waiting()
            self.kill_after(0.08)
        self.one.start()
        self.assertEqual(self.processes(self.check_all_joined("starting")), self.processes(first))

        for turn in range(LEAVE_KILLS):
            if turn == 2:
                self.raise_events()
            self.one.process.send_signal(signal.SIGTERM)
            self.kill_after(0.02)
            self.one.start()
        self.wait_events_raised()
        self.assertEqual(self.processes(self.check_all_joined("leaving")), self.processes(first))

        for turn in range(STOP_KILLS):
            if turn == 2:
                self.raise_events()
                self.wait_events_raised()
            self.start_call("/ctl.CtlSvc/StopRanks", self.messages.ctl.RanksReq(force=self.chance.random() < 0.5))
            self.kill_after(0.04)
            self.finish_call()
            self.one.start()
            self.one.wait_joined()
        last = self.check_all_joined("stopping")
        self.assertEqual(self.identities(last), self.identities(first))
        self.raise_events()
        self.check_every_event()

    def start_without_waiting(self):
        """As start(), without waiting for it."""
        with open(self.one.log_path, "a") as log:
            self.one.process = subprocess.Popen([SERVER, "start", "-o", self.one.config_path, "--name", self.one.trace_name],
                                                stdout=log, stderr=log)

    def check_every_event(self):
        deadline = time.monotonic() + 60
        while True:
            seen = sorted(event.event.msg for event in self.events() if event.event.id == PLUGGED)
            if len(seen) >= len(self.raised) or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        self.assertEqual(seen, sorted(self.raised), self.seed)


if __name__ == "__main__":
    unittest.main()
