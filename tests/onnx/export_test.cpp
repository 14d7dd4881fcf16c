// Exports each case. tests/onnx/check.py compares the models with onnxruntime: BYTETAPE_ONNX_MODELS names the folder
// for them, and for fresh inputs and the results that are expected.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/core/files/safetensors.h"
#include "bytetape/onnx/export_graph.h"
#include "tests/onnx/cases.h"
#include "tests/support/expect.h"

namespace bytetape::test {
namespace {

/// Adds inputs and results of a run, as run_0/in_0, ..., run_0/out_0, ...
void add_run(NamedTensors& all, const ExportCase& c, std::int64_t batch, const std::string& run) {
  std::vector<Tensor> inputs;
  for (const auto& [name, x] : c.inputs(batch)) inputs.push_back(x);
  const NoGrad no_grad;
  c.net->eval();
  const auto add = [&](const std::vector<Tensor>& tensors, const std::string& what) {
    for (std::size_t i = 0; i < tensors.size(); ++i)
      all.emplace_back(detail::concat(run, "/", what, "_", i), clone(tensors[i]));
  };
  add(inputs, "in");
  add(c.function(inputs), "out");
}

/// Saves the model, and runs for several batch sizes, in a folder.
void write_case(const ExportCase& c, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  try {
    onnx::save((folder / "model.onnx").string(), *c.net, c.function, c.inputs(2), c.options);
  } catch (const NotImplemented&) {
    EXPECT_TRUE(c.may_be_refused);
    std::filesystem::remove(folder);  // empty
    return;
  }
  NamedTensors runs;
  add_run(runs, c, 2, "run_0");
  if (c.options.dynamic_batch && !c.may_be_refused) add_run(runs, c, 5, "run_1"), add_run(runs, c, 1, "run_2");
  save_safetensors((folder / "runs.safetensors").string(), runs);
}

TEST(Export, ConvertsEachCase) {
  const char* const root = std::getenv("BYTETAPE_ONNX_MODELS");
  for (const ExportCase& c : all_cases()) {
    SCOPED_TRACE(c.name);
    const auto convert = [&] { onnx::export_graph(*c.net, c.function, c.inputs(2), c.options); };
    if (c.may_be_refused && !root) continue;
    if (!c.refusal.empty())
      EXPECT_TRUE(throws_saying<NotImplemented>(convert, c.refusal));
    else if (root)
      EXPECT_NO_THROW(write_case(c, std::filesystem::path(root) / c.name));
    else
      EXPECT_NO_THROW(convert());
  }
}

}  // namespace
}  // namespace bytetape::test
