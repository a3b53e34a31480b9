# SPDX-License-Identifier: BSD-2-Clause
"""client - makes the functions of libfathom-control: they build a request, call, and copy the answer into a result."""

from records import NUMBERS, RETRIES, parameters
from text import MADE, c_string

TAKE = "(void *ctx, const ProtobufCMessage *message)"
TAKE_HOST = "(struct arena *arena, ProtobufCMessage *message, struct fathom_control_answer *answer)"


def copies(table):
    """(record, message) of each function that copies one; a record stands behind those that it contains."""
    done, out = set(), []

    def add(record):
        if record.name in done:
            return
        done.add(record.name)
        for field in record.fields:
            if field.record:
                add(table.records[field.record])
        out.extend((record, message) for message in record.messages)

    for record in table.records.values():
        add(record)
    return out


def copy_prototype(record, message):
    return f"void {record.copy_name(message)}(struct arena *arena, const {message.c_type} *from, {record.struct} *to)"


def headers(table):
    messages = [message for record in table.records.values() for message in record.messages]
    messages += [message for call in table.calls for message in (call.method.request, call.method.answer)]
    return "".join(f"#include \"{header}\"\n" for header in sorted({message.header for message in messages}))


def header(table):
    out = [MADE, "#ifndef CONTROL_CLIENT_CALLS_GEN_H\n#define CONTROL_CLIENT_CALLS_GEN_H\n\n", headers(table),
           "#include \"fathom/control.h\"\n\nstruct arena;\n\n/* Copy a message into a structure of the library; texts and lists live in `arena`. */\n"]
    out += [copy_prototype(record, message) + ";\n" for record, message in copies(table)]
    out.append("\n/* Hand-written: functions that rows of the table name. */\n")
    for record in table.records.values():
        if record.fill:
            out += [f"void {record.fill}(struct arena *arena, const {message.c_type} *from, {record.struct} *to);\n" for message in record.messages]
    for call in table.calls:
        if call.taken_by:
            out.append(f"void {call.taken_by}{TAKE_HOST if call.is_hosts else TAKE};\n")
        if call.build:
            out.append(f"int {call.build}(struct arena *arena, {call.fields_argument.parameters()[0]}, {call.method.request.c_type} *to,\n"
                       "\t\tstruct fathom_fault *why);\n")
        if call.equalize:
            out.append(f"void {call.equalize}({call.method.answer.c_type} *response, struct fathom_control_answer *answer);\n")
    return "".join(out) + "\n#endif\n"


# ---- copying ----

def value_of(fields, base="from"):
    """(the C expression of a path of fields, the condition under which it exists or None)."""
    parts = [base + "->" + fields[0].c_name]
    for field in fields[1:]:
        parts.append(parts[-1] + "->" + field.c_name)
    return parts[-1], parts[-2] if len(parts) > 1 else None


def count_of(fields):
    expression, condition = value_of(fields)
    head, _, name = expression.rpartition("->")
    count = f"{head}->n_{name}"
    return f"{condition} ? {count} : 0" if condition else count


def scalar(field, fields):
    expression, condition = value_of(fields)
    if field.type == "text":
        return f"arena_text(arena, {condition + ' ? ' if condition else ''}{expression}{' : NULL' if condition else ''})"
    if field.type == "enum":
        descriptor = "__".join(snake_words(fields[-1].enum)) + "__descriptor"
        return f"enum_name(&{descriptor}, (int){expression})"
    return f"{condition} ? {expression} : 0" if condition else expression


def snake_words(name):
    import proto
    return [proto.snake(part) for part in name.split(".")]


def list_copy(table, field, fields, message):
    record = table.records[field.record]
    source = fields[-1].message
    sort = f"\t\tif (count > 0)\n\t\t\tqsort(rows, count, sizeof(*rows), compare_{record.name}_by_{field.sorted});\n" if field.sorted else ""
    return (f"\t{{\n\t\tsize_t count = {count_of(fields)};\n\t\t{record.struct} *rows = arena_array(arena, {record.struct}, count);\n\n"
            f"\t\tfor (size_t i = 0; i < count; i++)\n\t\t\t{record.copy_name(source)}(arena, {value_of(fields)[0]}[i], &rows[i]);\n{sort}"
            f"\t\tto->{field.name} = rows;\n\t\tto->{field.count} = count;\n\t}}\n")


