# SPDX-License-Identifier: BSD-2-Clause
"""What must exist on a disk whose power was cut, and a check of such a disk by this machine: its XFS, and an engine without a guest. As root."""

import array
import collections
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile

import targets

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "system"))
import harness                      # noqa: E402
from loop_device import NO_LOOP     # noqa: E402

BLOCKS, BLOCK_BYTES = 2048, 4096    # power_load.c: struct ledger
ARRAY = BLOCKS * 8                  # it has arrays of versions: submitted, durable, last, and two of what was undone
ZEROES = bytes(5 * ARRAY + 16)
SHM, SHM_BYTES = "/dev/shm", 2 << 30
CHECK_SECONDS = 300                 # for a program of a check on a busy machine
LEAK_BYTES = 4 << 20                # what XFS and the pool may keep of a life of volumes

# A volume or snapshot: its size, whether it has checksums, and what its blocks have at least, and at most (None: the copying has not ended), as
# ledgers. Both None: it is the volume "load", and has what the ledger says.
Thing = collections.namedtuple("Thing", "bytes checksums low high", defaults=(ZEROES, ZEROES))


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
    return {key: thing._replace(high=ledger) if thing.high is None and thing.low else thing for key, thing in objects.items()}


def shown(objects):
    """What an engine shows of them: the size, and of a volume whether it has checksums."""
    return {key: (thing.bytes, None if "@" in key else thing.checksums) for key, thing in objects.items()}


def ask_objects(volumes, snapshots_of):
    """The same, as an engine shows it: `volumes` are its answer, `snapshots_of(volume)` is another one."""
    found = {}
    for volume in volumes:
        if volume["state"] != "ONLINE":
            raise AssertionError(f"{volume}")
        found[volume["name"]] = volume["size"], volume["checksums"]
        for snapshot in snapshots_of(volume["name"]) if volume["snapshots"] else []:
            found[f"{volume['name']}@{snapshot['name']}"] = snapshot["size"], None
    return found


