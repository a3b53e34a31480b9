# SPDX-License-Identifier: BSD-2-Clause
"""src/control/fault/generate.py: an error in a table is reported with file and line, and nothing is written."""

import functools
import os
import re
import subprocess
import sys
import tempfile
import unittest

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), *[".."] * 4))
GENERATE = os.path.join(TOP, "src/control/fault/generate.py")
GOOD = """domain server 600-699 daos: 601 603-605
fault 601 gone ENOENT args: str name
    says "{name}" is 100 % gone
    do look for {name}
"""
LISTED = """domain server 600-699
fault 650 gone ENOENT args: str what
    says the {what} is gone
    do look for it
    values what: "hat"; "COLOR coat"
"""


# Faults that no code raises yet, with the reason. This list may only shrink.
NOT_RAISED = {}  # {fault: why no code raises it}

# Test functions that assert a code among their arguments; assert_int_equal() does if its other argument is a `code`.
ASSERTIONS = ("rig_fails", "must_be_fault", "must_be_for", "assert_answers_to_release", "assert_join_refused", "assert_read_fails", "assert_open_fails", "assert_refused",
              "assert_not_found", "assert_not_generated")
# Servers are fakes there, so only faults of the client are provoked there.
DOUBLED = "test/unit/control/client"
CLIENT = ("src/control/client", "src/control/config", "src/control/hostlist", "src/control/status", "src/cmd/fathom", "src/rpc/grpc", "src/base")


def sources(*folders):
    for folder in folders:
        for path, _, names in os.walk(os.path.join(TOP, folder)):
            for name in names:
                if name.endswith((".c", ".h", ".py")) and name not in ("test_fault.c", "test_fault_table.py", "fault.h"):
                    with open(os.path.join(path, name)) as file:
                        yield os.path.relpath(file.name, TOP), file.read()


@functools.cache
def words(text):
    """Its numbers and names of faults: cheaper to look in than a regular expression for each fault."""
    return frozenset(re.findall(r"\d+|FAULT_[A-Z0-9_]+", text))


def is_asserted(text, code, name):
    """
    An assertion on that code and no other: `code = 157` in an expected text, assert_int_equal(why.code, 157), the fault's `Code` of a call.
    One of several ("code = (1|2)", `a || b`) is none.
    """
    if str(code) not in words(text) and f"FAULT_{name.upper()}" not in words(text):
        return False
    # a small number among the arguments is not a code
    number = rf"(?:FAULT_{name.upper()}|{code})" if int(code) >= 100 else f"FAULT_{name.upper()}"
    return re.search(rf"""["'][^"'|\n]*(?<![.\w])code = {code}(?![\d\[]| ?\||[^"']*\|code)"""
                     rf"""|\bassert_int_equal\([^;]*\bcode, {number}\);"""
                     rf"""|\b(?:{"|".join(ASSERTIONS)})\([^;|]*\b{number}\b[^;|]*\);"""
                     rf"""|"Code"\), "{code}"\)""", text) is not None


class Rows(unittest.TestCase):
    """Each fault is raised by the code, and a test provokes it and asserts its code."""

    def rows(self):
        with open(os.path.join(TOP, "src/control/fault/faults.def")) as file:
            return re.findall(r"(?m)^fault (\d+) (\w+)", file.read())

    def raised(self, *folders):
        called = {name for _, text in sources(*folders) for name in re.findall(r"\b(?:fill_)?fault_(\w+)\(", text)}
        return {name for _, name in self.rows() if name in called}

    def test_each_fault_is_raised(self):
        self.assertEqual({name for _, name in self.rows()} - self.raised("src"), set(NOT_RAISED))

    def test_each_fault_is_provoked_by_a_test(self):
        tests, of_client = list(sources("test/unit/control", "test/unit/cmd", "test/system")), self.raised(*CLIENT)
        missing = {name for code, name in self.rows()
                   if not any(is_asserted(text, code, name) for path, text in tests
                              if name in of_client or not path.startswith(DOUBLED))}
        self.assertEqual(missing, set())

    def test_each_quoted_value_is_in_the_source(self):
        with open(os.path.join(TOP, "src/control/fault/faults.def")) as file:
            rows = re.findall(r"(?m)^\tvalues \w+: (.*)$", file.read())
        text = "".join(text for path, text in sources("src/control", "src/cmd/fathom/control"))
        self.assertGreater(len(rows), 20)
        for phrase in re.findall(r'"([^"]+)"', " ".join(rows)):
            for words in re.split(r"\b[A-Z]+\b", phrase):  # words in capitals stand for values
                self.assertTrue(words.strip(" -[]") in text, phrase)

    def test_only_an_assertion_of_the_code_counts(self):
        for text in ('assertIn("code = 157 ", log)', 'assertRegex(log, r"code = 157 .*disk")', "x('storage: code = 157 description')",
                     "assert_int_equal(rig_look()->why.code, 157);", "assert_int_equal(why.code, FAULT_NAMED);", "rig_fails(&asked, 157);",
                     'assert_join_refused(system,\n\t&request, FAULT_NAMED);', 'assertEqual(refused.fault.get("Code"), "157")'):
            self.assertTrue(is_asserted(text, 157, "named"), text)
        for text in ('assertRegex(log, r"o(7|57|107|157)")', 'assertRegex(log, "code = (156|157)")', 'assertRegex(log, "code = 15[0-9]")',
                     'assertRegex(log, "code = 157 |code = 158 ")', 'assertRegex(log, "code = 156 |code = 157 ")', 'assertIn("code = 1577", log)',
                     "assert_true(why.code == FAULT_NAMED || why.code == FAULT_OTHER);", "struct call call = { .code = 157 };",
                     "assert_int_equal(count, 157);", "missing += reply.code == FAULT_NAMED;", 'fault(157, "a double says so")'):
            self.assertFalse(is_asserted(text, 157, "named"), text)


