#pragma once
/// Everything: #include <bytetape/bytetape.h>.
#include "bytetape/autograd/engine.h"
#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/node.h"
#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/backend.h"
#include "bytetape/core/default_device.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/parallel.h"
#include "bytetape/core/tensor.h"
#include "bytetape/nn/nn.h"
