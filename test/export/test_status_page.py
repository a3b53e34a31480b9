# SPDX-License-Identifier: BSD-2-Clause
"""
The status page of a real engine and of a server in a browser: under load, with a device that hangs, on a telephone, by keyboard, without the
engine, with a rank that is down.
"""

import os
import shutil
import signal
import subprocess
import sys
import unittest

import browser

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
from harness import FATHOM, NQN, EngineTest, free_port, wait_for   # noqa: E402
from server_rig import ServerTest   # noqa: E402

HOST = "nqn.2026-01.org.example:h"
WIDE, PHONE = (1400, 1200), (390, 1200)
LOOKS = "return Number(document.body.dataset.looks || 0)"
CELL = """const row = [...document.querySelectorAll('#' + arguments[0] + ' tbody tr')].find(row => row.cells[0].innerText.trim() === arguments[1]);
return [...row.cells].find(cell => cell.dataset.title === arguments[2]).innerText"""


class Page:
    """Mix into a unittest.TestCase."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for program, package in (("chromium", "chromium"), ("chromedriver", "chromium-driver")):
            if not shutil.which(program):
                raise unittest.SkipTest(f"no {program} here (package {package})")
        cls.browser = browser.Browser(*WIDE)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        super().tearDownClass()

    def visit(self, port):
        """The page after two looks."""
        self.browser.visit(f"http://127.0.0.1:{port}/")
        self.wait_looks(2)

    def wait_looks(self, more):
        """Wait until the page has read the figures so many times more."""
        before = self.browser.script(LOOKS)
        wait_for(lambda: self.browser.script(LOOKS) >= before + more, pause=0.1)

    def wait_text(self, selector, text):
        wait_for(lambda: text in self.browser.text(selector), pause=0.1)

    def cell(self, table, row, title):
        return self.browser.script(CELL, table, row, title)

    def check_quiet(self):
        """Assert that there is no error and no resource loaded from elsewhere."""
        self.assertEqual([line for line in self.browser.complaints() if "status.json" not in line], [])     # an engine alone has none


class Engine(Page, EngineTest):
    def open(self, create="bdev_malloc_create 16 4096 -b Disk1"):
        """An engine with a volume, and its page."""
        self.port = free_port()
        engine = self.engine("--metrics", f"127.0.0.1:{self.port}")
        self.device = engine.serve(*create.split())
        self.visit(self.port)
        return engine

    def test_a_healthy_engine_under_load(self):
        engine = self.open()
        self.assertIn("All is well", self.browser.text("#verdict"))
        self.assertEqual(self.browser.script("return document.querySelectorAll('#checks li').length"), 0)
        engine.perf("--count", "2000", "--rw", "randread", "--bs", "8k", "--hostnqn", HOST)
        self.wait_looks(2)
        self.assertEqual(self.cell("volumes", self.device, "Size"), "16.0\u00a0MiB")
        self.assertRegex(self.cell("volumes", self.device, "99 % under"), "^[0-9.]+\u00a0(\u00b5s|ms|s)$")
        self.assertEqual(self.cell("hosts", HOST, "Volume's subsystem"), NQN)
        self.assertIn("EXECUTING", self.browser.text("#stages"))
        self.assertIn("CPU", self.browser.text("#reactors"))
        self.assertTrue(self.browser.script("return document.getElementById('events-section').hidden"))     # only a server has events
        self.check_quiet()

    def test_a_device_that_hangs_is_named_with_the_command_to_run(self):
        engine = self.open("bdev_null_create null0 16 4096")
        engine.run_commands(f"bdev_malloc_create 16 4096 -b Disk2\nbdev_error_create Disk2\nnvmf_subsystem_add_ns {NQN} EE_Disk2\n")
        engine.rpc("bdev_error_inject_error", name="EE_Disk2", io_type="read", error_type="pending", num=1)
        load = subprocess.Popen([FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", NQN, "--nsid", "2", "--count", "1",
                                 "--timeout", "0", "--quiet"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self.wait_text("#checks", "A command to EE_Disk2 waits for")
            self.assertIn("fathom trace stuck", self.browser.text("#checks"))
            self.assertIn("needs a look", self.browser.text("#verdict"))
            self.assertIn("(1)", self.browser.script("return document.title"))
        finally:
            load.kill()
            load.wait()

    def test_a_page_on_a_telephone_does_not_scroll_sideways(self):
        self.open()
        self.addCleanup(self.browser.set_size, *WIDE)
        self.addCleanup(self.browser.set_dark, False)
        for dark in (False, True):
            self.browser.set_dark(dark)
            self.browser.set_size(*PHONE, mobile=True)
            self.assertLessEqual(self.browser.script("return document.documentElement.scrollWidth"), PHONE[0])
        shades = self.browser.script("return getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number)")
        self.assertLess(max(shades), 64)

    def test_the_keyboard_filters_sorts_and_pauses(self):
        self.open()
        self.browser.keys("/", *"nothing")
        self.wait_text("#volumes", "No name has this text.")
        self.browser.script("const f = document.getElementById('filter'); f.value = ''; f.dispatchEvent(new Event('input'))")
        self.browser.script("document.querySelector('#volumes th button').focus()")
        self.browser.keys("Enter")
        self.assertEqual(self.browser.script("return document.querySelector('#volumes th').getAttribute('aria-sort')"), "ascending")
        self.wait_looks(2)
        self.assertEqual(self.browser.script("return document.activeElement.dataset.sort"), "volumes0")     # also after it was drawn again
        self.browser.keys("p")
        self.wait_text("#freshness", "Paused")
        self.assertEqual(self.browser.script("return document.getElementById('pause').getAttribute('aria-pressed')"), "true")
        self.browser.keys("p")
        self.wait_looks(1)
        self.check_quiet()

    def test_a_page_whose_engine_has_ended_says_since_when_and_goes_on_with_the_next(self):
        engine = self.open()
        engine.kill()
        self.wait_text("#freshness", "No answer")
        self.assertRegex(self.browser.text("#freshness"), "the figures are of [0-9][0-9]:[0-9][0-9]:[0-9][0-9]")
        self.engine("--metrics", f"127.0.0.1:{self.port}")
        self.wait_looks(1)
        self.wait_text("#freshness", "every 2 seconds")
        self.browser.complaints()       # about the connection


class Server(Page, ServerTest):
    def test_a_server_shows_its_members_events_and_a_rank_that_died(self):
        port = free_port()
        server = self.server(engines=2, name="fathom", keys=f"telemetry_port: {port}\n").start()
        server.format()
        server.wait_joined()
        self.visit(port)
        self.assertEqual(self.browser.text("#title"), "Fathom: system fathom")
        self.assertEqual([self.cell("members", rank, "State") for rank in "01"], ["Joined", "Joined"])
        self.assertEqual(self.cell("reactors", "rank 0, control", "In one function for"), "\u2013")
        self.wait_text("#checks", "The doctor looked at this host at ")
        self.assertNotIn("gives no figures", self.browser.text("#checks"))
        for engine in server.engines():     # commands for a trace select the engine by the name that the server gave it
            with open(f"/proc/{engine.pid}/cmdline", encoding="utf-8") as cmdline:
                words = cmdline.read().split("\0")
            self.assertEqual(self.browser.script(f"return traceOption(looks[looks.length - 1], {{ rank: '{engine.rank}' }})"),
                             f" -s {words[words.index('--name') + 1]}")
        self.assertEqual(self.browser.script("return traceOption(looks[looks.length - 1], {})"), "")
        os.kill(next(engine.pid for engine in server.engines() if engine.rank == 1), signal.SIGKILL)
        self.wait_text("#events", "engine_died")
        if "FATHOM_SHOTS" in os.environ:
            self.browser.screenshot(os.path.join(os.environ["FATHOM_SHOTS"], "server.png"))
        self.check_quiet()


if __name__ == "__main__":
    unittest.main()
