/* SPDX-License-Identifier: BSD-2-Clause */
/* Volumes, their snapshots and their hosts: `fathom volume`, `fathom host`. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "cmd/fathom/show/parts.h"
#include "cmd/fathom/show/show.h"
#include "control/hostlist/hostlist.h"

enum { LINE_BYTES = 640 };

/* ---- one volume ---- */

/* "resize to 2 GB since 2026-11-28 16:50:55: rank 1 is stopped"; "" if nothing is pending. */
static const char *pending_text(const struct fathom_control_volume *volume, char *text, size_t bytes)
{
	char since[SIZE_TEXT_BYTES];

	text[0] = '\0';
	if (volume->pending[0])
		snprintf(text, bytes, "%s since %s%s%s", volume->pending, time_text(volume->pending_ns, since),
			 volume->reason[0] ? ": " : "", volume->reason);
	return text;
}

static const char *state_text(const struct fathom_control_volume *volume, char *text, size_t bytes)
{
	bool has_reason = volume->reason[0] && !volume->pending[0]; /* else it is that of the pending change */
	char since[SIZE_TEXT_BYTES];

	snprintf(text, bytes, "%s since %s%s%s", volume->state, time_text(volume->since_ns, since), has_reason ? ": " : "",
		 has_reason ? volume->reason : "");
	return text;
}

static const char *place_text(const struct fathom_control_volume *volume, char *text, size_t bytes)
{
	char since[SIZE_TEXT_BYTES];

	if (volume->rank == FATHOM_CONTROL_NO_RANK)
		snprintf(text, bytes, "none yet");
	else
		snprintf(text, bytes, "rank %" PRIu32 " (%s)%s%s", volume->rank, state_title(volume->rank_state),
			 volume->asked_ns    ? ", as of "
			 : volume->reason[0] ? ", without an answer"
					     : "",
			 volume->asked_ns ? time_text(volume->asked_ns, since) : "");
	return text;
}

/* "least I/O, of 3 ranks: 90.0 GB free, 3 volumes (1 published), 12 operations and 4.1 MB in the minute before" */
static const char *placement_text(const struct fathom_control_volume *volume, char *text, size_t bytes)
{
	char size[SIZE_TEXT_BYTES], moved[SIZE_TEXT_BYTES];

	text[0] = '\0';
	if (volume->placed_of > 0)
		snprintf(text, bytes,
			 "%s, of %" PRIu32 " rank%s: %s free, %" PRIu32 " volume%s (%" PRIu32 " published), %" PRIu64
			 " operations and %s in the minute before",
			 volume->placed_by, volume->placed_of, volume->placed_of == 1 ? "" : "s",
			 size_text(volume->placed_free_bytes, size), volume->placed_volumes,
			 volume->placed_volumes == 1 ? "" : "s", volume->placed_published, volume->placed_operations,
			 size_text(volume->placed_bytes, moved));
	else
		snprintf(text, bytes, "%s", volume->placed_by);
	return text;
}

/* ", 3 GB of 10 GB allocated": a volume that becomes thick. */
static const char *allocation_text(const struct fathom_control_volume *volume, char *text, size_t bytes)
{
	char done[SIZE_TEXT_BYTES];

	text[0] = '\0';
	if (volume->allocating)
		snprintf(text, bytes, " (blocks are being allocated: %s done%s%.300s)",
			 size_text(volume->allocation_bytes, done), volume->allocation_reason[0] ? "; " : "",
			 volume->allocation_reason);
	return text;
}

static const char *kind_text(const struct fathom_control_volume *volume, char *text, size_t bytes)
{
	char size[SIZE_TEXT_BYTES], allocation[LINE_BYTES];

	snprintf(text, bytes, "%s (%" PRIu64 " bytes), %s%s, blocks of %" PRIu32 " bytes%s%s",
		 size_text(volume->size_bytes, size), volume->size_bytes, volume->thick ? "thick" : "thin",
		 allocation_text(volume, allocation, sizeof(allocation)), volume->block_bytes,
		 volume->checksums ? ", with checksums" : "", volume->read_only ? ", read-only" : "");
	return text;
}

