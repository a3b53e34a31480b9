/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fake_helper - a helper whose behaviour --config selects. The test program starts itself as this helper.
 *
 *	good		answers all; format takes 50 ms; check-format of /dev/loopN reports label N
 *	silent		does not answer, not even the first ping
 *	gone		ends at once, with status 7
 *	old		has version 0.0.1
 *	nonsense	answers with invalid bytes
 *	stranger	sends an answer without a request
 *	hangs		answers only check-format
 *	dies		ends by SIGTERM at a format request
 */
#ifndef TEST_UNIT_CONTROL_HELPER_FAKE_HELPER_H
#define TEST_UNIT_CONTROL_HELPER_FAKE_HELPER_H

/* For main(): does not return if this process was started as a helper. */
void fake_helper_main(int argc, char **argv);

#endif
