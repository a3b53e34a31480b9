#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""gRPC with foreign peers: Debian's grpcio as client and as server, curl and nghttp, and plain bytes."""

import concurrent.futures
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import peer  # noqa: E402

try:
    import grpc
except ImportError:
    grpc = None

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\0\0\0\4\0\0\0\0\0"


@unittest.skipUnless(grpc, "python3-grpcio is missing")
class GrpcioCallsUs(unittest.TestCase):
    def setUp(self):
        self.server = peer.Server()
        self.channel = grpc.insecure_channel(self.server.address)
        self.addCleanup(self.server.close)
        self.addCleanup(self.channel.close)

    def stub(self, name):
        return self.channel.unary_unary("/test.Echo/" + name)

    def fails(self, code, name, request, **more):
        with self.assertRaises(grpc.RpcError) as caught:
            self.stub(name)(request, **more)
        self.assertEqual(caught.exception.code(), code)
        return caught.exception

    def test_a_call_is_answered(self):
        self.assertEqual(self.stub("Say")(peer.status(7, "héllo")), peer.status(7, "héllo"))
        self.assertEqual(self.stub("Say")(b""), b"")

    def test_metadata_and_deadline_are_received(self):
        answer = self.stub("Who")(b"", timeout=50, metadata=[("x-daos-component", "admin"), ("x-daos-version", "2.9.100")])
        self.assertEqual(peer.read_status(answer), (1, "admin admin 2.9.100"))
        self.assertEqual(peer.read_status(self.stub("Who")(b"")), (0, "a caller without a role - -"))

    def test_errors_have_details(self):
        error = self.fails(grpc.StatusCode.NOT_FOUND, "Fail", peer.status(5, "100 % of pool „x“\nis gone"))
        self.assertEqual(error.details(), "100 % of pool „x“\nis gone")
        details = dict(error.trailing_metadata())["grpc-status-details-bin"]
        self.assertIn(b"type.googleapis.com/google.rpc.ErrorInfo", details)
        self.assertIn(b"proto.fault.Fault", details)

    def test_an_unknown_method_is_unimplemented(self):
        self.fails(grpc.StatusCode.UNIMPLEMENTED, "Nothing", b"")

    def test_an_invalid_request_is_refused(self):
        self.fails(grpc.StatusCode.INVALID_ARGUMENT, "Say", b"\xff\xff")

    def test_a_call_ends_at_its_deadline(self):
        self.fails(grpc.StatusCode.DEADLINE_EXCEEDED, "Hold", b"", timeout=0.2)

    def test_messages_over_the_limit_are_refused(self):
        text = "x" * ((1 << 20) - 8)
        self.assertEqual(self.stub("Say")(peer.status(0, text)), peer.status(0, text))
        self.fails(grpc.StatusCode.RESOURCE_EXHAUSTED, "Say", peer.status(0, text + "xxxxxxxxxx"))
        self.assertEqual(self.stub("Say")(b""), b"")

    def test_compression_is_refused_as_unimplemented(self):
        self.fails(grpc.StatusCode.UNIMPLEMENTED, "Say", peer.status(1, "x" * 2000), compression=grpc.Compression.Gzip)

    def test_the_role_comes_from_the_header(self):
        self.assertEqual(self.stub("Admin")(b"", metadata=[("x-daos-component", "admin")]), b"")
        error = self.fails(grpc.StatusCode.PERMISSION_DENIED, "Admin", b"", metadata=[("x-daos-component", "agent")])
        self.assertIn("agent may not call /test.Echo/Admin", error.details())
        self.fails(grpc.StatusCode.PERMISSION_DENIED, "Admin", b"")
        self.fails(grpc.StatusCode.PERMISSION_DENIED, "Say", b"", metadata=[("x-daos-component", "king")])

    def test_many_concurrent_calls_are_answered(self):
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            answers = list(pool.map(lambda i: self.stub("Say")(peer.status(i, "n")), range(1, 400)))
        self.assertEqual(answers, [peer.status(i, "n") for i in range(1, 400)])

    def test_cancelled_calls_are_dropped(self):
        futures = [self.stub("Hold").future(b"") for _ in range(10)]
        self.server.wait_held(10)
        for future in futures:
            future.cancel()
        self.assertEqual(self.stub("Say")(b""), b"")
        self.server.say("release")
        self.server.wait_held(0)

    def test_a_draining_server_completes_its_calls(self):
        future = self.stub("Hold").future(b"")
        self.server.wait_held(1)
        self.server.say("drain")
        self.server.say("release")
        self.assertEqual(peer.read_status(future.result(60)), (0, "released"))
        self.assertEqual(self.server.line(), ("drained", "0"))


class OtherServer:
    """grpcio's server with methods for tests of our client."""

    def __init__(self):
        def unary(fn):
            return grpc.unary_unary_rpc_method_handler(fn)

        def fail(request, context):
            code, text = peer.read_status(request)
            context.abort([c for c in grpc.StatusCode if c.value[0] == code][0], text)

        def who(_request, context):
            metadata = dict(context.invocation_metadata())
            return peer.status(int(context.time_remaining()), metadata["x-daos-component"] + " " + metadata["x-daos-version"])
        held = threading.Event()
        handlers = {"Say": unary(lambda request, _: request), "Fail": unary(fail), "Who": unary(who),
                    "Hold": unary(lambda *_: held.wait(5) or b""), "Wrong": unary(lambda *_: b"\xff"),
                    "Big": unary(lambda *_: peer.status(0, "x" * (5 << 20)))}
        self.held = held
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Echo", handlers),))
        self.address = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()

    def close(self):
        self.held.set()
        self.server.stop(None).wait()


