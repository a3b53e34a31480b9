#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
generate - turns methods.def into the engine's decoders, the commands of `fathom rpc`, and a page.

    generate.py --engine DIR DEF      methods.gen.h: a structure of parameters and a prototype for each method
                                      methods.gen.c: their decoders and the rows for rpc_register()
                                      methods_defaults.gen.inc: the defaults that the page shows, for a test
    generate.py --commands DIR DEF    rpc_commands.gen.c: commands, options, help
                                      rpc_options.gen.inc: the same for completion, as cmd/options/options.h wants it
    generate.py --page DEF            docs/json-rpc.md, on standard output; `make method-page` writes it

methods.def explains its lines. An error names file and line, and no file is written.
"""

import os
import sys

import method_table

C_TYPES = {"bool": "bool", "u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t", "i32": "int32_t",
           "string": "const char *", "strings": "const json_t *", "enum": "int"}
RPC_TYPES = {"bool": "RPC_BOOL", "u8": "RPC_U8", "u16": "RPC_U16", "u32": "RPC_U32", "u64": "RPC_U64", "i32": "RPC_I32",
             "string": "RPC_STRING", "strings": "RPC_JSON", "enum": "RPC_ENUM", "object": "RPC_OBJECT", "list": "RPC_NAMES",
             "uuid": "RPC_UUID", "hex": "RPC_HEX", "text": "RPC_TEXT"}
STATES = {"startup": "RPC_STARTUP", "runtime": "RPC_RUNTIME", "always": "RPC_ALWAYS"}
WHEN = {"startup": "before `framework_start_init`", "runtime": "after `framework_start_init`", "always": ""}
PAGE_HEAD = """\
# JSON-RPC methods

<!-- Made from src/rpc/methods/methods.def by src/rpc/methods/generate.py: `make method-page`. -->

`fathom-engine` serves these methods on its control socket. `docs/life-of-an-rpc.md` explains how a request travels, and how to add a
method. `fathom rpc METHOD --help` prints the options; `fathom rpc METHOD --params '{...}'` calls any method.

- A method is allowed at any time, unless its text says "after `framework_start_init`". A configuration file may contain it, unless its text
  says "not in a configuration".
- Unknown parameters and wrong types are rejected with code -32602. The message names the parameter.
- *default*: the value of a parameter that is absent. In code style it is a value, otherwise its description. *none*: nothing is set.
- *ignored*: SPDK has this parameter, Fathom does not have what it tunes. The engine logs this once.
- *rejected*: only the default is accepted. Any other value is rejected with the reason in its row.
- u64 also accepts a string of digits. Enums ignore case.
"""


def c_string(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' if text is not None else "NULL"


# ---- for the engine ----


def struct_of(method):
    return method.name + "_params"


def members(params):
    """(C declaration) of what the decoder fills, without the fields of the target's structures."""
    for param in params:
        if param.is_dropped or param.client_only or "in" in param.values:
            continue
        if param.kind == "object":
            yield f"struct {param.of.struct or param.of.name + '_params'} {param.name};"
        elif param.kind in ("uuid", "hex"):
            yield f"uint8_t {param.name}[{16 if param.kind == 'uuid' else param.of}];"
        elif param.kind == "text":
            yield f"char {param.name}[{param.of + 1}];"
        else:
            ctype = C_TYPES[param.kind]
            yield f"{ctype}{'' if ctype.endswith('*') else ' '}{param.name};"


def field_type(param):
    if param.kind in ("uuid", "hex"):
        return f"uint8_t[{16 if param.kind == 'uuid' else param.of}]"
    if param.kind == "text":
        return f"char[{param.of + 1}]"
    return C_TYPES[param.kind]


