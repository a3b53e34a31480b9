/* SPDX-License-Identifier: BSD-2-Clause */
/* The network interfaces of hosts, by NUMA node and provider: `fathom network scan`. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "cmd/fathom/show/show.h"
#include "cmd/fathom/show/parts.h"

enum { LIST_BYTES = 4096 };

static int compare_provider_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The names of providers, sorted, without duplicates; the caller frees the list. `node` -1: of all nodes. */
static const char **providers_of(const struct fathom_control_network *network, int64_t node, size_t *count_ret)
{
	const char **providers = calloc(network->count + 1, sizeof(*providers));
	size_t count = 0, kept = 0;

	must(providers);
	for (size_t i = 0; i < network->count; i++) {
		if (node < 0 || network->interfaces[i].numa_node == node)
			providers[count++] = network->interfaces[i].provider;
	}
	qsort(providers, count, sizeof(*providers), compare_provider_names);
	for (size_t i = 0; i < count; i++) {
		if (i == 0 || strcmp(providers[i], providers[kept - 1]) != 0)
			providers[kept++] = providers[i];
	}
	*count_ret = kept;
	return providers;
}

static void add_provider_devices(struct table *table, const struct fathom_control_network *network, uint32_t node,
				 const char *provider)
{
	char list[LIST_BYTES] = "";
	size_t used = 0;

	for (size_t i = 0; i < network->count; i++) {
		const struct fathom_control_interface *interface = &network->interfaces[i];

		if (interface->numa_node != node || strcmp(interface->provider, provider) != 0 ||
		    used + strlen(interface->device) + 3 > sizeof(list))
			continue;
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", used ? ", " : "", interface->device);
	}
	add_row(table, (const char *[]){ provider, list });
}

static void show_node(const struct fathom_control_network *network, uint32_t node, FILE *out)
{
	static const char *const titles[] = { "Provider", "Interfaces" };
	struct table *table = titled(titles, ARRAY_COUNT(titles));
	const char **providers;
	char heading[64];
	size_t count;

	providers = providers_of(network, node, &count);
	snprintf(heading, sizeof(heading), "NUMA Socket %" PRIu32, node);
	heading_print(heading, 4, out);
	fputc('\n', out);
	for (size_t i = 0; i < count; i++)
		add_provider_devices(table, network, node, providers[i]);
	finish_table(table, 8, out);
	fputc('\n', out);
	free(providers);
}

/* Find the lowest node above `after` with interfaces; -1: the lowest of all. False: no more. */
static bool next_node(const struct fathom_control_network *network, int64_t after, int64_t *node_ret)
{
	int64_t node = INT64_MAX;

	for (size_t i = 0; i < network->count; i++) {
		if (network->interfaces[i].numa_node > after && network->interfaces[i].numa_node < node)
			node = network->interfaces[i].numa_node;
	}
	*node_ret = node;
	return node != INT64_MAX;
}

void show_network(const struct fathom_control_answers *answers, const char *provider, FILE *out)
{
	for (size_t i = 0; i < answers->count; i++) {
		const struct fathom_control_network *network = answers->answers[i].network;
		char *hosts = hosts_text(answers->answers[i].hosts);

		heading_print(hosts, 0, out);
		fputc('\n', out);
		free(hosts);
		if (network->count == 0)
			fprintf(out, "    No interfaces found%s%s\n\n", provider ? " for provider " : "",
				provider ? provider : "");
		for (int64_t node = -1; next_node(network, node, &node);)
			show_node(network, (uint32_t)node, out);
	}
}

void show_network_left_out(const struct fathom_control_answers *answers, FILE *out)
{
	size_t left_out = 0;

	for (size_t i = 0; i < answers->count; i++)
		left_out += answers->answers[i].left_out;
	if (left_out > 0)
		fprintf(out, "%s that %s down or without an address %s not shown; --all shows %s\n",
			plural(left_out, "interface"), left_out == 1 ? "is" : "are", left_out == 1 ? "is" : "are",
			left_out == 1 ? "it" : "them");
}

json_t *json_providers(const struct fathom_control_network *network)
{
	size_t count;
	const char **providers = providers_of(network, -1, &count);
	json_t *list = count > 0 ? list_of_texts(providers, count) : json_array();

	free(providers);
	return list;
}
