/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * internal - what the files of the stash share.
 *
 *   names.c    what files are called
 *   tree.c     files and folders: whole writes, listing, removing with all that is below
 *   index.c    what is registered, in memory: the tree counted, for limits and for walks
 *   raw.c      objects as they were received; process.c: whose they are; upload.c: large ones, in slices
 *   stage.c    the files of a registration's probes, made in stash/work and put in place
 *   add.c, remove.c, reparse.c
 *   sweep.c    the tree read again: what was cut short is undone; makes the index. check.c and repair.c: what is damaged
 *              is repaired or set aside
 *
 * An operation makes what it needs in stash/work, where nobody looks, and puts it in place by renames. What commits it
 * is one name: that of the process's folder or of the generation. Whatever fails before is undone; where undoing fails,
 * or a rename between, `dirty` is set and the tree is swept before anything else is done.
 */
#ifndef PROBED_STASH_INTERNAL_H
#define PROBED_STASH_INTERNAL_H

#include "base/list.h"
#include "inspect/probed/stash/stash.h"

/* Of the longest name in the tree, that of a file or of `$prv$pid/$mod/$fun/$prb`, with its NUL. */
enum { STASH_FILE_NAME_BYTES = 256, STASH_PATH_BYTES = 512, STASH_MAPPING_NAME_BYTES = 48 };
enum { STASH_GENERATION_MAX = 0x7fffffff }; /* what an ioctl can return */

struct stash_counts {
	uint64_t objects; /* registrations: a mapping counts as often as it was added */
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

/* A process. It stays, without mappings, until it is removed: its generations must not be given twice. */
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
	void (*say)(void *ctx, const char *text);
	void *say_ctx;

	struct stash_owner **owners; /* by pid */
	uint32_t owner_count, owner_room;
	struct stash_user *users;
	uint32_t user_count, user_room;
	struct stash_counts total;
	struct stash_stats stats;

	TAILQ_HEAD(, stash_leaving) leaving; /* large files that are being given back */
	uint32_t leaving_count;

	uint8_t *record; /* the one that is being written */
	size_t record_room;
};

/* ---- names.c: all return false if `name` is no such name ---- */

struct stash_probe_name {
	char text[STASH_PATH_BYTES];
	const char *provider, *module, *function, *name; /* in `text`; the provider's with the pid */
};

void stash_mapping_name(const struct stash_mapping *mapping, char *name);
bool stash_parse_mapping(const char *name, struct stash_mapping *mapping_ret);
bool stash_parse_number(const char *name, uint64_t max, uint64_t *number_ret);
/*
 * `$prv$pid:$mod:$fun:$prb`, or if that is longer than a file's name may be `:$number`: then the file itself says which
 * probe it is.
 */
void stash_parsed_name(const char *provider, pid_t pid, const struct dof_probe *probe, uint32_t number, char *name);
bool stash_is_long_name(const char *name);
bool stash_split_parsed_name(const char *name, struct stash_probe_name *split);
/* `$prv$pid/$mod/$fun/$prb` of a split one, or the first `depth` parts of it. */
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
	return list->text + list->offsets[index];
}
void stash_list_free(struct stash_list *list);
/* Names in a folder but `.` and `..`, in the order of strcmp(). */
MUST_CHECK int stash_list_folder(int folder, struct stash_list *list);

MUST_CHECK int stash_open_folder(int at, const char *name, int *fd_ret);
/* Open, and make if it is not there. */
MUST_CHECK int stash_make_folder(int at, const char *name, int *fd_ret);
/* A new file, complete or with an error. */
MUST_CHECK int stash_write_file(int at, const char *name, const void *data, size_t bytes);
/* All of a file, at most `bytes_max` (-EFBIG); -EINVAL: it is no file. `*data_ret` is for free(), and has a NUL behind. */
MUST_CHECK int stash_read_file(int at, const char *name, size_t bytes_max, void **data_ret, size_t *bytes_ret);
/* Where a symbolic link leads; -EINVAL: it is none, or longer than the names of mappings are. */
MUST_CHECK int stash_read_link(int at, const char *name, char *target);
/* 0: no name there, either. */
MUST_CHECK int stash_unlink(int at, const char *name, int flags);
/* Symbolic links in `folder` that lead to `target`. */
MUST_CHECK int stash_unlink_links(int folder, const char *target);
/* With all that is below; 0: no name there, either. */
MUST_CHECK int stash_remove_tree(int at, const char *name);
/* Likewise; of one that is likely to be an empty folder. */
MUST_CHECK int stash_remove_folder(int at, const char *name);

