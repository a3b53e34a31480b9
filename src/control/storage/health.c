/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/storage/health.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "data/nvme/identify.h"
#include "data/nvme/log.h"

enum {
	ZERO_CELSIUS_K = 273,
	LIFE_PERCENT = 100,
	FIRMWARE_UNIT_BYTES = 4096, /* of FWUG */
	FIRMWARE_UNIT_ANY = 0xff,   /* FWUG: no restriction but dwords */
	FIRMWARE_SLOTS_MASK = 7,    /* of FRMW and AFI */
	FIRMWARE_NEXT_SHIFT = 4,    /* in AFI */
};

static_assert(offsetof(struct nvme_identify_controller, fwug) < STORAGE_IDENTIFY_BYTES, "all used fields are read");
static_assert(offsetof(struct nvme_log_smart, temperature_sensor) + 16 == STORAGE_SMART_BYTES, "with the sensors");
static_assert(offsetof(struct nvme_log_firmware_slot, reserved64) == STORAGE_SLOTS_BYTES, "with all slots");
static_assert(STORAGE_IDENTIFY_BYTES % 4 == 0 && STORAGE_SMART_BYTES % 4 == 0 && STORAGE_SLOTS_BYTES % 4 == 0, "dwords");

static uint64_t cap_counter(struct nvme_u128 counter)
{
	return counter.high ? UINT64_MAX : counter.low;
}

static uint64_t data_bytes(struct nvme_u128 units)
{
	uint64_t count = cap_counter(units);

	return count > UINT64_MAX / NVME_SMART_DATA_UNIT_BYTES ? UINT64_MAX : count * NVME_SMART_DATA_UNIT_BYTES;
}

static uint32_t conditions_of(const struct nvme_log_smart *smart)
{
	static const struct {
		uint8_t warning;
		enum storage_condition condition;
	} rows[] = {
		{ NVME_SMART_SPARE_LOW, STORAGE_SPARE_LOW },	     { NVME_SMART_TEMPERATURE, STORAGE_HOT },
		{ NVME_SMART_RELIABILITY, STORAGE_UNRELIABLE },	     { NVME_SMART_READ_ONLY, STORAGE_READ_ONLY },
		{ NVME_SMART_BACKUP_FAILED, STORAGE_BACKUP_FAILED },
	};
	uint32_t conditions = 0;

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		if (smart->critical_warning & rows[i].warning)
			conditions |= (uint32_t)BIT(rows[i].condition);
	}
	return conditions;
}

/* Without blanks around it; bytes that are not printable are replaced. */
static void copy_revision(char to[STORAGE_REVISION_BYTES], const char from[8])
{
	size_t length = strnlen(from, 8);

	while (length > 0 && from[length - 1] == ' ')
		length--;
	for (size_t i = 0; i < length; i++)
		to[i] = (char)(from[i] >= ' ' && from[i] <= '~' ? from[i] : '?');
	to[length] = '\0';
}

static int decode_firmware(const struct nvme_identify_controller *identify, const struct nvme_log_firmware_slot *log,
			   struct storage_firmware *firmware, struct fathom_fault *why)
{
	*firmware = (struct storage_firmware){
		.can_update = (identify->oacs & NVME_OACS_FIRMWARE) != 0,
		.is_first_read_only = (identify->frmw & NVME_FRMW_SLOT1_READ_ONLY) != 0,
		.without_reset = (identify->frmw & NVME_FRMW_NO_RESET) != 0,
		.slot_count = identify->frmw >> NVME_FRMW_SLOTS_SHIFT & FIRMWARE_SLOTS_MASK,
		.active = log->afi & FIRMWARE_SLOTS_MASK,
		.next = log->afi >> FIRMWARE_NEXT_SHIFT & FIRMWARE_SLOTS_MASK,
		.piece_bytes = FIRMWARE_UNIT_BYTES,
	};
	if (firmware->slot_count == 0) /* older than that field */
		firmware->slot_count = 1;
	if (firmware->active > firmware->slot_count || firmware->next > firmware->slot_count)
		return fault(why, -EBADMSG, "the controller has %u firmware slots, and uses slot %u", firmware->slot_count,
			     firmware->active > firmware->slot_count ? firmware->active : firmware->next);
	if (identify->fwug == FIRMWARE_UNIT_ANY)
		firmware->piece_bytes = 4;
	else if (identify->fwug > 0)
		firmware->piece_bytes = (uint32_t)identify->fwug * FIRMWARE_UNIT_BYTES;
	for (uint32_t i = 0; i < firmware->slot_count; i++)
		copy_revision(firmware->revisions[i], log->revision[i]);
	if (firmware->active > 0 && firmware->revisions[firmware->active - 1][0] == '\0')
		copy_revision(firmware->revisions[firmware->active - 1], identify->fr);
	return 0;
}

