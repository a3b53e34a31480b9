/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory_fs_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "base/bits.h"
#include "base/text.h"
#include "base/must.h"

static struct change *record(struct memory_fs *self, struct change change)
{
	if (self->change_count == self->changes_capacity) { /* most file systems are only opened: they have few */
		self->changes_capacity = MAX(2 * self->changes_capacity, 16u);
		self->changes = realloc(self->changes, self->changes_capacity * sizeof(*self->changes));
		must(self->changes);
	}
	change.is_to_synced = change.kind != CHANGE_RENAME || change.node == change.node_to;
	self->changes[self->change_count] = change;
	memory_state_apply(&self->live, &change, false);
	return &self->changes[self->change_count++];
}

static void sync_node(struct memory_fs *self, int node)
{
	for (uint32_t i = 0; i < self->change_count; i++) {
		struct change *change = &self->changes[i];

		change->is_synced = change->is_synced || change->node == node;
		change->is_to_synced = change->is_to_synced || (change->kind == CHANGE_RENAME && change->node_to == node);
	}
}

/* ---- planted wrong orders ---- */

/* Whether this sync or rename is the one that is made late; then the caller must not make it. */
static bool is_made_late(struct memory_fs *self, bool is_sync, int node, const struct change *change)
{
	if (self->late.kind != (is_sync ? LATE_SYNC : LATE_RENAME) || self->late.count++ != self->late.index)
		return false;
	self->late.is_pending = true;
	self->late.node = node;
	if (change)
		self->late.change = *change;
	return true;
}

static void make_pending(struct memory_fs *self)
{
	if (!self->late.is_pending)
		return;
	self->late.is_pending = false;
	self->late.was_late = self->late.is_passed;
	if (self->late.kind == LATE_SYNC)
		sync_node(self, self->late.node);
	else if (memory_state_find(&self->live, self->late.change.node, self->late.change.name))
		record(self, self->late.change);
}

/* A call took effect before the late one, which follows before the next call. */
static void pass_pending(struct memory_fs *self, bool is_rename)
{
	if (self->late.is_pending && (is_rename || self->late.kind == LATE_RENAME))
		self->late.is_passed = true;
}

/* ---- calls ---- */

/* Every call that changes or syncs something begins here. 0, or the error that it must return. */
static int begin_call(struct memory_fs *self)
{
	if (self->point)
		self->point(self->point_ctx);
	if (self->late.is_passed)
		make_pending(self);
	if (self->call_count++ != self->fail_call)
		return 0;
	self->has_failed = true;
	return self->fail_error;
}

static int node_of(struct memory_fs *self, int fd)
{
	must(fd >= 0 && fd < FDS_MAX && self->fds[fd].node >= 0);
	return self->fds[fd].node;
}

static int open_node(struct memory_fs *self, int node)
{
	for (int fd = 0; fd < FDS_MAX; fd++) {
		if (self->fds[fd].node < 0) {
			self->fds[fd].node = node;
			self->fds[fd].position = 0;
			return fd;
		}
	}
	must(!"a descriptor is free");
	return -EMFILE;
}

static int open_folder(void *ctx, int folder, const char *name)
{
	struct memory_fs *self = ctx;
	struct entry *entry;

	if (folder == AT_FDCWD)
		return open_node(self, ROOT);
	entry = memory_state_find(&self->live, node_of(self, folder), name);
	if (!entry)
		return -ENOENT;
	return self->live.nodes[entry->node]->is_folder ? open_node(self, entry->node) : -ENOTDIR;
}

/* A new file or folder, as `name`. It exists, empty, in the base too: only its name is a change. */
static int make_node(struct memory_fs *self, int folder, const char *name, bool is_folder)
{
	struct change change = { .kind = CHANGE_LINK, .node = node_of(self, folder) };

	change.child = MAX(self->base.count, self->live.count);
	memory_state_add(&self->base, change.child, is_folder);
	memory_state_add(&self->live, change.child, is_folder);
	must(text_copy(change.name, sizeof(change.name), name) == 0);
	record(self, change);
	return change.child;
}

