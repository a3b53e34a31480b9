/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * file - creating, sizing and mapping the trace file.
 *
 * All memory is reserved at creation: so a /dev/shm that is too small is detected then, and not by SIGBUS under load. If
 * the file does not fit, the I/O rings shrink, to a quarter at most. Then files of dead processes are removed, the oldest
 * first, and each is logged, because it is evidence. Then all rings shrink to the minimum.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/inject/inject.h"
#include "base/log.h"
#include "base/text.h"
#include "base/observe/trace/internal.h"
#include "base/observe/trace/prune.h"

enum {
	PAGE_BYTES = 4096,
	IO_ENTRIES_SHIFT_FIRST = 2, /* I/O rings shrink by this factor (log2) before other files are removed */
};

struct trace_file trace_file;
/* Recursive: if a must() fails while its thread holds the lock, the must hook still records it. */
pthread_mutex_t trace_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

struct layout {
	uint32_t io_entries, rare_entries; /* records of each ring of its kind; small threads have smaller I/O rings */
	struct trace_section sections[TRACE_SECTIONS_MAX];
	uint32_t section_count;
	uint64_t bytes;
};

static struct trace_section *add_section(struct layout *layout, enum trace_section_kind kind, uint32_t stride,
					 uint64_t count)
{
	struct trace_section *section = &layout->sections[layout->section_count++];

	must(layout->section_count <= TRACE_SECTIONS_MAX);
	*section = (struct trace_section){
		.kind = kind,
		.stride = stride,
		.offset = layout->bytes,
		.bytes = stride * count,
		.count = count,
	};
	layout->bytes = round_up(layout->bytes + section->bytes, PAGE_BYTES);
	return section;
}

static uint64_t ring_bytes(uint64_t entries)
{
	return round_up(sizeof(struct trace_ring) + entries * sizeof(struct trace_record), PAGE_BYTES);
}

static struct layout plan_layout(const struct trace_options *options, uint32_t io_entries, uint32_t rare_entries)
{
	uint32_t thread_count = options->thread_count + options->small_thread_count;
	uint64_t rings = options->thread_count * ring_bytes(io_entries) +
			 options->small_thread_count * ring_bytes(TRACE_IO_ENTRIES_MIN) +
			 (uint64_t)thread_count * ring_bytes(rare_entries);
	struct layout layout = {
		.io_entries = io_entries,
		.rare_entries = rare_entries,
		.bytes = round_up(sizeof(struct trace_header), PAGE_BYTES),
	};

	add_section(&layout, TRACE_SECTION_PROCESS, sizeof(struct trace_process), 1);
	add_section(&layout, TRACE_SECTION_CLOCKS, sizeof(struct trace_clocks), 1);
	add_section(&layout, TRACE_SECTION_MASKS, sizeof(struct trace_mask_words), 1);
	add_section(&layout, TRACE_SECTION_SCHEMA, 1, trace_schema()->json_bytes);
	add_section(&layout, TRACE_SECTION_STRINGS, 1, TRACE_STRINGS_BYTES);
	add_section(&layout, TRACE_SECTION_OWNERS, sizeof(struct trace_owner), TRACE_OWNERS_MAX);
	add_section(&layout, TRACE_SECTION_THREADS, sizeof(struct trace_thread), thread_count);
	add_section(&layout, TRACE_SECTION_RINGS, 1, rings);
	add_section(&layout, TRACE_SECTION_POOLS, sizeof(struct trace_pool), TRACE_POOLS_MAX);
	add_section(&layout, TRACE_SECTION_POOL_MEMORY, 1, options->pool_bytes);
	add_section(&layout, TRACE_SECTION_LIVES, 1, thread_count * trace_lives_bytes());
	add_section(&layout, TRACE_SECTION_EXEMPLARS, 1,
		    options->thread_count * trace_exemplars_bytes(true) +
			    options->small_thread_count * trace_exemplars_bytes(false) +
			    (options->keeps_named ? trace_named_bytes() : 0));
	add_section(&layout, TRACE_SECTION_FROZEN, sizeof(struct trace_frozen), 1);
	return layout;
}

/* ---- lines for the operator ---- */

