// Each parameter has a place in a bucket. Once backward has computed the gradients of all places of a bucket, they are
// moved there together. Once all buckets before it are exchanged, the bucket is exchanged. So all ranks exchange the
// buckets in the same order.
#include "bytetape/distributed/data_parallel.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bytetape/autograd/engine.h"
#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/grad_sink.h"
#include "bytetape/autograd/node.h"
#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/core/device/stream.h"
#include "bytetape/core/dispatch.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/kernels/copy.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/distributed/between_processes.h"
#include "bytetape/distributed/collectives.h"
#include "bytetape/distributed/gradients.h"
#include "bytetape/distributed/hash.h"

namespace bytetape::dist {
namespace {

/// The order in which backward completes the leaf's gradient: leaves of lower numbers come later. 0 if no graph uses
/// it.
std::uint64_t order_in_backward(const Tensor& leaf) {
  const AutogradMeta& meta = autograd_meta(leaf);
  return meta.accumulate ? meta.accumulate->sequence : 0;
}

}  // namespace

class DataParallel::Reducer final : public GradSink {
 public:
  Reducer(nn::Module& module, const Group& group, const DataParallelOptions& options);
  ~Reducer();
  bool is_off = false;  // within NoSync
  std::vector<std::string> unused;
  std::vector<std::size_t> bucket_bytes() const {
    std::vector<std::size_t> bytes;
    for (const Bucket& bucket : buckets_) bytes.push_back(bucket.data.nbytes());
    return bytes;
  }

 private:
  /// A parameter, and the part of a bucket for its gradient.
  struct Place {
    std::string name;
    Tensor parameter;
    std::size_t bucket = 0;
    Tensor gradient;           // what grad() is after backward; undefined before the first backward
    Tensor sent;               // the same elements in the bucket, which are `gradient` unless they travel in 16 bits
    Tensor waiting = {};       // a gradient that is not yet in the bucket
    bool is_filled = false;    // or waits
    bool is_gradient = false;  // the value to send is in `gradient`
  };
  struct Bucket {
    Tensor data;
    Tensor gradients;  // of the parameters' dtype, if data has 16 bits
    std::vector<Place*> places;
    std::size_t filled = 0;
    bool is_late = false;            // optimizers update its parameters last
    std::uint32_t version_sent = 0;  // of the gradients' storage, when they were exchanged
    Stream stream() const { return is_late ? stream_of_late_exchanges() : stream_of_exchanges(); }
    Storage& storage() const { return (gradients.defined() ? gradients : data).storage(); }
  };

  void start_equal(nn::Module& module) const;
  std::vector<Place*> in_order();
  static std::vector<std::vector<Place*>> split(const std::vector<Place*>& places, std::size_t most);
  std::uint64_t tag(std::size_t bucket) const;
  void check_gradients() const;
  void make_buckets();
  void add_bucket(const std::vector<Place*>& places);
  void choose_late();
  void take(const Tensor& leaf, const Tensor& g) override;
  void added(const Tensor& leaf) override;
  std::optional<Stream> late_on(const Tensor& leaf) const override;
  void begin();
  Place& place_of(const Tensor& leaf);
  void check_place(const Place& place) const;
  void fill(Place& place);
  void move_in(Place& place);
  void move_waiting_in(Bucket& bucket, bool is_sent);
  void exchange(std::size_t bucket);
  void exchange_filled();
  void end(bool has_succeeded);
  void fill_unused();

