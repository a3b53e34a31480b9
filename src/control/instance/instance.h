/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * instance - an engine of this host: its storage, its process, its rank; started, watched, restarted, adopted, stopped.
 *
 *	IDLE -> ADOPTING -> CHECKING -> AWAIT_FORMAT or MISSING -> FORMATTING -> CHECKING ...
 *		   |           |
 *		   +-----------+-> STARTING -> READY -> JOINED -> STOPPING -> STOPPED
 *				       |          |        |
 *				       +----------+--------+--> ERRORED -(restart policy)-> ADOPTING ...
 *
 * probes.def has the machine. The process is no child that dies with us: it has a session of its own, and a server that
 * begins finds it by its dRPC socket, asks who it is, and takes it up as it stands (adoption). I/O does not notice. It is
 * looked for before every start and every format, so that there are never two.
 *
 * What it owns on disk: the superblock; on the storage itself "engine.uuid", which says whose it is; of a FOLDER data.img,
 * which appears by rename when all of it is there. A folder is formatted when data.img is there (the superblock, if there
 * is to be no data.img). Formatting that was cut off has left neither superblock nor engine.uuid: both are made. A
 * superblock that is missing where engine.uuid is there, is another engine's or another system's, or cannot be read, is a
 * fault and never replaced. The engine holds the folder of its storage locked (flock) while it lives: where that is taken
 * by one that could not be adopted, none is started beside it, and nothing is formatted or erased. What was erased is not
 * formatted: of a folder data.img goes, of a device "superblock.erased" stands where it was. If a superblock does not lie
 * on its device, superblock.erased also stands beside it while the device is formatted again: if formatting is interrupted,
 * no engine starts on an empty device.
 *
 * Storage that is not there is MISSING and not taken for one that was never formatted: a folder that does not exist, or
 * that is empty although `state_dir` remembers an engine there (record.c). It is looked for every few seconds, and is
 * formatted only where that is asked for by `new_storage`.
 *
 * All on the light thread that created it. What is asked is done in the reactor's next turn, in the order of asking, and
 * answered from there: hooks and `done` may ask for more. What takes long is done by the helper, by io_uring or by the
 * engine itself; nothing blocks but short operations on small files.
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

struct instance;

enum instance_storage {
	INSTANCE_STORAGE_FOLDER, /* a folder that is there: no mounting, no privilege */
	INSTANCE_STORAGE_DEVICE, /* a block device that is formatted with XFS and mounted there */
};

enum { INSTANCE_CAUSES = INSTANCE_HUNG + 1 };

/*
 * What becomes of one that ended by itself, for each cause (enum instance_cause, probes.def). A start that failed for what
 * may pass by itself (no memory, a helper that ended) counts as FAILED; what an operator must remedy is not tried again.
 *
 *	cause		 default				why
 *	EXITED		 no					somebody told it to end
 *	FAILED		 1 s to 5 min, ten in a row		it says that it cannot: more often does not help
 *	CRASHED, KILLED	 1 s to 5 min				its data is wanted; the back-off keeps a host usable
 *	SELF_TERMINATED	 10 s to 5 min				it was put out of the group, which needs its time
 *	NEVER_READY	 5 s to 5 min, five in a row		each try has taken a minute already
 *	GONE		 1 s to 5 min				as crashed: nobody knows better
 *	HUNG		 no, it is only told			its hosts may be served still (5 s to 5 min, five in a row)
 */
struct instance_restart {
	bool restart;
	uint64_t delay_min_ns, delay_max_ns; /* doubled from one to the other with each restart in a row */
	uint32_t limit;			     /* restarts in a row, for whatever cause; 0: no limit */
};

/* How long it must have been up for the row to end: then the next restart has the shortest delay again. */
enum { INSTANCE_STEADY_SECONDS = 300 };

