/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * storage - pools and volumes: names, placement and changes.
 *
 *     storage/engine.c     calls to engines, and what each engine last said about its storage (LIST)
 *     storage/task.c       a stored intent and the calls to engines that carry it out: retries, restarts, waiting calls
 *     storage/finish.c     what the results of a task mean: the next record of the pool or volume, its events and faults
 *     storage/missing.c    what engines lack of the catalog: shown with their ranks
 *     storage/words.c      what a task is about, in words for people
 *     storage/move.c       the steps of a move between two ranks; storage/move_snapshots.c: of the volume's snapshots
 *     storage/place.c      on which ranks volumes and pools are placed, by the rule of placement.h
 *     storage/pool_set.c   properties of a pool that its engines keep
 *     storage/pool_absent.c  DAOS's properties of pools that have no meaning here
 *     storage/share.c      the ranks of a pool: extend, exclude, drain, reintegrate
 *     storage/drain.c      moves of the volumes of a rank that is drained
 *     storage/lost.c       shares and volumes of ranks that were erased or replaced
 *     storage/old_copy.c   what moved volumes have left on ranks that were down
 *     storage/late.c       properties of pools for ranks that were down
 *     storage/answer.c     a volume as a message, from the catalog and from its engine
 *     storage/evict.c      evictions: calls that wait for many volumes
 *     storage/pool.c, storage/pool_prop.c, storage/pool_query.c, storage/create.c, storage/change.c, storage/list.c,
 *     storage/snapshot.c
 *                          the methods
 *
 * A change has three steps. Its intent is stored in the catalog; the engines are called; the result is stored. A pool or a
 * volume has at most one change at a time, as a task. The task exists from the first step to the last one: it repeats calls
 * that got no answer, and after a restart of the service it is created again from the catalog. So an operation is finished
 * or undone, whatever ends in between. Requests are repeatable: an engine accepts what it has already done.
 *
 * The call that requested the change waits for the task. If that takes too long, it is answered with storage_waits, and the
 * task goes on. A task calls only its own ranks and waits only for them, so an engine that hangs delays no other.
 */
#ifndef CONTROL_MGMT_STORAGE_H
#define CONTROL_MGMT_STORAGE_H

#include "control/mgmt/catalog/catalog.h"
#include "control/mgmt/internal.h"
#include "rpc/proto/store.pb-c.h"

enum {
	STORAGE_TASKS_MAX = 1024,			  /* changes that are under way or wait */
	STORAGE_RANK_TASKS_MAX = 64,			  /* of these, on one rank */
	STORAGE_WAITERS_MAX = 4096,			  /* calls that wait for a task or for the engines' figures */
	STORAGE_WHAT_BYTES = 3 * CATALOG_NAME_BYTES + 32, /* "volume \"POOL/VOLUME\"" */
	STORAGE_CHANGE_BYTES = CATALOG_NQN_BYTES + 64,	  /* "publish to NQN" */
	STORAGE_INFO_BYTES = 512,
	STORAGE_LATE_BYTES = 64, /* "size, overcommit, scrub, scrub_freq" */
	STORAGE_SENTENCE_BYTES = STORAGE_WHAT_BYTES + STORAGE_CHANGE_BYTES,
};

/* ---- storage/engine.c ---- */

/* The answer to a call of an engine. */
struct storage_result {
	enum {
		STORAGE_DONE,
		STORAGE_REFUSED,   /* it has not done it, and will not if asked again: `why` */
		STORAGE_NO_ANSWER, /* it may have done it: `why`. Ask again */
	} kind;
	int error;			    /* REFUSED: the engine's errno */
	const Store__StorageResp *response; /* DONE */
	struct fathom_fault why;
};
typedef void (*storage_done_fn)(void *ctx, const struct storage_result *result);

/* The member at `place`; NULL: it was erased or replaced, and its data with it. */
const struct member *storage_member(const struct mgmt *mgmt, const struct catalog_place *place);

/*
 * Call the engine at `place`, which has its member. `request->rank` is set here; `what` ("create volume \"p/v\"") is for
 * faults. `done` is called once, later, but not after mgmt_close().
 * Errors: -ENOMEM and others of mgmt_call(): `done` is not called.
 */
MUST_CHECK int storage_call(struct mgmt *mgmt, const struct catalog_place *place, Store__StorageReq *request,
			    const char *what, storage_done_fn done, void *ctx);

