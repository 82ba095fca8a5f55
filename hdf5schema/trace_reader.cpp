#include "hdf5schema/trace_reader.h"

#include <H5Cpp.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "hdf5schema/basics/enum_names.h"
#include "hdf5schema/basics/not_measured.h"
#include "hdf5schema/checked_dataset.h"
#include "hdf5schema/checked_file.h"
#include "hdf5schema/hdf5_access.h"
#include "hdf5schema/layout.h"
#include "hdf5schema/row_buffer.h"
#include "hdf5schema/row_tables.h"
#include "hdf5schema/stored_chunks.h"

namespace reveal {
namespace {

using H5::PredType;

// More objects than any trace has; a file with more is broken.
constexpr std::size_t kMostObjects = 10'000;
constexpr std::size_t kMostDepth = 4;                               // depth of groups
constexpr std::size_t kMostChannels = 1 << 18;                      // channels of all families
constexpr std::size_t kMostRows = 1 << 25;                          // rows of an axis: a month at 100 ms
constexpr std::size_t kMostTableBytes = std::size_t{1} << 29;       // all names and times
constexpr std::uint64_t kMostTraceValues = std::uint64_t{1} << 34;  // values of one family
constexpr std::uint64_t kMostBases = std::uint64_t{1} << 28;        // bases of one family
constexpr std::size_t kBasesAtOnce = 1 << 17;                       // a megabyte
constexpr std::uint64_t kMostChunks = std::uint64_t{1} << 20;       // chunks of one family
constexpr std::size_t kMostPairs = 1 << 14;                         // pairs of a snapshot: each is searched among all
constexpr std::uint64_t kMostChunksOfAll = std::uint64_t{1} << 26;  // a month of a large node, all families together
constexpr std::size_t kMostClocks = 1 << 20;
constexpr std::size_t kMostCoverage = 1 << 12;
constexpr std::size_t kMostEvents = 250'000;  // that are read; of Python's frames as many beside the others
constexpr std::size_t kMostEventRows = 1 << 22;
constexpr std::size_t kWidestRow = 1024;  // bytes of a row of a table that may have millions
// Times of a damaged file are refused: no clock has run for centuries, and sums of the times must not overflow.
constexpr std::int64_t kMostMonotonic = INT64_MAX / 4;
constexpr std::int64_t kMostUtc = INT64_MAX / 2;  // 2116
constexpr std::size_t kMostAttributes = 1024;
constexpr std::size_t kLongestAttribute = 1 << 16;

bool is_monotonic_time(std::int64_t ns) {
  return ns >= -kMostMonotonic && ns <= kMostMonotonic;
}

bool is_utc_time(std::int64_t ns) {
  return ns >= 0 && ns <= kMostUtc;
}

void need_narrow_rows(const CheckedDataset& table) {
  if (table.width() > kWidestRow) throw Error("its rows are wider than those of a trace");
}

std::string text_attribute(const H5::H5Object& object, const char* name) {
  if (!object.attrExists(name)) return {};
  const H5::Attribute attribute = object.openAttribute(name);
  const H5::StrType type = attribute.getStrType();
  if (type.isVariableStr() || attribute.getSpace().getSimpleExtentNpoints() != 1) return {};
  if (type.getSize() > kLongestAttribute) throw Error(std::string("its attribute \"") + name + "\" is too long");
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

std::optional<std::chrono::nanoseconds> stated_seconds(const H5::H5Object& object, const char* name) {
  const double seconds = number_attribute<double>(object, name, PredType::NATIVE_DOUBLE, -1.0);
  if (!(seconds >= 0) || seconds > 1e9) return std::nullopt;
  return std::chrono::nanoseconds(std::llround(seconds * 1e9));
}

std::chrono::nanoseconds seconds_attribute(const H5::H5Object& object, const char* name) {
  return stated_seconds(object, name).value_or(std::chrono::nanoseconds(0));
}

std::vector<std::string> attribute_names(const H5::H5Object& object) {
  std::vector<std::string> names;
  const auto take = [](hid_t, const char* name, const H5A_info_t*, void* into) -> herr_t {
    auto& list = *static_cast<std::vector<std::string>*>(into);
    list.emplace_back(name);
    return list.size() < kMostAttributes ? 0 : 1;
  };
  check_hdf5(H5Aiterate2(object.getId(), H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, take, &names), "H5Aiterate2");
  std::sort(names.begin(), names.end());
  return names;
}

/// Names in a group that lead to an object of this file; links of other kinds are in no trace.
std::vector<std::string> hard_links(const H5::Group& group) {
  std::vector<std::string> names;
  const auto take = [](hid_t, const char* name, const H5L_info_t* link, void* into) -> herr_t {
    auto& list = *static_cast<std::vector<std::string>*>(into);
    if (link->type == H5L_TYPE_HARD) list.emplace_back(name);
    return list.size() <= kMostObjects ? 0 : 1;
  };
  check_hdf5(H5Literate(group.getId(), H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, take, &names), "H5Literate");
  std::sort(names.begin(), names.end());
  return names;
}

/// A table's texts of one width, each up to its first zero.
std::vector<std::string> texts_of(std::span<const char> records, std::size_t record, CheckedDataset::Column column) {
  std::vector<std::string> texts(records.size() / record);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string_view field(records.data() + i * record + column.offset, column.width);
    texts[i] = field.substr(0, field.find('\0'));
  }
  return texts;
}

std::vector<std::int64_t> numbers_of(std::span<const char> records, std::size_t record, CheckedDataset::Column column) {
  std::vector<std::int64_t> numbers(records.size() / record);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    std::memcpy(&numbers[i], records.data() + i * record + column.offset, sizeof(std::int64_t));
  return numbers;
}

template <class Row>
void take_column(const CheckedDataset& table, std::span<const char> records, const RowColumn<Row>& column,
                 std::span<Row> rows) {
  if (column.text != nullptr) {
    std::vector<std::string> texts = texts_of(records, table.width(), table.text_column(column.name));
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i].*column.text = std::move(texts[i]);
  } else if (column.later && !table.has_column(column.name)) {
    for (Row& row : rows) row.*column.number = kMissing;
  } else {
    const std::vector<std::int64_t> numbers = numbers_of(records, table.width(), table.int64_column(column.name));
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i].*column.number = numbers[i];
  }
}

