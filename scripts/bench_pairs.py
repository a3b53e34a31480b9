# SPDX-License-Identifier: BSD-2-Clause
"""
bench_pairs - the cost of something for one engine: a load with it and without it in turns, as ratios of I/Os in a second, and of I/Os in a second of
the core's CPU time, which other programs of the machine disturb less.
"""

import statistics


def cpu_ns(pid, thread):
    return int(open(f"/proc/{pid}/task/{thread}/schedstat").read().split()[0])


def middle_half(ratios):
    """(mean, standard error) of the middle half of the ratios: the others may come from slices that other processes disturbed."""
    ratios = sorted(ratios)[len(ratios) // 4:len(ratios) - len(ratios) // 4]
    return statistics.mean(ratios), statistics.stdev(ratios) / len(ratios) ** 0.5


class Ratios:
    """With to without: I/Os in a second, and in a second of the core's CPU time, each with its standard error."""

    def __init__(self, iops, per_core):
        (self.mean, self.error), (self.core_mean, self.core_error) = middle_half(iops), middle_half(per_core)

    def fields(self, name):
        """For a line of the report."""
        return {name: round(self.mean, 4), "error": round(self.error, 4), f"core_{name}": round(self.core_mean, 4), "core_error": round(self.core_error, 4)}

    def cells(self):
        """For a row of a table."""
        return [f"{value:.4f}" for value in (self.mean, self.error, self.core_mean, self.core_error)]


def compare(server, slices, seconds, words, beside, nice=0):
    """`words`: the options of the load. `beside(True)` and `beside(False)` are context managers, which last as long as the load."""
    pid, core = server.process.pid, server.rpc("framework_get_reactors")["reactors"][0]["tid"]
    ratios, core_ratios = [], []
    for number in range(slices):
        iops, per_core = {}, {}
        for with_it in (True, False) if number % 2 else (False, True):
            with beside(with_it):
                began = cpu_ns(pid, core)
                iops[with_it] = server.perf(seconds, *words, nice=nice)["total"]["iops"]
                per_core[with_it] = iops[with_it] * seconds * 1e9 / (cpu_ns(pid, core) - began)
        ratios.append(iops[True] / iops[False])
        core_ratios.append(per_core[True] / per_core[False])
    return Ratios(ratios, core_ratios)
