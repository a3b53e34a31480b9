# SPDX-License-Identifier: BSD-2-Clause
"""Man pages, completion and the page of the configuration agree with the help of the operator's commands."""

import os
import re
import subprocess
import unittest

from fake_server import TOP
from rig import FATHOM, CommandTest

GROUPS = {"config": "fathom-config.1", "firmware": "fathom-firmware.1", "host": "fathom-host.1", "network": "fathom-network.1", "pool": "fathom-pool.1", "server": "fathom-server-command.1", "storage": "fathom-storage.1",
          "support": "fathom-support.1", "system": "fathom-system.1", "volume": "fathom-volume.1"}


class Help(CommandTest):
    def commands(self, *words):
        said = self.run_plain(*words, "--help").stdout
        return [re.match(r"  (\S+(?: \S+)*?)(?:  | $| (?=\S+ \S+ \S+ ))", line).group(1) for line in said.split("commands:\n")[1].split("\n\n")[0].splitlines()]

    def test_each_command_and_option_is_in_its_man_page(self):
        for group, page in GROUPS.items():
            with open(os.path.join(TOP, "docs", "man", page)) as file:
                text = file.read().replace("\\-", "-")
            commands = self.commands(group)
            self.assertTrue(commands)
            for command in commands:
                section = re.search(rf"(?s)\n\.SS {re.escape(command)}\n(.*?)\n\.S[SH] ", text)
                self.assertTrue(section, f"{page}: {command}")
                self.assertIn(f".B fathom {group} {command}\n", text)
                said = self.run_plain(group, *command.split(), "--help")
                self.assertEqual((said.returncode, said.stderr), (0, ""))
                common = text[text.index(".SH OPTIONS OF ALL"):] if ".SH OPTIONS OF ALL" in text else said.stdout
                for option in re.findall(r"(?m)^ +(?:-\w, )?(--[a-z][a-z-]+)", said.stdout):
                    self.assertRegex(section.group(1) + common, option + r"(?![\w-])", f"{page}: {command}")

    def test_sections_of_a_man_page_are_its_commands(self):
        for group, page in GROUPS.items():
            with open(os.path.join(TOP, "docs", "man", page)) as file:
                sections = re.findall(r"(?m)^\.SS (.*)$", file.read().replace("\\-", "-"))
            self.assertEqual(sorted(sections), sorted(self.commands(group)), page)


class Completion(CommandTest):
    def complete(self, *words):
        """The completions of the last word."""
        done = subprocess.run([FATHOM, "--complete", *words], capture_output=True, text=True, check=True, cwd=self.folder)
        self.assertEqual(done.stderr, "")
        return sorted(line.split("\t")[0] for line in done.stdout.splitlines())

    def test_commands_are_completed(self):
        self.assertEqual(self.complete("s"), ["server", "storage", "support", "system"])
        self.assertIn("trace", self.complete(""))
        self.assertEqual(self.complete("-j", "-l", "node1", "sys"), ["system"])
        self.assertEqual(self.complete("storage", ""), ["format", "led", "query", "scan"])
        self.assertEqual(self.complete("storage", "query", ""), ["device-health", "list-devices", "usage"])
        self.assertEqual(self.complete("storage", "query", "u"), ["usage"])
        self.assertEqual(self.complete("system", "st"), ["start", "stop"])
        self.assertEqual(self.complete("volume", "s"), ["set-prop", "show", "snapshot", "snapshot-destroy"])
        self.assertEqual(self.complete("po"), ["pool"])

    def test_completed_options_equal_those_of_the_help(self):
        for group in GROUPS:
            for command in re.findall(r"(?m)^  ([a-z-]+(?: [a-z-]+)?)  ", self.run_plain(group, "--help").stdout):
                said = self.run_plain(group, *command.split(), "--help").stdout
                self.assertEqual(sorted(self.complete(group, *command.split(), "--")),
                                 sorted(re.findall(r"(?m)^  (?:-\w, |    )(--[a-z-]+)", said)), (group, command))

    def test_values_are_completed(self):
        self.assertEqual(self.complete("system", "query", "--with-states", "st"), ["starting", "stopped", "stopping"])
        self.assertEqual(self.complete("volume", "create", "--block-size", ""), ["4096", "512"])
        self.assertEqual(self.complete("system", "query", "-o", "fol"), ["@files"])
        self.assertEqual(self.complete("support", "collect-log", "-t", "fol"), ["@folders"])


