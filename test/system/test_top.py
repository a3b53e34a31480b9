# SPDX-License-Identifier: BSD-2-Clause
"""
`fathom top`, driven by keys on terminals of 80x24 and larger: its figures equal those of the engine's RPCs and of a known
load. Lines and JSON for scripts; an engine that ends and comes back; wrong input.
"""

import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
import unittest

from harness import EngineTest, FATHOM, NQN, RpcError, run
from terminal import Terminal

HOST = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555"
IOS = 5000
BLOCK = 4096
FULL_BAR = "█" * 8
KINDS = ("active", "timed", "paused")     # of pollers


class TopTest(EngineTest):
    def setUp(self):
        super().setUp()
        self.terminals = []
        self.children = []

    def tearDown(self):
        for terminal in self.terminals:
            terminal.close()
        for child in self.children:
            child.kill()
            child.wait()
            child.stdout.close()
        super().tearDown()

    def serving_engine(self, *options):
        engine = self.engine("-m", "0x1", *options)
        engine.serve("bdev_malloc_create", "-b", "m0", 16, BLOCK)
        return engine

    def top(self, *words, columns=80, lines=24, env=None):
        terminal = Terminal(FATHOM, "top", *words, columns=columns, lines=lines, env=env)
        self.terminals.append(terminal)
        return terminal

    def start_child(self, *command):
        child = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)
        self.children.append(child)
        return child

    def held_load(self, engine, direction="randread"):
        """IOS reads or writes by HOST, which then stays connected and does nothing more."""
        child = self.start_child(FATHOM, "perf", "-a", "127.0.0.1", "-s", engine.port, "-n", NQN, "--count", IOS, "--bs", BLOCK, "--depth", 4,
                           "--rw", direction, "--hostnqn", HOST, "--keep-alive", 0, "--hold", 600, "--quiet")
        key = "num_read_ops" if direction == "randread" else "num_write_ops"
        while engine.rpc("bdev_get_iostat")["bdevs"][0][key] < IOS:
            self.assertIsNone(child.poll())
        return child


TITLE, SUMMARY, ALARMS, TABS, HEADER, ROWS = range(6)      # lines of the screen


def row(lines, name):
    """The words of the row that begins with `name`, or None."""
    for line in lines[ROWS:-2]:
        if line.split() and line.split()[0] == name:
            return line.split()
    return None


