# SPDX-License-Identifier: BSD-2-Clause
"""fathom-probed with real programs: which registrations it has while a program runs, forks, execs, unmaps and ends."""

import json
import os
import re
import subprocess
import unittest

from harness import FATHOM, run
from registry_rig import CLIENT, LARGE, LARGE_PROBES, LIBRARY, LIBRARY_PROBES, NOTES_CLIENT, OBJECT_PROBES, OWN_DOF, OWN_NOTES, OWN_NOTHING, RegistryTest, read, wait_for


class Programs(RegistryTest):
    def test_a_program_is_registered_while_it_lives(self):
        probed = self.probed()
        client = self.client(probed)
        rows = probed.rows(str(client.pid))
        self.assertEqual(len(rows), OBJECT_PROBES)
        row = rows[0]
        self.assertEqual((row["provider"], row["module"], row["function"], row["probe"]),
                         ("client", "registry-client", "function0", "probe0"))
        self.assertEqual((row["program"], row["found"], row["args"]), ("registry-client", "socket", ["int", "char *"]))
        base = min(int(line.split("-")[0], 16) for line in read(f"/proc/{client.pid}/maps").splitlines() if line.rstrip().endswith(CLIENT))
        self.assertEqual([(int(site["address"], 16) - base, site.get("is_enabled", False)) for site in row["sites"]],
                         [(0x1000, False), (0x1008, True)])
        self.check_tree(probed.tree, [client.pid])
        self.assertEqual(client.close_and_wait(), 0)
        wait_for(lambda: self.tree_is_empty(probed))
        self.check_tree(probed.tree)

    def test_the_registrations_of_a_killed_program_are_removed(self):
        probed = self.probed()
        client = self.client(probed)
        self.assertTrue(os.path.exists(f"{probed.tree}/probes/{client.pid}"))
        client.process.kill()
        client.process.wait()
        wait_for(lambda: self.tree_is_empty(probed))
        self.assertEqual(os.listdir(f"{probed.tree}/probes"), [])
        self.check_tree(probed.tree)

    def test_registrations_of_the_same_object_are_counted(self):
        """A second registration does not replace the first, nor does removing one of them remove the other."""
        probed = self.probed()
        client = self.client(probed, "again", 3)
        self.assertEqual({row["count"] for row in probed.rows(str(client.pid))}, {4})
        self.check_tree(probed.tree, [client.pid])
        self.assertEqual(client.close_and_wait(), 0)
        wait_for(lambda: self.tree_is_empty(probed))

    def test_a_library_is_registered_while_it_is_loaded(self):
        probed = self.probed()
        client = self.client(probed, "load", LIBRARY, 40)
        self.assertEqual(probed.providers(client.pid), ["client", "library"])
        status = probed.status()
        self.assertEqual((status["tree"]["registrations"], status["removed"]), (2, 40))
        self.check_tree(probed.tree, [client.pid])

    def test_an_object_larger_than_a_message_is_parsed_in_little_memory(self):
        probed = self.probed()
        client = self.client(probed, "load", LARGE, 0)
        self.assertEqual(len(probed.rows(f"large{client.pid}")), LARGE_PROBES)
        # peak memory of the parser for an object of 615 KB, with all libraries of the daemon: as much of them as the page cache has counts
        parsers = [read(f"/proc/{pid}/status") for pid in read(f"/proc/{probed.pid}/task/{probed.pid}/children").split()]
        self.assertEqual(len(parsers), 1)
        self.assertLess(int(re.search(r"VmHWM:\s+(\d+) kB", parsers[0]).group(1)), 6144)

    def test_notes_of_the_mapped_file_are_read_if_there_is_no_object(self):
        """After a restart the daemon parses them again from the tree."""
        probed = self.probed()
        client = self.client(probed, program=NOTES_CLIENT)
        function = int(client.process.stdout.readline(), 16)
        for again in (probed, None):
            if again is None:
                probed.stop()
                again = self.probed("--record-version", "2")
                self.assertEqual(again.status()["jail"]["parsed"], 1)
            rows = again.rows(str(client.pid))
            self.assertEqual([(row["provider"], row["module"], row["function"], row["probe"]) for row in rows if row["probe"] == "go"],
                             [("usdtest", "notes", "subject_usdt", "go")])
            for row in rows:
                for site in row["sites"]:
                    self.assertLess(abs(int(site["address"], 16) - function), 4096)

    def test_one_line_registers_the_dof_or_the_notes_of_a_program(self):
        """The DOF has no symbol that could be named; one probe has __ in its name."""
        probed = self.probed()
        for program, provider, probes in ((OWN_NOTES, "usdtest", {"go", "multi-_site-"}), (OWN_DOF, "client", {"probe0", "probe1"})):
            client = self.client(probed, program=program)
            rows = probed.rows(str(client.pid))
            self.assertEqual({row["provider"] for row in rows}, {provider})
            self.assertEqual({row["module"] for row in rows}, {os.path.basename(program)})
            self.assertEqual({row["probe"] for row in rows}, probes)
            with open(f"/proc/{client.pid}/maps") as maps:
                mapped = [line.split()[0].split("-") for line in maps if program in line]
            for row in rows:
                for site in row["sites"]:
                    address = int(site["address"], 16)
                    self.assertTrue(any(int(start, 16) <= address < int(end, 16) for start, end in mapped), site)
            self.check_tree(probed.tree, [client.pid])
            self.assertEqual(client.close_and_wait(), 0)
            wait_for(lambda: self.tree_is_empty(probed))
        before = probed.status()["received"]
        client = self.client(probed, program=OWN_NOTHING)
        self.assertEqual(probed.status()["received"], before)
        self.assertEqual(client.close_and_wait(), 0)

    def test_forked_children_register_for_themselves(self):
        probed = self.probed()
        client = self.client(probed, "fork", 30)
        wait_for(lambda: probed.status()["tree"]["processes"] == 1)
        self.assertGreaterEqual(probed.status()["stored"], 61)
        self.assertEqual(len(probed.rows()), OBJECT_PROBES)
        self.check_tree(probed.tree, [client.pid])

    def test_a_program_that_executes_itself_is_registered_once(self):
        """After exec of the same file, pid, start time and program are the same; only the addresses are new."""
        probed = self.probed()
        client = self.client(probed, "exec", 20)
        rows = probed.rows(str(client.pid))
        self.assertEqual(len(rows), OBJECT_PROBES)
        self.assertEqual(rows[0]["count"], 1)
        base = min(int(line.split("-")[0], 16) for line in read(f"/proc/{client.pid}/maps").splitlines() if line.rstrip().endswith(CLIENT))
        self.assertEqual(int(rows[0]["sites"][0]["address"], 16), base + 0x1000)
        self.assertEqual(probed.status()["execs"], 20)
        self.check_tree(probed.tree, [client.pid])

    def test_executing_another_program_removes_the_probes_of_the_first(self):
        probed = self.probed()
        client = self.client(probed, "become", "/bin/cat")
        self.assertEqual(len(probed.rows(str(client.pid))), OBJECT_PROBES)
        client.send_line()
        wait_for(lambda: read(f"/proc/{client.pid}/comm") == "cat\n")
        self.assertEqual(probed.rows(str(client.pid)), [])
        self.assertEqual(probed.status()["execs"], 1)

    def test_an_unmapped_object_is_removed_when_it_is_next_listed(self):
        probed = self.probed()
        client = self.client(probed, "unmap", os.path.join(self.directory, "mapped"))
        self.assertEqual({row["module"] for row in probed.rows(str(client.pid))}, {"registry-client", "mapped"})
        client.send_line()
        client.wait_ready()
        self.assertEqual({row["module"] for row in probed.rows(str(client.pid))}, {"registry-client"})
        self.assertEqual(probed.status()["mappings_gone"], 1)
        self.check_tree(probed.tree, [client.pid])

    def test_an_unmapped_object_is_removed_by_the_periodic_check(self):
        probed = self.probed("--look", "100ms")
        client = self.client(probed, "unmap", os.path.join(self.directory, "mapped"))
        client.send_line()
        client.wait_ready()
        wait_for(lambda: probed.status()["mappings_gone"] == 1)

    def test_threads_of_one_process_register_at_once(self):
        """The state of a registration in progress belongs to a thread, not to its process."""
        probed = self.probed()
        client = self.client(probed, "threads", 16, 25)
        status = probed.status()
        self.assertEqual((status["stored"], status["removed"], status["refused"]), (401, 400, 0))
        self.assertEqual(probed.rows(str(client.pid))[0]["count"], 1)
        self.check_tree(probed.tree, [client.pid])

    def test_of_a_thousand_processes_only_the_living_stay_registered(self):
        probed = self.probed("--parse-timeout", "60s")      # on a slow machine many objects wait for a parser
        clients = [self.client(probed, "refresh", ready=False) for _ in range(1024)]
        for client in clients:
            client.wait_ready()

        def are_all_registered():
            for client in clients:
                client.refresh()        # the library waits 2 s for an answer: on a busy machine some get none and have to retry
            return probed.status()["tree"]["processes"] == 1024
        wait_for(are_all_registered)
        for client in clients[::2]:
            client.process.kill()
        for client in clients[::2]:
            client.process.wait()
        living = [client.pid for client in clients[1::2]]
        wait_for(lambda: probed.status()["tree"]["processes"] == 512)
        self.check_tree(probed.tree, living)
        self.assertEqual(sorted({row["pid"] for row in probed.rows()}), sorted(living))
        for client in clients[1::2]:
            client.process.stdin.close()
        wait_for(lambda: self.tree_is_empty(probed))
        self.check_tree(probed.tree)
        wait_for(lambda: probed.descriptor_count() < 40)    # registrations that still wait for a parser hold some until their turn

    def test_a_program_runs_normally_without_a_daemon(self):
        probed = self.probed()
        probed.stop()
        client = self.client(probed)
        self.assertEqual(client.close_and_wait(), 0)


