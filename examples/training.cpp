#include "examples/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "examples/interrupt.h"

namespace bytetape::examples {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

data::ResidentLoader make_loader(const Task& task, const TrainingOptions& o) {
  check<ValueError>(task.testing.size() > 0, "there are no test ", task.unit.examples,
                    ": give --data a folder with some");
  const dist::Group world = dist::init();
  const std::int64_t of_step = o.batch_size * o.accumulated;
  const std::string batches = (world.size() > 1 ? fmt::format("{} ranks x ", world.size()) : "") +
                              (o.accumulated > 1 ? fmt::format("{} x ", o.accumulated) : "");
  check<ValueError>(task.training.size() / world.size() >= of_step, batches, "--batch-size ", o.batch_size,
                    " is more than the ", task.training.size(), " training ", task.unit.examples,
                    ": give a smaller one, or more data");
  return data::ResidentLoader(task.training, {.batch_size = of_step,
                                              .shuffle = true,
                                              .drop_last = true,
                                              .seed = o.seed,
                                              .rank = world.rank(),
                                              .world_size = world.size(),
                                              .augment = task.recipe.augment});
}

}  // namespace

void TrainingStep::operator()(const Tensor& inputs, const Tensor& targets) {
  const Autocast autocast(computed_);
  if (!step_in_backward_) optimizer_.zero_grad();
  const std::int64_t n = inputs.size(0) / batches_;
  for (std::int64_t first = 0; first < inputs.size(0); first += n) {
    const auto part = [&](const Tensor& whole) { return batches_ == 1 ? whole : narrow(whole, 0, first, n); };
    add_gradients(part(inputs), part(targets), first + n == inputs.size(0));
  }
  if (step_in_backward_) return;  // it never holds all gradients, so they cannot be clipped
  if (clip_ > 0) optim::clip_grad_norm_(optimizer_.parameters(), clip_);
  optimizer_.step();
}

void TrainingStep::add_gradients(const Tensor& inputs, const Tensor& targets, bool is_last) {
  std::optional<dist::NoSync> local;
  if (parallel_ && !is_last) local.emplace(*parallel_);
  const auto [loss, output] = forward(inputs, targets);
  const Tensor share = batches_ == 1 ? loss : loss / static_cast<double>(batches_);
  share.backward();
  const NoGrad no_grad;
  loss_ += share;
  if (output.defined()) score_ += objective_.score(output, inputs, targets);
}

TrainingStep::Forward TrainingStep::forward(const Tensor& inputs, const Tensor& targets) {
  const SaveOnCpu offload(memory_options_.saved);
  std::optional<Recompute> recompute;
  if (memory_options_.recompute) recompute.emplace();
  if (objective_.model_loss) return {objective_.model_loss(model_, inputs, targets), {}};
  const Tensor output = model_(inputs);
  return {objective_.loss(output, inputs, targets), output};
}

void TrainingStep::start_epoch() {
  fill_(loss_, 0);
  fill_(score_, 0);
}

Training::Training(const Task& task, const TrainingOptions& o)
    : task_(task), o_(o), loader_(make_loader(task, o)), step_(task.model, task.recipe, task.objective, o) {}

TrainingResult Training::run() {
  std::optional<DetectAnomaly> anomaly;
  if (o_.detect_anomaly) anomaly.emplace();
  if (has_begun()) save();  // --checkpoint may name another file than --resume
  const auto first = Clock::now();
  while (!is_over()) {
    const auto start = Clock::now();
    train_epoch();
    result_.train_seconds += seconds_since(start);
    result_.first_to_last_seconds = seconds_since(first);
    save();
  }
  if (examples_ > 0) result_.rate = static_cast<double>(examples_ * task_.unit.per_example) / result_.train_seconds;
  return result_;
}

void Training::resume(const Checkpoint& saved) {
  RunState state = run_state();
  state.load(saved);
  result_.reached = state.reached;
}

RunState Training::run_state() {
  return {task_.name, task_.model, *task_.recipe.optimizer, step_.state_dict(), steps(), result_.reached};
}

void Training::save() {
  if (!o_.checkpoint.empty()) run_state().save(o_.checkpoint);
}

