# SPDX-License-Identifier: BSD-2-Clause
"""
Ranks of fathom-server: stopped, started and erased over gRPC, on one host and on two.
"""

import concurrent.futures
import json
import os
import signal
import socket
import time
import unittest

from harness import free_port, run
from server_rig import RANK_NONE, SERVER, Refused, ServerTest, is_alive


class Ranks(ServerTest):
    def ranks(self, server, method, role="server", **fields):
        answer = server.call("/ctl.CtlSvc/" + method, self.messages.ctl.RanksReq(**fields), role=role, timeout=60)
        return [(row.rank, row.action, row.state, row.errored) for row in answer.results]

    def test_ranks_are_stopped_and_started(self):
        server = self.server(engines=2).start()
        server.format()
        before = server.wait_joined()
        self.assertEqual(self.ranks(server, "PrepShutdownRanks", ranks="1"), [(1, "prep shutdown", "stopping", False)])
        self.assertEqual(self.ranks(server, "StopRanks", ranks="1"), [(1, "stop", "stopped", False)])
        stopped = {engine.rank: engine for engine in server.engines()}[1]
        self.assertEqual((stopped.state, stopped.pid), ("stopped", 0))
        self.assertEqual([engine.state for engine in server.engines() if engine.rank == 0], ["joined"])
        self.assertEqual(self.ranks(server, "StartRanks", ranks="1"), [(1, "start", "ready", False)])
        after = server.wait_joined()
        self.assertEqual([engine.rank for engine in after], [engine.rank for engine in before])
        self.assertEqual(self.ranks(server, "StopRanks", ranks="7"), [])

    def storage(self, server, timeout=60, **fields):
        return server.call("/fathom.ControlSvc/Storage", self.messages.store.StorageReq(**fields), role="server", timeout=timeout)

    def fault_of(self, call):
        with self.assertRaises(Refused) as refused:
            call()
        return refused.exception.fault

    def test_a_request_about_storage_goes_to_the_engine_of_its_rank(self):
        """A call that hangs in one engine delays no call of the other, and ends with the server."""
        server = self.server(engines=2).start()
        server.format()
        engines = {engine.rank: engine for engine in server.wait_joined()}
        answer = self.storage(server, rank=1)
        self.assertEqual((answer.error, answer.state, len(answer.pools)), (0, "OPEN", 0))
        made = self.storage(server, rank=1, action=self.messages.store.POOL_CREATE, pool="p1", size_bytes=1 << 20,
                            pool_uuid="00000000-0000-4000-8000-000000000001")
        self.assertEqual(made.error, 0, made.text)
        self.assertEqual([[pool.name for pool in self.storage(server, rank=rank).pools] for rank in (0, 1)], [[], ["p1"]])
        self.assertEqual(self.fault_of(lambda: self.storage(server, rank=2)).get("Code"), "676")
        self.assertEqual(self.fault_of(lambda: self.storage(server, rank=RANK_NONE)).get("Code"), "676")
        os.kill(engines[0].pid, signal.SIGSTOP)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            hung = pool.submit(self.storage, server, rank=0)
            self.assertEqual([pool.name for pool in self.storage(server, rank=1).pools], ["p1"])
            os.kill(engines[0].pid, signal.SIGKILL)
            self.assertEqual(self.fault_of(hung.result).get("Code"), "659")
            os.kill(engines[1].pid, signal.SIGSTOP)
            hung = pool.submit(self.storage, server, rank=1)
            deadline = time.monotonic() + 60
            while self.counters(server)["storage_calls"] < 9 and time.monotonic() < deadline:
                time.sleep(0.02)
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(self.fault_of(hung.result).get("Code"), "610")
        server.close_channel()
        self.assertEqual(server.process.wait(60), 0)
        os.kill(engines[1].pid, signal.SIGCONT)

    def counters(self, server):
        return json.loads(run(SERVER, "stats", "-j", "-o", server.config_path).stdout)["server"]

    def test_a_call_that_names_no_rank_applies_to_all(self):
        server = self.server(engines=2).start()
        server.format()
        server.wait_joined()
        self.assertEqual(sorted(self.ranks(server, "StopRanks", force=True)),
                         [(0, "stop", "stopped", False), (1, "stop", "stopped", False)])

    def test_a_system_is_stopped_and_started(self):
        server = self.server(engines=2).start()
        server.format()
        server.wait_joined()
        server.wait_members("joined")
        mgmt = self.messages.mgmt
        stopped = server.call("/mgmt.MgmtSvc/SystemStop", mgmt.SystemStopReq(prep=True, kill=True), timeout=60).results
        self.assertEqual(sorted((row.rank, row.state) for row in stopped), [(0, "stopped"), (1, "stopped")])
        server.wait_members("stopped")
        started = server.call("/mgmt.MgmtSvc/SystemStart", mgmt.SystemStartReq(), timeout=60).results
        self.assertEqual(sorted((row.rank, row.errored) for row in started), [(0, False), (1, False)])
        server.wait_members("joined")

    def test_a_start_just_after_the_server_started_leaves_the_running_ranks_joined(self):
        """The server answers before it has adopted its engines."""
        server = self.server(engines=2).start()
        server.format()
        before = server.wait_joined()
        server.wait_members("joined")
        server.kill()
        server.start()
        answer, deadline = None, time.monotonic() + 60
        while not answer and time.monotonic() < deadline:
            try:
                answer = server.call("/mgmt.MgmtSvc/SystemStart", self.messages.mgmt.SystemStartReq(), timeout=60)
            except Refused:  # the management service has not started yet
                time.sleep(0.02)
        self.assertEqual(sorted((row.rank, row.errored, row.msg) for row in answer.results), [(0, False, "system start"), (1, False, "system start")])
        server.wait_members("joined")
        self.assertEqual([(engine.pid, engine.incarnation) for engine in server.wait_joined()],
                         [(engine.pid, engine.incarnation) for engine in before])

    def test_a_serving_rank_that_was_reported_dead_joins_again(self):
        server = self.server(engines=2).start()
        server.format()
        before = server.wait_joined()
        server.wait_members("joined")
        shared, mgmt = self.messages.shared, self.messages.mgmt
        member = [member for member in server.members() if member.rank == 1][0]
        event = shared.RASEvent(id=2, msg="it is reported dead", timestamp="2026-11-22T12:00:00.000000+00:00", type=1, severity=1,
                                hostname="elsewhere", rank=1, incarnation=member.incarnation)
        server.call("/mgmt.MgmtSvc/ClusterEvent", shared.ClusterEventReq(sequence=1, event=event), role="server")
        self.assertEqual({member.rank: member.state for member in server.members()}, {0: "joined", 1: "errored"})
        started = server.call("/mgmt.MgmtSvc/SystemStart", mgmt.SystemStartReq(), timeout=60).results
        self.assertEqual([row.errored for row in started], [False, False])
        self.assertEqual({member.rank: member.state for member in server.members()}, {0: "joined", 1: "joined"})
        self.assertEqual([(engine.pid, engine.incarnation) for engine in server.engines()],
                         [(engine.pid, engine.incarnation) for engine in before])

    def test_a_rank_that_was_prepared_to_stop_serves_when_it_is_started(self):
        server = self.server(engines=2, keys="server_heartbeat: 1s\n").start()
        server.format()
        before = {engine.rank: engine for engine in server.wait_joined()}
        server.wait_members("joined")
        self.assertEqual(self.ranks(server, "PrepShutdownRanks", ranks="1"), [(1, "prep shutdown", "stopping", False)])
        deadline = time.monotonic() + 60
        while {member.rank: member.state for member in server.members()} != {0: "joined", 1: "stopping"}:  # until it is reported
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        started = server.call("/mgmt.MgmtSvc/SystemStart", self.messages.mgmt.SystemStartReq(), timeout=60).results
        self.assertEqual([row.errored for row in started], [False, False])
        after = {engine.rank: engine for engine in server.wait_joined()}
        self.assertEqual(after[0].pid, before[0].pid)
        self.assertNotEqual(after[1].pid, before[1].pid)
        server.wait_members("joined")
        with socket.create_connection(("127.0.0.1", server.engine_ports[1]), 5) as host:  # the engine accepts hosts again
            host.settimeout(5)
            host.sendall(bytes([0, 0, 128, 0, 128, 0, 0, 0]) + bytes(120))  # ICReq
            self.assertEqual(host.recv(1), b"\x01")  # ICResp

    def test_a_system_is_erased_and_formatted_again(self):
        server = self.server(engines=2).start()
        server.format()
        before = {engine.uuid for engine in server.wait_joined()}
        server.wait_members("joined")
        mgmt = self.messages.mgmt
        server.call("/mgmt.MgmtSvc/SystemStop", mgmt.SystemStopReq(prep=True, kill=True), timeout=60)
        rows = server.call("/mgmt.MgmtSvc/SystemErase", mgmt.SystemEraseReq(), timeout=60).results
        self.assertEqual([row.msg for row in rows if row.errored], [])
        self.assertFalse(os.path.exists(os.path.join(server.mount_path(0), "superblock")))
        self.assertEqual([engine.state for engine in server.engines()], ["await_format", "await_format"])
        server.stop()
        server.start()  # no engine runs, so none rejoins
        server.wait(lambda engines: all(engine.state == "await_format" for engine in engines))
        answer = server.format()
        self.assertEqual([row.state.error for row in answer.mrets], ["", ""])
        after = {engine.uuid for engine in server.wait_joined()}
        self.assertEqual((len(after), after & before), (2, set()))
        ranks = {member.rank for member in server.wait_members("joined")}
        self.assertEqual((len(ranks), min(ranks)), (2, 0))  # the host's first engine has rank 0 again

    def test_an_invalid_set_of_ranks_is_refused(self):
        server = self.server(engines=0).start()
        with self.assertRaises(Refused) as refused:
            self.ranks(server, "StopRanks", ranks="1-")
        self.assertEqual(refused.exception.fault.get("Code"), "550")

    def test_stop_engines_stops_the_engines_of_the_host(self):
        server = self.server(engines=2).start()
        server.format()
        engines = server.wait_joined()
        done = run(SERVER, "stop-engines", "-o", server.config_path)
        self.assertEqual(sorted(done.stdout.splitlines()), [f"engine {engine.index} (rank {engine.rank}): stopped" for engine in engines])
        self.assertFalse(any(is_alive(engine.pid) for engine in engines))
        self.assertEqual([engine.state for engine in server.engines()], ["stopped", "stopped"])
        server.wait_members("stopped")
        server.call("/ctl.CtlSvc/ResetFormatRanks", self.messages.ctl.RanksReq(), role="server", timeout=60)
        server.wait(lambda engines: all(engine.rank == RANK_NONE for engine in engines))
        self.assertEqual(sorted(run(SERVER, "stop-engines", "-o", server.config_path).stdout.splitlines()),
                         ["engine 0: stopped", "engine 1: stopped"])     # neither has a rank
        server.stop()
        self.assertIn("code = 506", run(SERVER, "stop-engines", "-o", server.config_path, check=False).stderr)


