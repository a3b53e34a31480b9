# SPDX-License-Identifier: BSD-2-Clause
"""`fathom perf --verify` finds what a bad device does to one block in ten thousand, says which block, and exits with 1."""

import json
import unittest

from harness import NQN, EngineTest


class Verifying(EngineTest):
    def bad_device(self, io_type, error_type, one_in=10000):
        engine = self.engine()
        engine.lines("bdev_malloc_create -b Base 64 4096\n")
        engine.rpc("bdev_error_create", base_name="Base", keep_versions=True)
        engine.lines(f"""nvmf_create_transport -t tcp
nvmf_create_subsystem {NQN} -a -s SPDK00000000000001 -m 10
nvmf_subsystem_add_listener {NQN} -t tcp -a 127.0.0.1 -s {engine.port}
nvmf_subsystem_add_ns {NQN} EE_Base
""")
        if error_type:
            engine.rpc("bdev_error_inject_error", name="EE_Base", io_type=io_type, error_type=error_type, num=1000000,
                       one_in=one_in)
        return engine

    def expect_found(self, io_type, error_type):
        engine = self.bad_device(io_type, error_type)
        done = engine.perf("--rw", "mix", "--read-percent", "50", "--bs", "4k", "--depth", "32", "--count", "150000", "--verify",
                           check=False)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stdout + done.stderr, r"block \d+: ")
        return done.stdout + done.stderr

    def test_a_dropped_write_is_found(self):
        self.assertIn("stale", self.expect_found("write", "drop"))

    def test_a_write_to_the_wrong_place_is_found(self):
        self.assertRegex(self.expect_found("write", "swap"), "misplaced|stale")

    def test_a_stale_read_is_found(self):
        self.assertIn("stale", self.expect_found("read", "stale"))

    def test_a_flipped_byte_is_found(self):
        self.expect_found("read", "corrupt_data")

    def test_a_good_device_passes(self):
        engine = self.bad_device(None, None)
        result = json.loads(engine.perf("--json", "--rw", "mix", "--bs", "4k", "--depth", "32", "--count", "50000", "--verify").stdout)
        self.assertTrue(result["ok"])


if __name__ == "__main__":
    unittest.main()
