/* SPDX-License-Identifier: BSD-2-Clause */
/* statistics - lists the server's counters with their meanings, and writes them as text. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "control/server/core/core.h"

size_t server_counters(const struct server *server, struct server_counter counters_ret[static SERVER_COUNTERS_MAX])
{
	struct mgmt_counter of_mgmt[MGMT_COUNTERS];
	size_t count = 0;

#define ADD_COUNTER(field, text)                                                                                           \
	counters_ret[count++] = (struct server_counter){ "server", #field, text, server->stats.field };
	SERVER_STATS(ADD_COUNTER)
#undef ADD_COUNTER
	if (!server->of_call.mgmt)
		return count;
	mgmt_counters(server->of_call.mgmt, of_mgmt);
	for (size_t i = 0; i < MGMT_COUNTERS; i++)
		counters_ret[count++] = (struct server_counter){ "mgmt", of_mgmt[i].name, of_mgmt[i].meaning,
								 of_mgmt[i].value };
	must(count == SERVER_COUNTERS_MAX);
	return count;
}

char *server_counters_text(const struct server *server)
{
	struct server_counter counters[SERVER_COUNTERS_MAX];
	size_t count = server_counters(server, counters), bytes = 0;
	char *text = NULL;
	FILE *out = open_memstream(&text, &bytes);

	for (size_t i = 0; out && i < count; i++)
		fprintf(out, "%s %s %" PRIu64 " (%s)\n", counters[i].group, counters[i].name, counters[i].value,
			counters[i].meaning);
	if (out && fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}
