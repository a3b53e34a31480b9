#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
generate - makes code and pages from the table of operations, the *.def files of this folder. table.py describes the rows.

    generate.py --make WHAT --outdir DIR [DEF...]   files for the build; WHAT: mgmt, server, client, commands, show
    generate.py --print WHAT [DEF...]               on standard output; WHAT: method-list, absent-list, fault-list,
                                                    answer-list, for tests
    generate.py --write                             the pages that lie in the tree: `make operation-pages`
    generate.py --check                             print which of them differ from the table

Without DEF it reads all *.def files beside it. An error names file and line; no file is written in that case.
"""

import argparse
import os
import re
import sys

import client
import commands
import dmg
import library
import manual
import methods
import reference
import show
import table

TOP = os.path.join(table.HERE, "../../..")
MAKES = {  # what: {file: its text}
    "mgmt": {"methods.gen.h": lambda rows: methods.header(rows, "mgmt"), "methods.gen.c": lambda rows: methods.source(rows, "mgmt"),
             "absent.gen.inc": methods.absent_rows},
    "server": {"methods.gen.h": lambda rows: methods.header(rows, "server"), "methods.gen.c": lambda rows: methods.source(rows, "server")},
    "client": {"calls.gen.h": client.header, "calls.gen.c": client.source},
    "show": {"show.gen.h": show.header, "show.gen.c": show.source},
    "commands": {"commands.gen.h": commands.header, "commands.gen.c": commands.source},
}
PRINTS = {"method-list": methods.method_list, "absent-list": methods.absent_list, "fault-list": methods.fault_list,
          "answer-list": methods.answer_list}


LIBRARY = {"include/fathom/control.h": library.header, "include/fathom/control_results.h": library.results_header,
           "src/control/client/libfathom-control.map": library.version_script,
           "docs/man/libfathom-control.3": library.man_calls}
PARTS = {  # of a document, each between the lines "<!-- of src/control/operation: NAME -->" and "<!-- end -->"
    "docs/control-plane.md": {"roles": methods.roles_page},
    "docs/dmg.md": {"comparison": dmg.comparison, "additions": dmg.additions},
}


def replace_parts(rows, path, text):
    for name, make in PARTS[path].items():
        place = re.compile(rf"(<!-- of src/control/operation: {name} -->\n)(.*?)(<!-- end -->)", re.S)
        text, places = place.subn(lambda found, make=make: found.group(1) + make(rows) + found.group(3), text)
        if places != 1:
            raise table.DefError(f"{path}: expected one part \"<!-- of src/control/operation: {name} -->\", found {places}")
    return text


def pages(rows):
    """(path, text) of each file in the tree that comes from the table, or has parts of it."""
    for group in rows.groups:
        yield f"docs/man/{group.page}.1", manual.page(rows, group)
    yield "docs/operations.md", reference.page(rows)
    for path, make in LIBRARY.items():
        with open(os.path.join(TOP, path)) as file:
            yield path, make(rows, file.read())
    for path in PARTS:
        with open(os.path.join(TOP, path)) as file:
            yield path, replace_parts(rows, path, file.read())


def update_pages(rows, write):
    """Write the pages that differ, or print their names."""
    for path, text in pages(rows):
        with open(os.path.join(TOP, path)) as file:
            if file.read() == text:
                continue
        if not write:
            print(f"{path} differs from the table src/control/operation: make operation-pages")
            continue
        with open(os.path.join(TOP, path), "w") as file:
            file.write(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--make", choices=MAKES)
    what.add_argument("--print", choices=PRINTS)
    what.add_argument("--write", action="store_true")
    what.add_argument("--check", action="store_true")
    parser.add_argument("--outdir", default=".")
    parser.add_argument("--proto", default=table.PROTO_FOLDER, help="folder of the .proto files")
    parser.add_argument("defs", nargs="*", metavar="DEF")
    given = parser.parse_args()
    try:
        rows = table.read(given.defs, given.proto)
        if given.print:
            sys.stdout.write(PRINTS[given.print](rows))
            return 0
        if given.write or given.check:
            update_pages(rows, given.write)
            return 0
        texts = {name: make(rows) for name, make in MAKES[given.make].items()}
    except table.DefError as error:
        print(error, file=sys.stderr)
        return 1
    for name, text in texts.items():
        with open(os.path.join(given.outdir, name), "w") as file:
            file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
