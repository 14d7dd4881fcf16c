#include "bytetape/core/device/overlap.h"

#include <algorithm>
#include <vector>

namespace bytetape {
namespace {

/// stride * k for any k from low to high.
struct Term {
  std::int64_t stride, low, high;
};
using Terms = std::vector<Term>;

void add_terms(Terms& terms, const Tensor& x, int sign) {
  for (int d = 0; d < x.rank(); ++d) {
    const std::int64_t stride = x.strides()[d], reach = x.shape()[d] - 1;
    if (stride == 0 || reach == 0) continue;
    auto term = std::find_if(terms.begin(), terms.end(), [&](const Term& t) { return t.stride == stride; });
    if (term == terms.end()) {
      terms.push_back({stride, 0, 0});
      term = terms.end() - 1;
    }
    (sign > 0 ? term->high : term->low) += sign * reach;
  }
}

std::int64_t divide_down(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

/// Do terms[i], terms[i + 1] ... add up to `sum` for some choice of the k? Large strides first, which leaves a term few
/// choices: the smaller ones must reach what it leaves.
bool add_up_to(std::int64_t sum, const Terms& terms, std::size_t i, int& patience) {
  if (i == terms.size()) return sum == 0;
  if (--patience < 0) return true;
  std::int64_t low = 0, high = 0;
  for (std::size_t j = i + 1; j < terms.size(); ++j) {
    low += terms[j].stride * terms[j].low;
    high += terms[j].stride * terms[j].high;
  }
  const Term& t = terms[i];
  const std::int64_t first = std::max(t.low, -divide_down(high - sum, t.stride));
  const std::int64_t last = std::min(t.high, divide_down(sum - low, t.stride));
  for (std::int64_t k = first; k <= last; ++k)
    if (add_up_to(sum - k * t.stride, terms, i + 1, patience)) return true;
  return false;
}

bool is_same_view(const Tensor& x, const Tensor& y) {
  if (x.storage_offset() != y.storage_offset() || x.shape() != y.shape()) return false;
  for (int d = 0; d < x.rank(); ++d)
    if (x.shape()[d] > 1 && x.strides()[d] != y.strides()[d]) return false;
  return true;
}

}  // namespace

bool overlaps_itself(const Tensor& x) {
  if (x.numel() == 0) return false;
  for (int d = 0; d < x.rank(); ++d)
    if (x.shape()[d] > 1 && x.strides()[d] == 0) return true;
  return false;
}

bool overlaps(const Tensor& x, const Tensor& y) {
  if (&x.storage() != &y.storage() || x.numel() == 0 || y.numel() == 0 || is_same_view(x, y)) return false;
  Terms terms;
  add_terms(terms, x, 1);
  add_terms(terms, y, -1);
  std::sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) { return a.stride > b.stride; });
  int patience = 10000;
  return add_up_to(y.storage_offset() - x.storage_offset(), terms, 0, patience);
}

}  // namespace bytetape
