# SPDX-License-Identifier: BSD-2-Clause
"""
Each point of src/base/inject/points.def is passed by a real program, and has each of its effects there: the program that fails, waits or
hangs at it goes on afterwards, and after a crash the next one works with what the crash left.

`helper_call` and `attach_step` need devices and volumes: test_server_devices.py and test_attachments.py.
"""

import os
import re
import signal
import threading
import time
import unittest

from harness import TOP, Engine, RpcError, run, wait_for
from host import Host
from server_rig import SERVER, Refused, ServerTest

CALL = "/fathom.ControlSvc/FaultInject"
ELSEWHERE = {"helper_call": "test/system/test_server_devices.py", "attach_step": "test/unit/control/agent/test_attachments.py"}
SIZE = 8 << 20


def rows():
    """{point: actions} of the table."""
    with open(os.path.join(TOP, "src/base/inject/points.def")) as file:
        return {match[1]: match[2].split() for match in re.finditer(r"(?m)^point (\w+) \S+ may ((?:\w+ ?)+)$", file.read())}


ROWS = rows()


@unittest.skipUnless("fault injection" in run(SERVER, "version").stdout, "a build without fault injection")
class EnginePoints(ServerTest):
    """An engine with storage of its own."""

    def setUp(self):
        super().setUp()
        self.storage, self.number, self.engine = os.path.join(self.directory, "storage"), 0, None
        os.mkdir(self.storage)

    def start(self, **kwargs):
        self.engine = Engine(self.directory, "--storage", self.storage, "--state", os.path.join(self.directory, "state.json"), **kwargs)
        self.addCleanup(self.engine.discard)
        return self.engine

    def name(self):
        self.number += 1
        return f"n{self.number}"

    def file(self):
        path = os.path.join(self.directory, self.name())
        with open(path, "wb") as file:
            file.truncate(SIZE)
        return path

    def open_device(self):
        self.engine.rpc("bdev_uring_create", filename=self.file(), name=self.name(), block_size=4096, timeout=60)

    def close_device(self):
        name = self.name()
        self.engine.rpc("bdev_uring_create", filename=self.file(), name=name, block_size=4096, timeout=60)
        self.engine.rpc("bdev_uring_delete", name=name, timeout=60)

    def flush(self):
        if not self.engine.rpc("bdev_get_bdevs"):
            self.engine.serve("bdev_uring_create", self.file(), "served", 4096)
        with Host(self.engine) as admin, Host(self.engine) as host:
            admin.connect()
            host.connect_queue(1, admin.controller)
            host.flush(1)

    def admit(self):
        if not self.engine.rpc("bdev_get_bdevs"):
            self.engine.serve("bdev_malloc_create", 8, 4096, "-b", "m0")
        self.engine.perf("--count", 1)

    def point(self, name):
        return next(row for row in self.engine.rpc("fault_get_points")["points"] if row["point"] == name)

    def fire(self, point, action, trigger, **options):
        """Arm the point for one effect, call the trigger on a thread, and return the thread and the list of its errors when it had the effect."""
        before, errors = self.point(point)["fired"], []

        def call():
            try:
                trigger()
            except (OSError, RpcError, AssertionError) as error:     # the last: of a host
                errors.append(error)
        self.engine.rpc("fault_inject", point=point, action=action, count=1, **options)
        thread = threading.Thread(target=call)
        thread.start()
        self.addCleanup(thread.join, 60)
        if action != "crash":
            wait_for(lambda: self.point(point)["fired"] == before + 1)
        return thread, errors

    def end(self, fired):
        fired[0].join(60)
        self.assertFalse(fired[0].is_alive())
        return fired[1]

    def walk(self, point, trigger):
        may = ROWS[point]
        self.start()
        if "delay" in may:
            self.assertEqual(self.end(self.fire(point, "delay", trigger, delay_ms=1)), [])
        if "hang" in may:
            fired = self.fire(point, "hang", trigger)
            wait_for(lambda: self.point(point)["held"] == 1)
            self.engine.rpc("fault_clear", point=point)
            self.assertEqual(self.end(fired), [])
        if "crash" in may:
            fired = self.fire(point, "crash", trigger)
            self.assertEqual(self.engine.process.wait(60), -signal.SIGABRT)
            self.end(fired)
            self.start()
        if "fail" in may:
            self.assertEqual(len(self.end(self.fire(point, "fail", trigger))), 1)
        self.assertEqual(self.engine.stop(), 0)

    def test_pool_sync(self):
        self.walk("pool_sync", lambda: self.engine.rpc("pool_create", pool=self.name(), timeout=60))

    def test_pool_rename(self):
        self.walk("pool_rename", lambda: self.engine.rpc("pool_create", pool=self.name(), timeout=60))

    def test_volume_open(self):
        self.walk("volume_open", self.open_device)

    def test_volume_close(self):
        self.walk("volume_close", self.close_device)

    def test_volume_flush(self):
        self.walk("volume_flush", self.flush)

    def test_host_admit(self):
        self.walk("host_admit", self.admit)

    def test_state_write(self):
        self.walk("state_write", lambda: self.engine.rpc("bdev_null_create", name=self.name(), num_blocks=64, block_size=512, timeout=60))

    def test_trace_create(self):
        """It is passed before the engine takes calls."""
        self.start(env={"FATHOM_INJECT": "trace_create=delay:1ms"})
        self.assertEqual(self.point("trace_create")["fired"], 1)
        self.engine.stop()
        for action, status in (("fail", {0, 1}), ("crash", {-signal.SIGABRT})):
            engine = self.start(ready=False, env={"FATHOM_INJECT": f"trace_create={action}"})
            if action == "fail":
                wait_for(lambda e=engine: e.process.poll() is not None or os.path.exists(e.sock))
                engine.process.terminate()
                self.assertIn("injected fault trace_create: fail:ENOSPC", engine.log_text())
            self.assertIn(engine.process.wait(60), status)


