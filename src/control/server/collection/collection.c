/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CollectLog: the logs and states of this host for support, as one tar archive (ustar) compressed with zstd. A worker
 * thread makes it. It stays in memory until the next collection; clients fetch it in pieces.
 *
 *	server.yml		the configuration			server.log, engineN.log	the ends of the logs
 *	engines.txt		states as they are now			superblockN		as it is on the storage
 *	devices.txt		block devices and their use		interfaces.txt		network interfaces
 *
 *	engineN.config.json	its configuration		engineN.iostat.json	its statistics
 *	engineN.trace		its trace, frozen		events.txt		the system's, on the management host
 *	extra/...		files of a folder that the request names
 *
 * Without a configured log file, the server's log is read from the file of standard error, or from the journal. Files that
 * contain a private key are replaced by a note.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <zstd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/server/collection/collect.h"
#include "control/server/core/core.h"
#include "control/server/collection/journal.h"
#include "control/server/collection/log_window.h"
#include "control/status/status.h"
#include "rpc/proto/fathom.pb-c.h"

enum {
	PIECE_BYTES_MAX = 1 << 20,
	FILE_BYTES_MAX = 4 << 20, /* of a longer file only its end is collected */
	TAR_BLOCK_BYTES = 512,
	LEVEL = 3,
	NAME_BYTES = 128,
	ID_BYTES = 32,
	EXTRA_FILES_MAX = 64,
	FOLDER_BYTES = 4096,
	WARNING_BYTES = 1024,
};

#define KEY_WORDS "PRIVATE KEY-----"

struct collection {
	struct worker_job job;
	struct server *server;
	struct grpc_call *call; /* waits for the first piece */
	char id[ID_BYTES], name[NAME_BYTES];
	struct log_window window;
	uint64_t from_s, until_s;		   /* limits of `window` */
	bool logs_alone, control_log, engine_logs; /* all false: everything */
	bool stop_on_error;
	char extra_folder[FOLDER_BYTES];   /* "": none */
	char *states, *events;		   /* engines.txt and events.txt, made on the control thread; NULL: none */
	char *sockets[SERVER_ENGINES_MAX]; /* RPC sockets of running engines; else NULL */
	FILE *tar;
	char *plain;
	size_t plain_bytes;
	uint8_t *packed;
	size_t packed_bytes;
	int error;
	char reason[512];	     /* "": use strerror() of `error` */
	char warning[WARNING_BYTES]; /* a missing part; "": none */
	bool is_ready;
};

void collection_free(struct collection *collection)
{
	if (!collection)
		return;
	free(collection->states);
	free(collection->events);
	for (size_t i = 0; i < SERVER_ENGINES_MAX; i++)
		free(collection->sockets[i]);
	free(collection->plain);
	free(collection->packed);
	free(collection);
}

/* ---- tar ---- */

struct tar_head {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], kind, link[100], magic[6], version[2],
		user[32], group[32], major[8], minor[8], prefix[155], pad[12];
};
static_assert(sizeof(struct tar_head) == TAR_BLOCK_BYTES, "POSIX ustar");

static void put_bytes(struct collection *collection, const void *bytes, size_t count)
{
	/* fclose() need not report this error */
	if (fwrite(bytes, 1, count, collection->tar) != count && !collection->error)
		collection->error = -ENOMEM;
}

static void add_bytes(struct collection *collection, const char *name, const void *bytes, size_t count)
{
	struct tar_head head = { .kind = '0', .magic = "ustar", .version = { '0', '0' } };
	static const char zeroes[TAR_BLOCK_BYTES];
	const uint8_t *raw = (const uint8_t *)&head;
	unsigned int sum = 0;

	snprintf(head.name, sizeof(head.name), "%.31s/%.66s", collection->id, name);
	snprintf(head.mode, sizeof(head.mode), "%07o", 0640u);
	snprintf(head.uid, sizeof(head.uid), "%07o", 0u);
	snprintf(head.gid, sizeof(head.gid), "%07o", 0u);
	snprintf(head.size, sizeof(head.size), "%011zo", count);
	snprintf(head.mtime, sizeof(head.mtime), "%011" PRIo64, (uint64_t)time(NULL));
	memset(head.sum, ' ', sizeof(head.sum));
	for (size_t i = 0; i < sizeof(head); i++)
		sum += raw[i];
	snprintf(head.sum, sizeof(head.sum), "%06o", sum);
	put_bytes(collection, &head, sizeof(head));
	put_bytes(collection, bytes, count);
	put_bytes(collection, zeroes, (TAR_BLOCK_BYTES - count % TAR_BLOCK_BYTES) % TAR_BLOCK_BYTES);
}

