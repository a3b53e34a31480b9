/* SPDX-License-Identifier: BSD-2-Clause */
/* internal - shared by the files of the registry. Thread: control. */
#ifndef PROBED_REGISTER_INTERNAL_H
#define PROBED_REGISTER_INTERNAL_H

#include "base/list.h"
#include "fathom/trace/trace.h"
#include "inspect/probed/elf/elf_file.h"
#include "inspect/probed/jail/jail.h"
#include "inspect/probed/register/registry.h"
#include "inspect/probed/register/states.gen.h"
#include "inspect/probed/stash/stash.h"

/* ---- identity.c: identifies a process by /proc ---- */

struct identity {
	struct stash_process process; /* the uid is the owner of its files in /proc */
	uint64_t image;		      /* changes with every exec, also of the same program; 0: unknown */
};

/* Errors (explained): -ESRCH: it has ended; -EACCES: the daemon may not inspect it. */
MUST_CHECK int identity_read(pid_t pid, struct identity *identity_ret, struct fathom_fault *why);

/* The start time alone. -ESRCH. */
MUST_CHECK int identity_start_time(pid_t pid, uint64_t *start_time_ret);

/* A file that a process has mapped. */
struct identity_file {
	struct stash_mapping mapping;
	uint64_t start, end, offset; /* of the mapping */
	char path[512];		     /* in the process's mount namespace; "": too long */
};

/* The file mapped at `address` of `pid`. Errors (explained): -EINVAL: no file is mapped there; -ESRCH, -EACCES. */
MUST_CHECK int identity_file_at(pid_t pid, uint64_t address, struct identity_file *file_ret, struct fathom_fault *why);

/* The first mapping of the program of `pid`. Errors as above. */
MUST_CHECK int identity_program(pid_t pid, struct identity_file *file_ret, struct fathom_fault *why);

/*
 * Open `file` of `pid` for reading, also if it was removed or is in another mount namespace. Only regular files, and none
 * on FUSE: a process that serves a filesystem could block the daemon. Errors (explained).
 */
MUST_CHECK int identity_open(pid_t pid, const struct identity_file *file, int *fd_ret, struct fathom_fault *why);

/* Visit the mapped files of `pid`; adjacent mappings of a file count as one. Non-zero ends the visit. -ESRCH, -EACCES */
typedef int (*identity_file_fn)(void *ctx, const struct identity_file *file);
MUST_CHECK int identity_files(pid_t pid, identity_file_fn fn, void *ctx, struct fathom_fault *why);

/* The process of a thread, which may be its first. -ESRCH */
MUST_CHECK int identity_of_thread(pid_t tid, pid_t *pid_ret);

/* ---- process.c: processes with registrations, stored or in progress ---- */

/* A registration that a process holds. */
struct held {
	LIST_ENTRY(held) link;
	struct stash_mapping mapping;
	uint64_t generation; /* UINT64_MAX: unknown, of an earlier daemon */
	enum probed_way way;
};

struct probed_process {
	LIST_ENTRY(probed_process) in_bucket;
	TAILQ_ENTRY(probed_process) in_order; /* the least recently checked first */
	struct identity identity;
	int pidfd;
	struct fd_watch *watch;
	LIST_HEAD(, held) held;
	uint32_t pending; /* registrations in progress, and other users; not freed before 0 */
	bool stored;	  /* the tree has its generations */
	bool dead;	  /* it has ended; freed when `pending` is 0 */
	struct trace_object trace;
};

enum { PROCESS_BUCKETS = 4096 };
LIST_HEAD(process_bucket, probed_process);
TAILQ_HEAD(process_order, probed_process);

/* NULL: unknown, or dead. */
struct probed_process *process_find(struct registry *registry, pid_t pid);

/*
 * Find or create the entry of process `pid`, and keep it until process_put(). If the pid was reused or the process has
 * execed, its old registrations are removed from the tree. Errors (explained): -ESRCH, -EACCES, -EMFILE, -ENOMEM.
 */
