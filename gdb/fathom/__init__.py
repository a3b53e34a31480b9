# SPDX-License-Identifier: BSD-2-Clause
"""
The modules that fathom.py loads into gdb.

    structures   the structures and fields that these modules read, with their types; a test compares the list with the program
    memory       reads the process: globals, fields, lists, names of enums, time
    walk         lists the engine's objects: block devices, threads, reactors, queue pairs, requests
    describe     one sentence about each object
    printers     shows these sentences in gdb's `print`
    chain        one I/O from its command to the backend
    trace        reads the rings from memory; trace_file reads the format, also outside of gdb
    commands     the commands
"""
