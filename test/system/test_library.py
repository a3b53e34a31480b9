# SPDX-License-Identifier: BSD-2-Clause
"""The example of docs/trace-your-own-daemon.md, and other programs, are built with an installed libfathom-trace and run."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

from harness import FATHOM, TOP, run

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(TOP, "docs", "trace-your-own-daemon.md")
STRICT = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
HEADERS = ["api", "format", "life", "record", "schema", "trace"]
STRANGER = """group visits "Who comes"
object box prefix=b struct=box story=story
object bag prefix=g struct=bag
enum color prefix=COLOR_ { RED GREEN=5 }
enum size prefix=SIZE_ { SMALL LARGE }
include "box.h"
machine box_state object=box ring=io prefix=BOX_ {
    SHUT: OPEN
    OPEN "really??=": SHUT
}
probe visited ring=io args: u32 times
probe painted object=box args: u64 when:ns, enum color color, str text, obj bag bag
"""
BOX = """#include <fathom/trace/format.h>
struct box { struct trace_story story; };
struct bag { struct trace_object trace; };
"""
root = None


def setUpModule():
    global root
    build = os.environ.get("FATHOM_BUILD")
    if not build:
        raise unittest.SkipTest("the build directory is needed (FATHOM_BUILD)")
    if not shutil.which("pkg-config"):
        raise unittest.SkipTest("pkg-config is missing")
    root = tempfile.mkdtemp(prefix="fathom-library-")
    run("meson", "install", "-C", build, "--no-rebuild", "--destdir", root)


def tearDownModule():
    if root:
        shutil.rmtree(root)


def find(name):
    for folder, _, files in os.walk(root):
        if name in files:
            return os.path.join(folder, name)
    raise AssertionError(f"{name} is not installed")


def text_of(path):
    with open(path, errors="replace") as file:
        return file.read()


def environment():
    return dict(os.environ, PKG_CONFIG_PATH=os.path.dirname(find("fathom-trace.pc")), PKG_CONFIG_SYSROOT_DIR=root,
                LD_LIBRARY_PATH=os.path.dirname(find("libfathom-trace.so.0")),
                PATH=os.path.join(root, "usr", "local", "bin") + ":" + os.environ["PATH"])


def flags(*words):
    return run("pkg-config", *words, "fathom-trace", env=environment()).stdout.split()


class LibraryTest(unittest.TestCase):
    names = 0

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="fathom-library-test-")
        self.addCleanup(shutil.rmtree, self.directory)
        LibraryTest.names += 1
        self.name = f"lib{os.getpid()}n{LibraryTest.names}"
        self.addCleanup(self.remove_traces)

    def remove_traces(self):
        for file in os.listdir("/dev/shm"):
            if file.startswith((self.name + "_trace.pid", self.name + "x_trace.pid")):
                os.unlink(os.path.join("/dev/shm", file))

    def path(self, name):
        return os.path.join(self.directory, name)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)

    def run_here(self, *command, **kwargs):
        return run(*command, cwd=self.directory, env=environment(), **kwargs)

    def generate_stranger_probes(self):
        self.write("stranger.def", STRANGER)
        self.write("box.h", BOX)
        self.run_here("fathom-probes", "--provider", "stranger", "stranger.def")

    def fathom_trace(self, *words, **kwargs):
        return run(FATHOM, "trace", *words, **kwargs).stdout

    def events(self, path):
        return [row for row in map(json.loads, self.fathom_trace("-f", path, "--json").splitlines()) if "args" in row]


class ExampleDaemon(LibraryTest):
    """The example daemon of the page."""

    def setUp(self):
        super().setUp()
        self.files = dict(re.findall(r"(?ms)^\*\*([\w.]+)\*\*\n\n```\w*\n(.*?)^```", text_of(PAGE)))
        for name, text in self.files.items():
            self.write(name, text.replace('.name = "kitchen"', f'.name = "{self.name}"'))

    def run_and_kill(self, program):
        with subprocess.Popen([program], env=environment(), stderr=subprocess.PIPE, text=True) as process:
            said = process.stderr.readline()
            process.send_signal(signal.SIGKILL)
        return re.fullmatch(r"all but 2 orders are served: (\S+)\n", said).group(1)

    def test_the_example_has_fewer_than_60_lines(self):
        self.assertLess(self.files["kitchen.c"].count("\n"), 60)

    def test_the_trace_of_the_killed_example_built_by_make_can_be_read(self):
        self.run_here("env", "CFLAGS=-Werror", "make", "kitchen")
        path = self.run_and_kill(self.path("kitchen"))
        stuck = self.fathom_trace("stuck", "-s", self.name, check=False)  # the page's command
        self.assertRegex(stuck, r"(?m)^order o13 +\[t1 table 7\] +COOKING for .*dish: STEAK")
        self.assertIn("# 2 stuck, 2 under way", stuck)
        summary = self.fathom_trace("summary", "-s", self.name)
        self.assertRegex(summary, r"order: 198 ended.*; 6 failed")
        self.assertRegex(summary, r"COOK_TAKES +kitchen +200 ")
        # every order that ended, the slowest first: a busy machine makes others slower than the four that take long
        slowest = re.findall(r"(?m)^ *\d+\. ([\d.]+) ms +order (o\d+) ", self.fathom_trace("slowest", "198", "-s", self.name))
        self.assertEqual([float(ms) for ms, _ in slowest], sorted((float(ms) for ms, _ in slowest), reverse=True))
        self.assertLessEqual({"o7", "o57", "o107", "o157"}, {order for ms, order in slowest if float(ms) >= 30})
        self.assertEqual(self.fathom_trace("slowest", "-s", self.name, "--failed").count("FAILED"), 6)
        self.assertRegex(self.fathom_trace("io", "o20", "-f", path), "COOK_TAKES .* cook: Auguste left: 80")
        self.assertRegex(self.fathom_trace("stages", "-f", path), "COOKING +198 .*on the stove")
        names = [event["name"] for event in self.events(path)]
        self.assertEqual({name: names.count(name) for name in set(names)},
                         {"kitchen_opens": 1, "cook_takes": 200, "order_state": 796})

    def test_the_example_can_be_built_by_meson(self):
        self.run_here("meson", "setup", "build")
        self.run_here("ninja", "-C", "build")
        self.assertEqual(len(self.events(self.run_and_kill(self.path("build/kitchen")))), 997)

    def test_the_example_can_be_linked_with_the_archive(self):
        self.run_here("fathom-probes", "--provider", "kitchen", "kitchen.def")
        self.run_here("cc", *STRICT, *flags("--cflags"), "kitchen.c", "kitchen_probes.c", find("libfathom-trace.a"), "-pthread", "-o", "kitchen")
        self.assertNotIn("fathom", self.run_here("ldd", "kitchen").stdout.replace(self.directory, ""))
        self.assertEqual(len(self.events(self.run_and_kill(self.path("kitchen")))), 997)

    def test_the_running_example_is_recorded(self):
        self.run_here("make", "kitchen")
        process = subprocess.Popen([self.path("kitchen")], env=environment(), stderr=subprocess.PIPE, text=True)
        try:
            process.stderr.readline()
            self.fathom_trace("record", "-p", process.pid, "-s", self.name, "--time", "1s", "-o", self.path("out.trace"))
        finally:
            process.kill()
            process.wait()
            process.stderr.close()
        self.assertEqual(len(self.events(self.path("out.trace"))), 997)

    def test_the_example_has_usdt_probes_of_its_own_provider(self):
        self.run_here("make", "kitchen")
        notes = self.run_here("readelf", "-n", "kitchen").stdout
        self.assertEqual(set(re.findall(r"Provider: (\w+)", notes)), {"kitchen"})
        self.assertEqual(set(re.findall(r"(?<!build )Name: (\w+)", notes)), {"order_state", "cook_takes", "kitchen_opens"})


class Headers(LibraryTest):
    def test_each_header_compiles_alone_as_strict_c11(self):
        for compiler in filter(shutil.which, ("gcc", "clang")):
            for name in HEADERS:
                self.write("alone.c", f"#include <fathom/trace/{name}.h>\nint main(void) {{ return 0; }}\n")
                self.run_here(compiler, *STRICT, *flags("--cflags"), "-fsyntax-only", "alone.c")

    def test_each_header_compiles_alone_as_strict_c_plus_plus(self):
        for compiler in filter(shutil.which, ("g++", "clang++")):
            for name in HEADERS:
                for standard in ("-std=c++11", "-std=c++17"):
                    self.write("alone.cc", f"#include <fathom/trace/{name}.h>\nint main() {{ return 0; }}\n")
                    # pkg-config must print -I: headers found by -isystem give no warnings
                    self.run_here(compiler, standard, *STRICT[1:], *flags("--cflags"), "-fsyntax-only", "alone.cc")

    def test_generated_code_is_strict_c11_and_its_header_c_plus_plus(self):
        self.generate_stranger_probes()
        for compiler in filter(shutil.which, ("gcc", "clang")):
            self.run_here(compiler, *STRICT, *flags("--cflags"), "-fsyntax-only", "stranger_probes.c")
            self.write("use.c", '#include "stranger_probes.h"\n')
            self.run_here(compiler, *STRICT, *flags("--cflags"), "-fsyntax-only", "use.c")
        self.write("use.cc", '#include "stranger_probes.h"\nvoid f(box *b) { box_state_move(trace_now(), b, BOX_OPEN); }\n')
        self.run_here("c++", "-std=c++11", *STRICT[1:], *flags("--cflags"), "-fsyntax-only", "use.cc")

    def test_headers_define_only_macros_with_our_prefixes(self):
        self.write("none.c", "#include <assert.h>\n#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n")
        self.write("all.c", "".join(f"#include <fathom/trace/{name}.h>\n" for name in HEADERS))
        before, after = (set(self.run_here("cc", "-std=c11", *flags("--cflags"), "-dM", "-E", file).stdout.splitlines())
                         for file in ("none.c", "all.c"))
        names = {line.split()[1] for line in after - before}
        self.assertEqual([name for name in names if not name.startswith(("TRACE_", "FATHOM_"))], [])


class ProbeCalls(LibraryTest):
    def setUp(self):
        super().setUp()
        self.generate_stranger_probes()

    def compile_statement(self, statement, *options):
        """[whether each compiler accepts `statement`], with only the warnings of `options`."""
        self.write("use.c", '#include "stranger_probes.h"\nvoid use(struct box *box, struct bag *bag, const struct trace_istr *text);\n'
                            f"void use(struct box *box, struct bag *bag, const struct trace_istr *text)\n{{ (void)box, (void)bag, (void)text; {statement} }}\n")
        return [self.run_here(compiler, "-std=c11", *options, *flags("--cflags"), "-fsyntax-only", "use.c", check=False).returncode == 0
                for compiler in filter(shutil.which, ("gcc", "clang"))]

    def test_probe_calls_with_right_arguments_compile(self):
        for statement in ("probe_painted(2, box, 3, COLOR_RED, text, bag);", "probe_painted(2, box, 3, COLOR_RED, text, 0);",
                          "box_state_move(trace_now(), box, BOX_OPEN);"):
            self.assertNotIn(False, self.compile_statement(statement, "-Wall", "-Wextra", "-Werror"), statement)

    def test_probe_calls_with_wrong_arguments_do_not_compile(self):
        for statement in ("probe_painted(2, box, 3, COLOR_RED, text);", "probe_painted(2, box, 3, COLOR_RED, text, bag, 1);",
                          "probe_painted(2, bag, 3, COLOR_RED, text, bag);", "probe_painted(2, box, 3, COLOR_RED, text, box);",
                          "probe_painted(2, box, 3, COLOR_RED, \"text\", bag);", "probe_painted(2, box, \"3\", COLOR_RED, text, bag);",
                          "probe_painted(2, 5, 3, COLOR_RED, text, bag);"):
            self.assertNotIn(True, self.compile_statement(statement), statement)

    def test_a_value_of_another_enum_does_not_compile(self):
        self.assertNotIn(True, self.compile_statement("probe_painted(2, box, 3, SIZE_LARGE, text, bag);", "-Wenum-conversion", "-Werror"))

    def test_recording_calls_only_the_function_that_counts_unregistered_threads(self):
        """Code for a shared library must reach thread-local storage by GOTTPOFF, without a call of __tls_get_addr()."""
        self.write("hot.c", '#include "stranger_probes.h"\nvoid hot(uint64_t now, struct box *box);\n'
                            "void hot(uint64_t now, struct box *box)\n{ probe_visited(now, box->story.args[0]); }\n")
        for mode in ("-fPIE", "-fPIC"):
            self.run_here("cc", *STRICT, "-O2", mode, *flags("--cflags"), "-c", "hot.c")
            code = self.run_here("objdump", "-dr", "--no-show-raw-insn", "hot.o").stdout
            called = set(re.findall(r"R_X86_64_(?:PLT32|PC32)\s+(fathom_trace_\w+?)-0x4", code)) | set(re.findall(r"__tls_get_addr", code))
            self.assertLessEqual({name for name in called if not re.search("masks|owners|self", name)},
                                 {"fathom_trace_count_unregistered"}, code)
            self.assertIn("GOTTPOFF", code)


class Generator(LibraryTest):
    def test_fathom_probes_shows_help_and_refuses_wrong_arguments(self):
        self.assertIn("--provider NAME", self.run_here("fathom-probes", "--help").stdout)
        self.write("a.def", STRANGER)
        for words in (["a.def"], ["--provider", "fathom", "a.def"], ["--provider", "A-b", "a.def"], ["--provider", "x", "none.def"]):
            done = self.run_here("fathom-probes", *words, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertRegex(done.stderr, "provider|none.def")
        self.write("a.def", STRANGER + "probe x args: u24 y\n")
        self.assertIn("a.def:13: argument", self.run_here("fathom-probes", "--provider", "x", "a.def", check=False).stderr)
        self.assertEqual(os.listdir(self.directory), ["a.def"])


class OtherPrograms(LibraryTest):
    def setUp(self):
        super().setUp()
        self.generate_stranger_probes()
        self.run_here("cc", *STRICT, "-O1", *flags("--cflags"), f"-I{self.directory}", os.path.join(HERE, "use_trace.c"), "stranger_probes.c",
                  *flags("--libs"), "-pthread", "-o", "use_trace")

    def run_use_trace(self, case):
        return self.run_here(self.path("use_trace"), case, self.name).stdout

    def header(self):
        return self.fathom_trace("-s", self.name, "--json").splitlines()[0]

    def test_ended_threads_free_their_slots_and_threads_without_a_slot_are_counted(self):
        self.assertEqual(self.run_use_trace("slots"), "one at a time: 30 attached\ntogether: 4 attached\n")
        header = json.loads(self.header())["trace"]
        self.assertEqual((header["unregistered"], header["refused_threads"]), (2, 2))
        self.assertIn("2 unregistered (2 threads got no slot)", self.fathom_trace("-s", self.name))

    def test_a_trace_can_be_closed_while_threads_record(self):
        self.assertEqual(self.run_use_trace("close"), "closed\n")

    def test_a_forked_child_does_not_write_its_parents_trace(self):
        said = self.run_use_trace("fork")
        child = int(re.fullmatch(r"child ended with 0: (\d+)\n", said).group(1))
        times = {file.endswith(f"pid{child}"): [event["args"]["times"] for event in self.events(os.path.join("/dev/shm", file))]
                 for file in os.listdir("/dev/shm") if file.startswith(self.name + "_")}
        self.assertEqual(times, {True: [3], False: [1, 4]})

    def test_each_wrong_option_is_refused_with_a_reason(self):
        said = self.run_use_trace("refuse").splitlines()
        for line, words in zip(said, ("no /", "nonsense", "64 threads", "power of two", "version 2", "no schema", "has a trace open")):
            self.assertIn(words, line)
        self.assertEqual(len(said), 7)

    def test_two_programs_with_different_tables_of_one_provider_are_read(self):
        self.assertIn("closed", self.run_use_trace("close"))
        self.run_use_trace("slots")
        other = self.name + "x"
        self.write("stranger.def", 'group other "Another table"\nprobe visited args: u32 times, u32 more\nprobe unused\n')
        self.run_here("fathom-probes", "--provider", "stranger", "stranger.def")
        self.write("other.c", '#include "stranger_probes.h"\nint main(void) { struct trace_options o = { .schema = &stranger_schema, '
                              f'.name = "{other}", .groups = "other:visited" }};\n if (trace_open(&o, 0) || trace_thread_attach("m", -1, true))'
                              " return 1;\n probe_unused(trace_now()); probe_visited(trace_now(), 5, 6); return 0; }\n")
        self.run_here("cc", *STRICT, *flags("--cflags"), "other.c", "stranger_probes.c", *flags("--libs"), "-o", "other")
        self.run_here(self.path("other"))
        rows = [json.loads(line) for line in self.fathom_trace("-s", other, "--json").splitlines()]
        self.assertEqual([row["args"] for row in rows if "args" in row], [{"times": 5, "more": 6}])
        mine = self.fathom_trace("-s", self.name)
        self.assertIn("times: 7", mine)
        self.assertNotIn("more:", mine)


class Library(LibraryTest):
    def test_the_library_defines_only_the_global_names_that_its_headers_declare(self):
        declared = set()
        for name in HEADERS:
            declared |= set(re.findall(r"TRACE_API\(\s*(trace_\w+)\)", text_of(find_header(name))))
        declared = sorted("fathom_" + name for name in declared)
        for words in (["-D", find("libfathom-trace.so.0")], ["-g", find("libfathom-trace.a")]):
            lines = [line.split() for line in run("nm", "--defined-only", *words).stdout.splitlines()]
            self.assertEqual(sorted(words[2] for words in lines if len(words) == 3), declared)

    def test_the_library_contains_no_nvmf_names_of_the_engine(self):
        for name in ("libfathom-trace.so.0", "libfathom-trace.a"):
            self.assertNotIn("nvmf_", text_of(find(name)))


def find_header(name):
    return os.path.join(root, "usr", "local", "include", "fathom", "trace", name + ".h")


if __name__ == "__main__":
    unittest.main()
