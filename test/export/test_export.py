# SPDX-License-Identifier: BSD-2-Clause
"""
`fathom trace export` of a real engine's trace, read by the tools that such files are for, and compared with what
`fathom trace show --json` says of the same file.
"""

import collections
import datetime
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "system")]
import browser  # noqa: E402
import harness  # noqa: E402

WRITER = os.environ.get("TRACE_WRITER", "")


def record(folder):
    """The trace file of an engine that served a null and a malloc device and then stopped."""
    engine = harness.Engine(folder, "--num-trace-entries", "8192")
    try:
        engine.serve("bdev_null_create", "null0", 512, 4096)
        engine.lines(f"bdev_malloc_create -b malloc0 16 4096\nnvmf_subsystem_add_ns {harness.NQN} malloc0\n")
        engine.perf("--rw", "mix", "--depth", "4", "--count", "600")
        engine.perf("--nsid", "2", "--rw", "mix", "--depth", "8", "--count", "600", "--verify")
        if engine.stop() != 0:
            raise AssertionError(engine.log_text())
        return shutil.copy(engine.trace_path, os.path.join(folder, "engine.trace"))
    finally:
        engine.discard()


def record_stall(folder):
    """That of an engine whose device held eight reads together."""
    engine = harness.Engine(folder)
    try:
        engine.lines("bdev_malloc_create -b Disk0 16 512\nbdev_error_create Disk0\n")
        engine.serve("bdev_null_create", "null0", 512, 4096)
        engine.lines(f"nvmf_subsystem_add_ns {harness.NQN} EE_Disk0\n")
        engine.rpc("bdev_error_inject_error", name="EE_Disk0", io_type="read", error_type="delay", delay_us=200000, num=8)
        engine.perf("--nsid", "2", "--rw", "randread", "--depth", "8", "--count", "16")
        engine.kill()
        return shutil.copy(engine.trace_path, os.path.join(folder, "stall.trace"))
    finally:
        engine.discard()


def setUpModule():
    global FOLDER, ENGINE, STALL, STORY
    FOLDER = tempfile.mkdtemp(prefix="fathom-export-")
    ENGINE = record(FOLDER)
    STALL = record_stall(FOLDER)
    STORY = subprocess.run([WRITER, "story", FOLDER], stdout=subprocess.PIPE, text=True).stdout.strip()


def tearDownModule():
    shutil.rmtree(FOLDER)


class ExportTest(unittest.TestCase):
    def need(self, program, package):
        if not shutil.which(program):
            self.skipTest(f"no {program} here (package {package})")

    def path(self, name):
        return os.path.join(FOLDER, f"{self.id()}-{name}")

    def export(self, trace, *words):
        return harness.run(harness.FATHOM, "trace", "export", "--force", "-f", trace, *words)

    def refuse(self, words, *args):
        done = harness.run(harness.FATHOM, "trace", *args, check=False)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn(words, done.stderr)

    def shown(self, trace, *words):
        """What `show --json` says: (header, events, end)."""
        rows = [json.loads(line) for line in harness.run(harness.FATHOM, "trace", "-f", trace, "--json", *words).stdout.splitlines()]
        for row in rows:    # exports have a function's place, not the name that the program's file gives it
            if isinstance(row.get("args"), dict):
                row["args"] = {name: value for name, value in row["args"].items()
                               if not (name.endswith("_name") and re.fullmatch("0x[0-9a-f]{16}", str(row["args"].get(name[:-len("_name")]))))}
        return rows[0]["trace"], rows[1:-1], rows[-1]["end"]


# ---- Perfetto ----

TOKEN = re.compile(r'\s*(?:(\w+) \{|(\w+): ("(?:[^"\\]|\\.)*"|\S+)|(\}))')


def unescape(text):
    """A string of the text format: C escapes of bytes."""
    raw = re.sub(r"\\(?:([0-7]{1,3})|(.))", lambda m: chr(int(m.group(1), 8)) if m.group(1) else
                 {"n": "\n", "t": "\t", "r": "\r"}.get(m.group(2), m.group(2)), text[1:-1])
    return raw.encode("latin-1").decode("utf-8")


