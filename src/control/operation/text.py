# SPDX-License-Identifier: BSD-2-Clause
"""text - the forms in which the generator writes a text."""


def c_string(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
