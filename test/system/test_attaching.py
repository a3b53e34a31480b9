# SPDX-License-Identifier: BSD-2-Clause
"""`fathom probe run`: how it fills scripts in for an engine, and what they print under load where probes can be attached."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
import unittest

import script_output
from harness import ENGINE, FATHOM, NQN, TOP, EngineTest, run

ATTACH_SECONDS = 60
IOS = 500
PROBES = os.path.join(TOP, "probes")
UPROBES = "/sys/bus/event_source/devices/uprobe/type"
TRACEPOINTS = "/sys/kernel/tracing/events"


def attach_obstacle():
    """The reason why this machine cannot attach probes; None: it can."""
    if os.geteuid() != 0:
        return "not root"
    if not shutil.which("bpftrace"):
        return "no bpftrace"
    if not os.path.exists(UPROBES):
        return "this kernel has no uprobes"
    if not os.path.exists(TRACEPOINTS):     # without systemd it may not be mounted
        subprocess.run(["mount", "-t", "tracefs", "tracefs", os.path.dirname(TRACEPOINTS)], check=False)
    done = subprocess.run(["bpftrace", "-e", "BEGIN { exit(); }"], capture_output=True, text=True, timeout=60, check=False)
    return None if done.returncode == 0 else f"bpftrace cannot load a program: {done.stderr.strip()[-200:]}"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def kill_process(process):
    process.kill()
    process.communicate()


class FilledScripts(EngineTest):
    """The program that --print shows is the one that bpftrace would run."""

    def program(self, script, *more):
        return run(FATHOM, "probe", "run", "--print", "-e", script, self.engines[0].name, *more).stdout

    def error_of(self, script):
        """The message for a script that is rejected."""
        done = run(FATHOM, "probe", "run", "--print", "-e", script, self.engines[0].name, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stdout)
        return done.stderr

    def test_markers_are_replaced_in_code_and_underscored_ones_in_strings_too(self):
        engine = self.engine()
        pid, exe = str(engine.pid), os.path.realpath(ENGINE)
        text = self.program("""// EXE PID __PID__
usdt:EXE:bdev_io_done, usdt:__EXE__:fathom:bdev_io_submit /pid == PID/ {
    $PID = 1; @PID = PID; @MYPID[PIDS] = arg0->PID; @s = "EXE PID of __EXE__ __PID__";
}
struct x { int PID; int EXE; };
tracepoint:syscalls:sys_exit_readv /pid == __PID__/ { @ = 1 }
""")
        self.assertIn("// EXE PID __PID__\n", text)
        self.assertIn(f"usdt:{exe}:fathom:bdev_io_done, usdt:{exe}:fathom:bdev_io_submit /pid == {pid}/", text)
        self.assertIn(f'$PID = 1; @PID = {pid}; @MYPID[PIDS] = arg0->PID; @s = "EXE PID of {exe} {pid}";', text)
        self.assertIn("struct x { int PID; int EXE; };", text)
        self.assertIn(f"sys_exit_readv /pid == {pid}/", text)

    def test_enum_tables_are_added_for_maps_that_the_script_only_reads(self):
        self.engine()
        text = self.program("""BEGIN { @begun = 1; } END { printf("%s", @subsystem[1]); }
