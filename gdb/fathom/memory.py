# SPDX-License-Identifier: BSD-2-Clause
"""
memory - reads the process or core: globals, fields, lists, names of enums, time.

All modules read fields with field(), which accepts only those that structures.py lists. An error is a gdb.GdbError, whose message gdb prints
unchanged: it states the remedy.
"""

import json
import os
import time

import gdb

from fathom.structures import STRUCTURES

POINTERS = (gdb.TYPE_CODE_PTR, gdb.TYPE_CODE_REF)
MAGIC = b"FATHOMTR"
LIST_MAX = 1 << 20      # a longer list is a loop in overwritten memory


def fail(text):
    raise gdb.GdbError("fathom: " + text)


# ---- the program and its process ----

def program():
    return gdb.current_progspace().filename


def build_id():
    for objfile in gdb.objfiles():
        if objfile.filename == program():
            return objfile.build_id
    return None


def fail_without_symbols():
    number = build_id()
    place = f"{number[:2]}/{number[2:]}.debug" if number else "..."
    fail(f"{program()} has no debug information that gdb found. gdb looks for the debug file .build-id/{place} below "
           f"{gdb.parameter('debug-file-directory')}: install it there (`make install` does), name its folder with "
           "`set debug-file-directory FOLDER` and load the program again with `file PROGRAM`, or load it with `symbol-file FILE.debug`")


def kind_of_program():
    """"engine", "server", or None."""
    return next((kind for kind, name in (("engine", "nvmf_tgt"), ("server", "server_open")) if gdb.lookup_global_symbol(name) is not None), None)


def need_symbols(kinds):
    if not program():
        fail("no program is loaded: `gdb -p PID` for a running engine or server, `gdb PROGRAM CORE` for a core")
    if kind_of_program() not in kinds:
        if gdb.lookup_global_symbol("main") is None or gdb.lookup_global_symbol("main").symtab is None:
            fail_without_symbols()
        fail(f"{program()} is not {' or '.join('fathom-' + kind for kind in kinds)}: load the program with `file .../fathom-{kinds[0]}`")


def need_process(kinds):
    need_symbols(kinds)
    if gdb.selected_inferior().pid == 0:
        fail("there is neither a process nor a core: `attach PID`, or `core-file FILE`")


def need_pools():
    """
    Fail if the memory of requests, which is in the trace file, is missing. Without this check, requests of such a core would be read from
    zeroes.
    """
    memory = number(global_value("trace_file"), "memory")
    if memory and gdb.selected_inferior().read_memory(memory, len(MAGIC)).tobytes() != MAGIC:
        fail("this core has no shared memory, so it has no requests and no trace: the process's core filter was changed (docs/debugging.md). "
               f"The file may still exist: `fathom trace stuck -f {text(global_value('trace_file'), 'path')}`")


def is_live():
    """True for a process of this machine; false for a core, or a process of a gdbserver."""
    connection = gdb.selected_inferior().connection
    return connection is not None and connection.type == "native"


def global_value(name):
    symbol = gdb.lookup_global_symbol(name)
    if symbol is None:
        fail(f"the program has no variable {name}: these scripts are not of the same version as {program()}; use those installed with it")
    return symbol.value()


def static_value(function, name):
    """A variable of the source file with `function`."""
    symbol = gdb.lookup_global_symbol(function)
    if symbol is not None and symbol.symtab is not None:
        for found in symbol.symtab.static_block():
            if found.is_variable and found.name == name:
                return found.value()
    return fail(f"there is no variable {name} beside {function}(): these scripts are not of the same version as {program()}")


# ---- fields ----

def shape(kind):
    """The name of a type without typedefs and qualifiers, as structures.py spells it."""
    kind = kind.unqualified()
    if kind.code == gdb.TYPE_CODE_PTR:
        return shape(kind.target()) + " *"
    if kind.code == gdb.TYPE_CODE_ARRAY:
        return f"{shape(kind.target())}[{kind.range()[1] + 1}]"
    if kind.code == gdb.TYPE_CODE_FUNC:
        return "function"
    if kind.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION, gdb.TYPE_CODE_ENUM):
        word = {gdb.TYPE_CODE_STRUCT: "struct", gdb.TYPE_CODE_UNION: "union", gdb.TYPE_CODE_ENUM: "enum"}[kind.code]
        return f"{word} {kind.tag}" if kind.tag else word
    return "bool" if kind.name == "_Bool" else kind.name    # gcc, clang


def struct_of(value):
    """The structure, if `value` is one or points to one; its tag. (None, None): neither."""
    kind = value.type.strip_typedefs()
    if kind.code in POINTERS:
        kind = kind.target().strip_typedefs()
        value = value.referenced_value() if kind.code == gdb.TYPE_CODE_STRUCT else value
    return (value, kind.tag) if kind.code == gdb.TYPE_CODE_STRUCT else (None, None)


def field(value, *path):
    """field(io, "story", "state"): a member of a member, of structures or pointers to them."""
    for name in path:
        value, tag = struct_of(value)
        if value is None or name not in STRUCTURES.get(tag, {}):
            raise KeyError(f"struct {tag} {name}: not in structures.py")
        try:
            value = value[name]
        except gdb.error:
            fail(f"struct {tag} of this program has no {name}: these scripts are not of the same version as {program()}; "
                   "use those installed with it")
    return value


