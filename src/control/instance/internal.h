/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * instance, inside: what its parts share.
 *
 *	instance.c	what is asked of it, its states, its answers
 *	stop.c		how it is stopped
 *	options.c	what it is made with
 *	adopt.c		is there an engine that runs?
 *	storage.c	looking at the storage; its superblock
 *	lock.c		does another process have it?
 *	missing.c	is it there?
 *	record.c	what it was when it was last seen
 *	format.c	making it
 *	process.c	a process: started, watched, told to end, how it ended
 *	argv.c		with what it is started
 *	note.c		and that it was
 *	join.c		ready, its rank, serving
 *	watch.c		whether it still answers
 *	restart.c	what becomes of one that ended
 *	talk.c		dRPC to it: groups, log masks, pings
 *
 * What is under way elsewhere (the helper, the engine, the management service, a file) is a *step*. It notes the count of
 * moves: when it ends and the state has moved on meanwhile, only what it leaves behind counts, and nothing follows from it.
 */
#ifndef CONTROL_INSTANCE_INTERNAL_H
#define CONTROL_INSTANCE_INTERNAL_H

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
	INSTANCE_PINGS_MISSED = 3, /* in a row: it hangs */
	INSTANCE_RANK_SECONDS = 10,
	INSTANCE_PREPARE_SECONDS = 10,
	INSTANCE_HUNG_TERM_SECONDS = 5, /* for one that hangs: most likely it never sees the SIGTERM */
	INSTANCE_JOIN_AGAIN_MIN_MS = 200,
	INSTANCE_JOIN_AGAIN_MAX_MS = 10000,
	INSTANCE_TRIES_MAX = 5, /* of what is tried again after a moment */
	INSTANCE_AGAIN_MS = 200,
	INSTANCE_MISSING_SECONDS = 5,
	INSTANCE_RELEASE_TRIES_MAX = 75, /* of storage that a process which ends holds still: 15 s */
};
static_assert(INSTANCE_RELEASE_TRIES_MAX > INSTANCE_TRIES_MAX, "a process that lives is waited for less long");

/* LOOK: nobody asked; an engine that we thought gone has spoken. */
enum instance_request {
	INSTANCE_DO_START,
	INSTANCE_DO_STOP,
	INSTANCE_DO_FORMAT,
	INSTANCE_DO_ERASE,
	INSTANCE_DO_LOOK,
	INSTANCE_DO_TELL
};

/* What somebody asked for, until it is answered. */
struct instance_call {
	TAILQ_ENTRY(instance_call) link;
	enum instance_request kind;
	bool taken; /* it is being done */
	bool force;
	struct instance_format format;
	const char *request; /* of TELL: what the engine is asked for, in words */
	int32_t method;	     /* of TELL */
	struct fault why;    /* the answer; error 0: done */
	instance_done_fn done;
	void *ctx;
};
TAILQ_HEAD(instance_calls, instance_call);

/* Something under way elsewhere. */
struct instance_step {
	LIST_ENTRY(instance_step) link;
	struct instance *instance; /* NULL: it was destroyed */
	uint64_t moves;
	struct instance_call *call; /* that it answers */
	union {
		void (*engine)(struct instance *instance, const struct drpc_result *result);
		void (*helper)(struct instance *instance, const struct helper_reply *reply, const struct fault *why,
			       bool current);
	} then;
};

struct instance_process {
	pid_t pid; /* 0: none */
	int pid_fd;
	struct fd_watch *watch;
	uint64_t noted_incarnation; /* 0: its note has none */
	bool adopted, serving, self_terminated, prepared, killed, hung;
	uint32_t misses;       /* times in a row that it did not answer */
	uint64_t answered;     /* tick, when it was last heard */
	struct fault hung_why; /* while it hangs */
	struct fault given_up; /* error not 0: it was killed by us for this, unasked */
	enum instance_cause given_up_cause;
};

struct instance {
	struct trace_object trace;
	enum instance_state state;
	uint64_t moves; /* counted */
	struct fathom_thread *thread;
	struct instance_options options; /* its texts are ours */
	struct instance_hooks hooks;
	struct deadlines deadlines;
	struct deadline turn;	 /* requests and answers, from the reactor's loop */
	struct deadline limit;	 /* of the state */
	struct deadline again;	 /* a try in it */
	struct deadline restart; /* when ERRORED */
	struct deadline steady;	 /* when JOINED */
	struct deadline ping;	 /* when it serves */
	struct deadline group_again;
	struct instance_calls calls, answered;
	LIST_HEAD(, instance_step) steps;
	enum instance_request purpose; /* of ADOPTING and CHECKING */
	bool destroying;

