/* SPDX-License-Identifier: BSD-2-Clause */
/* filter_bind - resolves the names of an expression in a file's schema, and explains names that it cannot resolve. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "inspect/trace/filter_internal.h"

static const struct {
	const char *name;
	enum pseudo pseudo;
	bool is_time; /* in microseconds if the name does not end with another unit */
} pseudos[] = {
	{ "latency", PSEUDO_LATENCY, true }, { "dwell", PSEUDO_DWELL, true },	 { "tick", PSEUDO_TICK, false },
	{ "core", PSEUDO_CORE, false },	     { "thread", PSEUDO_THREAD, false }, { "owner", PSEUDO_OWNER, false },
	{ "object", PSEUDO_OBJECT, false },  { "name", PSEUDO_NAME, false },	 { "group", PSEUDO_GROUP, false },
	{ "state", PSEUDO_STATE, false },
};

/* Suffixes of a time's name: they give the unit. */
static const struct {
	const char *suffix;
	long double ns;
} time_suffixes[] = { { "_ns", 1 }, { "_us", 1e3L }, { "_ms", 1e6L }, { "_s", 1e9L } };

/*
 * Does `wanted` name `name`, or the time `name` with a unit suffix? `*ns_ret`: nanoseconds per unit of the suffix, else
 * 0.
 */
static bool is_called(const char *wanted, const char *name, bool is_time, long double *ns_ret)
{
	size_t bytes = strlen(name);

	*ns_ret = 0;
	if (strncasecmp(wanted, name, bytes) != 0)
		return false;
	for (size_t i = 0; is_time && i < ARRAY_COUNT(time_suffixes); i++) {
		if (strcasecmp(wanted + bytes, time_suffixes[i].suffix) == 0) {
			*ns_ret = time_suffixes[i].ns;
			return true;
		}
	}
	return wanted[bytes] == '\0';
}

bool filter_arg_is_called(const struct reader_arg *arg, const char *wanted, long double *ns_ret)
{
	return is_called(wanted, arg->name, arg->unit_kind == READER_UNIT_TICKS || arg->unit_kind == READER_UNIT_TIME,
			 ns_ret);
}

/* Resolve a name to an argument of each point, or to a pseudo name. False: nothing has this name. */
static bool bind_name(struct reader_filter *filter, uint32_t name, const char *wanted)
{
	const struct schema *schema = &filter->reader->schema;
	uint32_t names = expression_name_count(filter->where);
	bool known = false;
	long double ns;

	for (uint32_t i = 0; i < schema->point_count; i++) {
		const struct reader_point *point = &schema->points[i];
		int8_t *place = &filter->args[(size_t)i * names + name];

		*place = ARG_NONE;
		for (uint32_t arg = 0; arg < point->arg_count && *place == ARG_NONE; arg++) {
			if (filter_arg_is_called(&point->args[arg], wanted, &ns)) {
				*place = (int8_t)arg;
				filter->in_ns[name] = ns != 0 ? ns : filter->in_ns[name];
			}
		}
		known |= *place != ARG_NONE && (!filter->point || filter->point == point);
	}
	for (uint32_t i = 0; i < schema->object_count && !filter->point; i++) {
		for (uint32_t arg = 0; arg < schema->objects[i].story_arg_count; arg++)
			known |= filter_arg_is_called(&schema->objects[i].story_args[arg], wanted, &ns);
	}
	for (size_t i = 0; i < ARRAY_COUNT(pseudos); i++) {
		if (is_called(wanted, pseudos[i].name, pseudos[i].is_time, &ns)) {
			filter->pseudo[name] = pseudos[i].pseudo;
			filter->in_ns[name] = ns;
		}
	}
	return known || filter->pseudo[name] != PSEUDO_NONE;
}

/* ---- explaining errors ---- */

/* A list of words for a message; ends with dots if not all fit. */
struct list {
	char text[FAULT_TEXT_BYTES_MAX / 2];
	size_t used;
};

static void add_list_word(struct list *list, const char *word)
{
	size_t bytes = strlen(word);
	bool first = list->used == 0;

	if (list->used + bytes + sizeof(", ...") > sizeof(list->text)) {
		if (list->used && list->text[list->used - 1] != '.')
			list->used += (size_t)snprintf(list->text + list->used, sizeof(list->text) - list->used, " ...");
		return;
	}
	list->used += (size_t)snprintf(list->text + list->used, sizeof(list->text) - list->used, "%s%s", first ? "" : ", ",
				       word);
}

static void list_args(struct list *list, const struct reader_point *point)
{
	for (uint32_t i = 0; i < point->arg_count; i++)
		add_list_word(list, point->args[i].name);
}

/* The reason, the expression, and a caret below the error. */
static int report_at_place(const char *where, size_t place, const char *reason, struct fathom_fault *why)
{
	char copy[EXPRESSION_BYTES_MAX + 1];

	copy_printable(copy, sizeof(copy), where, strlen(where));
	return fault(why, -EINVAL, "%s\n  %s\n  %*s^", reason, copy, (int)min_u64(place, EXPRESSION_BYTES_MAX), "");
}

static int report_unknown_name(const struct reader_filter *filter, const char *where, size_t place,
			       struct fathom_fault *why)
{
	char reason[FAULT_TEXT_BYTES_MAX];
	struct list list = { 0 };

