include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/bytetape)

set(targets bytetape)
if(BYTETAPE_HAS_CUDA)
  list(APPEND targets bytetape_cuda_kernels)
else()
  list(APPEND targets bytetape_cuda_absent)
endif()
foreach(folder ${BYTETAPE_FOLDERS})
  list(APPEND targets bytetape_${folder})
endforeach()
foreach(folder ${BYTETAPE_FOLDERS} ${BYTETAPE_OPTIONAL_FOLDERS})
  # core/cpu and core/memory/text are private to core, and cuda/ headers that need the toolkit are private to cuda.
  if(NOT folder STREQUAL "cuda")
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/bytetape COMPONENT headers
      FILES_MATCHING PATTERN *.h REGEX "/core/(cpu|memory/text)$" EXCLUDE)
  endif()
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/cuda/cuda.h ${PROJECT_SOURCE_DIR}/cuda/precision.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/bytetape/cuda COMPONENT headers)
install(FILES ${PROJECT_SOURCE_DIR}/bytetape.h ${BYTETAPE_INCLUDE}/bytetape/version.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/bytetape COMPONENT headers)

install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

install(TARGETS ${targets} EXPORT bytetape ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET bytetape-memory)
  install(TARGETS bytetape-memory RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
endif()
install(EXPORT bytetape NAMESPACE bytetape:: FILE bytetapeTargets.cmake DESTINATION ${package_dir})
# A file of its own, because programs that do not export models need neither it nor protobuf.
if(BYTETAPE_HAS_ONNX)
  install(TARGETS bytetape_onnx EXPORT bytetape_onnx ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT bytetape_onnx NAMESPACE bytetape:: FILE bytetapeOnnxTargets.cmake DESTINATION ${package_dir})
endif()
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/bytetapeConfig.cmake.in
  ${PROJECT_BINARY_DIR}/bytetapeConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/bytetapeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/bytetapeConfig.cmake ${PROJECT_BINARY_DIR}/bytetapeConfigVersion.cmake
  ${CMAKE_CURRENT_LIST_DIR}/Finddnnl.cmake ${CMAKE_CURRENT_LIST_DIR}/FindPCRE2.cmake ${CMAKE_CURRENT_LIST_DIR}/FindOnnxProto.cmake
  DESTINATION ${package_dir})
