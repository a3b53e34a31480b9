/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * internal - shared by the files of the stash.
 *
 *   names.c    names of files
 *   tree.c     files and folders: whole writes, listing, removing folders
 *   index.c    the index in memory: counts for limits, and the order of walks
 *   raw.c      objects as they were received; process.c: files of a process; upload.c: large objects, in slices
 *   stage.c    the files of a registration's probes, made in stash/work and renamed into place
 *   add.c, remove.c, reparse.c
 *   sweep.c    reads the whole tree, undoes interrupted operations, makes the index.
 *              check.c: the folder of a process; aside.c: damaged entries
 *
 * An operation makes its files in stash/work, which no consumer reads, and renames them into place. One rename commits it:
 * that of the process's folder, or of the mapping's. An error before the commit is undone. If undoing or a rename fails,
 * `dirty` is set, and the tree is swept before the next operation.
 */
#ifndef PROBED_STASH_INTERNAL_H
#define PROBED_STASH_INTERNAL_H

#include "base/list.h"
#include "inspect/probed/stash/stash.h"

/* The longest name of a file and the longest `$prv$pid/$mod/$fun/$prb`, with the NUL. */
enum { STASH_FILE_NAME_BYTES = 256, STASH_PATH_BYTES = 512, STASH_MAPPING_NAME_BYTES = 48 };
enum { STASH_GENERATION_MAX = 0x7fffffff }; /* an ioctl returns an int */

struct stash_counts {
	uint64_t objects; /* additions: a mapping counts each time it was added */
	uint64_t bytes;
	uint64_t probes;
};

struct stash_mapped {
	struct stash_mapping mapping;
	uint64_t count;
	uint64_t bytes;
	uint32_t probes;
	uint32_t block_count;
	bool stale;
};

/* A process. It stays, also without mappings, until it is removed: its generations must not be reused. */
struct stash_owner {
	struct stash_process process;
	uint64_t next_generation;
	struct stash_mapped *mapped; /* by device and inode */
	uint32_t mapped_count, mapped_room;
	struct stash_counts counts;
};

struct stash_user {
	uid_t uid;
	struct stash_counts counts;
};

struct stash {
	int root, folder, dof, pids, probes, work, lock; /* DIR, DIR/stash, ... */
	char *directory;
	uint32_t record_version;
	bool provider_links;
	bool dirty;
	struct stash_limits limits;
	void (*log)(void *ctx, const char *text);
	void *log_ctx;

	struct stash_owner **owners; /* by pid */
	uint32_t owner_count, owner_room;
	struct stash_user *users;
	uint32_t user_count, user_room;
	struct stash_counts total;
	struct stash_stats stats;

	TAILQ_HEAD(, stash_garbage) garbage; /* large files and mappings to be freed in slices */
	uint32_t garbage_count;

	uint8_t *record; /* buffer of the record to be written */
	size_t record_room;
};

/* ---- names.c: false: `name` is not such a name ---- */

struct stash_probe_name {
	char text[STASH_PATH_BYTES];
	const char *provider, *module, *function, *name; /* in `text`; the provider has the pid appended */
};

void stash_mapping_name(const struct stash_mapping *mapping, char *name);
bool stash_parse_mapping(const char *name, struct stash_mapping *mapping_ret);
bool stash_parse_number(const char *name, uint64_t max, uint64_t *number_ret);
/* `$prv$pid:$mod:$fun:$prb`, or `:$number` if that is too long for a file name; then only the record names the probe. */
void stash_parsed_name(const char *provider, pid_t pid, const struct dof_probe *probe, uint32_t number, char *name);
bool stash_is_long_name(const char *name);
bool stash_split_parsed_name(const char *name, struct stash_probe_name *split);
/* `$prv$pid/$mod/$fun/$prb`, or its first `depth` parts. `path` has STASH_PATH_BYTES. */
void stash_probe_path(const struct stash_probe_name *split, int depth, char *path);

/* ---- tree.c: negative errno ---- */

struct stash_list {
	char *text; /* names, each with its NUL */
	size_t used, room;
	uint32_t *offsets;
	uint32_t count, offset_room;
};

MUST_CHECK int stash_list_add(struct stash_list *list, const char *name);
static inline const char *stash_list_at(const struct stash_list *list, uint32_t index)
{
	must(index < list->count);
	must(list->offsets[index] < list->used);
	return list->text + list->offsets[index];
}
void stash_list_free(struct stash_list *list);
/* List the names in a folder, without `.` and `..`, in the order of strcmp(). */
MUST_CHECK int stash_list_folder(int folder, struct stash_list *list);

