# SPDX-License-Identifier: BSD-2-Clause
"""
method_table - reads methods.def, which explains its lines itself, and checks it.

read(path) returns a Table. A TableError names file and line: a parameter without a text or with an unknown type does not build.
"""

import re

NUMBERS = {"u8": (0, 2**8 - 1), "u16": (0, 2**16 - 1), "u32": (0, 2**32 - 1), "u64": (0, 2**64 - 1), "i32": (-2**31, 2**31 - 1)}
PLAIN = {"bool", "string", "strings", "uuid", "float", *NUMBERS}
UNITS = {"bytes", "blocks", "ns", "us", "ms", "s"}
STATES = {"startup", "runtime", "always"}
RESULTS = {"none", "json", "text"}
NAME = re.compile(r"^[a-z][a-z0-9_]*$")
DEFAULT = re.compile(r"; default: (.+)$")  # ends the text of a parameter if its default is no single value
SIZED = re.compile(r"^(text|hex|list)\((\w+)\)$")
FLAG_WORDS = {"required", "positional", "ignored", "rejected", "hidden", "hex", "size", "opposite", "yes-no", "send-false", "no-option"}
VALUE_WORDS = {"default", "absent", "range", "rejects", "check", "choices", "in"}


class TableError(Exception):
    pass


class Param:
    """One parameter. `kind`: a plain type, text, hex, list, enum or object; `of`: a size, an Enum or an Object."""

    def __init__(self, where, name, kind, of, unit):
        self.where, self.name, self.kind, self.of, self.unit = where, name, kind, of, unit
        self.words, self.values, self.text = set(), {}, ""
        self.flag = self.long_flag = None
        self.client_only = False

    def has(self, word):
        return word in self.words

    @property
    def is_dropped(self):
        """It has no place in the structure of the method."""
        return self.has("ignored") or self.has("rejected")

    @property
    def default_words(self):
        """The default as its text words it, or None."""
        found = DEFAULT.search(self.text)
        return found.group(1) if found else None

    @property
    def text_without_default(self):
        return DEFAULT.sub("", self.text)

    @property
    def is_offered(self):
        """`fathom rpc` shows it in its help."""
        return not (self.has("hidden") or self.has("rejected") or self.has("no-option"))


class Enum:
    def __init__(self, name, values):
        self.name, self.values = name, values


class Object:
    def __init__(self, name, struct, init):
        self.name, self.struct, self.init, self.params = name, struct, init, []


class Method:
    """A method, or a command that only `fathom rpc` has (`state` is None)."""

    def __init__(self, where, section, name, state):
        self.where, self.section, self.name, self.state = where, section, name, state
        self.words, self.params, self.structs = set(), [], {}
        self.does = self.result = self.run = self.adjust = self.like = None
        self.result_text = ""

    @property
    def wire_params(self):
        return [param for param in self.params if not param.client_only]


class Table:
    def __init__(self):
        self.sections, self.methods, self.includes = [], [], []
        self.enums, self.objects, self.common = {}, {}, {}

    def method(self, name):
        found = [method for method in self.methods if method.name == name]
        return found[0] if found else None


def split_text(line):
    words, bar, text = line.partition(" | ")
    if bar and not text.strip():
        raise TableError("no text after |")
    return words.split(), text.strip()


def read_type(table, word, where):
    """`word` is TYPE[:UNIT]. Returns (kind, of, unit)."""
    word, _, unit = word.partition(":")
    if unit and unit not in UNITS:
        raise TableError(f'unit "{unit}" is none of {" ".join(sorted(UNITS))}')
    sized = SIZED.match(word)
    if word in PLAIN:
        return word, None, unit
    if word in table.enums:
        return "enum", table.enums[word], unit
    if word in table.objects:
        return "object", table.objects[word], unit
    if sized and sized.group(1) == "list" and sized.group(2) in table.enums:
        return "list", table.enums[sized.group(2)], unit
    if sized and sized.group(1) != "list" and sized.group(2).isdigit():
        return sized.group(1), int(sized.group(2)), unit
    raise TableError(f'"{word}" is no type')


def apply_words(param, words):
    for word in words:
        key, equals, value = word.partition("=")
        if equals and key in VALUE_WORDS and value:
            param.values[key] = value
        elif word in FLAG_WORDS:
            param.words.add(word)
        elif word.startswith("--"):
            param.long_flag = word
        elif re.match(r"^-\w+$", word):
            param.flag = word
        else:
            raise TableError(f'"{word}" is no word of a parameter')


