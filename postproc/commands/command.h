// A subcommand of `reveal`: its options, what it does with them, and its line in the help. One per file in this folder,
// without a header; each file ends in a registration line.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/diagnose/analysis_settings.h"
#include "postproc/report/report.h"
#include "postproc/telemetry/publish.h"

namespace CLI {
class App;
}

namespace reveal {

inline constexpr int kFailure = 1;
inline constexpr int kUsage = 2;

/// Options of every subcommand.
struct CommonOptions {
  bool json = false;
  bool no_color = false;
  std::string color = "auto";
  std::string config;    // instead of the site's and the user's
  bool foreign = false;  // what is read belongs to another user

  /// The style of standard output: as wide as the terminal, within reason, and in colour where it has some.
  [[nodiscard]] TextStyle style() const;
  /// --config; throws Error when there is no such file.
  [[nodiscard]] const std::string& config_file() const;
  /// That file, or the site's and, if wanted, the user's.
  [[nodiscard]] Config configuration(ConfigOwner of = ConfigOwner::user) const;
  /// Its settings of the analysis; prints its mistakes.
  [[nodiscard]] AnalysisSettings settings() const;
};

struct Inputs {
  std::vector<std::filesystem::path> paths;    // the job directory first
  bool entries = true;                         // the entries of its directories are read, too
  std::vector<std::filesystem::path> outputs;  // files that it writes, elsewhere
  Output how = Output::stream;                 // they are written
  bool followed = false;                       // until they end, whenever that is
};

class Command {
 public:
  virtual ~Command() = default;
  /// Adds its own options to its part of the command line; they are read into this object or `common`.
  virtual void declare([[maybe_unused]] CLI::App& app, [[maybe_unused]] CommonOptions& common) {}
  /// The exit status. What is thrown becomes one line on stderr and the failure_status of its CommandSpec.
  virtual int run(const CommonOptions& common) = 0;
  /// Job directories and files that it reads: where one of them is somebody else's, run() is called in a child that can
  /// do nothing else (confined.h).
  [[nodiscard]] virtual Inputs inputs() const { return {}; }
};

enum class Caller : std::uint8_t {
  user,
  collector,  // not in the help, and without the options of a user
};

struct CommandSpec {
  int order = 0;  // its place in `reveal --help`
  std::string_view name;
  std::string_view help;
  std::string_view examples;
  Caller caller = Caller::user;
  int usage_status = kUsage;      // what it ends with where its options cannot be understood
  int failure_status = kFailure;  // likewise where it comes to nothing
  std::unique_ptr<Command> (*make)() = nullptr;
};

template <typename Type>
std::unique_ptr<Command> make_command() {
  return std::make_unique<Type>();
}

/// All registered subcommands, in the order of the help.
[[nodiscard]] std::vector<CommandSpec> commands();

struct RegisteredCommand {
  explicit RegisteredCommand(const CommandSpec& spec);
};

}  // namespace reveal
