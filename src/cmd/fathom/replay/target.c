/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * target - connects to the target as the hosts of the recording did: a controller for each host, a queue pair for each
 * queue. Where the target grants fewer queue pairs, or a host had more than HOST_QUEUES_MAX connections, queues of a host
 * share them.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cmd/fathom/replay/replay.h"

enum {
	ROUND_TRIPS = 64,
	ROUND_TRIP_WAIT_MS = 100,
	HOST_QUEUES_MAX = 64,
	GET_FEATURES = 0x0a,
	FEATURE_QUEUES = 0x07,
};

/* ---- namespaces ---- */

static bool names_device(const struct replay_map *map, uint32_t index, const struct replay_device *device)
{
	char digits[16];

	snprintf(digits, sizeof(digits), "%" PRIu32, index + 1);
	return strcmp(map->device, digits) == 0 || (device->name[0] && strcmp(map->device, device->name) == 0);
}

/* The namespace that the command line gives a device. 0: none. */
static uint32_t mapped_nsid(const struct replay_options *options, uint32_t index, const struct replay_device *device)
{
	for (uint32_t i = 0; i < options->map_count; i++) {
		if (names_device(&options->maps[i], index, device))
			return options->maps[i].nsid;
	}
	return options->nsid;
}

/* Set the namespace of a device: as the command line says, or as in the recording. `only`: it is the only device. */
static int choose_nsid(struct replay_target *target, const struct replay_options *options, const struct incident_file *file,
		       uint32_t index, bool only, struct fathom_fault *why)
{
	const struct replay_device *devices = file->summary.devices;
	uint32_t nsid = mapped_nsid(options, index, &devices[index]);

	if (nsid == 0)
		nsid = devices[index].nsid > 0 ? devices[index].nsid : only;
	if (nsid == 0)
		return fault(why, -EINVAL,
			     "the recording does not say which namespace device %" PRIu32 " was: add --map %" PRIu32
			     "=N for it (`fathom replay show` lists the devices), or --device to replay one of them",
			     index + 1, index + 1);
	for (uint32_t i = 0; i < index; i++) {
		if (target->places[i].used && mapped_nsid(options, i, &devices[i]) == 0 &&
		    mapped_nsid(options, index, &devices[index]) == 0 && devices[i].nsid == nsid)
			return fault(why, -EINVAL,
				     "devices %" PRIu32 " and %" PRIu32 " were both namespace %" PRIu32
				     ", of different subsystems: add --map %" PRIu32 "=N, --nsid N for all, or --device to "
				     "replay one of them",
				     i + 1, index + 1, nsid, index + 1);
	}
	target->places[index].ns.nsid = nsid;
	return 0;
}

/* Does the recording stay within the namespace? */
static int check_size(const struct replay_options *options, uint32_t index, const struct replay_device *device,
		      const struct fathom_namespace_info *ns, struct fathom_fault *why)
{
	uint32_t block_bytes = device->block_bytes ? device->block_bytes : ns->block_bytes;
	uint64_t used = device->blocks_used * block_bytes, bytes = ns->blocks * ns->block_bytes;

	if (ns->metadata_bytes > 0)
		return fault(why, -ENOTSUP, "namespace %" PRIu32 " has metadata, which replay does not support", ns->nsid);
	if (used <= bytes || options->wrap)
		return 0;
	return fault(why, -ERANGE,
		     "the recording uses %" PRIu64 " bytes of device %" PRIu32 ", and namespace %" PRIu32 " has %" PRIu64
		     ": use a larger namespace, or --wrap, which puts what lies beyond the end at other blocks",
		     used, index + 1, ns->nsid, bytes);
}

