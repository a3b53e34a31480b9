/* SPDX-License-Identifier: BSD-2-Clause */
/* contents - what opening a storage tree of a memory_fs finds, also as text with the data of all objects. */
#ifndef TEST_UNIT_DATA_STORE_POOL_CONTENTS_H
#define TEST_UNIT_DATA_STORE_POOL_CONTENTS_H

#include <stddef.h>
#include <stdint.h>

#include "data/store/pool/tree.h"
#include "memory_fs.h"

enum { BLOCK = 512, BLOCKS_MAX = 16, OBJECTS_MAX = 32, TEXT_BYTES = 4096 };

struct contents {
	struct pool_tree *tree; /* NULL: open failed */
	struct {
		char pool[POOL_NAME_BYTES_MAX], volume[POOL_NAME_BYTES_MAX];
		struct volume_record record;
		struct snapshot_record snapshot; /* of a snapshot: it has a name */
	} objects[OBJECTS_MAX];
	uint32_t object_count, pool_count, damaged_count;
	size_t node_count; /* files and folders that belong to the tree */
	char text[TEXT_BYTES];
};

/* Open the tree of `memory`; it stays open. Pair: close_tree(). */
struct contents *open_tree(struct memory_fs *memory);
void close_tree(struct contents *contents);

/* The record of the volume with this name; NULL: there is none. */
const struct volume_record *find_volume(const struct contents *contents, const char *name);

#endif