/// How many columns (rows of a table) of a file that was not closed are whole: its tables may be longer than their
/// data, and it may have lost its end. Chunks are written in the order of time: the last ones are tried first, and
/// where more than a flush is gone, the first one behind the end is found by bisection. A chunk of a family that is not
/// stored holds missing values; one of a table was not written.
hsize_t columns_within(const CheckedDataset& dataset, hsize_t height) {
  const auto extent = dataset.extent();
  const auto chunk = dataset.chunk();
  const std::size_t time = extent.size() - 1;
  if (chunk.empty()) return extent[time];
  const auto column_within = [&](hsize_t index) {
    hsize_t at[2] = {0, 0};
    at[time] = index * chunk[time];
    if (time == 0) return dataset.state(at) == CheckedDataset::Chunk::whole;
    for (; at[0] < height; at[0] += chunk[0]) {
      if (dataset.state(at) == CheckedDataset::Chunk::broken) return false;
    }
    return true;
  };
  constexpr hsize_t kOfOneFlush = 4;
  const hsize_t all = extent[time] / chunk[time] + (extent[time] % chunk[time] != 0 ? 1 : 0);
  hsize_t good = all;
  while (good > 0 && all - good < kOfOneFlush && !column_within(good - 1)) --good;
  hsize_t bad = good;
  if (all - good == kOfOneFlush) good = 0;
  while (good < bad) {
    const hsize_t middle = good + (bad - good) / 2;
    if (column_within(middle)) {
      good = middle + 1;
    } else {
      bad = middle;
    }
  }
  return good > extent[time] / chunk[time] ? extent[time] : good * chunk[time];
}

/// A table as it is read: whole records, and the offsets of their members.
struct Records {
  CheckedDataset dataset;
  std::vector<char> bytes;

  [[nodiscard]] std::vector<std::string> texts(const char* column) const {
    return texts_of(bytes, dataset.width(), dataset.text_column(column));
  }
  [[nodiscard]] std::vector<std::int64_t> numbers(const char* column) const {
    return numbers_of(bytes, dataset.width(), dataset.int64_column(column));
  }
};

/// A family's dataset, and the chunks that were read last: the next piece of a trace may begin in the middle of a
/// chunk.
struct OpenFamily {
  CheckedDataset values;
  std::optional<std::size_t> columns_kept = std::nullopt;  // the last ones; not decided before the first read
  using Chunks = std::map<std::pair<hsize_t, hsize_t>, NumberChunk>;
  Chunks chunks = {};                   // by the place in time, then among the channels
  std::vector<NumberChunk> spare = {};  // memory for the next ones

  const NumberChunk& chunk_at(hsize_t row, hsize_t channel);
  void make_room_for(hsize_t row);
  void forget(Chunks::iterator from, Chunks::iterator to);
};

/// A chunk that cannot be read leaves nothing behind.
const NumberChunk& OpenFamily::chunk_at(hsize_t row, hsize_t channel) {
  const auto known = chunks.find({row, channel});
  if (known != chunks.end()) return known->second;
  NumberChunk chunk;
  if (!spare.empty()) {
    chunk = std::move(spare.back());
    spare.pop_back();
  }
  const hsize_t offset[2] = {channel, row};
  values.read_numbers(offset, chunk);
  return chunks.emplace(std::pair{row, channel}, std::move(chunk)).first->second;
}

/// Forgets all but the column at `row` and those kept before it; the next chunks take their memory.
void OpenFamily::make_room_for(hsize_t row) {
  const hsize_t before = *columns_kept > 1 ? (*columns_kept - 1) * values.chunk()[1] : 0;
  forget(chunks.begin(), chunks.lower_bound({row - std::min(row, before), 0}));
  forget(chunks.upper_bound({row, std::numeric_limits<hsize_t>::max()}), chunks.end());
}