def parse_text_format(text):
    """Protocol Buffers' text format: a dict of lists for each message."""
    stack = [collections.defaultdict(list)]
    for opened, name, value, closed in TOKEN.findall(text):
        if opened:
            message = collections.defaultdict(list)
            stack[-1][opened].append(message)
            stack.append(message)
        elif closed:
            stack.pop()
        elif value.startswith('"'):
            stack[-1][name].append(unescape(value))
        else:
            stack[-1][name].append(int(value) if re.fullmatch(r"-?\d+", value) else value)
    assert len(stack) == 1
    return stack[0]


class Perfetto(ExportTest):
    def setUp(self):
        self.need("protoc", "protobuf-compiler")

    def decode(self, data):
        done = subprocess.run(["protoc", f"--proto_path={HERE}", "--decode=perfetto.protos.Trace", "perfetto.proto"], input=data,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 0, done.stderr)
        text = done.stdout.decode()
        self.assertIsNone(re.search(r"^\s*\d+(: | \{)", text, re.M), "a field that is not in perfetto.proto")
        return self.resolve(parse_text_format(text)["packet"])

    def resolve(self, packets):
        """The packets with names in place of ids: (tracks, events, snapshots)."""
        names = collections.defaultdict(dict)
        tracks, events, snapshots = {}, [], []
        self.assertEqual(packets[0]["sequence_flags"], [1])
        self.assertEqual(packets[0]["trace_packet_defaults"][0]["timestamp_clock_id"], [64])
        for packet in packets:
            self.assertEqual(packet["trusted_packet_sequence_id"], [1])
            for interned in packet["interned_data"]:
                for kind, rows in interned.items():
                    for row in rows:
                        self.assertNotIn(row["iid"][0], names[kind])
                        names[kind][row["iid"][0]] = row["name"][0]
            for track in packet["track_descriptor"]:
                self.assertNotIn(track["uuid"][0], tracks)
                self.assertTrue(not track["parent_uuid"] or track["parent_uuid"][0] in tracks, "a parent comes first")
                tracks[track["uuid"][0]] = track
            for snapshot in packet["clock_snapshot"]:
                snapshots.append({row["clock_id"][0]: row["timestamp"][0] for row in snapshot["clocks"]})
                self.assertEqual(snapshot["primary_trace_clock"], [1])
            for event in packet["track_event"]:
                self.assertIn(event["track_uuid"][0], tracks)
                self.assertTrue(snapshots, "a clock snapshot comes first")
                args = {}
                for note in event["debug_annotations"]:
                    value = next(note[key][0] for key in ("bool_value", "uint_value", "int_value", "string_value") if note[key])
                    args[names["debug_annotation_names"][note["name_iid"][0]]] = {"true": True, "false": False}.get(value, value)
                events.append({"ns": packet["timestamp"][0], "type": event["type"][0], "track": event["track_uuid"][0],
                               "name": names["event_names"][event["name_iid"][0]] if event["name_iid"] else None,
                               "category": [names["event_categories"][iid] for iid in event["category_iids"]], "args": args,
                               "flow": event["flow_ids"], "flow_end": event["terminating_flow_ids"]})
        return tracks, events, snapshots

    decodings = {}  # they take seconds

    def decoded(self, trace, *words):
        if (trace, words) not in self.decodings:
            path = self.path("trace")
            self.export(trace, "--perfetto", path, *words)
            with open(path, "rb") as file:
                self.decodings[trace, words] = self.decode(file.read())
        return self.decodings[trace, words]

    def check_instants(self, trace):
        """Each event is an instant on its thread's track, in the order of `show`, with its arguments."""
        tracks, events, _ = self.decoded(trace)
        _, shown, _ = self.shown(trace)
        instants = [e for e in events if e["type"] == "TYPE_INSTANT" and tracks[e["track"]]["thread"]]
        self.assertEqual(len(instants), len(shown))
        for instant, event in zip(instants, shown):
            self.assertEqual((instant["name"], instant["category"]), (event["name"], [event["group"]]))
            self.assertEqual(instant["ns"], round(event["time_us"] * 1000))
            thread = tracks[instant["track"]]["thread"][0]["thread_name"][0]
            self.assertEqual(thread.split(" on core ")[0], event["thread"])
            args = {name: value for name, value in event["args"].items() if value is not None}
            self.assertEqual({name: instant["args"][name] for name in args}, args)
            self.assertEqual(instant["args"].get("object"), event["args"].get("object", event.get("object")))
        return len(instants)

    def test_every_event_of_an_engine_is_an_instant(self):
        self.assertGreater(self.check_instants(ENGINE), 5000)

    def test_every_type_of_argument_is_as_shown(self):
        self.check_instants(STORY)

    def test_slices_nest_and_are_the_moves(self):
        """On each object's track: a slice for the life, one for each stage in it, one after the other, ended in their order."""
        tracks, events, _ = self.decoded(ENGINE)
        stacks, last, stages = collections.defaultdict(list), {}, collections.Counter()
        for event in events:
            track = tracks[event["track"]]
            if track["thread"]:
                continue
            self.assertGreaterEqual(event["ns"], last.get(event["track"], 0))
            last[event["track"]] = event["ns"]
            stack = stacks[event["track"]]
            if event["type"] == "TYPE_SLICE_BEGIN":
                self.assertLess(len(stack), 2)
                stack.append(event)
                if len(stack) == 2:
                    stages[stack[0]["name"], event["name"]] += 1
            elif event["type"] == "TYPE_SLICE_END":
                stack.pop()
        _, shown, _ = self.shown(ENGINE)
        moves = collections.Counter((e["object_type"], e["state"]) for e in shown if "state" in e and e["state"] not in
                                    ("FREE", "NONE", "INACTIVE", "NEW"))
        for key in (("nvmf_req", "EXECUTING"), ("nvmf_req", "COMPLETED"), ("bdev_io", "DISPATCHED")):
            self.assertGreater(moves[key], 500)
            self.assertEqual(stages[key], moves[key], key)

    def test_a_life_that_has_not_ended_stays_open(self):
        """The story's order that hangs, and its job: the life and its current stage."""
        tracks, events, _ = self.decoded(STORY)
        depth = collections.Counter()
        for event in events:
            depth[event["track"]] += {"TYPE_SLICE_BEGIN": 1, "TYPE_SLICE_END": -1}.get(event["type"], 0)
        self.assertEqual(sorted((tracks[track]["name"][0], count) for track, count in depth.items() if count), [("i7", 2), ("r5", 2)])

    def test_each_flow_has_two_ends(self):
        """From the request to the block device's I/O that it caused."""
        tracks, events, _ = self.decoded(ENGINE)
        begins, ends = collections.defaultdict(list), collections.defaultdict(list)
        for event in events:
            for flow in event["flow"]:
                begins[flow].append(event)
            for flow in event["flow_end"]:
                ends[flow].append(event)
        self.assertGreater(len(begins), 500)
        self.assertEqual(begins.keys(), ends.keys())
        for flow, (begin,) in begins.items():
            (end,) = ends[flow]
            self.assertEqual((end["name"], end["type"], begin["type"]), ("bdev_io", "TYPE_SLICE_BEGIN", "TYPE_INSTANT"))
            self.assertEqual(tracks[begin["track"]]["name"][0], end["args"]["belongs to"])
            self.assertEqual(begin["ns"], end["ns"])

    def test_time_of_day(self):
        """The clock snapshots say when it was, to the microsecond."""
        _, events, snapshots = self.decoded(ENGINE)
        header, shown, _ = self.shown(ENGINE, "-w")
        self.assertGreater(len(self.decoded(STORY)[2]), 1)  # its last event is seconds later
        self.assertTrue(all(later[64] > earlier[64] and later[1] > earlier[1] for earlier, later in zip(snapshots, snapshots[1:])))
        before = max((s for s in snapshots if s[64] <= events[-1]["ns"]), key=lambda s: s[64])
        seconds = (before[1] + events[-1]["ns"] - before[64]) / 1e9
        text = re.sub(r"(\.\d{6})\d*", r"\1", shown[-1]["time"])
        self.assertAlmostEqual(datetime.datetime.fromisoformat(text).timestamp(), seconds, places=5)

    def test_filters_are_those_of_show(self):
        for words in (("-n", "bdev_io_submit,bdev_io_done"), ("-g", "bdev"), ("-c", "0")):
            tracks, events, _ = self.decoded(ENGINE, *words)
            _, shown, _ = self.shown(ENGINE, *words)
            self.assertEqual([e["name"] for e in events if e["type"] == "TYPE_INSTANT" and tracks[e["track"]]["thread"]],
                             [e["name"] for e in shown])

    def test_standard_output(self):
        done = subprocess.run([harness.FATHOM, "trace", "export", "-f", STORY, "--perfetto", "-"], stdout=subprocess.PIPE)
        self.assertEqual(done.returncode, 0)
        path = self.path("trace")
        self.export(STORY, "--perfetto", path)
        with open(path, "rb") as file:
            self.assertEqual(file.read(), done.stdout)


