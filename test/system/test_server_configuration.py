# SPDX-License-Identifier: BSD-2-Clause
"""
fathom-server's configuration and its certificates: checked, generated, and exchanged while it runs.
"""

import json
import os
import re
import signal
import time
import unittest

from harness import FATHOM, TOP, run
from server_rig import SERVER, Refused, ServerTest, read


class Configuring(ServerTest):
    def check(self, text, *options):
        path = os.path.join(self.directory, "c.yml")
        with open(path, "w") as f:
            f.write(text)
        return run(SERVER, *options, path, check=False)

    def test_a_wrong_key_is_reported_with_file_and_line(self):
        done = self.check("name: x\nprot: 1\n", "config", "check")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r'^fathom-server: config: code = 753 description = ".*c\.yml:2: .*prot.*"\n'
                                      r'fathom-server: config: code = 753 resolution = "use .*port.*"\n$')
        self.assertEqual(self.check("name: x\nprot: 1\n", "start", "-o").stderr, done.stderr)

    def test_a_start_with_unusable_paths_is_refused(self):
        for keys, said in (("control_log_file: /none/there/log\n", "code = 768 "), ("control_metadata: {path: /none/there}\n", "code = 769 ")):
            server = self.server(engines=0, keys=keys)
            self.assertEqual(server.start(ready=False), 1)
            self.assertIn(said, server.log())

    def test_check_reports_a_right_configuration_and_its_missing_certificates(self):
        said = self.check("name: x\ntransport_config: {cert: /none/there.crt}\n", "config", "check").stdout
        self.assertIn("is valid: system x at 127.0.0.1:10001", said)
        self.assertIn("\nmissing, and the server does not start without it: /none/there.crt\n", said)
        self.assertNotIn("missing", self.check("name: x\ntransport_config: {allow_insecure: true}\n", "config", "check").stdout)

    def test_a_file_without_keys_is_refused(self):
        for text in ("", "# nothing\n", "---\n...\n"):
            done = self.check(text, "config", "check")
            self.assertEqual((done.returncode, done.stdout), (1, ""), text)
            self.assertRegex(done.stderr, r'config: code = 770 description = "the configuration \S+c\.yml has no keys"')
            self.assertEqual(self.check(text, "start", "-o").stderr, done.stderr)

    def test_an_engine_with_the_port_of_the_server_is_refused(self):
        text = "port: 4420\ntransport_config: {allow_insecure: true}\nengines:\n- storage: [{class: file, scm_mount: /tmp/e0}]\n"
        done = self.check(text + "  fabric_iface_port: 4420\n", "config", "check")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r'code = 757 description = "\S+c\.yml:5: port and engines\[0\]\.fabric_iface_port are both \\"4420\\""')
        self.assertEqual(self.check(text, "start", "-o").returncode, 1)     # the default port of an engine is 4420 too
        self.assertEqual(self.check(text + "  fabric_iface_port: 4421\n", "config", "check").returncode, 0)

    def certificates(self, days=None):
        folder = os.path.join(self.directory, f"certs{days}")
        run(os.path.join(TOP, "test", "make-certificates"), folder, *([str(days)] if days else []))
        return folder, (f"name: x\ntransport_config: {{ca_cert: {folder}/ca.crt, cert: {folder}/server.crt, key: {folder}/server.key}}\n"
                        f"state_dir: {self.directory}/state\nsocket_dir: {self.directory}/run\n")

    def expire(self, folder, name, first, last):
        """Sign the certificate of `name` again, valid from `first` to `last`."""
        run("openssl", "req", "-new", "-key", f"{folder}/{name}.key", "-subj", f"/CN={name}", "-out", f"{folder}/request")
        with open(f"{folder}/authority", "w") as file:
            file.write(f"[ca]\ndefault_ca=a\n[a]\ndatabase={folder}/index\nnew_certs_dir={folder}\nserial={folder}/number\n"
                       "default_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n")
        open(f"{folder}/index", "w").close()
        run("openssl", "ca", "-batch", "-config", f"{folder}/authority", "-cert", f"{folder}/ca.crt", "-keyfile", f"{folder}/ca.key",
            "-rand_serial", "-in", f"{folder}/request", "-out", f"{folder}/{name}.crt", "-startdate", first, "-enddate", last, "-notext")

    def test_certificates_that_are_not_valid_now_are_refused(self):
        folder, text = self.certificates()
        self.assertEqual(self.check(text, "config", "check").returncode, 0)
        for first, last, words in (
                ("20200101000000Z", "20200201000000Z", f'security: code = 951 description = "the certificate {folder}/server.crt expired on 2020-02-01"'),
                ("20900101000000Z", "20910101000000Z", f'security: code = 952 description = "the certificate {folder}/server.crt is not valid before 2090-01-01')):
            self.expire(folder, "server", first, last)
            done = self.check(text, "config", "check")
            self.assertEqual(done.returncode, 1)
            self.assertIn(words, done.stderr)
            self.assertIn(words, self.check(text, "start", "-o").stderr)

    def test_check_warns_30_7_and_1_days_before_a_certificate_expires(self):
        for days, stage in ((200, None), (20, 30), (5, 7), (1, 1)):
            said = self.check(self.certificates(days)[1], "config", "check").stdout
            if stage:
                self.assertEqual(len(re.findall(rf"(?m)^expires in {stage} days? or less, on 20\d\d-\d\d-\d\d: /\S+/(?:server|ca)\.crt$", said)), 2, said)
            else:
                self.assertNotIn("expires", said)

    def test_a_key_that_all_users_may_read_is_refused(self):
        folder, text = self.certificates()
        os.chmod(f"{folder}/server.key", 0o644)
        for words in (("config", "check"), ("start", "-o")):
            done = self.check(text, *words)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f'code = 953 description = "all users may read or write the key {folder}/server.key"', done.stderr)
            self.assertIn("chmod 0600", done.stderr)

    def test_paths_that_this_host_lacks_are_reported_with_file_line_and_key(self):
        """The same faults as at the start of the server."""
        engine = "engines:\n- storage: [{class: file, scm_mount: /tmp/e0}]\n"
        for text, line, key, path in (("helper: /none/helper\n", 2, "helper", "/none/helper"),
                                      ("engine_program: /etc/passwd\n", 2, "engine_program", "/etc/passwd"),
                                      ("control_log_file: /none/there/log\n", 2, "control_log_file", "/none/there"),
                                      ("state_dir: /none/there/state\n", 2, "state_dir", "/none/there"),
                                      ("control_metadata:\n  path: /none/there\n", 3, "control_metadata.path", "/none"),
                                      (engine + "  log_file: /none/log\n", 4, "engines[0].log_file", "/none"),
                                      (engine + "helper: /tmp\n", 4, "helper", "/tmp")):
            done = self.check("name: x\n" + text, "config", "check")
            self.assertEqual((done.returncode, done.stdout), (1, ""), text)
            self.assertRegex(done.stderr, rf'config: code = 776 description = "\S+c\.yml:{line}: {re.escape(key)}: {path}: ')
        path = os.path.join(self.directory, "cb")
        done = self.check(f"name: x\nfault_cb: {path}\n", "config", "check")
        self.assertRegex(done.stderr, rf'code = 765 description = "\S+c\.yml:2: fault_cb: the program {path} ')

    def test_a_generated_configuration_passes_the_check(self):
        path = os.path.join(self.directory, "g.yml")
        done = run(SERVER, "config", "generate", "-i", "lo", "-e", "3", "-F", "/tmp/none", "-s", "1GiB", "--insecure", "-p", "12345")
        with open(path, "w") as f:
            f.write(done.stdout)
        self.assertIn("at 127.0.0.1:12345, management service here, 3 engines", run(SERVER, "config", "check", path).stdout)
        refused = run(SERVER, "config", "generate", "-i", "none0", "-F", "/tmp/none", check=False)
        self.assertIn("code = 766 ", refused.stderr)
        done = run(SERVER, "config", "generate", "-i", "lo", "-a", "10.0.0.1", "-m", "/srv/metadata", "-f", "4501,4440", "-e", "2", "-F", "/tmp/none")
        self.assertEqual(re.findall(r"fabric_iface_port: (\d+)", done.stdout), ["4440", "4501"])
        self.assertIn("control_metadata:\n  path: /srv/metadata\n", done.stdout)
        self.assertIn('mgmt_svc_replicas: ["10.0.0.1"]\n', done.stdout)
        refused = run(SERVER, "config", "generate", "-i", "lo", "-f", "4501", "-e", "2", "-F", "/tmp/none", check=False)
        self.assertIn("there are 2 engines, and 1 port for them", refused.stderr)
        refused = run(SERVER, "config", "generate", "-i", "lo", "-c", "ethernet", "-F", "/tmp/none", check=False)
        self.assertIn("code = 766 ", refused.stderr)

    def test_devices_and_interfaces_are_shown_without_a_server(self):
        self.assertRegex(run(SERVER, "storage", "scan").stdout, r"^Device +Class +Size")
        self.assertRegex(run(SERVER, "network", "scan").stdout, r"(?m)^lo +loopback")
        self.assertRegex(run(SERVER, "version").stdout, r"^fathom-server \d")

    def test_a_scan_without_the_server_equals_a_scan_by_the_server(self):
        server = self.server(engines=0, name="fathom").start()
        for group, name in (("storage", "devices"), ("network", "interfaces")):
            for _ in range(10):     # other tests may create devices meanwhile
                ours = json.loads(run(SERVER, group, "scan", "--json").stdout)
                self.assertEqual((ours["error"], ours["status"]), (None, 0))
                host, = json.loads(run(FATHOM, group, "scan", "--all", "-j", "-i", "-l", server.address).stdout)["response"]["HostDevices"].values()
                if ours["response"][name] == host["host"][name]:
                    break
            self.assertEqual(ours["response"][name], host["host"][name])

    def test_wrong_usage_exits_with_status_2(self):
        for words in (["frobnicate"], ["start", "extra"], ["--bogus"], ["config"], ["storage"], ["restore"], ["backup"],
                      ["config", "generate", "-p", "0"], ["config", "generate", "-c", "loopback"], ["config", "generate", "-f", "4420-70000"],
                      ["config", "generate", "-m", "relative"], ["storage", "scan", "more"], ["network", "scan", "--bogus"], ["stop-engines", "x"], ["start", "--name", "a/b"], ["-L", "LOUD"]):
            self.assertEqual(run(SERVER, *words, check=False).returncode, 2, words)

    def test_the_log_goes_to_the_configured_file_and_sighup_opens_it_again(self):
        path = os.path.join(self.directory, "own.log")
        server = self.server(engines=0, keys=f"control_log_file: {path}\ncontrol_log_json: true\n").start()
        self.assertIn('"message":"ready after', read(path).replace('": "', '":"'))
        os.rename(path, path + ".1")
        server.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 60
        while not os.path.exists(path) and time.monotonic() < deadline:
            time.sleep(0.01)
        server.stop()
        self.assertIn("the server has ended", read(path))


