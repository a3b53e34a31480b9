/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/mgmt/acl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/bits.h"
#include "base/text.h"
#include "control/fault/fault.h"

enum { FIELDS = 4, ALL = ACL_READ | ACL_WRITE };
enum { TYPE, FLAGS, PRINCIPAL, PERMISSIONS };

static const struct {
	const char *name;
	enum acl_kind kind;
} specials[] = {
	{ "OWNER@", ACL_OWNER },
	{ "GROUP@", ACL_OWNER_GROUP },
	{ "EVERYONE@", ACL_EVERYONE },
};

static bool is_group(enum acl_kind kind)
{
	return kind == ACL_OWNER_GROUP || kind == ACL_GROUP;
}

static const char *principal_of(const struct acl_entry *entry)
{
	for (size_t i = 0; i < ARRAY_COUNT(specials); i++) {
		if (specials[i].kind == entry->kind)
			return specials[i].name;
	}
	return entry->principal;
}

/* ---- texts ---- */

static bool is_utf8(const char *text)
{
	size_t bytes = strlen(text), used = 0;

	while (used < bytes) {
		size_t length = text_utf8_length(text + used, bytes - used);

		if (length == 0)
			return false;
		used += length;
	}
	return true;
}

/* Why it cannot be a principal; NULL: it can. */
static const char *find_flaw(const char *principal)
{
	const char *at = strchr(principal, '@');

	if (strlen(principal) >= ACL_PRINCIPAL_BYTES)
		return "the name of the principal has more than 255 bytes";
	if (!at)
		return "the principal has no @ behind the name";
	if (at == principal)
		return "the principal has no name before the @";
	if (strchr(at + 1, '@'))
		return "the principal has two @";
	for (const char *c = principal; *c; c++) {
		if ((unsigned char)*c <= ' ' || *c == ':' || *c == 0x7f)
			return "the principal contains a blank, a colon or a control character";
	}
	return is_utf8(principal) ? NULL : "the principal is not valid UTF-8";
}

int acl_check_principal(const char *principal, struct fathom_fault *why)
{
	const char *flaw = find_flaw(principal);

	return flaw ? fault_acl_bad(why, principal, flaw) : 0;
}

/* Take a principal that is not special, or is: `has_group`: it has the flag G. NULL: it was taken. */
static const char *take_principal(const char *text, bool has_group, struct acl_entry *entry)
{
	const char *flaw;

	entry->principal[0] = '\0';
	for (size_t i = 0; i < ARRAY_COUNT(specials); i++) {
		if (strcmp(text, specials[i].name) != 0)
			continue;
		entry->kind = specials[i].kind;
		if (is_group(entry->kind) == has_group)
			return NULL;
		return has_group ? "the flag G is only for GROUP@ and names of groups" : "GROUP@ needs the flag G";
	}
	flaw = find_flaw(text);
	if (flaw)
		return flaw;
	entry->kind = has_group ? ACL_GROUP : ACL_USER;
	must(text_copy(entry->principal, sizeof(entry->principal), text) == 0);
	return NULL;
}

static const char *take_permissions(const char *letters, struct acl_entry *entry)
{
	static const char known[] = ACL_LETTERS;

	entry->permissions = 0;
	for (; *letters; letters++) {
		const char *found = strchr(known, *letters);

		if (!found)
			return "a permission is none of " ACL_LETTERS;
		entry->permissions |= 1u << (found - known);
	}
	return NULL;
}

static const char *take_fields(char *fields[FIELDS], struct acl_entry *entry)
{
	const char *flaw;

	if (strcmp(fields[TYPE], "A") != 0)
		return "the type is not A: only entries that allow exist";
	if (fields[FLAGS][0] && strcmp(fields[FLAGS], "G") != 0)
		return "the flags are neither empty nor G";
	flaw = take_principal(fields[PRINCIPAL], fields[FLAGS][0], entry);
	return flaw ? flaw : take_permissions(fields[PERMISSIONS], entry);
}

int acl_parse_entry(const char *text, struct acl_entry *entry_ret, struct fathom_fault *why)
{
	char copy[ACL_ENTRY_BYTES + 2 * ACL_PERMISSIONS_MAX], *fields[FIELDS] = { copy };
	struct acl_entry entry = { 0 };
	const char *flaw = NULL;
	size_t count = 1;

	if (text_copy(copy, sizeof(copy), text) < 0)
		return fault_acl_bad(why, "", "it is too long");
	for (char *c = copy; *c; c++) {
		if (*c != ':')
			continue;
		*c = '\0';
		if (count < FIELDS)
			fields[count] = c + 1;
		count++;
	}
	if (count != FIELDS)
		flaw = "it does not have four fields with three colons between them";
	else
		flaw = take_fields(fields, &entry);
	if (flaw)
		return fault_acl_bad(why, text, flaw);
	*entry_ret = entry;
	return 0;
}

