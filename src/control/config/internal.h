/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of config share. */
#ifndef CONTROL_CONFIG_INTERNAL_H
#define CONTROL_CONFIG_INTERNAL_H

#include "control/config/config.h"

enum { CONFIG_EXPECTED_BYTES = 256 };

/* The key of that name, or of that other name; NULL: none. */
const struct config_key *config_find_key(const struct config_schema *schema, const char *name, size_t bytes);

/* What `key` takes, as a phrase behind "write": "a number from 1 to 65535". Returns `text`, of CONFIG_EXPECTED_BYTES. */
const char *config_expected(const struct config_key *key, char *text);

/*
 * Put the scalar `value` where `key` has its place in `target`. `expected_ret`, of CONFIG_EXPECTED_BYTES, is filled where
 * it is not what is expected. Errors: -EINVAL, -ENOMEM.
 */
MUST_CHECK int config_set(const struct config_key *key, void *target, const char *value, bool is_quoted,
			  char *expected_ret);

/* All of `target` zero, but for the defaults. Errors: -ENOMEM; then there is nothing to free. */
MUST_CHECK int config_set_defaults(const struct config_schema *schema, void *target);

#endif
