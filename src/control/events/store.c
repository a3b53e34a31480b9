/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/events/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uuid/uuid.h>

#include "base/bits.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "rpc/ras/event.h"

#define RANGE_KEY "events/range"
#define SOURCE_PREFIX "events/source/"
#define NUMBER_MAX ((uint64_t)INT64_MAX) /* of a stored or taken event; a counter from 1 does not reach it */

enum {
	KEY_BYTES = 64,
	UUID_TEXT_BYTES = 37,
	NUMBERS_BYTES = 48,
	PRUNE_MAX = EVENT_STORE_TAKE_MAX + 64, /* deletions in one transaction; a lowered limit is reached over several */
};
enum { OTHER_CHANGES = 3 }; /* the range, the source, the source that it replaces */
static_assert(EVENT_STORE_TAKE_MAX + PRUNE_MAX + OTHER_CHANGES <= DB_CHANGES_MAX, "a transaction has room for all of it");
static_assert(sizeof(SOURCE_PREFIX) + UUID_TEXT_BYTES <= KEY_BYTES, "each source has a key");

struct source {
	char uuid[UUID_TEXT_BYTES];
	uint64_t taken;
	uint64_t used; /* counter value of the last use, for LRU order; 0: not used since the store was opened */
};

struct event_store {
	struct db *db;
	uint64_t events_max;
	uint64_t first, last; /* first > last: no events */
	struct source *sources;
	size_t source_count, source_room;
	uint64_t uses;
};

/* ---- sources ---- */

static struct source *find_source(const struct event_store *store, const char *uuid)
{
	for (size_t i = 0; i < store->source_count; i++) {
		if (strcmp(store->sources[i].uuid, uuid) == 0)
			return &store->sources[i];
	}
	return NULL;
}

/*
 * A reinstalled host has a new spool, and the old one is never reported as gone. So when there are too many sources, the
 * least recently used one is forgotten. If it returns, events that it repeats are stored twice.
 */
static struct source *find_oldest(const struct event_store *store)
{
	struct source *oldest = &store->sources[0];

	must(store->source_count > 0);
	for (size_t i = 1; i < store->source_count; i++) {
		if (store->sources[i].used < oldest->used)
			oldest = &store->sources[i];
	}
	return oldest;
}

/* Reserve room for a source before the commit, because adding it after the commit must not fail. */
static int reserve_source(struct event_store *store)
{
	size_t room = max_u64(2 * store->source_room, 16);
	struct source *sources;

	must(store->source_count <= store->source_room);
	if (store->source_count < store->source_room)
		return 0;
	sources = realloc(store->sources, room * sizeof(*sources));
	if (!sources)
		return -ENOMEM;
	store->sources = sources;
	store->source_room = room;
	return 0;
}

/* Add a source. reserve_source() must have succeeded before. */
static struct source *add_source(struct event_store *store, const char *uuid)
{
	struct source *source = &store->sources[store->source_count++];

	must(store->source_count <= store->source_room);
	*source = (struct source){ .taken = 0 };
	must(text_copy(source->uuid, sizeof(source->uuid), uuid) == 0);
	return source;
}

/* Remember the last number taken of a source. `forgotten`: the source that it replaces, or NULL. */
static void set_source(struct event_store *store, const char *uuid, struct source *forgotten, uint64_t taken)
{
	struct source *source = find_source(store, uuid);

	must(!forgotten || !source); /* a known source replaces none */
	must(!source || taken >= source->taken);
	if (forgotten) {
		must(text_copy(forgotten->uuid, sizeof(forgotten->uuid), uuid) == 0);
		source = forgotten;
	} else if (!source) {
		source = add_source(store, uuid);
	}
	source->taken = taken;
	source->used = ++store->uses;
}

uint64_t event_store_taken(const struct event_store *store, const char *source)
{
	const struct source *found = find_source(store, source);

	return found ? found->taken : 0;
}

/* ---- opening ---- */

