# SPDX-License-Identifier: BSD-2-Clause
"""--state: what clients create is durable before the answer, and there again after kill -9; an unusable file is kept."""

import json
import os
import random
import socket
import unittest

from harness import NQN, EngineTest, RpcError

HOST = "nqn.2014-08.org.nvmexpress:uuid:6ba7b810-9dad-11d1-80b4-00c04fd430c8"


class State(EngineTest):
    def setUp(self):
        super().setUp()
        self.path = os.path.join(self.directory, "state.json")

    def start(self, *options):
        return self.engine("--state", self.path, *options)

    def devices(self, engine):
        return sorted(device["name"] for device in engine.rpc("bdev_get_bdevs"))

    def subsystem(self, engine):
        return [{key: one[key] for key in ("nqn", "listen_addresses", "hosts", "namespaces")}
                for one in engine.rpc("nvmf_get_subsystems") if one["nqn"] == NQN]

    def read(self):
        with open(self.path) as file:
            return file.read()

    def state(self, engine):
        return engine.rpc("framework_get_control")["state_file"]

    def test_an_answered_change_is_there_after_a_kill(self):
        chance = random.Random(7)
        expected = set()
        for number in range(12):
            engine = self.start()
            self.assertEqual(set(self.devices(engine)), expected)
            if expected and chance.random() < 0.4:
                name = chance.choice(sorted(expected))
                engine.rpc("bdev_null_delete", name=name)
                expected.remove(name)
            else:
                engine.rpc("bdev_null_create", name=f"n{number}", num_blocks=64, block_size=512)
                expected.add(f"n{number}")
            engine.kill()
        engine = self.start()
        self.assertEqual(set(self.devices(engine)), expected)
        self.assertEqual(engine.stop(), 0)

    def test_a_subsystem_comes_back_with_all_that_hosts_see(self):
        engine = self.start()
        engine.serve("bdev_malloc_create", 8, 4096, "-b", "m0")
        engine.rpc("nvmf_subsystem_add_host", nqn=NQN, host=HOST)
        before = self.subsystem(engine)
        self.assertEqual(len(before[0]["namespaces"]), 1)
        engine.kill()
        again = self.start()
        self.assertEqual(self.subsystem(again), before)
        again.port = engine.port
        again.perf("--count", "10")

    def test_requests_that_a_client_sends_at_once_are_all_durable(self):
        engine = self.start()
        requests = [{"jsonrpc": "2.0", "id": number, "method": "bdev_null_create",
                     "params": {"name": f"n{number}", "num_blocks": 64, "block_size": 512}} for number in range(60)]
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(60)
            client.connect(engine.sock)
            client.sendall(b"".join(json.dumps(request).encode() for request in requests))
            answers = client.makefile()
            for request in requests:
                self.assertEqual(json.loads(answers.readline()).get("result"), request["params"]["name"])
        self.assertLess(self.state(engine)["writes"], len(requests))    # they share writes
        engine.kill()
        self.assertEqual(len(self.devices(self.start())), len(requests))

    def test_an_unusable_file_is_kept_and_changes_are_refused(self):
        with open(self.path, "w") as file:
            file.write('{"subsystems": [')
        engine = self.start()
        self.assertEqual(self.state(engine)["state"], "HELD")
        with self.assertRaises(RpcError) as refused:
            engine.rpc("bdev_null_create", name="n0", num_blocks=64, block_size=512)
        self.assertIn("correct it or move it away", refused.exception.message)
        self.assertEqual(self.devices(engine), [])
        self.assertIn("line 1", engine.log_text())
        self.assertEqual(engine.stop(), 0)
        self.assertEqual(self.read(), '{"subsystems": [')
        os.rename(self.path, self.path + ".bad")
        engine = self.start()
        engine.rpc("bdev_null_create", name="n0", num_blocks=64, block_size=512)
        engine.kill()
        self.assertEqual(self.devices(self.start()), ["n0"])

    def test_what_fails_at_the_start_is_kept_until_its_device_is_back(self):
        engine = self.start()
        data = self.file("data", 8)
        engine.serve("bdev_uring_create", data, "u0", 512)
        before = self.subsystem(engine)
        engine.kill()
        os.rename(data, data + ".away")
        engine = self.start()
        self.assertEqual(self.devices(engine), [])
        self.assertEqual(self.subsystem(engine)[0]["namespaces"], [])
        self.assertEqual(self.state(engine)["kept_calls"], 2)       # the device and its namespace
        engine.rpc("bdev_null_create", name="n0", num_blocks=64, block_size=512)
        engine.kill()
        os.rename(data + ".away", data)
        engine = self.start()
        self.assertEqual((self.devices(engine), self.subsystem(engine)), (["n0", "u0"], before))
        self.assertEqual(self.state(engine)["kept_calls"], 0)

    def test_a_change_that_cannot_be_written_says_so(self):
        os.mkdir(os.path.join(self.directory, "states"))
        self.path = os.path.join(self.directory, "states", "state.json")
        engine = self.start()
        os.rename(os.path.dirname(self.path), os.path.dirname(self.path) + ".away")
        with self.assertRaises(RpcError) as failed:
            engine.rpc("bdev_null_create", name="n0", num_blocks=64, block_size=512)
        self.assertIn("not saved", failed.exception.message)
        self.assertEqual(self.state(engine)["state"], "UNSAVED")
        os.rename(os.path.dirname(self.path) + ".away", os.path.dirname(self.path))
        engine.rpc("bdev_null_create", name="n1", num_blocks=64, block_size=512)
        engine.kill()
        self.assertEqual(self.devices(self.start()), ["n0", "n1"])

    def test_the_file_replaces_a_configuration(self):
        config = os.path.join(self.directory, "config.json")
        with open(config, "w") as file:
            json.dump({"subsystems": [{"subsystem": "bdev", "config": [
                {"method": "bdev_null_create", "params": {"name": "c0", "num_blocks": 64, "block_size": 512}}]}]}, file)
        engine = self.start("-c", config)
        self.assertEqual(self.devices(engine), ["c0"])
        engine.rpc("bdev_null_create", name="n0", num_blocks=64, block_size=512)
        engine.rpc("bdev_null_delete", name="c0")
        engine.kill()
        engine = self.start("-c", config)
        self.assertEqual(self.devices(engine), ["n0"])
        self.assertIn("is not used, because --state", engine.log_text())

    def test_a_renamed_volume_keeps_its_namespace(self):
        storage = os.path.join(self.directory, "storage")
        os.mkdir(storage)
        engine = self.start("--storage", storage)
        engine.run_commands(f"pool_create p1\nvolume_create p1 a 8M\nnvmf_create_subsystem {NQN} -a\n"
                            f"nvmf_subsystem_add_ns {NQN} p1/a\nvolume_rename p1 a c\n")
        engine.kill()
        engine = self.start("--storage", storage)
        self.assertEqual([namespace["bdev_name"] for namespace in self.subsystem(engine)[0]["namespaces"]], ["p1/c"])
        self.assertEqual(self.state(engine)["kept_calls"], 0)

    def test_a_namespace_is_not_given_to_another_volume_of_the_same_name(self):
        storage = os.path.join(self.directory, "storage")
        os.mkdir(storage)
        engine = self.start("--storage", storage)
        engine.run_commands(f"pool_create p1\nvolume_create p1 a 8M\nnvmf_create_subsystem {NQN} -a\n"
                            f"nvmf_subsystem_add_ns {NQN} p1/a\n")
        state = self.read()
        engine.run_commands(f"nvmf_subsystem_remove_ns {NQN} 1\nvolume_destroy p1 a\nvolume_create p1 a 8M\n")
        engine.kill()
        with open(self.path, "w") as file:
            file.write(state)
        engine = self.start("--storage", storage)
        self.assertEqual(self.subsystem(engine)[0]["namespaces"], [])
        self.assertEqual(self.state(engine)["kept_calls"], 1)
        self.assertIn("another volume", engine.log_text())


if __name__ == "__main__":
    unittest.main()
