/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "inspect/doctor/findings.gen.h"
#include "judged.h"

struct findings *judge(const char *text)
{
	json_error_t error;
	json_t *evidence = json_loads(text, 0, &error);
	struct findings *list;

	if (!evidence)
		fail_msg("%s: %s", error.text, text);
	list = doctor_judge(evidence);
	json_decref(evidence);
	return list;
}

void check_only(const char *text, const char *name)
{
	struct findings *list = judge(text);

	for (uint32_t i = 0; i < list->count; i++)
		assert_string_equal(finding_name(&list->rows[i]), i == 0 ? name : "one finding");
	if (list->count != (name[0] != '\0'))
		fail_msg("%u findings of %s", list->count, text);
	findings_destroy(list);
}
