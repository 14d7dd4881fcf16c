#include "bytetape/cuda/timer/kernel_name.h"

#include <gtest/gtest.h>

namespace bytetape::cuda {
namespace {

TEST(KernelName, IsDemangledAndShort) {
  EXPECT_EQ(kernel_name("_ZN8bytetape4cuda8add_rowsIfEEvPT_"), "add_rows<float>");
  EXPECT_EQ(kernel_name("_ZN8bytetape4cuda12_GLOBAL__N_14fillEPjjm"), "fill");
  EXPECT_EQ(kernel_name("_ZN1a5OuterIiE3runIfEEvPT_"), "Outer<int>::run<float>");
  EXPECT_EQ(kernel_name("_ZN7cutlass7Kernel2INS_4gemm4TileILi128EEEEEvNT_6ParamsE"), "Kernel2<Tile<128>>");
}

TEST(KernelName, StaysIfItIsNotMangled) {
  EXPECT_EQ(kernel_name("sm90_xmma_gemm_f32f32_tn"), "sm90_xmma_gemm_f32f32_tn");
  EXPECT_EQ(kernel_name(""), "");
  for (const char* odd : {"(", "<", ">", "::", " ", "a::", "<(", "()()", "operator()(int)", "a<b>(c)::d"})
    EXPECT_LE(kernel_name(odd).size(), 80u) << odd;
  EXPECT_EQ(kernel_name(std::string(500, 'x').c_str()), std::string(77, 'x') + "...");
}

}  // namespace
}  // namespace bytetape::cuda
