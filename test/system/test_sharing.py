# SPDX-License-Identifier: BSD-2-Clause
"""A device that hangs and hosts that do not read or send slow down no other host. All run on one core."""

import struct
import subprocess
import time
import unittest

import test_hostile as hostile
from harness import FATHOM, NQN, EngineTest

HUNG = "nqn.2016-06.io.spdk:hung"
WRITE = 0x01
BYTES = 65536
DEPTH = 120  # three hosts together request more buffers than one host may hold


def write(cid, length):
    return (struct.pack("<BBHI16x", WRITE, 0x40, cid, 1) + hostile.sgl_transport(length) +
            struct.pack("<QI12x", 0, length // 512 - 1))


class Sharing(EngineTest):
    def setUp(self):
        super().setUp()
        self.engine_ = self.engine("-m", "0x1")
        self.engine_.serve("bdev_malloc_create", "-b", "Disk0", 64, 512)
        self.engine_.run_commands(f"""bdev_malloc_create -b Disk1 64 512
bdev_error_create Disk1
nvmf_create_subsystem {HUNG} -a -s SPDK00000000000002
nvmf_subsystem_add_ns {HUNG} EE_Disk1
nvmf_subsystem_add_listener {HUNG} -t tcp -a 127.0.0.1 -s {self.engine_.port}
""")

    def buffers(self):
        return self.engine_.rpc("nvmf_get_stats")["poll_groups"][0]["transports"][0]["buffers"]

    def wait_buffers(self, holds, what):
        for _ in range(400):
            buffers = self.buffers()
            if holds(buffers):
                return buffers
            time.sleep(0.05)
        raise AssertionError(f"{what}: {buffers}")

    def check_fast_host(self):
        """I/O of another host. An engine that starves it exceeds the host's time-out."""
        self.engine_.perf("--bs", "64k", "--depth", "32", "--count", "2000", "--rw", "mix", "--verify", "--range", "32M", "--timeout", "20000",
                          "--hostnqn", "nqn.2026-11.org.fathom:fast")

    def connect_queues(self, number, subsystem=NQN):
        """Connect the admin and one I/O queue of host `number`."""
        host = b"nqn.2026-11.org.fathom:slow%d" % number
        admin, io = hostile.Host(self.engine_), hostile.Host(self.engine_, receive_bytes=4096)
        cntlid, status = admin.connect(host=host, subsystem=subsystem.encode())
        self.assertEqual(status, 0)
        self.assertEqual(admin.enable()[1], 0)
        self.assertEqual(io.connect(1, cntlid & 0xffff, host=host, subsystem=subsystem.encode())[1], 0)
        return admin, io

    def close_queues(self, hosts):
        for admin, io in hosts:
            io.s.close()
            admin.s.close()

    def test_a_device_that_never_answers_does_not_starve_other_hosts(self):
        self.engine_.rpc("bdev_error_inject_error", name="EE_Disk1", io_type="read", error_type="pending", num=1 << 20)
        hosts = [subprocess.Popen([FATHOM, "perf", "-a", "127.0.0.1", "-s", str(self.engine_.port), "-n", HUNG, "--bs", "64k", "--depth", "128",
                                   "--time", "600", "--timeout", "0", "--hostnqn", f"nqn.2026-11.org.fathom:hung{i}"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for i in range(3)]
        try:
            self.wait_buffers(lambda b: b["lent_bytes"] + b["waiting"] * BYTES >= 3 * 127 * BYTES, "three hosts with 127 reads each")
            self.check_fast_host()
            held = self.buffers()
            self.assertEqual([user["name"] for user in held["bdevs"] if user["lent_bytes"]], ["EE_Disk1"])
        finally:
            for host in hosts:
                host.kill()
                host.wait()
        # the device keeps its buffers after its hosts have gone
        self.wait_buffers(lambda b: b["waiting"] == 0, "what waited ends with its connection")
        left = self.buffers()
        self.assertEqual(left["lent_bytes"], held["lent_bytes"])
        self.check_fast_host()
        # however often a host reconnects, it gets one host's share
        for _ in range(4):
            again = self.connect_queues(9, HUNG)
            again[1].s.sendall(b"".join(hostile.capsule(hostile.read(cid, hostile.LARGE)) for cid in range(DEPTH)))
            self.wait_buffers(lambda b: any(user["host"].endswith("slow9") and user["lent_bytes"] + user["waiting"] * hostile.LARGE >=
                                          DEPTH * hostile.LARGE for user in b["hosts"]), "the fourth host's reads")
            self.close_queues([again])
        self.check_fast_host()
        self.assertLess(self.buffers()["lent_bytes"], left["most_bytes"] // 2)

    def check_slow_hosts(self, command):
        hosts = [self.connect_queues(i) for i in range(3)]
        for _, io in hosts:
            io.s.sendall(b"".join(hostile.capsule(command(cid, hostile.LARGE)) for cid in range(DEPTH)))
        self.wait_buffers(lambda b: len(b["hosts"]) >= 3 and b["waiting"] > 0, "three hosts want more than their share")
        self.check_fast_host()
        self.assertLessEqual(self.buffers()["lent_bytes"], self.buffers()["most_bytes"] // 2)
        self.close_queues(hosts)
        self.wait_buffers(lambda b: b["lent_bytes"] == 0, "all is free when they have left")
        self.check_fast_host()

    def test_hosts_that_do_not_read_do_not_starve_others(self):
        self.check_slow_hosts(hostile.read)

    def test_hosts_that_do_not_send_requested_data_do_not_starve_others(self):
        self.check_slow_hosts(write)

    def test_an_r2t_does_not_wait_for_all_data_of_reads(self):
        """The engine sends the R2T of a write between the data of many reads that wait for the socket."""
        admin, io = self.connect_queues(0)
        io.s.sendall(b"".join(hostile.capsule(hostile.read(cid, hostile.LARGE)) for cid in range(DEPTH)))
        self.wait_buffers(lambda b: b["lent_bytes"] + b["waiting"] * hostile.LARGE > DEPTH // 2 * hostile.LARGE, "the reads are executed")
        io.s.sendall(hostile.capsule(write(DEPTH, hostile.LARGE)))
        pdu, ahead = None, 0
        while pdu is None or pdu[0] != hostile.R2T:
            pdu = io.pdu()
            ahead += len(pdu)
        # the kernel holds 4 MiB for a connection (tcp_wmem), and one send is 2 MiB
        self.assertLess(ahead, DEPTH * hostile.LARGE * 2 // 3)
        self.close_queues([(admin, io)])

    def test_the_queues_of_one_host_share_the_buffers_of_one_host(self):
        """A host with eight queues that does not send holds no more than one with one queue."""
        admin, first = self.connect_queues(0)
        first.s.sendall(b"".join(hostile.capsule(write(cid, hostile.LARGE)) for cid in range(DEPTH)))
        fair = self.wait_buffers(lambda b: b["lent_bytes"] > 0, "the first queue")["fair_bytes"]
        cntlid = self.engine_.rpc("nvmf_subsystem_get_controllers", nqn=NQN)[0]["cntlid"]
        more = []
        for qid in range(2, 9):
            more.append(hostile.Host(self.engine_))
            self.assertEqual(more[-1].connect(qid, cntlid, host=b"nqn.2026-11.org.fathom:slow0")[1], 0)
            more[-1].s.sendall(b"".join(hostile.capsule(write(cid, hostile.LARGE)) for cid in range(DEPTH)))
        self.wait_buffers(lambda b: b["waiting"] > 3 * DEPTH, "most queues wait")
        self.assertLess(self.buffers()["lent_bytes"], 3 * fair)     # 1 + 1/2 + ... + 1/8 shares are 2.7
        self.assertGreater(self.buffers()["lent_bytes"], fair // 8)
        self.check_fast_host()
        self.close_queues([(admin, first)])
        for queue in more:
            queue.s.close()
        self.wait_buffers(lambda b: b["lent_bytes"] == 0, "all is free when it has left")


class Limits(EngineTest):
    """The transport at the largest sizes that it accepts."""
    LARGEST = "-q 1024 -a 256 -i 8388608 -c 65536"

    def serve_engine(self, options):
        engine = self.engine("-m", "0x1")
        engine.run_commands(f"""nvmf_create_transport -t tcp {options}
bdev_malloc_create -b Disk0 128 512
bdev_uring_create {self.file("disk", 128)} Disk1 4096
nvmf_create_subsystem {NQN} -a -s SPDK00000000000001 -m 10
nvmf_subsystem_add_ns {NQN} Disk0
nvmf_subsystem_add_ns {NQN} Disk1
nvmf_subsystem_add_listener {NQN} -t tcp -a 127.0.0.1 -s {engine.port}
""")
        return engine

    def test_io_of_8_mib_is_verified_with_and_without_digests(self):
        engine = self.serve_engine(self.LARGEST)
        for nsid in 1, 2:
            for digests in [], ["--hdgst", "--ddgst"], ["--no-flow-control"]:
                with self.subTest(nsid=nsid, digests=digests):
                    engine.perf("--nsid", nsid, "--bs", "8m", "--depth", 12, "--rw", "mix", "--count", 60, "--verify", "--timeout", "0", *digests)

    def test_1023_commands_of_one_queue_are_executed_at_once(self):
        engine = self.serve_engine(self.LARGEST)
        engine.run_commands(f"bdev_null_create Disk2 100 4096\nbdev_error_create Disk2\nnvmf_subsystem_add_ns {NQN} EE_Disk2 -n 3\n")
        engine.rpc("bdev_error_inject_error", name="EE_Disk2", io_type="read", error_type="pending", num=1 << 20)
        host = subprocess.Popen([FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", NQN, "--nsid", "3", "--bs", "4k", "--depth", "1023",
                                 "--time", "600", "--timeout", "0"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for _ in range(200):
                if engine.rpc("nvmf_get_stats")["poll_groups"][0]["pending_bdev_io"] >= 1023:
                    break
                time.sleep(0.05)
            self.assertEqual(engine.rpc("nvmf_get_stats")["poll_groups"][0]["pending_bdev_io"], 1023)
            stuck = engine.trace("stuck", "--older-than", "0", "-f", engine.trace_path, check=False).stdout
            self.assertEqual(sum(line.startswith("nvmf_req") for line in stuck.splitlines()), 1023)
        finally:
            host.kill()
            host.wait()

    def test_io_with_in_capsule_data_of_64_kib_and_deep_queues_is_verified(self):
        engine = self.serve_engine(self.LARGEST)
        for options in ["--bs", "64k"], ["--bs", "4k", "--no-flow-control"], ["--bs", "16k", "--ddgst"]:
            for nsid in 1, 2:
                engine.perf("--nsid", nsid, "--rw", "mix", "--depth", 1023, "--count", 6000, "--verify", "--timeout", "0", *options)

    def test_transport_options_above_the_largest_are_refused(self):
        engine = self.engine()
        for name, value, most in (("max_queue_depth", 1025, "1024"), ("max_aq_depth", 257, "256"), ("max_io_size", 16 << 20, "8388608"),
                                  ("in_capsule_data_size", 65552, "65536")):
            with self.assertRaisesRegex(Exception, most):
                engine.rpc("nvmf_create_transport", trtype="TCP", **{name: value})

    def test_an_idle_connection_uses_less_than_40_kib_also_after_a_burst(self):
        """With small and with the largest queues."""
        for options in "", self.LARGEST:
            with self.subTest(options):
                engine = self.serve_engine(options)
                first = connect_idle_host(engine)
                before = engine.resident_kib()
                # each a host of its own, as one host may have 64 controllers
                hosts = [connect_idle_host(engine, b"nqn.2026-01.io.fathom:host%d" % number) for number in range(100)]
                each = (engine.resident_kib() - before) / (2 * len(hosts))
                self.assertLess(each, 40, "KiB for an idle connection")
                for _, io in hosts:
                    io.s.sendall(b"".join(hostile.capsule(hostile.read(cid, 8192)) for cid in range(100)))
                    for _ in range(100):
                        io.pdu()
                        io.pdu()
                for _ in range(100):
                    if engine.resident_kib() - before < 2 * len(hosts) * 40:
                        break
                    time.sleep(0.2)
                self.assertLess((engine.resident_kib() - before) / (2 * len(hosts)), 40, "KiB, after it was busy")
                for admin, io in first, *hosts:
                    admin.s.close()
                    io.s.close()
                self.assertEqual(engine.stop(), 0)


def connect_idle_host(engine, host=b"nqn.2026-01.io.fathom:host"):
    """Connect the admin and one I/O queue of a host that stays idle."""
    admin, io = hostile.Host(engine), hostile.Host(engine)
    cntlid, status = admin.connect(host=host)
    assert status == 0
    admin.enable()
    assert io.connect(1, cntlid & 0xffff, host=host)[1] == 0
    return admin, io


if __name__ == "__main__":
    unittest.main()
