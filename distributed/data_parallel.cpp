// Each parameter has a place in a bucket. A hook moves its gradient there as soon as backward has completed it. Once
// all places of a bucket are filled, and all buckets before it are exchanged, the bucket is exchanged. So all ranks
// exchange the buckets in the same order.
#include "bytetape/distributed/data_parallel.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "bytetape/autograd/engine.h"
#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/node.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/distributed/collectives.h"
#include "bytetape/distributed/hash.h"

namespace bytetape::dist {
namespace {

constexpr std::int64_t alignment = 128;  // bytes of the gradients within a bucket, for kernels that load vectors

/// Returns a hash of the tensors' names, dtypes, shapes and strides, and of which require grad.
std::uint64_t layout_of(const NamedTensors& tensors) {
  Hash hash;
  for (const auto& [name, x] : tensors) {
    hash.add(name).add(static_cast<std::uint64_t>(x.dtype())).add(x.requires_grad());
    for (int dim = 0; dim < x.rank(); ++dim)
      hash.add(static_cast<std::uint64_t>(x.shape()[dim])).add(static_cast<std::uint64_t>(x.strides()[dim]));
  }
  return hash.get();
}

/// The order in which backward completes the leaf's gradient: leaves of lower numbers come later. 0 if no graph uses
/// it.
std::uint64_t order_in_backward(const Tensor& leaf) {
  const AutogradMeta& meta = autograd_meta(leaf);
  return meta.accumulate ? meta.accumulate->sequence : 0;
}

}  // namespace

class DataParallel::Reducer {
 public:
  Reducer(nn::Module& module, const Group& group, const DataParallelOptions& options);
  ~Reducer();
  bool is_off = false;  // within NoSync
  std::vector<std::string> unused;
  std::size_t bucket_count() const { return buckets_.size(); }

 private:
  /// A parameter, and the part of a bucket for its gradient.
  struct Place {
    std::string name;
    Tensor parameter;
    std::optional<int> hook = {};
    std::size_t bucket = 0;
    Tensor gradient;  // a view of the bucket; undefined before the first backward
    bool is_filled = false;
  };
  struct Bucket {
    Tensor data;
    std::size_t places = 0, filled = 0;
  };

  void start_equal(nn::Module& module) const;
  std::vector<Place*> in_order();
  std::uint64_t tag(std::size_t bucket) const;
  void check_gradients() const;
  void make_buckets();
  void close(const std::vector<Place*>& places);
  void begin();
  void fill(Place& place);
  void move_in(Place& place);
  void exchange_filled();
  void end(bool has_succeeded);
  void fill_unused();

  static std::uint64_t next_number(const nn::Module& module, const Group& group);

