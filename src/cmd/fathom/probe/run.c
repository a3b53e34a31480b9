/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * run - `fathom probe run`: runs a bpftrace script on running engines.
 *
 *   script -> the structures it names, script_fill() for each process -> a bpftrace for each -> order -> the output
 *
 * Each process has its own bpftrace: the names of enum values come from its own schema, its maps are separate, and a
 * probe in a file shared by two processes would fire for both. The outputs are merged by time.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/must.h"
#include "base/text.h"
#include "cmd/fathom/probe/bpftrace.h"
#include "cmd/fathom/probe/process.h"
#include "cmd/fathom/probe/script.h"
#include "cmd/fathom/probe/types.h"
#include "inspect/script/order.h"
#include "inspect/script/script.h"

enum { SOURCES_MAX = 32, TURN_MS = 50, PIECE_BYTES = 1 << 16, FDS_PER_SOURCE = 2 };

/* bpftrace 0.17 may lose output printed just before it is interrupted. */
#define GRACE_NS 200000000ull

/* The time limit for attaching, after which the time of -d counts anyway. */
enum { ATTACH_SEC_MAX = 20 };

/* The time limit for ending after an interrupt, without --end-timeout. A busy machine prints maps slowly. */
#define END_NS_MAX_DEFAULT (60 * NS_PER_SEC)

/*
 * bpftrace 0.17 notices an interrupt only if it arrives while epoll waits. If the signal arrives while it processes events,
 * it goes on tracing. Then it is interrupted again. A bpftrace that ends waits for events for less than 0.2 s.
 */
enum { WAIT_CHECK_MS = 200, WAIT_CHECKS = 4 };

struct source {
	int32_t pid;
	char name[64];
	struct types_declared types;
	struct script_program program;
	struct bpftrace child;
	bool running;
	uint32_t waits; /* checks in succession after an interrupt that found it waiting for events */
	/* an incomplete line of the output, and one of received JSON */
	char *line;
	size_t line_bytes;
	char *received;
	size_t received_bytes;
};

struct run {
	const struct probe_request *request;
	char *script;	   /* its text */
	const char *title; /* its name in messages */
	struct source sources[SOURCES_MAX];
	uint32_t source_count;
	struct order *order;
	FILE *out;
	bool failed, announced;
	uint64_t begun_ns;
	uint64_t end_ns;	 /* when to interrupt the children; 0: not set yet */
	uint64_t interrupted_ns; /* 0: not interrupted yet */
	uint64_t checked_ns;	 /* of the last check whether an interrupt was lost */
	bool killed;
};

static int report_run_error(const char *text)
{
	fprintf(stderr, "fathom probe: %s\n", text);
	return EXIT_USAGE;
}

/* ---- the program of each process ---- */

static void add_process_source(void *ctx, struct process *process)
{
	struct run *run = ctx;
	struct source *source = &run->sources[run->source_count];
	char path[PATH_MAX];
	struct probe_tables tables;
	struct fathom_fault why;

	for (uint32_t i = 0; i < run->source_count; i++) {
		if (run->sources[i].pid == process->pid)
			return;
	}
	if (run->source_count == SOURCES_MAX) {
		run->failed = true;
		report_run_error("more than 32 processes are selected; name fewer");
		return;
	}
	*source = (struct source){ .pid = process->pid, .child = { .out_fd = -1, .err_fd = -1 } };
	(void)text_copy(source->name, sizeof(source->name), process_name(process));
	probe_tables_of(process, &tables);
	probe_path_of(process, path, sizeof(path));
	if (probe_types_of(process, run->script, &source->types, &why) != 0 ||
	    script_fill(run->script,
			&(struct script_target){ .path = path,
						 .name = source->name,
						 .pid = process->pid,
						 .notes = &process->notes,
						 .tables = tables.rows,
						 .table_count = tables.count,
						 .aliases = source->types.aliases,
						 .alias_count = source->types.alias_count },
			&source->program, &why) != 0) {
		fprintf(stderr, "fathom probe: %s, %s\n", run->title, why.text);
		types_declared_free(&source->types);
		run->failed = true;
		return;
	}
	run->source_count++;
}

