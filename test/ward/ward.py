# SPDX-License-Identifier: BSD-2-Clause
"""
ward - illnesses that a test puts into a live engine; `fathom doctor` does not know which. Its first finding must name the cause.

A case is a method with the decorator illness(TEXT, FINDING). docs/runbook.md has the same rows; test_runbook.py compares them. Each case prints how
long the diagnosis took.
"""

import json
import os
import resource
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "system"))

from harness import FATHOM, NQN, EngineTest, RpcError, run, wait_for  # noqa: E402

DOCTOR_SECONDS = 10
LONG_MS = 2500      # longer than the doctor calls normal
EXITS = {"healthy": 0, "degraded": 1, "broken": 2}


def illness(text, finding):
    """Name the illness of a case, and the finding that must come first."""
    def mark(method):
        method.illness, method.finding = text, finding
        return method
    return mark


def allow_cores():
    """Before an engine starts: so that no finding is about cores."""
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def diagnose(target, *options, note=""):
    """The report of the doctor; it must agree with the exit status and be made in time."""
    began = time.monotonic()
    done = run(FATHOM, "doctor", "--json", *options, target, check=False, timeout=120)
    seconds = time.monotonic() - began
    if done.returncode not in EXITS.values():
        raise AssertionError(f"exit status {done.returncode}: {done.stderr}")
    report = json.loads(done.stdout)
    names = " ".join(f"{row['name']}{'<' + row['because_of'] if row['because_of'] else ''}" for row in report["findings"])
    print(f"# {note}{seconds:.1f} s: {report['health']}: {names}", flush=True)
    assert EXITS[report["health"]] == done.returncode, report
    for row in report["findings"]:
        assert row["says"] and row["do"] and row["certainty"] in ("possible", "likely", "certain"), row
        assert row["severity"] == "note" or row["evidence"] or row["see"], row
    return report


class Ward(EngineTest):
    """Each case ends the processes that it started."""

    def setUp(self):
        super().setUp()
        self.loads = []

    def tearDown(self):
        for load in self.loads:
            load.kill()
            load.wait()
        super().tearDown()

    def engine(self, *options, **kwargs):
        kwargs.setdefault("preexec_fn", allow_cores)
        return super().engine(*options, **kwargs)

    def check(self, target):
        """The doctor names the illness of the running case first. Returns its report."""
        case = getattr(self, self._testMethodName)
        report = diagnose(target, note=f"{case.illness}: ")
        self.assertTrue(report["findings"], case.illness)
        self.assertEqual(report["findings"][0]["name"], case.finding, json.dumps(report, indent=1))
        return report

    def check_with_cpu(self, target):
        """As check(), of an illness that needs CPU time to show. A machine that other programs keep busy is another illness: the case is skipped."""
        try:
            return self.check(target)
        except AssertionError as error:
            if "cpu_contended" in str(error):
                raise unittest.SkipTest("other programs take the CPU time of the engine") from None
            raise

    def program(self, *words, **kwargs):
        process = subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **kwargs)
        self.loads.append(process)
        return process

    def load(self, engine, *options, subsystem=NQN, **kwargs):
        """I/O of a host until the case ends."""
        return self.program(FATHOM, "perf", "-a", "127.0.0.1", "-s", engine.port, "-n", subsystem, "--time", 3600, "--timeout", 0,
                            "--connect-timeout", 120000, *options, **kwargs)

    def wait_under_way(self, engine, stage, count=1, milliseconds=LONG_MS):
        """Wait until `count` operations have been in this stage for long."""
        def are_there():
            rows = engine.operations_under_way("--older-than", f"{milliseconds}ms")
            return sum(row.get("stage") == stage and row["stage_us"] >= milliseconds * 1000 for row in rows) >= count
        wait_for(are_there, pause=0.2)

    def wait_for_event(self, engine, point):
        """Wait until the trace has an event of this point."""
        wait_for(lambda: f'"{point}"' in engine.trace("--json", "-n", point, "-f", engine.trace_path, check=False).stdout.lower(), pause=0.2)

    def error_device(self, engine):
        """Serve a device that can be made ill."""
        engine.serve("bdev_malloc_create", "-b", "M0", 16, 512)
        engine.run_commands(f"bdev_malloc_create -b M1 16 512\nbdev_error_create M1\nnvmf_subsystem_add_ns {NQN} EE_M1 -n 2\n")

    def inject(self, engine, error, **options):
        engine.rpc("bdev_error_inject_error", name="EE_M1", io_type="read", error_type=error, **options)

    def ios(self, engine, device):
        stats = engine.rpc("bdev_get_iostat", names=[device])["bdevs"][0]
        return stats["num_read_ops"] + stats["num_write_ops"]


__all__ = ["DOCTOR_SECONDS", "FATHOM", "LONG_MS", "NQN", "RpcError", "Ward", "allow_cores", "diagnose", "illness", "run", "wait_for"]
