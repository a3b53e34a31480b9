/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom firmware, fathom storage led - the firmware and the lamps of devices. */
#include <stdio.h>

#include "cmd/fathom/command.h"
#include "cmd/fathom/control/control.h"
#include "cmd/fathom/show/show.h"

enum { FAILED_BYTES = 128 };
enum led_action { LED_CHECK = 0, LED_ON = 1, LED_OFF = 2 }; /* of the call */

int run_firmware_query(struct control_run *run)
{
	const char *only = run->argc > 0 ? run->argv[0] : NULL;
	struct fathom_control_answers *answers;
	char failed[FAILED_BYTES] = "";
	struct fathom_fault why;

	if (fathom_control_host_health(run->control, &answers, &why))
		return control_fail(run, &why);
	if (!control_is_json(run))
		show_firmware(answers, only, stdout);
	if (only && count_devices_health(answers, only, false) == 0)
		snprintf(failed, sizeof(failed), "no host has the device %s", only);
	return control_answered(run, answers, control_is_json(run) ? json_firmware(answers, only) : NULL,
				failed[0] ? failed : NULL);
}

int run_firmware_update(struct control_run *run)
{
	const struct fathom_control_firmware_update update = {
		.device = run->argv[0],
		.file = run->values.file,
		.slot = (uint32_t)run->values.slot,
		.force = run->values.force,
	};
	struct fathom_control_answers *answers;
	struct fathom_fault why;

	if (fathom_control_firmware_update(run->control, &update, &answers, &why))
		return control_fail(run, &why);
	if (!control_is_json(run))
		show_firmware_updated(answers, stdout);
	return control_answered(run, answers, control_is_json(run) ? json_of_updated_answers(answers) : NULL, NULL);
}

static int run_led(struct control_run *run, enum led_action action)
{
	struct fathom_control_answers *answers;
	struct fathom_fault why;

	if (fathom_control_device_led(run->control, run->argv[0], action, (uint32_t)run->values.minutes, &answers, &why))
		return control_fail(run, &why);
	if (!control_is_json(run))
		show_led(answers, stdout);
	return control_answered(run, answers, control_is_json(run) ? json_of_led_answers(answers) : NULL, NULL);
}

int run_led_identify(struct control_run *run)
{
	if (run->values.reset && run->values.minutes)
		return control_bad(run, "--minutes is for a lamp that is switched on");
	return run_led(run, run->values.reset ? LED_OFF : LED_ON);
}

int run_led_check(struct control_run *run)
{
	return run_led(run, LED_CHECK);
}

int run_led_reset(struct control_run *run)
{
	return run_led(run, LED_OFF);
}
