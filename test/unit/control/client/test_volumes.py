# SPDX-License-Identifier: BSD-2-Clause
"""`fathom volume` and `fathom host` against servers that answer as the test orders."""

import json
import unittest

import grpc

from fake_server import FakeServer, Failure, Slow, fault, protocols
from rig import CommandTest

OURS = protocols()["fathom"]
METHODS = {name: f"/fathom.ControlSvc/{name}" for name in (
    "VolumeCreate", "VolumeList", "VolumeResize", "VolumeSetProp", "VolumeRename", "VolumeMove", "VolumeDestroy", "VolumePublish", "VolumeUnpublish", "SnapshotCreate",
    "SnapshotDestroy", "SnapshotRestore", "SnapshotChanges")}
NO_RANK = 2**32 - 1
KEY = "00000000-0000-4000-8000-00000000007c"
SECOND = 10**9
SINCE = 1795880000 * SECOND
HOSTS = ("nqn.2014-08.org.nvmexpress:uuid:1", "nqn.2014-08.org.nvmexpress:uuid:2")


def host(place, connections=0, machine=""):
    at = dict(since_ns=SINCE + 60 * SECOND, address="10.0.0.9:40000") if connections else {}
    return OURS.Volume.Host(nqn=HOSTS[place], connections=connections, machine=machine, **at)


def snapshot(name, **kwargs):
    return OURS.Volume.Snapshot(name=name, uuid="00000000-0000-4000-8000-00000000005a", size_bytes=100 << 30, created_ns=SINCE + len(name) * SECOND,
                                group_uuid="00000000-0000-4000-8000-00000000006b", allocated_bytes=1 << 30, **kwargs)


def volume(name="p1/db", **kwargs):
    values = dict(name=name, uuid="00000000-0000-4000-8000-000000000001", pool_uuid="00000000-0000-4000-8000-000000000002", state="ready", since_ns=SINCE,
                  rank=1, rank_state="joined", size_bytes=100 << 30, block_bytes=4096, allocated_bytes=5 * 10**9, created_ns=SINCE, asked_ns=SINCE,
                  nqn="nqn.2026-01.io.fathom:volume:1", addresses=["10.0.0.1:4420", "[fd00::1]:4420"])
    return OURS.Volume(**dict(values, **kwargs))


PLACED = dict(domain="/rack0/node1", placed_by="least I/O", placed_of=3, placed_free_bytes=90 * 10**9, placed_volumes=3, placed_published=1,
              placed_operations=12, placed_bytes=4100000)
BUSY = volume(hosts=[host(1), host(0, connections=2)], snapshots=[snapshot("tuesday"), snapshot("monday")], thick=True, checksums=True, origin="base@golden",
              **PLACED)
CLONE = volume("p1/clone", origin="db@monday", placed_by="rank of its origin", domain="/rack0/node1")
WAITING = volume("p1/log", state="creating", pending="create", pending_ns=SINCE, reason="rank 2 is stopped", rank=NO_RANK, asked_ns=0, nqn="", addresses=[])


class VolumeTest(CommandTest):
    def request(self, method, *words, answer=None):
        """The request that a command makes."""
        single = method.startswith("Volume")
        answer = answer or (OURS.VolumeResp(volume=volume()) if single else OURS.SnapshotResp(volumes=[volume()]))
        with FakeServer({METHODS[method]: answer}) as server:
            self.fathom(server, *words)
            request, = server.requests(METHODS[method], getattr(OURS, method + "Req"))
        self.assertRegex(request.sys, r"^fathom-\d")
        request.sys = ""
        return request