void OpenFamily::forget(Chunks::iterator from, Chunks::iterator to) {
  while (from != to) {
    spare.push_back(std::move(from->second));
    from = chunks.erase(from);
  }
}

/// The row of the table /stored for a family.
struct StoredFamily {
  std::uint64_t channels = 0;
  std::uint64_t rows = 0;
  StoredChunks chunks;
};

}  // namespace

struct TraceReader::Impl {
  std::filesystem::path path;
  H5::H5File file;
  TraceHeader header;
  bool complete = false;
  bool unclosed = false;  // its end may be missing
  Check check = Check::all;
  std::vector<Family> families;
  std::vector<Damage> damages;
  std::map<std::string, StoredFamily> stored;  // by path
  /// Guards open_families. Taken before the library's lock, which each CheckedDataset takes by itself.
  mutable std::mutex reading;
  mutable std::map<std::string, OpenFamily> open_families;  // by path
  mutable std::size_t kept = 0;                             // bytes that their columns take, guarded likewise
  std::map<haddr_t, std::vector<std::int64_t>> axes;  // by their place in the file: groups share them by hard links
  std::set<haddr_t> groups;                           // seen
  std::size_t objects = 0;
  /// How many more chunks may be looked for: one dataset may have thousands of names, and chunks that are not stored
  /// take no space.
  std::uint64_t chunks_left = 0;
  bool too_many_chunks = false;
  std::size_t channels = 0;
  mutable std::size_t table_bytes = 0;  // guarded by the library's lock

  void open();
  void read_header();
  void read_stored_table();
  void read_group(const H5::Group& group, const std::string& prefix, std::size_t depth);
  void read_family(const std::string& path);
  void take_rows(const CheckedDataset& values, const std::string& axis_path, Family& family);
  void read_channels(Family& family) const;
  void check_family(const Family& family);
  void check_chunks(const CheckedDataset& dataset, std::size_t height, std::size_t width, StoredChunks& found);
  void note_missing_families();
  void leave_out(const std::string& what);
  const std::vector<std::int64_t>& axis(const std::string& axis_path);
  [[nodiscard]] Records records(const std::string& table_path, std::size_t most) const;
  [[nodiscard]] std::vector<std::string> texts(const std::string& table_path, std::size_t most) const;
  [[nodiscard]] std::size_t rows_of(const CheckedDataset& table, std::size_t most) const;
  [[nodiscard]] std::vector<char> bytes_of(const CheckedDataset& table, std::size_t most) const;
  [[nodiscard]] OpenFamily& opened(const Family& family) const;
  [[nodiscard]] std::size_t columns_to_keep(const Family& family, const CheckedDataset& values) const;
  [[nodiscard]] Snapshot read_pairs(const char* table_path) const;
  /// The result of `read_part`; a failure becomes an Error that names the file and the part.
  template <class ReadPart>
  auto in_part(const std::string& part, const ReadPart& read_part) const {
    try {
      return read_part();
    } catch (...) {
      throw Error(path.string() + ": " + part + ": " + failure_reason());
    }
  }
  enum class Form : std::uint8_t { stored, real };
  /// [channel][time] for family.channels and family.time_ns, 8 bytes each; the rest is missing.
  void read_block(const Family& family, std::size_t first_row, std::size_t rows, Form form,
                  std::span<std::byte> values) const;
};

TraceReader::TraceReader(const std::filesystem::path& path, Check check) : impl_(std::make_unique<Impl>()) {
  impl_->path = path;
  impl_->check = check;
  impl_->open();
}

TraceReader::~TraceReader() {
  const Hdf5Access access(std::nothrow);
  impl_.reset();
}
TraceReader::TraceReader(TraceReader&&) noexcept = default;
TraceReader& TraceReader::operator=(TraceReader&& other) noexcept {
  const Hdf5Access access(std::nothrow);
  impl_ = std::move(other.impl_);
  return *this;
}

void TraceReader::Impl::open() {
  const CheckedFile checked(path, "trace");
  const Superblock& block = checked.superblock();
  if (block.never_started) throw Error(path.string() + ": was cut off before the recording began");
  if (block.end > checked.size() && !block.written_live)
    throw Error(path.string() + ": is cut off (" + std::to_string(checked.size()) + " of " + std::to_string(block.end) +
                " bytes): copy it again");
  unclosed = block.written_live;
  chunks_left = std::min(kMostChunksOfAll, kMostChunks + checked.size());
  const Hdf5Access access;
  try {
    file = checked.open();
    read_header();
    complete = complete && !block.written_live;
    read_stored_table();
    read_group(file.openGroup("/"), "", 0);
    note_missing_families();
  } catch (...) {
    throw as_error(path.string());
  }
  if (families.empty() && !damages.empty())
    throw Error(path.string() + ": nothing in it can be read: " + damages.front().text());
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
  header.trace_id = text_attribute(root, "trace_id");
  header.tool_version = text_attribute(root, "tool_version");
  header.interval = seconds_attribute(root, "interval");
  const std::int64_t begin_utc_ns = int_attribute(root, "begin_utc_ns", 0);
  header.begin_utc_ns = is_utc_time(begin_utc_ns) ? begin_utc_ns : 0;
  constexpr std::string_view kTag = "tag.";
  for (const std::string& name : attribute_names(root)) {
    if (name.starts_with(kTag)) header.tags.emplace_back(name.substr(kTag.size()), text_attribute(root, name.c_str()));
  }
}

