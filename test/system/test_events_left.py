# SPDX-License-Identifier: BSD-2-Clause
"""
Events of engines that die before a server has taken them: server and engine are killed with -9, and each event arrives, once.
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

PLUGGED, DIED = 23, 2


class Left(ServerTest):
    def setUp(self):
        super().setUp()
        self.one = self.server(keys="engine_restart: {killed: {delay_min: 20ms, delay_max: 50ms}}\n").start()
        self.one.format()
        self.engine = self.one.wait_joined()[0]

    def control(self):
        return json.loads(run(FATHOM, "rpc", "-s", self.engine.rpc_socket, "framework_get_control").stdout)["events"]

    def raise_events(self, *names):
        """Devices that come; the engine sees them when it looks, once a second."""
        before = self.control()["last"]
        for name in names:
            run(FATHOM, "rpc", "-s", self.engine.rpc_socket, "bdev_null_create", name, "1", "4096")
        deadline = time.monotonic() + 10
        while self.control()["last"] < before + len(names):
            self.assertLess(time.monotonic(), deadline)
        return self.plugged(*names)

    def kill_engine(self):
        os.kill(self.engine.pid, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while server_rig.is_alive(self.engine.pid):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.005)

    def start_again(self, server=True):
        """The engine, and the server before it."""
        if server:
            self.one.start()
        before = self.engine.pid
        self.engine = self.one.wait(lambda engines: engines[0].state == "joined" and engines[0].pid != before)[0]

    def events(self):
        answer = self.one.call("/fathom.ControlSvc/SystemEvents", self.messages.fathom.SystemEventsReq())
        return [(event.event.id, event.event.msg, event.event.incarnation) for event in answer.events]

    def has(self, what, seconds=20):
        """Until `what(events)`; the events then."""
        deadline = time.monotonic() + seconds
        while not what(self.events()):
            self.assertLess(time.monotonic(), deadline, f"{self.events()}\n{self.one.log()}")
            time.sleep(0.02)
        return self.events()

    def files(self, suffix=""):
        return glob.glob(os.path.join(self.one.socket_dir, f"fathom_engine0-*.events{suffix}"))

    def plugged(self, *names):
        return [(PLUGGED, f"device {name} was added", self.engine.incarnation) for name in names]

    def test_what_an_engine_raised_between_two_kills_arrives_once(self):
        expected = self.raise_events("taken")
        self.has(lambda events: expected[0] in events)
        self.one.kill()
        expected += self.raise_events("lost", "found")
        incarnation = self.engine.incarnation
        self.kill_engine()
        self.start_again()
        for _ in range(3):      # and it stays so
            events = self.has(lambda events: (DIED, incarnation) in self.kinds(events))
            self.assertEqual(self.of_devices(events), expected)
            kinds = self.kinds(events)
            self.assertLess(kinds.index((PLUGGED, incarnation)), kinds.index((DIED, incarnation)))
            self.assertEqual(self.files(), [])
            self.one.kill()
            self.kill_engine()
            self.start_again()
        self.assertEqual(self.one.log().count("NOTICE: engine 0: added "), 1)
        self.assertIn("NOTICE: engine 0: added 2 unsent events from its spool\n", self.one.log())

    def kinds(self, events):
        return [(event[0], event[2]) for event in events]

    def of_devices(self, events):
        return [event for event in events if event[0] == PLUGGED]

    def test_an_engine_that_is_not_started_again_has_said_everything(self):
        self.one.kill()
        expected = self.raise_events("last")
        self.kill_engine()
        with open(os.path.join(self.one.mount_path(0), "superblock"), "w") as f:
            f.write("nothing")
        self.one.start()
        self.assertEqual(self.of_devices(self.has(self.of_devices)), expected)

    def test_a_damaged_spool_costs_what_is_damaged(self):
        self.one.kill()
        expected = self.raise_events("first", "second", "third")
        self.kill_engine()
        path, = self.files()
        data = read(path, "rb")
        at = data.index(b"device second was added")
        with open(path, "wb") as f:
            f.write(data[:at] + b"X" + data[at + 1:] + data[-100:-30])     # and a record that a crash cut short
        del expected[1]
        self.start_again_after(expected)
        self.assertRegex(self.one.log(), r'ERROR: engine 0: server: code = 675 description = "\d+ bytes of the events that engine 0 left')
        self.assertEqual([os.path.basename(name) for name in self.files(".damaged")], [os.path.basename(path) + ".damaged"])
        self.assertEqual(read(path + ".damaged", "rb")[:at], data[:at])

    def start_again_after(self, expected):
        self.start_again()
        events = self.has(lambda events: any(event[0] == DIED for event in events))
        self.assertEqual(self.of_devices(events), expected)
        self.assertEqual(self.files(), [])

    def test_a_folder_where_nothing_can_be_made_stops_no_event(self):
        os.mkdir(os.path.join(self.one.socket_dir, f"fathom_engine0-{self.engine.incarnation:016x}.events"))
        expected = []
        for name in ("first", "second"):
            expected += self.raise_events(name)
            self.has(lambda events: self.of_devices(events) == expected)    # as it was without one
        self.assertEqual(self.one.engine_logs().count("cannot store events on disk"), 1)
        self.kill_engine()
        self.start_again(server=False)      # a spool that cannot be read stops no engine
        self.assertRegex(self.one.log(), "ERROR: the spool of a dead engine is kept, and is read again before the next start: server: code = 684 ")
        self.assertEqual(self.of_devices(self.events()), expected)

    def test_whoever_is_killed_none_is_lost_and_none_comes_twice(self):
        seed = int(os.environ.get("FATHOM_SEED", "0")) or random.randrange(1, 1 << 31)
        chance, raised = random.Random(seed), []
        print(f"# FATHOM_SEED={seed}", flush=True)
        for step in range(8):
            raised += self.raise_events(*(f"d{step}x{number}" for number in range(chance.randrange(4))))
            time.sleep(chance.random() * 0.01)
            who = chance.choice(("server", "engine", "both", "both"))
            if who != "engine":
                self.one.kill()
                raised += self.raise_events(*(f"d{step}y{number}" for number in range(chance.randrange(3))))
            if who != "server":
                self.kill_engine()
            if who == "server":
                self.one.start()
                self.one.wait_joined()
            else:
                self.start_again(server=who == "both")
        seen = self.has(lambda events: len(self.of_devices(events)) >= len(raised))
        self.assertEqual(self.of_devices(seen), raised, seed)
        died = [event[2] for event in seen if event[0] == DIED]
        self.assertEqual(sorted(set(died)), sorted(died), seed)


if __name__ == "__main__":
    unittest.main()
