# SPDX-License-Identifier: BSD-2-Clause
"""Faults on purpose: rules reach engines and servers by each way, have their effect, and leave what a real fault would leave."""

import glob
import json
import os
import signal
import threading
import unittest

from harness import FATHOM, Engine, RpcError, run, wait_for
from server_rig import SERVER, Refused, ServerTest

CALL = "/fathom.ControlSvc/FaultInject"


def is_built():
    return "fault injection" in run(SERVER, "version").stdout


@unittest.skipUnless(is_built(), "a build without fault injection")
class EnginePoints(ServerTest):
    def engine(self, *options, **kwargs):
        engine = Engine(self.directory, *options, **kwargs)
        self.addCleanup(engine.discard)
        return engine

    def point(self, engine, name):
        return next(row for row in engine.rpc("fault_get_points")["points"] if row["point"] == name)

    def create(self, engine, name, **kwargs):
        return engine.rpc("bdev_null_create", name=name, num_blocks=64, block_size=512, **kwargs)

    def test_a_rule_has_its_effect_as_often_as_it_says(self):
        engine = self.engine("--state", os.path.join(self.directory, "state"))
        self.assertIs(engine.rpc("fault_get_points")["built"], True)
        engine.rpc("fault_inject", point="state_write", action="fail", error="EROFS", skip=1, count=1)
        self.assertEqual(self.point(engine, "state_write")["rule"], "fail:EROFS,skip=1,count=1")
        self.assertIn("armed_at_ns", self.point(engine, "state_write"))
        self.create(engine, "n0")
        with self.assertRaisesRegex(RpcError, "Read-only file system"):
            self.create(engine, "n1")
        self.create(engine, "n2")
        row = self.point(engine, "state_write")
        self.assertEqual((row["passed"], row["fired"], row["held"], "rule" in row), (3, 1, 0, False))
        self.assertIn("injected fault state_write: fail:EROFS", engine.log_text())
        wait_for(lambda: "INJECT_FIRED" in engine.trace("-f", engine.trace_path).stdout)
        self.assertRegex(engine.trace("-f", engine.trace_path).stdout, r"INJECT_FIRED .*point: state_write +action: fail +error: -30 +fired: 1\b")

    def test_a_wrong_rule_is_refused_with_its_reason(self):
        engine = self.engine()
        for params, words in (({"point": "nowhere", "action": "fail"}, "no point \"nowhere\""), ({"point": "drpc_send", "action": "hang"}, "cannot hang"),
                              ({"point": "pool_sync", "action": "fail", "error": "EOI"}, "not the name of an errno"),
                              ({"point": "pool_sync", "action": "delay"}, "from 1 ms")):
            with self.assertRaisesRegex(RpcError, words):
                engine.rpc("fault_inject", **params)
        with self.assertRaisesRegex(RpcError, "no point"):
            engine.rpc("fault_clear", point="nowhere")
        done = self.engine(ready=False, env={"FATHOM_INJECT": "pool_sync=burn"})
        self.assertEqual(done.process.wait(60), 1)
        self.assertIn("none of fail, delay, crash and hang", done.log_text())

    def test_what_hangs_goes_on_when_the_rule_is_removed_or_the_engine_stops(self):
        engine = self.engine("--state", os.path.join(self.directory, "state"))
        for end in (lambda: engine.rpc("fault_clear", point="all"), lambda: engine.process.send_signal(signal.SIGTERM)):
            engine.rpc("fault_inject", point="state_write", action="hang")
            call = threading.Thread(target=self.create_or_lose, args=(engine, f"n{id(end)}"))
            call.start()
            wait_for(lambda: self.point(engine, "state_write")["held"] == 1)     # the control thread answers meanwhile
            end()
            call.join(60)
            self.assertFalse(call.is_alive())
        self.assertEqual(engine.process.wait(60), 0)

    def create_or_lose(self, engine, name):
        try:
            self.create(engine, name, timeout=60)
        except (OSError, RpcError):
            pass            # the engine stops

    def test_a_crash_leaves_what_a_bug_leaves(self):
        engine = self.engine("--state", os.path.join(self.directory, "state"), env={"FATHOM_INJECT": "state_write=crash,skip=1"})
        self.create(engine, "n0")
        with self.assertRaises(OSError):
            self.create(engine, "n1")
        self.assertEqual(engine.process.wait(60), -signal.SIGABRT)
        left = glob.glob(engine.trace_path + "*")
        self.assertIn(engine.trace_path + ".sigabrt", left)
        again = self.engine("--state", os.path.join(self.directory, "state"))
        self.assertEqual([device["name"] for device in again.rpc("bdev_get_bdevs")], ["n0"])

    def test_a_connection_for_which_there_is_no_room_is_refused(self):
        engine = self.engine()
        engine.serve("bdev_malloc_create", 8, 4096, "-b", "m0")
        engine.rpc("fault_inject", point="host_admit", action="fail", count=1)
        self.assertNotEqual(engine.perf("--count", 10, check=False).returncode, 0)
        self.assertEqual(self.point(engine, "host_admit")["fired"], 1)
        self.assertEqual(engine.perf("--count", 10).returncode, 0)


