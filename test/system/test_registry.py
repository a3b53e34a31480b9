# SPDX-License-Identifier: BSD-2-Clause
"""fathom-probed with real programs: who registers is found, who has ended is gone, whatever happens to whom."""

import glob
import json
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import time
import unittest

from harness import ENGINE, FATHOM, Engine, run
from registry_rig import ADD, CLIENT, PROBED, Connection, HELLO, LARGE, LIBRARY, LIST, NOTES, NOTES_CLIENT, OWN_DOF, OWN_NOTES, OWN_NOTHING, REMOVE, RegistryTest, wait_for

OBJECT_PROBES, LIBRARY_PROBES, LARGE_PROBES = 2, 3, 5000


def read(path):
    with open(path) as file:
        return file.read()


def parsers(probed):
    """The jail's children."""
    text = run("ps", "-o", "pid=", "--ppid", probed.pid, check=False).stdout
    return [int(word) for word in text.split()]


class Living(RegistryTest):
    """What programs do."""

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
        self.assertEqual(client.end(), 0)
        wait_for(lambda: self.empty(probed))
        self.check_tree(probed.tree)

    def test_a_killed_program_is_gone_at_once(self):
        probed = self.probed()
        client = self.client(probed)
        self.assertTrue(os.path.exists(f"{probed.tree}/probes/{client.pid}"))
        client.process.kill()
        client.process.wait()
        wait_for(lambda: self.empty(probed))
        self.assertEqual(os.listdir(f"{probed.tree}/probes"), [])
        self.check_tree(probed.tree)

    def test_what_is_registered_twice_is_counted(self):
        """Not destroyed by the second registration, and not removed with one of the two."""
        probed = self.probed()
        client = self.client(probed, "again", 3)
        self.assertEqual({row["count"] for row in probed.rows(str(client.pid))}, {4})
        self.check_tree(probed.tree, [client.pid])
        self.assertEqual(client.end(), 0)
        wait_for(lambda: self.empty(probed))

    def test_a_library_is_there_while_it_is_loaded(self):
        probed = self.probed()
        client = self.client(probed, "load", LIBRARY, 40)
        self.assertEqual(probed.providers(client.pid), ["client", "library"])
        status = probed.status()
        self.assertEqual((status["tree"]["registrations"], status["removed"]), (2, 40))
        self.check_tree(probed.tree, [client.pid])

    def test_an_object_larger_than_a_message(self):
        probed = self.probed()
        client = self.client(probed, "load", LARGE, 0)
        self.assertEqual(len(probed.rows(f"large{client.pid}")), LARGE_PROBES)
        # 615 KB of it: what the parser, with all that the daemon's program is linked with, ever had in memory
        parsers = [read(f"/proc/{pid}/status") for pid in read(f"/proc/{probed.pid}/task/{probed.pid}/children").split()]
        self.assertEqual(len(parsers), 1)
        self.assertLess(int(re.search(r"VmHWM:\s+(\d+) kB", parsers[0]).group(1)), 4096)

    def test_notes_of_the_mapped_file_are_read_where_there_is_no_object(self):
        """And parsed again after a restart, from what the tree has of them."""
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

    def test_one_line_registers_whatever_a_program_was_built_with(self):
        """Notes, or DOF without a symbol that could be named; a probe with __ in its name among them."""
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
            self.assertEqual(client.end(), 0)
            wait_for(lambda: self.empty(probed))
        before = probed.status()["received"]
        client = self.client(probed, program=OWN_NOTHING)
        self.assertEqual(probed.status()["received"], before)
        self.assertEqual(client.end(), 0)

    def test_children_register_for_themselves(self):
        probed = self.probed()
        client = self.client(probed, "fork", 30)
        wait_for(lambda: probed.status()["tree"]["processes"] == 1)
        self.assertGreaterEqual(probed.status()["stored"], 61)
        self.assertEqual(len(probed.rows()), OBJECT_PROBES)
        self.check_tree(probed.tree, [client.pid])

    def test_a_program_that_becomes_itself_again_is_registered_once(self):
        """An exec of the same file has the same pid, start time and program: addresses tell, which are new."""
        probed = self.probed()
        client = self.client(probed, "exec", 20)
        rows = probed.rows(str(client.pid))
        self.assertEqual(len(rows), OBJECT_PROBES)
        self.assertEqual(rows[0]["count"], 1)
        base = min(int(line.split("-")[0], 16) for line in read(f"/proc/{client.pid}/maps").splitlines() if line.rstrip().endswith(CLIENT))
        self.assertEqual(int(rows[0]["sites"][0]["address"], 16), base + 0x1000)
        self.assertEqual(probed.status()["execs"], 20)
        self.check_tree(probed.tree, [client.pid])

    def test_a_program_that_becomes_another_has_no_probes_of_the_one_before(self):
        probed = self.probed()
        client = self.client(probed, "become", "/bin/cat")
        self.assertEqual(len(probed.rows(str(client.pid))), OBJECT_PROBES)
        client.say()
        wait_for(lambda: read(f"/proc/{client.pid}/comm") == "cat\n")
        self.assertEqual(probed.rows(str(client.pid)), [])
        self.assertEqual(probed.status()["execs"], 1)

    def test_what_was_unmapped_without_a_word_is_gone_when_next_looked_at(self):
        probed = self.probed()
        client = self.client(probed, "unmap", os.path.join(self.directory, "mapped"))
        self.assertEqual({row["module"] for row in probed.rows(str(client.pid))}, {"registry-client", "mapped"})
        client.say()
        client.wait_ready()
        self.assertEqual({row["module"] for row in probed.rows(str(client.pid))}, {"registry-client"})
        self.assertEqual(probed.status()["mappings_gone"], 1)
        self.check_tree(probed.tree, [client.pid])

    def test_what_was_unmapped_is_gone_although_nobody_looks(self):
        probed = self.probed("--look", "100ms")
        client = self.client(probed, "unmap", os.path.join(self.directory, "mapped"))
        client.say()
        client.wait_ready()
        wait_for(lambda: probed.status()["mappings_gone"] == 1)

    def test_threads_of_one_process_register_at_once(self):
        """State is kept for each of them, not for their process."""
        probed = self.probed()
        client = self.client(probed, "threads", 16, 25)
        status = probed.status()
        self.assertEqual((status["stored"], status["removed"], status["refused"]), (401, 400, 0))
        self.assertEqual(probed.rows(str(client.pid))[0]["count"], 1)
        self.check_tree(probed.tree, [client.pid])

    def test_a_thousand_processes_half_of_them_killed(self):
        """Nothing of a dead one remains, and the living are all there."""
        probed = self.probed("--parse-timeout", "60s")      # they wait for each other on a slow machine
        clients = [self.client(probed, ready=False) for _ in range(1024)]
        for client in clients:
            client.wait_ready()
        wait_for(lambda: probed.status()["tree"]["processes"] == 1024)
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
        wait_for(lambda: self.empty(probed))
        self.check_tree(probed.tree)
        self.assertLess(probed.descriptors(), 40)

    def test_no_daemon_is_no_trouble(self):
        probed = self.probed()
        probed.stop()
        client = self.client(probed)
        self.assertEqual(client.end(), 0)


