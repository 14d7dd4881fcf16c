#pragma once
/// \file
/// Every op.
#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/compare.h"
#include "bytetape/autograd/ops/concat.h"
#include "bytetape/autograd/ops/conv.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/dropout.h"
#include "bytetape/autograd/ops/loss.h"
#include "bytetape/autograd/ops/matmul.h"
#include "bytetape/autograd/ops/norm.h"
#include "bytetape/autograd/ops/pointwise.h"
#include "bytetape/autograd/ops/pool.h"
#include "bytetape/autograd/ops/random.h"
#include "bytetape/autograd/ops/reduce.h"
#include "bytetape/autograd/ops/softmax.h"
#include "bytetape/autograd/ops/view.h"
