# SPDX-License-Identifier: BSD-2-Clause
"""describe - a function for each structure, which describes it in a sentence. Arguments are structures or pointers to them."""

import gdb

from fathom import walk
from fathom.memory import (POINTERS, containing, count_of, enum_names, field, interned, is_live, named, newest_tick, number, object_name,
                           object_type, schema, seconds, struct_of, text)


# ---- identities, stories ----

def machine_states(story):
    kind = object_type(field(story, "trace"))
    row = next((one for one in schema()["objects"] if one["name"] == kind), {})
    machine = next((one for one in schema()["machines"] if one["name"] == row.get("machine")), {"states": []})
    return machine["states"]


def name_of(states, state):
    """The name of a state. Overwritten memory may contain an invalid one."""
    return states[state]["name"] if state < len(states) else f"state {state}"


def state_name(story):
    return name_of(machine_states(story), number(story, "state"))


def story_ticks(story):
    """{state: tick at which it was entered in this life}; [0]: when the life began."""
    path = number(story, "path")
    ticks = field(story, "ticks")
    return {state: int(ticks[state]) & ~1 for state in range(ticks.type.range()[1] + 1) if state == 0 or path >> state & 1}


def ages(story, now):
    """(ticks in the current state, ticks of the life)"""
    ticks = story_ticks(story)
    return now - ticks.get(number(story, "state"), ticks[0]), now - ticks[0]


def identity(value):
    return object_name(value)


def story(value):
    if number(value, "state") == 0:
        return f"{object_name(field(value, 'trace'))}, not under way"
    here, whole = ages(value, newest_tick())
    return f"{object_name(field(value, 'trace'))} {state_name(value)} for {seconds(here)}, age {seconds(whole)}"


def stages(value, now):
    """The states that the life has entered, with the time of each since its begin, and the time in the present state."""
    ticks = story_ticks(value)
    states = machine_states(value)
    order = sorted((tick, state) for state, tick in ticks.items() if state)
    entered = [f"{name_of(states, state)} at {seconds(tick - ticks[0])}" for tick, state in order]
    if number(value, "state"):
        entered.append(f"there for {seconds(ages(value, now)[0])}")
    return ", ".join(entered)


def istr(value):
    return f"\"{text(value, 'text')}\" (string {number(value, 'id')})"


# ---- block devices ----

def bdev(value):
    words = [f"bdev \"{text(value, 'name')}\" ({text(value, 'product')}), {number(value, 'block_count')} blocks of "
             f"{number(value, 'block_bytes')} bytes"]
    words += [name for name in ("claimed", "removing", "read_only", "write_cache") if field(value, name)]
    words.append("opened " + count_of(number(value, "open_count"), "time"))
    return ", ".join(words)


def bdev_name(io):
    channel = field(io, "channel")
    return text(channel, "bdev", "name") if int(channel) else "no device yet"


def bdev_io(value, now=None):
    identity, kind = object_name(field(value, "story", "trace")), named(value, "type")
    what = kind if kind in ("FLUSH", "RESET") else f"{kind} of {count_of(number(value, 'block_count'), 'block')} at {number(value, 'block_index')}"
    sentence = f"bdev_io {identity}: {what} on \"{bdev_name(value)}\""
    if number(value, "story", "state") == 0:
        return sentence + f", not under way; the last one ended with {named(value, 'status')}"
    here, whole = ages(field(value, "story"), newest_tick() if now is None else now)
    sentence += f", {state_name(field(value, 'story'))} for {seconds(here)}, age {seconds(whole)}"
    parent = field(value, "parent")
    return sentence + (f", for {object_type(parent)} {object_name(parent)}" if int(parent) else "")


def bdev_channel(value):
    depth, queued = number(value, "queue_depth"), number(value, "queued")
    return (f"bdev channel to \"{text(value, 'bdev', 'name')}\" of {interned(value, 'thread', 'interned_name')}: {depth} under way, "
            f"{number(value, 'in_flight')} at the backend, {queued} queued" + (", a reset under way" if number(value, "reset") else ""))


def bdev_desc(value):
    return f"bdev descriptor of \"{text(value, 'bdev', 'name')}\"" + (", informed of the removal" if field(value, "told") else "")


# ---- volumes ----

def volume(value):
    hosts = number(value, "record", "host_count")
    return (f"volume {text(value, 'device')}, {named(value, 'state')}, {number(value, 'record', 'size_bytes')} bytes, "
            f"{count_of(hosts, 'host')}")