def row(param, struct, used_fields):
    """The initialiser of a struct rpc_param."""
    parts = [f'.name = "{param.name}"', f".type = {RPC_TYPES[param.kind]}"]
    place = f"{param.values['in']}.{param.name}" if "in" in param.values else param.name
    if param.kind == "object":
        inner = f"struct_{param.of.name}_fields"
        used_fields.append(param.of)
        parts.append(f".fields = {inner}")
        if not param.is_dropped:
            parts.append(f".offset = offsetof(struct {struct}, {place})")
    elif not param.is_dropped:
        parts.append(f".offset = RPC_FIELD({struct}, {place}, {field_type(param)})")
    if param.kind in ("enum", "list"):
        parts.append(f".names = names_of_{param.of.name}")
    if param.kind in ("hex", "text"):
        parts.append(f".bytes = {param.of + (1 if param.kind == 'text' else 0)}")
    for word in ("required", "ignored"):
        if param.has(word):
            parts.append(f".{word} = true")
    if "range" in param.values:
        low, high = param.values["range"].split("..")
        parts += [".has_range = true", f".low = {low}", f".high = {high}"]
    if param.has("rejected") or "rejects" in param.values:
        parts.append(f".reason = {c_string(param.text)}")
        if "rejects" in param.values:
            parts.append(f".rejected_value = {c_string(param.values['rejects'])}")
        elif "default" in param.values:
            parts.append(f".allowed_value = {c_string(param.values['default'])}")
        parts.append(".rejected = true")
    return "\t{ " + ", ".join(parts) + " },"


def rows(params, struct, used):
    return [row(param, struct, used) for param in params if not param.client_only] + ["\t{ .name = NULL },"]


def fields_of_objects(objects):
    out = []
    for obj in objects:
        struct = obj.struct or obj.name + "_params"
        out += [f"static const struct rpc_param struct_{obj.name}_fields[] = {{", *rows(obj.params, struct, []), "};", ""]
    return out


def initialiser(param):
    value = param.values.get("absent", param.values.get("default"))
    if value is None or param.is_dropped or param.client_only or "in" in param.values or param.kind == "string":
        return None
    return f".{param.name} = " + (f"RPC_{param.of.name}_{value}".upper() if param.kind == "enum" else value)


def glue(method):
    """The function that rpc_register() gets: it decodes and calls the engine's function."""
    name, out = method.name, [f"static void call_{method.name}(struct rpc_request *request, const json_t *params)", "{"]
    if "ignored" in method.words:
        return [*out, "\tstatic bool logged;", "", f"\taccept_ignored_method(request, params, {name}_fields, &logged);", "}", ""]
    if not method.wire_params:
        return [*out, "\tif (rpc_params(request, params, NULL, NULL))", f"\t\tmethod_{name}(request);", "}", ""]
    defaults = [text for text in map(initialiser, method.params) if text]
    out += [f"\tstruct {struct_of(method)} p = {{ {', '.join(defaults) or '0'} }};", ""]
    out += [f"\t{init}(&p.{field});" for field, (_, init) in method.structs.items() if init]
    out += [f"\t{param.of.init}(&p.{param.name});" for param in method.wire_params if param.kind == "object" and param.of.init]
    checks = "".join(f" && {param.values['check']}(request, p.{param.name})" for param in method.wire_params if "check" in param.values)
    return [*out, f"\tif (rpc_params(request, params, {name}_fields, &p){checks})", f"\t\tmethod_{name}(request, &p);", "}", ""]


def engine_methods(table):
    return [method for method in table.methods if method.state]


def enums_of(methods):
    """The enums whose values the engine's functions see."""
    return list({param.of.name: param.of for method in methods for param in method.wire_params
                 if param.kind == "enum" and not param.is_dropped}.values())


def plain_objects(methods):
    """Objects that are no structure of the target, among the parameters that are kept."""
    return list({param.of.name: param.of for method in methods for param in method.wire_params
                 if param.kind == "object" and not param.is_dropped and not param.of.struct}.values())


