#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
page - the reference page of the probes, from the tables.

    page.py           docs/probes.md, on standard output; `make probe-page` writes it, `make check` says when it is not current
    page.py --c FILE  the same as a C string, for `fathom probe docs`
"""

import os
import re
import sys

import generate

SOURCES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ENGINE = "fathom-engine"
HEAD = """\
# The probes of fathom-engine

<!-- Made from src/*/probes.def by src/observe/probe/page.py: `make probe-page`. -->

Each of these moments is a USDT probe of provider `fathom`, for bpftrace, perf, gdb, SystemTap and bcc, and a record in the trace
file, by the same name and with the same arguments. `fathom probe list` shows the same for a running engine, `fathom probe docs`
prints this page.

`arg0` is always the tick, as the trace has it: bit 0 is set where it was read for an earlier event. What follows it stands in the
tables, as `arg1`, `arg2` ... An argument named after a structure (`struct bdev_io *`) is its address; a string is the address of its
text, for bpftrace's `str()`; a function an address for `usym()`. Names and orders of the `nvmf_` probes are those that scripts for
SPDK's target expect.

The group is what `-e` and `fathom trace enable` take. Points of the `io` ring come with each I/O and are washed over first; all
others are rare and stay for long.
"""


def modules():
    """In the order of the build."""
    text = open(os.path.join(SOURCES, "observe", "meson.build")).read()
    return re.findall(r"'([\w/]+)'", re.search(r"probe_modules = \[(.*?)\]", text, re.S).group(1))


def read():
    model = generate.Model(generate.FATHOM)
    for module in modules():
        model.read(module, os.path.join(SOURCES, module, "probes.def"))
    model.link()
    return model


def words_of(arg, model):
    unit = f" in {arg.unit}" if arg.unit not in ("", "count") else ""
    if arg.kind == "enum":
        return f"`{arg.name}` [{arg.enum}](#{arg.enum})"
    if arg.kind == "obj":
        return f"`{arg.name}` struct {model.objects[arg.object].struct} *"
    kind = {"str": "string", "ref": "struct trace_object *", "ptr": "pointer"}.get(arg.kind, arg.kind)
    return f"`{arg.name}` {kind}{unit}"


def arguments(point, model):
    known = {arg.name: words_of(arg, model) for arg in point.args}
    if point.object:
        known["object"] = f"struct {model.objects[point.object].struct} *"
    return "<br>".join(f"arg{number} {known[name]}" for number, name in enumerate(point.usdt, 1)) or "-"


def about(point):
    text = [point.text] if point.text else []
    if point.moves:
        text.append(f"Moves `{point.object}` to {point.moves}.")
    elif point.machine:
        text.append(f"A move of `{point.object}` from state to state.")
    if point.ring == "io":
        text.append("Ring `io`.")
    return " ".join(text)


def states(machine):
    yield f"\n### {machine.name}\n"
    if machine.text:
        yield f"{machine.text}\n"
    yield "| number | state | meaning | may move to |\n|---|---|---|---|"
    for number, (label, moves) in enumerate(machine.states):
        resting = "rests: " if label in machine.resting else ""
        yield f"| {number} | {label} | {resting}{machine.texts[label] or ''} | {', '.join(moves)} |"


def table(group, model):
    return [f"## {group.name}: {group.text}\n", "| probe | arguments | |", "|---|---|---|",
            *(f"| `{point.name}` | {arguments(point, model)} | {about(point)} |" for point in group.points), ""]


def page(model):
    for point in model.points.values():
        if not point.text and not point.machine:
            raise generate.DefError(f"{point.where}: `{point.name}` has no sentence: write it in a comment above the row")
    out = [HEAD]
    for group in model.groups_of(ENGINE):
        out += table(group, model)
    for program in generate.PROGRAMS:
        own = [group for group in model.groups.values() if group.program == program != ENGINE]
        if own:
            common = [group.name for group in model.groups.values() if not group.program]
            out.append(f"# The probes of {program}\n\nThose of {', '.join(common[:-1])} and {common[-1]} above, and:\n")
            for group in own:
                out += table(group, model)
    out.append("# States and enums\n\n## States")
    for machine in model.machines.values():
        out += states(machine)
    out.append("\n## Enums")
    for enum in model.enums.values():
        if enum.name not in model.machines:
            out.append(f"\n### {enum.name}\n")
            out.append(", ".join(f"{value} {label}" for label, value in enum.values))
    return "\n".join(out) + "\n"


def main():
    text = page(read())
    if len(sys.argv) == 3 and sys.argv[1] == "--c":
        lines = "\n".join(f"\t{generate.literal(line + chr(10))}" for line in text.splitlines())
        with open(sys.argv[2], "w") as file:
            file.write(f"{generate.BANNER}\n#include \"cmd/fathom/probe.h\"\n\nconst char probe_page[] =\n{lines};\n")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    try:
        main()
    except (generate.DefError, OSError) as error:
        sys.exit(f"page.py: {error}")
