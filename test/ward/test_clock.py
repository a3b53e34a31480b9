# SPDX-License-Identifier: BSD-2-Clause
"""
A clock that jumps. The clock of a machine belongs to all who use it, and a time namespace cannot move CLOCK_REALTIME. So a small library in the engine
adds to what the kernel answers; all else is as on a machine whose clock was set.
"""

import os
import shutil
import struct
import subprocess
import unittest

from ward import Ward, diagnose, illness, wait_for

SOURCE = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *added;

__attribute__((constructor)) static void map(void)
{
	const char *path = getenv("WARD_CLOCK");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *at = fd >= 0 ? mmap(NULL, sizeof(*added), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

	added = at == MAP_FAILED ? NULL : at;
}

int clock_gettime(clockid_t clock, struct timespec *to)
{
	int rc = (int)syscall(SYS_clock_gettime, clock, to);

	if (rc == 0 && clock == CLOCK_REALTIME && added)
		to->tv_sec += *added;
	return rc;
}
"""


class Clock(Ward):
    @illness("the clock jumps", "clock_stepped")
    def test_a_clock_that_jumps(self):
        source, library, added = (os.path.join(self.directory, name) for name in ("clock.c", "clock.so", "added"))
        if not shutil.which("cc"):
            raise unittest.SkipTest("cc is missing")
        with open(source, "w", encoding="ascii") as file:
            file.write(SOURCE)
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
        with open(added, "wb") as file:
            file.write(struct.pack("<q", 0))
        # the engine and the doctor are on one machine
        for name, value in (("LD_PRELOAD", library), ("WARD_CLOCK", added)):
            os.environ[name] = value
            self.addCleanup(os.environ.pop, name)
        engine = self.engine()
        engine.serve("bdev_malloc_create", "-b", "M0", 16, 512)
        with open(added, "r+b") as file:
            file.write(struct.pack("<q", 3600))
        # until the engine has noted its clocks again
        wait_for(lambda: any(row["name"] == "clock_stepped" for row in diagnose(engine.pid)["findings"]), pause=1)
        findings = self.check(engine.pid)["findings"]
        self.assertRegex(findings[0]["says"], r"jumped by \+(1 h 0 min|59 min)")
        self.assertEqual(sum(row["name"] == "clock_stepped" for row in findings), 1)


if __name__ == "__main__":
    unittest.main()
