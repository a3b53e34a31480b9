/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of hostlist share. */
#ifndef CONTROL_HOSTLIST_INTERNAL_H
#define CONTROL_HOSTLIST_INTERNAL_H

#include "control/hostlist/hostlist.h"

struct host_set {
	char **hosts; /* in the order of host_compare(); each allocated */
	size_t count;
	size_t room;
};

/* Numbers by value, the rest by byte; 0: equal texts. */
int host_compare(const char *a, const char *b);

/* Append without keeping the order. Takes `host`, also when it fails. Errors: -ENOMEM, -ERANGE. */
MUST_CHECK int host_set_append(struct host_set *set, char *host);

/* In order, and each once. */
void host_set_sort(struct host_set *set);

/* Append, in no order, what `text` lists. Errors as of host_set_parse(). */
MUST_CHECK int host_set_read(struct host_set *set, const char *text, struct fault *why);

#endif
