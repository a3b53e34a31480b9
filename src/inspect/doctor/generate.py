#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
generate - turn findings.def into functions with typed arguments, their table, and a page.

    generate.py --outdir DIR DEF    findings.gen.h, findings_table.gen.inc
    generate.py --page DEF          docs/findings.md, on standard output; `make finding-page` writes it, `make check` fails if it is out of date

An error names file and line, and no file is written: a finding without a next step does not build.
"""

import os
import re
import sys

TYPES = {"str": ("const char *", "%s"), "u64": ("uint64_t ", "%\" PRIu64 \""), "i64": ("int64_t ", "%\" PRId64 \"")}
SEVERITIES = ("note", "degraded", "broken")
NAME = re.compile(r"^[a-z][a-z0-9_]*$")
VALUE = re.compile(r"\{(\w+)\}")
EXPLAINS_ALL = "all"
ALL_TEXT = "all others that have no cause of their own"
PAGE_HEAD = """\
# Findings of fathom doctor

<!-- Made from src/inspect/doctor/findings.def by src/inspect/doctor/generate.py: `make finding-page`. -->

`fathom doctor` looks at an engine, or at a server and its engines, and reports what it finds. A finding has a code that never changes its meaning, a
severity, what is wrong, the evidence, how sure that is, and what to do next. Rows stand in the order of causes: of two findings with one severity, the
upper one comes first in a report. A finding that follows from another one stands below it, whatever its severity. `fathom system doctor` asks the servers of
all hosts, and prints equal findings once.

| severity | means | exit status |
|---|---|---|
| broken | hosts or operators get no service, or lose data | 2 |
| degraded | they get less than they should | 1 |
| note | worth knowing | 0 |

A finding by events, such as failed I/Os of a device, is of the past if there was no event for 30 s. If events came at longer intervals, it is if there
was none for two of them. The report marks it as `past` and says when its last sign was. It stands below the findings of the present, and counts as a note. After ten
minutes it is gone.

Words in braces stand for values. To add a finding, add a row to `src/inspect/doctor/findings.def`, a rule that makes it in the same folder, and an
illness with its first finding in `test/ward`; then run `make finding-page`.

