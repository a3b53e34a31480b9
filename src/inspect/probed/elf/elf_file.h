/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * elf_file - finds the parser's input in an ELF file: the sections .SUNW_dof, .note.usdt with .rodata, .note.stapsdt.
 *
 * It only finds the sections and reads their bytes; dof_parse() parses them, in the jail. This needs the ELF header, the
 * section table and the section names: a few fixed fields, copied by pread(2) and checked in 64 bits against the file's
 * size before use. That is simple enough for the daemon itself; libelf does much more, so it would have to be jailed.
 *
 *   fd = open("/proc/PID/map_files/..." or "/proc/PID/root/..." or a path)
 *   elf_read(fd, ...)
 *   elf_base(file, address of a mapped segment, its file offset)        -> input.helper.base, which elf_read() leaves 0
 *   input.helper.module = the file's name
 *   jail_parse(..., &file.inputs[i], ...)                               the file is lent until it is done
 *   elf_free(file)
 *
 * Any thread; blocks on the filesystem.
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
	struct dof_input inputs[ELF_INPUTS_MAX]; /* at most one of each kind; the caller fills module and base */
	bool bits_32;
	bool is_relocated; /* position independent, or a library: its run-time and link-time addresses differ */
	uint32_t segment_count;
	struct elf_segment segments[ELF_SEGMENTS_MAX];	  /* loaded segments */
	uint64_t offsets[ELF_INPUTS_MAX][DOF_BLOCKS_MAX]; /* of the blocks, in the file */
	void *memory[ELF_INPUTS_MAX * DOF_BLOCKS_MAX];
};

/*
 * Read `fd`; its position is not used. A file without such sections is valid and has no inputs. Free `*file_ret` with
 * elf_free(). `limits`: NULL: the defaults. Errors (explained): -ENOEXEC: no ELF file, or of another byte order; -EINVAL:
 * damaged; -E2BIG: over a limit; -ENOMEM, -EIO ...
 */
MUST_CHECK int elf_read(int fd, const struct dof_limits *limits, struct elf_file *file_ret, struct fathom_fault *why);
void elf_free(struct elf_file *file);

/*
 * elf_read() in two steps, for sections that may be large: find the sections of one kind, without reading the blocks' data;
 * then read it. Errors as above; call elf_free() after elf_load(), even if it failed.
 */
MUST_CHECK int elf_find(int fd, enum dof_kind kind, const struct dof_limits *limits, struct elf_file *file_ret,
			struct fathom_fault *why);
MUST_CHECK int elf_load(int fd, struct elf_file *file, struct fathom_fault *why);

/* The input of that kind, or NULL; and the file offsets of its blocks. */
struct dof_input *elf_input(struct elf_file *file, enum dof_kind kind);
const uint64_t *elf_input_offsets(const struct elf_file *file, enum dof_kind kind);

/*
 * The load address: add it to the file's addresses in a process that maps the file at `map_start` from offset `map_offset`
 * (a line of /proc/PID/maps; prefer the executable mapping). -ENOENT: no segment starts there.
 */
MUST_CHECK int elf_base(const struct elf_file *file, uint64_t map_start, uint64_t map_offset, uint64_t *base_ret);

/* The file offset of the byte with link-time address `address`. -ENOENT: none. */
MUST_CHECK int elf_offset(const struct elf_file *file, uint64_t address, uint64_t *offset_ret);

#endif
