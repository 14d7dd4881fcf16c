#include "bytetape/onnx/model_file.h"

#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>

#include <filesystem>
#include <ostream>

#include "bytetape/core/files/elements.h"
#include "bytetape/core/write_file.h"
#include "bytetape/onnx/conversion.h"

namespace bytetape::onnx {
namespace {

constexpr std::int64_t opset = 17, ir_version = 8;
constexpr std::size_t alignment = 64, least_external_bytes = 1024, most_file_bytes = (std::size_t{1} << 31) - 1,
                      most_bytes = most_file_bytes - (1 << 20);  // of constants, beside the nodes

void set_attribute(::onnx::AttributeProto& to, const std::string& name, const Attribute& value) {
  to.set_name(name);
  if (const auto* i = std::get_if<std::int64_t>(&value)) {
    to.set_type(::onnx::AttributeProto::INT);
    to.set_i(*i);
  } else if (const auto* f = std::get_if<double>(&value)) {
    to.set_type(::onnx::AttributeProto::FLOAT);
    to.set_f(static_cast<float>(*f));
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    to.set_type(::onnx::AttributeProto::STRING);
    to.set_s(*text);
  } else {
    to.set_type(::onnx::AttributeProto::INTS);
    for (const std::int64_t i : std::get<std::vector<std::int64_t>>(value)) to.add_ints(i);
  }
}

void set_node(::onnx::NodeProto& to, const Node& node) {
  to.set_op_type(node.op_type);
  to.set_name(node.name);
  for (const std::string& name : node.inputs) to.add_input(name);
  for (const std::string& name : node.outputs) to.add_output(name);
  for (const auto& [name, value] : node.attributes) set_attribute(*to.add_attribute(), name, value);
}

void set_description(::onnx::ValueInfoProto& to, const Description& value) {
  to.set_name(value.name);
  auto& type = *to.mutable_type()->mutable_tensor_type();
  type.set_elem_type(static_cast<int>(onnx_type(value.dtype)));
  type.mutable_shape();  // a scalar has a shape without dims
  for (const auto& size : value.sizes) {
    auto& dim = *type.mutable_shape()->add_dim();
    if (const auto* fixed = std::get_if<std::int64_t>(&size))
      dim.set_dim_value(*fixed);
    else
      dim.set_dim_param(std::get<std::string>(size));
  }
}

void set_header(::onnx::TensorProto& to, const std::string& name, const Tensor& x) {
  to.set_name(name);
  to.set_data_type(static_cast<int>(onnx_type(x.dtype())));
  for (const std::int64_t size : x.shape()) to.add_dims(size);
}

void set_bytes(::onnx::TensorProto& to, const Tensor& x) {
  std::string& bytes = *to.mutable_raw_data();
  bytes.reserve(x.nbytes());
  write_elements(x, [&](std::span<const std::byte> piece) {
    bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  });
}

/// A constant whose elements are in the second file.
struct External {
  const Tensor* tensor;
  std::size_t offset;
};

void set_location(::onnx::TensorProto& to, const std::string& file, const External& external) {
  to.set_data_location(::onnx::TensorProto::EXTERNAL);
  const auto add = [&](const char* key, const std::string& value) {
    auto& entry = *to.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  };
  add("location", file);
  add("offset", std::to_string(external.offset));
  add("length", std::to_string(external.tensor->nbytes()));
}

::onnx::ModelProto model_without_constants(const Graph& graph) {
  ::onnx::ModelProto model;
  model.set_ir_version(ir_version);
  model.set_producer_name("bytetape");
  auto& operators = *model.add_opset_import();
  operators.set_domain("");
  operators.set_version(opset);
  model.mutable_graph()->set_name("model");
  for (const Node& node : graph.nodes) set_node(*model.mutable_graph()->add_node(), node);
  for (const Description& x : graph.inputs) set_description(*model.mutable_graph()->add_input(), x);
  for (const Description& y : graph.outputs) set_description(*model.mutable_graph()->add_output(), y);
  return model;
}

/// Throws NotImplemented if ONNX has not all of the operators for the dtypes of their inputs.
void check_operators(const Graph& graph) {
  ::onnx::ModelProto model = model_without_constants(graph);
  for (const auto& [name, x] : graph.initializers) set_header(*model.mutable_graph()->add_initializer(), name, x);
  // Shapes are not checked: version 1.12 infers a wrong one for a slice of nothing.
  for (::onnx::ValueInfoProto& y : *model.mutable_graph()->mutable_output())
    y.mutable_type()->mutable_tensor_type()->clear_shape();
  try {
    const ::onnx::ShapeInferenceOptions checks{true, 0, false};  // of types
    ::onnx::shape_inference::InferShapes(model, ::onnx::OpSchemaRegistry::Instance(), checks);
  } catch (const std::exception& error) { fail<NotImplemented>("onnx::save cannot export: ", error.what()); }
}

void check_size(const Graph& graph, bool external_data) {
  std::size_t bytes = 0;
  for (const auto& [name, x] : graph.initializers) bytes += external_data ? 0 : x.nbytes();
  check<ValueError>(bytes < most_bytes, "onnx::save: the constants have ", bytes,
                    " bytes, and an ONNX file holds less than 2 GB: set external_data");
}

void write_external(const std::string& path, const std::vector<External>& all) {
  write_file(path, "the constants of an ONNX model", [&](std::ostream& out) {
    std::size_t at = 0;
    for (const External& external : all) {
      out << std::string(external.offset - at, '\0');
      write_elements(*external.tensor, [&](std::span<const std::byte> piece) {
        out.write(reinterpret_cast<const char*>(piece.data()), static_cast<std::streamsize>(piece.size()));
      });
      at = external.offset + external.tensor->nbytes();
    }
  });
}

}  // namespace

void write_model(const std::string& path, const Graph& graph, bool external_data) {
  check_size(graph, external_data);
  check_operators(graph);
  ::onnx::ModelProto model = model_without_constants(graph);
  std::vector<External> all;
  std::size_t end = 0;
  for (const auto& [name, x] : graph.initializers) {
    ::onnx::TensorProto& to = *model.mutable_graph()->add_initializer();
    set_header(to, name, x);
    if (!external_data || x.nbytes() < least_external_bytes) {
      set_bytes(to, x);
      continue;
    }
    all.push_back({&x, (end + alignment - 1) / alignment * alignment});
    end = all.back().offset + x.nbytes();
    set_location(to, std::filesystem::path(path + ".data").filename().string(), all.back());
  }
  check<ValueError>(model.ByteSizeLong() < most_file_bytes, "onnx::save: the file would have ", model.ByteSizeLong(),
                    " bytes, and an ONNX file holds less than 2 GB");
  if (external_data) write_external(path + ".data", all);
  write_file(path, "an ONNX model", [&](std::ostream& out) {
    if (!model.SerializeToOstream(&out)) out.setstate(std::ios::failbit);
  });
}

}  // namespace bytetape::onnx