/* Texts are copied. */
struct instance_options {
	uint32_t index;
	const char *program;	/* fathom-engine */
	const char *system;	/* name of the system */
	const char *socket_dir; /* where the engine's sockets are, and the server's */
	enum instance_storage storage;
	const char *device;	    /* of DEVICE: "/dev/nvme0n1" */
	const char *mount;	    /* where its storage is: the folder, or where the device is mounted */
	uint64_t file_bytes;	    /* of FOLDER: "data.img" of this size is made by formatting; 0: none */
	const char *superblock_dir; /* NULL: in the storage itself */
	const char *state_dir;	    /* remembers what the storage was; NULL: nothing does */
	const char *provider;	    /* "nvme+tcp": the scheme of its URI */
	const char *address;	    /* where it serves: numbers, without brackets */
	uint16_t port;
	const char *domain;	/* fault domain of the host */
	const char *cpus;	/* as fathom-engine takes it; NULL: its default */
	const char *log_mask;	/* a priority of DAOS's ("ERR"); NULL, or one with facilities: the engine's default */
	const char *log_file;	/* both its outputs are appended there; NULL: they go nowhere */
	const char *const *env; /* "NAME=value" */
	size_t env_count;
	const char *const *env_pass; /* names of variables that are handed on */
	size_t env_pass_count;
	const char *const *arguments; /* further ones */
	size_t argument_count;
	uint64_t ready_timeout_ns, stop_timeout_ns; /* 0: 60 s, 30 s */
	uint64_t prepare_timeout_ns;		    /* 0: 10 s */
	uint64_t answer_timeout_ns;		    /* for saying who it is, and that it lives; 0: 5 s */
	uint64_t ping_interval_ns; /* how often it is asked whether it lives, and has so long to answer at most; 0: 10 s */
	uint64_t steady_ns;	   /* 0: INSTANCE_STEADY_SECONDS */
	uint64_t missing_interval_ns; /* how often a folder that is missing is looked for; 0: 5 s */
	struct instance_restart restart[INSTANCE_CAUSES];
	struct provider *os;
	struct helper_client *helper; /* lent; needed with DEVICE */
};

/* What a joining rank tells the management service, and hears. `done` is called once, now or later. */
struct instance_join {
	uint8_t uuid[MEMBER_UUID_BYTES];
	uint32_t rank; /* RANK_NONE: it has none yet */
	uint32_t index;
	const Srv__NotifyReadyReq *ready;
	const char *domain;
	bool is_replacement;
	bool serves; /* already: if it is refused, an event of ours says what becomes of it */
};
struct instance_joined {
	struct fault why; /* error 0: welcome */
	bool again;	  /* else: it is worth trying again by itself (nobody answered) */
	bool is_lasting;  /* `again`, but in vain until an operator acts: a waiting start fails with it */
	uint32_t rank, map_version;
	const char *domain; /* borrowed */
};
typedef void (*instance_joined_fn)(void *ctx, const struct instance_joined *joined);

/* What an instance asks of its server. On its thread; none may destroy it, nor may a `done`. */
struct instance_hooks {
	void *ctx;
	void (*join)(void *ctx, struct instance *instance, const struct instance_join *join, instance_joined_fn done,
		     void *done_ctx);
	/* It happened here: spool it, log it. Borrowed. */
	void (*event)(void *ctx, struct instance *instance, const Shared__RASEvent *event);
	/* No process of it is left: what it had not said may be looked for. Before its death is told, and each start. */
	void (*gone)(void *ctx, struct instance *instance);
	/* Its state has changed. */
	void (*changed)(void *ctx, struct instance *instance, enum instance_state from, enum instance_state to);
};

/* Starts nothing. Errors (explained): -EINVAL, -ENAMETOOLONG, -ENOMEM. */
MUST_CHECK int instance_create(const struct instance_options *options, const struct instance_hooks *hooks,
			       struct instance **instance_ret, struct fault *why);
/* Let go of it: an engine that runs goes on. What waits is answered with -ECANCELED, within. Accepts NULL. */
void instance_destroy(struct instance *instance);

/* `why` NULL: done. Called once, later. */
typedef void (*instance_done_fn)(void *ctx, const struct fault *why);

/*
 * Adopt the engine that runs, or check the storage and start one. `done` when it is JOINED, or when the first try has
 * failed (restarts follow by the policy). One that serves joins again, and its hosts do not notice; one that was prepared
 * to be stopped is stopped and started. Formatting is waited for without a limit: then `done` has the fault not_formatted
 * at once, and it goes on by itself when it is formatted. While nobody answers its join, it waits and asks again. A join
 * that is refused ends the engine, unless it serves already: then it serves on, and asks again (REFUSED); the fault is
 * shown, and an event tells it once. One whose rank an operator has excluded is ended all the same. A restart that is due
 * is done now; the row of restarts ends. One that hangs is left alone, for its hosts may be served: engine_hung.
 */
