/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bundle - the evidence, the report, the trace file and the report of a crash as one archive, in the format of tar (POSIX
 * ustar):
 *
 *   evidence.json  report.json  report.txt  trace  crash.txt
 *
 * The evidence stands first, so that an archive is recognised by its first bytes. A file has its final name only when it is
 * complete.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/file.h"
#include "cmd/fathom/doctor/doctor.h"

enum { BLOCK = 512, COPY_BYTES = 1 << 20, KEY_BYTES_MAX = 16384, EVIDENCE_BYTES_MAX = 256 << 20 };

struct tar_header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100], magic[6], version[2];
	char rest[247];
};
static_assert(sizeof(struct tar_header) == BLOCK, "the format");

/* Octal digits and a NUL. */
static void put_octal(char *to, size_t bytes, uint64_t number)
{
	to[--bytes] = '\0';
	while (bytes > 0) {
		to[--bytes] = (char)('0' + number % 8);
		number /= 8;
	}
}

static int write_header(int fd, const char *name, uint64_t bytes)
{
	struct tar_header header = { .type = '0', .magic = "ustar", .version = { '0', '0' } };
	uint32_t sum = 0;

	snprintf(header.name, sizeof(header.name), "%s", name);
	put_octal(header.mode, sizeof(header.mode), 0600);
	put_octal(header.uid, sizeof(header.uid), 0);
	put_octal(header.gid, sizeof(header.gid), 0);
	put_octal(header.size, sizeof(header.size), bytes);
	put_octal(header.mtime, sizeof(header.mtime), clock_realtime_ns() / NS_PER_SEC);
	memset(header.checksum, ' ', sizeof(header.checksum));
	for (size_t i = 0; i < sizeof(header); i++)
		sum += ((const uint8_t *)&header)[i];
	put_octal(header.checksum, sizeof(header.checksum) - 1, sum);
	return file_write(fd, &header, sizeof(header));
}

static int write_padding(int fd, uint64_t bytes)
{
	static const char zeroes[BLOCK];

	return bytes % BLOCK ? file_write(fd, zeroes, BLOCK - bytes % BLOCK) : 0;
}

static int write_member(int fd, const char *name, const char *text, size_t bytes)
{
	int rc = write_header(fd, name, bytes);

	if (rc == 0)
		rc = file_write(fd, text, bytes);
	return rc ? rc : write_padding(fd, bytes);
}

static int write_json(int fd, const char *name, const json_t *value)
{
	char *text = json_dumps(value, JSON_INDENT(1) | JSON_REAL_PRECISION(15));
	int rc;

	must(text);
	rc = write_member(fd, name, text, strlen(text));
	free(text);
	return rc;
}

/*
 * The file may be written to meanwhile: exactly `bytes` of it are copied; what is missing becomes zeroes. Keys are erased:
 * the last KEY_BYTES_MAX bytes of each part are looked at again with the next one, for a key that lies in both.
 */
static int copy_file(int to, int from, uint64_t bytes)
{
	char *buffer = calloc(1, COPY_BYTES + KEY_BYTES_MAX);
	uint64_t done = 0;
	size_t kept = 0; /* in front of the buffer, not written yet */
	int rc = 0;

	must(buffer);
	while (rc == 0 && done < bytes) {
		size_t part = bytes - done < COPY_BYTES ? (size_t)(bytes - done) : COPY_BYTES, ready;
		ssize_t got = pread(from, buffer + kept, part, (off_t)done);

		if (got < (ssize_t)part)
			memset(buffer + kept + (got > 0 ? got : 0), 0, part - (size_t)(got > 0 ? got : 0));
		done += part;
		doctor_erase_keys(buffer, kept + part);
		ready = done == bytes ? kept + part : kept + part - (size_t)min_u64(kept + part, KEY_BYTES_MAX);
		rc = file_write(to, buffer, ready);
		kept = kept + part - ready;
		memmove(buffer, buffer + ready, kept);
	}
	free(buffer);
	return rc ? rc : write_padding(to, bytes);
}

