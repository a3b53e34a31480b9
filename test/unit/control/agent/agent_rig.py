# SPDX-License-Identifier: BSD-2-Clause
"""agent_rig - a real fathom-agent in a folder of its own, with a fake management service, and its clients on plain sockets."""

import importlib
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.abspath(os.path.join(HERE, *[os.pardir] * 4))
sys.path.insert(0, os.path.join(TOP, "test/unit/control/client"))

import fake_server  # noqa: E402

BIN = os.environ.get("FATHOM_BIN", os.path.join(TOP, "build", "bin"))
AGENT = os.path.join(BIN, "fathom-agent")
CHUNK = struct.Struct("=QQII")
CHUNK_BYTES_MAX = 131072 - CHUNK.size
SEC_AGENT, MGMT, FATHOM = 1, 2, 70
REQUEST_CREDS, GET_ATTACH_INFO, NOTIFY_EXIT, NOTIFY_CONNECT, NOTIFY_DISCONNECT = 101, 206, 233, 235, 236
SETUP_TELEMETRY, STATS, ATTACH, DETACH, LIST, REFRESH = 247, 7003, 7101, 7102, 7103, 7104
ATTACH_INFO, EVICT = "/mgmt.MgmtSvc/GetAttachInfo", "/mgmt.MgmtSvc/PoolEvict"
PUBLISH, UNPUBLISH = "/fathom.ControlSvc/VolumePublish", "/fathom.ControlSvc/VolumeUnpublish"
SECONDS = 60        # of each wait
NOBODY = 65534

messages = fake_server.protocols()
_modules = tempfile.TemporaryDirectory(prefix="fathom-agent-protocols-")
subprocess.run(["protoc", f"--proto_path={TOP}/src", f"--python_out={_modules.name}", "rpc/proto/agent.proto", "rpc/proto/security.proto",
                "rpc/proto/drpc.proto"], check=True)


def _load(name):
    # the package rpc.proto exists already, in the folder of fake_server
    import rpc.proto
    rpc.proto.__path__.append(os.path.join(_modules.name, "rpc/proto"))
    return importlib.import_module(f"rpc.proto.{name}_pb2")


agent, security, drpc, mgmt, fathom = _load("agent"), _load("security"), _load("drpc"), messages["mgmt"], messages["fathom"]


def attach_info(version=1, ranks=2, device_class=772):
    """The answer of a management service whose engines are on the loopback interface."""
    return mgmt.GetAttachInfoResp(
        rank_uris=[mgmt.GetAttachInfoResp.RankUri(rank=rank, uri=f"nvme+tcp://127.0.0.1:{4420 + rank}") for rank in range(ranks)],
        ms_ranks=[0], data_version=version, sys="fathom",
        client_net_hint=mgmt.ClientNetHint(provider="nvme+tcp", net_dev_class=device_class, crt_timeout=60))


def wait_for(condition, what=""):
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        got = condition()
        if got:
            return got
        time.sleep(0.02)
    raise AssertionError(f"not within {SECONDS} s: {what}")


