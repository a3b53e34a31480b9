# SPDX-License-Identifier: BSD-2-Clause
"""
bench_blame - the cost of what the engine records for `fathom blame` alone: the kernel's counters of a connection, read where a request waits for its
host, and the records of them. One engine, whose points are switched on and off in turns, as a ratio: of I/Os in a second, and of I/Os in a second of the
core's CPU time, which other programs of the machine disturb less.
"""

import sys

GROUP = "nvmf_tcp"
POINTS = "tcp_waited+tcp_info+tcp_path+tcp_h2c_data"
# no wait; each write waits for its data; each read waits for room in the socket
CASES = (("4k", "randread", "127"), ("64k", "randwrite", "32"), ("128k", "randread", "127"))


def find_mask(server_class, build):
    server = server_class(build, "untraced", 600, "-e", f"{GROUP}:{POINTS}")
    try:
        return server.rpc("trace_get_tpoint_group_mask")[GROUP]["mask"]
    finally:
        server.stop()


def bench_blame(server_class, build, report, helpers, slices, seconds):
    """`helpers`: the functions cpu_ns() and middle_half() of bench."""
    cpu_ns, middle_half = helpers
    mask, rows = find_mask(server_class, build), []
    server = server_class(build, "traced", 601)
    pid = server.process.pid
    try:
        core = server.rpc("framework_get_reactors")["reactors"][0]["tid"]
        for size, direction, depth in CASES:
            ratios, core_ratios = [], []
            for number in range(slices):
                iops, per_core = {}, {}
                for switch in ("set", "clear") if number % 2 else ("clear", "set"):
                    server.rpc(f"trace_{switch}_tpoint_mask", GROUP, mask)
                    began = cpu_ns(pid, core)
                    iops[switch] = server.perf(seconds, "--rw", direction, "--bs", size, "--depth", depth)["total"]["iops"]
                    per_core[switch] = iops[switch] * seconds * 1e9 / (cpu_ns(pid, core) - began)
                ratios.append(iops["set"] / iops["clear"])
                core_ratios.append(per_core["set"] / per_core["clear"])
            (mean, error), (core_mean, core_error) = middle_half(ratios), middle_half(core_ratios)
            report.line(bench="blame", size=size, rw=direction, depth=int(depth), with_to_without=round(mean, 4), error=round(error, 4),
                        core_with_to_without=round(core_mean, 4), core_error=round(core_error, 4))
            rows.append([f"{size} {direction} depth {depth}", f"{mean:.4f}", f"{error:.4f}", f"{core_mean:.4f}", f"{core_error:.4f}"])
            print(f"  {rows[-1]}", file=sys.stderr)
    finally:
        server.stop()
    report.table("Cost of the records for fathom blame", ["case, with/without", "IOPS", "+-", "I/Os per CPU second", "+-"], rows)
