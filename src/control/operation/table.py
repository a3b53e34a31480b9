# SPDX-License-Identifier: BSD-2-Clause
"""
table - reads the table of operations: all *.def files of this folder, one line a row. Text behind # is a comment.

    method SERVICE/NAME by PLACE for ROLE... [request MESSAGE] [answer MESSAGE] [function NAME]
        A gRPC method of a server. PLACE is `mgmt` (src/control/mgmt) or `server` (src/control/server); ROLES are admin, agent, server.
        By default the messages are NAMEReq and NAMEResp of the service's package, and the function is mgmt_NAME() or call_NAME().

    faults NAME...
        Below a method: faults of src/control/fault/faults.def that it answers, beside those of a row `faults` that stands below no method; these
        can be the answer to any call. A fault about one rank or engine stands in the results. A test compares the rows with the source.

    reason
        why TEXT
        instead TEXT
        absent SERVICE/NAME [field NUMBER] COMMAND [(WORD, ...)]
        Methods of DAOS that servers refuse, with dmg's COMMAND, for this reason. Commands may share a method: a row with a field is for
        requests that contain the field, one without a field for all others. The words in brackets are the commands below COMMAND.
        A method with a row "method" may have rows with a field: its function refuses such requests by mgmt_refuse_absent().
        unsupported COMMAND [-LETTER, --OPTION]
        A command or an option of dmg that has no method of its own, and that `fathom` does not have for this reason. `instead` may be left out.

    dmg same|other|none [WORDS] [| TEXT]
        Below a command or an option: what dmg has of it, for docs/dmg.md. WORDS is dmg's name, if it is another one; TEXT is the difference.
        `none`: dmg does not have it. Without this row dmg does not have a command, and an option stands in the row of its command.

    group NAME [page PAGE]
        summary TEXT    in one line, also in the man page's NAME
        man TEXT        the man page's DESCRIPTION
        progress TEXT   what a terminal shows of a long command
        A group of commands, `fathom NAME`; PAGE is its man page (fathom-NAME). The commands below belong to it.

    option NAME [-LETTER] [as MEMBER] TYPE[:VALUES] [ARGUMENT] [default EXPRESSION]
        help TEXT       in one line, for --help
        man TEXT        for the man page; without it the help is used
        An option. MEMBER is its member of struct control_values, for an option of the name and of another type than that of another command.
        Below a command it is its own; above all commands any command may name it. `common` declares one that all commands have.
        TYPES: flag, text, file, folder (completion offers files or folders), path (must be absolute), number:MIN-MAX, size (bytes, such as 16GiB),
        words:A,B (one of them), list:A,B (several, with commas; the command's function checks them). {values} in a text stands for these words.

    command NAME
        help TEXT, more TEXT, man TEXT
        arguments MIN-MAX TEXT
        options NAME...         options that are declared above all commands
        exclusive NAME NAME...  at most one of these options
        required NAME...        at least one of these options
        alone                   it needs no session with servers
        calls CALL [ARGUMENT=EXPRESSION]...
            The command makes this call of the client library and prints its result. An argument gets the option of its name, or EXPRESSION, in C;
            `choice` gets the options ranks and rank-hosts; a list of pairs gets the command's arguments, by ARGUMENT=names or ARGUMENT=values (NAME:VALUE).
        print NAME [OPTION...]  instead of the result's name: show_NAME(result, OPTION..., stdout) prints it
        done TEXT               what the command prints if its call has no result; by default "GROUP NAME succeeded"
        run FUNCTION            instead of `calls`: int FUNCTION(struct control_run *), in src/cmd/fathom/control, does what the table cannot declare

    record, field, fill, end, table, json, json-list, json-answers, columns; call, argument, build, part, set, name, before, progress, wait, result,
    equalize
        The client library: records.py describes these rows.

    In a text for man pages, **word** is bold and *word* italic; an empty line begins a paragraph, a line that begins with "." is roff.
"""

import os
import re

import proto
import records
from errors import DefError

