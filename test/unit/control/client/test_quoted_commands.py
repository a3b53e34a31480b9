# SPDX-License-Identifier: BSD-2-Clause
"""Each command and option in resolutions of faults, documents and man pages exists in the programs."""

import os
import re
import shlex
import subprocess
import unittest

from fake_server import TOP
from rig import FATHOM

BIN = os.path.dirname(FATHOM)
OURS = ("fathom", "fathom-server", "fathom-helper", "fathom-engine", "fathom-probed", "fathom-agent")
OTHERS = ("chmod", "chown", "echo", "fuser", "modprobe", "namei", "nvme", "ss", "systemctl", "ulimit")   # of every Linux host
helps = {}


def read(*parts):
    with open(os.path.join(TOP, *parts)) as file:
        return file.read()


def help_of(*words):
    if words not in helps:
        done = subprocess.run([os.path.join(BIN, words[0]), *words[1:], "--help"], capture_output=True, text=True, timeout=60)
        helps[words] = done.stdout if done.returncode == 0 else ""
    return helps[words]


def commands_of(*path):
    """Words that may follow, from the help: lines of usage, and lines indented by two blanks (a command of two words is in the list of its first word)."""
    said = help_of(*path)
    if len(path) > 1 and said == help_of(*path[:-1]):   # the same for all words: only those behind a first are commands
        said = "".join(re.findall(rf"(?m)^  {path[-1]} ([a-z].*\n)", said)) and said.replace(f"\n  {path[-1]} ", "\n  ")
    usage = re.findall(rf"(?m)^(?:usage:|      ) {' '.join(path)} ([a-z][a-z|-]*)", said)
    own = {"help"} if path == ("fathom",) else set()    # it is in no list, as in most programs
    return {word for words in usage for word in words.split("|")} | set(re.findall(r"(?m)^  ([a-z][\w-]+)(?= |$)", said)) | own


def wrong_in(command):
    """The first word that the programs do not know, or None. Only the first command of a pipe is checked. Placeholders are not in small
    letters."""
    command = re.sub(r"\{(\w+)\}", "VALUE", command.replace("\\-", "-"))
    try:
        words = shlex.split(command.split(" #")[0])
    except ValueError as error:
        return str(error)
    ends = [place for place, word in enumerate(words) if word in ("|", ">", "&", "2>&1") or word.startswith("<") or word.endswith(";")]
    words = words[:min(ends, default=len(words))]
    path, rest = words[:1], words[1:]
    while rest and re.fullmatch(r"[a-z][\w-]*", rest[0]) and commands_of(*path):
        if rest[0] not in commands_of(*path):
            return f"`{' '.join(path)}` has no `{rest[0]}`"
        path.append(rest.pop(0))
    said = help_of(*path) + help_of(*path[:2])
    for word in rest:
        option = re.match(r"--?[a-zA-Z][\w-]*", word)
        if option and option[0] != "--help" and not re.search(rf"(?<![\w-]){option[0]}(?![\w-])", said):
            return f"`{' '.join(path)}` has no option {option[0]}"
    return None


def is_command(text):
    return text.split(" ")[0] in OURS


class QuotedCommands(unittest.TestCase):
    maxDiff = None

    def check(self, commands):
        """`commands`: (place, command line)"""
        commands = list(commands)
        self.assertTrue(commands)
        self.assertEqual([f"{where}: `{command}`: {wrong}" for where, command in commands for wrong in [wrong_in(command)] if wrong], [])

    def test_wrong_commands_are_found(self):
        for command, wrong in (("fathom trace hung", "`fathom trace` has no `hung`"), ("fathom sistem query", "`fathom` has no `sistem`"),
                               ("fathom system query --wide", "`fathom system query` has no option --wide"),
                               ("fathom storage query list", "`fathom storage query` has no `list`"),
                               ("fathom-server start --new", "`fathom-server start` has no option --new"),
                               ("fathom-helper --helper", "`fathom-helper` has no option --helper")):
            self.assertEqual(wrong_in(command), wrong)

    def test_commands_in_resolutions_exist(self):
        keys = set(re.findall(r"(?m)^\| `(?:[\w[\]]+\.)*(\w+)` \|", help_of_reference("fathom-server") + help_of_reference("fathom")))
        rows = re.findall(r"(?m)^fault (\d+) .*\n(?:\tsays .*\n)\tdo (.*)$", read("src", "control", "fault", "faults.def"))
        self.assertGreater(len(rows), 100)
        typed = [(code, text.replace("{path} --check", "fathom-helper --check")) for code, do in rows for text in re.findall(r"`([^`]*)`", do)]
        self.check((code, text) for code, text in typed if is_command(text))
        for code, text in typed:
            self.assertTrue(is_command(text) or text in keys or text.split()[0] in OTHERS, f"{code}: `{text}` is no command and no key")
        for code, do in rows:   # options outside of backquotes are of some command of ours
            for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", re.sub(r"`[^`]*`", "", do)):
                self.assertIn(option, all_options(), f"{code}: {do}")

    def test_commands_in_documents_exist(self):
        def typed():
            for path in subprocess.check_output(["git", "ls-files", "README.md", "ARCHITECTURE.md", "docs/*.md"], cwd=TOP, text=True).split():
                text = read(path)
                for command in [words.replace("\n", " ") for words in re.findall(r"`(fathom[^`\n]*(?:\n\S[^`\n]*)?)`", text)] + re.findall(r"(?m)^ +[$#] (fathom.*)$", text):
                    if is_command(command):
                        yield path, command
        self.check(typed())

    def test_commands_in_man_pages_exist(self):
        def typed():
            for name in sorted(os.listdir(os.path.join(TOP, "docs", "man"))):
                for command in re.findall(r"(?m)^\.B \"?(fathom[^\"\n]*)", read("docs", "man", name)) + re.findall(r"\\fB(fathom[^\\]*(?:\\-[^\\]*)*)\\f", read("docs", "man", name)):
                    if is_command(command.replace("\\-", "-")):
                        yield name, command
        self.check(typed())


def help_of_reference(program):
    return subprocess.check_output([os.path.join(BIN, program), "config", "reference"], text=True)


def all_options():
    """The options of the operator's commands."""
    found = set()
    for group in ("config", "host", "network", "pool", "server", "storage", "support", "system", "volume"):
        for command in re.findall(r"(?m)^  ([a-z-]+(?: [a-z-]+)?)  ", help_of("fathom", group)):
            found |= set(re.findall(r"--[a-z][a-z-]+", help_of("fathom", group, *command.split())))
    return found


if __name__ == "__main__":
    unittest.main()
