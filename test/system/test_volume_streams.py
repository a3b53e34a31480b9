# SPDX-License-Identifier: BSD-2-Clause
"""
fathom volume export and import, with a real server and engine: whole snapshots and differences, kill -9 of the command, damaged streams. As
root, on an XFS image.
"""

import hashlib
import json
import os
import random
import subprocess
import unittest

import xfs
from control_rig import SystemTest
from harness import FATHOM, wait_for

MIB = 1 << 20
BLOCK = 4096
SIZE = 16 * MIB


class Streams(SystemTest):
    def setUp(self):
        super().setUp()
        self.random = random.Random(14)
        self.storage = os.path.join(self.directory, "e0")
        os.mkdir(self.storage)
        if not xfs.mount(self, self.storage):
            raise unittest.SkipTest("no XFS image can be mounted here")
        self.rig = self.system(engines=1)
        self.rig.fathom("pool", "create", "p1", "--overcommit")

    def path(self, name):
        return os.path.join(self.directory, name)

    def data(self, volume):
        """The path of a volume's data."""
        for folder, _, names in os.walk(self.storage):
            if folder.endswith(f"/volumes/{volume}"):
                return os.path.join(folder, max(name for name in names if name.startswith("data.")))
        raise AssertionError(f"no data of {volume}")

    def write(self, volume, *blocks):
        """Write blocks as a host, whose data are on the disk: no engine's cache is in between."""
        with open(self.data(volume), "r+b") as file:
            for block in blocks:
                file.seek(block * BLOCK)
                file.write(self.random.randbytes(BLOCK))
            os.fsync(file.fileno())

    def digest(self, path):
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()

    def assert_same(self, volume, other):
        self.assertEqual(self.digest(self.data(volume)), self.digest(self.data(other)))

    def names(self):
        return sorted(volume["name"] for volume in self.rig.json("volume", "list")["volumes"])

    def create(self, *blocks):
        self.rig.fathom("volume", "create", "p1/a", "16M")
        self.write("a", *blocks)
        self.rig.fathom("volume", "snapshot", "p1/a@s1")

    def refused(self, code, *words):
        done = self.rig.fathom(*words, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(code + " ", done.stderr)
        return done.stderr

    def start(self, *words, **kwargs):
        process = subprocess.Popen([FATHOM, *words, "-o", self.rig.client_config], **kwargs)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_a_whole_snapshot_and_a_difference_arrive(self):
        self.create(1, 2, 3, 100, 4095)
        whole, difference = self.path("whole"), self.path("difference")
        answer = self.rig.json("volume", "export", "p1/a@s1", "--output", whole)
        self.assertGreaterEqual(answer["data_bytes"], 5 * BLOCK)
        self.assertLess(os.path.getsize(whole), SIZE // 4)
        self.assertEqual(self.names(), ["p1/a"])
        self.rig.fathom("volume", "import", "p1/b", "--input", whole)
        self.assert_same("a", "b")
        shown = self.rig.json("volume", "show", "p1/b")["volumes"][0]
        self.assertEqual((shown["hosts"], [row["name"] for row in shown["snapshots"]]), ([], ["s1"]))
        self.assertEqual(shown["snapshots"][0]["uuid"], answer["snapshot_uuid"])
        self.assertIn("already", self.rig.fathom("volume", "import", "p1/b", "--input", whole).stdout)

        self.write("a", 2, 7)
        with open(self.data("a"), "r+b") as file:
            subprocess.run(["fallocate", "--punch-hole", "--offset", str(100 * BLOCK), "--length", str(BLOCK), file.name], check=True)
        self.rig.fathom("volume", "resize", "p1/a", "17M")
        self.write("a", 4200)
        self.rig.fathom("volume", "snapshot", "p1/a@s2")
        answer = self.rig.json("volume", "export", "p1/a@s2", "--from", "s1", "--output", difference)
        self.assertEqual(answer["zero_bytes"], BLOCK)
        self.assertLess(answer["data_bytes"], MIB)
        self.write("b", 50)     # not of the stream
        self.assertIn("was written since", self.refused("code = 1281", "volume", "import", "p1/b", "--input", difference))
        self.rig.fathom("volume", "create", "p1/c", "16M")
        self.assertIn("does not have", self.refused("code = 1281", "volume", "import", "p1/c", "--input", difference))
        self.assertIn("becomes a new one", self.refused("code = 1281", "volume", "import", "p1/c", "--input", whole))
        self.rig.fathom("volume", "import", "p1/b", "--input", difference, "--force")
        self.assert_same("a", "b")
        self.assertEqual([row["name"] for row in self.rig.json("volume", "show", "p1/b")["volumes"][0]["snapshots"]], ["s1", "s2"])

    def test_an_export_needs_no_space_for_its_clone(self):
        whole = self.path("whole")
        self.rig.fathom("pool", "create", "p2")
        self.rig.fathom("volume", "create", "p2/a", "260M")     # of 512 MiB
        self.write("a", 3, 17, 4095)
        self.rig.fathom("volume", "snapshot", "p2/a@s1")
        self.refused("code = 1259", "volume", "create", "p2/b", "--from", "p2/a@s1")
        self.rig.fathom("volume", "export", "p2/a@s1", "--output", whole)
        self.assertEqual(self.names(), ["p2/a"])
        self.rig.fathom("volume", "import", "p1/b", "--input", whole, "--checksums")
        self.assert_same("a", "b")
        self.assertTrue(self.rig.json("volume", "show", "p1/b")["volumes"][0]["checksums"])
        self.rig.fathom("volume", "export", "p1/b@s1", "--output", self.path("again"))    # its clone has checksums, too
        self.assertIn("--checksums", self.refused("code = 1288", "volume", "set-prop", "p1/b", "checksums=off"))
        self.refused("code = 1259", "volume", "set-prop", "p1/b", "thick=on")
        self.rig.fathom("volume", "snapshot-destroy", "p2/a@s1")
        # until the engine has found that no block is shared any more, a thick volume would need space for its holes twice
        wait_for(lambda: self.rig.fathom("volume", "set-prop", "p2/a", "thick=on", "description=for the database", check=False).returncode == 0)
        self.assertEqual(self.rig.json("volume", "get-prop", "p2/a"),
                         {"thick": "on", "checksums": "off", "read-only": "off", "description": "for the database"})

    def test_a_volume_that_a_killed_import_has_just_created_is_continued(self):
        whole = self.path("whole")
        self.rig.fathom("volume", "create", "p1/a", "16M")
        self.write("a", 3, 17, 4095)
        self.rig.fathom("volume", "snapshot", "p1/a@s1")
        self.rig.fathom("volume", "export", "p1/a@s1", "--output", whole)
        self.rig.fathom("volume", "create", "p1/b", "16M")
        self.assertIn("becomes a new one", self.refused("code = 1281", "volume", "import", "p1/b", "--input", whole))
        self.rig.fathom("volume", "import", "p1/b", "--input", whole, "--resume")
        self.assert_same("a", "b")
        self.rig.fathom("volume", "create", "p1/c", "16M")
        self.write("c", 9)     # of somebody else
        self.assertIn("becomes a new one", self.refused("code = 1281", "volume", "import", "p1/c", "--input", whole, "--resume"))

    def test_killed_commands_are_continued(self):
        """A pipe that is full or empty stops a command at a place that the test chooses."""
        self.create(*range(0, 4096, 2), *range(1, 1024, 2))
        whole, killed = self.path("whole"), self.path("killed")
        self.rig.fathom("volume", "export", "p1/a@s1", "--output", whole)
        for count in (600, 3 * MIB + 17):     # in a record: the clone is there
            process = self.start("volume", "export", "p1/a@s1", stdout=subprocess.PIPE)
            with open(killed, "wb") as file:
                file.write(process.stdout.read(count))
            self.assertEqual(len(self.names()), 2)
            process.kill()
            process.communicate(timeout=60)
            self.rig.fathom("volume", "export", "p1/a@s1", "--output", killed, "--resume")
        self.assertEqual(self.names(), ["p1/a"])

        with open(killed, "rb") as file:
            stream = file.read()
        for count in (MIB * 5 // 4, 4 * MIB):
            process = self.start("volume", "import", "p1/b", *(("--resume",) if "p1/b" in self.names() else ()), stdin=subprocess.PIPE)
            process.stdin.write(stream[:count])
            process.stdin.flush()
            process.kill()
            process.wait(60)
            process.stdin.close()
            self.refused("code = 1282", "volume", "import", "p1/b", "--input", killed)
        self.rig.fathom("volume", "import", "p1/b", "--input", killed, "--resume")
        self.assert_same("a", "b")

    def test_a_damaged_stream_is_refused_and_a_good_one_completes_the_volume(self):
        self.create(*range(1024))
        whole, bad = self.path("whole"), self.path("bad")
        self.rig.fathom("volume", "export", "p1/a@s1", "--output", whole)
        with open(whole, "rb") as file:
            stream = bytearray(file.read())
        for name, text in (("truncated", stream[:len(stream) - 100]), ("damaged", stream[:2 * MIB] + b"x" + stream[2 * MIB + 1:])):
            with open(bad, "wb") as file:
                file.write(text)
            words = ("volume", "import", f"p1/{name}", "--input", bad)
            self.assertIn("complete records", self.refused("code = 1280", *words))
            self.refused("code = 1282", *words)
            self.refused("code = 1280", *words, "--resume")
            self.assertEqual(self.rig.json("volume", "show", f"p1/{name}")["volumes"][0]["snapshots"], [])
            self.rig.fathom("volume", "import", f"p1/{name}", "--input", whole, "--resume")
            self.assert_same("a", name)
        with open(bad, "wb") as file:
            file.write(b"something else")
        self.refused("code = 1295", "volume", "import", "p1/x", "--input", bad)
        self.assertEqual(json.loads(self.rig.fathom("volume", "import", "p1/x", "--input", bad, "--json", check=False).stdout)["response"], None)


if __name__ == "__main__":
    unittest.main()
