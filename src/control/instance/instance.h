/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * instance - one engine of this host: its storage, its process and its rank. Starts, watches, restarts, adopts, stops it.
 *
 *	IDLE -> ADOPTING -> CHECKING -> AWAIT_FORMAT or MISSING -> FORMATTING -> CHECKING ...
 *		   |           |
 *		   +-----------+-> STARTING -> READY -> JOINED -> STOPPING -> STOPPED
 *				       |          |        |
 *				       +----------+--------+--> ERRORED -(restart policy)-> ADOPTING ...
 *
 * probes.def has the state machine. The engine's process has its own session and survives the server. A server that starts
 * finds the process by its dRPC socket, checks its identity and adopts it in its current state; I/O continues. The server
 * looks for a running engine before each start and each format, so two engines never run on one storage.
 *
 * On disk: the superblock; on the storage itself "engine.uuid" with the owner's UUID; in a FOLDER also data.img, which
 * appears by rename when it is complete. A folder is formatted if data.img exists (without a configured data.img: if the
 * superblock exists). Interrupted formatting leaves neither superblock nor engine.uuid; the next start creates both. These
 * are faults, and the superblock is never replaced: it is missing although engine.uuid exists; it belongs to another engine
 * or another system; it cannot be read. An engine holds a lock (flock) on the folder of its storage while it lives. If a
 * process that cannot be adopted holds the lock, nothing is started, formatted or erased. Erased storage is not formatted:
 * data.img is removed from a folder; on a device "superblock.erased" replaces the superblock. If the superblock is not on
 * its device, superblock.erased also exists beside it while the device is reformatted: after interrupted formatting no
 * engine starts on an empty device.
 *
 * Missing storage has the state MISSING and is not mistaken for storage that was never formatted: a folder that does not
 * exist, or an empty folder for which `state_dir` has a record of an engine (record.c). The server looks for the folder
 * every few seconds, and formats missing storage only with `new_storage`.
 *
 * All functions run on the light thread that created the instance. A request starts in the reactor's next turn, in the
 * order of requests, and its answer comes from there: hooks and `done` may make requests. Long operations run in the
 * helper, in io_uring or in the engine; only short operations on small files block.
 */
#ifndef CONTROL_INSTANCE_INSTANCE_H
#define CONTROL_INSTANCE_INSTANCE_H

#include "base/fault.h"
#include "rpc/ras/event.h"
#include "control/helper/client.h"
#include "control/instance/states.gen.h"
#include "control/provider/provider.h"
#include "control/superblock/superblock.h"
#include "rpc/proto/mgmt.pb-c.h"
#include "rpc/proto/srv.pb-c.h"
#include "rpc/proto/store.pb-c.h"

struct instance;

enum instance_storage {
	INSTANCE_STORAGE_FOLDER, /* an existing folder: not mounted, needs no privilege */
	INSTANCE_STORAGE_DEVICE, /* a block device that the helper formats with XFS and mounts */
};

enum { INSTANCE_CAUSES = INSTANCE_HUNG + 1 };

/*
 * The restart policy after an engine ended without a stop, for each cause (enum instance_cause, probes.def). A start that
 * failed for a transient reason (out of memory, the helper ended) counts as FAILED; a start that failed for a reason that
 * an operator must remove is not retried.
 *
 *	cause		 default				why
 *	EXITED		 no					an operator ended it
 *	FAILED		 1 s to 5 min, ten in a row		it reported an error: more retries do not help
 *	CRASHED, KILLED	 1 s to 5 min				its data is needed; the back-off keeps the host usable
 *	SELF_TERMINATED	 10 s to 5 min				its rank was excluded; the group needs time to recover
 *	NEVER_READY	 5 s to 5 min, five in a row		each try took a minute already
 *	GONE		 1 s to 5 min				as CRASHED: its exit status is unknown
 *	HUNG		 no, only an event			it may still serve its hosts (5 s to 5 min, five in a row)
 */
