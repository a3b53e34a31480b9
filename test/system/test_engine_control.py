# SPDX-License-Identifier: BSD-2-Clause
"""The real fathom-engine under a fake server (fake_server.py), and one test under the real server."""

import json
import os
import random
import socket
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness
import server_rig
from fake_server import (CHUNK, DESCRIBE, FATHOM, GROUP_UPDATE, MGMT, PING_RANK, PREP_SHUTDOWN, RANK_NONE, SET_LOG_MASKS, SET_RANK,
                         SET_UP, Server, call, protocol, receive)

INVAL, ALREADY, NOSYS, TIMEDOUT, UNINIT, BAD_TARGET, SHUTDOWN = -1003, -1008, -1010, -1011, -1015, -1035, -2017
UUID = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
mgmt = protocol.mgmt


class ControlTest(harness.EngineTest):
    def setUp(self):
        super().setUp()
        self.servers = []

    def tearDown(self):
        for server in self.servers:
            server.stop()
        super().tearDown()

    def server(self, **kwargs):
        self.servers.append(Server(self.directory, **kwargs))
        return self.servers[-1]

    def end_server(self, server, **kwargs):
        self.servers.remove(server)
        server.stop(**kwargs)

    def under_server(self, *options, instance=0, storage=None):
        """An engine that is ready and has no rank yet."""
        engine = self.engine("--socket-dir", self.directory, "--listen", "127.0.0.1:0", "--instance", str(instance), "--uuid", UUID,
                             "--storage", storage or self.directory, *options)
        engine.control = os.path.join(self.directory, f"fathom_engine{instance}.sock")
        engine.port = int(self.control(engine)["uri"].rpartition(":")[2])
        return engine

    def serving(self, rank=3, map_version=4):
        engine = self.under_server()
        self.assertEqual(self.status(engine, SET_RANK, mgmt.SetRankReq(rank=rank, map_version=map_version)), 0)
        self.assertEqual(self.status(engine, SET_UP), 0)
        return engine

    def control(self, engine):
        return json.loads(harness.run(harness.FATHOM, "rpc", "-s", engine.sock, "framework_get_control").stdout)

    def status(self, engine, method, request=None, response=mgmt.DaosResp):
        status, reply = call(engine.control, MGMT, method, request, response)
        self.assertEqual(status, 0)
        return reply.status

    def export_volume(self, engine):
        """Export a memory device at the address where the engine listens."""
        engine.run_commands(f"""bdev_malloc_create -b m0 16 4096
nvmf_create_subsystem {harness.NQN} -a -s SPDK00000000000001 -m 10
nvmf_subsystem_add_ns {harness.NQN} m0
nvmf_subsystem_add_listener {harness.NQN} -t tcp -a 127.0.0.1 -s {engine.port}
""")