/* For a call that must be answered before the time of another call ends. */
struct storage_callback {
	const char *what;
	uint64_t timeout_ns; /* above 0; at most that of the service is used */
	storage_done_fn done;
	void *ctx;
};
/* As storage_call(). */
MUST_CHECK int storage_call_within(struct mgmt *mgmt, const struct catalog_place *place, Store__StorageReq *request,
				   const struct storage_callback *callback);

/* What the engine lacked at its latest LIST. */
struct storage_missing {
	uint64_t incarnation; /* of the engine; 0: it has not been asked */
	uint32_t pools, volumes;
	uint64_t since_ns; /* CLOCK_REALTIME */
	char reason[MEMBER_INFO_BYTES];
};

/* The storage of one engine, as it last said. */
struct mgmt_engine {
	TAILQ_ENTRY(mgmt_engine) link;
	struct catalog_place place;
	Store__StorageResp *list;      /* NULL: none yet */
	const Store__Volume **volumes; /* of `list`, sorted by UUID */
	size_t volume_count;
	uint64_t asked_ns; /* when `list` was requested: it was true then or later; CLOCK_REALTIME */
	bool is_asking;
	struct storage_listing *listing; /* of the LIST under way */
	uint64_t asked;			 /* number of the latest LIST */
	struct fathom_fault why;	 /* why the latest LIST has failed, or was not made; error 0: it was answered */
	struct storage_missing missing;
	TAILQ_HEAD(, storage_wish) wishes;
};

/* NULL: never asked. Without the answers of a former member of the rank. */
struct mgmt_engine *storage_find_engine(struct mgmt *mgmt, const struct catalog_place *place);
/* The engine, created if needed. NULL: out of memory. */
struct mgmt_engine *storage_engine(struct mgmt *mgmt, const struct catalog_place *place);
const Store__Volume *storage_listed_volume(const struct mgmt_engine *engine, const char *uuid);
const Store__Pool *storage_listed_pool(const struct mgmt_engine *engine, const char *uuid);

/* What waits for the figures of engines. */
struct storage_reader {
	void (*done)(void *ctx);
	void (*release)(void *ctx); /* frees `ctx`, if the service closes first */
	void *ctx;
	uint64_t wait_ns; /* at most that of the service is used */
};
/*
 * Ask the engines at `places` what they hold. `reader->done` is called once, later: when all have answered, or when the
 * reader has waited for its time. It may find older figures, or none. Errors: -ENOMEM.
 */
MUST_CHECK int storage_read(struct mgmt *mgmt, const struct catalog_place *places, size_t count,
			    const struct storage_reader *reader);
/* Ask the engine at `place`, if it has joined and is not being asked: nothing waits for the answer. */
void storage_ask(struct mgmt *mgmt, const struct catalog_place *place);
void storage_engines_close(struct mgmt *mgmt);

/* ---- storage/missing.c ---- */

/* A pool or a volume that the engine lists as ERRORED: only its name is known. NULL: it does not. */
const Store__Pool *storage_listed_errored_pool(const struct mgmt_engine *engine, const struct catalog_pool *pool);
const Store__Volume *storage_listed_errored_volume(const struct mgmt_engine *engine, const struct catalog_volume *volume);
/* The engine has listed its volumes since the latest change of this one, which it does not have. */
bool storage_lacks_volume(const struct mgmt_engine *engine, const struct catalog_volume *volume);
/* The pool has a share there, which is not being created or removed, and the engine has listed its pools without it. */
bool storage_lacks_pool(const struct mgmt_engine *engine, const struct catalog_pool *pool);
/* The engine with this incarnation has answered a LIST: compare it with the catalog. */
void storage_compare(struct mgmt *mgmt, struct mgmt_engine *engine, uint64_t incarnation);

/* ---- storage/task.c ---- */

/* A call that waits for a task. */
struct storage_waiter {
	TAILQ_ENTRY(storage_waiter) link;
	struct mgmt_task *task;
	struct grpc_call *call;
	bool is_late; /* its request is not about what the task was refused: it came later, or wants the volume as it is */
	struct deadline deadline;
};

