/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * space_watch - reads the space of the storage now and then, and reports when a pool or the storage is nearly full.
 *
 * A reading also sets what volumes without a promise may allocate. It comes each second if there are such volumes, a second
 * after a change of the storage, else every IDLE_SEC. It takes as long as the storage has volumes, so the pause after it is
 * PAUSE_PARTS times as long as it took. At most one reading waits for a storage that hangs.
 *
 * Each report is a line in the log and, under a server, an event.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <uuid/uuid.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/reactor/reactor.h"
#include "data/engine/control.h"
#include "data/store/volume/volumes.h"

enum {
	CHECK_SEC = 1,
	IDLE_SEC = 10,
	PAUSE_PARTS = 20,
	QUIET_SEC = 60, /* without a refused write, before the next one is reported again */
	TEXT_BYTES = 32,
};

static struct {
	struct poller *poller;
	bool is_reading;
	uint64_t begin_ns, next_ns; /* clock_monotonic_ns() */
	uint64_t changes;	    /* of the storage, before the last reading */
	uint64_t refusals, refused_ns;
} watch;

/* ---- reports ---- */

static void report(enum ras_id id, const struct pool *pool, const char *format, ...) PRINTF_LIKE(3, 4);

static void report(enum ras_id id, const struct pool *pool, const char *format, ...)
{
	char text[RAS_MESSAGE_BYTES], uuid[UUID_STR_LEN];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (pool)
		uuid_unparse_lower(pool->record.uuid, uuid);
	if (engine_control_is_on())
		engine_raise_pool_event(id, pool ? uuid : NULL, "%s", text); /* logs it */
	else
		log_warning("%s", text);
}

static const char *bytes_text(uint64_t bytes, char text[TEXT_BYTES])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double value = (double)bytes;
	size_t unit = 0;

	for (; value >= 1024 && unit + 1 < ARRAY_COUNT(units); unit++)
		value /= 1024;
	snprintf(text, TEXT_BYTES, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
	return text;
}

static const char *forecast_text(const struct usage *usage, char text[TEXT_BYTES])
{
	uint64_t minutes = usage->full_in_ns / (60 * NS_PER_SEC);

	if (usage->full_in_ns == USAGE_NO_FORECAST)
		return "no forecast";
	if (minutes < 120)
		snprintf(text, TEXT_BYTES, "full in %" PRIu64 " min", minutes);
	else if (minutes < UINT64_C(48) * 60)
		snprintf(text, TEXT_BYTES, "full in %" PRIu64 " h", minutes / 60);
	else
		snprintf(text, TEXT_BYTES, "full in %" PRIu64 " days", minutes / 60 / 24);
	return text;
}

static void report_level(void *ctx, const struct pool *pool, const struct usage *usage, enum space_level before)
{
	const char *verb = pool && !pool->record.overcommit ? "promised" : "allocated";
	char name[POOL_NAME_BYTES_MAX + 8] = "the storage", size[TEXT_BYTES], forecast[TEXT_BYTES];

	if (pool)
		snprintf(name, sizeof(name), "pool %.44s", pool->record.name); /* a report is short */
	bytes_text(usage->limit_bytes, size);
	if (usage->state > before)
		report(pool ? RAS_POOL_SPACE_LOW : RAS_STORAGE_SPACE_LOW, pool, "%s: %u %% of %s are %s; %s", name,
		       usage_percent(usage), size, verb, forecast_text(usage, forecast));
	else if (usage->state == SPACE_BELOW_80)
		report(RAS_SPACE_RECOVERED, pool, "%s: %u %% of %s are %s", name, usage_percent(usage), size, verb);
}

static void report_refusals(const struct volumes_info *info, uint64_t now_ns)
{
	uint64_t more = info->space_refusals - watch.refusals;
	bool is_first = watch.refusals == 0 || now_ns - watch.refused_ns > QUIET_SEC * NS_PER_SEC;

	if (more == 0)
		return;
	watch.refusals = info->space_refusals;
	watch.refused_ns = now_ns;
	if (is_first)
		report(RAS_SPACE_EXCEEDED, NULL,
		       "%" PRIu64 " writes ended with Capacity Exceeded: other pools were promised "
		       "the free space",
		       more);
}

/* ---- readings ---- */

/* Also after an error: the figures are then those of the last reading. */
static void note_read(void *ctx, const struct fathom_fault *why)
{
	const struct volumes *volumes = engine_storage();
	uint64_t now_ns = clock_monotonic_ns(), pause_ns = (now_ns - watch.begin_ns) * PAUSE_PARTS;
	bool is_limited = volumes && !why && volumes_has_unpromised(volumes);

	watch.is_reading = false;
	watch.next_ns = watch.begin_ns + max_u64(pause_ns, (is_limited ? CHECK_SEC : IDLE_SEC) * NS_PER_SEC);
}

static int poll_space(void *ctx)
{
	struct volumes *volumes = engine_storage();
	uint64_t now_ns = clock_monotonic_ns();
	struct volumes_info info;

	if (!volumes || watch.is_reading)
		return 0;
	volumes_get_info(volumes, &info);
	report_refusals(&info, now_ns);
	if (now_ns < watch.next_ns && info.changes_done == watch.changes)
		return 0;
	watch.changes = info.changes_done;
	watch.is_reading = true;
	watch.begin_ns = now_ns;
	volumes_read_space(volumes, note_read, NULL);
	return 1;
}

void space_watch_start(void)
{
	must(!watch.poller);
	watch.next_ns = watch.changes = watch.refusals = 0;
	volumes_on_level(engine_storage(), report_level, NULL);
	watch.poller = poller_register("engine_space", poll_space, NULL, CHECK_SEC * NS_PER_SEC);
	if (!watch.poller)
		log_warning("out of memory: the space of the storage is read only when the server asks");
}

void space_watch_stop(void)
{
	poller_unregister(&watch.poller);
}