static int find_places(struct replay_target *target, const struct replay_options *options, const struct incident_file *file,
		       const struct incident_selection *selection, struct fathom_fault *why)
{
	const struct replay_summary *summary = &file->summary;
	uint32_t used = 0;
	int rc = 0;

	for (uint32_t i = 0; i < summary->device_count; i++)
		used += selection->devices[i];
	for (uint32_t i = 0; i < summary->device_count && rc == 0; i++) {
		struct replay_place *place = &target->places[i];
		const struct replay_device *device = &summary->devices[i];
		struct fathom_fault reason = { 0 };

		if (!selection->devices[i])
			continue;
		rc = choose_nsid(target, options, file, i, used == 1, why);
		if (rc)
			return rc;
		rc = fathom_namespace_info(target->controllers[0], place->ns.nsid, &reason, &place->ns);
		if (rc)
			return fault(why, rc, "device %" PRIu32 ": %s", i + 1, reason.text);
		rc = check_size(options, i, device, &place->ns, why);
		place->used = true;
		place->source_block_bytes = device->block_bytes ? device->block_bytes : place->ns.block_bytes;
	}
	return rc;
}

/* ---- queues ---- */

static uint32_t count_queues(const struct incident_file *file, const struct incident_selection *selection, uint32_t host)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < file->summary.queue_count; i++)
		count += selection->queues[i] && (host == 0 || file->summary.queues[i].host_number == host);
	return count;
}

static uint32_t count_hosts(const struct incident_file *file, const struct incident_selection *selection)
{
	uint32_t count = 0;

	for (uint32_t host = 1; host <= REPLAY_QUEUES_MAX; host++)
		count += count_queues(file, selection, host) > 0;
	return count;
}

/* Queue pairs of one host at most: a host that connected often in the recording had fewer at a time. */
static uint32_t host_queues_max(const struct incident_file *file, const struct incident_selection *selection)
{
	return (uint32_t)min_u64(HOST_QUEUES_MAX, REPLAY_CONNECTIONS_MAX / count_hosts(file, selection));
}

static uint32_t queue_depth(const struct replay_options *options, const struct replay_queue *queue)
{
	return options->depth ? options->depth : (uint32_t)min_u64(queue->depth, FATHOM_DEPTH_MAX);
}

/* Create the queue pairs of one host, and route its queues to them. */
static int open_queues(struct replay_target *target, const struct replay_options *options, const struct incident_file *file,
		       const struct incident_selection *selection, uint32_t host, struct fathom_fault *why)
{
	struct fathom_controller *controller = target->controllers[target->controller_count - 1];
	uint32_t wanted = count_queues(file, selection, host), granted = fathom_controller_info(controller)->io_queues;
	uint32_t count = (uint32_t)min_u64(min_u64(wanted, granted), host_queues_max(file, selection));
	uint32_t sums[REPLAY_CONNECTIONS_MAX] = { 0 }, shares[REPLAY_CONNECTIONS_MAX] = { 0 }, at = 0;

	if (count == 0)
		return fault(why, -ENOSPC, "the target grants no queue for I/O");
	for (uint32_t i = 0; i < file->summary.queue_count; i++) {
		struct replay_route *route = &target->routes[i];

		if (!selection->queues[i] || file->summary.queues[i].host_number != host)
			continue;
		*route = (struct replay_route){ .used = true,
						.qpair = target->qpair_count + at % count,
						.depth = queue_depth(options, &file->summary.queues[i]) };
		sums[at % count] += route->depth;
		shares[at++ % count]++;
	}
	for (uint32_t i = 0; i < count; i++) {
		struct fathom_fault reason = { 0 };
		int rc = fathom_qpair_create(controller, (uint32_t)min_u64(sums[i], FATHOM_DEPTH_MAX), &reason,
					     &target->qpairs[target->qpair_count + i]);

		if (rc)
			return fault(why, rc, "%s", reason.text);
	}
	for (uint32_t i = 0; i < file->summary.queue_count; i++) {
		struct replay_route *route = &target->routes[i];
		uint32_t own = route->qpair - target->qpair_count;

		if (route->used && route->qpair >= target->qpair_count && sums[own] > 0) {
			uint32_t room = fathom_qpair_depth(target->qpairs[route->qpair]);

			/* what share of a smaller queue pair each queue gets */
			if (sums[own] > room)
				route->depth = (uint32_t)max_u64(room / shares[own], 1);
		}
	}
	target->qpair_count += count;
	target->queues += wanted;
	return 0;
}

