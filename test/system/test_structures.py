# SPDX-License-Identifier: BSD-2-Clause
"""`fathom probe run` declares to scripts the structures and enums of the running program, from its debug information."""

import os
import re
import shutil
import subprocess
import time
import unittest

from harness import ENGINE, FATHOM, NQN, EngineTest, run
from test_attaching import LiveTest, kill_process

LONGEST = "nqn.2016-06.io.spdk:" + "".join(f"{place:010}" for place in range(0, 200, 10)) + "end"
SUBSYSTEM = "usdt:__EXE__:nvmf_subsystem_state { $s = (struct nvmf_subsystem *)arg1; @ = $s->id; }"
BTF = "/sys/kernel/btf/vmlinux"


def start_stripped_engine(test, debug_file):
    """An engine with a private program, whose debug information is in `debug_file`."""
    program = os.path.join(test.directory, "fathom-engine")
    shutil.copy(ENGINE, program)
    run("objcopy", "--only-keep-debug", program, debug_file)
    run("strip", "--strip-unneeded", program)
    run("objcopy", f"--add-gnu-debuglink={debug_file}", program)
    return test.engine(program=program)


class Declarations(EngineTest):
    """The program that `fathom probe run --print` shows, which bpftrace would get."""

    def print_program(self, engine, script, check=True):
        return run(FATHOM, "probe", "run", "--print", "-e", script, engine.pid, check=check)

    def assert_refused(self, engine, script):
        done = self.print_program(engine, script, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stdout)
        return done.stderr

    def start_private_engine(self):
        """An engine with a private program: (engine, path of the program)."""
        program = os.path.join(self.directory, "fathom-engine")
        shutil.copy(ENGINE, program)
        return self.engine(program=program), program

    def test_only_the_types_that_a_script_names_are_declared(self):
        engine = self.engine()
        text = self.print_program(engine, SUBSYSTEM).stdout
        self.assertRegex(text, r"(?m)^struct nvmf_subsystem \{ .*struct nvmf_subsystem_options options;")
        self.assertNotIn("struct nvmf_ns ", text)
        self.assertNotIn("enum", text)
        text = self.print_program(engine, SUBSYSTEM.replace("$s->id", "$s->namespaces[0]->nsid == NVMF_SUBSYSTEM_ACTIVE")).stdout
        self.assertIn("struct nvmf_ns { unsigned int nsid;", text)
        self.assertIn("enum { NVMF_SUBSYSTEM_ACTIVE = 2, };", text)
        self.assertNotIn("struct", self.print_program(engine, "usdt:__EXE__:bdev_io_done { @ = count(); }").stdout)
        self.assertNotIn("struct task_struct {", self.print_program(engine, "BEGIN { @ = ((struct task_struct *)curtask)->pid; }").stdout)

    def test_probes_of_the_kernel_use_the_kernels_structures(self):
        if not os.path.exists(BTF):
            self.skipTest("this kernel has no BTF")
        engine = self.engine()
        kernels, ours = "kprobe:tcp_sendmsg { @ = ((struct sock *)arg0)->pid; }", "usdt:__EXE__:bdev_io_done { @ = ((struct sock *)arg1)->fd; }"
        self.assertNotIn("struct sock__2", self.print_program(engine, kernels).stdout)
        text = self.print_program(engine, kernels + "\n" + ours).stdout
        self.assertRegex(text, r"(?m)^struct sock__2 \{")
        self.assertIn("@ = ((struct sock *)arg0)->pid;", text)
        self.assertIn("@ = ((struct sock__2 *)arg1)->fd;", text)

    def test_types_are_read_from_the_debug_file_beside_a_stripped_program(self):
        engine = start_stripped_engine(self, os.path.join(self.directory, "fathom-engine.debug"))
        self.assertIn("struct nvmf_subsystem {", self.print_program(engine, SUBSYSTEM).stdout)
        # it is found by the build id of the process, also after its program was removed
        os.unlink(os.path.join(self.directory, "fathom-engine"))
        self.assertIn("struct nvmf_subsystem {", self.print_program(engine, SUBSYSTEM).stdout)

    def test_missing_debug_information_is_reported_with_what_to_do(self):
        debug = os.path.join(self.directory, "fathom-engine.debug")
        engine = start_stripped_engine(self, debug)
        os.unlink(debug)
        said = self.assert_refused(engine, SUBSYSTEM)
        self.assertRegex(said, r"struct nvmf_subsystem: \S+/fathom-engine has no debug information, and its debug file \(build-id \w{40}\) is "
                               r"neither in /usr/lib/debug nor beside it: install that file, or build the program with symbols")
        self.assertIn("enum nvmf_subsystem_state", self.assert_refused(engine, "BEGIN { @ = (enum nvmf_subsystem_state)1; }"))
        self.assertIn("count()", self.print_program(engine, "usdt:__EXE__:bdev_io_done { @ = count(); }").stdout)
        if os.path.exists(BTF):
            self.assertIn("curtask", self.print_program(engine, "BEGIN { @ = ((struct task_struct *)curtask)->pid; }").stdout)

    def test_types_are_those_of_the_running_program_after_its_file_was_removed(self):
        engine, program = self.start_private_engine()
        os.unlink(program)
        self.assertIn("struct nvmf_subsystem {", self.print_program(engine, SUBSYSTEM).stdout)

    def test_a_removed_or_replaced_program_without_debug_information_is_reported(self):
        debug, program = os.path.join(self.directory, "fathom-engine.debug"), os.path.join(self.directory, "fathom-engine")
        engine = start_stripped_engine(self, debug)
        os.unlink(debug)
        os.unlink(program)
        self.assertIn("has been removed since its start, and there is no debug file of the running program", self.assert_refused(engine, SUBSYSTEM))
        shutil.copy(FATHOM, program)
        self.assertIn("has been replaced since", self.assert_refused(engine, SUBSYSTEM))


