# SPDX-License-Identifier: BSD-2-Clause
"""An XFS image with reflinks, on a loop device, for tests that run as root in mounts of their own."""

import os
import shutil
import subprocess


def make(image, megabytes=512):
    with open(image, "wb") as file:
        file.truncate(megabytes << 20)
    subprocess.run(["mkfs.xfs", "-q", "-m", "reflink=1,rmapbt=0", image], check=True, stdout=subprocess.DEVNULL)


def mount(case, folder, megabytes=512):
    """Mount a new image at `folder` until the test ends. False: this process may not, or there is no mkfs.xfs."""
    if os.geteuid() != 0 or not shutil.which("mkfs.xfs") or not os.path.exists("/dev/loop-control"):
        return False
    image = folder + ".img"
    make(image, megabytes)
    if subprocess.run(["mount", "-o", "loop", image, folder], stderr=subprocess.DEVNULL).returncode != 0:
        return False
    case.addCleanup(subprocess.run, ["umount", "-l", folder], check=True)
    return True
