/* SPDX-License-Identifier: BSD-2-Clause */
/* Responses when jansson runs out of memory: each is complete or reports the error; the connection stays. */
#include "rig.h"

static size_t bytes_max = SIZE_MAX; /* larger allocations of jansson fail; control thread only */
static unsigned int failures;

static void *limited_malloc(size_t bytes)
{
	failures += bytes > bytes_max;
	return bytes > bytes_max ? NULL : malloc(bytes);
}

static size_t limit;

static int set_limit(void *ctx)
{
	limit = *(const size_t *)ctx;
	return 0;
}

/* The result is made before memory is limited, so that only encoding the response fails. */
static void long_text(struct rpc_request *request, const json_t *params)
{
	static char text[100000];
	json_t *result;

	memset(text, 'x', sizeof(text));
	result = json_stringn(text, sizeof(text));
	bytes_max = limit;
	rpc_reply(request, result);
}

static int lift_limit(void *ctx)
{
	bytes_max = SIZE_MAX;
	return (int)failures;
}

static const struct rpc_method long_methods[] = { { "long_text", RPC_ALWAYS, long_text } };

static void a_response_reports_out_of_memory(void **state)
{
	static const char *const questions[] = { "{\"method\":\"long_text\",\"id\":7}",
						 "{\"method\":\"long_text\",\"id\":\"seven\"}",
						 "[{\"method\":\"long_text\",\"id\":7}]" };
	static const char *const ids[] = { "7", "null", "null" };
	int fd = client(), failed = 0;

	for (size_t bytes = 256; bytes <= 1 << 17; bytes *= 2) {
		for (size_t i = 0; i < ARRAY_COUNT(questions); i++) {
			char wanted[128];
			const char *line;
			int before = failed;

			on_control(set_limit, &bytes);
			send_text(fd, questions[i]);
			line = read_line(fd);
			failed = on_control(lift_limit, NULL);
			snprintf(wanted, sizeof(wanted), BAD("%s", "-32603", "Internal error: out of memory"), ids[i]);
			if (failed > before)
				assert_string_equal(line, wanted);
			else
				assert_true(strlen(line) > 100000);
		}
	}
	assert_true(failed > 20);
	send_text(fd, "{\"method\":\"nothing\",\"id\":1}");
	expect(fd, OK("1", "true"));
	close(fd);
}

static int setup_methods(void **state)
{
	json_set_alloc_funcs(limited_malloc, free);
	rpc_register(long_methods, ARRAY_COUNT(long_methods));
	return setup(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVED(a_response_reports_out_of_memory),
	};

	return cmocka_run_group_tests(tests, setup_methods, teardown);
}
