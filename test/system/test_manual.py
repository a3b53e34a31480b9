# SPDX-License-Identifier: BSD-2-Clause
"""
Each command and each option that a program's help shows is in its man page. Pages that are
generated from the table of operations, as their help is, are not checked here.
"""

import os
import re
import unittest

from harness import BIN, TOP, run

PAGES = {("fathom", "blame"): "fathom-blame.1", ("fathom", "trace"): "fathom-trace.1", ("fathom", "probe"): "fathom-probe.1", ("fathom", "top"): "fathom-top.1", ("fathom", "perf"): "fathom-perf.1", ("fathom", "ddb"): "fathom-ddb.1", ("fathom", "core"): "fathom-core.1", ("fathom", "doctor"): "fathom-doctor.1",
         ("fathom", "rpc"): "fathom-rpc.1", ("fathom", "replay"): "fathom-replay.1", ("fathom-agent",): "fathom-agent.8", ("fathom-engine",): "fathom-engine.8", ("fathom-server",): "fathom-server.8",
         ("fathom-helper",): "fathom-helper.8", ("fathom-probed",): "fathom-probed.8"}
NAMED_ELSEWHERE = ("fathom", "rpc")  # docs/json-rpc.md has its commands


def help_of(words):
    done = run(os.path.join(BIN, words[0]), *words[1:], "--help")
    return done.stdout


def options_in(text):
    return set(re.findall(r"(?m)^\s+(?:-\w, )?--([a-z][a-z-]*)", text)) - {"help", "version"}


def commands_in(text):
    """The words below "commands:"."""
    found = re.search(r"(?s)\ncommands:\n(.*?)(?:\n\n|$)", text)
    return re.findall(r"(?m)^  ([a-z][a-z-]*)", found.group(1)) if found else []


def page_text(page):
    """A page of man(7) or mdoc(7) without markup: an option is --NAME in it."""
    with open(os.path.join(TOP, "docs", "man", page)) as file:
        text = file.read().replace("\\-", "-")
    text = re.sub(r"\\f[A-Z]", "", text)
    return re.sub(r"\bFl -", "Fl --", re.sub(r", -(?=[a-z]{2,})", ", --", text))


def has_option(option, text):
    return re.search(rf"(?<![\w-])--{option}(?![\w-])", text)


def without_markup(text):
    return re.sub(r"\.(?:Op|Cm|Ic|B|BR|It|Ns|Li)\b", " ", text)


class Manual(unittest.TestCase):
    def test_patterns_find_options_and_commands_in_help(self):
        self.assertEqual(options_in("  -a, --all     x\n      --older-than T  y\n  see --other\n"), {"all", "older-than"})
        self.assertEqual(commands_in("usage: x\n\ncommands:\n  one    it\n         more\n  two N  it\n\noptions:\n  three\n"), ["one", "two"])
        self.assertFalse(has_option("all", ".Op Fl --all-day"))
        self.assertTrue(has_option("all", ".Op Fl --all"))

    def test_each_option_is_in_its_man_page(self):
        missing, count = [], 0
        for words, page in PAGES.items():
            text, first = page_text(page), help_of(words)
            for command in [[]] + [[name] for name in commands_in(first) if words != NAMED_ELSEWHERE]:
                options = options_in(help_of([*words, *command]))
                count += len(options)
                missing += [f"{page}: {' '.join([*words, *command])} --{option}" for option in sorted(options) if not has_option(option, text)]
        self.assertEqual(sorted(set(missing)), [])
        self.assertGreater(count, 150)

    def test_each_command_is_in_the_synopsis_of_its_man_page(self):
        missing = []
        for words, page in PAGES.items():
            with open(os.path.join(TOP, "docs", "man", page)) as file:
                synopsis = re.split(r"(?mi)^\.SH \"?DESCRIPTION", without_markup(file.read().replace("\\-", "-")))[0]
            names = commands_in(help_of(words)) if words != NAMED_ELSEWHERE else []
            missing += [f"{page}: {name}" for name in names if not re.search(rf"(?<![\w-]){name}(?![\w-])", synopsis)]
        self.assertEqual(missing, [])


if __name__ == "__main__":
    unittest.main()
