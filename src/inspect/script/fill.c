/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fill - walks once over a script's tokens and writes the program.
 *
 * The walk distinguishes three places: outside of blocks (attach points, predicates), in the declaration of a structure,
 * and in a probe's block. It needs to know no more of the language.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "inspect/script/attached.h"
#include "inspect/script/nearest.h"
#include "inspect/script/script.h"
#include "inspect/script/tokens.h"

#define MARK "\\036%lx,%x\\037"
#define OPEN_MARK "\\036%lx,%x\\034"
#define TEXT_END "\\035"
#define HEARTBEAT "\nprofile:ms:100 { printf(\"" MARK TEXT_END "\", nsecs, cpu); }\n"

enum { TABLES_MAX = 64, ATTACH_BYTES_MAX = 4096 + 2 * NOTES_NAME_BYTES };

enum block { BLOCK_NONE, BLOCK_BEGIN, BLOCK_END, BLOCK_INTERVAL, BLOCK_OTHER };

struct filling {
	const struct token *tokens;
	uint32_t token_count;
	const struct script_target *target;
	FILE *out;
	const struct script_table *used[TABLES_MAX];
	uint32_t used_count;
	/* state of the walk */
	uint32_t depth;	  /* of braces */
	bool declares;	  /* the outermost brace belongs to a structure */
	enum block block; /* the next or the current block */
	struct attached attached;
	bool has_begin, has_end, defines_pid;
	bool prints_anywhere; /* prints in a block that several CPUs may run at once */
};

/* ---- neighbours ---- */

/* The next token from `at` on that is not blank, or the previous one; NULL: none. */
static const struct token *next_token(const struct filling *filling, uint32_t at)
{
	return token_next(filling->tokens, filling->token_count, at);
}

static const struct token *previous_token(const struct filling *filling, uint32_t at)
{
	return token_previous(filling->tokens, at);
}

static uint32_t token_index(const struct filling *filling, const struct token *token)
{
	return (uint32_t)(token - filling->tokens);
}

static int token_line(const struct filling *filling, const struct token *token)
{
	int number = 1;

	for (const char *at = filling->tokens[0].text; at < token->text; at++)
		number += *at == '\n';
	return number;
}

/* ---- tables ---- */

/* The index behind the ']' that matches the '[' at `at`. `keys_ret`: number of keys in between. */
static uint32_t index_behind_bracket(const struct filling *filling, uint32_t at, uint32_t *keys_ret)
{
	int depth = 0;

	*keys_ret = 1;
	for (; at < filling->token_count; at++) {
		const struct token *token = &filling->tokens[at];

		if (token_is(token, "[") || token_is(token, "("))
			depth++;
		else if (token_is(token, "]") || token_is(token, ")"))
			depth--;
		else if (token_is(token, ",") && depth == 1)
			(*keys_ret)++;
		if (depth == 0)
			return at + 1;
	}
	return at;
}

/* Is the map at the '@' `at` written there, or does it have several keys? Then it belongs to the script. */
static bool is_written(const struct filling *filling, uint32_t at)
{
	const struct token *before = previous_token(filling, at), *bracket = next_token(filling, at + 2);
	const struct token *behind, *second;
	uint32_t keys;

	if (!token_is(bracket, "["))
		return true;
	behind = next_token(filling, index_behind_bracket(filling, token_index(filling, bracket), &keys));
	if (keys != 1)
		return true;
	if (token_is(before, "+") || token_is(before, "-")) {
		/* ++@x[1]; but not a + @x[1] */
		const struct token *twice = before > filling->tokens ? before - 1 : NULL;

		if (twice && token_is(twice, (char[]){ *before->text, '\0' }))
			return true;
	}
	if (token_is(before, "("))
		before = previous_token(filling, token_index(filling, before));
	if (token_is(before, "delete"))
		return true;
	second = behind && token_index(filling, behind) + 1 < filling->token_count ? behind + 1 : NULL;
	if (token_is(behind, "="))
		return !token_is(second, "=");
	if (token_is(behind, "+") || token_is(behind, "-"))
		return token_is(second, "=") || token_is(second, (char[]){ *behind->text, '\0' });
	return (token_is(behind, "*") || token_is(behind, "/") || token_is(behind, "|") || token_is(behind, "&")) &&
	       token_is(second, "=");
}

