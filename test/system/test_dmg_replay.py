# SPDX-License-Identifier: BSD-2-Clause
"""
What DAOS's dmg once asked its server (test/unit/rpc/grpc/dmg-calls.txt), asked of a real fathom-server with a real engine, in the same
order and byte for byte. The answers have the same status, decode, and have the same fields set; their values are this host's.

Calls about pools get the fault of docs/dmg.md. Not replayed is one that was asked in the moment in which DAOS's database starts.
"""

import os
import re
import subprocess
import time
import unittest

from harness import TOP
from server_rig import Refused, ServerTest, skip_without_grpc

CALLS = os.path.join(TOP, "test", "unit", "rpc", "grpc", "dmg-calls.txt")
OTHER_PART = ("PoolCreate", "PoolQuery", "PoolDestroy")
A_MOMENT_OF_DAOS = "raft service unavailable (not started yet?)"

# protobuf does not send a number that is 0. These may be 0 here, and then look like numbers that were not set.
MAY_BE_ZERO = {
    "StorageScan": {"sys_mem_info.hugepages_total", "sys_mem_info.hugepages_free", "sys_mem_info.hugepages_surplus",
                    "sys_mem_info.numa_nodes.hugepages_total", "sys_mem_info.numa_nodes.hugepages_free",
                    "sys_mem_info.numa_nodes.hugepages_surplus", "sys_mem_info.hugepages_reserved",
                    "sys_mem_info.numa_nodes.numa_node_index"},
    "NetworkScan": {"interfaces.priority", "interfaces.numanode"},  # with one provider, all have the first priority
    "GetAttachInfo": {"build_info.major", "build_info.minor", "build_info.patch", "client_net_hint.srv_srx_set"},
    "SystemStop": {"results.rank"},
    "SystemStart": {"results.rank"},
    "SystemQuery": {"members.rank"},
}
# What the recorded host did not have, and this one may: NVMe devices.
MAY_BE_MORE = {"StorageScan": "nvme.ctrlrs"}
# Fields from this number on are Fathom's own: other programs skip them.
OWN_FIELDS = 1000


def recorded():
    """(path, timeout, status, request, response, message) of each call."""
    with open(CALLS) as f:
        for line in f:
            if not line.startswith("#"):
                path, _, status, request, response, message, _ = line.rstrip("\n").split("\t")
                yield path, int(status), bytes.fromhex(request.replace("-", "")), bytes.fromhex(response.replace("-", "")), message


def fields(message, prefix=""):
    """The paths of all that is set, those of repeated messages taken together."""
    found = set()
    for field, value in message.ListFields():
        if field.number >= OWN_FIELDS:
            continue
        path = prefix + field.name
        found.add(path)
        is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
        if field.message_type is None or is_map:
            continue
        for one in value if field.label == field.LABEL_REPEATED else [value]:
            found |= fields(one, path + ".")
    return found


