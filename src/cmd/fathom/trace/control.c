/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * control - `fathom trace enable`, `disable`, `groups`, `clear` and `freeze`: control what a running program records.
 *
 * They use the methods of the control socket that Fathom's engine and SPDK's targets share. These methods take masks and
 * answer every error with "Invalid parameters". So groups and points are requested first, names are resolved here, and
 * nothing is sent unless all names are valid. `groups` also reads a trace file, even of a dead process.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/table.h"
#include "base/text.h"
#include "cmd/fathom/rpc/client.h"
#include "cmd/fathom/top/top.h"
#include "cmd/fathom/trace/trace.h"

#define SOCKET_DEFAULT "/var/tmp/fathom.sock"
#define TIMEOUT_SEC 60.0
#define POINTS_ALL UINT64_MAX

enum { POINTS_IN_GROUP_MAX = 64 };

struct control {
	const char *socket;
	struct trace_choices choices;
	bool json, force;
	const char *output;
	char **words; /* arguments after the sub-command */
	int word_count;
};

#define AT(member) .offset = offsetof(struct control, member)

static const struct option_row rows[] = {
	{ "socket", 'S', OPTION_TEXT, "SOCKET",
	  "control socket of the program (default " SOCKET_DEFAULT "; of SPDK mostly /var/tmp/spdk.sock)", AT(socket),
	  .values = OPTION_FILES },
	{ NULL, 'o', OPTION_TEXT, "FILE", "of freeze: file to write", AT(output), .values = OPTION_FILES },
	{ "force", 0, OPTION_FLAG, NULL, "of freeze: overwrite an existing file", AT(force) },
	{ "json", 0, OPTION_FLAG, NULL, "print a JSON object on each line", AT(json) },
	OPTION_HELP_ROW,
	{ .type = OPTION_HEADING,
	  .help = "Select the program by its trace file, as in `fathom trace show`; `groups` then reads this file instead "
		  "of calling the program:" },
	TRACE_CHOICE_ROWS(struct control),
};

const struct option_table trace_control_table = {
	.name = "fathom trace groups",
	.usage = "fathom trace enable|disable [-S SOCKET | -s NAME | -p PID] GROUP[:POINT[+POINT...]]...\n"
		 "fathom trace groups [-S SOCKET | -s NAME | -p PID | -f FILE] [--json] [GROUP...]\n"
		 "fathom trace clear [-S SOCKET | -s NAME | -p PID]\n"
		 "fathom trace freeze [-S SOCKET | -s NAME | -p PID] [-o FILE [--force]] [REASON]",
	.about = "Control what a running engine, or a running target of SPDK, records.\n"
		 "\n"
		 "  enable    record these groups, or these points of them; \"all\": every group\n"
		 "  disable   do not record them\n"
		 "  groups    list groups and points, which are recorded, and how often each was, where that is known\n"
		 "  clear     discard what was recorded so far\n"
		 "  freeze    let the engine copy its trace file, to FILE, or beside it as NAME_trace.pidPID.frozen1; "
		 "print the copy's name\n"
		 "\n"
		 "Names may be in upper or lower case. Points may also be a mask in hexadecimal: bdev:0x3.",
	OPTION_ROWS(rows),
	.more = "Exit status: 0: success; 2: an error.",
};

/* ---- groups and points ---- */

/* All groups with their points, from the program. NULL: the error was printed. */
static json_t *request_groups(struct rpc_client *client)
{
	json_t *groups = NULL;
	struct fathom_fault why;

	if (rpc_client_call(client, "trace_get_tpoint_group_mask", NULL, &groups, &why) != 0) {
		trace_complain(why.text, NULL);
		return NULL;
	}
	if (!json_is_object(groups)) {
		json_decref(groups);
		trace_complain("the answer of the program to trace_get_tpoint_group_mask is not a JSON object", NULL);
		return NULL;
	}
	return groups;
}

/* The group with this name, ignoring case; `*exact_ret` is the program's spelling. NULL: none. */
static json_t *find_json_group(json_t *groups, const char *name, const char **exact_ret)
{
	const char *key;
	json_t *group;

	json_object_foreach (groups, key, group) {
		if (json_is_object(group) && strcasecmp(key, name) == 0) {
			*exact_ret = key;
			return group;
		}
	}
	return NULL;
}