@unittest.skipUnless(grpc, "python3-grpcio is missing")
class WeCallGrpcio(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = OtherServer()

    @classmethod
    def tearDownClass(cls):
        cls.server.close()

    def call(self, name, *arguments, **more):
        return peer.call(self.server.address, "/test.Echo/" + name, *arguments, **more)

    def test_a_call_is_answered(self):
        self.assertEqual(self.call("Say", 12, "hällo")["response"], "12 hällo")

    def test_headers_and_deadline_are_sent(self):
        left, component, version = self.call("Who", timeout_ms=50000)["response"].split()
        self.assertEqual((component, version), ("admin", "0.1.0"))
        self.assertTrue(0 < int(left) <= 50)

    def test_errors_are_received(self):
        said = self.call("Fail", 9, "100 % „nothing“")
        self.assertEqual((said["code"], said["error"], said["message"]), ("9", "0", "100 % „nothing“"))
        self.assertEqual(self.call("Nothing")["code"], "12")

    def test_a_call_ends_at_the_clients_deadline(self):
        self.assertEqual(self.call("Hold", timeout_ms=200)["code"], "4")

    def test_invalid_and_oversized_responses_are_errors(self):
        self.assertEqual(self.call("Wrong")["code"], "13")
        self.assertEqual(self.call("Big")["code"], "8")


class PlainPeers(unittest.TestCase):
    def setUp(self):
        self.server = peer.Server()
        self.addCleanup(self.server.close)

    def curl(self, *arguments, path="/test.Echo/Say"):
        with tempfile.NamedTemporaryFile() as body:
            body.write(b"\0\0\0\0\2\x08\x05")
            body.flush()
            done = subprocess.run(["curl", "-sS", "--http2-prior-knowledge", "-m", "30", "-D", "-", "--data-binary", "@" + body.name,
                                   "-H", "content-type: application/grpc", "-H", "te: trailers", *arguments,
                                   f"http://{self.server.address}{path}"], stdout=subprocess.PIPE, check=False)
        return done.stdout

    @unittest.skipUnless(shutil.which("curl"), "curl is missing")
    def test_curl_gets_statuses(self):
        out = self.curl()
        self.assertIn(b"HTTP/2 200", out)
        self.assertIn(b"\0\0\0\0\2\x08\x05", out)
        self.assertIn(b"grpc-status: 0", out)
        self.assertIn(b"grpc-status: 12", self.curl(path="/no.Such/Method"))
        self.assertIn(b"HTTP/2 415", self.curl("-H", "content-type: text/plain"))
        self.assertIn(b"HTTP/2 405", self.curl("-X", "PUT"))
        self.assertIn(b"grpc-status: 12", self.curl("-H", "grpc-encoding: gzip"))
        self.assertIn(b"grpc-status: 3", self.curl("-H", "grpc-timeout: soon"))

    @unittest.skipUnless(shutil.which("nghttp"), "nghttp is missing")
    def test_nghttp_reads_our_frames(self):
        with tempfile.NamedTemporaryFile() as body:
            body.write(b"\0\0\0\0\0")
            body.flush()
            out = subprocess.run(["nghttp", "-v", "-t", "30", "-d", body.name, "-H:method: POST", "-H", "content-type: application/grpc",
                                  f"http://{self.server.address}/test.Echo/Say"], stdout=subprocess.PIPE, text=True, check=False).stdout
        self.assertIn("grpc-status: 0", out)
        self.assertNotIn("RST_STREAM", out)

    def raw(self):
        s = socket.create_connection(("127.0.0.1", self.server.port), 30)
        self.addCleanup(s.close)
        return s

    def ends(self, s):
        """Assert that the connection ends, after any data."""
        try:
            while s.recv(65536):
                pass
        except ConnectionResetError:
            pass

    def test_a_client_without_http2_is_refused(self):
        s = self.raw()
        s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        self.ends(s)
        self.assertEqual(self.server.line()[0], "refused")

    def test_a_silent_connection_is_closed(self):
        self.ends(self.raw())
        self.assertIn("in time", self.server.line()[1])

    def test_pings_are_answered_also_byte_by_byte(self):
        s = self.raw()
        for byte in PREFACE + SETTINGS + b"\0\0\x08\6\0\0\0\0\0" + b"pingpong":
            s.sendall(bytes([byte]))
        got = b""
        while b"pingpong" not in got:
            got += s.recv(65536)
        self.assertIn(b"\0\0\x08\6\1\0\0\0\0pingpong", got)

    def test_a_frame_over_the_limit_ends_the_connection(self):
        s = self.raw()
        s.sendall(PREFACE + SETTINGS + struct.pack(">I", 1 << 22)[1:] + b"\0\0\0\0\0\1" + b"x" * 100)
        self.ends(s)

    def test_broken_connections_are_freed(self):
        for n in range(1, 60):
            s = socket.create_connection(("127.0.0.1", self.server.port), 30)
            s.sendall((PREFACE + SETTINGS + b"\0\0\x08\6\0\0\0\0\0" + b"pingpong")[:n])
            s.close()
        while not self.server.ask("stats").startswith("0 0 "):
            pass


if __name__ == "__main__":
    unittest.main()