def field_copy(table, field, message):
    fields = field.find(message) if field.is_copied else None
    if not fields:
        return f"\tto->{field.name} = \"\";\n" if field.type in ("text", "enum") else ""
    if field.type == "list":
        return list_copy(table, field, fields, message)
    if field.type == "texts" or field.type in NUMBERS:
        expression, condition = value_of(fields)
        values = f"{condition} ? {expression} : NULL" if condition else expression
        return f"\tto->{field.name} = arena_{field.type}(arena, {values}, {count_of(fields)});\n\tto->{field.count} = {count_of(fields)};\n"
    if field.type == "record":
        record = table.records[field.record]
        return (f"\tif ({value_of(fields)[0]})\n"
                f"\t\t{record.copy_name(fields[-1].message)}(arena, {value_of(fields)[0]}, &to->{field.name});\n")
    if field.type == "optional":
        record = table.records[field.record]
        return (f"\tif ({value_of(fields)[0]}) {{\n\t\t{record.struct} *row = arena_array(arena, {record.struct}, 1);\n\n"
                f"\t\t{record.copy_name(fields[-1].message)}(arena, {value_of(fields)[0]}, row);\n\t\tto->{field.name} = row;\n\t}}\n")
    return f"\tto->{field.name} = {scalar(field, fields)};\n"


def comparisons(table):
    out = []
    for record, name in sorted({(table.records[field.record].name, field.sorted) for record in table.records.values()
                                for field in record.fields if field.sorted}):
        row = table.records[record]
        compare = f"strcmp(left->{name}, right->{name})" if row.field(name).type == "text" else \
            f"left->{name} < right->{name} ? -1 : left->{name} > right->{name}"
        out.append(f"static int compare_{record}_by_{name}(const void *a, const void *b)\n{{\n\tconst {row.struct} *left = a, *right = b;\n\n"
                   f"\treturn {compare};\n}}\n\n")
    return out


def copy_function(table, record, message):
    fill = f"\t{record.fill}(arena, from, to);\n" if record.fill else ""
    return (f"{copy_prototype(record, message)}\n{{\n\t*to = ({record.struct}){{ 0 }};\n"
            + "".join(field_copy(table, field, message) for field in record.fields) + fill + "}\n\n")


# ---- calls ----

def take_function(table, call):
    """The function that copies the answer, unless the row names one."""
    if not call.result or call.taken_by:
        return ""
    record, answer = table.records[call.result], call.method.answer
    copy = record.copy_name(answer)
    if not call.is_hosts:
        return f"static void take_{call.name}{TAKE}\n{{\n\t{copy}(result_arena(ctx), (const {answer.c_type} *)message, ctx);\n}}\n\n"
    equalize = f"\t{call.equalize}(({answer.c_type} *)message, answer);\n" if call.equalize else ""
    return (f"static void take_{call.name}{TAKE_HOST}\n{{\n\t{record.struct} *to = arena_array(arena, {record.struct}, 1);\n\n"
            f"\t{copy}(arena, (const {answer.c_type} *)message, to);\n\tanswer->{record.name} = to;\n{equalize}}}\n\n")


def list_argument(table, argument, field):
    """Statements that put a list into the request."""
    rows = argument.name
    if field.kind == "string":
        return (f"\tmessage.{field.c_name} = arena_array(arena, char *, count);\n\tmessage.n_{field.c_name} = count;\n"
                f"\tfor (size_t i = 0; i < count; i++)\n\t\tmessage.{field.c_name}[i] = (char *){rows}[i].name;\n")
    out = [f"\tmessage.{field.c_name} = arena_array(arena, {field.message.c_type} *, count);\n\tmessage.n_{field.c_name} = count;\n"
           f"\tfor (size_t i = 0; i < count; i++) {{\n\t\t{field.message.c_type} *row = arena_array(arena, {field.message.c_type}, 1);\n\n"
           f"\t\t{field.message.c_stem}__init(row);\n"]
    for member in table.records[argument.record].fields:
        found = member.find(field.message)
        if found:
            value = f"{rows}[i].{member.name}"
            out.append(f"\t\trow->{found[-1].c_name} = " + (f"(char *)({value} ? {value} : \"\")" if member.type == "text" else value) + ";\n")
    return "".join(out) + f"\t\tmessage.{field.c_name}[i] = row;\n\t}}\n"


def fields_argument(table, argument, request):
    """Statements that copy the fields of a record into those of the request with the same names."""
    out = []
    for member in table.records[argument.record].fields:
        found = member.find(request)
        if found:
            value = f"{argument.name}->{member.name}"
            out.append(f"\tmessage.{found[-1].c_name} = " + (f"(char *)({value} ? {value} : \"\")" if member.type == "text" else value) + ";\n")
    return "".join(out)