@unittest.skipUnless("fault injection" in run(SERVER, "version").stdout, "a build without fault injection")
class ServerPoints(ServerTest):
    """
    A server with one engine. One round passes all its points: the engine is killed, which is an event, starts and joins again, an attribute is set,
    and events are read.
    """
    POINTS = ("db_read", "db_write", "spool_write", "superblock_write", "engine_start", "join", "group_send", "grpc_call", "drpc_send", "drpc_receive")

    def setUp(self):
        super().setUp()
        self.one = self.server(keys="server_heartbeat: 200ms\nengine_heartbeat: 200ms\n" + "engine_restart: {killed: {delay_min: 10ms, delay_max: 10ms}}\n",
                               size="16MiB").start()
        self.one.format()
        self.one.wait_joined()

    def points(self, **fields):
        return {point.name: point for point in self.one.call(CALL, self.messages.fathom.FaultInjectReq(**fields)).points}

    def try_call(self, path, request, role="admin"):
        try:
            self.one.call(path, request, role=role, timeout=60)
        except Refused:
            pass        # it has the fault; the next round may not

    def round(self):
        mgmt = self.messages.mgmt
        for pid in self.one.running_engine_pids():
            os.kill(pid, signal.SIGKILL)
        self.try_call("/mgmt.MgmtSvc/SystemSetAttr", mgmt.SystemSetAttrReq(attributes={"a": "b"}))
        self.try_call("/fathom.ControlSvc/SystemEvents", self.messages.fathom.SystemEventsReq(max=10))

    def heal(self):
        """Start the rank until it is joined."""
        def is_joined():
            engine, = self.one.engines()
            if engine.state in ("stopped", "errored"):
                self.try_call("/ctl.CtlSvc/StartRanks", self.messages.ctl.RanksReq(ranks="0"), "server")
            return engine.state == "joined"
        wait_for(is_joined)

    def test_each_point_of_the_table_is_walked(self):
        here = set(self.POINTS) | {name.removeprefix("test_") for name in dir(EnginePoints) if name.startswith("test_")}
        self.assertEqual(here | set(ELSEWHERE), set(ROWS))
        for name, path in ELSEWHERE.items():
            with open(os.path.join(TOP, path)) as file:
                text = file.read()
            for action in ROWS[name]:
                self.assertIn(f"{name}={action}", text, path)
        for name, point in self.points().items():
            self.assertEqual(list(point.actions), ROWS[name])
        for name in self.POINTS:
            self.assertEqual(ROWS[name], ["fail", "delay", "crash"])

    def wait_fired(self, name, before):
        deadline = time.monotonic() + 60
        while self.points()[name].fired <= before:
            self.assertLess(time.monotonic(), deadline, f"{name} was not passed\n{self.one.log()}")
            time.sleep(0.02)

    def test_all_may_wait(self):
        before = self.points(arm=" ".join(f"{name}=delay:1ms,count=1" for name in self.POINTS))
        self.round()
        for name in self.POINTS:
            self.wait_fired(name, before[name].fired)
        self.heal()

    def test_each_may_fail_once(self):
        for name in self.POINTS:
            before = self.points(arm=f"{name}=fail,count=1")[name].fired
            self.round()
            self.wait_fired(name, before)
            self.heal()

    def test_each_may_crash(self):
        for name in self.POINTS:
            try:
                self.points(arm=f"{name}=crash")
                self.round()
            except Refused:
                pass        # the server has ended
            self.assertEqual(self.one.process.wait(60), -signal.SIGABRT, name)
            self.one.close_channel()
            self.one.start()
            self.heal()


if __name__ == "__main__":
    unittest.main()
