/* SPDX-License-Identifier: BSD-2-Clause */
/* json - the answer of `fathom blame` as one JSON object. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "base/text.h"
#include "cmd/fathom/blame/blame.h"

static void set(json_t *object, const char *key, json_t *value)
{
	must(value);
	must(json_object_set_new(object, key, value) == 0);
}

/* Text of the file may be cut within a character. */
static json_t *text_json(const char *text)
{
	char clean[3 * BLAME_TEXT_BYTES];

	return json_stringn(clean, text_utf8_copy(clean, sizeof(clean), text, strlen(text)));
}

static json_t *us_json(const struct blame_answer *answer, uint64_t ticks)
{
	return json_real((double)reader_ns_from_ticks(answer->reader, ticks) / 1e3);
}

static json_t *example_json(const struct blame_answer *answer, enum blame_cause cause)
{
	const struct blame_request *request = blame_request_at(answer->blame, answer->verdict.rows[cause].example);
	const struct reader_story *story = &request->exemplar->stories[0];
	json_t *json = json_object();
	char text[BLAME_TEXT_BYTES];

	must(json);
	snprintf(text, sizeof(text), "%s%u", story->object->prefix, story->id);
	set(json, "object", text_json(text));
	set(json, "begin_tick", json_integer((json_int_t)story->begin_tick));
	set(json, "total_us", us_json(answer, request->split.whole));
	set(json, "operation", text_json(request->operation));
	set(json, "host", text_json(request->host));
	set(json, "device", text_json(request->device));
	blame_example_command(answer, cause, text, sizeof(text));
	set(json, "command", text_json(text));
	return json;
}

static json_t *row_json(const struct blame_answer *answer, enum blame_cause cause)
{
	const struct blame_row *row = &answer->verdict.rows[cause];
	json_t *json = json_object();
	const char *where = NULL;
	char text[BLAME_TEXT_BYTES];

	must(json);
	if (row->example != UINT32_MAX)
		where = blame_request_at(answer->blame, row->example)->split.where[cause];
	set(json, "cause", text_json(blame_cause_key(cause)));
	if (row->count) {
		blame_cause_text(answer, cause, text, sizeof(text));
		set(json, "text", text_json(text));
	}
	set(json, "requests", json_integer(row->count));
	set(json, "main_requests", json_integer(row->main_count));
	set(json, "us", us_json(answer, row->ticks));
	set(json, "share", json_real(blame_share(&answer->verdict, cause) / 100));
	set(json, "p50_us", us_json(answer, row->p50));
	set(json, "p99_us", us_json(answer, row->p99));
	set(json, "max_us", us_json(answer, row->max));
	set(json, "stage", where ? text_json(where) : json_null());
	set(json, "example", row->example == UINT32_MAX ? json_null() : example_json(answer, cause));
	return json;
}

static json_t *time_json(const struct blame_answer *answer, uint64_t tick)
{
	char text[64];

	if (tick == 0 || tick == UINT64_MAX)
		return json_null();
	blame_time_text(answer->reader, tick, text, sizeof(text));
	return text_json(text);
}

static json_t *coverage_json(const struct blame_answer *answer)
{
	const struct blame_coverage *coverage = blame_coverage(answer->blame);
	json_t *json = json_object();

	must(json);
	set(json, "slow_us", us_json(answer, coverage->slow_ticks));
	set(json, "by_count", json_boolean(coverage->slow_by_count));
	set(json, "cut", json_boolean(coverage->is_full));
	set(json, "found", json_integer((json_int_t)coverage->found));
	set(json, "recording", json_boolean(reader_is_recording(answer->reader)));
	set(json, "kept_since", time_json(answer, coverage->kept_from));
	set(json, "all_since", time_json(answer, coverage->rings_from));
	set(json, "torn", json_integer((json_int_t)coverage->torn));
	set(json, "send_queue_max_us", us_json(answer, coverage->send_queue_max));
	return json;
}

void blame_print_json(const struct blame_answer *answer)
{
	const struct blame_verdict *verdict = &answer->verdict;
	char sentence[3 * BLAME_TEXT_BYTES], lines[BLAME_NEXT_MAX][BLAME_TEXT_BYTES], *text;
	uint32_t count = blame_next_steps(answer, lines);
	json_t *json = json_object(), *causes = json_array(), *next = json_array();

	must(json);
	must(causes);
	must(next);
	blame_sentence(answer, sentence, sizeof(sentence));
	set(json, "sentence", text_json(sentence));
	set(json, "file", text_json(reader_info(answer->reader)->path));
	set(json, "volume", text_json(answer->subject));
	set(json, "cause", answer->count ? text_json(blame_cause_key(verdict->cause)) : json_null());
	set(json, "share", json_real(blame_share(verdict, verdict->cause) / 100));
	set(json, "confidence", answer->count ? text_json(blame_confidence_word(verdict->confidence)) : json_null());
	set(json, "reason", text_json(verdict->reason));
	set(json, "requests", json_integer(answer->count));
	set(json, "whole_requests", json_integer(verdict->whole_count));
	set(json, "us", us_json(answer, verdict->whole));
	for (enum blame_cause cause = 0; cause < BLAME_CAUSES; cause++)
		must(json_array_append_new(causes, row_json(answer, cause)) == 0);
	set(json, "causes", causes);
	set(json, "coverage", coverage_json(answer));
	for (uint32_t i = 0; i < count; i++)
		must(json_array_append_new(next, text_json(lines[i])) == 0);
	set(json, "next", next);
	text = json_dumps(json, JSON_REAL_PRECISION(12));
	must(text);
	printf("%s\n", text);
	free(text);
	json_decref(json);
}
