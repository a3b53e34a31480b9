# SPDX-License-Identifier: BSD-2-Clause
"""night_faults - the table of faults of test_night.py. Each puts a fault in, waits for its symptom, yields a text of the finding, and removes the fault."""

import contextlib
import os
import re
import resource
import shutil
import signal
import socket
import struct
import sys
import threading
import time

from night import CLOSED, MIB, NQN, RpcError, fault, host, wait_for

import test_hostile as hostile
import test_sharing as sharing
from hanging import READ, STATFS, WRITE

DELAY_US = 10_000_000       # of an I/O that hangs, at least: it is counted in turns. Nothing else ends such an I/O
HOLD_MS = 20_000
STRANGER = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-0000000000cc"

# ---- devices ----


@fault("a device hangs", "device_hung", uses=["EE_M1"])
def device_hangs(night):
    night.inject_io("delay", num=0, delay_us=DELAY_US)
    night.wait_hung("DISPATCHED", "EE_M1")
    yield "EE_M1"
    night.clear_io()


@fault("the disk below a device hangs", "device_hung", uses=["H0"])
def disk_hangs(night):
    night.hanging.hang(READ, WRITE)
    try:
        night.wait_hung("DISPATCHED", "H0")
        yield "H0"
    finally:
        night.hanging.release()


@fault("the file system below a device hangs", "file_system_hangs", uses=["H0"])
def file_system_hangs(night):
    night.hanging.hang(READ, WRITE, STATFS)
    try:
        night.wait_hung("DISPATCHED", "H0")
        yield night.hanging.mount
    finally:
        night.hanging.release()


@fault("a device loses one completion", "command_lost", uses=["EE_M1"])
def completion_is_lost(night):
    night.inject_io("delay", num=1, delay_us=DELAY_US)
    night.wait_hung("DISPATCHED", "EE_M1")
    yield "EE_M1"
    night.clear_io()


@fault("a device is slow", "device_slow", uses=["EE_M1"])
def device_is_slow(night):
    before = night.ios(night.patient, "EE_M1")
    night.inject_io("delay", num=0, delay_us=200_000)
    wait_for(lambda: night.ios(night.patient, "EE_M1") >= before + 20, pause=0.2)
    yield "EE_M1"
    night.clear_io()


@fault("a few I/Os of a device are slow", "rare_slow_io", uses=["EE_M1"])
def few_ios_are_slow(night):
    before = night.ios(night.patient, "EE_M1")
    night.inject_io("delay", num=3, skip=50, delay_us=300_000)
    wait_for(lambda: night.ios(night.patient, "EE_M1") >= before + 200 and not night.is_hung("DISPATCHED", "EE_M1", 100), pause=0.2)
    yield "EE_M1"
    night.clear_io()


@fault("a device fails I/O", "device_fails", uses=["EE_M1"], also=["requests_fail"])
def device_fails(night):
    before = night.count_records("bdev_io_error", "EE_M1")
    night.inject_io("failure", num=0)
    night.wait_record("bdev_io_error", "EE_M1", newer_than=before + 10)
    yield "EE_M1"
    night.clear_io()


def fill(path, free):
    """Leave `free` bytes in the file system."""
    with open(path, "wb", buffering=0) as file:
        while True:
            rest = os.statvfs(path)
            room = rest.f_bavail * rest.f_frsize - free
            if room <= 0:
                return
            file.write(bytes(min(room, MIB)))


@fault("a file system is full", "file_system_full", uses=["small"], also=["device_fails", "requests_fail"])
def file_system_is_full(night):
    path = os.path.join(night.small, "filler")
    fill(path, 0)
    try:
        night.perf("--nsid", 4, "--rw", "write", "--bs", "64k", "--depth", 2, "--range", "8M:1M", "--count", 4)
        yield night.small
    finally:
        os.unlink(path)


@fault("a file system is nearly full", "file_system_nearly_full", uses=["small"])
def file_system_is_nearly_full(night):
    path = os.path.join(night.small, "filler")
    fill(path, 1500 << 10)
    try:
        yield night.small
    finally:
        os.unlink(path)


