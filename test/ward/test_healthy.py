# SPDX-License-Identifier: BSD-2-Clause
"""Healthy engines, idle and under load: no finding above "note". FATHOM_WARD_RUNS: how often the doctor is asked; from 50 on under full load."""

import os
import unittest

from ward import Ward, diagnose, wait_for

RUNS = int(os.environ.get("FATHOM_WARD_RUNS", "10"))


class Healthy(Ward):
    def check_healthy(self, engine, runs):
        for _ in range(runs):
            report = diagnose(engine.pid)
            self.assertEqual([row for row in report["findings"] if row["severity"] != "note"], [])
            self.assertEqual(report["health"], "healthy")

    def serving(self):
        engine = self.engine()
        engine.serve("bdev_malloc_create", "-b", "M0", 64, 512)
        return engine

    def test_an_idle_engine_is_healthy(self):
        self.check_healthy(self.serving(), (RUNS + 1) // 2)

    def test_an_engine_under_load_is_healthy(self):
        engine = self.serving()
        # no keep-alives: on a machine with more work than CPUs a host may miss them
        self.load(engine, "--rw", "mix", "--depth", 32, "--keep-alive", 0, *([] if RUNS >= 50 else ["--rate", 2000]))
        wait_for(lambda: self.ios(engine, "M0") > 1000)
        self.check_healthy(engine, RUNS // 2)


if __name__ == "__main__":
    unittest.main()