def check_default(param):
    value = param.values.get("default")
    if value is None:
        return
    if param.kind in NUMBERS and not (re.match(r"^-?\d+$", value) and NUMBERS[param.kind][0] <= int(value) <= NUMBERS[param.kind][1]):
        raise TableError(f'{param.name}: default "{value}" is no {param.kind}')
    if param.kind == "bool" and value not in ("true", "false"):
        raise TableError(f'{param.name}: default "{value}" is neither true nor false')
    if param.kind == "enum" and value not in param.of.values:
        raise TableError(f'{param.name}: default "{value}" is none of {" ".join(param.of.values)}')
    if param.has("required"):
        raise TableError(f"{param.name}: a required parameter has no default")


def check_default_is_stated(param):
    """An absent number is 0 and an absent bool false. Other types have no such value: `default=` or the text states the default."""
    zero_is_default = param.kind in ("bool", *NUMBERS) and "absent" not in param.values
    if param.client_only or param.is_dropped or param.has("required") or param.kind == "object" or zero_is_default:
        return
    if "default" not in param.values and not param.default_words:
        raise TableError(f"{param.name}: it is optional, so write default=VALUE, or end its text by '; default: WORDS'")


def check_range(param):
    if "range" not in param.values:
        return
    match = re.match(r"^(-?\d+)\.\.(-?\d+)$", param.values["range"])
    if param.kind not in NUMBERS or not match:
        raise TableError(f"{param.name}: write range=LOW..HIGH, of a number")
    low, high = int(match.group(1)), int(match.group(2))
    if not NUMBERS[param.kind][0] <= low <= high <= NUMBERS[param.kind][1]:
        raise TableError(f"{param.name}: {low}..{high} is not within {param.kind}")


def check_param(param):
    check_default(param)
    check_range(param)
    if param.is_dropped and param.kind in ("text", "hex"):
        raise TableError(f"{param.name}: an {'ignored' if param.has('ignored') else 'rejected'} parameter is a string, not {param.kind}()")
    if param.kind == "float" and not param.client_only:
        raise TableError(f"{param.name}: no method has a float")
    for word in ("opposite", "yes-no"):
        if param.has(word) and param.kind != "bool":
            raise TableError(f"{param.name}: {word} is for a bool")
    if param.kind == "bool" and param.has("required") and not (param.is_dropped or param.has("yes-no")):
        raise TableError(f"{param.name}: a required bool needs yes-no")
    if param.has("positional") and (param.flag or param.long_flag):
        raise TableError(f"{param.name}: positional, but with an option")
    if not (param.text or param.has("ignored") or param.kind == "object"):
        raise TableError(f"{param.name}: no text")
    if re.search(r"[^ -~]", param.text):
        raise TableError(f"{param.name}: its text has more than ASCII")
    check_default_is_stated(param)


def new_param(table, words, text, where):
    if len(words) < 2 or not NAME.match(words[0]):
        raise TableError("expected: NAME TYPE [WORDS] [| TEXT]")
    param = Param(where, words[0], *read_type(table, words[1], where))
    apply_words(param, words[2:])
    param.text = text
    return param


def options_of(params):
    """(flag or long flag, param) of every option, those of objects included."""
    for param in params:
        if param.kind == "object":
            yield from options_of(param.of.params)
        elif not (param.has("positional") or param.has("no-option")):
            if param.flag:
                yield param.flag, param
            yield param.long_flag or "--" + param.name.replace("_", "-"), param


def check_method(table, method):
    if not method.does:
        raise TableError(f'{method.name}: no line "does"')
    if method.result is None:
        if method.state and not method.words & {"ignored", "test"}:
            raise TableError(f'{method.name}: no line "result"')
        method.result = "none"
    seen = set()
    for param in method.params:
        if param.name in seen:
            raise TableError(f"{method.name}: a second {param.name}")
        seen.add(param.name)
        if "in" in param.values and param.values["in"] not in method.structs:
            raise TableError(f"{method.name}: {param.name} is in a structure {param.values['in']}, which is not there")
        if "check" in param.values and param.is_dropped:
            raise TableError(f"{method.name}: {param.name} is not kept, so nothing can check it")
    flags = {}
    for flag, param in options_of([] if "no-command" in method.words else method.params):
        if flag in flags:
            raise TableError(f"{method.name}: {flag} is of {flags[flag].name} and {param.name}")
        flags[flag] = param


