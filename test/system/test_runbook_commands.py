# SPDX-License-Identifier: BSD-2-Clause
"""Each command of docs/runbook.md is run, as it stands there but for names, against a live engine, server or agent; or its row in runbook_commands.py says why not."""

import json
import os
import re
import subprocess
import sys
import unittest

import runbook_commands
from control_rig import SystemTest
from harness import BIN, FATHOM, NQN, TOP, EngineTest, wait_for

sys.path.insert(0, os.path.join(TOP, "test/unit/control/agent"))

HOST = "nqn.2014-08.org.nvmexpress:uuid:11111111-1111-4111-8111-111111111111"
MIB = 1 << 20
HELD = 6
SECONDS = 120


class Rows(unittest.TestCase):
    def test_each_command_of_the_runbook_has_a_row_and_each_row_is_in_the_runbook(self):
        with open(os.path.join(TOP, "docs", "runbook.md"), encoding="utf-8") as file:
            commands = runbook_commands.commands_of(file.read())
        rows = [row.text for row in runbook_commands.ROWS]
        self.assertEqual(sorted(set(commands) - set(rows)), [], "commands without a row in test/system/runbook_commands.py")
        self.assertEqual(sorted(set(rows) - set(commands)), [], "rows whose command is not in the runbook")
        self.assertEqual(len(rows), len(set(rows)))

    def test_a_row_that_names_another_test_names_one_that_runs_the_command(self):
        for row in runbook_commands.ROWS:
            if hasattr(row, "test"):
                with open(os.path.join(TOP, "test", "system", row.test), encoding="utf-8") as file:
                    self.assertIn(row.word, file.read(), row.text)


class Typing:
    """Runs rows."""

    def type_rows(self, rows, names):
        for row in rows:
            command = row.run.format(**names)
            with self.subTest(row.text):
                try:
                    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=SECONDS, check=False, stdin=subprocess.DEVNULL,
                                          env=dict(os.environ, PATH=f"{BIN}:{os.environ['PATH']}", HOME=self.directory), cwd=self.directory)
                except subprocess.TimeoutExpired:
                    self.fail(f"{command}: not done in {SECONDS} s")
                said = f"{command}: {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
                if done.returncode == 127 and re.search(r"not found", done.stderr):
                    continue    # a program that this machine does not have
                self.assertIn(done.returncode, row.status, said)
                wanted = row.shows.format(**{name: re.escape(str(value)) for name, value in names.items()})
                if wanted:
                    self.assertRegex(done.stdout + done.stderr, wanted, said)


class OneEngine(Typing, EngineTest):
    def test_the_commands_for_one_engine(self):
        storage = os.path.join(self.directory, "storage")
        os.mkdir(storage)
        engine = self.engine("--storage", storage)
        engine.rpc("pool_create", pool="p1", overcommit=True)
        engine.rpc("volume_create", pool="p1", volume="db", size=8 * MIB)
        engine.run_commands(f"""nvmf_create_transport -t tcp
nvmf_create_subsystem {NQN} -a -m 10
nvmf_subsystem_add_listener {NQN} -t tcp -a 127.0.0.1 -s {engine.port}
nvmf_subsystem_add_ns {NQN} p1/db
bdev_malloc_create -b Disk1 16 512
bdev_error_create Disk1
nvmf_subsystem_add_ns {NQN} EE_Disk1 -n 2
""")
        engine.rpc("bdev_error_inject_error", name="EE_Disk1", io_type="read", error_type="failure", num=20)
        engine.perf("--nsid", 2, "--rw", "read", "--depth", 4, "--count", 100, check=False)
        engine.perf("--rw", "mix", "--depth", 4, "--count", 2000, "--hostnqn", HOST)
        engine.rpc("bdev_error_inject_error", name="EE_Disk1", io_type="read", error_type="pending", num=HELD)
        loads = [self.load(engine, "--rate", 200, "--depth", 2, "--hostnqn", HOST), self.load(engine, "--nsid", 2, "--rw", "read", "--depth", HELD)]
        try:
            wait_for(lambda: sum(row.get("stage") == "DISPATCHED" for row in engine.operations_under_way("--older-than", "0")) == HELD)
            slowest = [json.loads(line) for line in engine.trace("slowest", "--json", "-f", engine.trace_path).stdout.splitlines()]
            request = next(row["object"] for row in slowest if str(row.get("object", "")).startswith("r"))
            names = {"engine": engine.name, "pid": engine.pid, "socket": engine.sock, "folder": self.directory, "hostnqn": HOST, "nqn": NQN, "port": engine.port,
                     "programs": BIN, "request": request, "storage": storage}
            self.type_rows(runbook_commands.ENGINE, names)
        finally:
            for load in loads:
                load.kill()
                load.wait()
        engine.kill()
        self.type_rows(runbook_commands.ENDED, names)

    def load(self, engine, *options):
        return subprocess.Popen([str(word) for word in (FATHOM, "perf", "-a", "127.0.0.1", "-s", engine.port, "-n", NQN, "--time", 3600, "--timeout", 0, *options)],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class OneSystem(Typing, SystemTest):
    def test_the_commands_for_a_system(self):
        import agent_rig    # needs protoc  # pylint: disable=import-outside-toplevel
        one = self.system(engines=2)
        one.fathom("pool", "create", "p1", "--ranks", "0")
        one.fathom("volume", "create", "p1/db", "4M")
        folder = os.path.join(self.directory, "client")
        os.mkdir(folder)
        agent = agent_rig.Agent(folder, [f"127.0.0.1:{one.port}"], "name: test")
        self.addCleanup(agent.discard)
        agent.start()
        names = {"control": one.client_config, "server": one.config, "host": "127.0.0.1", "hostnqn": HOST, "folder": self.directory, "agent": agent.config,
                 "agent_name": f"agent-{os.getpid()}"}
        self.type_rows(runbook_commands.SERVER, names)


if __name__ == "__main__":
    unittest.main()
