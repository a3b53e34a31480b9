# SPDX-License-Identifier: BSD-2-Clause
"""
control_rig - a system of one storage host: a fathom-server of its own with some engines, driven by the `fathom` command.

Everything lies in one folder: configuration, sockets, state, storage (class file: no privilege is needed). Engines outlive
their server on purpose. A test finds and ends them by their socket folder, which is on their command line.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from harness import BIN, FATHOM, NQN, TOP, free_port, run

SERVER = os.path.join(BIN, "fathom-server")
HELPER = os.path.join(BIN, "fathom-helper")
SETTLE_SECONDS = 60


class ServerEnded(AssertionError):
    pass


def make_certificates(folder):
    """Make a new authority and its certificates in `folder`: ca, server, admin, agent, monitor. Returns `folder`."""
    run(os.path.join(TOP, "test", "make-certificates"), folder)
    return folder


def transport_config(folder, role, tls12=False):
    """The line `transport_config` of a configuration, with the certificate of `role` in `folder`."""
    return (f"transport_config: {{allow_insecure: false, {'allow_tls12: true, ' if tls12 else ''}ca_cert: {folder}/ca.crt, "
            f"cert: {folder}/{role}.crt, key: {folder}/{role}.key}}")


class System:
    """A server and its engines. `engines`: their number. `text`: more keys for the configuration's top level."""

    def __init__(self, directory, engines=3, text="", storage=None, state=None):
        self.directory = directory
        self.port = free_port()
        self.run_dir = os.path.join(directory, "run")
        self.state_dir = state or os.path.join(directory, "state")
        self.config = os.path.join(directory, "server.yml")
        self.client_config = os.path.join(directory, "control.yml")
        self.log_path = os.path.join(directory, "server.log")
        self.ports = [free_port() for _ in range(engines)]
        self.process = None
        os.makedirs(self.run_dir, exist_ok=True)
        os.makedirs(self.state_dir, exist_ok=True)
        if not storage:
            for number in range(engines):
                os.makedirs(os.path.join(directory, f"e{number}"), exist_ok=True)
        storage = storage or (lambda n: f"{{class: file, scm_mount: {directory}/e{n}, bdev_size: 64MiB}}")
        with open(self.config, "w") as file:
            file.write(f"""name: test
port: {self.port}
control_iface: lo
mgmt_svc_replicas: ['127.0.0.1:{self.port}']
{'' if 'transport_config' in text else 'transport_config: {allow_insecure: true}'}
socket_dir: {self.run_dir}
state_dir: {self.state_dir}
helper: {HELPER}
{text}
engines:
""")
            for number, port in enumerate(self.ports):
                file.write(f"""- fabric_iface: lo
  fabric_iface_port: {port}
  log_file: {directory}/engine{number}.log
  storage: [{storage(number)}]
""")
        self.use_certificate(None, None)

    def use_certificate(self, folder, role):
        """Let the `fathom` command present the certificate of `role` in `folder`; None: connect without TLS."""
        with open(self.client_config, "w") as file:
            file.write(f"name: test\nport: {self.port}\nhostlist: ['127.0.0.1']\n"
                       f"{transport_config(folder, role) if folder else 'transport_config: {allow_insecure: true}'}\n")

    # ---- the server ----

    def start(self, wait=True):
        with open(self.log_path, "a") as log:
            self.process = subprocess.Popen([SERVER, "start", "-o", self.config], stdout=log, stderr=subprocess.STDOUT)
        if wait:
            self.wait_until(lambda: self.fathom("server", "query", check=False).returncode == 0, "the server answers")

    def kill(self):
        """Kill the server with SIGKILL. Its engines keep running."""
        self.process.kill()
        self.process.wait()

    def stop(self):
        """Stop the server with SIGTERM; its exit status. Its engines keep running."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def log_text(self):
        return pathlib.Path(self.log_path).read_text()

    # ---- the command ----

    def fathom(self, *words, check=True, **kwargs):
        return run(FATHOM, *words, "-o", self.client_config, check=check, **kwargs)

    def json(self, *words, check=True):
        """The field `response` of the command's JSON. With `check`, an error in the envelope fails the test."""
        done = self.fathom(*words, "--json", check=False)
        answer = json.loads(done.stdout)
        if check and (answer["error"] or done.returncode):
            raise AssertionError(f"fathom {' '.join(words)}: {answer['error']}\n{done.stderr}")
        return answer["response"]

    def engines(self):
        """{index: engine} of this host, as its server reports them."""
        hosts = self.json("server", "query")["HostEngines"].values()
        return {engine["index"]: engine for host in hosts for engine in host["engines"]}

    def members(self):
        return {member["rank"]: member for member in self.json("system", "query")["members"]}

    def states(self):
        return {rank: member["state"] for rank, member in self.members().items()}

    def events(self):
        """[(number, id, rank, incarnation)]"""
        return [(event["number"], event["id"], event["rank"], event["incarnation"]) for event in self.json("system", "events")["events"]]

    # ---- engines ----

    def pids(self):
        """{instance: [pid]} of the running engines, found by their command lines: the server may be dead."""
        found = {}
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_text(errors="replace").split("\0")      # empty for a zombie
                if self.run_dir in words and "--instance" in words:
                    found.setdefault(int(words[words.index("--instance") + 1]), []).append(int(folder.name))
            except OSError:
                pass
        return found

    def pid(self, instance):
        pids = self.pids().get(instance, [])
        if len(pids) != 1:
            raise AssertionError(f"instance {instance} has {len(pids)} processes")
        return pids[0]

    def rpc(self, instance, text):
        return run(FATHOM, "rpc", "-s", os.path.join(self.run_dir, f"engine{instance}.sock"), input=text).stdout

    def serve(self, instance):
        """Export a subsystem with a file device on the storage that formatting prepared."""
        self.rpc(instance, f"""nvmf_create_subsystem {NQN} -a -s FATHOM000000000{instance} -m 10
nvmf_subsystem_add_listener {NQN} -t tcp -a 127.0.0.1 -s {self.ports[instance]}
bdev_aio_create {self.directory}/e{instance}/data.img Data{instance} 4096
nvmf_subsystem_add_ns {NQN} Data{instance}
""")

    def perf(self, instance, *options):
        """Start a verified load. Its exit status is 0 if every byte read back was right."""
        return subprocess.Popen([FATHOM, "perf", "-a", "127.0.0.1", "-s", str(self.ports[instance]), "-n", NQN, "--rw", "mix", "--bs", "4k",
                                 "--depth", "16", "--verify", *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    # ---- waiting ----

    def wait_until(self, condition, what, seconds=SETTLE_SECONDS):
        """Wait until `condition()` is true. `what`: the text of a timeout, or a function that returns it."""
        deadline = time.monotonic() + seconds
        while True:
            if self.process and self.process.poll() is not None:
                raise ServerEnded(f"the server ended with {self.process.returncode} before {what}:\n{self.log_text()}")
            if condition():
                return
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {seconds} s: {what() if callable(what) else what}\n{self.log_text()[-8000:]}")
            time.sleep(0.02)

    def wait_for_states(self, wanted, seconds=SETTLE_SECONDS):
        """Wait until the ranks are in these states. `wanted`: {rank: state}, or one state for all ranks."""
        seen = {}

        def reached():
            try:
                seen.update(self.states())
            except AssertionError:
                return False
            return all(state == wanted for state in seen.values()) and len(seen) == len(self.ports) if isinstance(wanted, str) else \
                all(seen.get(rank) == state for rank, state in wanted.items())

        self.wait_until(reached, lambda: f"states {wanted}, the last were {seen}", seconds)

    def format(self):
        self.fathom("storage", "format")
        self.wait_for_states("joined")

    def discard(self):
        if self.process and self.process.poll() is None:
            self.kill()
        for pids in self.pids().values():
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while self.pids() and time.monotonic() < deadline:
            time.sleep(0.01)


class SystemTest(unittest.TestCase):
    """Each test has a folder of its own. tearDown() kills the servers and engines that run in it."""

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="fathom-")
        self.systems = []

    def system(self, *args, formatted=True, start=True, **kwargs):
        system = System(self.directory, *args, **kwargs)
        self.systems.append(system)
        if start:
            system.start()
        if formatted:
            system.format()
        return system

    def tearDown(self):
        for system in self.systems:
            system.discard()
        shutil.rmtree(self.directory, ignore_errors=True)
