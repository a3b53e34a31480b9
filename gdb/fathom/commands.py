# SPDX-License-Identifier: BSD-2-Clause
"""commands - gdb's commands: fathom_print_*, fathom_find_bdev, fathom_trace. Each list takes a pattern and ends with a count."""

import re

import gdb

from fathom import chain, describe, trace, walk
from fathom.memory import as_expression, count_of, fail, field, kind_of_program, need_process, newest_tick, number, text, tick_rate

TRACE_EVENTS = 20   # default, of each ring


class Command(gdb.Command):
    """A command. run() performs it; an error is printed as one message. `programs`: the programs that it supports."""

    name, usage, programs = "", "", ("engine",)

    def __init__(self):
        super().__init__(self.name, gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        try:
            need_process(self.programs)
            self.run(gdb.string_to_argv(argument))
        except gdb.MemoryError as error:
            fail(f"{error}: this memory cannot be read. The process's core filter and the size limit determine what a core contains "
                 "(docs/debugging.md, cores)")
        except gdb.error as error:
            fail(f"{error}. If the program and these scripts are of the same build, the program's memory was overwritten")

    def reject_usage(self, what):
        fail(f"{what}. Usage: {self.name}{' ' if self.usage else ''}{self.usage}")

    def run(self, words):
        raise NotImplementedError


class ListCommand(Command):
    """Lists objects: a line for each, with indented lines below it. A pattern selects objects with a matching line. A count follows."""

    usage = "[PATTERN]"
    one, many = "", None

    def rows(self):
        """[(first line, [lines below it])]"""
        raise NotImplementedError

    def count_suffix(self, rows):
        """A text to print after the count."""
        return ""

    def run(self, words):
        if len(words) > 1:
            self.reject_usage("one pattern at most; quote it if it contains a blank")
        self.show(list(self.rows()), words[0] if words else None)

    def show(self, rows, pattern):
        try:
            wanted = re.compile(pattern or "")
        except re.error as error:
            self.reject_usage(f"\"{pattern}\" is not a regular expression: {error}")
        shown = [row for row in rows if any(wanted.search(line) for line in (row[0], *row[1]))]
        for first, below in shown:
            print(first)
            for line in below:
                print(f"    {line}")
        of = "" if pattern is None else f" of {len(rows)}"
        print(f"{len(shown)}{of} {self.one if (len(shown) if pattern is None else len(rows)) == 1 else self.many or self.one + 's'}"
              f"{self.count_suffix(shown)}")


def line_of(value, sentence):
    return f"{as_expression(value)}  {sentence}"


class PrintBdevs(ListCommand):
    """Lists block devices: address, name, properties. PATTERN is a regular expression.
The RPC bdev_get_bdevs lists the same number."""

    name, one = "fathom_print_bdevs", "bdev"

    def rows(self):
        return [(line_of(bdev, describe.bdev(bdev)), []) for bdev in walk.bdevs()]


class FindBdev(ListCommand):
    """Lists block devices with NAME in their name, and their channels with the I/Os in progress."""

    name, usage, one = "fathom_find_bdev", "NAME", "bdev"

    def run(self, words):
        if len(words) != 1:
            self.reject_usage("NAME is missing: the name of a block device, or a part of it")
        found = [bdev for bdev in walk.bdevs() if words[0] in text(bdev, "name")]
        rows = [(line_of(bdev, describe.bdev(bdev)), [line_of(channel, describe.bdev_channel(channel)) for channel in walk.bdev_channels(bdev)])
                for bdev in found]
        self.show(rows, None)


class PrintIoDevices(ListCommand):
    """Lists I/O devices, to which threads have channels: name, address, number of references; below them the channels."""

    name, one, programs = "fathom_print_io_devices", "device", ("engine", "server")

    def rows(self):
        channels = [channel for thread in walk.threads() for channel in walk.channels(thread)]
        for device in walk.devices():
            mine = [channel for channel in channels if int(field(channel, "device")) == int(device)]
            yield line_of(device, describe.device(device)), [line_of(channel, describe.channel(channel)) for channel in mine]


class PrintSubsystems(ListCommand):
    """Lists subsystems: NQN, id, state; below them namespaces and controllers. The RPC nvmf_get_subsystems lists the same number."""

    name, one = "fathom_print_nvmf_subsystems", "subsystem"

    def rows(self):
        for subsystem in walk.subsystems():
            below = [line_of(ns, describe.namespace(ns)) for ns in describe.namespaces(subsystem)]
            below += [line_of(ctrlr, describe.ctrlr(ctrlr)) for ctrlr in walk.ctrlrs(subsystem)]
            yield line_of(subsystem, describe.subsystem(subsystem)), below


class PrintThreads(ListCommand):
    """Lists light threads: name, reactor; below them their channels with devices and references.
The RPCs thread_get_stats and thread_get_io_channels list the same numbers."""

    name, one, programs = "fathom_print_threads", "thread", ("engine", "server")

    def rows(self):
        for thread in walk.threads():
            yield line_of(thread, describe.thread(thread)), [line_of(channel, describe.channel(channel)) for channel in walk.channels(thread)]

    def count_suffix(self, rows):
        return ", " + count_of(sum(len(below) for _, below in rows), "channel")


class PrintReactors(ListCommand):
    """Lists reactors: CPU, thread id, what they run, share of busy time; the control reactor is the last.
The RPC framework_get_reactors lists the others."""

    name, one, programs = "fathom_print_reactors", "reactor", ("engine", "server")

    def rows(self):
        for reactor in walk.reactors():
            yield line_of(reactor, describe.reactor(reactor)), []


class PrintPollers(ListCommand):
    """Lists pollers by thread: name, active, timed or paused, number of runs. The RPC thread_get_pollers lists the same number."""

    name, one, programs = "fathom_print_pollers", "poller", ("engine", "server")

    def rows(self):
        return [(line_of(poller, describe.poller(poller)), []) for thread in walk.threads() for poller in walk.pollers(thread)]


class PrintQpairs(ListCommand):
    """Lists queue pairs: host, address, number of requests. The RPC nvmf_subsystem_get_qpairs lists them by subsystem,
without those that have not connected yet."""

    name, one = "fathom_print_qpairs", "queue pair"

    def rows(self):
        return [(line_of(qpair, describe.qpair(qpair)), []) for qpair in walk.qpairs()]


class PrintRequests(ListCommand):
    """Lists NVMe requests in progress, the oldest first: command, state and time in it, age, queue pair, block device.
--older-than MS lists only requests of at least that age in milliseconds. `fathom_print_io` shows one in full."""

    name, usage, one = "fathom_print_requests", "[--older-than MS] [PATTERN]", "request"

    def run(self, words):
        oldest = 0
        if "--older-than" in words:
            at = words.index("--older-than")
            try:
                oldest = float(words[at + 1])
            except (IndexError, ValueError):
                self.reject_usage("--older-than takes a number of milliseconds")
            del words[at:at + 2]
        if len(words) > 1 or (words and words[0].startswith("--")):
            self.reject_usage(f"unexpected argument {words[-1]}: the command takes --older-than and one pattern")
        now = newest_tick()
        found = [(describe.ages(field(request, "story"), now)[1], request) for request in walk.requests()]
        found = [row for row in found if row[0] * 1000 >= oldest * tick_rate()]
        found.sort(key=lambda row: -row[0])
        self.show([(line_of(request, self.sentence(request, now)), []) for _, request in found], words[0] if words else None)

    @staticmethod
    def sentence(request, now):
        sentence = describe.nvmf_req(request, now)
        io = field(request, "io")
        return sentence + (f", on \"{describe.bdev_name(io)}\"" if number(io, "story", "state") else "")


class PrintIo(Command):
    """Shows one I/O with its request, queue pair, host, namespace, bdev_io and its parts, with states and times.
PTR is an address, an expression (io, &req->io), or the name in the trace (r193, i193)."""

    name, usage = "fathom_print_io", "PTR"

    def run(self, words):
        if not words:
            self.reject_usage("an address is missing; fathom_print_requests lists the requests in progress")
        for line in chain.lines(chain.find(" ".join(words))):
            print(line)


class Trace(Command):
    """Shows the last N events (20) of each ring of the trace, in order, from the process or core. PATTERN is a regular expression.
`fathom trace` shows more, from the trace file."""

    name, usage, programs = "fathom_trace", "[N] [PATTERN]", ("engine", "server")

    def run(self, words):
        count = TRACE_EVENTS
        if words and words[0].lstrip("-").isdigit():
            count = int(words.pop(0))
            if count < 1:
                self.reject_usage("N must be 1 or more")
        if len(words) > 1:
            self.reject_usage("a number and one pattern at most")
        try:
            wanted = re.compile(words[0] if words else "")
        except re.error as error:
            self.reject_usage(f"\"{words[0]}\" is not a regular expression: {error}")
        rows = [(row, trace.event_line(row)) for row in trace.newest_events(count)]
        shown = [(row, line) for row, line in rows if wanted.search(line)]
        for _, line in shown:
            print(line)
        print(trace.count_line([row for row, _ in shown]))


class PrintVolumes(ListCommand):
    """Lists volumes. On an engine: those of its storage, with state, size and number of hosts. On a server with the system's database: those of
the catalog, with rank and pending change. `fathom volume list` lists the same number."""

    name, one, programs = "fathom_print_volumes", "volume", ("engine", "server")

    def rows(self):
        if kind_of_program() == "server":
            return [(line_of(volume, describe.catalog_volume(volume)), []) for volume in walk.catalog_volumes()]
        return [(line_of(volume, describe.volume(volume)), []) for volume in walk.volumes()]


class PrintMembers(ListCommand):
    """Lists members of the system: rank, state, incarnation, host, fault domain, reason. Only on a server with the system's database.
`fathom system query` lists the same number."""

    name, one, programs = "fathom_print_members", "member", ("server",)

    def rows(self):
        if not walk.has_members():
            fail("this server has no members: another host has the system's database (mgmt_svc_replicas), or it is not open yet")
        return [(line_of(member, describe.member(member)), []) for member in walk.members()]


class PrintInstances(ListCommand):
    """Lists the engines of the server's host: state, rank, process, number of starts, fault. `fathom server query` lists the same number."""

    name, one, programs = "fathom_print_instances", "instance", ("server",)

    def rows(self):
        return [(line_of(instance, describe.instance(instance)), []) for instance in walk.instances()]


class PrintCalls(ListCommand):
    """Lists gRPC calls that have no response yet, with their ages: received calls with the caller's role, then sent calls."""

    name, one, programs = "fathom_print_calls", "call", ("server",)

    def rows(self):
        return ([(line_of(call, describe.call(call)), []) for call in walk.calls()] +
                [(line_of(call, describe.client_call(call)), []) for call in walk.client_calls()])


class PrintConnections(ListCommand):
    """Lists gRPC connections, incoming and outgoing, with their numbers of calls."""

    name, one, programs = "fathom_print_connections", "connection", ("server",)

    def rows(self):
        return [(line_of(link, describe.link(link)), []) for link in walk.links()]


class LoadMacros(Command):
    """Does nothing: the commands are loaded already."""

    name = "fathom_load_macros"

    def invoke(self, argument, from_tty):
        print("Nothing to load: the commands are loaded already. `apropos fathom_` lists them; `help fathom_print_bdevs` describes one.")

    def run(self, words):
        pass


COMMANDS = (PrintBdevs, FindBdev, PrintIoDevices, PrintSubsystems, PrintThreads, PrintReactors, PrintPollers, PrintQpairs, PrintRequests,
            PrintIo, PrintVolumes, PrintMembers, PrintInstances, PrintCalls, PrintConnections, Trace, LoadMacros)


def register():
    for command in COMMANDS:
        command.__doc__ += f"\nUsage: {command.name} {command.usage}"
        command()
