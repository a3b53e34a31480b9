# SPDX-License-Identifier: BSD-2-Clause
"""
harness - starts engines for the system tests and knows their socket, port and trace file.

Every engine gets a name, a directory and a free port of its own, so tests can run beside anything else. FATHOM_BIN names the
folder of the programs (default build/bin).
"""

import glob
import inspect
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("FATHOM_BIN", os.path.join(TOP, "build", "bin"))
ENGINE = os.path.join(BIN, "fathom-engine")
FATHOM = os.path.join(BIN, "fathom")
NQN = "nqn.2016-06.io.spdk:cnode1"
READY_SECONDS = 60
counter = 0


PORTS = range(10240, 32768)     # below the kernel's ephemeral ports, so no other socket gets one of ours
ports_given = set()


def free_port():
    """A TCP port of 127.0.0.1 on which no process listens; never the same port twice."""
    while True:
        port = random.SystemRandom().choice(PORTS)
        if port in ports_given:
            continue
        ports_given.add(port)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


def wait_for(condition, seconds=60, pause=0.02):
    """Call `condition` until its result is true; return the result. AssertionError after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not true within {seconds} s: {inspect.getsource(condition).strip()}")
        time.sleep(pause)


def run(*command, check=True, timeout=120, **kwargs):
    """Run a program to its end: CompletedProcess with text output."""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=timeout, **kwargs)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


class Engine:
    """A running fathom-engine. Options are words for its command line."""

    def __init__(self, directory, *options, ready=True, env=None, program=ENGINE, cwd=None, preexec_fn=None):
        global counter
        counter += 1
        self.directory = directory
        self.name = f"t{os.getpid()}n{counter}"
        self.sock = os.path.join(directory, f"{self.name}.sock")
        self.log_path = os.path.join(directory, f"{self.name}.log")
        self.port = free_port()
        self.log = open(self.log_path, "w")
        self.process = subprocess.Popen([program, "-r", self.sock, "--name", self.name, *options], stdout=self.log,
                                        stderr=subprocess.STDOUT, env=dict(os.environ, **(env or {})), cwd=cwd,
                                        preexec_fn=preexec_fn)
        self.pid = self.process.pid
        if ready:
            self.wait_ready()

    def wait_ready(self):
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(f"the engine ended with {self.process.returncode}:\n{self.log_text()}")
            if os.path.exists(self.sock):
                try:
                    self.rpc("framework_wait_init")
                    return
                except (OSError, RpcError):
                    pass
            time.sleep(0.01)
        raise AssertionError(f"the engine did not become ready:\n{self.log_text()}")

    def log_text(self):
        self.log.flush()
        return open(self.log_path).read()

    @property
    def trace_path(self):
        return f"/dev/shm/{self.name}_trace.pid{self.pid}"

    def rpc(self, method, timeout=20, **params):
        """One call on a connection of its own; the result."""
        request = {"jsonrpc": "2.0", "id": 1, "method": method}
        if params:
            request["params"] = params
        reply = self.send_request(json.dumps(request).encode(), timeout)
        if "error" in reply:
            raise RpcError(reply["error"])
        return reply["result"]

    def send_request(self, request, timeout=20):
        """Send `request`, JSON as bytes, on a connection of its own; the decoded reply."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(timeout)
            s.connect(self.sock)
            s.sendall(request)
            reply = b""
            while not reply.endswith(b"\n"):
                piece = s.recv(65536)
                if not piece:
                    raise OSError("the engine closed the connection")
                reply += piece
        return json.loads(reply)

    def run_commands(self, text):
        """Run commands, one a line, through the standard input of `fathom rpc`; its output."""
        return run(FATHOM, "rpc", "-s", self.sock, input=text).stdout

    def serve(self, *create):
        """Export a subsystem with one namespace on the device that the command `create` makes; the device's name."""
        name = self.run_commands(" ".join(map(str, create)) + "\n").split()[-1]
        self.run_commands(f"""nvmf_create_transport -t tcp
nvmf_create_subsystem {NQN} -a -s SPDK00000000000001 -m 10
nvmf_subsystem_add_listener {NQN} -t tcp -a 127.0.0.1 -s {self.port}
nvmf_subsystem_add_ns {NQN} {name}
""")
        return name

    def perf(self, *options, check=True, **kwargs):
        return run(FATHOM, "perf", "-a", "127.0.0.1", "-s", self.port, "-n", NQN, *options, check=check, **kwargs)

    def perf_json(self, *options, **kwargs):
        return json.loads(self.perf("--json", *options, **kwargs).stdout)

    def wait_for_ios(self, count, device):
        """Return when the device has completed `count` reads and writes."""
        def are_done():
            stats = self.rpc("bdev_get_iostat", names=[device])["bdevs"][0]
            return stats["num_read_ops"] + stats["num_write_ops"] >= count
        wait_for(are_done)

    def operations_under_way(self, *words):
        """The rows of `fathom trace stuck`: operations under way that are older than 1 s, or than the options `words` say."""
        done = self.trace("stuck", "--json", *words, "-f", self.trace_path, check=False)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def trace(self, *words, check=True):
        return run(FATHOM, "trace", *words, check=check)

    def cpu_ticks(self):
        """User and system time of the process so far, in clock ticks."""
        fields = open(f"/proc/{self.pid}/stat").read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    def resident_kib(self):
        return int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{self.pid}/status").read()).group(1))

    def kill(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        """Stop the engine with SIGTERM; its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the engine did not stop on SIGTERM:\n{self.log_text()}") from None

    def discard(self):
        self.kill()
        self.log.close()
        for path in glob.glob(self.trace_path + "*"):   # a crash adds a name with a suffix
            if path == self.trace_path or path.startswith(self.trace_path + "."):
                os.unlink(path)


class RpcError(Exception):
    def __init__(self, error):
        super().__init__(f"{error['code']}: {error['message']}")
        self.code, self.message = error["code"], error["message"]


def skip_unless_attachable(*programs):
    """Skip the test unless this machine can attach to probes and has these programs."""
    for program in programs:
        if not shutil.which(program):
            raise unittest.SkipTest(f"{program} is missing")
    if os.geteuid() != 0:
        raise unittest.SkipTest("attaching needs root")
    if not os.path.exists("/sys/bus/event_source/devices/uprobe"):
        raise unittest.SkipTest("this kernel has no uprobes")


class EngineTest(unittest.TestCase):
    """Each test has a directory of its own. tearDown() kills the engines that self.engine() started."""

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="fathom-")
        self.engines = []

    def engine(self, *options, **kwargs):
        engine = Engine(self.directory, *options, **kwargs)
        self.engines.append(engine)
        return engine

    def tearDown(self):
        for engine in self.engines:
            engine.discard()
        shutil.rmtree(self.directory, ignore_errors=True)

    def file(self, name, mebibytes):
        path = os.path.join(self.directory, name)
        with open(path, "wb") as f:
            f.truncate(mebibytes << 20)
        return path