/* ---- index.c ---- */

struct stash_owner *stash_find_owner(const struct stash *stash, pid_t pid);
struct stash_mapped *stash_find_mapped(const struct stash_owner *owner, const struct stash_mapping *mapping);
int stash_compare_mappings(const struct stash_mapping *a, const struct stash_mapping *b);
/* The first whose pid is not below `pid`. */
uint32_t stash_owner_at_least(const struct stash *stash, pid_t pid);
/* Both add empty ones, so that nothing has to be allocated once the tree has them. NULL: out of memory. */
struct stash_owner *stash_index_owner(struct stash *stash, const struct stash_process *process);
struct stash_mapped *stash_index_mapped(struct stash_owner *owner, const struct stash_mapping *mapping);
/* It is `process` now: of another user perhaps, whose limits then count. -ENOMEM. */
MUST_CHECK int stash_index_identity(struct stash *stash, struct stash_owner *owner, const struct stash_process *process);
void stash_forget_mapped(struct stash *stash, struct stash_owner *owner, struct stash_mapped *mapped);
void stash_forget_owner(struct stash *stash, struct stash_owner *owner);
void stash_forget_all(struct stash *stash);
/* Of all that has them; `sign` is 1 or -1. Bytes of the whole tree are counted apart, for files are shared. */
void stash_count(struct stash *stash, struct stash_owner *owner, int sign, uint64_t objects, uint64_t bytes,
		 uint64_t probes);
/* Whether that much more is within the limits. `owner`: NULL: a new one. */
MUST_CHECK int stash_admit(struct stash *stash, const struct stash_process *process, const struct stash_owner *owner,
			   const struct stash_counts *more, struct fathom_fault *why);

/* ---- stage.c ---- */

struct stash_stage {
	struct stash *stash;
	pid_t pid;
	int parsed;		     /* the folder where parsed files are made */
	int made;		     /* stash/work/probes: what will lie in probes/$pid */
	int there;		     /* probes/$pid; -1: there is none */
	struct stash_list installs;  /* paths in `made` that are to be renamed to `there` */
	struct stash_list providers; /* new ones, for links */
	uint32_t probe_count;
	bool was_there; /* so that something is left of `made` */
	uint32_t long_names;
};

uint64_t stash_set_probes(const struct dof_set *set);
/* Whether all names can be files'. -EINVAL, -E2BIG (explained). */
MUST_CHECK int stash_check_set(const struct dof_set *set, struct fathom_fault *why);
/* Make the files of `set` in stash/work and `parsed`, which is lent until the end. */
MUST_CHECK int stash_stage_begin(struct stash *stash, pid_t pid, int parsed, const struct dof_set *set,
				 struct stash_stage *stage, struct fathom_fault *why);
/* Put them in place. After an error some are. */
MUST_CHECK int stash_stage_install(struct stash_stage *stage);
void stash_stage_end(struct stash_stage *stage);

/* ---- what sweep.c, check.c and raw.c share ---- */

/* What a sweep has seen of parsed files and raw objects, so that it knows whose a file in probes/ or dof/ is. */
struct stash_seen {
	uint64_t inode, path_hash; /* of its path below probes/, or dof/ */
};

struct stash_sweep {
	struct stash *stash;
	struct stash_seen *seen;
	size_t seen_count, seen_room;
	bool objects_missing;
};

MUST_CHECK int stash_see(struct stash_sweep *sweep, uint64_t inode, uint64_t path_hash);

/* ---- raw.c: objects as they were received ---- */

