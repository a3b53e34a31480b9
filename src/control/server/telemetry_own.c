/* SPDX-License-Identifier: BSD-2-Clause */
/* The figures of the server itself, and the conditions that an operator must know. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/observe/trace/figures.h"
#include "control/instance/instance.h"
#include "control/server/health/health.h"
#include "control/server/telemetry.h"
#include "control/status/certificate.h"
#include "control/system/system.h"

enum { STATE_BYTES = 32 };

static bool is_level(const char *name)
{
	static const char *const names[] = { "events_waiting",	"map_behind",	   "pools",	"volumes",
					     "storage_pending", "shares_draining", "old_copies" };

	for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
		if (strcmp(names[i], name) == 0)
			return true;
	}
	return false;
}

static void add_counters(const struct server *server, struct figures *figures)
{
	struct server_counter counters[SERVER_COUNTERS_MAX];
	size_t count = server_counters(server, counters);

	for (size_t i = 0; i < count; i++) {
		if (is_level(counters[i].name))
			figure_server_levels(figures, counters[i].group, counters[i].name, (double)counters[i].value);
		else
			figure_server_counts(figures, counters[i].group, counters[i].name, (double)counters[i].value);
	}
}

/* Names of states as labels: in lower case. */
static const char *label_of(const char *name, char to[static STATE_BYTES])
{
	size_t i;

	for (i = 0; name[i] && i < STATE_BYTES - 1; i++)
		to[i] = (char)tolower((unsigned char)name[i]);
	to[i] = '\0';
	return to;
}

static void add_members(const struct server *server, struct figures *figures)
{
	const struct system *system;
	uint64_t counts[MEMBER_STATES] = { 0 };
	char label[STATE_BYTES];

	if (!server->of_call.mgmt)
		return;
	static_assert(MEMBER_STATES - (MEMBER_UNKNOWN + 1) == 11, "the bound of the family members in figures.def");
	system = mgmt_system(server->of_call.mgmt);
	for (size_t i = 0; i < system_member_count(system); i++)
		counts[system_member_at(system, i)->state]++;
	for (unsigned int state = MEMBER_UNKNOWN + 1; state < MEMBER_STATES; state++)
		figure_members(figures, label_of(member_state_name((enum member_state)state), label),
			       (double)counts[state]);
}

static void add_certificates(const struct server_frame *frame, struct figures *figures)
{
	struct grpc_life lives[2];

	if (!frame->tls)
		return;
	grpc_tls_lives(frame->tls, lives);
	for (size_t i = 0; i < ARRAY_COUNT(lives); i++)
		figure_certificate_expiry_timestamp_seconds(figures, lives[i].path, (double)lives[i].ends_s);
}

static void add_engines(const struct telemetry *telemetry, struct figures *figures)
{
	const struct server *server = telemetry->server;

	for (uint32_t i = 0; i < server->instance_count; i++) {
		struct instance_info info;
		char index[16], state[STATE_BYTES];

		instance_get_info(server->instances[i], &info);
		snprintf(index, sizeof(index), "%" PRIu32, info.index);
		figure_engine_up(figures, index, telemetry->engines[i].rank, telemetry->engines[i].is_up);
		figure_engine_state(figures, index, label_of(instance_state_name(info.state), state), 1);
		figure_engine_starts(figures, index, (double)info.starts);
	}
}

static void add_events(const struct server *server, struct figures *figures)
{
	figure_events(figures, "error", (double)server->stats.events_error);
	figure_events(figures, "warning", (double)server->stats.events_warning);
	figure_events(figures, "notice", (double)server->stats.events_notice);
}

/* ---- devices ---- */

static const char *device_state(const struct device_health *device)
{
	if (!device->is_present)
		return "gone";
	if (device->why.error)
		return "unread";
	if (!device->has_figures)
		return "none";
	return device->health.conditions ? "warning" : "ok";
}

static void add_nvme(const struct device_health *device, struct figures *figures)
{
	const struct storage_health *health = &device->health;
	const char *path = device->facts.path;

	for (int i = 0; i < STORAGE_CONDITIONS; i++)
		figure_device_condition(figures, path, storage_condition_name((enum storage_condition)i),
					(health->conditions & BIT(i)) != 0);
	figure_nvme_commands_media_errs(figures, path, (double)health->media_errors);
	figure_nvme_err_log_entries(figures, path, (double)health->error_entries);
	figure_nvme_reliability_avail_spare(figures, path, health->spare_percent);
	figure_nvme_reliability_avail_spare_threshold(figures, path, health->spare_minimum_percent);
	figure_nvme_reliability_percentage_used(figures, path, health->used_percent);
	figure_nvme_commands_read_bytes(figures, path, (double)health->read_bytes);
	figure_nvme_commands_written_bytes(figures, path, (double)health->written_bytes);
	figure_nvme_power_cycles(figures, path, (double)health->power_cycles);
	figure_nvme_unsafe_shutdowns(figures, path, (double)health->unsafe_shutdowns);
	figure_nvme_power_on_seconds(figures, path, (double)health->power_on_hours * 3600);
}

