/* SPDX-License-Identifier: BSD-2-Clause */
/* member - the record of one rank of the system, as it is stored, shown and changed. */
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

/* A fabric address, under which other engines and hosts reach the member. */
struct member_fabric {
	char uri[MEMBER_URI_BYTES]; /* "ofi+tcp://10.0.0.1:20000" */
	uint32_t contexts;
};

/* A plain value without pointers. A change of one field stores the whole record. */
struct member {
	uint32_t rank;
	enum member_state state;
	uint64_t incarnation; /* of its process; increases with each start */
	uint64_t updated_ns;  /* CLOCK_REALTIME */
	uint8_t uuid[MEMBER_UUID_BYTES];
	char address[HOST_BYTES_MAX];	  /* of its server, with port, spelled as by host_set_at() */
	char domain[MEMBER_DOMAIN_BYTES]; /* "/rack0/node0" or "/rack=0/node=n0" */
	char info[MEMBER_INFO_BYTES];	  /* why it is in this state; may be "" */
	uint32_t fabric_count;		  /* the first is the primary one */
	struct member_fabric fabrics[MEMBER_FABRICS_MAX];
};

/* DAOS's bit for a state; 0 for UNKNOWN. Sets of states are masks of these bits. */
static inline uint32_t member_state_bit(enum member_state state)
{
	return state == MEMBER_UNKNOWN ? 0 : 1u << (state - 1);
}

/* The state of `bit`, which must be a single bit or 0 (UNKNOWN). Errors: -EINVAL. */
MUST_CHECK int member_state_of_bit(uint32_t bit, enum member_state *state_ret);

enum {
	MEMBER_ALL_BITS = 0xffff,
	/* states of members that are not in the group map */
	MEMBER_OUT_BITS = 1 << (MEMBER_AWAIT_FORMAT - 1) | 1 << (MEMBER_EXCLUDED - 1) | 1 << (MEMBER_ADMIN_EXCLUDED - 1),
	/* states in which a member may get pools */
	MEMBER_AVAILABLE_BITS = 1 << (MEMBER_READY - 1) | 1 << (MEMBER_JOINED - 1),
};

/* The name in dmg's output ("AdminExcluded"), and the name in messages ("adminexcluded"). Parsing ignores case. */
const char *member_state_title(enum member_state state);
const char *member_state_wire(enum member_state state);
MUST_CHECK int member_state_parse(const char *text, enum member_state *state_ret); /* -EINVAL */

/*
 * Whether a report (a stop, an exit, a time-out) may change the state `from` into `to`. Joins and an operator's clearing of
 * an exclusion have their own rules.
 */
bool member_may_report(enum member_state from, enum member_state to);

/* The length of the provider in a URI: 8 of "ofi+tcp1://..."; all of a text without "://". */
size_t member_provider_bytes(const char *uri);

/* Errors: -EINVAL. `text` of MEMBER_UUID_TEXT_BYTES. */
MUST_CHECK int member_uuid_parse(const char *text, uint8_t *uuid_ret);
const char *member_uuid_format(const uint8_t *uuid, char *text);

/*
 * Parse a fault domain: each level begins with '/', and all levels or none have a label ("rack=0"). `labels_ret`, of
 * MEMBER_DOMAIN_BYTES, gets the labels as "/rack/node", or "". Errors: -EINVAL (`why`: fault_domain_bad).
 */
MUST_CHECK int member_domain_parse(const char *text, uint32_t *depth_ret, char *labels_ret, struct fathom_fault *why);

#endif
