# SPDX-License-Identifier: BSD-2-Clause
"""The guest's whole filesystem: an initramfs of busybox, some Debian programs with their libraries, modules, our agent.

It is an uncompressed cpio archive: QEMU loads 30 MB in no time, an emulated CPU would unpack them for seconds.
The archive is a pure function of its content (no times, no inode numbers of the host), so its hash names it.
"""

import graphlib
import hashlib
import os
import pathlib
import re
import stat
import subprocess

import kernel

HERE = pathlib.Path(__file__).resolve().parent
KEEP = 4                    # archives kept in the cache: a few, since two trees may use it in turn
KEEP_WITH_PROGRAMS = 1      # they may be large

# program: its Debian package
PROGRAMS = {"nvme": "nvme-cli", "mkfs.ext4": "e2fsprogs", "e2fsck": "e2fsprogs"}

# loaded by init, in this order
BOOT_MODULES = ["virtio_pci", "virtio_console", "virtio_net", "crc32c_intel", "nvme_tcp"]
# available for `modprobe` if the kernel has them: its own target, block devices for tests of verify_io, CUSE, disks with XFS and ext4
OPTIONAL_MODULES = ["nvmet", "nvmet_tcp", "brd", "null_blk", "cuse", "virtio_blk", "xfs", "ext4"]

DIRECTORIES = ["bin", "sbin", "usr", "usr/bin", "usr/sbin", "dev", "proc", "sys", "tmp", "run", "etc", "etc/nvme",
               "mnt", "root", "lib", "lib64", "lib/modules", "sys/kernel"]


class Archive:
    """A cpio archive of the "newc" kind, in memory."""

    def __init__(self):
        self._entries = {}

    def add(self, path, mode, data=b"", device=(0, 0)):
        path = str(path).lstrip("/")
        for parent in reversed(pathlib.PurePath(path).parents[:-1]):
            self._entries.setdefault(str(parent), (stat.S_IFDIR | 0o755, b"", (0, 0)))
        self._entries[path] = (mode, data, device)

    def add_file(self, path, source, mode=0o755):
        self.add(path, stat.S_IFREG | mode, pathlib.Path(source).read_bytes())

    def add_tree(self, place, root):
        """Add a directory with its content."""
        for path in sorted(pathlib.Path(root).rglob("*")):
            name = f"{place}/{path.relative_to(root)}"
            if path.is_symlink():
                self.add(name, stat.S_IFLNK | 0o777, os.readlink(path).encode())
            elif path.is_dir():
                self.add(name, stat.S_IFDIR | 0o755)
            else:
                self.add_file(name, path, stat.S_IMODE(path.stat().st_mode))

    def pack(self):
        parts = []
        for inode, (path, (mode, data, device)) in enumerate(sorted(self._entries.items()), start=1):
            parts += _record(path, inode, mode, data, device)
        parts += _record("TRAILER!!!", 0, 0, b"", (0, 0))
        return b"".join(parts)


def _record(path, inode, mode, data, device):
    name = path.encode() + b"\0"
    links = 2 if stat.S_ISDIR(mode) else 1
    fields = [inode, mode, 0, 0, links, 0, len(data), 0, 0, device[0], device[1], len(name), 0]
    header = b"070701" + b"".join(b"%08X" % field for field in fields) + name
    return [header, bytes(-len(header) % 4), data, bytes(-len(data) % 4)]


def _libraries(program):
    """The shared libraries of a program, as found by the dynamic linker."""
    done = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    if "not a dynamic executable" in done.stderr + done.stdout:
        return []
    if done.returncode != 0:
        raise kernel.Missing(f"ldd {program}: {done.stderr.strip()}")
    return re.findall(r"(/\S+) \(0x", done.stdout)