class Startup(ControlTest):
    def test_an_engine_serves_after_set_rank_and_set_up(self):
        server = self.server()
        engine = self.under_server()
        self.export_volume(engine)
        self.assertTrue(server.wait(lambda: server.ready))
        ready = server.ready[0]
        self.assertEqual(ready.uri, f"nvme+tcp://127.0.0.1:{engine.port}")
        self.assertEqual((ready.instanceIdx, ready.drpcListenerSock), (0, engine.control))
        self.assertEqual(self.status(engine, PING_RANK, mgmt.PingRankReq(rank=3)), UNINIT)
        self.assertEqual(self.status(engine, SET_UP), UNINIT)
        self.assertEqual(engine.perf("--count", "1", check=False).returncode, 2)   # no host may connect yet
        self.assertEqual(self.status(engine, SET_RANK, mgmt.SetRankReq(rank=RANK_NONE)), INVAL)
        self.assertEqual(self.status(engine, SET_RANK, mgmt.SetRankReq(rank=3, map_version=4)), 0)
        self.assertEqual(self.status(engine, SET_RANK, mgmt.SetRankReq(rank=3, map_version=4)), 0)
        self.assertEqual(self.status(engine, SET_RANK, mgmt.SetRankReq(rank=4, map_version=5)), ALREADY)
        self.assertEqual(self.control(engine)["state"], "RANKED")
        self.assertEqual(self.status(engine, SET_UP), 0)
        self.assertEqual(self.status(engine, SET_UP), 0)
        self.assertEqual(self.status(engine, PING_RANK, mgmt.PingRankReq(rank=3)), 0)
        self.assertEqual(self.status(engine, PING_RANK, mgmt.PingRankReq(rank=4)), BAD_TARGET)
        engine.perf("--verify", "--rw", "mix", "--count", "2000")
        status, described = call(engine.control, FATHOM, DESCRIBE, None, protocol.fathom.DescribeResp)
        self.assertEqual(status, 0)
        self.assertEqual(described.ready, ready)
        self.assertEqual((described.rank, described.pid, described.state), (3, engine.pid, 2))
        self.assertEqual(len(server.ready), 1)
        self.assertEqual(engine.stop(), 0)

    def test_a_server_that_starts_later_is_notified(self):
        engine = self.under_server()
        server = self.server()
        self.assertTrue(server.wait(lambda: server.ready))
        self.assertEqual(server.ready[-1].uri, self.control(engine)["uri"])
        self.assertTrue(server.wait(lambda: self.control(engine)["server"].get("notified") == 1))
        self.assertEqual(set(self.control(engine)["server"]), {"servers_seen", "notified", "calls_failed"})

    def test_an_engine_finds_its_server_in_a_recreated_socket_folder(self):
        engine = self.under_server()
        os.rename(self.directory, self.directory + ".old")
        try:
            os.mkdir(self.directory)
            server = self.server()
            self.assertTrue(server.wait(lambda: server.ready))
        finally:
            for name in os.listdir(self.directory + ".old"):
                os.rename(f"{self.directory}.old/{name}", f"{self.directory}/{name}")
            os.rmdir(self.directory + ".old")
        self.assertEqual(engine.stop(), 0)

    def test_a_socket_or_storage_in_use_is_refused(self):
        engine = self.under_server()
        other = self.engine("--socket-dir", self.directory, "--listen", "127.0.0.1:0", ready=False)
        self.assertEqual(other.process.wait(60), 1)
        self.assertIn(engine.control, other.log_text())
        other = self.engine("--socket-dir", self.directory, "--listen", "127.0.0.1:0", "--instance", "1", "--storage", self.directory, ready=False)
        self.assertEqual(other.process.wait(60), 1)
        self.assertIn("another engine uses it", other.log_text())
        storage = os.path.join(self.directory, "other")
        os.mkdir(storage)
        self.under_server(instance=1, storage=storage)
        self.assertEqual(self.control(engine)["state"], "READY")

    def test_wrong_options_are_rejected_with_the_reason(self):
        good = ["--socket-dir", self.directory, "--listen", "127.0.0.1:0"]
        for wrong, reason in [
                (["--instance", "1"], "--socket-dir is missing"),
                (["--socket-dir", self.directory], "needs --listen"),
                (["--socket-dir", self.directory + "/none"], "is not an existing folder"),
                ([*good, "--storage", "/none"], "is not an existing folder"),
                ([*good, "--instance", "1x"], "number"),
                ([*good, "--instance", "1000"], "number"),
                ([*good, "--uuid", "1234"], "UUID"),
                ([*good, "--provider", "nvme tcp"], "scheme"),
                (["--socket-dir", self.directory, "--listen", "127.0.0.1"], "ADDRESS:PORT"),
                (["--socket-dir", self.directory, "--listen", "127.0.0.1:65536"], "ADDRESS:PORT"),
                (["--socket-dir", self.directory, "--listen", "::1:4420"], "ADDRESS:PORT"),
                (["--socket-dir", self.directory, "--listen", "localhost:4420"], "ADDRESS:PORT"),
                (["--socket-dir", self.directory, "--listen", "0.0.0.0:4420"], "is not an address of this host"),
                (["--socket-dir", self.directory, "--listen", "[::]:4420"], "is not an address of this host")]:
            done = harness.run(harness.ENGINE, *wrong, check=False, timeout=60)
            self.assertEqual(done.returncode, 2, wrong)
            self.assertIn(reason, done.stderr, wrong)

    def test_an_engine_without_a_server_serves_alone(self):
        engine = self.engine()
        self.assertEqual(self.control(engine), {"state": "ALONE"})
        engine.serve("bdev_malloc_create -b m0 4 4096")
        engine.perf("--count", "10")

    def test_a_discovery_listener_is_saved_only_if_the_configuration_has_it(self):
        engine = self.serving()
        self.export_volume(engine)
        saved = engine.rpc("framework_get_config", name="nvmf")
        discovery = [call for call in saved if call.get("params", {}).get("nqn", "").endswith("discovery")]
        self.assertEqual([call for call in discovery if call["method"] == "nvmf_subsystem_add_listener"], [])
        path = os.path.join(self.directory, "engine.json")
        port = harness.free_port()
        listener = {"method": "nvmf_subsystem_add_listener", "params": {
            "nqn": "nqn.2014-08.org.nvmexpress.discovery",
            "listen_address": {"trtype": "TCP", "adrfam": "IPv4", "traddr": "127.0.0.1", "trsvcid": str(port)}}}
        with open(path, "w") as file:
            json.dump({"subsystems": [{"subsystem": "nvmf", "config": [
                {"method": "nvmf_create_transport", "params": {"trtype": "TCP"}}, listener]}]}, file)
        other = self.engine("--socket-dir", self.directory, "--listen", f"127.0.0.1:{port}", "--instance", "1", "-c", path)
        self.assertEqual(self.control(other)["uri"], f"nvme+tcp://127.0.0.1:{port}")
        self.assertIn(listener["params"]["listen_address"]["trsvcid"], json.dumps(other.rpc("framework_get_config", name="nvmf")))


