// Collectives on GPUs' memory, by NCCL. It combines values in an order that depends on the algorithm. With the same
// version, GPUs and number of ranks, the ring has the same order in every run, so results have the same bits. NCCL_ALGO
// in the environment overrides the ring.
#include <nccl.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <future>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "bytetape/core/error.h"
#include "bytetape/core/kernels/collective.h"
#include "bytetape/cuda/ambient.h"
#include "bytetape/cuda/collective/rank_faults.h"
#include "bytetape/cuda/plans.h"
#include "bytetape/cuda/runtime/launch.h"
#include "bytetape/cuda/runtime/lost.h"
#include "bytetape/cuda/runtime/runtime.h"
#include "bytetape/cuda/runtime/streams.h"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

using Clock = std::chrono::steady_clock;
static_assert(sizeof(ConnectionId) == sizeof(ncclUniqueId));

void check(ncclResult_t status, const char* what) {
  if (status != ncclSuccess && status != ncclInProgress) [[unlikely]]
    fail<DistributedError>("NCCL: ", what, " failed: ", ncclGetErrorString(status), "; ", ncclGetLastError(nullptr));
}

ncclDataType_t nccl_type(DType t) {
  switch (t) {
    case DType::f64:
      return ncclFloat64;
    case DType::f32:
      return ncclFloat32;
    case DType::bf16:
      return ncclBfloat16;
    case DType::f16:
      return ncclFloat16;
    case DType::i64:
      return ncclInt64;
    case DType::i32:
      return ncclInt32;
    case DType::u8:
    case DType::boolean:
      return ncclUint8;
  }
  return ncclUint8;
}

ncclRedOp_t nccl_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return ncclSum;
    case ReduceOp::average:
      return ncclAvg;
    case ReduceOp::min:
      return ncclMin;
    case ReduceOp::max:
      return ncclMax;
    case ReduceOp::product:
      return ncclProd;
  }
  return ncclSum;
}

/// Calls f at its end.
template <class F>
class AtEnd {
 public:
  explicit AtEnd(F f) : f_(std::move(f)) {}
  ~AtEnd() { f_(); }
  AtEnd(const AtEnd&) = delete;
  AtEnd& operator=(const AtEnd&) = delete;

 private:
  F f_;
};

/// A connection, which graphs that contain its collectives keep. It may be aborted while another thread waits for the
/// device.
class Connection {
 public:
  explicit Connection(ncclComm_t comm) : comm_(comm) {}
  /// Waits for the other ranks to end theirs, unless an exception is on its way: then another rank may never come.
  ~Connection() {
    const ncclComm_t comm = comm_.exchange(nullptr);
    if (!comm) return;
    if (std::uncaught_exceptions() > 0)
      std::thread([comm] { ncclCommAbort(comm); }).detach();
    else
      ncclCommDestroy(comm);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Throws DistributedError if it was aborted.
  ncclComm_t get() const {
    const ncclComm_t comm = comm_;
    bytetape::check<DistributedError>(comm != nullptr, "an earlier collective of this process failed");
    return comm;
  }
  void abort() {
    if (const ncclComm_t comm = comm_.exchange(nullptr)) ncclCommAbort(comm);
  }

 private:
  std::atomic<ncclComm_t> comm_;
};

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(Device device, ncclComm_t comm) : device_(device), connection_(std::make_shared<Connection>(comm)) {}
  ~NcclCommunicator() override {
    for (const Launched& l : launched_) cudaEventDestroy(l.event);
    for (const cudaEvent_t event : spare_) cudaEventDestroy(event);
  }

  void run(const CollectiveArgs& a, Workspace) override {
    const std::lock_guard one_at_a_time(calls_);
    const cudaStream_t stream = stream_of(device_);
    const ConstView& v = a.x.defined() ? a.x : a.y;
    ++number_;
    if (ambient.recording.streams) {
      keep_for_recording(device_.index, connection_);
      return launch(a, connection_->get(), stream);
    }
    {
      const std::lock_guard lock(mutex_);
      launching_ = Launched{nullptr, number_, a.kind, a.op, v.dtype, v.numel(), Clock::now()};
    }
    const AtEnd end([this] {
      const std::lock_guard lock(mutex_);
      launching_.reset();
    });
    launch(a, connection_->get(), stream);  // the first one may wait for the other ranks
    note_launched(stream);
  }

