/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * space_watch - reads the space of the storage now and then, which also sets what volumes without a promise may allocate.
 *
 * Each second if there are such volumes, else every IDLE_SEC. A reading takes as long as the storage has volumes, so the
 * pause after it is PAUSE_PARTS times as long as it took. At most one reading waits for a storage that hangs.
 */
#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/reactor/reactor.h"
#include "data/engine/internal.h"
#include "data/store/volume/volumes.h"

enum { CHECK_SEC = 1, IDLE_SEC = 10, PAUSE_PARTS = 20 };

static struct {
	struct poller *poller;
	bool is_reading;
	uint64_t begin_ns, next_ns; /* clock_monotonic_ns() */
} watch;

/* Also after an error: the figures are then those of the last reading. */
static void note_read(void *ctx, const struct fathom_fault *why)
{
	const struct volumes *volumes = engine_storage();
	uint64_t now_ns = clock_monotonic_ns(), pause_ns = (now_ns - watch.begin_ns) * PAUSE_PARTS;
	bool is_limited = volumes && !why && volumes_has_unpromised(volumes);

	watch.is_reading = false;
	watch.next_ns = watch.begin_ns + max_u64(pause_ns, (is_limited ? CHECK_SEC : IDLE_SEC) * NS_PER_SEC);
}

static int poll_space(void *ctx)
{
	struct volumes *volumes = engine_storage();
	uint64_t now_ns = clock_monotonic_ns();

	if (!volumes || watch.is_reading || now_ns < watch.next_ns)
		return 0;
	watch.is_reading = true;
	watch.begin_ns = now_ns;
	volumes_read_space(volumes, note_read, NULL);
	return 1;
}

void space_watch_start(void)
{
	must(!watch.poller);
	watch.next_ns = 0;
	watch.poller = poller_register("engine_space", poll_space, NULL, CHECK_SEC * NS_PER_SEC);
	if (!watch.poller)
		log_warning("out of memory: the space of the storage is read only when the server asks");
}

void space_watch_stop(void)
{
	poller_unregister(&watch.poller);
}