/* A file, if it exists. */
static int write_file(int fd, const char *name, const char *path)
{
	int from = path && path[0] ? open(path, O_RDONLY | O_CLOEXEC) : -1, rc = 0;
	struct stat st;

	if (from < 0)
		return 0; /* the evidence has the reason */
	if (fstat(from, &st) == 0 && S_ISREG(st.st_mode)) {
		rc = write_header(fd, name, (uint64_t)st.st_size);
		if (rc == 0)
			rc = copy_file(fd, from, (uint64_t)st.st_size);
	}
	close(from);
	return rc;
}

static int write_text(int fd, const struct doctor_bundle *bundle)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *to = open_memstream(&text, &bytes);
	int rc;

	must(to);
	doctor_report_print(bundle->report, to);
	fclose(to);
	doctor_erase_keys(text, bytes);
	rc = write_member(fd, "report.txt", text, bytes);
	free(text);
	return rc;
}

static int write_all(int fd, const struct doctor_bundle *bundle)
{
	static const char end[2 * BLOCK];
	json_t *evidence = doctor_without_secrets(bundle->evidence), *whole = doctor_report_json(bundle->report);
	json_t *report = doctor_without_secrets(whole), *trace = json_object_get(bundle->evidence, "trace");
	int rc = write_json(fd, "evidence.json", evidence);

	if (rc == 0)
		rc = write_json(fd, "report.json", report);
	if (rc == 0)
		rc = write_text(fd, bundle);
	if (rc == 0)
		rc = write_file(fd, "trace", bundle->trace);
	if (rc == 0)
		rc = write_file(fd, "crash.txt", json_string_value(json_object_get(trace, "report")));
	json_decref(evidence);
	json_decref(report);
	json_decref(whole);
	return rc ? rc : file_write(fd, end, sizeof(end));
}

int doctor_write_bundle(const char *path, const struct doctor_bundle *bundle, struct fathom_fault *why)
{
	char part[PATH_MAX];
	int fd, rc = file_check_new(path, bundle->force, why);

	if (rc)
		return rc;
	if (snprintf(part, sizeof(part), "%s.part", path) >= (int)sizeof(part))
		return fault(why, -ENAMETOOLONG, "%.200s: too long", path);
	fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return fault(why, -errno, "%.200s: %s", part, strerror(errno));
	rc = write_all(fd, bundle);
	if (close(fd) != 0 && rc == 0)
		rc = -errno;
	if (rc == 0)
		rc = file_give_name(part, path, bundle->force);
	if (rc) {
		(void)unlink(part); /* it may not exist any more */
		return fault(why, rc, "%.200s: %s", path, strerror(-rc));
	}
	return 0;
}

/* Read the whole file. Pair: free(). Errors: -errno, -EFBIG. */
static int read_all(const char *path, char **text_ret, size_t *bytes_ret)
{
	FILE *from = fopen(path, "re");
	struct stat st;
	char *text;
	int rc = 0;

	if (!from)
		return -errno;
	if (fstat(fileno(from), &st) != 0)
		rc = -errno;
	/* of an archive, only the first member is needed */
	if (rc == 0) {
		size_t bytes = st.st_size < EVIDENCE_BYTES_MAX ? (size_t)st.st_size : EVIDENCE_BYTES_MAX;

		text = malloc(bytes + 1);
		must(text);
		*bytes_ret = fread(text, 1, bytes, from);
		text[*bytes_ret] = '\0';
		*text_ret = text;
	}
	fclose(from);
	return rc;
}

int doctor_read_bundle(const char *path, json_t **evidence_ret, struct fathom_fault *why)
{
	const struct tar_header *header;
	size_t bytes = 0, size, begin = 0;
	json_error_t error;
	char *text = NULL;
	int rc = read_all(path, &text, &bytes);

	if (rc)
		return fault(why, rc, "%.200s: %s", path, strerror(-rc));
	size = bytes;
	if (text[0] != '{' && bytes >= BLOCK) {
		header = (const struct tar_header *)text;
		size = strtoull(header->size, NULL, 8);
		begin = BLOCK;
	}
	if (size > bytes - begin)
		size = bytes - begin;
	*evidence_ret = json_loadb(text + begin, size, 0, &error);
	free(text);
	if (!json_is_object(*evidence_ret)) {
		json_decref(*evidence_ret);
		return fault(why, -EBADMSG, "%.200s: not an archive of `fathom doctor --bundle`: %s", path, error.text);
	}
	return 0;
}
