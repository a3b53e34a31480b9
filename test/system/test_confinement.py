# SPDX-License-Identifier: BSD-2-Clause
"""The confined run has its limits and the engine logs its fallback; the other run has neither."""

import ctypes
import os
import unittest

from harness import EngineTest

CONFINED = os.environ.get("FATHOM_CONFINED") == "1"


class Confinement(EngineTest):
    def test_io_uring_is_refused_exactly_when_confined(self):
        libc = ctypes.CDLL(None, use_errno=True)
        params = (ctypes.c_ubyte * 120)()
        fd = libc.syscall(425, 1, params)
        if CONFINED:
            self.assertEqual((fd, ctypes.get_errno()), (-1, 1))
        elif fd < 0:
            self.skipTest(f"this kernel refuses io_uring by itself (errno {ctypes.get_errno()})")
        else:
            os.close(fd)

    def test_dev_shm_is_small_and_the_user_not_root_exactly_when_confined(self):
        stat = os.statvfs("/dev/shm")
        self.assertEqual(stat.f_blocks * stat.f_frsize == 64 << 20 and os.geteuid() != 0, CONFINED)

    def test_the_engine_logs_once_that_it_uses_helper_threads(self):
        engine = self.engine()
        engine.serve("bdev_uring_create", self.file("disk", 16), "Disk0", 512)
        engine.perf("--rw", "mix", "--bs", "4k", "--time", "0.5", "--verify")
        self.assertEqual(engine.log_text().count("io_uring"), 1 if CONFINED else 0, engine.log_text())


if __name__ == "__main__":
    unittest.main()
