// Parameters lie in rows. Backward fills a row's gradients, and exchanges rows from the last to the first, so that all
// ranks exchange them in the same order.
#include "bytetape/distributed/sharded.h"

#include <algorithm>
#include <limits>
#include <set>
#include <unordered_map>
#include <utility>

#include "bytetape/autograd/engine.h"
#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/grad_sink.h"
#include "bytetape/autograd/node.h"
#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/pointwise.h"
#include "bytetape/core/dispatch.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/kernels/optimizer.h"
#include "bytetape/distributed/between_processes.h"
#include "bytetape/distributed/collectives.h"
#include "bytetape/distributed/gradients.h"
#include "bytetape/distributed/hash.h"
#include "bytetape/distributed/sharded/gathered.h"
#include "bytetape/distributed/sharded/optimizer_state.h"
#include "bytetape/distributed/sharded/row.h"
#include "bytetape/optim/clip.h"
#include "bytetape/optim/gradients.h"
#include "bytetape/optim/optimizer.h"

namespace bytetape::dist {

class Sharded::State final : public GradSink {
 public:
  State(nn::Module& module, const Group& group, const ShardedOptions& options);
  ~State();
  void take(const Tensor& leaf, const Tensor& g) override;
  void added(const Tensor& leaf) override;
  Place place_of_leaf(const Tensor& leaf) const override {
    return row_of_.contains(leaf.impl()) ? Place::part : Place::divided;
  }
  void before_update() override {
    for (const auto& row : rows_) row->keep_written();
  }
  void agree_on(const Tensor& found_inf) override { all_reduce_(found_inf, group_, ReduceOp::max); }
  void updated(const std::vector<Tensor>& leaves) override;
  Tensor clip_grad_norm_(double max_norm);

  const Group& group() const { return group_; }
  std::vector<std::unique_ptr<Row>>& rows() { return rows_; }
  NamedTensors parts;  // in the order of the module's parameters
  std::vector<std::string> unused;

 private:
  struct Known {
    std::size_t row;
    Row::Piece* piece;
  };
  void make_rows(const NamedTensors& parameters);
  void add_row(std::vector<Row::Piece> pieces);
  DType row_dtype(const Tensor& parameter) const {
    return parameter.dtype() == DType::f32 ? options_.parameter_dtype.value_or(DType::f32) : parameter.dtype();
  }
  void connect();
  void begin();
  const Known& known(const Tensor& leaf) const;
  void forget_gradients();
  void drop(Row& row);
  void exchange(std::size_t row);
  void end(bool has_succeeded);
  void exchange_unused();
  std::uint64_t tag(std::size_t row) const { return Hash().add(number_).add(backwards_).add(row).get(); }

