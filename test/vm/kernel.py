# SPDX-License-Identifier: BSD-2-Clause
"""The guest's kernel: Debian's own cloud kernel, fetched by apt, unpacked into the cache, never installed.

    build/vm-cache/linux-image-<release>_<version>/boot/vmlinuz-<release>
                                                  /lib/modules/<release>/...

A kernel that is in the cache is used without asking apt: the same runs compare, and offline machines can test.
Remove build/vm-cache to get a newer one.
"""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

META_PACKAGE = "linux-image-cloud-amd64"
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("FATHOM_VM_CACHE", REPOSITORY / "build" / "vm-cache"))
FETCH_TIMEOUT_S = 120


class Missing(Exception):
    """Something is missing on this machine: the tests are skipped with the text, which names it."""


def need_program(name, package):
    """The path of a program; Missing, with its Debian package, if it is not installed."""
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if path is None:
        raise Missing(f"{name} not found (Debian package {package})")
    return path


class Kernel:
    """An unpacked kernel package."""

    def __init__(self, root):
        self.root = root
        images = sorted((root / "boot").glob("vmlinuz-*"))
        if len(images) != 1:
            raise Missing(f"{root} holds {len(images)} kernels, expected one: remove it")
        self.image = images[0]
        self.release = images[0].name.removeprefix("vmlinuz-")
        modules = root / "lib" / "modules" / self.release
        self._files = {_module_name(path.stem): path for path in modules.rglob("*.ko")}
        self._builtin = {_module_name(pathlib.Path(line).stem)
                         for line in (modules / "modules.builtin").read_text().split()}

    def has_module(self, name):
        name = _module_name(name)
        return name in self._builtin or name in self._files

    def module_closure(self, names):
        """{module: (file, [modules it needs])} for `names` and all they need, without those built into the kernel.

        The package has no modules.dep (its postinst would run depmod), so this reads what depmod reads.
        """
        closure = {}
        wanted = [_module_name(name) for name in names]
        while wanted:
            name = wanted.pop()
            if name in closure or name in self._builtin:
                continue
            if name not in self._files:
                raise Missing(f"kernel {self.release} has no module {name}")
            needs = _module_needs(self._files[name])
            closure[name] = (self._files[name], needs)
            wanted += needs
        return closure


def _module_name(text):
    return text.replace("-", "_")


def _module_needs(path):
    match = re.search(rb"\0depends=([^\0]*)\0", path.read_bytes())
    names = match.group(1).decode().split(",") if match else []
    return [_module_name(name) for name in names if name]


def _cached():
    packages = [path for path in CACHE.glob("linux-image-*_*") if (path / "boot").is_dir()]
    return max(packages, key=lambda path: path.stat().st_mtime, default=None)


def _run(command, **options):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False, **options)
    except subprocess.TimeoutExpired:
        raise Missing(f"no guest kernel: {' '.join(command)} took over {FETCH_TIMEOUT_S} s") from None
    if done.returncode != 0:
        raise Missing(f"no guest kernel: {' '.join(command)}: {done.stderr.strip() or 'failed'} (apt-get update?)")
    return done.stdout


def _fetch():
    for program in ("apt-cache", "apt-get"):
        need_program(program, "apt")
    need_program("dpkg-deb", "dpkg")
    depends = _run(["apt-cache", "depends", META_PACKAGE])
    match = re.search(r"Depends: (linux-image-[0-9]\S+)", depends)
    if match is None:
        raise Missing(f"no guest kernel: apt knows no {META_PACKAGE} (apt-get update?)")
    with tempfile.TemporaryDirectory(dir=CACHE, prefix=".fetch-") as directory:
        _run(["apt-get", "download", match.group(1)], cwd=directory)
        package = next(pathlib.Path(directory).glob("*.deb"))
        name, version, _ = package.stem.split("_")
        unpacked = pathlib.Path(directory) / "unpacked"
        _run(["dpkg-deb", "-x", str(package), str(unpacked)])
        place = CACHE / f"{name}_{version}"
        try:
            os.rename(unpacked, place)      # atomic, also if another process fetches at the same time
        except OSError:
            if not place.is_dir():
                raise
    return place


def cache_directory():
    """build/vm-cache, created if missing, and ignored by git."""
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE / ".gitignore").write_text("*\n")
    return CACHE


def get():
    """The Kernel to boot, cached or fetched. Missing if it is not available."""
    cache_directory()
    return Kernel(_cached() or _fetch())
