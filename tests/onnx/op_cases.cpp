#include <algorithm>
#include <fstream>
#include <limits>
#include <map>

#include "bytetape/bytetape.h"
#include "bytetape/onnx/ops/table.h"
#include "tests/onnx/cases.h"
#include "tests/ops/evaluate.h"
#include "tests/support/random.h"
#include "tests/support/source_dir.h"

namespace bytetape::test {

std::vector<std::string> documented_ops() {
  std::ifstream page(source_dir() / "docs" / "ops.md");
  std::vector<std::string> ops;
  for (std::string line; std::getline(page, line);)
    if (line.starts_with("| `")) ops.push_back(line.substr(3, line.find('`', 3) - 3));
  return ops;
}

std::string refusal_of_row(const std::string& row) {
  static const std::map<std::string, std::string> refused{
      {"dropout", "drops elements"},
      {"dropout_row_major", "drops elements"},
      {"index_mask", "'nonzero': the size of its result depends on values"},
      {"nonzero", "the size of its result depends on values"},
      {"scaled_dot_product_attention_dropout", "drops weights"},
  };
  const auto found = refused.find(row);
  return found == refused.end() ? "" : found->second;
}

namespace {

/// A case of a function of one tensor, f32 (batch, shape...).
ExportCase function_case(std::string name, const Shape& shape, const std::function<Tensor(const Tensor&)>& f) {
  return module_case(std::move(name), std::make_shared<nn::Lambda>(f), shape);
}

bool is_empty(const Input& x) { return numel(x.shape) == 0; }

/// A case of a row of the op list, with the sizes that it has. Floating inputs have the dtype.
ExportCase row_case(const OpRow& row, std::size_t number, DType dtype) {
  const Case& inputs = row.cases[number];
  const auto fresh = [&row, &inputs, dtype, draws = 0u](std::int64_t) mutable {
    const NoGrad no_grad;
    NamedTensors named;
    for (const Tensor& x : make_inputs(inputs, draw(row, inputs, draws++), dtype))
      if (x.defined()) named.emplace_back("x" + std::to_string(named.size()), clone(x.detach()));
    return named;
  };
  const auto function = [&row, &inputs](const std::vector<Tensor>& given) {
    std::vector<Tensor> all;
    std::size_t next = 0;
    for (const Input& input : inputs) all.push_back(input.defined ? given[next++] : Tensor());
    return std::vector<Tensor>{row.f(all)};
  };
  const std::string name =
      detail::concat("op_", row.name(), "_", number, dtype == DType::f32 ? "" : detail::concat("_", dtype));
  return {name,  std::make_shared<nn::Identity>(), function,
          fresh, {.dynamic_batch = false},         refusal_of_row(row.name())};
}

/// Whether the first dim of all inputs can be a batch.
bool has_batch(const Case& inputs) {
  const Shape& first = inputs[0].shape;
  return std::all_of(inputs.begin(), inputs.end(), [&](const Input& x) {
    return !x.defined || (!x.shape.empty() && !first.empty() && x.shape[0] == first[0] && x.shape[0] > 1);
  });
}

/// A case of a row that is exported for any batch size, and run with its own.
ExportCase dynamic_case(const OpRow& row, std::size_t number) {
  ExportCase c = row_case(row, number, DType::f32);
  c.name += "_dynamic";
  c.options.dynamic_batch = true;
  c.may_be_refused = true;
  return c;
}

/// All cases of a row in f32, the first one that has elements in f64 and f16, and the first one that has a batch.
void add_row(std::vector<ExportCase>& all, const OpRow& row) {
  bool has_others = false, is_dynamic = !refusal_of_row(row.name()).empty();
  for (std::size_t number = 0; number < row.cases.size(); ++number) {
    const bool has_elements = std::none_of(row.cases[number].begin(), row.cases[number].end(), is_empty);
    if (row.op == "einsum" && !has_elements) continue;  // onnxruntime ends the process with a division by zero
    all.push_back(row_case(row, number, DType::f32));
    if (has_elements && !std::exchange(has_others, true))
      for (const DType dtype : {DType::f64, DType::f16}) all.push_back(row_case(row, number, dtype));
    if (has_elements && has_batch(row.cases[number]) && !std::exchange(is_dynamic, true))
      all.push_back(dynamic_case(row, number));
  }
}

/// Ops whose arguments or results depend on the batch size, and ops in place on views.
void add_batches(std::vector<ExportCase>& all) {
  all.push_back(function_case("batch_view", {4, 6}, [](const Tensor& x) { return view(x, {x.size(0) * 2, 12}); }));
  all.push_back(function_case("batch_flatten", {4, 6}, [](const Tensor& x) { return flatten(x); }));
  all.push_back(function_case("batch_expand", {1, 6}, [](const Tensor& x) { return expand(x, {x.size(0), 4, 6}); }));
  all.push_back(function_case("batch_square", {1, 6}, [](const Tensor& x) {
    return expand(x, {x.size(0), 3, 6}) + mean(x, 0);
  }));
  all.push_back(function_case("batch_halves", {4}, [](const Tensor& x) {
    const std::vector<Tensor> parts = split(x, {1, 3}, 1);
    return cat({parts[1], parts[0]}, 1);
  }));
  all.push_back(function_case("batch_last", {4}, [](const Tensor& x) {
    return flip(x, 0) * index(x, {Ellipsis, -1, None});
  }));
  all.push_back(function_case("batch_sort", {4}, [](const Tensor& x) { return sort(x, 0).values; }));
  all.push_back(function_case("batch_zeros", {4}, [](const Tensor& x) { return cat({x, zeros({x.size(0), 2})}, 1); }));
  all.push_back(function_case("batch_repeat", {4}, [](const Tensor& x) { return repeat(x, {2, 3}); }));
  all.push_back(function_case("batch_rows", {2, 4}, [](const Tensor& x) {
    return transpose(reshape(transpose(x, 0, 1), {2, x.size(0) * 4}), 0, 1);
  }));
}

/// Dtypes that some operators of ONNX lack.
void add_dtypes(std::vector<ExportCase>& all) {
  const auto as_f32 = [](const std::vector<Tensor>& parts) {
    std::vector<Tensor> wide;
    for (const Tensor& x : parts) wide.push_back(to(x, DType::f32));
    return stack(wide, 1);
  };
  all.push_back(function_case("bool_extremes", {4}, [=](const Tensor& x) {
    const Tensor is_positive = x > 0;
    const auto [most, place] = max_with_indices(is_positive, 1);
    return as_f32(
        {max(is_positive, 1), min(is_positive, 1), argmax(is_positive, 1), argmin(is_positive, 1), most, place});
  }));
  all.push_back(
      function_case("bytes_negated", {4}, [=](const Tensor& x) { return as_f32({neg(to(abs(x) * 3, DType::u8))}); }));
  all.push_back(function_case("bf16", {4}, [=](const Tensor& x) {
    const Tensor low = to(x, DType::bf16);
    return as_f32(
        {sort(low, 1).values, topk(low, 4, 1).values, to(argsort(low, 1), DType::f32), round(low), sin(low), cos(low)});
  }));
}

/// An input that all examples of a batch share.
void add_unbatched(std::vector<ExportCase>& all) {
  const auto function = [](const std::vector<Tensor>& x) { return std::vector<Tensor>{matmul(x[1], x[0]) * x[2]}; };
  all.push_back({"unbatched_inputs", std::make_shared<nn::Identity>(), function, [](std::int64_t batch) {
                   return NamedTensors{{"shared", random_tensor({4, 5}, DType::f32)},
                                       {"x", random_tensor({batch, 4}, DType::f32)},
                                       {"scale", random_tensor({}, DType::f32)}};
                 }});
  all.back().options.unbatched_inputs = {"shared", "scale"};
}

/// Attention of queries that may attend to no key, because of a mask alone or of a mask and the causal option.
void add_masks(std::vector<ExportCase>& all) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  const Tensor floats =
      make_tensor({-inf, 0, 1, 2, -inf, -inf, -inf, -inf, 0, 1, -inf, 2, 1, 0, 2, 1}, {4, 4}, DType::f32);
  for (const Tensor& mask : {floats, floats > -inf})
    for (const bool is_causal : {false, true})
      all.push_back(function_case(
          detail::concat("attention_to_no_key_", mask.dtype(), is_causal ? "_causal" : ""), {2, 4, 3},
          [=](const Tensor& x) { return scaled_dot_product_attention(x, x, x, {.mask = mask, .causal = is_causal}); }));
}

void add_in_place(std::vector<ExportCase>& all) {
  all.push_back(function_case("in_place", {4}, [](const Tensor& x) {
    const Tensor y = x * 2;
    mul_(relu_(y), 3);
    return y + x;
  }));
  all.push_back(function_case("in_place_on_input", {4}, [](const Tensor& x) { return relu_(x) + x; }));
  all.push_back(function_case("in_place_on_part", {4, 6}, [](const Tensor& x) {
    const Tensor y = x * 2, part = narrow(y, 1, 1, 2), other = view(y, {y.size(0), 24});
    relu_(part);
    add_(select(y, 2, 3), 5);
    return cat({flatten(y, 1), other, flatten(part, 1)}, 1);
  }));
  all.push_back(function_case("in_place_on_turned", {4, 6}, [](const Tensor& x) {
    const Tensor y = x * 2, turned = permute(y, {2, 0, 1});
    mul_(narrow(turned, 0, 2, 4), 3);
    relu_(transpose(y, 1, 2));
    return y;
  }));
  all.push_back(function_case("in_place_on_base", {4, 6}, [](const Tensor& x) {
    const Tensor y = x * 2, part = select(y, 1, 1);
    const Tensor before = part * 1;
    add_(y, 1);
    return before + part * 10;
  }));
  all.push_back(function_case("in_place_on_steps", {6, 5}, [](const Tensor& x) {
    const Tensor y = x * 2;
    relu_(slice(y, 1, Slice(1, None, 2)));
    index(y, {Slice(), Slice(0, 5, 3), Slice(None, None, 4)}) = 0.5;
    index(y, {Slice(), 2, Slice(1, 4, 2)}) = index(x, {Slice(), 0, Slice(0, 2)});
    return y;
  }));
  all.push_back(function_case("copied_into_zeros", {4}, [](const Tensor& x) {
    const Tensor y = zeros({x.size(0), 6});
    copy_(narrow(y, 1, 1, 4), x);
    return y;
  }));
}

void add_constants(std::vector<ExportCase>& all) {
  const Tensor table = random_tensor({3, 4}, DType::f32);
  all.push_back(function_case("constant", {4}, [table](const Tensor& x) { return matmul(x, transpose(table, 0, 1)); }));
  all.push_back(function_case("overwritten_constant", {4}, [](const Tensor& x) {
    const Tensor scale = full({4}, 3);
    const Tensor y = x * scale;
    fill_(scale, 5);
    return y + x * scale;
  }));
  all.push_back(function_case("result_is_input", {4}, [](const Tensor& x) { return x; }));
}

}  // namespace

std::vector<ExportCase> op_cases() {
  std::vector<ExportCase> all;
  add_batches(all);
  add_dtypes(all);
  add_unbatched(all);
  add_masks(all);
  add_in_place(all);
  add_constants(all);
  const std::vector<std::string> ops = documented_ops();
  for (const OpRow& row : op_list())
    if (std::find(ops.begin(), ops.end(), row.op) != ops.end() && !onnx::is_refused(row.op)) add_row(all, row);
  return all;
}

std::vector<ExportCase> all_cases() {
  std::vector<ExportCase> all = layer_cases();
  for (auto* more : {model_cases, op_cases})
    for (ExportCase& c : more()) all.push_back(std::move(c));
  return all;
}

}  // namespace bytetape::test
