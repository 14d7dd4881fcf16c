#include "tests/support/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bytetape/core/philox.h"

namespace bytetape::test::reference {

Array matmul(const Array& a, const Array& b) {
  Array left = a, right = b;
  if (a.shape.size() == 1) left.shape = {1, a.size(0)};
  if (b.shape.size() == 1) right.shape = {b.size(0), 1};
  const std::int64_t m = left.size(-2), k = left.size(-1), n = right.size(-1);
  const auto batch = [](const Array& x) { return Dims(std::span(x.shape.begin(), x.shape.end() - 2)); };
  Shape shape = broadcast(batch(left), batch(right));
  shape.push_back(m);
  shape.push_back(n);
  Array y(shape);
  const int last = shape.size() - 1;
  for_each_index(shape, [&](const Dims& at) {
    Dims row = at, column = at;
    for (std::int64_t i = 0; i < k; ++i) {
      row[last] = i;
      column[last - 1] = i;
      y(at) += left(row) * right(column);
    }
  });
  if (b.shape.size() == 1) y.shape.erase(y.shape.size() - 1);
  if (a.shape.size() == 1) y.shape.erase(y.shape.size() - (b.shape.size() == 1 ? 1 : 2));
  return y;
}

Array transpose(const Array& x) {
  Array y(Shape{x.size(1), x.size(0)});
  for_each_index(y.shape, [&](const Dims& at) { y(at) = x({at[1], at[0]}); });
  return y;
}

Array conv2d(const Array& x, const Array& weight, const Array* bias, const Conv2dParams& p) {
  Shape shape{x.size(0), weight.size(0), 0, 0};
  for (int i = 0; i < 2; ++i)
    shape[2 + i] = (x.size(2 + i) + 2 * p.padding[i] - p.dilation[i] * (weight.size(2 + i) - 1) - 1) / p.stride[i] + 1;
  const std::int64_t outputs_a_group = weight.size(0) / p.groups;
  Array y(shape);
  for_each_index(shape, [&](const Dims& at) {
    const std::int64_t first_channel = at[1] / outputs_a_group * weight.size(1);
    double sum = bias ? (*bias)({at[1]}) : 0;
    for_each_index({weight.size(1), weight.size(2), weight.size(3)}, [&](const Dims& tap) {
      const std::int64_t h = at[2] * p.stride[0] - p.padding[0] + tap[1] * p.dilation[0];
      const std::int64_t w = at[3] * p.stride[1] - p.padding[1] + tap[2] * p.dilation[1];
      if (h < 0 || w < 0 || h >= x.size(2) || w >= x.size(3)) return;
      sum += x({at[0], first_channel + tap[0], h, w}) * weight({at[1], tap[0], tap[1], tap[2]});
    });
    y(at) = sum;
  });
  return y;
}

Array conv_transpose2d(const Array& x, const Array& weight, const Array* bias, const ConvTranspose2dParams& p) {
  const std::int64_t made = weight.size(1), seen = weight.size(0) / p.groups;
  Shape shape{x.size(0), made * p.groups, 0, 0};
  for (int i = 0; i < 2; ++i)
    shape[2 + i] = (x.size(2 + i) - 1) * p.stride[i] - 2 * p.padding[i] + p.dilation[i] * (weight.size(2 + i) - 1) +
                   p.output_padding[i] + 1;
  Array y(shape);
  if (bias) for_each_index(shape, [&](const Dims& at) { y(at) = (*bias)({at[1]}); });
  for_each_index(x.shape, [&](const Dims& at) {
    for_each_index({made, weight.size(2), weight.size(3)}, [&](const Dims& tap) {
      const std::int64_t h = at[2] * p.stride[0] - p.padding[0] + tap[1] * p.dilation[0];
      const std::int64_t w = at[3] * p.stride[1] - p.padding[1] + tap[2] * p.dilation[1];
      if (h < 0 || w < 0 || h >= shape[2] || w >= shape[3]) return;
      y({at[0], at[1] / seen * made + tap[0], h, w}) += x(at) * weight({at[1], tap[0], tap[1], tap[2]});
    });
  });
  return y;
}

namespace {

Pool2dParams with_stride(Pool2dParams p) {
  if (p.stride == 0) p.stride = p.kernel;
  return p;
}
Shape pooled_shape(const Array& x, const Pool2dParams& p) {
  Shape shape = x.shape;
  for (int i = 0; i < 2; ++i) shape[2 + i] = (x.size(2 + i) + 2 * p.padding[i] - p.kernel[i]) / p.stride[i] + 1;
  return shape;
}

/// The mean of x's pixels from `first` up to `end` within one channel.
double mean_of(const Array& x, const Dims& at, Size2 first, Size2 end) {
  double sum = 0;
  for (std::int64_t h = first.h; h < end.h; ++h)
    for (std::int64_t w = first.w; w < end.w; ++w) sum += x({at[0], at[1], h, w});
  return sum / static_cast<double>((end.h - first.h) * (end.w - first.w));
}

}  // namespace

Array max_pool2d(const Array& x, const Pool2dParams& params) {
  const Pool2dParams p = with_stride(params);
  Array y(pooled_shape(x, p), -std::numeric_limits<double>::infinity());
  for_each_index(y.shape, [&](const Dims& at) {
    for_each_index({p.kernel[0], p.kernel[1]}, [&](const Dims& tap) {
      const std::int64_t h = at[2] * p.stride[0] - p.padding[0] + tap[0];
      const std::int64_t w = at[3] * p.stride[1] - p.padding[1] + tap[1];
      if (h < 0 || w < 0 || h >= x.size(2) || w >= x.size(3)) return;
      y(at) = std::max(y(at), x({at[0], at[1], h, w}));
    });
  });
  return y;
}

Array avg_pool2d(const Array& x, const Pool2dParams& params, bool count_include_pad) {
  const Pool2dParams p = with_stride(params);
  Array y(pooled_shape(x, p));
  for_each_index(y.shape, [&](const Dims& at) {
    Size2 first = 0, end = 0;
    for (int i = 0; i < 2; ++i) {
      const std::int64_t start = at[2 + i] * p.stride[i] - p.padding[i];
      first[i] = std::max<std::int64_t>(start, 0);
      end[i] = std::min(start + p.kernel[i], x.size(2 + i));
    }
    const auto counted = static_cast<double>((end.h - first.h) * (end.w - first.w)),
               all = static_cast<double>(p.kernel.h * p.kernel.w);
    y(at) = mean_of(x, at, first, end) * (count_include_pad ? counted / all : 1);
  });
  return y;
}

Array adaptive_avg_pool2d(const Array& x, Size2 output_size) {
  Array y({x.size(0), x.size(1), output_size.h, output_size.w});
  for_each_index(y.shape, [&](const Dims& at) {
    Size2 first = 0, end = 0;
    for (int i = 0; i < 2; ++i) {
      const double n = static_cast<double>(x.size(2 + i)), m = static_cast<double>(output_size[i]),
                   o = static_cast<double>(at[2 + i]);
      first[i] = static_cast<std::int64_t>(std::floor(o * n / m));
      end[i] = static_cast<std::int64_t>(std::ceil((o + 1) * n / m));
    }
    y(at) = mean_of(x, at, first, end);
  });
  return y;
}

Array interpolate(const Array& x, const InterpolateOptions& o) {
  Array y(x.shape);
  const bool has_factor = o.scale_factor != 0;
  for (int i = 0; i < 2; ++i)
    y.shape[2 + i] =
        has_factor ? static_cast<std::int64_t>(static_cast<double>(x.size(2 + i)) * o.scale_factor[i]) : o.size[i];
  y = Array(y.shape);
  for_each_index(y.shape, [&](const Dims& at) {
    std::int64_t low[2], high[2];
    double part[2];  // of the higher
    for (int i = 0; i < 2; ++i) {
      const std::int64_t in = x.size(2 + i), out = y.size(2 + i), last = in - 1, j = at[2 + i];
      const auto n = static_cast<double>(in), m = static_cast<double>(out), to = static_cast<double>(j);
      double from = 0;
      if (o.mode == InterpolationMode::nearest) {
        const double step = has_factor ? 1 / o.scale_factor[i] : n / m;
        from = std::floor(static_cast<float>(j) * static_cast<float>(step));
        if (out == in) from = to;
        if (out == 2 * in) from = std::floor(to / 2);
      } else if (out == in) {
        from = to;
      } else if (o.align_corners) {
        from = out == 1 ? 0 : to * (n - 1) / (m - 1);
      } else {
        from = std::max(0.0, (to + 0.5) * (has_factor ? 1 / o.scale_factor[i] : n / m) - 0.5);
      }
      low[i] = std::min(static_cast<std::int64_t>(from), last);
      high[i] = std::min(low[i] + 1, last);
      part[i] = std::min(from - static_cast<double>(low[i]), 1.0);
    }
    const auto pixel = [&](std::int64_t h, std::int64_t w) { return x({at[0], at[1], h, w}); };
    y(at) = (1 - part[0]) * ((1 - part[1]) * pixel(low[0], low[1]) + part[1] * pixel(low[0], high[1])) +
            part[0] * ((1 - part[1]) * pixel(high[0], low[1]) + part[1] * pixel(high[0], high[1]));
  });
  return y;
}

Array batch_norm(const Array& x, const Array* weight, const Array* bias, const double* mean, const double* var,
                 double eps) {
  Array y(x.shape);
  for (std::int64_t c = 0; c < x.size(1); ++c) {
    double m = 0, v = 0;
    std::int64_t n = 0;
    const auto over_channel = [&](auto f) {
      for_each_index(x.shape, [&](const Dims& at) {
        if (at[1] == c) f(at);
      });
    };
    over_channel([&](const Dims& at) { m += x(at), ++n; });
    m = mean ? *mean : m / static_cast<double>(n);
    over_channel([&](const Dims& at) { v += (x(at) - m) * (x(at) - m); });
    v = var ? *var : v / static_cast<double>(n);
    over_channel([&](const Dims& at) {
      y(at) = (x(at) - m) / std::sqrt(v + eps) * (weight ? (*weight)({c}) : 1) + (bias ? (*bias)({c}) : 0);
    });
  }
  return y;
}

Array layer_norm(const Array& x, int dims, const Array* weight, const Array* bias, double eps) {
  std::int64_t n = 1;
  for (int d = x.shape.size() - dims; d < x.shape.size(); ++d) n *= x.shape[d];
  Array y = x;
  for (std::size_t row = 0; row < x.values.size(); row += static_cast<std::size_t>(n)) {
    double mean = 0, var = 0;
    for (std::int64_t j = 0; j < n; ++j) mean += x.values[row + static_cast<std::size_t>(j)] / static_cast<double>(n);
    for (std::int64_t j = 0; j < n; ++j)
      var += std::pow(x.values[row + static_cast<std::size_t>(j)] - mean, 2) / static_cast<double>(n);
    for (std::size_t j = 0; j < static_cast<std::size_t>(n); ++j)
      y.values[row + j] = (x.values[row + j] - mean) / std::sqrt(var + eps) * (weight ? weight->values[j] : 1) +
                          (bias ? bias->values[j] : 0);
  }
  return y;
}

Array rms_norm(const Array& x, int dims, const Array* weight, double eps) {
  std::size_t n = 1;
  for (int d = x.shape.size() - dims; d < x.shape.size(); ++d) n *= static_cast<std::size_t>(x.shape[d]);
  Array y = x;
  for (std::size_t row = 0; row < x.values.size(); row += n) {
    double square = 0;
    for (std::size_t j = 0; j < n; ++j) square += std::pow(x.values[row + j], 2) / static_cast<double>(n);
    for (std::size_t j = 0; j < n; ++j)
      y.values[row + j] = x.values[row + j] / std::sqrt(square + eps) * (weight ? weight->values[j] : 1);
  }
  return y;
}

Array group_norm(const Array& x, std::int64_t groups, const Array* weight, const Array* bias, double eps) {
  const std::int64_t channels = x.size(1), of_group = channels / groups;
  const auto group = [&](const Dims& at) { return Dims{at[0], at[1] / of_group}; };
  const double count = static_cast<double>(of_group) * static_cast<double>(numel(x.shape)) /
                       static_cast<double>(std::max<std::int64_t>(x.size(0) * channels, 1));
  Array mean(Shape{x.size(0), groups}), var = mean, y(x.shape);
  for_each_index(x.shape, [&](const Dims& at) { mean(group(at)) += x(at) / count; });
  for_each_index(x.shape, [&](const Dims& at) { var(group(at)) += std::pow(x(at) - mean(group(at)), 2) / count; });
  for_each_index(x.shape, [&](const Dims& at) {
    y(at) = (x(at) - mean(group(at))) / std::sqrt(var(group(at)) + eps) * (weight ? (*weight)({at[1]}) : 1) +
            (bias ? (*bias)({at[1]}) : 0);
  });
  return y;
}

Array log_softmax(const Array& x, int dim) {
  const int d = wrap_dim(dim, x.shape);
  const Dims dims = x.shape.empty() ? Dims{} : Dims{d};
  const Array high = reducing(
      [](const std::vector<double>& v) {
        double m = -std::numeric_limits<double>::infinity();
        for (double e : v) m = std::max(m, e);
        return m;
      },
      dims, true)({x});
  Array sum(high.shape), y(x.shape);
  const auto group = [&](Dims at) {
    if (!at.empty()) at[d] = 0;
    return at;
  };
  for_each_index(x.shape, [&](const Dims& at) { sum(group(at)) += std::exp(x(at) - high(group(at))); });
  for_each_index(x.shape, [&](const Dims& at) { y(at) = x(at) - high(group(at)) - std::log(sum(group(at))); });
  return y;
}

static Array reduced(const Array& losses, Reduction reduction, double count) {
  if (reduction == Reduction::none) return losses;
  double sum = 0;
  for (const double v : losses.values) sum += v;
  return Array({}, reduction == Reduction::sum ? sum : sum / count);
}

/// Where class c of a row lies.
static Dims with_class(const Dims& row, std::int64_t c) {
  Dims at = row;
  at.push_back(c);
  for (int d = at.size() - 1; d > 1; --d) std::swap(at[d], at[d - 1]);
  return at;
}

Array nll_loss(const Array& log_p, const Array& target, const Array* weight, const CrossEntropyOptions& options) {
  const std::int64_t classes = log_p.size(1);
  const double s = options.label_smoothing;
  Array losses(target.shape);
  double count = 0;
  for_each_index(target.shape, [&](const Dims& row) {
    const auto t = static_cast<std::int64_t>(target(row));
    if (t == options.ignore_index) return;
    const auto loss = [&](std::int64_t c) { return (weight ? (*weight)({c}) : 1) * -log_p(with_class(row, c)); };
    double all = 0;
    for (std::int64_t c = 0; c < classes; ++c) all += loss(c);
    losses(row) = (1 - s) * loss(t) + s / static_cast<double>(classes) * all;
    count += weight ? (*weight)({t}) : 1;
  });
  return reduced(losses, options.reduction, count);
}

Array cross_entropy(const Array& logits, const Array& target, const CrossEntropyOptions& options) {
  return nll_loss(log_softmax(logits, 1), target, nullptr, options);
}

Array soft_cross_entropy(const Array& logits, const Array& target, const Array* weight,
                         const CrossEntropyOptions& options) {
  const Array log_p = log_softmax(logits, 1);
  const auto classes = static_cast<double>(logits.size(1));
  Shape rows;
  for (int d = 0; d < logits.shape.size(); ++d)
    if (d != 1) rows.push_back(logits.shape[d]);
  Array losses(rows);
  for_each_index(rows, [&](const Dims& row) {
    for (std::int64_t c = 0; c < logits.size(1); ++c) {
      const Dims at = with_class(row, c);
      const double wanted = (1 - options.label_smoothing) * target(at) + options.label_smoothing / classes;
      losses(row) -= (weight ? (*weight)({c}) : 1) * wanted * log_p(at);
    }
  });
  return reduced(losses, options.reduction, static_cast<double>(losses.values.size()));
}

Array cat(const Arrays& x, int dim) {
  Shape shape = x[0].shape;
  shape[dim] = 0;
  for (const Array& part : x) shape[dim] += part.size(dim);
  Array y(shape);
  std::int64_t start = 0;
  for (const Array& part : x) {
    for_each_index(part.shape, [&](const Dims& at) {
      Dims to = at;
      to[dim] += start;
      y(to) = part(at);
    });
    start += part.size(dim);
  }
  return y;
}

Array dropout(const Array& x, double p, std::uint64_t seed) {
  Array y(x.shape);
  for (std::size_t i = 0; i < x.values.size(); ++i)
    if (static_cast<double>(unit_float(philox(seed, i / 4)[i % 4])) >= p) y.values[i] = x.values[i] / (1 - p);
  return y;
}

}  // namespace bytetape::test::reference
