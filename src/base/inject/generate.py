#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
generate - turn points.def into an enum, its table and a page.

    generate.py --built 0|1 --outdir DIR DEF    points.gen.h, points_table.gen.inc
    generate.py --page DEF                      docs/fault-injection.md, on standard output; `make inject-page` writes it
    generate.py --check DEF                     each point has a call in its folder, and each call a point

An error names file and line, and no file is written.
"""

import errno
import glob
import os
import re
import sys

ACTIONS = ("fail", "delay", "crash", "hang")
NAME = re.compile(r"^[a-z][a-z0-9_]*$")
ROW = re.compile(r"^point (\w+) ([\w/]+) may ((?:\w+ ?)+)$")
CALL = re.compile(r"\binject(_wait)?\(INJECT_([A-Z0-9_]+)\)")
SRC = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = """\
# Faults on purpose

<!-- Made from src/base/inject/points.def by src/base/inject/generate.py: `make inject-page`. -->

Code for a full disk, a slow helper or a crash in the middle of a change runs rarely. Fault injection makes it run when you want: at named points a
program fails, waits, crashes or hangs, as a rule says. Use it in tests and on systems without data that matters.

## Which builds have it

The meson option `fault_injection` is `auto`, `true` or `false`. With `auto`, a build has the points if it also builds the tests (`-Dtests=true`, the
default). Packages and `make install` have none. `fathom-server version` and `--version` of the other daemons print `fault injection` if the program
has the points. In a build with them a point does nothing until it gets a rule.

A program without the points refuses rules: the key `inject` stops the start of the server with a message, calls fail, and FATHOM_INJECT has no effect.
`test/unit/base/inject/test_absent.c` tries each point and action in such a build.

## Rules

    POINT=ACTION[:VALUE][,skip=N][,count=N]

| action | effect |
|---|---|
| `fail`, `fail:ENOSPC` | the call at the point fails with the error of the table, or with this one |
| `delay:500ms` | it waits, at most 60 s, then continues; a reactor that waits serves nothing else |
| `crash` | the process aborts, which leaves a core, the trace file and its second name, as after a bug |
| `hang` | the thread waits until the rule is removed, or until the program stops |

`skip=N` lets the first N passes through. `count=N` removes the rule after N effects. Rules are in memory only: the next process has none.

Each effect is a line of the log at the level WARNING, and a record `inject_fired` in the trace. A list shows for each point how often it was passed,
how often a rule had an effect, the rule and since when it holds.

| where | how |
|---|---|
| a running engine | `fathom rpc fault_inject POINT ACTION --count 1`, `fault_clear`, `fault_get_points` |
| a running server | `fathom server faults --arm db_write=fail,count=1`, `fathom server faults --clear all`, `fathom server faults` |
| a server, from its start | `inject: [\"db_write=fail,count=1\"]` in `fathom_server.yml` |
| an engine under a server, from its start | `env_vars: [\"FATHOM_INJECT=state_write=hang\"]` of the engine in `fathom_server.yml` |
| any daemon, from its start | the environment: `FATHOM_INJECT=\"db_write=fail,count=1 helper_call=delay:2s\"` |

Block devices have faults of their own: `fathom rpc bdev_error_inject_error` makes single I/Os fail, wait or return wrong data, in every build.

## Points

| point | where | what the program is about to do | actions | error |
|---|---|---|---|---|
"""
PAGE_END = """
`test/system/test_points.py` fires each point of this table in a real program, with each of its actions.

