# SPDX-License-Identifier: BSD-2-Clause
"""
runbook_commands - the commands of docs/runbook.md, and how test_runbook_commands.py runs each: the rows are in the order in which they run.

A command is a line of a code block that begins with a prompt, text in backquotes that begins with the name of a program, or text of the tree that does.
A row that has no command to run says why.
"""

import re

OURS = ("fathom", "fathom-agent", "fathom-engine", "fathom-helper", "fathom-probed", "fathom-server")
OTHERS = ("cat", "cp", "df", "dmesg", "du", "findmnt", "fsck", "fstrim", "gdb", "iostat", "ip", "journalctl", "ls", "make", "modprobe", "perf", "pgrep", "readelf",
          "runuser", "scripts/flamegraph", "ss", "strace", "systemctl", "udevadm", "valgrind")
PICTURE = ("```mermaid", "```")    # short forms of the commands in the tree above it


class Row:
    """`text`: as in the runbook. `run`: what is typed, with {names}; None: see `why`. `status`: the exit statuses that are right. `shows`: a pattern of the output."""

    def __init__(self, text, run=None, status=(0,), shows="", why=""):
        self.text, self.run, self.status, self.shows, self.why = text, run, status, shows, why
        assert (run is None) == bool(why), text


def same(text, **kwargs):
    """Typed as it stands in the runbook."""
    return Row(text, text, **kwargs)


def elsewhere(text, test, word):
    """Run by another test, whose text has `word`."""
    row = Row(text, why=f"run by {test}")
    row.test, row.word = test, word
    return row


def machine(text):
    return Row(text, why="it changes or shows what belongs to the machine, by its own services")


def name_only(*texts):
    return [Row(text, why="the name of a program, not a command") for text in texts]


# ---- one engine, under load ----

