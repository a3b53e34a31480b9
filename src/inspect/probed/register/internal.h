/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the registry share. Everything on the control thread. */
#ifndef PROBED_REGISTER_INTERNAL_H
#define PROBED_REGISTER_INTERNAL_H

#include "base/list.h"
#include "fathom/trace/trace.h"
#include "inspect/probed/elf/elf_file.h"
#include "inspect/probed/jail/jail.h"
#include "inspect/probed/register/registry.h"
#include "inspect/probed/register/states.gen.h"
#include "inspect/probed/stash/stash.h"

/* ---- identity.c: who a process is, as /proc says ---- */

struct identity {
	struct stash_process process; /* its uid is that of its files in /proc */
	uint64_t image;		      /* differs after an exec of the same program, too; 0: not known */
};

/* Errors (explained): -ESRCH: it is gone; -EACCES: not for this daemon's eyes. */
MUST_CHECK int identity_read(pid_t pid, struct identity *identity_ret, struct fathom_fault *why);

/* The start time alone. -ESRCH. */
MUST_CHECK int identity_start_time(pid_t pid, uint64_t *start_time_ret);

/* A file that a process has mapped. */
struct identity_file {
	struct stash_mapping mapping;
	uint64_t start, end, offset; /* of the part that was asked for */
	char path[512];		     /* in the process's view; "": longer */
};

/* What `address` of `pid` lies in. Errors (explained): -EINVAL: in no mapped file; -ESRCH, -EACCES. */
MUST_CHECK int identity_file_at(pid_t pid, uint64_t address, struct identity_file *file_ret, struct fathom_fault *why);

/* The first part of the file that `pid` runs. Errors as above. */
MUST_CHECK int identity_program(pid_t pid, struct identity_file *file_ret, struct fathom_fault *why);

/*
 * Open for reading what `file` of `pid` is: also one that has been removed, and in another mount namespace. Nothing but
 * files, and not those of a filesystem that somebody serves from user space, who could let us wait. Errors (explained).
 */
MUST_CHECK int identity_open(pid_t pid, const struct identity_file *file, int *fd_ret, struct fathom_fault *why);

/* Visit each mapped file of `pid`, once for each stretch of parts that lie together. Non-zero ends it. -ESRCH, -EACCES. */
typedef int (*identity_file_fn)(void *ctx, const struct identity_file *file);
MUST_CHECK int identity_files(pid_t pid, identity_file_fn fn, void *ctx, struct fathom_fault *why);

/* The process of a thread, which may be its first. -ESRCH. */
MUST_CHECK int identity_of_thread(pid_t tid, pid_t *pid_ret);

/* ---- process.c: those that have something registered, or on its way ---- */

/* One thing that it has registered, to know later what it was. */
struct held {
	LIST_ENTRY(held) link;
	struct stash_mapping mapping;
	uint64_t generation; /* UINT64_MAX: kept by a daemon before this one, which knew */
	enum probed_way way;
};

struct probed_process {
	LIST_ENTRY(probed_process) in_bucket;
	TAILQ_ENTRY(probed_process) in_order; /* of being looked at */
	struct identity identity;
	int pidfd;
	struct fd_watch *watch;
	LIST_HEAD(, held) held;
	uint32_t pending; /* registrations on their way */
	bool stored;	  /* the tree has, or had, something of it */
	bool dead;	  /* it has ended, and waits for those */
	struct trace_object trace;
};

enum { PROCESS_BUCKETS = 4096 };
LIST_HEAD(process_bucket, probed_process);
TAILQ_HEAD(process_order, probed_process);

/* NULL: nothing of it is known here. */
struct probed_process *process_find(struct registry *registry, pid_t pid);

/*
 * The process `pid`, made known if it is not, and held against being forgotten until process_put(). What it was before,
 * when it ran another program or was another process, is gone from the tree then. Errors (explained): -ESRCH, -EACCES,
 * -EMFILE, -ENOMEM.
 */
MUST_CHECK int process_get(struct registry *registry, pid_t pid, uid_t uid, enum probed_way way,
			   struct probed_process **process_ret, struct fathom_fault *why);
void process_put(struct registry *registry, struct probed_process *process);

