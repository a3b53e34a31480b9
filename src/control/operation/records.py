# SPDX-License-Identifier: BSD-2-Clause
"""
records - rows about the client library: structures of results, and calls. A comment directly above one goes into control.h or control_results.h,
and one behind a field or an argument, too.

    record NAME [from MESSAGE...]
        struct fathom_control_NAME, and functions that copy it from these messages (none: hand-written code fills it).
    field u32|u64|i32|i64|bool|text|enum NAME [= SOURCE]
    field texts|i32s|u32s|u64s NAME COUNT [= SOURCE]
    field list NAME COUNT of RECORD [= SOURCE] [sorted FIELD]
    field optional|record NAME of RECORD [= SOURCE]
        SOURCE is a field of the message, or a path such as nvme.ctrlrs; by default NAME. A|B: one of these; A?: it may be absent in some
        messages; -: not copied. COUNT is the structure's member with the length of a list. An enum becomes the name of its value. `optional` is
        a pointer, NULL if the message has none; `record` lies in the structure.
    fill FUNCTION
        void FUNCTION(struct arena *, const MESSAGE *from, struct fathom_control_NAME *to) fills what is not copied.
    end FUNCTION
        int FUNCTION(struct control_run *, struct fathom_control_NAME *) prints the result of a command and ends it (src/cmd/fathom/control).
    json KEY[=FIELD]...
        The JSON object of the record, made by json_of_NAME(). KEY=null, KEY="", KEY=false, KEY=0: a constant; KEY?: only if the text is not empty; KEY[]: an
        empty list is [], not null; KEY|no_rank: null for FATHOM_CONTROL_NO_RANK; KEY@FUNCTION: json_t *FUNCTION(const struct ... *).
    json-list FIELD
        The record's JSON is that list, or that text.
    json-answers NAME HOSTS BODY
        The keys of the JSON of hosts' answers, made by json_of_NAME_answers().
    columns "TITLE" FIELD[:FORMAT], ...
        table_of_NAME() prints records as a table. FORMAT: size, time, node, speed, rank, pid, state, joined; by default as the field is.

    table FIELD
        show_NAME() prints that list, whose record has a row `columns`.

    call NAME asks SERVICE/METHOD as REQUEST retry read|same|never
    call NAME asks SERVICE/METHOD as REQUEST hosts
        fathom_control_NAME(): asks the management service, or all hosts. REQUEST names it in messages, such as "system query". `retry` tells what
        happens if it is unknown whether the server executed a request: `read` (changes nothing) and `same` (idempotent) are repeated.
    argument choice | argument u32|u64|bool|text NAME [= FIELD] | argument list RECORD NAME [= FIELD]
    argument fields RECORD NAME
        `fields` is a pointer to a record, whose fields become those of the request with the same names. A text may be NULL.
    part FIELD, set FIELD = EXPRESSION
        A message in the request; a field of the request in C, from the arguments.
    build FUNCTION
        int FUNCTION(struct arena *, const struct fathom_control_RECORD *, MESSAGE *, struct fathom_fault *) fills what is not copied of `fields`.
    name EXPRESSION         instead of REQUEST, in C
    before CALL             C: must return 0, or the call fails
    progress STATE          while the service works, members in this state are counted
    wait EXPRESSION         time in ns that the server waits on purpose
    answers RECORD|NAME=text...
        The members of struct fathom_control_answer, in the order of the ABI.
    result RECORD [by FUNCTION]
        FUNCTION takes the whole response; without it the record is copied.
    equalize FUNCTION       void FUNCTION(MESSAGE *, struct fathom_control_answer *) clears what differs between similar hosts, after the copy
"""

import re

import proto
from errors import DefError

SCALARS = {"u32": "uint32_t ", "u64": "uint64_t ", "i32": "int32_t ", "i64": "int64_t ", "bool": "bool ", "text": "const char *", "enum": "const char *"}
PROTO_KINDS = {"u32": "uint32", "u64": "uint64", "i32": "int32", "i64": "int64", "bool": "bool", "text": "string", "texts": "string", "i32s": "int32", "u32s": "uint32", "u64s": "uint64"}
NUMBERS = {"i32s": "int32_t", "u32s": "uint32_t", "u64s": "uint64_t"}  # lists
LISTS = ("texts", "list", *NUMBERS)
FORMATS = ("size", "time", "node", "speed", "rank", "pid", "state", "joined")
RETRIES = {"read": "AGAIN_READ", "same": "AGAIN_SAME", "never": "AGAIN_NEVER"}


