/* SPDX-License-Identifier: BSD-2-Clause */
/* Storage of hosts: the parts of its calls that the table of operations (src/control/operation) cannot declare. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "control/client/internal.h"
#include "control/fault/fault.h"
#include "control/hostlist/rankset.h"
#include "rpc/proto/ctl.pb-c.h"

/* ---- scan ---- */

void add_namespaces(struct arena *arena, const Ctl__NvmeController *from, struct fathom_control_nvme *to)
{
	for (size_t i = 0; i < from->n_namespaces; i++)
		to->bytes += from->namespaces[i]->size;
}

/* DAOS's messages have speeds as floats. */
void add_link(struct arena *arena, const Ctl__BioHealthResp *from, struct fathom_control_health_stats *to)
{
	const float most = 1e15f;

	if (from->link_max_speed > 0 && from->link_max_speed < most)
		to->link_speed_max = (uint64_t)from->link_max_speed;
	if (from->link_neg_speed > 0 && from->link_neg_speed < most)
		to->link_speed = (uint64_t)from->link_neg_speed;
}

static const char *error_of(struct arena *arena, const Ctl__ResponseState *state)
{
	if (!state || state->status == CTL__RESPONSE_STATUS__CTL_SUCCESS)
		return "";
	return state->error[0] ? arena_text(arena, state->error)
			       : enum_name(&ctl__response_status__descriptor, (int)state->status);
}

void add_errors(struct arena *arena, const Ctl__StorageScanResp *from, struct fathom_control_storage *to)
{
	to->has_memory = from->sys_mem_info != NULL;
	to->nvme_error = error_of(arena, from->nvme ? from->nvme->state : NULL);
	to->scm_error = error_of(arena, from->scm ? from->scm->state : NULL);
}

/* The free memory differs on every host: exclude it from the comparison. */
void forget_free_memory(Ctl__StorageScanResp *response, struct fathom_control_answer *answer)
{
	Ctl__SysMemInfo *memory = response->sys_mem_info;

	if (!memory)
		return;
	memory->mem_free_kb = memory->mem_available_kb = 0;
	for (size_t i = 0; i < memory->n_numa_nodes; i++)
		memory->numa_nodes[i]->mem_free_kb = memory->numa_nodes[i]->mem_used_kb = 0;
}

/* ---- the engines' devices ---- */

/* Show each device as a controller of its own. */
void take_devices(struct arena *arena, ProtobufCMessage *message, struct fathom_control_answer *answer)
{
	const Ctl__SmdQueryResp *response = (const Ctl__SmdQueryResp *)message;
	struct fathom_control_storage *storage = arena_array(arena, struct fathom_control_storage, 1);
	struct fathom_control_nvme *nvmes;
	size_t count = 0;

	for (size_t i = 0; i < response->n_ranks; i++)
		count += response->ranks[i]->n_devices;
	nvmes = arena_array(arena, struct fathom_control_nvme, count);
	for (size_t i = 0; i < response->n_ranks; i++) {
		for (size_t k = 0; k < response->ranks[i]->n_devices; k++) {
			const Ctl__SmdDevice *device = response->ranks[i]->devices[k];
			const Ctl__NvmeController none = CTL__NVME_CONTROLLER__INIT;
			struct fathom_control_nvme *nvme = &nvmes[storage->nvme_count++];
			struct fathom_control_smd *smd = arena_array(arena, struct fathom_control_smd, 1);

			copy_nvme(arena, device->ctrlr ? device->ctrlr : &none, nvme);
			copy_smd(arena, device, smd);
			smd->rank = response->ranks[i]->rank;
			nvme->smds = smd;
			nvme->smd_count = 1;
		}
	}
	storage->nvmes = nvmes;
	storage->nvme_error = storage->scm_error = "";
	answer->storage = storage;
}

/* ---- format ---- */

static void take_state(struct arena *arena, const Ctl__ResponseState *state, struct fathom_control_formatted *part)
{
	part->status = state ? (int32_t)state->status : 0;
	part->status_name = enum_name(&ctl__response_status__descriptor, part->status);
	part->error = arena_text(arena, state ? state->error : NULL);
	part->info = arena_text(arena, state ? state->info : NULL);
}

void take_format(struct arena *arena, ProtobufCMessage *message, struct fathom_control_answer *answer)
{
	const Ctl__StorageFormatResp *response = (const Ctl__StorageFormatResp *)message;
	struct fathom_control_format *format = arena_array(arena, struct fathom_control_format, 1);
	struct fathom_control_formatted *parts = arena_array(arena, struct fathom_control_formatted,
							     response->n_mrets + response->n_crets);

	for (size_t i = 0; i < response->n_mrets; i++) {
		struct fathom_control_formatted *part = &parts[format->count++];

		part->what = arena_text(arena, response->mrets[i]->mntpoint);
		part->is_mount = true;
		part->instance = response->mrets[i]->instanceidx;
		take_state(arena, response->mrets[i]->state, part);
	}
	for (size_t i = 0; i < response->n_crets; i++) {
		struct fathom_control_formatted *part = &parts[format->count++];

		part->what = arena_text(arena, response->crets[i]->pci_addr);
		part->roles = response->crets[i]->role_bits;
		take_state(arena, response->crets[i]->state, part);
	}
	format->parts = parts;
	answer->format = format;
}

/* Whether the member's control address is one of `addresses`. */
static bool is_on(const struct fathom_control_member *member, const struct address *addresses, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		for (size_t kind = 0; kind < addresses[i].count; kind++) {
			if (strcmp(addresses[i].text[kind], member->address) == 0)
				return true;
		}
	}
	return false;
}

/*
 * Reject a format of storage that a running member uses. If the query of the members fails, assume that no system runs;
 * the format continues then.
 */
static int check_running(struct fathom_control *control, struct fathom_fault *why)
{
	const uint32_t running = FATHOM_CONTROL_STARTING | FATHOM_CONTROL_READY | FATHOM_CONTROL_JOINED |
				 FATHOM_CONTROL_STOPPING;
	size_t count = host_set_count(control->hosts);
	struct address *addresses = calloc(count, sizeof(*addresses));
	struct fathom_control_members *members = NULL;
	uint64_t patience_ns = control->patience_ns;
	bool is_running = false;
	struct fathom_fault ours;
	int error;

	must(addresses);
	error = resolve(control, control->hosts, addresses, clock_monotonic_ns() + control->timeout_ns, why);
	if (error == 0) {
		control->patience_ns = 0; /* do not wait: before the first format there is no management service */
		error = fathom_control_query(control, NULL, running, &members, &ours);
		control->patience_ns = patience_ns;
		if (error == -ECANCELED && why)
			*why = ours;
		error = error == -ECANCELED ? error : 0;
	}
	for (size_t i = 0; members && i < members->count; i++)
		is_running |= is_on(&members->members[i], addresses, count);
	fathom_control_free(members);
	free(addresses);
	return is_running ? fault_format_running(why) : error;
}

/* Reject an empty set: the server would format all instances, although a script's variable may just be empty. */
static int check_instances(const char *text, struct fathom_fault *why)
{
	struct rank_set set;
	int error = rank_set_parse(text, &set, why);

	if (error)
		return error;
	if (set.count == 0)
		error = fault_rank_list_bad(why, text, 1, "none is named");
	rank_set_deinit(&set);
	return error;
}

int check_format(struct fathom_control *control, const char *instances, bool reformat, struct fathom_fault *why)
{
	/* the server itself rejects named instances that run */
	if (instances)
		return check_instances(instances, why);
	return reformat ? check_running(control, why) : 0;
}
