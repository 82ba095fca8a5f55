#include "postproc/score/score.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string_view>

#include "hdf5schema/basics/error.h"
#include "postproc/detect/pipeline.h"
#include "postproc/detect/scan/scan_series.h"
#include "postproc/telemetry/publish.h"
#include "postproc/words/sanitize.h"

namespace reveal {

namespace {

/// "cpu1", "rank0", "n0" (a network namespace).
bool numbers_a_peer(std::string_view part) {
  for (const std::string_view prefix : kPeerNames) {
    const std::string_view digits = part.substr(std::min(prefix.size(), part.size()));
    if (part.substr(0, prefix.size()) != prefix || digits.empty()) continue;
    if (std::all_of(digits.begin(), digits.end(), [](unsigned char c) { return std::isdigit(c) != 0; })) return true;
  }
  return false;
}

/// Cuts the part that numbers a peer out of the name: "net.n0.rxb/eth0" -> metric "net.n.rxb/eth0", instance "n0".
void name_channel(const std::string& name, Channel& channel) {
  channel.metric = name;
  if (const auto slash = name.rfind('/'); slash != std::string::npos) {
    if (const std::string instance = name.substr(slash + 1); numbers_a_peer(instance)) {
      channel.metric = name.substr(0, slash);
      channel.instance = instance;
      return;
    }
  }
  for (std::size_t begin = 0; begin < name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string part = name.substr(begin, end - begin);
    if (numbers_a_peer(part)) {
      channel.instance = part;
      const std::size_t letters = part.find_first_of("0123456789");
      channel.metric = name.substr(0, begin) + part.substr(0, letters) + name.substr(end);
      return;
    }
    begin = end + 1;
  }
}

/// A name may hold anything; the field separators may not.
std::string escaped(const std::string& name) {
  std::string safe = printable(name);
  std::replace_if(
      safe.begin(), safe.end(), [](char c) { return c == ',' || c == ';' || c == ':' || c == '"'; }, '_');
  return safe;
}

std::string top_channels(const std::vector<Reason>& reasons, const SeriesFile& file) {
  std::string text;
  for (const Reason& reason : reasons) {
    fmt::format_to(std::back_inserter(text), "{}{}:{:.6g}", text.empty() ? "" : ";",
                   escaped(file.channels[reason.channel]), reason.share);
  }
  return text;
}

std::string place_of(const Episode& episode, const SeriesFile& file) {
  constexpr std::size_t kMostNamed = 3;
  std::string text = fmt::format("samples {} to {} ({:.4g} s to {:.4g} s)", episode.begin, episode.end,
                                 static_cast<double>(episode.begin) * file.interval_seconds,
                                 static_cast<double>(episode.end) * file.interval_seconds);
  for (std::size_t i = 0; i < std::min(kMostNamed, episode.reasons.size()); ++i) {
    text += ", " + escaped(file.channels[episode.reasons[i].channel]);
  }
  return text;
}

}  // namespace

Telemetry telemetry_of(const SeriesFile& file) {
  Telemetry telemetry;
  telemetry.step_seconds = file.interval_seconds;
  telemetry.samples = file.samples;
  telemetry.values.assign(file.values.begin(), file.values.end());
  for (std::size_t c = 0; c < file.channels.size(); ++c) {
    Channel channel;
    name_channel(file.channels[c], channel);
    channel.kind = kind_of(file.kind[c]).value_or(Kind::gauge);
    channel.subsystem = subsystem_of(file.subsystem[c]).value_or(Subsystem::cpu);
    channel.period_seconds = file.interval_seconds;
    telemetry.channels.push_back(std::move(channel));
  }
  return telemetry;
}

std::string windows_csv(const Detection& detection, const SeriesFile& file) {
  std::string text = "begin,end,score,flagged,tier,agreement,top_channels\n";
  for (const WindowScore& window : detection.windows) {
    fmt::format_to(std::back_inserter(text), "{},{},{:.6g},{},{},{},{}\n", window.begin, window.end, window.score,
                   window.tier == Tier::strong ? 1 : 0, name_of(window.tier), window.agreement,
                   top_channels(window.reasons, file));
  }
  return text;
}

std::string episodes_csv(const Detection& detection, const SeriesFile& file) {
  std::string text = "begin,end,score,tier,labels,subsystem,top_channels\n";
  for (const Episode& episode : detection.episodes) {
    if (episode.tier == Tier::none) continue;
    std::string labels;
    for (const Label label : episode.labels) labels += (labels.empty() ? "" : ";") + std::string(name_of(label));
    fmt::format_to(std::back_inserter(text), "{},{},{:.6g},{},{},{},{}\n", episode.begin, episode.end, episode.score,
                   name_of(episode.tier), labels, name_of(episode.subsystem), top_channels(episode.reasons, file));
  }
  return text;
}

ScoreResult run_score(const ScoreOptions& options) {
  const Pipeline& pipeline = find_pipeline(options.pipeline);
  const SeriesFile file = read_series_file(options.input);
  if (options.window == 0 || options.stride == 0) throw Error("window and stride must be at least one sample");
  if (file.samples < options.window) {
    throw Error(fmt::format("{}: {} samples, shorter than one window of {}", options.input.string(), file.samples,
                            options.window));
  }
  DetectOptions detect;
  detect.window_seconds = static_cast<double>(options.window) * file.interval_seconds;
  detect.stride_seconds = static_cast<double>(options.stride) * file.interval_seconds;
  detect.seed = options.seed;
  detect.every_channel = true;
  const Detection detection = pipeline.run(telemetry_of(file), detect);
  if (detection.windows.empty() && !detection.insufficient.empty())
    throw Error(options.input.string() + ": " + detection.insufficient);
  write_output(options.windows_csv, windows_csv(detection, file));
  if (!options.episodes_csv.empty()) write_output(options.episodes_csv, episodes_csv(detection, file));
  ScoreResult result{.samples = file.samples,
                     .channels = file.channels.size(),
                     .interval_seconds = file.interval_seconds,
                     .windows = detection.windows.size(),
                     .insufficient = detection.insufficient};
  for (const Episode& episode : detection.episodes) {  // by falling score
    if (episode.tier != Tier::none && result.strongest.empty()) result.strongest = place_of(episode, file);
    result.strong += episode.tier == Tier::strong ? 1 : 0;
    result.weak += episode.tier == Tier::weak ? 1 : 0;
  }
  return result;
}

std::string as_line(const ScoreResult& result) {
  std::string line =
      fmt::format("{} samples x {} channels at {:g} s: ", result.samples, result.channels, result.interval_seconds);
  if (!result.insufficient.empty()) return line + "not judged: " + result.insufficient;
  line += fmt::format("{} strong interval{}, {} weak", result.strong, result.strong == 1 ? "" : "s", result.weak);
  return result.strongest.empty() ? line + ": no abnormal interval" : line + "; strongest: " + result.strongest;
}

}  // namespace reveal
