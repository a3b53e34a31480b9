#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A Linux host against fathom-engine: python3 test/vm/test_host.py [-v] [TestEngine.test_...]."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import scenarios    # noqa: E402
import targets      # noqa: E402


class TestEngine(scenarios.HostScenarios, unittest.TestCase):
    """The scenarios with our engine as their target."""

    make_target = targets.EngineTarget

    @classmethod
    def check_needs(cls):
        targets.engine_binaries()

    def test_the_engine_ends_cleanly_while_a_host_is_connected(self):
        self.expect_broken_connection()
        controller = self.connect(scenarios.CRASH_CONNECT)
        self.target.terminate()
        self.target.restart()
        self.wait_until_live(controller)
        self.host.check(f"dd if={self.device()} of=/dev/null bs=64k count=16 iflag=direct")
        self.disconnect()


if __name__ == "__main__":
    unittest.main()