class Field:
    def __init__(self, text, comment):
        match = re.match(r"(u32|u64|i32|i64|bool|text|enum|texts|i32s|u32s|u64s|list|optional|record) (\w+)(?: (?!of\b)(\w+))?(?: of (\w+))?(?: = (\S+))?"
                         r"(?: sorted (\w+))?$", text)
        if not match:
            raise DefError(f"expected: field TYPE NAME [COUNT] [of RECORD] [= SOURCE] [sorted FIELD]; got \"{text}\"")
        self.type, self.name, self.count, self.record, source, self.sorted = match.groups()
        self.comment = comment
        if (self.type in LISTS) != (self.count is not None):
            raise DefError(f"{self.name}: a list has the name of its count, and nothing else has one")
        if (self.type in ("list", "optional", "record")) != (self.record is not None):
            raise DefError(f"{self.name}: list, optional and record have `of RECORD`, and nothing else has it")
        source = source or self.name
        self.is_copied, self.may_be_absent = source != "-", source.endswith("?")
        self.sources = [path.split(".") for path in source.rstrip("?").split("|")]

    def declaration(self):
        """Its members of the structure, in C."""
        if self.type == "texts":
            return [f"const char *const *{self.name};", f"size_t {self.count};"]
        if self.type in NUMBERS:
            return [f"const {NUMBERS[self.type]} *{self.name};", f"size_t {self.count};"]
        if self.type == "list":
            return [f"const struct fathom_control_{self.record} *{self.name};", f"size_t {self.count};"]
        if self.type == "optional":
            return [f"const struct fathom_control_{self.record} *{self.name};"]
        if self.type == "record":
            return [f"struct fathom_control_{self.record} {self.name};"]
        return [f"{SCALARS[self.type]}{self.name};"]

    def find(self, message):
        """(path of message fields, the last proto.Field) in that message; None: absent."""
        for path in self.sources:
            fields, inside = [], message
            for name in path:
                field = inside.fields.get(name.lower()) if inside else None
                if not field:
                    break
                fields.append(field)
                inside = field.message
            if len(fields) == len(path):
                return fields
        return None


class Record:
    def __init__(self, table, where, text, comment):
        words = text.split()
        if not words or (len(words) > 1 and (words[1] != "from" or len(words) == 2)):
            raise DefError(f"expected: record NAME [from MESSAGE...]; got \"{text}\"")
        self.where, self.name, self.comment = where, words[0], comment
        self.messages = [table.message(name) for name in words[2:]]
        self.fields, self.fill, self.end, self.table = [], None, None, None
        self.json = self.json_list = self.json_answers = self.columns = None

    def field(self, name):
        for field in self.fields:
            if field.name == name:
                return field
        raise DefError(f"{self.where}: {self.name} has no field {name}")

    @property
    def struct(self):
        return f"struct fathom_control_{self.name}"

    def copy_name(self, message):
        return f"copy_{self.name}" + ("_from_" + message.c_words()[-1] if len(self.messages) > 1 else "")

    def check(self, table):
        names = [key.field for key in self.json or [] if not key.function and not key.constant] + [column.field for column in self.columns or []]
        for name in names + ([self.json_list] if self.json_list else []):
            self.field(name)
        if self.table and not (self.field(self.table).record and table.records[self.field(self.table).record].columns):
            raise DefError(f"{self.where}: {self.table} is no list of a record with columns")
        for field in self.fields:
            if field.record and field.record not in table.records:
                raise DefError(f"{self.where}: no record {field.record}")
            for message in self.messages if field.is_copied else []:
                found = field.find(message)
                if not found and not field.may_be_absent:
                    raise DefError(f"{self.where}: {message.name} has no field {'.'.join(field.sources[0])}")
                wanted = PROTO_KINDS.get(field.type)
                if found and wanted and found[-1].kind != wanted:
                    raise DefError(f"{self.where}: {field.name} is {field.type}, but {found[-1].name} of {message.name} is {found[-1].kind}")
                if found and found[-1].is_repeated != (field.type in LISTS):
                    raise DefError(f"{self.where}: only one of {field.name} and {found[-1].name} of {message.name} is a list")


class JsonKey:
    """One word of a row `json`."""

    def __init__(self, word):
        match = re.match(r"(\w+)(?:=(null|false|\"\"|0|\w+))?(\?|\[\]|\|no_rank)?(?:@(\w+))?$", word)
        if not match:
            raise DefError(f"\"{word}\" is not KEY[=FIELD]")
        self.key, value, self.mark, self.function = match.groups()
        self.constant = value if value in ("null", "false", '""', "0") else None
        self.field = value or self.key


class Column:
    def __init__(self, text):
        match = re.match(r'"([^"]+)" (\w+)(?::(\w+))?$', text.strip())
        if not match or (match.group(3) and match.group(3) not in FORMATS):
            raise DefError(f"\"{text.strip()}\" is not \"TITLE\" FIELD[:FORMAT]; FORMAT is one of {', '.join(FORMATS)}")
        self.title, self.field, self.format = match.groups()


