/* SPDX-License-Identifier: BSD-2-Clause */
#include "made.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 16, PROBES_PER_FUNCTION = 10, FUNCTION_BYTES = 4096, SITE_BYTES = 64 };

static const char *const types[] = { "int", "char *" };
static const uint8_t map[] = { 0, 1 };

/* Names, sites and probes of one set, in one piece. */
struct parts {
	struct dof_provider provider;
	struct dof_probe *probes;
	struct dof_site (*sites)[2];
	char (*names)[2][NAME_BYTES];
};

struct dof_set made_set(uint32_t probe_count, bool has_enabled)
{
	struct parts *parts = calloc(1, sizeof(*parts));

	must(parts);
	parts->probes = calloc(probe_count, sizeof(*parts->probes));
	parts->sites = calloc(probe_count, sizeof(*parts->sites));
	parts->names = calloc(probe_count, sizeof(*parts->names));
	must(parts->probes && parts->sites && parts->names);
	for (uint32_t i = 0; i < probe_count; i++) {
		uint32_t function = i / PROBES_PER_FUNCTION;
		uint64_t address = 0x1000 + (uint64_t)function * FUNCTION_BYTES + i % PROBES_PER_FUNCTION * SITE_BYTES;

		/* of one width, so that they are in order */
		snprintf(parts->names[i][0], NAME_BYTES, "fn%05u", function);
		snprintf(parts->names[i][1], NAME_BYTES, "p%05u", i);
		parts->sites[i][0] = (struct dof_site){ .address = address, .args = "" };
		parts->sites[i][1] = (struct dof_site){ .address = address + 8, .args = "", .is_enabled = true };
		parts->probes[i] = (struct dof_probe){ .module = "sample",
						       .function = parts->names[i][0],
						       .name = parts->names[i][1],
						       .native_count = 2,
						       .translated_count = 2,
						       .native = types,
						       .translated = types,
						       .map = map,
						       .site_count = has_enabled && i % 3 == 0 ? 2 : 1,
						       .sites = parts->sites[i] };
	}
	parts->provider = (struct dof_provider){ .name = "many", .probe_count = probe_count, .probes = parts->probes };
	for (int i = 0; i < DOF_ATTRIBUTES; i++)
		parts->provider.attributes[i] = 0x04040500;
	return (struct dof_set){ .provider_count = 1, .providers = &parts->provider, .memory = parts };
}

void made_free(struct dof_set *set)
{
	struct parts *parts = set->memory;

	free(parts->probes);
	free(parts->sites);
	free(parts->names);
	dof_set_free(set);
}

void *made_object(uint32_t probe_count, size_t *bytes_ret)
{
	struct dof_set set = made_set(probe_count, false);
	struct fathom_fault why;
	void *data;

	must(dof_encode(&set, &(struct dof_encoding){ .version = 1, .relocate = true }, &data, bytes_ret, &why) == 0);
	made_free(&set);
	return data;
}
