/* SPDX-License-Identifier: BSD-2-Clause */
/* The methods, sorted by name, and the state that decides which of them may be called. */
#include <stdlib.h>
#include <string.h>

#include "rpc/jsonrpc/internal.h"

static struct rpc_method_entry entries[RPC_METHODS_MAX];
static size_t entry_count;
static enum rpc_state state = RPC_STARTUP;

/* The index of `name`, or the one at which to insert it. */
static size_t position_of(const char *name)
{
	size_t low = 0, high = entry_count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (strcmp(entries[middle].method->name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void rpc_register(const struct rpc_method *methods, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		size_t at = position_of(methods[i].name);

		must(methods[i].fn);
		must((methods[i].states & RPC_ALWAYS) != 0);
		must(entry_count < RPC_METHODS_MAX);
		must(!method_find(methods[i].name));
		memmove(&entries[at + 1], &entries[at], (entry_count - at) * sizeof(entries[0]));
		entries[at] = (struct rpc_method_entry){ &methods[i], trace_intern(methods[i].name),
							 calloc(1, sizeof(struct rpc_method_times)) };
		must(entries[at].times);
		entry_count++;
	}
}

const struct rpc_method_entry *method_find(const char *name)
{
	size_t at = position_of(name);

	return at < entry_count && strcmp(entries[at].method->name, name) == 0 ? &entries[at] : NULL;
}

const struct rpc_method *rpc_method_at(size_t index)
{
	return index < entry_count ? entries[index].method : NULL;
}

const struct rpc_method_times *rpc_method_times_at(size_t index)
{
	must(index < entry_count);
	return entries[index].times;
}

void rpc_set_state(enum rpc_state to)
{
	must(to == RPC_STARTUP || to == RPC_RUNTIME);
	state = to;
}

enum rpc_state rpc_get_state(void)
{
	return state;
}
