# Finds the protobuf classes of ONNX models and the library that checks its operators. Without the package file of ONNX,
# because Debian's names protobuf's target but does not find it.
find_path(ONNX_PROTO_INCLUDE_DIR onnx/onnx_pb.h)
find_library(ONNX_PROTO_LIBRARY onnx_proto)
find_library(ONNX_LIBRARY onnx)
find_package(Protobuf MODULE QUIET)
mark_as_advanced(ONNX_PROTO_INCLUDE_DIR ONNX_PROTO_LIBRARY ONNX_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OnnxProto REQUIRED_VARS ONNX_LIBRARY ONNX_PROTO_LIBRARY ONNX_PROTO_INCLUDE_DIR Protobuf_FOUND)
if(OnnxProto_FOUND AND NOT TARGET OnnxProto::OnnxProto)
  add_library(OnnxProto::OnnxProto UNKNOWN IMPORTED)
  set_target_properties(OnnxProto::OnnxProto PROPERTIES
    IMPORTED_LOCATION ${ONNX_PROTO_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${ONNX_PROTO_INCLUDE_DIR}
    INTERFACE_COMPILE_DEFINITIONS "ONNX_ML=1;ONNX_NAMESPACE=onnx" INTERFACE_LINK_LIBRARIES "${ONNX_LIBRARY};protobuf::libprotobuf")
endif()
