# SPDX-License-Identifier: BSD-2-Clause
"""
bench_figures - the cost of scraping metrics once a second, measured by `bench` in one engine with and without scrapes.
"""

import contextlib
import os
import socket
import threading
import time

from bench_pairs import compare
import urllib.request

VOLUMES = 100
SAMPLES = 50


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def scrape(port):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Accept": "application/openmetrics-text"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read()


class Scraper:
    """Scrapes once a second, from CPU 1."""

    def __init__(self, port):
        self.port, self.end = port, threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        os.sched_setaffinity(0, {1})
        while not self.end.wait(1 - time.monotonic() % 1):
            scrape(self.port)

    def stop(self):
        self.end.set()
        self.thread.join()


def process_ns(pid):
    """Processor time of all threads of the process."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat") as file:
            total += int(file.read().split()[0])
    return total


def bench_figures(server_class, build, report, setup, slices, seconds):
    """`setup`: the commands of bench's engines."""
    port = free_port()
    many = "".join(f"bdev_null_create Many{number} 64 4096\n" for number in range(VOLUMES))
    server = server_class(build, "traced", 450, "--metrics", f"127.0.0.1:{port}", setup=setup + many)
    pid = server.process.pid
    try:
        @contextlib.contextmanager
        def scraping(on):
            scraper = Scraper(port) if on else None
            try:
                yield
            finally:
                if scraper:
                    scraper.stop()

        server.perf(0.5)
        ratios = compare(server, slices, seconds, ("--rw", "randread", "--bs", "4k", "--depth", "127"), scraping)
        before = process_ns(pid)
        text = [len(scrape(port)) for _ in range(SAMPLES)][-1]
        scrape_us = (process_ns(pid) - before) / 1000 / SAMPLES
        idle = process_ns(pid)
        time.sleep(1)
        scrape_us -= (process_ns(pid) - idle) / 1000 / SAMPLES
    finally:
        server.stop()
    report.line(bench="figures", volumes=VOLUMES, scrapes_per_second=1, **ratios.fields("scraped_to_alone"),
                scrape_us=round(scrape_us, 1), text_bytes=text)
    report.table("Cost of scraping metrics once a second", ["case, scraped/alone", "IOPS", "+-", "I/Os per CPU second", "+-", "us/scrape, all threads",
                                                            "% of a core", "text KiB"],
                 [[f"4k randread depth 127, {VOLUMES} volumes", *ratios.cells(), f"{scrape_us:.0f}", f"{scrape_us / 1e4:.3f}", f"{text / 1024:.0f}"]])