HERE = os.path.dirname(os.path.abspath(__file__))
PROTO_FOLDER = os.path.join(HERE, "../../rpc/proto")
PLACES = {"mgmt": "mgmt_", "server": "call_"}
ROLES = ("admin", "agent", "server")
PATH = re.compile(r"^(\w+)\.\w+/(\w+)$")


def read_fault_codes():
    """{name: code} of faults.def."""
    with open(os.path.join(HERE, "../fault/faults.def")) as file:
        rows = [line.split() for line in file if line.startswith("fault ")]
    return {row[2]: int(row[1]) for row in rows}


class Method:
    def __init__(self, table, text):
        match = re.match(r"(\S+) by (\S+) for ((?:admin|agent|server)(?: (?:admin|agent|server))*)"
                         r"(?: request (\S+))?(?: answer (\S+))?(?: function (\w+))?$", text)
        path = PATH.match(match.group(1)) if match else None
        if not path:
            raise DefError(f"expected: method SERVICE/NAME by PLACE for ROLE... [request MESSAGE] [answer MESSAGE] [function NAME]; got \"{text}\"")
        self.path, self.place, roles, request, answer, function = match.groups()
        package, self.name = path.groups()
        if self.place not in PLACES:
            raise DefError(f"{self.path} is by {self.place}, which is none of {', '.join(PLACES)}")
        self.roles = roles.split()
        self.request = table.message(request or f"{package}.{self.name}Req")
        self.answer = table.message(answer or f"{package}.{self.name}Resp")
        self.function = function or PLACES[self.place] + proto.snake(self.name)
        self.faults = []
        self.below = None  # the first command below this row


class Dmg:
    """What dmg has of a command or an option."""

    def __init__(self, text):
        match = re.match(r"(same|other|none)(?: ([^|]*[^| ]))?(?: \| (\S.*))?$", text)
        if not match:
            raise DefError(f"expected: dmg same|other|none [WORDS] [| TEXT]; got \"{text}\"")
        self.kind, self.words, self.text = match.groups()


class Absent:
    def __init__(self, reason, text):
        match = re.match(r"(\S+)(?: field (\d+))? ([^(]*[^( ])(?: \(([a-z-]+(?:, [a-z-]+)*)\))?$", text)
        if not match or not PATH.match(match.group(1)):
            raise DefError(f"expected: absent SERVICE/NAME [field NUMBER] COMMAND [(WORD, ...)]; got \"{text}\"")
        self.reason, self.path, self.field, self.command = reason, match.group(1), int(match.group(2) or 0), match.group(3)
        self.dmg_commands = [f"{self.command} {word}" for word in match.group(4).split(", ")] if match.group(4) else [self.command]


class Reason:
    def __init__(self, where):
        self.where, self.why, self.instead = where, None, None
        self.dmg_commands = []  # of dmg, that are absent for this reason
        self.has_methods = False

    @property
    def text(self):
        return self.why + (f". Instead: {self.instead}" if self.instead else "")


class Group:
    def __init__(self, text):
        match = re.match(r"([a-z]+)(?: page ([a-z-]+))?$", text)
        if not match:
            raise DefError(f"expected: group NAME [page PAGE]; got \"{text}\"")
        self.name = match.group(1)
        self.page = match.group(2) or "fathom-" + self.name
        self.summary = self.progress = None
        self.man, self.commands = [], []


