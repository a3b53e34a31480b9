# SPDX-License-Identifier: BSD-2-Clause
"""
fathom-server with real engines on folders: formatted, joined, stopped, started, killed and adopted, over gRPC as operators and other
servers call it. Everything runs as the user of the test: confined (test/system/confined.py) that is an ordinary user.
"""

import concurrent.futures
import contextlib
import ctypes
import errno
import fcntl
import glob
import io
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import tarfile
import threading
import time
import unittest

from harness import BIN, FATHOM, TOP, free_port, run
from test_helper import NOBODY, NO_LOOP, attach, detach
from server_rig import RANK_NONE, SERVER, Refused, ServerTest, is_alive, read

SIOCGIFADDR = 0x8915    # <linux/sockios.h>


def unpack_zstd(data):
    zstd = ctypes.CDLL("libzstd.so.1")
    zstd.ZSTD_getFrameContentSize.restype = ctypes.c_ulonglong
    zstd.ZSTD_decompress.restype = ctypes.c_size_t
    room = zstd.ZSTD_getFrameContentSize(data, ctypes.c_size_t(len(data)))
    plain = ctypes.create_string_buffer(room)
    count = zstd.ZSTD_decompress(plain, ctypes.c_size_t(room), data, ctypes.c_size_t(len(data)))
    return plain.raw[:count]


def has_address(interface):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            fcntl.ioctl(any_socket, SIOCGIFADDR, struct.pack("256s", interface.encode()))
        except OSError:
            pass
        else:
            return True
    return any(line.split()[-1] == interface for line in read("/proc/net/if_inet6").splitlines())


