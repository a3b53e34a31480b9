# SPDX-License-Identifier: BSD-2-Clause
"""What bash, zsh and fish offer when a command line of Fathom is completed, by the scripts that the build makes."""

import os
import re
import shutil
import sys
import tempfile
import unittest

from harness import BIN, FATHOM, run
from terminal import Terminal

SCRIPTS = os.path.join(os.environ.get("FATHOM_BUILD", ""), "packaging", "completion")
PATH = BIN + os.pathsep + os.environ["PATH"]

# Prints what bash would offer for the words; the last is under the cursor. Words are cut at : and = as readline cuts them.
BASH = r"""
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
function=$(complete -p "$1" | sed 's/.*-F \([^ ]*\).*/\1/')
compopt() { echo "compopt $*"; }
"$function" "$1"
printf '%s\n' "${COMPREPLY[@]}"
"""


def offers(program, *words):
    """The words that a program offers in place of the last of `words`."""
    done = run(os.path.join(BIN, program), "--complete", *words)
    return [line.split("\t")[0] for line in done.stdout.splitlines()]


class Completion(unittest.TestCase):
    def setUp(self):
        if not os.path.isdir(SCRIPTS):
            self.skipTest("the build directory is needed (FATHOM_BUILD): it has the scripts")
        self.directory = tempfile.mkdtemp(prefix="fathom-")
        self.addCleanup(shutil.rmtree, self.directory)

    def shell(self, name):
        path = shutil.which(name)
        if not path:
            self.skipTest(f"{name} is missing (packages.txt)")
        return path

    def bash(self, *words):
        done = run(self.shell("bash"), "--norc", "-c", BASH, "bash", os.path.join(SCRIPTS, words[0]), *words, env={**os.environ, "PATH": PATH})
        self.assertEqual(done.stderr, "")
        return done.stdout.split("\n")[:-1]

    def fish(self, line):
        done = run(self.shell("fish"), "--no-config", "-c", f'set -p fish_complete_path {SCRIPTS}; complete -C "{line}"',
                   env={**os.environ, "PATH": PATH, "HOME": self.directory, "XDG_CONFIG_HOME": self.directory}, cwd=self.directory)
        return dict((line + "\t").split("\t")[:2] for line in done.stdout.splitlines())

    # ---- what the programs offer ----

    def test_each_command_that_help_lists_is_offered(self):
        listed = re.findall(r"(?m)^  ([a-z]+) ", run(FATHOM, "--help").stdout.split("commands:\n")[1].split("\n\n")[0])
        self.assertIn("completion", listed)
        self.assertEqual(offers("fathom", ""), listed)
        for command in listed:
            options = set(re.findall(r"(?m)^ +(?:-\w, )?(--[a-z][a-z-]+)", run(FATHOM, command, "--help").stdout))
            self.assertEqual({word for word in offers("fathom", command, "--") if word.startswith("--")}, options, command)

    def test_each_program_offers_the_options_of_its_help(self):
        for program in ("fathom-agent", "fathom-engine", "fathom-helper", "fathom-probed", "fathom-probes", "fathom-server"):
            command = [os.path.join(BIN, program)]
            if program == "fathom-probes":
                command = [sys.executable, os.path.join(os.environ["FATHOM_BUILD"], "src/base/observe/trace", program)]
            start = ["start"] if program in ("fathom-agent", "fathom-server") else []
            options = set(re.findall(r"(?m)^ +(?:-\w, )?(--[a-z][a-z-]+)", run(*command, *start, "--help").stdout))
            self.assertGreater(len(options), 1, program)
            done = run(*command, "--complete", "--")
            self.assertEqual({line.split("\t")[0] for line in done.stdout.splitlines()}, options, program)

    def test_nested_commands_offer_their_own_words_and_options(self):
        self.assertEqual(offers("fathom", "storage", "query", ""), ["usage", "list-devices", "device-health"])
        self.assertEqual(offers("fathom", "storage", "led", ""), ["identify", "check", "reset"])
        self.assertIn("--minutes", offers("fathom", "storage", "led", "identify", "--"))
        self.assertEqual(offers("fathom", "firmware", ""), ["query", "update"])
        self.assertIn("--slot", offers("fathom", "firmware", "update", "--"))
        self.assertEqual(offers("fathom", "storage", "-l", "node1", "query", "u"), ["usage"])
        self.assertEqual(offers("fathom", "trace", "s"), ["show", "stuck", "summary", "slowest", "stages"])
        self.assertIn("--rotate", offers("fathom", "trace", "record", "--"))
        self.assertNotIn("--rotate", offers("fathom", "trace", "show", "--"))
        self.assertEqual(offers("fathom-server", "config", "generate", "--net-class", ""), ["ethernet", "infiniband"])
        self.assertEqual(offers("fathom", "-j", "-l", "node1", "sys"), ["system"])

    def test_values_of_options_are_offered(self):
        self.assertEqual(offers("fathom", "perf", "--rw", "rand"), ["randread", "randwrite"])
        self.assertEqual(offers("fathom", "perf", "--rw=rand"), ["--rw=randread", "--rw=randwrite"])
        self.assertEqual(offers("fathom", "trace", "-f", ""), ["@files"])
        self.assertEqual(offers("fathom", "trace", "-fx", ""), offers("fathom", "trace", ""), "x is the value of -f")
        self.assertEqual(offers("fathom-engine", "--socket-dir", ""), ["@folders"])
        self.assertEqual(offers("fathom-engine", "-L", "W"), ["WARNING"])
        self.assertEqual(offers("fathom", "perf", "--depth", "1"), [], "any number is valid")
        self.assertEqual(offers("fathom-probed", "--", "--"), [], "words after -- are no options")

    def test_rpc_methods_and_their_options_are_offered(self):
        self.assertEqual(offers("fathom", "rpc", "bdev_malloc_"), ["bdev_malloc_create", "bdev_malloc_delete"])
        self.assertIn("--uuid", offers("fathom", "rpc", "-s", "/a/socket", "bdev_malloc_create", "--u"))
        methods = re.findall(r"(?m)^  (\w+) ", run(FATHOM, "rpc", "--help").stdout.split("commands:\n")[1])
        self.assertLessEqual(set(methods), set(offers("fathom", "rpc", "")))

    def test_an_unknown_word_offers_nothing(self):
        for words in (("frobnicate", ""), ("trace", "--nothing="), ("rpc", "no_such_method", "--"), ("perf", "x" * 4096), ("x" * 4096, "")):
            done = run(FATHOM, "--complete", *words)
            self.assertEqual((done.returncode, done.stderr), (0, ""), words)
        self.assertEqual(offers("fathom"), offers("fathom", ""))

    def test_completion_prints_a_script_for_a_shell(self):
        for shell, name in (("bash", "fathom-engine"), ("zsh", "_fathom-engine"), ("fish", "fathom-engine.fish")):
            with open(os.path.join(SCRIPTS, name)) as made:
                self.assertEqual(run(FATHOM, "completion", shell, "fathom-engine").stdout, made.read())
        for words, complaint in (((), "the shell is missing (bash, zsh or fish)"), (("tcsh",), '"tcsh" is not bash, zsh or fish'),
                                 (("bash", "a;b"), '"a;b" is not the name of a program'), (("bash", "a", "b"), "there is more than one program")):
            done = run(FATHOM, "completion", *words, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(complaint, done.stderr)

    # ---- completion in the shells ----

    def test_bash_offers_words(self):
        self.assertEqual(self.bash("fathom", "tr"), ["trace"])
        self.assertEqual(self.bash("fathom", "trace", "st"), ["stuck", "stages"])
        self.assertEqual(self.bash("fathom", "system", "query", "--rank"), ["--ranks", "--rank-hosts"])
        self.assertEqual(self.bash("fathom", "perf", "--rw", "=", "ra"), ["randread", "randwrite"])
        self.assertEqual(self.bash("fathom", "perf", "--rw", "="), ["read", "write", "randread", "randwrite", "mix"])
        self.assertEqual(self.bash("fathom", "trace", "export", "--ctf", ""), ["compopt -o dirnames", ""])
        self.assertEqual(self.bash("fathom-server", "-o", ""), ["compopt -o default", ""])
        self.assertEqual(self.bash("fathom-helper", "--ch"), ["--check"])

    def test_fish_offers_words_with_their_help(self):
        open(os.path.join(self.directory, "server.yml"), "w").close()
        os.mkdir(os.path.join(self.directory, "some"))
        self.assertEqual(self.fish("fathom tra"), {"trace": "show what an engine did: events, stuck commands, what each thread runs"})
        self.assertEqual(set(self.fish("fathom trace sum")), {"summary"})
        self.assertEqual(set(self.fish("fathom-engine --log-t")), {"--log-to"})
        self.assertEqual(set(self.fish("fathom perf --rw=rand")), {"--rw=randread", "--rw=randwrite"})
        self.assertEqual(set(self.fish("fathom-server --config serv")), {"server.yml"})
        self.assertEqual(set(self.fish("fathom-server --config=serv")), {"--config=server.yml"})
        self.assertEqual(set(self.fish("fathom-engine --storage s")), {"some/"})

    def type_and_wait(self, shell, options, start, typed, wanted):
        """Type `typed` into an interactive shell and wait until its screen has `wanted`."""
        environment = {"PATH": PATH, "HOME": self.directory, "PS1": "$ ", "INPUTRC": "/dev/null", "HISTFILE": ""}
        terminal = Terminal(self.shell(shell), *options, columns=120, env=environment)
        self.addCleanup(terminal.close)
        terminal.press(f"cd {self.directory}; {start}; clear; echo is-ready\r")
        terminal.wait(lambda lines: any(line.strip() == "is-ready" for line in lines))
        terminal.press(typed)
        terminal.wait(lambda lines: any(wanted.strip() in line for line in lines), repr(wanted))

    def test_bash_completes_what_is_typed(self):
        os.mkdir(os.path.join(self.directory, "a-folder"))
        start = f"source {SCRIPTS}/fathom"
        self.type_and_wait("bash", ["--norc", "-i"], start, "fathom trac\tsumm\t--ob\t", "fathom trace summary --object ")
        self.type_and_wait("bash", ["--norc", "-i"], start, "fathom trace export --ctf a-fo\t", "--ctf a-folder/")
        self.type_and_wait("bash", ["--norc", "-i"], start, "fathom rpc bdev_malloc_c\t", "fathom rpc bdev_malloc_create ")

    def test_zsh_completes_what_is_typed(self):
        os.mkdir(os.path.join(self.directory, "a-folder"))
        start = f"fpath=({SCRIPTS} $fpath); autoload -Uz compinit; compinit -u -d {self.directory}/dump"
        self.type_and_wait("zsh", ["-f", "-i"], start, "fathom trac\tsumm\t--ob\t", "fathom trace summary --object ")
        self.type_and_wait("zsh", ["-f", "-i"], start, "fathom trace export --ctf=a-fo\t", "--ctf=a-folder/")
        self.type_and_wait("zsh", ["-f", "-i"], start, "fathom-engine --log-l\t", "fathom-engine --log-level ")
        self.type_and_wait("zsh", ["-f", "-i"], 'autoload -Uz compinit; compinit -u -d dump; eval "$(fathom completion zsh)"', "fathom trac\t",
                   "fathom trace ")


if __name__ == "__main__":
    unittest.main()
