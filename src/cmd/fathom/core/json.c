/* SPDX-License-Identifier: BSD-2-Clause */
/* json - `fathom core --json`: one object with a member for each part. */
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "cmd/fathom/core/core_command.h"

/* ---- writing ---- */

static void put_text(const char *text)
{
	size_t left = strlen(text), read;
	char escaped[TEXT_JSON_BYTES_MAX];

	putchar('"');
	for (; left; text += read, left -= read)
		fwrite(escaped, 1, text_json_escape(escaped, text, left, TEXT_JSON_PLAIN, &read), stdout);
	putchar('"');
}

/* A member whose value is a text; NULL: null. */
static void put_member(const char *key, const char *text)
{
	printf("\"%s\":", key);
	if (text)
		put_text(text);
	else
		printf("null");
}

static void put_comma(bool *is_first)
{
	if (!*is_first)
		putchar(',');
	*is_first = false;
}

/* ---- parts ---- */

static void put_program(const struct core_info *info)
{
	const struct reader_info *trace = info->trace ? reader_info(info->trace) : NULL;

	printf("\"program\":{");
	put_member("core", info->path);
	printf(",\"bytes\":%" PRIu64 ",\"truncated\":%s,\"pid\":%d,\"thread_count\":%u,", info->bytes,
	       info->truncated ? "true" : "false", info->pid, info->thread_count);
	put_member("command", info->command);
	putchar(',');
	put_member("program", info->program[0] ? info->program : NULL);
	putchar(',');
	put_member("build_id", info->build_id[0] ? info->build_id : NULL);
	putchar(',');
	put_member("program_file", info->program_file);
	putchar(',');
	put_member("program_problem", info->program_why);
	printf(",\"debug_information\":%s,", info->debug_information ? "true" : "false");
	put_member("version", trace ? trace->version : NULL);
	putchar(',');
	put_member("name", trace ? trace->name : NULL);
	putchar(',');
	put_member("host", trace ? trace->host : NULL);
	putchar(',');
	put_member("trace_problem", info->trace_why);
	putchar('}');
}

static void put_crash(const struct core_crash *crash)
{
	static const char *const kinds[] = {
		[CORE_NO_CRASH] = "none", [CORE_SIGNAL] = "signal", [CORE_MUST] = "must", [CORE_UNKNOWN] = "unknown"
	};

	printf("\"crash\":{\"kind\":\"%s\",", kinds[crash->kind]);
	put_member("signal", crash->signal_name[0] ? crash->signal_name : NULL);
	printf(",\"number\":%d,\"code\":%d,\"tid\":%d,\"sender\":%d,\"instruction\":\"0x%" PRIx64 "\",", crash->signal,
	       crash->code, crash->tid, crash->sender, crash->instruction);
	if (crash->has_address)
		printf("\"address\":\"0x%" PRIx64 "\",", crash->address);
	else
		printf("\"address\":null,");
	put_member("text", crash->words);
	putchar(',');
	put_member("mapping", crash->mapping[0] ? crash->mapping : NULL);
	putchar(',');
	put_member("condition", crash->condition[0] ? crash->condition : NULL);
	putchar(',');
	put_member("place", crash->place[0] ? crash->place : NULL);
	putchar(',');
	put_member("values", crash->values[0] ? crash->values : NULL);
	putchar(',');
	put_member("message", crash->message[0] ? crash->message : NULL);
	putchar('}');
}

static void put_frame(const struct core_frame *frame)
{
	if (frame->pc)
		printf("{\"pc\":\"0x%" PRIx64 "\",", frame->pc);
	else
		printf("{\"pc\":null,");
	put_member("function", frame->function);
	printf(",\"offset\":%" PRIu64 ",", frame->pc ? frame->offset : 0);
	put_member("file", frame->file);
	printf(",\"line\":%d,", frame->line);
	put_member("module", frame->module);
	putchar('}');
}

static void put_threads(struct core *core)
{
	printf("\"threads\":[");
	for (uint32_t i = 0; i < core_info(core)->thread_count; i++) {
		const struct core_thread *thread = core_thread_at(core, i);
		struct core_frame frames[CORE_FRAMES_MAX];
		const char *end;
		uint32_t count = core_backtrace(core, thread, frames, &end);

		printf("%s{\"tid\":%d,", i ? "," : "", thread->tid);
		put_member("name", thread->name[0] ? thread->name : NULL);
		printf(",\"signal\":%d,\"frames\":[", thread->signal);
		for (uint32_t j = 0; j < count; j++) {
			if (j)
				putchar(',');
			put_frame(&frames[j]);
		}
		printf("],");
		put_member("cut", end);
		putchar('}');
	}
	putchar(']');
}

