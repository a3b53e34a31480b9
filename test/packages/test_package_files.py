# SPDX-License-Identifier: BSD-2-Clause
"""Each installed file belongs to one Debian package, and debian/ agrees with the tree. Builds no package."""

import glob
import os
import re
import subprocess
import sys
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "test", "system"))

from harness import EngineTest, run  # noqa: E402

DEBIAN = os.path.join(TOP, "packaging", "debian")
# Names in debian/control for parts of a package.
PROVIDED = {"debhelper-compat": "debhelper", "dh-sequence-installsysusers": "debhelper"}


def fields(text, field):
    """The names in a field of debian/control, without versions."""
    found = re.search(rf"(?m)^{field}: (.*(?:\n .*)*)", text)
    return [re.match(r"[\w.+-]+", name.strip())[0] for name in found[1].replace("\n", " ").split(",")]


class PackageFiles(EngineTest):
    def setUp(self):
        super().setUp()
        self.control = open(os.path.join(DEBIAN, "control")).read()

    def patterns(self):
        """(package, pattern) of each line of debian/PACKAGE.install."""
        for path in sorted(glob.glob(os.path.join(DEBIAN, "*.install"))):
            for line in open(path):
                yield os.path.basename(path).removesuffix(".install"), line.split()[0]

    def installed(self):
        """The files that `meson install` writes with the prefix /usr, without debug files, which dh_strip handles."""
        build = os.environ["FATHOM_BUILD"]
        root = os.path.join(self.directory, "root")
        run("meson", "install", "-C", build, "--no-rebuild", "--destdir", root)
        prefix = subprocess.check_output(["meson", "introspect", build, "--buildoptions"], text=True)
        prefix = re.search(r'"name": "prefix", "value": "([^"]*)"', prefix)[1]
        os.makedirs(os.path.join(self.directory, "package"), exist_ok=True)
        os.rename(root + prefix, os.path.join(self.directory, "package", "usr"))
        return os.path.join(self.directory, "package")

    def test_each_installed_file_belongs_to_one_package(self):
        root = self.installed()
        owners, unmatched = {}, []
        for package, pattern in self.patterns():
            at = TOP if pattern.startswith("packaging/") else root
            found = glob.glob(os.path.join(at, pattern))
            if not found:
                unmatched.append(f"{package}: {pattern}")
            for path in found if at == root else []:
                files = [path] if not os.path.isdir(path) else [os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names]
                for name in files:
                    owners.setdefault(os.path.relpath(name, root), set()).add(package)
        every = {os.path.relpath(os.path.join(folder, name), root) for folder, _, names in os.walk(root) for name in names}
        self.assertGreater(len(every), 100)
        self.assertEqual(sorted(every - set(owners)), [], "add these to packaging/debian/PACKAGE.install")
        self.assertEqual({name: sorted(found) for name, found in owners.items() if len(found) > 1}, {})
        self.assertEqual(unmatched, [], "these lines of packaging/debian/PACKAGE.install match no file")

    def test_each_package_has_a_list_of_files_and_each_list_a_package(self):
        packages = re.findall(r"(?m)^Package: (\S+)", self.control)
        self.assertEqual(sorted(packages), sorted({package for package, _ in self.patterns()}))
        for name in os.listdir(DEBIAN):
            if "." in name:
                self.assertIn(name.rsplit(".", 1)[0], packages)

    def test_library_packages_are_named_by_their_sonames(self):
        for package, pattern in self.patterns():
            if package.startswith("libfathom-") and package != "libfathom-dev":
                library = os.path.join(os.environ["FATHOM_BUILD"], "**", re.search(r"libfathom-\w+", pattern)[0] + ".so.*.*")
                found = [path for path in glob.glob(library, recursive=True) if os.path.isfile(path)]
                self.assertTrue(found, library)
                name, number = re.search(r"SONAME.*\[(\S+)\.so\.(\d+)\]", run("readelf", "-d", found[0]).stdout).groups()
                self.assertEqual(package, name + number)

    def test_packages_txt_has_the_build_dependencies(self):
        listed = {line.split("#")[0].strip() for line in open(os.path.join(TOP, "packages.txt"))}
        needed = [PROVIDED.get(name, name) for name in fields(self.control, "Build-Depends")]
        self.assertEqual([name for name in needed if name not in listed], [])

    def test_the_changelog_has_the_trees_version_and_date(self):
        if not os.path.exists(os.path.join(TOP, ".git")):
            self.skipTest("takes a git clone")
        env = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
        tree = run(os.path.join(TOP, "scripts", "make-deb"), "--tree", os.path.join(self.directory, "deb"), env=env).stdout.strip()
        version = re.search(r"version: '(.*)'", open(os.path.join(TOP, "meson.build")).read())[1]
        date = run("git", "log", "-1", "--format=%ct", cwd=TOP).stdout.strip()
        for field, value in (("Version", version), ("Timestamp", date), ("Source", "fathom")):
            self.assertEqual(run("dpkg-parsechangelog", "-S", field, cwd=tree).stdout.strip(), value)
        self.assertTrue(os.access(os.path.join(tree, "debian", "rules"), os.X_OK))
        self.assertTrue(os.path.exists(os.path.join(tree, "src", "base", "must.h")))

    def test_the_licence_equals_that_of_the_tree(self):
        licence = open(os.path.join(TOP, "LICENSE")).read().split("\n\n", 2)[2].split()
        copied = open(os.path.join(DEBIAN, "copyright")).read().split("\nLicense: BSD-2-Clause\n", 2)[2].split()
        self.assertEqual([word for word in copied if word != "."], licence)


if __name__ == "__main__":
    unittest.main()
