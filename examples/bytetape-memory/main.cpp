// Prints, compares and converts memory recordings (memory::Recording, run.memlog).
#include <CLI/CLI.hpp>
#include <iostream>
#include <string>
#include <vector>

#include "bytetape/version.h"
#include "examples/as_bytes.h"
#include "examples/bytetape-memory/beside.h"
#include "examples/bytetape-memory/difference.h"
#include "examples/bytetape-memory/export.h"
#include "examples/bytetape-memory/page.h"
#include "examples/bytetape-memory/predict.h"
#include "examples/bytetape-memory/row_order.h"
#include "examples/bytetape-memory/summary.h"
#include "examples/bytetape-memory/times.h"
#include "examples/validators.h"

namespace {

using namespace bytetape;

constexpr const char* description =
    "Reads memory recordings, which programs write with bytetape::memory::Recording. A recording of a\n"
    "program that was stopped is read to its end. A damaged recording is read up to the damage.";
constexpr const char* statuses =
    "Exit status: 0 for success. 1 if a command fails, a recording is damaged, predict finds that the\n"
    "limit is too low, or diff finds a difference. 2 if the command line is wrong, or if diff fails or\n"
    "reads a damaged recording.\n\n"
    "  bytetape-memory summary run.memlog\n"
    "  bytetape-memory times run.memlog --by module\n"
    "  bytetape-memory times run.memlog --step 3 --beside 7\n"
    "  bytetape-memory report run.memlog run.html\n"
    "  bytetape-memory diff before.memlog after.memlog\n"
    "  bytetape-memory export run.memlog --to chrome run.json    # for ui.perfetto.dev\n"
    "  bytetape-memory predict run.memlog --limit 8GiB";

struct Arguments {
  std::vector<std::string> page;
  std::string log, other, out, format, device, policy = "caching";
  examples::TimesOptions times;
  std::uint64_t limit = 0;
  bool kernels = false;
};

void add_log(CLI::App& command, std::string& path, const char* name = "LOG") {
  command.add_option(name, path, "a recording, such as run.memlog")->required();
}
void add_device(CLI::App& command, Arguments& a, const char* otherwise = "the one with the highest peak") {
  command.add_option("--device", a.device, std::string("name of the device; default: ") + otherwise);
}

void add_times(CLI::App& app, Arguments& a) {
  const auto at_least_1 = examples::finite_from<std::uint32_t>(1, "POSITIVE");
  CLI::App* times = app.add_subcommand("times", "print where the time of a step went");
  add_log(*times, a.log);
  auto* step =
      times->add_option("--step", a.times.step, "number of the step; default: the mean of all steps after the first")
          ->check(at_least_1);
  auto* beside =
      times->add_option("--beside", a.times.beside, "number of a second step, to compare --step with, row by row")
          ->check(at_least_1)
          ->needs(step);
  auto* by = times->add_option("--by", a.times.by, "op, module, or call: an op in a module")
                 ->check(CLI::IsMember({"op", "module", "call"}));
  auto* sort =
      times->add_option("--sort", a.times.sort, "the column to sort by; default: the time, or with --beside the change")
          ->check(CLI::IsMember(examples::sort_columns));
  auto* ceilings =
      times
          ->add_option("--ceilings", a.times.ceilings,
                       "a file of bench/ceilings, for the share of the roofline; default: those in the recording")
          ->excludes(beside);
  times->add_flag("--kernels", a.kernels, "of a recording with device times: the kernels and copies, with their ops")
      ->excludes(by)
      ->excludes(sort)
      ->excludes(beside)
      ->excludes(ceilings);
  times->add_option("--rows", a.times.rows, "the most rows to print")
      ->check(examples::finite_from<std::size_t>(1, "POSITIVE"));
}

/// Throws CLI::ParseError unless these are the arguments of `report`.
void check_page(const std::vector<std::string>& paths) {
  if (paths.size() != 2 && paths.size() != 3)
    throw CLI::ValidationError(
        "report",
        "expected a recording, perhaps another one, and the page to write, as in: report run.memlog run.html");
  if (!paths.back().ends_with(".html"))
    throw CLI::ValidationError("report", "expected the page OUT.html as the last argument, got '" + paths.back() + "'");
}

/// Parses the command line. Throws CLI::ParseError, which names an unknown command.
void parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::RequiredError&) {
    const std::vector<std::string> unknown = app.remaining();
    if (!app.get_subcommands().empty() || unknown.empty()) throw;
    std::string known;
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
      known += (known.empty() ? "" : ", ") + command->get_name();
    const char* what = unknown.front().starts_with('-') ? "option" : "command";
    throw CLI::ValidationError(std::string("unknown ") + what + " '" + unknown.front() + "': expected one of " + known);
  }
}