static int read_numbers(const void *value, size_t bytes, int count, uint64_t *numbers_ret)
{
	char text[NUMBERS_BYTES], *rest = text;

	if (bytes >= sizeof(text) || memchr(value, '\0', bytes))
		return -EBADMSG;
	memcpy(text, value, bytes);
	text[bytes] = '\0';
	for (int i = 0; i < count; i++) {
		char *word = strsep(&rest, " ");

		if (!word || text_parse_u64(word, 10, NUMBER_MAX, &numbers_ret[i]) < 0)
			return -EBADMSG;
	}
	return rest ? -EBADMSG : 0;
}

static int load_range(void *ctx, const char *key, const void *value, size_t bytes, uint64_t version)
{
	struct event_store *store = ctx;
	uint64_t numbers[2];

	if (read_numbers(value, bytes, 2, numbers) < 0 || numbers[0] == 0 || numbers[0] > numbers[1] + 1)
		return -EBADMSG;
	store->first = numbers[0];
	store->last = numbers[1];
	return 0;
}

static int load_source(void *ctx, const char *key, const void *value, size_t bytes, uint64_t version)
{
	const char *uuid = key + strlen(SOURCE_PREFIX);
	struct event_store *store = ctx;
	uint64_t taken;
	int error;

	if (strlen(uuid) != UUID_TEXT_BYTES - 1 || read_numbers(value, bytes, 1, &taken) < 0)
		return -EBADMSG;
	error = reserve_source(store);
	if (!error)
		add_source(store, uuid)->taken = taken;
	return error;
}

int event_store_open(struct db *db, uint64_t events_max, struct event_store **store_ret, struct fathom_fault *why)
{
	struct event_store *store = calloc(1, sizeof(*store));
	struct fathom_fault below = { 0 };
	int error;

	if (!store)
		return -ENOMEM;
	store->db = db;
	store->events_max = events_max ? events_max : EVENT_STORE_MAX;
	store->first = 1;
	error = db_get(db, RANGE_KEY, load_range, store, &below);
	if (error == -ENOENT)
		error = 0;
	if (!error)
		error = db_scan(db, SOURCE_PREFIX, load_source, store, &below);
	if (error) {
		event_store_close(store);
		if (below.error == 0 && error == -EBADMSG)
			return fault_db_value_bad(why, "events/", "it is of another form");
		if (why && below.error)
			*why = below;
		return error;
	}
	*store_ret = store;
	return 0;
}

void event_store_close(struct event_store *store)
{
	if (!store)
		return;
	free(store->sources);
	free(store);
}

uint64_t event_store_first(const struct event_store *store)
{
	return store->first <= store->last ? store->first : 0;
}

uint64_t event_store_last(const struct event_store *store)
{
	return store->last;
}

/* ---- taking ---- */

struct transaction {
	struct db_change *changes;
	char (*keys)[KEY_BYTES];
	size_t count, room; /* of changes and keys */
	uint8_t *data;	    /* the packed events, one after the other */
	size_t data_bytes;
	uint64_t first, last;
	uint64_t taken;
};

static struct db_change *add_change(struct transaction *transaction, const char *prefix, uint64_t number)
{
	char *key = transaction->keys[transaction->count];
	struct db_change *change = &transaction->changes[transaction->count++];

	must(transaction->count <= transaction->room); /* with this change */
	snprintf(key, KEY_BYTES, "%s%016" PRIx64, prefix, number);
	*change = (struct db_change){ .key = key, .expected = DB_VERSION_ANY, .what = DB_DELETE };
	return change;
}

static void put_text(struct transaction *transaction, const char *key, const char *text)
{
	struct db_change *change = &transaction->changes[transaction->count];

	must(transaction->count < transaction->room);
	must(text_copy(transaction->keys[transaction->count], KEY_BYTES, key) == 0);
	*change = (struct db_change){ .key = transaction->keys[transaction->count++],
				      .expected = DB_VERSION_ANY,
				      .what = DB_PUT,
				      .value = text,
				      .bytes = strlen(text) };
}

