# SPDX-License-Identifier: BSD-2-Clause
"""The two NVMe/TCP targets that the scenarios run against: ours, and the guest's own kernel.

Both have: nqn, address and port (as the guest sees them), expected_dmesg, start(), stop(), add_namespace(),
remove_namespace(), crash(), restart(), controllers() (None: cannot tell), volume_blocks(), check_volume(), describe().
"""

import base64
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
import uuid

import guest
import initramfs
import kernel

NQN = "nqn.2016-06.io.spdk:cnode1"
SERIAL = "SPDK00000000000001"
START_TIMEOUT_S = 20
RPC_TIMEOUT_S = 20
STOP_TIMEOUT_S = 20


def engine_binaries():
    """The paths of (fathom-engine, fathom) in FATHOM_BIN, default build/bin. kernel.Missing if they do not exist."""
    directory = pathlib.Path(os.environ.get("FATHOM_BIN", kernel.REPOSITORY / "build" / "bin"))
    for name in ("fathom-engine", "fathom"):
        if not os.access(directory / name, os.X_OK):
            raise kernel.Missing(f"{directory / name} not found (build it, or set FATHOM_BIN)")
    return directory / "fathom-engine", directory / "fathom"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def cpu_mask():
    """A mask of the first two CPUs of this process, or of its only one."""
    return hex(sum(1 << cpu for cpu in sorted(os.sched_getaffinity(0))[:2]))


