# SPDX-License-Identifier: BSD-2-Clause
"""
scripts/run-tests and make's targets on a project of five tests; scripts/flamegraph; scripts/check-docs; scripts/run;
the README's tour.
"""

import glob
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from xml.etree import ElementTree

from harness import BIN, TOP, EngineTest, free_port

MESON_BUILD = """project('fathom', 'c')
test('good cases', find_program('good.sh'), protocol: 'tap', suite: 'one')
test('other cases', find_program('other.sh'), protocol: 'tap', suite: 'one')
test('crashes', executable('crashes', 'crashes.c'), suite: 'two')
test('passes', executable('passes', 'passes.c', install: true), suite: 'two')
test('alone', find_program('good.sh'), protocol: 'tap', suite: 'three', is_parallel: false)
test('slow', find_program('slow.sh'), suite: 'three', is_parallel: false)
"""
# It runs until the test has seen its progress.
SLOW = """#!/bin/sh
echo half of it >> "$FATHOM_PROGRESS/slow"
while [ -n "$FATHOM_GO_ON" ] && [ ! -e "$FATHOM_GO_ON" ]; do sleep 0.05; done
"""
MESON_OPTIONS = "option('tests', type: 'boolean', value: true)\n"     # `make install` turns it off
SCRIPT = """#!/bin/sh
n=0
has() {
    echo "$1" | grep -q -- "${FATHOM_TEST_CASES:-.}" || return 0
    n=$((n + 1))
    [ -z "$2" ] || echo "# needs a moon"
    echo "ok $n - $1$2"
}
"""
GOOD = SCRIPT + "has it_rises\nhas it_sets\necho 1..$n\n"
OTHER = SCRIPT + "has it_waxes ' # SKIP'\necho 1..$n\n"


