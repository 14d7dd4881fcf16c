// Writes the pages that check_pages.py opens, and what must stand in them. usage: report_pages FOLDER

#include <bytetape/bytetape.h>

#include <fstream>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>

#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/format.h"
#include "bytetape/core/memory/holders.h"
#include "bytetape/core/memory/recording.h"
#include "bytetape/core/memory/replay.h"
#include "bytetape/core/memory/report.h"
#include "bytetape/core/memory/snapshot_of.h"

using namespace bytetape;
using nlohmann::json;

namespace {

struct Block : nn::Module {
  nn::Linear up{256, 512}, down{512, 256};
  Block() {
    register_module("up", up);
    register_module("down", down);
  }
  Tensor forward(const Tensor& x) override { return x + down(relu(up(x))); }
};

struct Net : nn::Module {
  nn::Linear stem{784, 256};
  Block first, second;
  nn::Linear head{256, 10};
  Net() {
    register_module("stem", stem);
    register_module("first", first);
    register_module("second", second);
    register_module("head", head);
  }
  Tensor forward(const Tensor& x) override { return head(second(first(relu(stem(x))))); }
};

/// Steps that keep one constant each, of which the last breaks off in the middle of a large allocation, for a device
/// beside a run in which nothing happened; recorded from within a step.
memory::Log edges(const std::string& folder) {
  const std::string path = folder + "/edges.memlog";
  memory::empty_cache(Device::cpu());
  memory::reset_log(Device::cpu(), memory::Ledger::default_log_capacity);
  const Tensor mask = rand({300}), weight = rand({300}).set_requires_grad();
  auto around = std::make_unique<memory::Step>();
  memory::Recording recording(path, "edges");
  around.reset();
  for (int i = 0; i < 3; ++i) {
    const memory::Step step;
    sum(weight * mask).backward();
  }
  const Tensor last = empty({1 << 20});
  memory::Log log = memory::log_so_far();
  recording.finish();
  auto& records = log.devices[0].records;
  while (records.back().event.kind != memory::EventKind::alloc) records.pop_back();
  return log;
}

/// A recording of four training steps, each of which keeps its loss: a leak.
template <class MakeOptimizer>
memory::Log recorded(
    const std::string& folder, const std::string& program, MakeOptimizer make,
    const std::function<void(int)>& before_step = [](int) {}) {
  const std::string path = folder + "/" + program + ".memlog";
  memory::empty_cache(Device::cpu());
  memory::reset_log(Device::cpu(), memory::Ledger::default_log_capacity);  // steps count from 1
  memory::Recording recording(path, program);
  {
    Net net;
    auto optimizer = make(net.parameters());
    std::vector<Tensor> losses;
    for (int i = 0; i < 4; ++i) {
      before_step(i + 1);
      const memory::Step step;
      optimizer.zero_grad();
      const Tensor x = zeros({64, 784}, DType::f32, Device::cpu(), memory::Role::input);
      const Tensor y = zeros(64, DType::i64, Device::cpu(), memory::Role::input);
      const Tensor loss = cross_entropy(net(x), y);
      loss.backward();
      optimizer.step();
      losses.push_back(loss.detach());
    }
  }
  recording.finish();
  return memory::read_log(path);
}

/// A block that gets its role once it is the peak, in another step.
memory::Log settled(const std::string& folder) {
  const std::string path = folder + "/settled.memlog";
  memory::Recording recording(path, "settled");
  {
    auto step = std::make_unique<memory::Step>();
    const Tensor before = zeros({1 << 18}, DType::f32, Device::cpu(), memory::Role::input);
    const Tensor x = empty({1 << 20});
    step.reset();
    step = std::make_unique<memory::Step>();
    x.storage().set_role(memory::Role::optimizer_state);
  }
  recording.finish();
  return memory::read_log(path);
}

/// A limit a little above what a recording without one reserved, by that and the ballast below; and a lower one.
struct Limits {
  explicit Limits(const memory::Log& unlimited)
      : first(unlimited.devices[0].end->reserved.peak + (std::size_t{2} << 20)),
        second(first - (std::size_t{1} << 20)) {}
  std::size_t first, second;
};

/// A recording as recorded() makes it, under a limit, which is lowered before the third step. The peak comes before.
memory::Log limited(const std::string& folder, const Limits& limits) {
  memory::Allocator& allocator = memory::allocator(Device::cpu());
  const std::size_t before = allocator.limit();
  Tensor ballast;
  const memory::Log log = recorded(
      folder, "limited", [](auto p) { return optim::SGD(p, {.lr = 0.01}); },
      [&](int step) {
        if (step == 1) allocator.set_limit(limits.first), ballast = empty({5 << 16});
        if (step == 3) allocator.set_limit(limits.second), ballast = {};
      });
  allocator.set_limit(before);
  return log;
}

/// A recording that ends out of memory in the forward of its third step. `expected` gets what the exception said.
memory::Log out_of_memory(const std::string& folder, json& expected) {
  const std::string path = folder + "/out_of_memory.memlog";
  memory::Allocator& allocator = memory::allocator(Device::cpu());
  const std::size_t before = allocator.limit();
  memory::empty_cache(Device::cpu());
  memory::reset_log(Device::cpu(), memory::Ledger::default_log_capacity);
  memory::Recording recording(path, "out of memory");
  try {
    Net net;
    optim::SGD sgd(net.parameters(), {.lr = 0.01});
    for (int i = 1; i <= 4; ++i) {
      const memory::Step step;
      sgd.zero_grad();
      const std::int64_t batch = 64 * (i < 3 ? 1 : 40);
      const Tensor x = randn({batch, 784}), y = zeros(batch, DType::i64);
      allocator.set_limit(std::size_t{40} << 20);
      cross_entropy(net(x), y).backward();
      sgd.step();
    }
  } catch (const OutOfMemory& e) {
    const memory::Shortage& s = e.shortage();
    expected = {{"what", e.what()},
                {"limit", s.limit},
                {"reserved", s.statistics.reserved.current},
                {"allocated", s.statistics.allocated.current},
                {"missing", s.missing()},
                {"fits", s.fits()}};
  }
  allocator.set_limit(before);
  recording.finish();
  return memory::read_log(path);
}

/// A recording that ends out of memory while the network is built. The limit was set once some bytes were reserved.
memory::Log out_of_memory_at_setup(const std::string& folder) {
  const std::string path = folder + "/out_of_memory_at_setup.memlog";
  memory::Allocator& allocator = memory::allocator(Device::cpu());
  const std::size_t before = allocator.limit();
  memory::empty_cache(Device::cpu());
  memory::Recording recording(path, "out of memory at setup");
  const Tensor some = zeros({100});
  allocator.set_limit(allocator.statistics().reserved.current + (std::size_t{1} << 20));
  try {
    nn::Linear(2048, 2048);
  } catch (const OutOfMemory&) {}
  allocator.set_limit(before);
  recording.finish();
  return memory::read_log(path);
}

/// A recording of steps with four microbatches each.
memory::Log accumulated(const std::string& folder) {
  const std::string path = folder + "/accumulated.memlog";
  memory::empty_cache(Device::cpu());
  memory::reset_log(Device::cpu(), memory::Ledger::default_log_capacity);
  memory::Recording recording(path, "accumulated");
  {
    Net net;
    optim::SGD sgd(net.parameters(), {.lr = 0.01});
    for (int i = 0; i < 2; ++i) {
      const memory::Step step;
      sgd.zero_grad();
      for (int micro = 0; micro < 4; ++micro) cross_entropy(net(randn({64, 784})), zeros(64, DType::i64)).backward();
      sgd.step();
    }
  }
  recording.finish();
  return memory::read_log(path);
}

/// The records that the page numbers as events: without what calls were given and returned.
std::vector<memory::Record> page_records(const memory::DeviceLog& device) {
  std::vector<memory::Record> records = device.records;
  std::erase_if(records, [](const memory::Record& r) {
    return r.event.kind == memory::EventKind::argument || r.event.kind == memory::EventKind::result;
  });
  return records;
}

/// What the page must say of a device: levels after every event, who held what at the peak (as the books have it), the
/// steps' ends.
json expected_of(const memory::Log& log, const memory::DeviceLog& device) {
  memory::Replay replay;
  json allocated = json::array(), steps = json::array();
  std::size_t peak = 0, reserved = 0;
  json at_peak;
  for (const memory::Record& r : page_records(device)) {
    replay.apply(r.event);
    allocated.push_back(replay.allocated());
    reserved = std::max(reserved, replay.reserved());
    if (r.event.kind == memory::EventKind::step_end) steps.push_back(replay.allocated());
    if (replay.allocated() <= peak) continue;
    peak = replay.allocated();
    at_peak = {{"allocated", peak}, {"reserved", replay.reserved()}, {"requested", replay.requested()}};
  }
  const memory::Snapshot books = memory::snapshot_of(log, device);
  for (std::size_t role = 0; role < memory::role_count; ++role)
    at_peak["roles"][memory::to_string(static_cast<memory::Role>(role))] = books.statistics.at_peak[role];
  for (memory::NameId id = 0; id < books.by_module_at_peak.size(); ++id)
    if (const std::size_t held = memory::total(books.by_module_at_peak[id]))
      at_peak["modules"][memory::name_of(id)] = held;
  at_peak["when"] =
      std::string(to_string(books.statistics.peak_phase)) + ", step " + std::to_string(books.statistics.peak_step);
  return {{"allocated", allocated}, {"step_ends", steps}, {"at_peak", at_peak}, {"peak_reserved", reserved}};
}

/// The recording as if a device had run a kernel for each op of every second step: on two streams, of which one begins
/// before the other's kernel has ended.
memory::Log with_device_work(memory::Log log) {
  log.program = "timed";
  log.names.insert(log.names.end(), {"gemm<float>", "elementwise"});
  const auto kernels = static_cast<memory::NameId>(log.names.size() - 2);
  for (const memory::StepTime& step : memory::step_times(log)) {
    if (step.step % 2) continue;
    std::uint64_t free = 0, made = 0;
    memory::NameId module = 0;
    for (const memory::Mark& m : log.marks) {
      if (m.kind == memory::Mark::Kind::module) module = m.begins ? m.name : 0;
      if (m.kind != memory::Mark::Kind::op || !m.begins || m.time < step.begin || m.time >= step.end) continue;
      const std::uint64_t time = 20000 + 7919 * ++made % 30000;
      const bool is_aside = made % 5 == 0, is_copy = made % 7 == 0;
      const std::uint64_t begin = std::max(free, m.time + 5000) - (is_aside ? 4000 : 0);
      log.device_work.push_back(
          {.begin = begin,
           .end = begin + time,
           .bytes = is_copy ? 4096u : 0u,
           .stream = is_aside ? 13u : 7u,
           .step = step.step,
           .name = is_copy ? 0 : kernels + static_cast<memory::NameId>(made % 2),
           .module = module,
           .op = m.name,
           .kind = is_copy ? memory::DeviceWork::Kind::to_device : memory::DeviceWork::Kind::kernel,
           .phase = m.phase});
      if (!is_aside) free = begin + time;
    }
  }
  return log;
}

/// Where the time of each step went.
json times_of(const memory::Log& log) {
  json steps = json::array();
  for (const memory::StepTime& step : memory::step_times(log)) {
    json rows = json::array();
    for (const memory::OpTime& r : step.rows)
      rows.push_back({log.names[r.module], log.names[r.op], to_string(r.phase), r.calls, r.time, r.device_time, r.flop,
                      r.bytes, r.least_time ? json(std::llround(*r.least_time)) : json()});
    json device;
    if (step.device)
      device = {{"span", step.device->span()}, {"busy", step.device->busy}, {"idle", step.device->idle()}};
    steps.push_back({{"step", step.step}, {"time", step.time()}, {"device", device}, {"rows", rows}});
  }
  return steps;
}

/// The first event in which two logs differ but for time; -1 where there is none.
std::ptrdiff_t first_difference(const memory::Log& a, const memory::Log& b) {
  const std::vector<memory::Record> x = page_records(a.devices[0]), y = page_records(b.devices[0]);
  const auto same = [&](memory::NameId i, memory::NameId j) { return a.names[i] == b.names[j]; };
  for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    memory::Event e = x[i].event;
    const memory::Event& f = y[i].event;
    if (!same(e.module, f.module) || !same(e.op, f.op) || !same(e.old_module, f.old_module))
      return static_cast<std::ptrdiff_t>(i);
    e.module = f.module, e.op = f.op, e.old_module = f.old_module;
    if (e != f) return static_cast<std::ptrdiff_t>(i);
  }
  return x.size() == y.size() ? -1 : static_cast<std::ptrdiff_t>(std::min(x.size(), y.size()));
}

