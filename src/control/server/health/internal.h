/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * health, internal.
 *
 *	health.c	rounds: the scan, requests to the helper, waiting calls
 *	found.c		what a scan on a worker thread finds
 *	judge.c		compares readings, and raises events
 *	answer.c	HostHealth
 *	manage.c	FirmwareUpdate
 *	lamps.c		DeviceLed, and DAOS's SmdManage, which does the same
 */
#ifndef CONTROL_SERVER_HEALTH_INTERNAL_H
#define CONTROL_SERVER_HEALTH_INTERNAL_H

#include "base/list.h"
#include "base/reactor/worker.h"
#include "control/server/health/health.h"

/* A device of a scan. */
struct found_device {
	struct storage_device facts;
	struct storage_kernel_health kernel;
	uint64_t instances;
};

struct found_devices {
	struct fathom_fault why; /* error 0: complete */
	struct found_device *devices;
	size_t count;
};

/* A watched device. */
struct health_device {
	struct device_health reading; /* first */
	struct server_health *health;
	TAILQ_ENTRY(health_device) link;
	bool is_due, is_sent;
	uint64_t retry_at, retry_ticks; /* 0: the last reading did not fail */
	bool is_unread_reported;	/* the event device_health_unread was raised */
};

/* A call that waits for the end of a round. */
struct health_caller {
	TAILQ_ENTRY(health_caller) link;
	struct grpc_call *call;
};

struct server_health {
	struct server *server;
	struct worker_job job;
	struct found_devices found;
	TAILQ_HEAD(, health_device) devices; /* by name */
	TAILQ_HEAD(, health_caller) callers;
	size_t count;
	unsigned int sent;
	bool is_running, is_first; /* a round; the first one, which reports no devices as new */
	bool is_leaving;
	uint64_t interval_ns;
	uint64_t began, ended; /* ticks, of the last round */
	struct deadline due;
	TAILQ_HEAD(, lamp) lamps;
};

/* A lamp that the server will switch off. */
struct lamp {
	TAILQ_ENTRY(lamp) link;
	struct server *server;
	struct deadline due;
	char path[STORAGE_NAME_BYTES_MAX + 8]; /* of its device */
};

/* On a worker thread: scan the host. The caller frees the result with found_devices_free(). */
void found_devices_collect(struct provider *os, const struct server_config *config, struct found_devices *found_ret);
void found_devices_free(struct found_devices *found);

/* Compare with the earlier reading, store it, and raise events. */
void health_take_pages(struct health_device *device, const struct storage_nvme_pages *pages);
void health_take_kernel(struct health_device *device, const struct found_device *found);
void health_take_failure(struct health_device *device, const struct fathom_fault *why);
/* The device was not there, and has gone, or has another serial number. */
void health_report_plugged(struct health_device *device);
void health_report_gone(struct health_device *device);

/* The present device with this path, serial number or PCI address. NULL: none. */
const struct device_health *health_find_named(const struct server *server, const char *name);

/* Lamps that are on stay on. */
void lamps_free(struct server_health *health);

/* The answer of HostHealth, in `arena`. */
const ProtobufCMessage *health_answer(const struct server *server, struct arena *arena);

#endif
