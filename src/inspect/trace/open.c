/* SPDX-License-Identifier: BSD-2-Clause */
/* open - maps a trace file and checks every offset in it before use. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "inspect/trace/internal.h"

/* The sections that this reader knows. A later version may make elements larger, never smaller. */
static const struct {
	const char *name;
	uint32_t element_bytes;
	bool single; /* exactly one element: stride and count are ignored */
} kinds[SECTION_KINDS] = {
	[TRACE_SECTION_PROCESS] = { "process", sizeof(struct trace_process), true },
	[TRACE_SECTION_CLOCKS] = { "clocks", sizeof(struct trace_clocks), true },
	[TRACE_SECTION_MASKS] = { "masks", sizeof(struct trace_mask_words), true },
	[TRACE_SECTION_SCHEMA] = { "schema", 1, false },
	[TRACE_SECTION_STRINGS] = { "strings", 1, false },
	[TRACE_SECTION_OWNERS] = { "owners", sizeof(struct trace_owner), false },
	[TRACE_SECTION_THREADS] = { "threads", sizeof(struct trace_thread), false },
	[TRACE_SECTION_RINGS] = { "rings", 1, false },
	[TRACE_SECTION_POOLS] = { "pools", sizeof(struct trace_pool), false },
	[TRACE_SECTION_POOL_MEMORY] = { "pool memory", 1, false },
	[TRACE_SECTION_LIVES] = { "lives", 1, false },
	[TRACE_SECTION_EXEMPLARS] = { "exemplars", 1, false },
	[TRACE_SECTION_FROZEN] = { "frozen", sizeof(struct trace_frozen), true },
};

/* Slots of an event in a Fathom file. */
#define OWN_SLOTS_MAX (TRACE_ARG_SLOTS_HEAD + (TRACE_PARTS_MAX - 1) * TRACE_ARG_SLOTS_PART)
static_assert((int)OWN_SLOTS_MAX <= (int)READER_SLOTS_MAX && (int)SPDK_SLOTS_MAX <= (int)READER_SLOTS_MAX, "all fit");

void reader_problem(struct reader *reader, const char *format, ...)
{
	va_list args;

	if (reader->problem[0])
		return;
	va_start(args, format);
	vsnprintf(reader->problem, sizeof(reader->problem), format, args);
	va_end(args);
	reader->info.problem = reader->problem;
}

void copy_printable(char *to, size_t to_bytes, const char *from, size_t from_bytes)
{
	size_t at = 0;

	must(to_bytes > 0);
	for (; at < from_bytes && at + 1 < to_bytes && from[at]; at++)
		to[at] = (unsigned char)from[at] < 0x20 || from[at] == 0x7f ? '?' : from[at];
	to[at] = '\0';
}

const void *reader_at(const struct reader *reader, uint64_t offset, uint64_t bytes)
{
	if (offset % 8 != 0 || offset > reader->bytes || bytes > reader->bytes - offset)
		return NULL;
	return reader->map + offset;
}

const void *reader_element(const struct reader *reader, enum trace_section_kind kind, uint64_t index)
{
	const struct section *section = &reader->sections[kind];

	return index < section->count ? section->at + index * section->stride : NULL;
}

/* ---- opening ---- */

static void place_section(struct reader *reader, const struct trace_section *row)
{
	struct section *section = &reader->sections[row->kind];
	uint64_t stride = kinds[row->kind].single ? kinds[row->kind].element_bytes : row->stride;
	uint64_t bytes = row->bytes;

	if (section->at)
		return; /* only the first section of a kind counts */
	if (row->offset % 8 != 0 || row->offset >= reader->bytes || stride < kinds[row->kind].element_bytes ||
	    stride % (kinds[row->kind].element_bytes == 1 ? 1 : 8) != 0) {
		reader_problem(reader, "the %s are missing or damaged", kinds[row->kind].name);
		return;
	}
	if (bytes > reader->bytes - row->offset) {
		reader_problem(reader, "the end of the %s is missing", kinds[row->kind].name);
		bytes = reader->bytes - row->offset;
	}
	section->at = reader->map + row->offset;
	section->bytes = bytes;
	section->stride = stride;
	section->count = bytes / stride;
	if (kinds[row->kind].single)
		section->count = min_u64(section->count, 1);
	else if (row->stride != 1)
		section->count = min_u64(section->count, row->count);
}

