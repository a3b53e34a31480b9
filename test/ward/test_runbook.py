# SPDX-License-Identifier: BSD-2-Clause
"""The table of illnesses in docs/runbook.md is that of the ward, and each first finding is in the table of findings."""

import glob
import importlib
import inspect
import os
import re
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)


def illnesses():
    """(illness, finding) of each case, in the order of the files and cases."""
    rows = []
    for path in sorted(glob.glob(os.path.join(HERE, "test_*.py"))):
        module = importlib.import_module(os.path.basename(path)[:-3])
        for _, case in inspect.getmembers(module, inspect.isclass):
            if case.__module__ == module.__name__:
                methods = [method for _, method in inspect.getmembers(case, inspect.isfunction) if hasattr(method, "illness")]
                rows += [(method.illness, method.finding) for method in sorted(methods, key=lambda method: method.__code__.co_firstlineno)]
    return rows


def table():
    return ["| illness | first finding |", "|---|---|", *(f"| {illness} | `{finding}` |" for illness, finding in illnesses())]


class Runbook(unittest.TestCase):
    def test_the_runbook_has_each_illness_with_its_first_finding(self):
        lines = open(os.path.join(TOP, "docs", "runbook.md"), encoding="utf-8").read().split("\n")
        begin = lines.index("| illness | first finding |")
        end = next(i for i in range(begin, len(lines)) if not lines[i].startswith("|"))
        self.assertEqual(lines[begin:end], table(), "run `python3 test/ward/test_runbook.py --table`")

    def test_each_first_finding_is_in_the_table_of_findings(self):
        names = re.findall(r"(?m)^finding \d+ (\w+)", open(os.path.join(TOP, "src/inspect/doctor/findings.def"), encoding="ascii").read())
        self.assertEqual([finding for _, finding in illnesses() if finding not in names], [])


if __name__ == "__main__":
    if sys.argv[1:] == ["--table"]:
        print("\n".join(table()))
    else:
        unittest.main()
