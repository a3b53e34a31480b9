/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * instance_rig - runs one instance on the control reactor, with a dRPC server, a minimal management service, and the
 * engine's double (double.c) as its program. The trail records the states that the instance enters.
 */
#ifndef TEST_UNIT_CONTROL_INSTANCE_RIG_H
#define TEST_UNIT_CONTROL_INSTANCE_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after those four */
#include <cmocka.h>

#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "control/instance/instance.h"

enum { RIG_ASKED_MAX = 16, RIG_PATH_BYTES = 128 };

/* Answers of the management service to a join. */
enum rig_join {
	RIG_WELCOME,   /* accepted */
	RIG_REFUSE,    /* rejected: the incarnation is old */
	RIG_EXCLUDE,   /* rejected: the rank is excluded */
	RIG_NO_ANSWER, /* the service cannot be reached; a retry may succeed */
	RIG_FULL,      /* the database is full; a retry succeeds after an operator acts */
	RIG_HOLD       /* no answer until rig_release_join() */
};

/* The answer to a request. */
struct rig_asked {
	uint64_t answers;
	bool failed;
	struct fathom_fault why;
};

/* The same to a request about its storage: POOL_CREATE of "p1" with 77 bytes. */
struct rig_storage {
	struct rig_asked asked;
	uint32_t rank;
	int error;
	uint64_t total_bytes;
	char address[64];
};

struct rig {
	char folder[64], storage[80], received_path[96], log_path[96], engine_socket[96];
	struct instance_options options;
	struct instance *instance;
	char trail[1 << 18]; /* the states that it entered, in lower case: "adopting checking starting ready joined" */
	enum rig_join join;
	uint32_t rank;			 /* in the answer to its join */
	Store__StorageReq *const *early; /* likewise; for the engine before it is set up */
	size_t early_count;
	uint64_t joins;
	bool joined_as_replacement;
	uint32_t joined_rank; /* in its last join */
	uint64_t joined_incarnation;
	instance_joined_fn held;
	void *held_ctx;
	uint64_t stops;				     /* times it entered STOPPING */
	uint64_t died, format_required, join_failed; /* events */
	uint64_t gone;				     /* calls of the hook `gone` */
	uint64_t own_events[RAS_OWN_END - RAS_OWN_FIRST];
	char died_text[128], died_error[128];
	uint64_t died_pid, died_incarnation;
	uint32_t died_rank;
	struct instance_info info;					    /* by rig_look() */
	void (*changed)(struct instance *instance, enum instance_state to); /* may be NULL; on the control thread */
};

extern struct rig rig;
extern const struct instance_hooks rig_hooks; /* instance_rig_server.c */

/* Of rig_begin() and rig_end(), on the control thread: the server's dRPC socket in rig.folder. Return 0. */
int rig_open_server(void *unused);
int rig_close_server(void *unused);

/* Create the folder, the reactor, the server's socket, and options that suit most tests. */
void rig_begin(void);
/* Destroy all of it. Asserts that no child, descriptor or unanswered request is left. */
void rig_end(void);
void rig_create(void);
void rig_destroy(void);
int rig_destroy_here(void *unused); /* the same, on the control thread */
/* The result of instance_create() with these options; an instance that it created is destroyed. */
int rig_refuses(const struct instance_options *options, struct fathom_fault *why);
/* How the double behaves from now on: words of double.c; "": as a correct engine. */
void rig_manner(const char *words);

/* Run it on the control thread. */
void rig_run(void (*fn)(void *), void *ctx);

void rig_start_it(struct rig_asked *asked);
void rig_stop_it(struct rig_asked *asked, bool force);
void rig_format_it(struct rig_asked *asked, bool reformat, bool replace);
/* With `new_storage`: also if its storage is missing. */
void rig_format_new(struct rig_asked *asked, bool reformat);
void rig_erase_it(struct rig_asked *asked);
void rig_prepare_it(struct rig_asked *asked);
void rig_ping_it(struct rig_asked *asked);
/* instance_storage_call() with that rank in the request. */
void rig_storage_it(struct rig_storage *storage, uint32_t rank);
void rig_masks(struct rig_asked *asked, const char *masks);
void rig_group(uint32_t map_version);
void rig_release_join(enum rig_join how);

/* Wait for the answer: it must be success, or the fault of that code. */
void rig_done(struct rig_asked *asked);
void rig_fails(struct rig_asked *asked, int code);
/* Wait for the answer, with or without a fault. It must come exactly once. */
void rig_answered(struct rig_asked *asked);
/* Wait until the instance has handled the end of this process. */
void rig_until_gone(pid_t pid);
const struct instance_info *rig_look(void);
void rig_until(enum instance_state state);
/* Wait until the trail is exactly this. */
void rig_until_trail(const char *trail);
void rig_until_died(uint64_t count);
/* Count the lines in "received" (requests that the double received) that are equal to `line`. */
unsigned int rig_received(const char *line);
void rig_until_received(const char *line, unsigned int count);
/* Create it, format it, and wait until it is JOINED. */
void rig_bring_up(void);
/* Read the superblock from the storage. */
struct superblock rig_superblock(void);
void rig_set_restart(enum instance_cause cause, const struct instance_restart *restart);
/* Send `signal` to its process, which must exist. */
void rig_kill(int signal);

/* Stop it. It must be STOPPED, without a process. */
static inline void rig_stop(void)
{
	static struct rig_asked asked;

	rig_stop_it(&asked, false);
	rig_done(&asked);
	assert_int_equal(rig_look()->state, INSTANCE_STOPPED);
	assert_int_equal(rig.info.pid, 0);
}

/* Write the path of a file on its storage to `path`, which has RIG_PATH_BYTES. */
static inline void rig_path(char *path, const char *name)
{
	must(snprintf(path, RIG_PATH_BYTES, "%s/%s", rig.storage, name) < RIG_PATH_BYTES);
}

/* The socket exists from bind(), and accepts only from listen(): a test of its existence is too early. */
static inline bool is_listened_at(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0), error;

	must(fd >= 0);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	error = connect(fd, (struct sockaddr *)&address, sizeof(address));
	close(fd);
	return error == 0;
}

#endif
