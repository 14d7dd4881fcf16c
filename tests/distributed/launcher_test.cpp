#include "bytetape/distributed/launcher.h"

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "tests/distributed/ranks.h"
#include "tests/support/expect.h"

namespace bytetape::dist {
namespace {

using Variables = std::map<std::string, std::string>;

/// Environment variables of launchers, and no others, while it lives.
class Environment {
 public:
  explicit Environment(const Variables& values) {
    for (const char* name :
         {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
          "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS",
          "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}) {
      const char* const old = std::getenv(name);
      before_[name] = old ? std::optional<std::string>(old) : std::nullopt;
      const auto value = values.find(name);
      set(name, value == values.end() ? std::nullopt : std::optional(value->second));
    }
  }
  ~Environment() {
    for (const auto& [name, value] : before_) set(name, value);
  }

 private:
  static void set(const std::string& name, const std::optional<std::string>& value) {
    value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
  }
  std::map<std::string, std::optional<std::string>> before_;
};

void expect(const Launch& launch, const std::string& launcher, std::vector<int> numbers) {
  EXPECT_EQ(launch.launcher, launcher);
  EXPECT_EQ((std::vector<int>{launch.rank, launch.size, launch.local_rank, launch.local_size}), numbers);
}

TEST(Launcher, IsReadFromItsVariables) {
  {
    const Environment none(Variables{});
    expect(read_launch(), "", {0, 1, 0, 1});
  }
  {
    const Environment torchrun({{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"}});
    expect(read_launch(), "torchrun", {5, 8, 1, 4});
  }
  {
    const Environment openmpi({{"OMPI_COMM_WORLD_RANK", "2"},
                               {"OMPI_COMM_WORLD_SIZE", "3"},
                               {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                               {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
                               {"RANK", "7"}});
    expect(read_launch(), "OpenMPI", {2, 3, 0, 1});
  }
  {
    const Environment mpich({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}});
    expect(read_launch(), "MPICH", {1, 2, 1, 2});
  }
  {
    const Environment slurm({{"SLURM_PROCID", "4"},
                             {"SLURM_STEP_NUM_TASKS", "6"},
                             {"SLURM_LOCALID", "1"},
                             {"SLURM_STEP_TASKS_PER_NODE", "3(x2)"}});
    expect(read_launch(), "Slurm", {4, 6, 1, 3});
  }
  {
    const Environment batch_script(Variables{{"SLURM_PROCID", "0"}});
    expect(read_launch(), "", {0, 1, 0, 1});
  }
}

TEST(Launcher, MayLeaveOutLocalNumbers) {
  const Environment torchrun(Variables{{"RANK", "1"}, {"WORLD_SIZE", "2"}});
  expect(read_launch(), "torchrun", {1, 2, 0, 1});
}

TEST(Launcher, OfMpichUnderSlurmHasSlurmsLocalNumbers) {
  const Environment srun(
      Variables{{"PMI_RANK", "7"}, {"PMI_SIZE", "8"}, {"SLURM_LOCALID", "1"}, {"SLURM_STEP_TASKS_PER_NODE", "2(x4)"}});
  expect(read_launch(), "MPICH", {7, 8, 1, 2});
}

TEST(Launcher, IsNotReadFromAVariableOfTheProgram) {
  const Environment rank_alone(Variables{{"RANK", "gold"}});
  expect(read_launch(), "", {0, 1, 0, 1});
}

TEST(Launcher, RefusesInvalidNumbers) {
  const auto read = [](const Variables& values) {
    const Environment environment(values);
    return read_launch();
  };
  EXPECT_THROWS_SAYING(read(Variables{{"PMI_RANK", "1"}}), ValueError, "not PMI_SIZE");
  EXPECT_THROWS_SAYING(read({{"RANK", "one"}, {"WORLD_SIZE", "2"}}), ValueError, "RANK, found 'one'");
  EXPECT_THROWS_SAYING(read({{"RANK", "1x"}, {"WORLD_SIZE", "2"}}), ValueError, "RANK, found '1x'");
  EXPECT_THROWS_SAYING(read({{"RANK", "-1"}, {"WORLD_SIZE", "2"}}), ValueError, "RANK, found '-1'");
  EXPECT_THROWS_SAYING(read({{"RANK", ""}, {"WORLD_SIZE", "2"}}), ValueError, "RANK, found ''");
  EXPECT_THROWS_SAYING(read({{"RANK", "2"}, {"WORLD_SIZE", "2"}}), ValueError, "RANK=2, but WORLD_SIZE=2");
}

}  // namespace
}  // namespace bytetape::dist