/* The bit of a group's point with this name; 0: none. */
static uint64_t find_point_bit(json_t *group, const char *name)
{
	size_t index;
	json_t *point;

	json_array_foreach (json_object_get(group, "tpoints"), index, point) {
		const char *own = json_string_value(json_object_get(point, "name"));
		json_int_t id = json_integer_value(json_object_get(point, "tpoint_id"));

		if (own && strcasecmp(own, name) == 0 && id >= 0 && id < POINTS_IN_GROUP_MAX)
			return BIT(id);
	}
	return 0;
}

static void list_groups(json_t *groups)
{
	const char *key;
	json_t *group;

	fprintf(stderr, "fathom trace: the groups are");
	json_object_foreach (groups, key, group) {
		if (json_is_object(group))
			fprintf(stderr, " %s", key);
	}
	fputc('\n', stderr);
}

/* ---- enable, disable, clear ---- */

/* Parse "GROUP[:POINTS]" with names of the program's `groups`. `term` is modified. -1: the error was printed. */
static int read_term(char *term, json_t *groups, const char **name_ret, uint64_t *points_ret)
{
	char *points = strchr(term, ':'), *save;
	json_t *group;

	*points_ret = POINTS_ALL;
	if (points)
		*points++ = '\0';
	if (!points && strcasecmp(term, "all") == 0) {
		*name_ret = "all";
		return 0;
	}
	group = find_json_group(groups, term, name_ret);
	if (!group) {
		trace_complain("no trace group", term);
		list_groups(groups);
		return -1;
	}
	if (!points || text_parse_u64(points, 16, UINT64_MAX, points_ret) == 0)
		return 0;
	*points_ret = 0;
	for (char *name = strtok_r(points, "+", &save); name; name = strtok_r(NULL, "+", &save)) {
		uint64_t point = find_point_bit(group, name);

		if (!point) {
			fprintf(stderr, "fathom trace: group %s has no point \"%s\"; `fathom trace groups %s` lists them\n",
				*name_ret, name, *name_ret);
			return -1;
		}
		*points_ret |= point;
	}
	if (*points_ret == 0) {
		trace_complain("points are missing after the colon of", *name_ret);
		return -1;
	}
	return 0;
}

static int send_mask(struct rpc_client *client, const char *method, const char *name, uint64_t points)
{
	json_t *params = json_object(), *result = NULL;
	struct fathom_fault why;
	int rc;

	if (name)
		json_object_set_new(params, "name", json_string(name));
	if (name && points != POINTS_ALL)
		json_object_set_new(params, "tpoint_mask", rpc_json_u64(points));
	rc = rpc_client_call(client, method, params, &result, &why);
	json_decref(params);
	json_decref(result);
	return rc ? trace_complain(why.text, NULL) : EXIT_SUCCESS;
}

static int enable_or_disable_points(struct rpc_client *client, const struct control *control, bool enable)
{
	json_t *groups;
	const char **names = calloc((size_t)control->word_count + 1, sizeof(*names));
	uint64_t *points = calloc((size_t)control->word_count + 1, sizeof(*points));
	int status = EXIT_SUCCESS;

	must(names);
	must(points);
	if (control->word_count == 0)
		status = trace_complain("a group is missing; `fathom trace groups` lists them", NULL);
	groups = status == EXIT_SUCCESS ? request_groups(client) : NULL;
	if (!groups)
		status = EXIT_USAGE;
	for (int i = 0; i < control->word_count && status == EXIT_SUCCESS; i++) {
		if (read_term(control->words[i], groups, &names[i], &points[i]) != 0)
			status = EXIT_USAGE;
	}
	for (int i = 0; i < control->word_count && status == EXIT_SUCCESS; i++) {
		if (points[i] == POINTS_ALL)
			status = send_mask(client, enable ? "trace_enable_tpoint_group" : "trace_disable_tpoint_group",
					   names[i], POINTS_ALL);
		else
			status = send_mask(client, enable ? "trace_set_tpoint_mask" : "trace_clear_tpoint_mask", names[i],
					   points[i]);
	}
	json_decref(groups);
	free(names);
	free(points);
	return status;
}

static int enable_groups(struct rpc_client *client, const struct control *control)
{
	return enable_or_disable_points(client, control, true);
}

static int disable_groups(struct rpc_client *client, const struct control *control)
{
	return enable_or_disable_points(client, control, false);
}

static int clear_all(struct rpc_client *client, const struct control *control)
{
	if (control->word_count)
		return trace_complain("clear takes no arguments:", control->words[0]);
	return send_mask(client, "trace_clear", NULL, 0);
}

/* ---- groups ---- */

