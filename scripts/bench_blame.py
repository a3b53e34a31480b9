# SPDX-License-Identifier: BSD-2-Clause
"""
bench_blame - the cost of what the engine records for `fathom blame` alone: the kernel's counters of a connection, read where a request waits for its
host, and the records of them. One engine, whose points are switched on and off in turns, as a ratio: of I/Os in a second, and of I/Os in a second of the
core's CPU time, which other programs of the machine disturb less.
"""

import contextlib
import sys

from bench_pairs import compare

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


def bench_blame(server_class, build, report, slices, seconds):
    mask, rows = find_mask(server_class, build), []
    server = server_class(build, "traced", 601)

    @contextlib.contextmanager
    def recording(on):
        server.rpc(f"trace_{'set' if on else 'clear'}_tpoint_mask", GROUP, mask)
        yield

    try:
        for size, direction, depth in CASES:
            ratios = compare(server, slices, seconds, ("--rw", direction, "--bs", size, "--depth", depth), recording)
            report.line(bench="blame", size=size, rw=direction, depth=int(depth), **ratios.fields("with_to_without"))
            rows.append([f"{size} {direction} depth {depth}", *ratios.cells()])
            print(f"  {rows[-1]}", file=sys.stderr)
    finally:
        server.stop()
    report.table("Cost of the records for fathom blame", ["case, with/without", "IOPS", "+-", "I/Os per CPU second", "+-"], rows)
