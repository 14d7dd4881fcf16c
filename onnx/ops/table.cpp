#include "bytetape/onnx/ops/table.h"

#include <algorithm>
#include <map>
#include <utility>

namespace bytetape::onnx {
namespace {

std::map<std::string_view, const Converter*> all_converters() {
  std::map<std::string_view, const Converter*> all;
  for (const Converters group :
       {arithmetic_converters(), attention_converters(), compare_converters(), copy_converters(), images_converters(),
        indexing_converters(), matmul_converters(), norm_converters(), pointwise_converters(), recurrent_converters(),
        reduce_converters(), sort_converters(), view_converters()})
    for (const Converter& converter : group) all.emplace(converter.op, &converter);
  return all;
}

constexpr const char *is_loss = "it is a loss; export the tensors that go into it",
                     *is_random = "it draws random numbers", *is_collective = "it sends tensors to other processes";
constexpr std::pair<std::string_view, const char*> refused[] = {
    {"all_gather", is_collective}, {"all_reduce", is_collective},
    {"all_to_all", is_collective}, {"binary_cross_entropy_with_logits", is_loss},
    {"broadcast", is_collective},  {"cross_entropy", is_loss},
    {"huber_loss", is_loss},       {"kl_div", is_loss},
    {"l1_loss", is_loss},          {"linear_cross_entropy", is_loss},
    {"mse_loss", is_loss},         {"multinomial", is_random},
    {"nll_loss", is_loss},         {"nonzero", "the size of its result depends on values, which it reads on the host"},
    {"normal_", is_random},        {"reduce_scatter", is_collective},
    {"uniform_", is_random},
};

const auto* find_refused(std::string_view op) {
  return std::find_if(std::begin(refused), std::end(refused), [&](const auto& r) { return r.first == op; });
}

}  // namespace

const Converter* find_converter(std::string_view op) {
  static const std::map<std::string_view, const Converter*> all = all_converters();
  auto found = all.find(op);
  if (found == all.end() && op.ends_with('_')) found = all.find(op.substr(0, op.size() - 1));
  return found == all.end() ? nullptr : found->second;
}

bool is_refused(std::string_view op) { return find_refused(op) != std::end(refused); }

std::string reason_against(std::string_view op) {
  return is_refused(op) ? find_refused(op)->second : "there is no conversion to ONNX for it";
}

}  // namespace bytetape::onnx
