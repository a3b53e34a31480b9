/* SPDX-License-Identifier: BSD-2-Clause */
/* The arguments and the environment of an engine: one row for each option, with the function that formats its value. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/log.h"
#include "base/text.h"
#include "control/instance/internal.h"

enum { WORD_BYTES = INSTANCE_PATH_BYTES + 64 };

static bool format_index(const struct instance *instance, char *word)
{
	snprintf(word, WORD_BYTES, "%u", instance->options.index);
	return true;
}

static bool format_socket_dir(const struct instance *instance, char *word)
{
	(void)text_copy(word, WORD_BYTES, instance->options.socket_dir); /* instance_create() rejects too long a path */
	return true;
}

static bool format_uuid(const struct instance *instance, char *word)
{
	member_uuid_format(instance->superblock.uuid, word);
	return true;
}

static bool format_address(const struct instance *instance, char *word)
{
	const struct instance_options *options = &instance->options;

	snprintf(word, WORD_BYTES, strchr(options->address, ':') ? "[%s]:%u" : "%s:%u", options->address, options->port);
	return true;
}

static bool format_provider(const struct instance *instance, char *word)
{
	(void)text_copy(word, WORD_BYTES, instance->options.provider); /* too long a text is cut; the engine rejects it */
	return true;
}

static bool format_storage(const struct instance *instance, char *word)
{
	(void)text_copy(word, WORD_BYTES, instance->options.mount); /* as socket_dir */
	return true;
}

static bool format_name(const struct instance *instance, char *word)
{
	snprintf(word, WORD_BYTES, "fathom%u", instance->options.index);
	return true;
}

static bool format_cpus(const struct instance *instance, char *word)
{
	if (!instance->options.cpus)
		return false;
	(void)text_copy(word, WORD_BYTES, instance->options.cpus); /* as provider */
	return true;
}

static bool format_rpc_socket(const struct instance *instance, char *word)
{
	(void)text_copy(word, WORD_BYTES, instance->rpc_socket); /* fits */
	return true;
}

static bool format_incarnation(const struct instance *instance, char *word)
{
	snprintf(word, WORD_BYTES, "%" PRIu64, instance->superblock.incarnation);
	return instance->superblock.incarnation > 0;
}

/* The file in which the engine keeps its configuration. */
static bool format_state(const struct instance *instance, char *word)
{
	snprintf(word, WORD_BYTES, "%s/engine.json", instance->options.mount);
	return true;
}

static bool format_log_mask(const struct instance *instance, char *word)
{
	enum log_level level;

	if (!instance->options.log_mask || log_level_parse(instance->options.log_mask, &level) < 0)
		return false;
	(void)text_copy(word, WORD_BYTES, log_level_name(level)); /* fits */
	return true;
}

static bool format_paranoid(const struct instance *instance, char *word)
{
	snprintf(word, WORD_BYTES, "%" PRIu32, instance->options.paranoid_blocks);
	return instance->options.paranoid_blocks > 0;
}

static const struct {
	const char *option;
	bool (*format)(const struct instance *instance, char *word); /* false: the option is omitted */
} options[] = {
	{ "--instance", format_index },
	{ "--socket-dir", format_socket_dir },
	{ "--uuid", format_uuid },
	{ "--listen", format_address },
	{ "--provider", format_provider },
	{ "--storage", format_storage },
	{ "--name", format_name },
	{ "--cpumask", format_cpus },
	{ "--rpc-socket", format_rpc_socket },
	{ "--state", format_state },
	{ "--log-level", format_log_mask },
	{ "--incarnation-above", format_incarnation },
	{ "--paranoid", format_paranoid },
};

static int add_word(char **words, size_t *count, const char *word)
{
	words[*count] = strdup(word);
	if (!words[*count])
		return -ENOMEM;
	++*count;
	return 0;
}

static int make_argv(const struct instance *instance, char **argv)
{
	char word[WORD_BYTES];
	size_t count = 0;
	int error = add_word(argv, &count, instance->options.program);

	for (size_t i = 0; i < ARRAY_COUNT(options) && !error; i++) {
		if (!options[i].format(instance, word))
			continue;
		error = add_word(argv, &count, options[i].option);
		if (!error)
			error = add_word(argv, &count, word);
	}
	for (size_t i = 0; i < instance->options.argument_count && !error; i++)
		error = add_word(argv, &count, instance->options.arguments[i]);
	return error;
}

/* The configuration sets the variable `name`. */
static bool is_configured(const struct instance *instance, const char *name)
{
	size_t bytes = strlen(name);

	for (size_t i = 0; i < instance->options.env_count; i++) {
		if (strncmp(instance->options.env[i], name, bytes) == 0 && instance->options.env[i][bytes] == '=')
			return true;
	}
	return false;
}

static int make_env(const struct instance *instance, char **env)
{
	size_t count = 0;
	int error = 0;

	for (size_t i = 0; i < instance->options.env_pass_count && !error; i++) {
		const char *name = instance->options.env_pass[i], *value = getenv(name);

		if (!value || is_configured(instance, name))
			continue;
		if (asprintf(&env[count], "%s=%s", name, value) < 0) {
			env[count] = NULL;
			error = -ENOMEM;
		} else {
			count++;
		}
	}
	for (size_t i = 0; i < instance->options.env_count && !error; i++)
		error = add_word(env, &count, instance->options.env[i]);
	return error;
}

int instance_words_make(const struct instance *instance, struct instance_words *words_ret)
{
	const struct instance_options *o = &instance->options;
	struct instance_words words = {
		.argv = calloc(1 + 2 * ARRAY_COUNT(options) + o->argument_count + 1, sizeof(char *)),
		.env = calloc(o->env_pass_count + o->env_count + 1, sizeof(char *)),
	};
	int error = words.argv && words.env ? 0 : -ENOMEM;

	if (!error)
		error = make_argv(instance, words.argv);
	if (!error)
		error = make_env(instance, words.env);
	if (error)
		instance_words_free(&words);
	else
		*words_ret = words;
	return error;
}

void instance_words_free(struct instance_words *words)
{
	for (size_t i = 0; words->argv && words->argv[i]; i++)
		free(words->argv[i]);
	for (size_t i = 0; words->env && words->env[i]; i++)
		free(words->env[i]);
	free(words->argv);
	free(words->env);
}
