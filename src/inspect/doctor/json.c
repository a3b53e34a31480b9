/* SPDX-License-Identifier: BSD-2-Clause */
/* json - values of the evidence, and texts of values. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bits.h"
#include "base/text.h"
#include "inspect/doctor/internal.h"

enum { TEXT_BYTES_MAX = 1024, KEY_BYTES = 64 };

void doc_put(json_t *object, const char *key, json_t *value)
{
	if (value)
		must(json_object_set_new(object, key, value) == 0);
}

void doc_add(json_t *list, json_t *value)
{
	if (value)
		must(json_array_append_new(list, value) == 0);
}

json_t *doc_object(void)
{
	json_t *object = json_object();

	must(object);
	return object;
}

json_t *doc_list(void)
{
	json_t *list = json_array();

	must(list);
	return list;
}

json_t *doc_text_of(const char *text, size_t bytes)
{
	char copy[TEXT_BYTES_MAX];
	json_t *value = json_stringn(copy, text_utf8_copy(copy, sizeof(copy), text, bytes));

	must(value);
	return value;
}

json_t *doc_text(const char *text)
{
	return doc_text_of(text, strlen(text));
}

const json_t *doc_at(const json_t *from, const char *path)
{
	while (from && *path) {
		size_t bytes = strcspn(path, ".");
		char key[KEY_BYTES];

		must(bytes < sizeof(key));
		memcpy(key, path, bytes);
		key[bytes] = '\0';
		from = json_object_get(from, key);
		path += bytes + (path[bytes] == '.');
	}
	return from;
}

int64_t doc_number(const json_t *from, const char *path, int64_t otherwise)
{
	const json_t *value = doc_at(from, path);

	if (json_is_integer(value))
		return (int64_t)json_integer_value(value);
	return json_is_real(value) ? (int64_t)json_real_value(value) : otherwise;
}

double doc_real(const json_t *from, const char *path, double otherwise)
{
	const json_t *value = doc_at(from, path);

	return json_is_number(value) ? json_number_value(value) : otherwise;
}

const char *doc_text_at(const json_t *from, const char *path)
{
	const char *text = json_string_value(doc_at(from, path));

	return text ? text : "";
}

bool doc_is(const json_t *from, const char *path)
{
	return json_is_true(doc_at(from, path));
}

const char *doc_duration(uint64_t ms, char to[SHORT_TEXT_BYTES])
{
	uint64_t sec = ms / 1000;

	if (sec < 60)
		snprintf(to, SHORT_TEXT_BYTES, "%" PRIu64 ".%03" PRIu64 " s", sec, ms % 1000);
	else if (sec < 3600)
		snprintf(to, SHORT_TEXT_BYTES, "%" PRIu64 " min %" PRIu64 " s", sec / 60, sec % 60);
	else if (sec < 86400)
		snprintf(to, SHORT_TEXT_BYTES, "%" PRIu64 " h %" PRIu64 " min", sec / 3600, sec % 3600 / 60);
	else
		snprintf(to, SHORT_TEXT_BYTES, "%" PRIu64 " days", sec / 86400);
	return to;
}

const char *doc_time(int64_t realtime_s, char to[SHORT_TEXT_BYTES])
{
	time_t seconds = (time_t)realtime_s;
	struct tm parts;

	if (!gmtime_r(&seconds, &parts) || strftime(to, SHORT_TEXT_BYTES, "%Y-%m-%d %H:%M:%S UTC", &parts) == 0)
		snprintf(to, SHORT_TEXT_BYTES, "?");
	return to;
}

const char *doc_latency(double us, char to[SHORT_TEXT_BYTES])
{
	if (us < 1000)
		snprintf(to, SHORT_TEXT_BYTES, "%.0f us", us);
	else if (us < 1e6)
		snprintf(to, SHORT_TEXT_BYTES, "%.1f ms", us / 1000);
	else
		snprintf(to, SHORT_TEXT_BYTES, "%.3f s", us / 1e6);
	return to;
}

const char *doc_bytes(uint64_t bytes, char to[SHORT_TEXT_BYTES])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
	double value = (double)bytes;
	size_t unit = 0;

	while (value >= 1024 && unit + 1 < ARRAY_COUNT(units)) {
		value /= 1024;
		unit++;
	}
	snprintf(to, SHORT_TEXT_BYTES, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
	return to;
}
