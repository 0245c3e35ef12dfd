"""The backend of `pip install --no-build-isolation ./tools/python`: builds the package by CMake, packs it as a wheel.

It needs what Moka's build needs (tools/setup), and no network. MOKA_BUILD_DIR names a build folder to use, such as
build/release, relative to the source tree; else it is build/python.
"""

import base64
import hashlib
import os
import pathlib
import subprocess
import sys
import sysconfig
import zipfile

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_NAME = "moka"
_VERSION = "0.1.0"


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
    """Builds the target moka_python and returns the folder that holds the package."""
    folder = _ROOT / os.environ.get("MOKA_BUILD_DIR", "build/python")
    options = ["-DMOKA_PYTHON=ON", "-DMOKA_PYTHON_REQUIRED=ON", "-DPython3_EXECUTABLE=" + sys.executable]
    if not (folder / "CMakeCache.txt").exists():
        options += ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DMOKA_TESTS=OFF"]
    _run("cmake", "-S", str(_ROOT), "-B", str(folder), *options)
    _run("cmake", "--build", str(folder), "--target", "moka_python")
    return folder / "python"


def _metadata():
    return "\n".join(["Metadata-Version: 2.1", "Name: " + _NAME, "Version: " + _VERSION, "Requires-Dist: numpy",
                      "Provides-Extra: proto", "Requires-Dist: protobuf (>=4.21,<5) ; extra == 'proto'",
                      "Requires-Python: >=3.8", ""])


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Writes the wheel and returns its name."""
    package = _build()
    # Of several interpreters' modules in a build folder only this one's.
    module = "_moka" + sysconfig.get_config_var("EXT_SUFFIX")
    files = {path.relative_to(package).as_posix(): path.read_bytes()
             for path in sorted((package / _NAME).rglob("*"))
             if path.is_file() and (path.suffix == ".py" or path.name == module)}
    if _NAME + "/" + module not in files:
        raise RuntimeError("the build made no {} in {}".format(module, package))
    info = "{}-{}.dist-info".format(_NAME, _VERSION)
    files[info + "/METADATA"] = _metadata().encode()
    files[info + "/WHEEL"] = ("Wheel-Version: 1.0\nGenerator: moka\nRoot-Is-Purelib: false\nTag: " + _tag() + "\n").encode()
    record = ""
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += "{},sha256={},{}\n".format(name, digest, len(content))
    files[info + "/RECORD"] = (record + info + "/RECORD,,\n").encode()
    wheel = "{}-{}-{}.whl".format(_NAME, _VERSION, _tag())
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return wheel


def build_sdist(sdist_directory, config_settings=None):
    """Not offered: the package is built from Moka's whole source tree."""
    raise RuntimeError("moka is built from its source tree: pip install --no-build-isolation ./tools/python")
