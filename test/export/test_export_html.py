# SPDX-License-Identifier: BSD-2-Clause
"""
`fathom trace export --html` of a real engine's trace, opened in a browser and compared with what `fathom trace show --json` prints
of the same file.
"""

import collections
import json
import re
import shutil
import unittest

import browser
from export_rig import WRITER, ExportTest, harness, traces

tearDownModule = traces.remove


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
        """Assert that there is no error and no resource loaded from elsewhere."""
        self.assertEqual(self.browser.complaints(), [])

    def embedded(self):
        return json.loads(self.browser.script("return document.getElementById('data').textContent"))

    def range(self):
        """The range of the time line in nanoseconds; the page draws in its next frame."""
        return self.browser.call("POST", "/execute/async", {"script":
                                 "requestAnimationFrame(() => requestAnimationFrame(() => { const d = "
                                 "document.getElementById('range').dataset; arguments[0]([Number(d.from), Number(d.to)]); }))", "args": []})

    def requests(self, shown):
        """The complete lives of nvmf_req in the output of `show`: [(us, object, serial of its first event, its events' names)]."""
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
        self.open(traces.engine)
        _, shown, _ = self.shown(traces.engine)
        slowest = [r for r in self.requests(shown) if not any(e.get("state") == "WAIT_EVENT" for e in r[2])]
        slowest.sort(key=lambda row: -row[0])
        data = self.embedded()
        hidden = sum(len(members) - 1 for members in data["stalls"])
        self.assertEqual(self.browser.script("return document.querySelectorAll('.io').length"), min(200, len(slowest)) - hidden)
        busy = dict(zip(data["lives"]["serial"], data["lives"]["busy"]))
        rate = self.shown(traces.engine)[0]["tick_rate"]
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
        # the slowest request may be one without a device
        self.assertEqual(any(stage.endswith("DISPATCHED") for stage in stages[3:]), any(e.get("state") == "DISPATCHED" for e in own))
        self.check_quiet()

    def test_requests_delayed_by_one_stall_share_a_line(self):
        self.open(traces.stall)
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
        """Also in an export without some stages, and with the same name in light and dark mode."""
        seen = {}
        for trace, options in ((traces.engine, ()), (traces.engine, ("-n", "bdev_io_submit,bdev_io_dispatch,bdev_io_done")), (traces.story, ())):
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

    def test_the_list_shows_the_owner_of_each_request(self):
        self.open(traces.engine)
        whose = self.browser.script("return [...document.querySelectorAll('.io .name small')].map(node => node.innerText)")
        self.assertTrue(any("qid:" in text for text in whose), whose[:3])
        self.assertTrue(any("malloc0" in text for text in whose), whose[:3])

    def test_keys_move_through_the_list(self):
        self.open(traces.engine)
        self.browser.click("#io-0")
        for key, row in (("ArrowDown", 1), ("ArrowDown", 2), ("ArrowUp", 1), ("Home", 0)):
            self.browser.keys(key)
            self.assertEqual(self.browser.script("return document.querySelector('.io[aria-selected=true]').id"), f"io-{row}")
        self.check_quiet()

    def test_the_time_line_can_be_zoomed_and_moved(self):
        self.open(traces.engine)
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
        """The key `s` centers the selected I/O; a click on another I/O selects it."""
        self.open(traces.engine)
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

    def test_histograms_and_heat_map_include_all_lives(self):
        """Counts equal those of `stages`, and medians are equal within a bucket."""
        self.open(traces.engine)
        data = self.embedded()
        kinds = {kind["name"]: kind for kind in data["kinds"]}
        text = harness.run(harness.FATHOM, "trace", "stages", "-f", traces.engine).stdout
        for name in ("nvmf_req", "bdev_io"):
            count = int(re.search(rf"^{name}: (\d+) whole lives", text, re.M).group(1))
            self.assertEqual(kinds[name]["count"], count)
            self.assertEqual(sum(kinds[name]["states"][0]["buckets"][1::2]), count)
            self.assertEqual(sum(kinds[name]["heat"][2::3]), count)
            self.assertIn(f"{name}: {count:,} whole lives", self.browser.text("#stages"))
        table = re.search(r"^nvmf_req: .*?whole life +\d+ +[\d.]+ +([\d.]+)", text, re.M | re.S)
        # the panels of requests, which may not be the first
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

    def test_each_argument_is_shown_as_text(self):
        """Also hostile text is shown as text in each place."""
        self.open(traces.story)
        data = self.embedded()
        _, shown, _ = self.shown(traces.story)
        self.assertEqual(len(data["events"]["point"]), len(shown))
        for point, args, event in zip(data["events"]["point"], data["events"]["args"], shown):
            row = data["points"][str(point)]
            self.assertEqual(row["name"], event["name"])
            said = {name[0]: value for name, value in zip(row["args"], args)}
            self.assertEqual(said, {k: str(v) if isinstance(v, int) and not isinstance(v, bool) and (v < 0 or v >= 2 ** 53) else v
                                    for k, v in event["args"].items()})
        self.check_quiet()

    def test_hostile_names_are_shown_as_text(self):
        """Names of program and host and strings contain code that ends the script element: it must not run or break the page."""
        evil = b"</script><script>document.title='taken'</script>"
        path = self.path("evil.trace")
        with open(traces.story, "rb") as file:
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

    def test_the_number_of_omitted_events_is_shown(self):
        """More events than a page holds: the slowest lives must still be complete."""
        done = harness.run(WRITER, "flood", traces.folder, 7 * 60000)
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

    def test_a_page_without_events_works(self):
        """The trace has no event."""
        self.open(traces.story, "-c", "77")
        self.assertIn("0 events were exported", self.browser.text("#left-out"))
        self.browser.keys("+", "s", "0")
        self.check_quiet()


if __name__ == "__main__":
    unittest.main()
