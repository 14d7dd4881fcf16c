// Files of NumPy's and of the safetensors package are read, and ours are what these read: tests/golden/files.py.
#include <gtest/gtest.h>

#include "bytetape/core/factories.h"
#include "bytetape/core/files/npy.h"
#include "bytetape/core/files/safetensors.h"
#include "tests/support/random.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_dir.h"

namespace bytetape {
namespace {

std::string golden(const std::string& name) { return test::source_dir() / "tests/golden" / name; }

/// Tensor k of the script's list.
Tensor tensor(int k, DType dtype, const Shape& shape) {
  std::vector<double> values;
  for (int i = 0; i < numel(shape); ++i) {
    const int v = (7 * i + 3 * k) % 11;
    values.push_back(dtype == DType::boolean ? v % 2 : is_floating(dtype) ? (v - 5) / 4.0 : v);
  }
  return test::make_tensor(values, shape, dtype);
}

NamedTensors all() {
  return {{"conv.weight", tensor(0, DType::f32, {2, 3, 2, 2})},
          {"norm.num_batches_tracked", tensor(1, DType::i64, {})},
          {"half", tensor(2, DType::f16, {5})},
          {"brain", tensor(3, DType::bf16, {3})},
          {"double", tensor(4, DType::f64, {2, 2})},
          {"integer", tensor(5, DType::i32, {3})},
          {"bytes", tensor(6, DType::u8, {4})},
          {"flags", tensor(7, DType::boolean, {3})},
          {"none", tensor(8, DType::f32, {0, 4})},
          {"größe \"x\"\\", tensor(9, DType::f32, {1})}};
}

TEST(FilesGolden, SafetensorsOfTheirs) {
  const SafetensorsFile file(golden("theirs.safetensors"));
  EXPECT_EQ(file.metadata(), (Metadata{{"maker", "safetensors"}}));
  NamedTensors loaded = file.load(Device::cpu(), memory::Role::temporary);
  const NamedTensors expected = all();
  ASSERT_EQ(loaded.size(), expected.size());
  for (const auto& [name, x] : expected) {
    const auto y = std::find_if(loaded.begin(), loaded.end(), [&](const auto& t) { return t.first == name; });
    ASSERT_NE(y, loaded.end()) << name;
    EXPECT_EQ(y->second.dtype(), x.dtype()) << name;
    EXPECT_EQ(y->second.shape(), x.shape()) << name;
    EXPECT_EQ(y->second.to_vector<double>(), x.to_vector<double>()) << name;
  }
}

TEST(FilesGolden, SafetensorsOfOurs) {
  const test::TemporaryDir dir;
  save_safetensors(dir / "ours.safetensors", all(), {{"maker", "bytetape"}});
  EXPECT_TRUE(test::content_of(dir / "ours.safetensors") == test::content_of(golden("ours.safetensors")));
}

TEST(FilesGolden, NpyOfTheirs) {
  const Shape shape{2, 3, 4};
  const auto floats = tensor(0, DType::f64, shape).to_vector<double>();
  for (const auto& [name, dtype] : {std::pair("c.npy", DType::f32), {"fortran.npy", DType::f64}}) {
    const Tensor x = load_npy(golden(name));
    EXPECT_EQ(x.shape(), shape);
    EXPECT_EQ(x.dtype(), dtype);
    EXPECT_EQ(x.to_vector<double>(), floats) << name;
  }
  for (const char* name : {"version2.npy", "version3.npy"}) {  // astype() cuts off
    std::vector<int> whole;
    for (const double v : floats) whole.push_back(static_cast<int>(v));
    EXPECT_EQ(load_npy(golden(name)).to_vector<int>(), whole) << name;
  }
}

TEST(FilesGolden, NpyOfOursIsNumpysOwn) {
  const test::TemporaryDir dir;
  save_npy(dir / "c.npy", tensor(0, DType::f32, {2, 3, 4}));
  EXPECT_TRUE(test::content_of(dir / "c.npy") == test::content_of(golden("c.npy")));
}

}  // namespace
}  // namespace bytetape