int storage_health_decode(const struct storage_nvme_pages *pages, struct storage_health *health_ret,
			  struct storage_firmware *firmware_ret, struct fathom_fault *why)
{
	struct nvme_identify_controller identify = { 0 };
	struct nvme_log_firmware_slot slots = { 0 };
	struct nvme_log_smart smart = { 0 };
	struct storage_firmware firmware;
	int error;

	memcpy(&identify, pages->identify, sizeof(pages->identify));
	memcpy(&smart, pages->smart, sizeof(pages->smart));
	memcpy(&slots, pages->slots, sizeof(pages->slots));
	error = decode_firmware(&identify, &slots, &firmware, why);
	if (error)
		return error;
	*firmware_ret = firmware;
	*health_ret = (struct storage_health){
		.conditions = conditions_of(&smart),
		.temperature_k = smart.temperature,
		.warning_k = identify.wctemp,
		.critical_k = identify.cctemp,
		.spare_percent = smart.available_spare,
		.spare_minimum_percent = smart.available_spare_threshold,
		.used_percent = smart.percentage_used,
		.read_bytes = data_bytes(smart.data_units_read),
		.written_bytes = data_bytes(smart.data_units_written),
		.read_commands = cap_counter(smart.host_read_commands),
		.write_commands = cap_counter(smart.host_write_commands),
		.busy_minutes = cap_counter(smart.controller_busy_time),
		.power_cycles = cap_counter(smart.power_cycles),
		.power_on_hours = cap_counter(smart.power_on_hours),
		.unsafe_shutdowns = cap_counter(smart.unsafe_shutdowns),
		.media_errors = cap_counter(smart.media_errors),
		.error_entries = cap_counter(smart.error_log_entries),
		.warning_minutes = smart.warning_temperature_time,
		.critical_minutes = smart.critical_temperature_time,
	};
	health_ret->conditions = storage_health_judge(health_ret, 0);
	return 0;
}

uint32_t storage_health_judge(const struct storage_health *health, uint32_t before)
{
	uint32_t conditions = health->conditions;

	must(before < BIT(STORAGE_CONDITIONS));
	if (health->spare_percent < health->spare_minimum_percent)
		conditions |= (uint32_t)BIT(STORAGE_SPARE_LOW);
	if (health->used_percent >= LIFE_PERCENT)
		conditions |= (uint32_t)BIT(STORAGE_WORN);
	if (health->warning_k && health->temperature_k >= health->warning_k)
		conditions |= (uint32_t)BIT(STORAGE_HOT);
	if ((before & BIT(STORAGE_HOT)) && health->warning_k &&
	    health->temperature_k + STORAGE_COOLER_K > health->warning_k)
		conditions |= (uint32_t)BIT(STORAGE_HOT);
	must(conditions < BIT(STORAGE_CONDITIONS));
	return conditions;
}

const char *storage_condition_name(enum storage_condition condition)
{
	static const char *const names[STORAGE_CONDITIONS] = {
		[STORAGE_SPARE_LOW] = "spare-low",	   [STORAGE_HOT] = "hot",
		[STORAGE_UNRELIABLE] = "unreliable",	   [STORAGE_READ_ONLY] = "read-only",
		[STORAGE_BACKUP_FAILED] = "backup-failed", [STORAGE_WORN] = "worn",
	};

	must(condition < STORAGE_CONDITIONS);
	return names[condition];
}

int32_t storage_celsius(uint32_t kelvin)
{
	return (int32_t)kelvin - ZERO_CELSIUS_K;
}

/* The critical warning of temperature can also be set below a lower threshold, which the pages do not have. */
static void describe_temperature(const struct storage_health *health, char *text, size_t bytes)
{
	bool is_above = health->warning_k && health->temperature_k + STORAGE_COOLER_K > health->warning_k;

	if (is_above)
		snprintf(text, bytes, "its temperature is %d C, and its threshold %d C",
			 storage_celsius(health->temperature_k), storage_celsius(health->warning_k));
	else
		snprintf(text, bytes, "its temperature is %d C, out of its range", storage_celsius(health->temperature_k));
}

const char *storage_condition_text(const struct storage_health *health, enum storage_condition condition, char *text,
				   size_t bytes)
{
	switch (condition) {
	case STORAGE_SPARE_LOW:
		snprintf(text, bytes, "%u %% of its spare blocks are left, and its threshold is %u %%",
			 health->spare_percent, health->spare_minimum_percent);
		break;
	case STORAGE_HOT:
		describe_temperature(health, text, bytes);
		break;
	case STORAGE_UNRELIABLE:
		snprintf(text, bytes, "it is unreliable after errors of its medium or inside it");
		break;
	case STORAGE_READ_ONLY:
		snprintf(text, bytes, "its medium takes no writes any more");
		break;
	case STORAGE_BACKUP_FAILED:
		snprintf(text, bytes, "the backup of its volatile memory failed");
		break;
	case STORAGE_WORN:
		snprintf(text, bytes, "%u %% of its estimated life are used", health->used_percent);
		break;
	default:
		must(false);
	}
	return text;
}