def header(table):
    own = [method for method in engine_methods(table) if not method.like and "ignored" not in method.words]
    out = ["/* Made from src/rpc/methods/methods.def by generate.py. */", "#ifndef ENGINE_METHODS_GEN_H", "#define ENGINE_METHODS_GEN_H", ""]
    out += [f'#include "{path}"' for path in [*table.includes, "rpc/jsonrpc/rpc.h"]] + [""]
    for enum in enums_of(own):
        out += [f"enum rpc_{enum.name} {{"] + [f"\tRPC_{enum.name}_{value},".upper() for value in enum.values] + ["};", ""]
    for obj in plain_objects(own):
        out += [f"struct {obj.name}_params {{", *("\t" + member for member in members(obj.params)), "};", ""]
    for method in own:
        out.append(f"/* {method.does} */")
        if not method.wire_params:
            out += [f"void method_{method.name}(struct rpc_request *request);", ""]
            continue
        out += [f"struct {struct_of(method)} {{"]
        out += ["\t" + member for member in members(method.params)]
        out += [f"\tstruct {struct} {field};" for field, (struct, _) in method.structs.items()]
        out += ["};", f"void method_{method.name}(struct rpc_request *request, const struct {struct_of(method)} *p);", ""]
    out += ["extern const struct rpc_method engine_methods[], engine_test_methods[]; /* for rpc_register() */",
            "extern const size_t engine_method_count, engine_test_method_count;", "", "#endif", ""]
    return "\n".join(out)


def method_rows(methods, name, count):
    out = [f"const struct rpc_method {name}[] = {{"]
    for method in methods:
        states = STATES[method.state] + (" | RPC_CLIENTS_ONLY" if "clients" in method.words else "")
        states += " | RPC_CHANGES" if "changes" in method.words else ""
        out.append(f'\t{{ "{method.name}", {states}, call_{(method.like or method).name} }},')
    return [*out, "};", f"const size_t {count} = ARRAY_COUNT({name});", ""]


def source(table):
    methods = engine_methods(table)
    own = [method for method in methods if not method.like]
    objects, bodies = [], []
    for method in own:
        if method.wire_params:
            bodies += [f"static const struct rpc_param {method.name}_fields[] = {{", *rows(method.params, struct_of(method), objects), "};", ""]
        bodies += glue(method)
    used = list({obj.name: obj for obj in objects}.values())
    out = ["/* Made from src/rpc/methods/methods.def by generate.py. */", '#include "data/engine/methods.gen.h"', "",
           '#include "base/bits.h"', '#include "data/engine/rpc/nvmf.h"', ""]
    names = {param.of.name: param.of for holder in [*own, *used] for param in holder.params if param.kind in ("enum", "list")}
    for enum in names.values():
        out.append(f"static const char *const names_of_{enum.name}[] = {{ {', '.join(map(c_string, enum.values))}, NULL }};")
    out += ["", *fields_of_objects(used), *bodies]
    out += method_rows([method for method in methods if "test" not in method.words], "engine_methods", "engine_method_count")
    out += method_rows([method for method in methods if "test" in method.words], "engine_test_methods", "engine_test_method_count")
    return "\n".join(out)


def defaults(table):
    """DEFAULT(FIELD of a target's structure, its default), grouped by the structure: for the test that compares both."""
    out = []
    for method in engine_methods(table):
        for field, (struct, init) in method.structs.items():
            if not init:
                continue
            fields = [param for param in method.params if param.values.get("in") == field and param.kind != "text"]
            out.append(f"STRUCT({struct}, {init}, " + " ".join(f"DEFAULT({param.name}, {param.values.get('default', '0')})" for param in fields) + ")")
    return "\n".join(out) + "\n"


# ---- for `fathom rpc` ----


def help_of(param):
    """None: not shown."""
    if not param.is_offered:
        return None
    text = ": ".join(filter(None, ["ignored" if param.has("ignored") else "", param.text]))
    if param.unit:
        text += f", in {param.unit}"
    if "range" in param.values:
        text += "; " + param.values["range"].replace("..", " to ")
    if choices_of(param):
        text += "; one of " + choices_of(param).replace(" ", ", ")
    if "default" in param.values and param.kind != "bool":
        text += f"; default {param.values['default']}"
    return text


def arg_type(param):
    if param.kind == "bool":
        return "FALSE" if param.has("opposite") else "YES_NO" if param.has("yes-no") else "TRUE"
    if param.kind in method_table.NUMBERS:
        return "HEX" if param.has("hex") else "BYTES" if param.has("size") else "INT"
    return {"float": "FLOAT", "list": "LIST", "strings": "LIST"}.get(param.kind, "STRING")


def choices_of(param):
    if param.kind in ("enum", "list"):
        return " ".join(param.of.values)
    return param.values["choices"].replace(",", " ") if "choices" in param.values else None


