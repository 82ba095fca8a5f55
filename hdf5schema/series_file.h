// Any multivariate series in HDF5, as `reveal score` takes it: datasets `values` [time, channel] and `channels`, where
// present `kind` and `subsystem` per channel, and the attribute `interval_seconds`. Reads nothing else of the file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace reveal {

struct SeriesFile {
  double interval_seconds = 0;
  std::vector<std::string> channels;
  std::vector<std::string> kind;       // "" if the file has none
  std::vector<std::string> subsystem;  // "" if the file has none
  std::size_t samples = 0;
  std::vector<double> values;  // [channel][time], NaN where missing
};

/// Throws Error with one line if the file does not follow the convention.
[[nodiscard]] SeriesFile read_series_file(const std::filesystem::path& path);

}  // namespace reveal
