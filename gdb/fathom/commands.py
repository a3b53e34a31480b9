# SPDX-License-Identifier: BSD-2-Clause
"""commands - what is typed: fathom_print_*, fathom_find_bdev, fathom_trace. Each list takes a pattern and ends with a count."""

import re

import gdb

from fathom import chain, describe, trace, walk
from fathom.memory import as_expression, count_of, field, need_process, newest_tick, number, refuse, text, tick_rate

TRACE_EVENTS = 20   # of each ring, where nobody says how many


class Command(gdb.Command):
    """Turns what goes wrong into a sentence. `run(words)` does the work. `programs`: whose command it is."""

    name, usage, programs = "", "", ("engine",)

    def __init__(self):
        super().__init__(self.name, gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        try:
            need_process(self.programs)
            self.run(gdb.string_to_argv(argument))
        except gdb.MemoryError as error:
            refuse(f"{error}: that memory is not there. A core has it only as far as the process's core filter and the size limit allow "
                   "(docs/debugging.md, cores)")
        except gdb.error as error:
            refuse(f"{error}. If the program and these scripts are of one build, its memory has been overwritten there")

    def misused(self, what):
        refuse(f"{what}. Usage: {self.name}{' ' if self.usage else ''}{self.usage}")

    def run(self, words):
        raise NotImplementedError


class ListCommand(Command):
    """One line each (and perhaps some below it); those of which a line matches the pattern, and how many these are."""

    usage = "[PATTERN]"
    one, many = "", None

    def rows(self):
        """[(first line, [lines below it])]"""
        raise NotImplementedError

    def also(self, rows):
        """What the last line says beside the count."""
        return ""

    def run(self, words):
        if len(words) > 1:
            self.misused("one pattern at most, in quotes if there is a blank in it")
        self.show(list(self.rows()), words[0] if words else None)

    def show(self, rows, pattern):
        try:
            wanted = re.compile(pattern or "")
        except re.error as error:
            self.misused(f"\"{pattern}\" is no regular expression: {error}")
        shown = [row for row in rows if any(wanted.search(line) for line in (row[0], *row[1]))]
        for first, below in shown:
            print(first)
            for line in below:
                print(f"    {line}")
        of = "" if pattern is None else f" of {len(rows)}"
        print(f"{len(shown)}{of} {self.one if (len(shown) if pattern is None else len(rows)) == 1 else self.many or self.one + 's'}"
              f"{self.also(shown)}")


def line_of(value, sentence):
    return f"{as_expression(value)}  {sentence}"


class PrintBdevs(ListCommand):
    """Block devices: address, name, what it is. PATTERN, a regular expression, chooses.
The count is that of the RPC bdev_get_bdevs."""

    name, one = "fathom_print_bdevs", "bdev"

    def rows(self):
        return [(line_of(bdev, describe.bdev(bdev)), []) for bdev in walk.bdevs()]


class FindBdev(ListCommand):
    """Block devices with NAME in their name, and their channels with what is under way on them."""

    name, usage, one = "fathom_find_bdev", "NAME", "bdev"

    def run(self, words):
        if len(words) != 1:
            self.misused("a part of a name is wanted")
        found = [bdev for bdev in walk.bdevs() if words[0] in text(bdev, "name")]
        rows = [(line_of(bdev, describe.bdev(bdev)), [line_of(channel, describe.bdev_channel(channel)) for channel in walk.bdev_channels(bdev)])
                for bdev in found]
        self.show(rows, None)


class PrintIoDevices(ListCommand):
    """What threads have channels to: name, address, how many threads refer to it; and these channels with their reference counts."""

    name, one, programs = "fathom_print_io_devices", "device", ("engine", "server")

    def rows(self):
        channels = [channel for thread in walk.threads() for channel in walk.channels(thread)]
        for device in walk.devices():
            mine = [channel for channel in channels if int(field(channel, "device")) == int(device)]
            yield line_of(device, describe.device(device)), [line_of(channel, describe.channel(channel)) for channel in mine]


class PrintSubsystems(ListCommand):
    """Subsystems: NQN, id, state; their namespaces and controllers below. The count is that of the RPC nvmf_get_subsystems."""

    name, one = "fathom_print_nvmf_subsystems", "subsystem"

    def rows(self):
        for subsystem in walk.subsystems():
            below = [line_of(ns, describe.namespace(ns)) for ns in describe.namespaces(subsystem)]
            below += [line_of(ctrlr, describe.ctrlr(ctrlr)) for ctrlr in walk.ctrlrs(subsystem)]
            yield line_of(subsystem, describe.subsystem(subsystem)), below


class PrintThreads(ListCommand):
    """Light threads: name, where they live; their channels below, with devices and reference counts.
The counts are those of the RPCs thread_get_stats and thread_get_io_channels."""

    name, one, programs = "fathom_print_threads", "thread", ("engine", "server")

    def rows(self):
        for thread in walk.threads():
            yield line_of(thread, describe.thread(thread)), [line_of(channel, describe.channel(channel)) for channel in walk.channels(thread)]

    def also(self, rows):
        return ", " + count_of(sum(len(below) for _, below in rows), "channel")


class PrintReactors(ListCommand):
    """Reactors: CPU, asleep or what they run, how busy; the control reactor is the last.
The count is that of the RPC framework_get_reactors, and the control reactor."""

    name, one, programs = "fathom_print_reactors", "reactor", ("engine", "server")

    def rows(self):
        for reactor in walk.reactors():
            yield line_of(reactor, describe.reactor(reactor)), []


class PrintPollers(ListCommand):
    """Pollers by thread: name, active, timed or paused, how often they ran. The count is that of the RPC thread_get_pollers."""

    name, one, programs = "fathom_print_pollers", "poller", ("engine", "server")

    def rows(self):
        return [(line_of(poller, describe.poller(poller)), []) for thread in walk.threads() for poller in walk.pollers(thread)]


class PrintQpairs(ListCommand):
    """Queue pairs: whose, from where, how many requests. The count is that of the RPC nvmf_subsystem_get_qpairs of all subsystems,
and those that have not connected yet."""

    name, one = "fathom_print_qpairs", "queue pair"

    def rows(self):
        return [(line_of(qpair, describe.qpair(qpair)), []) for qpair in walk.qpairs()]


class PrintRequests(ListCommand):
    """NVMe requests that are under way, the oldest first: command, state and for how long, age, queue pair, block device.
With --older-than MS only those that have been under way for so many milliseconds. `fathom_print_io` shows one in full."""

    name, usage, one = "fathom_print_requests", "[--older-than MS] [PATTERN]", "request"

    def run(self, words):
        oldest = 0
        if "--older-than" in words:
            at = words.index("--older-than")
            try:
                oldest = float(words[at + 1])
            except (IndexError, ValueError):
                self.misused("--older-than takes a number of milliseconds")
            del words[at:at + 2]
        if len(words) > 1 or (words and words[0].startswith("--")):
            self.misused(f"{words[0]}: there is --older-than, and one pattern")
        now = newest_tick()
        found = [(describe.ages(field(request, "story"), now)[1], request) for request in walk.requests()]
        found = [row for row in found if row[0] * 1000 >= oldest * tick_rate()]
        found.sort(key=lambda row: -row[0])
        self.show([(line_of(request, self.sentence(request, now)), []) for _, request in found], words[0] if words else None)

    @staticmethod
    def sentence(request, now):
        said = describe.nvmf_req(request, now)
        io = field(request, "io")
        return said + (f", on \"{describe.bdev_name(io)}\"" if number(io, "story", "state") else "")


class PrintIo(Command):
    """One I/O with all that it belongs to and is made of: request, queue pair, host, namespace, bdev_io, its parts, with states and times.
PTR is an address, an expression (io, &req->io), or the name in the trace (r193, i193)."""

    name, usage = "fathom_print_io", "PTR"

    def run(self, words):
        if not words:
            self.misused("whose address? fathom_print_requests lists what is under way")
        for line in chain.lines(chain.find(" ".join(words))):
            print(line)


class Trace(Command):
    """The last N events (20) of each ring of the trace, in their order, out of the process or core. PATTERN, a regular expression, chooses.
`fathom trace` shows more of them, from the trace file."""

    name, usage, programs = "fathom_trace", "[N] [PATTERN]", ("engine", "server")

    def run(self, words):
        count = TRACE_EVENTS
        if words and words[0].lstrip("-").isdigit():
            count = int(words.pop(0))
            if count < 1:
                self.misused("N is 1 or more")
        if len(words) > 1:
            self.misused("a number and one pattern at most")
        try:
            wanted = re.compile(words[0] if words else "")
        except re.error as error:
            self.misused(f"\"{words[0]}\" is no regular expression: {error}")
        rows = [(row, trace.line(row)) for row in trace.newest(count)]
        shown = [(row, line) for row, line in rows if wanted.search(line)]
        for _, line in shown:
            print(line)
        print(trace.said_of([row for row, _ in shown]))


class PrintMembers(ListCommand):
    """Members of the system: rank, state, incarnation, host, fault domain, why. Of the server that keeps the system's database.
The count is that of `fathom system query`."""

    name, one, programs = "fathom_print_members", "member", ("server",)

    def rows(self):
        if not walk.has_members():
            refuse("this server keeps no members: the system's database is elsewhere (mgmt_svc_replicas), or not open yet")
        return [(line_of(member, describe.member(member)), []) for member in walk.members()]


class PrintInstances(ListCommand):
    """Engines of the server's host: state, rank, process, how often it was started, what is wrong. As `fathom server query`."""

    name, one, programs = "fathom_print_instances", "instance", ("server",)

    def rows(self):
        return [(line_of(instance, describe.instance(instance)), []) for instance in walk.instances()]


class PrintCalls(ListCommand):
    """gRPC calls that are not answered yet: of others, with their role, and to others; for how long."""

    name, one, programs = "fathom_print_calls", "call", ("server",)

    def rows(self):
        return ([(line_of(call, describe.call(call)), []) for call in walk.calls()] +
                [(line_of(call, describe.client_call(call)), []) for call in walk.client_calls()])


class PrintConnections(ListCommand):
    """gRPC connections of others and to others, with how many calls they have."""

    name, one, programs = "fathom_print_connections", "connection", ("server",)

    def rows(self):
        return [(line_of(link, describe.link(link)), []) for link in walk.links()]


class LoadMacros(Command):
    """For habit: there is nothing to load."""

    name = "fathom_load_macros"

    def invoke(self, argument, from_tty):
        print("Nothing is needed: the commands are there. `help user-defined` does not list them; `help fathom_print_bdevs` and "
              "`apropos fathom_` do.")

    def run(self, words):
        pass


COMMANDS = (PrintBdevs, FindBdev, PrintIoDevices, PrintSubsystems, PrintThreads, PrintReactors, PrintPollers, PrintQpairs, PrintRequests,
            PrintIo, PrintMembers, PrintInstances, PrintCalls, PrintConnections, Trace, LoadMacros)


def register():
    for command in COMMANDS:
        command.__doc__ += f"\nUsage: {command.name} {command.usage}"
        command()
