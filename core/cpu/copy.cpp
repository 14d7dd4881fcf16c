#include "bytetape/core/cpu/copy.h"

#include <cstring>

#include "bytetape/core/cpu/loop.h"
#include "bytetape/core/visit.h"

namespace bytetape::cpu {
namespace {

template <class To, class From>
To convert(From v) {
  if constexpr (std::is_same_v<From, To> || (std::is_arithmetic_v<From> && std::is_arithmetic_v<To>))
    return static_cast<To>(v);
  else if constexpr (std::is_arithmetic_v<To>)
    return static_cast<To>(static_cast<float>(v));
  else
    return To(static_cast<float>(v));
}

template <class To, class From>
void copy_row(char* y, std::int64_t y_step, const char* x, std::int64_t x_step, std::int64_t n) {
  if (y_step == sizeof(To) && x_step == sizeof(From)) {  // lets the compiler vectorise
    auto* to = reinterpret_cast<To*>(y);
    const auto* from = reinterpret_cast<const From*>(x);
    for (std::int64_t i = 0; i < n; ++i) to[i] = convert<To>(from[i]);
    return;
  }
  for (std::int64_t i = 0; i < n; ++i)
    *reinterpret_cast<To*>(y + i * y_step) = convert<To>(*reinterpret_cast<const From*>(x + i * x_step));
}

}  // namespace

void copy(ConstView x, View y) {
  if (numel(y.shape) == 0) return;
  visit(y.dtype, [&](auto to) {
    visit(x.dtype, [&](auto from) {
      for_each_row(make_walk<2>({&y, &x}), [](std::int64_t n, const auto& p, const auto& step) {
        copy_row<decltype(to), decltype(from)>(p[0], step[0], p[1], step[1], n);
      });
    });
  });
}

void fill(Scalar value, View y) { copy(ConstView::constant(value, y.dtype, y.device, y.shape), y); }

void arange(Scalar start, Scalar step, View y) {
  visit(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    T* to = y.as<T>();
    const std::int64_t n = y.numel(), stride = y.strides[0];
    if (start.is_integral() && step.is_integral())
      for (std::int64_t i = 0; i < n; ++i)
        to[i * stride] = Scalar(start.to<std::int64_t>() + i * step.to<std::int64_t>()).to<T>();
    else
      for (std::int64_t i = 0; i < n; ++i)
        to[i * stride] = Scalar(start.to<double>() + static_cast<double>(i) * step.to<double>()).to<T>();
  });
}

}  // namespace bytetape::cpu
