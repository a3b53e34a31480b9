/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/db/record_json.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

static _Thread_local bool memory_failed;

static void *allocate_for_json(size_t bytes)
{
	void *memory = malloc(bytes);

	memory_failed |= !memory;
	return memory;
}

/* Values that jansson has allocated before stay valid: it used malloc() and free(), too. */
static void replace_allocator(void)
{
	json_set_alloc_funcs(allocate_for_json, free);
}

void record_json_begin(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	must(pthread_once(&once, replace_allocator) == 0);
	memory_failed = false;
}

int record_json_end(bool is_good)
{
	if (memory_failed)
		return -ENOMEM;
	return is_good ? 0 : -EBADMSG;
}