static void (*log_callback)(const char *text);

static PRINTF_LIKE(1, 2) void log_to_operator(const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (log_callback)
		log_callback(text);
	else
		log_notice("%s", text);
}

/* ---- files of processes that are gone ---- */

/* Remove surplus dead files of our name. */
static void prune_own(const char *directory, const char *name)
{
	static const uint32_t kept[] = { [TRACE_FILE_LEFT] = TRACE_DEAD_KEPT, [TRACE_FILE_CRASH] = TRACE_CRASHES_KEPT };
	char path[TRACE_FILE_PATH_BYTES];
	uint64_t bytes;

	for (uint32_t kind = 0; kind < ARRAY_COUNT(kept); kind++) {
		while (trace_prune_oldest(directory, name, (enum trace_file_kind)kind, kept[kind], path, &bytes))
			log_to_operator("removed %s: %u newer ones of its name are kept", path, kept[kind]);
	}
}

/*
 * Remove one dead file, the oldest of the first kind that exists: a file of our name, of any name, a crash's second name of
 * our name, of any name. False: there is none.
 */
static bool remove_oldest_dead(const char *directory, const char *name)
{
	char path[TRACE_FILE_PATH_BYTES];
	uint64_t bytes;

	if (!trace_prune_oldest(directory, name, TRACE_FILE_LEFT, 0, path, &bytes) &&
	    !trace_prune_oldest(directory, NULL, TRACE_FILE_LEFT, 0, path, &bytes) &&
	    !trace_prune_oldest(directory, name, TRACE_FILE_CRASH, 0, path, &bytes) &&
	    !trace_prune_oldest(directory, NULL, TRACE_FILE_CRASH, 0, path, &bytes))
		return false;
	log_to_operator("removed %s, which an ended process had left: there was no room for a new one", path);
	return true;
}

/* Remove a file at our path, left by a dead process with our pid. -EEXIST: its writer lives, in another container. */
static int replace_former(const char *path, struct fathom_fault *why)
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	bool locked = fd >= 0 && fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;

	if (fd >= 0)
		close(fd);
	if (locked)
		return fault(why, -EEXIST,
			     "%s is being written by a process of the same number in another container: give this one "
			     "another name",
			     path);
	unlink(path);
	return 0;
}

/* ---- opening ---- */

static int reserve_bytes(int fd, uint64_t bytes)
{
	int rc = ftruncate(fd, 0) == 0 ? 0 : -errno;

	return rc ? rc : -posix_fallocate(fd, 0, (off_t)bytes);
}

/* Reserve the file of `options`; if that does not fit, with smaller rings. */
static int reserve_fitting(int fd, const struct trace_options *options, const char *directory, struct layout *layout_ret,
			   struct fathom_fault *why)
{
	uint32_t io_entries = options->io_entries, rare_entries = options->rare_entries;
	uint32_t least = io_entries >> IO_ENTRIES_SHIFT_FIRST;

	for (;;) {
		struct layout layout = plan_layout(options, io_entries, rare_entries);
		int rc = reserve_bytes(fd, layout.bytes);

		if (rc == 0) {
			if (io_entries < options->io_entries)
				log_to_operator("%s is too small for trace rings of %u entries: using %u%s%s", directory,
						options->io_entries, io_entries, options->size_option ? "; see " : "",
						options->size_option ? options->size_option : "");
			*layout_ret = layout;
			return 0;
		}
		if (rc != -ENOSPC && rc != -EFBIG)
			return fault(why, rc, "cannot reserve %lu bytes in %s: %s", (unsigned long)layout.bytes, directory,
				     strerror(-rc));
		if (io_entries > least && io_entries > TRACE_IO_ENTRIES_MIN)
			io_entries /= 2;
		else if (remove_oldest_dead(directory, options->name))
			io_entries = options->io_entries; /* use the freed room for full rings */
		else if (io_entries > TRACE_IO_ENTRIES_MIN)
			least = TRACE_IO_ENTRIES_MIN;
		else if (rare_entries > TRACE_IO_ENTRIES_MIN)
			rare_entries /= 2;
		else
			return fault(why, -ENOSPC,
				     "%s has no room for the smallest trace file (%lu bytes); free some%s%s%s", directory,
				     (unsigned long)layout.bytes, options->size_option ? ", or do without by " : "",
				     options->size_option ? options->size_option : "", options->size_option ? " 0" : "");
	}
}

