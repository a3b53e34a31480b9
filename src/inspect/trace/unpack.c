/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unpack - finds trace files in others: compressed by zstd, or the core file of a program that was tracing, or both.
 *
 * In a core file the trace is read in place, unless its offset is not aligned. Other contents are written to an unnamed
 * file in $TMPDIR (default /var/tmp), which is then read like any other. Zero blocks become holes, so the file uses no more
 * space than its data.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "base/file.h"
#include "inspect/trace/internal.h"

enum { BLOCK_BYTES = 4096, CHUNK_BYTES = 1 << 20, SEGMENTS_MAX = 65536 };
#define UNPACKED_BYTES_MAX ((uint64_t)1 << 40)

static const uint8_t zstd_magic[] = { 0x28, 0xb5, 0x2f, 0xfd };

static int open_unnamed(struct fathom_fault *why)
{
	const char *directory = getenv("TMPDIR");
	char name[PATH_MAX];
	int fd;

	if (!directory || !*directory)
		directory = "/var/tmp";
	fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0 && snprintf(name, sizeof(name), "%s/fathom-trace-XXXXXX", directory) < (int)sizeof(name)) {
		fd = mkostemp(name, O_CLOEXEC);
		if (fd >= 0)
			unlink(name);
	}
	return fd >= 0 ? fd : fault(why, -errno, "cannot make a file in %s: %s", directory, strerror(errno));
}

/* Write the blocks of `data` that are not zero; `offset`: place of `data` in the file. */
static int write_nonzero_blocks(int fd, const uint8_t *data, size_t bytes, uint64_t offset, struct fathom_fault *why)
{
	for (size_t at = 0; at < bytes;) {
		size_t block = min_u64(bytes - at, BLOCK_BYTES - (offset + at) % BLOCK_BYTES);
		int rc = is_all_zero(data + at, block) ? 0 : file_write_at(fd, data + at, block, offset + at);

		if (rc)
			return fault(why, rc, "cannot write the unpacked trace: %s; TMPDIR selects another directory",
				     strerror(-rc));
		at += block;
	}
	return 0;
}

/* ---- zstd ---- */

struct inflater {
	ZSTD_DCtx *zstd;
	uint8_t *in_chunk, *out_chunk; /* CHUNK_BYTES each */
};

/* Decompress as much as possible: a truncated file gives what is in front of the cut. */
static int inflate(const struct inflater *inflater, int from, int to, uint64_t *bytes_ret, struct fathom_fault *why)
{
	uint64_t offset = 0;
	ssize_t got;

	while ((got = read(from, inflater->in_chunk, CHUNK_BYTES)) > 0 || (got < 0 && errno == EINTR)) {
		ZSTD_inBuffer in = { .src = inflater->in_chunk, .size = got > 0 ? (size_t)got : 0 };

		while (in.pos < in.size) {
			ZSTD_outBuffer out = { .dst = inflater->out_chunk, .size = CHUNK_BYTES };
			size_t hint = ZSTD_decompressStream(inflater->zstd, &out, &in);
			int rc = write_nonzero_blocks(to, inflater->out_chunk, out.pos, offset, why);

			if (rc)
				return rc;
			offset += out.pos;
			*bytes_ret = offset;
			if (ZSTD_isError(hint))
				return 0; /* damaged from here on: keep what is there */
			if (offset > UNPACKED_BYTES_MAX)
				return fault(why, -EFBIG, "the file has more than a TiB");
		}
	}
	return got < 0 ? fault(why, -errno, "cannot read: %s", strerror(errno)) : 0;
}

static int unpack_zstd(int from, int to, uint64_t *bytes_ret, struct fathom_fault *why)
{
	struct inflater inflater = { ZSTD_createDCtx(), malloc(CHUNK_BYTES), malloc(CHUNK_BYTES) };
	int rc = -ENOMEM;

	if (inflater.in_chunk && inflater.out_chunk && inflater.zstd && lseek(from, 0, SEEK_SET) == 0)
		rc = inflate(&inflater, from, to, bytes_ret, why);
	else
		rc = fault(why, rc, "out of memory");
	ZSTD_freeDCtx(inflater.zstd);
	free(inflater.in_chunk);
	free(inflater.out_chunk);
	return rc;
}

/* ---- core files ---- */

static bool begins_with_trace(int fd, uint64_t offset)
{
	char magic[sizeof(((struct trace_header *)0)->magic)];

	return pread(fd, magic, sizeof(magic), (off_t)offset) == sizeof(magic) &&
	       memcmp(magic, TRACE_MAGIC, sizeof(magic)) == 0;
}

