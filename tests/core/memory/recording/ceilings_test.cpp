#include "bytetape/core/memory/ceilings.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

#include "bytetape/core/memory/recording.h"
#include "tests/support/expect.h"
#include "tests/support/temporary_dir.h"

namespace bytetape::memory {
namespace {

constexpr auto at(Precision p) { return static_cast<std::size_t>(p); }

Ceilings some(const std::string& device) {
  Ceilings c{.device = device, .processor = "of a test", .bytes_per_s = 100};
  c.flop_per_s[at(Precision::f32)] = 1000;
  c.flop_per_s[at(Precision::bf16)] = 4000;
  return c;
}

TEST(Roofline, IsTheLongerOfProductsAndBytes) {
  const Ceilings c = some("cpu");
  RooflineWork work;
  work.bytes = 200;
  EXPECT_DOUBLE_EQ(roofline_time(work, c).value(), 2e9);
  work.flop[at(Precision::f32)] = 1500;
  EXPECT_DOUBLE_EQ(roofline_time(work, c).value(), 2e9) << "bound by bytes";
  work.flop[at(Precision::bf16)] = 4000;
  EXPECT_DOUBLE_EQ(roofline_time(work, c).value(), 2.5e9) << "1.5 s and 1 s of products";
  work.flop[at(Precision::f64)] = 1;
  EXPECT_EQ(roofline_time(work, c), std::nullopt) << "f64 was not measured";
  EXPECT_EQ(work.all_flop(), 5501u);
}

TEST(Roofline, FitsIntegersAtAnyCeilings) {
  Ceilings least = some("cpu");
  least.bytes_per_s = 1e-300;
  EXPECT_EQ(roofline_time({.bytes = 1}, least), 9e15);
}

TEST(Ceilings, AreThoseOfTheDeviceOrOfItsLikes) {
  const std::vector<Ceilings> all{some("cpu"), some(to_string(Device::cuda())), some("cuda:2")};
  const auto found = [&](const std::string& device) {
    const Ceilings* const c = find_ceilings(all, device);
    return c ? c->device : "";
  };
  EXPECT_EQ(found("cpu"), "cpu");
  EXPECT_EQ(found("meta"), "cpu");
  EXPECT_EQ(found("cuda:2"), "cuda:2");
  EXPECT_EQ(found("cuda:1"), to_string(Device::cuda()));
  EXPECT_EQ(found("meta:cuda:2"), "cuda:2");
  EXPECT_EQ(found("other"), "");
  EXPECT_EQ(find_ceilings({}, "cpu"), nullptr);
  for (const int i : {0, 1})
    EXPECT_EQ(find_ceilings({some("cuda:0")}, to_string(Device::cuda(i)))->device, "cuda:0") << "as PyTorch names it";
}

TEST(Ceilings, AreKeptInAFile) {
  const test::TemporaryDir dir;
  const std::string path = dir / "new/ceilings.json";
  write_ceilings(path, {some("cpu"), some(to_string(Device::cuda()))});
  const std::vector<Ceilings> all = read_ceilings(path);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[1].device, to_string(Device::cuda()));
  EXPECT_EQ(all[1].processor, "of a test");
  EXPECT_EQ(all[1].bytes_per_s, 100);
  EXPECT_EQ(all[1].flop_per_s, some("").flop_per_s);
}

TEST(Ceilings, OfADamagedFileAreRefused) {
  const test::TemporaryDir dir;
  const std::string path = dir / "ceilings.json";
  const auto refused = [&](const std::string& content, const char* says) {
    std::ofstream(path) << content;
    EXPECT_THROWS_SAYING(read_ceilings(path), FileError, says);
  };
  refused("", "expected JSON with an array 'ceilings'");
  refused("[", "expected JSON with an array 'ceilings'");
  refused(R"({"ceilings": 7})", "expected JSON with an array 'ceilings'");
  refused(R"({"ceilings": [7]})", "expected an object of a device's ceilings");
  refused(R"({"ceilings": [{"device": "cpu", "processor": "", "bytes_per_s": 1e999, "flop_per_s": {}}]})",
          "expected JSON with an array 'ceilings'");
  refused(R"({"ceilings": [{"device": "cpu", "processor": "", "bytes_per_s": -1, "flop_per_s": {}}]})",
          "measure them again with bench/ceilings");
  refused(std::string(2 << 20, ' '), "of at most 1048576 bytes");
  EXPECT_THROWS_SAYING(read_ceilings(dir / "none"), FileError, "none");
}

/// Sets an environment variable, and restores the old value.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    setenv(name, value.c_str(), 1);
  }
  ~Environment() { old_ ? setenv(name_, old_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

TEST(Ceilings, AreStoredInARecording) {
  const test::TemporaryDir dir;
  const std::string file = dir / "ceilings.json", log = dir / "run.memlog";
  const Environment kept("BYTETAPE_CEILINGS", file);
  EXPECT_EQ(default_ceilings_file(), file);
  Recording(log).finish();
  EXPECT_TRUE(read_log(log).ceilings.empty()) << "not measured";
  write_ceilings(file, {some("cpu")});
  Recording(log).finish();
  ASSERT_EQ(read_log(log).ceilings.size(), 1u);
  EXPECT_EQ(read_log(log).ceilings[0].flop_per_s, some("").flop_per_s);

  write_ceilings(dir / "other.json", {some("cpu"), some(to_string(Device::cuda()))});
  Recording(log, "", {.ceilings = dir / "other.json"}).finish();
  EXPECT_EQ(read_log(log).ceilings.size(), 2u);
  std::ofstream(file) << "damaged";
  EXPECT_THROWS_SAYING(Recording(log, "").finish(), FileError, "ceilings.json");
  EXPECT_EQ(read_log(log).ceilings.size(), 2u) << "the recording's file is not touched";
  EXPECT_THROWS_SAYING(Recording(log, "", {.ceilings = dir / "none"}).finish(), FileError, "none");
}

TEST(Ceilings, AreKeptInTheCache) {
  const Environment home("HOME", "/home/a");
  {
    const Environment cache("XDG_CACHE_HOME", "");
    const Environment none("BYTETAPE_CEILINGS", "");
    EXPECT_EQ(default_ceilings_file(), "");
    unsetenv("BYTETAPE_CEILINGS");
    EXPECT_EQ(default_ceilings_file(), "/home/a/.cache/bytetape/ceilings.json");
  }
  const Environment none("BYTETAPE_CEILINGS", "");
  const Environment cache("XDG_CACHE_HOME", "/cache");
  unsetenv("BYTETAPE_CEILINGS");
  EXPECT_EQ(default_ceilings_file(), "/cache/bytetape/ceilings.json");
}

}  // namespace
}  // namespace bytetape::memory
