# SPDX-License-Identifier: BSD-2-Clause
"""`fathom storage`, `network`, `server` and `support` against hosts that answer as the test orders."""

import json
import os
import pty
import subprocess
import unittest

import grpc

from fake_server import FakeServer, Failure, Slow, fault, protocols
from rig import FATHOM, CommandTest, free_port

P = protocols()
CTL, MGMT, OURS = P["ctl"], P["mgmt"], P["fathom"]
SCAN, FORMAT, NETWORK = "/ctl.CtlSvc/StorageScan", "/ctl.CtlSvc/StorageFormat", "/ctl.CtlSvc/NetworkScan"
QUERY = "/mgmt.MgmtSvc/SystemQuery"
SMD, HEALTH = "/ctl.CtlSvc/SmdQuery", "/fathom.ControlSvc/HostHealth"
FIRMWARE, LED = "/fathom.ControlSvc/FirmwareUpdate", "/fathom.ControlSvc/DeviceLed"
GIB = 1 << 30


def memory(free):
    return CTL.SysMemInfo(hugepage_size_kb=2048, mem_total_kb=1000000, mem_free_kb=free, mem_available_kb=free,
                          numa_nodes=[CTL.MemInfo(mem_total_kb=1000000, mem_free_kb=free, mem_used_kb=1000000 - free)])


def smd(number, **kwargs):
    return CTL.SmdDevice(uuid=f"00000000-0000-4000-8000-{number:012}", tgt_ids=[0, 1], rank=number, role_bits=7, total_bytes=100 * GIB,
                         avail_bytes=25 * GIB, usable_bytes=20 * GIB, **kwargs)


def storage(free=500, **kwargs):
    drives = [CTL.NvmeController(model="Drive 9000", serial="S1", pci_addr="0000:01:00.0", fw_rev="1.2", socket_id=0, dev_state=1,
                                 namespaces=[CTL.NvmeController.Namespace(id=1, size=100 * GIB)], **kwargs),
              CTL.NvmeController(model="Drive 9001", serial="S2", pci_addr="0000:02:00.0", fw_rev="1.2", socket_id=-1, dev_state=2,
                                 namespaces=[CTL.NvmeController.Namespace(id=1, size=50 * GIB), CTL.NvmeController.Namespace(id=2, size=GIB)])]
    mount = CTL.ScmNamespace.Mount(path="/var/lib/fathom/engine0", total_bytes=8 * GIB, avail_bytes=6 * GIB, usable_bytes=5 * GIB, rank=1,
                                   device_list=["/dev/pmem0"], **{"class": "dcpm"})
    return CTL.StorageScanResp(nvme=CTL.ScanNvmeResp(ctrlrs=drives), scm=CTL.ScanScmResp(namespaces=[
        CTL.ScmNamespace(uuid="u", blockdev="pmem0", dev="namespace0.0", numa_node=1, size=8 * GIB, mount=mount)]), sys_mem_info=memory(free))


def read_all(watcher):
    """Read in pieces all that was written to a terminal which no process has open any more."""
    said = b""
    try:
        while piece := os.read(watcher, 4096):
            said += piece
    except OSError:
        pass
    os.close(watcher)
    return said.decode()


