# SPDX-License-Identifier: BSD-2-Clause
"""The sub-commands of `fathom` as people type them: what they say when something is not as it should be, and with which status."""

import json
import os
import re
import signal
import subprocess
import time
import unittest

from harness import FATHOM, NQN, EngineTest, run


class Commands(EngineTest):
    def serving(self, mebibytes=16):
        engine = self.engine()
        engine.serve("bdev_malloc_create", "-b", "Disk0", mebibytes, 512)
        return engine

    def to_full(self, *words):
        """Exit status and standard error of `fathom WORDS`, whose standard output takes nothing."""
        with open("/dev/full", "w") as full:
            done = subprocess.run([FATHOM, *map(str, words)], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        return done.returncode, done.stderr

    def test_output_that_is_lost_is_no_success(self):
        engine = self.serving()
        perf = ("perf", "-a", "127.0.0.1", "-s", engine.port, "-n", NQN, "--count", 100, "--quiet")
        for words in (("rpc", "-s", engine.sock, "save_config"), ("rpc", "-s", engine.sock, "bdev_get_bdevs"), perf,
                      (*perf, "--json"), ("--help",)):
            status, said = self.to_full(*words)
            self.assertEqual((status, said), (2, "fathom: standard output could not be written\n"), words)

    def test_what_a_second_signal_kept_from_being_verified_is_no_success(self):
        engine = self.serving(512)
        perf = subprocess.Popen([FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", NQN, "--rw", "write", "--bs", "4k",
                                 "--time", "60", "--verify", "--quiet", "--json"], stdout=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 30  # until enough is written that reading it back takes a while
        while engine.rpc("bdev_get_iostat")["bdevs"][0]["bytes_written"] < 256 << 20 and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(perf.pid, signal.SIGTERM)
        time.sleep(0.01)
        os.kill(perf.pid, signal.SIGTERM)
        result = json.loads(perf.communicate(timeout=60)[0])
        self.assertGreater(result["verify"]["blocks_left_out"], 0)
        self.assertFalse(result["ok"])
        self.assertEqual(perf.returncode, 1)

    def test_one_signal_ends_the_load_and_all_is_verified(self):
        engine = self.serving()
        perf = subprocess.Popen([FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", NQN, "--rw", "mix", "--time", "60",
                                 "--verify", "--quiet"], stdout=subprocess.PIPE, text=True)
        while engine.rpc("bdev_get_iostat")["bdevs"][0]["num_write_ops"] == 0:
            time.sleep(0.05)
        os.kill(perf.pid, signal.SIGTERM)
        said = perf.communicate(timeout=60)[0]
        self.assertRegex(said, r"(?m)^verified: [1-9]\d* blocks read back, 0 reads were wrong$")
        self.assertNotIn("not verified", said)
        self.assertEqual(perf.returncode, 0)

    def test_the_life_of_a_request_is_found_as_docs_life_of_an_io_says(self):
        engine = self.serving()
        engine.perf("--count", 3, "--depth", 1)
        last = engine.trace("-p", engine.pid, "-n", "bdev_io_done").stdout.splitlines()[-1]
        request = re.search(r"id: i\d+ \((r\d+)\)", last).group(1)
        life = [line for line in engine.trace("-p", engine.pid).stdout.splitlines() if re.search(rf"\b{request}\b", line)]
        for name in ("NVMF_REQ_STATE", "BDEV_IO_SUBMIT", "BDEV_IO_DISPATCH", "BDEV_IO_DONE"):
            self.assertTrue(any(name in line for line in life), (name, life))


if __name__ == "__main__":
    unittest.main()
