/* SPDX-License-Identifier: BSD-2-Clause */
/* attachment - one attachment, shared by attachments.c (its states) and attachment_job.c (what blocks). */
#ifndef CONTROL_AGENT_ATTACHMENT_H
#define CONTROL_AGENT_ATTACHMENT_H

#include "control/agent/internal.h"

enum attachment_job {
	ATTACHMENT_JOB_CONNECT,	   /* write the record, connect, wait for the device, link it */
	ATTACHMENT_JOB_DISCONNECT, /* mark the record, remove the link, disconnect */
	ATTACHMENT_JOB_FORGET,	   /* remove the record */
};

struct attachment {
	struct trace_object trace;
	enum attachment_state state;
	TAILQ_ENTRY(attachment) link;
	struct agent *agent;
	struct attach_record record;
	bool is_temporary;
	bool is_new;			 /* it was never attached: a failure withdraws it */
	bool is_withdrawn;		 /* its first attempt failed: until the service confirms that it is not published */
	bool is_forced;			 /* detach although it is in use, or cannot be unpublished */
	struct drpc_call *call;		 /* waits for the end; NULL: none */
	uint64_t end_ns;		 /* of the time for the calls under way */
	struct fathom_fault why;	 /* why it waits; error 0: nothing */
	struct fathom_fault publish_why; /* of the last publish; error 0: it succeeded */
	uint32_t failures;		 /* in a row */
	struct deadline due;
	struct attach_device device; /* path "": not known */
	char link_path[ATTACH_LINK_BYTES];
	struct attach_options options;
	/* calls under way */
	Fathom__VolumePublishReq publish;
	Fathom__VolumeUnpublishReq unpublish;
	Auth__Credential *credential; /* of the call under way; NULL: none */
	bool is_unpublish;	      /* of the call under way */
	service_done_fn ask_done;
	uint64_t ask_ns; /* time for it */
	char asked[ATTACH_NAME_BYTES];
	/* the job; while is_working, the worker thread has these and `record`, `options`, `link_path` */
	struct worker_job job;
	bool is_working;
	enum attachment_job job_kind;
	struct fathom_fault job_why; /* error 0: it succeeded */
	struct attach_device job_device;
};

/* ---- attachment_publish.c ---- */

/*
 * Ask for the publication of the volume, in the name of root of this host. `done` is called once with the attachment,
 * later, or here if it fails at once.
 */
void attachment_ask_publish(struct attachment *attachment, uint64_t timeout_ns, service_done_fn done);
/* The same for unpublishing it. The options have the host's NQN. */
void attachment_ask_unpublish(struct attachment *attachment, uint64_t timeout_ns, service_done_fn done);
/* Take what the answer says about the volume. False: it is another volume, or not valid. */
MUST_CHECK bool attachment_take_volume(struct attachment *attachment, const Fathom__Volume *volume);

/* ---- attachment_job.c ---- */

void attachment_work(struct worker_job *job);	/* on a worker thread */
void attachment_worked(struct worker_job *job); /* then back here */
/* Read this host's NQN and the configuration into its options. Errors (explained): host_nqn_missing. */
MUST_CHECK int attachment_read_options(struct attachment *attachment, struct fathom_fault *why);
/* Whether the kernel has a connection that works. */
bool attachment_is_live(const struct attachment *attachment);

/* ---- attachment_show.c ---- */

/* "attached", "waiting" ... */
const char *attachment_state_word(const struct attachment *attachment);
void attachment_reply(struct drpc_call *call, const struct attachment *attachment);
void attachment_reply_fault(struct drpc_call *call, const struct fathom_fault *why);

/* ---- attachments.c ---- */

/* The job has ended, or could not start. May free the attachment. */
void attachment_settle(struct attachment *attachment);
/* Take up the attachment of a record. */
void attachment_resume(struct agent *agent, const struct attach_record *record, bool is_temporary);

#endif