struct instance_restart {
	bool restart;
	uint64_t delay_min_ns, delay_max_ns; /* doubled from one to the other with each restart in a row */
	uint32_t limit;			     /* restarts in a row, for any cause; 0: no limit */
};

/* After this uptime the row of restarts ends, and the next restart has the shortest delay again. */
enum { INSTANCE_STEADY_SECONDS = 300 };

/* Texts are copied. */
struct instance_options {
	uint32_t index;
	const char *program;	/* fathom-engine */
	const char *system;	/* name of the system */
	const char *socket_dir; /* the folder of the engine's and the server's sockets */
	enum instance_storage storage;
	const char *device;	    /* with DEVICE: "/dev/nvme0n1" */
	const char *mount;	    /* the folder of its storage, or the mount point of the device */
	uint64_t file_bytes;	    /* with FOLDER: formatting creates "data.img" of this size; 0: none */
	const char *superblock_dir; /* NULL: in the storage itself */
	const char *state_dir;	    /* the folder of its record (record.c); NULL: there is no record */
	const char *provider;	    /* "nvme+tcp": the scheme of its URI */
	const char *address;	    /* where it serves: numeric, without brackets */
	uint16_t port;
	const char *domain;	  /* fault domain of the host */
	const char *cpus;	  /* as fathom-engine takes it; NULL: its default */
	uint32_t paranoid_blocks; /* whose checksums the engine keeps for each device; 0: none */
	const char *log_mask;	  /* a priority of DAOS's ("ERR"); NULL, or one with facilities: the engine's default */
	const char *log_file;	  /* its standard output and error are appended there; NULL: they are discarded */
	const char *const *env;	  /* "NAME=value" */
	size_t env_count;
	const char *const *env_pass; /* names of variables that it inherits */
	size_t env_pass_count;
	const char *const *arguments; /* further ones */
	size_t argument_count;
	uint64_t ready_timeout_ns, stop_timeout_ns; /* 0: 60 s, 30 s */
	uint64_t prepare_timeout_ns;		    /* 0: 10 s */
	uint64_t answer_timeout_ns;		    /* of DESCRIBE and of pings; 0: 5 s */
	uint64_t storage_timeout_ns;		    /* of instance_storage_call(); 0: 60 s */
	uint64_t ping_interval_ns;		    /* between pings, and the longest time-out of a ping; 0: 10 s */
	uint64_t steady_ns;			    /* 0: INSTANCE_STEADY_SECONDS */
	uint64_t missing_interval_ns;		    /* between looks for a missing folder; 0: 5 s */
	struct instance_restart restart[INSTANCE_CAUSES];
	struct provider *os;
	struct helper_client *helper; /* lent; needed with DEVICE */
};

/* A join request to the management service, and its answer. `done` is called once, now or later. */
struct instance_join {
	uint8_t uuid[MEMBER_UUID_BYTES];
	uint32_t rank; /* RANK_NONE: it has none yet */
	uint32_t index;
	const Srv__NotifyReadyReq *ready;
	const char *domain;
	bool is_replacement;
	bool serves; /* it serves already: if the join is rejected, the instance raises an event */
};
struct instance_joined {
	struct fathom_fault why; /* error 0: accepted */
	bool again;		 /* with an error: a retry may succeed (no answer) */
	bool is_lasting; /* with `again`: a retry succeeds only after an operator acts; a waiting start fails with it */
	uint32_t rank, map_version;
	const char *domain; /* borrowed */
	/* Requests about its storage that the engine gets before it is set up; none is repeated. Borrowed. */
	Store__StorageReq *const *storage;
	size_t storage_count;
};
typedef void (*instance_joined_fn)(void *ctx, const struct instance_joined *joined);