/// Inside a catch block: a part that cannot be read is named, and the rest is used.
void TraceReader::Impl::leave_out(const std::string& what) {
  damages.push_back({what, failure_reason()});
}

/// Traces of before the table was there have none, and one that was not closed has it empty.
void TraceReader::Impl::read_stored_table() {
  if (!file.nameExists("stored")) return;
  try {
    const Records table = records("stored", kMostObjects);
    const std::vector<std::string> paths = table.texts("path");
    const std::vector<std::int64_t> channel_counts = table.numbers("channels");
    const std::vector<std::int64_t> rows = table.numbers("rows");
    const std::vector<std::int64_t> chunks = table.numbers("chunks");
    const std::vector<std::int64_t> digests = table.numbers("digest");
    for (std::size_t i = 0; i < paths.size(); ++i)
      stored[paths[i]] = {static_cast<std::uint64_t>(channel_counts[i]),
                          static_cast<std::uint64_t>(rows[i]),
                          {static_cast<std::uint64_t>(chunks[i]), static_cast<std::uint64_t>(digests[i])}};
  } catch (...) {
    leave_out("stored");
  }
}

void TraceReader::Impl::read_group(const H5::Group& group, const std::string& prefix, std::size_t depth) {
  for (const std::string& name : hard_links(group)) {
    if (++objects > kMostObjects) throw Error("holds more objects than a trace can have");
    const std::string object = prefix + name;
    try {
      H5O_info_t info;
      check_hdf5(H5Oget_info_by_name2(group.getId(), name.c_str(), &info, H5O_INFO_BASIC, H5P_DEFAULT),
                 "H5Oget_info_by_name");
      if (info.type == H5O_TYPE_GROUP && depth < kMostDepth && groups.insert(info.addr).second)
        read_group(group.openGroup(name), object + "/", depth + 1);
      if (info.type != H5O_TYPE_DATASET) continue;
      const htri_t is_family = H5Aexists_by_name(group.getId(), name.c_str(), "kind", H5P_DEFAULT);
      check_hdf5(is_family, "H5Aexists_by_name");
      if (is_family > 0) read_family(object);
      if (too_many_chunks) throw Error("holds more chunks than a trace can have");
    } catch (...) {
      if (objects > kMostObjects || too_many_chunks) throw;
      leave_out(object);
    }
  }
}

/// Families that existed when the file was closed, and that no link leads to any more.
void TraceReader::Impl::note_missing_families() {
  for (const auto& [name, was] : stored) {
    const auto is_it = [&name = name](const Damage& damage) { return damage.part == name; };
    const bool known = std::any_of(families.begin(), families.end(),
                                   [&name = name](const Family& family) { return family.spec.path == name; }) ||
                       std::any_of(damages.begin(), damages.end(), is_it);
    if (!known) damages.push_back({name, "is no longer in the file"});
  }
}

/// How many records a table has; of a file that was not closed, only those that are whole. Throws Error: more than
/// `most`.
std::size_t TraceReader::Impl::rows_of(const CheckedDataset& table, std::size_t most) const {
  if (table.extent().size() != 1) throw Error("has the wrong shape");
  const hsize_t length = unclosed ? std::min(table.extent()[0], columns_within(table, 1)) : table.extent()[0];
  if (length > most) throw Error("has more rows than a trace can have");
  return length;
}

std::vector<char> TraceReader::Impl::bytes_of(const CheckedDataset& table, std::size_t most) const {
  const std::size_t length = rows_of(table, most);
  if (length * table.width() > kMostTableBytes - std::min(table_bytes, kMostTableBytes))
    throw Error("has more names and times than a trace can have");
  table_bytes += length * table.width();
  return table.read(length);
}

Records TraceReader::Impl::records(const std::string& table_path, std::size_t most) const {
  CheckedDataset dataset(file, table_path);
  std::vector<char> bytes = bytes_of(dataset, most);
  return {std::move(dataset), std::move(bytes)};
}

std::vector<std::string> TraceReader::Impl::texts(const std::string& table_path, std::size_t most) const {
  const CheckedDataset table(file, table_path);
  if (!table.holds_text()) throw Error(table_path + " holds no texts");
  return texts_of(bytes_of(table, most), table.width(), {0, table.width()});
}

Snapshot TraceReader::Impl::read_pairs(const char* table_path) const {
  return in_part(table_path, [&] {
    const Hdf5Access access;
    const Records table = records(table_path, kMostPairs);
    const std::vector<std::string> keys = table.texts("key");
    const std::vector<std::string> values = table.texts("value");
    Snapshot pairs;
    for (std::size_t i = 0; i < keys.size(); ++i) pairs.emplace_back(keys[i], values[i]);
    return pairs;
  });
}