class Option:
    TYPES = ("flag", "text", "file", "folder", "path", "number", "size", "words", "list")

    def __init__(self, where, text):
        match = re.match(r"([a-z][a-z-]*)(?: -([a-zA-Z]))?(?: as (\w+))? ([a-z]+)(?::(\S+))?(?: ([A-Z]+))?(?: default (\w+))?$", text)
        if not match:
            raise DefError(f"expected: option NAME [-LETTER] [as MEMBER] TYPE[:VALUES] [ARGUMENT] [default EXPRESSION]; got \"{text}\"")
        self.where = where
        self.name, self.letter, self.own_member, self.type, self.values, self.argument, self.default = match.groups()
        self.help, self.man, self.dmg = None, [], None
        if self.type not in self.TYPES:
            raise DefError(f"--{self.name} has the type {self.type}, which is none of {', '.join(self.TYPES)}")
        if (self.type == "flag") != (self.argument is None):
            raise DefError(f"--{self.name}: every option but a flag has a name for its argument")
        if (self.type in ("number", "words", "list")) != (self.values is not None):
            raise DefError(f"--{self.name}: the types number, words and list have values, the others none")
        if self.type == "number" and not re.match(r"\d+-\d+$", self.values):
            raise DefError(f"--{self.name}: {self.values} is not MIN-MAX")

    @property
    def member(self):
        """Its member of struct control_values."""
        return self.own_member or self.name.replace("-", "_")

    @property
    def c_type(self):
        return {"flag": "bool ", "number": "uint64_t ", "size": "uint64_t "}.get(self.type, "const char *")


class Rule:
    """`exclusive` or `required`."""

    def __init__(self, kind, names):
        self.kind, self.names = kind, names

    @property
    def text(self):
        shown = ["--" + name for name in self.names]
        if self.kind == "required":
            return " or ".join(shown) + " is required"
        return " and ".join([", ".join(shown[:-1]), shown[-1]]) + " exclude each other"


class Command:
    def __init__(self, where, group, name):
        if not re.match(r"[a-z][a-z -]*$", name):
            raise DefError(f"expected: command NAME; got \"{name}\"")
        self.where, self.group, self.name = where, group, name
        self.help = self.run = self.arguments = self.done = None
        self.dmg = Dmg("none")
        self.args_min = self.args_max = 0
        self.more, self.man, self.options, self.rules, self.alone = [], [], [], [], False
        self.call_name, self.given = None, {}  # of the row `calls`: the call, and expressions by argument
        self.call = None                       # found when all rows are read
        self.printed, self.printed_options = None, []

    @property
    def words(self):
        return f"fathom {self.group.name} {self.name}"

    @property
    def stem(self):
        """system_query, storage_query_list_devices."""
        return re.sub("[ -]", "_", f"{self.group.name} {self.name}")

    def option(self, name):
        return next((option for option in self.options if option.name == name), None)