static int check_header(struct reader *reader, struct fathom_fault *why)
{
	struct trace_header *header = &reader->header;

	if (reader->bytes < sizeof(*header))
		return fault(why, -EBADMSG, "%s is too short for a trace file (%lu bytes)", reader->path,
			     (unsigned long)reader->bytes);
	memcpy(header, reader->map, sizeof(*header));
	if (memcmp(header->magic, TRACE_MAGIC, sizeof(header->magic)) != 0)
		return fault(why, -EBADMSG, "%s is not a Fathom trace file", reader->path);
	if (header->version == 0 || header->version > TRACE_VERSION)
		return fault(why, -EPROTONOSUPPORT, "%s is of version %u; this program reads version %d", reader->path,
			     header->version, TRACE_VERSION);
	if (header->section_count > TRACE_SECTIONS_MAX)
		return fault(why, -EBADMSG, "%s is damaged: %u sections", reader->path, header->section_count);
	if (header->file_bytes > reader->bytes) {
		reader->info.truncated = true;
		reader_problem(reader, "the file is truncated: %lu of %lu bytes", (unsigned long)reader->bytes,
			       (unsigned long)header->file_bytes);
	}
	for (uint32_t i = 0; i < header->section_count; i++) {
		if (header->sections[i].kind > 0 && header->sections[i].kind < SECTION_KINDS)
			place_section(reader, &header->sections[i]);
	}
	return 0;
}

static int read_process(struct reader *reader, struct fathom_fault *why)
{
	const struct trace_process *process = reader_element(reader, TRACE_SECTION_PROCESS, 0);
	struct trace_process *own = &reader->process;
	struct reader_info *info = &reader->info;

	if (!process)
		return fault(why, -EBADMSG, "%s is damaged: it has no process section", reader->path);
	copy_printable(own->name, sizeof(own->name), process->name, sizeof(process->name));
	copy_printable(own->host, sizeof(own->host), process->host, sizeof(process->host));
	copy_printable(own->version, sizeof(own->version), process->version, sizeof(process->version));
	info->name = own->name;
	info->host = own->host;
	info->version = own->version;
	copy_printable(own->program, sizeof(own->program), process->program, sizeof(process->program));
	info->program_path = own->program;
	for (uint32_t i = 0; i < process->build_id_bytes && i < sizeof(process->build_id); i++)
		snprintf(&info->build_id[2 * i], 3, "%02x", process->build_id[i]);
	info->pid = process->pid;
	info->start_tick = process->start_tick;
	info->end_tick = process->end_tick;
	info->tick_rate = process->tick_rate;
	if (info->tick_rate < 1000000 || info->tick_rate > 100 * NS_PER_SEC) {
		reader_problem(reader, "the tick rate is damaged (%lu); times are in ticks as if it were 1 GHz",
			       (unsigned long)info->tick_rate);
		info->tick_rate = NS_PER_SEC;
	}
	tick_scale_init(&reader->scale, info->tick_rate);
	if (reader->spdk)
		return 0; /* liveness was determined from the original file */
	info->liveness = info->end_tick					       ? READER_ENDED
			 : file_is_mapped(reader->fd, reader->path, info->pid) ? READER_ALIVE
									       : READER_DEAD;
	return 0;
}

static void read_frozen(struct reader *reader)
{
	const struct trace_frozen *there = reader_element(reader, TRACE_SECTION_FROZEN, 0);
	struct reader_frozen *frozen = &reader->frozen;
	uint64_t tick = there ? __atomic_load_n(&there->tick, __ATOMIC_ACQUIRE) : 0;

	if (!tick || there->why < TRACE_FROZEN_TRIGGER || there->why > TRACE_FROZEN_ENDED)
		return;
	*frozen = (struct reader_frozen){
		.why = (enum trace_frozen_why)there->why,
		.tick = tick & ~reader->shared_bit,
		.from_tick = there->from_tick,
		.to_tick = there->to_tick,
		.realtime_ns = there->realtime_ns,
		.signal = there->signal,
		.code = there->code,
		.tid = there->tid,
		.address = there->address,
		.instruction = there->instruction,
		.offset = there->offset,
	};
	copy_printable(frozen->text, sizeof(frozen->text), there->text, sizeof(there->text));
	copy_printable(frozen->place, sizeof(frozen->place), there->place, sizeof(there->place));
	reader->info.frozen = frozen;
}

