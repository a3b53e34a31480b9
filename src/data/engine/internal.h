/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the engine share. Everything on the control thread. */
#ifndef ENGINE_INTERNAL_H
#define ENGINE_INTERNAL_H

#include "base/list.h"
#include "data/engine/engine.h"
#include "rpc/jsonrpc/rpc.h"

/* ---- engine.c ---- */

enum engine_state { ENGINE_WAITING, ENGINE_STARTING, ENGINE_READY, ENGINE_STOPPING };

/* Leave WAITING. The same on the way that framework_start_init takes and without it. `done` once. -EALREADY: on its way. */
typedef void (*engine_done_fn)(void *ctx, const struct fault *why /* NULL: fine */);
MUST_CHECK int engine_init(engine_done_fn done, void *ctx);
/* Call `done` when the engine is READY, perhaps at once. */
void engine_wait_ready(engine_done_fn done, void *ctx);
const struct engine_options *engine_options(void);
/* As by SIGTERM. From the loop. */
void engine_stop(void);

/* ---- health.c: lines of the log about block devices ---- */

/* Once the engine is ready; and before the devices go. */
void device_health_start(void);
void device_health_stop(void);

/* ---- config.c: a file of calls, as save_config writes it ---- */

struct config;

/*
 * Read and check it all. Errors (explained, with the place): -ENOENT ..., -EINVAL (syntax, structure, a method that is
 * unknown or for clients only).
 */
MUST_CHECK int config_load(const char *path, struct config **config_ret, struct fault *why);
void config_free(struct config *config);
/*
 * Make those of its calls that belong before framework_start_init (`startup`), or the others, one after the other. `done`
 * once, at once or later; it ends at the first that fails, and `why` names it.
 */
void config_replay(struct config *config, bool startup, engine_done_fn done, void *ctx);
/*
 * No further calls, and no `done`. True: one was under way; it cannot be taken back, and what config_free() leaves lives
 * until it ends.
 */
MUST_CHECK bool config_cancel(struct config *config);

/* ---- probes.c ---- */

/* At fathom-probed, if it is there; it may take the two seconds of fathom/probe.h. The control thread's. */
void engine_probes_register(void);
/* Is there one now, or another? */
void engine_probes_refresh(void);
void engine_probes_remove(void);

/* ---- core.c ---- */

/* A core file is to have the trace, too. Nothing is said, and nothing lost, where the kernel does not allow it. */
void core_filter_widen(void);
/* gdb or lldb has attached to this process, or started it. */
bool debugger_is_there(void);

/* ---- the methods, a file for each family ---- */

void rpc_app_register(void);
void rpc_control_register(void);
void rpc_framework_register(void);
void rpc_log_register(void);
void rpc_thread_register(void);
void rpc_tuning_register(void);
void rpc_trace_register(void);
void rpc_trace_finish(void); /* what is under way uses the trace file: wait for it */
void rpc_bdev_register(void);
void rpc_bdev_create_register(void);
void rpc_bdev_error_register(void);
void rpc_bdev_stats_register(void);
void rpc_nvmf_register(void);
void rpc_nvmf_subsystem_register(void);
void rpc_nvmf_query_register(void);

/* What framework_get_config says of a subsystem: calls to be added to `calls`. */
void bdev_config(json_t *calls);
void nvmf_config(json_t *calls);

/* Whether framework_get_subsystems lists it. */
bool framework_has_subsystem(const char *name);

/* One of SPDK's that is not here, and without which a configuration is complete. */
bool tuning_has_subsystem(const char *name);

struct bdev;
/* By name or UUID; NULL: no such. */
struct bdev *bdev_by_name(const char *name);

/* Those who wait for a block device to appear get an error. */
void bdev_waits_cancel(void);

/* {"method": method, "params": params} at the end of `calls`; `params` is taken, NULL: none. */
void config_add(json_t *calls, const char *method, json_t *params);

/* Everything that is built here is small and ours, so failing means that memory has ended. */
static inline json_t *json_made(json_t *value)
{
	must(value);
	return value;
}

/* `value` is taken. */
static inline void json_put(json_t *object, const char *key, json_t *value)
{
	must(json_object_set_new(object, key, json_made(value)) == 0);
}

static inline void json_add(json_t *array, json_t *value)
{
	must(json_array_append_new(array, json_made(value)) == 0);
}

/* What came from outside of the process and may be no UTF-8: shown as far as it is. */
json_t *json_text(const char *text);

/* Complete by an errno, with the words that SPDK's clients know ("No such device"). */
void rpc_error_errno(struct rpc_request *request, int error, const char *what);

#endif
