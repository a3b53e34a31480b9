/* SPDX-License-Identifier: BSD-2-Clause */
/* Damaged files are read as far as possible or refused with a reason. Most useful with sanitizers. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/random.h"
#include "rig.h"

static struct rig rig;
static uint8_t *image;
static uint64_t image_bytes;
static int opened, refused;

static void read_everything(void *ctx)
{
	struct demo_thing thing = { 0 };
	uint16_t session = trace_owner_create(TRACE_OWNER_SESSION, 0, "session \"%d\"", 1);

	trace_object_init(&thing.trace, TRACE_OBJECT_THING);
	thing.trace.owner = session;
	rig_orders[0].story.trace.owner = session;
	for (uint32_t i = 0; i < 300; i++)
		rig_one_order(i, clock_ticks());
	order_state_move(clock_ticks(), &rig_orders[1], ORDER_RECEIVED);
	probe_long_one(clock_ticks(), &thing, 1, 2, 3, 4, 5, 6, 7, 8);
	probe_texts(clock_ticks(), trace_intern("a"), trace_intern("\001\xff\xc3\xa4"));
	trace_running(trace_intern("poller"), NULL, clock_ticks());
}

static int make_image(void **state)
{
	struct stat st;
	int fd;

	rig_run(&rig, 1024, read_everything, NULL);
	fd = open(rig.path, O_RDWR);
	assert_int_equal(fstat(fd, &st), 0);
	image_bytes = (uint64_t)st.st_size;
	image = mmap(NULL, image_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(image != MAP_FAILED);
	close(fd);
	return 0;
}

static int remove_image(void **state)
{
	rig_clean(&rig);
	return 0;
}

static void read_and_count(void)
{
	struct reader_counts counts;

	if (rig_read_all(rig.path, &counts) == 0)
		opened++;
	else
		refused++;
}

static void flip(uint64_t offset, uint8_t bits)
{
	image[offset] ^= bits;
	read_and_count();
	image[offset] ^= bits;
}

static const struct trace_section *section(enum trace_section_kind kind)
{
	const struct trace_header *header = (const struct trace_header *)image;

	for (uint32_t i = 0; i < header->section_count; i++) {
		if (header->sections[i].kind == kind)
			return &header->sections[i];
	}
	return NULL;
}

static void a_file_with_any_changed_byte_of_the_header_is_read_or_refused(void **state)
{
	for (uint64_t i = 0; i < sizeof(struct trace_header); i++) {
		flip(i, 0xff);
		flip(i, (uint8_t)(1u << i % 8));
	}
	print_message("# opened %d, refused %d\n", opened, refused);
	assert_true(refused >= 2 * 8);
}

static void a_file_with_any_changed_byte_of_the_tables_is_read_or_refused(void **state)
{
	static const struct {
		enum trace_section_kind kind;
		uint64_t bytes;
	} parts[] = {
		{ TRACE_SECTION_PROCESS, sizeof(struct trace_process) },
		{ TRACE_SECTION_CLOCKS, 128 },
		{ TRACE_SECTION_THREADS, 2 * sizeof(struct trace_thread) },
		{ TRACE_SECTION_OWNERS, 256 },
		{ TRACE_SECTION_STRINGS, 64 },
		{ TRACE_SECTION_RINGS, sizeof(struct trace_ring) + 2 * sizeof(struct trace_record) },
		{ TRACE_SECTION_POOLS, 2 * sizeof(struct trace_pool) },
		{ TRACE_SECTION_POOL_MEMORY, 2 * sizeof(struct trace_story) },
		{ TRACE_SECTION_LIVES, 512 },
		{ TRACE_SECTION_EXEMPLARS, sizeof(struct trace_exemplars) + sizeof(struct trace_exemplar) },
	};

	for (size_t part = 0; part < ARRAY_COUNT(parts); part++) {
		for (uint64_t i = 0; i < parts[part].bytes; i++)
			flip(section(parts[part].kind)->offset + i, i % 2 ? 0xff : 0x80);
	}
}

static void a_file_with_any_changed_byte_of_the_schema_is_read_or_refused(void **state)
{
	const struct trace_section *schema = section(TRACE_SECTION_SCHEMA);
	struct random random;

	random_init(&random, 1);
	for (int i = 0; i < 2000; i++)
		flip(schema->offset + random_below(&random, schema->bytes), (uint8_t)(1 + random_below(&random, 127)));
}

static void a_truncated_file_is_read_or_refused(void **state)
{
	uint64_t cuts[400];
	size_t count = 0;
	struct random random;
	uint8_t *whole = malloc(image_bytes);

	random_init(&random, 2);
	for (uint64_t at = 0; at < 20; at++)
		cuts[count++] = at * 41;
	for (int kind = TRACE_SECTION_PROCESS; kind <= TRACE_SECTION_POOL_MEMORY; kind++) {
		cuts[count++] = section((enum trace_section_kind)kind)->offset - 1;
		cuts[count++] = section((enum trace_section_kind)kind)->offset;
		cuts[count++] = section((enum trace_section_kind)kind)->offset + 1;
		cuts[count++] = section((enum trace_section_kind)kind)->offset + 65;
		cuts[count++] = section((enum trace_section_kind)kind)->offset + 4096;
	}
	while (count < 150)
		cuts[count++] = random_below(&random, image_bytes);
	memcpy(whole, image, image_bytes);
	for (size_t i = 0; i < count; i++) {
		char path[400];
		int fd;
		struct reader_counts counts;

		if (cuts[i] > image_bytes)
			continue;
		snprintf(path, sizeof(path), "%s/cut", rig.directory);
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
		assert_int_equal(write(fd, whole, cuts[i]), cuts[i]);
		close(fd);
		if (rig_read_all(path, &counts) == 0)
			assert_true(cuts[i] >= sizeof(struct trace_header));
		unlink(path);
	}
	free(whole);
}

static void invalid_counts_do_not_cause_endless_reads(void **state)
{
	static const uint64_t values[] = { 0, 1, 7, 8, UINT32_MAX, BIT(40), BIT(63), UINT64_MAX - 7, UINT64_MAX };
	struct trace_pool *pool = (struct trace_pool *)(image + section(TRACE_SECTION_POOLS)->offset);
	struct trace_thread *thread = (struct trace_thread *)(image + section(TRACE_SECTION_THREADS)->offset);
	struct trace_ring *ring = (struct trace_ring *)(image + thread->ring_offset[TRACE_RING_IO]);
	uint64_t *const places[] = {
		&pool->count,
		&pool->offset,
		&pool->stride,
		&ring->head,
		&ring->entry_count,
		&thread->ring_offset[0],
		&((struct trace_header *)image)->file_bytes,
		&((struct trace_header *)image)->clear_tick,
		&((struct trace_strings *)(image + section(TRACE_SECTION_STRINGS)->offset))->used,
		&((struct trace_process *)(image + section(TRACE_SECTION_PROCESS)->offset))->tick_rate,
		&((struct trace_clocks *)(image + section(TRACE_SECTION_CLOCKS)->offset))->count,
	};

	for (size_t place = 0; place < ARRAY_COUNT(places); place++) {
		for (size_t i = 0; i < ARRAY_COUNT(values); i++) {
			uint64_t was = *places[place];

			*places[place] = values[i];
			read_and_count();
			*places[place] = was;
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_with_any_changed_byte_of_the_header_is_read_or_refused),
		cmocka_unit_test(a_file_with_any_changed_byte_of_the_tables_is_read_or_refused),
		cmocka_unit_test(a_file_with_any_changed_byte_of_the_schema_is_read_or_refused),
		cmocka_unit_test(a_truncated_file_is_read_or_refused),
		cmocka_unit_test(invalid_counts_do_not_cause_endless_reads),
	};

	return cmocka_run_group_tests(tests, make_image, remove_image);
}
