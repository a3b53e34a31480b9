# SPDX-License-Identifier: BSD-2-Clause
"""
The life of fathom-server and of its engines: start, ready, a second server, the end of either, restarts, adoption.
"""

import concurrent.futures
import os
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
import unittest

from server_rig import RANK_NONE, SERVER, Refused, ServerTest, is_alive, read


class ServerLife(ServerTest):
    def test_the_server_reports_ready_and_ends_on_sigterm(self):
        server = self.server(engines=0).start()
        self.assertRegex(server.log(), r"NOTICE: ready after \d+ ms: system daos_server at 127\.0\.0\.1")
        self.assertEqual(server.engines(), [])
        self.assertEqual(server.stop(), 0)
        self.assertFalse(os.path.exists(os.path.join(server.socket_dir, "fathom_server.sock")))
        above, own = (os.stat(path).st_mode & 0o777 for path in (os.path.dirname(server.socket_dir), server.socket_dir))
        self.assertEqual((above, own), (0o755, 0o750))     # all users must reach another daemon's socket in /run/fathom
        server.start()
        self.assertEqual(server.stop(), 0)

    def test_a_second_server_is_refused(self):
        server = self.server(engines=0).start()
        status = subprocess.run([SERVER, "-o", server.config_path, "--name", server.trace_name], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, timeout=20)
        self.assertEqual(status.returncode, 1)
        self.assertRegex(status.stdout, r"code = (1051|685|6) ")
        self.assertEqual(server.engines(), [])

    def test_a_start_on_a_port_in_use_names_the_process_that_listens(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            server = self.server(engines=0)
            text = read(server.config_path).replace(f"port: {server.port}", f"port: {taken.getsockname()[1]}")
            with open(server.config_path, "w") as f:
                f.write(text)
            self.assertEqual(server.start(ready=False), 1)
            first, second = [line for line in server.log().splitlines() if "code = " in line]
            name = read("/proc/self/comm").strip()
            self.assertIn(f'general: code = 53 description = "cannot listen on 127.0.0.1:{taken.getsockname()[1]}: process {os.getpid()} ({name}) '
                          'listens there"', first)
            self.assertIn('general: code = 53 resolution = "stop that process', second)

    def test_a_start_waits_for_a_port_that_a_connection_occupies(self):
        """A client's end of a connection has the port. The server reports that, and does not call it a listener."""
        server = self.server(engines=0)
        with socket.socket() as listener, socket.socket() as client:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            client.bind(("127.0.0.1", server.port))
            client.connect(listener.getsockname())
            # closed with a reset: so nothing stays in TIME_WAIT
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            said = f"cannot listen on 127.0.0.1:{server.port}: process {os.getpid()} ({read('/proc/self/comm').strip()}) has a connection from there"

            def end_soon():
                deadline = time.monotonic() + 60
                while said not in server.log() and time.monotonic() < deadline:
                    time.sleep(0.02)
                client.close()

            thread = threading.Thread(target=end_soon)
            thread.start()
            server.start()
            thread.join()
        self.assertIn(f"NOTICE: {said} to another's port", server.log())
        self.assertEqual(server.engines(), [])

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("ip") and [name for _, name in socket.if_nameindex()] == ["lo"],
                         "root, the program ip and a network of its own are needed")
    def test_a_server_listens_on_loopback_when_the_port_is_free_there(self):
        """It serves other hosts meanwhile, by another address of this host."""
        subprocess.run(["ip", "address", "add", "10.9.9.1/32", "dev", "lo"], check=True)
        self.addCleanup(subprocess.run, ["ip", "address", "del", "10.9.9.1/32", "dev", "lo"], check=True)
        server = self.server(engines=0, keys="mgmt_svc_replicas: [10.9.9.1]\n")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", server.port))
            taken.listen()
            server.start()
            self.assertIn(f"cannot listen on 127.0.0.1:{server.port}: ", server.log())
            self.assertIn(f"system daos_server at 10.9.9.1:{server.port}", server.log())
        deadline = time.monotonic() + 60
        while f"listening on 127.0.0.1:{server.port} now" not in server.log():
            self.assertLess(time.monotonic(), deadline, server.log())
            time.sleep(0.02)
        self.assertEqual(server.engines(), [])

    def test_the_state_of_an_engine_whose_port_is_in_use_has_the_reason(self):
        """The engine's own message, with address, port and reason, is in its state and in the log."""
        server = self.server()
        port = server.engine_ports[0]
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", port))
            taken.listen()
            server.start()
            server.wait(lambda engines: engines[0].state == "await_format")
            server.format()
            engine = server.wait(lambda engines: engines[0].state == "errored" and engines[0].last_end)[0]
            end = f"exit status 1: cannot listen on 127.0.0.1 port {port}: Address already in use"
            self.assertEqual(engine.last_end, end)
            self.assertIn(f"fathom-engine 0 exited: {end}; ", engine.info)
            self.assertIn(f"fathom-engine 0 exited unexpectedly: {end}", server.log())
        server.wait_joined()     # the restart policy starts it, and the port is free

    def test_the_state_of_an_engine_with_a_wrong_option_has_the_reason(self):
        server = self.server(engine_keys="  arguments: [--num-trace-entries, '5']\n").start()
        server.wait(lambda engines: engines[0].state == "await_format")
        server.format()
        engine = server.wait(lambda engines: engines[0].state == "errored" and engines[0].last_end)[0]
        self.assertIn('--num-trace-entries: "5" is not 0 and not a power of two', engine.last_end)

    def test_a_socket_of_another_process_is_not_removed(self):
        server = self.server(engines=0)
        os.makedirs(server.socket_dir)
        path = os.path.join(server.socket_dir, "fathom_server.sock")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as taken:
            taken.bind(path)
            taken.listen()
            self.assertEqual(server.start(ready=False), 1)
            self.assertIn(f'general: code = 6 description = "the socket {path} is already in use', server.log())
            self.assertTrue(os.path.exists(path))

    def test_a_folder_is_formatted_and_its_engine_joins(self):
        server = self.server().start()
        before = server.wait(lambda engines: engines[0].state == "await_format")[0]
        self.assertEqual((before.pid, before.rank), (0, RANK_NONE))
        answer = server.format()
        self.assertEqual(answer.mrets[0].mntpoint, server.mount_path(0))
        self.assertEqual((answer.mrets[0].state.status, answer.mrets[0].state.error), (0, ""))
        engine = server.wait_joined()[0]
        self.assertEqual((engine.rank, engine.adopted, engine.starts), (0, False, 1))
        self.assertEqual(engine.uri, f"nvme+tcp://127.0.0.1:{server.engine_ports[0]}")
        self.assertTrue(is_alive(engine.pid))
        member = server.wait_members("joined")[0]
        self.assertEqual((member.rank, member.uuid, member.addr, member.incarnation), (0, engine.uuid, server.address, engine.incarnation))
        self.assertEqual(os.path.getsize(os.path.join(server.mount_path(0), "data.img")), 64 << 20)
        self.assertIn("rank: 0", read(os.path.join(server.mount_path(0), "superblock")))

    def test_formatted_storage_is_not_formatted_again(self):
        server = self.server().start()
        server.format()
        server.wait_joined()
        state = server.format().mrets[0].state
        self.assertNotEqual(state.status, 0)
        self.assertIn("code = ", state.error)
        self.assertNotEqual(state.info, "")

    def test_three_engines_have_three_ranks(self):
        server = self.server(engines=3).start()
        server.format()
        self.assertEqual(sorted(engine.rank for engine in server.wait_joined()), [0, 1, 2])
        self.assertEqual([engine.rank for engine in server.engines() if engine.index == 0], [0])
        self.assertEqual(len(server.wait_members("joined")), 3)