def compile_static(name, options=()):
    """A static program of test/vm, compiled into the cache; the hash of its source and options names it."""
    source = HERE / name
    compiler = kernel.need_program("gcc", "gcc")
    digest = hashlib.sha256(source.read_bytes() + " ".join(options).encode()).hexdigest()[:16]
    binary = kernel.cache_directory() / f"{source.stem}-{digest}"
    if not binary.exists():
        unfinished = binary.with_name(f".{binary.name}-{os.getpid()}")
        done = subprocess.run([compiler, "-static", "-O2", "-g0", "-std=gnu11", "-Wall", "-Wextra", "-Wtype-limits",
                               "-Werror", *options, "-o", unfinished, source], capture_output=True, text=True, check=False)
        if "cannot find -lc" in done.stderr:
            raise kernel.Missing("static libc not found (Debian package libc6-dev)")
        if done.returncode != 0:
            raise RuntimeError(f"{source.name} does not compile:\n{done.stderr}")
        os.rename(unfinished, binary)
    return binary


def _add_modules(archive, linux):
    optional = [name for name in OPTIONAL_MODULES if linux.has_module(name)]
    closure = linux.module_closure(BOOT_MODULES + optional)
    home = f"lib/modules/{linux.release}"
    lines = []
    for name, (path, _) in sorted(closure.items()):
        archive.add_file(f"{home}/{name}.ko", path, 0o644)
        # modprobe needs all dependencies of a module in one line, direct ones first
        below = [f"{other}.ko" for other in _needs_in_order(closure, name)]
        lines.append(f"{name}.ko: {' '.join(below)}")
    archive.add(f"{home}/modules.dep", stat.S_IFREG | 0o644, "\n".join(lines + [""]).encode())
    archive.add("etc/modules", stat.S_IFREG | 0o644, "\n".join(BOOT_MODULES + [""]).encode())


def _needs_in_order(closure, name):
    below = {}
    wanted = [name]
    while wanted:
        module = wanted.pop()
        if module not in below:
            below[module] = [other for other in closure[module][1] if other in closure]
            wanted += below[module]
    deepest_first = [module for module in graphlib.TopologicalSorter(below).static_order() if module != name]
    return deepest_first[::-1]


def _add_program(archive, place, path):
    archive.add_file(place, path)
    for library in _libraries(path):
        archive.add_file(library, library)


def _fill(archive, linux, programs, trees):
    for directory in DIRECTORIES:
        archive.add(directory, stat.S_IFDIR | 0o755)
    archive.add("tmp", stat.S_IFDIR | 0o1777)
    archive.add("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))     # init's stdio, before devtmpfs is mounted
    archive.add_file("init", HERE / "init")
    archive.add_file("bin/busybox", kernel.need_program("busybox", "busybox-static"))
    archive.add("bin/sh", stat.S_IFLNK | 0o777, b"busybox")
    for program, package in PROGRAMS.items():
        _add_program(archive, f"usr/sbin/{program}", kernel.need_program(program, package))
    for path in programs:
        _add_program(archive, f"usr/bin/{pathlib.Path(path).name}", path)
    for place, root in trees.items():
        archive.add_tree(place, root)
    if os.path.exists("/etc/mke2fs.conf"):
        archive.add_file("etc/mke2fs.conf", "/etc/mke2fs.conf", 0o644)
    for source in ("agent.c", "verify_io.c"):
        archive.add_file(f"usr/bin/{pathlib.Path(source).stem}", compile_static(source))
    _add_modules(archive, linux)


def build(linux, programs=(), trees=None):
    """The path of the initramfs for a Kernel, in the cache. Missing if a part of it is not on this machine.

    `programs`: further ones of this machine, by path; they are in the guest's /usr/bin. `trees`: {place in the guest:
    directory of this machine}.
    """
    archive = Archive()
    _fill(archive, linux, programs, trees or {})
    data = archive.pack()
    kind = "initramfs-with" if programs or trees else "initramfs"
    path = kernel.cache_directory() / f"{kind}-{hashlib.sha256(data).hexdigest()[:16]}.cpio"
    if path.exists():
        path.touch()
    else:
        unfinished = path.with_name(f".{path.name}-{os.getpid()}")
        unfinished.write_bytes(data)
        os.rename(unfinished, path)
    others = sorted(path.parent.glob(f"{kind}-[0-9a-f]*.cpio"), key=lambda p: p.stat().st_mtime)
    for old in others[:-KEEP_WITH_PROGRAMS if programs or trees else -KEEP]:
        old.unlink(missing_ok=True)
    return path
