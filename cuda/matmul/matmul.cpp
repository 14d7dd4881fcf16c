// Matrix products with cuBLASLt, except those of few rows (matvec.h). It is column-major, so y = a @ b is computed as
// y^T = b^T @ a^T.
#include "bytetape/cuda/matmul/matmul.h"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "bytetape/core/error.h"
#include "bytetape/core/kernels/copy.h"
#include "bytetape/cuda/alignment.h"
#include "bytetape/cuda/cuda.h"
#include "bytetape/cuda/matmul/fastest.h"
#include "bytetape/cuda/matmul/matmul_layout.h"
#include "bytetape/cuda/matmul/matvec.h"
#include "bytetape/cuda/matmul/ranks.h"
#include "bytetape/cuda/plans.h"
#include "bytetape/cuda/pointwise/activation.h"
#include "bytetape/cuda/runtime/launch.h"
#include "bytetape/cuda/runtime/lru.h"
#include "bytetape/cuda/runtime/per_device.h"
#include "bytetape/cuda/runtime/streams.h"

namespace bytetape::cuda {
namespace {

void check(cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS) [[unlikely]]
    fail<Error>("cuBLASLt: ", cublasLtGetStatusString(status));
}

cublasLtHandle_t handle_of(Device device) {
  return once_per_device(device.index, [] {
    const OutsideRecording outside;
    cublasLtHandle_t made = nullptr;
    check(cublasLtCreate(&made));
    return made;
  });
}

cudaDataType_t type_of(DType t) {
  switch (t) {
    case DType::f64:
      return CUDA_R_64F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f16:
      return CUDA_R_16F;
    default:
      return CUDA_R_32F;
  }
}

cublasComputeType_t compute_type_of(DType t) {
  if (t == DType::f64) return CUBLAS_COMPUTE_64F;
  return t == DType::f32 && allow_tf32() ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

/// All that the choice of an algorithm depends on. It has no padding, so that keys can be compared by bytes.
struct Key {
  std::int64_t m, n, k, batch, a_leading, b_leading, y_leading, a_step, b_step, y_step;
  std::int64_t workspace, usual_workspace;  // bytes that cuBLASLt may use, with and without a cap
  std::int32_t device, dtype, compute, epilogue, a_alignment, b_alignment, y_alignment, flags;
  bool keeps_input() const { return (epilogue & CUBLASLT_EPILOGUE_GELU_AUX) == CUBLASLT_EPILOGUE_GELU_AUX; }
  friend bool operator==(const Key& p, const Key& q) { return std::memcmp(&p, &q, sizeof p) == 0; }
};
static_assert(std::has_unique_object_representations_v<Key>);

struct HashKey {
  std::size_t operator()(const Key& k) const {
    return std::hash<std::string_view>()({reinterpret_cast<const char*>(&k), sizeof k});
  }
};

constexpr int most_proposals = 16;
constexpr std::uintptr_t input_alignment = 16;  // alignment in bytes of an activation's input that an epilogue stores
constexpr std::int64_t input_multiple = 8;      // its leading dimension and batch step must be multiples of it

RankKey rank_key(const Key& key) {
  return {static_cast<std::int64_t>(Proposer::cublaslt),
          capability(Device::cuda(key.device)),
          static_cast<std::int64_t>(cublasLtGetVersion()),
          key.dtype,
          key.compute == CUBLAS_COMPUTE_32F_FAST_TF32,
          key.epilogue,
          key.flags,
          key.m,
          key.n,
          key.k,
          key.batch};
}

struct MatrixOf {
  cublasLtMatrixLayout_t layout = nullptr;
  MatrixOf(DType t, std::int64_t rows, std::int64_t cols, std::int64_t leading, std::int64_t batch, std::int64_t step) {
    check(cublasLtMatrixLayoutCreate(&layout, type_of(t), static_cast<std::uint64_t>(rows),
                                     static_cast<std::uint64_t>(cols), leading));
    const auto count = static_cast<std::int32_t>(batch);
    set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, count);
    set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, step);
  }
  ~MatrixOf() { cublasLtMatrixLayoutDestroy(layout); }
  MatrixOf(const MatrixOf&) = delete;
  MatrixOf& operator=(const MatrixOf&) = delete;

 private:
  template <class T>
  void set(cublasLtMatrixLayoutAttribute_t what, const T& value) {
    check(cublasLtMatrixLayoutSetAttribute(layout, what, &value, sizeof value));
  }
};

