# SPDX-License-Identifier: BSD-2-Clause
"""library - makes the parts of the headers fathom/control*.h, of their version script and of their man page that the table declares."""

import re
import textwrap

from manual import escape, flow
from records import parameters

COLUMNS = 124


def comment(lines, indent=""):
    """A comment in C, wrapped."""
    text = " ".join(lines)
    if not text:
        return ""
    if len(text) + 6 <= COLUMNS:
        return f"{indent}/* {text} */\n"
    return f"{indent}/*\n" + "".join(f"{indent} * {line}\n" for line in textwrap.wrap(text, COLUMNS - 4)) + f"{indent} */\n"


def structures(table, group):
    out = []
    for record in table.records.values():
        if record.group != group:
            continue
        out.append(f"{comment(record.comment)}{record.struct} {{\n")
        for field in record.fields:
            first, *others = field.declaration()
            out.append(f"\t{first}{f' /* {field.comment} */' if field.comment else ''}\n" + "".join(f"\t{other}\n" for other in others))
        out.append("};\n\n")
    return "".join(out)


def prototype(call):
    """Wrapped at commas."""
    head = f"FATHOM_CONTROL_MUST_CHECK int fathom_control_{call.name}("
    lines, line = [], head
    for place, parameter in enumerate(parameters(call)):
        word = parameter + ("," if place + 1 < len(parameters(call)) else ");")
        if len(line.expandtabs(8)) + len(word) > COLUMNS:
            lines.append(line.rstrip())
            line = "\t" + word + " "
        else:
            line += word + " "
    return "\n".join([*lines, line.rstrip()]) + "\n"


def calls(table, group):
    out = []
    for call in table.calls:
        if call.group == group:
            notes = [f"`{argument.name}`: {argument.comment}." for argument in call.arguments if argument.comment]
            out.append(comment(call.comment + notes) + prototype(call) + "\n")
    return "".join(out)


def answer(table):
    """The members of struct fathom_control_answer for the results of hosts."""
    out = []
    for word in table.answers:
        name, is_text, _ = word.partition("=")
        out.append(f"\tconst char *{name};\n" if is_text else f"\tconst {table.records[name].struct} *{name};\n")
    return "".join(out)


def parts(table):
    """{name of a place in control.h: its text}"""
    return {f"calls of {group.name}": calls(table, group.name) for group in table.groups}


def result_parts(table):
    """{name of a place in control_results.h: its text}"""
    return {f"results of {group.name}": structures(table, group.name) for group in table.groups} | {"answers of hosts": answer(table)}


def fill_header(path, text, made):
    """The header with the places filled in: between `/* of the table: NAME */` and the next `/* end */`."""
    for name, part in ((name, part.rstrip("\n") + "\n") for name, part in made.items() if part):
        place = re.compile(rf"([ \t]*)(/\* of the table: {re.escape(name)} \*/\n)(.*?)([ \t]*/\* end \*/\n)", re.S)
        text, found = place.subn(lambda match, part=part: f"{match.group(1)}{match.group(2)}{match.group(1)}/* clang-format off */\n{part}"
                                                          f"{match.group(1)}/* clang-format on */\n{match.group(4)}", text)
        if found != 1:
            raise ValueError(f"{path} has no place for the {name}")
    return text


def header(table, text):
    return fill_header("include/fathom/control.h", text, parts(table))


def results_header(table, text):
    return fill_header("include/fathom/control_results.h", text, result_parts(table))


def version_script(table, text):
    """Calls that libfathom-control.map does not name, added to its latest version."""
    missing = [f"fathom_control_{call.name}" for call in table.calls if not re.search(rf"\bfathom_control_{call.name};", text)]
    if not missing:
        return text
    versions = re.findall(r"(?ms)^FATHOM_CONTROL_[\d.]+ \{.*?^\}[^;]*;\n", text)
    names = sorted(re.findall(r"\b(fathom_control_\w+);", versions[-1]) + missing)
    made = re.sub(r"(global:\n)(?:\tfathom_\w+;\n)*", lambda match: match.group(1) + "".join(f"\t{name};\n" for name in names), versions[-1])
    return text.replace(versions[-1], made)


RETRIED = {"read": "Retried; changes nothing.", "same": "Retried; idempotent.", "never": ""}


def man_call(call):
    """A call as an entry of libfathom-control.3: its parameters, what it does, its result."""
    names = [parameter.rpartition(" ")[2].strip("*") for parameter in parameters(call)]
    notes = [f"`{argument.name}`: {argument.comment}." for argument in call.arguments if argument.comment]
    result = [f"Result: `struct fathom_control_{call.result}`."] if call.result and not call.is_hosts else []
    text = escape(" ".join(call.comment + notes + result + ([] if call.is_hosts else [RETRIED[call.retry]] if RETRIED[call.retry] else [])))
    text = re.sub(r"`([^`]*)`", r"\\fI\1\\fR", text)
    return f'.TP\n.BI "fathom_control_{call.name}(" ' + ' ", " '.join(names) + " )\n" + flow(text)


def man_calls(table, text):
    """libfathom-control.3 with the places filled in: between `.\\" of the table: NAME` and the next `.\\" end`."""
    for name, is_hosts in (("calls on the system", False), ("calls on hosts", True)):
        part = "".join(man_call(call) for call in table.calls if call.is_hosts == is_hosts)
        place = re.compile(rf'(\.\\" of the table: {name}\n)(.*?)(\.\\" end\n)', re.S)
        text, found = place.subn(lambda match, part=part: match.group(1) + part + match.group(3), text)
        if found != 1:
            raise ValueError(f"docs/man/libfathom-control.3 has no place for the {name}")
    return text
