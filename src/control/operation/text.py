# SPDX-License-Identifier: BSD-2-Clause
"""text - the forms in which the generator writes a text."""

MADE = "/* Made from the table src/control/operation by its generate.py. */\n"


def c_string(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def sentence(text):
    """"print JSON": "Print JSON."."""
    return text[0].upper() + text[1:] + ("" if text.endswith(".") else ".")
