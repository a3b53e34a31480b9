# SPDX-License-Identifier: BSD-2-Clause
"""
trace_file - reads the events of a trace file from its bytes, all in memory and slowly. It was written from docs/formats/trace.md alone, so
that tests can compare two independent readers.

The program must have ended, or be stopped. gdb's fathom_trace reads the bytes from the process or core,
test/unit/inspect/trace/read_trace.py from a file.
"""

import json
import struct

RECORD = struct.Struct("<QIHHIIII")
WIDTH = {"hex8": 2, "hex16": 4, "hex32": 8, "hex64": 16, "ptr": 16}
NONE = 0xFFFFFFFF
PARTS_MAX = 4


def text_of(raw):
    return raw.split(b"\0", 1)[0].decode(errors="replace")


def is_before(a, b):
    """True if sequence number `a` is before `b`."""
    return (a - b) & 0x80000000 != 0


class TraceFile:
    def __init__(self, data, last=None):
        """`data`: the whole file. `last`: read only that many events of each ring, the newest."""
        self.data, self.last = data, last
        magic, version, _, _, count, _, self.unregistered, self.clear_tick = struct.unpack_from("<8sIIQIIQQ", data)
        if magic != b"FATHOMTR" or version != 1:
            raise ValueError("not a trace file of version 1")
        self.sections = {}
        for i in range(count):
            kind, stride, offset, size, room = struct.unpack_from("<IIQQQ", data, 64 + 32 * i)
            self.sections.setdefault(kind, (offset, size, stride, room))
        process = self.sections[1][0]
        self.start, self.end, self.rate = struct.unpack_from("<QQQ", data, process + 232)
        offset, size, _, _ = self.sections[4]
        self.schema = json.loads(data[offset:offset + size])
        self.points = {p["id"]: p for p in self.schema["points"]}
        self.objects = {o["id"]: o for o in self.schema["objects"]}
        self.by_name = {o["name"]: o for o in self.schema["objects"]}
        self.owner_types = {o["id"]: o for o in self.schema["owners"]}
        self.machines = {m["name"]: m for m in self.schema["machines"]}

    def us(self, ticks):
        sign = "-" if ticks < 0 else ""
        ns = abs(ticks) * 10**9 // self.rate
        return f"{sign}{ns // 1000}.{ns % 1000:03}"

    def string(self, number):
        offset, size, _, _ = self.sections[5]
        used = min(struct.unpack_from("<Q", self.data, offset)[0], size)
        return "" if number == 0 else text_of(self.data[offset + number:offset + used]) if 8 <= number < used else "?"

    def owner(self, number, tick):
        offset, _, stride, _ = self.sections[6]
        begin, end, kind, version, text = struct.unpack_from("<QQHH4x104s", self.data, offset + number * stride)
        if version % 2 or tick + self.rate // 10000 < begin & ~1 or (end and tick > end & ~1):
            return {"id": number, "type": "owner", "text": ""}
        return {"id": number, "type": self.owner_types[kind]["name"], "text": text_of(text)}

    # ---- rings ----

    def ring(self, offset):
        """The whole records of a ring, oldest first."""
        if not offset:
            return []
        head, entries = struct.unpack_from("<QQ", self.data, offset)
        first = max(0, head - entries + PARTS_MAX, min(head, struct.unpack_from("<Q", self.data, offset + 32)[0]))
        rows = [RECORD.unpack_from(self.data, offset + 64 + 32 * (p % entries)) for p in range(first, head)]
        begin = 0
        for i in range(1, len(rows)):
            if self.end == 0 and is_before(rows[i][1], rows[i - 1][1]) and rows[i][0] < rows[i - 1][0] + self.rate // 2:
                begin = i + PARTS_MAX
        return rows[begin:]

    def events(self, rows):
        """Join continuations. (tick with its flag, seq, point, owner, object, slots)"""
        at = 0
        while at < len(rows):
            tick, seq, number, owner, target, *slots = rows[at]
            at += 1
            point = self.points.get(number)
            if not point or tick | 1 < self.clear_tick & ~1:
                continue
            need = max((a["slot"] + (2 if a["type"] in ("u64", "i64", "hex64", "ptr") else 1) for a in point["args"]), default=0)
            part = 1
            while len(slots) < need and at < len(rows) and rows[at][1:4] == (seq, 0xFFFF, part):
                slots += rows[at][4:]
                at, part = at + 1, part + 1
            if len(slots) >= need:
                yield tick, seq, point, owner, target, slots

    def newest(self, rows):
        if self.last is None:
            return list(self.events(rows))
        return list(self.events(rows[-(self.last + 1) * PARTS_MAX:]))[-self.last:] if self.last else []

    def thread_events(self, offset, index):
        """A thread's events in order, each with the tick that determines its place."""
        lanes = [self.newest(self.ring(o))[::-1] for o in struct.unpack_from("<QQ", self.data, offset + 56)]
        key = 0
        while lanes[0] or lanes[1]:
            lane = lanes[0] or lanes[1]
            if lanes[0] and lanes[1]:
                io, rare = lanes[0][-1], lanes[1][-1]
                apart = abs((io[0] & ~1) - (rare[0] & ~1))
                io_first = is_before(io[1], rare[1]) if apart <= self.rate // 2 else io[0] & ~1 < rare[0] & ~1
                lane = lanes[0] if io_first else lanes[1]
            event = lane.pop()
            key = max(key, event[0] & ~1)
            yield key, index, event

    def merged(self):
        offset, size, stride, _ = self.sections[7]
        found = []
        for index in range(size // stride):
            place = offset + index * stride
            name, cpu = text_of(self.data[place:place + 32]), struct.unpack_from("<i", self.data, place + 36)[0]
            found += [(key, index, n, name, cpu, event) for n, (key, _, event) in enumerate(self.thread_events(place, index))]
        return sorted(found, key=lambda row: row[:3])

    # ---- arguments and objects ----

    def named(self, arg, slots):
        """The object that an argument names: (object type, id), or None."""
        value = slots[arg["slot"]]
        if value == NONE or arg["type"] not in ("obj", "ref") or (arg["type"] == "ref" and value == 0):
            return None
        return (self.by_name[arg["object"]], value) if arg["type"] == "obj" else (self.objects[value >> 24], value & 0xFFFFFF)

    def value(self, arg, slots):
        kind, number = arg["type"], slots[arg["slot"]]
        if kind in ("u64", "i64", "hex64", "ptr"):
            number |= slots[arg["slot"] + 1] << 32
        if kind in WIDTH:
            return f"0x{number:0{WIDTH[kind]}x}"
        if kind in ("i32", "i64"):
            bits = int(kind[1:])
            return number - (1 << bits) if number >> (bits - 1) else number
        if kind == "bool":
            return number != 0
        if kind == "str":
            return self.string(number)
        if kind in ("obj", "ref"):
            named = self.named(arg, slots)
            return f"{named[0]['prefix']}{named[1]}" if named else None
        return self.schema["enums"][arg["enum"]].get(str(number), number) if "enum" in arg else number

    def lines(self, lives=None):
        """The events as rows of `fathom trace --json`. `lives`: is filled with the final state of each object."""
        lives = {} if lives is None else lives
        begun = {p["object"] for p in self.points.values() if "object" in p and ("machine" in p or p.get("begins"))}
        for _, _, _, name, cpu, (tick, seq, point, owner, target, slots) in self.merged():
            shared, tick = tick & 1, tick & ~1
            row = {"core": None if cpu < 0 else cpu, "thread": name, "time_us": float(self.us(tick - self.start)), "tick": tick}
            if shared:
                row["shared"] = True
            row |= {"seq": seq, "name": point["name"], "group": point["group"]}
            if owner:
                row["owner"] = self.owner(owner, tick)
            moved = "machine" in point and "moves" not in point
            if "object" in point and target != NONE:
                self.add_life(lives, row, point, target, slots, tick, point["object"] in begun,
                          slots[0] == 0 and slots[1] != 0 if moved else point.get("begins"))
            if "machine" in point:
                row["state"] = self.machines[point["machine"]]["states"][slots[1]]["name"] if moved else point["moves"]
            row["args"] = {arg["name"]: self.value(arg, slots) for arg in point["args"]}
            yield row

    def add_life(self, lives, row, point, target, slots, tick, can_begin, begins):
        """Add the object, its dwell time and its total time to the row; update the object's life."""
        kind = self.by_name[point["object"]]
        life = lives.get((kind["id"], target))
        if begins or not life:
            life = {"first": tick, "last": tick, "partial": can_begin and not begins, "related": None}
            lives[kind["id"], target] = life
        for arg in point["args"]:
            named = self.named(arg, slots)
            if named and named[0] is not kind:
                life["related"] = named
        row |= {"object": f"{kind['prefix']}{target}", "object_type": kind["name"]}
        if life["related"]:
            row |= {"related": f"{life['related'][0]['prefix']}{life['related'][1]}", "related_type": life["related"][0]["name"]}
        row |= {"dwell_us": float(self.us(max(0, tick - life["last"]))), "total_us": float(self.us(max(0, tick - life["first"])))}
        if life["partial"]:
            row["total_partial"] = True
        life["last"] = max(life["last"], tick)
