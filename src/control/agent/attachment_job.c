/* SPDX-License-Identifier: BSD-2-Clause */
/* What blocks of an attachment: its record, the driver, the link. And the records at the start. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/inject/inject.h"
#include "base/log.h"
#include "control/agent/attachment.h"
#include "control/fault/fault.h"

enum { DEVICE_SECONDS = 30, LINK_SECONDS = 5 };

static void folder_of(const struct agent *agent, bool is_temporary, char path[static ATTACH_PATH_BYTES])
{
	const char *parent = is_temporary ? agent->config->runtime_dir : agent->config->state_dir;

	must(snprintf(path, ATTACH_PATH_BYTES, "%s/attachments", parent) < ATTACH_PATH_BYTES);
}

/* ---- on a worker thread ---- */

/* Write the record; a persistent one replaces the temporary one that was there before. */
static int write_record(struct attachment *attachment, const char *folder)
{
	struct fathom_fault *why = &attachment->job_why;
	char other[ATTACH_PATH_BYTES];
	int error = attach_record_write(folder, &attachment->record, why);

	if (error || attachment->is_temporary)
		return error;
	folder_of(attachment->agent, true, other);
	return attach_record_remove(other, attachment->record.uuid, why);
}

static int connect_volume(struct attachment *attachment, const char *folder)
{
	struct attach_host *host = attachment->agent->attachments.host;
	struct fathom_fault *why = &attachment->job_why;
	int error = write_record(attachment, folder);

	if (!error)
		error = attach_connect(host, &attachment->record, &attachment->options, &attachment->job_device, why);
	if (error)
		return error;
	attach_link_path(attachment->record.name, attachment->link_path);
	if (!attach_link_make(attachment->link_path, attachment->job_device.path, LINK_SECONDS * NS_PER_SEC))
		attachment->link_path[0] = '\0';
	return 0;
}

static int disconnect_volume(struct attachment *attachment, const char *folder)
{
	struct attach_host *host = attachment->agent->attachments.host;
	struct fathom_fault *why = &attachment->job_why;
	struct attach_device device;
	int error;

	if (!attachment->is_forced && attach_find(host, attachment->record.uuid, &device) == 0 &&
	    host->is_in_use(host, device.path))
		return fault_attachment_in_use(why, attachment->record.name, device.path);
	attachment->record.is_detaching = true;
	error = write_record(attachment, folder);
	if (error) {
		attachment->record.is_detaching = false;
		return error;
	}
	error = attach_disconnect(host, &attachment->record, attachment->is_forced, why);
	if (!error && attachment->link_path[0])
		attach_link_remove(attachment->link_path);
	return error;
}

void attachment_work(struct worker_job *job)
{
	struct attachment *attachment = container_of(job, struct attachment, job);
	char folder[ATTACH_PATH_BYTES];
	int error = inject(INJECT_ATTACH_STEP);

	must(attachment->is_working);
	if (error) {
		fill_fault(&attachment->job_why, error, "%s: %s", attachment->record.name, strerror(-error)); /* reported */
		return;
	}
	folder_of(attachment->agent, attachment->is_temporary, folder);
	switch (attachment->job_kind) {
	case ATTACHMENT_JOB_CONNECT:
		error = connect_volume(attachment, folder);
		break;
	case ATTACHMENT_JOB_DISCONNECT:
		error = disconnect_volume(attachment, folder);
		break;
	case ATTACHMENT_JOB_FORGET:
		error = attach_record_remove(folder, attachment->record.uuid, &attachment->job_why);
		break;
	}
	attachment->job_why.error = error;
}

/* ---- on the control thread ---- */

void attachment_worked(struct worker_job *job)
{
	struct attachment *attachment = container_of(job, struct attachment, job);
	struct agent *agent = attachment->agent;

	must(attachment->is_working);
	attachment->is_working = false;
	attachment_settle(attachment);
	agent_job_done(agent);
}

int attachment_read_options(struct attachment *attachment, struct fathom_fault *why)
{
	const struct agent_attach_config *config = &attachment->agent->config->attach;
	struct attach_options *options = &attachment->options;

	*options = (struct attach_options){
		.reconnect_delay_s = (uint32_t)(agent_duration_ns(config->reconnect_delay) / NS_PER_SEC),
		.keep_alive_s = (uint32_t)(agent_duration_ns(config->keep_alive) / NS_PER_SEC),
		.io_queues = (uint32_t)config->io_queues,
		.header_digest = config->header_digest,
		.data_digest = config->data_digest,
		.wait_ns = DEVICE_SECONDS * NS_PER_SEC,
	};
	return attach_read_host(config->host_nqn_file, config->host_id_file, options, why);
}

bool attachment_is_live(const struct attachment *attachment)
{
	return attach_live_controllers(attachment->agent->attachments.host, attachment->record.nqn) > 0;
}

struct resumption {
	struct agent *agent;
	bool is_temporary;
};

static void resume_record(void *ctx, const struct attach_record *record)
{
	const struct resumption *resumption = ctx;

	attachment_resume(resumption->agent, record, resumption->is_temporary);
}

static void report_record(void *ctx, const struct fathom_fault *why)
{
	agent_log_fault(LOG_LEVEL_ERROR, "", why);
}

int attachments_open(struct agent *agent, struct fathom_fault *why)
{
	agent->attachments.host = attach_host_system();
	for (int is_temporary = 0; is_temporary < 2; is_temporary++) {
		struct resumption resumption = { agent, is_temporary };
		char folder[ATTACH_PATH_BYTES];
		int error;

		folder_of(agent, is_temporary, folder);
		error = attach_folder_prepare(folder, why);
		if (!error)
			error = attach_records_read(folder, resume_record, report_record, &resumption, why);
		if (error)
			return error;
	}
	return 0;
}
