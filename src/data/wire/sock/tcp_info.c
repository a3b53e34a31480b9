/* SPDX-License-Identifier: BSD-2-Clause */
#include "data/wire/sock/tcp_info.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

/*
 * Fields that Linux 6.7 added behind tcpi_snd_wnd, and headers may lack: the number of recoveries after a retransmission
 * time-out, and their time in ms. A recovery begins when the first time-out ends, which is RTO_MIN_US at least.
 */
enum {
	RECOVERIES_OFFSET = offsetof(struct tcp_info, tcpi_snd_wnd) + 14,
	RECOVERY_MS_OFFSET = offsetof(struct tcp_info, tcpi_snd_wnd) + 16,
	RTO_MIN_US = 200000,
};

static uint64_t recovery_us(const uint8_t *info)
{
	uint16_t recoveries;
	uint32_t ms;

	memcpy(&recoveries, info + RECOVERIES_OFFSET, sizeof(recoveries));
	memcpy(&ms, info + RECOVERY_MS_OFFSET, sizeof(ms));
	return ms * 1000ull + recoveries * (uint64_t)RTO_MIN_US;
}

bool tcp_info_read(int fd, struct sock_info *info_ret)
{
	union {
		struct tcp_info info;
		uint8_t bytes[512];
	} all;
	socklen_t bytes = sizeof(all);

	/* an older kernel fills in less; the rest stays 0 */
	memset(&all, 0, sizeof(all));
	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &all, &bytes) != 0)
		return false;
	*info_ret = (struct sock_info){
		.busy_us = all.info.tcpi_busy_time,
		.window_closed_us = all.info.tcpi_rwnd_limited,
		.buffer_full_us = all.info.tcpi_sndbuf_limited,
		.recovery_us = recovery_us(all.bytes),
		.recovery_known = bytes >= RECOVERY_MS_OFFSET + sizeof(uint32_t),
		.retransmits = all.info.tcpi_total_retrans,
		.reordered = all.info.tcpi_rcv_ooopack,
		.rtt_us = all.info.tcpi_rtt,
		.rtt_min_us = all.info.tcpi_min_rtt == UINT32_MAX ? 0 : all.info.tcpi_min_rtt,
		.unacked = all.info.tcpi_unacked,
		.unsent_bytes = all.info.tcpi_notsent_bytes,
	};
	return true;
}