  const std::uint64_t number_;
  const Group group_;
  const DataParallelOptions options_;
  std::vector<Place> places_;
  std::vector<Bucket> buckets_;
  std::uint64_t backwards_ = 0;
  std::size_t exchanged_ = 0;  // buckets, in this backward
  bool is_running_ = false;
};

DataParallel::Reducer::Reducer(nn::Module& module, const Group& group, const DataParallelOptions& options)
    : number_(next_number(module, group)), group_(group), options_(options) {
  const memory::Op<"DataParallel"> op;
  check<ValueError>(options.bucket_bytes > 0, "expected bucket_bytes above 0");
  for (const auto& [name, x] : module.named_parameters())
    if (x.requires_grad()) places_.push_back({.name = name, .parameter = x});
  check<ValueError>(!places_.empty(), "the module has no parameter that requires grad");
  if (group.size() == 1) return;
  start_equal(module);
  for (Place& place : places_)
    place.hook = place.parameter.register_post_accumulate_grad_hook([this, &place](const Tensor&) { fill(place); });
}

DataParallel::Reducer::~Reducer() {
  for (const Place& place : places_)
    if (place.hook) place.parameter.remove_hook(*place.hook);
}

/// Counts the objects of this process, which all ranks make in the same order. A rank may predict others alone.
std::uint64_t DataParallel::Reducer::next_number(const nn::Module& module, const Group& group) {
  static std::atomic<std::uint64_t> count = 0;
  const std::vector<Tensor> parameters = module.parameters();
  const bool is_predicted = parameters.empty() || parameters.front().device().is_meta;
  return group.size() == 1 || is_predicted ? 0 : ++count;
}

/// Says which exchange this is, so that no bucket is added to another one.
std::uint64_t DataParallel::Reducer::tag(std::size_t bucket) const {
  return Hash().add(number_).add(backwards_).add(bucket).get();
}

void DataParallel::Reducer::start_equal(nn::Module& module) const {
  const NoGrad no_grad;
  try {
    barrier(group_, Hash().add(layout_of(module.named_parameters())).add(layout_of(module.named_buffers())).get());
  } catch (const DistributedError& e) {
    fail<DistributedError>(
        "the module may have other parameters or buffers on another rank (name, shape, strides, dtype ",
        "or requires_grad): ", e.what());
  }
  for (const auto& [name, x] : module.named_parameters()) broadcast_(x.detach(), group_);
  for (const auto& [name, x] : module.named_buffers()) broadcast_(x.detach(), group_);
}

/// Returns the parameters in the order in which rank 0's backward completes them, which the graph knows. Other ranks
/// may leave parameters out, or use them in another order.
std::vector<DataParallel::Reducer::Place*> DataParallel::Reducer::in_order() {
  std::vector<std::int64_t> order(places_.size());
  std::iota(order.begin(), order.end(), 0);
  const auto place = [&](std::int64_t i) { return &places_[static_cast<std::size_t>(i)]; };
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](std::int64_t i) { return order_in_backward(place(i)->parameter); });
  const bool is_meta = places_.front().parameter.device().is_meta;
  const Tensor of_rank_0 = empty({static_cast<std::int64_t>(order.size())}, DType::i64,
                                 is_meta ? places_.front().parameter.device() : Device());
  if (!is_meta) std::ranges::copy(order, Tensor(of_rank_0).data<std::int64_t>());
  broadcast_(of_rank_0, group_, 0, tag(0));
  if (!is_meta) std::copy_n(of_rank_0.data<std::int64_t>(), order.size(), order.begin());
  std::vector<Place*> sorted;
  for (const std::int64_t i : order) sorted.push_back(place(i));
  return sorted;
}

void DataParallel::Reducer::make_buckets() {
  const NoGrad no_grad;
  const std::vector<Place*> sorted = in_order();
  std::map<std::pair<DType, std::string>, std::vector<Place*>> open;  // by dtype and device
  std::map<std::pair<DType, std::string>, std::size_t> bytes;
  for (Place* place : sorted) {
    const Tensor& x = place->parameter;
    const std::pair kind(x.dtype(), to_string(x.device()));
    open[kind].push_back(place);
    if ((bytes[kind] += x.nbytes()) < options_.bucket_bytes) continue;
    close(std::exchange(open[kind], {}));
    bytes[kind] = 0;
  }
  for (const auto& [kind, places] : open)
    if (!places.empty()) close(places);
}

void DataParallel::Reducer::close(const std::vector<Place*>& places) {
  const Tensor& first = places.front()->parameter;
  const std::int64_t element = static_cast<std::int64_t>(size_of(first.dtype()));
  std::vector<std::int64_t> offsets;
  std::int64_t size = 0;
  for (const Place* place : places) {
    offsets.push_back(size);
    const std::int64_t bytes = place->parameter.numel() * element;
    size += (bytes + alignment - 1) / alignment * alignment / element;
  }
  // Attributed to no module, although the first gradient's is in scope.
  const memory::ScopeGuard outside(
      memory::ambient.scope.with(0, memory::ambient.scope.op, memory::ambient.scope.phase));
  const memory::Op<"DataParallel"> op;
  Bucket bucket{.data = empty({size}, first.dtype(), first.device(), memory::Role::communication)};
  bucket.places = places.size();
  zero_(bucket.data);  // also the gaps
  for (std::size_t i = 0; i < places.size(); ++i) {
    Place& place = *places[i];
    const Tensor& x = place.parameter;
    const bool is_dense = bytetape::is_dense(x.shape(), x.strides());
    place.bucket = buckets_.size();
    place.gradient = bucket.data.alias(x.shape(), is_dense ? x.strides() : contiguous_strides(x.shape()), offsets[i]);
  }
  buckets_.push_back(std::move(bucket));
}

/// Called for the first gradient of a backward.
void DataParallel::Reducer::begin() {
  at_end_of_backward([this](bool has_succeeded) { end(has_succeeded); });
  is_running_ = true;
  ++backwards_;
  exchanged_ = 0;
  for (Place& place : places_) place.is_filled = false;
  for (Bucket& bucket : buckets_) bucket.filled = 0;
}