static void add_text(struct collection *collection, const char *name, const char *line)
{
	char text[WARNING_BYTES + 1];

	add_bytes(collection, name, text, (size_t)snprintf(text, sizeof(text), "%s\n", line));
}

/* The last FILE_BYTES_MAX of the lines inside the window. Errors: negative errno. */
static int read_lines(struct collection *collection, FILE *file, char **bytes_ret, size_t *count_ret)
{
	struct log_window window = collection->window;
	char *line = NULL, *bytes = malloc(2 * FILE_BYTES_MAX);
	size_t used = 0, room = 0;
	ssize_t length;
	int error = 0;

	while (bytes && (length = getline(&line, &room, file)) > 0) {
		size_t count = (size_t)length < FILE_BYTES_MAX ? (size_t)length : FILE_BYTES_MAX;

		if (!log_window_takes(&window, line, (size_t)length))
			continue;
		if (used + count > 2 * FILE_BYTES_MAX) {
			memmove(bytes, bytes + used - FILE_BYTES_MAX, FILE_BYTES_MAX);
			used = FILE_BYTES_MAX;
		}
		memcpy(bytes + used, line, count);
		used += count;
	}
	if (!bytes || !feof(file)) /* getline() that is out of memory sets no error of the file */
		error = bytes && ferror(file) ? -EIO : -ENOMEM;
	free(line);
	if (error) {
		free(bytes);
		return error;
	}
	if (used > FILE_BYTES_MAX)
		memmove(bytes, bytes + used - FILE_BYTES_MAX, FILE_BYTES_MAX);
	*bytes_ret = bytes;
	*count_ret = used < FILE_BYTES_MAX ? used : FILE_BYTES_MAX;
	return 0;
}

/* The end of the file. Errors: negative errno. */
static int read_end(int fd, off_t size, char **bytes_ret, size_t *count_ret)
{
	off_t from = size > FILE_BYTES_MAX ? size - FILE_BYTES_MAX : 0;
	char *bytes = malloc(FILE_BYTES_MAX);
	size_t used = 0;
	ssize_t got = bytes ? 1 : -1;
	int error;

	while (got > 0 && used < FILE_BYTES_MAX) {
		got = pread(fd, bytes + used, FILE_BYTES_MAX - used, from + (off_t)used);
		used += got > 0 ? (size_t)got : 0;
	}
	if (got < 0) {
		error = bytes ? -errno : -ENOMEM;
		free(bytes);
		return error;
	}
	*bytes_ret = bytes;
	*count_ret = used;
	return 0;
}

static int read_file(struct collection *collection, const char *path, bool is_log, char **bytes_ret, size_t *count_ret)
{
	/* O_NONBLOCK: opening a pipe or a device must not block */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), error;
	struct stat stat;
	FILE *file;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &stat) != 0 || !S_ISREG(stat.st_mode)) {
		close(fd);
		return -EINVAL;
	}
	if (!is_log || collection->window.is_all) {
		error = read_end(fd, stat.st_size, bytes_ret, count_ret);
		close(fd);
		return error;
	}
	file = fdopen(fd, "r");
	if (!file) {
		close(fd);
		return -ENOMEM;
	}
	error = read_lines(collection, file, bytes_ret, count_ret);
	(void)fclose(file); /* it was read */
	return error;
}

/* Add the reason why `path` could not be read, instead of its contents. */
static void add_reason(struct collection *collection, const char *name, const char *path, int error)
{
	char why[512];

	snprintf(why, sizeof(why), "%.400s: %s\n", path, error == -EINVAL ? "not a regular file" : strerror(-error));
	add_bytes(collection, name, why, strlen(why));
	if (collection->stop_on_error && !collection->error) {
		collection->error = error;
		snprintf(collection->reason, sizeof(collection->reason), "%.*s", (int)strcspn(why, "\n"), why);
	}
}

/* Add the contents of the file, or the reason why it cannot be read. */
static void add_file(struct collection *collection, const char *name, const char *path, bool is_log)
{
	char why[512], *bytes = NULL;
	size_t count = 0;
	int error = read_file(collection, path, is_log, &bytes, &count);

	if (error == 0 && memmem(bytes, count, KEY_WORDS, strlen(KEY_WORDS))) {
		snprintf(why, sizeof(why), "%.400s has a private key, which is not collected\n", path);
		add_bytes(collection, name, why, strlen(why));
	} else if (error == 0) {
		add_bytes(collection, name, bytes, count);
	} else {
		add_reason(collection, name, path, error);
	}
	free(bytes);
}

