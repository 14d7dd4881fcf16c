#include <algorithm>

#include "bytetape/core/cpu/activation.h"
#include "bytetape/core/cpu/copy.h"
#include "bytetape/core/cpu/gemm.h"
#include "bytetape/core/cpu/images/im2col.h"
#include "bytetape/core/cpu/slices.h"
#include "bytetape/core/kernels/scratch_parts.h"
#include "bytetape/core/visit.h"

namespace bytetape::cpu::portable {
namespace {

using Arena = ScratchParts<64>;

template <class C>
View dense(C* data, const Shape& shape) {
  return View(data, dtype_of<C>, {}, shape, contiguous_strides(shape));
}

/// Returns a view of image i of a batch (n, c, h, w) as (h, w, c).
template <class V>
V image(const V& x, std::int64_t i) {
  auto* data =
      static_cast<char*>(const_cast<void*>(x.data())) + i * x.strides[0] * static_cast<std::int64_t>(size_of(x.dtype));
  return V(data, x.dtype, x.device, {x.shape[2], x.shape[3], x.shape[1]}, {x.strides[2], x.strides[3], x.strides[1]});
}

/// Returns a view of weight (o, c / groups, kh, kw) as (o, kh, kw, c / groups), the order of a patch.
template <class V>
V as_patches(const V& w) {
  V out = w;
  for (int i = 1; i < 4; ++i) {
    const int from = i == 3 ? 1 : i + 1;
    out.shape[i] = w.shape[from];
    out.strides[i] = w.strides[from];
  }
  return out;
}

/// The weights as patches, converted to C. group(g) is an (o / groups, patch) matrix.
template <class C>
struct Weights {
  const ConvSizes& s;
  C* data;
  Weights(const ConvSizes& s, Arena& arena) : s(s), data(arena.take<C>(s.o * s.patch())) {}
  void load(const ConstView& weight) {
    const ConstView w = as_patches(weight);
    copy(w, dense(data, w.shape));
  }
  Matrix<C> group(std::int64_t g) const {
    return row_major(data + g * s.group_out() * s.patch(), s.group_out(), s.patch());
  }
};

/// The scratch of one thread: patches, an image of y, and the packed blocks of gemm().
template <class C>
struct Slice {
  C *patches, *y;
  void* packed;
  Slice(const ConvSizes& s, Arena& arena)
      : patches(arena.take<C>(s.pixels() * s.patch())), y(arena.take<C>(s.pixels() * s.o)) {
    const std::int64_t sizes[3] = {s.pixels(), s.group_out(), s.patch()};
    const auto pack = [&](int m, int n, int k) { return gemm_scratch<C>(sizes[m], sizes[n], sizes[k]); };
    packed = arena.take_bytes(std::max({pack(0, 1, 2), pack(0, 2, 1), pack(1, 2, 0)}));
  }
  Matrix<C> patch_matrix(const ConvSizes& s) const { return row_major(patches, s.pixels(), s.patch()); }
  /// Returns the columns of group g in the image of y, which is (pixels, o).
  Matrix<C> y_group(const ConvSizes& s, std::int64_t g) const {
    return row_major(y, s.pixels(), s.o).block(0, g * s.group_out(), s.pixels(), s.group_out());
  }
};

template <class C>
struct Forward {
  Weights<C> weights;
  explicit Forward(const ConvSizes& s, Arena& arena) : weights(s, arena) {}
  using PerThread = Slice<C>;

  template <class T>
  void image_of_y(const ConvSizes& s, const Conv2dArgs& a, std::int64_t i, const Slice<C>& slice) const {
    const View sum = dense(slice.y, {s.oh, s.ow, s.o});
    if (a.bias.defined())
      copy(a.bias.expand(sum.shape), sum);
    else
      std::fill_n(slice.y, s.pixels() * s.o, C{0});
    for (std::int64_t g = 0; g < s.groups; ++g) {
      const T* group = a.x.as<T>() + i * a.x.strides[0] + g * s.group_in() * a.x.strides[1];
      im2col(s, group, a.x.strides, slice.patches);
      gemm<C>(slice.patch_matrix(s), weights.group(g).transposed(), slice.y_group(s, g), slice.packed);
    }
    activate(a.activation, sum);
    copy(sum, image(a.y, i));
  }
};

template <class C>
struct InputGrad {
  Weights<C> weights;
  explicit InputGrad(const ConvSizes& s, Arena& arena) : weights(s, arena) {}
  struct PerThread : Slice<C> {
    C* x;
    PerThread(const ConvSizes& s, Arena& arena) : Slice<C>(s, arena), x(arena.take<C>(s.h * s.w * s.c)) {}
  };

  void image_of_gx(const ConvSizes& s, const ConstView& gy, const View& gx, std::int64_t i,
                   const PerThread& slice) const {
    copy(image(gy, i), dense(slice.y, {s.oh, s.ow, s.o}));
    std::fill_n(slice.x, s.h * s.w * s.c, C{0});
    for (std::int64_t g = 0; g < s.groups; ++g) {
      std::fill_n(slice.patches, s.pixels() * s.patch(), C{0});
      gemm<C>(slice.y_group(s, g), weights.group(g), slice.patch_matrix(s), slice.packed);
      col2im(s, slice.patches, g, slice.x);
    }
    copy(dense(slice.x, {s.h, s.w, s.c}), image(gx, i));
  }
};

/// Sums over images go into a fixed number of parts, which are added in order. So the number of threads does not change
/// the bits.
template <class C>
struct WeightGrad {
  std::int64_t parts;
  C *gw, *gb;  // one per part
  explicit WeightGrad(const ConvSizes& s, Arena& arena)
      : parts(std::clamp<std::int64_t>((std::int64_t{1} << 22) / (s.o * s.patch()), 1, 16)) {
    parts = std::min(parts, std::max<std::int64_t>(s.n, 1));
    gw = arena.take<C>(parts * s.o * s.patch());
    gb = arena.take<C>(parts * s.o);
  }
  using PerThread = Slice<C>;

