/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * registry - `fathom probe registry`: the DTrace-style probes of processes, as registered with fathom-probed.
 *
 * A row is a probe of a process. The arguments are process ids, providers ("app", "app1234") and DTrace's descriptions
 * ("app*:::start", "start"). Rows that match at least one of them are printed.
 */
#include "cmd/fathom/probe/registry.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/text.h"
#include "cmd/fathom/probe/probe.h"

enum { WATCH_SEC = 1, NAME_WIDTH = 44, PATTERN_PARTS = 4 };

/* The rows at one moment. */
struct rows {
	json_t **rows;
	size_t count, room;
	const struct probe_request *request;
};

static const char *get_row_text(json_t *row, const char *key)
{
	const char *text = json_string_value(json_object_get(row, key));

	return text ? text : "";
}

static long long get_row_pid(json_t *row)
{
	return json_integer_value(json_object_get(row, "pid"));
}

/* ---- selecting ---- */

static bool part_matches(const char *pattern, const char *text)
{
	return *pattern == '\0' || fnmatch(pattern, text, 0) == 0;
}

/* "app" or "app1234", as in DTrace. */
static bool provider_matches(const char *pattern, json_t *row)
{
	char with_pid[128];

	snprintf(with_pid, sizeof(with_pid), "%s%lld", get_row_text(row, "provider"), get_row_pid(row));
	return part_matches(pattern, get_row_text(row, "provider")) || part_matches(pattern, with_pid);
}

/* As in DTrace, missing parts are those at the left: "start", "main:start". A single part may also be a provider. */
static bool description_matches(const char *description, json_t *row)
{
	static const char *const keys[PATTERN_PARTS] = { "provider", "module", "function", "probe" };
	char copy[512], *rest = copy, *parts[PATTERN_PARTS];
	int count = 0;

	if (text_copy(copy, sizeof(copy), description) < 0)
		return false;
	while (rest && count < PATTERN_PARTS)
		parts[count++] = strsep(&rest, ":");
	if (rest)
		return false;
	if (count == 1 && provider_matches(parts[0], row))
		return true;
	for (int i = 0; i < count; i++) {
		int key = PATTERN_PARTS - count + i;

		if (key == 0 ? !provider_matches(parts[i], row) : !part_matches(parts[i], get_row_text(row, keys[key])))
			return false;
	}
	return true;
}

static bool is_selected_row(const struct probe_request *request, json_t *row)
{
	for (int i = 0; i < request->target_count; i++) {
		const char *target = request->targets[i];
		uint64_t pid;

		if (text_parse_u64(target, 10, INT32_MAX, &pid) == 0 ? (long long)pid == get_row_pid(row)
								     : description_matches(target, row))
			return true;
	}
	return request->target_count == 0;
}

/* The process id, if it is the only argument: the daemon then reads only that process. 0: else. */
static uint64_t only_pid(const struct probe_request *request)
{
	uint64_t pid = 0;

	if (request->target_count == 1 && text_parse_u64(request->targets[0], 10, INT32_MAX, &pid) == 0)
		return pid;
	return 0;
}

/* ---- rows ---- */

static void add_row(void *ctx, json_t *row)
{
	struct rows *rows = ctx;

	if (!is_selected_row(rows->request, row))
		return;
	if (rows->count == rows->room) {
		rows->room = rows->room ? rows->room * 2 : 64;
		rows->rows = reallocarray(rows->rows, rows->room, sizeof(*rows->rows));
		must(rows->rows);
	}
	rows->rows[rows->count++] = json_incref(row);
}

static void free_rows(struct rows *rows)
{
	for (size_t i = 0; i < rows->count; i++)
		json_decref(rows->rows[i]);
	free(rows->rows);
}

static int compare_text(json_t *a, json_t *b, const char *key)
{
	return strverscmp(get_row_text(a, key), get_row_text(b, key));
}

static int by_process_and_name(const void *a_ref, const void *b_ref)
{
	static const char *const keys[] = { "provider", "module", "function", "probe", "found" };
	json_t *a = *(json_t *const *)a_ref, *b = *(json_t *const *)b_ref;
	int order = get_row_pid(a) < get_row_pid(b) ? -1 : get_row_pid(a) > get_row_pid(b);

	for (size_t i = 0; order == 0 && i < ARRAY_COUNT(keys); i++)
		order = compare_text(a, b, keys[i]);
	return order;
}

