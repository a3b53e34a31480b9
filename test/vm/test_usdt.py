#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The trace against bpftrace: one workload, seen by the rings and by the kernel's probes, and nothing may differ.

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
SOURCES = HERE.parents[1] / "src"
sys.path[:0] = [str(HERE), str(SOURCES / "observe" / "probe")]

import generate     # noqa: E402
import guest        # noqa: E402
import kernel       # noqa: E402
import targets      # noqa: E402

MEMORY_MB = 1536                # the filesystem is in it, and bpftrace's compiler is large
NQN = "nqn.2016-06.io.spdk:cnode1"
# 4 reads of each 1 fail on E0: errors are events, too
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
    # a kernel as the host, which nobody here wrote
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
NARROW = {"u8": 8, "hex8": 8, "u16": 16, "hex16": 16, "bool": 8}
STRING_BYTES = 64               # of bpftrace, with the NUL
ATTACH_TIMEOUT_S = 240
BEGIN_MARK, END_MARK = "spdk_get_version", "rpc_get_methods"


def table():
    """The probes that the engine was made from. Types of objects are numbered in the build's order of the modules."""
    model = generate.Model("fathom")
    modules = re.search(r"probe_modules = \[(.*?)\]", (SOURCES / "observe" / "meson.build").read_text(), re.DOTALL)
    for module in re.findall(r"'(.+?)'", modules[1]):
        model.read(module, str(SOURCES / module / "probes.def"))
    model.link()
    return model


class Layout:
    """Where the id of an object of each type lies in its structure, from the engine's debug information."""

    def __init__(self, engine, model):
        gdb = kernel.need_program("gdb", "gdb")
        names = sorted(model.objects)
        command = [gdb, "-batch", "-nx"]
        for name in names:
            row = model.objects[name]
            command += ["-ex", f"print/d (long)&((struct {row.struct} *)0)->{row.id}.id"]
        done = subprocess.run([*command, str(engine)], capture_output=True, text=True, check=False)
        values = [line.split(" = ")[1] for line in done.stdout.splitlines() if " = " in line]
        if len(values) != len(names):
            raise AssertionError(f"gdb does not find the structures of all objects:\n{done.stdout}{done.stderr}")
        self.offset = {name: int(value) for name, value in zip(names, values)}


def script(model, layout, engine, there):
    """The program for bpftrace: a line for each event of the points `there`, fields apart by tabs."""
    out = []
    for point in probes_in_order(model):
        if point.name not in there:
            continue
        formats, values = ["%s", "%lu", "%d", "%lx"], [f'"{point.name}"', "nsecs", "tid", "arg0"]
        if point.object:
            formats.append("%d")
            values.append(f"*(uint32 *)(arg{1 + point.usdt.index('object')} + {layout.offset[point.object]})")
        for arg in point.args:
            number = 1 + point.usdt.index(arg.name)
            if arg.kind == "str":
                formats.append("%s")
                values.append(f"str(arg{number})")
            elif arg.kind in ("obj", "ref"):
                offset = layout.offset[arg.object] if arg.kind == "obj" else 0
                formats += ["%d"] * 3       # there at all, id, type
                values += [f"arg{number} != 0", f"*(uint32 *)(arg{number} + {offset})",
                           f"*(uint16 *)(arg{number} + {offset + 6})"]
            else:
                formats.append("%lx")
                values.append(f"arg{number}")
        tabs = "\\t".join(formats)
        out.append(f'usdt:{engine}:fathom:{point.name} {{ printf("{tabs}\\n", {", ".join(values)}); }}')
    return "\n".join(out) + "\n"


def probes_in_order(model):
    """Those of a remote procedure call first and last: when both have been seen, all are attached."""
    points = [point for point in model.points.values() if point.name not in ("rpc_connection_open", "rpc_request_received")]
    return [model.points["rpc_connection_open"], *points, model.points["rpc_request_received"]]


class Event:
    """One event, from either side, in the same words."""

    def __init__(self, name, tick, thread, target, args):
        self.name, self.tick, self.thread, self.target, self.args = name, tick, thread, target, args

    def key(self):
        return self.name, self.tick, self.target, tuple(self.args)

    def __str__(self):
        return f"{self.name} at tick {self.tick}, {self.target}: {self.args}"


def cut(text):
    """As bpftrace cuts it."""
    return text.encode()[:STRING_BYTES - 1].decode(errors="replace")


def from_bpftrace(model, text, loaded_at):
    """Its lines, in the order of the kernel's clock: each CPU has a buffer of its own."""
    rows = [line.split("\t") for line in text.splitlines() if "\t" in line]
    return [event_of_row(model, row, loaded_at) for row in sorted(rows, key=lambda row: int(row[1]))]