/* The part of a task on one rank. */
struct storage_part {
	struct mgmt_task *task;
	struct catalog_place place;
	bool is_calling, is_done, is_refused;
	bool has_refused;     /* properties of a pool: it has refused the new values, and so has the former ones */
	bool was_called;      /* properties of a pool: it may have the new values */
	bool is_late;	      /* properties of a pool: it gets them later: storage/late.c */
	int error;	      /* of the engine, if refused */
	uint64_t incarnation; /* of the member at the last call */
	struct fathom_fault why;
};

/* A snapshot that moves with its volume. */
struct move_snapshot {
	char name[CATALOG_NAME_BYTES], uuid[MEMBER_UUID_TEXT_BYTES], group[MEMBER_UUID_TEXT_BYTES];
	uint64_t size_bytes, created_ns;
};

/* A move under way: storage/move.c. */
struct task_move {
	struct trace_object trace;
	enum mgmt_move_state state; /* as of the record; IDLE: the task is no move */
	Store__Action action;	    /* the step: what is called now */
	char session[MEMBER_UUID_TEXT_BYTES];
	uint64_t serial; /* of the session: its time, or higher */
	uint32_t round, restarts;
	struct move_snapshot *snapshots;	 /* owned; the oldest first, as the source said when it was offered */
	uint32_t snapshot_count, snapshots_done; /* the rounds of the first ones are those of snapshots */
	bool is_cancelled;			 /* while a call is under way */
	char source[64], target[64];		 /* addresses of the listeners; "": not said */
	ProtobufCBinaryData regions;		 /* of the round; owned */
	uint64_t region_bytes, region_count;	 /* `region_count`: of those to copy */
	bool is_round_done;
	uint64_t copied_bytes, total_bytes;
};

struct mgmt_task {
	struct trace_object trace;
	enum mgmt_task_state state;
	struct task_move move;
	TAILQ_ENTRY(mgmt_task) link;
	struct mgmt *mgmt;
	struct catalog_pool *pool;
	struct catalog_volume *volume; /* NULL: the task is the pool's */
	TAILQ_HEAD(, storage_waiter) waiters;
	char who[GRPC_WHO_BYTES];    /* of the first waiter; "": after a restart */
	struct fathom_fault refusal; /* of the creation that is being undone: the answer to its waiters; error 0: none */
	struct fathom_fault why;     /* why it waits; error 0: it does not */
	uint32_t waits_for;	     /* the rank that `why` is about */
	uint32_t failures;
	struct deadline deadline;
	char name[CATALOG_FULL_BYTES], uuid[MEMBER_UUID_TEXT_BYTES]; /* of the object */
	Store__Volume *answer;					     /* of the engine, about the volume; NULL: none */
	uint64_t asked_ns;					     /* when the latest calls were made; CLOCK_REALTIME */
	char address[64];					     /* of the engine's listener; "": not said */
	bool is_abandoned;					     /* only its calls are awaited */
	bool is_other_done; /* a destruction: one of two was destroyed: of a rename, by the new name; of a move, on the
			       rank of the record */
	uint32_t calls, part_count;
	struct storage_part parts[];
};

/* Check that a task on `count` places can start. Errors: -EAGAIN (mgmt_queue_full). */
MUST_CHECK int storage_check_room(struct mgmt *mgmt, const struct catalog_place *places, size_t count,
				  struct fathom_fault *why);
/* Whether a task of a volume can start there. */
bool storage_has_room(const struct mgmt *mgmt, const struct catalog_place *place);
/*
 * Start the task of the pool or volume, whose record has an intent, and let `call` wait for it. NULL: no call waits. After
 * an error, which is only -ENOMEM, `call` is answered and the task starts later.
 */
void storage_start(struct mgmt *mgmt, struct catalog_pool *pool, struct catalog_volume *volume, struct grpc_call *call);
/* Let `call` wait for the task under way. It is answered here if too many wait. */
void storage_wait(struct mgmt_task *task, struct grpc_call *call);
/* The same for a call that the end of the task answers, also if the task fails. */
void storage_wait_any(struct mgmt_task *task, struct grpc_call *call);
/* Start the calls of all parts that are not done. */
void storage_run(struct mgmt_task *task);
/* What the task waits for, as a fault. */
void storage_explain_wait(const struct mgmt_task *task, struct fathom_fault *why);
/* Call again after a pause. */
void storage_pause(struct mgmt_task *task);
/* Run the task again from its first part, for the next intent of its record. */
void storage_restart(struct mgmt_task *task);
/* End the task, and answer its waiters: with `why`, or as its record is now. `why` NULL or error 0: it succeeded. */
void storage_end(struct mgmt_task *task, const struct fathom_fault *why);
/* Answer the task's waiters with `why`. The task goes on with a change that another call has requested. */
void storage_refuse_waiters(struct mgmt_task *task, const struct fathom_fault *why);
/* Drop the task of a volume whose pool is being destroyed. Its waiters are answered with `why`. */
void storage_abandon(struct mgmt_task *task, const struct fathom_fault *why);
/* ---- storage/finish.c ---- */

