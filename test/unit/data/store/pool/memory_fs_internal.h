/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by memory_fs.c, memory_state.c and power_cut.c. */
#ifndef TEST_UNIT_DATA_STORE_POOL_MEMORY_FS_INTERNAL_H
#define TEST_UNIT_DATA_STORE_POOL_MEMORY_FS_INTERNAL_H

#include "memory_fs.h"

enum {
	NODES_MAX = 512,
	FDS_MAX = 64,
	NAME_BYTES = 100,
	FILE_BYTES_MAX = 2 << 20,
	ROOT = 0,
};

struct entry {
	char name[NAME_BYTES];
	int node;
};

struct node {
	bool is_used, is_folder;
	uint32_t entry_count;
	struct entry *entries; /* of a folder */
	size_t bytes;	       /* of a file; all of it but the part in `data` is zeroes */
	struct {
		size_t begin, end;
		uint8_t *bytes;
	} data;
};

/* One change. A create is a LINK; a rename has both folders. */
struct change {
	enum { CHANGE_LINK, CHANGE_UNLINK, CHANGE_RENAME, CHANGE_WRITE, CHANGE_SIZE } kind;
	int node, node_to; /* the folder or the file; RENAME: the folder that the name comes to */
	char name[NAME_BYTES], name_to[NAME_BYTES];
	int child;
	uint8_t *data;
	size_t offset, bytes;
	bool is_synced, is_to_synced; /* durable if both */
};

struct memory_state {
	struct node *nodes[NODES_MAX];
	int count;
};

/* Hashes of states. */
struct memory_seen {
	uint64_t *hashes; /* 0: a free place */
	uint32_t count, capacity;
};

struct memory_fs {
	struct pool_fs calls;
	struct memory_state base, live;
	struct change *changes;
	uint32_t change_count, changes_capacity;
	struct {
		int node; /* -1: free */
		size_t position;
	} fds[FDS_MAX];
	int locked_fd;
	void (*point)(void *ctx);
	void *point_ctx;
	struct memory_seen seen; /* since the point was set */
	uint32_t skip_sync, sync_count;
	uint32_t fail_call, call_count;
	struct {
		enum { LATE_NONE, LATE_SYNC, LATE_RENAME } kind;
		uint32_t index, count; /* which one is made late; how many of its kind there were */
		bool is_pending, is_passed, was_late;
		int node;	      /* of a sync */
		struct change change; /* of a rename */
	} late;
	int fail_error;
	bool has_failed;
};

/* ---- power_cut.c ---- */

void memory_seen_clear(struct memory_seen *seen);

/* ---- memory_state.c ---- */

/* A copy to free. */
void *memory_copy(const void *from, size_t bytes);
/* Make the empty node `index`, which it returns. */
int memory_state_add(struct memory_state *state, int index, bool is_folder);
/* NULL: the folder does not have the name. */
struct entry *memory_state_find(struct memory_state *state, int folder, const char *name);
/* Free all nodes. */
void memory_state_clear(struct memory_state *state);
/* Copy to an empty state. */
void memory_state_copy(struct memory_state *to, const struct memory_state *from);
/* Apply a change; of a torn write only the first half. */
void memory_state_apply(struct memory_state *state, const struct change *change, bool is_torn);

#endif