def event_of_row(model, row, loaded_at):
    point, fields = model.points[row[0]], iter(row[4:])
    target = None
    if point.object:
        target = f"{model.objects[point.object].prefix}{int(next(fields)) & 0xFFFFFFFF}"
    args = []
    for arg in point.args:
        if arg.kind == "str":
            args.append(next(fields))
        elif arg.kind in ("obj", "ref"):
            there, number, kind = int(next(fields)), int(next(fields)) & 0xFFFFFFFF, int(next(fields)) & 0xFFFF
            if not there:
                args.append(None)
            elif arg.kind == "obj":
                args.append(f"{model.objects[arg.object].prefix}{number}")
            else:
                known = next(row for row in model.objects.values() if row.index == kind)
                args.append(f"{known.prefix}{number & 0xFFFFFF}")
        else:
            args.append(plain(model, arg, int(next(fields), 16) - (loaded_at if arg.kind == "function" else 0)))
    return Event(row[0], int(row[3], 16) & ~1, int(row[2]), target, args)


def plain(model, arg, value):
    """A number as `show --json` has it."""
    bits = NARROW.get(arg.kind) or 8 * generate.SCALARS.get(arg.kind, ("", 4))[1]
    value &= (1 << bits) - 1
    if arg.kind == "enum":
        return next((label for label, number in model.enums[arg.enum].values if number == value), value)
    if arg.kind == "bool":
        return bool(value)
    if arg.kind.startswith("hex") or arg.kind in ("ptr", "function"):
        return f"0x{value:0{bits // 4}x}"
    return value - (1 << bits) if arg.kind.startswith("i") and value >> (bits - 1) else value


def from_trace(text, tids):
    events = []
    for line in text.splitlines():
        row = json.loads(line)
        if "seq" in row:
            args = [cut(value) if isinstance(value, str) else value for value in row["args"].values()]
            events.append(Event(row["name"].lower(), row["tick"], tids[row["thread"]], row.get("object"), args))
    return events


def between_marks(events):
    """From the beginning of the first call of BEGIN_MARK behind which nothing is missing, to END_MARK's."""
    marks = {mark: [event.tick for event in events if event.name == "rpc_request_received" and mark in event.args]
             for mark in (BEGIN_MARK, END_MARK)}
    begin, end = marks[BEGIN_MARK][-1], marks[END_MARK][-1]
    return [event for event in events if begin < event.tick < end]


def by_thread(events):
    order = collections.defaultdict(list)
    for event in events:
        order[event.thread].append(event)
    return order


class TestUsdt(unittest.TestCase):
    """An engine in the guest, with bpftrace on all of its probes."""

    @classmethod
    def setUpClass(cls):
        try:
            cls.engine, command = targets.engine_binaries()
            programs = [cls.engine, command, kernel.need_program("bpftrace", "bpftrace")]
            cls.model = table()
            cls.layout = Layout(cls.engine, cls.model)
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
        """Start bpftrace; it sees every probe when this returns."""
        # what the engine has no use for, such as walks over all channels, is not in it
        there = {line.rsplit(":", 1)[1] for line in self.host.check(f"bpftrace -l 'usdt:{ENGINE}:*'").split()}
        self.assertGreater(len(there), POINTS_MIN)
        self.write("/tmp/all.bt", script(self.model, self.layout, ENGINE, there))
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

    def test_rings_and_probes_tell_the_same(self):
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
        shown = between_marks(from_trace(self.read("/tmp/shown"), tids))
        seen = between_marks(from_bpftrace(self.model, self.read("/tmp/seen"), loaded_at))
        self.check_same(seen, shown)

    def check_same(self, seen, shown):
        self.assertGreater(len(shown), EVENTS_MIN)
        counts = [collections.Counter(event.name for event in events) for events in (seen, shown)]
        self.assertEqual(counts[0], counts[1], "how often, by bpftrace and by the trace")
        # a thread's events, and with them those of each object on it, in their order; between threads the ticks decide
        by_kernel, by_trace = by_thread(seen), by_thread(shown)
        self.assertEqual(by_kernel.keys(), by_trace.keys(), "the threads")
        for thread, events in by_kernel.items():
            for one, other in zip(events, by_trace[thread]):
                self.assertEqual(one.key(), other.key(), f"thread {thread}: bpftrace saw {one}; the trace has {other}")
        sys.stderr.write(f"{len(shown)} events of {len(counts[0])} points are the same\n")


if __name__ == "__main__":
    unittest.main()
