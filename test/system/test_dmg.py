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
            ["storage", "scan"], ["storage", "query", "usage"], ["storage", "query", "list-devices"], ["network", "scan"])


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


class Dmg(SystemTest):
    def setUp(self):
        super().setUp()
        if not DMG:
            self.skipTest("dmg is not in the PATH")

    def dmg(self, system, *words, check=True):
        return run(DMG, "-o", system.client_config, *words, check=check, timeout=60)

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
                self.assertEqual(self.dmg(system, *words).stdout, system.fathom(*words).stdout, " ".join(words))
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
