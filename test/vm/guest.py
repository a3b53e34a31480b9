#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A Linux guest in QEMU, the tests' real NVMe/TCP host.

    with guest.boot() as host:
        status, output = host.run("nvme discover -t tcp -a 10.0.2.2 -s 4420", timeout=20)

Commands travel over a virtio port, as frames that agent.c describes; the kernel's console goes to a file. In the
guest 10.0.2.2 is 127.0.0.1 of this machine. Run as a program, `guest.py --shell` gives a shell on the console.
"""

import argparse
import contextlib
import os
import pathlib
import select
import socket
import struct
import subprocess
import sys
import tempfile
import time

import initramfs
import kernel

HOST_ADDRESS = "10.0.2.2"
CPUS = 2                        # so that the host opens more than one I/O queue
MEMORY_MB = 512
BOOT_TIMEOUT_S = 45             # without a new line on the console. Emulated, a boot takes 3 s; 5 s with a busy core; over 45 s at a load of 20
BOOT_LIMIT_S = 300
BOOT_ATTEMPTS = 3               # 1 in 70 emulated boots hung in the kernel's setup of clocks, which is not tested here
KVM_BOOT_TIMEOUT_S = 10
SYSTEM_TIMES = 8                # a guest with systemd starts about this many times slower
REPLY_GRACE_S = 20              # additional time for a reply after its command's timeout, on a busy machine
COMMAND_TIMEOUT_S = 30
END_S = 10

FRAME = struct.Struct("<IIiI")  # agent.c: struct frame
FRAME_MAGIC = 0x6D687466
HELLO_JOB = 0
STATUS_TIMEOUT = -1
STATUS_NO_SLOT = -2


class GuestDied(Exception):
    """The guest no longer answers; the text ends with the last lines of its console."""


class CommandTimeout(Exception):
    """A command took longer than its timeout and was killed; the text has its output."""


class Guest:
    """A running guest. Not thread-safe."""

    def __init__(self, accel, linux=None, programs=(), memory_mb=MEMORY_MB, trees=None, devices=None, archive=None, words=()):
        """`archive`: a ready initramfs, instead of one with `programs` and `trees`. `words`: more of QEMU's command line."""
        linux = linux or kernel.get()
        self.accel = accel
        self._directory = tempfile.TemporaryDirectory(prefix="fathom-vm-")
        self.console = pathlib.Path(self._directory.name) / "console"
        self._replies = {}
        self._received = b""
        self._next_job = HELLO_JOB + 1
        self._dmesg = []
        self._socket, theirs = socket.socketpair()
        archive = archive or initramfs.build(linux, programs, trees)
        command = [*qemu_command(linux, archive, accel, memory_mb=memory_mb, devices=devices), *words,
            "-serial", f"file:{self.console}",
            "-device", "virtio-serial-pci",
            "-chardev", f"socket,id=agent,fd={theirs.fileno()}",
            "-device", "virtserialport,chardev=agent,name=fathom.agent"]
        with theirs:
            self._qemu = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
                                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def wait_for_boot(self, timeout):
        """Return when the agent answers; GuestDied if the console has nothing new for `timeout` seconds."""
        size, limit = 0, time.monotonic() + BOOT_LIMIT_S
        while self._wait_for_reply(HELLO_JOB, timeout) is None:
            before, size = size, self.console.stat().st_size if self.console.exists() else 0
            if size == before or time.monotonic() > limit:
                raise GuestDied(self._describe(f"the guest did not boot: its console has nothing new for {timeout} s"))

    def start(self, command, timeout=COMMAND_TIMEOUT_S):
        """Start a shell command; returns a job for wait(). After `timeout` seconds the guest kills it."""
        job = self._next_job
        self._next_job += 1
        data = command.encode()
        try:
            self._socket.sendall(FRAME.pack(FRAME_MAGIC, job, int(timeout * 1000), len(data)) + data)
        except OSError as error:
            raise GuestDied(self._describe(f"cannot send to the guest: {error}")) from None
        return job, command, time.monotonic() + timeout

    def wait(self, job):
        """The (exit status, output) of a job. CommandTimeout if it was killed for its time."""
        number, command, deadline = job
        reply = self._wait_for_reply(number, deadline + REPLY_GRACE_S - time.monotonic())
        if reply is None:
            raise GuestDied(self._describe(f"no reply to: {command}"))
        status, output = reply
        if status == STATUS_TIMEOUT:
            raise CommandTimeout(f"{command}\n{output}")
        if status == STATUS_NO_SLOT:
            raise RuntimeError("too many commands at once in the guest")
        return status, output

    def is_done(self, job):
        """Whether wait() would return at once."""
        return self._wait_for_reply(job[0], 0, take=False) is not None

    def run(self, command, timeout=COMMAND_TIMEOUT_S):
        """Run a shell command; returns (exit status, output)."""
        return self.wait(self.start(command, timeout))

    def check(self, command, timeout=COMMAND_TIMEOUT_S):
        """Run a shell command that must exit with 0; returns its output. AssertionError, with the output, if not."""
        status, output = self.run(command, timeout)
        if status != 0:
            raise AssertionError(f"in the guest, exit status {status}: {command}\n{output}")
        return output

    def dmesg(self):
        """All lines of the kernel's log since boot."""
        self.dmesg_new()
        return list(self._dmesg)

    def dmesg_new(self):
        """The lines of the kernel's log since the last call of dmesg() or dmesg_new()."""
        lines = self.check("dmesg -c").splitlines()     # -c: the kernel's own buffer cannot overflow between calls
        self._dmesg += lines
        return lines

    def kill(self):
        """Kill QEMU, as a power cut does. Idempotent. close() must follow."""
        if self._qemu.poll() is None:
            self._qemu.kill()
        self._qemu.wait()

    def wait_for_end(self, timeout):
        """After a command to power off or to reboot: wait until QEMU ends. close() must follow."""
        self._qemu.wait(timeout)

    def close(self):
        """End the guest at once. Idempotent."""
        self.kill()
        self._qemu.stdout.close()
        self._socket.close()
        self._directory.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _wait_for_reply(self, job, timeout, take=True):
        deadline = time.monotonic() + timeout
        while job not in self._replies:
            readable, _, _ = select.select([self._socket], [], [], max(0, deadline - time.monotonic()))
            if not readable:
                return None
            try:
                data = self._socket.recv(1 << 16)
            except ConnectionError:
                data = b""
            if not data:
                raise GuestDied(self._describe("the guest ended", is_ending=True))
            self._take_frames(data)
        return self._replies.pop(job) if take else self._replies[job]

    def _take_frames(self, data):
        self._received += data
        while len(self._received) >= FRAME.size:
            magic, job, status, size = FRAME.unpack_from(self._received)
            if magic != FRAME_MAGIC:
                raise GuestDied(self._describe(f"not a frame: {self._received[:64]!r}"))
            if len(self._received) < FRAME.size + size:
                return
            output = self._received[FRAME.size:FRAME.size + size].decode(errors="replace")
            self._received = self._received[FRAME.size + size:]
            self._replies[job] = (status, output)

    def _describe(self, what, is_ending=False):
        if is_ending:       # QEMU closes its socket before it ends
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._qemu.wait(END_S)
        status = self._qemu.poll()
        words = [what]
        if status is not None:
            words.append(f"QEMU exited with {status}: {self._qemu.stdout.read().decode(errors='replace').strip()}")
        if self.console.exists():
            lines = self.console.read_text(errors="replace").splitlines()
            words += ["the console ends with:"] + lines[-60:]
        return "\n".join(words)


