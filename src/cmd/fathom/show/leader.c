/* SPDX-License-Identifier: BSD-2-Clause */
/* The hosts of the management service, and versions: `fathom system leader-query`, `fathom server version`. */
#include <stdlib.h>
#include <string.h>

#include "cmd/fathom/show/show.h"
#include "cmd/fathom/show/parts.h"
#include "control/hostlist/hostlist.h"

/* Fold a list of hosts. The caller frees it. */
static char *folded_text(const char *const *hosts, size_t count)
{
	struct host_set *set = host_set_create();
	char *text;

	must(set);
	for (size_t i = 0; i < count; i++) {
		if (host_set_add(set, hosts[i], NULL) < 0)
			continue; /* leave out texts that are not hosts */
	}
	must(host_set_fold(set, &text) == 0);
	host_set_destroy(set);
	return text;
}

void show_leader(const struct fathom_control_leader *leader, bool down_only, FILE *out)
{
	char *replicas = folded_text(leader->replicas, leader->replica_count);
	char *down = folded_text(leader->down_replicas, leader->down_replica_count);

	if (!down_only) {
		fprintf(out, "Current Leader: %s\n", leader->leader);
		fprintf(out, "   Replica Set: %s\n", replicas);
	}
	fprintf(out, down_only ? "Unresponsive Replicas: %s\n" : "  Unresponsive Replicas: %s\n", down);
	free(replicas);
	free(down);
}

static const char *version_text(const struct fathom_control_version *version, char *text, size_t bytes)
{
	snprintf(text, bytes, "%u.%u.%u", version->major, version->minor, version->patch);
	return text;
}

void show_version(const struct fathom_control_version *version, FILE *out)
{
	char text[64];

	fprintf(out, PROGRAM " version %s\n", version_text(version, text, sizeof(text)));
}

json_t *json_version(const struct fathom_control_version *version)
{
	json_t *response = json_object();
	char text[64];

	put_text(response, "name", PROGRAM);
	put_text(response, "version", version_text(version, text, sizeof(text)));
	return response;
}
