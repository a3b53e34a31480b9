/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/status/certificate.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/bits.h"
#include "base/text.h"
#include "control/fault/fault.h"

enum { DAY_S = 86400 };

static_assert(CERTIFICATE_DATE_BYTES >= sizeof("2026-11-24"), "a date fits");

static const int stage_days[] = { 1, 7, 30 };

static int file_fault(const char *path, int error, const char *reason, struct fathom_fault *why)
{
	switch (-error) {
	case ENOENT:
		return fault_certificate_missing(why, path);
	case EKEYREJECTED:
		return fault_key_exposed(why, path);
	case EACCES:
	case EPERM:
		return fault_certificate_unreadable(why, path, reason);
	default:
		return fault_certificate_invalid(why, path, reason);
	}
}

/* grpc_tls_create() begins its text with the file: "PATH: reason". */
int fault_from_tls(const struct grpc_tls_options *options, int error, const struct fathom_fault *said,
		   struct fathom_fault *why)
{
	const char *const paths[] = { options->ca, options->certificate, options->key };

	must(error < 0);
	for (size_t i = 0; i < ARRAY_COUNT(paths); i++) {
		size_t bytes = strlen(paths[i]);

		if (strncmp(said->text, paths[i], bytes) == 0 && strncmp(said->text + bytes, ": ", 2) == 0)
			return file_fault(paths[i], error, said->text + bytes + 2, why);
	}
	if (why)
		*why = *said;
	return error;
}

const char *certificate_date(int64_t at_s, char *date)
{
	time_t seconds = (time_t)at_s;
	struct tm tm;

	if (!gmtime_r(&seconds, &tm) || strftime(date, CERTIFICATE_DATE_BYTES, "%Y-%m-%d", &tm) == 0)
		must(text_copy(date, CERTIFICATE_DATE_BYTES, "?") == 0);
	return date;
}

int certificate_check(const struct grpc_tls *tls, int64_t now_s, struct fathom_fault *why)
{
	struct grpc_life lives[2];
	char date[CERTIFICATE_DATE_BYTES];

	grpc_tls_lives(tls, lives);
	for (size_t i = 0; i < ARRAY_COUNT(lives); i++) {
		must(lives[i].path);
		if (lives[i].ends_s <= now_s)
			return fault_certificate_expired(why, lives[i].path, certificate_date(lives[i].ends_s, date));
		if (lives[i].begins_s > now_s)
			return fault_certificate_early(why, lives[i].path, certificate_date(lives[i].begins_s, date));
	}
	return 0;
}

int certificate_stage(int64_t now_s, int64_t ends_s)
{
	if (ends_s <= now_s)
		return CERTIFICATE_OVER;
	for (size_t i = 0; i < ARRAY_COUNT(stage_days); i++) {
		if (ends_s - now_s <= (int64_t)stage_days[i] * DAY_S)
			return stage_days[i];
	}
	return CERTIFICATE_NOT_NEAR;
}

int certificate_step(int *told, int64_t now_s, int64_t ends_s)
{
	int stage = certificate_stage(now_s, ends_s), before = *told;

	*told = stage;
	if (stage == CERTIFICATE_NOT_NEAR || (before != CERTIFICATE_NOT_NEAR && stage >= before))
		return CERTIFICATE_NOT_NEAR;
	return stage;
}