class Hosts(CommandTest):
    def hosts(self, path, *answers):
        servers = [FakeServer({path: answer}) for answer in answers]
        for server in servers:
            server.__enter__()
            self.addCleanup(server.__exit__)
        return sorted(servers, key=lambda server: server.port)

    def test_scan_folds_hosts_with_equal_answers(self):
        servers = self.hosts(SCAN, storage(500), storage(501), storage(502))      # free memory is not compared
        said = self.fathom(servers, "storage", "scan").stdout.splitlines()
        self.assertEqual(len(said), 3, said)
        ports = ",".join(str(server.port) for server in servers)
        answer = json.loads(self.fathom(servers, "storage", "scan", "-j").stdout)
        self.assertEqual(answer["error"], None)
        group, = answer["response"]["HostStorage"].values()
        listed = group["hosts"]
        for server in servers:
            self.assertTrue(str(server.port) in listed or "-" in listed, (listed, ports))
        other = self.hosts(SCAN, CTL.StorageScanResp(nvme=CTL.ScanNvmeResp(), scm=CTL.ScanScmResp()))
        self.assertEqual(len(json.loads(self.fathom(servers + other, "storage", "scan", "-j").stdout)["response"]["HostStorage"]), 2)
        # hosts with one address: each row has the port, also of a single host and of a failed one
        said = self.fathom([servers[0], other[0], "127.0.0.1:1"], "storage", "scan", status=1)
        rows = [line.split()[0] for line in said.stdout.splitlines()[2:] + said.stderr.splitlines()[3:4]]
        self.assertEqual(sorted(rows), sorted([servers[0].address, other[0].address, "127.0.0.1:1"]))
        self.assertIn("127.0.0.1 ", self.fathom(servers[0], "storage", "scan").stdout)

    def test_scan_of_one_host(self):
        server, = self.hosts(SCAN, storage())
        self.show("storage_scan", server, "storage", "scan")
        self.show("storage_scan_verbose", server, "storage", "scan", "--verbose")
        self.show("storage_scan_health", server, "storage", "scan", "-n")
        asked = server.requests(SCAN, CTL.StorageScanReq)
        self.assertEqual([a.nvme.Basic for a in asked], [True, True, False, False, False, False])

    def test_health_of_devices_in_the_layout_of_dmg(self):
        stats = CTL.BioHealthResp(temperature=323, ctrl_busy_time=90, power_cycles=7, power_on_hours=26, unsafe_shutdowns=2, media_errs=3, err_log_entries=4,
                                  percentage_used=5, avail_spare_warn=True, warn_temp_time=61, crit_temp_time=2, link_max_speed=8e9, link_neg_speed=2.5e9,
                                  link_max_width=4, link_neg_width=2)
        server, = self.hosts(SCAN, storage(health_stats=stats))
        self.show("storage_scan_health_stats", server, "storage", "scan", "-n")
        drive = CTL.NvmeController(pci_addr="0000:01:00.0", dev_state=1, namespaces=[CTL.NvmeController.Namespace(id=1, size=GIB)], health_stats=stats)
        server, = self.hosts(SMD, CTL.SmdQueryResp(ranks=[CTL.SmdQueryResp.RankResp(rank=0, devices=[smd(0, ctrlr=drive)])]))
        self.show("storage_devices_health", server, "storage", "query", "list-devices", "--health")
        plain = json.loads(self.fathom(server, "storage", "query", "list-devices", "-j").stdout)["response"]["host_storage_map"]
        self.assertIsNone(next(iter(plain.values()))["storage"]["smd_info"]["devices"][0]["ctrlr"]["health_stats"])

    def test_device_health_shows_each_device_with_its_state(self):
        device, slot, since = OURS.HostHealthResp.Device, OURS.HostHealthResp.Slot, 1795868630000000000
        worn = OURS.HostHealthResp.Condition(name="worn", text="101 % of its estimated life are used", since_ns=since)
        good = device(path="/dev/nvme0n1", kind="nvme", bytes=100 * GIB, model="Drive 9000", serial="S1", firmware="1.2", pci_address="0000:01:00.0",
                      state="ok", read_ns=since, instances=[0, 2], stats=CTL.BioHealthResp(temperature=310), temperature_k=310, warning_k=343,
                      spare_percent=99, spare_minimum_percent=10, read_bytes=5 * GIB, slots=[slot(number=1, revision="1.2", active=True), slot(number=2)],
                      can_update=True)
        bad = [device(path="/dev/nvme1n1", numa_node=-1, state="warning", since_ns=since, read_ns=since, conditions=[worn],
                      stats=CTL.BioHealthResp(percentage_used=101)),
               device(path="/dev/nvme2n1", numa_node=-1, state="unread", since_ns=since, reason="health of /dev/nvme2n1 timed out", remedy="look at dmesg"),
               device(path="/dev/sda", numa_node=-1, state="none", reason="this device reports no health"),
               device(path="/dev/sdb", numa_node=-1, state="ok", temperature_k=314, io_errors=3, read_ns=since),
               device(path="/dev/sdc", numa_node=-1, state="gone", since_ns=since, reason="the device is not in this host any more")]
        with FakeServer({HEALTH: OURS.HostHealthResp(devices=[good, *bad])}) as server:
            self.show("storage_device_health", server, "storage", "query", "device-health", status=1)
            self.assertIn("3 devices are not in good health", self.fathom(server, "storage", "query", "device-health", status=1).stderr)
            for name in ("/dev/nvme0n1", "S1", "0000:01:00.0", "/dev/sda"):
                self.fathom(server, "storage", "query", "device-health", name)
            self.assertIn("no host has the device /dev/no", self.fathom(server, "storage", "query", "device-health", "/dev/no", status=1).stderr)
        with FakeServer({HEALTH: OURS.HostHealthResp()}) as server:
            self.assertIn("No devices found", self.fathom(server, "storage", "query", "device-health").stdout)

    def test_firmware_is_shown_by_slot_and_an_update_says_when_it_is_active(self):
        device, slot = OURS.HostHealthResp.Device, OURS.HostHealthResp.Slot
        answer = OURS.HostHealthResp(devices=[
            device(path="/dev/nvme0n1", kind="nvme", bytes=100 * GIB, model="Drive 9000", serial="S1", firmware="1.2", pci_address="0000:01:00.0", state="ok",
                   slots=[slot(number=1, revision="1.2", active=True), slot(number=2, revision="1.3", next=True), slot(number=3)], can_update=True),
            device(path="/dev/nvme1n1", kind="nvme", bytes=GIB, model="Drive 1", serial="S2", firmware="1.0", state="ok",
                   slots=[slot(number=1, revision="1.0", active=True)]),
            device(path="/dev/sda", kind="hdd", bytes=GIB, state="none")])
        updated = OURS.FirmwareUpdateResp(path="/dev/nvme0n1", model="Drive 9000", active_when="after a restart of the host")
        with FakeServer({HEALTH: answer, FIRMWARE: updated}) as server:
            self.show("firmware_query", server, "firmware", "query")
            self.assertNotIn("nvme1n1", self.fathom(server, "firmware", "query", "S1").stdout)
            self.assertIn("No devices with firmware slots found", self.fathom(server, "firmware", "query", "/dev/sda").stdout)
            self.assertIn("no host has the device S9", self.fathom(server, "firmware", "query", "S9", status=1).stderr)
            self.show("firmware_update", server, "firmware", "update", "S1", "--file", "/fw/image", "--slot", "2", "--force")
            asked = server.requests(FIRMWARE, OURS.FirmwareUpdateReq)[0]
            self.assertEqual((asked.device, asked.file, asked.slot, asked.force), ("S1", "/fw/image", 2, True))
            self.fathom(server, "firmware", "update", "S1", "--file", "image", status=2)            # not absolute
            self.fathom(server, "firmware", "update", "S1", "--file", "/fw/image", "--slot", "8", status=2)
        refused = fault(170, "storage", "/dev/nvme0n1 takes no firmware: its controller has no commands for firmware", "look at its data sheet")
        with FakeServer({FIRMWARE: refused}) as server:
            self.show_errors("firmware_update_refused", server, "firmware", "update", "S1", "--file", "/fw/image")

    def test_lamps_are_switched_and_checked(self):
        with FakeServer({LED: [OURS.DeviceLedResp(path="/dev/nvme0n1", serial="S1", state="on")]}) as server:
            self.show("storage_led", server, "storage", "led", "identify", "S1", "--minutes", "5")
            for words in (["check"], ["reset"], ["identify", "--reset"], ["identify"]):
                self.assertIn("LED:on", self.fathom(server, "storage", "led", *words, "S1").stdout)
            self.assertEqual([(asked.device, asked.action, asked.minutes) for asked in server.requests(LED, OURS.DeviceLedReq)],
                             [("S1", 1, 5)] * 2 + [("S1", 0, 0), ("S1", 2, 0), ("S1", 2, 0), ("S1", 1, 0)])
            self.fathom(server, "storage", "led", "identify", "S1", "--reset", "--minutes", "5", status=2)
            self.fathom(server, "storage", "led", "check", status=2)
        refused = fault(174, "storage", "the kernel has no lamp for /dev/nvme0n1", "find it by its serial number")
        with FakeServer({LED: refused}) as server:
            self.show_errors("storage_led_refused", server, "storage", "led", "check", "S1")

    def test_scan_all_shows_all_devices_and_interfaces(self):
        host = OURS.HostDevicesResp(devices=[
            OURS.HostDevicesResp.Device(path="/dev/nvme0n1", kind="nvme", bytes=100 * GIB, model="Drive 9000", serial="S1", numa_node=0, use="free", free=True),
            OURS.HostDevicesResp.Device(path="/dev/pmem0", kind="pmem", bytes=8 * GIB, numa_node=1, use="mounted at /mnt"),
            OURS.HostDevicesResp.Device(path="/dev/sda", kind="hdd", bytes=50 * GIB, numa_node=-1, use="partitioned")],
            interfaces=[OURS.HostDevicesResp.Interface(name="eth0", kind="ethernet", state="up", speed_mbps=100000, numa_node=0, addresses=["10.0.0.1", "fd00::1"]),
                        OURS.HostDevicesResp.Interface(name="eth1", kind="ethernet", state="down", speed_mbps=-1, numa_node=1, addresses=["10.0.0.2"]),
                        OURS.HostDevicesResp.Interface(name="ifb0", kind="ethernet", state="unknown", speed_mbps=-1, numa_node=-1)])
        with FakeServer({SCAN: storage(), NETWORK: CTL.NetworkScanResp(numacount=1, corespernuma=1), "/fathom.ControlSvc/HostDevices": host}) as server:
            self.show("storage_scan_all", server, "storage", "scan", "--all")
            self.show("network_scan_all", server, "network", "scan", "--all")
            self.assertNotIn("/dev/sda", self.fathom(server, "storage", "scan").stdout)     # like dmg
        with FakeServer({SCAN: storage()}) as server:       # a server without this call
            self.assertIn("resolution", self.fathom(server, "storage", "scan", "--all", status=1).stderr)

    def test_scan_shows_modules_and_partial_failures(self):
        module = CTL.ScmModule(channelid=1, channelposition=2, controllerid=3, socketid=0, physicalid=7, capacity=128 * GIB, uid="u", healthState="ok")
        bad = CTL.ResponseState(status=-2, error="no permission to look at /dev/nvme0")
        server, = self.hosts(SCAN, CTL.StorageScanResp(scm=CTL.ScanScmResp(modules=[module]), nvme=CTL.ScanNvmeResp(state=bad)))
        self.show("storage_scan_modules", server, "storage", "scan")
        self.show("storage_scan_modules_verbose", server, "storage", "scan", "-v")

    def test_usage_and_usable_space_are_shown(self):
        server, = self.hosts(SCAN, storage(smd_devices=[smd(1), smd(2)]))
        self.show("storage_usage", server, "storage", "query", "usage")
        self.show("storage_usable", server, "storage", "query", "usage", "-u")
        between = self.fathom(server, "storage", "query", "--json", "usage")     # options between the words
        self.assertEqual(between.stdout, self.fathom(server, "storage", "query", "usage", "--json").stdout)
        self.assertEqual(self.fathom(server, "storage", "query", "--json", status=2).stdout, "")
        asked = server.requests(SCAN, CTL.StorageScanReq)[0]
        self.assertEqual((asked.nvme.Health, asked.nvme.Meta, asked.scm.usage), (True, True, True))

    def test_devices_are_listed(self):
        drive = CTL.NvmeController(model="Drive 9000", serial="S1", pci_addr="0000:01:00.0", fw_rev="1.2", socket_id=1, dev_state=1,
                                   vendor_id="v", namespaces=[CTL.NvmeController.Namespace(id=1, size=100 * GIB)])
        gone = CTL.NvmeController(pci_addr="/srv/e1/data.img", dev_state=4)
        ranks = [CTL.SmdQueryResp.RankResp(rank=1, devices=[smd(1, ctrlr=drive)]), CTL.SmdQueryResp.RankResp(rank=2, devices=[smd(2, ctrlr=gone)]),
                 CTL.SmdQueryResp.RankResp(rank=3, devices=[smd(3)]), CTL.SmdQueryResp.RankResp(rank=4)]

        def answer(request):
            asked = CTL.SmdQueryReq.FromString(request)
            return CTL.SmdQueryResp(ranks=[one for one in ranks if asked.rank in (2**32 - 1, one.rank)])
        server, = self.hosts("/ctl.CtlSvc/SmdQuery", answer)
        self.show("storage_devices", server, "storage", "query", "list-devices")
        self.show("storage_devices_of_rank", server, "storage", "query", "list-devices", "--rank", 2)
        self.assertIn("No devices found", self.fathom(server, "storage", "query", "list-devices", "-e").stdout)
        for option, value, what in (("-r", 7, "rank 7"), ("-u", "bad", "UUID bad")):
            said = self.fathom(server, "storage", "query", "list-devices", option, value, status=1)
            self.assertIn(f"no device has the {what}", said.stderr)
            self.assertIn("No devices found", said.stdout)
        uuid = "00000000-0000-4000-8000-000000000001"
        said = self.fathom(server, "storage", "query", "list-devices", "-u", uuid).stdout
        self.assertEqual((uuid in said, "-000000000002" in said), (True, False))
        self.assertEqual([(a.rank, a.uuid) for a in server.requests("/ctl.CtlSvc/SmdQuery", CTL.SmdQueryReq)][-1], (2**32 - 1, uuid))

    def test_dead_slow_and_failing_hosts_are_shown_with_the_others(self):
        good, slow, bad = self.hosts(SCAN, storage()) + self.hosts(SCAN, Slow(30, storage())) + self.hosts(
            SCAN, fault(50, "general", "the helper gave no answer", "look whether a device hangs"))
        dead = free_port()
        hosts = [good, slow, bad, f"127.0.0.1:{dead}"]
        done = self.fathom(hosts, "storage", "scan", "--timeout", 1, status=1)
        self.assertIn("162 GB (2 controllers)", done.stdout)
        for text in ("Errors:", "refused the connection", "did not answer in time", "the helper gave no answer",
                     'general: code = 50 resolution = "look whether a device hangs"', "ERROR: fathom: 3 of 4 hosts had errors\n"):
            self.assertIn(text, done.stderr)
        answer = json.loads(self.fathom(hosts, "storage", "scan", "-j", "--timeout", 1, status=1).stdout)
        self.assertEqual(len(answer["response"]["HostStorage"]), 1)
        self.assertEqual(sorted(answer["response"]["host_errors"].values()),
                         sorted([slow.address, bad.address, f"127.0.0.1:{dead}"]))
        self.assertEqual((answer["error"], answer["status"]), ("3 of 4 hosts had errors", -1025))
        faults = {row["hosts"]: row for row in answer["faults"]}
        self.assertEqual({hosts: (row["domain"], row["code"]) for hosts, row in faults.items()},
                         {slow.address: ("client", 508), bad.address: ("general", 50), f"127.0.0.1:{dead}": ("client", 506)})
        self.assertEqual(faults[bad.address]["resolution"], "look whether a device hangs")
        for row in faults.values():     # the text repeats the fields
            self.assertIn(f'{row["domain"]}: code = {row["code"]} description = "{row["description"]}"', answer["response"]["host_errors"])
            self.assertEqual(list(row), ["hosts", "domain", "code", "description", "resolution"])

    def test_faults_are_fields_only_where_something_failed(self):
        with FakeServer({SCAN: storage()}) as server:
            self.assertNotIn("faults", json.loads(self.fathom(server, "storage", "scan", "-j").stdout))
        done = self.run_plain("-j", "storage", "scan", "-l", "nobody[")
        self.assertEqual([(row["domain"], row["code"], "hosts" in row) for row in json.loads(done.stdout)["faults"]], [("client", 561, False)])

    def test_unknown_names_are_resolved_concurrently(self):
        for _ in range(25):     # the resolver's threads end while the program waits for them
            done = self.run_plain("storage", "scan", "-i", "-l", "no-such-a.invalid,no-such-b.invalid")
            self.assertEqual(done.returncode, 1)
            self.assertIn("code = 563", done.stderr)

    def test_hosts_with_the_same_error_are_folded(self):
        done = self.fathom("127.0.[0-3].[1-250]:9,localhost:9", "storage", "scan", status=1)
        self.assertEqual(len(done.stderr.splitlines()), 7, done.stderr)
        self.assertIn("127.0.[0-3].[1-250],localhost", done.stderr)
        self.assertIn('code = 506 description = "the server refused the connection"', done.stderr)

    def test_concurrent_calls_are_limited(self):
        with FakeServer({SCAN: Slow(0.05, storage())}, host="0.0.0.0") as server:
            hosts = f"127.0.0.[1-12]:{server.port}"
            done = subprocess.run([os.environ["CONTROL_FAN"], hosts, "3"], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual((done.returncode, done.stdout), (0, f"12 hosts, 1 answer of {hosts}, 0 errors, told 12 of 12\n"), done.stderr)
            self.assertEqual(server.running_max, 3)

    def test_hosts_not_called_before_the_time_out_have_their_own_fault(self):
        """Only one call at a time, and the first takes all the time."""
        with FakeServer({SCAN: Slow(30, storage())}, host="0.0.0.0") as server:
            done = subprocess.run([os.environ["CONTROL_FAN"], f"127.0.0.[1-3]:{server.port}", "1", "500"], capture_output=True, text=True,
                                  timeout=60, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f'127.0.0.1:{server.port}: code = 508 "', done.stdout)
            self.assertRegex(done.stdout, r'127\.0\.0\.\[2-3\]:\d+: code = 510 "')

    def test_thousands_of_hosts_need_few_descriptors(self):
        """3,000 loopback addresses of one server: each is called once, and its connection is closed."""
        with FakeServer({SCAN: storage(), QUERY: MGMT.SystemQueryResp()}, host="0.0.0.0", workers=2) as server:
            limit = ["bash", "-c", 'ulimit -n 150; exec "$@"', "bash"]
            hosts = f"127.1.[1-12].[1-250]:{server.port}"
            done = subprocess.run([*limit, os.environ["CONTROL_FAN"], hosts, "0"], capture_output=True, text=True, timeout=100, check=False)
            self.assertEqual((done.returncode, done.stdout), (0, f"3000 hosts, 1 answer of {hosts}, 0 errors, told 3000 of 3000\n"), done.stderr)
            self.assertEqual(len(server.calls), 3000)

    def test_the_management_service_is_found_on_the_last_of_many_hosts(self):
        with FakeServer({QUERY: MGMT.SystemQueryResp(members=[MGMT.SystemMember(rank=1, state="joined")])}) as server:
            port = free_port()
            self.assertIn("Joined", self.fathom([f"127.3.0.[1-200]:{port}", server], "system", "query").stdout)

    def watch(self, *words):
        """Run a command with a terminal as standard error. Return its result and the terminal's output."""
        watcher, terminal = pty.openpty()
        done = subprocess.run([FATHOM, *words, "-i"], stdout=subprocess.PIPE, stderr=terminal, text=True, timeout=30, check=False,
                              env=dict(os.environ, HOME=self.folder))
        os.close(terminal)
        return done, read_all(watcher)

    def test_progress_is_shown_on_a_terminal(self):
        first, second = self.hosts(SCAN, storage()) + self.hosts(SCAN, Slow(1.6, storage()))
        done, said = self.watch("storage", "scan", "-l", f"{first.address},{second.address}")
        self.assertIn("\r1 of 2 hosts, 1 s ", said)
        self.assertTrue(said.endswith("\r\x1b[K"), said)     # the line is cleared at the end
        self.assertEqual((done.returncode, len(done.stdout.splitlines())), (0, 3))

    def test_the_progress_of_a_stop_counts_stopped_ranks(self):
        def members(*states):
            return MGMT.SystemQueryResp(members=[MGMT.SystemMember(rank=rank, state=state) for rank, state in enumerate(states)])
        stop, start = "/mgmt.MgmtSvc/SystemStop", "/mgmt.MgmtSvc/SystemStart"
        shown = [members("stopping", "stopped", "stopping", "adminexcluded"), members("stopped", "stopped", "stopping", "adminexcluded")]
        stopped = MGMT.SystemStopResp(results=[P["shared"].RankResult(rank=0, action="stop", state="stopped")])
        with FakeServer({stop: Slow(3.4, stopped), QUERY: list(shown)}) as server:
            done, said = self.watch("system", "stop", "-l", server.address, "--ranks", "0-3")
            self.assertIn("\rwaiting for the management service, 1 s ", said)
            self.assertRegex(said, r"(?s)\r1 of 3 ranks, [12] s .*\r2 of 3 ranks, [23] s ")
            self.assertTrue(said.endswith("\r\x1b[K"), said)
            self.assertEqual(done.returncode, 0)
            self.assertEqual({(asked.ranks, asked.hosts) for asked in server.requests(QUERY, MGMT.SystemQueryReq)}, {("0-3", "")})
            asked = len(server.requests(QUERY, MGMT.SystemQueryReq))
            self.fathom(server, "system", "stop")       # no progress is shown
            self.assertEqual(len(server.requests(QUERY, MGMT.SystemQueryReq)), asked)
        with FakeServer({start: Slow(2.5, MGMT.SystemStartResp()), QUERY: members("joined", "ready", "joined")}) as server:
            self.assertIn("\r2 of 3 ranks, ", self.watch("system", "start", "-l", server.address)[1])
        with FakeServer({start: Slow(1.5, MGMT.SystemStartResp()), QUERY: Slow(20, members())}) as server:     # a slow query for the progress does not delay the command
            done, said = self.watch("system", "start", "-l", server.address)
            self.assertEqual((done.returncode, "ranks" in said), (0, False))

    def test_format_shows_its_results(self):
        done = CTL.StorageFormatResp(mrets=[CTL.ScmMountResult(mntpoint="/mnt/a", instanceidx=0)], crets=[CTL.NvmeControllerResult(pci_addr="/dev/nvme0n1")])
        server, = self.hosts(FORMAT, done)
        self.show("storage_format", server, "storage", "format")
        self.show("storage_format_verbose", server, "storage", "format", "-v")
        asked = server.requests(FORMAT, CTL.StorageFormatReq)[0]
        self.assertEqual((asked.reformat, asked.replace, asked.HasField("nvme"), asked.HasField("scm")), (False, False, True, True))
        half = CTL.StorageFormatResp(mrets=[CTL.ScmMountResult(mntpoint="/mnt/a"), CTL.ScmMountResult(
            mntpoint="/mnt/b", instanceidx=1, state=CTL.ResponseState(status=-3, error="the device /dev/x is in use"))])
        self.show("storage_format_failed", self.hosts(FORMAT, half)[0], "storage", "format", status=1)

    def test_format_waits_until_the_formatted_engines_have_joined(self):
        """It waits only for formatted engines, and reports those that did not join with the reason."""
        done = CTL.StorageFormatResp(mrets=[CTL.ScmMountResult(mntpoint=f"/mnt/{i}", instanceidx=i) for i in range(2)])
        path, engine = "/fathom.ControlSvc/EngineQuery", OURS.EngineQueryResp.Engine

        def engines(first, second, info=""):
            return OURS.EngineQueryResp(engines=[engine(index=0, state=first, storage="/mnt/0"), engine(index=1, state=second, storage="/mnt/1", info=info),
                                                   engine(index=2, state="errored", storage="/mnt/2")])
        with FakeServer({FORMAT: done, path: [engines("starting", "checking"), engines("joined", "ready"), engines("joined", "refused"),
                                              engines("joined", "joined")]}) as server:
            self.fathom(server, "storage", "format")
            self.assertEqual([method for method, _, _ in server.calls], [FORMAT, *[path] * 4])
        with FakeServer({FORMAT: done, path: [engines("starting", "starting"), engines("joined", "errored", "exit status 1: no")]}) as server:
            first, second = self.fathom(server, "storage", "format", status=1).stderr.splitlines()
            self.assertEqual(first, "ERROR: fathom: engine 1 of 127.0.0.1 is formatted and has not joined: errored: exit status 1: no")
            self.assertEqual(second, "ERROR: fathom: not all engines have joined: `fathom server query -v` shows their states")
        with FakeServer({FORMAT: done, path: engines("joined", "starting")}) as server:
            self.assertIn("engine 1 of 127.0.0.1 is formatted and has not joined: starting\n",
                          self.fathom(server, "storage", "format", "--timeout", 1, status=1).stderr)

    def test_a_resolution_is_printed_once_below_its_table_of_errors(self):
        busy, advice = 'server: code = 666 description = "the engine of instance {} runs: formatting is not done"', "`fathom system stop` first"
        runs = [CTL.ScmMountResult(mntpoint=f"/mnt/{i}", instanceidx=i, state=CTL.ResponseState(status=-3, error=busy.format(i), info=advice))
                for i in range(2)]
        device = CTL.NvmeControllerResult(pci_addr="/dev/x", state=CTL.ResponseState(status=-2, error="gone", info="plug it in again"))
        first, second = self.hosts(FORMAT, CTL.StorageFormatResp(mrets=runs, crets=[device])) + self.hosts(FORMAT, CTL.StorageFormatResp(mrets=runs[:1]))
        self.show_errors("storage_format_failed", [first, second], "storage", "format")
        hangs = fault(50, "general", "the helper gave no answer", "look whether a device hangs")
        hosts = sorted(self.hosts(SCAN, hangs) + self.hosts(SCAN, hangs) + self.hosts(SCAN, hangs), key=lambda server: server.port)
        hosts[2].answers[SCAN] = [fault(610, "server", "the server is still starting", "wait")]
        self.show_errors("storage_scan_failed", hosts, "storage", "scan")

    def test_format_with_force_is_refused_while_engines_run(self):
        with FakeServer({FORMAT: CTL.StorageFormatResp()}) as server:
            server.answers["/mgmt.MgmtSvc/SystemQuery"] = [MGMT.SystemQueryResp(members=[MGMT.SystemMember(addr=server.address, state="joined")])]
            done = self.fathom(server, "storage", "format", "--force", status=1)
            self.assertIn("code = 509", done.stderr)
            self.assertEqual(server.requests(FORMAT, CTL.StorageFormatReq), [])
            self.fathom(server, "storage", "format", "--replace")
            server.answers["/mgmt.MgmtSvc/SystemQuery"] = [MGMT.SystemQueryResp(members=[MGMT.SystemMember(addr="127.9.9.9:10001", state="joined")])]
            self.fathom(f"localhost:{server.port}", "storage", "format", "-f")
            server.answers["/mgmt.MgmtSvc/SystemQuery"] = [Failure(grpc.StatusCode.UNKNOWN, "system is uninitialized (storage format required?)")]
            self.fathom(server, "storage", "format", "--force")
            self.assertEqual([(a.reformat, a.replace) for a in server.requests(FORMAT, CTL.StorageFormatReq)], [(False, True), (True, False), (True, False)])
            # with named instances the server itself refuses running ones
            server.answers["/mgmt.MgmtSvc/SystemQuery"] = [MGMT.SystemQueryResp(members=[MGMT.SystemMember(addr=server.address, state="joined")])]
            self.fathom(server, "storage", "format", "--force", "--replace", "--instances", "0,2-3")
            asked = server.requests(FORMAT, CTL.StorageFormatReq)[-1]
            self.assertEqual((asked.reformat, asked.replace, asked.instances), (True, True, "0,2-3"))
            self.assertFalse(asked.new_storage)
            self.fathom(server, "storage", "format", "--new-storage")
            asked = server.requests(FORMAT, CTL.StorageFormatReq)[-1]
            self.assertEqual((asked.reformat, asked.new_storage), (False, True))
            count = len(server.requests(FORMAT, CTL.StorageFormatReq))
            self.assertIn("code = 550", self.fathom(server, "storage", "format", "--instances", "0-", status=2).stderr)
            self.assertEqual(len(server.requests(FORMAT, CTL.StorageFormatReq)), count)

    def test_interfaces_are_shown(self):
        links = [CTL.FabricInterface(provider=provider, device=device, numanode=node, priority=1, netdevclass=1)
                 for provider, device, node in (("nvme+tcp", "eth1", 1), ("nvme+tcp", "eth0", 0), ("nvme+rdma", "eth0", 0), ("nvme+tcp", "eth2", 0))]
        server, = self.hosts(NETWORK, CTL.NetworkScanResp(interfaces=links, numacount=2, corespernuma=8))
        self.show("network_scan", server, "network", "scan")
        self.fathom(server, "network", "scan", "-p", "nvme+tcp")
        self.fathom(server, "network", "scan", "--provider", "all")
        self.assertEqual([a.provider for a in server.requests(NETWORK, CTL.NetworkScanReq)][2:], ["nvme+tcp", ""])
        none, = self.hosts(NETWORK, CTL.NetworkScanResp())
        self.show("network_scan_none", none, "network", "scan")
        said, = json.loads(self.fathom(none, "network", "scan", "-j").stdout)["response"]["HostFabrics"].values()
        self.assertEqual(said["HostFabric"]["Providers"], [])
        some = CTL.NetworkScanResp(interfaces=links[:1], numacount=1, corespernuma=8, left_out=2)
        self.show("network_scan_left_out", self.hosts(NETWORK, some)[0], "network", "scan")
        some.left_out = 0
        other = CTL.NetworkScanResp.FromString(some.SerializeToString())
        other.left_out = 1
        done = self.fathom(self.hosts(NETWORK, some, other), "network", "scan", "-p", "nvme+tcp")
        self.assertEqual(len([line for line in done.stdout.splitlines() if "127.0.0.1" in line]), 1)      # the hosts have equal answers
        self.assertNotIn("shown", done.stdout)          # dmg does not print this line
        self.assertEqual(done.stderr.splitlines()[-1], "1 interface that is down or without an address is not shown; --all shows it")
        far, = self.hosts(NETWORK, CTL.NetworkScanResp(interfaces=[CTL.FabricInterface(provider="p", device="d", numanode=2**32 - 1)]))
        self.assertIn("NUMA Socket 4294967295", self.fathom(far, "network", "scan").stdout)


ENGINES = OURS.EngineQueryResp(engines=[
    OURS.EngineQueryResp.Engine(index=0, state="joined", rank=3, uuid="00000000-0000-4000-8000-000000000003", incarnation=1003, pid=4711, adopted=True,
                                uri="nvme+tcp://10.0.0.1:4420", storage="/mnt/engine0", starts=1, rpc_socket="/run/fathom/server/engine0.sock",
                                version="0.1.0"),
    OURS.EngineQueryResp.Engine(index=1, state="errored", rank=2**32 - 1, storage="/mnt/engine1", info="it crashed", starts=4, restart_in_ms=2500,
                                last_end="killed by SIGSEGV")])
POLICIES = OURS.EngineSetRestartResp(policies=[
    OURS.RestartPolicy(cause="crashed", restart=True, delay_min_ms=250, delay_max_ms=300000, limit=10),
    OURS.RestartPolicy(cause="killed", restart=True, delay_min_ms=1000, delay_max_ms=60000), OURS.RestartPolicy(cause="exited")])


class Servers(CommandTest):
    def test_engines_are_shown(self):
        with FakeServer({"/fathom.ControlSvc/EngineQuery": ENGINES}) as server:
            self.show("server_query", server, "server", "query")
            self.show("server_query_verbose", server, "server", "query", "-v")

    def test_versions_of_servers_are_shown(self):
        with FakeServer({"/mgmt.MgmtSvc/GetAttachInfo": MGMT.GetAttachInfoResp(build_info=MGMT.BuildInfo(major=1, minor=2, patch=3, tag="x"))}) as server:
            self.show("server_version", server, "server", "version")
        path, none = "/fathom.ControlSvc/EngineQuery", {"/mgmt.MgmtSvc/GetAttachInfo": fault(650, "server", "the system is not formatted", "format it")}
        one, other = OURS.EngineQueryResp(version="1.2.3"), OURS.EngineQueryResp(engines=[OURS.EngineQueryResp.Engine(index=1)], version="1.2.3")
        with FakeServer({path: one, **none}) as a, FakeServer({path: other, **none}) as b, FakeServer({path: OURS.EngineQueryResp(), **none}) as c:
            self.assertEqual(self.fathom([a, b], "server", "version").stdout, "Fathom Control Server version 1.2.3\n")
            said = json.loads(self.fathom([a, b], "server", "version", "-j").stdout)["response"]
            self.assertEqual((said["name"], said["version"], len(said["HostVersions"])), ("Fathom Control Server", "1.2.3", 1))
            self.assertEqual([line.split()[-1] for line in self.fathom([a, b, c], "server", "version").stdout.splitlines()[2:]], ["1.2.3", "unknown"])

    def test_restart_policies_are_shown_and_set(self):
        path = "/fathom.ControlSvc/EngineSetRestart"
        with FakeServer({path: POLICIES}) as server:
            self.show("server_restart_policy", server, "server", "restart-policy")
            self.fathom(server, "server", "restart-policy", "crashed=250ms..5m*10", "exited=no", "killed=yes")
            asked = server.requests(path, OURS.EngineSetRestartReq)[-1].policies
            self.assertEqual([(p.cause, p.restart, p.delay_min_ms, p.delay_max_ms, p.limit) for p in asked],
                             [("crashed", True, 250, 300000, 10), ("exited", False, 1000, 300000, 0), ("killed", True, 1000, 300000, 0)])
            count = len(server.calls)
            for bad in ("crashed", "=no", "crashed=perhaps", "crashed=5m..1s", "crashed=1s", "crashed=1s..2s*x"):
                self.fathom(server, "server", "restart-policy", bad, status=2)
            self.assertEqual(len(server.calls), count)

    def test_points_of_fault_injection_are_shown_and_set(self):
        path = "/fathom.ControlSvc/FaultInject"
        armed = OURS.InjectionPoint(name="db_write", at="it writes", actions=["fail", "crash"], rule="fail:EIO,count=1", passed=5, fired=1,
                                    armed_ns=1795000000 * 10**9, fired_ns=1795000001 * 10**9)
        with FakeServer({path: OURS.FaultInjectResp(points=[armed, OURS.InjectionPoint(name="join", at="it joins", actions=["fail"])])}) as server:
            self.show("server_faults", server, "server", "faults")
            self.fathom(server, "server", "faults", "--arm", "db_write=fail join=fail", "--clear", "all")
            asked = server.requests(path, OURS.FaultInjectReq)
            self.assertEqual([(request.arm, request.clear) for request in asked], [("", "")] * 2 + [("db_write=fail join=fail", "all")])

    def test_findings_of_hosts_are_folded(self):
        path, finding = "/fathom.ControlSvc/HostDoctor", OURS.HostDoctorResp.Finding
        down = dict(code=530, name="engine_down", severity="broken", certainty="certain", says="engine 0 of this host does not serve", remedy="start it",
                    evidence=["its storage is /mnt/0"], see=["fathom server query"])
        member = finding(program="fathom-server (pid 7)", code=532, name="member_down", severity="broken", certainty="certain", because_of="engine_down",
                         says="rank 0 does not serve", remedy="ask the doctor of its host")
        slow = dict(code=314, name="device_slow", severity="degraded", certainty="likely", remedy="check what is below it")
        one = OURS.HostDoctorResp(health="broken", taken_ns=1795000000 * 10**9, findings=[
            finding(program="fathom-server (pid 7)", **down), member, finding(program="e (pid 8)", says="the device d (pid 8) is slow", **slow)])
        two = OURS.HostDoctorResp(health="broken", taken_ns=1795000001 * 10**9, findings=[
            finding(program="fathom-server (pid 9)", **down), finding(program="e (pid 10)", says="the device d (pid 10) is slow", **slow)])
        servers = []
        answer = lambda server: one if server.port == servers[0].port else two
        with FakeServer({path: lambda _: answer(a)}) as a, FakeServer({path: lambda _: answer(b)}) as b, \
                FakeServer({path: OURS.HostDoctorResp(health="healthy")}) as healthy:
            servers += sorted([a, b], key=lambda server: server.port)
            self.show("system_doctor", servers, "system", "doctor", status=2)
            self.assertIn("1 host: healthy, 0 findings", self.fathom(healthy, "system", "doctor").stdout)
            done = self.fathom([healthy, "127.0.0.1:1"], "system", "doctor", "--json", status=2)
            silent = json.loads(done.stdout)["response"]["findings"][0]
            self.assertEqual((silent["name"], silent["hosts"], silent["host_count"]), ("host_silent", "127.0.0.1:1", 1))
            self.fathom("127.0.0.1:1", "system", "doctor", status=3)

    def test_log_masks_are_set(self):
        path = "/ctl.CtlSvc/SetEngineLogMasks"
        with FakeServer({path: CTL.SetLogMasksResp(errors=["", ""])}) as server, FakeServer({path: CTL.SetLogMasksResp(errors=["", "engine 1 is down"])}) as bad:
            self.show("server_set_logmasks", server, "server", "set-logmasks", "--masks", "DEBUG")
            self.show("server_set_logmasks_failed", bad, "server", "set-logmasks", "-m", "DEBUG", "-d", "all", "-s", "net", status=1)
            asked = server.requests(path, CTL.SetLogMasksReq)[0]
            self.assertEqual((asked.masks, asked.reset_masks, asked.reset_streams, asked.reset_subsystems), ("DEBUG", False, True, True))
            asked = bad.requests(path, CTL.SetLogMasksReq)[0]
            self.assertEqual((asked.streams, asked.subsystems, asked.reset_streams), ("all", "net", False))


class Logging(CommandTest):
    """Calls and their times, logged for an operator who looks for the reason of a failure or a delay."""
    NAME = "/ctl.CtlSvc/NetworkScan"

    def read(self, name):
        with open(os.path.join(self.folder, name)) as file:
            return file.read().splitlines()

    def assert_log_of_scan(self, lines, server):
        lines = [line.split("DEBUG: ")[1] for line in lines]
        self.assertEqual(lines[:2], ["there is no configuration: defaults hold", f"the system is fathom, its hosts are localhost:{server.port}"])
        self.assertEqual(lines[2:4], ["insecure: without certificates", f"localhost is 127.0.0.1:{server.port}"])
        self.assertRegex(lines[-2], rf":{server.port}: {self.NAME}: asked, within (300\.0|2\d\d\.\d) s$")
        self.assertRegex(lines[-1], rf":{server.port}: {self.NAME}: answered after \d+\.\d{{3}} ms, 0 bytes$")

    def test_calls_are_logged(self):
        with FakeServer({self.NAME: CTL.NetworkScanResp()}) as server:
            host, scan = f"localhost:{server.port}", ("network", "scan")
            plain = self.fathom(host, *scan)
            self.assertEqual(plain.stderr, "")
            said = self.fathom(host, *scan, "-d")
            self.assertEqual(said.stdout, plain.stdout)
            self.assert_log_of_scan(said.stderr.splitlines(), server)
            self.assert_log_of_scan(self.fathom(host, "-d", *scan).stderr.splitlines(), server)
            for _ in range(2):
                self.assertEqual(self.fathom(host, "--log-file", "log", *scan).stderr, "")
            lines = self.read("log")     # the second log is appended
            self.assert_log_of_scan(lines[:len(lines) // 2], server)
            self.assert_log_of_scan(lines[len(lines) // 2:], server)
            self.fathom(host, *scan, "-J", "--log-file", "log.json")
            self.assertEqual({(line["level"], line["program"]) for line in map(json.loads, self.read("log.json"))}, {("DEBUG", "fathom")})
            self.assertIn("cannot write the log to no/such", self.fathom(host, *scan, "--log-file", "no/such", status=1).stderr)
            self.fathom(host, *scan, "-J", status=2)

    def test_a_failed_call_is_logged_with_the_reason(self):
        said = self.fathom(f"127.0.0.1:{free_port()}", "network", "scan", "-d", status=1).stderr
        self.assertRegex(said, rf"DEBUG: 127\.0\.0\.1:\d+: {self.NAME}: failed after \d+\.\d+ ms: .*refused")

    def test_waiting_for_the_service_is_logged(self):
        said = self.fathom(f"127.0.0.1:{free_port()}", "system", "query", "-d", status=1).stderr
        self.assertIn("DEBUG: system query: no server has answered yet; retry in 0.250 s\n", said)

    def test_a_letter_of_a_command_hides_the_common_option(self):
        path = "/ctl.CtlSvc/SetEngineLogMasks"
        with FakeServer({path: CTL.SetLogMasksResp()}) as server:
            self.assertEqual(self.fathom(server, "server", "set-logmasks", "-d", "io").stderr, "")
            self.assertIn(f"{path}: answered", self.fathom(server, "server", "set-logmasks", "--debug", "-d", "io").stderr)
            self.assertIn(f"{path}: answered", self.fathom(server, "-d", "server", "set-logmasks", "-d", "io").stderr)
            self.assertEqual([asked.streams for asked in server.requests(path, CTL.SetLogMasksReq)], ["io"] * 3)
        said = self.run_plain("server", "set-logmasks", "--help").stdout
        self.assertRegex(said, r"(?m)^      --debug ")
        self.assertRegex(said, r"(?m)^  -d, --streams ")


class Generating(CommandTest):
    PATH = "/fathom.ControlSvc/ConfigGenerate"

    def answer(self, text):
        return OURS.ConfigGenerateResp(text=text)

    def test_hosts_with_equal_devices_get_one_configuration(self):
        text = "# by hand\nname: fathom # {}\n"
        with FakeServer({self.PATH: self.answer(text.format("10.0.0.1"))}) as a, FakeServer({self.PATH: self.answer(text.format("10.0.0.2"))}) as b:
            self.show("config_generate", a, "config", "generate")
            self.assertIn(self.fathom([a, b], "config", "generate").stdout, [text.format("10.0.0.1"), text.format("10.0.0.2")])
            self.fathom(a, "config", "generate", "-r", "node1", "-e", 2, "--interface", "eth0", "-F", "/srv", "--size", "1GiB", "-p", 20001, "-O", "server.yml")
            with open(os.path.join(self.folder, "server.yml")) as file:
                self.assertEqual(file.read(), text.format("10.0.0.1"))
            self.assertIn("code = 552", self.fathom(a, "config", "generate", "-O", "server.yml", status=1).stderr)
            self.fathom(a, "config", "generate", "--json", "-O", "too.yml")
            with open(os.path.join(self.folder, "too.yml")) as file:
                self.assertEqual(file.read(), text.format("10.0.0.1"))
            self.assertIn("code = 552", json.loads(self.fathom(a, "config", "generate", "-j", "-O", "too.yml", status=1).stdout)["error"])
            self.assertIn("code = 552", self.fathom(a, "config", "generate", "-O", "/dev/full", status=1).stderr)
            self.assertTrue(os.path.exists("/dev/full"))
            asked = a.requests(self.PATH, OURS.ConfigGenerateReq)
            asked = asked[2:]   # without the first two
            self.assertEqual((asked[1].replica, asked[1].engines, asked[1].interface, asked[1].folder, asked[1].folder_bytes, asked[1].port),
                             ("node1", 2, "eth0", "/srv", GIB, 20001))
            self.assertEqual((asked[2].replica, asked[2].engines, asked[2].insecure, asked[2].port), ("127.0.0.1", 0, True, 0))
            self.assertEqual(len(json.loads(self.fathom([a, b], "config", "generate", "-j").stdout)["response"]["HostConfigs"]), 1)

    def test_options_of_dmg_are_accepted(self):
        with FakeServer({self.PATH: self.answer("name: fathom\n")}) as a:
            self.fathom(a, "config", "generate", "-a", "node2:10002", "-c", "infiniband", "-f", "4501,4440-4441", "-m", "/srv/metadata", "-e", 3)
            asked, = a.requests(self.PATH, OURS.ConfigGenerateReq)
            self.assertEqual((asked.replica, asked.net_class, list(asked.fabric_ports), asked.metadata, asked.engines),
                             ("node2:10002", "infiniband", [4440, 4441, 4501], "/srv/metadata", 3))
            for bad in (("-e", 0), ("-p", 70000), ("-p", "nvme+tcp"), ("--size", "x"), ("-F", "relative"), ("-c", "other"), ("-c", "loopback"), ("-f", ""),
                        ("-f", "0"), ("-f", "70000"), ("-f", "x"), ("-m", "relative"), ("-a", "node1", "-r", "node1"), ("-s",), ("-t",)):
                self.fathom(a, "config", "generate", *bad, status=2)
            self.assertEqual(len(a.calls), 1)

    def test_hosts_that_differ_get_no_configuration(self):
        with FakeServer({self.PATH: self.answer("name: a\n")}) as a, FakeServer({self.PATH: self.answer("name: b\n")}) as b, \
                FakeServer({self.PATH: fault(757, "config", "nothing is free", "free something")}) as c:
            done = self.fathom([a, b], "config", "generate", status=1)
            self.assertEqual(done.stdout, "")
            self.assertEqual(sorted(done.stderr.splitlines()), sorted([f"Group: {server.address}" for server in (a, b)] + [
                "ERROR: fathom: the hosts need different configurations; generate one for each group with -l"]))
            self.assertIn("nothing is free", self.fathom([a, c], "config", "generate", status=1).stderr)


class Logs(CommandTest):
    PATH = "/fathom.ControlSvc/CollectLog"
    ARCHIVE = bytes(range(256)) * 9000     # three pieces of 1 MiB

    def answer(self, request, name="logs.tar.gz"):
        asked = OURS.CollectLogReq.FromString(request)
        piece = self.ARCHIVE[asked.offset:asked.offset + (1 << 20)]
        if asked.id == "":
            return OURS.CollectLogResp(id="c1", total_bytes=len(self.ARCHIVE), piece=piece, name=name)
        self.assertEqual(asked.id, "c1")
        return OURS.CollectLogResp(id="c1", total_bytes=len(self.ARCHIVE), piece=piece)

    def test_a_warning_of_an_archive_is_shown(self):
        warned = lambda request: OURS.CollectLogResp(id="c1", total_bytes=3, piece=b"abc", name="logs.tar.gz", warning="no log here")  # noqa: E731
        with FakeServer({self.PATH: warned}) as server:
            done = self.fathom(server, "support", "collect-log", "-j")
            self.assertEqual(done.stderr, "WARNING: fathom: 127.0.0.1: no log here\n")
            self.assertEqual([row["log"]["warning"] for row in json.loads(done.stdout)["response"]["HostLogs"].values()], ["no log here"])

    def test_archives_are_received_whole(self):
        with FakeServer({self.PATH: self.answer}) as server, FakeServer({self.PATH: lambda request: self.answer(request, "../../../tmp/evil")}) as evil:
            self.show("support_collect_log", server, "support", "collect-log", "-t", "out")
            self.fathom(evil, "support", "collect-log")
            for folder, name in (("out", f"127.0.0.1_{server.port}-logs.tar.gz"), ("fathom-logs", f"127.0.0.1_{evil.port}-evil")):
                self.assertEqual(os.listdir(os.path.join(self.folder, folder)), [name])
                with open(os.path.join(self.folder, folder, name), "rb") as file:
                    self.assertEqual(file.read(), self.ARCHIVE)
                self.assertEqual(os.stat(os.path.join(self.folder, folder, name)).st_mode & 0o777, 0o600)

    def test_options_select_a_part_of_the_logs(self):
        with FakeServer({self.PATH: self.answer}) as server:
            zone = {"env": dict(os.environ, TZ="Etc/GMT-1", HOME=self.folder)}
            def ask(*words):
                del server.calls[:]
                subprocess.run([FATHOM, "support", "collect-log", "-i", "-l", server.address, *words], check=True, capture_output=True,
                               cwd=self.folder, timeout=30, **zone)
                asked = server.requests(self.PATH, OURS.CollectLogReq)[0]
                return asked.from_s, asked.until_s, list(asked.types), asked.extra_folder, asked.stop_on_error
            day = 1795302000       # 2026-11-22 00:00:00 an hour east of Greenwich
            self.assertEqual(ask(), (0, 0, [], "", False))
            self.assertEqual(ask("-D", "2026-11-22", "-F", "2026-11-23"), (day, day + 2 * 86400 - 1, [], "", False))
            self.assertEqual(ask("-D", "2026-11-22", "-S", "01:02:03", "-F", "2026-11-22", "-E", "02:00:00"), (day + 3723, day + 7200, [], "", False))
            self.assertEqual(ask("-e", "control,server", "-c", "/var/log/x", "-s", "-z"), (0, 0, ["control", "server"], "/var/log/x", True))
            self.assertEqual(ask("--log-type", "admin")[2], ["control"])
            self.assertEqual((ask("-S", "00:00:00")[0] - day) % 86400, 0)      # midnight of today
            del server.calls[:]
            for bad in (("-D", "yesterday"), ("-D", "2026-11-22x"), ("-D", "2026-11-22", "-S", "25:00:00"), ("-E", "soon"), ("-e", "other"), ("-e", ""),
                        ("-c", "relative"), ("-D", "2026-11-22", "-F", "2026-11-21")):
                self.fathom(server, "support", "collect-log", *bad, status=2)
            self.assertEqual(server.calls, [])

    def test_stop_on_error_starts_no_further_archive(self):
        with FakeServer({self.PATH: self.answer}) as server:
            dead = free_port()
            hosts = [f"127.4.0.[1-20]:{dead}", server]
            done = self.fathom(hosts, "support", "collect-log", "--stop-on-error", status=1)
            self.assertIn("code = 506", done.stderr)
            self.assertIn("code = 555", done.stderr)
            self.fathom(hosts, "support", "collect-log", status=1)
            self.assertEqual(len(os.listdir(os.path.join(self.folder, "fathom-logs"))), 1)

    def test_an_incomplete_archive_leaves_no_file(self):
        def answer_then_fail(request):
            asked = OURS.CollectLogReq.FromString(request)
            return fault(50, "general", "gone", "again") if asked.offset else OURS.CollectLogResp(id="c", total_bytes=100, piece=b"x", name="n")
        lies = OURS.CollectLogResp(id="c", total_bytes=2, piece=b"xxx", name="n")
        endless = OURS.CollectLogResp(id="c", total_bytes=2, piece=b"", name="n")
        for answer in (answer_then_fail, lies, endless):
            with FakeServer({self.PATH: answer}) as server:
                self.assertIn("Errors:", self.fathom(server, "support", "collect-log", status=1).stderr)
                self.assertEqual(os.listdir(os.path.join(self.folder, "fathom-logs")), [])
        with open(os.path.join(self.folder, "taken"), "w"):
            pass
        with FakeServer({self.PATH: self.answer}) as server:
            self.assertIn("code = 551", self.fathom(server, "support", "collect-log", "-t", "taken", status=1).stderr)
            self.assertIn("code = 551", self.fathom(server, "support", "collect-log", "-t", "no/such/folder", status=1).stderr)


if __name__ == "__main__":
    unittest.main()
