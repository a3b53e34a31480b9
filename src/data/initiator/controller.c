/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * controller - from an address to an enabled controller, and the admin commands that people ask for.
 *
 *      socket -> ICReq/ICResp -> Connect (queue 0) -> CAP, CC.EN = 0 -> CC.EN = 1, CSTS.RDY -> Identify -> Number of Queues
 *      and for each I/O queue pair: socket -> ICReq/ICResp -> Connect (queue n)
 *
 * This is a sequence of single commands; command_wait.c waits for each.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/text.h"
#include "data/initiator/internal.h"
#include "data/nvme/feature.h"
#include "data/nvme/identify.h"
#include "data/nvme/names.h"
#include "data/nvme/opcode.h"
#include "data/nvme/register.h"
#include "data/nvme/status.h"

enum {
	CONNECT_TIMEOUT_MS = 10000,
	COMMAND_TIMEOUT_MS = 30000,
	KEEP_ALIVE_MS = 15000,
	READY_POLL_MS = 1,
	SHUTDOWN_TIMEOUT_MS = 1000,
	IOSQES = 6, /* 64 bytes, as a power of two */
	IOCQES = 4, /* 16 bytes */
};

const char fathom_discovery_nqn[] = NVME_DISCOVERY_NQN;

void fathom_connect_options_init_bytes(struct fathom_connect_options *options, size_t bytes)
{
	const struct fathom_connect_options known = {
		.bytes = bytes,
		.service = "4420",
		.keep_alive_ms = KEEP_ALIVE_MS,
		.connect_timeout_ms = CONNECT_TIMEOUT_MS,
		.command_timeout_ms = COMMAND_TIMEOUT_MS,
		.io_queues = 16,
		.r2ts_max = 4,
	};

	memset(options, 0, bytes);
	memcpy(options, &known, min_u64(bytes, sizeof(known)));
}

static int property_get(struct fathom_controller *controller, enum nvme_property property, bool eight_bytes,
			const char *what, struct fathom_fault *why, uint64_t *value_ret)
{
	struct nvme_property_command get = {
		.opc = NVME_OPCODE_FABRICS,
		.fctype = NVME_FABRICS_PROPERTY_GET,
		.attrib = eight_bytes ? NVME_PROPERTY_8_BYTES : NVME_PROPERTY_4_BYTES,
		.ofst = property,
	};
	struct controller_command command = { .name = what };
	uint64_t value;
	int error;

	memcpy(&command.nvme, &get, sizeof(command.nvme));
	error = controller_admin(controller, &command, why, &value);
	if (!error)
		*value_ret = eight_bytes ? value : (uint32_t)value;
	return error;
}

static int property_set_cc(struct fathom_controller *controller, uint32_t cc, const char *what, struct fathom_fault *why)
{
	struct nvme_property_command set = {
		.opc = NVME_OPCODE_FABRICS,
		.fctype = NVME_FABRICS_PROPERTY_SET,
		.attrib = NVME_PROPERTY_4_BYTES,
		.ofst = NVME_PROPERTY_CC,
		.value = cc,
	};
	struct controller_command command = { .name = what };

	memcpy(&command.nvme, &set, sizeof(command.nvme));
	return controller_admin(controller, &command, why, NULL);
}

/* ---- Connect ---- */

/* Explain the status of a refused Connect, with the position of the parameter that the controller rejects. */
static int connect_refused(const struct fathom_controller *controller, const struct fathom_completion *completion,
			   struct fathom_fault *why)
{
	uint32_t raw = (uint32_t)completion->result;
	char where[64] = "";

