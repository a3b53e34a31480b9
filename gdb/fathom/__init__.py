# SPDX-License-Identifier: BSD-2-Clause
"""
What fathom.py loads into gdb.

    structures   which fields of which structures are read here, and their types: the one list, which a test holds against the program
    memory       reading the process: globals, fields, lists, names of enums, time
    walk         the engine's objects: block devices, threads, reactors, queue pairs, requests
    describe     a sentence about each
    printers     so that gdb's `print` says it
    chain        one I/O from its command to the backend
    trace        the rings out of memory; trace_file reads the format, outside of gdb, too
    commands     what is typed
"""