static void describe_fd(int fd, char *path, size_t bytes)
{
	snprintf(path, bytes, "/proc/self/fd/%d", fd);
}

/*
 * Create a file without a name: a process that is killed before the file is complete leaves nothing behind. Returns the
 * descriptor, or -errno if the filesystem lacks O_TMPFILE or /proc, which linkat() needs, is missing.
 */
static int create_unnamed(const char *directory)
{
	int fd = open(directory, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	char path[32];

	if (fd < 0)
		return -errno;
	describe_fd(fd, path, sizeof(path));
	if (access(path, F_OK) == 0)
		return fd;
	close(fd);
	return -ENOENT;
}

static int report_create_error(const struct trace_options *options, int rc, struct fathom_fault *why)
{
	const char *option = options->size_option;

	return fault(why, rc, "cannot make %s: %s%s%s%s", trace_file.path, strerror(-rc), option ? "; " : "",
		     option ? option : "", option ? " 0 does without a trace file" : "");
}

int trace_file_give_name(const struct trace_options *options, struct fathom_fault *why)
{
	struct trace_file *file = &trace_file;
	char path[32];
	int rc;

	if (!file->unnamed)
		return 0;
	describe_fd(file->fd, path, sizeof(path));
	rc = linkat(AT_FDCWD, path, AT_FDCWD, file->path, AT_SYMLINK_FOLLOW) == 0 ? 0 : -errno;
	return rc ? report_create_error(options, rc, why) : 0;
}

static int map_file(const struct trace_options *options, struct layout *layout_ret, struct fathom_fault *why)
{
	const char *directory = options->directory ? options->directory : "/dev/shm";
	struct trace_file *file = &trace_file;
	int fd, rc;

	if (snprintf(file->path, sizeof(file->path), "%s/%s_trace.pid%d", directory, options->name, getpid()) >=
	    (int)sizeof(file->path))
		return fault(why, -ENAMETOOLONG, "trace file name is too long: %s/%s", directory, options->name);
	prune_own(directory, options->name);
	rc = replace_former(file->path, why);
	if (rc)
		return rc;
	rc = inject(INJECT_TRACE_CREATE);
	if (rc)
		return report_create_error(options, rc, why);
	fd = create_unnamed(directory);
	file->unnamed = fd >= 0;
	if (fd < 0)
		fd = open(file->path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return report_create_error(options, -errno, why);
	/* held while the process lives; on a filesystem without locks readers go by our pid */
	file->locked = trace_writer_lock(fd) == 0;
	rc = reserve_fitting(fd, options, directory, layout_ret, why);
	if (rc == 0) {
		void *memory = mmap(NULL, layout_ret->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		if (memory == MAP_FAILED)
			rc = fault(why, -errno, "cannot map %s: %s", file->path, strerror(errno));
		else
			file->memory = memory;
	}
	if (rc) {
		if (!file->unnamed)
			unlink(file->path);
		close(fd);
	} else {
		file->fd = fd;
	}
	return rc;
}

static int find_build_id(struct dl_phdr_info *info, size_t size, void *ctx)
{
	struct trace_process *process = ctx;

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		const char *at = (const char *)(info->dlpi_addr + segment->p_vaddr), *end = at + segment->p_memsz;

		while (segment->p_type == PT_NOTE && at + sizeof(ElfW(Nhdr)) <= end) {
			const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)at;
			const char *name = at + sizeof(*note), *desc = name + round_up(note->n_namesz, 4);

			if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && memcmp(name, "GNU", 4) == 0) {
				process->build_id_bytes = (uint32_t)min_u64(note->n_descsz, sizeof(process->build_id));
				memcpy(process->build_id, desc, process->build_id_bytes);
				return 1;
			}
			at = desc + round_up(note->n_descsz, 4);
		}
	}
	return 1; /* stop after the first module, the program itself */
}

