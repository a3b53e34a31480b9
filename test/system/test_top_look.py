# SPDX-License-Identifier: BSD-2-Clause
"""
What `fathom top` draws: the summary and alarms, the latency of a slow host, marks and colours, bars in several locales, narrow
terminals, the history of volumes; and what it does with a target that offers less.
"""

import json
import os
import socket
import threading
import unittest

from harness import FATHOM, NQN, run, wait_for
from test_top import ALARMS, BLOCK, HEADER, HOST, IOS, ROWS, SUMMARY, TITLE, TopTest, row

SLOW_HOST = "nqn.2014-08.org.nvmexpress:uuid:22222222-2222-3333-4444-555555555555"
DELAY_US = 110000       # an average above 100 ms is marked as bad
COLORS = {"TERM": "linux"}
DOWN = "\x1b[B"         # of the terminal "linux"
PLAIN = {"TERM": "linux", "NO_COLOR": "1"}
HEIGHTS = tuple("▁▂▃▄▅▆▇█")


class LookTest(TopTest):
    def engine_with_slow_disk(self):
        """m0 is namespace 1; namespace 2 is EE_M1, whose reads take DELAY_US."""
        engine = self.serving_engine()
        engine.run_commands(f"bdev_malloc_create -b M1 16 {BLOCK}\nbdev_error_create M1\nnvmf_subsystem_add_ns {NQN} EE_M1 -n 2\n"
                            f"bdev_error_inject_error EE_M1 read delay --delay-us {DELAY_US} --num 0\n")
        return engine

    def load(self, engine, nsid, host, *words):
        return self.start_child(FATHOM, "perf", "-a", "127.0.0.1", "-s", engine.port, "-n", NQN, "--nsid", nsid, "--rw", "randread", "--bs", BLOCK,
                                "--hostnqn", host, "--time", 600, "--quiet", *words)

    def color_of(self, top, y, text):
        """The colour of the place where `text` begins in line `y`."""
        return top.screen.buffer[y][top.lines[y].index(text)].fg


