# SPDX-License-Identifier: BSD-2-Clause
"""
Watching changes nothing: with one seed, each command of each host has the same result, with `fathom doctor`, `fathom top` and scrapes of /metrics
running all the time and without them.

The simulator has no control socket and no HTTP: only the trace file and the process can be watched there (SimulatedEngine), and its whole trace must be
the same, byte for byte. So the other tools watch a real engine (RealEngine), under seeded hosts and a seeded operator. There the order of two hosts'
commands is not that of the seed, so that each host has blocks of its own, and the digests are those of the results of each host.

FATHOM_WATCHED_COMMANDS: commands of each host. FATHOM_WATCHED_SEED: another seed. FATHOM_WATCHED_SIM_SEEDS: those of the
simulator FATHOM_SIM.
"""

import glob
import hashlib
import json
import os
import random
import re
import struct
import subprocess
import threading
import time
import unittest
import urllib.request

import test_hostile as hostile
from harness import FATHOM, NQN, EngineTest, RpcError, free_port, run, wait_for

COMMANDS = int(os.environ.get("FATHOM_WATCHED_COMMANDS", "400"))
SEED = int(os.environ.get("FATHOM_WATCHED_SEED", "1"))
SIM = os.environ.get("FATHOM_SIM", "")
SIM_SEEDS = [int(word) for word in os.environ.get("FATHOM_WATCHED_SIM_SEEDS", "17").split()]
MIB, BLOCK = 1 << 20, 512
FLUSH, WRITE, READ, COMPARE, WRITE_ZEROES, UNKNOWN = 0, 1, 2, 5, 8, 0x7b
REGION_BLOCKS, BLOCKS_MAX = 4096, 64        # of a host; of a command
DOCTOR_PAUSE, PAUSE = 2, 0.002


class SeededHost(threading.Thread):
    """Sends commands that its seed chooses, one at a time, to blocks that no other host uses. `digest`: of all results."""

    def __init__(self, engine, number, nsid, inject=None):
        super().__init__(daemon=True)
        self.engine, self.number, self.nsid, self.inject = engine, number, nsid, inject
        self.chance, self.digest, self.counts, self.error = random.Random(SEED * 1000 + number), hashlib.sha256(), {}, None
        self.content = {}       # block: its bytes, as the host knows it
        nqn = b"nqn.2026-11.org.fathom:watched%d" % number
        self.admin, self.io = hostile.Host(engine), hostile.Host(engine)
        cntlid, status = self.admin.connect(host=nqn)
        assert status == 0 and self.admin.enable()[1] == 0 and self.io.connect(1, cntlid & 0xffff, host=nqn)[1] == 0

    def command(self, opcode, block, count, data=b""):
        """(status, data) of one command; the keep-alive needs no command, since its time-out is off."""
        head = struct.pack("<BBHI16x", opcode, 0x40, 1, self.nsid)
        sgl = hostile.sgl_transport(count * BLOCK) if opcode in (WRITE, READ, COMPARE) else hostile.sgl_transport(0)
        self.io.s.sendall(hostile.capsule(head + sgl + struct.pack("<QI12x", block, count - 1)))
        got = b""
        while True:
            pdu = self.io.pdu()
            if pdu[0] == hostile.C2H_DATA:
                got += pdu[pdu[3]:]
            elif pdu[0] == hostile.R2T:
                _, _, offset, _ = struct.unpack("<HHII", pdu[8:20])
                self.io.s.sendall(hostile.h2c_data(pdu, data[offset:]))
            else:
                assert pdu[0] == hostile.RESPONSE, pdu[0]
                return struct.unpack("<H", pdu[22:24])[0] >> 1 & 0x7ff, got

    def known(self, block, count):
        return b"".join(self.content.get(index, bytes(BLOCK)) for index in range(block, block + count))

    def step(self):
        opcode = self.chance.choice([WRITE] * 4 + [READ] * 4 + [COMPARE, WRITE_ZEROES, FLUSH, UNKNOWN])
        block, count = self.number * REGION_BLOCKS + self.chance.randrange(REGION_BLOCKS - BLOCKS_MAX), self.chance.randrange(1, BLOCKS_MAX + 1)
        if self.chance.randrange(40) == 0:
            block = 1 << 40     # beyond the end
        data = self.chance.randbytes(count * BLOCK) if opcode == WRITE else self.known(block, count) if opcode == COMPARE else b""
        if opcode == COMPARE and self.chance.randrange(4) == 0:
            data = bytes([data[0] ^ 1]) + data[1:]
        if self.inject and self.chance.randrange(30) == 0:
            self.inject()
        status, got = self.command(opcode, block, count, data)
        if status == 0 and opcode in (WRITE, WRITE_ZEROES):
            data = data or bytes(count * BLOCK)
            self.content.update({block + index: data[index * BLOCK:(index + 1) * BLOCK] for index in range(count)})
        assert status != 0 or opcode != READ or got == self.known(block, count), f"host {self.number}: block {block} has wrong data"
        self.counts[opcode, status] = self.counts.get((opcode, status), 0) + 1
        self.digest.update(struct.pack("<BQIH", opcode, block, count, status) + got)

    def run(self):
        try:
            for _ in range(COMMANDS):
                self.step()
                time.sleep(PAUSE)
        except Exception as error:  # pylint: disable=broad-except
            self.error = error


