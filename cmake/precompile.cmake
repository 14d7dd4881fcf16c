# Headers of the standard library and of GoogleTest are read once for all tests. None of ours is among them: an edit of
# one compiles what includes it, and no more.
option(BYTETAPE_PRECOMPILE "Precompile the standard headers and GoogleTest's for the tests" ON)
set(BYTETAPE_SHARED_HEADERS <gmock/gmock.h> <gtest/gtest.h> <algorithm> <array> <atomic> <cmath> <cstdint> <cstring>
  <functional> <initializer_list> <limits> <map> <memory> <numeric> <optional> <random> <span> <sstream> <string> <thread>
  <utility> <vector>)

# bytetape_precompile(<target>): makes them. bytetape_precompile(<target> <from>): uses those of a target with the same
# options.
function(bytetape_precompile target)
  if(NOT BYTETAPE_PRECOMPILE)
    return()
  endif()
  if(ARGN)
    target_precompile_headers(${target} REUSE_FROM ${ARGN})
  else()
    target_precompile_headers(${target} PRIVATE ${BYTETAPE_SHARED_HEADERS})
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # ccache sees through a precompiled header by the first option alone; GCC 12 takes its std::string's copies for
    # overflows once its header is precompiled.
    target_compile_options(${target} PRIVATE -fpch-preprocess -Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds)
  endif()
endfunction()