class ServerLoss(ControlTest):
    """The server dies; the engine serves its hosts and delivers its events later."""

    def add_null_device(self, engine, name):
        engine.run_commands(f"bdev_null_create {name} 1 4096\n")

    def wait_for_waiting_events(self, engine, count):
        deadline = time.monotonic() + 60
        while self.control(engine)["events"]["waiting"] != count:
            self.assertLess(time.monotonic(), deadline, self.control(engine))
            time.sleep(0.05)

    def test_io_continues_and_each_event_is_delivered_once(self):
        server = self.server()
        engine = self.serving()
        self.export_volume(engine)
        self.assertTrue(server.wait(lambda: server.events))
        load = subprocess.Popen([harness.FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", harness.NQN, "--verify",
                                 "--rw", "mix", "--time", "5", "--json"], stdout=subprocess.PIPE, text=True)
        seen = list(server.events)
        self.end_server(server, remove=False)
        for name in ("n0", "n1"):
            self.add_null_device(engine, name)
            self.wait_for_waiting_events(engine, int(name[1]) + 1)
        server = self.server(answer_event=lambda event: -1012)     # this server's disk is full
        self.assertTrue(server.wait(lambda: server.ready))
        self.assertTrue(server.wait(lambda: len(server.offered) >= 2))
        self.assertEqual({event.sequence for event in server.offered}, {2})    # one at a time, in order
        self.end_server(server, remove=False)
        server = self.server(answer_event=lambda event: None)      # this server dies before it answers
        self.assertTrue(server.wait(lambda: server.offered))
        self.end_server(server, remove=False)
        server = self.server()
        self.add_null_device(engine, "n2")
        self.assertTrue(server.wait(lambda: len(server.events) == 3))
        seen += server.events
        self.assertEqual([event.sequence for event in seen], [1, 2, 3, 4])
        self.assertEqual([event.event.msg for event in seen], [f"device {name} was added" for name in ("m0", "n0", "n1", "n2")])
        for event in seen:
            self.assertEqual((event.event.id, event.event.rank, event.event.incarnation),
                             (23, 3, self.control(engine)["incarnation"]))
        self.assertEqual(self.control(engine)["state"], "SERVING")
        self.assertGreaterEqual(len(server.ready), 1)
        out, _ = load.communicate(timeout=60)
        self.assertEqual(load.returncode, 0, out)

    def test_events_beyond_the_queue_are_counted_and_the_next_event_reports_them(self):
        engine = self.under_server()
        engine.run_commands("".join(f"bdev_null_create n{i} 1 4096\n" for i in range(1030)))
        self.wait_for_waiting_events(engine, 1024)
        self.assertEqual(self.control(engine)["events"]["lost"], 6)
        server = self.server()
        self.assertTrue(server.wait(lambda: len(server.events) == 1024))
        self.add_null_device(engine, "last")
        self.assertTrue(server.wait(lambda: len(server.events) == 1025))
        self.assertEqual([event.sequence for event in server.events], list(range(1, 1026)))
        self.assertEqual(server.events[-1].event.msg, "device last was added (6 before were lost)")

    def test_a_rejected_event_does_not_block_the_next(self):
        server = self.server(answer_event=lambda event: INVAL if event.sequence == 1 else 0)
        engine = self.under_server()
        self.add_null_device(engine, "n0")
        self.assertTrue(server.wait(lambda: server.offered))
        self.add_null_device(engine, "n1")
        self.assertTrue(server.wait(lambda: server.events))
        self.assertEqual([event.sequence for event in server.events], [2])
        self.assertEqual(self.control(engine)["events"]["refused"], 1)

    def test_failing_and_removed_devices_raise_events(self):
        server = self.server()
        engine = self.serving()
        path = self.file("disk.img", 16)
        engine.run_commands(f"bdev_aio_create {path} f0 4096\n")
        engine.run_commands(f"""nvmf_create_subsystem {harness.NQN} -a -s SPDK00000000000001 -m 10
nvmf_subsystem_add_ns {harness.NQN} f0
nvmf_subsystem_add_listener {harness.NQN} -t tcp -a 127.0.0.1 -s {engine.port}
""")
        self.assertTrue(server.wait(lambda: server.events))
        os.truncate(path, 0)
        self.assertEqual(engine.perf("--count", "50", check=False).returncode, 1)
        self.assertTrue(server.wait(lambda: len(server.events) == 2))
        event = server.events[1].event
        self.assertEqual(event.id, 21)
        self.assertRegex(event.msg, r"^device f0: \d+ I/Os failed: the medium has errors$")
        self.assertEqual(event.hw_id, engine.rpc("bdev_get_bdevs")[0]["uuid"])
        engine.perf("--count", "50", check=False)
        engine.run_commands("bdev_aio_delete f0\n")
        self.assertTrue(server.wait(lambda: len(server.events) == 3))
        self.assertEqual((server.events[2].event.id, server.events[2].event.msg), (22, "device f0 was removed"))

    def test_an_engine_delivers_waiting_events_before_it_ends(self):
        server = self.server(answer_event=lambda event: -1012)
        engine = self.under_server()
        self.add_null_device(engine, "n0")
        self.assertTrue(server.wait(lambda: len(server.offered) == 7))  # the next attempt is more than a second away
        server.answer_event = lambda event: 0
        self.assertEqual(engine.stop(), 0)
        self.assertEqual([event.sequence for event in server.events], [1])


