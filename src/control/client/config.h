/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * config - `fathom_control.yml`: the hosts that a system's tools call, and the certificates that they use. The keys are
 * those of daos_control.yml.
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
 * Read `path`. If it is NULL, read the first existing file of $HOME/.fathom_control.yml and /etc/fathom/fathom_control.yml,
 * or use the defaults if neither exists. If the existence of a file cannot be determined, it is read, and the error is
 * reported. Free with client_config_free(). The caller frees `*path_ret`; NULL: no file was read.
 */
MUST_CHECK int client_config_read(const char *path, struct client_config *config_ret, char **path_ret,
				  struct fathom_fault *why);
void client_config_free(struct client_config *config);

#endif
