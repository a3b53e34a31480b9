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


if __name__ == "__main__":
    unittest.main()
