/* SPDX-License-Identifier: BSD-2-Clause */
/* Compares the readings of a device, and raises an event for each change that an operator must know. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "control/server/events/events.h"
#include "control/server/health/internal.h"

/* A fault of the configuration is logged by the server's check of its helper, and is no change of the device. */
static bool is_of_device(const struct fathom_fault *why)
{
	return why->error == -EIO || why->error == -ETIMEDOUT || why->error == -ECHILD || why->error == -EBADMSG;
}

static void report_conditions(struct health_device *device, uint32_t before, uint64_t now_ns)
{
	struct device_health *reading = &device->reading;
	char text[STORAGE_CONDITION_TEXT_BYTES];

	for (int i = 0; i < STORAGE_CONDITIONS; i++) {
		bool was = before & BIT(i), is = reading->health.conditions & BIT(i);

		if (is && !was)
			server_raise_operation(device->health->server, RAS_DEVICE_WARNING, NULL, NULL, "%s: %s",
					       reading->facts.path,
					       storage_condition_text(&reading->health, (enum storage_condition)i, text,
								      sizeof(text)));
		if (was && !is)
			server_raise_operation(device->health->server, RAS_DEVICE_RECOVERED, NULL, NULL, "%s: no longer %s",
					       reading->facts.path, storage_condition_name((enum storage_condition)i));
		if (!is)
			reading->since_ns[i] = 0;
		else if (!was)
			reading->since_ns[i] = now_ns;
	}
}

/* The reading succeeded. */
static void end_failure(struct health_device *device)
{
	struct device_health *reading = &device->reading;

	if (device->is_unread_reported)
		server_raise_operation(device->health->server, RAS_DEVICE_RECOVERED, NULL, NULL,
				       "%s: its health can be read again", reading->facts.path);
	device->is_unread_reported = false;
	device->retry_at = device->retry_ticks = 0;
	reading->failing_ns = 0;
	reading->why = (struct fathom_fault){ 0 };
}

void health_take_pages(struct health_device *device, const struct storage_nvme_pages *pages)
{
	struct device_health *reading = &device->reading;
	uint64_t now_ns = clock_realtime_ns(), media_errors = reading->health.media_errors;
	uint32_t before = reading->health.conditions;
	bool had_figures = reading->has_figures;
	struct storage_health health;
	struct fathom_fault why;

	must(reading->is_nvme);
	if (storage_health_decode(pages, &health, &reading->firmware, &why) != 0) {
		health_take_failure(device, &why);
		return;
	}
	end_failure(device);
	reading->health = health;
	reading->health.conditions = storage_health_judge(&health, before);
	reading->has_figures = true;
	reading->read_ns = now_ns;
	report_conditions(device, before, now_ns);
	if (had_figures && health.media_errors > media_errors)
		server_raise_operation(device->health->server, RAS_DEVICE_MEDIA_ERROR, NULL, NULL,
				       "%s: %" PRIu64 " media errors, %" PRIu64 " more than before", reading->facts.path,
				       health.media_errors, health.media_errors - media_errors);
}

static void report_link(struct health_device *device, const struct storage_kernel_health *now)
{
	const struct storage_kernel_health *before = &device->reading.kernel;
	const char *path = device->reading.facts.path;

	if (before->link_speed_mt && now->link_speed_mt && before->link_speed_mt != now->link_speed_mt)
		server_raise_operation(device->health->server, RAS_DEVICE_LINK_SPEED_CHANGED, NULL, NULL,
				       "%s: the speed of its PCIe link is %u.%u GT/s, and was %u.%u; it can do %u.%u", path,
				       now->link_speed_mt / 1000, now->link_speed_mt % 1000 / 100,
				       before->link_speed_mt / 1000, before->link_speed_mt % 1000 / 100,
				       now->link_speed_max_mt / 1000, now->link_speed_max_mt % 1000 / 100);
	if (before->link_width && now->link_width && before->link_width != now->link_width)
		server_raise_operation(device->health->server, RAS_DEVICE_LINK_WIDTH_CHANGED, NULL, NULL,
				       "%s: the width of its PCIe link is x%u, and was x%u; it can do x%u", path,
				       now->link_width, before->link_width, now->link_width_max);
}

void health_take_kernel(struct health_device *device, const struct found_device *found)
{
	struct device_health *reading = &device->reading;

	reading->instances = found->instances;
	if (reading->has_figures && found->kernel.io_errors > reading->kernel.io_errors)
		server_raise_operation(device->health->server, RAS_DEVICE_MEDIA_ERROR, NULL, NULL,
				       "%s: the kernel counts %" PRIu64 " failed I/Os, %" PRIu64 " more than before",
				       reading->facts.path, found->kernel.io_errors,
				       found->kernel.io_errors - reading->kernel.io_errors);
	report_link(device, &found->kernel);
	reading->kernel = found->kernel;
	if (reading->is_nvme || !found->kernel.temperature_k)
		return;
	reading->health.temperature_k = found->kernel.temperature_k;
	reading->has_figures = true;
	reading->read_ns = clock_realtime_ns();
}

void health_take_failure(struct health_device *device, const struct fathom_fault *why)
{
	struct device_health *reading = &device->reading;

	must(why->error < 0);
	reading->why = *why;
	if (reading->failing_ns == 0)
		reading->failing_ns = clock_realtime_ns();
	device->retry_ticks = device->retry_ticks ? 2 * device->retry_ticks
						  : clock_ticks_from_ns(device->health->interval_ns);
	device->retry_ticks = min_u64(device->retry_ticks, clock_ticks_from_ns(HEALTH_RETRY_S_MAX * NS_PER_SEC));
	device->retry_at = reactor_now() + device->retry_ticks;
	if (!is_of_device(why) || device->is_unread_reported)
		return;
	device->is_unread_reported = true;
	server_raise_operation(device->health->server, RAS_DEVICE_HEALTH_UNREAD, NULL, NULL, "%s", why->text);
}

void health_report_plugged(struct health_device *device)
{
	const struct storage_device *facts = &device->reading.facts;

	must(device->reading.is_present);
	server_raise_operation(device->health->server, RAS_DEVICE_PLUGGED, NULL, NULL, "%s was added: %s %s", facts->path,
			       facts->model, facts->serial);
}

void health_report_gone(struct health_device *device)
{
	const struct storage_device *facts = &device->reading.facts;

	must(!device->reading.is_present);
	server_raise_operation(device->health->server, RAS_DEVICE_UNPLUGGED, NULL, NULL, "%s was removed: %s %s%s",
			       facts->path, facts->model, facts->serial,
			       device->reading.instances ? "; an engine here uses it" : "");
}
