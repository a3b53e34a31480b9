/* SPDX-License-Identifier: BSD-2-Clause */
#include "data/engine/state_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/inject/inject.h"
#include "base/log.h"
#include "data/engine/control.h"
#include "data/engine/probes.gen.h"

static struct state_file file = {
	.waiting = STAILQ_HEAD_INITIALIZER(file.waiting),
	.writing = STAILQ_HEAD_INITIALIZER(file.writing),
};

static const struct fathom_fault stopping = { .error = -ECANCELED, .text = "the engine stops: the change is not saved" };

static void move(enum state_file_state to)
{
	state_file_state_move(clock_ticks(), &file, to);
}

/* Returns their number. A `done` may add to `file.waiting`. */
static uint32_t answer(struct state_waiters *waiters, const struct fathom_fault *why)
{
	struct state_waiters taken = STAILQ_HEAD_INITIALIZER(taken);
	struct state_waiter *waiter;
	uint32_t count = 0;

	STAILQ_CONCAT(&taken, waiters);
	while ((waiter = STAILQ_FIRST(&taken))) {
		STAILQ_REMOVE_HEAD(&taken, link);
		waiter->done(waiter->ctx, why);
		free(waiter);
		count++;
	}
	return count;
}

/* ---- the text ---- */

static bool has_equal(const json_t *calls, const json_t *call)
{
	json_t *other;
	size_t index;

	json_array_foreach ((json_t *)calls, index, other) {
		if (json_equal(other, (json_t *)call))
			return true;
	}
	return false;
}

/* The calls of subsystem `name` in `config`, which gets the subsystem if it has none. */
static json_t *calls_of(json_t *config, const char *name)
{
	json_t *subsystems = json_object_get(config, "subsystems"), *subsystem, *calls;
	size_t index;

	json_array_foreach (subsystems, index, subsystem) {
		if (strcmp(json_string_value(json_object_get(subsystem, "subsystem")), name) == 0)
			return json_object_get(subsystem, "config");
	}
	subsystem = json_made(json_object());
	calls = json_made(json_array());
	json_put(subsystem, "subsystem", json_string(name));
	json_put(subsystem, "config", calls);
	json_add(subsystems, subsystem);
	return calls;
}

static char *make_text(void)
{
	json_t *config = framework_config(), *kept;
	size_t index;
	char *text;

	json_array_foreach (file.kept, index, kept) {
		json_t *calls = calls_of(config, json_string_value(json_object_get(kept, "subsystem")));
		json_t *call = json_object_get(kept, "call");

		if (!has_equal(calls, call))
			json_add(calls, json_incref(call));
	}
	text = json_dumps(config, JSON_INDENT(2));
	must(text);
	json_decref(config);
	return text;
}

/* ---- writing ---- */

static int write_new_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600), error;

	if (fd < 0)
		return -errno;
	error = file_write(fd, text, strlen(text));
	if (!error && fsync(fd) != 0)
		error = -errno;
	if (close(fd) != 0 && !error)
		error = -errno;
	return error;
}

/* On the worker thread: it uses only the paths, the text and the error. */
static void write_file(struct worker_job *job)
{
	struct state_file *written = container_of(job, struct state_file, job);

	written->error = inject(INJECT_STATE_WRITE);
	if (!written->error)
		written->error = write_new_file(written->new_path, written->text);
	if (!written->error)
		written->error = file_give_name(written->new_path, written->path, true);
	if (!written->error)
		written->error = file_sync_folder(written->path);
}

static void start_write(void *unused);

static void write_soon(void)
{
	if (file.scheduled || file.state == STATE_FILE_WRITING)
		return;
	file.scheduled = true;
	thread_send_msg(thread_control(), start_write, NULL);
}

static void end_write(struct worker_job *job)
{
	const struct fathom_fault *why = file.error ? &file.why : NULL;
	size_t bytes = strlen(file.text);
	uint32_t count;

	must(file.state == STATE_FILE_WRITING);
	file.writes++;
	free(file.saved);
	file.saved = NULL;
	if (file.error) { /* the file may be the old or the new one */
		file.failures++;
		fill_fault(&file.why, file.error,
			   "the change is made, but not saved: %s: %s; it is lost at the next start unless a later change "
			   "is saved",
			   file.path, strerror(-file.error));
		log_error("%s", file.why.text);
		free(file.text);
	} else {
		file.saved = file.text;
		file.exists = true;
	}
	file.text = NULL;
	move(file.error ? STATE_FILE_UNSAVED : STATE_FILE_SAVED);
	count = answer(&file.writing, why);
	probe_state_file_written(clock_ticks(), &file, file.error, bytes, count, clock_monotonic_ns() - file.begin_ns);
	if (file.stopping)
		(void)answer(&file.waiting, &stopping); /* their number is for the probe */
	else if (!STAILQ_EMPTY(&file.waiting))
		write_soon();
	if (file.closed)
		state_file_close(file.closed);
}