usdt:__EXE__:nvmf_tgt_state { printf("%s %s\\n", @target[arg1], @io_type[arg2]); @io_status[arg2] = count(); }""")
        begin, end = re.search(r"BEGIN \{(.*?)\}", text)[1], re.search(r"END \{(.*?)\}", text)[1]
        self.assertIn('@target[0] = "NONE"; @target[1] = "CREATE_TARGET";', begin)
        self.assertIn('@subsystem[2] = "ACTIVE";', begin)
        self.assertIn('@io_type[0] = "READ";', begin)
        self.assertTrue(begin.rstrip().endswith("@begun = 1;"), "the tables are filled before the script's own statements")
        self.assertNotIn("@io_status[0]", text)
        for name in ("target", "subsystem", "io_type"):
            self.assertIn(f"clear(@{name});", end)
        self.assertEqual(text.count("BEGIN {"), 1)
        self.assertNotIn("BEGIN", self.program("usdt:__EXE__:bdev_io_done { @[arg3] = count(); }"))

    def test_every_enum_table_has_the_values_that_probe_list_shows(self):
        engine = self.engine()
        rows = [json.loads(line) for line in run(FATHOM, "probe", "list", "--json", engine.name).stdout.splitlines()]
        enums = {arg["enum"]: arg["values"] for row in rows for arg in row["args"] if "enum" in arg}
        self.assertGreater(len(enums), 10)
        text = self.program("BEGIN { %s }" % " ".join(f'printf("%s", @{name}[0]);' for name in enums))
        for name, values in enums.items():
            for value, word in values.items():
                self.assertIn(f'@{name}[{value}] = "{word}";', text)

    def test_prints_carry_time_and_cpu_and_a_profile_probe_is_added_only_if_probes_print(self):
        self.engine()
        text = self.program('usdt:EXE:bdev_io_done { printf("%d \\"x\\"\\n", arg2); print(@a); }')
        self.assertIn('printf("\\036%lx,%x\\037%d \\"x\\"\\n\\035", nsecs, cpu, arg2);', text)
        self.assertIn('printf("\\036%lx,%x\\034", nsecs, cpu); print(@a);', text)
        self.assertIn("profile:ms:100", text)
        self.assertNotIn("profile", self.program('interval:s:1 { print(@a); } usdt:EXE:bdev_io_done { @a = count(); }'))

    def test_spdk_provider_and_function_names_are_mapped_to_ours(self):
        self.engine()
        text = self.program("usdt:__EXE__:spdk:bdev_io_done, usdt:__EXE__:spdk:spdk_bdev_io_submit { @ = count(); }")
        self.assertIn(":fathom:bdev_io_done,", text)
        self.assertIn(":fathom:bdev_io_submit {", text)

    def test_wrong_scripts_and_options_are_rejected_with_a_message(self):
        engine = self.engine()
        self.assertIn('line 2: ' + engine.name + ' has no probe "bdev_io_dome"; did you mean "bdev_io_done"?',
                      self.error_of("BEGIN { }\nusdt:__EXE__:bdev_io_dome { }"))
        self.assertIn("line 1: a string does not end", self.error_of('BEGIN { printf("'))
        self.assertIn("line 2: a comment does not end", self.error_of("\n/* "))
        for words, text in ((["no-such-script"], "there is neither a file nor a supplied script"), ([self.directory], "is a directory"), ([], "a script is missing"),
                            (["-d", "soon", "-e", "BEGIN { }"], "is not a time")):
            done = run(FATHOM, "probe", "run", *words, check=False)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(text, done.stderr)
        done = run(FATHOM, "probe", "run", "-e", "BEGIN { }", "no-such-engine", check=False)
        self.assertEqual(done.returncode, 1)
        done = run(FATHOM, "probe", "run", "-e", "BEGIN { }", engine.name, check=False, env=dict(os.environ, PATH="/nonexistent"))
        self.assertIn("bpftrace is not installed", done.stderr)
        self.assertEqual(done.returncode, 2)

    def test_a_script_is_read_from_a_file_or_from_standard_input(self):
        engine = self.engine()
        path = os.path.join(self.directory, "mine.bt")
        with open(path, "w", encoding="utf-8") as file:
            file.write("BEGIN { @ = __PID__; }")
        self.assertIn(f"@ = {engine.pid};", run(FATHOM, "probe", "run", "--print", path, engine.name).stdout)
        self.assertIn(f"@ = {engine.pid};", run(FATHOM, "probe", "run", "--print", "-", engine.name, input="BEGIN { @ = PID; }").stdout)

    def test_each_of_two_engines_gets_its_own_program(self):
        one, other = self.engine(), self.engine()
        text = run(FATHOM, "probe", "run", "--print", "-e", "BEGIN { @ = PID; }\n", one.name, str(other.pid), one.name).stdout
        self.assertEqual(re.findall(r"@ = (\d+)", text), [str(one.pid), str(other.pid)])


FAKE = r"""#!/usr/bin/env python3
# Stands in for bpftrace and never sleeps, as under load. `prints`: it prints lines of a probe. `ends`: so many SIGINTs end it;
# after the first one it waits in epoll. 0: none do.
import os, select, signal, sys, time
ended, epoll = [], select.epoll()
signal.signal(signal.SIGINT, (lambda *_: ended.append(1)) if %(ends)s else signal.SIG_IGN)
while not %(ends)s or len(ended) < %(ends)s:
    if ended:
        epoll.poll(0.1)
        continue
    if %(prints)s:
        os.write(1, b"\x1e%%x,0\x1fline\n\x1d" %% time.monotonic_ns())
    until = time.monotonic() + 0.05
    while time.monotonic() < until:
        pass
