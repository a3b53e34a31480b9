# SPDX-License-Identifier: BSD-2-Clause
"""Pools and volumes of an engine run by hand: created, grown, renamed and destroyed; kept through kill -9; damage and a full storage."""

import os
import signal
import struct
import subprocess
import threading
import unittest

import test_hostile as hostile
from harness import ENGINE, FATHOM, NQN, EngineTest, RpcError, wait_for

MIB = 1 << 20
SET_FEATURES, AER = 0x09, 0x0c
WRITE_ZEROES, DSM = 0x08, 0x09
DSM_DEALLOCATE, WRITE_ZEROES_DEALLOCATE = 1 << 2, 1 << 25    # in CDW11 and in CDW12
ASYNC_EVENTS, NS_ATTRIBUTE_NOTICES = 0x0b, 1 << 8    # the feature Asynchronous Event Configuration
NS_CHANGED = 0x040002    # a notice: Namespace Attribute Changed, log page 4; NVMe Base 2.0, 5.2


class Volumes(EngineTest):
    def setUp(self):
        super().setUp()
        self.storage = os.path.join(self.directory, "storage")
        os.mkdir(self.storage)

    def start(self):
        return self.engine("--storage", self.storage)

    def volumes(self, engine):
        return {volume["device"]: volume for volume in engine.rpc("volume_get_volumes")}

    def path(self, *names):
        return os.path.join(self.storage, *names)

    def assert_rejected(self, text, engine, method, **params):
        with self.assertRaises(RpcError) as caught:
            engine.rpc(method, **params)
        self.assertIn(text, str(caught.exception))
        return caught.exception.code

    def test_a_volume_and_its_data_survive_kill_9(self):
        engine, state = self.start(), os.path.join(self.directory, "state")
        engine.rpc("pool_create", pool="p1")
        engine.serve("volume_create", "p1", "db", "64M")
        identity = self.volumes(engine)["p1/db"]["uuid"]
        engine.perf("--rw", "mix", "--count", "3000", "--verify-state", state)
        engine.kill()
        engine = self.start()
        volume = self.volumes(engine)["p1/db"]
        self.assertEqual((volume["uuid"], volume["state"], volume["size"]), (identity, "ONLINE", 64 * MIB))
        self.publish(engine)
        engine.perf("--time", "0", "--verify-state", state)
        self.assertEqual(engine.stop(), 0)

    def publish(self, engine):
        engine.run_commands(f"""nvmf_create_transport -t tcp
nvmf_create_subsystem {NQN} -a -m 10
nvmf_subsystem_add_listener {NQN} -t tcp -a 127.0.0.1 -s {engine.port}
nvmf_subsystem_add_ns {NQN} p1/db
""")

    def load(self, engine):
        """Writes that end with the engine, or the test."""
        load = subprocess.Popen([FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", NQN, "--time", "300", "--quiet", "--rw", "write"],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(load.wait)
        self.addCleanup(load.kill)
        wait_for(lambda: engine.rpc("bdev_get_iostat", names=["p1/db"])["bdevs"][0]["num_write_ops"] > 100)

    @staticmethod
    def is_stopped(engine):
        with open(f"/proc/{engine.pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "T"

    def has_marks(self):
        """Whether a start would find regions whose data and checksums may be of different writes."""
        with open(self.path("pools/p1/volumes/db/sums.1"), "rb") as file:
            return any(file.read(1 << 20))

    def test_after_a_stop_under_load_no_region_is_suspect_and_after_kill_9_some_are(self):
        engine = self.start()
        engine.rpc("pool_create", pool="p1")
        engine.rpc("volume_create", pool="p1", volume="db", size=64 * MIB, checksums=True)
        self.publish(engine)
        self.load(engine)
        self.assertEqual(engine.stop(), 0)
        self.assertFalse(self.has_marks())
        engine = self.start()
        scrub = self.volumes(engine)["p1/db"]["scrub"]
        self.assertEqual((scrub["suspect_regions"], scrub["marked_regions"], scrub["mismatches"]), (0, 0, 0))
        self.publish(engine)
        self.load(engine)
        engine.process.send_signal(signal.SIGSTOP)
        wait_for(lambda: self.is_stopped(engine))
        while not self.has_marks():    # it was stopped just after it removed them
            engine.process.send_signal(signal.SIGCONT)
            wait_for(self.has_marks)
            engine.process.send_signal(signal.SIGSTOP)
            wait_for(lambda: self.is_stopped(engine))
        engine.kill()
        self.assertTrue(self.has_marks())
        engine = self.start()
        wait_for(lambda: self.volumes(engine)["p1/db"]["scrub"]["suspect_regions"] == 0)
        self.assertEqual(self.volumes(engine)["p1/db"]["scrub"]["mismatches"], 0)

    def test_a_device_that_hangs_at_a_stop_keeps_no_volume_from_its_clean_stop(self):
        engine = self.start()
        engine.rpc("pool_create", pool="p1")
        engine.rpc("volume_create", pool="p1", volume="db", size=64 * MIB, checksums=True)
        self.publish(engine)
        self.load(engine)
        engine.run_commands(f"bdev_malloc_create -b M 16 4096\nbdev_error_create M\nnvmf_subsystem_add_ns {NQN} EE_M -n 2\n"
                            "bdev_error_inject_error EE_M read pending -n 1\n")
        host = subprocess.Popen([FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", NQN, "--nsid", "2", "--rw", "read", "--depth", "1",
                                 "--count", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(host.wait)
        self.addCleanup(host.kill)
        wait_for(lambda: engine.rpc("bdev_get_iostat", names=["EE_M"])["bdevs"][0]["queue_depth"] == 1)
        wait_for(self.has_marks)
        self.assertEqual(engine.stop(), 1)
        self.assertIn("block device EE_M: its disk does not respond, so the engine stops without it", engine.log_text())
        self.assertFalse(self.has_marks())

    def test_a_repeated_call_succeeds_and_one_with_other_values_says_what_differs(self):
        engine = self.start()
        for _ in range(2):
            engine.rpc("pool_create", pool="p1", size=100 * MIB)
            self.assertEqual(engine.rpc("volume_create", pool="p1", volume="a", size=8 * MIB), "p1/a")
            engine.rpc("volume_resize", pool="p1", volume="a", size=8 * MIB)
        self.assertEqual(len(self.volumes(engine)), 1)
        self.assert_rejected("with a size of 104857600 bytes, not 5", engine, "pool_create", pool="p1", size=5)
        self.assert_rejected("exists with a size of 8388608 bytes, not 4096", engine, "volume_create", pool="p1", volume="a", size=4096)
        self.assert_rejected("exists with a block size of 4096 bytes, not 512", engine, "volume_create", pool="p1", volume="a",
                             size=8 * MIB, block_size=512)
        self.assert_rejected("exists and is thin", engine, "volume_create", pool="p1", volume="a", size=8 * MIB, thick=True)
        self.assert_rejected("another volume", engine, "volume_create", pool="p1", volume="a", size=8 * MIB,
                             uuid="11111111-2222-4333-8444-555555555555")

    def test_wrong_values_are_rejected_and_change_nothing(self):
        engine = self.start()
        engine.rpc("pool_create", pool="p1")
        engine.rpc("volume_create", pool="p1", volume="a", size=8 * MIB)
        for text, method, params in (("pool", "pool_create", {"pool": "../p"}), ("pool", "pool_create", {"pool": ""}),
                                     ("longer than 63", "pool_create", {"pool": "p" * 64}),
                                     ("too large", "pool_create", {"pool": "p", "size": str(2**64 - 1)}),
                                     ("no pool", "volume_create", {"pool": "p2", "volume": "a", "size": MIB}),
                                     ("volume", "volume_create", {"pool": "p1", "volume": ".b", "size": MIB}),
                                     ("positive multiple", "volume_create", {"pool": "p1", "volume": "b", "size": 0}),
                                     ("positive multiple", "volume_create", {"pool": "p1", "volume": "b", "size": 4097}),
                                     ("power of two", "volume_create", {"pool": "p1", "volume": "b", "size": MIB, "block_size": 1000}),
                                     ("no volume", "volume_destroy", {"pool": "p1", "volume": "b"}),
                                     ("smaller only with force", "volume_resize", {"pool": "p1", "volume": "a", "size": MIB}),
                                     ("not a multiple", "volume_resize", {"pool": "p1", "volume": "a", "size": 9 * MIB + 1}),
                                     ("has 1 volume", "pool_destroy", {"pool": "p1"})):
            self.assert_rejected(text, engine, method, **params)
        self.assertEqual([(name, volume["size"]) for name, volume in self.volumes(engine).items()], [("p1/a", 8 * MIB)])
        self.assertEqual(sorted(os.listdir(self.path("pools"))), ["p1"])
        self.assertEqual(os.listdir(self.path("pending")), [])

    def test_a_volume_in_use_is_not_destroyed_and_a_free_one_gives_its_space_back(self):
        engine = self.start()
        engine.rpc("pool_create", pool="p1")
        engine.serve("volume_create", "p1", "a", 16 * MIB, "--thick")
        self.assertGreaterEqual(os.stat(self.path("pools/p1/volumes/a/data.1")).st_blocks * 512, 16 * MIB)
        self.assert_rejected("in use by a namespace", engine, "volume_destroy", pool="p1", volume="a")
        self.assert_rejected("in use by a namespace", engine, "pool_destroy", pool="p1", force=True)
        engine.rpc("nvmf_subsystem_remove_ns", nqn=NQN, nsid=1)
        engine.rpc("volume_destroy", pool="p1", volume="a")
        engine.rpc("pool_destroy", pool="p1")
        wait_for(lambda: not os.listdir(self.path("trash")))
        self.assertEqual((engine.rpc("bdev_get_bdevs"), os.listdir(self.path("pools"))), ([], []))

    def test_a_volume_grows_under_load_and_its_host_gets_an_event(self):
        engine = self.start()
        engine.rpc("pool_create", pool="p1")
        engine.serve("volume_create", "p1", "a", 16 * MIB, "-b", 512)
        host = hostile.Host(engine)
        host.connect()
        host.enable()
        host.s.sendall(hostile.capsule(struct.pack("<BBH36xII16x", SET_FEATURES, 0x40, 8, ASYNC_EVENTS, NS_ATTRIBUTE_NOTICES)))
        self.assertEqual(host.response()[1], 0)
        host.s.sendall(hostile.capsule(bytes([AER, 0x40, 9, 0]) + bytes(60)))
        load = subprocess.Popen([FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", NQN, "--time", "3", "--verify", "--quiet",
                                 "--rw", "mix"], stdout=subprocess.PIPE)
        wait_for(lambda: engine.rpc("bdev_get_iostat", names=["p1/a"])["bdevs"][0]["num_write_ops"] > 100)
        engine.rpc("volume_resize", pool="p1", volume="a", size=48 * MIB)
        cqe = host.response()[0]
        self.assertEqual(cqe & 0xffffff, NS_CHANGED)
        load.communicate(timeout=60)
        self.assertEqual(load.returncode, 0)
        engine.perf("--rw", "write", "--bs", "64k", "--count", "512", "--range", "16M:32M", "--verify")
        failed = engine.perf("--rw", "write", "--bs", "64k", "--count", "1", "--range", "48M:1M", check=False)
        self.assertEqual(failed.returncode, 2, failed)
        engine.kill()
        self.assertEqual(self.volumes(self.start())["p1/a"]["size"], 48 * MIB)

    def test_a_volume_shrinks_under_load_to_the_end_of_its_data(self):
        engine = self.start()
        engine.rpc("pool_create", pool="p1")
        engine.serve("volume_create", "p1", "a", 64 * MIB)
        engine.perf("--rw", "write", "--bs", "64k", "--count", "1", "--depth", "1", "--range", "16M:1M")
        host = hostile.Host(engine)
        host.connect()
        host.enable()
        host.s.sendall(hostile.capsule(struct.pack("<BBH36xII16x", SET_FEATURES, 0x40, 8, ASYNC_EVENTS, NS_ATTRIBUTE_NOTICES)))
        self.assertEqual(host.response()[1], 0)
        host.s.sendall(hostile.capsule(bytes([AER, 0x40, 9, 0]) + bytes(60)))
        load = subprocess.Popen([FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", NQN, "--time", "3", "--verify", "--quiet",
                                 "--rw", "mix", "--range", "0:8M"], stdout=subprocess.PIPE)
        beyond = subprocess.Popen([FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", NQN, "--time", "60", "--quiet",
                                   "--rw", "read", "--range", "40M:8M"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        wait_for(lambda: engine.rpc("bdev_get_iostat", names=["p1/a"])["bdevs"][0]["num_write_ops"] > 100)
        wait_for(lambda: engine.rpc("bdev_get_iostat", names=["p1/a"])["bdevs"][0]["num_read_ops"] > 1000)
        self.assert_rejected("has data up to", engine, "volume_resize", pool="p1", volume="a", size=8 * MIB, force=True)
        self.assertEqual(engine.rpc("bdev_get_bdevs", name="p1/a")[0]["num_blocks"], 64 * MIB // 4096)
        engine.rpc("volume_resize", pool="p1", volume="a", size=32 * MIB, force=True)
        self.assertEqual(host.response()[0] & 0xffffff, NS_CHANGED)
        load.communicate(timeout=60)
        self.assertEqual(load.returncode, 0)
        beyond.send_signal(signal.SIGINT)
        self.assertIn("LBA", beyond.communicate(timeout=90)[0])    # Out of Range
        self.assertEqual(os.stat(self.path("pools/p1/volumes/a/data.1")).st_size, 32 * MIB)
        engine.perf("--rw", "write", "--count", "64", "--range", "31M:1M", "--verify")
        engine.rpc("volume_resize", pool="p1", volume="a", size=48 * MIB)
        engine.perf("--rw", "write", "--count", "64", "--range", "40M:1M", "--verify")
        engine.kill()
        self.assertEqual(self.volumes(self.start())["p1/a"]["size"], 48 * MIB)

    def test_unmap_and_write_zeroes_give_space_back(self):
        engine = self.start()
        engine.rpc("pool_create", pool="p1")
        engine.serve("volume_create", "p1", "a", 16 * MIB)
        engine.perf("--rw", "write", "--bs", "64k", "--depth", "1", "--count", "256")
        blocks, path = 16 * MIB // 4096, self.path("pools/p1/volumes/a/data.1")
        admin, io = hostile.Host(engine), hostile.Host(engine)
        controller = admin.connect()[0] & 0xffff
        admin.enable()
        self.assertEqual(io.connect(qid=1, cntlid=controller)[1], 0)

        def assert_success(sqe, data=b""):
            io.s.sendall(hostile.capsule(sqe, data))
            self.assertEqual(io.response()[1], 0)

        def allocated():
            engine.perf("--rw", "read", "--bs", "4k", "--count", "1")    # what came before has ended
            return os.stat(path).st_blocks * 512
        before = allocated()
        self.assertGreaterEqual(before, 16 * MIB)
        ranges = struct.pack("<IIQ", 0, blocks // 4, 0)
        assert_success(struct.pack("<BBHI16x", DSM, 0x40, 1, 1) + hostile.sgl_in_capsule(len(ranges)) + struct.pack("<II16x", 0, DSM_DEALLOCATE), ranges)
        self.assertLessEqual(allocated(), before - 4 * MIB)
        assert_success(struct.pack("<BBHI16x", WRITE_ZEROES, 0x40, 2, 1) + hostile.sgl_transport(0) +
                       struct.pack("<QI12x", blocks // 2, (blocks // 4 - 1) | WRITE_ZEROES_DEALLOCATE))
        self.assertLessEqual(allocated(), before - 8 * MIB)
        with open(path, "rb") as file:
            data = file.read()
        quarter = 4 * MIB
        self.assertEqual([any(data[at:at + quarter]) for at in range(0, 16 * MIB, quarter)], [False, True, False, True])

    def test_a_volume_in_use_is_destroyed_with_force(self):
        engine = self.start()
        engine.rpc("pool_create", pool="p1")
        engine.serve("volume_create", "p1", "a", 16 * MIB, "--thick")
        load = subprocess.Popen([FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", NQN, "--time", "60", "--quiet",
                                 "--rw", "mix"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        wait_for(lambda: engine.rpc("bdev_get_iostat", names=["p1/a"])["bdevs"][0]["num_write_ops"] > 100)
        host = hostile.Host(engine)
        host.connect(host=b"nqn.2026-11.org.fathom:second")
        for text in ("host nqn.2014-08.org.nvmexpress:uuid:", "host nqn.2026-11.org.fathom:second (connected from 127.0.0.1)", "or use force"):
            self.assert_rejected(text, engine, "volume_destroy", pool="p1", volume="a")
        engine.rpc("volume_destroy", pool="p1", volume="a", force=True)
        self.assertEqual(self.volumes(engine), {})
        wait_for(lambda: not engine.rpc("nvmf_get_subsystems")[-1]["namespaces"])
        wait_for(lambda: not engine.rpc("bdev_get_bdevs"))
        load.send_signal(signal.SIGINT)
        load.communicate(timeout=60)
        wait_for(lambda: engine.rpc("pool_get_pools")["storage"]["trash_objects"] == 0)
        self.assertEqual(os.listdir(self.path("trash")), [])
        engine.rpc("volume_create", pool="p1", volume="a", size=MIB)
        engine.kill()
        self.assertEqual(self.volumes(self.start())["p1/a"]["size"], MIB)

    def test_a_damaged_pool_is_listed_and_keeps_its_name(self):
        engine = self.start()
        for pool in ("p1", "p2"):
            engine.rpc("pool_create", pool=pool)
            engine.rpc("volume_create", pool=pool, volume="a", size=MIB)
        engine.stop()
        with open(self.path("pools/p1/pool.json"), "w") as file:
            file.write("{}")
        engine = self.start()
        shown = engine.rpc("pool_get_pools")
        self.assertEqual({pool["name"]: pool["state"] for pool in shown["pools"]}, {"p1": "ERRORED", "p2": "ONLINE"})
        self.assertIn("checksum", next(pool["reason"] for pool in shown["pools"] if pool["name"] == "p1"))
        self.assertEqual(shown["storage"]["damaged"], 1)
        self.assert_rejected("ERRORED", engine, "pool_create", pool="p1")
        self.assert_rejected("ERRORED", engine, "volume_create", pool="p1", volume="b", size=MIB)
        self.assert_rejected("use force", engine, "pool_destroy", pool="p1")
        engine.rpc("pool_destroy", pool="p1", force=True)
        self.assertEqual(engine.rpc("pool_get_pools")["storage"]["damaged"], 0)
        engine.rpc("pool_create", pool="p1")

    def test_a_volume_is_renamed_while_a_host_writes_to_it(self):
        engine, state = self.start(), os.path.join(self.directory, "state")
        engine.rpc("pool_create", pool="p1")
        engine.serve("volume_create", "p1", "a", 16 * MIB)
        identity = self.volumes(engine)["p1/a"]["uuid"]
        load = subprocess.Popen([FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", NQN, "--time", "3", "--verify-state", state,
                                 "--quiet", "--rw", "mix"], stdout=subprocess.PIPE)
        wait_for(lambda: engine.rpc("bdev_get_iostat", names=["p1/a"])["bdevs"][0]["num_write_ops"] > 100)
        engine.rpc("volume_rename", pool="p1", volume="a", new_name="b")
        wait_for(lambda: engine.rpc("bdev_get_iostat", names=["p1/b"])["bdevs"][0]["num_write_ops"] > 200)
        load.communicate(timeout=60)
        self.assertEqual(load.returncode, 0)
        self.assertEqual(engine.rpc("bdev_get_bdevs")[0]["driver_specific"]["volume"]["filename"], self.path("pools/p1/volumes/b/data.1"))
        engine.rpc("volume_create", pool="p1", volume="a", size=MIB)
        self.assert_rejected('has a volume "a"', engine, "volume_rename", pool="p1", volume="b", new_name="a")
        self.assert_rejected("volume name", engine, "volume_rename", pool="p1", volume="b", new_name="../a")
        engine.kill()
        engine = self.start()
        self.assertEqual(sorted(self.volumes(engine)), ["p1/a", "p1/b"])
        self.assertEqual(self.volumes(engine)["p1/b"]["uuid"], identity)
        engine.run_commands(f"nvmf_create_transport -t tcp\nnvmf_create_subsystem {NQN} -a -m 10\nnvmf_subsystem_add_ns {NQN} p1/b\n"
                            f"nvmf_subsystem_add_listener {NQN} -t tcp -a 127.0.0.1 -s {engine.port}\n")
        engine.perf("--time", "0", "--verify-state", state)

    def test_a_damaged_volume_is_listed_with_its_reason_and_the_others_are_served(self):
        engine = self.start()
        engine.rpc("pool_create", pool="p1")
        for name in ("a", "b", "c", "d", "e"):
            engine.rpc("volume_create", pool="p1", volume=name, size=8 * MIB)
        engine.stop()
        record = self.path("pools/p1/volumes/a/volume.json")
        with open(record) as file:
            text = file.read()
        with open(record, "w") as file:
            file.write(text.replace(str(8 * MIB), str(4 * MIB)))
        os.truncate(self.path("pools/p1/volumes/b/data.1"), MIB)
        with open(self.path("pools/p1/volumes/d/volume.json"), "w") as file:    # printed again it is longer than any record
            file.write('{"checksum": "0x00000000", "volume": {"x": [%s]}}' % ",".join(["1e9"] * 7000))
        os.unlink(self.path("pools/p1/volumes/e/volume.json"))
        os.mkfifo(self.path("pools/p1/volumes/e/volume.json"))
        engine = self.start()
        info = engine.rpc("pool_get_pools")["storage"]
        self.assertEqual((info["state"], info["damaged"]), ("OPEN", 4))
        self.assertEqual({name: volume["state"] for name, volume in self.volumes(engine).items()},
                         {"p1/a": "ERRORED", "p1/b": "ERRORED", "p1/c": "ONLINE", "p1/d": "ERRORED", "p1/e": "ERRORED"})
        self.assertIn("checksum", self.volumes(engine)["p1/a"]["reason"])
        self.assertIn("volume p1/b: data.1 has 1048576 bytes", engine.log_text())
        self.assert_rejected("ERRORED", engine, "volume_resize", pool="p1", volume="b", size=16 * MIB)
        engine.rpc("volume_destroy", pool="p1", volume="a")
        self.assertEqual(sorted(self.volumes(engine)), ["p1/b", "p1/c", "p1/d", "p1/e"])
        self.assertEqual(engine.rpc("pool_get_pools")["storage"]["damaged"], 3)

    def test_space_is_promised_once(self):
        engine = self.start()
        space = os.statvfs(self.storage)
        free = space.f_bavail * space.f_frsize
        # others use the file system, too: every size is a fifth of it away from what is free
        most, rest = free * 4 // 5 // MIB * MIB, free * 2 // 5 // MIB * MIB
        engine.rpc("pool_create", pool="p1")
        engine.rpc("pool_create", pool="p2", overcommit=True)
        engine.rpc("pool_create", pool="p3", size=10 * MIB)
        self.assert_rejected("promised to other volumes", engine, "volume_create", pool="p1", volume="a", size=most + rest)
        engine.rpc("volume_create", pool="p1", volume="a", size=most)    # thin: it occupies nothing yet
        for text, method, params in (("overcommit may promise", "volume_create", {"pool": "p1", "volume": "b", "size": rest}),
                                     ("promised to other volumes", "volume_create", {"pool": "p2", "volume": "b", "size": rest, "thick": True}),
                                     ("promised to other volumes", "volume_resize", {"pool": "p1", "volume": "a", "size": most + rest})):
            self.assert_rejected(text, engine, method, **params)
        engine.rpc("volume_create", pool="p2", volume="b", size=4 << 40)
        engine.rpc("volume_destroy", pool="p1", volume="a")
        engine.rpc("volume_create", pool="p3", volume="a", size=6 * MIB)
        self.assert_rejected("limited to 10485760, of which its volumes have 6291456", engine, "volume_create", pool="p3", volume="b",
                             size=6 * MIB)
        self.assert_rejected("limited to 10485760", engine, "volume_resize", pool="p3", volume="a", size=11 * MIB)
        engine.rpc("volume_resize", pool="p3", volume="a", size=10 * MIB)

    def test_two_engines_do_not_share_a_storage(self):
        self.start()
        other = self.engine("--storage", self.storage, ready=False)
        self.assertEqual(other.process.wait(60), 1)
        self.assertIn("another engine uses it", other.log_text())

    def test_an_engine_without_storage_says_how_to_get_one(self):
        engine = self.engine()
        self.assert_rejected("--storage DIR", engine, "pool_create", pool="p1")
        self.assertEqual(subprocess.run([ENGINE, "--storage", "/none"], capture_output=True, timeout=60).returncode, 2)

    def test_many_callers_change_one_storage(self):
        engine, errors = self.start(), []
        engine.rpc("pool_create", pool="p1")

        def change(caller):
            try:
                for number in range(10):
                    engine.rpc("volume_create", pool="p1", volume=f"v{caller}-{number}", size=MIB)
                    if number % 2:
                        engine.rpc("volume_destroy", pool="p1", volume=f"v{caller}-{number}")
            except (RpcError, OSError) as error:
                errors.append(error)
        threads = [threading.Thread(target=change, args=[caller]) for caller in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])
        wanted = {f"p1/v{caller}-{number}" for caller in range(8) for number in range(0, 10, 2)}
        self.assertEqual(set(self.volumes(engine)), wanted)
        engine.kill()
        self.assertEqual(set(self.volumes(self.start())), wanted)


if __name__ == "__main__":
    unittest.main()
