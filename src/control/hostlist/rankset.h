/* SPDX-License-Identifier: BSD-2-Clause */
/* rankset - sets of ranks: "0-3,7" or "[0-3,7]", sorted, without duplicates. "" is the empty set. */
#ifndef CONTROL_HOSTLIST_RANKSET_H
#define CONTROL_HOSTLIST_RANKSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"

#define RANK_NONE UINT32_MAX

enum { RANK_SET_MAX = 65536, RANK_MAX = 1 << 24 };

/* A zeroed structure is an empty set. One thread at a time. */
struct rank_set {
	uint32_t *ranks; /* ascending; `count` of them */
	size_t count;
	size_t room;
};

/* Free the ranks; the set is then empty. */
void rank_set_deinit(struct rank_set *set);

/*
 * Parse `text` into `set_ret`, whose old contents are not freed. Errors: -EINVAL (`why`: rank_list_bad; also for a rank
 * above RANK_MAX or too many ranks), -ENOMEM.
 */
MUST_CHECK int rank_set_parse(const char *text, struct rank_set *set_ret, struct fathom_fault *why);

/* Add `rank`, at most RANK_MAX; it may already be in the set. Errors: -ENOMEM, -ERANGE (the set is full: RANK_SET_MAX). */
MUST_CHECK int rank_set_add(struct rank_set *set, uint32_t rank);
void rank_set_remove(struct rank_set *set, uint32_t rank);
bool rank_set_has(const struct rank_set *set, uint32_t rank);

/* Fold into "0-3,7"; in brackets if `is_bracketed` and there are 2 or more ranks. The caller frees it. Errors: -ENOMEM. */
MUST_CHECK int rank_set_fold(const struct rank_set *set, bool is_bracketed, char **text_ret);

#endif