const char *acl_format_entry(const struct acl_entry *entry, char *text)
{
	char letters[ACL_PERMISSIONS_MAX + 1];
	size_t used = 0;

	for (size_t i = 0; i < ACL_PERMISSIONS_MAX; i++) {
		if (entry->permissions & (1u << i))
			letters[used++] = ACL_LETTERS[i];
	}
	letters[used] = '\0';
	must(snprintf(text, ACL_ENTRY_BYTES, "A:%s:%s:%s", is_group(entry->kind) ? "G" : "", principal_of(entry), letters) <
	     ACL_ENTRY_BYTES);
	return text;
}

/* ---- lists ---- */

static struct acl *allocate(size_t count)
{
	return calloc(1, sizeof(struct acl) + count * sizeof(struct acl_entry));
}

static bool is_same_principal(const struct acl_entry *one, const struct acl_entry *other)
{
	return one->kind == other->kind && strcmp(one->principal, other->principal) == 0;
}

static struct acl_entry *find_entry(struct acl *acl, const struct acl_entry *wanted)
{
	for (uint32_t i = 0; i < acl->count; i++) {
		if (is_same_principal(&acl->entries[i], wanted))
			return &acl->entries[i];
	}
	return NULL;
}

/* Insert it behind those of its kind. The list has room. */
static void insert_entry(struct acl *acl, const struct acl_entry *entry)
{
	uint32_t place = acl->count;

	must(acl->count < ACL_ENTRIES_MAX);
	while (place > 0 && acl->entries[place - 1].kind > entry->kind) {
		acl->entries[place] = acl->entries[place - 1];
		place--;
	}
	acl->entries[place] = *entry;
	acl->count++;
}

/* Parse the texts into `changes`, which has room for them. */
static int parse_entries(const char *const *texts, size_t count, struct acl *changes, struct fathom_fault *why)
{
	struct acl_entry entry;
	int error;

	for (size_t i = 0; i < count; i++) {
		error = acl_parse_entry(texts[i], &entry, why);
		if (error)
			return error;
		if (find_entry(changes, &entry))
			return fault_acl_bad(why, texts[i], "another entry is for the same principal");
		insert_entry(changes, &entry);
	}
	return 0;
}

int acl_create(const char *const *texts, size_t count, struct acl **acl_ret, struct fathom_fault *why)
{
	struct acl *acl;
	int error;

	if (count > ACL_ENTRIES_MAX)
		return fault_acl_full(why, (uint32_t)min_u64(count, UINT32_MAX), ACL_ENTRIES_MAX);
	acl = allocate(count);
	if (!acl)
		return -ENOMEM;
	error = parse_entries(texts, count, acl, why);
	if (error)
		free(acl);
	else
		*acl_ret = acl;
	return error;
}

/* Merge `changes` into a copy of `acl`. */
static int merge(const struct acl *acl, const struct acl *changes, struct acl **acl_ret, struct fathom_fault *why)
{
	struct acl *next = allocate(acl->count + changes->count);
	uint32_t added = 0;

	if (!next)
		return -ENOMEM;
	memcpy(next->entries, acl->entries, acl->count * sizeof(acl->entries[0]));
	next->count = acl->count;
	for (uint32_t i = 0; i < changes->count; i++)
		added += !find_entry(next, &changes->entries[i]);
	if (acl->count + added > ACL_ENTRIES_MAX) {
		free(next);
		return fault_acl_full(why, acl->count + added, ACL_ENTRIES_MAX);
	}
	for (uint32_t i = 0; i < changes->count; i++) {
		struct acl_entry *entry = find_entry(next, &changes->entries[i]);

		if (entry)
			*entry = changes->entries[i];
		else
			insert_entry(next, &changes->entries[i]);
	}
	*acl_ret = next;
	return 0;
}

int acl_update(const struct acl *acl, const char *const *texts, size_t count, struct acl **acl_ret,
	       struct fathom_fault *why)
{
	struct acl *changes = NULL;
	int error = acl_create(texts, count, &changes, why);

	if (!error)
		error = merge(acl, changes, acl_ret, why);
	free(changes);
	return error;
}