static void start_write(void *unused)
{
	char *text;
	int error;

	must(file.scheduled);
	file.scheduled = false;
	if (file.stopping) {
		(void)answer(&file.waiting, &stopping); /* likewise */
		if (file.closed)
			state_file_close(file.closed);
		return;
	}
	text = make_text();
	if (file.saved && strcmp(file.saved, text) == 0) {
		free(text);
		(void)answer(&file.waiting, NULL); /* likewise */
		return;
	}
	must(STAILQ_EMPTY(&file.writing));
	must(!file.text);
	STAILQ_CONCAT(&file.writing, &file.waiting);
	file.text = text;
	file.begin_ns = clock_monotonic_ns();
	move(STATE_FILE_WRITING);
	file.job = (struct worker_job){ .work = write_file, .done = end_write };
	error = worker_start(&file.job); /* from now on file.error is the worker's */
	if (!error)
		return;
	file.error = error;
	end_write(&file.job);
}

void state_file_save(engine_done_fn done, void *ctx)
{
	struct state_waiter *waiter;

	if (file.state == STATE_FILE_CLOSED || file.state == STATE_FILE_LOADING || file.state == STATE_FILE_HELD) {
		done(ctx, NULL);
		return;
	}
	if (file.stopping) {
		done(ctx, &stopping);
		return;
	}
	waiter = malloc(sizeof(*waiter));
	must(waiter);
	*waiter = (struct state_waiter){ .done = done, .ctx = ctx };
	STAILQ_INSERT_TAIL(&file.waiting, waiter, link);
	write_soon();
}

/* ---- the keeper of clients' changes ---- */

/* What a client-only method changes is not in the file. */
static int check_change(const struct rpc_method *method, struct fathom_fault *why)
{
	if (file.state != STATE_FILE_HELD || (method->states & RPC_CLIENTS_ONLY))
		return 0;
	*why = file.why;
	return why->error;
}

static void change_saved(void *ctx, const struct fathom_fault *why)
{
	rpc_kept(ctx, why);
}

static void keep_change(struct rpc_request *request)
{
	state_file_save(change_saved, request);
}

/* ---- life ---- */

int state_file_open(const char *path, struct config **config_ret, struct fathom_fault *why)
{
	static const struct rpc_keeper keeper = { check_change, keep_change };
	struct config *config = NULL;
	struct fathom_fault unusable;
	int error;

	must(file.state == STATE_FILE_CLOSED);
	if ((size_t)snprintf(file.new_path, sizeof(file.new_path), "%s.new", path) >= sizeof(file.new_path))
		return fault(why, -ENAMETOOLONG, "--state %s: %s", path, strerror(ENAMETOOLONG));
	trace_object_init(&file.trace, TRACE_OBJECT_STATE_FILE);
	file.path = path;
	error = config_load(path, &config, &unusable);
	file.exists = error != -ENOENT;
	rpc_set_keeper(&keeper);
	if (error && error != -ENOENT) {
		fill_fault(&file.why, error,
			   "--state: %s; changes are refused, so that the file is kept: correct it or move it away, then "
			   "restart the engine",
			   unusable.text);
		move(STATE_FILE_HELD);
		return 0;
	}
	if (config)
		config_collect_failed(config);
	move(STATE_FILE_LOADING);
	*config_ret = config;
	return 0;
}

bool state_file_exists(void)
{
	return file.exists;
}

void state_file_loaded(const json_t *failed)
{
	size_t count = json_array_size(failed);

	if (file.state == STATE_FILE_HELD) {
		log_error("%s", file.why.text);
		engine_raise_event(RAS_ENGINE_STATE_HELD, NULL, "%s", file.why.text);
	}
	if (file.state != STATE_FILE_LOADING)
		return;
	file.kept = json_made(failed ? json_deep_copy(failed) : json_array());
	if (count > 0)
		engine_raise_event(RAS_ENGINE_STATE_HELD, NULL,
				   "--state: %zu call%s of %s failed, and %s kept for the next start; the log names each",
				   count, count == 1 ? "" : "s", file.path, count == 1 ? "is" : "are");
	if (file.exists)
		file.saved = make_text();
	move(STATE_FILE_SAVED);
}

void state_file_stop(void)
{
	file.stopping = true;
}

void state_file_close(void (*closed)(void))
{
	must(file.stopping);
	if (file.state == STATE_FILE_WRITING || file.scheduled) {
		file.closed = closed;
		return;
	}
	must(STAILQ_EMPTY(&file.waiting));
	file.closed = NULL;
	rpc_set_keeper(NULL);
	free(file.saved);
	file.saved = NULL;
	json_decref(file.kept);
	file.kept = NULL;
	if (file.state != STATE_FILE_CLOSED)
		move(STATE_FILE_CLOSED);
	file.exists = file.stopping = false;
	file.writes = file.failures = 0;
	closed();
}

void state_file_stats(json_t *result)
{
	json_t *stats;

	if (file.state == STATE_FILE_CLOSED)
		return;
	stats = json_made(json_object());
	json_put(stats, "path", json_text(file.path));
	json_put(stats, "state", json_string(state_file_state_name(file.state)));
	if (file.state == STATE_FILE_HELD || file.state == STATE_FILE_UNSAVED)
		json_put(stats, "reason", json_text(file.why.text));
	json_put(stats, "kept_calls", json_integer((json_int_t)json_array_size(file.kept)));
	json_put(stats, "writes", json_integer((json_int_t)file.writes));
	json_put(stats, "failures", json_integer((json_int_t)file.failures));
	json_put(result, "state_file", stats);
}
