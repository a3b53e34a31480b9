# SPDX-License-Identifier: BSD-2-Clause
"""
`fathom trace export --ctf` of a real engine's trace, read by babeltrace2 and compared with what `fathom trace show --json` prints
of the same file.
"""

import collections
import datetime
import os
import re
import shutil
import struct
import unittest

from export_rig import ExportTest, harness, traces

tearDownModule = traces.remove

FIELD = re.compile(r'\s*(?:(\w+) = )?(?:(\{)|(\})|"((?:[^"\\]|\\.)*)"|\( "([^"]*)" : container = \d+ \)|([^\s,{}]+))(,?)')


def parse_pretty(text):
    """Parse { name = value, ... } of babeltrace2's text into a dict."""
    stack = [{}]
    for name, opened, closed, string, label, number, _ in FIELD.findall(text):
        if opened:
            inner = {}
            stack[-1][name] = inner
            stack.append(inner)
        elif closed:
            stack.pop()
        elif number:
            stack[-1][name] = int(number, 0)
        elif label:
            stack[-1][name] = {"true": True, "false": False}.get(label, label)
        else:
            stack[-1][name] = re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m.group(1), m.group(1)), string)
    assert len(stack) == 1, text
    return stack[0]


class Ctf(ExportTest):
    def setUp(self):
        self.need("babeltrace2", "babeltrace2")

    def read(self, trace, *words):
        """Read with babeltrace2: the events in its order, (name, seconds, context of packet, of event, fields); and its warnings."""
        path = self.path("ctf")
        shutil.rmtree(path, ignore_errors=True)
        self.export(trace, "--ctf", path, *words)
        done = harness.run("babeltrace2", "--names=all", "--clock-seconds", path)
        events = []
        for line in done.stdout.splitlines():
            head = re.match(r"timestamp = ([\d.]+), .*?, name = ([^,]*), (stream\.packet\.context = .*)", line)
            scopes = parse_pretty(head.group(3).replace("stream.packet.context", "packet").replace("stream.event.context", "context")
                                  .replace("event.fields", "fields"))
            events.append((head.group(2), head.group(1), scopes["packet"], scopes["context"], scopes["fields"]))
        return events, done.stderr

    def as_shown(self, value):
        """A value of `show` in the form of CTF: hexadecimal numbers are numbers, and "-" is an empty value."""
        if value is None or value == "":
            return "-"
        return int(value, 16) if isinstance(value, str) and re.fullmatch("0x[0-9a-f]+", value) else value

    def check(self, trace, *words):
        events, _ = self.read(trace, *words)
        _, shown, _ = self.shown(trace, *words)
        self.assertEqual(len(events), len(shown))
        for (name, _, packet, context, fields), event in zip(events, shown):
            self.assertEqual((name, context["tick"], context["seq"]), (event["name"], event["tick"], event["seq"]))
            self.assertEqual(fields, {key: self.as_shown(value) for key, value in event["args"].items()})
            self.assertEqual((packet["thread"], packet["core"]),
                             (event["thread"], -1 if event["core"] is None else event["core"]))
            self.assertEqual(context["shared"], event.get("shared", False))
            self.assertEqual((context["object"], context["related"]), (event.get("object", "-"), event.get("related", "-")))
            self.assertEqual((context["dwell_ns"], context["total_ns"], context["total_partial"]),
                             (round(event.get("dwell_us", 0) * 1000), round(event.get("total_us", 0) * 1000),
                              event.get("total_partial", False)))
            owner = event.get("owner")
            self.assertEqual(context["owner"][1:] or "-", f"{owner['id']} {owner['text']}".strip() if owner else "-")
        return shown

    def test_events_of_an_engine_equal_those_of_show(self):
        """The events, their arguments and their order are equal."""
        shown = self.check(traces.engine)
        self.assertGreater(len(shown), 5000)
        self.assertGreater(len({event["thread"] for event in shown}), 1)

    def test_each_type_of_argument_equals_show(self):
        self.check(traces.story)

    def test_filters_select_the_same_events_as_show(self):
        self.check(traces.engine, "-g", "bdev")
        self.check(traces.engine, "-c", "0")

    def test_discarded_events_are_counted(self):
        """The number equals the overwritten records of `show` if each event is one record."""
        for words in ((), ("-n", "nvmf_req_state")):
            _, warnings = self.read(traces.engine, *words)
            discarded = sum(map(int, re.findall(r"discarded (\d+) event", warnings)))
            _, shown, end = self.shown(traces.engine)
            self.assertGreater(end["overwritten"], 1000)
            lost = collections.Counter()
            for event in shown:
                lost[event["thread"]] = max(lost[event["thread"]], event["seq"] + 1)
            if words:
                lost = {thread: lost[thread] for thread in lost if any(e["thread"] == thread for e in shown
                                                                       if e["name"] == "nvmf_req_state")}
                self.assertGreater(discarded, end["overwritten"] * 0.9)
            else:
                self.assertEqual(discarded, sum(lost.values()) - len(shown))
            self.assertLess(warnings.count("discarded"), 200)

    def test_the_time_of_day_equals_that_of_show(self):
        events, _ = self.read(traces.engine)
        _, shown, _ = self.shown(traces.engine, "-w")
        text = re.sub(r"(\.\d{6})\d*", r"\1", shown[0]["time"])
        self.assertAlmostEqual(datetime.datetime.fromisoformat(text).timestamp(), float(events[0][1]), places=5)

    def test_events_within_a_nanosecond_keep_their_order(self):
        """Two threads record within a nanosecond, the one with the higher index first: time stamps do not give the order."""
        header, shown, _ = self.shown(traces.engine)
        with open(traces.engine, "rb") as file:
            raw = bytearray(file.read())
        # set a clock rate at which two ticks are less than a nanosecond
        rate, start, patched = 2_600_000_000, header["start_tick"], 0
        place = raw.index(struct.pack("<Q", header["tick_rate"]), raw.index(struct.pack("<Q", start)))
        raw[place:place + 8] = struct.pack("<Q", rate)
        index = {"reactor_0": 0, "reactor_1": 1, "control": 2}
        for before, a, b, after in zip(shown, shown[1:], shown[2:], shown[3:]):
            if index[a["thread"]] <= index[b["thread"]] or before["tick"] >= a["tick"] or after["tick"] <= b["tick"] + 200:
                continue
            tick = next(t for t in range(b["tick"], b["tick"] + 200, 2)
                        if (t - start) * 10 ** 9 // rate == (t + 2 - start) * 10 ** 9 // rate)
            for event, to in ((a, tick), (b, tick + 2)):
                key = struct.pack("<QI", event["tick"] | event.get("shared", False), event["seq"])
                if raw.count(key) == 1:
                    at = raw.index(key)
                    raw[at:at + 8] = struct.pack("<Q", to)
            patched += 1
        self.assertGreater(patched, 0)
        path = self.path("ties")
        with open(path, "wb") as file:
            file.write(raw)
        self.check(path)

    def test_invalid_ticks_do_not_make_the_export_unreadable(self):
        """A tick or a clock pair is damaged."""
        with open(traces.story, "rb") as file:
            raw = bytearray(file.read())
        header, shown, _ = self.shown(traces.story)
        tick = struct.pack("<Q", shown[-1]["tick"])
        self.assertEqual(raw.count(tick), 1)
        at = raw.index(tick)
        raw[at:at + 8] = struct.pack("<Q", (1 << 64) - 2)
        at = raw.index(struct.pack("<Q", header["start_tick"]), 1088)  # the first clock pair
        for name, also in (("tick", None), ("clock", at + 8)):
            if also:
                raw[also:also + 8] = struct.pack("<Q", (1 << 63) - 1)
            path = self.path(name)
            with open(path, "wb") as file:
                file.write(raw)
            events, _ = self.read(path)
            self.assertEqual(len(events), len(shown))

    def test_invalid_output_directories_are_refused(self):
        path = self.path("names")
        self.refuse("cannot go to standard output", "export", "-f", traces.story, "--ctf", "-")
        os.mkdir(path)
        self.export(traces.story, "--ctf", path)
        self.assertEqual(sorted(os.listdir(path)), ["metadata", "thread_0"])
        self.refuse("contains a trace", "export", "-f", traces.story, "--ctf", path)
        self.refuse("cannot make the directory", "export", "-f", traces.story, "--ctf", path + "/metadata/x")
        self.assertEqual([name for name in os.listdir(traces.folder) if ".tmp" in name], [])

    def test_the_same_file_gives_the_same_bytes(self):
        for name in ("a", "b"):
            self.export(traces.story, "--ctf", self.path(name))
        harness.run("diff", "-r", self.path("a"), self.path("b"))


if __name__ == "__main__":
    unittest.main()
