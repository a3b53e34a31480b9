# SPDX-License-Identifier: BSD-2-Clause
"""
bench_checksum - a volume with checksums beside one without, on the same file system, as a ratio.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile

NQN = "nqn.2016-06.io.spdk:cnode1"
VOLUME_BYTES = 64 << 20
SETUP = f"""nvmf_create_transport -t tcp
pool_create p1
volume_create p1 plain {VOLUME_BYTES} --thick
volume_create p1 sums {VOLUME_BYTES} --thick --checksums
nvmf_create_subsystem {NQN} -a -s FATHOMBENCH00001 -m 10
nvmf_subsystem_add_ns {NQN} p1/plain -n 1
nvmf_subsystem_add_ns {NQN} p1/sums -n 2
nvmf_subsystem_add_listener {NQN} -t tcp -a 127.0.0.1 -s {{port}}
"""
NSIDS = {"plain": "1", "checksums": "2"}


def mount_xfs(folder):
    """Mount an XFS image at the folder, as volumes are best on one. False: this process may not."""
    if os.geteuid() != 0 or not shutil.which("mkfs.xfs"):
        return False
    image = folder + ".img"
    with open(image, "wb") as file:
        file.truncate(512 << 20)
    subprocess.run(["mkfs.xfs", "-q", image], check=True, stdout=subprocess.DEVNULL)
    return subprocess.run(["mount", "-o", "loop", image, folder], stderr=subprocess.DEVNULL).returncode == 0


def compare(server, report, rounds, seconds):
    rows = []
    for nsid in NSIDS.values():     # the blocks are written once: else their first writes are measured
        server.perf(max(1.0, seconds), "--nsid", nsid, "--rw", "write", "--bs", "128k", "--depth", "8")
    for size in ("4k", "128k"):
        for direction in ("randread", "randwrite"):
            iops, ratios = {kind: [] for kind in NSIDS}, []
            for _ in range(rounds):
                for kind, nsid in NSIDS.items():
                    done = server.perf(seconds, "--nsid", nsid, "--rw", direction, "--bs", size, "--depth", "32")
                    iops[kind].append(done["total"]["iops"])
                ratios.append(iops["checksums"][-1] / iops["plain"][-1])
            medians = {kind: statistics.median(values) for kind, values in iops.items()}
            ratio = statistics.median(ratios)
            report.line(bench="checksum", size=size, rw=direction, iops=medians, checksums_to_plain=round(ratio, 4))
            rows.append([f"{size} {direction} depth 32", *(f"{medians[kind] / 1000:.1f}k" for kind in NSIDS), f"{ratio:.3f}"])
            print(f"  {rows[-1]}", file=sys.stderr)
    return rows


def bench_checksum(server_class, build, report, rounds, seconds):
    folder = tempfile.mkdtemp(prefix="fathom-bench-", dir=build)
    is_xfs = mount_xfs(folder)
    try:
        server = server_class(build, "untraced", 500, "--storage", folder, setup=SETUP)
        try:
            rows = compare(server, report, rounds, seconds)
        finally:
            server.stop()
    finally:
        if is_xfs:
            subprocess.run(["umount", "-l", folder], check=True)
        if os.path.exists(folder + ".img"):
            os.unlink(folder + ".img")
        shutil.rmtree(folder)
    report.table(f"A volume with checksums on {'XFS' if is_xfs else 'the file system of the build'} (IOPS)",
                 ["case", "plain", "checksums", "checksums/plain"], rows)
