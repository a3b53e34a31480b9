# SPDX-License-Identifier: BSD-2-Clause
"""
Debian packages are built in one clean chroot and installed and removed in another; the image is built from them.

This needs root, and Debian's archive for the chroots. Builds and programs in them have no network.
"""

import filecmp
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(TOP, "test", "system"), os.path.dirname(os.path.abspath(__file__))]

from chroots import ORDINARY, Chroot, field, names  # noqa: E402
from harness import NQN, Engine, free_port, run  # noqa: E402

MAKE_DEB = os.path.join(TOP, "scripts", "make-deb")
MAKE_IMAGE = os.path.join(TOP, "scripts", "make-image")
TOOLS = ("mmdebstrap", "dpkg-buildpackage", "dh", "lintian", "umoci", "runc", "unshare")
PROFILE = "/usr/share/containers/seccomp.json"
PROGRAMS = ("fathom", "fathom-agent", "fathom-engine", "fathom-server", "fathom-helper", "fathom-probed")
place = None    # the folder for all files of this test
debs = None     # the folder of the packages


def build_packages(chroot, tree, folder):
    """Build the packages of `tree` below `folder` of a chroot as an ordinary user. Return the folder with the packages."""
    at = chroot.copy(tree, folder)
    chroot.run(f"cd {at}; dpkg-buildpackage -b -us -uc", user=ORDINARY)
    return chroot.root + folder


def setUpModule():
    global place, debs
    missing = [name for name in TOOLS if not shutil.which(name)]
    if os.geteuid() != 0 or missing:
        raise unittest.SkipTest(f"takes root and {' '.join(missing or TOOLS)}")
    place = tempfile.mkdtemp(prefix="fathom-packages-", dir="/var/tmp")
    os.chmod(place, 0o755)
    try:
        build_all()
    except BaseException:
        tearDownModule()    # unittest does not call it after a failure here
        raise


def build_all():
    global debs
    tree = run(MAKE_DEB, "--tree", os.path.join(place, "source")).stdout.strip()
    control = open(os.path.join(tree, "debian", "control")).read()
    needed = re.search(r"(?m)^Build-Depends: (.*(?:\n .*)*)", control)[1]
    Built.chroot = Chroot(os.path.join(place, "build"), "buildd", names(needed.replace("debhelper-compat", "debhelper").
                          replace("dh-sequence-installsysusers", "debhelper")))
    Built.tree = tree
    debs = build_packages(Built.chroot, tree, "/one")


def tearDownModule():
    shutil.rmtree(place, ignore_errors=True)


class Built(unittest.TestCase):
    def test_lintian_finds_no_error_and_no_warning(self):
        # until the entry page fathom(1) is in the tree
        later = [] if os.path.exists(os.path.join(TOP, "docs", "man", "fathom.1")) else ["--suppress-tags", "no-manual-page"]
        done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", *later, *glob.glob(os.path.join(debs, "*.changes"))],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_each_program_and_library_has_a_debug_package(self):
        for path in glob.glob(os.path.join(debs, "*.deb")):
            package = field(path, "Package")
            if package.endswith("-dbgsym") or package in ("fathom-doc", "libfathom-dev", "libfathom-control0"):
                continue
            self.assertEqual(len(glob.glob(os.path.join(debs, f"{package}-dbgsym_*.deb"))), 1, package)

    def test_an_upgrade_restarts_a_running_server_and_stops_no_engine(self):
        scripts = os.path.join(place, "scripts")
        run("dpkg-deb", "-e", glob.glob(os.path.join(debs, "fathom-server_*.deb"))[0], scripts)
        text = {name: open(os.path.join(scripts, name)).read() for name in ("postinst", "prerm", "postrm")}
        self.assertEqual(re.findall(r"deb-systemd-invoke (.*?) >", text["postinst"]), ["try-restart 'fathom-server.service'"])
        self.assertEqual(re.findall(r"deb-systemd-invoke (.*?) >", text["prerm"]), ["stop fathom-engines.service fathom-server.service"])
        self.assertIn('if [ "$1" = remove ]', text["prerm"])
        self.assertNotIn("deb-systemd-invoke", text["postrm"])
        self.assertFalse(os.path.exists(os.path.join(scripts, "preinst")))

    def test_packages_of_the_same_tree_in_another_folder_are_identical(self):
        other = build_packages(self.chroot, self.tree, "/another/place")
        packages = sorted(name for name in os.listdir(debs) if name.endswith(".deb"))
        self.assertGreater(len(packages), 15)
        self.assertEqual([name for name in packages if not filecmp.cmp(os.path.join(debs, name), os.path.join(other, name), shallow=False)], [])