void show_volume(const struct fathom_control_volume *volume, FILE *out)
{
	char title[LINE_BYTES], state[LINE_BYTES], pending[LINE_BYTES], place[128], kind[2 * LINE_BYTES];
	char placement[LINE_BYTES], addresses[CELL_BYTES];
	char allocated[SIZE_TEXT_BYTES], created[SIZE_TEXT_BYTES];
	const char *const all[][2] = {
		{ "Description", volume->description },
		{ "UUID", volume->uuid },
		{ "State", state_text(volume, state, sizeof(state)) },
		{ "Pending", pending_text(volume, pending, sizeof(pending)) },
		{ "Place", place_text(volume, place, sizeof(place)) },
		{ "Placed by", placement_text(volume, placement, sizeof(placement)) },
		{ "Domain", volume->domain },
		{ "Size", kind_text(volume, kind, sizeof(kind)) },
		{ "Allocated", volume->asked_ns ? size_text(volume->allocated_bytes, allocated) : "" },
		{ "Created", time_text(volume->created_ns, created) },
		{ "Clone of", volume->origin },
		{ "NQN", volume->nqn },
		{ "Addresses",
		  volume->address_count ? joined_text(volume->addresses, volume->address_count, addresses) : "" },
	};
	const char *pairs[2 * ARRAY_COUNT(all)];
	size_t count = 0;

	for (size_t i = 0; i < ARRAY_COUNT(all); i++) {
		if (!all[i][1][0])
			continue;
		pairs[2 * count] = all[i][0];
		pairs[2 * count + 1] = all[i][1];
		count++;
	}
	snprintf(title, sizeof(title), "Volume %s", volume->name);
	entity_print(title, pairs, count, 0, out);
}

void show_volume_details(const struct fathom_control_volumes *volumes, FILE *out)
{
	for (size_t i = 0; i < volumes->count; i++) {
		const struct fathom_control_volume *volume = &volumes->volumes[i];

		show_volume(volume, out);
		if (volume->host_count > 0) {
			fputc('\n', out);
			table_of_volume_host(volume->hosts, volume->host_count, 0, 0, out);
		}
		if (volume->snapshot_count > 0) {
			fputc('\n', out);
			table_of_snapshot(volume->snapshots, volume->snapshot_count, 0, 0, out);
		}
	}
}

void show_destroyed_volume(const struct fathom_control_volume *volume, const char *name, FILE *out)
{
	if (volume->name[0] && strcmp(volume->state, "destroyed") != 0)
		show_volume(volume, out);
	else
		fprintf(out, "Volume %s is destroyed\n", name);
}

/* ---- properties ---- */

static const char *on_off(bool is_on)
{
	return is_on ? "on" : "off";
}

static const char *thick_value(const struct fathom_control_volume *volume)
{
	return on_off(volume->thick);
}

static const char *checksums_value(const struct fathom_control_volume *volume)
{
	return on_off(volume->checksums);
}

static const char *read_only_value(const struct fathom_control_volume *volume)
{
	return on_off(volume->read_only);
}

static const char *description_value(const struct fathom_control_volume *volume)
{
	return volume->description;
}

static const struct property {
	const char *name;
	const char *(*value)(const struct fathom_control_volume *volume);
} properties[] = {
	{ "thick", thick_value },
	{ "checksums", checksums_value },
	{ "read-only", read_only_value },
	{ "description", description_value },
};

static bool is_named(const char *name, char *const *names, size_t count)
{
	bool is_found = count == 0; /* all */

	for (size_t i = 0; i < count; i++)
		is_found = is_found || strcmp(names[i], name) == 0;
	return is_found;
}

const char *find_unknown_property(char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		size_t at = 0;

		while (at < ARRAY_COUNT(properties) && strcmp(properties[at].name, names[i]) != 0)
			at++;
		if (at == ARRAY_COUNT(properties))
			return names[i];
	}
	return NULL;
}