class Reader:
    def __init__(self, path):
        self.path, self.table = path, Table()
        self.section = self.method = self.object = None
        self.indented = False
        self.where = ""

    def read_section(self, rest):
        self.section = rest
        self.table.sections.append(rest)

    def read_include(self, rest):
        self.table.includes.append(rest)

    def read_enum(self, rest):
        name, *values = rest.split()
        if name in self.table.enums or not values or len(set(values)) != len(values):
            raise TableError("expected: enum NAME VALUE..., each once")
        self.table.enums[name] = Enum(name, values)

    def read_object(self, rest):
        words = rest.split()
        if not 1 <= len(words) <= 3 or words[0] in self.table.objects:
            raise TableError("expected: object NAME [STRUCTURE [FUNCTION]], once")
        self.method, self.object = None, Object(*(words + [None, None])[:3])
        self.table.objects[words[0]] = self.object

    def read_common(self, rest):
        words, text = split_text(rest)
        self.table.common[words[0]] = (words, text)

    def read_method(self, rest):
        name, state, *words = rest.split() + [""]
        words = [word for word in words if word]
        if not NAME.match(name) or state not in STATES or not self.section:
            raise TableError(f"expected: method NAME {'|'.join(sorted(STATES))} [WORDS], in a section")
        self.add_method(Method(self.where, self.section, name, state))
        if words[:1] == ["like"] and len(words) == 2:
            other = self.table.method(words[1])
            if not other:
                raise TableError(f"no method {words[1]} above")
            self.method.like, self.method.params, self.method.result = other, other.params, other.result
            self.method.result_text = other.result_text
            return
        if set(words) - {"changes", "clients", "test", "ignored", "no-command"}:
            raise TableError(f"{' '.join(words)}: words of a method are changes clients test ignored no-command, like METHOD")
        self.method.words = set(words)

    def read_command(self, rest):
        match = re.match(r"^(\w+) run=(\w+)$", rest)
        if not match:
            raise TableError("expected: command NAME run=FUNCTION")
        self.add_method(Method(self.where, self.section, match.group(1), None))
        self.method.run = match.group(2)

    def add_method(self, method):
        if self.table.method(method.name):
            raise TableError(f"a second method {method.name}")
        self.object, self.method = None, method
        self.table.methods.append(method)

    def read_does(self, rest):
        if not self.method or self.method.does:
            raise TableError("does: not in a method, or for the second time")
        self.method.does = rest

    def read_result(self, rest):
        kind, _, text = rest.partition(" ")
        if not self.method or kind not in RESULTS:
            raise TableError(f"expected: result {'|'.join(sorted(RESULTS))} [TEXT], in a method")
        self.method.result, self.method.result_text = kind, text

    def read_struct(self, rest):
        field, struct, *init = rest.split()
        self.method.structs[field] = (struct, init[0] if init else None)

    def read_adjust(self, rest):
        self.method.adjust = rest

    def add_param(self, param):
        holder = self.method or self.object
        if not holder or self.method and self.method.like:
            raise TableError("a parameter of no method")
        if self.method and "ignored" in self.method.words and not param.is_dropped:
            param.words.add("ignored")
        check_param(param)
        holder.params.append(param)

    def read_param(self, rest):
        self.add_param(new_param(self.table, *split_text(rest), self.where))

    def read_argument(self, rest):
        param = new_param(self.table, *split_text(rest), self.where)
        param.client_only = True
        self.add_param(param)

    def read_use(self, rest):
        words, text = split_text(rest)
        if words[0] not in self.table.common:
            raise TableError(f"no common parameter {words[0]}")
        common, common_text = self.table.common[words[0]]
        param = new_param(self.table, common, text or common_text, self.where)
        apply_words(param, words[1:])
        self.add_param(param)

    TOP = {"section", "include", "enum", "object", "common", "method", "command"}
    INNER = {"does", "result", "struct", "adjust", "param", "argument", "use"}

    def read_line(self, line):
        word, _, rest = line.strip().partition(" ")
        if word not in (self.INNER if line.startswith("\t") else self.TOP):
            raise TableError(f'"{word}" is not understood here')
        getattr(self, "read_" + word)(rest.strip())

    def read_file(self):
        with open(self.path) as file:
            lines = file.read().split("\n")
        for number, line in enumerate(lines, 1):
            line = line.rstrip()
            self.where = f"{self.path}:{number}"
            if line and not line.startswith("#"):
                try:
                    self.read_line(line)
                except TableError as error:
                    raise TableError(f"{self.where}: {error}") from None
        for method in self.table.methods:
            try:
                check_method(self.table, method)
            except TableError as error:
                raise TableError(f"{method.where}: {error}") from None
        return self.table


def read(path):
    return Reader(path).read_file()
