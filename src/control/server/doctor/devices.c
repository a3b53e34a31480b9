/* SPDX-License-Identifier: BSD-2-Clause */
/* The devices of this host that have something to report, for its condition. */
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"
#include "control/server/doctor/internal.h"
#include "control/server/health/health.h"

enum { TROUBLED_MAX = 64 };

static void put(json_t *object, const char *key, json_t *value)
{
	(void)json_object_set_new(object, key, value);
}

static void put_since(json_t *object, const char *key, uint64_t ns)
{
	uint64_t now = clock_realtime_ns();

	put(object, key, json_integer((json_int_t)(now > ns ? (now - ns) / NS_PER_MS : 0)));
}

/* A device's own words may be any bytes. */
static json_t *text_json(const char *from)
{
	char to[FAULT_TEXT_BYTES_MAX];

	return json_stringn(to, text_utf8_copy(to, sizeof(to), from, strlen(from)));
}

static json_t *conditions_of(const struct device_health *device)
{
	json_t *rows = json_array();

	for (int i = 0; i < STORAGE_CONDITIONS; i++) {
		char text[STORAGE_CONDITION_TEXT_BYTES];
		json_t *row;

		if (!(device->health.conditions & BIT(i)))
			continue;
		row = json_object();
		put(row, "text",
		    text_json(storage_condition_text(&device->health, (enum storage_condition)i, text, sizeof(text))));
		put_since(row, "since_ms", device->since_ns[i]);
		(void)json_array_append_new(rows, row);
	}
	return rows;
}

static json_t *engines_of(const struct device_health *device)
{
	json_t *engines = json_array();

	for (uint32_t i = 0; i < SERVER_ENGINES_MAX; i++) {
		if (device->instances & (UINT64_C(1) << i))
			(void)json_array_append_new(engines, json_integer(i));
	}
	return engines;
}

static bool has_trouble(const struct device_health *device)
{
	return (device->gone_ns != 0 && device->instances != 0) || device->failing_ns != 0 ||
	       device->health.conditions != 0;
}

json_t *doctor_devices(const struct server *server)
{
	json_t *rows = json_array();

	for (const struct device_health *device = health_next(server, NULL); device; device = health_next(server, device)) {
		json_t *row;

		if (!has_trouble(device) || json_array_size(rows) == TROUBLED_MAX)
			continue;
		row = json_object();
		put(row, "path", text_json(device->facts.path));
		put(row, "model", text_json(device->facts.model));
		put(row, "serial", text_json(device->facts.serial));
		put(row, "engines", engines_of(device));
		put(row, "conditions", conditions_of(device));
		if (device->gone_ns)
			put_since(row, "gone_ms", device->gone_ns);
		if (device->failing_ns) {
			put_since(row, "failing_ms", device->failing_ns);
			put(row, "why", text_json(device->why.text));
		}
		(void)json_array_append_new(rows, row);
	}
	return rows;
}