static void fill_process(const struct trace_options *options)
{
	struct trace_process *process = trace_file.process;

	text_copy(process->name, sizeof(process->name), options->name);
	text_copy(process->version, sizeof(process->version), options->version ? options->version : "");
	process->tick_rate = clock_tick_rate();
	process->start_tick = options->in_memory_tick;
	if (options->in_memory) {
		process->tick_rate = NS_PER_SEC;
		return;
	}
	gethostname(process->host, sizeof(process->host) - 1);
	/* a longer path is dropped: a truncated one would name another file */
	if (readlink("/proc/self/exe", process->program, sizeof(process->program)) >= (ssize_t)sizeof(process->program))
		memset(process->program, 0, sizeof(process->program));
	process->pid = getpid();
	process->start_tick = clock_ticks();
	dl_iterate_phdr(find_build_id, process);
}

static void fill_threads(const struct trace_options *options, const struct layout *layout, uint64_t rings_offset)
{
	struct trace_file *file = &trace_file;
	uint64_t offset = rings_offset;

	file->thread_count = options->thread_count + options->small_thread_count;
	for (uint32_t i = 0; i < file->thread_count; i++) {
		struct trace_thread *thread = &file->threads[i];

		for (uint32_t kind = 0; kind < TRACE_RINGS_PER_THREAD; kind++) {
			struct trace_ring *ring = (struct trace_ring *)(file->memory + offset);

			ring->entry_count = kind == TRACE_RING_RARE	? layout->rare_entries
					    : i < options->thread_count ? layout->io_entries
									: TRACE_IO_ENTRIES_MIN;
			ring->thread = i;
			ring->kind = kind;
			thread->ring_offset[kind] = offset;
			offset += ring_bytes(ring->entry_count);
		}
	}
}

static void fill_lives(uint64_t offset)
{
	struct trace_file *file = &trace_file;

	for (uint32_t i = 0; i < file->thread_count; i++, offset += trace_lives_bytes()) {
		file->threads[i].lives_offset = offset;
		file->threads[i].lives_count = trace_schema()->lives_count;
		trace_lives_init((struct trace_lives *)(file->memory + offset), i);
	}
}

static void fill_exemplars(const struct trace_options *options, uint64_t offset)
{
	struct trace_file *file = &trace_file;

	for (uint32_t i = 0; i < file->thread_count; i++) {
		uint64_t bytes = trace_exemplars_bytes(i < options->thread_count);

		if (bytes) {
			file->threads[i].exemplars_offset = offset;
			trace_exemplars_init((struct trace_exemplars *)(file->memory + offset));
		}
		offset += bytes;
	}
	if (!options->keeps_named)
		return;
	file->named = (struct trace_exemplars *)(file->memory + offset);
	trace_named_init(file->named);
	/* readers find rows by threads; trace_thread_attach() gives these to no thread */
	must(file->threads[file->thread_count - 1].exemplars_offset == 0);
	file->threads[file->thread_count - 1].exemplars_offset = offset;
}

/* Fill the file, except for the magic, which makes it valid. */
static void fill_file(const struct trace_options *options, const struct layout *layout)
{
	struct trace_file *file = &trace_file;

	file->header = (struct trace_header *)file->memory;
	file->header->version = TRACE_VERSION;
	file->header->header_bytes = sizeof(*file->header);
	file->header->file_bytes = layout->bytes;
	file->header->section_count = layout->section_count;
	file->header->flags = file->locked ? TRACE_FLAG_LOCKED : 0;
	memcpy(file->header->sections, layout->sections, sizeof(layout->sections));
	for (uint32_t i = 0; i < layout->section_count; i++) {
		const struct trace_section *section = &layout->sections[i];
		uint8_t *at = file->memory + section->offset;

		switch ((enum trace_section_kind)section->kind) {
		case TRACE_SECTION_PROCESS:
			file->process = (struct trace_process *)at;
			fill_process(options);
			break;
		case TRACE_SECTION_CLOCKS:
			file->clocks = (struct trace_clocks *)at;
			break;
		case TRACE_SECTION_MASKS:
			file->masks = (struct trace_mask_words *)at;
			break;
		case TRACE_SECTION_SCHEMA:
			memcpy(at, trace_schema()->json, trace_schema()->json_bytes);
			break;
		case TRACE_SECTION_STRINGS:
			trace_strings_moved((char *)at);
			break;
		case TRACE_SECTION_OWNERS:
			file->owners = (struct trace_owner *)at;
			trace_owners_reset();
			break;
		case TRACE_SECTION_THREADS:
			file->threads = (struct trace_thread *)at;
			break;
		case TRACE_SECTION_RINGS:
			fill_threads(options, layout, section->offset);
			break;
		case TRACE_SECTION_POOLS:
			file->pools = (struct trace_pool *)at;
			break;
		case TRACE_SECTION_POOL_MEMORY:
			file->pool_offset = section->offset;
			file->pool_bytes = section->bytes;
			break;
		case TRACE_SECTION_LIVES:
			fill_lives(section->offset);
			break;
		case TRACE_SECTION_EXEMPLARS:
			fill_exemplars(options, section->offset);
			break;
		case TRACE_SECTION_FROZEN:
			file->frozen = (struct trace_frozen *)at;
			break;
		}
	}
	trace_objects_reset();
	trace_masks_published();
}