int event_store_check(const Fathom__NumberedEvent *event, struct fathom_fault *why)
{
	struct fathom_fault of_event = { 0 };

	if (!event->event)
		return fault_event_bad(why, "there is a number without one");
	if (ras_event_check(event->event, &of_event) < 0)
		return fault_event_bad(why, of_event.text);
	if (shared__rasevent__get_packed_size(event->event) > EVENT_STORE_EVENT_BYTES_MAX)
		return fault_event_bad(why, "it is too long");
	return 0;
}

/* Set `is_bad` of each event; if it is NULL, fail at the first invalid one. `bytes_ret`: packed size of the valid ones. */
static int check_batch(const struct event_batch *batch, size_t *bytes_ret, struct fathom_fault *why)
{
	const char *source = batch->source;
	bool *is_bad = batch->is_bad;
	uint64_t last = 0;
	uuid_t uuid;

	if (source && (strlen(source) != UUID_TEXT_BYTES - 1 || uuid_parse(source, uuid) < 0))
		return fault_event_bad(why, "its source is no UUID");
	if (batch->count > EVENT_STORE_TAKE_MAX)
		return fault_event_bad(why, "there are too many at once");
	*bytes_ret = 0;
	for (size_t i = 0; i < batch->count; i++) {
		const Fathom__NumberedEvent *event = batch->events[i];
		struct fathom_fault bad = { 0 };
		int error = event_store_check(event, is_bad ? &bad : why);

		if (source && event->number <= last)
			return fault_event_bad(why, "its number is not higher than that of the one before");
		if (source && event->number > NUMBER_MAX)
			return fault_event_bad(why, "its number is too high");
		last = event->number;
		if (error && !is_bad)
			return error;
		if (is_bad)
			is_bad[i] = error;
		if (!error)
			*bytes_ret += shared__rasevent__get_packed_size(event->event);
	}
	return 0;
}

/* Build the changes: store the valid events, and delete the oldest events. Invalid events count as taken. */
static void fill_transaction(const struct event_store *store, const struct event_batch *batch,
			     struct transaction *transaction)
{
	uint8_t *at = transaction->data;

	for (size_t i = 0; i < batch->count; i++) {
		const Fathom__NumberedEvent *event = batch->events[i];
		struct db_change *change;

		if (batch->source && event->number <= transaction->taken)
			continue;
		transaction->taken = event->number;
		if (batch->is_bad && batch->is_bad[i])
			continue;
		change = add_change(transaction, "event/", ++transaction->last);
		change->what = DB_PUT;
		change->value = at;
		change->bytes = shared__rasevent__pack(event->event, at);
		at += change->bytes;
		must((size_t)(at - transaction->data) <= transaction->data_bytes);
	}
	must(transaction->last >= store->last && transaction->last - store->last <= batch->count);
	for (int i = 0; i < PRUNE_MAX && transaction->last - transaction->first + 1 > store->events_max; i++) {
		add_change(transaction, "event/", transaction->first++);
	}
}

static int commit_transaction(struct event_store *store, const char *source, const struct source *forgotten,
			      struct transaction *transaction, struct fathom_fault *why)
{
	char range[NUMBERS_BYTES], taken[NUMBERS_BYTES], key[KEY_BYTES];

	snprintf(range, sizeof(range), "%" PRIu64 " %" PRIu64, transaction->first, transaction->last);
	put_text(transaction, RANGE_KEY, range);
	if (source) {
		snprintf(key, sizeof(key), SOURCE_PREFIX "%s", source);
		snprintf(taken, sizeof(taken), "%" PRIu64, transaction->taken);
		put_text(transaction, key, taken);
	}
	if (forgotten) {
		snprintf(key, sizeof(key), SOURCE_PREFIX "%s", forgotten->uuid);
		put_text(transaction, key, "");
		transaction->changes[transaction->count - 1].what = DB_DELETE;
	}
	return db_commit(store->db, transaction->changes, transaction->count, NULL, why);
}

