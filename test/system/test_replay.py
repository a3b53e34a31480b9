#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`fathom replay`: a recording of an engine under a known load is shared, shown, and replayed against other engines."""

import json
import os
import re
import signal
import struct
import subprocess
import unittest

import test_hostile as hostile
from harness import FATHOM, NQN, EngineTest, run, wait_for

RING_OF_ALL = ("--num-trace-entries", str(1 << 17))     # it holds all records of a test
COUNT = 400
BLOCK = 512
DELAY_US = 1000000      # of a slow device, at least: on a busy machine it takes longer
WRITE = 0x01


class Replaying(EngineTest):
    def recorded(self, *load, create=("bdev_malloc_create", "-b", "Source", 16, BLOCK), kept=()):
        """The engine of the recording, and the path of its trace after `load`."""
        engine = self.engine(*RING_OF_ALL)
        engine.serve(*create)
        for command in kept:
            engine.run_commands(command + "\n")
        engine.perf(*(load or ("--rw", "mix", "--bs", "4k", "--depth", "4", "--queues", "2", "--count", COUNT)), "--quiet")
        path = os.path.join(self.directory, "recording")
        engine.rpc("trace_freeze", path=path)
        return engine, path

    def extracted(self, path, *options):
        incident = os.path.join(self.directory, "incident")
        done = run(FATHOM, "replay", "extract", path, "-o", incident, "--json", *options)
        return incident, json.loads(done.stdout)

    def target(self, *create):
        engine = self.engine()
        engine.serve(*(create or ("bdev_malloc_create", "-b", "Target", 16, BLOCK)))
        return engine

    @staticmethod
    def replay(engine, path, *options, status=0):
        """Replay against the engine: (result, standard error)."""
        done = run(FATHOM, "replay", path, "--against", f"127.0.0.1:{engine.port}", "--nqn", NQN, "--json", *options, check=False)
        if done.returncode != status:
            raise AssertionError(f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}")
        return json.loads(done.stdout) if done.stdout else None, done.stderr

    @staticmethod
    def show(path, *options):
        return json.loads(run(FATHOM, "replay", "show", path, "--json", *options).stdout)

    @staticmethod
    def counts(engine, device):
        stats = engine.rpc("bdev_get_iostat", names=[device])["bdevs"][0]
        return stats["num_read_ops"], stats["num_write_ops"]

    # ---- extract and show ----

    def test_an_incident_has_each_operation_and_no_name(self):
        engine, path = self.recorded()
        incident, said = self.extracted(path)
        reads, writes = self.counts(engine, "Source")
        self.assertEqual(reads + writes, COUNT)
        self.assertEqual((said["operations"], said["left_out"], said["records_missing"]), (COUNT, 0, 0))
        self.assertLess(said["bytes"], COUNT * 16 + 1000)
        shown = self.show(incident)
        self.assertEqual((shown["kinds"]["read"]["operations"], shown["kinds"]["write"]["operations"]), (reads, writes))
        self.assertEqual(shown["kinds"]["read"]["size_max"], 4096)
        self.assertEqual([(queue["host"], queue["qid"]) for queue in shown["queues"]], [(1, 1), (1, 2)])
        self.assertTrue(all(1 <= queue["depth"] <= 4 for queue in shown["queues"]), shown["queues"])
        self.assertEqual([(device["nsid"], device["block_bytes"]) for device in shown["devices"]], [(1, BLOCK)])
        with open(incident, "rb") as file:
            content = file.read()
        for name in ("Source", "127.0.0.1", NQN, "uuid", engine.name):
            self.assertNotIn(name.encode(), content)
        incident, said = self.extracted(path, "--names", "--force")
        self.assertEqual(self.show(incident)["devices"][0]["name"], "Source")
        self.assertEqual(self.show(incident)["kinds"], shown["kinds"])
        self.assertEqual(self.show(path)["kinds"], shown["kinds"], "a trace shows the same as its incident")

    def test_an_existing_file_is_overwritten_only_with_force(self):
        _, path = self.recorded("--count", "10")
        incident, _ = self.extracted(path)
        done = run(FATHOM, "replay", "extract", path, "-o", incident, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--force overwrites it", done.stderr)
        self.extracted(path, "--force")
        self.assertEqual(sorted(name for name in os.listdir(self.directory) if name.startswith("incident")), ["incident"])

    def test_files_that_are_damaged_or_of_another_kind_are_refused(self):
        _, path = self.recorded("--count", "10")
        incident, _ = self.extracted(path)
        with open(incident, "rb") as file:
            content = file.read()
        damaged = os.path.join(self.directory, "damaged")
        for at, words in ((20, "header is damaged"), (70, "header of a block is damaged"), (100, "is damaged"),
                          (len(content) - 5, "description is damaged")):
            with open(damaged, "wb") as file:
                file.write(content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1:])
            done = run(FATHOM, "replay", "show", damaged, check=False)
            self.assertEqual((done.returncode, words in done.stderr), (2, True), done.stderr)
        with open(damaged, "wb") as file:
            file.write(content[:-1])
        self.assertIn("cut", run(FATHOM, "replay", "show", damaged, check=False).stderr)
        done = run(FATHOM, "replay", "show", FATHOM, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr.count(FATHOM), 1, done.stderr)
        self.assertIn("neither a Fathom trace file", done.stderr)

    def test_operations_are_selected_by_host_device_and_time(self):
        _, path = self.recorded("--count", "50", "--hostnqn", "nqn.2026-11.org.fathom:left")
        incident, _ = self.extracted(path, "--names")
        self.assertEqual(self.show(incident, "--owner", "LEFT")["operations"], 50)
        self.assertEqual(self.show(incident, "--owner", "1", "--device", "Source")["operations"], 50)
        done = run(FATHOM, "replay", "show", incident, "--owner", "right", check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn('no operation of host "right"', done.stderr)
        self.assertIn(self.show(incident, "--to", "0")["operations"], range(1, 51), "the first one begins at 0")
        self.assertEqual(self.show(incident, "--from", "1h")["operations"], 0)
        self.assertEqual(self.show(path, "--owner", "left")["operations"], 50)

    # ---- replay ----

    def test_reads_and_writes_go_to_the_target_with_a_pattern_that_names_them(self):
        _, path = self.recorded()
        incident, _ = self.extracted(path)
        shown = self.show(incident)
        disk = self.file("disk", 16)
        target = self.target("bdev_aio_create", disk, "Target", BLOCK)
        result, _ = self.replay(target, incident, "--write")
        expected = (shown["kinds"]["read"]["operations"], shown["kinds"]["write"]["operations"])
        self.assertEqual(self.counts(target, "Target"), expected)
        self.assertEqual((result["operations"], result["failed"], result["not_sent"], result["queue_pairs"]), (COUNT, 0, 0, 2))
        self.assertEqual({kind: pair["operations"] for kind, pair in result["kinds"].items()}, dict(zip(("read", "write"), expected)))
        self.assertEqual(sum(pair["operations"] for pair in result["queues"].values()), COUNT)
        self.assertEqual(len(result["sentences"]), 2)
        self.assertLessEqual(len(result["worst"]), 10)
        target.stop()
        written = set()
        with open(disk, "rb") as file:
            for block in range((16 << 20) // BLOCK):
                content = file.read(BLOCK)
                if not content.strip(b"\0"):
                    continue
                match = re.fullmatch(rb"(fathom replay  operation (\d{13})  block (\d{17})\n){8}", content)
                self.assertTrue(match, content[:80])
                self.assertEqual(int(match.group(3)), block)
                written.add(int(match.group(2)))
        self.assertTrue(0 < len(written) <= expected[1])
        self.assertLess(max(written), COUNT)

    def test_writes_are_left_out_unless_they_are_wanted(self):
        _, path = self.recorded()
        shown = self.show(path)["kinds"]
        target = self.target()
        result, complaint = self.replay(target, path)
        self.assertEqual(self.counts(target, "Target"), (shown["read"]["operations"], 0))
        self.assertEqual(result["left_out"]["destructive"], shown["write"]["operations"])
        self.assertIn("they would destroy data; --write replays them", complaint)

    def test_a_slow_device_is_called_slower(self):
        _, path = self.recorded("--rw", "randread", "--bs", "4k", "--depth", "4", "--count", "8")
        target = self.target()
        target.run_commands(f"bdev_malloc_create -b Slow 16 512\nbdev_error_create Slow\nnvmf_subsystem_add_ns {NQN} EE_Slow -n 2\n")
        target.rpc("bdev_error_inject_error", name="EE_Slow", io_type="read", error_type="delay", delay_us=DELAY_US, num=8)
        result, _ = self.replay(target, path, "--nsid", "2", "--depth", "8", "--timeout", "0", "--threshold", "10", status=3)
        self.assertGreaterEqual(result["kinds"]["read"]["replayed"]["p50_us"], DELAY_US * 0.95)
        self.assertGreater(result["kinds"]["read"]["ratio"]["p50"], 1)
        self.assertTrue(result["slower"])
        self.assertRegex(result["sentences"][0], r"^reads took [0-9.]+ times as long as in the recording: p99 [0-9]+ us, was [0-9]+ us$")
        self.assertGreaterEqual(result["worst"][0]["replayed_us"], DELAY_US * 0.95)
        text = run(FATHOM, "replay", path, "--against", f"127.0.0.1:{target.port}", "--nqn", NQN, "--map", "1=2", "--speed", "max").stdout
        self.assertTrue(text.startswith("reads took "), text)
        self.assertIn("queue had room", text)

    def test_few_late_operations_are_not_called_a_target_that_does_not_keep_up(self):
        count = 300
        _, path = self.recorded("--rw", "randread", "--bs", "4k", "--depth", "1", "--count", str(count), "--rate", "100")
        target = self.target()
        target.run_commands(f"bdev_malloc_create -b Slow 16 512\nbdev_error_create Slow\nnvmf_subsystem_add_ns {NQN} EE_Slow -n 2\n")
        for delayed in (1, 20):     # of 15 ms: the next read, 10 ms later, finds the only place taken
            target.rpc("bdev_error_inject_error", name="EE_Slow", io_type="read", error_type="delay", delay_us=15000, num=delayed)
            text = run(FATHOM, "replay", path, "--against", f"127.0.0.1:{target.port}", "--nqn", NQN, "--map", "1=2", "--depth", "1").stdout
            late = re.search(r"(?m)^(the target did not keep up: )?(\d+) operations? w(as|ere) sent late, because (its|their) queue was full$", text)
            self.assertTrue(late, text)
            self.assertEqual(late[1] is not None, int(late[2]) * 100 >= count, text)
            self.assertEqual(late[3], "as" if late[2] == "1" else "ere")

    # ---- where the difference is ----

    def slow_engine(self):
        """An engine whose namespace 2 delays 8 reads by DELAY_US. A device with delayed I/O keeps its reactor awake, which is recorded, too."""
        engine = self.engine("--num-trace-entries", str(1 << 20))
        engine.serve("bdev_malloc_create", "-b", "Source", 16, BLOCK)
        engine.run_commands(f"bdev_malloc_create -b Slow 16 {BLOCK}\nbdev_error_create Slow\nnvmf_subsystem_add_ns {NQN} EE_Slow -n 2\n")
        engine.rpc("bdev_error_inject_error", name="EE_Slow", io_type="read", error_type="delay", delay_us=DELAY_US, num=8)
        return engine

    def test_the_slow_device_of_an_incident_is_found_when_its_engine_is_gone(self):
        engine = self.slow_engine()
        engine.perf("--nsid", "2", "--rw", "randread", "--bs", "4k", "--depth", "4", "--count", "8", "--time", "300", "--timeout", "0", "--quiet")
        path = os.path.join(self.directory, "recording")
        engine.rpc("trace_freeze", path=path)
        incident, _ = self.extracted(path)
        engine.kill()
        os.unlink(path)
        target = self.target()
        result, _ = self.replay(target, incident, "--nsid", "1")
        reads = result["kinds"]["read"]
        self.assertEqual((result["operations"], reads["difference"]["where"]), (8, "device"), result)
        self.assertGreater(reads["difference"]["at_least"], 0.5)
        self.assertGreaterEqual(reads["difference"]["device_us"], DELAY_US * 0.95)
        self.assertLess(reads["ratio"]["p50"], 1)
        # the second four reads were sent when the first ones ended, a second later: so at their time, or ten times as fast
        self.assertGreaterEqual(result["seconds"], DELAY_US * 0.95e-6)
        text = run(FATHOM, "replay", incident, "--against", f"127.0.0.1:{target.port}", "--nqn", NQN, "--nsid", "1", "--speed", "10").stdout
        self.assertRegex(text, r"(?m)^at least \d+ % of the difference is the device of the recording: reads took \d+ us on average, \d+ us of "
                               r"them at the device; the replay took \d+ us$")
        self.assertRegex(text, r"(?m)^read +8 recorded .*\n +replayed .*\n +ratio ")

    def test_the_pause_of_a_host_is_not_taken_for_the_device(self):
        engine = self.engine(*RING_OF_ALL)
        engine.serve("bdev_malloc_create", "-b", "Source", 16, BLOCK)
        admin, io = hostile.Host(engine), hostile.Host(engine)
        self.addCleanup(admin.s.close)
        self.addCleanup(io.s.close)
        cntlid, status = admin.connect()
        self.assertEqual((status, admin.enable()[1], io.connect(1, cntlid & 0xffff)[1]), (0, 0, 0))
        for cid in range(4):
            io.s.sendall(hostile.capsule(struct.pack("<BBHI16x", WRITE, 0x40, cid, 1) + hostile.sgl_transport(65536) +
                                         struct.pack("<QI12x", 128 * cid, 127)))
        r2ts = [io.pdu() for _ in range(4)]
        wait_for(lambda: [row for row in engine.operations_under_way("--older-than", "1s") if row.get("stage") == "TRANSFER_IN"])
        for pdu in r2ts:
            io.s.sendall(hostile.h2c_data(pdu, bytes(65536)))
        for _ in range(4):
            self.assertEqual(io.response()[1], 0)
        result, _ = self.replay(self.target(), engine.trace_path, "--write")
        self.assertEqual((result["operations"], result["kinds"]["write"]["difference"]["where"]), (4, "elsewhere"), result)

    # ---- a recording in several files ----

    def test_the_files_of_a_rotated_recording_are_replayed_together(self):
        engine, _ = self.recorded("--rw", "randread", "--bs", "4k", "--depth", "16", "--queues", "2", "--count", "10000")
        output = os.path.join(self.directory, "rotated")
        engine.trace("record", "-o", output, "--rotate", "1M", "--time", "100ms", "-f", engine.trace_path)
        files = sorted(os.path.join(self.directory, name) for name in os.listdir(self.directory) if name.startswith("rotated"))
        self.assertGreater(len(files), 1)
        whole = self.show(engine.trace_path)
        counts = [self.show(path)["operations"] for path in files]
        self.assertLess(sum(counts), 10001)
        for order in (files, files[::-1]):
            shown = json.loads(run(FATHOM, "replay", "show", *order, "--json").stdout)
            self.assertEqual(shown["kinds"], whole["kinds"])
            self.assertEqual((shown["kinds"]["read"]["operations"], shown["kinds"]["read"]["unfinished"]), (10000, 0))
            self.assertEqual((shown["queues"], shown["devices"], shown["records_missing"], shown["left_out"]),
                             (whole["queues"], whole["devices"], 0, 0))
        incident = os.path.join(self.directory, "incident")
        run(FATHOM, "replay", "extract", *files, "-o", incident)
        self.assertEqual(self.show(incident)["kinds"], whole["kinds"])
        target = self.target()
        done = run(FATHOM, "replay", *files, "--against", f"127.0.0.1:{target.port}", "--nqn", NQN, "--speed", "max", "--json")
        self.assertEqual(json.loads(done.stdout)["operations"], 10000)
        for words, complaint in (((files[0], target.trace_path), "are not files of one recording"), ((incident, files[0]), "is replayed alone")):
            done = run(FATHOM, "replay", "show", *words, check=False)
            self.assertEqual((done.returncode, complaint in done.stderr), (2, True), done.stderr)

    def test_other_speeds_and_gaps_replay_the_same_operations(self):
        _, path = self.recorded("--rw", "randread", "--depth", "2", "--count", "100")
        target = self.target()
        for options in (("--speed", "10"), ("--speed", "max"), ("--keep-gaps",), ("--speed", "max", "--keep-gaps", "--depth", "1")):
            with self.subTest(" ".join(options)):
                result, _ = self.replay(target, path, *options)
                self.assertEqual((result["operations"], result["kinds"]["read"]["operations"]), (100, 100))
        self.assertEqual(self.counts(target, "Target"), (400, 0))

    def test_namespaces_are_those_of_the_recording_or_as_mapped(self):
        engine, _ = self.recorded("--rw", "randread", "--count", "10",
                                  kept=("bdev_malloc_create -b Second 16 4096", f"nvmf_subsystem_add_ns {NQN} Second -n 3"))
        engine.perf("--nsid", "3", "--rw", "randread", "--count", "20", "--quiet")
        devices = self.show(engine.trace_path)["devices"]
        self.assertEqual([(device["name"], device["nsid"], device["block_bytes"], device["operations"]) for device in devices],
                         [("Source", 1, BLOCK, 10), ("Second", 3, 4096, 20)])
        target = self.target()
        _, complaint = self.replay(target, engine.trace_path, status=2)
        self.assertIn("device 2", complaint)
        result, _ = self.replay(target, engine.trace_path, "--map", "Second=1")
        self.assertEqual(result["operations"], 30)
        result, _ = self.replay(target, engine.trace_path, "--device", "2", "--nsid", "1")
        self.assertEqual(result["operations"], 20)
        self.assertEqual(self.counts(target, "Target"), (50, 0))

    def test_namespaces_of_different_subsystems_are_not_mixed(self):
        engine, _ = self.recorded("--rw", "randread", "--count", "10")
        other = NQN + "0"
        engine.run_commands(f"""bdev_malloc_create -b Second 16 {BLOCK}
nvmf_create_subsystem {other} -a -s SPDK00000000000002 -m 10
nvmf_subsystem_add_listener {other} -t tcp -a 127.0.0.1 -s {engine.port}
nvmf_subsystem_add_ns {other} Second
""")
        run(FATHOM, "perf", "-a", "127.0.0.1", "-s", engine.port, "-n", other, "--rw", "randread", "--count", "20", "--quiet")
        target = self.target()
        _, complaint = self.replay(target, engine.trace_path, status=2)
        self.assertIn("devices 1 and 2 were both namespace 1, of different subsystems", complaint)
        result, _ = self.replay(target, engine.trace_path, "--nsid", "1")
        self.assertEqual(result["operations"], 30)
        result, _ = self.replay(target, engine.trace_path, "--map", "2=1")
        self.assertEqual(result["operations"], 30)
        result, _ = self.replay(target, engine.trace_path, "--device", "Second")
        self.assertEqual(result["operations"], 20)

    def test_a_target_that_is_too_small_is_refused_or_wrapped(self):
        _, path = self.recorded("--rw", "read", "--bs", "128k", "--depth", "2", "--count", "128")
        target = self.target("bdev_malloc_create", "-b", "Target", 4, 4096)
        _, complaint = self.replay(target, path, status=2)
        self.assertIn("the recording uses 16777216 bytes of device 1, and namespace 1 has 4194304", complaint)
        result, _ = self.replay(target, path, "--wrap")
        self.assertEqual((result["operations"], result["failed"], result["wrapped"]), (128, 0, 96))
        self.assertEqual(self.counts(target, "Target"), (128, 0))

    def test_queues_share_the_few_queue_pairs_that_a_target_grants(self):
        _, path = self.recorded("--rw", "randread", "--depth", "4", "--queues", "8", "--count", "200")
        target = self.engine()
        target.run_commands(f"""bdev_malloc_create -b Target 16 {BLOCK}
nvmf_create_transport -t tcp -m 1 -q 4
nvmf_create_subsystem {NQN} -a -s SPDK00000000000001 -m 10
nvmf_subsystem_add_listener {NQN} -t tcp -a 127.0.0.1 -s {target.port}
nvmf_subsystem_add_ns {NQN} Target
""")
        for depth in ("1", "64"):
            result, _ = self.replay(target, path, "--depth", depth, "--speed", "max")
            self.assertEqual((result["operations"], result["queue_pairs"], result["not_sent"]), (200, 1, 0))

    def test_a_signal_ends_a_replay_with_a_report(self):
        _, path = self.recorded("--rw", "randread", "--depth", "1", "--count", "50", "--rate", "100")
        target = self.target()
        process = subprocess.Popen([FATHOM, "replay", path, "--against", f"127.0.0.1:{target.port}", "--nqn", NQN, "--json",
                                    "--speed", "0.01"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        wait_for(lambda: self.counts(target, "Target")[0] > 1)    # so the first one was answered long ago
        process.send_signal(signal.SIGINT)
        said, complaint = process.communicate(timeout=60)
        result = json.loads(said)
        self.assertEqual((process.returncode, result["interrupted"]), (1, True), complaint)
        self.assertGreater(result["operations"], 0)
        self.assertEqual(result["operations"] + result["not_sent"] + result["not_answered"], 50)
        self.assertIn("ended by a signal", complaint)

    def test_the_end_of_the_target_is_reported_with_what_was_done(self):
        _, path = self.recorded("--rw", "randread", "--depth", "1", "--count", "50", "--rate", "100")
        target = self.target()
        process = subprocess.Popen([FATHOM, "replay", path, "--against", f"127.0.0.1:{target.port}", "--nqn", NQN, "--json",
                                    "--speed", "0.01"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        wait_for(lambda: self.counts(target, "Target")[0] > 0)
        target.kill()
        said, complaint = process.communicate(timeout=60)
        result = json.loads(said)
        self.assertEqual(process.returncode, 1, complaint)
        self.assertEqual(result["operations"] + result["not_sent"] + result["not_answered"], 50)
        self.assertIn("error", result)

    def test_command_lines_that_are_not_valid_are_refused(self):
        for words, complaint in (((), "FILE is missing"), (("x",), "--against ADDRESS and --nqn NQN are missing"),
                                 (("x", "--against", "[::1", "--nqn", NQN), "is not an address"),
                                 (("x", "--against", "h", "--nqn", NQN, "--speed", "0"), "from 0.001 to 1000, or max"),
                                 (("x", "--against", "h", "--nqn", NQN, "--map", "1=2", "--nsid", "1"), "exclude each other"),
                                 (("x", "--against", "h", "--nqn", NQN, "--map", "2"), "is not DEVICE=NAMESPACE"),
                                 (("extract", "x"), "-o INCIDENT is missing"), (("show",), "FILE is missing"),
                                 (("/nonexistent", "--against", "h", "--nqn", NQN), "No such file")):
            done = run(FATHOM, "replay", *words, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
            self.assertIn(complaint, done.stderr)


if __name__ == "__main__":
    unittest.main()