/* Does the script read `table` without writing to it? */
static bool reads_table(const struct filling *filling, const struct script_table *table)
{
	bool used = false;

	for (uint32_t at = 0; at + 1 < filling->token_count; at++) {
		if (!token_is(&filling->tokens[at], "@") || !token_is(&filling->tokens[at + 1], table->name))
			continue;
		if (is_written(filling, at))
			return false;
		used = true;
	}
	return used;
}

static void find_tables(struct filling *filling)
{
	for (uint32_t i = 0; i < filling->target->table_count && filling->used_count < TABLES_MAX; i++) {
		if (reads_table(filling, &filling->target->tables[i]))
			filling->used[filling->used_count++] = &filling->target->tables[i];
	}
}

static void write_tables(const struct filling *filling)
{
	for (uint32_t i = 0; i < filling->used_count; i++) {
		const struct reader_enum *words = filling->used[i]->words;

		for (uint32_t label = 0; label < words->label_count; label++) {
			const char *text = words->labels[label].text;

			if (!strpbrk(text, "\"\\%\n"))
				fprintf(filling->out, " @%s[%" PRId64 "] = \"%s\";", filling->used[i]->name,
					words->labels[label].value, text);
		}
	}
}

/*
 * At the end, clear the tables, so that they are not printed as results, and mark the time at which bpftrace prints its
 * maps.
 */
static void write_clearing(const struct filling *filling)
{
	for (uint32_t i = 0; i < filling->used_count; i++)
		fprintf(filling->out, " clear(@%s);", filling->used[i]->name);
	fputs(" printf(\"" OPEN_MARK "\", nsecs, cpu);", filling->out);
}

/* ---- attach points ---- */

static const struct note_probe *probe_of(const struct notes *notes, const char *provider, const char *name)
{
	for (uint32_t i = 0; i < notes->probe_count; i++) {
		if (strcmp(notes->probes[i].name, name) == 0 &&
		    (!provider || strcmp(notes->probes[i].provider, provider) == 0))
			return &notes->probes[i];
	}
	return NULL;
}

static int report_unknown_probe(const struct filling *filling, const struct token *token, const char *name,
				struct fathom_fault *why)
{
	const struct note_probe *nearest = nearest_probe(filling->target->notes, name);

	return fault(why, -ENOENT, "line %d: %s has no probe \"%s\"%s%s%s; `fathom probe list %d` has all",
		     token_line(filling, token), filling->target->name, name, nearest ? "; did you mean \"" : "",
		     nearest ? nearest->name : "", nearest ? "\"?" : "", filling->target->pid);
}

/*
 * Find the provider of a probe. Scripts for SPDK name the provider "spdk", which we do not have, and name some probes by
 * their functions.
 */
static int find_probe(const struct filling *filling, const struct token *token, const char *provider, const char *name,
		      const struct note_probe **probe_ret, struct fathom_fault *why)
{
	const struct notes *notes = filling->target->notes;

	*probe_ret = probe_of(notes, provider, name);
	if (!*probe_ret && provider && strcmp(provider, "spdk") == 0) {
		*probe_ret = probe_of(notes, NULL, name);
		if (!*probe_ret && strncmp(name, "spdk_", strlen("spdk_")) == 0)
			*probe_ret = probe_of(notes, NULL, name + strlen("spdk_"));
	}
	return *probe_ret ? 0 : report_unknown_probe(filling, token, name, why);
}