def args(params, group=None):
    out = []
    for param in params:
        if param.has("no-option"):
            continue
        if param.kind == "object":
            out += args(param.of.params, param.name)
            continue
        parts = [f'.key = "{param.name}"', f".type = RPC_ARG_{arg_type(param)}"]
        if not param.has("positional"):
            long_flag = param.long_flag or "--" + param.name.replace("_", "-")
            parts += ([f'.flag = "{param.flag}"'] if param.flag else []) + [f'.long_flag = "{long_flag}"']
        if group:
            parts.append(f'.group = "{group}"')
        for word, field in (("required", "required"), ("send-false", "send_false")):
            if param.has(word):
                parts.append(f".{field} = true")
        if choices_of(param):
            parts.append(f".choices = {c_string(choices_of(param))}")
        if param.is_offered:
            parts.append(f".help = {c_string(help_of(param))}")
        out.append("\t{ " + ", ".join(parts) + " },")
    return out


def shown_commands(table):
    return sorted((method for method in table.methods if "no-command" not in method.words), key=lambda method: method.name)


def commands(table):
    out = ["/* Made from src/rpc/methods/methods.def by generate.py. In alphabetical order. */", '#include "base/bits.h"',
           '#include "cmd/fathom/rpc/client.h"', ""]
    shown = shown_commands(table)
    for method in shown:
        if method.params:
            out += [f"static const struct rpc_arg {method.name}_args[] = {{", *args(method.params), "\t{ .key = NULL },", "};", ""]
    out.append("const struct rpc_command rpc_commands[] = {")
    for method in shown:
        parts = [f'.name = "{method.name}"', f".help = {c_string(method.does)}"]
        parts += [f".args = {method.name}_args"] if method.params else []
        parts.append(f".output = RPC_OUTPUT_{ {'none': 'NONE', 'json': 'JSON', 'text': 'RAW'}[method.result]}")
        parts += [f".{field} = {value}" for field, value in (("adjust", method.adjust), ("run", method.run)) if value]
        out.append("\t{ " + ", ".join(parts) + " },")
    return "\n".join([*out, "};", "const size_t rpc_command_count = ARRAY_COUNT(rpc_commands);", ""])


def offered_rows(params):
    """Rows of struct option_row for the options that the help shows."""
    for param in params:
        if param.kind == "object":
            yield from offered_rows(param.of.params)
        if param.kind == "object" or not param.is_offered or param.has("positional"):
            continue
        name = (param.long_flag or "--" + param.name.replace("_", "-"))[2:]
        parts = [f'.name = "{name}"', f".help = {c_string(help_of(param))}"]
        if param.flag and len(param.flag) == 2:
            parts.append(f".letter = '{param.flag[1]}'")
        takes_value = arg_type(param) not in ("TRUE", "FALSE", "YES_NO")
        parts.append('.type = OPTION_TEXT, .argument = "VALUE"' if takes_value else ".type = OPTION_FLAG")
        if takes_value and choices_of(param):
            parts.append(f".values = {c_string(choices_of(param))}")
        yield "\t{ " + ", ".join(parts) + " },"
        if param.has("yes-no"):
            yield f'\t{{ .name = "no-{name}", .type = OPTION_FLAG, .help = {c_string(help_of(param))} }},'


def operands_of(params):
    """What completion offers for the positional arguments."""
    for param in params:
        if param.has("positional") and choices_of(param):
            return choices_of(param)
        if param.has("positional") and param.name == "filename":
            return "@files"
    return None


def options(table):
    out, rows = ["/* Made from src/rpc/methods/methods.def by generate.py. For completion. */"], []
    for method in shown_commands(table):
        offered = list(offered_rows(method.params))
        if offered:
            out += [f"static const struct option_row {method.name}_rows[] = {{", *offered, "};"]
        out += [f"static const struct option_table {method.name}_table = {{", f'\t.name = "fathom rpc {method.name}",']
        out += [f"\tOPTION_ROWS({method.name}_rows),"] if offered else []
        out += [f"\t.operands = {c_string(operands_of(method.params))},", "};", ""]
        rows.append(f'\t{{ .name = "{method.name}", .help = {c_string(method.does)}, .table = &{method.name}_table }},')
    return "\n".join([*out, "static const struct option_command rpc_option_commands[] = {", *rows, "};", ""])


