/* SPDX-License-Identifier: BSD-2-Clause */
#include "instance_rig.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"

#include "../../control_thread.h"

enum { WAIT_SECONDS = 60 };

struct rig rig;
static unsigned int fds_before;
static uint64_t unanswered;

/* ---- calls on the control thread ---- */

static void done(void *ctx, const struct fathom_fault *why)
{
	struct rig_asked *asked = ctx;

	must(unanswered > 0);
	unanswered--;
	asked->answers++;
	asked->failed = why != NULL;
	if (why)
		asked->why = *why;
}

struct request {
	struct rig_asked *asked;
	const char *masks;
	uint32_t number;
	bool flag, replace;
	enum instance_cause cause;
	const struct instance_restart *restart;
};

static void begin_request(struct request *request)
{
	*request->asked = (struct rig_asked){ .answers = 0 };
	unanswered++;
}

static int do_start(void *ctx)
{
	struct request *request = ctx;

	begin_request(request);
	instance_start(rig.instance, done, request->asked);
	must(request->asked->answers == 0);
	return 0;
}

static int do_stop(void *ctx)
{
	struct request *request = ctx;

	begin_request(request);
	instance_stop(rig.instance, request->flag, done, request->asked);
	must(request->asked->answers == 0);
	return 0;
}

static int do_format(void *ctx)
{
	struct request *request = ctx;
	struct instance_format how = { request->flag, request->replace, request->number };

	begin_request(request);
	instance_format(rig.instance, &how, done, request->asked);
	return 0;
}

static int do_erase(void *ctx)
{
	struct request *request = ctx;

	begin_request(request);
	instance_erase(rig.instance, done, request->asked);
	return 0;
}

static int do_prepare(void *ctx)
{
	struct request *request = ctx;

	begin_request(request);
	instance_prepare_stop(rig.instance, done, request->asked);
	return 0;
}

static int do_ping(void *ctx)
{
	struct request *request = ctx;

	begin_request(request);
	instance_ping(rig.instance, NS_PER_SEC, done, request->asked);
	return 0;
}

static void storage_done(void *ctx, const struct fathom_fault *why, const Store__StorageResp *response)
{
	struct rig_storage *storage = ctx;

	must((why == NULL) == (response != NULL));
	if (response) {
		storage->error = response->error;
		storage->total_bytes = response->total_bytes;
		must(snprintf(storage->address, sizeof(storage->address), "%s", response->address) >= 0);
	}
	done(&storage->asked, why);
}

static int do_storage(void *ctx)
{
	struct rig_storage *storage = ctx;
	Store__StorageReq request = STORE__STORAGE_REQ__INIT;

	begin_request(&(struct request){ .asked = &storage->asked });
	request.rank = storage->rank;
	request.action = STORE__ACTION__POOL_CREATE;
	request.pool = "p1";
	request.size_bytes = 77;
	instance_storage_call(rig.instance, &request, storage_done, storage);
	must(storage->asked.answers == 0);
	return 0;
}

static int do_masks(void *ctx)
{
	struct request *request = ctx;

	begin_request(request);
	instance_set_log_masks(rig.instance, request->masks, "", "", done, request->asked);
	return 0;
}

static int do_group(void *ctx)
{
	struct request *request = ctx;
	Mgmt__GroupUpdateReq update = MGMT__GROUP_UPDATE_REQ__INIT;

	update.map_version = request->number;
	instance_group_update(rig.instance, &update);
	return 0;
}

static int do_get_info(void *unused)
{
	instance_get_info(rig.instance, &rig.info);
	return 0;
}

static int do_create(void *unused)
{
	struct fathom_fault why;

	must(!rig.instance);
	must(instance_create(&rig.options, &rig_hooks, &rig.instance, &why) == 0);
	return 0;
}

int rig_destroy_here(void *unused)
{
	struct instance *instance = rig.instance;

	rig.instance = NULL;
	instance_destroy(instance);
	must(unanswered == 0);
	return 0;
}

static int do_set_restart(void *ctx)
{
	struct request *request = ctx;
	struct instance_restart now;

	instance_set_restart(rig.instance, request->cause, request->restart);
	now = instance_get_restart(rig.instance, request->cause);
	must(now.restart == request->restart->restart && now.delay_min_ns == request->restart->delay_min_ns);
	return 0;
}

struct refused {
	const struct instance_options *options;
	struct fathom_fault *why;
};

static int do_refuse(void *ctx)
{
	struct refused *refused = ctx;
	struct instance *instance = NULL;
	int error = instance_create(refused->options, &rig_hooks, &instance, refused->why);

	instance_destroy(instance);
	return error;
}

