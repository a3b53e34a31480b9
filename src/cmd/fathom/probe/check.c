/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * check - `fathom probe check`: can a tracer attach here? Prints each requirement, whether it is met, and why.
 *
 * The result comes from an attempt with the same system calls as a tracer makes; the other rows explain it. If rights
 * are missing, the settings that a container needs are printed.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/must.h"
#include "base/text.h"
#include "cmd/fathom/probe/attempt.h"
#include "cmd/fathom/probe/process.h"

enum { ROWS_MAX = 16, CAP_SYS_ADMIN_BIT = 21, CAP_PERFMON_BIT = 38, CAP_BPF_BIT = 39 };

enum answer { NO, YES, UNCLEAR };

struct row {
	const char *name;
	enum answer answer;
	char text[256];
};

struct check {
	struct row rows[ROWS_MAX];
	uint32_t row_count;
	/* of this process */
	uint64_t capabilities;
	bool seccomp, initial_user_ns;
	uint32_t kernel; /* 6.1 is 6 << 8 | 1 */
	bool rights_missing;
	struct attempt attempt;
};

struct run {
	const struct probe_request *request;
	int status;
};

static const char docker_flags[] = "--cap-add=SYS_ADMIN --cap-add=SYS_PTRACE --pid=container:ENGINE";
static const char kubernetes_context[] =
	"securityContext: { runAsUser: 0, capabilities: { add: [SYS_ADMIN, SYS_PTRACE] } }";
static const char kubernetes_pod[] = "shareProcessNamespace: true";

PRINTF_LIKE(4, 5)
static void add_check_row(struct check *check, const char *name, enum answer answer, const char *format, ...)
{
	struct row *row = &check->rows[check->row_count++];
	va_list args;

	must(check->row_count <= ROWS_MAX);
	row->name = name;
	row->answer = answer;
	va_start(args, format);
	vsnprintf(row->text, sizeof(row->text), format, args);
	va_end(args);
}

/* ---- our rights ---- */

/* The rest of the first line of `path` that begins with `key`; "": none. */
static void read_line_after(const char *path, const char *key, char *value, size_t bytes)
{
	FILE *file = fopen(path, "re");
	char line[512];

	value[0] = '\0';
	while (file && !value[0] && fgets(line, sizeof(line), file)) {
		if (strncmp(line, key, strlen(key)) == 0) {
			const char *begin = line + strlen(key);

			begin += strspn(begin, " \t");
			snprintf(value, bytes, "%.*s", (int)strcspn(begin, "\n"), begin);
		}
	}
	if (file)
		fclose(file);
}

static void read_own_rights(struct check *check)
{
	struct utsname name;
	unsigned int major = 0, minor = 0;
	char value[128];

	read_line_after("/proc/self/status", "CapEff:", value, sizeof(value));
	check->capabilities = strtoull(value, NULL, 16);
	read_line_after("/proc/self/status", "Seccomp:", value, sizeof(value));
	check->seccomp = strcmp(value, "2") == 0;
	read_line_after("/proc/self/uid_map", "", value, sizeof(value));
	check->initial_user_ns = strtoul(value, NULL, 10) == 0 && strstr(value, "4294967295");
	if (uname(&name) == 0 && sscanf(name.release, "%u.%u", &major, &minor) == 2)
		check->kernel = major << 8 | minor;
}

/*
 * CAP_BPF and CAP_PERFMON, introduced in 5.8, are no longer sufficient for uprobes since 6.16 and stable kernels of that
 * time: if we have only these, the attempt decides.
 */
static bool has_rights(const struct check *check)
{
	uint64_t both = BIT(CAP_BPF_BIT) | BIT(CAP_PERFMON_BIT);

	return (check->capabilities & BIT(CAP_SYS_ADMIN_BIT)) ||
	       ((check->capabilities & both) == both && check->attempt.load == 0 && check->attempt.event == 0);
}

static void check_rights(struct check *check)
{
	char value[128];

	check->rights_missing = !has_rights(check) || !check->initial_user_ns;
	add_check_row(check, "capabilities", has_rights(check) ? YES : NO, "%s",
		      has_rights(check)
			      ? "sufficient"
			      : "CAP_SYS_ADMIN is missing; from Linux 5.8 to 6.15 CAP_BPF and CAP_PERFMON suffice");
	add_check_row(check, "user namespace", check->initial_user_ns ? YES : NO,
		      check->initial_user_ns ? "the initial one"
					     : "not the initial one: BPF and uprobes need capabilities in the initial one");
	read_line_after("/proc/self/status", "Seccomp_filters:", value, sizeof(value));
	add_check_row(check, "seccomp", check->seccomp ? UNCLEAR : YES,
		      check->seccomp ? "%s filters are active; they may reject bpf(2) or perf_event_open(2)" : "no filter",
		      value);
}