class Replaying(ServerTest):
    def request_of(self, module, method):
        return getattr(module, method + "Req")

    def assert_same_fields(self, method, ours, theirs):
        zero, more = MAY_BE_ZERO.get(method, set()), MAY_BE_MORE.get(method)
        ours, theirs = fields(ours) - zero, fields(theirs) - zero
        if more:
            ours = {path for path in ours if not path.startswith(more)}
        self.assertEqual(ours, theirs, method)

    def replay(self, server, path, status, request, response, message):
        """Our answer, or None where the recorded one is an error."""
        module = {"ctl": self.messages.ctl, "mgmt": self.messages.mgmt}[path[1:].split(".")[0]]
        method = path.split("/")[-1]
        known = self.request_of(module, method).FromString(request)
        self.assertEqual(known.SerializeToString(deterministic=True) == b"", request == b"")
        if status:
            with self.assertRaises(Refused) as refused:
                server.call(path, None, raw=request)
            codes = {"UNKNOWN": 2, "INTERNAL": 13}
            self.assertEqual((codes.get(refused.exception.code), refused.exception.text), (status, message))
            return None
        ours = server.call(path, None, raw=request, timeout=60)
        theirs = server.answer_of(path).FromString(response)
        self.assert_same_fields(method, ours, theirs)
        return ours, theirs

    def test_each_recorded_call_gets_an_answer_with_the_same_fields(self):
        server = self.server(size="16MiB", keys="provider: ofi+tcp\n").start()
        done, queries = [], 0
        for path, status, request, response, message in recorded():
            method = path.split("/")[-1]
            if method in OTHER_PART or message == A_MOMENT_OF_DAOS:
                continue
            if method == "SystemQuery" and status == 0:
                # dmg asked when things had settled
                states = self.messages.mgmt.SystemQueryResp.FromString(response).members[0].state
                server.wait_members(states)
                queries += 1
            with self.subTest(call=f"{len(done) + 1} {method}"):
                pair = self.replay(server, path, status, request, response, message)
                if pair and method in ("SystemStop", "SystemStart"):
                    ours, theirs = pair
                    self.assertEqual([(row.rank, row.action, row.state, row.errored, row.msg) for row in ours.results],
                                     [(row.rank, row.action, row.state, row.errored, row.msg) for row in theirs.results])
                if pair and method in ("SystemGetAttr", "SystemSetAttr"):
                    self.assertEqual(*pair)
                if pair and method == "SystemGetProp":
                    self.assertLessEqual(set(pair[1].properties) - {"daos_version", "daos_system"}, set(pair[0].properties))
            done.append(method)
            if method == "StorageFormat":
                server.wait_joined()
        self.assertEqual(queries, 3)
        self.assertEqual(len(done), 20, done)

    def assert_absent(self, server, path, request, command):
        """docs/dmg.md has both texts of the fault."""
        with self.assertRaises(Refused) as refused:
            server.call(path, None, raw=request, answer=self.messages.mgmt.DaosResp)
        fault = refused.exception.fault
        self.assertEqual(fault.get("Code"), "567")
        with open(os.path.join(TOP, "docs", "dmg.md")) as file:
            words = re.search(rf"(?m)^\| `{command}(?: [a-z]+)?` \| - \| not here: (.*)\. Instead: (.*) \|$", file.read())
        self.assertTrue(words, command)
        self.assertEqual((fault["Description"], fault["Resolution"]), (f"`dmg {command}` is not here: {words[1]}", words[2]))

    def test_what_is_not_here_is_refused_with_what_to_do_instead(self):
        server = self.server(engines=0).start()
        asked = 0
        for path, _, request, _, _ in recorded():
            method = path.split("/")[-1]
            if method in OTHER_PART:
                self.assert_absent(server, path, request, "pool " + method[4:].lower())
                asked += 1
        self.assertEqual(asked, len(OTHER_PART))
        # by the field that is set: a message of that number
        for request, command in ((b"\x0a\x00", "storage led"), (b"\x12\x00", "storage replace nvme"), (b"\x1a\x00", "storage set nvme-faulty"),
                                 (b"", "storage set nvme-faulty")):
            self.assert_absent(server, "/ctl.CtlSvc/SmdManage", request, command)
        for request, command in ((b"\x0a\x01x", "system drain"), (b"\x0a\x01x\x20\x01", "system reintegrate")):
            self.assert_absent(server, "/mgmt.MgmtSvc/SystemDrain", request, command)
        self.assert_absent(server, "/mgmt.MgmtSvc/SystemCheckStart", b"", "check start")

    def test_every_method_of_the_table_is_answered(self):
        """None of them is a bare UNIMPLEMENTED."""
        server = self.server(engines=0).start()
        rows = subprocess.run([os.path.join(TOP, "src/control/operation/generate.py"), "--print", "absent-list"], stdout=subprocess.PIPE, text=True, check=True)
        methods = {line.split()[0] for line in rows.stdout.splitlines()}
        self.assertGreater(len(methods), 30)
        for method in methods:
            with self.assertRaises(Refused) as refused:
                server.call(f"/{method}", None, raw=b"", answer=self.messages.mgmt.DaosResp)
            self.assertEqual(refused.exception.fault.get("Code"), "567", method)


if __name__ == "__main__":
    unittest.main()
