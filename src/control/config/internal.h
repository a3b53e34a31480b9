/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of config. */
#ifndef CONTROL_CONFIG_INTERNAL_H
#define CONTROL_CONFIG_INTERNAL_H

#include "control/config/config.h"

enum { CONFIG_EXPECTED_BYTES = 256 };

/* The key with that name or alias, `bytes` long; NULL: none. */
const struct config_key *config_find_key(const struct config_schema *schema, const char *name, size_t bytes);

/* The allowed values of `key` as a phrase: "a number from 1 to 65535". Returns `text`, of CONFIG_EXPECTED_BYTES. */
const char *config_expected(const struct config_key *key, char *text);

/*
 * Parse the scalar `value` and store it at the offset of `key` in `target`. `expected_ret`, of CONFIG_EXPECTED_BYTES, gets
 * the allowed values. Errors: -EINVAL (not allowed), -ENOMEM.
 */
MUST_CHECK int config_set(const struct config_key *key, void *target, const char *value, bool is_quoted,
			  char *expected_ret);

/* Zero `target`, then store the defaults. Errors: -ENOMEM; then there is nothing to free. */
MUST_CHECK int config_set_defaults(const struct config_schema *schema, void *target);

#endif
