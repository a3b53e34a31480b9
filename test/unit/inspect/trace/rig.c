/* SPDX-License-Identifier: BSD-2-Clause */
#include "rig.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inspect/trace/lives.h"

struct demo_order *rig_orders;
struct demo_job *rig_jobs;

static void child(const struct rig *rig, uint32_t io_entries, void (*fn)(void *ctx), void *ctx, int began)
{
	struct trace_options options = { .schema = &fathom_schema,
					 .name = "rig",
					 .version = "1",
					 .thread_count = 1,
					 .io_entries = io_entries,
					 .pool_bytes = 65536,
					 .directory = rig->directory };
	struct trace_pool_spec orders = { .type = TRACE_OBJECT_ORDER,
					  .story_offset = offsetof(struct demo_order, story),
					  .stride = sizeof(struct demo_order),
					  .count = ORDERS };
	struct trace_pool_spec jobs = { .type = TRACE_OBJECT_JOB,
					.story_offset = offsetof(struct demo_job, story),
					.stride = sizeof(struct demo_job),
					.count = ORDERS };
	struct fathom_fault why = { 0 };

	/* the child must not outlive a failed test */
	must(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
	must(trace_open(&options, &why) == 0);
	must(trace_mask_set("all", &why) == 0);
	must(trace_thread_attach("reactor_0", 0, true) == 0);
	rig_orders = trace_pool_create(&orders);
	rig_jobs = trace_pool_create(&jobs);
	must(write(began, "", 1) == 1);
	fn(ctx);
	kill(getpid(), SIGKILL);
}

void rig_start(struct rig *rig, uint32_t io_entries, void (*fn)(void *ctx), void *ctx)
{
	int began[2];
	char byte;

	snprintf(rig->directory, sizeof(rig->directory), "/dev/shm/fathom-rig-XXXXXX");
	assert_non_null(mkdtemp(rig->directory));
	assert_int_equal(pipe(began), 0);
	fflush(NULL);
	rig->pid = fork();
	assert_true(rig->pid >= 0);
	if (rig->pid == 0) {
		close(began[0]);
		child(rig, io_entries, fn, ctx, began[1]);
		_exit(1);
	}
	close(began[1]);
	assert_int_equal(read(began[0], &byte, 1), 1);
	close(began[0]);
	snprintf(rig->path, sizeof(rig->path), "%s/rig_trace.pid%d", rig->directory, rig->pid);
}

void rig_kill(struct rig *rig)
{
	kill(rig->pid, SIGKILL);
	waitpid(rig->pid, NULL, 0);
	rig->pid = 0;
}

void rig_run(struct rig *rig, uint32_t io_entries, void (*fn)(void *ctx), void *ctx)
{
	int status;

	rig_start(rig, io_entries, fn, ctx);
	assert_int_equal(waitpid(rig->pid, &status, 0), rig->pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGKILL);
	rig->pid = 0;
}

void rig_clean(struct rig *rig)
{
	if (rig->pid)
		rig_kill(rig);
	unlink(rig->path);
	rmdir(rig->directory);
}

void rig_one_order(uint32_t index, uint64_t tick)
{
	struct demo_order *order = &rig_orders[index % ORDERS];
	struct demo_job *job = &rig_jobs[index % ORDERS];

	order_state_move(tick, order, ORDER_RECEIVED);
	order_state_move(tick, order, ORDER_EXECUTING);
	probe_job_submit(tick | TICK_SHARED, job, order, index, DEMO_READ);
	probe_job_run(tick, job, &order->story.trace);
	probe_job_done(tick, job, index, DEMO_OK, trace_intern("null0"));
	order_state_move(tick | TICK_SHARED, order, ORDER_DONE);
	order_state_move(tick, order, ORDER_FREE);
}

struct reader *rig_open(const struct rig *rig)
{
	struct reader *reader;
	struct fathom_fault why = { 0 };

	if (reader_open(rig->path, &reader, &why) != 0)
		fail_msg("%s", why.text);
	return reader;
}

int rig_read_all(const char *path, struct reader_counts *counts_ret)
{
	static struct reader_lives lives;
	static FILE *nowhere;
	struct fathom_fault why = { 0 };
	struct reader_walk walk = { 0 };
	struct reader_exemplar_walk rows = { 0 };
	struct reader_exemplar exemplar;
	struct reader_printer *printer;
	struct reader_events *events;
	struct reader_event event;
	struct reader_story story;
	struct reader_thread thread;
	struct reader_stages *stages;
	struct reader *reader;
	uint64_t now;
	int rc = reader_open(path, &reader, &why);

	if (rc) {
		assert_true(why.text[0]);
		return rc;
	}
	if (!nowhere)
		nowhere = fopen("/dev/null", "w");
	assert_int_equal(reader_events(reader, &events), 0);
	assert_int_equal(reader_printer_create(reader, nowhere, READER_PRINT_JSON, false, &printer), 0);
	now = reader_now(reader);
	reader_events_counts(events, counts_ret);
	reader_print_header(printer, counts_ret);
	assert_int_equal(reader_stages_create(reader, &stages), 0);
	while (reader_event_next(events, &event)) {
		reader_print_event(printer, &event);
		reader_stages_event(stages, &event);
	}
	reader_print_stages(printer, stages);
	reader_stages_free(stages);
	while (reader_exemplar_next(reader, &rows, &exemplar)) {
		for (uint32_t i = 0; i < exemplar.record_count; i++)
			(void)reader_exemplar_event(reader, &exemplar, i, &event);
	}
	for (uint32_t i = 0; i < reader_info(reader)->point_count; i++) {
		if (reader_point_at(reader, i)->object)
			(void)reader_lives(reader, reader_point_at(reader, i)->object, READER_ALL_THREADS, &lives);
	}
	while (reader_story_next(reader, &walk, &story))
		reader_print_story(printer, &story, now, NULL, 0);
	for (uint32_t i = 0; i < reader_info(reader)->thread_count; i++) {
		if (reader_thread(reader, i, &thread))
			reader_print_thread(printer, &thread, now);
	}
	reader_events_counts(events, counts_ret);
	reader_print_end(printer, counts_ret);
	assert_int_equal(reader_printer_destroy(printer), 0);
	reader_events_free(events);
	reader_close(reader);
	return 0;
}
