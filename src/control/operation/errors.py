# SPDX-License-Identifier: BSD-2-Clause
"""errors - the error of a row, which table.py completes with file and line."""


class DefError(Exception):
    pass
