/* SPDX-License-Identifier: BSD-2-Clause */
/* Pools: the parts of their calls that the table of operations (src/control/operation) cannot declare. */
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/bits.h"
#include "control/client/internal.h"
#include "control/fault/fault.h"
#include "control/hostlist/rankset.h"
#include "rpc/proto/mgmt.pb-c.h"

enum { PROPERTY_LABEL = 1, UUID_BYTES = 16, UUID_TEXT_BYTES = 37, USER_TEXT_BYTES = 256 };

char *arena_uuid(struct arena *arena)
{
	char *text = arena_array(arena, char, UUID_TEXT_BYTES);
	uint8_t id[UUID_BYTES];
	size_t used = 0;

	must(getrandom(id, sizeof(id), 0) == sizeof(id)); /* up to 256 bytes are never cut */
	id[6] = 0x40 | (id[6] & 0x0f);
	id[8] = 0x80 | (id[8] & 0x3f);
	for (size_t i = 0; i < sizeof(id); i++)
		used += (size_t)snprintf(text + used, UUID_TEXT_BYTES - used,
					 i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", id[i]);
	must(used == UUID_TEXT_BYTES - 1);
	return text;
}

/* A name as DAOS's tools write it: "bob@". `id`: that of the caller, for a name that is not known. */
static char *write_name(struct arena *arena, const char *name, unsigned int id)
{
	char text[USER_TEXT_BYTES];

	if (name)
		snprintf(text, sizeof(text), strchr(name, '@') ? "%s" : "%s@", name);
	else
		snprintf(text, sizeof(text), "%u@", id);
	return (char *)arena_text(arena, text);
}

static void fill_owner(struct arena *arena, const struct fathom_control_new_pool *pool, Mgmt__PoolCreateReq *to)
{
	const struct passwd *user = pool->user ? NULL : getpwuid(geteuid());
	const struct group *group = pool->group ? NULL : getgrgid(getegid());

	to->user = write_name(arena, user ? user->pw_name : pool->user, geteuid());
	to->user_group = write_name(arena, group ? group->gr_name : pool->group, getegid());
}

int check_ranks(const char *text, struct fathom_fault *why)
{
	struct rank_set ranks = { 0 };
	int error = rank_set_parse(text ? text : "", &ranks, why);

	if (!error && ranks.count == 0)
		error = fault_no_ranks_named(why);
	rank_set_deinit(&ranks);
	return error;
}

int build_pool_create(struct arena *arena, const struct fathom_control_new_pool *pool, Mgmt__PoolCreateReq *to,
		      struct fathom_fault *why)
{
	Mgmt__PoolProperty *label = arena_array(arena, Mgmt__PoolProperty, 1);
	struct rank_set ranks = { 0 };
	int error = pool->ranks ? rank_set_parse(pool->ranks, &ranks, why) : 0;

	if (!error && pool->ranks && ranks.count == 0) /* an empty list in the request would mean all ranks */
		error = fault_no_ranks_named(why);
	if (error)
		return error;
	mgmt__pool_property__init(label);
	label->number = PROPERTY_LABEL;
	label->value_case = MGMT__POOL_PROPERTY__VALUE_STRVAL;
	label->strval = (char *)arena_text(arena, pool->label);
	to->properties = arena_array(arena, Mgmt__PoolProperty *, 1);
	to->properties[0] = label;
	to->n_properties = 1;
	to->n_ranks = ranks.count;
	to->ranks = (uint32_t *)arena_u32s(arena, ranks.ranks, ranks.count);
	fill_owner(arena, pool, to);
	to->acl = (char **)arena_texts(arena, (char *const *)pool->acl, pool->acl_count);
	to->n_acl = pool->acl_count;
	rank_set_deinit(&ranks);
	return 0;
}