static int open_file(void *ctx, int folder, const char *name, int flags)
{
	struct memory_fs *self = ctx;
	struct entry *entry = memory_state_find(&self->live, node_of(self, folder), name);
	int error;

	if (!(flags & O_CREAT)) {
		if (!entry)
			return -ENOENT;
		return self->live.nodes[entry->node]->is_folder ? -EISDIR : open_node(self, entry->node);
	}
	error = begin_call(self);
	if (error)
		return error;
	return entry ? -EEXIST : open_node(self, make_node(self, folder, name, false));
}

static void close_fd(void *ctx, int fd)
{
	struct memory_fs *self = ctx;

	must(node_of(self, fd) >= 0);
	self->fds[fd].node = -1;
	if (self->locked_fd == fd)
		self->locked_fd = -1;
}

static int lock_fd(void *ctx, int fd)
{
	struct memory_fs *self = ctx;

	if (self->locked_fd >= 0)
		return -EWOULDBLOCK;
	self->locked_fd = fd;
	return 0;
}

static int make_folder(void *ctx, int folder, const char *name)
{
	struct memory_fs *self = ctx;
	int error = begin_call(self);

	if (error)
		return error;
	if (memory_state_find(&self->live, node_of(self, folder), name))
		return -EEXIST;
	make_node(self, folder, name, true);
	return 0;
}

static int list_folder(void *ctx, int folder, pool_fs_entry_fn entry, void *entry_ctx)
{
	struct memory_fs *self = ctx;
	struct node *node = self->live.nodes[node_of(self, folder)];
	uint32_t count = node->entry_count;
	struct entry *entries;
	int error = 0;

	must(node->is_folder);
	if (count == 0)
		return 0;
	entries = memory_copy(node->entries, count * sizeof(*entries)); /* `entry` may remove names */
	for (uint32_t i = 0; error == 0 && i < count; i++)
		error = entry(entry_ctx, entries[i].name);
	free(entries);
	return error;
}

static int stat_fd(void *ctx, int fd, struct stat *stat_ret)
{
	struct memory_fs *self = ctx;
	struct node *node = self->live.nodes[node_of(self, fd)];

	memset(stat_ret, 0, sizeof(*stat_ret));
	stat_ret->st_mode = node->is_folder ? S_IFDIR : S_IFREG;
	stat_ret->st_size = (off_t)node->bytes;
	stat_ret->st_blocks = (blkcnt_t)((node->bytes + 511) / 512);
	return 0;
}

static int write_bytes(struct memory_fs *self, int node, size_t offset, const void *data, size_t bytes)
{
	struct change change = { .kind = CHANGE_WRITE, .node = node, .offset = offset, .bytes = bytes };

	change.data = memory_copy(data, bytes);
	record(self, change);
	return 0;
}

static int write_fd(void *ctx, int fd, const void *data, size_t bytes)
{
	struct memory_fs *self = ctx;
	int error = begin_call(self);

	if (error)
		return error;
	self->fds[fd].position += bytes;
	return write_bytes(self, node_of(self, fd), self->fds[fd].position - bytes, data, bytes);
}

void memory_fs_write(struct memory_fs *self, int fd, size_t offset, const void *data, size_t bytes)
{
	must(write_bytes(self, node_of(self, fd), offset, data, bytes) == 0);
}

/* The part of the data that lies in a range; false: the range is zeroes. */
static bool data_in(const struct node *node, size_t offset, size_t bytes, size_t *begin_ret, size_t *end_ret)
{
	*begin_ret = MAX(offset, node->data.begin);
	*end_ret = MIN(offset + bytes, node->data.end);
	return *begin_ret < *end_ret;
}

void memory_fs_read(struct memory_fs *self, int fd, size_t offset, void *data, size_t bytes)
{
	struct node *node = self->live.nodes[node_of(self, fd)];
	size_t begin, end;

	must(offset + bytes <= node->bytes);
	memset(data, 0, bytes);
	if (data_in(node, offset, bytes, &begin, &end))
		memcpy((uint8_t *)data + begin - offset, node->data.bytes + begin - node->data.begin, end - begin);
}

static int read_fd(void *ctx, int fd, void *data, size_t bytes)
{
	struct memory_fs *self = ctx;
	struct node *node = self->live.nodes[node_of(self, fd)];
	size_t position = self->fds[fd].position, count = MIN(bytes, node->bytes - MIN(position, node->bytes));

	if (count > 0)
		memory_fs_read(self, fd, position, data, count);
	self->fds[fd].position += count;
	return (int)count;
}

