# SPDX-License-Identifier: BSD-2-Clause
"""trace - reads the newest records of each ring from the process or core, with the schema in its memory."""

import gdb

from fathom.memory import count_of, fail, global_value, need_pools, number
from fathom.trace_file import TraceFile

meanings = {}  # the schema's description of an argument, by the names of the event and of the argument


def newest_events(count):
    """The last `count` events of each ring, in order, as in `fathom trace --json`."""
    file = global_value("trace_file")
    memory, size = number(file, "memory"), number(file, "bytes")
    if memory == 0:
        fail("this engine has no trace: it was started with --num-trace-entries 0, or has closed its file")
    need_pools()
    data = gdb.selected_inferior().read_memory(memory, size).tobytes()
    try:
        file = TraceFile(data, count)
        meanings.update({(point["name"], arg["name"]): arg for point in file.points.values() for arg in point["args"]})
        return list(file.lines())
    except ValueError as error:
        return fail(f"the trace at {memory:#x} cannot be read: {error}")


def function_at(place):
    """The function at an offset of the program's image, by gdb's symbols; None: unknown."""
    try:
        image = int(gdb.parse_and_eval("(unsigned long)&__executable_start"))
        output = gdb.execute(f"info symbol {image + place:#x}", to_string=True)
    except gdb.error:
        return None
    return None if output.startswith("No symbol") else output.split(" in section ")[0].strip()


def value_text(arg, value):
    """An argument's value, with its unit or as the name of a function."""
    if arg.get("function"):
        return function_at(int(value, 16)) or value
    unit = arg.get("unit")
    return f"{value} {unit}" if unit and unit != "count" and not isinstance(value, str) else value


def event_line(row):
    """A line as `fathom trace` prints it, without the times since earlier events."""
    core = "-" if row["core"] is None else str(row["core"])
    begin = f"{core:>3}: {row['time_us']:>16.3f} us{'~' if row.get('shared') else ' '} {row['name'].upper():<28} "
    words = []
    if row.get("owner", {}).get("text"):
        words.append(f"[{row['owner']['text']}]")
    if "object" in row:
        words.append(row["object"] + (f" ({row['related']})" if "related" in row else ""))
    if "state" in row:
        words.append(f"-> {row['state']}")
    words += [f"{name}: {value_text(meanings.get((row['name'], name), {}), value)}" for name, value in row["args"].items() if value is not None]
    return begin + " ".join(words)


def count_line(rows):
    threads = {row["thread"] for row in rows}
    return f"{count_of(len(rows), 'event')} of {count_of(len(threads), 'thread')}"
