/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * instance, internal: declarations that its files share.
 *
 *	instance.c	states, steps, creation
 *	requests.c	requests and answers
 *	stop.c		stopping
 *	options.c	options: check, copy, free
 *	adopt.c		finds and adopts a running engine
 *	storage.c	checks the storage
 *	superblock.c	superblock, engine.uuid, superblock.erased
 *	files.c		small files: replaced, synced
 *	storage_lock.c		checks that no other process holds the storage
 *	missing.c	checks that the storage exists
 *	storage_record.c	the server's record of the storage
 *	format.c	formatting
 *	process.c	the process: start, watch, signal, exit status
 *	argv.c		its arguments and environment
 *	pid_file.c		the pid file of its process
 *	join.c		from ready to serving: its rank
 *	ping.c		pings
 *	restart.c	death events and restarts
 *	engine_calls.c		dRPC to the engine: groups, log masks, pings
 *	storage_call.c		requests about its pools and volumes
 *
 * An operation under way elsewhere (helper, engine, management service, file) is a *step*. It records the number of state
 * changes when it begins. If the number has changed when the step ends, the step is stale: record its side effects (such as
 * a mount), and do nothing else.
 */
#ifndef CONTROL_INSTANCE_INTERNAL_H
#define CONTROL_INSTANCE_INTERNAL_H

#include <sys/stat.h>

#include "base/bits.h"
#include "base/list.h"
#include "control/instance/instance.h"
#include "rpc/drpc/drpc.h"
#include "fathom/trace/trace.h"
#include "rpc/proto/fathom.pb-c.h"
#include "base/reactor/deadline.h"
#include "base/reactor/reactor.h"

enum {
	INSTANCE_PATH_BYTES = 512,
	INSTANCE_REPORT_PATH_BYTES = INSTANCE_PATH_BYTES + 40,
	INSTANCE_END_BYTES = 256,
	INSTANCE_ADDRESS_BYTES = 80,
	INSTANCE_ANSWER_SECONDS = 5,
	INSTANCE_PING_SECONDS = 10,
	INSTANCE_PINGS_MISSED = 3, /* in a row; then the engine hangs */
	INSTANCE_RANK_SECONDS = 10,
	INSTANCE_STORAGE_SECONDS = 60,
	INSTANCE_STORAGE_CONNECTIONS_MAX = 32,
	INSTANCE_PREPARE_SECONDS = 10,
	INSTANCE_HUNG_TERM_SECONDS = 5, /* an engine that hangs most likely never handles the SIGTERM */
	INSTANCE_JOIN_AGAIN_MIN_MS = 200,
	INSTANCE_JOIN_AGAIN_MAX_MS = 10000,
	INSTANCE_TRIES_MAX = 5, /* of an operation that is retried every INSTANCE_AGAIN_MS */
	INSTANCE_AGAIN_MS = 200,
	INSTANCE_MISSING_SECONDS = 5,
	INSTANCE_RELEASE_TRIES_MAX = 75, /* while an ending process still holds the storage: 15 s */
};
static_assert(INSTANCE_RELEASE_TRIES_MAX > INSTANCE_TRIES_MAX, "a process that lives is waited for less long");
static_assert(INSTANCE_STORAGE_CONNECTIONS_MAX + DRPC_CLIENT_CONNECTIONS_MAX < DRPC_CONNECTIONS_MAX,
	      "an engine closes no connection of its server to accept another one");

/* LOOK: internal; an engine without a known process has reported that it is ready. TELL: a dRPC call to the engine. */
enum instance_request {
	INSTANCE_DO_START,
	INSTANCE_DO_STOP,
	INSTANCE_DO_FORMAT,
	INSTANCE_DO_ERASE,
	INSTANCE_DO_LOOK,
	INSTANCE_DO_TELL
};

/* A request, until it is answered. */
struct instance_call {
	TAILQ_ENTRY(instance_call) link;
	enum instance_request kind;
	bool taken; /* it is under way */
	bool force;
	struct instance_format format;
	const char *request;	 /* of TELL: a name of the call for faults */
	int32_t method;		 /* of TELL */
	struct fathom_fault why; /* the answer; error 0: done */
	instance_done_fn done;
	void *ctx;
};
TAILQ_HEAD(instance_calls, instance_call);