/* Calls from an instance to its server, on its thread. Neither a hook nor a `done` may destroy the instance. */
struct instance_hooks {
	void *ctx;
	void (*join)(void *ctx, struct instance *instance, const struct instance_join *join, instance_joined_fn done,
		     void *done_ctx);
	/* An event of this host: spool it and log it. Borrows. */
	void (*event)(void *ctx, struct instance *instance, const Shared__RASEvent *event);
	/* The engine has no process: its unsent events may be collected. Before its death event, and before each start. */
	void (*gone)(void *ctx, struct instance *instance);
	/* Its state has changed. */
	void (*changed)(void *ctx, struct instance *instance, enum instance_state from, enum instance_state to);
	/* What is wrong with its storage has changed. May be NULL. */
	void (*health)(void *ctx, struct instance *instance);
};

/* Starts nothing. Errors (explained): -EINVAL, -ENAMETOOLONG, -ENOMEM. */
MUST_CHECK int instance_create(const struct instance_options *options, const struct instance_hooks *hooks,
			       struct instance **instance_ret, struct fathom_fault *why);
/* A running engine keeps running. Pending requests are answered with -ECANCELED before this returns. Accepts NULL. */
void instance_destroy(struct instance *instance);

/* `why` NULL: done. Called once, later. */
typedef void (*instance_done_fn)(void *ctx, const struct fathom_fault *why);

/*
 * Adopt a running engine, or check the storage and start one. `done` when it is JOINED, or when the first try has failed
 * (restarts follow by the policy).
 *
 *	it serves		it joins again; its hosts do not notice
 *	it is prepared to stop	it is stopped and started
 *	it is not formatted	`done` has the fault not_formatted at once; the engine starts when its storage is formatted
 *	its join has no answer	the join is retried
 *	its join is rejected	the engine ends; one that serves keeps serving and retries (REFUSED), with one event
 *	its rank is excluded	the engine ends, also one that serves
 *	it hangs		the fault engine_hung; the process is left alone, since it may still serve its hosts
 *
 * A scheduled restart happens now, and the row of restarts ends.
 */
void instance_start(struct instance *instance, instance_done_fn done, void *ctx);
/*
 * Prepare the engine for a stop: it disconnects its hosts and completes outstanding I/O (PREP_SHUTDOWN). For an engine that
 * hangs, `done` comes at once. An engine that does not answer in time is pinged; without an answer to the ping it hangs.
 */
void instance_prepare_stop(struct instance *instance, instance_done_fn done, void *ctx);
/*
 * Stop it: PREP_SHUTDOWN if it was not prepared, SIGTERM and, after stop_timeout_ns (5 s if it hangs), SIGKILL, with an
 * event; `force`: SIGKILL at once. It is not restarted, and a scheduled restart is cancelled. `done` when the process has
 * ended and the device is unmounted; failed unmounting is a fault in `why` of its info only. `done` without a fault if it
 * does not run; an ERRORED engine may still run, so it is looked for first. Faults: engine_unkillable, if it still exists
 * a second stop_timeout_ns later; engine_silent or engine_foreign, if an unidentified process has its socket.
 */
void instance_stop(struct instance *instance, bool force, instance_done_fn done, void *ctx);
/*
 * Format its storage, then start it. It must not run. `done` when the storage is formatted. A rejected request changes
 * nothing: the state and a scheduled restart are kept.
 */
struct instance_format {
	bool reformat;	  /* even if the storage holds data */
	bool replace;	  /* the new engine takes the rank of the previous engine */
	bool new_storage; /* even if the former storage is missing: the folder, or the filesystem mounted there */
};
void instance_format(struct instance *instance, const struct instance_format *format, instance_done_fn done, void *ctx);
/*
 * Erase its identity and its data: its state is AWAIT_FORMAT then, also after a restart of the server. It must not run, and
 * its storage must exist. An erased device is formatted without `reformat` if it has stayed mounted since the erasure was
 * seen.
 */
void instance_erase(struct instance *instance, instance_done_fn done, void *ctx);
/* Send the group map to a joined engine, one at a time: a newer one replaces a waiting one, older ones drop. Copies. */
void instance_group_update(struct instance *instance, const Mgmt__GroupUpdateReq *update);
/* SET_LOG_MASKS. Of each text, "": keep the current one; NULL: reset to the one of its start. */
void instance_set_log_masks(struct instance *instance, const char *masks, const char *streams, const char *subsystems,
			    instance_done_fn done, void *ctx);
