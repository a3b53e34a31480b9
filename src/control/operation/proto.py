# SPDX-License-Identifier: BSD-2-Clause
"""
proto - reads the messages of src/rpc/proto/*.proto, as far as the generator of operations needs them: their fields, by name.

A field knows its type ("string", "uint32", "ctl.SmdDevice" ...) and whether it is repeated or a map. Names in C are those of protoc-c.
"""

import os
import re

SCALARS = {"bool", "bytes", "double", "float", "int32", "int64", "string", "uint32", "uint64"}
FIELD = re.compile(r"^(repeated )?(map<\s*\w+,\s*\w+\s*>|[\w.]+) (\w+) = \d+$")


class Field:
    def __init__(self, name, kind, is_repeated):
        self.name, self.is_map = name.lower(), kind.startswith("map<")
        self.kind, self.is_repeated = kind, is_repeated or self.is_map
        self.message = None  # a Message, if the type is one
        self.enum = None     # "ctl.NvmeDevState", if the type is an enum

    @property
    def c_name(self):
        return self.name + "_" if self.name in ("class",) else self.name


class Message:
    def __init__(self, name, file):
        self.name, self.file, self.fields = name, file, {}

    def c_words(self):
        return [snake(part) for part in self.name.split(".")]

    @property
    def c_type(self):
        """mgmt.GroupUpdateReq.Engine: Mgmt__GroupUpdateReq__Engine."""
        return "__".join(part[0].upper() + part[1:] for part in self.name.split("."))

    @property
    def c_stem(self):
        """mgmt.SystemQueryReq: mgmt__system_query_req."""
        return "__".join(self.c_words())

    @property
    def c_init(self):
        return self.c_stem.upper() + "__INIT"

    @property
    def header(self):
        return f"rpc/proto/{self.file}.pb-c.h"


def snake(name):
    """As protoc-c: a word begins at a capital behind a small letter, and at the last of several capitals."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def read_file(path):
    """(name, Message) of each message, and the names of enums; types of fields are as written."""
    with open(path) as file:
        text = re.sub(r"//[^\n]*", "", file.read())
    package = re.search(r"\bpackage (\w+);", text)
    stem = os.path.splitext(os.path.basename(path))[0]
    messages, enums, scopes = {}, set(), [package.group(1) if package else None]
    for statement, end in re.findall(r"([^;{}]*)([;{}])", text):
        words = " ".join(statement.split())
        if end == "{":
            scopes.append(words.split()[-1] if words.startswith(("message ", "enum ")) else None)
            name = ".".join(scope for scope in scopes if scope)
            if words.startswith("message "):
                messages[name] = Message(name, stem)
            elif words.startswith("enum "):
                enums.add(name)
        elif end == "}":
            scopes.pop()
        else:
            name, match = ".".join(scope for scope in scopes if scope), FIELD.match(words)
            if match and name in messages:
                messages[name].fields[match.group(3).lower()] = Field(match.group(3), match.group(2), bool(match.group(1)))
    return messages, enums


def resolve(field, scope, messages, enums):
    """A type is looked for in the message, then outwards."""
    parts = scope.split(".")
    for count in range(len(parts), -1, -1):
        name = ".".join(parts[:count] + [field.kind])
        if name in messages:
            field.message = messages[name]
            return
        if name in enums:
            field.enum = name
            return


def read(folder):
    """All messages of a folder by their full names."""
    messages, enums = {}, set()
    for name in sorted(os.listdir(folder)):
        if name.endswith(".proto"):
            of_file, enums_of_file = read_file(os.path.join(folder, name))
            messages.update(of_file)
            enums |= enums_of_file
    for message in messages.values():
        for field in message.fields.values():
            if field.kind not in SCALARS and not field.is_map:
                resolve(field, message.name, messages, enums)
    return messages
