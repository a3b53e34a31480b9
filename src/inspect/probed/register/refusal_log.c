/* SPDX-License-Identifier: BSD-2-Clause */
#include "inspect/probed/register/refusal_log.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/log_limit.h"
#include "base/reactor/reactor.h"

enum { REFUSAL_TEXT_BYTES = FAULT_TEXT_BYTES_MAX };

static void copy_printable(char to[static REFUSAL_TEXT_BYTES], const char *from, size_t from_bytes)
{
	size_t i;

	for (i = 0; i < from_bytes && i < REFUSAL_TEXT_BYTES - 1 && from[i]; i++)
		to[i] = from[i] >= ' ' && from[i] <= '~' ? from[i] : '?';
	must(i < REFUSAL_TEXT_BYTES);
	to[i] = '\0';
}

static const char *describe_way(enum probed_way way)
{
	return way == PROBED_WAY_CUSE ? "DTrace's helper device" : "the socket";
}

static struct log_limit *find_limit(uid_t uid)
{
	static struct log_limit limits[REFUSAL_USERS];
	struct log_limit *limit = &limits[uid % REFUSAL_USERS];

	if (limit->burst == 0)
		*limit = (struct log_limit)LOG_LIMIT(REFUSAL_LINES_AT_ONCE, NS_PER_SEC);
	return limit;
}

void refusal_log(const struct refusal *refusal)
{
	bool ended = refusal->error == -ESRCH || refusal->error == -ECANCELED;
	char module[REFUSAL_TEXT_BYTES], why[REFUSAL_TEXT_BYTES];

	must_be_on(thread_control());
	must(refusal->error < 0);
	copy_printable(module, refusal->module, refusal->module_bytes);
	copy_printable(why, refusal->why, strlen(refusal->why));
	log_line_limited(find_limit(refusal->uid), clock_monotonic_ns(), ended ? LOG_LEVEL_INFO : LOG_LEVEL_WARNING,
			 "refused probes of process %d (user %u)%s%s%s, sent to %s: %s", refusal->pid, refusal->uid,
			 module[0] ? ", module \"" : "", module, module[0] ? "\"" : "", describe_way(refusal->way), why);
}
