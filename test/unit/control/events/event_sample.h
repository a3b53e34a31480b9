/* SPDX-License-Identifier: BSD-2-Clause */
/* event_sample - events with a number in their message. */
#ifndef TEST_UNIT_CONTROL_EVENTS_EVENT_SAMPLE_H
#define TEST_UNIT_CONTROL_EVENTS_EVENT_SAMPLE_H

#include <inttypes.h>
#include <stdlib.h>

#include "base/must.h"
#include "base/text.h"
#include "rpc/ras/event.h"

static inline const Shared__RASEvent *sample_event(uint64_t number)
{
	static struct ras_event event;

	ras_event_init(&event, RAS_DEVICE_PLUGGED, "%" PRIu64, number);
	return &event.message;
}

static inline uint64_t sample_number(const Shared__RASEvent *event)
{
	uint64_t number;

	must(text_parse_u64(event->msg, 10, UINT64_MAX, &number) == 0);
	return number;
}

#endif
