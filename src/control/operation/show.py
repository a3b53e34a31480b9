# SPDX-License-Identifier: BSD-2-Clause
"""show - makes the JSON of results, and tables of records."""

from records import NUMBERS
from text import MADE, c_string

FORMATS = {  # the C expression of a cell; `text` is its buffer
    "size": "size_text({value}, {text})",
    "time": "time_text({value}, {text})",
    "node": "node_text({value}, {text})",
    "speed": "speed_text({value}, {text})",
    "rank": "rank_text({value}, {text})",
    "pid": "pid_text({value}, {text})",
    "state": "state_title({value})",
    "joined": "joined_text({value}, {row}.{count}, {text})",
}
CONSTANTS = {"null": "json_null()", "false": "json_false()", '""': "json_text(\"\")", "0": "json_integer(0)"}


def with_json(table):
    return [record for record in table.records.values() if record.json or record.json_list]


def with_columns(table):
    return [record for record in table.records.values() if record.columns]


def with_answers(table):
    return [record for record in table.records.values() if record.json_answers]


def json_prototype(record):
    return f"json_t *json_of_{record.name}(const {record.struct} *from)"


def table_prototype(record):
    return f"void table_of_{record.name}(const {record.struct} *rows, size_t count, size_t columns, unsigned int indent, FILE *out)"


def with_table(table):
    return [record for record in table.records.values() if record.table]


def show_prototype(record):
    return f"void show_{record.name}(const {record.struct} *from, FILE *out)"


def answers_prototype(record):
    return f"json_t *json_of_{record.name}_answers(const struct fathom_control_answers *answers)"


def header(table):
    out = [MADE, "#ifndef CMD_FATHOM_SHOW_SHOW_GEN_H\n#define CMD_FATHOM_SHOW_SHOW_GEN_H\n\n#include <jansson.h>\n#include <stdio.h>\n\n"
           "#include \"fathom/control.h\"\n\n/* The JSON of a record. */\n", *(json_prototype(record) + ";\n" for record in with_json(table)),
           "\n/* The JSON of the answers of hosts: errors, and the record of each group of hosts. */\n",
           *(answers_prototype(record) + ";\n" for record in with_answers(table)),
           "\n/* Print `count` rows as a table of the first `columns` columns; 0: of all. */\n",
           *(table_prototype(record) + ";\n" for record in with_columns(table))]
    if with_table(table):
        out += ["\n/* Print a result as its table. */\n", *(show_prototype(record) + ";\n" for record in with_table(table))]
    out += ["\n/* Hand-written: functions that rows of the table name. */\n"]
    for record in with_json(table):
        out += [f"json_t *{key.function}(const {record.struct} *from);\n" for key in record.json or [] if key.function]
    return "".join(out) + "\n#endif\n"


# ---- JSON ----

def value(record, key):
    """The C expression of a key's value, of the type json_t *."""
    if key.function:
        return f"{key.function}(from)"
    if key.constant:
        return CONSTANTS[key.constant]
    field = record.field(key.field)
    member = f"from->{field.name}"
    if key.mark == "|no_rank":
        return f"{member} == FATHOM_CONTROL_NO_RANK ? json_null() : json_integer({member})"
    if field.type == "list":
        rows = f"rows_of_{field.record}({member}, from->{field.count})"
        return rows if key.mark == "[]" else f"or_null({rows})"
    if field.type == "optional":
        return f"{member} ? json_of_{field.record}({member}) : json_null()"
    if field.type == "record":
        return f"json_of_{field.record}(&{member})"
    forms = {"text": "json_text({})", "enum": "json_text({})", "bool": "json_boolean({})", "texts": "list_of_texts({}, from->" + str(field.count) + ")",
             **{kind: f"list_of_{kind}({{}}, from->{field.count})" for kind in NUMBERS}}
    return forms.get(field.type, "json_integer((json_int_t){})").format(member)