static bool is_selected_group(const struct control *control, const char *group)
{
	for (int i = 0; i < control->word_count; i++) {
		if (strcasecmp(control->words[i], group) == 0)
			return true;
	}
	return control->word_count == 0;
}

static const struct table_column groups_columns[] = {
	{ "GROUP", TABLE_LEFT, 14 },
	{ "POINT", TABLE_LEFT, 28 },
	{ "ON", TABLE_LEFT, 3 },
	{ "RECORDED", TABLE_RIGHT, 15 },
};
static const struct table_layout groups_layout = { TABLE_COLUMNS(groups_columns), .gap = 1 };
/* The control socket does not report the number of records. */
static const struct table_layout groups_layout_without_totals = { groups_columns, ARRAY_COUNT(groups_columns) - 1,
								  .gap = 1 };

static void print_group_point_json(const char *group, const char *point, bool on, const uint64_t *total)
{
	json_t *row = json_pack("{s:s, s:s, s:b}", "group", group, "point", point, "enabled", on);
	char *text;

	must(row);
	if (total)
		json_object_set_new(row, "recorded", rpc_json_u64(*total));
	text = rpc_json_text(row, -1);
	puts(text);
	free(text);
	json_decref(row);
}

static void print_group_point_text(const char *group, const char *point, bool on, const uint64_t *total)
{
	struct table_line line;

	table_line_begin(&line, total ? &groups_layout : &groups_layout_without_totals);
	table_cell(&line, "%s", group);
	table_cell(&line, "%s", point);
	table_cell(&line, "%s", on ? "on" : "off");
	if (total)
		table_cell(&line, "%" PRIu64, *total);
	puts(table_line_text(&line));
}

static void print_groups_header(const struct control *control, bool totals)
{
	struct table_line line;

	if (!control->json)
		puts(table_line_titles(&line, totals ? &groups_layout : &groups_layout_without_totals));
}

/* `total` NULL: unknown. */
static void print_point_row(const struct control *control, const char *group, const char *point, bool on,
			    const uint64_t *total)
{
	char upper[128];
	size_t i;

	for (i = 0; point[i] && i < sizeof(upper) - 1; i++)
		upper[i] = (char)toupper((unsigned char)point[i]);
	upper[i] = '\0';
	if (control->json)
		print_group_point_json(group, upper, on, total);
	else
		print_group_point_text(group, upper, on, total);
}

static int show_groups_of_program(struct rpc_client *client, const struct control *control)
{
	json_t *groups = request_groups(client), *group, *point;
	const char *key;
	size_t index;

	if (!groups)
		return EXIT_USAGE;
	for (int i = 0; i < control->word_count; i++) {
		if (!find_json_group(groups, control->words[i], &key)) {
			trace_complain("no trace group", control->words[i]);
			list_groups(groups);
			json_decref(groups);
			return EXIT_USAGE;
		}
	}
	print_groups_header(control, false);
	json_object_foreach (groups, key, group) {
		if (!json_is_object(group) || !is_selected_group(control, key))
			continue;
		json_array_foreach (json_object_get(group, "tpoints"), index, point) {
			const char *name = json_string_value(json_object_get(point, "name"));

			if (name)
				print_point_row(control, key, name, json_is_true(json_object_get(point, "enabled")), NULL);
		}
	}
	json_decref(groups);
	return EXIT_SUCCESS;
}

/* The same from a trace file. */
static int show_groups_of_file(const struct control *control)
{
	char path[PATH_MAX];
	struct reader *reader = NULL;
	struct fathom_fault why = { 0 };
	bool totals = false;
	int rc = trace_choice_only_path(&control->choices, "groups", path);

	if (rc)
		return rc;
	if (reader_open(path, &reader, &why) != 0)
		return trace_complain(why.text, NULL);
	for (int i = 0; i < control->word_count && rc == 0; i++) {
		if (!reader_group_by_name(reader, control->words[i]))
			rc = trace_complain("the file has no group", control->words[i]);
	}
	for (uint32_t i = 0; i < reader_info(reader)->point_count; i++)
		totals |= reader_point_at(reader, i)->total_known;
	if (rc == 0)
		print_groups_header(control, totals);
	for (uint32_t i = 0; i < reader_info(reader)->point_count && rc == 0; i++) {
		const struct reader_point *point = reader_point_at(reader, i);

		if (is_selected_group(control, point->group->name))
			print_point_row(control, point->group->name, point->name, reader_point_enabled(reader, point),
					point->total_known ? &point->total : NULL);
	}
	reader_close(reader);
	return rc;
}

