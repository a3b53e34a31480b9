/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * event - RAS events: changes of engines, devices or the system, for operators and for the management service.
 *
 * Ids, types and severities are those of DAOS, with additional ids of ours (rpc/ras/events.h). The message of the protocol,
 * Shared__RASEvent, is used everywhere. These functions name its numbers, fill in the common fields, and print it. Pure,
 * except for ras_event_init(), which reads the time and the host name. Any thread.
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

/* The ids in the order of the table, for tests and pages. `index` must be below RAS_ID_COUNT. */
enum ras_id ras_id_at(size_t index);

enum ras_type { RAS_TYPE_ANY = 0, RAS_TYPE_STATE_CHANGE = 1, RAS_TYPE_INFO = 2 };
enum ras_severity { RAS_SEVERITY_UNKNOWN = 0, RAS_SEVERITY_ERROR = 1, RAS_SEVERITY_WARNING = 2, RAS_SEVERITY_NOTICE = 3 };

enum {
	RAS_MESSAGE_BYTES = 128, /* all with the NUL */
	RAS_TEXT_BYTES = 64,
	RAS_TIME_BYTES = 40,
	RAS_HOST_BYTES = 256,
	RAS_LINE_BYTES = 1024,
};

#define RAS_RANK_NONE UINT32_MAX

const char *ras_id_name(uint32_t id);		  /* "engine_died"; "unknown" for unknown ids */
const char *ras_type_name(uint32_t type);	  /* "STATE_CHANGE" */
const char *ras_severity_name(uint32_t severity); /* "ERROR" */

/* An event with the texts that it points to: do not copy it. */
struct ras_event {
	Shared__RASEvent message;
	Shared__RASEvent__EngineStateEventInfo engine;
	char text[RAS_MESSAGE_BYTES], timestamp[RAS_TIME_BYTES], hostname[RAS_HOST_BYTES], error[RAS_MESSAGE_BYTES];
};

/*
 * Fill an event of this host with the current time and the type and severity of its id; no rank, process or extended info.
 */
void ras_event_init(struct ras_event *event, enum ras_id id, const char *format, ...) PRINTF_LIKE(3, 4);

/*
 * Fill an event about a completed operation: "WHAT by WHO". If the text is too long, WHAT is cut at a blank, with "...".
 * `operation` ("system stop") becomes its ctl_op; it is borrowed, and may be NULL. `who` NULL: no operator requested it.
 */
void ras_event_init_done(struct ras_event *event, enum ras_id id, const char *operation, const char *who, const char *what,
			 va_list args) PRINTF_LIKE(5, 0);

/* Add the extended info of engine_died and similar events to `event->message`. */
void ras_event_set_engine(struct ras_event *event, uint32_t rank, uint64_t incarnation, uint32_t instance, uint64_t pid,
			  const char *error);

/*
 * Check a received event: possible id, type and severity, printable texts within their limits, a valid time. Errors:
 * -EINVAL; `why` names the field.
 */
MUST_CHECK int ras_event_check(const Shared__RASEvent *event, struct fathom_fault *why);

/*
 * Print `id: [engine_died] ts: [...] host: [...] type: [STATE_CHANGE] sev: [ERROR] msg: [...] pid: [...] rank: [...] ...`
 * on one line, without empty fields. Returns `line`, of RAS_LINE_BYTES.
 */
const char *ras_event_line(const Shared__RASEvent *event, char *line);

#endif
