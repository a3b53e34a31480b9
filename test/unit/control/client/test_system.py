# SPDX-License-Identifier: BSD-2-Clause
"""`fathom system` against servers that answer as the test orders."""

import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import grpc

from fake_server import TOP, FakeServer, Failure, PoweredOff, Slow, fault, not_leader, not_replica, protocols
from rig import FATHOM, CommandTest, free_port

P = protocols()
MGMT, SHARED, OURS = P["mgmt"], P["shared"], P["fathom"]
QUERY = "/mgmt.MgmtSvc/SystemQuery"
EVENTS = "/fathom.ControlSvc/SystemEvents"


def member(rank, state="joined", **kwargs):
    values = dict(addr=f"10.0.0.{rank + 1}:10001", uuid=f"00000000-0000-4000-8000-{rank:012}", rank=rank, incarnation=1000 + rank, state=state,
                  fabric_uri=f"nvme+tcp://10.0.0.{rank + 1}:4420", fabric_contexts=2, fault_domain=f"/rack0/node{rank}",
                  last_update="2026-11-22T10:00:00.5Z")
    return MGMT.SystemMember(**dict(values, **kwargs))


def members(*list_of_members, **kwargs):
    return MGMT.SystemQueryResp(members=list_of_members, data_version=7, providers=["nvme+tcp"], sys_self_heal_policy="exclude", **kwargs)


MANY = members(*[member(rank) for rank in (3, 1, 0, 2, 7)], member(4, "stopped", info="system stop"), member(5, "adminexcluded"),
               member(6, "errored", info="engine 0 ended: killed by SIGKILL"), absentranks="9-10", absenthosts="node7")
ALL_THERE = members(member(0))


