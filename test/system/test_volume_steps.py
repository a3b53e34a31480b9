# SPDX-License-Identifier: BSD-2-Clause
"""
Random steps on the volumes of three engines, with verified I/O, against a model that knows what must exist. As root, on XFS images.

    FATHOM_STEPS=300 FATHOM_SEED=7 FATHOM_BUILD=$PWD/build FATHOM_BIN=$PWD/build/bin python3 test/system/confined.py --as-root test/system/test_volume_steps.py

A step makes a change: it creates, clones, grows, shrinks, renames, publishes, unpublishes, moves, restores or destroys a volume, or takes or destroys
snapshots. Or a host writes and reads; it does so during some moves and changes of the size, too. In every fourth step a process is killed meanwhile:
an engine, the server, its helper, the agent, or the host. Then the change is made or not made, never half; what the host knows to be written is
there, what nothing has written is zeroes, a snapshot never changes, and checksums match. In the end all volumes are destroyed, and all space is free.
"""

import collections
import contextlib
import hashlib
import os
import pathlib
import random
import shutil
import signal
import subprocess
import threading
import time
import unittest

import xfs
from harness import BIN, FATHOM, run, wait_for
from loop_device import NO_LOOP
from server_rig import Refused, ServerTest, read

AGENT = os.path.join(BIN, "fathom-agent")
HOSTS = [f"nqn.2014-08.org.nvmexpress:uuid:{n}1111111-1111-4111-8111-111111111111" for n in (1, 2)]
ENGINES, MIB, SETTLE_SECONDS = 3, 1 << 20, 120
NAMES, SNAPSHOTS = [f"v{n}" for n in range(6)], ["s0", "s1", "s2"]
PART, PARTS_MAX = 4 * MIB, 6        # sizes are whole parts, each with a ledger of its own
STEPS = int(os.environ.get("FATHOM_STEPS", "12"))
STORAGE_FULL, STORAGE_IN_USE = "1259", "1260"
LEAK_BYTES = 4 * MIB                # what XFS and the pools may keep of a life of volumes

# What a part of a volume has. `ledger`: what its blocks may have, a file of `fathom perf`; if there is no such file, nothing is known.
# `is_written`: there are data, so that the volume cannot be made smaller than that.
Part = collections.namedtuple("Part", "ledger is_written", defaults=(False,))
ZEROES = Part(None)


class Volume:
    """What a volume must be. `snapshots`: {name: (parts, digest)}; digest: of the data, None: not yet read. `rank`: None: any."""

    def __init__(self, parts, checksums, rank=None):
        self.parts, self.checksums, self.rank, self.hosts, self.snapshots = tuple(parts), checksums, rank, frozenset(), {}

    def copy(self, **changes):
        volume = Volume(self.parts, self.checksums, self.rank)
        volume.hosts, volume.snapshots = self.hosts, dict(self.snapshots)
        for name, value in changes.items():
            setattr(volume, name, value)
        return volume

    def set_part(self, index, part):
        self.parts = (*self.parts[:index], part, *self.parts[index + 1:])

    def shown(self):
        return self.rank, len(self.parts) * PART, self.checksums, self.hosts, frozenset(self.snapshots)


def shown(volumes):
    return {name: volume.shown() for name, volume in volumes.items()}


def is_known(part):
    return part.ledger is None or os.path.exists(part.ledger)


