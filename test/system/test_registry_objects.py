# SPDX-License-Identifier: BSD-2-Clause
"""How fathom-probed finds probes: the DOF and the notes of the engine, and large objects, which it copies in slices."""

import glob
import json
import os
import signal
import struct
import subprocess
import unittest

from harness import ENGINE, FATHOM, Engine, run
from registry_rig import ADD, HELLO, NOTES, REMOVE, RegistryTest, read, wait_for


class EngineProbes(RegistryTest):
    """fathom-engine registers its own probes, made into DOF at start."""

    def engine(self, socket_path):
        engine = Engine(self.directory, env={"FATHOM_PROBED_SOCKET": socket_path})
        self.addCleanup(engine.discard)
        return engine

    def test_the_engine_registers_the_probes_of_its_notes(self):
        probed = self.probed()
        engine = self.engine(probed.socket)
        rows = {row["probe"]: row for row in probed.rows(str(engine.pid))}
        noted = {row["probe"]: row for row in map(json.loads, run(FATHOM, "probe", "list", "--json", engine.pid).stdout.splitlines())
                 if row["provider"] == "fathom"}
        self.assertEqual(set(rows), set(noted))
        for name, row in rows.items():
            self.assertEqual((row["provider"], row["module"], row["function"]), ("fathom", "fathom-engine", name))
            self.assertEqual(len(row["sites"]), noted[name]["places"], name)
            self.assertEqual(len(row["args"]), len(noted[name]["args"]), name)
        self.assertEqual(rows["reactor_wake"]["args"], ["uint64_t", "uint32_t", "int", "uint32_t"])
        self.assertEqual(rows["bdev_io_done"]["args"][1], "void *")
        maps = [line.split() for line in read(f"/proc/{engine.pid}/maps").splitlines()]
        code = [[int(part, 16) for part in line[0].split("-")] for line in maps if line[-1].endswith("fathom-engine") and "x" in line[1]]
        for row in rows.values():
            for site in row["sites"]:
                self.assertTrue(any(start <= int(site["address"], 16) < end for start, end in code), row["probe"])
        self.assertEqual(engine.stop(), 0)
        wait_for(lambda: self.tree_is_empty(probed))

    def test_the_engine_registers_with_a_daemon_that_starts_later(self):
        engine = self.engine(os.path.join(self.directory, "probed.sock"))
        probed = self.probed()
        wait_for(lambda: probed.providers(engine.pid) == ["fathom"])


