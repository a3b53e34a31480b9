/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * listing - the answers to LIST and NOTES: one line of JSON per probe, of the tree (one registration at a time) or of SDT
 * notes (one file at a time). Lines are sent as fast as the client takes them; other clients are served in between.
 *
 * Each process is checked before its probes are listed, so unmapped files are not listed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/reactor/reactor.h"
#include "inspect/probed/register/client.h"
#include "inspect/probed/register/line.h"
#include "inspect/probed/register/notes.h"
#include "inspect/probed/stash/record.h"

enum { TEXT_BYTES_FIRST = 4096, RECORD_FILE_BYTES_MAX = 1 << 20, COMMAND_BYTES = 64 };

struct listing {
	struct stash_registration *found;
	size_t count, room, next;
	pid_t pid; /* 0: all */
	pid_t command_pid;
	char command[COMMAND_BYTES]; /* of process `command_pid` */
	char *text;		     /* [sent, used) is to be sent */
	size_t used, sent, text_room;
	bool out_of_memory;
	struct notes *notes; /* of NOTES */
	bool waiting;	     /* until a file is parsed */
};

void listing_free(struct listing *listing)
{
	if (listing->notes)
		notes_destroy(listing->notes);
	free(listing->found);
	free(listing->text);
	free(listing);
}

/* ---- lines ---- */

static int append_text(const char *bytes, size_t count, void *ctx)
{
	struct listing *listing = ctx;

	if (listing->used + count > listing->text_room) {
		size_t room = round_up_power_of_two(listing->used + count + TEXT_BYTES_FIRST);
		char *more = realloc(listing->text, room);

		if (!more) {
			listing->out_of_memory = true;
			return -1;
		}
		listing->text = more;
		listing->text_room = room;
	}
	must(listing->sent <= listing->used && listing->used + count <= listing->text_room);
	memcpy(listing->text + listing->used, bytes, count);
	listing->used += count;
	return 0;
}

/* How the daemon learned of a registration, for people. */
static const char *const way_names[] = {
	[PROBED_WAY_KEPT] = "a daemon before this one",
	[PROBED_WAY_SOCKET] = "socket",
	[PROBED_WAY_CUSE] = "device",
	[PROBED_WAY_SDT] = "SDT notes",
};

static void write_probe(struct listing *listing, const struct stash_registration *registration, enum probed_way way,
			const struct dof_provider *provider, const struct dof_probe *probe)
{
	json_t *line = line_of_probe(registration->process.pid, way_names[way], provider, probe);

	must(way_names[way]);
	if (line) {
		json_object_set_new(line, "uid", json_integer((json_int_t)registration->process.uid));
		json_object_set_new(line, "program", line_text(listing->command));
		json_object_set_new(line, "mapping",
				    json_pack("{sI, sI}", "device", (json_int_t)registration->mapping.device, "inode",
					      (json_int_t)registration->mapping.inode));
		if (registration->count)
			json_object_set_new(line, "count", json_integer((json_int_t)registration->count));
	}
	if (!line || json_dump_callback(line, append_text, listing, JSON_COMPACT) != 0 ||
	    append_text("\n", 1, listing) != 0)
		listing->out_of_memory = true;
	json_decref(line);
}

/* ---- records of the tree ---- */

static void write_record_file(struct listing *listing, const struct stash_registration *registration, enum probed_way way,
			      int folder, const char *name)
{
	static char room[RECORD_FILE_BYTES_MAX];
	int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct record record;
	struct fathom_fault why;
	ssize_t got;

	if (fd < 0)
		return; /* it was removed meanwhile */
	got = read(fd, room, sizeof(room));
	close(fd);
	if (got <= 0 || record_decode(room, (size_t)got, &record, &why) != 0)
		return; /* not a record */
	for (uint32_t i = 0; i < record.set.provider_count; i++) {
		for (uint32_t n = 0; n < record.set.providers[i].probe_count; n++)
			write_probe(listing, registration, way, &record.set.providers[i],
				    &record.set.providers[i].probes[n]);
	}
	record_free(&record);
}

static void write_registration(struct listing *listing, const struct server *server,
			       const struct stash_registration *registration, enum probed_way way)
{
	struct dirent *entry;
	char path[512];
	DIR *folder;

	snprintf(path, sizeof(path), "%s/stash/dof-pid/%d/%" PRIu64 "-%" PRIu64 "/parsed", server->options.directory,
		 registration->process.pid, registration->mapping.device, registration->mapping.inode);
	folder = opendir(path);
	if (!folder)
		return;
	while ((entry = readdir(folder))) {
		if (entry->d_name[0] != '.' && strcmp(entry->d_name, "version") != 0)
			write_record_file(listing, registration, way, dirfd(folder), entry->d_name);
	}
	closedir(folder);
}

static void read_command(struct listing *listing, pid_t pid)
{
	char path[32];
	ssize_t got = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		got = read(fd, listing->command, sizeof(listing->command) - 1);
		close(fd);
	}
	listing->command[got > 0 ? got : 0] = '\0';
	listing->command[strcspn(listing->command, "\n")] = '\0';
}

