/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/fathom/show/parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/hostlist/hostlist.h"
#include "control/hostlist/rankset.h"

/* ---- tables ---- */

struct table *titled(const char *const *titles, size_t count)
{
	struct table *table = dmg_table_create(titles, count);

	must(table);
	return table;
}

void add_row(struct table *table, const char *const *cells)
{
	must(table_add(table, cells) == 0);
}

void finish_table(struct table *table, unsigned int indent, FILE *out)
{
	table_print(table, indent, out);
	table_destroy(table);
}

struct row {
	uint64_t hash; /* of `cells` */
	char **cells;  /* of the other columns */
	char *members; /* "a,b" in order of arrival; converted to a set once, at the end */
	size_t used, room;
};

/* Rows by index, found through an open hash table that is at most half full: it may have as many rows as hosts. */
struct folded {
	enum folded_kind kind;
	const char *const *titles;
	size_t column_count, row_count, place_count;
	struct row *rows;
	size_t *places; /* 0: empty; else a row's index + 1 */
};

enum { PLACES_FIRST = 64 };

struct folded *folded_create(enum folded_kind kind, const char *const *titles, size_t count)
{
	struct folded *folded = calloc(1, sizeof(*folded));

	must(folded);
	must(count > 0);
	must(count <= TABLE_COLUMNS_MAX);
	folded->kind = kind;
	folded->titles = titles;
	folded->column_count = count;
	folded->place_count = PLACES_FIRST;
	folded->places = calloc(folded->place_count, sizeof(*folded->places));
	must(folded->places);
	return folded;
}

static uint64_t hash_cells(const struct folded *folded, const char *const *cells)
{
	uint64_t hash = 0xcbf29ce484222325; /* FNV-1a */

	for (size_t k = 0; k + 1 < folded->column_count; k++) {
		const char *c = cells[k];

		do
			hash = (hash ^ (uint8_t)*c) * 0x100000001b3;
		while (*c++);
	}
	return hash;
}

/* The place of the row with these cells, or the empty one where it belongs. */
static size_t *find_row_place(const struct folded *folded, uint64_t hash, const char *const *cells)
{
	size_t at = hash & (folded->place_count - 1);

	while (folded->places[at]) {
		const struct row *row = &folded->rows[folded->places[at] - 1];
		bool equal = row->hash == hash;

		for (size_t k = 0; k + 1 < folded->column_count && equal; k++)
			equal = strcmp(row->cells[k], cells[k]) == 0;
		if (equal)
			break;
		at = (at + 1) & (folded->place_count - 1);
	}
	return &folded->places[at];
}

static void grow_folded_rows(struct folded *folded)
{
	free(folded->places);
	folded->place_count *= 2;
	folded->places = calloc(folded->place_count, sizeof(*folded->places));
	must(folded->places);
	folded->rows = realloc(folded->rows, folded->place_count / 2 * sizeof(*folded->rows));
	must(folded->rows);
	for (size_t i = 0; i < folded->row_count; i++)
		*find_row_place(folded, folded->rows[i].hash, (const char *const *)folded->rows[i].cells) = i + 1;
}

static struct row *find_or_add_row(struct folded *folded, const char *const *cells)
{
	uint64_t hash = hash_cells(folded, cells);
	size_t *place;
	struct row *row;

	if (!folded->rows || 2 * folded->row_count == folded->place_count)
		grow_folded_rows(folded);
	place = find_row_place(folded, hash, cells);
	if (*place)
		return &folded->rows[*place - 1];
	row = &folded->rows[folded->row_count++];
	*place = folded->row_count;
	*row = (struct row){ .hash = hash, .cells = calloc(folded->column_count, sizeof(*row->cells)) };
	must(row->cells);
	for (size_t k = 0; k + 1 < folded->column_count; k++) {
		row->cells[k] = strdup(cells[k]);
		must(row->cells[k]);
	}
	return row;
}

void folded_add(struct folded *folded, const char *member, const char *const *cells)
{
	struct row *row = find_or_add_row(folded, cells);
	size_t bytes = strlen(member);

	if (row->used + bytes + 2 > row->room) {
		row->room = 2 * (row->used + bytes + 2);
		row->members = realloc(row->members, row->room);
		must(row->members);
	}
	if (row->used > 0)
		row->members[row->used++] = ',';
	memcpy(&row->members[row->used], member, bytes + 1);
	row->used += bytes;
}

void folded_add_absent(struct folded *folded, const char *ranks, const char *const *cells)
{
	struct rank_set set = { 0 };
	char text[SIZE_TEXT_BYTES];

	if (ranks[0] && rank_set_parse(ranks, &set, NULL) < 0)
		return; /* from a server, so it may be invalid */
	for (size_t i = 0; i < set.count; i++)
		folded_add(folded, number_text(set.ranks[i], text), cells);
	rank_set_deinit(&set);
}

