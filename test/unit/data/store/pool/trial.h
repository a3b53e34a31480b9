/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * trial - makes a change of a storage tree with a power cut before each of its calls and after the last one. The tree opens
 * with the state before the change or after it, never with another one; after the change has returned, only with the one
 * after it. Nothing else is left in the storage.
 *
 * A planted bug must break that: a sync that is missing, one that comes after the next rename, and a rename that comes
 * after the next call.
 */
#ifndef TEST_UNIT_DATA_STORE_POOL_TRIAL_H
#define TEST_UNIT_DATA_STORE_POOL_TRIAL_H

#include "base/random.h"
#include "contents.h"

struct trial_change {
	const char *name;
	/* What comes before it, without power cuts; then the state before the change is that after it. NULL: nothing. */
	int (*begin)(void *ctx, struct contents *now, struct memory_fs *memory);
	/* Returns what the change returned; an error if it is not possible in this state. */
	int (*make)(void *ctx, struct contents *now, struct memory_fs *memory);
	void *ctx;
	bool is_offline; /* the tree is not open meanwhile: `now` is NULL */
};

enum plant { PLANT_NOTHING, PLANT_MISSING_SYNC, PLANT_LATE_SYNC, PLANT_LATE_RENAME };

struct trial {
	enum plant plant;
	uint32_t index;	       /* of the sync or the rename */
	bool cuts_recovery;    /* the power is cut again during each call of the open that follows */
	bool is_first;	       /* the open of the storage belongs to the change */
	bool may_be_damaged;   /* the states may have damaged objects */
	struct random *random; /* set: the memory afterwards may be one of the states that a power cut leaves */
	uint32_t sync_count;   /* set by try_change() */
	bool was_late;	       /* likewise: the planted wrong order was there */
	int error;	       /* likewise: what the change returned */
};

/* Make the change to `*memory`. Returns NULL if all is right, else a text to free. */
char *try_change(struct memory_fs **memory, const struct trial_change *change, struct trial *trial);

/*
 * Make the change to copies of `from` with each bug of the kind that `how` states. `is_harmless`: which of them do no harm.
 * Adds to `*found` how many were found. Returns NULL if each that does harm was found, else a text to free.
 */
char *try_bugs(const struct memory_fs *from, const struct trial_change *change, const struct trial *how,
	       bool (*is_harmless)(void *ctx, enum plant plant, uint32_t index), uint32_t *found);

/* The states that were opened so far. */
uint32_t trial_cuts(void);

#endif