class Command(RegistryTest):
    def test_probes_are_selected_by_pid_provider_and_pattern(self):
        probed = self.probed()
        one, two = self.client(probed), self.client(probed, "load", LIBRARY, 0)
        count = lambda *words: len(probed.rows(*words))
        self.assertEqual(count(), 2 * OBJECT_PROBES + LIBRARY_PROBES)
        self.assertEqual(count(str(one.pid)), OBJECT_PROBES)
        self.assertEqual(count(f"library{two.pid}"), LIBRARY_PROBES)
        self.assertEqual(count(f"library{one.pid}"), 0)
        self.assertEqual(count("client*:::probe1"), 2)
        self.assertEqual(count("client", "library"), 2 * OBJECT_PROBES + LIBRARY_PROBES)
        self.assertEqual(count(":registry-library.so:function2:"), 1)
        # a pattern with fewer than three colons names the last parts
        self.assertEqual(count("probe1"), len([row for row in probed.rows() if row["probe"] == "probe1"]))
        self.assertEqual(count("function2:probe*"), len([row for row in probed.rows() if row["function"] == "function2"]))
        self.assertEqual(count("nothing_of_that_name"), 0)

    def test_the_tree_is_read_without_a_daemon(self):
        probed = self.probed()
        client = self.client(probed)
        shown = run(FATHOM, "probe", "registry", "--socket", probed.socket).stdout
        self.assertIn(f"registry-client, pid {client.pid}, found by socket", shown)
        self.assertIn(f"client{client.pid}:registry-client:function0:probe0", shown)
        probed.kill()
        rows = [json.loads(line) for line in run(FATHOM, "probe", "registry", "--json", "--state-dir", probed.tree).stdout.splitlines()]
        self.assertEqual([(row["pid"], row["found"]) for row in rows], [(client.pid, "tree")] * OBJECT_PROBES)

    def test_watch_reports_added_and_removed_probes(self):
        probed = self.probed()
        watching = subprocess.Popen([FATHOM, "probe", "registry", "--watch", "--json", "--socket", probed.socket],
                                    stdout=subprocess.PIPE, text=True)
        self.addCleanup(watching.stdout.close)
        self.addCleanup(watching.wait)
        self.addCleanup(watching.kill)
        client = self.client(probed)
        for event in ("added", "removed"):
            for _ in range(OBJECT_PROBES):
                row = json.loads(watching.stdout.readline())
                self.assertEqual((row["event"], row["pid"]), (event, client.pid))
            client.process.kill()

    def test_a_missing_socket_or_tree_is_reported_with_what_to_do(self):
        done = run(FATHOM, "probe", "registry", "--socket", os.path.join(self.directory, "none"), check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("is fathom-probed running?", done.stderr)
        done = run(FATHOM, "probe", "registry", "--state-dir", self.directory, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--state-dir takes the same directory", done.stderr)


if __name__ == "__main__":
    unittest.main()