class Certificates(ServerTest):
    """A server with certificates, which are replaced while it runs."""

    def make_certificates(self, folder):
        if not os.access("/usr/bin/openssl", os.X_OK):
            raise unittest.SkipTest("openssl is missing")
        run(os.path.join(TOP, "test", "make-certificates"), folder)

    def secure_channel(self, server, folder, role):
        import grpc
        credentials = grpc.ssl_channel_credentials(*(read(os.path.join(folder, name), "rb")
                                                     for name in ("ca.crt", role + ".key", role + ".crt")))
        server.close_channel()
        server.channel = grpc.secure_channel(server.address, credentials, (("grpc.ssl_target_name_override", "server"),))

    def run_fathom(self, server, folder, role, *words):
        """`fathom`, with the certificate of that role."""
        path = os.path.join(self.directory, role + ".yml")
        with open(path, "w") as f:
            f.write(f"name: {server.name}\nhostlist: ['{server.address}']\n"
                    f"transport_config: {{ca_cert: {folder}/ca.crt, cert: {folder}/{role}.crt, key: {folder}/{role}.key}}\n")
        return run(FATHOM, "-o", path, *words, check=False)

    def test_roles_come_from_certificates_and_engines_join(self):
        folder = os.path.join(self.directory, "certs")
        self.make_certificates(folder)
        keys = f"transport_config: {{ca_cert: {folder}/ca.crt, cert: {folder}/server.crt, key: {folder}/server.key}}\n"
        server = self.server(keys=keys, insecure=False).start()
        self.secure_channel(server, folder, "admin")
        server.format()
        server.wait_joined()
        self.secure_channel(server, folder, "agent")
        with self.assertRaises(Refused) as refused:
            server.call("/ctl.CtlSvc/StorageScan", self.messages.ctl.StorageScanReq(), role="agent")
        self.assertEqual(refused.exception.code, "PERMISSION_DENIED")
        told = self.run_fathom(server, folder, "agent", "system", "query")
        self.assertEqual(told.returncode, 1)
        self.assertRegex(told.stderr, r'code = 950 description = .*certificate .*agent.*\n.*code = 950 resolution = "use the certificate')
        self.assertIn("Joined", self.run_fathom(server, folder, "admin", "system", "query").stdout)
        for name in ("server.crt", "server.key"):
            os.unlink(os.path.join(folder, name))
        self.make_certificates(folder)
        server.process.send_signal(signal.SIGHUP)
        self.wait_for_line(server, "they have changed: connections with the old ones are drained")
        self.secure_channel(server, folder, "admin")
        self.assertEqual(server.engines()[0].state, "joined")

    def wait_for_line(self, server, words):
        deadline = time.monotonic() + 60
        while words not in server.log():
            self.assertLess(time.monotonic(), deadline, server.log())
            time.sleep(0.01)

    def test_broken_certificates_are_reported_and_the_old_ones_stay(self):
        folder = os.path.join(self.directory, "certs")
        self.make_certificates(folder)
        path = f"{folder}/server.crt"
        server = self.server(engines=0, keys=f"transport_config: {{ca_cert: {folder}/ca.crt, cert: {path}, key: {folder}/server.key}}\n",
                             insecure=False).start()
        good = read(path)
        for spoil, code in ((lambda: open(path, "w").close(), 903), (lambda: os.unlink(path), 901)):
            spoil()
            server.process.send_signal(signal.SIGHUP)
            self.wait_for_line(server, f"security: code = {code} resolution")
            self.assertRegex(server.log(), rf"ERROR: the certificates stay as they were: security: code = {code} description = .*{path}")
            self.assertNotRegex(server.log(), "again")
            self.assertIn("fathom", self.run_fathom(server, folder, "admin", "server", "version").stdout.lower())
        with open(path, "w") as f:
            f.write(good)
        server.process.send_signal(signal.SIGHUP)
        self.wait_for_line(server, "the certificates have been read again")

    def test_a_start_with_missing_certificates_is_refused(self):
        server = self.server(engines=0, insecure=False, keys="transport_config: {ca_cert: /none/ca.crt}\n")
        self.assertEqual(server.start(ready=False), 1)
        self.assertIn("code = 901 ", server.log())


if __name__ == "__main__":
    unittest.main()
