# SPDX-License-Identifier: BSD-2-Clause
"""`fathom pool` against servers that answer as the test orders. test_recorded.py compares its output with dmg's."""

import json
import os
import tempfile
import unittest
import uuid

import grpc

from fake_server import FakeServer, Failure, Slow, fault, protocols
from rig import CommandTest

P = protocols()
MGMT, CTL = P["mgmt"], P["ctl"]
CREATE, DESTROY, LIST, QUERY = (f"/mgmt.MgmtSvc/{name}" for name in ("PoolCreate", "PoolDestroy", "ListPools", "PoolQuery"))
GET_PROP, SET_PROP, EVICT = (f"/mgmt.MgmtSvc/{name}" for name in ("PoolGetProp", "PoolSetProp", "PoolEvict"))
SCAN = "/ctl.CtlSvc/StorageScan"
IDS = [str(uuid.UUID(int=number)) for number in range(1, 4)]
GB = 10**9
SECOND = 10**9
SINCE = 1795880000 * SECOND


def listed(*states):
    return MGMT.ListPoolsResp(pools=[MGMT.ListPoolsResp.Pool(uuid=IDS[place], label=f"p{place}", state=state, svc_reps=[0])
                                     for place, state in enumerate(states)], data_version=7)


def pool(place=0, **kwargs):
    """As our servers answer."""
    ranks = [MGMT.PoolQueryResp.Rank(rank=1, state="stopped", info="rank 1 is stopped", late="size, scrub", late_ns=SINCE, late_reason="rank 1 is stopped"),
             MGMT.PoolQueryResp.Rank(rank=0, state="joined", total_bytes=100 * GB, free_bytes=60 * GB, promised_bytes=40 * GB, allocated_bytes=10 * GB,
                                     volume_count=3, asked_ns=SINCE, used_bytes=40 * GB, limit_bytes=80 * GB, full_in_ns=3 * 86400 * SECOND)]
    idle = MGMT.PoolRebuildStatus(state=MGMT.PoolRebuildStatus.IDLE, derived_state=MGMT.PoolRebuildStatus.IDLE)
    values = dict(uuid=IDS[place], label=f"p{place}", total_targets=2, active_targets=1, disabled_targets=1, total_engines=2, version=1, svc_reps=[0],
                  rebuild=idle, state=MGMT.Ready, enabled_ranks="0", disabled_ranks="1", pool_layout_ver=1, upgrade_layout_ver=1, query_mask=0x2b,
                  tier_stats=[MGMT.StorageUsageStats(media_type=MGMT.SCM),
                              MGMT.StorageUsageStats(media_type=MGMT.NVME, total=100 * GB, free=60 * GB, min=60 * GB, max=60 * GB, mean=60 * GB)],
                  ranks=ranks, size_bytes=80 * GB, volume_count=3, since_ns=SINCE)
    return MGMT.PoolQueryResp(**dict(values, **kwargs))


def created(*tiers):
    return MGMT.PoolCreateResp(uuid=IDS[0], svc_reps=[0], tgt_ranks=[0, 1, 2, 5], tier_bytes=tiers)