class Queries(CommandTest):
    def test_members_are_shown_by_state_and_each(self):
        with FakeServer({QUERY: MANY}) as server:
            self.show("system_query", server, "system", "query", status=1)      # some of the requested members are absent
            self.show("system_query_verbose", server, "system", "query", "-v", status=1)
        with FakeServer({QUERY: members()}) as server:
            self.show("system_query_none", server, "system", "query")

    def test_volumes_that_a_rank_cannot_serve_are_shown_and_fail_a_check(self):
        bad = SHARED.StorageHealth(errored_volumes=2, read_only_volumes=1, reason="p/a: it has no data file")
        with FakeServer({QUERY: members(member(0), member(1, storage=bad, info="2 volumes ERRORED"), member(2))}) as server:
            shown = self.fathom(server, "system", "query").stdout
            self.assertRegex(shown, r"(?m)^1 +Joined, 2 volumes ERRORED, 1 volume READ_ONLY *$")
            self.assertRegex(shown, r"(?m)^\[?0,2\]? +Joined *$")
            self.assertIn("rank 1 is joined: 2 volumes ERRORED", self.fathom(server, "system", "query", "--check", status=1).stderr)
            listed = json.loads(self.fathom(server, "system", "query", "-j").stdout)["response"]["members"]
        self.assertEqual([one.get("storage_reason") for one in listed], [None, "p/a: it has no data file", None])
        with FakeServer({QUERY: ALL_THERE}) as server:
            self.fathom(server, "system", "query", "--check")
        with FakeServer({QUERY: members(member(0), member(1, "stopped", info="system stop"))}) as server:
            self.assertIn("rank 1 is stopped: system stop", self.fathom(server, "system", "query", "--check", status=1).stderr)

    def test_absent_members_are_an_error_with_their_names(self):
        some = [SHARED.RankResult(rank=0, action="start", state="ready")]
        for ranks, hosts, which in (("9", "", "rank 9"), ("7-9", "", "ranks 7-9"), ("7,9", "", "ranks 7,9"), ("", "foo", "host foo"),
                                    ("", "node[1-2]", "hosts node[1-2]")):
            absent = {"absentranks": ranks, "absenthosts": hosts}
            for found in (0, 1):
                answers = {QUERY: members(*[member(0)][:found], **absent),
                           "/mgmt.MgmtSvc/SystemStart": MGMT.SystemStartResp(results=some[:found], **absent),
                           "/mgmt.MgmtSvc/SystemStop": MGMT.SystemStopResp(results=some[:found], **absent)}
                with FakeServer(answers) as server:
                    for command in ("query", "start", "stop"):
                        done = self.fathom(server, "system", command, status=1)
                        self.assertIn(f'client: code = 553 description = "system {command}: the system has no {which}"', done.stderr)
                        self.assertEqual("Unknown Rank" in done.stdout, bool(ranks and found), done.stdout)
                        said = json.loads(self.fathom(server, "system", command, "-j", status=1).stdout)
                        self.assertIn(f"the system has no {which}", said["error"])
                        self.assertEqual(said["status"], -1025)
                        self.assertEqual(len(said["response"]["members" if command == "query" else "Results"] or []), found)

    def test_the_most_members_of_a_system_are_shown(self):
        rows = [member(rank, "errored" if rank % 2 else "joined", info="x" * 255) for rank in range(65536)]
        with FakeServer({QUERY: members(*rows)}) as server:
            said = json.loads(self.fathom(server, "system", "query", "-j").stdout)
            self.assertEqual([row["rank"] for row in said["response"]["members"]], list(range(65536)))
            self.assertIn("[0,2,4,", self.fathom(server, "system", "query").stdout)

    def test_invalid_absent_ranks_of_a_server_are_shown_unchanged(self):
        with FakeServer({QUERY: members(member(0), absentranks="7-x")}) as server:
            self.assertIn("7-x", self.fathom(server, "system", "query", status=1).stderr)

    def test_invalid_lists_on_the_command_line_are_usage_errors(self):
        with FakeServer({QUERY: ALL_THERE}) as server:
            for words in (("--ranks", "1-"), ("--rank-hosts", "node["), ("--ranks", ""), ("--ranks", "[]"), ("--rank-hosts", "")):
                self.fathom(server, "system", "stop", *words, status=2)         # an empty list does not select all
            self.assertEqual(server.calls, [])
        self.assertEqual(self.run_plain("system", "query", "-i", "-l", "node[4-1]").returncode, 2)
        with open(os.path.join(self.folder, "own.yml"), "w") as file:
            file.write("hostlist: ['node[4-1]']\n")
        self.assertEqual(self.run_plain("system", "query", "-i", "-o", "own.yml").returncode, 1)

    def test_ranks_and_hosts_exclude_each_other(self):
        with FakeServer({QUERY: ALL_THERE}) as server:
            for command in ("query", "start", "stop", "exclude", "clear-exclude"):
                self.assertIn("exclude each other", self.fathom(server, "system", command, "--ranks", 1, "--rank-hosts", "a", status=2).stderr)
            self.assertEqual(server.calls, [])

    def test_options_select_members_in_the_request(self):
        with FakeServer({QUERY: ALL_THERE}) as server:
            for words in ((), ("--ranks", "[0-3,7]"), ("--rank-hosts", "node2,node1"), ("--not-ok",), ("--with-states", "Joined,errored")):
                self.fathom(server, "system", "query", *words)
            asked = server.requests(QUERY, MGMT.SystemQueryReq)
            self.assertEqual((asked[2].hosts, asked.pop(2).state_mask), ("", 0xffff))    # the query for the addresses of members
            self.assertEqual([(a.ranks, a.hosts, a.state_mask) for a in asked],
                             [("", "", 0xffff), ("0-3,7", "", 0xffff), ("", "node[1-2]", 0xffff), ("", "", 0xfff7), ("", "", 0x88)])
            self.assertRegex(asked[0].sys, r"^fathom-\d+\.\d+\.\d+$")
            self.assertEqual(server.calls[0][2]["x-daos-component"], "admin")
            self.assertRegex(server.calls[0][2]["x-daos-version"], r"^\d+\.\d+\.\d+$")

    def test_names_of_hosts_are_resolved_to_addresses_of_members(self):
        """The client resolves names that no member has. Names of members, and unknown names, are sent unchanged."""
        known = members(member(0, addr="127.0.0.1:10001"), member(1, addr="127.0.0.1:10002"), member(2, addr="10.0.0.3:10001"), member(3, addr="n[o:address"))
        stop = "/mgmt.MgmtSvc/SystemStop"
        for hosts, sent in (("localhost", "127.0.0.1:[10001-10002]"), ("localhost:10002", "127.0.0.1:10002"), ("localhost:7", "localhost:7"),
                            ("node1", "node1"), ("127.0.0.1", "127.0.0.1"), ("10.0.0.3,localhost", "10.0.0.3,127.0.0.1:[10001-10002]"),
                            ("nobody.invalid", "nobody.invalid")):
            with FakeServer({QUERY: known, stop: MGMT.SystemStopResp()}) as server:
                self.fathom(server, "system", "stop", "--rank-hosts", hosts)
                asked = server.requests(stop, MGMT.SystemStopReq)[0].hosts
                self.assertEqual(sorted(asked.replace("127.0.0.1:10001,127.0.0.1:10002", "127.0.0.1:[10001-10002]").split(",")), sorted(sent.split(",")))

    def test_the_leader_is_shown(self):
        with FakeServer({"/mgmt.MgmtSvc/LeaderQuery": MGMT.LeaderQueryResp(current_leader="10.0.0.2:10001", replicas=[
                f"10.0.0.{i}:10001" for i in (1, 2, 3)], DownReplicas=["10.0.0.3:10001"])}) as server:
            self.show("leader_query", server, "system", "leader-query")
            self.show("leader_query_down", server, "system", "leader-query", "-N")


