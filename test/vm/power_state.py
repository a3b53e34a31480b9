# SPDX-License-Identifier: BSD-2-Clause
"""What must exist on a disk whose power was cut, and a check of such a disk by this machine: its XFS, and an engine without a guest. As root."""

import collections
import os
import pathlib
import subprocess
import sys
import tempfile

import targets

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "system"))
import harness                      # noqa: E402
from loop_device import NO_LOOP     # noqa: E402

BLOCKS = 2048                       # power_load.c: struct ledger has two versions of each block, `submitted`, then `durable`
HALF = BLOCKS * 8
ZEROES = bytes(2 * HALF + 16)
SHM, SHM_BYTES = "/dev/shm", 2 << 30
CHECK_SECONDS = 300                 # for a program of a check on a busy machine

# A volume or snapshot: its size, and what its blocks have at least, and at most (None: the copying has not ended), as ledgers. The volume "load"
# has what the ledger says.
Thing = collections.namedtuple("Thing", "bytes low high", defaults=(ZEROES, ZEROES))


class Model:
    """What must exist: {volume or volume@snapshot: Thing}; `after`: the same after the change under way, None: no change."""

    def __init__(self):
        self.objects, self.after = {}, None

    def end(self, ledger):
        """The change was made. What it has copied was submitted before now."""
        self.objects, self.after = settle(self.after, ledger), None

    def of_volume(self, name):
        return [key for key in self.objects if key.split("@")[0] == name]

    def allowed(self, ledger):
        """The states that may be found after a cut, which came when the ledger was this."""
        return [settle(state, ledger) for state in (self.objects, self.after) if state is not None]


def settle(objects, ledger):
    return {key: thing._replace(high=ledger) if thing.high is None else thing for key, thing in objects.items()}


def sizes(objects):
    return {key: thing.bytes for key, thing in objects.items()}


def scratch_folder():
    """In memory if there is room, since a check syncs much. Its path is short, as those of its sockets must be."""
    try:
        free = os.statvfs(SHM)
        place = SHM if free.f_bavail * free.f_frsize >= SHM_BYTES else None
    except OSError:
        place = None
    return tempfile.TemporaryDirectory(prefix="fathom-power-", dir=place)


class Checker:
    """Checks images, one at a time."""

    def __init__(self, directory, load, seed):
        self.directory, self.load, self.seed = pathlib.Path(directory), load, seed
        self.folder = self.directory / "mounted"
        self.folder.mkdir()
        self.checked = 0

    def check(self, image, allowed, ledger, chance):
        """The one of the `allowed` states that the image has. AssertionError: it has none of them, or a wrong block. The image is changed."""
        subprocess.run(["mount", "-t", "xfs", "-o", "loop", image, self.folder], check=True)
        engine = None
        try:
            engine = harness.Engine(str(self.directory), "--storage", str(self.folder))
            found = self.objects(engine)
            state = next((state for state in allowed if sizes(state) == found), None)
            if state is None:
                raise AssertionError(f"found {found}, not one of {[sizes(state) for state in allowed]}\n{engine.log_text()}")
            self.check_names(found)
            self.check_content(engine, state, ledger, chance)
            self.checked += 1
            return state
        finally:
            if engine:
                engine.discard()
            # the kernel closes the files of a killed process's io_uring later
            harness.wait_for(lambda: subprocess.run(["umount", self.folder], stderr=subprocess.DEVNULL, check=False).returncode == 0,
                             CHECK_SECONDS)

    def objects(self, engine):
        found = {}
        for volume in engine.rpc("volume_get_volumes", timeout=CHECK_SECONDS):
            if volume["state"] != "ONLINE":
                raise AssertionError(f"{volume}\n{engine.log_text()}")
            found[volume["name"]] = volume["size"]
            for snapshot in engine.rpc("volume_get_snapshots", timeout=CHECK_SECONDS, pool="p1", volume=volume["name"]) if volume["snapshots"] else []:
                found[f"{volume['name']}@{snapshot['name']}"] = snapshot["size"]
        return found

    def check_names(self, found):
        """No other name is in the folder of the volumes."""
        volumes = self.folder / "pools/p1/volumes"
        there = {path.name for path in volumes.iterdir()} | {f"{path.parents[1].name}@{path.name}" for path in volumes.glob("*/snapshots/*")}
        if there != set(found):
            raise AssertionError(f"in the folder: {there}, shown: {found}")

    def check_content(self, engine, state, ledger, chance):
        """All blocks of the volumes, and of one snapshot, of which a clone is made."""
        keys = [key for key in state if "@" not in key]
        snapshots = sorted(key for key in state if "@" in key)
        engine.run_commands("nvmf_create_transport -t tcp\n")
        if snapshots:
            key = chance.choice(snapshots)
            volume, snapshot = key.split("@")
            engine.rpc("volume_clone", timeout=CHECK_SECONDS, pool="p1", volume=volume, snapshot=snapshot, new_name="checked")
            self.check_blocks(engine, "checked", state[key], ledger)
        for key in keys:
            self.check_blocks(engine, key, state[key], ledger)

    def check_blocks(self, engine, volume, thing, ledger):
        nqn, path = f"{targets.NQN}:{volume}", self.directory / "checked-ledger"
        low, high = (ledger, ledger) if volume == "load" else (thing.low, thing.high)
        path.write_bytes(high[:HALF] + low[HALF:])
        engine.run_commands(f"nvmf_create_subsystem {nqn} -a -m 2\nnvmf_subsystem_add_listener {nqn} -t tcp -a 127.0.0.1 -s {engine.port}\n"
                            f"nvmf_subsystem_add_ns {nqn} p1/{volume}\n")
        done = harness.run(self.load, "check", engine.port, nqn, path, self.seed, check=False, timeout=CHECK_SECONDS)
        if done.returncode != 0:
            raise AssertionError(f"{volume}: {done.stdout}{done.stderr}\n{engine.log_text()}")