# ---- CTF ----

FIELD = re.compile(r'\s*(?:(\w+) = )?(?:(\{)|(\})|"((?:[^"\\]|\\.)*)"|\( "([^"]*)" : container = \d+ \)|([^\s,{}]+))(,?)')


def parse_pretty(text):
    """The { name = value, ... } of babeltrace2's text: a dict."""
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
        """Events as babeltrace2 says them, in its order: (name, seconds, context of packet, of event, fields); its warnings."""
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
        """A value of `show` as CTF has it: hexadecimal numbers are numbers, and "-" is nothing."""
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

    def test_an_engine(self):
        """The same events with the same arguments in the same order."""
        shown = self.check(ENGINE)
        self.assertGreater(len(shown), 5000)
        self.assertGreater(len({event["thread"] for event in shown}), 1)

    def test_every_type_of_argument(self):
        self.check(STORY)

    def test_filters_are_those_of_show(self):
        self.check(ENGINE, "-g", "bdev")
        self.check(ENGINE, "-c", "0")

    def test_discarded_events_are_counted(self):
        """As many as `show` says were overwritten, if each event is one record."""
        for words in ((), ("-n", "nvmf_req_state")):
            _, warnings = self.read(ENGINE, *words)
            discarded = sum(map(int, re.findall(r"discarded (\d+) event", warnings)))
            _, shown, end = self.shown(ENGINE)
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

    def test_time_of_day(self):
        events, _ = self.read(ENGINE)
        _, shown, _ = self.shown(ENGINE, "-w")
        text = re.sub(r"(\.\d{6})\d*", r"\1", shown[0]["time"])
        self.assertAlmostEqual(datetime.datetime.fromisoformat(text).timestamp(), float(events[0][1]), places=5)

    def test_order_within_a_nanosecond(self):
        """Two threads record within the same nanosecond, that of the higher index first: time stamps alone would not tell."""
        header, shown, _ = self.shown(ENGINE)
        with open(ENGINE, "rb") as file:
            raw = bytearray(file.read())
        # by a clock on which two ticks are less than a nanosecond, whatever this machine's is
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

    def test_ticks_that_cannot_be(self):
        """A damaged tick or clock pair does not make the whole directory unreadable."""
        with open(STORY, "rb") as file:
            raw = bytearray(file.read())
        header, shown, _ = self.shown(STORY)
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

    def test_names_of_directories(self):
        path = self.path("names")
        self.refuse("cannot go to standard output", "export", "-f", STORY, "--ctf", "-")
        os.mkdir(path)
        self.export(STORY, "--ctf", path)
        self.assertEqual(sorted(os.listdir(path)), ["metadata", "thread_0"])
        self.refuse("has a trace in it already", "export", "-f", STORY, "--ctf", path)
        self.refuse("cannot make the directory", "export", "-f", STORY, "--ctf", path + "/metadata/x")
        self.assertEqual([name for name in os.listdir(FOLDER) if ".tmp" in name], [])

    def test_the_same_file_gives_the_same_bytes(self):
        for name in ("a", "b"):
            self.export(STORY, "--ctf", self.path(name))
        harness.run("diff", "-r", self.path("a"), self.path("b"))


