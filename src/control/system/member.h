/* SPDX-License-Identifier: BSD-2-Clause */
/* member - one rank of the system, as it is stored, shown and changed. */
#ifndef CONTROL_SYSTEM_MEMBER_H
#define CONTROL_SYSTEM_MEMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"
#include "control/hostlist/hostlist.h"
#include "control/hostlist/rankset.h"
#include "control/system/states.gen.h"

#define MEMBER_STATES ((unsigned int)MEMBER_CHECKER_STARTED + 1)

enum {
	MEMBER_URI_BYTES = 256,
	MEMBER_FABRICS_MAX = 4, /* the primary and secondary ones */
	MEMBER_INFO_BYTES = 256,
	MEMBER_DOMAIN_BYTES = 256,
	MEMBER_UUID_BYTES = 16,
	MEMBER_UUID_TEXT_BYTES = 37,
};

/* Where other engines and hosts find it. */
struct member_fabric {
	char uri[MEMBER_URI_BYTES]; /* "ofi+tcp://10.0.0.1:20000" */
	uint32_t contexts;
};

/* A plain value: whoever changes one member stores all of it. */
struct member {
	uint32_t rank;
	enum member_state state;
	uint64_t incarnation; /* of its process; grows with each start */
	uint64_t updated_ns;  /* CLOCK_REALTIME */
	uint8_t uuid[MEMBER_UUID_BYTES];
	char address[HOST_BYTES_MAX];	  /* of its server, with port, as host_set_at() has it */
	char domain[MEMBER_DOMAIN_BYTES]; /* "/rack0/node0" or "/rack=0/node=n0" */
	char info[MEMBER_INFO_BYTES];	  /* why it is in this state; may be "" */
	uint32_t fabric_count;		  /* the first is the primary one */
	struct member_fabric fabrics[MEMBER_FABRICS_MAX];
};

/* DAOS's bit of a state; 0 of UNKNOWN. Sets of states are these bits. */
static inline uint32_t member_state_bit(enum member_state state)
{
	return state == MEMBER_UNKNOWN ? 0 : 1u << (state - 1);
}

/* The state with that one bit. Errors: -EINVAL. */
MUST_CHECK int member_state_of_bit(uint32_t bit, enum member_state *state_ret);

enum {
	MEMBER_ALL_BITS = 0xffff,
	/* they are not in the group map */
	MEMBER_OUT_BITS = 1 << (MEMBER_AWAIT_FORMAT - 1) | 1 << (MEMBER_EXCLUDED - 1) | 1 << (MEMBER_ADMIN_EXCLUDED - 1),
	/* pools may be put on them */
	MEMBER_AVAILABLE_BITS = 1 << (MEMBER_READY - 1) | 1 << (MEMBER_JOINED - 1),
};

/* As dmg shows it ("AdminExcluded"), and as it goes over the wire ("adminexcluded"); parsing ignores case. */
const char *member_state_title(enum member_state state);
const char *member_state_wire(enum member_state state);
MUST_CHECK int member_state_parse(const char *text, enum member_state *state_ret); /* -EINVAL */

/*
 * Whether what was seen or done at the time (a stop, an exit, a silence) may make `to` of `from`. Joins and an operator's
 * clearing have rules of their own.
 */
bool member_may_report(enum member_state from, enum member_state to);

/* Errors: -EINVAL. `text` of MEMBER_UUID_TEXT_BYTES. */
MUST_CHECK int member_uuid_parse(const char *text, uint8_t *uuid_ret);
const char *member_uuid_format(const uint8_t *uuid, char *text);

/*
 * A fault domain: levels behind '/', all with a label ("rack=0") or none. Errors: -EINVAL (`why`: fault_domain_bad).
 * `labels_ret`, of MEMBER_DOMAIN_BYTES, has the labels as "/rack/node", or "".
 */
MUST_CHECK int member_domain_parse(const char *text, uint32_t *depth_ret, char *labels_ret, struct fault *why);

#endif