static void read_schema(struct reader *reader)
{
	const struct section *section = &reader->sections[TRACE_SECTION_SCHEMA];
	struct fathom_fault why = { .text = "there is no schema" };

	reader->schema.slots_max = reader->spdk ? READER_SLOTS_MAX : OWN_SLOTS_MAX;
	if (!section->at || schema_parse(&reader->schema, (const char *)section->at, section->bytes, &why) != 0) {
		/* without a schema, events are shown as numbers */
		reader_problem(reader, "%s", why.text);
		schema_free(&reader->schema);
	}
	reader->info.point_count = reader->schema.point_count;
}

/* Map `bytes` bytes of the file from reader->fd_offset on, which is within a core file. */
static int map_fd(struct reader *reader, uint64_t bytes, struct fathom_fault *why)
{
	uint64_t before = reader->fd_offset % (uint64_t)sysconf(_SC_PAGESIZE);
	void *at = mmap(NULL, before + bytes, PROT_READ, MAP_SHARED, reader->fd, (off_t)(reader->fd_offset - before));

	if (at == MAP_FAILED)
		return fault(why, -errno, "cannot map %s: %s", reader->path, strerror(errno));
	reader->map = (uint8_t *)at + before;
	reader->bytes = bytes;
	return 0;
}

static void unmap_fd(const struct reader *reader)
{
	uint64_t before = reader->fd_offset % (uint64_t)sysconf(_SC_PAGESIZE);

	munmap((uint8_t *)reader->map - before, before + reader->bytes);
}

static int report_open_failure(const char *path, struct fathom_fault *why)
{
	int error = errno;
	struct stat st;

	if (error == EACCES && stat(path, &st) == 0)
		return fault(why, -error,
			     "cannot open %s: only its owner may read it (user %u, mode %04o); you are user %u", path,
			     st.st_uid, st.st_mode & 07777, geteuid());
	return fault(why, -error, "cannot open %s: %s", path, strerror(error));
}