class Ranks(CommandTest):
    RESULTS = [SHARED.RankResult(rank=rank, action="stop", state="stopped", addr=f"10.0.0.{rank + 1}:10001") for rank in (0, 2, 1)]
    BAD = SHARED.RankResult(rank=3, action="stop", state="errored", errored=True, msg="no answer within 30 s", addr="10.0.0.4:10001")

    def test_results_are_folded_and_a_failed_rank_fails_the_command(self):
        with FakeServer({"/mgmt.MgmtSvc/SystemStop": [MGMT.SystemStopResp(results=self.RESULTS)]}) as server:
            self.show("system_stop", server, "system", "stop")
        with FakeServer({"/mgmt.MgmtSvc/SystemStop": MGMT.SystemStopResp(results=[*self.RESULTS, self.BAD], absentranks="9")}) as server:
            self.show("system_stop_failed", server, "system", "stop", "--ranks", "0-3,9", status=1)
        with FakeServer({"/mgmt.MgmtSvc/SystemStop": MGMT.SystemStopResp(results=[*self.RESULTS, self.BAD])}) as server:
            self.assertIn('client: code = 554 description = "system stop failed for rank 3"',
                          self.fathom(server, "system", "stop", "--ranks", "0-3,9", status=1).stderr)
            self.fathom(server, "system", "stop", "--force", "--ignore-admin-excluded", status=1)
            asked = server.requests("/mgmt.MgmtSvc/SystemStop", MGMT.SystemStopReq)
            self.assertEqual([(a.force, a.ranks, a.ignore_admin_excluded) for a in (asked[0], asked[-1])],
                             [(False, "0-3,9", False), (True, "", True)])

    def test_start_exclude_clear_and_erase_show_results(self):
        done = [SHARED.RankResult(rank=1, action="done", state="ready")]
        answers = {"/mgmt.MgmtSvc/SystemStart": MGMT.SystemStartResp(results=done), "/mgmt.MgmtSvc/SystemErase": MGMT.SystemEraseResp(results=done),
                   "/mgmt.MgmtSvc/SystemExclude": MGMT.SystemExcludeResp(results=done), QUERY: MANY}
        table = "Rank Operation Result \n---- --------- ------ \n1    done      OK     \n\n"
        with FakeServer(answers) as server:
            for words in (["start", "--ranks=1"], ["exclude", "-r", "1"], ["clear-exclude", "--rank-hosts", "node1"], ["erase", "--force"]):
                self.assertEqual(self.fathom(server, "system", *words).stdout, table)
            self.assertEqual([(a.ranks, a.hosts, a.clear) for a in server.requests("/mgmt.MgmtSvc/SystemExclude", MGMT.SystemExcludeReq)],
                             [("1", "", False), ("", "node1", True)])
            self.show("system_start", server, "system", "start", "--ranks", "1")
            self.show("system_exclude", server, "system", "exclude", "--ranks", "1")
            self.show("system_clear_exclude", server, "system", "clear-exclude", "--ranks", "1")
            self.show("system_erase", server, "system", "erase", "--force")
            count = len(server.calls)
            for words in (["exclude"], ["clear-exclude"], ["erase"]):
                self.fathom(server, "system", *words, status=2)
            self.assertEqual(len(server.calls), count)


