/* SPDX-License-Identifier: BSD-2-Clause */
#include "children.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/must.h"
#include "base/text.h"

static pid_t parent_of(const char *pid)
{
	char path[64], text[512] = "", *at;
	uint64_t parent = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%.32s/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return -1;
	at = fgets(text, sizeof(text), file) ? strrchr(text, ')') : NULL;
	fclose(file);
	/* ") S 123 ..." */
	if (!at || strlen(at) < 5)
		return -1;
	at += 4;
	at[strcspn(at, " ")] = '\0';
	return text_parse_u64(at, 10, INT32_MAX, &parent) == 0 ? (pid_t)parent : -1;
}

size_t children_of_this(pid_t *pids)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	size_t count = 0;

	must(proc);
	while ((entry = readdir(proc))) {
		uint64_t pid;

		if (text_parse_u64(entry->d_name, 10, INT32_MAX, &pid) == 0 && parent_of(entry->d_name) == getpid()) {
			must(count < CHILDREN_MAX);
			pids[count++] = (pid_t)pid;
		}
	}
	closedir(proc);
	return count;
}