const std::vector<std::int64_t>& TraceReader::Impl::axis(const std::string& axis_path) {
  const CheckedDataset dataset(file, axis_path);
  H5O_info_t info;
  check_hdf5(H5Oget_info2(dataset.dataset().getId(), &info, H5O_INFO_BASIC), "H5Oget_info");
  const auto known = axes.find(info.addr);
  if (known != axes.end()) return known->second;
  if (!dataset.holds_int64()) throw Error("its times are not 64-bit numbers");
  const std::vector<char> bytes = bytes_of(dataset, kMostRows);
  std::vector<std::int64_t> times = numbers_of(bytes, sizeof(std::int64_t), {0, sizeof(std::int64_t)});
  const auto impossible =
      std::find_if(times.begin(), times.end(), [](std::int64_t time) { return !is_monotonic_time(time); });
  times.erase(impossible, times.end());
  const auto out_of_order = std::adjacent_find(times.begin(), times.end(), std::greater_equal<>());
  if (out_of_order != times.end()) times.erase(out_of_order + 1, times.end());
  return axes[info.addr] = std::move(times);
}

void TraceReader::Impl::read_channels(Family& family) const {
  const std::string keys = family.spec.path + "_channels/";
  const std::vector<std::string> metric = texts(keys + "metric", kMostChannels);
  const std::vector<std::string> instance = texts(keys + "instance", kMostChannels);
  const std::vector<std::string> role = texts(keys + "role", kMostChannels);
  const Records life = records(keys + "life", kMostChannels);
  const std::vector<std::int64_t> born = life.numbers("born_ns");
  const std::vector<std::int64_t> died = life.numbers("died_ns");
  // A crash between two writes of one flush leaves the tables of different length; the common part is whole.
  const std::size_t count = std::min({metric.size(), instance.size(), role.size(), born.size(), died.size()});
  family.channels.reserve(count);
  for (std::size_t i = 0; i < count; ++i)
    family.channels.push_back({metric[i], instance[i], role[i], born[i], died[i]});
}

void TraceReader::Impl::read_family(const std::string& family_path) {
  Family family;
  family.spec.path = family_path;
  const CheckedDataset checked(file, family_path);
  const H5::DataSet& dataset = checked.dataset();
  const auto word = [&](const char* attribute) { return text_attribute(dataset, attribute); };
  const auto known = [&](const auto& found, const char* attribute) {
    if (!found) throw Error(std::string("unknown ") + attribute + " \"" + word(attribute).substr(0, 40) + "\"");
    return *found;
  };
  family.spec.kind = known(kind_of(word("kind")), "kind");
  family.spec.unit = known(unit_of(word("units")), "units");
  family.spec.scope = known(scope_of(word("scope")), "scope");
  family.spec.subsystem = known(subsystem_of(word("subsystem")), "subsystem");
  family.spec.long_name = word("long_name");
  family.spec.source = word("source");
  family.spec.clock = word("clock");
  const bool real = checked.holds_float64();
  family.spec.real = real && !stored_as_real(family.spec);
  if (!real && (stored_as_real(family.spec) || !checked.holds_int64())) throw Error("its values have the wrong type");
  family.spec.period = seconds_attribute(dataset, "period");
  if (family.spec.period <= std::chrono::nanoseconds(0)) throw Error("has no period");
  const std::chrono::nanoseconds faster = seconds_attribute(dataset, "faster_period");
  const bool divides =
      faster.count() > 0 && faster < family.spec.period && family.spec.period % faster == faster.zero();
  if (divides) family.spec.faster = faster;
  family.spec.longest_rest = stated_seconds(dataset, "longest_rest");
  if (checked.chunk().size() != 2) throw Error("is not [channel, time] in chunks");
  if (!checked.has_checksums()) throw Error("has no checksums");

  read_channels(family);
  if (family.channels.size() > kMostChannels - channels) throw Error("more channels than a node can have");
  channels += family.channels.size();
  const std::string group = family_path.substr(0, family_path.find_last_of('/') + 1);
  try {
    take_rows(checked, group + word("time"), family);
    families.push_back(std::move(family));
  } catch (...) {
    damages.push_back({family_path, failure_reason(), std::move(family.spec), std::move(family.channels)});
  }
}

void TraceReader::Impl::take_rows(const CheckedDataset& checked, const std::string& axis_path, Family& family) {
  const std::vector<std::int64_t>& times = axis(axis_path);
  std::size_t rows = std::min<std::size_t>(times.size(), checked.extent()[1]);
  const hsize_t height = std::min<hsize_t>(family.channels.size(), checked.extent()[0]);
  if (unclosed) rows = std::min<std::size_t>(rows, columns_within(checked, height));
  if (rows > 0 && family.channels.size() > kMostTraceValues / rows) throw Error("is too large to be valid");
  family.time_ns = std::span(times).first(rows);
  if (check == Check::all) check_family(family);
}

