#include "bytetape/core/device/capture.h"

#include <cstring>
#include <utility>

#include "bytetape/core/device/backend.h"
#include "bytetape/core/memory/allocator/pool.h"
#include "bytetape/core/memory/ledger/scope.h"

namespace bytetape::detail {

void note_use(StepWatch& watch, Storage& s) { watch.used(s); }
void note_write(StepWatch& watch, Storage& s) { watch.written(s); }

void fail_in_capture(std::string_view what) { fail<CaptureError>("a captured step cannot be one that ", what); }

bool is_recorded(const memory::Block* block) {
  return memory::is_in_pool(block) && !(core_ambient.capture && core_ambient.capture->owns(block));
}

void DeviceFinder::used(Storage& s) {
  if (!backend(s.device()).record) return;
  several_ = several_ || (device_ && *device_ != s.device());
  device_ = s.device();
}

const void* ReplayParams::add(std::size_t bytes, std::function<void(void*)> update, std::function<void()> check) {
  static const memory::NameId name = memory::intern("captured_step");
  const memory::ScopeGuard scope(memory::ambient.scope.with(0, name, memory::ambient.scope.phase));
  const memory::OutsidePools outside;
  if (!block_) block_ = make_ref<Storage>(capacity * sizeof(std::uint64_t), device_, memory::Role::workspace);
  const std::size_t first = words_.size(), words = (bytes + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t);
  bytetape::check<CaptureError>(first + words <= capacity, "a captured step has too many optimizers and generators: ",
                                "what changes from step to step must fit ", capacity * sizeof(std::uint64_t), " bytes");
  words_.resize(first + words);
  entries_.push_back({first, std::move(update), std::move(check)});
  return static_cast<const std::uint64_t*>(block_->data()) + first;
}

void ReplayParams::check() const {
  for (const Entry& e : entries_) e.check();
}

void ReplayParams::update() {
  for (const Entry& e : entries_) e.update(words_.data() + e.first);
}

void ReplayParams::send() {
  if (block_) block_->before_write();
  if (words_ == sent_) return;
  const std::size_t bytes = words_.size() * sizeof(std::uint64_t);
  memory::allocator(device_).note_traffic(memory::EventKind::to_device, bytes);
  if (!device_.is_meta) backend(device_).transfer({words_.data(), Device::cpu()}, {block_->data(), device_}, bytes);
  sent_ = words_;
}

namespace {
/// The last to be done is the first to be taken back.
void run_backwards(const std::vector<std::function<void()>>& all) {
  for (auto f = all.rbegin(); f != all.rend(); ++f) (*f)();
}
}  // namespace

Capture::Capture(Device device, const memory::Pool& pool)
    : device_(device), pool_(pool), replay_params_(std::make_unique<ReplayParams>(device)) {
  core_ambient.capture = this;
}
Capture::~Capture() { core_ambient.capture = nullptr; }

void Capture::used(Storage& s) {
  if (s.device() == device_) {
    if (owns(s.block())) return;
    s.disallow_eviction();
    held_.add(s);
  } else if (device_.is_meta || !s.device().is_meta) {  // where a device is recorded, what is meta is no part of it
    fail_in_capture(concat("uses memory of ", s.device(), ", which replaying it on ", device_,
                           " leaves out: pass what it reads to the step, on ", device_,
                           ", and read outside what it returns"));
  }
}

void Capture::written(Storage& s) {
  if (stand_ins_.contains(&s))
    fail_in_capture("writes to an input, of which a replay has a copy: clone it, and write to that");
  if (s.is_dropped())
    updated_.add(s);
  else if (!owns(s.block()))
    written_.add(s);
}

bool Capture::owns(const memory::Block* block) const { return pool_.owns(block); }

void Capture::uses_shadow(Storage& s, const Storage::Shadow& shadow) {
  for (const auto& known : autocast_copies_)
    if (known.shadow.storage == shadow.storage) return;
  autocast_copies_.push_back({Ref<Storage>(&s), shadow, false});
}

PhiloxState Capture::drawn_from(const std::shared_ptr<Generator::Place>& place, const PhiloxState& now) {
  for (const auto& d : drawn_)
    if (d->place == place) return {0, now.offset - d->start.offset, d->replay_params};
  auto d = std::make_shared<Drawn>(Drawn{place, now});
  on_end([d] {
    std::lock_guard lock(d->place->mutex);
    d->count = d->place->state.offset - d->start.offset;
    d->place->state = d->start;
  });
  d->replay_params =
      static_cast<const PhiloxState*>(replay_params_->add(sizeof(PhiloxState), [d, at = device_](void* out) {
        std::lock_guard lock(d->place->mutex);
        PhiloxState& stands = at.is_meta ? d->start : d->place->state;
        std::memcpy(out, &stands, sizeof(PhiloxState));
        stands.offset += d->count;
      }));
  drawn_.push_back(d);
  return {0, 0, d->replay_params};
}

void Capture::undo() {
  core_ambient.capture = nullptr;
  run_backwards(take_back_);
  run_backwards(undo_);
}

Capture::Result Capture::finish() {
  core_ambient.capture = nullptr;
  run_backwards(take_back_);
  Result r;
  r.replay_params = std::move(replay_params_);
  for (auto& copy : autocast_copies_) {
    const Storage::Shadow& last = copy.of->shadow();
    copy.is_written = last.storage == copy.shadow.storage && last.version == copy.of->version() &&
                      written_.contains(last.storage.get());
    r.autocast_copies.push_back(std::move(copy));
  }
  r.held = held_.take();
  r.written = written_.take();
  r.updated = updated_.take();
  r.leaves = std::move(leaves_);
  r.host_copies = std::move(host_copies_);
  return r;
}

}  // namespace bytetape::detail
