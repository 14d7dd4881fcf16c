#pragma once
/// \file
/// Includes all of bytetape/distributed.
#include "bytetape/distributed/checkpoint.h"
#include "bytetape/distributed/collectives.h"
#include "bytetape/distributed/data_parallel.h"
#include "bytetape/distributed/group.h"
#include "bytetape/distributed/rank_index.h"
#include "bytetape/distributed/run.h"
#include "bytetape/distributed/sharded.h"
#include "bytetape/distributed/sync_batch_norm.h"
