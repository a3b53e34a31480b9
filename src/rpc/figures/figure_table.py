# SPDX-License-Identifier: BSD-2-Clause
"""
figure_table - reads figures.def, which explains its lines itself, and checks it.

read(path) returns a list of sections, each with its families. A TableError names file and line.
"""

import re
import shlex

PREFIX = "fathom_"
TYPES = {"counter": "_total", "gauge": "", "histogram": "", "info": "_info"}
UNITS = {"seconds", "bytes", "celsius"}
PROGRAMS = {"engine", "server"}
NAME = re.compile(r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$")
RESERVED = ("_total", "_info", "_bucket", "_count", "_sum", "_created")  # suffixes that a format adds
LABELS_MAX = 4


class TableError(Exception):
    pass


class Family:
    def __init__(self, where, kind, name):
        self.where, self.kind, self.name = where, kind, name
        self.by, self.labels, self.unit, self.bound, self.help = [], [], "", "", ""

    @property
    def family_name(self):
        """In OpenMetrics, where a family has no suffix."""
        return PREFIX + self.name

    @property
    def sample_name(self):
        """As queries name it."""
        return PREFIX + self.name + TYPES[self.kind]

    @property
    def sample_names(self):
        if self.kind == "histogram":
            return [self.family_name + suffix for suffix in ("_bucket", "_sum", "_count")]
        return [self.sample_name]


class Section:
    def __init__(self, title):
        self.title, self.families = title, []


def check(family):
    if not NAME.match(family.name) or family.name.endswith(RESERVED):
        raise TableError(f'"{family.name}" is not the name of a family')
    if not family.by or not set(family.by) <= PROGRAMS:
        raise TableError(f"{family.name}: by= names none of {' '.join(sorted(PROGRAMS))}")
    if family.unit and family.unit not in UNITS:
        raise TableError(f'{family.name}: unit "{family.unit}" is none of {" ".join(sorted(UNITS))}')
    if family.unit and not family.name.endswith("_" + family.unit):
        raise TableError(f"{family.name} does not end with its unit, {family.unit}")
    for unit in UNITS:
        if family.name.endswith("_" + unit) and family.unit != unit:
            raise TableError(f"{family.name} ends with {unit}, which is not its unit")
    if len(family.labels) > LABELS_MAX or not all(NAME.match(label) for label in family.labels):
        raise TableError(f"{family.name}: labels are not at most {LABELS_MAX} names")
    if "le" in family.labels or (family.by == ["engine"] and "rank" in family.labels):
        raise TableError(f"{family.name}: le and rank are not its own labels")
    if not family.bound:
        raise TableError(f"{family.name}: bound= is missing")
    if not family.help.endswith("."):
        raise TableError(f"{family.name}: help is no sentence")


def read_family(words, where):
    if len(words) < 2 or words[0] not in TYPES:
        raise TableError(f"{words[0]} is none of {' '.join(TYPES)}")
    family = Family(where, words[0], words[1])
    for word in words[2:]:
        key, _, value = word.partition("=")
        if key in ("by", "labels"):
            setattr(family, key, value.split(","))
        elif key in ("unit", "bound"):
            setattr(family, key, value)
        else:
            raise TableError(f'"{word}" is unknown')
    return family


def read(path):
    sections, family = [], None
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            where = f"{path}:{number}"
            text = line.strip()
            try:
                if not text or text.startswith("#"):
                    continue
                if line.startswith("\t"):
                    if not family or not text.startswith("help ") or family.help:
                        raise TableError("this line belongs to no family")
                    family.help = text.removeprefix("help ")
                    check(family)
                elif text.startswith("section "):
                    sections.append(Section(text.removeprefix("section ")))
                elif not sections:
                    raise TableError("no section begins before it")
                elif family and not family.help:
                    raise TableError(f"{family.name} has no help")
                else:
                    family = read_family(shlex.split(text), where)
                    if any(family.name == other.name for section in sections for other in section.families):
                        raise TableError(f"{family.name} is there twice")
                    sections[-1].families.append(family)
            except TableError as error:
                raise TableError(f"{where}: {error}") from None
    if family and not family.help:
        raise TableError(f"{family.where}: {family.name} has no help")
    return sections


def families(path):
    return [family for section in read(path) for family in section.families]
