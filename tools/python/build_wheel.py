"""The backend of `pip install --no-build-isolation ./tools/python`: builds the package by CMake, packs it as a wheel.

The wheel carries the engine too: the program, its manual page and completions, the zoo and the papers lie in moka/engine as
they would below /usr, and a script `moka` starts the program. It needs what Moka's build needs (tools/setup), and no
network. MOKA_BUILD_DIR names a build folder to use, such as build/release, relative to the source tree; else it is
build/python. The wheel is linked with the libraries of this machine: tools/python/wheel makes one for other machines.
"""

import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_NAME = "moka"
# Starts the program without importing the package. pip writes the interpreter into the first line.
_SCRIPT = """#!python
import importlib.util
import os
import sys

folder = importlib.util.find_spec("moka").submodule_search_locations[0]
program = os.path.join(folder, "engine", "bin", "moka")
os.execv(program, [program] + sys.argv[1:])
"""


def version():
    """The version, which the top CMakeLists.txt says."""
    return re.search(r"project\(moka VERSION ([0-9.]+)", (_ROOT / "CMakeLists.txt").read_text())[1]


def get_requires_for_build_wheel(config_settings=None):
    """Nothing from an index: compilers and libraries are the system's."""
    return []


def _tag():
    python = "cp{}{}".format(*sys.version_info[:2])
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return "{}-{}-{}".format(python, python, platform)


def _run(*command):
    print("+", " ".join(command), flush=True)
    subprocess.run(command, check=True)


def _build():
    """Builds the package and the program, and returns the build folder."""
    folder = _ROOT / os.environ.get("MOKA_BUILD_DIR", "build/python")
    options = ["-DMOKA_PYTHON=ON", "-DMOKA_PYTHON_REQUIRED=ON", "-DPython3_EXECUTABLE=" + sys.executable]
    if not (folder / "CMakeCache.txt").exists():
        options += ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DMOKA_TESTS=OFF"]
    _run("cmake", "-S", str(_ROOT), "-B", str(folder), *options)
    _run("cmake", "--build", str(folder), "--target", "moka_python", "moka_said")
    return folder


def _package_files(build):
    """The package's files by their names in the wheel: Python's, and of several interpreters' modules this one's."""
    package = build / "python"
    module = "_moka" + sysconfig.get_config_var("EXT_SUFFIX")
    files = {path.relative_to(package).as_posix(): path for path in sorted((package / _NAME).rglob("*"))
             if path.is_file() and (path.suffix == ".py" or path.name == module)}
    if _NAME + "/" + module not in files:
        raise RuntimeError("the build made no {} in {}".format(module, package))
    return files


def _metadata():
    return "\n".join(["Metadata-Version: 2.1", "Name: " + _NAME, "Version: " + version(),
                      "Summary: Deep learning in the Caffe tradition: the command moka, and nets and solvers from Python",
                      "License: Apache-2.0", "License-File: LICENSE", "License-File: NOTICE", "Requires-Dist: numpy",
                      "Provides-Extra: proto", "Requires-Dist: protobuf (>=4.21,<5) ; extra == 'proto'",
                      "Requires-Python: >=3.8", ""])


def _write(wheel, files):
    """Writes the wheel's files, contents with whether they are programs by name, and the record of them."""
    record = ""
    info = "{}-{}.dist-info".format(_NAME, version())
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, (content, is_program) in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record += "{},sha256={},{}\n".format(name, digest, len(content))
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if is_program else 0o100644) << 16
            archive.writestr(entry, content)
        archive.writestr(zipfile.ZipInfo(info + "/RECORD", (1980, 1, 1, 0, 0, 0)), record + info + "/RECORD,,\n")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Writes the wheel and returns its name. The setting `papers`: with the terms of the libraries that it will carry."""
    build = _build()
    files = {name: (path.read_bytes(), False) for name, path in _package_files(build).items()}
    with tempfile.TemporaryDirectory() as folder:
        engine = pathlib.Path(folder)
        for component in [_NAME] + (["papers"] if "papers" in (config_settings or {}) else []):
            _run("cmake", "--install", str(build), "--prefix", folder, "--component", component, "--strip")
        for path in sorted(path for path in engine.rglob("*") if path.is_file()):
            name = "{}/engine/{}".format(_NAME, path.relative_to(engine).as_posix())
            files[name] = (path.read_bytes(), os.access(path, os.X_OK))
    info = "{}-{}".format(_NAME, version())
    files[info + ".data/scripts/moka"] = (_SCRIPT.encode(), True)
    files[info + ".dist-info/METADATA"] = (_metadata().encode(), False)
    files[info + ".dist-info/WHEEL"] = (
        "Wheel-Version: 1.0\nGenerator: moka\nRoot-Is-Purelib: false\nTag: {}\n".format(_tag()).encode(), False)
    for paper in ("LICENSE", "NOTICE"):
        files["{}.dist-info/{}".format(info, paper)] = ((_ROOT / paper).read_bytes(), False)
    wheel = "{}-{}.whl".format(info, _tag())
    _write(pathlib.Path(wheel_directory) / wheel, files)
    return wheel


def build_sdist(sdist_directory, config_settings=None):
    """Not offered: the package is built from Moka's whole source tree."""
    raise RuntimeError("moka is built from its source tree: pip install --no-build-isolation ./tools/python")