/* Fill the request of the task for its intent. Texts are borrowed from the record. */
void storage_fill_request(const struct mgmt_task *task, Store__StorageReq *request);
/* Whether the engine must be called at a place whose member is gone: no, it counts as done or as refused. */
void storage_settle_lost(struct mgmt_task *task, struct storage_part *part);
/* All calls have ended: store the result, or wait and call again. */
void storage_finish(struct mgmt_task *task);

/* ---- storage/words.c ---- */

/* "pool \"p\"" or "volume \"p/v\"". Returns `what`, of STORAGE_WHAT_BYTES. */
const char *storage_what(const struct catalog_pool *pool, const struct catalog_volume *volume, char *what);
/* "create volume \"p/v\"", "publish volume \"p/v\" to NQN" ... Returns `sentence`, of STORAGE_SENTENCE_BYTES. */
const char *storage_sentence(const struct catalog_pool *pool, const struct catalog_volume *volume, char *sentence);
/* "create", "resize to N bytes" ...; "": nothing is under way. Returns `text`, of STORAGE_CHANGE_BYTES. */
const char *storage_pending(const struct catalog_pool *pool, const struct catalog_volume *volume, char *text);
/* "none" for an empty text, in messages. */
const char *storage_or_none(const char *text);
/* The fault storage_changing (-EBUSY): what is pending of the pool (`volume` NULL) or the volume excludes a change. */
int storage_refuse_changing(const struct catalog_pool *pool, const struct catalog_volume *volume, struct fathom_fault *why);
/* How far the copy is, for people; "": nothing is copied. Returns `text`, of STORAGE_CHANGE_BYTES. */
const char *storage_move_progress(const struct mgmt_task *task, char *text);

/* ---- storage/move.c ---- */

/* Begin with the first step of the record's move. Without a move: does nothing. */
void storage_move_set_up(struct mgmt_task *task);
/* Whether the task is a move; else the functions below are not for it. */
bool storage_moves(const struct mgmt_task *task);
void storage_move_fill(const struct mgmt_task *task, Store__StorageReq *request);
/* Keep what an engine answered. Errors: -ENOMEM: it is asked again. */
MUST_CHECK int storage_move_keep(struct mgmt_task *task, const Store__StorageResp *response);
/* The member at the place of the step is gone. */
void storage_move_settle_lost(struct mgmt_task *task, struct storage_part *part);
/* Whether the member of the step is gone, and nothing but a request of an operator ends the move. */
bool storage_move_is_stuck(const struct mgmt_task *task, const struct storage_part *part);
/* The step was done, or refused: go on with the next one. */
void storage_move_done(struct mgmt_task *task);
void storage_move_refused(struct mgmt_task *task, const struct storage_part *part);
/*
 * A step got no answer. True: hosts have waited for the target long enough, and the copy begins again, with the source
 * serving them. False: the step is to be repeated.
 */
MUST_CHECK bool storage_move_gives_way(struct mgmt_task *task, const struct storage_part *part);
/* The move was cancelled while a call was under way: undo it, and return true. */
bool storage_move_check_cancel(struct mgmt_task *task);
void storage_move_free(struct mgmt_task *task);
/* Cancel the volume's move, if it has one that is not yet committed. */
void storage_move_cancel(struct catalog_volume *volume);
/*
 * It has been decided which place is the volume's, and the call to the other one, to erase its copy, got no answer. True:
 * the move has ended, and the erasure is noted. False: the step is to be repeated.
 */
MUST_CHECK bool storage_move_leave(struct mgmt_task *task);
/* Answer a publication to a host that has the volume, during its move. False: it must wait for the move's end, or fail. */
bool storage_move_publish(struct mgmt *mgmt, struct grpc_call *call, struct catalog_volume *volume, const char *host);

/* ---- storage/move_snapshots.c ---- */

