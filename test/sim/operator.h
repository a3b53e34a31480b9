/* SPDX-License-Identifier: BSD-2-Clause */
/* operator - who sets the target up, changes it while it is in use, and takes it down. All on the control thread. */
#ifndef SIM_OPERATOR_H
#define SIM_OPERATOR_H

#include <stdbool.h>

/* Start the target and serve the namespaces; operator_is_ready() says when. */
void operator_set_up(void);
bool operator_is_ready(void);
/* Perhaps begin a change. */
void operator_step(void);
/* Undo what would keep hosts waiting; true when nothing is under way. */
bool operator_settle(void);
/*
 * Make each change once, one after the other, each within a bound; calls world_step(). `meanwhile` is called while the
 * namespace that hangs is on its way out; not in all seeds.
 */
void operator_exercise(void (*meanwhile)(void));
/* Everybody has left: that is what the target says, too. Then true. */
bool operator_check_empty(void);
/* Stop the target and remove everything; operator_is_done() says when. */
void operator_take_down(void);
bool operator_is_done(void);

#endif
