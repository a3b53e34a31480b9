/* SPDX-License-Identifier: BSD-2-Clause */
/* Access control lists of pools, in the form of dmg: lines that the commands read again as a file. */
#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "cmd/fathom/show/parts.h"
#include "cmd/fathom/show/show.h"

enum { FIELDS = 4, ENTRY_BYTES = 512 };

static const struct {
	char letter;
	const char *word;
} permissions[] = {
	{ 'r', "Read" },     { 'w', "Write" },	 { 'c', "Create-Cont" }, { 'd', "Destroy-Cont" }, { 't', "Get-Prop" },
	{ 'T', "Set-Prop" }, { 'a', "Get-ACL" }, { 'A', "Set-ACL" },	 { 'o', "Set-Owner" },
};

static const char *principal_word(const char *principal)
{
	if (strcmp(principal, "OWNER@") == 0)
		return "Owner";
	if (strcmp(principal, "GROUP@") == 0)
		return "Owner-Group";
	return strcmp(principal, "EVERYONE@") == 0 ? "Everyone" : principal;
}

/* "Read/Write" */
static void print_permissions(const char *letters, FILE *out)
{
	if (!*letters)
		fputs("None", out);
	for (const char *c = letters; *c; c++) {
		const char *word = "Unknown";

		for (size_t i = 0; i < ARRAY_COUNT(permissions); i++) {
			if (permissions[i].letter == *c)
				word = permissions[i].word;
		}
		fprintf(out, "%s%s", c == letters ? "" : "/", word);
	}
}

/* The entry in words. It comes from a server, so it may be of another form. */
static void print_words(const char *entry, FILE *out)
{
	char copy[ENTRY_BYTES], *fields[FIELDS] = { copy };
	size_t count = 1;

	if (text_copy(copy, sizeof(copy), entry) < 0)
		return;
	for (char *c = copy; *c && count < FIELDS; c++) {
		if (*c == ':') {
			*c = '\0';
			fields[count++] = c + 1;
		}
	}
	if (count < FIELDS)
		return;
	fprintf(out, "# %s:%s:%s:", strcmp(fields[0], "A") == 0 ? "Allow" : "Unknown",
		strcmp(fields[1], "G") == 0 ? "Group" : fields[1], principal_word(fields[2]));
	print_permissions(fields[3], out);
	fputc('\n', out);
}

void show_acl(const struct fathom_control_pool_acl *acl, bool is_verbose, FILE *out)
{
	if (acl->owner[0])
		fprintf(out, "# Owner: %s\n", acl->owner);
	if (acl->group[0])
		fprintf(out, "# Owner Group: %s\n", acl->group);
	fputs("# Entries:\n", out);
	if (acl->count == 0)
		fputs("#   None\n", out);
	for (size_t i = 0; i < acl->count; i++) {
		if (is_verbose)
			print_words(acl->entries[i], out);
		fprintf(out, "%s\n", acl->entries[i]);
	}
}

json_t *json_acl(const struct fathom_control_pool_acl *acl)
{
	json_t *object = json_object();

	put(object, "ACL", json_of_pool_acl(acl));
	return object;
}
