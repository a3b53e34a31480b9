/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server - the source "server": what the configuration of a server says, and the files that it names: pid files of its
 * engines, superblocks, the database. It says what else to look at (certificates, folders, engines) before it reads a file
 * that may be on a file system that hangs.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "cmd/fathom/doctor/doctor.h"
#include "control/server/config/configuration.h"
#include "control/superblock/superblock.h"

enum { STAT_BYTES = 1024, FIELD_STATE = 3, FIELD_START = 22, HEADER_BYTES = 100, LOG_BYTES = 16384, LINE_BYTES_MAX = 400 };

static void add_text(json_t *list, const char *text)
{
	if (text)
		(void)json_array_append_new(list, json_string(text)); /* a path that is not UTF-8 is left out */
}

/* ---- what else to look at ---- */

static void put_certificates(struct doctor_out *out, const struct server_transport *transport)
{
	json_t *own = json_array(), *all = json_array();

	if (!transport->allow_insecure) {
		add_text(own, transport->cert);
		add_text(own, transport->ca_cert);
		add_text(all, transport->cert);
		add_text(all, transport->ca_cert);
		add_text(all, transport->client_cert_dir);
	}
	doctor_put(out, "own_certificates", own);
	doctor_put(out, "certificates", all);
}

static void put_folders(struct doctor_out *out, const struct server_config *config)
{
	json_t *folders = json_array();

	add_text(folders, config->state_dir);
	add_text(folders, config->metadata.path);
	add_text(folders, config->socket_dir);
	for (size_t i = 0; i < config->engines.count; i++) {
		const struct server_storage *storage = server_engine_storage(server_config_engine(config, i));

		add_text(folders, storage ? storage->scm_mount : NULL);
	}
	doctor_put(out, "folders", folders);
}

/* When the process started, in clock ticks since the boot; 0: it does not run, or is a zombie. */
static uint64_t start_of(uint64_t pid)
{
	char path[64], text[STAT_BYTES], *next, *field = NULL;
	uint64_t start = 0;
	size_t bytes;
	FILE *from;

	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/stat", pid);
	from = fopen(path, "re");
	if (!from)
		return 0;
	bytes = fread(text, 1, sizeof(text) - 1, from);
	fclose(from);
	text[bytes] = '\0';
	next = strrchr(text, ')'); /* the name in parentheses may contain ')' and blanks */
	if (!next || next[1] != ' ')
		return 0;
	next += 2;
	if (*next == 'Z' || *next == 'X')
		return 0;
	for (int i = FIELD_STATE; i <= FIELD_START; i++)
		field = strsep(&next, " ");
	return field && text_parse_u64(field, 10, UINT64_MAX, &start) == 0 ? start : 0;
}

/* The process of the pid file of an engine, which control/instance/pid_file.c writes; 0: it does not run. */
static int32_t engine_pid(const struct server_config *config, size_t index)
{
	char path[PATH_MAX];
	uint64_t pid = 0, start = 0;
	FILE *from;

	if (snprintf(path, sizeof(path), "%s/fathom_engine%zu.pid", config->socket_dir, index) >= (int)sizeof(path))
		return 0;
	from = fopen(path, "re");
	if (!from)
		return 0;
	if (fscanf(from, "%" SCNu64 " %" SCNu64, &pid, &start) != 2 || pid > INT32_MAX || start_of(pid) != start)
		pid = 0;
	fclose(from);
	return (int32_t)pid;
}

static void put_engines(struct doctor_out *out, const struct server_config *config)
{
	json_t *engines = json_array();

	for (size_t i = 0; i < config->engines.count; i++) {
		int32_t pid = engine_pid(config, i);

		if (pid > 0)
			(void)json_array_append_new(engines, json_pack("{s:I, s:I}", "index", (json_int_t)i, "pid",
								       (json_int_t)pid));
	}
	doctor_put(out, "engines", engines);
}

/* ---- the database ---- */

static uint32_t big_endian(const uint8_t *from)
{
	return (uint32_t)from[0] << 24 | (uint32_t)from[1] << 16 | (uint32_t)from[2] << 8 | from[3];
}

/*
 * What is wrong with the header of the file; NULL: nothing. The header has the size of a page and, if the two counters are
 * equal, the number of pages. A server that runs may be writing the file.
 */
static const char *database_problem(const uint8_t header[static HEADER_BYTES], ssize_t got, int64_t bytes, bool is_running)
{
	static const char magic[16] = "SQLite format 3";
	uint32_t page_bytes;

	if (bytes == 0)
		return NULL; /* it is created by the first change */
	if (got < HEADER_BYTES || memcmp(header, magic, sizeof(magic)) != 0)
		return "it does not begin with the header of an SQLite database";
	page_bytes = (uint32_t)header[16] << 8 | header[17];
	page_bytes = page_bytes == 1 ? 65536 : page_bytes;
	if (page_bytes < 512 || (page_bytes & (page_bytes - 1)))
		return "its header has no valid size of a page";
	if (!is_running && memcmp(header + 24, header + 92, 4) == 0 &&
	    bytes < (int64_t)big_endian(header + 28) * (int64_t)page_bytes)
		return "it is shorter than its header says";
	return NULL;
}

