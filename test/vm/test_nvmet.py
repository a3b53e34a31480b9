#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The same scenarios against the guest's kernel: if these fail, the fault is in the tests, not in the engine."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import kernel       # noqa: E402
import scenarios    # noqa: E402
import targets      # noqa: E402


class TestKernelTarget(scenarios.HostScenarios, unittest.TestCase):
    """The scenarios with nvmet as their target."""

    make_target = targets.KernelTarget

    @classmethod
    def check_needs(cls):
        linux = kernel.get()
        if not linux.has_module("nvmet_tcp"):
            raise kernel.Missing(f"kernel {linux.release} has no module nvmet_tcp")


if __name__ == "__main__":
    unittest.main()
