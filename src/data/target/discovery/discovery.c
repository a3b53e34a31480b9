/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * discovery - the discovery log: addresses of the subsystems that a host may use.
 *
 * It has one entry for each listener of each active subsystem that allows the host, and one for the discovery subsystem at
 * each listening address, so that a host can reconnect. Entries have the same port id if and only if they have the same
 * address. An address that is being opened or closed is not shown. The generation counts all changes that can affect the
 * log. A host that reads the log in parts must restart if the generation changed.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "data/target/controller/controller.h"

void nvmf_discovery_changed(void)
{
	struct nvmf_ctrlr *ctrlr;

	must_be_on(thread_control());
	nvmf_tgt.discovery_generation++;
	if (!nvmf_tgt.discovery)
		return;
	TAILQ_FOREACH (ctrlr, &nvmf_tgt.discovery->ctrlrs, link)
		nvmf_ctrlr_send_event(ctrlr, NVMF_EVENT_DISCOVERY_CHANGED, 0);
}

static void put_text(char *field, size_t bytes, const char *text)
{
	size_t length = strnlen(text, bytes);

	memset(field, ' ', bytes);
	memcpy(field, text, length);
}

/* For a listener at the wildcard address, the entry shows the local address of the host's connection. */
static bool is_wildcard(const struct nvmf_address *address)
{
	return strcmp(address->traddr, "0.0.0.0") == 0 || strcmp(address->traddr, "::") == 0;
}

static void fill_entry(struct nvme_discovery_entry *entry, const struct nvmf_subsystem *subsystem,
		       const struct nvmf_listen *listen, const char *local_address)
{
	const struct nvmf_address *address = &listen->address;
	const char *traddr = is_wildcard(address) ? local_address : address->traddr;
	const char *nqn = subsystem->options.nqn;
	bool discovery = subsystem->type == NVMF_SUBSYSTEM_DISCOVERY;

	entry->trtype = NVME_TRTYPE_TCP;
	entry->adrfam = strcasecmp(address->adrfam, "IPv6") == 0 ? NVME_ADRFAM_IPV6 : NVME_ADRFAM_IPV4;
	entry->subtype = discovery ? NVME_SUBTYPE_DISCOVERY_CURRENT : NVME_SUBTYPE_NVM;
	entry->treq = NVME_TREQ_SECURE_NOT_REQUIRED | NVME_TREQ_DISABLE_SQFLOW;
	entry->portid = listen->port_id;
	entry->cntlid = NVME_DISCOVERY_CNTLID_DYNAMIC;
	entry->asqsz = (uint16_t)nvmf_transport_rules()->max_aq_depth;
	if (discovery)
		entry->eflags = NVME_DISCOVERY_EFLAG_PERSISTENT | NVME_DISCOVERY_EFLAG_DUPLICATE;
	must(strlen(traddr) <= sizeof(entry->traddr));
	must(strlen(address->trsvcid) <= sizeof(entry->trsvcid));
	put_text(entry->trsvcid, sizeof(entry->trsvcid), address->trsvcid);
	put_text(entry->traddr, sizeof(entry->traddr), traddr);
	must(strlen(nqn) < sizeof(entry->subnqn));
	memcpy(entry->subnqn, nqn, strlen(nqn));
	entry->tsas.tcp_sectype = NVME_TCP_SECTYPE_NONE;
}

static bool is_shown(const struct nvmf_subsystem *subsystem, const char *host_nqn)
{
	if (subsystem->type == NVMF_SUBSYSTEM_DISCOVERY || subsystem->destroying)
		return false;
	if (subsystem->state == NVMF_SUBSYSTEM_INACTIVE || subsystem->state == NVMF_SUBSYSTEM_DEACTIVATING)
		return false;
	return nvmf_subsystem_host_allowed(subsystem, host_nqn);
}

/* Write the entries to `entries`, or only count them if it is NULL. Returns the number. */
static size_t list_entries(struct nvme_discovery_entry *entries, const char *host_nqn, const char *local_address)
{
	const struct nvmf_subsystem *subsystem;
	const struct nvmf_listener *listener;
	const struct nvmf_listen *listen;
	size_t count = 0;

	TAILQ_FOREACH (listen, &nvmf_tgt.listens, link) {
		if (listen->busy)
			continue;
		if (entries)
			fill_entry(&entries[count], nvmf_tgt.discovery, listen, local_address);
		count++;
	}
	TAILQ_FOREACH (subsystem, &nvmf_tgt.subsystems, link) {
		if (!is_shown(subsystem, host_nqn))
			continue;
		TAILQ_FOREACH (listener, &subsystem->listeners, link) {
			if (!listener->listen)
				continue;
			if (entries)
				fill_entry(&entries[count], subsystem, listener->listen, local_address);
			count++;
		}
	}
	return count;
}

struct nvme_discovery_log *nvmf_discovery_log(const char *host_nqn, const char *local_address, const char *local_service,
					      size_t *bytes_ret)
{
	size_t count = nvmf_tgt.discovery ? list_entries(NULL, host_nqn, local_address) : 0;
	size_t bytes = NVME_DISCOVERY_HEADER_BYTES + count * NVME_DISCOVERY_ENTRY_BYTES;
	struct nvme_discovery_log *log = nvmf_alloc(bytes);

	must_be_on(thread_control());
	must(bytes % NVME_DISCOVERY_ENTRY_BYTES == 0);
	log->genctr = nvmf_tgt.discovery_generation;
	log->numrec = count;
	log->recfmt = 0;
	if (count > 0)
		must(list_entries((struct nvme_discovery_entry *)(log + 1), host_nqn, local_address) == count);
	*bytes_ret = bytes;
	return log;
}