"""


class DefError(Exception):
    pass


class Finding:
    def __init__(self, where, code, name, severity, is_alone, args):
        self.where, self.code, self.name, self.severity, self.is_alone, self.args = where, code, name, severity, is_alone, args
        self.says = self.do = None
        self.explains = []


def parse_args(text):
    args = []
    for part in text.split(",") if text else []:
        words = part.split()
        if len(words) != 2 or words[0] not in TYPES or not NAME.match(words[1]) or words[1] in ("list", "sure"):
            raise DefError(f'"{part.strip()}" is no argument: TYPE NAME, of {", ".join(TYPES)}')
        args.append((words[0], words[1]))
    return args


def parse_finding(line, where):
    match = re.match(r"finding (\d{3}) (\S+) (\S+)( alone)?(?: args: (.+))?$", line)
    if not match:
        raise DefError("expected: finding CODE NAME SEVERITY [alone] [args: TYPE NAME, ...]")
    if not NAME.match(match.group(2)):
        raise DefError(f'"{match.group(2)}" is no name')
    if match.group(3) not in SEVERITIES:
        raise DefError(f'"{match.group(3)}" is no severity: {", ".join(SEVERITIES)}')
    return Finding(where, int(match.group(1)), match.group(2), match.group(3), bool(match.group(4)), parse_args(match.group(5)))


def parse_line(line, where, findings):
    word, _, text = line.partition(" ")
    if word == "finding":
        finding = parse_finding(line, where)
        for other in findings:
            if finding.code == other.code or finding.name == other.name:
                raise DefError(f"code or name is that of {other.where}")
        findings.append(finding)
    elif word == "explains" and findings:
        findings[-1].explains += text.split()
    elif word in ("says", "do") and findings:
        if getattr(findings[-1], word):
            raise DefError(f'a second line "{word}"')
        setattr(findings[-1], word, text.strip())
    else:
        raise DefError(f'"{word}" is not understood')


def check_whole(finding, findings):
    for text, word in ((finding.says, "says"), (finding.do, "do")):
        if not text:
            raise DefError(f'finding {finding.code} has no line "{word}"')
        unknown = set(VALUE.findall(text)) - {name for _, name in finding.args}
        if unknown:
            raise DefError(f"finding {finding.code} has no value {', '.join(sorted(unknown))}")
        if re.search(r"[^ -~]", text):
            raise DefError(f"finding {finding.code} has more than ASCII")
    unused = {name for _, name in finding.args} - set(VALUE.findall(finding.says + finding.do))
    if unused:
        raise DefError(f"finding {finding.code} does not say its value {', '.join(sorted(unused))}")
    unknown = set(finding.explains) - {other.name for other in findings} - {EXPLAINS_ALL}
    if unknown or finding.name in finding.explains:
        raise DefError(f"finding {finding.code} explains {', '.join(sorted(unknown)) or 'itself'}")


def check_order(findings):
    """A finding explains only findings of rows below it: so no two explain each other, and causes stand above."""
    row = {finding.name: i for i, finding in enumerate(findings)}
    for finding in findings:
        for name in finding.explains:
            if name != EXPLAINS_ALL and row[name] <= row[finding.name]:
                raise DefError(f"{finding.where}: {finding.name} explains {name}, whose row must be below")


def read(path):
    findings = []
    for number, line in enumerate(open(path), 1):
        line = line.strip()
        if line and not line.startswith("#"):
            try:
                parse_line(line, f"{path}:{number}", findings)
            except DefError as error:
                raise DefError(f"{path}:{number}: {error}") from None
    for finding in findings:
        try:
            check_whole(finding, findings)
        except DefError as error:
            raise DefError(f"{finding.where}: {error}") from None
    check_order(findings)
    return findings


def explained(finding, findings):
    """The names of all findings that follow from it, directly or by others."""
    names = set(finding.explains)
    if EXPLAINS_ALL in finding.explains:
        names |= {other.name for other in findings if not other.is_alone}
    for other in findings[findings.index(finding) + 1:]:
        if other.name in names:
            names |= set(explained(other, findings))
    return [other.name for other in findings[findings.index(finding) + 1:] if other.name in names]


def c_string(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%") + '"'


def c_format(finding, text):
    types = dict((name, kind) for kind, name in finding.args)
    return "".join([VALUE.sub(lambda match: TYPES[types[match.group(1)]][1], c_string(text)),
                    *(", " + name for name in VALUE.findall(text))])


def header(findings):
    out = ["/* Made from findings.def by generate.py. */", "#ifndef INSPECT_DOCTOR_FINDINGS_GEN_H", "#define INSPECT_DOCTOR_FINDINGS_GEN_H",
           "", "#include <inttypes.h>", "", '#include "inspect/doctor/findings.h"', "", "enum finding_row {"]
    out += [f"\tFINDING_{finding.name.upper()}," for finding in findings]
    out += ["\tFINDING_ROWS", "};", ""]
    for finding in findings:
        parameters = "".join(f", {TYPES[kind][0]}{name}" for kind, name in finding.args)
        out += [f"/* {finding.says} */".replace("*/ */", "*/"),
                f"static inline struct finding *find_{finding.name}(struct findings *list, enum finding_certainty sure{parameters})", "{",
                f"\treturn finding_set(finding_add(list, FINDING_{finding.name.upper()}, sure),",
                f"\t\tfinding_text({c_format(finding, finding.says)}),",
                f"\t\tfinding_text({c_format(finding, finding.do)}));", "}", ""]
    out += ["#endif", ""]
    return "\n".join(out)


def table(findings):
    """Rows for findings.c, in the order of causes: { code, severity, name, bits of what it explains }."""
    rows = {finding.name: i for i, finding in enumerate(findings)}
    out = []
    for finding in findings:
        words = [0, 0]
        for name in explained(finding, findings):
            words[rows[name] // 64] |= 1 << rows[name] % 64
        out.append(f'{{ {finding.code}, FINDING_{finding.severity.upper()}, "{finding.name}", {{ 0x{words[0]:x}ull, 0x{words[1]:x}ull }} }},\n')
    return "".join(out)


def table_row(*cells):
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def page(findings):
    out = [PAGE_HEAD, "| code | name | severity | says | what to do |\n|---|---|---|---|---|\n"]
    out += [table_row(str(finding.code), f"`{finding.name}`", finding.severity, finding.says, finding.do) for finding in findings]
    out.append("\n## What follows from what\n\n| finding | explains |\n|---|---|\n")
    for finding in findings:
        names = ALL_TEXT if EXPLAINS_ALL in finding.explains else ", ".join(f"`{name}`" for name in explained(finding, findings))
        if names:
            out.append(table_row(f"`{finding.name}`", names))
    out.append("\n| have a cause of their own, and follow only from findings that name them |\n|---|\n")
    out.append(table_row(", ".join(f"`{finding.name}`" for finding in findings if finding.is_alone)))
    return "".join(out)


def main(arguments):
    try:
        if len(arguments) == 2 and arguments[0] == "--page":
            sys.stdout.write(page(read(arguments[1])))
            return 0
        if len(arguments) == 3 and arguments[0] == "--outdir":
            findings = read(arguments[2])
            for name, text in (("findings.gen.h", header(findings)), ("findings_table.gen.inc", table(findings))):
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