class Calls(ControlTest):
    def test_malformed_packets_are_rejected_and_the_engine_serves(self):
        engine = self.serving()
        self.export_volume(engine)
        chance = random.Random(7)
        good = protocol.drpc.Call(module=MGMT, method=PING_RANK, sequence=1,
                                  body=mgmt.PingRankReq(rank=3).SerializeToString()).SerializeToString()
        packets = [b"x", bytes(23), bytes(24), CHUNK.pack(1 << 60, 10, 0, 1) + bytes(10), CHUNK.pack(10, 5, 1, 2) + bytes(5),
                   CHUNK.pack(10, 20, 0, 1) + bytes(10), CHUNK.pack(5, 5, 0, 0) + bytes(5),
                   *(chance.randbytes(chance.randrange(1, 4096)) for _ in range(200))]
        for packet in packets:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
                sock.connect(engine.control)
                sock.settimeout(10)
                sock.send(packet)
                try:
                    answer = receive(sock)
                except ConnectionResetError:
                    answer = None
                if answer is not None:
                    self.assertNotEqual(protocol.drpc.Response.FromString(answer).status, 0)
        half = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)     # sends half a message and stays connected
        half.connect(engine.control)
        half.send(CHUNK.pack(len(good), 2, 0, 2) + good[:2])
        self.assertEqual(call(engine.control, 99, 1), (3, None))
        self.assertEqual(call(engine.control, MGMT, 201), (4, None))
        body = type("Body", (), {"SerializeToString": staticmethod(lambda: b"\xff\xff\xff")})
        self.assertEqual(call(engine.control, MGMT, SET_RANK, body), (6, None))
        self.assertEqual(self.status(engine, PING_RANK, mgmt.PingRankReq(rank=3)), 0)
        engine.perf("--verify", "--rw", "mix", "--count", "500")
        half.close()

    def test_set_log_masks_changes_the_level_or_is_rejected(self):
        engine = self.under_server("-L", "INFO")
        masks = protocol.ctl.SetLogMasksReq

        def send(**fields):
            return self.status(engine, SET_LOG_MASKS, masks(**fields), protocol.ctl.SetLogMasksResp)

        def level():
            return engine.rpc("log_get_level")

        for mask, name in [("DEBUG", "DEBUG"), ("err", "ERROR"), ("CRIT", "ERROR"), ("WARN", "WARNING"), ("NOTE", "NOTICE")]:
            self.assertEqual(send(masks=mask), 0)
            self.assertEqual(level(), name)
        for wrong, status in [({"masks": "LOUD"}, INVAL), ({"masks": "ERR,mgmt=DEBUG"}, NOSYS), ({"streams": "io"}, NOSYS),
                              ({"masks": "DEBUG", "subsystems": "rpc"}, NOSYS)]:
            self.assertEqual(send(**wrong), status)
            self.assertEqual(level(), "NOTICE")
        self.assertEqual(send(reset_streams=True, reset_subsystems=True), 0)
        self.assertEqual(level(), "NOTICE")
        self.assertEqual(send(reset_masks=True), 0)
        self.assertEqual(level(), "INFO")


