#include "bytetape/core/kernels/matmul.h"

#include <algorithm>

#include "bytetape/core/cpu/activation.h"
#include "bytetape/core/cpu/copy.h"
#include "bytetape/core/cpu/onednn/program.h"
#include "bytetape/core/cpu/table.h"
#include "bytetape/core/integers.h"

namespace bytetape::cpu::onednn {
namespace {

using dnnl::memory;

/// A matrix or batch in a layout that oneDNN's brgemm takes: dense rows or, without a batch, dense columns. Inputs in
/// other layouts are copied to the workspace. oneDNN's other kernels divide sums among threads. The result may have
/// gaps between its rows. A matrix that is repeated has a batch of 1.
struct Operand {
  Dims shape, strides;
  bool copied = false;

  explicit Operand(const ConstView& x, bool is_input = true) : shape(x.shape) {
    const std::int64_t rows = shape[1], cols = shape[2];
    if (x.strides[0] == 0) shape[0] = 1;
    const std::int64_t batch_step = shape[0] == 1 ? rows * cols : x.strides[0];
    const bool by_columns = is_input && rows > 1 && cols > 1 && x.strides[1] == 1 && x.strides[2] >= rows;
    const std::int64_t row_step = rows == 1 ? cols : x.strides[1];
    if (by_columns) {
      strides = {batch_step, 1, x.strides[2]};
      copied = shape[0] > 1 || strides[2] != rows;
    } else {
      strides = {batch_step, row_step, 1};
      copied = (cols > 1 && x.strides[2] != 1) || (is_input ? row_step != cols : row_step < cols);
    }
    if (!copied && shape[0] > 1) copied = batch_step < (rows - 1) * strides[1] + (cols - 1) * strides[2] + 1;
    if (!copied) return;
    if (by_columns && shape[0] == 1)
      strides = {rows * cols, 1, rows};
    else
      strides = {rows * cols, cols, 1};
  }

  /// Whether oneDNN may take the matrix for a transposed one. A single row is both.
  bool may_count_as_transposed() const { return strides[1] == 1 || shape[1] == 1; }
  std::size_t bytes() const { return static_cast<std::size_t>(numel(shape)) * sizeof(float); }
  std::size_t copy_bytes() const { return copied ? (bytes() + 63) / 64 * 64 : 0; }
  View at(void* data) const { return View(data, DType::f32, {}, shape, strides); }
  memory::desc desc(bool batched) const {
    const int skip = batched ? 0 : 1;
    return {memory::dims(shape.begin() + skip, shape.end()), memory::data_type::f32,
            memory::dims(strides.begin() + skip, strides.end())};
  }
};

ConstView first_of_batch(ConstView x) {
  if (x.strides[0] == 0) x.shape[0] = 1;
  return x;
}

bool folds(const ConstView& x) { return x.strides[0] == x.shape[1] * x.strides[1]; }
void fold(ConstView& x) {
  x.shape[1] *= x.shape[0];
  x.shape[0] = 1;
}

/// If b is the same for the whole batch, all rows of the batch form one matrix.
MatmulArgs folded(MatmulArgs v) {
  const bool has_bias = v.bias.defined();
  if (v.b.strides[0] != 0 || v.y.shape[0] == 1 || !folds(v.a) || !folds(v.y) || (has_bias && !folds(v.bias))) return v;
  fold(v.a);
  fold(v.y);
  if (has_bias) fold(v.bias);
  v.b.shape[0] = 1;
  return v;
}

/// A matrix product as a oneDNN primitive.
class Product {
 public:
  explicit Product(const MatmulArgs& args)
      : v_(folded(args)),
        a_as_(v_.a),
        b_as_(v_.b),
        y_as_(v_.y, false),
        add_(v_.accumulates ? Add::matrix : how_to_add(v_.bias, v_.y)) {}

  Plan plan() const {
    Key key(Key::Kind::matmul);
    key.add(static_cast<std::int64_t>(add_));
    for (const Operand* x : {&a_as_, &b_as_, &y_as_}) {
      key.add(x->shape);
      key.add(x->strides);
    }
    const std::size_t copies = a_as_.copy_bytes() + b_as_.copy_bytes() + y_as_.copy_bytes();
    return plan_program(
        key, [this] { return compile(); }, copies);
  }

  void run(Program& program, void* workspace) const {
    char* free = static_cast<char*>(workspace);
    const auto input = [&](const ConstView& x, const Operand& as) -> const void* {
      if (!as.copied) return x.data();
      const View to = as.at(free);
      free += as.copy_bytes();
      copy(first_of_batch(x), to);
      return to.data();
    };
    const void* a = input(v_.a, a_as_);
    const void* b = input(v_.b, b_as_);
    const View y = y_as_.copied ? y_as_.at(free) : v_.y;
    free += y_as_.copy_bytes();
    if (add_ == Add::matrix && (y_as_.copied || !v_.accumulates)) copy(v_.accumulates ? v_.y : v_.bias, y);
    program.run({a, b, y.data(), v_.bias.data()}, free);
    if (y_as_.copied) copy(y, v_.y);
  }

