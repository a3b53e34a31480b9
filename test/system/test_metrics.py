# SPDX-License-Identifier: BSD-2-Clause
"""
metrics - real engines and a server, scraped by curl, promtool, a real Prometheus and dmg; while devices, reactors, engines and clients
hang, too.
"""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import urllib.parse
import urllib.request

from control_rig import make_certificates, transport_config
from harness import NQN, EngineTest, free_port, run, wait_for
from server_rig import ServerTest

DMG = shutil.which("dmg")
OPEN = "application/openmetrics-text; version=1.0.0"
LINE = re.compile(r'^(\w+)(?:\{(.*)\})? (\S+)(?: # \{request="([^"]+)"\} (\S+) (\S+))?$')


class Scrape:
    """The samples of a text: {(name, labels): value}, and exemplars: {request: (name, labels, seconds)}."""

    def __init__(self, text):
        self.text, self.samples, self.exemplars = text, {}, {}
        for line in text.splitlines():
            if line.startswith("#"):
                continue
            name, labels, value, request, seconds, _ = LINE.match(line).groups()
            labels = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or ""))
            key = name, frozenset(labels.items())
            assert key not in self.samples, f"twice: {line}"
            self.samples[key] = float(value)
            if request:
                self.exemplars[request] = name, labels, float(seconds)

    def all(self, metric, /, **labels):
        return [value for (its, those), value in self.samples.items() if its == metric and labels.items() <= dict(those).items()]

    def one(self, metric, /, **labels):
        values = self.all(metric, **labels)
        assert len(values) == 1, f"{metric}{labels}: {values}\n{self.text}"
        return values[0]


def scrape_text(port, accept):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read().decode()


def scrape(port, accept=OPEN):
    return Scrape(scrape_text(port, accept))


