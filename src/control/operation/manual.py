# SPDX-License-Identifier: BSD-2-Clause
"""manual - makes the man page of each group of commands."""

import re
import textwrap

from text import sentence

COLUMNS = 140
OUTPUT = """\
Tables are those of DAOS's *dmg*, with each cell padded to its column, so that scripts which cut dmg's output can cut this. Hosts or ranks with the same content share a row. Ports are shown if hosts have several.

With **--json**, the output is an object with **response**, **error** (a text, or null) and **status** (0, or -1025), with *dmg*'s keys in them. If something failed, **faults** lists each fault with its **domain**, **code**, **description** and **resolution**, and **hosts** if it concerns only some.

A failure prints two lines on standard error: what happened, with a number, and what to do about it; *docs/faults.md* lists all of them. On a terminal, a command that takes longer than a second shows its progress there{progress}. SIGINT and SIGTERM end it."""
EXIT_STATUS = """\
0: success. 1: the command failed for at least one host, engine or rank, or one of them does not exist; it prints the answers of the others. 2: the command line is wrong, and no host was asked."""
FILES = """\
.TP
*~/.fathom_control.yml*
The configuration of a user.
.TP
*/etc/fathom/fathom_control.yml*
The configuration of the host. **fathom config reference** prints its keys. An unknown key is an error."""


def escape(text):
    return text.replace("\\", "\\e").replace("-", "\\-")


def markup(text):
    """**bold** and *italic*."""
    text = re.sub(r"\*\*(.+?)\*\*", r"\\fB\1\\fR", escape(text))
    return re.sub(r"(?<!\w)\*([^*\s][^*]*)\*", r"\\fI\1\\fR", text)


def flow(text):
    """A paragraph, wrapped. No line begins with a character that means something to roff."""
    lines = textwrap.wrap(text, COLUMNS, break_long_words=False, break_on_hyphens=False)
    return "".join(("\\&" if line[0] in ".'" else "") + line + "\n" for line in lines)


def paragraphs(lines):
    out = []
    for line in lines:
        if not line:
            out.append(".PP\n")
        elif line.startswith("."):
            out.append(escape(line) + "\n")
        else:
            out.append(flow(markup(line)))
    return "".join(out)


def option_entry(option):
    letter = f"\\fB\\-{option.letter}\\fR, " if option.letter else ""
    argument = f" \\fI{option.argument}\\fR" if option.argument else ""
    return f".TP\n{letter}\\fB{escape('--' + option.name)}\\fR{argument}\n" + paragraphs(option.man or [sentence(option.help)])


def synopsis(group):
    lines = [f".B {escape(command.words)}\n.RI [ OPTION ...]\n" + (command.arguments + "\n" if command.arguments else "") for command in group.commands]
    return ".br\n".join(lines)


def faults(table, group):
    """The faults of each command that has some, by number and name."""
    def listed(names):
        return "".join(f".br\n{table.fault_codes[name]} {escape(name)}\n" for name in names)

    rows = [f".TP\n.B {escape(command.name)}\n{listed(table.faults_of(command))[len('.br') + 1:]}"
            for command in group.commands if table.faults_of(command)]
    general = sorted(table.general_faults, key=table.fault_codes.get)
    return "".join([".SH FAULTS\nEach command can fail with these:\n", listed(general), ".PP\nThese commands have more:\n", *rows]) if rows else ""


def page(table, group):
    pages = sorted([other.page for other in table.groups if other is not group]) + ["fathom-server"]
    progress = f": {group.progress}" if group.progress else ""
    out = [f".\\\" SPDX-License-Identifier: BSD-2-Clause\n.\\\" Made from the table src/control/operation: make operation-pages\n"
           f".TH {group.page.upper()} 1 \"2026-11-24\" \"Fathom\" \"Fathom\"\n.SH NAME\n{escape(group.page)} \\- {escape(group.summary)}\n"
           f".SH SYNOPSIS\n{synopsis(group)}.SH DESCRIPTION\n{paragraphs(group.man)}"]
    for command in group.commands:
        out += [f".SS {escape(command.name)}\n", paragraphs(command.man or [sentence(command.help)]), *map(option_entry, command.options)]
    out += [".SH OPTIONS OF ALL COMMANDS\n", *map(option_entry, table.common), ".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nPrint the help.\n.PP\n",
            flow(markup("All of these but **--timeout** and **--help** may also precede the group, as in *dmg*:")),
            f".BR \"fathom \\-j {escape(group.name + ' ' + group.commands[0].name)}\" .\n",
            ".SH OUTPUT\n", paragraphs(OUTPUT.format(progress=progress).split("\n")), ".SH EXIT STATUS\n", paragraphs([EXIT_STATUS]), faults(table, group)]
    if group.name == "config":
        out += [".SH FILES\n", paragraphs(FILES.split("\n"))]
    out += [".SH SEE ALSO\n", ",\n".join(f".BR {escape(name)} ({'8' if name == 'fathom-server' else '1'})" for name in pages), "\n"]
    return "".join(out)
