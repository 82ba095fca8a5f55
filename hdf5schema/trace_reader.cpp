#include "hdf5schema/trace_reader.h"

#include <H5Cpp.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>

#include "hdf5schema/hdf5_access.h"
#include "hdf5schema/layout.h"
#include "hdf5schema/row_buffer.h"

namespace reveal {
namespace {

using H5::PredType;

constexpr std::uint64_t kMaxValues = std::uint64_t{1} << 34;  // of one family; beyond it the file lies

/// What the first bytes of an HDF5 file say, before the library is let near it.
struct Superblock {
  bool written_live = false;   // in SWMR mode, and not closed
  bool never_started = false;  // open for writing, not in SWMR mode
  std::uint64_t end = 0;       // bytes the file should have; 0 where an old version does not say it here
};

std::uint64_t little_endian(const unsigned char* at) {
  std::uint64_t value = 0;
  for (int i = 7; i >= 0; --i) value = value << 8 | at[i];
  return value;
}

Superblock read_superblock(const std::filesystem::path& path) {
  const std::string place = path.string();
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (error) throw system_error(place, error.value());
  if (std::filesystem::is_directory(status)) throw Error(place + ": is a directory, not a trace");
  if (!std::filesystem::is_regular_file(status)) throw Error(place + ": is not a regular file");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw system_error(place, errno);
  unsigned char bytes[48] = {};
  file.read(reinterpret_cast<char*>(bytes), sizeof(bytes));
  const std::streamsize got = file.gcount();
  if (got == 0) throw Error(place + ": is empty");
  constexpr unsigned char kSignature[] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
  if (std::memcmp(bytes, kSignature, std::min<std::size_t>(sizeof(kSignature), static_cast<std::size_t>(got))) != 0)
    throw Error(place + ": is not an HDF5 file");
  if (got < static_cast<std::streamsize>(sizeof(bytes)))
    throw Error(place + ": is cut off after " + std::to_string(got) + " bytes");
  Superblock block;
  constexpr int kVersion = 8;
  constexpr int kFlags = 11;
  constexpr int kEnd = 28;
  if (bytes[kVersion] < 2) return block;
  block.end = little_endian(bytes + kEnd);
  block.written_live = (bytes[kFlags] & 4) != 0;
  block.never_started = (bytes[kFlags] & 5) == 1;
  return block;
}

std::string text_attribute(const H5::H5Object& object, const char* name) {
  if (!object.attrExists(name)) return {};
  const H5::Attribute attribute = object.openAttribute(name);
  const H5::StrType type = attribute.getStrType();
  if (type.isVariableStr() || attribute.getSpace().getSimpleExtentNpoints() != 1) return {};
  std::string text(type.getSize(), '\0');
  attribute.read(type, text.data());
  return text.substr(0, text.find('\0'));
}

template <typename Number>
Number number_attribute(const H5::H5Object& object, const char* name, const PredType& type, Number otherwise) {
  if (!object.attrExists(name)) return otherwise;
  const H5::Attribute attribute = object.openAttribute(name);
  const H5T_class_t kind = attribute.getTypeClass();
  if ((kind != H5T_INTEGER && kind != H5T_FLOAT) || attribute.getSpace().getSimpleExtentNpoints() != 1)
    return otherwise;
  Number value = otherwise;
  attribute.read(type, &value);
  return value;
}

std::int64_t int_attribute(const H5::H5Object& object, const char* name, std::int64_t otherwise) {
  return number_attribute<std::int64_t>(object, name, PredType::NATIVE_INT64, otherwise);
}

std::chrono::nanoseconds seconds_attribute(const H5::H5Object& object, const char* name) {
  const double seconds = number_attribute<double>(object, name, PredType::NATIVE_DOUBLE, 0.0);
  if (!(seconds > 0) || seconds > 1e9) return {};
  return std::chrono::nanoseconds(std::llround(seconds * 1e9));
}

hsize_t length_of(const H5::DataSet& table) {
  const H5::DataSpace space = table.getSpace();
  if (space.getSimpleExtentNdims() != 1) throw Error("a table has the wrong shape");
  hsize_t length = 0;
  space.getSimpleExtentDims(&length);
  if (length > kMaxValues) throw Error("a table is too long");
  return length;
}

/// Records of the width of `type` from the beginning of a table.
std::vector<char> read_records(const H5::DataSet& table, const H5::DataType& type, hsize_t length) {
  const std::size_t width = type.getSize();
  if (width > 0 && length > kMaxValues / width) throw Error("a table is too long");
  std::vector<char> bytes(length * width);
  if (length == 0) return bytes;
  const hsize_t first = 0;
  H5::DataSpace space = table.getSpace();
  space.selectHyperslab(H5S_SELECT_SET, &length, &first);
  table.read(bytes.data(), type, H5::DataSpace(1, &length), space);
  return bytes;
}

/// Fixed-length strings of any width, as the file has them.
std::vector<std::string> texts_of(const H5::DataSet& table, const H5::StrType& text, const H5::DataType& type,
                                  hsize_t length) {
  if (text.isVariableStr()) throw Error("texts must have a fixed length");
  const std::size_t width = text.getSize();
  const std::vector<char> bytes = read_records(table, type, length);
  std::vector<std::string> texts(length);
  for (std::size_t i = 0; i < length; ++i) {
    const std::string_view field(bytes.data() + i * width, width);
    texts[i] = field.substr(0, field.find('\0'));
  }
  return texts;
}

std::vector<std::string> read_texts(const H5::DataSet& table, hsize_t length) {
  const H5::StrType type = table.getStrType();
  return texts_of(table, type, type, length);
}

/// One column of texts of a compound table.
std::vector<std::string> read_texts(const H5::DataSet& table, const char* column, hsize_t length) {
  const H5::CompType type = table.getCompType();
  const H5::StrType text = type.getMemberStrType(static_cast<unsigned>(type.getMemberIndex(column)));
  H5::CompType only(text.getSize());
  only.insertMember(column, 0, text);
  return texts_of(table, text, only, length);
}

std::vector<std::int64_t> read_numbers(const H5::DataSet& table, const char* column, hsize_t length) {
  H5::CompType only(sizeof(std::int64_t));
  only.insertMember(column, 0, PredType::NATIVE_INT64);
  const std::vector<char> bytes = read_records(table, only, length);
  std::vector<std::int64_t> numbers(length);
  if (length > 0) std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

/// Does the chunk that holds this element lie inside a file of `size` bytes?
bool chunk_within(const H5::DataSet& dataset, const hsize_t* at, std::uint64_t size) {
  unsigned mask = 0;
  haddr_t address = HADDR_UNDEF;
  hsize_t bytes = 0;
  if (H5Dget_chunk_info_by_coord(dataset.getId(), at, &mask, &address, &bytes) < 0) return false;
  return address == HADDR_UNDEF || (address <= size && bytes <= size - address);
}

/// How many columns (rows of a table) lie inside a file of `size` bytes. Chunks are written in the order of time, so
/// the first one behind the end is found by bisection: the library walks its whole index for every question.
hsize_t columns_within(const H5::DataSet& dataset, std::uint64_t size) {
  hsize_t extent[2] = {0, 0};
  const H5::DataSpace space = dataset.getSpace();
  const int dimensions = space.getSimpleExtentNdims();
  if (dimensions < 1 || dimensions > 2) return 0;
  space.getSimpleExtentDims(extent);
  hsize_t chunk[2] = {1, 1};
  dataset.getCreatePlist().getChunk(dimensions, chunk);
  const int time = dimensions - 1;
  const auto column_within = [&](hsize_t index) {
    hsize_t at[2] = {0, 0};
    at[time] = index * chunk[time];
    if (dimensions == 1) return chunk_within(dataset, at, size);
    for (; at[0] < extent[0]; at[0] += chunk[0]) {
      if (!chunk_within(dataset, at, size)) return false;
    }
    return true;
  };
  hsize_t good = 0;
  hsize_t bad = (extent[time] + chunk[time] - 1) / chunk[time];
  while (good < bad) {
    const hsize_t middle = (good + bad) / 2;
    if (column_within(middle)) {
      good = middle + 1;
    } else {
      bad = middle;
    }
  }
  return std::min(extent[time], good * chunk[time]);
}

}  // namespace

struct TraceReader::Impl {
  std::filesystem::path path;
  H5::H5File file;
  TraceHeader header;
  bool complete = false;
  std::uint64_t cut_at = 0;  // the size of a file that lost its end; 0: it has all it should have
  std::vector<Family> families;
  mutable std::map<std::string, H5::DataSet> open_families;  // by path
  std::map<haddr_t, std::vector<std::int64_t>> axes;  // by their place in the file: groups share them by hard links

