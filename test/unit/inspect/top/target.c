/* SPDX-License-Identifier: BSD-2-Clause */
#include "target.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"

static const struct {
	const char *method;
	size_t at;
	const char *empty;
} answers[] = {
	{ "thread_get_stats", offsetof(struct target, threads), "{'threads':[]}" },
	{ "thread_get_pollers", offsetof(struct target, pollers), "{'threads':[]}" },
	{ "thread_get_io_channels", offsetof(struct target, channels), "{'threads':[]}" },
	{ "framework_get_reactors", offsetof(struct target, reactors), "{'tick_rate':1000000,'pid':7,'reactors':[]}" },
	{ "bdev_get_iostat", offsetof(struct target, iostat), "{'tick_rate':1000000,'bdevs':[]}" },
	{ "nvmf_get_subsystems", offsetof(struct target, subsystems), "[]" },
	{ "nvmf_get_stats", offsetof(struct target, buffers), "{'poll_groups':[]}" },
	{ "framework_get_summary", offsetof(struct target, summary), "{'alarms':[]}" },
	{ "spdk_get_version", offsetof(struct target, version), "{'version':'SPDK v26.09'}" },
	{ "nvmf_subsystem_get_controllers", offsetof(struct target, controllers), "[]" },
	{ "nvmf_subsystem_get_qpairs", offsetof(struct target, qpairs), "[]" },
};

json_t *parse(const char *text)
{
	char *json = strdup(text);
	json_error_t error;
	json_t *value;

	assert_non_null(json);
	for (char *at = json; *at; at++)
		*at = *at == '\'' ? '"' : *at;
	value = json_loads(json, 0, &error);
	if (!value)
		fail_msg("%s: %s", error.text, text);
	free(json);
	return value;
}

static size_t index_of(const char *method)
{
	size_t i = 0;

	while (i < ARRAY_COUNT(answers) && strcmp(answers[i].method, method) != 0)
		i++;
	assert_true(i < ARRAY_COUNT(answers));
	return i;
}

const char *empty_answer(const char *method)
{
	return answers[index_of(method)].empty;
}

struct top_sample *make_sample(const struct target *target, uint64_t now_ns)
{
	struct top_sample *sample = top_sample_create(TOP_ALL_TABS);
	const json_t *params;
	const char *method;

	while (top_sample_ask(sample, &method, &params)) {
		size_t i = index_of(method);
		const char *text = *(const char *const *)((const char *)target + answers[i].at);

		if (text && strcmp(text, NO) == 0)
			top_sample_refuse(sample, "Method not found");
		else if (text && strcmp(text, SILENT) == 0)
			top_sample_refuse(sample, TOP_CORE_SILENT);
		else
			top_sample_answer(sample, parse(text ? text : answers[i].empty), now_ns);
	}
	return sample;
}