ENGINE = [
    Row("pgrep fathom-engine", "pgrep -f {engine}", shows=r"{pid}"),
    Row("fathom doctor", "fathom doctor {pid}", (0, 1, 2), r"{engine} \(pid {pid}\): "),
    Row("fathom doctor --bundle /var/tmp/incident.tar", "fathom doctor --bundle {folder}/incident.tar {pid}", (0, 1, 2), r"{engine} \(pid {pid}\): "),
    Row("fathom trace freeze -S SOCKET -o /var/tmp/incident", "fathom trace freeze -S {socket} -o {folder}/good"),
    Row("cp /dev/shm/NAME_trace.pidPID /var/tmp/incident", "cp /dev/shm/{engine}_trace.pid{pid} {folder}/bad"),
    Row("fathom rpc -t 2 spdk_get_version", "fathom rpc -s {socket} -t 2 spdk_get_version", shows="Fathom"),
    Row("fathom rpc -t 2 -s SOCKET spdk_get_version", "fathom rpc -t 2 -s {socket} spdk_get_version", shows="Fathom"),
    Row("ls -l SOCKET", "ls -l {socket}", shows=r"{socket}"),
    Row("fathom trace threads -s NAME", "fathom trace threads -s {engine}", shows="reactor_0"),
    Row("fathom trace threads -s rb", "fathom trace threads -s {engine}", shows="control"),
    Row("fathom trace threads", "fathom trace threads -s {engine}", shows="control"),
    Row("fathom trace", "fathom trace -s {engine}", shows="NVMF_REQ"),
    Row("fathom trace --owner HOSTNQN", "fathom trace --owner {hostnqn} -s {engine}", shows="NVMF_REQ"),
    Row("fathom trace stages --owner HOSTNQN", "fathom trace stages --owner {hostnqn} -s {engine}", shows="EXECUTING"),
    Row("fathom trace slowest --owner HOSTNQN", "fathom trace slowest --owner {hostnqn} -s {engine}", shows="nvmf_req"),
    Row("fathom trace slowest", "fathom trace slowest -s {engine}", shows="nvmf_req"),
    Row("fathom trace slowest --failed -s NAME", "fathom trace slowest --failed -s {engine}", shows="nvmf_req"),
    Row("fathom trace slowest --failed", "fathom trace slowest --failed -s {engine}", shows="nvmf_req"),
    Row("fathom trace summary -s vol", "fathom trace summary -s {engine}", shows="whole life"),
    Row("fathom blame VOLUME -s NAME", "fathom blame p1/db -s {engine}", shows="of p1/db"),
    Row("fathom blame p1/db --since 10m --slow 5ms -s vol", "fathom blame p1/db --since 10m --slow 1us -s {engine}", shows="of p1/db"),
    Row("fathom blame -f", "fathom blame -f {folder}/bad", shows="slow"),
    Row("fathom trace io r391 -s NAME", "fathom trace io {request} -s {engine}", shows=r"{request}"),
    Row("fathom trace io rN", "fathom trace io {request} -s {engine}", shows=r"{request}"),
    Row("fathom trace -n poller_slow", "fathom trace -n poller_slow -s {engine}"),
    Row("fathom trace -n tcp_info,tcp_path", "fathom trace -n tcp_info,tcp_path -s {engine}"),
    Row("fathom trace -n nvmf_qpair_disconnect", "fathom trace -n nvmf_qpair_disconnect -s {engine}"),
    Row("fathom trace compare GOOD BAD", "fathom trace compare {folder}/good {folder}/bad", (0, 1), "EXECUTING"),
    Row("fathom trace export -s NAME --perfetto FILE", "fathom trace export -s {engine} --perfetto {folder}/perfetto"),
    Row("fathom trace trigger 'bdev.io_done latency_us > 5000'", "timeout 60 fathom trace trigger 'bdev.io_done latency_us > 0' -s {engine} -o {folder}/moment --times 1"),
    Row("fathom trace record", "fathom trace record -o {folder}/record --time 500ms -s {engine}", (0, 1), "records in"),     # 1: some were lost
    Row("fathom replay extract /dev/shm/NAME_trace.pidPID --from -10s -o incident", "fathom replay extract /dev/shm/{engine}_trace.pid{pid} --from -1s -o {folder}/share"),
    Row("fathom replay INCIDENT --against ADDRESS --nqn NQN", "fathom replay {folder}/share --against 127.0.0.1:{port} --nqn {nqn}", (0, 1)),
    Row("fathom top --batch -n 1", "fathom top --batch -n 1 {socket}", shows="POLLERS|THREADS"),
    Row("fathom rpc pool_get_pools", "fathom rpc -s {socket} pool_get_pools", shows="p1"),
    Row("fathom rpc volume_get_volumes", "fathom rpc -s {socket} volume_get_volumes", shows="p1/db"),
    Row("fathom rpc framework_get_control", "fathom rpc -s {socket} framework_get_control", shows="state"),
    Row("fathom probe check", "fathom probe check", (0, 1, 2)),
    Row('gdb -q -batch build/bin/fathom-engine -ex "attach PID" -ex "thread 1" -ex bt', 'gdb -q -batch {programs}/fathom-engine -ex "attach {pid}" -ex "thread 1" -ex bt',
        shows="#0"),
    Row("cat /proc/PID/maps", "cat /proc/{pid}/maps", shows="fathom-engine"),
    Row("readelf -n /proc/PID/exe", "readelf -n /proc/{pid}/exe", shows="Build ID"),
    Row("readelf -n", "readelf -n /proc/{pid}/exe", shows="Build ID"),
    Row("strace -p PID, if it stands in a system call", "timeout 2 strace -p {pid}", (0, 124)),
    same("ss -tni", shows="cubic|reno|bbr|State"),
    same("ip -s link", shows="lo"),
    # six reads hang at the second namespace: section 4
    Row("fathom trace stuck -s NAME", "fathom trace stuck -s {engine} --older-than 0", (0, 1), "1[2-9] stuck"),
    Row("fathom rpc -t 3 nvmf_subsystem_remove_ns nqn.2016-06.io.spdk:cnode1 2", "fathom rpc -s {socket} -t 1 nvmf_subsystem_remove_ns {nqn} 2", (1,), "Timeout while waiting for response"),
    Row("fathom trace stuck -s rb", "fathom trace stuck -s {engine}", (0, 1)),
    Row("fathom trace stuck", "fathom trace stuck -s {engine}", (0, 1)),
    Row("fathom rpc nvmf_subsystem_remove_ns NQN NSID", "fathom rpc -s {socket} nvmf_subsystem_remove_ns {nqn} 1"),
]

# ---- a server with two engines, and an agent ----