class Pairs(CommandTest):
    def test_attributes_and_properties_are_shown_and_set(self):
        answers = {"/mgmt.MgmtSvc/SystemGetAttr": MGMT.SystemGetAttrResp(attributes={"site": "Basel", "owner": "lab"}),
                   "/mgmt.MgmtSvc/SystemGetProp": MGMT.SystemGetPropResp(properties={"self_heal": "exclude", "daos_system": "fathom", "other": "1"}),
                   "/mgmt.MgmtSvc/SystemSetAttr": MGMT.DaosResp(), "/mgmt.MgmtSvc/SystemSetProp": MGMT.DaosResp()}
        with FakeServer(answers) as server:
            self.show("get_attr", server, "system", "get-attr")
            self.show("get_prop", server, "system", "get-prop")
            self.show("set_attr", server, "system", "set-attr", "site:Basel,owner:a:b")
            self.show("del_attr", server, "system", "del-attr", "site", "owner")
            self.show("set_prop", server, "system", "set-prop", "self_heal:none")
            self.show("get_attr_of_name", server, "system", "get-attr", "site")
            self.assertEqual([dict(a.attributes) for a in server.requests("/mgmt.MgmtSvc/SystemSetAttr", MGMT.SystemSetAttrReq)],
                             [{"site": "Basel", "owner": "a:b"}] * 2 + [{"site": "", "owner": ""}] * 2)
            self.assertEqual(list(server.requests("/mgmt.MgmtSvc/SystemGetAttr", MGMT.SystemGetAttrReq)[-1].keys), ["site"])
            for bad in ("site", ":x", "site:", ""):
                self.fathom(server, "system", "set-attr", bad, status=2)
        with FakeServer({"/mgmt.MgmtSvc/SystemGetAttr": MGMT.SystemGetAttrResp()}) as server:
            self.show("get_attr_none", server, "system", "get-attr")


def event(number, **kwargs):
    values = dict(id=2, msg="engine 0 ended: killed by SIGKILL", timestamp="2026-11-22T10:00:00.000000+0000", type=1, severity=1, hostname="node1",
                  rank=3, incarnation=1003, proc_id=77)
    return OURS.NumberedEvent(number=number, event=SHARED.RASEvent(**dict(values, **kwargs)))