	if (filter->point)
		list_args(&list, filter->point);
	for (size_t i = 0; i < ARRAY_COUNT(pseudos); i++) {
		char name[32];

		snprintf(name, sizeof(name), "%s%s", pseudos[i].name, pseudos[i].is_time ? "_us" : "");
		add_list_word(&list, name);
	}
	if (filter->point)
		snprintf(reason, sizeof(reason), "%s has no argument of this name; there are: %s", filter->point->name,
			 list.text);
	else
		snprintf(reason, sizeof(reason), "no event has an argument of this name; all have: %s", list.text);
	return report_at_place(where, place, reason, why);
}

static int report_unknown_event(const struct reader_filter *filter, const char *where, const char *group,
				struct fathom_fault *why)
{
	const struct reader_group *there = reader_group_by_name(filter->reader, group);
	const struct schema *schema = &filter->reader->schema;
	char reason[FAULT_TEXT_BYTES_MAX];
	struct list list = { 0 };

	for (uint32_t i = 0; there && i < schema->point_count; i++) {
		if (schema->points[i].group == there)
			add_list_word(&list, schema->points[i].name);
	}
	for (uint32_t i = 0; !there && i < schema->group_count; i++)
		add_list_word(&list, schema->groups[i].name);
	snprintf(reason, sizeof(reason), "%s: %s",
		 there ? "this group has no event of this name; it has" : "no group has this name; the groups are",
		 list.text);
	return report_at_place(where, strspn(where, " \t\r\n"), reason, why);
}

/* Reject a misspelt label: the comparison would always be false. */
static int check_labels(const struct reader_filter *filter, const char *where, size_t begin, struct fathom_fault *why)
{
	const struct schema *schema = &filter->reader->schema;
	uint32_t names = expression_name_count(filter->where), name = 0;
	size_t bytes, place;
	const char *text;

	for (uint32_t i = 0; expression_wanted_text(filter->where, i, &name, &text, &bytes, &place); i++) {
		const struct reader_enum *labels = NULL;
		bool fits = bytes == 0 || filter->pseudo[name] != PSEUDO_NONE;
		char reason[FAULT_TEXT_BYTES_MAX];
		struct list list = { 0 };

		for (uint32_t n = 0; n < schema->point_count && !fits; n++) {
			const struct reader_point *point = &schema->points[n];
			int arg = filter->args[(size_t)n * names + name];

			if (arg == ARG_NONE || (filter->point && filter->point != point))
				continue;
			labels = point->args[arg].labels;
			fits = !labels;
			for (uint32_t label = 0; labels && label < labels->label_count; label++) {
				fits |= strlen(labels->labels[label].text) == bytes &&
					strncasecmp(labels->labels[label].text, text, bytes) == 0;
			}
		}
		if (fits || !labels)
			continue;
		for (uint32_t label = 0; label < labels->label_count; label++)
			add_list_word(&list, labels->labels[label].text);
		snprintf(reason, sizeof(reason), "no value has this label; the labels are: %s", list.text);
		return report_at_place(where, begin + place, reason, why);
	}
	return 0;
}

/*
 * Resolve an event in front of the expression: "bdev.io_done" or "bdev.bdev_io_done". `*begin_ret`: where the expression
 * begins.
 */
static int bind_event(struct reader_filter *filter, const char *where, size_t *begin_ret, struct fathom_fault *why)
{
	char group[EXPRESSION_NAME_BYTES_MAX], name[EXPRESSION_NAME_BYTES_MAX], whole[2 * EXPRESSION_NAME_BYTES_MAX];
	const char *const tries[] = { whole, name };

	*begin_ret = expression_event(where, group, name);
	if (!group[0])
		return 0;
	snprintf(whole, sizeof(whole), "%s_%s", group, name);
	for (size_t i = 0; i < ARRAY_COUNT(tries) && !filter->point; i++) {
		const struct reader_point *point = reader_point_by_name(filter->reader, tries[i]);

		if (point && strcasecmp(point->group->name, group) == 0)
			filter->point = point;
	}
	return filter->point ? 0 : report_unknown_event(filter, where, group, why);
}

int filter_bind(struct reader_filter *filter, const char *where, struct fathom_fault *why)
{
	struct fathom_fault reason = { 0 };
	size_t place, begin;
	int rc;

	if (strnlen(where, EXPRESSION_BYTES_MAX + 1) > EXPRESSION_BYTES_MAX)
		return fault(why, -EINVAL, "this is too long: at most %d bytes", EXPRESSION_BYTES_MAX);
	rc = bind_event(filter, where, &begin, why);
	if (rc || (filter->point && !where[begin]))
		return rc;
	rc = expression_parse(where + begin, &filter->where, &reason, &place);
	if (rc)
		return report_at_place(where, begin + place, reason.text, why);
	filter->args = malloc((size_t)filter->reader->schema.point_count * expression_name_count(filter->where) + 1);
	if (!filter->args)
		return fault(why, -ENOMEM, "out of memory");
	for (uint32_t name = 0; name < expression_name_count(filter->where); name++) {
		const char *wanted = expression_name(filter->where, name, &place);

		if (!bind_name(filter, name, wanted))
			return report_unknown_name(filter, where, begin + place, why);
	}
	return check_labels(filter, where, begin, why);
}
