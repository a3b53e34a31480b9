# SPDX-License-Identifier: BSD-2-Clause
"""`fathom ddb` on the storage of a real engine: running, killed, damaged on purpose; by command, from a file, on a terminal."""

import hashlib
import json
import os
import random
import re
import subprocess
import sys
import time
import unittest

import xfs
from harness import FATHOM, NQN, EngineTest, run, wait_for
from terminal import Terminal

MIB = 1 << 20


def crc32c(data):
    value = 0xffffffff
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82f63b78 if value & 1 else 0)
    return value ^ 0xffffffff


class Ddb(EngineTest):
    def setUp(self):
        super().setUp()
        self.storage = os.path.join(self.directory, "storage")
        os.mkdir(self.storage)

    def ddb(self, *words, status=0, **kwargs):
        done = run(FATHOM, "ddb", *words, check=False, stdin=kwargs.pop("stdin", subprocess.DEVNULL), **kwargs)
        self.assertEqual(done.returncode, status, f"{words}: {done.stdout}{done.stderr}")
        return done

    def json(self, *words, status=0):
        return json.loads(self.ddb("--json", *words, status=status).stdout)

    def problems(self, status=1):
        return {(row["problem"], row["path"]) for row in self.json(self.storage, "verify", status=status)["findings"]}

    def path(self, *names):
        return os.path.join(self.storage, *names)

    def make(self):
        """An engine with the pools p1 and p2, and the volumes p1/a, p1/b (thick), p2/a."""
        engine = self.engine("--storage", self.storage)
        engine.run_commands("pool_create p1\npool_create p2\nvolume_create p1 a 8M\nvolume_create p1 b 4M --thick\nvolume_create p2 a 4M\n")
        return engine

    def make_and_kill(self):
        self.make().kill()

    def state_of(self, engine):
        return {volume["device"]: volume["state"] for volume in engine.rpc("volume_get_volumes")}

    def test_a_running_engine_s_storage_can_be_read_and_not_written(self):
        engine = self.make()
        done = self.ddb(self.storage, "verify")
        self.assertIn("an engine uses", done.stderr)
        self.assertIn("pools: 2, volumes: 3, snapshots: 0", done.stdout)
        self.assertIn("damage: 0, notes: 0", done.stdout)
        done = self.ddb("--write", self.storage, "verify", status=2)
        self.assertIn("stop its engine", done.stderr)
        engine.rpc("volume_create", pool="p1", volume="c", size=MIB)    # the engine was not disturbed
        self.assertEqual(engine.stop(), 0)
        self.assertNotIn("an engine uses", self.ddb("--write", self.storage, "verify").stderr)

    def test_what_a_kill_leaves_is_listed_and_shown(self):
        self.make_and_kill()
        self.assertIs(self.json(self.storage, "verify")["healthy"], True)
        rows = self.json(self.storage, "list")["objects"]
        self.assertEqual([row["name"] for row in rows], ["p1", "p1/a", "p1/b", "p2", "p2/a"])
        self.assertEqual([row["name"] for row in self.json(self.storage, "ls p1")["objects"]], ["p1/a", "p1/b"])
        self.assertEqual([row["name"] for row in self.json(self.storage, "ls")["objects"]], ["p1", "p2"])
        self.assertRegex(self.ddb(self.storage, "ls p1").stdout, r"(?m)^p1/b +volume +4194304 +4\d+ +ok")
        shown = self.json(self.storage, "show", "p1/b")
        self.assertEqual((shown["size_bytes"], shown["thick"], shown["generation"]), (4 * MIB, True, 1))
        self.assertEqual(self.json(self.storage, "show [0]/[1]"), shown)
        self.assertIn("size_bytes       4194304", self.ddb(self.storage, "show p1/b").stdout)
        record = json.loads(self.ddb(self.storage, "value_dump", "p1/b").stdout)
        self.assertEqual(record["volume"]["uuid"], shown["uuid"])

    def test_damage_is_found_repaired_after_a_question_and_served_again(self):
        self.make_and_kill()
        record = self.path("pools/p1/volumes/a/volume.json")
        with open(record) as file:
            text = file.read()
        with open(record, "w") as file:
            file.write(text.replace('"thick": false', '"thick": true'))     # its checksum is wrong now
        os.truncate(self.path("pools/p1/volumes/b/data.1"), MIB)
        os.rmdir(self.path("pools/p2/volumes/a/snapshots"))
        os.mkdir(self.path("pending/unfinished"))
        with open(self.path("pools/p1/volumes/a/junk"), "w"):
            pass
        expected = {("record-checksum", "pools/p1/volumes/a/volume.json"), ("data-short", "pools/p1/volumes/b/data.1"), ("pending", "pending/unfinished"),
                    ("folder-missing", "pools/p2/volumes/a/snapshots"), ("stray", "pools/p1/volumes/a/junk")}
        self.assertEqual(self.problems(), expected)
        self.assertIn("need --write", self.ddb(self.storage, "repair", status=1).stderr)
        self.assertIn("confirm with --yes", self.ddb("--write", self.storage, "repair", status=1).stderr)
        self.assertEqual(self.problems(), expected)
        done = self.ddb("--write", "--yes", self.storage, "repair")
        self.assertIn("extend the data file", done.stdout)
        self.assertEqual({problem for problem, _ in self.problems(status=0)}, {"trash"})
        engine = self.engine("--storage", self.storage)
        self.assertEqual(self.state_of(engine), {"p1/a": "ONLINE", "p1/b": "ONLINE", "p2/a": "ONLINE"})
        wait_for(lambda: engine.rpc("pool_get_pools")["storage"]["trash_objects"] == 0)
        self.assertEqual(engine.stop(), 0)
        self.assertEqual(self.problems(status=0), set())

    def test_a_record_that_cannot_be_read_is_written_again_by_value_load(self):
        self.make_and_kill()
        with open(self.path("pools/p2/volumes/a/volume.json"), "w") as file:
            file.write("not JSON")
        self.assertEqual(self.problems(), {("record-damaged", "pools/p2/volumes/a/volume.json")})
        self.ddb("--write", "--yes", self.storage, "repair", status=1)      # it has none
        form = os.path.join(self.directory, "form.json")
        self.ddb(self.storage, "value_dump", "p1/b", form)
        with open(form) as file:
            text = file.read()
        with open(form, "w") as file:
            uuid = json.loads(text)["volume"]["uuid"]
            file.write(text.replace(uuid, "11111111-2222-4333-8444-555555555555").replace('"thick": true', '"thick": false'))
        self.ddb("--write", "--yes", self.storage, "value_load", form, "p2/a")
        self.assertEqual(self.problems(status=0), set())
        engine = self.engine("--storage", self.storage)
        self.assertEqual(self.state_of(engine)["p2/a"], "ONLINE")

    def test_data_survive_a_dump_the_loss_of_the_volume_and_a_load(self):
        engine, state = self.make(), os.path.join(self.directory, "state")
        engine.run_commands(f"""nvmf_create_transport -t tcp
nvmf_create_subsystem {NQN} -a -m 10
nvmf_subsystem_add_ns {NQN} p1/a
nvmf_subsystem_add_listener {NQN} -t tcp -a 127.0.0.1 -s {engine.port}
""")
        engine.perf("--rw", "mix", "--count", "500", "--verify-state", state)
        engine.kill()
        image = os.path.join(self.directory, "a.img")
        dumped = self.json(self.storage, "dump", "p1/a", image)
        with open(image, "rb") as file:
            self.assertEqual(hashlib.sha256(file.read()).hexdigest(), dumped["sha256"])
        self.assertEqual(dumped["size_bytes"], 8 * MIB)
        self.assertIn("File exists", self.ddb(self.storage, "dump", "p1/a", image, status=2).stderr)
        with open(self.path("pools/p1/volumes/a/data.1"), "r+b") as file:
            file.write(b"\0" * MIB)
        self.ddb("--write", "--yes", self.storage, "load", image, "p1/a", "0" * 64, status=2)
        self.assertEqual(self.json(self.storage, "show", "p1/a")["generation"], 1)
        self.assertEqual(self.json("--write", "--yes", self.storage, "load", image, "p1/a", dumped["sha256"])["sha256"], dumped["sha256"])
        self.assertEqual(self.json(self.storage, "show", "p1/a")["generation"], 2)
        engine = self.engine("--storage", self.storage)
        engine.run_commands(f"""nvmf_create_transport -t tcp
nvmf_create_subsystem {NQN} -a -m 10
nvmf_subsystem_add_ns {NQN} p1/a
nvmf_subsystem_add_listener {NQN} -t tcp -a 127.0.0.1 -s {engine.port}
""")
        engine.perf("--time", "0", "--verify-state", state)

    def test_a_snapshot_is_dumped_and_loaded_into_its_volume(self):
        if not xfs.mount(self, self.storage):
            self.skipTest("root, mkfs.xfs and a loop device are needed for reflinks")
        engine = self.make()
        engine.run_commands(f"""nvmf_create_transport -t tcp
nvmf_create_subsystem {NQN} -a -m 10
nvmf_subsystem_add_ns {NQN} p1/a
nvmf_subsystem_add_listener {NQN} -t tcp -a 127.0.0.1 -s {engine.port}
""")
        state = os.path.join(self.directory, "state")
        engine.perf("--rw", "write", "--count", "500", "--verify-state", state)
        engine.rpc("volume_snapshot", pool="p1", volume="a", snapshot="s1")
        engine.perf("--rw", "write", "--count", "500")
        engine.kill()
        self.assertEqual([row["name"] for row in self.json(self.storage, "ls p1/a")["objects"]], ["p1/a/s1"])
        report = self.json(self.storage, "verify")
        self.assertEqual((report["snapshots"], report["space"]["promised_bytes"]), (1, 12 * MIB))  # all of p1/a once more, and p2/a
        image, other = os.path.join(self.directory, "s1.img"), os.path.join(self.directory, "a.img")
        dumped = self.json(self.storage, "dump", "p1/a/s1", image)
        self.assertNotEqual(self.json(self.storage, "dump", "p1/a", other)["sha256"], dumped["sha256"])
        self.json("--write", "--yes", self.storage, "load", image, "p1/a", dumped["sha256"])
        record = self.path("pools/p1/volumes/a/snapshots/s1/snapshot.json")
        os.truncate(record, 10)
        self.assertEqual({problem for problem, path in self.problems() if path.endswith("json")}, {"record-damaged"})
        self.ddb("--write", "--yes", self.storage, "rm", "p1/a/s1")
        engine = self.engine("--storage", self.storage)
        engine.run_commands(f"""nvmf_create_transport -t tcp
nvmf_create_subsystem {NQN} -a -m 10
nvmf_subsystem_add_ns {NQN} p1/a
nvmf_subsystem_add_listener {NQN} -t tcp -a 127.0.0.1 -s {engine.port}
""")
        engine.perf("--time", "0", "--verify-state", state)
        engine.kill()
        self.problems(status=0)

    def test_data_are_compared_with_their_checksums(self):
        engine = self.make()
        self.assertIn("nothing has checksums", self.ddb(self.storage, "verify_data").stdout)
        engine.run_commands("volume_create p2 sums 4M --checksums\n")
        self.assertEqual(engine.stop(), 0)
        self.assertIn("p2/sums: blocks compared: 1024, not matching: 0, not compared: 0", self.ddb(self.storage, "verify_data").stdout)
        with open(self.path("pools/p2/volumes/sums/data.1"), "r+b") as file:
            file.seek(8191)
            file.write(b"xx")
        self.assertIn("DAMAGE data-mismatch: p2/sums: block 1, blocks: 2", self.ddb(self.storage, "verify_data p2/sums", status=1).stdout)
        self.assertEqual(self.json(self.storage, "verify_data", "p2", status=1)["objects"],
                         [{"name": "p2/sums", "blocks": 1024, "mismatches": 2, "suspect_blocks": 0, "ranges": [{"block": 1, "blocks": 2}]}])
        self.assertEqual(self.json(self.storage, "verify_data p1")["objects"], [])
        self.ddb(self.storage, "verify_data nosuch", status=2)

    def test_rm_moves_to_the_trash(self):
        self.make_and_kill()
        done = self.ddb("--write", "--yes", self.storage, "rm", "p1/a")
        self.assertIn("it is not damaged", done.stdout)
        os.mkdir(self.path("pools/bad name"))
        self.ddb("--write", "--yes", self.storage, "rm 'pools/bad name'")
        self.assertIn("name an object", self.ddb("--write", "--yes", self.storage, "rm", "../x", status=2).stderr)
        self.assertEqual({problem for problem, _ in self.problems(status=0)}, {"trash"})
        engine = self.engine("--storage", self.storage)
        self.assertEqual(set(self.state_of(engine)), {"p1/b", "p2/a"})

    def test_commands_come_from_a_file_and_from_standard_input(self):
        self.make_and_kill()
        script = os.path.join(self.directory, "script")
        with open(script, "w") as file:
            file.write(f"# a comment\nopen {self.storage}\nls\n\nshow 'p1/a'\nclose\nquit\nls\n")
        done = self.ddb("--json", "-f", script)
        self.assertEqual([next(iter(json.loads(line))) for line in done.stdout.splitlines()], ["objects", "kind"])
        with open(script) as file:
            self.assertEqual(self.ddb("--json", stdin=file).stdout, done.stdout)
        with open(script, "w") as file:
            file.write("ls\nnonsense\nls\n")
        done = self.ddb("-f", script, self.storage, status=2)
        self.assertIn('there is no command "nonsense"', done.stderr)
        self.assertEqual(done.stdout.count("p1 "), 1)

    def test_wrong_command_lines_and_other_folders_have_status_2(self):
        self.make_and_kill()
        for words, text in (((self.directory, "ls"), "not the storage of an engine"), (("/nowhere", "ls"), "cannot open /nowhere"),
                            ((self.storage, "show"), "usage: show PATH"), ((self.storage, "show", "p9"), 'no "p9"'), ((self.storage, "ls 'p1"), "closes its quotes"),
                            ((self.storage, "load", "/dev/null", "p1/a"), "confirm with --yes"), (("--nothing",), "nothing"),
                            (("verify", "p1"), "before the command verify")):
            done = self.ddb(*words, status=1 if "load" in words else 2)
            self.assertIn(text, done.stderr)
        self.assertIn("superblock_dump", self.ddb("help").stdout)
        self.assertIn("show", self.ddb("help", "show").stdout)

    def test_a_superblock_is_shown_or_its_damage_named(self):
        text = ("version: 1\nuuid: 950fc86b-1111-4222-8333-444444444444\nsystem: fathom\nrank: 3\nuri: ofi+tcp://10.0.0.1:20000\nvalidrank: true\n"
                "hostfaultdomain: /rack0/node0\nincarnation: 1795201297274729984\n")
        path = os.path.join(self.directory, "superblock")

        def write(to, text):
            with open(to, "w") as file:
                file.write(f"{text}checksum: 0x{crc32c(text.encode()):08x}\n")
        write(path, text)
        shown = self.json(path, "superblock_dump")
        self.assertEqual((shown["rank"], shown["system"], shown["fault_domain"]), (3, "fathom", "/rack0/node0"))
        self.assertIn("no storage is open", self.ddb(path, "verify", status=2).stderr)
        self.make_and_kill()
        self.assertIn("does not exist", self.ddb(self.storage, "superblock_dump", status=2).stderr)
        write(self.path("superblock"), text)
        self.assertEqual(self.json(self.storage, "superblock_dump")["uuid"], shown["uuid"])
        self.assertEqual(self.problems(status=0), set())
        with open(path, "a") as file:
            file.write("x")
        self.assertIn("superblock", self.ddb(path, "superblock_dump", status=1).stderr)

    def test_names_of_any_bytes_are_printed(self):
        self.make_and_kill()
        os.mkdir(os.path.join(self.storage.encode(), b"pools", b"\xff\x1b[31m"))
        self.assertNotIn("\x1b", self.ddb(self.storage, "verify", status=1).stdout)
        self.assertEqual(len(self.problems()), 1)
        self.ddb("--write", "--yes", self.storage, "repair")

    def test_a_shell_offers_a_path_then_commands(self):
        def offers(*words):
            return [line.split("\t")[0] for line in run(FATHOM, "--complete", *words).stdout.splitlines()]
        commands = re.findall(r"(?m)^([a-z_]+) ", run(FATHOM, "ddb", input="help\n").stdout)
        self.assertEqual(offers("ddb", "--write", self.storage, ""), commands)
        self.assertEqual(offers("ddb", self.storage, "ver"), ["verify", "verify_data", "version"])
        self.assertEqual(offers("ddb", "")[0], "@files")

    def test_a_load_that_is_killed_leaves_the_old_data_or_the_new(self):
        self.make_and_kill()
        images, digests = [], []
        for number in range(2):
            images.append(os.path.join(self.directory, f"image{number}"))
            with open(images[-1], "wb") as file:
                file.write(os.urandom(8 * MIB))
            with open(images[-1], "rb") as file:
                digests.append(hashlib.sha256(file.read()).hexdigest())
        self.ddb("--write", "--yes", self.storage, "load", images[0], "p1/a")
        chance = random.Random(14)
        seen = set()
        for turn in range(20):
            with subprocess.Popen([FATHOM, "ddb", "--write", "--yes", self.storage, "load", images[1 - turn % 2], "p1/a"], stdout=subprocess.DEVNULL) as load:
                time.sleep(chance.uniform(0, 0.1))
                load.kill()
            self.json(self.storage, "verify")       # status 0: no damage
            copy = os.path.join(self.directory, f"copy{turn}")
            digest = self.json(self.storage, "dump", "p1/a", copy)["sha256"]
            os.unlink(copy)
            self.assertIn(digest, digests)
            seen.add(digest)
        sys.stderr.write(f"contents seen: {len(seen)}\n")
        self.ddb("--write", "--yes", self.storage, "repair")
        engine = self.engine("--storage", self.storage)
        self.assertEqual(self.state_of(engine)["p1/a"], "ONLINE")

    def test_a_person_types_with_completion_and_history(self):
        self.make_and_kill()
        terminal = Terminal(FATHOM, "ddb", "--write", self.storage, env={"HOME": self.directory})
        self.addCleanup(terminal.close)
        terminal.wait_text("ddb>")
        terminal.press("sh\tp2/\t\r")
        terminal.wait_text("4194304")
        terminal.press("rm p1/b\r")
        terminal.wait_text("pools/p1/volumes/b moves")
        terminal.wait_text("Type yes")
        terminal.press("no\r")
        terminal.wait_text("Nothing was changed")
        terminal.press("rm p1/a\r")
        terminal.wait_text("pools/p1/volumes/a moves")
        terminal.wait(lambda lines: "\n".join(lines).count("Type yes") == 2)
        terminal.press("yes\r")
        terminal.wait(lambda lines: [line for line in lines if line][-1] == "ddb>")
        terminal.press("quit\r")
        self.assertEqual(terminal.wait_exit(), 0)
        self.assertTrue(os.path.exists(self.path("pools/p1/volumes/b")))
        self.assertFalse(os.path.exists(self.path("pools/p1/volumes/a")))
        with open(os.path.join(self.directory, ".fathom_ddb_history")) as file:
            self.assertIn("quit", file.read())


if __name__ == "__main__":
    unittest.main()