To add a point, add a row to `src/base/inject/points.def`, call `inject()` where its row says, and run `make inject-page`. A call costs a lock: a point
belongs where a system call costs more, never on the path of an I/O.
"""


class DefError(Exception):
    pass


class Point:
    def __init__(self, where, name, folder, may):
        self.where, self.name, self.folder, self.may = where, name, folder, may
        self.error = self.at = None


def read(path):
    points = []
    for number, line in enumerate(open(path), 1):
        line, where = line.split("#", 1)[0].strip(), f"{path}:{number}"
        if not line:
            continue
        word, _, rest = line.partition(" ")
        row = ROW.match(line)
        if row:
            point = Point(where, row[1], row[2], row[3].split())
            if not NAME.match(point.name) or any(point.name == other.name for other in points):
                raise DefError(f"{where}: `{point.name}` is not a name, or stands twice")
            if not os.path.isdir(os.path.join(SRC, point.folder)):
                raise DefError(f"{where}: there is no folder src/{point.folder}")
            if set(point.may) - set(ACTIONS):
                raise DefError(f"{where}: an action is one of {', '.join(ACTIONS)}")
            points.append(point)
        elif word == "error" and points:
            if not hasattr(errno, rest):
                raise DefError(f"{where}: `{rest}` is not an errno")
            points[-1].error = rest
        elif word == "at" and points:
            points[-1].at = rest
        else:
            raise DefError(f"{where}: write point, error or at")
    for point in points:
        if not point.at:
            raise DefError(f"{point.where}: {point.name} has no row `at`")
        if ("fail" in point.may) != bool(point.error):
            raise DefError(f"{point.where}: {point.name} has `fail` or a row `error`, but not both")
    return points


def header(points, built):
    lines = "".join(f"\tINJECT_{point.name.upper()},\n" for point in points)
    return ("/* Generated from points.def by generate.py. */\n#ifndef BASE_INJECT_POINTS_GEN_H\n#define BASE_INJECT_POINTS_GEN_H\n\n"
            f"/* Libraries for other programs have no points: they are compiled with FAULT_INJECTION_ABSENT. */\n"
            f"#if {built} && !defined(FAULT_INJECTION_ABSENT)\n#define FAULT_INJECTION 1\n#else\n#define FAULT_INJECTION 0\n#endif\n\n"
            f"enum inject_point {{\n{lines}\tINJECT_POINTS,\n}};\n\n#endif\n")


def table(points):
    rows = []
    for point in points:
        may = " | ".join(f"BIT(INJECT_{action.upper()})" for action in point.may)
        name, number = (f'"{point.error}"', point.error) if point.error else ("NULL", "0")
        rows.append(f'[INJECT_{point.name.upper()}] = {{ "{point.name}", "{point.folder}", "{point.at}", {name}, {number}, {may} }},\n')
    return "".join(rows)


def page(points):
    rows = "".join(f"| `{point.name}` | `src/{point.folder}` | {point.at} | {', '.join(point.may)} | {point.error or ''} |\n" for point in points)
    return PAGE + rows + PAGE_END


def problems(points):
    calls = {}
    for path in sorted(glob.glob(os.path.join(SRC, "**", "*.c"), recursive=True)):
        for wait, name in CALL.findall(open(path, errors="replace").read()):
            calls.setdefault(name.lower(), []).append((os.path.relpath(path, SRC), bool(wait)))
    for point in points:
        found = calls.pop(point.name, [])
        if not found:
            yield f"{point.where}: no inject(INJECT_{point.name.upper()}) in src/{point.folder}"
        for path, wait in found:
            if os.path.dirname(path) != point.folder:
                yield f"src/{path}: the point {point.name} is of src/{point.folder} (src/base/inject/points.def)"
            if wait == ("fail" in point.may):
                yield f"src/{path}: inject_wait() is for points that cannot fail, inject() for the others: {point.name}"
    for name in calls:
        yield f"src/{calls[name][0][0]}: src/base/inject/points.def has no point {name}"


def main():
    words = sys.argv[1:]
    try:
        points = read(words[-1])
    except DefError as error:
        sys.exit(str(error))
    if words[0] == "--page":
        print(page(points), end="")
    elif words[0] == "--check":
        found = list(problems(points))
        print("\n".join(found) if found else f"points of fault injection: {len(points)}")
        sys.exit(1 if found else 0)
    else:
        outdir = words[words.index("--outdir") + 1]
        with open(os.path.join(outdir, "points.gen.h"), "w") as file:
            file.write(header(points, words[words.index("--built") + 1]))
        with open(os.path.join(outdir, "points_table.gen.inc"), "w") as file:
            file.write(table(points))


main()
