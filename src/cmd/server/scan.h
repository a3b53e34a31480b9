/* SPDX-License-Identifier: BSD-2-Clause */
/* `fathom-server storage scan` and `network scan`: scan this host without a running server. */
#ifndef CMD_SERVER_SCAN_H
#define CMD_SERVER_SCAN_H

#include <stdbool.h>
#include <stdio.h>

#include "control/provider/provider.h"

/*
 * Scan and print a table, or JSON: DAOS's envelope with the same rows as `fathom storage scan --all --json` has for a host
 * (likewise `network scan`). A fault goes to standard error, and with JSON also into the envelope. Return the exit status.
 */
int scan_storage(struct provider *provider, bool json, FILE *out);
int scan_network(struct provider *provider, bool json, FILE *out);

#endif