/* An operation under way elsewhere. */
struct instance_step {
	LIST_ENTRY(instance_step) link;
	struct instance *instance;  /* NULL: it was destroyed */
	uint64_t moves;		    /* of the instance when the step began */
	struct instance_call *call; /* the request that it answers */
	union {
		void (*engine)(struct instance *instance, const struct drpc_result *result);
		void (*helper)(struct instance *instance, const struct helper_reply *reply, const struct fathom_fault *why,
			       bool current);
	} then;
};

struct instance_process {
	pid_t pid; /* 0: none */
	int pid_fd;
	struct fd_watch *watch;
	uint64_t recorded_incarnation; /* 0: its pid file has none */
	bool adopted, serving, self_terminated, prepared, killed, hung;
	bool ping_at_once; /* an event says that its storage is not well: do not wait for the interval */
	struct instance_health health;
	uint32_t misses;	      /* unanswered pings in a row */
	uint64_t answered;	      /* tick of its last answer */
	struct fathom_fault hung_why; /* while it hangs */
	struct fathom_fault given_up; /* error not 0: the server killed it for this reason, without a request */
	enum instance_cause given_up_cause;
};

struct instance {
	struct trace_object trace;
	enum instance_state state;
	uint64_t moves; /* number of state changes */
	struct fathom_thread *thread;
	struct instance_options options; /* owns its texts */
	struct instance_hooks hooks;
	struct deadlines deadlines;
	struct deadline turn;	 /* requests and answers, from the reactor's loop */
	struct deadline limit;	 /* time-out of the state */
	struct deadline again;	 /* a retry in the state */
	struct deadline restart; /* while ERRORED */
	struct deadline steady;	 /* while JOINED */
	struct deadline ping;	 /* while it serves */
	struct deadline group_again;
	struct instance_calls calls, answered;
	LIST_HEAD(, instance_step) steps;
	enum instance_request purpose; /* of ADOPTING, CHECKING and FORMATTING */
	bool destroying;

	/* storage */
	char superblock_path[INSTANCE_PATH_BYTES], data_path[INSTANCE_PATH_BYTES];
	struct superblock superblock;
	bool has_superblock, mounted, said_format_required, said_missing;
	int said_not_started; /* fault code of the last event engine_not_started; 0: none */
	uint32_t working;     /* operations under way in the helper or on files */

	/* the state before ADOPTING; instance_restore() returns to it */
	enum instance_state before;
	struct fathom_fault before_why;
	bool restart_held; /* it was ERRORED, and a restart was scheduled */
	uint64_t restart_held_due;

	/* process */
	char socket_path[INSTANCE_PATH_BYTES], rpc_socket[INSTANCE_PATH_BYTES];
	struct instance_process process;
	struct drpc_client *engine;
	struct drpc_client *storage_client;	    /* of storage_call.c; NULL: no call since the process began */
	uint32_t storage_calls;			    /* without an answer */
	const struct fathom_fault *storage_end_why; /* while instance_end_storage_calls() ends them; else NULL */
	Srv__NotifyReadyReq *ready;		    /* its NOTIFY_READY, or the same fields of DESCRIBE */
	Srv__NotifyReadyReq *heard;		    /* a NOTIFY_READY of process heard_pid, which is not adopted yet */
	pid_t heard_pid;
	Fathom__DescribeResp *described; /* ADOPTING: the first answer */
	pid_t described_pid;
	int described_fd; /* 0: none */
	uint32_t tries;
	uint64_t join_pause_ms;
	uint32_t map_version;
	Store__StorageReq **early; /* of early_requests.c; owned */
	size_t early_count, early_next;
	void (*early_then)(struct instance *instance);

	/* the group */
	Mgmt__GroupUpdateReq *group_next, *group_sent;
	uint32_t group_version; /* of the newest group map that the engine has confirmed; it ignores older ones */

	struct fathom_fault why,
		stop_why; /* stop_why: error not 0: the server stops it for this reason, without a request */
	char last_end[INSTANCE_END_BYTES];
	uint32_t restarts; /* in a row */
	uint64_t starts;
};

/* ---- instance.c ---- */