class Events(CommandTest):
    def answer(self, request):
        """Ten events, three in each response."""
        asked = OURS.SystemEventsReq.FromString(request)
        kept = [event(number) for number in range(1, 10)] + [event(10, id=1, type=2, severity=3, rank=2**32 - 1, proc_id=0, incarnation=0)]
        more = [one for one in kept if one.number > asked.after]
        if not more and asked.wait_ms:
            return Slow(0.05, OURS.SystemEventsResp(first=1, last=10))
        return OURS.SystemEventsResp(events=more[:min(asked.max or 3, 3)], first=1, last=10)

    def test_all_events_or_the_last_are_shown(self):
        with FakeServer({EVENTS: self.answer}) as server:
            self.show("events", server, "system", "events")
            self.assertEqual([line.split()[0] for line in self.fathom(server, "system", "events").stdout.splitlines()],
                             [str(number) for number in range(1, 11)])
            self.assertEqual(len(json.loads(self.fathom(server, "system", "events", "-j").stdout)["response"]["events"]), 10)
            self.assertEqual(len(self.fathom(server, "system", "events", "-n", 2).stdout.splitlines()), 2)
            self.assertEqual(len(self.fathom(server, "system", "events", "--after", 7).stdout.splitlines()), 3)
            self.fathom(server, "system", "events", "-n", "many", status=2)

    def test_following_succeeds_at_its_time_out(self):
        with FakeServer({EVENTS: self.answer}) as server:
            self.golden("events_followed.txt", self.fathom(server, "system", "events", "--follow", "--timeout", 1).stdout)
            self.golden("events_followed.json", self.fathom(server, "system", "events", "--follow", "--timeout", 1, "--json").stdout)

    def test_events_without_an_answer_in_time_are_an_error(self):
        with FakeServer({EVENTS: Slow(30, OURS.SystemEventsResp())}) as server:
            self.assertRegex(self.fathom(server, "system", "events", "--timeout", 1, status=1).stderr,
                             'code = 5(08 description = "the server at .* did not answer in time|10 description = "system events got no answer within 1 s)')

    def test_following_succeeds_at_a_signal(self):
        with FakeServer({EVENTS: self.answer}) as server:
            command = [FATHOM, "system", "events", "--follow", "-j", "-i", "-l", server.address]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ, HOME=self.folder)) as process:
                said = [json.loads(process.stdout.readline()) for _ in range(10)]
                process.send_signal(signal.SIGINT)
                self.assertEqual(process.wait(60), 0)
                self.assertEqual([one["number"] for one in said], list(range(1, 11)))
                self.assertEqual((said[0]["id"], said[0]["rank"], said[9]["rank"]), ("engine_died", 3, None))
                self.assertEqual(process.stderr.read(), "")


