# SPDX-License-Identifier: BSD-2-Clause
"""Published volumes: each is a subsystem of its own for its hosts, kept through kill -9, changed only by the volume's calls."""

import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import fake_server
import test_hostile as hostile
import xfs
from fake_server import FATHOM as FATHOM_MODULE, MGMT, SET_RANK, SET_UP, STORAGE, call, protocol
from harness import FATHOM, EngineTest, RpcError, free_port, run, wait_for

MIB = 1 << 20
HOST_A, HOST_B = "nqn.2026-11.org.fathom:host-a", "nqn.2026-11.org.fathom:host-b"
IDENTIFY, SET_FEATURES, AER = 0x06, 0x09, 0x0c
ASYNC_EVENTS, NS_ATTRIBUTE_NOTICES, NS_CHANGED = 0x0b, 1 << 8, 0x040002
INVALID_HOST, INVALID_PARAMETERS = 0x184, 0x182
ENOENT, EBUSY, EEXIST, EIO = 2, 16, 17, 5
store = protocol.store


class Exports(EngineTest):
    def setUp(self):
        super().setUp()
        self.storage = os.path.join(self.directory, "storage")
        os.mkdir(self.storage)
        self.port = free_port()

    def start(self, *options):
        engine = self.engine("--storage", self.storage, "--listen", f"127.0.0.1:{self.port}", *options)
        engine.port = self.port
        return engine

    def start_with(self, *names, size=16 * MIB):
        engine = self.start()
        engine.rpc("pool_create", pool="p1", overcommit=True)
        for name in names:
            engine.rpc("volume_create", pool="p1", volume=name, size=size)
        return engine

    def volume(self, engine, name="db"):
        return next(volume for volume in engine.rpc("volume_get_volumes") if volume["name"] == name)

    def nqn(self, engine, name="db"):
        return f"nqn.2014-08.org.nvmexpress:uuid:{self.volume(engine, name)['uuid']}"

    def publish(self, engine, name="db", host=HOST_A):
        return engine.rpc("volume_publish", pool="p1", volume=name, host=host)

    def perf(self, engine, nqn, *options, host=HOST_A, check=True):
        return run(FATHOM, "perf", "-a", "127.0.0.1", "-s", self.port, "-n", nqn, "--hostnqn", host, "--quiet", *options, check=check)

    def subsystems(self, engine):
        return {subsystem["nqn"]: subsystem for subsystem in engine.rpc("nvmf_get_subsystems") if subsystem["subtype"] == "NVMe"}

    def assert_rejected(self, text, engine, method, **params):
        with self.assertRaises(RpcError) as caught:
            engine.rpc(method, **params)
        self.assertIn(text, str(caught.exception))

    def connect(self, engine, nqn, host=HOST_A):
        """The admin queue of a host, and the status of its Connect."""
        admin = hostile.Host(engine)
        status = admin.connect(host=host.encode(), subsystem=nqn.encode())[1]
        return admin, status


