# Finds dlpack/dlpack.h, version 1: of scripts/download_dlpack, or of the system. Debian's libdlpack-dev has version 0.6.
find_path(BYTETAPE_DLPACK_INCLUDE dlpack/dlpack.h HINTS $ENV{HOME}/.cache/bytetape/dlpack/include
  DOC "The folder of dlpack/dlpack.h, version 1")
mark_as_advanced(BYTETAPE_DLPACK_INCLUDE)
set(DLPack_VERSION)
if(BYTETAPE_DLPACK_INCLUDE)
  file(STRINGS ${BYTETAPE_DLPACK_INCLUDE}/dlpack/dlpack.h lines REGEX "define DLPACK_(MAJOR|MINOR)_VERSION [0-9]+")
  string(REGEX REPLACE "[^0-9;]" "" DLPack_VERSION "${lines}")
  string(REPLACE ";" "." DLPack_VERSION "${DLPack_VERSION}")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(DLPack REQUIRED_VARS BYTETAPE_DLPACK_INCLUDE VERSION_VAR DLPack_VERSION HANDLE_VERSION_RANGE)
if(NOT DLPack_FOUND)
  unset(BYTETAPE_DLPACK_INCLUDE CACHE) # so that the next configuration finds a newer one
endif()
