#include "bytetape/core/cpu/gemm.h"

#include <Eigen/Core>
#include <algorithm>

namespace bytetape::cpu {
namespace {

using Eigen::ColMajor;
using Eigen::RowMajor;

// A packed block of a (rows x depth) and one of b (depth x cols) fit an L2 cache of 512 KiB (f32).
constexpr std::int64_t block_rows = 128, block_cols = 256, block_depth = 256;

/// Gives Eigen's product the memory for its packed blocks. Eigen's own classes would allocate it.
template <class T>
class Blocking final : public Eigen::internal::level3_blocking<T, T> {
 public:
  // Eigen computes the transposed product for a row-major result: its "lhs" is our b.
  Blocking(std::int64_t m, std::int64_t n, std::int64_t k, void* scratch) {
    this->m_mc = std::min(n, block_rows);
    this->m_nc = std::min(m, block_cols);
    this->m_kc = std::min(k, block_depth);
    this->m_blockA = static_cast<T*>(scratch);
    this->m_blockB = reinterpret_cast<T*>(static_cast<char*>(scratch) + bytes_a());
  }
  std::size_t bytes_a() const { return aligned_bytes(static_cast<std::size_t>(this->m_mc * this->m_kc) * sizeof(T)); }
  std::size_t bytes_b() const { return aligned_bytes(static_cast<std::size_t>(this->m_nc * this->m_kc) * sizeof(T)); }
};

template <class T, int OrderA, int OrderB>
void multiply(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& y, void* scratch) {
  Blocking<T> blocking(a.rows, b.cols, a.cols, scratch);
  Eigen::internal::general_matrix_matrix_product<std::int64_t, T, OrderA, false, T, OrderB, false, RowMajor, 1>::run(
      a.rows, b.cols, a.cols, a.data, OrderA == RowMajor ? a.row_step : a.col_step, b.data,
      OrderB == RowMajor ? b.row_step : b.col_step, y.data, 1, y.row_step, T{1}, blocking);
}

}  // namespace

template <class T>
std::size_t gemm_scratch(std::int64_t m, std::int64_t n, std::int64_t k) {
  const Blocking<T> blocking(m, n, k, nullptr);
  return blocking.bytes_a() + blocking.bytes_b();
}

template <class T>
void gemm(Matrix<const T> a, Matrix<const T> b, Matrix<T> y, void* scratch) {
  if (a.rows == 0 || a.cols == 0 || b.cols == 0) return;
  if (a.col_step == 1)
    (b.col_step == 1 ? multiply<T, RowMajor, RowMajor> : multiply<T, RowMajor, ColMajor>)(a, b, y, scratch);
  else
    (b.col_step == 1 ? multiply<T, ColMajor, RowMajor> : multiply<T, ColMajor, ColMajor>)(a, b, y, scratch);
}

template std::size_t gemm_scratch<float>(std::int64_t, std::int64_t, std::int64_t);
template std::size_t gemm_scratch<double>(std::int64_t, std::int64_t, std::int64_t);
template void gemm(Matrix<const float>, Matrix<const float>, Matrix<float>, void*);
template void gemm(Matrix<const double>, Matrix<const double>, Matrix<double>, void*);

}  // namespace bytetape::cpu
