# SPDX-License-Identifier: BSD-2-Clause
"""`fathom trace enable|disable|groups|clear` through the control socket of a running program; groups also from a trace file."""

import json
import os
import socket
import threading
import unittest

from harness import FATHOM, EngineTest, run


class Controlling(EngineTest):
    def trace_by_socket(self, engine, *words, **kwargs):
        return run(FATHOM, "trace", *words, "--socket", engine.sock, **kwargs)

    def recorded_names(self, engine):
        lines = engine.trace("--json", "-f", engine.trace_path).stdout.splitlines()
        return {row["name"].upper() for row in map(json.loads, lines) if "name" in row and "tick" in row}

    def groups(self, engine, *words):
        return {(row["group"], row["point"]): row["enabled"]
                for row in map(json.loads, self.trace_by_socket(engine, "groups", "--json", *words).stdout.splitlines())}

    def names_under_load(self, engine):
        """Clear the trace, run a load; the names of the recorded events."""
        self.trace_by_socket(engine, "clear")
        engine.perf("--rw", "randread", "--bs", "4k", "--count", "50")
        return self.recorded_names(engine)

    def serving(self, *options):
        engine = self.engine(*options)
        engine.serve("bdev_malloc_create", "-b", "Disk0", 64, 512)
        return engine

    def test_a_group_is_enabled_and_disabled(self):
        engine = self.serving("-e", "none")
        self.assertFalse(any(self.groups(engine).values()))
        self.assertEqual(self.names_under_load(engine), set())
        self.trace_by_socket(engine, "enable", "bdev")
        self.assertTrue(all(self.groups(engine, "bdev").values()))
        names = self.names_under_load(engine)
        self.assertIn("BDEV_IO_DONE", names)
        self.assertTrue(all(name.startswith("BDEV") for name in names), names)
        self.trace_by_socket(engine, "disable", "BDEV")
        self.assertEqual(self.names_under_load(engine), set())

    def test_points_are_enabled_and_disabled_by_name_and_by_mask(self):
        engine = self.serving("-e", "none")
        self.trace_by_socket(engine, "enable", "bdev:bdev_io_done+BDEV_IO_SUBMIT", "nvmf_tcp:tcp_receive")
        self.assertEqual(self.names_under_load(engine), {"BDEV_IO_DONE", "BDEV_IO_SUBMIT", "TCP_RECEIVE"})
        self.trace_by_socket(engine, "disable", "bdev:BDEV_IO_SUBMIT")
        self.assertEqual(self.names_under_load(engine), {"BDEV_IO_DONE", "TCP_RECEIVE"})
        first = next(iter(self.groups(engine, "nvmf")))
        self.trace_by_socket(engine, "enable", "nvmf:0x1")
        self.assertEqual([key for key, on in self.groups(engine, "nvmf").items() if on], [first])
        self.trace_by_socket(engine, "disable", "all")
        self.assertFalse(any(self.groups(engine).values()))

    def test_groups_of_the_file_equal_those_of_the_program(self):
        engine = self.engine("-e", "bdev:BDEV_IO_DONE,rpc")
        by_socket = self.groups(engine)
        from_file = {(row["group"], row["point"]): row["enabled"] for row in
                map(json.loads, run(FATHOM, "trace", "groups", "--json", "-f", engine.trace_path).stdout.splitlines())}
        self.assertEqual(by_socket, from_file)
        self.assertTrue(by_socket["bdev", "BDEV_IO_DONE"])
        self.assertFalse(by_socket["bdev", "BDEV_IO_SUBMIT"])
        table = self.trace_by_socket(engine, "groups", "bdev").stdout.splitlines()
        self.assertEqual(table[0].split(), ["GROUP", "POINT", "ON"])
        self.assertIn(["bdev", "BDEV_IO_DONE", "on"], [line.split() for line in table])
        self.assertIn(["bdev", "BDEV_IO_SUBMIT", "off"], [line.split() for line in table])
        self.assertEqual({line.split()[0] for line in table[1:]}, {"bdev"})

    def test_an_unknown_group_or_point_changes_nothing(self):
        engine = self.engine("-e", "none")
        for words, complaint in ((("enable", "bdev", "bdve"), "no trace group \"bdve\""),
                                 (("enable", "bdev:BDEV_IO_DONE+NOPE"), "no point \"NOPE\""),
                                 (("enable",), "a group is missing"),
                                 (("groups", "nope"), "no trace group \"nope\""),
                                 (("clear", "bdev"), "takes no")):
            done = self.trace_by_socket(engine, *words, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn(complaint, done.stderr)
        self.assertIn("nvmf_tcp", self.trace_by_socket(engine, "enable", "bdve", check=False).stderr)
        self.assertFalse(any(self.groups(engine).values()))
        done = run(FATHOM, "trace", "groups", "-S", os.path.join(self.directory, "nobody"), check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("nobody", done.stderr)

    def test_an_spdk_target_is_controlled_by_spdks_own_methods(self):
        """The server here has SPDK's trace methods alone and answers with SPDK's fields."""
        path = os.path.join(self.directory, "spdk.sock")
        calls = []
        answers = {"trace_get_tpoint_group_mask": {
            "tpoint_group_mask": "0x8",
            "bdev": {"enabled": True, "mask": "0x8", "tpoint_mask": "0x1", "tpoints": [
                {"name": "BDEV_IO_START", "tpoint_id": 0, "enabled": True},
                {"name": "BDEV_IO_DONE", "tpoint_id": 1, "enabled": False}]},
            "sock": {"enabled": False, "mask": "0x8000", "tpoint_mask": "0x0", "tpoints": [
                {"name": "SOCK_LAST", "tpoint_id": 63, "enabled": False}]}}}

        def serve(listener):
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    buffer = b""
                    while piece := connection.recv(65536):
                        buffer += piece
                        try:
                            request = json.loads(buffer)
                        except ValueError:
                            continue
                        buffer = b""
                        calls.append((request["method"], request.get("params")))
                        result = answers.get(request["method"], True)
                        connection.sendall(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode() + b"\n")

        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            thread = threading.Thread(target=serve, args=(listener,), daemon=True)
            thread.start()
            run(FATHOM, "trace", "enable", "bdev", "sock:sock_last", "-S", path)
            run(FATHOM, "trace", "-S", path, "disable", "bdev:BDEV_IO_START+bdev_io_done")
            run(FATHOM, "trace", "clear", "-S", path)
            table = run(FATHOM, "trace", "groups", "-S", path).stdout
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)
        self.assertEqual([call for call in calls if call[0] != "trace_get_tpoint_group_mask"],
                         [("trace_enable_tpoint_group", {"name": "bdev"}),
                          ("trace_set_tpoint_mask", {"name": "sock", "tpoint_mask": 1 << 63}),
                          ("trace_clear_tpoint_mask", {"name": "bdev", "tpoint_mask": 3}),
                          ("trace_clear", None)])
        self.assertRegex(table, r"bdev +BDEV_IO_START +on\nbdev +BDEV_IO_DONE +off\nsock +SOCK_LAST +off\n")


if __name__ == "__main__":
    unittest.main()