	/* storage */
	char superblock_path[INSTANCE_PATH_BYTES], data_path[INSTANCE_PATH_BYTES];
	struct superblock superblock;
	bool has_superblock, mounted, said_format_required, said_missing;
	int said_not_started; /* the code of the fault for which it did not start, as the last event has it; 0: none */
	uint32_t working;     /* operations of the helper or on files */

	/* what it was before it was looked at; where nothing came of that, it is so again */
	enum instance_state before;
	struct fault before_why;
	bool restart_held; /* it was ERRORED, and a restart was due */
	uint64_t restart_held_due;

	/* process */
	char socket_path[INSTANCE_PATH_BYTES], rpc_socket[INSTANCE_PATH_BYTES];
	struct instance_process process;
	struct drpc_client *engine;
	Srv__NotifyReadyReq *ready; /* as it said it */
	Srv__NotifyReadyReq *heard; /* while we did not know it yet */
	pid_t heard_pid;
	Fathom__DescribeResp *described; /* ADOPTING: the first answer */
	pid_t described_pid;
	int described_fd; /* 0: none */
	uint32_t tries;
	uint64_t join_pause_ms;
	uint32_t map_version;

	/* the group */
	Mgmt__GroupUpdateReq *group_next, *group_sent;
	uint32_t group_version; /* of the newest that the engine has taken; an older one it ignores */

	/* how it went */
	struct fault why, stop_why; /* stop_why: why it is stopped, when nobody asked for that */
	char last_end[INSTANCE_END_BYTES];
	uint32_t restarts; /* in a row */
	uint64_t starts;
};

/* ---- instance.c ---- */

void instance_move(struct instance *instance, enum instance_state to);
/* It cannot go on. `cause` NULL: nor by itself. */
void instance_fail(struct instance *instance, const struct fault *why, const enum instance_cause *cause);
/* All of that kind, taken or not. `why` NULL: done. */
void instance_answer_all(struct instance *instance, enum instance_request kind, const struct fault *why);
void instance_answer(struct instance *instance, struct instance_call *call, const struct fault *why);
bool instance_waits(const struct instance *instance, enum instance_request kind);
/* Look at requests and answers, soon. */
void instance_turn_soon(struct instance *instance);
/* From IDLE, STOPPED, ERRORED, AWAIT_FORMAT, MISSING: look for an engine, then do it. */
void instance_begin(struct instance *instance, enum instance_request purpose);
/* Nothing was done to it: as it was before it was looked at, with the restart that was due. */
void instance_restore(struct instance *instance);
/* An engine that we thought gone has spoken: look for it, when nothing else is done. */
void instance_look_soon(struct instance *instance);

struct instance_step *instance_step_begin(struct instance *instance);
/* Whose it was, or NULL; `current_ret`: nothing moved meanwhile. Frees it. */
struct instance *instance_step_end(struct instance_step *step, bool *current_ret);

/* ---- stop.c ---- */

/* STOPPING: the next thing that is to be done for it. */
void instance_stop_next(struct instance *instance);
void instance_begin_stopping(struct instance *instance, bool force);
/* SIGKILL; it is told if the process is still there when the time for that is over. */
void instance_kill(struct instance *instance);
/* It was killed, and that it does not die has been said: say it again to who asks now. */
void instance_kill_again(struct instance *instance);

/* ---- options.c ---- */

MUST_CHECK int instance_options_check(const struct instance_options *options, struct fault *why);
/* What cannot be copied is empty (-ENOMEM): instance_options_free() takes it. */
MUST_CHECK int instance_options_copy(struct instance_options *options, const struct instance_options *from);
void instance_options_free(struct instance_options *options);

/* A call of kind TELL, taken: whoever asked for it answers it. */
struct instance_call *instance_ask_to_tell(struct instance *instance, instance_done_fn done, void *ctx);

/* ---- adopt.c ---- */