class Screen(TopTest):
    def test_each_tab_equals_the_rpcs_and_a_known_load(self):
        engine = self.serving_engine()
        self.held_load(engine)
        for columns, lines in ((80, 24), (200, 40)):
            top = self.top("--totals", engine.pid, columns=columns, lines=lines)
            self.check_threads(engine, top)
            self.check_pollers(engine, top)
            self.check_cores(engine, top)
            self.check_volumes(engine, top)
            self.check_hosts(engine, top, columns)
            self.assertTrue(all(len(line) <= columns for line in top.lines))
            top.press("q")
            self.assertEqual(top.wait_exit(), 0)

    def check_threads(self, engine, top):
        begin = 1 if top.screen.columns == 80 else 2    # the wider screen has the thread's number before it
        for thread in engine.rpc("thread_get_stats")["threads"]:
            core = "-" if thread["name"] == "app_thread" else "0"
            self.wait_row(top, thread["name"], begin, [core] + [thread[f"{kind}_pollers_count"] for kind in KINDS])

    def check_pollers(self, engine, top):
        top.press("2")
        for thread in engine.rpc("thread_get_pollers")["threads"]:
            for kind in KINDS:
                for poller in thread[f"{kind}_pollers"]:
                    name = poller["name"] if len(poller["name"]) <= 18 or top.screen.columns > 80 else poller["name"][:17] + "~"
                    self.wait_row(top, name, 1, [kind, thread["name"]])

    def check_cores(self, engine, top):
        top.press("3")
        here = [t for t in engine.rpc("thread_get_stats")["threads"] if t["name"] != "app_thread"]
        self.wait_row(top, "0", 1, [len(here), sum(t[f"{kind}_pollers_count"] for t in here for kind in KINDS)])
        top.wait_text("the target does not offer: MHz")

    def check_volumes(self, engine, top):
        top.press("4")
        self.assertEqual(engine.rpc("bdev_get_iostat")["bdevs"][0]["num_read_ops"], IOS)
        # OPS; the wider screen has room for READS and WRITES
        counts = [IOS] if top.screen.columns == 80 else [IOS, IOS, 0]
        self.wait_row(top, "m0", 1, counts + [f"{IOS * BLOCK / (1 << 20):.1f}Mi", 0])

    def check_hosts(self, engine, top, columns):
        top.press("5")
        shown = HOST if columns == 200 else "~" + HOST[-17:]
        bytes_moved = [f"{IOS * BLOCK / (1 << 20):.1f}Mi", "1.0ki", 0]    # with Connect and its data
        qpairs = engine.rpc("nvmf_subsystem_get_qpairs", nqn=NQN)
        latency = f"{qpairs[1]['read_latency_ticks'] / qpairs[1]['num_read_ops'] / self.ticks_per_us(engine):.1f}"
        if columns == 200:
            self.wait_row(top, shown, 1, [1, 1, 1, IOS + 1, latency, FULL_BAR, latency, "-"] + bytes_moved)
        else:
            self.wait_row(top, shown, 1, [IOS + 1, FULL_BAR, latency, "-"] + bytes_moved)
        self.assertEqual([(q["qid"], q["commands_under_way"]) for q in qpairs], [(0, 0), (1, 0)])
        self.assertEqual((qpairs[1]["bytes_read"], qpairs[1]["num_commands"]), (IOS * BLOCK, IOS + 1))
        top.press("enter")
        top.wait_text("controller 1, io, host id")
        top.wait_text(f"port {qpairs[1]['peer_address']['trsvcid']}")
        top.press("esc")
        top.wait(lambda lines: lines[HEADER].startswith("HOST ") and row(lines, shown), "the hosts again")

    @staticmethod
    def ticks_per_us(engine):
        return engine.rpc("framework_get_reactors")["tick_rate"] / 1e6

    def wait_row(self, top, name, begin, expected):
        """Wait until the row's words from the `begin`th on are these."""
        words = [str(word) for word in expected]
        top.wait(lambda lines: (row(lines, name) or [])[begin:begin + len(words)] == words, f"{name}: {' '.join(words)}")

    def test_keys_sort_and_filter_rows(self):
        engine = self.engine("-m", "0x1")
        engine.run_commands("bdev_null_create alpha 8 512\nbdev_null_create beta 8 512\nbdev_malloc_create -b gamma 8 512\n")
        top = self.top(engine.sock)
        top.press("4")

        def order(lines):
            return [line.split()[0] for line in lines[ROWS:-2] if line]
        top.press("s")
        top.wait_text("Sort by:")
        top.press(*["up"] * 15, "enter")
        top.wait(lambda lines: order(lines) == ["alpha", "beta", "gamma"], "the ascending order")
        top.wait_text("3 of 3, by VOLUME, ascending")
        top.press("R")
        top.wait(lambda lines: order(lines) == ["gamma", "beta", "alpha"], "the descending order")
        top.press("/", "BET", "enter")
        top.wait(lambda lines: order(lines) == ["beta"], "the filtered row")
        top.wait_text('1 of 3 with "BET"')
        top.press("esc")
        top.wait(lambda lines: order(lines) == ["gamma", "beta", "alpha"], "all rows")
        top.press(">")
        top.wait_text("by IOPS, descending")
        top.press("<", "<")
        top.wait_text("by ERRORS, descending")
        top.wait(lambda lines: "ERRORS" in lines[HEADER], "the column that is sorted by")

    def test_keys_show_and_hide_columns(self):
        top = self.top(self.serving_engine().sock)

        def marks(lines):
            return {line[5:16].strip(): line[1:4] for line in lines[ROWS:-2] if line}
        top.press("4")
        top.wait(lambda lines: row(lines, "m0") and "UNMAP/S" not in lines[HEADER] and "READ B/S" in lines[HEADER], "the columns that fit")
        top.press("c")
        top.wait_text("Columns: ")
        top.wait(lambda lines: marks(lines).get("IOPS") == "[x]" and marks(lines).get("UNMAP/S") == "[-]", "marks of shown columns")
        top.press("down", " ", *["down"] * 3, "enter", "down", " ")  # IOPS, READ B/S, WRITE B/S
        top.wait(lambda lines: [marks(lines).get(title) for title in ("IOPS", "READ B/S", "WRITE B/S")] == ["[ ]"] * 3, "marks of hidden columns")
        top.press("esc")
        top.wait(lambda lines: row(lines, "m0") and not {"IOPS", "B/S"} & set(lines[HEADER].split()), "the table without these columns")
        self.assertEqual(top.lines[HEADER].split()[0], "VOLUME")
        self.assertIn("READ/S", top.lines[HEADER], "hidden columns make room for others")
        self.assertIn("by IOPS", top.lines[-2])
        top.press("c", " ")
        top.wait_text("the first column cannot be hidden")
        top.press("down", "enter", "c")
        top.wait(lambda lines: row(lines, "m0") and "IOPS" in lines[HEADER].split() and "READ B/S" not in lines[HEADER], "the column IOPS")
        top.press("5", "4")
        top.wait(lambda lines: row(lines, "m0") and "IOPS" in lines[HEADER].split() and "READ B/S" not in lines[HEADER], "the columns as chosen before")

    def test_a_selected_row_stays_selected_and_has_details(self):
        engine = self.engine("-m", "0x1")
        engine.run_commands("bdev_null_create alpha 8 512\nbdev_null_create beta 8 512\n")
        top = self.top("--tab", "volumes", "--sort", "volume", engine.sock)
        top.wait(lambda lines: row(lines, "alpha"), "alpha")
        top.press("down", "R", "enter")
        top.wait(lambda lines: row(lines, "VOLUME") and "beta" in row(lines, "VOLUME"), "the details of beta")
        top.wait_text("latency from 0.0 to 0.0 us")
        engine.run_commands("bdev_null_delete beta\n")
        top.wait_text("It no longer exists.")
        top.press("esc", "1", "enter")
        top.wait_text("pollers:")
        top.press(*["down"] * 10)
        top.wait_text("I/O channels:")

    def test_the_screen_follows_a_change_of_the_terminals_size(self):
        top = self.top(self.serving_engine().sock)
        top.press("4")
        top.wait(lambda lines: row(lines, "m0"), "m0")
        self.assertNotIn("UNMAP/S", top.text)
        top.resize(200, 43)
        top.wait(lambda lines: "UNMAP/S" in lines[HEADER] and "h help" in lines[42] and row(lines, "m0"), "all columns")
        top.resize(30, 6)
        top.wait_text("80x24 shows all")
        top.resize(80, 24)
        top.wait(lambda lines: "UNMAP/S" not in lines[HEADER] and "h help" in lines[23] and row(lines, "m0"), "the first screen")

    def test_keys_set_rate_totals_and_pause_and_show_help(self):
        top = self.top(self.serving_engine().sock)
        top.wait_text("every 1 s")
        top.wait_text("interval")
        top.press("r", "500ms", "enter")
        top.wait_text("every 0.5 s")
        top.press("r", "5 years", "enter")
        top.wait_text('"5 years" is not a time from 100ms to 1h')
        top.press("r", "2x", "backspace", "enter")
        top.wait_text("every 2 s")
        top.press("t")
        top.wait_text("totals")
        top.press("t", "p")
        top.wait_text("paused")
        top.press("p", "h")
        top.wait_text("choose the column to sort by")
        top.press("esc", "tab")
        top.wait_text("BUSY RUNS")
        top.press("left", "left")
        top.wait_text("KIND")
        top.press("left")
        top.wait(lambda lines: lines[HEADER].startswith("HOST "), "the hosts")
        top.press("q")
        self.assertEqual(top.wait_exit(), 0)

    def test_an_engine_that_ends_is_reported_and_its_successor_is_shown(self):
        engine = self.serving_engine()
        top = self.top("-i", "100ms", engine.name)
        top.wait_text(f"fathom-engine {engine.pid}")
        top.press("4")
        top.wait(lambda lines: row(lines, "m0"), "m0")
        engine.kill()
        top.wait(lambda lines: re.search(r"the connection to the engine is lost|no engine listens there", lines[-2]) and "retrying" in lines[-2],
                 "a line that the connection is lost")
        self.assertTrue(row(top.lines, "m0"))   # the last figures stay on the screen
        again = self.engine("-m", "0x1", "-r", engine.sock, ready=False)    # of two options -r the last is used
        again.sock = engine.sock
        again.wait_ready()
        again.run_commands("bdev_null_create other 8 512\n")
        top.wait(lambda lines: str(again.pid) in lines[TITLE] and row(lines, "other"), "the other engine")
        top.wait(lambda lines: "retrying" not in lines[-2], "the status without an error")


    def test_keys_work_while_the_engine_is_stopped(self):
        engine = self.serving_engine()
        top = self.top("-i", "100ms", engine.sock)
        top.wait_text("interval")
        os.kill(engine.pid, signal.SIGSTOP)
        try:
            top.wait_text("timed out")
            top.press("4")
            top.wait(lambda lines: row(lines, "m0"), "m0")
            os.kill(engine.pid, signal.SIGCONT)
            top.wait(lambda lines: "1 of 1, by IOPS" in lines[-2], "the status of an engine that answers")
            os.kill(engine.pid, signal.SIGSTOP)
            top.press("2")
            top.wait_text("BUSY RUNS")
            top.press("q")
            self.assertEqual(top.wait_exit(), 0)
        finally:
            os.kill(engine.pid, signal.SIGCONT)