def fill_request(table, call):
    """Statements that fill the message."""
    fields, out = call.method.request.fields, []
    if "sys" in fields:
        out.append("\tmessage.sys = control->system;\n")
    if call.has_choice:
        out.append("\tset_choice(message, chosen);\n")
    for argument in call.arguments:
        field = fields.get(argument.field)
        if argument.type == "list":
            out.append(list_argument(table, argument, field))
        elif argument.type == "fields":
            out.append(fields_argument(table, argument, call.method.request))
        elif argument.type == "text" and field:
            out.append(f"\tmessage.{field.c_name} = (char *)({argument.name} ? {argument.name} : \"\");\n")
        elif argument.type != "choice" and field:
            out.append(f"\tmessage.{field.c_name} = {argument.name};\n")
    for name, expression in call.sets:
        out.append(f"\t{'' if '.' in name else 'message.'}{name} = {expression};\n")
    out += [f"\tmessage.{part} = &{part};\n" for part in call.parts]
    if call.progress:
        out.append("\tprogress.sys = control->system;\n\tset_choice(progress, chosen);\n\tprogress.state_mask = ALL_STATES;\n")
    return "".join(out)


def request_fields(call):
    fields = [f".path = \"/{call.path}\"", f".name = {call.name_expression or c_string(call.request_name)}", ".message = &message.base",
              f".response = &{call.method.answer.c_stem}__descriptor"]
    if not call.is_hosts:
        fields.append(f".again = {RETRIES[call.retry]}")
    if call.wait:
        fields.append(f".extra_ns = {call.wait}")
    if call.progress:
        fields += [".progress_query = &progress.base", f".progress_state = {c_string(call.progress)}"]
    return ",\n\t\t".join(fields)


def end_call(call):
    take = call.taken_by or f"take_{call.name}"
    if call.is_hosts:
        return "\terror = call_hosts(control, &request, ret, why);\n"
    if call.result:
        return f"\tresult = result_create(sizeof(*result));\n\terror = service_result(control, &request, {take}, result, (void **)ret, why);\n"
    return "\terror = service_call(control, &request, take_nothing, NULL, why);\n"


def build_request(call):
    """Call the function of the row `build`."""
    if not call.build:
        return ""
    return (f"\terror = {call.build}(arena, {call.fields_argument.name}, &message, why);\n"
            "\tif (error) {\n\t\tarena_destroy(arena);\n\t\treturn error;\n\t}\n")


def call_function(table, call):
    request = call.method.request
    has_arena = any(argument.type == "list" for argument in call.arguments) or call.build
    out = [f"int fathom_control_{call.name}({', '.join(parameters(call))})\n{{\n\t{request.c_type} message = {request.c_init};\n"]
    out += [f"\t{request.fields[part].message.c_type} {part} = {request.fields[part].message.c_init};\n" for part in call.parts]
    if call.progress:
        out.append("\tMgmt__SystemQueryReq progress = MGMT__SYSTEM_QUERY_REQ__INIT;\n")
    if call.is_hosts:
        out.append(f"\tstruct hosts_request request = {{ .request = {{\n\t\t{request_fields(call)} }},\n"
                   f"\t\t.take = {call.taken_by or 'take_' + call.name} }};\n")
    else:
        out.append(f"\tstruct request request = {{\n\t\t{request_fields(call)} }};\n")
    if call.result and not call.is_hosts:
        out.append(f"\tstruct fathom_control_{call.result} *result;\n")
    out.append(("\tstruct arena *arena;\n" if has_arena else "") + ("\tstruct chosen chosen;\n" if call.has_choice else "") + "\tint error;\n\n")
    for check in ([call.before] if call.before else []) + (["choose(control, choice, &chosen, why)"] if call.has_choice else []):
        out.append(f"\terror = {check};\n\tif (error)\n\t\treturn error;\n")
    out += ["\tarena = arena_create();\n" if has_arena else "", fill_request(table, call), build_request(call), end_call(call),
            "\tarena_destroy(arena);\n" if has_arena else "", "\tchosen_free(&chosen);\n" if call.has_choice else "", "\treturn error;\n}\n\n"]
    return "".join(out)


def source(table):
    out = [MADE, "#include \"control/client/calls.gen.h\"\n\n#include <stdlib.h>\n#include <string.h>\n\n#include \"base/clock.h\"\n"
           "#include \"control/client/internal.h\"\n\n", *comparisons(table)]
    out += [copy_function(table, record, message) for record, message in copies(table)]
    if any(not call.result for call in table.calls):
        out.append(f"static void take_nothing{TAKE}\n{{\n}}\n\n")
    for call in table.calls:
        out += [take_function(table, call), call_function(table, call)]
    return "".join(out).rstrip("\n") + "\n"
