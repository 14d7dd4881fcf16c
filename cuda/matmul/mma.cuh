#pragma once
#include <cstdint>
#include <type_traits>

#include "bytetape/core/dtype.h"

/// Matrix products on tensor cores (sm_80 and newer), by a warp: sum (16 x 8) += a (16 x k) b (k x 8). k is 8 words of
/// 32 bits. A word has two 16-bit elements, or one f32 rounded to TF32. The layout is that of PTX's `mma.m16n8k16` and
/// `mma.m16n8k8`. Thread 4 r + t holds
///
///     of a    words t of rows r and r + 8, then words t + 4 of both
///     of b    words t and t + 4 of column r
///     of sum  columns 2t and 2t + 1 of row r, then of row r + 8
namespace bytetape::cuda {

template <class T>
inline constexpr int per_word = 4 / static_cast<int>(sizeof(T));

/// The mask of element e of a word.
template <class T>
inline constexpr std::uint32_t element_mask(int e) {
  return per_word<T> == 1 ? 0xffffffff : 0xffffu << 16 * e;
}

/// Rounds f32 to TF32. Returns other types unchanged.
template <class T>
__device__ T factor(T v) {
  if constexpr (std::is_same_v<T, float>) {
    std::uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(v));
    return __uint_as_float(bits);
  } else {
    return v;
  }
}

template <class T>
__device__ std::uint32_t word_of(const T (&v)[per_word<T>]) {
  if constexpr (std::is_same_v<T, float>)
    return __float_as_uint(v[0]);
  else
    return v[0].bits | static_cast<std::uint32_t>(v[1].bits) << 16;
}

/// sum += a b. All threads of a warp must call this together.
template <class T>
__device__ void multiply_add(float (&sum)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  if constexpr (std::is_same_v<T, float>)
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else if constexpr (std::is_same_v<T, BFloat16>)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Packs results into a word: v rounded to T, or v[0] if T is f32.
template <class T>
__device__ std::uint32_t narrowed_word(const float (&v)[per_word<T>]) {
  std::uint32_t word;
  if constexpr (std::is_same_v<T, float>)
    word = __float_as_uint(v[0]);
  else if constexpr (std::is_same_v<T, BFloat16>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(v[1]), "f"(v[0]));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(v[1]), "f"(v[0]));
  return word;
}

/// 16 bytes of elements, which a thread moves at once if they are aligned.
struct alignas(16) Vector {
  std::uint32_t words[4];

  template <class T>
  __device__ static Vector load(const T* from, bool is_aligned) {
    if (is_aligned) return *reinterpret_cast<const Vector*>(from);
    Vector v;
    for (int i = 0; i < 4; ++i) {
      T of_word[per_word<T>];
      for (int k = 0; k < per_word<T>; ++k) of_word[k] = from[i * per_word<T> + k];
      v.words[i] = word_of<T>(of_word);
    }
    return v;
  }
  template <class T>
  __device__ void store(T* to, bool is_aligned) const {
    if (is_aligned) {
      *reinterpret_cast<Vector*>(to) = *this;
      return;
    }
    for (int i = 0; i < 4; ++i) {
      if constexpr (per_word<T> == 1) {
        to[i] = __uint_as_float(words[i]);
      } else {
        to[2 * i].bits = static_cast<std::uint16_t>(words[i]);
        to[2 * i + 1].bits = static_cast<std::uint16_t>(words[i] >> 16);
      }
    }
  }
};

}  // namespace bytetape::cuda
