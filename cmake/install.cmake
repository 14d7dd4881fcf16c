include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/bytetape)

set(targets bytetape)
if(BYTETAPE_HAS_CUDA)
  list(APPEND targets bytetape_cuda_kernels)
else()
  list(APPEND targets bytetape_cuda_absent)
endif()
foreach(folder ${BYTETAPE_FOLDERS} ${BYTETAPE_OPTIONAL_FOLDERS})
  if(TARGET bytetape_${folder})
    list(APPEND targets bytetape_${folder})
  endif()
  # core/cpu and core/memory/text are private to core, and cuda/ headers that need the toolkit are private to cuda.
  if(NOT folder STREQUAL "cuda")
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/bytetape COMPONENT headers
      FILES_MATCHING PATTERN *.h PATTERN cpu EXCLUDE PATTERN text EXCLUDE)
  endif()
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/cuda/cuda.h ${PROJECT_SOURCE_DIR}/cuda/precision.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/bytetape/cuda COMPONENT headers)
install(FILES ${PROJECT_SOURCE_DIR}/bytetape.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/bytetape COMPONENT headers)

install(TARGETS ${targets} EXPORT bytetape ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET bytetape-memory)
  install(TARGETS bytetape-memory RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
endif()
install(EXPORT bytetape NAMESPACE bytetape:: FILE bytetapeTargets.cmake DESTINATION ${package_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/bytetapeConfig.cmake.in
  ${PROJECT_BINARY_DIR}/bytetapeConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/bytetapeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/bytetapeConfig.cmake ${PROJECT_BINARY_DIR}/bytetapeConfigVersion.cmake
  ${CMAKE_CURRENT_LIST_DIR}/Finddnnl.cmake ${CMAKE_CURRENT_LIST_DIR}/FindPCRE2.cmake ${CMAKE_CURRENT_LIST_DIR}/FindOnnxProto.cmake
  DESTINATION ${package_dir})
