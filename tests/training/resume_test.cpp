// A run that was interrupted and goes on from a checkpoint is, bit for bit, the one that was not.
#include "bytetape/bytetape.h"
#include "tests/support/expect.h"
#include "tests/support/temporary_dir.h"

namespace bytetape {
namespace {

/// What a run goes on from, besides its data.
struct Run {
  nn::Module& net;
  optim::Optimizer& optimizer;
  optim::lr_scheduler::StepLR& schedule;
  optim::GradScaler& scaler;
};

// [save]
void save(const std::string& path, const Run& run, std::int64_t epoch, std::int64_t batch) {
  StateDict state;
  state.add("model", {run.net.state_dict()});
  state.add("optimizer", run.optimizer.state_dict());
  state.add("schedule", run.schedule.state_dict());
  state.add("scaler", run.scaler.state_dict());
  state.add("generator", default_generator().state_dict());
  state.numbers["epoch"] = epoch;
  state.numbers["batch"] = batch;  // how many of the epoch's are done
  save_checkpoint(path, state);
}

void resume(const std::string& path, const Run& run, data::DataLoader& loader) {
  const Checkpoint saved(path);                    // a FileError, unless all of it is there and undamaged
  saved.load_into("model", run.net.state_dict());  // and unless it fits
  loader.set_position(saved.integer("epoch"), saved.integer("batch"));
  run.optimizer.load_state_dict(saved.part("optimizer"));
  run.schedule.load_state_dict(saved.part("schedule"));
  run.scaler.load_state_dict(saved.part("scaler"));
  default_generator().load_state_dict(saved.part("generator"));
}
// [save]

constexpr std::int64_t classes = 4;

struct Data {
  Tensor images, labels;
  Data() {
    Generator g(5);
    images = randn({50, 3, 8, 8}, DType::f32, Device::cpu(), g);
    labels = randint(0, classes, {50}, DType::i64, Device::cpu(), g);
  }
};

nn::Sequential make_net() {
  manual_seed(3);
  return nn::Sequential(nn::Conv2d(3, 6, 3, {.padding = 1}), nn::BatchNorm2d(6), nn::ReLU(), nn::Flatten(),
                        nn::Dropout(0.4), nn::Linear(6 * 64, classes));
}

std::unique_ptr<optim::Optimizer> make_optimizer(bool is_adam, std::vector<Tensor> parameters) {
  if (is_adam) return std::make_unique<optim::Adam>(std::move(parameters));
  return std::make_unique<optim::SGD>(std::move(parameters), optim::SGDOptions{.lr = 0.05, .momentum = 0.9});
}

/// All that a process has of a run, made anew.
class Training {
 public:
  explicit Training(bool is_adam) : optimizer_(make_optimizer(is_adam, net_.parameters())) {}

  /// Trains up to batch `until` of all, and returns what there is then.
  std::vector<std::vector<float>> train(std::int64_t until) {
    while (done_ < until)
      for (const data::Batch& batch : loader_) {
        optimizer_->zero_grad();
        scaler_.scale(cross_entropy(net_(batch.x), batch.y)).backward();
        scaler_.step(*optimizer_);
        scaler_.update();
        schedule_.step();
        if (++done_ == until) break;
      }
    std::vector<std::vector<float>> all;
    for (const auto& [name, x] : net_.state_dict()) all.push_back(x.to_vector<float>());
    return all;
  }

  void save(const std::string& path) { bytetape::save(path, run_, done_ / loader_.size(), done_ % loader_.size()); }
  void resume(const std::string& path) {
    bytetape::resume(path, run_, loader_);
    done_ = Checkpoint(path).integer("epoch") * loader_.size() + Checkpoint(path).integer("batch");
  }

 private:
  Data data_;
  data::TensorDataset dataset_{data_.images, data_.labels};
  data::DataLoader loader_{dataset_, {.batch_size = 8, .shuffle = true}};
  nn::Sequential net_ = make_net();
  std::unique_ptr<optim::Optimizer> optimizer_;
  optim::lr_scheduler::StepLR schedule_{*optimizer_, {.step_size = 4}};
  optim::GradScaler scaler_{{.growth_interval = 3}};
  Run run_{net_, *optimizer_, schedule_, scaler_};
  std::int64_t done_ = 0;
};

TEST(Resume, GoesOnBitForBitFromWhereverItWasInterrupted) {
  const test::TemporaryDir dir;
  for (const bool is_adam : {false, true}) {
    const auto expected = Training(is_adam).train(17);
    for (const std::int64_t at : {0, 3, 7, 12, 16}) {  // seven batches an epoch
      Training first(is_adam);
      first.train(at);
      first.save(dir / "run.ckpt");
      Training second(is_adam);
      second.train(2);  // something else
      second.resume(dir / "run.ckpt");
      EXPECT_EQ(second.train(17), expected) << (is_adam ? "adam" : "sgd") << " from " << at;
    }
  }
}

TEST(Resume, ADamagedCheckpointChangesNothing) {
  const test::TemporaryDir dir;
  Training run(true);
  run.train(3);
  run.save(dir / "run.ckpt");
  std::string bytes = test::content_of(dir / "run.ckpt");
  bytes.back() ^= 1;
  test::set_content(dir / "run.ckpt", bytes);
  EXPECT_THROW(run.resume(dir / "run.ckpt"), FileError);
  const auto went_on = run.train(9);
  Training other(true);
  other.train(3);
  EXPECT_EQ(went_on, other.train(9));
}

}  // namespace
}  // namespace bytetape
