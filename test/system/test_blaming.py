# SPDX-License-Identifier: BSD-2-Clause
"""`fathom blame` names the cause of slow requests: each test plants one cause in a running engine, for real."""

import ctypes
import json
import os
import re
import shlex
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest

import test_hostile as hostile
from harness import BIN, FATHOM, NQN, TOP, EngineTest, run, wait_for

sys.path.insert(0, os.path.join(TOP, "test/unit/inspect/trace"))

SLOW_MS = 300   # each planted cause lasts at least this long; no other wait of a busy machine should
WRITE = 0x01
READS = 120     # of 128 KiB: more than the buffers of two sockets
VICTIM = "nqn.2026-11.org.fathom:victim"
SO_ATTACH_FILTER, SO_DETACH_FILTER = 26, 27


def write(cid, length, lba=0):
    return (struct.pack("<BBHI16x", WRITE, 0x40, cid, 1) + hostile.sgl_transport(length) +
            struct.pack("<QI12x", lba, length // 512 - 1))


class LossyNetwork:
    """While it is entered, the kernel drops all packets that arrive for the socket, before TCP sees them."""

    def __init__(self, sock):
        self.sock = sock

    def __enter__(self):
        drop_all = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0))     # BPF: return 0 bytes
        program = struct.pack("HL", 1, ctypes.addressof(drop_all))
        self.sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)

    def __exit__(self, *_):
        self.sock.setsockopt(socket.SOL_SOCKET, SO_DETACH_FILTER, struct.pack("i", 0))