class Publishing(Exports):
    def test_a_published_volume_and_its_data_survive_kill_9(self):
        engine, state = self.start_with("db", "other"), os.path.join(self.directory, "state")
        nqn = self.publish(engine)
        self.assertEqual(nqn, self.nqn(engine))
        self.perf(engine, nqn, "--rw", "mix", "--count", "3000", "--verify-state", state)
        for _ in range(3):
            engine.kill()
            engine = self.start()
            self.assertEqual(list(self.subsystems(engine)), [nqn])
            self.perf(engine, nqn, "--time", "0", "--verify-state", state)
            self.perf(engine, nqn, "--rw", "mix", "--count", "500", "--verify-state", state)
        self.assertEqual(engine.stop(), 0)

    def test_the_subsystem_is_made_of_the_record(self):
        engine = self.start_with("db")
        nqn, uuid = self.publish(engine), self.volume(engine)["uuid"]
        digits = uuid.replace("-", "").upper()
        subsystem = self.subsystems(engine)[nqn]
        self.assertEqual(subsystem["hosts"], [{"nqn": HOST_A}])
        self.assertFalse(subsystem["allow_any_host"])
        self.assertEqual((subsystem["serial_number"], subsystem["model_number"]), (digits[:20], "Fathom Volume"))
        self.assertEqual([(address["traddr"], address["trsvcid"]) for address in subsystem["listen_addresses"]],
                         [("127.0.0.1", str(self.port))])
        self.assertEqual(subsystem["namespaces"], [{"nsid": 1, "bdev_name": "p1/db", "name": "p1/db", "nguid": digits,
                                                    "eui64": digits[16:], "uuid": uuid}])

    def test_a_host_that_is_not_published_is_rejected(self):
        engine = self.start_with("db", "other")
        nqn = self.publish(engine)
        self.assertEqual(self.connect(engine, nqn, HOST_B)[1], INVALID_HOST)
        self.assertEqual(self.connect(engine, self.nqn(engine, "other"))[1], INVALID_PARAMETERS)    # no such subsystem
        self.publish(engine, host=HOST_B)
        self.assertEqual(self.connect(engine, nqn, HOST_B)[1], 0)

    def test_a_repeated_call_succeeds(self):
        engine = self.start_with("db")
        nqn = self.publish(engine)
        self.assertEqual(self.publish(engine), nqn)
        self.assertEqual([host["nqn"] for host in self.volume(engine)["hosts"]], [HOST_A])
        for _ in range(2):
            engine.rpc("volume_unpublish", pool="p1", volume="db", host=HOST_A)
        self.assertEqual(self.subsystems(engine), {})
        self.assertNotIn("hosts", self.volume(engine))

    def test_a_connected_host_keeps_its_volume_unless_force_is_given(self):
        engine = self.start_with("db")
        nqn = self.publish(engine)
        self.publish(engine, host=HOST_B)
        before = time.time_ns()
        admin, status = self.connect(engine, nqn)
        self.assertEqual(status, 0)
        hosts = {host["nqn"]: host for host in self.volume(engine)["hosts"]}
        self.assertEqual((hosts[HOST_A]["connections"], hosts[HOST_A]["address"]), (1, "127.0.0.1"))
        self.assertTrue(before - 10**9 <= hosts[HOST_A]["since_ns"] <= time.time_ns() + 10**9)
        self.assertEqual(hosts[HOST_B], {"nqn": HOST_B, "connections": 0})
        self.assert_rejected(f"host {HOST_A} is connected", engine, "volume_unpublish", pool="p1", volume="db", host=HOST_A)
        engine.rpc("volume_unpublish", pool="p1", volume="db", host=HOST_B)
        engine.rpc("volume_unpublish", pool="p1", volume="db", host=HOST_A, force=True)
        with self.assertRaises((EOFError, OSError)):
            admin.exact(1)
        self.assertEqual(self.subsystems(engine), {})
        engine.kill()
        self.assertEqual(self.subsystems(self.start()), {})

    def test_a_published_volume_is_destroyed_only_with_force(self):
        engine = self.start_with("db", "idle")
        nqn = self.publish(engine)
        self.publish(engine, "idle", HOST_B)
        admin, _ = self.connect(engine, nqn)
        self.assert_rejected(f"{HOST_A} (connected from 127.0.0.1)", engine, "volume_destroy", pool="p1", volume="db")
        self.assert_rejected(f"published to host {HOST_B}: unpublish it, or use force", engine, "volume_destroy", pool="p1", volume="idle")
        self.assertEqual(len(self.subsystems(engine)), 2)
        engine.rpc("volume_destroy", pool="p1", volume="db", force=True)
        with self.assertRaises((EOFError, OSError)):
            admin.exact(1)
        self.assertEqual([volume["name"] for volume in engine.rpc("volume_get_volumes")], ["idle"])
        self.assert_rejected("has 1 volume", engine, "pool_destroy", pool="p1")
        engine.rpc("pool_destroy", pool="p1", force=True)
        self.assertEqual((self.subsystems(engine), engine.rpc("bdev_get_bdevs")), ({}, []))

    def test_a_volume_that_cannot_be_destroyed_is_served_again(self):
        engine = self.start_with("db")
        nqn = self.publish(engine)
        os.rmdir(os.path.join(self.storage, "trash"))      # the engine has it open; nothing can be moved there
        for method, params in (("volume_destroy", {"volume": "db"}), ("pool_destroy", {})):
            self.assert_rejected("", engine, method, pool="p1", force=True, **params)
            wait_for(lambda: self.volume(engine)["export"] == "SERVED")
            self.perf(engine, nqn, "--count", "10")
        self.assertEqual(engine.rpc("pool_get_pools")["storage"]["exports_served"], 1)

    def test_a_volume_is_not_published_if_there_is_no_room_for_its_subsystem(self):
        engine = self.start_with("db")
        engine.rpc("nvmf_set_max_subsystems", max_subsystems=2)     # the discovery subsystem is one
        engine.rpc("nvmf_create_subsystem", nqn="nqn.2026-11.org.fathom:s7")
        self.assert_rejected("serves 2 subsystems already", engine, "volume_publish", pool="p1", volume="db", host=HOST_A)
        self.assertNotIn("hosts", self.volume(engine))
        engine.rpc("nvmf_delete_subsystem", nqn="nqn.2026-11.org.fathom:s7")
        self.publish(engine)

    def test_a_connected_host_sees_growth(self):
        engine = self.start_with("db")
        nqn = self.publish(engine)
        host, _ = self.connect(engine, nqn)
        host.enable()
        host.s.sendall(hostile.capsule(struct.pack("<BBH36xII16x", SET_FEATURES, 0x40, 8, ASYNC_EVENTS, NS_ATTRIBUTE_NOTICES)))
        self.assertEqual(host.response()[1], 0)
        host.s.sendall(hostile.capsule(bytes([AER, 0x40, 9, 0]) + bytes(60)))
        engine.rpc("volume_resize", pool="p1", volume="db", size=48 * MIB)
        self.assertEqual(host.response()[0] & 0xffffff, NS_CHANGED)
        self.perf(engine, nqn, "--rw", "write", "--bs", "64k", "--count", "256", "--range", "32M:16M", "--verify")

    def test_many_volumes_are_back_before_the_engine_is_ready(self):
        names = [f"v{number}" for number in range(60)]
        engine = self.start_with(*names, size=MIB)
        for name in names:
            self.publish(engine, name)
        engine.kill()
        engine = self.start()       # returns when it is ready
        self.assertEqual(len(self.subsystems(engine)), 60)
        self.assertEqual({volume["export"] for volume in engine.rpc("volume_get_volumes")}, {"SERVED"})
        self.assertEqual(engine.stop(), 0)

    def test_callers_that_publish_and_unpublish_at_once_leave_what_the_record_says(self):
        engine = self.start_with("db")
        lines = "".join(f"{command} p1 db nqn.2026-11.org.fathom:h{number}\n" for _ in range(5)
                        for command in ("volume_publish", "volume_unpublish") for number in range(6))
        callers = [subprocess.Popen([FATHOM, "rpc", "-s", engine.sock], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
                   for _ in range(3)]
        for caller in callers:
            caller.stdin.write(lines)
            caller.stdin.close()
        self.assertEqual([caller.wait(60) for caller in callers], [0, 0, 0])
        hosts = sorted(host["nqn"] for host in self.volume(engine).get("hosts", []))
        served = [subsystem["hosts"] for subsystem in self.subsystems(engine).values()]
        self.assertEqual([sorted(host["nqn"] for host in each) for each in served], [hosts] if hosts else [])

    def call_until_the_end(self, engine, caller, confirmed):
        """Publish `caller`'s volume to changing hosts until the engine has ended. `confirmed`: the last confirmed change of each host."""
        number = 0
        while True:
            host, publish = f"nqn.2026-11.org.fathom:h{number % 4}", number // 4 % 2 == 0
            try:
                confirmed[host] = None      # under way: either is right
                engine.rpc("volume_publish" if publish else "volume_unpublish", timeout=60, pool="p1", volume=f"v{caller}", host=host)
                confirmed[host] = publish
            except (OSError, RpcError, ValueError):
                return
            number += 1

    def end_under_load(self, engine, end):
        """End an engine by `end` while callers change hosts; what they know to be confirmed, for each volume."""
        confirmed = [{} for _ in range(3)]
        threads = [threading.Thread(target=self.call_until_the_end, args=[engine, caller, confirmed[caller]]) for caller in range(3)]
        for thread in threads:
            thread.start()
        wait_for(lambda: all(len(each) == 4 for each in confirmed))
        end(engine)
        for thread in threads:
            thread.join()
        return confirmed

    def assert_hosts_are(self, engine, confirmed):
        subsystems = self.subsystems(engine)
        for caller, changes in enumerate(confirmed):
            hosts = {host["nqn"] for host in self.volume(engine, f"v{caller}").get("hosts", [])}
            for host, published in changes.items():
                if published is not None:
                    self.assertEqual(host in hosts, published, (caller, host))
            served = subsystems.get(self.nqn(engine, f"v{caller}"), {"hosts": []})["hosts"]
            self.assertEqual({host["nqn"] for host in served}, hosts)

    def test_each_confirmed_change_survives_kill_9_under_load(self):
        engine = self.start_with("v0", "v1", "v2")
        for _ in range(4):
            confirmed = self.end_under_load(engine, lambda engine: engine.kill())
            engine = self.start()
            self.assert_hosts_are(engine, confirmed)

    def test_hosts_are_given_to_the_volume_that_had_the_name(self):
        engine = self.start_with("db")
        names = {"pool": "p1", "volume": "db"}
        calls = (("volume_rename", {"new_name": "old", **names}), ("volume_create", {"size": 16 * MIB, **names}),
                 ("volume_publish", {"host": HOST_A, **names}))      # sent at once: the last arrives before the first has ended
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(60)
            client.connect(engine.sock)
            client.sendall(b"".join(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()
                                    for number, (method, params) in enumerate(calls)))
            answers = client.makefile()
            results = [json.loads(answers.readline()) for _ in calls]
        rows = {row["name"]: row for row in engine.rpc("volume_get_volumes")}
        if "error" in results[2]:
            self.assertIn("another volume", results[2]["error"]["message"])
            self.assertFalse(rows["db"].get("hosts") or rows["old"].get("hosts"))
        else:
            self.assertEqual([host["nqn"] for host in rows["db"]["hosts"]], [HOST_A])
            self.assertIn(rows["db"]["nqn"], self.subsystems(engine))

    def test_an_engine_stops_while_hosts_are_changed(self):
        engine = self.start_with("v0", "v1", "v2")
        for _ in range(4):
            confirmed = self.end_under_load(engine, lambda engine: self.assertEqual(engine.stop(), 0, engine.log_text()))
            engine = self.start()
            self.assert_hosts_are(engine, confirmed)

    def test_wrong_hosts_are_rejected(self):
        engine = self.start_with("db")
        for host, text in (("", "empty"), ("host", "not an NQN"), ("nqn.2026-11.org.fathom:" + "x" * 300, "not an NQN"),
                           ("nqn.2026-11.org.fathom:\"", "not allowed")):
            self.assert_rejected(text, engine, "volume_publish", pool="p1", volume="db", host=host)
        self.assert_rejected("no volume", engine, "volume_publish", pool="p1", volume="none", host=HOST_A)
        self.assertEqual(self.subsystems(engine), {})

    def test_an_engine_without_an_address_says_so(self):
        engine = self.engine("--storage", self.storage)
        engine.rpc("pool_create", pool="p1")
        engine.rpc("volume_create", pool="p1", volume="db", size=MIB)
        self.assert_rejected("--listen", engine, "volume_publish", pool="p1", volume="db", host=HOST_A)


class Configuration(Exports):
    def test_nvmf_methods_do_not_change_the_subsystem_of_a_volume(self):
        engine = self.start_with("db")
        nqn = self.publish(engine)
        address = {"trtype": "TCP", "traddr": "127.0.0.1", "trsvcid": str(free_port())}
        for method, params in (("nvmf_delete_subsystem", {}), ("nvmf_subsystem_add_host", {"host": HOST_B}),
                               ("nvmf_subsystem_remove_host", {"host": HOST_A}), ("nvmf_subsystem_allow_any_host", {"allow_any_host": True}),
                               ("nvmf_subsystem_remove_ns", {"nsid": 1}), ("nvmf_subsystem_add_ns", {"namespace": {"bdev_name": "p1/db"}}),
                               ("nvmf_subsystem_add_listener", {"listen_address": address}),
                               ("nvmf_subsystem_remove_listener", {"listen_address": address})):
            self.assert_rejected("use volume_publish", engine, method, nqn=nqn, **params)
        self.assertEqual(list(self.subsystems(engine)), [nqn])

    def test_a_saved_configuration_does_not_contain_the_subsystems_of_volumes(self):
        engine = self.start_with("db", "manual")
        nqn = self.publish(engine)
        engine.run_commands("nvmf_create_subsystem nqn.2026-11.org.fathom:manual -a\n"
                            "nvmf_subsystem_add_ns nqn.2026-11.org.fathom:manual p1/manual\n")
        saved = run(FATHOM, "rpc", "-s", engine.sock, "save_config").stdout
        self.assertNotIn(nqn, saved)
        self.assertIn("fathom:manual", saved)
        path = os.path.join(self.directory, "engine.json")
        with open(path, "w") as file:
            file.write(saved)
        engine.kill()
        engine = self.start("-c", path)
        self.assertEqual(set(self.subsystems(engine)), {nqn, "nqn.2026-11.org.fathom:manual"})

    def test_a_volume_that_a_namespace_uses_is_not_published(self):
        engine = self.start_with("db")
        engine.run_commands("nvmf_create_subsystem nqn.2026-11.org.fathom:manual -a\n"
                            "nvmf_subsystem_add_ns nqn.2026-11.org.fathom:manual p1/db\n")
        self.assert_rejected("in use by a namespace", engine, "volume_publish", pool="p1", volume="db", host=HOST_A)
        self.assertNotIn("hosts", self.volume(engine))

    def test_an_engine_starts_without_the_namespaces_of_errored_volumes(self):
        engine = self.start_with("good", "bad")
        path = os.path.join(self.directory, "engine.json")
        engine.run_commands("nvmf_create_subsystem nqn.2026-11.org.fathom:manual -a\n"
                            "nvmf_subsystem_add_ns nqn.2026-11.org.fathom:manual p1/bad\n"
                            "nvmf_subsystem_add_ns nqn.2026-11.org.fathom:manual p1/good\n")
        with open(path, "w") as file:
            file.write(run(FATHOM, "rpc", "-s", engine.sock, "save_config").stdout)
        engine.stop()
        os.truncate(os.path.join(self.storage, "pools/p1/volumes/bad/data.1"), MIB)
        engine = self.start("-c", path)
        self.assertEqual([ns["bdev_name"] for ns in self.subsystems(engine)["nqn.2026-11.org.fathom:manual"]["namespaces"]], ["p1/good"])
        self.assertIn("the engine starts without this namespace", engine.log_text())


class Errored(Exports):
    def test_an_errored_volume_is_not_served_and_its_hosts_come_back_with_it(self):
        engine = self.start_with("good", "bad")
        nqns = {name: self.publish(engine, name) for name in ("good", "bad")}
        engine.stop()
        data = os.path.join(self.storage, "pools/p1/volumes/bad/data.1")
        os.rename(data, data + ".away")
        engine = self.start()
        self.assertEqual(list(self.subsystems(engine)), [nqns["good"]])
        self.assertEqual(self.volume(engine, "bad")["state"], "ERRORED")
        self.assert_rejected("ERRORED", engine, "volume_publish", pool="p1", volume="bad", host=HOST_B)
        self.assert_rejected("ERRORED", engine, "volume_unpublish", pool="p1", volume="bad", host=HOST_A)
        engine.stop()
        os.rename(data + ".away", data)
        engine = self.start()
        self.assertEqual(set(self.subsystems(engine)), set(nqns.values()))


class Server(Exports):
    """The same by the calls of a server."""

    def setUp(self):
        super().setUp()
        self.server = fake_server.Server(self.directory)

    def tearDown(self):
        self.server.stop()
        super().tearDown()

    def start(self, *options):
        engine = super().start("--socket-dir", self.directory, *options)
        self.control = os.path.join(self.directory, "fathom_engine0.sock")
        return engine

    def serve(self, rank=3):
        for method, request in ((SET_RANK, protocol.mgmt.SetRankReq(rank=rank, map_version=1)), (SET_UP, None)):
            self.assertEqual(call(self.control, MGMT, method, request, protocol.mgmt.DaosResp)[1].status, 0)

    def ask(self, action, rank=3, **fields):
        status, answer = call(self.control, FATHOM_MODULE, STORAGE, store.StorageReq(rank=rank, action=action, **fields), store.StorageResp,
                              timeout=60)
        self.assertEqual(status, 0)
        return answer

    def start_with(self, *names, size=16 * MIB):
        engine = self.start()
        self.serve()
        self.assertEqual(self.ask(store.POOL_CREATE, pool="p1", overcommit=True).error, 0)
        for name in names:
            self.assertEqual(self.ask(store.VOLUME_CREATE, pool="p1", volume=name, size_bytes=size).error, 0)
        return engine

    def publish(self, engine, name="db", host=HOST_A):
        answer = self.ask(store.VOLUME_PUBLISH, pool="p1", volume=name, host_nqn=host)
        self.assertEqual(answer.error, 0)
        return answer.pools[0].volumes[0].nqn

    def test_json_rpc_changes_no_volume_of_a_server(self):
        """The catalog would not know of the change."""
        engine = self.start_with("db")
        names = {"pool": "p1", "volume": "db"}
        for method, params in (("pool_create", {"pool": "p2"}), ("pool_destroy", {"pool": "p1", "force": True}),
                               ("volume_create", {"pool": "p1", "volume": "new", "size": MIB}), ("volume_destroy", {"force": True, **names}),
                               ("volume_rename", {"new_name": "new", **names}), ("volume_resize", {"size": 32 * MIB, **names}),
                               ("volume_set_thick", names), ("volume_publish", {"host": HOST_A, **names}),
                               ("volume_unpublish", {"host": HOST_A, **names}),
                               ("volume_clone", {"snapshot": "s", "new_name": "new", **names})):
            self.assert_rejected("use `fathom pool` and `fathom volume`", engine, method, **params)
        pool, = self.ask(store.LIST).pools
        self.assertEqual([(volume.name, volume.size_bytes, volume.thick, len(volume.hosts)) for volume in pool.volumes], [("db", 16 * MIB, False, 0)])

    def test_a_refused_destroy_gives_advice_that_an_operator_of_a_server_can_follow(self):
        engine, manual = self.start_with("db"), "nqn.2026-11.org.fathom:manual"
        engine.run_commands(f"nvmf_create_subsystem {manual} -a\nnvmf_subsystem_add_ns {manual} p1/db\n"
                            f"nvmf_subsystem_add_listener {manual} -t tcp -a 127.0.0.1 -s {self.port}\n")
        admin, _ = self.connect(engine, manual)
        answer = self.ask(store.VOLUME_DESTROY, pool="p1", volume="db")
        self.assertEqual(answer.error, -EBUSY)
        self.assertIn(f"volume p1/db is in use by host {HOST_A} (connected from 127.0.0.1): disconnect there, or repeat the request with "
                      "--force", answer.text)
        self.assertNotIn("namespace", answer.text)
        self.assertEqual(self.ask(store.VOLUME_DESTROY, pool="p1", volume="db", force=True).error, 0)
        admin.s.close()

    def test_a_server_makes_and_publishes_a_volume_that_survives_kill_9(self):
        engine, state = self.start(), os.path.join(self.directory, "state")
        self.serve()
        names = {"pool": "p1", "volume": "db"}
        for _ in range(2):      # each call is repeated, as after a lost answer
            self.assertEqual(self.ask(store.POOL_CREATE, pool="p1").error, 0)
            self.assertEqual(self.ask(store.VOLUME_CREATE, size_bytes=16 * MIB, **names).error, 0)
            published = self.ask(store.VOLUME_PUBLISH, host_nqn=HOST_A, **names)
            self.assertEqual((published.error, published.address), (0, f"127.0.0.1:{self.port}"))
        volume = published.pools[0].volumes[0]
        self.assertEqual(volume.nqn, "nqn.2014-08.org.nvmexpress:uuid:" + volume.uuid)
        self.perf(engine, volume.nqn, "--rw", "mix", "--count", "1000", "--verify-state", state)
        engine.kill()
        engine = self.start()
        self.assertEqual(self.perf(engine, volume.nqn, "--count", "1", check=False).returncode, 2)   # not before SET_UP
        self.serve()
        self.perf(engine, volume.nqn, "--time", "0", "--verify-state", state)
        admin, _ = self.connect(engine, volume.nqn)
        listed = self.ask(store.LIST).pools[0].volumes[0].hosts[0]
        self.assertEqual((listed.nqn, listed.connections, listed.address), (HOST_A, 1, "127.0.0.1"))
        self.assertLess(abs(listed.since_ns - time.time_ns()), 600 * 10**9)
        answer = self.ask(store.VOLUME_UNPUBLISH, host_nqn=HOST_A, **names)
        self.assertEqual(answer.error, -EBUSY)
        self.assertIn(HOST_A, answer.text)
        answer = self.ask(store.VOLUME_DESTROY, **names)
        self.assertEqual(answer.error, -EBUSY)
        self.assertIn(f"{HOST_A} (connected from 127.0.0.1)", answer.text)
        for _ in range(2):
            self.assertEqual(self.ask(store.VOLUME_UNPUBLISH, host_nqn=HOST_A, force=True, **names).error, 0)
        for action in (store.VOLUME_DESTROY, store.VOLUME_UNPUBLISH, store.POOL_DESTROY, store.VOLUME_UNPUBLISH):
            self.assertEqual(self.ask(action, host_nqn=HOST_A, **names).error, 0)
        self.assertEqual(len(self.ask(store.LIST).pools), 0)
        admin.s.close()

    def test_a_snapshot_of_a_renamed_volume_is_not_reported_as_destroyed(self):
        if not xfs.mount(self, self.storage):
            raise unittest.SkipTest("no XFS image can be mounted here")
        self.start()
        self.serve()
        self.assertEqual(self.ask(store.POOL_CREATE, pool="p1").error, 0)
        volume = self.ask(store.VOLUME_CREATE, pool="p1", volume="db", size_bytes=16 * MIB).pools[0].volumes[0].uuid
        member = store.SnapshotMember(pool="p1", volume="db", snapshot="s")
        self.assertEqual(self.ask(store.SNAPSHOT_CREATE, members=[member]).error, 0)
        self.assertEqual(self.ask(store.VOLUME_RENAME, pool="p1", volume="db", volume_uuid=volume, new_name="new").error, 0)
        snapshot = {"pool": "p1", "volume_uuid": volume, "snapshot": "s"}
        answer = self.ask(store.SNAPSHOT_DESTROY, volume="db", **snapshot)
        self.assertEqual(answer.error, -ENOENT)
        self.assertIn("the volume is p1/new", answer.text)
        for name in ("new", "new", "db"):      # repeated: it is gone
            self.assertEqual(self.ask(store.SNAPSHOT_DESTROY, volume=name, **snapshot).error, 0)

    def test_a_server_sees_the_space_of_volumes(self):
        self.start()
        self.serve()
        self.assertEqual(self.ask(store.POOL_CREATE, pool="p1").error, 0)
        before = self.ask(store.LIST)
        self.assertEqual(self.ask(store.VOLUME_CREATE, pool="p1", volume="thin", size_bytes=64 * MIB).error, 0)
        self.assertEqual(self.ask(store.VOLUME_CREATE, pool="p1", volume="thick", size_bytes=64 * MIB, thick=True).error, 0)
        after = self.ask(store.LIST)
        volumes = {volume.name: volume.allocated_bytes for volume in after.pools[0].volumes}
        self.assertGreaterEqual(volumes["thick"], 64 * MIB)
        self.assertLess(volumes["thin"], MIB)
        self.assertEqual((after.pools[0].promised_bytes, after.pools[0].allocated_bytes), (128 * MIB, sum(volumes.values())))
        self.assertEqual(after.total_bytes, before.total_bytes)
        self.assertTrue(0 < after.free_bytes < before.total_bytes)

    def test_a_server_gets_an_event_when_a_pool_is_nearly_full_and_when_it_no_longer_is(self):
        self.start()
        self.serve()
        names = {"pool": "p1", "volume": "db"}

        def of_pool():
            """The file system of the test may be nearly full: the events of the storage do not count."""
            return [event.event for event in self.server.events if 1048 <= event.event.id <= 1051 and event.event.msg.startswith("pool ")]

        def events():
            return [(event.id, event.msg.split(";")[0], event.rank) for event in of_pool()]

        self.assertEqual(self.ask(store.POOL_CREATE, pool="p1", size_bytes=100 * MIB).error, 0)
        self.assertEqual(self.ask(store.VOLUME_CREATE, size_bytes=82 * MIB, **names).error, 0)
        expected = [(1048, "pool p1: 82 % of 100.0 MiB are promised", 3)]
        self.assertTrue(self.server.wait(lambda: events() == expected, timeout=60), self.server.events)
        self.assertIn("; no forecast", of_pool()[-1].msg)
        pool = self.ask(store.LIST).pools[0]
        self.assertEqual((pool.used_bytes, pool.limit_bytes, pool.full_in_ns), (82 * MIB, 100 * MIB, 0))
        self.assertEqual(of_pool()[-1].pool_uuid, pool.uuid)
        self.assertEqual(self.ask(store.VOLUME_RESIZE, size_bytes=96 * MIB, **names).error, 0)
        expected += [(1048, "pool p1: 96 % of 100.0 MiB are promised", 3)]
        self.assertTrue(self.server.wait(lambda: events() == expected, timeout=60), self.server.events)
        self.assertEqual(self.ask(store.VOLUME_RESIZE, size_bytes=50 * MIB, force=True, **names).error, 0)
        expected += [(1050, "pool p1: 50 % of 100.0 MiB are promised", 3)]
        self.assertTrue(self.server.wait(lambda: events() == expected, timeout=60), self.server.events)

    def test_a_server_sees_what_is_errored(self):
        engine = self.start_with("good", "bad")
        self.publish(engine, "bad")
        engine.stop()
        os.truncate(os.path.join(self.storage, "pools/p1/volumes/bad/data.1"), MIB)
        engine = self.start()
        self.serve()
        answer = self.ask(store.LIST)
        self.assertEqual((answer.error, answer.state), (0, "OPEN"))
        volumes = {volume.name: volume for volume in answer.pools[0].volumes}
        self.assertEqual((volumes["good"].state, volumes["good"].reason), ("ONLINE", ""))
        self.assertEqual(volumes["bad"].state, "ERRORED")
        self.assertIn("1048576 bytes", volumes["bad"].reason)
        self.assertTrue(self.server.wait(lambda: [event for event in self.server.events if "volume p1/bad" in event.event.msg]))
        self.assertEqual(len([event for event in self.server.events if "volume p1/" in event.event.msg]), 1)

    def test_a_server_sees_an_errored_pool(self):
        engine = self.start_with("db")
        self.assertEqual(self.ask(store.POOL_CREATE, pool="p2").error, 0)
        engine.stop()
        with open(os.path.join(self.storage, "pools/p1/pool.json"), "w") as file:
            file.write("{}")
        self.start()
        self.serve()
        pools = {pool.name: pool for pool in self.ask(store.LIST).pools}
        self.assertEqual({name: pool.state for name, pool in pools.items()}, {"p1": "ERRORED", "p2": "ONLINE"})
        self.assertNotEqual(pools["p1"].reason, "")
        self.assertTrue(self.server.wait(lambda: [event for event in self.server.events if "pool p1 with all its volumes" in event.event.msg]))

    def test_a_published_volume_that_cannot_be_served_is_errored_and_heals(self):
        engine = self.start_with("db")
        nqn = self.publish(engine)
        engine.stop()
        path = os.path.join(self.directory, "engine.json")
        with open(path, "w") as file:       # another subsystem has its NQN
            json.dump({"subsystems": [{"subsystem": "nvmf", "config": [
                {"method": "nvmf_create_transport", "params": {"trtype": "TCP"}},
                {"method": "nvmf_create_subsystem", "params": {"nqn": nqn}}]}]}, file)
        engine = self.start("-c", path)
        self.serve()
        volume = self.ask(store.LIST).pools[0].volumes[0]
        self.assertEqual(volume.state, "ERRORED")
        self.assertIn("already exists", volume.reason)
        self.assertTrue(self.server.wait(lambda: any("volume p1/db" in event.event.msg for event in self.server.events)))
        engine.rpc("nvmf_delete_subsystem", nqn=nqn)
        answer = self.ask(store.VOLUME_PUBLISH, pool="p1", volume="db", host_nqn=HOST_A)
        self.assertEqual((answer.error, answer.text), (0, ""))
        self.assertEqual(self.ask(store.LIST).pools[0].volumes[0].state, "ONLINE")
        os.rmdir(os.path.join(self.storage, "trash"))
        self.assertLess(self.ask(store.VOLUME_DESTROY, pool="p1", volume="db", force=True).error, 0)
        self.assertLess(self.ask(store.POOL_DESTROY, pool="p1", force=True).error, 0)
        self.perf(engine, nqn, "--count", "10")


if __name__ == "__main__":
    unittest.main()
