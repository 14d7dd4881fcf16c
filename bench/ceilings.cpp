// Measures the most that devices do, and keeps it for recordings (core/memory/ceilings.h): bytes per second of a kernel
// that adds two large tensors, and floating-point operations per second of large products in each precision.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "bench/harness.h"
#include "bytetape/bytetape.h"
#include "core/memory/ceilings.h"
#include "cuda/cuda.h"

namespace {

using namespace bytetape;
using memory::Ceilings;
using memory::Precision;

/// Seconds per call of f, the least of seven bursts of at least 50 ms.
template <class F>
double seconds(Device device, const F& f) {
  const auto finish = [&] { synchronize(device); };
  const double once = bench::time(2, 1, f, finish).median / 1e9;
  const int burst = std::clamp(static_cast<int>(0.05 / once), 1, 1000);
  return bench::time(1, burst, f, finish).min / 1e9;
}

/// The triad of STREAM without its factor: y = a + b, which reads two tensors and writes one.
double bytes_per_s(Device device, std::int64_t mib) {
  const Shape shape{mib * (std::int64_t{1} << 18)};
  const Tensor a = ones(shape, DType::f32, device);
  const Tensor b = ones(shape, DType::f32, device);
  Tensor y;
  const double s = seconds(device, [&] { y = a + b; });
  return 3 * static_cast<double>(a.nbytes()) / s;
}

double flop_per_s(Device device, DType dtype, std::int64_t n) {
  const Tensor a = to(randn({n, n}, DType::f32, device), dtype);
  const Tensor b = to(randn({n, n}, DType::f32, device), dtype);
  Tensor y;
  const double s = seconds(device, [&] { y = matmul(a, b); });
  return 2 * static_cast<double>(n * n * n) / s;
}

/// The model of the first core.
std::string name_of_cpu() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

Ceilings of_cpu() {
  Ceilings c{.device = "cpu",
             .processor =
                 name_of_cpu() + ", " + std::to_string(num_threads()) + (num_threads() == 1 ? " thread" : " threads")};
  c.bytes_per_s = bytes_per_s(Device::cpu(), 128);
  for (const auto& [precision, dtype] :
       {std::pair(Precision::f64, DType::f64), std::pair(Precision::f32, DType::f32),
        std::pair(Precision::bf16, DType::bf16), std::pair(Precision::f16, DType::f16)})
    c.flop_per_s[static_cast<std::size_t>(precision)] = flop_per_s(Device::cpu(), dtype, 1536);
  return c;
}

Ceilings of_gpu() {
  const Device gpu = Device::cuda();
  Ceilings c{.device = to_string(gpu), .processor = cuda::get_device_name(0)};
  c.bytes_per_s = bytes_per_s(gpu, 1024);
  const auto measure = [&](Precision precision, DType dtype, std::int64_t n) {
    cuda::set_allow_tf32(precision == Precision::tf32);
    c.flop_per_s[static_cast<std::size_t>(precision)] = flop_per_s(gpu, dtype, n);
  };
  measure(Precision::f64, DType::f64, 4096);
  measure(Precision::f32, DType::f32, 8192);
  measure(Precision::tf32, DType::f32, 8192);
  measure(Precision::bf16, DType::bf16, 8192);
  measure(Precision::f16, DType::f16, 8192);
  return c;
}

void print(const Ceilings& c) {
  std::cout << c.device << ", " << c.processor << ": " << c.bytes_per_s / 1e9 << " GB/s";
  for (int i = 0; i < memory::precision_count; ++i)
    if (const double flop = c.flop_per_s[static_cast<std::size_t>(i)]; flop > 0)
      std::cout << ", " << flop / 1e9 << " GFLOP/s in " << memory::to_string(static_cast<Precision>(i));
  std::cout << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  share_cores(argv);
  CLI::App app{
      "Measures the bandwidth and the products per second of this machine's devices, and writes them to a file."};
  std::string out = memory::default_ceilings_file();
  std::vector<std::string> devices;
  app.add_option("--out", out, "the file; recordings keep what the default one has")->capture_default_str();
  app.add_option("devices", devices, "cpu and cuda; default: both, if there is a GPU")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  CLI11_PARSE(app, argc, argv);
  return bench::run("ceilings", [&] {
    check<ValueError>(!out.empty(),
                      "expected --out FILE, because BYTETAPE_CEILINGS is empty, or no variable names a "
                      "folder (XDG_CACHE_HOME, HOME)");
    if (devices.empty())
      devices = cuda::device_count() > 0 ? std::vector<std::string>{"cpu", "cuda"} : std::vector<std::string>{"cpu"};
    std::vector<Ceilings> all;
    try {
      if (std::filesystem::exists(out)) all = memory::read_ceilings(out);  // devices that are not measured now are kept
    } catch (const FileError& e) { std::cerr << e.what() << ": writing it anew\n"; }
    for (const std::string& device : devices) {
      const Ceilings c = device == "cpu" ? of_cpu() : of_gpu();
      print(c);
      std::erase_if(all, [&](const Ceilings& old) { return old.device == c.device; });
      all.push_back(c);
    }
    memory::write_ceilings(out, all);
    std::cout << "written to " << out << std::endl;
  });
}
