# SPDX-License-Identifier: BSD-2-Clause
"""The archive of `fathom doctor --bundle` has no secret, wherever one stands: each is planted, and none is found."""

import os
import tarfile
import unittest

from ward import FATHOM, NQN, RpcError, Ward, run

SECRET = "Zq7Planted"
TLS_KEY = f"NVMeTLSkey-1:01:{SECRET}{'A' * 38}:"
DHCHAP_KEY = f"DHHC-1:00:{SECRET}{'B' * 38}:"
PRIVATE_KEY = f"-----BEGIN PRIVATE KEY-----\n{SECRET}\nMIGHAgEAMBMG\n-----END PRIVATE KEY-----\n"


class Bundle(Ward):
    def plant(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(path, 0o600)
        return path

    @staticmethod
    def read(path):
        with open(path, "rb") as file:
            return file.read()

    def test_no_secret_is_in_the_archive(self):
        self.plant("tls.key", TLS_KEY)
        config = self.plant(f"engine-{SECRET}.json", '{"subsystems": []}')
        self.plant("server.key", PRIVATE_KEY)
        self.plant("server.pem", PRIVATE_KEY)
        self.plant("fathom_server.yml", f"name: fathom_server\npassword: {SECRET}\n")
        engine = self.engine("--config", config, "--state", os.path.join(self.directory, "state.json"),
                             env={"FATHOM_TEST_TOKEN": SECRET, "FATHOM_TEST_KEY": TLS_KEY})
        self.assertIn(SECRET.encode(), self.read(f"/proc/{engine.pid}/cmdline"))
        self.assertIn(SECRET.encode(), self.read(f"/proc/{engine.pid}/environ"))
        engine.serve("bdev_malloc_create", "-b", "M0", 16, 512)
        # names that an operator gives get into the trace, the saved configuration, and the answers of the control socket
        for name in (TLS_KEY, DHCHAP_KEY):
            engine.rpc("bdev_malloc_create", name=name, num_blocks=2048, block_size=512)
        engine.rpc("nvmf_create_subsystem", nqn="nqn.2026-11.org.fathom:s", model_number=f"password={SECRET}")
        with self.assertRaises(RpcError):       # the log has the call
            engine.rpc("nvmf_subsystem_add_host", nqn=NQN, host="nqn.2026-11.org.fathom:host", dhchap_key=DHCHAP_KEY)
        self.assertIn(SECRET.encode(), self.read(engine.trace_path))
        self.assertIn(SECRET.encode(), self.read(os.path.join(self.directory, "state.json")))
        path = os.path.join(self.directory, "bundle.tar")
        run(FATHOM, "doctor", "--certificates", self.directory, "--bundle", path, engine.pid, check=False)
        self.assertNotIn(SECRET.encode(), self.read(path))
        with tarfile.open(path) as archive:
            self.assertIn(b"NVMeTLSkey-1:*", archive.extractfile("trace").read())
            self.assertIn(b"M0", archive.extractfile("evidence.json").read())
            archive.extract("trace", self.directory)
        self.assertIn(engine.name, run(FATHOM, "trace", "threads", "-f", os.path.join(self.directory, "trace")).stdout)


if __name__ == "__main__":
    unittest.main()
