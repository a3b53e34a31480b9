#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
read_trace FILE [show|summary|stuck|slowest] - print a trace file as `fathom trace WORD --json` does.

Written from docs/formats/trace.md alone. Of a file whose program has ended or was killed; all in memory, and slow.
"""

import json
import struct
import sys

RECORD = struct.Struct("<QIHHIIII")
STORY = struct.Struct("<IHHBxHI6I11Q")
LIVES_BYTES, STAGE_BYTES, STATES, BUCKETS = 192, 5952, 11, 368
EXEMPLAR_BYTES, EXEMPLAR_RECORDS_AT = 1024, 320
WIDTH = {"hex8": 2, "hex16": 4, "hex32": 8, "hex64": 16, "ptr": 16}
NONE = 0xFFFFFFFF
PARTS_MAX = 4


def text_of(raw):
    return raw.split(b"\0", 1)[0].decode(errors="replace")


def falls(a, b):
    """Is sequence number `a` before `b`?"""
    return (a - b) & 0x80000000 != 0


class Trace:
    def __init__(self, data):
        self.data = data
        magic, version, _, _, count, _, self.unregistered, self.clear_tick = struct.unpack_from("<8sIIQIIQQ", data)
        if magic != b"FATHOMTR" or version != 1:
            raise SystemExit("not a trace file of version 1")
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
            if self.end == 0 and falls(rows[i][1], rows[i - 1][1]) and rows[i][0] < rows[i - 1][0] + self.rate // 2:
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

    def thread_events(self, offset, index):
        """One thread's events in order, each with the tick that counts for its place."""
        lanes = [list(self.events(self.ring(o)))[::-1] for o in struct.unpack_from("<QQ", self.data, offset + 56)]
        key = 0
        while lanes[0] or lanes[1]:
            lane = lanes[0] or lanes[1]
            if lanes[0] and lanes[1]:
                io, rare = lanes[0][-1], lanes[1][-1]
                apart = abs((io[0] & ~1) - (rare[0] & ~1))
                io_first = falls(io[1], rare[1]) if apart <= self.rate // 2 else io[0] & ~1 < rare[0] & ~1
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

    # ---- meaning ----

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
        """`lives`: to be filled with what is known of each object in the end."""
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
                self.live(lives, row, point, target, slots, tick, point["object"] in begun,
                          slots[0] == 0 and slots[1] != 0 if moved else point.get("begins"))
            if "machine" in point:
                row["state"] = self.machines[point["machine"]]["states"][slots[1]]["name"] if moved else point["moves"]
            row["args"] = {arg["name"]: self.value(arg, slots) for arg in point["args"]}
            yield row

    def live(self, lives, row, point, target, slots, tick, can_begin, begins):
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


    # ---- threads, requests under way ----

    def threads(self):
        """(index, place in the file) of those that were ever used."""
        offset, size, stride, _ = self.sections[7]
        return [(i, offset + i * stride) for i in range(size // stride)]

    def pools(self):
        """Each story of each pool: (object, its 128 bytes unpacked)."""
        offset, size, stride, _ = self.sections[9]
        for at in range(offset, offset + size, stride):
            kind, _, first, step, count = struct.unpack_from("<IIQQQ", self.data, at)
            for i in range(count):
                yield self.objects[kind], STORY.unpack_from(self.data, first + i * step)

    def now(self):
        """The latest tick that stands anywhere."""
        ticks = [self.start, self.end]
        offset = self.sections[2][0]
        count = struct.unpack_from("<Q", self.data, offset)[0]
        pairs = [struct.unpack_from("<QQQ", self.data, offset + 64 + 24 * i) for i in range(min(count, 64))
                 if i != 1 + (count - 1) % 63]
        ticks += [tick for tick, wall, _ in pairs if tick and wall]
        offset, size, stride, _ = self.sections[6]
        for at in range(offset, offset + size, stride):
            ticks += struct.unpack_from("<QQ", self.data, at)
        for _, place in self.threads():
            attached, *rings = struct.unpack_from("<QQQ", self.data, place + 48)
            ticks += [attached, struct.unpack_from("<Q", self.data, place + 136)[0]]
            for ring in rings:
                ticks += [row[0] for row in self.ring(ring)[-64:]]
        for kind, story in self.pools():
            ticks += story[12:]
        return max(ticks) & ~1

    def story(self, raw):
        """A story's parts by name; ticks of a former life are 0."""
        number, owner, kind, state, path, life, *rest = raw
        args, ticks = rest[:6], [tick & ~1 for tick in rest[6:]]
        ticks = [tick if tick >= ticks[0] else 0 for tick in ticks]
        return {"object": self.objects[kind], "id": number, "owner": owner, "state": state, "path": path, "life": life,
                "args": args, "ticks": ticks, "begin": ticks[0]}

    def states(self, target):
        return self.machines[target["machine"]]["states"]

    def about(self, story):
        """What an object's lines have in common: the object, what it belongs to, its owner."""
        target = story["object"]
        row = {"object": f"{target['prefix']}{story['id']}", "object_type": target["name"]}
        for arg in target.get("story_args", []):
            named = self.named(arg, story["args"])
            if named and "related" not in row:
                row |= {"related": f"{named[0]['prefix']}{named[1]}", "related_type": named[0]["name"]}
        if story["owner"]:
            row["owner"] = self.owner(story["owner"], story["begin"])
        return row

    def arguments(self, story):
        return {arg["name"]: self.value(arg, story["args"]) for arg in story["object"].get("story_args", [])}

    def stuck(self, older_ns):
        now, lives = self.now(), {}
        for _ in self.lines(lives):
            pass
        for _, raw in self.pools():
            if raw[3] == 0:
                continue
            story = self.story(raw)
            names = self.states(story["object"])
            if names[story["state"]].get("resting") or (now - story["begin"]) * 10**9 // self.rate < older_ns:
                continue
            entered = story["ticks"][story["state"]] or story["begin"]
            about, said = self.about(story), lives.get((story["object"]["id"], story["id"]))
            if "related" not in about and said and said["related"]:
                parent, number = said["related"]
                about |= {"related": f"{parent['prefix']}{number}", "related_type": parent["name"]}
            yield about | {
                "stage": names[story["state"]]["name"], "stage_us": float(self.us(max(0, now - entered))),
                "age_us": float(self.us(max(0, now - story["begin"]))), "begin_tick": story["begin"], "life": story["life"],
                "stages": {names[i]["name"]: float(self.us(tick - story["begin"]))
                           for i, tick in enumerate(story["ticks"][:len(names)]) if i and tick},
                "args": self.arguments(story)}

    # ---- lives ----

    @staticmethod
    def bucket_begin(bucket):
        return bucket if bucket < 16 else (8 + bucket % 8) << (bucket // 8 - 1)

    def bucket(self, ticks):
        return next(b for b in range(BUCKETS - 1, -1, -1) if self.bucket_begin(b) <= ticks)

    @staticmethod
    def stays(path, ticks, end):
        """[(state, how long)] in their order."""
        order = sorted((ticks[state] & ~1, state) for state in range(STATES) if path >> state & 1)
        ends = [tick for tick, _ in order[1:]] + [end & ~1]
        return [(state, max(0, after - tick)) for (tick, state), after in zip(order, ends)]

    def lives(self):
        """{object type: [stage ...]}, a stage: histogram, ticks, longest, slow; and {object type: [failed, kept]}."""
        found, more = {}, {}
        for _, place in self.threads():
            offset, count = struct.unpack_from("<QQ", self.data, place + 72)
            step = LIVES_BYTES + STATES * STAGE_BYTES
            for at in range(offset, offset + count * step, step):
                kind, _, failed, kept = struct.unpack_from("<IIQQ", self.data, at)
                if not offset or not kind:
                    continue
                empty = [{"buckets": [0] * BUCKETS, "ticks": 0, "max": 0, "slow": []} for _ in range(STATES)]
                stages = found.setdefault(kind, empty)
                more[kind] = [a + b for a, b in zip(more.get(kind, [0, 0]), (failed, kept))]
                for number, stage in enumerate(stages):
                    begin = at + LIVES_BYTES + number * STAGE_BYTES
                    ticks, longest, slow = struct.unpack_from("<QQQ", self.data, begin)
                    here = struct.unpack_from("<368Q", self.data, begin + 64)
                    stage["buckets"] = [a + b for a, b in zip(stage["buckets"], here)]
                    stage["ticks"] += ticks
                    stage["max"] = max(stage["max"], longest)
                    stage["slow"] += [slow] if slow else []
                alike, path, _, end, *ticks = struct.unpack_from("<QIIQ11Q", self.data, at + 64)
                if alike:
                    for number, stay in [(0, max(0, (end & ~1) - (ticks[0] & ~1)))] + self.stays(path, ticks, end):
                        stages[number]["buckets"][self.bucket(stay)] += alike
                        stages[number]["ticks"] += alike * stay
                        stages[number]["max"] = max(stages[number]["max"], stay)
        return found, more

    def percentile(self, stage, part):
        rank = max(1, -(-sum(stage["buckets"]) * part // 100000))
        for bucket, here in enumerate(stage["buckets"]):
            if here and rank <= here:
                begin, last = self.bucket_begin(bucket), self.bucket_begin(bucket + 1) - 1
                return min(begin + (last - begin) * (rank - 0.5) / here, stage["max"])
            rank -= here

    def summary(self):
        found, more = self.lives()
        in_us = lambda ticks: ticks * 1e6 / self.rate
        for kind, stages in found.items():
            names = self.states(self.objects[kind])
            for number in list(range(1, min(len(names), STATES))) + [0]:
                stage = stages[number]
                count = sum(stage["buckets"])
                if not count:
                    continue
                row = {"object_type": self.objects[kind]["name"], "stage": names[number]["name"] if number else None,
                       "count": count, "avg_us": in_us(stage["ticks"]) / count, "max_us": in_us(stage["max"]),
                       "slow_us": in_us(min(stage["slow"]))}
                for key, part in (("p50_us", 50000), ("p90_us", 90000), ("p99_us", 99000), ("p99_9_us", 99900)):
                    row[key] = in_us(self.percentile(stage, part))
                yield row
            yield {"object_type": self.objects[kind]["name"], "ended": sum(stages[0]["buckets"]), "failed": more[kind][0],
                   "kept": more[kind][1]}

    # ---- the slowest ----

    def exemplars(self):
        for index, place in self.threads():
            offset = struct.unpack_from("<Q", self.data, place + 88)[0]
            if not offset:
                continue
            epochs, rows, slow, failed = struct.unpack_from("<IIII", self.data, offset + 8)
            for at in range(offset + 64, offset + 64 + (epochs * rows + slow + failed) * EXEMPLAR_BYTES, EXEMPLAR_BYTES):
                version, why, state, total, begin, end, _, count, records = struct.unpack_from("<IHHQQQIHH", self.data, at)
                if version == 0 or version % 2 or end < self.clear_tick & ~1:
                    continue
                raw = [STORY.unpack_from(self.data, at + 64 + 128 * i) for i in range(count)]
                if begin != raw[0][12] & ~1 or total != max(0, end - begin):
                    continue  # of a copy that was made while it was written
                stories = [self.story(one) for one in raw]
                stories[0]["end"] = end
                if count > 1:
                    stories[1]["end"] = self.io_end(stories, [RECORD.unpack_from(self.data, at + EXEMPLAR_RECORDS_AT + 32 * i)
                                                              for i in range(records)])
                yield {"thread": index, "stories": stories, "failed": why == 2, "slow": why == 1, "slow_in": state, "args": True}

    def target_state(self, point, slots):
        """The state that a record of a point with a machine leads to, by number."""
        names = [state["name"] for state in self.machines[point["machine"]]["states"]]
        return names.index(point["moves"]) if "moves" in point else slots[1]

    def io_end(self, stories, records):
        for tick, _, number, _, target, *slots in reversed(records):
            point = self.points[number]
            if (point.get("object") == stories[1]["object"]["name"] and target == stories[1]["id"] and "machine" in point
                    and self.target_state(point, slots) == 0):
                return tick & ~1
        later = [stories[0]["ticks"][state] for state in range(1, STATES)
                 if stories[0]["path"] >> state & 1 and stories[0]["ticks"][state] > stories[1]["begin"]]
        return min(later, default=stories[0]["end"])

    def ring_lives(self):
        """Lives that the rings hold from begin to end; those that belong to another request are that one's I/O."""
        under_way = {}
        for _, index, _, _, _, (tick, _, point, owner, target, slots) in self.merged():
            if "machine" not in point or "object" not in point or target == NONE:
                continue
            kind, tick = self.by_name[point["object"]], tick & ~1
            if kind.get("machine") != point["machine"]:
                continue
            to, key = self.target_state(point, slots), (kind["id"], target)
            moved_from_free = "moves" not in point and slots[0] == 0
            if to and (moved_from_free or point.get("begins")):
                life = {"object": kind, "id": target, "owner": owner, "path": 1 << to, "ticks": [tick] + [0] * (STATES - 1),
                        "begin": tick, "args": [NONE] * 6, "io": None, "parent": None}
                life["ticks"][to] = tick
                for arg in point["args"]:
                    named = self.named(arg, slots)
                    if named and "machine" in named[0] and not life["parent"]:
                        life["parent"] = (named[0]["id"], named[1])
                under_way[key] = life
            elif to and key in under_way:
                under_way[key]["path"] |= 1 << to
                under_way[key]["ticks"][to] = tick
            elif key in under_way:
                life = under_way.pop(key)
                life["end"] = tick
                parent = under_way.get(life["parent"])
                if life["parent"]:
                    if parent and not parent["io"]:
                        parent["io"] = life
                    continue
                yield {"thread": index, "stories": [life] + ([life["io"]] if life["io"] else []), "failed": False, "slow": False,
                       "slow_in": 0, "args": False}

    def spent(self, row):
        """Its time but that in which waiting was normal."""
        story = row["stories"][0]
        names = self.states(story["object"])
        stays = self.stays(story["path"], story["ticks"], story["end"])
        return max(0, story["end"] - story["begin"]) - sum(ticks for state, ticks in stays if names[state].get("resting"))

    def slowest(self, count):
        rows = {}
        for row in list(self.exemplars()) + list(self.ring_lives()):
            story = row["stories"][0]
            key = story["object"]["id"], story["id"], story["begin"]
            known = rows.get(key)
            if known and (row["failed"], row["slow"]) > (known["failed"], known["slow"]):
                known, row = row, known
            if known and len(known["stories"]) == 1:
                known["stories"] += row["stories"][1:]  # the rings may know its I/O
            rows[key] = known or row
        inner = {}  # I/Os of others, with the whole in which they lie
        for row in rows.values():
            if len(row["stories"]) > 1:
                io, whole = row["stories"][1], row["stories"][0]
                inner.setdefault((io["object"]["id"], io["id"]), []).append((whole["begin"], whole["end"]))
        def lies_in_another(row):
            story = row["stories"][0]
            args = story["object"].get("story_args", []) if row["args"] else []
            parents = [self.named(arg, story["args"]) for arg in args]
            keys = [(story["object"]["id"], story["id"])] + [(parent[0]["id"], parent[1]) for parent in parents if parent]
            return any(begin <= story["begin"] and story["end"] <= end for key in keys for begin, end in inner.get(key, []))
        kept = [row for row in rows.values() if not lies_in_another(row)]
        place = lambda story: (story["begin"], story["object"]["id"], story["id"])
        kept.sort(key=lambda row: (-self.spent(row), *place(row["stories"][0])))
        for number, row in enumerate(kept[:count], 1):
            story = row["stories"][0]
            names = self.states(story["object"])
            yield {"number": number, "object": f"{story['object']['prefix']}{story['id']}", "object_type": story["object"]["name"],
                   "failed": row["failed"], "slow": row["slow"], "begin_tick": story["begin"], "end_tick": story["end"],
                   "total_us": float(self.us(self.spent(row))),
                   "stages": [[names[state]["name"], float(self.us(ticks))]
                              for state, ticks in self.stays(story["path"], story["ticks"], story["end"])]}


def main(path, word="show", number="10"):
    with open(path, "rb") as trace_file:
        trace = Trace(trace_file.read())
    rows = {"show": trace.lines, "summary": trace.summary, "stuck": lambda: trace.stuck(int(number)),
            "slowest": lambda: trace.slowest(int(number))}[word]()
    for row in rows:
        print(json.dumps(row, ensure_ascii=False))


if __name__ == "__main__":
    main(*sys.argv[1:])
