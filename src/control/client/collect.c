/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Collect logs of hosts. Each host builds an archive, which is fetched in pieces and written here, from a few hosts at a
 * time. A file gets its final name when it is complete; incomplete files are removed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/file.h"
#include "control/client/internal.h"
#include "control/fault/fault.h"
#include "control/status/status.h"
#include "rpc/proto/fathom.pb-c.h"

enum { COLLECT_PARALLEL = 8 };

struct collect;

struct collect_host {
	struct collect *collect;
	struct address *address;
	size_t place;
	struct host_answer part;
	char *id;	/* of the host's archive; NULL: no piece received yet */
	char *path;	/* final path */
	char *path_now; /* path while incomplete */
	char *warning;	/* from the server */
	int fd;
	uint64_t bytes, total_bytes;
};

struct collect {
	struct task task;
	struct arena *arena;
	const struct fathom_control_collection *what;
	struct collect_host *hosts;
	size_t host_count, next, running;
	bool stopped;
	bool gave_up; /* a host failed and stop_on_error is set: start no further host */
};

static void start_hosts(struct collect *collect);
static int request_piece(struct collect_host *host);

static struct collect *collect_of(struct task *task)
{
	return container_of(task, struct collect, task);
}

/* ---- the file of one host ---- */

static int unwritten(struct collect_host *host, const char *path, int error)
{
	return fault_log_unwritten(&host->part.why, path, strerror(error));
}

