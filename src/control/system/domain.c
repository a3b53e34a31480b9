/* SPDX-License-Identifier: BSD-2-Clause */
/* Build the tree of fault domains, in breadth-first order. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "control/system/internal.h"

void domain_tree_deinit(struct domain_tree *tree)
{
	free(tree->nodes);
	memset(tree, 0, sizeof(*tree));
}

/* Bytes of the first `level` levels of `domain`. */
static size_t prefix_bytes(const char *domain, uint32_t level)
{
	const char *at = domain;

	for (; level > 0; level--)
		at += 1 + strcspn(at + 1, "/");
	return (size_t)(at - domain);
}

static uint32_t depth_of(const char *domain)
{
	uint32_t depth = 0;

	for (; *domain; domain++)
		depth += *domain == '/';
	return depth;
}

static int compare_domains(const void *a, const void *b)
{
	const struct member *const *left = a, *const *right = b;
	int order = strcmp((*left)->domain, (*right)->domain);

	if (order)
		return order;
	return (*left)->rank < (*right)->rank ? -1 : (*left)->rank > (*right)->rank;
}

static int add_node(struct domain_tree *tree, const char *domain, uint32_t level, uint32_t parent)
{
	struct domain_node *nodes, *node;
	size_t bytes = prefix_bytes(domain, level);

	must(tree->count == 0 ? level == 0 : parent < tree->count);
	if (is_power_of_two(tree->count) || tree->count == 0) {
		nodes = realloc(tree->nodes, max_u64(tree->count * 2, 1) * sizeof(*nodes));
		if (!nodes)
			return -ENOMEM;
		tree->nodes = nodes;
	}
	node = &tree->nodes[tree->count++];
	memset(node, 0, sizeof(*node));
	memcpy(node->name, domain, bytes);
	node->level = level;
	node->parent = parent;
	if (level > 0)
		tree->nodes[parent].child_count++;
	return 0;
}

/* Add the nodes of one level: a new node wherever the first `level` levels of the sorted members change. */
static int add_level(struct domain_tree *tree, const struct member *const *members, size_t count, uint32_t level,
		     size_t first_parent)
{
	size_t parent = first_parent;
	const char *last = NULL;

	for (size_t i = 0; i < count; i++) {
		const char *domain = members[i]->domain;
		size_t bytes = prefix_bytes(domain, level);

		if (!last || prefix_bytes(last, level) != bytes || memcmp(last, domain, bytes) != 0) {
			int error;

			/* the parent level is sorted like the members, so `parent` only advances */
			while (strlen(tree->nodes[parent].name) != prefix_bytes(domain, level - 1) ||
			       memcmp(tree->nodes[parent].name, domain, prefix_bytes(domain, level - 1)) != 0) {
				parent++;
				must(parent < tree->count);
			}
			error = add_node(tree, domain, level, (uint32_t)parent);
			if (error)
				return error;
		}
		tree->nodes[tree->count - 1].rank_count++;
		must(tree->nodes[tree->count - 1].level == level);
		last = domain;
	}
	return 0;
}

int system_domain_tree(const struct system *system, uint32_t out_bits, struct domain_tree *tree_ret)
{
	const struct member **members = calloc(system->count + 1, sizeof(const struct member *));
	struct domain_tree tree = { 0 };
	size_t count = 0, first_parent = 0;
	int error = members ? add_node(&tree, "", 0, 0) : -ENOMEM;

	for (size_t i = 0; !error && i < system->count; i++) {
		const struct member *member = &system->members[i]->record;

		if (!(member_state_bit(member->state) & out_bits))
			members[count++] = member;
	}
	must(count <= system->count);
	if (!error)
		tree.nodes[0].rank_count = (uint32_t)count;
	if (count > 0) {
		qsort(members, count, sizeof(const struct member *), compare_domains);
		for (uint32_t level = 1, depth = depth_of(members[0]->domain); !error && level <= depth; level++) {
			size_t begin = tree.count;

			error = add_level(&tree, members, count, level, first_parent);
			first_parent = begin;
		}
	}
	free(members);
	if (error) {
		domain_tree_deinit(&tree);
		return error;
	}
	*tree_ret = tree;
	return 0;
}