class Living(ServerTest):
    def test_it_says_that_it_is_ready_and_leaves_on_sigterm(self):
        server = self.server(engines=0).start()
        self.assertRegex(server.log(), r"NOTICE: ready after \d+ ms: system daos_server at 127\.0\.0\.1")
        self.assertEqual(server.engines(), [])
        self.assertEqual(server.stop(), 0)
        self.assertFalse(os.path.exists(os.path.join(server.socket_dir, "fathom_server.sock")))
        above, own = (os.stat(path).st_mode & 0o777 for path in (os.path.dirname(server.socket_dir), server.socket_dir))
        self.assertEqual((above, own), (0o755, 0o750))     # /run/fathom has another daemon's socket, for anybody
        server.start()
        self.assertEqual(server.stop(), 0)

    def test_a_second_one_is_refused(self):
        server = self.server(engines=0).start()
        status = subprocess.run([SERVER, "-o", server.config_path, "--name", server.trace_name], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, timeout=20)
        self.assertEqual(status.returncode, 1)
        self.assertRegex(status.stdout, r"code = (1051|685|6) ")
        self.assertEqual(server.engines(), [])

    def test_a_port_that_is_taken_is_told(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            server = self.server(engines=0)
            text = read(server.config_path).replace(f"port: {server.port}", f"port: {taken.getsockname()[1]}")
            with open(server.config_path, "w") as f:
                f.write(text)
            self.assertEqual(server.start(ready=False), 1)
            first, second = [line for line in server.log().splitlines() if "code = " in line]
            name = read("/proc/self/comm").strip()
            self.assertIn(f'general: code = 53 description = "127.0.0.1:{taken.getsockname()[1]} cannot be listened on: process {os.getpid()} ({name}) '
                          'listens there"', first)
            self.assertIn('general: code = 53 resolution = "stop that process', second)

    def test_a_port_that_is_taken_for_a_moment_is_waited_for(self):
        """A client's end of a connection has the port. The server reports that, and does not call it a listener."""
        server = self.server(engines=0)
        with socket.socket() as listener, socket.socket() as client:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            client.bind(("127.0.0.1", server.port))
            client.connect(listener.getsockname())
            # closed with a reset: so nothing stays in TIME_WAIT
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            said = f"127.0.0.1:{server.port} cannot be listened on: process {os.getpid()} ({read('/proc/self/comm').strip()}) has a connection from there"

            def end_soon():
                deadline = time.monotonic() + 20
                while said not in server.log() and time.monotonic() < deadline:
                    time.sleep(0.02)
                client.close()

            thread = threading.Thread(target=end_soon)
            thread.start()
            server.start()
            thread.join()
        self.assertIn(f"NOTICE: {said} to another's port", server.log())
        self.assertEqual(server.engines(), [])

    def test_an_engine_whose_port_is_taken_says_so(self):
        """Its own words, which have address, port and reason: in the state of the engine, in the event, and for all who started it."""
        server = self.server()
        port = server.engine_ports[0]
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", port))
            taken.listen()
            server.start()
            server.wait(lambda engines: engines[0].state == "await_format")
            server.format()
            engine = server.wait(lambda engines: engines[0].state == "errored" and engines[0].last_end)[0]
            end = f"exit status 1: cannot listen on 127.0.0.1 port {port}: Address already in use"
            self.assertEqual(engine.last_end, end)
            self.assertIn(f"fathom-engine 0 exited: {end}; ", engine.info)
            self.assertIn(f"fathom-engine 0 exited unexpectedly: {end}", server.log())
        server.joined()     # the restart policy starts it, and the port is free

    def test_an_engine_with_a_wrong_option_says_so(self):
        server = self.server(engine_keys="  arguments: [--num-trace-entries, '5']\n").start()
        server.wait(lambda engines: engines[0].state == "await_format")
        server.format()
        engine = server.wait(lambda engines: engines[0].state == "errored" and engines[0].last_end)[0]
        self.assertIn("--num-trace-entries 5: not 0 and not a power of two", engine.last_end)

    def test_a_socket_that_somebody_has_is_left_to_it(self):
        server = self.server(engines=0)
        os.makedirs(server.socket_dir)
        path = os.path.join(server.socket_dir, "fathom_server.sock")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as taken:
            taken.bind(path)
            taken.listen()
            self.assertEqual(server.start(ready=False), 1)
            self.assertIn(f'general: code = 6 description = "the socket {path} is already in use', server.log())
            self.assertTrue(os.path.exists(path))

    def test_a_folder_is_formatted_and_its_engine_joins(self):
        server = self.server().start()
        before = server.wait(lambda engines: engines[0].state == "await_format")[0]
        self.assertEqual((before.pid, before.rank), (0, RANK_NONE))
        answer = server.format()
        self.assertEqual(answer.mrets[0].mntpoint, server.mount(0))
        self.assertEqual((answer.mrets[0].state.status, answer.mrets[0].state.error), (0, ""))
        engine = server.joined()[0]
        self.assertEqual((engine.rank, engine.adopted, engine.starts), (0, False, 1))
        self.assertEqual(engine.uri, f"nvme+tcp://127.0.0.1:{server.engine_ports[0]}")
        self.assertTrue(is_alive(engine.pid))
        member = server.wait_members("joined")[0]
        self.assertEqual((member.rank, member.uuid, member.addr, member.incarnation), (0, engine.uuid, server.address, engine.incarnation))
        self.assertEqual(os.path.getsize(os.path.join(server.mount(0), "data.img")), 64 << 20)
        self.assertIn("rank: 0", read(os.path.join(server.mount(0), "superblock")))

    def test_what_is_formatted_is_not_formatted_again(self):
        server = self.server().start()
        server.format()
        server.joined()
        state = server.format().mrets[0].state
        self.assertNotEqual(state.status, 0)
        self.assertIn("code = ", state.error)
        self.assertNotEqual(state.info, "")

    def test_three_engines_have_three_ranks(self):
        server = self.server(engines=3).start()
        server.format()
        self.assertEqual(sorted(engine.rank for engine in server.joined()), [0, 1, 2])
        self.assertEqual([engine.rank for engine in server.engines() if engine.index == 0], [0])
        self.assertEqual(len(server.wait_members("joined")), 3)


class Outliving(ServerTest):
    """Engines and their servers."""

    def joined_server(self, **kwargs):
        server = self.server(**kwargs).start()
        server.format()
        server.joined()
        return server

    def adopted(self, server, before):
        after = server.joined()
        self.assertEqual([(engine.pid, engine.rank, engine.incarnation) for engine in after],
                         [(engine.pid, engine.rank, engine.incarnation) for engine in before])
        self.assertTrue(all(engine.adopted and engine.starts == 0 for engine in after), after)
        return after

    def test_an_engine_lives_through_the_orderly_end_of_its_server(self):
        server = self.joined_server(engines=2)
        before = server.engines()
        self.assertEqual(server.stop(), 0)
        self.assertTrue(all(is_alive(engine.pid) for engine in before))
        server.start()
        self.adopted(server, before)

    def test_formatting_that_waits_for_an_engine_ends_with_the_server(self):
        server = self.joined_server()
        pid = server.engines()[0].pid
        server.stop()
        os.kill(pid, signal.SIGSTOP)     # the next one waits to hear who it is
        try:
            server.start()
            server.wait(lambda engines: engines[0].state == "adopting")
            with concurrent.futures.ThreadPoolExecutor() as pool:
                asked = pool.submit(server.format)
                time.sleep(0.3)          # it is there
                server.process.send_signal(signal.SIGTERM)
                with self.assertRaises(Refused) as refused:
                    asked.result(20)
            self.assertEqual(refused.exception.fault.get("Code"), "610")
            self.assertEqual(server.process.wait(20), 0)
        finally:
            os.kill(pid, signal.SIGCONT)
            server.close_channel()

    def test_an_engine_lives_through_kill_9_of_its_server(self):
        server = self.joined_server()
        before = server.engines()
        for _ in range(5):
            server.kill()
            self.assertTrue(is_alive(before[0].pid))
            server.start()
            self.adopted(server, before)
        self.assertEqual([member.state for member in server.members()], ["joined"])

    def test_one_that_dies_without_a_server_is_started_by_the_next(self):
        server = self.joined_server()
        before = server.engines()[0]
        server.kill()
        os.kill(before.pid, signal.SIGKILL)
        server.start()
        after = server.joined()[0]
        self.assertNotEqual(after.pid, before.pid)
        self.assertEqual((after.rank, after.uuid), (before.rank, before.uuid))
        deadline = time.monotonic() + 30
        while not self.died(server) and time.monotonic() < deadline:
            time.sleep(0.02)
        for _ in range(2):
            self.assertEqual(self.died(server), [(before.rank, before.incarnation)])
            server.kill()
            server.start()
            server.joined()

    def died(self, server):
        events = server.call("/fathom.ControlSvc/SystemEvents", self.messages.fathom.SystemEventsReq()).events
        return [(event.event.rank, event.event.incarnation) for event in events if event.event.id == 2]

    def test_one_that_dies_after_it_was_told_to_stop_is_not_said_to_have_died(self):
        server = self.joined_server()
        before = server.engines()[0]
        os.kill(before.pid, signal.SIGSTOP)
        with self.assertRaises(Refused):  # it hangs, so the server waits
            server.call("/ctl.CtlSvc/StopRanks", self.messages.ctl.RanksReq(), role="server", timeout=0.5)
        server.wait(lambda engines: engines[0].state == "stopping")
        server.kill()
        os.kill(before.pid, signal.SIGKILL)
        server.start()
        server.joined()
        self.assertEqual(self.died(server), [])

    def test_one_that_cannot_be_started_again_is_no_member_that_serves(self):
        server = self.joined_server(engines=2)
        before = server.engines()
        server.kill()
        os.kill(before[0].pid, signal.SIGKILL)
        os.kill(before[1].pid, signal.SIGKILL)
        with open(os.path.join(server.mount(0), "superblock"), "w") as f:
            f.write("nothing")
        os.rename(os.path.join(server.mount(1), "data.img"), os.path.join(server.directory, "data.img"))
        server.start()
        deadline = time.monotonic() + 20
        while any(member.state == "joined" for member in server.members()) and time.monotonic() < deadline:
            time.sleep(0.02)
        states = {member.rank: (member.state, member.info) for member in server.members()}
        self.assertEqual(states[before[0].rank][0], "errored")
        self.assertRegex(states[before[0].rank][1], "superblock|exited")     # whichever is reported first
        self.assertIn("superblock", server.wait(lambda engines: engines[0].state == "errored")[0].info)
        self.assertIn(states[before[1].rank][0], ("awaitformat", "errored"))

    def test_one_that_is_killed_is_restarted_and_the_event_arrives(self):
        server = self.joined_server(keys="engine_restart: {killed: {delay_min: 50ms, delay_max: 100ms}}\n")
        before = server.engines()[0]
        os.kill(before.pid, signal.SIGKILL)
        after = server.wait(lambda engines: engines[0].state == "joined" and engines[0].pid != before.pid)[0]
        self.assertEqual((after.rank, after.uuid, after.starts), (before.rank, before.uuid, 2))
        self.assertIn("signal 9", after.last_end)
        events = server.call("/fathom.ControlSvc/SystemEvents", self.messages.fathom.SystemEventsReq(wait_ms=5000)).events
        died = [event.event for event in events if event.event.id == 2]
        self.assertEqual([(event.rank, event.incarnation) for event in died], [(before.rank, before.incarnation)])
        self.assertEqual([event.number for event in events], list(range(1, len(events) + 1)))

    def test_one_that_is_killed_stays_down_where_restarts_are_off(self):
        server = self.joined_server(keys="disable_engine_auto_restart: true\n")
        before = server.engines()[0]
        os.kill(before.pid, signal.SIGKILL)
        after = server.wait(lambda engines: engines[0].state == "errored")[0]
        self.assertEqual((after.pid, after.restart_in_ms), (0, 0))
        self.assertEqual([member.state for member in server.wait_members("errored")], ["errored"])
        self.assertRegex(server.log(), r'ERROR: engine 0: server: code = 660 description = ".*signal 9.*"\n'
                                       r'.*ERROR: engine 0: server: code = 660 resolution = "read \S+engine0.log')


class Ranks(ServerTest):
    def ranks(self, server, method, role="server", **fields):
        answer = server.call("/ctl.CtlSvc/" + method, self.messages.ctl.RanksReq(**fields), role=role, timeout=60)
        return [(row.rank, row.action, row.state, row.errored) for row in answer.results]

    def test_ranks_are_stopped_and_started(self):
        server = self.server(engines=2).start()
        server.format()
        before = server.joined()
        self.assertEqual(self.ranks(server, "PrepShutdownRanks", ranks="1"), [(1, "prep shutdown", "stopping", False)])
        self.assertEqual(self.ranks(server, "StopRanks", ranks="1"), [(1, "stop", "stopped", False)])
        stopped = {engine.rank: engine for engine in server.engines()}[1]
        self.assertEqual((stopped.state, stopped.pid), ("stopped", 0))
        self.assertEqual([engine.state for engine in server.engines() if engine.rank == 0], ["joined"])
        self.assertEqual(self.ranks(server, "StartRanks", ranks="1"), [(1, "start", "ready", False)])
        after = server.joined()
        self.assertEqual([engine.rank for engine in after], [engine.rank for engine in before])
        self.assertEqual(self.ranks(server, "StopRanks", ranks="7"), [])

    def test_all_ranks_are_meant_where_none_is_named(self):
        server = self.server(engines=2).start()
        server.format()
        server.joined()
        self.assertEqual(sorted(self.ranks(server, "StopRanks", force=True)),
                         [(0, "stop", "stopped", False), (1, "stop", "stopped", False)])

    def test_a_system_is_stopped_and_started(self):
        server = self.server(engines=2).start()
        server.format()
        server.joined()
        server.wait_members("joined")
        mgmt = self.messages.mgmt
        stopped = server.call("/mgmt.MgmtSvc/SystemStop", mgmt.SystemStopReq(prep=True, kill=True), timeout=60).results
        self.assertEqual(sorted((row.rank, row.state) for row in stopped), [(0, "stopped"), (1, "stopped")])
        server.wait_members("stopped")
        started = server.call("/mgmt.MgmtSvc/SystemStart", mgmt.SystemStartReq(), timeout=60).results
        self.assertEqual(sorted((row.rank, row.errored) for row in started), [(0, False), (1, False)])
        server.wait_members("joined")

    def test_a_rank_that_serves_and_is_thought_dead_joins_again(self):
        server = self.server(engines=2).start()
        server.format()
        before = server.joined()
        server.wait_members("joined")
        shared, mgmt = self.messages.shared, self.messages.mgmt
        member = [member for member in server.members() if member.rank == 1][0]
        event = shared.RASEvent(id=2, msg="it is reported dead", timestamp="2026-11-22T12:00:00.000000+00:00", type=1, severity=1,
                                hostname="elsewhere", rank=1, incarnation=member.incarnation)
        server.call("/mgmt.MgmtSvc/ClusterEvent", shared.ClusterEventReq(sequence=1, event=event), role="server")
        self.assertEqual({member.rank: member.state for member in server.members()}, {0: "joined", 1: "errored"})
        started = server.call("/mgmt.MgmtSvc/SystemStart", mgmt.SystemStartReq(), timeout=60).results
        self.assertEqual([row.errored for row in started], [False, False])
        self.assertEqual({member.rank: member.state for member in server.members()}, {0: "joined", 1: "joined"})
        self.assertEqual([(engine.pid, engine.incarnation) for engine in server.engines()],
                         [(engine.pid, engine.incarnation) for engine in before])

    def test_a_rank_that_was_prepared_to_stop_serves_when_it_is_started(self):
        server = self.server(engines=2, keys="server_heartbeat: 1s\n").start()
        server.format()
        before = {engine.rank: engine for engine in server.joined()}
        server.wait_members("joined")
        self.assertEqual(self.ranks(server, "PrepShutdownRanks", ranks="1"), [(1, "prep shutdown", "stopping", False)])
        deadline = time.monotonic() + 20
        while {member.rank: member.state for member in server.members()} != {0: "joined", 1: "stopping"}:  # the server reports it
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        started = server.call("/mgmt.MgmtSvc/SystemStart", self.messages.mgmt.SystemStartReq(), timeout=60).results
        self.assertEqual([row.errored for row in started], [False, False])
        after = {engine.rank: engine for engine in server.joined()}
        self.assertEqual(after[0].pid, before[0].pid)
        self.assertNotEqual(after[1].pid, before[1].pid)
        server.wait_members("joined")
        with socket.create_connection(("127.0.0.1", server.engine_ports[1]), 5) as host:  # who asks is let in
            host.settimeout(5)
            host.sendall(bytes([0, 0, 128, 0, 128, 0, 0, 0]) + bytes(120))  # ICReq
            self.assertEqual(host.recv(1), b"\x01")  # ICResp

    def test_a_system_is_erased_and_formatted_anew(self):
        server = self.server(engines=2).start()
        server.format()
        before = {engine.uuid for engine in server.joined()}
        server.wait_members("joined")
        mgmt = self.messages.mgmt
        server.call("/mgmt.MgmtSvc/SystemStop", mgmt.SystemStopReq(prep=True, kill=True), timeout=60)
        rows = server.call("/mgmt.MgmtSvc/SystemErase", mgmt.SystemEraseReq(), timeout=60).results
        self.assertEqual([row.msg for row in rows if row.errored], [])
        self.assertFalse(os.path.exists(os.path.join(server.mount(0), "superblock")))
        self.assertEqual([engine.state for engine in server.engines()], ["await_format", "await_format"])
        server.stop()
        server.start()  # no engine is there to rejoin
        server.wait(lambda engines: all(engine.state == "await_format" for engine in engines))
        answer = server.format()
        self.assertEqual([row.state.error for row in answer.mrets], ["", ""])
        after = {engine.uuid for engine in server.joined()}
        self.assertEqual((len(after), after & before), (2, set()))
        ranks = {member.rank for member in server.wait_members("joined")}
        self.assertEqual((len(ranks), min(ranks)), (2, 0))  # the host's first engine has rank 0 again

    def test_a_set_of_ranks_that_is_none_is_refused(self):
        server = self.server(engines=0).start()
        with self.assertRaises(Refused) as refused:
            self.ranks(server, "StopRanks", ranks="1-")
        self.assertEqual(refused.exception.fault.get("Code"), "550")

    def test_the_engines_of_a_host_are_stopped_by_the_command(self):
        server = self.server(engines=2).start()
        server.format()
        engines = server.joined()
        done = run(SERVER, "stop-engines", "-o", server.config_path)
        self.assertEqual(sorted(done.stdout.splitlines()), [f"engine {engine.index} (rank {engine.rank}): stopped" for engine in engines])
        self.assertFalse(any(is_alive(engine.pid) for engine in engines))
        self.assertEqual([engine.state for engine in server.engines()], ["stopped", "stopped"])
        server.wait_members("stopped")
        server.call("/ctl.CtlSvc/ResetFormatRanks", self.messages.ctl.RanksReq(), role="server", timeout=60)
        server.wait(lambda engines: all(engine.rank == RANK_NONE for engine in engines))
        self.assertEqual(sorted(run(SERVER, "stop-engines", "-o", server.config_path).stdout.splitlines()),
                         ["engine 0: stopped", "engine 1: stopped"])     # that have no rank
        server.stop()
        self.assertIn("code = 506", run(SERVER, "stop-engines", "-o", server.config_path, check=False).stderr)


class Keeping(ServerTest):
    """The database, and what becomes of a host that has lost it."""

    def map_version(self, path):
        with contextlib.closing(sqlite3.connect(path)) as database:
            return json.loads(database.execute("SELECT value FROM kv WHERE key = 'system/versions'").fetchone()[0])["map_version"]

    def copies(self, server):
        return sorted(glob.glob(server.database + ".copy-*"))

    def test_copies_are_kept_for_some_days_and_for_each_system(self):
        server = self.server(keys="database_copy_after: 100ms\n").start()
        server.format()
        server.joined()
        deadline = time.monotonic() + 20
        while (not self.copies(server) or self.copies(server)[0].count(".copy-") > 1) and time.monotonic() < deadline:
            time.sleep(0.02)
        ours = self.copies(server)[0]
        self.assertRegex(ours, r"/system\.db\.copy-[0-9a-f-]{36}-\d{4}-\d\d-\d\d$")
        beside, others = ours[:-10], ours[:-47] + "11111111-1111-4111-8111-111111111111-2001-01-01"
        old = [f"{beside}2001-01-{day:02}" for day in range(1, 10)]
        for path in (*old, others, old[0] + ".copy-abcdef"):
            with open(path, "w") as f:
                f.write("old")
        server.call("/mgmt.MgmtSvc/SystemSetAttr", self.messages.mgmt.SystemSetAttrReq(attributes={"a": "b"}))
        server.stop()
        self.assertEqual(self.copies(server), sorted([others, *old[3:], ours]))
        # what is put back goes on behind all maps that engines may have had since
        run(SERVER, "restore", "-o", server.config_path, "--from", ours, "--force")
        self.assertEqual(self.map_version(server.database), self.map_version(ours) + 65536)
        server.start()
        server.joined()
        self.assertEqual(len(server.wait_members("joined")), 1)

    def test_a_lost_database_is_no_new_system_in_silence(self):
        server = self.server().start()
        server.format()
        before = server.joined()[0]
        server.stop()
        copy = os.path.join(server.directory, "copy.db")
        self.assertIn(copy, run(SERVER, "backup", "-o", server.config_path, copy).stdout)
        for suffix in ("", "-wal", "-shm"):
            if os.path.exists(server.database + suffix):
                os.unlink(server.database + suffix)
        self.assertEqual(server.start(ready=False), 1)
        self.assertIn("code = 690 ", server.log())
        self.assertIn("fathom-server restore --from", server.log())
        self.assertFalse(os.path.exists(server.database))
        self.assertTrue(is_alive(before.pid))
        self.assertIn(server.database + ".copy", server.log())
        kept = os.path.join(self.directory, "kept.db")
        os.rename(self.copies(server)[0], kept)
        for source in (kept, copy):
            run(SERVER, "restore", "-o", server.config_path, "--from", source, *(["--force"] if source == copy else []))
        server.start()
        after = server.joined()[0]
        self.assertEqual((after.pid, after.rank), (before.pid, before.rank))
        self.assertEqual([member.uuid for member in server.members()], [before.uuid])

    def test_an_empty_database_takes_nobody_who_has_a_rank(self):
        server = self.server().start()
        server.format()
        server.joined()
        server.stop()
        os.unlink(server.database)
        self.assertEqual(server.start(ready=False), 1)
        open(server.database, "w").close()  # sqlite takes it as a new one
        server.start()
        refused = server.wait(lambda engines: f"has no members, but instance 0 of {server.address} has rank 0" in engines[0].info)[0]
        self.assertIn("--new-system", refused.info)
        self.assertIn("rank: server: code = 691 ", server.log())
        server.stop()
        server.start("--new-system")
        self.assertEqual(server.joined()[0].rank, 0)
        self.assertEqual(len(server.wait_members("joined")), 1)

    def test_the_log_of_a_database_that_is_lost_is_not_played_back_into_the_copy(self):
        server = self.server().start()
        server.format()
        server.joined()
        attributes = lambda: dict(server.call("/mgmt.MgmtSvc/SystemGetAttr", self.messages.mgmt.SystemGetAttrReq()).attributes)
        copy = os.path.join(server.directory, "copy.db")
        for owner in ("when it was copied", "later"):
            server.call("/mgmt.MgmtSvc/SystemSetAttr", self.messages.mgmt.SystemSetAttrReq(attributes={"owner": owner}))
            if not os.path.exists(copy):
                run(SERVER, "backup", "-o", server.config_path, copy)
        server.kill()
        os.unlink(server.database)
        self.assertTrue(os.path.getsize(server.database + "-wal"))
        run(SERVER, "restore", "-o", server.config_path, "--from", copy)
        self.assertTrue(os.path.getsize(server.database + ".before-1-wal"))
        server.start()
        server.joined()
        self.assertEqual(attributes(), {"owner": "when it was copied"})

    def test_an_empty_database_takes_nobody_of_another_host_either(self):
        """His engine, that serves or has just been started, waits; with the database that was restored it joins by itself."""
        first = self.server().start()
        second = self.server(keys=f"mgmt_svc_replicas: ['{first.address}']\n").start()
        for server in (first, second):
            server.format()
            server.joined()
        mgmt = self.messages.mgmt
        first.call("/mgmt.MgmtSvc/SystemSetAttr", mgmt.SystemSetAttrReq(attributes={"owner": "we"}))
        first.stop()
        copy = os.path.join(first.directory, "copy.db")
        run(SERVER, "backup", "-o", first.config_path, copy)
        for suffix in ("", "-wal", "-shm"):
            if os.path.exists(first.database + suffix):
                os.unlink(first.database + suffix)
        open(first.database, "w").close()
        first.start()
        second.stop()
        second.start()
        waits = f"has no members, but instance 0 of {second.address} has rank 1"
        adopted = second.wait(lambda engines: waits in engines[0].info)[0]
        os.kill(adopted.pid, signal.SIGKILL)
        new = second.wait(lambda engines: engines[0].pid not in (0, adopted.pid) and waits in engines[0].info)[0]
        self.assertEqual(second.log().count("rank: server: code = 691 "), 2)  # what, and what to do
        first.stop()
        run(SERVER, "restore", "-o", first.config_path, "--force", "--from", copy)
        first.start()
        self.assertEqual(first.joined()[0].rank, 0)
        again = second.joined()[0]
        self.assertEqual((again.pid, again.rank), (new.pid, 1))
        self.assertEqual(first.call("/mgmt.MgmtSvc/SystemGetAttr", mgmt.SystemGetAttrReq()).attributes["owner"], "we")

    def large(self):
        """A server whose database takes a while to be copied."""
        server = self.server().start()
        server.format()
        server.joined()
        server.stop()
        with contextlib.closing(sqlite3.connect(server.database)) as database, database:
            database.execute("CREATE TABLE large AS SELECT randomblob(32000000) AS data")
        server.start()
        server.joined()
        return server

    def backup(self, server, copy):
        """The command, when the server is at it."""
        command = subprocess.Popen([SERVER, "backup", "-o", server.config_path, copy], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(command.stdout.close)
        while not glob.glob(copy + ".copy-*") and command.poll() is None:
            time.sleep(0.001)
        return command

    def test_while_a_backup_is_made_the_server_serves(self):
        server, meanwhile = self.large(), 0
        copy = os.path.join(server.directory, "copy.db")
        while meanwhile < 10:
            command, done = self.backup(server, copy), 0
            while not os.path.exists(copy) and command.poll() is None:
                server.call("/mgmt.MgmtSvc/SystemSetAttr", self.messages.mgmt.SystemSetAttrReq(attributes={"done": str(done)}))
                done += not os.path.exists(copy)
            out, _ = command.communicate(timeout=60)
            self.assertEqual(command.returncode, 0, out)
            self.assertGreater(done, 0, "nothing was done meanwhile")
            meanwhile += done
            with contextlib.closing(sqlite3.connect(copy)) as database:
                self.assertEqual(database.execute("PRAGMA integrity_check").fetchone()[0], "ok")
                self.assertIn(f"up to revision {database.execute('SELECT value FROM meta').fetchone()[0]}\n", out)
            os.unlink(copy)

    def test_a_server_that_leaves_gives_a_backup_up(self):
        server = self.large()
        copy = os.path.join(server.directory, "copy.db")
        command = self.backup(server, copy)
        self.assertEqual(server.stop(), 0)
        out, _ = command.communicate(timeout=60)
        if command.returncode == 0:
            self.assertTrue(os.path.exists(copy))
            self.skipTest("it was over before")
        self.assertIn("the server leaves", out)
        self.assertEqual(glob.glob(copy + "*"), [])

    def test_nothing_is_restored_over_a_database_unasked(self):
        server = self.server(engines=0).start()
        self.assertIn("code = 1054 ", run(SERVER, "backup", "-o", server.config_path, "/dev/null/x", check=False).stderr)
        self.assertIn("the database itself", run(SERVER, "backup", "-o", server.config_path, server.database, check=False).stderr)
        live = run(SERVER, "backup", "-o", server.config_path, "live.db", cwd=server.directory).stdout
        self.assertRegex(live, r"^live\.db has all of .* up to revision \d+\n$")
        server.stop()
        run(SERVER, "restore", "-o", server.config_path, "--from", os.path.join(server.directory, "live.db"), "--force")
        copy = os.path.join(server.directory, "copy.db")
        run(SERVER, "backup", "-o", server.config_path, copy)
        self.assertIn("code = 1057 ", run(SERVER, "restore", "-o", server.config_path, "--from", copy, check=False).stderr)
        run(SERVER, "restore", "-o", server.config_path, "--from", copy, "--force")
        server.start()


@unittest.skipIf(os.geteuid() != 0, "a filesystem of a few KiB takes root")
class FullDisk(ServerTest):
    def test_events_of_a_full_disk_come_when_there_is_room(self):
        server = self.server(keys="engine_restart: {killed: {delay_min: 10ms, delay_max: 10ms}}\n")
        os.mkdir(server.state_dir)
        run("mount", "-t", "tmpfs", "-o", "size=4m", "none", server.state_dir)
        self.addCleanup(subprocess.run, ["umount", "-l", server.state_dir], check=False)
        server.start()
        server.format()
        server.joined()
        server.wait_members("joined")
        filler = os.path.join(server.state_dir, "filler")
        with open(filler, "wb", buffering=0) as f:
            try:
                while True:
                    f.write(b"x" * 4096)
            except OSError:
                pass
        killed = []
        while "events are kept in memory" not in server.log():  # the spool's last page has room for some
            self.assertLess(len(killed), 100)
            engine = server.wait(lambda engines: engines[0].pid and engines[0].incarnation not in (0, *killed))[0]
            killed.append(engine.incarnation)
            os.kill(engine.pid, signal.SIGKILL)
            server.wait(lambda engines: engines[0].pid != engine.pid)
        os.unlink(filler)
        server.joined()
        deadline = time.monotonic() + 30
        while len(self.died(server)) < len(killed) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(self.died(server), killed)

    def fill(self, server):
        filler = os.path.join(server.state_dir, "filler")
        with open(filler, "wb", buffering=0) as f:
            try:
                while True:
                    f.write(b"x" * 4096)
            except OSError:
                pass
        return filler

    def test_a_start_on_a_full_disk_says_so_at_once(self):
        server = self.server()
        os.mkdir(server.state_dir)
        run("mount", "-t", "tmpfs", "-o", "size=4m", "none", server.state_dir)
        self.addCleanup(subprocess.run, ["umount", "-l", server.state_dir], check=False)
        server.start()
        server.format()
        server.joined()
        server.wait_members("joined")
        mgmt = self.messages.mgmt
        server.call("/mgmt.MgmtSvc/SystemStop", mgmt.SystemStopReq(), timeout=60)
        server.wait_members("stopped")
        filler = self.fill(server)
        with self.assertRaises(Refused) as refused:
            server.call("/mgmt.MgmtSvc/SystemStart", mgmt.SystemStartReq(), timeout=150)
        fault = refused.exception.fault     # not DEADLINE_EXCEEDED
        self.assertEqual(fault.get("Code"), "1052")
        self.assertIn(server.database, fault["Description"])
        # nothing was begun: what is shown is so
        self.assertEqual([(member.rank, member.state) for member in server.members()], [(0, "stopped")])
        self.assertEqual([(engine.state, engine.pid) for engine in server.engines()], [("stopped", 0)])
        os.unlink(filler)
        server.call("/mgmt.MgmtSvc/SystemStart", mgmt.SystemStartReq(), timeout=60)
        server.joined()
        server.wait_members("joined")

    def died(self, server):
        answer = server.call("/fathom.ControlSvc/SystemEvents", self.messages.fathom.SystemEventsReq())
        return [event.event.incarnation for event in answer.events if event.event.id == 2]


class TwoHosts(ServerTest):
    """The management service on one server, engines on both; both on this machine."""

    def hosts(self, keys=""):
        fast = keys + "engine_restart: {killed: {delay_min: 20ms, delay_max: 40ms}}\n"
        first = self.server(keys=fast)
        second = self.server(keys=fast + f"mgmt_svc_replicas: ['{first.address}']\n")
        return first, second

    def events(self, server):
        answer = server.call("/fathom.ControlSvc/SystemEvents", self.messages.fathom.SystemEventsReq())
        return [event.event for event in answer.events]

    def test_who_comes_before_the_management_service_waits_for_it(self):
        first, second = self.hosts()
        second.start()
        second.format()
        second.wait(lambda engines: engines[0].state == "ready")
        self.assertEqual(second.engines()[0].rank, RANK_NONE)
        first.start()
        first.format()
        first.joined()
        self.assertEqual((first.engines()[0].rank, second.joined()[0].rank), (0, 1))
        self.assertEqual({(member.rank, member.addr) for member in first.wait_members("joined")},
                         {(0, first.address), (1, second.address)})

    def test_events_wait_on_disk_for_the_management_service(self):
        first, second = self.hosts()
        first.start()
        first.format()
        first.joined()
        second.start()
        second.format()
        before = second.joined()[0]
        first.kill()
        os.kill(before.pid, signal.SIGKILL)
        second.wait(lambda engines: engines[0].incarnation != before.incarnation and engines[0].state == "ready")
        second.kill()  # what was spooled is still there
        second.start()
        first.start()
        second.joined()
        deadline = time.monotonic() + 20
        while not [event for event in self.events(first) if event.id == 2] and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertEqual([(event.rank, event.incarnation) for event in self.events(first) if event.id == 2],
                         [(1, before.incarnation)])

    def refusals(self, server, count):
        """The events of refused joins, once there are so many, and none comes behind."""
        deadline = time.monotonic() + 20
        while len(found := [event for event in self.events(server) if event.id == 26]) < count and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.3)
        self.assertEqual(len([event for event in self.events(server) if event.id == 26]), count)
        return found

    def both_joined(self):
        first, second = self.hosts()
        for server in (first, second):
            server.start()
            server.format()
            server.joined()
        return first, second

    def test_one_that_serves_and_is_refused_is_one_event(self):
        first, second = self.both_joined()
        engine = second.engines()[0]
        second.kill()
        old, second.port = second.address, free_port()      # of another address its rank does not come back
        second.address = f"127.0.0.1:{second.port}"
        with open(second.config_path) as file:
            text = file.read()
        with open(second.config_path, "w") as file:
            file.write(text.replace(f"\nport: {old.split(':')[1]}\n", f"\nport: {second.port}\n"))
        second.start()
        second.wait(lambda engines: engines[0].state == "refused")
        event, = self.refusals(first, 1)
        self.assertEqual(event.msg, f"fathom-engine 0 serves on, but is refused: rank 1 comes from {second.address}, but its control address is {old}"[:127])
        self.assertEqual((event.rank, event.incarnation, event.proc_id), (1, engine.incarnation, engine.pid))
        self.assertTrue(is_alive(engine.pid))

    def test_one_that_was_excluded_while_its_server_was_dead_is_one_event(self):
        first, second = self.both_joined()
        engine = second.engines()[0]
        second.kill()
        first.call("/mgmt.MgmtSvc/SystemExclude", self.messages.mgmt.SystemExcludeReq(ranks="1"))
        second.start()
        second.wait(lambda engines: engines[0].pid == 0)
        event, = self.refusals(first, 1)
        self.assertRegex(event.msg, "^fathom-engine 0 is refused and ends: rank 1 .*excluded")
        self.assertEqual((event.rank, event.incarnation), (1, engine.incarnation))
        self.assertEqual([event.id for event in self.events(first) if event.id == 2], [])      # it did not die

    def test_one_that_starts_and_is_refused_is_one_event(self):
        first, second = self.both_joined()
        engine = second.engines()[0]
        first.call("/mgmt.MgmtSvc/SystemStop", self.messages.mgmt.SystemStopReq(prep=True, kill=True, ranks="1"), timeout=60)
        second.kill()
        first.call("/mgmt.MgmtSvc/SystemExclude", self.messages.mgmt.SystemExcludeReq(ranks="1"))
        second.start()      # which starts it
        event, = self.refusals(first, 1)
        self.assertRegex(event.msg, "^rank 1 .*excluded")
        self.assertEqual(event.rank, 1)
        self.assertFalse(is_alive(engine.pid))

    def test_a_server_that_is_gone_is_missed_until_it_is_back(self):
        first, second = self.hosts("server_heartbeat: 200ms\n")
        for server in (first, second):
            server.start()
            server.format()
            server.joined()
        before = second.engines()[0]
        second.kill()

        def wait(state):
            deadline = time.monotonic() + 20
            while True:
                states = {member.rank: member.state for member in first.members()}
                if states == {0: "joined", 1: state}:
                    return
                self.assertLess(time.monotonic(), deadline, f"{states}\n{first.log()}")
                time.sleep(0.02)

        wait("unresponsive")
        self.assertTrue(is_alive(before.pid))
        second.start()
        wait("joined")
        self.assertEqual(second.joined()[0].pid, before.pid)
        # it hangs, and then continues: nothing was restarted
        second.process.send_signal(signal.SIGSTOP)
        wait("unresponsive")
        second.process.send_signal(signal.SIGCONT)
        wait("joined")
        self.assertEqual([event.id for event in self.events(first) if event.id in (1001, 1002)], [1001, 1002, 1001, 1002])

    def test_a_system_is_stopped_on_all_its_hosts(self):
        first, second = self.hosts()
        for server in (first, second):
            server.start()
            server.format()
            server.joined()
        first.wait_members("joined")
        rows = first.call("/mgmt.MgmtSvc/SystemStop", self.messages.mgmt.SystemStopReq(prep=True, kill=True), timeout=60).results
        self.assertEqual(sorted((row.rank, row.state, row.addr) for row in rows),
                         [(0, "stopped", first.address), (1, "stopped", second.address)])
        self.assertEqual(second.engines()[0].state, "stopped")
        with self.assertRaises(Refused):  # it says who has the management service
            second.call("/mgmt.MgmtSvc/SystemQuery", self.messages.mgmt.SystemQueryReq(state_mask=0xFFFF))


class Asking(ServerTest):
    def test_only_who_may_calls(self):
        """The policy, written out once more: all calls, and none beside them."""
        may = {"admin": """ctl.CtlSvc/NetworkScan ctl.CtlSvc/StorageScan ctl.CtlSvc/SmdQuery ctl.CtlSvc/StorageFormat ctl.CtlSvc/SetEngineLogMasks
                           ctl.CtlSvc/StartRanks ctl.CtlSvc/PrepShutdownRanks ctl.CtlSvc/StopRanks ctl.CtlSvc/ResetFormatRanks
                           fathom.ControlSvc/EngineQuery fathom.ControlSvc/EngineSetRestart fathom.ControlSvc/ConfigGenerate
                           fathom.ControlSvc/CollectLog fathom.ControlSvc/HostDevices fathom.ControlSvc/SystemEvents
                           mgmt.MgmtSvc/LeaderQuery mgmt.MgmtSvc/GetAttachInfo mgmt.MgmtSvc/SystemQuery mgmt.MgmtSvc/SystemStart
                           mgmt.MgmtSvc/SystemStop mgmt.MgmtSvc/SystemExclude mgmt.MgmtSvc/SystemErase mgmt.MgmtSvc/SystemSetAttr
                           mgmt.MgmtSvc/SystemGetAttr mgmt.MgmtSvc/SystemSetProp mgmt.MgmtSvc/SystemGetProp""",
               "agent": "mgmt.MgmtSvc/GetAttachInfo",
               "server": """ctl.CtlSvc/StartRanks ctl.CtlSvc/PrepShutdownRanks ctl.CtlSvc/StopRanks ctl.CtlSvc/ResetFormatRanks
                            fathom.ControlSvc/GroupUpdate fathom.ControlSvc/TakeEvents fathom.ControlSvc/ReportEngines
                            mgmt.MgmtSvc/Join mgmt.MgmtSvc/ClusterEvent mgmt.MgmtSvc/SystemGetProp"""}
        may = {role: set(paths.split()) for role, paths in may.items()}
        every = set().union(*may.values())
        table = subprocess.run([os.path.join(TOP, "src/control/operation/generate.py"), "--print", "method-list"], stdout=subprocess.PIPE, text=True, check=True)
        self.assertEqual({line.split()[0] for line in table.stdout.splitlines()}, every)
        server = self.server(engines=0).start()
        for path in sorted(every):
            for role in ("admin", "agent", "server", "nobody", ""):
                with self.assertRaises(Refused) as refused:
                    server.call("/" + path, None, role=role, raw=b"\xff")  # no message: who may call it is not obeyed either
                if path in may.get(role, ()):
                    self.assertEqual(refused.exception.code, "INVALID_ARGUMENT", f"{path} {role}")
                else:
                    self.assertIn(refused.exception.code, ("PERMISSION_DENIED", "UNAUTHENTICATED"), f"{path} {role}")
        with self.assertRaises(Refused) as refused:
            server.call("/mgmt.MgmtSvc/SystemAnything", None, raw=b"", answer=self.messages.mgmt.DaosResp)
        self.assertEqual(refused.exception.code, "UNIMPLEMENTED")

    def test_another_systems_requests_are_refused(self):
        server = self.server(engines=0).start()
        fathom = self.messages.fathom
        for sys in ("", "daos_server", "daos_server-2.9.100"):
            server.call("/fathom.ControlSvc/EngineQuery", fathom.EngineQueryReq(sys=sys))
        for sys in ("other", "daos_server2-0.1", "daos"):
            with self.assertRaises(Refused) as refused:
                server.call("/fathom.ControlSvc/EngineQuery", fathom.EngineQueryReq(sys=sys))
            self.assertEqual(refused.exception.fault.get("Code"), "603")

    def test_scans_at_once_share_an_answer(self):
        server = self.server(engines=0).start()
        ctl = self.messages.ctl
        server.call("/ctl.CtlSvc/StorageScan", ctl.StorageScanReq())
        asks = [server.channel.unary_unary("/ctl.CtlSvc/StorageScan", request_serializer=lambda r: r.SerializeToString(),
                                           response_deserializer=ctl.StorageScanResp.FromString)
                .future(ctl.StorageScanReq(), metadata=(("x-daos-component", "admin"),)) for _ in range(50)]
        answers = [ask.result(20) for ask in asks]
        self.assertTrue(all(answer.sys_mem_info.mem_total_kb > 0 for answer in answers))
        scans = run(os.path.join(BIN, "fathom"), "trace", "show", "-f", f"/dev/shm/{server.trace_name}_trace.pid{server.process.pid}",
                    check=False).stdout.count("SERVER_SCAN_BEGIN")
        self.assertTrue(2 <= scans < 51, scans)

    def test_usage_is_that_of_the_folder(self):
        server = self.server().start()
        usage = self.messages.ctl.StorageScanReq(scm=self.messages.ctl.ScanScmReq(usage=True))
        self.assertEqual(len(server.call("/ctl.CtlSvc/StorageScan", usage).scm.namespaces), 0)
        server.format()
        server.joined()
        mount = server.call("/ctl.CtlSvc/StorageScan", usage).scm.namespaces[0].mount
        self.assertEqual((mount.path, mount.total_bytes, mount.rank), (server.mount(0), 64 << 20, 0))
        free = mount.avail_bytes
        self.assertLessEqual(free, mount.total_bytes)
        with open(os.path.join(server.mount(0), "data.img"), "r+b") as f:
            f.seek(16 << 20)
            f.write(b"x" * (1 << 20))
            os.fsync(f.fileno())
        mount = server.call("/ctl.CtlSvc/StorageScan", usage).scm.namespaces[0].mount
        self.assertEqual((free - mount.avail_bytes, mount.usable_bytes), (1 << 20, mount.avail_bytes))

    def test_the_network_has_its_interfaces(self):
        server = self.server(engines=0).start()
        links = {name for name in os.listdir("/sys/class/net") if read(f"/sys/class/net/{name}/type").strip() != "772"}
        names = {name for name in links if int(read(f"/sys/class/net/{name}/flags"), 16) & 1 and has_address(name)}
        answer = server.call("/ctl.CtlSvc/NetworkScan", self.messages.ctl.NetworkScanReq())
        self.assertEqual({row.device for row in answer.interfaces}, names)
        every = server.call("/ctl.CtlSvc/NetworkScan", self.messages.ctl.NetworkScanReq(provider="all"))
        self.assertEqual({row.device for row in every.interfaces}, links)
        for name in sorted(names)[:1]:
            fewer = server.call("/ctl.CtlSvc/NetworkScan", self.messages.ctl.NetworkScanReq(excludeinterfaces=f"x,{name}"))
            self.assertEqual({row.device for row in fewer.interfaces}, names - {name})
        none = server.call("/ctl.CtlSvc/NetworkScan", self.messages.ctl.NetworkScanReq(provider="ofi+verbs"))
        self.assertEqual(len(none.interfaces), 0)

    def test_restarts_are_shown_and_set(self):
        server = self.server(keys="engine_restart: {killed: {delay_min: 250ms}}\n").start()
        fathom = self.messages.fathom

        def policies(*new):
            answer = server.call("/fathom.ControlSvc/EngineSetRestart", fathom.EngineSetRestartReq(policies=new))
            return {row.cause: (row.restart, row.delay_min_ms, row.delay_max_ms, row.limit) for row in answer.policies}

        shown = policies()
        self.assertEqual(shown["killed"], (True, 250, 300000, 0))
        self.assertEqual(len(shown), 8)
        changed = policies(fathom.RestartPolicy(cause="exited", restart=True, delay_min_ms=1, delay_max_ms=2, limit=3))
        self.assertEqual(changed["exited"], (True, 1, 2, 3))
        self.assertEqual(policies(), changed)
        with self.assertRaises(Refused) as refused:
            policies(fathom.RestartPolicy(cause="failed", limit=9), fathom.RestartPolicy(cause="bored"))
        self.assertEqual(refused.exception.fault.get("Code"), "693")
        with self.assertRaises(Refused) as refused:
            policies(fathom.RestartPolicy(cause="failed", limit=9), fathom.RestartPolicy(cause="exited", delay_min_ms=2))
        self.assertEqual(refused.exception.fault.get("Code"), "694")
        self.assertEqual(policies(), changed)

    def test_masks_reach_the_engines(self):
        server = self.server(engine_keys="  log_mask: NOTICE\n").start()
        server.format()
        server.joined()
        ctl = self.messages.ctl
        answer = server.call("/ctl.CtlSvc/SetEngineLogMasks", ctl.SetLogMasksReq(masks="DEBUG"))
        self.assertEqual((answer.status, list(answer.errors)), (0, [""]))
        self.assertIn("lines of level DEBUG", server.engine_logs())
        answer = server.call("/ctl.CtlSvc/SetEngineLogMasks", ctl.SetLogMasksReq(masks="LOUD"))
        self.assertEqual(list(answer.errors), [
            'server: code = 699 description = "fathom-engine 0 does not take these log masks: there is no such priority"; '
            'give one priority, ERROR, WARNING, NOTICE, INFO or DEBUG, without facilities, streams and subsystems'])
        answer = server.call("/ctl.CtlSvc/SetEngineLogMasks", ctl.SetLogMasksReq(masks="INFO,RPC=ERR"))
        self.assertIn("it has one level for all its lines", answer.errors[0])
        self.assertEqual(list(server.call("/ctl.CtlSvc/SetEngineLogMasks", ctl.SetLogMasksReq(reset_masks=True)).errors), [""])

    def test_logs_are_collected(self):
        server = self.server().start()
        server.format()
        server.joined()
        fathom = self.messages.fathom
        first = server.call("/fathom.ControlSvc/CollectLog", fathom.CollectLogReq())
        data = first.piece
        while len(data) < first.total_bytes:
            data += server.call("/fathom.ControlSvc/CollectLog", fathom.CollectLogReq(id=first.id, offset=len(data))).piece
        self.assertTrue(first.name.endswith(".tar.zst"))
        path = os.path.join(self.directory, "logs.tar")
        with open(path, "wb") as f:
            f.write(unpack_zstd(data))
        names = {name.split("/", 1)[1] for name in run("tar", "tf", path).stdout.split()}
        self.assertEqual(names, {"server.yml", "engines.txt", "engine0.log", "superblock0", "devices.txt", "interfaces.txt",
                                 "server.log", "engine0.config.json", "engine0.iostat.json", "engine0.trace", "events.txt"})
        states = run("tar", "xOf", path, first.id + "/engines.txt").stdout
        self.assertIn("engine 0: JOINED", states)
        with self.assertRaises(Refused) as refused:
            server.call("/fathom.ControlSvc/CollectLog", fathom.CollectLogReq(id="fathom-1"))
        self.assertEqual(refused.exception.fault.get("Code"), "695")

    def test_what_engines_say_of_themselves_is_collected(self):
        server = self.server().start()
        server.format()
        engine, = server.joined()
        run(FATHOM, "rpc", "-s", engine.rpc_socket, "bdev_null_create", "n0", "1", "4096")
        found = self.collect(server)
        self.assertIn("subsystems", json.loads(found["engine0.config.json"]))
        self.assertIn("n0", [bdev["name"] for bdev in json.loads(found["engine0.iostat.json"])["bdevs"]])
        self.assertRegex(found["events.txt"].decode(), r"(?m)^\d+ id: \[storage_formatted\] .*was formatted by uid \d+\]")
        trace = os.path.join(self.directory, "collected.trace")
        with open(trace, "wb") as file:
            file.write(found["engine0.trace"])
        self.assertIn(f"pid {engine.pid}", run(FATHOM, "trace", "show", "-f", trace).stdout[:2000])
        self.assertEqual([name for name in os.listdir(server.state_dir) if "config.json" in name or ".trace" in name], [])
        # one that does not answer leaves the reason, and the rest
        os.kill(engine.pid, signal.SIGSTOP)
        self.addCleanup(os.kill, engine.pid, signal.SIGCONT)
        found = self.collect(server)
        self.assertIn(os.strerror(errno.ETIMEDOUT), found["engine0.iostat.json"].decode())
        self.assertIn("server.log", found)

    def collect(self, server, **asked):
        """{name: bytes} of what was collected."""
        fathom = self.messages.fathom
        first = server.call("/fathom.ControlSvc/CollectLog", fathom.CollectLogReq(**asked))
        data = first.piece
        while len(data) < first.total_bytes:
            data += server.call("/fathom.ControlSvc/CollectLog", fathom.CollectLogReq(id=first.id, offset=len(data))).piece
        with tarfile.open(fileobj=io.BytesIO(unpack_zstd(data))) as tar:
            return {entry.name.split("/", 1)[1]: tar.extractfile(entry).read() for entry in tar}

    def test_a_part_of_the_logs_is_collected(self):
        log_path = os.path.join(self.directory, "own.log")
        server = self.server(keys=f"control_log_file: {log_path}\n").start()
        moment = int(time.time()) // 86400 * 86400 - 86400
        stamp = [time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment + second)) for second in range(6)]
        utc = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment + 3))
        with open(log_path, "w") as f:
            f.write(f"no stamp\n[{stamp[0]}.000000] NOTICE: a\n[{stamp[1]}.999999] NOTICE: b\n of b\n{{\"time\":\"{utc}.000001Z\",\"message\":\"c\"}}\n"
                    f"[{stamp[4]}.000001] NOTICE: d\n of d\n[{stamp[5]}.000000] NOTICE: e\n")
        whole = self.collect(server, types=["control"])
        self.assertEqual(set(whole), {"server.log"})
        self.assertIn(b"no stamp\n", whole["server.log"])
        # stamps are compared by their second
        for since, until, wanted in ((1, 4, "bcd"), (2, 3, "c"), (-9, 1, "ab"), (4, None, "de"), (9, None, "")):
            times = {"from_s": moment + since, "until_s": moment + until if until is not None else 0}
            text = self.collect(server, types=["control"], **times)["server.log"].decode()
            found = "".join(letter for letter in "abcde" if f"NOTICE: {letter}\n" in text or f'"message":"{letter}"' in text)
            self.assertEqual(found, wanted, (since, until, text))
            self.assertEqual("of b" in text, "b" in wanted)
            self.assertNotIn("no stamp", text)
        self.assertEqual(set(self.collect(server, types=["server"])), {"engine0.log"})
        extra = os.path.join(self.directory, "extra")
        os.makedirs(os.path.join(extra, "deeper"))
        for name, text in (("one.log", "one\n"), ("server.key", "-----BEGIN PRIVATE KEY-----\nsecret\n"), (".hidden", "x"), ("deeper/two.log", "x")):
            with open(os.path.join(extra, name), "w") as f:
                f.write(text)
        os.mkfifo(os.path.join(extra, "pipe"))
        found = self.collect(server, types=["control"], extra_folder=extra)
        self.assertEqual(set(found), {"server.log", "extra/one.log", "extra/server.key"})
        self.assertEqual(found["extra/one.log"], b"one\n")
        self.assertNotIn(b"secret", found["extra/server.key"])
        self.assertIn("server.yml", self.collect(server, extra_folder=extra))
        self.assertIn(b"No such file", self.collect(server, extra_folder="/no/such/folder")["extra"])
        for bad in ({"extra_folder": "/no/such/folder", "stop_on_error": True}, {"extra_folder": "relative"}):
            with self.assertRaises(Refused) as refused:
                self.collect(server, **bad)
            self.assertEqual(refused.exception.fault.get("Code"), "696")

    def journal(self, script):
        """A server whose standard error is the journal's as far as it knows, and a journalctl that is `script`."""
        folder = os.path.join(self.directory, "bin")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "journalctl"), "w") as f:
            f.write("#!/bin/sh\n" + script)
        os.chmod(f.name, 0o755)
        read_end, write_end = os.pipe()
        self.addCleanup(os.close, read_end)
        self.addCleanup(os.close, write_end)
        stat = os.fstat(write_end)
        server = self.server(engines=0)
        return server.start(stderr=write_end, env={"PATH": f"{folder}:{os.environ['PATH']}", "JOURNAL_STREAM": f"{stat.st_dev}:{stat.st_ino}"})

    def test_the_log_is_collected_where_no_file_is_named(self):
        """The file that standard error is; the journal's; and where there is none, a word about it."""
        found = self.collect(self.server(engines=0).start(), types=["control"])
        self.assertIn(b"NOTICE: ready after", found["server.log"])
        server = self.journal('for word; do echo "$word"; done; echo "2026-11-23T04:03:42+0000 host fathom-server[1]: a line"\n')
        said = self.collect(server, types=["control"], from_s=1700000000, until_s=1700000009)["server.log"].decode()
        self.assertIn("fathom-server[1]: a line\n", said)
        for word in ("--unit=fathom-server", "--since=@1700000000", "--until=@1700000010", "--lines=20000"):
            self.assertIn(word + "\n", said)
        self.assertEqual(os.listdir(server.state_dir), [name for name in os.listdir(server.state_dir) if "journal" not in name])

    def test_a_log_that_cannot_be_collected_is_told(self):
        for script, wanted in (("exit 0\n", "nothing it may read"), ("echo no permission >&2; exit 1\n", "no permission"), ("exec sleep 60\n", "timed out")):
            server = self.journal(script)
            answer = server.call("/fathom.ControlSvc/CollectLog", self.messages.fathom.CollectLogReq(types=["control"]))
            self.assertRegex(answer.warning, f"the server's log is not there: `journalctl -u fathom-server` gave nothing .*{wanted}")
            if "sleep" not in script:   # that takes ten seconds
                self.assertEqual(self.collect(server, types=["control"])["server.log"].decode(), answer.warning + "\n")
            self.assertEqual([name for name in os.listdir(server.state_dir) if "journal" in name], [])
            server.stop()
        read_end, write_end = os.pipe()
        self.addCleanup(os.close, read_end)
        server = self.server(engines=0).start(stderr=write_end)
        os.close(write_end)
        path = os.path.join(self.directory, "control.yml")
        with open(path, "w") as f:
            f.write(f"name: {server.name}\n")
        done = run(FATHOM, "support", "collect-log", "-o", path, "-i", "-l", server.address, "-e", "control", "-t", os.path.join(self.directory, "out"))
        self.assertRegex(done.stderr, r"(?m)^WARNING: fathom: 127\.0\.0\.1: the server's log is not there: it goes to standard error \(pipe:.*set control_log_file")
        with self.assertRaises(Refused) as refused:
            self.collect(server, types=["control"], stop_on_error=True)
        self.assertEqual(refused.exception.fault.get("Code"), "696")

    def test_one_collection_is_made_at_a_time(self):
        server = self.server(engines=0).start()
        fathom = self.messages.fathom
        server.engines()
        asks = [server.channel.unary_unary("/fathom.ControlSvc/CollectLog", request_serializer=lambda r: r.SerializeToString(),
                                           response_deserializer=fathom.CollectLogResp.FromString)
                .future(fathom.CollectLogReq(), metadata=(("x-daos-component", "admin"),)) for _ in range(20)]
        refused = [ask for ask in asks if ask.exception(20)]
        self.assertTrue(0 < len(refused) < 20, len(refused))
        self.assertTrue(all(server.fault_of(ask).get("Code") == "696" for ask in refused))

    def test_there_is_nothing_to_format_without_engines(self):
        server = self.server(engines=0).start()
        with self.assertRaises(Refused) as refused:
            server.format()
        self.assertEqual(refused.exception.fault.get("Code"), "692")


