/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * protocol - what a process and fathom-probed say to each other over its UNIX socket: docs/formats/probed.md.
 *
 * SOCK_SEQPACKET: a message is a request or a reply, whole. In the byte order of the machine. Who speaks is what the kernel
 * says (SCM_CREDENTIALS), never what is in a message.
 */
#ifndef PROBED_CLIENT_PROTOCOL_H
#define PROBED_CLIENT_PROTOCOL_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define PROBED_SOCKET_DEFAULT "/run/fathom/probed.sock"
#define PROBED_SOCKET_ENV "FATHOM_PROBED_SOCKET"

enum { PROBED_PROTOCOL_VERSION = 1 };
enum { PROBED_MESSAGE_BYTES_MAX = 65536, PROBED_REPLY_TEXT_BYTES_MAX = 32768 };

enum probed_operation {
	PROBED_HELLO = 1,  /* reply: value: the daemon's pid; text: what it is and what it counted, as JSON */
	PROBED_ADD = 2,	   /* reply: value: the generation */
	PROBED_REMOVE = 3, /* value: a generation of the sender's process */
	PROBED_LIST = 4,   /* value: a pid, 0: all. Replies: JSON, a line for each thing */
	PROBED_NOTES = 5,  /* likewise: SDT notes of processes that the sender may look at */
};

struct probed_request {
	uint32_t version;
	uint32_t operation;
	uint64_t cookie; /* comes back with the reply */
	uint64_t value;
	/* of ADD */
	uint64_t bytes;	  /* of the object, which stands behind this, or in the memfd that came along; 0: it has notes */
	uint64_t address; /* lies in the mapping that the probes belong to; 0: where helper says that the object is */
	unsigned char helper[80]; /* dof_helper_t: char module[64]; uint64_t base, dof */
};

struct probed_reply {
	uint32_t version;
	uint32_t operation;
	uint64_t cookie;
	int32_t error; /* 0 or a negative errno; then text says why */
	uint32_t more; /* another reply to the same request follows */
	uint64_t value;
	/* text to the end of the message, without a NUL */
};

static_assert(sizeof(struct probed_request) == 120, "frozen");
static_assert(offsetof(struct probed_request, helper) == 40, "frozen");
static_assert(sizeof(struct probed_reply) == 32, "frozen");
static_assert(sizeof(struct probed_reply) + PROBED_REPLY_TEXT_BYTES_MAX <= PROBED_MESSAGE_BYTES_MAX, "one message");

#endif
