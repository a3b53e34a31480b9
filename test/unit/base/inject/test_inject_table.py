# SPDX-License-Identifier: BSD-2-Clause
"""src/base/inject/generate.py: an error in the table is reported with file and line, and nothing is written; each point has its call."""

import os
import subprocess
import sys
import tempfile
import unittest

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), *[".."] * 4))
GENERATE = os.path.join(TOP, "src/base/inject/generate.py")
GOOD = "point db_write control/db may fail crash\n    error EIO\n    at it writes\n"


class Table(unittest.TestCase):
    def generate(self, text, *words):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "points.def")
            with open(path, "w") as file:
                file.write(text)
            made = subprocess.run([sys.executable, GENERATE, *(words or ("--built", "1", "--outdir", folder)), path], capture_output=True, text=True,
                                  check=False)
            files = {name: open(os.path.join(folder, name)).read() for name in os.listdir(folder) if name != "points.def"}
            return made, files

    def test_a_good_table_becomes_an_enum_and_rows(self):
        made, files = self.generate(GOOD)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertIn("INJECT_DB_WRITE,", files["points.gen.h"])
        self.assertIn("#if 1 &&", files["points.gen.h"])
        self.assertIn("BIT(INJECT_FAIL) | BIT(INJECT_CRASH)", files["points_table.gen.inc"])

    def test_a_build_without_points_has_the_enum_but_no_calls(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.generate(GOOD, "--built", "0", "--outdir", folder)[0].returncode, 0)
            self.assertIn("#if 0 &&", open(os.path.join(folder, "points.gen.h")).read())

    def test_each_mistake_is_named(self):
        for text, words in (("point x control/nowhere may fail\n", "no folder src/control/nowhere"), (GOOD + GOOD, "stands twice"),
                            (GOOD.replace("crash", "burn"), "an action is one of"), (GOOD.replace("EIO", "EOI"), "is not an errno"),
                            (GOOD.replace("    at it writes\n", ""), "has no row `at`"), (GOOD.replace("    error EIO\n", ""), "a row `error`"),
                            ("pount x\n", "write point, error or at")):
            made, files = self.generate(text)
            self.assertNotEqual(made.returncode, 0)
            self.assertIn(words, made.stderr)
            self.assertIn("points.def:", made.stderr)
            self.assertEqual(files, {})

    def test_each_point_of_the_tree_has_its_call(self):
        made = subprocess.run([sys.executable, GENERATE, "--check", os.path.join(TOP, "src/base/inject/points.def")], capture_output=True, text=True,
                              check=False)
        self.assertEqual(made.returncode, 0, made.stdout)

    def test_a_point_without_a_call_is_reported(self):
        made, _ = self.generate(GOOD + "point nowhere control/db may crash\n    at nothing\n", "--check")
        self.assertEqual(made.returncode, 1)
        self.assertIn("no inject(INJECT_NOWHERE) in src/control/db", made.stdout)
        self.assertIn("has no point spool_write", made.stdout)


if __name__ == "__main__":
    unittest.main()
