#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The trace's rings and bpftrace must record equal events of one workload.

    python3 test/vm/test_usdt.py -v

The engine runs in the guest, since the probes need a kernel with uprobes and its right to use them. bpftrace prints every
probe of the table with all of its arguments; `fathom trace show --json` prints what the rings hold. Between two marks both
must have the same events: as often, with the same ticks, objects and arguments, in the same order on each thread and for
each object.
"""

import base64
import collections
import gzip
import json
import pathlib
import re
import subprocess
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "usdt")]

import events       # noqa: E402
import guest        # noqa: E402
import kernel       # noqa: E402
import targets      # noqa: E402

MEMORY_MB = 1536                # includes the filesystem and bpftrace's compiler
NQN = "nqn.2016-06.io.spdk:cnode1"
# 4 reads of each 1 fail on E0: errors are also events
CONFIGURE = f"""framework_wait_init
bdev_malloc_create 32 512 -b M0
bdev_malloc_create 32 4096 -b M1
bdev_error_create M1
bdev_error_inject_error EE_M1 read failure -n 5
nvmf_create_transport -t tcp
nvmf_create_subsystem {NQN} -a -s SPDK00000000000001 -m 8
nvmf_subsystem_add_ns {NQN} M0
nvmf_subsystem_add_ns {NQN} EE_M1
nvmf_subsystem_add_listener {NQN} -t tcp -a 127.0.0.1 -s 4420
"""
PERF = f"fathom perf -a 127.0.0.1 -s 4420 -n {NQN} --quiet --count"
WORKLOAD = [
    (0, f"{PERF} 400 --rw mix --verify --depth 16 --queues 2"),
    (0, f"{PERF} 30 --rw write --bs 128k --depth 4 --hdgst --ddgst"),
    (1, f"{PERF} 20 --nsid 2 --rw read --depth 2"),
    # a foreign host: the kernel
    (0, f"nvme connect -t tcp -a 127.0.0.1 -s 4420 -n {NQN} --nr-io-queues=2"),
    (0, "while [ ! -b /dev/nvme0n1 ]; do sleep 0.1; done; "
        "dd if=/dev/zero of=/dev/nvme0n1 bs=64k count=8 oflag=direct && "
        "dd if=/dev/nvme0n1 of=/dev/null bs=4k count=50 iflag=direct"),
    (0, f"echo 'nvmf_subsystem_remove_ns {NQN} 2' | fathom rpc"),
    (0, f"nvme disconnect -n {NQN}"),
]
ENGINE = "/usr/bin/fathom-engine"
POINTS_MIN = 80
EVENTS_MIN = 3000
ATTACH_TIMEOUT_S = 240
BEGIN_MARK, END_MARK = "spdk_get_version", "rpc_get_methods"


def between_marks(all_events):
    """The events from the first call of BEGIN_MARK after which none is missing, to END_MARK's call."""
    marks = {mark: [event.tick for event in all_events if event.name == "rpc_request_received" and mark in event.args]
             for mark in (BEGIN_MARK, END_MARK)}
    begin, end = marks[BEGIN_MARK][-1], marks[END_MARK][-1]
    return [event for event in all_events if begin < event.tick < end]


class TestUsdt(events.Compare, unittest.TestCase):
    """An engine in the guest, with bpftrace on all of its probes."""

    @classmethod
    def setUpClass(cls):
        try:
            cls.engine, command = targets.engine_binaries()
            programs = [cls.engine, command, kernel.need_program("bpftrace", "bpftrace")]
            cls.model = events.table()
            cls.layout = events.Layout(cls.engine, cls.model)
            cls.host = guest.boot(programs, MEMORY_MB)
        except kernel.Missing as missing:
            raise unittest.SkipTest(str(missing)) from None
        cls.addClassCleanup(cls.host.close)
        cls.host.check("mount -t debugfs debug /sys/kernel/debug; mkdir -p /dev/shm /var/tmp; mount -t tmpfs shm /dev/shm")

    def read(self, path):
        """A file of the guest."""
        return gzip.decompress(base64.b64decode(self.host.check(f"gzip -c {path} | base64", 120))).decode(errors="replace")

    def mark(self, method):
        self.host.check(f"echo {method} | fathom rpc >/dev/null")

    def attach(self):
        """Start bpftrace, and wait until all probes are attached."""
        # functions that the engine does not use, such as walks over all channels, are not linked into it
        there = {line.rsplit(":", 1)[1] for line in self.host.check(f"bpftrace -l 'usdt:{ENGINE}:*'").split()}
        self.assertGreater(len(there), POINTS_MIN)
        self.write("/tmp/all.bt", events.script(self.model, self.layout, ENGINE, there))
        self.tracer = self.host.start("BPFTRACE_PERF_RB_PAGES=2048 bpftrace -B line -o /tmp/seen /tmp/all.bt 2>/tmp/said", 600)
        deadline = time.monotonic() + ATTACH_TIMEOUT_S
        seen = ""
        while "rpc_connection_open\t" not in seen or "rpc_request_received\t" not in seen:
            if time.monotonic() > deadline or self.host.is_done(self.tracer):
                self.fail(f"bpftrace did not attach:\n{self.host.run('cat /tmp/said; tail -5 /tmp/seen')[1]}")
            self.mark("framework_wait_init")
            seen = self.host.run("head -c 20000 /tmp/seen")[1]
        time.sleep(0.2)

    def write(self, path, text):
        packed = base64.b64encode(gzip.compress(text.encode())).decode()
        self.host.check(f"echo {packed} | base64 -d | gzip -dc > {path}")

    def detach(self):
        self.host.check("killall -INT bpftrace")
        self.host.wait(self.tracer)
        self.assertNotIn("Lost", self.host.run("cat /tmp/said")[1], "bpftrace lost events")

    def test_rings_and_probes_have_the_same_events(self):
        engine = self.host.start("fathom-engine -m 3 >/tmp/engine.log 2>&1", 600)
        self.host.check("while [ ! -S /var/tmp/fathom.sock ]; do sleep 0.1; done")
        self.write("/tmp/configure", CONFIGURE)
        self.host.check("fathom rpc </tmp/configure")
        self.attach()
        self.mark(BEGIN_MARK)
        for wanted, command in WORKLOAD:
            status, output = self.host.run(command, 240)
            self.assertEqual(status, wanted, f"{command}\n{output}")
        self.mark(END_MARK)
        time.sleep(1)
        self.detach()
        loaded_at = int(self.host.check("head -1 /proc/$(pidof fathom-engine)/maps").split("-")[0], 16)
        tids = {thread["name"]: thread["tid"] for line in self.host.check("fathom trace threads --json").splitlines()
                if "tid" in (thread := json.loads(line))}
        self.host.check("fathom trace show --json >/tmp/shown; kill -TERM $(pidof fathom-engine)", 120)
        self.assertEqual(self.host.wait(engine)[0], 0, self.host.run("cat /tmp/engine.log")[1])
        shown = between_marks(events.from_trace(self.read("/tmp/shown"), tids))
        seen = between_marks(events.from_bpftrace(self.model, self.read("/tmp/seen"), loaded_at))
        self.assertGreater(len(shown), EVENTS_MIN)
        self.check_same(seen, shown)


if __name__ == "__main__":
    unittest.main()