class Lines(TopTest):
    def test_a_sample_of_a_stopped_engine_ends_with_an_error(self):
        engine = self.serving_engine()
        os.kill(engine.pid, signal.SIGSTOP)
        try:
            for form in ("--batch", "--json"):
                done = run(FATHOM, "top", form, "-n", 1, engine.sock, check=False)
                self.assertEqual(done.returncode, 1, done)
                self.assertRegex(done.stderr, r"^fathom top: .*timed out; is the engine stopped\?\n$")
        finally:
            os.kill(engine.pid, signal.SIGCONT)

    def test_operations_of_the_intervals_add_up_to_the_load(self):
        engine = self.serving_engine()
        top = self.start_child(FATHOM, "top", "--json", "-i", "100ms", engine.sock)
        first = json.loads(top.stdout.readline())
        self.assertEqual([v["iops"] for v in first["volumes"]], [0])
        self.held_load(engine)
        done = time.time()
        ops = commands = 0
        while first["time"] <= done + 1:
            volume, hosts, seconds = first["volumes"][0], first["hosts"], first["seconds"]
            ops += round(volume["iops"] * seconds["volumes"])
            commands += sum(round(host["iops"] * seconds["hosts"]) for host in hosts)
            first = json.loads(top.stdout.readline())
        self.assertEqual(ops, IOS)
        self.assertEqual(commands, IOS + 1)     # the Connect is counted too
        top.send_signal(signal.SIGINT)
        self.assertEqual(top.wait(60), 0)

    def test_totals_in_json_equal_those_of_the_rpcs(self):
        engine = self.serving_engine()
        self.held_load(engine)
        document = json.loads(run(FATHOM, "top", "--json", "--totals", "-n", 1, engine.sock).stdout)
        stats = engine.rpc("bdev_get_iostat")["bdevs"][0]
        volume = document["volumes"][0]
        self.assertEqual((volume["name"], volume["read_ops"], volume["read_bytes"]), ("m0", IOS, stats["bytes_read"]))
        self.assertEqual((document["pid"], document["program"], document["socket"]), (engine.pid, "fathom-engine", engine.sock))
        self.assertEqual([(h["host"], h["read_bytes"], h["commands"]) for h in document["hosts"]], [(HOST, IOS * BLOCK, IOS + 1)])
        self.assertEqual({t["name"] for t in document["threads"]}, {t["name"] for t in engine.rpc("thread_get_stats")["threads"]})
        self.assertEqual(document["cores"][0]["core"], 0)
        self.assertEqual(document["not_offered"], {"threads": [], "pollers": [], "cores": ["mhz"], "volumes": [], "hosts": [], "buffers": []})

    def test_buffers_are_shown_for_the_host_and_the_device_that_hold_them(self):
        """Four reads of 128 KiB that a device keeps: the host and the device hold their buffers."""
        engine = self.serving_engine()
        engine.run_commands(f"bdev_malloc_create -b M1 16 512\nbdev_error_create M1\nnvmf_subsystem_add_ns {NQN} EE_M1 -n 2\n")
        engine.rpc("bdev_error_inject_error", name="EE_M1", io_type="read", error_type="pending", num=4)
        self.start_child(FATHOM, "perf", "-a", "127.0.0.1", "-s", engine.port, "-n", NQN, "--nsid", 2, "--rw", "read", "--bs", "128k", "--depth", 4,
                   "--count", 4, "--hostnqn", HOST, "--quiet")
        while engine.rpc("bdev_get_iostat", names=["EE_M1"])["bdevs"][0]["queue_depth"] < 4:
            time.sleep(0.02)
        rows = json.loads(run(FATHOM, "top", "--json", "-n", 1, engine.sock).stdout)["buffers"]
        held = {(row["kind"], row["user"]): row["lent_bytes"] for row in rows}
        self.assertEqual(held, {("host", HOST): 4 << 17, ("device", "EE_M1"): 4 << 17, ("all", "(all)"): 4 << 17})
        (host,) = [row for row in rows if row["kind"] == "host"]
        self.assertEqual((host["waiting"], host["lent_percent"]), (0, 100 * (4 << 17) / host["limit_bytes"]))
        top = self.top(engine.sock)
        top.press("6")
        top.wait_text("EE_M1")
        top.wait_text("512.0ki")
        top.press("q")
        self.assertEqual(top.wait_exit(), 0)

    def test_bytes_that_a_host_writes_are_counted_as_written(self):
        engine = self.serving_engine()
        self.held_load(engine, "randwrite")
        admin, io = engine.rpc("nvmf_subsystem_get_qpairs", nqn=NQN)
        self.assertEqual((io["bytes_written"], io["num_commands"], io["commands_under_way"]), (IOS * BLOCK + 1024, IOS + 1, 0))   # with Connect and its data
        self.assertLess(io["bytes_read"], BLOCK)
        self.assertGreaterEqual(admin["bytes_read"], 4096)  # Identify
        host = json.loads(run(FATHOM, "top", "--json", "-t", "-n", 1, engine.sock).stdout)["hosts"][0]
        self.assertEqual((host["write_bytes"], host["read_bytes"]), (io["bytes_written"], io["bytes_read"]))

    def test_batch_prints_all_tabs_or_one(self):
        engine = self.serving_engine()
        out = run(FATHOM, "top", "--batch", "-n", 2, "-i", "100ms", engine.name).stdout
        for tab in ("THREADS", "POLLERS", "CORES", "VOLUMES", "HOSTS", "BUFFERS"):
            self.assertEqual(len(re.findall(f"^{tab}$", out, re.M)), 2)
        self.assertEqual(len(re.findall(f"^fathom-engine {engine.pid} ", out, re.M)), 2)
        engine.run_commands("bdev_null_create zero 8 512\n")
        out = run(FATHOM, "top", "-b", "-t", "-n", 1, "--tab", "volumes", "--sort", "VOLUME", "--filter", "Z", engine.pid).stdout
        self.assertNotIn("THREADS", out)
        self.assertIn("\nzero ", out)
        self.assertNotIn("\nm0 ", out)

    def test_an_engine_is_found_by_socket_process_or_name(self):
        engine = self.engine()
        words = ("top", "--json", "-t", "-n", "1")
        here = os.path.basename(engine.sock)
        for target, folder in ((engine.sock, "/"), (here, self.directory), ("./" + here, self.directory), (str(engine.pid), "/"),
                               (engine.name, "/")):
            with self.subTest(target=target):
                self.assertEqual(json.loads(run(FATHOM, *words, target, cwd=folder).stdout)["pid"], engine.pid)

    def test_a_core_that_hangs_leaves_the_other_figures(self):
        engine = self.serving_engine("--test-methods")
        engine.rpc("reactor_hold", reactor=0, milliseconds=20000)

        def held():     # reactor_hold answers before the reactor gets its message
            pollers = [p for thread in engine.rpc("thread_get_pollers")["threads"] for kind in KINDS for p in thread[f"{kind}_pollers"]]
            return any(p["name"] == "reactor_hold" and p["state"] == "running" for p in pollers)
        while not held():
            time.sleep(0.02)
        document = json.loads(run(FATHOM, "top", "--json", "-t", "-n", 1, engine.sock).stdout)
        self.assertEqual((document["hosts"], document["buffers"]), ([], []))
        self.assertIn("lent_bytes", document["not_offered"]["buffers"])
        self.assertIn("read_bytes", document["not_offered"]["hosts"])
        self.assertIn("reactor_hold", {p["name"] for p in document["pollers"] if p["status"] == "running"})
        out = run(FATHOM, "top", "-b", "-t", "-n", 1, "--tab", "hosts", engine.sock).stdout
        self.assertIn("a core does not answer", out)

    def test_each_document_reports_an_engine_that_ended_until_it_is_back(self):
        engine = self.engine()
        top = self.start_child(FATHOM, "top", "--json", "-i", "100ms", engine.sock)
        self.assertIn("threads", json.loads(top.stdout.readline()))
        engine.kill()
        while "error" not in (document := json.loads(top.stdout.readline())):
            pass
        self.assertRegex(document["error"], "the connection to the engine is lost|no engine listens there")
        again = self.engine("-r", engine.sock, ready=False)
        while "error" in (document := json.loads(top.stdout.readline())):
            pass
        self.assertEqual(document["pid"], again.pid)

    def test_wrong_arguments_are_refused_with_the_reason(self):
        engine = self.engine()
        plain = self.file("plain", 0)
        for words, status, sentence in (
                (("--batch", "--tab", "disks"), 2, '--tab: "disks" is not threads'),
                (("--batch", "-i", "1us"), 2, "from 100ms to 1h"),
                (("--batch", "-n", "0"), 2, '-n: "0" is not a number'),
                (("--batch", "--sort", "iops"), 2, "--sort needs --tab"),
                (("--batch", "--tab", "hosts", "--sort", "colour"), 2, 'no column "colour"'),
                (("-n", "1"), 2, "-n is only for --batch and --json"),
                (("--batch", "a", "b"), 2, 'unexpected argument "b"'),
                (("--colour",), 2, "shows the options"),
                ((), 2, "is not a terminal; use --batch or --json"),
                (("--batch", "/nowhere/at/all"), 1, "no engine listens there"),
                (("--batch", plain), 1, plain),
                (("--batch", "nobody-of-this-name"), 1, 'no process named "nobody-of-this-name" is running'),
                (("--batch", "x" * 200), 1, "is running"),
                (("--batch", "/" + "x" * 200), 1, "longer than a socket's path can be"),
                (("--batch", os.getpid()), 1, "listens on no control socket"),
                (("--batch", 2**31 - 1), 1, f"there is no process {2**31 - 1}")):
            with self.subTest(words=words):
                done = run(FATHOM, "top", *words, check=False)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertIn(sentence, done.stderr)
                self.assertEqual(done.stdout, "")
        self.assertIn("usage: fathom top", run(FATHOM, "top", "--help").stdout)
        self.assertIsNone(engine.process.poll())

    def test_a_socket_that_answers_without_json_is_reported(self):
        path = os.path.join(self.directory, "liar")
        server = socket.socket(socket.AF_UNIX)
        server.bind(path)
        server.listen()

        def lie():
            connection, _ = server.accept()
            connection.recv(4096)
            connection.sendall(b"\0\0nonsense")
            connection.close()
        thread = threading.Thread(target=lie)
        thread.start()
        done = subprocess.Popen([FATHOM, "top", "--json", "-n", "1", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        out, err = done.communicate(timeout=60)
        thread.join()
        server.close()
        self.assertEqual(done.returncode, 1)
        self.assertIn("the connection to the engine is lost", err)
        self.assertIn("error", json.loads(out))


class SpdkTop(TopTest):
    """SPDK's spdk_top drops a list if an object in it has a key too many or too few. FATHOM_SPDK_BIN: where its programs are."""

    @unittest.skipUnless(os.environ.get("FATHOM_SPDK_BIN"), "FATHOM_SPDK_BIN does not say where spdk_top is")
    def test_spdk_top_shows_our_engine(self):
        engine = self.serving_engine()
        terminal = Terminal(os.path.join(os.environ["FATHOM_SPDK_BIN"], "spdk_top"), "-r", engine.sock, columns=140, lines=30,
                            env={"TERM": "linux"})
        self.terminals.append(terminal)
        terminal.wait(lambda lines: row(lines, "app_thread") and row(lines, "nvmf_tgt_poll_group_000"), "its threads")
        terminal.press("2")
        terminal.wait(lambda lines: row(lines, "nvmf_TCP"), "its pollers")
        terminal.press("3")
        terminal.wait(lambda lines: row(lines, "0") and "N/A" in row(lines, "0"), "its core")
        terminal.press("q")
        self.assertEqual(terminal.wait_exit(), 0)

    @unittest.skipUnless(os.environ.get("FATHOM_SPDK_BIN"), "FATHOM_SPDK_BIN does not say where nvmf_tgt is")
    def test_our_top_shows_an_spdk_target(self):
        path = os.path.join(self.directory, "spdk.sock")
        target = self.start_child(os.path.join(os.environ["FATHOM_SPDK_BIN"], "nvmf_tgt"), "--no-huge", "-s", 512, "-m", "0x1", "--no-pci",
                            "-r", path)
        run(FATHOM, "rpc", "-r", 100, "-s", path, "framework_wait_init")
        run(FATHOM, "rpc", "-s", path, "bdev_null_create", "n0", 8, 512)
        document = json.loads(run(FATHOM, "top", "--json", "-n", 1, "-i", "200ms", target.pid).stdout)
        self.assertEqual((document["program"], document["socket"]), ("nvmf_tgt", path))
        self.assertEqual(document["not_offered"],
                         {"threads": [], "pollers": [], "cores": ["mhz"], "volumes": ["depth_now"], "hosts": [], "buffers": []})
        self.assertEqual([thread["name"] for thread in document["threads"]], ["app_thread", "nvmf_tgt_poll_group_000"])
        self.assertEqual([(volume["name"], volume["iops"]) for volume in document["volumes"]], [("n0", 0)])
        top = self.top(path)
        top.press("4")
        top.wait(lambda lines: row(lines, "n0") and "does not offer: NOW" in lines[-2], "n0")

    def test_rpc_results_have_exactly_the_keys_that_spdk_top_decodes(self):
        engine = self.engine()
        engine.serve("bdev_malloc_create", "-b", "m0", 16, BLOCK)
        self.assert_keys(engine.rpc("thread_get_stats"), {"tick_rate", "threads"})
        for thread in engine.rpc("thread_get_stats")["threads"]:
            self.assert_keys(thread, {"name", "id", "cpumask", "busy", "idle", "active_pollers_count", "timed_pollers_count",
                                   "paused_pollers_count"})
        for thread in engine.rpc("thread_get_pollers")["threads"]:
            self.assert_keys(thread, {"name", "id", "active_pollers", "timed_pollers", "paused_pollers"})
            for kind in ("active", "timed", "paused"):
                for poller in thread[f"{kind}_pollers"]:
                    self.assert_keys(poller, {"name", "state", "id", "run_count", "busy_count"}, {"period_ticks"})
        reactors = engine.rpc("framework_get_reactors")
        self.assert_keys(reactors, {"tick_rate", "pid", "reactors"})
        for reactor in reactors["reactors"]:
            self.assert_keys(reactor, {"lcore", "busy", "idle", "irq", "sys", "usr", "in_interrupt", "lw_threads", "tid", "numa_id"},
                          {"core_freq"})
            for thread in reactor["lw_threads"]:
                self.assert_keys(thread, {"name", "id", "cpumask", "elapsed"})
        self.assertTrue(engine.rpc("framework_get_scheduler")["scheduler_name"])

    def assert_keys(self, thing, needed, possible=frozenset()):
        self.assertEqual(set(thing) - possible, needed)

    def test_methods_that_spdk_top_calls_refuse_unknown_parameters(self):
        engine = self.engine()
        for method in ("thread_get_stats", "thread_get_pollers", "thread_get_io_channels", "framework_get_reactors"):
            with self.assertRaises(RpcError):
                engine.rpc(method, colour="blue")


if __name__ == "__main__":
    unittest.main()
