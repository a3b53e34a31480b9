#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`fathom probe run` under Debian's kernel: all its scripts at once on an engine in the guest, under one load.

    python3 test/vm/test_probes.py -v

What each counted must be what the engine's trace counted meanwhile; lines of two reactors must come in the order of time.
test/system/test_attaching.py has more, where this machine's own kernel has uprobes.
"""

import base64
import gzip
import pathlib
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parents[1]
sys.path[:0] = [str(HERE), str(TOP / "test" / "system")]

import guest        # noqa: E402
import kernel       # noqa: E402
import script_output      # noqa: E402
import targets      # noqa: E402

MEMORY_MB = 3072                # a dozen bpftrace processes, each with its compiler
ATTACH_TIMEOUT_S = 240
NQN = "nqn.2016-06.io.spdk:cnode1"
CONFIGURE = f"""framework_wait_init
bdev_malloc_create 16 512 -b Malloc0
bdev_malloc_create 16 4096 -b M1
bdev_error_create M1
nvmf_create_transport -t tcp
nvmf_create_subsystem {NQN} -a -s SPDK00000000000001 -m 8
nvmf_subsystem_add_ns {NQN} Malloc0
nvmf_subsystem_add_ns {NQN} EE_M1
nvmf_subsystem_add_listener {NQN} -t tcp -a 127.0.0.1 -s 4420
"""
PERF = f"fathom perf -a 127.0.0.1 -s 4420 -n {NQN} --quiet"


class TestProbes(unittest.TestCase):
    """An engine in the guest, traced by each script of probes/."""

    @classmethod
    def setUpClass(cls):
        try:
            engine, command = targets.engine_binaries()
            cls.host = guest.boot([engine, command, kernel.need_program("bpftrace", "bpftrace")], MEMORY_MB)
        except kernel.Missing as missing:
            raise unittest.SkipTest(str(missing)) from None
        cls.addClassCleanup(cls.host.close)
        cls.host.check("mount -t debugfs debug /sys/kernel/debug; mkdir -p /dev/shm /var/tmp /usr/share/fathom/probes; "
                       "mount -t tmpfs shm /dev/shm")

    def write(self, path, text):
        packed = base64.b64encode(gzip.compress(text.encode())).decode()
        self.host.check(f"echo {packed} | base64 -d | gzip -dc > {path}")

    def read(self, path):
        return gzip.decompress(base64.b64decode(self.host.check(f"gzip -c {path} | base64", 120))).decode(errors="replace")

    def attach(self, scripts):
        """Start the scripts {name: words of its command line} in the background."""
        jobs = {name: self.host.start(f"fathom probe run -o /tmp/{name}.out {words} 2>/tmp/{name}.said", 600)
                for name, words in scripts.items()}
        deadline = time.monotonic() + ATTACH_TIMEOUT_S
        for name, job in jobs.items():
            while self.host.run(f"grep -q '^# ' /tmp/{name}.said")[0] != 0:
                if self.host.is_done(job) or time.monotonic() > deadline:
                    self.fail(f"{name} does not attach: {self.host.run(f'cat /tmp/{name}.said')[1]}")
                time.sleep(0.2)
        return jobs

    def end(self, jobs):
        """Interrupt them one after another: printing all maps at once takes long on a busy machine."""
        for name, job in jobs.items():
            self.host.check("for p in $(pidof fathom); do "
                            f"tr '\\0' ' ' </proc/$p/cmdline | grep -q ' /tmp/{name}.out ' && kill -INT $p; done; true")
            self.assertEqual(self.host.wait(job)[0], 0, f"{name}: {self.host.run(f'cat /tmp/{name}.said')[1]}")
        return {name: self.read(f"/tmp/{name}.out") for name in jobs}

    def summary(self):
        self.host.check("fathom trace summary --json >/tmp/summary", 60)
        return script_output.counts_of_summary(self.read("/tmp/summary"))

    def test_scripts_count_what_the_engine_counts_and_lines_are_in_order(self):
        engine = self.host.start("fathom-engine -m 3 >/tmp/engine.log 2>&1", 600)
        self.host.check("while [ ! -S /var/tmp/fathom.sock ]; do sleep 0.1; done")
        self.write("/tmp/configure", CONFIGURE)
        self.host.check("fathom rpc </tmp/configure")
        scripts = {}
        for path in sorted((TOP / "probes").glob("*.bt")):
            self.write(f"/usr/share/fathom/probes/{path.name}", path.read_text())
            scripts[path.stem] = path.stem + (" -- 1" if path.stem == "slowest" else "")
        self.write("/tmp/lines.bt", script_output.LINES)
        jobs = self.attach({**scripts, "lines": "--json /tmp/lines.bt fathom"})
        before = self.summary()
        self.host.check(f"{PERF} --count 300 --rw mix --depth 8 --queues 2", 240)
        self.host.check(f"echo 'bdev_error_inject_error EE_M1 read failure -n {script_output.FAILURES}' | fathom rpc")
        self.host.run(f"{PERF} --count 20 --nsid 2 --rw read --depth 1", 120)
        self.host.check(f"echo 'nvmf_delete_subsystem {NQN}' | fathom rpc")
        time.sleep(3)       # output that is printed once a second must have been printed
        after = self.summary()
        printed = self.end(jobs)
        new = {key: after[key] - before.get(key, 0) for key in after}
        self.assertGreater(new["bdev_io_submit"], 300)
        script_output.assert_scripts_match_trace(self, printed, new)
        lines = script_output.lines_in_order(self, printed["lines"])
        self.assertEqual(len(lines), new["bdev_io_submit"])
        self.assertEqual(len({line[1] for line in lines}), 2, "both reactors had something to do")
        self.host.check("kill -TERM $(pidof fathom-engine)")
        self.assertEqual(self.host.wait(engine)[0], 0, self.host.run("cat /tmp/engine.log")[1])


if __name__ == "__main__":
    unittest.main()
