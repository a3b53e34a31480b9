# SPDX-License-Identifier: BSD-2-Clause
"""
dmg - DAOS's own tools against our server. `dmg` runs without and with certificates, and its JSON is compared with that of `fathom`;
`daos_agent` asks for attach information. Tests are skipped where PATH does not have the tools.
"""

import json
import os
import re
import shutil
import subprocess
import unittest

from control_rig import SystemTest, make_certificates, transport_config
from harness import run

DMG = shutil.which("dmg")
AGENT = shutil.which("daos_agent")
DMG_VERSION = tuple(int(number) for number in re.findall(r"\d+", run(DMG, "version").stdout)[:2]) if DMG else ()
# Commands that both programs have, with the same words.
COMMANDS = (["system", "query"], ["system", "query", "-v"], ["system", "leader-query"], ["system", "get-prop"], ["system", "get-attr"],
            ["storage", "scan"], ["storage", "scan", "--nvme-health"], ["storage", "query", "usage"], ["storage", "query", "list-devices"],
            ["storage", "query", "list-devices", "--health"], ["network", "scan"])


# dmg's tables that cannot be compared: the header of get-attr has Go's %!s(), and get-prop has no fixed order.
UNLIKE = ("get-attr", "get-prop")
MOMENTARY = ("mem_free_kb", "mem_available_kb", "mem_used_kb", "avail_bytes", "usable_bytes")


def comparable(value):
    """The value without expected differences. Each program makes the keys of hosts, hashes, in its own way. dmg has no fixed order of
    properties and describes two of them with DAOS's name. Memory and space change between two calls."""
    if isinstance(value, dict):
        if value and all(re.fullmatch(r"\d{6,}", key) for key in value):
            return sorted((comparable(one) for one in value.values()), key=json.dumps)
        return {key: 0 if key in MOMENTARY else comparable(one) for key, one in value.items()
                if not (key == "description" and str(value.get("key")).startswith("daos_"))}
    if isinstance(value, list):
        return sorted((comparable(one) for one in value), key=lambda one: one["key"] if isinstance(one, dict) and "key" in one else "")
    return value


def without_newer_keys(theirs, ours):
    """`ours` without the fields and properties that a dmg before 2.8 lacks."""
    if DMG_VERSION >= (2, 8):
        return ours
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return {key: without_newer_keys(theirs[key], value) for key, value in ours.items() if key in theirs}
    if isinstance(theirs, list) and isinstance(ours, list):
        keys = {one["key"] for one in theirs if isinstance(one, dict) and "key" in one}
        ours = [one for one in ours if not keys or one["key"] in keys]
        return [without_newer_keys(*pair) for pair in zip(theirs, ours)] if len(theirs) == len(ours) else ours
    return ours


class DmgTest(SystemTest):
    def setUp(self):
        super().setUp()
        if not DMG:
            self.skipTest("dmg is not in the PATH")

    def dmg(self, system, *words, check=True):
        return run(DMG, "-o", system.client_config, *words, check=check, timeout=60)