def volume_uuid(name):
    """A UUID that depends only on the name."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"fathom-vm:{name}"))


class EngineTarget:
    """fathom-engine on this machine, with file-backed volumes."""

    nqn = NQN
    address = guest.HOST_ADDRESS
    expected_dmesg = []

    def __init__(self, host):
        self._host = host
        self._engine, self._command = engine_binaries()
        # not in /tmp, which may be in memory and refuse direct I/O
        self._place = tempfile.TemporaryDirectory(prefix="engine-", dir=kernel.cache_directory())
        self.directory = pathlib.Path(self._place.name)
        self._run = tempfile.TemporaryDirectory(prefix="fathom-vm-")    # a short path: a socket's path has at most 107 bytes
        self._name = f"vm{os.getpid()}"
        self._socket = pathlib.Path(self._run.name) / "rpc.sock"
        self._log = self.directory / "engine.log"
        self._process = None
        self._namespaces = {}       # volume name: NSID
        self.port = free_port()

    def start(self, volumes):
        """Start with `volumes` {name: bytes} as the namespaces 1, 2, ..., configured by calls."""
        for nsid, (name, size) in enumerate(volumes.items(), start=1):
            self._make_file(name, size)
            self._namespaces[name] = nsid
        self._launch()
        self.rpc("framework_wait_init",     # the socket exists before the target
                 "nvmf_create_transport -t tcp",
                 f"nvmf_create_subsystem {NQN} -a -s {SERIAL} -m 10",
                 *(line for name in self._namespaces for line in self._namespace_lines(name)),
                 # last, here and below: a reconnecting host must not find a subsystem without its namespaces
                 f"nvmf_subsystem_add_listener {NQN} -t tcp -a 127.0.0.1 -s {self.port}")

    def restart(self):
        """Start again from a configuration file with the same content."""
        config = self.directory / "config.json"
        config.write_text(json.dumps(self._config(), indent=2))
        self._launch("-c", config)

    def _launch(self, *options):
        # the socket of a killed engine is not removed here: the next engine must replace it
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", self._engine, "-r", self._socket, "-m", cpu_mask(),
                 "--name", self._name, *options], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._wait_for_socket()

    def _namespace_lines(self, name):
        # with a UUID, for the host to know the namespace again after a restart
        return [f"bdev_aio_create {self._file(name)} {name} 512",
                f"nvmf_subsystem_add_ns {NQN} {name} -n {self._namespaces[name]} -u {volume_uuid(name)}"]

    def _config(self):
        bdevs = [{"method": "bdev_aio_create",
                  "params": {"name": name, "filename": str(self._file(name)), "block_size": 512}}
                 for name in self._namespaces]
        namespaces = [{"method": "nvmf_subsystem_add_ns",
                       "params": {"nqn": NQN,
                                  "namespace": {"nsid": nsid, "bdev_name": name, "uuid": volume_uuid(name)}}}
                      for name, nsid in self._namespaces.items()]
        address = {"trtype": "TCP", "adrfam": "IPv4", "traddr": "127.0.0.1", "trsvcid": str(self.port)}
        nvmf = [{"method": "nvmf_create_transport", "params": {"trtype": "TCP"}},
                {"method": "nvmf_create_subsystem",
                 "params": {"nqn": NQN, "allow_any_host": True, "serial_number": SERIAL, "max_namespaces": 10}},
                *namespaces,
                {"method": "nvmf_subsystem_add_listener", "params": {"nqn": NQN, "listen_address": address}}]
        return {"subsystems": [{"subsystem": "bdev", "config": bdevs}, {"subsystem": "nvmf", "config": nvmf}]}

    def _wait_for_socket(self):
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            with socket.socket(socket.AF_UNIX) as probe:
                try:
                    probe.connect(str(self._socket))
                    return
                except OSError:
                    pass
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the engine did not open its socket\n{self.describe()}")
            time.sleep(0.05)

    def rpc(self, *lines):
        """Run lines in the form of rpc.py. Return the command's output."""
        done = subprocess.run([self._command, "rpc", "-s", self._socket], input="\n".join(lines) + "\n", text=True,
                              capture_output=True, timeout=RPC_TIMEOUT_S, check=False)
        if done.returncode != 0:
            raise AssertionError(f"fathom rpc: exit status {done.returncode}\n{done.stdout}{done.stderr}\n"
                                 + "\n".join(lines) + "\n" + self.describe())
        return done.stdout

    def _file(self, name):
        return self.directory / f"{name}.img"

    def _make_file(self, name, size):
        with open(self._file(name), "wb") as file:
            file.truncate(size)

    def add_namespace(self, name, size):
        self._make_file(name, size)
        self._namespaces[name] = max(self._namespaces.values(), default=0) + 1
        self.rpc(*self._namespace_lines(name))

    def remove_namespace(self, name):
        self.rpc(f"nvmf_subsystem_remove_ns {NQN} {self._namespaces.pop(name)}", f"bdev_aio_delete {name}")

    def crash(self):
        """SIGKILL: nothing is flushed or closed, and hosts are not notified."""
        self._process.kill()
        self._process.wait()

    def controllers(self):
        """The number of controllers of the subsystem."""
        return len(json.loads(self.rpc(f"nvmf_subsystem_get_controllers {NQN}")))

    def volume_blocks(self, name):
        """The number of 512-byte blocks allocated to the volume's file."""
        return os.stat(self._file(name)).st_blocks

    def check_volume(self, name, ledger):
        """The engine being dead, is all in the file that verify_io's `ledger`, in the guest, calls acknowledged?

        Returns verify_io's (exit status, output).
        """
        copy = self.directory / "ledger"
        copy.write_bytes(base64.b64decode(self._host.check(f"base64 {ledger}")))
        done = subprocess.run([initramfs.compile_static("verify_io.c"), "check", self._file(name), copy], text=True,
                              capture_output=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def terminate(self):
        """Send SIGTERM. AssertionError if the engine had died or does not end cleanly."""
        if self._process.poll() is not None:
            raise AssertionError(f"the engine died\n{self.describe()}")
        self._process.terminate()
        try:
            status = self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.crash()
            raise AssertionError(f"the engine ignored SIGTERM\n{self.describe()}") from None
        if status != 0:
            raise AssertionError(f"the engine left with status {status}\n{self.describe()}")

    def stop(self):
        """End of a test: terminate() unless the test has ended the engine, and remove the files."""
        try:
            if self._process is not None and self._process.returncode not in (0, -signal.SIGKILL):
                self.terminate()
        finally:
            self._place.cleanup()
            self._run.cleanup()
            for trace in pathlib.Path("/dev/shm").glob(f"{self._name}_trace.pid*"):     # of killed engines
                trace.unlink(missing_ok=True)

    def describe(self):
        status = self._process.poll() if self._process else None
        state = "runs" if status is None else f"ended with {status}"
        tail = self._log.read_text(errors="replace").splitlines()[-30:] if self._log.exists() else []
        return "\n".join([f"the engine {state}; its log ends with:"] + tail)


class KernelTarget:
    """nvmet in the guest, over loopback: verifies the scenarios without an engine."""

    nqn = NQN
    address = "127.0.0.1"
    port = 4420
    expected_dmesg = [(r"Cmd\(0x8\)|op 0x9:\(WRITE_ZEROES\)", "tmpfs, under nvmet's file, cannot write zeroes")]
    _ROOT = "/sys/kernel/config/nvmet"
    _SUBSYSTEM = f"{_ROOT}/subsystems/{NQN}"
    _PORT = f"{_ROOT}/ports/1"

    def __init__(self, host):
        self._host = host
        self._nsids = {}

    def start(self, volumes):
        self._host.check(f"""
            set -e
            modprobe nvmet_tcp
            [ -d /sys/kernel/config/nvmet ] || mount -t configfs config /sys/kernel/config
            mkdir {self._SUBSYSTEM} {self._PORT}
            echo 1 > {self._SUBSYSTEM}/attr_allow_any_host
            echo {SERIAL} > {self._SUBSYSTEM}/attr_serial
            cd {self._PORT}
            echo tcp > addr_trtype
            echo ipv4 > addr_adrfam
            echo {self.address} > addr_traddr
            echo {self.port} > addr_trsvcid""")
        for name, size in volumes.items():
            self.add_namespace(name, size)
        self.restart()

    def add_namespace(self, name, size):
        nsid = len(self._nsids) + 1
        place = f"{self._SUBSYSTEM}/namespaces/{nsid}"
        self._host.check(f"""
            set -e
            truncate -s {size} /tmp/{name}.img
            mkdir {place}
            echo 1 > {place}/buffered_io
            echo /tmp/{name}.img > {place}/device_path
            echo 1 > {place}/enable""")
        self._nsids[name] = nsid

    def remove_namespace(self, name):
        place = f"{self._SUBSYSTEM}/namespaces/{self._nsids.pop(name)}"
        self._host.check(f"echo 0 > {place}/enable && rmdir {place} && rm /tmp/{name}.img")

    def crash(self):
        """Close all connections and stop listening. Unlike after a crash, received writes complete."""
        self._host.check(f"rm {self._PORT}/subsystems/{NQN}")

    def restart(self):
        self._host.check(f"ln -s {self._SUBSYSTEM} {self._PORT}/subsystems/{NQN}")

    def controllers(self):
        return None

    def volume_blocks(self, name):
        """The number of 512-byte blocks allocated to the volume's file."""
        return int(self._host.check(f"stat -c %b /tmp/{name}.img"))

    def check_volume(self, name, ledger):
        return 0, f"not for nvmet: {name} {ledger}"     # the file is in the guest's page cache: nothing to check

    def stop(self):
        self._host.check(f"rm -f {self._PORT}/subsystems/{NQN}")
        for name in list(self._nsids):
            self.remove_namespace(name)
        self._host.check(f"rmdir {self._PORT} {self._SUBSYSTEM}")

    def describe(self):
        return "nvmet in the guest"