@unittest.skipUnless(is_built(), "a build without fault injection")
class ServerPoints(ServerTest):
    def points(self, server, **fields):
        answer = server.call(CALL, self.messages.fathom.FaultInjectReq(**fields))
        return {point.name: point for point in answer.points}

    def test_rules_of_the_configuration_hold_from_the_start(self):
        server = self.server(keys='inject: ["join=fail,count=2", "group_send=fail:EIO,count=1", "engine_start=fail,count=1"]\n').start()
        server.format()
        server.wait_joined()
        points = self.points(server)
        self.assertEqual({name: points[name].fired for name in ("join", "group_send", "engine_start")}, {"join": 2, "group_send": 1, "engine_start": 1})
        self.assertEqual((points["join"].rule, list(points["db_write"].actions)), ("", ["fail", "delay", "crash"]))
        self.assertIn("injected fault join: fail:EAGAIN", server.log())

    def test_a_rule_by_a_call_holds_until_it_is_cleared(self):
        server = self.server().start()
        server.format()
        server.wait_joined()
        request = self.messages.mgmt.SystemSetAttrReq(attributes={"a": "b"})
        points = self.points(server, arm="db_write=fail:ENOSPC db_read=delay:1ms,count=1")
        self.assertEqual((points["db_write"].rule, points["db_write"].armed_ns > 0), ("fail:ENOSPC", True))
        for _ in range(2):
            with self.assertRaises(Refused) as refused:
                server.call("/mgmt.MgmtSvc/SystemSetAttr", request)
            self.assertEqual(refused.exception.fault.get("Code"), "1052")
        points = self.points(server, clear="db_write")
        self.assertEqual(points["db_write"].rule, "")
        self.assertGreaterEqual(points["db_write"].fired, 2)
        server.call("/mgmt.MgmtSvc/SystemSetAttr", request)

    def test_a_wrong_rule_changes_nothing(self):
        server = self.server(engines=0).start()
        for fields in ({"arm": "db_read=fail db_write=burn"}, {"arm": "db_read=fail", "clear": "nowhere"}, {"arm": "db_read=hang"}):
            with self.assertRaises(Refused) as refused:
                self.points(server, **fields)
            self.assertEqual(refused.exception.fault.get("Code"), "1431")
        self.assertEqual([point.rule for point in self.points(server).values() if point.rule], [])
        path = os.path.join(self.directory, "wrong.yml")
        with open(path, "w") as file:
            file.write('name: x\ninject: ["db_write=burn"]\n')
        done = run(SERVER, "config", "check", path, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("wrong.yml:2: ", done.stderr)
        self.assertIn("a rule of fault injection", done.stderr)

    def test_the_command_shows_and_sets_rules(self):
        server = self.server(engines=0).start()

        config = os.path.join(self.directory, "control.yml")
        with open(config, "w") as file:
            file.write(f"name: {server.name}\nhostlist: [{server.address}]\ntransport_config: {{allow_insecure: true}}\n")

        def faults(*words):
            return run(FATHOM, "server", "faults", "-o", config, *words).stdout
        self.assertRegex(faults("--arm", "db_read=fail,count=7"), r"\n +db_read +fail:EIO,count=7 +20\d\d-")
        rows = json.loads(faults("--json", "--clear", "all"))["response"]["HostPoints"]
        points = next(iter(rows.values()))["injection_points"] if isinstance(rows, dict) else rows[0]["injection_points"]
        self.assertEqual([point["rule"] for point in points if point["rule"]], [])

    def test_a_crash_of_a_server_leaves_its_engines(self):
        server = self.server().start()
        server.format()
        server.wait_joined()
        pids = {engine.pid for engine in server.engines()}
        self.points(server, arm="db_write=crash")
        with self.assertRaises(Refused):
            server.call("/mgmt.MgmtSvc/SystemSetAttr", self.messages.mgmt.SystemSetAttrReq(attributes={"a": "b"}))
        self.assertEqual(server.process.wait(60), -signal.SIGABRT)
        server.start()
        server.wait_joined()
        self.assertEqual({engine.pid for engine in server.engines()}, pids)


if __name__ == "__main__":
    unittest.main()
