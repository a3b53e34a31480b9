/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * helper - the ioctls of DTrace's helper device, as a machine: calls in, what to do out. No system call but memory.
 *
 * The kernel passes an ioctl without the memory that its argument points to. We say which piece of it is needed, and
 * the ioctl comes again with that piece, until all of an object is here:
 *
 *   ADDDOF: dof_helper_t (80 bytes) -> header of the object (64) -> the rest, 64 KiB at a time -> ADD
 *   ADDNOTES, which programs built by DTrace 2.0.7 use: nothing of their memory -> ADD
 *
 * What has come so far is kept for the thread that calls, in the file that it has open: threads of one process
 * register at once. A thread that begins anew has given up what it began before (a signal, a fault).
 */
#ifndef PROBED_REGISTER_HELPER_H
#define PROBED_REGISTER_HELPER_H

#include "inspect/probed/dof/dof.h"

#define HELPER_IOCTL_ADD 0x4040d801u	/* that of long ago; nobody has it any more */
#define HELPER_IOCTL_REMOVE 0x4004d802u /* its argument is the generation itself */
#define HELPER_IOCTL_ADDDOF 0x4050d803u
#define HELPER_IOCTL_ADDNOTES 0x4008d804u /* its argument is an address in the file that has notes */

enum { HELPER_CHUNK_BYTES = 64 << 10, HELPER_HEADER_BYTES = 64, HELPER_THREADS_MAX = 256, HELPER_STALE_SEC = 10 };

struct helper_limits {
	size_t object_bytes; /* of one object */
	size_t bytes;	     /* of all that are on their way */
	size_t bytes_a_user;
};

struct helper;
struct helper_file;

/* NULL: out of memory. */
struct helper *helper_create(const struct helper_limits *limits);
/* After its files. Accepts NULL. */
void helper_destroy(struct helper *helper);

/* The device was opened by a process of `user`. NULL: out of memory. */
struct helper_file *helper_file_create(struct helper *helper, uint32_t user);
void helper_file_destroy(struct helper_file *file);

struct helper_call {
	uint32_t command;
	uint64_t argument;
	int32_t thread;	  /* the caller's */
	const void *data; /* what was asked for; NULL: the ioctl is new */
	size_t bytes;
	uint64_t now_ns;
};

struct helper_step {
	enum { HELPER_RETRY, HELPER_ANSWER, HELPER_ADD, HELPER_REMOVE } action;
	/* RETRY: the piece of the caller's memory that is needed. ADD: where the probes' file is mapped; 0: not said */
	uint64_t address;
	size_t bytes; /* ADD, too: of the object */
	/* ANSWER: a negative errno, and why */
	int error;
	const char *why;
	/* ADD */
	struct dof_helper helper; /* without a module: what is mapped tells it, and the base */
	void *object;		  /* the caller's, for free(); NULL: the mapped file has notes */
	/* REMOVE */
	uint64_t generation;
};

/* Does the ioctl `command` register probes? */
bool helper_adds(uint32_t command);

/* What to do about `call`. */
void helper_step(struct helper_file *file, const struct helper_call *call, struct helper_step *step_ret);

/* Those who began something and did not go on for HELPER_STALE_SEC lose it. */
void helper_expire(struct helper *helper, uint64_t now_ns);

/* Bytes of objects that are on their way. */
size_t helper_bytes(const struct helper *helper);

#endif
