/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cgroup - the CPU and memory limits of the process's cgroups, of itself and of all above, by version 1 or 2 of the
 * interface. Each limit holds for the sum of the processes below it, so each is listed.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "inspect/doctor/internal.h"

enum { LEVELS_MAX = 16, LINES_MAX = 32, LINE_BYTES = PATH_MAX };

/* Where the controller `name` ("" for version 2) is mounted. False: nowhere. */
static bool find_mount(const char *name, char *to, size_t bytes)
{
	char line[LINE_BYTES], place[PATH_MAX], type[64], options[1024];
	FILE *mounts = fopen("/proc/self/mounts", "re");
	bool found = false;

	while (mounts && !found && fgets(line, sizeof(line), mounts)) {
		char *rest = NULL;

		if (sscanf(line, "%*s %4095s %63s %1023s", place, type, options) != 3)
			continue;
		if (!name[0]) {
			found = strcmp(type, "cgroup2") == 0;
		} else if (strcmp(type, "cgroup") == 0) {
			for (char *word = strtok_r(options, ",", &rest); word && !found; word = strtok_r(NULL, ",", &rest))
				found = strcmp(word, name) == 0;
		}
	}
	if (mounts)
		fclose(mounts);
	if (found)
		snprintf(to, bytes, "%s", place);
	return found;
}

/* Put the number in `folder`/`file`. */
static void put_number(json_t *to, const char *key, const char *folder, const char *file)
{
	char path[PATH_MAX + 64];
	int64_t number;

	snprintf(path, sizeof(path), "%s/%s", folder, file);
	if (doc_read_number(path, &number))
		doc_put(to, key, json_integer(number));
}

/* Put the number behind `row` in `folder`/`file`. */
static void put_row(json_t *to, const char *key, const char *folder, const char *file, const char *row)
{
	char path[PATH_MAX + 64], text[PROC_BYTES_MAX], line[64];

	snprintf(path, sizeof(path), "%s/%s", folder, file);
	if (doc_read(path, text, sizeof(text)) == 0 && doc_line(text, row, line, sizeof(line))[0])
		doc_put(to, key, json_integer(strtoll(line, NULL, 10)));
}

static void put_cpu(json_t *to, const char *folder, bool second)
{
	char path[PATH_MAX + 64], text[64];
	long long quota, period;

	put_row(to, "periods", folder, "cpu.stat", "nr_periods");
	put_row(to, "throttled", folder, "cpu.stat", "nr_throttled");
	if (!second) {
		put_number(to, "quota_us", folder, "cpu.cfs_quota_us");
		put_number(to, "period_us", folder, "cpu.cfs_period_us");
		return;
	}
	snprintf(path, sizeof(path), "%s/cpu.max", folder);
	if (doc_read(path, text, sizeof(text)) == 0 && sscanf(text, "%lld %lld", &quota, &period) == 2) {
		doc_put(to, "quota_us", json_integer(quota));
		doc_put(to, "period_us", json_integer(period));
	}
}

static void put_memory(json_t *to, const char *folder, bool second)
{
	put_number(to, "memory", folder, second ? "memory.current" : "memory.usage_in_bytes");
	put_number(to, "memory_max", folder, second ? "memory.max" : "memory.limit_in_bytes");
	put_row(to, "inactive_file", folder, "memory.stat", second ? "inactive_file" : "total_inactive_file");
	put_row(to, "oom_kills", folder, second ? "memory.events" : "memory.oom_control", "oom_kill ");
}

static void put_freezer(json_t *to, const char *folder, bool second)
{
	char path[PATH_MAX + 64], text[64];

	snprintf(path, sizeof(path), "%s/%s", folder, second ? "cgroup.freeze" : "freezer.state");
	if (doc_read(path, text, sizeof(text)) == 0)
		doc_put(to, "frozen", json_boolean(strcmp(text, second ? "1" : "FROZEN") == 0));
}

static const struct controller {
	const char *name;
	void (*look)(json_t *to, const char *folder, bool second);
} controllers[] = { { "cpu", put_cpu }, { "memory", put_memory }, { "freezer", put_freezer } };

/* Look at the cgroup `path` and all above, below `mount`. */
static void look_at_levels(json_t *list, const char *mount, char *path, const struct controller *controller)
{
	char folder[2 * PATH_MAX];

	for (uint32_t level = 0; level < LEVELS_MAX; level++) {
		json_t *group = doc_object();
		char *slash = strrchr(path, '/');

		snprintf(folder, sizeof(folder), "%s%s", mount, strcmp(path, "/") == 0 ? "" : path);
		doc_put(group, "path", doc_text(path[0] ? path : "/"));
		for (size_t i = 0; i < sizeof(controllers) / sizeof(controllers[0]); i++) {
			if (!controller || controller == &controllers[i])
				controllers[i].look(group, folder, !controller);
		}
		doc_add(list, group);
		if (!slash || !path[0] || strcmp(path, "/") == 0)
			break;
		*slash = '\0';
	}
}

/* A line of /proc/PID/cgroup: "4:memory:/a/b", "0::/a/b". */
static void look_at_line(json_t *list, char *line)
{
	char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL, mount[PATH_MAX];

	if (!path)
		return;
	names++;
	*path++ = '\0';
	path[strcspn(path, "\n")] = '\0';
	if (!names[0] && find_mount("", mount, sizeof(mount)))
		look_at_levels(list, mount, path, NULL);
	for (size_t i = 0; names[0] && i < sizeof(controllers) / sizeof(controllers[0]); i++) {
		char copy[256], wanted[32];

		snprintf(copy, sizeof(copy), ",%s,", names);
		snprintf(wanted, sizeof(wanted), ",%s,", controllers[i].name);
		if (strstr(copy, wanted) && find_mount(controllers[i].name, mount, sizeof(mount)))
			look_at_levels(list, mount, path, &controllers[i]);
	}
}

json_t *doc_cgroups(int32_t pid)
{
	char path[64], line[LINE_BYTES];
	json_t *list = doc_list();
	FILE *groups;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	groups = fopen(path, "re");
	for (uint32_t i = 0; groups && i < LINES_MAX && fgets(line, sizeof(line), groups); i++)
		look_at_line(list, line);
	if (groups)
		fclose(groups);
	return list;
}
