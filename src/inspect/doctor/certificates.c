/* SPDX-License-Identifier: BSD-2-Clause */
/* certificates - certificates, alone or in folders, and the time that each is still valid. Keys are not read. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

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

static void look_at_folder(struct doctor_out *out, const char *folder, uint32_t *count)
{
	const char *end;
	char path[PATH_MAX];
	struct dirent *entry;
	DIR *directory = opendir(folder);

	if (!directory && errno != ENOENT)
		doctor_put(out, "refused", doc_text(strerror(errno)));
	while (directory && *count < CERTIFICATES_MAX && (entry = readdir(directory))) {
		end = strrchr(entry->d_name, '.');
		if (!end || (strcmp(end, ".crt") != 0 && strcmp(end, ".pem") != 0) ||
		    snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name) >= (int)sizeof(path))
			continue;
		doctor_step(out, "reading %s", path);
		doctor_put(out, path, look_at_certificate(path));
		(*count)++;
	}
	if (directory)
		closedir(directory);
}

void doctor_look_certificates(struct doctor_out *out, const void *ctx)
{
	const struct doctor_paths *paths = ctx;
	uint32_t count = 0;
	struct stat st;

	for (size_t i = 0; i < paths->count; i++) {
		doctor_step(out, "reading %s", paths->paths[i]);
		if (stat(paths->paths[i], &st) == 0 && S_ISREG(st.st_mode))
			doctor_put(out, paths->paths[i], look_at_certificate(paths->paths[i]));
		else
			look_at_folder(out, paths->paths[i], &count);
	}
}
