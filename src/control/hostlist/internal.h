/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of hostlist. */
#ifndef CONTROL_HOSTLIST_INTERNAL_H
#define CONTROL_HOSTLIST_INTERNAL_H

#include "control/hostlist/hostlist.h"

struct host_set {
	char **hosts; /* in the order of host_compare(); each allocated */
	size_t count;
	size_t room;
};

/* Compare numbers by value and other characters by byte. 0: equal texts. */
int host_compare(const char *a, const char *b);

/* Append; the set is then unsorted. Takes `host`, also on failure. Errors: -ENOMEM, -ERANGE. */
MUST_CHECK int host_set_append(struct host_set *set, char *host);

/* Sort, and remove duplicates. */
void host_set_sort(struct host_set *set);

/* Append the hosts of `text`; the set is then unsorted. Errors: -EINVAL (`why`: host_list_bad), -ENOMEM. */
MUST_CHECK int host_set_read(struct host_set *set, const char *text, struct fathom_fault *why);

#endif
