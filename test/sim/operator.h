/* SPDX-License-Identifier: BSD-2-Clause */
/* operator - sets the target up, changes it while it is in use, and takes it down. All on the control thread. */
#ifndef SIM_OPERATOR_H
#define SIM_OPERATOR_H

#include <stdbool.h>

/* Start the target and serve the namespaces, until operator_is_ready(). */
void operator_set_up(void);
bool operator_is_ready(void);
/* Start a random change, or none. */
void operator_step(void);
/* Undo changes that make hosts wait; true when no operation is in progress. */
bool operator_settle(void);
/*
 * Make each change once, one after the other, each within a limit; calls world_step(). In some seeds `meanwhile` is called
 * while the hung namespace is being removed.
 */
void operator_exercise(void (*meanwhile)(void));
/* All hosts have left: true when the target also reports no connection. */
bool operator_check_empty(void);
/* Stop the target and remove everything, until operator_is_done(). */
void operator_take_down(void);
bool operator_is_done(void);

#endif
