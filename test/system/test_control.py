# SPDX-License-Identifier: BSD-2-Clause
"""
control - three engines on one host under a real fathom-server, driven by the `fathom` command. Servers and engines
are killed; engines keep serving, ranks rejoin, and each event appears once.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import unittest

from control_rig import SystemTest, make_certificates, transport_config
from harness import FATHOM, TOP, run


class ServerAndEngines(SystemTest):
    def test_all_ranks_are_joined_when_storage_format_returns(self):
        system = self.system(2, formatted=False)
        system.fathom("storage", "format")
        self.assertRegex(system.fathom("system", "query").stdout, r"(?m)^\[0-1\] +Joined *$")

    def test_a_new_system_is_formatted_joins_and_serves_verified_io(self):
        system = self.system(formatted=False)
        self.assertEqual(system.fathom("system", "query", check=False).returncode, 1)
        self.assertEqual({engine["state"] for engine in system.engines().values()}, {"await_format"})
        system.format()
        self.assertEqual(sorted(system.states()), [0, 1, 2])
        self.assertEqual(len({member["uuid"] for member in system.members().values()}), 3)
        loads = []
        for instance in range(3):
            system.serve(instance)
            loads.append(system.perf(instance, "--time", "1"))
        for load in loads:
            self.assertEqual(load.wait(60), 0, load.stdout.read())
            load.stdout.close()

    def start_until(self, system, pattern):
        """
        `fathom system start` until its output matches. A server reports an engine without a rank a moment after its state
        changed, and until then a start does not reach it.
        """
        done = []

        def matches():
            done.append(system.fathom("system", "start", check=False))
            return re.search(pattern, done[-1].stdout)
        system.wait_until(matches, lambda: f"a start prints {pattern}, the last was:\n{done[-1].stdout}{done[-1].stderr}")
        return done[-1]

    def test_an_engine_that_never_joined_is_started_and_erased_with_the_others(self):
        system = self.system(2, formatted=False)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", system.ports[1]))
            taken.listen()
            system.fathom("server", "restart-policy", "failed=no")
            done = system.fathom("storage", "format", check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn("engine 1 of 127.0.0.1 is formatted and has not joined: errored: fathom-engine 1 exited: exit status 1: cannot listen", done.stderr)
            done = self.start_until(system, r"Engines without a rank:")
            self.assertRegex(done.stdout, r"(?ms)^0 +start +OK.*^Engines without a rank:\n.*^  127\.0\.0\.1 start .*cannot listen")
            self.assertIn("system start failed for 1 engine without a rank", done.stderr)
        self.start_until(system, r"(?m)^\[0-1\] +start +OK *$")
        system.wait_for_states("joined")
        # an engine that has not joined is erased too: none is left that could form the system again
        system.fathom("system", "stop")
        system.fathom("system", "erase", "--force")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", system.ports[1]))
            taken.listen()
            self.assertEqual(system.fathom("storage", "format", check=False).returncode, 1)
            self.start_until(system, r"Engines without a rank:")
            system.fathom("system", "stop")
            self.assertRegex(system.fathom("system", "erase", "--force").stdout, r"(?ms)^0 +erase +OK.*^  127\.0\.0\.1 erase +OK")
        self.assertEqual({engine["state"] for engine in system.engines().values()}, {"await_format"})

    def test_a_killed_engine_is_reported_once_and_rejoins(self):
        system = self.system()
        before = system.members()
        instance_of = {engine["rank"]: index for index, engine in system.engines().items()}
        os.kill(system.pid(instance_of[1]), signal.SIGKILL)
        system.wait_until(lambda: system.members()[1]["incarnation"] > before[1]["incarnation"], "rank 1 joins again")
        system.wait_for_states("joined")
        died = [event for event in system.events() if event[1] == "engine_died"]
        self.assertEqual([(event[2], event[3]) for event in died], [(1, before[1]["incarnation"])])
        self.assertEqual(system.members()[1]["uuid"], before[1]["uuid"])

    def test_engines_keep_serving_and_are_adopted_after_their_server_is_killed(self):
        system = self.system()
        system.serve(0)
        pids, before = system.pids(), system.members()
        quiet = system.perf(0, "--time", "1", "--json", "--quiet", "--range", "4M")
        self.assertEqual(quiet.wait(60), 0)
        usual = self.latency_max(quiet)
        load = system.perf(0, "--time", "4", "--json", "--quiet", "--range", "4M")
        time.sleep(0.5)
        for _ in range(3):
            system.kill()
            time.sleep(0.2)
            self.assertEqual(system.pids(), pids)
            system.start()
            system.wait_for_states("joined")
        self.assertEqual(load.wait(60), 0)
        # far above the latency on a busy machine, far below a wait for the server or for a timeout
        self.assertLess(self.latency_max(load), max(20 * usual, 15))
        system.kill()
        alone = system.perf(0, "--count", "5000", "--json", "--quiet", "--range", "4M")     # no server runs during this load
        self.assertEqual(alone.wait(60), 0, alone.stdout.read())
        alone.stdout.close()
        system.start()
        system.wait_for_states("joined")
        self.assertEqual(system.pids(), pids)
        after = system.members()
        self.assertEqual({rank: (m["uuid"], m["incarnation"]) for rank, m in after.items()},
                         {rank: (m["uuid"], m["incarnation"]) for rank, m in before.items()})
        self.assertTrue(all(engine["adopted"] for engine in system.engines().values()))
        self.assertEqual([event for event in system.events() if event[1] == "engine_died"], [])

    def latency_max(self, load):
        """The highest latency of the load, in seconds."""
        with load.stdout as text:
            return json.load(text)["total"]["latency_us"]["max"] / 1e6

    def test_stopping_the_server_leaves_its_engines_running(self):
        system = self.system()
        pids = system.pids()
        self.assertEqual(system.stop(), 0)
        self.assertEqual(system.pids(), pids)
        system.start()
        system.wait_for_states("joined")
        self.assertEqual(system.pids(), pids)

    def test_an_engine_that_dies_without_a_server_is_reported_when_the_server_starts(self):
        system = self.system()
        before = system.members()
        instance_of = {engine["rank"]: index for index, engine in system.engines().items()}
        system.kill()
        os.kill(system.pid(instance_of[2]), signal.SIGKILL)
        system.start()
        system.wait_until(lambda: system.members()[2]["incarnation"] > before[2]["incarnation"], "rank 2 joins again")
        system.wait_for_states("joined")
        died = [event for event in system.events() if event[1] == "engine_died"]
        self.assertEqual([(event[2], event[3]) for event in died], [(2, before[2]["incarnation"])])

    def test_a_follower_of_events_sees_each_event_across_restarts_of_the_server(self):
        system = self.system(1)
        follow = subprocess.Popen([FATHOM, "system", "events", "--follow", "--json", "-o", system.client_config], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)
        try:
            seen = [json.loads(follow.stdout.readline())["number"] for _ in system.events()]
            time.sleep(6)       # 5 s is the limit for the first connection; it must not end a follower that was connected
            system.kill()
            system.start()
            system.wait_for_states("joined")
            before = system.members()[0]["incarnation"]
            os.kill(system.pid(0), signal.SIGKILL)
            system.wait_until(lambda: system.members()[0]["incarnation"] > before, "rank 0 joins again")
            while seen[-1] < system.events()[-1][0]:
                seen.append(json.loads(follow.stdout.readline())["number"])
            self.assertEqual(seen, list(range(1, len(seen) + 1)))
            follow.send_signal(signal.SIGINT)
            self.assertEqual(follow.wait(60), 0)
        finally:
            follow.kill()
            follow.communicate()

    def test_chosen_ranks_stop_and_rejoin_without_a_death_event(self):
        system = self.system()
        system.fathom("system", "stop", "--ranks", "0,2")
        self.assertEqual(system.states(), {0: "stopped", 1: "joined", 2: "stopped"})
        self.assertEqual(sum(len(pids) for pids in system.pids().values()), 1)
        system.fathom("system", "start")
        system.wait_for_states("joined")
        self.assertEqual([event for event in system.events() if event[1] == "engine_died"], [])

    def test_an_excluded_rank_rejoins_after_clear_exclude(self):
        system = self.system()
        system.fathom("system", "exclude", "--ranks", "1")
        self.assertEqual(system.states()[1], "adminexcluded")
        system.fathom("system", "clear-exclude", "--ranks", "1")
        system.fathom("system", "start", "--ranks", "1", check=False)
        system.wait_for_states("joined")


class Certificates(SystemTest):
    def test_a_certificate_of_another_role_or_authority_is_refused(self):
        folder = make_certificates(os.path.join(self.directory, "certs"))
        foreign = make_certificates(os.path.join(self.directory, "foreign"))
        system = self.system(1, transport_config(folder, "server"), formatted=False, start=False)
        system.use_certificate(folder, "admin")
        system.start()
        system.format()
        for authority, role, message in ((folder, "agent", "(?i)agent|role|permission|mismatch"),    # an agent may not make this call
                                         (foreign, "admin", "authority|certificate"),
                                         (None, None, "TLS|certificate|insecure")):
            system.use_certificate(authority, role)
            done = system.fathom("system", "query", check=False)
            self.assertEqual(done.returncode, 1, f"{authority} {role}")
            self.assertRegex(done.stderr, message)
        system.use_certificate(folder, "admin")
        self.assertEqual(system.states(), {0: "joined"})

    def event_texts(self, system):
        return [(event["id"], event["msg"]) for event in system.json("system", "events")["events"]]

    def test_events_name_each_operation_and_its_user(self):
        folder = make_certificates(os.path.join(self.directory, "certs"))
        system = self.system(2, transport_config(folder, "server"), formatted=False, start=False)
        system.use_certificate(folder, "admin")
        system.start()
        system.format()
        me = f"by admin, uid {os.geteuid()}"
        system.fathom("system", "set-attr", "rack:3")
        system.fathom("system", "set-prop", "self_heal:none")
        system.fathom("system", "exclude", "--ranks", "1")
        system.wait_until(lambda: [name for name, _ in self.event_texts(system)].count("engine_self_terminated") == 2, "rank 1 ends")
        system.fathom("system", "clear-exclude", "--ranks", "1")
        system.wait_for_states("joined")
        system.fathom("server", "restart-policy", "killed=100ms..1s")
        os.kill(system.pid(0), signal.SIGKILL)
        system.wait_until(lambda: "engine_restarted" in [name for name, _ in self.event_texts(system)][-4:], "it is started again")
        system.wait_for_states("joined")
        system.fathom("system", "stop")
        system.fathom("system", "start")
        system.wait_for_states("joined")
        for name in ("server.crt", "server.key"):
            os.remove(os.path.join(folder, name))
        make_certificates(folder)
        system.process.send_signal(signal.SIGHUP)
        system.wait_until(lambda: "certificates_changed" in [name for name, _ in self.event_texts(system)], "certificates are read")
        self.assertEqual(system.stop(), 0)
        system.start()
        system.wait_for_states("joined")
        events = self.event_texts(system)
        names = [name for name, _ in events]
        for name, words in (("storage_formatted", f"the storage of instance 0 was formatted {me}"),
                            ("attributes_changed", f"set rack=3 {me}"),
                            ("properties_changed", f"set self_heal=none {me}"),
                            ("rank_excluded", f"rank 1 was excluded {me}"),
                            ("rank_exclude_cleared", f"the exclusion of rank 1 was cleared {me}"),
                            ("restart_policy_changed", f'engines that ended as "killed" are started again {me}'),
                            ("system_stopped", f"ranks 0-1 were stopped {me}"),
                            ("system_started", f"ranks 0-1 were started {me}"),
                            ("certificates_changed", f"certificates were replaced: {folder}/server.crt")):
            self.assertIn((name, words), events)
        self.assertEqual(names[0], "server_started")
        self.assertEqual((names.count("server_started"), names.count("server_ended"), names.count("engine_died")), (2, 1, 1))
        ended = [words for name, words in events if name == "server_ended"][0]
        self.assertRegex(ended, rf"^fathom-server at 127\.0\.0\.1:{system.port} ends by signal 15 of process \d+, uid {os.geteuid()}$")
        self.assertIn("engine_joined", names)

    def test_a_certificate_that_expires_soon_raises_an_event(self):
        folder = os.path.join(self.directory, "certs")
        run(os.path.join(TOP, "scripts", "make-certificates"), folder, "5")
        system = self.system(1, transport_config(folder, "server"), formatted=False, start=False)
        system.use_certificate(folder, "admin")
        system.start()
        system.wait_until(lambda: [name for name, _ in self.event_texts(system)].count("certificate_expires") == 2, "events of both certificates")
        messages = [words for name, words in self.event_texts(system) if name == "certificate_expires"]
        self.assertRegex(messages[0], rf"^a certificate expires in 7 days or less, on 20\d\d-\d\d-\d\d: {folder}/server\.crt$")
        self.assertIn("WARNING: event id: [certificate_expires]", system.log_text())

    def test_an_expired_certificate_is_reported_with_its_path(self):
        folder = make_certificates(os.path.join(self.directory, "certs"))
        system = self.system(1, transport_config(folder, "server"), formatted=False, start=False)
        system.use_certificate(folder, "admin")
        system.start()
        expired = os.path.join(self.directory, "expired")
        os.mkdir(expired)
        for name in ("ca.crt", "admin.key"):
            shutil.copy(os.path.join(folder, name), expired)
        request = os.path.join(expired, "request")
        run("openssl", "req", "-new", "-key", f"{expired}/admin.key", "-subj", "/CN=admin", "-out", request)
        run("openssl", "x509", "-req", "-in", request, "-CA", f"{folder}/ca.crt", "-CAkey", f"{folder}/ca.key", "-days", "-1", "-out", f"{expired}/admin.crt")
        system.use_certificate(expired, "admin")
        done = system.fathom("system", "query", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, rf'code = 951 description = "the certificate {expired}/admin.crt expired on 20')


if __name__ == "__main__":
    unittest.main()
