/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CollectLog: what a person who helps wants to see of this host, as one tar archive (ustar) compressed with zstd, made by a
 * thread of its own and kept in memory until the next is made; fetched in pieces.
 *
 *	server.yml		the configuration			server.log, engineN.log	the ends of the logs
 *	engines.txt		states as they are now			superblockN		as it is on the storage
 *	devices.txt		block devices and who uses them		interfaces.txt		network interfaces
 *
 * Keys of certificates are not read.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <zstd.h>

#include "base/clock.h"
#include "control/fault/fault.h"
#include "control/server/internal.h"
#include "control/status/status.h"
#include "proto/fathom.pb-c.h"

enum {
	PIECE_BYTES_MAX = 1 << 20,
	FILE_BYTES_MAX = 4 << 20, /* of each, the end */
	TAR_BLOCK_BYTES = 512,
	LEVEL = 3,
	NAME_BYTES = 128,
	ID_BYTES = 32,
};

struct collection {
	struct worker_job job;
	struct server *server;
	struct grpc_call *call; /* that waits for the first piece */
	char id[ID_BYTES], name[NAME_BYTES];
	char *states; /* engines.txt, made where the engines are known */
	FILE *tar;
	char *plain;
	size_t plain_bytes;
	uint8_t *packed;
	size_t packed_bytes;
	int error;
	bool is_ready;
};

void collection_free(struct collection *collection)
{
	if (!collection)
		return;
	free(collection->states);
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

static void add_bytes(struct collection *collection, const char *name, const void *bytes, size_t count)
{
	struct tar_head head = { .kind = '0', .magic = "ustar", .version = { '0', '0' } };
	static const char zeroes[TAR_BLOCK_BYTES];
	const uint8_t *raw = (const uint8_t *)&head;
	unsigned int sum = 0;

	snprintf(head.name, sizeof(head.name), "%.40s/%.50s", collection->id, name);
	snprintf(head.mode, sizeof(head.mode), "%07o", 0640u);
	snprintf(head.uid, sizeof(head.uid), "%07o", 0u);
	snprintf(head.gid, sizeof(head.gid), "%07o", 0u);
	snprintf(head.size, sizeof(head.size), "%011zo", count);
	snprintf(head.mtime, sizeof(head.mtime), "%011" PRIo64, (uint64_t)time(NULL));
	memset(head.sum, ' ', sizeof(head.sum));
	for (size_t i = 0; i < sizeof(head); i++)
		sum += raw[i];
	snprintf(head.sum, sizeof(head.sum), "%06o", sum);
	fwrite(&head, sizeof(head), 1, collection->tar);
	fwrite(bytes, 1, count, collection->tar);
	fwrite(zeroes, 1, (TAR_BLOCK_BYTES - count % TAR_BLOCK_BYTES) % TAR_BLOCK_BYTES, collection->tar);
}

/* The end of a file; why it cannot be read stands there instead. */
static void add_file(struct collection *collection, const char *name, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char why[256], *bytes = NULL;
	struct stat stat;
	ssize_t got = -1;

	if (fd >= 0 && fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode)) {
		off_t from = stat.st_size > FILE_BYTES_MAX ? stat.st_size - FILE_BYTES_MAX : 0;

		bytes = malloc(FILE_BYTES_MAX);
		got = bytes ? pread(fd, bytes, FILE_BYTES_MAX, from) : -1;
	}
	if (got >= 0) {
		add_bytes(collection, name, bytes, (size_t)got);
	} else {
		snprintf(why, sizeof(why), "%.200s: %s\n", path, strerror(errno));
		add_bytes(collection, name, why, strlen(why));
	}
	free(bytes);
	if (fd >= 0)
		close(fd);
}

/* ---- what goes in ---- */

static void add_devices(struct collection *collection)
{
	const struct storage_scan_options all = { 0 };
	struct storage_scan scan;
	struct fault why;
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

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
	fclose(out);
	add_bytes(collection, "devices.txt", text, bytes);
	free(text);
}

static void add_interfaces(struct collection *collection)
{
	struct network_scan scan;
	struct fault why;
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

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
	fclose(out);
	add_bytes(collection, "interfaces.txt", text, bytes);
	free(text);
}

static void add_engine(struct collection *collection, size_t index)
{
	const struct server_config *config = collection->server->config;
	const char *log_file = server_config_engine(config, index)->log_file;
	char name[NAME_BYTES], path[SERVER_PATH_BYTES];

	snprintf(path, sizeof(path), "%s/engine%zu.log", config->state_dir, index);
	snprintf(name, sizeof(name), "engine%zu.log", index);
	add_file(collection, name, log_file ? log_file : path);
	if (server_superblock_path(config, index, path, sizeof(path)) == 0) {
		snprintf(name, sizeof(name), "superblock%zu", index);
		add_file(collection, name, path);
	}
}

