# SPDX-License-Identifier: BSD-2-Clause
"""`fathom trace` on the file of a dead or a running engine: slow requests and their stages, stuck requests, threads that hang."""

import json
import os
import signal
import subprocess
import sys
import time
import unittest

from harness import FATHOM, NQN, TOP, EngineTest, run, wait_for

sys.path.insert(0, os.path.join(TOP, "test/unit/inspect/trace"))

import agree  # noqa: E402

DELAY_US = 500000  # longer than any delay of a busy machine


class Explaining(EngineTest):
    def json_rows(self, engine, *words, status=0):
        done = run(FATHOM, "trace", *words, "--json", "-f", engine.trace_path, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_files_of_several_engines_are_merged_in_the_order_of_time(self):
        """Two engines run at once, one is killed, and another starts. The events of their three files are merged."""
        small = "--num-trace-entries", "8192"       # three files fit into a small /dev/shm; else the third removes that of the ended engine
        first, beside = self.engine(*small), self.engine(*small)
        for engine in (first, beside):
            engine.serve("bdev_malloc_create", 64, 512)
            engine.perf("--count", "200", "--depth", "4")
        first.kill()
        beside.perf("--count", "100", "--depth", "1")
        second = self.engine(*small)
        second.serve("bdev_malloc_create", 64, 512)
        second.perf("--count", "100", "--depth", "1")
        files = ("-f", first.trace_path, "-s", beside.name, "-s", second.name)
        rows = [json.loads(line) for line in run(FATHOM, "trace", "-g", "nvmf", "--json", *files).stdout.splitlines()]
        states = {row["process"]: row["trace"]["state"] for row in rows if "trace" in row}
        self.assertEqual(states, {first.name: "dead", beside.name: "alive", second.name: "alive"})
        events = [row for row in rows if "seq" in row]
        # all ran on one machine, so its tick counter gives the order
        ticks = [row["tick"] for row in events if not row.get("shared")]
        self.assertEqual(ticks, sorted(ticks))
        last = max(row["time_us"] for row in events if row["process"] == first.name)
        later = {row["process"] for row in events if row["time_us"] > last}
        self.assertEqual(later, {beside.name, second.name})
        for engine in (first, beside, second):
            alone = [row for row in self.json_rows(engine, "-g", "nvmf") if "seq" in row]
            # a running engine may have recorded more since
            ours = [row["seq"] for row in events if row["process"] == engine.name and row["name"] == "nvmf_req_state"]
            self.assertEqual(ours, [row["seq"] for row in alone if row["name"] == "nvmf_req_state"][:len(ours)])
            self.assertGreater(len(ours), 400)
        agree.check_events(self, FATHOM, first.trace_path)
        slowest = [json.loads(line) for line in run(FATHOM, "trace", "slowest", "5", "--json", *files).stdout.splitlines()]
        totals = [row["total_us"] for row in slowest if "number" in row]
        self.assertEqual(totals, sorted(totals, reverse=True))
        self.assertEqual(len(totals), 5)

    def slow_engine(self):
        """An engine with memory as namespace 1 and a device as namespace 2 that can delay, hold and fail I/Os."""
        engine = self.engine()
        engine.run_commands("bdev_malloc_create -b Disk1 64 512\nbdev_error_create Disk1\n")
        engine.serve("bdev_malloc_create", "-b", "Disk0", 64, 512)
        engine.run_commands(f"nvmf_subsystem_add_ns {NQN} EE_Disk1 -n 2\n")
        return engine

    def test_ten_slow_reads_among_a_million_are_found_after_sigkill(self):
        """The slow reads are spread over the load. A read that never completes is listed as stuck, not as slow. Only the file is read."""
        wanted = int(os.environ.get("FATHOM_LIVES", "1000000"))
        engine = self.slow_engine()
        # in the first half of the load, so that the rings have overwritten their records
        engine.rpc("bdev_error_inject_error", name="EE_Disk1", io_type="read", error_type="delay", delay_us=DELAY_US, num=10)
        load = subprocess.Popen([FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", NQN, "--nsid", "1", "--rw", "randread",
                                 "--bs", "512", "--depth", "64", "--time", "300"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        engine.perf("--nsid", "2", "--rw", "randread", "--bs", "4k", "--depth", "2", "--count", "20")
        engine.rpc("bdev_error_inject_error", name="EE_Disk1", io_type="read", error_type="pending", num=1)
        held = subprocess.Popen([FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", NQN, "--nsid", "2", "--rw", "randread",
                                 "--bs", "4k", "--depth", "1", "--count", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        ended, deadline = 0, time.monotonic() + 240
        while ended < wanted and time.monotonic() < deadline:
            time.sleep(0.5)     # each summary takes processor time from the load
            ended = next(row["ended"] for row in self.json_rows(engine, "summary") if row.get("object_type") == "nvmf_req" and "ended" in row)
        self.wait_until_stuck(engine)
        engine.kill()
        for process in (held, load):
            process.kill()
            process.wait()
        self.assertGreaterEqual(ended, wanted)
        # a reader written from the document of the format alone agrees
        self.assertGreaterEqual(agree.check_stuck(self, FATHOM, engine.trace_path), 1)
        self.assertGreater(agree.check_summary(self, FATHOM, engine.trace_path), 5)
        self.assertEqual(agree.check_slowest(self, FATHOM, engine.trace_path), 200)
        # these ten are the slowest of all; no other kept request of the namespace took as long
        reads = [row for row in self.json_rows(engine, "slowest", "10", "--all") if "number" in row]
        self.assertEqual([row["args"]["nsid"] for row in reads], [2] * 10)
        others = [row for row in self.json_rows(engine, "slowest", "100", "--all", "--where", "nsid == 2") if "number" in row][10:]
        self.assertEqual([row for row in others if row["total_us"] >= DELAY_US], [])
        for row in reads:
            self.assertEqual(row["object_type"], "nvmf_req")
            self.assertGreaterEqual(row["total_us"], DELAY_US)
            self.assertEqual(row["args"]["opcode_name"], "Read")
            self.assertIn("qid:1", row["owner"]["text"])
            # the backend took the time; the rings no longer have the records of the I/O
            stages = {stage["stage"]: stage["us"] for stage in row["io"]["stages"]}
            self.assertGreaterEqual(stages["DISPATCHED"], DELAY_US)
            self.assertGreater(stages["DISPATCHED"] / row["total_us"], 0.5)
        stuck = [row for row in self.json_rows(engine, "stuck", status=1) if row.get("object_type") == "nvmf_req"]
        # requests of the load that were under way are stuck as well
        self.assertEqual(len([row for row in stuck if row["args"]["opcode"] == "0x02" and row["args"]["nsid"] == 2]), 1)
        text = engine.trace("slowest", "-f", engine.trace_path).stdout
        self.assertRegex(text, r"\n  1\. ")
        self.assertIn("`fathom trace stuck` shows", text)

    def test_requests_that_one_stall_delayed_are_one_line(self):
        """The device delays eight reads together, then two one at a time. `slowest` shows three lines for the file of the killed engine."""
        engine = self.slow_engine()
        delay = lambda count: engine.run_commands(f"bdev_error_inject_error EE_Disk1 read delay --delay-us {DELAY_US} --num {count}\n")
        delay(8)
        engine.perf("--nsid", "2", "--rw", "randread", "--bs", "4k", "--depth", "8", "--count", "16")
        delay(2)
        engine.perf("--nsid", "2", "--rw", "randread", "--bs", "4k", "--depth", "1", "--count", "4")
        engine.kill()
        of_namespace = ("--where", f"nsid == 2 and latency_us >= {DELAY_US}")
        rows = [row for row in self.json_rows(engine, "slowest", *of_namespace) if "number" in row]
        self.assertEqual(sorted(row["stall"]["count"] if "stall" in row else 1 for row in rows), [1, 1, 8])
        (row,) = [row for row in rows if "stall" in row]
        members = row["stall"]["members"]
        self.assertEqual(len(members), 8)
        self.assertEqual(row["object"], members[0]["object"])
        self.assertEqual([member["total_us"] for member in members], sorted((member["total_us"] for member in members), reverse=True))
        self.assertEqual(row["stall"]["stage"], "EXECUTING")
        self.assertEqual(row["stall"]["owner"]["text"], "EE_Disk1")
        self.assertGreaterEqual(row["stall"]["us"], DELAY_US)
        first = min(members, key=lambda member: member["begin_tick"])
        self.assertIn(row["stall"]["first"], [member["object"] for member in members if member["begin_tick"] == first["begin_tick"]])
        each = [row for row in self.json_rows(engine, "slowest", "--all", *of_namespace) if "number" in row]
        self.assertEqual(len(each), 10)
        self.assertTrue({member["object"] for member in members} <= {row["object"] for row in each})
        self.assertFalse([row for row in each if "stall" in row])
        text = engine.trace("slowest", "-f", engine.trace_path).stdout
        self.assertRegex(text, r"\n      one stall of [\d.]+ m?s at \[b\d+ EE_Disk1\] delayed 8 requests: nvmf_req r\d+ began first, "
                               r"the shortest took [\d.]+ m?s\n")

    def hold_a_read(self, engine):
        """Start a host whose read of namespace 2 never completes; returns when the device has the read."""
        engine.rpc("bdev_error_inject_error", name="EE_Disk1", io_type="read", error_type="pending", num=1)
        held = subprocess.Popen([FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", NQN, "--nsid", "2", "--rw", "randread",
                                 "--bs", "4k", "--depth", "1", "--count", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(held.wait)
        self.addCleanup(held.kill)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            done = run(FATHOM, "trace", "stuck", "--older-than", "0", "--json", "-f", engine.trace_path, check=False)
            rows = [json.loads(line) for line in done.stdout.splitlines()]
            if [row for row in rows if row.get("object_type") == "bdev_io" and row["stage"] == "DISPATCHED"]:
                return
            time.sleep(0.05)
        raise AssertionError("the device did not get the read")

    def wait_until_stuck(self, engine):
        """Wait until the read of namespace 2 is 2.2 s old. The engine gives a sign of life each second, so at the last one the read was older
        than 1 s, the limit of `stuck`."""
        wait_for(lambda: any(row.get("object_type") == "nvmf_req" and row["args"]["nsid"] == 2
                             for row in engine.operations_under_way("--older-than", "2200ms")), pause=0.1)

    def test_requests_under_way_are_stuck_after_the_engine_is_killed(self):
        """As in README's tour. Ages end at the death of the engine; the last record is as old as the read."""
        engine = self.slow_engine()
        self.hold_a_read(engine)
        self.wait_until_stuck(engine)
        engine.kill()
        rows = self.json_rows(engine, "stuck", status=1)
        request = [row for row in rows if row.get("object_type") == "nvmf_req"]
        self.assertEqual([row["args"]["nsid"] for row in request], [2])
        self.assertGreater(request[0]["age_us"], 1e6)
        done = run(FATHOM, "trace", "stuck", "-f", engine.trace_path, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("# 2 stuck, 2 under way", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^# last sign of life \d\.\d+ s after its start, at ")
        self.assertIn("# 1 under way when it died", run(FATHOM, "trace", "summary", "-f", engine.trace_path).stdout)
        agree.check_stuck(self, FATHOM, engine.trace_path)
        # --older-than still sets the limit
        self.assertIn("# 0 stuck, 2 under way", run(FATHOM, "trace", "stuck", "--older-than", "1h", "-f", engine.trace_path).stdout)

    def test_every_request_under_way_at_a_crash_is_stuck(self):
        engine = self.slow_engine()
        self.hold_a_read(engine)
        load = subprocess.Popen([FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", NQN, "--nsid", "1", "--rw", "randread",
                                 "--bs", "4k", "--depth", "64", "--time", "60"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        engine.wait_for_ios(1000, "Disk0")
        engine.process.send_signal(signal.SIGSEGV)
        engine.process.wait()
        load.kill()
        load.wait()
        stuck = [row for row in self.json_rows(engine, "stuck", status=1) if row.get("object_type") == "nvmf_req"]
        everything = [row for row in self.json_rows(engine, "stuck", "--older-than", "0", status=1) if row.get("object_type") == "nvmf_req"]
        self.assertEqual([row["object"] for row in stuck], [row["object"] for row in everything])
        # how many requests of the load were under way is chance
        self.assertEqual(len([row for row in stuck if row["args"]["nsid"] == 2]), 1)

    @staticmethod
    def run_stuck(engine):
        return run(FATHOM, "trace", "stuck", "-f", engine.trace_path, check=False)

    def test_stuck_reports_an_engine_that_a_signal_stopped(self):
        engine = self.slow_engine()
        engine.process.send_signal(signal.SIGSTOP)
        try:
            wait_for(lambda: "it has written nothing for 1." in self.run_stuck(engine).stdout, pause=0.1)
            text = run(FATHOM, "trace", "stuck", "-f", engine.trace_path, check=False)
            self.assertEqual(text.returncode, 1)
            self.assertRegex(text.stdout, r"alive, but stopped by a signal or a debugger, it has written nothing for 1\.\d+ s")
            self.assertIn(f"process {engine.pid} is stopped by a signal or a debugger: no sign of life for ", text.stdout)
            self.assertIn("# 1 stuck, 0 under way", text.stdout)
            self.assertTrue(self.json_rows(engine, "threads")[0]["trace"]["stopped"])
        finally:
            engine.process.send_signal(signal.SIGCONT)
        wait_for(lambda: self.run_stuck(engine).returncode == 0, pause=0.1)
        self.assertNotIn("stopped", run(FATHOM, "trace", "stuck", "-f", engine.trace_path).stdout)

    def test_stuck_reports_a_reactor_that_hangs(self):
        engine = self.engine("-m", "0x1", "--test-methods")
        engine.serve("bdev_malloc_create", 64, 512)
        engine.rpc("reactor_hold", reactor=0, milliseconds=4000)
        wait_for(lambda: self.run_stuck(engine).returncode == 1, pause=0.1)     # 1 s after the thread's last sign of life
        text = run(FATHOM, "trace", "stuck", "-f", engine.trace_path, check=False)
        self.assertEqual(text.returncode, 1)
        self.assertRegex(text.stdout, r", alive, but 1 of its threads hangs: for [12]\.\d+ s")

    def test_follow_prints_each_new_event_until_the_engine_ends(self):
        engine = self.slow_engine()
        engine.perf("--nsid", "1", "--rw", "randread", "--bs", "4k", "--depth", "1", "--count", "10")
        follow = subprocess.Popen([FATHOM, "trace", "follow", "--json", "-f", engine.trace_path], stdout=subprocess.PIPE, text=True)
        self.assertIn("trace", json.loads(follow.stdout.readline()))
        engine.perf("--nsid", "1", "--rw", "randread", "--bs", "4k", "--depth", "1", "--count", "500")
        self.assertEqual(engine.stop(), 0)
        rows = [json.loads(line) for line in follow.communicate(timeout=60)[0].splitlines()]
        self.assertEqual(follow.returncode, 0)
        self.assertEqual(len([row for row in rows if row.get("name") == "bdev_io_done"]), 500)
        self.assertEqual(rows[-1]["end"]["overwritten"], 0)
        threads = {}
        for row in rows[:-1]:
            threads.setdefault(row["thread"], []).append(row["seq"])
        for numbers in threads.values():
            self.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(numbers))))

    def test_follow_ends_cleanly_when_it_is_interrupted(self):
        engine = self.slow_engine()
        follow = subprocess.Popen([FATHOM, "trace", "follow", "-n", "bdev_io_done", "--where", "latency_us > 0", "-f", engine.trace_path],
                                  stdout=subprocess.PIPE, text=True)
        self.assertIn(engine.trace_path, follow.stdout.readline())
        engine.perf("--nsid", "1", "--rw", "randread", "--bs", "4k", "--depth", "1", "--count", "20")
        time.sleep(0.3)
        follow.send_signal(signal.SIGINT)
        text = follow.communicate(timeout=60)[0]
        self.assertEqual(follow.returncode, 0)
        self.assertEqual(text.count("BDEV_IO_DONE"), 20)

    def test_io_shows_a_request_from_the_socket_to_the_disk_and_back(self):
        engine = self.slow_engine()
        engine.perf("--nsid", "1", "--rw", "randread", "--bs", "4k", "--depth", "4", "--count", "20")
        # a request object is used again by later commands; the id of an I/O leads to its own command
        done = [row for row in self.json_rows(engine, "-n", "bdev_io_done") if "seq" in row]
        last = next(row for row in reversed(done)
                    if "bdev_io_done" in [event.get("name") for event in self.json_rows(engine, "io", row["related"])])
        self.assertIn("bdev_io_done", [event.get("name") for event in self.json_rows(engine, "io", done[-1]["object"])])
        for name in (last["object"], last["related"]):
            rows = self.json_rows(engine, "io", name)
            self.assertEqual(rows[1]["object"], last["related"])
            names = [row["name"] for row in rows if "seq" in row]
            for wanted in ("tcp_receive", "nvmf_req_state", "bdev_io_submit", "bdev_io_dispatch", "bdev_io_done", "tcp_send"):
                self.assertIn(wanted, names)
            objects = {row.get("object") for row in rows if row.get("object_type") in ("nvmf_req", "bdev_io")}
            self.assertEqual(objects, {last["object"], last["related"]})

    def test_top_counts_only_requests_of_its_interval(self):
        engine = self.slow_engine()
        engine.perf("--nsid", "1", "--rw", "randread", "--bs", "4k", "--depth", "1", "--count", "100")
        # without load the count is 0: requests that ended earlier are not counted
        idle = [row for row in self.json_rows(engine, "top", "-n", "1") if row.get("object_type") == "bdev_io" and "ended" in row]
        self.assertEqual([row["ended"] for row in idle], [0])
        engine.rpc("bdev_error_inject_error", name="EE_Disk1", io_type="read", error_type="pending", num=1)
        words = [FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", NQN, "--rw", "randread", "--bs", "4k", "--depth", "1"]
        processes = [subprocess.Popen([*words, *more], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                     for more in (["--nsid", "1", "--time", "60"], ["--nsid", "2", "--count", "1"])]
        try:
            wait_for(lambda: any(row.get("object_type") == "bdev_io" for row in engine.operations_under_way("--older-than", "500ms")))
            rows = self.json_rows(engine, "top", "-n", "2", "--older-than", "500ms")
        finally:
            for process in processes:
                process.kill()
                process.wait()
        samples = [row for row in rows if row.get("object_type") == "nvmf_req" and "ended" in row]
        self.assertEqual(len(samples), 2)
        for row in samples:
            self.assertGreater(row["ended"], 10)
            self.assertAlmostEqual(row["per_second"], row["ended"] / row["seconds"], delta=0.1)
        self.assertEqual([row["count"] for row in rows if row.get("stage", "") is None and row["object_type"] == "nvmf_req"],
                         [row["ended"] for row in samples])
        self.assertEqual({row["args"]["nsid"] for row in rows if "age_us" in row and row["object_type"] == "nvmf_req"}, {2})
        self.assertIn("reactor_0", [row.get("name") for row in rows])


if __name__ == "__main__":
    unittest.main()
