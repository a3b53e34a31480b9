/* SPDX-License-Identifier: BSD-2-Clause */
/* The health of devices as messages: HostHealth, and DAOS's statistics of a device. */
#include <string.h>

#include "base/bits.h"
#include "control/server/health/internal.h"
#include "rpc/proto/fathom.pb-c.h"

enum { TRANSFERS_PER_MT = 1000000, REASON_BYTES = 640 };

Ctl__BioHealthResp *health_stats(const struct device_health *device, struct arena *arena)
{
	const struct storage_health *health = &device->health;
	Ctl__BioHealthResp *stats;

	if (!device->is_nvme || !device->has_figures)
		return NULL;
	stats = arena_message(arena, ctl__bio_health_resp, Ctl__BioHealthResp);
	stats->warn_temp_time = health->warning_minutes;
	stats->crit_temp_time = health->critical_minutes;
	stats->ctrl_busy_time = health->busy_minutes;
	stats->power_cycles = health->power_cycles;
	stats->power_on_hours = health->power_on_hours;
	stats->unsafe_shutdowns = health->unsafe_shutdowns;
	stats->media_errs = health->media_errors;
	stats->err_log_entries = health->error_entries;
	stats->temperature = health->temperature_k;
	stats->temp_warn = health->conditions & BIT(STORAGE_HOT);
	stats->avail_spare_warn = health->conditions & BIT(STORAGE_SPARE_LOW);
	stats->dev_reliability_warn = health->conditions & BIT(STORAGE_UNRELIABLE);
	stats->read_only_warn = health->conditions & BIT(STORAGE_READ_ONLY);
	stats->volatile_mem_warn = health->conditions & BIT(STORAGE_BACKUP_FAILED);
	stats->percentage_used = health->used_percent;
	stats->link_max_speed = (float)device->kernel.link_speed_max_mt * TRANSFERS_PER_MT;
	stats->link_neg_speed = (float)device->kernel.link_speed_mt * TRANSFERS_PER_MT;
	stats->link_max_width = device->kernel.link_width_max;
	stats->link_neg_width = device->kernel.link_width;
	return stats;
}

/* A device without figures: why it has none. */
static const char *explain_none(const struct storage_device *facts)
{
	switch (facts->class) {
	case STORAGE_CLASS_NVME:
		return "it was not read yet";
	case STORAGE_CLASS_SSD:
	case STORAGE_CLASS_HDD:
		return "the kernel shows only errors, and no temperature without the module drivetemp: see `smartctl`";
	case STORAGE_CLASS_LOOP:
		return "a loop device reports no health: look at the device of its file";
	default:
		return "this device reports no health";
	}
}

static void fill_state(Fathom__HostHealthResp__Device *row, const struct device_health *device, struct arena *arena)
{
	char reason[REASON_BYTES];

	row->state = "ok";
	if (!device->is_present) {
		row->state = "gone";
		row->reason = "the device is not in this host any more";
		row->since_ns = device->gone_ns;
	} else if (device->why.error) {
		row->state = "unread";
		snprintf(reason, sizeof(reason), "%s", device->why.text);
		row->reason = arena_text(arena, reason);
		row->remedy = arena_text(arena, device->why.resolution);
		row->since_ns = device->failing_ns;
	} else if (!device->has_figures) {
		row->state = "none";
		row->reason = arena_text(arena, explain_none(&device->facts));
	} else if (device->health.conditions) {
		row->state = "warning";
		row->since_ns = UINT64_MAX;
		for (int i = 0; i < STORAGE_CONDITIONS; i++) {
			if (device->since_ns[i])
				row->since_ns = min_u64(row->since_ns, device->since_ns[i]);
		}
	}
}

