/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * elf_file - what an ELF file has for the parser: its sections .SUNW_dof, .note.usdt with .rodata, .note.stapsdt.
 *
 * This only finds them and reads them out; what is in them is for dof_parse(), in the jail. To find them takes the ELF
 * header, the table of sections and their names: a few fixed fields, read by pread(2) into memory of ours, each checked
 * against the size of the file in 64 bits before it is used. That is little enough to be done by the daemon itself; libelf,
 * which does much more, would have to be jailed.
 *
 *   fd = open("/proc/PID/map_files/..." or "/proc/PID/root/..." or a path)
 *   elf_read(fd, ...)
 *   elf_base(file, where a segment of it is mapped, from which offset)  -> input.helper.base, which elf_inputs leave 0
 *   input.helper.module = the file's name
 *   jail_parse(..., &file.inputs[i], ...)                               the file is lent until it is done
 *   elf_free(file)
 *
 * Any thread; blocks for as long as the filesystem does.
 */
#ifndef PROBED_ELF_ELF_FILE_H
#define PROBED_ELF_ELF_FILE_H

#include "inspect/probed/dof/dof.h"

enum { ELF_INPUTS_MAX = 3, ELF_SEGMENTS_MAX = 64 };

struct elf_segment {
	uint64_t offset, address, bytes; /* in the file, as linked, of the file */
	bool is_executable;
};

struct elf_file {
	uint32_t input_count;
	struct dof_input inputs[ELF_INPUTS_MAX]; /* one of a kind; module and base are the caller's to fill */
	bool bits_32;
	bool is_relocated; /* position independent, or a library: runs elsewhere than it was linked for */
	uint32_t segment_count;
	struct elf_segment segments[ELF_SEGMENTS_MAX];	  /* that are loaded */
	uint64_t offsets[ELF_INPUTS_MAX][DOF_BLOCKS_MAX]; /* of the blocks, in the file */
	void *memory[ELF_INPUTS_MAX * DOF_BLOCKS_MAX];
};

/*
 * Read `fd`, whose position is not used. A file without such sections has no inputs, which is no error. `*file_ret` is to
 * be given to elf_free(). `limits`: NULL: the defaults. Errors (explained): -ENOEXEC: no ELF file, or of another byte
 * order; -EINVAL: damaged; -E2BIG: over a limit; -ENOMEM, -EIO ...
 */
MUST_CHECK int elf_read(int fd, const struct dof_limits *limits, struct elf_file *file_ret, struct fault *why);
void elf_free(struct elf_file *file);

/*
 * elf_read() in two steps, for what may be large: find the sections of one kind, whose blocks have no data then; and read
 * them. Errors as above; after elf_load(), failed or not, elf_free() is due.
 */
MUST_CHECK int elf_find(int fd, enum dof_kind kind, const struct dof_limits *limits, struct elf_file *file_ret,
			struct fault *why);
MUST_CHECK int elf_load(int fd, struct elf_file *file, struct fault *why);

/* The input of that kind, or NULL; and where its blocks are in the file. */
struct dof_input *elf_input(struct elf_file *file, enum dof_kind kind);
const uint64_t *elf_input_offsets(const struct elf_file *file, enum dof_kind kind);

/*
 * What to add to the file's addresses in a process that has it mapped at `map_start` from `map_offset` of the file on (a
 * line of /proc/PID/maps; best that of the executable mapping). -ENOENT: no segment begins there.
 */
MUST_CHECK int elf_base(const struct elf_file *file, uint64_t map_start, uint64_t map_offset, uint64_t *base_ret);

/* Where in the file the byte is that is linked for `address`. -ENOENT: nowhere. */
MUST_CHECK int elf_offset(const struct elf_file *file, uint64_t address, uint64_t *offset_ret);

#endif
