/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * net - the network between hosts and target, in place of data/wire/sock.
 *
 * A wire is a connection: a pipe in each direction. Written bytes become readable when the network has carried them, in
 * pieces and at times chosen by the seed. If the pipe is full, the target's sends are accepted in part or not at all.
 */
#ifndef SIM_NET_H
#define SIM_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wire;

/* Connect; return the host's end. A refused connection looks like a reset one. */
struct wire *wire_connect(unsigned int host, const char *address, const char *service);
void wire_write(struct wire *wire, const void *bytes, size_t count);
size_t wire_peek(struct wire *wire, const uint8_t **at_ret);
void wire_consume(struct wire *wire, size_t count);
bool wire_ended(const struct wire *wire); /* the target's stream has ended or was reset, and was read to its end */
bool wire_target_gone(const struct wire *wire);
bool wire_was_reset(const struct wire *wire);
size_t wire_undelivered(const struct wire *wire); /* bytes that the target has not read */
void wire_stall(struct wire *wire, uint64_t ns);  /* no bytes are carried for `ns` */
void wire_crawl(struct wire *wire);		  /* until sim.woken the host receives its bytes very slowly */
void wire_fin(struct wire *wire);		  /* the host ends its stream */
void wire_reset(struct wire *wire);		  /* the host or the network resets it */
void wire_free(struct wire *wire);		  /* the host frees it: reset if still connected */

void net_step(void);
unsigned int net_target_sockets(void); /* open in the target */

#endif
