#pragma once

namespace bytetape {

/// What an op makes of its result before it stores it, where the two are one kernel.
enum class Activation { none, relu };

}  // namespace bytetape
