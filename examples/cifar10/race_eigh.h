#pragma once
#include <cstddef>
#include <vector>

namespace bytetape::examples {

/// The eigenvalues of a symmetric matrix, ascending, and eigenvectors of unit length: vectors[i] belongs to values[i].
struct Eigh {
  std::vector<double> values;
  std::vector<std::vector<double>> vectors;
};

/// Computes the eigenvalues and eigenvectors of a symmetric matrix (n, n), row-major, on the host (compare
/// torch.linalg.eigh). Of each pair of elements, it reads the one above the diagonal. By Jacobi's cyclic method (Golub
/// and Van Loan, "Matrix computations", section 8.5), for small matrices: its time grows with n^3. Throws ShapeError if
/// `matrix` does not have n * n elements.
Eigh eigh(std::vector<double> matrix, std::size_t n);

}  // namespace bytetape::examples
