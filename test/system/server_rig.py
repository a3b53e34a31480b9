# SPDX-License-Identifier: BSD-2-Clause
"""
server_rig - runs a private fathom-server: configuration, folders, ports. Calls use grpcio with modules that
protoc generates from the project's .proto files.

Engines outlive their server, so the rig kills them, by the pids that the server reports.
"""

import functools
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from harness import BIN, TOP, free_port

try:
    import grpc
except ImportError:
    grpc = None

SERVER = os.path.join(BIN, "fathom-server")
READY_SECONDS = 60
JOIN_SECONDS = 60
RANK_NONE = 0xFFFFFFFF


def read(path, mode="r"):
    with open(path, mode) as f:
        return f.read()


def skip_without_grpc():
    """Skip the tests if grpcio or protoc, which calls to a server need, is missing."""
    if grpc is None:
        raise unittest.SkipTest("python3-grpcio is missing")
    if not shutil.which("protoc"):
        raise unittest.SkipTest("protoc is missing")


class Messages:
    """The modules of src/rpc/proto: messages.ctl, messages.mgmt, messages.fathom, messages.rpc."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="fathom-proto-")
        source = os.path.join(TOP, "src")
        names = [name for name in os.listdir(os.path.join(source, "rpc", "proto")) if name.endswith(".proto")]
        subprocess.run(["protoc", "-I", source, "--python_out", self.directory, *(os.path.join(source, "rpc", "proto", name) for name in names)],
                       check=True)
        sys.path.insert(0, self.directory)
        try:
            from rpc.proto import ctl_pb2, fathom_pb2, mgmt_pb2, rpc_pb2, shared_pb2, store_pb2
        finally:
            sys.path.remove(self.directory)
        self.ctl, self.fathom, self.mgmt, self.rpc, self.shared = ctl_pb2, fathom_pb2, mgmt_pb2, rpc_pb2, shared_pb2
        self.store = store_pb2


@functools.cache
def table_rows(what):
    """{path of a method: words} of the table of operations. `what`: an argument of generate.py --print."""
    made = subprocess.run([os.path.join(TOP, "src/control/operation/generate.py"), "--print", what], stdout=subprocess.PIPE, text=True, check=True)
    return {"/" + path: words for path, *words in (line.split() for line in made.stdout.splitlines())}


def is_listed(path, code):
    """Whether the table says that the method can answer the fault. A method that is not in the table answers any."""
    return code is None or path not in table_rows("fault-list") or code in table_rows("fault-list")[path]


class Refused(Exception):
    """A call that returned an error. `fault`: the metadata of its ErrorInfo, or {}."""

    def __init__(self, code, text, fault):
        super().__init__(f"{code}: {text}")
        self.code, self.text, self.fault = code, text, fault


class Server:
    """
    A fathom-server. `engines`: how many, each with storage of class file in its own folder. `devices`: one engine of class
    kdev for each of these instead, mounted below `mounts`. `keys`: configuration lines before the engines.
    """
    pause = 0.02     # seconds between two queries of wait()

    def __init__(self, messages, directory, engines=1, keys="", engine_keys="", size="64MiB", name="daos_server", insecure=True,
                 devices=(), mounts=None):
        self.messages, self.directory, self.name, self.mounts = messages, directory, name, mounts
        engines = len(devices) or engines
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.socket_dir = os.path.join(directory, "run", "server")     # the server creates both levels
        self.state_dir = os.path.join(directory, "state")
        self.log_path = os.path.join(directory, "server.log")
        self.config_path = os.path.join(directory, "server.yml")
        self.database = os.path.join(self.state_dir, "system.db")
        self.trace_name = f"s{os.getpid()}p{self.port}"
        self.process, self.channel, self.pids = None, None, set()
        self.engine_ports = [free_port() for _ in range(engines)]
        text = f"name: {name}\nport: {self.port}\nfault_path: /rack0/node0\nsocket_dir: {self.socket_dir}\nstate_dir: {self.state_dir}\n{keys}"
        if insecure:
            text += "transport_config:\n  allow_insecure: true\n"
        if engines:
            text += "engines:\n"
        for index, port in enumerate(self.engine_ports):
            text += f"- fabric_iface_port: {port}\n{engine_keys}  storage:\n  - scm_mount: {self.mount_path(index)}\n"
            if devices:
                text += f"    class: kdev\n    bdev_list: [{devices[index]}]\n"
            else:
                os.makedirs(self.mount_path(index), exist_ok=True)
                text += f"    class: file\n    bdev_size: {size}\n"
        with open(self.config_path, "w") as f:
            f.write(text)

    def mount_path(self, index):
        return os.path.join(self.mounts or self.directory, f"e{index}")

    def start(self, *options, ready=True, stderr=None, env=None, program=SERVER):
        """
        Start it and wait until it sends READY=1 to NOTIFY_SOCKET. `ready` false: wait until it ends; its exit status.
        `stderr`: a descriptor, instead of its log. `env`: variables to add. `program`: a copy of it.
        """
        path = os.path.join(self.directory, "notify")
        if os.path.exists(path):
            os.unlink(path)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify, open(self.log_path, "a") as log:
            notify.bind(path)
            notify.settimeout(READY_SECONDS)
            began = time.monotonic()
            self.process = subprocess.Popen([program, "start", "-o", self.config_path, "--name", self.trace_name, *options], stdout=log,
                                            stderr=log if stderr is None else stderr, env=dict(os.environ, NOTIFY_SOCKET=path, **(env or {})))
            if not ready:
                return self.process.wait(READY_SECONDS)
            while True:
                notify.settimeout(0.1)
                try:
                    said = notify.recv(100)
                except socket.timeout:
                    if self.process.poll() is not None or time.monotonic() > began + READY_SECONDS:
                        raise AssertionError(f"the server is not ready:\n{self.log()}") from None
                    continue
                if said == b"READY=1":
                    self.ready_seconds = time.monotonic() - began
                    return self

    def log(self):
        return read(self.log_path) if os.path.exists(self.log_path) else ""

    def call(self, path, request, role="admin", timeout=30, raw=None, answer=None):
        """One call; the answer, or Refused. `raw`: bytes instead of the request; `answer`: its type, for other methods."""
        answer = answer or self.answer_of(path)
        if self.channel is None:
            self.channel = grpc.insecure_channel(self.address)
        call = self.channel.unary_unary(path, request_serializer=lambda r: raw if raw is not None else r.SerializeToString(),
                                        response_deserializer=answer.FromString)
        try:
            return call(request, timeout=timeout, metadata=(("x-daos-component", role), ("x-daos-version", "0.1.0")))
        except grpc.RpcError as error:
            refused = Refused(error.code().name, error.details(), self.fault_of(error))
            if not is_listed(path, refused.fault.get("Code")):
                raise AssertionError(f"no row `faults` of {path} has the fault {refused.fault}: src/control/operation") from None
            raise refused from None

    def answer_of(self, path):
        package, _, name = table_rows("answer-list")[path][0].partition(".")
        return getattr(getattr(self.messages, package), name)

    def fault_of(self, error):
        details = [value for key, value in error.trailing_metadata() or () if key == "grpc-status-details-bin"]
        if not details:
            return {}
        status = self.messages.rpc.Status.FromString(details[0])
        return dict(self.messages.rpc.ErrorInfo.FromString(status.details[0].value).metadata) if status.details else {}

    def engines(self):
        """EngineQuery. Remembers the pids, so that discard() kills every engine."""
        found = list(self.call("/fathom.ControlSvc/EngineQuery", self.messages.fathom.EngineQueryReq()).engines)
        self.pids |= {engine.pid for engine in found if engine.pid}
        return found

    def format(self, **fields):
        return self.call("/ctl.CtlSvc/StorageFormat", self.messages.ctl.StorageFormatReq(**fields), timeout=60)

    def wait(self, what, seconds=JOIN_SECONDS):
        """Wait until `what(engines)` is true; return the engines."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            engines = self.engines()
            if what(engines):
                return engines
            time.sleep(self.pause)
        raise AssertionError(f"not true of the engines within {seconds} s:\n{self.engines()}\n{self.log()}\n{self.engine_logs()}")

    def engine_logs(self):
        text = ""
        for index in range(len(self.engine_ports)):
            path = os.path.join(self.state_dir, f"engine{index}.log")
            if os.path.exists(path):
                text += f"--- engine {index}\n{read(path)}"
        return text

    def wait_joined(self):
        return self.wait(lambda engines: all(engine.state == "joined" for engine in engines))

    def members(self):
        return list(self.call("/mgmt.MgmtSvc/SystemQuery", self.messages.mgmt.SystemQueryReq(state_mask=0xFFFF)).members)

    def wait_members(self, state, seconds=JOIN_SECONDS):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            members = self.members()
            if members and all(member.state == state for member in members):
                return members
            time.sleep(0.02)
        raise AssertionError(f"not all members are {state}:\n{self.members()}\n{self.log()}")

    def close_channel(self):
        if self.channel is not None:
            self.channel.close()
            self.channel = None

    def stop(self):
        """SIGTERM; its exit status."""
        self.close_channel()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def kill(self):
        self.close_channel()
        self.process.kill()
        self.process.wait()

    def discard(self):
        if self.process is not None and self.process.poll() is None:
            try:
                self.engines()
            except Refused:
                pass
            self.kill()
        self.close_channel()
        for pid in self.pids | self.running_engine_pids():
            end_engine(pid, self.socket_dir)
        for name in os.listdir("/dev/shm"):
            if name.startswith(self.trace_name + "_trace") or any(name.endswith(f".pid{pid}") for pid in self.pids):
                try:
                    os.unlink(os.path.join("/dev/shm", name))
                except OSError:
                    pass

    def running_engine_pids(self):
        """Pids of processes that are engines in our folder, also those that the server did not report."""
        found = set()
        for name in os.listdir("/proc"):
            if name.isdigit() and is_engine(int(name), self.socket_dir):
                found.add(int(name))
        return found


def is_engine(pid, socket_dir):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            words = f.read().decode(errors="replace").split("\0")
    except OSError:
        return False
    return len(words) > 1 and "fathom-engine" in words[0] and socket_dir in words


def end_engine(pid, socket_dir):
    """Kill it, if that pid is still an engine of ours."""
    if not is_engine(pid, socket_dir):
        return
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        return
    deadline = time.monotonic() + 60
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/status") as f:
            return re.search(r"^State:\s+Z", f.read(), re.M) is None
    except OSError:
        return False


class ServerTest(unittest.TestCase):
    """A folder for each test; servers made by self.server() are gone after it, with their engines."""

    @classmethod
    def setUpClass(cls):
        skip_without_grpc()
        cls.messages = Messages()

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.messages.directory, ignore_errors=True)

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="fathom-")
        self.servers = []

    def server(self, **kwargs):
        directory = os.path.join(self.directory, f"s{len(self.servers)}")
        os.makedirs(directory)
        server = Server(self.messages, directory, **kwargs)
        self.servers.append(server)
        return server

    def tearDown(self):
        for server in self.servers:
            server.discard()
        shutil.rmtree(self.directory, ignore_errors=True)
