#include "bytetape/data/loader.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <numeric>
#include <span>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "bytetape/core/backend.h"
#include "bytetape/core/memory/out_of_memory.h"
#include "bytetape/core/philox.h"
#include "bytetape/core/transfer.h"

namespace bytetape::data {
namespace {

/// 0 .. n - 1 in Fisher and Yates's random order. The upper half of the seed's Philox stream is the shuffles' own, so
/// that a Generator of the same seed shares no bits with them.
std::vector<std::int64_t> make_order(std::int64_t n, const DataLoaderOptions& options, std::uint64_t epoch) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  if (!options.shuffle) return order;
  const std::uint64_t start = std::uint64_t{1} << 63 | epoch << 40;
  for (std::size_t left = order.size(); left > 1; --left) {
    const auto word = philox(options.seed, start + left);
    const std::uint64_t bits = std::uint64_t{word[0]} << 32 | word[1];
    std::swap(order[left - 1], order[bits % left]);
  }
  return order;
}

}  // namespace

/// One pass over the data: a ring of batches (the wanted one and those ahead of it), which the iterating thread
/// allocates and takes in order, and the workers fill in between.
class DataLoader::Iterator::Epoch {
 public:
  Epoch(const Dataset& dataset, const DataLoaderOptions& options, std::int64_t batches, std::uint64_t epoch)
      : dataset_(dataset),
        device_(options.device),
        loads_on_(options.device.type == DeviceType::cpu ? options.device
                  : options.device.is_meta               ? Device::meta()
                                                         : Device::cpu()),
        batch_size_(options.batch_size),
        batches_(batches),
        order_(make_order(dataset.size(), options, epoch)),
        ring_(options.workers ? std::min<std::size_t>(static_cast<std::size_t>(options.prefetch) + 1, batches) : 0) {
    const auto workers = std::min<std::size_t>(static_cast<std::size_t>(options.workers), ring_.size());
    for (std::size_t i = 0; i < workers; ++i)
      workers_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }

  /// The next batch; false at the end.
  bool next(Batch& out) {
    if (taken_ == batches_) return false;
    out = on_device(ring_.empty() ? load_here() : take());
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
    return dataset_.allocate(static_cast<std::int64_t>(indices(batch).size()), loads_on_);
  }
  /// A batch as it is handed out.
  Batch on_device(Batch loaded) const {
    if (loads_on_ == device_) return loaded;
    const memory::PhaseScope phase(memory::Phase::data);
    Batch b = dataset_.allocate(loaded.x.size(0), device_);
    const memory::Op<"DataLoader"> op;
    copy_across(loaded.x.read(), b.x.write());
    copy_across(loaded.y.read(), b.y.write());
    return b;
  }
  Job& job(std::int64_t batch) { return ring_[static_cast<std::size_t>(batch) % ring_.size()]; }

  Batch load_here() {
    Batch b = allocate(taken_);
    dataset_.load(indices(taken_++), b);
    return b;
  }

  Batch take() {
    schedule();
    Job got;
    {
      std::unique_lock lock(mutex_);
      done_.wait(lock, [&] { return job(taken_).done; });
      got = std::exchange(job(taken_), {});
    }
    ++taken_;
    if (got.error) std::rethrow_exception(got.error);
    return std::move(got.batch);
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
        return;  // no room to load ahead: tried again once the batch is wanted
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
  const Device device_, loads_on_;
  const std::int64_t batch_size_, batches_;
  const std::vector<std::int64_t> order_;
  std::int64_t taken_ = 0;  // by the iterating thread

  std::mutex mutex_;  // guards what follows; a job that is started and not done is its worker's alone
  std::condition_variable_any wanted_, done_;
  std::vector<Job> ring_;
  std::int64_t scheduled_ = 0, started_ = 0;
  std::vector<std::jthread> workers_;  // last, so that they are joined before anything they use goes
};

DataLoader::DataLoader(const Dataset& dataset, const DataLoaderOptions& options)
    : dataset_(&dataset), options_(options) {
  const memory::Op<"DataLoader"> op;
  check<ValueError>(dataset.size() >= 0, "the dataset says that it has ", dataset.size(), " samples");
  check<ValueError>(options.batch_size >= 1, "expected batch_size >= 1, got ", options.batch_size);
  check<ValueError>(options.workers >= 0, "expected workers >= 0, got ", options.workers);
  check<ValueError>(options.prefetch >= 1, "expected prefetch >= 1, got ", options.prefetch);
  memory::allocator(options.device);  // is there such a device?
}

std::int64_t DataLoader::size() const {
  const std::int64_t n = dataset_->size(), b = options_.batch_size;
  return n / b + (n % b && !options_.drop_last ? 1 : 0);
}

DataLoader::Iterator DataLoader::begin() {
  return Iterator(std::make_shared<Iterator::Epoch>(*dataset_, options_, size(), epoch_++));
}

DataLoader::Iterator::Iterator(std::shared_ptr<Epoch> epoch) : epoch_(std::move(epoch)) { ++*this; }

DataLoader::Iterator& DataLoader::Iterator::operator++() {
  batch_ = {};
  at_end_ = !epoch_->next(batch_);
  return *this;
}

}  // namespace bytetape::data
