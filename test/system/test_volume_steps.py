# SPDX-License-Identifier: BSD-2-Clause
"""
Random steps on the volumes of three engines, with verified I/O, against a model that knows what must exist. As root, on XFS images.

    FATHOM_STEPS=300 FATHOM_SEED=7 FATHOM_BUILD=$PWD/build FATHOM_BIN=$PWD/build/bin python3 test/system/confined.py --as-root test/system/test_volume_steps.py

A step makes a change: it creates, clones, resizes, renames, publishes, unpublishes, restores or destroys a volume, or takes or destroys snapshots.
Or a host writes and reads. In every fourth step a process is killed meanwhile: an engine, the server, its helper, the agent, or the host. Then
the change is made or not made, never half; what the host knows to be written is there.
"""

import collections
import contextlib
import os
import random
import shutil
import signal
import subprocess
import threading
import time
import unittest

import xfs
from harness import BIN, FATHOM, wait_for
from loop_device import NO_LOOP
from server_rig import Refused, ServerTest, read

AGENT = os.path.join(BIN, "fathom-agent")
HOSTS = [f"nqn.2014-08.org.nvmexpress:uuid:{n}1111111-1111-4111-8111-111111111111" for n in (1, 2)]
ENGINES, MIB, SETTLE_SECONDS = 3, 1 << 20, 120
NAMES, SNAPSHOTS, SIZE_MAX = [f"v{n}" for n in range(6)], ["s0", "s1", "s2"], 24 * MIB
IO_BYTES = "4M"        # of each volume, from its start: a volume may grow, its ledger has one size
STEPS = int(os.environ.get("FATHOM_STEPS", "12"))


class Volume:
    """What a volume must be. `ledger`: what its blocks may have, a file of `fathom perf`, None: nothing is known."""

    def __init__(self, size, hosts=(), snapshots=None, ledger=None):
        self.size, self.hosts, self.snapshots, self.ledger = size, frozenset(hosts), dict(snapshots or {}), ledger

    def copy(self, **changes):
        return Volume(**{"size": self.size, "hosts": self.hosts, "snapshots": self.snapshots, "ledger": self.ledger, **changes})

    def shown(self):
        return self.size, self.hosts, frozenset(self.snapshots)


def shown(volumes):
    return {name: volume.shown() for name, volume in volumes.items()}