	if (completion->status == NVME_SC_CONNECT_INVALID_PARAMETERS && (raw >> 16 & 0xff) == NVME_CONNECT_IATTR_DATA &&
	    (raw & 0xffff) == offsetof(struct nvme_connect_data, subnqn))
		return fault(why, -EIO, "%s port %s has no subsystem \"%s\" (status 0x%03x %s, SUBNQN)",
			     controller->address, controller->service, controller->info.subnqn, completion->status,
			     nvme_fabrics_status_name(completion->status));
	if (completion->status == NVME_SC_CONNECT_INVALID_PARAMETERS)
		snprintf(where, sizeof(where), ", byte %u of the %s", raw & 0xffff,
			 (raw >> 16 & 0xff) == NVME_CONNECT_IATTR_DATA ? "Connect data" : "command");
	return fault(why, completion->status == NVME_SC_CONNECT_INVALID_HOST ? -EACCES : -EIO,
		     "%s port %s refused to connect \"%s\" with status 0x%03x %s%s", controller->address,
		     controller->service, controller->info.subnqn, completion->status,
		     nvme_fabrics_status_name(completion->status), where);
}

/* Fabrics Connect of queue `qid`. The controller's identifier comes back for queue 0. */
static int connect_queue(struct fathom_controller *controller, struct fathom_qpair *qpair, uint16_t qid, uint16_t sqsize,
			 struct fathom_fault *why)
{
	struct nvme_connect connect = {
		.opc = NVME_OPCODE_FABRICS,
		.fctype = NVME_FABRICS_CONNECT,
		.qid = qid,
		.sqsize = sqsize,
		.cattr = controller->options.no_flow_control ? NVME_CATTR_DISABLE_SQFLOW : 0,
		.kato = qid == 0 ? controller->options.keep_alive_ms : 0,
	};
	struct nvme_connect_data data = { .cntlid = qid == 0 ? NVME_CNTLID_DYNAMIC : controller->info.cntlid };
	struct controller_command command = { .data = &data, .data_bytes = sizeof(data), .name = "Connect" };
	struct fathom_completion completion;
	int error;

	memcpy(data.hostid, controller->hostid, sizeof(data.hostid));
	memcpy(data.subnqn, controller->info.subnqn, sizeof(controller->info.subnqn));
	memcpy(data.hostnqn, controller->info.hostnqn, sizeof(controller->info.hostnqn));
	memcpy(&command.nvme, &connect, sizeof(command.nvme));
	error = controller_run(controller, qpair, &command, why, &completion);
	if (error)
		return error;
	if (completion.status)
		return connect_refused(controller, &completion, why);
	if (completion.result >> 16 & (NVME_AUTHREQ_ATR | NVME_AUTHREQ_ASCR))
		return fault(why, -EACCES, "the controller wants authentication, which this host does not know");
	if (qid == 0)
		controller->info.cntlid = (uint16_t)completion.result;
	return 0;
}

/* Open a socket, exchange ICReq and ICResp, and connect the queue. */
static int open_queue(struct fathom_controller *controller, uint16_t qid, uint32_t entries, uint32_t in_capsule_bytes,
		      struct fathom_fault *why, struct fathom_qpair **qpair_ret)
{
	const struct fathom_connect_options *options = &controller->options;
	struct qpair_params params = {
		.depth = entries - 1, /* a full queue of n entries holds n - 1 */
		.in_capsule_bytes = in_capsule_bytes,
		.r2ts_max = options->r2ts_max,
		.timeout_ms = options->command_timeout_ms,
		.data_align = options->data_align,
		.header_digest = options->header_digest,
		.data_digest = options->data_digest,
	};
	struct fathom_qpair *qpair;
	int fd, error;

	error = sock_connect(options, why, &fd);
	if (error)
		return error;
	error = qpair_open(fd, &params, &qpair);
	if (error)
		return fault(why, error, "out of memory for a queue pair");
	error = controller_wait_icresp(controller, qpair, why);
	if (!error)
		error = connect_queue(controller, qpair, qid, (uint16_t)(entries - 1), why);
	if (error)
		fathom_qpair_destroy(qpair);
	else
		*qpair_ret = qpair;
	return error;
}

/* ---- Enabling ---- */

