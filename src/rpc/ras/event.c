/* SPDX-License-Identifier: BSD-2-Clause */
#include "rpc/ras/event.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"

enum {
	ID_MAX = 9999, /* ids of newer releases are accepted, although they have no name here */
	REPLICAS_MAX = 64,
};

struct row {
	enum ras_id id;
	const char *name;
	enum ras_type type;
	enum ras_severity severity;
};

static const struct row rows[] = { { RAS_UNKNOWN, "unknown", RAS_TYPE_ANY, RAS_SEVERITY_UNKNOWN },
#define ROW(identifier, id, name, type, severity, when) { id, name, RAS_TYPE_##type, RAS_SEVERITY_##severity },
				   RAS_EVENTS(ROW)
#undef ROW
};
static_assert(ARRAY_COUNT(rows) == RAS_ID_COUNT + 1, "one row for each id, and one for unknown ids");

static const struct row *row_of(uint32_t id)
{
	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		if (rows[i].id == id)
			return &rows[i];
	}
	return rows;
}

enum ras_id ras_id_at(size_t index)
{
	must(index < RAS_ID_COUNT);
	return rows[index + 1].id;
}

const char *ras_id_name(uint32_t id)
{
	return row_of(id)->name;
}

const char *ras_type_name(uint32_t type)
{
	return type == RAS_TYPE_STATE_CHANGE ? "STATE_CHANGE" : type == RAS_TYPE_INFO ? "INFO" : "ANY";
}

const char *ras_severity_name(uint32_t severity)
{
	static const char *const names[] = { "UNKNOWN", "ERROR", "WARNING", "NOTICE" };

	return names[severity < ARRAY_COUNT(names) ? severity : RAS_SEVERITY_UNKNOWN];
}

static void write_time(uint64_t now_ns, char *text)
{
	time_t seconds = (time_t)(now_ns / NS_PER_SEC);
	char date[RAS_TIME_BYTES];
	struct tm tm;

	must(gmtime_r(&seconds, &tm));
	must(strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm) == 19);
	snprintf(text, RAS_TIME_BYTES, "%.19s.%06u+00:00", date, (unsigned int)(now_ns % NS_PER_SEC / NS_PER_US));
}

void ras_event_init(struct ras_event *event, enum ras_id id, const char *format, ...)
{
	char text[RAS_LINE_BYTES], host[RAS_HOST_BYTES];
	va_list args;

	must(row_of(id) != rows);
	memset(event, 0, sizeof(*event));
	shared__rasevent__init(&event->message);
	shared__rasevent__engine_state_event_info__init(&event->engine);
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	text_copy_words(event->text, sizeof(event->text), text);
	write_time(clock_realtime_ns(), event->timestamp);
	if (gethostname(host, sizeof(host)) < 0)
		host[0] = '\0';
	host[sizeof(host) - 1] = '\0';
	text_copy_words(event->hostname, sizeof(event->hostname), host);
	event->message.id = id;
	event->message.type = row_of(id)->type;
	event->message.severity = row_of(id)->severity;
	event->message.msg = event->text;
	event->message.timestamp = event->timestamp;
	event->message.hostname = event->hostname;
	event->message.rank = RAS_RANK_NONE;
}

void ras_event_init_done(struct ras_event *event, enum ras_id id, const char *operation, const char *who,
			 const char *format, va_list args)
{
	char text[RAS_LINE_BYTES], what[RAS_MESSAGE_BYTES], by[RAS_MESSAGE_BYTES / 2] = "";

	if (who)
		snprintf(by, sizeof(by), " by %s", who);
	vsnprintf(text, sizeof(text), format, args);
	text_copy_words(what, sizeof(what) - strlen(by), text);
	ras_event_init(event, id, "%s%s", what, by);
	if (operation)
		event->message.ctl_op = (char *)(uintptr_t)operation;
}

