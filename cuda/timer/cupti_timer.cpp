#include "bytetape/cuda/timer/cupti_timer.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#include "bytetape/core/memory/ambient.h"
#include "bytetape/core/memory/ledger/track.h"
#include "bytetape/cuda/ambient.h"
#include "bytetape/cuda/runtime/runtime.h"
#include "bytetape/cuda/timer/activities.h"
#include "bytetape/cuda/timer/launch_calls.h"
#include "bytetape/cuda/timer/replaced_node.h"
#include "bytetape/cuda/timer/timer.h"

namespace bytetape::cuda {
namespace {

constexpr CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                        CUPTI_ACTIVITY_KIND_MEMCPY2,  // between devices
                                        CUPTI_ACTIVITY_KIND_MEMSET};
constexpr CUpti_CallbackIdResource node_callbacks[] = {CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED,
                                                       CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED};
std::atomic<CuptiTimer*> running{nullptr};  // while a recording has device times
std::atomic<bool> is_collecting{false};

constexpr std::size_t buffer_bytes = std::size_t{1} << 20;  // records of about 5000 kernels

// ---- CUPTI calls these functions

std::uint64_t CUPTIAPI clock_of_recordings() { return memory::now(); }

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, buffer_bytes));
  *size = *buffer ? buffer_bytes : 0;
  *most_records = 0;  // no limit
}

void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  CuptiTimer& timer = cupti_timer();
  timer.guarded([&] { timer.take(buffer, valid); });
  std::free(buffer);
}

/// Returns a node's number in records; 0 if it has none.
std::uint64_t number_of(CUgraphNode node) {
  std::uint64_t number = 0;
  return cupti().GetGraphNodeId(node, &number) == CUPTI_SUCCESS ? number : 0;
}

/// Instantiating a graph creates nodes too. Only those of a recording belong to the running scope.
void on_node(CuptiTimer& timer, CUpti_CallbackId id, const CUpti_ResourceData& resource) {
  const auto* graph = static_cast<const CUpti_GraphData*>(resource.resourceDescriptor);
  if (!graph) return;
  if (id == CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED && ambient.recording.streams)
    timer.scopes().add_node(number_of(graph->node), memory::ambient.scope);
  if (id == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED)
    timer.scopes().add_copy(number_of(graph->node), number_of(graph->originalNode));
}

void on_launch(CuptiTimer& timer, const CUpti_CallbackData& call) {
  if (call.callbackSite != CUPTI_API_ENTER) return;
  if (const memory::TimedStep step = timer.step(); step.number)
    timer.scopes().add_launch(call.correlationId, {memory::ambient.scope, step});
}

void CUPTIAPI on_callback(void* of, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
  auto& timer = *static_cast<CuptiTimer*>(of);
  timer.guarded([&] {
    if (domain == CUPTI_CB_DOMAIN_RESOURCE)
      on_node(timer, id, *static_cast<const CUpti_ResourceData*>(data));
    else
      on_launch(timer, *static_cast<const CUpti_CallbackData*>(data));
  });
}

}  // namespace

CuptiTimer::CuptiTimer() : launches_(launch_calls()) {}

void CuptiTimer::start(Listener listener) {
  scopes_.clear();
  take_failure();
  taken_ = std::chrono::steady_clock::now();
  check_cupti(cupti().Subscribe(&subscriber_, on_callback, this), "start");
  guarded([&] {
    register_once();
    for (const CUpti_CallbackIdResource id : node_callbacks)
      check_cupti(cupti().EnableCallback(1, subscriber_, CUPTI_CB_DOMAIN_RESOURCE, id), "watch recorded graphs");
    collect(true);  // here, because the first time takes long
    collect(false);
  });
  if (const std::exception_ptr failure = take_failure()) {
    guarded([&] { collect(false); });
    cupti().Unsubscribe(subscriber_);
    std::rethrow_exception(failure);
  }
  const std::lock_guard lock(mutex_);
  listener_ = std::move(listener);
  running = this;
}