/* The snapshot of the round; NULL: the round is one of the volume. */
const struct move_snapshot *storage_move_snapshot(const struct task_move *move);
/* How many rounds of the volume there were, with this one. */
uint32_t storage_move_round(const struct task_move *move);
/* Whether the target must be called although nothing is to copy: a snapshot may have another size than the one before. */
bool storage_move_must_copy(const struct task_move *move);
/* Keep the snapshots of the task's answer, to an offer. Errors: -ENOMEM: it is asked again. */
MUST_CHECK int storage_move_keep_snapshots(struct mgmt_task *task);
/* Fill what a step needs about the snapshot of its round. */
void storage_move_fill_snapshot(const struct task_move *move, Store__StorageReq *request);

/* ---- storage/pool_absent.c ---- */

/* Whether a request means the property, by name or by number. */
bool storage_is_property(const Mgmt__PoolProperty *asked, uint32_t number, const char *name);
/* Say why pools do not have the property. */
int storage_refuse_property(const Mgmt__PoolProperty *asked, struct fathom_fault *why);

/* ---- storage/pool_prop.c ---- */

/* Give the record of a new pool the properties that the request has. */
int storage_new_properties(struct mgmt *mgmt, const Mgmt__PoolCreateReq *asked, struct catalog_pool_record *record,
			   struct fathom_fault *why);

/* The value of a property in two records, as texts. */
struct storage_difference {
	const char *name; /* static */
	char found[CATALOG_OWNER_BYTES], given[CATALOG_OWNER_BYTES];
};
/* Whether the property that `asked` names has other values in the records. The request was read without an error before. */
bool storage_property_differs(const Mgmt__PoolProperty *asked, const struct catalog_pool_record *found,
			      const struct catalog_pool_record *given, struct storage_difference *difference_ret);

/* ---- storage/pool_set.c ---- */

/* The values of the record, as a change that is not set. */
struct catalog_pool_change storage_set_values(const struct catalog_pool_record *record);
/* CATALOG_KEPT_SIZE ...: those whose values differ. */
uint32_t storage_set_differences(const struct catalog_pool_record *record, const struct catalog_pool_change *change);

/* Whether the task gives the engines of a pool new values of properties; else the functions below are not for it. */
bool storage_sets(const struct mgmt_task *task);
void storage_set_fill(const struct mgmt_task *task, Store__StorageReq *request);
/* All engines have the values: store them as the pool's; or of an undo: end it. */
void storage_set_done(struct mgmt_task *task);
/* An engine has refused them: give all engines the former ones. */
void storage_set_refused(struct mgmt_task *task, const struct storage_part *part);
/*
 * Whether the engine of the part is not called: its rank is down or excluded, or lacks former properties, and gets the
 * values later; or an undo need not call it.
 */
bool storage_set_skips(const struct mgmt_task *task, const struct storage_part *part);
/* Whether the engine of the part is being called by storage/late.c, so that it must be called later. Fills `why`. */
bool storage_set_waits(const struct mgmt_task *task, const struct storage_part *part, struct fathom_fault *why);
/* An engine gave no answer. True: the task was an undo, and has ended. False: the engine is to be called again. */
MUST_CHECK bool storage_set_leave(struct mgmt_task *task);
/* Give the engines the values of `change`, and answer `call` at the end; or wait for the same that is under way. */
void storage_set_begin(struct mgmt *mgmt, struct grpc_call *call, struct catalog_pool *pool,
		       const struct catalog_pool_change *change);

/* ---- storage/pool_prop.c ---- */

/* Answer a call that has set properties of the pool. */
void storage_reply_set(const struct catalog_pool *pool, struct grpc_call *call);

/* ---- storage/evict.c: calls that wait for the unpublication of several volumes ---- */

/* The task of a volume has ended: `why` NULL or error 0: it succeeded. */
void storage_evict_ended(const struct mgmt_task *task, const struct fathom_fault *why);
/* It waits for an engine, which gave no answer. */
void storage_evict_delayed(const struct mgmt_task *task);
/* All calls fail with `why`; or because the service ends. */
void storage_evictions_fail(struct mgmt *mgmt, const struct fathom_fault *why);
void storage_evictions_close(struct mgmt *mgmt);

/* ---- storage/share.c ---- */

