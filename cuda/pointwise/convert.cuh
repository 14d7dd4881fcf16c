#pragma once
#include <bit>
#include <cstdint>
#include <type_traits>

#include "bytetape/core/dtype.h"
#include "bytetape/core/visit.h"

namespace bytetape::cuda {

// Conversion between the stored and the computed type of elements. The device's instructions are about ten times as
// fast as the portable code.

template <class T>
__device__ compute_t<T> widened(T v) {
  if constexpr (std::is_same_v<T, Half>) {
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(v.bits));
    return wide;
  } else {
    return static_cast<compute_t<T>>(v);
  }
}

template <class T>
__device__ T narrowed(compute_t<T> v) {
  if constexpr (std::is_same_v<T, Half>) {
    Half half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half.bits) : "f"(v));
    return half;
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    BFloat16 half;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(half.bits) : "f"(v));
    return half;
  } else {
    return static_cast<T>(v);
  }
}

/// n adjacent, aligned elements, moved as 32-bit words. The compiler moves at most four smaller elements at a time.
template <class T, int n>
struct alignas(sizeof(T) * n) Packed {
  T values[n];

  __device__ static Packed load(const T* from) {
    if constexpr (sizeof(Packed) < 4)
      return *reinterpret_cast<const Packed*>(from);
    else
      return std::bit_cast<Packed>(*reinterpret_cast<const Words<>*>(from));
  }
  __device__ void store(T* to) const {
    if constexpr (sizeof(Packed) < 4)
      *reinterpret_cast<Packed*>(to) = *this;
    else
      *reinterpret_cast<Words<>*>(to) = std::bit_cast<Words<>>(*this);
  }

 private:
  template <int bytes = sizeof(T) * n>
  struct alignas(bytes) Words {
    std::uint32_t words[bytes / 4];
  };
};

template <int n, class T>
__device__ Packed<T, n> load(const T* from) {
  return Packed<T, n>::load(from);
}

/// Loads as load(), for data that nobody reads again soon: the L2 cache evicts vectors of 16 bytes before others.
template <int n, class T>
__device__ Packed<T, n> load_once(const T* from) {
  if constexpr (sizeof(Packed<T, n>) == 16)
    return std::bit_cast<Packed<T, n>>(__ldcs(reinterpret_cast<const uint4*>(from)));
  else
    return load<n>(from);
}
/// As x.store(to), with the L2 cache as after load_once().
template <class T, int n>
__device__ void store_once(const Packed<T, n>& x, T* to) {
  if constexpr (sizeof(x) == 16)
    __stcs(reinterpret_cast<uint4*>(to), std::bit_cast<uint4>(x));
  else
    x.store(to);
}
/// As x.store(to), with one instruction for 8 or 16 bytes. The compiler splits some stores.
template <class T, int n>
__device__ void store_whole(const Packed<T, n>& x, T* to) {
  if constexpr (sizeof(x) == 16)
    __stwb(reinterpret_cast<uint4*>(to), std::bit_cast<uint4>(x));
  else if constexpr (sizeof(x) == 8)
    __stwb(reinterpret_cast<uint2*>(to), std::bit_cast<uint2>(x));
  else
    x.store(to);
}

}  // namespace bytetape::cuda
