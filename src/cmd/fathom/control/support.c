/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom support - collects logs of hosts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd/fathom/command.h"
#include "cmd/fathom/control/control.h"
#include "cmd/fathom/show/show.h"

/*
 * Convert "2026-11-22" and "19:00:54" (NULL: `otherwise`) in local time to seconds. No day (NULL): today; neither day
 * nor time: 0. False: invalid.
 */
static bool read_time(const char *day, const char *time_of_day, const char *otherwise, uint64_t *seconds_ret)
{
	time_t now = time(NULL), then;
	struct tm tm = { 0 };
	const char *end;

	*seconds_ret = 0;
	if (!day && !time_of_day)
		return true;
	if (!day && !localtime_r(&now, &tm))
		return false;
	end = day ? strptime(day, "%Y-%m-%d", &tm) : "";
	if (!end || *end)
		return false;
	end = strptime(time_of_day ? time_of_day : otherwise, "%H:%M:%S", &tm);
	if (!end || *end)
		return false;
	tm.tm_isdst = -1;
	then = mktime(&tm);
	*seconds_ret = (uint64_t)then;
	return then > 0;
}

static bool read_kinds(const char *text, uint32_t *kinds_ret)
{
	static const struct {
		const char *name;
		uint32_t kind;
	} kinds[] = { { "control", FATHOM_CONTROL_LOGS_CONTROL },
		      { "admin", FATHOM_CONTROL_LOGS_CONTROL },
		      { "server", FATHOM_CONTROL_LOGS_ENGINES } };

	*kinds_ret = 0;
	for (const char *at = text; at && *at;) {
		size_t bytes = strcspn(at, ","), i = 0;

		while (i < ARRAY_COUNT(kinds) && (strlen(kinds[i].name) != bytes || memcmp(kinds[i].name, at, bytes) != 0))
			i++;
		if (i == ARRAY_COUNT(kinds))
			return false;
		*kinds_ret |= kinds[i].kind;
		at += bytes + (at[bytes] == ',');
	}
	return !text || *kinds_ret;
}

/* 0, or the exit status after an error message. */
static int read_collection(struct control_run *run, struct fathom_control_collection *what)
{
	const struct control_values *values = &run->values;
	const char *types = values->log_type;

	what->folder = values->target_folder ? values->target_folder : "fathom-logs";
	what->extra_folder = values->extra_logs_dir;
	what->stop_on_error = values->stop_on_error;
	if (!read_time(values->start_date, values->log_start_time, "00:00:00", &what->from_s))
		return control_bad(
			run, "--start-date is a day, such as 2026-11-22; --log-start-time is a time, such as 19:00:00");
	if (!read_time(values->end_date, values->log_end_time, "23:59:59", &what->until_s))
		return control_bad(run,
				   "--end-date is a day, such as 2026-11-22; --log-end-time is a time, such as 19:00:00");
	if (what->until_s && what->until_s < what->from_s)
		return control_bad(run, "the end is before the start");
	if (!read_kinds(types, &what->kinds))
		return control_bad(run, "--log-type: \"%s\" is not a list of admin, control and server", types);
	return 0;
}

int run_collect(struct control_run *run)
{
	struct fathom_control_collection what = { 0 };
	struct fathom_control_answers *answers;
	struct fathom_fault why;
	int status = read_collection(run, &what);

	if (status)
		return status;
	if (fathom_control_collect_log(run->control, &what, &answers, &why))
		return control_fail(run, &why);
	if (!control_is_json(run))
		show_logs(answers, stdout);
	(void)fflush(stdout); /* print results first */
	show_log_warnings(answers, stderr);
	return control_answered(run, answers, control_is_json(run) ? json_of_log_answers(answers) : NULL, NULL);
}
