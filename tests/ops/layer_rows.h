#pragma once
#include "bytetape/autograd/ops/loss.h"
#include "bytetape/core/kernels.h"
#include "tests/ops/op_list.h"

// Rows of the ops that are called in many ways.
namespace bytetape::test {

/// 2 channels a group come in, 3 go out, through kernels of k x k.
OpRow conv_row(const std::string& variant, const Conv2dParams& p, std::int64_t k = 3, bool has_bias = true);
OpRow pool_row(const std::string& variant, const Pool2dParams& p);
OpRow norm_row(const std::string& variant, bool training, const Cases& cases, std::vector<BadInput> bads);
OpRow loss_row(const std::string& variant, const CrossEntropyOptions& options);

}  // namespace bytetape::test