static int connect_host(struct replay_target *target, const struct replay_options *options, uint32_t queues,
			struct fathom_fault *why)
{
	struct fathom_connect_options connect = options->connect;
	struct fathom_fault reason = { 0 };
	int rc;

	connect.io_queues = (uint16_t)queues;
	rc = fathom_connect(&connect, &reason, &target->controllers[target->controller_count]);
	if (rc)
		return fault(why, rc, "%s", reason.text);
	target->controller_count++;
	return 0;
}

/* ---- the round trip ---- */

static void note_answer(void *ctx, const struct fathom_completion *completion)
{
	*(bool *)ctx = completion->error == 0 && completion->status == 0;
}

static int compare_numbers(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

/* The median of some commands that need no device. 0: the target does not answer them. */
static uint64_t measure_round_trip(struct fathom_controller *controller)
{
	struct fathom_qpair *admin = fathom_controller_admin(controller);
	uint8_t command[FATHOM_COMMAND_BYTES] = { [0] = GET_FEATURES, [40] = FEATURE_QUEUES };
	uint64_t times[ROUND_TRIPS];

	for (uint32_t i = 0; i < ROUND_TRIPS; i++) {
		uint64_t begin = clock_ticks();
		bool good = false;

		if (fathom_submit(admin, command, NULL, 0, note_answer, &good) != 0)
			return 0;
		while (fathom_qpair_in_flight(admin) > 0) {
			int ended = fathom_qpair_poll(admin);

			if (ended < 0)
				return 0;
			if (ended == 0)
				fathom_qpair_wait(admin, ROUND_TRIP_WAIT_MS);
		}
		if (!good)
			return 0;
		times[i] = clock_ns_from_ticks(clock_ticks() - begin);
	}
	qsort(times, ROUND_TRIPS, sizeof(times[0]), compare_numbers);
	return times[ROUND_TRIPS / 2];
}

/* ---- open and close ---- */

int replay_target_open(struct replay_target *target, const struct replay_options *options, const struct incident_file *file,
		       const struct incident_selection *selection, struct fathom_fault *why)
{
	uint32_t hosts = count_hosts(file, selection), limit;
	int rc = 0;

	memset(target, 0, sizeof(*target));
	if (hosts > REPLAY_CONNECTIONS_MAX)
		return fault(why, -E2BIG,
			     "the recording has %" PRIu32 " hosts, more than %d: select some with --owner, --from and --to",
			     hosts, REPLAY_CONNECTIONS_MAX);
	target->controllers = calloc(hosts, sizeof(struct fathom_controller *));
	must(target->controllers);
	for (uint32_t host = 1; host <= REPLAY_QUEUES_MAX && rc == 0; host++) {
		uint32_t own = count_queues(file, selection, host);

		if (own == 0)
			continue;
		rc = connect_host(target, options, (uint32_t)min_u64(own, host_queues_max(file, selection)), why);
		if (rc == 0 && target->controller_count == 1)
			rc = find_places(target, options, file, selection, why);
		if (rc == 0)
			rc = open_queues(target, options, file, selection, host, why);
	}
	if (rc)
		return rc;
	limit = fathom_controller_info(target->controllers[0])->transfer_bytes_max;
	target->transfer_bytes_max = limit > 0 ? min_u64(limit, REPLAY_TRANSFER_BYTES_MAX) : REPLAY_TRANSFER_BYTES_MAX;
	target->round_trip_ns = measure_round_trip(target->controllers[0]);
	return 0;
}

void replay_target_close(struct replay_target *target)
{
	for (uint32_t i = 0; i < REPLAY_CONNECTIONS_MAX; i++)
		fathom_qpair_destroy(target->qpairs[i]);
	for (uint32_t i = 0; i < target->controller_count; i++)
		fathom_disconnect(target->controllers[i]);
	free(target->controllers);
	memset(target, 0, sizeof(*target));
}