  const Group group_;
  const ShardedOptions options_;
  std::uint64_t number_ = 0;
  std::vector<std::unique_ptr<Row>> rows_;
  std::unordered_map<const TensorImpl*, Known> known_;  // by parameter
  std::unordered_map<const TensorImpl*, Row*> row_of_;  // by part
  std::shared_ptr<Gathered> gathered_;                  // with Shard::parameters
  std::uint64_t backwards_ = 0;
  std::size_t left_ = 0;  // rows that this backward has not exchanged
  Tensor sent_;           // the whole gradients of the last exchange
  RankFaults faults_{"Sharded"};
  bool is_running_ = false, has_failed_ = false;
};

Sharded::State::State(nn::Module& module, const Group& group, const ShardedOptions& options)
    : group_(group), options_(options) {
  const memory::Op<"Sharded"> op;
  check<ValueError>(options.row_bytes > 0, "expected row_bytes above 0");
  NamedTensors trained;
  for (const auto& named : module.named_parameters())
    if (named.second.requires_grad()) trained.push_back(named);
  check<ValueError>(!trained.empty(), "the module has no parameter that requires grad");
  parts = trained;
  const std::optional<DType> dtype = options.parameter_dtype;
  check<DTypeError>(!dtype || *dtype == DType::bf16, "expected parameter_dtype bf16, got ",
                    dtype.value_or(DType::bf16));
  if (group.size() == 1 && !dtype) {
    if (options.device) module.to(*options.device);
    return;
  }
  check_alike(module, group);
  for (const auto& [name, x] : trained)
    check<ValueError>(!autograd_meta(x).sink, "the parameter '", name, "' is in another Sharded or DataParallel");
  number_ = next_number(group, module);
  if (options.shard == Shard::parameters) gathered_ = std::make_shared<Gathered>(options.gathered_bytes);
  make_rows(trained);
  const NoGrad no_grad;
  const auto share = [&](Tensor x) {
    if (options.device) x.set_data(bytetape::to(x.detach(), *options.device));
    broadcast_(x.detach(), group);
  };
  std::set<const TensorImpl*> done;
  for (const auto& [name, x] : trained) done.insert(x.impl());
  for (const auto& [name, x] : module.named_parameters())
    if (!done.contains(x.impl())) share(x);
  for (const auto& [name, x] : module.named_buffers()) share(x);
  connect();
}

Sharded::State::~State() {
  for (const auto& [impl, known] : known_) autograd_meta(known.piece->parameter).sink = nullptr;
  for (const auto& row : rows_)
    for (const Row::Piece& piece : row->pieces()) autograd_meta(piece.part).sink = nullptr;
}

void Sharded::State::make_rows(const NamedTensors& parameters) {
  std::vector<Row::Piece> pieces;
  std::size_t bytes = 0;
  for (const auto& [name, x] : parameters) {
    const std::size_t more = static_cast<std::size_t>(x.numel()) * size_of(row_dtype(x));
    const bool fits =
        pieces.empty() || (x.dtype() == pieces.front().parameter.dtype() &&
                           x.device() == pieces.front().parameter.device() && bytes + more <= options_.row_bytes);
    if (!fits) add_row(std::exchange(pieces, {}));
    if (pieces.empty()) bytes = 0;
    pieces.push_back({.name = name, .parameter = x});
    bytes += more;
  }
  add_row(std::move(pieces));
  parts.clear();
  for (std::size_t i = 0; i < rows_.size(); ++i)
    for (Row::Piece& piece : rows_[i]->pieces()) {
      parts.emplace_back(piece.name, piece.part);
      known_[piece.parameter.impl()] = {i, &piece};
      row_of_[piece.part.impl()] = rows_[i].get();
    }
}

/// Called last by the constructor, because the destructor does not run after an exception.
void Sharded::State::connect() {
  for (const auto& row : rows_)
    for (const Row::Piece& piece : row->pieces())
      autograd_meta(piece.parameter).sink = autograd_meta(piece.part).sink = this;
}

void Sharded::State::add_row(std::vector<Row::Piece> pieces) {
  const auto gathered = [known = std::weak_ptr(gathered_), this, index = rows_.size()] {
    if (const auto alive = known.lock()) alive->note_gathered(*rows_[index]);
  };
  const std::uint64_t number = Hash().add(number_).add(rows_.size()).get();
  const DType dtype = row_dtype(pieces.front().parameter);
  const Device device = options_.device.value_or(pieces.front().parameter.device());
  rows_.push_back(
      std::make_unique<Row>(std::move(pieces), group_, Row::Options{options_.shard, dtype, device, number, gathered}));
  if (gathered_) gathered_->add(*rows_.back());
}

void Sharded::State::begin() {
  // NCCL would not see that another rank is in an earlier backward, and add other rows.
  if (has_failed_ && rows_.front()->pieces().front().part.device().type == DeviceType::cuda) barrier(group_, tag(0));
  has_failed_ = false;
  at_end_of_backward([this](bool has_succeeded) { end(has_succeeded); });
  if (gathered_) gathered_->begin_backward();
  faults_.begin(rows_.front()->pieces().front().part.device());
  is_running_ = true;
  ++backwards_;
  left_ = rows_.size();
  for (const auto& row : rows_) {
    row->begin_backward();
    for (Row::Piece& piece : row->pieces()) piece.is_filled = false;
  }
}

void Sharded::State::forget_gradients() {
  for (const auto& row : rows_)
    for (Row::Piece& piece : row->pieces()) piece.waiting = Tensor();
  sent_ = Tensor();
}

const Sharded::State::Known& Sharded::State::known(const Tensor& leaf) const {
  const auto at = known_.find(leaf.impl());
  check<AutogradError>(at != known_.end(), "Sharded: the loss uses a part, ", describe(leaf),
                       ", of parameters(); use the module's parameter");
  return at->second;
}

void Sharded::State::take(const Tensor& leaf, const Tensor& g) {
  if (!is_running_) begin();
  const auto& [index, piece] = known(leaf);
  check<AutogradError>(leaf.dtype() == rows_[index]->dtype() && leaf.device() == piece->part.device(),
                       "Sharded: the parameter '", piece->name, "' was moved or converted to ", describe(leaf));
  check<AutogradError>(index < left_, "Sharded: backward() computed another gradient of '", piece->name,
                       "' after its row was exchanged");
  if (piece->waiting.defined())
    piece->waiting = to(piece->waiting, leaf.dtype()) + to(g, leaf.dtype());
  else
    piece->waiting = is_sole_owner(g) ? g : clone(g);
  if (std::exchange(piece->is_filled, true)) return;
  Row& row = *rows_[index];
  if (++row.filled < row.pieces().size()) return;
  if (gathered_) gathered_->complete(row);  // every rule that reads its parameters has run
  while (left_ > 0 && rows_[left_ - 1]->filled == rows_[left_ - 1]->pieces().size()) exchange(left_ - 1);
}

void Sharded::State::added(const Tensor& leaf) {
  const Tensor g = leaf.grad();
  Tensor(leaf).set_grad({});
  check<NotImplemented>(!grad_enabled(), "Sharded: backward() with create_graph is not supported");
  check<AutogradError>(g.defined(), "Sharded: another hook has cleared the gradient of '", known(leaf).piece->name,
                       "'");
  take(leaf, g);
}

void Sharded::State::drop(Row& row) {
  if (gathered_) gathered_->drop(row);
}

void Sharded::State::exchange(std::size_t row) {
  left_ = row;
  if (row + 1 == rows_.size()) {
    order_exchanges(rows_[row]->pieces().front().part.device());
    faults_.exchange(group_, stream_of_exchanges(), tag(rows_.size() + 1));
  }
  rows_[row]->exchange_gradients(tag(row), sent_);
}

void Sharded::State::end(bool has_succeeded) {
  is_running_ = false;
  if (!has_succeeded) {
    has_failed_ = true;
    return forget_gradients();
  }
  for (const auto& row : rows_) drop(*row);
  unused.clear();
  std::string names;
  for (const auto& row : rows_)
    for (const Row::Piece& piece : row->pieces())
      if (!piece.is_filled) {
        unused.push_back(piece.name);
        names += (names.empty() ? "'" : ", '") + piece.name + "'";
      }
  if (options_.allow_unused) exchange_unused();
  forget_gradients();
  faults_.take();
  if (options_.allow_unused) return;
  check<AutogradError>(unused.empty(), "Sharded: backward() computed no gradient of ", names,
                       "; if that is intended, set allow_unused");
}

/// Exchanges the rows that wait for parameters without a gradient, and which parameters those are.
void Sharded::State::exchange_unused() {
  std::vector<std::uint8_t> is_used;  // in this backward, or in an earlier one since zero_grad()
  for (const auto& row : rows_)
    for (const Row::Piece& piece : row->pieces()) is_used.push_back(piece.is_filled || piece.part.grad().defined());
  while (left_ > 0) exchange(left_ - 1);
  max_over_ranks(is_used, processes_of(group_), tag(rows_.size()));
  auto at = is_used.begin();
  for (const auto& row : rows_)
    for (Row::Piece& piece : row->pieces())
      if (!*at++) piece.part.set_grad({});
}

void Sharded::State::updated(const std::vector<Tensor>& leaves) {
  std::set<const Row*> changed;
  for (const Tensor& leaf : leaves)
    if (const auto at = row_of_.find(leaf.impl()); at != row_of_.end()) changed.insert(at->second);
  for (const auto& row : rows_) {
    if (!changed.contains(row.get())) continue;
    row->note_update();
    drop(*row);
  }
}

Tensor Sharded::State::clip_grad_norm_(double max_norm) {
  const memory::Op<"clip_grad_norm_"> op;
  const memory::PhaseScope phase(memory::Phase::optimizer);
  const NoGrad no_grad;
  check<ValueError>(max_norm >= 0, "max_norm must not be negative, got ", max_norm);
  std::vector<Tensor> with_parts;
  bool is_wide = false;
  for (const auto& [name, part] : parts) {
    with_parts.push_back(part);
    is_wide |= part.grad().defined() && part.dtype() == DType::f64;
  }
  const Device device = with_parts.front().device();
  const std::vector<Tensor> gradients = optim::gradients_to_write(with_parts);
  const DType dtype = is_wide ? DType::f64 : DType::f32;
  Tensor norm = zeros({}, dtype, device);
  if (!gradients.empty())
    run_planned<&OptimizerKernels::clip_grad_norm>(
        device, {optim::written_views(gradients), norm.write(), std::numeric_limits<double>::infinity()});
  norm = to(norm, DType::f64);  // whose square does not overflow
  norm = sqrt(all_reduce(norm * norm, group_));
  const Tensor factor = to(clamp_max(max_norm / (norm + 1e-6), 1), dtype);
  for (const Tensor& g : gradients)
    size_of(g.dtype()) == 2 ? copy_(g, to(to(g, dtype) * factor, g.dtype())) : mul_(g, to(factor, g.dtype()));
  return to(norm, dtype);
}

Sharded::Sharded(nn::Module& module, const Group& group, const ShardedOptions& options)
    : module_(&module), state_(std::make_unique<State>(module, group, options)) {}
Sharded::~Sharded() = default;

NamedTensors Sharded::named_parameters() const {
  state_->before_update();
  return state_->parts;
}

std::vector<Tensor> Sharded::parameters() const {
  std::vector<Tensor> all;
  for (const auto& [name, part] : named_parameters()) all.push_back(part);
  return all;
}

const std::vector<std::string>& Sharded::unused() const { return state_->unused; }

Tensor Sharded::clip_grad_norm_(double max_norm) const {
  return state_->rows().empty() ? optim::clip_grad_norm_(parameters(), max_norm) : state_->clip_grad_norm_(max_norm);
}

const Group& Sharded::group() const { return state_->group(); }

std::vector<Sharded::Part> Sharded::parts() const {
  state_->before_update();
  std::vector<Part> all;
  if (state_->rows().empty())
    for (const auto& [name, x] : state_->parts) all.push_back({name, x, x.shape(), x.strides(), 0, x.numel()});
  for (const auto& row : state_->rows())
    for (const Row::Piece& piece : row->pieces()) {
      const std::int64_t begin = row->begin_of(piece);
      const Tensor& x = piece.parameter;
      all.push_back({piece.name, piece.part, x.shape(), x.strides(), begin, begin + piece.part.numel()});
    }
  return all;
}

void Sharded::note_written() const {
  std::vector<Tensor> all;
  for (const auto& [name, part] : state_->parts) all.push_back(part);
  state_->updated(all);
}

NamedTensors Sharded::state_dict() const {
  state_->before_update();
  NamedTensors state = module_->state_dict();
  std::unordered_map<const TensorImpl*, Tensor> whole;
  for (const auto& row : state_->rows()) {
    const Tensor joined = row->joined([](const Row::Piece& piece) { return piece.part.detach(); });
    for (const Row::Piece& piece : row->pieces()) whole[piece.parameter.impl()] = clone(row->place(piece, joined));
  }
  for (auto& [name, x] : state)
    if (const auto at = whole.find(x.impl()); at != whole.end()) x = at->second;
  return state;
}

StateDict Sharded::optimizer_state(optim::Optimizer& optimizer) const {
  if (state_->rows().empty()) return optimizer.state_dict();
  return joined_state(state_->rows(), state_->group(), optimizer);
}

void Sharded::load_optimizer_state(optim::Optimizer& optimizer, const StateDict& state) const {
  optimizer.load_state_dict(state_->rows().empty() ? state : own_state(state_->rows(), optimizer, state));
}

}  // namespace bytetape::dist
