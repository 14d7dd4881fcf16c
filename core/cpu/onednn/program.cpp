#include "bytetape/core/cpu/onednn/program.h"

#include <cstdlib>
#include <list>
#include <unordered_map>

#include "bytetape/core/error.h"
#include "bytetape/core/integers.h"
#include "bytetape/core/parallel.h"

namespace bytetape::cpu::onednn {

bool is_unrepeatable(std::string_view implementation, Computes computes) {
  const auto has = [&](std::string_view part) { return implementation.find(part) != std::string_view::npos; };
  if (computes == Computes::product) return has("gemm");
  constexpr int wide = static_cast<int>(dnnl::cpu_isa::avx512_core);  // one bit per instruction set up to it
  if ((static_cast<int>(dnnl::get_effective_cpu_isa()) & wide) == wide) return false;
  return has("gemm") || (computes == Computes::weight_grad && has("1x1"));
}
namespace {

constexpr std::size_t alignment = 64, most_programs = 128;

dnnl::stream& stream() {
  thread_local dnnl::stream s(engine());
  return s;
}

/// Limits oneDNN's cache of 1024 primitives. Their compiled code, some 70 KB each, is on no ledger.
void bound_compiled_code() {
  for (const char* users : {"ONEDNN_PRIMITIVE_CACHE_CAPACITY", "DNNL_PRIMITIVE_CACHE_CAPACITY"})
    if (std::getenv(users)) return;
  constexpr int most_primitives = 2 * most_programs;  // a program may also contain reorders
  dnnl::set_primitive_cache_capacity(most_primitives);
}

struct Hash {
  std::size_t operator()(const Key& key) const { return key.hash(); }
};

}  // namespace

const dnnl::engine& engine() {
  static const dnnl::engine e = [] {
    bound_compiled_code();
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return e;
}

const dnnl::primitive_attr& user_scratchpad() {
  static const dnnl::primitive_attr attr = [] {
    dnnl::primitive_attr a;
    a.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return a;
  }();
  return attr;
}

Program::Slot Program::argument(const dnnl::memory::desc& desc) {
  slots_.push_back({desc, dnnl::memory(desc, engine(), nullptr), true, 0});
  return static_cast<Slot>(slots_.size()) - 1;
}

Program::Slot Program::scratch(const dnnl::memory::desc& desc) {
  slots_.push_back({desc, dnnl::memory(desc, engine(), nullptr), false, workspace_bytes_});
  workspace_bytes_ += round_up(desc.get_size(), alignment);
  return static_cast<Slot>(slots_.size()) - 1;
}

void Program::reorder(Slot from, Slot to) {
  const dnnl::reorder::primitive_desc d(engine(), desc(from), engine(), desc(to), user_scratchpad());
  step(d, dnnl::reorder(d), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

Program::Slot Program::read_as(Slot slot, const dnnl::memory::desc& wanted) {
  if (desc(slot) == wanted) return slot;
  const Slot copy = scratch(wanted);
  reorder(slot, copy);
  return copy;
}

void Program::add(const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad, const Arguments& args) {
  Step step{primitive, {}};
  for (const auto& [name, slot] : args)
    step.args.push_back({name, slots_[static_cast<std::size_t>(slot)].memory.get()});
  if (scratchpad.get_size() > 0)
    step.args.push_back({DNNL_ARG_SCRATCHPAD, slots_[static_cast<std::size_t>(scratch(scratchpad))].memory.get()});
  steps_.push_back(std::move(step));
}

void Program::run(std::initializer_list<const void*> arguments, void* workspace) try {
  const void* const* next = arguments.begin();
  for (const SlotInfo& s : slots_)
    s.memory.set_data_handle(s.is_argument ? const_cast<void*>(*next++) : static_cast<char*>(workspace) + s.offset);
  // The C function, because the C++ one would build a hash map of the arguments.
  for (const Step& s : steps_)
    dnnl::error::wrap_c_api(
        dnnl_primitive_execute(s.primitive.get(), stream().get(), static_cast<int>(s.args.size()), s.args.data()),
        "could not execute a primitive");
} catch (const dnnl::error& e) { fail<Error>("oneDNN: ", e.what()); }

Key::Key(Kind kind) {
  add(static_cast<std::int64_t>(kind));
  add(num_threads());
}

std::size_t Key::hash() const {  // FNV-1a, a word at a time
  std::uint64_t h = 0xcbf29ce484222325;
  for (std::size_t i = 0; i < size_; ++i) h = (h ^ static_cast<std::uint64_t>(values_[i])) * 0x100000001b3;
  return h ^ (h >> 32);
}

namespace {

/// Programs by key. Holds the `most_programs` that were used last.
class ProgramCache {
 public:
  const std::shared_ptr<Program>& get(const Key& key, const std::function<Program()>& make) {
    if (const auto found = places_.find(key); found != places_.end()) {
      by_use_.splice(by_use_.begin(), by_use_, found->second);
    } else {
      by_use_.emplace_front(key, std::make_shared<Program>(make()));
      places_.emplace(key, by_use_.begin());
      if (by_use_.size() > most_programs) drop_last();
    }
    return by_use_.front().second;
  }

 private:
  void drop_last() {
    places_.erase(by_use_.back().first);
    by_use_.pop_back();
  }

  using Programs = std::list<std::pair<Key, std::shared_ptr<Program>>>;
  Programs by_use_;  // the most recently used first
  std::unordered_map<Key, Programs::iterator, Hash> places_;
};

ProgramCache& programs() {
  // One cache per thread needs no lock, and lets a program rebind its memory objects. oneDNN shares the compiled code.
  thread_local ProgramCache cache;
  return cache;
}

}  // namespace

Plan plan_program(const Key& key, const std::function<Program()>& make, std::size_t copies) try {
  const auto& program = programs().get(key, make);
  return {.workspace = copies + program->workspace_bytes(), .program = program};
} catch (const dnnl::error& e) { fail<Error>("oneDNN: ", e.what()); }

}  // namespace bytetape::cpu::onednn
