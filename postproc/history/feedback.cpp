#include "postproc/history/feedback.h"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>

#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/basics/private_files.h"
#include "postproc/json/json_fields.h"
#include "postproc/words/sanitize.h"
#include "postproc/words/times.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFeedbackSchema = "reveal.feedback/1";
constexpr std::size_t kLargestFeedback = 4 << 20;
constexpr std::size_t kMostFeedback = 2000;  // the oldest go
constexpr std::size_t kDateLength = 10;      // length of the date in "2026-11-24 14:00"

bool about_the_same(const Feedback& one, const Feedback& other) {
  return one.key == other.key && one.rule == other.rule && one.fingerprint == other.fingerprint;
}

/// One at a time changes the file.
Descriptor turn_in(const fs::path& state) {
  make_private_directory(state.string(), Privacy::others_do_not_write);
  const fs::path file = state / "feedback.lock";
  Descriptor lock(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (lock.get() < 0 || ::flock(lock.get(), LOCK_EX) != 0) throw system_error(file.string(), errno);
  return lock;
}

void write_feedback(const fs::path& state, std::span<const Feedback> all) {
  Json rows = Json::array();
  for (const Feedback& each : all) {
    rows.push_back({{"key", each.key},
                    {"job", each.job},
                    {"rule", each.rule},
                    {"fingerprint", each.fingerprint},
                    {"words", each.words},
                    {"said_utc_ns", each.said_utc_ns}});
  }
  publish_file(state, kFeedbackFile, json_text(Json{{"schema", kFeedbackSchema}, {"feedback", std::move(rows)}}, 2),
               Synced::yes);
}

}  // namespace

std::vector<Feedback> read_feedback(const fs::path& state) {
  std::error_code error;
  const fs::path file = state / kFeedbackFile;
  if (!fs::exists(fs::symlink_status(file, error))) return {};
  std::vector<Feedback> all;
  try {
    const Json json = Json::parse(read_text_file(file, kLargestFeedback, FileOf::ours));
    for (const Json& row : json.at("feedback")) {
      all.push_back({.key = row.at("key").get<std::string>(),
                     .job = row.at("job").get<std::string>(),
                     .rule = row.at("rule").get<std::string>(),
                     .fingerprint = row.at("fingerprint").get<std::string>(),
                     .words = row.at("words").get<std::string>(),
                     .said_utc_ns = row.at("said_utc_ns").get<std::int64_t>()});
    }
  } catch (const Json::exception& failure) {
    throw Error(fmt::format("{}: {}", file.string(), failure.what()));
  }
  return all;
}

void add_feedback(const fs::path& state, const Feedback& said) {
  const Descriptor turn = turn_in(state);
  std::vector<Feedback> all = read_feedback(state);
  std::erase_if(all, [&](const Feedback& each) { return about_the_same(each, said); });
  all.push_back(said);
  if (all.size() > kMostFeedback) all.erase(all.begin(), all.end() - kMostFeedback);
  write_feedback(state, all);
}

bool take_back_feedback(const fs::path& state, const Feedback& said) {
  const Descriptor turn = turn_in(state);
  std::vector<Feedback> all = read_feedback(state);
  if (std::erase_if(all, [&](const Feedback& each) { return about_the_same(each, said); }) == 0) return false;
  write_feedback(state, all);
  return true;
}

void apply_feedback(std::span<const Feedback> feedback, std::string_view key, std::vector<Finding>& findings) {
  for (Finding& finding : findings) {
    const auto said = std::find_if(feedback.begin(), feedback.end(), [&](const Feedback& each) {
      return each.key == key && each.rule == finding.id &&
             (each.fingerprint.empty() || each.fingerprint == finding.fingerprint);
    });
    if (said == feedback.end()) continue;
    finding.feedback = fmt::format("Your feedback of {}: {}", date_and_time(said->said_utc_ns).substr(0, kDateLength),
                                   printable(said->words));
    finding.sentence += fmt::format(" {}.", finding.feedback);
    const bool broken = finding.severity == Severity::critical && finding.kind == FindingKind::audit;
    if (!broken) finding.severity = Severity::info;
  }
}

}  // namespace reveal
