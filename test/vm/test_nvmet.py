#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
The same scenarios against the guest's kernel: if these fail, the fault is in the tests, not in the engine. And a recording of our engine, which
`fathom replay` sends to the guest's kernel.
"""

import json
import pathlib
import shutil
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "system")]

import guest        # noqa: E402
import harness      # noqa: E402
import kernel       # noqa: E402
import scenarios    # noqa: E402
import targets      # noqa: E402

OPERATIONS = 200
ADDRESS, PORT = "10.0.2.15", 4421       # of the guest, beside the port of the scenarios
SECOND = "/sys/kernel/config/nvmet/ports/2"


class TestKernelTarget(scenarios.HostScenarios, unittest.TestCase):
    """The scenarios with nvmet as their target."""

    make_target = targets.KernelTarget

    @classmethod
    def check_needs(cls):
        linux = kernel.get()
        if not linux.has_module("nvmet_tcp"):
            raise kernel.Missing(f"kernel {linux.release} has no module nvmet_tcp")
        targets.engine_binaries()

    @classmethod
    def boot(cls):
        cls.port = targets.free_port()
        return guest.boot(devices=guest.Devices(ports={cls.port: PORT}))

    def open_port(self):
        """Serve the subsystem also at an address that this machine reaches."""
        self.addCleanup(self.host.run, f"rm {SECOND}/subsystems/{targets.NQN}; rmdir {SECOND}")
        self.host.check(f"""
            set -e
            mkdir {SECOND}
            cd {SECOND}
            echo tcp > addr_trtype
            echo ipv4 > addr_adrfam
            echo {ADDRESS} > addr_traddr
            echo {PORT} > addr_trsvcid
            ln -s /sys/kernel/config/nvmet/subsystems/{targets.NQN} {SECOND}/subsystems/{targets.NQN}""")

    def make_incident(self, folder):
        """Record an engine on this machine under a load of reads and writes; the path of the incident."""
        engine = harness.Engine(folder, "--num-trace-entries", str(1 << 16))
        try:
            engine.serve("bdev_malloc_create", "-b", "Source", 64, 512)
            engine.perf("--rw", "mix", "--bs", "4k", "--depth", "4", "--queues", "2", "--count", OPERATIONS, "--rate", 400,
                        "--range", "1M", "--quiet")
            harness.run(harness.FATHOM, "replay", "extract", engine.trace_path, "-o", f"{folder}/incident")
        finally:
            engine.discard()
        return f"{folder}/incident"

    def test_a_recording_of_our_engine_is_replayed_against_the_kernel(self):
        folder = tempfile.mkdtemp(prefix="fathom-replay-")
        self.addCleanup(shutil.rmtree, folder)
        incident = self.make_incident(folder)
        self.open_port()
        command = [harness.FATHOM, "replay", incident, "--against", f"127.0.0.1:{self.port}", "--nqn", targets.NQN, "--write", "--timeout", "0",
                   "--connect-timeout", "60000"]
        for speed in ("1", "4"):
            done = harness.run(*command, "--speed", speed, "--json", timeout=300)
            result = json.loads(done.stdout)
            self.assertEqual((result["operations"], result["failed"], result["not_sent"], result["queue_pairs"]), (OPERATIONS, 0, 0, 2), result)
            self.assertEqual(sum(kind["operations"] for kind in result["kinds"].values()), OPERATIONS)
            self.assertTrue(all(kind["ratio"]["p99"] > 0 for kind in result["kinds"].values()), result)
        text = harness.run(*command, "--speed", "max", timeout=300).stdout
        self.assertRegex(text, r"(?m)^reads took .* in the recording: p99 \d+ us, was \d+ us$")
        self.assertRegex(text, r"(?m)^write +\d+ recorded .*\n +replayed .*\n +ratio ")
        # what the kernel's target has are the lines that the replay wrote
        lines = int(self.host.check(r"head -c 1048576 /tmp/Vol0.img | tr -d '\0' | grep -c '^fathom replay  operation 0'"))
        self.assertGreaterEqual(lines, 64)


if __name__ == "__main__":
    unittest.main()