  const std::uint64_t number_;
  const Group group_;
  const DataParallelOptions options_;
  std::vector<Place> places_;
  std::unordered_map<const TensorImpl*, Place*> place_of_;
  std::vector<Bucket> buckets_;
  RankFaults faults_{"DataParallel"};
  std::uint64_t backwards_ = 0;
  std::size_t exchanged_ = 0;  // buckets, in this backward
  bool is_running_ = false;
  bool has_failed_ = false;  // the last backward
};

DataParallel::Reducer::Reducer(nn::Module& module, const Group& group, const DataParallelOptions& options)
    : number_(next_number(group, module)), group_(group), options_(options) {
  const memory::Op<"DataParallel"> op;
  check<ValueError>(options.bucket_bytes > 0, "expected bucket_bytes above 0");
  const DType sent = options.exchange_dtype;
  check<DTypeError>(sent == DType::f32 || sent == DType::bf16 || sent == DType::f16,
                    "expected the exchange_dtype f32, bf16 or f16, got ", sent);
  for (const auto& [name, x] : module.named_parameters())
    if (x.requires_grad()) places_.push_back({.name = name, .parameter = x});
  check<ValueError>(!places_.empty(), "the module has no parameter that requires grad");
  if (group.size() == 1) return;
  start_equal(module);
  for (const Place& place : places_) {
    GradSink*& sink = autograd_meta(place.parameter).sink;
    check<ValueError>(!sink, "the parameter '", place.name, "' is in another DataParallel");
  }
  for (Place& place : places_) {
    place_of_[place.parameter.impl()] = &place;
    autograd_meta(place.parameter).sink = this;
  }
}

DataParallel::Reducer::~Reducer() {
  for (const Place& place : places_)
    if (GradSink*& sink = autograd_meta(place.parameter).sink; sink == this) sink = nullptr;
}

/// Says which exchange this is, so that no bucket is added to another one.
std::uint64_t DataParallel::Reducer::tag(std::size_t bucket) const {
  return Hash().add(number_).add(backwards_).add(bucket).get();
}

void DataParallel::Reducer::start_equal(nn::Module& module) const {
  const NoGrad no_grad;
  check_alike(module, group_);
  for (const auto& [name, x] : module.named_parameters()) broadcast_(x.detach(), group_);
  for (const auto& [name, x] : module.named_buffers()) broadcast_(x.detach(), group_);
}

/// Returns the parameters in the order in which rank 0's backward completes them, which the graph knows. Other ranks
/// may leave parameters out, or use them in another order.
std::vector<DataParallel::Reducer::Place*> DataParallel::Reducer::in_order() {
  std::vector<std::int32_t> order(places_.size());
  std::iota(order.begin(), order.end(), 0);
  const auto place = [&](std::int32_t i) { return &places_[static_cast<std::size_t>(i)]; };
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](std::int32_t i) { return order_in_backward(place(i)->parameter); });
  broadcast_bytes(std::as_writable_bytes(std::span(order)), processes_of(group_), tag(0));
  std::vector<Place*> sorted;
  for (const std::int32_t i : order) sorted.push_back(place(i));
  return sorted;
}

/// Splits the parameters of one dtype and device into buckets of at most `most` bytes, except parameters that are
/// larger. The last buckets are smaller, because nothing hides the exchange of the last one.
std::vector<std::vector<DataParallel::Reducer::Place*>> DataParallel::Reducer::split(const std::vector<Place*>& places,
                                                                                     std::size_t most) {
  constexpr std::size_t least = std::size_t{1} << 20;
  std::vector<std::vector<Place*>> buckets;  // the last first
  std::size_t bytes = 0, room = std::min(most, least);
  for (auto at = places.rbegin(); at != places.rend(); ++at) {
    Place* const place = *at;
    const std::size_t more = place->parameter.nbytes();
    if (buckets.empty() || bytes + more > room) {
      if (!buckets.empty()) room = std::min(most, 2 * room);
      buckets.emplace_back();
      bytes = 0;
    }
    buckets.back().push_back(place);
    bytes += more;
  }
  for (auto& bucket : buckets) std::ranges::reverse(bucket);
  return buckets;
}

void DataParallel::Reducer::make_buckets() {
  const NoGrad no_grad;
  const std::vector<Place*> sorted = in_order();
  std::map<const Place*, std::size_t> position;
  std::map<std::pair<DType, std::string>, std::vector<Place*>> kinds;  // by dtype and device
  for (Place* place : sorted) {
    position[place] = position.size();
    kinds[{place->parameter.dtype(), to_string(place->parameter.device())}].push_back(place);
  }
  std::vector<std::vector<Place*>> buckets;
  for (const auto& [kind, places] : kinds)
    for (auto& bucket : split(places, options_.bucket_bytes)) buckets.push_back(std::move(bucket));
  std::ranges::sort(buckets, {}, [&](const auto& places) { return position.at(places.back()); });
  for (const auto& places : buckets) add_bucket(places);
  choose_late();
}

/// The last buckets, of at most a third of the bytes, are late. An optimizer updates the other parameters while they
/// are exchanged. Between two H200s, the update of a parameter takes about half as long as its exchange.
void DataParallel::Reducer::choose_late() {
  std::size_t all = 0, late = 0;
  for (const Bucket& bucket : buckets_) all += bucket.data.nbytes();
  for (std::size_t i = buckets_.size(); i-- > 0;) {
    late += buckets_[i].data.nbytes();
    if (3 * late > all) return;
    buckets_[i].is_late = true;
  }
}

std::optional<Stream> DataParallel::Reducer::late_on(const Tensor& leaf) const {
  const auto at = place_of_.find(leaf.impl());
  if (at == place_of_.end() || buckets_.empty()) return std::nullopt;
  const Place& place = *at->second;
  const Bucket& bucket = buckets_[place.bucket];
  const bool is_late = bucket.is_late && place.is_filled && leaf.grad().is_same(place.gradient) &&
                       bucket.storage().version() == bucket.version_sent;
  return is_late ? std::optional(bucket.stream()) : std::nullopt;
}

