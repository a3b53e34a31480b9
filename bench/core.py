#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
core - `fathom core` on the core of an engine with 10,000 block devices, beside gdb's fathom_print_bdevs in the same run.

Start-up is a run that reads the layout of the program but only a list of three rows. Figures are CPU time and elapsed time of the whole
process, the smallest of several runs.
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

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BIN = os.environ.get("FATHOM_BIN", os.path.join(TOP, "build", "bin"))
COUNT, RUNS = 10000, 10


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


def make_core(directory):
    sock, config = os.path.join(directory, "s.sock"), os.path.join(directory, "config.json")
    calls = ",".join(f'{{"method":"bdev_null_create","params":{{"name":"Null{i}","num_blocks":1024,"block_size":512}}}}' for i in range(COUNT))
    with open(config, "w") as f:
        f.write(f'{{"subsystems":[{{"subsystem":"bdev","config":[{calls}]}}]}}')
    engine = subprocess.Popen([os.path.join(BIN, "fathom-engine"), "-r", sock, "--name", "bench-core", "-c", config], cwd=directory,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    fathom = os.path.join(BIN, "fathom")
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


def main():
    fathom, directory = os.path.join(BIN, "fathom"), tempfile.mkdtemp(prefix="fathom-bench-core-")
    try:
        core = make_core(directory)
        if not core:
            sys.exit("the kernel writes no core here (core_pattern, limit)")
        start = smallest(fathom, "core", core, "reactors")
        listed = smallest(fathom, "core", core, "devices")
        as_json = smallest(fathom, "core", "--json", core, "devices")
        everything = smallest(fathom, "core", core)
        if f"devices: {COUNT}\n" not in listed[2] or as_json[2].count('"block_bytes"') != COUNT:
            sys.exit("the list is not complete")
        bench = os.path.join(os.path.dirname(BIN), "bench", "core-bench")
        if os.path.exists(bench):
            print(subprocess.run([bench, core], stdout=subprocess.PIPE, text=True, check=True).stdout, end="")
        print(f"fathom core, start-up with the program's layout     {start[0]:8.1f} ms CPU  {start[1]:8.1f} ms")
        print(f"fathom core, {COUNT} devices as a table, beyond it   {listed[0] - start[0]:8.1f} ms CPU  {listed[1] - start[1]:8.1f} ms")
        print(f"fathom core, {COUNT} devices as JSON, beyond it      {as_json[0] - start[0]:8.1f} ms CPU  {as_json[1] - start[1]:8.1f} ms")
        print(f"fathom core, everything                             {everything[0]:8.1f} ms CPU  {everything[1]:8.1f} ms")
        if shutil.which("gdb"):
            gdb = ["gdb", "-q", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-iex", "add-auto-load-safe-path /", os.path.join(BIN, "fathom-engine"), core]
            begin = smallest(*gdb, "-ex", "fathom_print_reactors", runs=3)
            walked = smallest(*gdb, "-ex", "fathom_print_bdevs", runs=3)
            if not re.search(rf"(?m)^{COUNT} bdevs$", walked[2]):
                sys.exit("gdb's list is not complete")
            print(f"gdb, start-up                                       {begin[0]:8.1f} ms CPU  {begin[1]:8.1f} ms")
            print(f"gdb, {COUNT} bdevs, beyond it                        {walked[0] - begin[0]:8.1f} ms CPU  {walked[1] - begin[1]:8.1f} ms")
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
