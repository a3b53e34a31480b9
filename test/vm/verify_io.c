/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verify_io - writes and reads a block device with many I/Os in progress, and knows the allowed content of each block.
 *
 *   verify_io run DEVICE LEDGER --cells N --depth N --seed N [--seconds N] [--stop FILE]
 *   verify_io check DEVICE LEDGER
 *   verify_io status LEDGER
 *
 * The device is an array of cells of 4 KiB. Each write of a cell has a generation, one above the last. Each 512-byte sector
 * contains its byte offset on the device, its generation and run, and numbers that follow from these: a lost, stale, torn,
 * misdirected or flipped sector is detected and named.
 *
 * The ledger is a file mapped into memory, so that it survives a killed program:
 *
 *   ledger_head, then for each cell { acked, submitted }
 *
 * `acked` is the newest generation whose write was acknowledged (0: none), `submitted` the newest that was submitted. They
 * differ while a write is in progress and after failed writes: then each sector may have any generation between the two.
 * Each changes by one store, so a ledger is correct whenever its writer is killed.
 *
 * `run` fills the device (with a new ledger), then mixes writes, reads and flushes until it is stopped, then checks each
 * cell. No two I/Os in progress share a cell, so the expected result of a read is known when it is submitted.
 *
 * Exit status: 0 no error; 1 a sector is wrong; 2 usage or setup; 3 an I/O failed, but no sector is wrong.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <linux/aio_abi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	SECTOR_BYTES = 512,
	CELL_BYTES = 4096,
	CELL_SECTORS = CELL_BYTES / SECTOR_BYTES,
	IO_CELLS_MAX = 32, /* 128 KiB: more than one PDU of data */
	IO_BYTES_MAX = IO_CELLS_MAX * CELL_BYTES,
	DEPTH_MAX = 256,
	CELLS_MAX = 1 << 20,
	REPORTS_MAX = 10,
	FLUSH_EVERY = 500,
	READ_PERCENT = 30,
	PICK_ATTEMPTS = 16,
	EXIT_WRONG = 1,
	EXIT_SETUP = 2,
	EXIT_IO = 3,
};

#define SECTOR_MAGIC UINT64_C(0x6669727570696e67)
#define LEDGER_MAGIC UINT64_C(0x3172656764656c76)

/* 512 bytes, as on the device */
struct sector {
	uint64_t magic;
	uint64_t byte_offset;
	uint32_t generation;
	uint32_t seed;
	uint64_t filler[(SECTOR_BYTES - 24) / 8];
};
_Static_assert(sizeof(struct sector) == SECTOR_BYTES, "a sector is a sector");

struct cell {
	uint32_t acked;
	uint32_t submitted;
};

struct ledger_head {
	uint64_t magic;
	uint32_t cell_count;
	uint32_t seed;
	uint64_t writes_acked; /* numbers of I/Os, like the next three */
	uint64_t reads_verified;
	uint64_t flushes_acked;
	uint64_t io_errors;
	uint64_t sectors_wrong;
	uint32_t in_flight;
	uint32_t in_flight_max;
};

enum op { OP_READ, OP_WRITE, OP_FLUSH };

struct io {
	struct iocb iocb;
	enum op op;
	uint32_t cell_index;
	uint32_t cell_count;
	uint8_t *buffer; /* IO_BYTES_MAX */
	bool is_free;
};

/* the purpose of the I/Os: a phase ends when all its I/Os are submitted and none is in progress */
enum phase { PHASE_FILL, PHASE_MIX, PHASE_CHECK };

struct run {
	int device_fd;
	aio_context_t aio;
	uint32_t depth;
	struct io ios[DEPTH_MAX];
	struct ledger_head *head;
	struct cell *cells;
	uint8_t *is_busy; /* per cell: an I/O in progress covers it */
	enum phase phase;
	uint32_t next_cell; /* fill and check */
	uint64_t random;
	time_t deadline; /* 0: none */
	const char *stop_path;
	uint64_t submitted;
};

static void must(bool fact, const char *what)
{
	if (fact)
		return;
	fprintf(stderr, "verify_io: %s: %s\n", what, strerror(errno));
	exit(EXIT_SETUP);
}