void DataParallel::Reducer::add_bucket(const std::vector<Place*>& places) {
  const Tensor& first = places.front()->parameter;
  const DType dtype = first.dtype(), sent = first.dtype() == DType::f32 ? options_.exchange_dtype : first.dtype();
  const std::int64_t step = row_alignment / static_cast<std::int64_t>(std::min(size_of(dtype), size_of(sent)));
  std::vector<std::int64_t> offsets;
  std::int64_t size = 0;
  for (const Place* place : places) {
    offsets.push_back(size);
    size += (place->parameter.numel() + step - 1) / step * step;
  }
  const OutsideModules outside("DataParallel");
  Bucket bucket{.data = empty({size}, sent, first.device(), memory::Role::communication), .places = places};
  zero_(bucket.data);  // also the gaps
  if (sent != dtype) bucket.gradients = zeros({size}, dtype, first.device(), memory::Role::communication);
  for (std::size_t i = 0; i < places.size(); ++i) {
    Place& place = *places[i];
    const Tensor& x = place.parameter;
    const bool is_dense = bytetape::is_dense(x.shape(), x.strides());
    const Strides strides = is_dense ? x.strides() : contiguous_strides(x.shape());
    place.bucket = buckets_.size();
    place.sent = bucket.data.alias(x.shape(), strides, offsets[i]);
    place.gradient = sent == dtype ? place.sent : bucket.gradients.alias(x.shape(), strides, offsets[i]);
  }
  buckets_.push_back(std::move(bucket));
}

/// Called for the first gradient of a backward.
void DataParallel::Reducer::begin() {
  // NCCL would not see that another rank is in an earlier backward, and add other buckets.
  const bool is_on_gpu = places_.front().parameter.device().type == DeviceType::cuda;
  if (has_failed_ && is_on_gpu) barrier(group_, tag(0));
  has_failed_ = false;
  at_end_of_backward([this](bool has_succeeded) { end(has_succeeded); });
  is_running_ = true;
  ++backwards_;
  exchanged_ = 0;
  for (Place& place : places_) {
    place.is_filled = place.is_gradient = false;
    place.waiting = Tensor();
  }
  faults_.begin(places_.front().parameter.device());
  for (Bucket& bucket : buckets_) {
    bucket.filled = 0;
    bucket.data.write();  // waits for the last exchange now; a later wait would include exchanges of this backward
    if (bucket.gradients.defined()) bucket.gradients.write();
  }
}

DataParallel::Reducer::Place& DataParallel::Reducer::place_of(const Tensor& leaf) {
  if (!is_running_) begin();
  if (buckets_.empty()) make_buckets();
  return *place_of_.at(leaf.impl());
}

void DataParallel::Reducer::check_place(const Place& place) const {
  const Tensor& x = place.parameter;
  check<AutogradError>(x.dtype() == place.gradient.dtype() && x.device() == place.gradient.device(),
                       "DataParallel: the parameter '", place.name, "' was moved or converted to ", describe(x),
                       " after the first backward()");
  check<AutogradError>(!place.is_filled || is_off || place.bucket >= exchanged_, "DataParallel: backward() computed ",
                       "another gradient of '", place.name, "' after its bucket was exchanged");
}

void DataParallel::Reducer::take(const Tensor& leaf, const Tensor& g) {
  Place& place = place_of(leaf);
  check_place(place);
  const Tensor& before = place.waiting;
  if (before.defined())
    place.waiting = to(before, leaf.dtype()) + to(g, leaf.dtype());
  else
    place.waiting = is_sole_owner(g) ? g : clone(g);
  fill(place);
}

void DataParallel::Reducer::added(const Tensor& leaf) {
  check<NotImplemented>(!grad_enabled(), "DataParallel: backward() with create_graph is not supported");
  Place& place = place_of(leaf);
  check<AutogradError>(leaf.grad().defined(), "DataParallel: another hook has cleared the gradient of '", place.name,
                       "'");
  check_place(place);
  move_in(place);
  fill(place);
}

void DataParallel::Reducer::fill(Place& place) {
  if (place.is_filled) return;
  place.is_filled = true;
  Bucket& bucket = buckets_[place.bucket];
  const bool is_full = ++bucket.filled == bucket.places.size();
  if (!is_off)
    exchange_filled();
  else if (is_full)
    move_waiting_in(bucket, /*is_sent=*/false);
}

