#include "examples/objective.h"

#include <fmt/format.h>

namespace bytetape::examples {

Objective classification() {
  return {
      .loss = [](const Tensor& logits, const Tensor&, const Tensor& labels) { return cross_entropy(logits, labels); },
      .score = [](const Tensor& logits, const Tensor&,
                  const Tensor& labels) { return sum(argmax(logits, 1) == labels); },
      .score_dtype = DType::i64,
      .name = "accuracy",
      .short_name = "acc",
      .text = [](double figure) { return fmt::format("{:.2f} %", 100 * figure); },
      .reaches = [](double figure, double percent) { return 100 * figure >= percent; }};
}

Objective reconstruction() {
  return {.loss = [](const Tensor& output, const Tensor& images, const Tensor&) { return mse_loss(output, images); },
          .score =
              [](const Tensor& output, const Tensor& images, const Tensor&) {
                return sum(mean(mse_loss(output, images, Reduction::none), {1, 2, 3}));
              },
          .score_dtype = DType::f32,
          .name = "error",
          .short_name = "err",
          .text = [](double figure) { return fmt::format("{:.5f}", figure); },
          .reaches = [](double figure, double error) { return figure <= error; }};
}

}  // namespace bytetape::examples