@fault("a file system has no inodes", "inodes_exhausted", uses=["small"])
def no_inodes(night):
    paths = []
    try:
        for number in range(1000):
            paths.append(os.path.join(night.small, str(number)))
            try:
                open(paths[-1], "w").close()
            except OSError:
                paths.pop()
                break
        yield night.small
    finally:
        for path in paths:
            os.unlink(path)


# ---- storage ----


def change_byte(path, at):
    with open(path, "r+b") as file:
        file.seek(at)
        byte, = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 1]))


@contextlib.contextmanager
def extra_volume(night):
    """A volume with checksums as namespace 6."""
    night.rpc("volume_create", pool="p", volume="c", size=12 * MIB, checksums=True)
    night.rpc("nvmf_subsystem_add_ns", nqn=NQN, namespace={"bdev_name": "p/c", "nsid": 6})
    yield
    night.rpc("nvmf_subsystem_remove_ns", nqn=NQN, nsid=6)
    night.rpc("volume_destroy", pool="p", volume="c")


@fault("a block changes below a volume with checksums", "checksum_mismatch", uses=["storage"], also=["device_fails", "requests_fail"])
def block_is_corrupted(night):
    with extra_volume(night):
        options = ["--nsid", 6, "--depth", 1, "--count", 64]
        night.perf("--rw", "write", *options)
        change_byte(next(path for folder, _, names in os.walk(night.storage) for path in (os.path.join(folder, name) for name in names)
                         if os.path.basename(path).startswith("data") and os.path.getsize(path) == 12 * MIB), 5 * 4096 + 100)
        night.perf("--rw", "read", *options)
        yield "p/c"


@fault("a flush of a volume failed", "data_lost", uses=["storage"], also=["device_fails", "requests_fail"])
def flush_fails(night):
    with extra_volume(night):
        night.perf("--nsid", 6, "--rw", "write", "--depth", 1, "--count", 64)
        night.rpc("fault_inject", point="volume_flush", action="fail", count=1)
        admin, io = connect_queues(night, b"nqn.2026-11.org.fathom:flusher")
        io.s.sendall(hostile.capsule(struct.pack("<BBHI16x", 0, 0x40, 1, 6) + hostile.sgl_transport(0) + bytes(24)))
        assert io.response()[1] != 0
        yield "p/c"
        for s in (admin.s, io.s):
            s.close()


@fault("a flush of a file failed", "device_fails", uses=["small"])
def file_flush_fails(night):
    night.rpc("fault_inject", point="volume_flush", action="fail", count=1)
    admin, io = connect_queues(night, b"nqn.2026-11.org.fathom:flusher")
    io.s.sendall(hostile.capsule(struct.pack("<BBHI16x", 0, 0x40, 1, 4) + hostile.sgl_transport(0) + bytes(24)))
    assert io.response()[1] != 0
    yield "F0"
    for s in (admin.s, io.s):
        s.close()


@fault("a pool promises more than it has", "pool_overcommitted", uses=["storage"])
def pool_is_overcommitted(night):
    night.rpc("pool_create", pool="over", size=64 * MIB, overcommit=True)
    for name in "ab":
        night.rpc("volume_create", pool="over", volume=name, size=60 * MIB)
    yield "over"
    for name in "ab":
        night.rpc("volume_destroy", pool="over", volume=name)
    night.rpc("pool_destroy", pool="over")


@fault("a pool is nearly full", "pool_nearly_full", uses=["storage"])
def pool_is_nearly_full(night):
    night.rpc("pool_create", pool="full", size=32 * MIB, overcommit=True)
    night.rpc("volume_create", pool="full", volume="a", size=31 * MIB, thick=True)
    wait_for(lambda: next(row for row in night.rpc("pool_get_pools")["pools"] if row["name"] == "full")["used_percent"] >= 95)
    yield "full"
    night.rpc("volume_destroy", pool="full", volume="a")
    night.rpc("pool_destroy", pool="full")