SERVER = [
    Row("fathom system query", "fathom system query -o {control}", shows="[Jj]oined"),
    Row("fathom system query --verbose", "fathom system query --verbose -o {control}", shows="Reason"),
    Row("fathom system events", "fathom system events -o {control}", shows="engine_format_required"),
    Row("fathom server query", "fathom server query -o {control}", shows="joined"),
    Row("fathom server query -l HOST", "fathom server query -l {host} -o {control}", shows="joined"),
    Row("fathom server restart-policy", "fathom server restart-policy -o {control}", shows="crashed"),
    Row("fathom storage format -l HOST", "fathom storage format -l {host} -o {control}", (0, 1), "."),    # formatted already
    Row("fathom volume create", "fathom volume create p1/new 4M -o {control} && fathom volume create p1/other 4M -o {control}"),
    Row("fathom pool list", "fathom pool list -o {control}", shows="p1"),
    Row("fathom pool query POOL", "fathom pool query p1 -o {control}", shows="Use of rank 0"),
    Row("fathom volume publish", "fathom volume publish p1/db {hostnqn} -o {control}"),
    Row("fathom volume list", "fathom volume list -o {control}", shows="db"),
    Row("fathom volume list POOL", "fathom volume list p1 -o {control}", shows="db"),
    Row("fathom volume show POOL/VOLUME", "fathom volume show p1/db -o {control}", shows="ready"),
    Row("fathom volume show", "fathom volume show p1/db -o {control}", shows="ready"),
    Row("fathom host list NQN", "fathom host list {hostnqn} -o {control}"),
    Row("fathom pool extend", "fathom pool extend p1 --ranks 1 -o {control}"),
    Row("fathom pool exclude", "fathom pool exclude p1 --ranks 1 -o {control}"),
    Row("fathom pool reintegrate", "fathom pool reintegrate p1 --ranks 1 -o {control}"),
    Row("fathom pool drain", "fathom pool drain p1 --ranks 1 -o {control}"),
    Row("fathom pool extend POOL --ranks N", "fathom pool reintegrate p1 --ranks 1 -o {control} && fathom pool extend p1 --ranks 1 -o {control}"),
    Row("fathom volume move", "fathom volume move p1/new --to 1 -o {control}"),
    Row("fathom volume destroy POOL/VOLUME --force", "fathom volume destroy p1/other --force -o {control}"),
    Row("fathom-agent attachments", "fathom-agent attachments -o {agent}"),
    Row("fathom-agent attachments, on its host", "fathom-agent attachments -o {agent}"),
    Row("fathom-agent stats", "fathom-agent stats -o {agent}", shows="."),
    Row("fathom trace -s fathom-agent", "fathom trace -s {agent_name}", shows="AGENT"),
    Row("fathom trace -s fathom-server", "fathom trace -s fathom-server", shows="."),
    Row("fathom volume detach POOL/VOLUME", "fathom volume detach p1/db --agent-config {agent}", (0, 1)),    # it is not attached
    Row("fathom volume detach --force", "fathom volume detach p1/db --force --agent-config {agent}", (0, 1)),
    Row("fathom-server stats", "fathom-server stats -o {server}", shows="."),
    Row("fathom support collect-log", "fathom support collect-log -t {folder}/logs -o {control}"),
    Row("fathom system stop --ranks N", "fathom system stop --ranks 1 -o {control}", shows="OK"),
    Row("fathom system start --ranks N", "fathom system start --ranks 1 -o {control}", shows="OK"),
    Row("fathom system stop -r RANK", "fathom system stop -r 1 -o {control}", shows="OK"),
    Row("fathom system start -r RANK", "fathom system start -r 1 -o {control}", shows="OK"),
    Row("fathom system stop --force --ranks N", "fathom system stop --force --ranks 1 -o {control}", shows="OK"),
    Row("fathom system clear-exclude --ranks N", "fathom system exclude --ranks 1 -o {control} && fathom system clear-exclude --ranks 1 -o {control}"),
]

# ---- the storage of an engine that has ended ----

ENDED = [
    Row("fathom ddb DIR verify", "fathom ddb {storage} verify"),
]

# ---- commands that are not run here ----

