/* SPDX-License-Identifier: BSD-2-Clause */
/* show - the latest samples of each tab, and the columns of tabs: shared by the screen and --batch. */
#include <langinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"
#include "cmd/fathom/top/top.h"

/* The initial sort column of a tab. */
static const char *const first_sorts[] = {
	[TOP_THREADS] = "busy_us", [TOP_POLLERS] = "busy_runs", [TOP_CORES] = "core",
	[TOP_VOLUMES] = "iops",	   [TOP_HOSTS] = "iops",	[TOP_BUFFERS] = "lent_bytes",
};

static void read_program_name(struct top_show *show)
{
	char path[64], file[512];
	const char *slash;
	ssize_t bytes;

	snprintf(path, sizeof(path), "/proc/%lld/exe", (long long)show->pid);
	bytes = readlink(path, file, sizeof(file) - 1);
	file[bytes > 0 ? bytes : 0] = '\0';
	file[strcspn(file, " ")] = '\0'; /* removes the kernel's " (deleted)" */
	slash = strrchr(file, '/');
	(void)text_copy(show->program, sizeof(show->program), slash ? slash + 1 : file); /* long names are cut */
}

void top_show_init(struct top_show *show, uint64_t history_ns)
{
	*show = (struct top_show){ .pid = -1 };
	if (history_ns)
		show->history = top_history_create(history_ns / TOP_HISTORY_SLOTS);
}

static void keep_sample(struct top_show *show, struct top_sample *sample)
{
	top_sample_release(show->before_last);
	show->before_last = show->last;
	show->last = top_sample_hold(sample);
	for (enum top_tab tab = 0; tab < TOP_TABS; tab++) {
		if (!(top_sample_tabs(sample) & BIT(tab)))
			continue;
		top_sample_release(show->before[tab]);
		show->before[tab] = show->now[tab];
		show->now[tab] = top_sample_hold(sample);
	}
	if (!(top_sample_tabs(sample) & BIT(TOP_VOLUMES)))
		return;
	show->volumes_ns = show->sampled_ns;
	if (show->history)
		top_history_add(show->history, show->before[TOP_VOLUMES], show->now[TOP_VOLUMES]);
}

bool top_show_take(struct top_show *show, const struct top_reply *reply)
{
	show->sampled_ns = clock_monotonic_ns();
	show->lost = reply->why;
	(void)text_copy(show->path, sizeof(show->path), reply->path); /* same size */
	if (!reply->sample)
		return false;
	show->wall_sec = time(NULL);
	if (top_sample_pid(reply->sample) != show->pid) {
		show->pid = top_sample_pid(reply->sample);
		read_program_name(show);
	}
	keep_sample(show, reply->sample);
	top_sample_release(reply->sample);
	return true;
}

void top_show_deinit(struct top_show *show)
{
	for (enum top_tab tab = 0; tab < TOP_TABS; tab++) {
		top_sample_release(show->before[tab]);
		top_sample_release(show->now[tab]);
	}
	top_sample_release(show->last);
	top_sample_release(show->before_last);
	top_history_destroy(show->history);
}

double top_show_seconds(const struct top_show *show, enum top_tab tab)
{
	return show->before[tab] ? top_seconds(show->before[tab], show->now[tab], tab) : 0;
}

int32_t top_show_column(enum top_tab tab, const char *key)
{
	uint32_t count;
	const struct top_column *columns = top_columns(tab, &count);

	if (!key)
		key = first_sorts[tab];
	for (uint32_t i = 0; i < count; i++) {
		if (strcasecmp(columns[i].key, key) == 0 || strcasecmp(columns[i].title, key) == 0 ||
		    (columns[i].key_total && strcasecmp(columns[i].key_total, key) == 0))
			return (int32_t)i;
	}
	return -1;
}

bool top_show_is_text(enum top_unit unit)
{
	return unit == TOP_UNIT_TEXT || unit == TOP_UNIT_NAME;
}

bool top_show_descending(enum top_tab tab, uint32_t column)
{
	uint32_t count;
	const struct top_column *columns = top_columns(tab, &count);

	must(column < count);
	return !top_show_is_text(columns[column].unit) && strcmp(columns[column].key, "core") != 0 &&
	       strcmp(columns[column].key, "id") != 0;
}

bool top_show_is_utf8(void)
{
	return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

const char *top_show_title(const struct top_column *column, bool totals)
{
	return totals && column->title_total ? column->title_total : column->title;
}

enum top_unit top_show_unit(const struct top_column *column, bool totals)
{
	return totals ? column->unit_total : column->unit;
}
