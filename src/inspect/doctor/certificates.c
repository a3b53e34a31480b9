/* SPDX-License-Identifier: BSD-2-Clause */
/* certificates - the certificates of a folder, and the time that each is still valid. Keys are not read. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include <openssl/pem.h>
#include <openssl/x509.h>

#include "inspect/doctor/internal.h"

enum { CERTIFICATES_MAX = 256, DAY_S = 86400 };

static json_t *look_at_certificate(const char *path)
{
	FILE *from = fopen(path, "re");
	X509 *certificate = from ? PEM_read_X509(from, NULL, NULL, NULL) : NULL;
	json_t *about = NULL;
	char subject[256];
	int days, seconds;

	if (certificate && ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(certificate))) {
		about = doc_object();
		X509_NAME_oneline(X509_get_subject_name(certificate), subject, sizeof(subject));
		doc_put(about, "subject", doc_text(subject));
		doc_put(about, "left_s", json_integer((json_int_t)days * DAY_S + seconds));
	}
	X509_free(certificate);
	if (from)
		fclose(from);
	return about;
}

void doctor_look_certificates(struct doctor_out *out, const void *ctx)
{
	const char *folder = ctx, *end;
	char path[PATH_MAX];
	struct dirent *entry;
	uint32_t count = 0;
	DIR *directory;

	doctor_step(out, "reading the folder %s", folder);
	directory = opendir(folder);
	if (!directory && errno != ENOENT)
		doctor_put(out, "refused", doc_text(strerror(errno)));
	while (directory && count < CERTIFICATES_MAX && (entry = readdir(directory))) {
		end = strrchr(entry->d_name, '.');
		if (!end || (strcmp(end, ".crt") != 0 && strcmp(end, ".pem") != 0) ||
		    snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name) >= (int)sizeof(path))
			continue;
		doctor_step(out, "reading %s", path);
		doctor_put(out, path, look_at_certificate(path));
		count++;
	}
	if (directory)
		closedir(directory);
}
