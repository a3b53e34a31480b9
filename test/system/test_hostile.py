# SPDX-License-Identifier: BSD-2-Clause
"""
Malicious and broken hosts: their own connections end, and other hosts are still served. The tests write NVMe/TCP byte by byte.
"""

import json
import os
import re
import resource
import socket
import struct
import time
import unittest

import harness
from harness import NQN, wait_for

READ, FABRICS, IDENTIFY, CONNECT, PROPERTY_SET = 0x02, 0x7f, 0x06, 1, 0
IC_RESP, TERM_REQ, RESPONSE, H2C_DATA, C2H_DATA, R2T = 1, 3, 5, 6, 7, 9
LARGE = 131072
LARGE_BUFFERS = 256  # of a poll group


def sgl_in_capsule(length):
    return struct.pack("<QI3xB", 0, length, 0x01)


def sgl_transport(length):
    return struct.pack("<QI3xB", 0, length, 0x5a)


def capsule(sqe, data=b""):
    assert len(sqe) == 64
    return struct.pack("<BBBBI", 4, 0, 72, 72 if data else 0, 72 + len(data)) + sqe + data


def connect(qid, sqsize=127, sgl=None):
    return (struct.pack("<BBHB19x", FABRICS, 0x40, 0, CONNECT) + (sgl or sgl_in_capsule(1024)) +
            struct.pack("<HHHBxI12x", 0, qid, sqsize, 0, 0))


def connect_data(host, cntlid, subsystem):
    return bytes(15) + b"\1" + struct.pack("<H238x256s256s256x", cntlid, subsystem, host)


