#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""src/control/operation/generate.py: the generated code, and errors with file and line."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("FATHOM_BUILD", os.path.join(TOP, "build"))  # for headers that other generators make
GENERATE = os.path.join(TOP, "src/control/operation/generate.py")


def open_text(path):
    with open(path) as file:
        return file.read()


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
        """Assert that the error names the line and that no file is written."""
        done = self.generate(text, "--make", "mgmt", "--outdir", self.folder)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertTrue(done.stderr.startswith(os.path.join(self.folder, f"sample.def:{where}: ")), done.stderr)
        self.assertIn(words, done.stderr)
        self.assertEqual(os.listdir(self.folder), ["sample.def"])


class Methods(Table):
    QUERY = "method mgmt.MgmtSvc/SystemQuery by mgmt for admin # who is there\n"
    RANKS = "method ctl.CtlSvc/StopRanks by server for admin server request ctl.RanksReq answer ctl.RanksResp function stop_some\n"

    def test_a_method_becomes_a_row_and_a_prototype(self):
        made = self.made(self.QUERY + self.RANKS, "mgmt", "methods.gen.c")
        self.assertIn('{ "/mgmt.MgmtSvc/SystemQuery", &mgmt__system_query_req__descriptor, &mgmt__system_query_resp__descriptor, GRPC_ROLE_ADMIN,'
                      ' mgmt_system_query },', made)
        self.assertNotIn("StopRanks", made)
        self.assertIn("mgmt_method_count = 1;", made)
        made = self.made(self.QUERY + self.RANKS, "server", "methods.gen.c")
        self.assertIn('{ "/ctl.CtlSvc/StopRanks", &ctl__ranks_req__descriptor, &ctl__ranks_resp__descriptor, GRPC_ROLE_ADMIN | GRPC_ROLE_SERVER,'
                      ' stop_some },', made)
        self.assertIn("void stop_some(struct grpc_call *call, const ProtobufCMessage *request);", self.made(self.RANKS, "server", "methods.gen.h"))

    def test_errors_name_their_line(self):
        for line, words in (("method mgmt.MgmtSvc/SystemQuery by mgmt", "expected: method"),
                            ("method SystemQuery by mgmt for admin", "expected: method"),
                            ("method mgmt.MgmtSvc/SystemQuery by engine for admin", "by engine, which is none of"),
                            ("method mgmt.MgmtSvc/SystemQuery by mgmt for everybody", "expected: method"),
                            ("method mgmt.MgmtSvc/SystemGuess by mgmt for admin", "no message mgmt.SystemGuessReq"),
                            (self.QUERY.strip(), "a second row for mgmt.MgmtSvc/SystemQuery"),
                            ("faults rank_busy guessed", "no fault guessed in faults.def"),
                            ("methods mgmt.MgmtSvc/SystemQuery", '"methods" is not understood')):
            self.assert_refused(self.QUERY + "\n" + line + "\n", 3, words)


