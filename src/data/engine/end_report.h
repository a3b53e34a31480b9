/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * end_report - the reason why an engine under a server exits, for that server: the file DIR/fathom_engineN.end with
 *
 *	PID REASON
 *
 * The server shows REASON beside the exit status. It removes the file before it starts the next engine. The file appears
 * by rename(2): whole or not at all.
 */
#ifndef ENGINE_END_REPORT_H
#define ENGINE_END_REPORT_H

#include "data/engine/engine.h"

/*
 * Write `reason` (a sentence, not empty) for the server. Without --socket-dir: does nothing. Errors are ignored: the log
 * also has the reason. Any thread; borrows both.
 */
void engine_report_end(const struct engine_server_options *server, const char *reason);

#endif
