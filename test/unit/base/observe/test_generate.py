# SPDX-License-Identifier: BSD-2-Clause
"""The generator: errors name file and line, and the generated code refuses wrong arguments."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

TOP = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 4))
GENERATE = os.path.join(TOP, "src/base/observe/probe/generate.py")
HEADER = """
#include <stdbool.h>
#include "fathom/trace/format.h"
struct box { struct trace_story story; };
struct bag { struct trace_object trace; };
"""
DEFS = """group g "a group"
include "m/m.h"
object box prefix=b struct=box id=story.trace story=story
object bag prefix=a struct=bag id=trace
enum color prefix=COLOR_ { RED GREEN=5 }
enum size prefix=SIZE_ { SMALL LARGE }
machine box_state object=box ring=io prefix=BOX_ {
    SHUT: OPEN
    OPEN: SHUT
}
probe painted object=box ring=io args: u32 times, enum color color
probe said args: str text, obj bag bag
"""


class Folder:
    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="fathom-generate-")
        for name in ("src/m", "out/m", "out/base/observe/trace"):
            os.makedirs(os.path.join(self.path, name))
        self.write("src/m/m.h", HEADER)

    def write(self, name, text):
        with open(os.path.join(self.path, name), "w") as file:
            file.write(text)

    def generate(self, defs):
        self.write("src/m/probes.def", defs)
        for module in ("m", "base/observe/trace"):
            done = subprocess.run([sys.executable, GENERATE, "--srcdir", f"{self.path}/src", "--module", module, "--outdir",
                                   f"{self.path}/out/{module}", f"{self.path}/src/m/probes.def"], capture_output=True, text=True)
            if done.returncode:
                return done.stderr
        return ""

    def compile(self, statement):
        self.write("use.c", f"#include \"m/probes.gen.h\"\nvoid use(struct box *box, struct bag *bag, const struct trace_istr *text);\n"
                            f"void use(struct box *box, struct bag *bag, const struct trace_istr *text)\n{{ {statement} }}\n")
        return subprocess.run(["cc", "-std=gnu11", "-Wall", "-Wextra", "-Wenum-conversion", "-Werror", "-Wno-unused-parameter",
                               "-D_GNU_SOURCE", f"-I{self.path}/out", f"-I{self.path}/src", f"-I{TOP}/src", f"-I{TOP}/include", "-fsyntax-only",
                               f"{self.path}/use.c"], capture_output=True, text=True)


class Errors(unittest.TestCase):
    def setUp(self):
        self.folder = Folder()
        self.addCleanup(shutil.rmtree, self.folder.path)

    def expect(self, row, words, line=13):
        said = self.folder.generate(DEFS + row)
        self.assertIn(f"probes.def:{line}: ", said)
        self.assertIn(words, said)
        self.assertEqual(os.listdir(f"{self.folder.path}/out/m"), [], "something was written")

    def test_valid_rows_are_accepted(self):
        self.assertEqual(self.folder.generate(DEFS), "")

    def test_an_unknown_row_is_refused(self):
        self.expect("prob x\n", "prob")

    def test_an_unknown_type_is_refused(self):
        self.expect("probe x args: u24 y\n", "no type `u24`")

    def test_an_unknown_unit_is_refused(self):
        self.expect("probe x args: u32 y:miles\n", "miles")

    def test_an_invalid_name_is_refused(self):
        self.expect("probe X args: u32 y\n", "`X")
        self.expect("probe x args: u32 9\n", "not a name")

    def test_a_duplicate_is_refused(self):
        self.expect("probe painted\n", "declared twice")

    def test_too_many_bytes_for_the_io_ring_are_refused(self):
        self.expect("probe x ring=io args: u64 a, u64 b\n", "too many")

    def test_an_unknown_attribute_is_refused(self):
        self.expect("probe x rings=io\n", "rings=io")

    def test_an_invalid_program_of_a_group_is_refused(self):
        self.expect('group h program=nobody "x"\n', "program=nobody: there are fathom-agent, fathom-engine, fathom-probed, fathom-server")
        self.expect('group g program=fathom-probed "x"\n', "group `g` was of every program above")
        self.expect('group h color=red "x"\n', "color=red")

    def test_an_invalid_order_for_usdt_is_refused(self):
        self.expect("probe x usdt=b args: u32 a\n", "usdt=b: write some of a, each once")
        self.expect("probe y object=bag usdt=a,a args: u32 a\n", "usdt=a,a: write some of object,a, each once")

    def test_an_unknown_ring_is_refused(self):
        self.expect("probe x ring=fast\n", "ring=fast")

    def test_a_move_to_an_unknown_state_is_refused(self):
        self.expect("machine bag_state object=bag {\n A: B\n C: A\n}\n", "no state")

    def test_ambiguous_prefixes_are_refused(self):
        self.expect("object c prefix=a\n", "prefix=a is that of `bag`")
        self.expect("object c prefix=abc\n", "one or two letters")
        self.expect("object c prefix=c1\n", "one or two letters")
        self.expect("owner x\nowner y prefix=x\n", "prefix=x is that of `x`", 14)
        self.assertEqual(self.folder.generate(DEFS + "object c prefix=ab\nowner x prefix=a\n"), "")

    def test_invalid_states_are_refused(self):
        self.expect("machine m object=bag {\n A sleeping: B\n B: A\n}\n", "`sleeping` is not `resting`")
        self.expect("machine m object=bag {\n A \"half: B\n B: A\n}\n", "write STATE")
        self.expect("machine m object=bag {\n A\n B: A\n}\n", "write STATE")

    def test_invalid_records_of_moves_are_refused(self):
        self.expect("object c struct=box id=story.trace story=story\nmachine m object=c records=x story-args: u32 y {\n A: B\n B: A\n}\n",
                    "records=x", 14)
        self.expect("object c struct=box id=story.trace story=story\nmachine m object=c records=y story-args: u64 y {\n A: B\n B: A\n}\n",
                    "records=y", 14)
        self.expect("machine m object=bag records=y story-args: u32 y {\n A: B\n B: A\n}\n", "without a story")

    def test_an_unfinished_row_is_refused(self):
        self.expect("enum e {\n A\n", "never ends")

    def test_an_enum_without_a_body_is_refused(self):
        self.expect("enum e\n", "body")

    def test_unknown_references_name_file_and_line(self):
        self.expect("probe x args: enum nope y\n", "no enum `nope`")
        self.expect("probe x args: obj nope y\n", "no object `nope`")
        self.expect("probe x object=nope\n", "no object `nope`")
        self.expect("probe x object=box moves=NOPE\n", "NOPE")
        self.expect("machine x object=nope {\n A: B\n B: A\n}\n", "no object `nope`")


class Programs(unittest.TestCase):
    """One table for several programs: they share ids, but not groups and schemas."""

    def setUp(self):
        self.folder = Folder()
        self.addCleanup(shutil.rmtree, self.folder.path)

    def schema(self, text, name):
        rows = re.search(rf"struct trace_schema {name} = .*?group_count = (\d+)", text, re.S)
        lines = re.search(rf"char {name}_json\[\] =\n(.*?)\n\t;", text, re.S)[1]
        return int(rows[1]), json.loads("".join(json.loads(line) for line in lines.split("\n")))

    def test_each_program_has_the_points_of_its_groups_and_of_common_groups(self):
        self.assertEqual(self.folder.generate(DEFS + 'group e program=fathom-engine "engine"\nprobe x args: u32 a\n'
                                              'group p program=fathom-probed "registry"\nobject only prefix=o struct=bag id=trace\n'
                                              'probe y object=only args: u32 a\n'), "")
        with open(f"{self.folder.path}/out/base/observe/trace/schema.gen.c") as file:
            text = file.read()
        for name, mine, objects in (("fathom_schema", "x", ["box", "bag"]), ("fathom_probed_schema", "y", ["box", "bag", "only"])):
            groups, schema = self.schema(text, name)
            self.assertEqual(groups, 2)
            self.assertEqual([group["name"] for group in schema["groups"]], ["g", "e" if mine == "x" else "p"])
            self.assertEqual([point["name"] for point in schema["points"]], ["box_state", "painted", "said", mine])
            self.assertEqual([row["name"] for row in schema["objects"]], objects)
            self.assertEqual(schema["points"][-1]["id"], 4 if mine == "x" else 5)

    def test_a_group_may_belong_to_several_programs(self):
        self.assertEqual(self.folder.generate(DEFS + 'group s program=fathom-engine,fathom-server "shared"\nprobe x args: u32 a\n'), "")
        with open(f"{self.folder.path}/out/base/observe/trace/schema.gen.c") as file:
            text = file.read()
        for name, groups in (("fathom_schema", 2), ("fathom_server_schema", 2), ("fathom_probed_schema", 1)):
            count, schema = self.schema(text, name)
            self.assertEqual((count, len(schema["groups"])), (groups, groups))
            self.assertEqual("x" in [point["name"] for point in schema["points"]], groups == 2)


class Compiling(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Folder()
        assert cls.folder.generate(DEFS) == ""

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder.path)

    def good(self, statement):
        done = self.folder.compile(statement)
        self.assertEqual(done.returncode, 0, done.stderr)

    def bad(self, statement):
        self.assertNotEqual(self.folder.compile(statement).returncode, 0, statement)

    def test_correct_arguments_compile(self):
        self.good("probe_painted(2, box, 3, COLOR_RED); probe_said(2, text, bag); probe_said(2, text, 0);"
                  " box_state_move(2, box, BOX_OPEN);")

    def test_a_wrong_number_of_arguments_does_not_compile(self):
        self.bad("probe_painted(2, box, 3);")
        self.bad("probe_painted(2, box, 3, COLOR_RED, 4);")

    def test_a_wrong_type_of_argument_does_not_compile(self):
        self.bad("probe_painted(2, box, \"3\", COLOR_RED);")
        self.bad("probe_said(2, \"text\", bag);")

    def test_a_wrong_object_does_not_compile(self):
        self.bad("probe_painted(2, bag, 3, COLOR_RED);")
        self.bad("probe_said(2, text, box);")

    def test_a_wrong_enum_does_not_compile(self):
        self.bad("probe_painted(2, box, 3, SIZE_LARGE);")
        self.bad("box_state_move(2, box, COLOR_RED);")

    def test_names_of_values_compile(self):
        self.good("const char *a = color_name(COLOR_GREEN), *b = box_state_name(BOX_OPEN); (void)a; (void)b;")


class Usdt(unittest.TestCase):
    """The arguments of a row's USDT probe."""

    def fires(self, row, name):
        folder = Folder()
        self.addCleanup(shutil.rmtree, folder.path)
        self.assertEqual(folder.generate(DEFS + row), "")
        with open(f"{folder.path}/out/m/probes.gen.h") as header:
            line = next(line for line in header if f"(m, {name}, " in line or f"(fathom, {name}, " in line)
        return line.partition(f"{name}, ")[2].rstrip(");\n").split(", ")

    def test_the_object_follows_the_tick(self):
        self.assertEqual(self.fires("", "painted"), ["now", "object", "times", "color"])

    def test_the_order_of_arguments_can_be_changed(self):
        self.assertEqual(self.fires("probe x object=bag usdt=b,object args: u32 a, u32 b\n", "x"), ["now", "b", "object", "a"])
        self.assertEqual(self.fires("machine bag_state object=bag prefix=BAG_ field=state usdt=to {\n    A: B\n    B: A\n}\n", "bag_state"),
                         ["now", "to", "object", "from"])

    def test_the_probe_gets_the_address_of_a_function(self):
        self.assertEqual(self.fires("probe x args: function what\n", "x"), ["now", "what"])


if __name__ == "__main__":
    unittest.main()