/* PING_RANK: `done` without a fault if the engine answers in time. */
void instance_ping(struct instance *instance, uint64_t timeout_ns, instance_done_fn done, void *ctx);

/* Called once, later. `why` NULL: `response` is the engine's answer, valid until this returns, maybe with its error. */
typedef void (*instance_storage_fn)(void *ctx, const struct fathom_fault *why, const Store__StorageResp *response);
/*
 * Pass a request about its pools and volumes to the engine, which must serve. Borrows `request`. Ends when the engine
 * answers, ends, or does not answer within storage_timeout_ns; after a fault other than engine_not_running,
 * engine_not_joined, engine_hung, storage_calls_full and engine_old the engine may have carried out the request.
 * At most INSTANCE_STORAGE_CALLS_MAX without an answer.
 */
enum { INSTANCE_STORAGE_CALLS_MAX = 64 };
void instance_storage_call(struct instance *instance, const Store__StorageReq *request, instance_storage_fn done,
			   void *ctx);
/* End those under way with the fault `why`: the server stops. */
void instance_end_storage_calls(struct instance *instance, const struct fathom_fault *why);

/*
 * The engine reported over dRPC that it is ready; the server finds the instance and calls this. If the instance knows no
 * process, it looks for the engine.
 */
void instance_notify_ready(struct instance *instance, const Srv__NotifyReadyReq *ready, pid_t pid);
/* An event of the engine, when it is spooled: engine_self_terminated decides the cause of a later restart. */
void instance_note_event(struct instance *instance, const Shared__RASEvent *event);

/*
 * If its superblock could not be read before, or was not, because the server has just started: try to read its rank now. A
 * request by rank that came so early would not find the rank of an engine that runs.
 */
void instance_learn_rank(struct instance *instance);

/* ---- how it is ---- */

/* What is wrong with an engine's storage, as it has said in its answer to the latest ping. All zero: nothing. */
struct instance_health {
	bool is_failed; /* it rejects changes until the engine is started again */
	uint32_t errored_volumes, read_only_volumes, errored_pools;
	uint64_t since_ns; /* since 1970; 0: not known */
	char reason[256];
};

struct instance_info {
	uint32_t index;
	enum instance_state state;
	uint32_t rank;		   /* RANK_NONE */
	bool has_uuid, is_adopted; /* has_uuid: also of one whose superblock cannot be read, and was known before */
	bool is_prepared;	   /* for a stop: it has disconnected its hosts */
	bool is_hung;		   /* its process lives and does not answer; `why` has the time of the last answer */
	uint8_t uuid[MEMBER_UUID_BYTES];
	uint64_t incarnation;
	uint32_t map_version; /* of the newest group map that it has confirmed; 0: none */
	pid_t pid;	      /* 0: no process */
	const char *uri;      /* "": not reported; borrowed until the next turn */
	const char *version;  /* of its program; "": not reported; borrowed until the next turn */
	const char *storage;  /* the device, or the folder */
	const char *mount;
	const char *rpc_socket;	 /* for `fathom rpc -s` */
	struct fathom_fault why; /* error 0: none */
	struct instance_health health;
	uint64_t starts;
	uint64_t restart_in_ns; /* 0: none is scheduled */
	char last_end[256];	/* "killed by signal 9"; "" */
};
void instance_get_info(const struct instance *instance, struct instance_info *info);

const char *instance_cause_word(enum instance_cause cause); /* "crashed" */
void instance_set_restart(struct instance *instance, enum instance_cause cause, const struct instance_restart *restart);
struct instance_restart instance_get_restart(const struct instance *instance, enum instance_cause cause);
/* The default policy for this cause. */
struct instance_restart instance_restart_default(enum instance_cause cause);

#endif