def connect(path):
    """A connection; while the queue of the listening socket is full, it tries again."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.settimeout(SECONDS)
    end = time.monotonic() + SECONDS
    while True:
        try:
            sock.connect(path)
            return sock
        except BlockingIOError:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)


def send_call(sock, module, method, body=b""):
    message = drpc.Call(module=module, method=method, sequence=7, body=body).SerializeToString()
    pieces = [message[at:at + CHUNK_BYTES_MAX] for at in range(0, len(message), CHUNK_BYTES_MAX)] or [b""]
    for i, piece in enumerate(pieces):
        sock.send(CHUNK.pack(len(message), len(piece), i, len(pieces)) + piece)


def receive(sock):
    """The response; None: the agent closed the connection."""
    message = b""
    while True:
        try:
            packet = sock.recv(1 << 17)
        except ConnectionResetError:
            return None
        if not packet:
            return None
        total, count, index, chunks = CHUNK.unpack_from(packet)
        message += packet[CHUNK.size:CHUNK.size + count]
        if index + 1 == chunks:
            return drpc.Response.FromString(message)


class Agent:
    """A running agent. `servers`: fake servers, or addresses."""

    def __init__(self, folder, servers, keys="", secure=None):
        self.folder = folder
        self.socket = os.path.join(folder, "run", "fathom_agent.sock")
        self.config = os.path.join(folder, "fathom_agent.yml")
        self.log_path = os.path.join(folder, "log")
        addresses = ", ".join(f'"{getattr(server, "address", server)}"' for server in servers)
        transport = "allow_insecure: true" if not secure else (
            f"ca_cert: {secure}/ca.crt\n  cert: {secure}/agent.crt\n  key: {secure}/agent.key")
        with open(self.config, "w") as file:
            file.write(f"access_points: [{addresses}]\nruntime_dir: {folder}/run\nstate_dir: {folder}/state\n"
                       f"transport_config:\n  {transport}\nattach: {{host_nqn_file: {folder}/hostnqn}}\n{keys}\n")
        with open(os.path.join(folder, "hostnqn"), "w") as file:
            file.write("nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555\n")
        self.process = None

    def start(self, ready=True, env=None):
        before = os.path.getsize(self.log_path) if os.path.exists(self.log_path) else 0
        with open(self.log_path, "a") as log:
            self.process = subprocess.Popen([AGENT, "-o", self.config, "--name", f"agent-{os.getpid()}"], stderr=log,
                                            stdin=subprocess.DEVNULL, env=dict(os.environ, **(env or {})))
        if ready:
            wait_for(lambda: "ready after" in self.log()[before:] or self.process.poll() is not None, "ready")
            assert self.process.poll() is None, self.log()
        return self

    def log(self):
        with open(self.log_path) as file:
            return file.read()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(SECONDS)
        return self.process.returncode if self.process else None

    def kill(self):
        self.process.kill()
        self.process.wait(SECONDS)

    def discard(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait(SECONDS)

    # ---- calls ----

    def call(self, module, method, request=None, answer=None, sock=None):
        """One call; the answer, or the dRPC status if it failed."""
        own = sock is None
        sock = sock or connect(self.socket)
        try:
            send_call(sock, module, method, request.SerializeToString() if request is not None else b"")
            response = receive(sock)
        finally:
            if own:
                sock.close()
        if response is None:
            raise ConnectionResetError(f"method {method} was not answered")
        if response.status != 0:
            return response.status
        return answer.FromString(response.body) if answer else response.body

    def attach_info(self, **fields):
        return self.call(MGMT, GET_ATTACH_INFO, mgmt.GetAttachInfoReq(**{"all_ranks": True, **fields}), mgmt.GetAttachInfoResp)

    def credential(self):
        return self.call(SEC_AGENT, REQUEST_CREDS, None, security.GetCredResp)

    def counters(self):
        return {one.name: one.value for one in self.call(FATHOM, STATS, fathom.StatsReq(), fathom.StatsResp).counters}

    def attach(self, name, **fields):
        return self.call(FATHOM, ATTACH, agent.AttachReq(name=name, **fields), agent.AttachResp)

    def detach(self, name, **fields):
        return self.call(FATHOM, DETACH, agent.DetachReq(name=name, **fields), agent.AttachResp)

    def attachments(self):
        return self.call(FATHOM, LIST, agent.ListReq(), agent.ListResp).attachments


class AgentTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.directory = tempfile.TemporaryDirectory(prefix="fathom-agent-")
        self.addCleanup(self.directory.cleanup)
        self.folder = self.directory.name
        os.chmod(self.folder, 0o755)

    def server(self, answers, **kwargs):
        server = fake_server.FakeServer(answers, **kwargs)
        server.__enter__()
        self.addCleanup(server.__exit__)
        return server

    def agent(self, servers, keys="", ready=True, secure=None):
        one = Agent(self.folder, servers, keys, secure)
        self.addCleanup(one.discard)
        return one.start(ready)

    def as_user(self, uid, code):
        """Run Python as another user, with this module's names; its standard output."""
        done = subprocess.run([sys.executable, "-c", f"import os, sys\nos.setgroups([])\nos.setgid({uid})\nos.setuid({uid})\n"
                               f"import socket, struct\n{code}"], capture_output=True, text=True, timeout=SECONDS, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()


def fault_code(response):
    """The text as fathom prints it: "code = N"."""
    return f"code = {response.code}"


def faults_of(text):
    return re.findall(r"code = \d+", text)