class Shutdown(ControlTest):
    def test_draining_disconnects_hosts_and_keeps_acknowledged_writes(self):
        server = self.server()
        engine = self.serving()
        path, state = self.file("disk.img", 16), os.path.join(self.directory, "state")
        lines = f"""bdev_aio_create {path} f0 4096
nvmf_create_subsystem {harness.NQN} -a -s SPDK00000000000001 -m 10
nvmf_subsystem_add_ns {harness.NQN} f0
nvmf_subsystem_add_listener {harness.NQN} -t tcp -a 127.0.0.1 -s """
        engine.run_commands(lines + f"{engine.port}\n")
        load = subprocess.Popen([harness.FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", harness.NQN,
                                 "--verify-state", state, "--rw", "mix", "--time", "30"], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)
        while engine.rpc("bdev_get_iostat", names=["f0"])["bdevs"][0]["num_write_ops"] < 500:
            self.assertIsNone(load.poll())
        self.assertEqual(self.status(engine, PREP_SHUTDOWN, mgmt.PrepShutdownReq(rank=4)), BAD_TARGET)
        self.assertEqual(self.control(engine)["state"], "SERVING")
        self.assertEqual(self.status(engine, PREP_SHUTDOWN, mgmt.PrepShutdownReq(rank=3)), 0)
        self.assertEqual(self.control(engine)["state"], "DRAINED")
        out, _ = load.communicate(timeout=60)
        self.assertNotEqual(load.returncode, 0)             # the engine disconnected it
        self.assertEqual([group["current_io_qpairs"] for group in engine.rpc("nvmf_get_stats")["poll_groups"]], [0])
        self.assertEqual(engine.perf("--count", "1", check=False).returncode, 2)
        self.assertEqual(self.status(engine, PREP_SHUTDOWN, mgmt.PrepShutdownReq(rank=3)), 0)
        self.assertEqual(self.status(engine, SET_UP), SHUTDOWN)
        self.assertEqual(self.status(engine, PING_RANK, mgmt.PingRankReq(rank=3)), 0)
        self.assertEqual(engine.stop(), 0)
        self.end_server(server)
        engine = self.serving()
        engine.run_commands(lines + f"{engine.port}\n")
        engine.perf("--verify-state", state, "--time", "0")  # every acknowledged write is there

    def test_draining_times_out_while_a_device_hangs(self):
        engine = self.serving()
        engine.run_commands(f"""bdev_malloc_create -b m0 16 4096
bdev_error_create m0
bdev_error_inject_error EE_m0 write pending -n 1
nvmf_create_subsystem {harness.NQN} -a -s SPDK00000000000001 -m 10
nvmf_subsystem_add_ns {harness.NQN} EE_m0
nvmf_subsystem_add_listener {harness.NQN} -t tcp -a 127.0.0.1 -s {engine.port}
""")
        load = subprocess.Popen([harness.FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", harness.NQN, "--rw", "write",
                                 "--depth", "1", "--count", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while engine.rpc("bdev_get_iostat", names=["EE_m0"])["bdevs"][0]["queue_depth"] == 0:
            self.assertIsNone(load.poll())
        self.assertEqual(self.status(engine, PREP_SHUTDOWN, mgmt.PrepShutdownReq(rank=3)), TIMEDOUT)
        self.assertEqual(self.control(engine)["state"], "DRAINING")
        self.assertEqual(self.status(engine, PING_RANK, mgmt.PingRankReq(rank=3)), 0)
        engine.kill()
        load.wait(60)

    def group_map(self, version, *members):
        return mgmt.GroupUpdateReq(map_version=version, engines=[
            mgmt.GroupUpdateReq.Engine(rank=rank, uri=f"nvme+tcp://127.0.0.1:{rank}", incarnation=incarnation)
            for rank, incarnation in members])

    def update_map(self, engine, version, *members):
        return self.status(engine, GROUP_UPDATE, self.group_map(version, *members), mgmt.GroupUpdateResp)

    def test_a_group_map_with_this_engine_is_kept(self):
        engine = self.serving(rank=3, map_version=4)
        us = (3, self.control(engine)["incarnation"])
        self.assertEqual(self.update_map(engine, 2), 0)             # older than its rank: the engine need not be in it
        self.assertEqual(self.update_map(engine, 4), 0)
        self.assertEqual(self.update_map(engine, 5, (7, 1), us), 0)
        self.assertEqual(self.update_map(engine, 5), 0)             # the engine has this version already
        self.assertEqual(self.update_map(engine, 3, (1, 1)), 0)
        self.assertEqual(self.update_map(engine, 6, (1, 1), us, (1, 2)), INVAL)
        self.assertEqual(self.update_map(engine, 0), INVAL)
        shown = self.control(engine)
        self.assertEqual((shown["state"], shown["map_version"], shown["map_engines"]), ("SERVING", 5, 2))
        _, described = call(engine.control, FATHOM, DESCRIBE, None, protocol.fathom.DescribeResp)
        self.assertEqual(described.map_version, 5)
        self.assertEqual(self.update_map(engine, 8, us, *((rank, 1) for rank in range(1000, 21000))), 0)
        self.assertEqual(self.control(engine)["map_engines"], 20001)

    def check_that_map_ends_engine(self, *members):
        server = self.server()
        engine = self.serving(rank=3, map_version=4)
        self.export_volume(engine)
        load = subprocess.Popen([harness.FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", harness.NQN, "--time", "30"],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        while engine.rpc("nvmf_get_stats")["poll_groups"][0]["completed_nvme_io"] < 1000:
            self.assertIsNone(load.poll())
        self.assertEqual(self.update_map(engine, 5, *members), 0)
        self.assertEqual(engine.process.wait(60), 0, engine.log_text())
        load.communicate(timeout=60)
        self.assertNotEqual(load.returncode, 0)
        last = server.events[-1].event
        self.assertEqual((last.id, last.rank, last.type), (5, 3, 2))
        self.assertIn("of the group map does not contain this engine", last.msg)
        self.end_server(server)

    def test_a_group_map_without_this_engine_ends_it(self):
        self.check_that_map_ends_engine((1, 1), (2, 1))

    def test_a_group_map_with_a_newer_incarnation_ends_the_engine(self):
        self.check_that_map_ends_engine((1, 1), (3, 17))

    def test_a_rank_older_than_a_group_map_without_this_engine_ends_it(self):
        engine = self.under_server()
        self.assertEqual(self.update_map(engine, 9, (1, 1)), 0)
        self.assertEqual(self.control(engine)["state"], "READY")
        self.assertEqual(self.status(engine, SET_RANK, mgmt.SetRankReq(rank=3, map_version=8)), 0)
        self.assertEqual(engine.process.wait(60), 0, engine.log_text())     # although no server takes its event


class RealServer(server_rig.ServerTest):
    """Under the real fathom-server."""

    def events_until(self, server, wanted, count=1):
        """[(id, rank)] of the system's events, once `count` of them have the id `wanted`."""
        request = self.messages.fathom.SystemEventsReq(sys="daos_server", max=100)
        deadline = time.monotonic() + 15
        while True:
            events = server.call("/fathom.ControlSvc/SystemEvents", request).events
            if sum(event.event.id == wanted for event in events) >= count:
                return [(event.event.id, event.event.rank) for event in events]
            self.assertLess(time.monotonic(), deadline, events)
            time.sleep(0.05)

    def test_an_excluded_engine_reports_its_exclusion_and_ends(self):
        server = self.server(engines=2).start()
        server.format()
        server.wait_joined()
        engine = next(engine for engine in server.engines() if engine.rank == 1)
        harness.run(harness.FATHOM, "rpc", "-s", engine.rpc_socket, "bdev_null_create", "n0", "1", "4096")
        self.assertIn((23, 1), self.events_until(server, 23))
        server.call("/mgmt.MgmtSvc/SystemExclude", self.messages.mgmt.SystemExcludeReq(sys="daos_server", ranks="1"))
        order = self.events_until(server, 5, count=2)     # from the engine, with its reason, then from its server
        self.assertIn((1016, 2 ** 32 - 1), order)         # the operator's exclusion
        self.assertNotIn((2, 1), order)                   # no engine_died
        after = server.engines()
        self.assertEqual([one.pid for one in after if one.rank == 0], [one.pid for one in after if one.state == "joined"])
        self.assertIn("it left because its rank was excluded", next(one.last_end for one in after if one.rank == 1))


if __name__ == "__main__":
    unittest.main()