static void check_kernel(struct check *check)
{
	char value[128], text[128];
	struct rlimit limit = { 0 };

	read_line_after("/sys/kernel/security/lockdown", "", value, sizeof(value));
	add_check_row(check, "lockdown", strstr(value, "[confidentiality]") ? NO : YES, "%s",
		      value[0] ? value : "none, or not visible");
	read_line_after("/proc/sys/kernel/unprivileged_bpf_disabled", "", value, sizeof(value));
	read_line_after("/proc/sys/kernel/perf_event_paranoid", "", text, sizeof(text));
	add_check_row(check, "settings", YES,
		      "kernel.unprivileged_bpf_disabled is %s, kernel.perf_event_paranoid is %s; the capabilities override "
		      "both",
		      value[0] ? value : "absent", text[0] ? text : "absent");
	(void)getrlimit(RLIMIT_MEMLOCK, &limit); /* of this process */
	if (check->kernel >= (5 << 8 | 11))
		add_check_row(check, "locked memory", YES, "no limit for BPF since Linux 5.11");
	else
		add_check_row(check, "locked memory", limit.rlim_cur == RLIM_INFINITY ? YES : UNCLEAR,
			      "at most %" PRIu64 " KiB: ulimit -l unlimited", (uint64_t)limit.rlim_cur / 1024);
	read_line_after("/sys/fs/selinux/enforce", "", value, sizeof(value));
	read_line_after("/proc/self/attr/current", "", text, sizeof(text));
	add_check_row(check, "security module", value[0] == '1' ? UNCLEAR : YES,
		      value[0] == '1'	? "SELinux enforces; our context is %s, which needs bpf { prog_load prog_run } and "
					  "perf_event { open }"
		      : text[0] != '\0' ? "our context is %s"
					: "none found%s",
		      text);
	add_check_row(check, "types", access("/sys/kernel/btf/vmlinux", R_OK) == 0 ? YES : UNCLEAR, "%s",
		      access("/sys/kernel/btf/vmlinux", R_OK) == 0
			      ? "the kernel has BTF"
			      : "no /sys/kernel/btf/vmlinux: scripts cannot name the kernel's structures");
}

/* ---- the tracer ---- */

static void check_bpftrace(struct check *check)
{
	FILE *output = popen("bpftrace --version 2>/dev/null", "re");
	char version[64] = "";

	if (output) {
		if (fgets(version, sizeof(version), output))
			version[strcspn(version, "\n")] = '\0';
		pclose(output);
	}
	if (!version[0])
		add_check_row(check, "bpftrace", NO, "not found in PATH: apt-get install bpftrace");
	else if (geteuid() != 0)
		add_check_row(check, "bpftrace", NO, "%s requires user 0; this is user %u", version,
			      (unsigned int)geteuid());
	else
		add_check_row(check, "bpftrace", YES, "%s", version);
}

/* ---- the program ---- */

static void check_program_file(struct check *check, const struct process *process)
{
	int bytes = (int)process_program_bytes(process);
	char path[PATH_MAX + 64];
	struct notes notes;
	struct fathom_fault why;

	switch (process_file_of(process, path, sizeof(path))) {
	case PROCESS_FILE_HIDDEN:
		add_check_row(check, "file", NO, "/proc/%d/exe: %s", process->pid, strerror(errno));
		break;
	case PROCESS_FILE_GONE:
		add_check_row(check, "file", NO, "%.*s was removed: restart the engine, or attach by /proc/%d/exe", bytes,
			      process->program, process->pid);
		break;
	case PROCESS_FILE_RUNS:
		add_check_row(check, "file", YES, "%s is the running program, build-id %s", process->program,
			      process->notes.build_id);
		break;
	case PROCESS_FILE_OTHER:
		if (notes_read(path, &notes, &why) != 0)
			notes = (struct notes){ 0 };
		add_check_row(
			check, "file", NO,
			"%.*s (build-id %s) is not the running program (build-id %s): probes on it never fire; restart "
			"the engine",
			bytes, process->program, notes.build_id[0] ? notes.build_id : "none", process->notes.build_id);
		notes_free(&notes);
		break;
	}
}

static void try_attaching(struct check *check, const struct process *process)
{
	uint64_t offset = 0;
	char path[64];

	for (uint32_t i = 0; i < process->notes.probe_count && !offset; i++)
		offset = process->notes.probes[i].site_offset;
	if (process->program[0])
		snprintf(path, sizeof(path), "/proc/%d/exe", process->pid);
	else
		snprintf(path, sizeof(path), "/proc/self/exe"); /* the required rights are the same */
	attempt_to_attach(path, offset, &check->attempt);
}

/* Add a row with the result of a system call; if it failed, also the reason, if no other row has it. */
static void add_attempt(struct check *check, const char *name, int rc, const char *call, const char *taken)
{
	const char *why = "";

	if (rc == -ENOSYS)
		why = ": the kernel lacks this call, or a seccomp filter rejects it: ";
	else if (rc == -ENOENT)
		why = ": the kernel has no uprobes (CONFIG_UPROBE_EVENTS), or /sys is not mounted: ";
	else if (rc && !check->rights_missing && check->seccomp)
		why = ": the rights suffice, so the seccomp filter rejects ";
	add_check_row(check, name, rc ? NO : YES, "%s%s%s", rc ? strerror(-rc) : taken, why, *why ? call : "");
}

