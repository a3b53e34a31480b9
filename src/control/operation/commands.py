# SPDX-License-Identifier: BSD-2-Clause
"""commands - makes the operator's commands: their options as tables of src/cmd/options, the checks of options, and cmd_GROUP()."""

from text import MADE, c_string, sentence

OPTION_TYPES = {"flag": "OPTION_FLAG", "number": "OPTION_NUMBER", "size": "OPTION_SIZE"}  # all others are OPTION_TEXT


def header(table):
    """struct control_values, and the functions that the table names."""
    out = [MADE, "#ifndef CMD_FATHOM_CONTROL_COMMANDS_GEN_H\n#define CMD_FATHOM_CONTROL_COMMANDS_GEN_H\n\n"
           "#include <stdbool.h>\n#include <stdint.h>\n\n#include \"fathom/control.h\"\n\nstruct control_run;\n\n"
           "/* The values of all options; texts are borrowed from the command line, NULL: not given. */\nstruct control_values {\n"]
    options = table.all_options()
    out += [f"\t{option.c_type}{option.member};\n" for option in options]
    out += ["};\n\n#define CONTROL_VALUES_INITIAL \\\n\t{ \\\n"]
    out += [f"\t\t.{option.member} = {option.default}, \\\n" for option in options if option.default]
    out += ["\t}\n\n"]
    functions = sorted({command.run for group in table.groups for command in group.commands if command.run})
    out += [f"int {function}(struct control_run *run);\n" for function in functions]
    out += [f"int {record.end}(struct control_run *run, {record.struct} *result);\n" for record in table.records.values() if record.end]
    return "".join(out) + "\n#endif\n"


def option_row(option, with_letter):
    fields = [c_string(option.name), f"'{option.letter}'" if option.letter and with_letter else "0", OPTION_TYPES.get(option.type, "OPTION_TEXT"),
              c_string(option.argument) if option.argument else "NULL", c_string(option.help),
              f".offset = offsetof(struct control_values, {option.member})"]
    if option.type == "number":
        low, high = option.values.split("-")
        fields.append(f"OPTION_RANGE(UINT64_C({low}), UINT64_C({high}))")
    elif option.type == "size":
        fields.append(".min = 1")
    elif option.type in ("words", "list"):
        fields.append(f".values = {c_string(option.values.replace(',', ' '))}")
    elif option.type in ("file", "folder", "path"):
        fields.append(".values = " + ("OPTION_FILES" if option.type == "file" else "OPTION_FOLDERS"))
    return "\t{ " + ", ".join(fields) + " },\n"


def option_rows(table, command):
    """A letter of the command's own options is not that of a common one."""
    own = {option.letter for option in command.options}
    out = [f"static const struct option_row {command.stem}_rows[] = {{\n"]
    if command.options:
        out += ["\t{ .type = OPTION_HEADING, .help = \"options:\" },\n", *(option_row(option, True) for option in command.options)]
    out += ["\t{ .type = OPTION_HEADING, .help = \"options of all commands:\" },\n",
            *(option_row(option, option.letter not in own) for option in table.common), "\tOPTION_HELP_ROW,\n};\n"]
    return "".join(out)


def option_table(command):
    usage = f"{command.words} [OPTION...]" + (f" {command.arguments}" if command.arguments else "")
    more = f"\t.more = {c_string(chr(10).join(command.more))},\n" if command.more else ""
    return (f"static const struct option_table {command.stem}_table = {{\n\t.name = {c_string(command.words)},\n\t.usage = {c_string(usage)},\n"
            f"\t.about = {c_string(sentence(command.help))},\n\tOPTION_ROWS({command.stem}_rows),\n{more}}};\n")


def checks(command):
    """A function that checks what one option alone cannot tell; None: there is nothing to check."""
    out = []
    for rule in command.rules:
        given = [f"values->{name.replace('-', '_')}" for name in rule.names]
        if rule.kind == "required":
            condition = " && ".join("!" + value for value in given)
        elif len(given) == 2:
            condition = " && ".join(given)
        else:
            condition = " + ".join(f"!!{value}" for value in given) + " > 1"
        out.append(f"\tif ({condition})\n\t\treturn control_bad(run, {c_string(rule.text)});\n")
    for option in command.options:
        value = f"values->{option.member}"
        if option.type == "path":
            out.append(f"\tif ({value} && {value}[0] != '/')\n"
                       f"\t\treturn control_bad(run, \"--{option.name}: \\\"%s\\\" is not an absolute path\", {value});\n")
        elif option.type == "words":
            words = option.values.split(",")
            out.append(f"\tif ({value} && " + " && ".join(f"strcmp({value}, {c_string(word)}) != 0" for word in words) + ")\n"
                       f"\t\treturn control_bad(run, \"--{option.name}: \\\"%s\\\" is none of {', '.join(words)}\", {value});\n")
    if not out:
        return None
    return (f"static int check_{command.stem}(const struct control_run *run)\n{{\n\tconst struct control_values *values = &run->values;\n\n"
            + "".join(out) + "\treturn 0;\n}\n")


def argument_value(command, argument):
    """What the call gets for it, in C."""
    if argument.type == "choice":
        return "&(struct fathom_control_choice){ .ranks = run->values.ranks, .hosts = run->values.rank_hosts }"
    if argument.type == "list":
        return "pairs, count"
    value = command.given.get(argument.name) or f"run->values.{argument.name}"
    return f"(uint32_t){value}" if argument.type == "u32" else value


