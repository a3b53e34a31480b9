# SPDX-License-Identifier: BSD-2-Clause
"""An engine under a server: the real fathom-engine, and fake_server.py."""

import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness
from fake_server import (CLUSTER_EVENT, DESCRIBE, FATHOM, GROUP_UPDATE, MGMT, NOTIFY_READY, PING_RANK, PREP_SHUTDOWN, RANK_NONE,
                         SET_LOG_MASKS, SET_RANK, SET_UP, Server, call, protocol)

INVAL, ALREADY, NOSYS, UNINIT, BAD_TARGET, SHUTDOWN = -1003, -1008, -1010, -1015, -1035, -2017
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

    def under_server(self, *options, instance=0):
        """An engine that is ready; nobody has given it a rank."""
        engine = self.engine("--socket-dir", self.directory, "--listen", "127.0.0.1:0", "--instance", str(instance), "--uuid", UUID,
                             "--storage", self.directory, *options)
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

    def volume(self, engine):
        """A device of memory that hosts find where the engine listens."""
        engine.lines(f"""bdev_malloc_create -b m0 16 4096
nvmf_create_subsystem {harness.NQN} -a -s SPDK00000000000001 -m 10
nvmf_subsystem_add_ns {harness.NQN} m0
nvmf_subsystem_add_listener {harness.NQN} -t tcp -a 127.0.0.1 -s {engine.port}
""")


class WayUp(ControlTest):
    def test_is_told_its_rank_set_up_and_serves(self):
        server = self.server()
        engine = self.under_server()
        self.volume(engine)
        self.assertTrue(server.wait(lambda: server.ready))
        ready = server.ready[0]
        self.assertEqual(ready.uri, f"nvme+tcp://127.0.0.1:{engine.port}")
        self.assertEqual((ready.instanceIdx, ready.drpcListenerSock), (0, engine.control))
        self.assertEqual(self.status(engine, PING_RANK, mgmt.PingRankReq(rank=3)), UNINIT)
        self.assertEqual(self.status(engine, SET_UP), UNINIT)
        self.assertEqual(engine.perf("--count", "1", check=False).returncode, 2)   # nobody is let in
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


if __name__ == "__main__":
    unittest.main()
