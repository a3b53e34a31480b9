#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Everything a live engine traces, recorded into files of any length: whole, compressed, cut off, and out of a core file."""

import json
import os
import shutil
import signal
import subprocess
import time
import unittest

from harness import FATHOM, NQN, EngineTest, run, wait_for

COMMANDS = 20000
RING_OF_ALL = ("--num-trace-entries", str(1 << 18))     # so that nothing is lost even if the recorder gets no processor
EVENTS_OF_A_READ = 7


class Recording(EngineTest):
    def serving(self, *options):
        engine = self.engine(*options)
        engine.serve("bdev_null_create", "Null0", 64, 512)
        return engine

    def record(self, engine, *options):
        """A recorder that has begun, and the file it writes."""
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

    def end(self, process, status=0):
        process.send_signal(signal.SIGINT)
        said, complaint = process.communicate(timeout=60)
        self.assertEqual(process.returncode, status, complaint)
        return json.loads(said)

    @staticmethod
    def read(count, engine):
        return engine.perf_json("--rw", "randread", "--bs", "4k", "--depth", "4", "--count", count)

    def events(self, path, *words):
        lines = run(FATHOM, "trace", "--json", "-f", path, *words).stdout.splitlines()
        return [row for row in map(json.loads, lines) if "name" in row and "tick" in row]

    def reads_done(self, path):
        return sum(row["args"]["status"] == "SUCCESS" for row in self.events(path, "-n", "bdev_io_done"))

    def test_every_event_of_a_load_is_in_the_file(self):
        engine = self.serving(*RING_OF_ALL)
        process, output = self.record(engine)
        self.read(COMMANDS, engine)
        said = self.end(process)
        self.assertEqual((said["lost"], said["files"], said["engine_ended"]), (0, 1, False))
        self.assertEqual(self.reads_done(output), COMMANDS)
        self.assertGreaterEqual(said["records"], COMMANDS * EVENTS_OF_A_READ)
        # the same, in the same order, as the engine's own file, whose ring has room for all of this
        own = [(row["seq"], row["tick"], row["name"]) for row in self.events(engine.trace_path, "-g", "bdev,nvmf_tcp")]
        recorded = [(row["seq"], row["tick"], row["name"]) for row in self.events(output, "-g", "bdev,nvmf_tcp")]
        self.assertEqual(recorded, own[:len(recorded)])
        self.assertGreater(len(recorded), COMMANDS * EVENTS_OF_A_READ // 2)

    def test_two_recordings_of_one_engine_are_compared_by_what_each_has(self):
        """Half a million quick commands before either of them hide nothing."""
        engine = self.engine(*RING_OF_ALL)
        engine.lines("bdev_malloc_create -b Disk1 64 512\nbdev_error_create Disk1\n")
        engine.serve("bdev_malloc_create", "-b", "Disk0", 64, 512)
        engine.lines(f"nvmf_subsystem_add_ns {NQN} EE_Disk1 -n 2\n")
        load = ("--nsid", "2", "--rw", "randread", "--bs", "4k", "--depth", "1", "--count", "100")
        outputs = []
        engine.perf(*load[:-1], "20000")
        for delay in (0, 20000):
            if delay:
                engine.rpc("bdev_error_inject_error", name="EE_Disk1", io_type="read", error_type="delay", delay_us=delay, num=100)
            process, output = self.record(engine)
            engine.perf(*load)
            self.end(process)
            outputs.append(output)
        done = run(FATHOM, "trace", "compare", "--json", *outputs, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        rows = {(row["object_type"], row["stage"]): row for row in map(json.loads, done.stdout.splitlines()) if "stage" in row}
        self.assertGreater(rows["bdev_io", "DISPATCHED"]["p50_us"]["after"], 15000)
        self.assertLess(rows["bdev_io", "DISPATCHED"]["p50_us"]["before"], 15000)
        self.assertTrue(rows["bdev_io", "DISPATCHED"]["p50_us"]["slower"])

    def test_two_copies_of_one_engine_are_compared_by_what_ended_in_between(self):
        engine = self.engine()
        engine.lines("bdev_malloc_create -b Disk1 64 512\nbdev_error_create Disk1\n")
        engine.serve("bdev_malloc_create", "-b", "Disk0", 64, 512)
        engine.lines(f"nvmf_subsystem_add_ns {NQN} EE_Disk1 -n 2\n")
        copies = [os.path.join(self.directory, name) for name in ("before", "after")]
        engine.perf("--nsid", "2", "--rw", "randread", "--bs", "4k", "--depth", "1", "--count", "5000")
        engine.rpc("trace_freeze", path=copies[0])
        engine.rpc("bdev_error_inject_error", name="EE_Disk1", io_type="read", error_type="delay", delay_us=20000, num=50)
        engine.perf("--nsid", "2", "--rw", "randread", "--bs", "4k", "--depth", "1", "--count", "50")
        engine.rpc("trace_freeze", path=copies[1])
        done = run(FATHOM, "trace", "compare", "--json", *copies, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        rows = {(row["object_type"], row["stage"]): row for row in map(json.loads, done.stdout.splitlines()) if "stage" in row}
        self.assertGreater(rows["bdev_io", "DISPATCHED"]["p50_us"]["after"], 15000)

    def test_a_file_that_is_there_is_not_overwritten(self):
        engine = self.serving()
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

    def test_a_ring_that_goes_round_faster_is_told_as_lost(self):
        engine = self.serving("--num-trace-entries", "1024")
        process, output = self.record(engine)
        process.send_signal(signal.SIGSTOP)     # which gets no processor for a while
        self.read(COMMANDS, engine)
        process.send_signal(signal.SIGCONT)
        time.sleep(0.2)
        said = self.end(process, status=1)
        self.assertGreater(said["lost"], COMMANDS)
        header = json.loads(run(FATHOM, "trace", "--json", "-f", output).stdout.splitlines()[0])["trace"]
        self.assertEqual(header["missing"], said["lost"])
        events = self.events(output)
        ticks = [row["tick"] for row in events if row["thread"] == events[0]["thread"] and not row.get("shared")]
        self.assertEqual(ticks, sorted(ticks))

    def test_files_are_rotated_compressed_and_kept_to_a_number(self):
        engine = self.serving(*RING_OF_ALL)
        process, output = self.record(engine, "-z", "--rotate", "1M", "--keep", "2")
        self.read(COMMANDS, engine)
        said = self.end(process)
        self.assertEqual(said["lost"], 0)
        self.assertGreaterEqual(said["files"], COMMANDS * EVENTS_OF_A_READ * 32 >> 20)
        there = sorted(name for name in os.listdir(self.directory) if name.startswith(os.path.basename(output)))
        last = said["files"] - 1
        self.assertEqual(there, sorted(os.path.basename(f"{output}.{n}.zst") for n in (last - 1, last)))
        self.assertGreater(len(self.events(f"{output}.{last - 1}.zst")), 10000)
        self.assertLess(os.path.getsize(f"{output}.{last - 1}.zst"), 1 << 19)

    @unittest.skipIf(os.geteuid() != 0, "a file system that is full wants root")
    def test_a_full_disk_is_told_and_what_was_written_stays(self):
        engine = self.serving(*RING_OF_ALL)
        small = os.path.join(self.directory, "small")
        os.mkdir(small)
        run("mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", small)
        self.addCleanup(run, "umount", small)
        output = os.path.join(small, "recorded")
        self.read(COMMANDS, engine)
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

    def test_it_ends_with_the_engine_and_has_its_last_words(self):
        engine = self.serving(*RING_OF_ALL)
        process, output = self.record(engine)
        self.read(100, engine)
        self.assertEqual(engine.stop(), 0)
        said = json.loads(process.communicate(timeout=60)[0])
        self.assertEqual((process.returncode, said["engine_ended"]), (0, True))
        self.assertEqual(self.events(output, "-n", "process_start,process_end")[-1]["args"], {"status": 0})

    def test_what_a_killed_recorder_leaves_can_be_read(self):
        engine = self.serving(*RING_OF_ALL)
        process, output = self.record(engine)
        self.read(COMMANDS, engine)
        wait_for(lambda: self.reads_done(output) == COMMANDS, pause=0.2)    # the recorder writes tables once a second
        process.kill()
        process.wait()
        self.assertEqual(self.reads_done(output), COMMANDS)

    def test_a_compressed_file_that_was_cut_off_gives_what_is_before(self):
        engine = self.serving(*RING_OF_ALL)
        process, output = self.record(engine, "-z")
        self.read(COMMANDS, engine)
        self.end(process)
        with open(output + ".zst", "rb") as file:
            whole = file.read()
        cut = os.path.join(self.directory, "cut.zst")
        with open(cut, "wb") as file:
            file.write(whole[:len(whole) // 2])
        done = run(FATHOM, "trace", "--json", "-f", cut)
        self.assertIn("truncated", done.stderr)
        self.assertIn(self.reads_done(cut), range(100, COMMANDS))

    @unittest.skipUnless(shutil.which("gcore"), "gcore (package gdb) not found")
    def test_a_core_file_holds_the_trace(self):
        engine = self.serving()
        self.read(1000, engine)
        core = os.path.join(self.directory, "core")
        done = run("gcore", "-o", core, engine.pid, check=False)
        path = f"{core}.{engine.pid}"
        if not os.path.exists(path):
            self.skipTest(f"gcore may not look at the engine: {done.stderr.strip().splitlines()[-1:]}")
        self.assertEqual(self.reads_done(path), 1000)
        os.unlink(path)

    def test_what_is_no_engine_is_refused(self):
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
