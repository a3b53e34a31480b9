/* SPDX-License-Identifier: BSD-2-Clause */
/* The health of devices: `fathom storage query device-health`, and the parts that dmg has of it, in its layout. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/bits.h"
#include "cmd/fathom/show/parts.h"
#include "cmd/fathom/show/show.h"

enum { DURATION_BYTES = 40, HOUR_MINUTES = 60, UNIT_BYTES = 32 };

static const double zero_celsius_k = 273.15;

/* As Go prints a duration: "1h30m0s". Returns `text`, of DURATION_BYTES. */
static const char *duration_text(uint64_t minutes, char *text)
{
	if (minutes == 0)
		snprintf(text, DURATION_BYTES, "0s");
	else if (minutes < HOUR_MINUTES)
		snprintf(text, DURATION_BYTES, "%" PRIu64 "m0s", minutes);
	else
		snprintf(text, DURATION_BYTES, "%" PRIu64 "h%" PRIu64 "m0s", minutes / HOUR_MINUTES,
			 minutes % HOUR_MINUTES);
	return text;
}

/* "8 GT/s", "2.5 GT/s", "0 T/s". Returns `text`, of UNIT_BYTES. */
static const char *speed_si_text(uint64_t speed, char *text)
{
	static const char *const units[] = { "", "k", "M", "G", "T" };
	double value = (double)speed;
	size_t unit = 0;

	for (; value >= 1000 && unit + 1 < ARRAY_COUNT(units); unit++)
		value /= 1000;
	snprintf(text, UNIT_BYTES, "%g %sT/s", value, units[unit]);
	return text;
}

static void print_warning(const char *name, bool is_set, unsigned int indent, FILE *out)
{
	fprintf(out, "%*s%s: %s\n", (int)indent + 2, "", name, is_set ? "WARNING" : "OK");
}

static void print_counters(const struct fathom_control_health_stats *stats, unsigned int indent, FILE *out)
{
	char text[DURATION_BYTES];
	int in = (int)indent + 2;

	fprintf(out, "%*sController Busy Time:%s\n", in, "", duration_text(stats->busy_minutes, text));
	fprintf(out, "%*sPower Cycles:%" PRIu64 "\n", in, "", stats->power_cycles);
	fprintf(out, "%*sPower On Duration:%s\n", in, "", duration_text(stats->power_on_hours * HOUR_MINUTES, text));
	fprintf(out, "%*sUnsafe Shutdowns:%" PRIu64 "\n", in, "", stats->unsafe_shutdowns);
	fprintf(out, "%*sMedia Errors:%" PRIu64 "\n", in, "", stats->media_errors);
	fprintf(out, "%*sError Log Entries:%" PRIu64 "\n", in, "", stats->error_entries);
	fprintf(out, "%*sLifetime Percent Used:%" PRIu32 "%%\n", in, "", stats->used_percent);
}

static void print_link(const struct fathom_control_health_stats *stats, unsigned int indent, FILE *out)
{
	char text[UNIT_BYTES];
	int in = (int)indent + 2;

	fprintf(out, "%*sPCIe Link Info:\n", (int)indent, "");
	fprintf(out, "%*sPort: #%" PRIu32 "\n", in, "", stats->link_port);
	fprintf(out, "%*sMax Speed: %s\n", in, "", speed_si_text(stats->link_speed_max, text));
	fprintf(out, "%*sNegotiated Speed: %s\n", in, "", speed_si_text(stats->link_speed, text));
	fprintf(out, "%*sMax Width: x%" PRIu32 "\n", in, "", stats->link_width_max);
	fprintf(out, "%*sNegotiated Width: x%" PRIu32 "\n", in, "", stats->link_width);
}

void print_health_stats(const struct fathom_control_health_stats *stats, unsigned int indent, FILE *out)
{
	char text[DURATION_BYTES];
	int in = (int)indent + 2;

	if (!stats) {
		fprintf(out, "%*sHealth Stats Unavailable\n", (int)indent, "");
		return;
	}
	fprintf(out, "%*sHealth Stats:\n", (int)indent, "");
	fprintf(out, "%*sTemperature:%" PRIu32 "K(%.02fC)\n", in, "", stats->temperature_k,
		(double)stats->temperature_k - zero_celsius_k);
	if (stats->warning_minutes > 0)
		fprintf(out, "%*sTemperature Warning Duration:%s\n", in, "", duration_text(stats->warning_minutes, text));
	if (stats->critical_minutes > 0)
		fprintf(out, "%*sTemperature Critical Duration:%s\n", in, "", duration_text(stats->critical_minutes, text));
	print_counters(stats, indent, out);
	fprintf(out, "%*sCritical Warnings:\n", (int)indent, "");
	print_warning("Temperature", stats->hot, indent, out);
	print_warning("Available Spare", stats->spare_low, indent, out);
	print_warning("Device Reliability", stats->unreliable, indent, out);
	print_warning("Read Only", stats->read_only, indent, out);
	print_warning("Volatile Memory Backup", stats->backup_failed, indent, out);
	print_link(stats, indent, out);
}