def check_by_promtool(test, port):
    """promtool reads the older format, whatever it is called by."""
    if not shutil.which("promtool"):
        return
    text = scrape(port, "text/plain").text
    done = subprocess.run(["promtool", "check", "metrics"], input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    # a counter of the server's own rows may have any name; nothing else is to be complained of
    test.assertEqual((done.returncode, done.stdout), (0, ""), text)


class Prometheus:
    """The real one, scraping these ports once a second; with `certificates`, by TLS in the role monitor."""

    def __init__(self, directory, ports, certificates=None):
        self.port = free_port()
        path = os.path.join(directory, "prometheus.yml")
        rules = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../packaging/prometheus/fathom.rules.yml")
        targets = ", ".join(f"'127.0.0.1:{port}'" for port in ports)
        tls = (f"  scheme: https\n  tls_config: {{ca_file: {certificates}/ca.crt, cert_file: {certificates}/monitor.crt, "
               f"key_file: {certificates}/monitor.key, server_name: server}}\n" if certificates else "")
        with open(path, "w") as file:
            file.write(f"global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: ['{os.path.abspath(rules)}']\n"
                       f"scrape_configs:\n- job_name: fathom\n{tls}  static_configs:\n  - targets: [{targets}]\n")
        self.log = open(os.path.join(directory, "prometheus.log"), "w")
        self.process = subprocess.Popen(["prometheus", f"--config.file={path}", f"--storage.tsdb.path={directory}/tsdb",
                                         f"--web.listen-address=127.0.0.1:{self.port}", "--enable-feature=exemplar-storage"],
                                        stdout=self.log, stderr=subprocess.STDOUT)

    def ask(self, path, **parameters):
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return json.load(answer)["data"]
        except OSError:     # it has not started yet
            return None

    def wait_for(self, query):
        def result():
            data = self.ask("query", query=query)
            return data and data["result"]
        return wait_for(result, pause=0.2)

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


class Engines(EngineTest):
    def scraped(self, *options):
        self.metrics = free_port()
        return self.engine("--metrics", f"127.0.0.1:{self.metrics}", *options)

    def test_an_engine_without_the_option_has_no_port(self):
        engine = self.engine()
        self.assertNotIn("metrics:", engine.log_text())

    def test_a_port_that_is_taken_ends_the_start(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            engine = self.engine("--metrics", f"127.0.0.1:{taken.getsockname()[1]}", ready=False)
            self.assertEqual(engine.process.wait(60), 1)
        self.assertIn("--metrics: cannot listen at 127.0.0.1 port ", engine.log_text())

    def test_the_figures_are_those_of_the_load(self):
        engine = self.scraped()
        device = engine.serve("bdev_malloc_create", 16, 4096)
        before = scrape(self.metrics)
        self.assertEqual(before.one("fathom_volume_operations_total", volume=device, op="read"), 0)
        engine.perf("--count", "2000", "--rw", "randread", "--bs", "8k", "--hostnqn", "nqn.2026-01.org.example:h")
        engine.rpc("bdev_reset_iostat")     # counters never fall
        after = scrape(self.metrics)
        reads = after.one("fathom_volume_operations_total", volume=device, op="read")
        self.assertGreaterEqual(reads, 2000)
        self.assertGreaterEqual(after.one("fathom_volume_bytes_total", volume=device, op="read"), 2000 * 8192)
        self.assertEqual(after.one("fathom_volume_latency_seconds_count", volume=device, op="read"), reads)
        self.assertEqual(after.one("fathom_volume_latency_seconds_bucket", volume=device, op="read", le="+Inf"), reads)
        self.assertGreater(after.one("fathom_volume_latency_seconds_sum", volume=device, op="read"), 0)
        self.assertEqual(after.one("fathom_volume_info", volume=device, backend="malloc", pool=""), 1)
        self.assertEqual(after.one("fathom_volume_size_bytes", volume=device), 16 << 20)
        self.assertGreaterEqual(after.one("fathom_host_operations_total", subsystem=NQN, hostnqn="nqn.2026-01.org.example:h"), 2000)
        self.assertEqual(set(after.all("fathom_health_check")), {0})
        self.assertEqual(len(after.all("fathom_health_check")), 8)
        self.assertGreaterEqual(after.one("fathom_stage_seconds_count", request="nvmf_req", stage="ALL"), 2000)
        self.assertGreaterEqual(after.one("fathom_rpc_seconds_count", method="bdev_reset_iostat", code="0"), 1)
        self.assertEqual(after.one("fathom_engine_series_dropped", what="volumes"), 0)
        wait_for(lambda: scrape(self.metrics).one("fathom_host_disconnects_total", subsystem=NQN, reason="closed") == 1)
        self.assertEqual(scrape(self.metrics).one("fathom_host_connected", subsystem=NQN), 0)
        check_by_promtool(self, self.metrics)
        self.assertEqual(engine.stop(), 0, engine.log_text())

    def test_an_exemplar_names_a_request_that_the_trace_shows(self):
        engine = self.scraped()
        engine.serve("bdev_malloc_create", 16, 4096)
        engine.perf("--count", "3000", "--rw", "mix")
        exemplars = scrape(self.metrics).exemplars
        self.assertTrue(exemplars)
        for request, (name, labels, seconds) in exemplars.items():
            self.assertEqual((name, labels["volume"]), ("fathom_volume_latency_seconds_bucket", "Malloc0"))
            self.assertLessEqual(seconds, float(labels["le"].replace("+Inf", "inf")))
            shown = engine.trace("io", request, "-f", engine.trace_path).stdout
            self.assertRegex(shown, rf"nvmf_req {request.partition('.')[0]}\b")
            self.assertRegex(shown, r"bdev_io i\d+ +\[b\d+ Malloc0\]")
            times = [float(us) for us in re.findall(r"([\d.]+) us", shown)]
            self.assertTrue(any(abs(us - seconds * 1e6) < 0.002 for us in times), f"{seconds}\n{shown}")
        done = engine.trace("io", request.partition(".")[0] + ".4000000000", "-f", engine.trace_path, check=False)
        self.assertIn("the file has not kept the life", done.stderr)

    def test_a_request_that_an_exemplar_named_is_there_when_the_rings_have_wrapped(self):
        engine = self.scraped("--num-trace-entries", "2048")
        engine.serve("bdev_malloc_create", 16, 4096)
        engine.perf("--count", "3000", "--rw", "mix")
        named = scrape(self.metrics)
        self.assertTrue(named.exemplars)
        for _ in range(6):
            engine.perf("--count", "3000", "--rw", "mix", "--depth", "32")
        after = scrape(self.metrics)
        self.assertGreater(after.one("fathom_trace_overwritten_total") - named.one("fathom_trace_overwritten_total"), 18000)
        for request, (_, labels, seconds) in {**named.exemplars, **after.exemplars}.items():
            shown = engine.trace("io", request, "-f", engine.trace_path).stdout
            self.assertRegex(shown, rf"nvmf_req {request.partition('.')[0]}\b")
            self.assertRegex(shown, r"bdev_io i\d+ +\[b\d+ Malloc0\]")
            times = [float(us) for us in re.findall(r"([\d.]+) us", shown)]
            self.assertGreaterEqual(max(times), seconds * 1e6 - 0.01, f"{labels}\n{shown}")     # its life contains that of its I/O
        slowest = engine.trace("slowest", "1000", "--json", "-f", engine.trace_path).stdout
        lives = [line for line in slowest.splitlines() if line.strip()]
        self.assertEqual(len(lives), len(set(lives)))

    def test_a_command_that_hangs_is_seen_with_its_age_and_a_hanging_reactor_stops_no_scrape(self):
        engine = self.scraped("--test-methods")
        engine.run_commands("bdev_malloc_create 16 4096 -b Disk1\nbdev_error_create Disk1\n")
        engine.run_commands(f"nvmf_create_transport -t tcp\nnvmf_create_subsystem {NQN} -a -s S1\n"
                            f"nvmf_subsystem_add_listener {NQN} -t tcp -a 127.0.0.1 -s {engine.port}\nnvmf_subsystem_add_ns {NQN} EE_Disk1\n")
        engine.rpc("bdev_error_inject_error", name="EE_Disk1", io_type="read", error_type="pending", num=1)
        load = subprocess.Popen([os.path.join(os.environ.get("FATHOM_BIN", "build/bin"), "fathom"), "perf", "-a", "127.0.0.1", "-s",
                                 str(engine.port), "-n", NQN, "--count", "1", "--timeout", "0", "--quiet"],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for(lambda: scrape(self.metrics).all("fathom_oldest_request_age_seconds", volume="EE_Disk1", stage="EXECUTING"))
            engine.rpc("reactor_hold", reactor=0, milliseconds=60000)
            wait_for(lambda: max(scrape(self.metrics).all("fathom_reactor_current_step_seconds")) > 1)
            seen = scrape(self.metrics)     # the reactor hangs; the scrape ends, with older figures of connections
            self.assertGreater(seen.one("fathom_oldest_request_age_seconds", volume="EE_Disk1", stage="EXECUTING"), 1)
            self.assertGreater(seen.one("fathom_engine_connections_age_seconds"), 0)
            self.assertEqual(seen.one("fathom_requests_inflight", volume="EE_Disk1", stage="EXECUTING"), 1)
            self.assertGreater(max(seen.all("fathom_reactor_longest_stall_seconds")), 1)
            self.assertEqual(seen.one("fathom_health_check", code="reactor_hangs", severity="broken", muted="no"), 1)
            self.assertEqual(seen.one("fathom_host_queue_pairs", queue="admin"), 1)
            self.assertGreaterEqual(seen.one("fathom_host_queue_pairs", queue="io"), 1)
            wait_for(lambda: scrape(self.metrics).one("fathom_health_check", code="requests_waiting", severity="broken", muted="no") == 1)
        finally:
            load.kill()
            load.wait()

    def test_volumes_above_the_limit_are_left_out_and_counted(self):
        engine = self.scraped()
        engine.send_request(json.dumps([{"jsonrpc": "2.0", "id": i, "method": "bdev_null_create",
                                         "params": {"name": f"N{i:04}", "block_size": 4096, "num_blocks": 256}} for i in range(1005)]).encode())
        text = scrape_text(self.metrics, OPEN)
        self.assertIn('\nfathom_engine_series_dropped{what="volumes"} 5\n', text)
        self.assertEqual(text.count("\nfathom_volume_info{"), 1000)
        self.assertEqual((text.count('_info{volume="N0999"'), text.count('volume="N1000"')), (1, 0))
        self.assertEqual(text.count('{volume="N0500"'), 57)     # as docs/metrics.md says

    def test_a_client_that_hangs_stops_neither_scrapes_nor_calls(self):
        engine = self.scraped()
        hanging = [socket.create_connection(("127.0.0.1", self.metrics)) for _ in range(8)]
        for client in hanging[:4]:
            client.sendall(b"GET /metrics HTTP/1.1\r\nHos")
        self.assertEqual(scrape(self.metrics).one("fathom_engine_series_dropped", what="hosts"), 0)
        self.assertEqual(engine.rpc("framework_wait_init"), True)
        for client in hanging:
            client.close()

    def test_a_real_prometheus_scrapes_an_engine(self):
        if not shutil.which("prometheus"):
            self.skipTest("prometheus is missing")
        engine = self.scraped()
        device = engine.serve("bdev_malloc_create", 16, 4096)
        engine.perf("--count", "1000", "--rw", "randread")
        prometheus = Prometheus(self.directory, [self.metrics])
        try:
            found = prometheus.wait_for(f'fathom_volume_operations_total{{volume="{device}",op="read"}} >= 1000')
            self.assertEqual(found[0]["metric"]["instance"], f"127.0.0.1:{self.metrics}")
            self.assertEqual(prometheus.wait_for("up")[0]["value"][1], "1")
            self.assertTrue(prometheus.wait_for(f'histogram_quantile(0.99, fathom_volume_latency_seconds_bucket{{volume="{device}",op="read"}}) > 0'))
            exemplars = wait_for(lambda: prometheus.ask("query_exemplars", query="fathom_volume_latency_seconds_bucket", start="0", end="9999999999"))
            self.assertRegex(exemplars[0]["exemplars"][0]["labels"]["request"], r"^r\d+\.\d+$")
            self.assertTrue(prometheus.ask("rules")["groups"][0]["rules"])
        finally:
            prometheus.stop()


class Servers(ServerTest):
    def start(self):
        self.metrics = free_port()
        server = self.server(engines=2, keys=f"telemetry_port: {self.metrics}\nmgmt_svc_replicas: [127.0.0.1]\n"
                                             "telemetry_config: {muted: [data_lost, rank_not_joined]}\n")
        server.start()
        server.format()
        return server, {engine.index: engine for engine in server.wait_joined()}

    def test_a_server_serves_its_engines_and_itself(self):
        server, _ = self.start()
        seen = scrape(self.metrics)
        for rank in ("0", "1"):
            self.assertEqual(seen.one("fathom_engine_up", rank=rank), 1)
            self.assertEqual(len(seen.all("fathom_engine_info", rank=rank)), 1)
            self.assertGreater(seen.one("fathom_reactor_seconds_total", rank=rank, core="control", mode="idle"), 0)
        self.assertEqual(seen.one("fathom_members", state="joined"), 2)
        self.assertEqual(seen.one("fathom_engine_state", engine="0", state="joined"), 1)
        self.assertEqual(len(seen.all("fathom_server_info")), 1)
        self.assertGreaterEqual(seen.one("fathom_server_counts_total", group="mgmt", name="joins"), 2)
        self.assertGreater(seen.one("fathom_events_total", severity="notice"), 0)
        for rank in ("0", "1"):
            self.assertEqual(seen.one("fathom_health_check", rank=rank, code="pool_nearly_full"), 0)
            self.assertEqual(len(seen.all("fathom_health_check", rank=rank, code="data_lost", muted="yes")), 1)
        self.assertEqual(seen.one("fathom_health_check", code="rank_not_joined", severity="degraded", muted="yes"), 0)
        self.assertEqual(seen.one("fathom_health_check", code="member_missing", severity="broken", muted="no"), 0)
        check_by_promtool(self, self.metrics)
        if shutil.which("prometheus"):
            prometheus = Prometheus(self.directory, [self.metrics])
            try:
                self.assertEqual(len(prometheus.wait_for("count(fathom_engine_up == 1) == 2")), 1)
            finally:
                prometheus.stop()
        if DMG:
            host, port = "127.0.0.1", str(self.metrics)
            done = run(DMG, "-i", "telemetry", "metrics", "list", "-l", host, "-p", port, timeout=60)
            self.assertIn("fathom_engine_up", done.stdout)
            done = run(DMG, "-i", "telemetry", "metrics", "query", "-l", host, "-p", port, "-m", "fathom_engine_up", timeout=60)
            self.assertIn("fathom_engine_up", done.stdout)
        self.assertEqual(server.stop(), 0, server.log())

    def test_an_engine_that_hangs_or_is_dead_is_said_and_stops_no_scrape(self):
        _, engines = self.start()
        pid = engines[0].pid
        os.kill(pid, signal.SIGSTOP)
        try:
            seen = scrape(self.metrics)
            self.assertEqual(seen.one("fathom_engine_up", engine="0"), 0)
            self.assertEqual(seen.one("fathom_engine_up", engine="1"), 1)
            self.assertEqual(len(seen.all("fathom_engine_info")), 1)
        finally:
            os.kill(pid, signal.SIGCONT)
        wait_for(lambda: scrape(self.metrics).one("fathom_engine_up", engine="0") == 1)
        os.kill(engines[1].pid, signal.SIGKILL)
        wait_for(lambda: scrape(self.metrics).one("fathom_engine_up", engine="1") == 0)

    def test_a_port_that_is_taken_does_not_keep_the_server_from_starting(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            server = self.server(engines=1, keys=f"telemetry_port: {taken.getsockname()[1]}\n")
            server.start()
        self.assertRegex(server.log(), r"code = 1460 .*the metrics of this host are not served at 127\.0\.0\.1:\d+: Address already in use")

    def test_a_server_without_the_key_has_no_port(self):
        server = self.server(engines=1)
        server.start()
        self.assertNotIn("metrics:", server.log())


class Secure(ServerTest):
    """With certificates, telemetry_port has TLS and roles."""

    def start(self, keys=""):
        self.metrics = free_port()
        self.folder = make_certificates(os.path.join(self.directory, "certs"))
        server = self.server(engines=0, insecure=False, keys=f"telemetry_port: {self.metrics}\nmgmt_svc_replicas: [127.0.0.1]\n{keys}"
                                                             f"{transport_config(self.folder, 'server')}\n")
        return server.start()

    def curl(self, path, role=None, folder=None, scheme="https"):
        """The status, and the text or the error. `role` None: without a certificate."""
        folder = folder or self.folder
        words = ["--cert", f"{folder}/{role}.crt", "--key", f"{folder}/{role}.key"] if role else []
        done = subprocess.run(["curl", "-sS", "-m", "60", "--cacert", f"{self.folder}/ca.crt", *words, "--connect-to", "::127.0.0.1:", "-w",
                               "%{stderr}%{http_code}", f"{scheme}://server:{self.metrics}{path}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=120, check=False)
        return done.stderr[-3:], done.stdout or done.stderr

    def connection(self, role="monitor"):
        context = ssl.create_default_context(cafile=f"{self.folder}/ca.crt")
        context.load_cert_chain(f"{self.folder}/{role}.crt", f"{self.folder}/{role}.key")
        raw = socket.create_connection(("127.0.0.1", self.metrics), timeout=60)
        connection = http.client.HTTPSConnection("server", context=context)
        connection.sock = context.wrap_socket(raw, server_hostname="server")
        return connection

    def test_a_client_needs_a_certificate_of_a_role_that_may_read(self):
        server = self.start()
        self.assertIn(f"metrics: https://127.0.0.1:{self.metrics}/metrics", server.log())
        for role in ("monitor", "admin", "server"):
            status, text = self.curl("/metrics", role)
            self.assertEqual(status, "200", text)
            self.assertIn("\nfathom_server_info{", text)
        for path in ("/", "/healthz", "/status.json"):
            self.assertEqual(self.curl(path, "monitor")[0], "200", path)
        status, text = self.curl("/metrics", "agent")
        self.assertEqual(status, "403")
        self.assertRegex(text, r'code = 1461 description = "a certificate for \\?"agent\\?" may not read metrics"')
        foreign = make_certificates(os.path.join(self.directory, "foreign"))
        # the log has at most five refusals of a second
        for role, folder, scheme, why in ((None, None, "https", "shows no certificate"), ("admin", foreign, "https", "another authority"),
                                          (None, None, "http", "does not speak TLS")):
            self.assertEqual(self.curl("/metrics", role, folder, scheme)[0], "000", why)
            wait_for(lambda why=why: why in server.log())
        text = Scrape(self.curl("/metrics", "monitor")[1])
        self.assertGreaterEqual(text.one("fathom_server_counts_total", group="server", name="metrics_refused"), 4)
        self.assertGreaterEqual(text.one("fathom_server_counts_total", group="server", name="metrics_connections"), 6)
        self.assertEqual(server.stop(), 0, server.log())

    def test_tls_is_that_of_the_other_port(self):
        server = self.start()
        words = ["openssl", "s_client", "-connect", f"127.0.0.1:{self.metrics}", "-CAfile", f"{self.folder}/ca.crt", "-cert",
                 f"{self.folder}/monitor.crt", "-key", f"{self.folder}/monitor.key", "-verify_hostname", "server", "-ign_eof"]
        for more in ([], ["-alpn", "h2,http/1.1"]):
            done = subprocess.run(words + more, input="GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True, timeout=120, check=False).stdout
            self.assertIn("TLSv1.3", done)
            self.assertIn("Verify return code: 0 (ok)", done)
            self.assertIn("\nok\n", done)
        for wrong in (["-tls1_2"], ["-alpn", "h2"]):
            done = subprocess.run(words + wrong, input="", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
            self.assertIn("alert", done.stdout, wrong)
        self.assertEqual(server.stop(), 0, server.log())

    def test_a_real_prometheus_scrapes_by_tls(self):
        if not shutil.which("prometheus"):
            self.skipTest("prometheus is missing")
        server = self.start()
        prometheus = Prometheus(self.directory, [self.metrics], self.folder)
        try:
            self.assertEqual(prometheus.wait_for("up == 1")[0]["metric"]["instance"], f"127.0.0.1:{self.metrics}")
            self.assertTrue(prometheus.wait_for("fathom_certificate_expiry_timestamp_seconds - time() > 86400"))
            self.assertTrue(prometheus.wait_for('fathom_health_check{code="certificate_expired",severity="broken",muted="no"} == 0'))
        finally:
            prometheus.stop()
        self.assertEqual(server.stop(), 0, server.log())

    def test_connections_with_old_certificates_end_with_their_next_answer(self):
        server = self.start()
        kept = self.connection()
        for _ in range(2):
            kept.request("GET", "/healthz")
            answer = kept.getresponse()
            self.assertEqual((answer.status, answer.read(), answer.headers["Connection"]), (200, b"ok\n", None))
        before = kept.sock.getpeercert()["serialNumber"]
        os.unlink(f"{self.folder}/server.crt")
        make_certificates(self.folder)
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "connections with the old ones are drained" in server.log())
        kept.request("GET", "/healthz")
        answer = kept.getresponse()
        self.assertEqual((answer.status, answer.read(), answer.headers["Connection"]), (200, b"ok\n", "close"))
        kept.close()
        new = self.connection()
        self.assertNotEqual(new.sock.getpeercert()["serialNumber"], before)
        new.close()
        self.assertEqual(server.stop(), 0, server.log())

    def test_it_can_be_plain_beside_certificates(self):
        server = self.start("telemetry_config: {allow_insecure: true}\n")
        self.assertEqual(len(scrape(self.metrics).all("fathom_server_info")), 1)
        if DMG:
            done = run(DMG, "-i", "telemetry", "metrics", "list", "-l", "127.0.0.1", "-p", str(self.metrics), timeout=60)
            self.assertIn("fathom_server_info", done.stdout)
        self.assertEqual(server.stop(), 0, server.log())


if __name__ == "__main__":
    import unittest
    unittest.main()
