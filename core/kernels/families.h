#pragma once
#include <cstdint>

/// \file
/// The list of kernel families. FAMILY(Name, name, kind) stands for the struct NameKernels of core/kernels/name.h,
/// which each backend fills in its name_kernels(). A family is `planned` if one of its kernels is Planned; cuda/ then
/// has its plans in name_plans(). Else it is `immediate`.
#define BYTETAPE_KERNEL_FAMILIES(FAMILY)               \
  FAMILY(Activation, activation, planned)              \
  FAMILY(Arithmetic, arithmetic, immediate)            \
  FAMILY(Attention, attention, planned)                \
  FAMILY(CachedAttention, cached_attention, immediate) \
  FAMILY(Collective, collective, planned)              \
  FAMILY(Compare, compare, immediate)                  \
  FAMILY(Conv, conv, planned)                          \
  FAMILY(Copy, copy, immediate)                        \
  FAMILY(Dropout, dropout, planned)                    \
  FAMILY(ElementwiseLoss, elementwise_loss, immediate) \
  FAMILY(Gather, gather, planned)                      \
  FAMILY(GradScale, grad_scale, immediate)             \
  FAMILY(GroupNorm, group_norm, planned)               \
  FAMILY(Images, images, immediate)                    \
  FAMILY(Indexing, indexing, planned)                  \
  FAMILY(Interpolate, interpolate, immediate)          \
  FAMILY(LayerNorm, layer_norm, planned)               \
  FAMILY(Loss, loss, planned)                          \
  FAMILY(Matmul, matmul, planned)                      \
  FAMILY(BatchNorm, batch_norm, planned)               \
  FAMILY(Optimizer, optimizer, planned)                \
  FAMILY(Pad, pad, immediate)                          \
  FAMILY(Pointwise, pointwise, immediate)              \
  FAMILY(Pool, pool, immediate)                        \
  FAMILY(Random, random, planned)                      \
  FAMILY(Recurrent, recurrent, immediate)              \
  FAMILY(Reduce, reduce, planned)                      \
  FAMILY(RmsNorm, rms_norm, planned)                   \
  FAMILY(Scan, scan, immediate)                        \
  FAMILY(Softmax, softmax, immediate)                  \
  FAMILY(Sort, sort, planned)

namespace bytetape {

#define BYTETAPE_FAMILY(Name, name, kind) struct Name##Kernels;
BYTETAPE_KERNEL_FAMILIES(BYTETAPE_FAMILY)
#undef BYTETAPE_FAMILY

/// The families, by name.
enum class Family : std::uint8_t {
#define BYTETAPE_FAMILY(Name, name, kind) name,
  BYTETAPE_KERNEL_FAMILIES(BYTETAPE_FAMILY)
#undef BYTETAPE_FAMILY
};

/// The number of families.
inline constexpr int family_count = 0
#define BYTETAPE_FAMILY(Name, name, kind) +1
    BYTETAPE_KERNEL_FAMILIES(BYTETAPE_FAMILY)
#undef BYTETAPE_FAMILY
    ;

/// The Family of a struct of kernels, such as PointwiseKernels.
template <class Kernels>
struct FamilyOf;
#define BYTETAPE_FAMILY(Name, name, kind)       \
  template <>                                   \
  struct FamilyOf<Name##Kernels> {              \
    static constexpr auto value = Family::name; \
  };
BYTETAPE_KERNEL_FAMILIES(BYTETAPE_FAMILY)
#undef BYTETAPE_FAMILY

}  // namespace bytetape
