# SPDX-License-Identifier: BSD-2-Clause
"""
bench_figures - the cost of scraping metrics once a second, measured by `bench` in one engine with and without scrapes.
"""

import os
import socket
import threading
import time
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


def bench_figures(server_class, build, report, helpers, slices, seconds):
    """`helpers`: the functions cpu_ns() and middle_half() of bench, and the commands of its engines."""
    cpu_ns, middle_half, setup = helpers
    port = free_port()
    many = "".join(f"bdev_null_create Many{number} 64 4096\n" for number in range(VOLUMES))
    server = server_class(build, "traced", 450, "--metrics", f"127.0.0.1:{port}", setup=setup + many)
    pid = server.process.pid
    try:
        core = server.rpc("framework_get_reactors")["reactors"][0]["tid"]
        server.perf(0.5)
        ratios, core_ratios = [], []
        for number in range(slices):
            iops, per_core = {}, {}
            for scraped in (True, False) if number % 2 else (False, True):
                scraper = Scraper(port) if scraped else None
                began = cpu_ns(pid, core)
                iops[scraped] = server.perf(seconds, "--rw", "randread", "--bs", "4k", "--depth", "127")["total"]["iops"]
                per_core[scraped] = iops[scraped] * seconds * 1e9 / (cpu_ns(pid, core) - began)
                if scraper:
                    scraper.stop()
            ratios.append(iops[True] / iops[False])
            core_ratios.append(per_core[True] / per_core[False])
        before = process_ns(pid)
        text = [len(scrape(port)) for _ in range(SAMPLES)][-1]
        scrape_us = (process_ns(pid) - before) / 1000 / SAMPLES
        idle = process_ns(pid)
        time.sleep(1)
        scrape_us -= (process_ns(pid) - idle) / 1000 / SAMPLES
    finally:
        server.stop()
    (mean, error), (core_mean, core_error) = middle_half(ratios), middle_half(core_ratios)
    report.line(bench="figures", volumes=VOLUMES, scrapes_per_second=1, scraped_to_alone=round(mean, 4), error=round(error, 4),
                core_scraped_to_alone=round(core_mean, 4), core_error=round(core_error, 4), scrape_us=round(scrape_us, 1), text_bytes=text)
    report.table("Cost of scraping metrics once a second", ["case, scraped/alone", "IOPS", "+-", "I/Os per CPU second", "+-", "us/scrape, all threads",
                                                            "% of a core", "text KiB"],
                 [[f"4k randread depth 127, {VOLUMES} volumes", f"{mean:.4f}", f"{error:.4f}", f"{core_mean:.4f}", f"{core_error:.4f}",
                   f"{scrape_us:.0f}", f"{scrape_us / 1e4:.3f}", f"{text / 1024:.0f}"]])