// CUPTI's callbacks are the process's. They are not touched while another tool has subscribed, because its buffers
// would be freed by take_buffer().
void CuptiTimer::register_once() {
  if (is_registered_) return;
  check_cupti(cupti().ActivityRegisterTimestampCallback(clock_of_recordings), "set the clock");
  check_cupti(cupti().ActivityRegisterCallbacks(give_buffer, take_buffer), "collect records");
  is_registered_ = true;
}

void CuptiTimer::begin() {
  pending_.clear();
  guarded([&] { collect(true); });
}

// Work that was launched may still run. CUPTI makes its records all the same, and those of later steps, which the host
// may launch long before they run, would slow them.
void CuptiTimer::end() {
  guarded([&] {
    collect(false);
    has_records_ = true;
    pending_.mark();
  });
}

// Taking records slows a step that is timed. So it waits for the end of timed work, but not for long: steps may be
// timed without a pause, and the device may be far behind.
void CuptiTimer::poll() {
  using namespace std::chrono_literals;
  if (!is_collecting && !has_records_) return;
  const bool is_done = !is_collecting && pending_.is_done();
  const auto now = std::chrono::steady_clock::now();
  if (!is_done && now < taken_ + 1s) return;
  taken_ = now;
  if (is_done) has_records_ = false;
  guarded([&] { take_records(0); });
}

void CuptiTimer::flush() {
  guarded([&] {
    if (is_collecting) pending_.mark();
    pending_.wait();
    take_records(is_collecting ? 0 : CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    has_records_ = false;
  });
}

void CuptiTimer::stop() {
  running = nullptr;
  guarded([&] { collect(false); });
  has_records_ = false;
  pending_.clear();
  {
    const std::lock_guard lock(mutex_);
    listener_.reset();
  }
  guarded([&] { check_cupti(cupti().Unsubscribe(subscriber_), "stop"); });
  scopes_.clear();
  if (const std::exception_ptr failure = take_failure()) std::rethrow_exception(failure);
}

/// Begins or ends the collection of records and of the scopes of launches.
void CuptiTimer::collect(bool on) {
  if (is_collecting == on) return;
  CUptiResult first_failure = CUPTI_SUCCESS;
  const auto note = [&](CUptiResult status) {  // goes on, so that nothing stays on after a failure
    if (first_failure == CUPTI_SUCCESS) first_failure = status;
  };
  is_collecting = false;  // other threads read it, and CUPTI must collect while it is set
  for (const CUpti_ActivityKind kind : kinds) note((on ? cupti().ActivityEnable : cupti().ActivityDisable)(kind));
  for (const auto& [domain, id] : launches_) note(cupti().EnableCallback(on, subscriber_, domain, id));
  is_collecting = on;
  check_cupti(first_failure, "time work");
}

void CuptiTimer::take_records(std::uint32_t flags) { check_cupti(cupti().ActivityFlushAll(flags), "take records"); }

std::exception_ptr CuptiTimer::take_failure() {
  const std::lock_guard lock(mutex_);
  return std::exchange(failure_, nullptr);
}

void CuptiTimer::note_failure() {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::current_exception();
}

void CuptiTimer::take(std::uint8_t* buffer, std::size_t bytes) {
  std::vector<memory::TimedWork> work = work_in(buffer, bytes, scopes_);
  if (work.empty()) return;
  const std::lock_guard lock(mutex_);
  if (listener_) listener_->deliver(std::move(work));
}

memory::TimedStep CuptiTimer::step() {
  const std::lock_guard lock(mutex_);
  return listener_ ? listener_->step() : memory::TimedStep{};
}

CuptiTimer& cupti_timer() {
  static auto& timer = *new CuptiTimer;  // never destroyed, because CUPTI's thread may call at the end
  return timer;
}

memory::DeviceTimer& device_timer() {
  check_there(0);
  return cupti_timer();
}

bool is_timing_steps() { return running != nullptr; }

bool times_launches() { return is_collecting && cupti_timer().step().number != 0; }

void note_replaced_node(cudaGraphNode_t old, cudaGraphNode_t by) {
  if (CuptiTimer* const timer = running) timer->scopes().add_copy(number_of(by), number_of(old));
}

}  // namespace bytetape::cuda