/* "u:bob@", "g:staff@" or a special principal. */
static int parse_principal(const char *text, struct acl_entry *wanted, struct fathom_fault *why)
{
	bool has_group = strncmp(text, "g:", 2) == 0, has_user = strncmp(text, "u:", 2) == 0;
	const char *name = has_group || has_user ? text + 2 : text, *flaw;

	for (size_t i = 0; i < ARRAY_COUNT(specials); i++) {
		if (strcmp(text, specials[i].name) == 0) {
			*wanted = (struct acl_entry){ .kind = specials[i].kind };
			return 0;
		}
	}
	if (!has_group && !has_user)
		return fault_acl_bad(why, text, "it is neither OWNER@, GROUP@, EVERYONE@, u:NAME@ nor g:NAME@");
	flaw = take_principal(name, has_group, wanted);
	return flaw ? fault_acl_bad(why, text, flaw) : 0;
}

int acl_remove(const struct acl *acl, const char *principal, struct acl **acl_ret, struct fathom_fault *why)
{
	struct acl_entry wanted = { 0 };
	struct acl *next;
	int error = parse_principal(principal, &wanted, why);

	if (error)
		return error;
	next = allocate(acl->count);
	if (!next)
		return -ENOMEM;
	for (uint32_t i = 0; i < acl->count; i++) {
		if (!is_same_principal(&acl->entries[i], &wanted))
			next->entries[next->count++] = acl->entries[i];
	}
	if (next->count == acl->count) {
		free(next);
		return -ENOENT;
	}
	*acl_ret = next;
	return 0;
}

struct acl *acl_default(void)
{
	struct acl *acl = allocate(2);

	if (!acl)
		return NULL;
	insert_entry(acl, &(struct acl_entry){ .kind = ACL_OWNER, .permissions = ALL });
	insert_entry(acl, &(struct acl_entry){ .kind = ACL_OWNER_GROUP, .permissions = ALL });
	return acl;
}

struct acl *acl_everyone(void)
{
	struct acl *acl = allocate(1);

	if (acl)
		insert_entry(acl, &(struct acl_entry){ .kind = ACL_EVERYONE, .permissions = ALL });
	return acl;
}

struct acl *acl_copy(const struct acl *acl)
{
	struct acl *copy = allocate(acl->count);

	if (copy)
		memcpy(copy, acl, sizeof(*acl) + acl->count * sizeof(acl->entries[0]));
	return copy;
}

/* ---- evaluation ---- */

/* How well a principal matches a name on a machine: 0 not, 1 by name, 2 by name and machine. */
static int match(const char *principal, const char *name, const char *machine)
{
	size_t bytes = strcspn(principal, "@"), name_bytes = strcspn(name, "@");
	const char *where = principal + bytes;

	if (bytes == 0 || bytes != name_bytes || memcmp(principal, name, bytes) != 0)
		return 0;
	if (where[0] == '\0' || where[1] == '\0')
		return 1;
	return strcasecmp(where + 1, machine) == 0 ? 2 : 0;
}

static bool has_group(const struct acl_caller *caller, const char *principal)
{
	bool is_found = match(principal, caller->group, caller->machine) > 0;

	for (size_t i = 0; !is_found && i < caller->group_count; i++)
		is_found = match(principal, caller->groups[i], caller->machine) > 0;
	return is_found;
}

/* The entry of the user; NULL: none. */
static const struct acl_entry *find_user(const struct acl *acl, const char *owner, const struct acl_caller *caller)
{
	const struct acl_entry *best = NULL;
	int best_match = 0;

	for (uint32_t i = 0; i < acl->count; i++) {
		const struct acl_entry *entry = &acl->entries[i];
		int found;

		if (entry->kind == ACL_OWNER && match(owner, caller->user, caller->machine) > 0)
			return entry;
		found = entry->kind == ACL_USER ? match(entry->principal, caller->user, caller->machine) : 0;
		if (found > best_match) {
			best = entry;
			best_match = found;
		}
	}
	return best;
}

uint32_t acl_permissions(const struct acl *acl, const char *owner, const char *group, const struct acl_caller *caller)
{
	const struct acl_entry *user = find_user(acl, owner, caller);
	uint32_t permissions = 0, everyone = 0;
	bool is_matched = false;

	if (user)
		return user->permissions;
	for (uint32_t i = 0; i < acl->count; i++) {
		const struct acl_entry *entry = &acl->entries[i];

		if (entry->kind == ACL_EVERYONE)
			everyone = entry->permissions;
		if (!is_group(entry->kind) || !has_group(caller, entry->kind == ACL_GROUP ? entry->principal : group))
			continue;
		permissions |= entry->permissions;
		is_matched = true;
	}
	return is_matched ? permissions : everyone;
}
