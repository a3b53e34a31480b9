# SPDX-License-Identifier: BSD-2-Clause
"""
Events of engines that die before a server has taken their events. Server and engine are killed with SIGKILL; each event arrives once.
"""

import glob
import json
import os
import random
import signal
import time
import unittest

import server_rig
from harness import FATHOM, run
from server_rig import ServerTest, read

DEVICE_ADDED, ENGINE_DIED = 23, 2


class EventSpool(ServerTest):
    def setUp(self):
        super().setUp()
        self.one = self.server(keys="engine_restart: {killed: {delay_min: 20ms, delay_max: 50ms}}\n").start()
        self.one.format()
        self.engine = self.one.wait_joined()[0]

    def event_counters(self):
        return json.loads(run(FATHOM, "rpc", "-s", self.engine.rpc_socket, "framework_get_control").stdout)["events"]

    def raise_events(self, *names):
        """Add devices and wait until the engine, which checks once a second, has raised their events; the events."""
        before = self.event_counters()["last"]
        for name in names:
            run(FATHOM, "rpc", "-s", self.engine.rpc_socket, "bdev_null_create", name, "1", "4096")
        deadline = time.monotonic() + 60
        while self.event_counters()["last"] < before + len(names):
            self.assertLess(time.monotonic(), deadline)
        return self.device_events(*names)

    def kill_engine(self):
        os.kill(self.engine.pid, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while server_rig.is_alive(self.engine.pid):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.005)

    def wait_for_restart(self, server=True):
        """Start the server if `server`; wait until it has started the engine again and the engine has joined."""
        if server:
            self.one.start()
        before = self.engine.pid
        self.engine = self.one.wait(lambda engines: engines[0].state == "joined" and engines[0].pid != before)[0]

    def events(self):
        answer = self.one.call("/fathom.ControlSvc/SystemEvents", self.messages.fathom.SystemEventsReq())
        return [(event.event.id, event.event.msg, event.event.incarnation) for event in answer.events]

    def wait_for_events(self, condition, seconds=60):
        """Wait until `condition(events)` is true; the events."""
        deadline = time.monotonic() + seconds
        while not condition(self.events()):
            self.assertLess(time.monotonic(), deadline, f"{self.events()}\n{self.one.log()}")
            time.sleep(0.02)
        return self.events()

    def spool_files(self, suffix=""):
        return glob.glob(os.path.join(self.one.socket_dir, f"fathom_engine0-*.events{suffix}"))

    def device_events(self, *names):
        """The events that the engine raises for these devices."""
        return [(DEVICE_ADDED, f"device {name} was added", self.engine.incarnation) for name in names]

    def test_events_raised_between_two_kills_arrive_once(self):
        expected = self.raise_events("taken")
        self.wait_for_events(lambda events: expected[0] in events)
        self.one.kill()
        expected += self.raise_events("lost", "found")
        incarnation = self.engine.incarnation
        self.kill_engine()
        self.wait_for_restart()
        for _ in range(3):      # later kills do not add them again
            events = self.wait_for_events(lambda events: (ENGINE_DIED, incarnation) in self.kinds(events))
            self.assertEqual(self.of_devices(events), expected)
            kinds = self.kinds(events)
            self.assertLess(kinds.index((DEVICE_ADDED, incarnation)), kinds.index((ENGINE_DIED, incarnation)))
            self.assertEqual(self.spool_files(), [])
            self.one.kill()
            self.kill_engine()
            self.wait_for_restart()
        self.assertEqual(self.one.log().count("NOTICE: engine 0: added "), 1)
        self.assertIn("NOTICE: engine 0: added 2 unsent events from its spool\n", self.one.log())

    def kinds(self, events):
        return [(event[0], event[2]) for event in events]

    def of_devices(self, events):
        return [event for event in events if event[0] == DEVICE_ADDED]

    def test_events_of_an_engine_that_cannot_restart_arrive(self):
        self.one.kill()
        expected = self.raise_events("last")
        self.kill_engine()
        with open(os.path.join(self.one.mount_path(0), "superblock"), "w") as f:
            f.write("nothing")
        self.one.start()
        self.assertEqual(self.of_devices(self.wait_for_events(self.of_devices)), expected)

    def test_a_damaged_spool_loses_only_its_damaged_records(self):
        self.one.kill()
        expected = self.raise_events("first", "second", "third")
        self.kill_engine()
        path, = self.spool_files()
        data = read(path, "rb")
        at = data.index(b"device second was added")
        with open(path, "wb") as f:
            f.write(data[:at] + b"X" + data[at + 1:] + data[-100:-30])     # and a torn record at the end
        del expected[1]
        self.check_events_after_restart(expected)
        self.assertRegex(self.one.log(), r'ERROR: engine 0: server: code = 675 description = "\d+ bytes of the events that engine 0 left')
        self.assertEqual([os.path.basename(name) for name in self.spool_files(".damaged")], [os.path.basename(path) + ".damaged"])
        self.assertEqual(read(path + ".damaged", "rb")[:at], data[:at])

    def check_events_after_restart(self, expected):
        self.wait_for_restart()
        events = self.wait_for_events(lambda events: any(event[0] == ENGINE_DIED for event in events))
        self.assertEqual(self.of_devices(events), expected)
        self.assertEqual(self.spool_files(), [])

    def test_events_arrive_although_the_spool_cannot_be_created(self):
        os.mkdir(os.path.join(self.one.socket_dir, f"fathom_engine0-{self.engine.incarnation:016x}.events"))
        expected = []
        for name in ("first", "second"):
            expected += self.raise_events(name)
            self.wait_for_events(lambda events: self.of_devices(events) == expected)    # delivered without a spool
        self.assertEqual(self.one.engine_logs().count("cannot store events on disk"), 1)
        self.kill_engine()
        self.wait_for_restart(server=False)      # an unreadable spool does not stop the restart
        self.assertRegex(self.one.log(), "ERROR: the spool of a dead engine is kept, and is read again before the next start: server: code = 684 ")
        self.assertEqual(self.of_devices(self.events()), expected)

    def test_random_kills_lose_no_event_and_repeat_none(self):
        seed = int(os.environ.get("FATHOM_SEED", "0")) or random.randrange(1, 1 << 31)
        chance, raised = random.Random(seed), []
        print(f"# FATHOM_SEED={seed}", flush=True)
        for step in range(8):
            raised += self.raise_events(*(f"d{step}x{number}" for number in range(chance.randrange(4))))
            time.sleep(chance.random() * 0.01)
            victim = chance.choice(("server", "engine", "both", "both"))
            if victim != "engine":
                self.one.kill()
                raised += self.raise_events(*(f"d{step}y{number}" for number in range(chance.randrange(3))))
            if victim != "server":
                self.kill_engine()
            if victim == "server":
                self.one.start()
                self.one.wait_joined()
            else:
                self.wait_for_restart(server=victim == "both")
        seen = self.wait_for_events(lambda events: len(self.of_devices(events)) >= len(raised))
        self.assertEqual(self.of_devices(seen), raised, seed)
        died = [event[2] for event in seen if event[0] == ENGINE_DIED]
        self.assertEqual(sorted(set(died)), sorted(died), seed)


if __name__ == "__main__":
    unittest.main()
