/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * health - the health of this host's devices: those below the engines' storage, and its NVMe, SATA and SCSI devices.
 *
 * Each round scans sysfs on a worker thread, then reads the NVMe devices through the helper, at most HEALTH_SENT_MAX at a
 * time. A device whose reading fails is left out of the next rounds, for a time that doubles, so that a device that hangs
 * delays one round by one time-out and takes one of the helper's slots. A round begins every health_interval, and when an
 * operator asks. Events report what is new: conditions, media errors, devices that come and go, a link that changed.
 *
 * All on the control thread. Nothing is stored: `since` is when this server first saw it.
 */
#ifndef CONTROL_SERVER_HEALTH_HEALTH_H
#define CONTROL_SERVER_HEALTH_HEALTH_H

#include "control/server/core/core.h"
#include "control/storage/health.h"

enum {
	HEALTH_SENT_MAX = 2,
	HEALTH_DEVICES_MAX = 512, /* devices beyond that are not watched */
	HEALTH_READ_MS = 5000,	  /* for one device */
	HEALTH_RETRY_S_MAX = 600, /* the longest time without a reading of a device that failed */
};

/* The last reading of a device, for answers and metrics. */
struct device_health {
	struct storage_device facts; /* of the last scan that found it */
	bool is_present;	     /* the last scan found it */
	bool is_nvme;		     /* it is read through the helper */
	bool has_figures;	     /* `health` is valid: of an NVMe device, all of it; else only the temperature */
	uint64_t instances;	     /* a bit for each engine whose data is on it */
	struct storage_health health;
	struct storage_firmware firmware;
	struct storage_kernel_health kernel;
	uint64_t read_ns;		       /* CLOCK_REALTIME of the figures; 0: none */
	uint64_t since_ns[STORAGE_CONDITIONS]; /* of each condition in `health`; else 0 */
	struct fathom_fault why;	       /* error 0: the last reading did not fail */
	uint64_t failing_ns;		       /* CLOCK_REALTIME of the first failure in a row; 0: none */
	uint64_t gone_ns;		       /* CLOCK_REALTIME; 0: it is present */
};

/* Errors (explained): -ENOMEM. */
MUST_CHECK int health_open(struct server *server, struct fathom_fault *why);
/* Begin the first round. */
void health_start(struct server *server);
/* The server leaves: answer waiting calls with the figures that there are, and begin no more rounds. */
void health_leave(struct server *server);
/* No job and no request to the helper may be under way. Accepts a health that is not open. */
void health_close(struct server *server);

/* The device after `device`; NULL: the first, and after the last. In the order of their names. */
const struct device_health *health_next(const struct server *server, const struct device_health *device);
/* The whole device of this path or partition; NULL: it is not watched. */
const struct device_health *health_find(const struct server *server, const char *path);

/* Its figures as DAOS's message, in `arena`. NULL: there are none. */
Ctl__BioHealthResp *health_stats(const struct device_health *device, struct arena *arena);

#endif
