# SPDX-License-Identifier: BSD-2-Clause
"""reference - makes docs/operations.md: each method, call, command and result of the table."""

from text import sentence

HEAD = """\
# Operations

<!-- Made from the table src/control/operation: make operation-pages -->

Each management operation is declared once, in `src/control/operation`. This page lists what the build makes of it: the gRPC methods with their roles, the
commands with their options, the calls of libfathom-control, and the fields of their results. [adding-a-call.md](adding-a-call.md) shows how to add one.

"""
PLACES = {"mgmt": "management service", "server": "each server"}
RETRIES = {"read": "retried, changes nothing", "same": "retried, idempotent", "never": "never retried", None: "asks all hosts"}


def cells(*texts):
    return "| " + " | ".join(text.replace("|", "\\|").replace("**", "").replace("*", "\\*") for text in texts) + " |\n"


def methods(table):
    out = ["## Methods\n\n", cells("method", "answered by", "roles", "request", "answer"), "|---|---|---|---|---|\n"]
    out += [cells(f"`/{method.path}`", PLACES[method.place], ", ".join(method.roles), f"`{method.request.name}`", f"`{method.answer.name}`")
            for method in table.methods]
    return "".join(out)


def fault_names(table, names):
    return ", ".join(f"{table.fault_codes[name]} `{name}`" for name in sorted(names, key=table.fault_codes.get)) or "-"


def faults(table):
    out = ["\n## Faults\n\nEach method can answer these: ", fault_names(table, table.general_faults), ".\n[faults.md](faults.md) explains them all. "
           "A fault that concerns one rank or engine stands in the results of the call.\n\n", cells("method", "faults"), "|---|---|\n"]
    out += [cells(f"`/{method.path}`", fault_names(table, method.faults)) for method in table.methods if method.faults]
    return "".join(out)


def option_line(option):
    letter = f"-{option.letter}, " if option.letter else ""
    return cells(f"`{letter}--{option.name}{' ' + option.argument if option.argument else ''}`", option.type, sentence(option.help))


def command(command):
    arguments = f" {command.arguments}" if command.arguments else ""
    out = [f"### `{command.words}{arguments}`\n\n{sentence(command.help)}\n"]
    if command.options:
        out += ["\n", cells("option", "type", ""), "|---|---|---|\n", *map(option_line, command.options)]
    out += [f"\n{rule.text}.\n" for rule in command.rules]
    return "".join(out)


def call(call):
    arguments = ", ".join(argument.name for argument in call.arguments) or "-"
    return cells(f"`fathom_control_{call.name}()`", f"`/{call.path}`", arguments, f"`{call.result}`" if call.result else "-", RETRIES[call.retry])


def record(record):
    keys = {key.field: key.key for key in record.json or []}
    out = [f"### `{record.name}`\n\n", " ".join(record.comment) + "\n\n" if record.comment else "",
           cells("field", "type", "JSON", ""), "|---|---|---|---|\n"]
    for field in record.fields:
        kind = f"{field.type} of `{field.record}`" if field.record else field.type
        out.append(cells(f"`{field.name}`", kind, f"`{keys[field.name]}`" if field.name in keys else "", field.comment))
    return "".join(out)


def page(table):
    out = [HEAD, methods(table), faults(table), "\n## Options of all commands\n\n", cells("option", "type", ""), "|---|---|---|\n", *map(option_line, table.common)]
    for group in table.groups:
        out.append(f"\n## fathom {group.name}\n\n{sentence(group.summary)}\n")
        out += ["\n" + command(each) for each in group.commands]
    out += ["\n## Calls of libfathom-control\n\n", cells("function", "method", "arguments", "result", "retry"), "|---|---|---|---|---|\n"]
    out += [call(each) for each in table.calls]
    out.append("\n## Results\n")
    out += ["\n" + record(each) for each in table.records.values()]
    return "".join(out)
