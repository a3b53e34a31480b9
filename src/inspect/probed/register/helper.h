/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * helper - a state machine for the ioctls of DTrace's helper device: calls in, actions out. No system calls except to
 * allocate memory.
 *
 * The kernel passes an ioctl without the memory that its argument points to. We answer with the address of the piece that
 * we need, and the kernel repeats the ioctl with that piece, until the object is complete:
 *
 *   ADDDOF: dof_helper_t (80 bytes) -> header of the object (64) -> the rest, 64 KiB at a time -> ADD
 *   ADDNOTES, of programs built by DTrace 2.0.7: needs none of the memory -> ADD
 *
 * The pieces are kept per open file and thread, because threads of one process register at the same time. A new ADDDOF of a
 * thread discards its earlier one, which a signal or a fault has interrupted.
 */
#ifndef PROBED_REGISTER_HELPER_H
#define PROBED_REGISTER_HELPER_H

#include "inspect/probed/dof/dof.h"

#define HELPER_IOCTL_ADD 0x4040d801u	/* obsolete: it has no module name; rejected */
#define HELPER_IOCTL_REMOVE 0x4004d802u /* its argument is the generation itself */
#define HELPER_IOCTL_ADDDOF 0x4050d803u
#define HELPER_IOCTL_ADDNOTES 0x4008d804u /* its argument is an address in the file that has notes */

enum { HELPER_CHUNK_BYTES = 64 << 10, HELPER_HEADER_BYTES = 64, HELPER_THREADS_MAX = 256, HELPER_STALE_SEC = 10 };

struct helper_limits {
	size_t object_bytes; /* of one object */
	size_t bytes;	     /* of all objects in progress */
	size_t bytes_a_user;
};

struct helper;
struct helper_file;

/* NULL: out of memory. */
struct helper *helper_create(const struct helper_limits *limits);
/* Destroy its files first. Accepts NULL. */
void helper_destroy(struct helper *helper);

/* A process of `user` has opened the device. NULL: out of memory. */
struct helper_file *helper_file_create(struct helper *helper, uint32_t user);
void helper_file_destroy(struct helper_file *file);

struct helper_call {
	uint32_t command;
	uint64_t argument;
	int32_t thread;	  /* the caller's */
	const void *data; /* the requested piece; NULL: a new ioctl */
	size_t bytes;
	uint64_t now_ns;
};

struct helper_step {
	enum { HELPER_RETRY, HELPER_ANSWER, HELPER_ADD, HELPER_REMOVE } action;
	/*
	 * RETRY: the piece of the caller's memory that is needed. ADD: an address in the mapping with the probes; 0:
	 * unknown
	 */
	uint64_t address;
	size_t bytes; /* RETRY: of the piece. ADD: of the object */
	/* ANSWER: a negative errno, and the reason */
	int error;
	const char *why;
	/* ADD */
	struct dof_helper helper; /* an empty module: the mapped file determines module and base */
	void *object;		  /* the caller frees it with free(); NULL: the mapped file has notes */
	/* REMOVE */
	uint64_t generation;
};

/* True: the ioctl `command` registers probes. */
bool helper_adds(uint32_t command);

/* Decide the action for `call`. */
void helper_step(struct helper_file *file, const struct helper_call *call, struct helper_step *step_ret);

/* Discard ADDDOFs that did not continue for HELPER_STALE_SEC. */
void helper_expire(struct helper *helper, uint64_t now_ns);

/* The bytes allocated for objects in progress. */
size_t helper_bytes(const struct helper *helper);

#endif
