#include "bytetape/core/memory/recording.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

#include "bytetape/core/error.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/allocators.h"
#include "bytetape/core/memory/ceilings.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/core/memory/recording/recorder.h"
#include "bytetape/core/memory/recording/step_timer.h"
#include "bytetape/core/memory/recording/work_counter.h"
#include "bytetape/core/memory/work.h"

namespace bytetape::memory {
namespace {

/// The allocators of the process, and the recorder of their events.
struct Registry {
  std::mutex mutex;
  std::vector<Allocator*> allocators;
  Recorder* recorder = nullptr;      // recorder of a recording
  Recorder* running = nullptr;       // recorder of a recording or a prediction
  std::shared_ptr<StepTimer> timer;  // of a recording with device times
  std::string path, predicted_to;    // files of a recording and a prediction, as given; "" if none runs
  std::string file;                  // absolute form of `path`
  std::string finished;              // file of the last finished recording; "" before the first
};
Registry& registry() {
  static Registry* r = new Registry;  // outlives every static allocator
  return *r;
}

/// Returns the name of the program as it was called, without its folder.
std::string name_of_process() {
  std::string name;
  std::getline(std::ifstream("/proc/self/cmdline"), name, '\0');
  return std::filesystem::path(name).filename();
}

/// Returns the absolute path, because the program may change its folder.
std::string absolute(const std::string& path) {
  std::error_code failed;
  const std::filesystem::path whole = std::filesystem::absolute(path, failed);
  return failed ? path : whole.string();
}

bool is_there(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

/// The ceilings that a recording keeps, so that readers of the file need no other one.
std::vector<Ceilings> ceilings_for(const RecordingOptions& options) {
  if (!options.ceilings.empty()) return read_ceilings(options.ceilings);
  const std::string file = default_ceilings_file();
  try {
    return is_there(file) ? read_ceilings(file) : std::vector<Ceilings>();
  } catch (const FileError&) {
    if (std::getenv("BYTETAPE_CEILINGS")) throw;
    return {};  // nobody named the file, and the recording is worth more
  }
}

// The registry is not locked while a timer waits, because timers list the allocators.
std::shared_ptr<StepTimer> running_timer() {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  return r.timer;
}

}  // namespace

void enlist(Allocator& a) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  r.allocators.push_back(&a);
  if (r.recorder) r.recorder->attach(a);
}

void delist(Allocator& a) {
  if (const auto timer = running_timer()) timer->forget(a);
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  if (r.recorder) r.recorder->detach(a);
  work_counter().forget(a);
  std::erase(r.allocators, &a);
}

void note_limit(const Allocator& a) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  if (r.running) r.running->note_limit(a);
}

void note_step(const Allocator& a, std::uint32_t number, bool begins) {
  if (!marks().counts_here()) return;
  if (begins)
    work_counter().begin(a, number);
  else
    work_counter().end(a, number);
  const std::shared_ptr<StepTimer> timer = a.device().is_meta ? nullptr : running_timer();
  if (!timer) return;
  if (begins)
    timer->begin(a, number);
  else
    timer->end(a, number);
}

void each_allocator(const std::function<void(Allocator&)>& f) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  for (Allocator* a : r.allocators) f(*a);
}

std::unique_ptr<Recorder> start_recorder(const std::string& path, const std::string& program, const MetaAllocators* of,
                                         const RecordingOptions& options) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  check<ValueError>(r.predicted_to.empty(), "a prediction is being recorded to '", r.predicted_to,
                    "': wait until it ends");
  check<ValueError>(r.path.empty(), "a recording to '", r.path, "' is already running: finish() it first");
  const std::string what = program.empty() ? name_of_process() + (of ? ", predicted" : "") : program;
  std::shared_ptr<StepTimer> timer;
  if (options.device_times_every) timer = std::make_shared<StepTimer>(device_timer(), options.device_times_every);
  const std::vector<Ceilings> ceilings = ceilings_for(options);
  auto recorder = std::make_unique<Recorder>(path, what, of, timer);
  recorder->add_ceilings(ceilings);
  if (!of) {
    r.file = absolute(path);
    r.recorder = recorder.get();
    for (Allocator* a : r.allocators) recorder->attach(*a);
  }
  r.running = recorder.get();
  (of ? r.predicted_to : r.path) = path;
  r.timer = std::move(timer);
  work_counter().start();
  ++work_counters;
  is_recording = true;
  return recorder;
}

// Finishes a recorder. No other one may begin before its file is complete, because threads still hold its events.
void finish_recorder(std::unique_ptr<Recorder> recorder) {
  struct Ends {
    ~Ends() {
      Registry& r = registry();
      const std::lock_guard lock(r.mutex);
      if (!r.path.empty()) r.finished = r.file;
      r.path.clear();
      r.predicted_to.clear();
    }
  } const ends;
  is_recording = false;
  --work_counters;
  work_counter().stop();
  recorder->stop_device_times();
  {
    Registry& r = registry();
    const std::lock_guard lock(r.mutex);
    r.timer = nullptr;
    if (r.recorder)
      for (Allocator* a : r.allocators) recorder->detach(*a);
    r.recorder = r.running = nullptr;
  }
  recorder->finish();
}

Recording::Recording(const std::string& path, const std::string& program, const RecordingOptions& options)
    : path_(path), recorder_(start_recorder(path, program, nullptr, options)) {}

Recording::~Recording() {
  try {
    finish();
  } catch (const std::exception&) {}  // the header documents it
}

void Recording::finish() {
  if (recorder_) finish_recorder(std::move(recorder_));
}

void Recording::flush() {
  if (!recorder_) return;
  if (const auto timer = running_timer()) timer->flush();
  recorder_->flush();
}

Log log_so_far() {
  if (const auto timer = running_timer()) timer->flush();
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  if (r.recorder) {
    r.recorder->flush();
    Log log = read_log(r.file);
    log.complete = true;  // the ledgers' logs are not cut off
    for (const Allocator* a : r.allocators) {
      const auto its = std::ranges::find(log.devices, a->name(), &DeviceLog::name);
      if (its == log.devices.end()) continue;
      its->outside = a->outside();
      its->external = a->external();
    }
    return log;
  }
  if (is_there(r.finished)) return read_log(r.finished);
  std::vector<Snapshot> ledgers;
  for (const Allocator* a : r.allocators) ledgers.push_back(a->snapshot());
  std::erase_if(ledgers, [](const Snapshot& s) { return s.events.empty(); });
  return log_of(ledgers, name_of_process());
}

std::string recording_path() {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  return r.path;
}

}  // namespace bytetape::memory
