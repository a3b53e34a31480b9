/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * event - RAS events: what happened to an engine, a device or the system, for operators and for whoever acts on it.
 *
 * Ids, types and severities are those of DAOS, and more of ours (rpc/ras/events.h). The message of the protocol,
 * Shared__RASEvent, is the event everywhere; this says
 * what its numbers mean, fills in what every event has, and prints it. Pure, but for ras_event_init(), which asks the time
 * and the host's name. Any thread.
 */
#ifndef RAS_EVENT_H
#define RAS_EVENT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"
#include "rpc/proto/shared.pb-c.h"
#include "rpc/ras/events.h"

/* RAS_ENGINE_DIED ... */
#define RAS_ID(identifier, id, ...) RAS_##identifier = (id),
enum ras_id { RAS_UNKNOWN = 0, RAS_EVENTS(RAS_ID) };
#undef RAS_ID
#define RAS_ONE(...) +1
enum { RAS_ID_COUNT = 0 RAS_EVENTS(RAS_ONE), RAS_OWN_FIRST = 1001, RAS_OWN_END = 1100 };
#undef RAS_ONE

/* Each of the table, in its order: for tests and pages. `index` below RAS_ID_COUNT. */
enum ras_id ras_id_at(size_t index);

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

/*
 * An event of what was done: "WHAT by WHO", of which WHAT is cut at a blank, with "...", where both are too long.
 * `operation` ("system stop") becomes its ctl_op; it is borrowed, and may be NULL. `who` NULL: no operator asked for it.
 */
void ras_event_init_done(struct ras_event *event, enum ras_id id, const char *operation, const char *who, const char *what,
			 va_list args) PRINTF_LIKE(5, 0);

/* Facts of engine_died and the like, in `event->message`. */
void ras_event_set_engine(struct ras_event *event, uint32_t rank, uint64_t incarnation, uint32_t instance, uint64_t pid,
			  const char *error);

/*
 * What came from elsewhere is whole: an id, type and severity that can be, texts within their limits and printable, a time
 * that is one. Errors: -EINVAL, `why` says which field.
 */
MUST_CHECK int ras_event_check(const Shared__RASEvent *event, struct fathom_fault *why);

/*
 * `id: [engine_died] ts: [...] host: [...] type: [STATE_CHANGE] sev: [ERROR] msg: [...] pid: [...] rank: [...] ...`: one
 * line, without what the event does not have. Returns `line`, of RAS_LINE_BYTES.
 */
const char *ras_event_line(const Shared__RASEvent *event, char *line);

#endif
