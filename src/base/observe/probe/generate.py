#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
generate - generates C code and schema from probes.def: each row defines one probe completely. Installed as fathom-probes.

    fathom-probes --provider NAME [--outdir DIR] DEF...

writes the sources for a program that links libfathom-trace:
    NAME_probes.h   its inline probe and move functions, ids, and `NAME_schema` for trace_open()
    NAME_states.h   its enums and state machines; no dependencies
    NAME_probes.c   the schema

    generate.py --srcdir DIR... --module MODULE --outdir DIR DEF...

is for Fathom itself. Each call reads all probes.def files, because ids are assigned across them in the order given. For a
MODULE with a DEF it writes:
    states.gen.h    its enums and state machines; no dependencies, so doors may include it
    probes.gen.h    its inline probe and move functions
and for the MODULE `base/observe/trace`:
    points.gen.h    ids of points, object types and owner types
    schema.gen.c    groups and points for the masks; the schema as JSON, for the trace file

docs/formats/probes.md describes the rows. An error names file and line; no file is written in that case.
"""

import argparse
import copy
import json
import os
import re
import sys

# type: (C type, bytes in the record, printed as, machine type in the schema)
SCALARS = {
    "u8": ("uint8_t", 4), "u16": ("uint16_t", 4), "u32": ("uint32_t", 4), "u64": ("uint64_t", 8),
    "i32": ("int32_t", 4), "i64": ("int64_t", 8), "bool": ("bool", 4),
    "hex8": ("uint8_t", 4), "hex16": ("uint16_t", 4), "hex32": ("uint32_t", 4), "hex64": ("uint64_t", 8),
    "ptr": ("const void *", 8), "function": ("const void *", 8),
}
UNITS = {"", "ticks", "ns", "us", "ms", "bytes", "blocks", "count"}
SLOTS_HEAD = 3
SLOTS_LONG_MAX = 3 + 3 * 4
STATES_MAX = 11
USDT_ARGS_MAX = 12
NAME = re.compile(r"^[a-z][a-z0-9_]*$")
STATE = re.compile(r'^(\w+)(?: (\w+))?(?: "([ -!#-\[\]-~]*)")?:(.*)$')


class DefError(Exception):
    pass


class Arg:
    def __init__(self, text, model):
        words = text.split()
        kind = words.pop(0) if words else ""
        self.unit = self.enum = self.object = None
        self.expression = None  # C expression of the value, if it is not a parameter
        if kind in ("enum", "obj"):
            if len(words) != 2:
                raise DefError(f"argument `{text}`: write `{kind} TYPE name`")
            setattr(self, "enum" if kind == "enum" else "object", words.pop(0))
        elif kind not in ("str", "ref") and kind not in SCALARS:
            raise DefError(f"argument `{text}`: no type `{kind}`")
        if len(words) != 1:
            raise DefError(f"argument `{text}`: one type and one name")
        self.kind = kind
        self.name, _, self.unit = words[0].partition(":")
        if not NAME.match(self.name):
            raise DefError(f"argument `{text}`: `{self.name}` is not a name")
        if self.unit not in UNITS:
            raise DefError(f"argument `{text}`: unit `{self.unit}` is none of {' '.join(sorted(UNITS))}")

    @property
    def slots(self):
        return SCALARS[self.kind][1] // 4 if self.kind in SCALARS else 1

    def parameter(self, model):
        if self.kind == "enum":
            return f"enum {self.enum} {self.name}"
        if self.kind == "str":
            return f"const struct trace_istr *{self.name}"
        if self.kind == "obj":
            return f"const struct {model.objects[self.object].struct} *{self.name}"
        if self.kind == "ref":
            return f"const struct trace_object *{self.name}"
        ctype = SCALARS[self.kind][0]
        return f"{ctype}{'' if ctype.endswith('*') else ' '}{self.name}"

    def words(self, model):
        """The expressions of its record slots."""
        if self.expression:
            return [self.expression]
        if self.kind == "str":
            return [f"{self.name}->id"]
        if self.kind == "obj":
            return [f"{self.name} ? {self.name}->{model.objects[self.object].id}.id : UINT32_MAX"]
        if self.kind == "ref":
            return [f"trace_ref({self.name})"]
        value = {"ptr": f"(uintptr_t){self.name}", "function": f"trace_place({self.name})"}.get(self.kind, self.name)
        if self.slots == 2:
            return [f"(uint32_t)(uint64_t){value}", f"(uint32_t)((uint64_t){value} >> 32)"]
        return [f"(uint32_t){value}"]

    def usdt(self):
        if self.expression:
            return self.expression
        return f"&{self.name}->text[0]" if self.kind == "str" else self.name

    def schema(self, slot):
        row = {"name": self.name, "type": {"enum": "u32", "function": "ptr"}.get(self.kind, self.kind), "slot": slot}
        for key in ("unit", "enum", "object"):
            if getattr(self, key):
                row[key] = getattr(self, key)
        if self.kind == "function":
            row["function"] = True
        return row


def args_schema(args):
    rows, slot = [], 0
    for arg in args:
        rows.append(arg.schema(slot))
        slot += arg.slots
    return rows


class Row:
    """Something declared at a place in a file."""

    def __init__(self, **fields):
        self.__dict__.update(fields)


class Model:
    def __init__(self, provider):
        self.provider = provider
        self.groups, self.objects, self.owners, self.enums = {}, {}, {}, {}
        self.machines, self.points, self.modules = {}, {}, []

    # ---- reading ----

    def read(self, directory, path):
        module = Row(directory=directory, includes=[], enums=[], machines=[], points=[], path=path)
        self.modules.append(module)
        group, comment = None, []
        with open(path) as file:
            lines = iter(list(enumerate(file, 1)))
        for number, line in lines:
            line, hash_sign, words = map(str.strip, line.partition("#"))
            if not line:
                comment = comment + [words] if hash_sign else []
                continue
            self.comment, comment = " ".join(comment), []
            while (("{" in line and "}" not in line) or line.endswith("\\")):
                try:
                    more = next(lines)[1].split("#", 1)[0].strip()
                except StopIteration:
                    raise DefError(f"{path}:{number}: this row never ends") from None
                line = line[:-1] + " " + more if line.endswith("\\") else line + "\n" + more
            self.where = f"{path}:{number}"
            try:
                word, _, rest = line.partition(" ")
                rest = rest.strip()
                if word == "group":
                    group = self.group(rest)
                elif word == "include":
                    module.includes.append(rest.strip('"'))
                elif word in ("object", "owner", "enum"):
                    getattr(self, word)(module, rest)
                elif word in ("probe", "machine"):
                    if not group:
                        raise DefError("no group row above")
                    getattr(self, word)(module, group, rest)
                else:
                    raise DefError(f"no such row `{word}`")
            except DefError as error:
                raise DefError(f"{path}:{number}: {error}") from None

    @staticmethod
    def attributes(text, allowed):
        """`name key=value ...` -> (name, {key: value})"""
        words = text.split()
        if not words or not NAME.match(words[0]):
            raise DefError(f"`{text}` does not begin with a name")
        pairs = {}
        for word in words[1:]:
            key, equals, value = word.partition("=")
            if not equals or key not in allowed:
                raise DefError(f"`{word}`: expected one of {', '.join(a + '=' for a in sorted(allowed))}")
            pairs[key] = value
        return words[0], pairs

    def fresh(self, table, name, row):
        if name in table:
            raise DefError(f"`{name}` is declared twice")
        row.where = self.where
        table[name] = row
        return row

    def group(self, text):
        head, _, title = text.partition('"')
        name, pairs = self.attributes(head, {"program"} if self.provider == FATHOM else set())
        program = pairs.get("program")
        if program is not None and not set(program.split(",")) <= set(PROGRAMS):
            raise DefError(f"program={program}: there are {', '.join(PROGRAMS)}")
        row = Row(name=name, text=title.strip().rstrip('"'), program=program, points=[])
        known = self.groups.get(name)
        if known and known.program != program:
            raise DefError(f"group `{name}` was of {known.program or 'every program'} above")
        return known or self.fresh(self.groups, name, row)

    @staticmethod
    def prefix(table, name, pairs):
        """The letters that mark a type of ids in output, as in `i435`; they must be unique."""
        prefix = pairs.get("prefix", name[0])
        if not re.fullmatch("[A-Za-z]{1,2}", prefix):
            raise DefError(f"`{name}`: prefix={prefix} is not one or two letters")
        for other in table.values():
            if other.prefix == prefix:
                raise DefError(f"`{name}`: prefix={prefix} is that of `{other.name}`")
        return prefix

    def object(self, _module, text):
        name, pairs = self.attributes(text, {"prefix", "struct", "id", "story", "with"})
        story = pairs.get("story")
        self.fresh(self.objects, name, Row(name=name, index=len(self.objects) + 1,
                                           prefix=self.prefix(self.objects, name, pairs),
                                           struct=pairs.get("struct", name), id=pairs.get("id", f"{story}.trace" if story else "trace"),
                                           story=story, also=pairs.get("with"), machine=None,
                                           story_args=[]))

    def owner(self, _module, text):
        name, pairs = self.attributes(text, {"prefix"})
        self.fresh(self.owners, name, Row(name=name, index=len(self.owners) + 1,
                                          prefix=self.prefix(self.owners, name, pairs)))

    def enum(self, module, text):
        head, brace, body = text.partition("{")
        if not brace:
            raise DefError("an enum has a body: enum NAME prefix=P_ { A=0 B C }")
        name, pairs = self.attributes(head, {"prefix"})
        values, following = [], 0
        for word in body.rstrip("}").replace(",", " ").split():
            label, _, number = word.partition("=")
            following = int(number, 0) if number else following
            values.append((label, following))
            following += 1
        row = Row(name=name, prefix=pairs.get("prefix", name.upper() + "_"), values=values)
        module.enums.append(self.fresh(self.enums, name, row))

    def arguments(self, text):
        return [Arg(part.strip(), self) for part in text.split(",")] if text.strip() else []

    def point(self, module, group, name, pairs, args, machine):
        ring = pairs.get("ring", "rare")
        slots = sum(arg.slots for arg in args)
        if ring not in ("io", "rare"):
            raise DefError(f"ring={ring}: io or rare")
        if slots > (SLOTS_HEAD if ring == "io" else SLOTS_LONG_MAX):
            raise DefError(f"`{name}`: {slots * 4} bytes of arguments are too many for the {ring} ring")
        if len(args) + 2 > USDT_ARGS_MAX:
            raise DefError(f"`{name}`: too many arguments for USDT")
        row = Row(name=name, group=group, ring=ring, object=pairs.get("object"), args=args, machine=machine,
                  moves=pairs.get("moves"), index=len(self.points) + 1, begins=False, slots=slots,
                  usdt=self.usdt_order(name, pairs, args), text="" if machine else self.comment)
        self.fresh(self.points, name, row)
        if len(group.points) == 64:
            raise DefError(f"group `{group.name}` has more than 64 points")
        group.points.append(row)
        module.points.append(row)
        return row

    @staticmethod
    def usdt_order(name, pairs, args):
        """The names of the USDT probe's arguments after the tick: those of usdt= first."""
        names = (["object"] if "object" in pairs else []) + [arg.name for arg in args]
        first = pairs["usdt"].split(",") if "usdt" in pairs else []
        for one in first:
            if one not in names or first.count(one) > 1:
                raise DefError(f"`{name}`: usdt={pairs['usdt']}: write some of {','.join(names)}, each once")
        return first + [one for one in names if one not in first]

    def probe(self, module, group, text):
        head, _, args = text.partition("args:")
        name, pairs = self.attributes(head, {"object", "ring", "moves", "usdt"})
        self.point(module, group, name, pairs, self.arguments(args), None)

    def machine(self, module, group, text):
        head, brace, body = text.partition("{")
        if not brace:
            raise DefError("a machine has a body with its states")
        head, _, story_args = head.partition("story-args:")
        name, pairs = self.attributes(head, {"object", "ring", "prefix", "field", "points", "records", "failed", "keep", "usdt"})
        states, resting, texts = [], set(), {}
        for line in filter(None, map(str.strip, body.rstrip("}").split("\n"))):
            match = STATE.match(line)
            if not match:
                raise DefError(f"state `{line}`: write STATE [resting] [\"what it means\"]: MOVE, MOVE")
            label, word, text, moves = match.groups()
            texts[label] = text
            if word not in (None, "resting"):
                raise DefError(f"state `{line}`: `{word}` is not `resting`")
            if word:
                resting.add(label)
            states.append((label, [m.strip() for m in moves.split(",") if m.strip()]))
        labels = [label for label, _ in states]
        for label, moves in states:
            for move in moves:
                if move not in labels:
                    raise DefError(f"state {label} may move to `{move}`, which is no state of {name}")
        row = Row(name=name, object=pairs.get("object"), prefix=pairs.get("prefix", name.upper() + "_"), states=states,
                  labels=labels, resting=resting, texts=texts, recorded=None, field=pairs.get("field"),
                  failed=pairs.get("failed", "false"), keep=pairs.get("keep", "true"),
                  own_points=pairs.get("points") == "own",
                  story_args=self.arguments(story_args), group=group, text=self.comment)
        if len(states) > 32:
            raise DefError(f"machine {name}: more than 32 states")
        self.fresh(self.machines, name, row)
        self.fresh(self.enums, name, Row(name=name, prefix=row.prefix, values=[(l, i) for i, l in enumerate(labels)]))
        module.machines.append(row)
        if not row.own_points:
            own, pairs = pairs, {key: value for key, value in pairs.items() if key in ("object", "ring", "usdt")}
            args = [Arg(f"enum {name} from", self), Arg(f"enum {name} to", self)]
            if "records" in own:
                args.append(self.recorded(row, own["records"]))
            self.point(module, group, name, pairs, args, row)

    @staticmethod
    def recorded(machine, name):
        """The story-arg `name`, as the third argument of each move."""
        slot = 0
        for arg in machine.story_args:
            if arg.name == name and arg.slots == 1:
                machine.recorded, machine.recorded_slot = copy.copy(arg), slot
                return machine.recorded
            slot += arg.slots
        raise DefError(f"records={name}: no story-arg of 4 bytes has this name")

    # ---- checking what needs the whole ----

    def link(self):
        for rows, check in ((self.machines, self.link_machine), (self.points, self.link_point)):
            for row in rows.values():
                try:
                    check(row)
                except DefError as error:
                    raise DefError(f"{row.where}: {error}") from None

    def link_machine(self, machine):
        owner = self.objects.get(machine.object)
        if not owner:
            raise DefError(f"machine {machine.name}: no object `{machine.object}`")
        if owner.machine and owner.story:
            raise DefError(f"object {owner.name} has two machines")
        if owner.story:
            if len(machine.states) > STATES_MAX:
                raise DefError(f"machine {machine.name}: a story holds {STATES_MAX} states")
            if sum(arg.slots for arg in machine.story_args) > 6:
                raise DefError(f"machine {machine.name}: more than 24 bytes of story-args")
            owner.machine, owner.story_args = machine, machine.story_args
            machine.field = machine.field or f"{owner.story}.state"
            if machine.recorded:
                machine.recorded.expression = f"object->{owner.story}.args[{machine.recorded_slot}]"
        elif machine.recorded:
            raise DefError(f"machine {machine.name}: records= of an object without a story")
        machine.field = machine.field or "state"
        self.link_args(machine.name, machine.story_args)

    def link_args(self, name, args):
        for arg in args:
            if arg.enum and arg.enum not in self.enums:
                raise DefError(f"{name}: no enum `{arg.enum}`")
            if arg.object and arg.object not in self.objects:
                raise DefError(f"{name}: no object `{arg.object}`")

    def link_point(self, point):
        if point.object and point.object not in self.objects:
            raise DefError(f"{point.name}: no object `{point.object}`")
        self.link_args(point.name, point.args)
        if point.moves:
            machine = self.objects[point.object].machine if point.object else None
            if not machine or point.moves not in machine.labels:
                raise DefError(f"{point.name}: moves={point.moves} is no state of its object's machine")
            point.machine = machine
            point.begins = point.moves in machine.states[0][1]

    # ---- writing ----

    def points_header(self):
        guard = "OBSERVE_TRACE_POINTS_GEN_H"
        return "\n".join([BANNER, f"#ifndef {guard}", f"#define {guard}", "", '#include "fathom/trace/schema.h"', "",
                          *self.ids(), "#endif", ""])

    def ids(self):
        schemas = [f"const struct trace_schema {name};" for name in self.programs()]
        out = ["#ifdef __cplusplus", *(f'extern "C" {schema}' for schema in schemas), "#else",
               *(f"extern {schema}" for schema in schemas), "#endif", "", "enum trace_point_id {"]
        out += [f"\tTRACE_POINT_{p.name.upper()} = {p.index}," for p in self.points.values()]
        out += [f"\tTRACE_POINT_COUNT = {len(self.points) + 1},", "};", "", "enum trace_object_type {"]
        out += [f"\tTRACE_OBJECT_{o.name.upper()} = {o.index}," for o in self.objects.values()]
        out += [f"\tTRACE_OBJECT_COUNT = {len(self.objects) + 1},", "};", "", "enum trace_owner_type {"]
        out += [f"\tTRACE_OWNER_{o.name.upper()} = {o.index}," for o in self.owners.values()]
        out += [f"\tTRACE_OWNER_COUNT = {len(self.owners) + 1},", "};", "", "enum trace_lives_place {"]
        out += [f"\tTRACE_LIVES_{o.name.upper()}," for o in self.told()]
        return out + ["\tTRACE_LIVES_COUNT,", "};", ""]

    def told(self):
        """The objects with a story: requests."""
        return [o for o in self.objects.values() if o.story]

    def programs(self):
        """{schema name: program}"""
        return {f"{self.provider}_schema": None} if self.provider != FATHOM else {name: program for program, name in PROGRAMS.items()}

    def groups_of(self, program):
        """The groups of `program` and those common to all programs; None: all groups."""
        return [g for g in self.groups.values() if program is None or not g.program or program in g.program.split(",")]

    def objects_of(self, program):
        """The objects of `program`: all except those that only points of other programs use."""
        mine, others = set(), set()
        for point in self.points.values():
            about = {point.object, *(arg.object for arg in point.args)}
            (mine if point.group in self.groups_of(program) else others).update(about)
        return [o for o in self.objects.values() if o.name in mine or o.name not in others]

    def schema(self, program=None):
        groups = self.groups_of(program)
        return {
            "schema": 1,
            "groups": [{"name": g.name, "text": g.text} for g in groups],
            "enums": {e.name: {str(value): label for label, value in e.values} for e in self.enums.values()},
            "objects": [self.object_schema(o) for o in self.objects_of(program)],
            "owners": [{"id": o.index, "name": o.name, "prefix": o.prefix} for o in self.owners.values()],
            "machines": [{"name": m.name, "object": m.object,
                          "states": [{"name": label, "moves": moves, **({"resting": True} if label in m.resting else {}),
                                      **({"text": m.texts[label]} if m.texts[label] else {})} for label, moves in m.states]}
                         for m in self.machines.values() if m.group in groups],
            "points": [self.point_schema(p) for p in self.points.values() if p.group in groups],
        }

    @staticmethod
    def object_schema(row):
        out = {"id": row.index, "name": row.name, "prefix": row.prefix}
        if row.machine:
            out["machine"] = row.machine.name
            out["story_args"] = args_schema(row.story_args)
        return out

    @staticmethod
    def point_schema(row):
        out = {"id": row.index, "name": row.name, "group": row.group.name, "ring": row.ring, "args": args_schema(row.args)}
        if row.object:
            out["object"] = row.object
        if row.usdt != Model.usdt_order(row.name, {"object": row.object} if row.object else {}, row.args):
            out["usdt"] = row.usdt
        if row.machine:
            out["machine"] = row.machine.name
        if row.moves:
            out["moves"] = row.moves
            out["begins"] = row.begins
        return out

    @staticmethod
    def table(schema, name, rows):
        """A C array; none without rows, because ISO C forbids empty arrays."""
        return [f"static const struct trace_schema_{name} {schema}_{name}_rows[] = {{", *(rows or ["\t{ 0 },"]), "};", ""]

    def schema_source(self, banner, head):
        out = [banner, *head, "",
               "#if defined(__GNUC__)", '#pragma GCC diagnostic ignored "-Woverlength-strings"', "#endif", ""]
        for name, program in self.programs().items():
            out += self.schema_tables(name, program)
        return "\n".join(out)

    def schema_tables(self, name, program):
        """Ids are the same in all programs: a point that this program lacks keeps its id and is in no group."""
        groups = self.groups_of(program)
        points = [f'\t{{ "{p.name}", {groups.index(p.group)}, {p.group.points.index(p)}, '
                  f'{self.objects[p.object].index if p.object else 0}, {"true" if p.ring == "io" else "false"} }},'
                  if p.group in groups else '\t{ "", UINT16_MAX, 0, 0, false },' for p in self.points.values()]
        rows = [f'\t{{ "{g.name}", {literal(g.text)}, {len(g.points)} }},' for g in groups]
        lives = [f'\t{{ {o.index}, "{o.name}", (const char *const[]){{ '
                 + "".join(f'"{label}", ' for label in (o.machine.labels if o.machine else [])) + "NULL } }," for o in self.told()]
        text = json.dumps(self.schema(program), separators=(",", ":"))
        out = [*self.table(name, "point", points), *self.table(name, "group", rows), *self.table(name, "lives", lives),
               f"static const char {name}_json[] ="]
        out += [f"\t{literal(text[at:at + 100])}" for at in range(0, len(text), 100)]
        return out + ["\t;", "", f"const struct trace_schema {name} = {{", "\t.abi = TRACE_ABI,",
                      f"\t.points = {name}_point_rows,", f"\t.groups = {name}_group_rows,", f"\t.lives = {name}_lives_rows,",
                      f"\t.json = {name}_json,", f"\t.point_count = {len(self.points)},",
                      f"\t.group_count = {len(groups)},", f"\t.lives_count = {len(self.told())},",
                      f"\t.object_count = {len(self.objects)},", f"\t.owner_count = {len(self.owners)},",
                      f"\t.json_bytes = sizeof({name}_json) - 1,", "};", ""]

    def states_header(self, module):
        guard = re.sub(r"[^A-Z0-9]", "_", module.directory.upper()) + "_STATES_GEN_H"
        return "\n".join([BANNER, f"#ifndef {guard}", f"#define {guard}", "", *self.states(module), "#endif", ""])

    def states(self, module):
        out = []
        for enum in module.enums + [self.enums[m.name] for m in module.machines]:
            out.append(f"enum {enum.name} {{")
            out += [f"\t{enum.prefix}{label} = {value}," for label, value in enum.values]
            out += ["};", "", f"static inline const char *{enum.name}_name(enum {enum.name} value)", "{",
                    "\tswitch (value) {"]
            out += [f'\tcase {enum.prefix}{label}:\n\t\treturn "{label}";' for label, _ in enum.values]
            out += ["\t}", '\treturn "?";', "}", ""]
        return out

    def probes_header(self, module):
        guard = re.sub(r"[^A-Z0-9]", "_", module.directory.upper()) + "_PROBES_GEN_H"
        out = [BANNER, f"#ifndef {guard}", f"#define {guard}", "", "#include <sys/sdt.h>", "",
               '#include "fathom/trace/life.h"', '#include "base/observe/trace/points.gen.h"',
               f'#include "{module.directory}/states.gen.h"']
        out += [f'#include "{name}"' for name in module.includes]
        return "\n".join(out + ["", *self.functions(module), "#endif", ""])

    def functions(self, module):
        out = []
        for machine in module.machines:
            rows = ", ".join(" | ".join(f"1u << {machine.labels.index(m)}" for m in moves) or "0"
                             for _, moves in machine.states)
            out += [f"static const uint32_t {machine.name}_may_move[] = {{ {rows} }};", ""]
        for point in module.points:
            out += self.generic_move(point) if point.machine and not point.moves else self.probe_function(point)
        return out

    # ---- for a program that links libfathom-trace ----

    def program_header(self, banner):
        guard = f"{self.provider.upper()}_PROBES_H"
        out = [banner, f"#ifndef {guard}", f"#define {guard}", "", "#include <fathom/trace/life.h>",
               "#include <fathom/trace/schema.h>", "#include <fathom/trace/trace.h>", "", f'#include "{self.provider}_states.h"']
        out += [f'#include "{name}"' for module in self.modules for name in module.includes]
        out += ["", PROGRAM_HEAD, *self.ids()]
        for module in self.modules:
            out += self.functions(module)
        out += [PROGRAM_TAIL]
        return "\n".join(out + ["#endif", ""])

    def program_states(self, banner):
        guard = f"{self.provider.upper()}_STATES_H"
        out = [banner, f"#ifndef {guard}", f"#define {guard}", ""]
        for module in self.modules:
            out += self.states(module)
        return "\n".join(out + ["#endif", ""])

    def enter(self, machine, to):
        """Statements that check a move from `from` and execute it."""
        owner = self.objects[machine.object]
        lines = [f"\tTRACE_MUST(({machine.name}_may_move[from] >> {to}) & 1);"]
        if owner.story:
            lines.append(f"\ttrace_story_enter(&object->{owner.story}, (uint8_t)from, (uint8_t){to}, now);")
        else:
            lines.append(f"\tobject->{machine.field} = {to};")
        return lines

    def emit(self, point, args):
        """Statements that record and fire."""
        words = [word for arg in args for word in arg.words(self)]
        owner, ident = "0", "UINT32_MAX"
        if point.object:
            path = self.objects[point.object].id
            owner, ident = f"object->{path}.owner", f"object->{path}.id"
        values = {"object": "object", **{arg.name: arg.usdt() for arg in args}}
        usdt = ["now", *(values[name] for name in point.usdt)]
        ring = "TRACE_RING_IO" if point.ring == "io" else "TRACE_RING_RARE"
        where = f"now, TRACE_POINT_{point.name.upper()}, {ring}, {owner}, {ident}"
        if len(words) <= SLOTS_HEAD:
            lines = [f"\ttrace_record({where}, {', '.join((words + ['0'] * SLOTS_HEAD)[:SLOTS_HEAD])});"]
        else:
            lines = [f"\tconst uint32_t slots[] = {{ {', '.join(words)} }};", "",
                     f"\ttrace_record_long({where}, slots, {len(words)});"]
        fire = f"\tSTAP_PROBE{len(usdt)}({self.provider}, {point.name}, {', '.join(usdt)});"
        return lines + ([fire] if self.provider == FATHOM else ["#ifdef STAP_PROBE", fire, "#endif"])

    def end(self, machine, point):
        """The statement that ends a life; empty for an object without a story."""
        owner = self.objects[machine.object]
        if not owner.story:
            return []
        also = f"&object->{owner.also}" if owner.also else "NULL"
        return [f"\t\ttrace_life_end(TRACE_LIVES_{owner.name.upper()}, &object->{owner.story}, {also}, {machine.failed}, "
                f"{machine.keep}, now);"]

    def generic_move(self, point):
        machine = point.machine
        struct = self.objects[machine.object].struct
        name = machine.name
        return [f"static inline void {name}_move(uint64_t now, struct {struct} *object, enum {name} to)", "{",
                f"\tenum {machine.name} from = (enum {machine.name})object->{machine.field};", "",
                *self.enter(machine, "to"), *self.emit(point, point.args), *self.when_free(machine, point, "to"), "}", ""]

    def when_free(self, machine, point, to):
        end = self.end(machine, point)
        condition = f"{to} == 0 && " if to == "to" else ""
        return [f"\tif ({condition}trace_wanted(TRACE_POINT_{point.name.upper()}))"] + end if end else []

    def probe_function(self, point):
        parameters = ["uint64_t now"]
        if point.object:
            const = "" if point.moves else "const "
            parameters.append(f"{const}struct {self.objects[point.object].struct} *object")
        parameters += [arg.parameter(self) for arg in point.args]
        out = [f"static inline void probe_{point.name}({', '.join(parameters)})", "{"]
        if point.moves:
            machine = point.machine
            to = f"{machine.prefix}{point.moves}"
            out += [f"\tenum {machine.name} from = (enum {machine.name})object->{machine.field};", "",
                    *self.enter(machine, to)]
        out += self.emit(point, point.args)
        if point.moves and point.moves == point.machine.labels[0]:
            out += self.when_free(point.machine, point, to)
        return out + ["}", ""]


