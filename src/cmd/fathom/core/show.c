/* SPDX-License-Identifier: BSD-2-Clause */
/* show - `fathom core` for people. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/table.h"
#include "base/text.h"
#include "cmd/fathom/core/core_command.h"

/* ---- the program ---- */

static void show_bytes(uint64_t bytes)
{
	if (bytes < (uint64_t)10 << 20)
		printf("%" PRIu64 " KiB", bytes >> 10);
	else
		printf("%" PRIu64 " MiB", bytes >> 20);
}

static void show_program(const struct core_info *info)
{
	const struct reader_info *trace = info->trace ? reader_info(info->trace) : NULL;

	printf("core:      %s, ", info->path);
	show_bytes(info->bytes);
	printf("%s, %u thread%s\n", info->truncated ? ", truncated" : "", info->thread_count,
	       info->thread_count == 1 ? "" : "s");
	printf("process:   %d, %s\n", info->pid, info->command[0] ? info->command : info->name);
	printf("program:   %s, build-id %s\n", info->program[0] ? info->program : "not known",
	       info->build_id[0] ? info->build_id : "not known");
	if (info->program_file)
		printf("           %s has this build-id%s\n", info->program_file,
		       info->debug_information
			       ? ""
			       : ", but no debug information: functions are named by its symbols, objects are not shown");
	else if (info->program_why)
		printf("           %s. Name the program by --program: without it functions have no names\n",
		       info->program_why);
	if (trace)
		printf("version:   %s, --name %s, host %s\n", trace->version, trace->name, trace->host);
}

/* ---- the crash ---- */

static void show_crash(const struct core_crash *crash)
{
	printf("crash:     %s\n", crash->words);
	if (crash->values[0])
		printf("           %s\n", crash->values);
	if (crash->message[0])
		printf("           the C library: %s\n", crash->message);
	if (crash->mapping[0])
		printf("           0x%" PRIx64 ": %s\n", crash->address, crash->mapping);
}

/* ---- threads ---- */

static void show_frame(uint32_t number, const struct core_frame *frame)
{
	printf("    %2u ", number);
	if (frame->pc)
		printf(" 0x%016" PRIx64 " ", frame->pc);
	else
		printf(" %-18s ", "(inlined)");
	if (frame->function && frame->file)
		printf(" %s  %s:%d\n", frame->function, frame->file, frame->line);
	else if (frame->function)
		printf(" %s+%" PRIu64 "  %s\n", frame->function, frame->offset, frame->module ? frame->module : "");
	else if (frame->module)
		printf(" %s+0x%" PRIx64 "\n", frame->module, frame->offset);
	else
		printf(" ?\n");
}

static void show_threads(struct core *core)
{
	for (uint32_t i = 0; i < core_info(core)->thread_count; i++) {
		const struct core_thread *thread = core_thread_at(core, i);
		struct core_frame frames[CORE_FRAMES_MAX];
		const char *end;
		uint32_t count = core_backtrace(core, thread, frames, &end);

		printf("thread %d%s%s%s\n", thread->tid, thread->name[0] ? ", " : "", thread->name,
		       i == 0 && thread->signal ? ", crashed" : "");
		for (uint32_t j = 0; j < count; j++) {
			uint32_t first = j;

			show_frame(j, &frames[j]);
			/* a function that calls itself */
			while (j + 1 < count && frames[first].pc && frames[j + 1].pc == frames[first].pc)
				j++;
			if (j > first)
				printf("        (the same %u times more)\n", j - first);
		}
		if (end)
			printf("        (%s)\n", end);
	}
}

/* ---- tables ---- */

/* A time with a unit: "12.345 us". */
static void print_ns(char *to, size_t bytes, uint64_t ns)
{
	if (ns < 1000)
		snprintf(to, bytes, "%" PRIu64 " ns", ns);
	else if (ns < 1000000)
		snprintf(to, bytes, "%.3f us", (double)ns / 1e3);
	else if (ns < NS_PER_SEC)
		snprintf(to, bytes, "%.3f ms", (double)ns / 1e6);
	else
		snprintf(to, bytes, "%.3f s", (double)ns / 1e9);
}

enum { BUFFER_BYTES = 2 + TEXT_NUMBER_BYTES + 9 };

static const char *cell_text(const struct core_column *column, const union core_cell *cell, char buffer[BUFFER_BYTES])
{
	switch (column->kind) {
	case CORE_CELL_TEXT:
		return cell->text ? cell->text : "-";
	case CORE_CELL_NUMBER:
		(void)text_decimal(buffer, cell->number);
		return buffer;
	case CORE_CELL_ADDRESS:
		memcpy(buffer, "0x", 2);
		(void)text_hexadecimal(buffer + 2, cell->number);
		return buffer;
	case CORE_CELL_NS:
		print_ns(buffer, BUFFER_BYTES, cell->number);
		return buffer;
	case CORE_CELL_FLAG:
		return cell->number ? "yes" : "-";
	}
	return "";
}

