/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * volume_export - serves each published volume as a subsystem of its own.
 *
 * A volume is published if its record names a host (data/store/volume/volumes.h). The record is the truth: a change of
 * hosts is durable on the storage first, then the subsystem follows it, then the caller is answered. So a confirmed host is
 * there after a crash, and the subsystems need no other configuration: at start they are made of the records.
 *
 * The subsystem of a volume has the NQN "nqn.2014-08.org.nvmexpress:uuid:" and the volume's UUID, one namespace (1), the
 * hosts of the record, and a listener at the address of --listen. Only this module changes it; save_config leaves it out.
 *
 * An export follows its record step by step: it looks at the volume and at the subsystem, starts what differs, and looks
 * again when that has ended. So changes that arrive meanwhile need no queue. An export that cannot be served is FAILED with
 * the reason; the next change of the volume's hosts tries again.
 *
 * Control thread only. Callbacks may run before the call returns.
 */
#ifndef ENGINE_VOLUME_EXPORT_H
#define ENGINE_VOLUME_EXPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "data/engine/states.gen.h" /* enum volume_export_state */
#include "data/store/volume/volumes.h"
#include "data/target/target.h"
#include "fathom/trace/trace.h"

struct export_waiter {
	volumes_done_fn done;
	void *ctx;
	STAILQ_ENTRY(export_waiter) link;
};
STAILQ_HEAD(export_waiter_list, export_waiter);

struct volume_export {
	struct trace_object trace;
	enum volume_export_state state;
	uint8_t uuid[POOL_UUID_BYTES]; /* of the volume: its name may change */
	char nqn[NVME_NQN_FIELD_BYTES];
	bool is_made;	 /* the subsystem exists, and is ours */
	bool is_busy;	 /* a step runs */
	bool is_changed; /* look again at the volume after the running step */
	struct fathom_fault why;
	struct export_waiter_list waiters;
	LIST_ENTRY(volume_export) by_nqn;
	TAILQ_ENTRY(volume_export) link;
};

/* ---- the life of the module ---- */

/*
 * Serve all published volumes, then call `done`. A volume that cannot be served is logged, and an event is raised for it;
 * the others are served.
 */
void exports_start(void (*done)(void *ctx), void *ctx);
/* The engine stops: end calls that wait with -ESHUTDOWN. The target removes the subsystems. Idempotent. */
void exports_stop(void);

/* ---- changes: like those of volumes.h, with what the subsystems need ---- */

/* Further errors: -EDESTADDRREQ (the engine has no address for hosts), -EBUSY (in use, or being destroyed). */
void export_publish(struct volumes *volumes, const struct volume_key *key, const char *host_nqn, volumes_done_fn done,
		    void *ctx);
/* The host's controllers are gone before `done`. Without `force` -EBUSY: it is connected. */
void export_unpublish(struct volumes *volumes, const struct volume_key *key, const char *host_nqn, bool force,
		      volumes_done_fn done, void *ctx);
/* Without `force` -EBUSY: it has hosts; the text names them, connected ones first. With it they are disconnected. */
void export_destroy_volume(struct volumes *volumes, const struct volume_key *key, bool force, volumes_done_fn done,
			   void *ctx);
void export_destroy_pool(struct volumes *volumes, const struct volume_key *key, bool force, volumes_done_fn done,
			 void *ctx);

/* ---- queries ---- */

/* The export of a volume; NULL: it is not published, or its volume was ERRORED at the start. */
const struct volume_export *export_find(const struct volume *volume);
/*
 * Whether the subsystem `nqn` serves a volume, or a snapshot for a move. The volume may be gone already: then the subsystem
 * is being removed. So it is never part of a saved configuration.
 */
bool export_owns_subsystem(const char *nqn);
/* The volume that the subsystem `nqn` serves, or of which it serves a snapshot for a move; NULL: it is none of ours. */
const struct volume *export_volume_of(const char *nqn);
/* A published volume that hosts cannot reach: the reason. NULL: it can be reached, or is not published. */
const char *export_failure(const struct volume *volume);

struct export_counts {
	uint32_t served, failed, changing; /* changing: on the way to one of the others, or to be removed */
};
void exports_count(struct export_counts *counts_ret);

struct export_host {
	uint32_t connections;
	uint64_t since_ns; /* of the oldest; since 1970; 0: none */
	char address[64];  /* of that connection */
};
/* The connections of a host to a volume. */
void export_get_host(const struct volume *volume, const char *host_nqn, struct export_host *host_ret);
/* The NQN of a volume's subsystem. */
void export_get_nqn(const struct volume *volume, char nqn_ret[NVME_NQN_FIELD_BYTES]);

/* ---- for volume_publish.c ---- */

/* Let the export follow its volume. `done` (or NULL) is called when it does, or has FAILED. */
void export_follow(const uint8_t uuid[POOL_UUID_BYTES], volumes_done_fn done, void *ctx);
/* Whether the volume is being destroyed: then it is not served. */
bool export_is_held(const struct volume *volume);
bool exports_are_stopped(void);

#endif