void show_volume_properties(const struct fathom_control_volume *volume, char *const *names, size_t count, FILE *out)
{
	static const char *const titles[] = { "Property", "Value" };
	struct table *table = titled(titles, ARRAY_COUNT(titles));

	for (size_t i = 0; i < ARRAY_COUNT(properties); i++) {
		if (is_named(properties[i].name, names, count))
			add_row(table, (const char *[]){ properties[i].name, properties[i].value(volume) });
	}
	table_print(table, 0, out);
	table_destroy(table);
}

json_t *json_volume_properties(const struct fathom_control_volume *volume, char *const *names, size_t count)
{
	json_t *object = json_object();

	for (size_t i = 0; i < ARRAY_COUNT(properties); i++) {
		if (is_named(properties[i].name, names, count))
			put_text(object, properties[i].name, properties[i].value(volume));
	}
	return object;
}

/* ---- publish ---- */

/* The commands by which `host` connects. */
static void show_connect(const struct fathom_control_volume *volume, const char *host, FILE *out)
{
	for (size_t i = 0; i < volume->address_count; i++) {
		struct host_set *set = NULL; /* from a server, so it may be invalid */
		struct host_address address;

		if (host_set_parse(volume->addresses[i], &set, NULL) == 0 && host_set_count(set) == 1) {
			host_address(host_set_at(set, 0), 0, &address);
			fprintf(out, "  nvme connect -t tcp -a %s -s %u -n %s --hostnqn %s\n", address.host, address.port,
				volume->nqn, host);
		}
		host_set_destroy(set);
	}
}

void show_published(const struct fathom_control_volume *volume, const char *host, FILE *out)
{
	show_volume(volume, out);
	if (volume->address_count > 0)
		fprintf(out, "\nOn the host, as root, with the package nvme-cli:\n  modprobe nvme-tcp\n");
	show_connect(volume, host, out);
}

void show_moved(const struct fathom_control_volume *volume, FILE *out)
{
	show_volume(volume, out);
	for (size_t i = 0; i < volume->host_count && volume->address_count > 0; i++) {
		const struct fathom_control_volume_host *host = &volume->hosts[i];

		if (host->machine[0]) {
			fprintf(out, "\nThe agent of %s connects %s to the new address by itself.\n", host->machine,
				host->nqn);
			continue;
		}
		fprintf(out, "\nOn host %s, as root:\n", host->nqn);
		show_connect(volume, host->nqn, out);
	}
}

/* ---- lists ---- */

static size_t count_connected(const struct fathom_control_volume *volume)
{
	size_t count = 0;

	for (size_t i = 0; i < volume->host_count; i++)
		count += volume->hosts[i].connections > 0;
	return count;
}

void show_volumes(const struct fathom_control_volumes *volumes, FILE *out)
{
	static const char *const titles[] = { "Volume", "Size",	     "Allocated", "State",
					      "Rank",	"Connected", "Snapshots", "Pending" };
	struct table *table = titled(titles, ARRAY_COUNT(titles));

	for (size_t i = 0; i < volumes->count; i++) {
		const struct fathom_control_volume *volume = &volumes->volumes[i];
		char texts[4][SIZE_TEXT_BYTES], hosts[64], pending[LINE_BYTES];

		snprintf(hosts, sizeof(hosts), "%zu of %zu", count_connected(volume), volume->host_count);
		add_row(table, (const char *[]){ volume->name, size_text(volume->size_bytes, texts[0]),
						 size_text(volume->allocated_bytes, texts[1]), volume->state,
						 rank_text(volume->rank, texts[2]), hosts,
						 number_text(volume->snapshot_count, texts[3]),
						 volume->pending[0] ? pending_text(volume, pending, sizeof(pending))
								    : volume->reason });
	}
	if (volumes->count > 0)
		table_print(table, 0, out);
	else
		fprintf(out, "No volumes\n");
	table_destroy(table);
}

