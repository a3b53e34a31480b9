/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by answers of many hosts: failed hosts, and the form of their JSON. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "cmd/fathom/show/show.h"
#include "cmd/fathom/show/parts.h"
#include "control/fault/fault.h"

static const char *error_text(const struct fathom_fault *why, char *text, size_t bytes)
{
	struct fault_shown shown;

	fault_show((const struct fathom_fault *)why, &shown);
	return fault_message(&shown, text, bytes);
}

/* Is it the first error with its code? Its resolution is printed once. */
static bool is_first_of_code(const struct fathom_control_answers *answers, size_t index)
{
	for (size_t i = 0; i < index; i++) {
		if (answers->errors[i].why.code == answers->errors[index].why.code)
			return false;
	}
	return answers->errors[index].why.code != 0;
}

/* Print the second line of a fault, its resolution. */
static void show_resolution(const struct fathom_fault *why, FILE *out)
{
	char lines[FAULT_LINES_BYTES_MAX];
	struct fault_shown shown;
	const char *end;

	fault_show((const struct fathom_fault *)why, &shown);
	fault_print(&shown, "ERROR: fathom: ", lines, sizeof(lines));
	end = strchr(lines, '\n');
	if (end)
		fputs(end + 1, out);
}

void show_errors(const struct fathom_control_answers *answers, FILE *out)
{
	static const char *const titles[] = { "Hosts", "Error" };
	struct folded *folded;
	char text[FAULT_LINES_BYTES_MAX];

	if (answers->error_count == 0)
		return;
	folded = folded_create(FOLDED_HOSTS, titles, ARRAY_COUNT(titles));
	for (size_t i = 0; i < answers->error_count; i++)
		folded_add(folded, answers->errors[i].hosts,
			   (const char *[]){ error_text(&answers->errors[i].why, text, sizeof(text)) });
	fprintf(out, "Errors:\n");
	folded_finish(folded, false, 2, out);
	fputc('\n', out);
	for (size_t i = 0; i < answers->error_count; i++) {
		if (is_first_of_code(answers, i))
			show_resolution(&answers->errors[i].why, out);
	}
}

json_t *json_faults(const struct fathom_control_answers *answers)
{
	json_t *faults = json_array();

	for (size_t i = 0; i < answers->error_count; i++)
		append(faults, json_fault(&answers->errors[i].why, answers->errors[i].hosts));
	return faults;
}

json_t *json_answers(const struct fathom_control_answers *answers, const char *name, const char *hosts_key,
		     const char *body_key, json_t *(*body)(const struct fathom_control_answer *answer))
{
	json_t *response = json_object(), *errors = json_object(), *groups = json_object();
	char text[FAULT_LINES_BYTES_MAX];

	for (size_t i = 0; i < answers->error_count; i++)
		put_text(errors, error_text(&answers->errors[i].why, text, sizeof(text)), answers->errors[i].hosts);
	for (size_t i = 0; i < answers->count; i++) {
		json_t *group = json_object();
		char key[SIZE_TEXT_BYTES];

		put(group, body_key, body(&answers->answers[i]));
		put_text(group, hosts_key, answers->answers[i].hosts);
		put(groups, number_text(answers->answers[i].hash, key), group);
	}
	put(response, "host_errors", errors);
	put(response, name, groups);
	return response;
}