  template <class T>
  void sum_part(const ConvSizes& s, const ConstView& x, const ConstView& gy, std::int64_t part,
                const Slice<C>& slice) const {
    C* w = gw + part * s.o * s.patch();
    C* b = gb + part * s.o;
    std::fill_n(w, s.o * s.patch(), C{0});
    std::fill_n(b, s.o, C{0});
    for (std::int64_t i = s.n * part / parts; i < s.n * (part + 1) / parts; ++i) {
      copy(image(gy, i), dense(slice.y, {s.oh, s.ow, s.o}));
      for (std::int64_t j = 0; j < s.pixels(); ++j)
        for (std::int64_t k = 0; k < s.o; ++k) b[k] += slice.y[j * s.o + k];
      for (std::int64_t g = 0; g < s.groups; ++g) {
        im2col(s, x.as<T>() + i * x.strides[0] + g * s.group_in() * x.strides[1], x.strides, slice.patches);
        gemm<C>(slice.y_group(s, g).transposed(), slice.patch_matrix(s),
                row_major(w + g * s.group_out() * s.patch(), s.group_out(), s.patch()), slice.packed);
      }
    }
  }
  void finish(const ConvSizes& s, const View& w, const View& b) const {
    for (std::int64_t part = 1; part < parts; ++part) {
      for (std::int64_t k = 0; k < s.o * s.patch(); ++k) gw[k] += gw[part * s.o * s.patch() + k];
      for (std::int64_t k = 0; k < s.o; ++k) gb[k] += gb[part * s.o + k];
    }
    const View to = as_patches(w);
    copy(dense(gw, to.shape), to);
    if (b.defined()) copy(dense(gb, b.shape), b);
  }
};

/// The workspace has the memory that a Job shares between threads, and then a PerThread for each thread.
template <template <class> class Job, class Args>
Plan plan(const Args& args) {
  const ConvSizes s(args);
  return visit_floating(s.dtype, [&](auto zero) -> Plan {
    using J = Job<compute_t<decltype(zero)>>;
    Arena shared(nullptr), own(nullptr);
    const J job(s, shared);
    const typename J::PerThread slice(s, own);
    return {shared.bytes() + own.bytes() * static_cast<std::size_t>(num_threads())};
  });
}

/// Calls f(i, per_thread) for i in [0, count), in parallel. Each thread has its own PerThread.
template <class PerThread, class F>
void share(const ConvSizes& s, std::int64_t count, char* memory, F&& f) {
  Arena measure(nullptr);
  const PerThread unused(s, measure);
  cpu::share(count, [&](std::int64_t i, std::int64_t k) {
    Arena arena(memory + static_cast<std::size_t>(k) * measure.bytes());
    f(i, PerThread(s, arena));
  });
}

void conv2d(const Conv2dArgs& a, const Plan&, Workspace ws) {
  const ConvSizes s(a);
  visit_floating(s.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    Arena arena(ws.data);
    Forward<C> job(s, arena);
    job.weights.load(a.weight);
    share<Slice<C>>(s, s.n, static_cast<char*>(ws.data) + arena.bytes(),
                    [&](std::int64_t i, const auto& slice) { job.template image_of_y<T>(s, a, i, slice); });
  });
}

void conv2d_input_grad(const Conv2dInputGradArgs& a, const Plan&, Workspace ws) {
  const ConvSizes s(a);
  visit_floating(s.dtype, [&](auto zero) {
    using C = compute_t<decltype(zero)>;
    Arena arena(ws.data);
    InputGrad<C> job(s, arena);
    job.weights.load(a.weight);
    share<typename InputGrad<C>::PerThread>(
        s, s.n, static_cast<char*>(ws.data) + arena.bytes(),
        [&](std::int64_t i, const auto& slice) { job.image_of_gx(s, a.gy, a.gx, i, slice); });
  });
}

void conv2d_weight_grad(const Conv2dWeightGradArgs& args, const Plan&, Workspace ws) {
  const Conv2dWeightGradArgs a = through_activation(args);
  const ConvSizes s(a);
  visit_floating(s.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    Arena arena(ws.data);
    const WeightGrad<C> job(s, arena);
    share<Slice<C>>(s, job.parts, static_cast<char*>(ws.data) + arena.bytes(),
                    [&](std::int64_t part, const auto& slice) { job.template sum_part<T>(s, a.x, a.gy, part, slice); });
    job.finish(s, a.gw, a.gb);
  });
}

}  // namespace

const ConvKernels& conv_kernels() {
  static const ConvKernels all{
      .conv2d = {plan<Forward>, conv2d},
      .conv2d_input_grad = {plan<InputGrad>, conv2d_input_grad},
      .conv2d_weight_grad = {plan<WeightGrad>, conv2d_weight_grad},
  };
  return all;
}

}  // namespace bytetape::cpu::portable