/* Its parts agree with each other and with its state. Called where callbacks enter; not in the middle of a change. */
void instance_check(const struct instance *instance);
/* IDLE, AWAIT_FORMAT, MISSING, STOPPED, ERRORED: nothing is under way. */
bool instance_is_resting(enum instance_state state);
void instance_move(struct instance *instance, enum instance_state to);
/* Move to ERRORED and fail the pending requests. `cause`: schedule a restart by its policy; NULL: schedule none. */
void instance_fail(struct instance *instance, const struct fathom_fault *why, const enum instance_cause *cause);
/* From IDLE, STOPPED, ERRORED, AWAIT_FORMAT, MISSING: look for a running engine, then do `purpose`. */
void instance_begin(struct instance *instance, enum instance_request purpose);
/* Nothing was changed: return to the state before ADOPTING, with the restart that was scheduled. */
void instance_restore(struct instance *instance);

struct instance_step *instance_step_begin(struct instance *instance);
/* Returns the step's instance, NULL if that was destroyed. `current_ret`: the state has not changed since. Frees `step`. */
struct instance *instance_step_end(struct instance_step *step, bool *current_ret);

/* ---- requests.c ---- */

/* Answer all calls of this kind that are under way. `why` NULL: success. */
void instance_answer_all(struct instance *instance, enum instance_request kind, const struct fathom_fault *why);
void instance_answer(struct instance *instance, struct instance_call *call, const struct fathom_fault *why);
bool instance_waits(const struct instance *instance, enum instance_request kind);
/* Process requests and answers in the reactor's next turn. */
void instance_turn_soon(struct instance *instance);
/* An engine without a known process has reported that it is ready: look for it, unless something else is under way. */
void instance_find_engine_soon(struct instance *instance);
/* A call of kind TELL, under way: the caller answers it. */
struct instance_call *instance_begin_report(struct instance *instance, instance_done_fn done, void *ctx);

/* ---- early_requests.c ---- */

/* Keep copies of the requests for the engine that is being set up. */
void instance_keep_early(struct instance *instance, Store__StorageReq *const *requests, size_t count);
void instance_forget_early(struct instance *instance);
/* Send them one after the other, then call `then` once, from here or later. If one gets no answer, the rest is left out. */
void instance_send_early(struct instance *instance, void (*then)(struct instance *instance));

/* ---- stop.c ---- */

/* STOPPING: do the next step: wait for the process, unmount, finish. */
void instance_stop_next(struct instance *instance);
void instance_begin_stopping(struct instance *instance, bool force);
/* SIGKILL; if the process still exists after stop_timeout_ns, pending calls fail with engine_unkillable. */
void instance_kill(struct instance *instance);
/* If that time-out has passed already, kill again, so that calls that came since are answered, too. */
void instance_kill_again(struct instance *instance);

/* ---- options.c ---- */

MUST_CHECK int instance_options_check(const struct instance_options *options, struct fathom_fault *why);
/* Copies all texts. -ENOMEM: some are NULL, and the caller still calls instance_options_free(). */
MUST_CHECK int instance_options_copy(struct instance_options *options, const struct instance_options *from);
void instance_options_free(struct instance_options *options);

/* ---- adopt.c ---- */

/* ADOPTING: if an engine is found: STARTING, READY or STOPPING; else continue with the purpose. */
void instance_find_engine(struct instance *instance);
void instance_forget_described(struct instance *instance);

/* ---- storage.c ---- */

/* CHECKING: ends in STARTING, AWAIT_FORMAT, MISSING, ERRORED. */
void instance_check_storage(struct instance *instance);
void instance_ask_helper(struct instance *instance, struct helper_request *request,
			 void (*then)(struct instance *, const struct helper_reply *, const struct fathom_fault *, bool));
struct helper_request instance_helper_request(const struct instance *instance, enum helper_operation operation);
void instance_unmount(struct instance *instance);

/* ---- files.c ---- */

/* Sync the folder that holds `path`. -errno. */
MUST_CHECK int instance_sync_folder(struct instance *instance, const char *path);
/* Replace the file `path` by `text` atomically. `sync`: durable on return. -errno; then "PATH.new" may remain. */
MUST_CHECK int instance_replace_file(struct instance *instance, const char *path, const char *text, bool sync);
/* -errno; -ENOENT: it does not exist. */
MUST_CHECK int instance_stat_file(struct instance *instance, const char *path, struct stat *stat_ret);
/* -errno; a file that does not exist is no error. */
MUST_CHECK int instance_remove_file(struct instance *instance, const char *path);
/* Create `path` with its parents. Errors explained. */
MUST_CHECK int instance_make_folders(struct instance *instance, const char *path, struct fathom_fault *why);

