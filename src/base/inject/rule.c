/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules as text: "db_write=fail:ENOSPC,skip=2,count=1". */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/inject/inject.h"
#include "base/text.h"

enum { TEXT_BYTES_MAX = 256, ERRNO_MAX = 4095 };

static const char *const action_names[] = {
	[INJECT_FAIL] = "fail",
	[INJECT_DELAY] = "delay",
	[INJECT_CRASH] = "crash",
	[INJECT_HANG] = "hang",
};
static_assert(ARRAY_COUNT(action_names) == INJECT_ACTIONS, "a name for each action");

const char *inject_action_name(enum inject_action action)
{
	must((size_t)action < ARRAY_COUNT(action_names));
	return action_names[action];
}

const char *inject_rule_text(const struct inject_rule *rule, char to[static INJECT_RULE_BYTES])
{
	const char *name = rule->action == INJECT_FAIL && rule->error ? strerrorname_np(-rule->error) : NULL;
	size_t at = (size_t)snprintf(to, INJECT_RULE_BYTES, "%s", inject_action_name(rule->action));

	if (name)
		at += (size_t)snprintf(to + at, INJECT_RULE_BYTES - at, ":%s", name);
	else if (rule->action == INJECT_FAIL && rule->error)
		at += (size_t)snprintf(to + at, INJECT_RULE_BYTES - at, ":%d", -rule->error);
	if (rule->action == INJECT_DELAY)
		at += (size_t)snprintf(to + at, INJECT_RULE_BYTES - at, ":%" PRIu32 "ms", rule->delay_ms);
	if (rule->skip)
		at += (size_t)snprintf(to + at, INJECT_RULE_BYTES - at, ",skip=%" PRIu64, rule->skip);
	if (rule->count)
		at += (size_t)snprintf(to + at, INJECT_RULE_BYTES - at, ",count=%" PRIu64, rule->count);
	must(at < INJECT_RULE_BYTES);
	return to;
}

int inject_parse_errno(const char *text, int *error_ret, struct fathom_fault *why)
{
	uint64_t number;

	for (int i = 1; i <= ERRNO_MAX; i++) {
		const char *name = strerrorname_np(i);

		if (name && strcmp(name, text) == 0) {
			*error_ret = -i;
			return 0;
		}
	}
	if (text_parse_u64(text, 10, ERRNO_MAX, &number) != 0 || number == 0)
		return fault(why, -EINVAL, "\"%.64s\" is not the name of an errno, such as EIO", text);
	*error_ret = -(int)number;
	return 0;
}

static int parse_action(const char *text, struct inject_rule *rule, struct fathom_fault *why)
{
	const char *value = strchr(text, ':');
	size_t bytes = value ? (size_t)(value - text) : strlen(text);
	uint64_t ns;

	for (size_t i = 0; i < ARRAY_COUNT(action_names); i++) {
		if (strlen(action_names[i]) != bytes || memcmp(action_names[i], text, bytes) != 0)
			continue;
		rule->action = (enum inject_action)i;
		if (rule->action == INJECT_FAIL && value)
			return inject_parse_errno(value + 1, &rule->error, why);
		if (rule->action == INJECT_DELAY &&
		    (!value || text_parse_duration(value + 1, &ns) != 0 || ns > INJECT_DELAY_MS_MAX * NS_PER_MS))
			return fault(why, -EINVAL, "\"%.64s\": write delay:TIME, such as delay:500ms, at most %d s", text,
				     INJECT_DELAY_MS_MAX / 1000);
		if (rule->action == INJECT_DELAY)
			rule->delay_ms = (uint32_t)((ns + NS_PER_MS - 1) / NS_PER_MS);
		if (rule->action > INJECT_DELAY && value)
			return fault(why, -EINVAL, "\"%.64s\": %s takes no value", text, action_names[i]);
		return 0;
	}
	return fault(why, -EINVAL, "\"%.64s\" is none of fail, delay, crash and hang", text);
}

static int parse_number(const char *word, struct inject_rule *rule, struct fathom_fault *why)
{
	uint64_t *to = strncmp(word, "skip=", 5) == 0 ? &rule->skip : strncmp(word, "count=", 6) == 0 ? &rule->count : NULL;

	if (!to || text_parse_u64(strchr(word, '=') + 1, 10, UINT64_MAX, to) != 0)
		return fault(why, -EINVAL, "\"%.64s\" is neither skip=N nor count=N", word);
	return 0;
}

static int parse_rule(const char *text, enum inject_point *point_ret, struct inject_rule *rule, struct fathom_fault *why)
{
	char copy[TEXT_BYTES_MAX], *at, *word;
	int error;

	*rule = (struct inject_rule){ 0 };
	if (text_copy(copy, sizeof(copy), text) != 0)
		return fault(why, -EINVAL, "the rule \"%.64s...\" is too long", text);
	at = strchr(copy, '=');
	if (!at)
		return fault(why, -EINVAL, "\"%.64s\" is not a rule: write POINT=ACTION, such as db_write=fail", text);
	*at++ = '\0';
	error = inject_find(copy, point_ret, why);
	word = strsep(&at, ",");
	if (!error)
		error = parse_action(word, rule, why);
	while (!error && (word = strsep(&at, ",")))
		error = parse_number(word, rule, why);
	return error;
}

int inject_check_text(const char *text, struct fathom_fault *why)
{
	struct inject_rule rule;
	enum inject_point point;
	int error = parse_rule(text, &point, &rule, why);

	return error ? error : inject_check(point, &rule, why);
}

int inject_arm_text(const char *text, struct fathom_fault *why)
{
	struct inject_rule rule;
	enum inject_point point;
	int error = parse_rule(text, &point, &rule, why);

	return error ? error : inject_arm(point, &rule, why);
}

static int for_each_text(const char *texts, int (*call)(const char *text, struct fathom_fault *why),
			 struct fathom_fault *why)
{
	char text[TEXT_BYTES_MAX];
	int error = 0;

	while (!error && *(texts += strspn(texts, " ;\n"))) {
		size_t bytes = strcspn(texts, " ;\n");

		if (bytes >= sizeof(text))
			return fault(why, -EINVAL, "the rule \"%.64s...\" is too long", texts);
		memcpy(text, texts, bytes);
		text[bytes] = '\0';
		texts += bytes;
		error = call(text, why);
	}
	return error;
}

int inject_check_texts(const char *texts, struct fathom_fault *why)
{
	return for_each_text(texts, inject_check_text, why);
}

int inject_arm_texts(const char *texts, struct fathom_fault *why)
{
	return for_each_text(texts, inject_arm_text, why);
}
