#include "bytetape/autograd/grad_mode.h"

#include <utility>

namespace bytetape {
namespace {
constinit thread_local bool enabled = true;
constinit thread_local bool anomaly = false;
constinit thread_local bool recompute = false;
}  // namespace

bool grad_enabled() { return enabled; }
GradMode::GradMode(bool on) : previous_(std::exchange(enabled, on)) {}
GradMode::~GradMode() { enabled = previous_; }

bool recomputing() { return recompute; }
Recompute::Recompute() : previous_(std::exchange(recompute, true)) {}
Recompute::~Recompute() { recompute = previous_; }

bool detecting_anomaly() { return anomaly; }
DetectAnomaly::DetectAnomaly() : previous_(std::exchange(anomaly, true)) {}
DetectAnomaly::~DetectAnomaly() { anomaly = previous_; }

}  // namespace bytetape