static int copy_part(int from, int to, uint64_t offset, uint64_t bytes, uint64_t *bytes_ret, struct fathom_fault *why)
{
	uint8_t *chunk = malloc(CHUNK_BYTES);
	int rc = chunk ? 0 : fault(why, -ENOMEM, "out of memory");

	*bytes_ret = 0;
	while (rc == 0 && *bytes_ret < bytes) {
		ssize_t got = pread(from, chunk, min_u64(CHUNK_BYTES, bytes - *bytes_ret), (off_t)(offset + *bytes_ret));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break; /* the core file is truncated */
		rc = write_nonzero_blocks(to, chunk, (size_t)got, *bytes_ret, why);
		*bytes_ret += (uint64_t)got;
	}
	free(chunk);
	return rc;
}

/* Find the largest segment of a core file that begins with a trace file's header. */
static int find_in_core(int from, uint64_t *offset_ret, uint64_t *bytes_ret, struct fathom_fault *why)
{
	uint64_t count, largest = 0;
	Elf64_Ehdr elf;

	if (pread(from, &elf, sizeof(elf), 0) != sizeof(elf) || elf.e_ident[EI_CLASS] != ELFCLASS64 ||
	    elf.e_type != ET_CORE || elf.e_phentsize != sizeof(Elf64_Phdr))
		return fault(why, -EBADMSG,
			     "this is a program or another ELF file, neither a Fathom trace file nor a core file");
	count = elf.e_phnum;
	if (count == PN_XNUM) {
		Elf64_Shdr first;

		if (pread(from, &first, sizeof(first), (off_t)elf.e_shoff) != sizeof(first))
			return fault(why, -EBADMSG, "the core file is damaged");
		count = min_u64(first.sh_info, SEGMENTS_MAX);
	}
	for (uint64_t i = 0; i < count; i++) {
		Elf64_Phdr part;

		if (pread(from, &part, sizeof(part), (off_t)(elf.e_phoff + i * sizeof(part))) != sizeof(part))
			break;
		/* the largest: a small segment may be just the first page of a trace file */
		if (part.p_type == PT_LOAD && part.p_filesz > largest && begins_with_trace(from, part.p_offset)) {
			largest = part.p_filesz;
			*offset_ret = part.p_offset;
		}
	}
	if (largest == 0)
		return fault(why, -EBADMSG,
			     "the core file holds no trace (its program was not tracing, or its shared memory "
			     "was left out: bit 3 of coredump_filter)");
	*bytes_ret = largest;
	return 0;
}

static int find_or_copy(int from, int *fd_ret, uint64_t *offset_ret, uint64_t *bytes_ret, struct fathom_fault *why)
{
	uint64_t offset = 0, bytes = 0;
	int rc = find_in_core(from, &offset, &bytes, why), to;

	if (rc)
		return rc;
	if (offset % 8 == 0) {
		*offset_ret = offset;
		*bytes_ret = bytes;
		return 0;
	}
	to = open_unnamed(why);
	if (to < 0)
		return to;
	rc = copy_part(from, to, offset, bytes, &bytes, why);
	if (rc == 0 && ftruncate(to, (off_t)bytes) != 0)
		rc = fault(why, -errno, "cannot unpack: %s", strerror(errno));
	if (rc)
		close(to);
	else
		*fd_ret = to;
	return rc;
}

/* ---- entry points ---- */

static bool begins_with(int fd, const void *magic)
{
	uint8_t begin[4];

	return pread(fd, begin, sizeof(begin), 0) == sizeof(begin) && memcmp(begin, magic, sizeof(begin)) == 0;
}

int reader_decompress(int fd, int *fd_ret, struct fathom_fault *why)
{
	uint64_t bytes = 0;
	int to, rc;

	if (!begins_with(fd, zstd_magic))
		return 0;
	to = open_unnamed(why);
	if (to < 0)
		return to;
	rc = unpack_zstd(fd, to, &bytes, why);
	if (rc == 0 && ftruncate(to, (off_t)bytes) != 0)
		rc = fault(why, -errno, "cannot unpack: %s", strerror(errno));
	if (rc)
		close(to);
	else
		*fd_ret = to;
	return rc;
}

int trace_unpack(int fd, int *fd_ret, uint64_t *offset_ret, uint64_t *bytes_ret, struct fathom_fault *why)
{
	int plain = -1, copy = -1, rc = reader_decompress(fd, &plain, why);

	if (rc == 0 && begins_with(plain >= 0 ? plain : fd, ELFMAG))
		rc = find_or_copy(plain >= 0 ? plain : fd, &copy, offset_ret, bytes_ret, why);
	if (plain >= 0 && (rc || copy >= 0))
		close(plain);
	if (rc)
		return rc;
	if (copy >= 0)
		*fd_ret = copy;
	else if (plain >= 0)
		*fd_ret = plain;
	return 0;
}