@fault("a change of the storage cannot be synced", "storage_failed", uses=["storage"], restarts=True)
def storage_fails(night):
    night.rpc("fault_inject", point="pool_sync", action="fail", skip=3, count=1)    # after the rename, so that it cannot be undone
    try:
        night.rpc("volume_create", pool="p", volume="b", size=MIB)
    except RpcError:
        pass
    yield night.storage


@fault("the configuration cannot be saved", "configuration_unsaved", uses=["state"])
def configuration_is_not_saved(night):
    night.rpc("fault_inject", point="state_write", action="fail", error="ENOSPC")
    try:
        night.rpc("bdev_null_create", name="N0", num_blocks=64, block_size=512)
    except RpcError:
        pass
    yield night.state
    night.rpc("fault_clear", point="state_write")
    night.rpc("bdev_null_delete", name="N0")


@contextlib.contextmanager
def hanging_call(night, point, method, **params):
    """A call that an operator makes does not return."""
    night.rpc("fault_inject", point=point, action="hang")
    call = threading.Thread(target=night.patient.rpc, args=(method, 600), kwargs=params, daemon=True)
    call.start()
    wait_for(lambda: next(row for row in night.rpc("fault_get_points")["points"] if row["point"] == point)["held"] == 1)
    time.sleep(13)
    yield
    night.rpc("fault_clear", point=point)
    call.join(60)


@fault("a change of the storage does not end", "call_hangs", uses=["storage"])
def storage_change_hangs(night):
    with hanging_call(night, "pool_sync", "volume_create", pool="p", volume="h", size=MIB):
        yield "volume_create"
    night.rpc("volume_destroy", pool="p", volume="h")


@fault("the write of the configuration does not end", "call_hangs", uses=["state"])
def configuration_write_hangs(night):
    with hanging_call(night, "state_write", "bdev_null_create", name="N1", num_blocks=64, block_size=512):
        yield "bdev_null_create"
    night.rpc("bdev_null_delete", name="N1")


# ---- hosts ----


@fault("a host is refused by its NQN", "host_refused", uses=["stranger"])
def host_is_refused(night):
    before = night.count_records("nvmf_connect_refused")
    night.perf("--hostnqn", STRANGER, "--count", 1, subsystem=CLOSED)
    night.wait_record("nvmf_connect_refused", newer_than=before)
    yield STRANGER


@fault("a host stops", "keep_alive_expired", uses=["lively"])
def host_stops(night):
    before = night.count_records("nvmf_ctrlr_keep_alive_expired")
    night.hosts["lively"].send_signal(signal.SIGSTOP)
    try:
        night.wait_record("nvmf_ctrlr_keep_alive_expired", newer_than=before)
        yield host(list(night.LOADS).index("lively"))
    finally:
        night.hosts["lively"].send_signal(signal.SIGCONT)


def connect_queues(night, nqn):
    admin, io = hostile.Host(night.patient), hostile.Host(night.patient, receive_bytes=4096)
    cntlid, status = admin.connect(host=nqn)
    assert status == 0 and admin.enable()[1] == 0 and io.connect(1, cntlid & 0xffff, host=nqn)[1] == 0
    return admin, io


def slow_host(night, command, stage, nqn):
    """A host that sends 64 commands and then does nothing."""
    admin, io = connect_queues(night, nqn)
    io.s.sendall(b"".join(hostile.capsule(command(cid, hostile.LARGE)) for cid in range(64)))
    night.wait_hung(stage, nqn.decode())
    return admin.s, io.s


@fault("a host does not read", "host_not_reading", uses=["reader"])
def host_does_not_read(night):
    sockets = slow_host(night, hostile.read, "SENDING", b"nqn.2026-11.org.fathom:reader")
    yield "fathom:reader"
    for s in sockets:
        s.close()


@fault("a host does not send", "host_not_sending", uses=["sender"])
def host_does_not_send(night):
    sockets = slow_host(night, sharing.write, "TRANSFER_IN", b"nqn.2026-11.org.fathom:sender")
    yield "fathom:sender"
    for s in sockets:
        s.close()