int rig_refuses(const struct instance_options *options, struct fathom_fault *why)
{
	return on_control(do_refuse, &(struct refused){ .options = options, .why = why });
}

void rig_create(void)
{
	on_control(do_create, NULL);
}

void rig_destroy(void)
{
	on_control(rig_destroy_here, NULL);
}

struct run {
	void (*fn)(void *);
	void *ctx;
};

static int do_run(void *ctx)
{
	struct run *run = ctx;

	run->fn(run->ctx);
	return 0;
}

void rig_run(void (*fn)(void *), void *ctx)
{
	on_control(do_run, &(struct run){ .fn = fn, .ctx = ctx });
}

void rig_start_it(struct rig_asked *asked)
{
	on_control(do_start, &(struct request){ .asked = asked });
}

void rig_stop_it(struct rig_asked *asked, bool force)
{
	on_control(do_stop, &(struct request){ .asked = asked, .flag = force });
}

void rig_format_it(struct rig_asked *asked, bool reformat, bool replace)
{
	on_control(do_format, &(struct request){ .asked = asked, .flag = reformat, .replace = replace });
}

void rig_format_new(struct rig_asked *asked, bool reformat)
{
	on_control(do_format, &(struct request){ .asked = asked, .flag = reformat, .number = 1 });
}

void rig_erase_it(struct rig_asked *asked)
{
	on_control(do_erase, &(struct request){ .asked = asked });
}

void rig_prepare_it(struct rig_asked *asked)
{
	on_control(do_prepare, &(struct request){ .asked = asked });
}

void rig_ping_it(struct rig_asked *asked)
{
	on_control(do_ping, &(struct request){ .asked = asked });
}

void rig_storage_it(struct rig_storage *storage, uint32_t rank)
{
	*storage = (struct rig_storage){ .rank = rank };
	on_control(do_storage, storage);
}

void rig_masks(struct rig_asked *asked, const char *masks)
{
	on_control(do_masks, &(struct request){ .asked = asked, .masks = masks });
}

void rig_group(uint32_t map_version)
{
	on_control(do_group, &(struct request){ .number = map_version });
}

void rig_set_restart(enum instance_cause cause, const struct instance_restart *restart)
{
	on_control(do_set_restart, &(struct request){ .cause = cause, .restart = restart });
}

const struct instance_info *rig_look(void)
{
	on_control(do_get_info, NULL);
	return &rig.info;
}

/* ---- waiting ---- */

static uint64_t wait_until(void)
{
	return clock_monotonic_ns() + WAIT_SECONDS * NS_PER_SEC;
}

static void wait_or_fail(uint64_t until, const char *what)
{
	if (clock_monotonic_ns() > until)
		fail_msg("%s; it is %s: %s; %s", what, instance_state_name(rig_look()->state), rig.info.why.text,
			 rig.trail);
	usleep(500);
}

static int do_count(void *ctx)
{
	return (int)*(uint64_t *)ctx;
}

void rig_answered(struct rig_asked *asked)
{
	uint64_t until = wait_until();

	while (on_control(do_count, &asked->answers) == 0)
		wait_or_fail(until, "no answer");
	assert_int_equal(asked->answers, 1);
}

void rig_done(struct rig_asked *asked)
{
	rig_answered(asked);
	if (asked->failed)
		fail_msg("%s", asked->why.text);
}

void rig_until_gone(pid_t pid)
{
	uint64_t until = wait_until();

	while (rig_look()->pid == pid)
		wait_or_fail(until, "its process does not end");
}

void rig_fails(struct rig_asked *asked, int code)
{
	rig_answered(asked);
	assert_true(asked->failed);
	if (asked->why.code != code)
		fail_msg("%d: %s", asked->why.code, asked->why.text);
}

void rig_until(enum instance_state state)
{
	uint64_t until = wait_until();

	while (rig_look()->state != state)
		wait_or_fail(until, instance_state_name(state));
}

static int do_compare_trail(void *trail)
{
	return strcmp(rig.trail, trail) == 0;
}

void rig_until_trail(const char *trail)
{
	uint64_t until = wait_until();

	while (!on_control(do_compare_trail, (void *)trail))
		wait_or_fail(until, trail);
}

void rig_until_died(uint64_t count)
{
	uint64_t until = wait_until();

	while ((uint64_t)on_control(do_count, &rig.died) < count)
		wait_or_fail(until, "it does not raise as many death events");
	assert_int_equal(rig.died, count);
}

