# SPDX-License-Identifier: BSD-2-Clause
"""
terminal - runs a program on a pseudo-terminal: sends keys, and reads the screen as python3-pyte draws it.
"""

import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time

try:
    import pyte
except ModuleNotFoundError:     # a Python other than Debian's does not search the folder of Debian's package
    sys.path.append("/usr/lib/python3/dist-packages")
    import pyte

WAIT_SECONDS = 60
KEYS = {"up": "\x1bOA", "down": "\x1bOB", "right": "\x1bOC", "left": "\x1bOD", "enter": "\r", "esc": "\x1b", "tab": "\t",
        "backspace": "\x7f"}


class Terminal:
    """
    Runs `command` on a terminal of `columns` x `lines`. It is a VT100: pyte cannot insert characters, as newer
    terminals do. All methods wait for contents of the screen, never for a time.
    """

    def __init__(self, *command, columns=80, lines=24, env=None):
        self.screen = pyte.Screen(columns, lines)
        self.stream = pyte.ByteStream(self.screen)
        self.status = None
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
                os.execve(command[0], [str(word) for word in command],
                          {**os.environ, "TERM": "vt100", "LANG": "C.UTF-8", **(env or {})})
            finally:
                os._exit(127)

    def resize(self, columns, lines):
        self.screen.resize(lines, columns)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def press(self, *keys):
        """Keys by their names, or texts as they are typed."""
        for key in keys:
            os.write(self.fd, KEYS.get(key, key).encode())

    def read(self, seconds):
        """Read output that arrives within `seconds`. False: the program has ended."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return False
        self.stream.feed(data)
        return bool(data)

    @property
    def lines(self):
        return [line.rstrip() for line in self.screen.display]

    @property
    def text(self):
        return "\n".join(self.lines)

    def wait(self, seen, what=None):
        """Wait until `seen(lines)` returns something true; return that."""
        deadline = time.monotonic() + WAIT_SECONDS
        alive = True
        while True:
            while alive and select.select([self.fd], [], [], 0.02)[0]:  # `seen` gets the screen after all pending output
                alive = self.read(0)
            result = seen(self.lines)
            if result:
                return result
            if not alive or time.monotonic() > deadline:
                raise AssertionError(f"{what or 'it'} was not seen{'' if alive else ', and the program ended'}:\n{self.text}")
            alive = self.read(0.2)

    def wait_text(self, text):
        return self.wait(lambda lines: text in "\n".join(lines), repr(text))

    def wait_exit(self):
        """Wait until the program ends by itself; its exit status."""
        deadline = time.monotonic() + WAIT_SECONDS
        while self.status is None and time.monotonic() < deadline:
            self.read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        if self.status is None:
            raise AssertionError(f"the program did not end:\n{self.text}")
        return self.status

    def close(self):
        if self.status is None:
            try:
                os.kill(self.pid, 9)
                os.waitpid(self.pid, 0)
            except (ProcessLookupError, ChildProcessError):
                pass
        os.close(self.fd)