/// Throws Error unless all chunks are those that were written.
void TraceReader::Impl::check_family(const Family& family) {
  StoredChunks found;
  const CheckedDataset values(file, family.spec.path);
  check_chunks(values, family.channels.size(), family.time_ns.size(), found);
  if (is_counted(family.spec.kind)) {
    const CheckedDataset bases(file, family.spec.path + "_base");
    const std::size_t wide = (family.time_ns.size() + values.chunk()[1] - 1) / values.chunk()[1];
    StoredChunks of_bases;
    check_chunks(bases, family.channels.size(), wide, of_bases);
    found.add(of_bases);
  }
  const auto was = stored.find(family.spec.path);
  if (was == stored.end()) return;
  const auto& [channels_then, rows_then, chunks_then] = was->second;
  if (family.channels.size() != channels_then || family.time_ns.size() != rows_then)
    throw Error(std::to_string(family.channels.size()) + " channels of " + std::to_string(family.time_ns.size()) +
                " rows are left of " + std::to_string(channels_then) + " of " + std::to_string(rows_then));
  if (found.count != chunks_then.count)
    throw Error(std::to_string(found.count) + " chunks are left of " + std::to_string(chunks_then.count));
  if (found.digest != chunks_then.digest) throw Error("its chunks differ from those that were written");
}

void TraceReader::Impl::check_chunks(const CheckedDataset& dataset, std::size_t height, std::size_t width,
                                     StoredChunks& found) {
  const auto extent = dataset.extent();
  const auto chunk = dataset.chunk();
  if (chunk.size() != 2) throw Error("is not in chunks");
  const hsize_t high = std::min<hsize_t>(height, extent[0]);
  const hsize_t wide = std::min<hsize_t>(width, extent[1]);
  if (high == 0 || wide == 0) return;
  const hsize_t chunks = ((wide - 1) / chunk[1] + 1) * ((high - 1) / chunk[0] + 1);
  too_many_chunks = chunks > chunks_left;
  if (chunks > kMostChunks || too_many_chunks) throw Error("has more chunks than a trace can have");
  chunks_left -= chunks;
  for (hsize_t row = 0; row < wide; row += chunk[1]) {
    for (hsize_t channel = 0; channel < high; channel += chunk[0]) {
      const hsize_t at[2] = {channel, row};
      if (const auto checksum = dataset.checksum(at)) found.add(row, channel, *checksum);
    }
  }
}