void show_storage_health(const struct fathom_control_answers *answers, FILE *out)
{
	char size[SIZE_TEXT_BYTES];

	for (size_t i = 0; i < answers->count; i++) {
		const struct fathom_control_storage *storage = answers->answers[i].storage;

		print_hosts(&answers->answers[i], out);
		if (storage->nvme_error[0])
			fprintf(out, "  NVMe scan failed: %s\n", storage->nvme_error);
		else if (storage->nvme_count == 0)
			fprintf(out, "  No NVMe devices detected\n");
		for (size_t k = 0; k < storage->nvme_count; k++) {
			const struct fathom_control_nvme *nvme = &storage->nvmes[k];

			fprintf(out, "PCI:%s Model:%s FW:%s Socket:%" PRId32 " Capacity:%s\n", nvme->address, nvme->model,
				nvme->firmware, nvme->numa_node, size_text(nvme->bytes, size));
			print_health_stats(nvme->stats, 2, out);
			fputc('\n', out);
		}
	}
}

/* ---- device-health ---- */

static bool is_chosen(const struct fathom_control_device_health *device, const char *only)
{
	return !only || strcmp(device->path, only) == 0 || strcasecmp(device->pci_address, only) == 0 ||
	       strcmp(device->serial, only) == 0;
}

size_t count_devices_health(const struct fathom_control_answers *answers, const char *only, bool only_bad)
{
	size_t found = 0;

	for (size_t i = 0; i < answers->count; i++) {
		const struct fathom_control_health *health = answers->answers[i].health;

		for (size_t k = 0; k < health->count; k++) {
			const char *state = health->devices[k].state;
			bool is_bad = strcmp(state, "ok") != 0 && strcmp(state, "none") != 0;

			found += is_chosen(&health->devices[k], only) && (is_bad || !only_bad);
		}
	}
	return found;
}

static void print_state(const struct fathom_control_device_health *device, FILE *out)
{
	char time[SIZE_TEXT_BYTES];

	fprintf(out, "  State: %s", device->state);
	if (device->since_ns)
		fprintf(out, ", since %s", time_text(device->since_ns, time));
	fprintf(out, "%s%s\n", device->reason[0] ? ": " : "", device->reason);
	if (device->remedy[0])
		fprintf(out, "    %s\n", device->remedy);
	for (size_t i = 0; i < device->condition_count; i++)
		fprintf(out, "    since %s: %s\n", time_text(device->conditions[i].since_ns, time),
			device->conditions[i].text);
	if (device->read_ns && strcmp(device->state, "ok") != 0)
		fprintf(out, "  Read: %s\n", time_text(device->read_ns, time));
}

static void print_instances(const struct fathom_control_device_health *device, FILE *out)
{
	if (device->instance_count == 0)
		return;
	fprintf(out, "  Engines:");
	for (size_t i = 0; i < device->instance_count; i++)
		fprintf(out, "%s%" PRIu32, i ? "," : " ", device->instances[i]);
	fputc('\n', out);
}

static void print_slots(const struct fathom_control_device_health *device, FILE *out)
{
	fprintf(out, "  Firmware Slots:%s\n", device->can_update ? "" : " (no updates)");
	for (size_t i = 0; i < device->slot_count; i++) {
		const struct fathom_control_firmware_slot *slot = &device->slots[i];

		fprintf(out, "    %" PRIu32 ": %s%s%s\n", slot->number, slot->revision[0] ? slot->revision : "(empty)",
			slot->active ? ", active" : "", slot->next ? ", active after the next reset" : "");
	}
}

/* What dmg does not show. */
static void print_more(const struct fathom_control_device_health *device, FILE *out)
{
	char size[SIZE_TEXT_BYTES];

	if (device->stats) {
		if (device->warning_k)
			fprintf(out, "  Temperature Threshold:%" PRIu32 "K(%.02fC)\n", device->warning_k,
				(double)device->warning_k - zero_celsius_k);
		fprintf(out, "  Spare Blocks:%" PRIu32 "%% (threshold %" PRIu32 "%%)\n", device->spare_percent,
			device->spare_minimum_percent);
		fprintf(out, "  Host Bytes Read:%s\n", size_text(device->read_bytes, size));
		fprintf(out, "  Host Bytes Written:%s\n", size_text(device->written_bytes, size));
	} else if (device->temperature_k) {
		fprintf(out, "  Temperature:%" PRIu32 "K(%.02fC)\n", device->temperature_k,
			(double)device->temperature_k - zero_celsius_k);
	}
	if (device->io_errors)
		fprintf(out, "  I/O Errors:%" PRIu64 "\n", device->io_errors);
}