# ---- HTML ----


class Html(ExportTest):
    @classmethod
    def setUpClass(cls):
        for program, package in (("chromium", "chromium"), ("chromedriver", "chromium-driver")):
            if not shutil.which(program):
                raise unittest.SkipTest(f"no {program} here (package {package})")
        cls.browser = browser.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()

    def open(self, trace, *words):
        path = self.path("page.html")
        self.export(trace, "--html", path, *words)
        self.browser.open(path)
        self.assertEqual(self.browser.script("return document.body.dataset.ready"), "true", self.browser.complaints())

    def check_quiet(self):
        """No error, and nothing that was to be loaded from elsewhere."""
        self.assertEqual(self.browser.complaints(), [])

    def embedded(self):
        return json.loads(self.browser.script("return document.getElementById('data').textContent"))

    def range(self):
        """What the time line shows: nanoseconds; the page draws in its next frame."""
        return self.browser.call("POST", "/execute/async", {"script":
                                 "requestAnimationFrame(() => requestAnimationFrame(() => { const d = "
                                 "document.getElementById('range').dataset; arguments[0]([Number(d.from), Number(d.to)]); }))", "args": []})

    def requests(self, shown):
        """Whole lives of nvmf_req in what `show` printed: [(us, object, serial of its first event, its events' names)]."""
        alive, done = {}, []
        for event in shown:
            if event.get("object_type") == "nvmf_req":
                if event["args"].get("from") == "FREE":
                    alive[event["object"]] = (event, [])
                if event["object"] in alive:
                    alive[event["object"]][1].append(event)
                if event["args"].get("to") == "FREE" and event["object"] in alive:
                    first, own = alive.pop(event["object"])
                    done.append((event["tick"] - first["tick"], event["object"], own))
            elif event.get("object_type") == "bdev_io" and event.get("related") in alive:
                alive[event["related"]][1].append(event)
        return done

    def test_the_slowest_comes_first_and_shows_its_events(self):
        self.open(ENGINE)
        _, shown, _ = self.shown(ENGINE)
        slowest = [r for r in self.requests(shown) if not any(e.get("state") == "WAIT_EVENT" for e in r[2])]
        slowest.sort(key=lambda row: -row[0])
        data = self.embedded()
        hidden = sum(len(members) - 1 for members in data["stalls"])
        self.assertEqual(self.browser.script("return document.querySelectorAll('.io').length"), min(200, len(slowest)) - hidden)
        busy = dict(zip(data["lives"]["serial"], data["lives"]["busy"]))
        rate = self.shown(ENGINE)[0]["tick_rate"]
        self.assertEqual(sorted((busy[serial] for serial in data["slowest"]), reverse=True),
                         [row[0] * 10 ** 9 // rate for row in slowest[:200]])
        self.browser.click("#io-0")
        name = self.browser.text("#io-0 b")
        ticks, _, own = next(row for row in slowest if row[1] == name and row[0] == slowest[0][0])
        self.assertEqual(ticks, slowest[0][0])
        self.assertTrue(self.browser.text("#details-heading").startswith(name + " "))
        rows = self.browser.script("return [...document.querySelectorAll('#details-events tr')].slice(1).map(row => "
                                   "[...row.cells].map(cell => cell.innerText))")
        self.assertEqual([(row[1], row[2], row[3]) for row in rows], [(e["thread"], e["name"], e["object"]) for e in own])
        stages = self.browser.script("return [...document.querySelectorAll('#details-stages td:first-child')].map(c => c.innerText.trim())")
        self.assertEqual(stages[:3], ["RECEIVED", "EXECUTING", "COMPLETED"])
        # which one was slowest is chance: it may be one that went to no device
        self.assertEqual(any(stage.endswith("DISPATCHED") for stage in stages[3:]), any(e.get("state") == "DISPATCHED" for e in own))
        self.check_quiet()

    def test_requests_that_one_stall_delayed_are_one_line(self):
        self.open(STALL)
        data = self.embedded()
        ids = dict(zip(data["lives"]["serial"], data["lives"]["id"]))
        members = data["stalls"][0]
        self.assertEqual((len(members), members[0]), (8, data["slowest"][0]))
        self.assertRegex(self.browser.text("#io-0 .stall"), r"^one stall delayed 8 by .* ms to .* ms; r\d+ began first$")
        self.browser.click("#io-0")
        self.assertIn(": " + ", ".join(f"r{ids[serial]}" for serial in members), self.browser.text("#details-body dl"))
        rows = lambda: self.browser.script("return document.querySelectorAll('.io').length")
        grouped = rows()
        self.browser.click("#group-stalls")
        self.assertEqual(rows(), grouped + sum(len(group) - 1 for group in data["stalls"]))
        self.assertEqual(self.browser.script("return document.querySelectorAll('.io .stall').length"), 0)
        self.check_quiet()

    def test_a_stage_has_the_same_colour_in_every_export(self):
        """Also in one in which other stages are missing, and the same name for it in light and dark."""
        seen = {}
        for trace, options in ((ENGINE, ()), (ENGINE, ("-n", "bdev_io_submit,bdev_io_dispatch,bdev_io_done")), (STORY, ())):
            self.open(trace, *options)
            legend = self.browser.script("return [...document.querySelectorAll('#legend > *')].map(node => "
                                         "[node.innerText.trim(), node.querySelector('.chip')?.style.background])")
            for name, color in legend:
                self.assertEqual(seen.setdefault(name, color), color, name)
            self.check_quiet()
        self.assertEqual({name: seen.get(name) for name in ("nvmf_req RECEIVED", "nvmf_req EXECUTING", "nvmf_req COMPLETED", "nvmf_req SENDING",
                                                           "bdev_io DISPATCHED")},
                         {"nvmf_req RECEIVED": "var(--c0)", "nvmf_req EXECUTING": "var(--c1)", "nvmf_req COMPLETED": "var(--c7)",
                          "nvmf_req SENDING": "var(--c6)",
                          "bdev_io DISPATCHED": "var(--c5)"})

    def test_the_list_says_whose_each_is(self):
        self.open(ENGINE)
        whose = self.browser.script("return [...document.querySelectorAll('.io .name small')].map(node => node.innerText)")
        self.assertTrue(any("qid:" in text for text in whose), whose[:3])
        self.assertTrue(any("malloc0" in text for text in whose), whose[:3])

    def test_keys_walk_the_list(self):
        self.open(ENGINE)
        self.browser.click("#io-0")
        for key, row in (("ArrowDown", 1), ("ArrowDown", 2), ("ArrowUp", 1), ("Home", 0)):
            self.browser.keys(key)
            self.assertEqual(self.browser.script("return document.querySelector('.io[aria-selected=true]').id"), f"io-{row}")
        self.check_quiet()

    def test_the_time_line_zooms_and_moves(self):
        self.open(ENGINE)
        self.browser.keys("0")
        begin, end = self.range()
        self.assertEqual(begin, 0)
        self.browser.wheel("#time-line", -400)
        after = self.range()
        self.assertLess(after[1] - after[0], (end - begin) * 0.5)
        self.browser.keys("+")
        near = self.range()
        self.assertAlmostEqual(near[1] - near[0], (after[1] - after[0]) / 2, delta=2)
        self.browser.keys("ArrowRight")
        moved = self.range()
        self.assertGreater(moved[0], near[0])
        self.assertAlmostEqual(moved[1] - moved[0], near[1] - near[0], delta=2)
        self.browser.keys("ArrowLeft", "-")
        self.assertAlmostEqual(self.range()[1] - self.range()[0], after[1] - after[0], delta=4)
        self.browser.pointer("#time-line", ("move", 0, 0), ("down", 0, 0), ("move", -200, 0), ("up", 0, 0))
        self.assertGreater(self.range()[0], after[0])
        self.browser.keys("0")
        self.assertEqual(self.range(), [begin, end])
        self.check_quiet()

    def test_a_click_on_the_time_line_selects(self):
        """The selected I/O is in the middle after `s`; another is to be had by clicking where it is drawn."""
        self.open(ENGINE)
        self.browser.click("#io-5")
        before = self.browser.text("#details-heading")
        self.browser.click("#io-0")
        self.browser.keys("s")
        begin, end = self.range()
        serial = int(self.browser.script("return document.getElementById('io-5').dataset.serial"))
        spot = self.browser.script("const i = bySerial.get(arguments[0]); selected = i; zoomToSelected(); drawTimeLine(); return "
                                   "[xOf(lives.begin[i] + lives.dur[i] / 2), lanesTop + laneOf[i] * LANE_HEIGHT + 5, "
                                   "document.getElementById('time-line').clientWidth, timeLineHeight]", serial)
        x, y, width, height = spot
        self.browser.pointer("#time-line", ("move", round(x - width / 2), round(y - height / 2)), ("down", 0, 0), ("up", 0, 0))
        self.assertEqual(self.browser.text("#details-heading"), before)
        self.check_quiet()

    def test_histograms_and_heat_map_are_of_all(self):
        """As many as `stages` counts, with the same median within the width of a bucket."""
        self.open(ENGINE)
        data = self.embedded()
        kinds = {kind["name"]: kind for kind in data["kinds"]}
        text = harness.run(harness.FATHOM, "trace", "stages", "-f", ENGINE).stdout
        for name in ("nvmf_req", "bdev_io"):
            count = int(re.search(rf"^{name}: (\d+) whole lives", text, re.M).group(1))
            self.assertEqual(kinds[name]["count"], count)
            self.assertEqual(sum(kinds[name]["states"][0]["buckets"][1::2]), count)
            self.assertEqual(sum(kinds[name]["heat"][2::3]), count)
            self.assertIn(f"{name}: {count:,} whole lives", self.browser.text("#stages"))
        table = re.search(r"^nvmf_req: .*?whole life +\d+ +[\d.]+ +([\d.]+)", text, re.M | re.S)
        # the panels of the requests, whichever kind stands first
        said = self.browser.script("return [...document.querySelectorAll('#stages h3')].find(h => h.innerText.startsWith('nvmf_req:'))"
                                   ".nextElementSibling.innerText.split('whole life')[1]")
        number, unit = re.search(r"p50 ([\d.]+) (\S+)", said).groups()
        median = float(number) * {"ns": 0.001, "\u00b5s": 1, "ms": 1000}[unit]
        self.assertAlmostEqual(median, float(table.group(1)), delta=median * 0.13)
        self.browser.keys("0")
        before = self.range()
        self.browser.pointer("#heat", ("move", 0, 0), ("down", 0, 0), ("up", 0, 0))
        self.assertLess(self.range()[1] - self.range()[0], before[1] - before[0])
        self.check_quiet()

    def test_every_argument_is_shown(self):
        """Hostile text as well: it is text, wherever it is."""
        self.open(STORY)
        data = self.embedded()
        _, shown, _ = self.shown(STORY)
        self.assertEqual(len(data["events"]["point"]), len(shown))
        for point, args, event in zip(data["events"]["point"], data["events"]["args"], shown):
            row = data["points"][str(point)]
            self.assertEqual(row["name"], event["name"])
            said = {name[0]: value for name, value in zip(row["args"], args)}
            self.assertEqual(said, {k: str(v) if isinstance(v, int) and not isinstance(v, bool) and (v < 0 or v >= 2 ** 53) else v
                                    for k, v in event["args"].items()})
        self.check_quiet()

    def test_hostile_names_stay_text(self):
        """A trace whose program, host and strings try to end the script: nothing of it runs or breaks the page."""
        evil = b"</script><script>document.title='taken'</script>"
        path = self.path("evil.trace")
        with open(STORY, "rb") as file:
            raw = bytearray(file.read())
        for text in (b'say "hello"\\\n', b"127.0.0.1:43210 queue 1"):
            at = raw.index(text + b"\0")
            raw[at:at + len(text)] = evil[:len(text)]
        at = raw.index(b"demo\0", 576)  # the program's name, in the process section
        raw[at:at + len(evil)] = evil
        with open(path, "wb") as file:
            file.write(raw)
        self.open(path)
        self.assertTrue(self.browser.text("#title").startswith(evil.decode()))
        self.assertEqual(self.browser.script("return document.title"), evil.decode() + " \u2013 Fathom trace")
        self.assertEqual(self.browser.script("return document.scripts.length"), 2)
        self.check_quiet()

    def test_what_is_left_out_is_said(self):
        """More events than a page holds: the slowest lives are whole nevertheless."""
        done = harness.run(WRITER, "flood", FOLDER, 7 * 60000)
        trace = done.stdout.strip()
        self.open(trace)
        data = self.embedded()
        self.assertEqual((data["about"]["events"], data["about"]["lives"]), (420000, 120000))
        self.assertIn(f"{data['about']['events_left_out']:,} events are left out", self.browser.text("#left-out"))
        self.assertLess(data["about"]["events_left_out"], 420000 - 200000 + 1)
        lives = data["lives"]
        self.assertEqual(len(lives["begin"]), 120000 - data["about"]["lives_left_out"])
        counts = collections.Counter(data["events"]["life"])
        for serial in data["slowest"]:
            inner = [lives["serial"][i] for i, parent in enumerate(lives["parent"]) if parent == serial]
            self.assertEqual((counts[serial], sum(counts[i] for i in inner)), (4, 3))
        self.check_quiet()

    def test_nothing_to_show(self):
        """A page without a single event works."""
        self.open(STORY, "-c", "77")
        self.assertIn("0 events were exported", self.browser.text("#left-out"))
        self.browser.keys("+", "s", "0")
        self.check_quiet()


class Names(ExportTest):
    """What appears under which name, and when nothing does."""

    def test_it_must_be_said_what(self):
        self.refuse("export to what?", "export", "-f", STORY)

    def test_a_removed_format_names_its_replacement(self):
        self.refuse("use --perfetto", "export", "-f", STORY, "--chrome", self.path("x"))
        self.refuse("use --perfetto", "export", "-f", STORY, "--format", "chrome")

    def test_no_such_directory(self):
        self.refuse("cannot write", "export", "-f", STORY, "--perfetto", "/nonexistent/x")

    def test_a_failed_write_leaves_nothing(self):
        path = self.path("limited")
        done = subprocess.run(["sh", "-c", f"trap '' XFSZ; ulimit -f 8; exec {harness.FATHOM} trace export -f {ENGINE} --perfetto {path}"],
                              stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("cannot write", done.stderr)
        self.assertEqual([name for name in os.listdir(FOLDER) if name.startswith(os.path.basename(path))], [])

    def test_a_full_device(self):
        self.refuse("No space left", "export", "-f", STORY, "--perfetto", "/dev/full")

    def test_what_is_there_is_refused(self):
        for option in ("--perfetto", "--html"):
            path = self.path("mine")
            with open(path, "w") as file:
                file.write("before")
            self.refuse("--force overwrites it", "export", "-f", STORY, option, path)
            with open(path) as file:
                self.assertEqual(file.read(), "before")
        path = self.path("mine.ctf")
        self.export(STORY, "--ctf", path)
        self.refuse("--force overwrites it", "export", "-f", STORY, "--ctf", path)
        self.export(STORY, "--ctf", path, "--force")
        # a file that is not a trace stays, with --force too
        other = self.path("mine.folder")
        os.mkdir(other)
        with open(os.path.join(other, "letter"), "w"):
            pass
        self.refuse("has something in it already", "export", "-f", STORY, "--ctf", other, "--force")
        self.assertEqual(os.listdir(other), ["letter"])

    def test_what_was_there_is_replaced_when_it_is_whole(self):
        path = self.path("replaced")
        with open(path, "w") as file:
            file.write("before")
        with open(path) as old:
            self.export(STORY, "--perfetto", path, "--force")
            self.assertEqual(old.read(), "before")
        with open(path, "rb") as new:
            self.assertNotEqual(new.read(6), b"before")


if __name__ == "__main__":
    unittest.main()
