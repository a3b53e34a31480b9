/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Apply the access control list of a pool to a call that publishes or unpublishes a volume.
 *
 * The role of the caller comes from its certificate. An administrator may publish and unpublish any volume. An agent acts
 * for a user of its host: its credential names the user, the groups and the host, and needs the permissions to read and to
 * write, because engines serve no volume read-only. Without them an agent may still unpublish what an agent of its host has
 * published: the list may have changed since then, and a host must be able to give back what it has.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "control/fault/fault.h"
#include "control/mgmt/storage/storage.h"

/* `*sys_ret`: what the credential says. */
static int verify(const struct mgmt *mgmt, const Auth__Credential *credential, Auth__Sys **sys_ret,
		  struct fathom_fault *why)
{
	struct credential_rules rules = mgmt->credentials;
	struct fathom_fault reason = { 0 };
	int error = 0;

	if (!credential)
		return fault_credential_bad(why, "there is none");
	rules.now_s = (int64_t)(clock_realtime_ns() / NS_PER_SEC);
	if (rules.is_insecure || rules.folder)
		error = credential_verify(credential, &rules, &reason);
	if (!error)
		error = credential_read_token(credential, sys_ret, &reason);
	return error ? fault_credential_bad(why, reason.text) : 0;
}

static uint32_t permissions_of(const struct catalog_pool_record *pool, const Auth__Sys *sys)
{
	const struct acl_caller caller = {
		.user = sys->user,
		.group = sys->group,
		.machine = sys->machinename,
		.groups = sys->groups,
		.group_count = sys->n_groups,
	};

	return acl_permissions(pool->acl, pool->owner, pool->group, &caller);
}

static bool may_read(uint32_t permissions)
{
	return permissions & (ACL_READ | ACL_GET_PROPERTIES);
}

static int check_permissions(const struct catalog_pool_record *pool, const Auth__Sys *sys, struct fathom_fault *why)
{
	uint32_t permissions = permissions_of(pool, sys);

	if (!may_read(permissions))
		return fault_access_denied(why, sys->user, sys->machinename, pool->name,
					   permissions ? "the access control list gives no permission to read (r)"
						       : "the access control list gives no permission");
	if (!(permissions & ACL_WRITE))
		return fault_access_denied(why, sys->user, sys->machinename, pool->name,
					   "the access control list gives no permission to write (w), and volumes are not "
					   "attached read-only");
	return 0;
}

int storage_check_access(struct mgmt *mgmt, const struct grpc_call *call, const struct catalog_pool *pool,
			 const Auth__Credential *credential, char *machine_ret, struct fathom_fault *why)
{
	Auth__Sys *sys = NULL;
	int error;

	machine_ret[0] = '\0';
	if (grpc_call_role(call) != GRPC_ROLE_AGENT)
		return 0;
	error = verify(mgmt, credential, &sys, why);
	if (!error)
		error = check_permissions(&pool->record, sys, why);
	if (error)
		mgmt->stats.access_denied++;
	else
		storage_copy_text(machine_ret, CATALOG_MACHINE_BYTES, sys->machinename);
	auth__sys__free_unpacked(sys, NULL);
	return error;
}

/* Whether an agent of this host has published the volume to `host`, or its request to do so is under way. */
static bool is_publisher(const struct catalog_volume_record *record, const char *host, const Auth__Sys *sys)
{
	const struct catalog_host *published = catalog_find_host(record, host);
	const struct catalog_change *change = &record->change;
	char machine[CATALOG_MACHINE_BYTES];

	storage_copy_text(machine, sizeof(machine), sys->machinename);
	if (!machine[0])
		return false;
	if (published && strcmp(published->machine, machine) == 0)
		return true;
	return !published && change->kind == CATALOG_PUBLISH && strcmp(change->text, host) == 0 &&
	       strcmp(change->machine, machine) == 0;
}

static int check_publisher(const struct catalog_volume *volume, const char *host, const Auth__Sys *sys,
			   struct fathom_fault *why)
{
	uint32_t permissions = permissions_of(&volume->pool->record, sys);
	char what[STORAGE_WHAT_BYTES];

	if (is_publisher(&volume->record, host, sys) || (may_read(permissions) && (permissions & ACL_WRITE)))
		return 0;
	return fault_unpublish_denied(why, sys->user, sys->machinename, storage_what(volume->pool, volume, what), host);
}

int storage_check_unpublish(struct mgmt *mgmt, const struct grpc_call *call, const struct catalog_volume *volume,
			    const char *host, const Auth__Credential *credential, struct fathom_fault *why)
{
	Auth__Sys *sys = NULL;
	int error;

	if (grpc_call_role(call) != GRPC_ROLE_AGENT)
		return 0;
	/* agents of earlier releases send none; without a folder the certificate of the connection is enough */
	if (!credential && !mgmt->credentials.folder)
		return 0;
	error = verify(mgmt, credential, &sys, why);
	if (!error)
		error = check_publisher(volume, host, sys, why);
	if (error)
		mgmt->stats.access_denied++;
	auth__sys__free_unpacked(sys, NULL);
	return error;
}
