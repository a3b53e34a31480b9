#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""fathom-probed in the guest serves DTrace's device.

    python3 test/vm/test_registry.py -v

The program that registers, helper_client.c, issues the ioctls of programs that the real `dtrace -G` has built, and wrong ones.
"""

import pathlib
import sys
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent)]

import probed       # noqa: E402


class TestRegistry(probed.ProbedTest):
    """Programs that register, end and are wrong."""

    def test_concurrent_threads_register_as_one_process(self):
        self.fresh()
        pid = self.start("helper_client threads 8 /tmp/many sleep")
        self.wait_for(lambda: len(self.paths()), 80)
        self.assertEqual({path.partition("/")[0] for path in self.paths()}, {str(pid)})
        self.assertIn("threads 0", self.host.check("cat /tmp/started.log"))

    def test_an_object_of_many_chunks_is_registered(self):
        self.fresh()
        pid = self.start("helper_client add /large/large.dof sleep")
        self.wait_for(lambda: len(self.paths()), probed.LARGE, 60)
        self.host.check(f"kill -KILL {pid}")
        self.wait_for(self.paths, [], 60)

    def test_a_32_bit_program_is_registered(self):
        self.fresh()
        pid = self.start("helper_client_32")
        self.wait_for(self.probes, [f"simple{pid}/simple32/main/arg1", f"simple{pid}/simple32/main/go"])

    def test_invalid_requests_are_errors_and_affect_no_other_process(self):
        self.fresh()
        said = self.host.check("helper_client legacy nowhere add-program anonymous /dof/simple.dof remove 77 "
                               "add /dof/simple.dof add /bin/busybox remove 0 remove 0")
        self.assertEqual([line.split(" ")[:2] for line in said.splitlines()],
                         [["legacy", "-22"], ["nowhere", "-14"], ["add-program", "-22"], ["anonymous", "-22"], ["remove", "0"],
                          ["add", "0"], ["add", "-22"], ["remove", "0"], ["remove", "0"]])
        self.assertEqual(self.paths(), [])

    def test_a_process_that_dies_or_execs_has_no_probes(self):
        self.fresh()
        pid = self.start("helper_client add /dof/simple.dof sleep")
        self.wait_for(lambda: len(self.paths()), 2)
        self.host.check(f"kill -KILL {pid}")
        self.wait_for(self.paths, [])
        pid = self.start("helper_client add /dof/simple.dof self add /dof/clau.dof sleep")
        self.wait_for(self.probes, [f"clau{pid}/clau.dof/main/go", f"simple{pid}/simple.dof/main/arg1",
                                    f"simple{pid}/simple.dof/main/go"][:1])

    def test_a_child_registers_its_own_probes(self):
        self.fresh()
        self.start("helper_client add /dof/simple.dof fork add /dof/clau.dof sleep")
        self.wait_for(lambda: len(self.paths()), 2)     # the child's probes are removed with it


if __name__ == "__main__":
    unittest.main()
