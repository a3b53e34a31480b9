/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * config - `fathom_control.yml`: which hosts a system's tools ask, and by which certificates. The keys are those of
 * daos_control.yml.
 */
#ifndef CONTROL_CLIENT_CONFIG_H
#define CONTROL_CLIENT_CONFIG_H

#include "control/config/config.h"

#define CLIENT_CONFIG_SYSTEM "/etc/fathom/fathom_control.yml"
#define CLIENT_CONFIG_HOME ".fathom_control.yml"

struct client_transport {
	bool allow_insecure;
	char *ca_cert, *cert, *key;
};

struct client_config {
	char *name;
	uint64_t port;
	struct config_strings hostlist;
	struct client_transport transport;
};

extern const struct config_schema client_config_schema;

/*
 * Read `path`, or (NULL) the first of $HOME/.fathom_control.yml and /etc/fathom/fathom_control.yml that is there, or else
 * what the defaults say. One of which cannot be said whether it is there is read, and says why not. client_config_free()
 * it. `path_ret` is the caller's to free; NULL: there is no file.
 */
MUST_CHECK int client_config_read(const char *path, struct client_config *config_ret, char **path_ret, struct fault *why);
void client_config_free(struct client_config *config);

#endif
