# SPDX-License-Identifier: BSD-2-Clause
"""Valgrind finds no invalid access and no leak in ten thousand I/Os of each backend, and finds a planted one."""

import os
import shutil
import subprocess
import tempfile
import unittest

SUBMIT_IOS = os.environ["SUBMIT_IOS"]
TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 4)
WATCH = ["valgrind", "--quiet", f"--suppressions={TOP}/test/valgrind.supp", "--leak-check=full", "--error-exitcode=99"]


def sanitized():
    """Valgrind cannot run a program with sanitizers."""
    program = open(SUBMIT_IOS, "rb").read()
    return any(name in program for name in (b"__asan_init", b"__tsan_init", b"__ubsan_handle"))


@unittest.skipIf(not shutil.which("valgrind"), "valgrind is missing")
@unittest.skipIf(sanitized(), "the program has sanitizers")
class Valgrind(unittest.TestCase):
    def run_under_valgrind(self, device, *words):
        return subprocess.run([*WATCH, SUBMIT_IOS, device, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=200)

    def check(self, device, *words):
        done = self.run_under_valgrind(device, *words)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertNotIn("==", done.stdout)

    def test_null_has_no_errors(self):
        self.check("null")

    def test_malloc_has_no_errors(self):
        self.check("malloc")

    def test_faulty_has_no_errors(self):
        self.check("faulty")

    def test_tricky_has_no_errors(self):
        self.check("tricky")

    def test_file_has_no_errors(self):
        with tempfile.NamedTemporaryFile(dir="/var/tmp") as file:
            file.truncate(2 << 20)
            self.check(file.name)

    def test_a_use_of_freed_memory_is_detected(self):
        done = self.run_under_valgrind("freed", "100")
        self.assertEqual(done.returncode, 99, done.stdout)
        self.assertRegex(done.stdout, r"(?s)Invalid read.*malloc_submit.*Address 0x\w+ is 0 bytes inside a block of size 512 free'd.*write_from_freed_memory")

    def test_a_missing_device_is_an_error(self):
        done = subprocess.run([SUBMIT_IOS, "/no/such/file"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("/no/such/file", done.stdout)
        self.assertEqual(subprocess.run([SUBMIT_IOS], stderr=subprocess.DEVNULL).returncode, 2)


if __name__ == "__main__":
    unittest.main()
