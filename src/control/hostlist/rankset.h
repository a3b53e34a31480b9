/* SPDX-License-Identifier: BSD-2-Clause */
/* rankset - sets of ranks: "0-3,7" or "[0-3,7]", sorted, each once. "" is the empty set. */
#ifndef CONTROL_HOSTLIST_RANKSET_H
#define CONTROL_HOSTLIST_RANKSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"

#define RANK_NONE UINT32_MAX

enum { RANK_SET_MAX = 65536, RANK_MAX = 1 << 24 };

/* All zeroes is an empty one. One thread at a time. */
struct rank_set {
	uint32_t *ranks; /* ascending; `count` of them */
	size_t count;
	size_t room;
};

/* Free what it holds; it is then empty. */
void rank_set_deinit(struct rank_set *set);

/* A new set into `set_ret`, which holds none. Errors: -EINVAL, -ERANGE (`why`: rank_list_bad), -ENOMEM. */
MUST_CHECK int rank_set_parse(const char *text, struct rank_set *set_ret, struct fault *why);

/* Add one; it may be there. `rank` is at most RANK_MAX. Errors: -ENOMEM, -ERANGE (RANK_SET_MAX are there). */
MUST_CHECK int rank_set_add(struct rank_set *set, uint32_t rank);
void rank_set_remove(struct rank_set *set, uint32_t rank);
bool rank_set_has(const struct rank_set *set, uint32_t rank);

/* Folded: "0-3,7"; more than one range or rank in brackets if `is_bracketed`. The caller frees it. Errors: -ENOMEM. */
MUST_CHECK int rank_set_fold(const struct rank_set *set, bool is_bracketed, char **text_ret);

#endif