/* ---- superblock.c ---- */

/*
 * engine.uuid and the superblock, which may be outside of the storage, must have the same UUID. If only engine.uuid is
 * missing, it is written. `missing`: there is no superblock; that is a fault if engine.uuid exists.
 */
MUST_CHECK int instance_check_identity(struct instance *instance, bool missing, struct fathom_fault *why);
/* Superblock and engine.uuid agree, so superblock.erased is obsolete. */
void instance_remove_erased_sign(struct instance *instance);
bool instance_is_formatted_folder(struct instance *instance);
/*
 * A device was erased, or its formatting was interrupted, and it was not formatted since: superblock.erased exists, and
 * the superblock or engine.uuid does not. The device must be mounted.
 */
bool instance_is_erased(struct instance *instance);
/* Create superblock.erased, durable on return. -errno. */
MUST_CHECK int instance_sign_erased(struct instance *instance);
/*
 * Move the pools of a folder to its trash, then remove data.img, engine.uuid, engine.json and the superblock, in this
 * order. -errno: some may remain.
 */
MUST_CHECK int instance_clear_folder(struct instance *instance);
MUST_CHECK int instance_write_superblock(struct instance *instance, struct fathom_fault *why);
/* Write a superblock with a new UUID and no rank, and engine.uuid. `replace`: it takes the previous engine's rank. */
MUST_CHECK int instance_new_superblock(struct instance *instance, bool replace, struct fathom_fault *why);
/* -ENOENT: there is none. On an error the instance keeps its rank, or takes that of the record. */
MUST_CHECK int instance_read_superblock(struct instance *instance, struct fathom_fault *why);

/* ---- missing.c ---- */

/* The folder of its storage is a mount point. */
bool instance_is_mount(struct instance *instance);
/* Check that a folder's former storage exists. Else the fault storage_missing. */
MUST_CHECK int instance_check_present(struct instance *instance, struct fathom_fault *why);
/* Storage without a format: the fault storage_missing if it was formatted before and not erased. */
MUST_CHECK int instance_check_remembered(struct instance *instance, struct fathom_fault *why);
/* CHECKING: move to MISSING for that reason. An erase request fails with it instead: ERRORED. */
void instance_miss(struct instance *instance, const struct fathom_fault *why);
/* Without a known rank: take rank and UUID from the record. */
void instance_remember_rank(struct instance *instance);
/* MISSING: look for the folder again after missing_interval_ns. Devices are not looked for. */
void instance_poll_missing_storage(struct instance *instance);

/* ---- storage_record.c ---- */

struct instance_record {
	uint8_t uuid[MEMBER_UUID_BYTES];
	uint32_t rank; /* RANK_NONE */
	bool is_formatted, is_mount;
};
/* False: there is no readable record. */
bool instance_read_record(struct instance *instance, struct instance_record *record_ret);
/* Write the record from the superblock. -errno: the former record is unchanged. */
MUST_CHECK int instance_record_formatted(struct instance *instance);
MUST_CHECK int instance_record_erased(struct instance *instance);

/* ---- storage_lock.c ---- */

/*
 * Check that no unknown process holds the storage: each engine locks the folder while it lives. -EAGAIN: the holder may be
 * ending, and `again` runs in INSTANCE_AGAIN_MS, in this state; else -EBUSY, explained.
 */
MUST_CHECK int instance_check_free(struct instance *instance, void (*again)(struct deadline *), struct fathom_fault *why);

/* ---- format.c ---- */

/* FORMATTING, for the first request of that kind. */
void instance_do_format(struct instance *instance);

/* ---- process.c, argv.c ---- */

/* Start the process: STARTING, or ERRORED. */
void instance_spawn(struct instance *instance);
/* STARTING: kill it if it is not ready in ready_timeout_ns. */
void instance_limit_start(struct instance *instance);
/* Watch the process behind `pid_fd`. Takes `pid_fd`, also on errors. -errno: it cannot be watched. */
MUST_CHECK int instance_process_take(struct instance *instance, pid_t pid, int pid_fd);
void instance_signal(struct instance *instance, int signal);
/* Kill it for that reason, without a request; the restart policy of `cause` applies. */
void instance_give_up(struct instance *instance, const struct fathom_fault *why, enum instance_cause cause);
/* Stop watching it; the process keeps running. */
void instance_process_forget(struct instance *instance);

