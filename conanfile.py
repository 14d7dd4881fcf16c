# Recipe for Conan 2: `conan create .` packages this clone. docs/install.md says how to use the package.
import os
import re

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load
from conan.tools.system.package_manager import Apt


class BytetapeConan(ConanFile):
    name = "bytetape"
    description = "An autograd deep-learning framework that knows where every byte is"
    license = "MIT"
    topics = ("deep-learning", "autograd", "cuda")
    package_type = "static-library"
    settings = "os", "arch", "compiler", "build_type"
    # Each option is the CMake option BYTETAPE_<NAME>. A library that an option needs must be there.
    options = {name: [True, False] for name in ("cuda", "dlpack", "mpi", "native", "onednn", "onnx", "openmp")}
    default_options = {
        "cuda": False, "dlpack": False, "mpi": False, "native": False, "onednn": True, "onnx": False, "openmp": True,
    }
    exports_sources = (
        "CMakeLists.txt", "LICENSE", "bytetape.h", "cmake/*", "core/*", "cuda/*", "autograd/*", "nn/*", "optim/*",
        "data/*", "distributed/*", "onnx/*",
    )
    test_package_folder = "tests/consumer/find_package"

    def set_version(self):
        lists = load(self, os.path.join(self.recipe_folder, "CMakeLists.txt"))
        self.version = re.search(r"project\(bytetape VERSION ([0-9.]+)", lists).group(1)

    def configure(self):
        self.settings.rm_safe("compiler.cppstd")  # always C++20

    def layout(self):
        cmake_layout(self)

    # By default, Conan only checks that these packages are installed.
    # With -c tools.system.package_manager:mode=install it installs them.
    def system_requirements(self):
        packages = ["libeigen3-dev", "libfmt-dev", "nlohmann-json3-dev", "zlib1g-dev", "libpcre2-dev", "node-d3"]
        if self.options.onednn:
            packages.append("libdnnl-dev")
        if self.options.onnx:
            packages += ["libonnx-dev", "libprotobuf-dev"]
        Apt(self).install(packages)
        if self.options.mpi:
            Apt(self).install_substitutes(["libopenmpi-dev"], ["libmpich-dev"])

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.user_presets_path = False
        for name in ("examples", "bench", "tests"):
            toolchain.cache_variables["BYTETAPE_BUILD_" + name.upper()] = False
        for name, value in self.options.items():
            toolchain.cache_variables["BYTETAPE_" + name.upper()] = value == "True"
        for option, package in (("dlpack", "DLPack"), ("onednn", "dnnl"), ("mpi", "MPI"), ("onnx", "OnnxProto")):
            toolchain.cache_variables["CMAKE_REQUIRE_FIND_PACKAGE_" + package] = bool(self.options.get_safe(option))
        toolchain.cache_variables["CMAKE_UNITY_BUILD"] = True
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        CMake(self).install()

    # Programs find the package by its own bytetapeConfig.cmake, which also finds the system's libraries.
    def package_info(self):
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("lib", "cmake", "bytetape")]
        self.cpp_info.includedirs = []
        self.cpp_info.libdirs = []
        self.cpp_info.bindirs = []