static void show_rows(const struct core_list *list, uint32_t shown)
{
	struct table_column columns[TABLE_COLUMNS_MAX];
	uint32_t places[TABLE_COLUMNS_MAX], count = 0;
	struct table_layout layout = { .columns = columns, .gap = 2 };
	struct table *table;

	for (uint32_t i = 0; i < list->column_count; i++) {
		bool is_text = list->columns[i].kind == CORE_CELL_TEXT || list->columns[i].kind == CORE_CELL_FLAG ||
			       list->columns[i].kind == CORE_CELL_ADDRESS;

		if (!list->columns[i].title)
			continue;
		columns[count] = (struct table_column){ list->columns[i].title, is_text ? TABLE_LEFT : TABLE_RIGHT, 0 };
		places[count++] = i;
	}
	layout.column_count = count;
	table = table_create(&layout);
	must(table);
	for (uint32_t row = 0; row < shown; row++) {
		const char *texts[TABLE_COLUMNS_MAX];
		char buffers[TABLE_COLUMNS_MAX][BUFFER_BYTES];

		for (uint32_t i = 0; i < count; i++)
			texts[i] = cell_text(&list->columns[places[i]],
					     &list->cells[(size_t)row * list->column_count + places[i]], buffers[i]);
		must(table_add(table, texts) == 0);
	}
	table_print(table, 4, stdout);
	table_destroy(table);
}

static void show_list(const struct core_list *list, bool cut)
{
	uint32_t shown = cut && list->row_count > CORE_ROWS_SHOWN + 4 ? CORE_ROWS_SHOWN : list->row_count;

	printf("%s: %u%s%s%s\n", list->name, list->row_count, list->by_trace && list->row_count ? ", by the trace" : "",
	       list->problem ? "; " : "", list->problem ? list->problem : "");
	if (shown)
		show_rows(list, shown);
	if (shown < list->row_count)
		printf("    ... and %u more: add the word \"%s\" to the command\n", list->row_count - shown, list->name);
}

static void show_mappings(struct core *core)
{
	for (uint32_t i = 0; i < core_info(core)->mapping_count; i++) {
		struct core_mapping mapping;

		core_mapping_at(core, i, &mapping);
		printf("0x%016" PRIx64 "-0x%016" PRIx64 " %c%c%c  %9" PRIu64 " of %9" PRIu64 " KiB in the core  %s\n",
		       mapping.from, mapping.to, mapping.is_readable ? 'r' : '-', mapping.is_writable ? 'w' : '-',
		       mapping.is_executable ? 'x' : '-', mapping.saved >> 10, (mapping.to - mapping.from) >> 10,
		       mapping.path ? mapping.path : "");
	}
}

static void show_modules(struct core *core)
{
	for (uint32_t i = 0; i < core_info(core)->module_count; i++) {
		struct core_module_info module;

		core_module_at(core, i, &module);
		printf("0x%016" PRIx64 "-0x%016" PRIx64 " %-40s  %s", module.from, module.to,
		       module.build_id[0] ? module.build_id : "build-id not known", module.path);
		if (module.file_why)
			printf("  (%s)", module.file_why);
		else if (module.file && strcmp(module.file, module.path) != 0)
			printf("  (%s)", module.file);
		putchar('\n');
	}
}

/* ---- records ---- */

static void show_record(void *ctx, const struct reader_event *event)
{
	reader_print_event(ctx, event);
}

static void show_trace(struct core *core, uint64_t count)
{
	struct reader *reader = core_trace(core);
	struct reader_printer *printer;

	if (!reader) {
		printf("trace: none: %s\n", core_info(core)->trace_why);
		return;
	}
	printf("trace: the last %" PRIu64 " records; `fathom trace -f %s` shows all\n", count, core_info(core)->path);
	must(reader_printer_create(reader, stdout, READER_PRINT_TEXT, false, &printer) == 0);
	core_each_record(reader, count, show_record, printer);
	(void)reader_printer_destroy(printer); /* main() reports errors of standard output */
}

/* Without PART, a list is left out if it has what another list has, or nothing and a remark says why. */
static bool is_shown(const struct core_list *list, bool has_objects)
{
	return list->by_trace ? !has_objects && list->row_count : true;
}

void core_show(struct core *core, const struct core_request *request)
{
	struct core_crash crash;
	struct core_list list;
	bool has_objects = false;

	core_load(core);
	if (request->parts[CORE_PART_PROGRAM])
		show_program(core_info(core));
	if (request->parts[CORE_PART_CRASH]) {
		core_crash(core, &crash);
		show_crash(&crash);
	}
	if (request->parts[CORE_PART_THREADS])
		show_threads(core);
	if (request->parts[CORE_PART_MODULES])
		show_modules(core);
	if (request->parts[CORE_PART_MAPPINGS])
		show_mappings(core);
	for (uint32_t i = 0; core_list_name(i); i++) {
		if (!request->lists[i])
			continue;
		if (!core_list(core, i, &list)) {
			if (!request->is_all)
				printf("%s: the program has none\n", core_list_name(i));
			continue;
		}
		has_objects |= !list.by_trace;
		if (!request->is_all || is_shown(&list, has_objects))
			show_list(&list, request->is_all);
	}
	if (request->parts[CORE_PART_TRACE])
		show_trace(core, request->record_count);
	fflush(stdout);
	for (uint32_t i = 0; i < core_info(core)->remark_count; i++)
		fprintf(stderr, "fathom core: %s\n", core_remark_at(core, i));
}
