# SPDX-License-Identifier: BSD-2-Clause
"""export_rig - traces to export, and the output of `fathom trace show --json` for them."""

import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "system")]
import harness  # noqa: E402

WRITER = os.environ.get("TRACE_WRITER", "")


class Traces:
    """Trace files in a folder of this process. Each is recorded when a test first needs it. Pair of the folder: remove()."""

    @functools.cached_property
    def folder(self):
        return tempfile.mkdtemp(prefix="fathom-export-")

    @functools.cached_property
    def engine(self):
        """An engine that served a null and a malloc device and then stopped."""
        engine = harness.Engine(self.folder, "--num-trace-entries", "8192")
        try:
            engine.serve("bdev_null_create", "null0", 512, 4096)
            engine.run_commands(f"bdev_malloc_create -b malloc0 16 4096\nnvmf_subsystem_add_ns {harness.NQN} malloc0\n")
            engine.perf("--rw", "mix", "--depth", "4", "--count", "600")
            engine.perf("--nsid", "2", "--rw", "mix", "--depth", "8", "--count", "600", "--verify")
            if engine.stop() != 0:
                raise AssertionError(engine.log_text())
            return shutil.copy(engine.trace_path, os.path.join(self.folder, "engine.trace"))
        finally:
            engine.discard()

    @functools.cached_property
    def stall(self):
        """An engine with a device that held eight reads together."""
        engine = harness.Engine(self.folder)
        try:
            engine.run_commands("bdev_malloc_create -b Disk0 16 512\nbdev_error_create Disk0\n")
            engine.serve("bdev_null_create", "null0", 512, 4096)
            engine.run_commands(f"nvmf_subsystem_add_ns {harness.NQN} EE_Disk0\n")
            engine.rpc("bdev_error_inject_error", name="EE_Disk0", io_type="read", error_type="delay", delay_us=200000, num=8)
            engine.perf("--nsid", "2", "--rw", "randread", "--depth", "8", "--count", "16")
            engine.kill()
            return shutil.copy(engine.trace_path, os.path.join(self.folder, "stall.trace"))
        finally:
            engine.discard()

    @functools.cached_property
    def story(self):
        """A small trace with every type of argument and lives that have not ended. No engine wrote it; its writer was killed."""
        return subprocess.run([WRITER, "story", self.folder], stdout=subprocess.PIPE, text=True).stdout.strip()

    def remove(self):
        shutil.rmtree(self.folder)


traces = Traces()


class ExportTest(unittest.TestCase):
    def need(self, program, package):
        if not shutil.which(program):
            self.skipTest(f"no {program} here (package {package})")

    def path(self, name):
        return os.path.join(traces.folder, f"{self.id()}-{name}")

    def export(self, trace, *words):
        return harness.run(harness.FATHOM, "trace", "export", "--force", "-f", trace, *words)

    def refuse(self, words, *args):
        done = harness.run(harness.FATHOM, "trace", *args, check=False)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn(words, done.stderr)

    def shown(self, trace, *words):
        """The output of `show --json`: (header, events, end)."""
        rows = [json.loads(line) for line in harness.run(harness.FATHOM, "trace", "-f", trace, "--json", *words).stdout.splitlines()]
        for row in rows:    # exports have the address of a function, not its name
            if isinstance(row.get("args"), dict):
                row["args"] = {name: value for name, value in row["args"].items()
                               if not (name.endswith("_name") and re.fullmatch("0x[0-9a-f]{16}", str(row["args"].get(name[:-len("_name")]))))}
        return rows[0]["trace"], rows[1:-1], rows[-1]["end"]