void DataParallel::Reducer::fill(Place& place) {
  check<NotImplemented>(!grad_enabled(), "DataParallel: backward() with create_graph is not supported");
  if (!is_running_) begin();
  if (buckets_.empty()) make_buckets();
  const Tensor& x = place.parameter;
  const Tensor g = x.grad();
  check<AutogradError>(g.defined(), "DataParallel: another hook has cleared the gradient of '", place.name, "'");
  check<AutogradError>(g.dtype() == place.gradient.dtype() && g.device() == place.gradient.device(),
                       "DataParallel: the parameter '", place.name, "' was moved or converted to ", describe(x),
                       " after the first backward()");
  move_in(place);
  if (place.is_filled) return;
  place.is_filled = true;
  ++buckets_[place.bucket].filled;
  if (!is_off) exchange_filled();
}

/// Moves the parameter's gradient into the bucket, if it is not there.
void DataParallel::Reducer::move_in(Place& place) {
  const Tensor g = place.parameter.grad();
  if (g.is_same(place.gradient)) return;
  copy_(place.gradient, g);
  place.parameter.set_grad(place.gradient);
}

void DataParallel::Reducer::exchange_filled() {
  for (; exchanged_ < buckets_.size() && buckets_[exchanged_].filled == buckets_[exchanged_].places; ++exchanged_)
    all_reduce_(buckets_[exchanged_].data, group_, ReduceOp::average, tag(exchanged_));
}

void DataParallel::Reducer::end(bool has_succeeded) {
  is_running_ = false;
  if (!has_succeeded) return;
  check_gradients();
  unused.clear();
  for (const Place& place : places_)
    if (!place.is_filled) unused.push_back(place.name);
  if (is_off) return;
  if (options_.allow_unused) return fill_unused();
  std::string names;
  for (const std::string& name : unused) names += (names.empty() ? "'" : ", '") + name + "'";
  check<AutogradError>(unused.empty(), "DataParallel: backward() computed no gradient of ", names,
                       "; if that is intended, set allow_unused");
}

/// Throws if a gradient that was moved to a bucket has been replaced, so that the average would not be used.
void DataParallel::Reducer::check_gradients() const {
  for (const Place& place : places_)
    check<AutogradError>(!place.is_filled || place.parameter.grad().is_same(place.gradient),
                         "DataParallel: another hook has replaced the gradient of '", place.name,
                         "', as StepInBackward does");
}

/// Exchanges the buckets that wait for parameters without a gradient, and which parameters those are.
void DataParallel::Reducer::fill_unused() {
  const NoGrad no_grad;
  const Device device = buckets_.front().data.device();
  Tensor used = empty({static_cast<std::int64_t>(places_.size())}, DType::u8, device.is_meta ? device : Device());
  std::vector<std::uint8_t> is_used(places_.size());
  for (std::size_t i = 0; i < places_.size(); ++i) {
    Place& place = places_[i];
    const bool has_gradient = place.parameter.grad().defined();  // of this backward, or of one within NoSync
    is_used[i] = has_gradient;
    if (place.is_filled) continue;
    if (!has_gradient)
      zero_(place.gradient);
    else
      move_in(place);
    ++buckets_[place.bucket].filled;
  }
  exchange_filled();
  if (!device.is_meta) std::ranges::copy(is_used, used.data<std::uint8_t>());
  const Tensor by_any = all_reduce_(to(used, device), group_, ReduceOp::max, tag(buckets_.size()));
  if (device.is_meta) return;
  const Tensor by_any_here = to(by_any, Device());
  const auto* const by_any_rank = by_any_here.data<std::uint8_t>();
  for (std::size_t i = 0; i < places_.size(); ++i)
    if (by_any_rank[i] && !is_used[i]) places_[i].parameter.set_grad(places_[i].gradient);
}

DataParallel::DataParallel(nn::Module& module, const Group& group, const DataParallelOptions& options)
    : reducer_(std::make_unique<Reducer>(module, group, options)) {}
DataParallel::~DataParallel() = default;

const std::vector<std::string>& DataParallel::unused() const { return reducer_->unused; }
std::size_t DataParallel::bucket_count() const { return reducer_->bucket_count(); }

NoSync::NoSync(const DataParallel& parallel)
    : is_off_(parallel.reducer_->is_off), previous_(std::exchange(is_off_, true)) {}

}  // namespace bytetape::dist
