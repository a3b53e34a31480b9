/* SPDX-License-Identifier: BSD-2-Clause */
/* Attributes and properties: `fathom system get-attr`, `fathom system get-prop`, `fathom pool get-prop`. */
#include <string.h>

#include "base/bits.h"
#include "cmd/fathom/show/show.h"
#include "cmd/fathom/show/parts.h"
#include "control/system/system.h"

static const char *const titles[] = { "Name", "Value" };

/* "": not a property of this release. */
static const char *description_of(const char *name)
{
	if (strcmp(name, "daos_system") == 0 || strcmp(name, "fathom_system") == 0)
		return "System name";
	if (strcmp(name, "daos_version") == 0 || strcmp(name, "fathom_version") == 0)
		return "System version";
	for (const struct system_property *property = system_properties; property->name; property++) {
		if (strcmp(property->name, name) == 0)
			return property->title;
	}
	return "";
}

void show_attributes(const struct fathom_control_pairs *pairs, FILE *out)
{
	struct table *table;

	if (pairs->count == 0) {
		fprintf(out, "No system attributes found.\n");
		return;
	}
	table = titled(titles, ARRAY_COUNT(titles));
	for (size_t i = 0; i < pairs->count; i++)
		add_row(table, (const char *[]){ pairs->pairs[i].name, pairs->pairs[i].value });
	finish_table(table, 0, out);
}

json_t *json_attributes(const struct fathom_control_pairs *pairs)
{
	json_t *response = json_object(), *attributes = json_object();

	for (size_t i = 0; i < pairs->count; i++)
		put_text(attributes, pairs->pairs[i].name, pairs->pairs[i].value);
	put(response, "attributes", attributes);
	return response;
}

void show_properties(const struct fathom_control_pairs *pairs, FILE *out)
{
	struct table *table;

	if (pairs->count == 0) {
		fprintf(out, "No system properties found.\n");
		return;
	}
	table = titled(titles, ARRAY_COUNT(titles));
	for (size_t i = 0; i < pairs->count; i++) {
		const char *description = description_of(pairs->pairs[i].name);
		char name[512];

		snprintf(name, sizeof(name), description[0] ? "%s (%s)" : "%s%s", description, pairs->pairs[i].name);
		add_row(table, (const char *[]){ name, pairs->pairs[i].value });
	}
	finish_table(table, 0, out);
}

json_t *json_properties(const struct fathom_control_pairs *pairs)
{
	json_t *response = json_array();

	for (size_t i = 0; i < pairs->count; i++) {
		json_t *property = json_object();

		put_text(property, "key", pairs->pairs[i].name);
		put_text(property, "value", pairs->pairs[i].value);
		put_text(property, "description", description_of(pairs->pairs[i].name));
		append(response, property);
	}
	return response;
}

void show_pool_properties(const struct fathom_control_pool_properties *properties, const char *pool, FILE *out)
{
	struct table *table = titled(titles, ARRAY_COUNT(titles));

	fprintf(out, "Pool %s properties:\n", pool);
	for (size_t i = 0; i < properties->count; i++) {
		const struct fathom_control_pool_property *property = &properties->properties[i];
		char name[512];

		snprintf(name, sizeof(name), property->description[0] ? "%s (%s)" : "%s%s", property->description,
			 property->name);
		add_row(table, (const char *[]){ name, property->value });
	}
	finish_table(table, 0, out);
	for (size_t i = 0; i < properties->count; i++) {
		const struct fathom_control_pool_property *property = &properties->properties[i];
		char since[SIZE_TEXT_BYTES];

		if (property->late_ranks[0])
			fprintf(out, "%s is pending on %s since %s: %s\n", property->name, property->late_ranks,
				time_text(property->late_ns, since), property->late_reason);
	}
}

void show_pool_set(const struct fathom_control_pool_set *set, FILE *out)
{
	fprintf(out, "pool set-prop succeeded%s%s\n", set->late_ranks[0] ? ", pending on " : "", set->late_ranks);
}
