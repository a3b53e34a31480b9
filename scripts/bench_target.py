# SPDX-License-Identifier: BSD-2-Clause
"""
bench_target - measurements of `bench` with many hosts, slow hosts, hung devices, and SPDK's target.
"""

import json
import os
import re
import resource
import signal
import statistics
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "test", "system"))
import test_hostile as hostile  # noqa: E402  an NVMe/TCP host, byte by byte

NQN = "nqn.2016-06.io.spdk:cnode1"
MALLOC = f"""bdev_malloc_create -b Disk0 64 512
nvmf_create_subsystem {NQN} -a -s FATHOMBENCH00001 -m 10
nvmf_subsystem_add_ns {NQN} Disk0
nvmf_subsystem_add_listener {NQN} -t tcp -a 127.0.0.1 -s {{port}}
"""


class Address:
    """The address to which a Host of the system tests connects."""

    def __init__(self, server):
        self.port = int(server.port)


# ---- memory of idle connections ----

QUEUES = 100  # of a host: one admin queue, and I/O queues


def connect_hosts(server, count):
    """Open `count` idle connections, and return them."""
    connections = []
    while len(connections) < count:
        name = b"nqn.2026-11.org.fathom:idle%d" % len(connections)
        admin = hostile.Host(Address(server))
        cntlid, status = admin.connect(host=name, subsystem=NQN.encode())
        if status != 0 or admin.enable()[1] != 0:
            sys.exit(f"bench: connecting a host: status {status}")
        connections.append(admin)
        for qid in range(1, min(QUEUES, count - len(connections) + 1)):
            connections.append(hostile.Host(Address(server)))
            status = connections[-1].connect(qid, cntlid & 0xffff, host=name, subsystem=NQN.encode())[1]
            if status != 0:
                sys.exit(f"bench: connecting queue {qid}: status {status}")
    return connections