int event_store_take(struct event_store *store, const struct event_batch *batch, uint64_t *taken_ret,
		     struct fathom_fault *why)
{
	const char *source = batch->source;
	uint64_t taken = source ? event_store_taken(store, source) : 0;
	struct transaction transaction = { .first = store->first, .last = store->last, .taken = taken };
	size_t bytes, changes = batch->count + PRUNE_MAX + OTHER_CHANGES;
	struct source *forgotten = NULL;
	int error = check_batch(batch, &bytes, why);

	if (!error && source && !find_source(store, source)) {
		if (store->source_count >= EVENT_STORE_SOURCES_MAX)
			forgotten = find_oldest(store);
		else
			error = reserve_source(store);
	}
	if (error)
		return error;
	must(store->first <= store->last + 1);
	transaction.room = changes;
	transaction.data_bytes = bytes;
	transaction.changes = calloc(changes, sizeof(*transaction.changes));
	transaction.keys = calloc(changes, sizeof(*transaction.keys));
	transaction.data = malloc(bytes + 1);
	if (transaction.changes && transaction.keys && transaction.data) {
		fill_transaction(store, batch, &transaction);
		if (transaction.last != store->last || (source && transaction.taken != taken))
			error = commit_transaction(store, source, forgotten, &transaction, why);
	} else {
		error = -ENOMEM;
	}
	free(transaction.changes);
	free(transaction.keys);
	free(transaction.data);
	if (error)
		return error;
	if (source && transaction.taken != taken)
		set_source(store, source, forgotten, transaction.taken);
	must(transaction.first >= store->first);
	must(transaction.taken >= taken);
	store->first = transaction.first;
	store->last = transaction.last;
	*taken_ret = transaction.taken;
	return 0;
}

/* ---- reading ---- */

struct found {
	Fathom__NumberedEvent *event;
	size_t bytes;
};

static int unpack_event(void *ctx, const char *key, const void *value, size_t bytes, uint64_t version)
{
	struct found *found = ctx;

	found->event->event = shared__rasevent__unpack(NULL, bytes, value);
	found->bytes = bytes;
	return found->event->event ? 0 : -ENOMEM;
}

static int read_event(struct event_store *store, uint64_t number, struct found *found, struct fathom_fault *why)
{
	char key[KEY_BYTES];
	int error;

	found->event = malloc(sizeof(*found->event));
	if (!found->event)
		return -ENOMEM;
	fathom__numbered_event__init(found->event);
	found->event->number = number;
	snprintf(key, sizeof(key), "event/%016" PRIx64, number);
	error = db_get(store->db, key, unpack_event, found, why);
	if (error) {
		free(found->event);
		return error == -ENOENT ? fault_db_value_bad(why, key, "it is missing") : error;
	}
	return 0;
}

int event_store_read(struct event_store *store, const struct event_range *range, Fathom__NumberedEvent ***events_ret,
		     size_t *count_ret, struct fathom_fault *why)
{
	uint64_t after = range->after;
	uint64_t number = max_u64(after < UINT64_MAX ? after + 1 : after, store->first);
	uint64_t most = min_u64(range->max ? range->max : EVENT_STORE_TAKE_MAX, EVENT_STORE_TAKE_MAX);
	size_t bytes = 0, count = 0;
	Fathom__NumberedEvent **events;
	int error = 0;

	events = calloc(most, sizeof(*events));
	if (!events)
		return -ENOMEM;
	for (; !error && number <= store->last && count < most && (count == 0 || bytes < range->bytes_max); number++) {
		struct found found;

		error = read_event(store, number, &found, why);
		if (!error) {
			events[count++] = found.event;
			bytes += found.bytes;
		}
	}
	if (error) {
		event_store_free(events, count);
		return error;
	}
	must(count <= most);
	*events_ret = events;
	*count_ret = count;
	return 0;
}

void event_store_free(Fathom__NumberedEvent **events, size_t count)
{
	for (size_t i = 0; i < count; i++)
		fathom__numbered_event__free_unpacked(events[i], NULL);
	free(events);
}
