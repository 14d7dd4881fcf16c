#include "examples/run_state.h"

namespace bytetape::examples {

void RunState::save(const std::string& path) const {
  StateDict state;
  state.add("of", {{}, {{of, 1}}});  // as the name of a number, because only those may be any text
  state.add("model", {model.state_dict()});
  state.add("optimizer", optimizer.state_dict());
  state.add("generator", default_generator().state_dict());
  state.add("sums", {sums});
  state.numbers["epoch"] = reached.epoch;
  state.numbers["batch"] = reached.batch;
  save_checkpoint(path, state);
}

void RunState::load(const Checkpoint& saved) {
  const auto found = saved.part("of").numbers;
  check<ValueError>(found.size() == 1, "--resume: expected a checkpoint of this program, got another checkpoint");
  const std::string& other = found.begin()->first;
  check<ValueError>(other == of, "--resume: expected a checkpoint of ", of, ", got one of ", other,
                    ": give the options that it was made with, or another file");
  reached = data::Position::in(saved.integer("epoch"), saved.integer("batch"), steps);
  saved.load_into("model", model.state_dict());
  saved.load_into("sums", sums);
  optimizer.load_state_dict(saved.part("optimizer"));
  default_generator().load_state_dict(saved.part("generator"));
}

}  // namespace bytetape::examples
