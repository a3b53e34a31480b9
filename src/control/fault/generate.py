#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
generate - turn faults.def into functions with typed arguments, their table, samples for a test, and a page.

    generate.py --outdir DIR DEF    faults.gen.h, faults_table.gen.inc, faults_samples.gen.inc
    generate.py --page DEF          docs/faults.md, on standard output; `make fault-page` writes it, `make check` fails if it is out of date

An error names file and line, and no file is written: a fault without a resolution does not build.
"""

import errno
import os
import re
import sys

TYPES = {"str": ("const char *", "%s"), "u32": ("uint32_t ", "%\" PRIu32 \""), "u64": ("uint64_t ", "%\" PRIu64 \""),
         "i32": ("int32_t ", "%\" PRId32 \"")}
DAOS_END = 1400  # DAOS has no codes from here on
NAME = re.compile(r"^[a-z][a-z0-9_]*$")
CLOSED = ("what", "which", "how", "use", "operation")  # names of values that have few forms: a row `values` lists them
VALUE = re.compile(r"\{(\w+)\}")
PAGE_HEAD = """\
# Faults

<!-- Made from src/control/fault/faults.def by src/control/fault/generate.py: `make fault-page`. -->

The control plane reports a problem that an operator can solve as a fault: a code that never changes its meaning, what happened, and what
to do. To add one, add a row to `src/control/fault/faults.def`, then run `make fault-page`; `make check` fails if this page is out of date. A row is

    fault 689 rank_busy EBUSY args: u32 rank, str what
        says rank {rank} is already being {what}
        do wait until that has ended; `fathom system query` shows the state
        values what: "started"; "stopped"; "erased"

and makes the function `fault_rank_busy(why, rank, what)`. The row stands below the `domain` whose range contains its code. Take a free code whose
last two digits are 50 or more, or one from 1400 on: the others are DAOS's. A row `values` lists the forms of a value. Programs print two lines:

    server: code = 609 description = "pool label \\"p1\\" already exists in the system"
    server: code = 609 resolution = "retry the request with a unique pool label"

With `--json`, the first of them is the answer's `error` (and a key of `host_errors`), as a text, where DAOS's tools have theirs. The same as
fields are the rows of `faults`, which is there if something failed; `hosts` says on which of them, if it did on some:

    "faults": [
      {
        "hosts": "node[1-2]:10001",
        "domain": "client",
        "code": 508,
        "description": "the server did not answer in time",
        "resolution": "check the address and the network; then repeat the request"
      }
    ]

Codes below 1400 whose last two digits are below 50 are DAOS's, and mean the same there. Words in braces stand for values. [Values](#values) lists what the values
of some faults can be.
"""
VALUES_HEAD = """
## Values

A `str` value not listed here is a name, a path, an address, an error text of the system, or a reason in words. Words in capitals stand for names and
numbers.

