# SPDX-License-Identifier: BSD-2-Clause
"""
fathom.py - commands fathom_* and printers for gdb, for a Fathom engine or server that runs or left a core.

gdb loads this file automatically with fathom-engine if auto-loading is allowed (docs/debugging.md); else `source .../gdb/fathom.py`.
The modules are in the folder beside it.
"""

import os
import sys

_folder = os.path.dirname(os.path.realpath(__file__))
if _folder not in sys.path:
    sys.path.insert(0, _folder)
# load the modules again if this file is sourced again, so that changes take effect
for _name in [name for name in sys.modules if name == "fathom" or name.startswith("fathom.")]:
    del sys.modules[_name]

import fathom.commands  # noqa: E402
import fathom.printers  # noqa: E402

fathom.commands.register()
fathom.printers.register()
