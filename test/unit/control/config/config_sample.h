/* SPDX-License-Identifier: BSD-2-Clause */
/* A configuration with every type of key, for tests and the fuzzer. */
#ifndef TEST_UNIT_CONTROL_CONFIG_SAMPLE_H
#define TEST_UNIT_CONTROL_CONFIG_SAMPLE_H

#include "control/config/config.h"

struct sample_engine {
	char *name;
	uint64_t cores;
	struct config_strings disks;
};

struct sample_security {
	char *key;
	uint64_t tries;
};

struct sample {
	char *name;
	uint64_t port;
	uint64_t memory;
	bool is_on;
	uint32_t level;
	struct config_strings hosts;
	struct sample_security security;
	struct config_list engines;
};

static inline const struct sample_engine *engines_of(const struct sample *sample)
{
	return sample->engines.items;
}

static const char *absolute(const char *value)
{
	return *value == '/' ? NULL : "an absolute path";
}

static const char *const sample_levels[] = { "error", "warning", "info", NULL };

static const struct config_key sample_engine_keys[] = {
	{ .name = "name",
	  .type = CONFIG_STRING,
	  .offset = offsetof(struct sample_engine, name),
	  .initial = "engine",
	  .doc = "its name" },
	{ .name = "cores",
	  .type = CONFIG_NUMBER,
	  .offset = offsetof(struct sample_engine, cores),
	  .initial = "1",
	  .min = 1,
	  .max = 64,
	  .doc = "how many" },
	{ .name = "disks",
	  .type = CONFIG_STRINGS,
	  .offset = offsetof(struct sample_engine, disks),
	  .check = absolute,
	  .doc = "paths" },
};
static const struct config_schema sample_engine_schema = CONFIG_SCHEMA(struct sample_engine, sample_engine_keys);

static const struct config_key sample_security_keys[] = {
	{ .name = "key",
	  .type = CONFIG_STRING,
	  .offset = offsetof(struct sample_security, key),
	  .check = absolute,
	  .doc = "a path" },
	{ .name = "tries",
	  .type = CONFIG_NUMBER,
	  .offset = offsetof(struct sample_security, tries),
	  .initial = "3",
	  .doc = "how many" },
};
static const struct config_schema sample_security_schema = CONFIG_SCHEMA(struct sample_security, sample_security_keys);

static const struct config_key sample_keys[] = {
	{ .name = "name",
	  .type = CONFIG_STRING,
	  .offset = offsetof(struct sample, name),
	  .is_required = true,
	  .doc = "of the system" },
	{ .name = "port",
	  .alias = "listen",
	  .type = CONFIG_NUMBER,
	  .offset = offsetof(struct sample, port),
	  .initial = "10001",
	  .min = 1,
	  .max = 65535,
	  .doc = "where to listen" },
	{ .name = "memory",
	  .type = CONFIG_BYTES,
	  .offset = offsetof(struct sample, memory),
	  .initial = "4k",
	  .doc = "how much" },
	{ .name = "is_on", .type = CONFIG_BOOL, .offset = offsetof(struct sample, is_on), .doc = "whether" },
	{ .name = "level",
	  .type = CONFIG_CHOICE,
	  .offset = offsetof(struct sample, level),
	  .choices = sample_levels,
	  .doc = "of the log" },
	{ .name = "hosts", .type = CONFIG_STRINGS, .offset = offsetof(struct sample, hosts), .doc = "names" },
	{ .name = "security",
	  .type = CONFIG_MAP,
	  .offset = offsetof(struct sample, security),
	  .schema = &sample_security_schema,
	  .doc = "keys" },
	{ .name = "engines",
	  .type = CONFIG_LIST,
	  .offset = offsetof(struct sample, engines),
	  .schema = &sample_engine_schema,
	  .doc = "one each" },
};
static const struct config_schema sample_schema = CONFIG_SCHEMA(struct sample, sample_keys);

#endif