static void check_attempt(struct check *check)
{
	const struct attempt *attempt = &check->attempt;

	add_attempt(check, "BPF program", attempt->load, "bpf(2)", "accepted by the kernel");
	add_attempt(check, "uprobe", attempt->event, "perf_event_open(2)", "accepted by the kernel for this program");
	if (!attempt->load && !attempt->event)
		add_attempt(check, "attach", attempt->attach, "ioctl(2)", "accepted by the kernel");
}

/* ---- the result ---- */

static bool is_attach_allowed(const struct check *check)
{
	for (uint32_t i = 0; i < check->row_count; i++) {
		const char *name = check->rows[i].name;
		bool decides = strcmp(name, "file") == 0 || strcmp(name, "bpftrace") == 0 ||
			       strcmp(name, "BPF program") == 0 || strcmp(name, "uprobe") == 0 ||
			       strcmp(name, "attach") == 0;

		if (decides && check->rows[i].answer != YES)
			return false;
	}
	return true;
}

static void print_check_text(const struct check *check, const struct process *process)
{
	static const char *const words[] = { "no", "yes", "?" };

	printf("%s, pid %d: can a tracer attach here?\n\n", process_name(process), process->pid);
	for (uint32_t i = 0; i < check->row_count; i++)
		printf("  %-3s  %-16s %s\n", words[check->rows[i].answer], check->rows[i].name, check->rows[i].text);
	printf("\n  %s\n", is_attach_allowed(check) ? "Yes." : "No.");
	if (check->rights_missing)
		printf("\n  Settings for a container in which a tracer can attach:\n"
		       "    docker run %s ...\n"
		       "    Kubernetes, container: %s\n"
		       "    Kubernetes, pod:       %s\n"
		       "  From Linux 5.8 to 6.15 BPF and PERFMON suffice instead of SYS_ADMIN. Attaching is impossible in "
		       "a "
		       "rootless container.\n",
		       docker_flags, kubernetes_context, kubernetes_pod);
	putchar('\n');
}

static void print_check_json(const struct check *check, const struct process *process)
{
	json_t *rows = json_array(), *all;

	for (uint32_t i = 0; i < check->row_count; i++) {
		const struct row *row = &check->rows[i];

		json_array_append_new(rows,
				      json_pack("{ss, so, ss}", "requirement", row->name, "met",
						row->answer == UNCLEAR ? json_null() : json_boolean(row->answer == YES),
						"why", row->text));
	}
	all = json_pack("{si, ss, sb, so}", "pid", process->pid, "program", process->program, "may_attach",
			is_attach_allowed(check), "requirements", rows);
	must(all);
	if (check->rights_missing)
		json_object_set_new(all, "container",
				    json_pack("{ss, ss, ss}", "docker", docker_flags, "kubernetes_container",
					      kubernetes_context, "kubernetes_pod", kubernetes_pod));
	json_dumpf(all, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(all);
}

static void check_one_process(void *ctx, struct process *process)
{
	struct check check = { 0 };
	struct run *run = ctx;

	read_own_rights(&check);
	try_attaching(&check, process);
	if (process->program[0]) {
		add_check_row(&check, "probes", YES, "%u at %u places", process->notes.probe_count,
			      process->notes.site_count);
		check_program_file(&check, process);
	} else {
		add_check_row(&check, "file", NO, "/proc/%d/exe cannot be read: this needs its user, or CAP_SYS_PTRACE",
			      process->pid);
	}
	check_rights(&check);
	check_kernel(&check);
	check_bpftrace(&check);
	check_attempt(&check);
	if (run->request->json)
		print_check_json(&check, process);
	else
		print_check_text(&check, process);
	if (!is_attach_allowed(&check))
		run->status = EXIT_NO_PROCESS;
}

/* Report on a process whose program we may not read: the rows show what is missing. False: `target` is no such process. */
static bool check_hidden(const char *target, struct run *run)
{
	struct process process;
	struct fathom_fault why;
	uint64_t pid;
	int rc;

	if (text_parse_u64(target, 10, INT32_MAX, &pid) != 0)
		return false;
	rc = process_open((int32_t)pid, &process, &why);
	process_close(&process);
	if (rc != -EACCES && rc != -EPERM)
		return false;
	process = (struct process){ .pid = (int32_t)pid, .command = "process" };
	check_one_process(run, &process);
	return true;
}

int probe_check(const struct probe_request *request)
{
	struct run run = { .request = request };
	int status = EXIT_SUCCESS;

	if (request->target_count == 0)
		status = process_each(request, check_one_process, &run);
	for (int i = 0; i < request->target_count; i++) {
		struct probe_request one = *request;

		one.targets = &request->targets[i];
		one.target_count = 1;
		if (!check_hidden(request->targets[i], &run) && process_each(&one, check_one_process, &run) != EXIT_SUCCESS)
			status = EXIT_NO_PROCESS;
	}
	return status ? status : run.status;
}