class Requests(VolumeTest):
    def test_arguments_and_options_become_fields(self):
        for words, request in (
                (("volume", "create", "p1/db", "100G"), OURS.VolumeCreateReq(name="p1/db", size_bytes=100 << 30)),
                (("volume", "create", "p1/db", "512M", "--thick", "--block-size", "512", "--ranks", "0-3", "--checksums", "--uuid", "u"),
                 OURS.VolumeCreateReq(name="p1/db", size_bytes=512 << 20, thick=True, block_bytes=512, ranks="0-3", checksums=True, uuid="u")),
                (("volume", "create", "p1/db", "--from", "p1/base@golden"), OURS.VolumeCreateReq(name="p1/db", **{"from": "p1/base@golden"})),
                (("volume", "resize", "p1/db", "2TiB"), OURS.VolumeResizeReq(name="p1/db", size_bytes=2 << 40)),
                (("volume", "resize", "p1/db", "4096", "-f"), OURS.VolumeResizeReq(name="p1/db", size_bytes=4096, force=True)),
                (("volume", "set-prop", "p1/db", "thick=on", "description=a b"),
                 OURS.VolumeSetPropReq(name="p1/db", properties=["thick=on", "description=a b"])),
                (("volume", "rename", "p1/db", "log"), OURS.VolumeRenameReq(name="p1/db", new_name="log")),
                (("volume", "move", "p1/db", "--to", "3"), OURS.VolumeMoveReq(name="p1/db", rank=3)),
                (("volume", "move", "p1/db", "--cancel"), OURS.VolumeMoveReq(name="p1/db", rank=0xffffffff, cancel=True)),
                (("volume", "destroy", "p1/db"), OURS.VolumeDestroyReq(name="p1/db")),
                (("volume", "destroy", "p1/db", "--force"), OURS.VolumeDestroyReq(name="p1/db", force=True)),
                (("volume", "publish", "p1/db", HOSTS[0]), OURS.VolumePublishReq(name="p1/db", host=HOSTS[0])),
                (("volume", "unpublish", "p1/db", HOSTS[0]), OURS.VolumeUnpublishReq(name="p1/db", host=HOSTS[0])),
                (("volume", "unpublish", "p1/db", HOSTS[0], "-f"), OURS.VolumeUnpublishReq(name="p1/db", host=HOSTS[0], force=True)),
                (("volume", "snapshot", "p1/db@a", "--uuid", KEY), OURS.SnapshotCreateReq(names=["p1/db@a"], uuid=KEY)),
                (("volume", "snapshot", "p1/db@a", "p1/log@a", "p1/x@b", "--uuid", KEY),
                 OURS.SnapshotCreateReq(names=["p1/db@a", "p1/log@a", "p1/x@b"], uuid=KEY)),
                (("volume", "snapshot-destroy", "p1/db@a"), OURS.SnapshotDestroyReq(name="p1/db@a")),
                (("volume", "restore", "p1/db@a"), OURS.SnapshotRestoreReq(name="p1/db@a")),
                (("volume", "restore", "p1/db@a", "--force"), OURS.SnapshotRestoreReq(name="p1/db@a", force=True))):
            with self.subTest(words=words):
                self.assertEqual(self.request(type(request).__name__.removesuffix("Req"), *words), request)

    def test_lists_choose_in_the_request(self):
        for words, request in ((("volume", "list"), OURS.VolumeListReq()), (("volume", "list", "p1"), OURS.VolumeListReq(pool="p1")),
                               (("volume", "show", "p1/db"), OURS.VolumeListReq(name="p1/db")), (("host", "list"), OURS.VolumeListReq()),
                               (("host", "list", HOSTS[0]), OURS.VolumeListReq(host=HOSTS[0]))):
            self.assertEqual(self.request("VolumeList", *words, answer=OURS.VolumeListResp(volumes=[volume()])), request, words)

    def test_invalid_command_lines_are_refused_without_a_request(self):
        with FakeServer({}) as server:
            for words in (("create",), ("create", "p1/db"), ("create", "p1/db", "0"), ("create", "p1/db", "much"), ("create", "p1/db", "1G", "2G"),
                          ("create", "p1/db", "1G", "--block-size", "1024"), ("resize", "p1/db"), ("resize", "p1/db", "-1"), ("rename", "p1/db"),
                          ("set-prop", "p1/db"), ("get-prop",),
                          ("publish", "p1/db"), ("unpublish", "p1/db"), ("snapshot",), ("snapshot-destroy",), ("restore",), ("show",), ("list", "a", "b")):
                done = self.fathom(server, "volume", *words, status=2)
                self.assertEqual(done.stdout, "", words)
                self.assertNotEqual(done.stderr, "", words)
            self.fathom(server, "host", "list", "a", "b", status=2)
            for words, missing in ((("publish",), "POOL/VOLUME HOST_NQN"), (("publish", "p1/db"), "HOST_NQN"), (("set-prop", "p1/db"), "KEY=VALUE [KEY=VALUE...]")):
                self.assertIn(f"an argument is missing: {missing}\n", self.fathom(server, "volume", *words, status=2).stderr)
            self.assertEqual(server.calls, [])