/// A million events: steps of a thousand blocks that stay until backward, and as many that do not; and a constant that
/// is kept for backward a thousand times a step.
memory::Log large() {
  memory::Log log{.program = "a million events", .names = {"", "matmul"}, .complete = true};
  for (int layer = 0; layer < 64; ++layer) log.names.push_back("net.block" + std::to_string(layer) + ".fc");
  memory::DeviceLog& device = log.devices.emplace_back();
  device.name = "meta";
  device.capacity = device.limit = static_cast<std::size_t>(-1);
  std::uint64_t time = 0;
  const auto add = [&](memory::EventKind kind, std::uint64_t offset, std::uint64_t bytes, memory::Role role,
                       memory::Phase phase, std::uint32_t step) {
    const auto module = static_cast<memory::NameId>(2 + offset / 16384 % 64);
    device.records.push_back({{offset, bytes, bytes, 0, step, module, 1, kind, role, role, phase, module},
                              time += 700 + bytes % 3001,
                              module,
                              1,
                              0,
                              1});
  };
  using memory::EventKind, memory::Role, memory::Phase;
  add(EventKind::segment_alloc, 0, std::uint64_t{1} << 30, Role::temporary, Phase::setup, 0);
  std::mt19937 draw(1);
  constexpr std::uint64_t constant = 3000 * 16384;
  add(EventKind::alloc, constant, 512, Role::temporary, Phase::setup, 0);
  const auto retag = [&](Role from, Role to, Phase phase, std::uint32_t step) {
    add(EventKind::retag, constant, 512, to, phase, step);
    device.records.back().event.old_role = from;
  };
  for (std::uint32_t step = 1; device.records.size() < 1000000; ++step) {
    add(EventKind::step_begin, 0, step, Role::temporary, Phase::forward, step);
    std::vector<std::uint64_t> sizes;
    for (std::uint64_t i = 0; i < 1000; ++i) {
      sizes.push_back(512 * (1 + draw() % 32));
      const std::uint64_t place = (1000 + draw() % 1000) * 16384, bytes = 512 * (1 + draw() % 32);
      add(EventKind::alloc, i * 16384, sizes[i], Role::saved, Phase::forward, step);
      add(EventKind::alloc, place, bytes, Role::temporary, Phase::forward, step);
      add(EventKind::free, place, bytes, Role::temporary, Phase::forward, step);
      add(EventKind::hold, constant, 512, Role::temporary, Phase::forward, step);
      retag(Role::temporary, Role::saved, Phase::forward, step);
      add(EventKind::drop, constant, 512, Role::saved, Phase::forward, step);
      retag(Role::saved, Role::temporary, Phase::forward, step);
    }
    for (std::uint64_t i = 1000; i-- > 0;)
      add(EventKind::free, i * 16384, sizes[i], Role::saved, Phase::backward, step);
    add(EventKind::step_end, 0, step, Role::temporary, Phase::forward, step);
  }
  return log;
}

