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

struct FeedbackDocument {
  std::vector<Feedback> feedback;
};

void fields(auto& v, Visited<decltype(v), Feedback>& said) {
  v("key", said.key);
  v("job", said.job);
  v("rule", said.rule);
  v("fingerprint", said.fingerprint);
  v("words", said.words);
  v("said_utc_ns", said.said_utc_ns);
}

void fields(auto& v, Visited<decltype(v), FeedbackDocument>& document) {
  v.schema("schema", "reveal.feedback/1");
  v("feedback", document.feedback);
}

namespace {

namespace fs = std::filesystem;

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

void write_feedback(const fs::path& state, std::vector<Feedback> all) {
  const Json json = JsonWriter::whole(FeedbackDocument{std::move(all)});
  publish_file(state, kFeedbackFile, json_text(json, 2), Synced::yes);
}

}  // namespace

std::vector<Feedback> read_feedback(const fs::path& state) {
  std::error_code error;
  const fs::path file = state / kFeedbackFile;
  if (!fs::exists(fs::symlink_status(file, error))) return {};
  const Json json = parse_json(read_text_file(file, kLargestFeedback, FileOf::ours), file.native());
  FeedbackDocument document;
  JsonReader reader(json, file.native());
  fields(reader, document);
  return std::move(document.feedback);
}

void add_feedback(const fs::path& state, const Feedback& said) {
  const Descriptor turn = turn_in(state);
  std::vector<Feedback> all = read_feedback(state);
  std::erase_if(all, [&](const Feedback& each) { return about_the_same(each, said); });
  all.push_back(said);
  if (all.size() > kMostFeedback) all.erase(all.begin(), all.end() - kMostFeedback);
  write_feedback(state, std::move(all));
}

bool take_back_feedback(const fs::path& state, const Feedback& said) {
  const Descriptor turn = turn_in(state);
  std::vector<Feedback> all = read_feedback(state);
  if (std::erase_if(all, [&](const Feedback& each) { return about_the_same(each, said); }) == 0) return false;
  write_feedback(state, std::move(all));
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
