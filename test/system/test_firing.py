# SPDX-License-Identifier: BSD-2-Clause
"""Every probe of the table fires in one session, under a real bpftrace, with the arguments that the trace has."""

import errno
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
import unittest
import urllib.request
import uuid

from harness import ENGINE, FATHOM, NQN, EngineTest, free_port, skip_unless_attachable, run, wait_for

import fake_server
import hanging
import test_hostile as hostile
import xfs

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "usdt"))
import events       # noqa: E402

ATTACH_SECONDS = 120
MIB = 1 << 20
HOST = "nqn.2026-01.io.fathom:host"
DSM, WRITE = 0x09, 0x01
HELD_NQN = "nqn.2026-11.org.fathom:held"
HELD_QUEUES, HELD_READS = 4, 100    # more than NVMF_NS_PARKED_MAX on each of two cores
NOT_READY, INTERNAL_ERROR = 0x82, 0x06
# these need a device that hangs, which needs /dev/fuse
HELD = {"nvmf_ns_refuses", "nvmf_ctrlr_never_enabled", "nvmf_command_given_up", "nvmf_command_returned", "tcp_req_parked"}

SNAPSHOT_NSID = 8
# these need an XFS image, which needs root and loop devices
SNAPSHOTS = {"bdev_io_hold", "volume_barrier_begin", "volume_barrier_step", "volume_barrier_end", "barrier_state", "move_image_state"}


