# SPDX-License-Identifier: BSD-2-Clause
"""A guest that boots once and then starts many times from its saved state, in a second instead of a boot.

    state = saved.Saved(directory, programs, 768, prepare=["modprobe xfs"])
    state.save(guest.Devices([disk.socket], {port: 4420}))
    host = state.start(guest.Devices([disk.socket], {other_port: 4420}))

The state is QEMU's own migration stream. It is saved before the guest has used a disk, so nothing of a disk is in it.
"""

import json
import os
import pathlib
import secrets
import shutil
import socket
import sys
import time

import guest
import initramfs
import kernel

SAVE_SECONDS = 300
START_SECONDS = 120     # until the first answer, on a busy machine
START_ATTEMPTS = 3
PREPARE_SECONDS = 240


class Saved:
    """`directory`: the state's files, which go with it. `prepare`: commands in the guest before it is saved."""

    def __init__(self, directory, programs, memory_mb, prepare):
        self._linux, self._memory_mb = kernel.get(), memory_mb
        self._file, self._monitor = pathlib.Path(directory) / "saved-guest", os.path.join(directory, "monitor")
        self._archive = pathlib.Path(directory) / "saved-initramfs"      # the cache keeps only the newest ones
        self._reseed = initramfs.compile_static("reseed.c")
        shutil.copy(initramfs.build(self._linux, [*programs, self._reseed]), self._archive)
        self._prepare, self._accel = prepare, None

    def save(self, devices):
        """Boot, prepare and save. QEMU wants as many disks as at a start()."""
        words = ["-qmp", f"unix:{self._monitor},server=on,wait=off"]
        with guest.boot(memory_mb=self._memory_mb, devices=devices, archive=self._archive, words=words) as host:
            for command in self._prepare:
                host.check(command, PREPARE_SECONDS)
            self._accel = host.accel
            with socket.socket(socket.AF_UNIX) as monitor:
                monitor.settimeout(SAVE_SECONDS)
                monitor.connect(self._monitor)
                lines = monitor.makefile("rw")
                lines.readline()
                for command, arguments in (("qmp_capabilities", {}), ("migrate", {"uri": f"exec:cat >{self._file}"})):
                    self._ask(lines, command, arguments)
                deadline = time.monotonic() + SAVE_SECONDS
                while (status := self._ask(lines, "query-migrate", {}).get("status")) != "completed":
                    if status == "failed" or time.monotonic() > deadline:
                        raise guest.GuestDied(f"QEMU did not save the guest: {status}")
                    time.sleep(0.05)

    @staticmethod
    def _ask(lines, command, arguments):
        lines.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        lines.flush()
        while True:
            answer = json.loads(lines.readline())
            if "error" in answer:
                raise guest.GuestDied(f"QEMU: {command}: {answer['error']}")
            if "return" in answer:
                return answer["return"]

    def start(self, devices):
        """A guest that continues from the saved state. It has not used its disks yet, so a start that hangs can be repeated."""
        for _ in range(START_ATTEMPTS - 1):
            try:
                return self._start(devices)
            except (guest.GuestDied, guest.CommandTimeout) as error:
                sys.stderr.write(f"saved.py: trying again: {str(error).splitlines()[0]}\n")
        return self._start(devices)

    def _start(self, devices):
        host = guest.Guest(self._accel, self._linux, memory_mb=self._memory_mb, devices=devices, archive=self._archive,
                           words=["-incoming", f"exec:cat {self._file}"])
        try:
            host.check(f"{self._reseed.name} {secrets.token_hex(31)} && date -s @{time.time():.0f}", START_SECONDS)
        except BaseException:
            host.close()
            raise
        return host
