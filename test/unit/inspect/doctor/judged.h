/* SPDX-License-Identifier: BSD-2-Clause */
/* judged - evidence that was written by hand, and its findings. */
#ifndef TEST_UNIT_INSPECT_DOCTOR_JUDGED_H
#define TEST_UNIT_INSPECT_DOCTOR_JUDGED_H

#include "inspect/doctor/doctor.h"

#define ALIVE "\"trace\": {\"state\": \"alive\", \"pid\": 7"

/* The findings of `text`, which is JSON. Pair: findings_destroy(). */
struct findings *judge(const char *text);
/* The only finding of `text` is `name`; "": there is none. */
void check_only(const char *text, const char *name);

#endif
