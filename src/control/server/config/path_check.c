/* SPDX-License-Identifier: BSD-2-Clause */
/* Checks that the programs and folders of a configuration exist on this host. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/fault/fault.h"
#include "control/server/config/configuration.h"

enum { KEY_BYTES = 64, PATH_BYTES = 4096 };

struct checked {
	const struct server_config *config;
	const char *file, *programs;
	struct fathom_fault *why;
};

static int explain_absent(const struct checked *checked, const char *key, const char *path, int error)
{
	char place[SERVER_PLACE_BYTES];

	return fault_config_absent(checked->why, server_config_place(checked->file, key, place), key, path,
				   strerror(error));
}

/*
 * `said` NULL: the program is `name` in the server's folder. `mode` 0: do not check execute permission; only the server's
 * user may execute the helper, and the caller may be another user.
 */
static int check_program(const struct checked *checked, const char *key, const char *said, const char *name, int mode)
{
	char path[PATH_BYTES];
	struct stat stat_now;

	must(said || checked->programs);
	must(!said || *said == '/');
	snprintf(path, sizeof(path), "%s%s%s", said ? said : checked->programs, said ? "" : "/", said ? "" : name);
	if (stat(path, &stat_now) != 0 || (mode && access(path, mode) != 0))
		return explain_absent(checked, key, path, errno);
	return S_ISREG(stat_now.st_mode) ? 0 : explain_absent(checked, key, path, EACCES);
}

/* The parent folder of `path` exists; the server creates `path` itself. */
static int check_parent(const struct checked *checked, const char *key, const char *path)
{
	char parent[PATH_BYTES];
	struct stat stat_now;
	size_t bytes = path ? strlen(path) : 0;

	must(!path || *path == '/');
	while (bytes > 1 && path[bytes - 1] == '/')
		bytes--;
	while (bytes > 1 && path[bytes - 1] != '/')
		bytes--;
	if (bytes < 2)
		return 0;
	must(path[bytes - 1] == '/');
	snprintf(parent, sizeof(parent), "%.*s", (int)bytes - 1, path);
	if (stat(parent, &stat_now) != 0)
		/* on EACCES it is unknown: the server's user may have access */
		return errno == EACCES ? 0 : explain_absent(checked, key, parent, errno);
	return S_ISDIR(stat_now.st_mode) ? 0 : explain_absent(checked, key, parent, ENOTDIR);
}

int server_config_check(const struct server_config *config, const char *file, const char *programs,
			struct fathom_fault *why)
{
	const struct checked checked = { config, file, programs, why };
	int error = check_parent(&checked, "control_log_file", config->log_file);

	if (!error)
		error = check_parent(&checked, "state_dir", config->state_dir);
	if (!error)
		error = check_parent(&checked, "control_metadata.path", config->metadata.path);
	if (!error && (config->helper || server_config_needs_helper(config)))
		error = check_program(&checked, "helper", config->helper, "fathom-helper", 0);
	if (!error && (config->engine_program || config->engines.count > 0))
		error = check_program(&checked, "engine_program", config->engine_program, "fathom-engine", X_OK);
	for (size_t i = 0; !error && i < config->engines.count; i++) {
		char key[KEY_BYTES];

		snprintf(key, sizeof(key), "engines[%zu].log_file", i);
		error = check_parent(&checked, key, server_config_engine(config, i)->log_file);
	}
	return error;
}