static void print_device(const struct fathom_control_device_health *device, FILE *out)
{
	char size[SIZE_TEXT_BYTES];

	fprintf(out, "%s", device->path);
	if (device->pci_address[0])
		fprintf(out, " PCI:%s", device->pci_address);
	if (device->model[0])
		fprintf(out, " Model:%s", device->model);
	if (device->serial[0])
		fprintf(out, " Serial:%s", device->serial);
	if (device->firmware[0])
		fprintf(out, " FW:%s", device->firmware);
	if (device->numa_node >= 0)
		fprintf(out, " Socket:%" PRId32, device->numa_node);
	fprintf(out, " Capacity:%s\n", size_text(device->bytes, size));
	print_state(device, out);
	print_instances(device, out);
	if (device->stats)
		print_health_stats(device->stats, 2, out);
	print_more(device, out);
	if (device->stats)
		print_slots(device, out);
	fputc('\n', out);
}

void show_device_health(const struct fathom_control_answers *answers, const char *only, FILE *out)
{
	for (size_t i = 0; i < answers->count; i++) {
		const struct fathom_control_health *health = answers->answers[i].health;
		size_t shown = 0;

		print_hosts(&answers->answers[i], out);
		for (size_t k = 0; k < health->count; k++) {
			if (!is_chosen(&health->devices[k], only))
				continue;
			print_device(&health->devices[k], out);
			shown++;
		}
		if (shown == 0)
			fprintf(out, "  No devices found\n");
	}
}

static const char *json_only;
static const char *const firmware_keys[] = { "path", "model", "serial", "firmware", "pci_address", "slots", "can_update" };

static json_t *make_health_json(const struct fathom_control_answer *answer)
{
	json_t *host = json_object(), *devices = json_array();

	for (size_t i = 0; i < answer->health->count; i++) {
		if (is_chosen(&answer->health->devices[i], json_only))
			append(devices, json_of_device_health(&answer->health->devices[i]));
	}
	put(host, "devices", devices);
	return host;
}

json_t *json_device_health(const struct fathom_control_answers *answers, const char *only)
{
	json_only = only;
	return json_answers(answers, "HostHealth", "hosts", "health", make_health_json);
}

/* ---- firmware ---- */

void show_firmware(const struct fathom_control_answers *answers, const char *only, FILE *out)
{
	char size[SIZE_TEXT_BYTES];

	for (size_t i = 0; i < answers->count; i++) {
		const struct fathom_control_health *health = answers->answers[i].health;
		size_t shown = 0;

		print_hosts(&answers->answers[i], out);
		for (size_t k = 0; k < health->count; k++) {
			const struct fathom_control_device_health *device = &health->devices[k];

			if (!is_chosen(device, only) || device->slot_count == 0)
				continue;
			fprintf(out, "%s Model:%s Serial:%s FW:%s Capacity:%s\n", device->path, device->model,
				device->serial, device->firmware, size_text(device->bytes, size));
			print_slots(device, out);
			fputc('\n', out);
			shown++;
		}
		if (shown == 0)
			fprintf(out, "  No devices with firmware slots found\n");
	}
}

static json_t *make_firmware_json(const struct fathom_control_answer *answer)
{
	json_t *host = json_object(), *devices = json_array();

	for (size_t i = 0; i < answer->health->count; i++) {
		const struct fathom_control_device_health *device = &answer->health->devices[i];
		json_t *row, *whole;

		if (!is_chosen(device, json_only) || device->slot_count == 0)
			continue;
		whole = json_of_device_health(device);
		row = json_object();
		for (size_t k = 0; k < ARRAY_COUNT(firmware_keys); k++)
			put(row, firmware_keys[k], json_incref(json_object_get(whole, firmware_keys[k])));
		json_decref(whole);
		append(devices, row);
	}
	put(host, "devices", devices);
	return host;
}

json_t *json_firmware(const struct fathom_control_answers *answers, const char *only)
{
	json_only = only;
	return json_answers(answers, "HostFirmware", "hosts", "firmware", make_firmware_json);
}

void show_firmware_updated(const struct fathom_control_answers *answers, FILE *out)
{
	for (size_t i = 0; i < answers->count; i++) {
		print_hosts(&answers->answers[i], out);
		fprintf(out, "  %s: the firmware is stored, and active %s\n", answers->answers[i].updated->path,
			answers->answers[i].updated->active_when);
	}
}

void show_led(const struct fathom_control_answers *answers, FILE *out)
{
	for (size_t i = 0; i < answers->count; i++) {
		const struct fathom_control_led *led = answers->answers[i].led;

		print_hosts(&answers->answers[i], out);
		fprintf(out, "  %s Serial:%s LED:%s\n", led->path, led->serial, led->state);
	}
}