/* Whether the rank, which the pool has, gets new volumes. Errors: -EBUSY (share_not_up). */
MUST_CHECK int storage_check_share(const struct catalog_pool *pool, uint32_t rank, struct fathom_fault *why);
/* "rank 2", "ranks 2-3": those that are being added or removed. Returns `text`, of MGMT_RANKS_BYTES. */
const char *storage_changing_ranks(const struct catalog_pool *pool, char *text);
/* The task of a ready pool: its new ranks have created the share, or destroyed it. One of them has refused. */
void storage_extension_done(struct mgmt_task *task);
void storage_extension_refused(struct mgmt_task *task, const struct fathom_fault *refusal);
/* Answer a call that has extended the pool. */
void storage_reply_extended(const struct catalog_pool *pool, struct grpc_call *call);

/* ---- storage/lost.c ---- */

/* Whether the rank of the share at `index` was erased or replaced since. Not of a share that is being added or removed. */
bool storage_share_is_lost(const struct mgmt *mgmt, const struct catalog_pool *pool, uint32_t index);
/* The fault share_lost (-ENODATA), of a rank with a lost share. */
int storage_refuse_lost(const struct mgmt *mgmt, const struct catalog_pool *pool, uint32_t rank, struct fathom_fault *why);
/* Whether the lost share can be replaced: the pool has no lost volumes on the rank. Errors: -ENODATA (share_lost). */
MUST_CHECK int storage_check_replaceable(const struct mgmt *mgmt, const struct catalog_pool *pool, uint32_t rank,
					 struct fathom_fault *why);
/* What is lost, and what to do, for people. `text` has STORAGE_INFO_BYTES. */
void storage_explain_lost(const struct mgmt *mgmt, const struct catalog_pool *pool, uint32_t rank, char *text);

/* ---- storage/drain.c ---- */

struct storage_drain_progress {
	uint32_t left, moving; /* volumes that are on the rank; those of them with a move */
	uint32_t running;      /* moves that are not being undone */
	uint32_t due;	       /* that could be moved now */
	uint32_t staying;      /* whose move has failed; `first` is one of them */
	uint32_t old_copies;
	const struct catalog_volume *first;
};
void storage_drain_count(const struct mgmt *mgmt, const struct catalog_pool *pool, uint32_t rank,
			 struct storage_drain_progress *progress_ret);
/* Examine all shares that are being drained: begin moves, and settle those without volumes. */
void storage_drain_soon(struct mgmt *mgmt, uint64_t after_ns);
/* Members have changed: try also what has failed. */
void storage_drain_retry(struct mgmt *mgmt);
/* A move of the volume was undone. */
void storage_drain_failed(struct mgmt *mgmt, struct catalog_volume *volume, const struct fathom_fault *why);
/* A move to a target that gave no answer `silences` times: whether it is undone, because another rank may be better. */
bool storage_drain_gives_up(const struct mgmt *mgmt, const struct catalog_volume *volume, uint32_t silences);
/* Whether a drain began the volume's move, before its commit, and the rank is no longer drained. */
bool storage_drain_has_ended(const struct catalog_volume *volume);
/* What remains to be done on the rank at `index`, for people; "": nothing. `text` has STORAGE_INFO_BYTES. */
void storage_drain_explain(const struct mgmt *mgmt, const struct catalog_pool *pool, uint32_t index, char *text);
/* If the volume's rank is being drained, fill `pending`, of STORAGE_CHANGE_BYTES, and return since when; else 0. */
uint64_t storage_drain_pending(const struct catalog_volume *volume, char *pending);

/* ---- storage/old_copy.c ---- */

/* Members have changed, or there is a new old copy: erase what can be erased. */
void storage_old_copies_retry(struct mgmt *mgmt);

/* ---- storage/late.c ---- */

/* Members or properties have changed, or the service was opened: call all engines that have not got their properties. */
void storage_late_retry(struct mgmt *mgmt);
void storage_late_close(struct mgmt *mgmt);
/* Whether the engine of the pool's share at `index` is being called. */
bool storage_late_is_calling(const struct catalog_pool *pool, uint32_t index);
/* "size, scrub": CATALOG_KEPT_SIZE ... as names. Returns `text`, of STORAGE_LATE_BYTES. */
const char *storage_late_names(uint32_t late, char *text);
/*
 * The ranks that have not got all of `mask`, CATALOG_KEPT_SIZE ..., as "ranks 1-2"; "": there are none. `text` has
 * MGMT_RANKS_BYTES. `index_ret`: of the first one.
 */
