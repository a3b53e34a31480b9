/* SPDX-License-Identifier: BSD-2-Clause */
/* set - comparison of sets, probes and sites. */
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "inspect/probed/dof/internal.h"

void dof_set_free(struct dof_set *set)
{
	free(set->memory);
	*set = (struct dof_set){ 0 };
}

int dof_probe_compare(const struct dof_probe *a, const struct dof_probe *b)
{
	int rc = a->module == b->module ? 0 : strcmp(a->module, b->module);

	if (rc == 0 && a->function != b->function)
		rc = strcmp(a->function, b->function);
	return rc ? rc : strcmp(a->name, b->name);
}

int dof_site_compare(const void *a, const void *b)
{
	const struct dof_site *left = a, *right = b;

	if (left->address != right->address)
		return left->address < right->address ? -1 : 1;
	return left->is_enabled - right->is_enabled;
}

static bool texts_equal(const char *const *a, const char *const *b, uint32_t count)
{
	must(count <= DOF_ARGS_MAX);
	for (uint32_t i = 0; i < count; i++) {
		if (strcmp(a[i], b[i]) != 0)
			return false;
	}
	return true;
}

/* ---- comparison independent of order ---- */

static int compare_set_sites(const void *a, const void *b)
{
	return dof_site_compare(*(const void *const *)a, *(const void *const *)b);
}

static int compare_set_probes(const void *a, const void *b)
{
	return dof_probe_compare(*(const struct dof_probe *const *)a, *(const struct dof_probe *const *)b);
}

static int compare_set_providers(const void *a, const void *b)
{
	const struct dof_provider *left = *(const struct dof_provider *const *)a,
				  *right = *(const struct dof_provider *const *)b;

	return strcmp(left->name, right->name);
}

/* Sorted pointers to `count` items; the caller frees them with free(). */
static const void **create_sorted_index(const void *items, uint32_t count, size_t bytes,
					int (*compare)(const void *, const void *))
{
	const void **pointers = malloc(count * sizeof(*pointers) + 1);

	must(bytes > 0);
	must(items || count == 0);
	must(pointers);
	for (uint32_t i = 0; i < count; i++)
		pointers[i] = (const char *)items + i * bytes;
	qsort(pointers, count, sizeof(*pointers), compare);
	return pointers;
}

static bool sites_equal(const struct dof_probe *a, const struct dof_probe *b)
{
	const void **left = create_sorted_index(a->sites, a->site_count, sizeof(*a->sites), compare_set_sites);
	const void **right = create_sorted_index(b->sites, b->site_count, sizeof(*b->sites), compare_set_sites);
	bool equal = true;

	must(a->site_count == b->site_count);
	for (uint32_t i = 0; equal && i < a->site_count; i++) {
		const struct dof_site *one = left[i], *other = right[i];

		equal = dof_site_compare(one, other) == 0 && strcmp(one->args, other->args) == 0;
	}
	free(left);
	free(right);
	return equal;
}

bool dof_probe_equal(const struct dof_probe *a, const struct dof_probe *b)
{
	return dof_probe_compare(a, b) == 0 && a->native_count == b->native_count &&
	       a->translated_count == b->translated_count && a->site_count == b->site_count &&
	       texts_equal(a->native, b->native, a->native_count) &&
	       texts_equal(a->translated, b->translated, a->translated_count) &&
	       (a->translated_count == 0 || memcmp(a->map, b->map, a->translated_count) == 0) && sites_equal(a, b);
}

static bool provider_equal(const struct dof_provider *a, const struct dof_provider *b)
{
	const void **left, **right;
	bool equal = true;

	if (strcmp(a->name, b->name) != 0 || memcmp(a->attributes, b->attributes, sizeof(a->attributes)) != 0 ||
	    a->probe_count != b->probe_count)
		return false;
	left = create_sorted_index(a->probes, a->probe_count, sizeof(*a->probes), compare_set_probes);
	right = create_sorted_index(b->probes, b->probe_count, sizeof(*b->probes), compare_set_probes);
	for (uint32_t i = 0; equal && i < a->probe_count; i++)
		equal = dof_probe_equal(left[i], right[i]);
	free(left);
	free(right);
	return equal;
}

bool dof_set_equal(const struct dof_set *a, const struct dof_set *b)
{
	const void **left, **right;
	bool equal = true;

	if (a->provider_count != b->provider_count)
		return false;
	left = create_sorted_index(a->providers, a->provider_count, sizeof(*a->providers), compare_set_providers);
	right = create_sorted_index(b->providers, b->provider_count, sizeof(*b->providers), compare_set_providers);
	for (uint32_t i = 0; equal && i < a->provider_count; i++)
		equal = provider_equal(left[i], right[i]);
	free(left);
	free(right);
	return equal;
}
