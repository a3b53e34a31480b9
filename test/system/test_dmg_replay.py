# SPDX-License-Identifier: BSD-2-Clause
"""
Replays the calls that DAOS's dmg once sent to its server (test/unit/rpc/grpc/dmg-calls.txt) to a real fathom-server with a real engine,
in the same order and byte for byte. Each reply has the recorded status, decodes, and sets the same fields; the values are this host's.

One call is not replayed: dmg sent it while DAOS's database was starting. Calls that Fathom lacks get the fault of docs/dmg.md.
"""

import os
import re
import subprocess
import time
import unittest

from harness import TOP
from server_rig import Refused, ServerTest, skip_without_grpc

CALLS = os.path.join(TOP, "test", "unit", "rpc", "grpc", "dmg-calls.txt")
POOL_CALLS = os.path.join(TOP, "test", "unit", "rpc", "grpc", "dmg-pool-calls.txt")
DAOS_IS_STARTING = "raft service unavailable (not started yet?)"

# protobuf does not send a number that is 0: these fields look unset where their value is 0 on this host.
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
# The recorded host had no NVMe devices, and its fake engine gave no properties of pools.
MAY_BE_MORE = {"StorageScan": "nvme.ctrlrs", "ListPools": "pools.rebuild_state", "PoolGetProp": "properties"}
# Fields from this number on are Fathom's own; other programs skip them.
OWN_FIELDS = 100


def recorded():
    """(path, status, request, response, message) of each recorded call."""
    with open(CALLS) as f:
        for line in f:
            if not line.startswith("#"):
                path, _, status, request, response, message, _ = line.rstrip("\n").split("\t")
                yield path, int(status), bytes.fromhex(request.replace("-", "")), bytes.fromhex(response.replace("-", "")), message


def pool_calls():
    """(command, path, status, request, response, message) of each call about pools."""
    with open(POOL_CALLS) as file:
        for line in file:
            if not line.startswith("#"):
                command, path, status, request, response, message = line.rstrip("\n").split("\t")
                yield command, path, status, bytes.fromhex(request.replace("-", "")), bytes.fromhex(response.replace("-", "")), message


def without_own_fields(message):
    """The message, of which Fathom's own fields are removed."""
    for field, value in message.ListFields():
        if field.number >= OWN_FIELDS:
            message.ClearField(field.name)
        elif field.message_type is not None:
            for one in value if field.label == field.LABEL_REPEATED else [value]:
                without_own_fields(one)
    return message