| code | name | value | can be |
|---|---|---|---|
"""


class DefError(Exception):
    pass


class Fault:
    def __init__(self, where, domain, code, name, error, args):
        self.where, self.domain, self.code, self.name, self.error, self.args = where, domain, code, name, error, args
        self.says = self.do = None
        self.values = {}


def parse_args(text):
    args = []
    for part in text.split(",") if text else []:
        words = part.split()
        if len(words) != 2 or words[0] not in TYPES or not NAME.match(words[1]) or words[1] == "why":
            raise DefError(f'"{part.strip()}" is no argument: TYPE NAME, of {", ".join(TYPES)}')
        args.append((words[0], words[1]))
    return args


def parse_fault(line, where, domain):
    match = re.match(r"fault (\d+) (\S+) (\S+)(?: args: (.+))?$", line)
    if not match:
        raise DefError("expected: fault CODE NAME ERRNO [args: TYPE NAME, ...]")
    code, name, error, args = int(match.group(1)), match.group(2), match.group(3), match.group(4)
    if not domain:
        raise DefError("a fault before the first domain")
    if not NAME.match(name):
        raise DefError(f'"{name}" is no name')
    if not hasattr(errno, error):
        raise DefError(f"{error} is no errno")
    if not domain[1] <= code <= domain[2]:
        raise DefError(f"code {code} is not of {domain[0]}, {domain[1]}-{domain[2]}")
    if code < DAOS_END and code % 100 < 50 and code not in domain[3]:
        raise DefError(f"code {code} is below {code // 100 * 100 + 50} and none of those that DAOS has in {domain[0]}")
    return Fault(where, domain[0], code, name, error, parse_args(args))


def parse_domain(line):
    match = re.match(r"domain ([a-z]+) (\d+)-(\d+)(?: daos:((?: \d+(?:-\d+)?)+))?$", line)
    if not match:
        raise DefError("expected: domain NAME FIRST-LAST [daos: CODES]")
    daos = set()
    for part in (match.group(4) or "").split():
        first, _, last = part.partition("-")
        daos |= set(range(int(first), int(last or first) + 1))
    return match.group(1), int(match.group(2)), int(match.group(3)), daos


def check_whole(fault):
    for text, word in ((fault.says, "says"), (fault.do, "do")):
        if not text:
            raise DefError(f'fault {fault.code} has no line "{word}"')
        unknown = set(VALUE.findall(text)) - {name for _, name in fault.args}
        if unknown:
            raise DefError(f"fault {fault.code} has no value {', '.join(sorted(unknown))}")
        if re.search(r"[^ -~]", text):
            raise DefError(f"fault {fault.code} has more than ASCII")
    args = dict((name, kind) for kind, name in fault.args)
    unknown = set(fault.values) - set(args)
    if unknown:
        raise DefError(f"fault {fault.code} has no value {', '.join(sorted(unknown))}")
    unlisted = {name for name, kind in args.items() if kind == "str" and name in CLOSED} - set(fault.values)
    if unlisted:
        raise DefError(f'fault {fault.code} has no line "values {sorted(unlisted)[0]}: TEXT"')
    unused = {name for _, name in fault.args} - set(VALUE.findall(fault.says + fault.do))
    if unused:
        raise DefError(f"fault {fault.code} does not say its value {', '.join(sorted(unused))}")


def parse_values(fault, text):
    name, colon, can_be = text.partition(": ")
    if not colon or not can_be.strip() or re.search(r"[^ -~]", can_be):
        raise DefError("expected: values NAME: TEXT, in ASCII")
    if name in fault.values:
        raise DefError(f"a second line of values of {name}")
    fault.values[name] = can_be.strip()


def parse_line(line, where, faults, domain):
    """Returns the domain of the lines that follow."""
    if line.startswith("domain "):
        return parse_domain(line)
    if line.startswith("fault "):
        fault = parse_fault(line, where, domain)
        for other in faults:
            if fault.code == other.code or fault.name == other.name:
                raise DefError(f"code or name is that of {other.where}")
        faults.append(fault)
        return domain
    word, _, text = line.partition(" ")
    if word == "values" and faults:
        parse_values(faults[-1], text)
        return domain
    if word not in ("says", "do") or not faults:
        raise DefError(f'"{word}" is not understood')
    if getattr(faults[-1], word):
        raise DefError(f'a second line "{word}"')
    setattr(faults[-1], word, text.strip())
    return domain


def read(path):
    faults, domain = [], None
    for number, line in enumerate(open(path), 1):
        line = line.strip()
        if line and not line.startswith("#"):
            try:
                domain = parse_line(line, f"{path}:{number}", faults, domain)
            except DefError as error:
                raise DefError(f"{path}:{number}: {error}") from None
    for fault in faults:
        try:
            check_whole(fault)
        except DefError as error:
            raise DefError(f"{fault.where}: {error}") from None
    return faults


def c_string(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%") + '"'


def c_format(fault, text):
    types = dict((name, kind) for kind, name in fault.args)
    return "".join([VALUE.sub(lambda match: TYPES[types[match.group(1)]][1], c_string(text)),
                    *(", " + name for name in VALUE.findall(text))])


def header(faults):
    out = ["/* Made from faults.def by generate.py. */", "#ifndef CONTROL_FAULT_FAULTS_GEN_H", "#define CONTROL_FAULT_FAULTS_GEN_H",
           "", "#include <errno.h>", "#include <inttypes.h>", "", '#include "base/fault.h"', "", "enum fault_code {"]
    out += [f"\tFAULT_{fault.name.upper()} = {fault.code}," for fault in faults]
    out += ["};", ""]
    for fault in faults:
        parameters = "".join(f", {TYPES[kind][0]}{name}" for kind, name in fault.args)
        values = "".join(f", {name}" for _, name in fault.args)
        out += [f"/* {fault.says} */".replace("*/ */", "*/"),
                f"static inline void fill_fault_{fault.name}(struct fathom_fault *why{parameters})", "{",
                f"\tfault_coded(why, -{fault.error}, FAULT_{fault.name.upper()}, {c_format(fault, fault.says)});",
                f"\tfault_resolve(why, {c_format(fault, fault.do)});", "}", "",
                f"MUST_CHECK static inline int fault_{fault.name}(struct fathom_fault *why{parameters})", "{",
                f"\tfill_fault_{fault.name}(why{values});", f"\treturn -{fault.error};", "}", ""]
    out += ["#endif", ""]
    return "\n".join(out)


def table(faults):
    """Rows for fault.c: { code, error, domain, name }, by code."""
    rows = sorted(faults, key=lambda fault: fault.code)
    return "".join(f'{{ {fault.code}, -{fault.error}, "{fault.domain}", "{fault.name}" }},\n' for fault in rows)


def samples(faults):
    """Calls for the test that raises every fault: a string argument is its own name, a number is its position."""
    out = []
    for fault in sorted(faults, key=lambda fault: fault.code):
        values = "".join(f', "{name}"' if kind == "str" else f", {place}" for place, (kind, name) in enumerate(fault.args, 1))
        out.append(f"SAMPLE({fault.code}, fault_{fault.name}(&why{values}))\n")
    return "".join(out)


def table_row(*cells):
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def page(faults):
    out, domain = [PAGE_HEAD], None
    for fault in faults:
        if fault.domain != domain:
            domain = fault.domain
            out.append(f"## {domain}\n\n| code | name | says | what to do |\n|---|---|---|---|\n")
        out.append(table_row(str(fault.code), f"`{fault.name}`", fault.says, fault.do))
        following = faults[faults.index(fault) + 1:][:1]
        if following and following[0].domain != domain:
            out.append("\n")
    out.append(VALUES_HEAD)
    for fault in faults:
        out += [table_row(str(fault.code), f"`{fault.name}`", f"{{{name}}}", text) for name, text in fault.values.items()]
    return out[0] + "\n" + "".join(out[1:])


def main(arguments):
    try:
        if len(arguments) == 2 and arguments[0] == "--page":
            sys.stdout.write(page(read(arguments[1])))
            return 0
        if len(arguments) == 3 and arguments[0] == "--outdir":
            faults = read(arguments[2])
            for name, text in (("faults.gen.h", header(faults)), ("faults_table.gen.inc", table(faults)),
                               ("faults_samples.gen.inc", samples(faults))):
                with open(os.path.join(arguments[1], name), "w") as file:
                    file.write(text)
            return 0
    except DefError as error:
        print(error, file=sys.stderr)
        return 1
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
