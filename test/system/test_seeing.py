# SPDX-License-Identifier: BSD-2-Clause
"""The trace of an engine: read while it runs, after SIGKILL and from a copy; with trace points switched while it runs."""

import json
import os
import re
import shutil
import struct
import subprocess
import time
import unittest

from harness import ENGINE, FATHOM, NQN, EngineTest, run, wait_for
from host import Host


class Seeing(EngineTest):
    def events(self, engine, *words):
        lines = engine.trace("--json", "-f", engine.trace_path, *words).stdout.splitlines()
        return [row for row in map(json.loads, lines) if "name" in row and "tick" in row]

    def serving_engine(self, *options):
        engine = self.engine(*options)
        engine.serve("bdev_malloc_create", "-b", "Disk0", 64, 512)
        return engine

    def test_the_trace_shows_each_step_of_a_read_from_socket_to_device_and_back(self):
        engine = self.serving_engine()
        engine.perf("--rw", "randread", "--bs", "4k", "--depth", "1", "--count", "10")
        text = engine.trace("-f", engine.trace_path).stdout
        for name in ("TCP_RECEIVE", "NVMF_REQ_STATE", "BDEV_IO_SUBMIT", "BDEV_IO_DISPATCH", "BDEV_IO_DONE", "TCP_SEND"):
            self.assertIn(name, text)
        done = [line for line in text.splitlines() if "BDEV_IO_DONE" in line][-1]
        for word in ("id:", "dwell:", "total:", "queue_depth:", "status: SUCCESS", "device: Disk0"):
            self.assertIn(word, done)
        submit = [line for line in text.splitlines() if "BDEV_IO_SUBMIT" in line][-1]
        self.assertRegex(submit, r"id: i\d+ \(r\d+\)")

    def test_a_filter_traces_only_the_io_of_one_volume_or_one_host(self):
        engine = self.serving_engine()
        engine.run_commands(f"bdev_null_create Other 64 512\nnvmf_subsystem_add_ns {NQN} Other\n")

        def owners():
            return {row["owner"]["text"].split(":")[0] for row in self.events(engine, "-n", "bdev_io_done,nvmf_req_state")}

        for text, owner in (("Disk0", "Disk0"), ("qid:1", "127.0.0.1")):
            engine.rpc("trace_set_filter", owner=text)
            engine.rpc("trace_clear")
            for nsid in (1, 2):
                engine.perf("--rw", "randread", "--bs", "4k", "--depth", "1", "--count", "10", "--nsid", nsid)
            self.assertEqual(owners(), {owner})
            self.assertEqual(engine.rpc("trace_get_info")["owner_filter"], text)
        engine.rpc("trace_set_filter")
        engine.rpc("trace_clear")
        engine.perf("--rw", "randread", "--bs", "4k", "--depth", "1", "--count", "10")
        self.assertEqual(owners(), {"Disk0", "127.0.0.1"})

    def test_the_trace_can_be_read_after_sigkill_and_from_a_copy(self):
        engine = self.serving_engine()
        engine.perf("--rw", "mix", "--bs", "4k", "--depth", "32", "--time", "0.5")
        engine.kill()
        copied = os.path.join(self.directory, "copied")
        shutil.copy(engine.trace_path, copied)
        text = engine.trace("-f", copied).stdout
        self.assertIn("BDEV_IO_DONE", text)
        self.assertEqual(text, engine.trace("-f", engine.trace_path).stdout.replace(engine.trace_path, copied))

    def test_the_threads_of_a_killed_engine_are_not_live(self):
        engine = self.serving_engine()
        self.assertRegex(engine.trace("threads", "-f", engine.trace_path).stdout, r"(?m)^reactor_0 +live ")
        engine.kill()
        text = engine.trace("threads", "-f", engine.trace_path).stdout
        self.assertRegex(text, r"(?m)^reactor_0 +died ")
        self.assertNotRegex(text, " live |, runs ")
        rows = map(json.loads, engine.trace("threads", "--json", "-f", engine.trace_path).stdout.splitlines())
        self.assertIn("died", {row.get("state") for row in rows})

    def test_wakes_of_a_reactor_do_not_overwrite_rare_events(self):
        engine = self.serving_engine()

        def recorded():
            rows = map(json.loads, engine.trace("threads", "--json", "-f", engine.trace_path).stdout.splitlines())
            return sum(row.get("recorded_rare", 0) for row in rows)

        before = recorded()
        for _ in range(5):      # at moderate rates it sleeps between I/Os
            engine.perf("--rw", "randread", "--bs", "4k", "--depth", "16", "--time", "0.2")
        wakes = self.events(engine, "-n", "reactor_wake")
        self.assertGreater(len(wakes), 0)
        connections = 5 * 2
        self.assertLess(recorded() - before, connections * 60)

    def test_records_of_a_load_do_not_overwrite_rare_events(self):
        engine = self.serving_engine()
        engine.perf("--rw", "randread", "--bs", "4k", "--depth", "64", "--time", "1.5")
        names = {row["name"].lower() for row in self.events(engine, "-g", "nvmf")}
        self.assertIn("nvmf_tgt_state", names)
        self.assertIn("nvmf_subsystem_create", names)

    def test_each_thread_that_records_has_a_ring(self):
        engine = self.serving_engine()
        engine.perf("--rw", "randread", "--bs", "4k", "--depth", "16", "--time", "0.3")
        self.assertEqual(engine.stop(), 0)
        header = json.loads(engine.trace("--json", "-f", engine.trace_path).stdout.splitlines()[0])["trace"]
        self.assertEqual(header["unregistered"], 0)
        self.assertEqual(header["state"], "ended")

    def test_shares_of_the_stages_add_up_to_the_whole(self):
        engine = self.serving_engine()
        engine.perf("--rw", "randread", "--bs", "4k", "--depth", "1", "--count", "100")
        engine.perf("--rw", "randread", "--bs", "128k", "--depth", "1", "--count", "50")
        text = engine.trace("stages", "-f", engine.trace_path).stdout
        self.assertIn("READ of 4 KiB, 100 of them", text)
        self.assertIn("READ of 128 KiB, 50 of them", text)
        rows = [json.loads(line) for line in engine.trace("stages", "--json", "-f", engine.trace_path).stdout.splitlines()]
        reads = [row for row in rows if row.get("of", {}).get("bytes") == 4096]
        own = [row for row in reads if row["object_type"] == "nvmf_req" and "within" not in row]
        whole = [row for row in own if row["stage"] is None][0]
        self.assertEqual(whole["count"], 100)
        self.assertAlmostEqual(sum(row["share"] for row in own if row["stage"]), 1, places=4)
        executing = [row for row in own if row["stage"] == "EXECUTING"][0]
        self.assertAlmostEqual(sum(row["share"] for row in reads if "within" in row), executing["share"], places=4)

    def test_a_waiting_async_event_request_is_not_reported_as_stuck(self):
        engine = self.serving_engine()
        with Host(engine) as host:
            host.connect()
            host.async_event_request()
            time.sleep(1.1)     # longer than the limit of `stuck`, 1 s
            done = run(FATHOM, "trace", "stuck", "-f", engine.trace_path, check=False)
            self.assertIn("# 0 stuck, 1 under way", done.stdout)
            self.assertEqual(done.returncode, 0, done.stdout)
            held = run(FATHOM, "trace", "stuck", "--all", "-f", engine.trace_path, check=False)
            self.assertEqual(held.returncode, 1)
            self.assertIn("WAIT_EVENT", held.stdout)

    def test_messages_are_shown_with_the_names_of_their_functions(self):
        engine = self.serving_engine()
        text = engine.trace("-n", "thread_send_msg", "-f", engine.trace_path).stdout
        names = re.findall(r" function: (\S+)", text)
        self.assertGreater(len(names), 3)
        self.assertEqual([name for name in names if name.startswith("0x")], [])
        rows = [row for row in self.events(engine) if row["name"] == "thread_send_msg"]
        self.assertEqual({row["args"]["function_name"] for row in rows} - set(names), set())
        self.assertTrue(all(row["args"]["function"].startswith("0x") for row in rows))
        # with another build id, addresses are not resolved: that program has other functions there
        copy = os.path.join(self.directory, "other")
        with open(engine.trace_path, "rb") as file:
            data = bytearray(file.read())
        offset = next(struct.unpack_from("<Q", data, 64 + 32 * i + 8)[0] for i in range(16) if struct.unpack_from("<I", data, 64 + 32 * i)[0] == 1)
        data[offset + 192] ^= 1
        with open(copy, "wb") as file:
            file.write(data)
        text = engine.trace("-n", "thread_send_msg", "-f", copy).stdout
        self.assertEqual({name[:2] for name in re.findall(r" function: (\S+)", text)}, {"0x"})

    def test_trace_points_are_switched_while_the_engine_runs(self):
        engine = self.serving_engine()
        engine.rpc("trace_disable_tpoint_group", name="bdev")
        engine.rpc("trace_clear")
        engine.perf("--rw", "randread", "--bs", "4k", "--count", "50")
        names = {row["name"].lower() for row in self.events(engine)}
        self.assertNotIn("bdev_io_done", names)
        self.assertIn("tcp_receive", names)
        engine.rpc("trace_enable_tpoint_group", name="bdev")
        engine.perf("--rw", "randread", "--bs", "4k", "--count", "50")
        self.assertIn("bdev_io_done", {row["name"].lower() for row in self.events(engine)})
        groups = engine.rpc("trace_get_tpoint_group_mask")
        self.assertTrue(groups["bdev"]["enabled"])
        self.assertEqual(engine.rpc("trace_get_info")["tpoint_shm_path"], engine.trace_path)

    def test_masks_on_the_command_line_select_trace_points(self):
        engine = self.serving_engine("-e", "bdev:BDEV_IO_DONE+BDEV_IO_SUBMIT,rpc")
        engine.perf("--rw", "randread", "--bs", "4k", "--count", "50")
        names = {row["name"].lower() for row in self.events(engine) if not row["name"].lower().startswith("rpc")}
        self.assertEqual(names, {"bdev_io_done", "bdev_io_submit"})
        done = run(ENGINE, "-e", "no_such_group", check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no_such_group", done.stderr)
        listing = run(ENGINE, "-e", "help").stdout
        for group in ("reactor", "thread", "bdev", "nvmf_tcp", "nvmf", "rpc"):
            self.assertIn(group, listing)
        self.assertIn("bdev_io_done", listing.lower())

    def test_the_engine_removes_its_trace_file_only_if_nothing_was_recorded(self):
        engine = self.engine("-e", "none")
        path = engine.trace_path
        self.assertTrue(os.path.exists(path))
        self.assertEqual(engine.stop(), 0)
        self.assertFalse(os.path.exists(path))
        engine = self.engine()
        path = engine.trace_path
        self.assertEqual(engine.stop(), 0)
        self.assertTrue(os.path.exists(path))

    def test_the_engine_prints_at_its_start_how_to_read_its_trace(self):
        engine = self.engine()
        log = engine.log_text()
        self.assertIn(f"fathom trace -s {engine.name} -p {engine.pid}", log)
        self.assertIn(engine.trace_path, log)

    def test_stuck_shows_a_command_that_never_completed_after_sigkill(self):
        """Seconds of full load, one command held by a device, SIGKILL: the file shows the command, its stage and host."""
        seconds = float(os.environ.get("FATHOM_STUCK_SECONDS", "4"))
        engine = self.engine()
        engine.run_commands("bdev_malloc_create -b Disk0 64 512\nbdev_malloc_create -b Disk1 64 512\nbdev_error_create Disk1\n")
        engine.serve("bdev_malloc_create", "-b", "Disk2", 64, 512)
        engine.run_commands(f"nvmf_subsystem_add_ns {NQN} EE_Disk1 -n 2\n")
        engine.rpc("bdev_error_inject_error", name="EE_Disk1", io_type="read", error_type="pending", num=1)
        held = subprocess.Popen([FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", NQN, "--nsid", "2", "--rw", "randread",
                                 "--bs", "4k", "--depth", "1", "--count", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        load = subprocess.Popen([FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", NQN, "--nsid", "1", "--rw", "mix",
                                 "--bs", "4k", "--depth", "32", "--time", "600"],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(seconds)
        wait_for(lambda: any(row.get("object_type") == "nvmf_req" and row["args"]["opcode"] == "0x02" and row["args"]["nsid"] == 2
                             for row in engine.operations_under_way("--older-than", "3s")))
        engine.kill()
        for process in (held, load):
            process.kill()
            process.wait()
        found = run(FATHOM, "trace", "stuck", "--older-than", "3s", "--json", "-f", engine.trace_path, check=False)
        self.assertEqual(found.returncode, 1, found.stdout + found.stderr)
        rows = [row for row in map(json.loads, found.stdout.splitlines()) if row.get("object_type") == "nvmf_req"]
        commands = [row for row in rows if row["args"]["opcode"] == "0x02"]
        self.assertEqual(len(commands), 1, found.stdout)
        command = commands[0]
        self.assertEqual(command["stage"], "EXECUTING")
        self.assertEqual(command["args"]["nsid"], 2)
        self.assertIn("qid:1", command["owner"]["text"])
        text = run(FATHOM, "trace", "stuck", "--older-than", "3s", "-f", engine.trace_path, check=False).stdout
        self.assertIn("EXECUTING", text)
        # the I/O of the block device below it, although its records in the ring were overwritten
        self.assertRegex(text, rf"\nbdev_io i\d+ \({command['object']}\) .*type: READ")

    def test_an_engine_with_a_stuck_reactor_answers_and_shows_it(self):
        engine = self.serving_engine("-m", "0x1", "--test-methods")
        # SIGSTOP would stop all threads
        engine.rpc("reactor_hold", reactor=0, milliseconds=60000)
        wait_for(lambda: "reactor_hold" in engine.trace("threads", "-f", engine.trace_path).stdout)
        stats = engine.rpc("thread_get_stats")
        self.assertGreaterEqual(len(stats["threads"]), 2)
        done = run(FATHOM, "trace", "threads", "-f", engine.trace_path)
        self.assertIn("reactor_hold", done.stdout)  # still
        engine.kill()


if __name__ == "__main__":
    unittest.main()
