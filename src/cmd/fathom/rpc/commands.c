/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * commands - the commands of `fathom rpc`. The build makes their table from src/rpc/methods/methods.def
 * (rpc_commands.gen.c). This file has the conversions of arguments that the table names; they are those of SPDK's rpc.py.
 */
#include <string.h>

#include "cmd/fathom/rpc/client.h"

const char *convert_size(json_t *params)
{
	const json_t *size = json_object_get(params, "total_size");
	json_int_t block_bytes = json_integer_value(json_object_get(params, "block_size"));
	double blocks;

	must(size);
	if (block_bytes <= 0)
		return "block_size is not above 0";
	if (json_is_integer(size)) {
		if (json_integer_value(size) > INT64_MAX >> 20 || json_integer_value(size) < 0)
			return "total_size is not a size in MiB";
		json_object_set_new(params, "num_blocks", json_integer((json_integer_value(size) << 20) / block_bytes));
	} else {
		blocks = json_real_value(size) * 1048576.0 / (double)block_bytes;
		if (!(blocks >= 0 && blocks < 9e15))
			return "total_size is not a size in MiB";
		json_object_set_new(params, "num_blocks", json_integer((json_int_t)blocks));
	}
	json_object_del(params, "total_size");
	return NULL;
}

const char *convert_null_size(json_t *params)
{
	if (json_integer_value(json_object_get(params, "dif_type")) &&
	    !json_integer_value(json_object_get(params, "md_size")))
		return "--md-size must be above 0 when --dif-type is";
	return convert_size(params);
}

const char *expand_discovery_nqn(json_t *params)
{
	const char *nqn = json_string_value(json_object_get(params, "nqn"));

	if (nqn && strcmp(nqn, "discovery") == 0)
		json_object_set_new(params, "nqn", json_string("nqn.2014-08.org.nvmexpress.discovery"));
	return NULL;
}

const struct rpc_command *rpc_command_find(const char *name)
{
	for (size_t i = 0; i < rpc_command_count; i++) {
		if (strcmp(rpc_commands[i].name, name) == 0)
			return &rpc_commands[i];
	}
	return NULL;
}

const struct rpc_command *rpc_command_at(size_t index)
{
	return index < rpc_command_count ? &rpc_commands[index] : NULL;
}
