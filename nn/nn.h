#pragma once
/// \file
/// Includes every layer.
#include "bytetape/nn/call.h"
#include "bytetape/nn/conv.h"
#include "bytetape/nn/fit.h"
#include "bytetape/nn/init.h"
#include "bytetape/nn/layers.h"
#include "bytetape/nn/linear.h"
#include "bytetape/nn/module.h"
#include "bytetape/nn/module_list.h"
#include "bytetape/nn/norm.h"
#include "bytetape/nn/parameter.h"
#include "bytetape/nn/pool.h"
#include "bytetape/nn/savings.h"
#include "bytetape/nn/sequential.h"
#include "bytetape/nn/update_bn.h"
#include "bytetape/nn/upsample.h"
