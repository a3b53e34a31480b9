# SPDX-License-Identifier: BSD-2-Clause
"""
chroots - Debian systems in folders, in which packages are built, installed and removed.

mmdebstrap makes them from Debian's archive. Programs in a chroot have no network but lo, a /proc, a /sys and PIDs of their own, and new /run, /tmp and
/dev/shm, so they leave nothing on the machine.
"""

import os
import re
import shutil
import subprocess

SUITE = "bookworm"
ORDINARY = 10001    # a user ID that no package uses


def field(package, name):
    return subprocess.check_output(["dpkg-deb", "-f", package, name], text=True).strip()


def names(text):
    """The first choice of each dependency in a field, without its version."""
    return [re.match(r"[\w.+-]+", one.strip())[0] for one in text.split(",") if one.strip()]


class Chroot:
    """A Debian system below `root`, with `packages` in it."""

    def __init__(self, root, variant, packages):
        self.root = root
        done = subprocess.run(["mmdebstrap", "--mode=root", f"--variant={variant}", f"--include={','.join(sorted(set(packages)))}", SUITE, root],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise AssertionError(f"mmdebstrap failed with status {done.returncode}:\n{done.stdout[-4000:]}")

    def run(self, script, user=None, timeout=1200, check=True):
        """Run a shell script inside. Return its CompletedProcess with text output."""
        outside = f"""set -e
            mount --make-rprivate /
            ip link set lo up
            cd '{self.root}'
            mount -t proc proc proc
            mount -t sysfs -o ro sysfs sys
            mount --rbind /dev dev
            for place in run tmp dev/shm; do mount -t tmpfs -o mode=1777 none $place; done
            chmod 0755 run
            exec chroot {f'--userspec={user}:{user}' if user else ''} . /bin/sh -e -c "$1"
            """
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", "HOME": "/tmp"}
        done = subprocess.run(["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-c", outside, "sh", script], env=env,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout)
        if check and done.returncode != 0:
            raise AssertionError(f"{script}\nexit status {done.returncode}\n{done.stdout[-6000:]}")
        return done

    def copy(self, path, folder):
        """Copy a file or folder to `folder` inside, for the ordinary user."""
        at = self.root + folder
        os.makedirs(at, exist_ok=True)
        to = os.path.join(at, os.path.basename(path))
        shutil.copytree(path, to, symlinks=True) if os.path.isdir(path) else shutil.copy2(path, to)
        subprocess.run(["chown", "-R", f"{ORDINARY}:{ORDINARY}", at], check=True)
        return os.path.join(folder, os.path.basename(path))

    def files(self):
        """{path: (mode, owner, content of a file below /etc)} of all files that a package could leave, without caches and dpkg's records."""
        found = {}
        for folder, folders, names_here in os.walk(self.root):
            at = folder[len(self.root):] or "/"
            folders[:] = [name for name in folders if os.path.join(at, name) not in
                          ("/proc", "/sys", "/dev", "/run", "/tmp", "/debs", "/var/cache", "/var/log", "/var/lib/dpkg", "/var/lib/apt")]
            for name in folders + names_here:
                path = os.path.join(at, name)
                if path in ("/etc/passwd-", "/etc/group-", "/etc/shadow-", "/etc/gshadow-", "/etc/ld.so.cache"):
                    continue
                state = os.lstat(os.path.join(folder, name))
                content = None
                if path.startswith("/etc/") and os.path.isfile(os.path.join(folder, name)):
                    with open(os.path.join(folder, name), "rb") as file:
                        content = file.read()
                found[path] = (state.st_mode, state.st_uid, state.st_gid, content)
        return found
