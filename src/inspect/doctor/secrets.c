/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * secrets - removes secrets from what leaves the machine: the evidence, the report, the trace file.
 *
 * The doctor reads no environment, no key file, no configuration file, no log, and of a command line only the program. What
 * an engine itself has answered or noted is cleaned twice: by the names of members ("dhchap_key"), and by the forms that
 * secrets have wherever they stand: TLS keys (NVMeTLSkey-1:), DH-HMAC-CHAP secrets (DHHC-1:), private keys (PEM), and
 * words such as "password=".
 */
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "inspect/doctor/internal.h"

#define REMOVED "(removed)"

/* ---- by the names of members ---- */

static bool is_secret_name(const char *key)
{
	static const char *const words[] = { "secret", "psk",	  "password", "passphrase",
					     "dhchap", "private", "token",    "credential" };

	for (size_t i = 0; i < ARRAY_COUNT(words); i++) {
		if (strcasestr(key, words[i]))
			return true;
	}
	return strcasecmp(key, "key") == 0 || strcmp(key, "cmdline") == 0 || strcmp(key, "environ") == 0;
}

/* ---- by their form ---- */

/* Does the text at `at` begin with `word`, ignoring case? */
static bool begins_with(const char *at, const char *end, const char *word)
{
	size_t bytes = strlen(word);

	return (size_t)(end - at) >= bytes && strncasecmp(at, word, bytes) == 0;
}

static bool is_of_value(char byte)
{
	return (unsigned char)byte > ' ' && byte != '"' && byte != '\'' && byte != ',' && byte != ';' && byte != 0x7f;
}

/* Overwrite the value at `at`. Returns its end. */
static char *erase_value(char *at, const char *end)
{
	while (at < end && is_of_value(*at))
		*at++ = '*';
	return at;
}

/* A private key: from its first line to its last one, or to the end. Returns where it ends; `at`: it is none. */
static char *erase_private_key(char *at, const char *end)
{
	static const char begin[] = "-----BEGIN ", last[] = "-----END ", kind[] = "PRIVATE KEY-----";
	char *line;

	if (!begins_with(at, end, begin))
		return at;
	line = memmem(at, (size_t)(end - at) < 64 ? (size_t)(end - at) : 64, kind, strlen(kind));
	if (!line)
		return at;
	for (line += strlen(kind); line < end && !begins_with(line, end, last); line++) {
		if (*line != '\n' && *line != '\r')
			*line = '*';
	}
	return line;
}

void doctor_erase_keys(char *text, size_t bytes)
{
	static const char *const forms[] = { "NVMeTLSkey-1:", "DHHC-1:" };
	char *end = text + bytes;

	for (char *at = text; at < end; at++) {
		if (*at == '-')
			at = erase_private_key(at, end);
		for (size_t i = 0; i < ARRAY_COUNT(forms) && at < end; i++) {
			if (begins_with(at, end, forms[i]))
				at = erase_value(at + strlen(forms[i]), end);
		}
	}
}

/* A word such as "password", then '=' or ':', then perhaps blanks or a quotation mark, then the value. */
static void erase_words(char *text, size_t bytes)
{
	static const char *const words[] = {
		"password", "passphrase", "secret", "token", "psk", "dhchap_key", "private_key"
	};
	char *end = text + bytes;

	for (char *at = text; at < end; at++) {
		for (size_t i = 0; i < ARRAY_COUNT(words); i++) {
			char *value = at + strlen(words[i]);

			if (!begins_with(at, end, words[i]) || value >= end)
				continue;
			value += *value == '"' || *value == '\'';
			if (value >= end || (*value != '=' && *value != ':'))
				continue;
			for (value++; value < end && (*value == ' ' || *value == '"' || *value == '\''); value++)
				;
			(void)erase_value(value, end);
		}
	}
}

static json_t *clean_text(const json_t *value)
{
	char *copy = strdup(json_string_value(value));
	json_t *cleaned;

	must(copy);
	doctor_erase_keys(copy, strlen(copy));
	erase_words(copy, strlen(copy));
	cleaned = json_string(copy);
	/* only ASCII was replaced, or whole values: what is not UTF-8 any more goes as a whole */
	if (!cleaned)
		cleaned = json_string(REMOVED);
	must(cleaned);
	free(copy);
	return cleaned;
}

static void remove_secrets(json_t *value)
{
	json_t *inner;
	const char *key;
	size_t i;
	void *next;

	json_object_foreach_safe(value, next, key, inner)
	{
		if (is_secret_name(key))
			(void)json_object_set_new(value, key, json_string(REMOVED));
		else if (json_is_string(inner))
			(void)json_object_set_new(value, key, clean_text(inner));
		else
			remove_secrets(inner);
	}
	json_array_foreach (value, i, inner) {
		if (json_is_string(inner))
			(void)json_array_set_new(value, i, clean_text(inner));
		else
			remove_secrets(inner);
	}
}

json_t *doctor_without_secrets(const json_t *document)
{
	json_t *copy = json_deep_copy(document);

	must(copy);
	remove_secrets(copy);
	return copy;
}