MUST_CHECK int process_get(struct registry *registry, pid_t pid, uid_t uid, enum probed_way way,
			   struct probed_process **process_ret, struct fathom_fault *why);
void process_put(struct registry *registry, struct probed_process *process);

/* Note a stored registration. Out of memory: it is not noted, and its unmapping is not detected. */
void process_hold(struct probed_process *process, const struct stash_mapping *mapping, uint64_t generation,
		  enum probed_way way);
/* The process has removed that registration. */
void process_release(struct probed_process *process, uint64_t generation);
enum probed_way process_way(const struct probed_process *process, const struct stash_mapping *mapping);

/* Check program and mappings of the process again; remove registrations that are no longer mapped. May free `process`. */
void process_recheck(struct registry *registry, struct probed_process *process);
/* True: it has ended, its registrations are removed, and it may be freed. */
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
	bool again;    /* parsed again after a restart; the tree has it as `known` */
	struct stash_registration known;
	struct stash_mapping mapping;
	struct dof_input input;
	void *memory;
	struct elf_file *file; /* contains the input's blocks, if they are notes */
	/* of a large object: large.c */
	struct large_user *large;
	TAILQ_ENTRY(registration) in_user;
	int source; /* the file to read from; -1: memory */
	uint64_t source_at[DOF_BLOCKS_MAX];
	uint64_t received;
	struct stash_upload *uploads[DOF_BLOCKS_MAX];
	bool in_memory;	    /* the tree's filesystem has no unnamed files, so there are no uploads */
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
	struct poller *check_poller;
	TAILQ_HEAD(, large_user) large_users; /* the next to be served first */
	struct poller *large_poller;
	struct registry_stats stats;
	struct restart *restart; /* NULL: complete */
};

/* Remove all registrations of a dead process from the tree. Errors are logged, here and below. */
void registry_remove_process(struct registry *registry, pid_t pid);
/* The same for a process that lives on. */
void registry_clear_process(struct registry *registry, pid_t pid);
void registry_remove_mapping(struct registry *registry, pid_t pid, const struct stash_mapping *mapping);

/* Parse a registration of the tree again. */
void registry_reparse(struct registry *registry, struct probed_process *process, const struct stash_registration *known,
		      registry_added_fn done, void *ctx);

/* ---- registration.c ---- */

uint64_t registration_bytes(const struct registration *registration);
/* Create a registration; takes the caller's hold of `process`. NULL: out of memory. */
struct registration *registration_create(struct registry *registry, struct probed_process *process, enum probed_way way,
					 registry_added_fn done, void *ctx);
/* Count and trace a new registration, whose input is known. */
void registration_begin(struct registration *registration);
/* Both end the registration, and may free its process. */
void registration_refuse(struct registration *registration, int error, const struct fathom_fault *why);
/* Store the parsed registration in the tree. */
void registration_store(struct registration *registration);
/* Parse; all blocks must be in memory. */
void registration_parse(struct registration *registration);

/* ---- large.c ---- */

bool large_is(const struct dof_input *input);
MUST_CHECK int large_init(struct registry *registry, struct fathom_fault *why);
/* Refuse registrations that are being received or compared, with -ECANCELED. */
void large_cancel(struct registry *registry);

/* Receive the object in slices, then call registration_parse(). */
void large_begin(struct registration *registration);
/* After parsing: compare the object in slices, then call registration_store(). */
void large_compare(struct registration *registration);
/* Release what large.c holds for a registration, large or not. */
void large_end(struct registration *registration);
/* Run the poller if there are slices to copy or to free. */
void large_wake(struct registry *registry);

/* ---- restart.c ---- */

/* Adopt the tree of an earlier daemon. Calls `options.ready` when done, perhaps before it returns. */
MUST_CHECK int restart_begin(struct registry *registry, struct fathom_fault *why);
/* No further steps; `ready` is not called. A registration that is being parsed ends as usual. */
void restart_cancel(struct registry *registry);
void restart_free(struct registry *registry);

#endif