def pool(value):
    state = f"ERRORED: {text(value, 'why', 'text')}" if number(value, "why", "error") else "ONLINE"
    return f"pool {text(value, 'record', 'name')}, {state}, {count_of(number(value, 'volume_count'), 'volume')}"


def catalog_pool(value):
    return (f"pool {text(value, 'record', 'name')}, {named(value, 'state')}, {count_of(number(value, 'volume_count'), 'volume')}"
            f"{', a change is under way' if number(value, 'task') else ''}")


def catalog_volume(value):
    sentence = (f"volume {text(value, 'pool', 'record', 'name')}/{text(value, 'record', 'name')}, {named(value, 'state')}, "
                f"{number(value, 'record', 'size_bytes')} bytes, rank {number(value, 'record', 'place', 'rank')}, "
                f"{count_of(number(value, 'record', 'host_count'), 'host')}")
    if number(value, "record", "change", "kind"):
        sentence += f", pending: {named(value, 'record', 'change', 'kind')}"
    return sentence + (", a change is under way" if number(value, "task") else "")


def volume_export(value):
    return f"export {text(value, 'nqn')}, {named(value, 'state')}{', changing' if number(value, 'is_busy') else ''}"


# ---- the target ----

def subsystem(value):
    spaces = sum(1 for ns in namespaces(value))
    return (f"subsystem {text(value, 'options', 'nqn')} (id {number(value, 'id')}), {named(value, 'state')}, "
            f"{count_of(spaces, 'namespace')}, {count_of(number(value, 'ctrlr_count'), 'controller')}")


def namespaces(value):
    rows = field(value, "namespaces")
    if int(rows) == 0:
        return []
    return [rows[i] for i in range(number(value, "options", "max_namespaces")) if int(rows[i])]


def namespace(value):
    return f"namespace {number(value, 'nsid')} of {text(value, 'subsystem', 'options', 'nqn')} on \"{text(value, 'bdev', 'name')}\""


def ctrlr(value):
    return (f"controller {number(value, 'cntlid')} of {text(value, 'subsystem', 'options', 'nqn')} for {text(value, 'host_nqn')}, "
            f"{named(value, 'state')}, {count_of(number(value, 'io_count'), 'I/O queue')}")


def qpair(value):
    sentence = (f"queue pair {object_name(field(value, 'trace'))}, qid {number(value, 'qid')}, from {text(value, 'peer_address')}:"
            f"{text(value, 'peer_service')}, {named(value, 'state')}, {count_of(number(value, 'req_count'), 'request')}, "
            f"{count_of(number(value, 'command_count'), 'command')} so far")
    owner = field(value, "ctrlr")
    return sentence + (f", of controller {number(owner, 'cntlid')}, host {text(owner, 'host_nqn')}" if int(owner) else ", not connected yet")


def is_admin(request):
    qpair = field(request, "qpair")
    return int(qpair) == 0 or number(qpair, "qid") == 0


def opcode(request):
    code = number(request, "cmd", "opc")
    name = enum_names("nvme_admin_opcode" if is_admin(request) else "nvme_nvm_opcode").get(code)
    return f"opcode {code:#04x}" if name is None else name


def nvmf_req(value, now=None):
    sentence = f"nvmf_req {object_name(field(value, 'story', 'trace'))}: {opcode(value)}, cid {number(value, 'cmd', 'cid')}"
    if not is_admin(value):
        sentence += f", nsid {number(value, 'cmd', 'nsid')}"
    if number(value, "data_bytes"):
        sentence += f", {number(value, 'data_bytes')} bytes"
    if number(value, "story", "state") == 0:
        return sentence + ", not under way"
    here, whole = ages(field(value, "story"), newest_tick() if now is None else now)
    sentence += f", {state_name(field(value, 'story'))} for {seconds(here)}, age {seconds(whole)}"
    qpair = field(value, "qpair")
    return sentence + (f", qid {number(qpair, 'qid')} from {text(qpair, 'peer_address')}:{text(qpair, 'peer_service')}" if int(qpair) else "")


def poll_group(value):
    return (f"poll group {text(value, 'name')}: {count_of(number(value, 'current_qpairs'), 'queue pair')}, "
            f"{number(value, 'current_io_qpairs')} of them for I/O, {number(value, 'completed_io')} I/Os completed")


