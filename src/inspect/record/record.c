/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * record - the recording loop: copies new records of the rings into the current segment, and hands a full one to the
 * packer thread.
 *
 * Records overwritten before or during the copy are lost and counted; fathom/trace/format.h has the rule.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "inspect/record/internal.h"

enum {
	TABLES_EVERY_MS = 1000,
};

struct recorder {
	struct source source;
	char output[PATH_MAX];
	bool compress, force;
	bool writing_tables; /* a pass over them is in progress */
	uint32_t keep;
	uint64_t file_records; /* of a full file */
	struct segment segment;
	uint64_t segment_records;
	uint64_t next[RINGS_MAX]; /* position to copy next */
	uint64_t records, lost, files;
	uint64_t tables_ns; /* time of the latest complete write */
	uint64_t sleep_us;
	bool ended;
	struct trace_record *chunk;
	/* the packer */
	pthread_t packer;
	bool packing;
	struct segment packed; /* the segment that it packs */
	int pack_rc;
	struct fathom_fault pack_why;
};

/* ---- files ---- */

static int file_name(const struct recorder *recorder, uint64_t number, bool packed, char *name)
{
	const char *suffix = recorder->compress ? packed ? ".zst" : ".raw" : "";
	int length = number ? snprintf(name, PATH_MAX, "%s.%lu%s", recorder->output, (unsigned long)number, suffix)
			    : snprintf(name, PATH_MAX, "%s%s", recorder->output, suffix);

	return length < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int next_segment(struct recorder *recorder, struct fathom_fault *why)
{
	uint64_t ring_entries = round_up_power_of_two(recorder->file_records + CHUNK_RECORDS + TRACE_PARTS_MAX);
	char path[PATH_MAX], packed_path[PATH_MAX];
	int rc;

	if (file_name(recorder, recorder->files, false, path) != 0 ||
	    file_name(recorder, recorder->files, true, packed_path) != 0)
		return fault(why, -ENAMETOOLONG, "%s: the name is too long", recorder->output);
	rc = recorder->compress ? file_check_new(packed_path, recorder->force, why) : 0;
	if (rc == 0)
		rc = segment_open(&recorder->segment, &recorder->source, path, ring_entries, recorder->force, why);
	if (rc)
		return rc;
	memcpy(recorder->segment.packed_path, packed_path, sizeof(packed_path));
	recorder->segment_records = 0;
	recorder->writing_tables = true;
	recorder->files++;
	return 0;
}

static void *run_packer(void *ctx)
{
	struct recorder *recorder = ctx;

	int rc = segment_tables(&recorder->packed, &recorder->source, &recorder->pack_why);

	if (rc) {
		close(recorder->packed.fd);
		recorder->packed.fd = -1;
	} else {
		rc = segment_pack(&recorder->packed, &recorder->source, recorder->compress, &recorder->pack_why);
	}
	recorder->pack_rc = rc;
	return NULL;
}

/* Wait until the packer is idle. Returns the first error of its work. */
static int wait_for_packer(struct recorder *recorder, struct fathom_fault *why)
{
	int rc;

	if (!recorder->packing)
		return 0;
	must(pthread_join(recorder->packer, NULL) == 0);
	recorder->packing = false;
	rc = recorder->pack_rc;
	if (rc)
		*why = recorder->pack_why;
	return rc;
}

static void remove_oldest_file(const struct recorder *recorder)
{
	char name[PATH_MAX];

	if (recorder->keep && recorder->files > recorder->keep &&
	    file_name(recorder, recorder->files - 1 - recorder->keep, true, name) == 0)
		unlink(name);
}

/* Close the current segment: hand it to the packer, which writes its tables a last time. */
static int finish_segment(struct recorder *recorder, struct fathom_fault *why)
{
	int rc;

	if (recorder->segment.fd < 0)
		return 0; /* next_segment() failed before */
	rc = wait_for_packer(recorder, why);
	if (rc) {
		close(recorder->segment.fd);
		recorder->segment.fd = -1;
		return rc;
	}
	recorder->packed = recorder->segment;
	recorder->segment.fd = -1; /* owned by the packer */
	recorder->packing = true;
	must(pthread_create(&recorder->packer, NULL, run_packer, recorder) == 0);
	remove_oldest_file(recorder);
	return 0;
}

/* ---- the loop ---- */

/* Copy up to a chunk of new records of ring `i`. */
static int copy_source_chunk(struct recorder *recorder, uint32_t i, uint64_t head, struct fathom_fault *why)
{
	struct record_batch batch = { .ring = i, .head = head, .next = &recorder->next[i], .chunk = recorder->chunk };
	int rc;

	record_source_copy(&recorder->source, &batch);
	recorder->segment.lost[i] += batch.lost;
	recorder->lost += batch.lost;
	rc = segment_append(&recorder->segment, i, batch.records, batch.count, why);
	if (rc == 0) {
		recorder->records += batch.count;
		recorder->segment_records += batch.count;
	}
	return rc;
}

static int copy_source_ring(struct recorder *recorder, uint32_t i, uint64_t head, uint64_t *fullest,
			    struct fathom_fault *why)
{
	const struct trace_ring *ring = recorder->source.rings[i];
	int rc = 0;

	*fullest = max_u64(*fullest, (head - recorder->next[i]) * 100 / ring->entry_count);
	while (recorder->next[i] < head && rc == 0) {
		if (recorder->segment_records >= recorder->file_records) {
			rc = finish_segment(recorder, why);
			rc = rc ? rc : next_segment(recorder, why);
		}
		if (rc == 0)
			rc = copy_source_chunk(recorder, i, head, why);
	}
	return rc;
}

int recorder_step(struct recorder *recorder, uint64_t *sleep_ns_ret, struct fathom_fault *why)
{
	bool gone = record_source_has_ended(&recorder->source);
	uint64_t fullest = 0, now;
	bool whole;
	int rc = 0;

	/* read both rings of a thread up to one moment: otherwise one would end earlier than the other in the file */
	for (uint32_t i = 0; i < recorder->source.ring_count && rc == 0; i += TRACE_RINGS_PER_THREAD) {
		const struct trace_ring *const *rings = &recorder->source.rings[i];
		uint64_t heads[TRACE_RINGS_PER_THREAD];

		if (!rings[TRACE_RING_IO] || !rings[TRACE_RING_RARE])
			continue; /* a thread has both rings, or neither */
		trace_heads(rings[TRACE_RING_IO], rings[TRACE_RING_RARE], &heads[TRACE_RING_IO], &heads[TRACE_RING_RARE]);
		for (uint32_t kind = 0; kind < TRACE_RINGS_PER_THREAD && rc == 0; kind++)
			rc = copy_source_ring(recorder, i + kind, heads[kind], &fullest, why);
	}
	if (rc)
		return rc;
	recorder->ended = gone;
	recorder->sleep_us = record_source_pace(fullest, recorder->sleep_us);
	*sleep_ns_ret = recorder->sleep_us * NS_PER_US;
	now = clock_monotonic_ns();
	if (now - recorder->tables_ns > TABLES_EVERY_MS * NS_PER_MS)
		recorder->writing_tables = true;
	if (!recorder->writing_tables)
		return 0;
	/* write one part per step, since the rings fill meanwhile */
	rc = segment_tables_piece(&recorder->segment, &recorder->source, &whole, why);
	recorder->writing_tables = !whole;
	if (whole)
		recorder->tables_ns = now;
	else
		*sleep_ns_ret = 0;
	return rc;
}

/* ---- open and close ---- */

int recorder_open(const struct recorder_options *options, struct recorder **recorder_ret, struct fathom_fault *why)
{
	uint64_t rotate_bytes = options->rotate_bytes ? options->rotate_bytes : RECORDER_ROTATE_DEFAULT;
	struct recorder *recorder;
	int rc;

	if (rotate_bytes < RECORDER_ROTATE_MIN)
		return fault(why, -EINVAL, "a file of %lu bytes is too small; the minimum is %lu",
			     (unsigned long)rotate_bytes, (unsigned long)RECORDER_ROTATE_MIN);
	recorder = calloc(1, sizeof(*recorder));
	must(recorder);
	recorder->chunk = malloc(CHUNK_RECORDS * sizeof(*recorder->chunk));
	must(recorder->chunk);
	recorder->compress = options->compress;
	recorder->force = options->force;
	recorder->keep = options->keep;
	recorder->file_records = rotate_bytes / sizeof(struct trace_record);
	if (snprintf(recorder->output, sizeof(recorder->output), "%s", options->output) >= (int)sizeof(recorder->output))
		rc = fault(why, -ENAMETOOLONG, "%s: the name is too long", options->output);
	else
		rc = record_source_open(&recorder->source, options->source, why);
	if (rc == 0) {
		rc = next_segment(recorder, why);
		if (rc)
			record_source_close(&recorder->source);
		/* start with the oldest records in the rings; from here to the first step nothing must take time */
		for (uint32_t i = 0; i < recorder->source.ring_count && rc == 0; i++)
			recorder->next[i] = recorder->source.rings[i] ? record_source_oldest(&recorder->source, i) : 0;
	}
	if (rc) {
		free(recorder->chunk);
		free(recorder);
		return rc;
	}
	*recorder_ret = recorder;
	return 0;
}

void recorder_progress(const struct recorder *recorder, struct recorder_progress *progress_ret)
{
	*progress_ret = (struct recorder_progress){ .records = recorder->records,
						    .lost = recorder->lost,
						    .files = recorder->files,
						    .source_ended = recorder->ended };
}

int recorder_close(struct recorder *recorder, struct recorder_progress *progress_ret, struct fathom_fault *why)
{
	struct fathom_fault second;
	uint64_t sleep_ns;
	int rc = recorder->segment.fd < 0 ? 0 : recorder_step(recorder, &sleep_ns, why), finish_rc;

	finish_rc = finish_segment(recorder, rc ? &second : why);
	rc = rc ? rc : finish_rc;
	finish_rc = wait_for_packer(recorder, rc ? &second : why);
	rc = rc ? rc : finish_rc;
	recorder_progress(recorder, progress_ret);
	record_source_close(&recorder->source);
	free(recorder->chunk);
	free(recorder);
	return rc;
}
