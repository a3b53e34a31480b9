/* SPDX-License-Identifier: BSD-2-Clause */
/* Properties of pools that DAOS has and Fathom has not, by DAOS's numbers and names. */
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "control/fault/fault.h"
#include "control/mgmt/storage/storage.h"

static const struct absent_property {
	uint32_t number;
	const char *name, *why, *instead;
} absent_properties[] = {
	{ 2, "acl", "the list is no property here", "use `fathom pool update-acl`" },
	{ 3, "space_rb", "no pool is rebuilt: a volume is on one engine",
	  "keep space free with a smaller size of the pool" },
	{ 4, "self_heal", "no pool is rebuilt: a volume is on one engine", "move volumes with `fathom volume move`" },
	{ 5, "reclaim", "space that hosts unmap is free at once", "nothing has to be done" },
	{ 8, "svc_list", "the management service is the only service of a pool", "nothing has to be done" },
	{ 9, "ec_cell_sz", "volumes are not erasure-coded", "make the storage of engines redundant" },
	{ 10, "data_thresh", "an engine has one device, and no tiers", "nothing has to be done" },
	{ 11, "rd_fac", "a volume is on one engine", "make the storage of engines redundant" },
	{ 12, "ec_pda", "volumes are not erasure-coded", "make the storage of engines redundant" },
	{ 13, "rp_pda", "a volume is on one engine", "make the storage of engines redundant" },
	{ 14, "global_version", "there is one layout of pools", "nothing has to be done" },
	{ 15, "upgrade_status", "there is one layout of pools", "nothing has to be done" },
	{ 18, "scrub_thresh", "nothing is evicted because of mismatches", "watch for the event volume_mismatch" },
	{ 19, "svc_rf", "the management service is the only service of a pool", "nothing has to be done" },
	{ 20, "obj_version", "there is one layout of pools", "nothing has to be done" },
	{ 21, "perf_domain", "a volume is on one engine", "choose ranks with `fathom volume create --ranks`" },
	{ 22, "checkpoint", "metadata is not kept in memory", "nothing has to be done" },
	{ 23, "checkpoint_freq", "metadata is not kept in memory", "nothing has to be done" },
	{ 24, "checkpoint_thresh", "metadata is not kept in memory", "nothing has to be done" },
	{ 25, "reintegration", "a volume comes back with its engine", "nothing has to be done" },
	{ 26, "svc_ops_enabled", "requests can always be repeated", "nothing has to be done" },
	{ 27, "svc_ops_entry_age", "requests can always be repeated", "nothing has to be done" },
};

bool storage_is_property(const Mgmt__PoolProperty *asked, uint32_t number, const char *name)
{
	return asked->name[0] ? strcmp(asked->name, name) == 0 : asked->number == number;
}

int storage_refuse_property(const Mgmt__PoolProperty *asked, struct fathom_fault *why)
{
	char number[32], name[CATALOG_OWNER_BYTES];

	for (size_t i = 0; i < ARRAY_COUNT(absent_properties); i++) {
		const struct absent_property *absent = &absent_properties[i];

		if (storage_is_property(asked, absent->number, absent->name))
			return fault_pool_property_absent(why, absent->name, absent->why, absent->instead);
	}
	snprintf(number, sizeof(number), "number %u", asked->number);
	storage_copy_text(name, sizeof(name), asked->name[0] ? asked->name : number);
	return fault_pool_property_unknown(why, name);
}
