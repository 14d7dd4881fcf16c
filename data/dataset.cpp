#include "bytetape/data/dataset.h"

#include <cstring>
#include <utility>

#include "bytetape/core/device/pinned.h"
#include "bytetape/core/memory/ledger/scope.h"

namespace bytetape::data {
namespace {

using memory::Op;
using memory::PhaseScope;
using CollateOp = Op<"collate">;

Shape with_batch(std::int64_t n, Shape shape) {
  shape.insert(0, n);
  return shape;
}

Shape example_shape(const Tensor& rows) {
  Shape shape = rows.shape();
  shape.erase(0);
  return shape;
}

std::int64_t row_numel(const Tensor& x) { return numel(example_shape(x)); }

void copy_rows(const Tensor& from, std::span<const std::int64_t> indices, Tensor& to) {
  const auto row = static_cast<std::size_t>(row_numel(from)) * size_of(from.dtype());
  if (row == 0) return;
  const ConstView rows = from.read();
  const auto* in = static_cast<const std::byte*>(rows.data());
  auto* out = static_cast<std::byte*>(to.write().data());
  for (std::int64_t i : indices) {
    std::memcpy(out, in + static_cast<std::size_t>(i) * row, row);
    out += row;
  }
}

void normalize_rows(const Tensor& from, const std::vector<float>& pixels, std::span<const std::int64_t> indices,
                    Tensor& to) {
  const std::int64_t row = row_numel(from);
  if (row == 0) return;
  const std::int64_t plane = row / static_cast<std::int64_t>(pixels.size() / 256);
  float* out = to.data<float>();
  for (std::int64_t i : indices) {
    const std::uint8_t* in = from.data<std::uint8_t>() + i * row;
    for (const float* value = pixels.data(); value != pixels.data() + pixels.size(); value += 256)
      for (std::int64_t k = 0; k < plane; ++k) *out++ = value[*in++];
  }
}

void check_rows(const std::string& what, const Tensor& x) {
  check<ValueError>(x.defined(), what, " is an undefined tensor");
  check(x.rank() > 0, what, " must have examples along its first dim, got ", describe(x));
  check<DeviceError>(x.device() == Device::cpu() || x.device().is_meta, what, " must be on cpu or a meta device, got ",
                     describe(x));
  check(x.is_contiguous(), what, " must be row-major, got ", describe(x), " with strides ", x.strides());
}

void check_holds_data(const Tensor& rows) {
  check<DeviceError>(!rows.device().is_meta, describe(rows), " holds no data");
}

/// Throws unless the batch has n examples of each field.
void check_more(const Batch& batch, const std::vector<Field>& fields, std::int64_t n) {
  check<ValueError>(batch.more.size() == fields.size(), "expected a batch with ", fields.size(),
                    " tensors beside x and y, got ", batch.more.size());
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const Field& field = fields[i];
    const auto& [name, rows] = batch.more[i];
    check<ValueError>(name == field.name, "expected '", field.name, "' in a batch, got '", name, "'");
    const Shape shape = with_batch(n, field.shape);
    check(rows.defined() && rows.shape() == shape, "expected a batch of ", n, " examples with '", name, "' ", shape,
          ", got ", describe(rows));
    check<DTypeError>(rows.dtype() == field.dtype, "expected a batch with '", name, "' ", field.dtype, ", got ",
                      describe(rows));
  }
}

}  // namespace

/// Returns a batch of uninitialised tensors from `make`, which is empty() or empty_pinned().
static Batch make_batch(const ExampleSpec& spec, std::int64_t n, Device device, decltype(empty)* make) {
  const CollateOp op;
  const PhaseScope phase(memory::Phase::data);
  check_names(spec.more);
  Batch b;
  b.x = make(with_batch(n, spec.x_shape), spec.x_dtype, device, memory::Role::input);
  b.y = make(with_batch(n, spec.y_shape), spec.y_dtype, device, memory::Role::input);
  for (const Field& field : spec.more)
    b.more.emplace_back(field.name, make(with_batch(n, field.shape), field.dtype, device, memory::Role::input));
  return b;
}
Batch Dataset::allocate(std::int64_t n, Device device) const { return make_batch(example(), n, device, empty); }
Batch Dataset::allocate_pinned(std::int64_t n, Device device) const {
  return make_batch(example(), n, device, empty_pinned);
}

