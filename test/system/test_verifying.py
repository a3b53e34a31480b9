# SPDX-License-Identifier: BSD-2-Clause
"""`fathom perf --verify` finds one wrong block in ten thousand, names it, and exits with 1."""

import json
import os
import signal
import subprocess
import tempfile
import time
import unittest

from harness import FATHOM, NQN, EngineTest


class Verifying(EngineTest):
    def engine_with_bad_device(self, io_type, error_type, one_in=10000):
        engine = self.engine()
        engine.run_commands("bdev_malloc_create -b Base 64 4096\n")
        engine.rpc("bdev_error_create", base_name="Base", keep_versions=True)
        engine.run_commands(f"""nvmf_create_transport -t tcp
nvmf_create_subsystem {NQN} -a -s SPDK00000000000001 -m 10
nvmf_subsystem_add_listener {NQN} -t tcp -a 127.0.0.1 -s {engine.port}
nvmf_subsystem_add_ns {NQN} EE_Base
""")
        if error_type:
            engine.rpc("bdev_error_inject_error", name="EE_Base", io_type=io_type, error_type=error_type, num=1000000,
                       one_in=one_in)
        return engine

    def assert_found(self, io_type, error_type):
        engine = self.engine_with_bad_device(io_type, error_type)
        done = engine.perf("--rw", "mix", "--read-percent", "50", "--bs", "4k", "--depth", "32", "--count", "150000", "--verify",
                           check=False)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stdout + done.stderr, r"block \d+: ")
        return done.stdout + done.stderr

    def test_a_dropped_write_is_found(self):
        self.assertIn("stale", self.assert_found("write", "drop"))

    def test_a_write_to_the_wrong_place_is_found(self):
        self.assertRegex(self.assert_found("write", "swap"), "misplaced|stale")

    def test_a_stale_read_is_found(self):
        self.assertIn("stale", self.assert_found("read", "stale"))

    def test_a_flipped_byte_is_found(self):
        self.assert_found("read", "corrupt_data")

    def test_a_good_device_passes(self):
        engine = self.engine_with_bad_device(None, None)
        result = json.loads(engine.perf("--json", "--rw", "mix", "--bs", "4k", "--depth", "32", "--count", "50000", "--verify").stdout)
        self.assertTrue(result["ok"])

    def affinities_under_load(self, engine, words):
        """The CPUs of each thread of the load; [] if it reports that each CPU has a reactor."""
        with tempfile.TemporaryFile("w+") as said:
            before = engine.rpc("bdev_get_iostat")["bdevs"][0]["num_read_ops"]
            load = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=said)
            try:
                while engine.rpc("bdev_get_iostat")["bdevs"][0]["num_read_ops"] == before:
                    self.assertIsNone(load.poll())
                affinities = [os.sched_getaffinity(int(thread)) for thread in os.listdir(f"/proc/{load.pid}/task")]
            finally:
                load.kill()
                load.wait()
            said.seek(0)
            return [] if "has a reactor bound to it" in said.read() else affinities

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "this machine has one CPU")
    def test_the_threads_of_perf_avoid_the_cpus_of_reactors(self):
        cpus = sorted(os.sched_getaffinity(0))
        engine = self.engine("-m", f"[{cpus[0]}]")
        engine.serve("bdev_null_create", "Null0", 64, 512)
        words = [FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", NQN, "--depth", "4", "--time", "600", "--timeout", "0"]
        for _ in range(15):
            affinities = self.affinities_under_load(engine, words)
            if affinities:
                break
            time.sleep(1)   # engines of other tests spin on the other CPUs
        else:
            self.skipTest("other engines spin on each CPU")
        for affinity in affinities:
            self.assertNotIn(cpus[0], affinity)
        # confined to the reactor's CPU, the load warns
        words[words.index("600")] = "0.2"
        confined = subprocess.run(["taskset", "-c", str(cpus[0]), *words], capture_output=True, text=True, timeout=60)
        self.assertEqual(confined.returncode, 0, confined.stderr)
        self.assertIn("each CPU that this process may use has a reactor bound to it", confined.stderr)

    def test_a_rate_limits_the_load(self):
        engine = self.engine()
        engine.serve("bdev_null_create", "Null0", 64, 512)
        done = engine.perf_json("--rate", "200", "--count", "60", "--queues", "2", "--depth", "8")
        self.assertEqual(done["total"]["ios"], 60)
        self.assertGreaterEqual(done["seconds"], 0.27)   # 29 waits of 10 ms on each queue; a pause is made up for by 10 ms
        short = engine.perf_json("--rate", "1", "--time", "0.1", "--depth", "8")
        self.assertLess(short["total"]["ios"], 8)        # the end does not wait until the next I/O is due

    def test_a_target_that_answers_no_keep_alive_ends_the_load(self):
        """The sockets stay open and commands have no time-out, so only the limit of the keep alive ends the load."""
        engine = self.engine_with_bad_device(None, None)
        load = subprocess.Popen([FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", NQN, "--rw", "read", "--bs", "4k", "--depth", "4",
                                 "--time", "600", "--keep-alive", "2000", "--timeout", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            while engine.rpc("bdev_get_iostat", names=["EE_Base"])["bdevs"][0]["num_read_ops"] < 1000:
                self.assertIsNone(load.poll())
            os.kill(engine.pid, signal.SIGSTOP)
            said = load.communicate(timeout=60)[1]
        finally:
            os.kill(engine.pid, signal.SIGCONT)
            load.kill()
            load.communicate()
        self.assertEqual(load.returncode, 1, said)
        self.assertIn("did not answer a keep alive within 1500 ms", said)


if __name__ == "__main__":
    unittest.main()