class Blaming(EngineTest):
    def start(self, *options):
        """An engine with memory as namespace 1, and a device that can delay as namespace 2."""
        engine = self.engine("-m", "0x1", *options)
        engine.run_commands("bdev_malloc_create -b Disk1 64 512\nbdev_error_create Disk1\n")
        engine.serve("bdev_malloc_create", "-b", "Disk0", 64, 512)
        engine.run_commands(f"nvmf_subsystem_add_ns {NQN} EE_Disk1 -n 2\n")
        return engine

    def connect(self, engine, host=VICTIM, **kwargs):
        """A host's connection for I/O; its admin connection stays open, too."""
        admin, io = hostile.Host(engine), hostile.Host(engine, **kwargs)
        cntlid, status = admin.connect(host=host.encode())
        self.assertEqual(status, 0)
        self.assertEqual(admin.enable()[1], 0)
        self.assertEqual(io.connect(1, cntlid & 0xffff, host=host.encode())[1], 0)
        self.addCleanup(admin.s.close)
        self.addCleanup(io.s.close)
        io.s.settimeout(60)
        return io

    def wait_in_stage(self, engine, stage):
        """Return when a request has been in `stage` for SLOW_MS, and for longer than everything before took on a busy machine."""
        def is_there(milliseconds):
            return any(row.get("object_type") == "nvmf_req" and row.get("stage") == stage
                       for row in engine.operations_under_way("--older-than", f"{milliseconds}ms"))
        begin = time.monotonic()
        wait_for(lambda: is_there(0), pause=0.02)
        took = time.monotonic() - begin
        time.sleep(SLOW_MS / 1000 + 4 * took)
        wait_for(lambda: is_there(SLOW_MS))

    def blame(self, engine, *words):
        return json.loads(run(FATHOM, "blame", *words, "--json", "-f", engine.trace_path).stdout)

    def check_cause(self, engine, cause, *words, share=0.5):
        """Blame the slow requests; check the invariants of each answer, and the main cause. Returns the answer and the cause's row."""
        answer = self.blame(engine, "--slow", f"{SLOW_MS}ms", *words)
        rows = {row["cause"]: row for row in answer["causes"]}
        self.assertEqual(answer["cause"], cause, json.dumps(answer, indent=1))
        self.assertGreater(rows[cause]["share"], share, json.dumps(answer, indent=1))
        # each nanosecond has one cause
        self.assertAlmostEqual(sum(row["us"] for row in rows.values()), answer["us"], delta=1)
        self.assertAlmostEqual(sum(row["share"] for row in rows.values()), 1, places=6)
        return answer, rows[cause]

    # ---- the causes ----

    def test_a_slow_device_is_blamed_by_name(self):
        engine = self.start()
        engine.rpc("bdev_error_inject_error", name="EE_Disk1", io_type="read", error_type="delay", delay_us=SLOW_MS * 1000, num=3)
        engine.perf("--nsid", "1", "--rw", "randread", "--bs", "4k", "--depth", "8", "--count", "500")
        engine.perf("--nsid", "2", "--rw", "randread", "--bs", "4k", "--depth", "1", "--count", "10")
        answer, row = self.check_cause(engine, "disk", "EE_Disk1", share=0.9)
        self.assertEqual((answer["requests"], answer["whole_requests"], answer["confidence"]), (3, 3, "high"))
        self.assertEqual((row["requests"], row["stage"], row["example"]["device"]), (3, "DISPATCHED", "EE_Disk1"))
        self.assertIn("is the disk (device EE_Disk1): 3 reads waited ", answer["sentence"])
        self.assertIn("confidence high: 3 of 3 requests are kept whole", answer["sentence"])
        # the same by namespace and without a volume; the other device had no slow request
        self.assertEqual(self.check_cause(engine, "disk", "2")[0]["requests"], 3)
        self.assertEqual(self.check_cause(engine, "disk")[0]["requests"], 3)
        self.assertIn("no request of Disk0 ", self.blame(engine, "Disk0", "--slow", f"{SLOW_MS}ms")["sentence"])
        # the command in the table shows that request
        command = shlex.split(row["example"]["command"])
        shown = run(os.path.join(BIN, command[0]), *command[1:]).stdout
        self.assertIn(f"nvmf_req {row['example']['object']} ", shown)
        self.assertGreaterEqual(float(re.search(r"bdev_io DISPATCHED +(\d+)\.\d+ us", shown).group(1)), SLOW_MS * 1000)
        # a killed engine's file gives the same answer
        page = run(FATHOM, "blame", "EE_Disk1", "--slow", f"{SLOW_MS}ms", "-s", engine.name).stdout
        engine.kill()
        self.assertEqual(self.check_cause(engine, "disk", "EE_Disk1")[0]["requests"], 3)
        self.check_page(page)
        self.check_times_and_hosts(engine)

    def test_the_engine_that_has_the_device_is_found(self):
        name = f"Own{os.getpid()}"
        owner = self.engine("-m", "0x1")
        owner.serve("bdev_malloc_create", "-b", name, 64, 512)
        owner.perf("--rw", "randread", "--bs", "4k", "--depth", "1", "--count", "100")
        newer = self.start()
        newer.perf("--nsid", "1", "--rw", "randread", "--bs", "4k", "--depth", "1", "--count", "100")
        lines = run(FATHOM, "blame", name).stdout.splitlines()
        self.assertIn(f" of {name} since ", lines[0])
        self.assertEqual(lines[1], f"read from {owner.trace_path} (select another with -s, -p or -f)")
        self.assertEqual(json.loads(run(FATHOM, "blame", name, "--json").stdout)["file"], owner.trace_path)
        self.assertNotIn("read from", run(FATHOM, "blame", name, "-f", owner.trace_path).stdout)
        done = run(FATHOM, "blame", "Absent", check=False)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("\nfathom blame: no running engine ", done.stderr)
        # a killed engine is not asked; its file is used only if it is the newest
        owner.kill()
        self.assertEqual(run(FATHOM, "blame", name, check=False).returncode, 1)

    def check_page(self, page):
        lines = page.splitlines()
        self.assertRegex(lines[0], r"^\d+ % of the slow time of EE_Disk1 since \d\d:\d\d:\d\d is the disk \(device EE_Disk1\): 3 reads waited "
                                   r"[\d.]+ m?s on average; confidence high: 3 of 3 requests are kept whole$")
        self.assertRegex(page, r"\n  disk +3 +[\d.]+ s +\d+\.\d % +[\d.]+ m?s +[\d.]+ m?s +[\d.]+ m?s  DISPATCHED +fathom trace ")
        self.assertRegex(page, r"\n  all +3 +[\d.]+ s  100\.0 %\n")
        self.assertRegex(page, r"\nkept slow requests reach back to \d\d:\d\d:\d\d; all requests are known since \d\d:\d\d:\d\d\n")
        self.assertIn("\nnext: fathom trace slowest --where 'device =~ \"EE_Disk1\"'", page)

    def check_times_and_hosts(self, engine):
        self.assertEqual(self.check_cause(engine, "disk", "--since", "1h")[0]["requests"], 3)
        self.assertEqual(self.check_cause(engine, "disk", "--from", "0s", "--to", "1h")[0]["requests"], 3)
        for words in (("--to", "0s"), ("--host", "nqn.2026-11.org.fathom:absent"), ("Disk9",)):
            done = run(FATHOM, "blame", *words, "-f", engine.trace_path, check=False)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertRegex(done.stderr, "^fathom blame: .* has no request of ")
        self.assertIn("EE_Disk1", done.stderr)
        done = run(FATHOM, "blame", "--since", "bla", "-f", engine.trace_path, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn('--since: "bla" is not a time; use 10m (the last ten minutes) or a time of day', done.stderr)
        self.assertNotIn("before the end", done.stderr)
        done = run(FATHOM, "blame", "--since", "1m", "--from", "1s", "-f", engine.trace_path, check=False)
        self.assertEqual(done.returncode, 2)

    def test_without_a_limit_the_slowest_are_blamed(self):
        engine = self.start()
        engine.rpc("bdev_error_inject_error", name="EE_Disk1", io_type="read", error_type="delay", delay_us=SLOW_MS * 1000, num=20)
        engine.perf("--nsid", "2", "--rw", "randread", "--bs", "4k", "--depth", "20", "--count", "100")
        answer = self.blame(engine, "EE_Disk1")
        self.assertEqual(answer["cause"], "disk")
        self.assertGreaterEqual(answer["requests"], 10)
        # a recording has all requests of the rings
        recording = os.path.join(self.directory, "recording")
        engine.trace("record", "-o", recording, "--time", "100ms", "-f", engine.trace_path)
        answer = json.loads(run(FATHOM, "blame", "EE_Disk1", "--slow", f"{SLOW_MS}ms", "--json", "-f", recording).stdout)
        self.assertEqual((answer["cause"], answer["requests"], answer["coverage"]["recording"]), ("disk", 20, True))

    def test_a_host_that_does_not_read_is_blamed(self):
        engine = self.start()
        io = self.connect(engine)
        io.s.sendall(b"".join(hostile.capsule(hostile.read(cid, hostile.LARGE)) for cid in range(READS)))
        self.wait_in_stage(engine, "SENDING")
        self.receive_data(io, READS * hostile.LARGE)
        self.wait_until_idle(engine)
        answer, row = self.check_cause(engine, "host", "Disk0", "--host", VICTIM)
        self.assertEqual(row["stage"], "SENDING")
        self.assertIn(f"is the host ({VICTIM}): ", answer["sentence"])

    @staticmethod
    def receive_data(io, count):
        """Receive until `count` bytes of data and their headers and responses are there."""
        while count > 0:
            pdu = io.pdu()
            if pdu[0] == hostile.C2H_DATA:
                count -= len(pdu) - 24

    @staticmethod
    def wait_until_idle(engine):
        wait_for(lambda: not [row for row in engine.operations_under_way("--older-than", "0") if row.get("object_type") == "nvmf_req"])

    def test_a_host_that_was_stopped_is_blamed(self):
        engine = self.start()
        host = subprocess.Popen([FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", NQN, "--rw", "read", "--bs", "128k",
                                 "--depth", "127", "--time", "600", "--timeout", "0", "--hostnqn", VICTIM],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            engine.wait_for_ios(200, "Disk0")
            host.send_signal(signal.SIGSTOP)
            self.wait_in_stage(engine, "SENDING")
            before = engine.rpc("bdev_get_iostat", names=["Disk0"])["bdevs"][0]["num_read_ops"]
            host.send_signal(signal.SIGCONT)
            engine.wait_for_ios(before + 200, "Disk0")
        finally:
            host.kill()
            host.wait()
        answer, row = self.check_cause(engine, "host", "Disk0")
        self.assertEqual(row["stage"], "SENDING")
        self.assertIn(VICTIM, answer["sentence"])

    def test_a_host_that_delays_the_data_of_an_r2t_is_blamed(self):
        engine = self.start()
        io = self.connect(engine)
        for cid in range(4):
            io.s.sendall(hostile.capsule(write(cid, 65536, 128 * cid)))
        r2ts = [io.pdu() for _ in range(4)]
        self.assertEqual({pdu[0] for pdu in r2ts}, {hostile.R2T})
        self.wait_in_stage(engine, "TRANSFER_IN")
        for pdu in r2ts:
            io.s.sendall(hostile.h2c_data(pdu, bytes(65536)))
        for _ in range(4):
            self.assertEqual(io.response()[1], 0)
        self.wait_until_idle(engine)
        answer, row = self.check_cause(engine, "host", "Disk0")
        self.assertEqual((row["stage"], row["requests"]), ("TRANSFER_IN", 4))
        self.assertIn(f"is the host ({VICTIM}): 4 writes waited ", answer["sentence"])

    def test_a_network_that_loses_packets_is_blamed(self):
        """The packets of the engine's answers are lost for a while, then those with an R2T."""
        engine = self.start()
        io = self.connect(engine)
        with LossyNetwork(io.s):
            io.s.sendall(b"".join(hostile.capsule(hostile.read(cid, hostile.LARGE)) for cid in range(READS)))
            self.wait_in_stage(engine, "SENDING")
        self.receive_data(io, READS * hostile.LARGE)
        self.wait_until_idle(engine)
        answer, row = self.check_cause(engine, "network", "Disk0")
        self.assertEqual(row["stage"], "SENDING")
        self.assertIn(f"is the network (to {VICTIM}): ", answer["sentence"])
        other = self.connect(engine, VICTIM + "2")
        with LossyNetwork(other.s):
            other.s.sendall(hostile.capsule(write(0, 65536)))
            self.wait_in_stage(engine, "TRANSFER_IN")
        other.s.sendall(hostile.h2c_data(other.pdu(), bytes(65536)))
        self.assertEqual(other.response()[1], 0)
        self.wait_until_idle(engine)
        row = self.check_cause(engine, "network", "Disk0", "--host", VICTIM + "2")[1]
        self.assertEqual((row["stage"], row["requests"]), ("TRANSFER_IN", 1))

    def test_a_reactor_that_is_held_is_blamed(self):
        """The host sends the data of its writes at once, but the reactor reads them late. The host is not blamed."""
        engine = self.start("--test-methods")
        io = self.connect(engine)
        for cid in range(4):
            io.s.sendall(hostile.capsule(write(cid, 4096, 8 * cid)))
        r2ts = [io.pdu() for _ in range(4)]
        engine.rpc("reactor_hold", reactor=0, milliseconds=5 * SLOW_MS)
        wait_for(lambda: "reactor_hold" in engine.trace("threads", "-f", engine.trace_path).stdout, pause=0)
        for pdu in r2ts:
            io.s.sendall(hostile.h2c_data(pdu, bytes(4096)))
        for _ in range(4):
            self.assertEqual(io.response()[1], 0)
        self.wait_until_idle(engine)
        answer, row = self.check_cause(engine, "cpu", "Disk0")
        self.assertEqual((row["stage"], row["requests"]), ("TRANSFER_IN", 4))
        self.assertIn('is our CPU: reactor_0 ran "reactor_hold", or other processes had its CPU: 4 writes waited ', answer["sentence"])
        self.assertIn("poller_slow", answer["next"][0])

    def test_a_mixture_is_split_into_its_causes(self):
        """A host sends the data of its writes late, and then the device is slow."""
        engine = self.start("--num-trace-entries", str(1 << 20))     # a device that delays keeps its reactor awake, which is recorded
        engine.rpc("bdev_error_inject_error", name="EE_Disk1", io_type="write", error_type="delay", delay_us=2 * SLOW_MS * 1000, num=4)
        io = self.connect(engine)
        for cid in range(4):
            command = bytearray(write(cid, 65536, 128 * cid))
            command[4] = 2      # the namespace
            io.s.sendall(hostile.capsule(bytes(command)))
        r2ts = [io.pdu() for _ in range(4)]
        self.wait_in_stage(engine, "TRANSFER_IN")
        for pdu in r2ts:
            io.s.sendall(hostile.h2c_data(pdu, bytes(65536)))
        for _ in range(4):
            self.assertEqual(io.response()[1], 0)
        self.wait_until_idle(engine)
        answer = self.blame(engine, "EE_Disk1", "--slow", f"{SLOW_MS}ms")
        rows = {row["cause"]: row for row in answer["causes"]}
        self.assertEqual((answer["requests"], rows["host"]["stage"], rows["disk"]["stage"]), (4, "TRANSFER_IN", "DISPATCHED"), answer)
        self.assertIn(answer["cause"], ("host", "disk"))
        self.assertGreaterEqual(rows["host"]["us"], 4 * SLOW_MS * 1000 * 0.9)
        self.assertGreaterEqual(rows["disk"]["us"], 4 * 2 * SLOW_MS * 1000)
        self.assertAlmostEqual(sum(row["us"] for row in rows.values()), answer["us"], delta=1)

    def test_exhausted_buffers_are_blamed(self):
        """Connections of a host share its buffers. The first reads of each hold them at a slow device, so most reads of the last one wait."""
        engine = self.start()
        engine.rpc("bdev_error_inject_error", name="EE_Disk1", io_type="read", error_type="delay", delay_us=4 * SLOW_MS * 1000, num=1 << 20)
        hosts = [self.connect(engine) for _ in range(6)]
        for number, io in enumerate(hosts, 1):      # one after the other: the last one has a sixth of the buffers
            io.s.sendall(b"".join(hostile.capsule(self.read_of_2(cid)) for cid in range(120)))
            self.wait_for_buffers(engine, number * 120 * hostile.LARGE)
        engine.rpc("bdev_error_inject_error", name="EE_Disk1", io_type="clear", error_type="failure")
        victim = hosts[-1]
        self.receive_data(victim, 120 * hostile.LARGE)
        answer, row = self.check_cause(engine, "queue", "EE_Disk1", "--host", "%s:%d" % victim.s.getsockname(), share=0.5)
        self.assertEqual(row["stage"], "WAIT_BUFFER")
        self.assertGreater(row["p50_us"], SLOW_MS * 1000)
        self.assertIn("is our queue (for a data buffer): ", answer["sentence"])
        self.assertIn("buffers", answer["next"][0])

    @staticmethod
    def wait_for_buffers(engine, count):
        """Return when requests have or want buffers of `count` bytes."""
        def is_so():
            buffers = engine.rpc("nvmf_get_stats")["poll_groups"][0]["transports"][0]["buffers"]
            return buffers["lent_bytes"] + buffers["waiting"] * hostile.LARGE >= count
        wait_for(is_so)

    @staticmethod
    def read_of_2(cid):
        """A read of namespace 2."""
        command = bytearray(hostile.read(cid, hostile.LARGE))
        command[4] = 2
        return bytes(command)


if __name__ == "__main__":
    unittest.main()