class Daemon(RegistryTest):
    """What happens to the daemon."""

    def test_registrations_outlive_it(self):
        probed = self.probed()
        client, other = self.client(probed), self.client(probed)
        self.assertEqual(probed.stop(), 0)
        other.process.kill()
        other.process.wait()
        again = self.probed()
        rows = again.rows()
        self.assertEqual({(row["pid"], row["found"]) for row in rows}, {(client.pid, "a daemon before this one")})
        self.assertIn("1 registrations kept, 0 of them parsed again, 1 removed", again.text())
        self.check_tree(again.tree, [client.pid])
        client.process.kill()
        client.process.wait()
        wait_for(lambda: self.empty(again))
        self.check_tree(again.tree)

    def test_restart_parses_again_only_for_another_version(self):
        probed = self.probed()
        client = self.client(probed)
        for version, times in (("3", 0), ("1", 1), ("1", 0), ("2", 1)):
            probed.stop()
            probed = self.probed("--record-version", version)
            self.assertEqual(probed.status()["jail"]["parsed"], times, f"version {version}")
            self.check_tree(probed.tree, [client.pid])
        self.assertEqual(len(probed.rows()), OBJECT_PROBES)

    def test_killed_in_a_loop_with_registrations_going_on(self):
        probed = self.probed()
        steady = self.client(probed)
        for round_ in range(12):
            clients = [self.client(probed, "threads", 2, 20, ready=False) for _ in range(4)]
            time.sleep(0.01 * round_)
            probed.kill()
            for client in clients:
                client.process.kill()
                client.process.wait()
            probed = self.probed()
            self.check_tree(probed.tree, [steady.pid])
            self.assertEqual([row["pid"] for row in probed.rows()], [steady.pid] * OBJECT_PROBES)

    def test_a_program_finds_a_daemon_that_comes_later(self):
        probed = self.probed()
        probed.stop()
        client = self.client(probed, "refresh")
        client.say()
        self.assertEqual(client.process.stdout.readline(), "0\n")
        again = self.probed()
        client.say()
        self.assertEqual(client.process.stdout.readline(), "1\n")
        self.assertEqual(again.providers(client.pid), ["client"])
        client.say()
        self.assertEqual(client.process.stdout.readline(), "0\n")
        again.stop()
        last = self.probed()
        client.say()
        self.assertEqual(client.process.stdout.readline(), "1\n")
        self.assertEqual({row["count"] for row in last.rows(str(client.pid))}, {1})

    def test_a_stalled_parser_delays_no_other_process(self):
        """SIGSTOP on a child: the process that it works for gets an error within the time-out."""
        probed = self.probed("--parse-timeout", "1s", "--children", "2")
        self.client(probed)
        stopped = parsers(probed)
        self.assertTrue(stopped)
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        started = time.monotonic()
        clients = [self.client(probed) for _ in range(8)]
        self.assertLess(time.monotonic() - started, WAIT)
        status = probed.status()
        self.assertGreaterEqual(status["jail"]["timed_out"], 1)
        self.assertGreaterEqual(len({row["pid"] for row in probed.rows()}), 8)
        self.assertTrue(clients)

    def test_programs_start_although_the_daemon_stands_still(self):
        """They wait for two seconds. What they said is read when it goes on."""
        probed = self.probed()
        os.kill(probed.pid, signal.SIGSTOP)
        client = self.client(probed)
        os.kill(probed.pid, signal.SIGCONT)
        if tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 5):     # before, the kernel cannot tell whether it is the same process
            wait_for(lambda: probed.providers(client.pid) == ["client"])
        self.assertEqual(client.end(), 0)
        wait_for(lambda: self.empty(probed))

    def test_a_parser_that_dies_is_replaced(self):
        probed = self.probed()
        for _ in range(5):
            for pid in parsers(probed):
                os.kill(pid, signal.SIGKILL)
            self.client(probed)
        self.assertGreaterEqual(len({row["pid"] for row in probed.rows()}), 4)

    def test_memory_and_descriptors_stay_flat(self):
        """A daemon that leaks 800 bytes with each registration shows it here."""
        probed = self.probed()
        self.client(probed, "threads", 4, 250)

        def resident():
            return int(re.search(r"RssAnon:\s+(\d+)", read(f"/proc/{probed.pid}/status"))[1])

        before, descriptors = resident(), probed.descriptors()
        self.client(probed, "threads", 8, 500)
        self.assertLessEqual(probed.descriptors(), descriptors + 10)    # one more process, and perhaps more parsers
        self.assertLess(resident() - before, 1024)

    def test_two_daemons_do_not_share_a_socket_or_a_tree(self):
        probed = self.probed()
        second = self.probed(ready=False)
        self.assertEqual(second.process.wait(20), 1)
        self.assertIn("another", second.text())
        self.assertEqual(probed.status()["clients"], 1)

    def test_systemd_gives_the_socket_and_is_told_when_all_is_ready(self):
        path, told = os.path.join(self.directory, "given.sock"), os.path.join(self.directory, "notify")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as given, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            given.bind(path)
            given.listen(16)
            notify.bind(told)
            notify.settimeout(WAIT)
            script = 'exec 3<&"$1"; shift; LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"'
            os.set_inheritable(given.fileno(), True)
            daemon = subprocess.Popen(["bash", "-c", script, "bash", str(given.fileno()), PROBED, "--no-cuse", "--state-dir",
                                       os.path.join(self.directory, "tree"), "--name", f"given{os.getpid()}"], close_fds=False,
                                      env=dict(os.environ, NOTIFY_SOCKET=told), stderr=subprocess.DEVNULL)
            self.addCleanup(lambda: [os.unlink(path) for path in glob.glob(f"/dev/shm/given{os.getpid()}_trace.pid*")])
            self.addCleanup(daemon.wait)
            self.addCleanup(daemon.kill)
            self.assertEqual(notify.recv(100), b"READY=1")
            with Connection(path) as one:
                self.assertEqual(one.ask(HELLO)[0:2], (0, daemon.pid))
            daemon.terminate()
            self.assertEqual(notify.recv(100), b"STOPPING=1")
            self.assertEqual(daemon.wait(20), 0)
            self.assertTrue(os.path.exists(path), "the socket is systemd's")

    def test_an_ordinary_user_serves_its_own_processes_and_says_so(self):
        if os.geteuid() != 0 or not shutil.which("setpriv"):
            self.skipTest("root and setpriv are needed to be somebody else")
        os.chown(self.directory, 65534, 65534)
        unprivileged = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
        probed = self.probed(prefix=unprivileged)
        self.assertIn("not root: serving only processes of user 65534", probed.text())
        mine, roots = self.client(probed, prefix=unprivileged), self.client(probed)
        self.assertEqual({row["pid"] for row in probed.rows()}, {mine.pid})
        maps = read("/proc/self/maps")
        with probed.connect() as one:
            error, _, text = one.ask(ADD, data=b"\x7fDOF" + bytes(96), address=int(maps.split("-")[0], 16))
        self.assertEqual(error, -13)
        self.assertIn("it serves only processes of its own user", text)
        self.assertTrue(roots)

    def test_its_trace_tells_the_life_of_a_registration(self):
        probed = self.probed()
        client = self.client(probed)
        client.process.kill()
        client.process.wait()
        wait_for(lambda: self.empty(probed))
        probed.stop()
        rows = [json.loads(line) for line in run(FATHOM, "trace", "show", "--json", "-f", probed.trace_path).stdout.splitlines()]
        names = [row.get("point", row.get("name", "")) for row in rows]
        for point in ("registration_received", "registration_stored", "probed_process_known", "probed_process_dead",
                      "probed_client_connected", "probed_client_left", "probed_restart"):
            self.assertIn(point, [name.lower() for name in names])


