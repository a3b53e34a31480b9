/* SPDX-License-Identifier: BSD-2-Clause */
/* What a host has, without a server: `fathom-server storage scan` and `network scan`. */
#ifndef CMD_SERVER_SCAN_H
#define CMD_SERVER_SCAN_H

#include <stdbool.h>
#include <stdio.h>

#include "control/provider/provider.h"

/*
 * Look, and print a table, or JSON: DAOS's envelope with the rows that `fathom storage scan --all --json` has of a host
 * (`network scan` likewise). What fails is told on standard error, and in the envelope. Return the exit status.
 */
int scan_storage(struct provider *provider, bool json, FILE *out);
int scan_network(struct provider *provider, bool json, FILE *out);

#endif