/* Poll CSTS until RDY is as wanted. */
static int wait_ready(struct fathom_controller *controller, bool ready, struct fathom_fault *why)
{
	uint64_t patience_ms = max_u64(nvme_cap_to(controller->cap), 1) * 500;
	uint64_t until = clock_monotonic_ns() + patience_ms * NS_PER_MS;

	for (;;) {
		uint64_t csts;
		int error = property_get(controller, NVME_PROPERTY_CSTS, false, "reading CSTS", why, &csts);

		if (error)
			return error;
		if (csts & NVME_CSTS_CFS)
			return fault(why, -EIO, "the controller reports a fatal status (CSTS 0x%x)", (uint32_t)csts);
		if (!!(csts & NVME_CSTS_RDY) == ready)
			return 0;
		if (clock_monotonic_ns() >= until)
			return fault(why, -ETIMEDOUT, "the controller is not %s after %lu ms", ready ? "ready" : "reset",
				     (unsigned long)patience_ms);
		(void)poll(NULL, 0, READY_POLL_MS);
	}
}

static uint32_t cc_enabled(const struct fathom_controller *controller)
{
	return NVME_CC_EN | nvme_cap_mpsmin(controller->cap) << NVME_CC_MPS_SHIFT | IOSQES << NVME_CC_IOSQES_SHIFT |
	       IOCQES << NVME_CC_IOCQES_SHIFT;
}

static int enable_controller(struct fathom_controller *controller, struct fathom_fault *why)
{
	uint64_t cc, version;
	int error = property_get(controller, NVME_PROPERTY_CAP, true, "reading CAP", why, &controller->cap);

	if (!error)
		error = property_get(controller, NVME_PROPERTY_VS, false, "reading VS", why, &version);
	if (!error)
		error = property_get(controller, NVME_PROPERTY_CC, false, "reading CC", why, &cc);
	if (!error && cc & NVME_CC_EN) {
		error = property_set_cc(controller, (uint32_t)cc & ~(uint32_t)NVME_CC_EN, "disabling the controller", why);
		if (!error)
			error = wait_ready(controller, false, why);
	}
	if (!error)
		error = property_set_cc(controller, cc_enabled(controller), "enabling the controller", why);
	if (!error)
		error = wait_ready(controller, true, why);
	if (!error) {
		controller->info.version = (uint32_t)version;
		/* MQES is 0's based and one entry always stays empty. */
		controller->info.depth_max = (uint32_t)min_u64(nvme_cap_mqes(controller->cap), FATHOM_DEPTH_MAX);
	}
	return error;
}

void controller_trim(char *to, const char *from, size_t bytes)
{
	while (bytes > 0 && (from[bytes - 1] == ' ' || from[bytes - 1] == '\0'))
		bytes--;
	memcpy(to, from, bytes);
	to[bytes] = '\0';
}

int controller_identify(struct fathom_controller *controller, enum nvme_cns cns, uint32_t nsid, const char *what,
			struct fathom_fault *why)
{
	struct controller_command command = {
		.nvme = { .opc = NVME_ADMIN_IDENTIFY, .nsid = nsid, .cdw10 = cns },
		.data = controller->page,
		.data_bytes = NVME_IDENTIFY_BYTES,
		.name = what,
	};

	return controller_admin(controller, &command, why, NULL);
}

static int identify_controller(struct fathom_controller *controller, struct fathom_fault *why)
{
	const struct nvme_identify_controller *data = controller->page;
	struct fathom_controller_info *info = &controller->info;
	uint32_t page_shift = 12 + nvme_cap_mpsmin(controller->cap);
	int error = controller_identify(controller, NVME_CNS_CONTROLLER, 0, "Identify Controller", why);

	if (error)
		return error;
	controller_trim(info->serial, data->sn, sizeof(data->sn));
	controller_trim(info->model, data->mn, sizeof(data->mn));
	controller_trim(info->firmware, data->fr, sizeof(data->fr));
	info->discovery = data->cntrltype == NVME_CNTRLTYPE_DISCOVERY || strcmp(info->subnqn, fathom_discovery_nqn) == 0;
	if (data->mdts > 0 && data->mdts + page_shift < 32)
		info->transfer_bytes_max = 1u << (data->mdts + page_shift);
	if (data->ioccsz > NVME_COMMAND_BYTES / 16 && data->icdoff == 0)
		info->in_capsule_bytes = (uint32_t)min_u64((uint64_t)data->ioccsz * 16 - NVME_COMMAND_BYTES, INT32_MAX);
	info->optional_commands = data->oncs;
	info->volatile_cache = data->vwc & NVME_VWC_PRESENT;
	return 0;
}

