/* SPDX-License-Identifier: BSD-2-Clause */
/* service - the sources "service": what a server answers at its socket; "port": whether it listens; "agents". */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cmd/fathom/doctor/doctor.h"
#include "control/server/command/command.h"

enum { ANSWER_MS = 3000, INODES_MAX = 4096, LISTENS = 0x0a, LINE_BYTES = 512 };

#define AGENT "fathom-agent"

/* ---- the dRPC socket ---- */

void doctor_look_service(struct doctor_out *out, const void *ctx)
{
	const char *folder = ctx;
	struct server_config config = { .socket_dir = (char *)folder };
	struct fathom_fault why = { 0 };
	json_t *condition;
	char *text = NULL;
	int rc;

	doctor_step(out, "the call CONDITION");
	rc = server_condition(&config, ANSWER_MS, &text, &why);
	condition = rc == 0 ? json_loads(text, 0, NULL) : NULL;
	free(text);
	if (condition)
		doctor_put(out, "condition", condition);
	else if (rc == -EACCES || rc == -EPERM)
		doctor_put(out, "refused", json_string(why.text));
	else
		doctor_put(out, "silent", json_string(rc ? why.text : "its answer is not valid"));
}

/* ---- the port ---- */

static bool has_inode(uint64_t inode, const uint64_t *inodes, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (inodes[i] == inode)
			return true;
	}
	return false;
}

/* The inodes of the process's sockets. False: they cannot be read. */
static bool list_sockets(int32_t pid, uint64_t *inodes, uint32_t *count_ret)
{
	char path[64], to[64];
	struct dirent *entry;
	DIR *directory;

	*count_ret = 0;
	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	directory = opendir(path);
	while (directory && *count_ret < INODES_MAX && (entry = readdir(directory))) {
		ssize_t bytes = readlinkat(dirfd(directory), entry->d_name, to, sizeof(to) - 1);
		uint64_t inode;

		to[bytes > 0 ? bytes : 0] = '\0';
		if (sscanf(to, "socket:[%" SCNu64, &inode) == 1)
			inodes[(*count_ret)++] = inode;
	}
	if (directory)
		closedir(directory);
	return directory != NULL;
}

/* Does one of the sockets listen at the port? `waiting_ret`: connections that were not accepted. */
static bool listens(int32_t pid, const char *table, unsigned int port, const uint64_t *inodes, uint32_t count,
		    uint64_t *waiting_ret)
{
	char path[64], line[LINE_BYTES];
	bool found = false;
	FILE *rows;

	snprintf(path, sizeof(path), "/proc/%d/net/%s", pid, table);
	rows = fopen(path, "re");
	while (rows && fgets(line, sizeof(line), rows)) {
		unsigned int at, state, waiting;
		uint64_t inode;

		/* "0: 0100007F:2711 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 INODE" */
		if (sscanf(line, "%*u: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*x:%x %*x:%*x %*x %*u %*u %" SCNu64, &at,
			   &state, &waiting, &inode) != 4 ||
		    state != LISTENS || at != port || !has_inode(inode, inodes, count))
			continue;
		found = true;
		*waiting_ret += waiting;
	}
	if (rows)
		fclose(rows);
	return found;
}

void doctor_look_port(struct doctor_out *out, const void *ctx)
{
	const struct doctor_port *port = ctx;
	uint64_t *inodes = calloc(INODES_MAX, sizeof(*inodes)), waiting = 0;
	char address[32];
	uint32_t count;
	bool found;

	must(inodes);
	snprintf(address, sizeof(address), "port %u", port->port);
	doctor_put(out, "address", json_string(address));
	if (!list_sockets(port->pid, inodes, &count)) {
		doctor_put(out, "refused", json_string(strerror(errno)));
	} else {
		found = listens(port->pid, "tcp", port->port, inodes, count, &waiting);
		found |= listens(port->pid, "tcp6", port->port, inodes, count, &waiting);
		doctor_put(out, "waiting", json_integer((json_int_t)waiting));
		if (!found)
			doctor_put(out, "silent", json_string("it does not listen there"));
	}
	free(inodes);
}

/* ---- agents ---- */

/* The state of a process of an agent: one letter. False: it is another program. */
static bool read_agent(int32_t pid, char state_ret[2])
{
	char path[64], line[LINE_BYTES], state = '\0';
	FILE *from;

	if (!doctor_runs_program(pid, AGENT))
		return false;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	from = fopen(path, "re");
	while (from && fgets(line, sizeof(line), from))
		(void)sscanf(line, "State: %c", &state); /* other lines do not match */
	if (from)
		fclose(from);
	state_ret[0] = state;
	state_ret[1] = '\0';
	return true;
}

void doctor_look_agents(struct doctor_out *out, const void *ctx)
{
	json_t *processes = json_array();
	DIR *directory = opendir("/proc");
	struct dirent *entry;
	char state[2];
	uint64_t pid;

	(void)ctx;
	while (directory && (entry = readdir(directory))) {
		if (text_parse_u64(entry->d_name, 10, INT32_MAX, &pid) == 0 && read_agent((int32_t)pid, state))
			(void)json_array_append_new(processes,
						    json_pack("{s:I, s:s}", "pid", (json_int_t)pid, "state", state));
	}
	if (directory)
		closedir(directory);
	doctor_put(out, "processes", processes);
}
