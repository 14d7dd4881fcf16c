// The list of ops: adding one takes one row, in the table of its family.
#include "tests/ops/op_list.h"

namespace bytetape::test {

// Families that no op has by itself: their tests are those of layers, optimizers and factories.
std::vector<OpRow> activation_rows() { return {}; }
std::vector<OpRow> grad_scale_rows() { return {}; }
std::vector<OpRow> optimizer_rows() { return {}; }

const std::vector<OpRow>& op_list() {
  static const std::vector<OpRow> list = [] {
    std::vector<OpRow> all;
    const auto add = [&](std::vector<OpRow> rows, std::optional<Family> family = {}) {
      for (OpRow& row : rows) all.emplace_back(std::move(row)).family = family;
    };
#define BYTETAPE_FAMILY(Name, name, kind) add(name##_rows(), Family::name);
    BYTETAPE_KERNEL_FAMILIES(BYTETAPE_FAMILY)
#undef BYTETAPE_FAMILY
    add(concat_rows());
    add(conv_transpose_rows());
    add(einsum_rows());
    add(index_rows());
    add(rearrange_rows());
    add(view_rows());
    return all;
  }();
  return list;
}

}  // namespace bytetape::test