class Summary(LookTest):
    def test_the_summary_counts_hosts_and_their_load(self):
        engine = self.serving_engine()
        self.held_load(engine)
        document = json.loads(run(FATHOM, "top", "--json", "--totals", "-n", 1, engine.sock).stdout)["summary"]
        answer = engine.rpc("framework_get_summary")
        self.assertEqual((answer["hosts"], answer["controllers"], answer["devices"], answer["alarms"], answer["pid"]), (1, 1, 1, [], engine.pid))
        self.assertEqual((document["version"], document["hosts"], document["alarms"]), (answer["version"], 1, []))
        self.assertIn(answer["version"], run(FATHOM, "--version").stdout)
        self.assertEqual((document["iops"], document["commands_under_way"], document["oldest_command_us"]), (None, 0, None))
        (group,) = engine.rpc("nvmf_get_stats")["poll_groups"]
        self.assertEqual((group["bytes_read"], group["bytes_written"], group["commands_under_way"]), (IOS * BLOCK, 1024, 0))   # with Connect's data
        before = {name: group[name] for name in ("bytes_read", "bytes_written", "completed_nvme_io")}
        self.children[-1].kill()
        wait_for(lambda: engine.rpc("framework_get_summary")["hosts"] == 0)
        wait_for(lambda: engine.rpc("nvmf_get_stats")["poll_groups"][0]["current_io_qpairs"] == 0)
        (group,) = engine.rpc("nvmf_get_stats")["poll_groups"]
        self.assertEqual({name: group[name] for name in before}, before, "a closed connection takes nothing away")
        self.load(engine, 1, HOST, "--rate", 500)
        top = self.start_child(FATHOM, "top", "--json", "-i", "200ms", engine.sock)
        while not (document := json.loads(top.stdout.readline())["summary"])["iops"] or not document["read_bytes_per_second"]:
            pass
        self.assertEqual(document["hosts"], 1)
        self.assertLessEqual(document["busy_percent"], 100)

    def test_a_command_that_hangs_is_shown_with_its_age_and_an_alarm(self):
        engine = self.serving_engine()
        engine.run_commands(f"bdev_malloc_create -b M1 16 {BLOCK}\nbdev_error_create M1\nnvmf_subsystem_add_ns {NQN} EE_M1 -n 2\n"
                            "bdev_error_inject_error EE_M1 read pending --num 2\n")
        top = self.top(engine.sock, env=COLORS)
        top.wait(lambda lines: lines[ALARMS] == "no alarm" and "under way 0" in lines[SUMMARY], "an idle engine")
        self.load(engine, 2, HOST, "--depth", 2, "--timeout", 0, "--count", 2)
        top.wait(lambda lines: lines[ALARMS].startswith("! 1 device does not respond (EE_M1, "), "the alarm")
        top.wait(lambda lines: "under way 2 (" in lines[SUMMARY] and " s) !" in lines[SUMMARY], "the oldest command")
        self.assertIn("hosts 1", top.lines[SUMMARY])
        self.assertEqual(self.color_of(top, ALARMS, "!"), "red")
        self.assertEqual(self.color_of(top, SUMMARY, "under way"), "red")
        self.assertEqual(self.color_of(top, SUMMARY, "hosts"), "default")
        top.press("6")
        top.wait(lambda lines: "LENT %" in lines[HEADER] and lines[ALARMS].startswith("! 1 device"), "the alarm on another tab")
        (alarm,) = json.loads(run(FATHOM, "top", "--json", "--totals", "-n", 1, engine.sock).stdout)["summary"]["alarms"]
        self.assertEqual((alarm["alarm"], alarm["count"]), ("device_not_responding", 1))
        self.assertIn("1 device does not respond (EE_M1", run(FATHOM, "top", "-b", "-t", "-n", 1, "--tab", "cores", engine.sock).stdout)

    def test_a_core_that_hangs_is_an_alarm_on_every_tab(self):
        engine = self.serving_engine("--test-methods")
        top = self.top("-i", "200ms", "--tab", "cores", engine.sock)
        top.wait(lambda lines: lines[ALARMS] == "no alarm" and row(lines, "0"), "an idle engine")
        engine.rpc("reactor_hold", reactor=0, milliseconds=60000)
        top.wait(lambda lines: lines[ALARMS] == "! a core does not answer" and "hosts 0" in lines[SUMMARY], "the alarm")
        self.assertNotIn("retrying", top.lines[-2])
        top.press("2")
        top.wait(lambda lines: "RUNS" in lines[HEADER] and lines[ALARMS] == "! a core does not answer" and row(lines, "reactor_hold"), "the pollers")

    def test_a_pool_that_is_nearly_full_is_an_alarm(self):
        storage = os.path.join(self.directory, "storage")
        os.mkdir(storage)
        engine = self.engine("--storage", storage)
        engine.rpc("pool_create", pool="small", size=64 << 20)
        top = self.top(engine.sock)
        top.wait(lambda lines: lines[ALARMS] and "small" not in lines[ALARMS], "an empty pool")
        engine.rpc("volume_create", pool="small", volume="a", size=60 << 20)
        top.wait(lambda lines: "1 pool is nearly full (small)" in lines[ALARMS], "the alarm")
        engine.rpc("volume_destroy", pool="small", volume="a")
        top.wait(lambda lines: lines[ALARMS] and "small" not in lines[ALARMS], "its end")

    def test_an_engine_that_ends_is_an_alarm(self):
        engine = self.serving_engine()
        top = self.top("-i", "100ms", engine.sock)
        top.wait(lambda lines: lines[ALARMS] == "no alarm", "an idle engine")
        engine.kill()
        top.wait(lambda lines: lines[ALARMS] == "! the target does not answer", "the alarm")