def data_end(thing, ledger):
    """Where the data of a volume end: (at least, at most) bytes."""
    low, high = thing.low or ledger, thing.high or ledger
    return tuple(max((block + 1 for block, version in enumerate(versions) if version), default=0) * BLOCK_BYTES
                 for versions in (array.array("Q", low[ARRAY:2 * ARRAY]), array.array("Q", high[:ARRAY])))


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
        self.checked, self.adopted = 0, None

    def check(self, image, allowed, ledger, chance):
        """
        The one of the `allowed` states that the image has. AssertionError: it has none of them, or a wrong block. The image is changed.
        If the state has a restored volume "load", `self.adopted` becomes its ledger.
        """
        with self.mounted(image):
            engine = harness.Engine(str(self.directory), "--storage", str(self.folder))
            try:
                found = self.objects(engine)
                states = [state for number, state in enumerate(allowed) if shown(state) == found and state not in allowed[:number]]
                if not states:
                    raise AssertionError(f"found {found}, not one of {[shown(state) for state in allowed]}\n{engine.log_text()}")
                self.check_names(found)
                state = self.check_content(engine, states, ledger, chance)
            finally:
                engine.discard()
            self.ddb("verify")
            self.ddb("verify_data")
            if state["load"].low:
                self.check_restored(state)
            self.checked += 1
            return state

    def check_restored(self, state):
        """The volume "load" has all bytes of the snapshot: nothing has written to it since."""
        folder = self.folder / "pools/p1/volumes/load"
        data = max(folder.glob("data.*"), key=lambda path: int(path.suffix[1:])).read_bytes()   # the file before may be being deleted still
        snapshots = [key.split("@")[1] for key in state if key.startswith("load@") and state[key] == state["load"]]
        if not any(data == (folder / "snapshots" / snapshot / "data").read_bytes() for snapshot in snapshots):
            raise AssertionError(f"the restored volume differs from its snapshot, one of {snapshots}")

    @contextlib.contextmanager
    def mounted(self, image):
        subprocess.run(["mount", "-t", "xfs", "-o", "loop", image, self.folder], check=True)
        try:
            yield
        finally:
            # the kernel closes the files of a killed process's io_uring later
            harness.wait_for(lambda: subprocess.run(["umount", self.folder], stderr=subprocess.DEVNULL, check=False).returncode == 0,
                             CHECK_SECONDS)

    def ddb(self, command):
        """Records, files and space; or data and checksums."""
        done = harness.run(harness.FATHOM, "ddb", self.folder, command, check=False, timeout=CHECK_SECONDS, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise AssertionError(f"ddb {command}: {done.stdout}{done.stderr}")

    def used_bytes(self):
        space = os.statvfs(self.folder)
        return (space.f_blocks - space.f_bfree) * space.f_frsize

    def check_space(self, image, empty):
        """If all volumes are destroyed, the image has as much space as the image `empty`. The first is changed."""
        with self.mounted(empty):
            first = self.used_bytes()
        with self.mounted(image):
            engine = harness.Engine(str(self.directory), "--storage", str(self.folder))
            try:
                for volume in engine.rpc("volume_get_volumes", timeout=CHECK_SECONDS):
                    engine.rpc("volume_destroy", timeout=CHECK_SECONDS, pool="p1", volume=volume["name"], force=True)
                harness.wait_for(lambda: self.used_bytes() <= first + LEAK_BYTES)
            except AssertionError as error:
                raise AssertionError(f"nothing is left, but {self.used_bytes()} bytes are used, at first {first}: {error}") from None
            finally:
                engine.discard()

    def objects(self, engine):
        return ask_objects(engine.rpc("volume_get_volumes", timeout=CHECK_SECONDS),
                           lambda volume: engine.rpc("volume_get_snapshots", timeout=CHECK_SECONDS, pool="p1", volume=volume))

    def check_names(self, found):
        """No other name is in the folder of the volumes."""
        volumes = self.folder / "pools/p1/volumes"
        there = {path.name for path in volumes.iterdir()} | {f"{path.parents[1].name}@{path.name}" for path in volumes.glob("*/snapshots/*")}
        if there != set(found):
            raise AssertionError(f"in the folder: {there}, shown: {found}")

    def check_content(self, engine, states, ledger, chance):
        """All blocks of the volumes, and of one snapshot, of which a clone is made. The one of the states that differ in data that is right."""
        keys = [key for key in states[0] if "@" not in key]
        snapshots = sorted(key for key in states[0] if "@" in key)
        engine.run_commands("nvmf_create_transport -t tcp\n")
        if snapshots:
            key = chance.choice(snapshots)
            volume, snapshot = key.split("@")
            engine.rpc("volume_clone", timeout=CHECK_SECONDS, pool="p1", volume=volume, snapshot=snapshot, new_name="checked")
            self.serve(engine, "checked")
            self.check_blocks(engine, "checked", states[0][key], ledger)
        for key in keys:
            self.serve(engine, key)
        failures = []
        for state in states:
            try:
                for key in keys:
                    self.check_blocks(engine, key, state[key], ledger)
                return state
            except AssertionError as failure:
                failures.append(str(failure))
        raise AssertionError("\n".join(failures))

    def serve(self, engine, volume):
        nqn = f"{targets.NQN}:{volume}"
        engine.run_commands(f"nvmf_create_subsystem {nqn} -a -m 2\nnvmf_subsystem_add_listener {nqn} -t tcp -a 127.0.0.1 -s {engine.port}\n"
                            f"nvmf_subsystem_add_ns {nqn} p1/{volume}\n")

    def check_blocks(self, engine, volume, thing, ledger):
        path, is_restored = self.directory / "checked-ledger", volume == "load" and bool(thing.low)
        low, high = thing.low or ledger, thing.high or ledger
        path.write_bytes(high[:ARRAY] + low[ARRAY:2 * ARRAY] + ledger[2 * ARRAY:3 * ARRAY] + low[3 * ARRAY:5 * ARRAY] + ledger[5 * ARRAY:])
        done = harness.run(self.load, "adopt" if is_restored else "check", engine.port, f"{targets.NQN}:{volume}", path, self.seed, check=False,
                           timeout=CHECK_SECONDS)
        if done.returncode != 0:
            raise AssertionError(f"{volume}: {done.stdout}{done.stderr}\n{engine.log_text()}")
        if is_restored:
            self.adopted = path.read_bytes()