static uint64_t mix64(uint64_t x)
{
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

static uint64_t next_random(struct run *run)
{
	return mix64(run->random += UINT64_C(0x9e3779b97f4a7c15));
}

/* --- sectors --- */

static void sector_make(struct sector *sector, uint64_t byte_offset, uint32_t generation, uint32_t seed)
{
	uint64_t state = mix64(byte_offset ^ ((uint64_t)generation << 40) ^ seed);

	sector->magic = SECTOR_MAGIC;
	sector->byte_offset = byte_offset;
	sector->generation = generation;
	sector->seed = seed;
	for (size_t i = 0; i < sizeof(sector->filler) / sizeof(sector->filler[0]); i++)
		sector->filler[i] = mix64(state += UINT64_C(0x9e3779b97f4a7c15));
}

static void report(struct run *run, uint64_t byte_offset, const struct cell *want, const char *found)
{
	run->head->sectors_wrong++;
	if (run->head->sectors_wrong > REPORTS_MAX)
		return;
	printf("WRONG byte %" PRIu64 ": %s; acknowledged generation %" PRIu32 ", submitted %" PRIu32 "\n", byte_offset,
	       found, want->acked, want->submitted);
	fflush(stdout);
}

static void sector_check(struct run *run, const struct sector *found, uint64_t byte_offset, const struct cell *want)
{
	struct sector right;
	char text[160];

	if (want->acked == 0) /* no acknowledged write: any content is allowed */
		return;
	bool is_expected = found->generation >= want->acked && found->generation <= want->submitted;

	if (is_expected) {
		sector_make(&right, byte_offset, found->generation, run->head->seed);
		if (memcmp(found, &right, sizeof(right)) == 0)
			return;
	}
	if (found->magic != SECTOR_MAGIC)
		snprintf(text, sizeof(text), "not ours, begins with %016" PRIx64, found->magic);
	else if (found->seed != run->head->seed)
		snprintf(text, sizeof(text), "of another run, seed %" PRIu32, found->seed);
	else if (found->byte_offset != byte_offset)
		snprintf(text, sizeof(text), "misdirected, for byte %" PRIu64 " generation %" PRIu32, found->byte_offset,
			 found->generation);
	else if (is_expected)
		snprintf(text, sizeof(text), "corrupted, generation %" PRIu32, found->generation);
	else if (found->generation < want->acked)
		snprintf(text, sizeof(text), "stale, generation %" PRIu32, found->generation);
	else
		snprintf(text, sizeof(text), "never written, generation %" PRIu32, found->generation);
	report(run, byte_offset, want, text);
}

/* --- one I/O --- */

static void io_prepare_write(struct run *run, struct io *io)
{
	for (uint32_t i = 0; i < io->cell_count; i++) {
		struct cell *cell = &run->cells[io->cell_index + i];
		uint64_t byte_offset = (uint64_t)(io->cell_index + i) * CELL_BYTES;

		cell->submitted++;
		for (uint32_t s = 0; s < CELL_SECTORS; s++)
			sector_make((struct sector *)(io->buffer + i * CELL_BYTES + s * SECTOR_BYTES),
				    byte_offset + s * SECTOR_BYTES, cell->submitted, run->head->seed);
	}
}

static void io_submit_one(struct run *run, struct io *io)
{
	struct iocb *iocb = &io->iocb;
	long submitted;

	memset(iocb, 0, sizeof(*iocb));
	iocb->aio_data = (uint64_t)(uintptr_t)io;
	iocb->aio_fildes = (uint32_t)run->device_fd;
	if (io->op == OP_FLUSH) {
		iocb->aio_lio_opcode = IOCB_CMD_FDSYNC;
	} else {
		iocb->aio_lio_opcode = io->op == OP_WRITE ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD;
		iocb->aio_buf = (uint64_t)(uintptr_t)io->buffer;
		iocb->aio_nbytes = (uint64_t)io->cell_count * CELL_BYTES;
		iocb->aio_offset = (int64_t)io->cell_index * CELL_BYTES;
	}
	memset(run->is_busy + io->cell_index, 1, io->cell_count);
	io->is_free = false;
	run->submitted++;
	run->head->in_flight++;
	if (run->head->in_flight > run->head->in_flight_max)
		run->head->in_flight_max = run->head->in_flight;
	do {
		submitted = syscall(SYS_io_submit, run->aio, 1L, (struct iocb *[]){ iocb });
	} while (submitted < 0 && (errno == EAGAIN || errno == EINTR));
	must(submitted == 1, "io_submit");
}

static void io_complete(struct run *run, struct io *io, int64_t result)
{
	int64_t wanted = io->op == OP_FLUSH ? 0 : (int64_t)io->cell_count * CELL_BYTES;

	memset(run->is_busy + io->cell_index, 0, io->cell_count);
	io->is_free = true;
	run->head->in_flight--;
	if (result != wanted) {
		run->head->io_errors++;
		if (run->head->io_errors <= REPORTS_MAX)
			printf("FAILED %s of %" PRIu32 " cells at byte %" PRIu64 ": %s\n",
			       (const char *[]){ "read", "write", "flush" }[io->op], io->cell_count,
			       (uint64_t)io->cell_index * CELL_BYTES, result < 0 ? strerror((int)-result) : "short");
		fflush(stdout);
		return; /* a failed write may be stored in part: its cells stay uncertain */
	}
	run->head->writes_acked += io->op == OP_WRITE;
	run->head->reads_verified += io->op == OP_READ;
	run->head->flushes_acked += io->op == OP_FLUSH;
	for (uint32_t i = 0; i < io->cell_count; i++) {
		struct cell *cell = &run->cells[io->cell_index + i];
		uint64_t byte_offset = (uint64_t)(io->cell_index + i) * CELL_BYTES;

		if (io->op == OP_WRITE)
			cell->acked = cell->submitted;
		for (uint32_t s = 0; io->op == OP_READ && s < CELL_SECTORS; s++)
			sector_check(run, (struct sector *)(io->buffer + i * CELL_BYTES + s * SECTOR_BYTES),
				     byte_offset + s * SECTOR_BYTES, cell);
	}
}

/* --- the choice of the next I/O --- */

static bool cells_are_free(const struct run *run, uint32_t cell_index, uint32_t cell_count)
{
	return memchr(run->is_busy + cell_index, 1, cell_count) == NULL;
}

static bool is_time_to_stop(const struct run *run)
{
	if (run->deadline != 0 && time(NULL) >= run->deadline)
		return true;
	return run->stop_path != NULL && run->submitted % 64 == 0 && access(run->stop_path, F_OK) == 0;
}

static bool next_sequential(struct run *run, struct io *io)
{
	uint32_t left = run->head->cell_count - run->next_cell;

	if (left == 0)
		return false;
	io->op = run->phase == PHASE_FILL ? OP_WRITE : OP_READ;
	io->cell_index = run->next_cell;
	io->cell_count = left < IO_CELLS_MAX ? left : IO_CELLS_MAX;
	run->next_cell += io->cell_count;
	return true;
}

static bool next_mixed(struct run *run, struct io *io)
{
	static const uint8_t sizes[] = { 1, 1, 1, 1, 2, 2, 3, 4, 8, 16, IO_CELLS_MAX };

	if (is_time_to_stop(run))
		return false;
	io->op = next_random(run) % 100 < READ_PERCENT ? OP_READ : OP_WRITE;
	if (next_random(run) % FLUSH_EVERY == 0) {
		io->op = OP_FLUSH;
		io->cell_index = 0;
		io->cell_count = 0;
		return true;
	}
	for (int attempt = 0; attempt < PICK_ATTEMPTS; attempt++) {
		io->cell_count = sizes[next_random(run) % sizeof(sizes)];
		io->cell_index = (uint32_t)(next_random(run) % (run->head->cell_count - io->cell_count + 1));
		if (cells_are_free(run, io->cell_index, io->cell_count))
			return true;
	}
	return false; /* too many busy cells: retry after the next completion */
}

static struct io *free_io(struct run *run)
{
	for (uint32_t i = 0; i < run->depth; i++)
		if (run->ios[i].is_free)
			return &run->ios[i];
	return NULL;
}

static void run_phase(struct run *run, enum phase phase)
{
	struct io_event events[DEPTH_MAX];
	struct io *io;

	run->phase = phase;
	run->next_cell = 0;
	for (;;) {
		while ((io = free_io(run)) != NULL) {
			if (!(phase == PHASE_MIX ? next_mixed(run, io) : next_sequential(run, io)))
				break;
			if (io->op == OP_WRITE)
				io_prepare_write(run, io);
			io_submit_one(run, io);
		}
		if (run->head->in_flight == 0)
			return;
		long count = syscall(SYS_io_getevents, run->aio, 1L, (long)DEPTH_MAX, events, NULL);

		must(count > 0 || errno == EINTR, "io_getevents");
		for (long i = 0; i < count; i++)
			io_complete(run, (struct io *)(uintptr_t)events[i].data, events[i].res);
	}
}

/* --- ledger and setup --- */

/* Map the ledger; with `cell_count`, create it if it does not exist. Return whether it is new. */
static bool ledger_open(struct run *run, const char *path, uint32_t cell_count, uint32_t seed)
{
	int fd = open(path, O_RDWR | (cell_count ? O_CREAT : 0), 0644);
	struct ledger_head head = { 0 };
	bool is_new;
	void *map;

	must(fd >= 0, path);
	is_new = pread(fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head);
	if (!is_new)
		cell_count = head.cell_count;
	errno = EINVAL;
	must(is_new || head.magic == LEDGER_MAGIC, path);
	must(cell_count >= IO_CELLS_MAX && cell_count <= CELLS_MAX, "number of cells");
	must(ftruncate(fd, (off_t)(sizeof(head) + cell_count * sizeof(struct cell))) == 0, path);
	map = mmap(NULL, sizeof(head) + cell_count * sizeof(struct cell), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must(map != MAP_FAILED, path);
	close(fd);
	run->head = map;
	run->cells = (struct cell *)(run->head + 1);
	if (is_new)
		*run->head = (struct ledger_head){ .magic = LEDGER_MAGIC, .cell_count = cell_count, .seed = seed };
	return is_new;
}

static void device_open(struct run *run, const char *path)
{
	uint64_t bytes_wanted = (uint64_t)run->head->cell_count * CELL_BYTES;
	off_t bytes;

	run->device_fd = open(path, O_RDWR | O_DIRECT);
	must(run->device_fd >= 0, path);
	bytes = lseek(run->device_fd, 0, SEEK_END);
	errno = ENOSPC;
	must(bytes >= 0 && (uint64_t)bytes >= bytes_wanted, path);
	must(syscall(SYS_io_setup, (long)DEPTH_MAX, &run->aio) == 0, "io_setup");
	run->is_busy = calloc(run->head->cell_count, 1);
	must(run->is_busy != NULL, "calloc");
	for (uint32_t i = 0; i < run->depth; i++) {
		run->ios[i].is_free = true;
		run->ios[i].buffer = aligned_alloc(CELL_BYTES, IO_BYTES_MAX);
		must(run->ios[i].buffer != NULL, "aligned_alloc");
	}
}

static void status_print(const struct ledger_head *head)
{
	printf("writes_acked=%" PRIu64 " reads_verified=%" PRIu64 " flushes_acked=%" PRIu64 " io_errors=%" PRIu64
	       " sectors_wrong=%" PRIu64 " in_flight=%" PRIu32 " in_flight_max=%" PRIu32 "\n",
	       head->writes_acked, head->reads_verified, head->flushes_acked, head->io_errors, head->sectors_wrong,
	       head->in_flight, head->in_flight_max);
}

static int usage(void)
{
	fprintf(stderr, "usage: verify_io run DEVICE LEDGER --cells N --depth N --seed N [--seconds N] [--stop FILE]\n"
			"       verify_io check DEVICE LEDGER\n"
			"       verify_io status LEDGER\n");
	return EXIT_SETUP;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "cells", required_argument, NULL, 'c' }, { "depth", required_argument, NULL, 'd' },
		{ "seed", required_argument, NULL, 's' },  { "seconds", required_argument, NULL, 't' },
		{ "stop", required_argument, NULL, 'x' },  { 0 },
	};
	static struct run run = { .depth = 32 };
	uint32_t cell_count = 0, seed = 1;
	int option;

	/* Linux 6.1 sends SIGPIPE to the process that submits I/O while the target closes the connection. */
	signal(SIGPIPE, SIG_IGN);
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'c':
			cell_count = (uint32_t)strtoul(optarg, NULL, 10);
			break;
		case 'd':
			run.depth = (uint32_t)strtoul(optarg, NULL, 10);
			break;
		case 's':
			seed = (uint32_t)strtoul(optarg, NULL, 10);
			break;
		case 't':
			run.deadline = time(NULL) + strtol(optarg, NULL, 10);
			break;
		case 'x':
			run.stop_path = optarg;
			break;
		default:
			return usage();
		}
	}
	argv += optind;
	argc -= optind;
	if (argc == 2 && strcmp(argv[0], "status") == 0) {
		ledger_open(&run, argv[1], 0, 0);
		status_print(run.head);
		return 0;
	}
	bool is_run = argc == 3 && strcmp(argv[0], "run") == 0;
	bool is_check = argc == 3 && strcmp(argv[0], "check") == 0;

	if (run.depth < 1 || run.depth > DEPTH_MAX || !(is_check || (is_run && cell_count > 0)))
		return usage();
	bool is_new = ledger_open(&run, argv[2], is_run ? cell_count : 0, seed);

	/* counts for the exit status are of this run, the others continue */
	run.head->io_errors = run.head->sectors_wrong = 0;
	run.head->in_flight = 0;
	run.random = seed;
	device_open(&run, argv[1]);
	if (is_new)
		run_phase(&run, PHASE_FILL);
	if (is_run)
		run_phase(&run, PHASE_MIX);
	run_phase(&run, PHASE_CHECK);
	status_print(run.head);
	if (run.head->sectors_wrong > 0)
		return EXIT_WRONG;
	return run.head->io_errors > 0 ? EXIT_IO : 0;
}