void instance_start(struct instance *instance, instance_done_fn done, void *ctx);
/*
 * Tell the engine that it will be stopped: hosts are sent away, what is under way ends (PREP_SHUTDOWN). One that hangs
 * cannot be prepared, and is done at once; one that gives no answer is asked whether it lives, and hangs if it is silent.
 */
void instance_prepare_stop(struct instance *instance, instance_done_fn done, void *ctx);
/*
 * Stop it: PREP_SHUTDOWN if it was not prepared, SIGTERM and, after its time (5 s where it hangs), SIGKILL, which an event
 * says; `force`: SIGKILL. It is not restarted, and a restart that is due is not done. `done` when it has gone and its
 * device is unmounted; one that cannot be unmounted is a fault that is shown (`why` of its info). Of one that does not
 * run: done; that it was ERRORED does not say so, and it is looked for. Faults: engine_unkillable, when it is there still
 * after its time has passed once more; engine_silent or engine_foreign, when something has its socket that is not known to
 * be ours.
 */
void instance_stop(struct instance *instance, bool force, instance_done_fn done, void *ctx);
/*
 * Format its storage. It must not run. Then it starts. `done` when it is formatted. One that is refused is as it was
 * before, and a restart that was due is.
 */
struct instance_format {
	bool reformat;	  /* although there is data */
	bool replace;	  /* it is to have the rank of the engine that was there */
	bool new_storage; /* although what was there is missing: the folder, or what was mounted there */
};
void instance_format(struct instance *instance, const struct instance_format *format, instance_done_fn done, void *ctx);
/*
 * Forget who it was, and what it had: it waits for its formatting then (AWAIT_FORMAT), also after a restart. It must not
 * run, and its storage must be there. A device that was erased is formatted without `reformat`, if it is still mounted
 * from when that was seen.
 */
void instance_erase(struct instance *instance, instance_done_fn done, void *ctx);
/* Tell a joined engine who the others are. One at a time, the newest wins; older ones are dropped. `update` is copied. */
void instance_group_update(struct instance *instance, const Mgmt__GroupUpdateReq *update);
/* As SET_LOG_MASKS has it: "": as it is; NULL: as it was started with. */
void instance_set_log_masks(struct instance *instance, const char *masks, const char *streams, const char *subsystems,
			    instance_done_fn done, void *ctx);
/* Is it alive? PING_RANK. */
void instance_ping(struct instance *instance, uint64_t timeout_ns, instance_done_fn done, void *ctx);

/* What its engine says over dRPC; the server finds the instance and calls these. One thought gone is looked for. */
void instance_notify_ready(struct instance *instance, const Srv__NotifyReadyReq *ready, pid_t pid);
/* An event of the engine's, before it is spooled: engine_self_terminated is remembered for the restart. */
void instance_note_event(struct instance *instance, const Shared__RASEvent *event);

/* An ERRORED one whose superblock could not be read is known by its rank again, if it can be read now. */
void instance_learn_rank(struct instance *instance);

/* ---- how it is ---- */

struct instance_info {
	uint32_t index;
	enum instance_state state;
	uint32_t rank;		   /* RANK_NONE */
	bool has_uuid, is_adopted; /* has_uuid: also of one whose superblock cannot be read, and was known before */
	bool is_prepared;	   /* to be stopped: its hosts were sent away */
	bool is_hung;		   /* its process lives and does not answer; `why` has since when */
	uint8_t uuid[MEMBER_UUID_BYTES];
	uint64_t incarnation;
	uint32_t map_version; /* of the newest group map that it has, as far as we know; 0: none */
	pid_t pid;	      /* 0: no process */
	const char *uri;      /* "" if it has not said; borrowed until the next turn */
	const char *version;  /* of its program, likewise */
	const char *storage;  /* the device, or the folder */
	const char *mount;
	const char *rpc_socket; /* for `fathom rpc -s` */
	struct fault why;	/* error 0: nothing to say */
	uint64_t starts;
	uint64_t restart_in_ns; /* 0: none is due */
	char last_end[256];	/* "killed by signal 9"; "" */
};
void instance_get_info(const struct instance *instance, struct instance_info *info);

const char *instance_cause_word(enum instance_cause cause); /* "crashed" */
void instance_set_restart(struct instance *instance, enum instance_cause cause, const struct instance_restart *restart);
struct instance_restart instance_get_restart(const struct instance *instance, enum instance_cause cause);
/* What is done where nobody says otherwise. */
struct instance_restart instance_restart_default(enum instance_cause cause);

#endif
