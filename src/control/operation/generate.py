#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
generate - makes code and pages from the table of operations, the *.def files of this folder. table.py describes the rows.

    generate.py --make WHAT --outdir DIR [DEF...]   files for the build; WHAT: mgmt, server
    generate.py --print WHAT [DEF...]               on standard output; WHAT: roles, absent (as documents have them),
                                                    method-list, absent-list (for tests)

Without DEF it reads all *.def files beside it. An error names file and line; no file is written in that case.
"""

import argparse
import os
import sys

import methods
import table

MAKES = {  # what: {file: its text}
    "mgmt": {"methods.gen.h": lambda rows: methods.header(rows, "mgmt"), "methods.gen.c": lambda rows: methods.source(rows, "mgmt"),
             "absent.gen.inc": methods.absent_rows},
    "server": {"methods.gen.h": lambda rows: methods.header(rows, "server"), "methods.gen.c": lambda rows: methods.source(rows, "server")},
}
PRINTS = {"roles": methods.roles_page, "absent": methods.absent_page, "method-list": methods.method_list, "absent-list": methods.absent_list}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--make", choices=MAKES)
    what.add_argument("--print", choices=PRINTS)
    parser.add_argument("--outdir", default=".")
    parser.add_argument("--proto", default=table.PROTO_FOLDER, help="folder of the .proto files")
    parser.add_argument("defs", nargs="*", metavar="DEF")
    given = parser.parse_args()
    try:
        rows = table.read(given.defs, given.proto)
        if given.print:
            sys.stdout.write(PRINTS[given.print](rows))
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