def listed(table):
    """Records that are in a list of a JSON object."""
    names = [record.field(key.field).record for record in with_json(table) for key in record.json or []
             if not key.function and not key.constant and record.field(key.field).type == "list"]
    names += [record.field(record.json_list).record for record in with_json(table) if record.json_list and record.field(record.json_list).type == "list"]
    return [record for record in with_json(table) if record.name in names]


def rows_function(record):
    return (f"static json_t *rows_of_{record.name}(const {record.struct} *rows, size_t count)\n{{\n\tjson_t *list = json_array();\n\n"
            f"\tfor (size_t i = 0; i < count; i++)\n\t\tappend(list, json_of_{record.name}(&rows[i]));\n\treturn list;\n}}\n\n")


def json_function(record):
    if record.json_list:
        field = record.field(record.json_list)
        made = f"json_text(from->{field.name})" if field.type == "text" else f"list_of_texts(from->{field.name}, from->{field.count})" if field.type == "texts" else \
            f"rows_of_{field.record}(from->{field.name}, from->{field.count})"
        return f"{json_prototype(record)}\n{{\n\treturn {made};\n}}\n\n"
    out = [f"{json_prototype(record)}\n{{\n\tjson_t *object = json_object();\n\n"]
    for key in record.json:
        if key.mark == "?":
            out.append(f"\tif (from->{key.field}[0])\n\t")
        out.append(f"\tput(object, {c_string(key.key)}, {value(record, key)});\n")
    return "".join(out) + "\treturn object;\n}\n\n"


def answers_function(record):
    name, hosts, body = record.json_answers
    return (f"static json_t *body_of_{record.name}(const struct fathom_control_answer *answer)\n{{\n"
            f"\treturn json_of_{record.name}(answer->{record.name});\n}}\n\n{answers_prototype(record)}\n{{\n"
            f"\treturn json_answers(answers, {c_string(name)}, {c_string(hosts)}, {c_string(body)}, body_of_{record.name});\n}}\n\n")


# ---- tables ----

def cell(record, column, place):
    field = record.field(column.field)
    text, row = f"texts[{place}]", "rows[i]"
    if column.format:
        return FORMATS[column.format].format(value=f"{row}.{field.name}", text=text, row=row, count=field.count)
    if field.type in ("text", "enum"):
        return f"{row}.{field.name}"
    if field.type in ("i32", "i64"):
        return f"integer_text({row}.{field.name}, {text})"
    return f"number_text({row}.{field.name}, {text})"


def table_function(record):
    titles = ", ".join(c_string(column.title) for column in record.columns)
    cells = ",\n\t\t\t".join(cell(record, column, place) for place, column in enumerate(record.columns))
    return (f"{table_prototype(record)}\n{{\n\tstatic const char *const titles[] = {{ {titles} }};\n"
            f"\tstruct table *table = titled(titles, columns ? columns : ARRAY_COUNT(titles));\n\n"
            f"\tfor (size_t i = 0; i < count; i++) {{\n\t\tchar texts[{len(record.columns)}][CELL_BYTES];\n\n"
            f"\t\tadd_row(table, (const char *[]){{\n\t\t\t{cells} }});\n\t}}\n\tfinish_table(table, indent, out);\n}}\n\n")


def show_function(record):
    field = record.field(record.table)
    return f"{show_prototype(record)}\n{{\n\ttable_of_{field.record}(from->{field.name}, from->{field.count}, 0, 0, out);\n}}\n\n"


def source(table):
    out = [MADE, "#include \"cmd/fathom/show/show.gen.h\"\n\n#include \"base/bits.h\"\n#include \"cmd/fathom/show/parts.h\"\n"
           "#include \"cmd/fathom/show/show.h\"\n\n"]
    out += [rows_function(record) for record in listed(table)]
    out += [json_function(record) for record in with_json(table)]
    out += [answers_function(record) for record in with_answers(table)]
    out += [table_function(record) for record in with_columns(table)]
    out += [show_function(record) for record in with_table(table)]
    return "".join(out).rstrip("\n") + "\n"