/// Sizes as C++ writes them, ties among them.
json formatted() {
  json sizes = json::object();
  for (std::size_t bytes :
       {0, 1, 512, 1023, 1024, 1536, 10234, 10235, 102348, 102349, 1048064, 1048576, 1179648, 9437184})
    sizes[std::to_string(bytes)] = memory::format_bytes(bytes);
  for (std::size_t bytes = 512; bytes < std::size_t{1} << 44; bytes = bytes * 21 / 13 + 512)
    sizes[std::to_string(bytes)] = memory::format_bytes(bytes);
  return sizes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: report_pages FOLDER\n";
    return 2;
  }
  const std::string folder = argv[1];
  const memory::Log sgd = recorded(folder, "sgd", [](auto p) { return optim::SGD(p, {.lr = 0.01}); });
  memory::Log adam = recorded(folder, "adam", [](auto p) { return optim::Adam(p, {}); });
  adam.ceilings = {{.device = "cpu", .processor = "of a test", .bytes_per_s = 1.5e10, .flop_per_s = {2e10, 4e10}}};
  memory::write_report(adam, folder + "/one.html");
  memory::write_report({&sgd, &adam, {"a sentence with </script><b>markup</b>\nand(code);", "another"}},
                       folder + "/two.html");
  memory::write_report(sgd, sgd, folder + "/equal.html");
  const memory::Log timed = with_device_work(adam);
  memory::write_report(timed, folder + "/timed.html");
  memory::write_report(timed, timed, folder + "/timed_twice.html");
  const memory::Log cut = edges(folder), nothing{.program = "nothing", .devices = {memory::DeviceLog{.name = "cpu"}}};
  memory::write_report(cut, cut, folder + "/edges.html");
  memory::write_report(nothing, cut, folder + "/beside_nothing.html");
  memory::write_report(nothing, folder + "/nothing.html");
  const memory::Log late = settled(folder);
  memory::write_report(late, folder + "/settled.html");
  const Limits limits(sgd);
  memory::write_report(limited(folder, limits), folder + "/limited.html");
  json failure;
  memory::write_report(out_of_memory(folder, failure), folder + "/out_of_memory.html");
  memory::write_report(out_of_memory_at_setup(folder), folder + "/out_of_memory_at_setup.html");
  memory::write_report(accumulated(folder), folder + "/accumulated.html");
  const memory::Snapshot books = memory::allocator(Device::cpu()).snapshot();
  const memory::Log ledgers = memory::log_of({books}, "books");
  memory::write_report(ledgers, folder + "/books.html");
  memory::write_report(sgd, ledgers, folder + "/beside_books.html");
  memory::Log damaged = sgd;
  damaged.complete = false;
  damaged.damage = "run.memlog: at byte 812: the checksum of a chunk is wrong";
  memory::write_report(damaged, folder + "/damaged.html");
  const memory::Log million = large();
  memory::write_report(million, folder + "/large.html");
  std::ofstream(folder + "/expected.json") << json{{"one", expected_of(adam, adam.devices[0])},
                                                   {"settled", expected_of(late, late.devices[0])["at_peak"]},
                                                   {"large", expected_of(million, million.devices[0])["at_peak"]},
                                                   {"failure", failure},
                                                   {"times", times_of(adam)},
                                                   {"other_times", times_of(sgd)},
                                                   {"device_times", times_of(timed)},
                                                   {"limits", {limits.first, limits.second}},
                                                   {"limit_at_peak", memory::format_bytes(limits.first)},
                                                   {"first_difference", first_difference(sgd, adam)},
                                                   {"formatted", formatted()}};
}