static int set_size(void *ctx, int fd, uint64_t bytes)
{
	struct memory_fs *self = ctx;
	struct change change = { .kind = CHANGE_SIZE, .node = node_of(self, fd), .bytes = bytes };
	int error = begin_call(self);

	if (error)
		return error;
	record(self, change);
	return 0;
}

static int data_end(void *ctx, int fd, uint64_t from, uint64_t *end_ret)
{
	struct memory_fs *self = ctx;
	const struct node *node = self->live.nodes[node_of(self, fd)];
	int error = begin_call(self);

	if (error)
		return error;
	*end_ret = from;
	for (size_t i = MAX(from, node->data.begin); i < node->data.end; i++) {
		if (node->data.bytes[i - node->data.begin])
			*end_ret = i + 1;
	}
	return 0;
}

static int allocate(void *ctx, int fd, uint64_t offset, uint64_t bytes)
{
	struct memory_fs *self = ctx;
	size_t size = self->live.nodes[node_of(self, fd)]->bytes;

	return set_size(ctx, fd, MAX(size, offset + bytes));
}

static int clone_range(void *ctx, int fd, int from, uint64_t offset, uint64_t bytes)
{
	struct memory_fs *self = ctx;
	struct node *source = self->live.nodes[node_of(self, from)];
	int error = begin_call(self);
	size_t begin, end;

	if (error)
		return error;
	must(offset <= source->bytes);
	if (bytes == 0)
		bytes = source->bytes - offset;
	must(offset + bytes <= source->bytes);
	if (!data_in(source, offset, bytes, &begin, &end)) /* the target has zeroes, too */
		return 0;
	return write_bytes(self, node_of(self, fd), begin, source->data.bytes + begin - source->data.begin, end - begin);
}

/* One extent, which no other file has: a clone is a copy here. */
static int map_file(void *ctx, int fd, uint64_t offset, struct pool_extent *extents, uint32_t extents_max)
{
	struct memory_fs *self = ctx;

	extents[0] = (struct pool_extent){ .bytes = self->live.nodes[node_of(self, fd)]->bytes, .is_data = true };
	return offset < extents[0].bytes;
}

static int unshare(void *ctx, int fd, uint64_t offset, uint64_t bytes)
{
	return begin_call(ctx);
}

static int sync_fd(void *ctx, int fd)
{
	struct memory_fs *self = ctx;
	int node = node_of(self, fd), error = begin_call(self);

	if (error)
		return error;
	if (self->sync_count++ == self->skip_sync || is_made_late(self, true, node, NULL))
		return 0;
	sync_node(self, node);
	pass_pending(self, false);
	return 0;
}

static int rename_name(void *ctx, int from_folder, const char *from, int to_folder, const char *to, bool replace)
{
	struct memory_fs *self = ctx;
	struct change change = { .kind = CHANGE_RENAME,
				 .node = node_of(self, from_folder),
				 .node_to = node_of(self, to_folder) };
	struct entry *entry;
	int error = begin_call(self);

	if (error)
		return error;
	entry = memory_state_find(&self->live, change.node, from);
	if (!entry)
		return -ENOENT;
	if (!replace && memory_state_find(&self->live, change.node_to, to))
		return -EEXIST;
	change.child = entry->node;
	must(text_copy(change.name, sizeof(change.name), from) == 0);
	must(text_copy(change.name_to, sizeof(change.name_to), to) == 0);
	change.is_to_synced = change.node == change.node_to;
	if (is_made_late(self, false, -1, &change))
		return 0;
	record(self, change);
	pass_pending(self, true);
	return 0;
}

static int remove_name(void *ctx, int folder, const char *name, bool is_folder)
{
	struct memory_fs *self = ctx;
	struct change change = { .kind = CHANGE_UNLINK, .node = node_of(self, folder) };
	struct entry *entry;
	int error = begin_call(self);

	if (error)
		return error;
	entry = memory_state_find(&self->live, change.node, name);
	if (!entry)
		return -ENOENT;
	if (self->live.nodes[entry->node]->is_folder != is_folder)
		return is_folder ? -ENOTDIR : -EISDIR;
	if (is_folder && self->live.nodes[entry->node]->entry_count > 0)
		return -ENOTEMPTY;
	must(text_copy(change.name, sizeof(change.name), name) == 0);
	record(self, change);
	return 0;
}

