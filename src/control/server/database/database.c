/* SPDX-License-Identifier: BSD-2-Clause */
/* Opens the system's database and the management service, if this is the management host. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "control/db/sqlite.h"
#include "control/fault/fault.h"
#include "control/server/database/internal.h"

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

		must(i < SERVER_ENGINES_MAX);
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

static int open_service(struct server *server, const char *path, struct fathom_fault *why)
{
	struct mgmt_options options = {
		.name = server->config->name,
		.version = server->options->version,
		.provider = server->config->provider,
		.address = server->places->control,
		.replicas = server->of_call.replicas,
		.replica_count = server->of_call.replica_count,
		.client = server->client,
		.net_dev_class = server->places->device_class,
		.is_new_system = server->options->is_new_system,
		.events_max = (uint32_t)server->config->events_max,
		.db = server->database->db,
		.database = path,
		.credentials = {
			.is_insecure = server->config->transport.allow_insecure,
			.folder = server->config->transport.client_cert_dir,
			.ca = server->config->transport.ca_cert,
		},
	};

	must(text_parse_duration(server->config->server_heartbeat, &options.heartbeat_ns) == 0);
	must(server->places->is_replica);
	must(server->config->events_max <= UINT32_MAX);
	return mgmt_open(&options, &server->of_call.mgmt, why);
}

int database_open(struct server *server, struct fathom_fault *why)
{
	struct server_database *database;
	char path[SERVER_PATH_BYTES];
	int error;

	must(!server->database);
	must(!server->of_call.mgmt);
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
	database = calloc(1, sizeof(*database));
	if (!database)
		return fault_db_no_memory(why, path);
	database->server = server;
	LIST_INIT(&database->copies);
	error = db_open_sqlite(path, &database->db, why);
	if (error) {
		free(database);
		return error;
	}
	server->database = database;
	daily_copies_begin(database);
	return open_service(server, path, why);
}

bool database_get_info(const struct server *server, struct database_info *info_ret)
{
	const struct server_database *database = server->database;

	if (!database || server_database_path(server->config, info_ret->path, sizeof(info_ret->path)) != 0)
		return false;
	info_ret->revision = db_revision(database->db);
	info_ret->copied_revision = database->copied_revision;
	info_ret->health = *db_health(database->db);
	return true;
}

void database_finish_copies(struct server *server)
{
	if (!server->database)
		return;
	copy_cancel_all(server->database);
	daily_copy_at_end(server->database);
}

void database_close(struct server *server)
{
	struct server_database *database = server->database;

	if (!database)
		return;
	must(!server->of_call.mgmt); /* it uses the database */
	must(LIST_EMPTY(&database->copies));
	must(!database->daily);
	deadline_clear(&server->deadlines, &database->daily_due);
	db_close(database->db);
	server->database = NULL;
	free(database);
}
