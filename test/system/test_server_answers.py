# SPDX-License-Identifier: BSD-2-Clause
"""
What fathom-server answers over gRPC: who may call, scans, usage, restarts, log masks, collected logs.
"""

import ctypes
import errno
import fcntl
import io
import json
import os
import re
import signal
import socket
import struct
import subprocess
import tarfile
import time
import unittest

from harness import BIN, FATHOM, TOP, run
from server_rig import SERVER, Refused, ServerTest, read

SIOCGIFADDR = 0x8915    # <linux/sockios.h>


def unpack_zstd(data):
    zstd = ctypes.CDLL("libzstd.so.1")
    zstd.ZSTD_getFrameContentSize.restype = ctypes.c_ulonglong
    zstd.ZSTD_decompress.restype = ctypes.c_size_t
    room = zstd.ZSTD_getFrameContentSize(data, ctypes.c_size_t(len(data)))
    plain = ctypes.create_string_buffer(room)
    count = zstd.ZSTD_decompress(plain, ctypes.c_size_t(room), data, ctypes.c_size_t(len(data)))
    return plain.raw[:count]


def has_address(interface):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            fcntl.ioctl(any_socket, SIOCGIFADDR, struct.pack("256s", interface.encode()))
        except OSError:
            pass
        else:
            return True
    return any(line.split()[-1] == interface for line in read("/proc/net/if_inet6").splitlines())


