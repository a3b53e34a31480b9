# SPDX-License-Identifier: BSD-2-Clause
"""
A Debian with systemd and udev on a disk image, with the installed files of this build, for guests that reboot.

mmdebstrap makes it from Debian's archive, as root. Its kernel is that of the other guests, started by their initramfs (init: fathom.disk).
"""

import os
import pathlib
import re
import shutil
import subprocess

import initramfs
import kernel

SUITE = "bookworm"
PACKAGES = ["systemd-sysv", "udev", "kmod", "nvme-cli", "e2fsprogs", "mount"]
DISK_BYTES = 1 << 30
# agent.c as a service: commands of the test
AGENT_UNIT = """[Unit]
Description=Commands of the test
[Service]
ExecStart=/usr/bin/agent
Restart=always
[Install]
WantedBy=multi-user.target
"""


def _run(*command, **options):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))} failed with status {done.returncode}:\n{done.stdout[-4000:]}")
    return done.stdout


def _packages_of_libraries(programs):
    """The Debian packages of the libraries that programs of this build load."""
    paths = {os.path.realpath(path) for program in programs for path in re.findall(r"=> (/\S+)", subprocess.check_output(["ldd", program], text=True))}
    # dpkg knows /usr/lib files by the path of before the merge of /lib
    known = [re.sub(r"^/usr/lib/", "/lib/", path) if not shutil.which("dpkg") or
             subprocess.run(["dpkg", "-S", path], capture_output=True, check=False).returncode else path for path in sorted(paths)]
    return sorted({line.split(":")[0] for line in _run("dpkg", "-S", *known).splitlines()})


def make(build, place, files):
    """The path of a disk image below the folder `place`. `files`: {path in the guest: text}. kernel.Missing says what this machine lacks."""
    for program, package in (("mmdebstrap", "mmdebstrap"), ("mke2fs", "e2fsprogs"), ("dpkg", "dpkg"), ("meson", "meson")):
        kernel.need_program(program, package)
    if os.geteuid() != 0:
        raise kernel.Missing("making a Debian on a disk takes root")
    linux = kernel.get()
    root, image = os.path.join(place, "root"), os.path.join(place, "disk")
    programs = [os.path.join(build, "bin", name) for name in ("fathom", "fathom-agent")]
    _run("mmdebstrap", "--mode=root", "--variant=minbase", f"--include={','.join(PACKAGES + _packages_of_libraries(programs))}", SUITE, root)
    _run("meson", "install", "-C", build, "--no-rebuild", "--destdir", root)
    shutil.copytree(linux.root / "lib" / "modules" / linux.release, f"{root}/usr/lib/modules/{linux.release}")
    _run("chroot", root, "depmod", linux.release)
    _run("chroot", root, "systemd-sysusers")
    shutil.copy2(initramfs.compile_static("agent.c"), f"{root}/usr/bin/agent")
    for path, text in {"/etc/systemd/system/test-agent.service": AGENT_UNIT, "/etc/modules-load.d/test.conf": "virtio_console\n", **files}.items():
        at = pathlib.Path(root + path)
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_text(text)
    _run("systemctl", "--root", root, "enable", "test-agent.service", "fathom-agent.service")
    _run("mke2fs", "-q", "-t", "ext4", "-d", root, image, f"{DISK_BYTES >> 10}k")
    shutil.rmtree(root)
    return image