"""


@unittest.skipUnless(os.geteuid() == 0 and os.path.exists(UPROBES), "fathom requires root and uprobes before it starts bpftrace")
class TimeLimit(EngineTest):
    """-d ends the run even if bpftrace does not react."""

    def run_with_fake_bpftrace(self, *words, **kind):
        folder = os.path.join(self.directory, "bin")
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "bpftrace")
        with open(path, "w", encoding="utf-8") as file:
            file.write(FAKE % kind)
        os.chmod(path, 0o755)
        return run(FATHOM, "probe", "run", "--verbose", "-d", "0.2", *words, "-e", 'usdt:__EXE__:bdev_io_done { printf("line\\n"); }', self.engine("-m", "1").name,
                   check=False, timeout=180, env=dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}"))

    def test_the_first_output_of_a_probe_shows_that_bpftrace_has_attached(self):
        done = self.run_with_fake_bpftrace(prints=True, ends=1)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("did not attach within", done.stderr)
        self.assertIn("line", done.stdout)

    def test_a_bpftrace_that_missed_its_interrupt_is_interrupted_again(self):
        done = self.run_with_fake_bpftrace(prints=True, ends=2)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("did not end within", done.stderr)

    def test_a_bpftrace_that_neither_attaches_nor_ends_is_killed(self):
        done = self.run_with_fake_bpftrace("--end-timeout", "2", prints=False, ends=0)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("did not attach within 20 s", done.stderr)
        self.assertIn("did not end within 2 s of its interrupt, and is killed", done.stderr)


class LiveTest(EngineTest):
    """Skipped where probes cannot be attached."""

    @classmethod
    def setUpClass(cls):
        reason = attach_obstacle()
        if reason:
            raise unittest.SkipTest(reason)

    def start(self, *words):
        """Start `fathom probe run` in the background; returns when it has attached."""
        messages = os.path.join(self.directory, "messages")
        with open(messages, "w", encoding="utf-8") as file:
            started = subprocess.Popen([FATHOM, "probe", "run", *words], stdout=subprocess.PIPE, stderr=file, text=True)
        self.addCleanup(kill_process, started)
        deadline = time.monotonic() + ATTACH_SECONDS
        while not read(messages).startswith("# "):
            self.assertIsNone(started.poll(), read(messages))
            self.assertLess(time.monotonic(), deadline, "fathom probe run did not attach")
            time.sleep(0.02)
        self.messages = messages
        return started

    def end(self, started, interrupt=True):
        """Interrupt the run, or wait for its own end; its output."""
        if interrupt:
            started.send_signal(signal.SIGINT)
        output = started.communicate(timeout=120)[0]
        self.assertEqual(started.returncode, 0, read(self.messages))
        return output

    def load(self, engine):
        engine.perf("--quiet", "--count", IOS, "--depth", 8, "--queues", 2, "--rw", "read")

    def reads(self, engine):
        return engine.rpc("bdev_get_iostat")["bdevs"][0]["num_read_ops"]


class Attached(LiveTest):
    """bpftrace on an engine under load."""

    def test_counts_match_the_engine_and_ctrl_c_prints_the_maps(self):
        engine = self.engine("-m", "3")
        engine.serve("bdev_malloc_create", 16, 512)
        before = self.reads(engine)
        started = self.start("-e", 'usdt:__EXE__:bdev_io_done /@io_status[arg3] == "SUCCESS"/ { @ios[str(arg4)] = count(); }', engine.name)
        self.load(engine)
        expected = self.reads(engine) - before
        self.assertEqual(re.findall(r"^@ios\[\w+\]: (\d+)$", self.end(started), re.MULTILINE), [str(expected)])

    def test_lines_of_two_reactors_are_in_the_order_of_time(self):
        engine = self.engine("-m", "3")
        engine.serve("bdev_malloc_create", 16, 512)
        before = self.reads(engine)
        path = os.path.join(self.directory, "lines")
        started = self.start("--json", "-o", path, "-e", script_output.LINES, engine.name)
        self.load(engine)
        self.assertEqual(self.end(started), "", "output goes to the file of -o alone")
        lines = script_output.lines_in_order(self, read(path))
        self.assertEqual(len(lines), self.reads(engine) - before)
        self.assertEqual(len({line[1] for line in lines}), 2, "both reactors did I/O")
        self.assertEqual({line[2] for line in lines}, {"READ"})

    def test_json_prints_an_object_a_line_and_ends_after_its_time_limit(self):
        engine = self.engine("-m", "3")
        engine.serve("bdev_malloc_create", 16, 512)
        before = self.reads(engine)
        started = self.start("--json", "-d", "4", "-e", 'usdt:__EXE__:bdev_io_done { printf("%d\\n", arg3); @ios[@io_status[arg3]] = count(); }', engine.name)
        self.load(engine)
        rows = [json.loads(line) for line in self.end(started, interrupt=False).splitlines()]
        expected = self.reads(engine) - before
        self.assertEqual({(row["pid"], row["name"]) for row in rows}, {(engine.pid, engine.name)})
        self.assertEqual([row["data"] for row in rows if row["type"] == "printf"], ["0\n"] * expected)
        times = [row["time_ns"] for row in rows]
        self.assertEqual(times, sorted(times))
        self.assertEqual([row["data"] for row in rows if row["type"] == "map"], [{"@ios": {"SUCCESS": expected}}])

    def test_each_line_names_the_engine_that_it_comes_from(self):
        one, other = self.engine("-m", "1"), self.engine("-m", "1")
        started = self.start("-e", 'usdt:__EXE__:rpc_request_received { printf("%s of %d\\n", str(arg2), pid); @calls = count(); }', one.name, other.name)
        one.rpc("rpc_get_methods")
        other.rpc("spdk_get_version")
        one.rpc("bdev_get_bdevs")
        lines = [line for line in self.end(started).splitlines() if "of" in line or "@" in line]
        self.assertEqual(lines[:3], [f"{one.name}[{one.pid}] rpc_get_methods of {one.pid}", f"{other.name}[{other.pid}] spdk_get_version of {other.pid}",
                                     f"{one.name}[{one.pid}] bdev_get_bdevs of {one.pid}"])
        self.assertEqual(sorted(lines[3:]), sorted([f"{one.name}[{one.pid}] @calls: 2", f"{other.name}[{other.pid}] @calls: 1"]))

    def test_a_run_ends_with_the_engine_and_passes_arguments_to_the_script(self):
        engine = self.engine("-m", "1")
        started = self.start("-e", 'usdt:__EXE__:rpc_request_received { @said[str($1), $2] = count(); }', engine.name, "--", "word", "7")
        engine.rpc("rpc_get_methods")
        engine.stop()
        self.assertIn("@said[word, 7]: 1", self.end(started, interrupt=False))

    def test_an_error_in_the_script_is_reported_with_its_line(self):
        engine = self.engine("-m", "1")
        done = run(FATHOM, "probe", "run", "-e", "BEGIN { }\nusdt:__EXE__:bdev_io_done { @x = nothing(); }", engine.name, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("-e, line 2: Unknown function: nothing", done.stderr)
        self.assertNotIn("\n/proc", done.stderr)
        done = run(FATHOM, "probe", "run", "--verbose", "-e", "BEGIN { @x = nothing(); }", engine.name, check=False)
        self.assertIn("~~~", done.stderr)

    def test_a_script_written_for_spdk_runs_unchanged(self):
        engine = self.engine("-m", "3")
        path = os.path.join(self.directory, "theirs.bt")
        with open(path, "w", encoding="utf-8") as file:
            file.write("""usdt:__EXE__:nvmf_subsystem_change_state_done {
	printf("%d.%06d: %s from %s to %s %s\\n", elapsed / (uint64)(1000 * 1000), elapsed % (uint64)(1000 * 1000),
	       str(arg1), @subsystem[arg3], @subsystem[arg2], arg4 ? "failed" : "done");
}
tracepoint:raw_syscalls:sys_enter /pid == __PID__/ { @calls = count(); }
""")
        started = self.start(path, engine.name)
        engine.run_commands(f"nvmf_create_subsystem {NQN} -a\n")
        output = self.end(started)
        self.assertRegex(output, rf"\A\d+\.\d+: {NQN} from INACTIVE to ACTIVE done\n")
        self.assertRegex(output, r"@calls: [1-9]\d*\n")


    def test_functions_with_spdks_names_get_a_named_function_as_second_argument(self):
        """Plain bpftrace attaches to functions with SPDK's names. Their second argument is a function, and usym() prints its name."""
        engine = self.engine("-m", "3")
        program = os.path.realpath(ENGINE)
        script = "".join('uprobe:%s:%s { printf("%s %%s\\n", usym(arg1)); }' % (program, name, name)
                         for name in ("spdk_thread_send_msg", "spdk_for_each_channel"))
        seen = os.path.join(self.directory, "seen")
        with open(seen, "w", encoding="utf-8") as file:
            tracer = subprocess.Popen(["bpftrace", "-B", "line", "-p", str(engine.pid), "-e", script + 'interval:s:1 { printf("attached\\n"); }'],
                                      stdout=file, stderr=subprocess.DEVNULL)
        self.addCleanup(kill_process, tracer)

        def wait_for(pattern):
            deadline = time.monotonic() + ATTACH_SECONDS
            while not re.search(pattern, read(seen), re.MULTILINE):
                self.assertIsNone(tracer.poll())
                self.assertLess(time.monotonic(), deadline, f"{pattern}: {read(seen)}")
                time.sleep(0.05)
        wait_for("^attached$")
        engine.serve("bdev_malloc_create", 16, 512)
        self.load(engine)
        wait_for("^spdk_for_each_channel nvmf_transport_groups_create$")
        wait_for("^spdk_thread_send_msg connect_on_control$")

