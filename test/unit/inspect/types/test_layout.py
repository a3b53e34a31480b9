# SPDX-License-Identifier: BSD-2-Clause
"""
The declarations that types_declare() prints for a program, compiled by real compilers, give every member of every structure the
program's layout, as gdb reads both.
"""

import json
import os
import random
import re
import shutil
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
DECLARE = os.environ.get("TYPES_DECLARE", "")
COMPILERS = [compiler for compiler in ("gcc", "clang") if shutil.which(compiler)]
ASKED = ("everything", "text", "zero", "holds_twice", "bits", "aligned", "packed", "packed_bits", "nested", "hidden")
NOT_WRITTEN = {"real", "reals", "longest", "wide", "complex"}   # bpftrace has no such numbers: gaps

# run by gdb's own Python: {structure: {member: [bit, bits, bytes]}}; gdb describes bit fields by their own offsets
MEMBERS = """
import gdb, json
def members(type, at, names):
    found = {}
    for field in type.fields():
        if not hasattr(field, "bitpos") or (field.name or "").startswith("gap_"):
            continue
        inner = field.type.strip_typedefs()
        start, name = at + field.bitpos, names + ([field.name] if field.name else [])
        while inner.code == gdb.TYPE_CODE_ARRAY:
            if inner.range()[1] < 0:
                break
            inner = inner.target().strip_typedefs()
        if field.name:
            size = 0 if field.type.strip_typedefs().code == gdb.TYPE_CODE_ARRAY and inner.code == gdb.TYPE_CODE_ARRAY else field.type.sizeof
            found[".".join(name)] = [start, field.bitsize, None if field.bitsize else size]
        if inner.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
            found.update(members(inner, start, name))
    return found
out = {}
for name in %r:
    for kind in ("struct", "union"):
        try:
            type = gdb.lookup_type(kind + " " + name)
        except gdb.error:
            continue
        out[name] = dict(members(type, 0, []), **{"": [0, 0, type.sizeof]})
print("JSON" + json.dumps(out))
"""


def run(*command, check=True, **more):
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, **more)
    if check and done.returncode:
        raise AssertionError(f"{' '.join(command)}: {done.stderr}")
    return done


class TypesTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="fathom-types-")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def program(self, compiler="gcc", *options, name="program"):
        run(compiler, "-w", "-g", "-fno-eliminate-unused-debug-types" if compiler == "gcc" else "-fstandalone-debug", *options,
            os.path.join(HERE, "layouts.c"), os.path.join(HERE, "other.c"), "-o", self.path(name))
        return self.path(name)

    def declare(self, program, *wanted, check=True, **env):
        return run(DECLARE, program, *wanted, check=check, env=dict(os.environ, **env))

    def members(self, program, names):
        out = run("gdb", "-q", "-nx", "-batch", "-ex", "python\n" + MEMBERS % (list(names),), program).stdout
        return json.loads(next(line[4:] for line in out.splitlines() if line.startswith("JSON")))

    def compiled(self, text, compiler="gcc"):
        """Compile a program with these declarations."""
        tags = re.findall(r"^(struct|union) (\w+)", text, re.MULTILINE)
        source = text + "".join(f"{kind} {tag} *use_{tag};\n" for kind, tag in tags) + "int main(void) { return 0; }\n"
        with open(self.path("declared.c"), "w", encoding="utf-8") as file:
            file.write(source)
        run(compiler, "-g", "-Werror", self.path("declared.c"), "-o", self.path("declared"))
        return self.path("declared"), [tag for _, tag in tags]