def number(value, *path):
    return int(field(value, *path))


def text(value, *path):
    """A char array or char *; "" for a NULL."""
    found = field(value, *path)
    kind = found.type.strip_typedefs()
    if kind.code == gdb.TYPE_CODE_ARRAY and kind.range()[1] <= 0:   # a flexible array: read up to the NUL
        found = found.address.cast(kind.target().pointer())
    if found.type.strip_typedefs().code == gdb.TYPE_CODE_PTR and int(found) == 0:
        return ""
    return found.string(errors="replace").split("\0", 1)[0]


def interned(value, *path):
    """A struct trace_istr *."""
    found = field(value, *path)
    return text(found, "text") if int(found) else ""


def address(value):
    return int(value) if value.type.strip_typedefs().code in POINTERS else int(value.address)


def pointer(tag, at):
    return gdb.Value(at).cast(gdb.lookup_type("struct " + tag).pointer())


def as_expression(value):
    """An expression for use after `p *`."""
    return f"(struct {struct_of(value)[1]} *) {address(value):#x}"


def containing(value, tag, *path):
    """The `struct tag` whose member by `path` is at `value`."""
    kind = gdb.lookup_type("struct " + tag)
    offset = 0
    for name in path:
        found = next(member for member in kind.fields() if member.name == name)
        offset, kind = offset + found.bitpos // 8, found.type.strip_typedefs()
    return pointer(tag, address(value) - offset)


# ---- lists of <sys/queue.h> ----

def follow(first, link, following):
    """Pointers from `first` on."""
    at, seen = first, 0
    while int(at):
        yield at
        at = at[link][following]
        seen += 1
        if seen == LIST_MAX:
            fail("a list does not end: its memory was overwritten")


def tail_queue(value, *path, link):
    """The elements of a TAILQ; `link` is the member that links them."""
    first = (field(value, *path) if path else value)["tqh_first"]
    must_have(first, link)
    return follow(first, link, "tqe_next")


def must_have(element, link):
    tag = element.type.target().strip_typedefs().tag
    if link not in STRUCTURES.get(tag, {}):
        raise KeyError(f"struct {tag} {link}: not in structures.py")


# ---- names ----

_enums = {}


def enum_names(tag):
    """{number: name without the common prefix}"""
    if tag not in _enums:
        try:
            rows = [(member.enumval, member.name) for member in gdb.lookup_type("enum " + tag).fields()]
        except gdb.error:
            rows = []
        names = [name for _, name in rows]
        cut = os.path.commonprefix(names).rfind("_") + 1 if len(names) > 1 else 0
        _enums[tag] = {value: name[cut:] for value, name in rows}
    return _enums[tag]


def named(value, *path):
    """A member that is an enum, by its name."""
    found = field(value, *path) if path else value
    return enum_names(found.type.strip_typedefs().tag).get(int(found), str(int(found)))


_schema = {}


def schema():
    """The program's schema: its objects, points and machines, by number."""
    where = (program(), build_id())
    if where not in _schema:
        _schema.clear()
        _schema[where] = json.loads(text(global_value("fathom_server_schema" if kind_of_program() == "server" else "fathom_schema"), "json"))
    return _schema[where]


def object_name(identity):
    """A struct trace_object as the trace calls it: i553."""
    kind = number(identity, "type")
    for row in schema()["objects"]:
        if row["id"] == kind:
            return f"{row['prefix']}{number(identity, 'id')}"
    return "(nothing traced)"


def object_type(identity):
    kind = number(identity, "type")
    return next((row["name"] for row in schema()["objects"] if row["id"] == kind), None)


# ---- time ----

def tick_rate():
    return int(static_value("clock_tick_rate", "rate")) or 1


def newest_tick():
    """The current tick, approximately; of a core the latest tick in its memory."""
    ticks = [0]
    everything = static_value("reactors_start", "process")
    if int(everything["reactors"]):
        ticks += [int(field(everything["reactors"][i], "now")) for i in range(int(everything["count"]) + 1)]
    file = global_value("trace_file")
    if int(field(file, "memory")):
        ticks += trace_ticks(file)
    return max(ticks) & ~1


def trace_ticks(file):
    ticks = []
    try:
        ticks.append(number(file, "frozen", "tick"))
        clocks = field(file, "clocks")
        count = number(clocks, "count")
        if count:
            pairs = field(clocks, "pairs")
            room = pairs.type.range()[1] + 1
            last = pairs[0 if count == 1 else 1 + (count - 2) % (room - 1)]
            ticks.append(number(last, "tick"))
            if is_live():
                passed = time.clock_gettime_ns(time.CLOCK_MONOTONIC) - number(last, "monotonic_ns")
                ticks.append(number(last, "tick") + passed * tick_rate() // 10**9)
    except gdb.MemoryError:
        pass    # a core without the trace file
    return ticks


def seconds(ticks):
    """A time with a unit: "12.345 us"."""
    rate = tick_rate()
    ns = (max(0, ticks) * 10**9 + rate // 2) // rate
    if ns < 1000:
        return f"{ns} ns"
    if ns < 10**6:
        return f"{ns / 1e3:.3f} us"
    return f"{ns / 1e6:.3f} ms" if ns < 10**9 else f"{ns / 1e9:.3f} s"


def count_of(count, one, many=None):
    return f"{count} {one if count == 1 else many or one + 's'}"
