# SPDX-License-Identifier: BSD-2-Clause
"""`make install`: programs, man pages, documents, units, and libraries that other programs can be built with."""

import fnmatch
import os
import re
import shutil
import subprocess
import unittest

from harness import NQN, TOP, EngineTest, free_port, run

PAGES = ("fathom.1", "fathom-agent.8", "fathom_agent.yml.5", "fathom-engine.8", "fathom-helper.8", "fathom-server.8", "fathom-perf.1", "fathom-probe.1", "fathom-probed.8", "fathom-probes.1", "fathom-replay.1", "fathom-rpc.1", "fathom-top.1", "fathom-trace.1",
         "fathom-blame.1", "fathom-config.1", "fathom-core.1", "fathom-ddb.1", "fathom-doctor.1", "fathom-firmware.1", "fathom-host.1", "fathom-network.1", "fathom-pool.1", "fathom-server-command.1", "fathom-storage.1", "fathom-support.1", "fathom-system.1", "fathom-volume.1")
HERE = os.path.dirname(os.path.abspath(__file__))


class Installing(EngineTest):
    def setUp(self):
        super().setUp()
        build = os.environ.get("FATHOM_BUILD")
        if not build or os.environ.get("FATHOM_CONFINED"):
            self.skipTest("a writable build directory is needed (FATHOM_BUILD)")
        self.root = os.path.join(self.directory, "root")
        run("meson", "install", "-C", build, "--no-rebuild", "--destdir", self.root)
        self.prefix = os.path.join(self.root, "usr", "local")

    def find(self, name):
        for folder, _, files in os.walk(self.root):
            if name in files and not folder.endswith("completions"):
                return os.path.join(folder, name)
        self.fail(f"{name} is not installed")

    def test_programs_and_man_pages_are_installed(self):
        for name in ("fathom", "fathom-agent", "fathom-engine", "fathom-probed", "fathom-probes"):
            self.assertIn("usage", run(self.find(name), "--help").stdout.lower())
        for page in PAGES:
            self.find(page)
        self.assertTrue(os.path.exists(os.path.join(self.prefix, "share", "bash-completion", "completions", "fathom")))

    def test_programs_are_stripped_and_their_debug_info_is_in_usr_lib_debug(self):
        for name in ("fathom", "fathom-engine"):
            program = self.find(name)
            self.assertNotRegex(run("readelf", "-S", "--wide", program).stdout, r"\.(symtab|debug_info)\b")
            number = re.search(r"Build ID: (\w+)", run("readelf", "-n", program).stdout).group(1)
            symbols = os.path.join(self.root, "usr", "lib", "debug", ".build-id", number[:2], number[2:] + ".debug")
            self.assertRegex(run("readelf", "-S", "--wide", symbols).stdout, r"\.debug_info\b")
            self.assertEqual(os.stat(symbols).st_mode & 0o777, 0o644)

    def test_debug_info_goes_beside_the_program_if_usr_lib_debug_is_not_writable(self):
        folder = os.path.join(self.directory, "bin")
        os.mkdir(folder)
        program = shutil.copy(os.path.join(os.environ["FATHOM_BUILD"], "bin", "fathom"), folder)
        with open(os.path.join(self.directory, "usr"), "w"):
            pass    # a file, so that no folder of this name can be made
        run(os.path.join(TOP, "scripts", "split-debug"), "/bin/fathom", env=dict(os.environ, DESTDIR=self.directory))
        self.assertIn("fathom.debug", os.listdir(os.path.join(folder, ".debug")))
        self.assertIn(b"fathom.debug\0", open(program, "rb").read())

    @unittest.skipUnless(shutil.which("gdb"), "gdb is missing")
    def test_gdb_loads_our_commands_for_an_installed_engine(self):
        engine = self.engine(program=self.find("fathom-engine"))
        said = run("gdb", "-q", "-nx", "-batch", "-iex", f"set debug-file-directory {self.root}/usr/lib/debug", "-iex", "add-auto-load-safe-path /",
                   "-p", engine.pid, "-ex", "fathom_print_threads", cwd="/").stdout
        self.assertIn("thread app_thread (id 1), ACTIVE, on the control reactor", said)

    @unittest.skipUnless(shutil.which("lexgrog"), "lexgrog (man-db) is missing")
    def test_man_pages_have_a_name_line_and_a_synopsis_and_no_warnings(self):
        """lexgrog(1), the parser of apropos(1), finds the name; `man -l` prints the page without warnings."""
        for page in PAGES:
            path = self.find(page)
            self.assertIn(f'"{page[:-2]} - ', run("lexgrog", path).stdout)
            shown = run("man", "--warnings=w", "-l", path, env=dict(os.environ, MANWIDTH="200", LC_ALL="C", MAN_KEEP_FORMATTING=""))
            self.assertEqual(shown.stderr, "", page)
            if page.endswith(".5"):     # of a file, which has no command line
                continue
            synopsis = re.search(r"(?s)\nSYNOPSIS\n(.*?)\nDESCRIPTION", shown.stdout).group(1)
            uses = re.findall(r"(?m)^ {5,7}(\S+)( \S+)?", synopsis)
            self.assertTrue(uses, shown.stdout)
            typed = page[:-2] if page.endswith(".8") or page == "fathom-probes.1" else page[:-2].removesuffix("-command").replace("-", " ")
            for use in uses:
                self.assertTrue("".join(use).startswith(typed), synopsis)

    def test_man_pages_have_every_option_of_help(self):
        for page, words in (("fathom-engine.8", ["fathom-engine"]), ("fathom-probed.8", ["fathom-probed"]), ("fathom-probes.1", ["fathom-probes"]), ("fathom-perf.1", ["fathom", "perf"]),
                            ("fathom-probe.1", ["fathom", "probe"]),
                            ("fathom-rpc.1", ["fathom", "rpc"])):
            text = open(self.find(page)).read().replace("\\-", "-")
            said = run(self.find(words[0]), *words[1:], "--help").stdout
            options = set(re.findall(r"(?m)^ +(?:-\w, )?(--[a-z][a-z-]+)", said)) - {"--help"}
            self.assertTrue(options, said)
            self.assertEqual([option for option in sorted(options) if not re.search(option + r"(?![\w-])", text)], [], page)

    def test_links_in_installed_documents_name_installed_files(self):
        """Also the files that man pages name as docs/..."""
        folder = os.path.dirname(self.find("ARCHITECTURE.md"))
        links = []
        for at, _, files in os.walk(folder):
            for name in files:
                links += [os.path.join(at, link) for link in re.findall(r"\]\(([^)#:]+)\)", open(os.path.join(at, name)).read())]
        self.assertGreater(len(links), 10)
        for page in PAGES:
            links += [os.path.join(folder, name) for name in re.findall(r"\bdocs/[\w./-]+\.md", open(self.find(page)).read())]
        self.assertEqual([link for link in links if not os.path.exists(link)], [])

    def test_systemd_units_name_the_installed_program_and_the_documented_sockets(self):
        unit = open(self.find("fathom-probed.service")).read()
        program = re.search(r"ExecStart=(\S+)", unit)[1]
        self.assertTrue(os.path.exists(self.root + program), program)
        self.assertIn("Type=notify", unit)
        self.assertIn("ListenSequentialPacket=/run/fathom/probed.sock", open(self.find("fathom-probed.socket")).read())
        self.find("60-fathom-probed.rules")
        # the server's folder is private; /run/fathom holds the socket of fathom-probed, which all users may reach
        server = open(self.find("fathom-server.service")).read()
        self.assertEqual("/run/" + re.search(r"^RuntimeDirectory=(\S+)", server, re.MULTILINE)[1], "/run/fathom/server")
        self.assertIn("| `socket_dir` | a text | /run/fathom/server |", open(self.find("server-configuration.md")).read())

    def test_server_unit_sample_configuration_and_helper_conf_agree(self):
        unit, sample, listed = (open(self.find(name)).read() for name in ("fathom-server.service", "fathom-server.yml", "helper.conf"))
        user, state = (re.search(rf"^{key}=(\S+)", unit, re.MULTILINE)[1] for key in ("User", "StateDirectory"))
        said = dict(line.split() for line in listed.splitlines() if line and line[0] != "#")
        self.assertEqual(said["user"], user)
        self.assertRegex(open(self.find_in("sysusers.d", "fathom.conf")).read(), rf"(?m)^u {user} - ")
        mounts = re.findall(r"scm_mount: (\S+)", sample)
        generated = re.search(r'SERVER_MOUNTS_DEFAULT "(.*)"', open(os.path.join(TOP, "src/control/server/config/configuration.h")).read())[1]
        self.assertEqual({os.path.dirname(mount) for mount in mounts}, {said["mounts"]})
        self.assertEqual(generated, said["mounts"])
        # the helper refuses mounts below a folder that a user other than root may change, as the unit's StateDirectory
        self.assertFalse((said["mounts"] + "/").startswith(f"/var/lib/{state}/"))
        devices = re.findall(r"bdev_list: \[/dev/(\S+)\]", sample)
        self.assertTrue(devices and all(fnmatch.fnmatch(name, said["device"]) for name in devices), devices)
        self.assertIn("\n".join(line for line in listed.splitlines() if line and line[0] != "#"), open(self.find("fathom-helper.8")).read())

    def find_in(self, folder, name):
        path = os.path.join(self.prefix, "lib", folder, name)
        self.assertTrue(os.path.exists(path), path)
        return path

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("systemd-sysusers") and shutil.which("systemd-tmpfiles"),
                         "root, systemd-sysusers and systemd-tmpfiles are needed")
    def test_sysusers_and_tmpfiles_prepare_a_helper_that_accepts_helper_conf(self):
        """The helper runs in a namespace with /var/lib/fathom as the unit leaves it."""
        os.makedirs(os.path.join(self.root, "etc"))
        run("systemd-sysusers", f"--root={self.root}", self.find_in("sysusers.d", "fathom.conf"))
        run("systemd-tmpfiles", f"--root={self.root}", "--create", self.find_in("tmpfiles.d", "fathom.conf"))
        users = [line.split(":") for line in open(os.path.join(self.root, "etc", "passwd"))]
        uid, gid = next((int(words[2]), int(words[3])) for words in users if words[0] == "fathom")
        helper = self.find("fathom-helper")
        self.assertEqual((os.stat(helper).st_mode & 0o7777, os.stat(helper).st_uid, os.stat(helper).st_gid), (0o4750, 0, gid))
        checked = f"""
            mount --make-rprivate /
            umask 077
            for place in /srv /var/lib; do mount -t tmpfs -o mode=0755 none $place; done
            mkdir -m 0750 /var/lib/fathom
            chown {uid}:{gid} /var/lib/fathom
            mount --bind {self.root}/etc/passwd /etc/passwd
            cp {self.find("helper.conf")} /var/lib/helper.conf
            chmod 0644 /var/lib/helper.conf
            """
        done = run("unshare", "-m", "sh", "-e", "-c", checked + f"""
            {helper} -c /var/lib/helper.conf --check
            setpriv --reuid {uid} --regid {gid} --clear-groups ls -d /srv/fathom/.
            stat -c "%a %U" /srv/fathom""")
        self.assertIn(f"users:      root {uid}\n", done.stdout)
        self.assertTrue(done.stdout.endswith("/srv/fathom/.\n755 root\n"), done.stdout)
        # mounts below a folder of the user are refused, and nothing is created there
        done = run("unshare", "-m", "sh", "-c", checked + f"""
            echo mounts /var/lib/fathom/mnt >>/var/lib/helper.conf
            {helper} -c /var/lib/helper.conf --check; echo $?; ls /var/lib/fathom""")
        self.assertEqual(done.stdout, "1\n")
        self.assertIn("/var/lib/fathom can be changed by other users than root", done.stderr)

    @unittest.skipUnless(os.geteuid() == 0 and all(map(shutil.which, ("openssl", "systemd-sysusers", "systemd-tmpfiles", "useradd", "unshare"))),
                         "root, openssl, systemd-sysusers, systemd-tmpfiles, useradd and unshare are needed")
    def test_readme_commands_bring_a_storage_host_to_a_published_volume(self):
        """
        In namespaces where a script replaces systemctl and storage lies in folders. An ordinary user runs lines after `$`. The host has an interface
        beside loopback, as real hosts have: the server listens there.
        """
        lines = re.findall(r"(?m)^    ([#$]) (.*)$", open(os.path.join(TOP, "README.md")).read().split("## A host of engines\n")[1].split("\n## ")[0])
        self.assertGreater(len(lines), 8)
        self.assertRegex(lines.pop(0)[1], r"^apt update; apt install \./build/deb/fathom-\{engine,server,tools\}_\*\.deb$")   # test/packages does this
        unit = dict(re.findall(r"(?m)^(\w+)=(.*)$", open(self.find("fathom-server.service")).read()))
        script = ["set -e", "mount --make-rprivate /", "ip link set lo up",
                  # a kernel without veth leaves loopback alone
                  "! ip link add eth0 type veth peer name eth1 || { ip address add 192.0.2.11/24 dev eth0; ip link set eth1 up; ip link set eth0 up; }",
                  f"work={self.directory}/work", "mkdir $work", "mount -t tmpfs none $work",
                  "mkdir $work/new $work/mine $work/bin",
                  "mount -t overlay overlay -o lowerdir=/etc,upperdir=$work/new,workdir=$work/mine /etc",
                  "for place in /dev/shm /run /srv /var/lib; do mount -t tmpfs -o mode=0755 none $place; done", "chmod 1777 /dev/shm",
                  f"mount --bind {self.prefix} /usr/local", "useradd -M operator0", "umask 022",
                  f"printf '#!/bin/sh\ninstall -d -o {unit['User']} -g {unit['Group']} -m 0750 /run/{unit['RuntimeDirectory']} "
                  f"/var/lib/{unit['StateDirectory']}\ncd /; setpriv --reuid {unit['User']} --regid {unit['Group']} --init-groups "
                  f"{unit['ExecStart']} >&2 &\nfor i in $(seq 600); do ss -Hltn src 127.0.0.1:10001 | grep -q . && exit; sleep 0.1; done; exit 1\n' "
                  ">$work/bin/systemctl", "chmod 0755 $work $work/bin/systemctl", "PATH=$work/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]
        for prompt, line in lines:
            line = line.replace("ADMIN ", "operator0 ").replace("/usr/share/", "/usr/local/share/").replace("config generate", "config generate -F /var/lib/fathom -s 67108864") \
                .replace("storage format", "storage format --new-storage").replace(" 100G", " 16M")
            if prompt == "#":
                script.append(line)
                continue
            asked = f"setpriv --reuid operator0 --regid operator0 --init-groups {line}"
            script.append(f"for i in $(seq 300); do {asked} >$work/said || true; grep -q Joined $work/said && break; sleep 0.1; done; cat $work/said"
                          if "query" in line else asked)
        done = run("unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "sh", "-c", "\n".join(script), check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"(?m)^0 +[-0-9a-f]{36} [0-9.]+:10001 +/\S+ +Joined")
        self.assertRegex(done.stdout, r"(?m)^ +nvme connect -t tcp -a [0-9.]+ -s \d+ -n nqn\.2014-08\.org\.nvmexpress:uuid:\S+ --hostnqn ")

    def test_a_strict_c11_program_registers_with_the_installed_library(self):
        """Without a daemon the program prints nothing, and fathom_probe_refresh() returns 0."""
        source = os.path.join(self.directory, "stranger.c")
        with open(source, "w") as file:
            file.write('#include <fathom/probe.h>\nstatic const unsigned char dof[64] = { 0x7f, \'D\', \'O\', \'F\', [40] = 64 };\n'
                       "FATHOM_PROBE_REGISTER(dof);\nint main(void) { return fathom_probe_refresh() == 0 ? 0 : 1; }\n")
        env = dict(os.environ, PKG_CONFIG_PATH=os.path.dirname(self.find("fathom-probe.pc")), PKG_CONFIG_SYSROOT_DIR=self.root)
        flags = subprocess.check_output(["pkg-config", "--cflags", "--libs", "fathom-probe"], env=env, text=True).split()
        archive = [flag for flag in flags if not flag.startswith("-l")] + [self.find("libfathom-probe.a"), "-pthread"]
        for name, words in (("shared", flags), ("static", archive)):
            program = os.path.join(self.directory, name)
            run("cc", "-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", source, "-o", program, *words)
            done = run(program, env=dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(self.find("libfathom-probe.so.0")),
                                         FATHOM_PROBED_SOCKET=os.path.join(self.directory, "none")))
            self.assertEqual(done.stdout + done.stderr, "")

    def library_flags(self, library, *words):
        """What pkg-config prints. It also puts the sysroot before paths of the system, which does no harm."""
        env = dict(os.environ, PKG_CONFIG_PATH=os.path.dirname(self.find(library + ".pc")), PKG_CONFIG_SYSROOT_DIR=self.root)
        return subprocess.check_output(["pkg-config", *words, library], env=env, text=True).split()

    def library_environment(self):
        return dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(self.find("libfathom-initiator.so.0")))

    def build_program(self, source, library="fathom-initiator", static=False):
        """Build a program from `source` and the installed library with the flags of pkg-config; its path."""
        program = os.path.join(self.directory, "program")
        words = self.library_flags(library, "--cflags", "--libs", *(["--static"] if static else []))
        if static:
            words = [self.find(f"lib{library}.a") if word == f"-l{library}" else word for word in words]
        run("cc", "-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-D_POSIX_C_SOURCE=200809L", os.path.join(HERE, source),
            "-o", program, *words)
        needed = run("readelf", "-d", program).stdout
        self.assertEqual(f"lib{library}.so.0" in needed, not static, needed)
        return program

    def serve_disk(self):
        engine = self.engine()
        engine.serve("bdev_malloc_create", "-b", "Disk0", 16, 512)
        return "127.0.0.1", engine.port, NQN

    @unittest.skipUnless(shutil.which("pkg-config"), "pkg-config is missing")
    def test_a_program_with_libfathom_initiator_reads_back_what_it_wrote(self):
        served = self.serve_disk()
        for static in (False, True):
            program = self.build_program("use_initiator.c", static=static)
            self.assertIn("same bytes", run(program, *served, env=self.library_environment()).stdout)

    @unittest.skipUnless(shutil.which("pkg-config"), "pkg-config is missing")
    def test_functions_of_a_program_with_names_of_our_internal_ones_are_not_called(self):
        served = self.serve_disk()
        for static in (False, True):
            program = self.build_program("own_names.c", static=static)
            self.assertRegex(run(program, *served, env=self.library_environment()).stdout, "^0 calls of mine, fault: .*refused")

    @unittest.skipUnless(shutil.which("pkg-config"), "pkg-config is missing")
    def test_a_program_with_libfathom_control_queries_two_systems(self):
        port = free_port()
        refused = (f"query: the server at 127.0.0.1:{port} refused the connection (code 506): check that a server runs there and "
                   "listens on this port\n")
        hosts = f"its hosts are 127.0.0.1:{port}\n"
        for static in (False, True):
            program = self.build_program("use_control.c", "fathom-control", static=static)
            self.assertEqual(run(program, f"127.0.0.1:{port}", "other", env=self.library_environment()).stdout,
                             f"the system is fathom, {hosts}the system is other, {hosts}{refused}{refused}"
                             f"127.0.0.1:{port}: the server at 127.0.0.1:{port} refused the connection\n")
            done = run(program, f"127.0.0.1:{port}", "no/name", env=self.library_environment(), check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn('"no/name" is no name of a system', done.stdout)

    @unittest.skipUnless(shutil.which("pkg-config"), "pkg-config is missing")
    def test_our_archives_can_be_linked_into_another_shared_library(self):
        """`gcc -shared` takes the whole archive; a program linked with the result finds our function by dlsym()."""
        main = os.path.join(self.directory, "main.c")
        with open(main, "w") as file:
            file.write("#include <dlfcn.h>\nint main(int argc, char **argv) { return argc == 2 && dlsym(RTLD_DEFAULT, argv[1]) ? 0 : 2; }\n")
        program = os.path.join(self.directory, "main")
        for library, source, name in (("fathom-initiator", "use_initiator.c", "fathom_connect"), ("fathom-control", "use_control.c", "fathom_control_open"),
                                      ("fathom-probe", None, "fathom_probe_add")):
            plugin = os.path.join(self.directory, f"{library}.so")
            words = self.library_flags(library, "--static", "--cflags", "--libs")
            words = [word for word in words if word != f"-l{library}"]
            run("cc", "-shared", "-fPIC", "-Wl,--no-undefined", "-Wl,-z,text", *([os.path.join(HERE, source)] if source else []), "-o", plugin,
                "-Wl,--whole-archive", self.find(f"lib{library}.a"), "-Wl,--no-whole-archive", *words)
            run("cc", "-D_GNU_SOURCE", main, "-o", program, "-Wl,--no-as-needed", plugin, "-ldl")
            run(program, name)

    @unittest.skipUnless(shutil.which("pkg-config") and shutil.which("g++"), "pkg-config or g++ is missing")
    def test_headers_compile_as_strict_c_plus_plus(self):
        source = os.path.join(self.directory, "use.cc")
        for library, header in (("fathom-initiator", "initiator"), ("fathom-control", "control"), ("fathom-probe", "probe")):
            with open(source, "w") as file:
                file.write(f"#include <fathom/{header}.h>\nint main() {{ return 0; }}\n")
            for standard in ("-std=c++11", "-std=c++17"):
                run("g++", standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", source, "-o", os.path.join(self.directory, "use"),
                    *self.library_flags(library, "--cflags", "--libs"))

    def test_libraries_define_only_the_global_names_that_their_headers_declare(self):
        for library in ("initiator", "control"):
            with open(os.path.join(TOP, "include", "fathom", f"{library}.h")) as file:
                header = file.read()
            declared = set(re.findall(r"(?<!define )\b(fathom_\w+)(?:\((?!options\))|\[\])", re.sub(r"/\*.*?\*/", "", header, flags=re.S)))
            declared -= {"fathom_done_fn"} | {name for name in declared if name + "_bytes" in declared}
            for words in (["-g", self.find(f"libfathom-{library}.a")], ["-D", self.find(f"libfathom-{library}.so.0.1.0")]):
                lines = [line.split() for line in run("nm", "--defined-only", *words).stdout.splitlines()]
                names = {line[2].split("@")[0] for line in lines if len(line) == 3 and line[1] != "A"}
                self.assertEqual(sorted(names), sorted(declared), library)

    def test_shared_libraries_have_sonames_and_versions_and_no_debug_info(self):
        for library in ("initiator", "control"):
            path = self.find(f"libfathom-{library}.so.0.1.0")
            self.assertIn(f"[libfathom-{library}.so.0]", run("readelf", "-d", path).stdout)
            self.assertIn(f"FATHOM_{library.upper()}_0.1", run("readelf", "-V", path).stdout)
            for suffix in ("", ".0"):
                self.assertEqual(os.path.realpath(self.find(f"libfathom-{library}.so{suffix}")), os.path.realpath(path))
            sections = run("readelf", "-S", "--wide", path).stdout
            self.assertNotIn(".debug_info", sections)
            self.assertNotIn("TEXTREL", run("readelf", "-d", path).stdout)
            self.assertNotIn(".debug_info", run("readelf", "-S", "--wide", self.find(f"libfathom-{library}.a")).stdout)

    def test_man_pages_of_section_3_and_examples_are_installed(self):
        for name in ("libfathom-initiator.3", "libfathom-control.3", "libfathom-probe.3", "libfathom-trace.3", "use_initiator.c", "use_control.c", "abi.md"):
            self.assertGreater(os.path.getsize(self.find(name)), 500)


if __name__ == "__main__":
    unittest.main()