def bench_connections(server_class, build, report):
    """Resident memory of the engine with many idle connections, without the kernel's memory for them."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    rows = []
    for count in (1000, 10000):
        if hard < count + 1000:
            rows.append([count, "-", "-", "-", f"more than {hard} descriptors are not allowed"])
            continue
        server = server_class(build, "traced", 300 + len(rows), setup="nvmf_create_transport -t tcp --max-connections 16000 "
                              "--max-connections-per-address 16000\n" + MALLOC)
        try:
            for connection in connect_hosts(server, 1):
                connection.s.close()
            before = server.status("VmRSS")
            began = time.monotonic()
            connections = connect_hosts(server, count)
            seconds = time.monotonic() - began
            after = server.status("VmRSS")
            server.perf(0.2, "--bs", "4k", "--depth", "1")
            busy = server.perf(1, "--bs", "4k", "--depth", "1")["total"]["latency_us"]["avg"]
            for connection in connections:
                connection.s.close()
            for _ in range(100):  # until all are closed
                time.sleep(0.1)
                if server.rpc("nvmf_get_stats")["poll_groups"][0]["current_io_qpairs"] == 0:
                    break
            alone = server.perf(1, "--bs", "4k", "--depth", "1")["total"]["latency_us"]["avg"]
        finally:
            server.stop()
        rows.append([count, f"{after / 1024:.1f}", f"{(after - before) / count:.1f}", f"{seconds:.1f}", f"{busy:.1f} / {alone:.1f}"])
        report.line(bench="connections", count=count, resident_mib=after / 1024, kib_each=(after - before) / count,
                    latency_us=busy, latency_alone_us=alone)
    report.table("Idle connections", ["connections", "resident, MiB", "KiB each", "connected in, s", "4 KiB read, us: beside them / alone"], rows)


# ---- the speed of a host together with others that do not read, or whose device hangs ----

HUNG = "nqn.2016-06.io.spdk:hung"
DEPTH = 120
SHARING = f"""nvmf_create_transport -t tcp
{MALLOC}bdev_malloc_create -b Disk1 64 512
bdev_error_create Disk1
nvmf_create_subsystem {HUNG} -a -s FATHOMBENCH00002
nvmf_subsystem_add_ns {HUNG} EE_Disk1
nvmf_subsystem_add_listener {HUNG} -t tcp -a 127.0.0.1 -s {{port}}
"""


class OtherHosts:
    """Three hosts with 120 reads of 128 KiB each: from a device that hangs, or received slowly, at 5 MB/s each."""

    def __init__(self, server, kind):
        subsystem = (HUNG if kind == "hung" else NQN).encode()
        self.hosts, self.stop = [], threading.Event()
        if kind == "hung":
            server.rpc("bdev_error_inject_error", "EE_Disk1", "read", "pending", "-n", "100000")
        for number in range(3):
            name = b"nqn.2026-11.org.fathom:%s%d" % (kind.encode(), number)
            admin, io = hostile.Host(Address(server)), hostile.Host(Address(server), receive_bytes=65536)
            cntlid = admin.connect(host=name, subsystem=subsystem)[0]
            admin.enable()
            io.connect(1, cntlid & 0xffff, host=name, subsystem=subsystem)
            io.s.sendall(b"".join(hostile.capsule(hostile.read(cid, hostile.LARGE)) for cid in range(DEPTH)))
            self.hosts.append((admin, io))
        self.thread = threading.Thread(target=self.read) if kind == "slow" else None
        if self.thread:
            self.thread.start()

    def read(self):
        while not self.stop.wait(0.01):
            for _, io in self.hosts:
                taken = 0
                while taken < 50000:
                    taken += len(io.s.recv(50000 - taken))

    def end(self):
        self.stop.set()
        if self.thread:
            self.thread.join()
        for admin, io in self.hosts:
            io.s.close()
            admin.s.close()


def bench_sharing(server_class, build, report, rounds, seconds):
    server = server_class(build, "traced", 400, setup=SHARING)
    rows = []
    try:
        for direction in ("randread", "randwrite"):
            for kind in ("slow", "hung"):
                ratios, iops = [], {"alone": [], "beside": []}
                for _ in range(rounds):
                    # the host's CPU also runs the slow hosts: depth 8 keeps it idle enough, so that only the engine is shared
                    words = (seconds, "--rw", direction, "--bs", "64k", "--depth", "8", "--timeout", "0")
                    iops["alone"].append(server.perf(*words)["total"]["iops"])
                    others = OtherHosts(server, kind)
                    time.sleep(0.2)
                    iops["beside"].append(server.perf(*words)["total"]["iops"])
                    others.end()
                    ratios.append(iops["beside"][-1] / iops["alone"][-1])
                medians = {key: statistics.median(values) for key, values in iops.items()}
                ratio = statistics.median(ratios)
                report.line(bench="sharing", rw=direction, others=kind, iops=medians, beside_to_alone=round(ratio, 4))
                rows.append([f"64k {direction} depth 8, beside three {'slow hosts' if kind == 'slow' else 'hosts of a hung device'}",
                             f"{medians['alone'] / 1000:.1f}k", f"{medians['beside'] / 1000:.1f}k", f"{ratio:.3f}"])
                print(f"  {rows[-1]}", file=sys.stderr)
    finally:
        server.stop()
    report.table("A fast host beside others (IOPS)", ["case", "alone", "beside", "ratio"], rows)


# ---- SPDK's target compared with Fathom's ----

class SpdkTarget:
    """nvmf_tgt of `folder` on CPU 0, with the same configuration as Fathom's engine; untraced, which is its default."""

    def __init__(self, folder, fathom, port):
        self.fathom, self.port, self.sock = fathom, port, f"/tmp/fathom-bench-{os.getpid()}-spdk.sock"
        self.process = subprocess.Popen([os.path.join(folder, "nvmf_tgt"), "-m", "0x1", "-u", "--no-huge", "-s", "1024", "--iova-mode", "va",
                                         "-r", self.sock], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(300):
            if subprocess.run([fathom, "rpc", "-s", self.sock, "framework_wait_init"], capture_output=True).returncode == 0:
                break
            time.sleep(0.1)
        subprocess.run([fathom, "rpc", "-s", self.sock], input="nvmf_create_transport -t tcp\n" + MALLOC.format(port=port), text=True,
                       check=True, stdout=subprocess.DEVNULL)

    def stop(self):
        self.process.terminate()
        self.process.wait(10)


def reactor_seconds(target):
    """The busy time of its reactor, in seconds."""
    reactors = json.loads(subprocess.run([target.fathom, "rpc", "-s", target.sock, "framework_get_reactors"], stdout=subprocess.PIPE, text=True,
                                         check=True).stdout)
    return reactors["reactors"][0]["busy"] / reactors["tick_rate"]


def congestion_control():
    """The congestion control of new connections. With bbr the kernel paces the host's writes, which limits both targets."""
    with open("/proc/sys/net/ipv4/tcp_congestion_control", encoding="ascii") as file:
        return file.read().strip()


def run_host(server_class, target, folder, seconds, size, direction, depth):
    """I/Os per second: by SPDK's initiator if `folder` has it, else by `fathom perf`."""
    program = os.path.join(folder, "spdk_nvme_perf")
    if not os.path.exists(program):
        return server_class.perf(target, seconds, "--warmup", "0.1", "--rw", direction, "--bs", size, "--depth", depth)["total"]["iops"]
    done = subprocess.run([program, "-c", "0x2", "--no-huge", "-s", "512", "--iova-mode", "va", "-q", depth, "-o", str(int(size[:-1]) * 1024), "-w",
                           direction, "-t", str(max(1, int(seconds))), "-r",
                           f"trtype:TCP adrfam:IPv4 traddr:127.0.0.1 trsvcid:{target.port} subnqn:{NQN}"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    return float(re.search(r"^Total\s*:\s*([\d.]+)", done.stdout, re.M).group(1))


def bench_spdk(server_class, build, report, rounds, seconds, port):
    """Fathom traced and SPDK untraced in turn, each on CPU 0 while the other is stopped."""
    folder = os.environ.get("FATHOM_SPDK_BIN")
    if not folder:
        report.table("Beside SPDK's target", ["FATHOM_SPDK_BIN does not say where nvmf_tgt is: left out"], [])
        return
    ours = server_class(build, "traced", 500, setup="nvmf_create_transport -t tcp\n" + MALLOC)
    targets = {"fathom": ours, "spdk": SpdkTarget(folder, ours.fathom, port)}
    for target in targets.values():
        target.process.send_signal(signal.SIGSTOP)
    rows = []
    try:
        for size in ("4k", "128k"):
            for direction in ("randread", "randwrite"):
                for depth in ("1", "32", "127"):
                    iops = {name: [] for name in targets}
                    busy_us = {name: [] for name in targets}
                    for _ in range(rounds):
                        for name, target in targets.items():
                            target.process.send_signal(signal.SIGCONT)
                            before = reactor_seconds(target)
                            iops[name].append(run_host(server_class, target, folder, seconds, size, direction, depth))
                            busy_us[name].append((reactor_seconds(target) - before) / (iops[name][-1] * max(1, int(seconds))) * 1e6)
                            target.process.send_signal(signal.SIGSTOP)
                    ratio = statistics.median(a / b for a, b in zip(iops["fathom"], iops["spdk"]))
                    medians = {name: statistics.median(values) for name, values in iops.items()}
                    us = {name: statistics.median(values) for name, values in busy_us.items()}
                    report.line(bench="spdk", size=size, rw=direction, depth=int(depth), congestion=congestion_control(), iops=medians,
                                reactor_us=us, ratio=round(ratio, 4))
                    rows.append([f"{size} {direction} depth {depth}", f"{medians['fathom'] / 1000:.1f}k", f"{medians['spdk'] / 1000:.1f}k",
                                 f"{ratio:.2f}", f"{us['fathom']:.2f}", f"{us['spdk']:.2f}"])
                    print(f"  {rows[-1]}", file=sys.stderr)
    finally:
        for target in targets.values():
            target.process.send_signal(signal.SIGCONT)
            target.stop()
    report.table(f"Beside SPDK's target, malloc device, {congestion_control()} (IOPS; busy: the reactor's time for an I/O)",
                 ["case", "ours, traced", "SPDK's, untraced", "ratio", "busy, us", "SPDK's"], rows)
