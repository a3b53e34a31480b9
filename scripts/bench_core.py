# SPDX-License-Identifier: BSD-2-Clause
"""
bench_core - `fathom core` on the core of an engine with 10,000 block devices, beside gdb's fathom_print_bdevs on the same core, as a ratio.

Start-up is a run that reads the layout of the program but only a list of three rows. Figures are CPU time and elapsed time of the whole
process, the smallest of several runs; standard output is a pipe.
"""

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

COUNT, RUNS, GDB_RUNS = 10000, 20, 3


def smallest(*command, runs=RUNS):
    """(CPU ms, elapsed ms) of the fastest run, and the output of the last."""
    cpu, elapsed, output = [], [], ""
    for _ in range(runs):
        before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        output = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd="/").stdout
        elapsed.append(time.monotonic() - begin)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(cpu) * 1000, min(elapsed) * 1000, output


def make_core(build, directory):
    sock, config = os.path.join(directory, "s.sock"), os.path.join(directory, "config.json")
    calls = ",".join(f'{{"method":"bdev_null_create","params":{{"name":"Null{i}","num_blocks":1024,"block_size":512}}}}' for i in range(COUNT))
    with open(config, "w") as f:
        f.write(f'{{"subsystems":[{{"subsystem":"bdev","config":[{calls}]}}]}}')
    engine = subprocess.Popen([os.path.join(build, "bin", "fathom-engine"), "-r", sock, "--name", "bench-core", "-c", config], cwd=directory,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    fathom = os.path.join(build, "bin", "fathom")
    end = time.monotonic() + 120
    while subprocess.run([fathom, "rpc", "-s", sock, "spdk_get_version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        if time.monotonic() > end or engine.poll() is not None:
            engine.kill()
            sys.exit("the engine did not start")
        time.sleep(0.1)
    most = resource.prlimit(engine.pid, resource.RLIMIT_CORE)[1]
    resource.prlimit(engine.pid, resource.RLIMIT_CORE, (most, most))
    engine.send_signal(signal.SIGSEGV)
    engine.wait()
    return next((os.path.join(directory, name) for name in os.listdir(directory) if name.startswith("core")), None)


def inside(build, core):
    """{what: ms} of the parts of inspect/core, the smallest of ten runs in one process."""
    bench = os.path.join(build, "bench", "core-bench")
    if not os.path.exists(bench):
        return {}
    words = subprocess.run([bench, core], stdout=subprocess.PIPE, text=True, check=True).stdout
    return {name: float(value) for name, value in re.findall(r"(open|layout|walk) [a-z0-9 ]*?([\d.]+) ms", words)}


def measure(build, core):
    """{what: (CPU ms, elapsed ms)}; what is beside a start-up is what comes on top of it."""
    fathom, found = os.path.join(build, "bin", "fathom"), {}
    found["start"] = smallest(fathom, "core", core, "reactors")
    found["table"] = smallest(fathom, "core", core, "devices")
    found["json"] = smallest(fathom, "core", "--json", core, "devices")
    found["everything"] = smallest(fathom, "core", core)
    if f"devices: {COUNT}\n" not in found["table"][2] or found["json"][2].count('"block_bytes"') != COUNT:
        sys.exit("the list is not complete")
    if shutil.which("gdb"):
        gdb = ["gdb", "-q", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-iex", "add-auto-load-safe-path /", os.path.join(build, "bin", "fathom-engine"), core]
        found["gdb start"] = smallest(*gdb, "-ex", "fathom_print_reactors", runs=GDB_RUNS)
        found["gdb table"] = smallest(*gdb, "-ex", "fathom_print_bdevs", runs=GDB_RUNS)
        if not re.search(rf"(?m)^{COUNT} bdevs$", found["gdb table"][2]):
            sys.exit("gdb's list is not complete")
    for of, start in (("table", "start"), ("json", "start"), ("gdb table", "gdb start")):
        if of in found:
            found[of] = tuple(found[of][i] - found[start][i] for i in range(2))
    return {what: values[:2] for what, values in found.items()}


ROWS = (("start", "fathom core: start-up with the program's layout", "gdb start"), ("table", f"fathom core: {COUNT} devices as a table, beyond it", "gdb table"),
        ("json", f"fathom core: {COUNT} devices as JSON, beyond it", "gdb table"), ("everything", "fathom core: everything", None),
        ("gdb start", "gdb: start-up", None), ("gdb table", f"gdb: {COUNT} devices, beyond it", None))


def bench_core(build, report):
    directory = tempfile.mkdtemp(prefix="fathom-bench-core-")
    try:
        core = make_core(build, directory)
        if not core:
            print("  core: the kernel writes no core here (core_pattern, limit)", file=sys.stderr)
            return
        parts, found = inside(build, core), measure(build, core)
    finally:
        shutil.rmtree(directory)
    report.line(bench="core", elements=COUNT, inside_ms=parts, cpu_ms={what: round(value[0], 3) for what, value in found.items()},
                elapsed_ms={what: round(value[1], 3) for what, value in found.items()})
    rows = [[f"inspect/core: {what}", f"{value:.2f}", "", ""] for what, value in parts.items()]
    for what, text, peer in ROWS:
        if what in found:
            ratio = f"{found[peer][0] / found[what][0]:.0f}" if peer in found and found[what][0] > 0 else ""
            rows.append([text, f"{found[what][0]:.1f}", f"{found[what][1]:.1f}", ratio])
    report.table("A core with 10,000 block devices (CPU ms, elapsed ms; gdb's CPU time divided by ours)", ["what", "CPU", "elapsed", "gdb / ours"], rows)
