# SPDX-License-Identifier: BSD-2-Clause
"""A real agent at a real server: attach information, credentials that the server verifies, and volumes as far as a host without the driver gets."""

import os
import sys
import unittest

from control_rig import SystemTest, make_certificates, transport_config

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "test/unit/control/agent"))

import agent_rig as rig  # noqa: E402

SEC, VALIDATE_CREDS = 4, 401
NO_PERMISSION = -1001


class AgentAndServer(SystemTest):
    def begin(self, text="", secure=None):
        one = self.system(engines=1, text=text, formatted=False, start=False)
        if secure:
            one.use_certificate(secure, "admin")
        one.start()
        one.format()
        folder = os.path.join(self.directory, "client")
        os.mkdir(folder)
        agent = rig.Agent(folder, [f"127.0.0.1:{one.port}"], "name: test", secure)
        self.addCleanup(agent.discard)
        return one, agent.start()

    def validate(self, one, credential):
        """What the server answers to an engine that shows it this credential."""
        request = rig.security.ValidateCredReq(cred=credential)
        with rig.connect(os.path.join(one.run_dir, "fathom_server.sock")) as sock:
            rig.send_call(sock, SEC, VALIDATE_CREDS, request.SerializeToString())
            return rig.security.ValidateCredResp.FromString(rig.receive(sock).body)

    def test_a_client_gets_the_engines_addresses_and_a_credential_that_the_server_accepts(self):
        one, agent = self.begin()
        answer = rig.wait_for(lambda: (lambda said: said if said.status == 0 else None)(agent.attach_info()), "attach information")
        self.assertEqual([uri.rank for uri in answer.rank_uris], [0])
        self.assertIn(f":{one.ports[0]}", answer.rank_uris[0].uri)
        self.assertEqual((answer.sys, answer.client_net_hint.interface), ("test", "lo"))
        credential = agent.credential().cred
        accepted = self.validate(one, credential)
        self.assertEqual((accepted.status, accepted.token), (0, credential.token))
        credential.token = credential.token[:-1] + bytes([credential.token[-1] ^ 1])
        refused = self.validate(one, credential)
        self.assertEqual((refused.status, refused.token), (NO_PERMISSION, b""))

    def attach_by_rights(self, *args):
        """Root of this host is refused by the list of the pool, until an entry names it. Then its volume is published."""
        one, agent = self.begin(*args)
        one.fathom("pool", "create", "p1", "--user", "nosuch", "--group", "nosuch")
        one.fathom("volume", "create", "p1/db", "4M")
        answer = agent.attach("p1/db")
        self.assertEqual(rig.fault_code(answer), "code = 1293", answer)
        self.assertIn("user root@ of host", answer.text)
        self.assertIn("update-acl p1 --entry A::root@:rw", answer.resolution)
        one.fathom("pool", "update-acl", "p1", "-e", "A::root@:r")
        self.assertIn("not attached read-only", agent.attach("p1/db").text)
        one.fathom("pool", "update-acl", "p1", "-e", f"A::root@{os.uname().nodename}:rw")
        answer = agent.attach("p1/db")
        self.assertNotIn(answer.code, (1293, 1294), answer)  # a host without the driver gets no further

        def events():
            text = one.fathom("system", "events").stdout
            return text.count("volume_published"), text.count("pool_access_changed")
        one.wait_until(lambda: events() == (1, 2), lambda: f"events of 1 publish and 2 changes of the list: {events()}")

    def test_an_agent_attaches_by_the_pools_access_control_list(self):
        self.attach_by_rights()

    def test_with_certificates_the_list_decides_for_a_signed_credential(self):
        certificates = make_certificates(os.path.join(self.directory, "certs"))
        self.attach_by_rights(transport_config(certificates, "server").replace("}", f", client_cert_dir: {certificates}}}"), certificates)

    def test_with_certificates_only_an_agents_signature_is_accepted(self):
        certificates = make_certificates(os.path.join(self.directory, "certs"))
        one, agent = self.begin(transport_config(certificates, "server").replace("}", f", client_cert_dir: {certificates}}}"), certificates)
        credential = agent.credential().cred
        self.assertEqual(self.validate(one, credential).status, 0)
        credential.origin = "../certs/agent"
        self.assertEqual(self.validate(one, credential).status, -1003)
        credential.origin = "admin"
        self.assertEqual(self.validate(one, credential).status, NO_PERMISSION)

    def test_a_killed_server_leaves_the_copy(self):
        one, agent = self.begin()
        rig.wait_for(lambda: agent.attach_info().status == 0, "attach information")
        one.kill()
        self.assertEqual(agent.attach_info().status, 0)
        agent.kill()
        agent.start()
        self.assertEqual(agent.attach_info().status, -1006)
        one.start()
        rig.wait_for(lambda: agent.attach_info().status == 0, "the server is back")


if __name__ == "__main__":
    unittest.main()