static void pack(struct collection *collection)
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

/* On a thread of its own. */
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
	add_file(collection, "server.yml", server->options->config_path);
	add_bytes(collection, "engines.txt", collection->states, strlen(collection->states));
	if (server->config->log_file)
		add_file(collection, "server.log", server->config->log_file);
	for (size_t i = 0; i < server->config->engines.count; i++)
		add_engine(collection, i);
	add_devices(collection);
	add_interfaces(collection);
	fwrite(end, sizeof(end), 1, collection->tar);
	if (fclose(collection->tar) != 0)
		collection->error = -ENOMEM;
	else
		pack(collection);
}

/* ---- the method ---- */

static void reply_piece(const struct collection *collection, struct grpc_call *call, uint64_t offset)
{
	Fathom__CollectLogResp answer = FATHOM__COLLECT_LOG_RESP__INIT;
	uint64_t left = offset < collection->packed_bytes ? collection->packed_bytes - offset : 0;

	answer.id = (char *)collection->id;
	answer.name = (char *)collection->name;
	answer.total_bytes = collection->packed_bytes;
	answer.piece.data = collection->packed + (left ? offset : 0);
	answer.piece.len = left < PIECE_BYTES_MAX ? left : PIECE_BYTES_MAX;
	grpc_reply(call, &answer.base);
}

static void fail(struct grpc_call *call, const char *reason)
{
	struct fault why;

	why.error = fault_collect_failed(&why, reason);
	call_fail(call, &why);
}

static void collected(struct worker_job *job)
{
	struct collection *collection = container_of(job, struct collection, job);
	struct server *server = collection->server;
	struct grpc_call *call = collection->call;

	server->jobs--;
	collection->call = NULL;
	if (collection->error) {
		fail(call, strerror(-collection->error));
		server->collection = NULL;
		collection_free(collection);
		return;
	}
	collection->is_ready = true;
	reply_piece(collection, call, 0);
}

/* As people read it. */
static char *print_states(const struct server *server)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	must(out);
	fprintf(out, "fathom-server %s, system %s at %s, management service at %s\n", server->options->version,
		server->config->name, server->places->control, server->places->replica);
	for (uint32_t i = 0; i < server->instance_count; i++) {
		struct instance_info info;

		instance_get_info(server->instances[i], &info);
		fprintf(out, "engine %u: %s, pid %d, rank %" PRId64 ", %s, %" PRIu64 " starts, last end: %s; %s\n",
			info.index, instance_state_name(info.state), info.pid,
			info.rank == RANK_NONE ? -1 : (int64_t)info.rank, info.uri, info.starts,
			info.last_end[0] ? info.last_end : "none", info.why.error ? info.why.text : "nothing to say");
	}
	must(fclose(out) == 0);
	return text;
}

static void begin(struct server *server, struct grpc_call *call)
{
	struct collection *collection;
	char host[65] = "host";
	int error;

	if (server->collection && !server->collection->is_ready) {
		fail(call, "another collection is under way");
		return;
	}
	collection_free(server->collection);
	server->collection = NULL;
	collection = calloc(1, sizeof(*collection));
	must(collection);
	(void)!gethostname(host, sizeof(host) - 1); /* then it is "host" */
	snprintf(collection->id, sizeof(collection->id), "fathom-%" PRIu64, clock_realtime_ns());
	snprintf(collection->name, sizeof(collection->name), "%s-%s.tar.zst", collection->id, host);
	collection->server = server;
	collection->call = call;
	collection->states = print_states(server);
	collection->job.work = collect;
	collection->job.done = collected;
	error = worker_start(&collection->job);
	if (error) {
		collection_free(collection);
		fail(call, strerror(-error));
		return;
	}
	server->collection = collection;
	server->jobs++;
}

void call_collect_log(struct grpc_call *call, const ProtobufCMessage *message)
{
	const Fathom__CollectLogReq *request = (const Fathom__CollectLogReq *)message;
	struct server *server = server_of(call);
	struct fault why;

	if (!server_is_addressed(server, call, request->sys))
		return;
	if (request->id[0] == '\0') {
		begin(server, call);
	} else if (server->collection && server->collection->is_ready && strcmp(server->collection->id, request->id) == 0) {
		reply_piece(server->collection, call, request->offset);
	} else {
		why.error = fault_collection_gone(&why, request->id);
		call_fail(call, &why);
	}
}
