/* SPDX-License-Identifier: BSD-2-Clause */
/* frames - a walk over the frames of a thread, with libdwfl's state of each. */
#ifndef INSPECT_CORE_FRAMES_H
#define INSPECT_CORE_FRAMES_H

#include <elfutils/libdwfl.h>

#include "inspect/core/core.h"

struct frame_walk {
	struct core *core;
	struct core_frame *frames; /* CORE_FRAMES_MAX */
	uint32_t count;
	bool cut; /* there are more frames */
	/* Called after each frame; frames from `first` on are its inlined functions and itself. NULL: nothing. */
	void (*on_frame)(struct frame_walk *walk, Dwfl_Frame *state, uint64_t pc, uint32_t first);
	void *ctx;
};

enum { CORE_SCOPES_MAX = 64 };

/*
 * The scopes of unit `die` with `pc`, from the outermost on: functions, inlined functions, blocks. Returns their number.
 */
uint32_t core_find_scopes(Dwarf_Die *die, uint64_t pc, Dwarf_Die scopes[CORE_SCOPES_MAX]);

void core_walk_frames(struct frame_walk *walk, const struct core_thread *thread);

#endif