/// The operations that cuBLASLt fuses into the product.
struct Epilogue {
  cublasLtEpilogue_t kind = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  double beta = 0;        // factor of y's old values
  void* input = nullptr;  // where to store the activation's input
};

/// A prepared product for one key.
class Product {
 public:
  explicit Product(const Key& key)
      : dtype_(static_cast<DType>(key.dtype)),
        left_(dtype_, key.flags & 2 ? key.k : key.n, key.flags & 2 ? key.n : key.k, key.b_leading, key.batch,
              key.b_step),
        right_(dtype_, key.flags & 1 ? key.m : key.k, key.flags & 1 ? key.k : key.m, key.a_leading, key.batch,
               key.a_step),
        result_dtype_(key.flags & 4 ? DType::f32 : dtype_),
        result_(result_dtype_, key.n, key.m, key.y_leading, key.batch, key.y_step) {
    check(cublasLtMatmulDescCreate(&operation_, static_cast<cublasComputeType_t>(key.compute),
                                   dtype_ == DType::f64 ? CUDA_R_64F : CUDA_R_32F));
    set(CUBLASLT_MATMUL_DESC_TRANSA, key.flags & 2 ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, key.flags & 1 ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<cublasLtEpilogue_t>(key.epilogue));
    if (key.epilogue != CUBLASLT_EPILOGUE_DEFAULT)
      set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<std::int32_t>(type_of(result_dtype_)));
    if (key.keeps_input()) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, key.y_leading);
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, key.y_step);
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, input_alignment);  // proposals depend on its alignment
    }
    is_possible_ = choose_algorithm(key);
  }
  ~Product() { cublasLtMatmulDescDestroy(operation_); }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  /// Whether cuBLASLt has an algorithm for the product.
  bool is_possible() const { return is_possible_; }

  /// Runs each proposal a few times, and selects the fastest. The product must not add to y.
  void tune(const Key& key, const View& y, const void* a, const void* b, const Epilogue& epilogue, Workspace ws) {
    is_tuned_ = true;
    const Proposal first = chosen_;
    const int rank = fastest(static_cast<int>(proposed_.size()), stream_of(y.device), [&](int i) {
      chosen_ = proposed_[static_cast<std::size_t>(i)];
      if (!fits(chosen_, key)) return false;
      try {
        run(y, a, b, epilogue, ws);
      } catch (const Error&) { return false; }  // proposed, but refused
      return true;
    });
    chosen_ = proposed_[static_cast<std::size_t>(rank)];
    if (!fits(chosen_, key)) chosen_ = first;  // no proposal can run
    if (key.workspace == key.usual_workspace) set_rank(rank_key(key), rank);
  }
  bool is_tuned() const { return is_tuned_; }

  void run(const View& y, const void* a, const void* b, const Epilogue& epilogue, Workspace ws) {
    if (epilogue.bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, epilogue.bias);
    if (epilogue.input) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, epilogue.input);
    const float one = 1, scale = static_cast<float>(epilogue.beta);
    const double wide_one = 1;
    const bool wide = dtype_ == DType::f64;
    check(cublasLtMatmul(handle_of(y.device), operation_, wide ? static_cast<const void*>(&wide_one) : &one, b,
                         left_.layout, a, right_.layout, wide ? static_cast<const void*>(&epilogue.beta) : &scale,
                         y.data(), result_.layout, y.data(), result_.layout, &chosen_.algorithm, ws.data, ws.bytes,
                         stream_of(y.device)));
  }

 private:
  struct Proposal {
    cublasLtMatmulAlgo_t algorithm{};
    std::size_t workspace = 0;
  };
  static bool fits(const Proposal& p, const Key& key) { return p.workspace <= static_cast<std::size_t>(key.workspace); }

  template <class T>
  void set(cublasLtMatmulDescAttributes_t what, const T& value) {
    check(cublasLtMatmulDescSetAttribute(operation_, what, &value, sizeof value));
  }

  // Selects a proposal by its rank (ranks.h). Ranks count the proposals without a cap. So a cap that the selected
  // proposal fits does not change the bits.
  bool choose_algorithm(const Key& key) {
    proposed_ = proposals(key, std::max(key.workspace, key.usual_workspace));
    const bool is_measured = key.workspace <= key.usual_workspace;
    const auto rank = static_cast<std::size_t>(is_measured ? rank_of(rank_key(key)) : 0);
    const auto can = [&](const Proposal& p) { return fits(p, key); };
    auto at = proposed_.begin() + static_cast<std::ptrdiff_t>(rank < proposed_.size() ? rank : 0);
    if (at == proposed_.end() || !can(*at)) at = std::find_if(proposed_.begin(), proposed_.end(), can);
    if (at == proposed_.end()) {
      proposed_ = proposals(key, key.workspace);
      at = proposed_.begin();
    }
    if (at == proposed_.end()) return false;
    chosen_ = *at;
    return true;
  }

  /// Returns proposals within a workspace that sum in a fixed order.
  std::vector<Proposal> proposals(const Key& key, std::int64_t workspace) const {
    cublasLtMatmulPreference_t preference = nullptr;
    check(cublasLtMatmulPreferenceCreate(&preference));
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t what, auto value) {
      check(cublasLtMatmulPreferenceSetAttribute(preference, what, &value, sizeof value));
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(workspace));
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<std::uint32_t>(key.b_alignment));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<std::uint32_t>(key.a_alignment));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<std::uint32_t>(key.y_alignment));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<std::uint32_t>(key.y_alignment));
    std::array<cublasLtMatmulHeuristicResult_t, most_proposals> found{};
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle_of(Device::cuda(key.device)), operation_, left_.layout, right_.layout, result_.layout, result_.layout,
        preference, most_proposals, found.data(), &count);
    cublasLtMatmulPreferenceDestroy(preference);
    std::vector<Proposal> all;
    // cuBLASLt returns either status for an epilogue that it lacks.
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return all;
    check(status);
    for (const auto& f : std::span(found).first(static_cast<std::size_t>(count)))
      if (f.state == CUBLAS_STATUS_SUCCESS) all.push_back({f.algo, f.workspaceSize});
    return all;
  }

  DType dtype_;
  MatrixOf left_, right_;
  DType result_dtype_;
  MatrixOf result_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  std::vector<Proposal> proposed_;
  Proposal chosen_;
  bool is_possible_ = false, is_tuned_ = false;
};