class Table:
    def __init__(self, proto_folder=PROTO_FOLDER):
        self.messages = proto.read(proto_folder)
        self.methods, self.absent, self.reasons, self.groups = [], [], [], []
        self.fault_codes, self.general_faults = read_fault_codes(), []
        self.records, self.calls, self.answers = {}, [], []
        records.map_entries(self.messages)
        self.common, self.shared = [], {}  # options of all commands; of several, by name
        self.open = None     # the row that the next lines belong to
        self.command = None  # the latest command of the file

    def message(self, name):
        if name not in self.messages:
            raise DefError(f"no message {name} in src/rpc/proto")
        return self.messages[name]

    # ---- one function for each first word of a line ----

    def row_group(self, text, where):
        self.open = Group(text)
        if self.open.name in {group.name for group in self.groups}:
            raise DefError(f"a second group {self.open.name}")
        self.groups.append(self.open)

    def row_summary(self, text, where):
        self.of(Group, "summary").summary = text

    def row_progress(self, text, where):
        if not isinstance(self.open, (Group, records.Call)):
            raise DefError("\"progress\" belongs below a row \"group\" or \"call\"")
        self.open.progress = text

    def row_common(self, text, where):
        self.open = Option(where, text)
        self.common.append(self.open)

    def row_option(self, text, where):
        option = self.open = Option(where, text)
        if not self.command and option.name in self.shared:
            raise DefError(f"a second option {option.name}")
        if self.command:
            self.add_option(option)
        else:
            self.shared[option.name] = option

    def row_options(self, text, where):
        for name in text.split():
            if name not in self.shared:
                raise DefError(f"no option {name} is declared above all commands")
            self.of_command("options").options.append(self.shared[name])

    def add_option(self, option):
        if self.command.option(option.name):
            raise DefError(f"a second option {option.name} of {self.command.words}")
        self.command.options.append(option)

    def row_command(self, text, where):
        if not self.groups:
            raise DefError("a command without a group")
        self.open = self.command = Command(where, self.groups[-1], text)
        if text in {command.name for command in self.groups[-1].commands}:
            raise DefError(f"a second command {text}")
        self.groups[-1].commands.append(self.command)
        for method in self.methods[::-1]:
            if method.below or method.group != self.groups[-1]:
                break
            method.below = self.command

    def row_help(self, text, where):
        if not isinstance(self.open, (Option, Command)):
            raise DefError("\"help\" belongs below a row \"option\" or \"command\"")
        self.open.help = self.with_values(text)

    def row_man(self, text, where):
        if not isinstance(self.open, (Group, Option, Command)):
            raise DefError("\"man\" belongs below a row \"group\", \"option\" or \"command\"")
        self.open.man.append(self.with_values(text))

    def with_values(self, text):
        """The text of the open row, with the option's words for {values}."""
        if "{values}" not in text:
            return text
        if not isinstance(self.open, Option) or self.open.type not in ("words", "list"):
            raise DefError("only an option of the type words or list has {values}")
        return text.replace("{values}", self.open.values.replace(",", ", "))

    def row_dmg(self, text, where):
        if not isinstance(self.open, (Option, Command)):
            raise DefError("\"dmg\" belongs below a row \"option\" or \"command\"")
        self.open.dmg = Dmg(text)

    def row_more(self, text, where):
        self.of(Command, "more").more.append(text)

    def row_arguments(self, text, where):
        match = re.match(r"(\d+)-(\d+) (\S.*)$", text)
        if not match:
            raise DefError(f"expected: arguments MIN-MAX TEXT; got \"{text}\"")
        command = self.of(Command, "arguments")
        command.args_min, command.args_max, command.arguments = int(match.group(1)), int(match.group(2)), match.group(3)

    def row_exclusive(self, text, where):
        self.add_rule("exclusive", text.split())

    def row_required(self, text, where):
        self.add_rule("required", text.split())

    def add_rule(self, kind, names):
        command = self.of_command(kind)
        if not names or (kind == "exclusive" and len(names) < 2):
            raise DefError(f"\"{kind}\" names options")
        for name in names:
            option = command.option(name)
            if not option or option.type in ("number", "size"):
                raise DefError(f"{command.words} has no option {name} that can be checked: a flag or a text")
        command.rules.append(Rule(kind, names))

    def row_alone(self, text, where):
        self.of_command("alone").alone = True

    def row_run(self, text, where):
        self.of_command("run").run = text

    def row_calls(self, text, where):
        command = self.of_command("calls")
        command.call_name, *words = text.split()
        for word in words:
            name, equals, expression = word.partition("=")
            if not equals or not expression:
                raise DefError(f"expected: calls CALL [ARGUMENT=EXPRESSION]...; got \"{text}\"")
            command.given[name] = expression

    def row_print(self, text, where):
        command = self.of_command("print")
        command.printed, *command.printed_options = text.split()

    def row_done(self, text, where):
        self.of_command("done").done = text

    # ---- the client library ----

    def row_record(self, text, where):
        record = self.open = records.Record(self, where, text, self.comment)
        record.group = self.groups[-1].name if self.groups else None
        if record.name in self.records:
            raise DefError(f"a second record {record.name}")
        self.records[record.name] = record

    def row_field(self, text, where):
        self.of(records.Record, "field").fields.append(records.Field(text, self.behind))

    def row_end(self, text, where):
        self.of(records.Record, "end").end = text

    def row_fill(self, text, where):
        self.of(records.Record, "fill").fill = text

    def row_json(self, text, where):
        self.of(records.Record, "json").json = [records.JsonKey(word) for word in text.split()]

    def row_json_answers(self, text, where):
        if len(text.split()) != 3:
            raise DefError(f"expected: json-answers NAME HOSTS BODY; got \"{text}\"")
        self.of(records.Record, "json-answers").json_answers = text.split()

    def row_json_list(self, text, where):
        self.of(records.Record, "json-list").json_list = text

    def row_columns(self, text, where):
        self.of(records.Record, "columns").columns = [records.Column(column) for column in text.split(",")]

    def row_table(self, text, where):
        self.of(records.Record, "table").table = text

    def row_answers(self, text, where):
        self.answers = text.split()

    def row_call(self, text, where):
        call = self.open = records.Call(self, where, text, self.comment)
        call.group = self.groups[-1].name if self.groups else None
        if call.name in {other.name for other in self.calls}:
            raise DefError(f"a second call {call.name}")
        self.calls.append(call)

    def row_argument(self, text, where):
        self.of(records.Call, "argument").arguments.append(records.Argument(text, self.behind))

    def row_part(self, text, where):
        self.of(records.Call, "part").parts.append(text)

    def row_set(self, text, where):
        name, equals, expression = text.partition(" = ")
        if not equals:
            raise DefError(f"expected: set FIELD = EXPRESSION; got \"{text}\"")
        self.of(records.Call, "set").sets.append((name, expression))

    def row_name(self, text, where):
        self.of(records.Call, "name").name_expression = text

    def row_before(self, text, where):
        self.of(records.Call, "before").before = text

    def row_wait(self, text, where):
        self.of(records.Call, "wait").wait = text

    def row_result(self, text, where):
        match = re.match(r"(\w+)(?: by (\w+))?$", text)
        if not match:
            raise DefError(f"expected: result RECORD [by FUNCTION]; got \"{text}\"")
        call = self.of(records.Call, "result")
        call.result, call.taken_by = match.groups()

    def row_build(self, text, where):
        self.of(records.Call, "build").build = text

    def row_equalize(self, text, where):
        self.of(records.Call, "equalize").equalize = text

    def of_command(self, word):
        if not self.command:
            raise DefError(f"\"{word}\" belongs below a row \"command\"")
        return self.command

    def row_method(self, text, where):
        method = Method(self, text)
        if method.path in {other.path for other in self.methods}:
            raise DefError(f"a second row for {method.path}")
        method.group = self.groups[-1] if self.groups else None
        self.methods.append(method)
        self.open = method

    def row_faults(self, text, where):
        for name in text.split():
            if name not in self.fault_codes:
                raise DefError(f"no fault {name} in faults.def")
        faults = self.open.faults if isinstance(self.open, Method) else self.general_faults
        faults.extend(text.split())

    def row_reason(self, text, where):
        self.open = Reason(where)
        self.reasons.append(self.open)

    def row_why(self, text, where):
        self.of(Reason, "why").why = text

    def row_instead(self, text, where):
        self.of(Reason, "instead").instead = text

    def row_absent(self, text, where):
        reason = self.of(Reason, "absent")
        self.absent.append(Absent(reason, text))
        reason.dmg_commands += self.absent[-1].dmg_commands
        reason.has_methods = True

    def row_unsupported(self, text, where):
        self.of(Reason, "unsupported").dmg_commands.append(text)

    def of(self, kind, word):
        if not isinstance(self.open, kind):
            raise DefError(f"\"{word}\" belongs below a row \"{kind.__name__.lower()}\"")
        return self.open

    def read_line(self, line, where):
        word, _, text = line.partition(" ")
        read = getattr(self, "row_" + word.replace("-", "_"), None)
        if not read:
            raise DefError(f"\"{word}\" is not understood")
        read(text.strip(), where)

    def read(self, path):
        self.open = self.command = None
        self.comment = []  # the lines of comment directly above
        with open(path) as file:
            for number, line in enumerate(file, 1):
                line = line.strip()
                if line.startswith("#"):
                    self.comment.append(line[1:].strip())
                    continue
                line, _, self.behind = line.partition(" # ")
                try:
                    if line:
                        self.read_line(line.strip(), f"{path}:{number}")
                except DefError as error:
                    raise DefError(f"{path}:{number}: {error}") from None
                self.comment = []

    def check(self):
        """What only the whole table can tell."""
        for reason in self.reasons:
            if not reason.why or (reason.has_methods and not reason.instead):
                raise DefError(f"{reason.where}: the reason needs a line \"why\" and a line \"instead\"")
        present = {method.path for method in self.methods}
        for absent in self.absent:
            if absent.path in present and not absent.field:
                raise DefError(f"{absent.reason.where}: {absent.path} is not absent: it has a row \"method\"")
        for group in self.groups:
            for command in group.commands:
                self.check_command(command)
        self.check_members()
        for row in [*self.records.values(), *self.calls]:
            row.check(self)
        # rows with a field come first: the server takes the first that matches
        self.absent.sort(key=lambda absent: absent.field == 0)


    def check_command(self, command):
        if not command.help or bool(command.run) == bool(command.call_name):
            raise DefError(f"{command.where}: the command needs a line \"help\", and a line \"calls\" or \"run\"")
        if command.done and not command.call_name:
            raise DefError(f"{command.where}: only a command that \"calls\" has a line \"done\"")
        if command.call_name:
            self.check_calls(command)
        letters = set()
        for option in command.options + self.common:
            if not option.help:
                raise DefError(f"{option.where}: --{option.name} needs a line \"help\"")
            if option.letter in letters and option not in self.common:
                raise DefError(f"{option.where}: {command.words} has two options -{option.letter}")
            letters |= {option.letter} - {None}
            if option not in self.common and option.name in {common.name for common in self.common}:
                raise DefError(f"{option.where}: all commands have an option {option.name}")

    def check_calls(self, command):
        command.call = next((call for call in self.calls if call.name == command.call_name), None)
        if not command.call:
            raise DefError(f"{command.where}: no call {command.call_name}")
        arguments = {argument.name: argument for argument in command.call.arguments}
        for name in command.given:
            if name not in arguments:
                raise DefError(f"{command.where}: {command.call_name} has no argument {name}")
        for argument in arguments.values():
            if argument.type == "choice":
                known = command.option("ranks") and command.option("rank-hosts")
            elif argument.type == "list":
                known = argument.record == "pair" and command.given.get(argument.name) in ("names", "values")
            else:
                known = argument.name in command.given or argument.name.replace("_", "-") in {option.name for option in command.options}
            if not known:
                raise DefError(f"{command.where}: {command.call_name} needs its argument {argument.name}: an option of that name, or ARGUMENT=...")
        for name in command.printed_options:
            if not command.option(name):
                raise DefError(f"{command.where}: the command has no option {name}")

    def methods_of(self, command):
        """The methods that it calls: of its calls, else those directly above the command, which hand-written code calls."""
        request = f"{command.group.name} {command.name}"
        calls = [call for call in self.calls if call is command.call or call.request_name == request]
        return [call.method for call in calls] or [method for method in self.methods if method.below is command]

    def faults_of(self, command):
        """Names of the faults that its methods answer, by code, without those of every method."""
        names = {name for method in self.methods_of(command) for name in method.faults}
        return sorted(names, key=self.fault_codes.get)

    def all_options(self):
        """Each option once; of several with a name, which share a member of struct control_values, the first."""
        options = {}
        for option in self.common + [option for group in self.groups for command in group.commands for option in command.options]:
            options.setdefault(option.member, option)
        return list(options.values())

    def check_members(self):
        first = {option.member: option for option in self.all_options()}
        for group in self.groups:
            for command in group.commands:
                for option in command.options:
                    other = first[option.member]
                    if (option.c_type, option.default) != (other.c_type, other.default):
                        raise DefError(f"{option.where}: --{option.name} has another type or default at {other.where}")


def files():
    """options.def comes first, because the others name its options."""
    names = sorted(name for name in os.listdir(HERE) if name.endswith(".def"))
    return [os.path.join(HERE, name) for name in sorted(names, key=lambda name: name != "options.def")]


def read(paths=None, proto_folder=PROTO_FOLDER):
    table = Table(proto_folder)
    for path in paths or files():
        table.read(path)
    table.check()
    return table
