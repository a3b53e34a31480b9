/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * history - notes in the trace, once a minute, what block devices and stages of requests did since the last note. So a
 * trace file, and a recording of it, has the past of its engine: readers such as `fathom doctor` can compare with it hours
 * after the records of single I/Os are overwritten.
 *
 * A note of a device that was idle is left out, and so are those beyond the HISTORY_DEVICES_MAX with the most I/O time: 16
 * devices make some 80 records a minute of the 32,768 of the control thread's ring. Nothing here runs on a reactor: all
 * counters may be read by any thread.
 *
 * Control thread.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/observe/trace/figures.h"
#include "base/reactor/reactor.h"
#include "data/engine/internal.h"
#include "data/engine/probes.gen.h"
#include "data/store/bdev/bdev.h"

enum { HISTORY_DEVICES_MAX = 16, HISTORY_TYPES_MAX = 8 };

enum { READS = HISTORY_READS, WRITES = HISTORY_WRITES, OPS };

/* I/Os and their time, since the device was registered. */
struct io_sums {
	uint64_t count[OPS], ticks[OPS];
};

struct device {
	uint8_t uuid[16];
	const struct bdev *bdev; /* valid only while devices are read */
	struct io_sums all, since;
};

struct stage_sums {
	uint64_t count, ticks;
};

static struct {
	struct poller *poller;
	struct device *devices; /* of the last note, by UUID */
	size_t device_count;
	uint64_t noted_ns; /* monotonic */
	struct stage_sums stages[HISTORY_TYPES_MAX][TRACE_STORY_STATES_MAX];
} history;

/* ---- devices ---- */

static int compare_uuids(const void *a, const void *b)
{
	return memcmp(((const struct device *)a)->uuid, ((const struct device *)b)->uuid,
		      sizeof(((struct device *)0)->uuid));
}

static uint64_t time_of(const struct device *device)
{
	return device->since.ticks[READS] + device->since.ticks[WRITES];
}

/* The most I/O time first. */
static int compare_times(const void *a, const void *b)
{
	uint64_t x = time_of(*(struct device *const *)a), y = time_of(*(struct device *const *)b);

	return (x < y) - (x > y);
}

static void read_sums(struct bdev *bdev, struct io_sums *sums_ret)
{
	static const struct {
		enum io_type type;
		int op;
	} types[] = { { IO_TYPE_READ, READS }, { IO_TYPE_WRITE, WRITES }, { IO_TYPE_WRITE_ZEROES, WRITES } };
	struct bdev_figures figures;

	bdev_figures_get(bdev, &figures);
	*sums_ret = (struct io_sums){ 0 };
	for (size_t i = 0; i < ARRAY_COUNT(types); i++) {
		sums_ret->count[types[i].op] += figures.types[types[i].type].ops;
		sums_ret->ticks[types[i].op] += figures.types[types[i].type].latency_ticks;
	}
}

/* What was added since the last note. A device that was not there then, or has a former one's UUID, began at 0. */
static void set_since(struct device *device)
{
	const struct device *before = history.devices ? bsearch(device, history.devices, history.device_count,
								sizeof(*device), compare_uuids)
						      : NULL;

	device->since = device->all;
	for (int op = 0; op < OPS; op++) {
		if (!before || before->all.count[op] > device->all.count[op] ||
		    before->all.ticks[op] > device->all.ticks[op])
			continue;
		device->since.count[op] -= before->all.count[op];
		device->since.ticks[op] -= before->all.ticks[op];
	}
}

/* Returns the devices, which the caller frees; NULL: out of memory. */
static struct device *read_devices(size_t *count_ret)
{
	struct device *devices;
	size_t room = 0;

	for (struct bdev *bdev = bdev_first(); bdev; bdev = bdev_next(bdev))
		room++;
	devices = calloc(room + 1, sizeof(*devices));
	*count_ret = 0;
	for (struct bdev *bdev = bdev_first(); devices && bdev; bdev = bdev_next(bdev)) {
		struct device *device = &devices[(*count_ret)++];

		memcpy(device->uuid, bdev->uuid, sizeof(device->uuid));
		device->bdev = bdev;
		read_sums(bdev, &device->all);
		set_since(device);
	}
	return devices;
}

static void note_device(const struct device *device, uint32_t span_ms)
{
	for (int op = 0; op < OPS; op++) {
		if (device->since.count[op] > 0)
			probe_history_device(reactor_now(), bdev_name_istr(device->bdev), (enum history_op)op,
					     (uint32_t)min_u64(UINT32_MAX, device->since.count[op]),
					     clock_ns_from_ticks(device->since.ticks[op]), span_ms);
	}
}

static void note_devices(uint32_t span_ms)
{
	size_t count, active = 0;
	struct device *devices = read_devices(&count), **order = devices ? calloc(count + 1, sizeof(*order)) : NULL;

	if (!order) {
		free(devices);
		return; /* out of memory: the next note has both spans */
	}
	for (size_t i = 0; i < count; i++) {
		if (devices[i].since.count[READS] || devices[i].since.count[WRITES])
			order[active++] = &devices[i];
	}
	qsort(order, active, sizeof(*order), compare_times);
	for (size_t i = 0; i < active && i < HISTORY_DEVICES_MAX; i++)
		note_device(order[i], span_ms);
	free(order);
	qsort(devices, count, sizeof(*devices), compare_uuids);
	free(history.devices);
	history.devices = devices;
	history.device_count = count;
}

/* ---- stages ---- */

static void note_stage(const struct trace_schema_lives *type, uint32_t index, uint32_t state, uint32_t span_ms)
{
	struct stage_sums *before = &history.stages[index][state], now = { 0 };
	struct trace_stage_sum sum;

	trace_figures_stage(index, state, &sum);
	for (int i = 0; i < LATENCY_BUCKETS; i++)
		now.count += sum.buckets[i];
	now.ticks = sum.ticks;
	if (now.count > before->count && now.ticks >= before->ticks)
		probe_history_stage(reactor_now(), trace_intern(type->name),
				    trace_intern(state ? type->states[state] : "ALL"),
				    (uint32_t)min_u64(UINT32_MAX, now.count - before->count),
				    clock_ns_from_ticks(now.ticks - before->ticks), span_ms);
	*before = now;
}

static void note_stages(uint32_t span_ms)
{
	for (uint32_t i = 0; i < trace_figures_type_count() && i < HISTORY_TYPES_MAX; i++) {
		const struct trace_schema_lives *type = trace_figures_type(i);

		for (uint32_t state = 0; state < TRACE_STORY_STATES_MAX && (state == 0 || type->states[state]); state++)
			note_stage(type, i, state, span_ms);
	}
}

/* ---- times ---- */

static int poll_history(void *ctx)
{
	uint64_t now_ns = clock_monotonic_ns();
	uint32_t span_ms = (uint32_t)((now_ns - history.noted_ns) / NS_PER_MS);

	(void)ctx;
	history.noted_ns = now_ns;
	note_devices(span_ms);
	note_stages(span_ms);
	return 1;
}

void history_start(void)
{
	uint32_t seconds = engine_options()->history_seconds;

	must(!history.poller);
	if (seconds == 0 || trace_path()[0] == '\0')
		return;
	history.noted_ns = clock_monotonic_ns();
	history.poller = poller_register("history", poll_history, NULL, seconds * NS_PER_SEC);
	if (!history.poller)
		log_warning("out of memory: the trace has no history of block devices");
}

void history_stop(void)
{
	poller_unregister(&history.poller);
	free(history.devices);
	history.devices = NULL;
	history.device_count = 0;
}
