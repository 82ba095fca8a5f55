#include "hdf5schema/series_file.h"

#include <H5Cpp.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>

#include "hdf5schema/checked_dataset.h"
#include "hdf5schema/checked_file.h"
#include "hdf5schema/hdf5_access.h"
#include "hdf5schema/vocabulary.h"

namespace reveal {
namespace {

constexpr hsize_t kMaxValues = hsize_t{1} << 32;
constexpr hsize_t kMostSeries = hsize_t{1} << 18;
constexpr std::size_t kMostTextBytes = std::size_t{64} << 20;

/// Reads text of h5py: its bytes are elsewhere in the file, where only the library finds them.
std::vector<std::string> read_variable_texts(const H5::H5File& file, const char* name) {
  H5L_info_t link;
  check_hdf5(H5Lget_info(file.getId(), name, &link, H5P_DEFAULT), "H5Lget_info");
  if (link.type != H5L_TYPE_HARD) throw Error("is a link to another file");
  const H5::DataSet dataset = file.openDataSet(name);
  const H5::DSetCreatPropList created = dataset.getCreatePlist();
  if (created.getLayout() == H5D_VIRTUAL || H5Pget_external_count(created.getId()) != 0)
    throw Error("its data is in another file");
  if (created.getNfilters() != 0) throw Error("texts of variable length must not be compressed");
  H5::DataSpace space = dataset.getSpace();
  hsize_t length = 0;
  if (space.getSimpleExtentNdims() == 1) space.getSimpleExtentDims(&length);
  if (length > kMostSeries || length * sizeof(hvl_t) > dataset.getStorageSize()) throw Error("is longer than the file");
  const H5::StrType type = dataset.getStrType();
  // One by one: all of them may point to the same bytes of the file.
  std::vector<std::string> texts;
  std::size_t bytes = 0;
  const hsize_t one = 1;
  const H5::DataSpace memory(1, &one);
  for (hsize_t i = 0; i < length; ++i) {
    space.selectHyperslab(H5S_SELECT_SET, &one, &i);
    char* text = nullptr;
    dataset.read(static_cast<void*>(&text), type, memory, space);
    texts.emplace_back(text == nullptr ? "" : text);
    H5::DataSet::vlenReclaim(static_cast<void*>(&text), type, memory);
    bytes += texts.back().size();
    if (bytes > kMostTextBytes) throw Error("has more text than can be read at once");
  }
  return texts;
}

/// One text per channel; fixed or variable length, as h5py writes them.
std::vector<std::string> read_texts(const H5::H5File& file, const char* name, const std::string& place) {
  try {
    const bool variable = [&] {
      const hid_t id = H5Dopen2(file.getId(), name, H5P_DEFAULT);
      check_hdf5(id, "H5Dopen2");
      const hid_t type = H5Dget_type(id);
      const bool is_variable = H5Tis_variable_str(type) > 0;
      H5Tclose(type);
      H5Dclose(id);
      return is_variable;
    }();
    if (variable) return read_variable_texts(file, name);
    const CheckedDataset table(file, name);
    if (table.extent().size() != 1 || !table.holds_text()) throw Error("must be one text per channel");
    if (table.extent()[0] > kMostSeries) throw Error("has more entries than can be read at once");
    const std::vector<char> bytes = table.read(table.extent()[0]);
    std::vector<std::string> texts(table.extent()[0]);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::string_view text(bytes.data() + i * table.width(), table.width());
      texts[i] = text.substr(0, text.find('\0'));
    }
    return texts;
  } catch (...) {
    throw Error(place + ": dataset \"" + name + "\": " + failure_reason());
  }
}

/// A misspelt word is no default: the channel would be taken for another kind of number.
std::vector<std::string> read_optional_texts(const H5::H5File& file, const char* name, std::size_t channels,
                                             bool (*known)(std::string_view), const std::string& place) {
  if (!file.nameExists(name)) return std::vector<std::string>(channels);
  std::vector<std::string> texts = read_texts(file, name, place);
  if (texts.size() != channels)
    throw Error(place + ": dataset \"" + name + "\" has " + std::to_string(texts.size()) + " entries for " +
                std::to_string(channels) + " channels");
  for (const std::string& text : texts) {
    if (!text.empty() && !known(text))
      throw Error(place + ": dataset \"" + name + "\" has the unknown word \"" + text +
                  "\"; reveal score --help lists the known ones");
  }
  return texts;
}

bool holds_numbers(const CheckedDataset& values) {
  const H5T_class_t type = values.dataset().getTypeClass();
  return type == H5T_FLOAT || type == H5T_INTEGER;
}

/// All of [time, channel]; a chunk that the file lacks stays NaN.
std::vector<double> numbers_of(const CheckedDataset& values) {
  const hsize_t rows = values.extent()[0];
  const hsize_t columns = values.extent()[1];
  const auto chunk = values.chunk();
  const H5::DataType type = values.dataset().getDataType();
  const hsize_t stored = values.dataset().getStorageSize();
  // Deflate makes at most 1032 bytes of one.
  if (rows * columns > stored / values.width() * (chunk.empty() ? 1 : 1032))
    throw Error("dataset \"values\" claims to be larger than the file");
  std::vector<double> numbers(rows * columns, std::numeric_limits<double>::quiet_NaN());
  if (numbers.empty()) return numbers;
  if (chunk.empty()) {
    values.dataset().read(numbers.data(), H5::PredType::NATIVE_DOUBLE);
    return numbers;
  }
  ByteBuffer bytes;
  for (hsize_t row = 0; row < rows; row += chunk[0]) {
    for (hsize_t column = 0; column < columns; column += chunk[1]) {
      const hsize_t offset[2] = {row, column};
      if (!values.read_chunk(offset, bytes)) continue;
      const std::size_t count = chunk[0] * chunk[1];
      bytes.resize(count * std::max(values.width(), sizeof(double)));
      check_hdf5(H5Tconvert(type.getId(), H5T_NATIVE_DOUBLE, count, bytes.data(), nullptr, H5P_DEFAULT), "H5Tconvert");
      const std::size_t width = std::min(chunk[1], columns - column);
      for (hsize_t r = 0; r < std::min(chunk[0], rows - row); ++r)
        std::memcpy(&numbers[(row + r) * columns + column], bytes.data() + r * chunk[1] * sizeof(double),
                    width * sizeof(double));
    }
  }
  return numbers;
}

}  // namespace

