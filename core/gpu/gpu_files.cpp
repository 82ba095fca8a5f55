#include "core/gpu/gpu_files.h"

#include <algorithm>

#include "core/kernel_text/kernel_words.h"
#include "core/sampler/worker_process.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

std::int64_t rounded(std::int64_t value, GpuFiles::Scale scale) {
  if (scale.multiplier != 1) return scaled(value, scale.multiplier);
  return value / scale.divisor + (value % scale.divisor * 2 >= scale.divisor ? 1 : 0);
}

}  // namespace

GpuRequest parse_gpu_request(std::string_view words) {
  GpuRequest request;
  if (cut_word(words) == GpuRequest::kSlow) request.pace = GpuPace::slow;
  for (std::string_view word = cut_word(words); !word.empty(); word = cut_word(words)) {
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = word.substr(0, equals);
    const std::string_view value = word.substr(equals + 1);
    if (key == "at") {
      request.time_ns = parse_int(value).value_or(0);
    } else if (key == "pid") {
      request.pids.push_back(static_cast<int>(parse_int(value).value_or(0)));
    } else if (request.gpus.size() < GpuRequest::kMostGpus) {
      request.gpus.emplace_back(key, value);
    }
  }
  return request;
}

void cut_answer(std::string& answer) {
  constexpr std::size_t kLongest = WorkerProcess::kLongestAnswer;
  if (answer.size() > kLongest) answer.resize(answer.rfind('\n', kLongest - 1) + 1);
}

void append_value(std::string& text, std::string_view metric, std::int64_t value) {
  text.append(1, ' ').append(metric).append(1, ' ').append(std::to_string(value));
}

std::string whole_units(std::string_view word, std::int64_t divisor) {
  const auto value = parse_int(word);
  return value && *value > 0 ? std::to_string(*value / divisor) : "";
}

GpuFiles::GpuFiles(KernelTree& fs, std::string number, const std::string& address)
    : fs_(fs),
      number_(std::move(number)),
      folder_("/sys/bus/pci/devices/" + address),
      status_(fs.open(folder_ + "/power/runtime_status", 64)) {}

bool GpuFiles::is_asleep() {
  const std::string_view status = status_.read();
  return sleeps(status.substr(0, status.find('\n')));
}

void GpuFiles::add(std::string_view metric, const std::string& path, Scale scale, GpuPace pace) {
  readings_.push_back({metric, fs_.open(path, 64), scale, pace, kMissing});
}

bool GpuFiles::has(std::string_view metric) const {
  return std::any_of(readings_.begin(), readings_.end(), [metric](const Reading& one) { return one.metric == metric; });
}

void GpuFiles::append_values(std::string& line, GpuPace pace) {
  for (Reading& reading : readings_) {
    std::int64_t value = 0;
    reading.value = kMissing;
    if (reading.pace == GpuPace::slow && pace == GpuPace::fast) continue;
    if (!parse_number_file(reading.file.read(), value)) continue;  // EBUSY while it is being reset
    reading.value = rounded(value, reading.scale);
  }
  for (auto reading = readings_.begin(); reading != readings_.end(); ++reading) {
    const auto same = [reading](const Reading& other) { return other.metric == reading->metric; };
    if (std::find_if(readings_.begin(), reading, same) != reading) continue;  // told with the first
    std::int64_t most = kMissing;
    for (auto one = reading; one != readings_.end(); ++one) most = same(*one) ? std::max(most, one->value) : most;
    if (most != kMissing) append_value(line, reading->metric, most);
  }
}

void GpuFiles::append_fact(std::string& answer, std::string_view key, const std::string& value) const {
  if (!value.empty())
    answer.append("fact " + number_ + ' ').append(key).append(' ' + value.substr(0, value.find('\n')) + '\n');
}

}  // namespace reveal
