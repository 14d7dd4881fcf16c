# Untested: no vcpkg has run this port. It is an overlay port of the clone that it is in.
vcpkg_check_linkage(ONLY_STATIC_LIBRARY)
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)

vcpkg_check_features(OUT_FEATURE_OPTIONS FEATURE_OPTIONS
  FEATURES
    cuda BYTETAPE_CUDA
    dlpack BYTETAPE_DLPACK
    mpi BYTETAPE_MPI
    native BYTETAPE_NATIVE
    onednn BYTETAPE_ONEDNN
    onnx BYTETAPE_ONNX
    openmp BYTETAPE_OPENMP
)
# CMake must not leave out the library of a feature.
vcpkg_check_features(OUT_FEATURE_OPTIONS REQUIRED_LIBRARIES
  FEATURES
    dlpack CMAKE_REQUIRE_FIND_PACKAGE_DLPack
    mpi CMAKE_REQUIRE_FIND_PACKAGE_MPI
    onednn CMAKE_REQUIRE_FIND_PACKAGE_dnnl
    onnx CMAKE_REQUIRE_FIND_PACKAGE_OnnxProto
)

vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS
    ${FEATURE_OPTIONS}
    ${REQUIRED_LIBRARIES}
    -DBYTETAPE_BUILD_EXAMPLES=OFF
    -DBYTETAPE_BUILD_BENCH=OFF
    -DBYTETAPE_BUILD_TESTS=OFF
    -DCMAKE_UNITY_BUILD=ON
  MAYBE_UNUSED_VARIABLES
    CMAKE_REQUIRE_FIND_PACKAGE_DLPack
    CMAKE_REQUIRE_FIND_PACKAGE_MPI
    CMAKE_REQUIRE_FIND_PACKAGE_dnnl
    CMAKE_REQUIRE_FIND_PACKAGE_OnnxProto
)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME bytetape CONFIG_PATH lib/cmake/bytetape)

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
