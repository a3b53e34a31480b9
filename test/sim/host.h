/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * host - a model of an NVMe/TCP host. A queue is a connection and the commands under way on it; what comes back is held
 * against what the specification lets the target send. A host is an admin queue, I/O queues, and a character.
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
	HOSTS_USUAL = 4, /* where nothing hangs for ever */
	QUEUES_MAX = 4,	 /* of a host, the admin queue included */
	CMDS_MAX = 128,
	NAMESPACES = 4, /* nsid 1 ... on disk 0 ... */
	HUNG_NS = 3,	/* index; its disk never answers; there only if sim.hangs */
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
	uint32_t arrived;      /* of data from the target */
	uint32_t asked, given; /* of data to it: by R2Ts, and sent */
	uint16_t ttag;
	bool bad_digest, spoiled; /* one of its data digests is to be wrong; was */
	bool no_answer;		  /* an AER: may wait for ever */
	bool short_ok;		  /* fewer bytes than asked for are no error */
	bool may_abort;		  /* an Abort has been sent for it, or for one before it with its CID */
	uint32_t aborts;	  /* Aborts under way for this CID */
	struct cmd *victim;	  /* Abort */
	bool fua;
	uint64_t since; /* event of the ledger */
	uint64_t tick;
	cmd_done_fn done;
	/* I/O */
	unsigned int ns; /* index; NAMESPACES: none */
	uint64_t first, count;
	uint64_t write; /* the ledger's; 0: none */
	uint64_t stamp;
	uint64_t ranges[8][3]; /* Dataset Management: first, count, write */
	uint32_t range_count;
	/* what it must end with; none: success, or what its surroundings excuse */
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
	bool may_end;	     /* the target may close it: we, or the operator, have given it a reason */
	bool must_end;	     /* it has to */
	bool stranger;	     /* its Connect is bad */
	bool overruns;	     /* more commands than it has entries are sent on it */
	bool lingers;	     /* does not close when the target says that it is over */
	bool silent;	     /* nothing is sent or read any more */
	uint8_t term_fes[3]; /* TermReqs that would be right; 0: none */
	int term_fei;	     /* -1: any */
	bool got_term, term_over;
	struct pdu_decoder decoder;
	struct pdu_terms terms;
	uint8_t hpda;
	uint32_t maxr2t, data_pdu_max;
	struct cmd cmds[CMDS_MAX];
	uint16_t cid_base;
	uint32_t in_flight; /* AERs included */
	uint32_t commands_sent, responses;
	struct cmd *receiving;
	uint64_t last_sent;
	cmd_done_fn connected; /* with the Connect's response */
	bool success;	       /* the C2HData that comes is the response, too */
};

enum character {
	CHARACTER_GOOD,
	CHARACTER_LIAR,	    /* sends a bad PDU now and then */
	CHARACTER_VANISHER, /* breaks connections at any byte */
	CHARACTER_SILENT,   /* stops sending, keep-alives included */
	CHARACTER_RESETTER, /* CC.EN = 0, shutdown in the middle of things */
	CHARACTER_STRANGER, /* bad Connects */
	CHARACTER_EVIL_COUNT,
	/* until sim.woken, hang.c */
	CHARACTER_STUCK = CHARACTER_EVIL_COUNT, /* all its commands go to the device that never answers */
	CHARACTER_SLOW_READER,			/* its large reads come in drop by drop */
	CHARACTER_WITHHOLDER,			/* never sends the data that R2Ts ask for */
	CHARACTER_SQUATTER,			/* connections without a word, controllers that it never enables */
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
	struct queue queues[QUEUES_MAX + 1]; /* the last is for strangers */
	unsigned int queue_count;	     /* wanted */
	uint16_t cntlid;
	uint32_t kato; /* ms */
	uint64_t keep_alive_due, away_until, doomed_since;
	int stage;	       /* of joining and leaving; -1: the Connect is out */
	bool waiting;	       /* for an answer before the next stage */
	bool victim;	       /* the operator may shut it out ... */
	bool write_through;    /* it has switched the write cache off */
	bool forbidden;	       /* ... and has: what it meets is excused */
	bool barred;	       /* is being let in again: waits for that */
	bool ends;	       /* does not come back */
	unsigned int refusals; /* connections in a row that ended before its Connect was answered */
	uint32_t to_do;	       /* I/Os before it leaves */
	uint32_t block_bytes[NAMESPACES];
	uint64_t block_count[NAMESPACES];
	bool ns_known[NAMESPACES];
	uint32_t aers;
	uint64_t answered, bytes_done; /* of commands to namespaces that do not hang */
	bool greedy;		       /* its queues are always full of large reads */
};

