# SPDX-License-Identifier: BSD-2-Clause
"""Loop devices for tests, and the reason to skip where a machine has none."""

import contextlib
import ctypes
import fcntl
import os
import shutil
import subprocess

from harness import run

NOBODY = 65534
LOOP_CTL_REMOVE = 0x4C81    # <linux/loop.h>


CLONE_NEWNS, MS_PRIVATE, MS_REC = 0x20000, 1 << 18, 1 << 14


def begin_mount_namespace():
    """
    Mounts of its own for this process. A test that starts a mount namespace meanwhile would copy our mounts, and its copies
    would keep our devices in use after we unmounted them.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() == 0 and libc.unshare(CLONE_NEWNS) == 0 and libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) != 0:
        raise OSError(ctypes.get_errno(), "mount")


def attach(path, own=False):
    """A loop device of that file. `own`: its number is beyond those that LOOP_CTL_GET_FREE gives out, so no other process gets it after its release."""
    device = f"/dev/loop{64 + os.getpid() % 900}"
    if own and run("losetup", device, path, check=False).returncode == 0:
        return device
    return run("losetup", "-f", "--show", path).stdout.strip()


def is_attached(device, path):
    try:
        with open(f"/sys/block/{os.path.basename(device)}/loop/backing_file") as file:
            return file.read().strip().removesuffix(" (deleted)") == path
    except OSError:
        return False


def detach(device, path):
    """Detach the device if it still has the file `path`; another test may have its number by now."""
    if is_attached(device, path):
        subprocess.run(["losetup", "-d", device], stderr=subprocess.DEVNULL, check=False)
    number = int(device.removeprefix("/dev/loop"))
    if number >= 64:
        with open("/dev/loop-control") as control, contextlib.suppress(OSError):    # EBUSY: a process still has it open
            fcntl.ioctl(control, LOOP_CTL_REMOVE, number)


def no_loop_reason():
    if os.geteuid() != 0:
        return "loop devices need root"
    if not os.path.exists("/dev/loop-control"):
        return "there is no /dev/loop-control"
    if not shutil.which("mkfs.xfs", path="/usr/sbin:/sbin"):
        return "mkfs.xfs is missing"
    subprocess.run(["modprobe", "xfs"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False) if shutil.which("modprobe") else None
    if "xfs" not in open("/proc/filesystems").read().split():
        return "the kernel has no XFS"
    return None

NO_LOOP = no_loop_reason()
if not NO_LOOP:
    begin_mount_namespace()
