/* SPDX-License-Identifier: BSD-2-Clause */
/* names - maps the numbers in records to names: interned strings, owners, identities of objects. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/observe/trace/internal.h"

enum { BUCKETS = 4096 };

struct interned {
	struct interned *next;
	struct trace_istr istr;
};

/* Holds strings while no file is open; ids are offsets into this area and stay the same in the file. */
static char private_area[TRACE_STRINGS_BYTES];
static char *area = private_area;
static struct interned *buckets[BUCKETS];
static const struct trace_istr *full_string;
static uint64_t foreign_bytes;

static uint64_t area_used(void)
{
	return ((struct trace_strings *)area)->used;
}

void trace_strings_moved(char *to)
{
	char *from = area;

	area = to ? to : private_area;
	if (area_used() < ((struct trace_strings *)from)->used)
		memcpy(area, from, ((struct trace_strings *)from)->used);
}

static const struct trace_istr *add_string(const char *text)
{
	size_t bytes = strlen(text) + 1;
	uint64_t used = area_used();
	unsigned int bucket = text_hash(text) % BUCKETS;
	struct interned *entry = malloc(sizeof(*entry) + bytes);

	must(entry);
	memcpy(entry->istr.text, text, bytes);
	if (used + bytes > TRACE_STRINGS_BYTES) {
		entry->istr.id = full_string->id;
	} else {
		entry->istr.id = (uint32_t)used;
		memcpy(area + used, text, bytes);
		__atomic_store_n(&((struct trace_strings *)area)->used, used + bytes, __ATOMIC_RELEASE);
	}
	entry->next = buckets[bucket];
	buckets[bucket] = entry;
	return &entry->istr;
}

/* The interned string, or NULL if `text` is not interned yet. Lock held. */
static const struct trace_istr *find_string(const char *text)
{
	if (!full_string) {
		((struct trace_strings *)area)->used = sizeof(struct trace_strings);
		full_string = add_string("(strings full)");
	}
	for (const struct interned *entry = buckets[text_hash(text) % BUCKETS]; entry; entry = entry->next) {
		if (strcmp(entry->istr.text, text) == 0)
			return &entry->istr;
	}
	return NULL;
}

const struct trace_istr *trace_intern(const char *text)
{
	const struct trace_istr *found;

	pthread_mutex_lock(&trace_lock);
	found = find_string(text);
	if (!found)
		found = add_string(text);
	pthread_mutex_unlock(&trace_lock);
	return found;
}

const struct trace_istr *trace_intern_foreign(const char *text)
{
	size_t bytes = strlen(text) + 1;
	const struct trace_istr *found;

	pthread_mutex_lock(&trace_lock);
	found = find_string(text);
	if (!found && foreign_bytes + bytes <= TRACE_FOREIGN_BYTES) {
		foreign_bytes += bytes;
		found = add_string(text);
	}
	pthread_mutex_unlock(&trace_lock);
	return found ? found : trace_intern("(too many names)");
}

/* ---- objects ---- */

static uint32_t next_object_id[TRACE_OBJECT_TYPES_MAX + 1];

void trace_objects_reset(void)
{
	memset(next_object_id, 0, sizeof(next_object_id));
}

void trace_object_init(struct trace_object *object, uint16_t type)
{
	must(type > 0 && type <= TRACE_OBJECT_TYPES_MAX);
	*object = (struct trace_object){ .id = __atomic_fetch_add(&next_object_id[type], 1, __ATOMIC_RELAXED),
					 .type = type };
}

/* ---- owners: a FIFO of free ids, so that an id is reused as late as possible ---- */

static uint16_t free_owners[TRACE_OWNERS_MAX];
static uint32_t free_first, free_count;

void trace_owners_reset(void)
{
	free_first = 0;
	free_count = 0;
	for (uint16_t owner = 1; owner < TRACE_OWNERS_MAX; owner++)
		free_owners[free_count++] = owner;
}

/* ---- the filter ---- */