static char *text_of_row(const struct folded *folded, struct row *row)
{
	struct rank_set ranks = { 0 };
	struct host_set *hosts;
	char *text, *folded_hosts;

	if (folded->kind == FOLDED_RANKS) {
		must(rank_set_parse(row->members, &ranks, NULL) == 0);
		must(rank_set_fold(&ranks, true, &text) == 0);
		rank_set_deinit(&ranks);
		return text;
	}
	must(host_set_parse(row->members, &hosts, NULL) == 0);
	must(host_set_fold(hosts, &folded_hosts) == 0);
	host_set_destroy(hosts);
	text = hosts_text(folded_hosts);
	free(folded_hosts);
	return text;
}

static size_t compared_cells;

static int compare_folded_rows(const void *a, const void *b)
{
	const struct row *left = a, *right = b;
	int order = 0;

	for (size_t k = 0; k < compared_cells && order == 0; k++)
		order = strcmp(left->cells[k], right->cells[k]);
	return order;
}

static void free_folded_row(struct folded *folded, struct row *row)
{
	free(row->members);
	for (size_t k = 0; k + 1 < folded->column_count; k++)
		free(row->cells[k]);
	free(row->cells);
}

void folded_finish(struct folded *folded, bool sorted, unsigned int indent, FILE *out)
{
	struct table *table = titled(folded->titles, folded->column_count);

	compared_cells = folded->column_count - 1;
	if (sorted && folded->row_count > 0)
		qsort(folded->rows, folded->row_count, sizeof(*folded->rows), compare_folded_rows);
	for (size_t i = 0; i < folded->row_count; i++) {
		const char *cells[TABLE_COLUMNS_MAX];
		char *first = text_of_row(folded, &folded->rows[i]);

		cells[0] = first;
		for (size_t k = 1; k < folded->column_count; k++)
			cells[k] = folded->rows[i].cells[k - 1];
		add_row(table, cells);
		free(first);
		free_folded_row(folded, &folded->rows[i]);
	}
	if (folded->row_count > 0)
		table_print(table, indent, out);
	table_destroy(table);
	free(folded->places);
	free(folded->rows);
	free(folded);
}

static bool ports_are_shown;

/* The set `hosts`, and a set without ports; the caller destroys both. */
static struct host_set *without_ports(const char *hosts, struct host_set **set_ret)
{
	struct host_set *bare;
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	must(out);
	must(host_set_parse(hosts, set_ret, NULL) == 0);
	for (size_t i = 0; i < host_set_count(*set_ret); i++) {
		struct host_address address;

		host_address(host_set_at(*set_ret, i), 0, &address);
		fprintf(out, address.is_ipv6 ? "[%s]," : "%s,", address.host);
	}
	must(fclose(out) == 0);
	must(host_set_parse(text, &bare, NULL) == 0);
	free(text);
	return bare;
}

void set_output_hosts(const char *hosts)
{
	struct host_set *set, *bare = without_ports(hosts, &set);

	ports_are_shown = host_set_count(bare) != host_set_count(set);
	host_set_destroy(set);
	host_set_destroy(bare);
}

char *hosts_text(const char *hosts)
{
	struct host_set *set, *bare = without_ports(hosts, &set);
	bool keep = ports_are_shown || host_set_count(bare) != host_set_count(set);
	char *text;

	must(host_set_fold(keep ? set : bare, &text) == 0);
	host_set_destroy(set);
	host_set_destroy(bare);
	return text;
}

void print_hosts(const struct fathom_control_answer *answer, FILE *out)
{
	char *hosts = hosts_text(answer->hosts);

	heading_print(hosts, 0, out);
	free(hosts);
}

const char *number_text(uint64_t number, char *text)
{
	snprintf(text, SIZE_TEXT_BYTES, "%" PRIu64, number);
	return text;
}

const char *rank_text(uint32_t rank, char *text)
{
	return rank == FATHOM_CONTROL_NO_RANK ? "-" : number_text(rank, text);
}

const char *pid_text(uint64_t pid, char *text)
{
	return pid == 0 ? "-" : number_text(pid, text);
}

const char *time_text(uint64_t realtime_ns, char *text)
{
	time_t seconds = (time_t)(realtime_ns / NS_PER_SEC);
	struct tm tm;

	if (realtime_ns == 0)
		return "-";
	must(localtime_r(&seconds, &tm)); /* 2^64 ns are 584 years */
	must(strftime(text, SIZE_TEXT_BYTES, "%F %T", &tm) > 0);
	return text;
}

