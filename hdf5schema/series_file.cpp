#include "hdf5schema/series_file.h"

#include <H5Cpp.h>

#include <algorithm>
#include <limits>

#include "hdf5schema/hdf5_access.h"

namespace reveal {
namespace {

constexpr hsize_t kMaxValues = hsize_t{1} << 32;

/// One text per channel; fixed or variable length, as h5py writes them.
std::vector<std::string> read_texts(const H5::H5File& file, const char* name, const std::string& place) {
  const H5::DataSet dataset = file.openDataSet(name);
  const H5::DataSpace space = dataset.getSpace();
  if (space.getSimpleExtentNdims() != 1 || dataset.getTypeClass() != H5T_STRING)
    throw Error(place + ": dataset \"" + name + "\" must be one text per channel");
  hsize_t length = 0;
  space.getSimpleExtentDims(&length);
  std::vector<std::string> texts(length);
  if (length == 0) return texts;
  const H5::StrType type = dataset.getStrType();
  if (type.isVariableStr()) {
    std::vector<char*> pointers(length, nullptr);
    dataset.read(static_cast<void*>(pointers.data()), type);
    for (std::size_t i = 0; i < length; ++i) texts[i] = pointers[i] == nullptr ? "" : pointers[i];
    H5::DataSet::vlenReclaim(static_cast<void*>(pointers.data()), type, space);
    return texts;
  }
  const std::size_t width = type.getSize();
  std::vector<char> bytes(length * width);
  dataset.read(bytes.data(), type);
  for (std::size_t i = 0; i < length; ++i) {
    const std::string_view text(bytes.data() + i * width, width);
    texts[i] = text.substr(0, text.find('\0'));
  }
  return texts;
}

std::vector<std::string> read_optional_texts(const H5::H5File& file, const char* name, std::size_t channels,
                                             const std::string& place) {
  if (!file.nameExists(name)) return std::vector<std::string>(channels);
  std::vector<std::string> texts = read_texts(file, name, place);
  if (texts.size() != channels)
    throw Error(place + ": dataset \"" + name + "\" has " + std::to_string(texts.size()) + " entries for " +
                std::to_string(channels) + " channels");
  return texts;
}

}  // namespace

SeriesFile read_series_file(const std::filesystem::path& path) {
  const std::string place = path.string();
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (error) throw system_error(place, error.value());
  if (std::filesystem::is_directory(status)) throw Error(place + ": is a directory, not a series");
  const Hdf5Access access;
  try {
    if (!H5::H5File::isHdf5(place)) throw Error(place + ": is not an HDF5 file, or cannot be read");
    H5::FileAccPropList list;
    check_hdf5(H5Pset_file_locking(list.getId(), false, true), "H5Pset_file_locking");
    const H5::H5File file(place, H5F_ACC_RDONLY, H5::FileCreatPropList::DEFAULT, list);
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

    const H5::DataSet values = file.openDataSet("values");
    const H5::DataSpace space = values.getSpace();
    const H5T_class_t type = values.getTypeClass();
    if (space.getSimpleExtentNdims() != 2 || (type != H5T_FLOAT && type != H5T_INTEGER))
      throw Error(place + ": dataset \"values\" must be numbers [time, channel]");
    hsize_t extent[2] = {0, 0};
    space.getSimpleExtentDims(extent);
    if (extent[1] > 0 && extent[0] > kMaxValues / extent[1]) throw Error(place + ": is too large to be read at once");
    series.samples = extent[0];
    const std::size_t channels = extent[1];
    series.channels = read_texts(file, "channels", place);
    if (series.channels.size() != channels)
      throw Error(place + ": dataset \"values\" has " + std::to_string(channels) + " columns, \"channels\" names " +
                  std::to_string(series.channels.size()));
    series.kind = read_optional_texts(file, "kind", channels, place);
    series.subsystem = read_optional_texts(file, "subsystem", channels, place);

    std::vector<double> by_time(series.samples * channels);
    if (!by_time.empty()) values.read(by_time.data(), H5::PredType::NATIVE_DOUBLE);
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
