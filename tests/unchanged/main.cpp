// Runs the programs that scripts/check_unchanged compares, and writes their parameters and memory events to files. The
// same source is compiled in two commits, so it uses only bytetape.h, bench/training.h and the tests' lists of programs
// and ops. Threads: OMP_NUM_THREADS.
// usage: unchanged list                                        prints the names of the workloads
//        unchanged steps WORKLOAD DEVICE MODE BATCH STEPS OUT  trains; MODE: plain, recompute or graph; BATCH 0: the
//                                                              workload's own; OUT -: writes nothing
//        unchanged ops DEVICE OUT                              a checksum of each value and gradient in the list of ops
//        unchanged predictions DEVICE FOLDER                   predicts every program of predict_cases()
//        unchanged export OUT                                  writes the events of OUT.memlog as text
//        unchanged dispatch COUNT                              adds small tensors, as op_no_grad of bench/overheads
#include <algorithm>
#include <bit>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>

#include "bench/training.h"
#include "bytetape/bytetape.h"
#include "tests/ops/evaluate.h"
#include "tests/support/predict_cases.h"

namespace {

using namespace bytetape;

/// Writes OUT.csv, the events of OUT.memlog without times and threads, and OUT.marks, the modules, ops and phases that
/// each thread began and ended.
void export_recording(const std::string& out) {
  memory::Log log = memory::read_log(out + ".memlog");
  check<ValueError>(log.complete && log.damage.empty(), out, ".memlog is not whole: ", log.damage);
  for (memory::DeviceLog& device : log.devices)
    for (memory::Record& record : device.records) record.time = 0, record.thread = 0;
  std::ofstream csv(out + ".csv"), marks(out + ".marks");
  memory::write_csv(log, csv);
  std::ranges::stable_sort(log.marks, {}, &memory::Mark::thread);
  for (const memory::Mark& m : log.marks)
    marks << (m.begins ? "begin " : "end ") << static_cast<int>(m.kind) << ' ' << memory::to_string(m.phase) << ' '
          << log.names[m.name] << '\n';
  check<FileError>(csv.flush() && marks.flush(), out, ": cannot write");
}

/// Takes `count` steps of a workload. Records them, and saves the loss, parameters and buffers.
void take_steps(bench::Workload w, const std::string& mode, int count, const std::string& out) {
  nn::Module* model = nullptr;
  w.model = [&model, make = w.model] {
    auto made = make();
    model = made.get();
    return made;
  };
  const bool writes = out != "-";
  std::optional<memory::Recording> recording;
  if (writes) recording.emplace(out + ".memlog", w.name);
  cuda::set_allow_tf32(w.precision == "tf32");
  manual_seed(0);
  bench::Training training(w, mode == "recompute");
  auto captured = capture([&] { return training.step(); });
  Tensor loss;
  for (int i = 0; i < count; ++i) {
    const memory::Step step;
    loss = mode == "graph" ? captured() : training.step();
  }
  synchronize(default_device());
  if (!writes) return;
  recording->finish();
  export_recording(out);
  if (default_device().is_meta) return;
  NamedTensors state = model->state_dict();
  state.emplace_back("loss", loss);
  save_safetensors(out + ".safetensors", state);
}

std::uint64_t checksum(const test::Array& x) {
  std::uint64_t hash = 14695981039346656037u;  // FNV-1a, a value at a time
  for (const double v : x.values) hash = std::rotl((hash ^ std::bit_cast<std::uint64_t>(v)) * 1099511628211u, 32);
  return hash;
}

/// Writes "case dtype, a tab, checksums of the value and of each gradient" for every case of the list of ops.
void evaluate_ops(Device device, const std::string& out) {
  std::ofstream to(out + ".values");
  to << std::hex;
  for (const test::OpRow& row : test::op_list()) {
    test::Cases cases = row.cases;
    cases.push_back(test::large_case(row));
    for (std::size_t i = 0; i < cases.size(); ++i)
      for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
        manual_seed(0);
        const test::Arrays values = test::rounded_to(dtype, cases[i], test::draw(row, cases[i], i));
        const test::Evaluation e = test::evaluate(row, cases[i], values, dtype, device);
        to << test::describe_case(row, cases[i], i) << ' ' << dtype << '\t' << checksum(e.value);
        for (const test::Array& g : e.grads) to << ' ' << checksum(g);
        to << '\n';
      }
  }
  check<FileError>(!!to.flush(), out, ": cannot write");
}

/// Writes NAME.txt, the figures of each prediction, and its recording's events.
void predict_programs(Device device, const std::string& folder) {
  for (const test::PredictCase& program : test::predict_cases()) {
    const std::string out = folder + '/' + program.name;
    const memory::Prediction p = memory::predict(device, program.build, {.recording = out + ".memlog"});
    export_recording(out);
    std::ofstream text(out + ".txt");
    text << "period " << p.period << ", peaks " << p.peak_allocated() << ' ' << p.peak_reserved() << '\n';
    for (const memory::PredictedStep& s : p.steps) {
      text << "events " << s.first_event << ' ' << s.end_event << ", bytes " << s.allocated << ' ' << s.reserved;
      for (const std::size_t bytes : s.by_role) text << ' ' << bytes;
      text << '\n';
    }
    check<FileError>(!!text.flush(), out, ": cannot write");
  }
}

void dispatch(int count) {
  const Tensor a = randn({16}), b = randn({16});
  const NoGrad no_grad;
  for (int i = 0; i < count; ++i) Tensor y = a + b;
}

void run(const std::vector<std::string>& args) {
  const auto is = [&](const char* name, std::size_t count) { return args.size() == count + 1 && args[0] == name; };
  if (is("list", 0)) {
    for (const bench::Workload& w : bench::workloads()) std::cout << w.name << '\n';
  } else if (is("steps", 6)) {
    const auto named = std::ranges::find(bench::workloads(), args[1], &bench::Workload::name);
    check<ValueError>(named != bench::workloads().end(), "no workload '", args[1], "'");
    bench::Workload w = *named;
    if (args[4] != "0") w.batch = std::stoll(args[4]);
    const DefaultDevice here(Device::parse(args[2]));
    take_steps(w, args[3], std::stoi(args[5]), args[6]);
  } else if (is("ops", 2)) {
    evaluate_ops(Device::parse(args[1]), args[2]);
  } else if (is("predictions", 2)) {
    predict_programs(Device::parse(args[1]), args[2]);
  } else if (is("export", 1)) {
    export_recording(args[1]);
  } else if (is("dispatch", 1)) {
    dispatch(std::stoi(args[1]));
  } else {
    fail<ValueError>("wrong arguments: see the head of tests/unchanged/main.cpp");
  }
}

}  // namespace

int main(int argc, char** argv) {
  share_cores(argv);
  try {
    run({argv + 1, argv + argc});
    return 0;
  } catch (const std::exception& e) {
    std::cerr << "unchanged: " << e.what() << '\n';
    return 1;
  }
}
