# SPDX-License-Identifier: BSD-2-Clause
"""gdb/fathom.py under Debian's gdb: on a running engine and on the core of one that was killed with 200 I/Os under way."""

import json
import os
import re
import shutil
import signal
import subprocess
import threading
import unittest

from control_rig import SERVER, SystemTest
from core_rig import HELD, CoreTest
from harness import ENGINE, FATHOM, NQN, TOP, run

LISTS = ("fathom_print_bdevs", "fathom_print_io_devices", "fathom_print_nvmf_subsystems", "fathom_print_threads", "fathom_print_reactors",
         "fathom_print_pollers", "fathom_print_qpairs", "fathom_print_requests")
SPLIT = os.path.join(TOP, "scripts", "split-debug")


def gdb(*words, commands=(), debug=None, source=True):
    """Run commands in one session of gdb: {command: its output}, and all output as {None: ...}. `source`: the program may load its scripts."""
    line = ["gdb", "-q", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-iex", "set height 0", "-iex", "set width 0"]
    if source:
        line += ["-iex", "add-auto-load-safe-path /"]
    if debug:
        line += ["-iex", f"set debug-file-directory {debug}"]
    for command in commands:
        line += ["-ex", f"echo \\n@@@{command}\\n", "-ex", command]
    done = subprocess.run([*line, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100, cwd="/")
    output = {}
    for part in done.stdout.split("\n@@@")[1:]:
        command, _, text = part.partition("\n")
        output[command] = re.sub(r"\n?\[Inferior \d+ \(.*\) (detached|killed)\]\n?", "", text).rstrip("\n")
    output[None] = done.stdout
    return output


def count_of(output):
    """The number in a list's last line."""
    return int(re.match(r"\d+", output.splitlines()[-1]).group())


def wrong_fields(program, table, directory):
    """The fields in a table of gdb/fathom/structures.py that the program lacks or has with another type."""
    script = os.path.join(directory, "check.py")
    with open(script, "w") as f:
        f.write(f"""
import gdb, json
from fathom import structures
from fathom.memory import shape
wrong = []
for tag, fields in structures.{table}.items():
    try:
        there = {{member.name: shape(member.type) for member in gdb.lookup_type("struct " + tag).fields()}}
    except gdb.error as error:
        wrong.append(str(error))
        continue
    wrong += [f"struct {{tag}}: {{name}} is {{there.get(name)}}, the scripts take it for {{kind}}"
              for name, kind in fields.items() if there.get(name) != kind]
print(json.dumps(wrong))
""")
    return json.loads(gdb(program, commands=[f"source {script}"])[f"source {script}"])


@unittest.skipUnless(shutil.which("gdb"), "gdb is missing")
class Gdb(CoreTest):
    def check_no_python_error(self, output):
        """The output has no error of Python."""
        for text in ("Traceback", "Python Exception", "Error occurred in Python"):
            self.assertNotIn(text, output)

    # ---- lists, compared with RPCs ----

    def check_lists(self, output, rpc):
        for command in LISTS:
            self.check_no_python_error(output[command])
        bdevs = output["fathom_print_bdevs"]
        self.assertEqual(count_of(bdevs), len(rpc["bdevs"]))
        for row in rpc["bdevs"]:
            self.assertRegex(bdevs, rf"\(struct bdev \*\) 0x[0-9a-f]+  bdev \"{row['name']}\" \({row['product_name']}\), {row['num_blocks']} blocks "
                                    rf"of {row['block_size']} bytes{', claimed' if row['claimed'] else ''}, ")
        channels = [(thread["name"], channel["name"], channel["ref"]) for thread in rpc["channels"] for channel in thread["io_channels"]]
        found = re.findall(r"(?m)^    .*channel to (\S+) of (\S+), (\d+) reference", output["fathom_print_io_devices"])
        self.assertEqual(sorted((thread, device, int(count)) for device, thread, count in found), sorted(channels))
        found = re.findall(r"(?m)^    .*channel to (\S+) of (\S+), (\d+) reference", output["fathom_print_threads"])
        self.assertEqual(sorted((thread, device, int(count)) for device, thread, count in found), sorted(channels))
        self.assertEqual(output["fathom_print_threads"].splitlines()[-1], f"{len(rpc['threads'])} threads, {len(channels)} channels")
        self.assertEqual(re.findall(r"  thread (\S+) \(id (\d+)\)", output["fathom_print_threads"]),
                         [(row["name"], str(row["id"])) for row in rpc["threads"]])
        subsystems = output["fathom_print_nvmf_subsystems"]
        self.assertEqual(count_of(subsystems), len(rpc["subsystems"]))
        for row in rpc["subsystems"]:
            self.assertRegex(subsystems, rf"subsystem {re.escape(row['nqn'])} \(id \d+\), ACTIVE, {len(row.get('namespaces', []))} namespace")
            for space in row.get("namespaces", []):
                self.assertIn(f"namespace {space['nsid']} of {row['nqn']} on \"{space['bdev_name']}\"", subsystems)
        reactors = output["fathom_print_reactors"]
        self.assertEqual(count_of(reactors), len(rpc["reactors"]) + 1)
        for row in rpc["reactors"]:
            self.assertIn(f"(CPU {row['lcore']}), tid {row['tid']}, 1 thread, ", reactors)
        pollers = [(thread["name"], poller["name"], poller["id"], state) for thread in rpc["pollers"]
                   for state in ("active", "timed", "paused") for poller in thread[f"{state}_pollers"]]
        found = re.findall(r"  poller (\S+) \(id (\d+)\), (\w+), .*, of (\S+)$", output["fathom_print_pollers"], re.M)
        self.assertEqual(sorted((thread, name, int(id), state) for name, id, state, thread in found), sorted(pollers))
        self.assertEqual(count_of(output["fathom_print_pollers"]), len(pollers))
        found = re.findall(r"qid (\d+), from ([\d.]+):(\d+), ENABLED, (\d+) requests?, .* of controller (\d+), host (\S+)$",
                           output["fathom_print_qpairs"], re.M)
        self.assertEqual(sorted((int(qid), port, int(cntlid), host) for qid, _, port, _, cntlid, host in found),
                         sorted((row["qid"], row["peer_address"]["trsvcid"], row["cntlid"], row["hostnqn"]) for row in rpc["qpairs"]))
        self.assertEqual(sum(int(row[3]) for row in found), HELD)
        self.assertEqual(count_of(output["fathom_print_qpairs"]), len(rpc["qpairs"]))
        requests = output["fathom_print_requests"]
        self.assertEqual(count_of(requests), HELD)
        self.assertEqual(sorted(re.findall(r"nvmf_req (r\d+): READ, cid (\d+), nsid 2, 4096 bytes, EXECUTING for .* on \"EE_Disk0\"$", requests, re.M)),
                         sorted((row["object"], str(row["args"]["cid"])) for row in rpc["stuck"] if row["object_type"] == "nvmf_req"))

    def rpc_view(self, engine):
        stuck = [json.loads(line) for line in run(FATHOM, "trace", "stuck", "--older-than", "0", "--json", "-s", engine.name, check=False).stdout.splitlines()]
        return {
            "bdevs": engine.rpc("bdev_get_bdevs"), "channels": engine.rpc("thread_get_io_channels")["threads"],
            "threads": engine.rpc("thread_get_stats")["threads"], "subsystems": engine.rpc("nvmf_get_subsystems"),
            "reactors": engine.rpc("framework_get_reactors")["reactors"], "pollers": engine.rpc("thread_get_pollers")["threads"],
            "qpairs": engine.rpc("nvmf_subsystem_get_qpairs", nqn=NQN), "stuck": [row for row in stuck if "object_type" in row],
        }

    def test_lists_of_a_live_engine_and_of_its_core_equal_those_of_the_rpcs(self):
        engine = self.engine_with_held_reads()
        rpc = self.rpc_view(engine)
        more = ("fathom_print_requests --older-than 3600000", "fathom_print_requests --older-than 0 cid.1[0-9],", "fathom_find_bdev EE_",
                "fathom_print_bdevs ^.*Spare", f"fathom_print_io {self.find_stuck_request(rpc)['object']}", "fathom_trace 5", "fathom_load_macros", "p bdevs", "p *bdevs.tqh_first",
                "p registry.threads", "p nvmf_tgt.subsystems")
        live = gdb("-p", engine.pid, commands=LISTS + more)
        self.check_lists(live, rpc)
        dead = gdb(ENGINE, self.core_of(engine), commands=LISTS + more)
        self.check_lists(dead, rpc)
        for output in (live, dead):
            self.check_other_commands(output, rpc)
        self.check_trace(dead["fathom_trace 5"], engine)

    @staticmethod
    def find_stuck_request(rpc):
        return next(row for row in rpc["stuck"] if row["object_type"] == "nvmf_req")

    def check_other_commands(self, output, rpc):
        self.check_no_python_error(output[None])
        self.assertEqual(output["fathom_print_requests --older-than 3600000"], "0 requests")
        self.assertRegex(output["fathom_print_requests --older-than 0 cid.1[0-9],"], rf"\n\d+ of {HELD} requests$")
        self.assertRegex(output["fathom_find_bdev EE_"], r"(?s)bdev \"EE_Disk0\".*: 100 under way, 100 at the backend, 0 queued\n.*\n1 bdev$")
        self.assertRegex(output["fathom_print_bdevs ^.*Spare"], rf"^.*\"Spare\".*\n1 of {len(rpc['bdevs'])} bdevs$")
        self.assertIn("Nothing to load", output["fathom_load_macros"])
        self.assertTrue(output["p bdevs"].startswith(f"$1 = a list of {len(rpc['bdevs'])} = {{[0] (struct bdev *) 0x"), output["p bdevs"])
        self.assertRegex(output["p *bdevs.tqh_first"], r'^\$2 = bdev "Disk0" \(Malloc disk\), 131072 blocks of 512 bytes, claimed, opened 1 time$')
        self.assertIn("a list of 3 = {[0] (struct fathom_thread *)", output["p registry.threads"])
        self.assertIn(NQN, output["p nvmf_tgt.subsystems"])
        stuck = self.find_stuck_request(rpc)
        name, io = stuck["object"], "i" + stuck["object"][1:]
        chain = output[f"fathom_print_io {name}"]
        for text in (f"nvmf_req {name}: READ, cid %d, nsid 2" % stuck["args"]["cid"], "<-- this one", f"subsystem {NQN}", "to namespace 2 of",
                     f"bdev_io {io}: READ of 8 blocks at %d on \"EE_Disk0\", DISPATCHED for" % stuck["args"]["lba"], f"for nvmf_req {name}\n",
                     "SUBMITTED at ", "held by a rule of the faulty device: pending"):
            self.assertIn(text, chain)

    def check_trace(self, output, engine):
        """The records that `fathom_trace` prints are the last ones of the trace file."""
        rows = [json.loads(line) for line in run(FATHOM, "trace", "-f", engine.trace_path, "--json").stdout.splitlines()]
        events = {(f"{row['time_us']:.3f}", row["name"].upper()) for row in rows if "name" in row}
        lines = re.findall(r"(?m)^ *(?:-|\d+): +([\d.]+) us.(\w+)", output.replace("us~ ", "us~").replace("us  ", "us "))
        self.assertGreater(len(lines), 10)
        self.assertLessEqual(set(lines), events)
        self.assertEqual(count_of(output), len(lines))
        # functions are printed by name
        self.assertNotRegex(output, r" function: 0x")
        newest = [row for row in rows if "name" in row][-1]
        self.assertEqual(lines[-1], (f"{newest['time_us']:.3f}", newest["name"].upper()))

    # ---- one I/O ----

    def test_an_io_is_found_by_each_of_its_addresses_and_shown_with_its_request_and_parts(self):
        engine = self.engine_with_held_reads("bdev_error_create EE_Disk0\n")     # on top of the device that holds reads
        listed = gdb("-p", engine.pid, commands=["fathom_print_requests"])["fathom_print_requests"].splitlines()
        self.assertEqual(len(listed), HELD + 1)
        request = re.match(r"(\(struct nvmf_req \*\) (0x\w+))  nvmf_req (r\d+)", listed[77])
        typed, address, name = request.groups()
        first = gdb("-p", engine.pid, commands=[f"fathom_print_io {address}"])[f"fathom_print_io {address}"]
        ios = re.findall(r"(?m)^ +(\(struct bdev_io \*\) 0x\w+)$", first)
        self.assertRegex(first, rf'(?s)^nvmf_req {name}: READ.*<-- this one.*\n    bdev_io (i\d+): .* on "EE_EE_Disk0", DISPATCHED for .*for nvmf_req {name}\n.*'
                                r'\n        bdev_io i\d+: .* on "EE_Disk0", DISPATCHED for .*, for bdev_io \1\n.*held by a rule of the faulty device: pending$')
        self.assertEqual(len(ios), 2, first)
        output = gdb("-p", engine.pid, commands=[f"fathom_print_io {word}" for word in (typed, name, *ios, ios[1].split()[-1])])
        output.pop(None)
        self.assertEqual(len(output), 5)
        untimed = lambda text: re.sub(r"\d[\d.]* [mun]?s\b|    <-- this one", "", text)
        for text in output.values():
            self.assertEqual(untimed(text), untimed(first))
        self.assertRegex(output[f"fathom_print_io {ios[1]}"], r'on "EE_Disk0", .*<-- this one')

    def test_an_io_is_printed_as_a_sentence_at_a_breakpoint(self):
        engine = self.engine()
        engine.serve("bdev_malloc_create", "-b", "Disk0", 16, 512)
        host = subprocess.Popen([FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", NQN, "--bs", "4k", "--depth", "1", "--time", "60",
                                 "--timeout", "0", "--quiet"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.hosts.append(host)
        self.wait(lambda: engine.rpc("nvmf_get_stats")["poll_groups"][0]["completed_nvme_io"] > 0)
        output = gdb("-p", engine.pid, commands=["break bdev_io_complete", "continue", "p *io", "fathom_print_io io", "p io->type", "p/r *io", "info locals",
                                                 "fathom_print_io io->backend", "delete", "detach"])
        self.assertRegex(output["p *io"], r'^\$1 = bdev_io i\d+: READ of 8 blocks at \d+ on "Disk0", DISPATCHED for .*, for nvmf_req r\d+$')
        self.assertRegex(output["fathom_print_io io"], r'(?s)^nvmf_req r\d+: READ, .*bdev_io i\d+: .*<-- this one')
        self.assertEqual(output["p io->type"], "$2 = IO_TYPE_READ")
        self.assertIn("block_index = ", output["p/r *io"])
        self.assertIn("neither an nvmf_req nor a bdev_io", output["fathom_print_io io->backend"])
        engine.rpc("bdev_get_bdevs")

    def test_pieces_of_a_split_io_and_requests_at_the_kernel_are_shown(self):
        engine = self.engine()
        engine.serve("bdev_malloc_create", "-b", "Disk0", "--optimal-io-boundary", 4, 16, 512)
        engine.run_commands(f"bdev_uring_create {self.file('volume', 16)} File0 4096\nnvmf_subsystem_add_ns {NQN} File0\n")
        for nsid, place, shown, wanted in (
                (1, "malloc_submit", "io", r'(?s)^nvmf_req (r\d+): READ.*\n    bdev_io (i\d+): READ of 8 blocks at \d+ on "Disk0", SPLIT for .*, for nvmf_req \1\n'
                 r'.*\n        split: 1 piece under way\n        bdev_io i\d+: READ of 4 blocks at \d+ on "Disk0", DISPATCHED for .*, for .*<-- this one'),
                (2, "uring_submit", "(struct bdev_io *) ((char *) op - (unsigned long) &((struct bdev_io *) 0)->backend)", r'(?s)^nvmf_req (r\d+): READ.*bdev_io i\d+: READ of 1 block at (\d+) on "File0", DISPATCHED for .*'
                 r'\n        at the kernel: URING_READV of descriptor \d+ at byte \d+, 0 bytes done before$')):
            host = subprocess.Popen([FATHOM, "perf", "-a", "127.0.0.1", "-s", str(engine.port), "-n", NQN, "--nsid", str(nsid), "--bs", "4k", "--depth", "1",
                                     "--time", "60", "--timeout", "0", "--quiet"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.hosts.append(host)
            command = f"fathom_print_io {shown}"
            output = gdb("-p", engine.pid, commands=[f"break {place}", "continue", command, "delete", "detach"])
            self.assertRegex(output[command], wanted)
            host.kill()

    def test_volumes_and_their_exports_are_printed(self):
        storage = os.path.join(self.directory, "storage")
        os.mkdir(storage)
        engine = self.engine("--storage", storage, "--listen", "127.0.0.1:0")
        engine.run_commands("pool_create p1\nvolume_create p1 db 8M\nvolume_publish p1 db nqn.2026-11.org.fathom:host\n")
        nqn = engine.rpc("volume_get_volumes")[0]["nqn"]
        output = gdb("-p", engine.pid, commands=["p *exports.list.tqh_first", "p *storage.volumes.pools.tqh_first.volumes.tqh_first",
                                                 "fathom_print_volumes", "p *storage.volumes.pools.tqh_first"])
        self.assertRegex(output["p *exports.list.tqh_first"], rf"^\$1 = export {nqn}, SERVED$")
        self.assertRegex(output["p *storage.volumes.pools.tqh_first.volumes.tqh_first"], r"^\$2 = volume p1/db, ONLINE, 8388608 bytes, 1 host$")
        self.assertRegex(output["fathom_print_volumes"], r"^\(struct volume \*\) 0x\w+  volume p1/db, ONLINE, 8388608 bytes, 1 host\n1 volume$")
        self.assertRegex(output["p *storage.volumes.pools.tqh_first"], r"^\$3 = pool p1, ONLINE, 1 volume$")

    def test_print_shows_each_structure_as_the_lists_do(self):
        engine = self.engine_with_held_reads()
        output = gdb("-p", engine.pid, commands=(*LISTS, "fathom_find_bdev EE_"))
        lines = {}      # one of each kind
        for text in output.values():
            for typed, kind, sentence in re.findall(r"(?m)^ *(\(struct (\w+) \*\) 0x\w+)  (.*)$", text):
                lines.setdefault(kind, (typed, sentence))
        self.assertLessEqual({"bdev", "bdev_channel", "device", "channel", "fathom_thread", "reactor", "poller", "nvmf_subsystem", "nvmf_ns", "nvmf_ctrlr",
                              "nvmf_qpair", "nvmf_req"}, set(lines))
        others = {
            "p nvmf_tgt.groups[0][0]": r'poll group nvmf_tgt_poll_group_000: \d+ queue pairs?, ',
            "p *registry.threads.tqh_first->interned_name": r'"app_thread" \(string \d+\)',
            "p registry.threads.tqh_first->trace": r"t0",
            "p bdevs.tqh_first->descriptors": r"a list of 1 = {.*bdev descriptor of \"Disk0\"",
            "p bdevs.tqh_first->trace": r"b\d+",
            "p nvmf_tgt.listens.tqh_first->address": rf"TCP 127.0.0.1:{engine.port}",
            f"p ({lines['nvmf_req'][0]})->story": r"r\d+ EXECUTING for .*, age .*",
            f"p ({lines['nvmf_req'][0]})->io": r'bdev_io i\d+: READ of 8 blocks at \d+ on "EE_Disk0", DISPATCHED for ',
            f"p ({lines['bdev_channel'][0]})->queue": r"an empty list",
            f"p ({lines['nvmf_qpair'][0]})->reqs": r"a list of \d+|an empty list",
        }
        printed = gdb("-p", engine.pid, commands=[*(f"p *{typed}" for typed, _ in lines.values()), *others])
        self.assertNotIn("shows the fields", printed[None])
        self.check_no_python_error(printed[None])
        untimed = lambda text: re.sub(r"\d[\d.]* ?([mun]?s\b|%|turns|of them busy)|ran \d+ times?|asleep|running \S+( \(\S+\))?", "", text)
        for kind, (typed, sentence) in lines.items():
            text = printed[f"p *{typed}"].split(" = ", 1)[1]
            if kind == "nvmf_req":      # the list adds the device
                sentence = sentence.rsplit(", on ", 1)[0]
            self.assertEqual(untimed(text), untimed(sentence), kind)
        for command, wanted in others.items():
            self.assertRegex(printed[command], r"^\$\d+ = (" + wanted + ")", command)

    def test_ctrl_c_in_gdb_stops_the_engine_and_does_not_end_it(self):
        engine = self.engine()
        session = subprocess.Popen(["gdb", "-q", "-nx", "-p", str(engine.pid), "-ex", "continue", "-ex", "info threads", "-ex", "detach", "-ex", "quit"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd="/", start_new_session=True)
        self.wait(lambda: "TracerPid:\t0\n" not in open(f"/proc/{engine.pid}/status").read() and self.answers_rpc(engine))
        session.send_signal(signal.SIGINT)
        output = session.communicate(timeout=60)[0]
        self.assertIn("received signal SIGTRAP", output)
        self.assertIn("reactor_0", output)
        engine.rpc("bdev_get_bdevs")
        engine.process.send_signal(signal.SIGINT)
        self.assertEqual(engine.process.wait(60), 0)

    @staticmethod
    def answers_rpc(engine):
        """Whether gdb has resumed the engine: it answers an RPC."""
        try:
            return engine.rpc("bdev_get_bdevs", timeout=0.5) is not None
        except OSError:
            return False

    # ---- structures ----

    def test_the_program_has_every_field_that_the_scripts_read(self):
        self.assertEqual(wrong_fields(ENGINE, "ENGINE", self.directory), [])

    def test_the_scripts_read_every_field_of_the_list(self):
        folder = os.path.join(TOP, "gdb", "fathom")
        code = "".join(open(os.path.join(folder, name)).read() for name in os.listdir(folder) if name.endswith(".py") and name != "structures.py")
        listed = re.findall(r'"(\w+)": "', open(os.path.join(folder, "structures.py")).read())
        self.assertGreater(len(listed), 100)
        self.assertEqual([name for name in sorted(set(listed)) if not re.search(rf"""["']{name}["']""", code)], [])

    # ---- errors ----

    def test_wrong_arguments_get_an_error_message(self):
        engine = self.engine()
        engine.serve("bdev_malloc_create", "-b", "Disk0", 16, 512)
        wrong = {
            "fathom_print_bdevs a b": "one pattern at most",
            "fathom_print_bdevs (": "is not a regular expression",
            "fathom_find_bdev": "NAME is missing: the name of a block device, or a part of it. Usage: fathom_find_bdev NAME",
            "fathom_print_requests --older-than": "takes a number of milliseconds",
            "fathom_print_requests --older-than soon": "takes a number of milliseconds",
            "fathom_print_requests --newer": "the command takes --older-than and one pattern",
            "fathom_print_io": "fathom_print_requests lists",
            "fathom_print_io r77": "no request in progress has the name r77",
            "fathom_print_io nosuch": "No symbol \"nosuch\"",
            "fathom_print_io 0": "this memory cannot be read",
            "fathom_print_io &nvmf_tgt": "is a struct nvmf_target; an I/O is",
            "fathom_print_io 1.5": "",
            "fathom_trace 0": "N must be 1 or more",
            "fathom_trace 3 a b": "a number and one pattern at most",
            "fathom_trace 3 (": "is not a regular expression",
        }
        output = gdb("-p", engine.pid, commands=wrong)
        self.check_no_python_error(output[None])
        for command, text in wrong.items():
            self.assertTrue(output[command].startswith("fathom: "), f"{command}: {output[command]}")
            self.assertIn(text, output[command])
        self.assertEqual(gdb("-p", engine.pid, commands=["fathom_find_bdev zzz"])["fathom_find_bdev zzz"], "0 bdevs")

    def test_printers_survive_memory_that_holds_something_else(self):
        engine = self.engine()
        kinds = ("bdev", "bdev_io", "bdev_channel", "nvmf_req", "nvmf_qpair", "nvmf_ctrlr", "nvmf_subsystem", "nvmf_ns", "poller", "reactor", "fathom_thread",
                 "channel", "device", "trace_story", "trace_object", "trace_istr", "nvmf_poll_group", "nvmf_address", "bdev_desc")
        commands = [f"p *(struct {kind} *) {at}" for kind in kinds for at in ("&nvmf_tgt", "0", "$sp", "registry.threads.tqh_first", "'engine.c'::engine.options")]
        output = gdb("-p", engine.pid, commands=commands)
        self.check_no_python_error(output[None])
        for command in commands:
            self.assertRegex(output[command], r"^\$\d+ = |^Cannot access memory", command)

    def test_commands_work_without_a_trace_except_fathom_trace(self):
        engine = self.engine_with_held_reads(options=["--num-trace-entries", "0"])
        output = gdb("-p", engine.pid, commands=(*LISTS, "fathom_trace"))
        self.check_no_python_error(output[None])
        self.assertEqual(count_of(output["fathom_print_requests"]), HELD)
        self.assertIn("this engine has no trace", output["fathom_trace"])

    def test_commands_report_a_missing_process_or_engine(self):
        script = os.path.join(TOP, "gdb", "fathom.py")
        self.assertIn("neither a process nor a core", gdb(ENGINE, commands=["fathom_print_bdevs"])["fathom_print_bdevs"])
        self.assertIn("no program is loaded", gdb(commands=[f"source {script}", "fathom_trace"])["fathom_trace"])
        output = gdb(FATHOM, commands=[f"source {script}", "fathom_trace", "fathom_load_macros"])
        self.assertIn("is not fathom-engine or fathom-server", output["fathom_trace"])
        self.assertIn("Nothing to load", output["fathom_load_macros"])

    def test_gdb_prints_the_safe_path_that_the_scripts_need(self):
        output = gdb(ENGINE, commands=["fathom_print_bdevs"], source=False)
        self.assertIn(f"add-auto-load-safe-path {os.path.realpath(ENGINE)}", output[None])

    def test_a_program_moved_away_from_its_scripts_reports_that(self):
        alone = shutil.copy(ENGINE, os.path.join(self.directory, "fathom-engine"))
        self.assertIn("so the fathom_ commands are not loaded; source fathom.py from its folder", gdb(alone, commands=["info files"])[None])

    def test_a_stripped_program_works_with_its_debug_file_and_names_it_when_missing(self):
        folder = os.path.join(self.directory, "bin")
        os.mkdir(folder)
        program = shutil.copy(ENGINE, folder)
        os.symlink(os.path.join(os.path.dirname(os.path.dirname(ENGINE)), "share"), os.path.join(self.directory, "share"))
        run(SPLIT, "/bin/fathom-engine", env=dict(os.environ, DESTDIR=self.directory))
        self.assertNotIn(".symtab", run("readelf", "-S", "--wide", program).stdout)
        engine = self.engine_with_held_reads(program=program)
        rpc = self.rpc_view(engine)
        core = self.core_of(engine, signal.SIGABRT)
        commands = LISTS + ("fathom_trace 2", "fathom_print_io r3", "p *bdevs.tqh_first", "fathom_find_bdev EE_Disk0")
        output = gdb(program, core, commands=commands, debug=os.path.join(self.directory, "usr", "lib", "debug"))
        self.check_no_python_error(output[None])
        self.check_lists(output, rpc)
        self.assertIn('bdev "Disk0"', output["p *bdevs.tqh_first"])
        self.assertRegex(output["fathom_trace 2"], r"\n\d+ events of 3 threads$")
        number = re.search(r"Build ID: (\w+)", run("readelf", "-n", program).stdout).group(1)
        output = gdb(program, core, commands=LISTS + ("fathom_trace", "fathom_print_io r3", "fathom_find_bdev a"), debug="/nowhere")
        self.check_no_python_error(output[None])
        for command in LISTS + ("fathom_trace", "fathom_print_io r3", "fathom_find_bdev a"):
            self.assertIn("has no debug information that gdb found", output[command])
            self.assertIn(f".build-id/{number[:2]}/{number[2:]}.debug", output[command])

    # ---- cores ----

    def test_an_engine_adds_file_backed_shared_memory_to_its_core_filter(self):
        engine = self.engine()
        own = int(open("/proc/self/coredump_filter").read(), 16)
        self.assertEqual(int(open(f"/proc/{engine.pid}/coredump_filter").read(), 16), own | 8)

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("unshare"), "only root can make /proc read-only")
    def test_an_engine_with_a_read_only_proc_starts_without_a_warning(self):
        program = os.path.join(self.directory, "engine")
        with open(program, "w") as f:
            f.write(f"#!/bin/sh\nexec unshare --mount sh -c 'mount -o remount,ro,bind /proc && exec \"$0\" \"$@\"' {ENGINE} \"$@\"\n")
        os.chmod(program, 0o755)
        engine = self.engine(program=program)
        own = int(open("/proc/self/coredump_filter").read(), 16)
        self.assertEqual(int(open(f"/proc/{engine.pid}/coredump_filter").read(), 16), own)
        self.assertNotIn("WARN", engine.log_text())
        self.assertEqual(engine.stop(), 0)

    def test_a_core_made_by_gdb_is_complete_and_the_engine_keeps_running(self):
        engine = self.engine_with_held_reads()
        core = os.path.join(self.directory, "made")
        gdb("-p", engine.pid, commands=[f"generate-core-file {core}"])
        output = gdb(ENGINE, core, commands=[*LISTS, "fathom_trace 3"])
        self.check_no_python_error(output[None])
        self.check_lists(output, self.rpc_view(engine))
        self.assertRegex(output["fathom_trace 3"], r"\n\d+ events of 3 threads$")

    def test_a_core_without_shared_memory_shows_all_but_requests_and_trace(self):
        engine = self.engine_with_held_reads()
        with open(f"/proc/{engine.pid}/coredump_filter", "w") as f:
            f.write("0x33")
        output = gdb(ENGINE, self.core_of(engine), commands=["fathom_print_bdevs", "fathom_print_threads", "fathom_print_requests", "fathom_trace",
                                                            "fathom_print_io r3"])
        self.check_no_python_error(output[None])
        self.assertEqual(count_of(output["fathom_print_threads"]), 3)
        for command in ("fathom_print_requests", "fathom_trace", "fathom_print_io r3"):
            self.assertIn("this core has no shared memory", output[command])
            self.assertIn(f"`fathom trace stuck -f {engine.trace_path}`", output[command])


@unittest.skipUnless(shutil.which("gdb"), "gdb is missing")
class ServerGdb(SystemTest):
    """A running server: its lists are compared with the output of the operator's commands."""

    def test_lists_equal_the_output_of_the_commands(self):
        system = self.system(2)
        follower = subprocess.Popen([FATHOM, "system", "events", "--follow", "--json", "-o", system.client_config],
                                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(follower.stdout.close)
        self.addCleanup(follower.wait)
        self.addCleanup(follower.kill)
        follower.stdout.readline()      # the first event has come, so the follower is connected
        members, engines, pid = system.members(), system.engines(), system.process.pid
        system.fathom("pool", "create", "p1")
        system.fathom("volume", "create", "p1/db", "8M", "--ranks", "1")
        catalog = "process.frame->server.of_call.mgmt->catalog"
        output = gdb("-p", pid, commands=("fathom_print_members", "fathom_print_instances", "fathom_print_calls", "fathom_print_connections",
                                          "fathom_print_threads", "fathom_print_reactors", "fathom_print_pollers", "fathom_trace 3",
                                          'fathom_print_members "rank 1,"', "fathom_print_bdevs", "p *process.frame->server.instances[0]",
                                          "p process.frame->grpc->links", "fathom_print_volumes", f"p *{catalog}->pools.tqh_first"))
        for text in ("Traceback", "Python Exception", "Error occurred in Python"):
            self.assertNotIn(text, output[None])
        found = re.findall(r"member rank (\d+), (\w+), incarnation ([0-9a-f]+), at (\S+) (\S+)$", output["fathom_print_members"], re.M)
        self.assertEqual({int(rank): (state.lower(), int(incarnation, 16), address, domain) for rank, state, incarnation, address, domain in found},
                         {rank: (row["state"], row["incarnation"], row["addr"], row["fault_domain"]) for rank, row in members.items()})
        self.assertEqual(count_of(output["fathom_print_members"]), 2)
        self.assertEqual(output['fathom_print_members "rank 1,"'].splitlines()[-1], "1 of 2 members")
        found = re.findall(r"instance (\d+), (\w+), rank (\d+), process (\d+), started (\d+) time", output["fathom_print_instances"])
        self.assertEqual(sorted((int(index), state.lower(), int(rank), int(pid)) for index, state, rank, pid, _ in found),
                         sorted((index, row["state"], row["rank"], row["pid"]) for index, row in engines.items()))
        self.assertRegex(output["fathom_print_calls"], r"call of 127\.0\.0\.1:\d+ \(ADMIN\), /fathom\.ControlSvc/SystemEvents, \w+ for ")
        self.assertRegex(output["fathom_print_connections"], r"connection from 127\.0\.0\.1:\d+, OPEN, \d+ call")
        self.assertIn("1 reactor", output["fathom_print_reactors"])
        self.assertRegex(output["fathom_print_threads"], r"thread \S+ \(id \d+\)")
        self.assertGreater(count_of(output["fathom_print_pollers"]), 0)
        self.assertRegex(output["fathom_trace 3"], r"\d+ events? of \d+ threads?$")
        self.assertIn("is not fathom-engine: load the program with", output["fathom_print_bdevs"])
        self.assertRegex(output["p *process.frame->server.instances[0]"], r"^\$1 = instance 0, JOINED, ")
        self.assertRegex(output["p process.frame->grpc->links"], r"a list of \d+ = \{\s*\[0\] \(struct grpc_link \*\) 0x[0-9a-f]+ = connection from")
        self.assertRegex(output["fathom_print_volumes"],
                         r"^\(struct catalog_volume \*\) 0x\w+  volume p1/db, READY, 8388608 bytes, rank 1, 0 hosts\n1 volume$")
        self.assertRegex(output[f"p *{catalog}->pools.tqh_first"], r"pool p1, READY, 1 volume$")
        self.assertEqual(system.states(), {0: "joined", 1: "joined"})      # the server runs again after gdb

    def test_a_breakpoint_on_a_call_shows_its_request(self):
        """As in the session of docs/debugging.md."""
        system = self.system(1)
        caller = threading.Timer(3, system.fathom, ("system", "query", "--ranks", "0"), {"check": False})
        caller.start()
        self.addCleanup(caller.join)
        output = gdb("-p", system.process.pid, commands=("break mgmt_system_query", "continue", "p *(Mgmt__SystemQueryReq *) request",
                                                         "p *call", "bt 2", "delete", "detach"))
        caller.join()
        self.assertIn("hit Breakpoint 1, mgmt_system_query", output["continue"])
        self.assertRegex(output["p *(Mgmt__SystemQueryReq *) request"], r'ranks = 0x[0-9a-f]+ "0"')
        self.assertRegex(output["p *call"], r"call of 127\.0\.0\.1:\d+ \(ADMIN\), /mgmt\.MgmtSvc/SystemQuery, ")
        self.assertEqual(system.states(), {0: "joined"})

    def test_the_program_has_every_field_that_the_scripts_read(self):
        self.assertEqual(wrong_fields(SERVER, "SERVER", self.directory), [])


if __name__ == "__main__":
    unittest.main()
