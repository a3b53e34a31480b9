#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`fathom trace record` of a running engine into plain, compressed and rotated files; the trace in a core file."""

import json
import os
import shutil
import signal
import subprocess
import time
import unittest

from harness import FATHOM, NQN, EngineTest, run, wait_for

COMMANDS = 20000
RING_OF_ALL = ("--num-trace-entries", str(1 << 18))     # no record is lost even if the recorder gets no processor
EVENTS_OF_A_READ = 7


class Recording(EngineTest):
    def serving_engine(self, *options):
        engine = self.engine(*options)
        engine.serve("bdev_null_create", "Null0", 64, 512)
        return engine

    def start_recorder(self, engine, *options):
        """Start a recorder and wait until it writes: (process, output file)."""
        output = os.path.join(self.directory, f"recorded{time.monotonic_ns()}")
        process = subprocess.Popen([FATHOM, "trace", "record", "-f", engine.trace_path, "-o", output, "--json", *options],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        first = output + (".raw" if "-z" in options else "")
        while process.poll() is None and not (os.path.exists(first) and os.path.getsize(first)):
            time.sleep(0.01)
        return process, output

    def stop_recorder(self, process, status=0):
        process.send_signal(signal.SIGINT)
        said, complaint = process.communicate(timeout=60)
        self.assertEqual(process.returncode, status, complaint)
        return json.loads(said)

    @staticmethod
    def read_blocks(count, engine):
        return engine.perf_json("--rw", "randread", "--bs", "4k", "--depth", "4", "--count", count)

    def events(self, path, *words):
        lines = run(FATHOM, "trace", "--json", "-f", path, *words).stdout.splitlines()
        return [row for row in map(json.loads, lines) if "name" in row and "tick" in row]

    def count_reads_done(self, path):
        return sum(row["args"]["status"] == "SUCCESS" for row in self.events(path, "-n", "bdev_io_done"))

    def test_the_recording_has_every_event_in_the_order_of_the_ring(self):
        engine = self.serving_engine(*RING_OF_ALL)
        process, output = self.start_recorder(engine)
        self.read_blocks(COMMANDS, engine)
        said = self.stop_recorder(process)
        self.assertEqual((said["lost"], said["files"], said["engine_ended"]), (0, 1, False))
        self.assertEqual(self.count_reads_done(output), COMMANDS)
        self.assertGreaterEqual(said["records"], COMMANDS * EVENTS_OF_A_READ)
        # the engine's ring has room for all events, so its trace file has the same ones in the same order
        own = [(row["seq"], row["tick"], row["name"]) for row in self.events(engine.trace_path, "-g", "bdev,nvmf_tcp")]
        recorded = [(row["seq"], row["tick"], row["name"]) for row in self.events(output, "-g", "bdev,nvmf_tcp")]
        self.assertEqual(recorded, own[:len(recorded)])
        self.assertGreater(len(recorded), COMMANDS * EVENTS_OF_A_READ // 2)

    def test_compare_reports_the_stage_that_is_slower_in_the_second_recording(self):
        """The 20000 quick commands before both recordings are in neither, so they hide nothing."""
        engine = self.engine(*RING_OF_ALL)
        engine.run_commands("bdev_malloc_create -b Disk1 64 512\nbdev_error_create Disk1\n")
        engine.serve("bdev_malloc_create", "-b", "Disk0", 64, 512)
        engine.run_commands(f"nvmf_subsystem_add_ns {NQN} EE_Disk1 -n 2\n")
        load = ("--nsid", "2", "--rw", "randread", "--bs", "4k", "--depth", "1", "--count", "100")
        outputs = []
        engine.perf(*load[:-1], "20000")
        for delay in (0, 20000):
            if delay:
                engine.rpc("bdev_error_inject_error", name="EE_Disk1", io_type="read", error_type="delay", delay_us=delay, num=100)
            process, output = self.start_recorder(engine)
            engine.perf(*load)
            self.stop_recorder(process)
            outputs.append(output)
        done = run(FATHOM, "trace", "compare", "--json", *outputs, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        rows = {(row["object_type"], row["stage"]): row for row in map(json.loads, done.stdout.splitlines()) if "stage" in row}
        slower = rows["nvmf_req", "EXECUTING"]["p50_us"]        # of the two bdev_io of each command only that of the filter is slow
        self.assertGreater(slower["after"], 15000)
        self.assertLess(slower["before"], 15000)
        self.assertTrue(slower["slower"])

    def test_compare_of_two_frozen_copies_uses_requests_that_ended_in_between(self):
        engine = self.engine()
        engine.run_commands("bdev_malloc_create -b Disk1 64 512\nbdev_error_create Disk1\n")
        engine.serve("bdev_malloc_create", "-b", "Disk0", 64, 512)
        engine.run_commands(f"nvmf_subsystem_add_ns {NQN} EE_Disk1 -n 2\n")
        copies = [os.path.join(self.directory, name) for name in ("before", "after")]
        engine.perf("--nsid", "2", "--rw", "randread", "--bs", "4k", "--depth", "1", "--count", "5000")
        engine.rpc("trace_freeze", path=copies[0])
        engine.rpc("bdev_error_inject_error", name="EE_Disk1", io_type="read", error_type="delay", delay_us=20000, num=50)
        engine.perf("--nsid", "2", "--rw", "randread", "--bs", "4k", "--depth", "1", "--count", "50")
        engine.rpc("trace_freeze", path=copies[1])
        done = run(FATHOM, "trace", "compare", "--json", *copies, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        rows = {(row["object_type"], row["stage"]): row for row in map(json.loads, done.stdout.splitlines()) if "stage" in row}
        self.assertGreater(rows["nvmf_req", "EXECUTING"]["p50_us"]["after"], 15000)

    def test_an_existing_file_is_overwritten_only_with_force(self):
        engine = self.serving_engine()
        output = os.path.join(self.directory, "mine")
        with open(output, "w") as file:
            file.write("mine")
        words = ("trace", "record", "-f", engine.trace_path, "-o", output, "--time", "100ms")
        done = run(FATHOM, *words, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--force overwrites it", done.stderr)
        with open(output) as file:
            self.assertEqual(file.read(), "mine")
        run(FATHOM, *words, "--force")
        self.assertNotEqual(self.events(output), [])

    def test_records_overwritten_before_they_are_read_are_counted_as_lost(self):
        engine = self.serving_engine("--num-trace-entries", "1024")
        process, output = self.start_recorder(engine)
        process.send_signal(signal.SIGSTOP)     # as if the recorder got no processor for a while
        self.read_blocks(COMMANDS, engine)
        process.send_signal(signal.SIGCONT)
        time.sleep(0.2)
        said = self.stop_recorder(process, status=1)
        self.assertGreater(said["lost"], COMMANDS)
        header = json.loads(run(FATHOM, "trace", "--json", "-f", output).stdout.splitlines()[0])["trace"]
        self.assertEqual(header["missing"], said["lost"])
        events = self.events(output)
        ticks = [row["tick"] for row in events if row["thread"] == events[0]["thread"] and not row.get("shared")]
        self.assertEqual(ticks, sorted(ticks))

    def test_files_are_rotated_and_compressed_and_only_the_last_two_are_kept(self):
        engine = self.serving_engine(*RING_OF_ALL)
        process, output = self.start_recorder(engine, "-z", "--rotate", "1M", "--keep", "2")
        self.read_blocks(COMMANDS, engine)
        said = self.stop_recorder(process)
        self.assertEqual(said["lost"], 0)
        self.assertGreaterEqual(said["files"], COMMANDS * EVENTS_OF_A_READ * 32 >> 20)
        there = sorted(name for name in os.listdir(self.directory) if name.startswith(os.path.basename(output)))
        last = said["files"] - 1
        self.assertEqual(there, sorted(os.path.basename(f"{output}.{n}.zst") for n in (last - 1, last)))
        self.assertGreater(len(self.events(f"{output}.{last - 1}.zst")), 10000)
        self.assertLess(os.path.getsize(f"{output}.{last - 1}.zst"), 1 << 19)

    @unittest.skipIf(os.geteuid() != 0, "root is needed to mount a small file system")
    def test_a_full_disk_is_reported_and_written_files_stay(self):
        engine = self.serving_engine(*RING_OF_ALL)
        small = os.path.join(self.directory, "small")
        os.mkdir(small)
        run("mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", small)
        self.addCleanup(run, "umount", small)
        output = os.path.join(small, "recorded")
        self.read_blocks(COMMANDS, engine)
        for options in (("--rotate", "1M"), ("--rotate", "1M", "-z"), ()):
            for name in os.listdir(small):
                os.unlink(os.path.join(small, name))
            with open(os.path.join(small, "filler"), "wb") as file:
                file.write(b"x" * (18 << 20))
            done = run(FATHOM, "trace", "record", "-f", engine.trace_path, "-o", output, "--time", "2s", *options, check=False)
            self.assertEqual(done.returncode, 2, done)
            self.assertRegex(done.stderr, "^fathom trace: cannot (write|make) .*No space left")
            first = [name for name in os.listdir(small) if name.startswith("recorded")]
            self.assertTrue(first)

    def test_the_recorder_ends_with_the_engine_and_has_its_process_end_event(self):
        engine = self.serving_engine(*RING_OF_ALL)
        process, output = self.start_recorder(engine)
        self.read_blocks(100, engine)
        self.assertEqual(engine.stop(), 0)
        said = json.loads(process.communicate(timeout=60)[0])
        self.assertEqual((process.returncode, said["engine_ended"]), (0, True))
        self.assertEqual(self.events(output, "-n", "process_start,process_end")[-1]["args"], {"status": 0})

    def test_the_file_of_a_killed_recorder_can_be_read(self):
        engine = self.serving_engine(*RING_OF_ALL)
        process, output = self.start_recorder(engine)
        self.read_blocks(COMMANDS, engine)
        wait_for(lambda: self.count_reads_done(output) == COMMANDS, pause=0.2)    # the recorder writes tables once a second
        process.kill()
        process.wait()
        self.assertEqual(self.count_reads_done(output), COMMANDS)

    def test_a_truncated_compressed_file_gives_the_events_before_the_cut(self):
        engine = self.serving_engine(*RING_OF_ALL)
        process, output = self.start_recorder(engine, "-z")
        self.read_blocks(COMMANDS, engine)
        self.stop_recorder(process)
        with open(output + ".zst", "rb") as file:
            whole = file.read()
        cut = os.path.join(self.directory, "cut.zst")
        with open(cut, "wb") as file:
            file.write(whole[:len(whole) // 2])
        done = run(FATHOM, "trace", "--json", "-f", cut)
        self.assertIn("truncated", done.stderr)
        self.assertIn(self.count_reads_done(cut), range(100, COMMANDS))

    @unittest.skipUnless(shutil.which("gcore"), "gcore (package gdb) not found")
    def test_a_core_file_holds_the_trace(self):
        engine = self.serving_engine()
        self.read_blocks(1000, engine)
        core = os.path.join(self.directory, "core")
        done = run("gcore", "-o", core, engine.pid, check=False)
        path = f"{core}.{engine.pid}"
        if not os.path.exists(path):
            self.skipTest(f"gcore may not attach to the engine: {done.stderr.strip().splitlines()[-1:]}")
        self.assertEqual(self.count_reads_done(path), 1000)
        os.unlink(path)

    def test_a_source_without_a_trace_is_refused(self):
        nothing = os.path.join(self.directory, "nothing")
        with open(nothing, "wb") as file:
            file.write(b"FATHOMTR" + bytes(4096))
        for source in (nothing, "/nonexistent", "/bin/true"):
            done = run(FATHOM, "trace", "record", "-f", source, "-o", os.path.join(self.directory, "x"), check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertTrue(done.stderr.startswith("fathom trace: "), done.stderr)
            self.assertFalse(os.path.exists(os.path.join(self.directory, "x")))


if __name__ == "__main__":
    unittest.main()