static const char *declarations_of(const struct source *source)
{
	return source->types.text ? source->types.text : "";
}

static void print_programs(const struct run *run)
{
	for (uint32_t i = 0; i < run->source_count; i++) {
		if (run->source_count > 1)
			printf("// %s, process %d\n", run->sources[i].name, run->sources[i].pid);
		fputs(declarations_of(&run->sources[i]), stdout);
		fputs(run->sources[i].program.text, stdout);
	}
}

/* ---- output ---- */

/* Print whole lines, each with the process's name in front. */
static void print_prefixed(struct run *run, struct source *source, const char *text, size_t bytes)
{
	while (bytes) {
		const char *nl = memchr(text, '\n', bytes);
		size_t part = nl ? (size_t)(nl + 1 - text) : bytes;

		source->line = realloc(source->line, source->line_bytes + part);
		must(source->line);
		memcpy(source->line + source->line_bytes, text, part);
		source->line_bytes += part;
		if (nl) {
			fprintf(run->out, "%s[%d] ", source->name, source->pid);
			fwrite(source->line, 1, source->line_bytes, run->out);
			source->line_bytes = 0;
		}
		text += part;
		bytes -= part;
	}
}

/* The text begins with its kind: 'p' for output of the script, 'o' for an object of bpftrace. */
static void print_output_json(struct run *run, const struct source *source, const struct order_text *text)
{
	json_t *row = text->text[0] == 'o'
			      ? json_loadb(text->text + 1, text->bytes - 1, 0, NULL)
			      : json_pack("{ss, ss%}", "type", "printf", "data", text->text + 1, text->bytes - 1);
	json_t *whole = json_pack("{ss, si}", "name", source->name, "pid", source->pid);

	if (text->ns)
		json_object_set_new(whole, "time_ns", json_integer((json_int_t)text->ns));
	if (row)
		json_object_update(whole, row);
	json_dumpf(whole, run->out, JSON_COMPACT);
	fputc('\n', run->out);
	json_decref(row);
	json_decref(whole);
}

static void emit_text(void *ctx, const struct order_text *text)
{
	struct run *run = ctx;
	struct source *source = &run->sources[text->source];

	if (run->request->json)
		print_output_json(run, source, text);
	else if (run->source_count > 1)
		print_prefixed(run, source, text->text, text->bytes);
	else
		fwrite(text->text, 1, text->bytes, run->out);
}

/* ---- input ---- */

/* Pass on output of a script: its mark unchanged, then the kind and the text. */
static void put_printed(struct run *run, uint32_t number, const char *text, uint64_t now_ns)
{
	const char *end = *text == SCRIPT_MARK ? strchr(text, SCRIPT_MARK_END) : NULL;
	size_t mark = end ? (size_t)(end + 1 - text) : 0, bytes = strlen(text);
	char *kind;

	run->sources[number].child.attached |= mark > 0;
	if ((*text == SCRIPT_MARK && !end) || (mark && text[mark] == SCRIPT_TEXT_END)) {
		order_put(run->order, number, text, mark ? mark : bytes, now_ns);
		return;
	}
	kind = malloc(bytes + 1);
	must(kind);
	memcpy(kind, text, mark);
	kind[mark] = 'p';
	memcpy(kind + mark + 1, text + mark, bytes - mark);
	order_put(run->order, number, kind, bytes + 1, now_ns);
	free(kind);
}

