/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fake_helper - a helper that behaves as its --config says: the test program itself, started a second time.
 *
 *	good		answers all; format takes 50 ms; check-format of /dev/loopN says label N
 *	silent		answers nothing, not even the first ping
 *	gone		ends at once, with status 7
 *	old		has version 0.0.1
 *	nonsense	answers with bytes
 *	stranger	answers without a request
 *	hangs		answers check-format, and nothing else
 *	dies		ends when it is asked to format, by SIGTERM
 */
#ifndef TEST_UNIT_CONTROL_HELPER_FAKE_HELPER_H
#define TEST_UNIT_CONTROL_HELPER_FAKE_HELPER_H

/* For main(): does not return if this process was started as a helper. */
void fake_helper_main(int argc, char **argv);

#endif