/* Length of the attach point at `at`. */
static size_t attach_bytes(const char *at)
{
	return strcspn(at, " \t\r\n,{");
}

/* "usdt:__EXE__:PROVIDER:NAME". `*taken_ret`: tokens consumed; 0: another program's probe, or a pattern. */
static int write_usdt(struct filling *filling, uint32_t at, uint32_t *taken_ret, struct fathom_fault *why)
{
	const struct token *token = &filling->tokens[at];
	char text[ATTACH_BYTES_MAX], *rest = text, *parts[4] = { NULL };
	size_t bytes = attach_bytes(token->text);
	const struct note_probe *probe;
	uint32_t count = 0, end = at;

	*taken_ret = 0;
	if (bytes >= sizeof(text))
		return 0;
	memcpy(text, token->text, bytes);
	text[bytes] = '\0';
	while (count < 4 && (parts[count] = strsep(&rest, ":")))
		count++;
	if (count < 3 || rest || strpbrk(parts[count - 1], "*?[") || (count == 4 && strpbrk(parts[2], "*?[")) ||
	    (strcmp(parts[1], "__EXE__") != 0 && strcmp(parts[1], "EXE") != 0 &&
	     strcmp(parts[1], filling->target->path) != 0))
		return 0;
	int rc = find_probe(filling, token, count == 4 ? parts[2] : NULL, parts[count - 1], &probe, why);

	if (rc)
		return rc;
	fprintf(filling->out, "usdt:%s:%s:%s", filling->target->path, probe->provider, probe->name);
	while (end < filling->token_count && filling->tokens[end].text < token->text + bytes)
		end++;
	*taken_ret = end - at;
	return 0;
}

/* ---- words ---- */

static void write_token(const struct filling *filling, const struct token *token)
{
	fwrite(token->text, 1, token->bytes, filling->out);
}

/* Write a string, with __EXE__ and __PID__ replaced. */
static void write_string_body(const struct filling *filling, const char *at, size_t bytes)
{
	const char *end = at + bytes;

	while (at < end) {
		size_t left = (size_t)(end - at);

		if (left >= 7 && memcmp(at, "__EXE__", 7) == 0) {
			fputs(filling->target->path, filling->out);
			at += 7;
		} else if (left >= 7 && memcmp(at, "__PID__", 7) == 0) {
			fprintf(filling->out, "%d", filling->target->pid);
			at += 7;
		} else {
			fputc(*at++, filling->out);
		}
	}
}

/* Can this PID be replaced by a number? */
static bool is_pid(const struct filling *filling, uint32_t at)
{
	const struct token *before = previous_token(filling, at);

	if (filling->defines_pid || token_is(next_token(filling, at + 1), "(") || token_is(before, "@") ||
	    token_is(before, "$") || token_is(before, ".") || token_is(before, "struct"))
		return false;
	return !(token_is(before, ">") && before > filling->tokens && token_is(before - 1, "-"));
}

static bool is_neighbour(const struct filling *filling, uint32_t at, const char *text)
{
	return at < filling->token_count && token_is(&filling->tokens[at], text);
}

/* Write printf("...". Returns the tokens consumed; 0: not a printf with a literal format. */
static uint32_t write_printf(struct filling *filling, uint32_t at)
{
	const struct token *open = next_token(filling, at + 1);
	const struct token *format = open && token_is(open, "(") ? next_token(filling, token_index(filling, open) + 1)
								 : NULL;

	if (!format || format->kind != TOKEN_STRING)
		return 0;
	for (const struct token *token = &filling->tokens[at]; token < format; token++)
		write_token(filling, token);
	fputs("\"" MARK, filling->out);
	write_string_body(filling, format->text + 1, format->bytes - 2);
	fputs(TEXT_END "\", nsecs, cpu", filling->out);
	return token_index(filling, format) + 1 - at;
}