# ---- the page ----


def cell(text):
    return text.replace("|", "\\|")


def type_cell(param):
    unit = f", {param.unit}" if param.unit else ""
    if param.kind == "enum":
        return ", ".join(f"`{value}`" for value in param.of.values)
    if param.kind == "list":
        return "array of " + ", ".join(f"`{value}`" for value in param.of.values)
    return {"strings": "array of strings", "hex": "string", "text": "string"}.get(param.kind, param.kind) + unit


def option_cell(param, no_command):
    if no_command or param.has("no-option") or param.kind == "object" or param.has("hidden") or param.has("rejected"):
        return ""
    if param.has("positional"):
        return "by position"
    long_flag = param.long_flag or "--" + param.name.replace("_", "-")
    return " ".join(f"`{flag}`" for flag in (param.flag, long_flag) if flag)


def default_cell(param):
    """What an absent parameter means. One that is ignored has no default; an object's parameters have theirs."""
    if param.has("required"):
        return "required"
    if "default" in param.values:
        return f"`{param.values['default']}`"
    if param.default_words:
        return param.default_words
    if param.has("ignored") or param.kind == "object":
        return ""
    if param.kind == "bool":
        return "`false`"
    return "`0`" if param.kind in method_table.NUMBERS else "none"


def meaning_cell(param):
    if param.has("rejected"):
        return "*rejected:* " + param.text
    if "rejects" in param.values:
        return f"*`{param.values['rejects']}` is rejected:* {param.text}"
    if param.has("ignored"):
        return "*ignored*" + (": " + param.text if param.text else "")
    return param.text_without_default + (f"; {param.values['range'].replace('..', ' to ')}" if "range" in param.values else "")


def page_rows(params, no_command, prefix=""):
    for param in params:
        if param.client_only:
            continue
        cells = [f"`{prefix}{param.name}`", type_cell(param), default_cell(param), option_cell(param, no_command), meaning_cell(param)]
        yield "| " + " | ".join(map(cell, cells)) + " |"
        if param.kind == "object":
            yield from page_rows(param.of.params, no_command, prefix + param.name + ".")


def page_method(method):
    facts = [WHEN[method.state]]
    facts.append("not in a configuration" if "clients" in method.words else "")
    facts.append("kept by `--state`" if "changes" in method.words and "clients" not in method.words else "")
    facts.append("only with `--test-methods`" if "test" in method.words else "")
    facts.append("accepted and ignored" if "ignored" in method.words else "")
    result = {"none": "true", "json": "JSON", "text": "text"}[method.result]
    result = f"`{method.result_text}`" if method.result_text.startswith("{") else method.result_text or result
    sentence = method.does[0].upper() + method.does[1:] + "."
    if any(facts):
        sentence += " " + ", ".join(filter(None, facts)).capitalize() + "."
    out = [f"### {method.name}", "", f"{sentence} Result: {result}.", ""]
    if method.wire_params:
        out += ["| parameter | type | default | option | meaning |", "|---|---|---|---|---|",
                *page_rows(method.params, "no-command" in method.words), ""]
    return out


def page(table):
    out = [PAGE_HEAD]
    for section in table.sections:
        out += [f"## {section}", ""]
        for method in table.methods:
            if method.section == section and method.state:
                out += page_method(method)
    return "\n".join(out).rstrip("\n") + "\n"


def write_files(folder, files):
    for name, text in files.items():
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)


def main(arguments):
    try:
        table = method_table.read(arguments[-1]) if arguments else None
    except method_table.TableError as error:
        print(error, file=sys.stderr)
        return 1
    if len(arguments) == 2 and arguments[0] == "--page":
        sys.stdout.write(page(table))
    elif len(arguments) == 3 and arguments[0] == "--engine":
        write_files(arguments[1], {"methods.gen.h": header(table), "methods.gen.c": source(table),
                                   "methods_defaults.gen.inc": defaults(table)})
    elif len(arguments) == 3 and arguments[0] == "--commands":
        write_files(arguments[1], {"rpc_commands.gen.c": commands(table), "rpc_options.gen.inc": options(table)})
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