std::optional<double> Training::test() {
  const Tensor score = world_.rank() == 0 ? sum_of_scores() : Tensor();
  const bool is_meta = default_device().is_meta;
  if (world_.size() == 1 && (!score.defined() || is_meta)) return std::nullopt;
  bool has_figure = score.defined() && !is_meta;
  double figure = has_figure ? score.item<double>() / static_cast<double>(task_.testing.size()) : 0;
  if (world_.size() > 1) {
    const Tensor of_rank_0 =
        dist::broadcast(stack({full({}, has_figure, DType::f64), full({}, figure, DType::f64)}, 0), world_);
    if (is_meta) return std::nullopt;
    has_figure = of_rank_0[0].item<double>() != 0;
    figure = of_rank_0[1].item<double>();
  }
  return has_figure ? std::optional(figure) : std::nullopt;
}

/// Returns the summed score of all test examples; undefined if interrupted. Does not wait for the device.
Tensor Training::sum_of_scores() {
  const NoGrad no_grad;
  task_.model.eval();
  Tensor score = zeros({}, task_.objective.score_dtype, task_.testing.device());
  const Objective& objective = task_.objective;
  // Where training fits into memory, the test does too.
  const std::int64_t batch_size = objective.model_loss ? o_.batch_size : std::min<std::int64_t>(o_.batch_size, 100);
  for (const auto& [x, y] : data::ResidentLoader(task_.testing, {.batch_size = batch_size})) {
    if (interrupted()) return {};
    score += objective.model_loss ? objective.model_loss(task_.model, x, y) * x.size(0)
                                  : objective.score(task_.model(x), x, y);
  }
  task_.model.train();
  return score;
}

/// Returns true if training is over. Tests first if training is at the end of an epoch (also right after a resume), or
/// has resumed a run that went further than o.epochs. Training is never over before its first step.
bool Training::is_over() {
  const auto& [epoch, batch] = result_.reached;
  result_.test_figure.reset();
  if (!has_begun()) return false;
  if (is_interrupted_) return true;
  if (batch > 0 && epoch < o_.epochs) return false;
  result_.test_figure = test();
  if (!result_.test_figure) return true;
  fmt::print("           test {} {}\n", task_.objective.name, task_.objective.text(*result_.test_figure));
  return epoch >= o_.epochs || task_.objective.reaches(*result_.test_figure, o_.until);
}

void Training::train_epoch() {
  auto& [epoch, batch] = result_.reached;
  Progress progress(fmt::format("epoch {}/{}", epoch + 1, o_.epochs), batch, steps(), stdout);
  const std::int64_t examples_before = examples_;
  const auto start = Clock::now();
  const auto numbers = [&] {
    ProgressNumbers n = look();
    const std::int64_t units = (examples_ - examples_before) * task_.unit.per_example;
    n.rate = static_cast<double>(units) / seconds_since(start);  // look() waited for the device
    n.rate_unit = task_.unit.short_rate;
    return n;
  };
  if (batch == 0) step_.start_epoch();
  loader_.set_position(epoch, batch);
  for (const auto& [inputs, targets] : loader_) {
    take_step(inputs, targets);
    progress.update(batch, numbers);
    if (is_interrupted_) break;
  }
  progress.finish(batch, numbers());
  const double loss = step_.loss();
  check<ValueError>(!std::isnan(loss), "the loss of epoch ", epoch + 1, " is NaN: lower --lr, which is ", o_.lr,
                    ", or run with --detect-anomaly, which stops at the op that makes the first NaN");
  if (batch == steps()) result_.reached = {epoch + 1, 0};
}

void Training::take_step(const Tensor& inputs, const Tensor& targets) {
  const memory::Step mark;
  auto& [epoch, batch] = result_.reached;
  const std::int64_t taken = epoch * steps() + batch;
  const double part = static_cast<double>(taken) / static_cast<double>(o_.epochs * steps());
  task_.recipe.optimizer->set_lr(o_.lr * task_.recipe.lr(part));
  o_.graph ? captured_(inputs, targets) : step_(inputs, targets);
  ++batch;
  examples_ += inputs.size(0) * world_.size();
  is_interrupted_ = dist::any_rank(interrupted(), world_);
}

/// Returns the numbers of the epoch so far. Waits for the device.
ProgressNumbers Training::look() const {
  const auto steps = static_cast<double>(result_.reached.batch);
  const double figure = step_.score() / (steps * static_cast<double>(o_.batch_size * o_.accumulated));
  const memory::Statistics books = memory::stats(default_device());
  return {.loss = step_.loss() / steps,
          .figure = *task_.objective.short_name
                        ? fmt::format("{} {:>7}", task_.objective.short_name, task_.objective.text(figure))
                        : "",
          .memory = books.allocated.current,
          .peak_memory = books.allocated.peak};
}

}  // namespace bytetape::examples
