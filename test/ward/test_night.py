# SPDX-License-Identifier: BSD-2-Clause
"""
Faults at random, and the doctor is asked about each: it names them, says nothing of faults that are not there, and does not call present what is past.

    FATHOM_NIGHT_SECONDS=300 FATHOM_BUILD=$PWD/build FATHOM_BIN=$PWD/build/bin python3 test/system/confined.py --as-root test/ward/test_night.py

FATHOM_NIGHT_SECONDS: the length, default an hour. FATHOM_NIGHT_SEED: repeats the order of faults. FATHOM_NIGHT_MINUTE: seconds between two faults,
default 60. FATHOM_NIGHT_FAULTS: a regular expression for names of faults. FATHOM_NIGHT_LOG: a file to which each row is appended when it is known;
scripts/run-tests names one and prints its last row each minute. FILE.reports has the reports of misses and false alarms.

A round: one fault of night_faults.py is put in, sometimes two, sometimes none, or none and a host sends as fast as it can. The doctor is asked once; its report is judged. The fault is removed;
then the doctor is asked until no finding above "note" is of the present. Each round is a row, and the table at the end has a row for each fault.
"""

import contextlib
import json
import os
import random
import re
import time
import traceback
import unittest

import night_faults  # noqa: F401  # pylint: disable=unused-import
from night import FAULTS, Night

SECONDS = float(os.environ.get("FATHOM_NIGHT_SECONDS", "3600"))
ROUND_SECONDS = float(os.environ.get("FATHOM_NIGHT_MINUTE", "60"))
RECOVERY_SECONDS = 120      # longer than any finding may call an ended fault present
NONE_IN, TWO_IN = 12, 5     # one round of so many has no fault; two


def is_present(row):
    """Is the finding of the present, and more than a note? Not one that the doctor calls only possible: this machine may be too busy to know."""
    return row["severity"] != "note" and row["ended_ms_ago"] is None and row["certainty"] != "possible"


def text_of(row):
    return " ".join([row["says"], *row["evidence"]])


def names(rows):
    return " ".join(row["name"] for row in rows) or "-"


class Tally:
    """What is known of one fault."""

    def __init__(self):
        self.put = self.named = self.first = 0
        self.seconds, self.recoveries, self.problems = [], [], []

    def row(self, fault):
        def spread(values):
            return f"{sum(values) / len(values):.1f} ({max(values):.1f})" if values else "-"
        return f"{fault.text:48} {fault.finding:24} {self.put:4} {self.named:5} {self.first:5}   {spread(self.seconds):12} {spread(self.recoveries):14}"


