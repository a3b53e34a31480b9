#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""fathom-probed in the guest serves DTrace's device, which needs a kernel with CUSE.

    python3 test/vm/test_registry.py -v

Programs that register: one built by the real `dtrace -G` of Debian sid, and helper_client.c, which issues the same ioctls and
wrong ones. The reader is the real `dtrace`. And beside it DTrace's own daemon, for what it writes.
"""

import base64
import gzip
import io
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parents[1]
sys.path[:0] = [str(HERE)]

import dtrace       # noqa: E402
import guest        # noqa: E402
import initramfs    # noqa: E402
import kernel       # noqa: E402

SAMPLES = TOP / "test" / "unit" / "inspect" / "probed" / "samples"
MEMORY_MB = 1536
LARGE = 5000
DTRACE_S = 300                  # dtrace first reads the kernel's types
STATE = "/run/dtrace"
OURS = f"fathom-probed --cuse --state-dir {STATE} --socket /run/probed.sock"
THEIRS = f"chroot {dtrace.PLACE} /usr/sbin/dtprobed -F"


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


class TestRegistry(unittest.TestCase):
    """A guest with both daemons, one of which runs at a time."""

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
            programs = binaries() + [client, client_32, dtrace.build_demo(work)]
            (work / "large").mkdir()
            write_large_object(work / "large" / "large.dof")
            cls.host = guest.boot(programs, MEMORY_MB, {dtrace.PLACE: dtrace.tree(), "/dof": SAMPLES, "/large": work / "large"})
        except kernel.Missing as missing:
            raise unittest.SkipTest(str(missing)) from None
        cls.addClassCleanup(cls.host.close)
        cls.host.check(dtrace.PREPARE)
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

    def test_a_program_of_the_real_dtrace_registers_and_the_real_dtrace_fires_its_probes(self):
        self.fresh()
        pid = self.start("demo")
        self.wait_for(self.probes, [f"demo{pid}/demo/main/done", f"demo{pid}/demo/main/start"])
        listed = self.host.check(f"chroot {dtrace.PLACE} /usr/sbin/dtrace -l -n 'demo*:::'", DTRACE_S)
        self.assertRegex(listed, rf"demo{pid}\s+demo\s+main done")
        self.assertRegex(listed, rf"demo{pid}\s+demo\s+main start")
        seen = self.host.check(dtrace.command('demo*:::start { printf("start %d %s\\n", arg0, copyinstr(arg1)); } '
                                              'demo*:::done { printf("done %d\\n", arg0); n++; } demo*:::done /n > 4/ { exit(0); }'),
                               DTRACE_S)
        # it prints the events of one processor after those of the other
        starts = sorted(int(number) for number in re.findall(r"^start (\d+) demo$", seen, re.M))
        dones = sorted(int(number) - 7 for number in re.findall(r"^done (\d+)$", seen, re.M))
        self.assertGreaterEqual(len(dones), 4, seen)
        self.assertEqual(dones, list(range(dones[0], dones[0] + len(dones))))
        # probes with an is-enabled check: attached and detached at other times
        self.assertEqual(starts, list(range(starts[0], starts[0] + len(starts))))
        self.assertLessEqual(abs(len(starts) - len(dones)), 2, seen)

    def test_the_tree_equals_that_of_the_other_daemon_byte_for_byte(self):
        seen = {}
        # programs have the same addresses each time
        self.host.check("echo 0 > /proc/sys/kernel/randomize_va_space")
        self.addCleanup(self.host.check, "echo 2 > /proc/sys/kernel/randomize_va_space")
        for command in (THEIRS, OURS):
            job = self.fresh(command)
            words = "add /dof/simple.dof@400000 add /dof/typed.dof add /dof/isen.dof@10000 add /dof/many10.dof sleep"
            pids = [self.start("demo"), self.start(f"helper_client {words}")]
            self.wait_for(lambda: len(self.paths()), 24)
            seen[command] = {re.sub(f"{pids[0]}|{pids[1]}", "PID", path): data for path, data in self.files().items()}
            for pid in pids:
                self.host.run(f"kill -KILL {pid}")
            self.end_daemon(job)
        self.assertEqual(sorted(seen[OURS]), sorted(seen[THEIRS]))
        for path, data in seen[THEIRS].items():
            self.assertEqual(seen[OURS][path], data, path)

    def test_concurrent_threads_register_as_one_process(self):
        self.fresh()
        pid = self.start("helper_client threads 8 /tmp/many sleep")
        self.wait_for(lambda: len(self.paths()), 80)
        self.assertEqual({path.partition("/")[0] for path in self.paths()}, {str(pid)})
        self.assertIn("threads 0", self.host.check("cat /tmp/started.log"))

    def test_an_object_of_many_chunks_is_registered(self):
        self.fresh()
        pid = self.start("helper_client add /large/large.dof sleep")
        self.wait_for(lambda: len(self.paths()), LARGE, 60)
        self.host.check(f"kill -KILL {pid}")
        self.wait_for(self.paths, [], 60)

    def test_a_32_bit_program_is_registered(self):
        self.fresh()
        pid = self.start("helper_client_32")
        self.wait_for(self.probes, [f"simple{pid}/simple32/main/arg1", f"simple{pid}/simple32/main/go"])

    def test_invalid_requests_are_errors_and_affect_no_other_process(self):
        self.fresh()
        said = self.host.check("helper_client legacy nowhere add-program anonymous /dof/simple.dof remove 77 "
                               "add /dof/simple.dof add /bin/busybox remove 0 remove 0")
        self.assertEqual([line.split(" ")[:2] for line in said.splitlines()],
                         [["legacy", "-22"], ["nowhere", "-14"], ["add-program", "-22"], ["anonymous", "-22"], ["remove", "0"],
                          ["add", "0"], ["add", "-22"], ["remove", "0"], ["remove", "0"]])
        self.assertEqual(self.paths(), [])

    def test_a_process_that_dies_or_execs_has_no_probes(self):
        self.fresh()
        pid = self.start("helper_client add /dof/simple.dof sleep")
        self.wait_for(lambda: len(self.paths()), 2)
        self.host.check(f"kill -KILL {pid}")
        self.wait_for(self.paths, [])
        pid = self.start("helper_client add /dof/simple.dof self add /dof/clau.dof sleep")
        self.wait_for(self.probes, [f"clau{pid}/clau.dof/main/go", f"simple{pid}/simple.dof/main/arg1",
                                    f"simple{pid}/simple.dof/main/go"][:1])

    def test_a_child_registers_its_own_probes(self):
        self.fresh()
        self.start("helper_client add /dof/simple.dof fork add /dof/clau.dof sleep")
        self.wait_for(lambda: len(self.paths()), 2)     # the child's probes are removed with it

    def test_registrations_survive_the_daemon(self):
        job = self.fresh()
        pid, other = self.start("demo"), self.start("helper_client add /dof/simple.dof sleep")
        self.wait_for(lambda: len(self.paths()), 4)
        before = self.files()
        self.host.check("killall -KILL fathom-probed")
        self.end_daemon(job)
        self.host.check(f"kill -KILL {other}")
        self.daemon(OURS)
        self.wait_for(self.files, {path: data for path, data in before.items() if path.startswith(f"{pid}/")})
        seen = self.host.check(dtrace.command("demo*:::done { exit(0); }"), DTRACE_S)
        self.assertEqual(seen.strip(), "")


if __name__ == "__main__":
    unittest.main()
