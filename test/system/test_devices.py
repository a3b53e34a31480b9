# SPDX-License-Identifier: BSD-2-Clause
"""Devices that hang, fail or are full beside sound ones, the lines that the engine logs about them, and the UUIDs of devices."""

import json
import os
import re
import subprocess
import threading
import time
import unittest

import fake_server
from hanging import FLUSH, OPEN, HangingFile
from harness import FATHOM, NQN, EngineTest, RpcError, run

OTHER = NQN + ":other"
DEVICE_UNRESPONSIVE = 1072


class DeviceTest(EngineTest):
    def setUp(self):
        super().setUp()
        self.hung_files, self.servers = [], []

    def hanging_file(self):
        self.hung_files.append(HangingFile(self.directory, 16 << 20))
        return self.hung_files[-1]

    def tearDown(self):
        for file in self.hung_files:    # before the engines: a process with I/O at the device cannot end
            file.close()
        for server in self.servers:
            server.stop()
        super().tearDown()

    def wait_for_log(self, engine, pattern, seconds=60):
        deadline = time.monotonic() + seconds
        while not re.search(pattern, engine.log_text()):
            if time.monotonic() > deadline:
                self.fail(f"no line like {pattern!r} in {seconds} s:\n{engine.log_text()}")
            time.sleep(0.1)

    def start_perf(self, engine, nqn, *options):
        words = [FATHOM, "perf", "-a", "127.0.0.1", "-s", engine.port, "-n", nqn, "--quiet", *options]
        process = subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(self.end_process, process)
        return process

    @staticmethod
    def end_process(process):
        if process.poll() is None:
            process.kill()
        process.wait()


