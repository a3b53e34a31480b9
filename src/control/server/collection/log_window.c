/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/server/collection/log_window.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/must.h"

#define TEXT_HEAD "["
#define JSON_HEAD "{\"time\":\""

enum { STAMP_LENGTH = LOG_STAMP_BYTES - 1 };
static_assert(sizeof("dddd-dd-dd?dd:dd:dd") == LOG_STAMP_BYTES, "the form of is_stamp() has the length of a stamp");

static void format_stamp(char *text, uint64_t seconds, bool is_local)
{
	time_t time = (time_t)seconds;
	struct tm tm;

	if (!(is_local ? localtime_r(&time, &tm) : gmtime_r(&time, &tm)) ||
	    (is_local ? strftime(text, LOG_STAMP_BYTES, "%F %T", &tm) : strftime(text, LOG_STAMP_BYTES, "%FT%T", &tm)) !=
		    STAMP_LENGTH)
		snprintf(text, LOG_STAMP_BYTES, "9999-99-99"); /* a year with five digits: later than all lines */
}

void log_window_init(struct log_window *window, uint64_t from_s, uint64_t until_s)
{
	memset(window, 0, sizeof(*window));
	window->is_all = window->is_inside = from_s == 0 && until_s == 0;
	format_stamp(window->text.from, from_s, true);
	format_stamp(window->json.from, from_s, false);
	format_stamp(window->text.until, until_s ? until_s : UINT32_MAX, true);
	format_stamp(window->json.until, until_s ? until_s : UINT32_MAX, false);
}

/* "dddd-dd-dd?dd:dd:dd" */
static bool is_stamp(const char *at)
{
	static const char form[] = "dddd-dd-dd?dd:dd:dd";

	for (size_t i = 0; i < STAMP_LENGTH; i++) {
		if (form[i] == 'd' ? !isdigit((unsigned char)at[i]) : form[i] != '?' && form[i] != at[i])
			return false;
	}
	return true;
}

bool log_window_takes(struct log_window *window, const char *line, size_t bytes)
{
	bool is_json = bytes > strlen(JSON_HEAD) && memcmp(line, JSON_HEAD, strlen(JSON_HEAD)) == 0;
	size_t head = is_json ? strlen(JSON_HEAD) : strlen(TEXT_HEAD);
	const char *from = is_json ? window->json.from : window->text.from;
	const char *until = is_json ? window->json.until : window->text.until;

	must(!window->is_all || window->is_inside);
	must(from[0] && until[0]); /* log_window_init() */
	if (window->is_all)
		return true;
	if (bytes >= head + STAMP_LENGTH && (is_json || line[0] == TEXT_HEAD[0]) && is_stamp(line + head))
		window->is_inside = memcmp(line + head, from, STAMP_LENGTH) >= 0 &&
				    memcmp(line + head, until, STAMP_LENGTH) <= 0;
	return window->is_inside;
}
