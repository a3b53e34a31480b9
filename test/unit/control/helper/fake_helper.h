/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fake_helper - a helper whose behaviour --config selects. The test program starts itself as this helper.
 *
 * \tgood\t\tanswers all; format takes 50 ms; check-format of /dev/loopN reports label N
 * \tsilent\t\tdoes not answer, not even the first ping
 * \tgone\t\tends at once, with status 7
 * \told\t\thas version 0.0.1
 * \tnonsense\tanswers with invalid bytes
 * \tstranger\tsends an answer without a request
 * \thangs\t\tanswers only check-format
 * \tdies\t\tends by SIGTERM at a format request
 */
#ifndef TEST_UNIT_CONTROL_HELPER_FAKE_HELPER_H
#define TEST_UNIT_CONTROL_HELPER_FAKE_HELPER_H

/* For main(): does not return if this process was started as a helper. */
void fake_helper_main(int argc, char **argv);

#endif