class Scripts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="fathom-")
        cls.build = os.path.join(cls.directory, "build")
        for name, text in (("meson.build", MESON_BUILD), ("meson_options.txt", MESON_OPTIONS), ("good.sh", GOOD), ("other.sh", OTHER), ("slow.sh", SLOW),
                           ("crashes.c", "int main(void) { __builtin_trap(); }\n"), ("passes.c", "int main(void) { return 0; }\n")):
            path = os.path.join(cls.directory, name)
            with open(path, "w") as file:
                file.write(text)
            os.chmod(path, 0o755)
        subprocess.run(["meson", "setup", cls.build, cls.directory], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["ninja", "-C", cls.build], check=True, stdout=subprocess.DEVNULL)
        os.makedirs(os.path.join(cls.build, "test"))
        with open(os.path.join(cls.build, "test", "suite-minutes.json"), "w") as file:
            file.write("{}")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.directory)

    def run_tests(self, *words):
        """(exit status, what was printed)"""
        done = subprocess.run([os.path.join(TOP, "scripts", "run-tests"), "--build", self.build, "--no-lint", *words],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertNotIn("Traceback", done.stdout)
        return done.returncode, done.stdout

    def test_a_suite_is_run(self):
        status, said = self.run_tests("--suite", "one")
        self.assertEqual(status, 0, said)
        self.assertIn("2 passed, 0 failed, 1 skipped", said)

    def test_a_skip_is_explained_by_the_line_before_it(self):
        self.assertIn("it_waxes: needs a moon", self.run_tests("--suite", "one")[1])

    def test_a_name_selects_a_case_and_programs_without_it_are_not_skips(self):
        status, said = self.run_tests("--suite", "one", "--name", "it_sets")
        self.assertEqual(status, 0, said)
        self.assertIn("1 passed, 0 failed, 0 skipped", said)

    def test_a_name_that_matches_no_test_fails(self):
        status, said = self.run_tests("--suite", "one", "--name", "it_explodes")
        self.assertEqual(status, 1, said)
        self.assertIn("no test matches NAME=it_explodes", said)

    def test_a_name_that_is_not_a_regular_expression_is_refused(self):
        status, said = self.run_tests("--name", "(")
        self.assertEqual(status, 1)
        self.assertIn("NAME=( is not a regular expression", said)

    def test_an_unknown_suite_lists_the_suites(self):
        status, said = self.run_tests("--suite", "nosuch")
        self.assertEqual(status, 1)
        self.assertIn("check one three two", said)

    def test_only_what_the_chosen_tests_need_is_built(self):
        source = os.path.join(self.directory, "crashes.c")
        good = open(source).read()
        self.addCleanup(lambda: open(source, "w").write(good))
        with open(source, "w") as file:
            file.write("no C\n")
        status, said = self.run_tests("--name", "passes")
        self.assertEqual(status, 0, said)
        status, said = self.run_tests("--name", "crashes")
        self.assertEqual(status, 1)
        self.assertIn("the build failed", said)

    def test_lanes_run_side_by_side_and_are_counted_together(self):
        status, said = self.run_tests("--name", "passes|alone")
        self.assertEqual(status, 0, said)
        self.assertIn("machine: 1/1 ", said)
        self.assertIn("rest: 1/1", said)
        self.assertIn("3 passed, 0 failed, 0 skipped", said)

    def test_what_runs_is_said_now_and_then_with_the_last_line_of_its_progress(self):
        path = os.path.join(self.directory, "go on")
        with subprocess.Popen([os.path.join(TOP, "scripts", "run-tests"), "--build", self.build, "--no-lint", "--name", "slow", "--progress", "0.1"],
                              env=dict(os.environ, FATHOM_GO_ON=path), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            lines = []
            for line in process.stdout:
                lines.append(line.rstrip("\n"))
                if line == "    slow: half of it\n":
                    open(path, "w").close()
        self.assertEqual(process.returncode, 0, lines)
        self.assertIn("after 0 min: machine 0 of 1, left: slow", lines)
        self.assertIn("    slow: half of it", lines)

    @unittest.skipUnless(shutil.which("gdb"), "gdb is missing")
    def test_gdb_without_a_terminal_ends_with_the_program_s_status(self):
        status, said = self.run_tests("--suite", "two", "--name", "passes", "--gdb")
        self.assertEqual(status, 0, said)
        self.assertNotIn("No stack", said)
        status, said = self.run_tests("--suite", "two", "--name", "crashes", "--gdb")
        self.assertEqual(status, 1, said)
        self.assertRegex(said, "#0 .*main")

    def test_gdb_skips_scripts_and_reports_them(self):
        status, said = self.run_tests("--name", "passes|good", "--gdb")
        self.assertEqual(status, 0, said)
        self.assertIn("good cases is a script", said)
        self.assertIn("exited normally", said)
        status, said = self.run_tests("--suite", "one", "--gdb")
        self.assertEqual(status, 1)
        self.assertIn("none of these tests is a program", said)

    def test_make_test_passes_names_to_run_tests_unchanged(self):
        """The recipe of `make test`, run by the shell, with printf in place of scripts/run-tests."""
        for name in ("it's", 'a "b" c', "a.*b|c", "; echo more"):
            recipe = subprocess.run(["make", "-s", "-C", TOP, "-f", "-", "show", f"NAME={name}", "SUITE=x"], check=True, text=True,
                                    stdout=subprocess.PIPE, input=self.recipe()).stdout
            self.assertEqual(re.findall(r"<(.*?)>", recipe), ["--build", "build", "--suite", "x", "--name", name])

    def test_make_install_obeys_prefix_and_destdir_also_after_a_build(self):
        self.without_packages()
        for words, where in ((["PREFIX=one"], "one/bin/passes"), ([f"PREFIX={self.directory}/two"], "two/bin/passes"),
                             (["DESTDIR=" + os.path.join(self.directory, "root"), "MESON_OPTIONS=--prefix=/three"],
                              "root/three/bin/passes")):
            subprocess.run(["make", "-s", "-C", self.directory, "-f", os.path.join(TOP, "Makefile"), "install", *words], check=True,
                           stdout=subprocess.DEVNULL)
            self.assertTrue(os.path.exists(os.path.join(self.directory, where)), words)

    def test_make_debug_builds_unoptimised_programs_in_a_folder_of_their_own(self):
        self.without_packages()
        for words, build in (([], "build-debug"), (["BUILD=elsewhere"], "elsewhere")):
            subprocess.run(["make", "-s", "-C", self.directory, "-f", os.path.join(TOP, "Makefile"), "build", "DEBUG=1", *words], check=True,
                           stdout=subprocess.DEVNULL)
            said = subprocess.check_output(["meson", "introspect", os.path.join(self.directory, build), "--buildoptions"], text=True)
            options = {row["name"]: row["value"] for row in json.loads(said)}
            self.assertEqual((options["optimization"], options["debug"]), ("0", True))

    def without_packages(self):
        """Let `make` in the project find a program in place of scripts/install-packages."""
        os.makedirs(os.path.join(self.directory, "scripts"), exist_ok=True)
        if not os.path.exists(os.path.join(self.directory, "scripts", "install-packages")):
            os.symlink("/bin/true", os.path.join(self.directory, "scripts", "install-packages"))

    def recipe(self):
        lines = open(os.path.join(TOP, "Makefile")).read().split("\n")
        at = next(number for number, line in enumerate(lines) if line.startswith("test:"))
        return "BUILD=build\nshow:\n" + lines[at + 1].replace("scripts/run-tests", "printf '<%s>'") + "\n"


class Flamegraph(unittest.TestCase):
    """scripts/flamegraph on three samples of two threads, as `perf script` prints them."""

    SAMPLES = """reactor_0 13391 17353.614972:   10101010 cpu-clock: 
\tffffffff816b84a3 fput+0x23 ([kernel.kallsyms])
\t          10a974 __libc_recv+0x64 (/usr/lib/x86_64-linux-gnu/libc.so.6)
\t           1f001 loop<int>+0x3 (/tmp/bin/fathom-engine)

reactor_0 13391 17353.635139:   10101010 cpu-clock: 
\t           1f001 loop<int>+0x7 (/tmp/bin/fathom-engine)

a name 13392/13393 [001] 17353.635140:   10101010 cpu-clock: 
\t           2f001 [unknown] (/tmp/bin/libother.so)
"""

    @staticmethod
    def run_flamegraph(samples, *words):
        return subprocess.run([os.path.join(TOP, "scripts", "flamegraph"), *words], input=samples, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def test_folded_stacks_begin_with_the_outermost_function(self):
        self.assertEqual(self.run_flamegraph(self.SAMPLES, "--folded").stdout,
                         "a name;[libother.so] 1\nreactor_0;loop<int> 1\nreactor_0;loop<int>;__libc_recv;fput 1\n")

    def test_boxes_are_as_wide_as_their_share_and_stand_on_their_callers(self):
        picture = ElementTree.fromstring(self.run_flamegraph(self.SAMPLES).stdout)
        boxes = {group[0].text.split(":")[0]: group[1].attrib for group in picture if group.tag.endswith("}g")}
        self.assertEqual(set(boxes), {"a name", "[libother.so]", "reactor_0", "loop<int>", "__libc_recv", "fput"})
        wide = {name: float(box["width"]) for name, box in boxes.items()}
        self.assertAlmostEqual(wide["reactor_0"], 2 * wide["a name"], delta=0.2)
        self.assertAlmostEqual(wide["fput"], wide["a name"], delta=0.2)
        high = {name: float(box["y"]) for name, box in boxes.items()}
        self.assertTrue(high["reactor_0"] > high["loop<int>"] > high["__libc_recv"] > high["fput"])
        self.assertTrue(any("66.7 %" in text for text in picture.itertext()))

    def test_input_without_samples_is_refused(self):
        done = self.run_flamegraph("nothing\n")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("perf script", done.stderr)


COMMANDS = [f"command{number}" for number in range(10)]    # of `fathom`; check-docs wants at least 10
LIBRARIES = {"libfathom-control.3": "control.h", "libfathom-initiator.3": "initiator.h", "libfathom-probe.3": "probe.h",
             "libfathom-trace.3": "trace/trace.h"}
FUNCTIONS = [f"call{number}" for number in range(5)]    # of each library; check-docs wants at least 5
PAGES = ["fathom.1", "fathom-probes.1", *(f"fathom-{name}.1" for name in COMMANDS), *LIBRARIES]


class Documents(unittest.TestCase):
    """scripts/check-docs on a tree of a few files, without mistakes and with one at a time."""

    FILES = {
        "Makefile": "build:\n\t@echo $(BUILD)\n",
        "README.md": "`make build BUILD=x`\n" + " ".join(PAGES) + "\n",
        "CONTRIBUTING.md": "    make build     all of it\n",
        "ARCHITECTURE.md": "Only `a` and `b` use atomics. `a/one.c:begin` calls it. See [this](README.md) and `src/a/one.c`.\n",
        "src/a/one.c": "int begin(void)\n{\n\treturn helper(atomic_load(x));\n}\n",
        "src/base/observe/probe/page.py": "import sys\nprint('one state' if sys.argv[1:] else 'one probe')\n",
        "docs/probes.md": "one probe\n",
        "docs/states.md": "one state\n",
        "src/control/fault/generate.py": "print('one fault')\n",
        "src/rpc/methods/generate.py": "print('one method')\n",
        "docs/json-rpc.md": "one method\n",
        "bin/meson.build": "executable('fathom', 'main.c')\n",
        "meson.build": "".join(f"'docs/man/{page}'\n" for page in PAGES),
        "src/cmd/fathom/main.c": "".join('{ "%s", NULL, "it does", .run = cmd_%s },\n' % (name, name) for name in COMMANDS),
        **{f"docs/man/{page}": "" for page in PAGES},
        **{f"docs/man/{page}": "".join(f".BR {name} ()\n.I {name}(x)\n" for name in FUNCTIONS) for page in LIBRARIES},
        **{f"include/fathom/{header}": "".join(f"int {name}(int x);\n" for name in FUNCTIONS) for header in LIBRARIES.values()},
        "docs/man/fathom.1": "".join(f".B {name}\n" for name in COMMANDS) + "".join(f".BR {page[:-2]} ({page[-1]})\n" for page in PAGES),
        "docs/faults.md": "one fault\n",
        "src/control/operation/generate.py": "",
        "src/base/inject/generate.py": "print('one point')\n",
        "docs/fault-injection.md": "one point\n",
        "src/inspect/doctor/generate.py": "print('one finding')\n",
        "docs/findings.md": "one finding\n",
        "src/rpc/ras/events.h": '#define RAS_EVENTS(X) \\\n\tX(ONE, 1, "one", INFO, NOTICE, "it happens")\n',
        "docs/events.md": "<!-- of src/rpc/ras/events.h: it -->\n| id | event | type | severity | raised when |\n|---|---|---|---|---|\n"
                          "| 1 | `one` | INFO | NOTICE | it happens |\n<!-- end -->\n",
        "src/b/c/two.c": "int helper(int x)\n{\n\treturn __atomic_load_n(&x, 0);\n}\n",
    }

    def check(self, **changes):
        with tempfile.TemporaryDirectory() as top:
            for name, text in {**self.FILES, **{name.replace("_", "."): text for name, text in changes.items()}}.items():
                if text is None:
                    continue
                os.makedirs(os.path.dirname(os.path.join(top, name)), exist_ok=True)
                with open(os.path.join(top, name), "w") as file:
                    file.write(text)
            os.mkdir(os.path.join(top, "scripts"))
            for name in ("check-docs", "c_functions.py"):
                shutil.copy(os.path.join(TOP, "scripts", name), os.path.join(top, "scripts", name))
            subprocess.run(["git", "init", "-q", top], check=True)
            done = subprocess.run([os.path.join(top, "scripts", "check-docs")], stdout=subprocess.PIPE, text=True)
            return done.returncode, done.stdout

    def test_a_tree_without_mistakes_passes(self):
        self.assertEqual(self.check(), (0, "docs: 1 steps, all found\n"))

    def test_a_generated_page_that_differs_from_its_table_is_named(self):
        status, said = self.check(**{"docs/probes.md": "two probes\n"})
        self.assertEqual(status, 1)
        self.assertIn("docs/probes.md differs from its table", said)
        status, said = self.check(**{"src/control/operation/generate.py": "import sys\nprint('docs/a.md differs', *sys.argv[1:])\n"})
        self.assertEqual((status, "docs/a.md differs --check\n" in said), (1, True), said)
        status, said = self.check(**{"docs/events.md": self.FILES["docs/events.md"].replace("it happens", "other words", 1)})
        self.assertEqual((status, "docs/events.md differs from" in said), (1, True), said)

    def test_each_wrong_name_link_or_claim_is_named(self):
        architecture = self.FILES["ARCHITECTURE.md"]
        for changes, said in (({"ARCHITECTURE_md": architecture.replace(":begin", ":helper")}, "helper() is not defined in a/one.c"),
                              ({"ARCHITECTURE_md": architecture.replace("a/one.c:", "a/none.c:")}, "the file a/none.c does not exist"),
                              ({"ARCHITECTURE_md": architecture.replace("(README", "(READNOT")}, "link to READNOT.md"),
                              ({"ARCHITECTURE_md": architecture.replace("`src/a/one.c`", "`src/a/two.c`")}, "src/a/two.c does not exist"),
                              ({"ARCHITECTURE_md": architecture.replace(" and `b`", "")}, "src/b/c uses atomics"),
                              ({"ARCHITECTURE_md": architecture.replace("`b`", "`b`, `d`")}, "src/d is in the list, but uses no atomics"),
                              ({"README_md": "`make biuld`\n"}, "make has no target biuld"),
                              ({"README_md": self.FILES["README.md"].replace(" fathom-probes.1", "")}, "README.md does not name docs/man/fathom-probes.1"),
                              ({"docs/man/fathom-command3.1": None}, "docs/man has no page of `fathom command3`"),
                              ({"docs/man/libfathom-probe.3": ".I call1(x)\n"}, "docs/man/libfathom-probe.3 does not have call2()"),
                              ({"include/fathom/probe.h": "int call1(int x);\n"}, "include/fathom/probe.h: its prototypes were not found"),
                              ({"docs/json-rpc.md": "two methods\n"}, "docs/json-rpc.md differs from its table"),
                              ({"CONTRIBUTING_md": "    make build BIULD=x\n"}, "make has no variable BIULD")):
            status, out = self.check(**changes)
            self.assertEqual((status, said in out), (1, True), out)


class Style(unittest.TestCase):
    def check(self, files):
        with tempfile.TemporaryDirectory() as top:
            os.mkdir(os.path.join(top, "scripts"))
            for name in ("check-style", "c_functions.py"):
                shutil.copy(os.path.join(TOP, "scripts", name), os.path.join(top, "scripts", name))
            for name, text in files.items():
                os.makedirs(os.path.dirname(os.path.join(top, name)), exist_ok=True)
                with open(os.path.join(top, name), "w") as file:
                    file.write("/* SPDX-License-Identifier: BSD-2-Clause */\n" + text)
            done = subprocess.run([os.path.join(top, "scripts", "check-style")], stdout=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 1)
            return done.stdout.splitlines()

    def test_a_function_with_seven_parameters_is_refused(self):
        seven = "int a, int b, int c, int d,\n\tint e, int f, "
        lines = self.check({
            "src/a.c": f"static __attribute__((noinline)) int sum({seven}/* a, b */ void (*done)(int x, int y))\n{{\n\treturn f(1, 2, 3, 4, 5, 6, 7);\n}}\n",
            "src/a.h": f"int six(int a, int b, int c, int d, int e, void (*done)(int x, int y));\nvoid *declared({seven}int g);\n",
            "test/a.c": f"void unchecked({seven}int g);\n"})
        self.assertEqual([line for line in lines if line.startswith(("src/", "test/"))], [
            "src/a.c:2: sum() has 7 parameters, at most 6: take a structure",
            "src/a.h:3: declared() has 7 parameters, at most 6: take a structure"])

    def test_an_exception_without_its_function_is_refused(self):
        lines = self.check({"src/a.c": "int submit_io(int a, int b, int c, int d, int e, int f, int g);\n"})
        message = "scripts/check-style: {}() needs no exception any more: remove it from MANY_PARAMETERS"
        self.assertIn(message.format("bdev_read"), lines)
        self.assertNotIn(message.format("submit_io"), lines)


class Run(EngineTest):
    def start(self, *words):
        """(exit status, standard output, standard error) of scripts/run"""
        done = subprocess.run([os.path.join(TOP, "scripts", "run"), "--build", os.path.dirname(BIN), "--seconds", "4", *map(str, words)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=100)
        return done.returncode, done.stdout, done.stderr

    def test_run_shows_verified_io_and_stages_and_leaves_no_process(self):
        status, out, err = self.start("--port", free_port())
        self.assertEqual(status, 0, out + err)
        self.assertRegex(out, "(?m)^verified: [1-9].*, 0 reads were wrong$")
        self.assertRegex(out, "(?m)^READ of 4 KiB")
        self.assertRegex(out, "(?m)^WRITE of 4 KiB")
        self.assertRegex(out, "(?m)^  127.0.0.1 1 +[01]")       # formatted
        self.assertRegex(out, "(?m)^0 .* Joined")
        self.assertRegex(out, "(?m)^  State +: ready since ")
        if "fathom volume snapshot" in out:     # on XFS
            self.assertRegex(out, "(?m)^monday ")
        self.assertRegex(out, r"(?m)^nqn.2026-01.io.fathom:run ")
        self.assertRegex(out, "(?m)^Pool .* state=Ready$")
        if os.geteuid() == 0:
            self.assertRegex(out, r"(?m)^fathom-server has pid \d+, fathom-helper \d+\.$")
        self.assertRegex(out, "rpc -s /.*fathom-run-.*/engine0.sock bdev_get_iostat")
        folder = re.search(r"-o (/\S*fathom-run-\w+)/", out).group(1)
        self.assertFalse(os.path.exists(folder))
        self.assertEqual(subprocess.run(["pgrep", "-f", folder], stdout=subprocess.DEVNULL).returncode, 1, "it left a process")

    def test_run_names_a_port_that_is_in_use(self):
        stranger = self.engine()
        stranger.serve("bdev_malloc_create", "-b", "Disk0", 1, 512)
        status, out, err = self.start("--port", stranger.port)
        self.assertEqual(status, 1, out + err)
        self.assertIn(f"port {stranger.port} of 127.0.0.1 is in use; run `make run RUN_PORT=N` with another", err)


class Tour(EngineTest):
    """The commands of the README's tour, run in one shell, print what it shows, apart from numbers."""

    def steps(self):
        """[(command with its here-document, lines shown)]"""
        text = open(os.path.join(TOP, "README.md")).read()
        text = text[text.index("## A tour"):text.index("## What there is")]
        steps, document = [], False
        for line in (line[4:] for line in text.split("\n") if line.startswith("    ")):
            if line.startswith("$ "):
                steps.append((line[2:], []))
                document = line.endswith("<<E")
            elif document:
                steps[-1] = (steps[-1][0] + "\n" + line, [])
                document = line != "E"
            else:
                steps[-1][1].append(line)
        return steps

    def script(self, steps):
        """A script that prints a mark before each step. Later steps have $engine for the pid of the engine that the first starts."""
        engine = re.search(r"-p (\d+)", " ".join(steps[0][1])).group(1)
        lines = ['status() { return "$1"; }', "last=0"]
        for number, (command, _) in enumerate(steps):
            lines += [f"echo @{number}@", "status $last", command, "last=$?", "" if number else "engine=$!"]
            if command.endswith("&") or "kill" in command:
                lines.append("sleep 1")  # the time to type the next command
        port = str(free_port())
        return "\n".join(lines).replace("/tmp/host", "/dev/null").replace("4425", port).replace("/tmp/tour.sock", os.path.join(self.directory, "sock")).replace(
            "/tmp/tour.log", os.path.join(self.directory, "log")).replace(
            engine, "$engine").replace("tour", f"tour{os.getpid()}")

    @staticmethod
    def shape(line):
        """The line without numbers, identities, and spaces that depend on their width."""
        line = re.sub(r"\bvm\b|" + re.escape(os.uname().nodename), "HOST", line)
        line = re.sub(r"tour\d+", "tour", line)
        line = re.sub(r"/\S*sock", "SOCK", line)
        line = re.sub(r"uuid:[0-9a-f-]+", "uuid:ID", line)
        line = re.sub(r"build-id \w+", "build-id ID", line)
        return re.sub(r"\s+", " ", re.sub(r"[+-]?\d[\d.:]*", "N", line)).strip()

    def tearDown(self):
        for path in glob.glob(f"/dev/shm/tour{os.getpid()}_trace.*"):
            os.unlink(path)
        super().tearDown()

    def test_the_tour_prints_what_the_readme_shows(self):
        steps = self.steps()
        env = dict(os.environ, PATH=BIN + ":" + os.environ["PATH"])
        done = subprocess.run(["bash", "-c", self.script(steps)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env,
                              timeout=120)
        printed = re.split(r"(?m)^@\d+@\n", done.stdout)[1:]
        self.assertEqual(len(printed), len(steps), done.stdout)
        for (command, shown), real in zip(steps, printed):
            # other tests' reactors may spin on each CPU, which fathom perf reports
            lines = [line for line in real.splitlines() if not re.match(r"bash: line \d+: +\d+ Killed|fathom perf: each CPU that ", line)]
            self.assertEqual([self.shape(line) for line in shown], [self.shape(line) for line in lines], f"{command}\n{real}")


if __name__ == "__main__":
    unittest.main()
