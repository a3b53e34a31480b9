# SPDX-License-Identifier: BSD-2-Clause
"""
`fathom trace -f A -f B` merges several files in order of time.

The files are golden ones whose clock sections this test replaces: other tick rates, other start times, clocks that drift.
The expected time of each event is computed here from the clock pairs as docs/formats/trace.md says.
"""

import json
import lzma
import os
import shutil
import struct
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
FATHOM = os.environ.get("FATHOM", "")
WALL = 1_790_000_000_000_000_000  # ns: when tick 0 of the first machine was
SECOND = 10**9


def fathom(*args):
    return subprocess.run([FATHOM, "trace", *args], capture_output=True, text=True, env=dict(os.environ, TZ="UTC"))


class Machine:
    """Ticks, CLOCK_REALTIME and CLOCK_MONOTONIC of a machine at some moments."""

    def __init__(self, host, rate, pairs):
        self.host, self.rate, self.pairs = host, rate, sorted(pairs)

    def wall(self, tick):
        inner = [(a, b) for a, b in zip(self.pairs, self.pairs[1:]) if a[0] <= tick < b[0]]
        if inner:
            (a, wall_a, _), (b, wall_b, _) = inner[0]
            return wall_a + (wall_b - wall_a) * (tick - a) // (b - a)
        at, wall, _ = self.pairs[0] if tick < self.pairs[0][0] else self.pairs[-1]
        return wall + (tick - at) * SECOND // self.rate