WAIT = 60


class Command(RegistryTest):
    def test_what_is_shown_is_chosen_by_pid_provider_and_pattern(self):
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
        # without colons, or with few, the parts at the left are missing
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

    def test_watching_tells_what_comes_and_goes(self):
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

    def test_errors_say_what_to_do(self):
        done = run(FATHOM, "probe", "registry", "--socket", os.path.join(self.directory, "none"), check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("is fathom-probed running?", done.stderr)
        done = run(FATHOM, "probe", "registry", "--state-dir", self.directory, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--state-dir names the directory", done.stderr)


class EngineItself(RegistryTest):
    """fathom-engine registers its own probes, made into DOF at start."""

    def engine(self, socket_path):
        engine = Engine(self.directory, env={"FATHOM_PROBED_SOCKET": socket_path})
        self.addCleanup(engine.discard)
        return engine

    def test_its_probes_are_those_that_its_notes_have(self):
        probed = self.probed()
        engine = self.engine(probed.socket)
        rows = {row["probe"]: row for row in probed.rows(str(engine.pid))}
        noted = {row["probe"]: row for row in map(json.loads, run(FATHOM, "probe", "list", "--json", engine.pid).stdout.splitlines())
                 if row["provider"] == "fathom"}
        self.assertEqual(set(rows), set(noted))
        for name, row in rows.items():
            self.assertEqual((row["provider"], row["module"], row["function"]), ("fathom", "fathom-engine", name))
            self.assertEqual(len(row["sites"]), noted[name]["places"], name)
            self.assertEqual(len(row["args"]), len(noted[name]["args"]), name)
        self.assertEqual(rows["reactor_wake"]["args"], ["uint64_t", "uint32_t", "int", "uint32_t"])
        self.assertEqual(rows["bdev_io_done"]["args"][1], "void *")
        maps = [line.split() for line in read(f"/proc/{engine.pid}/maps").splitlines()]
        code = [[int(part, 16) for part in line[0].split("-")] for line in maps if line[-1].endswith("fathom-engine") and "x" in line[1]]
        for row in rows.values():
            for site in row["sites"]:
                self.assertTrue(any(start <= int(site["address"], 16) < end for start, end in code), row["probe"])
        self.assertEqual(engine.stop(), 0)
        wait_for(lambda: self.empty(probed))

    def test_a_daemon_that_comes_later_is_found(self):
        engine = self.engine(os.path.join(self.directory, "probed.sock"))
        probed = self.probed()
        wait_for(lambda: probed.providers(engine.pid) == ["fathom"])


class Notes(RegistryTest):
    """Processes with SDT notes are found, registered or not."""

    def test_an_engine_that_did_not_register_is_found_by_its_notes(self):
        probed = self.probed()
        engine = Engine(self.directory, env={"FATHOM_PROBED_SOCKET": ""})
        self.addCleanup(engine.discard)
        self.assertEqual(probed.rows(str(engine.pid)), [])
        rows = {row["probe"]: row for row in probed.rows("--all", str(engine.pid)) if row["provider"] == "fathom"}
        noted = {row["probe"]: row for row in map(json.loads, run(FATHOM, "probe", "list", "--json", engine.pid).stdout.splitlines())
                 if row["provider"] == "fathom"}
        self.assertEqual(set(rows), set(noted))
        row = rows["reactor_wake"]
        self.assertEqual((row["found"], row["module"], row["function"]), ("SDT notes", "fathom-engine", "-"))
        self.assertEqual(row["args"], ["uint64_t", "uint32_t", "uint32_t", "uint32_t"])
        maps = [line.split() for line in read(f"/proc/{engine.pid}/maps").splitlines()]
        code = [[int(part, 16) for part in line[0].split("-")] for line in maps if line[-1].endswith("fathom-engine") and "x" in line[1]]
        self.assertTrue(all(start <= int(site["address"], 16) < end for site in row["sites"] for start, end in code))

    @unittest.skipUnless(os.geteuid() == 0, "takes root, for a mount namespace")
    def test_an_engine_in_a_filesystem_of_its_own_is_found_too(self):
        """As in a container: its program is in no folder of ours."""
        probed, place = self.probed(), os.path.join(self.directory, "place")
        os.mkdir(place)
        program = os.path.join(place, "fathom-engine")
        process = subprocess.Popen(["unshare", "-m", "sh", "-c", f"mount -t tmpfs t {place} && cp {ENGINE} {program} && "
                                    f"exec {program} -m 1 -r {self.directory}/e.sock --name {os.path.basename(self.directory)}"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env=dict(os.environ, FATHOM_PROBED_SOCKET=""))
        self.addCleanup(lambda: [os.unlink(path) for path in glob.glob(f"/dev/shm/{os.path.basename(self.directory)}_trace.*")])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        wait_for(lambda: os.path.exists(f"{self.directory}/e.sock"))
        self.assertFalse(os.path.exists(program))
        self.assertIn("bdev_io_done", {row["probe"] for row in probed.rows("--all", str(process.pid)) if row["found"] == "SDT notes"})
        process.terminate()
        process.wait(20)

    def test_the_whole_machine(self):
        probed = self.probed()
        engine = Engine(self.directory, env={"FATHOM_PROBED_SOCKET": probed.socket})
        self.addCleanup(engine.discard)
        found = {(row["pid"], row["found"]) for row in probed.rows("--all", "fathom")}
        self.assertLessEqual({(engine.pid, "socket"), (engine.pid, "SDT notes")}, found)
        self.assertEqual(probed.status()["jail"]["children_started"], 1)

    def test_who_leaves_in_the_middle_is_no_trouble(self):
        probed = self.probed()
        for _ in range(20):
            one = probed.connect()
            one.send(NOTES)
            one.close()
        self.assertTrue(probed.rows("--all"))
        wait_for(lambda: probed.status()["clients"] == 1)


SLICE_BYTES, LOADSZ_AT = 256 << 10, 40


class Large(RegistryTest):
    """A process that registers large objects delays no other one. Counted in slices, each of which is a turn of the daemon."""

    def object(self, loaded=None):
        """A small object; its header says that so many bytes of it are loaded."""
        with open(os.path.join(os.path.dirname(__file__), "..", "unit", "inspect", "probed", "samples", "simple.dof"), "rb") as file:
            data = bytearray(file.read())
        if loaded:
            data[LOADSZ_AT:LOADSZ_AT + 8] = struct.pack("<Q", loaded)
        return bytes(data)

    def file(self, data, bytes_=None):
        fd = os.memfd_create("object")
        self.addCleanup(os.close, fd)
        os.write(fd, data)
        os.truncate(fd, bytes_ or len(data))
        return fd

    def add(self, one, bytes_, data, address):
        one.send(ADD, length=bytes_, address=address, base=address, fds=[self.file(data, bytes_)])

    def address(self):
        """In a file that this process has mapped."""
        with open("/proc/self/maps") as maps:
            return next(int(line.split("-")[0], 16) for line in maps if "/" in line and "r-xp" in line)

    def test_what_is_not_loaded_is_neither_kept_nor_copied(self):
        probed, size = self.probed(), 64 << 20
        data = self.object()
        loaded = struct.unpack_from("<Q", data, LOADSZ_AT)[0]
        self.assertLess(loaded, 4096)
        with probed.connect() as one:
            self.add(one, size, data, self.address())
            error, generation, text = one.reply()
            self.assertEqual(error, 0, text)
            status = probed.status()
            self.assertEqual((status["large"], status["slices"], status["jail"]["slices"]), (0, 0, 1))
            self.assertEqual(status["tree"]["bytes"], loaded)
            [name] = os.listdir(f"{probed.tree}/stash/dof")
            self.assertEqual(os.stat(f"{probed.tree}/stash/dof/{name}").st_size, loaded)
            self.assertEqual(one.ask(REMOVE, generation)[0], 0)

    def test_others_are_served_while_a_large_object_is_copied(self):
        """In one go there would be one slice: no number between none and all could be observed."""
        probed, size = self.probed(), 64 << 20
        slices = size // SLICE_BYTES
        address, data = self.address(), self.object(size)
        seen = set()
        for number in range(5):
            before = probed.status()
            with probed.connect() as one, probed.connect() as other:
                self.add(one, size, data, address)
                while True:
                    status = json.loads(other.ask(HELLO)[2])
                    seen.add(status["slices"] - before["slices"] + status["jail"]["slices"] - before["jail"]["slices"])
                    if not status["under_way"] and status["large"] > before["large"]:
                        break
                error, generation, text = one.reply()
                self.assertEqual(error, 0, text)
                self.assertEqual(status["slices"] - before["slices"], slices + 1)    # and one to see that there is none to compare
                self.assertEqual(status["jail"]["slices"] - before["jail"]["slices"], slices)
                self.assertEqual(status["tree"]["bytes"], size)
                self.check_tree(probed.tree, [os.getpid()])
                self.assertEqual(one.ask(REMOVE, generation)[0], 0)
            if len(seen - {0, 2 * slices + 1}) > 2:
                break
        self.assertGreater(len(seen - {0, 2 * slices + 1}), 2)
        self.assertEqual(probed.status()["tree"]["bytes"], 0)

    def test_the_same_large_object_again_is_compared_in_slices(self):
        probed, size = self.probed(), 4 << 20
        slices = size // SLICE_BYTES
        address, data = self.address(), self.object(size)
        with probed.connect() as one:
            generations = []
            for number in range(2):
                before = probed.status()["slices"]
                self.add(one, size, data, address)
                error, generation, text = one.reply()
                self.assertEqual(error, 0, text)
                generations.append(generation)
                self.assertEqual(probed.status()["slices"] - before, slices + (slices if number else 1))
            self.assertEqual(len(set(generations)), 2)
            # other bytes at the end are seen
            file = self.file(data, size)
            os.pwrite(file, b"x", size - 1)
            one.send(ADD, length=size, address=address, base=address, fds=[file])
            error, _, text = one.reply()
            self.assertEqual(error, -116, text)
            self.check_tree(probed.tree, [os.getpid()])
            for generation in generations:
                self.assertEqual(one.ask(REMOVE, generation)[0], 0)
        self.assertEqual(os.listdir(f"{probed.tree}/stash/dof"), [])
        self.assertEqual(probed.status()["tree"]["bytes"], 0)

    @unittest.skipUnless(os.geteuid() == 0, "two users take root")
    def test_users_take_turns(self):
        """One user's large objects wait for each other, not another user's for them."""
        probed, size, small = self.probed(), 48 << 20, 1 << 20
        address = self.address()
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.setresuid(65534, 65534, 65534)
            flood = [probed.connect() for _ in range(2)]
            for one in flood:
                self.add(one, size, self.object(size), address)
            os.write(writer, b"1")
            for one in flood:
                one.reply()
            time.sleep(60)
            os._exit(0)
        try:
            os.read(reader, 1)
            with probed.connect() as one:
                self.add(one, small, self.object(small), address)
                error, _, text = one.reply()
                self.assertEqual(error, 0, text)
                status = probed.status()
                # of its turns each second one was this user's; beside them nothing but what the flood had before
                self.assertLess(status["slices"], 2 * size // SLICE_BYTES)
                self.assertGreaterEqual(status["under_way"], 1)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(reader)
            os.close(writer)


class Hostile(RegistryTest):
    """Strangers at the socket."""

    def address(self):
        return int(read("/proc/self/maps").split("-")[0], 16)

    def test_messages_that_are_none_are_refused(self):
        probed = self.probed()
        for message in (b"x", b"\0" * 119, b"\xff" * 120, b"\0" * 60000):
            with probed.connect() as one:
                one.s.send(message)
                self.assertEqual(one.reply()[0], -71)       # EPROTO
                self.assertRaises(EOFError, one.reply)
        with probed.connect() as one:
            self.assertEqual(one.ask(99)[0], -95)
            self.assertEqual(one.ask(LIST, value=1 << 40)[0], -22)
            self.assertEqual(one.ask(HELLO)[0], 0)
            self.assertEqual(one.ask(HELLO, version=2)[0], -71)
        self.assertEqual(probed.status()["clients"], 1)

    def test_a_message_that_is_cut_is_refused(self):
        probed = self.probed()
        with probed.connect() as one:
            one.s.send(b"\1\0\0\0\2\0\0\0" + bytes(100000))
            self.assertEqual(one.reply()[0], -71)

    def test_any_messages(self):
        """Requests with anything in them, by seed; after each thousand the daemon is what it was."""
        probed = self.probed()
        client = self.client(probed)
        before = probed.descriptors()
        random_ = random.Random(20261122)
        file = os.memfd_create("any")
        os.write(file, random_.randbytes(5000))
        for number in range(3000):
            message = bytearray(random_.randbytes(random_.choice((0, 1, 119, 120, 121, 200, 5000))))
            if random_.random() < 0.9 and len(message) >= 120:
                message[:8] = struct.pack("<II", 1, random_.randrange(7))
                if random_.random() < 0.7:
                    message[24:40] = struct.pack("<QQ", len(message) - 120, self.address())
            with probed.connect() as one:
                try:
                    fds = [file] * random_.choice((0, 0, 0, 1, 2))
                    socket.send_fds(one.s, [bytes(message)], fds) if fds else one.s.send(message)
                    if message and random_.random() < 0.8:
                        one.reply()
                except (EOFError, OSError, UnicodeDecodeError):
                    pass
            if number % 1000 == 999:
                self.assertEqual(len(probed.rows(str(client.pid))), OBJECT_PROBES)
        os.close(file)
        wait_for(lambda: probed.descriptors() <= before + 8)    # and the other parsers' pipes
        self.check_tree(probed.tree, [client.pid, os.getpid()])

    def test_descriptors_that_nobody_asked_for_are_closed(self):
        probed = self.probed()
        before = probed.descriptors()
        ends = os.pipe()
        for operation, count in ((HELLO, 1), (ADD, 2), (REMOVE, 1), (ADD, 20)):
            with probed.connect() as one:
                one.send(operation, fds=[ends[0]] * count)
                self.assertEqual(one.reply()[0], -71)
        for end in ends:
            os.close(end)
        wait_for(lambda: probed.descriptors() == before)

    def test_only_a_memfd_is_read(self):
        """A pipe would be waited for by everybody."""
        probed = self.probed()
        ends = os.pipe()
        with probed.connect() as one, open("/dev/zero") as zero, open("/proc/self/maps") as file:
            for fd in (ends[0], zero.fileno(), file.fileno()):
                error, _, text = one.ask(ADD, length=4096, address=self.address(), fds=[fd])
                self.assertEqual(error, -22)
                self.assertIn("memfd", text)
            short = os.memfd_create("short")
            os.write(short, bytes(100))
            self.assertIn("has 100 bytes instead of 4096", one.ask(ADD, length=4096, address=self.address(), fds=[short])[2])
            os.close(short)
        for end in ends:
            os.close(end)

    def test_sizes_that_lie_are_refused(self):
        probed = self.probed("--limit-object-bytes", "1M")
        with probed.connect() as one:
            self.assertEqual(one.ask(ADD, data=bytes(100), length=99, address=self.address())[0], -22)
            file = os.memfd_create("long")
            os.truncate(file, 1 << 31)
            for length, wanted in ((1 << 63, -7), (1 << 30, -7), ((1 << 20) + 1, -7)):
                self.assertEqual(one.ask(ADD, length=length, address=self.address(), fds=[file])[0], wanted)
            os.close(file)
            self.assertEqual(one.ask(HELLO)[0], 0)

    def test_what_is_no_object_is_refused_after_one_parse(self):
        """A deterministic error is not tried again, and its parser lives on."""
        probed = self.probed()
        with probed.connect() as one:
            for i in range(20):
                self.assertIn(one.ask(ADD, data=b"\x7fDOF" + bytes(60 + i), address=self.address())[0], (-22, -95))
        status = probed.status()
        self.assertEqual(status["jail"]["refused"], 20)
        self.assertEqual(status["jail"]["children_started"], 1)
        self.assertEqual(status["refused"], 20)

    def refusal(self, why, module=', module "m"'):
        return f"WARNING: refused probes of process {os.getpid()} (user {os.getuid()}){module}, sent to the socket: {why}"

    def wait_for_log(self, probed, text):
        wait_for(lambda: text in probed.text())

    def test_each_refused_registration_is_logged(self):
        """With the process, its user, its module and the reason, at whichever step it was refused."""
        probed = self.probed("--limit-object-bytes", "1M")
        file = os.memfd_create("long")
        os.truncate(file, 4 << 20)
        with probed.connect() as one:
            # by the parser; a name with control characters, which must not reach the log
            one.ask(ADD, data=b"\x7fDOF" + bytes(60), address=self.address(), module=b"lib\n\x1b.so")
            one.ask(ADD, data=b"\x7fDOF" + bytes(60), address=0x10)                    # by the mapping
            one.ask(ADD, length=(1 << 20) + 1, address=self.address(), fds=[file])     # by the daemon's limit
            one.ask(ADD, data=bytes(100), length=99, address=self.address())           # before that
        with probed.connect() as one:
            one.s.send(b"\0" * 119)
            one.reply()
        os.close(file)
        self.wait_for_log(probed, self.refusal("", module=", module \"lib??.so\""))
        self.wait_for_log(probed, self.refusal("no file is mapped at address 0x10"))
        self.wait_for_log(probed, self.refusal("the object has 1048577 bytes; the limit is 1048576"))
        self.wait_for_log(probed, self.refusal("100 bytes follow the request instead of 99"))
        self.wait_for_log(probed, self.refusal("the message is shorter than a request", module=""))
        self.assertEqual(probed.status()["refused"], 5)

    def test_lines_of_refused_registrations_are_limited(self):
        probed = self.probed()
        with probed.connect() as one:
            for _ in range(2000):
                one.ask(ADD, data=b"\x7fDOF" + bytes(60), address=0x10)
        self.assertGreaterEqual(probed.text().count("refused probes of process"), 20)
        self.assertLess(probed.text().count("refused probes of process"), 200)

    def test_an_address_in_no_file_is_refused(self):
        probed = self.probed()
        with probed.connect() as one:
            error, _, text = one.ask(ADD, data=b"\x7fDOF" + bytes(60), address=0x10)
            self.assertEqual(error, -22)
            self.assertIn("no file is mapped at address", text)

    def test_a_generation_is_its_own_processes_only(self):
        probed = self.probed()
        client = self.client(probed)
        with probed.connect() as one:
            for generation in (0, 1, 1 << 40, (1 << 64) - 1):
                one.ask(REMOVE, value=generation)
        self.assertEqual(len(probed.rows(str(client.pid))), OBJECT_PROBES)

    def test_who_says_nothing_is_left(self):
        probed = self.probed("--silent", "300ms")
        one = probed.connect()
        self.assertEqual(one.s.recv(10), b"")
        one.close()

    def test_who_does_not_take_what_it_asked_for_is_left(self):
        probed = self.probed("--silent", "500ms")
        client = self.client(probed, "load", LARGE, 0)
        one = probed.connect()
        for _ in range(3):
            one.send(LIST)
        wait_for(lambda: probed.status()["clients"] == 1)
        self.assertEqual(len(probed.rows(f"large{client.pid}")), LARGE_PROBES)
        one.close()

    def test_more_connections_than_there_may_be_wait(self):
        probed = self.probed("--limit-connections", "8")
        silent = [probed.connect() for _ in range(60)]
        client = self.client(probed)
        wait_for(lambda: probed.providers(client.pid) == ["client"])
        for one in silent:
            one.close()
        self.assertIn("8 clients are connected, the limit; new ones wait", probed.text())

    def test_a_user_has_so_many_connections(self):
        if os.geteuid() != 0 or not shutil.which("setpriv"):
            self.skipTest("root and setpriv are needed to be somebody else")
        probed = self.probed("--limit-connections-user", "4")
        program = ("import socket, sys\nall = []\nfor _ in range(6):\n s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
                   " s.connect(sys.argv[1]); s.settimeout(2); all.append(s)\n"
                   "def closed(s):\n try:\n  return s.recv(1) == b''\n except TimeoutError:\n  return False\n"
                   "print(sum(map(closed, all)))")
        done = run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "python3", "-c", program, probed.socket)
        self.assertEqual(done.stdout, "2\n")


if __name__ == "__main__":
    unittest.main()