static int get_rows(const struct probe_request *request, struct rows *rows, struct fathom_fault *why)
{
	uint64_t pid = only_pid(request);
	int error;

	*rows = (struct rows){ .request = request };
	if (request->state_directory)
		error = registry_read(request->state_directory, pid, add_row, rows, why);
	else
		error = registry_ask(request->socket, pid, false, add_row, rows, why);
	if (error == 0 && request->all && !request->state_directory)
		error = registry_ask(request->socket, pid, true, add_row, rows, why);
	if (rows->count)
		qsort(rows->rows, rows->count, sizeof(*rows->rows), by_process_and_name);
	return error;
}

/* ---- printing ---- */

static void print_registry_types(json_t *types)
{
	size_t i;
	json_t *type;

	if (json_array_size(types) == 0)
		fputs("no arguments", stdout);
	json_array_foreach (types, i, type)
		printf("%s%s", i ? ", " : "", json_string_value(type));
}

static void print_registry_sites(json_t *sites, bool is_enabled, const char *before)
{
	size_t i;
	json_t *site;
	bool any = false;

	json_array_foreach (sites, i, site) {
		if (json_is_true(json_object_get(site, "is_enabled")) != is_enabled)
			continue;
		printf("%s%s", any ? ", " : before, get_row_text(site, "address"));
		any = true;
	}
}

static void print_registry_row(json_t *row, const char *before)
{
	char name[512];
	json_t *args = json_object_get(row, "args");

	snprintf(name, sizeof(name), "%s%lld:%s:%s:%s", get_row_text(row, "provider"), get_row_pid(row),
		 get_row_text(row, "module"), get_row_text(row, "function"), get_row_text(row, "probe"));
	printf("%s%-*s ", before, NAME_WIDTH, name);
	print_registry_types(args);
	print_registry_sites(json_object_get(row, "sites"), false, "; at ");
	print_registry_sites(json_object_get(row, "sites"), true, "; is-enabled at ");
	putchar('\n');
}

static void print_registry_text(const struct rows *rows)
{
	for (size_t i = 0; i < rows->count; i++) {
		json_t *row = rows->rows[i];

		if (i == 0 || get_row_pid(row) != get_row_pid(rows->rows[i - 1]) ||
		    strcmp(get_row_text(row, "found"), get_row_text(rows->rows[i - 1], "found")) != 0)
			printf("%s%s, pid %lld, found by %s\n", i ? "\n" : "",
			       *get_row_text(row, "program") ? get_row_text(row, "program") : "process", get_row_pid(row),
			       get_row_text(row, "found"));
		print_registry_row(row, "  ");
	}
}

static void print_registry_json(json_t *row, const char *event)
{
	if (event)
		json_object_set_new(row, "event", json_string(event));
	json_dumpf(row, stdout, JSON_COMPACT);
	putchar('\n');
	if (event)
		json_object_del(row, "event");
}

/* ---- watching ---- */

static void print_change(const struct probe_request *request, json_t *row, bool added)
{
	if (request->json)
		print_registry_json(row, added ? "added" : "removed");
	else
		print_registry_row(row, added ? "+ " : "- ");
}

/* Both are sorted. */
static void print_changes(const struct probe_request *request, const struct rows *before, const struct rows *now)
{
	size_t old = 0, new = 0;

	while (old < before->count || new < now->count) {
		int order = old == before->count ? 1
			    : new == now->count	 ? -1
						 : by_process_and_name(&before->rows[old], &now->rows[new]);

		if (order == 0) {
			old++;
			new ++;
		} else if (order < 0) {
			print_change(request, before->rows[old++], false);
		} else {
			print_change(request, now->rows[new ++], true);
		}
	}
	fflush(stdout);
}

static int watch_registry(const struct probe_request *request, struct rows *rows)
{
	struct rows now;
	struct fathom_fault why;

	for (;;) {
		sleep(WATCH_SEC);
		if (ferror(stdout))
			return EXIT_FAILURE;
		if (get_rows(request, &now, &why) != 0) {
			free_rows(&now);
			fprintf(stderr, "fathom probe: %s\n", why.text);
			return EXIT_USAGE;
		}
		print_changes(request, rows, &now);
		free_rows(rows);
		*rows = now;
	}
}

int probe_registry(const struct probe_request *request)
{
	struct rows rows, none = { 0 };
	struct fathom_fault why;
	int status = EXIT_SUCCESS;

	if (get_rows(request, &rows, &why) != 0) {
		free_rows(&rows);
		return probe_complain(why.text, NULL);
	}
	if (request->watch) {
		print_changes(request, &none, &rows);
		status = watch_registry(request, &rows);
	} else if (request->json) {
		for (size_t i = 0; i < rows.count; i++)
			print_registry_json(rows.rows[i], NULL);
	} else {
		print_registry_text(&rows);
	}
	if (rows.count == 0 && request->target_count > 0 && !request->watch)
		status = EXIT_FAILURE;
	free_rows(&rows);
	return status;
}