uint64_t trace_filter_owners[TRACE_OWNERS_MAX / 64];
static char filter_text[104];

bool trace_filter_is_on(void)
{
	return filter_text[0] != '\0';
}

const char *trace_filter_text(void)
{
	return filter_text;
}

static void update_owner_filter(uint16_t owner, const struct trace_owner *row)
{
	uint64_t *word = &trace_filter_owners[owner / 64], bit = BIT(owner % 64);

	if (filter_text[0] && row->tick_from && row->tick_to == 0 && strstr(row->text, filter_text))
		__atomic_fetch_or(word, bit, __ATOMIC_RELAXED);
	else
		__atomic_fetch_and(word, ~bit, __ATOMIC_RELAXED);
}

void trace_filter_set(const char *text)
{
	pthread_mutex_lock(&trace_lock);
	text_copy(filter_text, sizeof(filter_text), text ? text : "");
	for (uint16_t owner = 1; trace_file.owners && owner < TRACE_OWNERS_MAX; owner++)
		update_owner_filter(owner, &trace_file.owners[owner]);
	trace_filter_changed();
	pthread_mutex_unlock(&trace_lock);
}

/* All writes into an owner's row but of tick_to go through here: an odd version shows readers a torn row. Lock held. */
static void write_owner_row(struct trace_owner *row, const struct trace_owner *now)
{
	uint16_t version = row->version;

	must(version % 2 == 0);
	__atomic_store_n(&row->version, (uint16_t)(version + 1), __ATOMIC_RELAXED);
	atomic_thread_fence(memory_order_release);
	row->tick_to = now->tick_to;
	row->type = now->type;
	memcpy(row->text, now->text, sizeof(row->text));
	__atomic_store_n(&row->tick_from, now->tick_from, __ATOMIC_RELEASE);
	__atomic_store_n(&row->version, (uint16_t)(version + 2), __ATOMIC_RELEASE);
}

uint16_t trace_owner_create(uint16_t type, uint64_t tick, const char *format, ...)
{
	uint16_t owner = 0;

	must(type > 0);
	pthread_mutex_lock(&trace_lock);
	must(!trace_file.owners || type <= trace_schema()->owner_count);
	if (trace_file.owners && free_count > 0) {
		struct trace_owner now = { .type = type, .tick_from = tick ? tick : clock_ticks() }, *row;
		va_list args;

		owner = free_owners[free_first];
		free_first = (free_first + 1) % TRACE_OWNERS_MAX;
		free_count--;
		row = &trace_file.owners[owner];
		must(row->tick_from == 0 || row->tick_to != 0);
		va_start(args, format);
		vsnprintf(now.text, sizeof(now.text), format, args);
		va_end(args);
		write_owner_row(row, &now);
		update_owner_filter(owner, &now);
	}
	pthread_mutex_unlock(&trace_lock);
	return owner;
}

void trace_owner_describe(uint16_t owner, const char *format, ...)
{
	struct trace_owner now;
	va_list args;

	pthread_mutex_lock(&trace_lock);
	if (owner && trace_file.owners) {
		now = trace_file.owners[owner];
		memset(now.text, 0, sizeof(now.text));
		va_start(args, format);
		vsnprintf(now.text, sizeof(now.text), format, args);
		va_end(args);
		write_owner_row(&trace_file.owners[owner], &now);
		update_owner_filter(owner, &now);
	}
	pthread_mutex_unlock(&trace_lock);
}

void trace_owner_destroy(uint16_t owner, uint64_t tick)
{
	pthread_mutex_lock(&trace_lock);
	if (owner && trace_file.owners) {
		must(trace_file.owners[owner].tick_to == 0);
		trace_file.owners[owner].tick_to = tick ? tick : clock_ticks();
		update_owner_filter(owner, &trace_file.owners[owner]);
		free_owners[(free_first + free_count++) % TRACE_OWNERS_MAX] = owner;
	}
	pthread_mutex_unlock(&trace_lock);
}