/* ADOPTING: found means STARTING, READY or STOPPING; else what it is for is done. */
void instance_look(struct instance *instance);
void instance_forget_described(struct instance *instance);

/* ---- storage.c ---- */

/* CHECKING: ends in STARTING, AWAIT_FORMAT, MISSING, ERRORED. */
void instance_check_storage(struct instance *instance);
/* The names beside `path` are on the disk. */
MUST_CHECK int instance_sync_folder(struct instance *instance, const char *path);
/* `text` is at `path`, or what was there before is. `sync`: it is on the disk. -errno; "PATH.new" that stays is garbage. */
MUST_CHECK int instance_replace_file(struct instance *instance, const char *path, const char *text, bool sync);
bool instance_is_formatted_folder(struct instance *instance);
/*
 * Of a device: it was erased, or its formatting was cut off, and it was not formatted since: the sign stands, and there
 * is no superblock, or a storage that does not say whose it is. It has to be mounted.
 */
bool instance_is_erased(struct instance *instance);
/* The sign is on the disk. -errno. */
MUST_CHECK int instance_sign_erased(struct instance *instance);
/* Of a folder: all that makes it formatted. -errno: some of it is there still; without data.img it is not formatted. */
MUST_CHECK int instance_clear_folder(struct instance *instance);
/* Short operations on files. Errors explained. */
MUST_CHECK int instance_make_folders(struct instance *instance, const char *path, struct fault *why);
MUST_CHECK int instance_write_superblock(struct instance *instance, struct fault *why);
/* Another UUID, no rank. `replace`: it is to have the rank of who was there. */
MUST_CHECK int instance_new_superblock(struct instance *instance, bool replace, struct fault *why);
/* -ENOENT: there is none. What cannot be read leaves the instance the rank by which it is known. */
MUST_CHECK int instance_read_superblock(struct instance *instance, struct fault *why);
void instance_ask_helper(struct instance *instance, struct helper_request *request,
			 void (*then)(struct instance *, const struct helper_reply *, const struct fault *, bool));
struct helper_request instance_helper_request(const struct instance *instance, enum helper_operation operation);
void instance_unmount(struct instance *instance);

/* ---- missing.c ---- */

/* The folder of its storage is a filesystem of its own. */
bool instance_is_mount(struct instance *instance);
/* Is the storage there that was there before? Else a fault, storage_missing. Of a device, what its formatting found. */
MUST_CHECK int instance_check_present(struct instance *instance, struct fault *why);
MUST_CHECK int instance_check_remembered(struct instance *instance, struct fault *why);
/* It is missing, for that reason: MISSING, and looked for. */
void instance_miss(struct instance *instance, const struct fault *why);
/* Its superblock cannot be read, or is where the storage is: it is known by the rank and the UUID that it had. */
void instance_remember_rank(struct instance *instance);
/* MISSING, from now on looked for every few seconds. */
void instance_look_for_storage(struct instance *instance);

/* ---- record.c ---- */

struct instance_record {
	uint8_t uuid[MEMBER_UUID_BYTES];
	uint32_t rank; /* RANK_NONE */
	bool is_formatted, is_mount;
};
/* False: nothing is remembered. */
bool instance_read_record(struct instance *instance, struct instance_record *record_ret);
/* As the superblock is now. -errno: what stood there stands. */
MUST_CHECK int instance_record_formatted(struct instance *instance);
MUST_CHECK int instance_record_erased(struct instance *instance);

/* ---- lock.c ---- */

/*
 * No process that we know nothing of holds the storage: each engine locks the folder while it lives. -EAGAIN: one that ends
 * may hold it still, and `again` runs in a moment, in this state; else -EBUSY, explained.
 */
MUST_CHECK int instance_check_free(struct instance *instance, void (*again)(struct deadline *), struct fault *why);

/* ---- format.c ---- */

/* FORMATTING, for the first request of that kind. */
void instance_do_format(struct instance *instance);

/* ---- process.c, argv.c ---- */

