# SPDX-License-Identifier: BSD-2-Clause
"""walk - the engine's and the server's objects, in their own order. All give pointers."""

import gdb

from fathom.memory import field, global_value, need_pools, number, refuse, static_value, tail_queue


def bdevs():
    return tail_queue(static_value("bdev_first", "bdevs"), link="link")


def devices():
    return tail_queue(global_value("registry"), "devices", link="in_registry")


def threads():
    return tail_queue(global_value("registry"), "threads", link="in_registry")


def channels(thread):
    return tail_queue(thread, "channels", link="in_thread")


def pollers(thread):
    return tail_queue(thread, "pollers", link="in_thread")


def reactors():
    """The data reactors, then the control reactor."""
    everything = static_value("reactors_start", "process")
    if int(everything["reactors"]) == 0:
        return []
    return [everything["reactors"][i].address for i in range(int(everything["count"]) + 1)]


def subsystems():
    return tail_queue(global_value("nvmf_tgt"), "subsystems", link="link")


def groups():
    target = global_value("nvmf_tgt")
    return [field(target, "groups")[i] for i in range(number(target, "group_count"))]


def qpairs():
    for group in groups():
        yield from tail_queue(group, "qpairs", link="group_link")


def requests():
    """Those that the target holds: received, and the response not yet sent."""
    need_pools()
    for qpair in qpairs():
        yield from tail_queue(qpair, "reqs", link="link")


def bdev_channels(bdev):
    return tail_queue(bdev, "channels", link="in_bdev")


def constant(name):
    """An enumerator of the program."""
    try:
        return int(gdb.parse_and_eval(name))
    except gdb.error:
        return refuse(f"the program has no {name}: these scripts are of another version than it")


def children(io):
    """The pieces of a split I/O that are under way."""
    channel = field(io, "channel")
    if int(channel) == 0 or int(field(channel, "children")) == 0 or number(io, "split_children") == 0:
        return []
    rows = field(channel, "children")
    pieces = [field(rows[i], "io").address for i in range(constant("CHILDREN_PER_CHANNEL"))]
    return [piece for piece in pieces if number(piece, "split_parent") == int(io) and number(piece, "story", "state") != 0]


def faulty_channel(io):
    """Of an I/O on a faulty device, its channel's state there."""
    return field(io, "channel", "backend_ctx").cast(gdb.lookup_type("struct faulty_channel").pointer())


def base_ios(io):
    """What a faulty device made of an I/O: its I/O on the base."""
    pool = field(faulty_channel(io), "pool")
    rows = [pool[i] for i in range(constant("BASE_IOS"))]
    return [field(row, "io").address for row in rows if number(row, "upper") == int(io)]


def held_by_rule(io):
    """"pending" or "delayed", if a faulty device keeps the I/O; None: it does not."""
    channel = faulty_channel(io)
    for name in ("pending", "delayed"):
        if any(number(held, "io") == int(io) for held in tail_queue(channel, name, link="link")):
            return name
    return None


def ctrlrs(subsystem):
    return tail_queue(subsystem, "ctrlrs", link="link")


# ---- the server ----

def server():
    """None: it is not open, or not any more."""
    found = static_value("server_run", "process")["server"]
    return found if int(found) else None


def instances():
    there = server()
    return [field(there, "instances")[i] for i in range(number(there, "instance_count"))] if there is not None else []


def has_members():
    there = server()
    return there is not None and int(field(there, "of_call", "mgmt")) != 0


def members():
    """Of the system, where this host keeps its database."""
    if not has_members():
        return []
    system = field(server(), "of_call", "mgmt", "system")
    rows = field(system, "members")
    return [rows[i] for i in range(number(system, "count"))]


def calls():
    """Of others, that are not answered yet."""
    return tail_queue(field(server(), "grpc"), "calls", link="in_server") if server() is not None else []


def client_calls():
    """To others, that are not answered yet."""
    if server() is None or number(server(), "client") == 0:
        return
    for link in tail_queue(field(server(), "client"), "links", link="link"):
        yield from tail_queue(link, "client_calls", link="link")


def links():
    """Connections, of others and to others."""
    if server() is not None:
        yield from tail_queue(field(server(), "grpc"), "links", link="link")
        yield from tail_queue(field(server(), "client"), "links", link="link")