class Configuring(ServerTest):
    def check(self, text, *options):
        path = os.path.join(self.directory, "c.yml")
        with open(path, "w") as f:
            f.write(text)
        return run(SERVER, *options, path, check=False)

    def test_what_is_wrong_is_said_with_file_and_line(self):
        done = self.check("name: x\nprot: 1\n", "config", "check")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r'^fathom-server: config: code = 753 description = ".*c\.yml:2: .*prot.*"\n'
                                      r'fathom-server: config: code = 753 resolution = "did you mean .*port.*"\n$')
        self.assertEqual(self.check("name: x\nprot: 1\n", "start", "-o").stderr, done.stderr)

    def test_places_that_cannot_be_are_said(self):
        for keys, said in (("control_log_file: /none/there/log\n", "code = 768 "), ("control_metadata: {path: /none/there}\n", "code = 769 ")):
            server = self.server(engines=0, keys=keys)
            self.assertEqual(server.start(ready=False), 1)
            self.assertIn(said, server.log())

    def test_what_is_right_is_said(self):
        said = self.check("name: x\ntransport_config: {cert: /none/there.crt}\n", "config", "check").stdout
        self.assertIn("is right: system x at 127.0.0.1:10001", said)
        self.assertIn("\nnot there yet, and the server does not start without it: /none/there.crt\n", said)
        self.assertNotIn("not there", self.check("name: x\ntransport_config: {allow_insecure: true}\n", "config", "check").stdout)

    def test_a_file_without_keys_is_refused(self):
        for text in ("", "# nothing\n", "---\n...\n"):
            done = self.check(text, "config", "check")
            self.assertEqual((done.returncode, done.stdout), (1, ""), text)
            self.assertRegex(done.stderr, r'config: code = 770 description = "the configuration \S+c\.yml has no keys"')
            self.assertEqual(self.check(text, "start", "-o").stderr, done.stderr)

    def test_the_server_s_own_port_is_no_engine_s(self):
        text = "port: 4420\ntransport_config: {allow_insecure: true}\nengines:\n- storage: [{class: file, scm_mount: /tmp/e0}]\n"
        done = self.check(text + "  fabric_iface_port: 4420\n", "config", "check")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r'code = 757 description = "\S+c\.yml:5: port and engines\[0\]\.fabric_iface_port are both \\"4420\\""')
        self.assertEqual(self.check(text, "start", "-o").returncode, 1)     # by its default
        self.assertEqual(self.check(text + "  fabric_iface_port: 4421\n", "config", "check").returncode, 0)

    def certificates(self, days=None):
        folder = os.path.join(self.directory, f"certs{days}")
        run(os.path.join(TOP, "scripts", "make-certificates"), folder, *([str(days)] if days else []))
        return folder, (f"name: x\ntransport_config: {{ca_cert: {folder}/ca.crt, cert: {folder}/server.crt, key: {folder}/server.key}}\n"
                        f"state_dir: {self.directory}/state\nsocket_dir: {self.directory}/run\n")

    def expire(self, folder, name, first, last):
        """Sign the certificate of `name` again, of other days."""
        run("openssl", "req", "-new", "-key", f"{folder}/{name}.key", "-subj", f"/CN={name}", "-out", f"{folder}/request")
        with open(f"{folder}/authority", "w") as file:
            file.write(f"[ca]\ndefault_ca=a\n[a]\ndatabase={folder}/index\nnew_certs_dir={folder}\nserial={folder}/number\n"
                       "default_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n")
        open(f"{folder}/index", "w").close()
        run("openssl", "ca", "-batch", "-config", f"{folder}/authority", "-cert", f"{folder}/ca.crt", "-keyfile", f"{folder}/ca.key",
            "-rand_serial", "-in", f"{folder}/request", "-out", f"{folder}/{name}.crt", "-startdate", first, "-enddate", last, "-notext")

    def test_certificates_that_are_not_valid_now_are_refused(self):
        folder, text = self.certificates()
        self.assertEqual(self.check(text, "config", "check").returncode, 0)
        for first, last, words in (
                ("20200101000000Z", "20200201000000Z", f'security: code = 951 description = "the certificate {folder}/server.crt expired on 2020-02-01"'),
                ("20900101000000Z", "20910101000000Z", f'security: code = 952 description = "the certificate {folder}/server.crt is valid only from 2090-01-01')):
            self.expire(folder, "server", first, last)
            done = self.check(text, "config", "check")
            self.assertEqual(done.returncode, 1)
            self.assertIn(words, done.stderr)
            self.assertIn(words, self.check(text, "start", "-o").stderr)

    def test_the_end_of_a_certificate_is_said_before_it_comes(self):
        for days, stage in ((200, None), (20, 30), (5, 7), (1, 1)):
            said = self.check(self.certificates(days)[1], "config", "check").stdout
            if stage:
                self.assertEqual(len(re.findall(rf"(?m)^expires in {stage} days? or less, on 20\d\d-\d\d-\d\d: /\S+/(?:server|ca)\.crt$", said)), 2, said)
            else:
                self.assertNotIn("expires", said)

    def test_a_key_that_everybody_may_read_is_refused(self):
        folder, text = self.certificates()
        os.chmod(f"{folder}/server.key", 0o644)
        for words in (("config", "check"), ("start", "-o")):
            done = self.check(text, *words)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f'code = 953 description = "everybody may read or write the key {folder}/server.key"', done.stderr)
            self.assertIn("chmod 0600", done.stderr)

    def test_what_is_not_on_this_host_is_said_with_file_line_and_key(self):
        """As it would be when the server starts."""
        engine = "engines:\n- storage: [{class: file, scm_mount: /tmp/e0}]\n"
        for text, line, key, path in (("helper: /none/helper\n", 2, "helper", "/none/helper"),
                                      ("engine_program: /etc/passwd\n", 2, "engine_program", "/etc/passwd"),
                                      ("control_log_file: /none/there/log\n", 2, "control_log_file", "/none/there"),
                                      ("state_dir: /none/there/state\n", 2, "state_dir", "/none/there"),
                                      ("control_metadata:\n  path: /none/there\n", 3, "control_metadata.path", "/none"),
                                      (engine + "  log_file: /none/log\n", 4, "engines[0].log_file", "/none"),
                                      (engine + "helper: /tmp\n", 4, "helper", "/tmp")):
            done = self.check("name: x\n" + text, "config", "check")
            self.assertEqual((done.returncode, done.stdout), (1, ""), text)
            self.assertRegex(done.stderr, rf'config: code = 776 description = "\S+c\.yml:{line}: {re.escape(key)}: {path}: ')
        path = os.path.join(self.directory, "cb")
        done = self.check(f"name: x\nfault_cb: {path}\n", "config", "check")
        self.assertRegex(done.stderr, rf'code = 765 description = "\S+c\.yml:2: fault_cb: the program {path} ')

    def test_what_is_generated_is_taken(self):
        path = os.path.join(self.directory, "g.yml")
        done = run(SERVER, "config", "generate", "-i", "lo", "-e", "3", "-F", "/tmp/none", "-s", "1GiB", "--insecure", "-p", "12345")
        with open(path, "w") as f:
            f.write(done.stdout)
        self.assertIn("at 127.0.0.1:12345, management service here, 3 engines", run(SERVER, "config", "check", path).stdout)
        refused = run(SERVER, "config", "generate", "-i", "none0", "-F", "/tmp/none", check=False)
        self.assertIn("code = 766 ", refused.stderr)
        done = run(SERVER, "config", "generate", "-i", "lo", "-a", "10.0.0.1", "-m", "/srv/metadata", "-f", "4501,4440", "-e", "2", "-F", "/tmp/none")
        self.assertEqual(re.findall(r"fabric_iface_port: (\d+)", done.stdout), ["4440", "4501"])
        self.assertIn("control_metadata:\n  path: /srv/metadata\n", done.stdout)
        self.assertIn('mgmt_svc_replicas: ["10.0.0.1"]\n', done.stdout)
        refused = run(SERVER, "config", "generate", "-i", "lo", "-f", "4501", "-e", "2", "-F", "/tmp/none", check=False)
        self.assertIn("there are 2 engines, and 1 port for them", refused.stderr)
        refused = run(SERVER, "config", "generate", "-i", "lo", "-c", "ethernet", "-F", "/tmp/none", check=False)
        self.assertIn("code = 766 ", refused.stderr)

    def test_the_host_is_shown_without_a_server(self):
        self.assertRegex(run(SERVER, "storage", "scan").stdout, r"^Device +Class +Size")
        self.assertRegex(run(SERVER, "network", "scan").stdout, r"(?m)^lo +loopback")
        self.assertRegex(run(SERVER, "version").stdout, r"^fathom-server \d")

    def test_the_host_is_shown_as_its_server_shows_it(self):
        server = self.server(engines=0, name="fathom").start()
        for group, name in (("storage", "devices"), ("network", "interfaces")):
            for _ in range(10):     # somebody beside us may make devices
                ours = json.loads(run(SERVER, group, "scan", "--json").stdout)
                self.assertEqual((ours["error"], ours["status"]), (None, 0))
                host, = json.loads(run(FATHOM, group, "scan", "--all", "-j", "-i", "-l", server.address).stdout)["response"]["HostDevices"].values()
                if ours["response"][name] == host["host"][name]:
                    break
            self.assertEqual(ours["response"][name], host["host"][name])

    def test_wrong_use_is_status_2(self):
        for words in (["frobnicate"], ["start", "extra"], ["--bogus"], ["config"], ["storage"], ["restore"], ["backup"],
                      ["config", "generate", "-p", "0"], ["config", "generate", "-c", "loopback"], ["config", "generate", "-f", "4420-70000"],
                      ["config", "generate", "-m", "relative"], ["storage", "scan", "more"], ["network", "scan", "--bogus"], ["stop-engines", "x"], ["start", "--name", "a/b"], ["-L", "LOUD"]):
            self.assertEqual(run(SERVER, *words, check=False).returncode, 2, words)

    def test_lines_go_where_the_configuration_says(self):
        path = os.path.join(self.directory, "own.log")
        server = self.server(engines=0, keys=f"control_log_file: {path}\ncontrol_log_json: true\n").start()
        self.assertIn('"message":"ready after', read(path).replace('": "', '":"'))
        os.rename(path, path + ".1")
        server.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 10
        while not os.path.exists(path) and time.monotonic() < deadline:
            time.sleep(0.01)
        server.stop()
        self.assertIn("the server has left", read(path))