static void fill_conditions(Fathom__HostHealthResp__Device *row, const struct device_health *device, struct arena *arena)
{
	char text[STORAGE_CONDITION_TEXT_BYTES];

	row->conditions = arena_take(arena, STORAGE_CONDITIONS * sizeof(*row->conditions));
	for (int i = 0; i < STORAGE_CONDITIONS; i++) {
		Fathom__HostHealthResp__Condition *condition;

		if (!(device->health.conditions & BIT(i)))
			continue;
		condition = arena_message(arena, fathom__host_health_resp__condition, Fathom__HostHealthResp__Condition);
		condition->name = arena_text(arena, storage_condition_name((enum storage_condition)i));
		condition->text = arena_text(arena, storage_condition_text(&device->health, (enum storage_condition)i, text,
									   sizeof(text)));
		condition->since_ns = device->since_ns[i];
		row->conditions[row->n_conditions++] = condition;
	}
}

static void fill_slots(Fathom__HostHealthResp__Device *row, const struct storage_firmware *firmware, struct arena *arena)
{
	must(firmware->slot_count <= STORAGE_SLOTS_MAX);
	row->can_update = firmware->can_update;
	row->slots = arena_take(arena, STORAGE_SLOTS_MAX * sizeof(*row->slots));
	for (uint32_t i = 0; i < firmware->slot_count; i++) {
		Fathom__HostHealthResp__Slot *slot = arena_message(arena, fathom__host_health_resp__slot,
								   Fathom__HostHealthResp__Slot);

		slot->number = i + 1;
		slot->revision = arena_text(arena, firmware->revisions[i]);
		slot->active = firmware->active == i + 1;
		slot->next = firmware->next == i + 1;
		row->slots[row->n_slots++] = slot;
	}
}

static void fill_identity(Fathom__HostHealthResp__Device *row, const struct device_health *device, struct arena *arena)
{
	const struct storage_device *facts = &device->facts;

	row->path = arena_text(arena, facts->path);
	row->kind = arena_text(arena, storage_class_name(facts->class));
	row->bytes = facts->bytes;
	row->model = arena_text(arena, facts->model);
	row->serial = arena_text(arena, facts->serial);
	row->firmware = arena_text(arena, facts->firmware);
	row->pci_address = arena_text(arena, facts->pci_address);
	row->numa_node = facts->numa_node;
	row->instances = arena_take(arena, SERVER_ENGINES_MAX * sizeof(*row->instances));
	for (uint32_t i = 0; i < SERVER_ENGINES_MAX; i++) {
		if (device->instances & BIT(i))
			row->instances[row->n_instances++] = i;
	}
}

static Fathom__HostHealthResp__Device *device_answer(const struct device_health *device, struct arena *arena)
{
	const struct storage_health *health = &device->health;
	Fathom__HostHealthResp__Device *row = arena_message(arena, fathom__host_health_resp__device,
							    Fathom__HostHealthResp__Device);

	fill_identity(row, device, arena);
	fill_state(row, device, arena);
	fill_conditions(row, device, arena);
	fill_slots(row, &device->firmware, arena);
	row->stats = health_stats(device, arena);
	row->temperature_k = health->temperature_k;
	row->read_ns = device->read_ns;
	row->warning_k = health->warning_k;
	row->critical_k = health->critical_k;
	row->spare_percent = health->spare_percent;
	row->spare_minimum_percent = health->spare_minimum_percent;
	row->read_bytes = health->read_bytes;
	row->written_bytes = health->written_bytes;
	row->read_commands = health->read_commands;
	row->write_commands = health->write_commands;
	row->io_errors = device->kernel.io_errors;
	return row;
}

const ProtobufCMessage *health_answer(const struct server *server, struct arena *arena)
{
	Fathom__HostHealthResp *answer = arena_message(arena, fathom__host_health_resp, Fathom__HostHealthResp);
	const struct device_health *device = NULL;

	answer->devices = arena_take(arena, (HEALTH_DEVICES_MAX + 1) * sizeof(*answer->devices));
	while ((device = health_next(server, device)) && answer->n_devices < HEALTH_DEVICES_MAX)
		answer->devices[answer->n_devices++] = device_answer(device, arena);
	return &answer->base;
}