struct instance_words {
	char **argv, **env; /* NULL-terminated; instance_words_free() them */
};
MUST_CHECK int instance_words_make(const struct instance *instance, struct instance_words *words_ret);
void instance_words_free(struct instance_words *words);

/* ---- end_report.c ---- */

/* Append to `how` the end report of process `pid`, if there is one. */
void instance_describe_end(struct instance *instance, uint64_t pid, char how[static INSTANCE_END_BYTES]);
void instance_remove_end_report(struct instance *instance);

/* ---- pid_file.c ---- */

/* Write it: after the start, when the engine is ready, has its rank, is being stopped. -errno: it was not written. */
MUST_CHECK int instance_write_pid_file(struct instance *instance);
void instance_remove_pid_file(struct instance *instance);
/* The process of the file, which an earlier server may have written, still exists. */
bool instance_pid_file_process_lives(struct instance *instance);
/* No engine runs: if no server stopped the process of the file, raise its death event. */
void instance_raise_recorded_death(struct instance *instance);
/* False: the process has ended, or is ending: the kernel is freeing its memory, its files and then their locks. */
bool instance_process_lives(struct provider *os, uint64_t pid);
/* Open the process of the file. The caller owns the descriptor. -ESRCH: it has ended, or there is no file; -errno. */
MUST_CHECK int instance_open_pid_file_process(struct instance *instance, pid_t *pid_ret, int *pid_fd_ret);

/* ---- join.c ---- */

/* READY: send the join, with `instance->ready`. */
void instance_join(struct instance *instance);
/* Move to READY, write incarnation and URI to the superblock, and join. Takes `ready`. */
void instance_became_ready(struct instance *instance, Srv__NotifyReadyReq *ready);
Srv__NotifyReadyReq *instance_copy_ready(const Srv__NotifyReadyReq *ready);

/* ---- ping.c ---- */

/* Ping a serving engine in ping_interval_ns, and after each answer again, until the state changes. */
void instance_watch(struct instance *instance);
/* Ping a serving engine now; one that does not serve yet, when it does. */
void instance_ping_at_once(struct instance *instance);
/* Mark the engine as hung until it answers a ping, and raise one event. */
void instance_note_hung(struct instance *instance);
/* Raise an event about its process, with that text. */
void instance_raise(struct instance *instance, enum ras_id id, const char *text);

/* ---- restart.c ---- */

/* Raise the event engine_died. */
void instance_report_death(struct instance *instance, const char *how, uint64_t pid, uint64_t incarnation, uint32_t rank);
/* Raise its event, move to ERRORED, schedule a restart. */
void instance_died(struct instance *instance, enum instance_cause cause, const char *how, pid_t pid, uint64_t incarnation);
/* ERRORED: schedule a restart if the policy of `cause` allows it; at its limit, `why` is the fault restarts_spent. */
void instance_schedule_restart(struct instance *instance, enum instance_cause cause);
/* End the row of restarts, and cancel a scheduled one. */
void instance_clear_history(struct instance *instance);
/* Suspend a scheduled restart while another request is tried. */
void instance_hold_restart(struct instance *instance);
/* ERRORED again: schedule the suspended restart at its former time. */
void instance_resume_restart(struct instance *instance);
void instance_begin_steady(struct instance *instance);

/* ---- engine_calls.c ---- */

typedef void (*instance_engine_fn)(struct instance *instance, const struct drpc_result *result);
/* Call the engine, with another `done` and `ctx`. `then` is called only if the state has not changed meanwhile. */
void instance_ask_engine(struct instance *instance, const struct drpc_request *request, instance_engine_fn then);
/* 0 if the call succeeded; else its error, explained. `what` names the call. */
MUST_CHECK int instance_engine_said(const struct instance *instance, const char *what, const struct drpc_result *result,
				    struct fathom_fault *why);
void instance_send_group(struct instance *instance);
/* A state change discards the answer to a sent group map: keep the map, to send it again after the next join. */
void instance_take_back_group(struct instance *instance);
void instance_drop_group(struct instance *instance);

/* ---- storage_call.c ---- */

/* The process has ended: end its storage calls. Not in the middle of a change. */
void instance_storage_process_ended(struct instance *instance);

/* The path of the engine's log, for faults. */
static inline const char *instance_log(const struct instance *instance)
{
	return instance->options.log_file ? instance->options.log_file : "its log";
}

#endif
