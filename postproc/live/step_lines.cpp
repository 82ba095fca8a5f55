#include "postproc/live/step_lines.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>

namespace reveal {
namespace {

constexpr std::size_t kPiece = 900;          // bytes; with its head, less than srun's 1024
constexpr std::size_t kLongestLine = 1000;   // bytes
constexpr std::size_t kLongestText = 32768;  // bytes; an alert has two or three thousand
constexpr char kMore = '+';
constexpr char kLast = '.';

}  // namespace

std::string step_lines(std::size_t task, std::string_view text) {
  std::string lines;
  do {
    const std::string_view piece = text.substr(0, kPiece);
    text.remove_prefix(piece.size());
    lines += fmt::format("{} {}{}\n", task, text.empty() ? kLast : kMore, piece);
  } while (!text.empty());
  return lines;
}

std::vector<StepLineReader::Text> StepLineReader::take(std::string_view bytes) {
  std::vector<Text> texts;
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
    line_too_long_ = line_too_long_ || line_.size() + part.size() > kLongestLine;
    if (!line_too_long_) line_ += part;
    if (end == std::string_view::npos) break;
    if (line_too_long_) {
      ++left_out_;
    } else {
      take_line(line_, texts);
    }
    line_too_long_ = false;
    line_.clear();
  }
  return texts;
}

void StepLineReader::take_line(std::string_view line, std::vector<Text>& texts) {
  std::size_t task = 0;
  const auto [at, error] = std::from_chars(line.data(), line.data() + line.size(), task);
  line.remove_prefix(static_cast<std::size_t>(at - line.data()));
  const bool ours = error == std::errc() && task < begun_.size() && line.size() >= 2 && line[0] == ' ' &&
                    (line[1] == kMore || line[1] == kLast);
  if (!ours) {
    ++left_out_;
    return;
  }
  Begun& begun = begun_[task];
  const bool last = line[1] == kLast;
  line.remove_prefix(2);
  begun.too_long = begun.too_long || begun.text.size() + line.size() > kLongestText;
  if (!begun.too_long) begun.text += line;
  if (!last) return;
  if (begun.too_long) {
    ++left_out_;
  } else {
    texts.push_back({task, std::move(begun.text)});
  }
  begun = {};
}

}  // namespace reveal