class Installed(unittest.TestCase):
    """All packages in one chroot. The cases are steps, in the order of their names."""

    @classmethod
    def setUpClass(cls):
        paths = glob.glob(os.path.join(debs, "*.deb"))
        cls.ours = sorted(field(path, "Package") for path in paths)
        needed = [name for path in paths for name in names(field(path, "Depends") + "," + field(path, "Pre-Depends")) if name not in cls.ours]
        cls.chroot = Chroot(os.path.join(place, "install"), "minbase", needed)
        for path in paths:
            cls.chroot.copy(path, "/debs")
        cls.before = cls.chroot.files()
        cls.version = field(paths[0], "Version")

    def test_1_packages_install_with_their_dependencies(self):
        self.chroot.run("dpkg -i /debs/*.deb")
        self.assertEqual(self.chroot.run("dpkg --audit").stdout, "")
        helper = self.chroot.run("stat -c '%a %U %G' /usr/bin/fathom-helper").stdout
        self.assertEqual(helper, "4750 root fathom\n")
        self.assertRegex(self.chroot.run("dpkg-query -W -f '${Conffiles}' fathom-server fathom-tools").stdout,
                         r"(?s)/etc/fathom/helper\.conf .*/etc/fathom/fathom_control\.yml ")

    def test_2_each_program_prints_its_version_and_help(self):
        for name in PROGRAMS:
            said = self.chroot.run(f"{name} --version").stdout
            self.assertIn(self.version, said)
            self.assertNotIn("fault injection", said)
            self.assertIn("usage", self.chroot.run(f"{name} --help").stdout.lower())
        self.assertIn("usage", self.chroot.run("fathom-probes --help").stdout.lower())

    def test_3_an_engine_serves_a_volume_to_an_ordinary_user(self):
        done = self.chroot.run(f"""
            fathom-engine -r /tmp/e.sock --name packaged 2> /tmp/log & engine=$!
            for i in $(seq 200); do fathom rpc -s /tmp/e.sock framework_wait_init 2> /dev/null > /dev/null && break; sleep 0.05; done
            fathom rpc -s /tmp/e.sock <<END
nvmf_create_transport -t tcp
nvmf_create_subsystem {NQN} -a
nvmf_subsystem_add_listener {NQN} -t tcp -a 127.0.0.1 -s 4420
bdev_malloc_create -b Disk0 16 512
nvmf_subsystem_add_ns {NQN} Disk0
END
            fathom perf -a 127.0.0.1 -s 4420 -n {NQN} --rw mix --bs 4k --depth 8 --time 1 --verify
            fathom trace summary -s packaged | head -20
            kill $engine
            wait $engine || {{ cat /tmp/log; exit 1; }}
            ls /dev/shm
            """, user=ORDINARY)
        self.assertRegex(done.stdout, r"verified: \d+ blocks read back, 0 reads were wrong")
        self.assertIn("nvmf_req", done.stdout)

    def test_4_the_registry_starts_and_stops(self):
        done = self.chroot.run("""
            fathom-probed --no-cuse 2> /tmp/log & daemon=$!
            for i in $(seq 200); do [ -S /run/fathom/probed.sock ] && break; sleep 0.05; done
            fathom probe registry
            kill $daemon
            wait $daemon || { cat /tmp/log; exit 1; }
            cat /tmp/log
            """)
        self.assertNotIn("ERROR", done.stdout)

    def test_5_a_generated_configuration_is_valid(self):
        done = self.chroot.run("""
            fathom-server config generate -i lo -F /var/tmp/storage > /tmp/server.yml
            grep -q '^engines:' /tmp/server.yml
            fathom-server config check /tmp/server.yml
            fathom-helper --check
            """)
        self.assertIn("/tmp/server.yml is valid", done.stdout)
        self.assertRegex(done.stdout, r"users: +root \d+")

    def test_6_the_server_formats_storage_and_runs_an_engine(self):
        """Started like the unit, without certificates: the script that makes them needs openssl, which is only recommended."""
        self.addCleanup(self.chroot.run, "rm -rf /var/lib/fathom")
        done = self.chroot.run("""
            ask() { fathom "$@" -i -l 127.0.0.1; }
            install -d -o fathom -g fathom -m 0750 /run/fathom/server /var/lib/fathom /tmp/storage /tmp/storage/engine0
            fathom-server config generate --insecure -i lo -F /tmp/storage -s 67108864 > /tmp/server.yml
            (cd /; exec setpriv --reuid fathom --regid fathom --init-groups fathom-server start -o /tmp/server.yml) > /tmp/log 2>&1 & server=$!
            for i in $(seq 100); do ask storage scan > /tmp/said 2>&1 && break; sleep 0.1; done
            ask storage format || { cat /tmp/log; exit 1; }
            for i in $(seq 300); do ask system query -v > /tmp/said && grep -q Joined /tmp/said && break; sleep 0.1; done
            cat /tmp/said
            ask system stop
            kill $server
            wait $server
            """)
        self.assertRegex(done.stdout, r"(?m)^0 +[-0-9a-f]{36} 127\.0\.0\.1:10001 +/\S+ +Joined")

    def test_7_a_removal_leaves_conffiles_and_a_purge_nothing(self):
        self.chroot.run(f"dpkg --remove {' '.join(self.ours)}")
        self.assertEqual(sorted(os.listdir(self.chroot.root + "/etc/fathom")), ["fathom_agent.yml", "fathom_control.yml", "helper.conf"])
        self.chroot.run(f"dpkg --purge {' '.join(self.ours)}")
        after = self.chroot.files()
        self.assertEqual(sorted(set(after) - set(self.before)), [])
        self.assertEqual(sorted(set(self.before) - set(after)), [])
        self.assertEqual([path for path in after if after[path] != self.before[path]], [])


