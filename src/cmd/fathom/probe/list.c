/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * list - `fathom probe list`: prints the probes of programs.
 *
 * The probes are in the program's file; the meaning of their arguments is in the schema of its trace file, which was
 * generated from the same table. arg0 is the tick.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "cmd/fathom/probe/probe.h"
#include "cmd/fathom/probe/process.h"

enum { NAME_WIDTH = 34 };

static const char *const type_names[] = {
	[READER_U8] = "u8",	  [READER_U16] = "u16",	    [READER_U32] = "u32",     [READER_U64] = "u64",
	[READER_I32] = "i32",	  [READER_I64] = "i64",	    [READER_BOOL] = "bool",   [READER_HEX8] = "hex8",
	[READER_HEX16] = "hex16", [READER_HEX32] = "hex32", [READER_HEX64] = "hex64", [READER_PTR] = "pointer",
	[READER_STR] = "string",  [READER_OBJ] = "object",  [READER_REF] = "object",
};

static const struct reader_point *point_of_probe(const struct process *process, const struct note_probe *probe)
{
	return process->reader ? reader_point_by_name(process->reader, probe->name) : NULL;
}

static void print_arg(const struct reader_arg *arg, uint32_t number)
{
	printf(", arg%u %s: ", number, arg->name);
	if (arg->labels)
		printf("enum %s", arg->labels->name);
	else if (arg->type == READER_OBJ && arg->object)
		printf("%s", arg->object->name);
	else
		printf("%s", type_names[arg->type]);
	if (arg->unit)
		printf(" (%s)", arg->unit);
}

static void print_probe(const struct process *process, const struct note_probe *probe)
{
	const struct reader_point *point = point_of_probe(process, probe);

	printf("  %-*s ", NAME_WIDTH, probe->name);
	if (!point) {
		for (uint32_t i = 0; i < probe->arg_count; i++)
			printf("%sarg%u %s%d", i ? ", " : "", i, probe->args[i].bytes < 0 ? "i" : "u",
			       8 * abs(probe->args[i].bytes));
		putchar('\n');
		return;
	}
	printf("arg0 tick: u64");
	for (uint32_t i = 0; i < point->usdt_count; i++) {
		if (point->usdt[i] == READER_USDT_OBJECT)
			printf(", arg%u %s", i + 1, point->object->name);
		else
			print_arg(&point->args[point->usdt[i]], i + 1);
	}
	putchar('\n');
}

/* Print the values of each enum that a probe uses, once. */
static void print_enums(const struct process *process)
{
	const struct reader_enum *seen[256];
	uint32_t seen_count = 0;

	for (uint32_t i = 0; i < process->notes.probe_count; i++) {
		const struct reader_point *point = point_of_probe(process, &process->notes.probes[i]);

		for (uint32_t n = 0; point && n < point->arg_count; n++) {
			const struct reader_enum *labels = point->args[n].labels;
			uint32_t at = 0;

			while (at < seen_count && seen[at] != labels)
				at++;
			if (!labels || at < seen_count || seen_count == 256)
				continue;
			seen[seen_count++] = labels;
			printf("  enum %s:", labels->name);
			for (uint32_t value = 0; value < labels->label_count; value++)
				printf(" %" PRId64 " %s%s", labels->labels[value].value, labels->labels[value].text,
				       value + 1 < labels->label_count ? "," : "\n");
		}
	}
}

static void print_probes_text(const struct process *process)
{
	const struct notes *notes = &process->notes;

	printf("%s, pid %d: %u probes at %u places in %s%s%s\n",
	       process->trace_name[0] ? process->trace_name : process->command, process->pid, notes->probe_count,
	       notes->site_count, process->program, notes->build_id[0] ? ", build-id " : "", notes->build_id);
	for (uint32_t i = 0; i < notes->probe_count; i++) {
		if (i == 0 || strcmp(notes->probes[i].provider, notes->probes[i - 1].provider) != 0)
			printf("\n  provider %s; with bpftrace: usdt:/proc/%d/exe:%s:PROBE\n\n", notes->probes[i].provider,
			       process->pid, notes->probes[i].provider);
		print_probe(process, &notes->probes[i]);
	}
	putchar('\n');
	print_enums(process);
}

static json_t *json_of_arg(const struct reader_arg *arg)
{
	json_t *row = json_pack("{ss, ss}", "name", arg->name, "type", type_names[arg->type]);

	if (arg->unit)
		json_object_set_new(row, "unit", json_string(arg->unit));
	if (arg->object)
		json_object_set_new(row, "object", json_string(arg->object->name));
	if (arg->labels) {
		json_t *values = json_object();

		for (uint32_t i = 0; i < arg->labels->label_count; i++) {
			char number[24];

			snprintf(number, sizeof(number), "%" PRId64, arg->labels->labels[i].value);
			json_object_set_new(values, number, json_string(arg->labels->labels[i].text));
		}
		json_object_set_new(row, "enum", json_string(arg->labels->name));
		json_object_set_new(row, "values", values);
	}
	return row;
}

static json_t *json_of_args(const struct process *process, const struct note_probe *probe)
{
	const struct reader_point *point = point_of_probe(process, probe);
	json_t *args = json_array();

	if (point) {
		json_array_append_new(args, json_pack("{ss, ss}", "name", "tick", "type", "u64"));
		for (uint32_t i = 0; i < point->usdt_count; i++)
			json_array_append_new(args, point->usdt[i] == READER_USDT_OBJECT
							    ? json_pack("{ss, ss, ss}", "name", "object", "type", "object",
									"object", point->object->name)
							    : json_of_arg(&point->args[point->usdt[i]]));
		return args;
	}
	for (uint32_t i = 0; i < probe->arg_count; i++) {
		char type[8];

		snprintf(type, sizeof(type), "%c%d", probe->args[i].bytes < 0 ? 'i' : 'u', 8 * abs(probe->args[i].bytes));
		json_array_append_new(args, json_pack("{ss}", "type", type));
	}
	return args;
}

static void print_probes_json(const struct process *process)
{
	for (uint32_t i = 0; i < process->notes.probe_count; i++) {
		const struct note_probe *probe = &process->notes.probes[i];
		json_t *row = json_pack("{si, ss, ss, ss, ss, si, sb, so}", "pid", process->pid, "program",
					process->program, "build_id", process->notes.build_id, "provider", probe->provider,
					"probe", probe->name, "places", probe->site_count, "semaphore", probe->semaphore,
					"args", json_of_args(process, probe));

		must(row);
		json_dumpf(row, stdout, JSON_COMPACT);
		putchar('\n');
		json_decref(row);
	}
}

static void print_process(const struct probe_request *request, const struct process *process)
{
	if (request->json)
		print_probes_json(process);
	else
		print_probes_text(process);
}

static void print_each_process(void *ctx, struct process *process)
{
	print_process(ctx, process);
}

int probe_list(const struct probe_request *request)
{
	return process_each(request, print_each_process, (void *)request);
}
