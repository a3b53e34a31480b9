# SPDX-License-Identifier: BSD-2-Clause
"""Do `fathom trace` and read_trace.py, which was written from docs/formats/trace.md alone, say the same of a file?"""

import json
import os
import subprocess
import sys

READER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "read_trace.py")


def other(test, path, *words):
    done = subprocess.run([sys.executable, READER, path, *words], capture_output=True, text=True)
    test.assertEqual(done.returncode, 0, done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def ours(fathom, path, *words):
    done = subprocess.run([fathom, "trace", *words, "-f", path, "--json"], capture_output=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_events(test, fathom, path):
    rows, events = ours(fathom, path), other(test, path)
    test.assertIn("trace", rows[0])
    test.assertEqual(len(events), rows[-1]["end"]["events"])
    for mine, theirs in zip(rows[1:-1], events):
        # names of functions are not the file's
        mine["args"] = {name: value for name, value in mine["args"].items() if not (name.endswith("_name") and name not in theirs["args"])}
        # requests tell when their present life began, which the small reader does not look at
        if theirs.get("total_partial") and not mine.get("total_partial"):
            mine["total_us"], mine["total_partial"] = theirs["total_us"], True
            if "related" in mine and "related" not in theirs:
                theirs |= {"related": mine["related"], "related_type": mine["related_type"]}
        test.assertEqual(mine, theirs)


def check_stuck(test, fathom, path):
    """Compare the operations in progress: all, and those older than a second."""
    for older_ns in (10**9, 0):
        rows = [row for row in ours(fathom, path, "stuck", "--older-than", f"{older_ns}ns") if "object" in row]
        for row in rows:
            # names of opcodes are not the file's
            row["args"] = {name: value for name, value in row["args"].items() if not name.endswith("_name")}
        test.assertEqual(rows, other(test, path, "stuck", str(older_ns)))
    return len(rows)


def check_summary(test, fathom, path):
    """How many stages there are."""
    name = lambda row: (row["object_type"], row["stage"] if "stage" in row else "ended")
    rows = {name(row): row for row in ours(fathom, path, "summary") if "object_type" in row}
    theirs = {name(row): row for row in other(test, path, "summary")}
    test.assertEqual(set(rows), set(theirs))
    for key, row in theirs.items():
        for field, value in row.items():
            if isinstance(value, float):
                test.assertAlmostEqual(rows[key][field], value, delta=0.0011, msg=f"{key} {field}")
            else:
                test.assertEqual(rows[key][field], value, f"{key} {field}")
    return len(rows)


def check_slowest(test, fathom, path):
    """How many there are of the first 200, each by itself."""
    rows = [row for row in ours(fathom, path, "slowest", "200", "--all") if "number" in row]
    theirs = other(test, path, "slowest", "200")
    test.assertEqual(len(rows), len(theirs))
    for mine, row in zip(rows, theirs):
        mine["stages"] = [[stage["stage"], stage["us"]] for stage in mine["stages"]]
        test.assertEqual({field: mine[field] for field in row}, row)
    return len(rows)
