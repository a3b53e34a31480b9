# SPDX-License-Identifier: BSD-2-Clause
"""Compares the events of one workload from bpftrace on an engine's USDT probes with those of the trace's rings.

script() is a bpftrace program that prints every probe with all of its arguments; from_bpftrace() reads what it printed, and
from_trace() what `fathom trace show --json` did. Compare.check_same() says where the two differ.
"""

import collections
import json
import pathlib
import re
import shutil
import subprocess
import sys

SOURCES = pathlib.Path(__file__).resolve().parents[2] / "src"
sys.path.insert(0, str(SOURCES / "base" / "observe" / "probe"))

import generate     # noqa: E402

NARROW = {"u8": 8, "hex8": 8, "u16": 16, "hex16": 16, "bool": 8}
STRING_BYTES = 64               # of bpftrace, with the NUL


def table():
    """The probes that the engine was made from. Types of objects are numbered in the build's order of the modules."""
    model = generate.Model("fathom")
    modules = re.search(r"probe_modules = \[(.*?)\]", (SOURCES / "base" / "observe" / "meson.build").read_text(), re.DOTALL)
    for module in re.findall(r"'(.+?)'", modules[1]):
        model.read(module, str(SOURCES / module / "probes.def"))
    model.link()
    groups = model.groups_of("fathom-engine")
    model.objects = {row.name: row for row in model.objects_of("fathom-engine")}
    model.points = {name: point for name, point in model.points.items() if point.group in groups}
    return model


class Layout:
    """The offset of the id in the structure of each type of object, from the engine's debug information."""

    def __init__(self, engine, model):
        gdb = shutil.which("gdb") or "gdb"
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
    """The program for bpftrace: a line for each event of the points `there`, with fields separated by tabs."""
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
                formats += ["%d"] * 3       # present, id, type
                values += [f"arg{number} != 0", f"*(uint32 *)(arg{number} + {offset})",
                           f"*(uint16 *)(arg{number} + {offset + 6})"]
            else:
                formats.append("%lx")
                values.append(f"arg{number}")
        tabs = "\\t".join(formats)
        out.append(f'usdt:{engine}:fathom:{point.name} {{ printf("{tabs}\\n", {", ".join(values)}); }}')
    return "\n".join(out) + "\n"


def probes_in_order(model):
    """The probes of a remote procedure call are first and last: when both have fired, all are attached."""
    points = [point for point in model.points.values() if point.name not in ("rpc_connection_open", "rpc_request_received")]
    return [model.points["rpc_connection_open"], *points, model.points["rpc_request_received"]]


class Event:
    """An event of either side, in a common form."""

    def __init__(self, name, tick, thread, target, args):
        self.name, self.tick, self.thread, self.target, self.args = name, tick, thread, target, args

    def key(self):
        return self.name, self.tick, self.target, tuple(self.args)

    def __str__(self):
        return f"{self.name} at tick {self.tick}, {self.target}: {self.args}"


def cut(text):
    """The text as cut by bpftrace."""
    return text.encode()[:STRING_BYTES - 1].decode(errors="replace")


def from_bpftrace(model, text, loaded_at):
    """Its lines, sorted by the kernel's clock: each CPU has its own buffer."""
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
    """A number in the form of `show --json`."""
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
            # `show` looks up the name of a function in the program's file; the probe has only its address
            args = [cut(value) if isinstance(value, str) else value for name, value in row["args"].items()
                    if not (name.endswith("_name") and name[:-len("_name")] in row["args"])]
            events.append(Event(row["name"].lower(), row["tick"], tids[row["thread"]], row.get("object"), args))
    return events


def without_overwritten(model, seen, shown, tids):
    """`seen` without what the I/O rings of the threads `tids` no longer have: what is older than the first record there."""
    first = {}
    for event in shown:
        if event.thread in tids and model.points[event.name].ring == "io":
            first[event.thread] = min(event.tick, first.get(event.thread, event.tick))
    return [event for event in seen if model.points[event.name].ring != "io" or event.tick >= first.get(event.thread, 0)]


def by_thread(events):
    order = collections.defaultdict(list)
    for event in events:
        order[event.thread].append(event)
    return order


class Compare:
    """For a unittest.TestCase."""

    def check_same(self, seen, shown):
        counts = [collections.Counter(event.name for event in events) for events in (seen, shown)]
        self.assertEqual(counts[0] - counts[1], counts[1] - counts[0], "seen more often by bpftrace, and by the trace")
        # the events of a thread, and of each object on it, are compared in order; between threads the ticks decide
        by_kernel, by_trace = by_thread(seen), by_thread(shown)
        self.assertEqual(by_kernel.keys(), by_trace.keys(), "the threads")
        for thread, events in by_kernel.items():
            for one, other in zip(events, by_trace[thread]):
                self.assertEqual(one.key(), other.key(), f"thread {thread}: bpftrace saw {one}; the trace has {other}")
        sys.stderr.write(f"{len(shown)} events of {len(counts[0])} points are the same\n")
