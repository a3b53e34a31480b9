#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
page - the reference page of the probes, from the tables.

    page.py           docs/probes.md, on standard output; `make probe-page` writes it, `make check` fails if it is not current
    page.py --c FILE  the same as a C string, for `fathom probe docs`
    page.py --states  docs/states.md, the state machines as drawings; by the same target
"""

import os
import re
import sys

import generate

SOURCES = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 3))
ENGINE = "fathom-engine"
HEAD = """\
# The probes of fathom-engine

<!-- Made from src/*/probes.def by src/base/observe/probe/page.py: `make probe-page`. -->

Each of these moments is a USDT probe of provider `fathom`, for bpftrace, perf, gdb, SystemTap and bcc. It is also a record in the
trace file, with the same name and arguments. `fathom probe list` shows the probes of a running engine, `fathom probe docs` prints
this page.

`arg0` is always the tick, as the trace has it: bit 0 is set where it was read for an earlier event. The tables list the arguments
after it, as `arg1`, `arg2` ... An argument named after a structure (`struct bdev_io *`) is its address; a string is the address of its
text, for bpftrace's `str()`; a function an address for `usym()`. Names and orders of the `nvmf_` probes are those that scripts for
SPDK's target expect.

The group is what `-e` and `fathom trace enable` take. Points of the `io` ring come with each I/O and are washed over first; all
others are rare and stay for long.
"""


STATES_HEAD = """\
# State machines

<!-- Made from src/*/probes.def by src/base/observe/probe/page.py: `make probe-page`. -->

Every state of Fathom's programs is changed by a function made from these tables, which checks the move, records it in the trace and
fires a probe. The drawings use Mermaid, which many viewers of Markdown render. A machine with too many moves for a drawing is shown as
a table of permitted moves. [probes.md](probes.md#states) has the numbers.
"""
MOVES_MAX = 36     # in a drawing; more are shown as a table


def modules():
    """The modules with a probes.def, in the order of the build."""
    text = open(os.path.join(SOURCES, "base", "observe", "meson.build")).read()
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


def drawing(machine, left_out=()):
    """A Mermaid drawing: the first state is the initial one, states without moves are final."""
    yield "```mermaid\nstateDiagram-v2"
    for label, _ in machine.states:
        if machine.texts[label]:
            text = machine.texts[label].replace(":", " -")
            yield f"    {label} : {label}\n    {label} : {text}"
    yield f"    [*] --> {machine.states[0][0]}"
    for label, moves in machine.states:
        yield from (f"    {label} --> {to}" for to in moves if to not in left_out)
        if not moves:
            yield f"    {label} --> [*]"
    yield "```"


def matrix(machine):
    labels = [label for label, _ in machine.states]
    yield "| from \\ to | " + " | ".join(labels) + " |\n" + "|---" * (len(labels) + 1) + "|"
    for label, moves in machine.states:
        yield f"| {label} | " + " | ".join("x" if to in moves else "" for to in labels) + " |"
    yield ""
    yield from (f"- **{label}**: {machine.texts[label]}" for label in labels if machine.texts[label])


def common(machine):
    """States that most others may move to: the drawing leaves out the arrows to them."""
    labels = [label for label, _ in machine.states]
    return [to for to in labels if sum(to in moves for _, moves in machine.states) > len(labels) / 2]


def picture(machine):
    moves = sum(len(moves) for _, moves in machine.states)
    if moves <= MOVES_MAX:
        return drawing(machine)
    ends = common(machine)
    drawn = sum(to not in ends for _, moves in machine.states for to in moves)
    if drawn > MOVES_MAX or len(ends) > len(machine.states) / 3:
        return matrix(machine)
    told = f"Not drawn: most states may also move to {', '.join(ends[:-1])} or {ends[-1]}; the table has every move."
    return [*drawing(machine, ends), "", told, "", *matrix(machine)]


def states_page(model):
    out = [STATES_HEAD]
    programs = {point.machine.name: group.program or ENGINE for group in model.groups.values() for point in group.points
                if point.machine}
    for program in (ENGINE, *[name for name in generate.PROGRAMS if name != ENGINE]):
        own = [machine for machine in model.machines.values() if programs.get(machine.name) == program]
        if own:
            out.append(f"## {program}\n")
        for machine in own:
            out.append(f"### {machine.name}\n")
            if machine.text:
                out.append(f"{machine.text}\n")
            out += [*picture(machine), ""]
    return "\n".join(out).rstrip("\n") + "\n"


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
        shown = model.groups_of(ENGINE)
        own = [group for group in model.groups_of(program) if group not in shown]
        if own:
            common = [group.name for group in model.groups_of(program) if group in shown]
            out.append(f"# The probes of {program}\n\nThose of {', '.join(common[:-1])} and {common[-1]} above, and:\n")
            for group in own:
                out += table(group, model)
    out.append("# States and enums\n\n## States")
    for machine in model.machines.values():
        out += states(machine)
    out.append("\n## Enums")
    for enum in model.enums.values():
        if enum.name not in model.machines:
            out.append(f"\n### {enum.name}\n\n| value | name |\n|---|---|")
            out += [f"| {value} | {label} |" for label, value in enum.values]
    return "\n".join(out) + "\n"


def main():
    if sys.argv[1:] == ["--states"]:
        sys.stdout.write(states_page(read()))
        return
    text = page(read())
    if len(sys.argv) == 3 and sys.argv[1] == "--c":
        lines = "\n".join(f"\t{generate.literal(line + chr(10))}" for line in text.splitlines())
        with open(sys.argv[2], "w") as file:
            file.write(f"{generate.BANNER}\n#include \"cmd/fathom/probe/probe.h\"\n\nconst char probe_page[] =\n{lines};\n")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    try:
        main()
    except (generate.DefError, OSError) as error:
        sys.exit(f"page.py: {error}")