class Output(VolumeTest):
    def test_volumes_are_listed(self):
        with FakeServer({METHODS["VolumeList"]: OURS.VolumeListResp(volumes=[WAITING, BUSY, volume("p0/x", state="errored", reason="the file is gone")])}) as server:
            self.show("volume_list", server, "volume", "list")
        with FakeServer({METHODS["VolumeList"]: OURS.VolumeListResp()}) as server:
            self.show("volume_list_none", server, "volume", "list")

    def test_a_volume_is_shown_with_what_is_pending_and_its_hosts(self):
        errored = volume(state="errored", reason="the file is gone")
        for name, one in (("volume_show", BUSY), ("volume_show_pending", WAITING), ("volume_show_clone", CLONE), ("volume_show_errored", errored)):
            with FakeServer({METHODS["VolumeList"]: OURS.VolumeListResp(volumes=[one])}) as server:
                self.show(name, server, "volume", "show", one.name)

    def test_properties_are_shown_all_or_by_name(self):
        thick = volume(thick=True, allocating=True, allocation_bytes=10 << 30, allocation_reason="no space left", description="for the database")
        with FakeServer({METHODS["VolumeList"]: OURS.VolumeListResp(volumes=[thick])}) as server:
            self.show("volume_get_prop", server, "volume", "get-prop", "p1/db")
            said = self.fathom(server, "volume", "get-prop", "p1/db", "thick", "-j").stdout
            self.assertEqual(json.loads(said)["response"], {"thick": "on"})
            self.assertIn('no property "bogus"', self.fathom(server, "volume", "get-prop", "p1/db", "bogus", status=2).stderr)
            said = self.fathom(server, "volume", "show", "p1/db").stdout
        self.assertIn("thick (blocks are being allocated: 11 GB done; no space left)", said)
        self.assertIn("for the database", said)

    def test_a_change_shows_the_volume(self):
        with FakeServer({METHODS["VolumeCreate"]: OURS.VolumeResp(volume=volume(**PLACED))}) as server:
            self.show("volume_create", server, "volume", "create", "p1/db", "100G")

    def test_publish_shows_how_to_connect(self):
        with FakeServer({METHODS["VolumePublish"]: OURS.VolumeResp(volume=volume(hosts=[host(0)]))}) as server:
            self.show("volume_publish", server, "volume", "publish", "p1/db", HOSTS[0])
        with FakeServer({METHODS["VolumePublish"]: OURS.VolumeResp(volume=volume(addresses=["no[address"]))}) as server:
            self.assertNotIn("nvme connect", self.fathom(server, "volume", "publish", "p1/db", HOSTS[0]).stdout)

    def test_a_move_shows_how_hosts_connect_to_the_new_address(self):
        moved = volume(hosts=[host(0), host(1, machine="node7")])
        with FakeServer({METHODS["VolumeMove"]: OURS.VolumeResp(volume=moved)}) as server:
            said = self.fathom(server, "volume", "move", "p1/db", "--to", "1").stdout
            self.assertIn(f"\nOn host {HOSTS[0]}, as root:\n  nvme connect -t tcp -a 10.0.0.1 -s 4420 -n {moved.nqn} --hostnqn {HOSTS[0]}\n", said)
            self.assertIn(f"\nThe agent of node7 connects {HOSTS[1]} to the new address by itself.\n", said)
            self.assertNotIn("nvme connect", self.fathom(server, "volume", "move", "p1/db", "--cancel").stdout)

    def test_a_destroyed_volume_is_shown_or_gone(self):
        with FakeServer({METHODS["VolumeDestroy"]: [OURS.VolumeResp(volume=volume(state="destroying", pending="destroy", pending_ns=SINCE)), OURS.VolumeResp()]}) as server:
            self.assertIn("destroy since", self.fathom(server, "volume", "destroy", "p1/db").stdout)
            self.assertEqual(self.fathom(server, "volume", "destroy", "p1/db").stdout, "Volume p1/db is destroyed\n")
            self.assertEqual(json.loads(self.fathom(server, "volume", "destroy", "p1/db", "-j").stdout)["response"], None)

    def test_snapshots_are_shown(self):
        with FakeServer({METHODS["SnapshotCreate"]: OURS.SnapshotResp(volumes=[BUSY, volume("p1/log")])}) as server:
            self.show("volume_snapshot", server, "volume", "snapshot", "p1/db@tuesday", "p1/log@tuesday")

    def test_all_parts_of_a_list_of_changes_are_asked_for_and_shown(self):
        part = OURS.SnapshotChangesResp.Range
        parts = [OURS.SnapshotChangesResp(ranges=[part(offset=4096, bytes=8192), part(offset=65536, bytes=4096, zero=True)], next_offset=1 << 20, uuid="s",
                                          from_uuid="r", size_bytes=2 << 20, from_bytes=1 << 20, block_bytes=512, volume_uuid="v"),
                 OURS.SnapshotChangesResp(ranges=[part(offset=1 << 20, bytes=512)], next_offset=2 << 20, uuid="s", from_uuid="r", size_bytes=2 << 20,
                                          from_bytes=1 << 20, block_bytes=512, volume_uuid="v")]
        words = ("volume", "changes", "p1/db@s", "--from", "r")
        with FakeServer({METHODS["SnapshotChanges"]: parts}) as server:
            rows = [line.split()[0] for line in self.fathom(server, *words).stdout.splitlines() if line[:1].isdigit()]
            asked = server.requests(METHODS["SnapshotChanges"], OURS.SnapshotChangesReq)
        self.assertEqual(rows, ["4096", "65536", "1048576"])
        self.assertEqual([(request.name, getattr(request, "from"), request.offset) for request in asked], [("p1/db@s", "r", 0), ("p1/db@s", "r", 1 << 20)])
        with FakeServer({METHODS["SnapshotChanges"]: parts}) as server:
            answer = json.loads(self.fathom(server, *words, "--json").stdout)["response"]
        self.assertEqual(answer, {"uuid": "s", "from_uuid": "r", "size_bytes": 2 << 20, "from_bytes": 1 << 20, "block_bytes": 512, "volume_uuid": "v", "ranges": [
            {"offset": 4096, "bytes": 8192, "zero": False}, {"offset": 65536, "bytes": 4096, "zero": True}, {"offset": 1 << 20, "bytes": 512, "zero": False}]})

    def test_hosts_are_listed_with_their_volumes(self):
        volumes = [BUSY, volume("p1/a", hosts=[host(0, connections=1)]), volume("p1/quiet", hosts=[host(1)], asked_ns=0)]
        with FakeServer({METHODS["VolumeList"]: OURS.VolumeListResp(volumes=volumes)}) as server:
            self.show("host_list", server, "host", "list")
            self.show("host_list_one", server, "host", "list", HOSTS[1])
        with FakeServer({METHODS["VolumeList"]: OURS.VolumeListResp()}) as server:
            self.show("host_list_none", server, "host", "list")
            self.assertEqual(self.fathom(server, "host", "list", HOSTS[0]).stdout, f"No volume is published to {HOSTS[0]}\n")


