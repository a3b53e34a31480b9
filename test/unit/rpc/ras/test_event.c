/* SPDX-License-Identifier: BSD-2-Clause */
/* Events: ids and names, invalid events, the printed line. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "rpc/ras/event.h"

static void each_id_has_a_unique_name_a_type_and_a_severity(void **state)
{
	for (size_t i = 0; i < RAS_ID_COUNT; i++) {
		uint32_t id = ras_id_at(i);
		struct ras_event event;
		struct fathom_fault why = { 0 };

		ras_event_init(&event, id, "something of kind %u", id);
		assert_string_not_equal(ras_id_name(id), "unknown");
		for (size_t other = 0; other < i; other++) {
			assert_int_not_equal(id, ras_id_at(other));
			assert_string_not_equal(ras_id_name(id), ras_id_name(ras_id_at(other)));
		}
		assert_int_equal(ras_event_check(&event.message, &why), 0);
		assert_string_not_equal(ras_type_name(event.message.type), "ANY");
		assert_string_not_equal(ras_severity_name(event.message.severity), "UNKNOWN");
		assert_true(event.message.rank == RAS_RANK_NONE);
		assert_true(id < RAS_OWN_END && (id >= RAS_OWN_FIRST || id <= 30)); /* DAOS may add ids from 31 */
	}
	assert_string_equal(ras_id_name(2), "engine_died");
	assert_string_equal(ras_id_name(17), "swim_rank_dead");
	assert_string_equal(ras_id_name(30), "device_led_set");
	assert_string_equal(ras_id_name(31), "unknown");
	assert_string_equal(ras_id_name(1001), "server_silent");
	assert_string_equal(ras_id_name(RAS_OWN_END), "unknown");
	assert_string_equal(ras_type_name(1), "STATE_CHANGE");
	assert_string_equal(ras_type_name(77), "ANY");
	assert_string_equal(ras_severity_name(77), "UNKNOWN");
}

static void events_that_change_states_have_the_type_state_change(void **state)
{
	static const enum ras_id changing[] = { RAS_ENGINE_DIED,     RAS_ENGINE_ASSERTED, RAS_POOL_REPLICAS_UPDATED,
						RAS_SWIM_RANK_ALIVE, RAS_SWIM_RANK_DEAD,  RAS_SERVER_SILENT,
						RAS_SERVER_HEARD };
	size_t count = 0;

	for (size_t i = 0; i < RAS_ID_COUNT; i++) {
		enum ras_id id = ras_id_at(i);
		struct ras_event event;

		ras_event_init(&event, id, "x");
		if (event.message.type != RAS_TYPE_STATE_CHANGE)
			continue;
		assert_true(count < ARRAY_COUNT(changing));
		assert_int_equal(id, changing[count++]);
	}
	assert_int_equal(count, ARRAY_COUNT(changing));
}

