# SPDX-License-Identifier: BSD-2-Clause
"""
dmg - DAOS's own tools against our server, where they are found by PATH: `dmg` in insecure and in certificate mode, its --json
beside that of our own command; `daos_agent`'s question for attach information. Otherwise it says that it was skipped.
"""

import json
import os
import re
import shutil
import subprocess
import unittest

from control_rig import SystemTest, make_certificates, transport
from harness import run

DMG = shutil.which("dmg")
AGENT = shutil.which("daos_agent")
DMG_VERSION = tuple(int(number) for number in re.findall(r"\d+", run(DMG, "version").stdout)[:2]) if DMG else ()
# What both have; `fathom` has the same words for them.
COMMANDS = (["system", "query"], ["system", "query", "-v"], ["system", "leader-query"], ["system", "get-prop"], ["system", "get-attr"],
            ["storage", "scan"], ["storage", "query", "usage"], ["storage", "query", "list-devices"], ["network", "scan"])


# Tables that are not the same: a header behind Go's own %!s() instead of one, and properties in no order.
UNLIKE = ("get-attr", "get-prop")
MOMENTARY = ("mem_free_kb", "mem_available_kb", "mem_used_kb", "avail_bytes", "usable_bytes")


def comparable(value):
    """Hosts' answers lie under a hash, which each program makes in its own way; dmg shows properties in no order,
    and has DAOS's name in what it says of two of them; memory and space are as of another moment."""
    if isinstance(value, dict):
        if value and all(re.fullmatch(r"\d{6,}", key) for key in value):
            return sorted((comparable(one) for one in value.values()), key=json.dumps)
        return {key: 0 if key in MOMENTARY else comparable(one) for key, one in value.items()
                if not (key == "description" and str(value.get("key")).startswith("daos_"))}
    if isinstance(value, list):
        return sorted((comparable(one) for one in value), key=lambda one: one["key"] if isinstance(one, dict) and "key" in one else "")
    return value


def known_to(theirs, ours):
    """Without the fields and properties of ours that a dmg before 2.8 did not have yet."""
    if DMG_VERSION >= (2, 8):
        return ours
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return {key: known_to(theirs[key], value) for key, value in ours.items() if key in theirs}
    if isinstance(theirs, list) and isinstance(ours, list):
        keys = {one["key"] for one in theirs if isinstance(one, dict) and "key" in one}
        ours = [one for one in ours if not keys or one["key"] in keys]
        return [known_to(*pair) for pair in zip(theirs, ours)] if len(theirs) == len(ours) else ours
    return ours


class Dmg(SystemTest):
    def setUp(self):
        super().setUp()
        if not DMG:
            self.skipTest("dmg is not in the PATH")

    def dmg(self, system, *words, check=True):
        return run(DMG, "-o", system.client_config, *words, check=check, timeout=60)

    def drive(self, system):
        """From nothing to joined, by dmg alone; then every command by both."""
        done = self.dmg(system, "system", "query", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("system is uninitialized (storage format required?)", done.stderr)
        self.assertRegex(self.dmg(system, "storage", "format").stdout, r"(?m)^ *127\.0\.0\.1 +2 +0 *$")
        system.until(lambda: self.dmg(system, "system", "query", check=False).stdout.count("Joined") >= 1, "dmg sees ranks")
        system.until_states("joined")
        self.assertRegex(self.dmg(system, "system", "query").stdout, r"\[0-1\] +Joined")
        self.dmg(system, "system", "set-attr", "who:dmg")
        for words in COMMANDS:
            theirs, ours = (comparable(json.loads(text)) for text in (self.dmg(system, "-j", *words).stdout,
                                                                      system.fathom(*words, "--json").stdout))
            self.assertEqual(theirs, known_to(theirs, ours), " ".join(words))
            if words[1] not in UNLIKE:
                self.assertEqual(self.dmg(system, *words).stdout, system.fathom(*words).stdout, " ".join(words))
        self.dmg(system, "system", "del-attr", "who")
        self.assertEqual(self.dmg(system, "system", "stop").stdout, "Rank  Operation Result \n----  --------- ------ \n[0-1] stop      OK     \n\n")
        self.assertEqual(set(system.states().values()), {"stopped"})
        self.dmg(system, "system", "start")
        system.until_states("joined")
        self.dmg(system, "system", "exclude", "--ranks", "1")
        self.assertEqual(system.states()[1], "adminexcluded")
        self.dmg(system, "system", "clear-exclude", "--ranks", "1")
        self.dmg(system, "server", "set-logmasks", "--masks", "DEBUG")

    def test_without_certificates(self):
        self.drive(self.system(2, formatted=False))

    def test_with_certificates(self):
        folder = make_certificates(os.path.join(self.directory, "certs"))
        system = self.system(2, transport(folder, "server", tls12=True), formatted=False, start=False)
        system.be(folder, "admin")
        system.start()
        self.drive(system)


@unittest.skipUnless(AGENT, "daos_agent is not in the PATH")
class Agent(SystemTest):
    def test_it_hears_where_engines_are(self):
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