bool never_started(const std::filesystem::path& part) noexcept {
  try {
    return CheckedFile(part, "trace").superblock().never_started;
  } catch (const std::exception&) {
    return false;
  }
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

const std::vector<TraceReader::Damage>& TraceReader::damages() const noexcept {
  return impl_->damages;
}

std::vector<Event> TraceReader::events() const {
  return impl_->in_part("events", [&] {
    const Hdf5Access access;
    const CheckedDataset table(impl_->file, "events");
    if (table.extent().size() != 1) throw Error("has the wrong shape");
    need_narrow_rows(table);
    const hsize_t there = impl_->unclosed ? columns_within(table, 1) : table.extent()[0];
    const std::size_t length = std::min<hsize_t>(there, kMostEventRows);
    std::vector<Event> events;
    std::size_t frames = 0;
    std::int64_t last = 0;
    table.read(length, [&](std::span<const char> records) {
      const std::vector<std::int64_t> times = numbers_of(records, table.width(), table.int64_column("time_ns"));
      std::vector<std::string> objects = texts_of(records, table.width(), table.text_column("object"));
      std::vector<std::string> codes = texts_of(records, table.width(), table.text_column("code"));
      std::vector<std::string> texts = texts_of(records, table.width(), table.text_column("text"));
      for (std::size_t i = 0; i < times.size(); ++i) {
        const bool is_frames = codes[i] == kPythonFrames;
        if ((is_frames ? frames : events.size() - frames) == kMostEvents) continue;
        frames += is_frames ? 1 : 0;
        last = times[i];
        events.push_back({times[i], std::move(objects[i]), std::move(codes[i]), std::move(texts[i])});
      }
    });
    if (there > events.size())
      events.push_back(
          {last, "trace", "events_lost",
           std::to_string(there - events.size()) + " events behind the first " + std::to_string(events.size())});
    return events;
  });
}

template <class Row>
std::size_t TraceReader::table_size() const {
  const Hdf5Access access;
  const H5::H5File& file = impl_->file;
  const char* const name = RowTable<Row>::kName;
  try {
    return file.nameExists(name) ? impl_->rows_of(CheckedDataset(file, name), RowTable<Row>::kMost) : 0;
  } catch (...) {
    return 0;  // their reader gets the reason
  }
}
template std::size_t TraceReader::table_size<TrainingStep>() const;
template std::size_t TraceReader::table_size<SampledCollective>() const;

template <class Row>
void TraceReader::read_table(const std::function<void(std::span<const Row>)>& take) const {
  impl_->in_part(RowTable<Row>::kName, [&] {
    const Hdf5Access access;
    if (!impl_->file.nameExists(RowTable<Row>::kName)) return;
    const CheckedDataset table(impl_->file, RowTable<Row>::kName);
    need_narrow_rows(table);
    std::vector<Row> rows;
    table.read(impl_->rows_of(table, RowTable<Row>::kMost), [&](std::span<const char> records) {
      rows.resize(records.size() / table.width());
      for (const RowColumn<Row>& column : RowTable<Row>::kColumns) take_column(table, records, column, std::span(rows));
      take(rows);
    });
  });
}
template void TraceReader::read_table<TrainingStep>(const std::function<void(std::span<const TrainingStep>)>&) const;
template void TraceReader::read_table<SampledCollective>(
    const std::function<void(std::span<const SampledCollective>)>&) const;

template <class Row>
std::vector<Row> TraceReader::table() const {
  std::vector<Row> rows;
  read_table<Row>([&](std::span<const Row> piece) {
    if (rows.empty()) rows.reserve(table_size<Row>());
    rows.insert(rows.end(), piece.begin(), piece.end());
  });
  return rows;
}
template std::vector<TrainingStep> TraceReader::table<TrainingStep>() const;
template std::vector<SampledCollective> TraceReader::table<SampledCollective>() const;

std::vector<ClockPair> TraceReader::clocks() const {
  return impl_->in_part("clock", [&] {
    const Hdf5Access access;
    const Records table = impl_->records("clock", kMostClocks);
    const std::vector<std::int64_t> monotonic = table.numbers("monotonic_ns");
    const std::vector<std::int64_t> utc = table.numbers("utc_ns");
    const std::vector<std::int64_t> error = table.numbers("max_error_ns");
    std::vector<ClockPair> clocks;
    for (std::size_t i = 0; i < monotonic.size(); ++i) {
      if (is_monotonic_time(monotonic[i]) && is_utc_time(utc[i])) clocks.push_back({monotonic[i], utc[i], error[i]});
    }
    return clocks;
  });
}

std::vector<Coverage> TraceReader::coverage() const {
  return impl_->in_part("coverage", [&] {
    const Hdf5Access access;
    const Records table = impl_->records("coverage", kMostCoverage);
    const std::vector<std::string> probes = table.texts("probe");
    const std::vector<std::string> states = table.texts("state");
    const std::vector<std::string> reasons = table.texts("reason");
    std::vector<Coverage> coverage;
    for (std::size_t i = 0; i < probes.size(); ++i) {
      const auto state = enumerator_of<Coverage::State>(kCoverageStates, states[i]);
      coverage.push_back({probes[i], state.value_or(Coverage::State::failed), reasons[i]});
    }
    return coverage;
  });
}

Snapshot TraceReader::snapshot_begin() const {
  return impl_->read_pairs("node/begin");
}
Snapshot TraceReader::snapshot_end() const {
  return impl_->read_pairs("node/end");
}

std::string TraceReader::topology_xml() const {
  return impl_->in_part("topology", [&] {
    const Hdf5Access access;
    const std::vector<std::string> texts = impl_->texts("node/topology_xml", 1);
    return texts.empty() ? std::string() : texts.front();
  });
}

OpenFamily& TraceReader::Impl::opened(const Family& family) const {
  const auto known = open_families.find(family.spec.path);
  if (known != open_families.end()) return known->second;
  return open_families.emplace(family.spec.path, OpenFamily{CheckedDataset(file, family.spec.path)}).first->second;
}

/// Pieces overlap: the next one begins in the last column, or, after a long rest, in the one before. A chunk that is
/// not kept is inflated once for every piece that touches it.
std::size_t TraceReader::Impl::columns_to_keep(const Family& family, const CheckedDataset& values) const {
  constexpr std::size_t kSmall = 4 << 20;      // bytes of a column
  constexpr std::size_t kMostKept = 64 << 20;  // all families together
  const auto chunk = values.chunk();
  const hsize_t channels = std::min<hsize_t>(family.channels.size(), values.extent()[0]);
  const std::size_t column = (channels + chunk[0] - 1) / chunk[0] * chunk[0] * chunk[1] * values.width();
  const std::size_t columns = column <= kSmall ? 2 : 1;
  if (column > (kMostKept - kept) / columns) return 0;
  kept += columns * column;
  return columns;
}

void TraceReader::Impl::read_block(const Family& family, std::size_t first_row, std::size_t rows, Form form,
                                   std::span<std::byte> values) const {
  constexpr std::size_t kValue = sizeof(std::int64_t);
  const std::lock_guard lock(reading);
  OpenFamily& open = opened(family);
  if (!open.columns_kept) open.columns_kept = columns_to_keep(family, open.values);
  const auto extent = open.values.extent();
  const auto chunk = open.values.chunk();
  const hsize_t channels_there = std::min<hsize_t>(family.channels.size(), extent[0]);
  const hsize_t end = std::min<hsize_t>(first_row + rows, extent[1]);
  const bool converted = form == Form::real && !stored_as_real(family.spec);
  const std::int64_t missing = form == Form::real ? std::bit_cast<std::int64_t>(kNaN) : kMissing;
  const auto fill_missing = [missing](std::span<std::byte> part) {
    for (std::size_t i = 0; i < part.size(); i += kValue) std::memcpy(part.data() + i, &missing, kValue);
  };
  if (channels_there < family.channels.size() || end < first_row + rows) fill_missing(values);
  if (first_row >= end) return;
  for (hsize_t row = first_row - first_row % chunk[1]; row < end; row += chunk[1]) {
    open.make_room_for(row);
    const hsize_t from = std::max<hsize_t>(row, first_row);
    const std::size_t count = std::min(row + chunk[1], end) - from;
    for (hsize_t channel = 0; channel < channels_there; channel += chunk[0]) {
      const NumberChunk& numbers = open.chunk_at(row, channel);
      for (hsize_t c = 0; c < std::min(chunk[0], channels_there - channel); ++c) {
        const auto to = values.subspan(((channel + c) * rows + (from - first_row)) * kValue, count * kValue);
        const std::size_t first = c * chunk[1] + (from - row);
        if (numbers.bytes.empty()) {
          fill_missing(to);
        } else if (converted) {
          numbers.copy_as_reals(first, to);
        } else {
          numbers.copy(first, to);
        }
      }
      if (open.columns_kept == 0) open.forget(open.chunks.begin(), open.chunks.end());
    }
  }
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
  impl_->in_part(family.spec.path, [&] {
    values.resize(family.channels.size() * rows);
    impl_->read_block(family, first, rows, Impl::Form::real, std::as_writable_bytes(std::span(values)));
  });
}

std::size_t TraceReader::rows_per_chunk(const Family& family) const {
  return impl_->in_part(family.spec.path, [&] {
    const std::lock_guard lock(impl_->reading);
    return impl_->opened(family).values.chunk()[1];
  });
}

std::vector<std::int64_t> TraceReader::read_stored(const Family& family) const {
  return read_stored(family, 0, family.time_ns.size());
}

std::vector<std::int64_t> TraceReader::read_stored(const Family& family, std::size_t first, std::size_t rows) const {
  return impl_->in_part(family.spec.path, [&] {
    std::vector<std::int64_t> values(family.channels.size() * rows);
    impl_->read_block(family, first, rows, Impl::Form::stored, std::as_writable_bytes(std::span(values)));
    return values;
  });
}

TraceReader::Bases TraceReader::read_bases(const Family& family) const {
  return read_bases(family, 0, family.time_ns.size());
}

TraceReader::Bases TraceReader::read_bases(const Family& family, std::size_t first, std::size_t least) const {
  return impl_->in_part(family.spec.path, [&] {
    Bases bases;
    const std::lock_guard lock(impl_->reading);
    bases.rows_per_chunk = impl_->opened(family).values.chunk()[1];
    const std::size_t all = (family.time_ns.size() + bases.rows_per_chunk - 1) / bases.rows_per_chunk;
    if (all > 0 && family.channels.size() > kMostBases / all) throw Error("is too large to be valid");
    bases.first = std::min(first, all);
    const std::size_t at_once = kBasesAtOnce / std::max<std::size_t>(family.channels.size(), 1);
    bases.chunks = std::min(std::max(least, at_once), all - bases.first);
    bases.values.assign(family.channels.size() * bases.chunks, kMissing);
    if (!is_counted(family.spec.kind)) return bases;
    const CheckedDataset dataset(impl_->file, family.spec.path + "_base");
    if (dataset.chunk().size() != 2 || !dataset.holds_int64()) throw Error("its absolute values have the wrong shape");
    const auto chunk = dataset.chunk();
    const hsize_t high = std::min<hsize_t>(family.channels.size(), dataset.extent()[0]);
    const hsize_t there = impl_->unclosed ? columns_within(dataset, high) : dataset.extent()[1];
    const hsize_t end = std::min<hsize_t>(bases.first + bases.chunks, there);
    if (end <= bases.first) return bases;
    ByteBuffer bytes;
    for (hsize_t column = bases.first / chunk[1] * chunk[1]; column < end; column += chunk[1]) {
      const hsize_t from = std::max<hsize_t>(column, bases.first);
      const std::size_t count = std::min(column + chunk[1], end) - from;
      for (hsize_t channel = 0; channel < high; channel += chunk[0]) {
        const hsize_t offset[2] = {channel, column};
        if (!dataset.read_chunk(offset, bytes)) continue;
        for (hsize_t c = 0; c < std::min(chunk[0], high - channel); ++c)
          std::memcpy(&bases.values[(channel + c) * bases.chunks + from - bases.first],
                      bytes.data() + (c * chunk[1] + from - column) * sizeof(std::int64_t),
                      count * sizeof(std::int64_t));
      }
    }
    return bases;
  });
}

std::vector<std::int64_t> TraceReader::read_absolute(const Family& family) const {
  std::vector<std::int64_t> stored = read_stored(family);
  if (!is_counted(family.spec.kind)) return stored;
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
