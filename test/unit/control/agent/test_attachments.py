#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
Attachments of a real fathom-agent, with a fake management service, on a host whose kernel has no driver: what is asked, recorded, tried again and
withdrawn. test/vm/test_agent.py has a kernel.
"""

import errno
import json
import os
import signal
import subprocess
import threading
import unittest
import uuid

import grpc

import agent_rig as rig
from agent_rig import ATTACH_INFO, EVICT, NOBODY, PUBLISH, UNPUBLISH, attach_info, fathom, wait_for
from fake_server import Slow, fault

UUID = "0af11bd2-1111-4222-8333-444455556666"
NQN = "nqn.2026-11.io.fathom:" + UUID
HOST = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555"


def volume(name="p1/db", own=UUID):
    return fathom.VolumeResp(volume=fathom.Volume(name=name, uuid=own, nqn="nqn.2026-11.io.fathom:" + own, addresses=["127.0.0.1:9"], state="ready"))


@unittest.skipIf(os.path.exists("/dev/nvme-fabrics"), "this kernel has the driver: test/vm/test_agent.py")
class Attachments(rig.AgentTest):
    def setUp(self):
        super().setUp()
        self.answers = {ATTACH_INFO: attach_info(), PUBLISH: volume(), UNPUBLISH: volume()}

    def begin(self, **answers):
        self.one_server = self.server({**self.answers, **answers})
        return self.agent([self.one_server])

    def record(self, own=UUID, name="p1/db", folder="state", **fields):
        path = os.path.join(self.folder, folder, "attachments")
        os.makedirs(path, exist_ok=True)
        with open(os.path.join(path, own + ".json"), "w") as file:
            json.dump({"version": 1, "name": name, "uuid": own, "nqn": "nqn.2026-11.io.fathom:" + own, "addresses": ["127.0.0.1:9"],
                       "detaching": False, **fields}, file)

    def records(self, folder="state"):
        path = os.path.join(self.folder, folder, "attachments")
        return sorted(os.listdir(path)) if os.path.isdir(path) else []

    def published(self):
        return self.one_server.requests(PUBLISH, fathom.VolumePublishReq)

    def unpublished(self):
        return self.one_server.requests(UNPUBLISH, fathom.VolumeUnpublishReq)

    def fathom_volume(self, *words, user=None):
        command = [os.path.join(rig.BIN, "fathom"), "volume", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=rig.SECONDS, check=False)

    # ---- attach ----

    def test_a_failed_attach_is_withdrawn_and_says_what_is_missing(self):
        agent = self.begin()
        answer = agent.attach("p1/db")
        self.assertEqual(rig.fault_code(answer), "code = 1158", answer)
        self.assertIn("modprobe nvme-tcp", answer.resolution)
        asked, = self.published()
        self.assertEqual((asked.name, asked.host), ("p1/db", HOST))
        who = rig.security.Sys.FromString(rig.security.Token.FromString(asked.credential.token).data)
        self.assertEqual((who.user, who.group, who.machinename, asked.credential.origin), ("root@", "root@", os.uname().nodename, "agent"))
        wait_for(self.unpublished, "the volume is unpublished")
        self.assertEqual([(one.name, one.host) for one in self.unpublished()], [(UUID, HOST)])
        gone = rig.security.Sys.FromString(rig.security.Token.FromString(self.unpublished()[0].credential.token).data)
        self.assertEqual((gone.user, gone.machinename), (who.user, who.machinename))
        wait_for(lambda: not agent.attachments(), "the attachment is forgotten")
        self.assertEqual(self.records(), [])
        self.assertEqual(self.one_server.calls[-1][2]["x-daos-component"], "agent")

    def test_a_step_that_fails_waits_hangs_or_crashes(self):
        self.one_server = self.server(self.answers)
        agent = rig.Agent(self.folder, [self.one_server])
        self.addCleanup(agent.discard)
        if "fault injection" not in subprocess.run([rig.AGENT, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout:
            self.skipTest("a build without fault injection")
        agent.start(env={"FATHOM_INJECT": "attach_step=fail:EROFS,count=1"})
        self.assertIn("Read-only file system", str(agent.attach("p1/db")))
        wait_for(lambda: not agent.attachments(), "the attachment is withdrawn")
        self.assertEqual(agent.stop(), 0)
        agent.start(env={"FATHOM_INJECT": "attach_step=delay:1ms,count=1"})
        self.assertEqual(rig.fault_code(agent.attach("p1/db")), "code = 1158")      # as without it: there is no driver
        wait_for(lambda: not agent.attachments(), "the attachment is withdrawn")
        self.assertEqual(agent.stop(), 0)
        agent.start(env={"FATHOM_INJECT": "attach_step=hang,count=1"})
        self.in_background(lambda: agent.attach("p1/db"))
        wait_for(lambda: "injected fault attach_step: hang" in agent.log(), "the step hangs")
        self.assertEqual(len(agent.attachments()), 1)                               # the agent goes on
        self.assertEqual(agent.stop(), 0)
        agent.start(ready=False, env={"FATHOM_INJECT": "attach_step=crash"})     # it goes on with the recorded attachment at once
        self.assertEqual(agent.process.wait(rig.SECONDS), -signal.SIGABRT)

    def in_background(self, call):
        """The agent may end before it answers."""
        def run():
            try:
                call()
            except OSError:
                pass
        thread = threading.Thread(target=run)
        thread.start()
        self.addCleanup(thread.join, rig.SECONDS)

    def test_an_attach_whose_answer_came_too_late_is_withdrawn(self):
        """The service may have published the volume, and no other client would unpublish it."""
        agent = self.begin(**{PUBLISH: Slow(3600, volume())})
        self.assertEqual(rig.fault_code(agent.attach("p1/db", timeout_ms=2000)), "code = 508")
        wait_for(self.unpublished, "the volume is unpublished")
        self.assertEqual({(one.name, one.host) for one in self.unpublished()}, {("p1/db", HOST)})
        wait_for(lambda: not agent.attachments(), "the attachment is forgotten")

    def test_an_attach_that_the_service_does_later_is_withdrawn(self):
        agent = self.begin(**{PUBLISH: fault(1256, "server", "the engine does not answer", "wait")})
        self.assertEqual(rig.fault_code(agent.attach("p1/db")), "code = 1256")
        wait_for(self.unpublished, "the volume is unpublished")
        self.assertEqual([(one.name, one.host, one.force) for one in self.unpublished()], [("p1/db", HOST, False)])
        wait_for(lambda: not agent.attachments(), "the attachment is forgotten")

    def test_an_attach_that_one_of_two_servers_may_have_done_is_withdrawn(self):
        self.one_server = self.server({**self.answers, PUBLISH: Slow(3600, volume())})
        other = self.server({**self.answers, PUBLISH: fault(610, "server", "the server is still starting", "try again in a moment")})
        agent = self.agent([self.one_server, other])
        self.assertEqual(rig.fault_code(agent.attach("p1/db", timeout_ms=4500)), "code = 508")
        wait_for(lambda: self.unpublished() or other.requests(UNPUBLISH, fathom.VolumeUnpublishReq), "the volume is unpublished")

    def test_a_withdrawn_attach_by_name_leaves_a_volume_that_is_in_use(self):
        agent = self.begin(**{PUBLISH: fault(1256, "server", "the engine does not answer", "wait"),
                              UNPUBLISH: fault(1260, "server", "hosts are connected", "disconnect them")})
        self.assertEqual(rig.fault_code(agent.attach("p1/db")), "code = 1256")
        wait_for(lambda: not agent.attachments(), "the attachment is forgotten")
        self.assertEqual(len(self.unpublished()), 1)

    def test_a_detach_during_the_wait_for_the_next_withdrawal(self):
        agent = self.begin(**{PUBLISH: fault(1256, "server", "the engine does not answer", "wait"),
                              UNPUBLISH: fault(618, "server", "the engine does not answer", "wait")})
        self.assertEqual(rig.fault_code(agent.attach("p1/db")), "code = 1256")
        wait_for(lambda: [one for one in agent.attachments() if one.state == "waiting"], "it waits")
        self.one_server.answers[UNPUBLISH] = [Slow(3, volume())]
        answer = wait_for(lambda: (lambda said: said if said.code != 1153 else None)(agent.detach("p1/db")), "it is not busy")
        self.assertIn(answer.code, (0, 1154), answer)     # not attached: the withdrawal was tried again before
        self.assertEqual(list(agent.attachments()), [])

    def test_a_detach_on_a_host_without_an_nqn_asks_for_no_other_host(self):
        self.record()
        agent = self.begin()
        wait_for(lambda: [one for one in agent.attachments() if one.state == "waiting"])
        with open(os.path.join(self.folder, "hostnqn"), "w"):
            pass
        answer = wait_for(lambda: (lambda said: said if said.code != 1153 else None)(agent.detach("p1/db")))
        self.assertEqual(rig.fault_code(answer), "code = 1157", answer)
        self.assertEqual((self.records(), self.unpublished()), ([UUID + ".json"], []))
        answer = wait_for(lambda: (lambda said: said if said.code != 1153 else None)(agent.detach("p1/db", force=True)))
        self.assertEqual(answer.status, 0, answer)
        self.assertEqual((self.records(), self.unpublished()), ([], []))

    def test_a_failed_attach_is_withdrawn_until_the_service_confirms_it(self):
        agent = self.begin(**{UNPUBLISH: fault(618, "server", "the engine does not answer", "wait")})
        self.assertEqual(rig.fault_code(agent.attach("p1/db")), "code = 1158")
        wait_for(lambda: len(self.unpublished()) >= 2, "the unpublish is repeated")
        self.assertEqual(self.records(), [UUID + ".json"])
        agent.kill()
        self.one_server.answers[UNPUBLISH] = [volume()]
        agent.start()
        wait_for(lambda: not agent.attachments() and not self.records(), "the next start ends it")

    def test_a_volume_that_does_not_exist_has_the_services_fault(self):
        agent = self.begin(**{PUBLISH: fault(609, "server", "no volume p1/nix", "see fathom volume list")})
        answer = agent.attach("p1/nix")
        self.assertEqual((answer.code, answer.resolution), (609, "see fathom volume list"))
        self.assertEqual(list(agent.attachments()), [])
        self.assertEqual(self.unpublished(), [])

    def test_only_root_may_attach_and_detach(self):
        agent = self.begin()
        for method, request in ((rig.ATTACH, rig.agent.AttachReq(name="p1/db")), (rig.DETACH, rig.agent.DetachReq(name="p1/db"))):
            body = rig.drpc.Call(module=rig.FATHOM, method=method, sequence=7, body=request.SerializeToString()).SerializeToString()
            packet = rig.CHUNK.pack(len(body), len(body), 0, 1) + body
            said = self.as_user(NOBODY, f"s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\ns.connect({agent.socket!r})\n"
                                        f"s.send({packet!r})\nprint(s.recv(1 << 17)[24:].hex())")
            answer = rig.agent.AttachResp.FromString(rig.drpc.Response.FromString(bytes.fromhex(said)).body)
            self.assertEqual(rig.fault_code(answer), "code = 1151", answer)
        self.assertEqual(self.published(), [])

    def test_names_that_are_none_are_refused(self):
        agent = self.begin()
        for name in ("", "db", "p1/", "../x", "p1/../../etc", "a/b/c", "x" * 300 + "/y"):
            self.assertEqual(rig.fault_code(agent.attach(name)), "code = 1152", name)
        self.assertEqual(rig.fault_code(agent.detach("p1/none")), "code = 1154")

    def test_a_second_request_for_a_volume_is_refused_meanwhile(self):
        agent = self.begin(**{PUBLISH: Slow(3600, volume())})
        with rig.connect(agent.socket) as sock:
            rig.send_call(sock, rig.FATHOM, rig.ATTACH, rig.agent.AttachReq(name="p1/db").SerializeToString())
            wait_for(lambda: [one.state for one in agent.attachments()] == ["publishing"], "the first request")
            self.assertEqual(rig.fault_code(agent.attach("p1/db")), "code = 1153")
            self.assertEqual(rig.fault_code(agent.detach("p1/db")), "code = 1153")
            self.assertEqual(rig.fault_code(agent.attach("p1/other", timeout_ms=200)), "code = 508")    # another volume is not held up by it
        self.assertEqual(agent.stop(), 0)

    def test_a_host_without_an_nqn_is_told_to_make_one(self):
        agent = self.begin()
        os.unlink(os.path.join(self.folder, "hostnqn"))
        answer = agent.attach("p1/db")
        self.assertEqual(rig.fault_code(answer), "code = 1157", answer)
        self.assertIn("nvme gen-hostnqn", answer.resolution)

    def test_answers_that_are_not_valid_are_refused(self):
        for wrong in (fathom.VolumeResp(), fathom.VolumeResp(volume=fathom.Volume(name="p1/db", uuid="x", nqn="n")),
                      fathom.VolumeResp(volume=fathom.Volume(name="../../etc", uuid=UUID, nqn="n")),
                      fathom.VolumeResp(volume=fathom.Volume(name="p1/db", uuid=UUID, nqn="n" * 300)),
                      fathom.VolumeResp(volume=fathom.Volume(name="p1/db", uuid=UUID, nqn="n", addresses=["127.0.0.1:1"] * 17))):
            agent = self.begin(**{PUBLISH: wrong})
            answer = agent.attach("p1/db")
            self.assertEqual(answer.status, -71, answer)    # EPROTO
            self.assertEqual(self.records(), [])
            agent.stop()

    # ---- after a start ----

    def test_a_recorded_attachment_is_tried_again_for_ever(self):
        self.record()
        agent = self.begin(**{PUBLISH: volume(name="p1/renamed")})
        wait_for(lambda: len(self.published()) >= 2, "a second attempt")
        self.assertEqual(self.published()[0].name, UUID)
        self.assertTrue(all(one.renew for one in self.published()), "what was taken from this host stays taken")
        one = wait_for(lambda: [one for one in agent.attachments() if one.state == "waiting"], "it waits")[0]
        self.assertIn("/dev/nvme-fabrics", one.reason)
        self.assertEqual(one.name, "p1/renamed")
        self.assertEqual(self.records(), [UUID + ".json"])

    def test_without_any_server_the_recorded_addresses_are_used(self):
        self.record()
        agent = self.agent(["127.0.0.1:1"])
        wait_for(lambda: [one for one in agent.attachments() if "nvme-fabrics" in one.reason], "the connection is tried")

    def test_a_detach_that_a_kill_interrupted_is_ended(self):
        self.record(detaching=True)
        agent = self.begin()
        wait_for(lambda: self.records() == [], "the record is removed")
        wait_for(lambda: not agent.attachments())
        self.assertEqual([one.name for one in self.unpublished()], [UUID])

    def test_a_waiting_attachment_is_detached(self):
        self.record()
        agent = self.begin()
        wait_for(lambda: [one for one in agent.attachments() if one.state == "waiting"])
        answer = wait_for(lambda: (lambda said: said if said.code != 1153 else None)(agent.detach("p1/db")), "it is not busy")
        self.assertEqual((answer.status, answer.text), (0, ""))
        self.assertEqual(self.records(), [])

    def test_a_detach_without_a_server_fails_and_goes_on_later_unless_it_is_forced(self):
        self.record()
        agent = self.begin(**{UNPUBLISH: fault(610, "server", "the server is still starting", "try again in a moment")})
        wait_for(lambda: [one for one in agent.attachments() if one.state == "waiting"])
        answer = wait_for(lambda: (lambda said: said if said.code != 1153 else None)(agent.detach("p1/db", timeout_ms=500)))
        self.assertEqual(answer.code, 610)
        with open(os.path.join(self.folder, "state/attachments", UUID + ".json")) as file:
            self.assertTrue(json.load(file)["detaching"])
        answer = wait_for(lambda: (lambda said: said if said.code != 1153 else None)(agent.detach("p1/db", force=True, timeout_ms=500)))
        self.assertEqual(answer.status, 0)
        self.assertEqual(self.records(), [])

    def test_a_detach_while_the_agent_ends_is_left_to_its_next_start(self):
        self.record()
        agent = self.begin(**{EVICT: Slow(3600, rig.agent.EvictResp(status=0))})
        wait_for(lambda: [one for one in agent.attachments() if one.state == "waiting"])
        with rig.connect(agent.socket) as sock:     # this process has a pool handle, whose eviction the end waits for
            handle = rig.agent.PoolMonitorReq(pool_uuid=str(uuid.uuid4()), handle_uuid=str(uuid.uuid4()))
            self.assertEqual(agent.call(rig.MGMT, rig.NOTIFY_CONNECT, handle, rig.agent.StatusResp, sock=sock).status, 0)
            agent.process.send_signal(signal.SIGTERM)
            wait_for(lambda: self.one_server.requests(EVICT, rig.agent.EvictReq), "it ends")
            try:
                said = wait_for(lambda: (lambda said: said if said.code != 1153 else None)(agent.call(
                    rig.FATHOM, rig.DETACH, rig.agent.DetachReq(name="p1/db"), rig.agent.AttachResp, sock=sock)))
            except OSError:
                self.assertEqual(agent.stop(), 0)
                self.skipTest("the agent ended before the request")
        self.assertEqual((said.status, said.text), (-errno.ECANCELED, "the agent ends"))
        self.assertEqual(agent.stop(), 0)
        self.assertEqual(self.unpublished(), [])
        agent.start()
        wait_for(lambda: self.records() == [], "the record is removed")
        self.assertEqual([one.name for one in self.unpublished()], [UUID])

    def test_a_uuid_in_upper_case_is_the_same_volume(self):
        self.record()
        agent = self.begin()
        wait_for(lambda: [one for one in agent.attachments() if one.state == "waiting"])
        answer = wait_for(lambda: (lambda said: said if said.code != 1153 else None)(agent.attach(UUID.upper())))
        self.assertEqual(rig.fault_code(answer), "code = 1158", answer)
        self.assertEqual([one.uuid for one in agent.attachments()], [UUID])
        answer = wait_for(lambda: (lambda said: said if said.code != 1153 else None)(agent.detach(UUID.upper())))
        self.assertEqual((answer.status, answer.text), (0, ""))
        self.assertEqual(self.records(), [])

    def test_a_volume_is_attached_once_also_by_its_new_name(self):
        self.record(name="p1/old")
        agent = self.begin(**{PUBLISH: lambda request: volume("p1/db" if fathom.VolumePublishReq.FromString(request).name == "p1/db" else "p1/old")})
        wait_for(lambda: [one for one in agent.attachments() if one.state == "waiting"])
        answer = wait_for(lambda: (lambda said: said if said.code != 1153 else None)(agent.attach("p1/db")))
        self.assertEqual(rig.fault_code(answer), "code = 1158", answer)     # of the attachment that exists
        self.assertEqual([one.uuid for one in agent.attachments()], [UUID])
        self.assertEqual((self.records(), self.unpublished()), ([UUID + ".json"], []))

    def test_a_volume_is_attached_once_by_two_requests_with_other_names(self):
        go = threading.Event()
        agent = self.begin(**{PUBLISH: lambda _: go.wait(rig.SECONDS) and volume(),
                              UNPUBLISH: lambda _: self.one_server.ended.wait(3600) and volume()})
        with rig.connect(agent.socket) as first, rig.connect(agent.socket) as second:
            for sock, name in ((first, "p1/db"), (second, UUID)):
                rig.send_call(sock, rig.FATHOM, rig.ATTACH, rig.agent.AttachReq(name=name).SerializeToString())
            wait_for(lambda: len(self.published()) == 2, "both requests")
            go.set()
            answers = [rig.agent.AttachResp.FromString(rig.receive(sock).body) for sock in (first, second)]
        self.assertEqual(sorted(one.code for one in answers), [1153, 1158], answers)

    def test_an_attachment_that_was_temporary_is_kept_after_a_plain_request(self):
        self.record(folder="run")
        agent = self.begin()

        def attach(**fields):
            wait_for(lambda: [one for one in agent.attachments() if one.state == "waiting"])
            return wait_for(lambda: (lambda said: said if said.code != 1153 else None)(agent.attach("p1/db", **fields)))

        self.assertEqual(rig.fault_code(attach(temporary=True)), "code = 1158")
        self.assertEqual(([one.temporary for one in agent.attachments()], self.records(), self.records("run")), ([True], [], [UUID + ".json"]))
        self.assertEqual(rig.fault_code(attach()), "code = 1158")
        for temporary in (False, True):     # and stays so
            self.assertEqual(([one.temporary for one in agent.attachments()], self.records(), self.records("run")),
                             ([False], [UUID + ".json"], []))
            self.assertEqual(rig.fault_code(attach(temporary=temporary)), "code = 1158")
        answer = wait_for(lambda: (lambda said: said if said.code != 1153 else None)(agent.detach("p1/db")))
        self.assertEqual((answer.status, self.records(), self.records("run")), (0, [], []))

    def test_a_damaged_record_is_reported_and_left(self):
        self.record()
        with open(os.path.join(self.folder, "state/attachments", UUID + ".json"), "w") as file:
            file.write("{")
        agent = self.begin()
        self.assertIn("agent: code = 1162 ", agent.log())
        self.assertEqual(list(agent.attachments()), [])
        self.assertEqual(self.records(), [UUID + ".json"])

    def test_attachments_are_limited(self):
        for number in range(512):
            self.record(str(uuid.UUID(int=number + 1)), f"p1/v{number}")
        agent = self.begin(**{PUBLISH: fault(610, "server", "the server is still starting", "try again in a moment")})
        self.assertEqual(len(agent.attachments()), 512)
        self.assertEqual(rig.fault_code(agent.attach("p1/db")), "code = 1156")

    def test_folders_that_others_may_write_are_not_trusted(self):
        self.record()
        os.chmod(os.path.join(self.folder, "state/attachments"), 0o777)
        self.one_server = self.server(self.answers)
        agent = self.agent([self.one_server], ready=False)
        self.assertEqual(agent.process.wait(rig.SECONDS), 1)
        self.assertIn("only the agent's user may write", agent.log())

    # ---- names for udev ----

    def test_udev_gets_the_name_of_a_recorded_volume_alone(self):
        self.record()
        self.record("0af11bd2-1111-4222-8333-444455557777", "p2/tmp", folder="run")
        agent = rig.Agent(self.folder, ["127.0.0.1:1"])

        def name(own):
            return subprocess.run([rig.AGENT, "udev-name", "-o", agent.config, own], capture_output=True, text=True, timeout=60, check=False)

        self.assertEqual(name(UUID.upper()).stdout, "p1/db\n")
        self.assertEqual(name("0af11bd2-1111-4222-8333-444455557777").stdout, "p2/tmp\n")
        other = name("0af11bd2-1111-4222-8333-444455558888")
        self.assertEqual((other.returncode, other.stdout, other.stderr), (1, "", ""))
        self.assertEqual(name("../../etc/passwd").returncode, 2)

    def test_attachments_are_shown(self):
        self.record()
        agent = self.begin()
        wait_for(lambda: [one for one in agent.attachments() if one.state == "waiting"])
        shown = subprocess.run([rig.AGENT, "attachments", "-o", agent.config], capture_output=True, text=True, timeout=60, check=True).stdout
        self.assertRegex(shown, r"p1/db +\w+ +yes +the kernel has no driver")
        said = json.loads(subprocess.run([rig.AGENT, "attachments", "-o", agent.config, "-j"], capture_output=True, text=True, timeout=60,
                                         check=True).stdout)
        self.assertEqual((said[0]["uuid"], said[0]["addresses"]), (UUID, ["127.0.0.1:9"]))


if __name__ == "__main__":
    unittest.main()
