# AUTO takes the CUDA backend where there is an nvcc to build it; ON insists.
set(BYTETAPE_HAS_CUDA OFF)
if(NOT BYTETAPE_CUDA STREQUAL "AUTO" AND NOT BYTETAPE_CUDA)
  return()
endif()

include(CheckLanguage)
check_language(CUDA)
if(CMAKE_CUDA_COMPILER AND EXISTS ${PROJECT_SOURCE_DIR}/cuda/CMakeLists.txt)
  set(BYTETAPE_HAS_CUDA ON)
elseif(NOT BYTETAPE_CUDA STREQUAL "AUTO")
  if(NOT CMAKE_CUDA_COMPILER)
    message(FATAL_ERROR "BYTETAPE_CUDA=${BYTETAPE_CUDA}, but no nvcc was found: install the CUDA toolkit, "
                        "set CUDACXX to its nvcc, or build without CUDA (BYTETAPE_CUDA=OFF).")
  endif()
  message(FATAL_ERROR "BYTETAPE_CUDA=${BYTETAPE_CUDA}, but bytetape ${PROJECT_VERSION} has no CUDA backend yet: "
                      "build without it (BYTETAPE_CUDA=OFF).")
endif()
