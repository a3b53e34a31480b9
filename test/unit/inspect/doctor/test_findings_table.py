# SPDX-License-Identifier: BSD-2-Clause
"""src/inspect/doctor/generate.py: an error in a table is reported with file and line, and nothing is written."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), *[".."] * 4))
GENERATE = os.path.join(TOP, "src/inspect/doctor/generate.py")
GOOD = """finding 101 cause broken args: str name
    says {name} is 100 % "ill"
    do cure {name}
    explains effect
finding 102 effect note
    says it hurts
    do wait
"""


class Table(unittest.TestCase):
    def generate(self, text):
        """(exit status, error, the written files)"""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "f.def")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            done = subprocess.run([sys.executable, GENERATE, "--outdir", folder, path], capture_output=True, text=True, check=False)
            files = {}
            for name in set(os.listdir(folder)) - {"f.def"}:
                with open(os.path.join(folder, name), encoding="ascii") as file:
                    files[name] = file.read()
            return done.returncode, done.stderr.replace(path, "f.def"), files

    def test_a_table_becomes_functions_and_rows(self):
        status, error, files = self.generate(GOOD)
        self.assertEqual((status, error), (0, ""))
        self.assertIn("find_cause(struct findings *list, enum finding_certainty sure, const char *name)", files["findings.gen.h"])
        self.assertIn(r'"%s is 100 %% \"ill\"", name', files["findings.gen.h"])
        self.assertEqual(files["findings_table.gen.inc"], '{ 101, FINDING_BROKEN, "cause", { 0x2ull, 0x0ull } },\n'
                                                          '{ 102, FINDING_NOTE, "effect", { 0x0ull, 0x0ull } },\n')

    def test_a_finding_that_is_alone_follows_only_from_one_that_names_it(self):
        _, _, files = self.generate(GOOD.replace("explains effect", "explains all"))
        self.assertIn('"cause", { 0x2ull, 0x0ull }', files["findings_table.gen.inc"])
        alone = GOOD.replace("102 effect note", "102 effect note alone")
        _, _, files = self.generate(alone.replace("explains effect", "explains all"))
        self.assertIn('"cause", { 0x0ull, 0x0ull }', files["findings_table.gen.inc"])
        _, _, files = self.generate(alone)
        self.assertIn('"cause", { 0x2ull, 0x0ull }', files["findings_table.gen.inc"])

    def test_advice_names_commands_that_exist(self):
        with open(os.path.join(TOP, "src/inspect/doctor/findings.def"), encoding="ascii") as file:
            advice = file.read()
        with open(os.path.join(TOP, "src/cmd/fathom/ddb/commands.c"), encoding="ascii") as file:
            commands = set(re.findall(r'^\t{ "(\w+)", ', file.read(), re.M))
        named = set(re.findall("`fathom ddb ([a-z_]+)", advice))
        self.assertTrue(named)
        self.assertEqual(named - commands, set())

    def test_advice_about_the_next_start_holds_without_a_server(self):
        with open(os.path.join(TOP, "src/inspect/doctor/findings.def"), encoding="ascii") as file:
            lines = [line for line in file if "starts it again by itself" in line or "starts the engine again" in line]
        self.assertEqual(len(lines), 4)
        for line in lines:
            self.assertIn("If a server runs it, the server starts it again by itself; else start it again", line)

    def test_errors_name_the_line_and_nothing_is_written(self):
        for old, new, error in (
                ("    do wait\n", "", 'f.def:5: finding 102 has no line "do"'),
                ("102 effect", "101 effect", "f.def:5: code or name is that of f.def:1"),
                ("note", "fine", 'f.def:5: "fine" is no severity'),
                ("says it hurts", "says {it} hurts", "f.def:5: finding 102 has no value it"),
                ("args: str name", "args: str name, u64 count", "f.def:1: finding 101 does not say its value count"),
                ("explains effect", "explains nothing", "f.def:1: finding 101 explains nothing"),
                ("    do wait\n", "    do wait\n    explains cause\n", "f.def:5: effect explains cause, whose row must be below"),
                ("    do wait\n", "    cure wait\n", 'f.def:7: "cure" is not understood')):
            with self.subTest(error):
                status, text, files = self.generate(GOOD.replace(old, new))
                self.assertEqual((status, files), (1, {}))
                self.assertTrue(text.startswith(error), text)


if __name__ == "__main__":
    unittest.main()
