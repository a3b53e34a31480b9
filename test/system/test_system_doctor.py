# SPDX-License-Identifier: BSD-2-Clause
"""fathom system doctor: hosts that are asked, folded findings, hosts that do not answer; the status page shows what the doctor found."""

import json
import os
import signal
import unittest
import urllib.request

from control_rig import SERVER, System, SystemTest
from harness import BIN, free_port, run, wait_for
from server_rig import Refused, ServerTest

SERVER_CODES = range(520, 550)


class SystemDoctor(SystemTest):
    def second(self, first):
        """A second host of the same system, with one engine."""
        folder = os.path.join(self.directory, "second")
        os.mkdir(folder)
        system = System(folder, 1)
        self.systems.append(system)
        text = open(system.config, encoding="utf-8").read()
        with open(system.config, "w", encoding="utf-8") as file:
            file.write(text.replace(f"mgmt_svc_replicas: ['127.0.0.1:{system.port}']", f"mgmt_svc_replicas: ['127.0.0.1:{first.port}']"))
        system.start()
        return system

    def doctor(self, system, *options, status):
        done = system.fathom("system", "doctor", "--json", *options, check=False)
        self.assertIn(done.returncode, status, done.stdout + done.stderr)
        return json.loads(done.stdout)["response"]

    def rows(self, report):
        """The findings about servers and members: this machine may give an engine less than it wants."""
        return {(row["name"], row["hosts"]): row for row in report["findings"] if row["code"] in SERVER_CODES and row["severity"] != "note"}

    def test_equal_findings_are_folded_and_a_silent_host_is_one(self):
        first = self.system(1, formatted=False)
        second = self.second(first)
        both = f"127.0.0.1:{first.port},127.0.0.1:{second.port}"
        folded = ",".join(sorted(both.split(",")))
        report = self.doctor(first, "-l", both, status=[1, 2])
        self.assertEqual(report["host_count"], 2)
        row = self.rows(report)["engine_idle", folded]     # neither is formatted
        self.assertEqual(row["host_count"], 2)
        self.assertIn("await_format", row["says"])
        self.assertTrue(row["do"])
        text = first.fathom("system", "doctor", "-l", both, check=False).stdout
        self.assertRegex(text, r"\A2 hosts: (degraded|broken), \d+ finding")
        self.assertIn(f"  on        {folded}\n", text)
        os.kill(second.process.pid, signal.SIGSTOP)
        try:
            report = self.doctor(first, "-l", f"127.0.0.1:{second.port}", "--timeout", "2", status=[3])
        finally:
            os.kill(second.process.pid, signal.SIGCONT)
        self.assertEqual([(row["name"], row["hosts"]) for row in report["findings"]], [("host_silent", f"127.0.0.1:{second.port}")])

    def test_the_hosts_are_those_of_the_members(self):
        first = self.system(1)
        second = self.second(first)
        second.fathom("storage", "format")
        first.wait_until(lambda: len(first.members()) == 2 and set(first.states().values()) == {"joined"}, "both have joined")
        report = self.doctor(first, status=[0, 1])
        self.assertEqual((report["host_count"], self.rows(report)), (2, {}))
        second.kill()
        report = self.doctor(first, status=[2])
        self.assertIn(("host_silent", f"127.0.0.1:{second.port}"), self.rows(report))

    def test_no_host_at_all(self):
        system = self.system(1, formatted=False)
        self.assertEqual(system.stop(), 0)
        report = self.doctor(system, status=[3])
        self.assertEqual([row["name"] for row in report["findings"]], ["host_silent", "members_unknown"])


class Program(ServerTest):
    """The program that a server runs for the call HostDoctor."""

    def other_server(self, script):
        """A server in a folder of its own, beside which `fathom` is this script; None: it is missing."""
        folder = os.path.join(self.directory, "bin")
        os.mkdir(folder)
        for name in ("fathom-engine", "fathom-helper"):
            os.symlink(os.path.join(BIN, name), os.path.join(folder, name))
        run("cp", "--dereference", SERVER, folder)
        if script:
            with open(os.path.join(folder, "fathom"), "w", encoding="ascii") as file:
                file.write(script)
            os.chmod(os.path.join(folder, "fathom"), 0o755)
        return os.path.join(folder, "fathom-server")

    def refused(self, script):
        server = self.server(engines=0)
        server.start(program=self.other_server(script))
        with self.assertRaises(Refused) as refused:
            server.call("/fathom.ControlSvc/HostDoctor", self.messages.fathom.HostDoctorReq(), timeout=60)
        return refused

    def test_a_host_without_the_program(self):
        refused = self.refused(None)
        self.assertEqual(refused.exception.fault.get("Code"), "1480")

    def test_a_doctor_that_fails(self):
        refused = self.refused("#!/bin/sh\nexit 3\n")
        self.assertEqual(refused.exception.fault.get("Code"), "1481")
        self.assertIn("status 3", refused.exception.text)

    def test_callers_share_a_report(self):
        server = self.server(engines=1).start()
        first = server.call("/fathom.ControlSvc/HostDoctor", self.messages.fathom.HostDoctorReq(), timeout=60)
        idle = next(finding for finding in first.findings if finding.name == "engine_idle")
        self.assertEqual((idle.severity, idle.code), ("degraded", 534))
        self.assertTrue(idle.program.startswith(server.trace_name))
        again = server.call("/fathom.ControlSvc/HostDoctor", self.messages.fathom.HostDoctorReq(), timeout=60)
        self.assertGreaterEqual(again.taken_ns, first.taken_ns)

    def test_the_status_page_has_the_findings_with_their_time(self):
        port = free_port()
        self.server(engines=1, keys=f"telemetry_port: {port}\n").start()
        seen = {}

        def look():
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/status.json", timeout=60) as answer:
                seen.update(json.load(answer))
            return "findings" in seen

        wait_for(look)
        idle = next(row for row in seen["findings"] if row["name"] == "engine_idle")
        self.assertTrue(all(idle[key] for key in ("severity", "what", "do", "next", "program")))
        taken = seen["findings_ns"]
        self.assertGreater(taken, 1795000000 * 10**9)
        look()
        self.assertEqual(seen["findings_ns"], taken)   # not looked at again within a minute


if __name__ == "__main__":
    unittest.main()
