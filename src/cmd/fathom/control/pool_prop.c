/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom pool get-prop, set-prop: names and values of properties, as words of the command line. */
#include <string.h>

#include "base/text.h"
#include "cmd/fathom/command.h"
#include "cmd/fathom/control/control.h"
#include "cmd/fathom/show/show.h"

/* The arguments behind the pool: NAME, NAME=VALUE or dmg's NAME:VALUE, also several with commas. Changes them. */
static int read_properties(const struct control_run *run, bool with_values, struct fathom_control_pool_property *properties,
			   size_t *count_ret)
{
	size_t count = 0;

	for (int i = 1; i < run->argc; i++) {
		char *rest = run->argv[i], *word;

		while ((word = strsep(&rest, ","))) {
			size_t length = strcspn(word, "=:");
			bool has_value = word[length] != '\0' && word[length + 1] != '\0';

			if (count == CONTROL_PAIRS_MAX)
				return control_bad(run, "more than %d properties", CONTROL_PAIRS_MAX);
			if (length == 0 || has_value != with_values || (!with_values && word[length]))
				return control_bad(run, with_values ? "\"%s\" is not NAME=VALUE" : "\"%s\" is not a name",
						   word);
			word[length] = '\0';
			properties[count].name = word;
			properties[count].value = with_values ? word + length + 1 : NULL;
			count++;
		}
	}
	*count_ret = count;
	return 0;
}

int run_pool_get_prop(struct control_run *run)
{
	struct fathom_control_pool_property asked[CONTROL_PAIRS_MAX] = { 0 };
	struct fathom_control_pool_properties *properties;
	struct fathom_fault why;
	size_t count;
	int status = read_properties(run, false, asked, &count);

	if (status)
		return status;
	if (fathom_control_pool_get_prop(run->control, run->argv[0], asked, count, &properties, &why))
		return control_fail(run, &why);
	if (!control_is_json(run))
		show_pool_properties(properties, run->argv[0], stdout);
	status = control_finish(run, control_is_json(run) ? json_pool_properties(properties) : NULL, NULL);
	fathom_control_free(properties);
	return status;
}

int run_pool_set_prop(struct control_run *run)
{
	struct fathom_control_pool_property asked[CONTROL_PAIRS_MAX] = { 0 };
	struct fathom_control_pool_set *set;
	struct fathom_fault why;
	size_t count;
	int status = read_properties(run, true, asked, &count);

	if (status)
		return status;
	if (fathom_control_pool_set_prop(run->control, run->argv[0], asked, count, &set, &why))
		return control_fail(run, &why);
	if (!control_is_json(run))
		show_pool_set(set, stdout);
	fathom_control_free(set);
	return control_finish(run, NULL, NULL);
}
