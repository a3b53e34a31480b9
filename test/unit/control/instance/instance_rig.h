/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * instance_rig - an instance on the control reactor, its server's side of dRPC, a management service of three lines, and
 * the engine's double (double.c) as its program. What it does is in the trail: the states it went through.
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

enum rig_join {
	RIG_WELCOME,
	RIG_REFUSE,
	RIG_EXCLUDE,
	RIG_NOBODY,
	RIG_FULL,
	RIG_HOLD
}; /* the last waits for rig_release_join() */

/* Something asked for. */
struct rig_asked {
	uint64_t answers;
	bool failed;
	struct fathom_fault why;
};

struct rig {
	char folder[64], storage[80], told_path[96], log_path[96], engine_socket[96];
	struct instance_options options;
	struct instance *instance;
	char trail[65536]; /* states it moved to, by their first two letters, and blanks: "AD CH ST RE JO" */
	enum rig_join join;
	uint32_t rank; /* that it is given */
	uint64_t joins;
	bool joined_as_replacement;
	uint32_t joined_rank; /* as it came */
	uint64_t joined_incarnation;
	instance_joined_fn held;
	void *held_ctx;
	uint64_t stops;				     /* times it was STOPPING */
	uint64_t died, format_required, join_failed; /* events */
	uint64_t gone;				     /* reports that no process is left */
	uint64_t own_events[RAS_OWN_END - RAS_OWN_FIRST];
	char died_text[128], died_error[128];
	uint64_t died_pid, died_incarnation;
	uint32_t died_rank;
	struct instance_info info;					    /* by rig_look() */
	void (*changed)(struct instance *instance, enum instance_state to); /* may be NULL; on the control thread */
};

extern struct rig rig;

/* A folder, the reactor, the server's socket; the options as most tests want them. */
void rig_begin(void);
/* No child, no descriptor, no thing unanswered is left. */
void rig_end(void);
void rig_create(void);
void rig_destroy(void);
int rig_destroy_here(void *unused); /* the same, on the control thread */
/* What instance_create() says to these; one that was made is destroyed. */
int rig_refuses(const struct instance_options *options, struct fathom_fault *why);
/* How the double behaves from now on; "": well. */
void rig_manner(const char *words);

/* Run it on the control thread. */
void rig_run(void (*fn)(void *), void *ctx);

void rig_start_it(struct rig_asked *asked);
void rig_stop_it(struct rig_asked *asked, bool force);
void rig_format_it(struct rig_asked *asked, bool reformat, bool replace);
/* Where its storage is missing. */
void rig_format_new(struct rig_asked *asked, bool reformat);
void rig_erase_it(struct rig_asked *asked);
void rig_prepare_it(struct rig_asked *asked);
void rig_ping_it(struct rig_asked *asked);
void rig_masks(struct rig_asked *asked, const char *masks);
void rig_group(uint32_t map_version);
void rig_release_join(enum rig_join how);

/* Wait for the answer: it must be success, or the fault of that code. */
void rig_done(struct rig_asked *asked);
void rig_fails(struct rig_asked *asked, int code);
/* Wait for the answer, whatever it is: it comes once. */
void rig_answered(struct rig_asked *asked);
/* Wait until that process is reaped and its end was handled. */
void rig_until_gone(pid_t pid);
const struct instance_info *rig_look(void);
void rig_until(enum instance_state state);
void rig_until_died(uint64_t count);
/* Lines in "told" that are so. */
unsigned int rig_told(const char *line);
void rig_until_told(const char *line, unsigned int count);
/* Formatted, started, joined. */
void rig_bring_up(void);
/* The superblock as it lies there. */
struct superblock rig_superblock(void);
void rig_set_restart(enum instance_cause cause, const struct instance_restart *restart);
/* Send `signal` to its process, which must be there. */
void rig_kill(int signal);

/* Stopped, and its process is gone. */
static inline void rig_stop(void)
{
	static struct rig_asked asked;

	rig_stop_it(&asked, false);
	rig_done(&asked);
	assert_int_equal(rig_look()->state, INSTANCE_STOPPED);
	assert_int_equal(rig.info.pid, 0);
}

/* Of a file on its storage: `path` has RIG_PATH_BYTES. */
static inline void rig_path(char *path, const char *name)
{
	must(snprintf(path, RIG_PATH_BYTES, "%s/%s", rig.storage, name) < RIG_PATH_BYTES);
}

/* A socket that is bound is there a moment before it is listened at. */
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
