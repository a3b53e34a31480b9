#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
long_way - a long network between the network namespaces of two processes: each packet arrives SECONDS after it was sent, in both directions. The first
process gets FIRST as its address, the second one SECOND. Prints "ready", and ends with its parent.

    long_way.py PID PID SECONDS

The kernels of some machines lack netem.
"""

import collections
import contextlib
import ctypes
import fcntl
import os
import select
import struct
import subprocess
import sys
import time

FIRST, SECOND = "10.99.0.1", "10.99.0.2"
CLONE_NEWNET = 0x40000000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
PACKET_BYTES_MAX = 65536
LIBC = ctypes.CDLL(None, use_errno=True)


def open_end(pid, address, peer):
    """A TUN device in the network namespace of process `pid`; its descriptor."""
    with open(f"/proc/{pid}/ns/net") as namespace:
        if LIBC.setns(namespace.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", b"way0", IFF_TUN | IFF_NO_PI))
    subprocess.run(["ip", "addr", "add", address, "peer", peer, "dev", "way0"], check=True)
    # few large packets, so that this process is not the bottleneck
    subprocess.run(["ip", "link", "set", "way0", "mtu", "60000", "txqueuelen", "10000", "up"], check=True)
    return fd


def relay(fds, delay):
    parent = os.getppid()
    queues = {fd: collections.deque() for fd in fds}    # (when, packet) to write there
    other = {fds[0]: fds[1], fds[1]: fds[0]}
    while os.getppid() == parent:
        now, wait = time.monotonic(), 0.5
        for fd, queue in queues.items():
            while queue and queue[0][0] <= now:
                with contextlib.suppress(OSError):      # the receiver's queue is full: the packet is lost
                    os.write(fd, queue.popleft()[1])
            if queue:
                wait = min(wait, max(0, queue[0][0] - now))
        for fd in select.select(fds, [], [], wait)[0]:
            with contextlib.suppress(BlockingIOError):
                while True:
                    queues[other[fd]].append((time.monotonic() + delay, os.read(fd, PACKET_BYTES_MAX)))


def main():
    fds = [open_end(sys.argv[1], FIRST, SECOND), open_end(sys.argv[2], SECOND, FIRST)]
    print("ready", flush=True)
    relay(fds, float(sys.argv[3]))


if __name__ == "__main__":
    main()
