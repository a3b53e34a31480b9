# SPDX-License-Identifier: BSD-2-Clause
"""Checks of what scripts printed on an engine: counts of those in probes/ against its trace; the order of printed lines."""

import json
import re

FAILURES = 4    # reads that were made to fail, on EE_M1
LINES = 'usdt:__EXE__:bdev_io_submit { printf("%lu %d %s\\n", nsecs, tid, @io_type[arg2]); }'


def lines_in_order(test, printed):
    """
    `printed` by `fathom probe run --json` with LINES: [time, thread, type] of each line, which must be in the order of time.

    The order is that of `time_ns`, which is read just before the line's own time. A machine may stop in between, so the lines' own
    times can be out of order; but each is between its `time_ns` and the next `time_ns` of its thread.
    """
    rows = [row for row in map(json.loads, printed.splitlines()) if row["type"] == "printf"]
    lines = [row["data"].split() for row in rows]
    times = [row["time_ns"] for row in rows]
    test.assertEqual(times, sorted(times))
    latest = {}
    for (own, thread, _), ns in zip(lines, times):
        test.assertLessEqual(latest.get(thread, 0), ns)
        test.assertLessEqual(ns, int(own))
        latest[thread] = int(own)
    return lines


def counts_of_summary(summary):
    """From the output of `fathom trace summary --json`: {event: count, (type of request, stage): count}."""
    rows = [json.loads(line) for line in summary.splitlines()]
    counted = {row["name"]: row["count"] for row in rows if "group" in row}
    counted.update({(row["object_type"], row["stage"]): row["count"] for row in rows if "stage" in row and "avg_us" in row})
    return counted


def assert_scripts_match_trace(test, printed, new):
    """`printed`: {script: its output}; `new`: counts_of_summary() for the same period. `test`: the unittest.TestCase."""
    def total(name, pattern):
        return sum(int(number) for number in re.findall(pattern, printed[name], re.MULTILINE))

    def rows_of_histogram(name, key):
        part = re.search(rf"^@{key}: ?\n((?:[\[(].*\n)+)", printed[name], re.MULTILINE)
        return sum(int(number) for number in re.findall(r"\) +(\d+) \||\] +(\d+) \|", part[1]) for number in number if number)

    test.assertEqual(total("count_submits", r"^@by_device\[\w+\]: (\d+)"), new["bdev_io_submit"])
    test.assertEqual(total("count_submits", r"^submits/sec: (\d+)"), new["bdev_io_submit"])
    for stage in ("RECEIVED", "EXECUTING", "COMPLETED"):
        test.assertEqual(rows_of_histogram("stages", rf"us\[{stage}\]"), new["nvmf_req", stage], stage)
    test.assertEqual(sum(rows_of_histogram("queue_depth", rf"all\[{device}\]") for device in ("Malloc0", "M1", "EE_M1")), new["bdev_io_done"])
    test.assertEqual(total("errors", r"^@device\[EE_M1, FAILED\]: (\d+)"), new.get("bdev_io_error", 0))
    test.assertEqual(total("errors", r"^@command\[2, \w+\]: (\d+)"), FAILURES)
    test.assertEqual(total("errors", r"^@command\[\w+, \w+\]: (\d+)"), new["nvmf_command_failed"])
    test.assertEqual(total("connections", r"^@came: (\d+)"), new["tcp_accept"])
    test.assertEqual(total("connections", r"^@went: (\d+)"), new["tcp_close"])
    test.assertEqual(total("connections", r"^@queues: (\d+)"), new["nvmf_ctrlr_add_qpair"])
    test.assertEqual(total("slowest", r"^@commands: (\d+)"), new["nvmf_req", None])
    test.assertEqual(len(re.findall(r" took \d+ us$", printed["slowest"], re.MULTILINE)), total("slowest", r"^@slow: (\d+)"))
    test.assertEqual(total("latency_by_host", r"^@commands: (\d+)"), new["nvmf_req", None])
    test.assertEqual(sum(rows_of_histogram("latency_by_host", rf"us\[{re.escape(host)}\]")
                         for host in re.findall(r"^@us\[(.*)\]:", printed["latency_by_host"], re.MULTILINE)), new["nvmf_req", None])
    test.assertEqual(total("messages", r"^@messages: (\d+)"), new["thread_msg_executed"])
    test.assertEqual(total("send_msg", r"^@send_msg\[\w+\]: (\d+)"), new["thread_send_msg"])
    test.assertEqual(total("send_msg", r"^@for_each_channel\[\w+\]: (\d+)"), new["for_each_channel"])
    test.assertGreaterEqual(total("busy", r"^@woken_by\[\w+\]: (\d+)"), new["reactor_wake"])
    shares = [int(share) for share in re.findall(r"^reactor \d: busy (\d+) %$", printed["busy"], re.MULTILINE)]
    test.assertTrue(shares and all(0 <= share <= 100 for share in shares), printed["busy"])
    test.assertIn("nqn.2016-06.io.spdk:cnode1 change state from ACTIVE to INACTIVE start", printed["nvmf"])
    test.assertEqual(len(re.findall("change state from .* done$", printed["nvmf"], re.MULTILINE)), new["nvmf_subsystem_change_state_done"])
    test.assertEqual(len(re.findall("on thread .* done$", printed["nvmf"], re.MULTILINE)), new["nvmf_pg_change_state_done"])
    test.assertGreater(total("syscalls", r"^@calls\[sendmsg, 46\]: (\d+)"), 0)
