# SPDX-License-Identifier: BSD-2-Clause
"""
`fathom probe dof`: objects that a real `dtrace -G` made, as text and as JSON, compared with their descriptions; programs with notes;
errors with their place in the file; exit statuses.
"""

import glob
import json
import os
import struct
import subprocess
import tempfile
import unittest

BIN = os.environ["FATHOM_BIN"]
SAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../unit/inspect/probed/samples")


def dof(*words):
    return subprocess.run([os.path.join(BIN, "fathom"), "probe", "dof", *map(str, words)], capture_output=True, text=True, timeout=60)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def sample(name):
    return os.path.join(SAMPLES, name + ".dof")


class DofTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory(prefix="fathom-dof-")
        self.addCleanup(self.directory.cleanup)

    def changed(self, name, offset, data):
        """The path of a sample that has `data` at `offset`."""
        content = bytearray(read(sample(name)))
        content[offset:offset + len(data)] = data
        path = os.path.join(self.directory.name, "changed.dof")
        with open(path, "wb") as file:
            file.write(content)
        return path

    def test_json_equals_the_descriptions_of_the_samples(self):
        for path in glob.glob(os.path.join(SAMPLES, "*.dof")):
            description = json.loads(read(path[:-4] + ".json"))
            done = dof("--json", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            rows = {(row["provider"], row["function"], row["probe"]): row for row in map(json.loads, done.stdout.splitlines())}
            count = 0
            for provider in description["providers"]:
                for probe in provider["probes"]:
                    row = rows[provider["name"], probe["func"], probe["name"]]
                    self.assertEqual((row["native"], row["translated"], row["map"]), (probe["nargs"], probe["xargs"], probe["argmap"]))
                    self.assertEqual([s["address"] for s in row["sites"] if not s["is_enabled"]], sorted(probe["offs"]))
                    self.assertEqual([s["address"] for s in row["sites"] if s["is_enabled"]], sorted(probe["enoffs"]))
                    count += 1
            self.assertEqual(count, len(rows))

    def test_text_shows_the_sites_arguments_and_stability_of_probes(self):
        text = dof(sample("isen"), sample("typed")).stdout
        self.assertIn("DOF version 3, 64 bits, 1371 bytes of which 966 are loaded, 10 sections", text)
        self.assertIn("provider isen, 5 probes", text)
        self.assertIn("work:start(int, char *)\n      fires at 0x2d\n      is-enabled test at 0x14\n", text)
        self.assertIn("main:drop(int, char *, long), which scripts see as (char * = argument 1)", text)
        self.assertIn("stability: provider Evolving/Evolving/Common, module Private/Private/Unknown", text)

    def test_a_program_with_notes_is_read(self):
        done = dof(os.path.join(BIN, "fathom-engine"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(".note.stapsdt", done.stdout)
        self.assertIn("provider fathom,", done.stdout)
        rows = [json.loads(line) for line in dof("--json", os.path.join(BIN, "fathom-engine")).stdout.splitlines()]
        self.assertIn("bdev_io_done", {row["probe"] for row in rows})
        self.assertTrue(all(row["sites"] for row in rows))

    def test_check_reports_an_error_with_its_offset_and_section(self):
        done = dof("--check", sample("simple"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("valid: 1 provider, 2 probes, 3 sites", done.stdout)
        # offidx of the first probe, at 0x160 of the file
        path = self.changed("simple", 0x160 + 28, struct.pack("<I", 0x3fffffff))
        done = dof("--check", path)
        self.assertEqual(done.returncode, 1)
        self.assertIn("not valid: at 0x160, section 1 (PROBES): 1 sites from index 1073741823 on, but the table has 3", done.stdout)
        row = json.loads(dof("--check", "--json", path).stdout)
        self.assertEqual(row["right"], False)
        self.assertIn("section 1 (PROBES)", row["error"])
        self.assertEqual(json.loads(dof("--check", "--json", sample("simple")).stdout)["right"], True)
        # without --check the same error goes to standard error
        done = dof(path)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("section 1 (PROBES)", done.stderr)

    def test_check_reports_an_error_in_the_header(self):
        done = dof("--check", self.changed("simple", 6, b"\x04"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("at 0x6, the header: version 4; 1 to 3 are known", done.stdout)

    def test_control_characters_in_a_name_are_not_printed(self):
        content = read(sample("simple"))
        done = dof("--check", self.changed("simple", content.index(b"arg1\0"), b"\x1b[2J"))
        self.assertEqual(done.returncode, 1)
        self.assertNotIn("\x1b", done.stdout + done.stderr)
        self.assertIn("the name of the probe", done.stdout)

    def test_an_unreadable_file_gives_status_2(self):
        for path, words in ((__file__, "neither a DOF object nor an ELF file"), ("/no/such/file", "cannot be opened"), ("/", "neither")):
            done = dof(path)
            self.assertEqual((done.returncode, done.stdout), (2, ""), path)
            self.assertIn(words, done.stderr)
        self.assertEqual(dof().returncode, 2)
        # the other files are still checked
        done = dof("--check", "/no/such/file", sample("clau"))
        self.assertEqual(done.returncode, 2)
        self.assertIn(": valid: 1 provider", done.stdout)

    def test_a_file_without_probes_is_reported(self):
        done = dof("/bin/true")
        self.assertEqual(done.returncode, 0)
        self.assertIn("no probes", done.stdout)


if __name__ == "__main__":
    unittest.main()