/// Returns the thread's product for a key. The reference is valid until the next call. The kernels belong to cuBLASLt.
Product& product_for(const Key& key) {
  constexpr std::size_t most = 4096;  // about 2 KiB each
  thread_local Lru<Key, std::unique_ptr<Product>, HashKey> known;
  if (const auto* found = known.find(key)) return **found;
  const OutsideRecording outside;
  auto product = std::make_unique<Product>(key);
  if (known.size() == most) known.drop_last();
  return *known.add(key, std::move(product));
}

std::int32_t alignment_of(const void* p) {
  return static_cast<std::int32_t>(
      std::min<std::uintptr_t>(256, reinterpret_cast<std::uintptr_t>(p) & -reinterpret_cast<std::uintptr_t>(p)));
}

/// Returns x, or its copy in `memory`, which is advanced.
ConstView with_unit_step(const ConstView& x, char*& memory) {
  if (layout_of(x).leading) return x;
  const View dense(memory, x.dtype, x.device, x.shape, contiguous_strides(x.shape));
  copy_kernels().copy(x, dense);
  memory += copy_bytes(x);
  return dense;
}

bool is_row(const ConstView& bias) { return bias.strides[0] == 0 && bias.strides[1] == 0 && bias.strides[2] == 1; }

/// Returns `count` matrices of a batch from number `first` on.
template <class V>
V part_of(const V& x, std::int64_t first, std::int64_t count) {
  const std::int64_t bytes = first * x.strides[0] * static_cast<std::int64_t>(size_of(x.dtype));
  Shape shape = x.shape;
  shape[0] = count;
  return V(static_cast<char*>(const_cast<void*>(static_cast<const void*>(x.data()))) + bytes, x.dtype, x.device, shape,
           x.strides);
}

/// Computes y with one cuBLASLt call. Returns false if cuBLASLt cannot.
bool multiply(const ConstView& a, const ConstView& b, const View& y, const Epilogue& epilogue, std::size_t library,
              std::size_t usual_library, Workspace ws) {
  const MatrixLayout a_layout = layout_of(a), b_layout = layout_of(b);
  const Key key{y.shape[1],
                y.shape[2],
                a.shape[2],
                y.shape[0],
                a_layout.leading,
                b_layout.leading,
                layout_of(y).leading,
                a.strides[0],
                b.strides[0],
                y.strides[0],
                static_cast<std::int64_t>(library),
                static_cast<std::int64_t>(usual_library),
                y.device.index,
                static_cast<std::int32_t>(a.dtype),
                compute_type_of(a.dtype),
                epilogue.kind,
                alignment_of(a.data()),
                alignment_of(b.data()),
                alignment_of(y.data()),
                (a_layout.transposed ? 1 : 0) | (b_layout.transposed ? 2 : 0) | (y.dtype == a.dtype ? 0 : 4)};
  stream_of(y.device);  // makes the device current, for which the handle is created
  Product& product = product_for(key);
  if (!product.is_possible()) return false;
  if (is_tuning() && !product.is_tuned() && epilogue.beta == 0)
    product.tune(key, y, a.data(), b.data(), epilogue, {ws.data, library});
  product.run(y, a.data(), b.data(), epilogue, {ws.data, library});
  return true;
}

