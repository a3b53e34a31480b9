# SPDX-License-Identifier: BSD-2-Clause
"""Which files `fathom trace export` writes, replaces, and refuses to replace."""

import os
import subprocess
import unittest

from export_rig import ExportTest, harness, traces

tearDownModule = traces.remove


class Names(ExportTest):
    """Files that are created, replaced and refused."""

    def test_a_format_must_be_selected(self):
        self.refuse("no format is selected", "export", "-f", traces.story)

    def test_a_removed_format_names_its_replacement(self):
        self.refuse("use --perfetto", "export", "-f", traces.story, "--chrome", self.path("x"))
        self.refuse("use --perfetto", "export", "-f", traces.story, "--format", "chrome")

    def test_a_missing_directory_is_an_error(self):
        self.refuse("cannot write", "export", "-f", traces.story, "--perfetto", "/nonexistent/x")

    def test_a_failed_write_leaves_no_file(self):
        path = self.path("limited")
        done = subprocess.run(["sh", "-c", f"trap '' XFSZ; ulimit -f 8; exec {harness.FATHOM} trace export -f {traces.engine} --perfetto {path}"],
                              stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("cannot write", done.stderr)
        self.assertEqual([name for name in os.listdir(traces.folder) if name.startswith(os.path.basename(path))], [])

    def test_a_full_device_is_an_error(self):
        self.refuse("No space left", "export", "-f", traces.story, "--perfetto", "/dev/full")

    def test_an_existing_file_is_overwritten_only_with_force(self):
        for option in ("--perfetto", "--html"):
            path = self.path("mine")
            with open(path, "w") as file:
                file.write("before")
            self.refuse("--force overwrites it", "export", "-f", traces.story, option, path)
            with open(path) as file:
                self.assertEqual(file.read(), "before")
        path = self.path("mine.ctf")
        self.export(traces.story, "--ctf", path)
        self.refuse("--force overwrites it", "export", "-f", traces.story, "--ctf", path)
        self.export(traces.story, "--ctf", path, "--force")
        # a folder without a trace is not overwritten with --force either
        other = self.path("mine.folder")
        os.mkdir(other)
        with open(os.path.join(other, "letter"), "w"):
            pass
        self.refuse("is not empty", "export", "-f", traces.story, "--ctf", other, "--force")
        self.assertEqual(os.listdir(other), ["letter"])

    def test_an_existing_file_is_replaced_by_the_complete_one(self):
        path = self.path("replaced")
        with open(path, "w") as file:
            file.write("before")
        with open(path) as old:
            self.export(traces.story, "--perfetto", path, "--force")
            self.assertEqual(old.read(), "before")
        with open(path, "rb") as new:
            self.assertNotEqual(new.read(6), b"before")


if __name__ == "__main__":
    unittest.main()
