# SPDX-License-Identifier: BSD-2-Clause
"""`make install` gives programs, man pages, and a library that a stranger's program can be built with."""

import os
import shutil
import subprocess
import unittest

from harness import NQN, TOP, EngineTest, run

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "use_initiator.c")


class Installing(EngineTest):
    def setUp(self):
        super().setUp()
        build = os.environ.get("FATHOM_BUILD")
        if not build or os.environ.get("FATHOM_CONFINED"):
            self.skipTest("the build directory is needed (FATHOM_BUILD), and the right to write to it")
        self.root = os.path.join(self.directory, "root")
        run("meson", "install", "-C", build, "--no-rebuild", "--destdir", self.root)
        self.prefix = os.path.join(self.root, "usr", "local")

    def find(self, name):
        for folder, _, files in os.walk(self.root):
            if name in files:
                return os.path.join(folder, name)
        self.fail(f"{name} is not installed")

    def test_programs_and_pages_are_there(self):
        for name in ("fathom", "fathom-engine"):
            self.assertIn("usage", run(self.find(name), "--help").stdout.lower())
        for page in ("fathom-engine.8", "fathom-perf.1", "fathom-rpc.1", "fathom-trace.1"):
            self.find(page)

    @unittest.skipUnless(shutil.which("pkg-config"), "pkg-config is missing")
    def test_a_program_of_somebody_else_s_reads_what_it_wrote(self):
        env = dict(os.environ, PKG_CONFIG_PATH=os.path.dirname(self.find("libfathom-initiator.pc")), PKG_CONFIG_SYSROOT_DIR=self.root)
        flags = subprocess.check_output(["pkg-config", "--static", "--cflags", "--libs", "libfathom-initiator"], env=env,
                                        text=True).split()
        # the sysroot is put before the paths of system libraries too: they are where the linker looks anyway
        program = os.path.join(self.directory, "program")
        run("cc", "-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-D_POSIX_C_SOURCE=200809L", PROGRAM, "-o", program, *flags)
        engine = self.engine()
        engine.serve("bdev_malloc_create", "-b", "Disk0", 16, 512)
        self.assertIn("same bytes", run(program, "127.0.0.1", engine.port, NQN).stdout)


if __name__ == "__main__":
    unittest.main()
