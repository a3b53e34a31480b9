/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/log_limit.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/bits.h"

static void refill_tokens(struct log_limit *limit, uint64_t now_ns)
{
	uint64_t earned;

	must(limit->burst > 0);
	must(limit->interval_ns > 0);
	if (!limit->started) {
		limit->started = true;
		limit->tokens = limit->burst;
		limit->refilled_ns = now_ns;
		return;
	}
	if (now_ns <= limit->refilled_ns)
		return;
	earned = (now_ns - limit->refilled_ns) / limit->interval_ns;
	if (earned >= limit->burst - limit->tokens) { /* tokens above the burst are lost */
		limit->tokens = limit->burst;
		limit->refilled_ns = now_ns;
		return;
	}
	limit->tokens += (uint32_t)earned;
	limit->refilled_ns += earned * limit->interval_ns;
}

static void take_token(struct log_limit *limit, uint64_t *suppressed_ret)
{
	must(limit->tokens > 0);
	limit->tokens--;
	*suppressed_ret = limit->suppressed;
	limit->suppressed = 0;
}

bool log_limit_admit(struct log_limit *limit, uint64_t now_ns, uint64_t *suppressed_ret)
{
	refill_tokens(limit, now_ns);
	if (limit->tokens == 0) {
		limit->suppressed++;
		return false;
	}
	take_token(limit, suppressed_ret);
	return true;
}

bool log_limit_flush(struct log_limit *limit, uint64_t now_ns, uint64_t *suppressed_ret)
{
	if (limit->suppressed == 0)
		return false;
	refill_tokens(limit, now_ns);
	if (limit->tokens == 0)
		return false;
	take_token(limit, suppressed_ret);
	must(*suppressed_ret > 0);
	return true;
}

const char *log_limit_text(char to[static LOG_LIMIT_TEXT_BYTES], uint64_t suppressed)
{
	int bytes = 0;

	to[0] = '\0';
	if (suppressed > 0)
		bytes = snprintf(to, LOG_LIMIT_TEXT_BYTES, " (and %" PRIu64 " more that were not logged)", suppressed);
	must(bytes < LOG_LIMIT_TEXT_BYTES);
	return to;
}