class Merge(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="fathom-merge-")
        cls.golden = {}
        for name in ("golden-v1", "golden-stages-v1"):
            with lzma.open(os.path.join(HERE, name + ".trace.xz")) as packed:
                cls.golden[name] = packed.read()

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def write(self, path, machine, name, pid, golden="golden-v1", count=None):
        data = bytearray(self.golden[golden])
        sections = {}
        for i in range(struct.unpack_from("<I", data, 24)[0]):
            kind, _, offset, _, _ = struct.unpack_from("<IIQQQ", data, 64 + 32 * i)
            sections.setdefault(kind, offset)
        struct.pack_into("<64s64s", data, sections[1], name.encode(), machine.host.encode())
        struct.pack_into("<i", data, sections[1] + 228, pid)
        struct.pack_into("<Q", data, sections[1] + 248, machine.rate)
        struct.pack_into("<Q", data, sections[2], count or len(machine.pairs))
        for i, pair in enumerate(machine.pairs):
            struct.pack_into("<QQQ", data, sections[2] + 64 + 24 * i, *pair)
        path = os.path.join(self.folder, path)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def run_ok(self, *args, status=0):
        done = fathom(*args)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout

    def run_bad(self, words, *args):
        done = fathom(*args)
        self.assertEqual(done.returncode, 2)
        self.assertIn(words, done.stderr)

    def rows(self, *args, status=0):
        return [json.loads(line) for line in self.run_ok(*args, "--json", status=status).splitlines()]

    def two(self):
        """A machine of 1 GHz, and one of 2.5 GHz that started 400 us later and whose clock is a thousandth too fast."""
        one = Machine("one", SECOND, [(1000, WALL + 1000, 1000), (4 * SECOND, WALL + 4 * SECOND, 4 * SECOND)])
        begin = WALL + 400_000
        two = Machine("two", 2_500_000_000, [(tick, begin + tick * 1001 // 2500, 77 * SECOND + tick * 10 // 25)
                                             for tick in (10**6, 2 * 10**9, 5 * 10**9)])
        return {"alpha": (self.write("alpha", one, "alpha", 1), one), "beta": (self.write("beta", two, "beta", 2), two)}

    def files(self, two):
        return [word for path, _ in two.values() for word in ("-f", path)]

    def test_events_of_two_machines_are_merged_by_the_wall_clock(self):
        two = self.two()
        rows = self.rows("show", *self.files(two))
        self.assertEqual([row["process"] for row in rows[:2]], ["alpha", "beta"])
        events = [row for row in rows if "seq" in row]
        start = min(machine.wall(1_000_000) for _, machine in two.values())
        for row in events:
            self.assertAlmostEqual(row["time_us"], (two[row["process"]][1].wall(row["tick"]) - start) / 1000, delta=0.0011)
        whole = [row["time_us"] for row in events if not row.get("shared")]
        self.assertEqual(whole, sorted(whole))
        # the events of each file and their order are the same as without merging
        changes = sum(a["process"] != b["process"] for a, b in zip(events, events[1:]))
        self.assertGreater(changes, 2)
        for name, (path, _) in two.items():
            alone = [dict(row, time_us=0) for row in self.rows("show", "-f", path) if "seq" in row]
            ours = [{key: value for key, value in dict(row, time_us=0).items() if key != "process"} for row in events
                    if row["process"] == name]
            self.assertEqual(ours, alone)
        self.assertEqual({row["process"]: row["end"]["events"] for row in rows if "end" in row}, {"alpha": 32, "beta": 32})

    def test_lines_start_with_the_process(self):
        text = self.run_ok(*self.files(self.two()), "-n", "job_done", "-w")
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        self.assertEqual({line.split()[0] for line in lines}, {"alpha", "beta"})
        times = [line.split()[2] for line in lines]
        self.assertEqual(times, sorted(times))
        self.assertIn("# beta: " + self.folder, text)
        self.assertIn("# times count from the start of the first", text)

    def test_filters_apply_to_all_files(self):
        files = self.files(self.two())
        everything = [row for row in self.rows(*files) if "seq" in row]
        for words, holds in ((("-n", "job_done"), lambda row: row["name"] == "job_done"),
                             (("--where", "object == r1"), lambda row: row.get("object") == "r1"),
                             (("--since", "410us"), lambda row: row["time_us"] >= 410),
                             (("--since", "-1s"), lambda row: row["time_us"] >= everything[-1]["time_us"] - 10**6),
                             (("--until", "1s"), lambda row: row["time_us"] <= 10**6)):
            shown = [row for row in self.rows(*files, *words) if "seq" in row]
            self.assertEqual(shown, [row for row in everything if holds(row)], words)
        self.run_bad('has no event "nope"', *files, "-n", "nope")

    def test_slowest_and_stuck_include_all_files(self):
        one = Machine("one", SECOND, [(1000, WALL, 0)])
        two = Machine("two", 999_000_000, [(1000, WALL, 0)])
        files = ["-f", self.write("a", one, "alpha", 1, "golden-stages-v1"),
                 "-f", self.write("b", two, "beta", 2, "golden-stages-v1")]
        rows = [row for row in self.rows("slowest", "30", *files) if "number" in row]
        self.assertEqual([row["number"] for row in rows], list(range(1, 31)))
        totals = [row["total_us"] for row in rows]
        self.assertEqual(totals, sorted(totals, reverse=True))
        self.assertEqual({row["process"] for row in rows}, {"alpha", "beta"})
        each = [row["total_us"] for path in (files[1], files[3]) for row in self.rows("slowest", "30", "-f", path) if "number" in row]
        self.assertEqual(totals, sorted(each, reverse=True)[:30])
        two = self.two()
        under_way = [(row["process"], row["object"]) for row in self.rows("stuck", *self.files(two), status=1) if "object" in row]
        self.assertEqual(under_way, [("alpha", "r5"), ("alpha", "i7"), ("beta", "r5"), ("beta", "i7")])

    def test_events_of_one_machine_are_in_the_order_of_its_counter(self):
        """Each process read the clock inexactly, but the counter gives the order."""
        pairs = lambda wrong, *ticks: [(tick, WALL + tick + wrong, 10**12 + tick) for tick in ticks]
        early = Machine("one", SECOND, pairs(60_000, 1000, 4 * SECOND))
        late = Machine("one", SECOND, pairs(-60_000, 2000, 3 * SECOND))
        files = ["-f", self.write("a", early, "alpha", 1), "-f", self.write("b", late, "beta", 2)]
        ticks = [row["tick"] for row in self.rows(*files) if "seq" in row and not row.get("shared")]
        self.assertEqual(ticks, sorted(ticks))
        # another boot has another counter
        late.pairs = [(tick, wall, monotonic + 10**11) for tick, wall, monotonic in late.pairs]
        files[3] = self.write("b", late, "beta", 2)
        ticks = [row["tick"] for row in self.rows(*files) if "seq" in row and not row.get("shared")]
        self.assertNotEqual(ticks, sorted(ticks))

    def test_inexact_clock_pairs_are_reported(self):
        two = self.two()
        self.assertNotIn("times of day are accurate to", self.run_ok("-f", two["alpha"][0], "-f", self.write(
            "good", Machine("three", SECOND, [(2, WALL, 0), (4 * SECOND, WALL + 4 * SECOND, 0)]), "gamma", 3)))
        # one pair, three seconds before the end: the error is a ten thousandth of that
        poor = self.write("poor", Machine("three", SECOND, [(10**6, WALL, 5)]), "gamma", 3)
        self.assertRegex(self.run_ok("-f", two["alpha"][0], "-f", poor),
                         r"\n# gamma: its times of day are accurate to 0\.30\d ms: ")
        # the clock was set by 2 s in between
        jumped = Machine("three", SECOND, [(2, WALL, 5), (10**9, WALL + 3 * SECOND, 5), (4 * SECOND, WALL + 6 * SECOND, 5)])
        self.assertRegex(self.run_ok("-f", two["alpha"][0], "-f", self.write("jumped", jumped, "gamma", 3)),
                         r"times of day are accurate to 1500\.\d+ ms: ")

    def test_processes_with_the_same_name_are_distinguished(self):
        (path, one), _ = self.two().values()
        names = lambda *paths: [row["process"] for row in self.rows("threads", *[w for p in paths for w in ("-f", p)]) if "trace" in row]
        self.assertEqual(names(path, self.write("b", one, "alpha", 2)), ["alpha.1", "alpha.2"])
        other = Machine("far", one.rate, one.pairs)
        self.assertEqual(names(path, self.write("b", other, "alpha", 1)), ["alpha.1@one", "alpha.1@far"])
        self.assertEqual(names(path, path), ["alpha.1#1", "alpha.1#2"])

    def test_a_command_shows_each_file_or_refuses_several(self):
        files = self.files(self.two())
        text = self.run_ok("summary", *files)
        self.assertEqual(text.count("WHERE THE TIME WENT"), 2)
        lives = [(row["process"], row["object"]) for row in self.rows("io", "r1", *files) if "number" in row]
        self.assertEqual(lives, [("alpha", "r1"), ("beta", "r1")])
        for word, reason in (("follow", "follow shows one program: run it once for each"), ("top", "top shows one program"), ("export", "export reads one file")):
            self.run_bad(reason, word, *files)
        self.run_bad("compare A B", "compare", *files)

    def test_files_without_a_time_of_day_cannot_be_merged(self):
        path = os.path.join(self.folder, "golden")
        with open(path, "wb") as file:
            file.write(self.golden["golden-v1"])
        self.run_bad(f"{path} has no time of day, so its events cannot be merged with those of other files", "-f", path, "-f",
                     self.two()["alpha"][0])
        self.run_bad("No such file", "-f", path, "-f", "/nonexistent")
        self.run_bad("record takes one program or file", "record", "-o", "/dev/null", "-f", path, "-f", path)
        self.run_bad("groups takes one program or file", "groups", "-f", path, "-s", "x")


if __name__ == "__main__":
    unittest.main()
