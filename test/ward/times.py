#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
times.py LOG... - how long each diagnosis of the ward took: a table of illness, first finding and seconds, from the output of its tests.

    scripts/run-tests --build build --suite ward; test/ward/times.py build/meson-logs/*.txt
    FATHOM_BIN=build/bin test/system/confined.py --as-root test/ward/test_disks.py | test/ward/times.py
"""

import fileinput
import re
import sys

# "# ILLNESS: SECONDS s: HEALTH: FINDING ...", printed by ward.diagnose(); "<" and the cause follow the name of a finding that has one
LINE = re.compile(r"# (?:(?P<illness>.+): )?(?P<seconds>\d+\.\d) s: (?:healthy|degraded|broken): (?P<finding>\w*)")


def main():
    longest, plain, count = {}, 0.0, 0
    for line in fileinput.input(encoding="utf-8", errors="replace"):
        match = LINE.search(line)
        if not match:
            continue
        seconds = float(match.group("seconds"))
        count += 1
        if match.group("illness"):
            key = (match.group("illness"), match.group("finding"))
            longest[key] = max(seconds, longest.get(key, 0))
        else:
            plain = max(plain, seconds)
    print("| illness | first finding | seconds |\n|---|---|---|")
    for (illness, finding), seconds in longest.items():
        print(f"| {illness} | `{finding}` | {seconds:.1f} |")
    print(f"\n{count} diagnoses; the longest took {max([plain, *longest.values()]):.1f} s")
    return 0 if count else 1


if __name__ == "__main__":
    sys.exit(main())