/// Moves the parameter's gradient to its place, if it is not there.
void DataParallel::Reducer::move_in(Place& place) {
  const Tensor g = place.parameter.grad();
  place.is_gradient = true;
  if (g.is_same(place.gradient)) return;
  copy_(place.gradient, g);
  place.parameter.set_grad(place.gradient);
}

/// Moves the waiting gradients of a bucket to where they are sent from, or to those of the parameters, in a launch for
/// each dtype.
void DataParallel::Reducer::move_waiting_in(Bucket& bucket, bool is_sent) {
  const NoGrad no_grad;
  const OutsideModules outside("DataParallel");
  std::vector<std::pair<Tensor, Tensor>> moves;
  for (Place* place : bucket.places) {
    if (!place->waiting.defined()) continue;
    moves.emplace_back(std::exchange(place->waiting, {}), is_sent ? place->sent : place->gradient);
    place->is_gradient = !is_sent;
    place->parameter.set_grad(place->gradient);
  }
  copy_gradients(moves);
}

void DataParallel::Reducer::exchange_filled() {
  for (; exchanged_ < buckets_.size() && buckets_[exchanged_].filled == buckets_[exchanged_].places.size();
       ++exchanged_)
    exchange(exchanged_);
}

void DataParallel::Reducer::exchange(std::size_t number) {
  const NoGrad no_grad;
  const OutsideModules outside("DataParallel");
  Bucket& bucket = buckets_[number];
  move_waiting_in(bucket, /*is_sent=*/true);
  for (Place* place : bucket.places)
    if (place->is_gradient && !place->sent.is_same(place->gradient)) copy_(place->sent, place->gradient);
  // Exchanges run one after the other, also those of another DataParallel.
  if (number == 0) {
    order_exchanges(bucket.data.device());
    faults_.exchange(group_, bucket.stream(), tag(buckets_.size() + 1));
  } else if (const Bucket& before = buckets_[number - 1]; before.is_late != bucket.is_late) {
    detail::order(bucket.data.device(), before.stream().number(), bucket.stream().number());
  }
  const StreamScope beside(bucket.stream());  // on a GPU, backward goes on beside the exchange
  all_reduce_(bucket.data, group_, ReduceOp::average, tag(number));
  if (bucket.gradients.defined()) {
    const ConstView sent[] = {bucket.data.read()};
    const View wide[] = {bucket.gradients.write()};
    run<&CopyKernels::widen_all>(bucket.data.device(), std::span(sent), std::span(wide));
  }
  bucket.version_sent = bucket.storage().version();
}

void DataParallel::Reducer::end(bool has_succeeded) {
  is_running_ = false;
  if (!has_succeeded) {
    has_failed_ = true;
    for (Place& place : places_) place.waiting = Tensor();
    return;
  }
  for (Bucket& bucket : buckets_) move_waiting_in(bucket, /*is_sent=*/false);
  check_gradients();
  unused.clear();
  for (const Place& place : places_)
    if (!place.is_filled) unused.push_back(place.name);
  if (is_off) return;
  if (options_.allow_unused) fill_unused();
  faults_.take();
  if (options_.allow_unused) return;
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
  std::vector<std::uint8_t> is_used(places_.size());
  for (std::size_t i = 0; i < places_.size(); ++i) {
    Place& place = places_[i];
    const bool has_gradient = place.parameter.grad().defined();  // of this backward, or of one within NoSync
    is_used[i] = has_gradient;
    if (place.is_filled) continue;
    if (!has_gradient)
      zero_(place.sent);
    else
      move_in(place);
    ++buckets_[place.bucket].filled;
  }
  exchange_filled();
  std::vector<std::uint8_t> by_any = is_used;
  max_over_ranks(by_any, processes_of(group_), tag(buckets_.size()));
  for (std::size_t i = 0; i < places_.size(); ++i)
    if (by_any[i] && !is_used[i]) places_[i].parameter.set_grad(places_[i].gradient);
}

DataParallel::DataParallel(nn::Module& module, const Group& group, const DataParallelOptions& options)
    : reducer_(std::make_unique<Reducer>(module, group, options)) {}
DataParallel::~DataParallel() = default;

const std::vector<std::string>& DataParallel::unused() const { return reducer_->unused; }
std::size_t DataParallel::bucket_count() const { return reducer_->bucket_bytes().size(); }
std::vector<std::size_t> DataParallel::bucket_bytes() const { return reducer_->bucket_bytes(); }

NoSync::NoSync(const DataParallel& parallel)
    : is_off_(parallel.reducer_->is_off), previous_(std::exchange(is_off_, true)) {}

}  // namespace bytetape::dist
