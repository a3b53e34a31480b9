# SPDX-License-Identifier: BSD-2-Clause
"""
fathom.py - what gdb knows of a Fathom engine, alive or in a core: commands fathom_*, and printers for its structures.

gdb loads it by itself with fathom-engine where it is allowed to (docs/debugging.md); else `source .../gdb/fathom.py`. The parts are
in the folder beside it.
"""

import os
import sys

_folder = os.path.dirname(os.path.realpath(__file__))
if _folder not in sys.path:
    sys.path.insert(0, _folder)
# again, when it is sourced again: whoever works on it sees the change
for _name in [name for name in sys.modules if name == "fathom" or name.startswith("fathom.")]:
    del sys.modules[_name]

import fathom.commands  # noqa: E402
import fathom.printers  # noqa: E402

fathom.commands.register()
fathom.printers.register()
