# SPDX-License-Identifier: BSD-2-Clause
"""The doctor compares the present with the engine's own past: that in its trace file, and that in a recording."""

import json
import os
import signal
import tarfile
import unittest

from ward import FATHOM, Ward, diagnose, run, wait_for

DEVICE = "EE_M1"
NOTES = 4       # before and after the change
SLOW_US = 100000


class Past(Ward):
    def notes(self, engine, since=0):
        """Notes of the device's reads, newer than the first `since`: [(reads, average in us)]."""
        text = engine.trace("--json", "-n", "history_device", "-f", engine.trace_path, check=False).stdout
        rows = [row["args"] for row in map(json.loads, text.splitlines()) if row.get("name", "").lower() == "history_device"]
        return [(row["ios"], row["time"] / 1000 / row["ios"]) for row in rows if row["device"] == DEVICE and row["op"] == "READS"][since:]

    def serving(self):
        engine = self.engine("--history", "1")
        self.error_device(engine)
        self.load(engine, "--nsid", 2, "--rw", "read", "--depth", 32, "--rate", 200)
        wait_for(lambda: len([reads for reads, _ in self.notes(engine) if reads >= 20]) >= NOTES, pause=0.2)
        return engine

    def finding(self, engine, name):
        """The finding of this name in a report; the machine may be too busy for the first one."""
        def find():
            self.report = diagnose(engine.pid)
            return next((row for row in self.report["findings"] if row["name"] == name), None)
        return wait_for(find)

    def test_a_device_that_was_fast(self):
        engine = self.serving()
        count = len(self.notes(engine))
        self.inject(engine, "delay", num=1000000, delay_us=SLOW_US)
        wait_for(lambda: len([us for reads, us in self.notes(engine, count) if reads >= 20 and us >= SLOW_US]) >= 2, pause=0.2)
        found = self.finding(engine, "latency_grew")
        self.assertRegex(found["says"], rf"^reads of {DEVICE} take longer than before: \d+\.\d+ m?s in the last minute, .* in the \d+ (s|min) before$")
        self.assertIn("the stage bdev_io DISPATCHED grew", " ".join(found["evidence"]))
        self.assertIn(f"fathom blame {DEVICE} -f {engine.trace_path}", found["see"])

    def test_a_load_that_ends_is_a_note_and_a_recording_has_the_past(self):
        engine = self.serving()
        path = os.path.join(self.directory, "recording")
        recorder = self.program(FATHOM, "trace", "record", "-f", engine.trace_path, "-o", path)
        wait_for(lambda: os.path.exists(path) and run(FATHOM, "trace", "summary", "-f", path, check=False).returncode == 0, pause=0.2)
        bundle = os.path.join(self.directory, "bundle.tar")

        def recorded():
            diagnose(engine.pid, "--bundle", bundle, "--force")
            with tarfile.open(bundle) as archive:
                evidence = json.load(archive.extractfile("evidence.json"))
            return evidence["recording"] if DEVICE in evidence["recording"].get("past", {}).get("devices", {}) else None
        self.assertEqual(wait_for(recorded)["path"], path)
        recorder.send_signal(signal.SIGINT)
        recorder.wait(60)
        report = diagnose(path)     # a recording by itself
        self.assertEqual((report["health"], "trace_copy" in [row["name"] for row in report["findings"]]), ("healthy", True))
        host = self.loads[0]
        host.kill()
        host.wait()
        found = self.finding(engine, "rate_dropped")
        self.assertRegex(found["says"], rf"^{DEVICE} has no I/O now, and had \d+ a second on average in the \d+ (s|min) before$")
        self.assertEqual(found["severity"], "note")
        diagnose(engine.pid, "--past", path)
        self.assertIn("/nonexistent", json.dumps(diagnose(engine.pid, "--past", "/nonexistent")))


if __name__ == "__main__":
    unittest.main()