static void look_at_database(struct doctor_out *out, const struct server_config *config, bool is_running)
{
	uint8_t header[HEADER_BYTES] = { 0 };
	json_t *database = json_object();
	const char *problem = NULL;
	char path[PATH_MAX];
	struct stat st;
	ssize_t got;
	int fd;

	if (server_database_path(config, path, sizeof(path)) != 0)
		return;
	doctor_step(out, "reading %s", path);
	(void)json_object_set_new(database, "path", json_string(path));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		(void)json_object_set_new(database, "absent", json_string(strerror(errno)));
	} else if (fstat(fd, &st) == 0) {
		got = pread(fd, header, sizeof(header), 0);
		problem = got < 0 ? strerror(errno) : database_problem(header, got, st.st_size, is_running);
		(void)json_object_set_new(database, "bytes", json_integer(st.st_size));
		if (problem)
			(void)json_object_set_new(database, "problem", json_string(problem));
	}
	if (fd >= 0)
		close(fd);
	doctor_put(out, "database", database);
}

/* ---- superblocks ---- */

static json_t *look_at_superblock(const struct server_config *config, size_t index, const char *path)
{
	json_t *row = json_pack("{s:I, s:s}", "index", (json_int_t)index, "path", path);
	struct fathom_fault why = { 0 };
	struct superblock superblock;
	int rc;

	if (access(path, R_OK) != 0)
		return row; /* not formatted, not mounted, or not ours to read */
	rc = superblock_read(path, config->name, &superblock, &why);
	if (rc == 0 && superblock.has_rank)
		(void)json_object_set_new(row, "rank", json_integer(superblock.rank));
	else if (rc && rc != -ENOENT)
		(void)json_object_set_new(row, "why", json_string(why.text));
	return row;
}

static void look_at_superblocks(struct doctor_out *out, const struct server_config *config)
{
	json_t *rows = json_array();
	char path[PATH_MAX];

	for (size_t i = 0; i < config->engines.count; i++) {
		if (server_superblock_path(config, i, path, sizeof(path)) != 0)
			continue;
		doctor_step(out, "reading %s", path);
		(void)json_array_append_new(rows, look_at_superblock(config, i, path));
		doctor_put(out, "superblocks", json_deep_copy(rows));
	}
	json_decref(rows);
}

/* ---- the log of a server that does not run ---- */

static void look_at_log(struct doctor_out *out, const char *path)
{
	char text[LOG_BYTES + 1], *line, *rest = text, last[LINE_BYTES_MAX] = "";
	FILE *from = path ? fopen(path, "re") : NULL;
	size_t bytes;

	if (!from)
		return;
	doctor_step(out, "reading %s", path);
	if (fseek(from, -(long)LOG_BYTES, SEEK_END) != 0)
		rewind(from); /* it is shorter */
	bytes = fread(text, 1, LOG_BYTES, from);
	fclose(from);
	text[bytes] = '\0';
	while ((line = strsep(&rest, "\n"))) {
		if (strcasestr(line, "error"))
			snprintf(last, sizeof(last), "%s", line);
	}
	if (last[0])
		doctor_put(out, "last_error", json_string(last));
}

/* ---- the source ---- */

void doctor_look_server(struct doctor_out *out, const void *ctx)
{
	const struct doctor_target *target = ctx;
	struct server_config config;
	struct fathom_fault why = { 0 };
	char socket[PATH_MAX];

	doctor_put(out, "configuration", json_string(target->configuration));
	doctor_put(out, "running", json_boolean(target->pid > 0));
	doctor_step(out, "reading %s", target->configuration);
	if (server_config_read(target->configuration, &config, &why) != 0) {
		doctor_put(out,
			   access(target->configuration, R_OK) != 0 && errno == EACCES ? "refused" : "configuration_error",
			   json_string(why.text));
		return;
	}
	snprintf(socket, sizeof(socket), "%s/" SERVER_SOCKET, config.socket_dir);
	doctor_put(out, "socket", json_string(socket));
	doctor_put(out, "socket_dir", json_string(config.socket_dir));
	doctor_put(out, "port", json_integer((json_int_t)config.port));
	put_certificates(out, &config.transport);
	put_folders(out, &config);
	put_engines(out, &config);
	look_at_database(out, &config, target->pid > 0);
	look_at_superblocks(out, &config);
	if (target->pid == 0)
		look_at_log(out, config.log_file);
	server_config_free(&config);
}