def address_text(value):
    return f"{text(value, 'trtype')} {text(value, 'traddr')}:{text(value, 'trsvcid')}"


# ---- threads ----

def cpu_of(reactor):
    return "the control reactor" if field(reactor, "control") else f"reactor {number(reactor, 'index')} (CPU {number(reactor, 'cpu')})"


def thread(value):
    return (f"thread {interned(value, 'interned_name')} (id {number(value, 'id')}), {enum_names('thread_state').get(number(value, 'state'))}, "
            f"on {cpu_of(field(value, 'reactor'))}, {count_of(number(value, 'poller_count'), 'poller')}, "
            f"{count_of(number(value, 'channel_count'), 'channel')}")


def poller(value):
    kind = "paused" if field(value, "paused") else "timed" if field(value, "timed") else "active"
    sentence = f"poller {interned(value, 'name')} (id {number(value, 'id')}), {kind}"
    if field(value, "timed"):
        sentence += f", every {seconds(number(value, 'period_ticks'))}"
    return (sentence + f", ran {count_of(number(value, 'run_count'), 'time')}, {number(value, 'busy_count')} of them busy for "
            f"{seconds(number(value, 'busy_ticks'))}, of {interned(value, 'thread', 'interned_name')}")


def reactor(value):
    busy, idle = number(value, "busy_ticks"), number(value, "idle_ticks")
    sentence = f"{cpu_of(value)}, tid {number(value, 'tid')}, {count_of(number(value, 'thread_count'), 'thread')}, "
    if field(value, "sleeping"):
        sentence += "asleep"
    else:
        sentence += f"running {interned(value, 'running') or 'nothing yet'}"
        poller = field(value, "running_poller")
        sentence += f" ({interned(poller, 'thread', 'interned_name')})" if int(poller) else ""
    return sentence + f", {100 * busy / (busy + idle or 1):.1f} % of {seconds(busy + idle)} busy, {number(value, 'turn_count')} turns"


def device(value):
    sentence = f"device {interned(value, 'name')} at {number(value, 'address'):#x}, {count_of(number(value, 'channel_count'), 'reference')} by threads"
    return sentence + (", unregistered" if field(value, "unregistered") else "")


def channel(value):
    return (f"channel to {interned(value, 'device', 'name')} of {interned(value, 'thread', 'interned_name')}, "
            f"{count_of(number(value, 'ref_count'), 'reference')}")


def operation(op):
    kind = field(op, "kind")
    return next((member.name for member in kind.type.fields() if member.enumval == int(kind)), str(int(kind)))


# ---- the server ----

def member(value):
    return f"member {record(field(value, 'record'))}"


def record(value):
    info = text(value, "info")
    return (f"rank {number(value, 'rank')}, {named(value, 'state')}, incarnation {number(value, 'incarnation'):x}, at {text(value, 'address')} "
            f"{text(value, 'domain')}" + (f": {info}" if info else ""))


def instance(value):
    words = [f"instance {number(value, 'options', 'index')}", named(value, "state")]
    if field(value, "has_superblock") and field(value, "superblock", "has_rank"):
        words.append(f"rank {number(value, 'superblock', 'rank')}")
    if number(value, "process", "pid"):
        words.append(f"process {number(value, 'process', 'pid')}" + (" (adopted)" if field(value, "process", "adopted") else ""))
    words.append("started " + count_of(number(value, "starts"), "time"))
    if number(value, "restarts"):
        words.append(count_of(number(value, "restarts"), "restart") + " in a row")
    if number(value, "why", "error"):
        words.append(f"code {number(value, 'why', 'code')}: {text(value, 'why', 'text')}")
    return ", ".join(words)


def link(value):
    way = "from" if number(value, "server") else "to"
    return f"connection {way} {text(value, 'peer')}, {named(value, 'state')}, {count_of(number(value, 'calls_open'), 'call')}"


def call(value):
    return (f"call of {text(value, 'peer')} ({named(value, 'role')}), {interned(value, 'path')}, {named(value, 'state')} for "
            f"{seconds(newest_tick() - number(value, 'received_tick'))}")


def client_call(value):
    sentence = f"call to {text(value, 'address')}, {interned(value, 'path_name')}, for {seconds(newest_tick() - number(value, 'begin_tick'))}"
    limit = number(value, "timeout_ns")
    return sentence + (f" of {limit / 1e9:g} s" if limit else "")