FATHOM = "fathom"
# Fathom's own programs with a trace, by `program=` of a group, and their schemas.
PROGRAMS = {"fathom-agent": "fathom_agent_schema", "fathom-engine": "fathom_schema", "fathom-probed": "fathom_probed_schema",
            "fathom-server": "fathom_server_schema"}
BANNER = "/* SPDX-License-Identifier: BSD-2-Clause */\n/* Generated by src/base/observe/probe/generate.py from probes.def. */"
PROGRAM_HEAD = """\
/* USDT probes, where systemtap's header is: Debian has it in systemtap-sdt-dev. */
#if defined(__has_include)
#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#endif
#endif

/* The default of newer compilers: a wrong argument of a probe is an error, not a warning. */
#if defined(__GNUC__) && !defined(__cplusplus)
#pragma GCC diagnostic error "-Wincompatible-pointer-types"
#pragma GCC diagnostic error "-Wint-conversion"
#endif

#ifdef __clang__
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wgnu-zero-variadic-macro-arguments" /* in <sys/sdt.h> */
#endif
"""
PROGRAM_TAIL = """\
#ifdef __clang__
#pragma clang diagnostic pop
#endif
"""


def literal(text):
    """A C string literal, with '?' escaped because of trigraphs."""
    return json.dumps(text).replace("??", "?\\?")