 private:
  /// The way the bias is added: oneDNN adds one row. A bias of any other shape, or the old y, is the initial value of
  /// y.
  enum class Add : std::int64_t { nothing, row, matrix };
  static Add how_to_add(const ConstView& bias, const View& y) {
    if (!bias.defined()) return Add::nothing;
    const auto repeats = [&](int dim) { return y.shape[dim] == 1 || bias.strides[dim] == 0; };
    return repeats(0) && repeats(1) && (y.shape[2] == 1 || bias.strides[2] == 1) ? Add::row : Add::matrix;
  }

  Program compile() const {
    const bool batched = y_as_.shape[0] > 1;
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (add_ == Add::matrix) {
      dnnl::post_ops sum;
      sum.append_sum();
      attr.set_post_ops(sum);
    }
    Program program;
    const auto a = program.argument(a_as_.desc(batched)), b = program.argument(b_as_.desc(batched)),
               y = program.argument(y_as_.desc(batched));
    Program::Arguments args{{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, y}};
    const auto step = [&](const dnnl::matmul::primitive_desc& d) { program.step(d, dnnl::matmul(d), args); };
    if (add_ == Add::row) {
      const std::int64_t n = y_as_.shape[2];
      const memory::desc bias(batched ? memory::dims{1, 1, n} : memory::dims{1, n}, memory::data_type::f32,
                              batched ? memory::format_tag::abc : memory::format_tag::ab);
      args.emplace_back(DNNL_ARG_BIAS, program.argument(bias));
      step(describe_with<dnnl::matmul>(attr, program.desc(a), program.desc(b), bias, program.desc(y)));
    } else {
      step(describe_with<dnnl::matmul>(attr, program.desc(a), program.desc(b), program.desc(y)));
    }
    return program;
  }

  MatmulArgs v_;
  Operand a_as_, b_as_, y_as_;
  Add add_;
};

bool is_fast(const ConstView& a, const View& y) {
  return a.dtype == DType::f32 && y.dtype == DType::f32 && y.numel() > 0 && a.shape[2] > 0;
}

/// Products of `size` columns of a with as many rows of b, which are added up in order. oneDNN divides long sums among
/// threads, so that the bits would depend on their number: sums of 2,048 if a is transposed, of 20,000 for any a.
class Parts {
 public:
  explicit Parts(const MatmulArgs& args) : args_(folded(args)), k_(args_.a.shape[2]) {
    const std::int64_t step = 16, most = Operand(args_.a).may_count_as_transposed() ? 2048 - step : 16384;
    const std::int64_t parts = (k_ + most - 1) / most;
    size_ = parts == 1 ? k_ : round_up((k_ + parts - 1) / parts, step);
  }
  std::int64_t count() const { return (k_ + size_ - 1) / size_; }
  /// The product of part i. All but the first add to y.
  MatmulArgs operator[](std::int64_t i) const {
    const std::int64_t first = i * size_, columns = std::min(size_, k_ - first);
    MatmulArgs part = args_;
    part.a = slice(args_.a, 2, first, columns);
    part.b = slice(args_.b, 1, first, columns);
    if (i == 0) return part;
    part.bias = {};
    part.accumulates = true;
    return part;
  }

 private:
  static ConstView slice(const ConstView& x, int dim, std::int64_t first, std::int64_t size) {
    Shape shape = x.shape;
    shape[dim] = size;
    return {x.as<float>() + first * x.strides[dim], x.dtype, x.device, shape, x.strides};
  }

  MatmulArgs args_;
  std::int64_t k_, size_;
};

Plan plan(const MatmulArgs& args) {
  const auto portable = [&] { return portable::matmul_kernels().matmul.plan(args); };
  if (!is_fast(args.a, args.y)) return portable();
  const Parts parts(args);
  Plan first = Product(parts[0]).plan();
  if (!program_of(first).is_repeatable()) return portable();
  for (const std::int64_t i : {std::int64_t{1}, parts.count() - 1}) {  // those between are like part 1
    if (i < 1 || i >= parts.count()) continue;
    const Plan part = Product(parts[i]).plan();
    if (!program_of(part).is_repeatable()) return portable();
    first.workspace = std::max(first.workspace, part.workspace);
  }
  return first;
}

void matmul(const MatmulArgs& args, const Plan& plan, Workspace ws) {
  if (!plan.program) return portable::matmul_kernels().matmul.launch(args, plan, ws);
  MatmulArgs product = args;
  product.y = args.before_activation();
  const Parts parts(product);
  Product(parts[0]).run(program_of(plan), ws.data);
  for (std::int64_t i = 1; i < parts.count(); ++i) {
    const Product part(parts[i]);
    part.run(program_of(part.plan()), ws.data);
  }
  activate(args.activation, product.y, args.y);
}

}  // namespace

const MatmulKernels& matmul_kernels() {
  static const MatmulKernels all{
      .matmul = {plan, matmul},
  };
  return all;
}

}  // namespace bytetape::cpu::onednn