class Certificates(ServerTest):
    """With certificates, and new ones while it runs."""

    def make(self, folder):
        if not os.access("/usr/bin/openssl", os.X_OK):
            raise unittest.SkipTest("openssl is missing")
        run(os.path.join(TOP, "scripts", "make-certificates"), folder)

    def secure_channel(self, server, folder, role):
        import grpc
        credentials = grpc.ssl_channel_credentials(*(read(os.path.join(folder, name), "rb")
                                                     for name in ("ca.crt", role + ".key", role + ".crt")))
        server.close_channel()
        server.channel = grpc.secure_channel(server.address, credentials, (("grpc.ssl_target_name_override", "server"),))

    def command(self, server, folder, role, *words):
        """`fathom`, with the certificate of that role."""
        path = os.path.join(self.directory, role + ".yml")
        with open(path, "w") as f:
            f.write(f"name: {server.name}\nhostlist: ['{server.address}']\n"
                    f"transport_config: {{ca_cert: {folder}/ca.crt, cert: {folder}/{role}.crt, key: {folder}/{role}.key}}\n")
        return run(FATHOM, "-o", path, *words, check=False)

    def test_roles_come_from_certificates_and_engines_join(self):
        folder = os.path.join(self.directory, "certs")
        self.make(folder)
        keys = f"transport_config: {{ca_cert: {folder}/ca.crt, cert: {folder}/server.crt, key: {folder}/server.key}}\n"
        server = self.server(keys=keys, insecure=False).start()
        self.secure_channel(server, folder, "admin")
        server.format()
        server.joined()
        self.secure_channel(server, folder, "agent")
        with self.assertRaises(Refused) as refused:
            server.call("/ctl.CtlSvc/StorageScan", self.messages.ctl.StorageScanReq(), role="agent")
        self.assertEqual(refused.exception.code, "PERMISSION_DENIED")
        told = self.command(server, folder, "agent", "system", "query")
        self.assertEqual(told.returncode, 1)
        self.assertRegex(told.stderr, r'code = 950 description = .*certificate .*agent.*\n.*code = 950 resolution = "use the certificate')
        self.assertIn("Joined", self.command(server, folder, "admin", "system", "query").stdout)
        for name in ("server.crt", "server.key"):
            os.unlink(os.path.join(folder, name))
        self.make(folder)
        server.process.send_signal(signal.SIGHUP)
        self.wait_for_line(server, "they have changed: connections with the old ones are drained")
        self.secure_channel(server, folder, "admin")
        self.assertEqual(server.engines()[0].state, "joined")

    def wait_for_line(self, server, words):
        deadline = time.monotonic() + 10
        while words not in server.log():
            self.assertLess(time.monotonic(), deadline, server.log())
            time.sleep(0.01)

    def test_broken_ones_are_told_and_change_nothing(self):
        folder = os.path.join(self.directory, "certs")
        self.make(folder)
        path = f"{folder}/server.crt"
        server = self.server(engines=0, keys=f"transport_config: {{ca_cert: {folder}/ca.crt, cert: {path}, key: {folder}/server.key}}\n",
                             insecure=False).start()
        good = read(path)
        for spoil, code in ((lambda: open(path, "w").close(), 903), (lambda: os.unlink(path), 901)):
            spoil()
            server.process.send_signal(signal.SIGHUP)
            self.wait_for_line(server, f"security: code = {code} resolution")
            self.assertRegex(server.log(), rf"ERROR: the certificates stay as they were: security: code = {code} description = .*{path}")
            self.assertNotRegex(server.log(), "again")
            self.assertIn("fathom", self.command(server, folder, "admin", "server", "version").stdout.lower())
        with open(path, "w") as f:
            f.write(good)
        server.process.send_signal(signal.SIGHUP)
        self.wait_for_line(server, "the certificates have been read again")

    def test_missing_ones_are_said(self):
        server = self.server(engines=0, insecure=False, keys="transport_config: {ca_cert: /none/ca.crt}\n")
        self.assertEqual(server.start(ready=False), 1)
        self.assertIn("code = 901 ", server.log())