def module_name(path, srcdirs):
    """The folder of `path`, relative to the innermost of `srcdirs` that contains it."""
    folder = os.path.dirname(os.path.abspath(path))
    tops = [top for top in map(os.path.abspath, srcdirs) if folder.startswith(top + os.sep)]
    if not tops:
        raise DefError(f"{path}: lies in none of {' '.join(srcdirs)}")
    return os.path.relpath(folder, max(tops, key=len))


def write(outdir, name, text):
    with open(os.path.join(outdir, name), "w") as file:
        file.write(text)


def generate(options):
    """For Fathom itself."""
    model = Model(FATHOM)
    for path in options.defs:
        model.read(module_name(path, options.srcdir), path)
    model.link()
    if options.module == "base/observe/trace":
        write(options.outdir, "points.gen.h", model.points_header())
        write(options.outdir, "schema.gen.c", model.schema_source(BANNER, ['#include "base/observe/trace/points.gen.h"']))
    for module in model.modules:
        if module.directory == options.module:
            write(options.outdir, "states.gen.h", model.states_header(module))
            write(options.outdir, "probes.gen.h", model.probes_header(module))


def generate_for_program(options):
    name = options.provider
    if not NAME.match(name) or name == FATHOM:
        raise DefError(f"--provider {name}: a name of your own, of small letters, digits and _")
    model = Model(name)
    for path in options.defs:
        model.read(name, path)
    model.link()
    banner = f"/* Generated by fathom-probes from {' '.join(map(os.path.basename, options.defs))}. */"
    source = model.schema_source(banner, ["#include <fathom/trace/schema.h>", "",
                                          f"extern const struct trace_schema {name}_schema;"])
    for ending, text in (("states.h", model.program_states(banner)), ("probes.h", model.program_header(banner)),
                         ("probes.c", source)):
        write(options.outdir, f"{name}_{ending}", text)


