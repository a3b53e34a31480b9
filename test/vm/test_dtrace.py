#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""fathom-probed in the guest beside the real DTrace.

    python3 test/vm/test_dtrace.py -v

A program that the real `dtrace -G` of Debian sid has built registers, and the real `dtrace` fires its probes. DTrace's own daemon shows
what the tree must be. Emulated, the real dtrace takes a minute.
"""

import pathlib
import re
import sys
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent)]

import dtrace       # noqa: E402
import probed       # noqa: E402

DTRACE_S = 300                  # dtrace first reads the kernel's types
THEIRS = f"chroot {dtrace.PLACE} /usr/sbin/dtprobed -F"


class TestDtrace(probed.ProbedTest):
    """The real programs of DTrace."""

    with_dtrace = True

    def test_a_program_of_the_real_dtrace_registers_and_the_real_dtrace_fires_its_probes(self):
        self.fresh()
        pid = self.start("demo")
        self.wait_for(self.probes, [f"demo{pid}/demo/main/done", f"demo{pid}/demo/main/start"])
        listed = self.host.check(f"chroot {dtrace.PLACE} /usr/sbin/dtrace -l -n 'demo*:::'", DTRACE_S)
        self.assertRegex(listed, rf"demo{pid}\s+demo\s+main done")
        self.assertRegex(listed, rf"demo{pid}\s+demo\s+main start")
        seen = self.host.check(dtrace.command('demo*:::start { printf("start %d %s\\n", arg0, copyinstr(arg1)); } '
                                              'demo*:::done { printf("done %d\\n", arg0); n++; } demo*:::done /n > 4/ { exit(0); }'),
                               DTRACE_S)
        # it prints the events of one processor after those of the other
        starts = sorted(int(number) for number in re.findall(r"^start (\d+) demo$", seen, re.M))
        dones = sorted(int(number) - 7 for number in re.findall(r"^done (\d+)$", seen, re.M))
        self.assertGreaterEqual(len(dones), 4, seen)
        self.assertEqual(dones, list(range(dones[0], dones[0] + len(dones))))
        # probes with an is-enabled check: attached and detached at other times
        self.assertEqual(starts, list(range(starts[0], starts[0] + len(starts))))
        self.assertLessEqual(abs(len(starts) - len(dones)), 2, seen)

    def test_the_tree_equals_that_of_the_other_daemon_byte_for_byte(self):
        seen = {}
        # programs have the same addresses each time
        self.host.check("echo 0 > /proc/sys/kernel/randomize_va_space")
        self.addCleanup(self.host.check, "echo 2 > /proc/sys/kernel/randomize_va_space")
        for command in (THEIRS, probed.OURS):
            job = self.fresh(command)
            words = "add /dof/simple.dof@400000 add /dof/typed.dof add /dof/isen.dof@10000 add /dof/many10.dof sleep"
            pids = [self.start("demo"), self.start(f"helper_client {words}")]
            self.wait_for(lambda: len(self.paths()), 24)
            seen[command] = {re.sub(f"{pids[0]}|{pids[1]}", "PID", path): data for path, data in self.files().items()}
            for pid in pids:
                self.host.run(f"kill -KILL {pid}")
            self.end_daemon(job)
        self.assertEqual(sorted(seen[probed.OURS]), sorted(seen[THEIRS]))
        for path, data in seen[THEIRS].items():
            self.assertEqual(seen[probed.OURS][path], data, path)

    def test_registrations_survive_the_daemon(self):
        job = self.fresh()
        pid, other = self.start("demo"), self.start("helper_client add /dof/simple.dof sleep")
        self.wait_for(lambda: len(self.paths()), 4)
        before = self.files()
        self.host.check("killall -KILL fathom-probed")
        self.end_daemon(job)
        self.host.check(f"kill -KILL {other}")
        self.daemon(probed.OURS)
        self.wait_for(self.files, {path: data for path, data in before.items() if path.startswith(f"{pid}/")})
        seen = self.host.check(dtrace.command("demo*:::done { exit(0); }"), DTRACE_S)
        self.assertEqual(seen.strip(), "")


if __name__ == "__main__":
    unittest.main()