@fault("a host sends PDUs that are not valid", "protocol_errors", uses=["browser"])
def host_is_no_host(night):
    before = night.count_records("tcp_protocol_error")
    with socket.create_connection(("127.0.0.1", night.patient.port), timeout=30) as s:
        s.sendall(b"GET / HTTP/1.1\r\nHost: fathom\r\n\r\n" + bytes(200))
        while s.recv(4096):
            pass
    night.wait_record("tcp_protocol_error", newer_than=before)
    yield ""


DESCRIPTORS = ["descriptors", "lively", "stranger", "browser", "reader", "sender", "storage", "small"]    # no other host may come or go


@fault("the engine is out of descriptors", "descriptors_exhausted", uses=DESCRIPTORS)
def no_descriptors(night):
    before, sockets = night.count_records("tcp_refuse"), []
    with night.limit(resource.RLIMIT_NOFILE, night.descriptors() + 2):
        for _ in range(8):
            try:
                sockets.append(socket.create_connection(("127.0.0.1", night.patient.port), timeout=30))
            except OSError:
                pass
        night.wait_record("tcp_refuse", newer_than=before)
        yield ""
    for s in sockets:
        s.close()


@fault("few descriptors are left", "descriptors_scarce", uses=DESCRIPTORS)
def few_descriptors(night):
    with night.limit(resource.RLIMIT_NOFILE, night.descriptors() + 4):
        yield ""


@fault("memory for a connection is short", "connections_refused", uses=["stranger"])
def no_memory_for_a_host(night):
    before = night.count_records("tcp_refuse")
    night.rpc("fault_inject", point="host_admit", action="fail", count=2)
    night.perf("--hostnqn", STRANGER, "--count", 1)
    night.wait_record("tcp_refuse", newer_than=before)
    yield ""
    night.rpc("fault_clear", point="host_admit")


# ---- threads and the process ----


def hold(night, name, **how):
    reactor = len(night.cpus) - 1
    night.rpc("reactor_hold", reactor=reactor, milliseconds=HOLD_MS, **how)
    until = time.monotonic() + HOLD_MS / 1000

    wait_for(lambda: re.search(rf"reactor_{reactor}.*runs reactor_hold .* for ([3-9]|\d\d)[.]\d* s",
                               night.patient.trace("threads", "-f", night.patient.trace_path).stdout), pause=0.3)
    yield name % reactor
    time.sleep(max(0, until - time.monotonic()))


@fault("a reactor sleeps in a system call", "reactor_blocked")
def reactor_sleeps(night):
    yield from hold(night, "reactor_%d")


@fault("a poller does not return", "reactor_runaway")
def poller_does_not_return(night):
    yield from hold(night, "reactor_%d", busy=True)


@fault("the process is stopped", "process_stopped")
def process_is_stopped(night):
    os.kill(night.patient.pid, signal.SIGSTOP)
    try:
        time.sleep(3)
        yield str(night.patient.pid)
    finally:
        os.kill(night.patient.pid, signal.SIGCONT)


@fault("a debugger holds the process", "process_traced")
def process_is_in_a_debugger(night):
    with night.held(night.threads()):
        time.sleep(3)
        yield str(night.patient.pid)


@fault("a debugger holds the control thread", "thread_held")
def control_thread_is_in_a_debugger(night):
    with night.held([night.patient.pid]):
        time.sleep(3)
        yield str(night.patient.pid)


@fault("the control socket is away", "control_missing", uses=["socket"])
def socket_is_away(night):
    os.rename(night.patient.sock, night.patient.sock + ".away")
    try:
        yield ""
    finally:
        os.rename(night.patient.sock + ".away", night.patient.sock)


@fault("a cgroup freezes the engine", "process_frozen")
def cgroup_freezes(night):
    with night.in_cgroup("freezer") as group:
        name, value, thawed = ("cgroup.freeze", "1", "0") if group.version2 else ("freezer.state", "FROZEN", "THAWED")
        group.set(name, value)
        try:
            wait_for(lambda: group.get(name).strip() == value)
            time.sleep(3)
            yield os.path.basename(group.path)
        finally:
            group.set(name, thawed)


