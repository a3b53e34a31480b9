#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
generate - turns figures.def into code and a page.

    generate.py --code DIR DEF      figures.gen.h: enum figure, and a function for each family that adds a value
                                    figures.gen.c: the rows of the table
    generate.py --page DEF          docs/metrics.md, on standard output; `make metric-page` writes it

figures.def explains its lines. An error names file and line, and no file is written.
"""

import os
import sys

import figure_table

HEAD = "/* SPDX-License-Identifier: BSD-2-Clause */\n/* Made from figures.def by generate.py. */\n"
PAGE_HEAD = """\
# Metrics

<!-- Made from src/rpc/figures/figures.def and src/rpc/figures/page.md by src/rpc/figures/generate.py: `make metric-page`. -->

"""


def c_string(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def enumerator(family):
    return "FIGURE_" + family.name.upper()


def function(family):
    names = [label if label not in ("what",) else label for label in family.labels]
    params = [f"const char *{name}" for name in names]
    labels = ", ".join(names)
    if family.kind == "histogram":
        params.append("const struct figure_histogram *histogram")
        call = "figure_add_histogram"
        value = "histogram"
    else:
        if family.kind != "info":
            params.append("double value")
        call = "figure_add"
        value = "1" if family.kind == "info" else "value"
    values = f"(const char *const[]){{ {labels} }}" if labels else "NULL"
    head = f"static inline void figure_{family.name}(struct figures *figures" + "".join(f", {param}" for param in params) + ")"
    return f"{head}\n{{\n\t{call}(figures, {enumerator(family)}, {values}, {value});\n}}\n"


def write(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as out:
        out.write(text)


def code(folder, sections):
    families = [family for section in sections for family in section.families]
    lines = [HEAD, "#ifndef RPC_FIGURES_GEN_H", "#define RPC_FIGURES_GEN_H", "", "#include <stddef.h>", "", "struct figures;", "struct figure_histogram;", "",
             "enum figure {", *(f"\t{enumerator(family)}," for family in families), "\tFIGURE_COUNT,", "};", "",
             "void figure_add(struct figures *figures, enum figure figure, const char *const *labels, double value);",
             "void figure_add_histogram(struct figures *figures, enum figure figure, const char *const *labels,",
             "\t\t\t  const struct figure_histogram *histogram);", ""]
    lines += [function(family) for family in families]
    lines += ["#endif", ""]
    rows = [HEAD, '#include "rpc/figures/table.h"', "", "const struct figure_row figure_rows[FIGURE_COUNT] = {"]
    for family in families:
        labels = ", ".join(c_string(label) for label in family.labels)
        rows.append(f"\t[{enumerator(family)}] = {{ {c_string(family.family_name)}, FIGURE_TYPE_{family.kind.upper()}, "
                    f"{c_string(family.unit)}, {c_string(family.help)}, {len(family.labels)}, {{ {labels} }} }},")
    rows += ["};", ""]
    write(folder, "figures.gen.h", "\n".join(lines))
    write(folder, "figures.gen.c", "\n".join(rows))


def page(path, sections):
    with open(os.path.join(os.path.dirname(path), "page.md"), encoding="utf-8") as text:
        out = [PAGE_HEAD + text.read()]
    for section in sections:
        out += [f"\n## {section.title}\n", "| metric | type | labels | series at most | |", "|---|---|---|---|---|"]
        for family in section.families:
            labels = ", ".join(f"`{label}`" for label in family.labels)
            by = "" if family.by == ["engine"] else " (server)"
            out.append(f"| `{family.sample_name}` | {family.kind}{by} | {labels} | {family.bound} | {family.help} |")
    print("\n".join(out))


def main():
    try:
        if len(sys.argv) == 4 and sys.argv[1] == "--code":
            code(sys.argv[2], figure_table.read(sys.argv[3]))
        elif len(sys.argv) == 3 and sys.argv[1] == "--page":
            page(sys.argv[2], figure_table.read(sys.argv[2]))
        else:
            sys.exit(__doc__)
    except figure_table.TableError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