MUST_CHECK int stash_open_folder(int at, const char *name, int *fd_ret);
/* Open a folder; make it if it does not exist. */
MUST_CHECK int stash_make_folder(int at, const char *name, int *fd_ret);
/* Write a new file. After an error it may exist in part. -EEXIST */
MUST_CHECK int stash_write_file(int at, const char *name, const void *data, size_t bytes);
/* Give a sparse file its size. `flags`: O_CREAT | O_EXCL for a new file, or 0. */
MUST_CHECK int stash_put_size(int at, const char *path, uint64_t size, int flags);
/*
 * Read a file of at most `bytes_max` (else -EFBIG); -EINVAL: not a regular file. A NUL follows `*data_ret`, which the
 * caller frees with free().
 */
MUST_CHECK int stash_read_file(int at, const char *name, size_t bytes_max, void **data_ret, size_t *bytes_ret);
/* The target of a symbolic link; -EINVAL: not a link, or longer than any mapping's name. */
MUST_CHECK int stash_read_link(int at, const char *name, char *target);
/* 0 also if the name does not exist. */
MUST_CHECK int stash_unlink(int at, const char *name, int flags);
/* Unlink the symbolic links in `folder` whose target is `target`. */
MUST_CHECK int stash_unlink_links(int folder, const char *target);
/* Remove a file, or a folder with its content; 0 also if the name does not exist. */
MUST_CHECK int stash_remove_tree(int at, const char *name);
/* The same, faster for an empty folder. */
MUST_CHECK int stash_remove_folder(int at, const char *name);

/* ---- index.c ---- */

struct stash_owner *stash_find_owner(const struct stash *stash, pid_t pid);
struct stash_mapped *stash_find_mapped(const struct stash_owner *owner, const struct stash_mapping *mapping);
int stash_compare_mappings(const struct stash_mapping *a, const struct stash_mapping *b);
/* The first whose pid is not below `pid`. */
uint32_t stash_owner_at_least(const struct stash *stash, pid_t pid);
/*
 * Add an empty owner or mapping to the index before it is in the tree, so that nothing can fail after the commit.
 * NULL: out of memory.
 */
struct stash_owner *stash_index_owner(struct stash *stash, const struct stash_process *process);
struct stash_mapped *stash_index_mapped(struct stash_owner *owner, const struct stash_mapping *mapping);
/* The owner becomes `process`; if the user changes, its counts move to that user. -ENOMEM */
MUST_CHECK int stash_index_identity(struct stash *stash, struct stash_owner *owner, const struct stash_process *process);
void stash_forget_mapped(struct stash *stash, struct stash_owner *owner, struct stash_mapped *mapped);
void stash_forget_owner(struct stash *stash, struct stash_owner *owner);
void stash_forget_all(struct stash *stash);
/*
 * Add (`sign` 1) or subtract (-1) in all counts. The total of bytes is counted in raw.c, because processes share objects.
 */
void stash_count(struct stash *stash, struct stash_owner *owner, int sign, uint64_t objects, uint64_t bytes,
		 uint64_t probes);
/* Check that `more` is within the limits. `owner` NULL: a new process. -EDQUOT (explained) */
MUST_CHECK int stash_admit(struct stash *stash, const struct stash_process *process, const struct stash_owner *owner,
			   const struct stash_counts *more, struct fathom_fault *why);

/* ---- stage.c ---- */

struct stash_stage {
	struct stash *stash;
	pid_t pid;
	int parsed;		     /* the folder of parsed files */
	int made;		     /* stash/work/probes: folders and files to be moved to probes/$pid */
	int current;		     /* probes/$pid; -1: it does not exist */
	struct stash_list installs;  /* paths to be renamed from `made` to `current` */
	struct stash_list providers; /* new providers, for links */
	uint32_t probe_count;
	bool has_rest; /* probes/$pid existed, so empty folders of `made` are left */
	uint32_t long_names;
};

uint64_t stash_set_probes(const struct dof_set *set);
/* Check that all names are valid file names. -EINVAL, -E2BIG (explained). */
MUST_CHECK int stash_check_set(const struct dof_set *set, struct fathom_fault *why);
/* Make the files of `set` in stash/work and `parsed`, which is lent until stash_stage_end(). */
MUST_CHECK int stash_stage_begin(struct stash *stash, pid_t pid, int parsed, const struct dof_set *set,
				 struct stash_stage *stage, struct fathom_fault *why);