class FaultTable(unittest.TestCase):
    def run_on(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "t.def")
            with open(path, "w") as file:
                file.write(text)
            done = subprocess.run([sys.executable, GENERATE, "--outdir", folder, path], capture_output=True, text=True)
            made = {name: open(os.path.join(folder, name)).read() for name in os.listdir(folder) if name != "t.def"}
            return done, made

    def assert_refused(self, text, line, words):
        done, made = self.run_on(text)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"t.def:{line}: ", done.stderr)
        self.assertIn(words, done.stderr)
        self.assertEqual(made, {})

    def test_a_row_becomes_a_typed_function(self):
        done, made = self.run_on(GOOD)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("fault_gone(struct fathom_fault *why, const char *name)", made["faults.gen.h"])
        self.assertIn('"\\"%s\\" is 100 %% gone", name', made["faults.gen.h"])

    def test_a_fault_without_resolution_does_not_build(self):
        self.assert_refused(GOOD.replace("    do look for {name}\n", ""), 2, 'no line "do"')
        self.assert_refused(GOOD.replace("do look for {name}", "do"), 2, 'no line "do"')

    def test_values_of_a_function_equal_those_of_its_row(self):
        self.assert_refused(GOOD.replace("{name}", "{other}"), 2, "has no value other")
        self.assert_refused(GOOD.replace("str name", "str name, u32 count"), 2, "does not say its value count")
        self.assert_refused(GOOD.replace("str name", "double name"), 2, "is no argument")

    def test_forms_of_a_value_are_listed(self):
        self.assertEqual(self.run_on(LISTED)[0].stderr, "")
        self.assert_refused(LISTED.replace("    values", "#"), 2, 'no line "values what: TEXT"')
        self.assert_refused(LISTED.replace("values what", "values which"), 2, "has no value which")
        self.assert_refused(LISTED.replace("what: ", "what "), 5, "expected: values NAME: TEXT")
        self.assert_refused(LISTED + "    values what: x\n", 6, "a second line")

    def test_the_page_lists_the_forms_of_a_value(self):
        with tempfile.NamedTemporaryFile("w", suffix=".def") as file:
            file.write(LISTED)
            file.flush()
            done = subprocess.run([sys.executable, GENERATE, "--page", file.name], capture_output=True, text=True)
        self.assertIn('| 650 | `gone` | {what} | "hat"; "COLOR coat" |\n', done.stdout)

    def test_codes_are_unique_and_in_the_range_of_their_domain(self):
        self.assert_refused(GOOD + GOOD.split("\n", 1)[1], 5, "is that of")
        self.assert_refused(GOOD.replace("601", "701"), 2, "is not of server")

    def test_a_code_of_daos_has_its_meaning_or_is_not_used(self):
        for code, status in ((601, 0), (602, 1), (604, 0), (606, 1), (649, 1), (650, 0), (699, 0)):
            self.assertEqual(self.run_on(GOOD.replace("fault 601", f"fault {code}"))[0].returncode, status, code)
        self.assertEqual(self.run_on("domain own 1400-1499\n" + "\n".join(GOOD.replace("601", "1401").split("\n")[1:]))[0].returncode, 0)
        self.assert_refused(GOOD.replace("fault 601", "fault 602"), 2, "none of those that DAOS has")
        self.assert_refused(GOOD.replace(" daos: 601 603-605", " daos: x"), 1, "expected: domain")

    def test_an_invalid_row_is_an_error(self):
        self.assert_refused(GOOD.replace("ENOENT", "ENOTHING"), 2, "is no errno")
        self.assert_refused(GOOD.replace("says", "said"), 3, "is not understood")
        self.assert_refused(GOOD.partition("\n")[2], 1, "before the first domain")


if __name__ == "__main__":
    unittest.main()
