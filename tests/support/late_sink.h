#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "bytetape/autograd/grad_sink.h"
#include "bytetape/autograd/node.h"

namespace bytetape::test {

/// While it lives, says that the gradients of some leaves may still be written on a stream, as dist::DataParallel does.
class LateSink final : public GradSink {
 public:
  LateSink(std::vector<Tensor> leaves, Stream stream) : leaves_(std::move(leaves)), stream_(stream) {
    for (const Tensor& leaf : leaves_) autograd_meta(leaf).sink = this;
  }
  ~LateSink() {
    for (const Tensor& leaf : leaves_) autograd_meta(leaf).sink = nullptr;
  }
  LateSink(const LateSink&) = delete;
  LateSink& operator=(const LateSink&) = delete;
  void take(const Tensor&, const Tensor&) override {}
  void added(const Tensor&) override {}
  std::optional<Stream> late_on(const Tensor&) const override { return stream_; }

 private:
  std::vector<Tensor> leaves_;
  Stream stream_;
};

}  // namespace bytetape::test