class Devices:
    """What a guest has beside its network: disks by the paths of NBD sockets; ports {of this machine: of the guest}; the file of the
    disk from which it starts (system_disk.py)."""

    def __init__(self, disks=(), ports=None, system=None):
        self.disks, self.ports, self.system = disks, ports or {}, system

    def network(self):
        return "".join(f",hostfwd=tcp:127.0.0.1:{here}-:{there}" for here, there in self.ports.items())

    def words(self):
        first = ["-drive", f"file={self.system},format=raw,if=none,id=system", "-device", "virtio-blk-pci,drive=system"] if self.system else []
        return first + [word for number, path in enumerate(self.disks)
                        for word in ("-drive", f"file=nbd+unix:///?socket={path},format=raw,if=none,id=disk{number},cache=none",
                                     "-device", f"virtio-blk-pci,drive=disk{number},logical_block_size=4096,physical_block_size=4096")]


def qemu_command(linux, archive, accel, shell=False, memory_mb=MEMORY_MB, devices=None):
    """QEMU's command line, without its consoles."""
    devices = devices or Devices()
    qemu = kernel.need_program("qemu-system-x86_64", "qemu-system-x86")
    setpriv = kernel.need_program("setpriv", "util-linux")
    words = ["console=ttyS0", "panic=-1", "random.trust_cpu=on", "loglevel=7" if not shell else "loglevel=4"]
    if shell:
        words.append("fathom.shell")
    if devices.system:
        words.append("fathom.disk")
    return [setpriv, "--pdeathsig", "KILL",             # QEMU must not outlive a killed test
            qemu, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-machine", "q35", "-accel", "kvm" if accel == "kvm" else "tcg,thread=multi",
            "-cpu", "host" if accel == "kvm" else "max", "-smp", str(CPUS), "-m", str(memory_mb),
            "-kernel", str(linux.image), "-initrd", str(archive), "-append", " ".join(words),
            # without a ROM file: nothing boots from the network, and Debian's QEMU only recommends that package
            "-netdev", f"user,id=net0{devices.network()}", "-device", "virtio-net-pci,netdev=net0,romfile="] + devices.words()


