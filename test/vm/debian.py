# SPDX-License-Identifier: BSD-2-Clause
"""Programs of a later Debian, with their libraries, for a guest: unpacked into the cache, never installed here.

    build/vm-cache/sid-dtrace-2.0.7-3/usr/sbin/dtrace ...

A tree that is in the cache is used without asking apt; remove it to get a newer one.
"""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import kernel

MIRROR = "http://deb.debian.org/debian"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
FETCH_TIMEOUT_S = 300
# Files that programs do not need to run: most of the bytes.
NOT_NEEDED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/lintian", "usr/lib/x86_64-linux-gnu/gconv")
MERGED = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}


def _run(command, **options):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False, **options)
    except subprocess.TimeoutExpired:
        raise kernel.Missing(f"{' '.join(command)} took over {FETCH_TIMEOUT_S} s") from None
    if done.returncode != 0:
        raise kernel.Missing(f"{' '.join(command)}: {done.stderr.strip() or 'failed'}")
    return done.stdout


def _apt_of_its_own(home, suite):
    """An environment in which apt knows only `suite`, and not this machine's packages."""
    for directory in ("lists/partial", "cache/archives/partial", "state", "debs"):
        (home / directory).mkdir(parents=True)
    (home / "status").touch()
    (home / "sources.list").write_text(f"deb [signed-by={KEYRING}] {MIRROR} {suite} main\n")
    (home / "apt.conf").write_text(f"""
Dir::Etc::sourcelist "{home}/sources.list";
Dir::Etc::sourceparts "{home}/state";
Dir::Etc::preferencesparts "{home}/state";
Dir::State "{home}/state";
Dir::State::lists "{home}/lists";
Dir::State::status "{home}/status";
Dir::Cache "{home}/cache";
APT::Sandbox::User "";
APT::Install-Recommends "false";
""")
    return os.environ | {"APT_CONFIG": str(home / "apt.conf")}


def tree(suite, package):
    """The root of a filesystem with `package` of `suite` and its dependencies. Missing if it is not available."""
    cache = kernel.cache_directory()
    there = sorted(cache.glob(f"{suite}-{package}-*"), key=lambda path: path.stat().st_mtime)
    if there:
        return there[-1]
    for program in ("apt-get", "dpkg-deb"):
        kernel.need_program(program, "apt")
    with tempfile.TemporaryDirectory(dir=cache, prefix=".fetch-") as directory:
        home = pathlib.Path(directory)
        apt = _apt_of_its_own(home, suite)
        _run(["apt-get", "-q", "update"], env=apt)
        plan = re.findall(r"^Inst (\S+) \((\S+)", _run(["apt-get", "-s", "install", package], env=apt), re.M)
        if package not in dict(plan):
            raise kernel.Missing(f"{suite} has no package {package}")
        _run(["apt-get", "-q", "download", *dict(plan)], env=apt, cwd=home / "debs")
        root = home / "root"
        for deb in sorted((home / "debs").glob("*.deb")):
            _run(["dpkg-deb", "-x", str(deb), str(root)])
        for name in NOT_NEEDED:
            shutil.rmtree(root / name, ignore_errors=True)
        for name, target in MERGED.items():
            if not (root / name).exists():
                (root / name).symlink_to(target)
        place = cache / f"{suite}-{package}-{dict(plan)[package].replace(':', '_')}"
        os.rename(root, place)
    return place