class DocumentedSession(LiveTest):
    """Replays the session of docs/usdt.md."""

    def test_the_session_prints_the_output_that_the_page_shows(self):
        page = read(os.path.join(TOP, "docs", "usdt.md"))
        blocks = re.findall(r"^```(session|output \w+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        engine, running, compared = None, None, 0
        for kind, text in blocks:
            words = text.split()
            if kind != "session":
                plain = [sorted(re.sub(r"^\d+\.\d+", "T", line) for line in lines.splitlines() if line) for lines in (text, self.end(running))]
                self.assertEqual(*plain)
                compared += 1
            elif words[0] == "fathom-engine":
                engine = self.engine(*words[1:], ready=False)
                while not os.path.exists(engine.sock):
                    time.sleep(0.01)
            elif words[:3] == ["fathom", "probe", "run"]:
                running = self.start(*shlex.split(text)[3:], engine.name)
            else:
                engine.run_commands("\n".join(text.splitlines()[1:-1]).replace("4420", str(engine.port)) + "\n")
        self.assertEqual(compared, 3)


class ShippedScripts(LiveTest):
    """All scripts of probes/ run at once on one engine under one load; their counts are compared with the engine's."""

    def summary(self, engine):
        return script_output.counts_of_summary(engine.trace("summary", "--json", "-f", engine.trace_path).stdout)

    def start_all(self, engine):
        """Start every script: {name: (process, path of its output, path of its messages)} when all have attached."""
        started = {}
        for name in sorted(file.removesuffix(".bt") for file in os.listdir(PROBES)):
            messages, out = (os.path.join(self.directory, f"{name}.{kind}") for kind in ("messages", "out"))
            with open(messages, "w", encoding="utf-8") as file:
                words = [FATHOM, "probe", "run", "-o", out, name, engine.name, *(["--", "1"] if name == "slowest" else [])]
                started[name] = subprocess.Popen(words, stderr=file), out, messages
            self.addCleanup(kill_process, started[name][0])
        for name, (process, _, messages) in started.items():
            deadline = time.monotonic() + ATTACH_SECONDS
            while not read(messages).startswith("# "):
                self.assertIsNone(process.poll(), f"{name}: {read(messages)}")
                self.assertLess(time.monotonic(), deadline, f"{name} does not attach")
                time.sleep(0.02)
        return started

    def test_shipped_scripts_count_what_the_engine_counts(self):
        engine = self.engine("-m", "3")
        engine.serve("bdev_malloc_create", 16, 512)
        engine.run_commands(f"""bdev_malloc_create 16 4096 -b M1
bdev_error_create M1
nvmf_subsystem_add_ns {NQN} EE_M1
""")
        started = self.start_all(engine)
        before = self.summary(engine)
        self.load(engine)
        engine.run_commands(f"bdev_error_inject_error EE_M1 read failure -n {script_output.FAILURES}\n")
        engine.perf("--quiet", "--count", 20, "--nsid", 2, "--rw", "read", "--depth", 1, check=False)
        engine.run_commands(f"nvmf_delete_subsystem {NQN}\n")
        time.sleep(1.5)     # some scripts print once a second
        after = self.summary(engine)
        for process, _, _ in started.values():
            process.send_signal(signal.SIGINT)
        for name, (process, _, messages) in started.items():
            process.wait(60)
            self.assertEqual(process.returncode, 0, f"{name}: {read(messages)}")
        new = {key: after[key] - before.get(key, 0) for key in after}
        self.assertGreater(new["bdev_io_submit"], IOS)
        script_output.assert_scripts_match_trace(self, {name: read(out) for name, (_, out, _) in started.items()}, new)


if __name__ == "__main__":
    unittest.main()
