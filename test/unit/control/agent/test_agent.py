#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""fathom-agent and its clients, on the wire: attach information, credentials, processes, and clients that are hostile."""

import hashlib
import json
import os
import signal
import socket
import subprocess
import threading
import unittest
import uuid

import grpc

import agent_rig as rig
from agent_rig import (ATTACH_INFO, EVICT, FATHOM, GET_ATTACH_INFO, MGMT, NOBODY, NOTIFY_CONNECT, NOTIFY_DISCONNECT, NOTIFY_EXIT, REFRESH,
                       REQUEST_CREDS, SEC_AGENT, SETUP_TELEMETRY, attach_info, wait_for)
from fake_server import Failure, PoweredOff, Slow, not_replica

UNREACHABLE, TIMED_OUT, INVALID, NOT_FOUND, BUSY = -1006, -1011, -1003, -1005, -1012


class AttachInfo(rig.AgentTest):
    def test_all_clients_are_answered_from_one_copy(self):
        server = self.server({ATTACH_INFO: attach_info()})
        agent = self.agent([server])
        for _ in range(20):
            answer = agent.attach_info()
            self.assertEqual((answer.status, len(answer.rank_uris), answer.client_net_hint.provider), (0, 2, "nvme+tcp"))
        self.assertEqual(len(server.calls), 1)
        request = server.requests(ATTACH_INFO, rig.mgmt.GetAttachInfoReq)[0]
        self.assertTrue(request.all_ranks)
        self.assertTrue(request.sys.startswith("fathom-"))
        self.assertEqual(server.calls[0][2]["x-daos-component"], "agent")

    def test_a_client_gets_an_interface_of_the_servers_class_unless_it_names_one(self):
        agent = self.agent([self.server({ATTACH_INFO: attach_info(device_class=772)})])
        self.assertEqual(agent.attach_info().client_net_hint.interface, "lo")
        hint = agent.attach_info(interface="ib7", domain="mlx5_7").client_net_hint
        self.assertEqual((hint.interface, hint.domain), ("ib7", "mlx5_7"))
        self.assertEqual(agent.attach_info(interface="ib7").client_net_hint.domain, "ib7")

    def test_configured_interfaces_are_used_in_turn(self):
        keys = "fabric_ifaces: [{numa_node: 0, devices: [{iface: ib0, domain: mlx0}, {iface: ib1}]}]\n"
        agent = self.agent([self.server({ATTACH_INFO: attach_info(device_class=32)})], keys)
        seen = {agent.attach_info().client_net_hint.interface for _ in range(4)}
        self.assertEqual(seen, {"ib0", "ib1"})
        nodes = agent.attach_info().numa_fabric_interfaces
        self.assertEqual([(one.interface, one.domain, one.provider) for one in nodes[0].ifaces],
                         [("ib0", "mlx0", "nvme+tcp"), ("ib1", "ib1", "nvme+tcp")])

    def test_without_all_ranks_a_client_gets_those_of_the_management_service(self):
        agent = self.agent([self.server({ATTACH_INFO: attach_info(ranks=5)})])
        self.assertEqual([one.rank for one in agent.attach_info(all_ranks=False).rank_uris], [0])

    def test_another_system_is_refused(self):
        agent = self.agent([self.server({ATTACH_INFO: attach_info()})])
        self.assertEqual(agent.attach_info(sys="other").status, INVALID)
        self.assertEqual(agent.attach_info(sys="fathom").status, 0)
        self.assertEqual(agent.attach_info(sys="fathom-0.1.0").status, 0)

    def test_a_client_that_has_a_stale_answer_gets_a_newer_one(self):
        server = self.server({ATTACH_INFO: [attach_info(1), attach_info(2, ranks=7)]})
        agent = self.agent([server])
        self.assertEqual(agent.attach_info().data_version, 1)

        def refresh():
            return agent.call(FATHOM, REFRESH, rig.agent.RefreshReq(data_version=1), rig.mgmt.GetAttachInfoResp)

        newer = wait_for(lambda: (lambda one: one if one.data_version == 2 else None)(refresh()), "a refresh")
        self.assertEqual(len(newer.rank_uris), 7)
        calls = len(server.calls)
        self.assertEqual(refresh().data_version, 2)     # it is newer than the client's: no call
        self.assertEqual(len(server.calls), calls)

    def test_a_redirect_is_followed(self):
        leader = self.server({ATTACH_INFO: attach_info()})
        other = self.server({ATTACH_INFO: not_replica(leader.address)})
        self.assertEqual(self.agent([other]).attach_info().status, 0)

    def test_a_server_that_hangs_does_not_block_clients(self):
        with PoweredOff() as silent:
            agent = self.agent([silent])
            self.assertIn(agent.attach_info().status, (UNREACHABLE, TIMED_OUT))

    def test_a_server_that_hangs_later_leaves_the_copy_with_its_age(self):
        server = self.server({ATTACH_INFO: [attach_info(), Slow(3600, attach_info(2))]})
        agent = self.agent([server])
        self.assertEqual(agent.attach_info().data_version, 1)
        agent.process.send_signal(signal.SIGHUP)    # refreshes
        wait_for(lambda: len(server.calls) == 2, "the refresh")
        answer = agent.attach_info()
        self.assertEqual((answer.status, answer.data_version), (0, 1))
        self.assertGreater(wait_for(lambda: agent.attach_info().age_ms, "an age"), 0)

    def test_a_refusing_server_is_a_fault_until_it_answers(self):
        server = self.server({ATTACH_INFO: [Failure(grpc.StatusCode.UNKNOWN, "not today"), attach_info()]})
        agent = self.agent([server])
        wait_for(lambda: agent.attach_info().status == 0, "the retry")
        self.assertIn("not today", agent.log())

    def test_without_caching_each_client_asks_a_server(self):
        server = self.server({ATTACH_INFO: attach_info()})
        agent = self.agent([server], "disable_caching: true")
        wait_for(lambda: agent.attach_info().status == 0)
        before = len(server.calls)
        for _ in range(3):
            self.assertEqual(agent.attach_info().status, 0)
        self.assertGreaterEqual(len(server.calls), before + 3)

    def test_host_names_are_resolved(self):
        server = self.server({ATTACH_INFO: attach_info()})
        self.assertEqual(self.agent([f"localhost:{server.port}"]).attach_info().status, 0)

    def test_telemetry_of_clients_is_not_supported(self):
        agent = self.agent([self.server({ATTACH_INFO: attach_info()})])
        answer = agent.call(MGMT, SETUP_TELEMETRY, rig.agent.ClientTelemetryReq(), rig.agent.ClientTelemetryResp)
        self.assertEqual(answer.status, -1010)


