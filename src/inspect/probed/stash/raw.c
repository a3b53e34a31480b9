/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * raw - objects as they were received, and all that is needed to parse them again.
 *
 *   dof/$dev-$ino[-1]         the first object received for a mapped file; its second block
 *   dof/$dev-$ino.$pid[-1]    an object of another process that differs from the first. The dynamic linker relocates
 *                             objects, so objects of one file often differ
 *   dof-pid/$pid/$dev-$ino/raw[-1], dh
 *   dof-pid/$pid/$dev-$ino/blocks     for ELF notes only: kind and addresses, as text
 *
 * The number of links counts the users of an object, plus one for its name in dof/. An object without a name in dof/, which
 * only damage can cause, works; it is not shared and does not count for the limit in total.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "inspect/probed/stash/internal.h"

static_assert(sizeof(struct dof_helper) == 80, "dh is the structure that programs pass, byte for byte");

enum { BLOCKS_TEXT_BYTES = 128 };

static const char *const kinds[] = { [DOF_KIND_DOF] = "dof", [DOF_KIND_USDT] = "usdt", [DOF_KIND_SDT] = "sdt" };

const char *stash_raw_name(uint32_t block)
{
	static const char *const names[DOF_BLOCKS_MAX] = { "raw", "raw-1" };

	must(block < DOF_BLOCKS_MAX);
	return names[block];
}

uint32_t stash_block_count(const struct dof_input *input)
{
	return input->kind == DOF_KIND_USDT ? 2 : 1;
}

void stash_object_name(const struct stash_mapping *mapping, pid_t pid, uint32_t block, bool own, char *name)
{
	char base[STASH_MAPPING_NAME_BYTES], owner[24] = "";

	stash_mapping_name(mapping, base);
	if (own)
		snprintf(owner, sizeof(owner), ".%d", (int)pid);
	snprintf(name, STASH_FILE_NAME_BYTES, "%s%s%s", base, owner, block ? "-1" : "");
}

static int compare_file(int fd, const struct dof_block *block, bool *same_ret)
{
	uint8_t piece[65536];

	*same_ret = false;
	for (size_t at = 0; at < block->bytes;) {
		ssize_t got = read(fd, piece, min_u64(sizeof(piece), block->bytes - at));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0 || memcmp(piece, (const uint8_t *)block->data + at, (size_t)got) != 0)
			return 0;
		at += (size_t)got;
	}
	*same_ret = true;
	return 0;
}