class Firing(events.Compare, EngineTest):
    has_points = True       # of fault injection

    @classmethod
    def setUpClass(cls):
        skip_unless_attachable("bpftrace", "gdb")
        cls.model = events.table()
        cls.layout = events.Layout(ENGINE, cls.model)

    def setUp(self):
        super().setUp()
        try:
            self.file = hanging.HangingFile(self.directory, 16 << 20)
        except unittest.SkipTest:
            self.file = None        # no FUSE: the probes in HELD are not expected to fire

    def tearDown(self):
        if self.file:
            self.file.close()       # before the engines: a process with I/O at the file cannot end
        super().tearDown()

    # ---- bpftrace ----

    def attach(self):
        """Attach bpftrace to every probe of a private copy of the engine, so that engines of other tests do not show up."""
        self.program = os.path.join(self.directory, "fathom-engine")
        shutil.copy(ENGINE, self.program)
        script = os.path.join(self.directory, "all.bt")
        self.seen, self.messages = os.path.join(self.directory, "seen"), os.path.join(self.directory, "messages")
        text = events.script(self.model, self.layout, self.program, set(self.model.points))
        with open(script, "w") as file:         # the order of attaching is not defined: once both lines come, all probes are attached
            file.write('interval:s:1 { printf("first\\n"); }\n' + text + 'interval:s:1 { printf("last\\n"); }\n')
        with open(self.messages, "w") as messages, open(self.seen, "w") as seen:    # bpftrace buffers the output of -o
            self.tracer = subprocess.Popen(["bpftrace", "-B", "line", script], stdout=seen, stderr=messages,
                                           env=dict(os.environ, BPFTRACE_PERF_RB_PAGES="4096"))
        self.addCleanup(self.end_tracer)
        deadline = time.monotonic() + ATTACH_SECONDS
        while not {"first", "last"} <= set(self.text(self.seen).split("\n")):
            if time.monotonic() > deadline or self.tracer.poll() is not None:
                self.fail(f"bpftrace did not attach: {self.text(self.messages)}")
            time.sleep(0.2)

    @staticmethod
    def text(path):
        return pathlib.Path(path).read_text(errors="replace") if os.path.exists(path) else ""

    def end_tracer(self):
        if self.tracer.poll() is None:
            self.tracer.send_signal(signal.SIGINT)
            self.tracer.wait(60)

    # ---- the session ----

    def admit_hosts(self, engine):
        """Set the engine up as its server does, so that hosts may connect."""
        self.server = fake_server.Server(self.directory)
        self.assertTrue(self.server.wait(lambda: self.server.ready))
        mgmt = fake_server.protocol.mgmt
        if engine.rpc("fault_get_points")["built"]:
            engine.rpc("fault_inject", point="drpc_send", action="delay", delay_ms=1, count=1)     # its next answer
        else:
            self.has_points = False
        us = mgmt.GroupUpdateReq.Engine(rank=0, uri="us", incarnation=self.server.ready[0].incarnation)
        for method, request in [(fake_server.SET_RANK, mgmt.SetRankReq(map_version=1)), (fake_server.SET_UP, None),
                                (fake_server.GROUP_UPDATE, mgmt.GroupUpdateReq(map_version=2, engines=[us]))]:
            self.assertEqual(self.status(engine, method, request), 0)
        store = fake_server.protocol.store
        answer = fake_server.call(os.path.join(self.directory, "fathom_engine0.sock"), fake_server.FATHOM, fake_server.STORAGE,
                                  store.StorageReq(rank=0, action=store.LIST), store.StorageResp)[1]
        self.assertEqual((answer.error, answer.state), (0, "OPEN"))
        self.begin_moves()

    def begin_moves(self):
        """Offer a volume for a move, and take it back; and copy one from an address at which no engine listens."""
        store = fake_server.protocol.store
        session = "11111111-1111-4111-8111-111111111111"

        def call(action, volume="", **fields):
            request = store.StorageReq(rank=0, action=action, pool="moves", volume=volume, move_session=session, **fields)
            if volume:
                request.volume_uuid = f"22222222-2222-4222-8222-22222222222{volume}"
            return fake_server.call(os.path.join(self.directory, "fathom_engine0.sock"), fake_server.FATHOM, fake_server.STORAGE, request,
                                    store.StorageResp)[1].error
        self.assertEqual(call(store.POOL_CREATE), 0)
        self.assertEqual(call(store.VOLUME_CREATE, "0", size_bytes=MIB), 0)
        self.assertEqual(call(store.MOVE_OFFER, "0", move_serial=1), 0)
        self.assertEqual(call(store.MOVE_UNFENCE, "0", move_serial=1), -errno.ESTALE)  # it was delayed
        self.assertEqual(call(store.MOVE_UNFENCE, "0", move_serial=2), 0)
        if self.has_reflinks:
            member = store.SnapshotMember(pool="moves", volume="0", snapshot="s", uuid="33333333-3333-4333-8333-333333333333")
            self.assertEqual(call(store.SNAPSHOT_CREATE, members=[member]), 0)
            self.wait_until(lambda: call(store.MOVE_OFFER, "0", move_serial=3) == 0)
            self.assertEqual(call(store.MOVE_CHANGES, "0", move_round=1, snapshot="s"), 0)
            self.assertEqual(call(store.MOVE_UNFENCE, "0", move_serial=4), 0)
        self.assertEqual(call(store.MOVE_PREPARE, "1", size_bytes=MIB), 0)
        self.assertEqual(call(store.MOVE_COPY, "1", move_round=1, move_address="127.0.0.1:1", move_region_bytes=MIB, move_regions=b"\x01"), 0)
        self.wait_until(lambda: call(store.MOVE_STATUS, "1", move_round=1) != 0)

    def drain_and_lose_events(self, engine):
        """Drain the engine and stop its server, then raise more events than the engine keeps."""
        self.assertTrue(self.server.wait(lambda: self.server.events))
        self.assertEqual(self.status(engine, fake_server.PREP_SHUTDOWN, fake_server.protocol.mgmt.PrepShutdownReq()), 0)
        self.server.stop()
        made = engine.send_request(json.dumps([{"jsonrpc": "2.0", "id": i, "method": "bdev_null_create",
                                       "params": {"name": f"N{i}", "block_size": 4096, "num_blocks": 256}}
                                      for i in range(1025)]).encode())
        self.assertEqual([reply["result"] for reply in made], [f"N{i}" for i in range(1025)])
        deadline = time.monotonic() + 60
        while engine.rpc("framework_get_control")["events"]["lost"] == 0:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)

    def status(self, engine, method, request):
        path = os.path.join(self.directory, "fathom_engine0.sock")
        return fake_server.call(path, fake_server.MGMT, method, request, fake_server.protocol.mgmt.DaosResp)[1].status

    def run_session(self, engine):
        """Do to one engine what makes its probes fire."""
        port = engine.port
        self.admit_hosts(engine)
        engine.run_commands(f"""bdev_malloc_create 128 512 -b M0
bdev_malloc_create 32 4096 -b M1
bdev_malloc_create 16 512 -b M2 -o 64
bdev_malloc_create 16 512 -b M3
bdev_error_create M1
nvmf_create_subsystem {NQN} -a -s SPDK00000000000001 -m 8
nvmf_subsystem_add_ns {NQN} M0
nvmf_subsystem_add_ns {NQN} EE_M1
nvmf_subsystem_add_ns {NQN} M2
nvmf_subsystem_add_listener {NQN} -t tcp -a 127.0.0.1 -s {port}
nvmf_subsystem_add_host {NQN} {HOST}
""")
        self.move_poll_group(engine)       # first: a thread with hung file I/O cannot move
        silent = self.hold_reads(engine) if self.file else None
        engine.perf("--quiet", "--count", 300, "--rw", "mix", "--verify", "--depth", 16, "--queues", 2)
        engine.perf("--quiet", "--count", 30, "--rw", "write", "--bs", "128k", "--depth", 4, "--hdgst", "--ddgst")
        engine.perf("--quiet", "--count", 900, "--rw", "write", "--bs", "128k", "--depth", 127, "--queues", 6)
        engine.perf("--quiet", "--count", 50, "--nsid", 3, "--rw", "read", "--bs", "64k")
        engine.run_commands("bdev_error_inject_error EE_M1 read failure -n 5\nbdev_error_inject_error EE_M1 write nomem -n 5\n")
        engine.perf("--quiet", "--count", 20, "--nsid", 2, "--rw", "read", check=False)
        engine.perf("--quiet", "--count", 20, "--nsid", 2, "--rw", "write", "--depth", 8, check=False)
        engine.rpc("bdev_error_inject_error", name="EE_M1", io_type="read", error_type="delay", num=1, delay_us=1500000)
        engine.perf("--quiet", "--count", 1, "--nsid", 2, "--rw", "read", "--depth", 1)     # slow on average
        self.change_volumes(engine)
        self.break_protocol(engine)
        self.exceed_keep_alive(engine)
        if self.has_reflinks:
            self.take_snapshot(engine)
        if self.file:
            self.release_reads(engine, silent)
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}/metrics", timeout=60) as answer:
            self.assertIn(b"fathom_engine_info", answer.read())
        engine.run_commands(f"""bdev_get_iostat
bdev_reset_iostat -m all
nvmf_subsystem_remove_host {NQN} {HOST}
nvmf_subsystem_remove_listener {NQN} -t tcp -a 127.0.0.1 -s {port}
nvmf_delete_subsystem {NQN}
bdev_malloc_delete M3
""")
        self.ask_storage("VOLUME_DESTROY", pool="p1", volume="b")
        self.fill_pool(engine)
        self.drain_and_lose_events(engine)

    def ask_storage(self, action, **fields):
        """Change pools and volumes as the management service does; the engine refuses such changes by JSON-RPC."""
        store = fake_server.protocol.store
        if action == "VOLUME_CREATE":
            fields["volume_uuid"] = str(uuid.uuid4())
        request = store.StorageReq(rank=0, action=store.Action.Value(action), **fields)
        answer = fake_server.call(os.path.join(self.directory, "fathom_engine0.sock"), fake_server.FATHOM, fake_server.STORAGE, request,
                                  store.StorageResp)[1]
        self.assertEqual(answer.error, 0, f"{action} {fields}")

    def change_volumes(self, engine):
        self.ask_storage("POOL_CREATE", pool="p1")
        for volume in "acd":
            self.ask_storage("VOLUME_CREATE", pool="p1", volume=volume, size_bytes=8 * MIB, checksums=volume == "d")
        engine.run_commands(f"nvmf_subsystem_add_ns {NQN} p1/a -n {SNAPSHOT_NSID}\n")
        self.ask_storage("VOLUME_RESIZE", pool="p1", volume="a", size_bytes=16 * MIB)
        self.ask_storage("VOLUME_RENAME", pool="p1", volume="a", new_name="b")
        for action in ("VOLUME_PUBLISH", "VOLUME_UNPUBLISH"):
            self.ask_storage(action, pool="p1", volume="c", host_nqn=HOST)
        engine.run_commands("volume_scrub p1 d --rate 64M\n")
        self.ask_storage("VOLUME_SET_THICK", pool="p1", volume="c", thick=True)

    def fill_pool(self, engine):
        """Promise 15 of the 16 MiB of a pool, and wait until the engine has read that."""
        self.ask_storage("POOL_CREATE", pool="full", size_bytes=16 * MIB)
        self.ask_storage("VOLUME_CREATE", pool="full", volume="v", size_bytes=15 * MIB)
        wait_for(lambda: any(pool["level"] == "OVER_90" for pool in engine.rpc("pool_get_pools")["pools"]), pause=0.5)
        self.ask_storage("POOL_DESTROY", pool="full", force=True)

    @staticmethod
    def take_snapshot(engine):
        """Take snapshots under writes, until a write has waited for one."""
        done = threading.Event()

        def write():
            while not done.is_set():
                engine.perf("--quiet", "--count", 4000, "--nsid", SNAPSHOT_NSID, "--rw", "write", "--depth", 32)
        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(1000):
                engine.rpc("volume_snapshot", pool="p1", volume="b", snapshot="s")
                engine.rpc("snapshot_destroy", pool="p1", volume="b", snapshot="s")
                rows = map(json.loads, run(FATHOM, "trace", "stages", "--json", "-p", engine.pid).stdout.splitlines())
                if any((row.get("object_type"), row.get("stage")) == ("bdev_io", "HELD") for row in rows):
                    return
        finally:
            done.set()
            writer.join()

    @staticmethod
    def move_poll_group(engine):
        """Move a poll group to the other CPU and back."""
        group = next(thread for thread in engine.rpc("thread_get_stats")["threads"] if "poll_group" in thread["name"])
        for mask in ({"1": "2", "2": "1"}[group["cpumask"].removeprefix("0x")], group["cpumask"]):
            engine.rpc("thread_set_cpumask", id=group["id"], cpumask=mask)
            time.sleep(0.2)

    def break_protocol(self, engine):
        """Connect hosts that break the protocol."""
        for kind in (0x20, 2):          # an unknown PDU type; a TermReq of the host
            with hostile.Host(engine).s as one:
                one.sendall(struct.pack("<BBBBI", kind, 0, 24, 0, 24) + bytes(16))
                one.settimeout(10)
                while one.recv(4096):
                    pass
        stranger = hostile.Host(engine)
        self.assertNotEqual(stranger.connect(subsystem=b"nqn.2026-11.org.fathom:nobody")[1], 0)
        # data with a wrong digest
        admin = hostile.Host(engine)
        cntlid = admin.connect()[0]
        admin.enable()
        wrong = hostile.Host(engine, greet=False)
        wrong.s.sendall(struct.pack("<BBBBIHBBI112x", 0, 0, 128, 0, 128, 0, 0, 2, 0))
        wrong.pdu()
        data = hostile.connect_data(HOST.encode(), cntlid & 0xffff, NQN.encode())
        wrong.s.sendall(struct.pack("<BBBBI", 4, 2, 72, 72, 72 + len(data) + 4) + hostile.connect(1) + data + b"\0\0\0\0")
        wrong.response()
        # a host that does not receive its data and leaves while they are sent
        slow_admin = hostile.Host(engine)
        cntlid = slow_admin.connect()[0]
        slow_admin.enable()
        slow = hostile.Host(engine, receive_bytes=4096)
        self.assertEqual(slow.connect(1, cntlid & 0xffff)[1], 0)
        for cid in range(100):
            slow.s.sendall(hostile.capsule(hostile.read(cid, hostile.LARGE)))
        self.wait_until(lambda: any(row.get("stage") == "SENDING" for row in engine.operations_under_way("--older-than", "300ms")))
        # more ranges than Identify says are processed
        ranges = b"".join(struct.pack("<IIQ", 0, 8, 8 * i) for i in range(256))
        slow2 = hostile.Host(engine)
        self.assertEqual(slow2.connect(2, cntlid & 0xffff)[1], 0)
        slow2.s.sendall(hostile.capsule(struct.pack("<BBHI16x", DSM, 0x40, 1, 1) + hostile.sgl_in_capsule(len(ranges)) +
                                        struct.pack("<II16x", 255, 4), ranges))
        slow2.response()
        for cid in (2, 3):
            slow2.s.sendall(hostile.capsule(struct.pack("<BBHI16x", WRITE, 0x40, cid, 1) + hostile.sgl_transport(65536) +
                                            struct.pack("<QI12x", 0, 127)))
            r2t = slow2.pdu()
            if cid == 2:                 # the data of the second are never sent
                time.sleep(0.01)
                slow2.s.sendall(hostile.h2c_data(r2t, bytes(65536)))
                slow2.response()
        for one in (slow, slow2, slow_admin, wrong, admin, stranger):
            one.s.close()

    def exceed_keep_alive(self, engine):
        """Connect a host that waits for an event, then exceeds its keep-alive timeout."""
        host = hostile.Host(engine)
        sqe = hostile.connect(0)[:48] + struct.pack("<I12x", 2000)      # keep-alive, ms
        host.s.sendall(hostile.capsule(sqe, hostile.connect_data(HOST.encode(), 0xffff, NQN.encode())))
        self.assertEqual(host.response()[1], 0)
        host.enable()
        host.s.sendall(hostile.capsule(struct.pack("<BBHI32xII16x", 0x09, 0x40, 8, 0, 0x0b, 0x100)))   # events of changed namespaces
        self.assertEqual(host.response()[1], 0)
        host.s.sendall(hostile.capsule(struct.pack("<BBHI", 0x0c, 0x40, 9, 0).ljust(64, b"\0")))
        engine.run_commands(f"nvmf_subsystem_add_ns {NQN} M3\nnvmf_subsystem_remove_ns {NQN} 4\n")
        host.response()
        try:
            while host.s.recv(4096):
                pass
        except OSError:
            pass
        host.s.close()

    # ---- a device that hangs: started first, since its timeouts are long ----

    @staticmethod
    def queue_depth(engine, device):
        return engine.rpc("bdev_get_iostat", names=[device])["bdevs"][0]["queue_depth"]

    def wait_until(self, condition):
        deadline = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)

    def connect_to_held(self, engine):
        """Connect a host to the subsystem whose device holds reads: (admin queue, [I/O queues])."""
        admin = hostile.Host(engine)
        cntlid = admin.connect(subsystem=HELD_NQN.encode())[0]
        admin.enable()
        queues = [hostile.Host(engine) for _ in range(HELD_QUEUES)]
        for qid, queue in enumerate(queues, 1):
            self.assertEqual(queue.connect(qid, cntlid & 0xffff, subsystem=HELD_NQN.encode())[1], 0)
        return admin, queues

    def hold_reads(self, engine):
        """Let the device hold the reads of a host that leaves. Returns another host, which never enables its controller."""
        engine.run_commands(f"""bdev_uring_create {self.file.path} F0 512
nvmf_create_subsystem {HELD_NQN} -a -s SPDK00000000000002 -m 8
nvmf_subsystem_add_ns {HELD_NQN} F0
nvmf_subsystem_add_listener {HELD_NQN} -t tcp -a 127.0.0.1 -s {engine.port}
""")
        self.remove_held_namespace(engine)
        silent = hostile.Host(engine)
        self.assertEqual(silent.connect(subsystem=HELD_NQN.encode())[1], 0)
        self.file.hang()
        admin, queues = self.connect_to_held(engine)
        for queue in queues:
            queue.s.sendall(b"".join(hostile.capsule(hostile.read(cid, 512)) for cid in range(HELD_READS)))
        self.wait_until(lambda: self.queue_depth(engine, "F0") == HELD_QUEUES * HELD_READS)
        for host in (admin, *queues):
            host.s.close()
        return silent

    def remove_held_namespace(self, engine):
        """Remove the namespace while its device holds a read of a connected host."""
        self.file.hang()
        admin, queues = self.connect_to_held(engine)
        queues[0].s.sendall(hostile.capsule(hostile.read(1, 512)))
        self.wait_until(lambda: self.queue_depth(engine, "F0") == 1)
        engine.rpc("nvmf_subsystem_remove_ns", nqn=HELD_NQN, nsid=1, drain_timeout_ms=100)
        self.assertEqual(queues[0].response()[1], INTERNAL_ERROR)
        self.file.release()
        self.wait_until(lambda: self.queue_depth(engine, "F0") == 0)
        for host in (admin, *queues):
            host.s.close()
        engine.run_commands(f"nvmf_subsystem_add_ns {HELD_NQN} F0\n")

    def release_reads(self, engine, silent):
        """New reads are refused while the device holds those of the host that left. Release these and wait until reads succeed."""
        admin, queues = self.connect_to_held(engine)

        def refused(queue):
            queue.s.sendall(hostile.capsule(hostile.read(1, 512)))
            pdu = queue.pdu()
            while pdu[0] != hostile.RESPONSE:       # data come before the response
                pdu = queue.pdu()
            return struct.unpack("<H", pdu[22:24])[0] >> 1 & 0x7ff == NOT_READY
        self.wait_until(lambda: any([refused(queue) for queue in queues]))
        self.file.release()
        self.wait_until(lambda: self.queue_depth(engine, "F0") == 0 and not any([refused(queue) for queue in queues]))
        silent.s.settimeout(60)
        self.assertEqual(silent.s.recv(1), b"")
        for host in (admin, *queues, silent):
            host.s.close()
        engine.run_commands(f"nvmf_delete_subsystem {HELD_NQN}\n")

    def fail_a_must(self):
        """Start an engine that refuses a connection; then gdb falsifies a counter of it, and a must() fails."""
        engine = self.engine(program=self.program)
        engine.run_commands(f"""nvmf_create_transport -t tcp --max-connections-per-address 1
nvmf_create_subsystem {NQN} -a -s SPDK00000000000001
nvmf_subsystem_add_listener {NQN} -t tcp -a 127.0.0.1 -s {engine.port}
""")
        admitted, refused = (hostile.Host(engine, greet=False).s for _ in range(2))
        self.assertEqual(refused.recv(1), b"")
        admitted.close()
        run("gdb", "-q", "-batch", "-nx", "-p", engine.pid, "-ex", "set variable nvmf_tgt.groups[0]->current_admin_qpairs = 7")
        with self.assertRaises(OSError):
            engine.rpc("nvmf_get_stats")
        self.assertEqual(engine.process.wait(60), -signal.SIGABRT)

    @staticmethod
    def overwritten(engine):
        """The names of threads whose I/O ring was too small: those without I/O have small ones, and a slow run makes more records."""
        rows = [json.loads(line) for line in run(FATHOM, "trace", "threads", "--json", "-f", engine.trace_path).stdout.splitlines()]
        return {row["name"] for row in rows if row.get("recorded_io", 0) > row.get("room_io", 0)}

    @staticmethod
    def threads(engine):
        """{name of a thread in the trace: its tid} of a running engine."""
        rows = [json.loads(line) for line in run(FATHOM, "trace", "threads", "--json", "-p", engine.pid).stdout.splitlines()]
        return {row["name"]: row["tid"] for row in rows if "tid" in row}

    def test_every_probe_fires_with_the_arguments_that_the_trace_has(self):
        self.attach()
        storage = os.path.join(self.directory, "storage")
        os.mkdir(storage)
        self.metrics = free_port()
        self.has_reflinks = xfs.mount(self, storage)
        engine = self.engine("-m", "3", "--num-trace-entries", "1048576", "--history", "1", "--socket-dir", self.directory, "--listen", "127.0.0.1:0",
                             "--storage", storage, "--state", os.path.join(self.directory, "state.json"), "--metrics", f"127.0.0.1:{self.metrics}",
                             program=self.program)
        loaded_at = int(pathlib.Path(f"/proc/{engine.pid}/maps").read_text().split("-")[0], 16)
        self.run_session(engine)
        tids = self.threads(engine)
        engine.stop()
        shown = events.from_trace(run(FATHOM, "trace", "show", "--json", "-f", engine.trace_path).stdout, tids)
        self.fail_a_must()
        self.end_tracer()
        self.assertNotIn("Lost", self.text(self.messages))
        seen = events.from_bpftrace(self.model, self.text(self.seen), loaded_at)
        self.assertEqual(set(self.model.points) - {event.name for event in seen} - (set() if self.file else HELD)
                         - (set() if self.has_reflinks else SNAPSHOTS) - (set() if self.has_points else {"inject_fired"}), set(), "did not fire")
        small = {tids[name] for name in self.overwritten(engine) & set(tids)}
        self.check_same(events.without_overwritten(self.model, [event for event in seen if event.thread in tids.values()], shown, small), shown)
        last = {event.name: event.args for event in seen}
        self.assertEqual(last["process_signal"][0], signal.SIGABRT)
        self.assertIn("current_admin_qpairs", last["must_failed"][0])


if __name__ == "__main__":
    unittest.main()
