/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * host - a model of an NVMe/TCP host. A queue is a connection and its commands in progress; responses are checked against
 * the specification. A host has an admin queue, I/O queues, and a character.
 */
#ifndef SIM_HOST_H
#define SIM_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "disk.h"
#include "net.h"
#include "data/nvme/command.h"
#include "data/nvme/fabrics.h"
#include "data/nvme/status.h"
#include "data/wire/pdu/pdu.h"

enum {
	HOSTS_MAX = 6,
	HOSTS_USUAL = 4, /* in seeds without hangs */
	QUEUES_MAX = 4,	 /* of a host, including the admin queue */
	CMDS_MAX = 128,
	NAMESPACES = 4, /* nsid 1 ... on disk 0 ... */
	HUNG_NS = 3,	/* index; its disk never completes; exists only if sim.hangs */
	STATUSES_MAX = 6,
	IO_BYTES_MAX = 131072,
};

struct queue;
struct cmd;
typedef void (*cmd_done_fn)(struct queue *queue, struct cmd *cmd, const struct nvme_completion *cpl);

enum cmd_way { CMD_NO_DATA, CMD_TO_TARGET, CMD_FROM_TARGET };

struct cmd {
	bool used, sent;
	struct nvme_command nvme;
	enum cmd_way way;
	uint8_t *data;
	uint32_t data_bytes, capsule_bytes;
	uint32_t arrived;      /* bytes received from the target */
	uint32_t asked, given; /* bytes to the target: requested by R2Ts, and sent */
	uint16_t ttag;
	bool bad_digest, spoiled; /* one of its data digests must be wrong; was wrong */
	bool no_answer;		  /* an AER: may stay unanswered */
	bool short_ok;		  /* fewer bytes than requested are allowed */
	bool may_abort;		  /* an Abort was sent for it, or for an earlier command with its CID */
	uint32_t aborts;	  /* Aborts in progress for this CID */
	struct cmd *victim;	  /* Abort */
	bool fua;
	uint64_t since; /* the ledger's event at its submission */
	uint64_t tick;
	cmd_done_fn done;
	/* I/O */
	unsigned int ns; /* index; NAMESPACES: none */
	uint64_t first, count;
	uint64_t write; /* the ledger's id of the write; 0: none */
	uint64_t stamp;
	uint64_t ranges[8][3]; /* Dataset Management: first, count, write */
	uint32_t range_count;
	/* the allowed statuses; none: success, or failures that the surroundings excuse */
	uint16_t statuses[STATUSES_MAX];
	uint32_t status_count;
};

enum queue_state {
	QUEUE_NONE,
	QUEUE_IC,	  /* ICReq sent */
	QUEUE_CONNECTING, /* Connect sent */
	QUEUE_UP,
	QUEUE_REFUSED,
};

struct queue {
	struct host *host;
	enum queue_state state;
	struct wire *wire;
	uint16_t qid, entries;
	bool flow_control_off;
	bool may_end;	     /* the target may close it: the host or the operator has given a reason */
	bool must_end;	     /* the target must close it */
	bool stranger;	     /* its Connect is invalid */
	bool overruns;	     /* more commands than entries are sent */
	bool lingers;	     /* does not close after the target's TermReq */
	bool silent;	     /* nothing is sent or read any longer */
	uint8_t term_fes[3]; /* the FES of allowed TermReqs; 0: none */
	int term_fei;	     /* -1: any */
	bool got_term, term_over;
	struct pdu_decoder decoder;
	struct pdu_terms terms;
	uint8_t hpda;
	uint32_t maxr2t, data_pdu_max;
	struct cmd cmds[CMDS_MAX];
	uint16_t cid_base;
	uint32_t in_flight; /* including AERs */
	uint32_t commands_sent, responses;
	struct cmd *receiving;
	uint64_t last_sent;
	cmd_done_fn connected; /* called with the Connect's response */
	bool success;	       /* the current C2HData has the flag SUCCESS */
};

enum character {
	CHARACTER_GOOD,
	CHARACTER_LIAR,	    /* sometimes sends an invalid PDU */
	CHARACTER_VANISHER, /* breaks connections at any byte */
	CHARACTER_SILENT,   /* stops sending, keep-alives included */
	CHARACTER_RESETTER, /* resets and shuts down at random times */
	CHARACTER_STRANGER, /* sends invalid Connects */
	CHARACTER_EVIL_COUNT,
	/* until sim.woken, hang.c */
	CHARACTER_STUCK = CHARACTER_EVIL_COUNT, /* sends all commands to the device that never completes */
	CHARACTER_SLOW_READER,			/* receives its large reads very slowly */
	CHARACTER_WITHHOLDER,			/* never sends the data requested by R2Ts */
	CHARACTER_SQUATTER,			/* opens silent connections, and controllers that it never enables */
	CHARACTER_COUNT,
};

enum host_state { HOST_AWAY, HOST_JOINING, HOST_RUNNING, HOST_DRAINING, HOST_LEAVING, HOST_DOOMED };