class HungDevice(DeviceTest):
    def export_hung_and_sound(self, engine, hung):
        engine.serve("bdev_aio_create", hung.path, "Hung", 4096)
        engine.run_commands(f"""bdev_uring_create {self.file("sound", 16)} Sound 4096
nvmf_create_subsystem {OTHER} -a -s SPDK00000000000002 -m 10
nvmf_subsystem_add_listener {OTHER} -t tcp -a 127.0.0.1 -s {engine.port}
nvmf_subsystem_add_ns {OTHER} Sound
""")

    def load_hung_beside_sound(self, **environment):
        """(engine, hung file, host): the host's reads hang while another host's load on a sound device completes."""
        hung = self.hanging_file()
        engine = self.engine("-m", "0x1", env=environment)
        self.export_hung_and_sound(engine, hung)
        hung.hang()
        host = self.start_perf(engine, NQN, "--rw", "randread", "--bs", "4k", "--depth", 100, "--time", 300, "--timeout", 0)
        deadline = time.monotonic() + 60
        while hung.held_count() < 8:        # the most that one device may have at a time
            self.assertLess(time.monotonic(), deadline, engine.log_text())
            time.sleep(0.05)
        done = run(FATHOM, "perf", "-a", "127.0.0.1", "-s", engine.port, "-n", OTHER, "--rw", "mix", "--bs", "4k", "--depth", 8,
                   "--count", 2000, "--verify", "--json", timeout=100)
        self.assertGreaterEqual(json.loads(done.stdout)["total"]["ios"], 2000)
        return engine, hung, host

    def check_slow_and_recovered(self, engine, hung, host):
        self.wait_for_log(engine, r"WARNING: device Hung is slow: \d+ I/Os are under way, and none has completed for \d+ s")
        self.assertNotRegex(engine.log_text(), "WARNING: device Sound")
        hung.release()
        self.wait_for_log(engine, r"NOTICE: device Hung has recovered: it was slow for \d+ s")
        self.assertEqual(engine.log_text().count("device Hung is slow"), 1)
        self.end_process(host)
        self.assertEqual(engine.stop(), 0, engine.log_text())

    def test_a_hung_device_does_not_stop_others_and_is_logged(self):
        self.check_slow_and_recovered(*self.load_hung_beside_sound())

    def test_a_hung_device_without_io_uring_does_not_stop_others_and_is_logged(self):
        self.check_slow_and_recovered(*self.load_hung_beside_sound(FATHOM_NO_URING="1"))

    def test_a_hung_device_is_deleted_in_bounded_time_and_late_completions_are_absorbed(self):
        engine, hung, host = self.load_hung_beside_sound()
        self.end_process(host)
        before = time.monotonic()
        try:
            engine.rpc("bdev_aio_delete", name="Hung", timeout=60)
        except RpcError as error:
            self.assertEqual(error.code, -110)
            self.assertIn('"Hung" is deleted, but some of its I/O has not completed', error.message)
        else:
            self.fail("the deletion succeeded although I/O is still at the device")
        self.assertLess(time.monotonic() - before, 50)
        self.assertEqual([row["name"] for row in engine.rpc("bdev_get_bdevs")], ["Sound"])
        hung.release()
        self.wait_for_log(engine, r"NOTICE: block device Hung: its file was closed \d+ s after its deletion")
        self.assertEqual(engine.stop(), 0, engine.log_text())

    def test_an_engine_with_hung_io_ends_in_bounded_time(self):
        engine, hung, host = self.load_hung_beside_sound()
        engine.process.terminate()
        self.wait_for_log(engine, "ERROR: .*: exiting (without them|anyway)", 40)
        self.wait_for_log(engine, "ERROR: block device Hung: its disk does not respond, so the engine stops without it")
        hung.release()      # the kernel keeps a process until its I/O completes
        self.assertEqual(engine.process.wait(60), 1)

    def wait_for_held(self, hung):
        deadline = time.monotonic() + 60
        while hung.held_count() == 0:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def start_call(self, engine, method, **params):
        """Call `method`, which hangs; the list that gets its result, and the thread."""
        results = []
        thread = threading.Thread(target=lambda: results.append(engine.rpc(method, timeout=100, **params)))
        thread.start()
        self.addCleanup(thread.join)
        return results, thread

    def test_a_file_whose_open_or_close_hangs_stops_no_other_call(self):
        hung = self.hanging_file()
        engine = self.engine()
        engine.serve("bdev_null_create", "N", 16, 4096)
        for opcode, method, params in ((OPEN, "bdev_aio_create", {"filename": hung.path, "block_size": 4096}),
                                       (FLUSH, "bdev_aio_delete", {})):
            hung.hang(opcode)
            results, thread = self.start_call(engine, method, name="Hung", **params)
            self.wait_for_held(hung)
            self.assertEqual([row["name"] for row in engine.rpc("bdev_get_bdevs")], ["N"])
            engine.perf("--quiet", "--count", 10, "--rw", "read")
            self.assertEqual(results, [])
            hung.release()
            thread.join(60)
            self.assertEqual(len(results), 1)
        self.assertEqual(engine.stop(), 0, engine.log_text())

    def test_an_engine_stops_without_a_file_whose_open_or_close_hangs(self):
        opening, closing = self.hanging_file(), self.hanging_file()
        self.servers.append(fake_server.Server(self.directory))
        first, second = self.engine(), self.engine("--socket-dir", self.directory, "--listen", "127.0.0.1:0", "--instance", "0",
                                                   "--uuid", "6ba7b810-9dad-41d1-80b4-00c04fd430c8")
        second.rpc("bdev_aio_create", name="Hung", filename=closing.path, block_size=4096)
        opening.hang(OPEN)
        closing.hang(FLUSH)
        call = subprocess.Popen([FATHOM, "rpc", "-s", first.sock, "bdev_aio_create", opening.path, "Hung", "4096"],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(self.end_process, call)
        self.wait_for_held(opening)
        for engine in (first, second):
            engine.process.terminate()
        for engine, hung in ((first, opening), (second, closing)):
            self.wait_for_log(engine, "ERROR: block device Hung: its disk does not respond, so the engine stops without it")
            self.wait_for_log(engine, "shows more")
            hung.release()      # the kernel keeps a process until its calls return
            self.assertEqual(engine.process.wait(60), 1)
            self.assertNotIn("not stopped after", engine.log_text())
        unresponsive, = [event.event for event in self.servers[0].events if event.event.id == DEVICE_UNRESPONSIVE]
        self.assertIn("device Hung: its disk did not respond", unresponsive.msg)


class FailingDevice(DeviceTest):
    def test_errors_of_a_device_are_logged_in_one_line_with_their_number(self):
        engine = self.engine()
        engine.run_commands("bdev_malloc_create -b M 16 4096\nbdev_error_create M\n")
        engine.serve("bdev_null_create", "N", 16, 4096)
        engine.run_commands(f"nvmf_subsystem_add_ns {NQN} EE_M\nbdev_error_inject_error EE_M read failure -n 20\n")
        engine.perf("--quiet", "--count", 20, "--nsid", 2, "--rw", "read", "--depth", 1, check=False)
        self.wait_for_log(engine, "WARNING: device EE_M: [0-9]+ I/Os? failed: ")
        engine.run_commands("bdev_error_inject_error EE_M read failure -n 30\n")
        engine.perf("--quiet", "--count", 30, "--nsid", 2, "--rw", "read", "--depth", 1, check=False)
        self.assertEqual(engine.stop(), 0)
        lines = re.findall("device EE_M: .*", engine.log_text())
        self.assertLessEqual(len(lines), 2, lines)
        counts = [int(re.match(r"device EE_M: (\d+) ", line).group(1)) for line in lines]
        self.assertGreaterEqual(sum(counts), 2)
        if len(lines) == 2:
            self.assertIn(f" {sum(counts)} in all: ", lines[1])
        self.assertNotIn("device N:", engine.log_text())

    def test_writes_without_space_are_logged(self):
        if os.geteuid() != 0:
            self.skipTest("mounting needs root")
        small = os.path.join(self.directory, "small")
        os.mkdir(small)
        run("mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", small)
        self.addCleanup(run, "umount", "-l", small)
        path = os.path.join(small, "disk")
        with open(path, "wb") as file:
            file.truncate(64 << 20)
        engine = self.engine()
        engine.serve("bdev_uring_create", path, "Small", 4096)
        engine.perf("--quiet", "--count", 2000, "--rw", "write", "--bs", "16k", "--depth", 4, check=False)
        self.wait_for_log(engine, r"WARNING: device Small: \d+ I/Os? failed: no space is left \(hosts see Capacity Exceeded\)")
        engine.stop()

    def test_a_full_queue_of_a_device_is_logged(self):
        hung = self.hanging_file()
        engine = self.engine("-m", "0x1")
        engine.serve("bdev_aio_create", hung.path, "Hung", 4096)
        hung.hang()
        for _ in range(4):      # 128 I/Os of a device may be under way on a core
            self.start_perf(engine, NQN, "--rw", "randread", "--bs", "4k", "--depth", 100, "--time", 300, "--timeout", 0)
        self.wait_for_log(engine, r"WARNING: device Hung: its queue is full: \d+ I/Os? waited for earlier ones")
        hung.release()


class DeviceIdentity(DeviceTest):
    def uuid(self, engine, name="Disk0"):
        return next(row["uuid"] for row in engine.rpc("bdev_get_bdevs") if row["name"] == name)

    def test_two_files_with_the_same_path_get_different_uuids(self):
        """The second engine finds another file at the path, as an engine on another machine would."""
        path, found = self.file("disk", 16), []
        for _ in range(2):
            engine = self.engine()
            engine.run_commands(f"bdev_uring_create {path} Disk0 512\n")
            found.append(self.uuid(engine))
            self.assertIn(f"has no UUID yet: it is {found[-1]} from now on", engine.log_text())
            os.unlink(path)
            self.file("disk", 16)
        self.assertNotEqual(found[0], found[1])

    def test_a_saved_configuration_keeps_the_uuid_of_a_replaced_file(self):
        engine = self.engine()
        engine.run_commands(f"bdev_uring_create {self.file('disk', 16)} Disk0 512\n")
        uuid = self.uuid(engine)
        path = os.path.join(self.directory, "config.json")
        open(path, "w").write(run(FATHOM, "rpc", "-s", engine.sock, "save_config").stdout)
        engine.stop()
        os.unlink(os.path.join(self.directory, "disk"))
        self.file("disk", 16)
        self.assertEqual(self.uuid(self.engine("-c", path)), uuid)

    def test_an_explicit_uuid_is_used(self):
        uuid = "0f3a7a52-38a5-4f62-9d50-1a4b7e3c2d10"
        engine = self.engine()
        engine.rpc("bdev_aio_create", name="Disk0", filename=self.file("disk", 16), block_size=512, uuid=uuid)
        self.assertEqual(self.uuid(engine), uuid)
        self.assertNotIn("has no UUID yet", engine.log_text())


if __name__ == "__main__":
    unittest.main()
