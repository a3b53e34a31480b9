# SPDX-License-Identifier: BSD-2-Clause
"""
fake_spdk SOCKET MODE - answers JSON-RPC as SPDK's target does, where the real one cannot run. Its reactor is a thread of that name.

MODE: "well"; "blocked": the reactor sleeps in a system call; "fails": I/Os of its device fail; "silent": calls that go to all
cores have no answer.
"""

import ctypes
import json
import os
import select
import socket
import sys
import threading
import time

PR_SET_NAME = 15
WALKS = ("framework_get_reactors", "bdev_get_iostat", "thread_get_stats", "nvmf_get_stats")


class Target:
    def __init__(self, mode):
        self.mode, self.looks = mode, 0

    def reactor(self):
        ctypes.CDLL(None).prctl(PR_SET_NAME, b"reactor_0", 0, 0, 0)
        if self.mode == "blocked":
            time.sleep(3600)
        with select.epoll() as poll:        # as in interrupt mode
            poll.poll(3600)

    def answer(self, method):
        self.looks += 1
        moves = 100 * self.looks
        return {
            "spdk_get_version": {"version": "SPDK v26.09-pre git sha1 3230130e6a", "fields": {"major": 26, "minor": 9, "patch": 0, "suffix": "-pre"}},
            "framework_get_reactors": {"tick_rate": 1000000000, "pid": os.getpid(), "reactors": [{"lcore": 0, "busy": 1, "idle": 1, "lw_threads": []}]},
            "bdev_get_iostat": {"tick_rate": 1000000000, "ticks": 1, "bdevs": [
                {"name": "Nvme0n1", "num_read_ops": 500 + moves, "read_latency_ticks": 100000 * (500 + moves), "num_write_ops": 0,
                 "write_latency_ticks": 0, "num_unmap_ops": 0, "unmap_latency_ticks": 0, "io_error": {"nvme_error": moves} if self.mode == "fails" else {}}]},
            "thread_get_stats": {"tick_rate": 1000000000, "threads": [{"name": "nvmf_tgt_poll_group_000", "id": 2, "cpumask": "1", "busy": self.looks, "idle": 9,
                                                                     "active_pollers_count": 2, "timed_pollers_count": 0, "paused_pollers_count": 0}]},
            "bdev_get_bdevs": [{"name": "Nvme0n1", "product_name": "NVMe disk", "block_size": 512, "num_blocks": 2048}],
            "nvmf_get_subsystems": [],
            "trace_get_info": {"tpoint_shm_path": "", "tpoint_group_mask": "0x0"},
            "nvmf_get_stats": {"tick_rate": 1000000000, "poll_groups": [{"name": "nvmf_tgt_poll_group_000", "admin_qpairs": 1, "io_qpairs": 1,
                                                                       "pending_bdev_io": 4, "transports": [{"trtype": "TCP"}]}]},
        }.get(method)

    def reply(self, request):
        method = request["method"]
        if self.mode == "silent" and method in WALKS:
            return None
        result = self.answer(method)
        if result is None:
            return {"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "Method not found"}}
        return {"jsonrpc": "2.0", "id": request["id"], "result": result}

    def serve(self, client):
        text, decoder = "", json.JSONDecoder()
        while True:
            part = client.recv(65536).decode()
            if not part:
                return
            text += part
            while text.strip():
                try:
                    request, end = decoder.raw_decode(text.lstrip())
                except ValueError:
                    break
                text = text.lstrip()[end:]
                reply = self.reply(request)
                if reply:
                    client.sendall(json.dumps(reply).encode() + b"\n")


def main(path, mode):
    target = Target(mode)
    threading.Thread(target=target.reactor, daemon=True).start()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(16)
        while True:
            client, _ = listener.accept()
            threading.Thread(target=target.serve, args=(client,), daemon=True).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
