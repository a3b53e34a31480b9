# SPDX-License-Identifier: BSD-2-Clause
"""`fathom core` on real cores: of engines that crashed in each way, of one with 200 I/Os under way, of a server, of other programs."""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import tarfile
import unittest

from control_rig import SystemTest
from core_rig import HELD, CoreTest
from harness import ENGINE, FATHOM, NQN, TOP, run

SPLIT = os.path.join(TOP, "scripts", "split-debug")
INCOMPLETE, ERROR, COULD_NOT_LOOK = 1, 2, 3


def core_json(core, *words, status=0):
    done = run(FATHOM, "core", "--json", core, *words, check=False)
    if done.returncode != status:
        raise AssertionError(f"exit status {done.returncode}: {done.stderr}{done.stdout[:2000]}")
    return json.loads(done.stdout)


class Core(CoreTest):
    def crashed(self, how, *options):
        """An engine that crashed in this way, and its core."""
        if not self.has_kernel_cores():
            self.skipTest("the kernel writes no core files here (core_pattern, or the hard limit)")
        engine = self.engine("-m", self.two_cpus(), "--test-methods", *options, cwd=self.directory)
        most = resource.prlimit(engine.pid, resource.RLIMIT_CORE)[1]
        resource.prlimit(engine.pid, resource.RLIMIT_CORE, (most, most))
        try:
            engine.rpc("engine_crash", how=how)
        except OSError:
            pass    # it may crash before it has replied
        self.assertLess(engine.process.wait(60), 0)
        core = os.path.join(self.directory, f"core-{how}")
        os.rename(next(os.path.join(self.directory, name) for name in os.listdir(self.directory) if re.fullmatch(r"core(\.\d+)?", name)), core)
        return engine, core

    # ---- crashes ----

    def test_each_way_to_crash_is_told_in_words_with_the_function_and_its_line(self):
        ways = {
            "store": ("SIGSEGV: write of 4 bytes at address 0x40, near the null pointer, in crash_store() at src/data/engine/rpc/crash.c:", "crash_store"),
            "stack": (": the stack has overflowed, in recurse_without_end", "recurse_without_end"),
            "must": ("must(unused == crash_must) failed at src/data/engine/rpc/crash.c:", None),
            "check": ("must(crash_room.used + wanted <= 7 || crash_room.left > 0) failed at src/data/engine/rpc/crash.c:", None),
            "abort": ("SIGABRT: the program called abort(), in crash_abort() at src/data/engine/rpc/crash.c:", None),
            "call": ("SIGSEGV: a jump to address 0x0: a call of a null pointer", None),
            "wild": ("read of 8 bytes at address 0x6b6b6b6b6b6b6b6b; this is no address at all (not canonical)", "crash_wild"),
            "divide": ("SIGFPE: an integer division by zero, or a quotient that does not fit, in crash_divide() at ", "crash_divide"),
        }
        for how, (words, function) in ways.items():
            with self.subTest(how):
                engine, core = self.crashed(how)
                found = core_json(core)
                self.assertIn(words, found["crash"]["text"])
                self.assertIn("thread reactor_0", found["crash"]["text"])
                self.assertEqual(found["crash"]["kind"], "must" if how in ("must", "check") else "signal")
                if how == "check":
                    self.assertEqual(found["crash"]["values"], "crash_room.used = 3, wanted = 5, crash_room.left = -2")
                self.check_program(found["program"], engine)
                self.check_threads(found, function)
                self.check_report(engine, how, function)

    def check_program(self, program, engine):
        self.assertEqual((program["pid"], program["program_file"], program["name"]), (engine.pid, ENGINE, engine.name))
        self.assertTrue(program["debug_information"])
        self.assertIn(program["build_id"], run("readelf", "-n", ENGINE).stdout)

    def check_threads(self, found, function):
        threads = found["threads"]
        self.assertEqual(threads[0]["tid"], found["crash"]["tid"])
        self.assertEqual(threads[0]["name"], "reactor_0")
        self.assertLessEqual({"control", "reactor_0", "reactor_1"}, {thread["name"] for thread in threads})
        if function:
            self.assertIn(function, next(frame["function"] for frame in threads[0]["frames"] if frame["function"]))
        # the kernel's own page of code (vdso), in which one of the others may read the clock, ends a backtrace
        whole = [thread for thread in threads[1:] if thread["cut"] is None]
        self.assertGreaterEqual(len(whole), len(threads) - 2)
        for thread in whole:
            self.assertIn(thread["frames"][-1]["function"], ("_start", "clone3", "__clone3"))
            if thread["name"] == "control":
                self.assertLessEqual({"main", "engine_run", "reactors_run"}, {frame["function"] for frame in thread["frames"]})

    def check_report(self, engine, how, function):
        """The report that the engine wrote itself: in its log and beside its trace file."""
        with open(engine.trace_path + ".crash") as f:
            report = f.read()
        lines = report.splitlines()
        self.assertIn(f"crash of process {engine.pid}, fathom-engine ", lines[0])
        self.assertIn(f"--name {engine.name}", lines[0])
        if how == "must":
            self.assertRegex(lines[1], r"^must\(unused == crash_must\) failed at .*crash\.c:\d+$")
        if function:
            self.assertRegex(report, rf", in {function}[.\w]*\+0x")
        self.assertRegex(report, r"\n  reactor_0, tid \d+, runs messages of engine_crash for [\d.]+ us <- crashed\n")
        records = lines[lines.index("last records, the newest first:") + 1:-1]
        self.assertEqual(len(records), 32)
        self.assertTrue(any(re.match(r"  [\d.]+ us reactor_0 process_signal args 0x\w+ ", line) for line in records), records)
        logged = [line.split("ERROR: crash: ", 1)[1] for line in engine.log_text().splitlines() if line.startswith("ERROR: crash: ")]
        self.assertEqual(logged, lines)
        self.assertEqual(os.stat(engine.trace_path + ".crash").st_mode & 0o777, 0o600)
        if how == "stack":
            self.assertRegex(report, r"\n  recurse_without_end\S* \(fathom-engine\+0x\w+\), called by itself \d+ times or more\n")

    def diagnose(self, target, status, *words):
        done = run(FATHOM, "doctor", "--json", *words, target, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def test_the_doctor_reads_a_core(self):
        """The place of the crash, the values of a must(), what was under way; of a truncated core what is left; a core is never in an archive."""
        _, core = self.crashed("check")
        bundle = os.path.join(self.directory, "bundle.tar")
        first = self.diagnose(core, 2, "--bundle", bundle)["findings"][0]
        self.assertEqual(first["name"], "must_failed")
        self.assertIn("must(crash_room.used + wanted <= 7 || crash_room.left > 0)", first["says"])
        evidence = "\n".join(first["evidence"])
        self.assertIn("values: crash_room.used = 3, wanted = 5, crash_room.left = -2", evidence)
        self.assertIn("stack of reactor_0", evidence)
        self.assertIn(f"fathom core {core}", first["see"])
        with tarfile.open(bundle) as archive:
            self.assertEqual(archive.getnames(), ["evidence.json", "report.json", "report.txt"])
        self.assertEqual(self.diagnose(bundle, 2)["findings"][0], first)
        with open(core, "r+b") as file:
            file.truncate(2000000)
        names = [row["name"] for row in self.diagnose(core, 2)["findings"]]
        self.assertEqual((names[0], "core_incomplete" in names), ("must_failed", True))
        with open(core, "r+b") as file:
            file.truncate(64)
        self.assertIn(core, run(FATHOM, "doctor", core, check=False).stderr)
        self.assertEqual(run(FATHOM, "doctor", core, check=False).returncode, 3)

    def test_a_report_is_json_lines_if_the_log_is(self):
        engine, _ = self.crashed("store", "--log-to", "json")
        with open(engine.trace_path + ".crash") as f:
            lines = f.read().splitlines()
        logged = [json.loads(line) for line in engine.log_text().splitlines() if line.startswith('{"level":"ERROR"')]
        self.assertEqual([row["message"] for row in logged], ["crash: " + line for line in lines])

    def test_the_commands_of_the_runbook_for_an_engine_that_is_gone_or_does_not_answer(self):
        """Steps 1 and 2 of docs/runbook.md: each command there, as typed."""
        with open(os.path.join(TOP, "docs", "runbook.md")) as f:
            text = f.read()
        running = self.engine("-m", self.two_cpus(), cwd=self.directory)
        step = text[text.index("## 2 It does not answer"):text.index("## 3 A core hangs")]
        commands = re.findall(r"(?m)^    \$ (.*)$", step)
        self.assertEqual(commands, ["fathom trace threads -s rb"])
        self.assertIn("control", self.typed(commands[0], running, ""))
        self.assertEqual(running.stop(), 0)
        engine, core = self.crashed("store")
        step = text[text.index("## 1 It is gone"):text.index("## 2 It does not answer")]
        commands = re.findall(r"(?m)^    \$ (.*)$", step)
        self.assertEqual(commands, ["fathom trace stuck -s rb", "cat /dev/shm/rb_trace.pid6171.crash", "fathom core ./core crash", "fathom core ./core io"])
        outputs = [self.typed(command, engine, core) for command in commands]
        for output, wanted in zip(outputs, (f"# {engine.name} ", "crash of process ", "crash:     SIGSEGV: write of 4 bytes at address 0x40", "io: 0")):
            self.assertIn(wanted, output)
        # the commands in the tree
        tree = text[:text.index("The same as a picture")]
        for command in ("fathom trace stuck -s NAME", "ls /dev/shm/NAME_trace.*.crash", "fathom core ./core", "fathom trace threads -s NAME"):
            self.assertIn(command, tree)
            self.assertTrue(self.typed(command.replace("NAME", "rb"), engine, core), command)

    def typed(self, command, engine, core):
        """The output of a command of the runbook, for this engine and core."""
        command = command.replace("rb_trace.pid6171", f"{engine.name}_trace.pid{engine.pid}").replace("-s rb", f"-s {engine.name}")
        command = command.replace("rb_trace", engine.name + "_trace").replace("core ./core", f"core {core}")
        path = os.path.dirname(FATHOM) + ":" + os.environ["PATH"]
        done = subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=100, env=dict(os.environ, PATH=path))
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return done.stdout

    def test_a_failed_check_without_a_trace_has_its_text(self):
        _, core = self.crashed("check", "--num-trace-entries", "0")
        crash = core_json(core, "crash")["crash"]
        self.assertIn("must(crash_room.used + wanted <= 7 || crash_room.left > 0) failed at src/data/engine/rpc/crash.c:", crash["text"])
        self.assertEqual(crash["values"], "crash_room.used = 3, wanted = 5, crash_room.left = -2")

    # ---- the engine's objects ----

    def view(self, engine):
        stuck = [json.loads(line) for line in run(FATHOM, "trace", "stuck", "--older-than", "0", "--json", "-s", engine.name, check=False).stdout.splitlines()]
        return {
            "devices": sorted((row["name"], row["product_name"], row["num_blocks"], row["block_size"]) for row in engine.rpc("bdev_get_bdevs")),
            "light_threads": sorted((row["name"], row["id"]) for row in engine.rpc("thread_get_stats")["threads"]),
            "pollers": sorted((thread["name"], poller["name"], state) for thread in engine.rpc("thread_get_pollers")["threads"]
                              for state in ("active", "timed", "paused") for poller in thread[f"{state}_pollers"]),
            "reactors": sorted((str(row["lcore"]), row["tid"]) for row in engine.rpc("framework_get_reactors")["reactors"]),
            "subsystems": sorted((row["nqn"], len(row.get("namespaces", []))) for row in engine.rpc("nvmf_get_subsystems")),
            "namespaces": sorted((space["nsid"], space["bdev_name"]) for row in engine.rpc("nvmf_get_subsystems") for space in row.get("namespaces", [])),
            "qpairs": sorted((row["qid"], f"127.0.0.1:{row['peer_address']['trsvcid']}", str(row["cntlid"]), row["hostnqn"])
                             for row in engine.rpc("nvmf_subsystem_get_qpairs", nqn=NQN)),
            "io": sorted((row["object"], row["args"]["cid"], row["args"]["lba"]) for row in stuck if row.get("object_type") == "nvmf_req"),
        }

    @staticmethod
    def view_of_core(found):
        return {
            "devices": sorted((row["name"], row["product"], row["block_count"], row["block_bytes"]) for row in found["devices"]),
            "light_threads": sorted((row["name"], row["id"]) for row in found["light_threads"]),
            "pollers": sorted((row["thread"], row["name"], row["kind"]) for row in found["pollers"]),
            "reactors": sorted((row["cpu"], row["tid"]) for row in found["reactors"] if row["reactor"] != "control"),
            "subsystems": sorted((row["nqn"], row["namespace_count"]) for row in found["subsystems"]),
            "namespaces": sorted((row["nsid"], row["device"]) for row in found["namespaces"]),
            "qpairs": sorted((row["qid"], row["peer"], row["cntlid"], row["host_nqn"]) for row in found["qpairs"]),
            "io": sorted((row["id"], row["cid"], row["block_index"]) for row in found["io"]),
        }

    def test_objects_and_ios_of_a_core_equal_those_of_the_rpcs_before(self):
        engine = self.engine_with_held_reads()
        before = self.view(engine)
        core = self.core_of(engine)
        found = core_json(core)
        self.assertEqual(self.view_of_core(found), before)
        self.assertEqual(len(found["io"]), HELD)
        self.assertEqual({(row["opcode"], row["stage"], row["io_stage"], row["device"], row["bytes"], row["nsid"]) for row in found["io"]},
                         {("READ", "EXECUTING", "DISPATCHED", "EE_Disk0", 4096, 2)})
        ages = [row["age_ns"] for row in found["io"]]
        self.assertEqual(ages, sorted(ages, reverse=True))
        self.assertGreater(ages[-1], 0)
        held = next(row for row in found["devices"] if row["name"] == "EE_Disk0")
        self.assertEqual((held["queue_depth"], held["in_flight"], held["queued"]), (HELD, HELD, 0))
        self.check_records(core, found["trace"])
        self.check_text(core)
        # its own requests are in the trace file, too
        self.assertEqual({row["id"] for row in found["io"]},
                         {row["object"] for row in map(json.loads, run(FATHOM, "trace", "stuck", "--json", "-f", core, check=False).stdout.splitlines())
                          if row.get("object_type") == "nvmf_req"})

    def check_records(self, core, records):
        rows = [json.loads(line) for line in run(FATHOM, "trace", "-f", core, "--json").stdout.splitlines()]
        self.assertEqual(records, [row for row in rows if "name" in row][-32:])

    def check_text(self, core):
        text = run(FATHOM, "core", core).stdout
        self.assertIn(f"io: {HELD}\n", text)
        self.assertIn(f"    ... and {HELD - 20} more: add the word \"io\" to the command\n", text)
        self.assertRegex(text, r"\nthread \d+, control")
        some = run(FATHOM, "core", core, "io", "crash").stdout
        self.assertEqual(len(re.findall(r"(?m)^ +r\d+ +READ ", some)), HELD)
        self.assertNotIn("thread 1", some)
        self.assertNotIn("devices:", some)
        self.assertIn("in the core  ", run(FATHOM, "core", core, "mappings").stdout)
        self.assertIn("trace: the last 3 records", run(FATHOM, "core", "-n", "3", core, "trace").stdout)

    @unittest.skipUnless(shutil.which("gdb"), "gdb is missing")
    def test_a_core_of_a_running_engine_is_read_too(self):
        engine = self.engine_with_held_reads()
        core = os.path.join(self.directory, "made")
        subprocess.run(["gdb", "-q", "-nx", "-batch", "-p", str(engine.pid), "-ex", f"generate-core-file {core}"], stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, timeout=100, cwd="/", check=True)
        found = core_json(core)
        self.assertEqual(self.view_of_core(found), self.view(engine))
        self.assertEqual((found["crash"]["kind"], found["crash"]["text"]), ("none", "no crash: the core was made of a process that ran"))

    def test_volumes_are_listed(self):
        storage = os.path.join(self.directory, "storage")
        os.mkdir(storage)
        engine = self.engine("--storage", storage, "--listen", "127.0.0.1:0", cwd=self.directory)
        engine.run_commands("pool_create p1\nvolume_create p1 db 8M\nvolume_publish p1 db nqn.2026-11.org.fathom:host\n")
        row = core_json(self.core_of(engine), "volumes")["volumes"][0]
        self.assertEqual((row["name"], row["state"], row["size_bytes"], row["host_count"]), ("p1/db", "ONLINE", 8 << 20, 1))

    def test_an_engine_without_a_trace_has_all_but_records(self):
        engine = self.engine_with_held_reads(options=["--num-trace-entries", "0"])
        found = core_json(self.core_of(engine))
        self.assertEqual(len(found["io"]), HELD)
        self.assertEqual(found["trace"], [])
        self.assertGreater(len(found["pollers"]), 0)

    # ---- what is missing ----

    def test_a_stripped_program_gives_functions_by_its_debug_file_only(self):
        folder = os.path.join(self.directory, "bin")
        os.mkdir(folder)
        program = shutil.copy(ENGINE, folder)
        engine = self.engine_with_held_reads(program=program)
        core = self.core_of(engine, signal.SIGABRT)
        run("strip", program)
        found = core_json(core, status=INCOMPLETE)
        self.assertFalse(found["program"]["debug_information"])
        self.assertEqual((len(found["io"]), found["by_trace"], found["devices"]), (HELD, ["io", "in-progress"], []))
        self.assertTrue(any("has no debug information, and there is no debug file of it" in line for line in found["problems"]), found["problems"])
        self.assertEqual(len(found["trace"]), 32)
        text = run(FATHOM, "core", core, check=False).stdout
        self.assertIn(f"\nio: {HELD}, by the trace\n", text)
        self.assertEqual(len(re.findall(r"(?m)^ +r\d+ +nvmf_req +EXECUTING ", run(FATHOM, "core", core, "in-progress", check=False).stdout)), HELD)
        frames = [frame for thread in found["threads"] for frame in thread["frames"] if frame["module"] == "fathom-engine"]
        self.assertTrue(frames and all(frame["offset"] for frame in frames))
        # the same program, elsewhere, with its debug information
        self.assertEqual(len(core_json_with(core, ENGINE, "io")["io"]), HELD)

    def test_a_program_of_another_build_is_refused_with_its_name(self):
        engine = self.engine(cwd=self.directory)
        core = self.core_of(engine)
        done = run(FATHOM, "core", "--program", FATHOM, core, check=False)
        self.assertEqual(done.returncode, INCOMPLETE)
        self.assertIn(f"{FATHOM} has another build-id", done.stdout)
        self.assertIn("trace: the last 32 records", done.stdout)

    def test_a_core_without_shared_memory_reports_that(self):
        engine = self.engine_with_held_reads()
        with open(f"/proc/{engine.pid}/coredump_filter", "w") as f:
            f.write("0x33")
        found = core_json(self.core_of(engine), status=INCOMPLETE)
        self.assertEqual(len(found["light_threads"]), 3)
        self.assertEqual((found["io"], found["trace"]), ([], []))
        self.assertTrue(any("bit 3 of coredump_filter" in line for line in found["problems"]), found["problems"])

    def test_the_doctor_finds_the_core_of_a_dead_engine_in_its_own_folder(self):
        if not self.has_kernel_cores():
            self.skipTest("the kernel writes no core files here (core_pattern, or the hard limit)")
        engine, other = self.engine(cwd=self.directory), self.engine(cwd="/")
        core = "./" + os.path.basename(self.core_of(engine))
        other.kill()
        for dead, found in ((engine, True), (other, False)):
            done = run(FATHOM, "doctor", "--json", dead.trace_path, check=False, cwd=self.directory)
            self.assertEqual(f"fathom core {core}" in done.stdout, found, done.stdout)

    def test_a_truncated_core_gives_what_is_there(self):
        engine = self.engine_with_held_reads()
        core = self.core_of(engine)
        size = os.path.getsize(core)
        for part in (0.99, 0.5, 0.1, 0.001):
            os.truncate(core, int(size * part))
            found = core_json(core, status=INCOMPLETE)
            self.assertTrue(found["program"]["truncated"])
            self.assertTrue(any("the core is truncated" in line for line in found["problems"]), found["problems"])
            self.assertGreaterEqual(len(found["threads"]), 3)
        for size in (1000, 100):    # the notes are missing, too
            os.truncate(core, size)
            done = run(FATHOM, "core", core, check=False)
            self.assertEqual(done.returncode, INCOMPLETE)
            self.assertIn("crash:     it is not known how the process ended: the notes of the core are missing\n", done.stdout)
            self.assertEqual(json.loads(run(FATHOM, "core", "--json", core, check=False).stdout)["crash"]["kind"], "unknown")
            done = run(FATHOM, "doctor", core, check=False)
            self.assertEqual((done.returncode, done.stdout), (COULD_NOT_LOOK, ""))
            self.assertIn(f"fathom doctor: {core} is truncated: it has no notes and no trace, ", done.stderr)

    def test_other_programs_have_a_signal_and_backtraces(self):
        if not self.has_kernel_cores():
            self.skipTest("the kernel writes no core files here (core_pattern, or the hard limit)")
        other = subprocess.Popen(["sleep", "1000"], cwd=self.directory,
                                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2))
        self.wait(lambda: os.path.basename(os.readlink(f"/proc/{other.pid}/exe")) == "sleep" and self.is_asleep(other.pid))
        other.send_signal(signal.SIGBUS)
        other.wait(60)
        core = next(os.path.join(self.directory, name) for name in os.listdir(self.directory) if name.startswith("core"))
        found = json.loads(run(FATHOM, "core", "--json", core, check=False).stdout)
        self.assertIn(f"SIGBUS: sent by process {os.getpid()}", found["crash"]["text"])
        self.assertRegex(" ".join(frame["function"] or "" for frame in found["threads"][0]["frames"]), r"nanosleep")
        self.assertEqual(found["program"]["command"], "sleep 1000")
        self.assertNotIn("reactors", found)

    @staticmethod
    def is_asleep(pid):
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] == "S"

    def test_what_is_no_core_is_refused_with_what_it_is(self):
        text = self.file("text", 1)
        for words, reason in (((text,), "is not a core file"), ((ENGINE,), "is a program or a library, not a core file"),
                              (("/nowhere",), "cannot open /nowhere: No such file or directory"), ((), "FILE is missing"),
                              ((text, "nothing"), 'no part "nothing"'), ((self.directory,), "is not a regular file")):
            done = run(FATHOM, "core", *words, check=False)
            self.assertEqual((done.returncode, done.stdout), (ERROR, ""))
            self.assertIn(reason, done.stderr)