SeriesFile read_series_file(const std::filesystem::path& path) {
  const std::string place = path.string();
  const CheckedFile checked(path, "series");
  const Hdf5Access access;
  try {
    const H5::H5File file = checked.open();
    for (const char* name : {"values", "channels"}) {
      if (!file.nameExists(name)) throw Error(place + ": has no dataset \"" + std::string(name) + "\"");
    }
    SeriesFile series;
    const H5::Group root = file.openGroup("/");
    if (!root.attrExists("interval_seconds")) throw Error(place + ": has no attribute \"interval_seconds\"");
    const H5::Attribute interval = root.openAttribute("interval_seconds");
    if (interval.getSpace().getSimpleExtentNpoints() != 1 ||
        (interval.getTypeClass() != H5T_FLOAT && interval.getTypeClass() != H5T_INTEGER))
      throw Error(place + ": attribute \"interval_seconds\" must be one number");
    interval.read(H5::PredType::NATIVE_DOUBLE, &series.interval_seconds);
    if (!(series.interval_seconds > 0) || series.interval_seconds > 1e9)
      throw Error(place + ": attribute \"interval_seconds\" must be a positive number");

    const CheckedDataset values(file, "values");
    const auto extent = values.extent();
    if (extent.size() != 2 || !holds_numbers(values))
      throw Error(place + ": dataset \"values\" must be numbers [time, channel]");
    if (extent[1] > 0 && extent[0] > kMaxValues / extent[1]) throw Error(place + ": is too large to be read at once");
    series.samples = extent[0];
    const std::size_t channels = extent[1];
    series.channels = read_texts(file, "channels", place);
    if (series.channels.size() != channels)
      throw Error(place + ": dataset \"values\" has " + std::to_string(channels) + " columns, \"channels\" names " +
                  std::to_string(series.channels.size()));
    series.kind = read_optional_texts(
        file, "kind", channels, [](std::string_view text) { return kind_of(text).has_value(); }, place);
    series.subsystem = read_optional_texts(
        file, "subsystem", channels, [](std::string_view text) { return subsystem_of(text).has_value(); }, place);

    const std::vector<double> by_time = numbers_of(values);
    series.values.resize(by_time.size());
    for (std::size_t sample = 0; sample < series.samples; ++sample) {
      for (std::size_t channel = 0; channel < channels; ++channel)
        series.values[channel * series.samples + sample] = by_time[sample * channels + channel];
    }
    return series;
  } catch (...) {
    throw as_error(place);
  }
}

}  // namespace reveal
