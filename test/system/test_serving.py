# SPDX-License-Identifier: BSD-2-Clause
"""The engine serves its volumes byte for byte. Its control socket and its configuration."""

import json
import os
import subprocess
import time
import unittest

from harness import ENGINE, FATHOM, NQN, EngineTest, RpcError, free_port, run, wait_for


def wait_answer(engine, method, **params):
    """Repeat a call until the engine, which is starting, has its socket and accepts the call; the result."""
    for _ in range(500):
        try:
            return engine.rpc(method, **params)
        except (OSError, RpcError):
            time.sleep(0.01)
    raise AssertionError(f"no answer to {method}:\n{engine.log_text()}")


class ConfigTest(EngineTest):
    def write_config(self, calls, subsystem="bdev"):
        path = os.path.join(self.directory, "config.json")
        with open(path, "w") as f:
            json.dump({"subsystems": [{"subsystem": subsystem, "config": calls}]}, f)
        return path


class Serving(ConfigTest):
    def device_kinds(self):
        yield "malloc", ["bdev_malloc_create", "-b", "Disk0", 64, 512]
        yield "malloc with 4 KiB blocks", ["bdev_malloc_create", "-b", "Disk0", 64, 4096]
        yield "file", ["bdev_uring_create", self.file("disk", 64), "Disk0", 512]
        yield "file with 4 KiB blocks", ["bdev_aio_create", self.file("disk4k", 64), "Disk0", 4096]

    def test_what_is_written_is_read_back_from_every_kind_of_device(self):
        for what, create in self.device_kinds():
            with self.subTest(what):
                engine = self.engine()
                engine.serve(*create)
                result = engine.perf_json("--rw", "mix", "--bs", "4k", "--depth", "32", "--count", "2000", "--verify")
                self.assertGreaterEqual(result["total"]["ios"], 2000)
                self.assertEqual(engine.stop(), 0, engine.log_text())

    def test_io_with_digests_large_blocks_and_several_queues_is_verified(self):
        engine = self.engine("-m", "0x1")
        engine.serve("bdev_malloc_create", "-b", "Disk0", 64, 512)
        for options in (["--hdgst"], ["--ddgst"], ["--hdgst", "--ddgst"], ["--bs", "128k", "--depth", "8"],
                        ["--bs", "128k", "--hdgst", "--ddgst"], ["--queues", "2"], ["--depth", "1"], ["--depth", "128"]):
            with self.subTest(" ".join(options)):
                engine.perf("--rw", "mix", "--bs", "4k", "--time", "0.5", "--verify", *options)

    def test_the_rpc_commands_of_the_readme_set_up_a_target(self):
        engine = self.engine()
        out = engine.run_commands(f"""# as in the README
nvmf_create_transport -t tcp
nvmf_create_subsystem {NQN} -a -s SPDK00000000000001 -m 10
nvmf_subsystem_add_listener {NQN} -t tcp -a 127.0.0.1 -s {engine.port}
bdev_null_create null0 1000 512
nvmf_subsystem_add_ns {NQN} null0
""")
        self.assertIn("null0", out)
        subsystem = [s for s in engine.rpc("nvmf_get_subsystems") if s["nqn"] == NQN][0]
        self.assertEqual(subsystem["namespaces"][0]["bdev_name"], "null0")
        self.assertEqual(subsystem["serial_number"], "SPDK00000000000001")
        engine.perf("--rw", "randread", "--bs", "4k", "--time", "0.5")

    def test_a_saved_configuration_starts_the_same_target(self):
        engine = self.engine()
        engine.serve("bdev_uring_create", self.file("disk", 16), "Disk0", 512)
        saved = run(FATHOM, "rpc", "-s", engine.sock, "save_config").stdout
        path = os.path.join(self.directory, "config.json")
        open(path, "w").write(saved)
        engine.perf("--rw", "randwrite", "--bs", "4k", "--time", "0.5", "--verify")
        port = engine.port
        self.assertEqual(engine.stop(), 0)
        again = self.engine("-c", path)
        again.port = port
        again.perf("--rw", "mix", "--bs", "4k", "--time", "0.5", "--verify")
        self.assertEqual(json.loads(run(FATHOM, "rpc", "-s", again.sock, "save_config").stdout), json.loads(saved))

    SPDK_CALLS = (  # of a plain nvmf_tgt's save_config: methods that only tune SPDK's internals
        "sock_set_default_impl", "sock_impl_set_options", "iobuf_set_options", "accel_set_options", "bdev_raid_set_options",
        "bdev_nvme_set_options", "bdev_nvme_set_hotplug", "nvmf_set_config")

    def write_spdk_config(self, port):
        """The configuration that SPDK 26.09's nvmf_tgt saved, with our port: (path, content)."""
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "spdk-nvmf-tgt.json")) as f:
            config = json.load(f)
        for subsystem in config["subsystems"]:
            for call in subsystem["config"]:
                if call["method"] == "nvmf_subsystem_add_listener":
                    call["params"]["listen_address"]["trsvcid"] = str(port)
        path = os.path.join(self.directory, "spdk.json")
        with open(path, "w") as f:
            json.dump(config, f)
        return path, config

    def test_a_configuration_that_spdk_saved_loads(self):
        port = free_port()
        path, config = self.write_spdk_config(port)
        engine = self.engine("-c", path)
        engine.port = port
        engine.perf("--rw", "randread", "--bs", "4k", "--time", "0.5")
        log = engine.log_text()
        self.assertNotIn("WARNING", log)
        for method in self.SPDK_CALLS:
            self.assertEqual(log.count(f"NOTICE: {method}: accepted; it has no meaning here\n"), 1, log)
        # the calls are accepted again at run time, and not logged again
        called = 0
        for subsystem in config["subsystems"]:
            for call in subsystem["config"]:
                if call["method"] in self.SPDK_CALLS:
                    self.assertEqual(engine.rpc(call["method"], **call["params"]), True)
                    called += 1
        self.assertEqual(called, len(self.SPDK_CALLS) + 2)
        self.assertEqual(engine.log_text().count("has no meaning here"), log.count("has no meaning here"))
        # our saved configuration has none of these calls
        saved = run(FATHOM, "rpc", "-s", engine.sock, "save_config").stdout
        self.assertFalse([method for method in self.SPDK_CALLS if method in saved])

    def test_tuning_with_wrong_types_or_unsupported_behaviour_is_refused(self):
        engine = self.engine()
        for method, params, what in (
                ("sock_impl_set_options", {"impl_name": "posix", "recv_buf_size": "2M"}, '"recv_buf_size" is a string, not a whole number'),
                ("sock_impl_set_options", {}, '"impl_name" is missing'),
                ("sock_set_default_impl", {"impl_name": "ssl"}, "TLS"),
                ("iobuf_set_options", {"small_pool": 1}, 'no parameter "small_pool" here'),
                ("bdev_nvme_set_options", {"dhchap_digests": ["md5"]}, '"dhchap_digests" is "md5", not one of sha256, sha384, sha512'),
                ("bdev_nvme_set_options", {"dhchap_digests": "sha256"}, '"dhchap_digests" is a string, not an array of names'),
                ("bdev_nvme_set_options", {"multipath_opts": {"policy": 1}}, '"multipath_opts.policy" is a number, not a string'),
                ("bdev_nvme_set_options", {"transport_tos": 256}, '"transport_tos" is 256; it goes from 0 to 255'),
                ("bdev_nvme_set_hotplug", {"enable": True}, "there is no driver"),
                ("nvmf_set_config", {"admin_cmd_passthru": {"sanitize": True}}, "admin commands are never passed through"),
                ("nvmf_set_config", {"discovery_filters": ["address"]}, "the discovery log is not filtered"),
                ("nvmf_set_config", {"dup_host_policy": "restrict_per_listener"}, "a host may always connect more than once"),
                ("nvmf_set_max_subsystems", {"max_subsystems": 16385}, '"max_subsystems" is 16385; it goes from 1 to 16384'),
                ("nvmf_create_transport", {"trtype": "TCP", "no_srq": 1}, '"no_srq" is a number, not true or false'),
                ("nvmf_create_transport", {"trtype": "TCP", "masked_oncs": ["dsm"]}, '"masked_oncs" is "dsm", not one of nvmcmps')):
            with self.subTest(method=method, params=params):
                with self.assertRaises(RpcError) as caught:
                    engine.rpc(method, **params)
                self.assertEqual(caught.exception.code, -32602)
                self.assertIn(what, caught.exception.message)

    def test_a_parameter_without_meaning_is_accepted_and_logged_once(self):
        engine = self.engine()
        engine.rpc("nvmf_create_transport", trtype="TCP", masked_oncs=["nvmcpys"], masked_fuses=["fcws"], no_srq=True)
        for i in range(2):
            engine.rpc("nvmf_create_subsystem", nqn=f"nqn.2026-01.io.fathom:s{i}", admin_label="rack 7")
        log = engine.log_text()
        for method, name in (("nvmf_create_transport", "masked_oncs"), ("nvmf_create_transport", "masked_fuses"),
                             ("nvmf_create_transport", "no_srq"), ("nvmf_create_subsystem", "admin_label")):
            self.assertEqual(log.count(f'NOTICE: {method}: the parameter "{name}" has no meaning here\n'), 1, log)

    def test_only_volumes_on_files_have_the_same_uuid_in_every_engine(self):
        path, found = self.file("disk", 16), []
        for _ in range(2):
            engine = self.engine()
            engine.run_commands(f"bdev_uring_create {path} Disk0 512\nbdev_malloc_create -b Disk1 16 512\n")
            found.append({row["name"]: row["uuid"] for row in engine.rpc("bdev_get_bdevs")})
            engine.stop()
        self.assertEqual(found[0]["Disk0"], found[1]["Disk0"])
        self.assertNotEqual(found[0]["Disk1"], found[1]["Disk1"])

    def test_a_failed_call_in_a_configuration_stops_the_start_and_is_named(self):
        path = os.path.join(self.directory, "config.json")
        config = {"subsystems": [{"subsystem": "bdev", "config": [{"method": "bdev_null_create", "params": {"name": "n"}}]}]}
        open(path, "w").write(json.dumps(config))
        done = run(ENGINE, "-r", os.path.join(self.directory, "s"), "-c", path, check=False, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("bdev_null_create", done.stderr + done.stdout)

    def test_an_unknown_subsystem_in_a_configuration_is_logged(self):
        engine = self.engine("-c", self.write_config([{"method": "bdev_get_bdevs"}], "bedv"))
        self.assertIn('config.json: there is no subsystem "bedv"', engine.log_text())
        engine = self.engine("-c", self.write_config([{"method": "bdev_get_bdevs"}]))
        self.assertNotIn("there is no subsystem", engine.log_text())

    def test_a_call_that_waits_for_the_engine_is_refused_in_a_configuration(self):
        for method in ("framework_wait_init", "framework_start_init", "spdk_kill_instance"):
            with self.subTest(method):
                path = self.write_config([{"method": "bdev_null_create", "params": {}}, {"method": method}])
                done = run(ENGINE, "-r", os.path.join(self.directory, "s"), "-c", path, check=False, timeout=60)
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"call 2: {method} is not allowed in a configuration", done.stderr)

    def test_unsupported_parameters_are_refused_and_missing_from_help(self):
        engine = self.engine()
        engine.serve("bdev_malloc_create", "-b", "M0", 16, 512)
        address = {"trtype": "TCP", "adrfam": "IPv4", "traddr": "127.0.0.1", "trsvcid": "4499"}
        other = "nqn.2016-06.io.spdk:cnode2"
        for method, name, value, more in (
                ("nvmf_create_transport", "zcopy", True, {"trtype": "TCP"}),
                ("nvmf_create_transport", "dif_insert_or_strip", True, {"trtype": "TCP"}),
                ("nvmf_create_subsystem", "ana_reporting", True, {"nqn": other}),
                ("nvmf_create_subsystem", "passthrough", True, {"nqn": other}),
                ("nvmf_subsystem_add_listener", "ana_state", "inaccessible", {"nqn": NQN, "listen_address": address}),
                ("nvmf_subsystem_add_listener", "ana_state", "non_optimized", {"nqn": NQN, "listen_address": address}),
                ("nvmf_subsystem_add_listener", "secure_channel", True, {"nqn": NQN, "listen_address": address}),
                ("nvmf_subsystem_add_host", "psk", "key0", {"nqn": NQN, "host": other}),
                ("nvmf_subsystem_add_host", "dhchap_key", "key0", {"nqn": NQN, "host": other})):
            with self.subTest(method, name=name):
                with self.assertRaisesRegex(RpcError, f'\\"{name}\\": this release does not '):
                    engine.rpc(method, **{name: value}, **more)
                self.assertNotIn("--" + name.replace("_", "-"), run(FATHOM, "rpc", method, "--help").stdout)
        # no refused call had an effect; the values that SPDK's save_config writes are accepted
        self.assertEqual([len(s["listen_addresses"]) for s in engine.rpc("nvmf_get_subsystems") if s["nqn"] == NQN], [1])
        engine.rpc("nvmf_create_subsystem", nqn=other, ana_reporting=False, passthrough=False)
        engine.rpc("nvmf_subsystem_add_listener", nqn=other, listen_address=address, ana_state="optimized", secure_channel=False)

    def test_sigterm_ends_a_start_that_waits_for_a_device(self):
        path = self.write_config([{"method": "bdev_get_bdevs", "params": {"name": "absent", "timeout": 60000}}])
        engine = self.engine("-c", path, ready=False)
        self.assertEqual(wait_answer(engine, "bdev_get_bdevs"), [])
        self.assertEqual(engine.stop(), 0, engine.log_text())
        self.assertNotIn("not stopped after", engine.log_text())
        self.assertNotIn("ready", engine.log_text())

    def test_a_volume_on_a_file_survives_sigkill(self):
        path = self.file("disk", 32)
        state = os.path.join(self.directory, "ledger")
        engine = self.engine()
        engine.serve("bdev_uring_create", path, "Disk0", 512)
        load = subprocess.Popen([FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", NQN, "--rw", "randwrite", "--bs", "4k",
                                 "--depth", "32", "--time", "20", "--verify", "--verify-state", state],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        engine.wait_for_ios(10000, "Disk0")
        engine.kill()
        self.assertNotEqual(load.wait(60), 0)
        self.assertTrue(os.path.exists(state))
        again = self.engine()
        again.serve("bdev_uring_create", path, "Disk0", 512)
        again.perf("--rw", "read", "--bs", "4k", "--depth", "32", "--time", "1", "--verify", "--verify-state", state)

    def test_a_file_is_refused_while_another_engine_or_device_has_it(self):
        path = self.file("disk", 16)
        first, second = self.engine(), self.engine()
        first.rpc("bdev_uring_create", name="Disk0", filename=path, block_size=512)
        for engine, what in ((first, 'it is block device "Disk0"'), (second, "another process has it open")):
            for create in ("bdev_uring_create", "bdev_aio_create"):
                with self.assertRaises(RpcError) as caught:
                    engine.rpc(create, name="Disk1", filename=path, block_size=512)
                self.assertIn(f"{path} is in use: {what}", caught.exception.message)
        first.kill()
        second.rpc("bdev_uring_create", name="Disk1", filename=path, block_size=512)

    def test_sigterm_under_load_ends_with_status_0(self):
        engine = self.engine()
        engine.serve("bdev_malloc_create", "-b", "Disk0", 64, 512)
        load = subprocess.Popen([FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", NQN, "--rw", "mix", "--bs", "4k",
                                 "--depth", "64", "--time", "10"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        engine.wait_for_ios(1000, "Disk0")
        self.assertEqual(engine.stop(), 0, engine.log_text())
        self.assertNotEqual(load.wait(60), 0)
        self.assertFalse(os.path.exists(engine.sock))

    def test_threads_are_moved_to_other_cpus_under_load(self):
        cpus = sorted(os.sched_getaffinity(0))[:2]
        if len(cpus) < 2:
            self.skipTest("one CPU")
        engine = self.engine("-m", f"[{cpus[0]},{cpus[1]}]")
        engine.serve("bdev_uring_create", self.file("disk", 64), "Disk0", 512)
        load = subprocess.Popen([FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", NQN, "--rw", "mix", "--bs", "16k",
                                 "--depth", "32", "--queues", "2", "--time", "4", "--verify", "--quiet"], stderr=subprocess.PIPE)
        self.addCleanup(load.stderr.close)
        threads = {thread["name"]: thread["id"] for thread in engine.rpc("thread_get_stats")["threads"]}
        groups = sorted(name for name in threads if name.startswith("nvmf_tgt_poll_group_"))
        self.assertEqual(len(groups), 2, threads)
        while load.poll() is None:
            for turn in (0, 1):
                for index, name in enumerate(groups):
                    engine.rpc("thread_set_cpumask", id=threads[name], cpumask=f"[{cpus[(index + turn) % 2]}]")
                time.sleep(0.02)
        self.assertEqual(load.returncode, 0, load.stderr.read().decode())
        for name in groups:                                 # both groups on the first CPU
            engine.rpc("thread_set_cpumask", id=threads[name], cpumask=hex(1 << cpus[0]))
        time.sleep(0.2)
        masks = {thread["name"]: int(thread["cpumask"], 16) for thread in engine.rpc("thread_get_stats")["threads"]}
        self.assertEqual({masks[name] for name in groups}, {1 << cpus[0]})
        for wanted, params in (("there is no thread 4711", {"id": 4711, "cpumask": "1"}),
                               ("is the control thread", {"id": threads["app_thread"], "cpumask": hex(1 << cpus[0])}),
                               ("is not a mask", {"id": threads[groups[0]], "cpumask": "everywhere"}),
                               ("no reactor is on", {"id": threads[groups[0]], "cpumask": "[200]"})):
            with self.assertRaisesRegex(Exception, wanted):
                engine.rpc("thread_set_cpumask", **params)
        self.assertEqual(engine.stop(), 0, engine.log_text())

    def test_stacked_devices_are_removed_in_order_at_the_end(self):
        engine = self.engine()
        engine.run_commands("bdev_malloc_create -b Disk0 16 512\nbdev_malloc_create -b Disk1 16 512\nbdev_error_create Disk1\n"
                            "bdev_error_create EE_Disk1\nbdev_null_create null0 16 512\nbdev_error_create Disk0\n")
        self.assertEqual(engine.stop(), 0, engine.log_text())
        calls = [{"method": "bdev_malloc_create", "params": {"name": "Disk1", "num_blocks": 100, "block_size": 512}},
                 {"method": "bdev_error_create", "params": {"base_name": "Disk1"}},
                 {"method": "bdev_error_create", "params": {"base_name": "nobody"}}]
        done = run(ENGINE, "-r", os.path.join(self.directory, "s"), "-c", self.write_config(calls), check=False, timeout=60)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("nobody", done.stderr)

    def test_an_engine_that_cannot_stop_logs_the_commands_that_it_waits_for(self):
        engine = self.engine()
        engine.run_commands("bdev_malloc_create -b Disk1 16 512\n")
        engine.serve("bdev_error_create", "Disk1")
        engine.rpc("bdev_error_inject_error", name="EE_Disk1", io_type="write", error_type="pending", num=3)
        held = subprocess.Popen([FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", NQN, "--rw", "randwrite", "--bs", "4k",
                                 "--depth", "3", "--count", "3"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(lambda: sum(row.get("object_type") == "bdev_io" for row in engine.operations_under_way("--older-than", "0")) >= 3)
        self.assertEqual(engine.stop(), 1)
        held.kill()
        held.wait()
        self.assertRegex(engine.log_text(), rf"under way: 3 commands of {NQN}, queue 1 of 127\.0\.0\.1:\d+; the oldest is Write "
                         r"at block device EE_Disk1, since [0-9]+ s\n")
        self.assertNotIn("not stopped after", engine.log_text())
        self.assertIn(f"`fathom trace stuck -f {engine.trace_path}` shows more", engine.log_text())
        self.assertIn("WRITE", engine.trace("stuck", "-f", engine.trace_path, check=False).stdout)

    def test_an_idle_engine_uses_little_memory_and_no_cpu(self):
        engine = self.engine()
        engine.serve("bdev_malloc_create", "-b", "Disk0", 64, 512)
        engine.perf("--rw", "mix", "--bs", "4k", "--time", "0.5")
        time.sleep(0.5)
        self.assertLess(engine.resident_kib(), 100 * 1024 + 64 * 1024)  # 100 MiB, and 64 MiB of the malloc device
        before = engine.cpu_ticks()
        time.sleep(3)
        self.assertLessEqual(engine.cpu_ticks() - before, 3)  # 1 % of a core is 3 ticks of 10 ms in 3 s


class Control(EngineTest):
    def test_invalid_requests_get_errors_and_the_engine_keeps_answering(self):
        engine = self.engine()
        for request, code in ((b'{"jsonrpc":"2.0","id":1,"method":"no_such"}', -32601), (b'{"jsonrpc":"1.0","id":1,"method":"x"}', -32600),
                              (b'{"jsonrpc":"2.0","id":1,"method":"bdev_null_create","params":{"name":"n"}}', -32602),
                              (b'{"jsonrpc":"2.0","id":1,"method":"bdev_null_create","params":{"name":"n","block_size":512,'
                               b'"num_blocks":10,"colour":1}}', -32602), (b'{]', -32700)):
            with self.subTest(request):
                self.assertEqual(engine.send_request(request)["error"]["code"], code)
        with self.assertRaises(RpcError) as caught:
            engine.rpc("bdev_null_delete", name="nobody")
        self.assertEqual(caught.exception.code, -19)
        self.assertIn("spdk_get_version", engine.rpc("rpc_get_methods"))

    def test_an_invalid_port_is_refused_by_each_command_and_method(self):
        engine = self.engine()
        engine.serve("bdev_malloc_create", "-b", "Disk0", 16, 512)
        for port in (engine.port + 65536, "0", "-1", f"+{engine.port}", "0x10", ""):
            with self.subTest(port=port):
                done = run(FATHOM, "rpc", "-s", "127.0.0.1", "-p", port, "spdk_get_version", check=False)
                self.assertEqual((done.returncode, done.stderr.splitlines()[0]),
                                 (2, f'fathom rpc: -p: "{port}" is not a port from 1 to 65535'))
        for port in (engine.port + 65536, "0", "-1", f"+{engine.port}", ""):
            with self.subTest(port=port):
                done = run(FATHOM, "perf", "-a", "127.0.0.1", "-s", port, "-n", NQN, "--time", "0.1", check=False)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(f'"{port}" is no port: a port is a number from 1 to 65535', done.stderr)
        for port, what in ((engine.port + 65536, "is no port"), ("0", "is no port"), (f"0{engine.port}", "is no port"), ("x", "is no port"),
                           (None, "trsvcid is missing: the TCP port, 1 to 65535")):
            with self.subTest(trsvcid=port):
                with self.assertRaises(RpcError) as caught:
                    engine.rpc("nvmf_subsystem_add_listener", nqn=NQN,
                               listen_address={"trtype": "tcp", "traddr": "127.0.0.1", "trsvcid": port and str(port)})
                self.assertIn(what, caught.exception.message)

    def test_an_unknown_transport_is_refused_with_the_ones_that_exist(self):
        engine = self.engine()
        engine.serve("bdev_malloc_create", "-b", "Disk0", 16, 512)
        with self.assertRaises(RpcError) as caught:
            engine.rpc("nvmf_create_transport", trtype="RDMA")
        self.assertEqual(caught.exception.message, "Invalid transport type 'RDMA'; there is TCP")
        with self.assertRaises(RpcError) as caught:
            engine.rpc("nvmf_subsystem_add_listener", nqn=NQN, listen_address={"trtype": "rdma", "traddr": "127.0.0.1", "trsvcid": "1"})
        self.assertEqual(caught.exception.message, "Invalid transport type 'rdma'; there is TCP")

    def test_rpc_to_an_nvme_port_fails_with_a_hint_at_the_control_socket(self):
        engine = self.engine()
        engine.serve("bdev_malloc_create", "-b", "Disk0", 16, 512)
        done = run(FATHOM, "rpc", "-s", "127.0.0.1", "-p", engine.port, "spdk_get_version", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"\A127\.0\.0\.1 closed the connection [a-zA-Z ]+; is it a control socket\?\n\Z")

    def test_only_the_static_scheduler_is_accepted(self):
        engine = self.engine()
        engine.run_commands("framework_set_scheduler static\n")
        self.assertEqual(engine.rpc("framework_get_scheduler")["scheduler_name"], "static")
        with self.assertRaises(RpcError) as caught:
            engine.rpc("framework_set_scheduler", name="dynamic", period=1000)
        self.assertIn('there is no scheduler "dynamic", only "static"', caught.exception.message)

    def test_load_config_reports_why_a_configuration_cannot_be_read(self):
        engine = self.engine()
        for source, what in (("/nonexistent.json", "/nonexistent.json: No such file or directory"), (self.directory, "Is a directory"),
                             ('{"subsystems": ', "--json-conf: line 1"), (" {}", 'no list "subsystems"')):
            with self.subTest(source):
                done = run(FATHOM, "rpc", "-s", engine.sock, "load_config", "-j", source, check=False)
                self.assertEqual(done.returncode, 1)
                self.assertIn(what, done.stdout)

    def test_a_malloc_device_larger_than_the_memory_logs_a_warning(self):
        engine = self.engine()
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        engine.rpc("bdev_malloc_create", name="Fits", num_blocks=1000, block_size=512)
        self.assertNotIn("WARNING", engine.log_text())
        engine.rpc("bdev_malloc_create", name="TooLarge", num_blocks=memory // 4096 + 1000, block_size=4096)
        self.assertIn('WARNING: bdev_malloc_create: "TooLarge" has', engine.log_text())

    def test_a_refused_call_prints_one_line_and_its_request_with_v(self):
        engine = self.engine()
        done = run(FATHOM, "rpc", "-s", engine.sock, "bdev_null_delete", "absent", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stdout.splitlines()), 1, done.stdout)
        self.assertRegex(done.stdout, r"\Abdev_null_delete: .*No such device.* \(code -19\)\n\Z")
        done = run(FATHOM, "rpc", "-v", "-s", engine.sock, "bdev_null_delete", "absent", check=False)
        self.assertRegex(done.stdout, r"\Abdev_null_delete: .* \(code -19\)\nrequest:\n")
        self.assertIn('"name": "absent"', done.stdout)

    def test_each_call_of_a_batch_with_an_id_is_answered(self):
        engine = self.engine()
        batch = json.dumps([{"jsonrpc": "2.0", "id": i, "method": "spdk_get_version"} for i in range(3)] +
                           [{"jsonrpc": "2.0", "method": "spdk_get_version"}]).encode()
        self.assertEqual(sorted(r["id"] for r in engine.send_request(batch)), [0, 1, 2])

    def test_wait_for_rpc_lets_the_states_of_the_start_be_traced(self):
        engine = self.engine("--wait-for-rpc", ready=False)
        wait_answer(engine, "rpc_get_methods")
        with self.assertRaises(RpcError) as caught:
            engine.rpc("nvmf_get_subsystems")
        self.assertEqual(caught.exception.code, -1)
        engine.rpc("framework_start_init")
        with self.assertRaises(RpcError) as caught:
            engine.rpc("framework_start_init")
        self.assertIn("this one has started", caught.exception.message)
        engine.rpc("framework_wait_init")
        states = [row["args"]["to"] for row in map(json.loads, engine.trace("--json", "-n", "nvmf_tgt_state", "-f", engine.trace_path)
                                                       .stdout.splitlines()) if row.get("name", "").lower() == "nvmf_tgt_state"]
        self.assertEqual(states, ["NONE", "CREATE_TARGET", "CREATE_POLL_GROUPS", "START_SUBSYSTEMS", "RUNNING"])

    def test_a_second_engine_on_the_same_socket_is_refused(self):
        engine = self.engine()
        done = run(ENGINE, "-r", engine.sock, "--name", "second", check=False, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(engine.sock, done.stderr)
        engine.rpc("spdk_get_version")

    def test_an_empty_socket_path_is_refused(self):
        done = run(ENGINE, "-r", "", check=False, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (2, 'fathom-engine: --rpc-socket: "" is not a path: it has no characters\n'
                            "`fathom-engine --help` shows the options\n"))

    def test_methods_for_tests_need_an_option_and_have_a_limit(self):
        engine = self.engine()
        self.assertNotIn("reactor_hold", engine.rpc("rpc_get_methods"))
        with self.assertRaises(RpcError) as caught:
            engine.rpc("reactor_hold", reactor=0, milliseconds=1)
        self.assertEqual(caught.exception.code, -32601)
        engine = self.engine("--test-methods")
        for _ in range(4):
            engine.rpc("reactor_hold", reactor=0, milliseconds=500)
        with self.assertRaises(RpcError) as caught:
            engine.rpc("reactor_hold", reactor=0, milliseconds=500)
        self.assertIn("which is the limit", caught.exception.message)
        self.assertTrue(wait_answer(engine, "reactor_hold", reactor=0, milliseconds=1))  # once one of the four has ended

    def test_a_cpu_that_does_not_exist_is_named(self):
        ours = os.sched_getaffinity(0)
        missing = max(ours) + 1
        for cpus in (f"[{min(ours)},{missing}-255]", hex(1 << min(ours) | 1 << missing | 1 << 175)):
            done = run(ENGINE, "-m", cpus, check=False, timeout=60)
            self.assertEqual((done.returncode, done.stderr),
                             (2, f'fathom-engine: --cpumask: "{cpus}" has CPU {missing}, which does not exist or which this process is '
                                 "not allowed to use\n`fathom-engine --help` shows the options\n"))

    def test_socket_and_trace_file_are_accessible_only_to_their_owner(self):
        engine = self.engine()
        self.assertEqual(os.stat(engine.sock).st_mode & 0o777, 0o600)
        self.assertEqual(os.stat(engine.trace_path).st_mode & 0o777, 0o600)

    def test_the_log_has_json_lines_with_log_to_json(self):
        engine = self.engine("--log-to", "json")
        self.assertEqual(engine.stop(), 0)
        # two lines about the trace go to standard output, not to the log
        lines = [json.loads(line) for line in engine.log_text().splitlines() if line.startswith("{")]
        self.assertEqual({(line["program"], line["pid"]) for line in lines}, {("fathom-engine", engine.pid)})
        self.assertTrue(any(line["message"].startswith("ready: ") for line in lines), lines)
        done = run(ENGINE, "--log-to", "paper", check=False)
        self.assertEqual((done.returncode, done.stderr), (2, 'fathom-engine: --log-to: "paper" is not stderr, json or syslog\n'
                            "`fathom-engine --help` shows the options\n"))

    def test_spdk_kill_instance_ends_the_engine(self):
        engine = self.engine()
        engine.rpc("spdk_kill_instance", sig_name="SIGTERM")
        self.assertEqual(engine.process.wait(60), 0)


if __name__ == "__main__":
    unittest.main()
