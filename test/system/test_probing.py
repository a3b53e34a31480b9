# SPDX-License-Identifier: BSD-2-Clause
"""`fathom probe` lists the same probes of an engine as readelf, gdb and perf do."""

import json
import os
import re
import shutil
import subprocess
import unittest

from harness import ENGINE, FATHOM, EngineTest, run

# arguments that SPDK's public scripts read, from arg1 on, by our names
SPDK_ARGUMENTS = {
    "nvmf_tgt_state": "to",
    "nvmf_subsystem_change_state": "subnqn requested current",
    "nvmf_subsystem_change_state_done": "subnqn requested original status",
    "nvmf_pg_change_state": "subnqn requested thread",
    "nvmf_pg_change_state_done": "subnqn requested thread",
    "nvmf_create_poll_group": "thread",
    "nvmf_destroy_poll_group": "thread",
    "nvmf_poll_group_add_qpair": "object thread",
    "nvmf_poll_group_remove_qpair": "object thread",
    "nvmf_destroy_poll_group_qpairs": "thread",
    "nvmf_qpair_disconnect": "object thread",
    "nvmf_transport_qpair_fini": "object",
    "nvmf_poll_group_drain_qpair": "object thread",
    "nvmf_ctrlr_add_qpair": "object qid subnqn hostnqn",
    "nvmf_subsystem_add_host": "subnqn hostnqn",
    "nvmf_subsystem_remove_host": "subnqn hostnqn",
    "nvmf_subsystem_add_listener": "subnqn trtype traddr trsvcid",
    "nvmf_subsystem_remove_listener": "subnqn trtype traddr trsvcid",
    "nvmf_subsystem_create": "subnqn",
    "nvmf_subsystem_destroy": "subnqn",
    "nvmf_subsystem_add_ns": "subnqn nsid",
    "nvmf_subsystem_add_ctrlr": "subnqn ctrlr hostnqn",
    "nvmf_subsystem_remove_ctrlr": "subnqn ctrlr hostnqn",
    "nvmf_transport_poll_group_create": "transport thread",
    "nvmf_transport_poll_group_add": "object qid thread",
    "nvmf_transport_poll_group_remove": "object qid thread",
    "nvmf_tgt_add_transport": "transport target",
    "nvmf_poll_group_add_subsystem": "thread subnqn",
    "nvmf_poll_group_remove_subsystem": "object thread subnqn",
    "nvmf_ctrlr_create": "object subnqn thread",
    "nvmf_ctrlr_destruct": "object thread",
    "nvmf_ctrlr_add_io_qpair": "object qpair qid thread",
    "thread_send_msg": "function",
    "for_each_channel": "visit",
    "bdev_io_submit": "object",
    "bdev_io_done": "object",
}