class Create(CommandTest):
    def request(self, *words, answers=None):
        with FakeServer({CREATE: created(0, 5 * GB), **(answers or {})}) as server:
            self.fathom(server, "pool", "create", *words)
            request, = server.requests(CREATE, MGMT.PoolCreateReq)
        return request

    def test_a_new_pool_is_shown(self):
        with FakeServer({CREATE: created(0, 25 * GB)}) as server:
            self.show("pool_create", server, "pool", "create", "p1", "--size", "100G")
        with FakeServer({CREATE: created()}) as server:
            self.show("pool_create_without_limit", server, "pool", "create", "p1")

    def test_options_become_fields_of_the_request(self):
        request = self.request("p1")
        self.assertEqual((request.total_bytes, list(request.ranks), request.num_ranks, request.overcommit), (0, [], 0, False))
        self.assertEqual([(one.number, one.strval) for one in request.properties], [(1, "p1")])
        self.assertEqual(request.uuid, "")
        self.assertRegex(request.user, "^[a-z0-9_-]+@$")
        self.assertEqual(self.request("p1", "--uuid", IDS[1]).uuid, IDS[1])
        request = self.request("p1", "--size", "2G", "--ranks", "0-2,5", "--overcommit")
        self.assertEqual((request.total_bytes, list(request.ranks), request.overcommit), (2 << 30, [0, 1, 2, 5], True))
        self.assertEqual(self.request("-z", "1000", "-k", "3", "p1").num_ranks, 3)

    def test_a_share_of_the_free_space_is_that_of_the_smallest_engine_on_each(self):
        def scan(ranks):
            mounts = [CTL.ScmNamespace.Mount(rank=rank, path=f"/srv/{rank}", total_bytes=100 * GB, avail_bytes=free) for rank, free in ranks.items()]
            return CTL.StorageScanResp(scm=CTL.ScanScmResp(namespaces=[CTL.ScmNamespace(mount=mount) for mount in mounts] + [CTL.ScmNamespace()]))

        answers = {SCAN: scan({0: 50 * GB, 1: 20 * GB, 2: 90 * GB})}
        self.assertEqual(self.request("p1", "--size", "100%", answers=answers).total_bytes, 60 * GB)
        self.assertEqual(self.request("p1", "--size", "50%", "--ranks", "0,2", answers=answers).total_bytes, 50 * GB)
        self.assertEqual(self.request("p1", "--size", "10%", "--nranks", "2", answers=answers).total_bytes, 4 * GB)
        with FakeServer({SCAN: scan({})}) as server:
            self.assertIn("give --size in bytes", self.fathom(server, "pool", "create", "p1", "--size", "10%", status=1).stderr)
        with FakeServer({SCAN: scan({0: 0})}) as server:
            self.assertIn("no free space", self.fathom(server, "pool", "create", "p1", "--size", "10%", status=1).stderr)
        with FakeServer({SCAN: fault(618, "server", "no", "do")}) as server:
            self.assertIn("618", self.fathom(server, "pool", "create", "p1", "--size", "10%", status=1).stderr)
            self.assertEqual(server.requests(CREATE, MGMT.PoolCreateReq), [])

    def test_invalid_command_lines_are_refused_without_a_request(self):
        with FakeServer({CREATE: created()}) as server:
            for words in ((), ("p1", "p2"), ("p1", "--size", "0"), ("p1", "--size", "0%"), ("p1", "--size", "101%"), ("p1", "--size", "%"),
                          ("p1", "--size", "1000000000%"), ("p1", "--size", "big"), ("p1", "--ranks", "x"), ("p1", "--ranks", ""),
                          ("p1", "--ranks", "0", "--nranks", "1"), ("p1", "--nranks", "0")):
                done = self.fathom(server, "pool", "create", *words, status=2)
                self.assertEqual(done.stdout, "", words)
                self.assertNotEqual(done.stderr, "", words)
            self.assertEqual(server.calls, [])

    def test_a_repeated_request_has_the_same_key(self):
        with FakeServer({CREATE: [Failure(grpc.StatusCode.UNAVAILABLE, "raft service unavailable"), created(0, GB)]}) as server:
            self.fathom(server, "pool", "create", "p1")
            first, second = server.requests(CREATE, MGMT.PoolCreateReq)
        self.assertEqual(first, second)

    def test_a_call_without_an_answer_ends_at_its_time(self):
        with FakeServer({CREATE: Slow(30, created())}) as server:
            self.assertIn("in time", self.fathom(server, "pool", "create", "p1", "--timeout", 1, status=1).stderr)