class Notes(RegistryTest):
    """Processes with SDT notes are found, registered or not."""

    def test_an_engine_that_did_not_register_is_found_by_its_notes(self):
        probed = self.probed()
        engine = Engine(self.directory, env={"FATHOM_PROBED_SOCKET": ""})
        self.addCleanup(engine.discard)
        self.assertEqual(probed.rows(str(engine.pid)), [])
        rows = {row["probe"]: row for row in probed.rows("--all", str(engine.pid)) if row["provider"] == "fathom"}
        noted = {row["probe"]: row for row in map(json.loads, run(FATHOM, "probe", "list", "--json", engine.pid).stdout.splitlines())
                 if row["provider"] == "fathom"}
        self.assertEqual(set(rows), set(noted))
        row = rows["reactor_wake"]
        self.assertEqual((row["found"], row["module"], row["function"]), ("SDT notes", "fathom-engine", "-"))
        self.assertEqual(row["args"], ["uint64_t", "uint32_t", "uint32_t", "uint32_t"])
        maps = [line.split() for line in read(f"/proc/{engine.pid}/maps").splitlines()]
        code = [[int(part, 16) for part in line[0].split("-")] for line in maps if line[-1].endswith("fathom-engine") and "x" in line[1]]
        self.assertTrue(all(start <= int(site["address"], 16) < end for site in row["sites"] for start, end in code))

    @unittest.skipUnless(os.geteuid() == 0, "root is needed for a mount namespace")
    def test_an_engine_in_a_private_filesystem_is_found_by_its_notes(self):
        """As in a container: the test's namespace has no path to its program."""
        probed, place = self.probed(), os.path.join(self.directory, "place")
        os.mkdir(place)
        program = os.path.join(place, "fathom-engine")
        process = subprocess.Popen(["unshare", "-m", "sh", "-c", f"mount -t tmpfs t {place} && cp {ENGINE} {program} && "
                                    f"exec {program} -m 1 -r {self.directory}/e.sock --name {os.path.basename(self.directory)}"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env=dict(os.environ, FATHOM_PROBED_SOCKET=""))
        self.addCleanup(lambda: [os.unlink(path) for path in glob.glob(f"/dev/shm/{os.path.basename(self.directory)}_trace.*")])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        wait_for(lambda: os.path.exists(f"{self.directory}/e.sock"))
        self.assertFalse(os.path.exists(program))
        self.assertIn("bdev_io_done", {row["probe"] for row in probed.rows("--all", str(process.pid)) if row["found"] == "SDT notes"})
        process.terminate()
        process.wait(60)

    def test_option_all_lists_registrations_and_notes_of_all_processes(self):
        probed = self.probed()
        engine = Engine(self.directory, env={"FATHOM_PROBED_SOCKET": probed.socket})
        self.addCleanup(engine.discard)
        found = {(row["pid"], row["found"]) for row in probed.rows("--all", "fathom")}
        self.assertLessEqual({(engine.pid, "socket"), (engine.pid, "SDT notes")}, found)
        self.assertEqual(probed.status()["jail"]["children_started"], 1)

    def test_clients_that_disconnect_before_the_reply_leave_no_connection(self):
        probed = self.probed()
        for _ in range(20):
            one = probed.connect()
            one.send(NOTES)
            one.close()
        self.assertTrue(probed.rows("--all"))
        wait_for(lambda: probed.status()["clients"] == 1)


SLICE_BYTES, LOADSZ_AT = 256 << 10, 40


class LargeObjects(RegistryTest):
    """Large objects delay no other process. The daemon copies one slice a turn, so the tests count slices, not time."""

    def sample_object(self, loaded=None):
        """A small object. `loaded`: the size that its header states as loaded."""
        with open(os.path.join(os.path.dirname(__file__), "..", "unit", "inspect", "probed", "samples", "simple.dof"), "rb") as file:
            data = bytearray(file.read())
        if loaded:
            data[LOADSZ_AT:LOADSZ_AT + 8] = struct.pack("<Q", loaded)
        return bytes(data)

    def memfd(self, data, bytes_=None):
        fd = os.memfd_create("object")
        self.addCleanup(os.close, fd)
        os.write(fd, data)
        os.truncate(fd, bytes_ or len(data))
        return fd

    def send_add(self, one, bytes_, data, address):
        one.send(ADD, length=bytes_, address=address, base=address, fds=[self.memfd(data, bytes_)])

    def address(self):
        """An address in a file that this process has mapped."""
        with open("/proc/self/maps") as maps:
            return next(int(line.split("-")[0], 16) for line in maps if "/" in line and "r-xp" in line)

    def test_bytes_beyond_the_loaded_size_are_neither_stored_nor_copied(self):
        probed, size = self.probed(), 64 << 20
        data = self.sample_object()
        loaded = struct.unpack_from("<Q", data, LOADSZ_AT)[0]
        self.assertLess(loaded, 4096)
        with probed.connect() as one:
            self.send_add(one, size, data, self.address())
            error, generation, text = one.reply()
            self.assertEqual(error, 0, text)
            status = probed.status()
            self.assertEqual((status["large"], status["slices"], status["jail"]["slices"]), (0, 0, 1))
            self.assertEqual(status["tree"]["bytes"], loaded)
            [name] = os.listdir(f"{probed.tree}/stash/dof")
            self.assertEqual(os.stat(f"{probed.tree}/stash/dof/{name}").st_size, loaded)
            self.assertEqual(one.ask(REMOVE, generation)[0], 0)

    def test_other_clients_are_served_while_a_large_object_is_copied(self):
        """If the daemon copied it at once, no number of slices between none and all could be observed."""
        probed, size = self.probed(), 64 << 20
        slices = size // SLICE_BYTES
        address, data = self.address(), self.sample_object(size)
        seen = set()
        for number in range(5):
            before = probed.status()
            with probed.connect() as one, probed.connect() as other:
                self.send_add(one, size, data, address)
                while True:
                    status = json.loads(other.ask(HELLO)[2])
                    seen.add(status["slices"] - before["slices"] + status["jail"]["slices"] - before["jail"]["slices"])
                    if not status["under_way"] and status["large"] > before["large"]:
                        break
                error, generation, text = one.reply()
                self.assertEqual(error, 0, text)
                self.assertEqual(status["slices"] - before["slices"], slices + 1)    # and one to find no equal object
                self.assertEqual(status["jail"]["slices"] - before["jail"]["slices"], slices)
                self.assertEqual(status["tree"]["bytes"], size)
                self.check_tree(probed.tree, [os.getpid()])
                self.assertEqual(one.ask(REMOVE, generation)[0], 0)
            if len(seen - {0, 2 * slices + 1}) > 2:
                break
        self.assertGreater(len(seen - {0, 2 * slices + 1}), 2)
        self.assertEqual(probed.status()["tree"]["bytes"], 0)

    def test_the_same_large_object_again_is_compared_in_slices(self):
        probed, size = self.probed(), 4 << 20
        slices = size // SLICE_BYTES
        address, data = self.address(), self.sample_object(size)
        with probed.connect() as one:
            generations = []
            for number in range(2):
                before = probed.status()["slices"]
                self.send_add(one, size, data, address)
                error, generation, text = one.reply()
                self.assertEqual(error, 0, text)
                generations.append(generation)
                self.assertEqual(probed.status()["slices"] - before, slices + (slices if number else 1))
            self.assertEqual(len(set(generations)), 2)
            # a difference in the last byte is found
            file = self.memfd(data, size)
            os.pwrite(file, b"x", size - 1)
            one.send(ADD, length=size, address=address, base=address, fds=[file])
            error, _, text = one.reply()
            self.assertEqual(error, -116, text)
            self.check_tree(probed.tree, [os.getpid()])
            for generation in generations:
                self.assertEqual(one.ask(REMOVE, generation)[0], 0)
        self.assertEqual(os.listdir(f"{probed.tree}/stash/dof"), [])
        self.assertEqual(probed.status()["tree"]["bytes"], 0)

    @unittest.skipUnless(os.geteuid() == 0, "root is needed to act as a second user")
    def test_large_objects_of_two_users_are_copied_in_turns(self):
        """An object of one user does not wait for all large objects of another."""
        probed, size, small = self.probed(), 48 << 20, 1 << 20
        address, large = self.address(), self.sample_object(size)  # read here: the other user may not reach a clone in a private folder
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.setresuid(65534, 65534, 65534)
                flood = [probed.connect() for _ in range(2)]
                for one in flood:
                    self.send_add(one, size, large, address)
                os.write(writer, b"1")
                for one in flood:
                    one.reply()
                signal.pause()
            finally:
                os._exit(1)  # the child must not run the other tests
        os.close(writer)
        try:
            self.assertEqual(os.read(reader, 1), b"1", "the other user ended before it had sent its objects")
            with probed.connect() as one:
                self.send_add(one, small, self.sample_object(small), address)
                error, _, text = one.reply()
                self.assertEqual(error, 0, text)
                status = probed.status()
                # every second slice was for this user, so the other user's objects are not copied yet
                self.assertLess(status["slices"], 2 * size // SLICE_BYTES)
                self.assertGreaterEqual(status["under_way"], 1)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(reader)


if __name__ == "__main__":
    unittest.main()