/* Include the trace in core files: by default they omit shared file mappings (core(5)). */
static void include_in_core_files(void)
{
	enum { SHARED_FILES = 1 << 3 };
	char text[32] = "";
	int fd = open("/proc/self/coredump_filter", O_RDWR | O_CLOEXEC);
	uint64_t filter;
	ssize_t bytes;

	if (fd < 0)
		return;
	bytes = read(fd, text, sizeof(text) - 1);
	if (bytes > 0 && text[bytes - 1] == '\n')
		text[bytes - 1] = '\0';
	if (bytes > 0 && text_parse_u64(text, 16, UINT32_MAX, &filter) == 0) {
		bytes = snprintf(text, sizeof(text), "0x%lx", (unsigned long)(filter | SHARED_FILES));
		if (write(fd, text, (size_t)bytes) < 0)
			log_to_operator("core files will not have the trace in them: %s", strerror(errno));
	}
	close(fd);
}

int trace_file_make(const struct trace_options *options, struct fathom_fault *why)
{
	struct trace_file *file = &trace_file;
	struct layout layout = { 0 };
	int rc = 0;

	log_callback = options->say;
	file->in_memory = options->in_memory;
	if (options->in_memory) {
		layout = plan_layout(options, options->io_entries, options->rare_entries);
		file->memory = mmap(NULL, layout.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
				    -1, 0);
		must(file->memory != MAP_FAILED);
	} else {
		rc = map_file(options, &layout, why);
	}
	if (rc) {
		memset(file, 0, sizeof(*file));
		return rc;
	}
	file->bytes = layout.bytes;
	fill_file(options, &layout);
	if (!options->in_memory)
		include_in_core_files();
	return 0;
}

const char *trace_path(void)
{
	return trace_file.path;
}

const void *trace_memory(size_t *bytes_ret)
{
	*bytes_ret = trace_file.bytes;
	return trace_file.memory;
}

void trace_clock_note(void)
{
	struct trace_clocks *clocks;
	struct trace_clock_pair *pair;

	pthread_mutex_lock(&trace_lock);
	clocks = trace_file.clocks;
	if (clocks && !trace_file.in_memory) {
		pair = &clocks->pairs[clocks->count == 0 ? 0 : 1 + (clocks->count - 1) % (TRACE_CLOCK_PAIRS_MAX - 1)];
		pair->tick = clock_ticks();
		pair->realtime_ns = clock_realtime_ns();
		pair->monotonic_ns = clock_monotonic_ns();
		/* the tick halfway belongs to the two clock reads */
		pair->tick += (clock_ticks() - pair->tick) / 2;
		__atomic_store_n(&clocks->count, clocks->count + 1, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&trace_lock);
}

void trace_clear(void)
{
	pthread_mutex_lock(&trace_lock);
	if (trace_file.header)
		__atomic_store_n(&trace_file.header->clear_tick, clock_ticks(), __ATOMIC_RELEASE);
	pthread_mutex_unlock(&trace_lock);
}