class Steps(ServerTest):
    def setUp(self):
        super().setUp()
        if NO_LOOP:
            raise unittest.SkipTest(NO_LOOP)
        self.seed = int(os.environ.get("FATHOM_SEED", "0")) or random.randrange(1, 1 << 31)
        self.chance, self.model, self.ledgers, self.kills, self.done, self.number = random.Random(self.seed), {}, 0, {}, {}, 0
        self.last_output, self.changed, self.history = None, [], collections.deque(maxlen=60)
        self.expected, self.loaded = "made", None
        self.rig = self.server(engines=ENGINES, size="16MiB")
        for index in range(ENGINES):
            if not xfs.mount(self, self.rig.mount_path(index)):
                raise unittest.SkipTest("no XFS image can be mounted here")
        self.rig.start()
        self.rig.format()
        self.storage = {engine.rank: pathlib.Path(self.rig.mount_path(index)) for index, engine in enumerate(self.rig.wait_joined())}
        mgmt = self.messages.mgmt
        self.rig.call("/mgmt.MgmtSvc/PoolCreate", mgmt.PoolCreateReq(properties=[mgmt.PoolProperty(number=1, strval="p")], overcommit=True), timeout=60)
        self.agent = None
        self.first_used = self.used_bytes()
        self.start_agent()

    def tearDown(self):
        if getattr(self, "agent", None):
            self.agent.kill()
            self.agent.wait()
        super().tearDown()

    def start_agent(self):
        """Start it, or start it again after a kill, and wait until it is ready."""
        if self.agent:
            self.agent.kill()
            self.agent.wait()
        folder = os.path.join(self.directory, "client")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "hostnqn"), "w") as file:
            file.write(HOSTS[0] + "\n")
        with open(os.path.join(folder, "agent.yml"), "w") as file:
            file.write(f'name: daos_server\naccess_points: ["{self.rig.address}"]\nruntime_dir: {folder}/run\nstate_dir: {folder}/state\n'
                       f"transport_config: {{allow_insecure: true}}\nattach: {{host_nqn_file: {folder}/hostnqn}}\n")
        with open(os.path.join(folder, "log"), "w") as log:
            self.agent = subprocess.Popen([AGENT, "-o", f"{folder}/agent.yml", "--name", f"agent-{os.getpid()}"], stderr=log, stdin=subprocess.DEVNULL)
        wait_for(lambda: "ready after" in read(os.path.join(folder, "log")) or self.agent.poll() is not None)
        self.assertIsNone(self.agent.poll(), read(os.path.join(folder, "log")))

    # ---- calls ----

    def call(self, method, **fields):
        return self.rig.call("/fathom.ControlSvc/" + method, getattr(self.messages.fathom, method + "Req")(**fields), timeout=60)

    def listed(self):
        return {volume.name.partition("/")[2]: volume for volume in self.call("VolumeList").volumes}

    def of_engine(self, rank):
        answer = self.rig.call("/fathom.ControlSvc/Storage", self.messages.store.StorageReq(rank=rank), role="server", timeout=30)
        if answer.error:
            raise Refused("STORAGE", answer.text, {})
        return {volume.name: volume for pool in answer.pools for volume in pool.volumes}

    @staticmethod
    def shown_of(volumes):
        """What a model shows, of [(rank, name, volume)]."""
        return {name: (rank, volume.size_bytes, volume.checksums, frozenset(host.nqn for host in volume.hosts),
                       frozenset(snapshot.name for snapshot in volume.snapshots)) for rank, name, volume in volumes}

    def shown_in(self, listed):
        return self.shown_of([(volume.rank, name, volume) for name, volume in listed.items()])

    def disagreement(self, listed):
        """In what the engines differ from the catalog; None: in nothing."""
        engines = [(rank, name, volume) for rank in range(ENGINES) for name, volume in self.of_engine(rank).items()]
        if len(engines) == len(listed) and self.shown_of(engines) == self.shown_in(listed) and \
                all(volume.uuid == listed[name].uuid and not volume.move for _, name, volume in engines):
            return None
        return f"catalog {self.shown_in(listed)}, engines {[(volume.move, self.shown_of([found])) for found in engines for volume in found[2:]]}"

    def restart_dead(self):
        """Start what has ended. Refusals: something is starting already."""
        if self.rig.process.poll() is not None:
            self.rig.start()
        dead = [member.rank for member in self.rig.members() if member.state != "joined"]
        if dead:
            self.rig.call("/mgmt.MgmtSvc/SystemStart", self.messages.mgmt.SystemStartReq(ranks=",".join(map(str, dead))), timeout=30)
        return not dead

    def settled(self):
        """The volumes, by catalog and by engines, when both agree and nothing is pending."""
        deadline, why = time.monotonic() + SETTLE_SECONDS, "?"
        while time.monotonic() < deadline:
            try:
                if self.restart_dead():
                    listed = self.listed()
                    waiting = [str(v) for v in listed.values() if v.state != "ready" or v.pending or not v.asked_ns]
                    if not waiting:
                        waiting = self.disagreement(listed)
                        if not waiting:
                            return listed
                    why = waiting
                else:
                    why = self.rig.members()
            except (Refused, AssertionError) as refused:
                why = refused
            time.sleep(0.05)
        raise AssertionError(f"seed {self.seed}, step {self.number}: not settled: {why}\n{self.rig.log()[-6000:]}\n{self.rig.engine_logs()[-6000:]}")

    # ---- the host ----

    def new_ledger(self, ledger=None):
        """A copy of a ledger, or the name of one that does not exist yet."""
        self.ledgers += 1
        path = os.path.join(self.directory, f"ledger{self.ledgers}")
        if ledger and os.path.exists(ledger):
            shutil.copy(ledger, path)
        return path

    def copied(self, parts):
        return tuple(part._replace(ledger=self.new_ledger(part.ledger)) if part.ledger else part for part in parts)

    def perf(self, listed, part, *options):
        address, _, port = listed.addresses[0].rpartition(":")
        return subprocess.Popen([FATHOM, "perf", "-a", address, "-s", port, "-n", listed.nqn, "--hostnqn", HOSTS[0], "--range", f"{part * PART}:{PART}",
                                 "--bs", "4k", "--depth", "8", "--quiet", *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def finish(self, process):
        output = process.communicate(timeout=120)[0]
        return process.returncode, output

    def finish_connected(self, listed, part, *options):
        """A run of `fathom perf`. Status 2: it could not connect, because a restarted engine waits for its server's permission."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            status, output = self.finish(self.perf(listed, part, *options))
            if status != 2 or time.monotonic() > deadline:
                return status, output
            time.sleep(0.05)

    def publish(self, name):
        if HOSTS[0] not in self.model[name].hosts:
            self.call("VolumePublish", name=f"p/{name}", host=HOSTS[0])
            self.model[name].hosts |= {HOSTS[0]}
        return self.listed()[name]

    def fail_step(self, text):
        raise AssertionError(f"seed {self.seed}, step {self.number}, after {list(self.history)}: {text}")

    def is_right(self, name, parts):
        """Whether the volume has these data."""
        for index, part in enumerate(parts):
            if part.ledger is None:
                if not self.is_zero(name, index):
                    self.last_output = f"part {index} is not zeroes"
                    return False
            elif os.path.exists(part.ledger):
                status, output = self.finish_connected(self.publish(name), index, "--time", "0", "--verify-state", self.new_ledger(part.ledger))
                if status not in (0, 1):
                    self.fail_step(output)
                self.last_output = f"part {index}: {output}"
                if status:
                    return False
        return True

    def check_volume(self, name):
        if not self.is_right(name, self.model[name].parts):
            self.fail_step(f"{name}: {self.last_output}\n{self.rig.engine_logs()[-6000:]}")
        self.check_snapshots(name)

    def check_all(self):
        for name in list(self.model):
            self.check_volume(name)
        for rank in range(ENGINES):
            self.ddb(rank, "verify_data")

    # ---- the files of the engines ----

    def folder(self, name):
        """The folder of a volume."""
        return self.storage[self.model[name].rank] / "pools/p/volumes" / name

    def is_zero(self, name, index):
        found = list(self.folder(name).glob("data.*"))
        self.assertEqual(len(found), 1, f"seed {self.seed}, step {self.number}")
        with open(found[0], "rb") as file:
            file.seek(index * PART)
            return not file.read(PART).strip(b"\0")

    def check_snapshots(self, name):
        """Each has the data that it had when it was taken; the parts that nothing has written are zeroes."""
        volume = self.model[name]
        for snapshot, (parts, before) in volume.snapshots.items():
            with open(self.folder(name) / "snapshots" / snapshot / "data", "rb") as file:
                data = file.read()
            digest = hashlib.sha256(data).hexdigest()
            if len(data) != len(parts) * PART or digest != (before or digest):
                self.fail_step(f"{name}@{snapshot} has changed: {len(data)} bytes, sha256 {digest}, before {before}")
            if any(part.ledger is None and data[index * PART:(index + 1) * PART].strip(b"\0") for index, part in enumerate(parts)):
                self.fail_step(f"{name}@{snapshot}: a part that nothing has written is not zeroes")
            volume.snapshots[snapshot] = parts, digest

    def ddb(self, rank, command):
        """A check by `fathom ddb`, until it finds nothing: an engine may be deleting files."""
        said = []

        def is_clean():
            done = run(FATHOM, "ddb", self.storage[rank], command, check=False, stdin=subprocess.DEVNULL)
            said.append(done.stdout + done.stderr)
            return done.returncode == 0
        try:
            wait_for(is_clean)
        except AssertionError:
            self.fail_step(f"rank {rank}: {said[-1]}")

    def used_bytes(self):
        spaces = [os.statvfs(self.storage[rank]) for rank in range(ENGINES)]
        return [(space.f_blocks - space.f_bfree) * space.f_frsize for space in spaces]

    # ---- changes: (words, call, model afterwards); self.expected: "made", "refused", "either"; self.loaded: a volume that a host writes ----

    def create(self, after):
        name = self.chance.choice(NAMES)
        if name in after:
            return None
        count, thick, checksums = self.chance.randrange(1, 5), self.chance.random() < 0.3, self.chance.random() < 0.5
        after[name] = Volume([ZEROES] * count, checksums)
        return lambda: self.call("VolumeCreate", name=f"p/{name}", size_bytes=count * PART, thick=thick, checksums=checksums)

    def clone(self, after):
        name, sources = self.chance.choice(NAMES), [(v, s) for v in after for s in after[v].snapshots]
        if name in after or not sources:
            return None
        volume, snapshot = self.chance.choice(sources)
        after[name] = Volume(self.copied(after[volume].snapshots[snapshot][0]), after[volume].checksums, after[volume].rank)
        return lambda: self.call("VolumeCreate", name=f"p/{name}", **{"from": f"p/{volume}@{snapshot}"})

    def with_volume(self, after):
        return self.chance.choice(sorted(after)) if after else None

    def load(self, after, name):
        """A host writes to the volume during the change, in every second case."""
        if self.chance.random() < 0.5:
            return
        self.publish(name)
        part = self.model[name].parts[0]
        for volume in (self.model[name], after[name]):
            volume.hosts |= {HOSTS[0]}
            volume.set_part(0, part if part.ledger else Part(self.new_ledger()))
        after[name].set_part(0, self.model[name].parts[0])
        self.loaded = name

    def grow(self, after):
        name = self.with_volume(after)
        if not name or len(after[name].parts) >= PARTS_MAX:
            return None
        parts = (*after[name].parts, ZEROES)
        after[name] = after[name].copy(parts=parts)
        self.load(after, name)
        return lambda: self.call("VolumeResize", name=f"p/{name}", size_bytes=len(parts) * PART)

    def shrink(self, after):
        """To a size at random: refused if there are data behind the new end."""
        name = self.with_volume(after)
        if not name or len(after[name].parts) < 2:
            return None
        count = self.chance.randrange(1, len(after[name].parts))
        gone = after[name].parts[count:]
        if any(part.is_written for part in gone):
            self.expected = "refused"
        else:
            self.expected = "made" if all(part == ZEROES for part in gone) else "either"
            after[name] = after[name].copy(parts=after[name].parts[:count])
        self.load(after, name)
        return lambda: self.call("VolumeResize", name=f"p/{name}", size_bytes=count * PART, force=True)

    def move(self, after):
        name = self.with_volume(after)
        if not name:
            return None
        rank = self.chance.choice([rank for rank in range(ENGINES) if rank != after[name].rank])
        after[name] = after[name].copy(rank=rank)
        self.load(after, name)
        return lambda: self.call("VolumeMove", name=f"p/{name}", rank=rank)

    def rename(self, after):
        name, to = self.with_volume(after), self.chance.choice(NAMES)
        if not name or to in after:
            return None
        after[to] = after.pop(name)
        return lambda: self.call("VolumeRename", name=f"p/{name}", new_name=to)

    def publish_change(self, after):
        name, host = self.with_volume(after), self.chance.choice(HOSTS)
        if not name:
            return None
        is_there = host in after[name].hosts
        after[name] = after[name].copy(hosts=after[name].hosts ^ {host})
        if is_there:
            return lambda: self.call("VolumeUnpublish", name=f"p/{name}", host=host, force=True)
        return lambda: self.call("VolumePublish", name=f"p/{name}", host=host)

    def destroy(self, after):
        name = self.with_volume(after)
        if not name:
            return None
        del after[name]
        return lambda: self.call("VolumeDestroy", name=f"p/{name}", force=True)

    def snapshot(self, after):
        first, snapshot = self.with_volume(after), self.chance.choice(SNAPSHOTS)
        if not first:
            return None
        names = [name for name in sorted(after) if after[name].rank == after[first].rank and (name == first or self.chance.random() < 0.5)]
        if any(snapshot in after[name].snapshots for name in names):
            return None
        for name in names:
            after[name] = after[name].copy(snapshots={**after[name].snapshots, snapshot: (self.copied(after[name].parts), None)})
        return lambda: self.call("SnapshotCreate", names=[f"p/{name}@{snapshot}" for name in names])

    def a_snapshot(self, after):
        found = [(name, snapshot) for name in sorted(after) for snapshot in sorted(after[name].snapshots)]
        return self.chance.choice(found) if found else (None, None)

    def destroy_snapshot(self, after):
        name, snapshot = self.a_snapshot(after)
        if not name:
            return None
        after[name] = after[name].copy(snapshots={key: value for key, value in after[name].snapshots.items() if key != snapshot})
        return lambda: self.call("SnapshotDestroy", name=f"p/{name}@{snapshot}")

    def restore(self, after):
        name, snapshot = self.a_snapshot(after)
        if not name:
            return None
        after[name] = after[name].copy(parts=self.copied(after[name].snapshots[snapshot][0]))
        return lambda: self.call("SnapshotRestore", name=f"p/{name}@{snapshot}", force=True)

    # ---- steps ----

    def kill_something(self):
        victim = self.chance.choice(["engine", "engine", "server", "helper", "agent"])
        self.kills[victim] = self.kills.get(victim, 0) + 1
        time.sleep(self.chance.random() ** 2 * 0.2)
        if victim == "engine":
            pids = sorted(self.rig.running_engine_pids())
            os.kill(self.chance.choice(pids), signal.SIGKILL)
        elif victim == "server":
            self.rig.process.kill()
            self.rig.process.wait()
            self.rig.close_channel()
        elif victim == "helper":
            for pid in self.helper_pids():
                with contextlib.suppress(ProcessLookupError):   # it has ended meanwhile
                    os.kill(pid, signal.SIGKILL)
        else:
            self.start_agent()

    def helper_pids(self):
        done = subprocess.run(["ps", "-o", "pid=,comm=", "--ppid", str(self.rig.process.pid)], stdout=subprocess.PIPE, text=True, check=False)
        return [int(line.split()[0]) for line in done.stdout.splitlines() if "fathom-helper" in line]

    def change(self, kind, is_killing):
        after = {name: volume.copy() for name, volume in self.model.items()}
        self.expected, self.loaded = "made", None
        make = getattr(self, kind)(after)
        if not make:
            return False
        outcome, self.changed = [], sorted(name for name in {*after, *self.model} if name not in after or name not in self.model or
                                           after[name].shown() != self.model[name].shown() or after[name].parts != self.model[name].parts)

        def run_change():
            try:
                make()
                outcome.append(None)
            except (Refused, ValueError, AttributeError) as refused:    # the last two: the channel was closed meanwhile
                outcome.append(refused)
        load = self.start_load() if self.loaded else None
        thread = threading.Thread(target=run_change)
        thread.start()
        if is_killing:
            self.kill_something()
        thread.join(120)
        self.assertFalse(thread.is_alive())
        if not is_killing:
            self.check_outcome(kind, outcome[0])
        elif self.expected == "refused" and outcome[0] is None:
            self.fail_step(f"{kind}: it must have been refused: {shown(self.model)}")
        self.adopt(kind, after, made=outcome[0] is None)
        if load:
            self.finish_load(load, must_end_well=kind != "move" and not is_killing)
        if load or is_killing:
            for name in [name for name in self.model if name == self.loaded or name in self.changed]:
                self.check_volume(name)
        return True

    def check_outcome(self, kind, refused):
        """Of a change during which nothing was killed."""
        code = refused.fault.get("Code") if isinstance(refused, Refused) else None
        if self.expected == "refused" or (refused and self.expected == "either"):
            is_expected = code == STORAGE_IN_USE
        elif kind == "restore":
            is_expected = not refused or "too long" in getattr(refused, "text", "")     # a busy disk: the engine gives it up
        else:
            is_expected = not refused or (kind == "move" and code == STORAGE_FULL)
        if not is_expected:
            self.fail_step(f"{kind}, expected {self.expected}: {refused}\n{shown(self.model)}")

    def start_load(self):
        """Write to the loaded volume's first part, and return when the host is connected."""
        listed = self.publish(self.loaded)
        self.assertEqual(self.finish_connected(listed, 0, "--rw", "read", "--count", "1")[0], 0)
        process = self.perf(listed, 0, "--rw", "mix", "--read-percent", "30", "--count", "2000", "--rate", "3000", "--verify-state",
                            self.model[self.loaded].parts[0].ledger)
        wait_for(lambda: process.poll() is not None or any(host.connections for host in self.listed()[self.loaded].hosts))
        return process

    def finish_load(self, process, must_end_well):
        """The volume may have another name or rank meanwhile; its ledger is a file of both models."""
        status, output = self.finish(process)
        if must_end_well and status != 0:
            self.fail_step(f"{self.loaded}: {output}")
        if "expected generation" in output:
            self.fail_step(f"{self.loaded}: {output}")
        part = self.model[self.loaded].parts[0]
        self.model[self.loaded].set_part(0, part._replace(is_written=part.is_written or status == 0))

    def adopt(self, kind, after, made):
        found = self.shown_in(self.settled())
        self.history.append(f"{self.number} {kind} {' '.join(self.changed)} {'made' if made else 'unknown'}")
        for name, volume in after.items():
            if volume.rank is None and name in found:
                volume.rank = found[name][0]
        text = f"seed {self.seed}, after {self.history}:\nbefore {shown(self.model)}\nafter {shown(after)}\nfound {found}"
        if made or found == shown(after):
            self.assertEqual(found, shown(after), text)
        else:
            self.assertEqual(found, shown(self.model), text)
            return
        if kind == "restore" and not made and found == shown(self.model):
            self.adopt_restored(after)
        self.model = after
        if kind == "move":
            for name in after:
                self.check_snapshots(name)

    def adopt_restored(self, after):
        """Names and sizes do not tell whether a restore was made; the content does. What is known of either is known."""
        name = next((name for name in after if after[name].parts != self.model[name].parts), None)
        if not name:
            return
        before, restored = self.model[name].parts, after[name].parts
        is_restored, said = self.is_right(name, restored), self.last_output
        is_before = self.is_right(name, before)
        if not is_restored and not is_before:
            self.fail_step(f"{name} is neither restored:\n{said}\nnor as it was:\n{self.last_output}")
        if not is_restored:
            after[name].parts = before
        elif is_before:
            after[name].parts = tuple(new if is_known(new) else old for old, new in zip(before, restored))
        after[name].hosts = self.model[name].hosts     # to look at it, it was published

    def use(self, is_killing):
        """A host writes and reads; it may be killed, or something else."""
        name = self.with_volume(self.model)
        if not name:
            return False
        volume, listed = self.model[name], self.publish(name)
        index = self.chance.choice((0, self.chance.randrange(len(volume.parts))))
        before = volume.parts[index]
        self.assertEqual(self.finish_connected(listed, index, "--rw", "read", "--count", "1")[0], 0)
        kills_host = is_killing and self.chance.random() < 0.3
        # a killed host cannot tell what it has written
        ledger = self.new_ledger() if kills_host or not before.ledger else before.ledger
        process = self.perf(listed, index, "--rw", "mix", "--read-percent", "30", "--count", str(self.chance.randrange(200, 2000)), "--verify-state", ledger)
        if kills_host:
            self.kills["host"] = self.kills.get("host", 0) + 1
            time.sleep(self.chance.random() * 0.3)
            process.kill()
        elif is_killing:
            self.kill_something()
        status, output = self.finish(process)
        if not is_killing and status != 0:
            self.fail_step(output)
        elif not kills_host and "expected generation" in output:
            self.fail_step(output)
        if kills_host or status != 2:   # 2: it could not connect, and wrote nothing
            volume.set_part(index, Part(ledger, before.is_written or status == 0))
        self.history.append(f"{self.number} use {name} {index} status {status}")
        self.settled()
        self.check_volume(name)
        return True

    def check_space(self):
        """After the volumes are destroyed, their space is free."""
        for rank in range(ENGINES):
            self.ddb(rank, "verify")
        for name in list(self.model):
            self.call("VolumeDestroy", name=f"p/{name}", force=True)
        self.model = {}
        self.assertEqual(self.settled(), {})
        try:
            wait_for(lambda: all(now <= first + LEAK_BYTES for now, first in zip(self.used_bytes(), self.first_used)), SETTLE_SECONDS)
        except AssertionError:
            self.fail_step(f"nothing is left, but {self.used_bytes()} bytes are used; at first: {self.first_used}")

    def test_random_steps_with_kills_leave_what_the_model_says(self):
        kinds = ["create", "create", "create", "clone", "clone", "grow", "shrink", "shrink", "move", "move", "rename", "publish_change", "destroy", "snapshot",
                 "snapshot", "destroy_snapshot", "restore", "restore", "use", "use", "use"]
        while self.number < STEPS:
            kind, is_killing = self.chance.choice(kinds), self.chance.random() < 0.25
            if not (self.use(is_killing) if kind == "use" else self.change(kind, is_killing)):
                continue
            self.done[kind] = self.done.get(kind, 0) + 1
            self.number += 1
            if self.number % 25 == 0:
                self.check_all()
        self.check_all()
        self.assertEqual(self.shown_in(self.settled()), shown(self.model))
        self.check_space()
        print(f"# seed {self.seed}: {self.number} steps {self.done}, kills {self.kills}", flush=True)


if __name__ == "__main__":
    unittest.main()
