# SPDX-License-Identifier: BSD-2-Clause
"""`fathom trace` on files of killed programs and on golden files of version 1."""

import glob
import json
import lzma
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import agree  # noqa: E402 - beside this file

FATHOM = os.environ.get("FATHOM", "")
WRITER = os.environ.get("TRACE_WRITER", "")


def fathom(*args, env=None):
    return subprocess.run([FATHOM, "trace", *args], capture_output=True, text=True, env=dict(os.environ, TZ="UTC", **(env or {})))


def without_file(text):
    """Remove the path of the file, which differs in each run."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("# /") and '{"trace"' not in line)


class Command(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="fathom-trace-")
        cls.path = subprocess.run([WRITER, "story", cls.folder], capture_output=True, text=True).stdout.strip()
        cls.golden = os.path.join(cls.folder, "golden")
        cls.stages = os.path.join(cls.folder, "stages")
        cls.lives = os.path.join(cls.folder, "lives")
        for name, path in (("golden-v1", cls.golden), ("golden-stages-v1", cls.stages), ("golden-lives-v1", cls.lives)):
            with lzma.open(os.path.join(HERE, name + ".trace.xz")) as packed, open(path, "wb") as file:
                file.write(packed.read())

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def run_ok(self, *args, status=0):
        done = fathom(*args)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout

    def run_bad(self, words, *args):
        done = fathom(*args)
        self.assertEqual(done.returncode, 2)
        self.assertIn(words, done.stderr)

    def test_an_event_is_printed_in_one_line(self):
        self.assertRegex(self.run_ok("-f", self.path),
                         r"\n  0: +\d+\.\d{3} us  \( +\d+\)  JOB_DONE +\[q1 127\.0\.0\.1:43210 queue 1\]  id: i1 \(r1\) +dwell: "
                         r"\d+\.\d{3} +total: \d+\.\d{3} +queue_depth: 1 status: OK device: null0\n")

    def test_the_header_is_printed(self):
        text = self.run_ok("-f", self.path)
        for words in ("dead", "TSC rate: ", "pid ", "0 overwritten", "0 unregistered", "40 kept"):
            self.assertIn(words, text)

    def test_each_type_of_argument_is_printed(self):
        text = self.run_ok("-f", self.golden)
        for words in ("d: -5 e: -9223372036854775808 f: true", "a: 0xab b: 0xabcd c: 0xabcdef01 d: 0xabcdef0123456789",
                      "took: 1234.567 us size: 4096 bytes timeout: 30000000 ns", "g: 18446744073709551615 h: 8",
                      'first: say "hello"\\? second: Grüße', "RECEIVED -> EXECUTING", "by: r0"):
            self.assertIn(words, text)

    def test_the_highest_time_is_printed_as_never(self):
        text = self.run_ok("-f", self.path, "-n", "units")
        self.assertIn("took: never size: 4294967295 bytes timeout: never\n", text)
        self.assertIn('"timeout":18446744073709551615', self.run_ok("-f", self.path, "-n", "units", "--json"))

    def test_text_equals_the_golden_file(self):
        with open(os.path.join(HERE, "golden-v1.txt")) as file:
            self.assertEqual(without_file(self.run_ok("-f", self.golden)), without_file(file.read()))

    def test_json_equals_the_golden_file(self):
        with open(os.path.join(HERE, "golden-v1.json")) as file:
            self.assertEqual(without_file(self.run_ok("-f", self.golden, "--json")), without_file(file.read()))

    def test_a_reader_written_from_the_format_page_agrees(self):
        flood = subprocess.run([WRITER, "run", self.folder, "1"], capture_output=True, text=True).stdout.strip()
        for path in (self.path, self.golden, flood):
            agree.check_events(self, FATHOM, path)
        self.assertEqual(agree.check_stuck(self, FATHOM, self.path), 2)
        for path in (self.path, flood, self.lives):
            agree.check_stuck(self, FATHOM, path)
            self.assertGreater(agree.check_summary(self, FATHOM, path), 5)
            self.assertGreaterEqual(agree.check_slowest(self, FATHOM, path), 3)
        os.unlink(flood)

    def test_a_reader_written_from_the_format_page_agrees_on_cleared_records(self):
        path = os.path.join(self.folder, "cleared")
        ticks = [row["end_tick"] for row in self.slowest("200", "-f", self.lives)]
        with open(self.lives, "rb") as file:
            data = bytearray(file.read())
        clear = sorted(ticks)[len(ticks) // 2]
        data[40:48] = clear.to_bytes(8, "little")
        with open(path, "wb") as file:
            file.write(data)
        agree.check_events(self, FATHOM, path)
        self.assertGreater(agree.check_slowest(self, FATHOM, path), 10)
        self.assertGreaterEqual(min(row["end_tick"] for row in self.slowest("200", "-f", path)), clear)
        self.assertGreater(json.loads(self.run_ok("-f", path, "--json").splitlines()[-1])["end"]["cleared"], 0)

    def test_lives_equal_the_golden_file(self):
        """A file with histograms of stages and exemplars. golden-v1 and golden-stages-v1 are older and have none."""
        words = (("summary",), 0), (("slowest", "5", "--events"), 0), (("stuck", "--all", "--older-than", "0"), 1)
        rows = [row for words, status in words
                for row in self.run_ok(*words, "--json", "-f", self.lives, status=status).splitlines()]
        with open(os.path.join(HERE, "golden-lives-v1.json")) as file:
            self.assertEqual(without_file("\n".join(rows)), without_file(file.read()))

    def test_stuck_shows_live_requests(self):
        text = self.run_ok("stuck", "-f", self.golden, status=1)
        self.assertIn("order r5  [q1 127.0.0.1:43210 queue 1]  EXECUTING for 3.000 s, age 3.000 s  opcode: 0x02 nsid: 1 lba: 4096 blocks",
                      text)
        self.assertIn("job i7 (r5)", text)
        self.assertIn("ran uring_poll of nvmf_tgt_poll_group_0 for 3.000 s", text)
        rows = [json.loads(line) for line in self.run_ok("stuck", "-f", self.golden, "--json", status=1).splitlines()]
        self.assertEqual([row.get("object") for row in rows[1:]], ["r5", "i7", None])
        self.assertEqual(rows[2]["related"], "r5")
        self.assertEqual(rows[1]["stage"], "EXECUTING")

    def test_stuck_shows_no_request_below_the_given_time(self):
        self.assertIn("0 stuck, 2 under way", self.run_ok("stuck", "-f", self.golden, "--older-than", "1h"))

    def test_stages_equal_the_golden_file(self):
        for name, args in (("golden-stages-v1.txt", []), ("golden-stages-v1.json", ["--json"])):
            with open(os.path.join(HERE, name)) as file:
                self.assertEqual(without_file(self.run_ok("stages", "-f", self.stages, *args)), without_file(file.read()))

    def test_stages_equal_sums_over_the_events(self):
        moves, entered, spent = {}, {}, {}
        for row in map(json.loads, self.run_ok("-f", self.stages, "-n", "order_state", "--json").splitlines()[1:-1]):
            order, state = row["object"], row["args"]["from"]
            if order in entered and state != "FREE":
                moves.setdefault(order, []).append((state, row["tick"] - entered[order]))
            if row["args"]["to"] == "FREE" and order in moves and moves[order][0][0] == "RECEIVED":
                for stage, ticks in moves.pop(order):
                    spent.setdefault(stage, []).append(ticks)
            entered[order] = row["tick"]
        rows = [json.loads(line) for line in self.run_ok("stages", "-f", self.stages, "-g", "demo", "--json").splitlines()]
        rows = {row["stage"]: row for row in rows if row.get("object_type") == "order" and "of" not in row and "stage" in row}
        for stage, ticks in spent.items():
            self.assertEqual(rows[stage]["count"], len(ticks))
            self.assertAlmostEqual(rows[stage]["avg_us"], sum(ticks) / len(ticks) / 1000, places=3)
            self.assertAlmostEqual(rows[stage]["max_us"], max(ticks) / 1000, places=3)
            for key, part in (("p50_us", 0.5), ("p90_us", 0.9), ("p99_us", 0.99)):
                exact = sorted(ticks)[int(len(ticks) * part + 0.9999) - 1] / 1000
                self.assertAlmostEqual(rows[stage][key], exact, delta=0.01 * exact + 0.001)

    def test_stages_can_be_selected_by_kind_and_core(self):
        text = self.run_ok("stages", "-f", self.stages, "-n", "job_done")
        self.assertIn("\njob: 1102 whole lives\n", text)
        self.assertNotIn("order:", text)
        self.assertNotIn("whole lives", self.run_ok("stages", "-f", self.stages, "-g", "more"))
        self.assertNotIn("whole lives", self.run_ok("stages", "-f", self.stages, "-c", "1"))

    def test_stages_of_a_small_ring_are_of_complete_lives(self):
        flood = subprocess.run([WRITER, "run", self.folder, "1"], capture_output=True, text=True).stdout.strip()
        rows = [json.loads(line) for line in self.run_ok("stages", "-f", flood, "--json").splitlines()]
        os.unlink(flood)
        order = next(row for row in rows if row.get("object_type") == "order" and "lives" in row)
        self.assertGreater(order["lives"], 4000)
        self.assertLessEqual(order["left_out"] + order["under_way"], 2)
        for stage in ("RECEIVED", "EXECUTING", "DONE"):
            row = next(row for row in rows if row.get("object_type") == "order" and row.get("stage") == stage)
            self.assertEqual(row["count"], order["lives"])

    def slowest(self, *args):
        return [row for row in map(json.loads, self.run_ok("slowest", *args, "--json").splitlines()) if "number" in row]

    def test_slowest_requests_equal_those_in_the_events(self):
        begun, totals = {}, []
        for row in map(json.loads, self.run_ok("-f", self.stages, "-n", "order_state", "--json").splitlines()[1:-1]):
            if row["args"]["from"] == "FREE":
                begun[row["object"]], resting = row["tick"], 0
            if row["args"]["from"] == "RESTING":
                resting = row["dwell_us"] * 1000
            if row["args"]["to"] == "FREE" and row["object"] in begun:
                totals.append((round((row["tick"] - begun.pop(row["object"]) - resting) / 1000, 3), row["object"]))
        totals.sort(key=lambda pair: -pair[0])
        rows = self.slowest("-f", self.stages, "20")
        self.assertEqual([row["total_us"] for row in rows], [total for total, _ in totals[:20]])
        self.assertEqual(rows[0]["object"], totals[0][1])
        for row in rows:
            self.assertAlmostEqual(sum(stage["us"] for stage in row["stages"]), row["total_us"], places=2)
            self.assertEqual(row["io"]["object"][1:], row["object"][1:])
        self.assertEqual(len(self.slowest("-f", self.stages)), 10)
        self.assertEqual(self.slowest("-f", self.stages, "-c", "1"), [])

    def test_a_slow_life_is_shown_with_its_events(self):
        text = self.run_ok("slowest", "1", "-f", self.stages)
        self.assertIn("this file keeps no slow requests", text)
        self.assertRegex(text, r"\n  1\. 8\.594 us  order r99  at 0\.011588 s  on reactor_0\n      length: 4096 bytes blocks: 8")
        self.assertIn("\n      EXECUTING                      6.994 us   81.4 %  ####################\n"
                      "        job SUBMITTED                0.300 us    3.5 %  #\n", text)
        self.assertIn("\n        beside                       0.700 us    8.1 %", text)

    def test_slowest_requests_of_a_killed_program_have_their_events(self):
        text = self.run_ok("slowest", "3", "--events", "-f", self.path)
        self.assertEqual(text.count("ORDER_STATE"), 12)
        self.assertIn("# 6 requests are kept with all stages; not shown: 0 torn", text)
        self.assertIn("# 2 under way when it died: `fathom trace stuck` shows them", text)
        self.assertEqual([row["object"] for row in self.slowest("-f", self.path)], ["r0", "r1", "r2"])
        self.assertIn("no request failed", self.run_ok("slowest", "--failed", "-f", self.path))
        self.run_bad("a number from 1 to 4096", "slowest", "0", "-f", self.path)
        self.run_bad("a number from 1 to 4096", "slowest", "x", "-f", self.path)

    def test_summary_counts_the_shown_events(self):
        flood = subprocess.run([WRITER, "run", self.folder, "1"], capture_output=True, text=True).stdout.strip()
        for path in (self.path, self.golden, self.stages, flood):
            shown = {}
            for row in map(json.loads, self.run_ok("-f", path, "--json").splitlines()):
                if "seq" in row:
                    shown[row["name"]] = shown.get(row["name"], 0) + 1
            rows = [json.loads(line) for line in self.run_ok("summary", "-f", path, "--json").splitlines()]
            self.assertEqual({row["name"]: row["count"] for row in rows if "count" in row and "name" in row}, shown)
            self.assertEqual(rows[-1]["end"]["events"], sum(shown.values()))
        os.unlink(flood)

    def test_summary_of_a_killed_program_counts_all_ended_lives(self):
        flood = subprocess.run([WRITER, "run", self.folder, "1"], capture_output=True, text=True).stdout.strip()
        rows = [json.loads(line) for line in self.run_ok("summary", "-f", flood, "--json").splitlines()]
        recorded = sum(row["recorded_io"] for row in rows if "recorded_io" in row)
        whole = next(row for row in rows if row.get("object_type") == "order" and row.get("stage", "") is None)
        self.assertAlmostEqual(whole["count"], recorded / 7, delta=1)
        self.assertGreater(recorded, 100000)
        executing = next(row for row in rows if row.get("object_type") == "order" and row.get("stage") == "EXECUTING")
        self.assertEqual(executing["count"], whole["count"])
        os.unlink(flood)

    def test_summary_states_what_it_counts(self):
        text = self.run_ok("summary", "-f", self.path)
        for words in ("WHERE THE TIME WENT", "order: 3 ended", "P99.9", "EVENTS that the rings hold", "# 2 under way", "THREADS"):
            self.assertIn(words, text)
        self.assertRegex(text, r"\n  EXECUTING +3 +0\.1 .* 50\.0 % +\d+\.\d  is worked on\n")
        self.assertRegex(text, r"\n  ORDER_STATE +demo +14 ")
        # files of the oldest engines have only the lives in their rings
        self.assertIn("order: 3 whole lives", self.run_ok("summary", "-f", self.golden))

    def test_threads_are_listed(self):
        self.assertIn("reactor_0", self.run_ok("threads", "-f", self.golden))

    def test_filters_select_events(self):
        names = lambda *args: [line.split(")  ", 1)[1].split()[0] for line in self.run_ok("-f", self.golden, *args).splitlines()
                               if not line.startswith("#")]
        self.assertEqual(set(names("-n", "JOB_DONE")), {"JOB_DONE"})
        self.assertEqual(set(names("-n", "job_done,texts")), {"JOB_DONE", "TEXTS"})
        self.assertNotIn("JOB_DONE", names("-g", "more"))
        self.assertEqual(names("-c", "1"), [])
        self.assertEqual(len(names("-c", "0,3")), len(names()))

    def rows(self, *args):
        return [row for row in map(json.loads, self.run_ok(*args, "--json").splitlines()) if "seq" in row]

    def test_where_selects_the_same_rows_as_a_search(self):
        all_rows = self.rows("-f", self.stages)
        for where, holds in (
                ("latency_us > 5us", lambda row: row.get("total_us", 0) > 5),
                ("dwell_us >= 1 and dwell_us < 2us", lambda row: 1 <= row.get("dwell_us", -1) < 2),
                ("blocks == 8", lambda row: row["args"].get("blocks") == 8),
                ("status == ok and latency_us > 4", lambda row: row["args"].get("status") == "OK" and row["total_us"] > 4),
                ("kind == WRITE or to == RESTING", lambda row: row["args"].get("kind") == "WRITE" or row["args"].get("to") == "RESTING"),
                ("not (name =~ ORDER)", lambda row: "order" not in row["name"]),
                ("length >= 128k", lambda row: row["args"].get("length", 0) >= 131072),
                ("object == r7", lambda row: row.get("object") == "r7"),
                ("order == r7", lambda row: row["args"].get("order") == "r7"),
                ("state == DONE", lambda row: row.get("state") == "DONE"),
                ("core == 0 and thread == reactor_0 and tick < 2000000", lambda row: row["tick"] < 2000000),
                ("latency_ns > 5000", lambda row: row.get("total_us", 0) > 5),
                ("latency > 0.005ms", lambda row: row.get("total_us", 0) > 5),
                ("latency_s > 0.5", lambda row: row.get("total_us", 0) > 500000),
                ("dwell_ms >= 0.001", lambda row: row.get("dwell_us", -1) >= 1),
                ("group == more", lambda row: row["group"] == "more")):
            wanted = [row for row in all_rows if holds(row)]
            self.assertEqual(self.rows("-f", self.stages, "--where", where), wanted, where)
            self.assertEqual(len(self.rows("-f", self.stages, "--where", f"not ({where})")), len(all_rows) - len(wanted))

    def test_an_error_in_where_has_its_position(self):
        self.run_bad("a value is missing: a number, a word or \"text\"\n  latency_us >\n              ^\n", "-f", self.golden, "--where",
                     "latency_us >")
        self.run_bad("no event has an argument of this name; all have: latency_us, dwell_us, tick, core, thread, owner, object, name, "
                     "group, state\n  tick or frob == 1\n          ^\n", "-f", self.golden, "--where", "tick or frob == 1")
        self.run_bad("job_done has no argument of this name; there are: queue_depth, status, device, latency_us,", "-f", self.golden,
                     "--where", "demo.job_done frob == 1")
        # an argument that only other events have
        self.run_bad("job_done has no argument of this name", "-f", self.golden, "--where", "demo.job_done kind == READ")
        self.run_bad("no value has this label; the labels are: OK, ", "-f", self.golden, "--where", "demo.job_done status == OKAY")
        self.run_bad("the groups are: process, demo, more\n   dem.job_done\n   ^\n", "-f", self.golden, "--where", " dem.job_done")
        self.run_bad("it has: order_state, thing_state, job_submit", "-f", self.golden, "--where", "demo.done")

    def test_where_may_start_with_an_event(self):
        done = [row for row in self.rows("-f", self.stages) if row["name"] == "job_done"]
        slow = [row for row in done if row["total_us"] > 4]
        self.assertTrue(slow and len(slow) < len(done))
        for where in ("demo.job_done latency_us > 4", "DEMO.Job_done latency_ns > 4us", "demo.job_done name == job_done and latency > 4"):
            self.assertEqual(self.rows("-f", self.stages, "--where", where), slow, where)
        for where in ("demo.job_done", "demo.job_done  "):
            self.assertEqual(self.rows("-f", self.stages, "--where", where), done)
        self.assertEqual(self.rows("-f", self.stages, "--where", "more.count_io"),
                         [row for row in self.rows("-f", self.stages) if row["name"] == "count_io"])

    def test_an_object_is_selected_with_its_related_objects(self):
        self.assertEqual([(row["object"], row["name"]) for row in self.rows("-f", self.golden, "--object", "r1")],
                         [("r1", "order_state"), ("r1", "order_state"), ("i1", "job_submit"), ("i1", "job_run"), ("i1", "job_done"),
                          ("r1", "order_state"), ("r1", "order_state")])
        self.assertEqual({row["object"] for row in self.rows("-f", self.golden, "--object", "I7")}, {"i7"})
        self.assertEqual(self.rows("-f", self.golden, "--object", "r99"), [])
        self.run_bad("no object has the name \"z1\"", "-f", self.golden, "--object", "z1")
        # an object that belonged to another before is not selected with that one
        for row in self.rows("-f", self.stages, "--object", "r5"):
            self.assertIn(row["object"] + row.get("related", ""), ("r5", "i5r5"))

    def test_an_owner_is_selected_by_its_id_or_text(self):
        owned = [row for row in self.rows("-f", self.golden) if "owner" in row]
        for owner in ("q1", "127.0.0.1", "QUEUE 1"):
            self.assertEqual(self.rows("-f", self.golden, "--owner", owner), owned)
        self.assertEqual(self.rows("-f", self.golden, "--owner", "queue 2"), [])

    def test_a_span_of_time_is_selected(self):
        all_rows = self.rows("-f", self.stages)
        middle = [row for row in all_rows if 5000 <= row["time_us"] <= 6000]
        self.assertEqual(self.rows("-f", self.stages, "--since", "5ms", "--until", "6000us"), middle)
        last = max(row["tick"] for row in all_rows)
        self.assertEqual(self.rows("-f", self.stages, "--since", "-1s"), [row for row in all_rows if row["tick"] >= last - 10**9])
        self.assertEqual(self.rows("-f", self.stages, "--since", "-1s", "--until", "-0.5s"),
                         [row for row in all_rows if last - 10**9 <= row["tick"] <= last - 5 * 10**8])
        self.run_bad("is not a time", "-f", self.path, "--since", "soon")
        self.run_bad("time of day", "-f", self.golden, "--since", "12:00:00")

    def test_a_span_is_selected_by_the_time_of_day(self):
        rows = [row for row in map(json.loads, self.run_ok("-f", self.path, "-w", "--json").splitlines()) if "time" in row]
        moment = rows[10]["time"].split("+")[0]
        for text in (moment, moment.split("T")[1]):
            shown = [row["tick"] for row in self.rows("-f", self.path, "--since", text)]
            self.assertEqual(shown, [row["tick"] for row in rows if row["time"] >= rows[10]["time"]])

    def test_lives_can_be_filtered(self):
        self.assertEqual([row["object"] for row in self.slowest("-f", self.path, "--where", "object == r1 and latency_us > 0")], ["r1"])
        self.assertEqual([row["object"] for row in self.slowest("-f", self.path, "--object", "r2")], ["r2"])
        self.assertEqual(self.slowest("-f", self.path, "--owner", "queue 2"), [])
        self.assertEqual(self.slowest("-f", self.path, "--until", "0"), [])
        rows = [json.loads(line) for line in self.run_ok("stages", "-f", self.stages, "--until", "5ms", "--json").splitlines()]
        whole = [row for row in rows if row.get("object_type") == "order" and "of" not in row and row.get("stage", "") is None][0]
        self.assertLess(whole["count"], 1000)

    def io(self, *args):
        """The lives with their events: [(head, [event ...]) ...]"""
        lives = []
        for row in map(json.loads, self.run_ok("io", *args, "--json").splitlines()):
            if "number" in row or "age_us" in row:
                lives.append((row, []))
            elif "seq" in row:
                lives[-1][1].append(row)
        return lives

    def test_io_shows_a_request_with_its_related_events(self):
        for name in ("r1", "i1", "I1"):
            (head, events), = self.io(name, "-f", self.golden)
            self.assertEqual((head["object"], head["total_us"]), ("r1", 0.4))
            self.assertEqual([row["object"] for row in events], ["r1", "r1", "i1", "i1", "i1", "r1", "r1"])
        (head, events), = self.io("i7", "-f", self.golden)
        self.assertEqual((head["object"], head["stage"], len(events)), ("r5", "EXECUTING", 3))
        self.assertIn("the file has no whole life of \"r77\"", fathom("io", "r77", "-f", self.golden).stderr)
        self.run_bad("no object has the name", "io", "77", "-f", self.golden)
        self.run_bad("io needs the id of an object", "io", "-f", self.golden)

    def test_io_shows_all_lives_of_a_request(self):
        begun = [row["tick"] for row in self.rows("-f", self.stages, "-n", "order_state", "--where", "object == r7 and to == RECEIVED")]
        lives = self.io("r7", "--all", "-f", self.stages)
        self.assertEqual([head["begin_tick"] for head, _ in lives], begun)
        for head, events in lives:
            self.assertGreaterEqual(len(events), 7)
            self.assertEqual({row["object"] for row in events}, {"r7", "i7"})
            self.assertTrue(all(head["begin_tick"] <= row["tick"] <= head["end_tick"] for row in events))
        self.assertEqual([head["begin_tick"] for head, _ in self.io("r7", "-f", self.stages)], begun[-1:])

    def test_io_shows_lives_that_the_rings_no_longer_have(self):
        flood = subprocess.run([WRITER, "run", self.folder, "1"], capture_output=True, text=True).stdout.strip()
        oldest = min(row["tick"] for row in self.rows("-f", flood) if row["name"] == "order_state")
        kept = [row for row in self.slowest("50", "-f", flood, "--where", "name == order") if row["end_tick"] < oldest]
        self.assertGreater(len(kept), 0)
        lives = {head["begin_tick"]: events for head, events in self.io(kept[0]["object"], "--all", "-f", flood)}
        self.assertEqual(len(lives[kept[0]["begin_tick"]]), 4)
        os.unlink(flood)

    def test_compare_shows_slower_stages(self):
        slow = os.path.join(self.folder, "slow")
        subprocess.run([WRITER, "stages", slow], capture_output=True, check=True)
        quick = subprocess.run([WRITER, "run", self.folder, "1"], capture_output=True, text=True).stdout.strip()
        self.assertIn("# 0 got slower by more than 10 %", self.run_ok("compare", slow, slow))
        text = self.run_ok("compare", quick, slow, status=1)
        self.assertRegex(text, r"\n  EXECUTING .*!  SLOWER\n")
        self.assertIn("# 0 got slower", self.run_ok("compare", slow, quick))
        rows = [json.loads(line) for line in self.run_ok("compare", quick, slow, "--json", status=1).splitlines()]
        row = next(row for row in rows if row["object_type"] == "order" and row["stage"] == "EXECUTING")
        self.assertTrue(row["avg_us"]["slower"])
        # 1001 without a parent, 100 writes of 5 us
        self.assertAlmostEqual(row["avg_us"]["after"], 4.544, delta=0.01)
        self.assertGreater(row["p99_us"]["after"], 6)
        # time in rest states is not compared
        self.assertNotIn("RESTING", [row["stage"] for row in rows])
        self.assertIn("0 got slower", self.run_ok("compare", slow, slow, "--threshold", "0"))
        # two files of one process: only lives ended in between are compared, here none
        self.assertRegex(self.run_ok("compare", slow, slow), r"(?m)^# A: .*: from 0\.000 s to \d+\.\d{3} s after the start$")
        self.run_bad("compare needs two files", "compare", slow)
        self.run_bad("nothing to compare", "compare", slow, self.golden)
        self.run_bad("a percentage", "compare", slow, slow, "--threshold", "x")
        os.unlink(quick)

    def test_following_a_dead_program_is_an_error(self):
        self.run_bad("the program has ended; `fathom trace` shows its events", "follow", "-f", self.path)
        self.run_bad("the program has ended; `fathom trace summary` shows what it did", "top", "-f", self.path)

    def test_the_time_of_day_is_printed(self):
        self.assertRegex(self.run_ok("-f", self.path, "-w"), r"\n  0: \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}\+00:00")
        self.run_bad("time of day", "-f", self.golden, "-w")

    def test_errors_are_reported(self):
        self.run_bad("No such file", "-f", "/nonexistent")
        self.run_bad("not a Fathom trace file", "-f", __file__)
        self.run_bad("neither a Fathom trace file nor a core file", "-f", WRITER)
        self.run_bad("no trace file of \"nobody\"", "-s", "nobody")
        self.run_bad("no event", "-f", self.golden, "-n", "nope")
        self.run_bad("no group", "-f", self.golden, "-g", "nope")
        self.run_bad("unknown command", "frobnicate")
        self.run_bad("unexpected argument \"more\"", "show", "more")
        self.run_bad("--older-than", "stuck", "--older-than", "soon")
        self.run_bad('-p: "x" is not a process id', "-p", "x")

    def test_a_truncated_file_is_read_as_far_as_possible(self):
        cut = os.path.join(self.folder, "cut")
        with open(self.golden, "rb") as file, open(cut, "wb") as out:
            out.write(file.read(os.path.getsize(self.golden) - 100000))
        done = fathom("-f", cut)
        self.assertEqual(done.returncode, 0)
        self.assertIn("truncated", done.stderr)
        self.assertIn("JOB_DONE", done.stdout)

    def test_the_newest_file_is_found_by_name_and_pid(self):
        path = subprocess.run([WRITER, "story", "/dev/shm"], capture_output=True, text=True).stdout.strip()
        self.addCleanup(os.unlink, path)
        pid = path.rsplit("pid", 1)[1]
        self.assertIn(f"# {path}\n", self.run_ok("-s", "demo", "-p", pid))
        self.assertIn(f"# {path}\n", self.run_ok("-p", pid))

    def test_each_command_has_help(self):
        self.assertIn("usage: fathom trace", self.run_ok("--help"))


if __name__ == "__main__":
    unittest.main()