def json_value(table, command):
    """The JSON of its result, in C: by the table, or by a function of src/cmd/fathom/show."""
    record = table.records[command.call.result]
    if command.call.is_hosts:
        return f"json_of_{record.name}_answers(result)" if record.json_answers else f"json_{command.printed or record.name}(result)"
    return f"json_of_{record.name}(result)" if record.json or record.json_list else f"json_{command.printed or record.name}(result)"


def end_of_command(table, command):
    """Print the result, and end."""
    if not command.call.result:
        said = f"puts({c_string(command.done)})" if command.done else "printf(\"%s succeeded\\n\", control_name(run))"
        return (f"\tif (!control_is_json(run))\n\t\t{said};\n"
                "\treturn control_finish(run, NULL, NULL);\n")
    record = table.records[command.call.result]
    if record.end:
        return f"\treturn {record.end}(run, result);\n"
    shown = ", ".join(["result", *(f"run->values.{name.replace('-', '_')}" for name in command.printed_options), "stdout"])
    json = f"control_is_json(run) ? {json_value(table, command)} : NULL"
    out = f"\tif (!control_is_json(run))\n\t\tshow_{command.printed or record.name}({shown});\n"
    if command.call.is_hosts:
        return out + f"\treturn control_answered(run, result, {json}, NULL);\n"
    return out + f"\tstatus = control_finish(run, {json}, NULL);\n\tfathom_control_free(result);\n\treturn status;\n"


def run_function(table, command):
    """Makes the call of the row `calls`, and prints its result."""
    call = command.call
    pairs = next((command.given[argument.name] for argument in call.arguments if argument.type == "list"), None)
    is_plain = call.result and not call.is_hosts and not table.records[call.result].end
    given = ", ".join(["run->control", *(argument_value(command, argument) for argument in call.arguments), *(["&result"] if call.result else []), "&why"])
    out = [f"static int run_{command.stem}(struct control_run *run)\n{{\n"]
    if pairs:
        out.append("\tstruct fathom_control_pair pairs[CONTROL_PAIRS_MAX];\n\tsize_t count;\n")
    if call.result:
        out.append(f"\tstruct fathom_control_{'answers' if call.is_hosts else call.result} *result;\n")
    out.append("\tstruct fathom_fault why;\n")
    if pairs or is_plain:
        out.append("\tint status;\n")
    if pairs:
        out.append(f"\n\tstatus = control_read_pairs(run, {'true' if pairs == 'values' else 'false'}, pairs, &count);\n\tif (status)\n\t\treturn status;")
    out.append(f"\n\tif (fathom_control_{call.name}({given}))\n\t\treturn control_fail(run, &why);\n{end_of_command(table, command)}}}\n")
    return "".join(out)


def group_tables(group):
    """The rows of all its commands, and its function."""
    out = [f"static const struct control_command {group.name}_commands[] = {{\n"]
    for command in group.commands:
        fields = [f".words = {c_string(command.name)}", f".table = &{command.stem}_table", f".run = {command.run or 'run_' + command.stem}"]
        if command.arguments:
            fields += [f".arguments = {c_string(command.arguments)}", f".args_min = {command.args_min}", f".args_max = {command.args_max}"]
        if checks(command):
            fields.append(f".check = check_{command.stem}")
        if command.alone:
            fields.append(".alone = true")
        out.append("\t{ " + ", ".join(fields) + " },\n")
    out.append(f"}};\nstatic const struct option_command {group.name}_words[] = {{\n")
    out += [f"\t{{ .name = {c_string(command.name)}, .help = {c_string(command.help)}, .table = &{command.stem}_table }},\n"
            for command in group.commands]
    name = f"fathom {group.name}"
    about = sentence(group.summary)
    out.append(f"}};\nconst struct option_table {group.name}_table = {{\n\t.name = {c_string(name)},\n\t.usage = \"{name} COMMAND [OPTION...]\",\n"
               f"\t.about = {c_string(about)},\n\tOPTION_ROWS(common_rows),\n\tOPTION_COMMANDS({group.name}_words),\n"
               f"\t.more = \"`{name} COMMAND --help` shows the options of a command.\",\n\t.in_front = true,\n}};\n"
               f"static const struct control_group {group.name}_group = {{\n\t.table = &{group.name}_table,\n\t.commands = {group.name}_commands,\n"
               f"\t.count = ARRAY_COUNT({group.name}_commands),\n}};\n\n"
               f"int cmd_{group.name}(int argc, char **argv)\n{{\n\treturn control_main(&{group.name}_group, argc, argv);\n}}\n")
    return "".join(out)


def source(table):
    out = [MADE, "#include <stdio.h>\n#include <string.h>\n\n#include \"base/bits.h\"\n#include \"cmd/fathom/command.h\"\n#include \"cmd/fathom/control/control.h\"\n#include \"cmd/fathom/show/show.h\"\n\n"
           "static const struct option_row common_rows[] = {\n", *(option_row(option, True) for option in table.common), "\tOPTION_HELP_ROW,\n};\n"]
    for group in table.groups:
        for command in group.commands:
            out += ["\n", option_rows(table, command), option_table(command)]
            if checks(command):
                out += ["\n", checks(command)]
            if command.call:
                out += ["\n", run_function(table, command)]
        out += ["\n", group_tables(group)]
    return "".join(out)
