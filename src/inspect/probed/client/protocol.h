/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * protocol - the messages between a process and fathom-probed over its UNIX socket: docs/formats/probed.md.
 *
 * SOCK_SEQPACKET: each message is one complete request or reply, in the machine's byte order. The kernel identifies the
 * sender (SCM_CREDENTIALS); the daemon must not trust any identity in a message.
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
	PROBED_HELLO = 1,  /* reply: value: the daemon's pid; text: its version and counters, as JSON */
	PROBED_ADD = 2,	   /* reply: value: the generation */
	PROBED_REMOVE = 3, /* value: a generation of the sender's process */
	PROBED_LIST = 4,   /* value: a pid, 0: all. Replies: JSON, one line per item */
	PROBED_NOTES = 5,  /* likewise: SDT notes of processes that the sender may inspect */
};

struct probed_request {
	uint32_t version;
	uint32_t operation;
	uint64_t cookie; /* the reply returns it */
	uint64_t value;
	/* of ADD */
	uint64_t bytes;		  /* of the object, which follows this or is in the attached memfd; 0: the file has notes */
	uint64_t address;	  /* an address in the mapping with the probes; 0: use the object's address in `helper` */
	unsigned char helper[80]; /* dof_helper_t: char module[64]; uint64_t base, dof */
};

struct probed_reply {
	uint32_t version;
	uint32_t operation;
	uint64_t cookie;
	int32_t error; /* 0, or a negative errno, explained by the text */
	uint32_t more; /* another reply to the same request follows */
	uint64_t value;
	/* text to the end of the message, without a NUL */
};

static_assert(sizeof(struct probed_request) == 120, "frozen");
static_assert(offsetof(struct probed_request, helper) == 40, "frozen");
static_assert(sizeof(struct probed_reply) == 32, "frozen");
static_assert(offsetof(struct probed_request, bytes) == 24, "frozen");
static_assert(offsetof(struct probed_reply, error) == 16, "frozen");
static_assert(offsetof(struct probed_reply, value) == 24, "frozen");
static_assert(sizeof(struct probed_reply) + PROBED_REPLY_TEXT_BYTES_MAX <= PROBED_MESSAGE_BYTES_MAX, "one message");

#endif
