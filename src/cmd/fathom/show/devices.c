/* SPDX-License-Identifier: BSD-2-Clause */
/* The devices that engines use: `fathom storage query list-devices`. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cmd/fathom/show/show.h"
#include "cmd/fathom/show/parts.h"

enum { ROLES_BYTES = 32, TARGETS_BYTES = 512, SYSTEM_TARGET = 1024 };

#define LED "NA" /* LEDs are not queried */

static bool is_chosen(const struct device_choice *choice, const struct fathom_control_nvme *nvme,
		      const struct fathom_control_smd *smd)
{
	return (choice->rank == FATHOM_CONTROL_NO_RANK || choice->rank == smd->rank) &&
	       (!choice->uuid || strcasecmp(choice->uuid, smd->uuid) == 0) &&
	       (!choice->evicted || strcmp(nvme->state, "EVICTED") == 0);
}

/* "data,meta,wal"; "NA" if none. */
static const char *roles_text(uint32_t roles, char *text)
{
	snprintf(text, ROLES_BYTES, "%s%s%s%s%s", roles & 1 ? "data" : "", (roles & 1) && (roles & 6) ? "," : "",
		 roles & 2 ? "meta" : "", (roles & 2) && (roles & 4) ? "," : "", roles & 4 ? "wal" : "");
	return text[0] ? text : "NA";
}

static const char *targets_text(const struct fathom_control_smd *smd, char *text)
{
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < smd->target_count && used + 16 < TARGETS_BYTES; i++)
		used += (size_t)snprintf(text + used, TARGETS_BYTES - used, "%s%" PRId32, i ? " " : "", smd->targets[i]);
	return text;
}

static size_t print_host_devices(const struct fathom_control_storage *storage, const struct device_choice *choice,
				 FILE *out)
{
	char roles[ROLES_BYTES], targets[TARGETS_BYTES];
	size_t shown = 0;

	for (size_t i = 0; i < storage->nvme_count; i++) {
		const struct fathom_control_nvme *nvme = &storage->nvmes[i];

		for (size_t k = 0; k < nvme->smd_count; k++) {
			const struct fathom_control_smd *smd = &nvme->smds[k];

			if (!is_chosen(choice, nvme, smd))
				continue;
			if (shown++ == 0)
				fprintf(out, "  Devices\n");
			fprintf(out, "    UUID:%s [TrAddr:%s", smd->uuid, nvme->address);
			if (nvme->namespace_count > 0)
				fprintf(out, " NSID:%" PRIu32, nvme->namespaces[0].id);
			fprintf(out, "]\n      Roles:%s Targets:[%s] Rank:%" PRIu32 " State:%s LED:" LED "\n",
				roles_text(smd->roles, roles), targets_text(smd, targets), smd->rank, nvme->state);
			if (!choice->health || !nvme->stats)
				continue;
			print_health_stats(nvme->stats, 6, out);
			fputc('\n', out);
		}
	}
	return shown;
}

bool has_devices(const struct fathom_control_answers *answers, const struct device_choice *choice)
{
	for (size_t i = 0; i < answers->count; i++) {
		const struct fathom_control_storage *storage = answers->answers[i].storage;

		for (size_t n = 0; n < storage->nvme_count; n++) {
			for (size_t k = 0; k < storage->nvmes[n].smd_count; k++) {
				if (is_chosen(choice, &storage->nvmes[n], &storage->nvmes[n].smds[k]))
					return true;
			}
		}
	}
	return false;
}

void show_devices(const struct fathom_control_answers *answers, const struct device_choice *choice, FILE *out)
{
	for (size_t i = 0; i < answers->count; i++) {
		print_hosts(&answers->answers[i], out);
		if (print_host_devices(answers->answers[i].storage, choice, out) == 0)
			fprintf(out, "  No devices found\n");
	}
}

/* ---- JSON ---- */

static const struct device_choice *json_choice;

/* A controller as in a scan, except that its namespaces lack its address, and that it has no list of its devices. */
static json_t *json_controller(const struct fathom_control_nvme *nvme)
{
	json_t *controller = json_of_nvme(nvme), *namespaces = json_array();

	for (size_t i = 0; i < nvme->namespace_count; i++)
		append(namespaces, json_of_namespace(&nvme->namespaces[i]));
	put_text(controller, "pci_type", "");
	put(controller, "namespaces", namespaces);
	put(controller, "smd_devices", json_null());
	if (!json_choice->health)
		put(controller, "health_stats", json_null());
	put_text(controller, "led_state", LED);
	return controller;
}

static json_t *json_device(const struct fathom_control_nvme *nvme, const struct fathom_control_smd *smd)
{
	json_t *device = json_object();
	char roles[ROLES_BYTES];
	bool has_system = false;

	for (size_t i = 0; i < smd->target_count; i++)
		has_system |= smd->targets[i] == SYSTEM_TARGET;
	put_number(device, "role_bits", smd->roles); /* the first key in dmg's output of this command */
	must(json_object_update_new(device, json_of_smd(smd)) == 0);
	if (smd->target_count == 0)
		put(device, "tgt_ids", json_array());
	put_text(device, "roles", roles_text(smd->roles, roles));
	put_bool(device, "has_sys_xs", has_system);
	put(device, "ctrlr", json_controller(nvme));
	put_number(device, "ctrlr_namespace_id", nvme->namespace_count > 0 ? nvme->namespaces[0].id : 0);
	return device;
}

static json_t *make_devices_json(const struct fathom_control_answer *answer)
{
	const struct fathom_control_storage none = { .has_memory = false };
	json_t *host = json_of_storage(&none), *smd_info = json_object(), *devices = json_array();

	for (size_t i = 0; i < answer->storage->nvme_count; i++) {
		const struct fathom_control_nvme *nvme = &answer->storage->nvmes[i];

		for (size_t k = 0; k < nvme->smd_count; k++) {
			if (is_chosen(json_choice, nvme, &nvme->smds[k]))
				append(devices, json_device(nvme, &nvme->smds[k]));
		}
	}
	put(smd_info, "devices", or_null(devices));
	put(smd_info, "pools", json_object());
	put(host, "smd_info", smd_info);
	return host;
}

json_t *json_devices(const struct fathom_control_answers *answers, const struct device_choice *choice)
{
	json_choice = choice;
	return json_answers(answers, "host_storage_map", "hosts", "storage", make_devices_json);
}