/* ---- freeze ---- */

static int freeze_trace(struct rpc_client *client, const struct control *control)
{
	json_t *params = json_object(), *result = NULL;
	char here[PATH_MAX] = "", path[2 * PATH_MAX];
	struct fathom_fault why;
	int rc;

	if (control->word_count > 1) {
		json_decref(params);
		return trace_complain("unexpected argument (put the reason in quotes):", control->words[1]);
	}
	/* make the path absolute: the engine's working directory differs */
	if (control->output && control->output[0] != '/' && !getcwd(here, sizeof(here))) {
		json_decref(params);
		return trace_complain("cannot find the working directory:", strerror(errno));
	}
	snprintf(path, sizeof(path), "%s%s%s", here, here[0] ? "/" : "", control->output ? control->output : "");
	if ((control->output && json_object_set_new(params, "path", json_string(path)) != 0) ||
	    (control->force && json_object_set_new(params, "force", json_true()) != 0) ||
	    (control->word_count && json_object_set_new(params, "reason", json_string(control->words[0])) != 0)) {
		json_decref(params);
		return trace_complain("the file name or the reason is not valid UTF-8, which JSON-RPC requires", NULL);
	}
	rc = rpc_client_call(client, "trace_freeze", params, &result, &why);
	json_decref(params);
	if (rc)
		return trace_complain(why.text, NULL);
	if (control->json)
		json_dumpf(result, stdout, JSON_COMPACT);
	else
		fputs(json_string_value(json_object_get(result, "path")) ?: "?", stdout);
	putchar('\n');
	json_decref(result);
	return EXIT_SUCCESS;
}

/* ---- the command line ---- */

static const struct {
	const char *name;
	int (*run)(struct rpc_client *client, const struct control *control);
} verbs[] = {
	{ "enable", enable_groups }, { "disable", disable_groups }, { "groups", show_groups_of_program },
	{ "clear", clear_all },	     { "freeze", freeze_trace },
};

/* Find the control socket of the program selected by -s or -p. 0, or the exit status after an error message. */
static int find_control_socket(const struct control *control, char socket[TOP_PATH_BYTES])
{
	const struct trace_choice *row = &control->choices.rows[0];
	struct fathom_fault why = { 0 };
	char pid[16];

	if (control->choices.count > 1 || row->file)
		return trace_complain("this command calls a running program: use one of -S SOCKET, -s NAME and -p PID",
				      NULL);
	snprintf(pid, sizeof(pid), "%d", row->pid);
	return top_find_socket(row->pid ? pid : row->name, socket, &why) == 0 ? 0 : trace_complain(why.text, NULL);
}

int trace_control(int argc, char **argv)
{
	struct control control = { 0 };
	char socket[TOP_PATH_BYTES];
	struct rpc_client *client;
	struct fathom_fault why;
	size_t verb = 0;
	bool of_file;
	int at, status = options_parse(&trace_control_table, argc, argv, &control, &at);

	if (status != OPTIONS_RUN)
		return status;
	while (verb < ARRAY_COUNT(verbs) && (at == argc || strcmp(argv[at], verbs[verb].name) != 0))
		verb++;
	if (verb == ARRAY_COUNT(verbs))
		return trace_complain("the command must be enable, disable, groups, clear or freeze, not",
				      at < argc ? argv[at] : "");
	control.words = argv + at + 1;
	control.word_count = argc - at - 1;
	of_file = control.choices.count > 0;
	if (control.output && verbs[verb].run != freeze_trace)
		return trace_complain("-o is only for `freeze`", NULL);
	if (control.force && !control.output)
		return trace_complain("--force is only for `freeze` with -o", NULL);
	if (of_file && control.socket)
		return trace_complain("--socket cannot be used with -s, -p or -f", NULL);
	if (of_file && verbs[verb].run == show_groups_of_program)
		return show_groups_of_file(&control);
	if (of_file) {
		status = find_control_socket(&control, socket);
		if (status)
			return status;
		control.socket = socket;
	}
	if (rpc_client_open(&(struct rpc_client_options){ .address = control.socket ? control.socket : SOCKET_DEFAULT,
							  .port = "5260",
							  .timeout_sec = TIMEOUT_SEC },
			    &client, &why) != 0)
		return trace_complain(why.text, NULL);
	status = verbs[verb].run(client, &control);
	rpc_client_close(client);
	return status;
}