class SeededOperator(threading.Thread):
    """Makes calls that its seed chooses, some of them wrong. `digest`: of what they changed, or of their errors."""

    def __init__(self, engine):
        super().__init__(daemon=True)
        self.engine, self.chance, self.digest, self.error = engine, random.Random(SEED), hashlib.sha256(), None

    def step(self):
        name, size = self.chance.choice("abc"), self.chance.randrange(1, 9) * MIB
        method, params = self.chance.choice([
            ("volume_create", {"pool": "p", "volume": name, "size": size}), ("volume_resize", {"pool": "p", "volume": name, "size": size}),
            ("volume_destroy", {"pool": "p", "volume": name}), ("volume_rename", {"pool": "p", "volume": name, "new_name": "d"}),
            ("bdev_null_create", {"name": "N" + name, "num_blocks": size // 512, "block_size": 512}), ("bdev_null_delete", {"name": "N" + name})])
        try:
            self.engine.rpc(method, **params)
            result = "done"
        except RpcError as error:
            result = str(error.code)
        volumes = sorted((row["pool"], row["name"], row["size"]) for row in self.engine.rpc("volume_get_volumes"))
        self.digest.update(f"{method} {params} {result} {volumes}".encode())

    def run(self):
        try:
            for _ in range(max(10, COMMANDS // 20)):
                self.step()
                time.sleep(20 * PAUSE)
        except Exception as error:  # pylint: disable=broad-except
            self.error = error


class Watchers:
    """The doctor, top and scrapes, until stop()."""

    def __init__(self, engine, metrics_port, directory):
        self.engine, self.port, self.stopped = engine, metrics_port, threading.Event()
        self.reports, self.scrapes, self.error, self.top_path = [], 0, None, os.path.join(directory, "top")
        self.top_file = open(self.top_path, "w")
        self.top = subprocess.Popen([FATHOM, "top", "--json", "-i", "1s", str(engine.pid)], stdout=self.top_file)
        self.threads = [threading.Thread(target=self.loop, args=job, daemon=True) for job in ((self.ask, DOCTOR_PAUSE), (self.scrape, 1))]
        for thread in self.threads:
            thread.start()

    def loop(self, job, pause):
        try:
            while not self.stopped.is_set():
                job()
                self.stopped.wait(pause)
        except Exception as error:  # pylint: disable=broad-except
            self.error = error

    def ask(self):
        done = run(FATHOM, "doctor", "--json", self.engine.pid, check=False)
        assert done.returncode in (0, 1, 2), done.stderr
        self.reports.append(json.loads(done.stdout))

    def scrape(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=60) as answer:
            assert answer.read().decode().startswith("# ")
        self.scrapes += 1

    def are_ready(self):
        return self.error or (self.reports and self.scrapes and os.path.getsize(self.top_path))

    def stop(self):
        self.stopped.set()
        for thread in self.threads:
            thread.join(120)
        self.top.terminate()
        self.top.wait(60)
        self.top_file.close()
        if self.error:
            raise self.error
        pages = [json.loads(line) for line in open(self.top_path).read().splitlines()]
        assert pages and not any("error" in page for page in pages[:-1]), pages[-1]
        names = sorted({row["name"] for report in self.reports for row in report["findings"]})
        print(f"# {len(self.reports)} reports of the doctor ({' '.join(names) or 'healthy'}), {len(pages)} pages of top, {self.scrapes} scrapes", flush=True)


class RealEngine(EngineTest):
    def results(self, watched):
        """{who: digest of all results}"""
        storage, port = os.path.join(self.directory, f"storage{watched}"), free_port()
        os.mkdir(storage)
        engine = self.engine("--storage", storage, "--metrics", f"127.0.0.1:{port}")
        engine.rpc("pool_create", pool="p")
        engine.serve("bdev_malloc_create", "-b", "M0", 16, 512)
        engine.run_commands(f"bdev_malloc_create -b M1 16 512\nbdev_error_create M1\nbdev_aio_create {self.file(f'file{watched}', 16)} F0 512\n"
                            f"nvmf_subsystem_add_ns {NQN} EE_M1 -n 2\nnvmf_subsystem_add_ns {NQN} F0 -n 3\n")

        def inject():
            for io_type, options in (("clear", {}), ("all", {"num": 2})):
                engine.rpc("bdev_error_inject_error", name="EE_M1", io_type=io_type, error_type="failure", **options)
        watchers = Watchers(engine, port, self.directory) if watched else None
        if watchers:
            self.addCleanup(watchers.top.kill)
            wait_for(watchers.are_ready)
        threads = [SeededHost(engine, number, nsid, inject if nsid == 2 else None) for number, nsid in enumerate((1, 1, 2, 3, 3))] + [SeededOperator(engine)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(3600)
            self.assertFalse(thread.is_alive())
            if thread.error:
                raise thread.error
        if watchers:
            watchers.stop()
        self.assertIsNone(engine.process.poll(), engine.log_text())
        hosts = [thread for thread in threads if isinstance(thread, SeededHost)]
        print(f"# {sum(sum(host.counts.values()) for host in hosts)} commands, {len({key for host in hosts for key in host.counts})} kinds of results", flush=True)
        return {thread.number if thread in hosts else "operator": thread.digest.hexdigest() for thread in threads}

    def test_each_command_has_the_same_result_while_the_engine_is_watched(self):
        self.assertEqual(self.results(True), self.results(False))


@unittest.skipUnless(SIM, "FATHOM_SIM is not set")
class SimulatedEngine(unittest.TestCase):
    """A seed takes as long as its simulated time, at most; its trace file and its process are watched meanwhile."""

    def watch(self, process):
        """What one reads of a live engine without a socket; the number of reports."""
        path = wait_for(lambda: process.poll() is not None or "".join(glob.glob("/dev/shm/sim_trace.pid*")))    # the seed's own process makes it
        pid, count = str(path).rpartition("pid")[2], 0
        while process.poll() is None:
            for words in (["doctor", "--json", pid], ["trace", "stuck", "-f", path], ["trace", "threads", "-f", path],
                          ["trace", "summary", "-f", path], ["trace", "-n", "20", "-f", path]):
                done = run(FATHOM, *words, check=False)
                count += words[0] == "doctor" and done.returncode in (0, 1, 2)
        return count

    def test_the_trace_of_a_seed_is_the_same_while_it_is_watched(self):
        for seed in SIM_SEEDS:
            alone = run(SIM, "--seed", seed).stdout
            with subprocess.Popen([SIM, "--seed", str(seed), "--real-time"], stdout=subprocess.PIPE, text=True) as process:
                count = self.watch(process)
                watched = process.stdout.read()
            self.assertEqual(process.returncode, 0)
            self.assertGreater(count, 0)
            self.assertRegex(alone, r"trace [0-9a-f]{16}")
            self.assertEqual(watched, alone)
            print(f"# seed {seed}: {count} reports of the doctor; trace {re.search('trace ([0-9a-f]+)', alone)[1]}", flush=True)


if __name__ == "__main__":
    unittest.main()