/* A probe of SDT notes. */
static void write_note(void *ctx, const struct stash_process *process, const struct stash_mapping *mapping,
		       const struct dof_provider *provider, const struct dof_probe *probe)
{
	const struct stash_registration registration = { .process = *process, .mapping = *mapping };
	struct client *client = ctx;

	if (client->listing->command_pid != process->pid)
		read_command(client->listing, process->pid);
	client->listing->command_pid = process->pid;
	write_probe(client->listing, &registration, PROBED_WAY_SDT, provider, probe);
}

static void resume_listing(void *ctx)
{
	struct client *client = ctx;

	must(client->listing && client->listing->waiting);
	client->listing->waiting = false;
	client_watch(client);
}

/* Write the lines of the next registration. */
static void write_next_registration(struct listing *listing, struct server *server)
{
	const struct stash_registration *registration = &listing->found[listing->next++];
	struct probed_process *process = process_find(server->registry, registration->process.pid);

	must(listing->next <= listing->count);
	if (registration->process.pid != listing->command_pid) {
		listing->command_pid = registration->process.pid;
		read_command(listing, registration->process.pid);
		if (process)
			process_recheck(server->registry, process);
		process = process_find(server->registry, registration->process.pid);
	}
	write_registration(listing, server, registration,
			   process ? process_way(process, &registration->mapping) : PROBED_WAY_KEPT);
}

/* ---- sending ---- */

static int collect_registration(void *ctx, const struct stash_registration *registration)
{
	struct listing *listing = ctx;

	if (listing->pid && registration->process.pid != listing->pid)
		return 0;
	if (listing->count == listing->room) {
		size_t room = listing->room ? listing->room * 2 : 16;
		void *more = reallocarray(listing->found, room, sizeof(*listing->found));

		if (!more)
			return -ENOMEM;
		listing->found = more;
		listing->room = room;
	}
	must(listing->count < listing->room);
	listing->found[listing->count++] = *registration;
	return 0;
}

static void finish_listing(struct client *client, int error, const char *text)
{
	struct server *server = client->server;

	must(client->listing && !client->queued);
	must(server->listing_count > 0);
	listing_free(client->listing);
	client->listing = NULL;
	client_watch(client);
	client_answer(client, error, 0, text);
	listing_ended(server);
}

/* Send the text. False: the socket is full; the rest is sent later. */
static bool send_text(struct client *client)
{
	struct listing *listing = client->listing;

	while (listing->sent < listing->used) {
		size_t bytes = min_u64(listing->used - listing->sent, PROBED_REPLY_TEXT_BYTES_MAX);

		if (!client_reply(client, 0, true, 0, listing->text + listing->sent, bytes))
			return false;
		client->last_active_ns = clock_monotonic_ns(); /* the client reads, so it is not silent */
		listing->sent += bytes;
		must(listing->sent <= listing->used);
	}
	listing->sent = listing->used = 0;
	return true;
}

/* False: the end. */
static bool read_more_notes(struct client *client)
{
	enum notes_step step = notes_step(client->listing->notes);

	client->last_active_ns = clock_monotonic_ns(); /* the daemon takes this time, not the client */
	client->listing->waiting = step == NOTES_WAIT;
	client_watch(client);
	return step != NOTES_END;
}

bool listing_waits(const struct listing *listing)
{
	return listing->waiting;
}

void listing_continue(struct client *client)
{
	struct listing *listing = client->listing;

	if (!send_text(client))
		return;
	if (listing->out_of_memory) {
		finish_listing(client, -ENOMEM, "the daemon is out of memory");
		return;
	}
	if (listing->notes ? !read_more_notes(client) : listing->next == listing->count) {
		finish_listing(client, 0, "");
		return;
	}
	if (!listing->notes)
		write_next_registration(listing, client->server);
	(void)send_text(client); /* the rest is sent when the socket is writable */
}

void listing_ended(struct server *server)
{
	struct client *client;

	must(server->listing_count > 0);
	server->listing_count--;
	TAILQ_FOREACH (client, &server->clients, link) {
		if (client->queued) {
			client->queued = false;
			listing_begin(client);
			return;
		}
	}
}

void listing_begin(struct client *client)
{
	struct server *server = client->server;
	struct listing *listing;

	must(!client->listing && !client->busy);
	must(!client->queued && !client->gone);
	if (client->request.value > INT32_MAX) {
		client_answer(client, -EINVAL, 0, "not a valid pid");
		return;
	}
	if (server->listing_count >= LISTINGS_MAX) {
		client->queued = true;
		client_watch(client);
		return;
	}
	listing = calloc(1, sizeof(*listing));
	if (!listing) {
		client_answer(client, -ENOMEM, 0, "the daemon is out of memory");
		return;
	}
	client->last_active_ns = clock_monotonic_ns(); /* it may have been queued for long */
	listing->pid = (pid_t)client->request.value;
	client->listing = listing;
	server->listing_count++;
	must(server->listing_count <= LISTINGS_MAX);
	if (client->request.operation == PROBED_NOTES) {
		listing->notes = notes_create(server->registry, client->uid, listing->pid, write_note, resume_listing,
					      client);
		listing->out_of_memory = !listing->notes;
	} else if (stash_walk(server->registry->stash, collect_registration, listing) != 0) {
		listing->out_of_memory = true;
	}
	client_watch(client);
}