/* Rename the files into place. After an error some are in place. */
MUST_CHECK int stash_stage_install(struct stash_stage *stage);
void stash_stage_end(struct stash_stage *stage);

/* ---- shared by sweep.c, check.c and raw.c ---- */

/* A file in probes/ or dof/ that a registration has. The sweep removes all others. */
struct stash_seen {
	uint64_t inode, path_hash; /* the hash of its path below probes/ or dof/ */
};

struct stash_sweep {
	struct stash *stash;
	struct stash_seen *seen;
	size_t seen_count, seen_room;
	bool is_sorted; /* complete, and searched from now on */
};

MUST_CHECK int stash_add_seen(struct stash_sweep *sweep, uint64_t inode, uint64_t path_hash);

/* ---- raw.c: objects as they were received ---- */

/* The name of a block: `raw`, `raw-1`. */
const char *stash_raw_name(uint32_t block);
uint32_t stash_block_count(const struct dof_input *input);
/* Write raw, dh and blocks of the input to `folder`; raw becomes a link if stash/dof has an equal object. */
MUST_CHECK int stash_put_input(struct stash *stash, const struct stash_addition *addition, int folder);
/* The object's name in dof/; `own`: of an object that differs from the first of its file. */
void stash_object_name(const struct stash_mapping *mapping, pid_t pid, uint32_t block, bool own, char *name);
/* Remove the mapping's objects from stash/dof that no registration uses any more. */
MUST_CHECK int stash_drop_raw(struct stash *stash, pid_t pid, const struct stash_mapping *mapping, uint32_t block_count);
MUST_CHECK int stash_get_input(int folder, struct dof_input *input_ret, void **memory_ret);
/* Compare `folder` of a mapping with `input`. For a block with an upload, the result of its comparison is used. */
MUST_CHECK int stash_same_input(int folder, const struct dof_input *input, struct stash_upload *const *uploads,
				bool *same_ret);

/* ---- upload.c ---- */

/* Was it compared with the file `name` of folder `at`, and found equal? -ENOENT */
MUST_CHECK int stash_upload_is(const struct stash_upload *upload, int at, const char *name, bool *same_ret);
/* Give the file its first name. -EEXIST ... */
MUST_CHECK int stash_upload_link(struct stash_upload *upload, int folder, const char *name);
/* Free a file of `bytes` that has no name any more, in slices. `fd` is taken. */
void stash_discard_file(struct stash *stash, int fd, uint64_t bytes);
/* Free all discarded files now. */
void stash_free_garbage(struct stash *stash);

/* Check raw, dh and blocks of a mapping's folder; count its blocks and bytes. An error that is damage, or another. */
MUST_CHECK int stash_check_input(struct stash_sweep *sweep, pid_t pid, struct stash_mapped *mapped, int folder);

/* ---- remove.c ---- */

/* The probe of the file `name` in the folder `parsed`. False: damaged. */
bool stash_probe_of(int parsed, const char *name, pid_t pid, struct stash_probe_name *split);

/* ---- reparse.c ---- */

/* Write the file `version` of a parsed/ folder, which commits it. */
MUST_CHECK int stash_put_version(struct stash *stash, int parsed);

/* ---- sweep.c ---- */

MUST_CHECK int stash_sweep(struct stash *stash, struct fathom_fault *why);
/* Sweep if the tree is dirty. Every operation begins with it. */
MUST_CHECK int stash_sweep_if_dirty(struct stash *stash, struct fathom_fault *why);
/* Sweep after an error in the middle of an operation; if that fails, the tree stays dirty. Returns `error`. */
int stash_recover(struct stash *stash, int error);

uint64_t stash_path_hash(const char *path);

/* ---- check.c ---- */

/* Check dof-pid/`name` and the probes of its registrations; index them. */
MUST_CHECK int stash_check_process(struct stash_sweep *sweep, const char *name);

/* ---- aside.c ---- */

void stash_log(struct stash *stash, const char *format, ...) PRINTF_LIKE(2, 3);
/* True: the error means a damaged tree. False: the tree could not be read. */
bool stash_is_damage(int error);
/* Move the entry `name` of folder `at` to stash/aside, and log why. `where`: the folder's path in the log. */
MUST_CHECK int stash_set_aside(struct stash *stash, int at, const char *name, const char *where, const char *why_text);

/* ---- process.c: the files of a process ---- */

MUST_CHECK int stash_put_process(int folder, const struct stash_process *process);
MUST_CHECK int stash_get_process(int folder, pid_t pid, struct stash_process *process_ret);

#endif
