/* SPDX-License-Identifier: BSD-2-Clause */
/* slow - `fathom trace slowest`: the slowest requests, or those that failed, and the time in their stages. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cmd/fathom/trace/trace.h"
#include "inspect/trace/slowest.h"
#include "data/nvme/names.h"

enum { COUNT_DEFAULT = 10 };

/* An opcode has another meaning on queue 0, the admin queue, than on I/O queues. */
const char *trace_opcode_word(const struct reader_object *object, const struct reader_arg *arg, uint64_t value,
			      const char *owner_text)
{
	if (strcmp(object->name, "nvmf_req") != 0 || strcmp(arg->name, "opcode") != 0 || value > UINT8_MAX)
		return NULL;
	if (strstr(owner_text, "qid:0"))
		return nvme_admin_opcode_name((uint8_t)value);
	return strstr(owner_text, "qid:") ? nvme_nvm_opcode_name((uint8_t)value) : NULL;
}

static bool is_wanted_exemplar(const void *ctx, const struct reader_exemplar *exemplar)
{
	return trace_is_wanted_life(ctx, exemplar);
}

static void feed_slowest(struct reader_slowest *slowest, struct reader_events *events,
			 void (*take)(struct reader_slowest *slowest, const struct reader_event *event))
{
	struct reader_event event;

	while (reader_event_next(events, &event))
		take(slowest, &event);
}

void trace_slowest_remarks(const struct trace_request *request, struct reader *reader, struct reader_printer *printer,
			   const struct reader_slowest *slowest, uint32_t printed)
{
	const struct reader_exemplar_walk *walk = reader_slowest_walk(slowest);
	char line[256];

	if (printed == 0)
		reader_print_remark(printer, request->failed ? "no request failed" : "no request has ended");
	if (walk->seen) {
		snprintf(line, sizeof(line),
			 "%llu requests are kept with all stages; not shown: %llu torn, %llu from before the trace was "
			 "cleared",
			 (unsigned long long)(walk->seen - walk->torn - walk->cleared), (unsigned long long)walk->torn,
			 (unsigned long long)walk->cleared);
		reader_print_remark(printer, line);
	}
	line[0] = '\0';
	if (!request->failed)
		trace_under_way_remark(reader, line, sizeof(line));
	if (line[0])
		reader_print_remark(printer, line);
}

int trace_slowest_count(const struct trace_request *request, uint32_t *count_ret)
{
	uint64_t number = COUNT_DEFAULT;

	if (request->arg_count > 0 && (text_parse_u64(request->args[0], 10, SLOWEST_MAX, &number) != 0 || number == 0))
		return trace_complain("slowest takes a number from 1 to 4096, not", request->args[0]);
	*count_ret = (uint32_t)number;
	return EXIT_SUCCESS;
}

int trace_slowest_find(const struct trace_request *request, struct reader *reader, struct reader_slowest **slowest_ret)
{
	struct reader_slowest_want want = { .order = request->failed ? READER_FAILED : READER_SLOWEST_FIRST,
					    .each = request->all,
					    .accepts = is_wanted_exemplar,
					    .ctx = request };
	struct reader_events *events = NULL;
	struct reader_slowest *slowest;
	int rc = trace_slowest_count(request, &want.count_max);

	if (rc)
		return rc;
	if (reader_events(reader, &events) != 0)
		return trace_complain("out of memory", NULL);
	if (reader_slowest_create(reader, &want, &slowest) != 0) {
		reader_events_free(events);
		return trace_complain("out of memory", NULL);
	}
	if (!request->failed)
		feed_slowest(slowest, events, reader_slowest_event);
	reader_slowest_finish(slowest);
	reader_events_free(events);
	/* a second pass adds arguments to the lives of the rings: they are in the events */
	if (!request->failed && reader_events(reader, &events) == 0) {
		feed_slowest(slowest, events, reader_slowest_add_record);
		reader_events_free(events);
	}
	*slowest_ret = slowest;
	return EXIT_SUCCESS;
}

void trace_slowest_print(const struct trace_request *request, struct reader_printer *printer,
			 const struct reader_slowest *slowest, uint32_t index, uint32_t number)
{
	const struct reader_exemplar *const *members;
	uint32_t count = reader_slowest_group(slowest, index, &members);

	reader_print_exemplars(printer, number, members, count, request->records);
}

int trace_slowest(struct trace_request *request, struct reader *reader, struct reader_printer *printer)
{
	struct reader_slowest *slowest;
	struct reader_counts counts;
	int rc = trace_choose(request, reader, &counts);

	if (rc)
		return rc;
	rc = trace_slowest_find(request, reader, &slowest);
	if (rc)
		return rc;
	reader_print_header(printer, &counts);
	if (!reader_has_lives(reader))
		reader_print_remark(
			printer,
			"this file keeps no slow requests: only those are shown whose whole life is still in the rings");
	for (uint32_t i = 0; i < reader_slowest_count(slowest); i++)
		trace_slowest_print(request, printer, slowest, i, i + 1);
	trace_slowest_remarks(request, reader, printer, slowest, reader_slowest_count(slowest));
	reader_slowest_destroy(slowest);
	return EXIT_SUCCESS;
}
