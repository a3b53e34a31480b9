# SPDX-License-Identifier: BSD-2-Clause
"""A guest with fathom-probed, which serves DTrace's device there: that needs a kernel with CUSE."""

import base64
import gzip
import io
import os
import pathlib
import re
import subprocess
import tarfile
import tempfile
import time
import unittest

import dtrace
import guest
import initramfs
import kernel

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parents[1]
SAMPLES = TOP / "test" / "unit" / "inspect" / "probed" / "samples"
MEMORY_MB = 1536
LARGE = 5000
STATE = "/run/dtrace"
OURS = f"fathom-probed --cuse --state-dir {STATE} --socket /run/probed.sock"


def binaries():
    directory = pathlib.Path(os.environ.get("FATHOM_BIN", kernel.REPOSITORY / "build" / "bin"))
    for name in ("fathom-probed", "fathom"):
        if not os.access(directory / name, os.X_OK):
            raise kernel.Missing(f"{directory / name} not found (build it, or set FATHOM_BIN)")
    return [directory / "fathom-probed", directory / "fathom"]


def write_large_object(path):
    """Write an object with LARGE probes, made by our encoder, which prints it as a C array."""
    maker = kernel.REPOSITORY / "build" / "test" / "system" / "registry" / "registry-make-object"
    maker = pathlib.Path(os.environ.get("FATHOM_BIN", maker.parents[3] / "bin")).parent / maker.relative_to(maker.parents[3])
    if not os.access(maker, os.X_OK):
        raise kernel.Missing(f"{maker} not found")
    text = subprocess.run([maker, "large", str(LARGE)], capture_output=True, text=True, check=True).stdout
    path.write_bytes(bytes(int(number) for number in re.search(r"\{([\d,\s]*)\}", text).group(1).split(",") if number.strip()))


class ProbedTest(unittest.TestCase):
    """A guest with the daemon, and with `with_dtrace` also DTrace's programs; one daemon runs at a time."""

    with_dtrace = False

    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory(prefix="fathom-vm-")
        cls.addClassCleanup(directory.cleanup)
        try:
            work = pathlib.Path(directory.name)
            client, client_32 = work / "helper_client", work / "helper_client_32"
            client.symlink_to(initramfs.compile_static("helper_client.c"))
            client_32.symlink_to(initramfs.compile_static(
                "helper_client_32.c", ["-m32", "-nostdlib", "-ffreestanding", "-fno-pie", "-fno-stack-protector"]))
            programs = binaries() + [client, client_32] + ([dtrace.build_demo(work)] if cls.with_dtrace else [])
            (work / "large").mkdir()
            write_large_object(work / "large" / "large.dof")
            trees = {"/dof": SAMPLES, "/large": work / "large"} | ({dtrace.PLACE: dtrace.tree()} if cls.with_dtrace else {})
            cls.host = guest.boot(programs, MEMORY_MB, trees)
        except kernel.Missing as missing:
            raise unittest.SkipTest(str(missing)) from None
        cls.addClassCleanup(cls.host.close)
        cls.host.check(dtrace.PREPARE if cls.with_dtrace else "modprobe cuse")
        cls.host.check("mkdir -p /dev/shm && mount -t tmpfs shm /dev/shm && cp /dof/simple32.dof /tmp && "
                       "for i in 0 1 2 3 4 5 6 7; do cp /dof/many10.dof /tmp/many.$i; done")

    def setUp(self):
        self.ended = []

    def daemon(self, command):
        """Start a daemon, on an empty tree if none exists, and wait until its device exists."""
        job = self.host.start(f"exec {command} >/tmp/daemon.log 2>&1", 600)
        self.addCleanup(self.end_daemon, job)
        status, _ = self.host.run("for i in $(seq 100); do [ -c /dev/dtrace/helper ] && exit 0; sleep 0.1; done; exit 1")
        self.assertEqual(status, 0, f"{command} makes no device:\n{self.host.run('cat /tmp/daemon.log')[1]}")
        return job

    def end_daemon(self, job):
        """Idempotent."""
        if job in self.ended:
            return
        self.ended.append(job)
        self.host.run("killall -TERM fathom-probed dtprobed 2>/dev/null; sleep 0.5")
        if not self.host.is_done(job):
            self.host.run("sleep 3; killall -KILL fathom-probed dtprobed 2>/dev/null")
        self.host.wait(job)

    def fresh(self, command=OURS):
        self.host.run(f"rm -rf {STATE}")
        return self.daemon(command)

    def start(self, command):
        """Start a program in the guest in the background. Return its pid. It is killed when the test ends."""
        pid = int(self.host.check(f"setsid {command} >/tmp/started.log 2>&1 </dev/null & echo $!"))
        self.addCleanup(self.host.run, f"kill -KILL {pid}")
        return pid

    def files(self):
        """The files of the tree: {path below probes/: content}."""
        packed = self.host.check(f"cd {STATE}/probes && tar cf - . | gzip -1 | base64", 60)
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(base64.b64decode(packed)))) as tar:
            return {member.name[2:]: tar.extractfile(member).read() for member in tar if member.isfile()}

    def wait_for(self, what, wanted, seconds=30):
        """Wait until what() is `wanted`."""
        deadline = time.monotonic() + seconds
        while (found := what()) != wanted and time.monotonic() < deadline:
            time.sleep(0.2)
        self.assertEqual(found, wanted, self.host.run("cat /tmp/daemon.log")[1])

    def paths(self):
        return sorted(self.host.check(f"cd {STATE}/probes && find . -type f | cut -c3-").split())

    def probes(self):
        """Provider, module, function and name of the probes in the tree, sorted."""
        return sorted(path.partition("/")[2] for path in self.paths())