class TwoHosts(ServerTest):
    """The management service on one server, engines on both; both on this machine."""

    def hosts(self, keys=""):
        fast = keys + "engine_restart: {killed: {delay_min: 20ms, delay_max: 40ms}}\n"
        first = self.server(keys=fast)
        second = self.server(keys=fast + f"mgmt_svc_replicas: ['{first.address}']\n")
        return first, second

    def events(self, server):
        answer = server.call("/fathom.ControlSvc/SystemEvents", self.messages.fathom.SystemEventsReq())
        return [event.event for event in answer.events]

    def test_an_engine_waits_for_the_management_service(self):
        first, second = self.hosts()
        second.start()
        second.format()
        second.wait(lambda engines: engines[0].state == "ready")
        self.assertEqual(second.engines()[0].rank, RANK_NONE)
        first.start()
        first.format()
        first.wait_joined()
        self.assertEqual((first.engines()[0].rank, second.wait_joined()[0].rank), (0, 1))
        self.assertEqual({(member.rank, member.addr) for member in first.wait_members("joined")},
                         {(0, first.address), (1, second.address)})

    def test_events_wait_on_disk_for_the_management_service(self):
        first, second = self.hosts()
        first.start()
        first.format()
        first.wait_joined()
        second.start()
        second.format()
        before = second.wait_joined()[0]
        first.kill()
        os.kill(before.pid, signal.SIGKILL)
        second.wait(lambda engines: engines[0].incarnation != before.incarnation and engines[0].state == "ready")
        second.kill()  # spooled events must survive this
        second.start()
        first.start()
        second.wait_joined()
        deadline = time.monotonic() + 60
        while not [event for event in self.events(first) if event.id == 2] and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertEqual([(event.rank, event.incarnation) for event in self.events(first) if event.id == 2],
                         [(1, before.incarnation)])

    def wait_refusals(self, server, count):
        """Wait for `count` events of refused joins, and check that no more follow."""
        deadline = time.monotonic() + 60
        while len(found := [event for event in self.events(server) if event.id == 26]) < count and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.3)
        self.assertEqual(len([event for event in self.events(server) if event.id == 26]), count)
        return found

    def joined_hosts(self):
        first, second = self.hosts()
        for server in (first, second):
            server.start()
            server.format()
            server.wait_joined()
        return first, second

    def test_the_refusal_of_a_running_engine_is_one_event(self):
        first, second = self.joined_hosts()
        engine = second.engines()[0]
        second.kill()
        old, second.port = second.address, free_port()      # a rank cannot rejoin from another address
        second.address = f"127.0.0.1:{second.port}"
        with open(second.config_path) as file:
            text = file.read()
        with open(second.config_path, "w") as file:
            file.write(text.replace(f"\nport: {old.split(':')[1]}\n", f"\nport: {second.port}\n"))
        second.start()
        second.wait(lambda engines: engines[0].state == "refused")
        event, = self.wait_refusals(first, 1)
        self.assertEqual(event.msg, f"fathom-engine 0 serves on, but is refused: rank 1 joins from {second.address}, but its control address is {old}"[:127])
        self.assertEqual((event.rank, event.incarnation, event.proc_id), (1, engine.incarnation, engine.pid))
        self.assertTrue(is_alive(engine.pid))

    def test_the_refusal_of_an_engine_excluded_while_its_server_was_dead_is_one_event(self):
        first, second = self.joined_hosts()
        engine = second.engines()[0]
        second.kill()
        first.call("/mgmt.MgmtSvc/SystemExclude", self.messages.mgmt.SystemExcludeReq(ranks="1"))
        second.start()
        second.wait(lambda engines: engines[0].pid == 0)
        event, = self.wait_refusals(first, 1)
        self.assertRegex(event.msg, "^fathom-engine 0 is refused and ends: rank 1 .*excluded")
        self.assertEqual((event.rank, event.incarnation), (1, engine.incarnation))
        self.assertEqual([event.id for event in self.events(first) if event.id == 2], [])    # no event reports it dead

    def test_the_refusal_of_a_starting_engine_is_one_event(self):
        first, second = self.joined_hosts()
        engine = second.engines()[0]
        first.call("/mgmt.MgmtSvc/SystemStop", self.messages.mgmt.SystemStopReq(prep=True, kill=True, ranks="1"), timeout=60)
        second.kill()
        first.call("/mgmt.MgmtSvc/SystemExclude", self.messages.mgmt.SystemExcludeReq(ranks="1"))
        second.start()      # the server starts the engine
        event, = self.wait_refusals(first, 1)
        self.assertRegex(event.msg, "^rank 1 .*excluded")
        self.assertEqual(event.rank, 1)
        self.assertFalse(is_alive(engine.pid))

    def test_the_rank_of_a_missing_server_is_unresponsive_until_it_is_back(self):
        first, second = self.hosts("server_heartbeat: 200ms\n")
        for server in (first, second):
            server.start()
            server.format()
            server.wait_joined()
        before = second.engines()[0]
        second.kill()

        def wait(state):
            deadline = time.monotonic() + 60
            while True:
                states = {member.rank: member.state for member in first.members()}
                if states == {0: "joined", 1: state}:
                    return
                self.assertLess(time.monotonic(), deadline, f"{states}\n{first.log()}")
                time.sleep(0.02)

        wait("unresponsive")
        self.assertTrue(is_alive(before.pid))
        second.start()
        wait("joined")
        self.assertEqual(second.wait_joined()[0].pid, before.pid)
        # a server that hangs and continues: the same, without a restart
        second.process.send_signal(signal.SIGSTOP)
        wait("unresponsive")
        second.process.send_signal(signal.SIGCONT)
        wait("joined")
        self.assertEqual([event.id for event in self.events(first) if event.id in (1001, 1002)], [1001, 1002, 1001, 1002])

    def test_a_system_is_stopped_on_all_its_hosts(self):
        first, second = self.hosts()
        for server in (first, second):
            server.start()
            server.format()
            server.wait_joined()
        first.wait_members("joined")
        rows = first.call("/mgmt.MgmtSvc/SystemStop", self.messages.mgmt.SystemStopReq(prep=True, kill=True), timeout=60).results
        self.assertEqual(sorted((row.rank, row.state, row.addr) for row in rows),
                         [(0, "stopped", first.address), (1, "stopped", second.address)])
        self.assertEqual(second.engines()[0].state, "stopped")
        with self.assertRaises(Refused):  # the second server has no management service
            second.call("/mgmt.MgmtSvc/SystemQuery", self.messages.mgmt.SystemQueryReq(state_mask=0xFFFF))


if __name__ == "__main__":
    unittest.main()