/* Compare dof/`name` with a block. -ENOENT: there is no such object. */
static int compare_object(struct stash *stash, const char *name, const struct dof_block *block, bool *same_ret)
{
	struct stat status;
	int fd, rc;

	if (fstatat(stash->dof, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
		return -errno;
	*same_ret = false;
	if (!S_ISREG(status.st_mode) || (uint64_t)status.st_size != block->bytes)
		return 0;
	fd = openat(stash->dof, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	rc = compare_file(fd, block, same_ret);
	close(fd);
	return rc;
}

/* Write a new object to `folder`, then link it to `name` in dof/, where it is whole when it appears. */
static int put_new_object(struct stash *stash, const char *name, const struct dof_block *block, struct stash_upload *upload,
			  int folder, const char *raw)
{
	int rc = upload ? stash_upload_link(upload, folder, raw) : -ENOENT;

	/* without /proc, an upload cannot get a name */
	if (rc == -ENOENT)
		rc = stash_write_file(folder, raw, block->data, block->bytes);
	if (rc)
		return rc;
	if (linkat(folder, raw, stash->dof, name, 0) != 0)
		return -errno;
	stash->total.bytes += block->bytes;
	return 0;
}

static int put_block(struct stash *stash, const struct stash_addition *addition, uint32_t index, int folder)
{
	const struct dof_block *block = &addition->input->blocks[index];
	struct stash_upload *upload = addition->uploads ? addition->uploads[index] : NULL;
	pid_t pid = addition->process->pid;
	const char *raw = stash_raw_name(index);
	char name[STASH_FILE_NAME_BYTES];
	bool same = false;
	int rc;

	stash_object_name(addition->mapping, pid, index, false, name);
	rc = upload ? stash_upload_is(upload, stash->dof, name, &same) : compare_object(stash, name, block, &same);
	if (rc == -ENOENT)
		return put_new_object(stash, name, block, upload, folder, raw);
	if (rc)
		return rc;
	if (same && linkat(stash->dof, name, folder, raw, 0) == 0)
		return 0;
	if (same && errno != EMLINK) /* the filesystem's limit; a copy has links of its own */
		return -errno;
	stash_object_name(addition->mapping, pid, index, true, name);
	return put_new_object(stash, name, block, upload, folder, raw);
}

int stash_put_input(struct stash *stash, const struct stash_addition *addition, int folder)
{
	const struct dof_input *input = addition->input;
	char text[BLOCKS_TEXT_BYTES];
	int rc = 0, bytes;

	must((size_t)input->kind < ARRAY_COUNT(kinds));
	for (uint32_t i = 0; i < stash_block_count(input) && rc == 0; i++)
		rc = put_block(stash, addition, i, folder);
	if (rc == 0)
		rc = stash_write_file(folder, "dh", &input->helper, sizeof(input->helper));
	if (rc || input->kind == DOF_KIND_DOF)
		return rc;
	bytes = snprintf(text, sizeof(text), "%s %d %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", kinds[input->kind],
			 input->bits_32 ? 32 : 64, input->blocks[0].base, input->blocks[1].base, input->note_base);
	must(bytes > 0 && (size_t)bytes < sizeof(text));
	return stash_write_file(folder, "blocks", text, (size_t)bytes);
}

/* Remove dof/`name` if no process uses it. `*dropped_ret`: it was removed. */
static int drop_object(struct stash *stash, const char *name, bool *dropped_ret)
{
	struct stat status;
	int rc, fd = -1;

	*dropped_ret = false;
	if (fstatat(stash->dof, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISREG(status.st_mode) || status.st_nlink > 1)
		return 0;
	if (status.st_size > STASH_SLICE_BYTES)
		fd = openat(stash->dof, name,
			    O_WRONLY | O_NOFOLLOW | O_CLOEXEC); /* if this fails, unlink() frees it at once */
	rc = stash_unlink(stash->dof, name, 0);
	if (fd >= 0 && rc)
		close(fd);
	if (rc)
		return rc;
	if (fd >= 0)
		stash_discard_file(stash, fd, (uint64_t)status.st_size);
	stash->total.bytes -= min_u64(stash->total.bytes, (uint64_t)status.st_size);
	*dropped_ret = true;
	return 0;
}

int stash_drop_raw(struct stash *stash, pid_t pid, const struct stash_mapping *mapping, uint32_t block_count)
{
	int rc = 0;

	must(block_count <= DOF_BLOCKS_MAX);
	for (uint32_t i = 0; i < block_count && rc == 0; i++) {
		char name[STASH_FILE_NAME_BYTES];
		bool dropped;

		stash_object_name(mapping, pid, i, false, name);
		rc = drop_object(stash, name, &dropped);
		if (rc == 0 && !dropped) { /* a mapping has only one of the two */
			stash_object_name(mapping, pid, i, true, name);
			rc = drop_object(stash, name, &dropped);
		}
	}
	return rc;
}

/* ---- reading ---- */

static int parse_blocks(char *text, struct dof_input *input)
{
	uint64_t numbers[4];
	char *rest = text, *word = strsep(&rest, " ");

	for (input->kind = DOF_KIND_USDT; strcmp(word, kinds[input->kind]) != 0; input->kind++) {
		if (input->kind == DOF_KIND_SDT)
			return -EINVAL;
	}
	if (rest)
		rest[strcspn(rest, "\n")] = '\0';
	for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
		word = strsep(&rest, " ");
		if (!word || !stash_parse_number(word, UINT64_MAX, &numbers[i]))
			return -EINVAL;
	}
	if (rest || (numbers[0] != 32 && numbers[0] != 64))
		return -EINVAL;
	input->bits_32 = numbers[0] == 32;
	input->blocks[0].base = numbers[1];
	input->blocks[1].base = numbers[2];
	input->note_base = numbers[3];
	return 0;
}

static int get_blocks(int folder, struct dof_input *input)
{
	size_t bytes;
	void *text;
	int rc = stash_read_file(folder, "blocks", BLOCKS_TEXT_BYTES, &text, &bytes);

	if (rc == -ENOENT)
		return 0; /* no file: it is DOF */
	if (rc == 0) {
		rc = parse_blocks(text, input);
		free(text);
	}
	return rc;
}

static int get_helper(int folder, struct dof_helper *helper)
{
	size_t bytes;
	void *data;
	int rc = stash_read_file(folder, "dh", sizeof(*helper), &data, &bytes);

	if (rc)
		return rc;
	if (bytes == sizeof(*helper))
		memcpy(helper, data, sizeof(*helper));
	else
		rc = -EINVAL;
	free(data);
	return rc;
}

int stash_get_input(int folder, struct dof_input *input_ret, void **memory_ret)
{
	struct dof_input input = { .kind = DOF_KIND_DOF };
	void *blocks[DOF_BLOCKS_MAX] = { NULL }, *grown;
	int rc = get_helper(folder, &input.helper);

	if (rc == 0)
		rc = get_blocks(folder, &input);
	for (uint32_t i = 0; rc == 0 && i < stash_block_count(&input); i++)
		rc = stash_read_file(folder, stash_raw_name(i), DOF_BYTES_MAX, &blocks[i], &input.blocks[i].bytes);
	if (rc == 0 && blocks[1]) {
		grown = realloc(blocks[0], input.blocks[0].bytes + input.blocks[1].bytes + 1);
		if (grown) {
			blocks[0] = grown;
			memcpy((uint8_t *)grown + input.blocks[0].bytes, blocks[1], input.blocks[1].bytes);
		} else {
			rc = -ENOMEM;
		}
	}
	free(blocks[1]);
	if (rc) {
		free(blocks[0]);
		return rc;
	}
	must(blocks[0] && input.blocks[0].bytes <= DOF_BYTES_MAX);
	input.blocks[0].data = blocks[0];
	if (stash_block_count(&input) > 1)
		input.blocks[1].data = (uint8_t *)blocks[0] + input.blocks[0].bytes;
	*input_ret = input;
	*memory_ret = blocks[0];
	return 0;
}

static int same_block(int folder, uint32_t index, const struct dof_block *block, const struct stash_upload *upload,
		      bool *same_ret)
{
	size_t bytes;
	void *data;
	int rc;

	if (upload)
		return stash_upload_is(upload, folder, stash_raw_name(index), same_ret);
	rc = stash_read_file(folder, stash_raw_name(index), DOF_BYTES_MAX, &data, &bytes);
	if (rc)
		return rc;
	*same_ret = bytes == block->bytes && memcmp(data, block->data, bytes) == 0;
	free(data);
	return 0;
}

int stash_same_input(int folder, const struct dof_input *input, struct stash_upload *const *uploads, bool *same_ret)
{
	struct dof_input there = { .kind = DOF_KIND_DOF };
	int rc = get_helper(folder, &there.helper);
	bool same = false;

	if (rc == 0)
		rc = get_blocks(folder, &there);
	if (rc == 0)
		same = there.kind == input->kind && there.bits_32 == input->bits_32 &&
		       there.note_base == input->note_base &&
		       memcmp(&there.helper, &input->helper, sizeof(there.helper)) == 0;
	for (uint32_t i = 0; rc == 0 && same && i < stash_block_count(input); i++) {
		same = there.blocks[i].base == input->blocks[i].base;
		if (same)
			rc = same_block(folder, i, &input->blocks[i], uploads ? uploads[i] : NULL, &same);
	}
	if (rc == 0)
		*same_ret = same;
	return rc;
}

static int check_block(struct stash_sweep *sweep, pid_t pid, const struct stash_mapping *mapping, uint32_t block,
		       int folder, uint64_t *bytes)
{
	struct stat status, named;

	if (fstatat(folder, stash_raw_name(block), &status, AT_SYMLINK_NOFOLLOW) != 0)
		return -errno;
	if (!S_ISREG(status.st_mode) || status.st_size > DOF_BYTES_MAX)
		return -EINVAL;
	*bytes += (uint64_t)status.st_size;
	for (int own = 0; own < 2; own++) {
		char name[STASH_FILE_NAME_BYTES];

		stash_object_name(mapping, pid, block, own != 0, name);
		if (fstatat(sweep->stash->dof, name, &named, AT_SYMLINK_NOFOLLOW) != 0) {
			if (errno != ENOENT)
				return -errno;
		} else if (named.st_ino == status.st_ino) {
			return stash_add_seen(sweep, status.st_ino, stash_path_hash(name));
		}
	}
	return 0; /* its name in dof/ is lost */
}

/* Set other entries of a mapping's folder aside: a hard link among them would keep an unused object in dof/. */
static int check_mapping_names(struct stash *stash, int folder, const struct dof_input *input)
{
	struct stash_list list = { 0 };
	int rc = stash_list_folder(folder, &list);

	for (uint32_t i = 0; i < list.count && rc == 0; i++) {
		const char *name = stash_list_at(&list, i);
		bool known = strcmp(name, "dh") == 0 || strcmp(name, "parsed") == 0 ||
			     (strcmp(name, "blocks") == 0 && input->kind != DOF_KIND_DOF);

		for (uint32_t block = 0; block < stash_block_count(input); block++)
			known |= strcmp(name, stash_raw_name(block)) == 0;
		if (!known)
			rc = stash_set_aside(stash, folder, name, "dof-pid", "not a file of a mapping");
	}
	stash_list_free(&list);
	return rc;
}

int stash_check_input(struct stash_sweep *sweep, pid_t pid, struct stash_mapped *mapped, int folder)
{
	struct dof_input input = { .kind = DOF_KIND_DOF };
	int rc = get_helper(folder, &input.helper);

	if (rc == 0)
		rc = get_blocks(folder, &input);
	mapped->bytes = 0;
	mapped->block_count = stash_block_count(&input);
	for (uint32_t i = 0; rc == 0 && i < mapped->block_count; i++)
		rc = check_block(sweep, pid, &mapped->mapping, i, folder, &mapped->bytes);
	return rc ? rc : check_mapping_names(sweep->stash, folder, &input);
}
