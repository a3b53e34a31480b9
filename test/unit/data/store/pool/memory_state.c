/* SPDX-License-Identifier: BSD-2-Clause */
/* The nodes of a memory_fs, and what a change makes of them. */
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "base/must.h"
#include "base/text.h"
#include "memory_fs_internal.h"

int memory_state_add(struct memory_state *state, int index, bool is_folder)
{
	must(index < NODES_MAX);
	must(!state->nodes[index]);
	state->nodes[index] = calloc(1, sizeof(*state->nodes[index]));
	must(state->nodes[index]);
	state->nodes[index]->is_folder = is_folder;
	state->count = MAX(state->count, index + 1);
	return index;
}

void memory_state_clear(struct memory_state *state)
{
	for (int i = 0; i < state->count; i++) {
		if (state->nodes[i]) {
			free(state->nodes[i]->data.bytes);
			free(state->nodes[i]->entries);
		}
		free(state->nodes[i]);
		state->nodes[i] = NULL;
	}
	state->count = 0;
}

void *memory_copy(const void *from, size_t bytes)
{
	void *to = malloc(MAX(bytes, (size_t)1));

	must(to);
	memcpy(to, from, bytes);
	return to;
}

void memory_state_copy(struct memory_state *to, const struct memory_state *from)
{
	must(to->count == 0);
	for (int i = 0; i < from->count; i++) {
		if (!from->nodes[i])
			continue;
		memory_state_add(to, i, from->nodes[i]->is_folder);
		*to->nodes[i] = *from->nodes[i];
		if (from->nodes[i]->data.bytes)
			to->nodes[i]->data.bytes = memory_copy(from->nodes[i]->data.bytes,
							       from->nodes[i]->data.end - from->nodes[i]->data.begin);
		if (from->nodes[i]->entries)
			to->nodes[i]->entries = memory_copy(from->nodes[i]->entries,
							    from->nodes[i]->entry_count * sizeof(struct entry));
	}
	to->count = from->count;
}

struct entry *memory_state_find(struct memory_state *state, int folder, const char *name)
{
	struct node *node = state->nodes[folder];

	must(node && node->is_folder);
	for (uint32_t i = 0; i < node->entry_count; i++)
		if (strcmp(node->entries[i].name, name) == 0)
			return &node->entries[i];
	return NULL;
}

static void unlink_entry(struct memory_state *state, int folder, const char *name)
{
	struct entry *entry = memory_state_find(state, folder, name);
	struct node *node = state->nodes[folder];

	if (entry)
		*entry = node->entries[--node->entry_count];
}

static void link_entry(struct memory_state *state, int folder, const char *name, int child)
{
	struct node *node = state->nodes[folder];

	unlink_entry(state, folder, name);
	node->entries = realloc(node->entries, (node->entry_count + 1) * sizeof(*node->entries));
	must(node->entries);
	must(text_copy(node->entries[node->entry_count].name, sizeof(node->entries[node->entry_count].name), name) == 0);
	node->entries[node->entry_count++].node = child;
}

static void resize_node(struct node *node, size_t bytes)
{
	must(bytes <= FILE_BYTES_MAX);
	node->bytes = bytes;
	node->data.end = MIN(node->data.end, bytes);
	node->data.begin = MIN(node->data.begin, node->data.end);
}

static void write_node(struct node *node, size_t offset, const uint8_t *from, size_t bytes)
{
	bool is_empty = node->data.begin == node->data.end;
	size_t begin = is_empty ? offset : MIN(node->data.begin, offset);
	size_t end = is_empty ? offset + bytes : MAX(node->data.end, offset + bytes);
	uint8_t *data;

	if (node->bytes < end)
		resize_node(node, end);
	if (is_empty || begin < node->data.begin || end > node->data.end) {
		data = calloc(1, MAX(end - begin, (size_t)1));
		must(data);
		if (!is_empty)
			memcpy(data + node->data.begin - begin, node->data.bytes, node->data.end - node->data.begin);
		free(node->data.bytes);
		node->data.bytes = data;
		node->data.begin = begin;
		node->data.end = end;
	}
	memcpy(node->data.bytes + offset - begin, from, bytes);
}

void memory_state_apply(struct memory_state *state, const struct change *change, bool is_torn)
{
	size_t bytes = is_torn ? change->bytes / 2 : change->bytes;
	struct node *node = state->nodes[change->node];

	switch (change->kind) {
	case CHANGE_LINK:
		link_entry(state, change->node, change->name, change->child);
		break;
	case CHANGE_UNLINK:
		unlink_entry(state, change->node, change->name);
		break;
	case CHANGE_RENAME:
		unlink_entry(state, change->node, change->name);
		link_entry(state, change->node_to, change->name_to, change->child);
		break;
	case CHANGE_WRITE:
		write_node(node, change->offset, change->data, bytes);
		break;
	case CHANGE_SIZE:
		resize_node(node, change->bytes);
		break;
	}
}
