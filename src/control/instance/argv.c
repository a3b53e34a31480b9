/* SPDX-License-Identifier: BSD-2-Clause */
/* With what an engine is started: one row for each option, and where its value comes from. */
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

static bool say_index(const struct instance *instance, char *word)
{
	snprintf(word, WORD_BYTES, "%u", instance->options.index);
	return true;
}

static bool say_socket_dir(const struct instance *instance, char *word)
{
	(void)text_copy(word, WORD_BYTES, instance->options.socket_dir); /* what is too long was refused by create */
	return true;
}

static bool say_uuid(const struct instance *instance, char *word)
{
	member_uuid_format(instance->superblock.uuid, word);
	return true;
}

static bool say_address(const struct instance *instance, char *word)
{
	const struct instance_options *options = &instance->options;

	snprintf(word, WORD_BYTES, strchr(options->address, ':') ? "[%s]:%u" : "%s:%u", options->address, options->port);
	return true;
}

static bool say_provider(const struct instance *instance, char *word)
{
	(void)text_copy(word, WORD_BYTES, instance->options.provider); /* a longer one is cut, and refused by the engine */
	return true;
}

static bool say_storage(const struct instance *instance, char *word)
{
	(void)text_copy(word, WORD_BYTES, instance->options.mount); /* as socket_dir */
	return true;
}

static bool say_name(const struct instance *instance, char *word)
{
	snprintf(word, WORD_BYTES, "fathom%u", instance->options.index);
	return true;
}

static bool say_cpus(const struct instance *instance, char *word)
{
	if (!instance->options.cpus)
		return false;
	(void)text_copy(word, WORD_BYTES, instance->options.cpus); /* as provider */
	return true;
}

static bool say_rpc_socket(const struct instance *instance, char *word)
{
	(void)text_copy(word, WORD_BYTES, instance->rpc_socket); /* fits */
	return true;
}

static bool say_incarnation(const struct instance *instance, char *word)
{
	snprintf(word, WORD_BYTES, "%" PRIu64, instance->superblock.incarnation);
	return instance->superblock.incarnation > 0;
}

/* What was saved there, if anything was. */
static bool say_config(const struct instance *instance, char *word)
{
	snprintf(word, WORD_BYTES, "%s/engine.json", instance->options.mount);
	return access(word, R_OK) == 0;
}

static bool say_log_mask(const struct instance *instance, char *word)
{
	enum log_level level;

	if (!instance->options.log_mask || log_level_parse(instance->options.log_mask, &level) < 0)
		return false;
	(void)text_copy(word, WORD_BYTES, log_level_name(level)); /* fits */
	return true;
}

static const struct {
	const char *option;
	bool (*say)(const struct instance *instance, char *word); /* false: it is left out */
} options[] = {
	{ "--instance", say_index }, { "--socket-dir", say_socket_dir }, { "--uuid", say_uuid },
	{ "--listen", say_address }, { "--provider", say_provider },	 { "--storage", say_storage },
	{ "--name", say_name },	     { "--cpumask", say_cpus },		 { "--rpc-socket", say_rpc_socket },
	{ "--config", say_config },  { "--log-level", say_log_mask },	 { "--incarnation-above", say_incarnation },
};

static int add(char **words, size_t *count, const char *word)
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
	int error = add(argv, &count, instance->options.program);

	for (size_t i = 0; i < ARRAY_COUNT(options) && !error; i++) {
		if (!options[i].say(instance, word))
			continue;
		error = add(argv, &count, options[i].option);
		if (!error)
			error = add(argv, &count, word);
	}
	for (size_t i = 0; i < instance->options.argument_count && !error; i++)
		error = add(argv, &count, instance->options.arguments[i]);
	return error;
}

/* Is `name` said by the configuration itself? */
static bool is_set(const struct instance *instance, const char *name)
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

		if (!value || is_set(instance, name))
			continue;
		if (asprintf(&env[count], "%s=%s", name, value) < 0) {
			env[count] = NULL;
			error = -ENOMEM;
		} else {
			count++;
		}
	}
	for (size_t i = 0; i < instance->options.env_count && !error; i++)
		error = add(env, &count, instance->options.env[i]);
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