class Repeats(VolumeTest):
    def test_each_change_but_restore_is_repeated(self):
        unavailable = Failure(grpc.StatusCode.UNAVAILABLE, "raft service unavailable")
        for method, words in (("VolumeCreate", ("create", "p1/db", "1G")), ("VolumeResize", ("resize", "p1/db", "1G")), ("VolumeSetProp", ("set-prop", "p1/db", "thick=on")), ("VolumeRename", ("rename", "p1/db", "x")),
                              ("VolumeMove", ("move", "p1/db", "--to", "1")),
                              ("VolumeDestroy", ("destroy", "p1/db")), ("VolumePublish", ("publish", "p1/db", "nqn")), ("VolumeUnpublish", ("unpublish", "p1/db", "nqn")),
                              ("SnapshotCreate", ("snapshot", "p1/db@a")), ("SnapshotDestroy", ("snapshot-destroy", "p1/db@a"))):
            answer = OURS.VolumeResp(volume=volume()) if method.startswith("Volume") else OURS.SnapshotResp()
            with FakeServer({METHODS[method]: [unavailable, answer]}) as server:
                self.fathom(server, "volume", *words)
                first, second = server.requests(METHODS[method], getattr(OURS, method + "Req"))
                self.assertEqual(first, second, method)

    def test_restore_is_requested_once(self):
        with FakeServer({METHODS["SnapshotRestore"]: Slow(30, OURS.SnapshotResp())}) as server:
            self.fathom(server, "volume", "restore", "p1/db@a", "--timeout", 1, status=1)
            self.assertEqual(len(server.calls), 1)

    def test_a_refusal_is_shown_with_its_resolution(self):
        with FakeServer({METHODS["VolumeDestroy"]: fault(618, "server", "volume p1/db is used by nqn.x", "disconnect it, or use --force")}) as server:
            first, second = self.fathom(server, "volume", "destroy", "p1/db", status=1).stderr.splitlines()
        self.assertIn('code = 618 description = "volume p1/db is used by nqn.x"', first)
        self.assertIn("--force", second)


if __name__ == "__main__":
    unittest.main()
