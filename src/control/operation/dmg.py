# SPDX-License-Identifier: BSD-2-Clause
"""dmg - makes the parts of docs/dmg.md: the commands and options of DAOS's dmg beside those of `fathom`."""

EXAMPLE = "fathom system query"  # the command that shows an option of all commands
VERSION = ("version", "fathom --version", "other")  # the program's own option, which no row of the table declares


def row(theirs, ours, text):
    return f"| `{theirs}` | {f'`{ours}`' if ours else '-'} | {text} |\n"


def option_words(option, separator):
    return separator.join(([f"-{option.letter}"] if option.letter else []) + [f"--{option.name}"])


def remark(dmg):
    if not dmg.text:
        return dmg.kind
    return dmg.kind + (": " if dmg.kind == "other" else "; ") + dmg.text


def option_row(option, theirs, ours):
    """The row of one option; `theirs` and `ours` are the words of the command with a blank, or empty."""
    return row(theirs + (option.dmg.words or option_words(option, ", ")), ours + option_words(option, " "), remark(option.dmg))


def command_rows(command):
    """The row of a command with the options that dmg also has, and a row of each option that differs."""
    theirs = command.dmg.words or f"{command.group.name} {command.name}"
    alike = [option_words(option, " ") for option in command.options if not option.dmg]
    own = [option for option in command.options if option.dmg and option.dmg.kind != "none"]
    return row(theirs, " ".join([command.words, *alike]), remark(command.dmg)) + "".join(
        option_row(option, theirs + " ", command.words + " ") for option in own)


def absent_rows(table, belongs):
    """The rows of commands whose first word `belongs`. A command can be here although the method that dmg calls for it is absent."""
    here = {f"{group.name} {command.name}" for group in table.groups for command in group.commands}
    return "".join(row(theirs, None, "not here: " + reason.text) for reason in table.reasons for theirs in reason.dmg_commands
                   if belongs(theirs.split()[0]) and theirs not in here)


def comparison(table):
    """The table of the page: options of all commands, each group, then what only dmg has."""
    groups = [group.name for group in table.groups]
    out = ["| dmg | fathom | |\n|---|---|---|\n"]
    out += [option_row(option, "", EXAMPLE + " ") for option in table.common if option.dmg and option.dmg.kind != "none"]
    out += [absent_rows(table, lambda word: word.startswith("-")), row(*VERSION)]
    for group in table.groups:
        out += [command_rows(command) for command in group.commands if command.dmg.kind != "none"]
        out.append(absent_rows(table, lambda word, name=group.name: word == name))
    return "".join(out) + absent_rows(table, lambda word: word not in groups and not word.startswith("-"))


def additions(table):
    """A list of what dmg does not have."""
    out = []
    for group in table.groups:
        for command in group.commands:
            if command.dmg.kind == "none":
                out.append(f"- `{command.words}`: {command.help}\n")
                continue
            out += [f"- `{command.words} --{option.name}`: {option.help}\n" for option in command.options if option.dmg and option.dmg.kind == "none"]
    return "".join(out + [f"- `--{option.name}`: {option.help}\n" for option in table.common if option.dmg and option.dmg.kind == "none"])