/* The name of a block: `raw`, `raw-1`. */
const char *stash_raw_name(uint32_t block);
uint32_t stash_block_count(const struct dof_input *input);
/*
 * Write raw, dh and blocks of `input` to `folder`, as links to DIR/stash/dof where it is there already. `uploads`: as of
 * stash_add_uploaded().
 */
MUST_CHECK int stash_put_input(struct stash *stash, pid_t pid, const struct stash_mapping *mapping,
			       const struct dof_input *input, struct stash_upload *const *uploads, int folder);
/* The name in dof/; of one that differs if `own`. */
void stash_object_name(const struct stash_mapping *mapping, pid_t pid, uint32_t block, bool own, char *name);
/* After `folder` lost them: remove what nobody else has from DIR/stash/dof. */
MUST_CHECK int stash_drop_raw(struct stash *stash, pid_t pid, const struct stash_mapping *mapping, uint32_t block_count);
MUST_CHECK int stash_get_input(int folder, struct dof_input *input_ret, void **memory_ret);
/* Is what `folder` of a mapping has the same as `input`? Of blocks with an upload that comparison says it. */
MUST_CHECK int stash_same_input(int folder, const struct dof_input *input, struct stash_upload *const *uploads,
				bool *same_ret);

/* ---- upload.c ---- */

/* Was it compared with the file `name` of folder `at`, and found equal? -ENOENT. */
MUST_CHECK int stash_upload_is(const struct stash_upload *upload, int at, const char *name, bool *same_ret);
/* Give it a name. -EEXIST ... */
MUST_CHECK int stash_upload_link(struct stash_upload *upload, int folder, const char *name);
/* Give back a file of that many bytes that has no name any more, in slices. `fd` is taken. */
void stash_leave_file(struct stash *stash, int fd, uint64_t bytes);
/* All at once. */
void stash_leave_all(struct stash *stash);

/* What is in the folder of a mapping: how many blocks and bytes. -EINVAL: it is damaged. */
MUST_CHECK int stash_check_input(struct stash_sweep *sweep, pid_t pid, struct stash_mapped *mapped, int folder);
/* The names in dof/ of its objects, where they are missing. */
MUST_CHECK int stash_link_objects(struct stash *stash, pid_t pid, const struct stash_mapping *mapping);

/* ---- remove.c ---- */

/* Which probe the file `name` of the folder `parsed` is. */
bool stash_probe_of(int parsed, const char *name, pid_t pid, struct stash_probe_name *split);
/*
 * Remove the parsed files of the folder `parsed`, and what they are linked to below `probes`, a folder as probes/$pid is
 * (-1: there is none); if `shared`, only what nobody else has.
 */
MUST_CHECK int stash_unlink_parsed(struct stash *stash, int parsed, int probes, pid_t pid, bool shared);

/* ---- reparse.c ---- */

/* The file `version` of a parsed/ folder. */
MUST_CHECK int stash_put_version(struct stash *stash, int parsed);

/* ---- sweep.c ---- */

MUST_CHECK int stash_sweep(struct stash *stash, struct fathom_fault *why);
/* Before anything else: sweep if something was left. */
MUST_CHECK int stash_begin(struct stash *stash, struct fathom_fault *why);
/* After an error that leaves the tree in between: sweep, or keep in mind that it has to be. Returns `error`. */
int stash_recover(struct stash *stash, int error);

uint64_t stash_path_hash(const char *path);

/* ---- check.c: a process's folder, and what it has in probes/ ---- */

MUST_CHECK int stash_check_process(struct stash_sweep *sweep, const char *name);

/* ---- repair.c ---- */

void stash_say(struct stash *stash, const char *format, ...) PRINTF_LIKE(2, 3);
/* Whether an error says that the tree is not as it should be, rather than that it could not be looked at. */
bool stash_is_damage(int error);
/* Move what is damaged to stash/aside, and say why. */
MUST_CHECK int stash_set_aside(struct stash *stash, int at, const char *name, const char *where, const char *why_text);

/* ---- process.c: the files of a process ---- */

MUST_CHECK int stash_put_process(int folder, const struct stash_process *process);
MUST_CHECK int stash_get_process(int folder, pid_t pid, struct stash_process *process_ret);

#endif
