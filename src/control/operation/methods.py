# SPDX-License-Identifier: BSD-2-Clause
"""methods - makes the servers' tables of gRPC methods, their prototypes, and the rows of absent methods."""

from text import MADE, c_string

ARRAYS = {"mgmt": "mgmt_methods", "server": "host_methods"}
FOLDERS = {"mgmt": "control/mgmt", "server": "control/server/core"}


def of_place(table, place):
    return [method for method in table.methods if method.place == place]


def header(table, place):
    """Prototypes of the functions, and the table's declaration."""
    guard = FOLDERS[place].upper().replace("/", "_") + "_METHODS_GEN_H"
    out = [MADE + f"#ifndef {guard}\n#define {guard}\n\n#include \"rpc/grpc/grpc.h\"\n\n"]
    for method in of_place(table, place):
        out.append(f"/* {method.path}: {method.request.name}, answered with {method.answer.name} */\n"
                   f"void {method.function}(struct grpc_call *call, const ProtobufCMessage *request);\n")
    array = ARRAYS[place]
    out.append(f"\nextern const struct grpc_method {array}[];\nextern const size_t {array[:-1]}_count;\n\n#endif\n")
    return "".join(out)


def source(table, place):
    rows = of_place(table, place)
    headers = sorted({message.header for method in rows for message in (method.request, method.answer)})
    out = [MADE, f"#include \"{FOLDERS[place]}/methods.gen.h\"\n\n", *(f"#include \"{header}\"\n" for header in headers),
           f"\nconst struct grpc_method {ARRAYS[place]}[] = {{\n"]
    for method in rows:
        roles = " | ".join("GRPC_ROLE_" + role.upper() for role in method.roles)
        out.append(f"\t{{ {c_string('/' + method.path)}, &{method.request.c_stem}__descriptor, &{method.answer.c_stem}__descriptor, {roles},"
                   f" {method.function} }},\n")
    out.append(f"}};\nconst size_t {ARRAYS[place][:-1]}_count = {len(rows)};\n")
    return "".join(out)


def absent_rows(table):
    """Rows for control/mgmt/absent.c: path, field, whether the path has a method, command, reason, instead."""
    present = {method.path for method in table.methods}
    return "".join(f"{{ {c_string('/' + row.path)}, {row.field}, {'true' if row.path in present else 'false'}, {c_string(row.command)},"
                   f" {c_string(row.reason.why)}, {c_string(row.reason.instead)} }},\n" for row in table.absent)


def roles_page(table):
    """Who may call what: the table in docs/control-plane.md."""
    lines = ["| call | admin | agent | server |\n", "|---|---|---|---|\n"]
    for method in sorted(table.methods, key=lambda method: method.path.split("/")[0]):
        lines.append(f"| `/{method.path}` | " + " | ".join("yes" if role in method.roles else "" for role in ("admin", "agent", "server")) + " |\n")
    return "".join(lines)


def method_list(table):
    return "".join(f"{method.path} {' '.join(method.roles)}\n" for method in table.methods)


def answer_list(table):
    return "".join(f"{method.path} {method.answer.name}\n" for method in table.methods)


def absent_list(table):
    return "".join(f"{row.path} {row.field} {row.command}\n" for row in table.absent)


def fault_list(table):
    """Each method with the codes of all faults that it can answer."""
    return "".join(" ".join([method.path, *(str(table.fault_codes[name]) for name in table.general_faults + method.faults)]) + "\n"
                   for method in table.methods)
