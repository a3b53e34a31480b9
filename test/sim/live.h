/* SPDX-License-Identifier: BSD-2-Clause */
/* live - a seed that other programs can watch. Without live_begin() the other functions do nothing. */
#ifndef SIM_LIVE_H
#define SIM_LIVE_H

/* Make the trace a file, after trace_open(), and let real time begin. Pair: live_end(). */
void live_begin(void);
/* Wait until real time has reached the simulated time. */
void live_pace(void);
/* Remove the file. The trace's memory remains. */
void live_end(void);

#endif
