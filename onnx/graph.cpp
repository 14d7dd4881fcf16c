#include "bytetape/onnx/graph.h"

#include <algorithm>

#include "bytetape/core/factories.h"
#include "bytetape/core/files/elements.h"

namespace bytetape::onnx {

static constexpr char batch_prefix[] = "batch_size";  // of the names of nodes that compute its multiples

bool are_fixed(const Sizes& sizes) {
  return std::all_of(sizes.begin(), sizes.end(), [](const Size& s) { return s.is_fixed(); });
}

std::string Graph::fresh() { return prefix_ + "_" + std::to_string(++count_); }

std::string Graph::add(const char* op_type, Names inputs, Attributes attributes) {
  return add_several(op_type, std::move(inputs), std::move(attributes), 1)[0];
}

Names Graph::add_several(const char* op_type, Names inputs, Attributes attributes, std::size_t results) {
  Node node{op_type, fresh(), std::move(inputs), {}, std::move(attributes)};
  for (std::size_t i = 0; i < results; ++i)
    node.outputs.push_back(results == 1 ? node.name : node.name + "." + std::to_string(i));
  nodes.push_back(std::move(node));
  return nodes.back().outputs;
}

std::string Graph::tensor(const Tensor& x) {
  std::string key = detail::concat(x.dtype(), x.shape(), ' ');
  write_elements(x, [&](std::span<const std::byte> bytes) {
    key.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
  std::string& name = constants_[key];
  if (name.empty()) initializers.emplace_back(name = "constant_" + std::to_string(constants_.size()), x);
  return name;
}

std::string Graph::number(Scalar value, DType dtype) { return tensor(full({}, value, dtype, Device::cpu())); }

std::string Graph::integers(const std::vector<std::int64_t>& values) {
  return tensor(from_vector(values, {static_cast<std::int64_t>(values.size())}, Device::cpu()));
}

std::string Graph::named(const std::string& name, const Tensor& x) {
  const auto is_it = [&](const auto& entry) { return entry.first == name; };
  if (std::none_of(initializers.begin(), initializers.end(), is_it)) initializers.emplace_back(name, x);
  return name;
}

std::int64_t Graph::multiple_of_batch(Size size) const {
  if (size.is_fixed() || batch_.is_fixed() || size.first % batch_.first != 0) return 0;
  const std::int64_t factor = size.first / batch_.first;
  return factor * batch_.second == size.second ? factor : 0;
}

std::string Graph::batch_times(std::int64_t factor) {
  std::string& name = batch_times_[factor];
  if (!name.empty()) return name;
  const std::string prefix = std::exchange(prefix_, batch_prefix);
  name = factor == 1 ? add("Shape", {input_}, {{"start", batch_dim_}, {"end", batch_dim_ + 1}})
                     : add("Mul", {batch_times(1), integers({factor})});
  prefix_ = prefix;
  return name;
}

std::string Graph::sizes(const Sizes& sizes) {
  Names parts;
  std::vector<std::int64_t> fixed;
  const auto add_fixed = [&] {
    if (!fixed.empty()) parts.push_back(integers(fixed));
    fixed.clear();
  };
  for (const Size& size : sizes) {
    if (size.is_fixed()) {
      fixed.push_back(size.first);
      continue;
    }
    const std::int64_t factor = multiple_of_batch(size);
    if (factor == 0)
      throw Refusal{detail::concat("a size depends on the batch size, but is no multiple of it: it is ", size.first,
                                   " for a batch of ", batch_.first, ", and ", size.second, " for ", batch_.second)};
    add_fixed();
    parts.push_back(batch_times(factor));
  }
  if (parts.empty()) return integers(fixed);
  add_fixed();
  return parts.size() == 1 ? parts[0] : add("Concat", parts, {{"axis", std::int64_t{0}}});
}

std::string Graph::difference(const Graph& other) const {
  std::map<std::string, std::string> contents[2];  // of constants, by name
  for (const auto& [content, name] : constants_) contents[0][name] = content;
  for (const auto& [content, name] : other.constants_) contents[1][name] = content;
  const auto are_same = [&](const Node& a, const Node& b) {
    return a == b && std::all_of(a.inputs.begin(), a.inputs.end(),
                                 [&](const std::string& input) { return contents[0][input] == contents[1][input]; });
  };
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (i < other.nodes.size() && are_same(nodes[i], other.nodes[i])) continue;
    while (i + 1 < nodes.size() && nodes[i].name.starts_with(batch_prefix)) ++i;  // made for the node behind it
    return nodes[i].name;
  }
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (!(outputs[i] == other.outputs[i])) return outputs[i].name;
  return "";
}

}  // namespace bytetape::onnx