class Layout(TypesTest):
    def compare(self, program, compiler):
        text = self.declare(program, *(f"struct:{name}" for name in ASKED)).stdout
        declared, tags = self.compiled(text, compiler)
        self.assertLessEqual(set(ASKED) | {"both", "empty"}, set(tags))
        names = [tag for tag in tags if tag != "twice"]     # of which gdb takes either
        theirs, ours = self.members(program, names), self.members(declared, names)
        self.assertGreater(len(theirs["everything"]), 60)
        for name in names:
            expected = {key: value for key, value in theirs[name].items() if key.split(".")[0] not in NOT_WRITTEN}
            self.assertEqual(ours[name], expected, name)

    def test_each_member_has_the_offset_of_the_program(self):
        for compiler in COMPILERS:
            for options in (["-gdwarf-5"], ["-gdwarf-4", "-O2"], ["-gdwarf-3"], ["-gdwarf-2", "-gstrict-dwarf"],
                            ["-fdebug-types-section"], ["-gz"]):
                with self.subTest(compiler=compiler, options=options):
                    self.compare(self.program(compiler, *options), "clang" if compiler == "gcc" and "clang" in COMPILERS else "gcc")

    def test_pointers_declare_only_the_name_of_their_structure(self):
        program = self.program()
        text = self.declare(program, "struct:everything").stdout
        self.assertNotIn("struct hidden", text)
        self.assertIn(" void *hidden;", text)
        text = self.declare(program, "struct:everything", "member:hidden", "member:slots").stdout
        self.assertIn("struct hidden { int found;", text)
        self.assertIn(" struct hidden *hidden;", text)
        self.assertIn(" struct nested *slots[5];", text)
        text = self.declare(program, "struct:other", "member:next").stdout
        self.assertIn(" struct other *next;", text)
        self.assertNotIn("nested", text.replace("void *unfollowed", ""))

    def test_enumerators_have_their_values(self):
        program = self.program()
        text = self.declare(program, "word:PLAIN_B", "word:LOOSE_A", "word:LOOSE_B", "word:nothing", "enum:signed_one", "enum:large").stdout
        values = dict(re.findall(r" (\w+) = (\S+),", text))
        self.assertEqual(values, {"PLAIN_B": "200", "LOOSE_A": "77", "LOOSE_B": "3000000000", "SIGNED_A": "-5", "SIGNED_B": "7",
                                  "LARGE_A": "1", "LARGE_B": "9223372036854775809ul"})
        self.compiled(text + """_Static_assert(PLAIN_B == 200 && LOOSE_B == 3000000000u && SIGNED_A == -5, "");
_Static_assert(LARGE_B == 0x8000000000000001ul && sizeof(enum large) == 8 && sizeof(enum signed_one) == 4, "");
""")
        self.compiled(self.declare(program, "enum:small").stdout + '_Static_assert(sizeof(enum small) == 1, "");')
        self.assertEqual(self.declare(program, "word:nothing").stdout, "", "nothing is to be declared")
        self.assertNotIn("LOOSE_A", self.declare(program, "word:LOOSE_A", "word:LOOSE_B", "taken:LOOSE_A").stdout)

    def test_typedefs_and_enums_become_types_of_bpftrace(self):
        text = self.declare(self.program(), "cast:nested_t", "cast:nested_ref", "cast:point_t", "cast:count_t", "cast:callback_t",
                            "enum:signed_one", "enum:large", "enum:small").stdout
        aliases = dict(re.findall(r"^// (.+) = (.+)$", text, re.MULTILINE))
        self.assertEqual(aliases, {"nested_t": "struct nested", "nested_ref": "struct nested *", "point_t": "struct point_t",
                                   "count_t": "uint32", "enum signed_one": "int32", "enum large": "uint64", "enum small": "uint8"})
        self.assertIn("struct point_t { int x; int y; }", text)

    def test_an_ambiguous_name_is_refused_if_requested(self):
        program = self.program()
        for wanted in ("struct:twice", "word:TWICE"):
            done = self.declare(program, wanted, check=False)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertRegex(done.stderr, r"has two definitions, in layouts\.c \(line \d+\) and in other\.c \(line \d+\)")

    def test_an_ambiguous_structure_that_was_not_requested_is_opaque(self):
        program = self.program()
        text = self.declare(program, "struct:holds_twice", "struct:holds_other_twice").stdout
        declared, tags = self.compiled(text)
        self.assertEqual(set(tags), {"twice", "twice__2", "hidden", "holds_twice", "holds_other_twice"})
        names = ["holds_twice", "holds_other_twice"]
        self.assertEqual(self.members(declared, names), self.members(program, names))
        text = self.declare(program, "struct:holds_twice", "taken:twice").stdout
        self.assertIn("struct twice__2 own;", text)

    def test_structures_with_names_of_the_kernel_get_another_name(self):
        program = self.program()
        if not os.path.exists("/sys/kernel/btf/vmlinux"):
            self.skipTest("this kernel has no BTF")
        for name, answer in (("task_struct", "1"), ("sockaddr_storage", "0"), ("__kernel_sockaddr_storage", "1"), ("pid", "1"), ("comm", "0")):
            self.assertEqual(self.declare(program, f"has:{name}").stdout.splitlines()[0], answer, name)
        with open(self.path("list.c"), "w", encoding="utf-8") as file:
            file.write("struct list_head { int mine; }; struct x { struct list_head head; } x; int main(void) { return x.head.mine; }")
        run("gcc", "-g", self.path("list.c"), "-o", self.path("list"))
        self.assertIn("struct list_head head;", self.declare(self.path("list"), "struct:x").stdout)
        self.assertIn("struct list_head__2 head;", self.declare(self.path("list"), "struct:x", "kernel:").stdout)
        text = self.declare(self.path("list"), "struct:x", "struct:list_head", "kernel:").stdout
        self.assertIn("struct list_head__2 head;", text)
        self.assertIn("// struct list_head = struct list_head__2\n", text)
        self.assertNotIn("// struct x", text)


    def test_a_damaged_program_is_declared_in_part_or_refused(self):
        with open(self.program(), "rb") as file:
            whole = file.read()
        sections = run("readelf", "-S", "--wide", self.path("program")).stdout
        places = {name: [int(word, 16) for word in re.search(rf"\.debug_{name} +\w+ +\w+ (\w+) (\w+)", sections).groups()]
                  for name in ("info", "abbrev", "str")}
        chance = random.Random(1)
        for _ in range(100):
            damaged = bytearray(whole)
            for _ in range(chance.choice((1, 1, 4, 64))):
                at, size = places[chance.choice(("info", "info", "abbrev", "str"))]
                damaged[at + chance.randrange(size)] = chance.choice((0, 1, 0x7f, 0x80, 0xff))
            with open(self.path("damaged"), "wb") as file:
                file.write(damaged)
            done = self.declare(self.path("damaged"), *(f"struct:{name}" for name in ASKED), "member:next", "member:hidden", "cast:point_t",
                                "enum:large", "word:LOOSE_A", check=False)
            self.assertIn(done.returncode, (0, 1), "neither success nor an error")


