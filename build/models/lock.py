"""Writes requirements.txt: every package of the model builders, with the hashes of the files for Linux on x86-64.

    build/cache/model-tools/bin/python build/models/lock.py

Run it after a change of requirements.in or carriers.in, and build the models again to see that they still pass their checks.
"""
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
PYTHONS = ("3.11", "3.12", "3.13")
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")


def wanted(python, list_file, *options):
    """Asks the package client what it would install, without installing it."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-",
               "--disable-pip-version-check", "--only-binary=:all:", "--target", "unused", "--implementation", "cp",
               "--python-version", python, *options, "-r", str(HERE / list_file)]
    for platform in PLATFORMS:
        command += ["--platform", platform]
    report = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    for item in report["install"]:
        yield item["metadata"]["name"].lower(), item["metadata"]["version"], item["download_info"]["archive_info"]["hashes"]["sha256"]


def main():
    packages = {}
    for python in PYTHONS:
        for name, version, sha256 in (*wanted(python, "requirements.in"), *wanted(python, "carriers.in", "--no-deps")):
            packages.setdefault((name, version), set()).add(sha256)
    names = [name for name, _ in packages]
    if twice := {name for name in names if names.count(name) > 1}:
        sys.exit(f"these packages have another version for another Python: {sorted(twice)}")
    lines = [f"# Written by lock.py, for Python {', '.join(PYTHONS)} on Linux x86-64."]
    for (name, version), hashes in sorted(packages.items()):
        lines.append(" \\\n    ".join([f"{name}=={version}", *(f"--hash=sha256:{value}" for value in sorted(hashes))]))
    (HERE / "requirements.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(packages)} packages")


if __name__ == "__main__":
    main()
