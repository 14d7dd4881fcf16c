// The list of ops: adding one takes one row, in the table of its family.
#include "tests/ops/op_list.h"

namespace bytetape::test {

const std::vector<OpRow>& op_list() {
  static const std::vector<OpRow> list = [] {
    std::vector<OpRow> all;
    for (const auto& family : {arithmetic_rows, pointwise_rows,   compare_rows,
                               reduce_rows,     softmax_rows,     view_rows,
                               copy_rows,       concat_rows,      dropout_rows,
                               matmul_rows,     conv_rows,        conv_transpose_rows,
                               pool_rows,       interpolate_rows, norm_rows,
                               layer_norm_rows, group_norm_rows,  indexing_rows,
                               pad_rows,        loss_rows,        elementwise_loss_rows,
                               images_rows})
      for (OpRow& row : family()) all.push_back(std::move(row));
    return all;
  }();
  return list;
}

}  // namespace bytetape::test