static int is_shown(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

/* Files of the folder, without its subfolders. */
static void add_extra(struct collection *collection)
{
	struct dirent **entries = NULL;
	int count = scandir(collection->extra_folder, &entries, is_shown, alphasort);
	char path[FOLDER_BYTES + NAME_MAX + 2], name[NAME_MAX + sizeof("extra/")];

	if (count < 0) {
		add_reason(collection, "extra", collection->extra_folder, -errno);
		return;
	}
	for (int i = 0; i < count; i++) {
		struct stat stat;

		snprintf(path, sizeof(path), "%s/%s", collection->extra_folder, entries[i]->d_name);
		snprintf(name, sizeof(name), "extra/%s", entries[i]->d_name);
		free(entries[i]);
		if (i < EXTRA_FILES_MAX && lstat(path, &stat) == 0 && S_ISREG(stat.st_mode))
			add_file(collection, name, path, true);
	}
	free(entries);
}

/* ---- contents ---- */

/* Add the reason why the server's log is missing. `said`: output of journalctl, or "". */
static void add_missing_log(struct collection *collection, const char *place, int error, const char *said)
{
	const char *why = said[0] ? said : error ? strerror(-error) : "nothing it may read";

	if (!log_is_in_journal())
		snprintf(collection->warning, sizeof(collection->warning),
			 "the server's log is not there: it goes to standard error (%.256s); set control_log_file", place);
	else
		snprintf(collection->warning, sizeof(collection->warning),
			 "the server's log is not there: `journalctl -u fathom-server` gave nothing (%.*s); let the "
			 "server's user "
			 "read the journal (group systemd-journal), or set control_log_file",
			 (int)strcspn(why, "\n"), why);
	add_text(collection, "server.log", collection->warning);
	if (collection->stop_on_error && !collection->error) {
		collection->error = -ENOENT;
		snprintf(collection->reason, sizeof(collection->reason), "%.500s", collection->warning);
	}
}

/* The server's log from the journal, through a temporary file. */
static void add_journal(struct collection *collection, const char *place)
{
	char path[SERVER_PATH_BYTES], *bytes = NULL;
	size_t count = 0;
	int error;

	snprintf(path, sizeof(path), "%s/.%s.journal", collection->server->config->state_dir, collection->id);
	error = journal_write(collection->server->os, collection->from_s, collection->until_s, path);
	if (read_file(collection, path, false, &bytes, &count) == 0 && error == 0 && count > 0) {
		add_bytes(collection, "server.log", bytes, count);
	} else {
		char said[256];

		snprintf(said, sizeof(said), "%.*s", (int)(count < sizeof(said) ? count : sizeof(said) - 1),
			 bytes ? bytes : "");
		add_missing_log(collection, place, error, said);
	}
	free(bytes);
	(void)unlink(path); /* journalctl may not have been started */
}

static void add_server_log(struct collection *collection)
{
	const char *log_file = collection->server->config->log_file;
	char place[SERVER_PATH_BYTES];
	bool is_file = log_place(place, sizeof(place));

	if (log_file || is_file)
		add_file(collection, "server.log", log_file ? log_file : place, true);
	else if (log_is_in_journal())
		add_journal(collection, place);
	else
		add_missing_log(collection, place, 0, "");
}

/* Add the text of the memory stream `out`; closes `out`, and frees `text`. */
static void add_stream(struct collection *collection, const char *name, FILE *out, char **text, const size_t *bytes)
{
	if (fclose(out) == 0)
		add_bytes(collection, name, *text, *bytes);
	else
		collection->error = -ENOMEM;
	free(*text);
}

static void add_devices(struct collection *collection)
{
	const struct storage_scan_options all = { 0 };
	struct storage_scan scan;
	struct fathom_fault why;
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	if (!out) {
		collection->error = -ENOMEM;
		return;
	}
	if (storage_scan(collection->server->os, &all, &scan, &why) == 0) {
		for (size_t i = 0; i < scan.count; i++) {
			char use[256];

			storage_use_text(&scan.devices[i], use, sizeof(use));
			fprintf(out, "%s %s %" PRIu64 " bytes, %s, serial %s: %s\n", scan.devices[i].path,
				storage_class_name(scan.devices[i].class), scan.devices[i].bytes, scan.devices[i].model,
				scan.devices[i].serial, use);
		}
		storage_scan_free(&scan);
	} else {
		fprintf(out, "%s\n", why.text);
	}
	add_stream(collection, "devices.txt", out, &text, &bytes);
}

static void add_interfaces(struct collection *collection)
{
	struct network_scan scan;
	struct fathom_fault why;
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	if (!out) {
		collection->error = -ENOMEM;
		return;
	}
	if (network_scan(collection->server->os, &scan, &why) == 0) {
		for (size_t i = 0; i < scan.count; i++) {
			const struct network_interface *interface = &scan.interfaces[i];

			fprintf(out, "%s %s %s", interface->name, network_class_name(interface->class),
				network_state_name(interface->state));
			for (uint32_t a = 0; a < interface->address_count && a < NETWORK_ADDRESSES_MAX; a++)
				fprintf(out, " %s/%u", interface->addresses[a].text, interface->addresses[a].prefix_bits);
			fprintf(out, "\n");
		}
		network_scan_free(&scan);
	} else {
		fprintf(out, "%s\n", why.text);
	}
	add_stream(collection, "interfaces.txt", out, &text, &bytes);
}

static void add_engine(struct collection *collection, size_t index)
{
	const struct server_config *config = collection->server->config;
	const char *log_file = server_config_engine(config, index)->log_file;
	char name[NAME_BYTES], path[SERVER_PATH_BYTES];

	snprintf(path, sizeof(path), "%s/engine%zu.log", config->state_dir, index);
	snprintf(name, sizeof(name), "engine%zu.log", index);
	if (!collection->logs_alone || collection->engine_logs)
		add_file(collection, name, log_file ? log_file : path, true);
	if (!collection->logs_alone && server_superblock_path(config, index, path, sizeof(path)) == 0) {
		snprintf(name, sizeof(name), "superblock%zu", index);
		add_file(collection, name, path, false);
	}
}

/* Add the engine's answers, or the reason why there is none. */
static void add_engine_answers(struct collection *collection, size_t index)
{
	static const char *const names[] = { "config.json", "iostat.json", "trace" };
	const struct server *server = collection->server;
	char name[NAME_BYTES], path[SERVER_PATH_BYTES];
	int error = 0;

	for (size_t word = 0; collection->sockets[index] && word < ARRAY_COUNT(names); word++) {
		char *bytes = NULL;
		size_t count = 0;

		snprintf(name, sizeof(name), "engine%zu.%s", index, names[word]);
		snprintf(path, sizeof(path), "%s/.%s.%s", server->config->state_dir, collection->id, name);
		/* do not ask an engine again after a time-out */
		if (error != -ETIMEDOUT)
			error = engine_say(server->os, server->options->programs, collection->sockets[index],
					   (enum engine_word)word, path, &bytes, &count);
		if (error)
			add_reason(collection, name, collection->sockets[index], error);
		else
			add_bytes(collection, name, bytes, count);
		free(bytes);
	}
}

static void compress_archive(struct collection *collection)
{
	size_t bound = ZSTD_compressBound(collection->plain_bytes), bytes;

	collection->packed = malloc(bound);
	if (!collection->packed) {
		collection->error = -ENOMEM;
		return;
	}
	bytes = ZSTD_compress(collection->packed, bound, collection->plain, collection->plain_bytes, LEVEL);
	if (ZSTD_isError(bytes))
		collection->error = -EIO;
	else
		collection->packed_bytes = bytes;
	free(collection->plain);
	collection->plain = NULL;
}

/* On a worker thread. */
static void collect(struct worker_job *job)
{
	struct collection *collection = container_of(job, struct collection, job);
	const struct server *server = collection->server;
	static const char end[2 * TAR_BLOCK_BYTES];

	collection->tar = open_memstream(&collection->plain, &collection->plain_bytes);
	if (!collection->tar) {
		collection->error = -ENOMEM;
		return;
	}
	if (!collection->logs_alone) {
		add_file(collection, "server.yml", server->options->config_path, false);
		add_bytes(collection, "engines.txt", collection->states, strlen(collection->states));
	}
	if (!collection->logs_alone || collection->control_log)
		add_server_log(collection);
	for (size_t i = 0; i < server->config->engines.count; i++) {
		add_engine(collection, i);
		if (!collection->logs_alone)
			add_engine_answers(collection, i);
	}
	if (!collection->logs_alone && collection->events)
		add_bytes(collection, "events.txt", collection->events, strlen(collection->events));
	if (!collection->logs_alone) {
		add_devices(collection);
		add_interfaces(collection);
	}
	if (collection->extra_folder[0])
		add_extra(collection);
	put_bytes(collection, end, sizeof(end));
	if (fclose(collection->tar) != 0 && !collection->error)
		collection->error = -ENOMEM;
	if (!collection->error)
		compress_archive(collection);
}

/* ---- the method ---- */

static void reply_piece(const struct collection *collection, struct grpc_call *call, uint64_t offset)
{
	Fathom__CollectLogResp answer = FATHOM__COLLECT_LOG_RESP__INIT;
	uint64_t left = offset < collection->packed_bytes ? collection->packed_bytes - offset : 0;

	answer.id = (char *)collection->id;
	answer.name = (char *)collection->name;
	answer.warning = (char *)collection->warning;
	answer.total_bytes = collection->packed_bytes;
	answer.piece.data = collection->packed + (left ? offset : 0);
	answer.piece.len = left < PIECE_BYTES_MAX ? left : PIECE_BYTES_MAX;
	grpc_reply(call, &answer.base);
}

static void fail_collect(struct grpc_call *call, const char *reason)
{
	struct fathom_fault why;

	why.error = fault_collect_failed(&why, reason);
	call_fail(call, &why);
}

static void on_collected(struct worker_job *job)
{
	struct collection *collection = container_of(job, struct collection, job);
	struct server *server = collection->server;
	struct grpc_call *call = collection->call;

	server->jobs--;
	collection->call = NULL;
	if (collection->error) {
		fail_collect(call, collection->reason[0] ? collection->reason : strerror(-collection->error));
		server->collection = NULL;
		collection_free(collection);
		return;
	}
	collection->is_ready = true;
	reply_piece(collection, call, 0);
}

static void note_sockets(struct collection *collection)
{
	for (uint32_t i = 0; i < collection->server->instance_count; i++) {
		struct instance_info info;

		instance_get_info(collection->server->instances[i], &info);
		if (info.pid != 0 && info.rpc_socket[0])
			collection->sockets[i] = strdup(info.rpc_socket);
	}
}

/* Take the request's choices. NULL: valid; else the reason why not. */
static const char *choose_contents(struct collection *collection, const Fathom__CollectLogReq *request)
{
	log_window_init(&collection->window, request->from_s, request->until_s);
	collection->from_s = request->from_s;
	collection->until_s = request->until_s;
	collection->stop_on_error = request->stop_on_error;
	collection->logs_alone = request->n_types > 0;
	for (size_t i = 0; i < request->n_types; i++) {
		collection->control_log |= strcmp(request->types[i], "control") == 0;
		collection->engine_logs |= strcmp(request->types[i], "server") == 0;
	}
	if (request->extra_folder[0] && request->extra_folder[0] != '/')
		return "the folder of extra logs is not an absolute path";
	if (text_copy(collection->extra_folder, sizeof(collection->extra_folder), request->extra_folder) < 0)
		return "the folder of extra logs has too long a name";
	return NULL;
}

static void begin_collection(struct server *server, struct grpc_call *call, const Fathom__CollectLogReq *request)
{
	struct collection *collection;
	char host[65] = "host";
	const char *reason;
	int error;

	if (server->collection && !server->collection->is_ready) {
		fail_collect(call, "another collection is under way");
		return;
	}
	collection = calloc(1, sizeof(*collection));
	must(collection);
	reason = choose_contents(collection, request);
	if (reason) {
		fail_collect(call, reason);
		collection_free(collection);
		return;
	}
	collection_free(server->collection);
	server->collection = NULL;
	(void)!gethostname(host, sizeof(host) - 1); /* on an error the name is "host" */
	snprintf(collection->id, sizeof(collection->id), "fathom-%" PRIu64, clock_realtime_ns());
	snprintf(collection->name, sizeof(collection->name), "%s-%s.tar.zst", collection->id, host);
	collection->server = server;
	collection->call = call;
	collection->states = server_print_states(server);
	collection->events = server->of_call.mgmt ? mgmt_events_text(server->of_call.mgmt) : NULL;
	note_sockets(collection);
	collection->job.work = collect;
	collection->job.done = on_collected;
	error = worker_start(&collection->job);
	if (error) {
		collection_free(collection);
		fail_collect(call, strerror(-error));
		return;
	}
	server->collection = collection;
	server->jobs++;
}

void call_collect_log(struct grpc_call *call, const ProtobufCMessage *message)
{
	const Fathom__CollectLogReq *request = (const Fathom__CollectLogReq *)message;
	struct server *server = server_of(call);
	struct fathom_fault why;

	if (!server_is_addressed(server, call, request->sys))
		return;
	if (request->id[0] == '\0') {
		begin_collection(server, call, request);
	} else if (server->collection && server->collection->is_ready && strcmp(server->collection->id, request->id) == 0) {
		reply_piece(server->collection, call, request->offset);
	} else {
		why.error = fault_collection_gone(&why, request->id);
		call_fail(call, &why);
	}
}