@fault("the cgroup of the engine has no CPU time left", "cgroup_throttled")
def cgroup_throttles(night):
    with night.in_cgroup("cpu") as group:
        def limit(quota):
            if group.version2:
                group.set("cpu.max", f"{quota} 100000" if quota > 0 else "max 100000")
            else:
                group.set("cpu.cfs_quota_us", quota)

        def throttled():
            return int(dict(line.split() for line in group.get("cpu.stat").splitlines())["nr_throttled"])
        before = throttled()
        limit(2000)     # 2 % of a CPU
        try:
            wait_for(lambda: throttled() >= before + 20)
            yield os.path.basename(group.path)
        finally:
            limit(-1)


@fault("a process is bound to a reactor's CPU", "reactor_cpu_shared", uses=["cpu"])
def neighbour_on_the_cpu(night):
    cpu = night.cpus[0]

    def be_greedy():    # its share of the CPU must be large, whatever else runs on this machine
        os.sched_setaffinity(0, {cpu})
        os.nice(-15)
    program = night.program(sys.executable, "-c", "while True: pass", preexec_fn=be_greedy)
    try:
        time.sleep(1)
        yield f"CPU {cpu}"
    finally:
        program.kill()
        program.wait()


@fault("the process was killed", "process_killed", restarts=True)
def process_is_killed(night):
    night.patient.kill()
    yield str(night.patient.pid)


@fault("a must() failed", "must_failed", restarts=True)
def must_fails(night):
    night.crash("must")
    yield str(night.patient.pid)


@fault("a must() with values failed", "must_failed", restarts=True)
def check_fails(night):
    night.crash("check")
    yield str(night.patient.pid)


@fault("a store to an unmapped address", "process_crashed", restarts=True)
def process_crashes(night):
    night.crash("store")
    yield "SIGSEGV"


@fault("a call of abort()", "process_crashed", restarts=True)
def process_aborts(night):
    night.crash("abort")
    yield "SIGABRT"


@fault("a stack overflow", "process_crashed", restarts=True)
def stack_overflows(night):
    night.crash("stack")
    yield "SIGSEGV"


@fault("a division by zero", "process_crashed", restarts=True)
def process_divides(night):
    night.crash("divide")
    yield "SIGFPE"


@fault("the engine was stopped in an orderly way", "process_ended", restarts=True)
def engine_is_stopped(night):
    night.patient.stop()
    yield str(night.patient.pid)


# ---- the machine, the program, certificates ----


def replace(path):
    """As a package manager does: a new file gets the name."""
    shutil.copy(path, path + ".new")
    os.rename(path + ".new", path)


@fault("the program was replaced on disk", "program_replaced", uses=["program"], restarts=True)
def program_is_replaced(night):
    replace(night.program_path)
    yield night.program_path


@fault("a library was replaced on disk", "library_replaced", uses=["library"], restarts=True)
def library_is_replaced(night):
    replace(night.library)
    yield night.library


@fault("a crash would leave no core", "core_lost", uses=["core"])
def no_core(night):
    with night.limit(resource.RLIMIT_CORE, 0):
        yield "core"


@fault("a group of the trace is off", "trace_incomplete", uses=["trace"])
def trace_is_off(night):
    night.rpc("trace_disable_tpoint_group", name="bdev")
    yield "points are off"
    night.rpc("trace_enable_tpoint_group", name="bdev")


@fault("a certificate has expired", "certificate_expired", uses=["certificates"])
def certificate_has_expired(night):
    path = night.make_certificate("agent", -1)
    try:
        yield path
    finally:
        os.unlink(path)


@fault("a certificate expires soon", "certificate_expiring", uses=["certificates"])
def certificate_expires(night):
    path = night.make_certificate("agent", 5)
    try:
        yield path
    finally:
        os.unlink(path)