  void open();
  void read_header();
  void read_group(const H5::Group& group, const std::string& prefix);
  void read_family(const H5::DataSet& dataset, const std::string& path);
  const std::vector<std::int64_t>& axis(const std::string& axis_path);
  [[nodiscard]] hsize_t readable_length(const H5::DataSet& table) const;
  [[nodiscard]] const H5::DataSet& dataset_of(const Family& family) const;
  [[nodiscard]] Snapshot read_pairs(const char* table_path) const;
  [[nodiscard]] std::string place(const Family& family) const { return path.string() + ": " + family.spec.path; }
  template <typename Number>
  void read_block(const Family& family, std::size_t first_row, std::size_t rows, const PredType& type, Number missing,
                  std::vector<Number>& values) const;
};

TraceReader::TraceReader(const std::filesystem::path& path) : impl_(std::make_unique<Impl>()) {
  impl_->path = path;
  impl_->open();
}

TraceReader::~TraceReader() {
  const Hdf5Access access;
  impl_.reset();
}
TraceReader::TraceReader(TraceReader&&) noexcept = default;
TraceReader& TraceReader::operator=(TraceReader&& other) noexcept {
  const Hdf5Access access;
  impl_ = std::move(other.impl_);
  return *this;
}

void TraceReader::Impl::open() {
  const Superblock block = read_superblock(path);
  const std::uint64_t size = std::filesystem::file_size(path);
  if (block.never_started) throw Error(path.string() + ": was cut off before the recording began");
  if (block.end > size) {
    if (!block.written_live)
      throw Error(path.string() + ": is cut off (" + std::to_string(size) + " of " + std::to_string(block.end) +
                  " bytes): copy it again");
    cut_at = size;
  }
  const Hdf5Access access;
  try {
    H5::FileAccPropList list;
    check_hdf5(H5Pset_file_locking(list.getId(), false, true), "H5Pset_file_locking");
    check_hdf5(H5Pset_metadata_read_attempts(list.getId(), 10), "H5Pset_metadata_read_attempts");
    file = H5::H5File(path.string(), block.written_live ? H5F_ACC_RDONLY | H5F_ACC_SWMR_READ : H5F_ACC_RDONLY,
                      H5::FileCreatPropList::DEFAULT, list);
    read_header();
    complete = complete && !block.written_live;
    read_group(file.openGroup("/"), "");
  } catch (...) {
    throw as_error(path.string());
  }
}

void TraceReader::Impl::read_header() {
  const H5::Group root = file.openGroup("/");
  if (text_attribute(root, "schema") != kSchemaName)
    throw Error(path.string() + ": is an HDF5 file, but not a trace of reveal (it has no schema \"" +
                std::string(kSchemaName) + "\")");
  const std::int64_t version = int_attribute(root, "schema_version", 0);
  if (version > kSchemaVersion)
    throw Error(path.string() + ": schema " + std::to_string(version) + ", this reveal reads up to " +
                std::to_string(kSchemaVersion) + ": upgrade reveal");
  if (version < 1) throw Error(path.string() + ": has no valid schema_version");
  complete = int_attribute(root, "complete", 0) == 1;
  header.job_id = text_attribute(root, "job");
  header.job_name = text_attribute(root, "job_name");
  header.user = text_attribute(root, "user");
  header.cluster = text_attribute(root, "cluster");
  header.node = text_attribute(root, "node");
  header.command = text_attribute(root, "command");
  header.run_key = text_attribute(root, "run_key");
  header.tool_version = text_attribute(root, "tool_version");
  header.interval = seconds_attribute(root, "interval");
  header.begin_utc_ns = int_attribute(root, "begin_utc_ns", 0);
  constexpr std::string_view kTag = "tag.";
  for (int i = 0; i < root.getNumAttrs(); ++i) {
    const std::string name = root.openAttribute(static_cast<unsigned>(i)).getName();
    if (name.starts_with(kTag)) header.tags.emplace_back(name.substr(kTag.size()), text_attribute(root, name.c_str()));
  }
}

void TraceReader::Impl::read_group(const H5::Group& group, const std::string& prefix) {
  constexpr std::size_t kMaxDepth = 8;
  if (std::count(prefix.begin(), prefix.end(), '/') > static_cast<std::ptrdiff_t>(kMaxDepth)) return;
  for (hsize_t i = 0; i < group.getNumObjs(); ++i) {
    const std::string name = group.getObjnameByIdx(i);
    const H5O_type_t type = group.childObjType(name);
    if (type == H5O_TYPE_GROUP) {
      read_group(group.openGroup(name), prefix + name + "/");
    } else if (type == H5O_TYPE_DATASET) {
      const H5::DataSet dataset = group.openDataSet(name);
      if (dataset.attrExists("kind")) read_family(dataset, prefix + name);
    }
  }
}

/// Of a table; of a file that lost its end, only what lies before the cut.
hsize_t TraceReader::Impl::readable_length(const H5::DataSet& table) const {
  const hsize_t length = length_of(table);
  return cut_at > 0 ? std::min(length, columns_within(table, cut_at)) : length;
}

Snapshot TraceReader::Impl::read_pairs(const char* table_path) const {
  const Hdf5Access access;
  try {
    const H5::DataSet table = file.openDataSet(table_path);
    const hsize_t length = readable_length(table);
    const std::vector<std::string> keys = read_texts(table, "key", length);
    const std::vector<std::string> values = read_texts(table, "value", length);
    Snapshot pairs;
    for (std::size_t i = 0; i < keys.size(); ++i) pairs.emplace_back(keys[i], values[i]);
    return pairs;
  } catch (...) {
    throw as_error(path.string() + ": " + table_path);
  }
}

const std::vector<std::int64_t>& TraceReader::Impl::axis(const std::string& axis_path) {
  const H5::DataSet dataset = file.openDataSet(axis_path);
  H5O_info_t info;
  check_hdf5(H5Oget_info(dataset.getId(), &info), "H5Oget_info");
  const auto [at, fresh] = axes.try_emplace(info.addr);
  if (!fresh) return at->second;
  const hsize_t length = readable_length(dataset);
  std::vector<std::int64_t> times(length);
  const hsize_t first = 0;
  if (length > 0) {
    H5::DataSpace space = dataset.getSpace();
    space.selectHyperslab(H5S_SELECT_SET, &length, &first);
    dataset.read(times.data(), PredType::NATIVE_INT64, H5::DataSpace(1, &length), space);
  }
  // Of a damaged file: no clock has run for centuries, and sums of what it says must not overflow.
  constexpr std::int64_t kMost = INT64_MAX / 4;
  const auto impossible =
      std::find_if(times.begin(), times.end(), [](std::int64_t time) { return time < -kMost || time > kMost; });
  times.erase(impossible, times.end());
  const auto out_of_order = std::adjacent_find(times.begin(), times.end(), std::greater_equal<>());
  if (out_of_order != times.end()) times.erase(out_of_order + 1, times.end());
  return at->second = std::move(times);
}

void TraceReader::Impl::read_family(const H5::DataSet& dataset, const std::string& family_path) {
  Family family;
  family.spec.path = family_path;
  const std::string where = path.string() + ": " + family_path;
  const auto word = [&](const char* attribute) { return text_attribute(dataset, attribute); };
  const auto known = [&](const auto& found, const char* attribute) {
    if (!found) throw Error(where + ": unknown " + attribute + " \"" + word(attribute) + "\"");
    return *found;
  };
  family.spec.kind = known(kind_of(word("kind")), "kind");
  family.spec.unit = known(unit_of(word("units")), "units");
  family.spec.scope = known(scope_of(word("scope")), "scope");
  family.spec.subsystem = known(subsystem_of(word("subsystem")), "subsystem");
  family.spec.long_name = word("long_name");
  family.spec.source = word("source");
  family.spec.clock = word("clock");
  family.spec.real = dataset.getTypeClass() == H5T_FLOAT && !stored_as_real(family.spec);
  family.spec.period = seconds_attribute(dataset, "period");
  if (family.spec.period <= std::chrono::nanoseconds(0)) throw Error(where + ": has no period");

  const H5::DataSpace space = dataset.getSpace();
  if (space.getSimpleExtentNdims() != 2) throw Error(where + ": is not [channel, time]");
  hsize_t extent[2] = {0, 0};
  space.getSimpleExtentDims(extent);
  const std::string keys = family_path + "_channels/";
  const auto texts = [&](const char* name) {
    const H5::DataSet table = file.openDataSet(keys + name);
    return read_texts(table, readable_length(table));
  };
  const std::vector<std::string> metric = texts("metric");
  const std::vector<std::string> instance = texts("instance");
  const std::vector<std::string> role = texts("role");
  const H5::DataSet life = file.openDataSet(keys + "life");
  const std::vector<std::int64_t> born = read_numbers(life, "born_ns", readable_length(life));
  const std::vector<std::int64_t> died = read_numbers(life, "died_ns", readable_length(life));
  // A crash between two writes of one flush leaves the tables of different length; what all of them have is whole.
  const std::size_t channels = std::min({metric.size(), instance.size(), role.size(), born.size(), died.size()});
  for (std::size_t i = 0; i < channels; ++i)
    family.channels.push_back({metric[i], instance[i], role[i], born[i], died[i]});

  const std::string group = family_path.substr(0, family_path.find_last_of('/') + 1);
  const std::vector<std::int64_t>& times = axis(group + word("time"));
  std::size_t rows = std::min<std::size_t>(times.size(), extent[1]);
  if (cut_at > 0) rows = std::min<std::size_t>(rows, columns_within(dataset, cut_at));
  if (rows > 0 && channels > kMaxValues / rows) throw Error(where + ": is too large to be true");
  family.time_ns = std::span(times).first(rows);
  families.push_back(std::move(family));
}

const TraceHeader& TraceReader::header() const noexcept {
  return impl_->header;
}
bool TraceReader::complete() const noexcept {
  return impl_->complete;
}
const std::vector<TraceReader::Family>& TraceReader::families() const noexcept {
  return impl_->families;
}

std::vector<Event> TraceReader::events() const {
  const Hdf5Access access;
  try {
    const H5::DataSet table = impl_->file.openDataSet("events");
    const hsize_t length = impl_->readable_length(table);
    const std::vector<std::int64_t> times = read_numbers(table, "time_ns", length);
    const std::vector<std::string> objects = read_texts(table, "object", length);
    const std::vector<std::string> codes = read_texts(table, "code", length);
    const std::vector<std::string> texts = read_texts(table, "text", length);
    std::vector<Event> events;
    for (std::size_t i = 0; i < times.size(); ++i) events.push_back({times[i], objects[i], codes[i], texts[i]});
    return events;
  } catch (...) {
    throw as_error(impl_->path.string() + ": events");
  }
}

std::vector<ClockPair> TraceReader::clocks() const {
  const Hdf5Access access;
  try {
    const H5::DataSet table = impl_->file.openDataSet("clock");
    const hsize_t length = impl_->readable_length(table);
    const std::vector<std::int64_t> monotonic = read_numbers(table, "monotonic_ns", length);
    const std::vector<std::int64_t> utc = read_numbers(table, "utc_ns", length);
    const std::vector<std::int64_t> error = read_numbers(table, "max_error_ns", length);
    std::vector<ClockPair> clocks;
    for (std::size_t i = 0; i < monotonic.size(); ++i) clocks.push_back({monotonic[i], utc[i], error[i]});
    return clocks;
  } catch (...) {
    throw as_error(impl_->path.string() + ": clock");
  }
}

std::vector<Coverage> TraceReader::coverage() const {
  const Hdf5Access access;
  try {
    const H5::DataSet table = impl_->file.openDataSet("coverage");
    const hsize_t length = impl_->readable_length(table);
    const std::vector<std::string> probes = read_texts(table, "probe", length);
    const std::vector<std::string> states = read_texts(table, "state", length);
    const std::vector<std::string> reasons = read_texts(table, "reason", length);
    std::vector<Coverage> coverage;
    for (std::size_t i = 0; i < probes.size(); ++i) {
      const Coverage::State state = states[i] == "ok"       ? Coverage::State::ok
                                    : states[i] == "absent" ? Coverage::State::absent
                                                            : Coverage::State::failed;
      coverage.push_back({probes[i], state, reasons[i]});
    }
    return coverage;
  } catch (...) {
    throw as_error(impl_->path.string() + ": coverage");
  }
}

Snapshot TraceReader::snapshot_begin() const {
  return impl_->read_pairs("node/begin");
}
Snapshot TraceReader::snapshot_end() const {
  return impl_->read_pairs("node/end");
}

std::string TraceReader::topology_xml() const {
  const Hdf5Access access;
  try {
    const H5::DataSet table = impl_->file.openDataSet("node/topology_xml");
    const std::vector<std::string> texts = read_texts(table, impl_->readable_length(table));
    return texts.empty() ? std::string() : texts.front();
  } catch (...) {
    throw as_error(impl_->path.string() + ": topology");
  }
}

/// Kept open with what it decompressed last: who reads a trace piece by piece comes back for the rest of a chunk.
const H5::DataSet& TraceReader::Impl::dataset_of(const Family& family) const {
  constexpr std::size_t kLargestCache = 8 << 20;
  const auto known = open_families.find(family.spec.path);
  if (known != open_families.end()) return known->second;
  hsize_t chunk[2] = {0, 0};
  const H5::DSetCreatPropList created = file.openDataSet(family.spec.path).getCreatePlist();
  if (created.getLayout() == H5D_CHUNKED) created.getChunk(2, chunk);
  const std::size_t chunks_high = chunk[0] == 0 ? 0 : (family.channels.size() + chunk[0] - 1) / chunk[0];
  const std::size_t cache =
      std::min<std::size_t>(kLargestCache, 2 * chunks_high * chunk[0] * chunk[1] * sizeof(std::int64_t));
  H5::DSetAccPropList list;
  check_hdf5(H5Pset_chunk_cache(list.getId(), H5D_CHUNK_CACHE_NSLOTS_DEFAULT, cache, H5D_CHUNK_CACHE_W0_DEFAULT),
             "H5Pset_chunk_cache");
  return open_families.emplace(family.spec.path, file.openDataSet(family.spec.path, list)).first->second;
}

/// [channel][time] of what family.channels and family.time_ns promise; what the dataset lacks stays `missing`.
template <typename Number>
void TraceReader::Impl::read_block(const Family& family, std::size_t first_row, std::size_t rows, const PredType& type,
                                   Number missing, std::vector<Number>& values) const {
  values.resize(family.channels.size() * rows);
  const H5::DataSet& dataset = dataset_of(family);
  hsize_t extent[2] = {0, 0};
  dataset.getSpace().getSimpleExtentDims(extent);
  const bool whole = extent[0] >= family.channels.size() && extent[1] >= first_row + rows;
  if (!whole) std::fill(values.begin(), values.end(), missing);
  if (extent[1] <= first_row) return;
  const hsize_t count[2] = {std::min<hsize_t>(family.channels.size(), extent[0]),
                            std::min<hsize_t>(rows, extent[1] - first_row)};
  if (count[0] == 0 || count[1] == 0) return;
  const hsize_t first[2] = {0, 0};
  const hsize_t from[2] = {0, first_row};
  const hsize_t memory[2] = {family.channels.size(), rows};
  H5::DataSpace memory_space(2, memory);
  memory_space.selectHyperslab(H5S_SELECT_SET, count, first);
  H5::DataSpace file_space = dataset.getSpace();
  file_space.selectHyperslab(H5S_SELECT_SET, count, from);
  dataset.read(values.data(), type, memory_space, file_space);
}

std::vector<double> TraceReader::read(const Family& family) const {
  return read(family, 0, family.time_ns.size());
}

std::vector<double> TraceReader::read(const Family& family, std::size_t first, std::size_t rows) const {
  std::vector<double> values;
  read(family, first, rows, values);
  return values;
}

void TraceReader::read(const Family& family, std::size_t first, std::size_t rows, std::vector<double>& values) const {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  try {
    if (stored_as_real(family.spec)) {
      const Hdf5Access access;
      impl_->read_block(family, first, rows, PredType::NATIVE_DOUBLE, kNan, values);
      return;
    }
    {
      // Integers are read into the same memory and converted in place: a family of an hour is 100 MB.
      const Hdf5Access access;
      impl_->read_block(family, first, rows, PredType::NATIVE_INT64, std::bit_cast<double>(kMissing), values);
    }
    for (double& value : values) {
      const auto stored = std::bit_cast<std::int64_t>(value);
      value = stored == kMissing ? kNan : static_cast<double>(stored);
    }
  } catch (...) {
    throw as_error(impl_->place(family));
  }
}

std::vector<std::int64_t> TraceReader::read_stored(const Family& family) const {
  return read_stored(family, 0, family.time_ns.size());
}

std::vector<std::int64_t> TraceReader::read_stored(const Family& family, std::size_t first, std::size_t rows) const {
  const Hdf5Access access;
  try {
    std::vector<std::int64_t> values;
    impl_->read_block(family, first, rows, PredType::NATIVE_INT64, kMissing, values);
    return values;
  } catch (...) {
    throw as_error(impl_->place(family));
  }
}

TraceReader::Bases TraceReader::read_bases(const Family& family) const {
  const Hdf5Access access;
  try {
    Bases bases;
    hsize_t chunk[2] = {0, 0};
    impl_->file.openDataSet(family.spec.path).getCreatePlist().getChunk(2, chunk);
    bases.rows_per_chunk = std::max<std::size_t>(chunk[1], 1);
    bases.chunks = (family.time_ns.size() + bases.rows_per_chunk - 1) / bases.rows_per_chunk;
    bases.values.assign(family.channels.size() * bases.chunks, kMissing);
    if (!stored_as_increments(family.spec.kind)) return bases;
    const H5::DataSet dataset = impl_->file.openDataSet(family.spec.path + "_base");
    hsize_t extent[2] = {0, 0};
    if (dataset.getSpace().getSimpleExtentNdims() != 2) return bases;
    dataset.getSpace().getSimpleExtentDims(extent);
    if (impl_->cut_at > 0) extent[1] = std::min(extent[1], columns_within(dataset, impl_->cut_at));
    const hsize_t count[2] = {std::min<hsize_t>(family.channels.size(), extent[0]),
                              std::min<hsize_t>(bases.chunks, extent[1])};
    if (count[0] == 0 || count[1] == 0) return bases;
    const hsize_t first[2] = {0, 0};
    const hsize_t memory[2] = {family.channels.size(), bases.chunks};
    H5::DataSpace memory_space(2, memory);
    memory_space.selectHyperslab(H5S_SELECT_SET, count, first);
    H5::DataSpace file_space = dataset.getSpace();
    file_space.selectHyperslab(H5S_SELECT_SET, count, first);
    dataset.read(bases.values.data(), PredType::NATIVE_INT64, memory_space, file_space);
    return bases;
  } catch (...) {
    throw as_error(impl_->place(family));
  }
}

std::vector<std::int64_t> TraceReader::read_absolute(const Family& family) const {
  std::vector<std::int64_t> stored = read_stored(family);
  if (!stored_as_increments(family.spec.kind)) return stored;
  const Bases bases = read_bases(family);
  const std::size_t rows = family.time_ns.size();
  std::vector<std::int64_t> absolute(stored.size(), kMissing);
  for (std::size_t channel = 0; channel < family.channels.size(); ++channel) {
    const std::span<const std::int64_t> increments = std::span(stored).subspan(channel * rows, rows);
    const std::span<const std::int64_t> base = std::span(bases.values).subspan(channel * bases.chunks, bases.chunks);
    bool first = true;
    for (std::size_t chunk = 0; chunk < bases.chunks; ++chunk) {
      const std::size_t begin = chunk * bases.rows_per_chunk;
      const std::size_t count = std::min(bases.rows_per_chunk, rows - begin);
      const std::int64_t next = chunk + 1 < bases.chunks ? base[chunk + 1] : kMissing;
      decode_absolute(increments.subspan(begin, count), base[chunk], next, first,
                      std::span(absolute).subspan(channel * rows + begin, count));
      first = first && base[chunk] == kMissing;
    }
  }
  return absolute;
}

}  // namespace reveal