class Helper(ServerTest):
    def test_one_that_no_engine_needs_is_started_and_no_error_where_there_is_none(self):
        ours = os.path.join(self.directory, "helper")
        with open(ours, "w") as f:
            f.write(f"#!/bin/sh\necho $$ >{self.directory}/began\nexit 3\n")
        os.chmod(ours, 0o755)
        server = self.server(keys=f"helper: {ours}\ncontrol_log_mask: INFO\n").start()
        deadline = time.monotonic() + 10
        while "code = 52 " not in server.log() and time.monotonic() < deadline:
            time.sleep(0.02)
        line = next(line for line in server.log().splitlines() if "code = 52 " in line)
        self.assertRegex(line, "INFO: no engine here needs it, but .*ended with status 3")
        self.assertTrue(os.path.exists(os.path.join(self.directory, "began")))

    def test_what_it_writes_is_a_line_of_the_server_s_log(self):
        ours, log = os.path.join(self.directory, "helper"), os.path.join(self.directory, "json.log")
        with open(ours, "w") as f:
            f.write("#!/bin/sh\necho one\necho '[2026-11-23 05:00:00.000001] ERROR: \"two\"' >&2\nprintf 'no end'\nexit 3\n")
        os.chmod(ours, 0o755)
        server = self.server(engines=0, keys=f"helper: {ours}\ncontrol_log_file: {log}\ncontrol_log_json: true\n").start()
        deadline = time.monotonic() + 10
        while "no end" not in read(log) and time.monotonic() < deadline:
            time.sleep(0.02)
        server.stop()
        said = [json.loads(line)["message"] for line in read(log).splitlines()]      # each is JSON
        self.assertEqual([text for text in said if text.startswith("helper: ")][:3], ["helper: one", 'helper: ERROR: "two"', "helper: no end"])


