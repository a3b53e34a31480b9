# SPDX-License-Identifier: BSD-2-Clause
"""
bench_paranoid - a file on an engine with --paranoid beside the same on one without, in turns, as a ratio: of I/Os in a second, and of the engine's CPU
time for an I/O, which other programs of the machine disturb less.
"""

import os
import shutil
import statistics
import sys
import tempfile

NQN = "nqn.2016-06.io.spdk:cnode1"
FILE_BYTES = 64 << 20
SETUP = f"""nvmf_create_transport -t tcp
bdev_uring_create {{path}} u0 4096
nvmf_create_subsystem {NQN} -a -s FATHOMBENCH00001 -m 10
nvmf_subsystem_add_ns {NQN} u0 -n 1
nvmf_subsystem_add_listener {NQN} -t tcp -a 127.0.0.1 -s {{{{port}}}}
"""
BLOCKS = FILE_BYTES // 4096     # all of the file is kept, so each read is compared
KINDS = {"plain": [], "paranoid": ["--paranoid", str(BLOCKS)]}


def cpu_seconds(server):
    with open(f"/proc/{server.process.pid}/stat") as file:
        words = file.read().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def compare(servers, report, rounds, seconds):
    rows = []
    for server in servers.values():
        server.perf(max(1.0, seconds), "--rw", "write", "--bs", "128k", "--depth", "8")
    for size in ("4k", "128k"):
        for direction in ("randread", "randwrite"):
            iops, ratios, cpu, count = {kind: [] for kind in KINDS}, [], dict.fromkeys(KINDS, 0.0), dict.fromkeys(KINDS, 0)
            for _ in range(rounds):
                for kind, server in servers.items():
                    began = cpu_seconds(server)
                    done = server.perf(seconds, "--rw", direction, "--bs", size, "--depth", "32")
                    cpu[kind] += cpu_seconds(server) - began
                    count[kind] += done["total"]["iops"] * seconds
                    iops[kind].append(done["total"]["iops"])
                ratios.append(iops["paranoid"][-1] / iops["plain"][-1])
            medians = {kind: statistics.median(values) for kind, values in iops.items()}
            ratio = statistics.median(ratios)
            cost = {kind: cpu[kind] / count[kind] * 1e6 for kind in KINDS}
            report.line(bench="paranoid", size=size, rw=direction, iops=medians, paranoid_to_plain=round(ratio, 4), cpu_us=cost)
            rows.append([f"{size} {direction} depth 32", *(f"{medians[kind] / 1000:.1f}k" for kind in KINDS), f"{ratio:.3f}",
                         *(f"{cost[kind]:.2f}" for kind in KINDS), f"{cost['paranoid'] / cost['plain']:.3f}"])
            print(f"  {rows[-1]}", file=sys.stderr)
    return rows


def bench_paranoid(server_class, build, report, rounds, seconds):
    folder = tempfile.mkdtemp(prefix="fathom-bench-", dir=build)
    servers = {}
    try:
        for number, (kind, options) in enumerate(KINDS.items()):
            path = os.path.join(folder, kind)
            with open(path, "wb") as file:
                os.posix_fallocate(file.fileno(), 0, FILE_BYTES)
            servers[kind] = server_class(build, "untraced", 510 + number, *options, setup=SETUP.format(path=path))
        rows = compare(servers, report, rounds, seconds)
    finally:
        for server in servers.values():
            server.stop()
        shutil.rmtree(folder)
    report.table("An engine with --paranoid beside one without (IOPS; CPU time of an I/O in us)",
                 ["case", "plain", "paranoid", "paranoid/plain", "CPU plain", "CPU paranoid", "CPU ratio"], rows)