def kvm_is_there():
    """Whether KVM can work: a nested machine may have the device node but not the CPU feature, and then hangs."""
    try:
        cpu = pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    return os.access("/dev/kvm", os.R_OK | os.W_OK) and (" vmx " in cpu or " svm " in cpu)


def boot(programs=(), memory_mb=MEMORY_MB, trees=None, devices=None, **options):
    """Boot a guest and return it. Raise kernel.Missing, which names what this machine lacks.

    `programs`: paths of programs that it has in /usr/bin, beside its own; `trees`: {place: directory} that it has, too; its
    filesystem is in its memory.
    `options`: further ones of Guest. FATHOM_VM_ACCEL=kvm or tcg decides how; by default KVM if it works, emulation otherwise.
    """
    slower = SYSTEM_TIMES if devices and devices.system else 1
    chosen = os.environ.get("FATHOM_VM_ACCEL")
    if chosen not in (None, "kvm", "tcg"):
        raise ValueError(f"FATHOM_VM_ACCEL is {chosen}, not kvm or tcg")
    if chosen != "tcg" and (chosen == "kvm" or kvm_is_there()):
        try:
            return _boot("kvm", KVM_BOOT_TIMEOUT_S * slower, programs, memory_mb, trees, devices, **options)
        except GuestDied:
            if chosen == "kvm":
                raise
    for _ in range(BOOT_ATTEMPTS - 1):
        try:
            return _boot("tcg", BOOT_TIMEOUT_S * slower, programs, memory_mb, trees, devices, **options)
        except GuestDied as error:
            sys.stderr.write(f"guest.py: trying again: {str(error).splitlines()[0]}\n")
    return _boot("tcg", BOOT_TIMEOUT_S * slower, programs, memory_mb, trees, devices, **options)


def _boot(accel, timeout, programs, memory_mb, trees, devices, **options):
    new = Guest(accel, programs=programs, memory_mb=memory_mb, trees=trees, devices=devices, **options)
    try:
        new.wait_for_boot(timeout)
    except BaseException:
        new.close()
        raise
    return new


def _main():
    parser = argparse.ArgumentParser(description="Boot the tests' guest.")
    parser.add_argument("--shell", action="store_true", help="a shell on the guest's console; exit powers it off")
    parser.add_argument("command", nargs="?", help="a shell command to run in the guest")
    arguments = parser.parse_args()
    try:
        if arguments.shell:
            linux = kernel.get()
            command = qemu_command(linux, initramfs.build(linux), "kvm" if kvm_is_there() else "tcg", shell=True)
            return subprocess.call(command + ["-serial", "mon:stdio"])
        if not arguments.command:
            parser.error("--shell or a command")
        with boot() as host:
            status, output = host.run(arguments.command, timeout=600)
            sys.stdout.write(output)
            return status
    except kernel.Missing as missing:
        sys.stderr.write(f"guest.py: {missing}\n")
        return 77
    except (GuestDied, CommandTimeout) as error:
        sys.stderr.write(f"guest.py: {error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(_main())
