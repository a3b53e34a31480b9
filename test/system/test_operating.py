# SPDX-License-Identifier: BSD-2-Clause
"""The operator's commands on a real server with real engines, from formatting the storage to erasing the system."""

import json
import os
import re
import signal
import subprocess
import time
import unittest

from harness import FATHOM, NQN, run, wait_for
from server_rig import SERVER, ServerTest


class Operating(ServerTest):
    def fathom(self, server, *words, status=0):
        done = subprocess.run([FATHOM, *map(str, words), "-i", "-l", server.address], capture_output=True, text=True, timeout=60,
                              env=dict(os.environ, HOME=server.directory), cwd=server.directory, check=False)
        self.assertEqual(done.returncode, status, f"{words}\n{done.stdout}\n{done.stderr}")
        return done

    def json_response(self, server, *words):
        return json.loads(self.fathom(server, *words, "-j").stdout)["response"]

    def rank_states(self, server):
        return {member["rank"]: member["state"] for member in self.json_response(server, "system", "query")["members"]}

    def wait_for_states(self, server, wanted):
        deadline = time.monotonic() + 60
        while (said := self.rank_states(server)) != wanted and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(said, wanted)

    def test_a_system_is_formatted_stopped_started_excluded_erased_and_formatted_again(self):
        server = self.server(engines=2, name="fathom").start()
        self.assertIn("code = 650", self.fathom(server, "system", "query", status=1).stderr)
        engines, = self.json_response(server, "server", "query")["HostEngines"].values()
        self.assertEqual([engine["state"] for engine in engines["engines"]], ["await_format"] * 2)
        self.assertRegex(self.fathom(server, "storage", "format").stdout, r"\n  127\.0\.0\.1 2 +0 ")
        deadline = time.monotonic() + 60
        while self.query_exit_status(server) != 0 and time.monotonic() < deadline:
            time.sleep(0.05)
        self.wait_for_states(server, {0: "joined", 1: "joined"})
        self.assertEqual(self.fathom(server, "system", "query").stdout, "Rank  State  \n----  -----  \n[0-1] Joined \n\n")
        for host in ("localhost", "127.0.0.1", server.address, "node0"):     # fault_path is /rack0/node0
            self.assertEqual([member["rank"] for member in self.json_response(server, "system", "query", "--rank-hosts", host)["members"]], [0, 1], host)
        self.assertRegex(self.fathom(server, "server", "version").stdout, r"^Fathom Control Server version \d+\.\d+\.\d+\n$")
        self.assertIn("code = 509", self.fathom(server, "storage", "format", "--force", status=1).stderr)
        self.assertIn("[0-1] stop      OK", self.fathom(server, "system", "stop").stdout)
        self.assertEqual(self.rank_states(server), {0: "stopped", 1: "stopped"})
        self.assertIn("1    start     OK", self.fathom(server, "system", "start", "--ranks", "1").stdout)
        self.wait_for_states(server, {0: "stopped", 1: "joined"})
        self.fathom(server, "system", "exclude", "--ranks", "1")
        self.assertEqual(self.rank_states(server)[1], "adminexcluded")
        self.fathom(server, "system", "clear-exclude", "--ranks", "1")
        self.fathom(server, "system", "start")
        self.wait_for_states(server, {0: "joined", 1: "joined"})
        events = self.json_response(server, "system", "events")["events"]
        self.assertEqual([event["number"] for event in events], list(range(1, len(events) + 1)))
        self.assertIn("engine_format_required", [event["id"] for event in events])
        self.fathom(server, "system", "set-attr", "site:Basel")
        self.assertEqual(self.json_response(server, "system", "get-attr")["attributes"], {"site": "Basel"})
        self.fathom(server, "server", "restart-policy", "crashed=250ms..10s*3")
        policies, = self.json_response(server, "server", "restart-policy")["HostPolicies"].values()
        self.assertIn({"cause": "crashed", "restart": True, "delay_min_ms": 250, "delay_max_ms": 10000, "limit": 3}, policies["policies"])
        self.fathom(server, "system", "stop")
        self.fathom(server, "system", "erase", "--force")
        self.assertIn("code = 650", self.fathom(server, "system", "query", status=1).stderr)
        # a new system: ranks begin at 0, and only the events of the old system are kept
        self.fathom(server, "storage", "format")
        deadline = time.monotonic() + 60
        while self.query_exit_status(server) != 0 and time.monotonic() < deadline:
            time.sleep(0.05)
        self.wait_for_states(server, {0: "joined", 1: "joined"})
        self.assertEqual(self.json_response(server, "system", "get-attr")["attributes"] or {}, {})

    def query_exit_status(self, server):
        """The exit status of a system query. It fails until the first engine has joined: before, there is no system."""
        return subprocess.run([FATHOM, "system", "query", "-i", "-l", server.address], capture_output=True, check=False,
                              env=dict(os.environ, HOME=server.directory)).returncode

    def test_a_volume_survives_the_kill_of_its_engine_and_is_gone_after_an_erase(self):
        server = self.server(engines=1, name="fathom").start()
        self.fathom(server, "storage", "format")
        server.wait_joined()

        def rpc(*words):
            return run(FATHOM, "rpc", "-s", os.path.join(server.socket_dir, "engine0.sock"), *words).stdout

        def volumes():
            return [(volume["device"], volume["state"]) for volume in json.loads(rpc("volume_get_volumes"))]
        self.fathom(server, "pool", "create", "p1")
        self.fathom(server, "volume", "create", "p1/db", "8M")
        rpc("nvmf_create_subsystem", NQN, "-a")
        rpc("nvmf_subsystem_add_ns", NQN, "p1/db")
        engine, = server.engines()
        os.kill(engine.pid, signal.SIGKILL)
        server.wait(lambda engines: engines[0].state == "joined" and engines[0].pid not in (0, engine.pid))
        self.assertEqual(volumes(), [("p1/db", "ONLINE")])
        subsystem, = (one for one in json.loads(rpc("nvmf_get_subsystems")) if one["nqn"] == NQN)
        self.assertEqual([namespace["bdev_name"] for namespace in subsystem["namespaces"]], ["p1/db"])
        self.fathom(server, "system", "stop")
        self.fathom(server, "system", "erase", "--force")
        self.fathom(server, "storage", "format")
        server.wait_joined()
        self.assertEqual(volumes(), [])
        wait_for(lambda: not os.listdir(os.path.join(server.mount_path(0), "trash")))

    def test_list_devices_shows_each_data_file_and_unplugged_once_it_is_removed(self):
        server = self.server(engines=2, name="fathom").start()
        self.fathom(server, "storage", "format")
        deadline = time.monotonic() + 60
        while self.query_exit_status(server) != 0 and time.monotonic() < deadline:
            time.sleep(0.05)
        self.wait_for_states(server, {0: "joined", 1: "joined"})
        uuids = {member["rank"]: member["uuid"] for member in self.json_response(server, "system", "query")["members"]}
        said = self.fathom(server, "storage", "query", "list-devices").stdout
        for rank in (0, 1):
            self.assertIn(f"UUID:{uuids[rank]} [TrAddr:{server.mount_path(rank)}/data.img NSID:1]\n      Roles:NA Targets:[] Rank:{rank} State:NORMAL", said)
        os.unlink(os.path.join(server.mount_path(1), "data.img"))
        host, = self.json_response(server, "storage", "query", "list-devices")["host_storage_map"].values()
        self.assertEqual([(one["rank"], one["total_bytes"], one["ctrlr"]["dev_state"]) for one in host["storage"]["smd_info"]["devices"]],
                         [(0, 64 << 20, "NORMAL"), (1, 0, "UNPLUGGED")])
        one, = self.json_response(server, "storage", "query", "list-devices", "--uuid", uuids[0])["host_storage_map"].values()
        self.assertEqual([device["uuid"] for device in one["storage"]["smd_info"]["devices"]], [uuids[0]])

    def test_storage_network_and_support_commands_answer_for_the_host(self):
        server = self.server(engines=1, name="fathom").start()
        for words in (["storage", "scan"], ["storage", "scan", "-v"], ["storage", "query", "usage"], ["storage", "query", "list-devices"],
                      ["network", "scan"], ["server", "set-logmasks", "-m", "INFO"]):
            self.assertIn("127.0.0.1", self.fathom(server, *words).stdout)
            self.assertEqual(self.json_response(server, *words)["host_errors"], {})
        # --all shows all devices and interfaces of the host, also those that DAOS's messages have no field for
        said = self.fathom(server, "storage", "scan", "--all").stdout
        for line in run(SERVER, "storage", "scan").stdout.splitlines()[2:]:
            self.assertRegex(said, rf"(?m)^{line.split()[0]} +{line.split()[1]} ")
        said = self.fathom(server, "network", "scan", "--all").stdout
        short = self.json_response(server, "network", "scan")["HostFabrics"].values()
        short = {one["Device"] for group in short for one in group["HostFabric"]["Interfaces"] or ()}
        for line in (line.split() for line in run(SERVER, "network", "scan").stdout.splitlines()[2:]):
            self.assertRegex(said, rf"(?m)^{line[0]} +{line[1]} +{line[2]} .*{re.escape(line[-1])}")
            # an interface that is down or has no address serves no host
            self.assertEqual(line[0] in short, line[1] != "loopback" and line[2] != "down" and line[-1] != "-", line)
        self.assertIn(server.address, self.fathom(server, "system", "leader-query").stdout)
        self.fathom(server, "support", "collect-log", "-t", "logs")
        archive, = os.listdir(os.path.join(server.directory, "logs"))
        with open(os.path.join(server.directory, "logs", archive), "rb") as file:
            self.assertEqual(file.read(4), b"\x28\xb5\x2f\xfd")     # zstd

    def test_a_generated_configuration_passes_the_check_and_starts_a_server(self):
        server = self.server(engines=0, name="fathom").start()
        path = os.path.join(server.directory, "made.yml")
        self.fathom(server, "config", "generate", "--folder", os.path.join(server.directory, "made"), "-e", 2, "--size", "64MiB", "-O", path)
        self.assertIn("2 engines", run(SERVER, "config", "check", path).stdout)
        # with its folders added, the file starts a management host, on another port than the server that generated it
        made = self.server(engines=0, name="fathom")
        for options in ((), ("-r", "localhost"), ("--interface", "lo")):
            os.unlink(path)
            self.fathom(server, "config", "generate", "--folder", os.path.join(server.directory, "made"), "-p", made.port, "-O", path, *options)
            with open(path) as file:
                text = file.read()
            address, = re.findall(r'mgmt_svc_replicas: \["(.*)"\]', text)
            with open(made.config_path, "w") as file:
                file.write(f"{text}socket_dir: {made.socket_dir}\nstate_dir: {made.state_dir}\n")
            os.makedirs(os.path.join(server.directory, "made", "engine0"), exist_ok=True)
            made.start()
            leader = json.loads(run(FATHOM, "system", "leader-query", "-i", "-j", "-l", f"{address}:{made.port}").stdout)["response"]
            self.assertEqual(leader["replicas"], [f"{address}:{made.port}"], text)     # only a management host answers
            made.stop()
        self.assertIn("code = ", self.fathom(server, "config", "generate", "--interface", "none0", status=1).stderr)


if __name__ == "__main__":
    unittest.main()