class Properties(CommandTest):
    def test_properties_are_shown_as_dmg_shows_them(self):
        rows = [MGMT.PoolProperty(number=16, numval=2, name="scrub", text="timed", description="Checksum scrubbing mode"),
                MGMT.PoolProperty(number=1, strval="p1", name="label", text="p1", description="Pool label")]
        with FakeServer({GET_PROP: MGMT.PoolGetPropResp(properties=rows)}) as server:
            shown = self.fathom(server, "pool", "get-prop", "p1", "label,scrub").stdout.splitlines()
            self.assertEqual([line.split() for line in shown[:1] + shown[3:5]],
                             [["Pool", "p1", "properties:"], ["Pool", "label", "(label)", "p1"], ["Checksum", "scrubbing", "mode", "(scrub)", "timed"]])
            request, = server.requests(GET_PROP, MGMT.PoolGetPropReq)
            self.assertEqual((request.id, [(row.number, row.name) for row in request.properties]), ("p1", [(0, "label"), (0, "scrub")]))
            answer = json.loads(self.fathom(server, "-j", "pool", "get-prop", "p1").stdout)["response"]
            self.assertEqual(answer[1], {"name": "scrub", "description": "Checksum scrubbing mode", "value": "timed"})

    def test_a_pending_property_says_on_which_rank_and_why(self):
        rows = [MGMT.PoolProperty(number=16, numval=2, name="scrub", text="timed", late_ranks="ranks 1-2", late_ns=SINCE, late_reason="rank 1 is stopped")]
        with FakeServer({GET_PROP: MGMT.PoolGetPropResp(properties=rows), SET_PROP: MGMT.PoolSetPropResp(late_ranks="rank 1")}) as server:
            self.assertRegex(self.fathom(server, "pool", "get-prop", "p1").stdout, r"(?m)^scrub is pending on ranks 1-2 since .*: rank 1 is stopped$")
            answer, = json.loads(self.fathom(server, "-j", "pool", "get-prop", "p1").stdout)["response"]
            self.assertEqual((answer["pending_ranks"], answer["pending_ns"], answer["pending_reason"]), ("ranks 1-2", SINCE, "rank 1 is stopped"))
            self.assertEqual(self.fathom(server, "pool", "set-prop", "p1", "scrub=off").stdout, "pool set-prop succeeded, pending on rank 1\n")

    def test_properties_are_set_in_both_forms(self):
        with FakeServer({SET_PROP: MGMT.PoolSetPropResp()}) as server:
            self.assertEqual(self.fathom(server, "pool", "set-prop", "p1", "scrub:off,scrub_freq:3600", "owner=a:b@").stdout, "pool set-prop succeeded\n")
            request, = server.requests(SET_PROP, MGMT.PoolSetPropReq)
            self.assertEqual([(row.name, row.text) for row in request.properties], [("scrub", "off"), ("scrub_freq", "3600"), ("owner", "a:b@")])
            for words in ((), ("p1",), ("p1", "scrub"), ("p1", "scrub="), ("p1", "=off"), ("p1", "scrub=off,")):
                self.fathom(server, "pool", "set-prop", *words, status=2)
            for words in ((), ("p1", "scrub=off"), ("p1", "a,,b")):
                self.fathom(server, "pool", "get-prop", *words, status=2)
            self.assertEqual(len(server.calls), 1)

    def test_an_eviction_counts_what_was_withdrawn(self):
        with FakeServer({EVICT: MGMT.PoolEvictResp(count=3)}) as server:
            self.assertEqual(self.fathom(server, "pool", "evict", "p1", "--host", "nqn.a").stdout,
                             "Pool-evict command succeeded: 3 publications of volumes withdrawn\n")
            self.assertEqual(json.loads(self.fathom(server, "-j", "pool", "evict", "p1").stdout)["response"], {"count": 3})
            self.assertEqual([(request.id, request.machine) for request in server.requests(EVICT, MGMT.PoolEvictReq)], [("p1", "nqn.a"), ("p1", "")])


