/* SPDX-License-Identifier: BSD-2-Clause */
/* make_object PROVIDER PROBES - prints the C source of `object`: DOF with PROBES probes, each in another function. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "inspect/probed/dof/dof.h"

enum { PROBES_MAX = 5000 };

static const char *const types[] = { "int", "char *" };
static const uint8_t map[] = { 0, 1 };
static char functions[PROBES_MAX][20], names[PROBES_MAX][20];
static struct dof_site sites[PROBES_MAX][2];
static struct dof_probe probes[PROBES_MAX];

int main(int argc, char **argv)
{
	const uint32_t count = (uint32_t)strtoul(argv[2], NULL, 10);
	const struct dof_provider provider = { .name = argv[1], .probe_count = count, .probes = probes };
	const struct dof_set set = { .provider_count = 1, .providers = &provider };
	const struct dof_encoding encoding = { .version = 3, .relocate = true };
	struct fathom_fault why;
	size_t bytes;
	void *data;

	must(argc == 3 && count <= PROBES_MAX);
	for (uint32_t i = 0; i < count; i++) {
		snprintf(functions[i], sizeof(functions[i]), "function%" PRIu32, i);
		snprintf(names[i], sizeof(names[i]), "probe%" PRIu32, i);
		sites[i][0] = (struct dof_site){ .address = 0x1000 + i * 16, .args = "" };
		sites[i][1] = (struct dof_site){ .address = 0x1008 + i * 16, .is_enabled = true, .args = "" };
		probes[i] = (struct dof_probe){ .module = "m",
						.function = functions[i],
						.name = names[i],
						.native_count = 2,
						.translated_count = 2,
						.native = types,
						.translated = types,
						.map = map,
						.site_count = 2,
						.sites = sites[i] };
	}
	if (dof_encode(&set, &encoding, &data, &bytes, &why) != 0) {
		fprintf(stderr, "%s\n", why.text);
		return 1;
	}
	printf("static const unsigned char object[] __attribute__((aligned(8))) = {");
	for (size_t i = 0; i < bytes; i++)
		printf("%s%u,", i % 32 ? "" : "\n", ((unsigned char *)data)[i]);
	printf("\n};\n");
	free(data);
	return 0;
}
