/* SPDX-License-Identifier: BSD-2-Clause */
/* Attributes (an operator's free names and values) and properties (a fixed table that the system interprets). */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "control/fault/fault.h"
#include "control/system/internal.h"

static bool is_one_of(const char *value, size_t bytes, const char *const *words)
{
	for (; *words; words++) {
		if (strlen(*words) == bytes && memcmp(*words, value, bytes) == 0)
			return true;
	}
	return false;
}

/* "none", or one or more of the three words, separated by semicolons, each at most once. */
static bool check_self_heal(const char *value)
{
	static const char *const words[] = { "exclude", "pool_exclude", "pool_rebuild", NULL };
	size_t parts = 0;

	if (strcmp(value, "none") == 0)
		return true;
	for (;;) {
		size_t bytes = strcspn(value, ";");

		if (!is_one_of(value, bytes, words) || ++parts > 3)
			return false;
		value += bytes;
		if (!*value)
			return true;
		value++;
		for (const char *again = value; *again;
		     again += strcspn(again, ";") + (again[strcspn(again, ";")] == ';')) {
			if (strcspn(again, ";") == bytes && memcmp(again, value - bytes - 1, bytes) == 0)
				return false;
		}
	}
}

static bool check_scrub_mode(const char *value)
{
	static const char *const words[] = { "off", "lazy", "timed", NULL };

	return is_one_of(value, strlen(value), words);
}

static bool check_scrub_threshold(const char *value)
{
	uint64_t number;

	return text_parse_u64(value, 10, UINT32_MAX, &number) == 0;
}

const struct system_property system_properties[] = {
	{ "pool_scrub_mode", "Checksum scrubbing mode", "off", "off, lazy or timed", check_scrub_mode },
	{ "pool_scrub_thresh", "Checksum scrubbing threshold", "0", "a number from 0 to 4294967295",
	  check_scrub_threshold },
	{ "self_heal", "Self-heal policy for the system", "exclude;pool_exclude;pool_rebuild",
	  "none, or some of exclude;pool_exclude;pool_rebuild", check_self_heal },
	{ 0 },
};

static const struct system_property *find_property(const char *name)
{
	const struct system_property *property = system_properties;

	while (property->name && strcmp(property->name, name) != 0)
		property++;
	return property->name ? property : NULL;
}

static int reject_property(const char *name, struct fathom_fault *why)
{
	size_t best = strlen(name) / 3 + 2;
	const char *nearest = NULL;

	for (const struct system_property *property = system_properties; property->name; property++) {
		size_t far = text_distance(name, property->name);

		if (far < best) {
			best = far;
			nearest = property->name;
		}
	}
	return nearest ? fault_property_unknown(why, name, nearest) : fault_property_absent(why, name);
}

static bool is_printable(const char *text)
{
	while (*text && isprint((unsigned char)*text))
		text++;
	return !*text;
}

static int check_attribute(const struct system *system, const struct system_pair *pair, struct fathom_fault *why)
{
	const char *wrong = NULL;

	if (!*pair->value && !pairs_get(&system->attributes, pair->name))
		return fault_no_such_attribute(why, pair->name);
	if (!*pair->name || strlen(pair->name) >= SYSTEM_NAME_BYTES)
		wrong = "a name has 1 to 255 characters";
	else if (!is_printable(pair->name))
		wrong = "a name is printable ASCII";
	else if (strncmp(pair->name, "mgmt.", 5) == 0)
		wrong = "names that begin with mgmt. are the system's own";
	else if (strlen(pair->value) >= SYSTEM_VALUE_BYTES)
		wrong = "a value has at most 4095 bytes";
	return wrong ? fault_attribute_bad(why, pair->name, wrong) : 0;
}

int system_set_attributes(const struct system *system, const struct system_pair *pairs, size_t pair_count,
			  struct system_change *change_ret, struct fathom_fault *why)
{
	size_t added = 0;

	must(system->attributes.count <= SYSTEM_PAIRS_MAX);
	for (size_t i = 0; i < pair_count; i++) {
		int error = check_attribute(system, &pairs[i], why);

		if (error < 0)
			return error;
		added += !pairs_get(&system->attributes, pairs[i].name);
	}
	if (system->attributes.count + added > SYSTEM_PAIRS_MAX || pair_count > SYSTEM_PAIRS_MAX) {
		fill_fault_attribute_bad(why, pairs[0].name, "a system has at most 1024"); /* but return -ENOSPC */
		return -ENOSPC;
	}
	system_change_begin(system, SYSTEM_ATTRIBUTES, false, change_ret);
	change_ret->pairs = pairs;
	change_ret->pair_count = pair_count;
	return 0;
}

size_t system_attribute_count(const struct system *system)
{
	return system->attributes.count;
}

static struct system_pair pair_at(const struct pairs *pairs, size_t index)
{
	must(index < pairs->count);
	return (struct system_pair){ pairs->items[index].name, pairs->items[index].value };
}

struct system_pair system_attribute_at(const struct system *system, size_t index)
{
	return pair_at(&system->attributes, index);
}

const char *system_attribute(const struct system *system, const char *name)
{
	return pairs_get(&system->attributes, name);
}

int system_set_properties(const struct system *system, const struct system_pair *pairs, size_t pair_count,
			  struct system_change *change_ret, struct fathom_fault *why)
{
	must(pair_count <= SYSTEM_PAIRS_MAX);
	for (size_t i = 0; i < pair_count; i++) {
		const struct system_property *property = find_property(pairs[i].name);

		if (!property)
			return reject_property(pairs[i].name, why);
		if (*pairs[i].value && !property->check(pairs[i].value))
			return fault_property_bad(why, property->name, pairs[i].value, property->allowed);
	}
	system_change_begin(system, SYSTEM_PROPERTIES, false, change_ret);
	change_ret->pairs = pairs;
	change_ret->pair_count = pair_count;
	return 0;
}

const char *system_property(const struct system *system, const char *name)
{
	const struct system_property *property = find_property(name);
	const char *value = pairs_get(&system->properties, name);

	must(property);
	must(property->check(property->initial));
	return value ? value : property->initial;
}

size_t system_property_count(const struct system *system)
{
	return system->properties.count;
}

struct system_pair system_property_at(const struct system *system, size_t index)
{
	return pair_at(&system->properties, index);
}

int system_load_pair(struct system *system, enum system_change_kind kind, const struct system_pair *pair)
{
	if (kind == SYSTEM_PROPERTIES) {
		const struct system_property *property = find_property(pair->name);

		return property && property->check(pair->value) ? pairs_set(&system->properties, pair->name, pair->value)
								: -EBADMSG;
	}
	must(kind == SYSTEM_ATTRIBUTES);
	if (system->attributes.count >= SYSTEM_PAIRS_MAX)
		return -ERANGE;
	if (!*pair->name || !*pair->value || pairs_get(&system->attributes, pair->name))
		return -EBADMSG;
	return pairs_set(&system->attributes, pair->name, pair->value);
}