/* Write a time mark in front of statements that print without a format. */
static void write_mark(struct filling *filling, uint32_t at)
{
	static const char *const words[] = { "print", "time", "join", "cat", "system" };
	const struct token *before = previous_token(filling, at);

	if (!token_is(next_token(filling, at + 1), "(") ||
	    !(token_is(before, ";") || token_is(before, "{") || token_is(before, "}")))
		return;
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		if (!token_is(&filling->tokens[at], words[i]))
			continue;
		fputs("printf(\"" OPEN_MARK "\", nsecs, cpu); ", filling->out);
		filling->prints_anywhere |= filling->block == BLOCK_OTHER;
	}
}

static const struct types_alias *alias_of(const struct filling *filling, const char *kind, const struct token *token)
{
	size_t bytes = strlen(kind);

	for (uint32_t i = 0; i < filling->target->alias_count; i++) {
		const struct types_alias *alias = &filling->target->aliases[i];

		if (strncmp(alias->name, kind, bytes) == 0 && token_is(token, alias->name + bytes))
			return alias;
	}
	return NULL;
}

static bool is_kind_of_type(const struct token *token)
{
	return token_is(token, "struct") || token_is(token, "union") || token_is(token, "enum");
}

/* Write bpftrace's alias of a type. Returns the tokens consumed; 0: no alias. */
static uint32_t write_type(const struct filling *filling, uint32_t at)
{
	const struct token *token = &filling->tokens[at], *name = token;
	const struct types_alias *alias = NULL;

	if (is_kind_of_type(token)) {
		char kind[8];

		/* in a block that reads only the kernel, a structure name means the kernel's structure */
		name = next_token(filling, at + 1);
		snprintf(kind, sizeof(kind), "%.*s ", (int)token->bytes, token->text);
		if (name && (token_is(token, "enum") || !attached_to_kernel_alone(&filling->attached)))
			alias = alias_of(filling, kind, name);
	} else if (tokens_are_cast(filling->tokens, filling->token_count, at)) {
		alias = alias_of(filling, "", token);
	}
	if (!alias)
		return 0;
	fputs(alias->spelled, filling->out);
	return token_index(filling, name) + 1 - at;
}

static uint32_t write_word(struct filling *filling, uint32_t at)
{
	const struct token *token = &filling->tokens[at];
	uint32_t taken = 1;

	if (!filling->declares && (taken = write_type(filling, at)))
		return taken;
	taken = 1;
	if (token_is(token, "__EXE__") || (token_is(token, "EXE") && filling->depth == 0 && at > 0 &&
					   is_neighbour(filling, at - 1, ":") && is_neighbour(filling, at + 1, ":"))) {
		fputs(filling->target->path, filling->out);
	} else if (token_is(token, "__PID__") || (token_is(token, "PID") && !filling->declares && is_pid(filling, at))) {
		fprintf(filling->out, "%d", filling->target->pid);
	} else if (filling->depth && !filling->declares && token_is(token, "printf") &&
		   (taken = write_printf(filling, at))) {
		filling->prints_anywhere |= filling->block == BLOCK_OTHER;
	} else {
		taken = 1;
		if (filling->depth && !filling->declares)
			write_mark(filling, at);
		write_token(filling, token);
	}
	return taken;
}

/* ---- blocks ---- */

/* A word outside of blocks: determine the kind of the next block. */
static void read_block_header(struct filling *filling, uint32_t at)
{
	const struct token *token = &filling->tokens[at], *name = next_token(filling, at + 1);

	attached_take(&filling->attached, filling->tokens, filling->token_count, at);
	if (is_kind_of_type(token) && name &&
	    (token_is(name, "{") || token_is(next_token(filling, token_index(filling, name) + 1), "{")))
		filling->declares = true;
	else if (token_is(token, "BEGIN"))
		filling->block = BLOCK_BEGIN;
	else if (token_is(token, "END"))
		filling->block = BLOCK_END;
	else if (token_is(token, "interval") && filling->block == BLOCK_NONE)
		filling->block = BLOCK_INTERVAL;
	else if (filling->block == BLOCK_NONE)
		filling->block = BLOCK_OTHER;
}