class DebugFiles(TypesTest):
    def split(self, program, to, link=True):
        run("objcopy", "--only-keep-debug", program, to)
        run("strip", "--strip-unneeded", program)
        if link:
            run("objcopy", f"--add-gnu-debuglink={to}", program)

    def assert_refused(self, program):
        done = self.declare(program, "struct:nested", check=False)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("has no debug information, and there is no debug file of it", done.stderr)

    def test_debug_file_beside_the_program_is_found(self):
        program = self.program()
        self.split(program, self.path("program.debug"))
        self.assertIn("struct nested {", self.declare(program, "struct:nested").stdout)
        os.mkdir(self.path(".debug"))
        os.rename(self.path("program.debug"), self.path(".debug/program.debug"))
        self.assertIn("struct nested {", self.declare(program, "struct:nested").stdout)
        os.unlink(self.path(".debug/program.debug"))
        self.assert_refused(program)

    def test_debug_file_is_found_by_its_build_id(self):
        program = self.program()
        found = re.search(r"Build ID: (\w\w)(\w+)", run("readelf", "-n", program).stdout)
        folder = self.path(f"usr/lib/debug/.build-id/{found[1]}")
        os.makedirs(folder)
        self.split(program, os.path.join(folder, found[2] + ".debug"), link=False)
        self.assertIn("struct nested {", self.declare(program, "struct:nested", TYPES_ROOT=self.folder).stdout)
        self.assert_refused(program)

    def test_debug_file_of_another_build_is_not_used(self):
        program, other = self.program(), self.program("gcc", "-DOTHER", "-O2", name="other")
        self.split(program, self.path("program.debug"))
        self.split(other, self.path("program.debug"))
        self.assert_refused(program)

    def test_a_file_that_is_not_a_program_is_refused(self):
        self.assert_refused(os.path.join(HERE, "layouts.c"))
        done = self.declare("/no/such", "struct:nested", check=False)
        self.assertIn("cannot open /no/such: No such file", done.stderr)


if __name__ == "__main__":
    unittest.main()