static void put_mappings(const struct core *core)
{
	printf("\"mappings\":[");
	for (uint32_t i = 0; i < core_info(core)->mapping_count; i++) {
		struct core_mapping mapping;

		core_mapping_at(core, i, &mapping);
		printf("%s{\"from\":\"0x%" PRIx64 "\",\"to\":\"0x%" PRIx64
		       "\",\"access\":\"%c%c%c\",\"saved_bytes\":%" PRIu64 ",",
		       i ? "," : "", mapping.from, mapping.to, mapping.is_readable ? 'r' : '-',
		       mapping.is_writable ? 'w' : '-', mapping.is_executable ? 'x' : '-', mapping.saved);
		put_member("path", mapping.path);
		printf(",\"file_offset\":%" PRIu64 "}", mapping.file_offset);
	}
	putchar(']');
}

static void put_modules(const struct core *core)
{
	printf("\"modules\":[");
	for (uint32_t i = 0; i < core_info(core)->module_count; i++) {
		struct core_module_info module;

		core_module_at(core, i, &module);
		printf("%s{\"from\":\"0x%" PRIx64 "\",\"to\":\"0x%" PRIx64 "\",", i ? "," : "", module.from, module.to);
		put_member("path", module.path);
		putchar(',');
		put_member("build_id", module.build_id[0] ? module.build_id : NULL);
		putchar(',');
		put_member("file", module.file);
		putchar(',');
		put_member("problem", module.file_why);
		putchar('}');
	}
	putchar(']');
}

/* ---- records ---- */

struct records {
	struct reader_printer *printer;
	bool is_later;
};

static void put_record(void *ctx, const struct reader_event *event)
{
	struct records *records = ctx;

	if (records->is_later)
		putchar(',');
	records->is_later = true;
	reader_print_event(records->printer, event);
	(void)reader_printer_flush(records->printer); /* main() reports errors of standard output */
}

static void put_trace(struct core *core, uint64_t count)
{
	struct records records = { 0 };

	printf("\"trace\":[");
	if (core_trace(core)) {
		must(reader_printer_create(core_trace(core), stdout, READER_PRINT_JSON, false, &records.printer) == 0);
		core_each_record(core_trace(core), count, put_record, &records);
		(void)reader_printer_destroy(records.printer);
	}
	putchar(']');
}

static void put_part(struct core *core, const struct core_request *request, enum core_part part)
{
	struct core_crash crash;

	switch (part) {
	case CORE_PART_PROGRAM:
		put_program(core_info(core));
		break;
	case CORE_PART_CRASH:
		core_crash(core, &crash);
		put_crash(&crash);
		break;
	case CORE_PART_THREADS:
		put_threads(core);
		break;
	case CORE_PART_MAPPINGS:
		put_mappings(core);
		break;
	case CORE_PART_MODULES:
		put_modules(core);
		break;
	case CORE_PART_TRACE:
	case CORE_PARTS:
		put_trace(core, request->record_count);
		break;
	}
}

/* What is missing of the lists, and why; which rows come from the trace. */
static void put_gaps(struct core *core, const struct core_request *request)
{
	struct core_list list;
	bool is_first = true;

	printf("\"missing\":{");
	for (uint32_t i = 0; core_list_name(i); i++) {
		if (!request->lists[i] || !core_list(core, i, &list) || !list.problem)
			continue;
		put_comma(&is_first);
		core_print_json_key(list.name);
		put_text(list.problem);
	}
	printf("},\"by_trace\":[");
	is_first = true;
	for (uint32_t i = 0; core_list_name(i); i++) {
		if (!request->lists[i] || !core_list(core, i, &list) || !list.by_trace || !list.row_count)
			continue;
		put_comma(&is_first);
		put_text(list.name);
	}
	putchar(']');
}

void core_print_json(struct core *core, const struct core_request *request)
{
	bool is_first = true;
	struct core_list list;

	core_load(core);
	putchar('{');
	for (int part = 0; part < CORE_PARTS; part++) {
		if (!request->parts[part] && !request->is_all)
			continue;
		put_comma(&is_first);
		put_part(core, request, (enum core_part)part);
	}
	for (uint32_t i = 0; core_list_name(i); i++) {
		if (!request->lists[i] || !core_list(core, i, &list))
			continue;
		put_comma(&is_first);
		core_print_json_list(&list);
	}
	put_comma(&is_first);
	put_gaps(core, request);
	printf(",\"problems\":[");
	for (uint32_t i = 0; i < core_info(core)->remark_count; i++) {
		if (i)
			putchar(',');
		put_text(core_remark_at(core, i));
	}
	printf("]}\n");
}