static int map_trace_file(struct reader *reader, const char *path, struct fathom_fault *why)
{
	struct fathom_fault reason;
	uint64_t offset = 0, bytes = UINT64_MAX;
	struct stat st;
	int inside = -1, rc;

	reader->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (reader->fd < 0)
		return report_open_failure(path, why);
	rc = trace_unpack(reader->fd, &inside, &offset, &bytes, &reason);
	if (rc)
		return fault(why, rc, "%s: %.400s", path, reason.text);
	if (inside >= 0) {
		close(reader->fd);
		reader->fd = inside;
	}
	if (fstat(reader->fd, &st) != 0)
		return fault(why, -errno, "cannot stat %s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode) || st.st_size == 0)
		return fault(why, -EBADMSG, "%s is %s: it is not a trace file", path,
			     S_ISREG(st.st_mode) ? "empty" : "not a regular file");
	if (offset >= (uint64_t)st.st_size)
		return fault(why, -EBADMSG, "%s is truncated: its trace is missing", path);
	reader->fd_offset = offset;
	return map_fd(reader, min_u64(bytes, (uint64_t)st.st_size - offset), why);
}

/* The file was translated: from here on its image is read. A followed target's file stays mapped. */
static int read_image(struct reader *reader, struct fathom_fault *why)
{
	if (reader->follower) {
		reader->target_map = reader->map;
		reader->target_bytes = reader->bytes;
		reader->target_fd = reader->fd;
	} else {
		unmap_fd(reader);
		close(reader->fd);
	}
	reader->fd_offset = 0;
	reader->map = NULL;
	reader->fd = reader->spdk->fd;
	reader->spdk->fd = -1;
	return map_fd(reader, reader->spdk->bytes, why);
}

/* Translate an SPDK file. `follow`: prepare to follow its target, if that runs. */
static int translate_spdk(struct reader *reader, bool follow, struct fathom_fault *why)
{
	struct spdk_origin origin = { 0 };
	struct spdk_image *image = calloc(1, sizeof(*image));
	struct fathom_fault reason = { .text = "out of memory" };
	char name[NAME_MAX + 1], host[HOST_NAME_MAX + 1] = "";
	int rc = -ENOMEM;

	if (image) {
		image->fd = -1;
		file_name_parse(reader->path, name, sizeof(name), &origin.pid);
		origin.alive = file_find_writer(reader->fd, reader->path, &origin.pid);
		if (origin.alive)
			(void)gethostname(host, sizeof(host) - 1);
		origin.name = name;
		origin.host = host;
		rc = follow && origin.alive
			     ? spdk_follow(reader->map, reader->bytes, &origin, image, &reader->follower, &reason)
			     : spdk_translate(reader->fd, reader->map, reader->bytes, &origin, image, &reason);
	}
	if (rc) {
		free(image);
		return fault(why, rc, "%s: %.400s", reader->path, reason.text);
	}
	reader->spdk = image;
	reader->info.liveness = origin.alive ? READER_ALIVE : READER_DEAD;
	reader->info.truncated = image->truncated;
	reader->shared_bit = 0;
	if (image->problem[0])
		reader_problem(reader, "%s", image->problem);
	return read_image(reader, why);
}

/* Fill reader->info.died and .stopped from its liveness. */
static void read_liveness(struct reader *reader)
{
	struct reader_info *info = &reader->info;
	const struct reader_frozen *frozen = info->frozen;
	bool lived = frozen && (frozen->why == TRACE_FROZEN_TRIGGER || frozen->why == TRACE_FROZEN_ASKED);

	info->died = info->liveness == READER_DEAD && !lived;
	info->stopped = info->liveness == READER_ALIVE && process_is_stopped(info->pid);
}

static int open_reader(const char *path, bool follow, struct reader **reader_ret, struct fathom_fault *why)
{
	struct reader *reader = calloc(1, sizeof(*reader));
	int rc;

	if (!reader)
		return fault(why, -ENOMEM, "out of memory");
	reader->fd = reader->target_fd = -1;
	reader->shared_bit = TICK_SHARED;
	reader->path = strdup(path);
	rc = reader->path ? map_trace_file(reader, path, why) : fault(why, -ENOMEM, "out of memory");
	if (rc == 0 && reader->bytes >= SPDK_HEADER_BYTES && spdk_recognise(reader->map))
		rc = translate_spdk(reader, follow, why);
	if (rc == 0)
		rc = check_header(reader, why);
	if (rc == 0)
		rc = read_process(reader, why);
	if (rc) {
		reader_close(reader);
		return rc;
	}
	reader->info.path = reader->path;
	reader->info.spdk = reader->spdk;
	reader->info.clear_tick = reader->header.clear_tick;
	reader->info.unregistered_records = reader->header.unregistered_records;
	reader->info.refused_threads = reader->header.refused_threads;
	reader->info.thread_count = (uint32_t)min_u64(reader->sections[TRACE_SECTION_THREADS].count, READER_THREADS_MAX);
	clock_pairs_read(reader);
	read_frozen(reader);
	read_liveness(reader);
	read_schema(reader);
	*reader_ret = reader;
	return 0;
}

int reader_open(const char *path, struct reader **reader_ret, struct fathom_fault *why)
{
	return open_reader(path, false, reader_ret, why);
}

int reader_open_to_follow(const char *path, struct reader **reader_ret, struct fathom_fault *why)
{
	return open_reader(path, true, reader_ret, why);
}

void reader_close(struct reader *reader)
{
	if (!reader)
		return;
	reader_stages_free(reader->lives_of_events);
	symbols_destroy(reader->symbols);
	schema_free(&reader->schema);
	spdk_follower_destroy(reader->follower);
	if (reader->target_map)
		munmap((void *)reader->target_map, reader->target_bytes);
	if (reader->target_fd >= 0)
		close(reader->target_fd);
	if (reader->spdk)
		spdk_image_deinit(reader->spdk);
	free(reader->spdk);
	if (reader->map)
		unmap_fd(reader);
	if (reader->fd >= 0)
		close(reader->fd);
	free(reader->path);
	free(reader);
}

bool reader_is_alive(const struct reader *reader)
{
	const struct trace_process *process = reader_element(reader, TRACE_SECTION_PROCESS, 0);

	if (reader->spdk)
		return reader->follower && file_is_mapped(reader->target_fd, reader->path, reader->info.pid);
	return process && __atomic_load_n(&process->end_tick, __ATOMIC_ACQUIRE) == 0 &&
	       file_is_mapped(reader->fd, reader->path, reader->info.pid);
}

/* A recorder places the rings behind all tables; in a program's own file they are in front of the pools. */
bool reader_is_recording(const struct reader *reader)
{
	const struct section *rings = &reader->sections[TRACE_SECTION_RINGS],
			     *pools = &reader->sections[TRACE_SECTION_POOLS];

	return !reader->spdk && rings->at && pools->at && rings->at > pools->at;
}

const struct reader_info *reader_info(const struct reader *reader)
{
	return &reader->info;
}
