"""The packages of the wheel: those of pkg_lib, and notebooks/ as a folder of it; see pyproject.toml."""

from setuptools import find_namespace_packages, setup

setup(
    # Folders of data, such as the templates, are packages without code.
    packages=[*find_namespace_packages(include=["pkg_lib*"]), "pkg_lib.notebooks"],
    package_dir={"pkg_lib.notebooks": "notebooks"},
)