/* Pass on a line of `bpftrace -f json`: a mark if it has one, and its kind. */
static void handle_json(struct run *run, uint32_t number, const char *line, size_t bytes, uint64_t now_ns)
{
	char *clean = malloc(bytes + 2);
	json_t *row, *data;
	const char *type;

	must(clean);
	bytes = text_utf8_copy(clean, bytes, line, bytes);
	row = json_loadb(clean, bytes, 0, NULL);
	type = json_string_value(json_object_get(row, "type"));
	data = json_object_get(row, "data");
	if (type && strcmp(type, "printf") == 0 && json_is_string(data)) {
		const char *text = json_string_value(data);

		put_printed(run, number, text, now_ns);
	} else if (type && strcmp(type, "lost_events") == 0) {
		order_count_lost(run->order, number, (uint64_t)json_integer_value(json_object_get(data, "events")));
	} else if (type && strcmp(type, "attached_probes") != 0 && !probe_is_cleared_table(row)) {
		memmove(clean + 1, clean, bytes);
		clean[0] = 'o';
		order_put(run->order, number, clean, bytes + 1, now_ns);
	}
	json_decref(row);
	free(clean);
}

static void handle_json_piece(struct run *run, uint32_t number, const char *piece, size_t bytes, uint64_t now_ns)
{
	struct source *source = &run->sources[number];
	size_t at = 0;
	char *nl;

	source->received = realloc(source->received, source->received_bytes + bytes);
	must(source->received);
	memcpy(source->received + source->received_bytes, piece, bytes);
	source->received_bytes += bytes;
	while ((nl = memchr(source->received + at, '\n', source->received_bytes - at))) {
		handle_json(run, number, source->received + at, (size_t)(nl - (source->received + at)), now_ns);
		at = (size_t)(nl + 1 - source->received);
	}
	memmove(source->received, source->received + at, source->received_bytes - at);
	source->received_bytes -= at;
}

static void handle_output(struct run *run, uint32_t number, uint64_t now_ns)
{
	struct source *source = &run->sources[number];
	static char piece[PIECE_BYTES];
	ssize_t bytes = read(source->child.out_fd, piece, sizeof(piece));

	if (bytes <= 0) {
		close(source->child.out_fd);
		source->child.out_fd = -1;
	} else if (run->request->json) {
		handle_json_piece(run, number, piece, (size_t)bytes, now_ns);
	} else {
		/* output of a probe shows that it has attached: under load, bpftrace may never be seen waiting */
		source->child.attached |= memchr(piece, SCRIPT_MARK, (size_t)bytes) != NULL;
		order_feed(run->order, number, piece, (size_t)bytes, now_ns);
	}
}

/* ---- running ---- */

static void signal_all_sources(struct run *run, int signal)
{
	for (uint32_t i = 0; i < run->source_count; i++) {
		if (run->sources[i].running)
			kill(run->sources[i].child.pid, signal);
	}
}

/* An unknown identifier may be one of the program's, which is not declared without debug information: report that, too. */
static void report_source_error(const struct source *source, const struct fathom_fault *why)
{
	report_run_error(why->text);
	if (!source->types.text && strstr(why->text, "Unknown identifier"))
		fprintf(stderr,
			"fathom probe: %s has no debug information, so its enumerators are unknown: install its debug "
			"file, or build it with symbols\n",
			source->name);
}

/* Both outputs have ended, so the child has, too, or is about to. */
static void end_source(struct run *run, uint32_t number)
{
	struct source *source = &run->sources[number];
	uint64_t lost = order_lost(run->order, number);
	struct fathom_fault why;

	source->running = false;
	order_end(run->order, number);
	if (bpftrace_wait(&source->child, run->title, &why) != 0) {
		report_source_error(source, &why);
		run->failed = true;
		signal_all_sources(run, SIGINT);
	}
	if (run->request->verbose && source->child.messages)
		fputs(source->child.messages, stderr);
	if (lost)
		fprintf(stderr,
			"fathom probe: %" PRIu64 " lines of %s are lost: bpftrace could not print them in time "
			"(BPFTRACE_PERF_RB_PAGES=4096 enlarges its buffer; counting in a map loses nothing)\n",
			lost, source->name);
}