/* STARTING: a process of its own. */
void instance_spawn(struct instance *instance);
/* STARTING: it has to be ready in its time. */
void instance_limit_start(struct instance *instance);
/* Take up the process behind `pid_fd`, which is ours then. -errno: it cannot be watched. */
MUST_CHECK int instance_process_take(struct instance *instance, pid_t pid, int pid_fd);
void instance_signal(struct instance *instance, int signal);
/* Kill it, for that reason; it counts as ended by itself, for that cause. */
void instance_give_up(struct instance *instance, const struct fault *why, enum instance_cause cause);
/* Let go of it; it runs on. */
void instance_process_forget(struct instance *instance);

struct instance_words {
	char **argv, **env; /* NULL-terminated; ours */
};
MUST_CHECK int instance_words_make(const struct instance *instance, struct instance_words *words_ret);
void instance_words_free(struct instance_words *words);

/* ---- end_report.c ---- */

/* Add to `how` (INSTANCE_END_BYTES) what the engine with number `pid` reported before it ended; nothing if it did not. */
void instance_describe_end(struct instance *instance, uint64_t pid, char how[static INSTANCE_END_BYTES]);
void instance_remove_end_report(struct instance *instance);

/* ---- note.c ---- */

/* It runs, and may not listen yet; again when it is ready, has its rank, is told to stop. -errno: that is not noted. */
MUST_CHECK int instance_note_process(struct instance *instance);
void instance_remove_note(struct instance *instance);
/* The last that was noted, by us or by a server before us, has not ended. */
bool instance_noted_lives(struct instance *instance);
/* Nobody is there: if one was noted and not told to stop, it has died, maybe while there was no server. */
void instance_tell_noted(struct instance *instance);
/* It runs. False: it has ended, or is ending (the kernel takes its memory, its files and then their locks back). */
bool instance_process_lives(struct provider *os, uint64_t pid);
/* It, by a descriptor that is the caller's. -ESRCH: it has ended, or nothing is noted; -errno. */
MUST_CHECK int instance_noted_open(struct instance *instance, pid_t *pid_ret, int *pid_fd_ret);

/* ---- join.c ---- */

/* READY: it has said so in `instance->ready`. */
void instance_join(struct instance *instance);
/* It is ready: keep what it said; takes `ready`. */
void instance_became_ready(struct instance *instance, Srv__NotifyReadyReq *ready);
Srv__NotifyReadyReq *instance_copy_ready(const Srv__NotifyReadyReq *ready);

/* ---- watch.c ---- */

/* Of one that serves: ask it from now on, until the state moves on. */
void instance_watch(struct instance *instance);
/* It does not answer: an event tells it once. It stays so until it answers. */
void instance_note_hung(struct instance *instance);
/* An event of its process, with that text. */
void instance_raise(struct instance *instance, enum ras_id id, const char *text);

/* ---- restart.c ---- */

/* The event alone. */
void instance_tell_died(struct instance *instance, const char *how, uint64_t pid, uint64_t incarnation, uint32_t rank);
void instance_died(struct instance *instance, enum instance_cause cause, const char *how, pid_t pid, uint64_t incarnation);
/* Set the time for it, if the policy says so; else say in `why` that it has ended. */
void instance_schedule_restart(struct instance *instance, enum instance_cause cause);
void instance_clear_history(struct instance *instance);
/* A restart that is due waits until it is known whether something else becomes of the instance. */
void instance_hold_restart(struct instance *instance);
/* ERRORED again: it is due when it was. */
void instance_resume_restart(struct instance *instance);
void instance_begin_steady(struct instance *instance);

/* ---- talk.c ---- */

typedef void (*instance_engine_fn)(struct instance *instance, const struct drpc_result *result);
/* Ask the engine; `then` only if nothing has moved meanwhile. */
void instance_ask_engine(struct instance *instance, int32_t module, int32_t method, const ProtobufCMessage *request,
			 const ProtobufCMessageDescriptor *response, uint64_t timeout_ns, instance_engine_fn then);
/* 0, or why what it answered is no success. */
MUST_CHECK int instance_engine_said(const struct instance *instance, const char *what, const struct drpc_result *result,
				    struct fault *why);
void instance_send_group(struct instance *instance);
/* The state moves on, so nobody hears the answer any more: what was sent is sent again to one that has joined. */
void instance_take_back_group(struct instance *instance);
void instance_drop_group(struct instance *instance);

/* Where its engine's own words are, for faults. */
static inline const char *instance_log(const struct instance *instance)
{
	return instance->options.log_file ? instance->options.log_file : "its log";
}

#endif