def core_json_with(core, program, *words):
    return json.loads(run(FATHOM, "core", "--json", "--program", program, core, *words).stdout)


class ServerCore(SystemTest):
    @unittest.skipUnless(shutil.which("gdb"), "gdb is missing")
    def test_the_lists_of_a_server_equal_the_output_of_the_commands(self):
        system = self.system(2)
        members, engines = system.members(), system.engines()
        core = os.path.join(self.directory, "server.core")
        subprocess.run(["gdb", "-q", "-nx", "-batch", "-p", str(system.process.pid), "-ex", f"generate-core-file {core}"], stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, timeout=100, cwd="/", check=True)
        found = core_json(core)
        self.assertEqual({row["rank"]: (row["state"].lower(), row["incarnation"], row["address"], row["fault_domain"]) for row in found["members"]},
                         {rank: (row["state"], row["incarnation"], row["addr"], row["fault_domain"]) for rank, row in members.items()})
        self.assertEqual({row["index"]: (row["state"].lower(), int(row["rank"]), row["pid"]) for row in found["instances"]},
                         {index: (row["state"], row["rank"], row["pid"]) for index, row in engines.items()})
        self.assertEqual([row["reactor"] for row in found["reactors"]], ["control"])
        self.assertGreater(len(found["pollers"]), 0)
        self.assertNotIn("devices", found)
        self.assertEqual(system.states(), {0: "joined", 1: "joined"})


if __name__ == "__main__":
    unittest.main()
