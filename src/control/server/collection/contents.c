/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The contents of a collection, in the worker thread that makes it:
 *
 *	server.yml		the configuration			server.log, engineN.log	the ends of the logs
 *	engines.txt		states as they are now			superblockN		as it is on the storage
 *	devices.txt		block devices and their use		interfaces.txt		network interfaces
 *	engineN.config.json	its configuration			engineN.iostat.json	its statistics
 *	engineN.trace		its trace, frozen			events.txt		on the management host
 *	statistics.txt		counters of the server			extra/...		of the folder in the request
 *
 * Without a configured log file, the server's log is read from the file of standard error, or from the journal.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "control/network/network.h"
#include "control/server/collection/internal.h"
#include "control/server/collection/journal.h"
#include "control/storage/storage.h"

enum { EXTRA_FILES_MAX = 64 };

static void add_text(struct collection *collection, const char *name, const char *line)
{
	char text[COLLECTION_WARNING_BYTES + 1];

	archive_add_bytes(collection, name, text, (size_t)snprintf(text, sizeof(text), "%s\n", line));
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
	char path[COLLECTION_FOLDER_BYTES + NAME_MAX + 2], name[NAME_MAX + sizeof("extra/")];

	if (count < 0) {
		archive_add_reason(collection, "extra", collection->extra_folder, -errno);
		return;
	}
	for (int i = 0; i < count; i++) {
		struct stat stat;

		snprintf(path, sizeof(path), "%s/%s", collection->extra_folder, entries[i]->d_name);
		snprintf(name, sizeof(name), "extra/%s", entries[i]->d_name);
		free(entries[i]);
		if (i < EXTRA_FILES_MAX && lstat(path, &stat) == 0 && S_ISREG(stat.st_mode))
			archive_add_file(collection, name, path, true);
	}
	free(entries);
}

/* Add the reason why the server's log is missing. `said`: output of journalctl, or "". */
static void add_missing_log(struct collection *collection, const char *place, int error, const char *said)
{
	const char *why = said[0] ? said : error ? strerror(-error) : "no line that it may read";

	if (!log_is_in_journal())
		snprintf(collection->warning, sizeof(collection->warning),
			 "the server's log is missing: it goes to standard error (%.256s); set control_log_file", place);
	else
		snprintf(collection->warning, sizeof(collection->warning),
			 "the server's log is missing: `journalctl -u fathom-server` printed no line (%.*s); let the "
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

	must(collection->id[0]); /* it makes the path unique */
	snprintf(path, sizeof(path), "%s/.%s.journal", collection->server->config->state_dir, collection->id);
	error = journal_write(collection->server->os, collection->from_s, collection->until_s, path);
	if (archive_read_file(collection, path, false, &bytes, &count) == 0 && error == 0 && count > 0) {
		archive_add_bytes(collection, "server.log", bytes, count);
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
		archive_add_file(collection, "server.log", log_file ? log_file : place, true);
	else if (log_is_in_journal())
		add_journal(collection, place);
	else
		add_missing_log(collection, place, 0, "");
}

/* A file of the collection that is written as text. */
struct text_file {
	FILE *out;
	char *text;
	size_t bytes;
};

/* Returns `file->out`. NULL: out of memory, which is kept in the collection. */
static FILE *begin_text(struct collection *collection, struct text_file *file)
{
	*file = (struct text_file){ 0 };
	file->out = open_memstream(&file->text, &file->bytes);
	if (!file->out)
		collection->error = -ENOMEM;
	return file->out;
}

static void end_text(struct collection *collection, struct text_file *file, const char *name)
{
	must(file->out);
	if (fclose(file->out) == 0)
		archive_add_bytes(collection, name, file->text, file->bytes);
	else
		collection->error = -ENOMEM;
	free(file->text);
}

static void add_devices(struct collection *collection)
{
	const struct storage_scan_options all = { 0 };
	struct storage_scan scan;
	struct fathom_fault why;
	struct text_file file;
	FILE *out = begin_text(collection, &file);

	if (!out)
		return;
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
	end_text(collection, &file, "devices.txt");
}

static void add_interfaces(struct collection *collection)
{
	struct network_scan scan;
	struct fathom_fault why;
	struct text_file file;
	FILE *out = begin_text(collection, &file);

	if (!out)
		return;
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
	end_text(collection, &file, "interfaces.txt");
}

static void add_engine(struct collection *collection, size_t index)
{
	const struct server_config *config = collection->server->config;
	const char *log_file = server_config_engine(config, index)->log_file;
	char name[COLLECTION_NAME_BYTES], path[SERVER_PATH_BYTES];

	must(index < SERVER_ENGINES_MAX);
	snprintf(path, sizeof(path), "%s/engine%zu.log", config->state_dir, index);
	snprintf(name, sizeof(name), "engine%zu.log", index);
	if (!collection->logs_alone || collection->engine_logs)
		archive_add_file(collection, name, log_file ? log_file : path, true);
	if (!collection->logs_alone && server_superblock_path(config, index, path, sizeof(path)) == 0) {
		snprintf(name, sizeof(name), "superblock%zu", index);
		archive_add_file(collection, name, path, false);
	}
}

/* Add the engine's answers, or the reason why there is none. */
static void add_engine_answers(struct collection *collection, size_t index)
{
	static const char *const names[] = { "config.json", "iostat.json", "trace" };
	const struct server *server = collection->server;
	char name[COLLECTION_NAME_BYTES], path[SERVER_PATH_BYTES];
	int error = 0;

	static_assert(ARRAY_COUNT(names) == ENGINE_TRACE + 1, "each question has its file");
	must(index < ARRAY_COUNT(collection->sockets));
	for (size_t question = 0; collection->sockets[index] && question < ARRAY_COUNT(names); question++) {
		char *bytes = NULL;
		size_t count = 0;

		snprintf(name, sizeof(name), "engine%zu.%s", index, names[question]);
		snprintf(path, sizeof(path), "%s/.%s.%s", server->config->state_dir, collection->id, name);
		/* do not ask an engine again after a time-out */
		if (error != -ETIMEDOUT)
			error = engine_answer_read(server, collection->sockets[index], (enum engine_question)question, path,
						   &bytes, &count);
		if (error)
			archive_add_reason(collection, name, collection->sockets[index], error);
		else
			archive_add_bytes(collection, name, bytes, count);
		free(bytes);
	}
}

void collection_make(struct worker_job *job)
{
	struct collection *collection = container_of(job, struct collection, job);
	const struct server *server = collection->server;

	must(!collection->is_ready);
	must(collection->call);
	if (archive_open(collection) != 0)
		return;
	if (!collection->logs_alone) {
		archive_add_file(collection, "server.yml", server->options->config_path, false);
		archive_add_bytes(collection, "engines.txt", collection->states, strlen(collection->states));
		if (collection->statistics)
			archive_add_bytes(collection, "statistics.txt", collection->statistics,
					  strlen(collection->statistics));
	}
	if (!collection->logs_alone || collection->control_log)
		add_server_log(collection);
	for (size_t i = 0; i < server->config->engines.count; i++) {
		add_engine(collection, i);
		if (!collection->logs_alone)
			add_engine_answers(collection, i);
	}
	if (!collection->logs_alone && collection->events)
		archive_add_bytes(collection, "events.txt", collection->events, strlen(collection->events));
	if (!collection->logs_alone) {
		add_devices(collection);
		add_interfaces(collection);
	}
	if (collection->extra_folder[0])
		add_extra(collection);
	archive_finish(collection);
	must(!collection->tar);
}
