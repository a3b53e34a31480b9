#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
read_trace FILE [show|summary|stuck|slowest] - print a trace file as `fathom trace WORD --json` does.

Written from docs/formats/trace.md alone, like gdb/fathom/trace_file.py, which has what gdb needs, too: events. Of a file whose program has
ended or was killed; all in memory, and slow.
"""

import json
import os
import struct
import sys

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 4)
sys.path.insert(0, os.path.join(TOP, "gdb"))
from fathom.trace_file import NONE, RECORD, TraceFile  # noqa: E402

STORY = struct.Struct("<IHHBxHI6I11Q")
LIVES_BYTES, STAGE_BYTES, STATES, BUCKETS = 192, 5952, 11, 368
EXEMPLAR_BYTES, EXEMPLAR_RECORDS_AT = 1024, 320


class Trace(TraceFile):
    # ---- threads, requests in progress ----

    def threads(self):
        """(index, place in the file) of those that were ever used."""
        offset, size, stride, _ = self.sections[7]
        return [(i, offset + i * stride) for i in range(size // stride)]

    def pools(self):
        """Each story of each pool: (object, its 128 bytes unpacked)."""
        offset, size, stride, _ = self.sections[9]
        for at in range(offset, offset + size, stride):
            kind, _, first, step, count = struct.unpack_from("<IIQQQ", self.data, at)
            for i in range(count if first else 0):  # offset 0: they are not in the file
                yield self.objects[kind], STORY.unpack_from(self.data, first + i * step)

    def now(self):
        """The latest tick in the header, the heartbeat and the records."""
        ticks = [self.start, self.end, struct.unpack_from("<Q", self.data, 56)[0]]  # and the latest heartbeat
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
        """The fields common to all rows of an object: the object, its parent, its owner."""
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