  std::optional<Unfinished> unfinished() override {
    const std::lock_guard lock(mutex_);
    cudaSetDevice(device_.index);  // before other calls, which on a new thread would make a context on device 0
    const OutsideRecording outside;
    forget_finished();
    if (launched_.empty() && !launching_) return std::nullopt;
    const Launched& first = launched_.empty() ? *launching_ : launched_.front();
    const bool reduces = first.kind == Collective::all_reduce || first.kind == Collective::reduce_scatter;
    return Unfinished{
        .number = first.number,
        .text = bytetape::detail::concat(name_of(first.kind), reduces ? " (" : "", reduces ? name_of(first.op) : "",
                                         reduces ? ")" : "", " of ", first.dtype, ", ", first.numel, " elements"),
        .waiting = Clock::now() - first.at};
  }

  /// If run() is in NCCL, it waits for ranks that may never come, and the connection ends below it.
  void abort(const std::string& why) override {
    note_lost(device_.index, why);
    const std::unique_lock calls(calls_, std::chrono::seconds(1));
    connection_->abort();
  }

 private:
  struct Launched {
    cudaEvent_t event;
    std::uint64_t number;
    Collective kind;
    ReduceOp op;
    DType dtype;
    std::int64_t numel;
    Clock::time_point at;
  };

  static void launch(const CollectiveArgs& a, ncclComm_t comm, cudaStream_t stream);
  void note_launched(cudaStream_t stream) {
    const std::lock_guard lock(mutex_);
    forget_finished();
    if (spare_.empty()) cuda::check(cudaEventCreateWithFlags(&spare_.emplace_back(), cudaEventDisableTiming));
    cuda::check(cudaEventRecord(spare_.back(), stream));
    launched_.push_back(*launching_);
    launched_.back().event = spare_.back();
    spare_.pop_back();
  }
  static void exchange_parts(const CollectiveArgs& a, ncclComm_t comm, cudaStream_t stream);
  void forget_finished() {
    while (!launched_.empty()) {
      const cudaError_t status = cudaEventQuery(launched_.front().event);
      if (status == cudaErrorNotReady) cudaGetLastError();  // must not be reported by the next launch
      if (status != cudaSuccess) return;
      spare_.push_back(launched_.front().event);
      launched_.pop_front();
    }
  }

  const Device device_;
  const std::shared_ptr<Connection> connection_;
  std::timed_mutex calls_;  // locked while NCCL is called
  std::uint64_t number_ = 0;
  std::mutex mutex_;                   // guards the members below
  std::optional<Launched> launching_;  // the collective that run() gives to NCCL
  std::deque<Launched> launched_;      // those not known to be finished, in order
  std::vector<cudaEvent_t> spare_;
};

void NcclCommunicator::launch(const CollectiveArgs& a, ncclComm_t comm, cudaStream_t stream) {
  const ncclDataType_t type = nccl_type(a.x.defined() ? a.x.dtype : a.y.dtype);
  const auto count = [](const auto& v) { return static_cast<std::size_t>(v.numel()); };
  switch (a.kind) {
    case Collective::all_reduce:
      return check(ncclAllReduce(a.x.data(), a.y.data(), count(a.x), type, nccl_op(a.op), comm, stream), "all_reduce");
    case Collective::reduce_scatter:
      return check(ncclReduceScatter(a.x.data(), a.y.data(), count(a.y), type, nccl_op(a.op), comm, stream),
                   "reduce_scatter");
    case Collective::all_gather:
      return check(ncclAllGather(a.x.data(), a.y.data(), count(a.x), type, comm, stream), "all_gather");
    case Collective::all_to_all:
      return exchange_parts(a, comm, stream);
    case Collective::broadcast: {
      const ConstView x = a.x.defined() ? a.x : ConstView(a.y);
      void* const y = a.y.defined() ? a.y.data() : const_cast<void*>(a.x.data());  // the root may only send
      return check(ncclBroadcast(x.data(), y, count(x), type, a.peer, comm, stream), "broadcast");
    }
    case Collective::send:
      return check(ncclSend(a.x.data(), count(a.x), type, a.peer, comm, stream), "send");
    case Collective::recv:
      return check(ncclRecv(a.y.data(), count(a.y), type, a.peer, comm, stream), "recv");
    case Collective::barrier:
      return;  // between the processes, not their devices
  }
}

