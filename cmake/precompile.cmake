# bytetape_precompile_headers(<target> <header>...) precompiles headers that are not ours: an edit of ours recompiles only the
# sources that include it.
function(bytetape_precompile_headers target)
  target_precompile_headers(${target} PRIVATE ${ARGN})
  bytetape_precompiled_options(${target})
endfunction()

function(bytetape_precompiled_options target)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # ccache needs the first option to look into a precompiled header. The others turn off false warnings of GCC 12 about
    # copies of std::string, whose header is precompiled.
    target_compile_options(${target} PRIVATE -fpch-preprocess -Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds)
  endif()
endfunction()

option(BYTETAPE_PRECOMPILE "Precompile headers of other libraries: for the tests, and in unity builds for the CPU kernels" ON)
# The standard library and GoogleTest, once for all tests.
set(BYTETAPE_SHARED_HEADERS <gmock/gmock.h> <gtest/gtest.h> <algorithm> <array> <atomic> <cmath> <cstdint> <cstring>
  <functional> <initializer_list> <limits> <map> <memory> <numeric> <optional> <random> <span> <sstream> <string> <thread>
  <utility> <vector>)

# bytetape_precompile(<target>) precompiles them. bytetape_precompile(<target> <from>) uses those of a target with the same
# options.
function(bytetape_precompile target)
  if(NOT BYTETAPE_PRECOMPILE)
    return()
  endif()
  if(ARGN)
    target_precompile_headers(${target} REUSE_FROM ${ARGN})
    bytetape_precompiled_options(${target})
  else()
    bytetape_precompile_headers(${target} ${BYTETAPE_SHARED_HEADERS})
  endif()
endfunction()
