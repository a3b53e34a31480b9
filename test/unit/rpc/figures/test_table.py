# SPDX-License-Identifier: BSD-2-Clause
"""The table of metrics: errors name file and line, the page is up to date, and rules and dashboard use only its names."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

TOP = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 4))
FOLDER = os.path.join(TOP, "src/rpc/figures")
TABLE = os.path.join(FOLDER, "figures.def")
sys.path.insert(0, FOLDER)

import figure_table  # noqa: E402 (lies in the folder of the generator)

GOOD = 'section A\ncounter box_bytes by=engine labels=box unit=bytes bound="boxes"\n\thelp Bytes in boxes.\n'
NAME = re.compile(r"\bfathom_[a-z0-9_]+")


def read_text(text):
    with tempfile.NamedTemporaryFile("w", suffix=".def") as table:
        table.write(text)
        table.flush()
        try:
            return figure_table.families(table.name)
        except figure_table.TableError as error:
            return str(error).replace(table.name, "FILE")


def dashboard_queries(value):
    """All queries of a dashboard."""
    if isinstance(value, dict):
        for key, one in value.items():
            if key in ("expr", "query", "definition") and isinstance(one, str):
                yield one
            else:
                yield from dashboard_queries(one)
    elif isinstance(value, list):
        for one in value:
            yield from dashboard_queries(one)


class Table(unittest.TestCase):
    def test_a_family_is_read(self):
        family, = read_text(GOOD)
        self.assertEqual((family.sample_name, family.labels, family.unit, family.bound), ("fathom_box_bytes_total", ["box"], "bytes", "boxes"))

    def test_errors_name_the_line(self):
        for wrong, right, message in (
                ("counter box", "meter box", "FILE:2: meter is none of counter"),
                ("by=engine ", "", "FILE:3: box_bytes: by= names none of"),
                ("by=engine", "by=toaster", "FILE:3: box_bytes: by= names none of"),
                ("unit=bytes", "unit=miles", "is none of bytes celsius seconds"),
                (" unit=bytes", "", "FILE:3: box_bytes ends with bytes, which is not its unit"),
                ("box_bytes", "box", "box does not end with its unit"),
                ("box_bytes", "box_total", '"box_total" is not the name of a family'),
                ("box_bytes", "Box_bytes", "is not the name of a family"),
                ("labels=box", "labels=le", "le and rank are not its own labels"),
                ("labels=box", "labels=rank", "le and rank are not its own labels"),
                (' bound="boxes"', "", "bound= is missing"),
                ("boxes.", "boxes", "help is no sentence"),
                ("section A\n", "", "FILE:1: no section begins before it"),
                ("labels=box", "colour=red", '"colour=red" is unknown'),
                ("\thelp Bytes in boxes.\n", "", "FILE:2: box_bytes has no help")):
            with self.subTest(message):
                self.assertIn(message, read_text(GOOD.replace(wrong, right)))
        self.assertIn("FILE:4: box_bytes is there twice", read_text(GOOD + GOOD.partition("\n")[2]))

    def test_the_real_table_has_unique_names_of_samples(self):
        names = [name for family in figure_table.families(TABLE) for name in family.sample_names]
        self.assertEqual(len(names), len(set(names)))
        self.assertGreater(len(names), 40)

    def test_the_page_is_up_to_date(self):
        made = subprocess.run([os.path.join(FOLDER, "generate.py"), "--page", TABLE], stdout=subprocess.PIPE, text=True, check=True).stdout
        with open(os.path.join(TOP, "docs/metrics.md"), encoding="utf-8") as page:
            self.assertEqual(page.read(), made, "run `make metric-page`")


class Users(unittest.TestCase):
    """The rules and the dashboard."""

    def check_names(self, text):
        known = {name for family in figure_table.families(TABLE) for name in family.sample_names}
        used = set(NAME.findall(text))
        self.assertTrue(used)
        self.assertEqual(used - known, set())
        return used

    def test_rules_use_only_metrics_of_the_table(self):
        with open(os.path.join(TOP, "packaging/prometheus/fathom.rules.yml"), encoding="utf-8") as rules:
            self.check_names(rules.read())

    def test_the_dashboard_uses_only_metrics_of_the_table(self):
        with open(os.path.join(TOP, "packaging/grafana/fathom.json"), encoding="utf-8") as file:
            dashboard = json.load(file)
        queries = list(dashboard_queries(dashboard))
        self.assertGreater(len(queries), 15)
        self.assertGreater(len(self.check_names("\n".join(queries))), 15)
        ids = [panel["id"] for panel in dashboard["panels"]]
        self.assertEqual(len(ids), len(set(ids)))

    def test_labels_in_queries_are_those_of_the_metric(self):
        labels = {name: {*family.labels, "le", "rank", "instance", "job"} for family in figure_table.families(TABLE) for name in family.sample_names}
        with open(os.path.join(TOP, "packaging/prometheus/fathom.rules.yml"), encoding="utf-8") as rules, \
                open(os.path.join(TOP, "packaging/grafana/fathom.json"), encoding="utf-8") as dashboard:
            text = rules.read() + "\n".join(dashboard_queries(json.load(dashboard)))
        for name, selector in re.findall(r"\b(fathom_[a-z0-9_]+)\{([^}]*)\}", text):
            for label in re.findall(r"([a-z_]+)\s*(?:=~|!~|!=|=)", selector):
                self.assertIn(label, labels[name], f"{name}{{{selector}}}")


if __name__ == "__main__":
    unittest.main()