int run(const CLI::App& app, const Arguments& a) {
  if (app.got_subcommand("summary")) return examples::summary(a.log);
  if (app.got_subcommand("times")) {
    if (a.kernels) return examples::kernels(a.log, a.times.step, a.times.rows);
    return a.times.beside ? examples::beside(a.log, a.times) : examples::times(a.log, a.times);
  }
  if (app.got_subcommand("report")) {
    check_page(a.page);
    return examples::page(a.page);
  }
  if (app.got_subcommand("diff")) return examples::difference(a.log, a.other, a.device);
  if (app.got_subcommand("export")) return examples::write_export(a.log, a.format, a.device, a.out);
  return examples::predict(a.log, a.device, a.policy, a.limit);
}

}  // namespace

int main(int argc, char** argv) {
  Arguments a;
  CLI::App app{description, "bytetape-memory"};
  app.set_version_flag("--version", BYTETAPE_VERSION);
  app.footer(statuses);
  app.failure_message([](const CLI::App* command, const CLI::Error& e) {
    return "bytetape-memory: " + CLI::FailureMessage::simple(command, e);
  });
  app.require_subcommand(1);

  CLI::App* summary = app.add_subcommand("summary", "print timelines, the peak and its holders, and steps");
  add_log(*summary, a.log);

  add_times(app, a);

  CLI::App* report = app.add_subcommand("report", "write an HTML page for a browser");
  report
      ->add_option("FILES", a.page,
                   "LOG [OTHER] OUT.html: a recording, another one to compare with, and the page to write")
      ->required()
      ->expected(-1);

  CLI::App* diff = app.add_subcommand("diff", "compare two recordings: the first event that differs, and the sums");
  add_log(*diff, a.log, "A");
  add_log(*diff, a.other, "B");
  add_device(*diff, a, "all devices");

  CLI::App* to = app.add_subcommand("export", "write a file for other programs");
  add_log(*to, a.log);
  to->add_option("--to", a.format,
                 "chrome: for ui.perfetto.dev and chrome://tracing\n"
                 "torch: for pytorch.org/memory_viz and torch.cuda._memory_viz\n"
                 "csv: a line for each event\n"
                 "times: CSV with a line for each op of each module in each step: its times and work\n"
                 "json: the timeline of one device, in the format of write_timeline")
      ->required()
      ->check(CLI::IsMember({"chrome", "torch", "csv", "times", "json"}));
  to->add_option("OUT", a.out, "the file to write")->required();
  add_device(*to, a);

  CLI::App* predict = app.add_subcommand("predict", "predict whether the requests fit another limit or policy");
  add_log(*predict, a.log);
  predict->add_option("--limit", a.limit, "bytes that may be reserved, such as 512MiB; 0: no limit")
      ->transform(examples::as_bytes())
      ->check(examples::finite_from_0<std::uint64_t>());
  predict->add_option("--policy", a.policy, "caching; or direct: each block is its own piece of system memory")
      ->check(CLI::IsMember({"caching", "direct"}));
  add_device(*predict, a);

  try {
    parse(app, argc, argv);
    return run(app, a);
  } catch (const CLI::ParseError& e) { return app.exit(e) == 0 ? 0 : 2; } catch (const std::exception& e) {
    std::cerr << "bytetape-memory: " << e.what() << '\n';
    return app.got_subcommand("diff") ? 2 : 1;
  }
}