const char *storage_late_ranks(const struct catalog_pool_record *record, uint32_t mask, char *text, uint32_t *index_ret);
/*
 * Why the rank at `index` has not got its properties, of those of `mask`: "rank 1 is stopped"; or, if the reasons differ,
 * "size: REASON; scrub: REASON". `text` has STORAGE_INFO_BYTES.
 */
void storage_late_explain(const struct mgmt *mgmt, const struct catalog_pool *pool, uint32_t index, uint32_t mask,
			  char *text);
/* If the volume's rank lacks properties of the pool, fill `pending`, of STORAGE_CHANGE_BYTES. Returns since when, or 0. */
uint64_t storage_late_pending(const struct catalog_volume *volume, char *pending);

/* ---- storage/change.c ---- */

/* The volume of a request, which must not be being created or destroyed. Errors: those of its faults. */
MUST_CHECK int storage_find_changeable(struct mgmt *mgmt, const char *name, struct catalog_volume **volume_ret,
				       struct fathom_fault *why);
/* Store the change as the volume's; its task, if it has one, is dropped. Errors: -EBUSY (another change), db_commit(). */
MUST_CHECK int storage_store_change(struct mgmt *mgmt, struct catalog_volume *volume, const struct catalog_change *change,
				    struct fathom_fault *why);
/* Store the change and start its task; or wait for the same change that is under way. */
void storage_begin_change(struct mgmt *mgmt, struct grpc_call *call, struct catalog_volume *volume,
			  const struct catalog_change *change);

/* ---- storage/volume_prop.c ---- */

/* Of a SET_PROP: whether the volume becomes thick. */
bool storage_change_is_thick(const struct catalog_change *change);

/* ---- storage/finish.c, for storage/move.c and storage/pool_set.c ---- */

/* Call again later, because the result could not be stored. */
void storage_store_later(struct mgmt_task *task, int error, const struct fathom_fault *why);
/* The operator's name, or NULL. */
const char *storage_who(const struct mgmt_task *task);
/* Report that an engine has refused the task's change; once, although its result may have to be stored again. */
void storage_raise_failure(const struct mgmt_task *task, const struct fathom_fault *why);

/* ---- storage/place.c ---- */

/*
 * Choose the rank of a volume to which `bytes` are promised: one of `only`, which an operator has named and which may be
 * nearly full, or any of the pool if that is empty. The
 * engines were asked just before. Sets `place` and `placement` of `*record`. Errors: -ENOMEM, pool_unreachable,
 * pool_too_small, ranks_nearly_full.
 */
MUST_CHECK int storage_place_volume(struct mgmt *mgmt, const struct catalog_pool *pool, uint64_t bytes,
				    const struct rank_set *only, struct catalog_volume_record *record,
				    struct fathom_fault *why);
/*
 * Choose `wanted` of `places` for a new pool, or with 0 all that are possible; the others are removed. `places` are sorted
 * by rank, and `*count` of them. Errors: -ENOMEM, ranks_too_few, ranks_nearly_full.
 */
MUST_CHECK int storage_place_pool(struct mgmt *mgmt, const char *label, uint32_t wanted, struct catalog_place *places,
				  uint32_t *count, struct fathom_fault *why);

/*
 * The rank of its pool to which a drain moves the volume. Errors: -ENODEV (drain_without_target), those of
 * storage_place_volume().
 */
MUST_CHECK int storage_choose_target(struct mgmt *mgmt, const struct catalog_volume *volume,
				     struct catalog_place *place_ret, struct fathom_fault *why);

/* ---- storage/snapshot.c ---- */

void storage_snapshots_close(struct mgmt *mgmt);
/* Unless a change is under way, the size that the engine gives is right: a restored volume has that of its snapshot. */
void storage_adopt_size(struct mgmt *mgmt, struct catalog_volume *volume, const Store__Volume *known);

/* ---- storage/answer.c ---- */

/* What the engine of a volume has said about it. */
struct storage_known {
	const Store__Volume *volume; /* NULL: nothing */
	uint64_t asked_ns;	     /* when it said so; 0: it did not answer */
	const char *address;	     /* of its listener; "", NULL: it did not say */
	const char *reason;	     /* why it did not answer; NULL: it did */
	bool is_absent;		     /* it says that it has no such volume */
	uint64_t missing_ns;	     /* when it was first found to lack something; 0: it does not */
	const char *pool_reason;     /* why it cannot use the pool of the volume; NULL: it can */
};

