# SPDX-License-Identifier: BSD-2-Clause
"""What fathom-probed keeps over a restart, a kill, and the end or the stall of its parsers; its limits and users."""

import glob
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import unittest

from harness import FATHOM, run
from registry_rig import ADD, PROBED, Connection, HELLO, OBJECT_PROBES, RegistryTest, read, wait_for

WAIT = 60


def parser_pids(probed):
    """The daemon's children; each parses objects in a jail."""
    text = run("ps", "-o", "pid=", "--ppid", probed.pid, check=False).stdout
    return [int(word) for word in text.split()]


class Daemon(RegistryTest):
    def test_registrations_of_living_processes_survive_a_restart(self):
        probed = self.probed()
        client, other = self.client(probed), self.client(probed)
        self.assertEqual(probed.stop(), 0)
        other.process.kill()
        other.process.wait()
        again = self.probed()
        rows = again.rows()
        self.assertEqual({(row["pid"], row["found"]) for row in rows}, {(client.pid, "a daemon before this one")})
        self.assertIn("1 registrations kept, 0 of them parsed again, 1 removed", again.text())
        self.check_tree(again.tree, [client.pid])
        client.process.kill()
        client.process.wait()
        wait_for(lambda: self.tree_is_empty(again))
        self.check_tree(again.tree)

    def test_a_restart_parses_again_only_for_another_record_version(self):
        probed = self.probed()
        client = self.client(probed)
        for version, times in (("3", 0), ("1", 1), ("1", 0), ("2", 1)):
            probed.stop()
            probed = self.probed("--record-version", version)
            self.assertEqual(probed.status()["jail"]["parsed"], times, f"version {version}")
            self.check_tree(probed.tree, [client.pid])
        self.assertEqual(len(probed.rows()), OBJECT_PROBES)

    def test_the_tree_is_consistent_after_each_kill_during_registrations(self):
        probed = self.probed()
        steady = self.client(probed)
        for round_ in range(12):
            clients = [self.client(probed, "threads", 2, 20, ready=False) for _ in range(4)]
            time.sleep(0.01 * round_)
            probed.kill()
            for client in clients:
                client.process.kill()
                client.process.wait()
            probed = self.probed()
            self.check_tree(probed.tree, [steady.pid])
            self.assertEqual([row["pid"] for row in probed.rows()], [steady.pid] * OBJECT_PROBES)

    def test_a_refresh_registers_with_a_daemon_that_starts_later(self):
        probed = self.probed()
        probed.stop()
        client = self.client(probed, "refresh")
        client.send_line()
        self.assertEqual(client.process.stdout.readline(), "0\n")
        again = self.probed()
        client.send_line()
        self.assertEqual(client.process.stdout.readline(), "1\n")
        self.assertEqual(again.providers(client.pid), ["client"])
        client.send_line()
        self.assertEqual(client.process.stdout.readline(), "0\n")
        again.stop()
        last = self.probed()
        client.send_line()
        self.assertEqual(client.process.stdout.readline(), "1\n")
        self.assertEqual({row["count"] for row in last.rows(str(client.pid))}, {1})

    def test_a_stalled_parser_delays_no_other_process(self):
        """The process whose object a stopped parser has gets an error within the time-out."""
        probed = self.probed("--parse-timeout", "1s", "--children", "2")
        self.client(probed)
        stopped = parser_pids(probed)
        self.assertTrue(stopped)
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        started = time.monotonic()
        clients = [self.client(probed) for _ in range(8)]
        self.assertLess(time.monotonic() - started, WAIT)
        status = probed.status()
        self.assertGreaterEqual(status["jail"]["timed_out"], 1)
        self.assertGreaterEqual(len({row["pid"] for row in probed.rows()}), 8)
        self.assertTrue(clients)

    def test_programs_start_while_the_daemon_is_stopped(self):
        """A program waits for two seconds. The daemon reads its request after it continues."""
        probed = self.probed()
        os.kill(probed.pid, signal.SIGSTOP)
        client = self.client(probed)
        os.kill(probed.pid, signal.SIGCONT)
        if tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 5):   # older kernels cannot tell a process from a later one
            wait_for(lambda: probed.providers(client.pid) == ["client"])
        self.assertEqual(client.close_and_wait(), 0)
        wait_for(lambda: self.tree_is_empty(probed))

    def test_a_parser_that_dies_is_replaced(self):
        probed = self.probed()
        for _ in range(5):
            for pid in parser_pids(probed):
                os.kill(pid, signal.SIGKILL)
            self.client(probed)
        self.assertGreaterEqual(len({row["pid"] for row in probed.rows()}), 4)

    def test_memory_and_descriptors_stay_flat(self):
        """A leak of 800 bytes per registration makes this test fail."""
        probed = self.probed()
        self.client(probed, "threads", 4, 250)

        def resident():
            return int(re.search(r"RssAnon:\s+(\d+)", read(f"/proc/{probed.pid}/status"))[1])

        before, descriptors = resident(), probed.descriptor_count()
        self.client(probed, "threads", 8, 500)
        self.assertLessEqual(probed.descriptor_count(), descriptors + 10)    # one more process, and perhaps more parsers
        self.assertLess(resident() - before, 1024)

    def test_a_second_daemon_on_the_same_socket_and_tree_is_refused(self):
        probed = self.probed()
        second = self.probed(ready=False)
        self.assertEqual(second.process.wait(60), 1)
        self.assertIn("another", second.text())
        self.assertEqual(probed.status()["clients"], 1)

    def test_the_daemon_uses_systemds_socket_and_notifies_ready_and_stopping(self):
        path, told = os.path.join(self.directory, "given.sock"), os.path.join(self.directory, "notify")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as given, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            given.bind(path)
            given.listen(16)
            notify.bind(told)
            notify.settimeout(WAIT)
            script = 'exec 3<&"$1"; shift; LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"'
            os.set_inheritable(given.fileno(), True)
            daemon = subprocess.Popen(["bash", "-c", script, "bash", str(given.fileno()), PROBED, "--no-cuse", "--state-dir",
                                       os.path.join(self.directory, "tree"), "--name", f"given{os.getpid()}"], close_fds=False,
                                      env=dict(os.environ, NOTIFY_SOCKET=told), stderr=subprocess.DEVNULL)
            self.addCleanup(lambda: [os.unlink(path) for path in glob.glob(f"/dev/shm/given{os.getpid()}_trace.pid*")])
            self.addCleanup(daemon.wait)
            self.addCleanup(daemon.kill)
            self.assertEqual(notify.recv(100), b"READY=1")
            with Connection(path) as one:
                self.assertEqual(one.ask(HELLO)[0:2], (0, daemon.pid))
            daemon.terminate()
            self.assertEqual(notify.recv(100), b"STOPPING=1")
            self.assertEqual(daemon.wait(60), 0)
            self.assertTrue(os.path.exists(path), "the daemon must not remove systemd's socket")

    def test_a_daemon_of_an_ordinary_user_serves_only_processes_of_that_user(self):
        if os.geteuid() != 0 or not shutil.which("setpriv"):
            self.skipTest("root and setpriv are needed to run as another user")
        os.chown(self.directory, 65534, 65534)
        unprivileged = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
        probed = self.probed(prefix=unprivileged)
        self.assertIn("not root: serving only processes of user 65534", probed.text())
        mine, roots = self.client(probed, prefix=unprivileged), self.client(probed)
        self.assertEqual({row["pid"] for row in probed.rows()}, {mine.pid})
        maps = read("/proc/self/maps")
        with probed.connect() as one:
            error, _, text = one.ask(ADD, data=b"\x7fDOF" + bytes(96), address=int(maps.split("-")[0], 16))
        self.assertEqual(error, -13)
        self.assertIn("it serves only processes of its own user", text)
        self.assertTrue(roots)

    def test_the_trace_records_each_step_of_a_registration(self):
        probed = self.probed()
        client = self.client(probed)
        client.process.kill()
        client.process.wait()
        wait_for(lambda: self.tree_is_empty(probed))
        probed.stop()
        rows = [json.loads(line) for line in run(FATHOM, "trace", "show", "--json", "-f", probed.trace_path).stdout.splitlines()]
        names = [row.get("point", row.get("name", "")) for row in rows]
        for point in ("registration_received", "registration_stored", "probed_process_known", "probed_process_dead",
                      "probed_client_connected", "probed_client_left", "probed_restart"):
            self.assertIn(point, [name.lower() for name in names])


if __name__ == "__main__":
    unittest.main()
