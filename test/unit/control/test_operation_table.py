#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""src/control/operation/generate.py: what it makes of a table, and that a mistake is named with file and line."""

import os
import subprocess
import sys
import tempfile
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
GENERATE = os.path.join(TOP, "src/control/operation/generate.py")


class Table(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(subprocess.run, ["rm", "-r", self.folder], check=True)

    def generate(self, text, *arguments):
        path = os.path.join(self.folder, "sample.def")
        with open(path, "w") as file:
            file.write(text)
        done = subprocess.run([sys.executable, GENERATE, *arguments, path], capture_output=True, text=True)
        return done

    def made(self, text, what, name):
        done = self.generate(text, "--make", what, "--outdir", self.folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with open(os.path.join(self.folder, name)) as file:
            return file.read()

    def assert_refused(self, text, where, words):
        """The message names the line, and nothing is written."""
        done = self.generate(text, "--make", "mgmt", "--outdir", self.folder)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertTrue(done.stderr.startswith(os.path.join(self.folder, f"sample.def:{where}: ")), done.stderr)
        self.assertIn(words, done.stderr)
        self.assertEqual(os.listdir(self.folder), ["sample.def"])


class Methods(Table):
    QUERY = "method mgmt.MgmtSvc/SystemQuery by mgmt for admin # who is there\n"
    RANKS = "method ctl.CtlSvc/StopRanks by server for admin server request ctl.RanksReq answer ctl.RanksResp function stop_some\n"

    def test_a_method_is_a_row_and_a_prototype_of_its_place(self):
        made = self.made(self.QUERY + self.RANKS, "mgmt", "methods.gen.c")
        self.assertIn('{ "/mgmt.MgmtSvc/SystemQuery", &mgmt__system_query_req__descriptor, &mgmt__system_query_resp__descriptor, GRPC_ROLE_ADMIN,'
                      ' mgmt_system_query },', made)
        self.assertNotIn("StopRanks", made)
        self.assertIn("mgmt_method_count = 1;", made)
        made = self.made(self.QUERY + self.RANKS, "server", "methods.gen.c")
        self.assertIn('{ "/ctl.CtlSvc/StopRanks", &ctl__ranks_req__descriptor, &ctl__ranks_resp__descriptor, GRPC_ROLE_ADMIN | GRPC_ROLE_SERVER,'
                      ' stop_some },', made)
        self.assertIn("void stop_some(struct grpc_call *call, const ProtobufCMessage *request);", self.made(self.RANKS, "server", "methods.gen.h"))

    def test_mistakes_are_named(self):
        for line, words in (("method mgmt.MgmtSvc/SystemQuery by mgmt", "expected: method"),
                            ("method SystemQuery by mgmt for admin", "expected: method"),
                            ("method mgmt.MgmtSvc/SystemQuery by engine for admin", "by engine, which is none of"),
                            ("method mgmt.MgmtSvc/SystemQuery by mgmt for everybody", "expected: method"),
                            ("method mgmt.MgmtSvc/SystemGuess by mgmt for admin", "no message mgmt.SystemGuessReq"),
                            (self.QUERY.strip(), "a second row for mgmt.MgmtSvc/SystemQuery"),
                            ("methods mgmt.MgmtSvc/SystemQuery", '"methods" is not understood')):
            self.assert_refused(self.QUERY + "\n" + line + "\n", 3, words)


class Absent(Table):
    REASON = "reason\n\twhy there are \"none\"\n\tinstead do without\n"

    def test_rows_with_a_field_come_first(self):
        rows = self.made(self.REASON + "absent a.Svc/One do all\nabsent a.Svc/One field 4 do some\n", "mgmt", "absent.gen.inc")
        self.assertEqual(rows.splitlines(), ['{ "/a.Svc/One", 4, "do some", "there are \\"none\\"", "do without" },',
                                             '{ "/a.Svc/One", 0, "do all", "there are \\"none\\"", "do without" },'])
        done = self.generate(self.REASON + "absent a.Svc/One do all\n", "--print", "absent")
        self.assertEqual(done.stdout, 'do all\tnot here: there are "none". Instead: do without\n')

    def test_mistakes_are_named(self):
        self.assert_refused("absent a.Svc/One do all\n", 1, '"absent" belongs below a row "reason"')
        self.assert_refused("\nreason\n\twhy there are none\n\tabsent a.Svc/One do all\n", 2, '"instead"')
        self.assert_refused(self.REASON + "absent a.Svc do all\n", 4, "expected: absent")
        self.assert_refused(Methods.QUERY + self.REASON + "absent mgmt.MgmtSvc/SystemQuery do all\n", 2, "is not absent")


class Commands(Table):
    HEAD = "common json -j flag\n\thelp print JSON\noption ranks -r text RANKS\n\thelp only these\n"
    SAMPLE = HEAD + """group pool
    summary pools of the system
    man What they are.
command list all
    help show the pools
    more Pools are **not** here yet.
    man Show the **pools**, all-day; *really*.
    arguments 0-2 [NAME...]
    options ranks
    option justify -j words:left,right SIDE
        help where the text stands
    option depth number:1-64 COUNT default UINT64_MAX
        help so many levels
    option home path FOLDER
        help where they are
    option brief flag
        help less
    exclusive ranks justify brief
    required ranks home
    run run_pool_list
"""

    def test_an_option_is_a_member_and_a_row(self):
        header = self.made(self.SAMPLE, "commands", "commands.gen.h")
        for line in ("bool json;", "const char *ranks;", "uint64_t depth;", ".depth = UINT64_MAX,", "int run_pool_list(struct control_run *run);"):
            self.assertIn(line, header)
        source = self.made(self.SAMPLE, "commands", "commands.gen.c")
        rows = source.split("pool_list_all_rows[] = {")[1].split("};")[0]
        self.assertIn('{ "justify", \'j\', OPTION_TEXT, "SIDE", "where the text stands", .offset = offsetof(struct control_values, justify),'
                      ' .values = "left right" }', rows)
        self.assertIn('{ "depth", 0, OPTION_NUMBER, "COUNT", "so many levels", .offset = offsetof(struct control_values, depth),'
                      ' OPTION_RANGE(UINT64_C(1), UINT64_C(64)) }', rows)
        self.assertIn('{ "json", 0, OPTION_FLAG', rows)       # its letter is the command's own here
        self.assertIn('{ "json", \'j\', OPTION_FLAG', source.split("common_rows[] = {")[1].split("};")[0])
        self.assertIn("int cmd_pool(int argc, char **argv)", source)

    def test_rules_are_checked_in_one_function(self):
        check = self.made(self.SAMPLE, "commands", "commands.gen.c").split("static int check_pool_list_all(")[1].split("\n}\n")[0]
        for words in ("if (!!values->ranks + !!values->justify + !!values->brief > 1)", '"--ranks, --justify and --brief exclude each other"',
                      "if (!values->ranks && !values->home)", '"--ranks or --home is required"', "is none of left, right",
                      "values->home[0] != '/'"):
            self.assertIn(words, check)

    def test_mistakes_are_named(self):
        lines = self.SAMPLE.count("\n")
        for line, words in (("option ranks text RANKS", "a second option ranks"), ("option all maybe", "which is none of flag, text"),
                            ("option all flag ALL", "every option but a flag"), ("option all number COUNT", "have values"),
                            ("option all number:x COUNT", "is not MIN-MAX"), ("options nothing", "no option nothing"),
                            ("exclusive brief", "names options"), ("exclusive brief depth", "no option depth that can be checked"),
                            ("required what", "no option what"), ("arguments some", "expected: arguments"), ("command list all", "a second command"),
                            ("summary late", 'belongs below a row "group"'), ("group pool", "a second group pool")):
            self.assert_refused(self.SAMPLE + line + "\n", lines + 1, words)
        self.assert_refused(self.HEAD + "command x\n", 5, "a command without a group")
        self.assert_refused(self.HEAD + "run x\n", 5, 'belongs below a row "command"')
        self.assert_refused(self.SAMPLE + "option other -r flag\n\thelp x\n", lines + 1, "two options -r")
        self.assert_refused(self.SAMPLE + "option other flag\n", lines + 1, 'needs a line "help"')
        self.assert_refused(self.SAMPLE + "option json flag\n\thelp x\n", lines + 1, "all commands have an option json")
        self.assert_refused(self.SAMPLE + "command bare\n\thelp x\n", lines + 1, 'a line "run"')
        self.assert_refused(self.SAMPLE + "command two\n\thelp x\n\trun x\noption depth flag\n\thelp x\n", lines + 4, "another type or default")


class Pages(Table):
    def test_a_group_is_a_man_page(self):
        sys.path.insert(0, os.path.dirname(GENERATE))
        import manual
        import table
        path = os.path.join(self.folder, "sample.def")
        with open(path, "w") as file:
            file.write(Commands.SAMPLE)
        rows = table.read([path])
        page = manual.page(rows, rows.groups[0])
        for words in ("\n.B fathom pool list all\n.RI [ OPTION ...]\n[NAME...]\n", "\n.SS list all\nShow the \\fBpools\\fR, all\\-day; \\fIreally\\fR.\n",
                      "\n.TP\n\\fB\\-j\\fR, \\fB\\-\\-justify\\fR \\fISIDE\\fR\nWhere the text stands.\n", "\n.TP\n\\fB\\-\\-brief\\fR\nLess.\n"):
            self.assertIn(words, page)

    def test_the_pages_of_the_tree_are_up_to_date(self):
        done = subprocess.run([sys.executable, GENERATE, "--check"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))


if __name__ == "__main__":
    unittest.main()
