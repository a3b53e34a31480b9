#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
The rows `faults` of the table of operations beside the source. From a method's function the test follows each name of a function, also those that are
passed on as callbacks. This finds too many faults for a method, never too few.
"""

import collections
import os
import re
import sys
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path[:0] = [os.path.join(TOP, "scripts"), os.path.join(TOP, "src/control/operation")]

import c_functions  # noqa: E402
import table  # noqa: E402

# Faults of these folders are answers to calls. Faults that a program prints when it starts are excluded.
ANSWERING = ("src/control/mgmt/", "src/control/server/engines/", "src/control/server/collection/", "src/control/server/host/", "src/control/system/")
NOT_ANSWERS = {"folder": "when the server starts", "engine_not_configured": "over dRPC, to an engine"}


def bodies():
    """{function or constant: [(file, its text)]} of src/control, without the client and the generators."""
    out = collections.defaultdict(list)
    for path in c_functions.c_files("src/control"):
        if path.endswith(".c") and "/client/" not in path:
            with open(os.path.join(TOP, path)) as file:
                lines = file.read().splitlines()
            for name, first, count in c_functions.functions(lines):
                out[name].append((path, "\n".join(lines[first - 1:first + count])))
            for match in re.finditer(r"^(?:static )?const [^\n=;(]*?(\w+)(?:\[[^\n=]*\])* =[^;]*;$", "\n".join(lines), re.M | re.S):
                out[match.group(1)].append((path, match.group(0)))
    return out


class Faults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.table, cls.bodies = table.read(), bodies()
        cls.raised = collections.defaultdict(set)  # {fault: files that raise it}
        for name, places in cls.bodies.items():
            for path, body in places:
                for fault in cls.faults_in(body):
                    cls.raised[fault].add(path)

    @classmethod
    def faults_in(cls, body):
        names = re.findall(r"\b(?:fill_)?fault_(\w+)\(", body)
        return {name for name in names if name in cls.table.fault_codes}

    def reachable(self, function, files=None):
        """The faults that the function can raise; with `files`: those that functions in these files raise."""
        seen, todo, found = set(), [function], set()
        while todo:
            name = todo.pop()
            if name in seen:
                continue
            seen.add(name)
            for path, body in self.bodies.get(name, []):
                if files and path not in files:
                    continue
                found |= self.faults_in(body)
                todo += [word for word in set(re.findall(r"\b[a-z_][a-z0-9_]*\b", body)) if word in self.bodies]
        return found

    def test_each_method_has_its_function(self):
        self.assertEqual([method.path for method in self.table.methods if method.function not in self.bodies], [])

    def test_a_method_can_answer_each_fault_of_its_row(self):
        for method in self.table.methods:
            extra = set(method.faults) - self.reachable(method.function)
            self.assertEqual(extra, set(), method.path)

    def test_the_file_of_a_method_raises_no_fault_that_its_row_lacks(self):
        """Only faults of the file itself: a function of several methods may raise faults that one of them excludes. server_rig.py checks those."""
        found = 0
        for method in self.table.methods:
            raised = self.reachable(method.function, {path for path, _ in self.bodies[method.function]})
            self.assertEqual(raised - set(method.faults) - set(self.table.general_faults), set(), method.path)
            found += len(raised)
        self.assertGreater(found, 10)

    def test_each_fault_that_an_answering_folder_raises_is_in_a_row(self):
        listed = set(self.table.general_faults).union(*(method.faults for method in self.table.methods))
        missing = {fault: sorted(files) for fault, files in self.raised.items()
                   if fault not in listed and fault not in NOT_ANSWERS and any(path.startswith(ANSWERING) for path in files)}
        self.assertEqual(missing, {})


if __name__ == "__main__":
    unittest.main()
