/* SPDX-License-Identifier: BSD-2-Clause */
/* Declarations shared by the engine's files. Control thread only. */
#ifndef ENGINE_INTERNAL_H
#define ENGINE_INTERNAL_H

#include "base/list.h"
#include "data/engine/engine.h"
#include "data/store/bdev/bdev.h"
#include "rpc/jsonrpc/rpc.h"

/* ---- engine.c ---- */

enum engine_state { ENGINE_WAITING, ENGINE_STARTING, ENGINE_READY, ENGINE_STOPPING };

/* Start the target and the configuration, with or without framework_start_init. Calls `done` once. -EALREADY: started. */
typedef void (*engine_done_fn)(void *ctx, const struct fathom_fault *why /* NULL: fine */);
MUST_CHECK int engine_init(engine_done_fn done, void *ctx);
/* Call `done` when the engine is READY, possibly at once. */
void engine_wait_ready(engine_done_fn done, void *ctx);
const struct engine_options *engine_options(void);
uint64_t engine_uptime_ns(void);
/* Stop as on SIGTERM. Must be called from the reactor's loop. */
void engine_stop(void);

/* ---- storage/storage.c: the pools and volumes of --storage ---- */

struct volumes;

#define STORAGE_FAILED_REASON                                                                                              \
	"an earlier change could not be synced, so the storage rejects changes: restart the engine to read it again"

/*
 * Open the storage in the folder `root` (lent; NULL: none), and its volumes. Calls `done` once, possibly before this
 * returns.
 */
void engine_storage_open(const char *root, engine_done_fn done, void *ctx);
/*
 * The block devices of volumes stay; the caller removes them when `closed` is called, once, possibly before this returns.
 */
void engine_storage_close(void (*closed)(void *ctx), void *ctx);
/* NULL: the engine has no storage, or it is not open. */
struct volumes *engine_storage(void);
/* Whether the storage has a volume that is ERRORED, whose block device would have this name. */
bool engine_volume_is_errored(const char *device);

/* ---- space_watch.c ---- */

/* The storage is open. */
void space_watch_start(void);
/* It is being closed. Without space_watch_start(): does nothing. */
void space_watch_stop(void);

/* ---- history.c: what devices and stages did, in the trace ---- */

/* Start once the engine is ready; stop before the devices are removed. */
void history_start(void);
void history_stop(void);

/* ---- device_health.c: log lines about block devices ---- */

/* Start once the engine is ready; stop before the devices are removed. */
void device_health_start(void);
void device_health_stop(void);

/* Devices of which one thing is wrong now, by the last check. */
struct device_alarm {
	uint32_t count;
	char name[BDEV_NAME_BYTES_MAX]; /* of that with the earliest `since_ns`; "" if count is 0 */
	uint64_t since_ns;		/* of a monotonic clock */
};
/* Devices that have I/O in flight of which none completes, and devices whose I/O takes long. */
void device_health_get(struct device_alarm *stalled_ret, struct device_alarm *slow_ret);

/* ---- config.c: a file of calls, as save_config writes it ---- */

struct config;

/*
 * Read and check the whole file. Errors (explained, with the position): -ENOENT ..., -EINVAL (syntax, structure, a method
 * that is unknown or for clients only).
 */
MUST_CHECK int config_load(const char *path, struct config **config_ret, struct fathom_fault *why);
void config_free(struct config *config);
/* Continue the replay after a call that fails, and collect these. */
void config_collect_failed(struct config *config);
/* [{"subsystem": NAME, "call": CALL}, ...]; borrowed. NULL: without config_collect_failed(). */
json_t *config_failed(const struct config *config);
/*
 * Execute, one after the other, the calls that belong before framework_start_init (`startup`), or the others. Calls `done`
 * once, now or later. Replay ends at the first call that fails; `why` names it.
 */
void config_replay(struct config *config, bool startup, engine_done_fn done, void *ctx);
/*
 * Start no further calls, and do not call `done`. True: a call is in flight. It cannot be canceled, and keeps `config`
 * alive after config_free() until it ends.
 */
MUST_CHECK bool config_cancel(struct config *config);

