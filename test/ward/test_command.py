# SPDX-License-Identifier: BSD-2-Clause
"""fathom doctor: how it finds an engine, its archive, its exit statuses, and certificates."""

import json
import os
import signal
import socket
import tarfile
import unittest

from ward import FATHOM, Ward, diagnose, illness, run

import hanging


class Command(Ward):
    def doctor(self, *words, status):
        done = run(FATHOM, "doctor", *words, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def test_an_engine_is_found_by_each_of_its_names(self):
        engine = self.engine()
        name = f"{engine.name} (pid {engine.pid})"
        for target in (engine.pid, engine.name, engine.sock, engine.trace_path):
            self.assertIn(f"{name}: healthy", self.doctor(target, status=0).stdout)
        self.assertIn(f"{name}: healthy", self.doctor(status=0).stdout)     # the only one

    def test_what_cannot_be_looked_at_is_status_3(self):
        fifo = os.path.join(self.directory, "fifo")
        os.mkfifo(fifo)
        for words in (["/nonexistent"], [fifo], [self.directory], ["--past"], ["no-such-name"], [4000000], ["--wrong"], ["a", "b"], [os.getpid()], [os.path.abspath(__file__)]):
            self.assertTrue(self.doctor(*words, status=3).stderr.startswith("fathom doctor: "))

    def test_errors_say_what_to_type(self):
        path = os.path.join(self.directory, "left.sock")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)     # as an engine leaves it that was killed
        error = self.doctor(path, status=3).stderr
        self.assertIn(f"{path}: no process listens there. If its engine has ended, type the engine's name or process id instead", error)
        error = self.doctor(os.getpid(), status=3).stderr
        self.assertIn(f"process {os.getpid()} is no engine: it has no trace file and listens on no control socket\n", error)

    def test_an_archive_gives_the_same_findings_on_another_machine(self):
        engine, path = self.engine(), os.path.join(self.directory, "bundle.tar")
        os.kill(engine.pid, signal.SIGSTOP)
        first = diagnose(engine.pid, "--bundle", path)
        os.kill(engine.pid, signal.SIGCONT)
        with tarfile.open(path) as archive:
            self.assertEqual(archive.getnames(), ["evidence.json", "report.json", "report.txt", "trace"])
            report = json.load(archive.extractfile("report.json"))
            archive.extract("evidence.json", self.directory)
            archive.extract("trace", self.directory)
        self.assertEqual(report["findings"], first["findings"])
        for target in (path, os.path.join(self.directory, "evidence.json")):
            self.assertEqual(diagnose(target)["findings"], first["findings"])
        self.assertIn(engine.name, run(FATHOM, "trace", "threads", "-f", os.path.join(self.directory, "trace")).stdout)
        self.assertIn("--force", self.doctor("--bundle", path, engine.pid, status=3).stderr)
        self.doctor("--bundle", path, "--force", engine.pid, status=0)

    def test_a_file_on_a_file_system_that_does_not_answer(self):
        file = hanging.HangingFile(self.directory, 1 << 20)
        try:
            file.hang(hanging.READ)
            self.assertIn("its file system does not answer", self.doctor(file.path, status=3).stderr)
        finally:
            file.close()

    def test_a_stopped_engine_with_a_full_backlog(self):
        engine, clients = self.engine(), []
        os.kill(engine.pid, signal.SIGSTOP)
        try:
            while True:
                clients.append(socket.socket(socket.AF_UNIX))
                clients[-1].setblocking(False)
                clients[-1].connect(engine.sock)
        except BlockingIOError:
            pass
        for target in (engine.pid, engine.sock):
            names = [row["name"] for row in diagnose(target)["findings"]]
            self.assertEqual((names[0], "control_silent" in names), ("process_stopped", True))
        for client in clients:
            client.close()

    @illness("a certificate has expired", "certificate_expired")
    def test_an_expired_certificate(self):
        engine, key, request = self.engine(), os.path.join(self.directory, "a.key"), os.path.join(self.directory, "request")
        run("openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-subj", "/CN=server", "-out", request)
        run("openssl", "x509", "-req", "-in", request, "-signkey", key, "-days", "-1", "-out", os.path.join(self.directory, "server.crt"))
        report = diagnose(engine.pid, "--certificates", self.directory)
        self.assertEqual(report["findings"][0]["name"], "certificate_expired")
        self.assertIn("server.crt", report["findings"][0]["says"])


if __name__ == "__main__":
    unittest.main()
