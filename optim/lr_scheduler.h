#pragma once
/// \file
/// Includes every learning rate schedule.
#include "bytetape/optim/lr_scheduler/chained.h"
#include "bytetape/optim/lr_scheduler/cosine_annealing_lr.h"
#include "bytetape/optim/lr_scheduler/cosine_annealing_warm_restarts.h"
#include "bytetape/optim/lr_scheduler/exponential_lr.h"
#include "bytetape/optim/lr_scheduler/lambda_lr.h"
#include "bytetape/optim/lr_scheduler/linear_lr.h"
#include "bytetape/optim/lr_scheduler/multi_step_lr.h"
#include "bytetape/optim/lr_scheduler/one_cycle_lr.h"
#include "bytetape/optim/lr_scheduler/reduce_lr_on_plateau.h"
#include "bytetape/optim/lr_scheduler/step_lr.h"