/* ---- state_file.c: --state, the configuration that the engine keeps itself ---- */

/*
 * Read the file. `*config_ret` NULL: there is none, or it cannot be used (HELD). Pair: state_file_close(). Errors
 * (explained): -ENAMETOOLONG.
 */
MUST_CHECK int state_file_open(const char *path, struct config **config_ret, struct fathom_fault *why);
/* Whether there is a file, of use or not: it replaces --config. */
bool state_file_exists(void);
/* The engine is configured; `failed` (NULL: none) as of config_failed(). Changes are kept from now on. */
void state_file_loaded(const json_t *failed);
/* Make the current configuration durable. `done` is called once, now or later; without --state now, without a fault. */
void state_file_save(engine_done_fn done, void *ctx);
/* The engine stops: begin no further write. */
void state_file_stop(void);
/* Call `closed` when no write is under way, now or later. */
void state_file_close(void (*closed)(void));
/* For framework_get_control; without --state nothing. */
void state_file_stats(json_t *result);

/* ---- probes.c ---- */

/* Register with fathom-probed if it runs. May block for the timeout of fathom/probe.h, 2 s. Control thread. */
void engine_probes_register(void);
/* Register again if fathom-probed started or restarted. */
void engine_probes_refresh(void);
void engine_probes_remove(void);

/* ---- debugger.c ---- */

/* Include the trace file in core files. Silent if the kernel does not allow it: the trace file itself remains. */
void core_filter_widen(void);
/* Whether gdb or lldb has attached to this process, or started it. */
bool debugger_is_there(void);

/* ---- the methods: methods.gen.h, which is made from src/rpc/methods/methods.def, has their prototypes ---- */

void rpc_trace_finish(void); /* waits for trace_freeze, which reads the trace file */

/* Append a subsystem's configuration calls, for framework_get_config, to `calls`. */
void bdev_config(json_t *calls);
void nvmf_config(json_t *calls);

/* {"subsystems": [...]}, as save_config writes it. */
json_t *framework_config(void);

/* Whether framework_get_subsystems lists it. */
bool framework_has_subsystem(const char *name);

/* Whether `name` is a subsystem of SPDK that Fathom lacks and whose configuration it ignores. */
bool ignores_subsystem(const char *name);

/*
 * Reply to a method that tunes a part of SPDK that Fathom lacks: check its parameters by `fields`, then ignore them.
 * `*logged`, at first false: whether the log says so already.
 */
void accept_ignored_method(struct rpc_request *request, const json_t *params, const struct rpc_param *fields, bool *logged);

struct bdev;
/* By name or UUID; NULL: none. */
struct bdev *bdev_by_name(const char *name);

/* End all requests that wait for a block device to appear, with an error. */
void bdev_waits_cancel(void);

/* Append {"method": method, "params": params} to `calls`; takes `params`, NULL: none. */
void config_add(json_t *calls, const char *method, json_t *params);

/* The engine builds only small JSON values from valid text, so NULL means out of memory. */
static inline json_t *json_made(json_t *value)
{
	must(value);
	return value;
}

/* Takes `value`. */
static inline void json_put(json_t *object, const char *key, json_t *value)
{
	must(json_object_set_new(object, key, json_made(value)) == 0);
}

static inline void json_add(json_t *array, json_t *value)
{
	must(json_array_append_new(array, json_made(value)) == 0);
}

/* For text from outside the process, which may not be valid UTF-8: a JSON string of it. */
json_t *json_text(const char *text);

/* Reply with an errno, in the wording that SPDK's clients expect ("No such device"). */
void rpc_error_errno(struct rpc_request *request, int error, const char *what);

/* ---- tables by UUID, of device_events.c and device_health.c ---- */

enum { UUID_BUCKETS = 4096 };

static inline unsigned int uuid_bucket(const uint8_t uuid[16])
{
	return (uuid[14] * 256u + uuid[15]) % UUID_BUCKETS;
}
/* ---- rpc/snapshot.c ---- */

struct volume;

/* Add the number of snapshots of `volume`, its origin, and the copy in progress. */
void put_snapshots(json_t *object, const struct volume *volume);

#endif