def read(cid, length):
    return (struct.pack("<BBHI16x", READ, 0x40, cid, 1) + sgl_transport(length) +
            struct.pack("<QI12x", 0, length // 512 - 1))


def h2c_data(r2t, data):
    """The data that an R2T requests."""
    cid, ttag, offset, length = struct.unpack("<HHII", r2t[8:20])
    return struct.pack("<BBBBIHHII4x", H2C_DATA, 4, 24, 24, 24 + length, cid, ttag, offset, length) + data[:length]


class Host:
    """One connection of a host."""

    def __init__(self, engine, greet=True, receive_bytes=None):
        self.s = socket.socket()
        self.s.settimeout(30)
        if receive_bytes:
            self.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.s.connect(("127.0.0.1", engine.port))
        if greet:
            self.s.sendall(struct.pack("<BBBBIHBBI112x", 0, 0, 128, 0, 128, 0, 0, 0, 0))
            assert self.pdu()[0] == IC_RESP

    def exact(self, count):
        got = b""
        while len(got) < count:
            piece = self.s.recv(count - len(got))
            if not piece:
                raise EOFError
            got += piece
        return got

    def pdu(self):
        common = self.exact(8)
        return common + self.exact(struct.unpack("<I", common[4:])[0] - 8)

    def response(self):
        """(result, status) of the next response."""
        pdu = self.pdu()
        assert pdu[0] == RESPONSE, pdu[0]
        result, _, _, _, status = struct.unpack("<QHHHH", pdu[8:24])
        return result, status >> 1 & 0x7ff

    def connect(self, qid=0, cntlid=0xffff, host=b"nqn.2026-01.io.fathom:host", subsystem=NQN.encode()):
        self.s.sendall(capsule(connect(qid), connect_data(host, cntlid, subsystem)))
        return self.response()

    def enable(self):
        self.s.sendall(capsule(struct.pack("<BBHB35xB3xIQ8x", FABRICS, 0x40, 1, PROPERTY_SET, 0, 0x14, 0x460001)))
        return self.response()


class HostileTest(harness.EngineTest):
    def serve(self):
        engine = self.engine()
        engine.serve("bdev_malloc_create", 16, 512)
        return engine

    def io_queue(self, engine, **kwargs):
        """Admin and I/O queue of a new controller."""
        admin, io = Host(engine, **kwargs), Host(engine, **kwargs)
        cntlid, status = admin.connect()
        self.assertEqual(status, 0)
        self.assertEqual(admin.enable()[1], 0)
        self.assertEqual(io.connect(1, cntlid & 0xffff)[1], 0)
        return admin, io

    def check_serves(self, engine):
        """A new host connects and reads."""
        _, io = self.io_queue(engine)
        io.s.sendall(capsule(read(7, LARGE)))
        self.assertEqual(io.pdu()[0], C2H_DATA)
        self.assertIsNone(engine.process.poll(), engine.log_text())

    def test_hosts_are_served_beside_thousands_of_silent_connections(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < 5000:
            self.skipTest("no more than %d descriptors are allowed" % hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (5000, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        engine = self.serve()
        crowd = [Host(engine, greet=False) for _ in range(2200)]
        self.check_serves(engine)
        for host in crowd:
            host.s.close()
        self.check_serves(engine)

    def limited_engine(self, descriptors):
        """An engine whose soft and hard limit is `descriptors`; the limit of the test is unchanged."""
        engine = self.engine(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors)))
        engine.serve("bdev_malloc_create", 16, 512)
        return engine

    def wait_until_serves(self, engine):
        begin = time.monotonic()
        while True:
            try:
                self.check_serves(engine)
                return
            except (EOFError, ConnectionError):
                self.assertLess(time.monotonic() - begin, 60, engine.log_text())
                time.sleep(0.2)

    def is_closed(self, host, seconds):
        host.s.settimeout(seconds)
        try:
            return host.s.recv(1) == b""
        except (ConnectionError, socket.timeout) as error:
            return isinstance(error, ConnectionError)

    def wait_for_log_line(self, engine, text):
        """The engine logs after it acts, so the effect may reach the wire first."""
        deadline = time.monotonic() + 60
        while text not in engine.log_text():
            self.assertLess(time.monotonic(), deadline, f"{text}\n{engine.log_text()}")
            time.sleep(0.05)

    def test_silent_connections_leave_descriptors_for_control(self):
        engine = self.limited_engine(256)
        crowd, begin = [], time.monotonic()
        for _ in range(600):
            crowd.append(Host(engine, greet=False))
        # a quarter of 256 descriptors is reserved: connections beyond 192 are closed, and the control socket always answers
        for _ in range(20):
            self.assertTrue(engine.rpc("framework_wait_init"))
        self.assertLessEqual(len(os.listdir(f"/proc/{engine.pid}/fd")), 256 - 64 + 4)
        self.assertTrue(self.is_closed(crowd[-1], 5))
        engine.run_commands("bdev_malloc_create -b Late 8 512\n")
        self.wait_for_log_line(engine, "NVMe/TCP: refused a connection from 127.0.0.1: ")
        self.assertLess(engine.log_text().count("refused a connection"), 20 + time.monotonic() - begin)    # one a second
        # silent connections are closed before the usual 30 s, so that hosts can connect
        self.wait_until_serves(engine)
        for host in crowd:
            host.s.close()
        self.wait_until_serves(engine)

    def test_a_client_of_control_is_served_when_all_descriptors_are_taken(self):
        engine = self.limited_engine(256)
        crowd = [Host(engine, greet=False) for _ in range(200)]
        clients = []
        for _ in range(100):
            s = socket.socket(socket.AF_UNIX)
            s.connect(engine.sock)
            clients.append(s)
        self.assertTrue(engine.rpc("framework_wait_init"))
        self.assertLess(engine.log_text().count("\n"), 60)
        for s in clients + [host.s for host in crowd]:
            s.close()
        self.wait_until_serves(engine)

    def test_connections_per_address_and_in_total_are_limited(self):
        engine = self.engine()
        engine.run_commands(f"""nvmf_create_transport -t tcp --max-connections 6 --max-connections-per-address 3
nvmf_create_subsystem {NQN} -a -s SPDK00000000000001
nvmf_subsystem_add_listener {NQN} -t tcp -a 127.0.0.1 -s {engine.port}
""")
        self.assertEqual(engine.rpc("nvmf_get_transports")[0]["max_connections_per_address"], 3)
        mine = [Host(engine) for _ in range(3)]
        self.assertTrue(self.is_closed(Host(engine, greet=False), 5))
        self.wait_for_log_line(
            engine, "the address has 3 connections, its limit (max_connections_per_address of nvmf_create_transport)")
        others = []
        for last in range(2, 6):
            s = socket.socket()
            s.bind((f"127.0.0.{last}", 0))
            s.connect(("127.0.0.1", engine.port))
            others.append(s)
        self.wait_for_log_line(engine, "there are 6 connections, the limit (max_connections of nvmf_create_transport)")
        # a connection that has ended makes room for another
        for s in others:
            s.close()
        mine.pop().s.close()
        deadline = time.monotonic() + 60
        while True:
            try:
                self.assertEqual(Host(engine).connect()[1], 0)
                break
            except (EOFError, ConnectionError):
                self.assertLess(time.monotonic(), deadline, engine.log_text())
                time.sleep(0.1)

    def test_a_connection_that_never_sends_a_connect_is_closed(self):
        engine = self.engine()
        engine.run_commands(f"""nvmf_create_transport -t tcp --max-connections-per-address 2
nvmf_create_subsystem {NQN} -a -s SPDK00000000000001
nvmf_subsystem_add_listener {NQN} -t tcp -a 127.0.0.1 -s {engine.port}
""")
        silent, greeted = Host(engine, greet=False), Host(engine)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            refused = Host(engine, greet=False)
            refused.s.settimeout(0.2)
            try:
                if refused.s.recv(1) != b"":
                    break
            except socket.timeout:
                break
            except ConnectionError:
                pass
            time.sleep(0.2)
        self.assertTrue(self.is_closed(silent, 5))
        self.assertTrue(self.is_closed(greeted, 5))

    def test_hosts_are_served_beside_hosts_that_do_not_receive_their_data(self):
        engine = self.serve()
        silent = [self.io_queue(engine, receive_bytes=4096) for _ in range(4)]
        for _, io in silent:
            io.s.sendall(b"".join(capsule(read(cid, LARGE)) for cid in range(127)))
        self.check_serves(engine)

    def test_a_host_that_does_not_receive_is_traced_as_sending_and_as_a_full_send_buffer(self):
        engine = self.serve()
        _, io = self.io_queue(engine, receive_bytes=4096)
        io.s.sendall(b"".join(capsule(read(cid, LARGE)) for cid in range(127)))

        def are_sent():
            rows = engine.operations_under_way("--older-than", "200ms")
            return {row["stage"] for row in rows if row.get("object_type") == "nvmf_req"} - {"WAIT_BUFFER"} == {"SENDING"}

        wait_for(are_sent)
        time.sleep(0.5)     # the kernel's send buffer stays full for this time
        self.assertTrue(are_sent())
        io.s.close()
        longest = 0
        for _ in range(100):
            rows = [json.loads(line) for line in engine.trace("stages", "--json", "-f", engine.trace_path).stdout.splitlines()]
            longest = max([row["max_us"] for row in rows if (row.get("object_type"), row.get("stage")) == ("tcp_send_sample", "QUEUED")],
                          default=0)
            if longest > 3e5:
                break
            time.sleep(0.1)
        self.assertGreater(longest, 3e5, "the kernel's send buffer was full for 0.3 s")

    def test_hosts_are_served_beside_connects_without_data(self):
        engine = self.serve()
        silent = [Host(engine) for _ in range(LARGE_BUFFERS + 8)]
        for host in silent:
            host.s.sendall(capsule(connect(0, sgl=sgl_transport(LARGE))))
        wait_for(lambda: sum(row.get("object_type") == "nvmf_req" for row in engine.operations_under_way("--older-than", "0")) == len(silent))
        self.check_serves(engine)
        under_way = [row for row in engine.operations_under_way("--older-than", "0") if row.get("object_type") == "nvmf_req"]
        self.assertNotEqual(under_way, [], "it was served after the others had been closed")

    def test_a_controller_is_removed_after_garbage_on_its_connection(self):
        engine = self.serve()
        host = Host(engine)
        host.s.sendall(capsule(connect(0), connect_data(b"nqn.x", 0xffff, NQN.encode())) + b"\xff" * 72)
        self.assertEqual(host.pdu()[0], TERM_REQ)
        self.assertEqual(host.s.recv(1), b"")
        # the host keeps its socket open; the engine removes the controller
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline and engine.rpc("nvmf_subsystem_get_controllers", nqn=NQN):
            time.sleep(0.2)
        self.assertEqual(engine.rpc("nvmf_subsystem_get_controllers", nqn=NQN), [])
        self.check_serves(engine)

    def test_a_host_name_that_is_not_text_is_accepted_and_printed_safely(self):
        engine = self.serve()
        host = Host(engine)
        self.assertEqual(host.connect(host=b"nqn.\xff\xfe\x1b[31m\n\"x")[1], 0)
        controllers = engine.rpc("nvmf_subsystem_get_controllers", nqn=NQN)
        self.assertEqual(controllers[0]["hostnqn"], "nqn.??\x1b[31m\n\"x")
        self.assertNotIn("\x1b", engine.trace("-s", engine.name, "-p", engine.pid).stdout)

    def test_the_log_names_hosts_that_connect_leave_or_are_refused(self):
        engine = self.serve()
        engine.run_commands(f"""nvmf_create_subsystem nqn.2026-01.io.fathom:closed -s SPDK00000000000002
nvmf_subsystem_add_listener nqn.2026-01.io.fathom:closed -t tcp -a 127.0.0.1 -s {engine.port}
nvmf_create_subsystem nqn.2026-01.io.fathom:elsewhere -a -s SPDK00000000000003
""")
        host = Host(engine)
        self.assertEqual(host.connect(host=b"nqn.2026-01.io.fathom:friend")[1], 0)
        for subsystem in (b"nqn.2026-01.io.fathom:closed", b"nqn.2026-01.io.fathom:none", b"nqn.2026-01.io.fathom:elsewhere"):
            self.assertNotEqual(Host(engine).connect(host=b"nqn.2026-01.io.fathom:str\nanger", subsystem=subsystem)[1], 0)
        host.s.close()
        wanted = (
            f"NOTICE: host nqn.2026-01.io.fathom:friend at 127.0.0.1 connected to {NQN}: controller 1\n",
            f"NOTICE: host nqn.2026-01.io.fathom:friend at 127.0.0.1 left {NQN}, controller 1: the host closed the connection\n",
            "WARNING: host nqn.2026-01.io.fathom:str?anger at 127.0.0.1 was refused by nqn.2026-01.io.fathom:closed, queue 0: "
            "the subsystem does not allow this host (nvmf_subsystem_add_host)\n",
            "was refused by nqn.2026-01.io.fathom:none, queue 0: there is no such subsystem\n",
            "was refused by nqn.2026-01.io.fathom:elsewhere, queue 0: the subsystem has no listener at 127.0.0.1 port "
            f"{engine.port}\n")
        for line in wanted:
            self.wait_for_log_line(engine, line)

    def test_full_queues_and_protocol_errors_are_logged_at_a_limited_rate(self):
        engine = self.serve()
        _, io = self.io_queue(engine)
        io.s.sendall(b"".join(capsule(read(i, LARGE)) for i in range(2000)))
        self.wait_for_log_line(engine, "WARNING: NVMe/TCP: 127.0.0.1: queue 1 is full: the host sent more commands than its 128 entries")
        begin = time.monotonic()
        for _ in range(300):
            stranger = Host(engine, greet=False)
            stranger.s.sendall(b"\xff" * 128)
        self.wait_for_log_line(engine, "the host broke the protocol (")
        self.assertLess(engine.log_text().count("the host broke the protocol"), 60 + time.monotonic() - begin)     # one a second

    def test_refused_host_names_do_not_use_more_memory(self):
        engine = self.serve()
        host = Host(engine)

        def refused(first, last):
            for i in range(first, last):
                result, status = host.connect(host=b"nqn.h%d" % i + b"h" * 200, subsystem=b"nqn.s%d" % i + b"s" * 200)
                self.assertEqual(status, 0x182)
            # anonymous memory only: the trace's rings fill up in any case
            return int(re.search(r"RssAnon:\s+(\d+)", open(f"/proc/{engine.pid}/status").read()).group(1))

        before = refused(0, 1000)
        self.assertLess(refused(1000, 4000) - before, 256)


if __name__ == "__main__":
    unittest.main()