class TestNight(Night):
    def setUp(self):
        self.seed = int(os.environ.get("FATHOM_NIGHT_SEED", "0")) or random.randrange(1, 1 << 31)
        self.chance = random.Random(self.seed)
        self.tallies, self.misses, self.false_alarms, self.unrecovered, self.broken = {}, [], [], [], []
        self.queue, self.healthy_rounds, self.double_rounds, self.questions = [], 0, 0, 0
        folder = os.environ.get("FATHOM_PROGRESS")
        self.log_path = os.environ.get("FATHOM_NIGHT_LOG") or folder and os.path.join(folder, "night")
        self.wanted = [fault for fault in FAULTS if re.search(os.environ.get("FATHOM_NIGHT_FAULTS", ""), fault.key)]
        super().setUp()

    def say(self, text=""):
        print("# " + text, flush=True)
        if self.log_path:
            with open(self.log_path, "a", encoding="utf-8") as file:
                file.write(text + "\n")

    # ---- the choice ----

    def next_fault(self, usable=lambda fault: True):
        """All faults in random order, then all of them again; the first usable one."""
        for _ in range(2):
            for fault in self.queue:
                if usable(fault):
                    self.queue.remove(fault)
                    return fault
            more = list(self.wanted)
            self.chance.shuffle(more)
            self.queue += more
        return None

    def choose(self):
        if len(self.wanted) > 1 and self.chance.randrange(NONE_IN) == 0:
            return []
        first = self.next_fault()
        if not first.uses or first.restarts or len(self.wanted) == 1 or self.chance.randrange(TWO_IN) != 0:
            return [first]
        second = self.next_fault(lambda fault: fault.uses and not fault.restarts and not fault.uses & first.uses)
        # the socket goes last and comes back first: other faults need it
        return sorted([first, second] if second else [first], key=lambda fault: "socket" in fault.uses)

    # ---- a round ----

    def ask(self, target=None):
        self.questions += 1
        return self.diagnose(target)

    def judge(self, faults, details, report, seconds):
        """The verdict, as a text for the row."""
        present = [row for row in report["findings"] if row["ended_ms_ago"] is None]
        verdicts, explained = [], set()
        for fault, detail in zip(faults, details):
            tally = self.tallies.setdefault(fault.key, Tally())
            found = [index for index, row in enumerate(present) if row["name"] == fault.finding and detail in text_of(row)]
            tally.put += 1
            tally.seconds.append(seconds)
            tally.named += bool(found)
            tally.first += bool(found) and found[0] == 0
            explained.update(found)
            if found:
                verdicts.append("first" if found[0] == 0 else "second" if len(faults) > 1 and found[0] < 2 else f"at place {found[0] + 1}")
            else:
                verdicts.append("MISSED")
                self.misses.append(f"{fault.text}: {fault.finding} {detail}: the doctor says: {names(report['findings'])}")
                self.keep(report)
        causes = {present[index]["name"] for index in explained}
        allowed = {name for fault in faults for name in fault.also}
        wrong = [row for index, row in enumerate(present) if is_present(row) and index not in explained and row["because_of"] not in causes and
                 row["name"] not in allowed]
        self.note_false_alarms(faults, wrong, report)
        return ", ".join(verdicts or ["healthy" if not wrong else "no"]) + (f"; FALSE: {names(wrong)}" if wrong else "")

    def note_false_alarms(self, faults, rows, report):
        for row in rows:
            self.false_alarms.append(f"{' and '.join(fault.text for fault in faults) or 'no fault'}: {row['name']}: {row['says']}")
        if rows:
            self.keep(report)

    def keep(self, report):
        """For a closer look: the report of a miss or of a false alarm."""
        if self.log_path:
            with open(self.log_path + ".reports", "a", encoding="utf-8") as file:
                file.write(json.dumps(report, indent=1) + "\n")

    def recover(self, faults):
        """Ask until the doctor sees the fault no more, or as past; the seconds."""
        began = time.monotonic()
        if any(fault.restarts for fault in faults):
            self.restart()
        self.wait_served()
        while True:
            report, _ = self.ask()
            present = [row for row in report["findings"] if is_present(row)]
            spent = time.monotonic() - began
            if not present:
                return spent, [row for row in report["findings"] if row["ended_ms_ago"] is not None]
            if spent > RECOVERY_SECONDS:
                self.unrecovered.append(f"{' and '.join(fault.text for fault in faults)}: {RECOVERY_SECONDS} s after its removal: {names(present)}")
                self.keep(report)
                self.restart()
                return None, []
            self.tend()
            time.sleep(3)

    def round(self, number):
        faults = self.choose()
        flood = not faults and self.chance.randrange(2) == 0
        self.tend()
        with contextlib.ExitStack() as stack:
            if flood:
                stack.enter_context(self.flooded())
            details = [stack.enter_context(fault.put(self)) for fault in faults]
            dead = self.patient.process.poll() is not None
            report, seconds = self.ask(self.patient.trace_path if dead else None)
            verdict = self.judge(faults, details, report, seconds)
        recovered, past = self.recover(faults)
        for fault in faults if recovered is not None else []:
            self.tallies[fault.key].recoveries.append(recovered)
        self.healthy_rounds += not faults
        self.double_rounds += len(faults) > 1
        self.say(f"{number:3}  {' and '.join(fault.key for fault in faults) or ('no fault, a host floods' if flood else 'no fault'):60} {seconds:5.1f} s  {verdict}; "
                 f"{'NOT RECOVERED' if recovered is None else f'recovered in {recovered:.0f} s'}; past: {names(past)}")

    def survive(self, number, error):
        """The round itself failed: say so, and go on with a new engine."""
        self.broken.append(f"round {number}: {str(error).splitlines()[0] if str(error) else type(error).__name__}")
        self.say(f"{number:3}  {self.broken[-1]}")
        self.say("".join(traceback.format_exception(type(error), error, error.__traceback__)))
        self.restart()

    # ---- the night ----

    def report(self):
        self.say()
        self.say(f"{'fault':48} {'finding':24}  put named first   doctor, s    recovered, s")
        for fault in self.wanted:
            if fault.key in self.tallies:
                self.say(self.tallies[fault.key].row(fault))
        put = sum(tally.put for tally in self.tallies.values())
        self.say(f"{put} faults were put in, {sum(tally.named for tally in self.tallies.values())} named, "
                 f"{sum(tally.first for tally in self.tallies.values())} in the first finding; {self.double_rounds} rounds had two, {self.healthy_rounds} none; "
                 f"the doctor was asked {self.questions} times")
        for title, rows in (("missed", self.misses), ("false alarms", self.false_alarms), ("not recovered", self.unrecovered), ("failed rounds", self.broken)):
            self.say(f"{title}: {len(rows) or 'none'}")
            for row in rows:
                self.say("    " + row)
        self.say("hosts connected again: " + ", ".join(f"{name} {count - 1}" for name, count in self.starts.items()))

    def test_each_fault_of_a_night_is_named(self):
        self.say(f"seed {self.seed}, {SECONDS:.0f} s, {len(self.wanted)} kinds of faults; FATHOM_NIGHT_SEED={self.seed} repeats it")
        began, number = time.monotonic(), 0
        while time.monotonic() < began + SECONDS:
            number += 1
            at = time.monotonic()
            try:
                self.round(number)
            except unittest.SkipTest as error:
                self.say(f"{number:3}  cannot be made here: {error}")
            except Exception as error:   # one round must not end the night  # pylint: disable=broad-except
                self.survive(number, error)
            self.tend()
            time.sleep(max(0, min(at + ROUND_SECONDS, began + SECONDS) - time.monotonic()))
        self.report()
        self.assertEqual(self.misses + self.false_alarms + self.unrecovered + self.broken, [])


if __name__ == "__main__":
    unittest.main()
