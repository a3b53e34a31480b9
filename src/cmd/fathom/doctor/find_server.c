/* SPDX-License-Identifier: BSD-2-Clause */
/* find_server - finds the server of this machine and its configuration; no call here can block. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/text.h"
#include "cmd/fathom/doctor/doctor.h"
#include "control/server/config/configuration.h"

enum { COMMAND_LINE_BYTES = 16384, SHOWN_MAX = 8 };

#define SERVER "fathom-server"

/* Read the words of its command line, each with a NUL. Returns the bytes; 0: there is no such process. */
static size_t read_command_line(int32_t pid, char text[COMMAND_LINE_BYTES])
{
	char path[64];
	size_t bytes;
	FILE *from;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	from = fopen(path, "re");
	if (!from)
		return 0;
	bytes = fread(text, 1, COMMAND_LINE_BYTES - 1, from);
	fclose(from);
	text[bytes] = '\0';
	return bytes;
}

bool doctor_runs_program(int32_t pid, const char *program)
{
	char text[COMMAND_LINE_BYTES];
	const char *slash;

	if (read_command_line(pid, text) == 0)
		return false;
	slash = strrchr(text, '/');
	return strcmp(slash ? slash + 1 : text, program) == 0;
}

/* The file that its command line names, "-o FILE" or "--config=FILE", else the default. */
static void find_configuration(int32_t pid, char path_ret[PATH_MAX])
{
	static const char name[] = "--config";
	char text[COMMAND_LINE_BYTES], link[64], folder[PATH_MAX], *end;
	const char *path = SERVER_CONFIG_DEFAULT;
	size_t bytes = read_command_line(pid, text);
	ssize_t got;

	end = text + bytes;
	for (char *word = text; word < end; word += strlen(word) + 1) {
		const char *next = word + strlen(word) + 1 < end ? word + strlen(word) + 1 : "";

		if (strcmp(word, "-o") == 0 || strcmp(word, name) == 0)
			path = next;
		else if (strncmp(word, name, strlen(name)) == 0 && word[strlen(name)] == '=')
			path = word + strlen(name) + 1;
		else if (strncmp(word, "-o", 2) == 0)
			path = word + 2;
	}
	snprintf(link, sizeof(link), "/proc/%d/cwd", pid);
	got = path[0] == '/' ? 0 : readlink(link, folder, sizeof(folder) - 1);
	folder[got > 0 ? got : 0] = '\0';
	if (snprintf(path_ret, PATH_MAX, "%s%s%s", folder, got > 0 ? "/" : "", path) >= PATH_MAX)
		path_ret[0] = '\0';
}

/* Call `found` for each server that runs, until it returns false. */
static void each_server(bool (*found)(void *ctx, int32_t pid), void *ctx)
{
	DIR *directory = opendir("/proc");
	struct dirent *entry;
	uint64_t pid;

	while (directory && (entry = readdir(directory))) {
		if (text_parse_u64(entry->d_name, 10, INT32_MAX, &pid) == 0 && doctor_runs_program((int32_t)pid, SERVER) &&
		    !found(ctx, (int32_t)pid))
			break;
	}
	if (directory)
		closedir(directory);
}

bool doctor_is_server(struct doctor_target *target)
{
	if (target->pid <= 0 || !doctor_runs_program(target->pid, SERVER))
		return false;
	target->is_server = true;
	find_configuration(target->pid, target->configuration);
	return true;
}

struct servers {
	int32_t pids[SHOWN_MAX];
	uint32_t count;
	const char *configuration; /* NULL: any */
};

/* `fathom-server stats` and other short commands have the program's name, too: they have no socket and end soon. */
static bool is_short_command(int32_t pid)
{
	static const char *const commands[] = {
		"backup", "restore", "stop-engines", "stats", "config", "storage", "network"
	};
	char text[COMMAND_LINE_BYTES];
	size_t bytes = read_command_line(pid, text);
	const char *word = text + strlen(text) + 1;

	for (size_t i = 0; bytes > 0 && word < text + bytes && i < ARRAY_COUNT(commands); i++) {
		if (strcmp(word, commands[i]) == 0)
			return true;
	}
	return false;
}

static bool add_server(void *ctx, int32_t pid)
{
	struct servers *servers = ctx;
	char path[PATH_MAX], real[PATH_MAX], wanted[PATH_MAX];

	if (is_short_command(pid))
		return true;
	find_configuration(pid, path);
	if (servers->configuration &&
	    strcmp(realpath(path, real) ? real : path,
		   realpath(servers->configuration, wanted) ? wanted : servers->configuration) != 0)
		return true;
	if (servers->count < SHOWN_MAX)
		servers->pids[servers->count] = pid;
	servers->count++;
	return true;
}

int doctor_find_server(const char *configuration, struct doctor_target *target_ret, struct fathom_fault *why)
{
	struct servers servers = { .configuration = configuration };
	char pids[SHOWN_MAX * 12] = "";
	size_t used = 0;

	*target_ret = (struct doctor_target){ .pid = 0 };
	each_server(add_server, &servers);
	if (servers.count > 1) {
		for (uint32_t i = 0; i < servers.count && i < SHOWN_MAX; i++)
			used += (size_t)snprintf(pids + used, sizeof(pids) - used, " %d", servers.pids[i]);
		return fault(why, -EEXIST, "%u of " SERVER " are running; select one by its process id:%s%s", servers.count,
			     pids, servers.count > SHOWN_MAX ? " ..." : "");
	}
	if (servers.count == 0 && !configuration)
		return -ENOENT;
	if (configuration && text_copy(target_ret->configuration, PATH_MAX, configuration) != 0)
		return fault(why, -ENAMETOOLONG, "%.200s: too long", configuration);
	target_ret->is_server = true;
	if (servers.count == 1) {
		target_ret->pid = servers.pids[0];
		if (!configuration)
			find_configuration(target_ret->pid, target_ret->configuration);
	}
	return 0;
}