unsigned int rig_received(const char *line)
{
	unsigned int count = 0;
	char read[96];
	FILE *file = fopen(rig.received_path, "r");

	while (file && fgets(read, sizeof(read), file)) {
		read[strcspn(read, "\n")] = '\0';
		count += strcmp(read, line) == 0;
	}
	if (file)
		fclose(file);
	return count;
}

void rig_until_received(const char *line, unsigned int count)
{
	uint64_t until = wait_until();

	while (rig_received(line) < count)
		wait_or_fail(until, line);
	assert_int_equal(rig_received(line), count);
}

void rig_kill(int signal)
{
	rig_look();
	assert_true(rig.info.pid > 0);
	assert_int_equal(kill(rig.info.pid, signal), 0);
}

/* ---- files ---- */

void rig_manner(const char *words)
{
	char path[96], new_path[96];
	FILE *file;

	snprintf(path, sizeof(path), "%s/manner", rig.folder);
	snprintf(new_path, sizeof(new_path), "%s/manner.new", rig.folder);
	file = fopen(new_path, "w");
	must(file);
	fputs(words, file);
	must(fclose(file) == 0 && rename(new_path, path) == 0);
}

struct superblock rig_superblock(void)
{
	struct superblock superblock;
	struct fathom_fault why;
	char path[96];

	snprintf(path, sizeof(path), "%s/superblock", rig.storage);
	if (superblock_read(path, "fathom", &superblock, &why) != 0)
		fail_msg("%s", why.text);
	return superblock;
}

/* Without those of the reactor, which opens them when it first needs them. */
static unsigned int count_fds(void)
{
	DIR *folder = opendir("/proc/self/fd");
	const struct dirent *entry;
	unsigned int count = 0;
	char path[300], is[64];

	must(folder);
	while ((entry = readdir(folder))) {
		ssize_t bytes;

		snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
		bytes = readlink(path, is, sizeof(is) - 1);
		is[bytes < 0 ? 0 : bytes] = '\0';
		count += bytes > 0 && !strstr(is, "io_uring") && !strstr(is, "eventfd");
	}
	closedir(folder);
	return count;
}

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *walk)
{
	return remove(path);
}

static void set_options(void)
{
	assert_non_null(getenv("FATHOM_DOUBLE")); /* the path of engine-double: `meson test` sets it */
	rig.options = (struct instance_options){
		.program = getenv("FATHOM_DOUBLE"),
		.system = "fathom",
		.socket_dir = rig.folder,
		.storage = INSTANCE_STORAGE_FOLDER,
		.mount = rig.storage,
		.file_bytes = 1 << 20,
		.provider = "nvme+tcp",
		.address = "127.0.0.1",
		.port = 4420,
		.domain = "/rack0/node0",
		.log_file = rig.log_path,
		.ready_timeout_ns = 30 * NS_PER_SEC,
		.stop_timeout_ns = 30 * NS_PER_SEC,
		.os = provider_system(),
	};
}

void rig_begin(void)
{
	struct reactor_options options = { .spin_ns = 0 };

	memset(&rig, 0, sizeof(rig));
	unanswered = 0;
	snprintf(rig.folder, sizeof(rig.folder), "/tmp/fathom-instance-XXXXXX");
	must(mkdtemp(rig.folder));
	snprintf(rig.storage, sizeof(rig.storage), "%s/storage", rig.folder);
	snprintf(rig.received_path, sizeof(rig.received_path), "%s/received", rig.folder);
	snprintf(rig.engine_socket, sizeof(rig.engine_socket), "%s/fathom_engine0.sock", rig.folder);
	snprintf(rig.log_path, sizeof(rig.log_path), "%s/log", rig.folder);
	must(mkdir(rig.storage, 0700) == 0);
	rig.rank = 3;
	set_options();
	control_start(&options);
	on_control(rig_open_server, NULL);
	fds_before = count_fds();
}

static int do_nothing(void *unused)
{
	return 0;
}

void rig_end(void)
{
	uint64_t until = wait_until();

	if (rig.instance)
		rig_destroy();
	assert_null(rig.held);
	while (count_fds() > fds_before) { /* connections of doubles that have ended */
		assert_true(clock_monotonic_ns() < until);
		on_control(do_nothing, NULL);
	}
	on_control(rig_close_server, NULL);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
	assert_int_equal(errno, ECHILD);
	control_stop();
	assert_int_equal(rig_received("TWICE"), 0);
	assert_int_equal(nftw(rig.folder, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

void rig_bring_up(void)
{
	struct rig_asked asked;

	rig_create();
	rig_format_it(&asked, false, false);
	rig_done(&asked);
	rig_until(INSTANCE_JOINED);
}
