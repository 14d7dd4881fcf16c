// Whatever takes a tensor says so where it is given none.
#include <functional>
#include <string>

#include "bytetape/autograd/engine.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

struct Case {
  const char* name;
  std::function<void(const Tensor&)> call;
  const char* words = "the input is an undefined tensor";
};
constexpr const char *first = "the first input is an undefined tensor",
                     *second = "the second input is an undefined tensor";

TEST(Ops, RefuseAnUndefinedTensorNamingThemselves) {
  const Tensor x = ones({2, 3}), index = zeros({2}, DType::i64);
  const Case cases[] = {
      {"clone", [](const Tensor& t) { clone(t); }},
      {"contiguous", [](const Tensor& t) { contiguous(t); }},
      {"channels_last", [](const Tensor& t) { channels_last(t); }},
      {"to", [](const Tensor& t) { to(t, DType::f64); }},
      {"to", [](const Tensor& t) { to(t, Device::meta()); }},
      {"copy_", [&](const Tensor& t) { copy_(t, x); }, first},
      {"copy_", [&](const Tensor& t) { copy_(x, t); }, second},
      {"fill_", [](const Tensor& t) { fill_(t, 1); }},
      {"zero_", [](const Tensor& t) { zero_(t); }},
      {"uniform_", [](const Tensor& t) { uniform_(t); }, "the tensor is undefined"},
      {"normal_", [](const Tensor& t) { normal_(t); }, "the tensor is undefined"},
      {"neg", [](const Tensor& t) { neg(t); }},
      {"neg_", [](const Tensor& t) { neg_(t); }},
      {"add", [&](const Tensor& t) { t + x; }},
      {"add", [&](const Tensor& t) { x + t; }, second},
      {"add", [](const Tensor& t) { t + 1; }},
      {"add_", [&](const Tensor& t) { add_(t, x); }},
      {"add_", [&](const Tensor& t) { add_(x, t); }, second},
      {"exp", [](const Tensor& t) { exp(t); }},
      {"exp_", [](const Tensor& t) { exp_(t); }},
      {"clamp", [](const Tensor& t) { clamp(t, 0, 1); }},
      {"gelu", [](const Tensor& t) { gelu(t); }},
      {"where", [&](const Tensor& t) { where(t, x, x); }, first},
      {"view", [](const Tensor& t) { view(t, {1}); }},
      {"reshape", [](const Tensor& t) { reshape(t, {1}); }},
      {"flatten", [](const Tensor& t) { flatten(t); }},
      {"transpose", [](const Tensor& t) { transpose(t, 0, 1); }},
      {"permute", [](const Tensor& t) { permute(t, {0}); }},
      {"narrow", [](const Tensor& t) { narrow(t, 0, 0, 1); }},
      {"select", [](const Tensor& t) { select(t, 0, 0); }},
      {"expand", [](const Tensor& t) { expand(t, {1}); }},
      {"squeeze", [](const Tensor& t) { squeeze(t, 0); }},
      {"squeeze", [](const Tensor& t) { squeeze(t); }},
      {"unsqueeze", [](const Tensor& t) { unsqueeze(t, 0); }},
      {"split", [](const Tensor& t) { split(t, 1); }},
      {"split",
       [](const Tensor& t) {
         split(t, {1, 1});
       }},
      {"chunk", [](const Tensor& t) { chunk(t, 1); }},
      {"pad",
       [](const Tensor& t) {
         pad(t, {1, 1});
       }},
      {"sum", [](const Tensor& t) { sum(t); }},
      {"sum_to", [](const Tensor& t) { sum_to(t, {1}); }},
      {"mean", [](const Tensor& t) { mean(t); }},
      {"var", [](const Tensor& t) { var(t); }},
      {"std", [](const Tensor& t) { bytetape::std(t); }},
      {"norm", [](const Tensor& t) { norm(t); }},
      {"max", [](const Tensor& t) { bytetape::max(t); }},
      {"min", [](const Tensor& t) { bytetape::min(t); }},
      {"argmax", [](const Tensor& t) { argmax(t); }},
      {"argmax", [](const Tensor& t) { argmax(t, 0); }},
      {"cumsum", [](const Tensor& t) { cumsum(t, 0); }},
      {"softmax", [](const Tensor& t) { softmax(t, 0); }},
      {"log_softmax", [](const Tensor& t) { log_softmax(t, 0); }},
      {"index_select", [&](const Tensor& t) { index_select(t, 0, index); }, first},
      {"index_select", [&](const Tensor& t) { index_select(x, 0, t); }, second},
      {"one_hot", [](const Tensor& t) { one_hot(t, 3); }},
      {"matmul", [&](const Tensor& t) { matmul(t, x); }, first},
      {"matmul", [&](const Tensor& t) { matmul(x, t); }, second},
      {"linear", [&](const Tensor& t) { linear(t, x); }, first},
      {"linear", [&](const Tensor& t) { linear(x, t); }, second},
      {"dropout", [](const Tensor& t) { dropout(t, 0.5); }},
      {"batch_norm", [](const Tensor& t) { batch_norm(t, {}, {}, {}, {}, true); }},
      {"layer_norm", [](const Tensor& t) { layer_norm(t, {3}); }},
      {"group_norm", [](const Tensor& t) { group_norm(t, 1); }},
      {"mse_loss", [&](const Tensor& t) { mse_loss(t, x); }, first},
      {"mse_loss", [&](const Tensor& t) { mse_loss(x, t); }, second},
      {"cross_entropy", [&](const Tensor& t) { cross_entropy(t, index); }, first},
      {"cross_entropy", [&](const Tensor& t) { cross_entropy(x, t); }, second},
      {"nll_loss", [&](const Tensor& t) { nll_loss(t, index); }, first},
      {"cat",
       [&](const Tensor& t) {
         cat({x, t});
       },
       "tensor 1 is undefined"},
      {"stack",
       [&](const Tensor& t) {
         stack({t, x});
       },
       "tensor 0 is undefined"},
  };
  for (const Case& c : cases)
    EXPECT_TRUE(test::throws_saying<ValueError>([&] { c.call({}); }, std::string(c.name) + ": " + c.words)) << c.name;
}

TEST(Tensor, RefusesToAnswerForAnUndefinedOne) {
  const Case cases[] = {
      {"is_leaf", [](const Tensor& t) { t.is_leaf(); }},
      {"set_requires_grad", [](const Tensor& t) { Tensor(t).set_requires_grad(); }},
      {"grad", [](const Tensor& t) { t.grad(); }},
      {"set_grad", [](const Tensor& t) { Tensor(t).set_grad(ones({})); }},
      {"set_grad", [](const Tensor& t) { Tensor(t).set_grad({}); }},
      {"detach", [](const Tensor& t) { t.detach(); }},
      {"remove_hook", [](const Tensor& t) { t.remove_hook(0); }},
  };
  for (const Case& c : cases)
    EXPECT_TRUE(test::throws_saying<ValueError>([&] { c.call({}); }, "the tensor is undefined")) << c.name;
  EXPECT_FALSE(Tensor().requires_grad());
}

}  // namespace
}  // namespace bytetape