const char *integer_text(int64_t number, char *text)
{
	snprintf(text, SIZE_TEXT_BYTES, "%" PRId64, number);
	return text;
}

const char *joined_text(const char *const *texts, size_t count, char *text)
{
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < count && used + strlen(texts[i]) + 3 < CELL_BYTES; i++)
		used += (size_t)snprintf(text + used, CELL_BYTES - used, "%s%s", used ? ", " : "", texts[i]);
	return used ? text : "-";
}

const char *node_text(int64_t node, char *text)
{
	snprintf(text, SIZE_TEXT_BYTES, node < 0 ? "-" : "%" PRId64, node);
	return text;
}

const char *speed_text(int64_t mbps, char *text)
{
	snprintf(text, SIZE_TEXT_BYTES, mbps < 0 ? "-" : "%" PRId64 " Mb/s", mbps);
	return text;
}

const char *lower_text(const char *from, char *text, size_t bytes)
{
	size_t i;

	for (i = 0; from[i] && i + 1 < bytes; i++)
		text[i] = from[i] >= 'A' && from[i] <= 'Z' ? (char)(from[i] - 'A' + 'a') : from[i];
	text[i] = '\0';
	return text;
}

const char *plural(size_t count, const char *one)
{
	static char text[64];

	snprintf(text, sizeof(text), "%zu %s%s", count, one, count == 1 ? "" : "s");
	return text;
}

/* ---- JSON ---- */

void put(json_t *object, const char *key, json_t *value)
{
	must(json_object_set_new(object, key, value) == 0);
}

/* Texts from the network are UTF-8 where protobuf requires it; jansson accepts nothing else. */
json_t *json_text(const char *text)
{
	size_t bytes = strlen(text);
	json_t *value = json_string(text);
	char *clean;

	if (value)
		return value;
	clean = malloc(bytes + 1);
	must(clean);
	clean[text_utf8_copy(clean, bytes, text, bytes)] = '\0';
	value = json_string(clean);
	free(clean);
	must(value);
	return value;
}

void put_text(json_t *object, const char *key, const char *text)
{
	put(object, key, json_text(text));
}

void put_number(json_t *object, const char *key, uint64_t number)
{
	put(object, key, json_integer((json_int_t)number));
}

void put_bool(json_t *object, const char *key, bool value)
{
	put(object, key, json_boolean(value));
}

void append(json_t *list, json_t *value)
{
	must(json_array_append_new(list, value) == 0);
}

json_t *or_null(json_t *list)
{
	if (json_array_size(list) > 0)
		return list;
	json_decref(list);
	return json_null();
}

json_t *list_of_texts(const char *const *texts, size_t count)
{
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++)
		append(list, json_text(texts[i]));
	return or_null(list);
}

json_t *list_of_i32s(const int32_t *numbers, size_t count)
{
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++)
		append(list, json_integer(numbers[i]));
	return or_null(list);
}

json_t *list_of_u32s(const uint32_t *numbers, size_t count)
{
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++)
		append(list, json_integer(numbers[i]));
	return or_null(list);
}

json_t *list_of_u64s(const uint64_t *numbers, size_t count)
{
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++)
		append(list, json_integer((json_int_t)numbers[i]));
	return or_null(list);
}

#define STATUS_NO_DER (-1025) /* DAOS's number for errors that are not of its engines */

json_t *json_fault(const struct fathom_fault *why, const char *hosts)
{
	json_t *row = json_object();
	struct fault_shown shown;

	fault_show((const struct fathom_fault *)why, &shown);
	if (hosts)
		put_text(row, "hosts", hosts);
	put_text(row, "domain", shown.domain);
	put_number(row, "code", (uint64_t)shown.code);
	put_text(row, "description", shown.description);
	put_text(row, "resolution", shown.resolution);
	return row;
}

void envelope_print(json_t *response, const struct fathom_fault *why, json_t *faults, FILE *out)
{
	json_t *envelope = json_object(), *rows = faults ? faults : json_array();
	char message[FAULT_LINES_BYTES_MAX];
	struct fault_shown shown;

	must(envelope && rows);
	if (why) {
		fault_show((const struct fathom_fault *)why, &shown);
		fault_message(&shown, message, sizeof(message));
	}
	if (why && why->code)
		append(rows, json_fault(why, NULL));
	put(envelope, "response", response ? response : json_null());
	put(envelope, "error", why ? json_text(message) : json_null());
	put(envelope, "status", json_integer(why ? STATUS_NO_DER : 0));
	if (json_array_size(rows) > 0)
		put(envelope, "faults", json_incref(rows));
	json_decref(rows);
	must(json_dumpf(envelope, out, JSON_INDENT(2)) == 0 || ferror(out));
	fputc('\n', out);
	json_decref(envelope);
}
