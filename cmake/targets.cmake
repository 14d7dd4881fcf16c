# Warnings are for bytetape's developers, and errors for CI, because a newer compiler's false warning must not stop a
# user's build.
function(bytetape_warnings target)
  if(PROJECT_IS_TOP_LEVEL)
    # False warnings: GCC 12 about uninitialised and overlapping memory, for instance in std::string, and later versions
    # about std::sort beyond the end of short arrays.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra $<$<BOOL:${BYTETAPE_WERROR}>:-Werror>
      -Wno-missing-field-initializers
      $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized -Wno-maybe-uninitialized -Wno-restrict>
      $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_GREATER_EQUAL:$<CXX_COMPILER_VERSION>,13>>:-Wno-array-bounds -Wno-stringop-overflow>>)
  endif()
endfunction()

# Makes a library of the folder, or of the given sources: bytetape_<name>, exported as bytetape::<name>.
function(bytetape_library name)
  set(sources ${ARGN})
  if(NOT sources)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  endif()
  add_library(bytetape_${name} STATIC ${sources})
  add_library(bytetape::${name} ALIAS bytetape_${name})
  # Hidden, so that two shared libraries of a process may have a bytetape each.
  set_target_properties(bytetape_${name} PROPERTIES EXPORT_NAME ${name}
    CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_compile_features(bytetape_${name} PUBLIC cxx_std_20)
  target_include_directories(bytetape_${name} PUBLIC
    $<BUILD_INTERFACE:${BYTETAPE_INCLUDE}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  bytetape_warnings(bytetape_${name})
endfunction()

# Makes the programs of this folder: <name>.cpp, or a folder <name> with a main.cpp. A source with a header of the same name
# is not a program, but part of a library that all programs share.
function(bytetape_programs)
  find_package(CLI11 REQUIRED)
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  set(programs)
  set(parts)
  foreach(file ${files})
    cmake_path(REPLACE_EXTENSION file .h OUTPUT_VARIABLE header)
    if(EXISTS ${header})
      list(APPEND parts ${file})
    else()
      list(APPEND programs ${file})
    endif()
  endforeach()
  if(parts)
    cmake_path(GET CMAKE_CURRENT_SOURCE_DIR FILENAME folder)
    add_library(${folder}_parts STATIC ${parts})
    bytetape_program_options(${folder}_parts)
    link_libraries(${folder}_parts)
  endif()
  foreach(file ${programs})
    cmake_path(GET file STEM name)
    bytetape_program(${name} ${file})
  endforeach()
  file(GLOB mains CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*/main.cpp)
  foreach(main ${mains})
    cmake_path(GET main PARENT_PATH folder)
    cmake_path(GET folder FILENAME name)
    file(GLOB files CONFIGURE_DEPENDS ${folder}/*.cpp)
    bytetape_program(${name} ${files})
  endforeach()
endfunction()

function(bytetape_program name)
  add_executable(${name} ${ARGN})
  bytetape_program_options(${name})
endfunction()

function(bytetape_program_options target)
  target_link_libraries(${target} PRIVATE bytetape::bytetape CLI11::CLI11 fmt::fmt nlohmann_json::nlohmann_json)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  bytetape_warnings(${target})
endfunction()