/* ---- the file system ---- */

struct memory_fs *memory_fs_create(void)
{
	struct memory_fs *self = calloc(1, sizeof(*self));

	must(self);
	self->calls = (struct pool_fs){
		.ctx = self,
		.open_folder = open_folder,
		.open_file = open_file,
		.close = close_fd,
		.lock = lock_fd,
		.make_folder = make_folder,
		.list = list_folder,
		.stat = stat_fd,
		.write = write_fd,
		.read = read_fd,
		.set_size = set_size,
		.data_end = data_end,
		.allocate = allocate,
		.clone = clone_range,
		.map = map_file,
		.unshare = unshare,
		.sync = sync_fd,
		.rename = rename_name,
		.remove = remove_name,
	};
	memory_state_add(&self->base, ROOT, true);
	memory_state_add(&self->live, ROOT, true);
	for (int fd = 0; fd < FDS_MAX; fd++)
		self->fds[fd].node = -1;
	self->locked_fd = -1;
	self->skip_sync = self->fail_call = UINT32_MAX;
	return self;
}

void memory_fs_destroy(struct memory_fs *self)
{
	memory_state_clear(&self->base);
	memory_state_clear(&self->live);
	memory_seen_clear(&self->seen);
	for (uint32_t i = 0; i < self->change_count; i++)
		free(self->changes[i].data);
	free(self->changes);
	free(self);
}

const struct pool_fs *memory_fs_calls(struct memory_fs *self)
{
	return &self->calls;
}

void memory_fs_at_each_call(struct memory_fs *self, void (*point)(void *ctx), void *ctx)
{
	if (self->base.count == 0)
		memory_state_copy(&self->base, &self->live);
	memory_seen_clear(&self->seen);
	self->point = point;
	self->point_ctx = ctx;
}

void memory_fs_skip_sync(struct memory_fs *self, uint32_t index)
{
	self->sync_count = 0;
	self->skip_sync = index;
}

uint32_t memory_fs_syncs(const struct memory_fs *self)
{
	return self->sync_count;
}

void memory_fs_make_late(struct memory_fs *self, bool is_sync, uint32_t index)
{
	if (index == UINT32_MAX) {
		if (self->point && self->late.is_pending)
			self->point(self->point_ctx);
		make_pending(self);
		self->late.kind = LATE_NONE;
		return;
	}
	memset(&self->late, 0, sizeof(self->late));
	self->late.kind = is_sync ? LATE_SYNC : LATE_RENAME;
	self->late.index = index;
}

bool memory_fs_was_late(const struct memory_fs *self)
{
	return self->late.was_late;
}

void memory_fs_fail_call(struct memory_fs *self, uint32_t index, int error)
{
	self->call_count = 0;
	self->fail_call = index;
	self->fail_error = error;
	self->has_failed = false;
}

bool memory_fs_has_failed(const struct memory_fs *self)
{
	return self->has_failed;
}

static size_t count_below(const struct memory_state *state, int folder)
{
	const struct node *node = state->nodes[folder];
	size_t count = 0;

	for (uint32_t i = 0; i < node->entry_count; i++) {
		count++;
		if (state->nodes[node->entries[i].node]->is_folder)
			count += count_below(state, node->entries[i].node);
	}
	return count;
}

size_t memory_fs_nodes(const struct memory_fs *self)
{
	return count_below(&self->live, ROOT);
}

size_t memory_fs_open_count(const struct memory_fs *self)
{
	size_t count = 0;

	for (int fd = 0; fd < FDS_MAX; fd++)
		count += self->fds[fd].node >= 0;
	return count;
}

struct memory_fs *memory_fs_copy(const struct memory_fs *from)
{
	struct memory_fs *self = memory_fs_create();

	memory_state_clear(&self->base);
	memory_state_clear(&self->live);
	memory_state_copy(&self->base, &from->live);
	memory_state_copy(&self->live, &from->live);
	return self;
}

void memory_fs_settle(struct memory_fs *self)
{
	for (uint32_t i = 0; i < self->change_count; i++)
		free(self->changes[i].data);
	self->change_count = 0;
	memory_state_clear(&self->base);
	memory_state_copy(&self->base, &self->live);
}
