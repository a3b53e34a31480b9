/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * acl - access control lists of pools: who may attach their volumes. The texts are DAOS's.
 *
 *     TYPE:FLAGS:PRINCIPAL:PERMISSIONS     A::OWNER@:rw   A:G:GROUP@:rw   A::bob@:rw   A:G:staff@:r   A::EVERYONE@:
 *
 * TYPE is A (allow). FLAGS is G for a group. PRINCIPAL is OWNER@, GROUP@, EVERYONE@, NAME@ on any machine, or
 * NAME@MACHINE. PERMISSIONS are letters of ACL_LETTERS. A list has at most one entry for a principal.
 *
 * The first of these rules that matches gives the permissions of a caller; the others do not count:
 *
 *     the owner of the pool           OWNER@
 *     a user by name                  NAME@MACHINE, then NAME@
 *     groups, all that match          GROUP@, NAME@MACHINE, NAME@
 *     anyone                          EVERYONE@
 *
 * A caller that no rule matches has no permissions. An entry without permissions denies its user the access.
 *
 * A list is not changed after it was made. Any thread.
 */
#ifndef CONTROL_MGMT_ACL_H
#define CONTROL_MGMT_ACL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"
#include "base/must.h"

#define ACL_LETTERS "rwcdtTaAo"

enum acl_permission {
	ACL_READ = 1 << 0,
	ACL_WRITE = 1 << 1,
	ACL_CREATE = 1 << 2,
	ACL_DELETE = 1 << 3,
	ACL_GET_PROPERTIES = 1 << 4,
	ACL_SET_PROPERTIES = 1 << 5,
	ACL_GET_ACL = 1 << 6,
	ACL_SET_ACL = 1 << 7,
	ACL_SET_OWNER = 1 << 8,
	ACL_PERMISSIONS_MAX = 9,
};
static_assert(sizeof(ACL_LETTERS) - 1 == ACL_PERMISSIONS_MAX, "each permission has its letter");

enum {
	ACL_ENTRIES_MAX = 64,
	ACL_PRINCIPAL_BYTES = 256,					 /* with the NUL */
	ACL_ENTRY_BYTES = ACL_PRINCIPAL_BYTES + ACL_PERMISSIONS_MAX + 5, /* "A:G:PRINCIPAL:PERMISSIONS", with the NUL */
};

/* In the order in which a list is shown. */
enum acl_kind { ACL_OWNER, ACL_USER, ACL_OWNER_GROUP, ACL_GROUP, ACL_EVERYONE };

struct acl_entry {
	enum acl_kind kind;
	uint32_t permissions;		     /* of enum acl_permission */
	char principal[ACL_PRINCIPAL_BYTES]; /* USER, GROUP: "NAME@" or "NAME@MACHINE"; else "" */
};

struct acl {
	uint32_t count;
	struct acl_entry entries[]; /* sorted by kind */
};

/* Parse one entry. Errors: -EINVAL (acl_bad). */
MUST_CHECK int acl_parse_entry(const char *text, struct acl_entry *entry_ret, struct fathom_fault *why);
/* Returns `text`, of ACL_ENTRY_BYTES: permissions in the order of ACL_LETTERS, each once. */
const char *acl_format_entry(const struct acl_entry *entry, char *text);

/*
 * Make a list of entries. free() it. Errors: -EINVAL (acl_bad: an entry is not valid, or two are for one principal),
 * -ENOSPC (acl_full), -ENOMEM.
 */
MUST_CHECK int acl_create(const char *const *texts, size_t count, struct acl **acl_ret, struct fathom_fault *why);
/* A new list: `acl` with these entries, which replace those for the same principals. Errors: as acl_create(). */
MUST_CHECK int acl_update(const struct acl *acl, const char *const *texts, size_t count, struct acl **acl_ret,
			  struct fathom_fault *why);
/*
 * A new list: `acl` without the entry for `principal`, which is OWNER@, GROUP@, EVERYONE@, u:NAME@ or g:NAME@.
 * Errors: -EINVAL (acl_bad), -ENOENT (not explained: there is no such entry), -ENOMEM.
 */
MUST_CHECK int acl_remove(const struct acl *acl, const char *principal, struct acl **acl_ret, struct fathom_fault *why);
/* Full access for the owner and the owner's group. NULL: out of memory. */
struct acl *acl_default(void);
/* Full access for anyone. NULL: out of memory. */
struct acl *acl_everyone(void);
/* NULL: out of memory. */
struct acl *acl_copy(const struct acl *acl);

/* Check the name of a user or a group: "NAME@" or "NAME@MACHINE". Errors: -EINVAL (acl_bad). */
MUST_CHECK int acl_check_principal(const char *principal, struct fathom_fault *why);

/* A user on a machine; names are "NAME" or "NAME@". Everything is borrowed. */
struct acl_caller {
	const char *user, *group, *machine;
	char *const *groups;
	size_t group_count;
};

/* The permissions of the caller. `owner` and `group` are the pool's. */
uint32_t acl_permissions(const struct acl *acl, const char *owner, const char *group, const struct acl_caller *caller);

#endif
