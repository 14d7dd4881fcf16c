# AUTO takes the CUDA backend where there is an nvcc to build it; ON insists.
set(BYTETAPE_HAS_CUDA OFF)
if(NOT BYTETAPE_CUDA STREQUAL "AUTO" AND NOT BYTETAPE_CUDA)
  return()
endif()

include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  set(obstacle "no nvcc was found (install the CUDA toolkit, or set CUDACXX to its nvcc)")
else()
  set(obstacle)
  set(BYTETAPE_HAS_CUDA ON)
endif()
if(obstacle AND NOT BYTETAPE_CUDA STREQUAL "AUTO")
  message(FATAL_ERROR "BYTETAPE_CUDA=${BYTETAPE_CUDA}, but ${obstacle}. To build without CUDA: -DBYTETAPE_CUDA=OFF")
endif()
if(NOT BYTETAPE_HAS_CUDA)
  message(STATUS "CUDA left out: ${obstacle}")
  return()
endif()

# Ampere and Hopper; newer ones compile Hopper's code when they first run it.
if(NOT CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
  set(CMAKE_CUDA_ARCHITECTURES 80 90)
endif()
if(BYTETAPE_CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${BYTETAPE_CCACHE})
endif()
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has had it since 12.0
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
find_package(CUDAToolkit 13.0 REQUIRED)

# Convolutions go through cuDNN 9, by the headers of cudnn-frontend (nvidia-cudnn-frontend on PyPI, which
# scripts/install_dependencies fetches); without them, through kernels of our own.
find_path(BYTETAPE_CUDNN_FRONTEND cudnn_frontend.h
  HINTS $ENV{HOME}/.cache/bytetape/cudnn-frontend/include DOC "Folder of cudnn_frontend.h")
find_library(BYTETAPE_CUDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR} DOC "libcudnn")
set(BYTETAPE_HAS_CUDNN OFF)
if(BYTETAPE_CUDNN_FRONTEND AND BYTETAPE_CUDNN_LIBRARY)
  set(BYTETAPE_HAS_CUDNN ON)
else()
  message(STATUS "cuDNN or cudnn-frontend not found: convolutions on GPUs use our own kernels, which are slower")
endif()