class EngineSurvival(ServerTest):
    """Engines keep running without their server."""

    def joined_server(self, **kwargs):
        server = self.server(**kwargs).start()
        server.format()
        server.wait_joined()
        return server

    def wait_adopted(self, server, before):
        after = server.wait_joined()
        self.assertEqual([(engine.pid, engine.rank, engine.incarnation) for engine in after],
                         [(engine.pid, engine.rank, engine.incarnation) for engine in before])
        self.assertTrue(all(engine.adopted and engine.starts == 0 for engine in after), after)
        return after

    def test_engines_survive_the_orderly_end_of_their_server(self):
        server = self.joined_server(engines=2)
        before = server.engines()
        self.assertEqual(server.stop(), 0)
        self.assertTrue(all(is_alive(engine.pid) for engine in before))
        server.start()
        self.wait_adopted(server, before)

    def test_a_format_that_waits_for_an_engine_fails_when_the_server_ends(self):
        server = self.joined_server()
        pid = server.engines()[0].pid
        server.stop()
        os.kill(pid, signal.SIGSTOP)     # the next server waits for its answer
        try:
            server.start()
            server.wait(lambda engines: engines[0].state == "adopting")
            with concurrent.futures.ThreadPoolExecutor() as pool:
                asked = pool.submit(server.format)
                time.sleep(0.3)          # the call reaches the server
                server.process.send_signal(signal.SIGTERM)
                with self.assertRaises(Refused) as refused:
                    asked.result(20)
            self.assertEqual(refused.exception.fault.get("Code"), "610")
            self.assertEqual(server.process.wait(60), 0)
        finally:
            os.kill(pid, signal.SIGCONT)
            server.close_channel()

    def test_an_engine_survives_a_kill_of_its_server(self):
        server = self.joined_server()
        before = server.engines()
        for _ in range(5):
            server.kill()
            self.assertTrue(is_alive(before[0].pid))
            server.start()
            self.wait_adopted(server, before)
        self.assertEqual([member.state for member in server.members()], ["joined"])

    def test_an_engine_that_dies_without_a_server_is_started_by_the_next(self):
        server = self.joined_server()
        before = server.engines()[0]
        server.kill()
        os.kill(before.pid, signal.SIGKILL)
        server.start()
        after = server.wait_joined()[0]
        self.assertNotEqual(after.pid, before.pid)
        self.assertEqual((after.rank, after.uuid), (before.rank, before.uuid))
        deadline = time.monotonic() + 60
        while not self.died_events(server) and time.monotonic() < deadline:
            time.sleep(0.02)
        for _ in range(2):
            self.assertEqual(self.died_events(server), [(before.rank, before.incarnation)])
            server.kill()
            server.start()
            server.wait_joined()

    def died_events(self, server):
        events = server.call("/fathom.ControlSvc/SystemEvents", self.messages.fathom.SystemEventsReq()).events
        return [(event.event.rank, event.event.incarnation) for event in events if event.event.id == 2]

    def test_an_engine_that_is_killed_during_its_stop_is_not_reported_dead(self):
        server = self.joined_server()
        before = server.engines()[0]
        os.kill(before.pid, signal.SIGSTOP)
        with self.assertRaises(Refused):  # the engine hangs, so the server waits
            server.call("/ctl.CtlSvc/StopRanks", self.messages.ctl.RanksReq(), role="server", timeout=0.5)
        server.wait(lambda engines: engines[0].state == "stopping")
        server.kill()
        os.kill(before.pid, signal.SIGKILL)
        server.start()
        server.wait_joined()
        self.assertEqual(self.died_events(server), [])

    def test_an_engine_that_cannot_be_started_is_not_shown_as_joined(self):
        server = self.joined_server(engines=2)
        before = server.engines()
        server.kill()
        os.kill(before[0].pid, signal.SIGKILL)
        os.kill(before[1].pid, signal.SIGKILL)
        with open(os.path.join(server.mount_path(0), "superblock"), "w") as f:
            f.write("nothing")
        os.rename(os.path.join(server.mount_path(1), "data.img"), os.path.join(server.directory, "data.img"))
        server.start()
        deadline = time.monotonic() + 60
        while any(member.state == "joined" for member in server.members()) and time.monotonic() < deadline:
            time.sleep(0.02)
        states = {member.rank: (member.state, member.info) for member in server.members()}
        self.assertEqual(states[before[0].rank][0], "errored")
        self.assertRegex(states[before[0].rank][1], "superblock|exited")     # whichever is reported first
        self.assertIn("superblock", server.wait(lambda engines: engines[0].state == "errored")[0].info)
        self.assertIn(states[before[1].rank][0], ("awaitformat", "errored"))

    def test_a_killed_engine_is_restarted_and_its_event_arrives(self):
        server = self.joined_server(keys="engine_restart: {killed: {delay_min: 50ms, delay_max: 100ms}}\n")
        before = server.engines()[0]
        os.kill(before.pid, signal.SIGKILL)
        after = server.wait(lambda engines: engines[0].state == "joined" and engines[0].pid != before.pid)[0]
        self.assertEqual((after.rank, after.uuid, after.starts), (before.rank, before.uuid, 2))
        self.assertIn("signal 9", after.last_end)
        events = server.call("/fathom.ControlSvc/SystemEvents", self.messages.fathom.SystemEventsReq(wait_ms=5000)).events
        died = [event.event for event in events if event.event.id == 2]
        self.assertEqual([(event.rank, event.incarnation) for event in died], [(before.rank, before.incarnation)])
        self.assertEqual([event.number for event in events], list(range(1, len(events) + 1)))

    def test_a_killed_engine_stays_down_if_restarts_are_off(self):
        server = self.joined_server(keys="disable_engine_auto_restart: true\n")
        before = server.engines()[0]
        os.kill(before.pid, signal.SIGKILL)
        after = server.wait(lambda engines: engines[0].state == "errored")[0]
        self.assertEqual((after.pid, after.restart_in_ms), (0, 0))
        self.assertEqual([member.state for member in server.wait_members("errored")], ["errored"])
        self.assertRegex(server.log(), r'ERROR: engine 0: server: code = 660 description = ".*signal 9.*"\n'
                                       r'.*ERROR: engine 0: server: code = 660 resolution = "read \S+engine0.log')


if __name__ == "__main__":
    unittest.main()
