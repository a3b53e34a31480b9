# SPDX-License-Identifier: BSD-2-Clause
"""The alert rules, by the real promtool: they are valid, each fires when it should and not otherwise, and each names a command."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

TOP = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 4))
RULES = os.path.join(TOP, "packaging/prometheus/fathom.rules.yml")
WHERE = 'instance="node1:9191",rank="0"'
VOLUME = f'{WHERE},volume="p/v"'
POOL = f'{WHERE},pool="p"'
HOST = f'{WHERE},subsystem="s",hostnqn="h"'

# alert: (series and values that fire at the time, series and values that do not, time). `A+BxN`: N more values, one a minute, each B more.
CASES = {
    "FathomRequestStuck": ([(f"fathom_oldest_request_age_seconds{{{VOLUME},stage=\"EXECUTING\"}}", "0 60 120 180")],
                           [(f"fathom_oldest_request_age_seconds{{{VOLUME},stage=\"EXECUTING\"}}", "0.1 4.9 0.2 4")], "3m"),
    # 1,200 in 10 minutes: 60 of them, 5 %, took 1 s; else 6, half a percent
    "FathomVolumeSlow": ([(f'fathom_volume_latency_seconds_bucket{{{VOLUME},op="read",le="0.001"}}', "0+114x10"),
                          (f'fathom_volume_latency_seconds_bucket{{{VOLUME},op="read",le="1.0"}}', "0+120x10"),
                          (f'fathom_volume_latency_seconds_bucket{{{VOLUME},op="read",le="+Inf"}}', "0+120x10"),
                          (f'fathom_volume_latency_seconds_count{{{VOLUME},op="read"}}', "0+120x10")],
                         [(f'fathom_volume_latency_seconds_bucket{{{VOLUME},op="read",le="0.001"}}', "0+1194x10"),
                          (f'fathom_volume_latency_seconds_bucket{{{VOLUME},op="read",le="1.0"}}', "0+1200x10"),
                          (f'fathom_volume_latency_seconds_bucket{{{VOLUME},op="read",le="+Inf"}}', "0+1200x10"),
                          (f'fathom_volume_latency_seconds_count{{{VOLUME},op="read"}}', "0+1200x10")], "10m"),
    "FathomVolumeErrors": ([(f'fathom_volume_errors_total{{{VOLUME},status="FAILED"}}', "0 0 1 1 1")],
                           [(f'fathom_volume_errors_total{{{VOLUME},status="FAILED"}}', "7 7 7 7 7"),
                            (f'fathom_volume_errors_total{{{VOLUME},status="MISCOMPARE"}}', "0 1 2 3 4")], "4m"),
    "FathomKeepAliveLost": ([(f'fathom_host_disconnects_total{{{HOST},reason="keep_alive"}}', "0 0 1 1")],
                            [(f'fathom_host_disconnects_total{{{HOST},reason="keep_alive"}}', "3 3 3 3"),
                             (f'fathom_host_disconnects_total{{{HOST},reason="closed"}}', "0 1 2 3")], "3m"),
    # 40 GB free of 100: 1 GB less each minute; or 100 kB less each minute, which is 0.7 GB in five days
    "FathomPoolFull": ([(f"fathom_pool_free_bytes{{{POOL}}}", "40e9-1e8x120"), (f"fathom_pool_size_bytes{{{POOL}}}", "100e9+0x120")],
                       [(f"fathom_pool_free_bytes{{{POOL}}}", "40e9-1e5x120"), (f"fathom_pool_size_bytes{{{POOL}}}", "100e9+0x120")], "2h"),
    "FathomPoolAlmostFull": ([(f"fathom_pool_free_bytes{{{POOL}}}", "4e9+0x5"), (f"fathom_pool_size_bytes{{{POOL}}}", "100e9+0x5")],
                             [(f"fathom_pool_free_bytes{{{POOL}}}", "6e9+0x5"), (f"fathom_pool_size_bytes{{{POOL}}}", "100e9+0x5")], "5m"),
    "FathomReactorBusy": ([(f'fathom_reactor_seconds_total{{{WHERE},core="2",mode="busy"}}', "0+54x20"),
                           (f'fathom_reactor_seconds_total{{{WHERE},core="2",mode="idle"}}', "0+6x20")],
                          [(f'fathom_reactor_seconds_total{{{WHERE},core="2",mode="busy"}}', "0+42x20"),
                           (f'fathom_reactor_seconds_total{{{WHERE},core="2",mode="idle"}}', "0+18x20"),
                           (f'fathom_reactor_seconds_total{{{WHERE},core="control",mode="busy"}}', "0+60x20")], "20m"),
    "FathomReactorHangs": ([(f'fathom_reactor_current_step_seconds{{{WHERE},core="2"}}', "0 50 110")],
                           [(f'fathom_reactor_current_step_seconds{{{WHERE},core="2"}}', "0 0.002 0.5"),
                            (f'fathom_reactor_current_step_seconds{{{WHERE},core="control"}}', "0 2 3")], "2m"),
    "FathomReactorStalls": ([(f'fathom_reactor_longest_stall_seconds{{{WHERE},core="2"}}', "0.3+0x10")],
                            [(f'fathom_reactor_longest_stall_seconds{{{WHERE},core="2"}}', "0.3 0.3 0 0.3 0.02 0.02 0.02 0.02 0.02 0.02"),
                             (f'fathom_reactor_longest_stall_seconds{{{WHERE},core="control"}}', "0.3+0x10")], "9m"),
    "FathomHealthBroken": ([(f'fathom_health_check{{{WHERE},code="data_lost",severity="broken",muted="no"}}', "0 1 1 1")],
                           [(f'fathom_health_check{{{WHERE},code="data_lost",severity="broken",muted="yes"}}', "0 1 1 1"),
                            (f'fathom_health_check{{{WHERE},code="storage_failed",severity="broken",muted="no"}}', "0 0 0 0"),
                            (f'fathom_health_check{{{WHERE},code="requests_waiting",severity="broken",muted="no"}}', "0 1 1 1"),
                            (f'fathom_health_check{{{WHERE},code="pool_nearly_full",severity="degraded",muted="no"}}', "0 1 1 1")], "3m"),
    "FathomHealthDegraded": ([(f'fathom_health_check{{{WHERE},code="buffers_exhausted",severity="degraded",muted="no"}}', "1+0x15")],
                             [(f'fathom_health_check{{{WHERE},code="buffers_exhausted",severity="degraded",muted="yes"}}', "1+0x15"),
                              (f'fathom_health_check{{{WHERE},code="rank_not_joined",severity="degraded",muted="no"}}', "0+0x15"),
                              (f'fathom_health_check{{{WHERE},code="data_lost",severity="broken",muted="no"}}', "1+0x15"),
                              (f'fathom_health_check{{{WHERE},code="pool_nearly_full",severity="degraded",muted="no"}}', "1+0x15")], "14m"),
    "FathomDeviceWarning": ([('fathom_device_condition{instance="node1:9191",device="/dev/nvme0n1",condition="worn"}', "0 1 1 1")],
                            [('fathom_device_condition{instance="node1:9191",device="/dev/nvme0n1",condition="worn"}', "0 0 0 0")], "3m"),
    "FathomDeviceMediaErrors": ([('fathom_nvme_commands_media_errs_total{instance="node1:9191",device="/dev/nvme0n1"}', "4 4 5 5")],
                                [('fathom_nvme_commands_media_errs_total{instance="node1:9191",device="/dev/nvme0n1"}', "4 4 4 4")], "3m"),
    "FathomHostMissing": ([(f"fathom_host_connected{{{HOST}}}", "1 1 0 0 0 0 0 0 0 0")],
                          [(f"fathom_host_connected{{{HOST}}}", "0 0 0 0 0 0 0 0 0 0"),
                           (f'fathom_host_connected{{{WHERE},subsystem="s",hostnqn="other"}}', "1 1 0 0 1 1 1 1 1 1")], "9m"),
    "FathomRestarted": ([(f"fathom_engine_start_time_seconds{{{WHERE}}}", "1000 1000 5000 5000")],
                        [(f"fathom_engine_start_time_seconds{{{WHERE}}}", "1000 1000 1000 1000")], "3m"),
    "FathomEngineDown": ([(f'fathom_engine_up{{{WHERE},engine="0"}}', "1 0 0 0")], [(f'fathom_engine_up{{{WHERE},engine="0"}}', "1 1 1 1")], "3m"),
    "FathomMemberMissing": ([('fathom_members{instance="node1:9191",state="unresponsive"}', "0 1 1 1")],
                            [('fathom_members{instance="node1:9191",state="unresponsive"}', "0 0 0 0"),
                             ('fathom_members{instance="node1:9191",state="stopped"}', "2 2 2 2")], "3m"),
    "FathomCertificateExpires": ([('fathom_certificate_expiry_timestamp_seconds{instance="node1:9191",certificate="server.crt"}', "864000 864000")],
                                 [('fathom_certificate_expiry_timestamp_seconds{instance="node1:9191",certificate="server.crt"}', "1728000 1728000")], "1m"),
    "FathomSeriesDropped": ([(f'fathom_engine_series_dropped{{{WHERE},what="volumes"}}', "5+0x15")],
                            [(f'fathom_engine_series_dropped{{{WHERE},what="volumes"}}', "0+0x15")], "15m"),
}

# Alerts that are about the same as a check: silent while it is muted. Those of a server's series have no rank.
MUTED_BY = {
    "FathomRequestStuck": "requests_waiting",
    "FathomPoolAlmostFull": "pool_nearly_full",
    "FathomReactorHangs": "reactor_hangs",
    "FathomEngineDown": "process_silent",
    "FathomMemberMissing": "member_missing",
    "FathomCertificateExpires": "certificate_expiring",
    "FathomDeviceWarning": "device_warning",
}
OF_ENGINES = {"requests_waiting", "pool_nearly_full", "reactor_hangs"}


def check_of(code, muted):
    where = WHERE if code in OF_ENGINES else 'instance="node1:9191"'
    return (f'fathom_health_check{{{where},code="{code}",severity="x",muted="{muted}"}}', "1+0x200")


def case(alert, series, when, fires):
    rows = "".join(f"  - series: '{name}'\n    values: '{values}'\n" for name, values in series)
    query = f"""    - expr: 'count(ALERTS{{alertname="{alert}",alertstate="firing"}})'\n      eval_time: {when}\n"""
    samples = "      exp_samples:\n      - labels: '{}'\n        value: 1\n" if fires else ""
    return f"- interval: 1m\n  input_series:\n{rows}  promql_expr_test:\n{query}{samples}"


class Rules(unittest.TestCase):
    def setUp(self):
        if not shutil.which("promtool"):
            self.skipTest("promtool (package prometheus) is missing")

    def promtool(self, *words):
        return subprocess.run(["promtool", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)

    def test_the_rules_are_valid(self):
        done = self.promtool("check", "rules", RULES)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_each_alert_fires_when_it_should_and_not_otherwise(self):
        with open(RULES, encoding="utf-8") as rules:
            self.assertEqual(set(re.findall(r"alert: (\w+)", rules.read())), set(CASES))
        text = f"rule_files:\n- {RULES}\nevaluation_interval: 15s\ntests:\n"
        for alert, (fires, rests, when) in CASES.items():
            text += case(alert, fires, when, True) + case(alert, rests, when, False)
        for alert, code in MUTED_BY.items():
            fires, _, when = CASES[alert]
            text += case(alert, fires + [check_of(code, "yes")], when, False)
            text += case(alert, fires + [check_of(code, "no")], when, True)
            text += case(alert, fires + [check_of("data_lost", "yes")], when, True)
        self.check_promtool(text)

    def test_a_command_for_a_trace_selects_the_engine(self):
        """By the name that the server gave it, which has the engine's number at that server, not its rank."""
        begin = "It is in the stage EXECUTING on node1:9191. EXECUTING means that the device holds it, TRANSFER_IN or SENDING that the host does. "
        fires, _, when = CASES["FathomRequestStuck"]
        text = f"rule_files:\n- {RULES}\nevaluation_interval: 15s\ntests:\n"
        for up, option in (('fathom_engine_up{instance="node1:9191",engine="3",rank="0"}', " -s fathom3"),
                           ('fathom_engine_up{instance="node2:9191",engine="2",rank="0"}', ""),
                           ('fathom_engine_up{instance="node1:9191",engine="2",rank="1"}', "")):
            rows = "".join(f"  - series: '{name}'\n    values: '{values}'\n" for name, values in fires + [(up, "1+0x10")])
            text += f"""- interval: 1m
  input_series:
{rows}  alert_rule_test:
    - eval_time: {when}
      alertname: FathomRequestStuck
      exp_alerts:
      - exp_labels: {{instance: "node1:9191", rank: "0", volume: p/v, stage: EXECUTING, severity: critical}}
        exp_annotations:
          summary: A command on volume p/v has been under way for 3m 0s
          description: "{begin}Run on that host: fathom trace stuck{option}"
"""
        self.check_promtool(text)

    def test_the_page_says_what_muting_silences(self):
        with open(os.path.join(TOP, "src/rpc/figures/page.md"), encoding="utf-8") as page:
            self.assertEqual(dict(re.findall(r"^\| `(\w+)` \| `(\w+)` \|$", page.read(), re.M)),
                             {code: alert for alert, code in MUTED_BY.items()})

    def check_promtool(self, text):
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            file.write(text)
            file.flush()
            done = self.promtool("test", "rules", file.name)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_each_alert_ends_with_the_command_to_run(self):
        with open(RULES, encoding="utf-8") as rules:
            descriptions = re.findall(r'description: "(.*)"\n', rules.read())
        self.assertEqual(len(descriptions), len(CASES))
        for description in descriptions:
            self.assertRegex(re.sub(r"{{.*?}}", "X", description), r"(Run|run)( on that host)?: (fathom|systemctl) ([^.]|\.(?! ))*$")
            self.assertNotRegex(description, "FILE|NAME")      # it can be copied


if __name__ == "__main__":
    unittest.main()
