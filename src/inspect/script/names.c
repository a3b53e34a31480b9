/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * names - walks once over a script's tokens and collects the names in it.
 *
 * Whether a word is an enumerator or a typedef is known only from the program's debug information. Words that can be
 * neither are left out.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "inspect/script/attached.h"
#include "inspect/script/script.h"
#include "inspect/script/tokens.h"

struct naming {
	const struct token *tokens;
	uint32_t token_count;
	struct types_wanted *wanted;
	struct types_names *kernels;
	uint32_t depth; /* of braces */
	bool in_enum;	/* the outermost brace belongs to an enum that the script declares */
	bool in_predicate;
	struct attached attached; /* of the next or the current block */
};

/* Words of bpftrace that never mean a program's enumerator. */
static const char *const own_words[] = { "pid",	   "tid",    "uid",   "gid",	  "nsecs",    "elapsed", "cpu",	    "comm",
					 "kstack", "ustack", "stack", "retval",	  "func",     "probe",	 "curtask", "rand",
					 "cgroup", "cpid",   "ctx",   "args",	  "username", "if",	 "else",    "while",
					 "unroll", "for",    "break", "continue", "return",   "sizeof",	 "int8",    "int16",
					 "int32",  "int64",  "uint8", "uint16",	  "uint32",   "uint64",	 "char",    "void",
					 "int",	   "struct", "union", "enum",	  "__PID__",  "__EXE__" };

static bool is_listed_word(const struct token *token, const char *const *words, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (token_is(token, words[i]))
			return true;
	}
	return false;
}

static bool is_own(const struct token *token)
{
	size_t digits = strcspn(token->text, "0123456789");

	return is_listed_word(token, own_words, ARRAY_COUNT(own_words)) ||
	       (digits < token->bytes &&
		(strncmp(token->text, "arg", digits) == 0 || strncmp(token->text, "sarg", digits) == 0));
}

static const struct token *following_token(const struct naming *naming, uint32_t at)
{
	return token_next(naming->tokens, naming->token_count, at);
}

static const struct token *preceding_token(const struct naming *naming, uint32_t at)
{
	return token_previous(naming->tokens, at);
}

static uint32_t index_of_token(const struct naming *naming, const struct token *token)
{
	return (uint32_t)(token - naming->tokens);
}

static void add_name(struct types_names *to, const struct token *token)
{
	types_names_add(to, token->text, token->bytes);
}

/* Is it a member's name, behind '.' or "->"? */
static bool is_member(const struct naming *naming, uint32_t at)
{
	const struct token *before = preceding_token(naming, at);

	return token_is(before, ".") || (token_is(before, ">") && before > naming->tokens && token_is(before - 1, "-"));
}

/* "struct x". Returns the tokens consumed; 0: something else. */
static uint32_t read_kind(struct naming *naming, uint32_t at)
{
	const struct token *token = &naming->tokens[at], *name = following_token(naming, at + 1);
	bool is_enum = token_is(token, "enum");

	if ((!is_enum && !token_is(token, "struct") && !token_is(token, "union")) || !name)
		return 0;
	if (naming->depth == 0 && token_is(name, "{")) {
		naming->in_enum = is_enum;
		return 1;
	}
	if (name->kind != TOKEN_WORD)
		return 0;
	if (token_is(following_token(naming, index_of_token(naming, name) + 1), "{")) {
		add_name(&naming->wanted->taken, name);
		naming->in_enum |= naming->depth == 0 && is_enum;
	} else if (is_enum) {
		add_name(&naming->wanted->enums, name);
	} else if (attached_to_kernel_alone(&naming->attached)) {
		add_name(naming->kernels, name);
	} else {
		add_name(&naming->wanted->structures, name);
	}
	return index_of_token(naming, name) + 1 - at;
}

static uint32_t read_word(struct naming *naming, uint32_t at)
{
	const struct token *token = &naming->tokens[at];
	uint32_t taken = read_kind(naming, at);

	if (taken)
		return taken;
	if (naming->depth == 0)
		attached_take(&naming->attached, naming->tokens, naming->token_count, at);
	if ((naming->depth == 0 && !naming->in_predicate) || isdigit((unsigned char)*token->text))
		return 1;
	if (is_member(naming, at)) {
		add_name(&naming->wanted->members, token);
	} else if (naming->in_enum) {
		add_name(&naming->wanted->taken, token);
	} else if (!is_own(token) && !token_is(preceding_token(naming, at), "@") &&
		   !token_is(preceding_token(naming, at), "$") && !token_is(following_token(naming, at + 1), "(")) {
		add_name(&naming->wanted->words, token);
		if (tokens_are_cast(naming->tokens, naming->token_count, at))
			add_name(&naming->wanted->casts, token);
	}
	return 1;
}

/* "#define NAME": the name belongs to the script. */
static void read_define_line(struct naming *naming, const struct token *token)
{
	size_t at = 1 + strspn(token->text + 1, " \t"), bytes;

	if (strncmp(token->text + at, "define", strlen("define")) != 0)
		return;
	at += strlen("define");
	at += strspn(token->text + at, " \t");
	for (bytes = 0; isalnum((unsigned char)token->text[at + bytes]) || token->text[at + bytes] == '_'; bytes++)
		;
	if (bytes)
		types_names_add(&naming->wanted->taken, token->text + at, bytes);
}

static void read_char(struct naming *naming, const struct token *token)
{
	if (naming->depth == 0 && token_is(token, "/") && token > naming->tokens && token[-1].kind == TOKEN_BLANK) {
		/* the '/' of a path has no blank in front */
		naming->in_predicate = true;
	} else if (token_is(token, "{")) {
		naming->depth++;
		naming->in_predicate = false;
	} else if (token_is(token, "}") && naming->depth && --naming->depth == 0) {
		naming->in_enum = false;
		naming->attached = (struct attached){ 0 };
	}
}

/* Remove names that the script declares itself. */
static void remove_taken(struct types_names *names, const struct types_names *taken)
{
	uint32_t kept = 0;

	types_names_sort(names);
	for (uint32_t i = 0; i < names->count; i++) {
		if (types_names_has(taken, names->names[i]))
			free(names->names[i]);
		else
			names->names[kept++] = names->names[i];
	}
	names->count = kept;
}

int script_names(const char *text, struct types_wanted *wanted, struct types_names *kernels, struct fathom_fault *why)
{
	struct naming naming = { .wanted = wanted, .kernels = kernels };
	struct token *tokens;
	int rc = tokens_of(text, &tokens, &naming.token_count, why);

	if (rc)
		return rc;
	naming.tokens = tokens;
	for (uint32_t at = 0; at < naming.token_count;) {
		const struct token *token = &tokens[at];
		uint32_t taken = 1;

		if (token->kind == TOKEN_WORD)
			taken = read_word(&naming, at);
		else if (token->kind == TOKEN_LINE)
			read_define_line(&naming, token);
		else if (token->kind == TOKEN_CHAR)
			read_char(&naming, token);
		at += taken;
	}
	free(tokens);
	types_names_sort(&wanted->taken);
	types_names_sort(&wanted->members);
	remove_taken(&wanted->structures, &wanted->taken);
	remove_taken(&wanted->enums, &wanted->taken);
	remove_taken(&wanted->words, &wanted->taken);
	remove_taken(&wanted->casts, &wanted->taken);
	remove_taken(kernels, &wanted->taken);
	return 0;
}
