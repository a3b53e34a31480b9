# SPDX-License-Identifier: BSD-2-Clause
"""
bench_volume - measurements of `bench` of volumes, each beside its reference in the same run: a volume beside a raw file of the same file system and beside
the block device below it; a volume beside another one that has snapshots; creating and listing many.

The file system is XFS on a loop device, the device is a second loop device: root only.
"""

import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

NQN = "nqn.2016-06.io.spdk:cnode1"
MIB = 1 << 20
BYTES = 256 * MIB       # of each device
MANY_VOLUMES, MANY_POOLS = 10000, 1000
HOST_RATE = 8000        # I/Os of 4 KiB a second of the measured host
NEIGHBOUR_RATE = 4000   # writes of 4 KiB a second of the other host
SETUP = f"""nvmf_create_transport -t tcp
nvmf_create_subsystem {NQN} -a -s FATHOMBENCH00001 -m 16
nvmf_subsystem_add_listener {NQN} -t tcp -a 127.0.0.1 -s {{port}}
"""


class Disks:
    """An XFS image, mounted, and a loop device on a file of its own. Pair: close()."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="fathom-bench-volume-")
        self.storage, self.loop = os.path.join(self.directory, "storage"), None
        os.mkdir(self.storage)
        for name, size in (("xfs", 4 << 30), ("device", BYTES)):
            with open(os.path.join(self.directory, name), "wb") as file:
                file.truncate(size)
        subprocess.run(["mkfs.xfs", "-q", "-m", "reflink=1,rmapbt=0", os.path.join(self.directory, "xfs")], check=True)
        subprocess.run(["mount", "-o", "loop", os.path.join(self.directory, "xfs"), self.storage], check=True)
        done = subprocess.run(["losetup", "-f", "--show", os.path.join(self.directory, "device")], stdout=subprocess.PIPE, text=True, check=True)
        self.loop = done.stdout.strip()

    def close(self):
        if self.loop:
            subprocess.run(["losetup", "-d", self.loop], check=False)
        subprocess.run(["umount", "-l", self.storage], check=False)
        shutil.rmtree(self.directory, ignore_errors=True)


def commands(server, text):
    subprocess.run([server.fathom, "rpc", "-s", server.sock], input=text, text=True, check=True, stdout=subprocess.DEVNULL)


def bench_ratios(server_of, build, report, rounds, seconds, disks):
    """I/Os a second of each kind of volume to those of a raw file and of the device; all were written once before."""
    server = server_of(build, "traced", 600, "--storage", disks.storage, setup=SETUP)
    names = ["raw file", "device", "thin", "thick", "with snapshots"]
    raw = os.path.join(disks.storage, "raw")
    with open(raw, "wb") as file:
        file.truncate(BYTES)
    rows = []
    try:
        commands(server, f"bdev_aio_create {raw} raw 4096\nbdev_aio_create {disks.loop} device 4096\npool_create p --overcommit\n"
                         f"volume_create p thin {BYTES}\nvolume_create p thick {BYTES} --thick\nvolume_create p snap {BYTES}\n"
                         + "".join(f"nvmf_subsystem_add_ns {NQN} {name}\n" for name in ("raw", "device", "p/thin", "p/thick", "p/snap")))
        for nsid in range(1, len(names) + 1):
            server.perf(600, "--nsid", str(nsid), "--rw", "write", "--bs", "128k", "--count", str(BYTES // (128 << 10)))
        commands(server, "volume_snapshot p snap s1\n")
        server.perf(seconds, "--nsid", "5", "--rw", "randwrite", "--bs", "4k")
        commands(server, "volume_snapshot p snap s2\n")
        for size in ("4k", "128k"):
            for direction in ("randread", "randwrite"):
                results = {name: [] for name in names}
                for _ in range(rounds):
                    for nsid, name in enumerate(names, 1):
                        results[name].append(server.perf(seconds, "--nsid", str(nsid), "--rw", direction, "--bs", size, "--depth", "32")["total"]["iops"])
                to = {(name, floor): statistics.median(a / b for a, b in zip(results[name], results[floor])) for name in names for floor in names[:2]}
                report.line(bench="volume", size=size, rw=direction, iops={name: round(statistics.median(results[name])) for name in names},
                            to_raw_file={name: round(to[name, "raw file"], 3) for name in names}, to_device={name: round(to[name, "device"], 3) for name in names})
                rows.append([f"{size} {direction}", *(f"{statistics.median(results[name]) / 1000:.1f}k" for name in names[:2]),
                             *(f"{to[name, floor]:.2f}" for name in names[2:] for floor in names[:2])])
                print(f"  {rows[-1]}", file=sys.stderr)
        bench_neighbour(server, report, rounds, seconds)
        bench_former_snapshot(server, report, rounds, seconds)
    finally:
        server.stop()
    report.table("Volumes, depth 32, IOPS to those of a raw file and of the device",
                 ["case", "raw file", "device", *(f"{name}/{floor}" for name in names[2:] for floor in ("raw", "device"))], rows)


def bench_neighbour(server, report, rounds, seconds):
    """
    The thick volume while another host writes to another volume: one without snapshots, and one with them, whose writes need new blocks. Both hosts, the
    loop device and the kernel's workers, which allocate the blocks, are on CPU 1, so only the cases with rates tell what the volumes do to each other; in
    the others CPU 1 is full, and what the workers take of it is missing to the rest. The measured host comes first there, as if it had its own machine.
    """
    rows = []
    for direction in ("randread", "randwrite"):
        for rate, other_rate in ((HOST_RATE, NEIGHBOUR_RATE), (None, NEIGHBOUR_RATE), (None, None)):
            ratios = []
            for number in range(4 * rounds):
                found = {}
                for nsid in (3, 5) if number % 2 else (5, 3):
                    if nsid == 5:   # its blocks are shared again
                        commands(server, f"volume_snapshot p snap {direction}{rate or 'max'}{other_rate or 'max'}{number}\n")
                    found[nsid] = beside_neighbour(server, nsid, direction, rate, other_rate, seconds)
                ratios.append((found[5]["iops"] / found[3]["iops"], found[5]["latency_us"]["p50"] / found[3]["latency_us"]["p50"]))
            iops, latency = (middle_half(values) for values in zip(*ratios))
            report.line(bench="volume neighbour", rw=direction, rate=rate or 0, neighbour_rate=other_rate or 0, iops_to_none=round(iops, 3),
                        p50_to_none=round(latency, 3), lowest_iops=round(min(ratios)[0], 3))
            rows.append([f"4k {direction}", str(rate or "most"), str(other_rate or "most"), f"{iops:.3f}", f"{min(ratios)[0]:.3f}", f"{latency:.3f}"])
    report.table("A volume beside one with snapshots, which another host writes to, to the same beside one without",
                 ["case", "I/Os a second", "the other's writes", "IOPS ratio", "lowest", "median latency ratio"], rows)


def beside_neighbour(server, nsid, direction, rate, other_rate, seconds):
    """What the host of the thick volume gets while another one writes to namespace @nsid."""
    with subprocess.Popen(["taskset", "-c", "1", server.fathom, "perf", "--json", "-a", "127.0.0.1", "-s", server.port, "-n", NQN, "--nsid", str(nsid),
                           "--time", str(seconds + 1), "--rw", "randwrite", "--bs", "4k", "--depth", "8", *rate_option(other_rate)],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as other:
        time.sleep(0.3)
        found = server.perf(seconds, "--nsid", "4", "--rw", direction, "--bs", "4k", "--depth", "8", *rate_option(rate), nice=-20)["total"]
        other.terminate()
    return found


def rate_option(rate):
    return ("--rate", str(rate)) if rate else ()


def middle_half(values):
    """The mean of the values without the lowest and the highest quarter."""
    return statistics.mean(sorted(values)[len(values) // 4:len(values) - len(values) // 4])


def bench_former_snapshot(server, report, rounds, seconds):
    """Writes of a volume before its first snapshot, with one that shares nothing with it any more, and after its end."""
    rows = {}

    def measure(case):
        before = cpu_s(server.process.pid)
        done = server.perf(seconds, "--nsid", "3", "--rw", "randwrite", "--bs", "4k", "--depth", "16")["total"]
        rows.setdefault(case, []).append((done["iops"], (cpu_s(server.process.pid) - before) / max(done["iops"] * seconds, 1) * 1e6))

    for _ in range(rounds):
        measure("before")
        commands(server, "volume_snapshot p thin s\n")
        server.perf(600, "--nsid", "3", "--rw", "write", "--bs", "128k", "--count", str(BYTES // (128 << 10)))
        measure("with a snapshot")
        commands(server, "snapshot_destroy p thin s\n")
        for _ in range(1000):
            if not any(volume["shares"] for volume in server.rpc("volume_get_volumes") if volume["name"] == "thin"):
                break
            time.sleep(0.1)
        measure("after it")
    middle = {case: [statistics.median(values) for values in zip(*found)] for case, found in rows.items()}
    report.line(bench="volume former snapshot", iops={case: round(iops) for case, (iops, _) in middle.items()},
                cpu_us={case: round(cpu, 2) for case, (_, cpu) in middle.items()})
    report.table("4 KiB random writes of a volume around its only snapshot, depth 16", ["case", "IOPS", "CPU of a write"],
                 [[case, f"{iops / 1000:.1f}k", f"{cpu:.1f} us"] for case, (iops, cpu) in middle.items()])


def cpu_s(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Calls:
    """One connection to an engine's control socket."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.file = self.socket.makefile("rb")

    def call(self, method, **params):
        self.socket.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode())
        answer = json.loads(self.file.readline())
        if "error" in answer:
            sys.exit(f"bench: {method}: {answer['error']}")
        return answer["result"]