static void write_char(struct filling *filling, const struct token *token)
{
	if (token_is(token, "}") && filling->depth == 1 && !filling->declares && filling->block == BLOCK_END) {
		const struct token *before = previous_token(filling, token_index(filling, token));

		if (!token_is(before, ";") && !token_is(before, "{") && !token_is(before, "}"))
			fputc(';', filling->out);
		write_clearing(filling);
		filling->has_end = true;
	}
	write_token(filling, token);
	if (token_is(token, "{")) {
		if (filling->depth++ == 0 && !filling->declares && filling->block == BLOCK_BEGIN) {
			write_tables(filling);
			filling->has_begin = true;
		}
	} else if (token_is(token, "}") && filling->depth && --filling->depth == 0) {
		filling->declares = false;
		filling->block = BLOCK_NONE;
		filling->attached = (struct attached){ 0 };
	}
}

static void write_script_end(struct filling *filling, struct script_program *program)
{
	if (filling->used_count && !filling->has_begin) {
		fputs("\nBEGIN {", filling->out);
		write_tables(filling);
		fputs(" }\n", filling->out);
	}
	if (!filling->has_end) {
		fputs("\nEND {", filling->out);
		write_clearing(filling);
		fputs(" }\n", filling->out);
	}
	if (filling->prints_anywhere)
		fputs(HEARTBEAT, filling->out);
	program->beats = filling->prints_anywhere;
}

static int write_tokens(struct filling *filling, struct fathom_fault *why)
{
	for (uint32_t at = 0; at < filling->token_count;) {
		const struct token *token = &filling->tokens[at];
		uint32_t taken = 0;

		if (token->kind == TOKEN_WORD && filling->depth == 0)
			read_block_header(filling, at);
		if (token->kind == TOKEN_WORD && filling->depth == 0 && (token_is(token, "usdt") || token_is(token, "U"))) {
			int rc = write_usdt(filling, at, &taken, why);

			if (rc)
				return rc;
		}
		if (!taken && token->kind == TOKEN_WORD) {
			taken = write_word(filling, at);
		} else if (!taken) {
			if (token->kind == TOKEN_STRING)
				write_string_body(filling, token->text, token->bytes);
			else if (token->kind == TOKEN_CHAR)
				write_char(filling, token);
			else
				write_token(filling, token);
			taken = 1;
		}
		at += taken;
	}
	return 0;
}

/* "#define PID 5": PID belongs to the script. */
static bool defines_pid(const struct filling *filling)
{
	for (uint32_t i = 0; i < filling->token_count; i++) {
		const struct token *token = &filling->tokens[i];
		char word[8];

		if (token->kind == TOKEN_LINE && sscanf(token->text, "# define %7[A-Za-z0-9_]", word) == 1 &&
		    strcmp(word, "PID") == 0)
			return true;
	}
	return false;
}

int script_fill(const char *text, const struct script_target *target, struct script_program *program_ret,
		struct fathom_fault *why)
{
	struct filling filling = { .target = target };
	struct script_program program = { 0 };
	struct token *tokens;
	size_t bytes;
	int rc = tokens_of(text, &tokens, &filling.token_count, why);

	if (rc)
		return rc;
	filling.tokens = tokens;
	filling.out = open_memstream(&program.text, &bytes);
	must(filling.out);
	filling.defines_pid = defines_pid(&filling);
	find_tables(&filling);
	rc = write_tokens(&filling, why);
	if (rc == 0)
		write_script_end(&filling, &program);
	must(fclose(filling.out) == 0);
	free(tokens);
	if (rc)
		free(program.text);
	else
		*program_ret = program;
	return rc;
}

void script_free(struct script_program *program)
{
	free(program->text);
	*program = (struct script_program){ 0 };
}
