# SPDX-License-Identifier: BSD-2-Clause
"""
Engines whose superblock is damaged, missing or of another engine, that hang, or that the server cannot find. A fault says
what to do, its resolution works, and the other engines of the host keep serving.
"""

import os
import pathlib
import shutil
import signal
import unittest

from control_rig import SystemTest
from harness import run


class RecoveringTest(SystemTest):
    def superblock_path(self, instance, folder=None):
        return pathlib.Path(folder or os.path.join(self.directory, f"e{instance}"), "superblock")

    def wait_errored(self, instance, seconds=60):
        """Wait until the server gives the engine up; the reason that it reports."""
        system = self.systems[0]
        system.wait_until(lambda: system.engines()[instance]["state"] == "errored", f"engine {instance} is given up", seconds)
        return system.engines()[instance]["info"]

    def stop_rank(self, system, rank):
        system.fathom("system", "stop", "--ranks", str(rank))
        system.wait_for_states({rank: "stopped"})


class Superblocks(RecoveringTest):
    def damage_superblock(self, system, instance):
        """Damage the superblock of an engine after its stop: (its rank, the good superblock)."""
        rank = system.engines()[instance]["rank"]
        self.stop_rank(system, rank)
        path = self.superblock_path(instance)
        good = path.read_bytes()
        path.write_bytes(good.replace(b"rank: ", b"rank: 1"))
        self.assertNotEqual(system.fathom("system", "start", "--ranks", str(rank), check=False).returncode, 0)
        self.assertIn("damaged", self.wait_errored(instance))
        system.wait_until(lambda: "is damaged" in system.members()[rank]["info"], "the reason is shown for the member")
        told = [event["msg"] for event in system.json("system", "events")["events"] if event["id"] == "engine_not_started"]
        self.assertEqual(len(told), 1)
        self.assertIn("is damaged", told[0])
        return rank, good

    def test_format_with_replace_gives_an_engine_with_a_damaged_superblock_its_rank(self):
        system = self.system()
        rank, _ = self.damage_superblock(system, 2)
        pids = {instance: system.pid(instance) for instance in (0, 1)}
        members = system.members()
        # the steps of the fault's resolution; the format that would not help is refused and names --force
        refused = system.fathom("storage", "format", "--instances", "2", "--replace", check=False)
        self.assertIn("code = 153", refused.stdout + refused.stderr)
        self.assertIn("--force", refused.stderr)
        system.fathom("storage", "format", "--instances", "2", "--force", "--replace")
        system.wait_for_states("joined")
        self.assertEqual({instance: system.pid(instance) for instance in (0, 1)}, pids)
        self.assertNotEqual(system.members()[rank]["uuid"], members[rank]["uuid"])
        for other in set(members) - {rank}:
            self.assertEqual(system.members()[other]["uuid"], members[other]["uuid"])

    def test_format_without_replace_is_refused_if_the_rank_has_a_member(self):
        system = self.system(engines=2)
        rank, _ = self.damage_superblock(system, 1)
        refused = system.fathom("storage", "format", "--instances", "1", "--force", check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn(f"rank {rank} already has", refused.stderr)
        self.assertIn(f"rank {rank} already has", self.wait_errored(1))
        system.fathom("storage", "format", "--instances", "1", "--force", "--replace")
        system.wait_for_states("joined")
        self.assertEqual(system.engines()[1]["rank"], rank)

    def test_an_engine_with_a_restored_superblock_is_started_by_its_rank(self):
        for restart in (False, True):
            with self.subTest(server_restarts=restart):
                if self.systems:
                    self.tearDown()
                    self.setUp()
                system = self.system()
                rank, good = self.damage_superblock(system, 1)
                if restart:
                    system.stop()
                    system.start()
                    self.assertIn("damaged", self.wait_errored(1))
                self.superblock_path(1).write_bytes(good)
                system.fathom("system", "start", "--ranks", str(rank))
                system.wait_for_states("joined")

    def test_a_running_engine_is_not_formatted_by_force(self):
        system = self.system(engines=2)
        refused = system.fathom("storage", "format", "--instances", "0", "--force", "--replace", check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("code = 666", refused.stdout + refused.stderr)
        self.assertEqual(set(system.states().values()), {"joined"})

    def test_format_of_instances_that_do_not_exist_is_refused(self):
        system = self.system(engines=2, formatted=False)
        for instances in ("2", "0-2", "7"):
            refused = system.fathom("storage", "format", "--instances", instances, check=False)
            self.assertEqual(refused.returncode, 1, instances)
            self.assertIn("code = 651", refused.stdout + refused.stderr)
        for instances in ("a", "", "[]"):            # an empty shell variable must not mean all instances
            refused = system.fathom("storage", "format", "--instances", instances, "--force", check=False)
            self.assertEqual(refused.returncode, 2, instances)
            self.assertIn("code = 550", refused.stderr)
        self.assertEqual({engine["state"] for engine in system.engines().values()}, {"await_format"})

    def test_format_takes_only_the_engine_that_awaits_it_while_others_run(self):
        system = self.system(formatted=False)
        system.fathom("storage", "format", "--instances", "0,2")
        system.wait_for_states({0: "joined", 1: "joined"})
        pids = {instance: system.pid(instance) for instance in (0, 2)}
        done = system.fathom("storage", "format")
        self.assertNotIn("Errors", done.stdout)
        system.wait_for_states("joined")
        self.assertEqual({instance: system.pid(instance) for instance in (0, 2)}, pids)
        again = system.fathom("storage", "format", check=False)
        self.assertEqual(again.returncode, 1)
        self.assertIn("code = 666", again.stdout + again.stderr)


class ControlMetadata(RecoveringTest):
    """Superblocks in the folder of control_metadata, apart from the storage."""

    def setUp(self):
        super().setUp()
        self.meta = os.path.join(self.directory, "meta")
        os.mkdir(self.meta)

    def metadata_system(self, **kwargs):
        return self.system(text=f"control_metadata: {{path: {self.meta}}}", **kwargs)

    def uuids(self, system):
        return {rank: member["uuid"] for rank, member in system.members().items()}

    def stop_all(self, system):
        """Stop all engines, then the server."""
        system.fathom("system", "stop")
        system.wait_for_states("stopped")
        system.stop()

    def test_an_unmounted_control_metadata_folder_starts_no_new_system(self):
        system = self.metadata_system()
        before = self.uuids(system)
        self.stop_all(system)
        os.rename(self.meta, self.meta + ".away")
        os.mkdir(self.meta)
        system.start()
        for instance in range(3):
            self.assertRegex(self.wait_errored(instance), "superblock .* is missing; the storage at .* belongs to engine")
        self.assertEqual(system.pids(), {})
        system.stop()
        shutil.rmtree(self.meta)
        os.rename(self.meta + ".away", self.meta)
        system.start()
        system.fathom("system", "start")
        system.wait_for_states("joined")
        self.assertEqual(self.uuids(system), before)

    def test_storage_of_another_engine_is_not_served(self):
        system = self.metadata_system()
        before = self.uuids(system)
        self.stop_all(system)

        def swap():
            for a, b in (("e0", "e.tmp"), ("e1", "e0"), ("e.tmp", "e1")):
                os.rename(os.path.join(self.directory, a), os.path.join(self.directory, b))

        swap()
        system.start()
        for instance in (0, 1):
            self.assertRegex(self.wait_errored(instance), "superblock .* belongs to engine .*, but the storage at .* belongs to engine")
        system.wait_until(lambda: system.engines()[2]["state"] == "joined", "the third joins")
        swap()
        system.fathom("system", "start")
        system.wait_for_states("joined")
        self.assertEqual(self.uuids(system), before)


class MissingStorage(RecoveringTest):
    """Storage that is missing or not mounted is not treated as storage that was never formatted."""

    def assert_format_refused(self, system, *options):
        refused = system.fathom("storage", "format", "--instances", "1", *options, check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("code = 168", refused.stdout + refused.stderr)
        self.assertIn("--new-storage", refused.stderr)

    def assert_storage_missing(self, system, rank, what):
        system.wait_until(lambda: system.engines()[1]["state"] == "missing", "it is missing")
        self.assertIn(what, system.engines()[1]["info"])
        system.wait_for_states({rank: "errored"})
        system.wait_until(lambda: "is missing at" in system.members()[rank]["info"], "the management service says so")
        started = system.fathom("system", "start", "--ranks", str(rank), check=False)
        self.assertEqual(started.returncode, 1)
        self.assertIn("code = 168", started.stdout + started.stderr)
        self.assert_format_refused(system)
        self.assert_format_refused(system, "--force", "--replace")
        self.assertIn("storage_missing", [event["id"] for event in system.json("system", "events")["events"]])

    def test_an_engine_starts_by_itself_when_its_moved_folder_is_back(self):
        system = self.system(engines=2)
        rank, folder = system.engines()[1]["rank"], os.path.join(self.directory, "e1")
        uuid = system.members()[rank]["uuid"]
        pid = system.pid(1)
        os.rename(folder, folder + ".away")
        os.kill(pid, signal.SIGKILL)
        self.assert_storage_missing(system, rank, "there is no such folder")
        self.assertFalse(os.path.exists(folder))
        os.rename(folder + ".away", folder)
        system.wait_for_states("joined")                # no request starts it
        self.assertEqual(system.members()[rank]["uuid"], uuid)

    @unittest.skipUnless(os.geteuid() == 0, "root is needed to mount")
    def test_a_filesystem_that_is_not_mounted_is_not_formatted_on_the_disk_below(self):
        storage, folder = os.path.join(self.directory, "disk"), os.path.join(self.directory, "e1")
        system = self.system(engines=2, formatted=False, start=False)
        os.mkdir(storage)
        run("mount", "-t", "tmpfs", "-o", "size=128m", "tmpfs", storage)
        self.addCleanup(lambda: run("umount", storage, check=False))
        run("mount", "--bind", storage, folder)
        self.addCleanup(lambda: run("umount", folder, check=False))
        system.start()
        system.format()
        rank = system.engines()[1]["rank"]
        uuid = system.members()[rank]["uuid"]
        self.stop_rank(system, rank)
        system.stop()
        run("umount", folder)
        system.start()                               # this server process never saw the file system
        self.assert_storage_missing(system, rank, "nothing is mounted there")
        self.assertEqual(os.listdir(folder), [])
        run("mount", "--bind", storage, folder)
        system.fathom("system", "start", "--ranks", str(rank))
        system.wait_for_states("joined")
        self.assertEqual(system.members()[rank]["uuid"], uuid)
        self.stop_rank(system, rank)
        run("umount", folder)
        system.fathom("storage", "format", "--instances", "1", "--new-storage", "--replace")
        system.wait_for_states("joined")
        self.assertNotEqual(system.members()[rank]["uuid"], uuid)


class Hanging(RecoveringTest):
    """Engines that run and do not answer. SIGSTOP stands for anything that blocks their control thread."""

    def hanging_system(self, text=""):
        system = self.system(engines=2, text="engine_heartbeat: 200ms\n" + text)
        system.serve(1)
        perf = system.perf(1, "--time", "60")
        pid = system.pid(0)
        os.kill(pid, signal.SIGSTOP)
        self.addCleanup(perf.kill)
        return system, perf, pid

    def hung_events(self, system):
        return [event["id"] for event in system.json("system", "events")["events"]
                if event["id"] in ("engine_hung", "engine_answers", "engine_killed")]

    def wait_hung_events(self, system, wanted):
        system.wait_until(lambda: self.hung_events(system) == wanted, f"the events are {wanted}")

    def test_a_hung_engine_and_its_recovery_are_reported(self):
        system, perf, pid = self.hanging_system()
        self.wait_hung_events(system, ["engine_hung"])
        self.assertRegex(system.engines()[0]["info"], f"process {pid} has not answered since 20[0-9-]+T[0-9:]+Z")
        self.assertEqual(system.pid(0), pid)         # by default the server only reports it
        rank = system.engines()[0]["rank"]
        system.wait_for_states({rank: "unresponsive"})
        self.assertRegex(system.members()[rank]["info"], f"process {pid} has not answered since 20[0-9-]+T[0-9:]+Z")
        self.assertIn("Unresponsive", system.fathom("system", "query").stdout)
        started = system.fathom("system", "start", check=False)      # refused, as the engine may still serve
        self.assertEqual(started.returncode, 1)
        self.assertIn("has not answered since", started.stdout + started.stderr)
        self.assertEqual(system.pid(0), pid)
        os.kill(pid, signal.SIGCONT)
        self.wait_hung_events(system, ["engine_hung", "engine_answers"])
        self.assertEqual(system.engines()[0]["info"], "")
        self.assertEqual(system.pid(0), pid)
        system.wait_for_states("joined")
        self.assertEqual(system.members()[rank]["info"], "")
        self.assertIsNone(perf.poll())               # the host of the other engine has no error

    def test_a_hung_engine_is_restarted_if_the_policy_says_so(self):
        system, perf, pid = self.hanging_system("engine_restart: {hung: {restart: true, delay_min: 100ms}}\n")
        system.wait_until(lambda: system.pids().get(0, [pid]) != [pid], "another process is there")
        system.wait_until(lambda: system.engines()[0]["state"] == "joined", "it has joined")
        self.wait_hung_events(system, ["engine_hung"])
        self.assertEqual(set(system.states().values()), {"joined"})
        self.assertIsNone(perf.poll())

    def test_an_operator_stops_and_starts_a_hung_engine(self):
        system, _, pid = self.hanging_system()
        self.wait_hung_events(system, ["engine_hung"])
        rank = system.engines()[0]["rank"]
        system.fathom("system", "stop", "--ranks", str(rank))        # the resolution of the fault
        self.assertNotIn(0, system.pids())
        self.wait_hung_events(system, ["engine_hung", "engine_killed"])
        self.assertEqual(system.states()[rank], "stopped")
        system.fathom("system", "start", "--ranks", str(rank))
        system.wait_for_states("joined")
        self.assertNotEqual(system.pid(0), pid)


class HiddenEngines(RecoveringTest):
    def start_with_hidden_engines(self, change):
        """Restart the server after `change`, so that it does not find its running engines: (system, pids)."""
        system = self.system(engines=2)
        pids = {instance: system.pid(instance) for instance in (0, 1)}
        died = [event for event in system.events() if "died" in event[1]]
        system.kill()
        change(system)
        system.start()
        for instance, pid in pids.items():
            self.assertIn(f"in use by process {pid}", self.wait_errored(instance))
            self.assertNotEqual(system.fathom("storage", "format", "--instances", str(instance), "--force", check=False).returncode, 0)
        self.assertNotEqual(system.fathom("system", "erase", "--force", check=False).returncode, 0)
        for instance in pids:
            self.assertIn("in use by process", self.wait_errored(instance))
            self.assertTrue(os.path.exists(os.path.join(self.directory, f"e{instance}", "data.img")))
        os.kill(pids[0], 0)
        os.kill(pids[1], 0)
        self.assertEqual([event for event in system.events() if "died" in event[1]], died)
        return system, pids

    def test_a_changed_socket_dir_starts_no_second_engine(self):
        def move(system):
            config = pathlib.Path(system.config)
            config.write_text(config.read_text().replace(f"socket_dir: {system.run_dir}", f"socket_dir: {system.run_dir}2"))
            os.mkdir(system.run_dir + "2")

        def back(system):
            config = pathlib.Path(system.config)
            config.write_text(config.read_text().replace(f"socket_dir: {system.run_dir}2", f"socket_dir: {system.run_dir}"))

        system, pids = self.start_with_hidden_engines(move)
        system.stop()
        back(system)
        system.start()
        system.wait_for_states("joined")
        self.assertEqual({instance: system.pid(instance) for instance in (0, 1)}, pids)

    def test_an_engine_removed_from_the_configuration_is_reported_once_and_adopted_when_it_is_back(self):
        system = self.system(engines=2)
        pid = system.pid(1)
        system.stop()
        config = pathlib.Path(system.config)
        whole = config.read_text()
        config.write_text(whole[:whole.rindex("- fabric_iface:")])
        system.start()
        system.wait_until(lambda: "code = 652" in system.log_text(), "the server reports it")
        system.fathom("server", "query")
        self.assertEqual(system.log_text().count(f"process {pid} reports as fathom-engine 1"), 1)
        system.stop()
        config.write_text(whole)
        system.start()
        system.wait_for_states("joined")
        self.assertEqual(system.pid(1), pid)

    def test_engines_whose_sockets_were_removed_start_again_once_killed(self):
        def remove(system):
            shutil.rmtree(system.run_dir)
            os.mkdir(system.run_dir)

        system, pids = self.start_with_hidden_engines(remove)
        for pid in pids.values():
            os.kill(pid, signal.SIGKILL)
        # a killed engine may hold its storage for a moment
        system.wait_until(lambda: system.fathom("system", "start", check=False).returncode == 0, "the engines can be started")
        system.wait_for_states("joined")


if __name__ == "__main__":
    unittest.main()