void show_snapshots(const struct fathom_control_volumes *volumes, FILE *out)
{
	for (size_t i = 0; i < volumes->count; i++) {
		const struct fathom_control_volume *volume = &volumes->volumes[i];

		fprintf(out, "%sVolume %s: %s\n", i > 0 ? "\n" : "", volume->name,
			plural(volume->snapshot_count, "snapshot"));
		if (volume->snapshot_count > 0)
			table_of_snapshot(volume->snapshots, volume->snapshot_count, 0, 0, out);
	}
}

/* ---- hosts ---- */

/* A host and one of its volumes. */
struct attachment {
	const struct fathom_control_volume_host *host;
	const struct fathom_control_volume *volume;
};

static int compare_attachments(const void *a, const void *b)
{
	const struct attachment *left = a, *right = b;
	int order = strcmp(left->host->nqn, right->host->nqn);

	return order ? order : strcmp(left->volume->name, right->volume->name);
}

/* All attachments of `host` (NULL: of all hosts), by host and volume. The caller frees them. */
static struct attachment *find_attachments(const struct fathom_control_volumes *volumes, const char *host,
					   size_t *count_ret)
{
	struct attachment *found;
	size_t count = 0;

	for (size_t i = 0; i < volumes->count; i++)
		count += volumes->volumes[i].host_count;
	found = calloc(count + 1, sizeof(*found));
	must(found);
	count = 0;
	for (size_t i = 0; i < volumes->count; i++) {
		const struct fathom_control_volume *volume = &volumes->volumes[i];

		for (size_t k = 0; k < volume->host_count; k++) {
			if (!host || strcmp(host, volume->hosts[k].nqn) == 0)
				found[count++] = (struct attachment){ &volume->hosts[k], volume };
		}
	}
	qsort(found, count, sizeof(*found), compare_attachments);
	*count_ret = count;
	return found;
}

void show_hosts(const struct fathom_control_volumes *volumes, const char *host, FILE *out)
{
	static const char *const titles[] = { "Host", "Volume", "Rank", "Connections", "Since", "Address", "As of" };
	struct table *table = titled(titles, ARRAY_COUNT(titles));
	size_t count;
	struct attachment *found = find_attachments(volumes, host, &count);

	for (size_t i = 0; i < count; i++) {
		const struct fathom_control_volume_host *from = found[i].host;
		char texts[4][SIZE_TEXT_BYTES];

		add_row(table,
			(const char *[]){ i > 0 && strcmp(found[i - 1].host->nqn, from->nqn) == 0 ? "" : from->nqn,
					  found[i].volume->name, rank_text(found[i].volume->rank, texts[0]),
					  found[i].volume->asked_ns ? number_text(from->connections, texts[1]) : "unknown",
					  time_text(from->since_ns, texts[2]), from->address[0] ? from->address : "-",
					  time_text(found[i].volume->asked_ns, texts[3]) });
	}
	if (count > 0)
		table_print(table, 0, out);
	else if (host)
		fprintf(out, "No volume is published to %s\n", host);
	else
		fprintf(out, "No hosts\n");
	table_destroy(table);
	free(found);
}

json_t *json_hosts(const struct fathom_control_volumes *volumes, const char *host)
{
	json_t *response = json_object(), *hosts = json_array(), *list = NULL;
	size_t count;
	struct attachment *found = find_attachments(volumes, host, &count);

	for (size_t i = 0; i < count; i++) {
		const struct fathom_control_volume_host *from = found[i].host;
		json_t *volume = json_object();

		if (i == 0 || strcmp(found[i - 1].host->nqn, from->nqn) != 0) {
			json_t *entry = json_object();

			list = json_array();
			put_text(entry, "nqn", from->nqn);
			put(entry, "volumes", list);
			append(hosts, entry);
		}
		put_text(volume, "name", found[i].volume->name);
		put_text(volume, "uuid", found[i].volume->uuid);
		put_number(volume, "rank", found[i].volume->rank);
		put_number(volume, "connections", from->connections);
		put_number(volume, "since_ns", from->since_ns);
		put_text(volume, "address", from->address);
		put_number(volume, "asked_ns", found[i].volume->asked_ns);
		append(list, volume);
	}
	put(response, "hosts", hosts);
	free(found);
	return response;
}
