#include "bytetape/data/loader.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <span>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "bytetape/core/memory/allocator/out_of_memory.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/data/copier.h"
#include "bytetape/data/seeds.h"

namespace bytetape::data {
namespace {

std::shared_ptr<const Sampler> make_sampler(std::int64_t n, const DataLoaderOptions& options) {
  if (options.sampler) return options.sampler;
  if (!options.shuffle) return std::make_shared<SequentialSampler>(n);
  return std::make_shared<RandomSampler>(n, RandomSamplerOptions{.seed = options.seed});
}

}  // namespace

/// One pass over the data: a ring with the current batch and the prefetched ones. The iterating thread allocates the
/// batches and takes them in order. The workers fill them.
class DataLoader::Iterator::Epoch {
 public:
  Epoch(const Dataset& dataset, std::shared_ptr<const BatchCopier> copier, const Sampler& sampler,
        const DataLoaderOptions& options, std::int64_t batches, Position from)
      : dataset_(dataset),
        copier_(std::move(copier)),
        batch_size_(options.batch_size),
        batches_(batches),
        order_(sampler.order(from.epoch)),
        draws_(augmentation_state(options.seed, from.epoch)),
        taken_(from.batch),
        ring_(options.workers ? std::min<std::size_t>(static_cast<std::size_t>(options.prefetch) + 1, batches) : 0),
        scheduled_(from.batch),
        started_(from.batch) {
    check<ValueError>(static_cast<std::int64_t>(order_.size()) == sampler.size(), "expected an order of ",
                      sampler.size(), " examples from the sampler, which is its size(), got ", order_.size());
    const auto workers = std::min<std::size_t>(static_cast<std::size_t>(options.workers), ring_.size());
    for (std::size_t i = 0; i < workers; ++i)
      workers_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }

  /// The next batch; false at the end.
  bool next(Batch& out) {
    if (taken_ == batches_ && !loaded_ && !sent_) return false;
    if (!sent_) send_wanted();
    out = copier_->receive(*std::exchange(sent_, {}), draws_, (taken_ - 1) * batch_size_);
    if (copier_->works_ahead() && taken_ < batches_) send_ahead();
    return true;
  }

 private:
  struct Job {
    Batch batch;
    std::exception_ptr error;
    bool done = false;
  };

  std::span<const std::int64_t> indices(std::int64_t batch) const {
    const std::span all(order_);
    const auto begin = static_cast<std::size_t>(batch * batch_size_);
    return all.subspan(begin, std::min(static_cast<std::size_t>(batch_size_), all.size() - begin));
  }
  Batch allocate(std::int64_t batch) const {
    return copier_->allocate(static_cast<std::int64_t>(indices(batch).size()));
  }
  void send_wanted() {
    if (!loaded_) loaded_ = load_next();
    const Job got = *std::exchange(loaded_, {});
    if (got.error) std::rethrow_exception(got.error);
    sent_ = copier_->send(got.batch);
  }
  /// Sends the next batch to the device early. A worker's exception is thrown later, when that batch is taken.
  void send_ahead() {
    try {
      if (!loaded_) loaded_ = load_next();
      if (loaded_->error) return;
      sent_ = copier_->send(loaded_->batch);
      loaded_.reset();
    } catch (const OutOfMemory&) {}  // no memory to work ahead: the batch is loaded when it is needed
  }
  Job& job(std::int64_t batch) { return ring_[static_cast<std::size_t>(batch) % ring_.size()]; }

  Job load_next() { return ring_.empty() ? load_here() : take(); }

  Job load_here() {
    Job job{allocate(taken_), {}, true};
    job.error = load(taken_++, job.batch);
    return job;
  }

  Job take() {
    schedule();
    Job got;
    {
      std::unique_lock lock(mutex_);
      done_.wait(lock, [&] { return job(taken_).done; });
      got = std::exchange(job(taken_), {});
    }
    ++taken_;
    return got;
  }

  /// Gives the workers batches until the ring is full. Only this thread writes scheduled_.
  void schedule() {
    const std::int64_t until = std::min(batches_, taken_ + static_cast<std::int64_t>(ring_.size()));
    while (scheduled_ < until) {
      Batch b;
      try {
        b = allocate(scheduled_);
      } catch (const OutOfMemory&) {
        if (scheduled_ == taken_) throw;
        return;  // no memory to prefetch: retried when the batch is needed
      }
      {
        std::lock_guard lock(mutex_);
        job(scheduled_).batch = std::move(b);
        ++scheduled_;
      }
      wanted_.notify_one();
    }
  }

  void work(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (wanted_.wait(lock, stop, [&] { return started_ < scheduled_; }) && !stop.stop_requested()) {
      const std::int64_t mine = started_++;
      lock.unlock();
      std::exception_ptr error = load(mine, job(mine).batch);
      lock.lock();
      job(mine).error = std::move(error);
      job(mine).done = true;
      done_.notify_one();
    }
  }

  std::exception_ptr load(std::int64_t batch, Batch& into) const {
    try {
      dataset_.load(indices(batch), into);
    } catch (...) { return std::current_exception(); }
    return {};
  }

  const Dataset& dataset_;
  const std::shared_ptr<const BatchCopier> copier_;
  const std::int64_t batch_size_, batches_;
  const std::vector<std::int64_t> order_;
  const PhiloxState draws_;
  std::int64_t taken_;         // number of batches taken; only the iterating thread uses it and the next two
  std::optional<Job> loaded_;  // the batch taken last
  std::optional<Batch> sent_;  // the batch in transfer to the device

  std::mutex mutex_;  // guards the members below; a job that is started and not done belongs to its worker
  std::condition_variable_any wanted_, done_;
  std::vector<Job> ring_;
  std::int64_t scheduled_, started_;
  std::vector<std::jthread>
      workers_;  // last member, so that they are joined before the members that they use are destroyed
};

DataLoader::DataLoader(const Dataset& dataset, const DataLoaderOptions& options)
    : dataset_(&dataset), options_(options) {
  const memory::Op<"DataLoader"> op;
  check<ValueError>(dataset.size() >= 0, "expected a dataset with size() >= 0, got ", dataset.size());
  check<ValueError>(options.batch_size >= 1, "expected batch_size >= 1, got ", options.batch_size);
  check<ValueError>(options.workers >= 0, "expected workers >= 0, got ", options.workers);
  check<ValueError>(options.prefetch >= 1, "expected prefetch >= 1, got ", options.prefetch);
  check<ValueError>(!options.sampler || !options.shuffle,
                    "expected a sampler or shuffle, got both: the sampler sets the order");
  sampler_ = make_sampler(dataset.size(), options);
  copier_ = std::make_shared<BatchCopier>(dataset, options);
}

std::int64_t DataLoader::size() const {
  const std::int64_t n = sampler_->size(), b = options_.batch_size;
  return n / b + (n % b && !options_.drop_last ? 1 : 0);
}

DataLoader::Iterator DataLoader::begin() {
  return Iterator(std::make_shared<Iterator::Epoch>(*dataset_, copier_, *sampler_, options_, size(), next_.take()));
}

void DataLoader::set_position(std::int64_t epoch, std::int64_t batch) {
  const memory::Op<"DataLoader"> op;
  next_ = Position::in(epoch, batch, size());
}

DataLoader::Iterator::Iterator(std::shared_ptr<Epoch> epoch) : epoch_(std::move(epoch)) { ++*this; }

DataLoader::Iterator& DataLoader::Iterator::operator++() {
  batch_ = {};
  at_end_ = !epoch_->next(batch_);
  return *this;
}

}  // namespace bytetape::data