class Systems(DmgTest):
    def check_dmg(self, system):
        """Format and join a system by dmg alone, then compare the output of all COMMANDS, then stop, start and exclude."""
        done = self.dmg(system, "system", "query", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("system is uninitialized (storage format required?)", done.stderr)
        self.assertRegex(self.dmg(system, "storage", "format").stdout, r"(?m)^ *127\.0\.0\.1 +2 +0 *$")
        system.wait_until(lambda: self.dmg(system, "system", "query", check=False).stdout.count("Joined") >= 1, "dmg sees ranks")
        system.wait_for_states("joined")
        self.assertRegex(self.dmg(system, "system", "query").stdout, r"\[0-1\] +Joined")
        self.dmg(system, "system", "set-attr", "who:dmg")
        for words in COMMANDS:
            theirs, ours = (comparable(json.loads(text)) for text in (self.dmg(system, "-j", *words).stdout,
                                                                      system.fathom(*words, "--json").stdout))
            self.assertEqual(theirs, without_newer_keys(theirs, ours), " ".join(words))
            if words[1] not in UNLIKE:
                ours = system.fathom(*words).stdout.replace("    No interfaces found\n\n", "")     # dmg says nothing then
                self.assertEqual(self.dmg(system, *words).stdout, ours, " ".join(words))
        refused = self.dmg(system, "storage", "led", "check", "0000:99:00.0", check=False)     # test/vm/test_health.py has lamps
        self.assertEqual(refused.returncode, 1)
        self.assertIn('this host has no device "0000:99:00.0"', refused.stdout + refused.stderr)
        self.dmg(system, "system", "del-attr", "who")
        self.assertEqual(self.dmg(system, "system", "stop").stdout, "Rank  Operation Result \n----  --------- ------ \n[0-1] stop      OK     \n\n")
        self.assertEqual(set(system.states().values()), {"stopped"})
        self.dmg(system, "system", "start")
        system.wait_for_states("joined")
        self.dmg(system, "system", "exclude", "--ranks", "1")
        self.assertEqual(system.states()[1], "adminexcluded")
        self.dmg(system, "system", "clear-exclude", "--ranks", "1")
        self.dmg(system, "server", "set-logmasks", "--masks", "DEBUG")

    def test_dmg_administers_a_system_without_certificates(self):
        self.check_dmg(self.system(2, formatted=False))

    def test_dmg_administers_a_system_with_certificates(self):
        folder = make_certificates(os.path.join(self.directory, "certs"))
        system = self.system(2, transport_config(folder, "server", tls12=True), formatted=False, start=False)
        system.use_certificate(folder, "admin")
        system.start()
        self.check_dmg(system)


class Pools(DmgTest):
    HOST = "nqn.2014-08.org.nvmexpress:uuid:11111111-1111-4111-8111-111111111111"
    ENTRIES = ["A::OWNER@:rw", "A::bob@:rw", "A:G:GROUP@:r"]

    def answer(self, *words):
        """The response of a command with --json."""
        said = json.loads(self.dmg(self.rig, "-j", *words).stdout)
        self.assertEqual((said["error"], said["status"]), (None, 0), words)
        return said["response"]

    def refused(self, text, *words):
        """The command fails, and its output has the text; with --json, too."""
        done = self.dmg(self.rig, *words, check=False)
        self.assertEqual(done.returncode, 1, words)
        self.assertIn(text, (done.stdout + done.stderr).replace("\\", ""), words)
        done = self.dmg(self.rig, "-j", *words, check=False)
        self.assertEqual(done.returncode, 1, words)
        self.assertIn(text, done.stdout.replace("\\", ""), words)
        self.assertNotEqual(json.loads(done.stdout)["status"], 0, words)

    def ranks(self, command, ranks):
        """What happened to each rank: without --json in a table, then with it, when nothing is left to do."""
        self.assertRegex(self.dmg(self.rig, "pool", command, "p1", "--ranks", ranks).stdout, rf"(?m)^p1 +{ranks} +OK +- *$")
        self.assertEqual([row["errored"] for row in self.answer("pool", command, "p1", "--ranks", ranks)["results"]], [False])
        self.refused("does not belong to pool", "pool", command, "p1", "--ranks", "9")
        self.refused("has no target 1", "pool", command, "p1", "--ranks", ranks, "--target-idx", "1")
        self.refused('unable to find pool service with label "nosuch"', "pool", command, "nosuch", "--ranks", ranks)

    def assert_contained(self, theirs, ours):
        """All of dmg's JSON is in that of `fathom`, which has more keys. dmg queries self_heal_policy by itself."""
        if isinstance(theirs, dict):
            for key, value in theirs.items():
                if key != "self_heal_policy":
                    self.assertIn(key, ours)
                    self.assert_contained(value, ours[key])
        elif isinstance(theirs, list):
            self.assertEqual(len(theirs), len(ours))
            for pair in zip(theirs, ours):
                self.assert_contained(*pair)
        else:
            self.assertEqual(theirs, ours)

    def compare(self):
        """dmg and `fathom` show the same of pools."""
        for words in (["pool", "list"], ["pool", "list", "-n"], ["pool", "list", "-v"], ["system", "list-pools"], ["pool", "get-acl", "p1"],
                      ["pool", "get-acl", "-v", "p1"], ["pool", "query", "p1"], ["pool", "query", "-t", "p1"], ["pool", "query", "-e", "p1"]):
            theirs, ours = self.dmg(self.rig, *words).stdout, self.rig.fathom(*words).stdout
            self.assertEqual(theirs, ours[:len(theirs)] if "query" in words else ours, words)
            if DMG_VERSION >= (2, 8):
                self.assert_contained(self.answer(*words), self.rig.json(*words))

    def volume(self):
        return self.rig.json("volume", "show", "p1/a")["volumes"][0]

    def share(self, rank):
        return self.rig.json("pool", "query", "p1")["ranks"][rank]["share"]

    def create(self):
        said = self.dmg(self.rig, "pool", "create", "p1", "--size", "48MB", "--ranks", "0,1", "--user", "ann", "--group", "staff@").stdout
        self.assertRegex(said, r"Storage Ranks +: \[0-1\] ")
        self.assertRegex(said, r"Storage tier 1 \(NVMe\): 48 MB \(24 MB / rank\)")
        made = self.answer("pool", "create", "p2", "--size", "10%", "--properties", "scrub:off")
        self.assertEqual((made["tgt_ranks"], made["tier_bytes"][0]), ([0, 1, 2], 0))
        self.assertEqual([pool["label"] for pool in self.answer("pool", "list", "-n")["pools"]], ["p1", "p2"])
        self.refused("already exists in the system", "pool", "create", "p1", "--size", "1G")
        self.refused("there is no rank 9", "pool", "create", "p3", "--size", "10M", "--ranks", "9")
        self.refused("the pool needs 9", "pool", "create", "p3", "--size", "10M", "--nranks", "9")
        self.refused("no property rd_fac here", "pool", "create", "p3", "--size", "10M", "--properties", "rd_fac:2")
        self.refused("no property reclaim here", "pool", "create", "p3", "--size", "10M", "--properties", "reclaim:time")

    def check_properties(self):
        self.assertEqual({row["name"]: row["value"] for row in self.answer("pool", "get-prop", "p1")},
                         {"label": "p1", "scrub": "timed", "scrub_freq": 604800})
        self.assertEqual([row["value"] for row in self.answer("pool", "get-prop", "p2", "scrub")], ["off"])
        self.assertEqual(self.dmg(self.rig, "pool", "set-prop", "p2", "scrub:timed,scrub_freq:1000").stdout, "pool set-prop succeeded\n")
        self.assertIsNone(self.answer("pool", "set-prop", "p2", "label:new"))
        self.assertRegex(self.dmg(self.rig, "pool", "get-prop", "new").stdout,
                         r"(?s)\(label\) +new +.*\(scrub\) +timed +.*\(scrub_freq\) +1000 ")
        self.refused("no property rd_fac here", "pool", "get-prop", "p1", "rd_fac")
        for prop in ("rd_fac:2", "ec_cell_sz:65536", "data_thresh:4096", "self_heal:exclude", "svc_rf:2", "space_rb:5", "reclaim:time",
                     "checkpoint:timed", "reintegration:no_data_sync", "scrub_thresh:5"):
            self.refused(f"no property {prop.split(':')[0]} here", "pool", "set-prop", "p1", prop)
        self.refused('scrub cannot be "lazy"', "pool", "set-prop", "p1", "scrub:lazy")
        self.refused("already exists in the system", "pool", "set-prop", "p1", "label:new")
        self.refused("unable to find pool service", "pool", "set-prop", "nosuch", "scrub:off")
        self.refused("unable to find pool service", "pool", "get-prop", "nosuch")

    def check_access(self):
        path = os.path.join(self.directory, "acl")
        with open(path, "w") as file:
            file.write("# a comment\n" + "\n".join(self.ENTRIES) + "\n")
        self.assertEqual(self.answer("pool", "get-acl", "p1")["ACL"]["owner_user"], "ann@")
        self.assertIn("A::bob@:rw\n", self.dmg(self.rig, "pool", "overwrite-acl", "p1", "-a", path).stdout)
        self.assertEqual(self.answer("pool", "overwrite-acl", "p1", "-a", path),
                         {"ACL": {"entries": self.ENTRIES, "owner_user": "ann@", "owner_group": "staff@"}})
        self.assertIn("A::joe@:rw\n", self.dmg(self.rig, "pool", "update-acl", "p1", "-e", "A::joe@:rw").stdout)
        self.assertIn("A:G:wheel@:r", self.answer("pool", "update-acl", "p1", "-e", "A:G:wheel@:r")["ACL"]["entries"])
        self.assertNotIn("joe@", self.dmg(self.rig, "pool", "delete-acl", "p1", "-p", "u:joe@").stdout)
        self.assertEqual(self.answer("pool", "delete-acl", "p1", "-p", "g:wheel@")["ACL"]["entries"], self.ENTRIES)
        out = os.path.join(self.directory, "out")
        self.dmg(self.rig, "pool", "get-acl", "p1", "--outfile", out)
        with open(out) as file:
            self.assertEqual(file.read().splitlines()[-3:], self.ENTRIES)
        self.refused("has no entry for u:joe@", "pool", "delete-acl", "p1", "-p", "u:joe@")
        self.refused("a permission is none of", "pool", "update-acl", "p1", "-e", "A::joe@:zz")
        self.refused("unable to find pool service", "pool", "get-acl", "nosuch")

    def check_ranks(self):
        self.assertEqual(self.dmg(self.rig, "pool", "extend", "p1", "--ranks", "2").stdout, "Extend command succeeded\n")
        self.assertIsNone(self.answer("pool", "extend", "p1", "--ranks", "2"))
        self.refused("there is no rank 9", "pool", "extend", "p1", "--ranks", "9")
        self.assertEqual(self.answer("pool", "query", "-e", "p1")["enabled_ranks"], [0, 1, 2])
        self.rig.fathom("volume", "create", "p1/a", "4M", "--ranks", "0")
        self.ranks("exclude", "2")
        self.assertEqual([self.answer("pool", "query", "p1")[key] for key in ("state", "disabled_ranks")], ["TargetsExcluded", [2]])
        self.compare()
        self.ranks("reintegrate", "2")
        self.ranks("drain", "0")
        self.rig.wait_until(lambda: self.volume()["rank"] != 0 and self.share(0) == "drained", "rank 0 is drained")
        self.refused("no other rank of pool", "pool", "drain", "p1", "--ranks", "1-2")
        self.ranks("reintegrate", "0")

    def check_absent(self):
        for words in (["container", "set-owner", "p1", "a", "--user", "bob@"], ["pool", "query-targets", "p1", "--rank", "0"],
                      ["pool", "upgrade", "p1"], ["pool", "rebuild", "start", "p1"], ["system", "cleanup", "host"]):
            self.refused("is not here: ", *words)

    def test_dmg_administers_pools(self):
        self.rig = self.system(3)
        self.create()
        self.compare()
        self.check_properties()
        self.check_access()
        self.check_ranks()
        self.check_absent()
        self.rig.fathom("volume", "publish", "p1/a", self.HOST)
        self.assertEqual(len(self.volume()["hosts"]), 1)
        self.assertEqual(self.dmg(self.rig, "pool", "evict", "p1").stdout, "Pool-evict command succeeded\n")
        self.assertEqual(self.volume()["hosts"], [])
        self.assertIsNone(self.answer("pool", "evict", "p1"))
        self.refused("unable to find pool service", "pool", "evict", "nosuch")
        self.refused("is not empty", "pool", "destroy", "p1")
        self.assertEqual(self.dmg(self.rig, "pool", "destroy", "p1", "--recursive").stdout, "Pool-destroy command succeeded\n")
        self.assertIsNone(self.answer("pool", "destroy", "new", "--force"))
        self.refused("unable to find pool service", "pool", "destroy", "p1")
        self.assertEqual(self.dmg(self.rig, "pool", "list").stdout, "No pools in system\n")


@unittest.skipUnless(AGENT, "daos_agent is not in the PATH")
class Agent(SystemTest):
    def test_daos_agent_gets_the_addresses_of_the_engines(self):
        system = self.system(2)
        config = os.path.join(self.directory, "agent.yml")
        with open(config, "w") as file:
            file.write(f"name: test\nport: {system.port}\naccess_points: ['127.0.0.1']\nruntime_dir: {self.directory}\n"
                       "transport_config: {allow_insecure: true}\n")
        done = subprocess.run([AGENT, "-i", "-o", config, "dump-attachinfo", "-j"], capture_output=True, text=True, timeout=60)
        text = done.stdout + done.stderr
        for port in system.ports:
            self.assertIn(f"127.0.0.1:{port}", text)


if __name__ == "__main__":
    unittest.main()
