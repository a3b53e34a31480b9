# SPDX-License-Identifier: BSD-2-Clause
"""generate.py of the table of methods: errors name file and line; the output of a small table; the real table is valid."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

TOP = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 4))
FOLDER = os.path.join(TOP, "src/rpc/methods")
GENERATE = os.path.join(FOLDER, "generate.py")
sys.path.insert(0, FOLDER)

import method_table  # noqa: E402 (lies in the folder of the generator)

SMALL = """\
include data/target/target.h
common nqn string required positional | NQN of the subsystem
section Boxes
enum color red green
object place
	param street string required -s | the street
	param number u16 -n | the house
method box_open runtime clients
	does open a box
	result json {"box"}
	use nqn
	param color color default=green | its color
	param width u32:bytes range=1..100 | its width
	param place place required
	param label string | its label; default: the color
	param key string rejected | boxes have no locks
	param polish bool ignored
	argument size float required positional | size in MiB
method box_close always like box_open
	does close a box
method box_tune always ignored no-command
	does tune boxes
	param speed u8
method box_list always
	does list boxes
	result text
command box_all run=rpc_box_all
	does open every box
	argument file string -f | the file
"""


class Output:
    """What generate.py makes of a table."""

    def __init__(self, test, text):
        folder = tempfile.TemporaryDirectory(prefix="fathom-methods-")
        test.addCleanup(folder.cleanup)
        self.folder, self.table = folder.name, os.path.join(folder.name, "m.def")
        with open(self.table, "w") as file:
            file.write(text)
        self.engine = self.run("--engine", self.folder)
        self.commands = self.run("--commands", self.folder)
        self.page = self.run("--page")

    def run(self, *options):
        return subprocess.run([sys.executable, GENERATE, *options, self.table], capture_output=True, text=True, check=False)

    def file(self, name):
        with open(os.path.join(self.folder, name)) as file:
            return file.read()


class MethodTable(unittest.TestCase):
    def assert_error(self, text, line, message):
        with tempfile.NamedTemporaryFile("w", suffix=".def") as file:
            file.write(text)
            file.flush()
            with self.assertRaises(method_table.TableError) as caught:
                method_table.read(file.name)
            self.assertRegex(str(caught.exception), rf"^{re.escape(file.name)}:{line}: ")
        self.assertIn(message, str(caught.exception))

    def test_an_error_names_its_line(self):
        head = "section s\nmethod m always\n\tdoes it\n\tresult none\n"
        for line, message in (("param a u33 | x", '"u33" is no type'), ("param a u32", "a: no text"),
                              ("param a u32 fast | x", '"fast" is no word'), ("param a u8 default=256 | x", 'default "256" is no u8'),
                              ("param a u32:miles | x", 'unit "miles"'), ("param a bool default=1 | x", "neither true nor false"),
                              ("param a u32 required default=1 | x", "required parameter has no default"),
                              ("param a u8 range=0..256 | x", "is not within u8"), ("param a string range=1..2 | x", "of a number"),
                              ("param a bool required | x", "needs yes-no"), ("param a u32 opposite | x", "is for a bool"),
                              ("param a text(5) ignored", "not text()"), ("param a u32 positional -a | x", "positional, but with an option"),
                              ("param a string | x", "write default=VALUE, or end its text"), ("param a u64 absent=X | x", "write default=VALUE"),
                              ("use a", "no common parameter a"), ("ask a", '"ask" is not understood'), ("param A u32 | x", "expected: NAME")):
            with self.subTest(line):
                self.assert_error(head + "\t" + line + "\n", 5, message)
        for text, line, message in ((head + "\tparam a u32 | x\n\tparam a u32 | x\n", 2, "a second a"),
                                    (head + "\tparam a u32 -x | x\n\tparam b u32 -x | x\n", 2, "-x is of a and b"),
                                    (head + "\tparam a u32 in=o | x\n", 2, "in a structure o"),
                                    ("section s\nmethod m always\n\tresult none\n", 2, 'no line "does"'),
                                    ("section s\nmethod m always\n\tdoes it\n", 2, 'no line "result"'),
                                    (head + head.split("\n", 1)[1], 5, "a second method m"),
                                    ("method m always\n", 1, "in a section"), ("section s\nmethod m often\n", 2, "expected: method"),
                                    ("section s\nmethod m always like n\n", 2, "no method n above"), ("section s\nmethod m always fast\n", 2, "words of a method"),
                                    ("enum e a a\n", 1, "each once"), ("\tdoes it\n", 1, "not in a method")):
            with self.subTest(text):
                self.assert_error(text, line, message)

    def test_an_error_leaves_no_file(self):
        out = Output(self, "section s\nmethod m often\n")
        self.assertIn(f"{out.table}:2: expected: method", out.engine.stderr)
        self.assertEqual((out.engine.returncode, out.commands.returncode, out.page.returncode), (1, 1, 1))
        self.assertEqual(os.listdir(out.folder), ["m.def"])

    def test_structures_decoders_and_rows_are_generated_for_the_engine(self):
        out = Output(self, SMALL)
        self.assertEqual(out.engine.stderr, "")
        header, source = out.file("methods.gen.h"), out.file("methods.gen.c")
        self.assertIn('#include "data/target/target.h"', header)
        self.assertIn("enum rpc_color {\n\tRPC_COLOR_RED,\n\tRPC_COLOR_GREEN,\n};", header)
        self.assertIn("struct box_open_params {\n\tconst char *nqn;\n\tint color;\n\tuint32_t width;\n\tstruct place_params place;\n\tconst char *label;\n};\n"
                      "void method_box_open(struct rpc_request *request, const struct box_open_params *p);", header)
        self.assertIn("struct place_params {\n\tconst char *street;\n\tuint16_t number;\n};", header)
        self.assertIn("void method_box_list(struct rpc_request *request);", header)
        for absent in ("method_box_close", "method_box_tune", "method_box_all"):
            self.assertNotIn(absent, header)
        self.assertIn("struct box_open_params p = { .color = RPC_COLOR_GREEN };", source)
        self.assertIn('{ .name = "key", .type = RPC_STRING, .reason = "boxes have no locks", .rejected = true },', source)
        self.assertIn(".has_range = true, .low = 1, .high = 100", source)
        self.assertIn('{ "box_open", RPC_RUNTIME | RPC_CLIENTS_ONLY, call_box_open },', source)
        self.assertIn('{ "box_close", RPC_ALWAYS, call_box_open },', source)
        self.assertIn("accept_ignored_method(request, params, box_tune_fields, &logged);", source)
        self.assertNotIn('"size"', source)
        self.assertNotIn("box_all", source)

    def test_sorted_commands_are_generated_for_fathom_rpc(self):
        text = Output(self, SMALL).file("rpc_commands.gen.c")
        rows = [line for line in text.split("\n") if line.startswith("\t{ .name")]
        self.assertEqual([row.split('"')[1] for row in rows], ["box_all", "box_close", "box_list", "box_open"])
        self.assertIn('.help = "its width, in bytes; 1 to 100" }', text)
        self.assertIn('.long_flag = "--color", .choices = "red green", .help = "its color; one of red, green; default green" }', text)
        self.assertIn('{ .key = "street", .type = RPC_ARG_STRING, .flag = "-s", .long_flag = "--street", .group = "place", .required = true', text)
        self.assertIn('{ .key = "key", .type = RPC_ARG_STRING, .long_flag = "--key" },', text)
        self.assertIn('{ .key = "polish", .type = RPC_ARG_TRUE, .long_flag = "--polish", .help = "ignored" },', text)
        self.assertIn(".run = rpc_box_all }", rows[0])

    def test_completion_has_the_options_of_the_help(self):
        text = Output(self, SMALL).file("rpc_options.gen.inc")
        self.assertIn('{ .name = "street", .help = "the street", .letter = \'s\', .type = OPTION_TEXT, .argument = "VALUE" },', text)
        self.assertIn('.argument = "VALUE", .values = "red green" },', text)
        self.assertIn('{ .name = "polish", .help = "ignored", .type = OPTION_FLAG },', text)
        self.assertIn('{ .name = "box_list", .help = "list boxes", .table = &box_list_table },', text)
        self.assertNotIn('"key"', text)

    def test_the_page_has_each_method(self):
        page = Output(self, SMALL).page.stdout
        self.assertIn("### box_open\n\nOpen a box. After `framework_start_init`, not in a configuration. Result: `{\"box\"}`.", page)
        self.assertIn("| `width` | u32, bytes | `0` | `--width` | its width; 1 to 100 |", page)
        self.assertIn("| `color` | `red`, `green` | `green` | `--color` | its color |", page)
        self.assertIn("| `label` | string | the color | `--label` | its label |", page)
        self.assertIn("| `key` | string | none |  | *rejected:* boxes have no locks |", page)
        self.assertIn("| `polish` | bool |  | `--polish` | *ignored* |", page)
        self.assertIn("| `place.street` | string | required | `-s` `--street` | the street |", page)
        self.assertIn("*rejected:* boxes have no locks", page)
        self.assertNotIn("box_all", page)

    def test_each_own_method_has_help(self):
        table = method_table.read(os.path.join(FOLDER, "methods.def"))
        self.assertGreater(len(table.methods), 70)
        for method in table.methods:
            with self.subTest(method.name):
                self.assertRegex(method.does, r"^[a-z].*[^.]$")


if __name__ == "__main__":
    unittest.main()
