# SPDX-License-Identifier: BSD-2-Clause
"""
chain - one I/O with its request, its connection, its device and its parts.

    nvmf_req - queue pair, host, subsystem, namespace
      bdev_io - device, states with their times
        its pieces (a split I/O), or the I/O on the base (a faulty device), or the operation in the kernel (a file)
"""

import gdb

from fathom import describe, walk
from fathom.memory import (as_expression, count_of, fail, field, need_pools, newest_tick, number, object_type, pointer, struct_of,
                           text)

INSIDE = {"nvmf_req": "nvmf_req", "bdev_io": "bdev_io", "tcp_req": "nvmf_req", "bdev_child": "bdev_io", "base_io": "bdev_io",
          "trace_story": None, "trace_object": None, None: None}
DEPTH_MAX = 16


def find(words):
    """A pointer to the request or I/O that `words` names: an expression, or a name from the trace (r193, i193)."""
    if len(words) > 1 and words[0] in "ri" and words[1:].isdigit():
        return find_named(words)
    try:
        value = gdb.parse_and_eval(words)
    except gdb.error as error:
        return fail(f"{words}: {error}. Name an I/O by its address, an expression (io, &req->io) or its name in the trace (r193, i193)")
    if value.type.strip_typedefs().code == gdb.TYPE_CODE_ARRAY:
        value = value.address
    value, tag = struct_of(value) if struct_of(value)[0] is not None else (value, None)
    if tag is None:
        try:
            value = pointer("trace_object", int(value)).dereference()
        except gdb.error:
            return fail(f"{words} is not an address")
    if tag not in INSIDE:
        return fail(f"{words} is a struct {tag}; an I/O is a struct nvmf_req or a struct bdev_io")
    need_pools()
    # each begins with its story, and the story with the identity
    kind = INSIDE[tag] or object_type(pointer("trace_object", int(value.address)))
    if kind not in ("nvmf_req", "bdev_io"):
        return fail(f"at {int(value.address):#x} there is neither an nvmf_req nor a bdev_io; fathom_print_requests lists those in progress")
    return pointer(kind, int(value.address))


def find_named(name):
    for request in walk.requests():
        for found in (request, field(request, "io").address):
            if describe.identity(field(found, "story", "trace")) == name:
                return found
    return fail(f"no request in progress has the name {name}; fathom_print_requests lists them")


def parent_of(found):
    """The request or I/O that an I/O belongs to; None: none, or `found` is a request."""
    if struct_of(found)[1] != "bdev_io":
        return None
    if number(found, "split_parent"):
        return field(found, "split_parent")
    parent = field(found, "parent")
    if int(parent) == 0 or object_type(parent) not in ("bdev_io", "nvmf_req"):
        return None
    return pointer(object_type(parent), int(parent))


def top_of(found):
    for _ in range(DEPTH_MAX):
        parent = parent_of(found)
        if parent is None:
            return found
        found = parent
    return found


def lines(found):
    now = newest_tick()
    top = top_of(found)
    if struct_of(top)[1] == "nvmf_req":
        yield from request_lines(top, found, now)
    else:
        yield from io_lines(top, found, now, "", 0)


def mark(here, found):
    return "    <-- this one" if int(here) == int(found) and struct_of(here)[1] == struct_of(found)[1] else ""


def request_lines(request, found, now):
    yield f"{describe.nvmf_req(request, now)}{mark(request, found)}"
    yield f"    {as_expression(request)}"
    yield f"    {describe.stages(field(request, 'story'), now)}"
    qpair = field(request, "qpair")
    if int(qpair):
        yield f"    on {describe.qpair(qpair)}"
        yield f"       {as_expression(qpair)}, served by {text(qpair, 'group', 'name')}"
        part = field(qpair, "subsystem")
        if int(part):
            yield f"    of {describe.subsystem(field(part, 'subsystem'))}"
            yield from namespace_lines(request, field(part, "subsystem"))
    if number(request, "channel") or number(request, "io", "story", "state"):
        yield from io_lines(field(request, "io").address, found, now, "    ", 0)


def namespace_lines(request, subsystem):
    if describe.is_admin(request):
        return
    spaces = [ns for ns in describe.namespaces(subsystem) if number(ns, "nsid") == number(request, "cmd", "nsid")]
    yield f"    to {describe.namespace(spaces[0])}" if spaces else f"    to namespace {number(request, 'cmd', 'nsid')}, which does not exist"


def io_lines(io, found, now, indent, depth):
    yield f"{indent}{describe.bdev_io(io, now)}{mark(io, found)}"
    yield f"{indent}    {as_expression(io)}"
    if number(io, "story", "state") == 0 or depth == DEPTH_MAX:
        return
    yield f"{indent}    {describe.stages(field(io, 'story'), now)}"
    channel = field(io, "channel")
    if int(channel):
        yield f"{indent}    through {describe.bdev_channel(channel)}"
    pieces = walk.children(io)
    if pieces:
        yield f"{indent}    split: {count_of(len(pieces), 'piece')} under way"
    for piece in pieces:
        yield from io_lines(piece, found, now, indent + "    ", depth + 1)
    if int(channel) and describe.state_name(field(io, "story")) == "DISPATCHED":
        yield from backend_lines(io, found, now, indent + "    ", depth)


def backend_lines(io, found, now, indent, depth):
    kind = text(io, "channel", "bdev", "ops", "kind")
    if kind == "error":
        held = walk.held_by_rule(io)
        if held:
            yield f"{indent}held by a rule of the faulty device: {held}"
        for base in walk.base_ios(io):
            yield from io_lines(base, found, now, indent, depth + 1)
    elif kind in ("uring", "aio"):
        scratch = field(io, "backend").address.cast(gdb.lookup_type("struct file_io").pointer())
        op = field(scratch, "op")
        yield (f"{indent}at the kernel: {describe.operation(op)} of descriptor {number(op, 'fd')} at byte {number(op, 'offset_bytes')}, "
               f"{number(scratch, 'bytes_done')} bytes done before")
