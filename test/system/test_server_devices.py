# SPDX-License-Identifier: BSD-2-Clause
"""
fathom-server with its helper: devices formatted and mounted, and a helper that is missing, hangs or is killed.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import time
import unittest

from harness import BIN, run
from loop_device import NOBODY, NO_LOOP, attach, detach
from server_rig import SERVER, Refused, ServerTest, is_alive, read


class Helper(ServerTest):
    def test_a_failed_helper_that_no_engine_needs_is_logged_without_error(self):
        ours = os.path.join(self.directory, "helper")
        with open(ours, "w") as f:
            f.write(f"#!/bin/sh\necho $$ >{self.directory}/began\nexit 3\n")
        os.chmod(ours, 0o755)
        server = self.server(keys=f"helper: {ours}\ncontrol_log_mask: INFO\n").start()
        deadline = time.monotonic() + 60
        while "code = 52 " not in server.log() and time.monotonic() < deadline:
            time.sleep(0.02)
        line = next(line for line in server.log().splitlines() if "code = 52 " in line)
        self.assertRegex(line, "INFO: no engine here needs it, but .*ended with status 3")
        self.assertTrue(os.path.exists(os.path.join(self.directory, "began")))

    def test_each_line_that_the_helper_writes_goes_to_the_servers_log(self):
        ours, log = os.path.join(self.directory, "helper"), os.path.join(self.directory, "json.log")
        with open(ours, "w") as f:
            f.write("#!/bin/sh\necho one\necho '[2026-11-23 05:00:00.000001] ERROR: \"two\"' >&2\nprintf 'no end'\nexit 3\n")
        os.chmod(ours, 0o755)
        server = self.server(engines=0, keys=f"helper: {ours}\ncontrol_log_file: {log}\ncontrol_log_json: true\n").start()
        deadline = time.monotonic() + 60
        while "no end" not in read(log) and time.monotonic() < deadline:
            time.sleep(0.02)
        server.stop()
        said = [json.loads(line)["message"] for line in read(log).splitlines()]      # each is JSON
        self.assertEqual([text for text in said if text.startswith("helper: ")][:3], ["helper: one", 'helper: ERROR: "two"', "helper: no end"])


@unittest.skipIf(NO_LOOP, NO_LOOP)
class Devices(ServerTest):
    """Block devices, formatted with XFS and mounted by fathom-helper."""

    def setUp(self):
        super().setUp()
        os.chmod(self.directory, 0o755)
        self.mounts = os.path.join(self.directory, "mnt")
        os.mkdir(self.mounts)
        self.loops = {}
        config = os.path.join(self.directory, "helper.conf")
        with open(config, "w") as f:
            f.write(f"mounts {self.mounts}\ndevice loop*\n")
        # the helper accepts --config only from root; this test runs as root
        self.helper = os.path.join(self.directory, "helper")
        with open(self.helper, "w") as f:
            f.write(f"#!/bin/sh\n[ ! -e {self.directory}/hang ] || exec sleep 1000\nexec {BIN}/fathom-helper --config {config} \"$@\"\n")
        os.chmod(self.helper, 0o755)

    def tearDown(self):
        for server in self.servers:
            server.discard()
        deadline = time.monotonic() + 60
        for target in (os.path.join(self.mounts, name) for name in os.listdir(self.mounts)):
            while os.path.ismount(target) and time.monotonic() < deadline:  # a killed engine holds files for a moment
                subprocess.run(["umount", target], stderr=subprocess.DEVNULL, check=False)
        for device, path in self.loops.items():
            detach(device, path)
        super().tearDown()

    def attach_loop(self, own=False):
        path = os.path.join(self.directory, f"image{len(self.loops)}")
        with open(path, "wb") as f:
            f.truncate(400 << 20)
        device = attach(path, own)
        self.loops[device] = path
        return device

    def device_server(self, count=1, own=False):
        devices = [self.attach_loop(own) for _ in range(count)]
        return self.server(devices=devices, mounts=self.mounts, keys=f"helper: {self.helper}\n"), devices

    def is_mounted(self, server, index=0):
        return any(line.split()[1] == server.mount_path(index) for line in read("/proc/mounts").splitlines())

    def test_a_formatted_device_stays_mounted_when_its_server_is_killed(self):
        server, devices = self.device_server()
        server.start()
        server.wait(lambda engines: engines[0].state == "await_format")
        answer = server.format()
        self.assertEqual((answer.mrets[0].state.error, answer.crets[0].pci_addr), ("", devices[0]))
        before = server.wait_joined()[0]
        self.assertTrue(self.is_mounted(server))
        scan = server.call("/ctl.CtlSvc/StorageScan", self.messages.ctl.StorageScanReq(
            nvme=self.messages.ctl.ScanNvmeReq(Meta=True), scm=self.messages.ctl.ScanScmReq(usage=True)))
        controller = [row for row in scan.nvme.ctrlrs if row.pci_addr == devices[0]][0]
        self.assertEqual((controller.namespaces[0].size, controller.smd_devices[0].rank), (400 << 20, 0))
        self.assertEqual((scan.scm.namespaces[0].blockdev, scan.scm.namespaces[0].mount.path),
                         (os.path.basename(devices[0]), server.mount_path(0)))
        server.kill()
        self.assertTrue(is_alive(before.pid) and self.is_mounted(server))
        server.start()
        after = server.wait_joined()[0]
        self.assertEqual((after.pid, after.adopted), (before.pid, True))
        rows = server.call("/ctl.CtlSvc/StopRanks", self.messages.ctl.RanksReq(), role="server", timeout=60).results
        self.assertEqual([(row.state, row.msg) for row in rows], [("stopped", "")])
        self.assertFalse(self.is_mounted(server))
        server.stop()
        server.start()
        self.assertEqual(server.wait_joined()[0].rank, 0)

    def test_a_device_with_data_is_formatted_only_by_force(self):
        server, devices = self.device_server()
        subprocess.run(["mkfs.xfs", "-q", devices[0]], check=True)
        server.start()
        refused = server.format().mrets[0].state
        self.assertNotEqual((refused.status, refused.error), (0, ""))
        self.assertNotEqual(refused.info, "")
        self.assertEqual(server.format(reformat=True).mrets[0].state.error, "")
        server.wait_joined()

    def test_a_helper_that_hangs_delays_no_other_call(self):
        hang = os.path.join(self.directory, "hang")
        open(hang, "w").close()
        server, _ = self.device_server()
        server.start()
        server.wait(lambda engines: engines[0].state == "checking")
        server.call("/ctl.CtlSvc/NetworkScan", self.messages.ctl.NetworkScanReq())
        self.assertEqual(server.engines()[0].state, "checking", "it waited for the helper")
        info = server.wait(lambda engines: engines[0].state == "errored")[0].info
        self.assertRegex(info, "helper")
        os.unlink(hang)
        deadline = time.monotonic() + 60    # the server pauses before it starts a failed helper again
        while (error := server.format().mrets[0].state.error) and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertEqual(error, "")
        self.assertEqual(server.wait_joined()[0].rank, 0)

    def test_requests_to_the_helper_that_fail_wait_or_crash(self):
        if "fault injection" not in run(SERVER, "version").stdout:
            self.skipTest("a build without fault injection")
        server, _ = self.device_server()
        server.start()
        server.wait(lambda engines: engines[0].state == "await_format")
        arm = lambda rule: server.call("/fathom.ControlSvc/FaultInject", self.messages.fathom.FaultInjectReq(arm=rule))
        arm("helper_call=fail,count=1")
        self.assertIn("no request can be sent to", server.format().mrets[0].state.error)
        arm("helper_call=delay:1ms,count=1")
        self.assertEqual(server.format().mrets[0].state.error, "")
        server.wait_joined()
        arm("helper_call=crash")
        with self.assertRaises(Refused):
            server.call("/ctl.CtlSvc/StopRanks", self.messages.ctl.RanksReq(), role="server", timeout=60)
        self.assertEqual(server.process.wait(60), -signal.SIGABRT)
        server.close_channel()
        server.start()
        deadline = time.monotonic() + 60        # the engine had stopped; its device is still mounted
        while server.engines()[0].state != "joined" and time.monotonic() < deadline:
            server.call("/ctl.CtlSvc/StartRanks", self.messages.ctl.RanksReq(), role="server", timeout=60)
            time.sleep(0.05)
        self.assertEqual(server.engines()[0].state, "joined")

    def helper_pid(self, server):
        for name in os.listdir("/proc"):
            try:
                if name.isdigit() and f"\nPPid:\t{server.process.pid}\n" in read(f"/proc/{name}/status") and \
                        "fathom-helper" in read(f"/proc/{name}/cmdline"):
                    return int(name)
            except OSError:
                pass  # it has ended meanwhile
        return None

    def test_a_slow_helper_is_waited_for_and_stops_no_other_engine(self):
        server, _ = self.device_server(2)
        server.start()
        server.wait(lambda engines: all(engine.state == "await_format" for engine in engines))
        server.format()
        server.wait_joined()
        mgmt, fathom, ranks = self.messages.mgmt, self.messages.fathom, self.messages.ctl.RanksReq(ranks="1")
        server.call("/mgmt.MgmtSvc/PoolCreate", mgmt.PoolCreateReq(properties=[mgmt.PoolProperty(number=1, strval="p")]), timeout=60)
        server.call("/ctl.CtlSvc/StopRanks", ranks, role="server", timeout=60)
        pid = self.helper_pid(server)
        os.kill(pid, signal.SIGSTOP)
        try:
            start = server.channel.unary_unary("/ctl.CtlSvc/StartRanks", request_serializer=lambda r: r.SerializeToString(),
                                               response_deserializer=self.messages.ctl.RanksResp.FromString).future(
                ranks, metadata=(("x-daos-component", "server"),))
            made = server.call("/fathom.ControlSvc/VolumeCreate", fathom.VolumeCreateReq(name="p/a", size_bytes=8 << 20, ranks="0"), timeout=60)
            self.assertEqual(made.volume.state, "ready")
            server.call("/ctl.CtlSvc/NetworkScan", self.messages.ctl.NetworkScanReq())
            self.assertFalse(self.is_mounted(server, 1))
        finally:
            os.kill(pid, signal.SIGCONT)
        row = start.result(60).results[0]
        self.assertEqual((row.errored, row.state), (False, "ready"), row.msg)
        server.wait_joined()

    def test_a_helper_that_stops_costs_its_calls_a_fault_and_no_other_call(self):
        server, devices = self.device_server()
        server.start()
        server.wait(lambda engines: engines[0].state == "await_format")
        fathom, path = self.messages.fathom, "/fathom.ControlSvc/DeviceLed"
        server.call("/fathom.ControlSvc/HostHealth", fathom.HostHealthReq())    # the server knows the devices
        self.assertEqual(self.led_code(server, devices[0]), "174")              # the helper answers: there is no lamp
        pid = self.helper_pid(server)
        os.kill(pid, signal.SIGSTOP)
        waiting = server.channel.unary_unary(path, request_serializer=lambda r: r.SerializeToString(),
                                             response_deserializer=fathom.DeviceLedResp.FromString).future(
            fathom.DeviceLedReq(device=devices[0]), metadata=(("x-daos-component", "admin"),))
        server.call("/ctl.CtlSvc/NetworkScan", self.messages.ctl.NetworkScanReq())
        self.assertEqual(len(server.engines()), 1)
        self.assertFalse(waiting.done(), "the other calls waited for the helper")
        error = waiting.exception(60)
        self.assertEqual(server.fault_of(error).get("Code"), "50")
        deadline = time.monotonic() + 60        # another helper answers; calls during the end of the old one have its fault
        while (code := self.led_code(server, devices[0])) != "174" and time.monotonic() < deadline:
            self.assertIn(code, ("50", "51"))
            time.sleep(0.1)
        self.assertEqual(code, "174")
        self.assertNotEqual(self.helper_pid(server), pid)

    def led_code(self, server, device):
        with self.assertRaises(Refused) as refused:
            server.call("/fathom.ControlSvc/DeviceLed", self.messages.fathom.DeviceLedReq(device=device), timeout=60)
        return refused.exception.fault.get("Code")

    def kill_helper(self, server):
        """Kill the server's helper; False if there is none: before its first start, or between two."""
        pid = self.helper_pid(server)
        try:
            if pid:
                os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        return pid is not None

    def test_a_kill_of_the_helper_at_any_moment_costs_at_most_a_retry(self):
        server, _ = self.device_server()
        server.start()
        server.wait(lambda engines: engines[0].state == "await_format")
        self.assertTrue(self.kill_helper(server), "an idle helper must run")
        if server.format().mrets[0].state.error:    # the server had not noticed its end yet
            self.assertEqual(server.format().mrets[0].state.error, "")
        before = server.wait_joined()[0]
        self.assertTrue(self.kill_helper(server))
        request = self.messages.ctl.RanksReq()
        killed = 0
        for turn in range(24):
            method, state = (("StopRanks", "stopped"), ("StartRanks", "ready"))[turn % 2]
            ask = server.channel.unary_unary(f"/ctl.CtlSvc/{method}", request_serializer=lambda r: r.SerializeToString(),
                                             response_deserializer=self.messages.ctl.RanksResp.FromString).future(
                request, metadata=(("x-daos-component", "server"),))
            deadline = time.monotonic() + 0.01 * (turn // 2)  # later in each turn, from the start of the call to its end
            hit = False
            while not hit and not ask.done() and time.monotonic() < deadline + 0.2:
                hit = time.monotonic() >= deadline and self.kill_helper(server)
            killed += hit
            row = ask.result(60).results[0]
            until = time.monotonic() + 60
            while row.errored and time.monotonic() < until:
                self.assertIn("code = ", row.msg)  # the row has the fault
                time.sleep(0.05)
                row = server.call(f"/ctl.CtlSvc/{method}", request, role="server", timeout=60).results[0]
            self.assertEqual((row.errored, row.state), (False, state), row.msg)
            self.assertEqual(self.is_mounted(server), method == "StartRanks")
        self.assertGreater(killed, 4)
        after = server.wait_joined()[0]
        self.assertEqual((after.uuid, after.rank), (before.uuid, before.rank))
        self.assertEqual(read("/proc/mounts").count(f" {server.mount_path(0)} "), 1)

    def test_a_missing_device_is_reported_and_used_again_when_it_is_back(self):
        server, devices = self.device_server(own=True)
        server.start()
        server.format()
        before = server.wait_joined()[0]
        stop = self.messages.ctl.RanksReq()
        server.call("/ctl.CtlSvc/StopRanks", stop, role="server", timeout=60)
        run("losetup", "-d", devices[0])
        row = server.call("/ctl.CtlSvc/StartRanks", stop, role="server", timeout=60).results[0]
        self.assertTrue(row.errored)
        self.assertIn("code = 150 ", row.msg)
        run("losetup", devices[0], os.path.join(self.directory, "image0"))
        row = server.call("/ctl.CtlSvc/StartRanks", stop, role="server", timeout=60).results[0]
        self.assertEqual((row.errored, row.msg), (False, ""))
        after = server.wait_joined()[0]
        self.assertEqual((after.uuid, after.rank), (before.uuid, before.rank))

    def wait_log_line(self, server, words):
        deadline = time.monotonic() + 60
        while words not in server.log() and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertIn(words, server.log())
        return next(line for line in server.log().splitlines() if words in line)

    def test_a_missing_helper_is_reported(self):
        server, _ = self.device_server()
        os.unlink(self.helper)
        server.start()
        engine = server.wait(lambda engines: engines[0].info != "")[0]
        self.assertIn(self.helper, engine.info + server.log())
        self.assertIn("ERROR", self.wait_log_line(server, "code = 4 "))

    def copy_helper(self, mode):
        """A copy of the helper that the group of an ordinary user may run."""
        helper = os.path.join(self.directory, "fathom-helper")
        shutil.copy(os.path.join(BIN, "fathom-helper"), helper)
        os.chown(helper, 0, NOBODY)
        os.chmod(helper, mode)
        return helper

    def start_as_ordinary_user(self, server, listed):
        """In a namespace where the helper's list in /etc has `listed`."""
        os.chown(server.directory, NOBODY, NOBODY)
        script = f"""mount --make-rprivate /
            cp /etc/passwd {server.directory}/passwd
            mount -t tmpfs -o mode=0755 none /etc
            mkdir /etc/fathom
            cp {server.directory}/passwd /etc/passwd
            printf 'user nobody\n{listed}' >/etc/fathom/helper.conf
            chmod 0644 /etc/fathom/helper.conf
            exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups {SERVER} -o {server.config_path} --name {server.trace_name}"""
        with open(server.log_path, "w") as log:
            server.process = subprocess.Popen(["unshare", "-m", "sh", "-e", "-c", script], stdout=log, stderr=log)

    def test_a_helper_without_the_set_user_id_bit_is_reported_at_the_start(self):
        helper = self.copy_helper(0o755)
        server = self.server(engines=0, keys=f"helper: {helper}\nmgmt_svc_replicas: [127.0.0.1]\ncontrol_log_mask: INFO\n")
        self.start_as_ordinary_user(server, "device nvme*\n")
        self.assertIn(f"the helper {helper} does not run as root", self.wait_log_line(server, "code = 3 "))
        self.assertEqual(server.stop(), 0)

    def test_config_generate_proposes_the_free_devices_on_the_helpers_list(self):
        """The helper is set-user-ID; the server is an ordinary user's. One device is free, one has XFS, one is not listed."""
        free, used, other = self.attach_loop(), self.attach_loop(), self.attach_loop()
        for device in (free, used, other):      # another test may have changed the owner
            os.chown(device, 0, 0)
            os.chmod(device, 0o600)
        subprocess.run(["mkfs.xfs", "-q", used], check=True)
        helper = self.copy_helper(0o4750)
        asked = self.messages.fathom.ConfigGenerateReq(with_loop=True, insecure=True)
        for listed, words in ((f"device {os.path.basename(free)}\ndevice {os.path.basename(used)}\n", None), ("device nvme*\n", "is not on the helper's list"),
                              ("nonsense 1\n", "did not start")):
            server = self.server(engines=0, keys=f"helper: {helper}\nmgmt_svc_replicas: [127.0.0.1]\n")
            self.start_as_ordinary_user(server, listed)
            deadline = time.monotonic() + 60
            while True:
                try:
                    answer = server.call("/fathom.ControlSvc/ConfigGenerate", asked).text
                except Refused as refused:
                    if refused.code == "UNAVAILABLE" and time.monotonic() < deadline:
                        time.sleep(0.05)
                        continue
                    answer = refused
                break
            if words:
                self.assertIsInstance(answer, Refused, f"{answer}\n{server.log()}")
                self.assertEqual(answer.fault.get("Code"), "775", f"{answer}\n{server.log()}")
                self.assertIn(words, answer.text)
            else:
                self.assertEqual(re.findall(r"bdev_list: \[(.*)\]", str(answer)), [free], server.log())
            self.assertEqual(server.stop(), 0)

    def test_a_helper_with_a_broken_list_is_reported_at_the_start_with_what_to_do(self):
        server, _ = self.device_server()
        with open(os.path.join(self.directory, "helper.conf"), "w") as f:
            f.write("mounts\n")
        server.start()
        line = self.wait_log_line(server, "code = 52 ")
        self.assertIn("ERROR", line)
        self.assertIn(f"run `{self.helper} --check` as root", line)
        self.wait_log_line(server, "helper.conf:1: a value is missing")      # the helper's own message
        error = server.format().mrets[0].state
        self.assertIn("code = 52 ", error.error)
        self.assertIn("--check", error.info)


if __name__ == "__main__":
    unittest.main()
