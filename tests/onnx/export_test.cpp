// Exports each case. tests/onnx/check.py compares the models with onnxruntime: BYTETAPE_ONNX_MODELS names the folder
// for them, and for fresh inputs and the results that are expected.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "bytetape/autograd/grad_mode.h"
#include "bytetape/core/files/npy.h"
#include "tests/onnx/cases.h"
#include "tests/support/expect.h"
#include "tests/support/temporary_dir.h"

namespace bytetape::test {
namespace {

/// Saves inputs and results of a run as in_0.npy, ..., out_0.npy, ... in a folder.
void save_run(const ExportCase& c, std::int64_t batch, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  std::vector<Tensor> inputs;
  for (const auto& [name, x] : c.inputs(batch)) inputs.push_back(x);
  const NoGrad no_grad;
  c.net->eval();
  for (std::size_t i = 0; i < inputs.size(); ++i)
    save_npy((folder / ("in_" + std::to_string(i) + ".npy")).string(), inputs[i]);
  const std::vector<Tensor> results = c.function(inputs);
  for (std::size_t i = 0; i < results.size(); ++i)
    save_npy((folder / ("out_" + std::to_string(i) + ".npy")).string(), results[i]);
}

TEST(Export, WritesEachCase) {
  const TemporaryDir temporary;
  const char* const given = std::getenv("BYTETAPE_ONNX_MODELS");
  const std::filesystem::path root = given ? given : temporary.path();
  for (const ExportCase& c : all_cases()) {
    SCOPED_TRACE(c.name);
    const std::filesystem::path folder = root / c.name;
    std::filesystem::create_directories(folder);
    const std::string path = (folder / "model.onnx").string();
    const auto save = [&] { onnx::save(path, *c.net, c.function, c.inputs(2), c.options); };
    if (!c.refusal.empty()) {
      EXPECT_TRUE(throws_saying<NotImplemented>(save, c.refusal));
      EXPECT_TRUE(std::filesystem::is_empty(folder));
      std::filesystem::remove(folder);
      continue;
    }
    EXPECT_NO_THROW(save());
    const std::vector<std::int64_t> batches =
        c.options.dynamic_batch ? std::vector<std::int64_t>{2, 5, 1} : std::vector<std::int64_t>{2, 2};
    for (std::size_t i = 0; given && i < batches.size(); ++i)
      save_run(c, batches[i], folder / ("run_" + std::to_string(i)));
  }
}

}  // namespace
}  // namespace bytetape::test
