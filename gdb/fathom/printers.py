# SPDX-License-Identifier: BSD-2-Clause
"""
printers - pretty printers: `p *io` shows a sentence, `p/r *io` the fields, `p io->done` one of them.

A list of <sys/queue.h> is printed as its elements. The list's type does not name the member that links them. In a TAILQ it is the member
whose back pointer is the list's head; in an STAILQ the member that the head's pointer to the last element points to.
"""

import gdb
import gdb.printing

from fathom import describe
from fathom.memory import address, as_expression, follow

SENTENCES = {
    "trace_istr": describe.istr,
    "trace_object": describe.identity,
    "trace_story": describe.story,
    "bdev": describe.bdev,
    "bdev_io": describe.bdev_io,
    "bdev_channel": describe.bdev_channel,
    "bdev_desc": describe.bdev_desc,
    "volume": describe.volume,
    "volume_export": describe.volume_export,
    "pool": describe.pool,
    "catalog_pool": describe.catalog_pool,
    "catalog_volume": describe.catalog_volume,
    "nvmf_subsystem": describe.subsystem,
    "nvmf_ns": describe.namespace,
    "nvmf_ctrlr": describe.ctrlr,
    "nvmf_qpair": describe.qpair,
    "nvmf_req": describe.nvmf_req,
    "nvmf_poll_group": describe.poll_group,
    "nvmf_address": describe.address_text,
    "fathom_thread": describe.thread,
    "poller": describe.poller,
    "reactor": describe.reactor,
    "device": describe.device,
    "channel": describe.channel,
    "system_member": describe.member,
    "member": describe.record,
    "instance": describe.instance,
    "grpc_link": describe.link,
    "grpc_call": describe.call,
    "grpc_client_call": describe.client_call,
}


class SentencePrinter:
    def __init__(self, value, say):
        self.value, self.say = value, say

    def to_string(self):
        try:
            return self.say(self.value)
        except gdb.MemoryError:
            return "(some of its memory cannot be read; p/r shows the rest)"
        except (gdb.error, gdb.GdbError) as error:
            return f"({error}; p/r shows the fields)"


class ListPrinter:
    def __init__(self, value, elements):
        self.value, self.elements = value, elements

    def to_string(self):
        return f"a list of {len(self.elements)}" if self.elements else "an empty list"

    def children(self):
        for i, element in enumerate(self.elements):
            yield f"[{i}] {as_expression(element)}", element.dereference()


def links_of(kind, following):
    """The members of a structure that can link it in a list."""
    for member in kind.fields():
        inner = member.type.strip_typedefs()
        if member.name and inner.code == gdb.TYPE_CODE_STRUCT and following in [one.name for one in inner.fields()]:
            yield member.name


def elements_of(head):
    """The list's elements; None: the linking member is unknown."""
    first, last = next((names for names in (("tqh_first", "tqh_last"), ("stqh_first", "stqh_last")) if names[0] in fields_of(head)))
    if int(head[first]) == 0:
        return []
    following = first.replace("h_first", "e_next")
    for link in links_of(head[first].type.target().strip_typedefs(), following):
        if first == "tqh_first":
            if int(head[first][link]["tqe_prev"]) == address(head[first].address):
                return list(follow(head[first], link, following))
            continue
        elements = list(follow(head[first], link, following))
        if int(elements[-1][link][following].address) == int(head[last]):
            return elements
    return None


def fields_of(value):
    return [member.name for member in value.type.strip_typedefs().fields()]


def lookup(value):
    kind = value.type.strip_typedefs()
    if kind.code != gdb.TYPE_CODE_STRUCT:
        return None
    if kind.tag in SENTENCES:
        return SentencePrinter(value, SENTENCES[kind.tag])
    if len(kind.fields()) == 2 and kind.fields()[0].name in ("tqh_first", "stqh_first") and value.address is not None:
        try:
            elements = elements_of(value)
        except (gdb.error, gdb.GdbError):
            elements = None
        return None if elements is None else ListPrinter(value, elements)
    return None


def register():
    lookup.name, lookup.enabled = "fathom", True
    gdb.printing.register_pretty_printer(None, lookup, replace=True)
