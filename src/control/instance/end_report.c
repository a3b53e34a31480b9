/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the end report that an engine writes before it ends; data/engine/end_report.h describes the file. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "control/instance/internal.h"

enum { REPORT_BYTES = 1024 };

static void report_path(const struct instance *instance, char path[static INSTANCE_REPORT_PATH_BYTES])
{
	snprintf(path, INSTANCE_REPORT_PATH_BYTES, "%s/fathom_engine%u.end", instance->options.socket_dir,
		 instance->options.index);
}

void instance_remove_end_report(struct instance *instance)
{
	char path[INSTANCE_REPORT_PATH_BYTES];

	report_path(instance, path);
	/* a report that stays has the pid of another process, so read_report() ignores it */
	(void)!instance->options.os->calls->remove(instance->options.os, path);
}

static void read_report(struct instance *instance, uint64_t pid, char reason[static INSTANCE_END_BYTES])
{
	char path[INSTANCE_REPORT_PATH_BYTES], text[REPORT_BYTES], *next = text;
	uint64_t reporter;

	reason[0] = '\0';
	report_path(instance, path);
	if (provider_read_text(instance->options.os, path, text, sizeof(text)) != 0 ||
	    text_parse_u64(strsep(&next, " "), 10, INT32_MAX, &reporter) != 0 || reporter != pid || !next)
		return;
	text_copy_words(reason, INSTANCE_END_BYTES, next);
}

void instance_describe_end(struct instance *instance, uint64_t pid, char how[static INSTANCE_END_BYTES])
{
	char reason[INSTANCE_END_BYTES], whole[2 * INSTANCE_END_BYTES];

	read_report(instance, pid, reason);
	if (reason[0] == '\0')
		return;
	snprintf(whole, sizeof(whole), "%s: %s", how, reason);
	text_copy_words(how, INSTANCE_END_BYTES, whole);
}