extern struct host hosts[HOSTS_MAX];
extern unsigned int host_count;
extern struct disk *sim_disks[NAMESPACES]; /* NULL: malloc behind it */
/* Set by the operator: commands to this namespace may meet any of its changes. */
extern bool ns_changes[NAMESPACES];
/* What is written there is lost: it reads as zeroes. */
extern bool ns_swallows[NAMESPACES];

/* ---- host.c: queues ---- */

void queue_open(struct queue *queue, struct host *host, uint16_t qid, uint16_t entries);
/* Receive, send what R2Ts asked for, notice the end. */
void queue_step(struct queue *queue);
/* Let go of it: commands under way are lost. `reset` or an orderly end. */
void queue_drop(struct queue *queue, bool reset);
bool queue_is_well(const struct queue *queue); /* nothing excuses its end */

/* NULL: as many are under way as the queue takes. */
struct cmd *cmd_new(struct queue *queue, uint8_t opcode, cmd_done_fn done);
/* Room for data; in the capsule if `in_capsule`. */
void cmd_data(struct cmd *cmd, enum cmd_way way, uint32_t bytes, bool in_capsule);
void cmd_send(struct queue *queue, struct cmd *cmd);
void cmd_free(struct queue *queue, struct cmd *cmd);
/* One more status that it may end with (the first call says: and no success). */
void cmd_may_end_with(struct cmd *cmd, uint16_t status);
struct cmd *cmd_connect(struct queue *queue, cmd_done_fn done);
/* Send up to `most` bytes of data that R2Ts asked for; `last`-flagged at the end of an R2T. */
void cmd_give_data(struct queue *queue, struct cmd *cmd, uint32_t most);

/* ---- life.c ---- */

void host_init(struct host *host, unsigned int index, enum character character);
void host_step(struct host *host);
void hosts_describe(void); /* on stderr */
bool host_is_away(const struct host *host);
void host_doom(struct host *host, const char *why); /* all its connections must or may end; then it is away */

/* ---- io.c ---- */

/* Send a random command on an I/O queue, or on the admin queue. False: it could not. */
bool io_send(struct queue *queue);
/* A large read or write to namespace `ns` (index). */
/* A command to the device that hangs is under way. */
bool io_has_hung(const struct queue *queue);
bool io_send_large(struct queue *queue, unsigned int ns, bool write);
bool admin_send(struct queue *queue);
/* Hold `status` against what the command may end with; true for success. */
bool io_judge(struct queue *queue, struct cmd *cmd, uint16_t status);
/* Its connection has gone: what it wrote may still be written. */
void io_lost(struct cmd *cmd);
void io_check_disk(unsigned int ns); /* at the end: what lies there is what the ledger allows */

/* ---- hang.c ---- */

/* Give this seed's hosts from `first` on characters that hang or crawl. */
void hang_choose(unsigned int first);
bool hang_is_bad(const struct host *host);
/* Before sim.woken: what a host of such a character does instead of its work. False: it has none. */
bool hang_work(struct host *host);
/* A command that may stay without an answer until sim.woken. */
bool hang_excuses(const struct queue *queue, const struct cmd *cmd);
/* Connections that squatters keep. */
void hang_step(void);
/* In calm, while all of it still hangs: every other host, and every change by the operator, makes progress. */
void hang_check_progress(void);
/* Wake it, see what the same hosts reach without it: they must have had their share before. */
void hang_wake_and_check_shares(void);

/* ---- evil.c ---- */

void evil_pdu(struct host *host);	/* a bad PDU on one of its queues */
bool evil_command(struct queue *queue); /* a command that must fail and harm no other; false: not possible now */
void evil_stranger(struct host *host);	/* a connection with a bad Connect ... */
void evil_connect(struct queue *queue, struct cmd *cmd); /* ... which is this */

#endif