/* Create "HOST-NAME". NAME comes from the server: use only its last path component; the prefix prevents hidden files. */
static int open_file(struct collect_host *host, const char *name)
{
	const char *slash = strrchr(name, '/');
	char label[HOST_BYTES_MAX];
	size_t used = 0;

	name = slash ? slash + 1 : name;
	for (const char *c = host->address->host; *c && used + 1 < sizeof(label); c++)
		label[used++] = (char)(*c == ':' || *c == '/' ? '_' : *c);
	label[used] = '\0';
	must(asprintf(&host->path, "%s/%s-%s", host->collect->what->folder, label, name[0] ? name : "logs.tar.gz") >= 0);
	must(asprintf(&host->path_now, "%s.part", host->path) >= 0);
	host->fd = open(host->path_now, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	return host->fd < 0 ? unwritten(host, host->path_now, errno) : 0;
}

/* Sync the file before the rename, so that a file with the final name is complete. */
static int close_file(struct collect_host *host)
{
	int error = fsync(host->fd) ? errno : 0;

	if (close(host->fd) && error == 0)
		error = errno;
	host->fd = -1;
	if (error == 0 && rename(host->path_now, host->path))
		error = errno;
	if (error == 0)
		error = -file_sync_folder(host->path);
	return error ? unwritten(host, host->path, error) : 0;
}

static void host_free(struct collect_host *host)
{
	if (host->fd >= 0)
		(void)close(host->fd);
	if (!host->part.answered && host->path_now)
		(void)unlink(host->path_now); /* it may not exist */
	free(host->id);
	free(host->path);
	free(host->path_now);
	free(host->warning);
	free(host->part.key);
}

/* ---- pieces ---- */

static void host_is_done(struct collect_host *host)
{
	struct collect *collect = host->collect;

	collect->gave_up |= !host->part.answered && collect->what->stop_on_error;
	hang_up_host(collect->task.control, collect->host_count, host->address->text[host->place]);
	collect->task.done++;
	task_progress(&collect->task);
	start_hosts(collect);
}

static int take_piece(struct collect_host *host, const Fathom__CollectLogResp *response)
{
	bool first = !host->id;
	int error = 0;

	if (first) {
		host->id = strdup(response->id);
		host->warning = strdup(response->warning);
		must(host->id && host->warning);
		host->total_bytes = response->total_bytes;
		error = open_file(host, response->name);
	}
	if (error == 0 && (response->piece.len > host->total_bytes - host->bytes || (response->piece.len == 0 && !first)))
		error = fault(&host->part.why, -EPROTO, "%s: the pieces of its archive do not fit", host->address->host);
	if (error == 0 && response->piece.len > 0) {
		error = file_write(host->fd, response->piece.data, response->piece.len);
		if (error)
			error = unwritten(host, host->path_now, -error);
		host->bytes += response->piece.len;
	}
	return error;
}

/* The archive is complete. */
static void take_whole(struct collect_host *host)
{
	struct arena *arena = host->collect->arena;
	struct fathom_control_log *log;

	if (close_file(host))
		return;
	log = arena_array(arena, struct fathom_control_log, 1);
	log->path = arena_text(arena, host->path);
	log->bytes = host->bytes;
	log->warning = arena_text(arena, host->warning);
	host->part.answer.log = log;
	host->part.answered = true;
	host->part.key = strdup(host->path);
	must(host->part.key);
	host->part.key_bytes = strlen(host->path);
}

static void piece_done(void *ctx, const struct grpc_result *result)
{
	struct collect_host *host = ctx;
	struct collect *collect = host->collect;
	int error;

	collect->running--;
	if (result->code == GRPC_OK) {
		error = take_piece(host, (const Fathom__CollectLogResp *)result->response);
		if (error == 0 && host->bytes < host->total_bytes && request_piece(host) == 0)
			return;
		if (error == 0 && host->bytes == host->total_bytes)
			take_whole(host);
	} else if (collect->task.control->cancelled) {
		must(task_is_over(&collect->task, "support collect-log", &host->part.why) < 0);
	} else {
		fault_from_result(result, host->address->text[host->place], &host->part.why);
		if (!host->id && result_is_unreached(result) && host->place + 1 < host->address->count) {
			host->place++;
			if (request_piece(host) == 0)
				return;
		}
	}
	host_is_done(host);
}

static int request_piece(struct collect_host *host)
{
	struct collect *collect = host->collect;
	Fathom__CollectLogReq message = FATHOM__COLLECT_LOG_REQ__INIT;
	uint64_t left = task_left_ns(&collect->task);
	char *types[2];
	int error;

	if (left == 0)
		return task_is_over(&collect->task, "support collect-log", &host->part.why);
	message.sys = collect->task.control->system;
	message.id = host->id ? host->id : (char *)"";
	message.offset = host->bytes;
	message.from_s = collect->what->from_s;
	message.until_s = collect->what->until_s;
	message.extra_folder = (char *)(collect->what->extra_folder ? collect->what->extra_folder : "");
	message.stop_on_error = collect->what->stop_on_error;
	message.types = types;
	if (collect->what->kinds & FATHOM_CONTROL_LOGS_CONTROL)
		types[message.n_types++] = (char *)"control";
	if (collect->what->kinds & FATHOM_CONTROL_LOGS_ENGINES)
		types[message.n_types++] = (char *)"server";
	error = task_call(&collect->task, &(struct grpc_request){
						  .address = host->address->text[host->place],
						  .path = "/fathom.ControlSvc/CollectLog",
						  .message = &message.base,
						  .response = &fathom__collect_log_resp__descriptor,
						  .timeout_ns = left,
						  .done = piece_done,
						  .ctx = host,
					  });
	if (error)
		return fault(&host->part.why, error, "%s: %s", host->address->host, strerror(-error));
	collect->running++;
	return 0;
}

static void start_hosts(struct collect *collect)
{
	while (!collect->stopped && collect->next < collect->host_count && collect->running < COLLECT_PARALLEL) {
		struct collect_host *host = &collect->hosts[collect->next++];

		if (collect->gave_up)
			fill_fault_not_collected(&host->part.why);
		else if (host->address->count == 0)
			host->part.why = host->address->why;
		else if (request_piece(host) == 0)
			continue;
		collect->gave_up |= collect->what->stop_on_error;
		collect->task.done++;
	}
	if (collect->running > 0 || collect->task.ended)
		return;
	if (collect->task.control->cancelled)
		task_end(&collect->task, task_is_over(&collect->task, "support collect-log", &collect->task.why));
	else
		task_end(&collect->task, 0);
}

static void begin_collect(struct task *task)
{
	start_hosts(collect_of(task));
}

static void stop_collect(struct task *task)
{
	collect_of(task)->stopped = true;
	start_hosts(collect_of(task));
}

static void fold_results(struct collect *collect, struct fathom_control_answers *result)
{
	struct host_answer *parts = calloc(collect->host_count, sizeof(*parts));

	must(parts);
	for (size_t i = 0; i < collect->host_count; i++) {
		parts[i] = collect->hosts[i].part;
		parts[i].host = collect->hosts[i].address->host;
		if (parts[i].answered)
			continue;
		set_error_key(&parts[i], collect->hosts[i].address->text[collect->hosts[i].place]);
		collect->hosts[i].part.key = parts[i].key; /* host_free() frees it */
	}
	fold_answers(collect->arena, result, parts, collect->host_count);
	free(parts);
}

int fathom_control_collect_log(struct fathom_control *control, const struct fathom_control_collection *what,
			       struct fathom_control_answers **ret, struct fathom_fault *why_ret)
{
	size_t count = host_set_count(control->hosts);
	struct fathom_control_answers *result;
	struct address *addresses;
	struct collect collect = {
		.task = { .control = control,
			  .begin = begin_collect,
			  .total = (uint32_t)count,
			  .stop = stop_collect,
			  .deadline_ns = clock_monotonic_ns() + control->timeout_ns },
		.what = what,
		.host_count = count,
	};
	int error;

	if (mkdir(what->folder, 0700) && errno != EEXIST)
		return fault_log_unwritten(why_ret, what->folder, strerror(errno));
	result = result_create(sizeof(*result));
	collect.arena = result_arena(result);
	addresses = calloc(count, sizeof(*addresses));
	collect.hosts = calloc(count, sizeof(*collect.hosts));
	must(addresses);
	must(collect.hosts);
	for (size_t i = 0; i < count; i++) {
		collect.hosts[i].collect = &collect;
		collect.hosts[i].address = &addresses[i];
		collect.hosts[i].fd = -1;
	}
	error = resolve(control, control->hosts, addresses, collect.task.deadline_ns, why_ret);
	if (error == 0)
		error = task_run(&collect.task, why_ret);
	if (error == 0)
		fold_results(&collect, result);
	for (size_t i = 0; i < count; i++)
		host_free(&collect.hosts[i]);
	free(collect.hosts);
	free(addresses);
	if (error)
		fathom_control_free(result);
	else
		*ret = result;
	return error;
}