/* Print a message once all have attached. Returns whether they have. */
static bool announce_attached(struct run *run)
{
	for (uint32_t i = 0; !run->announced && i < run->source_count; i++) {
		if (run->sources[i].running && !bpftrace_has_attached(&run->sources[i].child))
			return false;
	}
	if (run->announced)
		return true;
	run->announced = true;
	for (uint32_t i = 0; i < run->source_count; i++) {
		if (run->sources[i].running)
			fprintf(stderr, "# %s on %s, process %d%s\n", run->title, run->sources[i].name, run->sources[i].pid,
				run->request->duration_ns ? "" : "; Ctrl-C ends");
	}
	return true;
}

static void handle_run_signal(struct run *run, int signals)
{
	struct signalfd_siginfo info;

	if (read(signals, &info, sizeof(info)) != sizeof(info))
		return;
	if (run->interrupted_ns)
		signal_all_sources(run, SIGKILL);
	else
		run->end_ns = clock_monotonic_ns() + GRACE_NS;
}

/* Wait once for input. False: no child is running. */
static bool poll_once(struct run *run, int signals)
{
	struct pollfd fds[1 + FDS_PER_SOURCE * SOURCES_MAX] = { { .fd = signals, .events = POLLIN } };
	bool running = false;

	for (uint32_t i = 0; i < run->source_count; i++) {
		fds[1 + 2 * i] = (struct pollfd){ .fd = run->sources[i].child.out_fd, .events = POLLIN };
		fds[2 + 2 * i] = (struct pollfd){ .fd = run->sources[i].child.err_fd, .events = POLLIN };
	}
	if (poll(fds, 1 + FDS_PER_SOURCE * run->source_count, TURN_MS) < 0 && errno != EINTR)
		return false;
	if (fds[0].revents)
		handle_run_signal(run, signals);
	for (uint32_t i = 0; i < run->source_count; i++) {
		struct source *source = &run->sources[i];

		if (fds[1 + 2 * i].revents && source->child.out_fd >= 0)
			handle_output(run, i, clock_monotonic_ns());
		if (fds[2 + 2 * i].revents && source->child.err_fd >= 0)
			bpftrace_read_messages(&source->child);
		if (source->running && source->child.out_fd < 0 && source->child.err_fd < 0)
			end_source(run, i);
		running |= source->running;
	}
	order_release(run->order, clock_monotonic_ns());
	fflush(run->out);
	return running;
}

static int open_end_signals(void)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	must(fd >= 0);
	return fd;
}

static int start_all_sources(struct run *run)
{
	struct fathom_fault why;

	for (uint32_t i = 0; i < run->source_count; i++) {
		struct source *source = &run->sources[i];

		order_expect(run->order, i, source->program.beats);
		if (bpftrace_start(&(struct bpftrace_start){ .program = source->program.text,
							     .types = declarations_of(source),
							     .pid = source->pid,
							     .json = run->request->json,
							     .args = run->request->script_args },
				   &source->child, &why) != 0) {
			signal_all_sources(run, SIGINT);
			return report_run_error(why.text);
		}
		source->running = true;
	}
	return 0;
}

/* Interrupt the children again that have lost their interrupt. */
static void repeat_lost_interrupts(struct run *run, uint64_t now)
{
	if (now - run->checked_ns < WAIT_CHECK_MS * NS_PER_MS)
		return;
	run->checked_ns = now;
	for (uint32_t i = 0; i < run->source_count; i++) {
		struct source *source = &run->sources[i];

		source->waits = source->running && bpftrace_waits_for_events(&source->child) ? source->waits + 1 : 0;
		if (source->waits < WAIT_CHECKS)
			continue;
		source->waits = 0;
		kill(source->child.pid, SIGINT);
	}
}