void ras_event_set_engine(struct ras_event *event, uint32_t rank, uint64_t incarnation, uint32_t instance, uint64_t pid,
			  const char *error)
{
	text_copy_words(event->error, sizeof(event->error), error ? error : "");
	event->engine.instance = instance;
	event->engine.errored = event->error[0] != '\0';
	event->engine.error = event->error;
	event->message.rank = rank;
	event->message.incarnation = incarnation;
	event->message.proc_id = pid;
	event->message.extended_info_case = SHARED__RASEVENT__EXTENDED_INFO_ENGINE_STATE_INFO;
	event->message.engine_state_info = &event->engine;
}

/* ---- received events ---- */

static bool is_text(const char *text, size_t limit)
{
	size_t bytes = strnlen(text, limit);

	if (bytes == limit)
		return false;
	while (bytes > 0) {
		size_t length = text_utf8_length(text, bytes);

		if (length == 0 || (unsigned char)*text < ' ' || *text == 0x7f)
			return false;
		text += length;
		bytes -= length;
	}
	return true;
}

/* Parse `count` digits of `*text`; the number must be at most `max`. */
static bool take_number(const char **text, int count, int max)
{
	int number = 0;

	for (; count > 0; count--, (*text)++) {
		if (**text < '0' || **text > '9')
			return false;
		number = 10 * number + (**text - '0');
	}
	return number <= max;
}

static bool take_letter(const char **text, char letter)
{
	if (**text != letter)
		return false;
	(*text)++;
	return true;
}

/* "2026-11-20T19:01:31.139000+00:00"; the zone may be "Z" or without its colon, the fraction of any length. */
static bool is_time(const char *text)
{
	if (!take_number(&text, 4, 9999) || !take_letter(&text, '-') || !take_number(&text, 2, 12) ||
	    !take_letter(&text, '-') || !take_number(&text, 2, 31) || !take_letter(&text, 'T') ||
	    !take_number(&text, 2, 23) || !take_letter(&text, ':') || !take_number(&text, 2, 59) ||
	    !take_letter(&text, ':') || !take_number(&text, 2, 60))
		return false;
	if (take_letter(&text, '.')) {
		if (!take_number(&text, 1, 9))
			return false;
		while (*text >= '0' && *text <= '9')
			text++;
	}
	if (take_letter(&text, 'Z'))
		return *text == '\0';
	if ((!take_letter(&text, '+') && !take_letter(&text, '-')) || !take_number(&text, 2, 23))
		return false;
	(void)take_letter(&text, ':'); /* optional */
	return take_number(&text, 2, 59) && *text == '\0';
}

static bool is_info_good(const Shared__RASEvent *event)
{
	switch (event->extended_info_case) {
	case SHARED__RASEVENT__EXTENDED_INFO_STR_INFO:
		return event->str_info && is_text(event->str_info, RAS_MESSAGE_BYTES);
	case SHARED__RASEVENT__EXTENDED_INFO_ENGINE_STATE_INFO:
		return event->engine_state_info && is_text(event->engine_state_info->error, RAS_MESSAGE_BYTES);
	case SHARED__RASEVENT__EXTENDED_INFO_POOL_SVC_INFO:
		return event->pool_svc_info && event->pool_svc_info->n_svc_reps <= REPLICAS_MAX;
	default:
		return true;
	}
}

int ras_event_check(const Shared__RASEvent *event, struct fathom_fault *why)
{
	const struct {
		const char *name;
		const char *text;
		size_t limit;
	} texts[] = {
		{ "msg", event->msg, RAS_MESSAGE_BYTES },	   { "timestamp", event->timestamp, RAS_TIME_BYTES },
		{ "hostname", event->hostname, RAS_HOST_BYTES },   { "hw_id", event->hw_id, RAS_TEXT_BYTES },
		{ "job_id", event->job_id, RAS_TEXT_BYTES },	   { "pool_uuid", event->pool_uuid, RAS_TEXT_BYTES },
		{ "cont_uuid", event->cont_uuid, RAS_TEXT_BYTES }, { "obj_id", event->obj_id, RAS_TEXT_BYTES },
		{ "ctl_op", event->ctl_op, RAS_TEXT_BYTES },
	};

	if (event->id == RAS_UNKNOWN || event->id > ID_MAX)
		return fault(why, -EINVAL, "the event's id is invalid: %" PRIu32, event->id);
	if (event->type != RAS_TYPE_STATE_CHANGE && event->type != RAS_TYPE_INFO)
		return fault(why, -EINVAL, "the event's type is invalid: %" PRIu32, event->type);
	if (event->severity < RAS_SEVERITY_ERROR || event->severity > RAS_SEVERITY_NOTICE)
		return fault(why, -EINVAL, "the event's severity is invalid: %" PRIu32, event->severity);
	for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
		if (!texts[i].text || !is_text(texts[i].text, texts[i].limit))
			return fault(why, -EINVAL, "the event's %s is not printable, or longer than %zu bytes",
				     texts[i].name, texts[i].limit - 1);
	}
	if (!is_time(event->timestamp))
		return fault(why, -EINVAL, "the event's timestamp is not a valid time: \"%s\"", event->timestamp);
	if (!is_info_good(event))
		return fault(why, -EINVAL, "the event's extended info is not printable, or too long");
	return 0;
}

