# SPDX-License-Identifier: BSD-2-Clause
"""
`fathom pool query` of a real fathom-server with two real engines: the levels of space, the states of the ranks, and the I/O of the last minute, which
decides where the next volume is placed.
"""

import json
import os
import signal
import subprocess
import time
import unittest

from harness import FATHOM
from server_rig import ServerTest

HOST = "nqn.2014-08.org.nvmexpress:uuid:11111111-1111-4111-8111-111111111111"
MIB = 1 << 20
WAIT_SECONDS = 60


class PoolQuery(ServerTest):
    def begin(self, size="200MiB", keys=""):
        """A pool on both ranks."""
        self.rig = self.server(engines=2, size="256MiB", name="fathom", keys=keys).start()
        self.rig.format()
        self.rig.wait_joined()
        self.rig.wait_members("joined")
        self.fathom("pool", "create", "p", "--size", size)

    def fathom(self, *words):
        done = subprocess.run([FATHOM, *words, "-i", "-l", self.rig.address], capture_output=True, text=True, timeout=WAIT_SECONDS,
                              env=dict(os.environ, HOME=self.rig.directory), cwd=self.rig.directory, check=False)
        self.assertEqual(done.returncode, 0, f"{words}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def response(self, *words):
        return json.loads(self.fathom(*words, "--json"))["response"]

    def wait_for(self, condition, what):
        deadline = time.monotonic() + WAIT_SECONDS
        while not (found := condition()):
            self.assertLess(time.monotonic(), deadline, f"{what}\n{self.response('pool', 'query', 'p')}\n{self.rig.log()}")
            time.sleep(0.1)
        return found

    def level_events(self):
        return [event["msg"] for event in self.response("system", "events")["events"] if event["msg"].startswith("pool p: ")]

    def test_the_levels_of_space_of_each_rank(self):
        self.begin()
        pool = self.response("pool", "query", "p")
        self.assertEqual((pool["state"], pool["total_targets"], pool["active_targets"], pool["disabled_targets"]), ("Ready", 2, 2, 0))
        self.assertEqual([(rank["rank"], rank["state"], rank["total_bytes"], rank["free_bytes"], rank["domain"]) for rank in pool["ranks"]],
                         [(number, "joined", 100 * MIB, 100 * MIB, "/rack0/node0") for number in (0, 1)])
        for number, (name, mebibytes, percent) in enumerate((("a", 79, 79), ("b", 3, 82), ("c", 9, 91), ("d", 5, 96))):
            self.fathom("volume", "create", f"p/{name}", f"{mebibytes}M", "--ranks", "0")
            text = self.fathom("pool", "query", "p")
            self.assertRegex(text, rf"(?m)^Use of rank 0: {percent} % \(.* promised\), ")
            self.assertRegex(text, r"(?m)^Use of rank 1: 0 % \(0 B of .* promised\), ")
            self.assertIn(f"Volumes: {number + 1}\n", text)
        ranks = self.response("pool", "query", "p")["ranks"]
        self.assertEqual([(rank["volumes"], rank["promised_bytes"], rank["free_bytes"]) for rank in ranks], [(4, 96 * MIB, 4 * MIB), (0, 0, 100 * MIB)])
        self.wait_for(lambda: any(": 96 %" in text for text in self.level_events()), "an event about the highest level")
        other = self.response("volume", "create", "p/e", "4M")  # the rank with room
        self.assertEqual((other["rank"], other["placed_by"], other["placed_of"]), (1, "most free space", 2))

    def test_the_states_of_the_ranks(self):
        self.begin()
        self.fathom("volume", "create", "p/a", "8M", "--ranks", "1")
        self.response("pool", "query", "p")
        self.fathom("system", "stop", "--ranks", "1")
        pool = self.response("pool", "query", "p")
        self.assertEqual([(rank["state"], rank["promised_bytes"], bool(rank["info"])) for rank in pool["ranks"]], [("joined", 0, False), ("stopped", 8 * MIB, True)])
        self.assertEqual(pool["volumes"], 1)
        made = self.response("volume", "create", "p/b", "8M")
        self.assertEqual((made["rank"], made["placed_by"]), (0, "only possible rank"))
        self.fathom("system", "exclude", "--ranks", "1")
        pool = self.response("pool", "query", "p")
        self.assertEqual((pool["active_targets"], pool["disabled_targets"], pool["ranks"][1]["state"]), (1, 1, "adminexcluded"))
        self.assertRegex(self.fathom("pool", "query", "p"), r"(?m)^- Enabled ranks: 0\n- Disabled ranks: 1$")
        self.fathom("system", "clear-exclude", "--ranks", "1")
        self.fathom("system", "start", "--ranks", "1")
        self.wait_for(lambda: [rank["state"] for rank in self.response("pool", "query", "p")["ranks"]] == ["joined", "joined"], "the rank has joined again")
        self.assertEqual([rank["promised_bytes"] for rank in self.response("pool", "query", "p")["ranks"]], [8 * MIB, 8 * MIB])

    def test_a_killed_engine_gets_the_properties_when_it_is_back(self):
        self.begin(keys="disable_engine_auto_restart: true\n")
        self.fathom("volume", "create", "p/a", "8M", "--ranks", "1")
        os.kill(next(engine.pid for engine in self.rig.engines() if engine.rank == 1), signal.SIGKILL)
        self.wait_for(lambda: self.response("pool", "query", "p")["ranks"][1]["state"] not in ("joined", "stopping"), "the rank is down")
        self.assertEqual(self.fathom("pool", "set-prop", "p", "overcommit=true", "scrub=off"), "pool set-prop succeeded, pending on rank 1\n")
        self.assertRegex(self.fathom("pool", "get-prop", "p"), r"(?m)^scrub is pending on rank 1 since .*: rank 1 is ")
        self.assertRegex(self.fathom("pool", "query", "p"), r"(?m)^Properties pending on rank 1 since .*: overcommit, scrub: rank 1 is ")
        self.assertRegex(self.fathom("volume", "show", "p/a"), r"(?m)^ *Pending *: set overcommit, scrub of the pool on rank 1 since .*: rank 1 is ")
        self.assertEqual([self.record(number)["overcommit"] for number in (0, 1)], [True, False])
        self.fathom("system", "start", "--ranks", "1")
        self.wait_for(lambda: not self.response("pool", "query", "p")["pending"], "nothing is pending")
        self.assertEqual([(self.record(number)["overcommit"], self.record(number)["scrub_off"]) for number in (0, 1)], [(True, True)] * 2)
        self.assertNotIn("Pending", self.fathom("volume", "show", "p/a"))

    def record(self, number):
        """The record of the pool on the storage of an engine."""
        for folder, _, names in os.walk(self.rig.mount_path(number)):
            if "pool.json" in names:
                with open(os.path.join(folder, "pool.json"), encoding="utf-8") as file:
                    return json.load(file)["pool"]
        return self.fail(f"engine {number} has no pool")

    def test_the_load_of_a_rank_decides_the_next_placement(self):
        self.begin()
        made = self.response("volume", "create", "p/a", "2M")
        self.assertEqual((made["rank"], made["placed_by"], made["placed_of"]), (0, "lowest number of equal ranks", 2))
        self.fathom("volume", "create", "p/b", "2M", "--ranks", "1")
        self.fathom("volume", "create", "p/c", "2M", "--ranks", "1")
        volume = self.response("volume", "publish", "p/a", HOST)
        made = self.wait_for(lambda: self.write_and_create(volume), "rank 0 has written enough within a minute")
        # rank 1 has as many volumes, counted twice if published, and less I/O
        self.assertEqual((made["rank"], made["placed_volumes"], made["placed_published"]), (1, 2, 0))
        ranks = self.response("pool", "query", "p")["ranks"]
        self.assertEqual((ranks[1]["minute_operations"], ranks[1]["minute_bytes"]), (0, 0))
        self.assertGreater(ranks[0]["minute_operations"], 0)
        self.assertRegex(self.fathom("volume", "show", "p/d"), r"(?m)^ *Placed by *: least I/O, of 2 ranks: .* free, 2 volumes \(0 published\), 0 operations")

    def write_and_create(self, volume):
        """Write to the volume, on rank 0, and create another one. The other one if load has decided; else None, and it is gone."""
        done = subprocess.run([FATHOM, "perf", "-a", "127.0.0.1", "-s", str(self.rig.engine_ports[0]), "-n", volume["nqn"], "--hostnqn", HOST, "--quiet",
                               "--rw", "write", "--bs", "64k", "--depth", "8", "--count", "1200"], capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        made = self.response("volume", "create", "p/d", "2M")
        if made["placed_by"] != "least I/O":
            self.fathom("volume", "destroy", "p/d")
        return made if made["placed_by"] == "least I/O" else None


if __name__ == "__main__":
    unittest.main()
