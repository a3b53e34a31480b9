# SPDX-License-Identifier: BSD-2-Clause
"""
`fathom` prints for recorded answers the same as dmg, except DIFFERENCES.

recorded.json: commands of dmg 2.9.100, the answer to each of their calls, and their output.
"""

import base64
import json
import os
import unittest

import grpc

from fake_server import FakeServer, Failure, protocols
from rig import HERE, CommandTest

with open(os.path.join(HERE, "recorded.json")) as file:
    RECORDED = json.load(file)

MGMT = protocols()["mgmt"]

# Differences in the words of commands and of the output. All other bytes are equal.
COMMANDS = [
    ("server-version", "server version", "a command of `fathom server`"),
]
NO_POOL = ('ERROR: fathom: volumes: code = 1252 description = "unable to find pool service with label \\"nosuch\\""\n'
           'ERROR: fathom: volumes: code = 1252 resolution = "run `fathom pool list`, which lists the pools"')
NO_POOL_JSON = (r'"error": "volumes: code = 1252 description = \"unable to find pool service with label \\\"nosuch\\\"\"",' '\n  "status": -1025,\n'
                r'  "faults": [{"domain": "volumes", "code": 1252, "description": "unable to find pool service with label \"nosuch\"", '
                '"resolution": "run `fathom pool list`, which lists the pools"}]\n}')
DIFFERENCES = [
    # dmg's, ours, why
    ("DAOS Control Server", "Fathom Control Server", "the product's name"),
    ("DAOS system name (daos_system)        ", "System name (daos_system)             ", "the product's name; the column is as wide as the longest"),
    ("DAOS version (daos_version)        ", "System version (daos_version)      ", "the product's name"),
    ('"description": "DAOS system name"', '"description": "System name"', "the product's name"),
    ('"description": "DAOS version"', '"description": "System version"', "the product's name"),
    ('"system query failed: rpc error: code = Unknown desc = system is uninitialized (storage format required?)",\n  "status": -1025\n}',
     r'"server: code = 650 description = \"the system is not formatted\"",' '\n  "status": -1025,\n  "faults": [{"domain": "server", "code": 650, "description": "the system is not formatted", "resolution": '
     '"run `fathom storage format`; if it was formatted just now, its engines are starting: try again in a few seconds"}]\n}', "a fault with a code, what to do about it"),
    ("ERROR: dmg: system query failed: rpc error: code = Unknown desc = system is uninitialized (storage format required?)",
     'ERROR: fathom: server: code = 650 description = "the system is not formatted"\n'
     'ERROR: fathom: server: code = 650 resolution = "run `fathom storage format`; if it was formatted just now, its engines are starting: try again in a few seconds"', "a fault with a code, the program's name"),
    ("/mnt/scm0", "/mnt/fastpool/s0", "the recording shows another path than the answer in it has"),
    ("Creating DAOS pool with automatic storage allocation: 1.0 GB total, 6.00% storage tier ratio\n", "", "what the user requested"),
    ("ERROR: dmg: pool create failed: server:", "ERROR: fathom: server:", "the program's name"),
    ("ERROR: dmg: server: code = 609", "ERROR: fathom: server: code = 609", "the program's name"),
    ('ERROR: dmg: pool query failed: unable to find pool service with label "nosuch"', NO_POOL, "a fault with a code, the program's name"),
    ('ERROR: dmg: unable to find pool service with label "nosuch"', NO_POOL, "a fault with a code, the program's name"),
    ('ERROR: dmg: pool destroy failed: unable to find pool service with label "nosuch"', NO_POOL, "a fault with a code, the program's name"),
    (r'"error": "unable to find pool service with label \"nosuch\"",' + '\n  "status": -1025\n}', NO_POOL_JSON, "a fault with a code"),
    ('Pool-destroy command failed: pool destroy failed: unable to find pool service with label "nosuch"\n', "", "an error is printed on standard error only"),
    ('"self_heal_policy": "exclude;rebuild"', '"self_heal_policy": ""', "dmg queries this property for its JSON"),
]
NOT_CALLED = "/mgmt.MgmtSvc/PoolGetProp"  # by fathom, which shows the policy of the answer
POOL_UUID = "0b0f021e-718f-410f-98f7-f3011f7f2e3c"


def words_of(command):
    for theirs, ours, _ in COMMANDS:
        command = command.replace(theirs, ours)
    return [word for word in command.split()]


def answer(call):
    if call["status"]:
        details = call.get("details")
        return Failure({code.value[0]: code for code in grpc.StatusCode}[call["status"]], call["message"],
                       base64.b64decode(details + "=" * (-len(details) % 4)) if details else None)
    own = MGMT.PoolCreateResp(uuid=POOL_UUID).SerializeToString() if call["path"] == "/mgmt.MgmtSvc/PoolCreate" else b""    # dmg knows its own
    return bytes.fromhex(call["response"]) + own


class Recorded(CommandTest):
    def ours(self, text):
        for theirs, ours, _ in DIFFERENCES:
            text = text.replace(theirs, ours)
        return text

    def play(self, recorded):
        answers = {}
        for call in recorded["calls"]:
            answers.setdefault(call["path"], []).append(answer(call))
        with FakeServer(answers) as server:
            done = self.fathom(server, *words_of(recorded["command"]), status=recorded["exit_status"])
            return done.stdout.replace(f"127.0.0.1:{server.port}", "127.0.0.1:10002"), done.stderr, [method for method, _, _ in server.calls]

    def compare_json(self, theirs, ours):
        """Compare values and keys in any order. The numbers of groups of hosts may differ."""
        theirs, ours = json.loads(theirs), json.loads(ours)
        for name in ("HostStorage", "HostFabrics"):
            for said in (theirs, ours):
                if isinstance(said["response"], dict) and name in said["response"]:
                    said["response"][name] = list(said["response"][name].values())
        for said in (theirs, ours):     # dmg prints properties in random order
            if isinstance(said["response"], list):
                said["response"].sort(key=lambda one: one["key"])
        self.assertEqual(ours, theirs)

    def test_each_recorded_command_prints_the_same(self):
        self.assertGreater(len(RECORDED), 25)
        for number, recorded in enumerate(RECORDED):
            with self.subTest(number=number, command=recorded["command"]):
                wanted = self.ours("\n".join(recorded["stdout"]))
                said, errors, asked = self.play(recorded)
                if recorded["command"] == "system get-attr":
                    # dmg prints internal structures around this table
                    wanted = "Name Value \n---- ----- \na    b     \n"
                if recorded["command"].startswith("-j"):
                    self.compare_json(wanted, said)
                else:
                    self.assertEqual(said, wanted)
                self.assertEqual(errors, self.ours(recorded["stderr"]).replace("\n\n", "\n"))
                wanted_calls = [call["path"] for call in recorded["calls"] if call["path"] != NOT_CALLED]
                if recorded["command"] == "storage format":
                    # dmg queries running ranks first, which we do only with --force; and we wait for the engines
                    wanted_calls = [*wanted_calls[1:], "/fathom.ControlSvc/EngineQuery"]
                self.assertEqual(asked, wanted_calls)

    def test_each_listed_difference_occurs(self):
        """A difference that no longer occurs must be removed."""
        everything = "".join("\n".join(recorded["stdout"]) + recorded["stderr"] for recorded in RECORDED)
        for theirs, _, _ in DIFFERENCES:
            self.assertIn(theirs, everything)


if __name__ == "__main__":
    unittest.main()