/* ---- the line ---- */

struct line {
	char *text;
	size_t used;
};

static void put_field(struct line *line, const char *name, const char *format, ...) PRINTF_LIKE(3, 4);

/* Append ` name: [value]`, unless it does not fit. */
static void put_field(struct line *line, const char *name, const char *format, ...)
{
	char value[RAS_HOST_BYTES], clean[RAS_HOST_BYTES];
	va_list args;
	int bytes;

	va_start(args, format);
	vsnprintf(value, sizeof(value), format, args);
	va_end(args);
	text_copy_words(clean, sizeof(clean), value);
	bytes = snprintf(line->text + line->used, RAS_LINE_BYTES - line->used, "%s%s: [%s]", line->used ? " " : "", name,
			 clean);
	if (line->used + (size_t)bytes < RAS_LINE_BYTES)
		line->used += (size_t)bytes;
	line->text[line->used] = '\0';
}

static void put_text(struct line *line, const char *name, const char *text)
{
	if (text && *text)
		put_field(line, name, "%s", text);
}

static void put_number(struct line *line, const char *name, uint64_t number)
{
	if (number != 0)
		put_field(line, name, "%" PRIu64, number);
}

static void put_info(struct line *line, const Shared__RASEvent *event)
{
	if (event->extended_info_case == SHARED__RASEVENT__EXTENDED_INFO_STR_INFO)
		put_text(line, "data", event->str_info);
	if (event->extended_info_case == SHARED__RASEVENT__EXTENDED_INFO_ENGINE_STATE_INFO && event->engine_state_info) {
		put_field(line, "instance", "%" PRIu32, event->engine_state_info->instance);
		put_text(line, "error", event->engine_state_info->error);
	}
	if (event->extended_info_case == SHARED__RASEVENT__EXTENDED_INFO_POOL_SVC_INFO && event->pool_svc_info)
		put_field(line, "svc_version", "%" PRIu64, event->pool_svc_info->version);
}

const char *ras_event_line(const Shared__RASEvent *event, char *text)
{
	struct line line = { .text = text };

	text[0] = '\0';
	put_field(&line, "id", "%s", ras_id_name(event->id));
	put_text(&line, "ts", event->timestamp);
	put_text(&line, "host", event->hostname);
	put_field(&line, "type", "%s", ras_type_name(event->type));
	put_field(&line, "sev", "%s", ras_severity_name(event->severity));
	put_text(&line, "msg", event->msg);
	put_text(&line, "hwid", event->hw_id);
	put_number(&line, "pid", event->proc_id);
	put_number(&line, "tid", event->thread_id);
	if (event->rank != RAS_RANK_NONE)
		put_field(&line, "rank", "%" PRIu32, event->rank);
	put_number(&line, "incarnation", event->incarnation);
	put_text(&line, "jobid", event->job_id);
	put_text(&line, "puuid", event->pool_uuid);
	put_text(&line, "cuuid", event->cont_uuid);
	put_text(&line, "objid", event->obj_id);
	put_text(&line, "ctlop", event->ctl_op);
	put_info(&line, event);
	return text;
}