class Absent(Table):
    REASON = "reason\n\twhy there are \"none\"\n\tinstead do without\n"

    def test_rows_with_a_field_come_first(self):
        rows = self.made(self.REASON + "absent a.Svc/One do all\nabsent a.Svc/One field 4 do some\n", "mgmt", "absent.gen.inc")
        self.assertEqual(rows.splitlines(), ['{ "/a.Svc/One", 4, false, "do some", "there are \\"none\\"", "do without" },',
                                             '{ "/a.Svc/One", 0, false, "do all", "there are \\"none\\"", "do without" },'])

    def test_a_method_may_refuse_requests_with_a_field(self):
        rows = self.made(Methods.QUERY + self.REASON + "absent mgmt.MgmtSvc/SystemQuery field 2 do some\n", "mgmt", "absent.gen.inc")
        self.assertIn('{ "/mgmt.MgmtSvc/SystemQuery", 2, true, "do some",', rows)

    def test_errors_name_their_line(self):
        self.assert_refused("absent a.Svc/One do all\n", 1, '"absent" belongs below a row "reason"')
        self.assert_refused("\nreason\n\twhy there are none\n\tabsent a.Svc/One do all\n", 2, '"instead"')
        self.assert_refused(self.REASON + "absent a.Svc do all\n", 4, "expected: absent")
        self.assert_refused(self.REASON + "absent a.Svc/One do all (One)\n", 4, "expected: absent")
        self.assert_refused("unsupported do all\n", 1, '"unsupported" belongs below a row "reason"')
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

    def test_an_option_becomes_a_member_and_a_row(self):
        header = self.made(self.SAMPLE, "commands", "commands.gen.h")
        for line in ("bool json;", "const char *ranks;", "uint64_t depth;", ".depth = UINT64_MAX,", "int run_pool_list(struct control_run *run);"):
            self.assertIn(line, header)
        source = self.made(self.SAMPLE, "commands", "commands.gen.c")
        rows = source.split("pool_list_all_rows[] = {")[1].split("};")[0]
        self.assertIn('{ "justify", \'j\', OPTION_TEXT, "SIDE", "where the text stands", .offset = offsetof(struct control_values, justify),'
                      ' .values = "left right" }', rows)
        self.assertIn('{ "depth", 0, OPTION_NUMBER, "COUNT", "so many levels", .offset = offsetof(struct control_values, depth),'
                      ' OPTION_RANGE(UINT64_C(1), UINT64_C(64)) }', rows)
        self.assertIn('"one of left, right"', self.made(self.SAMPLE.replace("where the text stands", "one of {values}"), "commands", "commands.gen.c"))
        self.assertIn('{ "json", 0, OPTION_FLAG', rows)       # its letter is the command's own here
        self.assertIn('{ "json", \'j\', OPTION_FLAG', source.split("common_rows[] = {")[1].split("};")[0])
        self.assertIn("int cmd_pool(int argc, char **argv)", source)

    def test_rules_are_checked_in_one_function(self):
        check = self.made(self.SAMPLE, "commands", "commands.gen.c").split("static int check_pool_list_all(")[1].split("\n}\n")[0]
        for words in ("if (!!values->ranks + !!values->justify + !!values->brief > 1)", '"--ranks, --justify and --brief exclude each other"',
                      "if (!values->ranks && !values->home)", '"--ranks or --home is required"', "is none of left, right",
                      "values->home[0] != '/'"):
            self.assertIn(words, check)

    def test_errors_name_their_line(self):
        lines = self.SAMPLE.count("\n")
        for line, words in (("option ranks text RANKS", "a second option ranks"), ("option all maybe", "which is none of flag, text"),
                            ("option all flag ALL", "every option but a flag"), ("option all number COUNT", "have values"),
                            ("option all number:x COUNT", "is not MIN-MAX"), ("options nothing", "no option nothing"),
                            ("exclusive brief", "names options"), ("exclusive brief depth", "no option depth that can be checked"),
                            ("required what", "no option what"), ("help the words {values}", "only an option of the type words or list"), ("arguments some", "expected: arguments"), ("command list all", "a second command"),
                            ("summary late", 'belongs below a row "group"'), ("group pool", "a second group pool")):
            self.assert_refused(self.SAMPLE + line + "\n", lines + 1, words)
        self.assert_refused(self.HEAD + "command x\n", 5, "a command without a group")
        self.assert_refused(self.HEAD + "run x\n", 5, 'belongs below a row "command"')
        self.assert_refused(self.SAMPLE + "option other -r flag\n\thelp x\n", lines + 1, "two options -r")
        self.assert_refused(self.SAMPLE + "option other flag\n", lines + 1, 'needs a line "help"')
        self.assert_refused(self.SAMPLE + "option json flag\n\thelp x\n", lines + 1, "all commands have an option json")
        self.assert_refused(self.SAMPLE + "command bare\n\thelp x\n", lines + 1, 'a line "calls" or "run"')
        self.assert_refused(self.SAMPLE + "command two\n\thelp x\n\trun x\noption depth flag\n\thelp x\n", lines + 4, "another type or default")