class List(CommandTest):
    def test_each_ready_pool_is_queried(self):
        with FakeServer({LIST: listed("Ready", "Destroying", "Ready"), QUERY: lambda request: pool(IDS.index(MGMT.PoolQueryReq.FromString(request).id))}) as server:
            self.show("pool_list", server, "pool", "list")
            self.show("pool_list_verbose", server, "pool", "list", "-v")
            self.assertEqual([request.id for request in server.requests(QUERY, MGMT.PoolQueryReq)], [IDS[0], IDS[2]] * 4)
            self.assertEqual(self.fathom(server, "system", "list-pools").stdout, self.fathom(server, "pool", "list").stdout)

    def test_a_list_with_figures_needs_no_queries(self):
        def answer(request):
            queried = [pool(0), pool(2)] if MGMT.ListPoolsReq.FromString(request).query else []
            return MGMT.ListPoolsResp(pools=listed("Ready", "Destroying", "Ready").pools, data_version=7, queried=queried)
        with FakeServer({LIST: answer}) as server:
            self.show("pool_list", server, "pool", "list")
            self.show("pool_list_verbose", server, "pool", "list", "-v")
            self.assertEqual({call[0] for call in server.calls}, {LIST})

    def test_without_queries_labels_and_states_are_shown(self):
        with FakeServer({LIST: listed("Ready", "Creating")}) as server:
            self.show("pool_list_no_query", server, "pool", "list", "--no-query")
            self.assertEqual(server.requests(QUERY, MGMT.PoolQueryReq), [])

    def test_a_failed_query_fails_the_command_and_the_others_are_shown(self):
        answers = [fault(618, "server", "the engine is silent", "start it"), pool(1)]
        for words in ((), ("-j",)):
            with FakeServer({LIST: listed("Ready", "Ready"), QUERY: list(answers)}) as server:
                done = self.fathom(server, "pool", "list", *words, status=1)
            self.assertIn("the engine is silent", done.stderr)
            self.assertIn("p1", done.stdout)
        self.assertEqual([one["label"] for one in json.loads(done.stdout)["response"]["pools"]], ["p0", "p1"])

    def test_a_pool_that_is_destroyed_meanwhile_is_no_failure(self):
        with FakeServer({LIST: listed("Ready"), QUERY: Failure(grpc.StatusCode.NOT_FOUND, "no such pool")}) as server:
            self.assertIn("p0", self.fathom(server, "pool", "list").stdout)


class Query(CommandTest):
    def test_a_pool_is_shown_with_its_ranks(self):
        with FakeServer({QUERY: pool()}) as server:
            self.show("pool_query", server, "pool", "query", "p0")
        waiting = pool(state=MGMT.Destroying, pending="destroy", reason="rank 1 is stopped", overcommit=True, size_bytes=0, tier_stats=[],
                       rebuild=MGMT.PoolRebuildStatus(status=-3, degraded=True))
        with FakeServer({QUERY: waiting}) as server:
            self.show("pool_query_pending", server, "pool", "query", "p0")

    def test_options_become_bits_of_the_mask(self):
        with FakeServer({QUERY: pool()}) as server:
            for words in ((), ("-e",), ("-t",)):
                self.fathom(server, "pool", "query", "p0", *words)
            masks = [request.query_mask & 0xff for request in server.requests(QUERY, MGMT.PoolQueryReq)]
        self.assertEqual(masks, [0xeb, 0xef, 0xfa])

    def test_a_pool_with_excluded_ranks_has_the_state_that_dmg_shows(self):
        with FakeServer({QUERY: pool(state=MGMT.Ready, disabled_targets=1, dead_ranks="4")}) as server:
            self.assertIn("state=TargetsExcluded", self.fathom(server, "pool", "query", "p0").stdout)
            said = json.loads(self.fathom(server, "pool", "query", "p0", "-j").stdout)["response"]
            self.assertEqual((said["state"], said["dead_ranks"], said["disabled_ranks"]), ("TargetsExcluded", [4], [1]))

    def test_values_that_are_no_ranks_are_left_out(self):
        with FakeServer({QUERY: pool(enabled_ranks="x-", svc_reps=[4000000000])}) as server:
            self.assertIsNone(json.loads(self.fathom(server, "pool", "query", "p0", "-j").stdout)["response"]["enabled_ranks"])
        with FakeServer({LIST: listed("Ready"), QUERY: pool(svc_reps=[4000000000])}) as server:
            self.fathom(server, "pool", "list", "-v")


class Destroy(CommandTest):
    def test_options_become_fields_of_the_request(self):
        with FakeServer({DESTROY: MGMT.PoolDestroyResp()}) as server:
            self.show("pool_destroy", server, "pool", "destroy", "p1")
            self.fathom(server, "pool", "destroy", "p1", "-f", "-r")
            requests = server.requests(DESTROY, MGMT.PoolDestroyReq)
        self.assertEqual([(one.id, one.force, one.recursive) for one in requests], [("p1", False, False)] * 2 + [("p1", True, True)])

    def test_a_refusal_is_shown_with_its_resolution(self):
        with FakeServer({DESTROY: fault(618, "server", "pool p1 has 2 volumes", "destroy them, or use --recursive")}) as server:
            first, second = self.fathom(server, "pool", "destroy", "p1", status=1).stderr.splitlines()
        self.assertIn('code = 618 description = "pool p1 has 2 volumes"', first)
        self.assertIn("--recursive", second)


