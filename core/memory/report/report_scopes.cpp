#include "bytetape/core/memory/report/report_scopes.h"

#include <map>

namespace bytetape::memory {

ReportScopes::ReportScopes(const std::vector<Mark>& marks) {
  struct Scope {
    Phase phase = Phase::setup;
    Phase stage = Phase::setup;
    NameId module = 0, op = 0;
  };
  std::map<std::uint32_t, std::vector<Scope>> open;  // by thread, the innermost last
  std::uint64_t time = 0;
  for (const Mark& m : marks) {
    std::vector<Scope>& scopes = open.try_emplace(m.thread, 1).first->second;
    if (m.begins) {
      scopes.push_back(scopes.back());
      Scope& inner = scopes.back();
      if (m.kind == Mark::Kind::phase) inner.phase = m.phase;
      if (inner.stage == Phase::setup) inner.stage = inner.phase;
      if (m.kind == Mark::Kind::module) inner.module = m.name;
      if (m.kind == Mark::Kind::op) inner.op = m.name;
    } else if (scopes.size() > 1) {  // otherwise the scope began before the recording
      scopes.pop_back();
    }
    elapsed.push_back(m.time > time ? m.time - time : 0);
    thread.push_back(m.thread);
    phase.push_back(static_cast<std::uint64_t>(scopes.back().phase));
    stage.push_back(static_cast<std::uint64_t>(scopes.back().stage));
    module.push_back(scopes.back().module);
    op.push_back(scopes.back().op);
    begins_op.push_back(m.begins && m.kind == Mark::Kind::op);
    if (m.time > time) time = m.time;
  }
}

}  // namespace bytetape::memory
