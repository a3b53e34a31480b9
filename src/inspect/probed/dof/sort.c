/* SPDX-License-Identifier: BSD-2-Clause */
/* sort - a merge sort with the caller's memory. qsort() may allocate, and the jail's seccomp filter forbids that. */
#include <string.h>

#include "base/bits.h"
#include "inspect/probed/dof/internal.h"

static bool is_sorted(const char *items, size_t count, size_t bytes, int (*compare)(const void *, const void *))
{
	for (size_t i = 1; i < count; i++) {
		if (compare(items + (i - 1) * bytes, items + i * bytes) > 0)
			return false;
	}
	return true;
}

/* Merge two adjacent sorted runs into `to`. */
static void merge_sorted_runs(char *to, const char *left, const char *middle, const char *end, size_t bytes,
			      int (*compare)(const void *, const void *))
{
	const char *right = middle;

	must(left <= middle && middle <= end);
	while (left < middle && right < end) {
		const char **from = compare(left, right) <= 0 ? &left : &right;

		memcpy(to, *from, bytes);
		*from += bytes;
		to += bytes;
	}
	memcpy(to, left, (size_t)(middle - left));
	memcpy(to + (middle - left), right, (size_t)(end - right));
}

void dof_sort(void *items, size_t count, size_t bytes, int (*compare)(const void *, const void *), void *scratch)
{
	char *from = items, *to = scratch;
	const size_t all = count * bytes;

	must(bytes > 0);
	if (is_sorted(items, count, bytes, compare))
		return;
	must(scratch && scratch != items);
	must(all / bytes == count);
	for (size_t width = bytes; width < all; width *= 2) {
		char *swap = from;

		for (size_t at = 0; at < all; at += 2 * width)
			merge_sorted_runs(to + at, from + at, from + min_u64(at + width, all),
					  from + min_u64(at + 2 * width, all), bytes, compare);
		from = to;
		to = swap;
	}
	if (from != items)
		memcpy(items, from, all);
}
