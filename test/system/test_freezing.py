# SPDX-License-Identifier: BSD-2-Clause
"""`fathom trace trigger`, `freeze` and `prune`: the trace around an event saved to a file, on a match, on request or after a crash."""

import json
import os
import shutil
import signal
import subprocess
import time
import unittest

from harness import FATHOM, NQN, EngineTest, run

DELAY_US = 400000   # longer than any delay of a busy machine
SLOW = "bdev.io_done latency_us > 300000 and device == EE_Disk0"
LARGE_RINGS = ("--num-trace-entries", str(1 << 17))


class Freezing(EngineTest):
    def serving(self, *options):
        """An engine whose I/Os can be delayed and failed."""
        engine = self.engine(*options)
        engine.run_commands("bdev_malloc_create -b Disk0 64 512\nbdev_error_create Disk0\n")
        engine.serve("bdev_malloc_create", "-b", "Disk1", 64, 512)
        engine.run_commands(f"nvmf_subsystem_add_ns {NQN} EE_Disk0 -n 2\n")
        return engine

    def trigger(self, engine, *words):
        """Start `fathom trace trigger`; returns when it watches."""
        process = subprocess.Popen([FATHOM, "trace", "trigger", "-f", engine.trace_path, *words], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, cwd=self.directory)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        self.assertTrue(process.stderr.readline().startswith("watching "))
        return process

    def end(self, process, status=0):
        """Wait until the trigger ends with this exit status; its output."""
        printed, complaint = process.communicate(timeout=60)
        self.assertEqual(process.returncode, status, printed + complaint)
        return printed

    @staticmethod
    def read(engine, count=1, nsid=2):
        engine.perf("--nsid", nsid, "--rw", "randread", "--bs", "4k", "--depth", "1", "--count", count)

    @staticmethod
    def delay_reads(engine, number=1):
        engine.rpc("bdev_error_inject_error", name="EE_Disk0", io_type="read", error_type="delay", delay_us=DELAY_US, num=number)

    def rows(self, path, *words):
        return [json.loads(line) for line in run(FATHOM, "trace", *words, "--json", "-f", path).stdout.splitlines()]

    def test_a_trigger_saves_the_matching_event_and_those_around_it(self):
        engine = self.serving(*LARGE_RINGS)
        output = os.path.join(self.directory, "slow")
        process = self.trigger(engine, SLOW, "--before", "10s", "--after", "1s", "-o", output, "--json", "--time", "60s")
        self.read(engine, 100)
        self.delay_reads(engine)
        self.read(engine, 3)
        fired, result = map(json.loads, self.end(process).splitlines())
        self.assertEqual(fired["name"], "bdev_io_done")
        self.assertGreater(fired["total_us"], DELAY_US * 0.9)
        result = result["trigger"]
        self.assertEqual((result["file"], result["lost"], result["held"], result["why"]), (output, 0, 1, "event"))
        self.assertAlmostEqual(result["after_s"], 1, places=3)
        # the same event is in the file, once, and all before it since the engine's start
        rows = self.rows(output)
        self.assertEqual([row for row in rows if row.get("tick") == fired["tick"] and row.get("seq") == fired["seq"]], [fired])
        self.assertEqual([row for row in self.rows(output, "--where", SLOW) if "seq" in row], [fired])
        self.assertEqual(len([row for row in rows if row.get("name") == "bdev_io_done" and row["tick"] < fired["tick"] and
                              row["args"]["device"] == "EE_Disk0"]), 100)
        self.assertIn("process_start", [row.get("name") for row in rows])
        self.assertEqual(result["records"], rows[0]["trace"]["recorded"])
        frozen = rows[0]["trace"]["frozen"]
        self.assertEqual((frozen["why"], frozen["text"], frozen["tick"]), ("trigger", SLOW, fired["tick"]))
        # other subcommands read the file and print the reason for it
        for word in ("summary", "stuck", "slowest", "threads", "show"):
            text = engine.trace(word, "-f", output, check=False).stdout
            self.assertIn(f"\n# frozen by an event that matched: {SLOW}, at ", text)
            self.assertIn(", alive then", text)
        self.assertIn(fired["object"], engine.trace("io", fired["object"], "-f", output).stdout)

    def test_a_trigger_saves_only_events_within_before_and_after(self):
        engine = self.serving(*LARGE_RINGS)
        output = os.path.join(self.directory, "short")
        process = self.trigger(engine, "bdev.io_done status != SUCCESS", "--before", "300ms", "--after", "0", "-o", output, "--json")
        self.read(engine, 500)
        time.sleep(0.4)     # longer than --before
        engine.rpc("bdev_error_inject_error", name="EE_Disk0", io_type="read", error_type="failure", num=1)
        engine.perf("--nsid", "2", "--rw", "randread", "--bs", "4k", "--depth", "1", "--count", "1", check=False)
        printed = self.end(process).splitlines()
        fired, result = json.loads(printed[0]), json.loads(printed[1])["trigger"]
        self.assertNotEqual(fired["args"]["status"], "SUCCESS")
        self.assertTrue(result["complete"])
        self.assertAlmostEqual(result["before_s"], 0.3, places=3)
        done = [row for row in self.rows(output, "-n", "bdev_io_done") if "seq" in row]
        self.assertLess(len(done), 200)
        self.assertIn(fired["seq"], [row["seq"] for row in done])

    def test_a_trigger_with_times_saves_numbered_files(self):
        engine = self.serving()
        process = self.trigger(engine, SLOW, "--before", "1s", "--after", "0", "--times", "2", "-z", "--time", "60s")
        for _ in range(2):
            self.delay_reads(engine)
            self.read(engine)
            time.sleep(0.3)
        self.end(process)
        for number in (1, 2):
            path = os.path.join(self.directory, f"{engine.name}_trace.pid{engine.pid}.trigger{number}.zst")
            self.assertEqual(self.rows(path)[0]["trace"]["frozen"]["text"], SLOW)
        # a second match within --after goes into the same file
        process = self.trigger(engine, SLOW, "--before", "1s", "--after", "2s", "--time", "60s", "-o", self.directory)
        self.delay_reads(engine, 2)
        self.read(engine, 3)
        text = self.end(process)
        self.assertRegex(text, r"(?s)BDEV_IO_DONE .* total: \d{6,}.*\n/.*\.trigger1: \d+ records, .*; the expression was true 2 times\n")

    def test_a_small_buffer_is_reported_with_the_time_that_it_covers(self):
        engine = self.serving(*LARGE_RINGS)
        process = self.trigger(engine, SLOW, "--before", "1m", "--after", "0", "--buffer", "4M", "--json", "-o", self.directory)
        self.read(engine, 60000, nsid=1)
        self.delay_reads(engine)
        self.read(engine)
        result = json.loads(self.end(process).splitlines()[1])["trigger"]
        self.assertTrue(result["buffer_too_small"])
        self.assertFalse(result["complete"])
        self.assertLess(result["before_s"], 60)
        self.assertLess(result["records"], (4 << 20) / 32 + 2048 * 64)
        rows = [row for row in self.rows(result["file"]) if "seq" in row]
        # frequent records do not overwrite rare ones
        self.assertIn("process_start", [row["name"] for row in rows])

    def test_a_full_buffer_ends_the_trigger_before_its_match_is_overwritten(self):
        engine = self.serving(*LARGE_RINGS)
        process = self.trigger(engine, SLOW, "--before", "1m", "--after", "1h", "--buffer", "4M", "--json", "-o", self.directory)
        self.read(engine, 20000, nsid=1)
        self.delay_reads(engine)
        self.read(engine)
        load = subprocess.Popen([FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", NQN, "--nsid", "1", "--rw", "randread",
                                 "--bs", "4k", "--depth", "4", "--time", "60"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        printed, complaint = process.communicate(timeout=60)
        load.kill()
        load.wait()
        fired, result = map(json.loads, printed.splitlines())
        self.assertTrue(result["trigger"]["buffer_too_small"], complaint)
        self.assertLess(result["trigger"]["after_s"], 60)
        # the file has the event, but maybe not all earlier events of its request
        self.assertIn((fired["seq"], fired["tick"]), [(row["seq"], row["tick"]) for row in self.rows(result["trigger"]["file"])
                                                      if "seq" in row])

    def test_lost_records_are_counted_and_cause_no_false_match(self):
        engine = self.serving("--num-trace-entries", "1024")
        process = self.trigger(engine, "name == bdev_io_done and latency_ms > 200 or name == process_end", "--json", "-o", self.directory,
                               "--after", "0")
        for _ in range(3):
            self.read(engine, 5000, nsid=1)
            process.send_signal(signal.SIGSTOP)     # as if it got no CPU for a while
            self.read(engine, 5000, nsid=1)
            time.sleep(0.3)
            process.send_signal(signal.SIGCONT)
            time.sleep(0.2)
        self.assertEqual(engine.stop(), 0)
        fired, result = map(json.loads, self.end(process, status=1).splitlines())
        self.assertEqual(fired["name"], "process_end")
        self.assertGreater(result["trigger"]["lost"], 10000)
        self.assertEqual(self.rows(result["trigger"]["file"])[0]["trace"]["missing"], result["trigger"]["lost"])

    def test_a_trigger_escapes_the_name_of_its_file_in_json(self):
        engine = self.serving()
        for name, shown in (('a "quote" \\ and ü', None), (b"no utf8 \xff", "no utf8 ?")):
            output = os.path.join(os.fsencode(self.directory), os.fsencode(name))
            process = self.trigger(engine, SLOW, "--after", "0", "--json", "-o", output, "--time", "60s")
            self.delay_reads(engine)
            self.read(engine)
            result = json.loads(self.end(process).splitlines()[1])["trigger"]
            self.assertEqual(result["file"], os.path.join(self.directory, shown or name))
            self.assertTrue(os.path.exists(output))

    def test_a_trigger_without_a_match_leaves_no_file(self):
        engine = self.serving()
        self.assertEqual(self.end(self.trigger(engine, SLOW, "--time", "300ms"), status=1), "")
        process = self.trigger(engine, SLOW)
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.end(process, status=1), "")
        process = self.trigger(engine, SLOW, "--on-crash")
        self.assertEqual(engine.stop(), 0)
        self.assertEqual(self.end(process, status=1), "")
        self.assertFalse([name for name in os.listdir(self.directory) if "trigger" in name])

    def test_on_crash_saves_the_trace_of_a_killed_engine(self):
        engine = self.serving()
        process = self.trigger(engine, "--on-crash", "--json")
        self.read(engine, 10)
        engine.kill()
        result = json.loads(self.end(process))["trigger"]
        self.assertEqual(result["why"], "ended")
        path = os.path.join(self.directory, result["file"])
        self.assertEqual(len([row for row in self.rows(path, "--where", "bdev.io_done device == EE_Disk0") if "seq" in row]), 10)
        self.assertIn("# frozen after the process had ended", engine.trace("-f", path).stdout)

    # ---- freeze: on request ----

    def test_a_frozen_copy_of_a_loaded_engine_is_complete_and_consistent(self):
        engine = self.serving()
        self.read(engine, 100)
        load = subprocess.Popen([FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", NQN, "--nsid", "1", "--rw", "randread",
                                 "--bs", "512", "--depth", "64", "--time", "60"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(load.wait)
        self.addCleanup(load.kill)
        deadline = time.monotonic() + 60
        while sum(row["num_read_ops"] for row in engine.rpc("bdev_get_iostat")["bdevs"]) < 10000:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        for number in range(1, 6):
            path = engine.rpc("trace_freeze", reason="what is \"this\"?")["path"]
            self.assertEqual(path, f"{engine.trace_path}.frozen{number}")
            rows = self.rows(path)
            head, events, end = rows[0]["trace"], [row for row in rows if "seq" in row], rows[-1]["end"]
            self.assertEqual((head["frozen"]["why"], head["frozen"]["text"]), ("asked", 'what is "this"?'))
            self.assertEqual((end["torn"], end["unknown"], end["missing"]), (0, 0, 0))
            # an event with many arguments has several records
            self.assertIn(head["recorded"] - head["overwritten"] - len(events), range(1000))
            for thread in {row["thread"] for row in events}:
                # in order; left out are the rings of io and of rare records, which reach further back
                numbers = [row["seq"] for row in events if row["thread"] == thread and row["group"] in ("bdev", "nvmf_tcp")]
                self.assertEqual(numbers, sorted(numbers))
            self.assertGreater(len(events), 10000)
            self.assertTrue(all(row.get("total_us", 0) < 60e6 for row in events))
            for word in ("summary", "stuck", "slowest", "threads"):
                text = engine.trace(word, "-f", path, check=False).stdout
                self.assertIn("# frozen on request: what is \"this\"?, at ", text)
                self.assertNotIn("damaged", text)
        # -s takes the engine's own file, not a newer frozen copy
        self.assertIn(f"# {engine.trace_path}\n", engine.trace("threads", "-s", engine.name).stdout)

    def test_freeze_prints_the_path_of_its_file_or_the_reason_of_its_failure(self):
        engine = self.serving()
        freeze = lambda *words, **kwargs: run(FATHOM, "trace", "freeze", "-S", engine.sock, *words, cwd=self.directory, **kwargs)
        self.assertEqual(freeze("-o", "here", "a slow minute").stdout, os.path.join(self.directory, "here") + "\n")
        self.assertIn("# frozen on request: a slow minute, at ", engine.trace("-f", os.path.join(self.directory, "here")).stdout)
        self.assertEqual(json.loads(freeze("--json").stdout), {"path": engine.trace_path + ".frozen1"})
        self.assertEqual(freeze("-o", "here", "--force", "second").stdout, os.path.join(self.directory, "here") + "\n")
        self.assertIn("# frozen on request: second, at ", engine.trace("-f", os.path.join(self.directory, "here")).stdout)
        for words, complaint in ((("-o", "here"), "cannot make .*/here: File exists; --force overwrites it"),
                                 (("--force",), "--force is only for `freeze` with -o"),
                                 (("-o", "/nonexistent/x"), "cannot make /nonexistent/x: No such file"),
                                 (("a", "b"), "unexpected argument")):
            done = freeze(*words, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertRegex(done.stderr, complaint)
        done = run(FATHOM, "rpc", "-s", engine.sock, "trace_freeze", "--path", "relative", check=False)
        self.assertIn('"path" does not begin with /', done.stdout + done.stderr)
        untraced = self.engine("--num-trace-entries", "0")
        done = run(FATHOM, "trace", "freeze", "-S", untraced.sock, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("there is no trace file", done.stderr)

    def test_control_commands_find_a_program_by_name_and_by_pid(self):
        engine = self.engine()
        for choice in (("-s", engine.name), ("-p", engine.pid), ("-s", engine.name, "-p", engine.pid)):
            with self.subTest(choice):
                engine.trace("disable", *choice, "bdev")
                self.assertFalse(engine.rpc("trace_get_tpoint_group_mask")["bdev"]["enabled"])
                engine.trace("enable", *choice, "bdev")
                self.assertTrue(engine.rpc("trace_get_tpoint_group_mask")["bdev"]["enabled"])
        frozen = engine.trace("freeze", "-s", engine.name).stdout.strip()
        self.assertTrue(os.path.exists(frozen), frozen)
        os.unlink(frozen)
        engine.trace("clear", "-p", engine.pid)
        for options, what in ((("-f", engine.trace_path), "use one of -S SOCKET, -s NAME and -p PID"),
                              (("-s", "nobody-at-all"), 'no process named "nobody-at-all" is running'),
                              (("-s", engine.name, "-S", engine.sock), "--socket cannot be used with -s, -p or -f")):
            done = run(FATHOM, "trace", "clear", *options, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(what, done.stderr)

    def test_a_process_without_a_trace_file_and_no_process_have_different_errors(self):
        done = run(FATHOM, "trace", "-p", 1, check=False)
        self.assertRegex(done.stderr, r"process 1 \(.+\) has no trace file in /dev/shm")
        with subprocess.Popen(["true"]) as ended:
            ended.wait()
        done = run(FATHOM, "trace", "-p", ended.pid, check=False)
        self.assertIn(f"process {ended.pid} does not exist, and /dev/shm has no trace file of it", done.stderr)

    def test_a_freeze_whose_path_or_reason_is_not_utf8_is_refused(self):
        engine = self.serving()
        for words in (("-o", os.fsdecode(b"x\xff")), (os.fsdecode(b"because \xff"),)):
            done = run(FATHOM, "trace", "freeze", "-S", engine.sock, *words, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn("is not valid UTF-8", done.stderr)

    @unittest.skipIf(os.geteuid() != 0, "mounting needs root")
    def test_a_freeze_on_a_full_file_system_leaves_no_file(self):
        engine = self.serving()
        small = os.path.join(self.directory, "small")
        os.mkdir(small)
        run("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", small)
        self.addCleanup(run, "umount", small)
        self.read(engine, 10000, nsid=1)
        done = run(FATHOM, "trace", "freeze", "-S", engine.sock, "-o", os.path.join(small, "x"), check=False)
        self.assertEqual((done.returncode, os.listdir(small)), (2, []))
        self.assertIn("No space left", done.stderr)

    # ---- prune: files of dead processes ----

    def make_dead_files(self, count, suffix=""):
        """Make trace files of `count` dead processes of a program: (name of the program, paths, oldest first)."""
        engine = self.engine("--num-trace-entries", "1024")
        engine.kill()
        name = engine.name + "left" + suffix[1:]
        paths = [f"/dev/shm/{name}_trace.pid{4000000 + n}{suffix}" for n in range(count)]
        for n, path in enumerate(paths):
            self.addCleanup(lambda path=path: os.path.exists(path) and os.unlink(path))
            with open(engine.trace_path, "rb") as file, open(path, "wb") as copy:
                copy.write(file.read(8192))     # the header names the writer, and /dev/shm may be small
            os.utime(path, (1000000 + n, 1000000 + n))
        return name, paths

    def prune(self, *words):
        rows = [json.loads(line) for line in run(FATHOM, "trace", "prune", "--json", *words).stdout.splitlines()]
        self.assertEqual((rows[-1]["pruned"]["files"], rows[-1]["pruned"]["bytes"]), (len(rows) - 1, sum(r["bytes"] for r in rows[:-1])))
        return [row["removed"] for row in rows[:-1]]

    def test_prune_removes_the_oldest_files_of_dead_processes(self):
        name, paths = self.make_dead_files(7)
        self.assertEqual(self.prune("-s", name, "--keep", "5"), paths[:2])
        text = run(FATHOM, "trace", "--prune", "-s", name).stdout
        self.assertRegex(text, f"^removed {paths[2]}, [0-9.]+ MiB\n1 file removed, [0-9.]+ MiB free\n$")
        self.assertEqual([os.path.exists(path) for path in paths], [False] * 3 + [True] * 4)
        self.assertEqual(run(FATHOM, "trace", "prune", "-s", name).stdout, "nothing to remove\n")
        for words in (("--keep", "x"), ("more",), ("--frob",)):
            self.assertEqual(run(FATHOM, "trace", "prune", *words, check=False).returncode, 2)
        # an engine prunes at its start
        name, paths = self.make_dead_files(6)
        engine = self.engine("--name", name)
        self.assertEqual([os.path.exists(path) for path in paths], [False] * 2 + [True] * 4)
        self.assertIn(f"removed {paths[0]}: 4 newer ones", engine.log_text())
        engine.stop()
        os.unlink(f"/dev/shm/{name}_trace.pid{engine.pid}")

    def test_prune_escapes_a_directory_with_a_quote_in_json(self):
        _, paths = self.make_dead_files(2)
        directory = os.path.join(self.directory, 'a "quote" \\')
        os.mkdir(directory)
        copies = [os.path.join(directory, os.path.basename(path)) for path in paths]
        for path, copied in zip(paths, copies):
            shutil.copy2(path, copied)
        self.assertEqual(self.prune("-d", directory, "--keep", "1"), copies[:1])

    def test_prune_has_a_separate_limit_for_files_of_crashes(self):
        name, paths = self.make_dead_files(10, ".sigsegv")
        self.assertEqual(self.prune("-s", name, "--keep", "0"), paths[:2])
        self.assertEqual(self.prune("-s", name, "--keep-crashes", "7"), paths[2:3])
        name, paths = self.make_dead_files(9, ".must")
        engine = self.engine("--name", name)
        self.assertEqual([os.path.exists(path) for path in paths], [False] + [True] * 8)
        engine.stop()
        os.unlink(f"/dev/shm/{name}_trace.pid{engine.pid}")

    def test_prune_keeps_files_of_running_processes(self):
        engine = self.engine()
        self.assertEqual(self.prune("-s", engine.name, "--keep", "0"), [])
        # in a PID namespace without the process only the lock shows that it runs
        if os.geteuid() == 0 and run("unshare", "--pid", "--fork", "true", check=False).returncode == 0:
            done = run("unshare", "--pid", "--fork", FATHOM, "trace", "prune", "-s", engine.name, "--keep", "0")
            self.assertEqual(done.stdout, "nothing to remove\n")
        self.assertTrue(os.path.exists(engine.trace_path))
        engine.kill()
        self.assertEqual(self.prune("-s", engine.name, "--keep", "0"), [engine.trace_path])

    def test_a_file_without_a_lock_is_kept_if_its_process_runs_and_started_before_it(self):
        def file_of_this_process(changed):
            name, (path,) = self.make_dead_files(1)
            with open(path, "r+b") as file:
                file.seek(28)
                file.write(bytes(4))                                # no flags
                file.seek(4096 + 228)                               # the pid, after the header
                file.write(os.getpid().to_bytes(4, "little"))
            os.utime(path, (changed, changed))
            return name, path

        name, path = file_of_this_process(1000000)
        self.assertEqual(self.prune("-s", name, "--keep", "0"), [path])   # older than this process: its pid was used again
        name, path = file_of_this_process(time.time())
        self.assertEqual(self.prune("-s", name, "--keep", "0"), [])

    # ---- crashes ----

    def check_crash(self, engine, suffix, number):
        """Check that the engine died of signal `number` and its file got a second name: (reason in the file, crash events, second name)."""
        self.assertEqual(engine.process.wait(60), -number, engine.log_text())
        path = f"{engine.trace_path}.{suffix}"
        self.assertTrue(os.path.samefile(path, engine.trace_path))
        rows = self.rows(path)
        return rows[0]["trace"]["frozen"], [row for row in rows if row.get("name") in ("process_signal", "must_failed")], path

    def test_a_fatal_signal_that_was_sent_is_recorded(self):
        for number, suffix in ((signal.SIGSEGV, "sigsegv"), (signal.SIGABRT, "sigabrt"), (signal.SIGBUS, "sigbus"),
                               (signal.SIGILL, "sigill"), (signal.SIGFPE, "sigfpe")):
            engine = self.engine()
            engine.process.send_signal(number)
            frozen, events, path = self.check_crash(engine, suffix, number)
            self.assertEqual((frozen["why"], frozen["signal"], frozen["code"]), ("signal", "SIG" + suffix[3:].upper(), 0))
            self.assertEqual([row["args"]["signal"] for row in events], [number])
            # -s finds the file; -p finds it also when only the second name exists
            self.assertIn("died of", engine.trace("-s", engine.name).stdout)
            os.unlink(engine.trace_path)
            text = engine.trace("summary", "-p", str(engine.pid)).stdout
            self.assertIn(f"# process {engine.pid} died of SIG{suffix[3:].upper()}, sent by a process, in thread {engine.pid}, ", text)
            os.link(path, engine.trace_path)

    def test_a_memory_fault_of_a_reactor_is_recorded_with_its_place(self):
        for how in ("store", "stack"):
            engine = self.engine("--test-methods")
            try:
                engine.rpc("engine_crash", how=how)
            except OSError:
                pass                # the engine died before it replied
            frozen, events, path = self.check_crash(engine, "sigsegv", signal.SIGSEGV)
            self.assertGreater(frozen["code"], 0)
            self.assertEqual(os.path.basename(frozen["place"]), "fathom-engine")
            self.assertNotEqual(frozen["tid"], engine.pid)
            event = events[0]["args"]
            self.assertEqual((event["signal"], event["tid"], int(event["address"], 16), int(event["instruction"], 16)),
                             (signal.SIGSEGV, frozen["tid"], int(frozen["address"], 16), int(frozen["instruction"], 16)))
            if how == "store":
                self.assertEqual(frozen["address"], "0x40")
            where = run("addr2line", "-f", "-e", frozen["place"], frozen["offset"]).stdout
            self.assertIn("crash_store" if how == "store" else "recurse_without_end", where)
            self.assertIn("at address 0x", engine.trace("stuck", "-f", path, check=False).stdout)

    def test_a_failed_must_is_recorded_with_its_condition(self):
        engine = self.engine("--test-methods")
        try:
            engine.rpc("engine_crash", how="must")
        except OSError:
            pass
        frozen, events, path = self.check_crash(engine, "must", signal.SIGABRT)
        self.assertEqual((frozen["why"], frozen["text"]), ("must", "unused == crash_must"))
        self.assertRegex(frozen["place"], r"rpc/crash\.c:\d+$")
        self.assertEqual([row["name"] for row in events], ["must_failed", "process_signal"])
        self.assertFalse(os.path.exists(engine.trace_path + ".sigabrt"))
        self.assertIn("must(unused == crash_must) failed at ", engine.trace("-f", path).stdout)

    def test_wrong_triggers_are_rejected_with_the_reason(self):
        engine = self.serving()
        for words, complaint in (((), "the expression is missing"),
                                 (("bdev.io_done frob > 1",), "bdev_io_done has no argument of this name; there are: queue_depth, status"),
                                 (("bdev.frob x",), "it has: bdev_io_submit, "),
                                 (("frob.x",), "the groups are: process"),
                                 (("bdev.io_done", "latency_us > 5"), "unexpected argument"),
                                 ((SLOW, "--buffer", "1k"), "from 4194304 to"),
                                 ((SLOW, "--before", "soon"), '--before: "soon" is not a time'),
                                 ((SLOW, "--times", "x"), '--times: "x" is not a number')):
            done = run(FATHOM, "trace", "trigger", "-f", engine.trace_path, *words, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done)
            self.assertIn(complaint, done.stderr)
        process = self.trigger(engine, SLOW, "--after", "0", "-o", "/nonexistent/file")
        self.delay_reads(engine)
        self.read(engine)
        self.end(process, status=2)
        engine.kill()
        done = run(FATHOM, "trace", "trigger", SLOW, "-f", engine.trace_path, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("the program has ended", done.stderr)


if __name__ == "__main__":
    unittest.main()