/* Interrupt the children when the time is over, and kill those that do not end in time. */
static void enforce_time_limits(struct run *run)
{
	uint64_t now = clock_monotonic_ns();
	uint64_t end_ns_max = run->request->end_timeout_ns ? run->request->end_timeout_ns : END_NS_MAX_DEFAULT;
	bool attached = announce_attached(run);

	if (run->request->duration_ns && !run->end_ns && (attached || now - run->begun_ns >= ATTACH_SEC_MAX * NS_PER_SEC)) {
		if (!attached)
			fprintf(stderr, "fathom probe: bpftrace did not attach within %d s; the time of -d begins now\n",
				ATTACH_SEC_MAX);
		run->end_ns = now + run->request->duration_ns;
	}
	if (run->end_ns && now >= run->end_ns && !run->interrupted_ns) {
		run->interrupted_ns = run->checked_ns = now;
		signal_all_sources(run, SIGINT);
	}
	if (run->interrupted_ns && !run->killed)
		repeat_lost_interrupts(run, now);
	if (run->interrupted_ns && now - run->interrupted_ns >= end_ns_max && !run->killed) {
		fprintf(stderr,
			"fathom probe: bpftrace did not end within %.3g s of its interrupt, and is killed; its maps are "
			"lost\n",
			(double)end_ns_max / NS_PER_SEC);
		run->killed = run->failed = true;
		signal_all_sources(run, SIGKILL);
	}
}

static void run_until_end(struct run *run)
{
	int signals = open_end_signals();
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	run->order = order_create(run->source_count, cpus > 0 ? (uint32_t)cpus : 1, emit_text, run);
	run->failed = start_all_sources(run) != 0;
	run->begun_ns = clock_monotonic_ns();
	while (poll_once(run, signals))
		enforce_time_limits(run);
	order_release(run->order, clock_monotonic_ns());
	for (uint32_t i = 0; i < run->source_count; i++) {
		if (run->sources[i].line_bytes)
			print_prefixed(run, &run->sources[i], "\n", 1);
	}
	order_destroy(run->order);
	close(signals);
}

static void free_sources(struct run *run)
{
	for (uint32_t i = 0; i < run->source_count; i++) {
		script_free(&run->sources[i].program);
		types_declared_free(&run->sources[i].types);
		free(run->sources[i].child.messages);
		free(run->sources[i].line);
		free(run->sources[i].received);
	}
}

static int run_script_to_output(struct run *run)
{
	struct fathom_fault why;

	if (bpftrace_check(&why) != 0 ||
	    (run->request->output && file_check_new(run->request->output, run->request->force, &why) != 0))
		return report_run_error(why.text);
	run->out = run->request->output ? fopen(run->request->output, "we") : stdout;
	if (!run->out) {
		fprintf(stderr, "fathom probe: cannot write \"%s\": %s\n", run->request->output, strerror(errno));
		return EXIT_USAGE;
	}
	run_until_end(run);
	if (run->request->output && fclose(run->out) != 0) {
		fprintf(stderr, "fathom probe: cannot write \"%s\": %s\n", run->request->output, strerror(errno));
		run->failed = true;
	}
	return run->failed ? EXIT_USAGE : EXIT_SUCCESS;
}

int probe_run(const struct probe_request *request)
{
	struct run *run = calloc(1, sizeof(*run));
	struct probe_request targets = *request;
	struct fathom_fault why;
	int status;

	must(run);
	run->request = request;
	if (!request->program) {
		if (request->target_count == 0) {
			free(run);
			return probe_complain("a script is missing: give a name, a file or -e PROGRAM", NULL);
		}
		targets.targets++;
		targets.target_count--;
	}
	run->title = request->program ? "-e" : request->targets[0];
	if (request->program) {
		run->script = strdup(request->program);
		must(run->script);
	} else if (probe_script_read(request->targets[0], &run->script, &why) != 0) {
		free(run);
		return report_run_error(why.text);
	}
	status = process_each(&targets, add_process_source, run);
	if (status == 0 && run->failed)
		status = EXIT_USAGE;
	if (status == 0 && request->print)
		print_programs(run);
	else if (status == 0)
		status = run_script_to_output(run);
	free_sources(run);
	free(run->script);
	free(run);
	return status;
}