/* What it registered. No memory: it is not noted, and is looked at no more than the tree itself. */
void process_hold(struct probed_process *process, const struct stash_mapping *mapping, uint64_t generation,
		  enum probed_way way);
/* It has taken that back. */
void process_let_go(struct probed_process *process, uint64_t generation);
enum probed_way process_way(const struct probed_process *process, const struct stash_mapping *mapping);

/* Look whether it runs what it ran and still has mapped what it registered; else remove that. It may be freed. */
void process_look(struct registry *registry, struct probed_process *process);
/* Is it gone? Then what it had is removed, and true returned: it may be freed. */
bool process_check_dead(struct registry *registry, struct probed_process *process);
void processes_free(struct registry *registry);

/* ---- registry.c ---- */

struct registration {
	TAILQ_ENTRY(registration) link;
	struct registry *registry;
	struct probed_process *process;
	uint64_t image;
	enum probed_way way;
	uint8_t state; /* enum registration_state */
	bool again;    /* parsed again after a restart: `known` */
	struct stash_registration known;
	struct stash_mapping mapping;
	struct dof_input input;
	void *memory;
	struct elf_file *file; /* where input's blocks are, of notes */
	/* of a large object, large.c */
	struct large_user *large;
	TAILQ_ENTRY(registration) in_user;
	int source; /* what it is read from, -1: memory; the file's offsets of the blocks */
	uint64_t source_at[DOF_BLOCKS_MAX];
	uint64_t received;
	struct stash_upload *uploads[DOF_BLOCKS_MAX];
	bool in_memory;	    /* the tree's filesystem has no uploads */
	struct dof_set set; /* COMPARING */
	uint64_t begun;
	registry_added_fn done;
	void *ctx;
	struct trace_object trace;
};

struct registry {
	struct registry_options options;
	struct jail *jail;
	struct stash *stash;
	struct process_bucket buckets[PROCESS_BUCKETS];
	struct process_order order;
	uint32_t process_count;
	TAILQ_HEAD(, registration) under_way;
	uint32_t under_way_count;
	uint64_t under_way_bytes;
	struct poller *look_poller;
	TAILQ_HEAD(, large_user) large_users; /* the next to have a turn first */
	struct poller *large_poller;
	struct registry_stats stats;
	struct restart *restart; /* while it is going on */
};

/* Remove what it has from the tree, whatever it is. Errors are said. */
void registry_remove_process(struct registry *registry, pid_t pid);
/* Of one that lives on. */
void registry_clear_process(struct registry *registry, pid_t pid);
void registry_remove_mapping(struct registry *registry, pid_t pid, const struct stash_mapping *mapping);

/* Parse a registration that the tree has, again. */
void registry_reparse(struct registry *registry, struct probed_process *process, const struct stash_registration *known,
		      registry_added_fn done, void *ctx);

uint64_t registration_bytes(const struct registration *registration);
/* Each ends the registration, which may have freed its process. */
void registration_refuse(struct registration *registration, int error, const struct fathom_fault *why);
/* All that was to be known of it is. */
void registration_store(struct registration *registration);
/* Its blocks are in memory. */
void registration_parse(struct registration *registration);

/* ---- large.c ---- */

bool large_is(const struct dof_input *input);
MUST_CHECK int large_init(struct registry *registry, struct fathom_fault *why);
/* Those that the jail does not have are answered with -ECANCELED. */
void large_cancel(struct registry *registry);

/* Receive it, in turns; then registration_parse(). */
void large_begin(struct registration *registration);
/* Its `set` is there: compare it, in turns; then registration_store(). */
void large_compare(struct registration *registration);
/* It ends, however; of one that is not large, too. */
void large_end(struct registration *registration);
/* Something may be to be copied or given back. */
void large_wake(struct registry *registry);

/* ---- restart.c ---- */

/* Look through the tree of a daemon before this one. `options.ready` is called when it is done, perhaps at once. */
MUST_CHECK int restart_begin(struct registry *registry, struct fathom_fault *why);
/* No further steps; `ready` is not called. What is under way ends with its registration. */
void restart_cancel(struct registry *registry);
void restart_free(struct registry *registry);

#endif
