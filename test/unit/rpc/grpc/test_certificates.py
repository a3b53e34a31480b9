#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Certificates of scripts/make-certificates, valid and invalid, used with real peers (openssl, curl, grpcio)."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import peer  # noqa: E402

try:
    import grpc
except ImportError:
    grpc = None

TOP = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../.."))
MAKE = os.path.join(TOP, "scripts", "make-certificates")


def openssl(*arguments, cwd=None):
    subprocess.run(["openssl", *arguments], cwd=cwd, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Certificates(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="fathom-certificates-")
        cls.ours, cls.foreign = os.path.join(cls.folder, "ours"), os.path.join(cls.folder, "foreign")
        for folder in (cls.ours, cls.foreign):
            subprocess.run([MAKE, folder, "30"], check=True)
        cls.sign("old", "admin", "-not_before", "20200101000000Z", "-not_after", "20200201000000Z")
        cls.sign("king", "king")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @classmethod
    def sign(cls, name, common_name, *dates):
        """Sign a certificate that the script does not make."""
        at = os.path.join(cls.folder, name)
        openssl("req", "-new", "-newkey", "rsa:2048", "-nodes", "-keyout", at + ".key", "-subj", "/CN=" + common_name, "-out", at + ".csr")
        os.chmod(at + ".key", 0o600)
        if not dates:
            openssl("x509", "-req", "-CA", cls.ours + "/ca.crt", "-CAkey", cls.ours + "/ca.key", "-CAcreateserial", "-in", at + ".csr",
                    "-out", at + ".crt", "-days", "10")
            return
        with open(cls.folder + "/ca.conf", "w") as conf:
            conf.write(f"[ca]\ndefault_ca=x\n[x]\ndatabase={cls.folder}/index\nserial={cls.folder}/serial\nnew_certs_dir={cls.folder}\n"
                       "default_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n")
        open(cls.folder + "/index", "w").close()
        with open(cls.folder + "/serial", "w") as serial:
            serial.write("1000\n")
        openssl("ca", "-batch", "-config", cls.folder + "/ca.conf", "-cert", cls.ours + "/ca.crt", "-keyfile", cls.ours + "/ca.key", "-in",
                at + ".csr", "-out", at + ".crt", "-startdate", dates[1], "-enddate", dates[3], "-notext")

    def tls(self, role, version="1.3", folder=None):
        folder = folder or self.ours
        return ("tls", folder + "/ca.crt", f"{folder}/{role}.crt", f"{folder}/{role}.key", version)

    def odd(self, name):
        return ("tls", self.ours + "/ca.crt", f"{self.folder}/{name}.crt", f"{self.folder}/{name}.key", "1.3")

    def serve(self, *arguments):
        server = peer.Server(*(arguments or self.tls("server")))
        self.addCleanup(server.close)
        return server

    # ---- the files ----

    def test_only_keys_are_unreadable_for_others(self):
        """The folder belongs to root; the server's user and the administrator must be able to read their keys in it."""
        self.assertEqual(os.stat(self.ours).st_mode & 0o777, 0o755)
        for name in os.listdir(self.ours):
            mode = {"crt": 0o644, "key": 0o400}.get(name.split(".")[1])
            if mode:
                self.assertEqual(os.stat(os.path.join(self.ours, name)).st_mode & 0o777, mode, name)

    # ---- our client and our server ----

    def test_the_role_comes_from_the_certificate(self):
        server = self.serve()
        for role in ("admin", "agent", "server"):
            said = peer.call(server.address, "/test.Echo/Who", role=role, tls=self.tls(role))
            self.assertEqual(said.get("response"), f"1 {role} {role} 0.1.0", said)

    def test_a_role_calls_only_its_methods(self):
        server = self.serve()
        self.assertEqual(peer.call(server.address, "/test.Echo/Admin", tls=self.tls("admin"))["code"], "0")
        said = peer.call(server.address, "/test.Echo/Admin", role="agent", tls=self.tls("agent"))
        self.assertEqual((said["code"], said["message"]), ("7", "agent may not call /test.Echo/Admin"))

    def test_a_header_with_another_role_is_refused(self):
        said = peer.call(self.serve().address, "/test.Echo/Say", role="admin", tls=self.tls("agent"))
        self.assertEqual(said["code"], "7")
        self.assertIn('is "admin", but the certificate is for "agent"', said["message"])

    def test_without_a_header_the_role_comes_from_the_certificate(self):
        said = peer.call(self.serve().address, "/test.Echo/Who", role="none", tls=self.tls("agent"))
        self.assertEqual(said["response"], "1 agent - 0.1.0")

    def test_large_messages_are_received_over_tls(self):
        said = peer.call(self.serve().address, "/test.Echo/Big", code=1000000, tls=self.tls("admin"))
        self.assertEqual(len(said["response"]), 1000002)

    def assert_refused(self, client, wanted_here, wanted_there, server=None):
        server = server or self.serve()
        said = peer.call(server.address, "/test.Echo/Say", tls=client)
        self.assertEqual(said["code"], "14", said)
        self.assertIn(wanted_here, said["message"])
        if wanted_there:
            kind, text = server.line()
            self.assertEqual(kind, "refused")
            self.assertIn(wanted_there, text)

    def test_a_foreign_certificate_is_refused_with_the_reason(self):
        foreign = ("tls", self.ours + "/ca.crt", self.foreign + "/admin.crt", self.foreign + "/admin.key", "1.3")
        self.assert_refused(foreign, "does not know the authority", "is of another authority")

    def test_a_foreign_server_is_refused_with_the_reason(self):
        self.assert_refused(self.tls("admin", folder=self.foreign), "is of another authority", "does not know the authority")

    def test_an_expired_certificate_is_refused_with_the_reason(self):
        self.assert_refused(self.odd("old"), "has expired", "has expired")

    def test_a_certificate_without_a_role_is_refused_with_the_reason(self):
        self.assert_refused(self.odd("king"), "", 'for "king", which is no role')

    def test_a_server_without_a_servers_certificate_is_refused(self):
        self.assert_refused(self.tls("agent"), "a server needs the certificate of a server", None, self.serve(*self.tls("admin")))

    def test_plain_and_tls_peers_refuse_each_other(self):
        server = self.serve()
        self.assertEqual(peer.call(server.address, "/test.Echo/Say")["code"], "14")
        self.assertIn("insecure mode", server.line()[1])
        clear = peer.Server()
        self.addCleanup(clear.close)
        self.assertEqual(peer.call(clear.address, "/test.Echo/Say", tls=self.tls("admin"))["code"], "14")

    def test_invalid_files_are_named(self):
        def error(ca, certificate, key):
            with self.assertRaises(RuntimeError) as caught:
                peer.Server("tls", ca, certificate, key, "1.3")
            return str(caught.exception)
        ours = self.ours
        self.assertIn("none.crt: No such file", error(ours + "/none.crt", ours + "/server.crt", ours + "/server.key"))
        self.assertIn("admin.key", error(ours + "/ca.crt", ours + "/server.crt", ours + "/admin.key"))
        self.assertIn(MAKE + ": no certificate", error(ours + "/ca.crt", MAKE, ours + "/server.key"))
        open_key = self.folder + "/open.key"
        shutil.copy(ours + "/server.key", open_key)
        os.chmod(open_key, 0o644)
        self.assertIn("chmod 0600", error(ours + "/ca.crt", ours + "/server.crt", open_key))

    def test_a_reload_uses_valid_new_files_and_keeps_the_old_ones_otherwise(self):
        folder = self.folder + "/changing"
        shutil.copytree(self.ours, folder)
        server = self.serve(*self.tls("server", folder=folder))
        foreign = self.tls("admin", folder=self.foreign)
        self.assertEqual(peer.call(server.address, "/test.Echo/Say", tls=foreign)["code"], "14")
        server.line()
        os.unlink(folder + "/server.crt")
        self.assertIn("server.crt: No such file", server.ask("reload"))
        self.assertEqual(peer.call(server.address, "/test.Echo/Say", tls=self.tls("admin"))["code"], "0")
        for name in ("ca.crt", "server.crt", "server.key"):
            shutil.copy(self.foreign + "/" + name, folder + "/" + name)
        self.assertEqual(server.ask("reload"), "done")
        self.assertEqual(peer.call(server.address, "/test.Echo/Say", tls=foreign)["code"], "0")
        self.assertEqual(peer.call(server.address, "/test.Echo/Say", tls=self.tls("admin"))["code"], "14")

    @unittest.skipUnless(grpc, "python3-grpcio is missing")
    def test_a_reload_of_changed_certificates_drains_existing_connections(self):
        folder = self.folder + "/renewed"
        shutil.copytree(self.ours, folder)
        server = self.serve(*self.tls("server", folder=folder))
        with self.channel(server) as channel:
            say, hold = channel.unary_unary("/test.Echo/Say"), channel.unary_unary("/test.Echo/Hold")
            for _ in range(2):
                say(b"", timeout=30)
                self.assertEqual(server.ask("reload"), "done")          # unchanged: connections stay
            self.assertEqual(server.ask("stats").split()[2], "1")
            held = hold.future(b"", timeout=30)
            server.wait_held(1)
            for name in ("ca.crt", "server.crt", "server.key"):
                shutil.copy(self.foreign + "/" + name, folder + "/" + name)
            self.assertEqual(server.ask("reload"), "done")
            deadline = time.monotonic() + 20
            with self.assertRaises(grpc.RpcError) as refused:
                while time.monotonic() < deadline:
                    say(b"", timeout=1)
            self.assertEqual(refused.exception.code(), grpc.StatusCode.UNAVAILABLE)
            server.say("release")
            held.result()                                               # a call in progress is answered

    # ---- with openssl ----

    def s_client(self, server, *arguments, role="admin"):
        return subprocess.run(["openssl", "s_client", "-connect", server.address, "-alpn", "h2", "-CAfile", self.ours + "/ca.crt", "-cert",
                               f"{self.ours}/{role}.crt", "-key", f"{self.ours}/{role}.key", *arguments], input="", text=True,
                              errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=60).stdout

    def test_openssl_connects_only_with_tls_13(self):
        server = self.serve()
        out = self.s_client(server)
        self.assertIn("TLSv1.3", out)
        self.assertIn("ALPN protocol: h2", out)
        self.assertIn("Verify return code: 0", out)
        self.assertIn("alert protocol version", self.s_client(server, "-tls1_2"))

    def test_openssl_connects_with_tls_12_and_one_suite_if_allowed(self):
        server = self.serve(*self.tls("server", "1.2"))
        self.assertIn("Cipher is AES256-GCM-SHA384", self.s_client(server, "-tls1_2"))
        self.assertIn("handshake failure", self.s_client(server, "-tls1_2", "-cipher", "ECDHE-RSA-AES128-GCM-SHA256"))
        self.assertIn("TLSv1.3", self.s_client(server))

    def test_a_client_without_a_certificate_or_alpn_is_refused(self):
        server = self.serve()
        subprocess.run(["openssl", "s_client", "-connect", server.address, "-alpn", "h2"], input="", text=True, check=False, timeout=60,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.assertIn("shows no certificate", server.line()[1])
        subprocess.run(["openssl", "s_client", "-connect", server.address, "-cert", self.ours + "/admin.crt", "-key",
                        self.ours + "/admin.key"], input="", text=True, check=False, timeout=60, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        self.assertIn("HTTP/2", server.line()[1])

    # ---- with curl and grpcio ----

    @unittest.skipUnless(shutil.which("curl"), "curl is missing")
    def test_curl_makes_a_call(self):
        server = self.serve()
        with tempfile.NamedTemporaryFile() as body:
            body.write(b"\0\0\0\0\2\x08\x05")
            body.flush()
            out = subprocess.run(["curl", "-sS", "--http2", "-m", "30", "-D", "-", "--connect-to", f"server:443:{server.address}", "--cacert",
                                  self.ours + "/ca.crt", "--cert", self.ours + "/agent.crt", "--key", self.ours + "/agent.key", "-k",
                                  "--data-binary", "@" + body.name, "-H", "content-type: application/grpc", "https://server/test.Echo/Say"],
                                 stdout=subprocess.PIPE, check=False).stdout
        self.assertIn(b"grpc-status: 0", out)

    def channel(self, server):
        def read(name):
            with open(self.ours + "/" + name, "rb") as file:
                return file.read()
        credentials = grpc.ssl_channel_credentials(read("ca.crt"), read("admin.key"), read("admin.crt"))
        # grpcio compares the host's name with the certificate, whose name is the role
        return grpc.secure_channel(server.address, credentials, [("grpc.ssl_target_name_override", "server")])

    @unittest.skipUnless(grpc, "python3-grpcio is missing")
    def test_grpcio_makes_a_call(self):
        with self.channel(self.serve()) as channel:
            answer = channel.unary_unary("/test.Echo/Who")(b"", metadata=[("x-daos-component", "admin")], timeout=30)
        self.assertEqual(peer.read_status(answer), (1, "admin admin -"))

    # ---- the script ----

    def test_the_script_adds_missing_files_and_overwrites_none(self):
        folder = self.folder + "/again"
        shutil.copytree(self.ours, folder)
        os.unlink(folder + "/agent.crt")
        with open(folder + "/admin.crt") as file:
            admin = file.read()
        out = subprocess.run([MAKE, folder], check=True, stdout=subprocess.PIPE, text=True).stdout
        self.assertIn("admin.crt exists already", out)
        with open(folder + "/admin.crt") as file:
            self.assertEqual(file.read(), admin)
        openssl("verify", "-CAfile", self.ours + "/ca.crt", folder + "/agent.crt")
        for name in ("ca.key", "server.key", "admin.key", "agent.key"):
            self.assertEqual(os.stat(folder + "/" + name).st_mode & 0o777, 0o400)
        os.unlink(folder + "/ca.key")
        self.assertEqual(subprocess.run([MAKE, folder], check=False, stderr=subprocess.DEVNULL).returncode, 1)


if __name__ == "__main__":
    unittest.main()
