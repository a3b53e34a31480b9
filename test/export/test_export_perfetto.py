# SPDX-License-Identifier: BSD-2-Clause
"""
`fathom trace export --perfetto` of a real engine's trace, read by protoc and compared with what `fathom trace show --json` prints
of the same file.
"""

import collections
import datetime
import re
import subprocess
import unittest

from export_rig import HERE, ExportTest, harness, traces

tearDownModule = traces.remove

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
        """Replace ids in the packets by names: (tracks, events, snapshots)."""
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

    decodings = {}  # cached: decoding takes seconds

    def decoded(self, trace, *words):
        if (trace, words) not in self.decodings:
            path = self.path("trace")
            self.export(trace, "--perfetto", path, *words)
            with open(path, "rb") as file:
                self.decodings[trace, words] = self.decode(file.read())
        return self.decodings[trace, words]

    def check_instants(self, trace):
        """Assert that each event is an instant on its thread's track, in the order of `show`, with its arguments."""
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

    def test_each_event_of_an_engine_is_an_instant(self):
        self.assertGreater(self.check_instants(traces.engine), 5000)

    def test_each_type_of_argument_equals_show(self):
        self.check_instants(traces.story)

    def test_each_life_is_a_slice_with_nested_stages(self):
        """An object's track has a slice for each life and, in it, consecutive slices for its stages."""
        tracks, events, _ = self.decoded(traces.engine)
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
        _, shown, _ = self.shown(traces.engine)
        moves = collections.Counter((e["object_type"], e["state"]) for e in shown if "state" in e and e["state"] not in
                                    ("FREE", "NONE", "INACTIVE", "NEW"))
        for key in (("nvmf_req", "EXECUTING"), ("nvmf_req", "COMPLETED"), ("bdev_io", "DISPATCHED")):
            self.assertGreater(moves[key], 500)
            self.assertEqual(stages[key], moves[key], key)

    def test_a_life_that_has_not_ended_stays_open(self):
        """The hung order of the story and its job: the life and its current stage have no end."""
        tracks, events, _ = self.decoded(traces.story)
        depth = collections.Counter()
        for event in events:
            depth[event["track"]] += {"TYPE_SLICE_BEGIN": 1, "TYPE_SLICE_END": -1}.get(event["type"], 0)
        self.assertEqual(sorted((tracks[track]["name"][0], count) for track, count in depth.items() if count), [("i7", 2), ("r5", 2)])

    def test_each_flow_has_two_ends(self):
        """Flows go from a request to the I/O of the block device that it caused."""
        tracks, events, _ = self.decoded(traces.engine)
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

    def test_clock_snapshots_give_the_time_of_day(self):
        """Accurate to the microsecond."""
        _, events, snapshots = self.decoded(traces.engine)
        header, shown, _ = self.shown(traces.engine, "-w")
        self.assertGreater(len(self.decoded(traces.story)[2]), 1)  # its last event is seconds later
        self.assertTrue(all(later[64] > earlier[64] and later[1] > earlier[1] for earlier, later in zip(snapshots, snapshots[1:])))
        before = max((s for s in snapshots if s[64] <= events[-1]["ns"]), key=lambda s: s[64])
        seconds = (before[1] + events[-1]["ns"] - before[64]) / 1e9
        text = re.sub(r"(\.\d{6})\d*", r"\1", shown[-1]["time"])
        self.assertAlmostEqual(datetime.datetime.fromisoformat(text).timestamp(), seconds, places=5)

    def test_filters_select_the_same_events_as_show(self):
        for words in (("-n", "bdev_io_submit,bdev_io_done"), ("-g", "bdev"), ("-c", "0")):
            tracks, events, _ = self.decoded(traces.engine, *words)
            _, shown, _ = self.shown(traces.engine, *words)
            self.assertEqual([e["name"] for e in events if e["type"] == "TYPE_INSTANT" and tracks[e["track"]]["thread"]],
                             [e["name"] for e in shown])

    def test_an_export_can_go_to_standard_output(self):
        done = subprocess.run([harness.FATHOM, "trace", "export", "-f", traces.story, "--perfetto", "-"], stdout=subprocess.PIPE)
        self.assertEqual(done.returncode, 0)
        path = self.path("trace")
        self.export(traces.story, "--perfetto", path)
        with open(path, "rb") as file:
            self.assertEqual(file.read(), done.stdout)


if __name__ == "__main__":
    unittest.main()
