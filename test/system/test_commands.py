# SPDX-License-Identifier: BSD-2-Clause
"""The subcommands of `fathom`: their messages and exit statuses when something is wrong."""

import json
import os
import re
import signal
import socket
import subprocess
import time
import unittest

from harness import FATHOM, NQN, EngineTest, run


class Commands(EngineTest):
    def serving(self, mebibytes=16):
        engine = self.engine()
        engine.serve("bdev_malloc_create", "-b", "Disk0", mebibytes, 512)
        return engine

    def run_on_full_output(self, *words):
        """(exit status, standard error) of `fathom WORDS` with /dev/full as standard output."""
        with open("/dev/full", "w") as full:
            done = subprocess.run([FATHOM, *map(str, words)], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        return done.returncode, done.stderr

    def test_output_that_cannot_be_written_gives_status_2(self):
        engine = self.serving()
        perf = ("perf", "-a", "127.0.0.1", "-s", engine.port, "-n", NQN, "--count", 100, "--quiet")
        for words in (("rpc", "-s", engine.sock, "save_config"), ("rpc", "-s", engine.sock, "bdev_get_bdevs"), perf,
                      (*perf, "--json"), ("--help",)):
            status, message = self.run_on_full_output(*words)
            self.assertEqual((status, message), (2, "fathom: standard output could not be written\n"), words)

    def test_perf_fails_if_a_second_signal_ends_its_verification(self):
        engine = self.serving(512)
        perf = subprocess.Popen([FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", NQN, "--rw", "write", "--bs", "4k",
                                 "--time", "60", "--verify", "--quiet", "--json"], stdout=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 60  # until reading the data back takes longer than the two signals are apart
        while engine.rpc("bdev_get_iostat")["bdevs"][0]["bytes_written"] < 256 << 20 and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(perf.pid, signal.SIGTERM)
        time.sleep(0.01)
        os.kill(perf.pid, signal.SIGTERM)
        result = json.loads(perf.communicate(timeout=60)[0])
        self.assertGreater(result["verify"]["blocks_left_out"], 0)
        self.assertFalse(result["ok"])
        self.assertEqual(perf.returncode, 1)

    def test_one_signal_ends_the_load_and_every_block_is_verified(self):
        engine = self.serving()
        perf = subprocess.Popen([FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", NQN, "--rw", "mix", "--time", "60",
                                 "--verify", "--quiet"], stdout=subprocess.PIPE, text=True)
        while engine.rpc("bdev_get_iostat")["bdevs"][0]["num_write_ops"] == 0:
            time.sleep(0.05)
        os.kill(perf.pid, signal.SIGTERM)
        report = perf.communicate(timeout=60)[0]
        self.assertRegex(report, r"(?m)^verified: [1-9]\d* blocks read back, 0 reads were wrong$")
        self.assertNotIn("not verified", report)
        self.assertEqual(perf.returncode, 0)

    def perf(self, engine, *options):
        """(exit status, standard error)"""
        done = engine.perf("--quiet", *options, check=False)
        return done.returncode, done.stderr

    def perf_at(self, answer):
        """(port, messages) of `fathom perf` at a port that accepts the connection and replies `answer`; None: it sends nothing."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            load = subprocess.Popen([FATHOM, "perf", "-a", "127.0.0.1", "-s", str(port), "-n", NQN, "--connect-timeout", "2000"],
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            peer = listener.accept()[0]
            with peer:
                if answer:
                    peer.recv(128)
                    peer.sendall(answer)
                out, message = load.communicate(timeout=60)
        self.assertEqual((load.returncode, out), (2, ""))
        # other tests' reactors may spin on each CPU
        return port, re.sub(r"fathom perf: each CPU that [^\n]*\n", "", message)

    def test_perf_reports_a_port_that_does_not_speak_nvme_tcp(self):
        port, message = self.perf_at(None)
        self.assertEqual(message, f"fathom perf: 127.0.0.1 port {port} accepted the connection; waiting for ICResp\n"
                                  f"fathom perf: 127.0.0.1 port {port} accepted the connection but sent no ICResp within 2.0 s; is it an "
                                  "NVMe/TCP port?\n")
        port, message = self.perf_at(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        self.assertRegex(message, rf"^fathom perf: 127.0.0.1 port {port} accepted the connection, but: it answered with something other than "
                                  r"ICResp \(.+\); is it an NVMe/TCP port\?\n$")

    def test_perf_reports_the_valid_values_of_an_option(self):
        hint = "\n`fathom perf --help` shows the options\n"
        for option, value, wanted in (
                ("--depth", "5000", "a number from 1 to 4096"), ("--queues", "65", "a number from 1 to 64"),
                ("--count", "0", "a number from 1 to 288230376151711743"), ("--nsid", "0", "a number from 1 to 4294967294"),
                ("--read-percent", "101", "a number from 0 to 100"), ("--time", "soon", "a number of seconds from 0 to 1000000"),
                ("--bs", "100", "a multiple of 512 bytes up to 1024M"), ("--rw", "readwrite", "one of read, write, "),
                ("--range", "x", "BYTES or OFFSET:BYTES"), ("--seed", "-1", "a number from 0 to 9223372036854775807")):
            done = run(FATHOM, "perf", "-a", "127.0.0.1", "-n", NQN, option, value, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertTrue(done.stderr.startswith(f'fathom perf: {option}: "{value}" is not {wanted}'), done.stderr)
            self.assertTrue(done.stderr.endswith(hint), done.stderr)

    def test_an_unknown_option_is_reported_as_it_was_typed(self):
        for command in ("perf", "rpc", "trace"):
            done = run(FATHOM, command, "--bogus", check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"fathom {command}: unrecognized option '--bogus'\n", done.stderr)
            self.assertIn(f"`fathom {command} --help`", done.stderr)

    def test_perf_rejects_a_range_that_does_not_fit_the_namespace(self):
        engine = self.serving()
        self.assertEqual(self.perf(engine, "--range", "100:4k"),
                         (2, "fathom perf: --range: byte 100 is not the first of a block of 512 bytes\n"))
        self.assertEqual(self.perf(engine, "--range", "16M:4k"),
                         (2, "fathom perf: --range: not inside the namespace's 16777216 bytes\n"))

    def test_perf_reports_an_unknown_subsystem(self):
        engine = self.serving()
        done = run(FATHOM, "perf", "-a", "127.0.0.1", "-s", engine.port, "-n", NQN + "x", check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn(f'127.0.0.1 port {engine.port} has no subsystem "{NQN}x"', done.stderr)

    def test_an_unwritable_verify_state_is_reported_before_the_run(self):
        engine = self.serving()
        status, message = self.perf(engine, "--rw", "write", "--time", 30, "--verify-state", "/nonexistent/ledger")
        self.assertEqual((status, message), (2, "fathom perf: /nonexistent/ledger.tmp: No such file or directory\n"))
        self.assertEqual(engine.rpc("bdev_get_iostat")["bdevs"][0]["num_write_ops"], 0)

    def test_a_namespace_too_large_to_verify_is_rejected_with_a_hint_at_range(self):
        engine = self.engine()
        engine.serve("bdev_null_create", "Null0", 1 << 36, 4096)
        status, message = self.perf(engine, "--rw", "write", "--verify")
        self.assertEqual(status, 2)
        self.assertIn("use a smaller --range or a larger --bs", message)

    def test_an_invalid_command_is_reported_with_its_line(self):
        engine = self.engine()
        for line, why in (("no_such_command", "unknown command"), ("bdev_get_bdevs -Q", "unknown option -Q"), ("bdev_get_bdevs 'a", "")):
            done = run(FATHOM, "rpc", "-s", engine.sock, input=f"bdev_get_bdevs\n\n# a comment\n{line}\nbdev_get_bdevs\n", check=False)
            self.assertEqual((done.returncode, done.stdout), (2, "[]\n"))
            self.assertIn(why, done.stderr)
            self.assertIn(f"error in line 4: {line}\n", done.stderr)

    def test_help_lists_no_command_that_an_engine_lacks(self):
        here = {"load_config", "load_subsystem_config", "save_config", "save_subsystem_config"}  # `fathom rpc` makes several requests of each
        methods = set(self.engine().rpc("rpc_get_methods"))
        commands = set(re.findall(r"(?m)^  (\w+) {2,}", run(FATHOM, "rpc", "--help").stdout.split("commands:\n")[1]))
        self.assertGreater(len(commands), 50)
        self.assertEqual(commands - methods - here, set())

    # Options that do not accept any number.
    VALUES = {"--uuid": "8f6bb4d1-3b8e-4b5a-9c2a-0d9b1f9f7d11", "--nguid": "0" * 31 + "1", "--eui64": "0" * 15 + "1", "--tgt-name": "nvmf_tgt",
              "--trtype": "tcp", "--traddr": "127.0.0.1", "--adrfam": "ipv4", "--physical-block-size": "4096", "--max-queue-depth": "64",
              "--max-io-size": "65536", "--max-aq-depth": "64", "--in-capsule-data-size": "8192", "--wzsl": "4", "--max-namespaces": "4"}

    def test_every_option_in_help_without_a_remark_has_an_effect(self):
        """Help marks options that are accepted for SPDK's scripts without effect. It does not list options that are refused."""
        subsystem, tried = "nqn.2026-01.io.fathom:help", 0
        calls = {"bdev_malloc_create": ["8", "512"], "bdev_null_create": ["Null0", "8", "512"], "nvmf_create_subsystem": [subsystem],
                 "nvmf_subsystem_add_ns": [NQN, "Malloc0"], "nvmf_subsystem_add_listener": [NQN, "-t", "tcp", "-a", "127.0.0.1"],
                 "nvmf_subsystem_add_host": [NQN, "nqn.2026-01.io.fathom:h"], "nvmf_create_transport": ["-t", "tcp"]}
        for method, words in calls.items():
            engine = self.engine()
            if method != "nvmf_create_transport":
                engine.run_commands(f"nvmf_create_transport -t tcp\nbdev_malloc_create 8 512\nnvmf_create_subsystem {NQN} -a\n")
            more = []
            for flag, value, what in re.findall(r"(?m)^  (?:-\w, )?(--[\w-]+)( VALUE)? +(.*)", run(FATHOM, "rpc", method, "--help").stdout):
                if not re.match("ignored|no effect|accepted", what):
                    values = {**self.VALUES, "--trsvcid": str(engine.port)}  # ports below 1024 need privileges
                    more += [flag] + ([values.get(flag, "1")] if value else [])
                    tried += 1
            done = run(FATHOM, "rpc", "-s", engine.sock, method, *words, *more, check=False)
            self.assertEqual(done.returncode, 0, f"{method} {' '.join(more)}: {done.stderr}")
            self.assertNotIn("has no meaning here", engine.log_text())
            engine.stop()
        self.assertGreater(tried, 30)
        for method in ("bdev_malloc_create", "bdev_null_create"):
            text = run(FATHOM, "rpc", method, "--help").stdout
            for option in ("--md-size", "--dif-type", "--dif-pi-format"):
                self.assertNotIn(option, text)

    def test_the_commands_of_docs_life_of_an_io_find_the_records_of_a_request(self):
        engine = self.serving()
        engine.perf("--count", 3, "--depth", 1)
        last = engine.trace("-p", engine.pid, "-n", "bdev_io_done").stdout.splitlines()[-1]
        request = re.search(r"id: i\d+ \((r\d+)\)", last).group(1)
        life = [line for line in engine.trace("-p", engine.pid).stdout.splitlines() if re.search(rf"\b{request}\b", line)]
        for name in ("NVMF_REQ_STATE", "BDEV_IO_SUBMIT", "BDEV_IO_DISPATCH", "BDEV_IO_DONE"):
            self.assertTrue(any(name in line for line in life), (name, life))


if __name__ == "__main__":
    unittest.main()