class Argument:
    def __init__(self, text, comment):
        match = re.match(r"(choice)$|(u32|u64|bool|text) (\w+)(?: = (\w+))?$|(list|fields) (\w+) (\w+)(?: = (\w+))?$", text)
        if not match or (match.group(5) == "fields" and match.group(8)):
            raise DefError("expected: argument choice | argument TYPE NAME [= FIELD] | argument list RECORD NAME [= FIELD] | argument fields RECORD NAME; "
                           f"got \"{text}\"")
        self.comment, self.record = comment, match.group(6)
        self.type = match.group(1) or match.group(2) or match.group(5)
        self.name = match.group(1) or match.group(3) or match.group(7)
        self.field = match.group(4) or match.group(8) or self.name

    def parameters(self):
        if self.type == "choice":
            return ["const struct fathom_control_choice *choice"]
        if self.type == "list":
            return [f"const struct fathom_control_{self.record} *{self.name}", "size_t count"]
        if self.type == "fields":
            return [f"const struct fathom_control_{self.record} *{self.name}"]
        return [SCALARS[self.type] + self.name]


class Call:
    def __init__(self, table, where, text, comment):
        match = re.match(r"(\w+) asks (\S+) as (\S.*?) (?:(hosts)|retry (read|same|never))$", text)
        if not match:
            raise DefError(f"expected: call NAME asks SERVICE/METHOD as REQUEST retry read|same|never, or hosts; got \"{text}\"")
        self.where, self.comment = where, comment
        self.name, self.path, self.request_name, hosts, self.retry = match.groups()
        self.is_hosts = bool(hosts)
        self.method = None  # found when all rows are read
        self.arguments, self.parts, self.sets = [], [], []
        self.name_expression = self.before = self.progress = self.wait = self.result = self.taken_by = self.equalize = self.build = None

    @property
    def has_choice(self):
        return any(argument.type == "choice" for argument in self.arguments)

    @property
    def fields_argument(self):
        return next((argument for argument in self.arguments if argument.type == "fields"), None)

    def check_fields(self, table):
        """Each field of an argument `fields` is one of the request, unless a function fills the rest."""
        given = self.fields_argument
        if self.build and not given:
            raise DefError(f"{self.where}: only a call with an argument \"fields\" has a row \"build\"")
        if not given:
            return
        if given.record not in table.records:
            raise DefError(f"{self.where}: no record {given.record}")
        for field in table.records[given.record].fields:
            found = field.find(self.method.request)
            if not found and not self.build:
                raise DefError(f"{self.where}: {self.method.request.name} has no field {field.name}")
            if found and found[-1].kind != PROTO_KINDS.get(field.type):
                raise DefError(f"{self.where}: {field.name} is {field.type}, but {found[-1].name} of {self.method.request.name} is {found[-1].kind}")

    def check(self, table):
        self.method = next((method for method in table.methods if method.path == self.path), None)
        if not self.method:
            raise DefError(f"{self.where}: no row \"method\" for {self.path}")
        fields = self.method.request.fields
        for name in [*self.parts, *(name.split(".")[0] for name, _ in self.sets)]:
            if name not in fields:
                raise DefError(f"{self.where}: {self.method.request.name} has no field {name}")
        if self.result and self.result not in table.records:
            raise DefError(f"{self.where}: no record {self.result}")
        if self.is_hosts and self.result not in [word.partition("=")[0] for word in table.answers]:
            raise DefError(f"{self.where}: a row \"answers\" names the result of a call to hosts")
        record = table.records.get(self.result)
        if record and not self.taken_by and self.method.answer not in record.messages:
            raise DefError(f"{self.where}: {self.result} is not copied from {self.method.answer.name}")
        text = " ".join([expression for _, expression in self.sets] + [self.before or "", self.name_expression or "", self.wait or ""])
        self.check_fields(table)
        for argument in self.arguments:
            if argument.type not in ("choice", "fields") and argument.field not in fields and not re.search(rf"\b{argument.name}\b", text):
                raise DefError(f"{self.where}: {argument.name} is used by no field of {self.method.request.name}")


def parameters(call):
    """Its parameters in C, in order."""
    out = ["struct fathom_control *control"]
    for argument in call.arguments:
        out += argument.parameters()
    if call.is_hosts:
        out.append("struct fathom_control_answers **ret")
    elif call.result:
        out.append(f"struct fathom_control_{call.result} **ret")
    return out + ["struct fathom_fault *why"]


def map_entries(messages):
    """The entries of map<string, string> fields are messages, too: mgmt.SystemGetAttrResp.AttributesEntry."""
    for message in list(messages.values()):
        for field in message.fields.values():
            if field.is_map:
                name = "".join(word.capitalize() for word in field.name.split("_"))
                entry = proto.Message(f"{message.name}.{name}Entry", message.file)
                entry.fields = {key: proto.Field(key, "string", False) for key in ("key", "value")}
                field.message = messages[entry.name] = entry