class Hosts(LookTest):
    def test_a_slow_host_stands_above_a_fast_one(self):
        engine = self.engine_with_slow_disk()
        self.load(engine, 1, HOST, "--depth", 1, "--rate", 200)
        self.load(engine, 2, SLOW_HOST, "--depth", 2)
        top = self.start_child(FATHOM, "top", "--json", "-i", "500ms", engine.sock)

        def latencies():
            hosts = {host["host"]: host for host in json.loads(top.stdout.readline())["hosts"]}
            return HOST in hosts and SLOW_HOST in hosts and (hosts[HOST], hosts[SLOW_HOST])
        fast, slow = wait_for(lambda: (found := latencies()) and all(host["read_latency_us"] for host in found) and found)
        self.assertGreaterEqual(slow["read_latency_us"], DELAY_US * 0.99)
        self.assertGreaterEqual(slow["latency_us"], DELAY_US * 0.99)
        self.assertIsNone(slow["write_latency_us"])
        wait_for(lambda: (found := latencies()) and found[0]["read_latency_us"] and found[0]["read_latency_us"] < DELAY_US)
        top.kill()
        screen = self.top("--tab", "hosts", "--sort", "read us", engine.sock, columns=170, env=COLORS)
        screen.wait(lambda lines: "22222222-2222" in lines[ROWS] and "!" in lines[ROWS] and "████████" in lines[ROWS], "the slow host first, with a mark")
        screen.wait(lambda lines: "11111111-2222" in lines[ROWS + 1] and "████████" not in lines[ROWS + 1], "the fast host below it")
        screen.press(DOWN)
        screen.wait(lambda lines: "!" in lines[ROWS] and self.color_of(screen, ROWS, "!") == "red", "the mark in red, as the row is not selected")
        screen.press("enter")
        screen.wait_text("reads take ")


class Look(LookTest):
    def test_colors_follow_the_options_and_the_environment(self):
        engine = self.engine_with_slow_disk()
        self.load(engine, 2, SLOW_HOST, "--depth", 2)
        for words, env, color in (((), COLORS, "red"), ((), {"TERM": "screen-256color"}, "red"), ((), PLAIN, "default"), (("--color",), PLAIN, "red"),
                                  (("--no-color",), COLORS, "default"), (("--color", "--no-color"), COLORS, "default"), ((), {**COLORS, "NO_COLOR": ""}, "red"),
                                  (("--color",), {"TERM": "vt100"}, "default")):
            with self.subTest(words=words, env=env):
                top = self.top("--tab", "volumes", "--sort", "volume", "--totals", *words, engine.sock, env=env)
                # the first row is selected, and has its mark but no colour
                top.wait(lambda lines: "!" in (lines[ROWS] if lines[ROWS].startswith("EE_M1") else ""), "the mark of the slow volume")
                self.assertEqual(self.color_of(top, ROWS, "!"), "default")
                top.press(DOWN if env["TERM"] == "linux" else "down")
                top.wait(lambda lines: row(lines, "EE_M1") and self.color_of(top, ROWS, "!") == color, f"the mark in {color}")
                self.assertIn("█", top.lines[ROWS])
                self.assertEqual(self.color_of(top, ROWS, "█"), color)
                self.assertEqual({cell.bg for line in top.screen.buffer.values() for cell in line.values()}, {"default"})
                top.press("q")
                self.assertEqual(top.wait_exit(), 0)

    def test_terminals_without_a_screen_are_refused_with_the_way_out(self):
        engine = self.serving_engine()
        for name, problem in (("dumb", 'the terminal "dumb" cannot place its cursor; set TERM, or use --batch'),
                              ("none-such", 'the terminal "none-such" is unknown; set TERM, or use --batch')):
            top = self.top(engine.sock, env={"TERM": name}, columns=100)
            self.assertEqual(top.wait_exit(), 2)
            self.assertIn(problem, top.text)
            self.assertIn("m0 ", run(FATHOM, "top", "-b", "-t", "-n", 1, "--tab", "volumes", engine.sock, env={**os.environ, "TERM": name}).stdout)

    def test_bars_are_ascii_without_utf8(self):
        engine = self.engine_with_slow_disk()
        self.load(engine, 2, SLOW_HOST, "--depth", 2)
        for locale, full in (("C.UTF-8", "█" * 8), ("C", "#" * 8), ("POSIX", "#" * 8)):
            with self.subTest(locale=locale):
                top = self.top("--tab", "hosts", engine.sock, env={"LC_ALL": locale})
                top.wait(lambda lines: full in lines[ROWS], "a full bar")
                top.press("4")
                top.wait(lambda lines: full in "".join(row(lines, "EE_M1") or []) and "HISTORY" in lines[HEADER], "the volumes")
                self.assertEqual(top.text.isascii(), full[0] == "#")
                top.press("q")
                self.assertEqual(top.wait_exit(), 0)

    def test_a_narrow_terminal_shows_the_most_important(self):
        engine = self.engine_with_slow_disk()
        self.load(engine, 2, SLOW_HOST, "--depth", 2)
        top = self.top("--tab", "hosts", engine.sock, columns=40, lines=12, env=COLORS)
        top.wait(lambda lines: "IOPS" in lines[HEADER] and "!" not in lines[HEADER] and lines[ROWS].startswith("~"), "the host")
        self.assertNotIn("WRITE B/S", top.lines[HEADER])
        top.wait(lambda lines: lines[SUMMARY].startswith("IOPS ") and "busy" in lines[SUMMARY], "the beginning of the summary")
        for key in "123456":
            top.press(key)
            top.wait(lambda lines: "q quit" not in lines[-1] and lines[HEADER], "a tab")
        for columns, lines in ((40, 10), (60, 24), (80, 24), (250, 60)):
            top.resize(columns, lines)
            top.wait(lambda rows: len(rows) == lines and rows[-1].startswith("Enter details") and rows[TITLE].startswith("fathom-engine"),
                     f"the screen of {columns}x{lines}")
            self.assertTrue(all(len(line) <= columns for line in top.lines))
        top.resize(39, 24)
        top.wait_text("80x24 shows all")

    def test_a_column_of_bars_can_be_hidden(self):
        top = self.top("--tab", "cores", self.serving_engine().sock)
        top.wait(lambda lines: "LOAD" in lines[HEADER] and row(lines, "0"), "the bar")
        top.press("c", *["down"] * 6, " ", "esc")
        top.wait(lambda lines: "LOAD" not in lines[HEADER] and row(lines, "0"), "the tab without it")