def fields(message, prefix=""):
    """The paths of all fields that are set; those of repeated messages are merged."""
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
        """(our reply, the recorded reply). None if the recorded reply is an error; ours has to be the same."""
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
            if message == DAOS_IS_STARTING:
                continue
            if method == "SystemQuery" and status == 0:
                # dmg sent this call after the ranks had reached these states
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
        self.assertEqual(len(done), 31, done)

    def test_each_call_about_pools_gets_the_bytes_that_dmg_accepted(self):
        """Among them calls for the properties, access control lists and ranks of a pool, good and bad ones."""
        server = self.server(engines=3, name="test").start()
        server.format()
        server.wait_joined()
        commands = set()
        for command, path, status, request, response, message in pool_calls():
            with self.subTest(command=command):
                try:
                    answer = server.call(path, None, raw=request, timeout=60, answer=None if status == "0" else self.messages.mgmt.DaosResp)
                    said = "0", without_own_fields(answer).SerializeToString(deterministic=True), ""
                except Refused as refused:
                    said = "13" if refused.code == "INTERNAL" else refused.code, b"", refused.text
                self.assertEqual(said, (status, response, message))
            commands.add(command.split()[1])
        self.assertGreaterEqual(commands, {"create", "destroy", "get-prop", "set-prop", "get-acl", "overwrite-acl", "update-acl", "delete-acl",
                                           "extend", "exclude", "drain", "reintegrate", "evict", "set-owner"})

    def test_properties_and_evictions_in_the_form_of_dmg(self):
        """`dmg pool set-prop p1 label:p2,scrub:off`, `pool get-prop p2`, `pool evict p2`."""
        server = self.server(size="256MiB").start()
        server.format()
        server.wait_joined()
        mgmt, fathom, host = self.messages.mgmt, self.messages.fathom, "nqn.2014-08.org.nvmexpress:uuid:11111111-1111-4111-8111-111111111111"

        def call(method, request):
            return server.call("/mgmt.MgmtSvc/" + method, request, timeout=60)

        call("PoolCreate", mgmt.PoolCreateReq(properties=[mgmt.PoolProperty(number=1, strval="p1")]))
        for method, fields in (("VolumeCreate", {"size_bytes": 1 << 20}), ("VolumePublish", {"host": host})):
            server.call("/fathom.ControlSvc/" + method, getattr(fathom, method + "Req")(name="p1/a", **fields), timeout=60)
        call("PoolSetProp", mgmt.PoolSetPropReq(id="p1", properties=[mgmt.PoolProperty(number=1, strval="p2"), mgmt.PoolProperty(number=16, numval=0)]))
        path, _, request, _, _ = next(row for row in recorded() if row[0].endswith("PoolGetProp") and len(row[2]) > 100)
        asked = mgmt.PoolGetPropReq.FromString(request)
        asked.sys, asked.id = "", "p2"
        answer = server.call(path, asked)
        self.assertEqual([(row.number, row.strval or row.numval) for row in answer.properties], [(1, "p2"), (16, 0), (17, 604800)])
        with self.assertRaises(Refused) as refused:
            call("PoolSetProp", mgmt.PoolSetPropReq(id="p2", properties=[mgmt.PoolProperty(number=10, numval=1)]))
        self.assertEqual(refused.exception.fault.get("Code"), "1277")
        volume, = server.call("/fathom.ControlSvc/VolumeList", fathom.VolumeListReq(), timeout=60).volumes
        self.assertEqual((volume.name, len(volume.hosts)), ("p2/a", 1))
        self.assertEqual([row.uuid for row in server.call("/mgmt.MgmtSvc/ListContainers", mgmt.ListContReq(id="p2"), answer=mgmt.ListContResp).containers],
                         [volume.uuid])
        answer = call("PoolEvict", mgmt.PoolEvictReq(id="p2"))
        self.assertEqual((answer.status, answer.count), (0, 1))
        self.assertEqual(call("PoolEvict", mgmt.PoolEvictReq(id="p2")).count, 0)

    def assert_absent(self, server, path, request, command):
        """The call is refused with the description and the resolution that docs/dmg.md has."""
        with self.assertRaises(Refused) as refused:
            server.call(path, None, raw=request, answer=self.messages.mgmt.DaosResp)
        fault = refused.exception.fault
        self.assertEqual(fault.get("Code"), "567")
        with open(os.path.join(TOP, "docs", "dmg.md")) as file:
            words = re.search(rf"(?m)^\| `{command}(?: [a-z]+)?` \| - \| not here: (.*)\. Instead: (.*) \|$", file.read())
        self.assertTrue(words, command)
        self.assertEqual((fault["Description"], fault["Resolution"]), (f"`dmg {command}` is not here: {words[1]}", words[2]))

    def test_calls_that_fathom_lacks_are_refused_with_an_alternative(self):
        server = self.server(engines=0).start()
        self.assert_absent(server, "/mgmt.MgmtSvc/ContSetOwner", b"", "container set-owner")
        # the number of the field that is set selects the command
        for request, command in ((b"\x12\x00", "storage replace nvme"), (b"\x1a\x00", "storage set nvme-faulty"),
                                 (b"", "storage set nvme-faulty")):
            self.assert_absent(server, "/ctl.CtlSvc/SmdManage", request, command)
        for request, command in ((b"\x0a\x01x", "system drain"), (b"\x0a\x01x\x20\x01", "system reintegrate")):
            self.assert_absent(server, "/mgmt.MgmtSvc/SystemDrain", request, command)
        self.assert_absent(server, "/mgmt.MgmtSvc/SystemCheckStart", b"", "check start")

    def test_lamps_in_the_form_of_dmg(self):
        """`dmg storage led check`, `check 0000:99:00.0`, `identify --timeout 5 0000:99:00.0`, in bytes."""
        server = self.server(engines=0).start()
        path, ctl = "/ctl.CtlSvc/SmdManage", self.messages.ctl
        for raw, ids, action in ((b"\x0a\x00", "", "GET"), (b"\x0a\x0e\x0a\x0c0000:99:00.0", "0000:99:00.0", "GET"),
                                 (b"\x0a\x14\x0a\x0c0000:99:00.0\x18\x01\x20\x01\x28\x05", "0000:99:00.0", "SET")):
            request = ctl.SmdManageReq.FromString(raw).led
            self.assertEqual((request.ids, ctl.LedAction.Name(request.led_action)), (ids, action))
            if ids:
                with self.assertRaises(Refused) as refused:
                    server.call(path, None, raw=raw)
                self.assertEqual(refused.exception.fault.get("Code"), "175")
            else:       # this host's drives, of which the helper of an ordinary installation may not be there
                try:
                    for rank in server.call(path, None, raw=raw, timeout=60).ranks:
                        self.assertEqual([(result.status, bool(result.device.ctrlr.pci_addr)) for result in rank.results], [(0, True)])
                except Refused as refused:
                    self.assertRegex(refused.fault.get("Code", "-"), "-|4|5[012]")
        self.assertEqual((request.led_state, request.led_duration_mins), (ctl.QUICK_BLINK, 5))

    def test_every_absent_method_is_refused_with_its_fault(self):
        """A bare UNIMPLEMENTED would not say what to use instead."""
        server = self.server(engines=0).start()
        rows = subprocess.run([os.path.join(TOP, "src/control/operation/generate.py"), "--print", "absent-list"], stdout=subprocess.PIPE, text=True, check=True)
        methods = {line.split()[0] for line in rows.stdout.splitlines()}
        self.assertGreater(len(methods), 10)
        for method in methods:
            with self.assertRaises(Refused) as refused:
                server.call(f"/{method}", None, raw=b"", answer=self.messages.mgmt.DaosResp)
            self.assertEqual(refused.exception.fault.get("Code"), "567", method)


if __name__ == "__main__":
    unittest.main()
