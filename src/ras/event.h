/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * event - RAS events: what happened to an engine, a device or the system, for operators and for whoever acts on it.
 *
 * Ids, types and severities are DAOS's. The message of the protocol, Shared__RASEvent, is the event everywhere; this says
 * what its numbers mean, fills in what every event has, and prints it. Pure, but for ras_event_init(), which asks the time
 * and the host's name. Any thread.
 */
#ifndef RAS_EVENT_H
#define RAS_EVENT_H

#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"
#include "proto/shared.pb-c.h"

enum ras_id {
	RAS_UNKNOWN = 0,
	RAS_ENGINE_FORMAT_REQUIRED = 1,
	RAS_ENGINE_DIED = 2,
	RAS_ENGINE_ASSERTED = 3,
	RAS_ENGINE_CLOCK_DRIFT = 4,
	RAS_ENGINE_SELF_TERMINATED = 5,
	RAS_POOL_CORRUPTION_DETECTED = 6,
	RAS_POOL_REBUILD_STARTED = 7,
	RAS_POOL_REBUILD_FINISHED = 8,
	RAS_POOL_REBUILD_FAILED = 9,
	RAS_POOL_REPLICAS_UPDATED = 10,
	RAS_POOL_DURABLE_FORMAT_INCOMPATIBLE = 11,
	RAS_POOL_DESTROY_DEFERRED = 12,
	RAS_POOL_START_FAILED = 13,
	RAS_CONTAINER_DURABLE_FORMAT_INCOMPATIBLE = 14,
	RAS_RDB_DURABLE_FORMAT_INCOMPATIBLE = 15,
	RAS_SWIM_RANK_ALIVE = 16,
	RAS_SWIM_RANK_DEAD = 17,
	RAS_SYSTEM_START_FAILED = 18,
	RAS_SYSTEM_STOP_FAILED = 19,
	RAS_DEVICE_SET_FAULTY = 20,
	RAS_DEVICE_MEDIA_ERROR = 21,
	RAS_DEVICE_UNPLUGGED = 22,
	RAS_DEVICE_PLUGGED = 23,
	RAS_DEVICE_REPLACE = 24,
	RAS_SYSTEM_FABRIC_PROVIDER_CHANGED = 25,
	RAS_ENGINE_JOIN_FAILED = 26,
	RAS_DEVICE_LINK_SPEED_CHANGED = 27,
	RAS_DEVICE_LINK_WIDTH_CHANGED = 28,
	RAS_OBJ_CSUM_ERROR = 29,
	RAS_DEVICE_LED_SET = 30,
	RAS_IDS,
	/* DAOS has no such ones; its own go on from 31 */
	RAS_SERVER_SILENT = 1001,
	RAS_SERVER_HEARD = 1002,
	RAS_ENGINE_HUNG = 1003,
	RAS_ENGINE_ANSWERS = 1004,
	RAS_OWN_END
};
enum { RAS_OWN_FIRST = RAS_SERVER_SILENT };

enum ras_type { RAS_TYPE_ANY = 0, RAS_TYPE_STATE_CHANGE = 1, RAS_TYPE_INFO = 2 };
enum ras_severity { RAS_SEVERITY_UNKNOWN = 0, RAS_SEVERITY_ERROR = 1, RAS_SEVERITY_WARNING = 2, RAS_SEVERITY_NOTICE = 3 };

enum {
	RAS_MESSAGE_BYTES = 128, /* each of these with the NUL */
	RAS_TEXT_BYTES = 64,
	RAS_TIME_BYTES = 40,
	RAS_HOST_BYTES = 256,
	RAS_LINE_BYTES = 1024,
};

#define RAS_RANK_NONE UINT32_MAX

const char *ras_id_name(uint32_t id);		  /* "engine_died"; "unknown" of what is not known */
const char *ras_type_name(uint32_t type);	  /* "STATE_CHANGE" */
const char *ras_severity_name(uint32_t severity); /* "ERROR" */

/* An event and the texts that it borrows: it stays where it is. */
struct ras_event {
	Shared__RASEvent message;
	Shared__RASEvent__EngineStateEventInfo engine;
	char text[RAS_MESSAGE_BYTES], timestamp[RAS_TIME_BYTES], hostname[RAS_HOST_BYTES], error[RAS_MESSAGE_BYTES];
};

/*
 * An event of this host, now, of the type and severity that its id has; no rank, no process, no further facts.
 */
void ras_event_init(struct ras_event *event, enum ras_id id, const char *format, ...) PRINTF_LIKE(3, 4);

/* Facts of engine_died and the like, in `event->message`. */
void ras_event_set_engine(struct ras_event *event, uint32_t rank, uint64_t incarnation, uint32_t instance, uint64_t pid,
			  const char *error);

/*
 * What came from elsewhere is whole: an id, type and severity that can be, texts within their limits and printable, a time
 * that is one. Errors: -EINVAL, `why` says which field.
 */
MUST_CHECK int ras_event_check(const Shared__RASEvent *event, struct fault *why);

/*
 * `id: [engine_died] ts: [...] host: [...] type: [STATE_CHANGE] sev: [ERROR] msg: [...] pid: [...] rank: [...] ...`: one
 * line, without what the event does not have. Returns `line`, of RAS_LINE_BYTES.
 */
const char *ras_event_line(const Shared__RASEvent *event, char *line);

#endif
