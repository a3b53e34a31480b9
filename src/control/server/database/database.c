/* SPDX-License-Identifier: BSD-2-Clause */
/* Opens the server's spool of events and, on the management host, the system's database. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "control/db/sqlite.h"
#include "control/fault/fault.h"
#include "control/server/core/core.h"

int server_open_spool(struct server *server, struct fathom_fault *why)
{
	char path[SERVER_PATH_BYTES];
	uint64_t cut_bytes = 0;
	int error;

	snprintf(path, sizeof(path), "%s/events.spool", server->config->state_dir);
	error = spool_open(path, 0, &server->spool, &cut_bytes, why);
	if (!error && cut_bytes > 0)
		log_notice("%s: %llu bytes at its end, whose writing a crash cut short, are gone; nobody was told that "
			   "they were taken",
			   path, (unsigned long long)cut_bytes);
	return error;
}

/*
 * The database does not exist. If a superblock that can be read without mounting has a rank, the system existed before:
 * the fault database_missing, since an empty database would lose it.
 */
static int check_superblocks(const struct server *server, const char *database, struct fathom_fault *why)
{
	for (uint32_t i = 0; i < server->config->engines.count; i++) {
		char path[SERVER_PATH_BYTES];
		struct superblock superblock;
		struct fathom_fault ignored;

		if (server_superblock_path(server->config, i, path, sizeof(path)) != 0)
			continue;
		/* the engine's instance reports a damaged superblock */
		if (superblock_read(path, server->config->name, &superblock, &ignored) != 0)
			continue;
		if (superblock.has_rank)
			return fault_database_missing(why, database, path, superblock.rank);
	}
	return 0;
}

int server_open_system(struct server *server, struct fathom_fault *why)
{
	const char *const *replicas = server->of_call.replicas;
	char path[SERVER_PATH_BYTES];
	struct mgmt_options options = {
		.name = server->config->name,
		.version = server->options->version,
		.provider = server->config->provider,
		.address = server->places->control,
		.replicas = replicas,
		.replica_count = server->of_call.replica_count,
		.client = server->client,
		.net_dev_class = server->places->device_class,
		.is_new_system = server->options->is_new_system,
		.events_max = (uint32_t)server->config->events_max,
	};
	int error;

	must(text_parse_duration(server->config->server_heartbeat, &options.heartbeat_ns) == 0);

	if (!server->places->is_replica)
		return 0;
	error = server_database_path(server->config, path, sizeof(path));
	if (error)
		return fault(why, error, "the database's path is too long");
	if (access(path, F_OK) != 0 && !server->options->is_new_system) {
		error = check_superblocks(server, path, why);
		if (error)
			return error;
	}
	error = db_open_sqlite(path, &server->db, why);
	if (error)
		return error;
	options.db = server->db;
	options.database = path;
	server_begin_copies(server);
	return mgmt_open(&options, &server->of_call.mgmt, why);
}