struct host {
	unsigned int index;
	enum character character;
	enum host_state state;
	char nqn[64];
	uint8_t id[16];
	const char *subnqn, *service;
	struct queue queues[QUEUES_MAX + 1]; /* the last one is for invalid Connects */
	unsigned int queue_count;	     /* number of I/O queues wanted */
	uint16_t cntlid;
	uint32_t kato; /* ms */
	uint64_t keep_alive_due, away_until, doomed_since;
	int stage;	       /* of joining and leaving; -1: the Connect is sent */
	bool waiting;	       /* for a response before the next stage */
	bool victim;	       /* the operator may exclude it ... */
	bool write_through;    /* it has switched the write cache off */
	bool forbidden;	       /* ... and has: failures are excused */
	bool barred;	       /* is being admitted again: waits for that */
	bool ends;	       /* does not reconnect */
	unsigned int refusals; /* consecutive connections that ended before the response to Connect */
	uint32_t to_do;	       /* number of I/Os before it leaves */
	uint32_t block_bytes[NAMESPACES];
	uint64_t block_count[NAMESPACES];
	bool ns_known[NAMESPACES];
	uint32_t aers;
	uint64_t answered, bytes_done; /* only commands to namespaces that do not hang */
	bool greedy;		       /* keeps its queues full of large reads */
};

extern struct host hosts[HOSTS_MAX];
extern unsigned int host_count;
extern struct disk *sim_disks[NAMESPACES]; /* NULL: backed by malloc */
/* Set by the operator: commands to this namespace may overlap its changes. */
extern bool ns_changes[NAMESPACES];
/* Writes to this namespace are lost: it reads as zeroes. */
extern bool ns_swallows[NAMESPACES];

/* ---- host.c: queues ---- */

void queue_open(struct queue *queue, struct host *host, uint16_t qid, uint16_t entries);
/* Receive PDUs, send data requested by R2Ts, detect the end. */
void queue_step(struct queue *queue);
/* Close it: commands in progress are lost. `reset`: abruptly, else orderly. */
void queue_drop(struct queue *queue, bool reset);
bool queue_is_well(const struct queue *queue); /* no reason for the target to close it */

/* Return NULL if the queue is full. */
struct cmd *cmd_new(struct queue *queue, uint8_t opcode, cmd_done_fn done);
/* Allocate the data buffer; `in_capsule`: data is sent in the capsule. */
void cmd_data(struct cmd *cmd, enum cmd_way way, uint32_t bytes, bool in_capsule);
void cmd_send(struct queue *queue, struct cmd *cmd);
void cmd_free(struct queue *queue, struct cmd *cmd);
/* Add an allowed status (after the first call success is not allowed). */
void cmd_may_end_with(struct cmd *cmd, uint16_t status);
struct cmd *cmd_connect(struct queue *queue, cmd_done_fn done);
/* Send up to `most` bytes of data requested by R2Ts, with the flag LAST at the end of an R2T. */
void cmd_give_data(struct queue *queue, struct cmd *cmd, uint32_t most);

/* ---- life.c ---- */

void host_init(struct host *host, unsigned int index, enum character character);
void host_step(struct host *host);
void hosts_describe(void); /* prints to stderr */
bool host_is_away(const struct host *host);
void host_doom(struct host *host, const char *why); /* expect all its connections to end; then it is AWAY */

/* ---- io.c ---- */

/* Send a random command on an I/O queue, or on the admin queue. False: not possible. */
bool io_send(struct queue *queue);
/* Send a large read or write to namespace `ns` (index). */
/* Is a command to the hung device in progress? */
bool io_has_hung(const struct queue *queue);
bool io_send_large(struct queue *queue, unsigned int ns, bool write);
bool admin_send(struct queue *queue);
/* Check `status` against the allowed statuses of the command; true for success. */
bool io_judge(struct queue *queue, struct cmd *cmd, uint16_t status);
/* Its connection has ended: its data may still be written. */
void io_lost(struct cmd *cmd);
void io_check_disk(unsigned int ns); /* at the end: check that the content is allowed by the ledger */

/* ---- hang.c ---- */

/* Give the hosts from `first` on characters that hang or are slow. */
void hang_choose(unsigned int first);
bool hang_is_bad(const struct host *host);
/* Before sim.woken: do a turn of a host with such a character. False: it has another character. */
bool hang_work(struct host *host);
/* Is this a command that may stay unanswered until sim.woken? */
bool hang_excuses(const struct queue *queue, const struct cmd *cmd);
/* Do a turn of the connections of squatters. */
void hang_step(void);
/* With `sim.calm`, while devices and hosts still hang: check that all other hosts and operator changes make progress. */
void hang_check_progress(void);
/* Wake what hangs, measure the same hosts again, and check that they had their share before. */
void hang_wake_and_check_shares(void);

/* ---- evil.c ---- */

void evil_pdu(struct host *host); /* send an invalid PDU on one of its queues */
/* send a command that must fail without affecting others; false: not possible now */
bool evil_command(struct queue *queue);
void evil_stranger(struct host *host);			 /* open a connection with an invalid Connect ... */
void evil_connect(struct queue *queue, struct cmd *cmd); /* ... which this fills */

#endif