static int ask_for_queues(struct fathom_controller *controller, struct fathom_fault *why)
{
	uint32_t less_1 = controller->options.io_queues - 1u;
	struct controller_command command = {
		.nvme = {
			.opc = NVME_ADMIN_SET_FEATURES,
			.cdw10 = NVME_FEATURE_NUMBER_OF_QUEUES,
			.cdw11 = less_1 << 16 | less_1,
		},
		.name = "Set Features, Number of Queues",
	};
	uint64_t result;
	int error;

	if (controller->info.discovery)
		return 0;
	error = controller_admin(controller, &command, why, &result);
	if (error)
		return error;
	controller->info.io_queues = (uint16_t)min_u64(min_u64(result & 0xffff, result >> 16 & 0xffff), less_1) + 1;
	return 0;
}

/* ---- The door ---- */

/* A random (version 4) UUID, for the host's name and identifier. */
static int make_up_host(const char *hostnqn, const uint8_t *hostid, char *to, uint8_t *hostid_ret)
{
	uint8_t id[FATHOM_HOSTID_BYTES];
	size_t used;

	if (getrandom(id, sizeof(id), 0) != sizeof(id))
		return -EIO;
	id[6] = (uint8_t)((id[6] & 0x0f) | 0x40);
	id[8] = (uint8_t)((id[8] & 0x3f) | 0x80);
	memcpy(hostid_ret, hostid ? hostid : id, sizeof(id));
	if (hostnqn) {
		memcpy(to, hostnqn, strlen(hostnqn) + 1);
		return 0;
	}
	used = (size_t)snprintf(to, FATHOM_NQN_BYTES, "%s", NVME_UUID_NQN_PREFIX);
	for (size_t i = 0; i < sizeof(id); i++)
		used += (size_t)snprintf(to + used, FATHOM_NQN_BYTES - used, "%s%02x",
					 i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", id[i]);
	must(used < FATHOM_NQN_BYTES);
	return 0;
}

/* Check a numeric port: getaddrinfo() wraps a number that is too large, and accepts a sign. Names are left to it. */
static int check_service(const char *service, struct fathom_fault *why)
{
	bool number = strspn(service, " \t+-0123456789") == strlen(service);
	uint64_t port;

	if (number && (text_parse_u64(service, 10, UINT16_MAX, &port) < 0 || port == 0))
		return fault(why, -EINVAL, "\"%.64s\" is no port: a port is a number from 1 to %d", service, UINT16_MAX);
	return 0;
}

static int check_options(const struct fathom_connect_options *options, struct fathom_fault *why)
{
	if (!options->address || !options->service || !options->subnqn)
		return fault(why, -EINVAL, "address, service and subsystem are needed");
	if (check_service(options->service, why) < 0)
		return -EINVAL;
	if (strlen(options->subnqn) > NVME_NQN_BYTES_MAX)
		return fault(why, -EINVAL, "the subsystem's name has more than %d bytes", NVME_NQN_BYTES_MAX);
	if (options->hostnqn && strlen(options->hostnqn) > NVME_NQN_BYTES_MAX)
		return fault(why, -EINVAL, "the host's name has more than %d bytes", NVME_NQN_BYTES_MAX);
	if (options->io_queues == 0)
		return fault(why, -EINVAL, "at least one I/O queue is needed");
	if (options->r2ts_max == 0 || options->r2ts_max > FATHOM_R2TS_MAX)
		return fault(why, -EINVAL, "R2Ts in flight: 1 to %d, not %u", FATHOM_R2TS_MAX, options->r2ts_max);
	if (options->data_align > NVME_TCP_PDA_MAX)
		return fault(why, -EINVAL, "data alignment: 0 to %d, not %u", NVME_TCP_PDA_MAX, options->data_align);
	return 0;
}

int controller_take_options(const struct fathom_connect_options *options, struct fathom_fault *why,
			    struct fathom_connect_options *taken_ret)
{
	struct fathom_connect_options taken;

	if (options->bytes < sizeof(options->bytes))
		return fault(why, -EINVAL, "options begin with fathom_connect_options_init()");
	fathom_connect_options_init(&taken);
	memcpy(&taken, options, min_u64(options->bytes, sizeof(taken)));
	taken.bytes = sizeof(taken);
	if (check_options(&taken, why) != 0)
		return -EINVAL;
	*taken_ret = taken;
	return 0;
}

static char *copy_word(const char *word, bool *failed)
{
	char *copy = word ? strdup(word) : NULL;

	*failed |= word && !copy;
	return copy;
}

int controller_words_copy(const struct fathom_connect_options *options, struct controller_words *words_ret)
{
	struct controller_words *words = words_ret;
	bool failed = false;

	*words = (struct controller_words){ .options = *options };
	words->options.address = words->address = copy_word(options->address, &failed);
	words->options.service = words->service = copy_word(options->service, &failed);
	words->options.subnqn = words->subnqn = copy_word(options->subnqn, &failed);
	words->options.hostnqn = words->hostnqn = copy_word(options->hostnqn, &failed);
	if (options->hostid) {
		memcpy(words->hostid, options->hostid, sizeof(words->hostid));
		words->options.hostid = words->hostid;
	}
	return failed ? -ENOMEM : 0;
}

void controller_words_free(struct controller_words *words)
{
	free(words->address);
	free(words->service);
	free(words->subnqn);
	free(words->hostnqn);
}

int controller_words_fix_host(struct controller_words *words)
{
	char hostnqn[FATHOM_NQN_BYTES];
	int error = make_up_host(words->options.hostnqn, words->options.hostid, hostnqn, words->hostid);

	if (error)
		return error;
	words->options.hostid = words->hostid;
	if (!words->hostnqn)
		words->options.hostnqn = words->hostnqn = strdup(hostnqn);
	return words->hostnqn ? 0 : -ENOMEM;
}

static int create_controller(const struct fathom_connect_options *options, struct fathom_fault *why,
			     struct fathom_controller **controller_ret)
{
	struct fathom_controller *controller = calloc(1, sizeof(*controller));

	if (!controller)
		return fault(why, -ENOMEM, "out of memory for a controller");
	controller->options = *options;
	controller->address = strdup(options->address);
	controller->service = strdup(options->service);
	/* the program's strings are borrowed for the call only; each queue pair needs these */
	controller->options.address = controller->address;
	controller->options.service = controller->service;
	controller->page = malloc(NVME_IDENTIFY_BYTES);
	memcpy(controller->info.subnqn, options->subnqn, strlen(options->subnqn) + 1);
	*controller_ret = controller;
	if (!controller->address || !controller->service || !controller->page)
		return fault(why, -ENOMEM, "out of memory for a controller");
	if (make_up_host(options->hostnqn, options->hostid, controller->info.hostnqn, controller->hostid) != 0)
		return fault(why, -EIO, "no random numbers for the host's name");
	return 0;
}

static void destroy_controller(struct fathom_controller *controller)
{
	fathom_qpair_destroy(controller->admin);
	free(controller->address);
	free(controller->service);
	free(controller->page);
	free(controller);
}

int fathom_connect(const struct fathom_connect_options *program_options, struct fathom_fault *why_door,
		   struct fathom_controller **controller_ret)
{
	struct fathom_connect_options taken, *options = &taken;
	struct fathom_controller *controller = NULL;
	struct fathom_fault *why = why_door;
	int error = controller_take_options(program_options, why, &taken);

	if (!error)
		error = create_controller(options, why, &controller);
	if (!error)
		error = open_queue(controller, 0, ADMIN_ENTRIES, ADMIN_IN_CAPSULE_BYTES, why, &controller->admin);
	if (!error)
		error = enable_controller(controller, why);
	if (!error)
		error = identify_controller(controller, why);
	if (!error)
		error = ask_for_queues(controller, why);
	if (error) {
		if (controller)
			destroy_controller(controller);
		return error;
	}
	controller->next_qid = 1;
	controller_set_keep_alive(controller, options->keep_alive_ms);
	*controller_ret = controller;
	return 0;
}

void fathom_disconnect(struct fathom_controller *controller)
{
	if (!controller)
		return;
	/* This may fail: closing the connection ends the association as well. */
	controller->options.connect_timeout_ms = SHUTDOWN_TIMEOUT_MS;
	(void)property_set_cc(controller, cc_enabled(controller) | NVME_CC_SHN_NORMAL << NVME_CC_SHN_SHIFT, "shutting down",
			      NULL);
	destroy_controller(controller);
}

const struct fathom_controller_info *fathom_controller_info(const struct fathom_controller *controller)
{
	return &controller->info;
}

struct fathom_qpair *fathom_controller_admin(struct fathom_controller *controller)
{
	return controller->admin;
}

static void on_kept_alive(void *ctx, const struct fathom_completion *completion)
{
	struct fathom_controller *controller = ctx;

	must(controller->keep_alive_sent);
	controller->keep_alive_sent = false;
}

void controller_set_keep_alive(struct fathom_controller *controller, uint32_t keep_alive_ms)
{
	controller->keep_alive_ticks = clock_ticks_from_ns(keep_alive_ms * NS_PER_MS) / 4;
	controller->keep_alive_late_ticks = controller->keep_alive_ticks * 3;
	controller->keep_alive_tick = clock_ticks();
}

/*
 * The caller polls first: an answer that waits in the socket is not late, however long ago the last poll was. A late answer
 * ends the admin queue pair only. Other queue pairs notice the loss themselves, or the program that polls this one acts.
 */
static int check_kept_alive(struct fathom_controller *controller)
{
	if (!controller->keep_alive_sent || clock_ticks() - controller->keep_alive_tick < controller->keep_alive_late_ticks)
		return 0;
	qpair_lose(controller->admin, -ETIMEDOUT, "the controller did not answer a keep alive within %u ms",
		   controller->options.keep_alive_ms / 4 * 3);
	return fathom_qpair_poll(controller->admin);
}

int fathom_controller_poll(struct fathom_controller *controller)
{
	struct nvme_command command = { .opc = NVME_ADMIN_KEEP_ALIVE };
	uint64_t now = clock_ticks();
	int error;

	if (controller->keep_alive_ticks && !controller->keep_alive_sent &&
	    now - controller->keep_alive_tick >= controller->keep_alive_ticks) {
		error = qpair_submit(controller->admin, &command, NULL, 0, on_kept_alive, controller);
		if (!error) {
			controller->keep_alive_sent = true;
			controller->keep_alive_tick = now;
		} else {
			maybe(error == -EAGAIN); /* tried again at the next poll; a lost connection is returned below */
		}
	}
	error = fathom_qpair_poll(controller->admin);
	if (error >= 0)
		error = check_kept_alive(controller);
	return error < 0 ? error : 0;
}

int fathom_qpair_create(struct fathom_controller *controller, uint32_t depth, struct fathom_fault *why_door,
			struct fathom_qpair **qpair_ret)
{
	struct fathom_fault *why = why_door;
	int error;

	if (depth == 0)
		return fault(why, -EINVAL, "depth 0");
	if (controller->next_qid > controller->info.io_queues)
		return fault(why, -ENOSPC, "the controller granted %u I/O queues", controller->info.io_queues);
	depth = (uint32_t)min_u64(depth, controller->info.depth_max);
	error = open_queue(controller, controller->next_qid, depth + 1, controller->info.in_capsule_bytes, why, qpair_ret);
	if (!error)
		controller->next_qid++;
	return error;
}