static void an_event_is_one_line(void **state)
{
	char line[RAS_LINE_BYTES], long_text[2 * RAS_MESSAGE_BYTES];
	struct ras_event event;

	ras_event_init(&event, RAS_ENGINE_DIED, "engine %d\nexited", 0);
	ras_event_set_engine(&event, 3, 1795201297274729984ull, 1, 24606, "killed by signal 9");
	event.message.timestamp = (char *)"2026-11-20T19:01:31.139000+00:00";
	event.message.hostname = (char *)"vm";
	assert_int_equal(ras_event_check(&event.message, NULL), 0);
	assert_string_equal(
		ras_event_line(&event.message, line),
		"id: [engine_died] ts: [2026-11-20T19:01:31.139000+00:00] host: [vm] type: [STATE_CHANGE] sev: [ERROR] "
		"msg: [engine 0 exited] pid: [24606] rank: [3] incarnation: [1795201297274729984] instance: [1] "
		"error: [killed by signal 9]");
	/* a long text is cut between words */
	ras_event_init(&event, RAS_ENGINE_DIED, "%0119d cut between words", 0);
	assert_int_equal(strlen(event.text), 119 + strlen(" cut ..."));
	assert_string_equal(event.text + 119, " cut ...");
	ras_event_set_engine(&event, 3, 1, 1, 24606, event.text);
	assert_string_equal(event.error, event.text);
	/* also an unchecked event is printed as one line */
	memset(long_text, 'x', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	long_text[5] = '\n';
	event.message.msg = event.message.hw_id = event.message.job_id = event.message.obj_id = long_text;
	event.message.ctl_op = event.message.pool_uuid = event.message.cont_uuid = long_text;
	assert_true(strlen(ras_event_line(&event.message, line)) < RAS_LINE_BYTES);
	assert_null(strchr(line, '\n'));
	assert_non_null(strstr(line, "id: [engine_died]"));
}

static void refuse(const Shared__RASEvent *event, const char *word)
{
	struct fathom_fault why = { 0 };

	assert_int_equal(ras_event_check(event, &why), -EINVAL);
	if (!strstr(why.text, word))
		fail_msg("the error \"%s\" does not name %s", why.text, word);
}

static void an_invalid_event_is_refused_with_its_field(void **state)
{
	static const char *const bad_times[] = { "",
						 "yesterday",
						 "2026-11-20",
						 "2026-13-20T19:01:31+00:00",
						 "2026-11-20T19:61:31+00:00",
						 "2026-11-20T19:01:31",
						 "2026-11-20T19:01:31.+00:00",
						 "2026-11-20T19:01:31+0",
						 "2026-11-20T19:01:31Zx" };
	static const char *const good_times[] = { "2026-11-20T19:01:31Z", "2026-11-20T19:01:31.139-0530",
						  "2026-11-20T21:08:28.310387875Z" };
	char long_text[2 * RAS_HOST_BYTES];
	struct ras_event event;
	Shared__RASEvent copy;

	memset(long_text, 'x', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	ras_event_init(&event, RAS_ENGINE_DIED, "x");
#define REFUSE(field, value, word)                                                                                         \
	do {                                                                                                               \
		copy = event.message;                                                                                      \
		copy.field = value;                                                                                        \
		refuse(&copy, word);                                                                                       \
	} while (0)
	REFUSE(id, 0, "id");
	REFUSE(id, 1u << 20, "id");
	REFUSE(type, 0, "type");
	REFUSE(type, 3, "type");
	REFUSE(severity, 0, "severity");
	REFUSE(severity, 4, "severity");
	REFUSE(msg, long_text, "msg");
	REFUSE(msg, (char *)"\xff", "msg");
	REFUSE(msg, (char *)"two\nlines", "msg");
	REFUSE(hostname, long_text, "hostname");
	REFUSE(hw_id, long_text, "hw_id");
	REFUSE(job_id, (char *)"\x7f", "job_id");
	REFUSE(pool_uuid, long_text, "pool_uuid");
	REFUSE(cont_uuid, long_text, "cont_uuid");
	REFUSE(obj_id, long_text, "obj_id");
	REFUSE(ctl_op, long_text, "ctl_op");
	for (size_t i = 0; i < ARRAY_COUNT(bad_times); i++)
		REFUSE(timestamp, (char *)bad_times[i], "timestamp");
	for (size_t i = 0; i < ARRAY_COUNT(good_times); i++) {
		copy = event.message;
		copy.timestamp = (char *)good_times[i];
		assert_int_equal(ras_event_check(&copy, NULL), 0);
	}
	ras_event_set_engine(&event, 1, 2, 0, 5, "x");
	event.engine.error = long_text;
	refuse(&event.message, "extended info");
	/* an id of a newer release is accepted */
	copy = event.message;
	copy.extended_info_case = SHARED__RASEVENT__EXTENDED_INFO__NOT_SET;
	copy.id = 31 + 3;
	assert_int_equal(ras_event_check(&copy, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_id_has_a_unique_name_a_type_and_a_severity),
		cmocka_unit_test(events_that_change_states_have_the_type_state_change),
		cmocka_unit_test(an_event_is_one_line),
		cmocka_unit_test(an_invalid_event_is_refused_with_its_field),
	};

	return cmocka_run_group_tests_name("ras event", tests, NULL, NULL);
}
