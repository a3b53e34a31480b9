# SPDX-License-Identifier: BSD-2-Clause
"""
bench_doctor - what `fathom doctor`, asked again and again, costs the engine that it looks at, measured by `bench` in one engine with and without it.
"""

import os
import subprocess
import threading


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


def bench_doctor(server_class, build, report, helpers, slices, seconds):
    """`helpers`: the functions cpu_ns() and middle_half() of bench. The doctor shares CPU 1 with the host, so the I/Os per CPU second count."""
    cpu_ns, middle_half = helpers
    server = server_class(build, "traced", 460)
    pid, runs = server.process.pid, 0
    try:
        core = server.rpc("framework_get_reactors")["reactors"][0]["tid"]
        server.perf(0.5)
        ratios, core_ratios = [], []
        for number in range(slices):
            iops, per_core = {}, {}
            for asked in (True, False) if number % 2 else (False, True):
                doctor = Doctor(os.path.join(build, "bin", "fathom"), pid) if asked else None
                began = cpu_ns(pid, core)
                iops[asked] = server.perf(seconds, "--rw", "randread", "--bs", "4k", "--depth", "32", nice=-20)["total"]["iops"]
                per_core[asked] = iops[asked] * seconds * 1e9 / (cpu_ns(pid, core) - began)
                if doctor:
                    doctor.stop()
                    runs += doctor.runs
            ratios.append(iops[True] / iops[False])
            core_ratios.append(per_core[True] / per_core[False])
    finally:
        server.stop()
    (mean, error), (core_mean, core_error) = middle_half(ratios), middle_half(core_ratios)
    report.line(bench="doctor", runs=runs, asked_to_alone=round(mean, 4), error=round(error, 4), core_asked_to_alone=round(core_mean, 4),
                core_error=round(core_error, 4))
    report.table("Cost of asking the doctor without a pause", ["case, asked/alone", "IOPS", "+-", "I/Os per CPU second", "+-", "runs"],
                 [["4k randread depth 32", f"{mean:.4f}", f"{error:.4f}", f"{core_mean:.4f}", f"{core_error:.4f}", runs]])
