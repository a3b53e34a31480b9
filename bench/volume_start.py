#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
volume_start - how long an engine with many volumes takes to start, and what an idle volume costs.

Writes a storage as docs/formats/storage.md describes it, starts the engine with it, and prints the time until its control socket answers,
the time until it has stopped, and the memory and the descriptors for each volume. The reference in the same run is the engine without volumes.

    bench/volume_start.py [--engine build/bin/fathom-engine] [--volumes 10000] [--pools 1000] [--published 0] [--directory /tmp]
"""

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid

GIB = 1 << 30
READY_SECONDS_MAX = 600
HOST = "nqn.2014-08.org.nvmexpress:uuid:8d2b6a1e-04b5-4c0f-9b7a-4f6c3f0f9f11"
TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    TABLE.append(byte)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def write_record(path, kind, record):
    record = {"version": 1, "uuid": str(uuid.uuid4()), "created_ns": 1, **record}
    checksum = crc32c(json.dumps(record, sort_keys=True, separators=(",", ":")).encode())
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"checksum": f"0x{checksum:08x}", kind: record}, file, sort_keys=True)


def make_storage(root, volumes, pools, published):
    for name in ("pools", "pending", "commit", "trash"):
        os.makedirs(os.path.join(root, name))
    for pool in range(pools):
        folder = os.path.join(root, "pools", f"p{pool}")
        os.makedirs(os.path.join(folder, "volumes"))
        write_record(os.path.join(folder, "pool.json"), "pool", {"size_bytes": 0, "overcommit": True})
    for volume in range(volumes):
        folder = os.path.join(root, "pools", f"p{volume % pools}", "volumes", f"v{volume}")
        os.makedirs(os.path.join(folder, "snapshots"))
        write_record(os.path.join(folder, "volume.json"), "volume",
                     {"size_bytes": GIB, "block_bytes": 4096, "generation": 1, "thick": False, "read_only": False, "checksums": False,
                      "origin": None, "hosts": [{"nqn": HOST}] if volume < published else []})
        with open(os.path.join(folder, "data.1"), "w", encoding="utf-8") as file:
            file.truncate(GIB)


def answer(sock):
    """The engine's volumes that it can serve, and those that hosts can use; None: it does not answer yet."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(sock)
            connection.sendall(b'{"jsonrpc":"2.0","id":1,"method":"pool_get_pools"}')
            text = b""
            while True:
                text += connection.recv(1 << 20)
                try:
                    storage = json.loads(text)["result"]["storage"]
                    return storage["volumes"] - storage["damaged"], storage["exports_served"]
                except ValueError:
                    continue
    except OSError:
        return None


def anonymous_bytes(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("RssAnon"))


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return sum(int(ticks) for ticks in file.read().rsplit(") ", 1)[1].split()[11:13]) / os.sysconf("SC_CLK_TCK")


def measure(engine, storage, directory):
    """Seconds to ready, of CPU until then, and to the end, bytes of memory, descriptors, volumes."""
    sock, begin = os.path.join(directory, "sock"), time.monotonic()
    with subprocess.Popen([engine, "--storage", storage, "-r", sock, "-m", "0x1", "--listen", "127.0.0.1:4499"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while (served := answer(sock)) is None:
            if process.poll() is not None or time.monotonic() - begin > READY_SECONDS_MAX:
                process.kill()
                sys.exit("the engine did not start")
            time.sleep(0.01)
        ready = time.monotonic() - begin, cpu_seconds(process.pid)
        memory, descriptors = anonymous_bytes(process.pid), len(os.listdir(f"/proc/{process.pid}/fd"))
        begin = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.wait()
        return *ready, time.monotonic() - begin, memory, descriptors, *served


def run(engine, volumes, pools, published, parent):
    """Measure the engine without volumes, and with them. Returns a dictionary for each."""
    directory, results = tempfile.mkdtemp(prefix="fathom-volumes-", dir=parent), []
    try:
        for count, folders in ((0, 0), (volumes, pools)):
            storage = os.path.join(directory, f"storage-{count}")
            make_storage(storage, count, folders, published)
            names = ("ready_s", "cpu_s", "stop_s", "bytes", "descriptors", "served", "published")
            result = dict(zip(names, measure(engine, storage, directory)))
            floor = results[0] if results else result
            result["bytes_each"] = (result["bytes"] - floor["bytes"]) / max(count, 1)
            result["descriptors_each"] = (result["descriptors"] - floor["descriptors"]) / max(count, 1)
            results.append(result)
        return results
    finally:
        shutil.rmtree(directory)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0].strip())
    parser.add_argument("--engine", default="build/bin/fathom-engine")
    parser.add_argument("--volumes", type=int, default=10000)
    parser.add_argument("--pools", type=int, default=1000)
    parser.add_argument("--published", type=int, default=0, help="volumes that a host may use")
    parser.add_argument("--directory", default=tempfile.gettempdir(), help="where the storage is made")
    options = parser.parse_args()
    for result in run(options.engine, options.volumes, options.pools, options.published, options.directory):
        print("{served:6} volumes, {published} published: ready after {ready_s:.2f} s, {cpu_s:.2f} s of CPU, stopped after {stop_s:.2f} s; "
              "a volume: {bytes_each:.0f} bytes, {descriptors_each:.1f} descriptors".format(**result))


if __name__ == "__main__":
    main()
