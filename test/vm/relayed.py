# SPDX-License-Identifier: BSD-2-Clause
"""
A server and an engine of this machine with the volume p1/db, for a client host in a guest. The engine's address is 127.0.0.1, which the guest
reaches as 10.0.2.2: a relay before the server's gRPC changes it in the answers.
"""

import pathlib
import sys

import grpc

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "unit/control/client"), str(HERE), str(HERE.parent / "system")]

import control_rig                      # noqa: E402
import fake_server                      # noqa: E402
import guest                            # noqa: E402

PUBLISH, UNPUBLISH, INFO = "/fathom.ControlSvc/VolumePublish", "/fathom.ControlSvc/VolumeUnpublish", "/mgmt.MgmtSvc/GetAttachInfo"
HOST_NQN = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555"
LINK = "/dev/fathom/p1/db"
BIN = control_rig.BIN


class RelayedSystem(control_rig.SystemTest):
    def setUp(self):
        super().setUp()
        self.one = self.system(engines=1)
        self.one.fathom("pool", "create", "p1")
        self.one.fathom("volume", "create", "p1/db", "16M")
        self.protocol = fake_server.protocols()["fathom"]
        relay = fake_server.FakeServer({path: self.relay(path) for path in (PUBLISH, UNPUBLISH, INFO)})
        relay.__enter__()
        self.addCleanup(relay.__exit__)
        self.agent_configuration = (f'name: test\naccess_points: ["{guest.HOST_ADDRESS}:{relay.port}"]\n'
                                    "transport_config: {allow_insecure: true}\n")

    def relay(self, path):
        """Pass the call to the real server."""
        def answer(request):
            with grpc.insecure_channel(f"127.0.0.1:{self.one.port}") as channel:
                try:
                    said = channel.unary_unary(path)(request, timeout=60, metadata=(("x-daos-component", "agent"), ("x-daos-version", "0.1.0")))
                except grpc.RpcError as error:
                    return fake_server.Failure(error.code(), error.details())
            if path == INFO:
                return said
            changed = self.protocol.VolumeResp.FromString(said)
            addresses = [one.replace("127.0.0.1", guest.HOST_ADDRESS) for one in changed.volume.addresses]
            del changed.volume.addresses[:]
            changed.volume.addresses.extend(addresses)
            return changed
        return answer