class History(LookTest):
    def test_volumes_have_a_history_while_another_tab_is_shown(self):
        engine = self.serving_engine()
        top = self.top("--history", "1m", engine.sock, lines=40)
        top.wait(lambda lines: row(lines, "app_thread"), "the threads")
        self.load(engine, 1, HOST, "--rate", 300)
        wait_for(lambda: engine.rpc("bdev_get_iostat")["bdevs"][0]["num_read_ops"] > 600)
        top.press("4")
        top.wait(lambda lines: len(cells := row(lines, "m0") or []) == 8 and set(cells[-2]) <= set(HEIGHTS), "the history of m0")
        top.press("enter")
        top.wait_text("the last 60 s, 1 s in each bar")
        top.wait(lambda lines: any(line.startswith("  IOPS ") and line.endswith(HEIGHTS) for line in lines), "the bars")
        top.press("q")
        self.assertEqual(top.wait_exit(), 0)

    def test_json_and_lines_have_the_history_if_it_is_wanted(self):
        engine = self.serving_engine()
        self.load(engine, 1, HOST, "--rate", 300)
        self.assertNotIn("history", json.loads(run(FATHOM, "top", "--json", "-t", "-n", 1, engine.sock).stdout)["volumes"][0])
        top = self.start_child(FATHOM, "top", "--json", "-i", "200ms", "--history", "1m", engine.sock)
        while not any((history := json.loads(top.stdout.readline())["volumes"][0]["history"])["iops"]):
            pass
        self.assertEqual((history["slot_seconds"], len(history["iops"]), len(history["latency_us"])), (1, 60, 60))
        self.assertIsNone(history["iops"][0])
        self.assertEqual([n for n, (iops, us) in enumerate(zip(history["iops"], history["latency_us"])) if us and not iops], [])
        out = run(FATHOM, "top", "-b", "-n", 3, "-i", "500ms", "--tab", "volumes", "--history", "1m", engine.sock, env={**os.environ, "LC_ALL": "C"}).stdout
        self.assertRegex(out, r"(?m)^m0 .*[.:=+*#@-]  ")
        self.assertTrue(out.isascii())
        self.assertIn("HISTORY", out)
        for words, sentence in ((("--history", "10s"), "is not a time from 1m to 24h"), (("--history", "2d"), "is not a time")):
            done = run(FATHOM, "top", "--json", *words, engine.sock, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn(sentence, done.stderr)


class SpdkTarget:
    """A control socket that answers as SPDK's target does, with its methods and keys alone. Two connections at most."""

    def __init__(self, path):
        self.path, self.reads = path, 0
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(path)
        self.server.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection = self.server.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        text = ""
        while data := connection.recv(65536):
            text += data.decode()
            while text:
                try:
                    request, end = json.JSONDecoder().raw_decode(text)
                except ValueError:
                    break
                text = text[end:].lstrip()
                result = self.answer(request["method"])
                fields = {"result": result} if result is not None else {"error": {"code": -32601, "message": "Method not found"}}
                connection.sendall(json.dumps({"jsonrpc": "2.0", "id": request["id"], **fields}).encode())
        connection.close()

    def answer(self, method):
        """None: SPDK does not have the method."""
        self.reads += 100 if method == "bdev_get_iostat" else 0
        stats = {"bytes_read": self.reads * 4096, "num_read_ops": self.reads, "bytes_written": 0, "num_write_ops": 0, "read_latency_ticks": self.reads * 50,
                 "write_latency_ticks": 0}
        return {
            "thread_get_stats": {"tick_rate": 1000000, "threads": []},
            "thread_get_pollers": {"tick_rate": 1000000, "threads": []},
            "thread_get_io_channels": {"threads": []},
            "framework_get_reactors": {"tick_rate": 1000000, "pid": os.getpid(), "reactors": []},
            "spdk_get_version": {"version": "SPDK v26.09", "fields": {}},
            "bdev_get_iostat": {"tick_rate": 1000000, "ticks": self.reads * 10000, "bdevs": [{"name": "Malloc0", **stats}]},
            "nvmf_get_subsystems": [{"nqn": NQN, "subtype": "NVMe"}],
            "nvmf_get_stats": {"tick_rate": 1000000, "poll_groups": [{"name": "g", "completed_nvme_io": self.reads, "pending_bdev_io": 4,
                                                                      "transports": [{"trtype": "TCP"}]}]},
            "nvmf_subsystem_get_controllers": [{"cntlid": 1, "hostnqn": HOST, "hostid": "x"}],
            "nvmf_subsystem_get_qpairs": [{"cntlid": 1, "qid": 0}, {"cntlid": 1, "qid": 1}],
        }.get(method)


class Spdk(LookTest):
    def test_what_spdk_does_not_offer_is_empty_and_noted(self):
        target = SpdkTarget(os.path.join(self.directory, "spdk.sock"))
        self.addCleanup(target.server.close)
        top = self.top("-i", "100ms", "--tab", "hosts", target.path, columns=170)
        top.wait(lambda lines: "does not offer: IOPS, AVG us, READ us, WRITE us, READ B/S, WRITE B/S, NOW" in lines[-2], "the note")
        self.assertEqual(row(top.lines, HOST)[1:], ["1", "1", "1"] + ["-"] * 7)
        top.wait(lambda lines: "SPDK v26.09" in lines[TITLE] and "under way 4" in lines[SUMMARY] and "hosts -" in lines[SUMMARY], "the summary")
        self.assertEqual(top.lines[ALARMS], "the target does not report alarms")
        top.press("4")
        top.wait(lambda lines: row(lines, "Malloc0") and row(lines, "Malloc0")[1] != "-" and any(height in lines[ROWS] for height in HEIGHTS), "the volume")
        document = json.loads(run(FATHOM, "top", "--json", "-n", 1, "-i", "100ms", target.path).stdout)
        self.assertEqual(document["not_offered"]["hosts"], ["iops", "latency_us", "read_latency_us", "write_latency_us", "read_bytes_per_second",
                                                            "write_bytes_per_second", "depth_now"])
        self.assertEqual(document["volumes"][0]["latency_us"], 50)
        self.assertEqual((document["summary"]["hosts"], document["summary"]["commands_under_way"]), (None, 4))


if __name__ == "__main__":
    unittest.main()