class Steps(ServerTest):
    def setUp(self):
        super().setUp()
        if NO_LOOP:
            raise unittest.SkipTest(NO_LOOP)
        self.seed = int(os.environ.get("FATHOM_SEED", "0")) or random.randrange(1, 1 << 31)
        self.chance, self.model, self.ledgers, self.kills, self.done, self.number = random.Random(self.seed), {}, 0, {}, {}, 0
        self.last_output, self.history = None, collections.deque(maxlen=8)
        self.rig = self.server(engines=ENGINES, size="16MiB")
        for index in range(ENGINES):
            if not xfs.mount(self, self.rig.mount_path(index)):
                raise unittest.SkipTest("no XFS image can be mounted here")
        self.rig.start()
        self.rig.format()
        self.rig.wait_joined()
        mgmt = self.messages.mgmt
        self.rig.call("/mgmt.MgmtSvc/PoolCreate", mgmt.PoolCreateReq(properties=[mgmt.PoolProperty(number=1, strval="p")], overcommit=True), timeout=60)
        self.agent = None
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
        return {name: (volume.size_bytes, frozenset(host.nqn for host in volume.hosts), frozenset(snapshot.name for snapshot in volume.snapshots))
                for name, volume in volumes.items()}

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
                        engines = {name: volume for rank in range(ENGINES) for name, volume in self.of_engine(rank).items()}
                        if self.shown_of(engines) == self.shown_of(listed) and {n: v.uuid for n, v in engines.items()} == {n: v.uuid for n, v in listed.items()}:
                            return listed
                        waiting = [f"catalog {self.shown_of(listed)}, engines {self.shown_of(engines)}"]
                    why = waiting
                else:
                    why = self.rig.members()
            except (Refused, AssertionError) as refused:
                why = refused
            time.sleep(0.05)
        raise AssertionError(f"seed {self.seed}, step {self.number}: not settled: {why}\n{self.rig.log()[-6000:]}\n{self.rig.engine_logs()[-6000:]}")

    # ---- the host ----

    def new_ledger(self, ledger):
        """A copy of a ledger, or the name of one that does not exist yet."""
        self.ledgers += 1
        path = os.path.join(self.directory, f"ledger{self.ledgers}")
        if ledger and os.path.exists(ledger):
            shutil.copy(ledger, path)
        return path

    def perf(self, listed, *options):
        address, _, port = listed.addresses[0].rpartition(":")
        return subprocess.Popen([FATHOM, "perf", "-a", address, "-s", port, "-n", listed.nqn, "--hostnqn", HOSTS[0], "--range", IO_BYTES, "--bs", "4k",
                                 "--depth", "8", "--quiet", *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def finish(self, process):
        output = process.communicate(timeout=120)[0]
        return process.returncode, output

    def finish_connected(self, listed, *options):
        """A run of `fathom perf`. Status 2: it could not connect, because a restarted engine waits for its server's permission."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            status, output = self.finish(self.perf(listed, *options))
            if status != 2 or time.monotonic() > deadline:
                return status, output
            time.sleep(0.05)

    def publish(self, name):
        if HOSTS[0] not in self.model[name].hosts:
            self.call("VolumePublish", name=f"p/{name}", host=HOSTS[0])
            self.model[name].hosts |= {HOSTS[0]}
        return self.listed()[name]

    def is_right(self, name, ledger):
        """Whether the volume has what the ledger says."""
        if not ledger or not os.path.exists(ledger):
            return True
        status, output = self.finish_connected(self.publish(name), "--time", "0", "--verify-state", self.new_ledger(ledger))
        self.assertIn(status, (0, 1), f"seed {self.seed}, step {self.number}: {output}")
        self.last_output = output
        return status == 0

    def check_all(self):
        for name, volume in list(self.model.items()):
            if not self.is_right(name, volume.ledger):
                raise AssertionError(f"seed {self.seed}, step {self.number}: {name}: {self.last_output}")

    # ---- changes: (words, call, model afterwards) ----

    def create(self, after):
        name = self.chance.choice(NAMES)
        if name in after:
            return None
        size, thick = self.chance.randrange(2, 5) * 4 * MIB, self.chance.random() < 0.3
        after[name] = Volume(size)
        return lambda: self.call("VolumeCreate", name=f"p/{name}", size_bytes=size, thick=thick)

    def clone(self, after):
        name, sources = self.chance.choice(NAMES), [(v, s) for v in after for s in after[v].snapshots]
        if name in after or not sources:
            return None
        volume, snapshot = self.chance.choice(sources)
        size, ledger = after[volume].snapshots[snapshot]
        after[name] = Volume(size, ledger=self.new_ledger(ledger) if ledger else None)
        return lambda: self.call("VolumeCreate", name=f"p/{name}", **{"from": f"p/{volume}@{snapshot}"})

    def with_volume(self, after):
        return self.chance.choice(sorted(after)) if after else None

    def resize(self, after):
        name = self.with_volume(after)
        if not name or after[name].size >= SIZE_MAX:
            return None
        size = after[name].size + 4 * MIB
        after[name] = after[name].copy(size=size)
        return lambda: self.call("VolumeResize", name=f"p/{name}", size_bytes=size)

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
        listed = self.listed()
        names = [name for name in sorted(after) if listed[name].rank == listed[first].rank and (name == first or self.chance.random() < 0.5)]
        if any(snapshot in after[name].snapshots for name in names):
            return None
        for name in names:
            ledger = self.new_ledger(after[name].ledger) if after[name].ledger else None
            after[name] = after[name].copy(snapshots={**after[name].snapshots, snapshot: (after[name].size, ledger)})
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
        size, ledger = after[name].snapshots[snapshot]
        after[name] = after[name].copy(size=size, ledger=self.new_ledger(ledger) if ledger else None)
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
        make = getattr(self, kind)(after)
        if not make:
            return False
        outcome = []

        def run():
            try:
                make()
                outcome.append(None)
            except (Refused, ValueError, AttributeError) as refused:    # the last two: the channel was closed meanwhile
                outcome.append(refused)
        thread = threading.Thread(target=run)
        thread.start()
        if is_killing:
            self.kill_something()
        thread.join(120)
        self.assertFalse(thread.is_alive())
        is_slow = kind == "restore" and "too long" in getattr(outcome[0], "text", "")     # a busy disk: the engine gives it up
        if not is_killing and outcome[0] and not is_slow:
            raise AssertionError(f"seed {self.seed}, step {self.number}: {kind}: {outcome[0]}")
        self.adopt(kind, after, made=outcome[0] is None)
        return True

    def adopt(self, kind, after, made):
        found = self.shown_of(self.settled())
        self.history.append(f"{self.number} {kind} {'made' if made else 'unknown'}")
        text = f"seed {self.seed}, after {self.history}:\nbefore {shown(self.model)}\nafter {shown(after)}\nfound {found}"
        if made or found == shown(after):
            self.assertEqual(found, shown(after), text)
        else:
            self.assertEqual(found, shown(self.model), text)
        if found == shown(after):
            if kind == "restore" and not made:
                self.adopt_restored(after)
                after = {name: volume.copy(hosts=self.model[name].hosts) for name, volume in after.items()}     # to look at it, it was published
            self.model = after

    def adopt_restored(self, after):
        """Names and sizes do not tell whether a restore was made; the content does."""
        name = next((name for name in after if after[name].ledger != self.model[name].ledger), None)
        if not name or (after[name].ledger and self.is_right(name, after[name].ledger)):
            return
        ledger, said = self.model[name].ledger, self.last_output
        if after[name].ledger:
            if not self.is_right(name, ledger):
                raise AssertionError(f"seed {self.seed}, step {self.number}: {name} is neither restored:\n{said}\nnor as it was:\n{self.last_output}")
            after[name] = after[name].copy(ledger=ledger)
        elif self.is_right(name, ledger):   # else it was restored to a snapshot of unknown content
            after[name] = after[name].copy(ledger=ledger)

    def use(self, is_killing):
        """A host writes and reads; it may be killed, or something else."""
        name = self.with_volume(self.model)
        if not name:
            return False
        volume, listed = self.model[name], self.publish(name)
        volume.ledger = volume.ledger or self.new_ledger(None)
        self.assertEqual(self.finish_connected(listed, "--rw", "read", "--count", "1")[0], 0)
        kills_host = is_killing and self.chance.random() < 0.3
        if kills_host:
            volume.ledger = self.new_ledger(None)   # the killed host cannot tell what it has written
        process = self.perf(listed, "--rw", "mix", "--read-percent", "30", "--count", str(self.chance.randrange(200, 2000)), "--verify-state", volume.ledger)
        if kills_host:
            self.kills["host"] = self.kills.get("host", 0) + 1
            time.sleep(self.chance.random() * 0.3)
            process.kill()
        elif is_killing:
            self.kill_something()
        status, output = self.finish(process)
        if not is_killing:
            self.assertEqual(status, 0, f"seed {self.seed}, step {self.number}: {output}")
        elif not kills_host:
            self.assertNotIn("expected generation", output, f"seed {self.seed}, step {self.number}")
        self.settled()
        if not self.is_right(name, volume.ledger):
            raise AssertionError(f"seed {self.seed}, step {self.number}: {name}: {self.last_output}")
        return True

    def test_random_steps_with_kills_leave_what_the_model_says(self):
        kinds = ["create", "create", "clone", "clone", "resize", "rename", "publish_change", "destroy", "snapshot", "snapshot", "destroy_snapshot", "restore", "use", "use"]
        while self.number < STEPS:
            kind, is_killing = self.chance.choice(kinds), self.chance.random() < 0.25
            if not (self.use(is_killing) if kind == "use" else self.change(kind, is_killing)):
                continue
            self.done[kind] = self.done.get(kind, 0) + 1
            self.number += 1
            if self.number % 25 == 0:
                self.check_all()
        self.check_all()
        self.assertEqual(self.shown_of(self.settled()), shown(self.model))
        print(f"# seed {self.seed}: {self.number} steps {self.done}, kills {self.kills}", flush=True)


if __name__ == "__main__":
    unittest.main()
