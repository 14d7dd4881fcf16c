#pragma once
#include <cstdint>
#include <type_traits>

#include "bytetape/core/kernels/fields.h"
#include "bytetape/core/memory/work.h"
#include "bytetape/core/view.h"

/// \file
/// The work of a kernel, from its arguments. Bytes are those of its tensors, each argument once, without elements that
/// a stride of 0 repeats. A kernel must move that much, whatever its algorithm. A struct of arguments may have a member
/// `moved_bytes()` that says otherwise. Only products have floating-point operations, as in PyTorch's FlopCounterMode:
/// structs of arguments with a member `flop()`, which returns a Work without bytes.
namespace bytetape {

/// The bytes of the elements of x, each counted once. 0 for constants and undefined views.
inline std::uint64_t moved_bytes(const ConstView& x) {
  if (!x.defined() || x.is_constant()) return 0;
  std::int64_t n = 1;
  for (int i = 0; i < x.rank(); ++i)
    if (x.strides[i] != 0 || x.shape[i] == 0) n *= x.shape[i];
  return static_cast<std::uint64_t>(n) * static_cast<std::uint64_t>(size_of(x.dtype));
}

/// The work of `pairs` multiplications of factors of one dtype, and as many additions, without bytes.
inline memory::Work product_work(DType factors, std::int64_t pairs) {
  return {.flop = 2 * static_cast<std::uint64_t>(pairs), .dtype = factors};
}

namespace detail {

template <class T>
inline constexpr bool is_view = std::is_base_of_v<ConstView, T>;
template <class T>
concept MovesBytes = is_view<T> || requires(const T& x) {
  x.moved_bytes();
};
template <class T>
concept ListThatMoves = requires(const T& x) {
  requires MovesBytes<std::remove_cvref_t<decltype(*x.begin())>>;
};

/// The bytes of an argument, or of a field of one. A struct inside of another one is counted if it has moved_bytes().
template <class T>
std::uint64_t bytes_of_argument(const T& x) {
  std::uint64_t bytes = 0;
  if constexpr (is_view<T>)
    bytes = moved_bytes(x);
  else if constexpr (requires { x.moved_bytes(); })
    bytes = x.moved_bytes();
  else if constexpr (ListThatMoves<T>)
    for (const auto& each : x) bytes += bytes_of_argument(each);
  return bytes;
}

/// The bytes of the fields of a struct of arguments.
template <class Args>
std::uint64_t bytes_of_fields(const Args& args) {
  std::uint64_t bytes = 0;
  each_field(args, [&](const auto& field) { bytes += bytes_of_argument(field); });
  return bytes;
}

}  // namespace detail

/// The work of a kernel that takes a struct of arguments.
template <class Args>
requires(std::is_aggregate_v<Args> && !detail::is_view<Args>) memory::Work work_of(const Args& args) {
  memory::Work work;
  if constexpr (requires { args.flop(); }) work = args.flop();
  if constexpr (requires { args.moved_bytes(); })
    work.bytes = args.moved_bytes();
  else
    work.bytes = detail::bytes_of_fields(args);
  return work;
}

/// The work of a kernel that takes views, spans and numbers.
template <class... Args>
memory::Work work_of(const Args&... args) {
  return {.bytes = (std::uint64_t{0} + ... + detail::bytes_of_argument(args))};
}

}  // namespace bytetape