void NcclCommunicator::exchange_parts(const CollectiveArgs& a, ncclComm_t comm, cudaStream_t stream) {
  const std::size_t part = static_cast<std::size_t>(a.x.numel() / a.size);
  const std::size_t bytes = part * size_of(a.x.dtype);
  const ncclDataType_t type = nccl_type(a.x.dtype);
  check(ncclGroupStart(), "all_to_all");
  for (int r = 0; r < a.size; ++r) {
    const auto at = static_cast<std::size_t>(r) * bytes;
    check(ncclSend(a.x.as<char>() + at, part, type, r, comm, stream), "all_to_all");
    check(ncclRecv(a.y.as<char>() + at, part, type, r, comm, stream), "all_to_all");
  }
  check(ncclGroupEnd(), "all_to_all");
}

/// Sets a variable that NCCL reads, unless the user has.
void prefer(const char* name, const char* value) { setenv(name, value, /*overwrite=*/0); }

ConnectionId new_id() {
  prefer("NCCL_ALGO", "Ring");
  ncclUniqueId made;
  check(ncclGetUniqueId(&made), "ncclGetUniqueId");
  ConnectionId id;
  std::memcpy(id.data(), &made, sizeof id);
  return id;
}

std::uint64_t identity(Device device) {
  cudaDeviceProp properties{};
  cuda::check(cudaGetDeviceProperties(&properties, device.index));
  std::uint64_t halves[2];
  std::memcpy(halves, &properties.uuid, sizeof halves);
  return halves[0] ^ halves[1] * 0x9e3779b97f4a7c15u;  // 2^64 / the golden ratio
}

/// NCCL waits for all ranks without a timeout, and cannot be interrupted. So a thread of its own connects.
std::unique_ptr<Communicator> connect(Device device, const ConnectionId& id, int rank, int size,
                                      std::chrono::milliseconds timeout) {
  prefer("NCCL_ALGO", "Ring");
  stream_of(device);  // opens the device
  const OutsideRecording outside;
  std::promise<ncclComm_t> promise;
  std::future<ncclComm_t> made = promise.get_future();
  std::thread([promise = std::move(promise), device, id, rank, size]() mutable {
    try {
      cuda::check(cudaSetDevice(device.index));
      ncclUniqueId unique;
      std::memcpy(&unique, id.data(), sizeof unique);
      ncclComm_t comm = nullptr;
      check(ncclCommInitRank(&comm, size, unique, rank), "connecting the ranks");
      promise.set_value(comm);
    } catch (...) { promise.set_exception(std::current_exception()); }
  }).detach();
  bytetape::check<DistributedError>(made.wait_for(timeout) == std::future_status::ready, "NCCL: rank ", rank,
                                    " could not connect with the other ranks within ",
                                    std::chrono::duration<double>(timeout).count(), " s");
  return std::make_unique<NcclCommunicator>(device, made.get());
}

void exchange(const CollectiveArgs& a, const Plan&, Workspace ws) { a.communicator->run(a, ws); }

}  // namespace

const CollectiveKernels& collective_kernels() {
  static const CollectiveKernels all = [] {
    CollectiveKernels kernels = collective_plans();
    kernels.exchange.launch = exchange;
    kernels.note_fault = note_fault;
    kernels.leave_fault = leave_fault;
    kernels.new_id = new_id;
    kernels.connect = connect;
    kernels.identity = identity;
    return kernels;
  }();
  return all;
}

}  // namespace bytetape::cuda
