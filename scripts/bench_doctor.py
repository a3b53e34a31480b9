# SPDX-License-Identifier: BSD-2-Clause
"""
bench_doctor - what `fathom doctor`, asked again and again, costs the engine that it looks at, measured by `bench` in one engine with and without it.
"""

import contextlib
import os
import subprocess
import threading

from bench_pairs import compare


class Doctor:
    """Asks without a pause, from CPU 1."""

    def __init__(self, fathom, pid):
        self.command, self.end, self.runs = ["taskset", "-c", "1", fathom, "doctor", "--json", str(pid)], threading.Event(), 0
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.end.is_set():
            subprocess.run(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60, check=False)
            self.runs += 1

    def stop(self):
        self.end.set()
        self.thread.join()


def bench_doctor(server_class, build, report, slices, seconds):
    """The doctor shares CPU 1 with the host, so the I/Os per CPU second count."""
    server = server_class(build, "traced", 460)
    runs = []
    try:
        @contextlib.contextmanager
        def asking(on):
            doctor = Doctor(os.path.join(build, "bin", "fathom"), server.process.pid) if on else None
            try:
                yield
            finally:
                if doctor:
                    doctor.stop()
                    runs.append(doctor.runs)

        server.perf(0.5)
        ratios = compare(server, slices, seconds, ("--rw", "randread", "--bs", "4k", "--depth", "32"), asking, nice=-20)
    finally:
        server.stop()
    report.line(bench="doctor", runs=sum(runs), **ratios.fields("asked_to_alone"))
    report.table("Cost of asking the doctor without a pause", ["case, asked/alone", "IOPS", "+-", "I/Os per CPU second", "+-", "runs"],
                 [["4k randread depth 32", *ratios.cells(), sum(runs)]])
