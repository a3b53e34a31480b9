/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/client/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *absolute(const char *value)
{
	return value[0] == '/' ? NULL : "an absolute path";
}

#define AT(type, field) .offset = offsetof(struct type, field)

static const struct config_key transport_keys[] = {
	{ .name = "allow_insecure",
	  .type = CONFIG_BOOL,
	  AT(client_transport, allow_insecure),
	  .initial = "false",
	  .doc = "talk without certificates, to servers that allow it" },
	{ .name = "ca_cert",
	  .type = CONFIG_STRING,
	  AT(client_transport, ca_cert),
	  .initial = "/etc/fathom/certs/ca.crt",
	  .check = absolute,
	  .doc = "certificate of the authority that has signed all others of the system" },
	{ .name = "cert",
	  .type = CONFIG_STRING,
	  AT(client_transport, cert),
	  .initial = "/etc/fathom/certs/admin.crt",
	  .check = absolute,
	  .doc = "the administrator's certificate" },
	{ .name = "key",
	  .type = CONFIG_STRING,
	  AT(client_transport, key),
	  .initial = "/etc/fathom/certs/admin.key",
	  .check = absolute,
	  .doc = "its key; readable by its owner alone" },
};
static const struct config_schema transport_schema = CONFIG_SCHEMA(struct client_transport, transport_keys);

static const struct config_key keys[] = {
	{ .name = "name",
	  .type = CONFIG_STRING,
	  AT(client_config, name),
	  .initial = "fathom",
	  .check = config_system_name,
	  .doc = "of the system, as its servers have it" },
	{ .name = "port",
	  .type = CONFIG_NUMBER,
	  AT(client_config, port),
	  .initial = "10001",
	  .min = 1,
	  .max = UINT16_MAX,
	  .doc = "of the servers, where `hostlist` or -l names none" },
	{ .name = "hostlist",
	  .type = CONFIG_STRINGS,
	  AT(client_config, hostlist),
	  .doc = "the system's hosts, each as `node[1-4]` or `node7:10002`; without it, localhost" },
	{ .name = "transport_config",
	  .type = CONFIG_MAP,
	  AT(client_config, transport),
	  .schema = &transport_schema,
	  .doc = "how connections are secured" },
};
const struct config_schema client_config_schema = CONFIG_SCHEMA(struct client_config, keys);

/*
 * Whether the file does not exist or this user may not reach it (sudo may keep another user's $HOME). On other errors the
 * file counts as present, and reading it reports the error: the next file or the defaults may name another system.
 */
static bool is_absent(const char *path)
{
	return access(path, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR || errno == EACCES);
}

/* The path of the first configuration file that exists; NULL: none. */
static char *find_config_file(void)
{
	const char *home = getenv("HOME");
	char *path = NULL;

	if (home && home[0]) {
		must(asprintf(&path, "%s/%s", home, CLIENT_CONFIG_HOME) >= 0);
		if (!is_absent(path))
			return path;
		free(path);
	}
	if (is_absent(CLIENT_CONFIG_SYSTEM))
		return NULL;
	path = strdup(CLIENT_CONFIG_SYSTEM);
	must(path);
	return path;
}

int client_config_read(const char *path, struct client_config *config_ret, char **path_ret, struct fathom_fault *why)
{
	static const char nothing[] = "{}";
	char *found = NULL;
	int error;

	if (path) {
		found = strdup(path);
		must(found);
	} else {
		found = find_config_file();
	}
	if (found)
		error = config_read_file(found, &client_config_schema, config_ret, why);
	else
		error = config_read("nothing", nothing, strlen(nothing), &client_config_schema, config_ret, why);
	if (error) {
		free(found);
		return error;
	}
	*path_ret = found;
	return 0;
}

void client_config_free(struct client_config *config)
{
	config_free(&client_config_schema, config);
}