class Ways(CommandTest):
    """Which server is called, how often, and the message when it fails."""

    def test_redirects_to_the_service_are_followed(self):
        with FakeServer({QUERY: ALL_THERE}) as holder, FakeServer({QUERY: not_leader(holder.address, holder.address)}) as follower, \
                FakeServer({QUERY: not_replica(follower.address)}) as other:
            self.assertIn("Joined", self.fathom(other, "system", "query").stdout)
            self.assertEqual([len(server.calls) for server in (other, follower, holder)], [1, 1, 1])

    def test_dead_hosts_are_skipped(self):
        with FakeServer({QUERY: ALL_THERE}) as server:
            self.assertIn("Joined", self.fathom([f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}", server], "system", "query").stdout)

    def test_the_client_waits_for_a_starting_service(self):
        said = [Failure(grpc.StatusCode.UNKNOWN, "raft service unavailable (not started yet?)"),
                fault(610, "server", "the server is still starting", "try again in a moment"), ALL_THERE]
        with FakeServer({QUERY: said}) as server:
            began = time.monotonic()
            self.assertIn("Joined", self.fathom(server, "system", "query").stdout)
            self.assertGreater(time.monotonic() - began, 0.75)      # 250 ms and 500 ms
            self.assertEqual(len(server.calls), 3)

    def test_endless_redirects_end_with_an_error(self):
        with FakeServer({QUERY: not_replica("127.0.0.1:1")}) as server:
            server.answers[QUERY] = [not_replica(server.address, f"127.0.0.1:{free_port()}")]
            done = self.fathom(server, "system", "query", "--timeout", 2, status=1)
            self.assertRegex(done.stderr, "code = 50[0-9] |code = 510 |code = 56[24] ")

    def test_unreachable_servers_are_an_error(self):
        port = free_port()
        done = self.fathom(f"127.0.0.1:{port}", "system", "query", "--timeout", 1, status=1)
        self.assertEqual(done.stderr, f'ERROR: fathom: client: code = 506 description = "the server at 127.0.0.1:{port} refused the connection"\n'
                         'ERROR: fathom: client: code = 506 resolution = "check that a server runs there and listens on this port"\n')
        done = self.fathom([f"127.0.0.1:{port}", f"127.0.0.1:{free_port()}"], "system", "query", "-j", "--timeout", 1, status=1)
        self.assertIn("code = 564", done.stderr)
        envelope = json.loads(done.stdout)
        self.assertEqual((envelope["response"], envelope["status"]), (None, -1025))
        self.assertIn("code = 564", envelope["error"])

    def test_the_fault_of_a_server_is_printed_unchanged(self):
        with FakeServer({QUERY: fault(4711, "server", 'it is "so"', "do that")}) as server:
            self.assertRegex(self.fathom(server, "system", "query", status=1).stderr,
                             r'^ERROR: fathom: server: code = 4711 description = "it is \\"so\\""\nERROR: fathom: server: code = 4711 resolution = "do that"\n$')
        with FakeServer({QUERY: Failure(grpc.StatusCode.UNKNOWN, "no such thing")}) as server:
            self.assertIn("no such thing", self.fathom(server, "system", "query", status=1).stderr)
        for code, text, number, advice in (("PERMISSION_DENIED", "agent may not call it", 950, "use the certificate of a role that may"),
                                           ("UNIMPLEMENTED", "no such method", 560, "use programs of the server's release")):
            with FakeServer({QUERY: Failure(grpc.StatusCode[code], text)}) as server:
                first, second = self.fathom(server, "system", "query", status=1).stderr.splitlines()
                self.assertRegex(first, f'^ERROR: fathom: [a-z]+: code = {number} description = "the server at {server.address} .*: {text}"$')
                self.assertRegex(second, f'^ERROR: fathom: [a-z]+: code = {number} resolution = "{advice}')

    def test_a_time_out_and_a_signal_end_a_call(self):
        with FakeServer({QUERY: Slow(30, ALL_THERE)}) as server:
            self.assertIn("in time", self.fathom(server, "system", "query", "--timeout", 1, status=1).stderr)
            with subprocess.Popen([FATHOM, "system", "query", "-i", "-l", server.address], stderr=subprocess.PIPE, text=True,
                                  env=dict(os.environ, HOME=self.folder)) as process:
                while len(server.calls) < 2:
                    time.sleep(0.01)
                process.terminate()
                self.assertEqual(process.wait(60), 1)
                self.assertIn("code = 562", process.stderr.read())

    def test_a_call_that_must_not_repeat_is_made_once(self):
        with FakeServer({"/mgmt.MgmtSvc/SystemErase": Slow(30, MGMT.SystemEraseResp())}) as server:
            self.fathom([server, f"127.0.0.1:{free_port()}"], "system", "erase", "-f", "--timeout", 1, status=1)
            self.assertEqual(len(server.calls), 1)

    def test_a_call_that_cannot_have_reached_a_host_is_made_to_another(self):
        done = MGMT.SystemEraseResp(results=[SHARED.RankResult(rank=1, action="erase", state="done")])
        with PoweredOff() as off, FakeServer({"/mgmt.MgmtSvc/SystemErase": done}) as server:
            self.assertIn("erase", self.fathom([off, server], "system", "erase", "-f", "--timeout", 6).stdout)
            self.assertEqual(len(server.calls), 1)

    def test_each_connection_failure_has_its_fault(self):
        def listen_and_answer(said):
            listener = socket.socket()
            self.addCleanup(listener.close)
            listener.bind(("127.0.0.1", 0))
            listener.listen(8)

            def serve():
                while True:
                    try:
                        caller, _ = listener.accept()
                    except OSError:
                        return
                    with caller:
                        caller.recv(1000)
                        caller.sendall(said)
                        while said and caller.recv(1000):
                            pass
            threading.Thread(target=serve, daemon=True).start()
            return f"127.0.0.1:{listener.getsockname()[1]}"
        for words in (["system", "query"], ["storage", "scan"]):
            # no route; closed by the peer; not HTTP/2
            for address, code in (("224.0.0.1:1", 505), (listen_and_answer(b""), 507), (listen_and_answer(b"HTTP/1.1 400 What?\r\n\r\n" * 9), 507)):
                self.assertIn(f"code = {code} ", self.fathom(address, *words, "--timeout", 1, status=1).stderr, address)
        with FakeServer({QUERY: ALL_THERE}) as server:      # other servers are called
            self.assertIn("Joined", self.fathom(["224.0.0.1:1", server], "system", "query").stdout)

    def test_each_missing_descriptor_is_reported(self):
        """Each open() of a command fails once: it must report an error, not crash. With all descriptors it must succeed."""
        def ask(limit):
            return subprocess.run(["bash", "-c", f'ulimit -n {limit}; exec "$@"', "bash", FATHOM, "system", "query", "-i", "-l", server.address,
                                   "--timeout", "2"], capture_output=True, text=True, timeout=60, env=dict(os.environ, HOME=self.folder), check=False)

        with FakeServer({QUERY: ALL_THERE}) as server, ThreadPoolExecutor(8) as many:    # each retries for two seconds
            done = list(many.map(ask, range(4, 40)))
        refused = [one for one in done if one.returncode not in (0, 127)]   # 127: the dynamic loader itself failed
        for one in refused:
            self.assertEqual(one.returncode, 1, one.stderr)
            self.assertRegex(one.stderr, r"(?m)^ERROR: fathom: .*(?i:open files|descriptor)")
        self.assertIn("code = 681 ", "".join(one.stderr for one in refused))
        self.assertEqual(done[-1].returncode, 0, done[-1].stderr)
        self.assertIn("Joined", done[-1].stdout)

    def test_an_unknown_host_name_is_an_error(self):
        done = self.run_plain("system", "query", "-i", "-l", "no-such-host.invalid", "--timeout", 2)
        self.assertEqual(done.returncode, 1)
        self.assertIn("code = 563", done.stderr)

    def test_host_names_are_resolved(self):
        with FakeServer({QUERY: ALL_THERE}) as server:
            self.assertIn("Joined", self.fathom(f"localhost:{server.port}", "system", "query").stdout)

    def test_options_are_accepted_at_the_positions_of_dmg(self):
        with FakeServer({QUERY: ALL_THERE}) as server:
            plain = self.run_plain("system", "query", "-i", "-l", server.address, "-j").stdout
            for words in (["-i", "-j", "-l", server.address, "system", "query"], ["system", "-i", "-j", "-l", server.address, "query"]):
                self.assertEqual(self.run_plain(*words).stdout, plain)


class Configuration(CommandTest):
    def write(self, text, name=".fathom_control.yml"):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def test_the_file_names_hosts_port_and_system(self):
        with FakeServer({QUERY: ALL_THERE}) as server:
            text = f"name: lab\nport: {server.port}\nhostlist: ['127.0.0.1']\ntransport_config:\n  allow_insecure: true\n"
            self.write(text)
            self.assertIn("Joined", self.run_plain("system", "query").stdout)
            self.assertRegex(server.requests(QUERY, MGMT.SystemQueryReq)[0].sys, "^lab-")
            path = self.write(text, "other.yml")
            self.write("port: nonsense\n")
            self.assertIn("Joined", self.run_plain("system", "query", "-o", path).stdout)
            bad = self.run_plain("system", "query")
            self.assertEqual(bad.returncode, 1)
            self.assertRegex(bad.stderr, r"code = 755 .*\.fathom_control\.yml:1")

    def test_an_invalid_configuration_is_refused(self):
        self.write("hostlists: [a]\n")
        self.assertRegex(self.run_plain("system", "query").stderr, 'code = 753 (.|\n)*use ..hostlist')
        self.assertIn("code = 750", self.run_plain("system", "query", "-o", "/no/such/file").stderr)
        self.write("name: a+b\n")
        self.assertRegex(self.run_plain("system", "query").stderr, "code = 755 (.|\n)*1 to 63 letters")
        self.write("{}\n")
        self.assertIn("code = 561", self.run_plain("system", "query", "-i", "-l", "node[4-1]").stderr)
        self.assertIn("code = 503", self.run_plain("system", "query", "-i", "-l", ",").stderr)
        self.assertIn("code = 901", self.run_plain("system", "query").stderr)


class Certificates(CommandTest):
    def setUp(self):
        super().setUp()
        self.certificates = os.path.join(self.folder, "certs")
        subprocess.run([os.path.join(TOP, "test", "make-certificates"), self.certificates], check=True, capture_output=True)

    def configure(self, server, *others, name="admin"):
        hosts = ", ".join(f"'{address}'" for address in (server.address, *others))
        with open(os.path.join(self.folder, ".fathom_control.yml"), "w") as file:
            file.write(f"hostlist: [{hosts}]\ntransport_config:\n  ca_cert: {self.certificates}/ca.crt\n"
                       f"  cert: {self.certificates}/{name}.crt\n  key: {self.certificates}/{name}.key\n")

    def test_an_administrators_certificate_is_accepted(self):
        with FakeServer({QUERY: ALL_THERE}, certificates=self.certificates) as server:
            self.configure(server)
            done = self.run_plain("system", "query")
            self.assertIn("Joined", done.stdout, done.stderr)
            self.assertNotIn("Joined", self.run_plain("system", "query", "-i", "--timeout", 1).stdout)

    def test_a_server_of_another_authority_is_refused(self):
        foreign = os.path.join(self.folder, "foreign")
        subprocess.run([os.path.join(TOP, "test", "make-certificates"), foreign], check=True, capture_output=True)
        with FakeServer({QUERY: ALL_THERE}, certificates=foreign) as server:
            self.configure(server)
            self.assertRegex(self.run_plain("system", "query", "--timeout", 2).stderr, "code = 680 .*authority")
            # among several failed hosts its reason and resolution are printed
            self.configure(server, f"127.0.0.1:{free_port()}")
            first, second = self.run_plain("system", "query", "--timeout", 2).stderr.splitlines()
            self.assertRegex(first, "code = 564 .*authority")
            self.assertRegex(second, 'code = 564 resolution = "check that both sides use certificates of the same authority')

    def test_an_unreadable_key_is_a_fault(self):
        """root may read all files, so the command runs as another user."""
        user = {"user": 65534, "group": 65534, "extra_groups": []} if os.getuid() == 0 else {}
        key = os.path.join(self.certificates, "admin.key")
        for folder in (self.folder, self.certificates):
            os.chmod(folder, 0o755)
        os.chmod(key, 0o600 if user else 0o000)
        with FakeServer({QUERY: ALL_THERE}, certificates=self.certificates) as server:
            self.configure(server)
            program = shutil.copy(FATHOM, self.folder)  # that user may not reach a clone in a private folder
            first, second = self.run_plain("system", "query", program=program, **user).stderr.splitlines()
            self.assertIn(f'security: code = 902 description = "the certificate {key} cannot be read: ', first)
            self.assertIn("code = 902 resolution = \"let this user enter its folders and read it", second)

    def test_missing_exposed_and_invalid_files_are_faults(self):
        with FakeServer({QUERY: ALL_THERE}, certificates=self.certificates) as server:
            self.configure(server, name="absent-name")
            self.assertRegex(self.run_plain("system", "query").stderr, r"code = 901 .*absent-name\.")
            self.configure(server)
            key = os.path.join(self.certificates, "admin.key")
            os.chmod(key, 0o644)
            self.assertRegex(self.run_plain("system", "query").stderr, r"code = 953 .*admin\.key")
            os.chmod(key, 0o600)
            with open(key, "w") as file:
                file.write("nothing\n")
            self.assertRegex(self.run_plain("system", "query").stderr, r"code = 903 .*admin\.key")


class Lines(CommandTest):
    def test_invalid_command_lines_are_refused(self):
        for words in (["system"], ["system", "nonsense"], ["system", "query", "more"], ["system", "query", "--nonsense"],
                      ["system", "query", "--timeout", "0"], ["system", "query", "--with-states", "x", "-i"], ["system", "set-attr"],
                      ["system", "query", "--not-ok", "--with-states", "joined", "-i"]):
            done = self.run_plain(*words)
            self.assertEqual(done.returncode, 2, words)
            self.assertEqual(done.stdout, "")
            self.assertTrue(done.stderr)
        self.assertIn("code = 550", self.run_plain("system", "query", "-i", "--ranks", "x").stderr)

    def test_each_command_has_help(self):
        listed = [line.split()[0] for line in self.run_plain("system", "--help").stdout.split("commands:\n")[1].split("\n\n")[0].splitlines()]
        self.assertIn("query", listed)
        for command in listed:
            done = self.run_plain("system", command, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertTrue(done.stdout.startswith(f"usage: fathom system {command} "))


if __name__ == "__main__":
    unittest.main()
