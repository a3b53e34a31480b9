# SPDX-License-Identifier: BSD-2-Clause
"""
table - reads the table of operations: all *.def files of this folder, one line a row. Text behind # is a comment.

    method SERVICE/NAME by PLACE for ROLE... [request MESSAGE] [answer MESSAGE] [function NAME]
        A gRPC method of a server. PLACE is `mgmt` (src/control/mgmt) or `server` (src/control/server); ROLES are admin, agent, server.
        By default the messages are NAMEReq and NAMEResp of the service's package, and the function is mgmt_NAME() or call_NAME().

    reason
        why TEXT
        instead TEXT
        absent SERVICE/NAME [field NUMBER] COMMAND
        Methods of DAOS that servers refuse, with dmg's COMMAND, for this reason. Commands may share a method: a row with a field is for
        requests that contain the field, one without a field for all others.
"""

import os
import re

import proto

HERE = os.path.dirname(os.path.abspath(__file__))
PROTO_FOLDER = os.path.join(HERE, "../../rpc/proto")
PLACES = {"mgmt": "mgmt_", "server": "call_"}
ROLES = ("admin", "agent", "server")
PATH = re.compile(r"^(\w+)\.\w+/(\w+)$")


class DefError(Exception):
    pass


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


class Absent:
    def __init__(self, reason, text):
        match = re.match(r"(\S+)(?: field (\d+))? (\S.*)$", text)
        if not match or not PATH.match(match.group(1)):
            raise DefError(f"expected: absent SERVICE/NAME [field NUMBER] COMMAND; got \"{text}\"")
        self.reason, self.path, self.field, self.command = reason, match.group(1), int(match.group(2) or 0), match.group(3)


class Reason:
    def __init__(self, where):
        self.where, self.why, self.instead = where, None, None


class Table:
    def __init__(self, proto_folder=PROTO_FOLDER):
        self.messages = proto.read(proto_folder)
        self.methods, self.absent, self.reasons = [], [], []
        self.open = None  # the row that the next lines belong to

    def message(self, name):
        if name not in self.messages:
            raise DefError(f"no message {name} in src/rpc/proto")
        return self.messages[name]

    # ---- one function for each first word of a line ----

    def row_method(self, text, where):
        method = Method(self, text)
        if method.path in {other.path for other in self.methods}:
            raise DefError(f"a second row for {method.path}")
        self.methods.append(method)

    def row_reason(self, text, where):
        self.open = Reason(where)
        self.reasons.append(self.open)

    def row_why(self, text, where):
        self.of(Reason, "why").why = text

    def row_instead(self, text, where):
        self.of(Reason, "instead").instead = text

    def row_absent(self, text, where):
        self.absent.append(Absent(self.of(Reason, "absent"), text))

    def of(self, kind, word):
        if not isinstance(self.open, kind):
            raise DefError(f"\"{word}\" belongs below a row \"{kind.__name__.lower()}\"")
        return self.open

    def read_line(self, line, where):
        word, _, text = line.partition(" ")
        read = getattr(self, "row_" + word, None)
        if not read:
            raise DefError(f"\"{word}\" is not understood")
        read(text.strip(), where)

    def read(self, path):
        self.open = None
        with open(path) as file:
            for number, line in enumerate(file, 1):
                line = line.split(" # ")[0].strip() if not line.lstrip().startswith("#") else ""
                try:
                    if line:
                        self.read_line(line, f"{path}:{number}")
                except DefError as error:
                    raise DefError(f"{path}:{number}: {error}") from None

    def check(self):
        """What only the whole table can tell."""
        for reason in self.reasons:
            if not reason.why or not reason.instead:
                raise DefError(f"{reason.where}: the reason needs a line \"why\" and a line \"instead\"")
        present = {method.path for method in self.methods}
        for absent in self.absent:
            if absent.path in present:
                raise DefError(f"{absent.reason.where}: {absent.path} is not absent: it has a row \"method\"")
        # rows with a field come first: the server takes the first that matches
        self.absent.sort(key=lambda absent: absent.field == 0)


def files():
    return sorted(os.path.join(HERE, name) for name in os.listdir(HERE) if name.endswith(".def"))


def read(paths=None, proto_folder=PROTO_FOLDER):
    table = Table(proto_folder)
    for path in paths or files():
        table.read(path)
    table.check()
    return table
