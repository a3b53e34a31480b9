#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
embed - writes the page as two C strings: the parts in front of and behind the data.

    embed.py page.html page.css page.js > page.gen.c

page.html has the markers @page.css@, @page.js@ and @data@, each exactly once.
"""

import os
import sys


def c_array(name, text):
    data = text.encode() + b"\0"
    rows = [", ".join(str(byte) for byte in data[at:at + 24]) for at in range(0, len(data), 24)]
    return f"const char {name}[] = {{\n\t" + ",\n\t".join(rows) + "\n};\n"


def main():
    page, *parts = sys.argv[1:]
    text = open(page, encoding="utf-8").read()
    for part in parts:
        mark = f"@{os.path.basename(part)}@"
        if text.count(mark) != 1:
            sys.exit(f"{page}: {mark} must be there once")
        text = text.replace(mark, open(part, encoding="utf-8").read())
    if text.count("@data@") != 1:
        sys.exit(f"{page}: @data@ must be there once")
    before, after = text.split("@data@")
    # a signed char cannot hold values above 127
    for piece in (before, after):
        if not piece.isascii():
            sys.exit("the page must be ASCII: write other characters as entities and escapes")
    print("/* made by embed.py */")
    print("extern const char html_page_before[], html_page_after[];")
    print(c_array("html_page_before", before))
    print(c_array("html_page_after", after), end="")


main()