def offer_completions(parser, words):
    """Print the words that can replace the last word, as options_offer() of src/cmd/options/options.h."""
    word, before = (words or [""])[-1], words[-2:-1]
    shown = [action for action in parser._actions if action.option_strings and action.help != argparse.SUPPRESS]
    if before == ["--outdir"]:
        print("@folders")
    elif word.startswith("-"):
        for action in shown:
            for name in action.option_strings:
                if name.startswith(word) and (name.startswith("--") or name == word):
                    print(f"{name}\t{action.help}")
    elif before != ["--provider"]:
        print("@files")


def main():
    parser = argparse.ArgumentParser(
        usage="%(prog)s --provider NAME [--outdir DIR] DEF...", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Make C from tables of trace points, for a program that links libfathom-trace: NAME_probes.h, NAME_states.h\n"
                    "and NAME_probes.c. fathom-probes(1) shows a table and how to build with it.")
    parser.add_argument("--provider", metavar="NAME", help="of the USDT probes, of the files and of NAME_schema")
    parser.add_argument("--outdir", metavar="DIR", default=".", help="where to write them (default: here)")
    parser.add_argument("--srcdir", action="append", help=argparse.SUPPRESS)  # a module is named from here; the longest counts
    parser.add_argument("--module", help=argparse.SUPPRESS)
    parser.add_argument("defs", nargs="+", metavar="DEF", help="tables of points; ids run through them in the order given")
    if sys.argv[1:2] == ["--complete"]:  # asked by the scripts of `fathom completion`
        offer_completions(parser, sys.argv[2:])
        return
    options = parser.parse_args()
    if not options.provider and not (options.module and options.srcdir):
        parser.error("--provider is missing: the name of your program, such as --provider kitchen")
    try:
        (generate_for_program if options.provider else generate)(options)
    except (DefError, OSError) as error:
        sys.exit(f"{parser.prog}: {error}")


if __name__ == "__main__":
    main()