class Scripts(LiveTest):
    """Scripts run by bpftrace on a running engine."""

    def write_script(self, text):
        path = os.path.join(self.directory, "script.bt")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_the_longest_nqn_is_read_whole_through_a_structure(self):
        self.assertEqual(len(LONGEST), 223)
        engine = self.engine("-m", "1")
        started = self.start(self.write_script("""usdt:__EXE__:nvmf_subsystem_state
/((struct nvmf_subsystem *)arg1)->state == NVMF_SUBSYSTEM_ACTIVE/
{
	$s = (struct nvmf_subsystem *)arg1;
	printf("whole: %s %d\\n", $s->options.nqn, $s->state == NVMF_SUBSYSTEM_ACTIVE);
	printf("id %d, %d namespaces\\n", $s->id, $s->options.max_namespaces);
	printf("%s", str((int8 *)$s->nqn_istr->text, 63));
	printf("%s", str((int8 *)$s->nqn_istr->text + 63, 63));
	printf("%s", str((int8 *)$s->nqn_istr->text + 126, 63));
	printf("%s\\n", str((int8 *)$s->nqn_istr->text + 189, 63));
	@[$s->options.nqn] = count();
}
"""), engine.name)
        engine.run_commands(f"nvmf_create_subsystem {LONGEST} -a -m 77\n")
        lines = self.end(started).splitlines()
        self.assertEqual(lines[0], f"whole: {LONGEST} 1")
        self.assertRegex(lines[1], r"^id [1-9]\d*, 77 namespaces$")
        self.assertEqual(lines[2], LONGEST)
        self.assertIn(f"@[{LONGEST}]: 1", lines)

    def test_long_strings_work_as_the_man_page_states(self):
        engine, name = self.engine("-m", "1"), "$s->options.nqn"
        block = "usdt:__EXE__:nvmf_subsystem_state { $s = (struct nvmf_subsystem *)arg1; %s }\n"
        works = (f'printf("1 %s\\n", {name});', f"@two[{name}] = count();", f"@three = {name};",
                 f'if (strncmp({name}, "{LONGEST[:30]}", 30) == 0) {{ @four = count(); }}', f'if ({name} == "{NQN}") {{ @five = count(); }}',
                 # bytes behind the end of a shorter name are undefined
                 f'if (strncmp({name}, "{LONGEST[:30]}", 30) == 0) {{ printf("6 %s\\n", str((int8 *)$s->nqn_istr->text + 189, 63)); }}',
                 'printf("7 %s\\n", ((struct long_text *)(int8 *)$s->nqn_istr->text)->text);')
        started = self.start("-e", "struct long_text { char text[224]; };\n" + "".join(block % words for words in works), engine.name)
        engine.run_commands(f"nvmf_create_subsystem {NQN} -a\nnvmf_create_subsystem {LONGEST} -a\n")
        printed = self.end(started)
        for line in (f"1 {LONGEST}", f"@two[{LONGEST}]: 2", f"@three: {LONGEST}", "@four: 2", "@five: 2", f"6 {LONGEST[189:]}", f"7 {LONGEST}"):
            self.assertIn(line + "\n", printed)
        for words, text in ((f'$n = {name}; printf("%s\\n", $n);', "do not fit into the 512 bytes"), (f'printf("%s %s\\n", {name}, {name});', "512 bytes"),
                            (f"@ = str({name});", "str() expects an integer or a pointer")):
            done = run(FATHOM, "probe", "run", "-e", block % words, engine.name, check=False)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(text, done.stderr)

    def test_pointers_typedefs_and_enums_are_followed(self):
        engine = self.engine("-m", "1")
        engine.serve("bdev_malloc_create", 16, 512)
        started = self.start(self.write_script("""usdt:__EXE__:nvmf_ctrlr_add_io_qpair {
	$ctrlr = (struct nvmf_ctrlr *)arg1;
	printf("%s %d %d\\n", $ctrlr->subsystem->options.nqn, $ctrlr->subsystem->namespaces[0]->nsid, (enum nvmf_ctrlr_state)$ctrlr->state);
	printf("%s\\n", $ctrlr->host_nqn);
	printf("%d %d\\n", NVMF_CTRLR_ENABLED, sizeof(enum nvmf_ctrlr_state));
}
"""), engine.name)
        engine.perf("--quiet", "--count", 10, "--hostnqn", "nqn.2024-01.com.example:me")
        lines = self.end(started).splitlines()
        enabled = re.search(r"NVMF_CTRLR_ENABLED = (\d+)", run(FATHOM, "probe", "run", "--print", "-e", "BEGIN { @ = NVMF_CTRLR_ENABLED; }",
                                                               engine.name).stdout)[1]
        self.assertEqual(lines[:3], [f"{NQN} 1 {enabled}", "nqn.2024-01.com.example:me", f"{enabled} 4"])

    def test_structures_of_the_kernel_are_read_beside_ours(self):
        if not os.path.exists(BTF):
            self.skipTest("this kernel has no BTF")
        engine = self.engine("-m", "1")
        for name, more in (("alone", ""), ("beside ours", "$s = (struct nvmf_subsystem *)arg1; @id = $s->id;")):
            with self.subTest(name):
                started = self.start("-e", "usdt:__EXE__:nvmf_subsystem_state { @pid[((struct task_struct *)curtask)->tgid] = 1; %s }" % more, engine.name)
                engine.run_commands(f"nvmf_create_subsystem {NQN}{len(more)} -a\n")
                self.assertIn(f"@pid[{engine.pid}]: 1", self.end(started))

    def test_latency_by_host_names_hosts_that_connected_before_it_started(self):
        engine, host = self.engine("-m", "1"), LONGEST.replace("spdk", "here")
        engine.serve("bdev_malloc_create", 16, 512)
        load = subprocess.Popen([FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", NQN, "--quiet", "--rw", "randread", "--time", "60",
                                 "--hostnqn", host], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(kill_process, load)
        deadline = time.monotonic() + 60
        while engine.rpc("bdev_get_iostat")["bdevs"][0]["num_read_ops"] == 0:
            self.assertLess(time.monotonic(), deadline, "no I/O")
            time.sleep(0.02)
        self.assertIn(f"@us[{host}]: \n", self.end(self.start("-d", "1", "latency_by_host", engine.name), interrupt=False))

    def test_a_structure_with_the_name_of_a_kernel_structure_has_its_own_size(self):
        if not os.path.exists(BTF):
            self.skipTest("this kernel has no BTF")
        engine = self.engine("-m", "1")
        started = self.start("-e", """usdt:__EXE__:rpc_request_received { @ours = sizeof(struct sock); @pid = ((struct task_struct *)curtask)->tgid; }
tracepoint:raw_syscalls:sys_enter /pid == __PID__/ { @kernels = sizeof(struct sock); }""", engine.name)
        engine.rpc("rpc_get_methods")
        values = {name: int(value) for name, value in re.findall(r"^@(\w+): (\d+)$", self.end(started), re.MULTILINE)}
        self.assertEqual(values["pid"], engine.pid)
        self.assertEqual(values["ours"], int(run("gdb", "-q", "-nx", "-batch", "-ex", "output sizeof(struct sock)", ENGINE).stdout.split()[-1]))
        self.assertGreater(values["kernels"], values["ours"])

    def test_errors_name_the_line_of_the_script(self):
        engine = self.engine("-m", "1")
        for script, text in ((SUBSYSTEM.replace("@ = $s->id;", "\n@ = $s->idea;"), "-e, line 2: Struct/union of type 'struct nvmf_subsystem' does not contain a field named 'idea'"),
                             ("\n\n" + SUBSYSTEM.replace("subsystem *", "subsystems *"), "-e, line 3: Unknown struct/union: 'struct nvmf_subsystems'")):
            done = run(FATHOM, "probe", "run", "-e", script, engine.name, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn(text, done.stderr)

    def test_an_unknown_enumerator_mentions_missing_debug_information(self):
        debug = os.path.join(self.directory, "fathom-engine.debug")
        engine = start_stripped_engine(self, debug)
        os.unlink(debug)
        for pid, said in ((engine.pid, True), (self.engine("-m", "1").pid, False)):
            done = run(FATHOM, "probe", "run", "-e", "BEGIN { @ = NVMF_SUBSYSTEM_LOST; }", pid, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn("-e, line 1: Unknown identifier: 'NVMF_SUBSYSTEM_LOST'", done.stderr)
            self.assertEqual("has no debug information, so its enumerators are unknown" in done.stderr, said, done.stderr)

    @unittest.skipUnless(os.environ.get("FATHOM_SPDK_BIN"), "FATHOM_SPDK_BIN does not say where nvmf_tgt is")
    def test_structures_of_an_spdk_target_are_read(self):
        path = os.path.join(self.directory, "spdk.sock")
        target = subprocess.Popen([os.path.join(os.environ["FATHOM_SPDK_BIN"], "nvmf_tgt"), "--no-huge", "-s", "512", "-m", "0x1", "--no-pci",
                                   "-r", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(kill_process, target)
        run(FATHOM, "rpc", "-r", 100, "-s", path, "framework_wait_init")
        started = self.start("-e", 'uprobe:__EXE__:spdk_nvmf_subsystem_start { $s = (struct spdk_nvmf_subsystem *)arg0; printf("%s %d %d\\n", '
                             "$s->subnqn, $s->opts.type == SPDK_NVMF_SUBTYPE_NVME, $s->tgt->max_subsystems); }", str(target.pid))
        run(FATHOM, "rpc", "-s", path, "nvmf_create_subsystem", LONGEST, "-a")
        self.assertRegex(self.end(started), rf"^{LONGEST} 1 [1-9]\d*\n")


if __name__ == "__main__":
    unittest.main()