class Credentials(rig.AgentTest):
    def names(self, credential):
        token = rig.security.Token.FromString(credential.token)
        self.assertEqual(token.flavor, 1)
        return rig.security.Sys.FromString(token.data)

    def signature(self, credential):
        return rig.security.SysVerifier.FromString(rig.security.Token.FromString(credential.verifier).data).signature

    def test_a_credential_has_the_names_of_the_sockets_peer(self):
        agent = self.agent([self.server({ATTACH_INFO: attach_info()})])
        answer = agent.credential()
        self.assertEqual((answer.status, answer.cred.origin), (0, "agent"))
        sys = self.names(answer.cred)
        self.assertEqual((sys.user, sys.group, sys.machinename), ("root@", "root@", socket.gethostname()))
        self.assertEqual(self.signature(answer.cred), hashlib.sha512(answer.cred.token).digest())

    def test_another_user_gets_its_own_name(self):
        agent = self.agent([self.server({ATTACH_INFO: attach_info()})])
        with open(os.path.join(rig.HERE, "agent_rig.py")):      # readable by it, as its folder is
            pass
        body = rig.drpc.Call(module=SEC_AGENT, method=REQUEST_CREDS, sequence=7).SerializeToString()
        packet = rig.CHUNK.pack(len(body), len(body), 0, 1) + body
        said = self.as_user(NOBODY, f"s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\ns.connect({agent.socket!r})\n"
                                    f"s.send({packet!r})\nprint(s.recv(1 << 17)[24:].hex())")
        answer = rig.security.GetCredResp.FromString(rig.drpc.Response.FromString(bytes.fromhex(said)).body)
        self.assertEqual(self.names(answer.cred).user, "nobody@")

    def test_a_user_that_the_host_does_not_know_is_refused_unless_it_is_mapped(self):
        keys = "credential_config: {client_user_map: [{uid: 54321, user: guest, group: guests, groups: [others]}]}"
        agent = self.agent([self.server({ATTACH_INFO: attach_info()})], keys)
        body = rig.drpc.Call(module=SEC_AGENT, method=REQUEST_CREDS, sequence=7).SerializeToString()
        packet = rig.CHUNK.pack(len(body), len(body), 0, 1) + body
        for uid, status in ((54321, 0), (54322, NOT_FOUND)):
            said = self.as_user(uid, f"s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\ns.connect({agent.socket!r})\n"
                                     f"s.send({packet!r})\nprint(s.recv(1 << 17)[24:].hex())")
            answer = rig.security.GetCredResp.FromString(rig.drpc.Response.FromString(bytes.fromhex(said)).body)
            self.assertEqual(answer.status, status)
            if status == 0:
                sys = self.names(answer.cred)
                self.assertEqual((sys.user, sys.group, list(sys.groups)), ("guest@", "guests@", ["others@"]))

    def test_with_certificates_it_is_signed_by_the_agents_key(self):
        certificates = os.path.join(self.folder, "certs")
        subprocess.run([os.path.join(rig.TOP, "test/make-certificates"), certificates], check=True, capture_output=True)
        server = self.server({ATTACH_INFO: attach_info()}, certificates=certificates)
        agent = self.agent([server], secure=certificates)
        self.assertEqual(agent.attach_info().status, 0)
        credential = agent.credential().cred
        for name, data in (("token", credential.token), ("signature", self.signature(credential))):
            with open(os.path.join(self.folder, name), "wb") as file:
                file.write(data)
        key = subprocess.run(["openssl", "x509", "-in", f"{certificates}/agent.crt", "-noout", "-pubkey"], check=True, capture_output=True).stdout
        with open(os.path.join(self.folder, "key"), "wb") as file:
            file.write(key)
        done = subprocess.run(["openssl", "dgst", "-sha512", "-verify", "key", "-sigopt", "rsa_padding_mode:pss", "-sigopt",
                               "rsa_pss_saltlen:auto", "-signature", "signature", "token"], cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertIn("Verified OK", done.stdout + done.stderr)


class Processes(rig.AgentTest):
    def setUp(self):
        super().setUp()
        self.evicting = self.server({ATTACH_INFO: attach_info(), EVICT: rig.agent.EvictResp(status=0, count=1)})
        self.one = self.agent([self.evicting])
        self.pool = str(uuid.uuid4())

    def monitor(self, handle, **fields):
        return rig.agent.PoolMonitorReq(pool_uuid=self.pool, handle_uuid=handle, **fields)

    def evictions(self):
        return self.evicting.requests(EVICT, rig.agent.EvictReq)

    def client(self, *handles):
        """A process that connects handles, then waits for its end."""
        packets = []
        for handle in handles:
            body = rig.drpc.Call(module=MGMT, method=NOTIFY_CONNECT, sequence=7, body=self.monitor(handle).SerializeToString()).SerializeToString()
            packets.append(rig.CHUNK.pack(len(body), len(body), 0, 1) + body)
        process = subprocess.Popen(["/usr/bin/python3", "-c", f"""
import socket, sys
for packet in {packets!r}:
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect({self.one.socket!r})
    s.send(packet)
    s.recv(1 << 17)
    s.close()
print("connected", flush=True)
sys.stdin.read()
"""], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "connected\n")
        return process

    def test_the_handles_of_a_process_that_dies_are_evicted(self):
        handles = [str(uuid.uuid4()) for _ in range(3)]
        process = self.client(*handles)
        self.assertEqual(self.one.counters()["clients"], 1)
        self.assertEqual(self.evictions(), [])
        process.kill()
        wait_for(self.evictions, "an eviction")
        request = self.evictions()[0]
        self.assertEqual((request.id, sorted(request.handles)), (self.pool, sorted(handles)))
        wait_for(lambda: self.one.counters()["handles_evicted"] == 3)
        self.assertEqual(self.one.counters()["clients"], 0)

    def test_a_process_that_says_that_it_exits_is_cleaned_up_at_once(self):
        handle = str(uuid.uuid4())
        self.assertEqual(self.one.call(MGMT, NOTIFY_CONNECT, self.monitor(handle), rig.agent.StatusResp).status, 0)
        self.one.call(MGMT, NOTIFY_EXIT)
        wait_for(self.evictions, "an eviction")
        self.assertEqual(list(self.evictions()[0].handles), [handle])

    def test_a_handle_that_was_disconnected_is_not_evicted(self):
        handle = str(uuid.uuid4())
        self.assertEqual(self.one.call(MGMT, NOTIFY_CONNECT, self.monitor(handle), rig.agent.StatusResp).status, 0)
        self.assertEqual(self.one.call(MGMT, NOTIFY_DISCONNECT, self.monitor(handle), rig.agent.StatusResp).status, 0)
        self.assertEqual(self.one.call(MGMT, NOTIFY_DISCONNECT, self.monitor(handle), rig.agent.StatusResp).status, NOT_FOUND)
        self.one.call(MGMT, NOTIFY_EXIT)
        self.assertEqual(self.one.counters()["clients"], 0)
        self.assertEqual(self.evictions(), [])

    def test_the_agents_end_evicts_what_is_left(self):
        handle = str(uuid.uuid4())
        self.client(handle)
        self.assertEqual(self.one.stop(), 0)
        self.assertEqual([list(request.handles) for request in self.evictions()], [[handle]])

    def test_the_agents_end_does_not_wait_for_the_evictions_of_many_pools(self):
        self.evicting.answers[EVICT] = [Slow(3600, rig.agent.EvictResp(status=0))]
        with rig.connect(self.one.socket) as sock:
            for _ in range(4):
                request = rig.agent.PoolMonitorReq(pool_uuid=str(uuid.uuid4()), handle_uuid=str(uuid.uuid4()))
                self.assertEqual(self.one.call(MGMT, NOTIFY_CONNECT, request, rig.agent.StatusResp, sock=sock).status, 0)
            self.one.process.send_signal(signal.SIGTERM)
            wait_for(self.evictions, "it ends")
        self.assertEqual(self.one.stop(), 0)

    def test_no_handle_is_taken_while_the_agent_ends(self):
        self.evicting.answers[EVICT] = [Slow(3600, rig.agent.EvictResp(status=0))]
        with rig.connect(self.one.socket) as sock:
            self.assertEqual(self.one.call(MGMT, NOTIFY_CONNECT, self.monitor(str(uuid.uuid4())), rig.agent.StatusResp, sock=sock).status, 0)
            self.one.process.send_signal(signal.SIGTERM)
            wait_for(self.evictions, "it ends")
            try:
                self.assertEqual(self.one.call(MGMT, NOTIFY_CONNECT, self.monitor(str(uuid.uuid4())), rig.agent.StatusResp, sock=sock).status, BUSY)
            except OSError:
                pass    # it has ended
        self.assertEqual(self.one.stop(), 0)

    def test_handles_of_a_process_are_limited(self):
        with rig.connect(self.one.socket) as sock:
            for i in range(257):
                answer = self.one.call(MGMT, NOTIFY_CONNECT, self.monitor(str(uuid.uuid4())), rig.agent.StatusResp, sock=sock)
                self.assertEqual(answer.status, 0 if i < 256 else BUSY)
            answer = self.one.call(MGMT, NOTIFY_CONNECT, self.monitor("no uuid"), rig.agent.StatusResp, sock=sock)
            self.assertEqual(answer.status, INVALID)
        self.assertEqual(self.one.counters()["handles_refused"], 1)

    def test_handles_that_wait_for_their_eviction_count_for_their_user(self):
        self.evicting.answers[EVICT] = [Slow(3600, rig.agent.EvictResp(status=0))]
        marks = (str(uuid.uuid4()), str(uuid.uuid4()))

        def packet(method, body=b""):
            message = rig.drpc.Call(module=MGMT, method=method, sequence=7, body=body).SerializeToString()
            return rig.CHUNK.pack(len(message), len(message), 0, 1) + message

        connect = packet(NOTIFY_CONNECT, rig.agent.PoolMonitorReq(pool_uuid=marks[0], handle_uuid=marks[1]).SerializeToString())
        # each handle has a pool of its own, so that a call evicts one; the process says that it exits after each 128
        said = self.as_user(NOBODY, f"""
import uuid
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect({self.one.socket!r})
def call(packet):
    s.send(packet)
    return s.recv(1 << 17)
first, count = None, 0
while count < 20000:
    answer = call({connect!r}.replace({marks[0].encode()!r}, str(uuid.uuid4()).encode()).replace({marks[1].encode()!r}, str(uuid.uuid4()).encode()))
    first = first or answer
    if answer != first:
        break
    count += 1
    if count % 128 == 0:
        call({packet(NOTIFY_EXIT)!r})
print(count, answer[24:].hex())
""")
        count, answer = said.split()
        self.assertEqual(rig.agent.StatusResp.FromString(rig.drpc.Response.FromString(bytes.fromhex(answer)).body).status, BUSY)
        self.assertGreaterEqual(int(count), 16384)
        self.assertEqual(self.one.call(MGMT, NOTIFY_CONNECT, self.monitor(str(uuid.uuid4())), rig.agent.StatusResp).status, 0)


class Hostile(rig.AgentTest):
    def test_clients_that_stop_in_the_middle_take_only_their_share(self):
        agent = self.agent([self.server({ATTACH_INFO: attach_info()})], "connections_a_user: 20")
        process = subprocess.Popen(["/usr/bin/python3", "-c", f"""
import os, socket, struct, sys, time
os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
kept = []
for i in range(2000):
    try:
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.settimeout(5)
        s.connect({agent.socket!r})
        s.send(struct.pack("=QQII", 200000, 1000, 0, 2) + b"x" * 1000)
        kept.append(s)
    except OSError:
        pass
    if i == 900:
        print("full", flush=True)
        time.sleep(0.01)
sys.stdin.read()
"""], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "full\n")
        for _ in range(20):
            self.assertEqual(agent.attach_info().status, 0)
        counters = agent.counters()
        self.assertLessEqual(counters["connections"], 22)
        self.assertGreater(counters["connections_refused"], 0)

    def test_a_client_that_does_not_read_harms_nobody(self):
        agent = self.agent([self.server({ATTACH_INFO: attach_info(ranks=20000)})])
        wait_for(lambda: agent.attach_info().status == 0)
        socks = [rig.connect(agent.socket) for _ in range(8)]
        for sock in socks:
            self.addCleanup(sock.close)
            for _ in range(5):
                try:
                    sock.setblocking(False)
                    rig.send_call(sock, MGMT, GET_ATTACH_INFO, rig.mgmt.GetAttachInfoReq(all_ranks=True).SerializeToString())
                except BlockingIOError:
                    break
        for _ in range(10):
            self.assertEqual(len(agent.attach_info().rank_uris), 20000)

    def test_nonsense_is_refused_and_others_are_served(self):
        agent = self.agent([self.server({ATTACH_INFO: attach_info()})])
        for packet in (b"", b"x", b"\xff" * 24, rig.CHUNK.pack(1 << 60, 5, 0, 1) + b"abcde", rig.CHUNK.pack(5, 5, 3, 9) + b"abcde"):
            with rig.connect(agent.socket) as sock:
                sock.send(packet or b"\0")
                self.assertIsNone(rig.receive(sock))
        self.assertEqual(agent.call(99, 1), 3)          # UNKNOWN_MODULE
        self.assertEqual(agent.call(MGMT, 9999), 4)     # UNKNOWN_METHOD
        with rig.connect(agent.socket) as sock:
            rig.send_call(sock, MGMT, GET_ATTACH_INFO, b"\xff\xff\xff")
            self.assertEqual(rig.receive(sock).status, 6)   # FAILED_UNMARSHAL_PAYLOAD
        self.assertEqual(agent.attach_info().status, 0)

    def test_clients_that_leave_while_they_wait_are_forgotten(self):
        server = self.server({ATTACH_INFO: [Slow(2, attach_info())]})
        agent = self.agent([server])
        for _ in range(50):
            with rig.connect(agent.socket) as sock:
                rig.send_call(sock, MGMT, GET_ATTACH_INFO, rig.mgmt.GetAttachInfoReq(all_ranks=True).SerializeToString())
        self.assertEqual(agent.attach_info().status, 0)
        wait_for(lambda: agent.counters()["connections"] <= 1, "the connections end")

    def test_many_clients_at_once_are_all_answered(self):
        agent = self.agent([self.server({ATTACH_INFO: attach_info()})])
        answers = []
        threads = [threading.Thread(target=lambda: answers.extend(agent.attach_info().status for _ in range(20))) for _ in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(rig.SECONDS)
        self.assertEqual(answers, [0] * 800)


class Life(rig.AgentTest):
    def test_it_ends_by_a_signal_and_is_replaced_after_a_kill(self):
        server = self.server({ATTACH_INFO: attach_info()})
        agent = self.agent([server])
        agent.kill()
        agent.start()       # the socket of the dead one is replaced
        self.assertEqual(agent.attach_info().status, 0)
        self.assertEqual(agent.stop(), 0)
        self.assertFalse(os.path.exists(agent.socket))

    def test_it_ends_although_a_server_hangs(self):
        with PoweredOff() as silent:
            self.assertEqual(self.agent([silent]).stop(), 0)

    def test_a_second_agent_does_not_start(self):
        server = self.server({ATTACH_INFO: attach_info()})
        first = self.agent([server])
        second = rig.Agent(self.folder, [server])
        self.addCleanup(second.discard)
        second.start(ready=False)
        self.assertEqual(second.process.wait(rig.SECONDS), 1)
        self.assertIn("general: code = 6 ", second.log())
        self.assertEqual(first.attach_info().status, 0)

    def test_the_socket_is_for_all_users_and_has_daoss_name_too(self):
        agent = self.agent([self.server({ATTACH_INFO: attach_info()})])
        self.assertEqual(os.stat(agent.socket).st_mode & 0o777, 0o666)
        self.assertEqual(os.stat(os.path.dirname(agent.socket)).st_mode & 0o777, 0o755)
        agent.socket = os.path.join(self.folder, "run/daos_agent.sock")
        self.assertEqual(agent.attach_info().status, 0)

    def test_a_wrong_key_of_the_configuration_is_named(self):
        agent = rig.Agent(self.folder, ["127.0.0.1:1"], "cache_expiratoin: 3")
        self.addCleanup(agent.discard)
        agent.start(ready=False)
        self.assertEqual(agent.process.wait(rig.SECONDS), 1)
        self.assertIn("cache_expiration", agent.log())
        done = subprocess.run([rig.AGENT, "config", "check", agent.config], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1)

    def test_the_page_of_the_configuration_is_current(self):
        said = subprocess.run([rig.AGENT, "config", "reference"], capture_output=True, text=True, timeout=60, check=True).stdout
        with open(os.path.join(rig.TOP, "docs/agent-configuration.md")) as file:
            self.assertEqual(said, file.read(), "fathom-agent config reference > docs/agent-configuration.md")
        sample = os.path.join(rig.TOP, "packaging/fathom_agent.yml")
        subprocess.run([rig.AGENT, "config", "check", sample], timeout=60, check=True, capture_output=True)

    def test_counters_are_shown(self):
        agent = self.agent([self.server({ATTACH_INFO: attach_info()})])
        self.assertEqual(agent.attach_info().status, 0)
        said = subprocess.run([rig.AGENT, "stats", "-o", agent.config, "-j"], capture_output=True, text=True, timeout=60, check=True).stdout
        self.assertEqual(json.loads(said)["attach_info_calls"], 1)
        table = subprocess.run([rig.AGENT, "stats", "-o", agent.config], capture_output=True, text=True, timeout=60, check=True).stdout
        self.assertRegex(table, r"attach_info_calls +1 +calls for attach information")
        agent.stop()
        done = subprocess.run([rig.AGENT, "stats", "-o", agent.config], capture_output=True, text=True, timeout=60, check=False)
        self.assertIn("agent: code = 1150 ", done.stderr)


if __name__ == "__main__":
    unittest.main()