def seccomp(path):
    """Debian's profile for containers in the runtime's form: for this machine, and a process without capabilities."""
    profile = json.load(open(path))
    calls = []
    for rule in profile["syscalls"]:
        includes, excludes = rule.get("includes") or {}, rule.get("excludes") or {}
        if includes.get("caps") or "amd64" not in includes.get("arches", ["amd64"]) or "amd64" in excludes.get("arches", []):
            continue
        calls.append({key: rule[key] for key in ("names", "action", "args", "errnoRet") if rule.get(key) not in (None, [])})
    return {"defaultAction": profile["defaultAction"], "defaultErrnoRet": profile["defaultErrnoRet"], "architectures": ["SCMP_ARCH_X86_64"],
            "syscalls": calls}


@unittest.skipUnless(os.path.exists(PROFILE), f"takes {PROFILE} (golang-github-containers-common)")
class Image(unittest.TestCase):
    """The image in runc, as an ordinary user, with the seccomp profile of containers, on the host's network."""

    @classmethod
    def setUpClass(cls):
        cls.image = os.path.join(place, "image")
        cls.tag = run(MAKE_IMAGE, debs, cls.image, env=dict(os.environ, SOURCE_DATE_EPOCH="1000000000"), timeout=600).stdout.strip()

    def setUp(self):
        self.bundle = os.path.join(place, "bundle")
        run("umoci", "unpack", "--image", self.tag, self.bundle)
        os.chmod(self.bundle, 0o711)
        self.shared = os.path.join(self.bundle, "shared")
        os.mkdir(self.shared)
        os.chown(self.shared, ORDINARY, ORDINARY)

    def tearDown(self):
        shutil.rmtree(self.bundle, ignore_errors=True)

    def configure(self):
        """umoci's config.json with the changes of `docker run --network host -v .../shared:/run/fathom`."""
        path = os.path.join(self.bundle, "config.json")
        config = json.load(open(path))
        config["linux"]["seccomp"] = seccomp(PROFILE)
        config["linux"]["namespaces"] = [one for one in config["linux"]["namespaces"] if one["type"] != "network"]
        config["linux"].pop("resources", None)
        config["process"].update(terminal=False, capabilities={}, args=config["process"]["args"] + ["-r", "/run/fathom/engine.sock", "--name", "imaged"])
        config["mounts"].append({"destination": "/run/fathom", "type": "bind", "source": self.shared, "options": ["rbind", "rw"]})
        json.dump(config, open(path, "w"))
        return config

    def test_the_engine_serves_a_file_under_the_profile_of_containers(self):
        config = self.configure()
        self.assertEqual((config["process"]["user"]["uid"], config["process"]["args"][0]), (ORDINARY, "fathom-engine"))
        name, log = f"fathom-test-{os.getpid()}", os.path.join(self.bundle, "log")
        with open(log, "w") as file:
            container = subprocess.Popen(["runc", "run", "--bundle", self.bundle, name], stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        self.addCleanup(subprocess.run, ["runc", "delete", "--force", name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        engine = Engine.__new__(Engine)     # an engine that the harness did not start
        engine.directory, engine.name, engine.sock, engine.port = self.bundle, name, os.path.join(self.shared, "engine.sock"), free_port()
        engine.process, engine.log, engine.log_path = container, open(log), log
        engine.wait_ready()
        with open(os.path.join(self.shared, "disk"), "wb") as file:
            file.truncate(16 << 20)
        os.chown(os.path.join(self.shared, "disk"), ORDINARY, ORDINARY)
        engine.serve("bdev_uring_create", "/run/fathom/disk", "Disk0", 512)
        engine.perf("--rw", "mix", "--bs", "4k", "--depth", "16", "--time", "1", "--verify")
        pid = json.loads(run("runc", "state", name).stdout)["pid"]
        status = dict(re.findall(r"(?m)^(\w+):\s+(.*)$", open(f"/proc/{pid}/status").read()))
        self.assertEqual((status["Uid"].split()[0], status["CapEff"], status["NoNewPrivs"], status["Seccomp"]), (str(ORDINARY), "0" * 16, "1", "2"))
        self.assertIn("refuses io_uring", open(log).read())
        run("runc", "kill", name, "TERM")
        self.assertEqual(container.wait(timeout=30), 0, open(log).read())

    def test_the_image_has_no_shell_and_no_set_user_id_programs(self):
        found, special = set(), []
        for folder, _, files in os.walk(os.path.join(self.bundle, "rootfs")):
            for name in files:
                found.add(name)
                if os.lstat(os.path.join(folder, name)).st_mode & 0o6000:
                    special.append(name)
        self.assertEqual(special, [])
        self.assertTrue({"fathom", "fathom-engine"} <= found)
        self.assertEqual(found & {"sh", "bash", "dash", "hostname", "resolv.conf"}, set())

    def test_images_of_the_same_packages_are_identical(self):
        other = os.path.join(place, "image-again")
        run(MAKE_IMAGE, debs, other, env=dict(os.environ, SOURCE_DATE_EPOCH="1000000000"), timeout=600)
        self.assertEqual(open(os.path.join(self.image, "index.json")).read(), open(os.path.join(other, "index.json")).read())


if __name__ == "__main__":
    unittest.main()