NOT_RUN = [
    elsewhere("fathom doctor --past FILE", "../ward/test_past.py", "--past"),
    elsewhere("fathom doctor --server /etc/fathom/server.yml", "../ward/test_servers.py", "--server"),
    elsewhere("fathom system doctor", "test_system_doctor.py", '"doctor"'),
    elsewhere("cat /dev/shm/rb_trace.pid6171.crash", "test_core.py", 'cat /dev/shm/rb_trace.pid6171.crash'),
    elsewhere("ls /dev/shm/NAME_trace.*.crash", "test_core.py", 'ls /dev/shm/NAME_trace.*.crash'),
    elsewhere("fathom core ./core", "test_core.py", 'fathom core ./core'),
    elsewhere("fathom core ./core crash", "test_core.py", 'fathom core ./core crash'),
    elsewhere("fathom core ./core io", "test_core.py", 'fathom core ./core io'),
    elsewhere('gdb -q -batch build/bin/fathom-engine -ex "attach 6171" -ex fathom_print_reactors -ex "thread 3" -ex bt', "test_gdb.py", 'fathom_print_reactors'),
    elsewhere("fathom top", "test_top.py", 'test_'),
    elsewhere("fathom probe run latency_by_host", "script_output.py", 'latency_by_host'),
    elsewhere("fathom probe run SCRIPT, or -e PROGRAM", "test_attaching.py", '"-e"'),
    elsewhere("fathom-engine --paranoid", "test_paranoid.py", '--paranoid'),
    elsewhere("runuser -u fathom -- fathom-server restore --from /var/lib/fathom/system.db.copy-UUID-DATE", "test_server_database.py", '"restore"'),
    elsewhere("runuser -u fathom -- fathom-server start --new-system", "test_server_database.py", '--new-system'),
    elsewhere("fathom volume import", "test_volume_streams.py", '"import"'),
    elsewhere("fathom_print_io r353", "test_gdb.py", "fathom_print_io"),
    elsewhere("fathom_print_io rN", "test_gdb.py", "fathom_print_io"),
    elsewhere("fathom_print_reactors, thread N, bt", "test_gdb.py", "fathom_print_reactors"),
    elsewhere("fathom_print_calls", "test_gdb.py", "fathom_print_calls"),
    elsewhere("fathom_print_nvmf_subsystems PAUSED", "test_gdb.py", "fathom_print_nvmf_subsystems"),
    Row("perf record -e cpu-clock -g -p PID", why="it records until it is stopped, as a user wants"),
    Row("scripts/flamegraph", why="it reads what perf recorded"),
    Row("strace -f -e trace=open,openat fathom-engine -c FILE", why="it runs until the engine is stopped"),
    Row("make soak", why="it repeats tests for hours: the suite soak"),
    Row("make test SANITIZE=address,undefined BUILD=build-asan", why="it builds and tests all programs: the suite variants"),
    *(machine(text) for text in (
        "systemctl stop fathom-server", "systemctl start fathom-server", "systemctl status fathom-agent", "journalctl -k | grep -i oom", "journalctl -u fathom-agent",
        "journalctl -u fathom-server", "modprobe nvme-tcp", "udevadm test /sys/block/nvme0n1", "udevadm trigger", "cat /etc/nvme/hostnqn",
        "cat /sys/class/nvme/nvme*/state", "iostat -x")),
    *name_only("gdb", "gdb on the server", "valgrind on the smallest case", "fathom", "fathom rpc", "fathom ddb", "df", "du", "dmesg", "findmnt", "fsck", "fstrim"),
]

ROWS = ENGINE + ENDED + SERVER + NOT_RUN


def is_command(text):
    """Also a command of gdb."""
    return text.split(" ")[0] in OURS + OTHERS or text.startswith("fathom_print_")


def commands_of(page):
    """The commands of the runbook, in its order, each once."""
    found, block, picture = [], False, False
    for line in page.split("\n"):
        if line == PICTURE[0]:
            picture = True
        elif picture:
            picture = line != PICTURE[1]
        elif line.startswith("```"):
            block = not block
        elif block:     # the tree: commands follow two blanks or an arrow, and end at two blanks or a semicolon
            for text in re.split(r"\s{2,}|► |; | then |: ", line):
                found.append(text.strip())
        elif re.match(r"    [$#] ", line):
            found.append(line[6:].strip())
        elif not line.startswith("    "):
            found += re.findall(r"`([^`]+)`", line)
    return list(dict.fromkeys(text for text in found if is_command(text)))