class Ranks(CommandTest):
    """extend, exclude, drain, reintegrate."""
    REQUESTS = {"extend": MGMT.PoolExtendReq, "exclude": MGMT.PoolExcludeReq, "drain": MGMT.PoolDrainReq, "reintegrate": MGMT.PoolReintReq}
    ANSWERS = {"extend": MGMT.PoolExtendResp, "exclude": MGMT.PoolExcludeResp, "drain": MGMT.PoolDrainResp, "reintegrate": MGMT.PoolReintResp}

    def test_the_ranks_are_in_one_request(self):
        with FakeServer({f"/mgmt.MgmtSvc/Pool{name.capitalize()}": answer() for name, answer in self.ANSWERS.items()}) as server:
            for name, message in self.REQUESTS.items():
                self.assertIn("command succeeded", self.fathom(server, "pool", name, "p1", "--ranks", "1,3-4").stdout)
                self.assertEqual([(one.id, one.rank_set) for one in server.requests(f"/mgmt.MgmtSvc/Pool{name.capitalize()}", message)], [("p1", "1,3-4")])
                self.fathom(server, "pool", name, "p1", status=2)
                self.fathom(server, "pool", name, status=2)

    def test_an_empty_list_is_not_sent(self):
        """The server would take it for a request of dmg, whose rank is in another field: rank 0."""
        with FakeServer({f"/mgmt.MgmtSvc/Pool{name.capitalize()}": answer() for name, answer in self.ANSWERS.items()}) as server:
            for name, message in self.REQUESTS.items():
                for ranks in ("", "[]"):
                    self.assertIn("no ranks", self.fathom(server, "pool", name, "p1", "--ranks", ranks, status=2).stderr)
                self.assertEqual(server.requests(f"/mgmt.MgmtSvc/Pool{name.capitalize()}", message), [])

    def test_a_query_shows_shares_that_are_not_up(self):
        rank = MGMT.PoolQueryResp.Rank
        ranks = [rank(rank=0, state="joined", share="up", share_since_ns=1), rank(rank=1, state="joined", share="draining", share_since_ns=1,
                 share_info="2 volumes left, 1 of them being moved", moving_count=1, old_copy_count=3)]
        with FakeServer({QUERY: pool(ranks=ranks)}) as server:
            lines = [line for line in self.fathom(server, "pool", "query", "p0").stdout.splitlines() if line.startswith("Share of rank ")]
            self.assertRegex("|".join(lines), r"^Share of rank 1: draining since [^|]*: 2 volumes left, 1 of them being moved$")
            said = json.loads(self.fathom(server, "pool", "query", "p0", "-j").stdout)["response"]["ranks"][1]
            self.assertEqual((said["share"], said["share_info"], said["moving"], said["old_copies"]),
                             ("draining", "2 volumes left, 1 of them being moved", 1, 3))