class Dmg(CommandTest):
    """docs/dmg.md: the commands of dmg and their names here."""

    def rows(self):
        with open(os.path.join(TOP, "docs", "dmg.md")) as file:
            rows = re.findall(r"(?m)^\| `([^`|]*)` \| (-|`fathom [^`|]*`) \| ([^|]*) \|$", file.read())
        self.assertGreater(len(rows), 60)
        return [(theirs.replace(",", " ").split(), ours.strip("`").split()[1:], word) for theirs, ours, word in rows]

    def test_each_row_of_the_table_can_be_parsed(self):
        with open(os.path.join(TOP, "docs", "dmg.md")) as file:
            tables = re.findall(r"(?m)(?:^\|.*\n)+", file.read())
        table = next(table for table in tables if table.startswith("| dmg | fathom |"))
        self.assertEqual(len(table.splitlines()), len(self.rows()) + 2)      # and its head

    def test_supported_commands_and_options_are_in_the_help(self):
        for theirs, ours, word in self.rows():
            if not ours:
                continue
            self.assertRegex(word, r"^(same|other)\b", theirs)
            said = self.run_plain(*[each for each in ours if each[0] != "-"], "--help")
            self.assertEqual((said.returncode, said.stderr), (0, ""), ours)
            options = {each for each in ours if each[0] == "-"}
            for option in options:
                self.assertRegex(said.stdout, rf"(?<![\w-]){option}(?![\w-])", ours)
            if word.startswith("same"):
                self.assertLessEqual({each for each in theirs if each[0] == "-"}, options)

    def test_unsupported_commands_and_options_are_refused_without_a_call(self):
        refused = 0
        for theirs, ours, word in self.rows():
            if ours:
                continue
            self.assertTrue(word.startswith("not here"), theirs)
            command = [each for each in theirs if each[0] != "-"] or ["system", "query"]
            for option in [each for each in theirs if each[0] == "-"] or ["-j"]:
                done = self.run_plain(*command, option, "-i", "-l", "127.0.0.1:1")
                self.assertEqual((done.returncode, done.stdout), (2, ""), (theirs, done.stderr))
                self.assertNotEqual(done.stderr, "")
                refused += 1
        self.assertGreater(refused, 20)


class Pages(CommandTest):
    def test_the_page_of_the_configuration_is_current(self):
        with open(os.path.join(TOP, "docs", "client-configuration.md")) as file:
            self.assertEqual(self.run_plain("config", "reference").stdout, file.read(), "fathom config reference > docs/client-configuration.md")

    def test_the_page_lists_the_roles_of_each_method(self):
        """The roles in docs/control-plane.md equal those of the table of operations."""
        made = subprocess.run([os.path.join(TOP, "src/control/operation/generate.py"), "--print", "method-list"], stdout=subprocess.PIPE, text=True, check=True)
        rows = {path: set(roles) for path, *roles in (line.split() for line in made.stdout.splitlines())}
        self.assertGreater(len(rows), 20)
        with open(os.path.join(TOP, "docs", "control-plane.md")) as file:
            table = file.read().split("| call | admin | agent | server |\n")[1].split("<!-- end -->")[0].splitlines()[1:]
        said = {}
        for line in table:
            call, *may = [cell.strip() for cell in line.strip("|").split("|")]
            said[call.strip("`/")] = {role for role, cell in zip(("admin", "agent", "server"), may) if cell == "yes"}
        self.assertEqual(rows, said)

    def test_the_sample_is_valid_and_has_each_key_with_its_default(self):
        sample = os.path.join(TOP, "packaging", "fathom_control.yml")
        with open(sample) as file:
            text = file.read()
        rows = re.findall(r"(?m)^\| `([\w.]+)` \| [^|]* \| ([^|]*) \|", self.run_plain("config", "reference").stdout)
        self.assertGreater(len(rows), 6)
        for key, default in rows:
            wanted = rf"(?m)^ *#? *{key.split('.')[-1]}:" + (f" {re.escape(default.strip())}$" if default.strip() != "-" else "")
            self.assertRegex(text, wanted)
        opened = os.path.join(self.folder, "opened.yml")
        with open(opened, "w") as file:
            file.write(re.sub(r"(?m)^( *)#(?=\w|  -)", r"\1", text))
        done = self.run_plain("system", "query", "-i", "-o", opened, "-l", "127.0.0.1:1", "--timeout", 1)
        self.assertIn("code = 506", done.stderr)     # it was read, and somebody asked


if __name__ == "__main__":
    unittest.main()