@unittest.skipIf(NO_LOOP, NO_LOOP)
class Devices(ServerTest):
    """Block devices, formatted with XFS and mounted by fathom-helper."""

    def setUp(self):
        super().setUp()
        os.chmod(self.directory, 0o755)
        self.mounts = os.path.join(self.directory, "mnt")
        os.mkdir(self.mounts)
        self.loops = {}
        config = os.path.join(self.directory, "helper.conf")
        with open(config, "w") as f:
            f.write(f"mounts {self.mounts}\ndevice loop*\n")
        # only root may name another list than the helper's own, and this test is root
        self.helper = os.path.join(self.directory, "helper")
        with open(self.helper, "w") as f:
            f.write(f"#!/bin/sh\n[ ! -e {self.directory}/hang ] || exec sleep 1000\nexec {BIN}/fathom-helper --config {config} \"$@\"\n")
        os.chmod(self.helper, 0o755)

    def tearDown(self):
        for server in self.servers:
            server.discard()
        deadline = time.monotonic() + 10
        for target in (os.path.join(self.mounts, name) for name in os.listdir(self.mounts)):
            while os.path.ismount(target) and time.monotonic() < deadline:  # what a killed engine had open is closed a moment later
                subprocess.run(["umount", target], stderr=subprocess.DEVNULL, check=False)
        for device, path in self.loops.items():
            detach(device, path)
        super().tearDown()

    def loop(self, own=False):
        path = os.path.join(self.directory, f"image{len(self.loops)}")
        with open(path, "wb") as f:
            f.truncate(400 << 20)
        device = attach(path, own)
        self.loops[device] = path
        return device

    def device_server(self, count=1, own=False):
        devices = [self.loop(own) for _ in range(count)]
        return self.server(devices=devices, mounts=self.mounts, keys=f"helper: {self.helper}\n"), devices

    def is_mounted(self, server, index=0):
        return any(line.split()[1] == server.mount(index) for line in read("/proc/mounts").splitlines())

    def test_a_device_is_formatted_mounted_and_outlives_its_server(self):
        server, devices = self.device_server()
        server.start()
        server.wait(lambda engines: engines[0].state == "await_format")
        answer = server.format()
        self.assertEqual((answer.mrets[0].state.error, answer.crets[0].pci_addr), ("", devices[0]))
        before = server.joined()[0]
        self.assertTrue(self.is_mounted(server))
        scan = server.call("/ctl.CtlSvc/StorageScan", self.messages.ctl.StorageScanReq(
            nvme=self.messages.ctl.ScanNvmeReq(Meta=True), scm=self.messages.ctl.ScanScmReq(usage=True)))
        controller = [row for row in scan.nvme.ctrlrs if row.pci_addr == devices[0]][0]
        self.assertEqual((controller.namespaces[0].size, controller.smd_devices[0].rank), (400 << 20, 0))
        self.assertEqual((scan.scm.namespaces[0].blockdev, scan.scm.namespaces[0].mount.path),
                         (os.path.basename(devices[0]), server.mount(0)))
        server.kill()
        self.assertTrue(is_alive(before.pid) and self.is_mounted(server))
        server.start()
        after = server.joined()[0]
        self.assertEqual((after.pid, after.adopted), (before.pid, True))
        rows = server.call("/ctl.CtlSvc/StopRanks", self.messages.ctl.RanksReq(), role="server", timeout=60).results
        self.assertEqual([(row.state, row.msg) for row in rows], [("stopped", "")])
        self.assertFalse(self.is_mounted(server))
        server.stop()
        server.start()
        self.assertEqual(server.joined()[0].rank, 0)

    def test_one_with_data_is_formatted_by_force_alone(self):
        server, devices = self.device_server()
        subprocess.run(["mkfs.xfs", "-q", devices[0]], check=True)
        server.start()
        refused = server.format().mrets[0].state
        self.assertNotEqual((refused.status, refused.error), (0, ""))
        self.assertNotEqual(refused.info, "")
        self.assertEqual(server.format(reformat=True).mrets[0].state.error, "")
        server.joined()

    def test_a_helper_that_hangs_holds_up_nobody_else(self):
        hang = os.path.join(self.directory, "hang")
        open(hang, "w").close()
        server, _ = self.device_server()
        server.start()
        began = time.monotonic()
        server.call("/ctl.CtlSvc/NetworkScan", self.messages.ctl.NetworkScanReq())
        self.assertEqual(server.engines()[0].state, "checking")
        self.assertLess(time.monotonic() - began, 4, "it waited for the helper")
        info = server.wait(lambda engines: engines[0].state == "errored")[0].info
        self.assertRegex(info, "helper")
        os.unlink(hang)
        deadline = time.monotonic() + 20    # a helper that could not be started is not started again at once
        while (error := server.format().mrets[0].state.error) and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertEqual(error, "")
        self.assertEqual(server.joined()[0].rank, 0)

    def kill_helper(self, server):
        """kill -9, if there is one; so of a server that has just begun, or has just lost one, none."""
        for name in os.listdir("/proc"):
            try:
                if name.isdigit() and f"\nPPid:\t{server.process.pid}\n" in read(f"/proc/{name}/status") and \
                        "fathom-helper" in read(f"/proc/{name}/cmdline"):
                    os.kill(int(name), signal.SIGKILL)
                    return True
            except OSError:
                pass  # it has ended meanwhile
        return False

    def test_a_helper_that_is_killed_whenever_costs_a_try_at_most(self):
        server, _ = self.device_server()
        server.start()
        server.wait(lambda engines: engines[0].state == "await_format")
        self.assertTrue(self.kill_helper(server), "there is one, idle")
        if server.format().mrets[0].state.error:    # it was asked before its end was seen
            self.assertEqual(server.format().mrets[0].state.error, "")
        before = server.joined()[0]
        self.assertTrue(self.kill_helper(server))
        request = self.messages.ctl.RanksReq()
        killed = 0
        for turn in range(24):
            method, state = (("StopRanks", "stopped"), ("StartRanks", "ready"))[turn % 2]
            ask = server.channel.unary_unary(f"/ctl.CtlSvc/{method}", request_serializer=lambda r: r.SerializeToString(),
                                             response_deserializer=self.messages.ctl.RanksResp.FromString).future(
                request, metadata=(("x-daos-component", "server"),))
            deadline = time.monotonic() + 0.01 * (turn // 2)  # from at once to when it is over
            hit = False
            while not hit and not ask.done() and time.monotonic() < deadline + 0.2:
                hit = time.monotonic() >= deadline and self.kill_helper(server)
            killed += hit
            row = ask.result(60).results[0]
            until = time.monotonic() + 30
            while row.errored and time.monotonic() < until:
                self.assertIn("code = ", row.msg)  # it says what became of it
                time.sleep(0.05)
                row = server.call(f"/ctl.CtlSvc/{method}", request, role="server", timeout=60).results[0]
            self.assertEqual((row.errored, row.state), (False, state), row.msg)
            self.assertEqual(self.is_mounted(server), method == "StartRanks")
        self.assertGreater(killed, 4)
        after = server.joined()[0]
        self.assertEqual((after.uuid, after.rank), (before.uuid, before.rank))
        self.assertEqual(read("/proc/mounts").count(f" {server.mount(0)} "), 1)

    def test_a_device_that_vanished_is_said_and_taken_when_it_is_back(self):
        server, devices = self.device_server(own=True)
        server.start()
        server.format()
        before = server.joined()[0]
        stop = self.messages.ctl.RanksReq()
        server.call("/ctl.CtlSvc/StopRanks", stop, role="server", timeout=60)
        run("losetup", "-d", devices[0])
        row = server.call("/ctl.CtlSvc/StartRanks", stop, role="server", timeout=60).results[0]
        self.assertTrue(row.errored)
        self.assertIn("code = 150 ", row.msg)
        run("losetup", devices[0], os.path.join(self.directory, "image0"))
        row = server.call("/ctl.CtlSvc/StartRanks", stop, role="server", timeout=60).results[0]
        self.assertEqual((row.errored, row.msg), (False, ""))
        after = server.joined()[0]
        self.assertEqual((after.uuid, after.rank), (before.uuid, before.rank))

    def log_with(self, server, words):
        deadline = time.monotonic() + 10
        while words not in server.log() and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertIn(words, server.log())
        return next(line for line in server.log().splitlines() if words in line)

    def test_a_helper_that_is_missing_is_said(self):
        server, _ = self.device_server()
        os.unlink(self.helper)
        server.start()
        engine = server.wait(lambda engines: engines[0].info != "")[0]
        self.assertIn(self.helper, engine.info + server.log())
        self.assertIn("ERROR", self.log_with(server, "code = 4 "))

    def copied_helper(self, mode):
        """A helper of its own, that the group of an ordinary user may run."""
        helper = os.path.join(self.directory, "fathom-helper")
        shutil.copy(os.path.join(BIN, "fathom-helper"), helper)
        os.chown(helper, 0, NOBODY)
        os.chmod(helper, mode)
        return helper

    def start_as_ordinary_user(self, server, listed):
        """With the helper's list at its place in /etc, in a namespace."""
        os.chown(server.directory, NOBODY, NOBODY)
        script = f"""mount --make-rprivate /
            cp /etc/passwd {server.directory}/passwd
            mount -t tmpfs -o mode=0755 none /etc
            mkdir /etc/fathom
            cp {server.directory}/passwd /etc/passwd
            printf 'user nobody\n{listed}' >/etc/fathom/helper.conf
            chmod 0644 /etc/fathom/helper.conf
            exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups {SERVER} -o {server.config_path} --name {server.trace_name}"""
        with open(server.log_path, "w") as log:
            server.process = subprocess.Popen(["unshare", "-m", "sh", "-e", "-c", script], stdout=log, stderr=log)

    def test_a_helper_that_is_not_installed_set_user_id_is_said_at_the_start(self):
        helper = self.copied_helper(0o755)
        server = self.server(engines=0, keys=f"helper: {helper}\nmgmt_svc_replicas: [127.0.0.1]\ncontrol_log_mask: INFO\n")
        self.start_as_ordinary_user(server, "device nvme*\n")
        self.assertIn(f"the helper {helper} does not run as root", self.log_with(server, "code = 3 "))
        self.assertEqual(server.stop(), 0)

    def test_a_server_of_an_ordinary_user_proposes_what_the_helper_sees(self):
        """Set-user-ID, as installed, with its list at its own place in a namespace. One device is free, one holds XFS, of one the list says nothing."""
        free, used, other = self.loop(), self.loop(), self.loop()
        for device in (free, used, other):      # that another test may have given away
            os.chown(device, 0, 0)
            os.chmod(device, 0o600)
        subprocess.run(["mkfs.xfs", "-q", used], check=True)
        helper = self.copied_helper(0o4750)
        asked = self.messages.fathom.ConfigGenerateReq(with_loop=True, insecure=True)
        for listed, words in ((f"device {os.path.basename(free)}\ndevice {os.path.basename(used)}\n", None), ("device nvme*\n", "is not on the helper's list"),
                              ("nonsense 1\n", "did not start")):
            server = self.server(engines=0, keys=f"helper: {helper}\nmgmt_svc_replicas: [127.0.0.1]\n")
            self.start_as_ordinary_user(server, listed)
            deadline = time.monotonic() + 20
            while True:
                try:
                    answer = server.call("/fathom.ControlSvc/ConfigGenerate", asked).text
                except Refused as refused:
                    if refused.code == "UNAVAILABLE" and time.monotonic() < deadline:
                        time.sleep(0.05)
                        continue
                    answer = refused
                break
            if words:
                self.assertIsInstance(answer, Refused, f"{answer}\n{server.log()}")
                self.assertEqual(answer.fault.get("Code"), "775", f"{answer}\n{server.log()}")
                self.assertIn(words, answer.text)
            else:
                self.assertEqual(re.findall(r"bdev_list: \[(.*)\]", str(answer)), [free], server.log())
            self.assertEqual(server.stop(), 0)

    def test_a_helper_without_its_list_is_told_at_the_start_with_what_to_do(self):
        server, _ = self.device_server()
        with open(os.path.join(self.directory, "helper.conf"), "w") as f:
            f.write("mounts\n")
        server.start()
        line = self.log_with(server, "code = 52 ")
        self.assertIn("ERROR", line)
        self.assertIn(f"run `{self.helper} --check` as root", line)
        self.log_with(server, "helper.conf:1: a value is missing")      # what the helper says itself
        error = server.format().mrets[0].state
        self.assertIn("code = 52 ", error.error)
        self.assertIn("--check", error.info)


if __name__ == "__main__":
    unittest.main()
