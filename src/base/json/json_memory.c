/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/json/json_memory.h"

#include <errno.h>
#include <pthread.h>

static json_malloc_t allocate;
static json_free_t release;
static _Thread_local bool is_in_use, has_failed;

static void *allocate_for_json(size_t bytes)
{
	void *memory = allocate(bytes);

	has_failed |= !memory;
	return memory;
}

/* Values that jansson has allocated before stay valid: the same functions allocate and free, below ours. */
static void replace_allocator(void)
{
	json_get_alloc_funcs(&allocate, &release);
	must(allocate != allocate_for_json);
	json_set_alloc_funcs(allocate_for_json, release);
}

void json_memory_begin(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	must(pthread_once(&once, replace_allocator) == 0);
	must(!is_in_use);
	is_in_use = true;
	has_failed = false;
}

int json_memory_end(bool is_good)
{
	must(is_in_use);
	is_in_use = false;
	if (has_failed)
		return -ENOMEM;
	return is_good ? 0 : -EBADMSG;
}
