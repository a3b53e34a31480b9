/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records of the database as JSON, by jansson: shared by the files of db.
 *
 * When an allocation fails inside jansson, it may drop bytes of a string or of a key and report success, or report a syntax
 * error. A member with a missing byte must never be used or stored. So jansson allocates by our function, which remembers
 * failures, and each use stands between record_json_begin() and record_json_end().
 */
#ifndef CONTROL_DB_RECORD_JSON_H
#define CONTROL_DB_RECORD_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/must.h"

/* Forget earlier failures of this thread. Any thread. */
void record_json_begin(void);
/* The error since record_json_begin(): -ENOMEM if an allocation failed, else -EBADMSG if not `is_good`, else 0. */
MUST_CHECK int record_json_end(bool is_good);

#endif
