/* SPDX-License-Identifier: BSD-2-Clause */
/* subject - functions with probes of each kind, in the test's executable. */
#ifndef TEST_UNIT_PROBED_ELF_SUBJECT_H
#define TEST_UNIT_PROBED_ELF_SUBJECT_H

/* SDT: unit:pair(int, char *), at two sites; unit:none. */
int subject_sdt(int number, const char *text);

/*
 * .note.usdt: provider "usdtest", probe go(int, char *) -> (char *) with a site and an is-enabled site; idle has no site.
 */
int subject_usdt(int number, const char *text);

#endif