class NewCall(unittest.TestCase):
    """A call needs only its messages and rows, and the generated code compiles. docs/adding-a-call.md has the same call."""

    MESSAGES = """
message SystemNewReq {
    string sys = 1;
    string ranks = 2;
    string hosts = 3;
    bool deep = 4;
    repeated SystemPart parts = 5;
}
message SystemPart {
    uint32 rank = 1;
    string what = 2;
    uint64 size = 3;
}
message SystemNewResp {
    repeated SystemPart parts = 1;
    string note = 2;
    repeated uint32 numbers = 3;
    repeated uint64 sizes = 4;
}
"""
    ROWS = """
record part from mgmt.SystemPart
    field u32 rank
    field text what
    field u64 bytes = size
    json rank|no_rank what size=bytes
    columns "Rank" rank, "What" what, "Size" bytes:size
record parts from mgmt.SystemNewResp
    table parts
    field list parts count of part sorted rank
    field text note
    field u32s numbers number_count
    field u64s sizes size_count
    json parts note? numbers sizes spare=0
record demand
    field text ranks
    field bool is_deep = deep
    field u32 hosts_max
method mgmt.MgmtSvc/SystemNew by mgmt for admin agent
call new asks mgmt.MgmtSvc/SystemNew as system new retry same
    argument choice
    argument bool deep
    result parts
call fill asks mgmt.MgmtSvc/SystemNew as system new retry same
    argument list part parts
    result parts
call demand asks mgmt.MgmtSvc/SystemNew as system new retry same
    argument fields demand demand
    build build_demand
command quiet
    help say little
    option deep as other_deep text WORD
        help how deep
    calls erase_quietly
    done It is done.
call erase_quietly asks mgmt.MgmtSvc/SystemNew as system quiet retry never
command new
    help do what is new
    options ranks rank-hosts
    option deep flag
        help look at each device
    exclusive ranks rank-hosts
    calls new
"""
    # the result of the call, in place of a server
    ANSWER = """
#include <stdlib.h>
#include <string.h>
#include "fathom/control.h"

int fathom_control_new(struct fathom_control *control, const struct fathom_control_choice *choice, bool deep, struct fathom_control_parts **ret,
                       struct fathom_fault *why)
{
    static const struct fathom_control_part parts[] = { { .rank = 3, .what = "disk", .bytes = 4096 } };
    struct fathom_control_parts *result = calloc(1, sizeof(*result));

    if (!result || !choice->ranks || strcmp(choice->ranks, "3") != 0 || !deep)
        abort();
    result->parts = parts;
    result->count = 1;
    result->note = "";
    *ret = result;
    return 0;
}

int fathom_control_erase_quietly(struct fathom_control *control, struct fathom_fault *why)
{
    return 0;
}

/* no server is asked */
int control_open(const void *values, struct fathom_control **control_ret, struct fathom_fault *why)
{
    *control_ret = NULL;
    return 0;
}

void control_close(struct fathom_control *control)
{
}

bool control_was_interrupted(void)
{
    return false;
}

void fathom_control_free(void *result)
{
    free(result);
}
"""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(subprocess.run, ["rm", "-r", self.folder], check=True)
        self.source = os.path.join(self.folder, "src")
        self.proto = os.path.join(self.source, "rpc/proto")
        shutil.copytree(os.path.join(TOP, "src/rpc/proto"), self.proto)
        self.operation = os.path.join(self.folder, "operation")
        shutil.copytree(os.path.dirname(GENERATE), self.operation, ignore=shutil.ignore_patterns("__pycache__"))
        os.makedirs(os.path.join(self.folder, "fault"))
        shutil.copy(os.path.join(TOP, "src/control/fault/faults.def"), os.path.join(self.folder, "fault"))
        with open(os.path.join(self.proto, "mgmt.proto"), "a") as file:
            file.write(self.MESSAGES)
        with open(os.path.join(self.operation, "system.def"), "a") as file:
            file.write(self.ROWS)

    def make(self, what, place):
        os.makedirs(os.path.join(self.source, place), exist_ok=True)
        subprocess.run([sys.executable, os.path.join(self.operation, "generate.py"), "--proto", self.proto, "--make", what,
                        "--outdir", os.path.join(self.source, place)], check=True)

    def make_all(self):
        """Generate all files of the build, from the table with the sample."""
        for name in ("ctl", "fathom", "mgmt", "shared", "srv"):
            subprocess.run(["protoc-c", "--proto_path=" + self.source, "--c_out=" + self.source, f"rpc/proto/{name}.proto"], check=True)
        for what, place in (("mgmt", "control/mgmt"), ("client", "control/client"), ("commands", "cmd/fathom/control"), ("show", "cmd/fathom/show")):
            self.make(what, place)
        sys.path.insert(0, self.operation)
        self.addCleanup(sys.path.remove, self.operation)
        os.makedirs(os.path.join(self.folder, "include/fathom"))
        for path, function, declaration in (("include/fathom/control.h", "header", "int fathom_control_new(struct fathom_control *control,"),
                                            ("include/fathom/control_results.h", "results_header", "struct fathom_control_parts {")):
            declared = subprocess.run([sys.executable, "-c", "import library, sys, table; rows = table.read(proto_folder=sys.argv[1]);"
                                       f"sys.stdout.write(library.{function}(rows, sys.stdin.read()))", self.proto], cwd=self.operation, check=True,
                                      text=True, stdout=subprocess.PIPE, input=open_text(os.path.join(TOP, path))).stdout
            self.assertIn(declaration, declared)
            with open(os.path.join(self.folder, path), "w") as file:
                file.write(declared)

    def compile(self, path, *arguments):
        done = subprocess.run(["cc", "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror",
                               "-I", os.path.join(self.folder, "include"), "-I", self.source, "-I", os.path.join(TOP, "src"),
                               "-I", os.path.join(TOP, "include"), "-I", os.path.join(BUILD, "src"), *arguments, path], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_generated_code_compiles(self):
        self.make_all()
        for path in ("control/mgmt/methods.gen.c", "control/client/calls.gen.c", "cmd/fathom/control/commands.gen.c", "cmd/fathom/show/show.gen.c"):
            self.compile(os.path.join(self.source, path), "-fsyntax-only")
        made = open_text(os.path.join(self.source, "control/client/calls.gen.c"))
        self.assertIn("qsort(rows, count, sizeof(*rows), compare_part_by_rank);", made)
        self.assertIn("row->size = parts[i].bytes;", made)
        for line in ("to->numbers = arena_u32s(arena, from->numbers, from->n_numbers);", "to->sizes = arena_u64s(arena, from->sizes, from->n_sizes);",
                     'message.ranks = (char *)(demand->ranks ? demand->ranks : "");', "message.deep = demand->is_deep;",
                     "error = build_demand(arena, demand, &message, why);"):
            self.assertIn(line, made)
        self.assertIn("int build_demand(struct arena *arena, const struct fathom_control_demand *demand, Mgmt__SystemNewReq *to,",
                      open_text(os.path.join(self.source, "control/client/calls.gen.h")))

    def link(self):
        """Link the program fathom with the sample, whose call is in ANSWER."""
        with open(os.path.join(self.folder, "answer.c"), "w") as file:
            file.write(self.ANSWER)
        own = os.path.join(TOP, "src/cmd/fathom/control")
        sources = [os.path.join(self.folder, "answer.c"), os.path.join(self.source, "cmd/fathom/control/commands.gen.c"),
                   os.path.join(self.source, "cmd/fathom/show/show.gen.c")]
        sources += [os.path.join(own, name) for name in sorted(os.listdir(own)) if name.endswith(".c") and name != "session.c"]
        objects = []
        for number, path in enumerate(sources):
            objects.append(os.path.join(self.folder, f"{number}.o"))
            self.compile(path, "-c", "-fPIE", "-o", objects[-1])
        command = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", "-s", "bin/fathom"], check=True, capture_output=True, text=True).stdout
        words = [word for word in shlex.split(command.splitlines()[-1]) if "cmd_fathom_control_" not in word]
        at = words.index("-o")
        words[at:at + 2] = ["-o", os.path.join(self.folder, "fathom"), "-Wl,--allow-multiple-definition", *objects]
        done = subprocess.run(words, cwd=BUILD, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def fathom(self, *arguments):
        return subprocess.run([os.path.join(self.folder, "fathom"), *arguments], capture_output=True, text=True, timeout=30)

    def test_the_command_runs_without_handwritten_code(self):
        self.make_all()
        self.link()
        done = self.fathom("system", "new", "--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("--deep", done.stdout)
        self.assertIn("look at each device", done.stdout)
        done = self.fathom("system", "new", "--ranks", "3", "--rank-hosts", "a")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("--ranks and --rank-hosts exclude each other", done.stderr)
        done = self.fathom("system", "new", "--ranks", "3", "--deep")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual([line.split() for line in done.stdout.splitlines() if line],
                         [["Rank", "What", "Size"], ["----", "----", "----"], ["3", "disk", "4.1", "kB"]])
        done = self.fathom("system", "new", "--ranks", "3", "--deep", "--json")
        self.assertEqual(json.loads(done.stdout)["response"], 
                         {"parts": [{"rank": 3, "what": "disk", "size": 4096}], "numbers": None, "sizes": None, "spare": 0})
        done = self.fathom("system", "quiet", "--deep", "very")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "It is done.\n", ""))

    def refused(self, rows):
        with open(os.path.join(self.operation, "system.def"), "a") as file:
            file.write(rows)
        return subprocess.run([sys.executable, os.path.join(self.operation, "generate.py"), "--proto", self.proto, "--make", "client",
                               "--outdir", self.folder], capture_output=True, text=True).stderr

    def test_a_field_of_another_type_is_named(self):
        self.assertIn("bytes is u32, but size of mgmt.SystemPart is uint64", self.refused("record x from mgmt.SystemPart\nfield u32 bytes = size\n"))

    def test_a_missing_field_is_named(self):
        self.assertIn("mgmt.SystemPart has no field colour", self.refused("record x from mgmt.SystemPart\nfield text colour\n"))

    def test_a_call_with_a_missing_method_is_named(self):
        self.assertIn('no row "method" for mgmt.MgmtSvc/SystemOld', self.refused("call old asks mgmt.MgmtSvc/SystemOld as system old retry read\n"))

    def test_an_unused_argument_is_named(self):
        self.assertIn("wide is used by no field", self.refused("call old asks mgmt.MgmtSvc/SystemNew as system old retry read\nargument bool wide\n"))

    def test_fields_that_are_not_of_the_request_are_named(self):
        call = "call old asks mgmt.MgmtSvc/SystemNew as system old retry read\n"
        for rows, words in (("argument fields demand demand\n", "mgmt.SystemNewReq has no field hosts_max"), ("argument fields what demand\n", "no record what"),
                            ("build build_old\n", 'only a call with an argument "fields"'), ("argument fields demand demand = ranks\n", "expected: argument")):
            self.assertIn(words, self.refused(call + rows), rows)
            with open(os.path.join(self.operation, "system.def"), "w") as file:
                file.write(open_text(os.path.join(os.path.dirname(GENERATE), "system.def")) + self.ROWS)
        self.assertIn("deep is text, but deep of mgmt.SystemNewReq is bool",
                      self.refused("record deep\nfield text deep\n" + call + "argument fields deep deep\nbuild b\n"))

    def test_a_column_without_a_field_is_named(self):
        self.assertIn("x has no field y", self.refused('record x from mgmt.SystemPart\nfield text what\ncolumns "Y" y\n'))


    def test_a_command_whose_call_lacks_an_argument_is_named(self):
        for line, words in (("calls nothing", "no call nothing"), ("calls new deep=true wide=true", "new has no argument wide"),
                            ("calls new", "new needs its argument choice"), ("calls fill", "fill needs its argument parts"),
                            ("calls new deep", "expected: calls"), ("run f\ncalls leader", 'a line "calls" or "run"'),
                            ("calls leader\nprint leader long", "has no option long"),
                            ("run f\ndone x", 'only a command that "calls"')):
            self.assertIn(words, self.refused(f"command bad\nhelp x\n{line}\n"), line)
            with open(os.path.join(self.operation, "system.def"), "w") as file:
                file.write(open_text(os.path.join(os.path.dirname(GENERATE), "system.def")) + self.ROWS)


class Lists(unittest.TestCase):
    """Lists of words in the table of operations that exist also in other sources."""

    def words_of(self, pattern, path):
        found = re.search(pattern, open_text(os.path.join(TOP, path)), re.M)
        self.assertTrue(found, path)
        return found.group(1).replace(",", " ").split()

    def option(self, group, command, name):
        sys.path.insert(0, os.path.dirname(GENERATE))
        import table
        rows = next(each for each in table.read().groups if each.name == group)
        return next(each for each in rows.commands if each.name == command).option(name)

    def test_the_states_of_members_equal_those_of_the_server(self):
        rows = re.findall(r'\[MEMBER_\w+\] = \{ "\w+", "(\w+)"', open_text(os.path.join(TOP, "src/control/system/states.c")))
        self.assertGreater(len(rows), 10)
        offered = self.option("system", "query", "with-states").values.split(",")
        self.assertEqual(set(rows) - set(offered), {"unknown", "checkerstarted"})    # Fathom's members do not enter these
        self.assertEqual(set(offered) - set(rows), set())

    def test_the_causes_of_an_end_equal_those_of_the_engines(self):
        causes = [cause.lower() for cause in self.words_of(r"^enum instance_cause prefix=INSTANCE_ \{ ([A-Z_ ]+) \}", "src/control/instance/probes.def")]
        self.assertGreater(len(causes), 5)
        self.assertEqual(self.words_of(r"more CAUSE: ([a-z_, ]+)\.", "src/control/operation/server.def"), causes)
        said = self.words_of(r"^fault 693 [^\n]*\n(?:\t[^\n]*\n)*?\tdo use ([a-z_, ]+)$", "src/control/fault/faults.def")
        self.assertEqual([word for word in said if word != "or"], causes)


class Pages(Table):
    def test_a_group_has_a_man_page(self):
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
        self.assertNotIn(".SH FAULTS", page)

    def test_the_faults_of_a_command_equal_those_of_its_methods(self):
        sys.path.insert(0, os.path.dirname(GENERATE))
        import manual
        import table
        rows = table.read()
        storage, system = (next(group for group in rows.groups if group.name == name) for name in ("storage", "system"))
        faults = {command.name: rows.faults_of(command) for command in system.commands + storage.commands}
        self.assertEqual(faults["set-prop"], ["property_unknown", "property_bad", "property_absent"])
        self.assertEqual(faults["exclude"], faults["clear-exclude"])    # one call
        self.assertIn("not_excluded", faults["exclude"])
        self.assertEqual(faults["leader-query"], [])
        self.assertIn("\n.SH FAULTS\n", manual.page(rows, system))
        self.assertIn("\n.TP\n.B erase\n468 system_running\n.br\n653 mgmt_queue_full\n.br\n689 rank_busy\n", manual.page(rows, system))

    DMG = """common json -j flag
    help print JSON
    dmg same
common timeout number:1-9 SECONDS
    help limit for the command
    dmg none
group pool
    summary pools of the system
command list
    help show the pools
    dmg other pools | it is a command of a group
    option brief -b flag
        help show less
    option long -v flag
        help show more
        dmg other -l, --verbose | its letter
    option colour flag
        help show colours
        dmg none
    run run_pool_list
command watch
    help show changes
    run run_pool_watch
reason
    why there are none
    instead do without
    absent a.Svc/One pool list
    absent a.Svc/Two pool heal (start, stop)
    absent a.Svc/Three disk list
reason
    why it is slow
    unsupported --fast
    unsupported pools --wide
"""

    def test_the_page_for_users_of_dmg_has_each_command_and_option(self):
        sys.path.insert(0, os.path.dirname(GENERATE))
        import dmg
        import table
        path = os.path.join(self.folder, "sample.def")
        with open(path, "w") as file:
            file.write(self.DMG)
        rows = table.read([path])
        self.assertEqual(dmg.comparison(rows).splitlines()[2:], [
            "| `-j, --json` | `fathom system query -j --json` | same |",
            "| `--fast` | - | not here: it is slow |",
            "| `version` | `fathom --version` | other |",
            "| `pools` | `fathom pool list -b --brief` | other: it is a command of a group |",
            "| `pools -l, --verbose` | `fathom pool list -v --long` | other: its letter |",
            "| `pool heal start` | - | not here: there are none. Instead: do without |",
            "| `pool heal stop` | - | not here: there are none. Instead: do without |",
            "| `disk list` | - | not here: there are none. Instead: do without |",
            "| `pools --wide` | - | not here: it is slow |"])
        self.assertEqual(dmg.additions(rows).splitlines(), [
            "- `fathom pool list --colour`: show colours", "- `fathom pool watch`: show changes", "- `--timeout`: limit for the command"])
        for text, words in (("dmg alike", "expected: dmg"), ("man x\ngroup other\ndmg same", 'belongs below a row "option" or "command"')):
            self.assert_refused(self.DMG.replace("common timeout", "common late flag\n" + text + "\ncommon timeout"), 4 + text.count("\n") + 1, words)

    def test_the_pages_of_the_tree_are_up_to_date(self):
        done = subprocess.run([sys.executable, GENERATE, "--check"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))


if __name__ == "__main__":
    unittest.main()
