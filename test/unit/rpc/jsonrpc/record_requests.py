#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
record_requests - what does a client send for each command line?

    record_requests.py CLIENT... < requests.txt          CLIENT: e.g. python3 rpc.py, or build/bin/fathom rpc

Runs the client for each line that begins with "> ", against a socket that writes down the request and answers true, and prints
the table again: the command line, and below it the request ("!" if the client refuses the command line). With SPDK's rpc.py it
made requests.txt; test_cli.c holds `fathom rpc` to that, and `record_requests.py build/bin/fathom rpc` shows what differs.
"""

import json
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import threading


def serve(listener, requests):
    while True:
        connection, _ = listener.accept()
        text = b""
        while True:
            try:
                request = json.loads(text)
                break
            except ValueError:
                more = connection.recv(65536)
                if not more:
                    request = None
                    break
                text += more
        if request is not None:
            requests.append(request)
            connection.sendall(json.dumps({"jsonrpc": "2.0", "id": request.get("id"), "result": True}).encode() + b"\n")
        connection.close()


def main():
    client = sys.argv[1:]
    requests = []
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "sock")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()
        threading.Thread(target=serve, args=(listener, requests), daemon=True).start()
        for line in sys.stdin:
            if not line.startswith("> "):
                if line.startswith("#") or not line.strip():
                    print(line, end="")
                continue
            requests.clear()
            done = subprocess.run(client + ["-s", path] + shlex.split(line[2:]), stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            print(line, end="")
            if requests:
                request = requests[0]
                print(json.dumps({"method": request["method"], "params": request.get("params", {})}, sort_keys=True))
            else:
                print("!" if done.returncode else "nothing was sent")


main()
