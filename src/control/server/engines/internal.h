/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * engines, internal.
 *
 *	engines.c	instances: creation, start, state changes
 *	instance_options.c  their options, from the configuration
 *	notify_ready.c	engines report that they are ready
 *	join.c		joins at the management service
 *	report.c	periodic reports of the engines' states
 *	query.c		EngineQuery, GroupUpdate
 *	restart_policy.c EngineSetRestart; the policies of the configuration
 *	rank_calls.c	starting, stopping, erasing		log_masks.c	SetEngineLogMasks
 *	format_call.c	StorageFormat				storage_call.c	Storage: pools and volumes
 */
#ifndef CONTROL_SERVER_ENGINES_INTERNAL_H
#define CONTROL_SERVER_ENGINES_INTERNAL_H

#include "base/list.h"
#include "base/random.h"
#include "control/server/engines/engines.h"

struct server_engines {
	struct server *server;
	struct instance_restart restart[INSTANCE_CAUSES]; /* the current policies, of all engines */
	uint32_t starting;				  /* engines whose first start has not ended */
	pid_t strangers[SERVER_ENGINES_MAX]; /* logged processes that reported as an engine which is not configured */
	STAILQ_HEAD(, format_wait) formats;  /* format calls that wait until each engine's state is known */
	bool is_join_waiting;		     /* the latest answered join is being retried */
	bool is_reporting;		     /* a report is under way */
	struct deadline report_due;
	uint64_t report_pause_ms; /* 0: the last report succeeded */
	struct engines_report report;
	struct random random;
};

/* ---- instance_options.c ---- */

enum { ENGINE_TEXT_BYTES = SERVER_PATH_BYTES };

/* Texts that instance options point to. */
struct instance_texts {
	char program[ENGINE_TEXT_BYTES], superblock_dir[ENGINE_TEXT_BYTES], log_file[ENGINE_TEXT_BYTES];
};
/* The options of engine `index`. Creates its folder in control_metadata's path. `texts` is lent. Errors (explained). */
MUST_CHECK int engine_options_fill(struct server *server, uint32_t index, struct instance_texts *texts,
				   struct instance_options *options, struct fathom_fault *why);

/* ---- restart_policy.c ---- */

/* Take the policies of the configuration. */
void restart_policies_init(struct server_engines *engines);

/* ---- join.c ---- */

/* The hook instance_hooks.join; `ctx` is the server. */
void server_join(void *ctx, struct instance *instance, const struct instance_join *join, instance_joined_fn done,
		 void *done_ctx);

/* ---- report.c ---- */

void reports_begin(struct server_engines *engines);
/* An engine's state has changed: report after SETTLE_MS. */
void report_soon(struct server_engines *engines);
/* The version of the newest group map that an engine here has; 0: none. */
uint32_t engines_map_version(const struct server *server);

#endif