class Answers(ServerTest):
    def test_each_method_accepts_only_its_roles(self):
        """The test repeats the policy: all methods of the table and no others."""
        may = {"admin": """ctl.CtlSvc/NetworkScan ctl.CtlSvc/StorageScan ctl.CtlSvc/SmdQuery ctl.CtlSvc/StorageFormat ctl.CtlSvc/SetEngineLogMasks
                           ctl.CtlSvc/StartRanks ctl.CtlSvc/PrepShutdownRanks ctl.CtlSvc/StopRanks ctl.CtlSvc/ResetFormatRanks
                           fathom.ControlSvc/EngineQuery fathom.ControlSvc/EngineSetRestart fathom.ControlSvc/FaultInject fathom.ControlSvc/ConfigGenerate
                           fathom.ControlSvc/CollectLog fathom.ControlSvc/HostDevices fathom.ControlSvc/HostHealth fathom.ControlSvc/SystemEvents
                           fathom.ControlSvc/FirmwareUpdate fathom.ControlSvc/DeviceLed fathom.ControlSvc/HostDoctor ctl.CtlSvc/SmdManage
                           mgmt.MgmtSvc/LeaderQuery mgmt.MgmtSvc/GetAttachInfo mgmt.MgmtSvc/SystemQuery mgmt.MgmtSvc/SystemStart
                           mgmt.MgmtSvc/SystemStop mgmt.MgmtSvc/SystemExclude mgmt.MgmtSvc/SystemErase mgmt.MgmtSvc/SystemSetAttr
                           mgmt.MgmtSvc/SystemGetAttr mgmt.MgmtSvc/SystemSetProp mgmt.MgmtSvc/SystemGetProp
                           mgmt.MgmtSvc/PoolCreate mgmt.MgmtSvc/PoolDestroy mgmt.MgmtSvc/ListPools mgmt.MgmtSvc/PoolQuery mgmt.MgmtSvc/PoolGetProp
                           mgmt.MgmtSvc/PoolSetProp mgmt.MgmtSvc/PoolEvict mgmt.MgmtSvc/ListContainers
                           mgmt.MgmtSvc/PoolGetACL mgmt.MgmtSvc/PoolOverwriteACL mgmt.MgmtSvc/PoolUpdateACL mgmt.MgmtSvc/PoolDeleteACL
                           mgmt.MgmtSvc/PoolExtend mgmt.MgmtSvc/PoolExclude mgmt.MgmtSvc/PoolDrain mgmt.MgmtSvc/PoolReintegrate
                           fathom.ControlSvc/VolumeCreate fathom.ControlSvc/VolumeList fathom.ControlSvc/VolumeResize
                           fathom.ControlSvc/VolumeSetProp
                           fathom.ControlSvc/VolumeRename fathom.ControlSvc/VolumeMove fathom.ControlSvc/VolumeDestroy fathom.ControlSvc/VolumePublish
                           fathom.ControlSvc/VolumeUnpublish fathom.ControlSvc/SnapshotCreate fathom.ControlSvc/SnapshotDestroy
                           fathom.ControlSvc/SnapshotRestore fathom.ControlSvc/SnapshotChanges""",
               "agent": "mgmt.MgmtSvc/GetAttachInfo mgmt.MgmtSvc/PoolEvict fathom.ControlSvc/VolumePublish fathom.ControlSvc/VolumeUnpublish",
               "server": """ctl.CtlSvc/StartRanks ctl.CtlSvc/PrepShutdownRanks ctl.CtlSvc/StopRanks ctl.CtlSvc/ResetFormatRanks
                            fathom.ControlSvc/GroupUpdate fathom.ControlSvc/Storage fathom.ControlSvc/TakeEvents fathom.ControlSvc/ReportEngines
                            mgmt.MgmtSvc/Join mgmt.MgmtSvc/ClusterEvent mgmt.MgmtSvc/SystemGetProp"""}
        may = {role: set(paths.split()) for role, paths in may.items()}
        every = set().union(*may.values())
        table = subprocess.run([os.path.join(TOP, "src/control/operation/generate.py"), "--print", "method-list"], stdout=subprocess.PIPE, text=True, check=True)
        self.assertEqual({line.split()[0] for line in table.stdout.splitlines()}, every)
        server = self.server(engines=0).start()
        for path in sorted(every):
            for role in ("admin", "agent", "server", "nobody", ""):
                with self.assertRaises(Refused) as refused:
                    server.call("/" + path, None, role=role, raw=b"\xff")  # not a valid message, so no call takes effect
                if path in may.get(role, ()):
                    self.assertEqual(refused.exception.code, "INVALID_ARGUMENT", f"{path} {role}")
                else:
                    self.assertIn(refused.exception.code, ("PERMISSION_DENIED", "UNAUTHENTICATED"), f"{path} {role}")
        with self.assertRaises(Refused) as refused:
            server.call("/mgmt.MgmtSvc/SystemAnything", None, raw=b"", answer=self.messages.mgmt.DaosResp)
        self.assertEqual(refused.exception.code, "UNIMPLEMENTED")

    def test_another_systems_requests_are_refused(self):
        server = self.server(engines=0).start()
        fathom = self.messages.fathom
        for sys in ("", "daos_server", "daos_server-2.9.100"):
            server.call("/fathom.ControlSvc/EngineQuery", fathom.EngineQueryReq(sys=sys))
        for sys in ("other", "daos_server2-0.1", "daos"):
            with self.assertRaises(Refused) as refused:
                server.call("/fathom.ControlSvc/EngineQuery", fathom.EngineQueryReq(sys=sys))
            self.assertEqual(refused.exception.fault.get("Code"), "603")

    def test_simultaneous_scans_share_an_answer(self):
        server = self.server(engines=0).start()
        ctl = self.messages.ctl
        server.call("/ctl.CtlSvc/StorageScan", ctl.StorageScanReq())
        asks = [server.channel.unary_unary("/ctl.CtlSvc/StorageScan", request_serializer=lambda r: r.SerializeToString(),
                                           response_deserializer=ctl.StorageScanResp.FromString)
                .future(ctl.StorageScanReq(), metadata=(("x-daos-component", "admin"),)) for _ in range(50)]
        answers = [ask.result(20) for ask in asks]
        self.assertTrue(all(answer.sys_mem_info.mem_total_kb > 0 for answer in answers))
        scans = run(os.path.join(BIN, "fathom"), "trace", "show", "-f", f"/dev/shm/{server.trace_name}_trace.pid{server.process.pid}",
                    check=False).stdout.count("SERVER_SCAN_BEGIN")
        self.assertTrue(2 <= scans < 51, scans)

    def test_usage_of_storage_is_that_of_its_folder(self):
        server = self.server().start()
        usage = self.messages.ctl.StorageScanReq(scm=self.messages.ctl.ScanScmReq(usage=True))
        self.assertEqual(len(server.call("/ctl.CtlSvc/StorageScan", usage).scm.namespaces), 0)
        server.format()
        server.wait_joined()
        mount = server.call("/ctl.CtlSvc/StorageScan", usage).scm.namespaces[0].mount
        self.assertEqual((mount.path, mount.total_bytes, mount.rank), (server.mount_path(0), 64 << 20, 0))
        free = mount.avail_bytes
        self.assertLessEqual(free, mount.total_bytes)
        with open(os.path.join(server.mount_path(0), "data.img"), "r+b") as f:
            f.seek(16 << 20)
            f.write(b"x" * (1 << 20))
            os.fsync(f.fileno())
        mount = server.call("/ctl.CtlSvc/StorageScan", usage).scm.namespaces[0].mount
        self.assertEqual((free - mount.avail_bytes, mount.usable_bytes), (1 << 20, mount.avail_bytes))

    def test_a_network_scan_lists_interfaces_with_addresses_or_all(self):
        server = self.server(engines=0).start()
        links = {name for name in os.listdir("/sys/class/net") if read(f"/sys/class/net/{name}/type").strip() != "772"}
        names = {name for name in links if int(read(f"/sys/class/net/{name}/flags"), 16) & 1 and has_address(name)}
        answer = server.call("/ctl.CtlSvc/NetworkScan", self.messages.ctl.NetworkScanReq())
        self.assertEqual({row.device for row in answer.interfaces}, names)
        every = server.call("/ctl.CtlSvc/NetworkScan", self.messages.ctl.NetworkScanReq(provider="all"))
        self.assertEqual({row.device for row in every.interfaces}, links)
        for name in sorted(names)[:1]:
            fewer = server.call("/ctl.CtlSvc/NetworkScan", self.messages.ctl.NetworkScanReq(excludeinterfaces=f"x,{name}"))
            self.assertEqual({row.device for row in fewer.interfaces}, names - {name})
        none = server.call("/ctl.CtlSvc/NetworkScan", self.messages.ctl.NetworkScanReq(provider="ofi+verbs"))
        self.assertEqual(len(none.interfaces), 0)

    def test_restart_policies_are_shown_and_set(self):
        server = self.server(keys="engine_restart: {killed: {delay_min: 250ms}}\n").start()
        fathom = self.messages.fathom

        def policies(*new):
            answer = server.call("/fathom.ControlSvc/EngineSetRestart", fathom.EngineSetRestartReq(policies=new))
            return {row.cause: (row.restart, row.delay_min_ms, row.delay_max_ms, row.limit) for row in answer.policies}

        shown = policies()
        self.assertEqual(shown["killed"], (True, 250, 300000, 0))
        self.assertEqual(len(shown), 8)
        changed = policies(fathom.RestartPolicy(cause="exited", restart=True, delay_min_ms=1, delay_max_ms=2, limit=3))
        self.assertEqual(changed["exited"], (True, 1, 2, 3))
        self.assertEqual(policies(), changed)
        with self.assertRaises(Refused) as refused:
            policies(fathom.RestartPolicy(cause="failed", limit=9), fathom.RestartPolicy(cause="bored"))
        self.assertEqual(refused.exception.fault.get("Code"), "693")
        with self.assertRaises(Refused) as refused:
            policies(fathom.RestartPolicy(cause="failed", limit=9), fathom.RestartPolicy(cause="exited", delay_min_ms=2))
        self.assertEqual(refused.exception.fault.get("Code"), "694")
        self.assertEqual(policies(), changed)

    def test_log_masks_reach_the_engines(self):
        server = self.server(engine_keys="  log_mask: NOTICE\n").start()
        server.format()
        server.wait_joined()
        ctl = self.messages.ctl
        answer = server.call("/ctl.CtlSvc/SetEngineLogMasks", ctl.SetLogMasksReq(masks="DEBUG"))
        self.assertEqual((answer.status, list(answer.errors)), (0, [""]))
        self.assertIn("set the log level to DEBUG", server.engine_logs())
        answer = server.call("/ctl.CtlSvc/SetEngineLogMasks", ctl.SetLogMasksReq(masks="LOUD"))
        self.assertEqual(list(answer.errors), [
            'server: code = 699 description = "fathom-engine 0 rejects these log masks: there is no such priority"; '
            'give one priority, ERROR, WARNING, NOTICE, INFO or DEBUG, without facilities, streams and subsystems'])
        answer = server.call("/ctl.CtlSvc/SetEngineLogMasks", ctl.SetLogMasksReq(masks="INFO,RPC=ERR"))
        self.assertIn("it has one level for all its lines", answer.errors[0])
        self.assertEqual(list(server.call("/ctl.CtlSvc/SetEngineLogMasks", ctl.SetLogMasksReq(reset_masks=True)).errors), [""])

    def test_logs_are_collected(self):
        server = self.server().start()
        server.format()
        server.wait_joined()
        fathom = self.messages.fathom
        first = server.call("/fathom.ControlSvc/CollectLog", fathom.CollectLogReq())
        data = first.piece
        while len(data) < first.total_bytes:
            data += server.call("/fathom.ControlSvc/CollectLog", fathom.CollectLogReq(id=first.id, offset=len(data))).piece
        self.assertTrue(first.name.endswith(".tar.zst"))
        path = os.path.join(self.directory, "logs.tar")
        with open(path, "wb") as f:
            f.write(unpack_zstd(data))
        names = {name.split("/", 1)[1] for name in run("tar", "tf", path).stdout.split()}
        self.assertEqual(names, {"server.yml", "engines.txt", "statistics.txt", "engine0.log", "superblock0", "devices.txt", "interfaces.txt",
                                 "server.log", "engine0.config.json", "engine0.iostat.json", "engine0.trace", "events.txt"})
        states = run("tar", "xOf", path, first.id + "/engines.txt").stdout
        self.assertIn("engine 0: JOINED", states)
        with self.assertRaises(Refused) as refused:
            server.call("/fathom.ControlSvc/CollectLog", fathom.CollectLogReq(id="fathom-1"))
        self.assertEqual(refused.exception.fault.get("Code"), "695")

    def test_the_running_server_shows_its_counters(self):
        server = self.server().start()
        server.format()
        server.wait_joined()
        shown = json.loads(run(SERVER, "stats", "--json", "-o", server.config_path).stdout)
        self.assertEqual(set(shown), {"server", "mgmt"})
        self.assertEqual(shown["mgmt"]["joins"], 1)
        self.assertEqual((shown["mgmt"]["queue_full"], shown["server"]["events_foreign"]), (0, 0))
        self.assertGreater(shown["server"]["events_added"], 0)
        lines = run(SERVER, "stats", "-o", server.config_path).stdout.splitlines()
        self.assertEqual(lines[0].split(), ["Group", "Counter", "Value", "Meaning"])
        self.assertEqual(len(lines), 2 + sum(len(group) for group in shown.values()))
        self.assertTrue(any(line.split()[:3] == ["mgmt", "joins", "1"] for line in lines))
        server.stop()
        self.assertIn(server.socket_dir, run(SERVER, "stats", "-o", server.config_path, check=False).stderr)

    def test_configuration_statistics_and_trace_of_engines_are_collected(self):
        server = self.server().start()
        server.format()
        engine, = server.wait_joined()
        run(FATHOM, "rpc", "-s", engine.rpc_socket, "bdev_null_create", "n0", "1", "4096")
        found = self.collect(server)
        self.assertIn("subsystems", json.loads(found["engine0.config.json"]))
        self.assertIn("n0", [bdev["name"] for bdev in json.loads(found["engine0.iostat.json"])["bdevs"]])
        self.assertRegex(found["events.txt"].decode(), r"(?m)^\d+ id: \[storage_formatted\] .*was formatted by uid \d+\]")
        trace = os.path.join(self.directory, "collected.trace")
        with open(trace, "wb") as file:
            file.write(found["engine0.trace"])
        self.assertIn(f"pid {engine.pid}", run(FATHOM, "trace", "show", "-f", trace).stdout[:2000])
        self.assertEqual([name for name in os.listdir(server.state_dir) if "config.json" in name or ".trace" in name], [])
        # if an engine does not answer, the reason is collected in place of its answer
        os.kill(engine.pid, signal.SIGSTOP)
        self.addCleanup(os.kill, engine.pid, signal.SIGCONT)
        found = self.collect(server)
        self.assertIn(os.strerror(errno.ETIMEDOUT), found["engine0.iostat.json"].decode())
        self.assertIn("server.log", found)

    def collect(self, server, **asked):
        """{name: bytes} of what was collected."""
        fathom = self.messages.fathom
        first = server.call("/fathom.ControlSvc/CollectLog", fathom.CollectLogReq(**asked))
        data = first.piece
        while len(data) < first.total_bytes:
            data += server.call("/fathom.ControlSvc/CollectLog", fathom.CollectLogReq(id=first.id, offset=len(data))).piece
        with tarfile.open(fileobj=io.BytesIO(unpack_zstd(data))) as tar:
            return {entry.name.split("/", 1)[1]: tar.extractfile(entry).read() for entry in tar}

    def test_logs_are_collected_by_type_by_time_and_from_an_extra_folder(self):
        log_path = os.path.join(self.directory, "own.log")
        server = self.server(keys=f"control_log_file: {log_path}\n").start()
        moment = int(time.time()) // 86400 * 86400 - 86400
        stamp = [time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment + second)) for second in range(6)]
        utc = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment + 3))
        with open(log_path, "w") as f:
            f.write(f"no stamp\n[{stamp[0]}.000000] NOTICE: a\n[{stamp[1]}.999999] NOTICE: b\n of b\n{{\"time\":\"{utc}.000001Z\",\"message\":\"c\"}}\n"
                    f"[{stamp[4]}.000001] NOTICE: d\n of d\n[{stamp[5]}.000000] NOTICE: e\n")
        whole = self.collect(server, types=["control"])
        self.assertEqual(set(whole), {"server.log"})
        self.assertIn(b"no stamp\n", whole["server.log"])
        # stamps are compared by their second
        for since, until, wanted in ((1, 4, "bcd"), (2, 3, "c"), (-9, 1, "ab"), (4, None, "de"), (9, None, "")):
            times = {"from_s": moment + since, "until_s": moment + until if until is not None else 0}
            text = self.collect(server, types=["control"], **times)["server.log"].decode()
            found = "".join(letter for letter in "abcde" if f"NOTICE: {letter}\n" in text or f'"message":"{letter}"' in text)
            self.assertEqual(found, wanted, (since, until, text))
            self.assertEqual("of b" in text, "b" in wanted)
            self.assertNotIn("no stamp", text)
        self.assertEqual(set(self.collect(server, types=["server"])), {"engine0.log"})
        extra = os.path.join(self.directory, "extra")
        os.makedirs(os.path.join(extra, "deeper"))
        for name, text in (("one.log", "one\n"), ("server.key", "-----BEGIN PRIVATE KEY-----\nsecret\n"), (".hidden", "x"), ("deeper/two.log", "x")):
            with open(os.path.join(extra, name), "w") as f:
                f.write(text)
        os.mkfifo(os.path.join(extra, "pipe"))
        found = self.collect(server, types=["control"], extra_folder=extra)
        self.assertEqual(set(found), {"server.log", "extra/one.log", "extra/server.key"})
        self.assertEqual(found["extra/one.log"], b"one\n")
        self.assertNotIn(b"secret", found["extra/server.key"])
        self.assertIn("server.yml", self.collect(server, extra_folder=extra))
        self.assertIn(b"No such file", self.collect(server, extra_folder="/no/such/folder")["extra"])
        for bad in ({"extra_folder": "/no/such/folder", "stop_on_error": True}, {"extra_folder": "relative"}):
            with self.assertRaises(Refused) as refused:
                self.collect(server, **bad)
            self.assertEqual(refused.exception.fault.get("Code"), "696")

    def journal_server(self, script):
        """A server that takes its standard error for the journal's socket, with `script` in place of journalctl."""
        folder = os.path.join(self.directory, "bin")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "journalctl"), "w") as f:
            f.write("#!/bin/sh\n" + script)
        os.chmod(f.name, 0o755)
        read_end, write_end = os.pipe()
        self.addCleanup(os.close, read_end)
        self.addCleanup(os.close, write_end)
        stat = os.fstat(write_end)
        server = self.server(engines=0)
        return server.start(stderr=write_end, env={"PATH": f"{folder}:{os.environ['PATH']}", "JOURNAL_STREAM": f"{stat.st_dev}:{stat.st_ino}"})

    def test_the_log_is_collected_from_the_file_of_standard_error_or_the_journal(self):
        """The configuration names no log file."""
        found = self.collect(self.server(engines=0).start(), types=["control"])
        self.assertIn(b"NOTICE: ready after", found["server.log"])
        server = self.journal_server('for word; do echo "$word"; done; echo "2026-11-23T04:03:42+0000 host fathom-server[1]: a line"\n')
        said = self.collect(server, types=["control"], from_s=1700000000, until_s=1700000009)["server.log"].decode()
        self.assertIn("fathom-server[1]: a line\n", said)
        for word in ("--unit=fathom-server", "--since=@1700000000", "--until=@1700000010", "--lines=20000"):
            self.assertIn(word + "\n", said)
        self.assertEqual(os.listdir(server.state_dir), [name for name in os.listdir(server.state_dir) if "journal" not in name])

    def test_a_log_that_cannot_be_collected_is_reported(self):
        for script, wanted in (("exit 0\n", "no line that it may read"), ("echo no permission >&2; exit 1\n", "no permission"), ("exec sleep 60\n", "timed out")):
            server = self.journal_server(script)
            answer = server.call("/fathom.ControlSvc/CollectLog", self.messages.fathom.CollectLogReq(types=["control"]))
            self.assertRegex(answer.warning, f"the server's log is missing: `journalctl -u fathom-server` printed no line .*{wanted}")
            if "sleep" not in script:   # that takes ten seconds
                self.assertEqual(self.collect(server, types=["control"])["server.log"].decode(), answer.warning + "\n")
            self.assertEqual([name for name in os.listdir(server.state_dir) if "journal" in name], [])
            server.stop()
        read_end, write_end = os.pipe()
        self.addCleanup(os.close, read_end)
        server = self.server(engines=0).start(stderr=write_end)
        os.close(write_end)
        path = os.path.join(self.directory, "control.yml")
        with open(path, "w") as f:
            f.write(f"name: {server.name}\n")
        done = run(FATHOM, "support", "collect-log", "-o", path, "-i", "-l", server.address, "-e", "control", "-t", os.path.join(self.directory, "out"))
        self.assertRegex(done.stderr, r"(?m)^WARNING: fathom: 127\.0\.0\.1: the server's log is missing: it goes to standard error \(pipe:.*set control_log_file")
        with self.assertRaises(Refused) as refused:
            self.collect(server, types=["control"], stop_on_error=True)
        self.assertEqual(refused.exception.fault.get("Code"), "696")

    def test_a_second_collection_at_the_same_time_is_refused(self):
        server = self.server(engines=0).start()
        fathom = self.messages.fathom
        server.engines()
        asks = [server.channel.unary_unary("/fathom.ControlSvc/CollectLog", request_serializer=lambda r: r.SerializeToString(),
                                           response_deserializer=fathom.CollectLogResp.FromString)
                .future(fathom.CollectLogReq(), metadata=(("x-daos-component", "admin"),)) for _ in range(20)]
        refused = [ask for ask in asks if ask.exception(20)]
        self.assertTrue(0 < len(refused) < 20, len(refused))
        self.assertTrue(all(server.fault_of(ask).get("Code") == "696" for ask in refused))

    def test_a_format_without_engines_is_refused(self):
        server = self.server(engines=0).start()
        with self.assertRaises(Refused) as refused:
            server.format()
        self.assertEqual(refused.exception.fault.get("Code"), "692")


if __name__ == "__main__":
    unittest.main()