class Access(CommandTest):
    LISTED = MGMT.ACLResp(acl=MGMT.AccessControlList(entries=["A::OWNER@:rw", "A:G:GROUP@:rcd", "A::bob@:"], owner_user="ann@", owner_group="staff@"))
    GET, OVERWRITE, UPDATE, DELETE = (f"/mgmt.MgmtSvc/Pool{name}ACL" for name in ("Get", "Overwrite", "Update", "Delete"))
    TEXT = "# Owner: ann@\n# Owner Group: staff@\n# Entries:\nA::OWNER@:rw\nA:G:GROUP@:rcd\nA::bob@:\n"
    ENTRIES = ["A::bob@:rw", "A:G:g@:r"]

    def file(self, text):
        path = os.path.join(self.new_folder(), "acl")
        with open(path, "w") as file:
            file.write(text)
        return path

    def new_folder(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return folder.name

    def test_a_list_is_shown_as_dmg_does(self):
        with FakeServer({self.GET: self.LISTED}) as server:
            self.assertEqual(self.fathom(server, "pool", "get-acl", "p1").stdout, self.TEXT)
            self.assertIn("# Allow::Owner:Read/Write\nA::OWNER@:rw\n# Allow:Group:Owner-Group:Read/Create-Cont/Destroy-Cont\n",
                          self.fathom(server, "pool", "get-acl", "p1", "-v").stdout)
            self.assertEqual(json.loads(self.fathom(server, "pool", "get-acl", "p1", "-j").stdout)["response"],
                             {"ACL": {"entries": ["A::OWNER@:rw", "A:G:GROUP@:rcd", "A::bob@:"], "owner_user": "ann@", "owner_group": "staff@"}})
        with FakeServer({self.GET: MGMT.ACLResp(acl=MGMT.AccessControlList(entries=["x", ":" * 600]))}) as server:
            self.assertEqual(self.fathom(server, "pool", "get-acl", "p1").stdout.splitlines()[:2], ["# Entries:", "x"])
            self.fathom(server, "pool", "get-acl", "p1", "-v")
        with FakeServer({self.GET: MGMT.ACLResp()}) as server:
            self.assertEqual(self.fathom(server, "pool", "get-acl", "p1").stdout, "# Entries:\n#   None\n")

    def test_a_list_is_written_to_a_file_once(self):
        path = os.path.join(self.new_folder(), "out")
        with FakeServer({self.GET: self.LISTED}) as server:
            self.assertIn(path, self.fathom(server, "pool", "get-acl", "p1", "-O", path).stdout)
            self.assertIn("--force", self.fathom(server, "pool", "get-acl", "p1", "-O", path, status=1).stderr)
            self.fathom(server, "pool", "get-acl", "p1", "-O", path, "-f")
        with open(path) as file:
            self.assertEqual(file.read(), self.TEXT)

    def test_entries_come_from_a_file_or_from_the_command_line(self):
        path = self.file("# mine\n\n  A::bob@:rw \nA:G:g@:r\n")
        with FakeServer({self.OVERWRITE: self.LISTED, self.UPDATE: self.LISTED, self.DELETE: self.LISTED, CREATE: created()}) as server:
            done = self.fathom(server, "pool", "overwrite-acl", "p1", "-a", path)
            self.assertEqual(done.stdout, f"Pool-overwrite-ACL command succeeded, ID: p1\n\n{self.TEXT}")
            self.fathom(server, "pool", "update-acl", "p1", "-a", path)
            self.fathom(server, "pool", "update-acl", "p1", "-e", "A::x@:r")
            self.fathom(server, "pool", "delete-acl", "p1", "-p", "u:bob@")
            self.fathom(server, "pool", "create", "p1", "-a", path, "-u", "ann", "-g", "staff@")
            self.assertEqual([list(request.entries) for request in server.requests(self.OVERWRITE, MGMT.ModifyACLReq)], [self.ENTRIES])
            self.assertEqual([list(request.entries) for request in server.requests(self.UPDATE, MGMT.ModifyACLReq)], [self.ENTRIES, ["A::x@:r"]])
            self.assertEqual([(request.id, request.principal) for request in server.requests(self.DELETE, MGMT.DeleteACLReq)], [("p1", "u:bob@")])
            request, = server.requests(CREATE, MGMT.PoolCreateReq)
            self.assertEqual((list(request.acl), request.user, request.user_group), (self.ENTRIES, "ann@", "staff@"))

    def test_bad_files_and_command_lines_are_refused_without_a_request(self):
        empty, full = self.file("# nothing\n"), self.file("".join(f"A::u{number}@:r\n" for number in range(65)))
        with FakeServer({self.OVERWRITE: self.LISTED, CREATE: created()}) as server:
            for path, text in ((empty, "has no entries"), (full, "more than 64 entries"), ("/nosuch", "No such file")):
                self.assertIn(text, self.fathom(server, "pool", "overwrite-acl", "p1", "-a", path, status=1).stderr)
                self.assertIn(text, self.fathom(server, "pool", "create", "p1", "-a", path, status=1).stderr)
            for words in (("overwrite-acl", "p1"), ("update-acl", "p1"), ("update-acl", "p1", "-e", "x", "-a", empty), ("delete-acl", "p1"), ("get-acl",)):
                self.fathom(server, "pool", *words, status=2)
            self.assertEqual(server.calls, [])


if __name__ == "__main__":
    unittest.main()
