# SPDX-License-Identifier: BSD-2-Clause
"""c_functions - finds the functions of a C file in our style, in which a body begins with `{` in column 0."""

import os
import re

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def c_files(*folders):
    for folder in folders:
        for path, _, files in os.walk(os.path.join(TOP, folder)):
            for name in sorted(files):
                if name.endswith((".c", ".h")):
                    yield os.path.relpath(os.path.join(path, name), TOP)


def functions(lines):
    """Yield (name, first line from 1, number of lines)."""
    start = None
    for number, line in enumerate(lines, 1):
        if line.rstrip() == "{":
            start = number
        elif line.rstrip() == "}" and start:
            head = start - 2
            while head >= 0 and lines[head].strip() and not lines[head].startswith(("}", "#", "/*", " */")) and "(" not in lines[head].split("\t")[0]:
                head -= 1
            name = lines[max(head, 0)].split("(")[0].split()
            yield (name[-1].lstrip("*") if name else "?"), start, number - start - 1
            start = None


COMMENT = re.compile(r"/\*.*?\*/", re.S)
ATTRIBUTE = re.compile(r"__attribute__\(\((?:[^()]|\([^()]*\))*\)\)|\b[A-Z_]+_LIKE\([^()]*\)")
HEAD = re.compile(r"^[A-Za-z_][\w \t*]*[ \t*](\w+)\(", re.M)


def parameter_counts(text):
    """Yield (name, line from 1, number of parameters) of each function that is defined or declared."""
    text = COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    text = ATTRIBUTE.sub(lambda match: " " * len(match[0]), text)
    for match in HEAD.finditer(text):
        depth, count = 1, 1
        for character in text[match.end():]:
            depth += (character == "(") - (character == ")")
            count += character == "," and depth == 1
            if depth == 0:
                break
        yield match[1], text.count("\n", 0, match.start()) + 1, count