void Dataset::load(std::span<const std::int64_t> indices, Batch& batch) const {
  const CollateOp op;
  const PhaseScope phase(memory::Phase::data);
  const std::int64_t n = size(), wanted = static_cast<std::int64_t>(indices.size());
  const ExampleSpec spec = example();
  check(batch.x.defined() && batch.y.defined() && batch.x.shape() == with_batch(wanted, spec.x_shape) &&
            batch.y.shape() == with_batch(wanted, spec.y_shape),
        "expected a batch of ", wanted, " examples with x ", with_batch(wanted, spec.x_shape), " and y ",
        with_batch(wanted, spec.y_shape), ", got x ", describe(batch.x), " and y ", describe(batch.y));
  check<DTypeError>(batch.x.dtype() == spec.x_dtype && batch.y.dtype() == spec.y_dtype, "expected a batch with x ",
                    spec.x_dtype, " and y ", spec.y_dtype, ", got x ", describe(batch.x), " and y ", describe(batch.y));
  check_more(batch, spec.more, wanted);
  for (std::int64_t i : indices) check(i >= 0 && i < n, "example ", i, " of a dataset of ", n);
  if (batch.x.device().is_meta) return;
  fill(indices, batch.x, batch.y);
  if (!spec.more.empty()) fill_more(indices, batch);
}

void Dataset::fill_more(std::span<const std::int64_t>, Batch& batch) const {
  fail<NotImplemented>("example() has the field '", batch.more.front().first,
                       "' beside x and y, so the dataset must override fill_more()");
}

Batch Dataset::get(std::span<const std::int64_t> indices) const {
  Batch b = allocate(static_cast<std::int64_t>(indices.size()), Device::cpu());
  load(indices, b);
  return b;
}

TensorDataset::TensorDataset(Tensor x, Tensor y, std::optional<Normalize> normalize, std::vector<TensorField> more)
    : x_(std::move(x)), y_(std::move(y)), more_(std::move(more)) {
  const Op<"TensorDataset"> op;
  check_rows("x", x_);
  check_rows("y", y_);
  check(x_.size(0) == y_.size(0), "expected x and y with the same number of examples, got ", describe(x_), " and ",
        describe(y_));
  for (const auto& [name, rows, moves] : more_) {
    check_rows("'" + name + "'", rows);
    check(rows.size(0) == x_.size(0), "expected x and '", name, "' with the same number of examples, got ",
          describe(x_), " and ", describe(rows));
  }
  check_names(fields());
  if (!normalize) return;
  const std::vector<double> pixels = normalized_pixels(x_, *normalize);
  pixels_.emplace(pixels.begin(), pixels.end());
}

std::vector<Field> TensorDataset::fields() const {
  std::vector<Field> fields;
  for (const auto& [name, rows, moves] : more_) fields.push_back({name, example_shape(rows), rows.dtype(), moves});
  return fields;
}

ExampleSpec TensorDataset::example() const {
  ExampleSpec spec{example_shape(x_), x_.dtype(), example_shape(y_), y_.dtype(), fields()};
  if (pixels_) {
    spec.x_dtype = DType::f32;
    if (spec.x_shape.size() == 2) spec.x_shape.insert(0, 1);
  }
  return spec;
}

void TensorDataset::fill(std::span<const std::int64_t> indices, Tensor& x, Tensor& y) const {
  for (const Tensor& rows : {x_, y_}) check_holds_data(rows);
  if (pixels_)
    normalize_rows(x_, *pixels_, indices, x);
  else
    copy_rows(x_, indices, x);
  copy_rows(y_, indices, y);
}

void TensorDataset::fill_more(std::span<const std::int64_t> indices, Batch& batch) const {
  for (std::size_t i = 0; i < more_.size(); ++i) {
    check_holds_data(more_[i].rows);
    copy_rows(more_[i].rows, indices, batch.more[i].second);
  }
}

}  // namespace bytetape::data