class Probing(EngineTest):
    def rows(self, *words):
        return [json.loads(line) for line in run(FATHOM, "probe", "list", "--json", *words).stdout.splitlines()]

    def test_processes_of_the_fathom_command_are_not_listed(self):
        """The command has probes too: those of the libraries it is linked with."""
        engine = self.engine("--name", "fathom")
        engine.name = "fathom"
        with subprocess.Popen([FATHOM, "rpc", "-s", engine.sock], stdin=subprocess.PIPE) as command:
            for words in (["fathom"], []):      # other tests' processes may be in both
                listed = {row["pid"] for row in self.rows(*words)}
                self.assertIn(engine.pid, listed)
                self.assertNotIn(command.pid, listed)
            command.stdin.close()

    def test_readelf_finds_the_same_probes_with_arguments_of_the_same_widths(self):
        engine = self.engine()
        rows = self.rows(engine.name)
        self.assertEqual({row["pid"] for row in rows}, {engine.pid})
        notes = run("readelf", "-n", "--wide", ENGINE).stdout
        sites = re.findall(r"Provider: (\w+)\n +Name: (\w+)\n.*\n +Arguments: (.*)", notes)
        self.assertGreater(len(sites), 80)
        self.assertEqual({(row["provider"], row["probe"]) for row in rows}, {site[:2] for site in sites})
        widths = {"u8": 1, "hex8": 1, "bool": 1, "u16": 2, "hex16": 2, "u64": 8, "i64": 8, "hex64": 8, "pointer": 8, "string": 8, "object": 8}
        for row in rows:
            there = [site[2].split() for site in sites if site[1] == row["probe"]]
            self.assertEqual(row["places"], len(there))
            for words in there:
                self.assertEqual([abs(int(word.split("@")[0])) for word in words],
                                 [widths.get(arg["type"], 4) for arg in row["args"]], row["probe"])

    def test_each_place_is_a_one_byte_nop_without_a_semaphore(self):
        notes = run("readelf", "-n", "--wide", ENGINE).stdout
        sites = [int(place, 16) for place in re.findall(r"Location: (0x\w+), Base: 0x\w+, Semaphore: 0x0+\n", notes)]
        self.assertEqual(len(sites), notes.count("Provider: fathom"))
        bytes_there = run("gdb", "-q", "-batch", "-nx", *(word for site in sites for word in ("-ex", f"output/x *(unsigned char *){site}",
                                                                                              "-ex", r"echo \n")), ENGINE).stdout
        self.assertEqual(re.findall(r"(?m)^0x\w+$", bytes_there), ["0x90"] * len(sites))

    def test_gdb_and_perf_find_the_same_probes(self):
        names = {row["probe"] for row in self.rows(self.engine().name)}
        by_gdb = run("gdb", "-q", "-batch", "-nx", "-ex", "info probes stap fathom", ENGINE).stdout
        self.assertEqual(set(re.findall(r"(?m)^stap +fathom +(\w+) ", by_gdb)), names)
        if not shutil.which("perf"):
            self.skipTest("perf is missing")
        home = dict(os.environ, HOME=self.directory)
        run("perf", "buildid-cache", "--add", ENGINE, env=home)
        by_perf = run("perf", "list", "sdt", env=home).stdout
        self.assertEqual(set(re.findall(r"sdt_fathom:(\w+)", by_perf)), names)

    def test_arguments_have_names_units_and_the_values_of_enums(self):
        engine = self.engine()
        done = next(row for row in self.rows(str(engine.pid)) if row["probe"] == "bdev_io_done")
        self.assertEqual([arg["name"] for arg in done["args"]], ["tick", "object", "queue_depth", "status", "device"])
        self.assertEqual(done["args"][3]["values"]["0"], "SUCCESS")
        text = run(FATHOM, "probe", "list", engine.name).stdout
        self.assertRegex(text, r"(?m)^  bdev_io_dispatch +arg0 tick: u64, arg1 bdev_io, arg2 queue_depth: u32, arg3 block_index: u64 \(blocks\)$")
        self.assertRegex(text, r"(?m)^  enum io_type: 0 READ, 1 WRITE, ")

    def test_arguments_are_in_the_order_that_scripts_for_spdk_expect(self):
        rows = {row["probe"]: [arg["name"] for arg in row["args"]] for row in self.rows(self.engine().name)}
        for name, words in SPDK_ARGUMENTS.items():
            self.assertIn(name, rows)
            self.assertEqual(rows[name][1:1 + len(words.split())], words.split(), name)

    def test_functions_that_spdk_s_scripts_attach_to_have_the_names_they_expect(self):
        """send_msg.bt reads the second argument of both; in ours it is the function of the message."""
        symbols = {}
        for line in run("nm", ENGINE).stdout.splitlines():
            words = line.split()
            if len(words) == 3 and words[1] in "Tt":
                symbols[words[2]] = words[0]
        for name in ("thread_send_msg", "for_each_channel"):
            self.assertEqual(symbols.get("spdk_" + name), symbols[name], name)

    def test_probe_docs_shows_every_probe_of_an_engine(self):
        page = run(FATHOM, "probe", "docs").stdout
        for row in self.rows(self.engine().name):
            line = next(line for line in page.splitlines() if line.startswith(f"| `{row['probe']}` |"))
            for number, arg in enumerate(row["args"][1:], 1):
                self.assertIn(f"arg{number} struct " if arg["name"] == "object" else f"arg{number} `{arg['name']}`", line)
        self.assertEqual(run(FATHOM, "probe", "docs", "engine", check=False).returncode, 2)

    def test_an_engine_without_a_trace_file_is_listed_with_widths_of_arguments_only(self):
        named, other = self.engine(), self.engine("--num-trace-entries", "0")
        rows = self.rows()
        self.assertLessEqual({named.pid, other.pid}, {row["pid"] for row in rows})
        done = next(row for row in rows if row["pid"] == other.pid and row["probe"] == "bdev_io_done")
        self.assertEqual(done["args"], [{"type": "u64"}, {"type": "u64"}, {"type": "u32"}, {"type": "u32"}, {"type": "u64"}])

    def test_an_engine_whose_program_file_was_removed_is_listed(self):
        program = os.path.join(self.directory, "fathom-engine")
        shutil.copy(ENGINE, program)
        engine = self.engine(program=program)
        os.unlink(program)
        self.assertGreater(len(self.rows(str(engine.pid))), 80)

    @unittest.skipUnless(os.geteuid() == 0, "root is needed to run a command as another user")
    def test_listing_another_users_process_names_its_user_and_the_missing_capability(self):
        pid = self.engine().pid
        done = run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", FATHOM, "probe", "list", str(pid), check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("it belongs to user 0, and you are user 65534; run this command as that user, or with CAP_SYS_PTRACE", done.stderr)

    def test_listing_fails_for_a_process_that_does_not_exist_or_has_no_probes(self):
        for target, text in (("no-such-engine", "no process with probes has the name"), (str(2**22 + 1), "does not exist"),
                             (str(os.getpid()), "has no probes")):
            done = run(FATHOM, "probe", "list", target, check=False)
            if "has no probes" in text and done.returncode == 0:
                continue    # this Python was built with probes
            self.assertEqual(done.returncode, 1, target)
            self.assertIn(text, done.stderr)
        done = run(FATHOM, "probe", "lost", check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""))


if __name__ == "__main__":
    unittest.main()
