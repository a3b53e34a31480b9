# SPDX-License-Identifier: BSD-2-Clause
"""walk - lists the engine's and the server's objects, in their own order. All functions return pointers."""

import gdb

from fathom.memory import fail, field, global_value, need_pools, number, static_value, tail_queue


def bdevs():
    return tail_queue(static_value("bdev_first", "bdevs"), link="link")


def devices():
    return tail_queue(global_value("registry"), "devices", link="in_registry")


def pools():
    """The pools of the engine's storage."""
    volumes = static_value("engine_storage", "storage")["volumes"]
    return tail_queue(volumes, "pools", link="link") if int(volumes) else []


def volumes():
    for pool in pools():
        yield from tail_queue(pool, "volumes", link="link")


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
    """The requests of the target that have no response yet."""
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
        return fail(f"the program has no enumerator {name}: these scripts are not of the program's version")


def children(io):
    """The pieces of a split I/O that are in progress."""
    channel = field(io, "channel")
    if int(channel) == 0 or int(field(channel, "children")) == 0 or number(io, "split_children") == 0:
        return []
    rows = field(channel, "children")
    pieces = [field(rows[i], "io").address for i in range(constant("CHILDREN_PER_CHANNEL"))]
    return [piece for piece in pieces if number(piece, "split_parent") == int(io) and number(piece, "story", "state") != 0]


def faulty_channel(io):
    """The faulty device's channel of an I/O."""
    return field(io, "channel", "backend_ctx").cast(gdb.lookup_type("struct faulty_channel").pointer())


def base_ios(io):
    """The I/Os on the base device that a faulty device made for an I/O."""
    pool = field(faulty_channel(io), "pool")
    rows = [pool[i] for i in range(constant("BASE_IOS"))]
    return [field(row, "io").address for row in rows if number(row, "upper") == int(io)]


def held_by_rule(io):
    """"pending" or "delayed" if a faulty device holds the I/O; else None."""
    channel = faulty_channel(io)
    for name in ("pending", "delayed"):
        if any(number(held, "io") == int(io) for held in tail_queue(channel, name, link="link")):
            return name
    return None


def ctrlrs(subsystem):
    return tail_queue(subsystem, "ctrlrs", link="link")


# ---- the server ----

def server_frame():
    """None: it is not open."""
    found = static_value("server_run", "process")["frame"]
    return found if int(found) else None


def open_server():
    """None: it is not open."""
    frame = server_frame()
    return field(frame, "server").address if frame is not None else None


def instances():
    server = open_server()
    return [field(server, "instances")[i] for i in range(number(server, "instance_count"))] if server is not None else []


def has_members():
    server = open_server()
    return server is not None and int(field(server, "of_call", "mgmt")) != 0


def members():
    """The members of the system, if this host has its database."""
    if not has_members():
        return []
    system = field(open_server(), "of_call", "mgmt", "system")
    rows = field(system, "members")
    return [rows[i] for i in range(number(system, "count"))]


def catalog_volumes():
    """The volumes of the system, if this host has its database."""
    catalog = field(open_server(), "of_call", "mgmt", "catalog") if has_members() else None
    for pool in tail_queue(catalog, "pools", link="link") if catalog is not None and int(catalog) else []:
        yield from tail_queue(pool, "volumes", link="link")


def calls():
    """Received calls that have no response yet."""
    return tail_queue(field(server_frame(), "grpc"), "calls", link="in_server") if open_server() is not None else []


def client_calls():
    """Sent calls that have no response yet."""
    server = open_server()
    if server is None or number(server, "client") == 0:
        return
    for link in tail_queue(field(server, "client"), "links", link="link"):
        yield from tail_queue(link, "client_calls", link="link")


def links():
    """Connections, incoming and outgoing."""
    server = open_server()
    if server is not None:
        yield from tail_queue(field(server_frame(), "grpc"), "links", link="link")
        yield from tail_queue(field(server, "client"), "links", link="link")
