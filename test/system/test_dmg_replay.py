# SPDX-License-Identifier: BSD-2-Clause
"""
What DAOS's dmg once asked its server (test/unit/grpc/dmg-calls.txt), asked of a real fathom-server with a real engine, in the same
order and byte for byte. The answers have the same status, decode, and have the same fields set; their values are this host's.

Not replayed: calls about pools, which are of a later part, and one that was asked in the moment in which DAOS's database starts.
"""

import os
import time
import unittest

from harness import TOP
from server_rig import Refused, ServerTest, need

CALLS = os.path.join(TOP, "test", "unit", "grpc", "dmg-calls.txt")
OTHER_PART = ("PoolCreate", "PoolQuery", "PoolDestroy")
A_MOMENT_OF_DAOS = "raft service unavailable (not started yet?)"

# A number that is 0 is not on the wire. These may be 0 here, and are not to be told from those that were not set.
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
# Fields from this number on are Fathom's own: whoever does not know them passes over them.
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
        theirs = server.answer_of(module, method).FromString(response)
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
                server.joined()
        self.assertEqual(queries, 3)
        self.assertEqual(len(done), 20, done)


if __name__ == "__main__":
    unittest.main()