static void add_device(const struct device_health *device, struct figures *figures)
{
	const struct storage_device *facts = &device->facts;

	figure_device(figures, facts->path, facts->model, facts->serial, facts->firmware);
	figure_device_state(figures, facts->path, device_state(device), 1);
	if (!device->is_present)
		return;
	if (!device->is_nvme)
		figure_device_io_errors(figures, facts->path, (double)device->kernel.io_errors);
	if (!device->has_figures)
		return;
	if (device->health.temperature_k)
		figure_device_temperature_celsius(figures, facts->path, storage_celsius(device->health.temperature_k));
	if (device->is_nvme)
		add_nvme(device, figures);
}

static void add_devices(const struct server *server, struct figures *figures)
{
	for (const struct device_health *device = health_next(server, NULL); device; device = health_next(server, device))
		add_device(device, figures);
}

/* ---- conditions that an operator must know ---- */

static void check_engines(const struct server *server, struct figure_checks *checks)
{
	for (uint32_t i = 0; i < server->instance_count; i++) {
		struct instance_info info;

		instance_get_info(server->instances[i], &info);
		checks->counts[FIGURE_CHECK_PROCESS_SILENT] += info.is_hung;
		checks->counts[FIGURE_CHECK_RANK_NOT_JOINED] += info.state != INSTANCE_JOINED &&
								info.state != INSTANCE_STOPPED;
	}
}

static void check_members(const struct server *server, struct figure_checks *checks)
{
	const struct system *system;

	if (!server->of_call.mgmt)
		return;
	system = mgmt_system(server->of_call.mgmt);
	for (size_t i = 0; i < system_member_count(system); i++) {
		enum member_state state = system_member_at(system, i)->state;

		checks->counts[FIGURE_CHECK_MEMBER_MISSING] += state == MEMBER_UNRESPONSIVE || state == MEMBER_ERRORED ||
							       state == MEMBER_EXCLUDED;
	}
}

static void check_certificates(const struct server_frame *frame, struct figure_checks *checks)
{
	struct grpc_life lives[2];

	if (!frame->tls)
		return;
	grpc_tls_lives(frame->tls, lives);
	for (size_t i = 0; i < ARRAY_COUNT(lives); i++) {
		int stage = certificate_stage((int64_t)(clock_realtime_ns() / NS_PER_SEC), lives[i].ends_s);

		checks->counts[FIGURE_CHECK_CERTIFICATE_EXPIRED] += stage == CERTIFICATE_OVER;
		checks->counts[FIGURE_CHECK_CERTIFICATE_EXPIRING] += stage > 0;
	}
}

static void check_devices(const struct server *server, struct figure_checks *checks)
{
	for (const struct device_health *device = health_next(server, NULL); device; device = health_next(server, device)) {
		checks->counts[FIGURE_CHECK_DEVICE_GONE] += !device->is_present;
		checks->counts[FIGURE_CHECK_DEVICE_UNREAD] += device->is_present && device->why.error != 0;
		checks->counts[FIGURE_CHECK_DEVICE_WARNING] += device->is_present && device->health.conditions != 0;
	}
}

static void add_checks(const struct telemetry *telemetry, struct figures *figures)
{
	struct figure_checks checks = { 0 };

	check_engines(telemetry->server, &checks);
	check_members(telemetry->server, &checks);
	check_certificates(telemetry->frame, &checks);
	check_devices(telemetry->server, &checks);
	figures_add_checks(figures, &checks, true, telemetry->muted);
}

/* ---- all of it ---- */

void telemetry_add_own(const struct telemetry *telemetry, struct figures *figures)
{
	char build_id[TRACE_BUILD_ID_TEXT_BYTES];

	trace_figures_build_id(build_id);
	figure_server(figures, telemetry->server->options->version, build_id);
	figure_server_start_time_seconds(figures, (double)(telemetry->start_ns / NS_PER_MS) / 1000.0);
	add_engines(telemetry, figures);
	add_counters(telemetry->server, figures);
	add_members(telemetry->server, figures);
	add_events(telemetry->server, figures);
	add_certificates(telemetry->frame, figures);
	add_devices(telemetry->server, figures);
	add_checks(telemetry, figures);
}