/* A volume as a message, with the storage of its texts. */
struct storage_shown {
	Fathom__Volume message;
	char name[CATALOG_FULL_BYTES], pending[STORAGE_CHANGE_BYTES], reason[FAULT_TEXT_BYTES_MAX];
	char late[STORAGE_INFO_BYTES]; /* why properties of the pool are pending */
	char address[MEMBER_URI_BYTES], *addresses[1];
	char nqn[CATALOG_NQN_BYTES];
};
/* Borrows everything until storage_unshow(), which must always be called. Errors: -ENOMEM. */
MUST_CHECK int storage_show(const struct mgmt *mgmt, const struct catalog_volume *volume, const struct storage_known *known,
			    struct storage_shown *shown);
void storage_unshow(struct storage_shown *shown);
/* Answer a call that waited for the task, which has succeeded. */
void storage_reply(const struct mgmt_task *task, struct grpc_call *call);

/* ---- storage/access.c ---- */

/*
 * Whether the caller may attach volumes of the pool: an administrator, or an agent whose `credential` (NULL: none) names a
 * user with the permissions. `machine_ret`, of CATALOG_MACHINE_BYTES: the agent's host, or "" of an administrator. Errors:
 * -EACCES (credential_bad, access_denied).
 */
MUST_CHECK int storage_check_access(struct mgmt *mgmt, const struct grpc_call *call, const struct catalog_pool *pool,
				    const Auth__Credential *credential, char *machine_ret, struct fathom_fault *why);
/*
 * Whether the caller may unpublish the volume from `host`: an administrator, the agent that has published it there, or one
 * that might publish it. Errors: -EACCES (credential_bad, unpublish_denied).
 */
MUST_CHECK int storage_check_unpublish(struct mgmt *mgmt, const struct grpc_call *call, const struct catalog_volume *volume,
				       const char *host, const Auth__Credential *credential, struct fathom_fault *why);

/* ---- storage/list.c ---- */

/* What the latest LIST of its engine says about the volume. */
void storage_look_up(struct mgmt *mgmt, const struct catalog_volume *volume, struct storage_known *known_ret);

/* ---- for several methods: storage/list.c ---- */

/*
 * Ask the engines at `places`, then call `then`, which answers `call`. If it cannot be done, `call` is answered here.
 * `request` is the call's.
 */
typedef void (*storage_then_fn)(struct mgmt *mgmt, struct grpc_call *call, const ProtobufCMessage *request);
void storage_read_then(struct mgmt *mgmt, struct grpc_call *call, const ProtobufCMessage *request,
		       const struct catalog_place *places, size_t count, storage_then_fn then);

/* The pool with the label or UUID. Errors: -ENOENT (no_such_pool). */
MUST_CHECK int storage_find_pool(struct mgmt *mgmt, const char *id, struct catalog_pool **pool_ret,
				 struct fathom_fault *why);
/* The volume with the name "POOL/VOLUME", or with the UUID. Errors: -ENOENT (no_such_pool, no_such_volume), -EINVAL. */
MUST_CHECK int storage_find_volume(struct mgmt *mgmt, const char *name, struct catalog_volume **volume_ret,
				   struct fathom_fault *why);
/* Check that a volume of the pool can get the name: no other has it, or is getting it. Errors: -EEXIST, -EBUSY. */
MUST_CHECK int storage_check_free_name(struct mgmt *mgmt, const struct catalog_pool *pool, const char *name,
				       struct fathom_fault *why);
/* Reply with the volume as the catalog and its engine's latest LIST have it. */
void storage_reply_volume(struct mgmt *mgmt, struct grpc_call *call, const struct catalog_volume *volume);
/* The same, with its name, UUID and state only: the caller may not attach it, and may not learn where it is. */
void storage_reply_unpublished(struct mgmt *mgmt, struct grpc_call *call, const struct catalog_volume *volume);
/* Answer a call that has created the pool. */
void storage_reply_pool(const struct catalog_pool *pool, struct grpc_call *call);
/* Copy a text of a request as valid UTF-8, cut to fit. */
void storage_copy_text(char *to, size_t to_bytes, const char *from);

#endif
