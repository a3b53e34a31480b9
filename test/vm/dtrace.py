# SPDX-License-Identifier: BSD-2-Clause
"""Debian sid's DTrace: its programs, run on this machine to build a program with probes, and in the guest to trace it."""

import pathlib
import subprocess

import debian
import kernel

SUITE, PACKAGE = "sid", "dtrace"
PLACE = "/sid"                  # in the guest
ROOT_LIBRARIES = "usr/lib/x86_64-linux-gnu"
PROVIDER = """provider demo {
    probe start(int, char *);
    probe done(int);
};
"""
SOURCE = r"""
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include "demo.h"

/* Fires ten times a second; with a word on its command line it ends after so many letters of that. */
int main(int argc, char **argv)
{
    for (int i = 0; argc < 2 || i < (int)strlen(argv[1]); i++) {
        if (DEMO_START_ENABLED())
            DEMO_START(i, argv[0]);
        DEMO_DONE(i + 7);
        usleep(100000);
    }
    return 0;
}
"""
# prepares the chroot; filesystems in /sys must be mounted before /sys is bound
PREPARE = (f"modprobe cuse && mount -t tracefs t /sys/kernel/tracing && mount -t debugfs d /sys/kernel/debug && "
           f"for d in proc sys dev run tmp; do mkdir -p {PLACE}/$d && mount --rbind /$d {PLACE}/$d; done")


def tree():
    return debian.tree(SUITE, PACKAGE)


def _run(command, directory):
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")


def build_demo(directory):
    """Build a program with the probes of PROVIDER, with the real `dtrace -h` and `dtrace -G`. Return its path."""
    root, directory = tree(), pathlib.Path(directory)
    compiler = kernel.need_program("gcc", "gcc")
    # with its own linker and libraries: they are newer than this machine's
    dtrace = [root / "lib64/ld-linux-x86-64.so.2", "--library-path", root / ROOT_LIBRARIES, root / "usr/sbin/dtrace", "-xnolibs",
              f"-xsyslibdir={root / ROOT_LIBRARIES / 'dtrace'}"]
    (directory / "demo.d").write_text(PROVIDER)
    (directory / "demo.c").write_text(SOURCE)
    _run(dtrace + ["-h", "-s", "demo.d", "-o", "demo.h"], directory)
    _run([compiler, "-O2", "-c", f"-I{root / ROOT_LIBRARIES / 'dtrace/include'}", "demo.c"], directory)
    _run(dtrace + ["-G", "-s", "demo.d", "demo.o", "-o", "probes.o"], directory)
    _run([compiler, "-o", "demo", "demo.o", "probes.o"], directory)
    return directory / "demo"


def command(program):
    """The command line of `dtrace -n PROGRAM` in the guest; PROGRAM must not contain single quotes."""
    return f"chroot {PLACE} /usr/sbin/dtrace -q -n '{program}'"