/// Computes y with cuBLASLt. Returns false if cuBLASLt cannot. The workspace begins with `library_bytes` for cuBLASLt,
/// and copies of operands follow.
bool multiply(const MatmulArgs& args, const View& y, const Epilogue& epilogue, std::int64_t library_bytes,
              Workspace ws) {
  const auto library = static_cast<std::size_t>(library_bytes);
  char* copies = static_cast<char*>(ws.data) + library;
  const ConstView a = with_unit_step(args.a, copies), b = with_unit_step(args.b, copies);
  const std::size_t usual = library_workspace(args, std::nullopt);
  bool can = true;
  for_calls(y.shape[0], [&](std::int64_t first, std::int64_t count) {
    if (!can) return;
    Epilogue e = epilogue;
    if (e.input) e.input = part_of(args.z, first, count).data();
    can = multiply(part_of(a, first, count), part_of(b, first, count), part_of(y, first, count), e, library, usual, ws);
  });
  return can;
}

/// Whether cuBLASLt may have an epilogue for the activation.
bool may_activate(const MatmulArgs& args) {
  const View& z = args.z;
  switch (args.activation) {
    case Activation::relu:
      return !z.defined();
    case Activation::gelu_tanh:
      return approximates(args) &&
             (!z.defined() || (layout_of(z).leading % input_multiple == 0 && z.strides[0] % input_multiple == 0 &&
                               is_aligned(z, input_alignment)));
    default:
      return false;
  }
}

/// Returns the epilogue with the activation of args after it.
Epilogue activated(Epilogue e, const MatmulArgs& args) {
  const int bias = e.kind & CUBLASLT_EPILOGUE_BIAS;
  const int activation = args.activation == Activation::relu ? CUBLASLT_EPILOGUE_RELU
                         : args.z.defined()                  ? CUBLASLT_EPILOGUE_GELU_AUX
                                                             : CUBLASLT_EPILOGUE_GELU;
  e.kind = static_cast<cublasLtEpilogue_t>(activation | bias);
  e.input = args.z.data();
  return e;
}

void matmul(const MatmulArgs& args, const Plan& plan, Workspace ws) {
  const View &y = args.y, &z = args.before_activation();
  if (y.numel() == 0 || matvec(args)) return;
  const bool is_product = args.a.shape[2] > 0, has_epilogues = is_product && y.dtype != DType::f64;
  Epilogue epilogue;
  // Proposals assume an aligned bias, and cuBLASLt has no way to tell them otherwise.
  const bool has_bias_epilogue =
      has_epilogues && args.bias.defined() && is_row(args.bias) && alignment_of(args.bias.data()) >= 16;
  if (has_bias_epilogue) {
    epilogue = {CUBLASLT_EPILOGUE_BIAS, args.bias.data()};
  } else if (args.accumulates || args.bias.defined()) {
    if (!args.accumulates) copy_kernels().copy(args.bias, z);
    epilogue.beta = 1;
  } else if (!is_product) {
    copy_kernels().fill(0, z);
  }
  const bool activates = has_epilogues && may_activate(args) && (epilogue.beta == 0 || !args.z.defined());
  if (activates && multiply(args, y, activated(epilogue, args), plan.algorithm, ws)) return;
  if (is_product && !multiply(args, z, epilogue, plan.algorithm, ws))
    fail<Error>("cuBLASLt has no algorithm for ", y.dtype, args.a.shape, " @ ", args.b.shape);
  activate(args.activation, z, y);
}

}  // namespace

void multiply(const MatmulArgs& args, Workspace ws) { matmul(args, matmul_plans().matmul.plan(args), ws); }

const MatmulKernels& matmul_kernels() {
  static const MatmulKernels all{
      .matmul = {matmul_plans().matmul.plan, matmul}, .approximates = approximates, .multiple = dim_multiple};
  return all;
}

}  // namespace bytetape::cuda
