/* SPDX-License-Identifier: BSD-2-Clause */
/* rig - a state directory for each test, sets of probes to register, and checks of the tree. */
#ifndef TEST_PROBED_STASH_RIG_H
#define TEST_PROBED_STASH_RIG_H

#include "inspect/probed/stash/stash.h"

enum { RIG_PATH_BYTES = 1024 };

struct rig {
	char directory[64]; /* on a tmpfs */
	struct stash *stash;
	struct stash_options options;
	char logged[16384]; /* the stash's log lines */
};

/* cmocka's setup and teardown: a new directory with an open stash; closed and removed. */
int rig_setup(void **state);
int rig_teardown(void **state);
/* Close the stash and open it again, as a new daemon does. */
void rig_reopen(struct rig *rig);
/* Remove the directory without closing the stash, as after kill -9. Only memory leaks. */
void rig_remove_directory(const char *directory);

struct rig_set {
	struct dof_set set; /* not for dof_set_free() */
	struct dof_input input;
};

/*
 * Make providers `$prefix0`, `$prefix1` ... with `probes` probes each, in one module and `functions` functions each.
 * Arguments, is-enabled sites and site arguments vary. `base` is the base of its addresses.
 */
struct rig_set *rig_set(const char *prefix, uint32_t providers, uint32_t probes, uint32_t functions, uint64_t base);
void rig_free(struct rig_set *set);

/* The argument of stash_add() that registers `set`. */
#define RIG_ADDITION(process_arg, mapping_arg, set_arg)                                                                    \
	((struct stash_addition){                                                                                          \
		.process = (process_arg),                                                                                  \
		.mapping = (mapping_arg),                                                                                  \
		.input = &(set_arg)->input,                                                                                \
		.set = &(set_arg)->set,                                                                                    \
	})

/* A process with this pid and the default start time, uid and program. */
struct stash_process rig_process(pid_t pid);
/* Register `set` for a mapping of a process. Return the generation or the error. */
int64_t rig_add(struct rig *rig, pid_t pid, uint64_t inode, const struct rig_set *set);

/* Return the number of files below DIR/`path`; 0 if it does not exist. */
uint32_t rig_count_files(const struct rig *rig, const char *path);
bool rig_exists(const struct rig *rig, const char *path);

#endif
