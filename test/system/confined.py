#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
confined [--as-root] TEST.py - run a system test under the strictest conditions: as an ordinary user, with io_uring refused by seccomp,
and with a /dev/shm of 64 MiB. --as-root: as root, with io_uring and the usual
size of /dev/shm; only the namespaces and copies below remain.

A test of test/ward also has process ids of its own: the doctor looks at all processes of a machine.

The test, the engine and the tools all run in mount and network namespaces of their own, with copies of the programs in a folder that
the user may read. So confined tests share no port, shared memory or probe, and run side by side.
"""

import ctypes
import fcntl
import glob
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
USER = 65534  # the user nobody
CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1


def skip_all(reason):
    print("TAP version 13\n1..0 # SKIP " + reason)
    sys.exit(0)


def copy_programs(directory):
    """Copy bin/, scripts/, gdb/, test/system/ and the files that tests import or read. Each keeps its path in the tree."""
    bin_dir = os.environ.get("FATHOM_BIN", os.path.join(TOP, "build", "bin"))
    shutil.copytree(bin_dir, os.path.join(directory, "build", "bin"), ignore=shutil.ignore_patterns("*.p"))
    shutil.copytree(HERE, os.path.join(directory, "test", "system"), ignore=shutil.ignore_patterns("__pycache__"))
    for readers in (os.path.join("test", "unit", *parts) for parts in (("inspect", "trace"), ("control", "agent"), ("control", "client"))):
        os.makedirs(os.path.join(directory, readers))
        for path in glob.glob(os.path.join(TOP, readers, "*.py")):
            shutil.copy(path, os.path.join(directory, readers))
    shutil.copytree(os.path.join(TOP, "test", "ward"), os.path.join(directory, "test", "ward"), ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(os.path.join(TOP, "test", "make-certificates"), os.path.join(directory, "test"))
    os.makedirs(os.path.join(directory, "docs"))
    shutil.copy(os.path.join(TOP, "docs", "runbook.md"), os.path.join(directory, "docs"))
    for name in ("scripts", "gdb", os.path.join("test", "keys"), os.path.join("src", "rpc", "proto"), os.path.join("src", "control", "operation"),
                 os.path.join("src", "control", "fault"), os.path.join("src", "base", "inject"), os.path.join("packaging", "prometheus")):
        shutil.copytree(os.path.join(TOP, name), os.path.join(directory, name), ignore=shutil.ignore_patterns("__pycache__"))
    for folder, _, files in os.walk(directory):
        os.chmod(folder, 0o755)
        for name in files:
            path = os.path.join(folder, name)
            os.chmod(path, os.stat(path).st_mode | 0o444)


def refuse_io_uring():
    """Make io_uring_setup, _enter and _register fail with EPERM, as Docker's default profile does. Children inherit the filter."""
    seccomp = ctypes.CDLL("libseccomp.so.2")
    seccomp.seccomp_init.restype = ctypes.c_void_p
    allow, errno_eperm = 0x7FFF0000, 0x00050000 | 1
    context = ctypes.c_void_p(seccomp.seccomp_init(ctypes.c_uint32(allow)))
    for name in (b"io_uring_setup", b"io_uring_enter", b"io_uring_register"):
        number = seccomp.seccomp_syscall_resolve_name(name)
        if seccomp.seccomp_rule_add(context, ctypes.c_uint32(errno_eperm), number, 0) != 0:
            raise OSError(f"seccomp refuses a rule for {name.decode()}")
    if seccomp.seccomp_load(context) != 0:
        raise OSError("seccomp_load failed")


def enter_namespaces(directory, as_root):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS | CLONE_NEWNET) != 0 or libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    tmpfs = {"/dev/shm": "mode=1777"} if as_root else {"/dev/shm": "size=64m,mode=1777"}
    if as_root:
        tmpfs.update({path: "mode=755" for path in ("/run/dtrace", "/run/fathom")})
    for path, options in tmpfs.items():
        os.makedirs(path, exist_ok=True)
        if libc.mount(b"tmpfs", path.encode(), b"tmpfs", 0, options.encode()) != 0:
            raise OSError(ctypes.get_errno(), f"mount tmpfs on {path}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:     # lo of a new namespace is down
        fcntl.ioctl(probe, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))
    os.chdir(directory)
    if as_root:
        return
    os.setgroups([])
    os.setgid(USER)
    os.setuid(USER)
    refuse_io_uring()


def main():
    as_root, path = sys.argv[1] == "--as-root", sys.argv[-1]
    unittest_tap = os.path.join("scripts", "unittest-tap")
    if os.geteuid() != 0:
        if as_root:
            os.execv(sys.executable, [sys.executable, os.path.join(TOP, unittest_tap), path])     # not confined: meson.build runs these one at a time
        skip_all("root is needed to make a small /dev/shm")
    with tempfile.TemporaryDirectory(prefix="fathom-confined-") as directory:
        copy_programs(directory)
        env = dict(os.environ, FATHOM_BIN=os.path.join(directory, "build", "bin"), PYTHONDONTWRITEBYTECODE="1")
        if not as_root:
            env.update(FATHOM_CONFINED="1", HOME=directory, FATHOM_STUCK_SECONDS="5")
        folder = os.path.basename(os.path.dirname(os.path.abspath(path)))
        command = [sys.executable, os.path.join(directory, unittest_tap), os.path.join(directory, "test", folder, os.path.basename(path))]
        if os.path.realpath(sys.executable).startswith("/root/"):
            command[0] = "/usr/bin/python3"
        if folder == "ward":
            command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *command]
        return subprocess.call(command, env=env, preexec_fn=lambda: enter_namespaces(directory, as_root))


sys.exit(main())