def sync_us(folder):
    """The floor of a creation: a file of 4 KiB written and synced, its folder synced."""
    times = []
    for number in range(200):
        began = time.monotonic()
        with open(os.path.join(folder, f"floor{number}"), "wb") as file:
            file.write(bytes(4096))
            os.fsync(file.fileno())
        fd = os.open(folder, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
        times.append((time.monotonic() - began) * 1e6)
    for number in range(200):
        os.unlink(os.path.join(folder, f"floor{number}"))
    return statistics.median(times)


def bench_many(server_of, build, report, disks):
    """Create many pools and volumes on one engine, and list them."""
    floor = sync_us(disks.storage)
    server = server_of(build, "traced", 601, "--storage", disks.storage, setup=SETUP)
    calls, times = Calls(server.sock), {}
    try:
        began = time.monotonic()
        for pool in range(MANY_POOLS):
            calls.call("pool_create", pool=f"m{pool}", overcommit=True)
        times["create a pool"] = (time.monotonic() - began) / MANY_POOLS * 1e6
        parts = []
        for volume in range(MANY_VOLUMES):
            if volume % (MANY_VOLUMES // 10) == 0:
                parts.append(time.monotonic())
            calls.call("volume_create", pool=f"m{volume % MANY_POOLS}", volume=f"v{volume}", size=1 << 30)
        parts.append(time.monotonic())
        times["create a volume, the first thousand"] = (parts[1] - parts[0]) / (MANY_VOLUMES // 10) * 1e6
        times["create a volume, the last thousand"] = (parts[-1] - parts[-2]) / (MANY_VOLUMES // 10) * 1e6
        for name, method in (("list all volumes", "volume_get_volumes"), ("list all pools", "pool_get_pools")):
            listed = []
            for _ in range(5):
                began = time.monotonic()
                calls.call(method)
                listed.append((time.monotonic() - began) * 1e6)
            times[name] = statistics.median(listed)
    finally:
        server.stop()
    report.line(bench="many volumes", volumes=MANY_VOLUMES, pools=MANY_POOLS, floor_us=round(floor), **{name.replace(" ", "_").replace(",", ""): round(us)
                                                                                                     for name, us in times.items()})
    report.table(f"{MANY_VOLUMES} volumes in {MANY_POOLS} pools on one engine", ["case", "us", "to a synced file"],
                 [["a synced file", f"{floor:.0f}", "1"], *([name, f"{us:.0f}", f"{us / floor:.1f}"] for name, us in times.items())])


def bench_start(build, report):
    """The start of an engine with many volumes, without hosts and with one each, and the memory of an idle volume."""
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bench"))
    import volume_start     # pylint: disable=import-outside-toplevel

    rows = []
    for published in (0, MANY_VOLUMES):
        none, many = volume_start.run(os.path.join(build, "bin", "fathom-engine"), MANY_VOLUMES, MANY_POOLS, published, tempfile.gettempdir())
        report.line(bench="volume start", volumes=many["served"], published=many["published"], ready_s=round(many["ready_s"], 3),
                    cpu_s=many["cpu_s"], floor_s=round(none["ready_s"], 3), bytes_each=round(many["bytes_each"]))
        rows.append(["a host each" if published else "without hosts", f"{none['ready_s']:.2f}", f"{many['ready_s']:.2f}", f"{many['cpu_s']:.2f}",
                     f"{many['bytes_each']:.0f}"])
    report.table(f"The start of an engine with {MANY_VOLUMES} volumes in {MANY_POOLS} pools, in s, and the memory of an idle volume",
                 ["case", "without volumes", "with them", "CPU", "bytes of a volume"], rows)


def bench_volumes(server_of, build, report, measure, *options):
    """`measure`: bench_ratios or bench_many."""
    if os.geteuid() != 0 or not shutil.which("mkfs.xfs") or not os.path.exists("/dev/loop-control"):
        print("\nVolumes: not measured: that needs root, loop devices and mkfs.xfs")
        return
    disks = Disks()
    try:
        measure(server_of, build, report, *options, disks)
    finally:
        disks.close()
