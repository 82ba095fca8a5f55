#include "hdf5schema/trace_file.h"

#include <H5Cpp.h>
#include <fcntl.h>
#include <libdeflate.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <vector>

#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/enum_names.h"
#include "hdf5schema/chunk_writer.h"
#include "hdf5schema/dimension_scales.h"
#include "hdf5schema/hdf5_access.h"
#include "hdf5schema/hdf5_objects.h"
#include "hdf5schema/record_types.h"

namespace reveal {
namespace {

using H5::PredType;

constexpr std::size_t kTableChunk = 32;
constexpr std::size_t kMostInTableChunk = 2048;  // number of events: 600 kB, less than a reader keeps
constexpr std::size_t kRowsInChunk = 128;        // chunks of a few kB: the last chunk is written anew with each flush
constexpr std::size_t kMostRowsInChunk = 8192;
constexpr std::size_t kMinSnapshotWidth = 1024;
constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

template <class Row>
struct RowDataset {
  H5::DataSet set;
};

struct FamilyFile {
  std::string path;
  std::size_t axis = 0;
  std::size_t channels_per_chunk = 1;
  bool real = false;
  std::size_t channels = 0;  // named
  std::size_t rows = 0;
  std::size_t chunks = 0;  // chunks of rows
  StoredChunks stored = {};
  StoredChunks stored_bases = {};
  H5::DataSet values;
  H5::DataSet bases;  // for increments only
  std::size_t bases_per_chunk = 1;
  ChunkWriter::Steady steady = {};

  [[nodiscard]] std::int64_t missing() const { return real ? std::bit_cast<std::int64_t>(kNotANumber) : kMissing; }
};

void describe(const H5::DataSet& values, const FamilySpec& spec, const std::string& axis) {
  // The attributes are in the header: dense storage would cost 4 KiB.
  set_attribute(values, "units", name_of(spec.unit));
  set_attribute(values, "kind", name_of(spec.kind));
  set_attribute(values, "scope", name_of(spec.scope));
  set_attribute(values, "subsystem", name_of(spec.subsystem));
  set_attribute(values, "long_name", spec.long_name);
  set_attribute(values, "source", spec.source);
  set_attribute(values, "period", static_cast<double>(spec.period.count()) / 1e9);
  set_attribute(values, "stored", is_counted(spec.kind) ? "increments" : "levels");
  set_attribute(values, "time", "time_" + axis);
  if (!spec.clock.empty()) set_attribute(values, "clock", spec.clock);
  if (spec.faster.count() > 0) set_attribute(values, "faster_period", static_cast<double>(spec.faster.count()) / 1e9);
  if (spec.longest_rest) {
    set_attribute(values, "longest_rest", static_cast<double>(spec.longest_rest->count()) / 1e9);
  }
  if (stored_as_real(spec))
    set_attribute(values, "_FillValue", kNotANumber);
  else
    set_attribute(values, "_FillValue", kMissing);
}

/// A cache for the objects of every flush, the headers and indexes of 70 families. Cached objects take ten times their
/// size in memory, and the default of 2 MB would keep all the key tables, too.
void keep_cache_small(const H5::FileAccPropList& list) {
  constexpr std::size_t kCacheBytes = std::size_t{128} << 10;
  H5AC_cache_config_t cache{};
  cache.version = H5AC__CURR_CACHE_CONFIG_VERSION;
  check_hdf5(H5Pget_mdc_config(list.getId(), &cache), "H5Pget_mdc_config");
  cache.set_initial_size = true;
  cache.initial_size = kCacheBytes;
  cache.min_size = kCacheBytes;
  cache.incr_mode = H5C_incr__off;
  cache.flash_incr_mode = H5C_flash_incr__off;
  check_hdf5(H5Pset_mdc_config(list.getId(), &cache), "H5Pset_mdc_config");
}

/// Text of a snapshot as fixed-width records.
std::vector<char> packed(const Snapshot& snapshot, std::size_t key_width, std::size_t value_width) {
  std::vector<char> records((key_width + value_width) * snapshot.size());
  char* at = records.data();
  for (const auto& [key, value] : snapshot) {
    key.copy(at, key_width);
    value.copy(at + key_width, value_width);
    at += key_width + value_width;
  }
  return records;
}

std::size_t longest(const Snapshot& snapshot, std::string Snapshot::value_type::*part, std::size_t at_least) {
  for (const auto& entry : snapshot) at_least = std::max(at_least, (entry.*part).size());
  return at_least;
}

/// The file must have the length in its superblock: HDF5 does not check that the file it closed was written completely.
void check_length(const std::string& path) {
  constexpr std::size_t kVersion = 8;
  constexpr std::size_t kEnds[] = {40, 44, 28, 28};  // position of the file's end, by version of the superblock
  unsigned char superblock[kEnds[1] + sizeof(std::uint64_t)];
  struct stat status {};
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!file || ::fstat(file.get(), &status) != 0) throw system_error(path, errno);
  std::uint64_t end = 0;
  if (::pread(file.get(), superblock, sizeof superblock, 0) == sizeof superblock) {
    const std::size_t at = kEnds[std::min<std::size_t>(superblock[kVersion], std::size(kEnds) - 1)];
    for (std::size_t byte = sizeof end; byte > 0; --byte) end = end << 8 | superblock[at + byte - 1];
  }
  if (end != static_cast<std::uint64_t>(status.st_size))
    throw Error(path + ": is cut off (" + std::to_string(status.st_size) + " of " + std::to_string(end) + " bytes)");
}

ChunkCodec::Effort effort_of(TraceFile::Form form) {
  switch (form) {
    case TraceFile::Form::live:
      return ChunkCodec::Effort::temporary;
    case TraceFile::Form::recovered:
      return ChunkCodec::Effort::live;
    case TraceFile::Form::closed:
      break;
  }
  return ChunkCodec::Effort::closed;
}

}  // namespace

struct TraceFile::Impl {
  struct Axis {
    std::string name;
    std::size_t rows_per_chunk = 0;
    std::size_t rows = 0;
    H5::DataSet times;
    H5::DataSet chunk_times;

    [[nodiscard]] std::size_t times_per_chunk() const { return std::max<std::size_t>(rows_per_chunk, 8); }
  };
  std::string place;
  std::vector<Written> written;
  std::string root;  // "", or the group that the trace is: "/nodes/n03"
  bool live;
  bool hurried;  // written beside a job: spends little cpu time
  H5::H5File file;
  std::vector<Axis> axes;
  std::vector<FamilyFile> families;
  DimensionScales scales;
  H5::DataSet events;
  RowTables<RowDataset> tables;
  H5::DataSet clocks;
  H5::DataSet coverage;
  H5::DataSet stored;
  H5::DataSet end;
  std::size_t key_width = 64;
  std::size_t value_width = kMinSnapshotWidth;

  ChunkWriter chunks;

  explicit Impl(Form form) : live(form != Form::closed), hurried(form == Form::live), chunks(effort_of(form)) {}
  [[nodiscard]] H5::Group root_group() const { return file.openGroup(root.empty() ? "/" : root); }
  [[nodiscard]] std::string at(const std::string& path) const { return root + "/" + path; }
  void create_values(const H5::Group& group, const FamilySpec& spec, FamilyFile& family);
  void create_bases(const H5::Group& group, const FamilySpec& spec, FamilyFile& family, std::size_t channels);
  void create_keys(const H5::Group& group, const FamilySpec& spec, const FamilyFile& family,
                   std::optional<std::size_t> channels);
  void reopen();
  void write_stored();
  void put_channels(const FamilyFile& family, std::size_t first, std::span<const ChannelKey> keys);
  void append_records(H5::DataSet& table, const char* name, const void* records, std::size_t count,
                      H5::CompType (*type)());
  void note_written(std::size_t index, std::size_t channels, std::size_t rows, const void* values,
                    std::span<const std::int64_t> bases);
};

namespace {

/// A new file with small tables and indexes.
H5::H5File create_file(const std::filesystem::path& path, bool live) {
  H5::FileAccPropList list;
  list.setLibverBounds(live ? H5F_LIBVER_V110 : H5F_LIBVER_V18, H5F_LIBVER_V110);
  keep_cache_small(list);
  H5::FileCreatPropList root_list;  // links and attributes in the header: dense storage costs 4 KiB each
  check_hdf5(H5Pset_link_phase_change(root_list.getId(), 1024, 8), "H5Pset_link_phase_change");
  check_hdf5(H5Pset_attr_phase_change(root_list.getId(), 1024, 8), "H5Pset_attr_phase_change");
  // The index of a dataset's chunks as small as it may be: most datasets of a closed file have one or two. With 1,
  // each node of what is appended would keep a single entry, and their number grow with the square of the chunks'.
  check_hdf5(H5Pset_istore_k(root_list.getId(), 2), "H5Pset_istore_k");
  return {path.string(), H5F_ACC_EXCL, root_list, list};
}

/// A file of several traces.
H5::H5File open_file(const std::filesystem::path& path) {
  H5::FileAccPropList list;
  list.setLibverBounds(H5F_LIBVER_V18, H5F_LIBVER_V110);
  check_hdf5(H5Pset_file_locking(list.getId(), false, true), "H5Pset_file_locking");
  return {path.string(), H5F_ACC_RDWR, H5::FileCreatPropList::DEFAULT, list};
}

}  // namespace

TraceFile::TraceFile(const std::filesystem::path& path, const TraceHeader& header, Form form, TableSizes sizes,
                     const std::string& group)
    : impl_(std::make_unique<Impl>(form)) {
  const Hdf5Access access;
  impl_->place = path.string();
  bool made = false;
  try {
    impl_->file = group.empty() ? create_file(path, impl_->live) : open_file(path);
    made = group.empty();
    if (!group.empty()) {
      impl_->root = "/" + group;
      static_cast<void>(create_group(group_of(impl_->file, group), group.substr(group.find_last_of('/') + 1)));
    }
    const H5::Group root = impl_->root_group();
    set_attribute(root, "schema", kSchemaName);
    set_attribute(root, "schema_version", std::int64_t{kSchemaVersion});
    set_attribute(root, "complete", std::int64_t{0});
    set_attribute(root, "job", header.job_id);
    set_attribute(root, "job_name", header.job_name);
    set_attribute(root, "user", header.user);
    set_attribute(root, "cluster", header.cluster);
    set_attribute(root, "node", header.node);
    set_attribute(root, "command", header.command);
    if (!header.run_key.empty()) set_attribute(root, "run_key", header.run_key);
    if (!header.trace_id.empty()) set_attribute(root, "trace_id", header.trace_id);
    set_attribute(root, "tool_version", header.tool_version);
    set_attribute(root, "interval", static_cast<double>(header.interval.count()) / 1e9);
    set_attribute(root, "begin_utc_ns", header.begin_utc_ns);

    // Scales, so that xarray opens the root group: it needs a dimension for every dataset.
    impl_->events =
        create_table(root, "events", event_type(), std::clamp(sizes.events, kTableChunk, kMostInTableChunk));
    DimensionScales::make(impl_->events, "events");
    for_each_table(impl_->tables, [&]<class Row>(RowDataset<Row>& table) {
      const std::size_t rows = std::get<RowCount<Row>>(sizes.tables).rows;
      table.set =
          create_table(root, RowTable<Row>::kName, row_type<Row>(), std::clamp(rows, kRowsInChunk, kMostRowsInChunk));
      DimensionScales::make(table.set, RowTable<Row>::kName);
    });
    impl_->clocks = (impl_->hurried ? create_raw_table : create_table)(root, "clock", clock_type(),
                                                                       impl_->live ? kTableChunk : kMostInTableChunk);
    DimensionScales::make(impl_->clocks, "clock");
    impl_->coverage = create_table(root, "coverage", coverage_type(), kTableChunk);
    DimensionScales::make(impl_->coverage, "coverage");
    impl_->stored = create_table(root, "stored", stored_type(), kTableChunk);
    DimensionScales::make(impl_->stored, "stored");
    for (const auto& [key, value] : header.tags) {
      const std::string name = "tag." + key;
      if (!root.attrExists(name)) set_attribute(root, name.c_str(), value);
    }
  } catch (...) {
    const Error error = as_error(impl_->place);
    if (made) ::unlink(path.c_str());
    throw error;
  }
}

TraceFile::~TraceFile() {
  const Hdf5Access access(std::nothrow);
  impl_.reset();
}

std::size_t TraceFile::add_axis(const std::string& name, std::size_t rows_per_chunk) {
  const Hdf5Access access;
  try {
    Impl::Axis axis{.name = name, .rows_per_chunk = rows_per_chunk};
    const H5::Group root = impl_->root_group();
    axis.times = create_table(root, "time_" + name, PredType::STD_I64LE, axis.times_per_chunk());
    axis.chunk_times =
        (impl_->hurried ? create_raw_table : create_table)(root, "chunk_" + name, PredType::STD_I64LE, 64);
    set_attribute(axis.times, "units", "nanoseconds");
    set_attribute(axis.times, "long_name", "CLOCK_MONOTONIC; UTC by /clock");
    set_attribute(axis.chunk_times, "units", "nanoseconds");
    set_attribute(axis.chunk_times, "long_name", "time of the first row of each chunk");
    DimensionScales::make(axis.times, "time_" + name);
    DimensionScales::make(axis.chunk_times, "chunk_" + name);
    impl_->axes.push_back(std::move(axis));
    return impl_->axes.size() - 1;
  } catch (...) {
    throw as_error(impl_->place);
  }
}

std::size_t TraceFile::add_family(const FamilySpec& spec, std::size_t axis_index, std::size_t channels_per_chunk,
                                  std::optional<std::size_t> channels) {
  const Hdf5Access access;
  try {
    const Impl::Axis& axis = impl_->axes.at(axis_index);
    const H5::Group group = group_of(impl_->file, impl_->at(spec.path).substr(1));
    // Hard links: one time axis for all groups, and xarray finds a group's dimensions inside the group.
    for (const std::string& scale : {"time_" + axis.name, "chunk_" + axis.name}) {
      if (!group.nameExists(scale)) {
        check_hdf5(H5Lcreate_hard(impl_->file.getId(), impl_->at(scale).c_str(), group.getId(), scale.c_str(),
                                  H5P_DEFAULT, H5P_DEFAULT),
                   "H5Lcreate_hard");
      }
    }
    FamilyFile family{.path = spec.path,
                      .axis = axis_index,
                      .channels_per_chunk = std::max<std::size_t>(channels_per_chunk, 1),
                      .real = stored_as_real(spec)};
    impl_->create_values(group, spec, family);
    if (is_counted(spec.kind))
      impl_->create_bases(group, spec, family, std::max<std::size_t>(channels.value_or(family.channels_per_chunk), 1));
    impl_->create_keys(group, spec, family, impl_->live ? std::nullopt : channels);
    impl_->families.push_back(std::move(family));
    impl_->written.push_back({.path = spec.path});
    return impl_->families.size() - 1;
  } catch (...) {
    throw as_error(impl_->place + ": " + spec.path);
  }
}

void TraceFile::Impl::create_values(const H5::Group& group, const FamilySpec& spec, FamilyFile& family) {
  const Axis& axis = axes.at(family.axis);
  const hsize_t rows = axis.rows_per_chunk;
  const hsize_t empty[2] = {0, 0};
  const hsize_t shape[2] = {family.channels_per_chunk, rows};
  const hsize_t maximum[2] = {H5S_UNLIMITED, live ? kMaxChunks * rows : H5S_UNLIMITED};
  H5::DSetCreatPropList list = creation(shape);
  check_hdf5(H5Pset_attr_phase_change(list.getId(), 64, 8), "H5Pset_attr_phase_change");
  if (family.real)
    list.setFillValue(PredType::NATIVE_DOUBLE, &kNotANumber);
  else
    list.setFillValue(PredType::NATIVE_INT64, &kMissing);
  family.values = group.createDataSet(spec.path.substr(spec.path.find_last_of('/') + 1),
                                      family.real ? PredType::IEEE_F64LE : PredType::STD_I64LE,
                                      H5::DataSpace(2, empty, maximum), list, access_without_cache());
  describe(family.values, spec, axis.name);
  DimensionScales::reserve(family.values, 2);
}

void TraceFile::Impl::create_bases(const H5::Group& group, const FamilySpec& spec, FamilyFile& family,
                                   std::size_t channels) {
  const hsize_t empty[2] = {0, 0};
  const hsize_t shape[2] = {channels, 1};
  family.bases_per_chunk = channels;
  const hsize_t maximum[2] = {H5S_UNLIMITED, live ? kMaxChunks : H5S_UNLIMITED};
  H5::DSetCreatPropList list = creation(shape);
  list.setFillValue(PredType::NATIVE_INT64, &kMissing);
  family.bases = group.createDataSet(spec.path.substr(spec.path.find_last_of('/') + 1) + "_base", PredType::STD_I64LE,
                                     H5::DataSpace(2, empty, maximum), list, access_without_cache());
  set_attribute(family.bases, "units", name_of(spec.unit));
  set_attribute(family.bases, "_FillValue", kMissing);
  DimensionScales::reserve(family.bases, 2);
}

/// Attributes are written with the dataset they belong to, and references to a later one are reserved: an attribute
/// that comes after the next dataset costs its header another block.
void TraceFile::Impl::create_keys(const H5::Group& group, const FamilySpec& spec, const FamilyFile& family,
                                  std::optional<std::size_t> channels) {
  const std::string name = spec.path.substr(spec.path.find_last_of('/') + 1);
  const H5::Group keys = create_group(group, name + "_channels");
  const hsize_t per_chunk = std::max<hsize_t>(family.channels_per_chunk, 4);
  const auto create = [&](const H5::Group& where, const std::string& table, const H5::DataType& type) {
    return channels ? create_final_table(where, table, type, *channels) : create_table(where, table, type, per_chunk);
  };
  const H5::DataSet life = create(keys, "life", life_type());
  DimensionScales::reserve(life, 1);
  DimensionScales::make(create(keys, "metric", text_type(kMetricWidth)), "metric", {{family.values, 0}, {life, 0}});
  DimensionScales::make(create(keys, "instance", text_type(kInstanceWidth)), "instance", {{family.values, 0}});
  DimensionScales::make(create(keys, "role", text_type(kRoleWidth)), "role", {{family.values, 0}});
  std::vector<DimensionScales::User> users = {{family.values, 0}};
  const bool has_bases = is_counted(spec.kind);
  if (has_bases) users.push_back({family.bases, 0});
  DimensionScales::make(create(group, name + "_channel", PredType::STD_I32LE), "channel", users);
  const std::string path = at(spec.path);
  const std::string number = path + "_channel";
  const std::string metric = path + "_channels/metric";
  const std::string& axis = axes.at(family.axis).name;
  // The number comes last: netCDF4 and h5netcdf take the last scale for the dimension, and netCDF4 crashes on arrays
  // of fixed-length strings (it frees each of them, though they are one block).
  scales.attach(family.values,
                {{metric, path + "_channels/instance", path + "_channels/role", number}, {at("time_" + axis)}});
  scales.attach(life, {{metric}});
  if (has_bases) scales.attach(family.bases, {{number}, {at("chunk_" + axis)}});
}

void TraceFile::write_snapshot(const Snapshot& begin, std::string_view topology_xml) {
  const Hdf5Access access;
  try {
    impl_->key_width = longest(begin, &Snapshot::value_type::first, impl_->key_width);
    impl_->value_width = longest(begin, &Snapshot::value_type::second, impl_->value_width);
    const H5::CompType type = pair_type(impl_->key_width, impl_->value_width);
    const H5::Group node = create_group(impl_->root_group(), "node");
    H5::DataSet table = create_table(node, "begin", type, std::max<hsize_t>(begin.size(), 1));
    DimensionScales::make(table, "begin");
    const std::vector<char> records = packed(begin, impl_->key_width, impl_->value_width);
    put(table, records.data(), 0, begin.size(), type);
    H5::DataSet end = create_table(node, "end", type, kTableChunk);
    DimensionScales::make(end, "end");

    // One fixed-length string, compressed; it is as long as the machine is large.
    const hsize_t one = 1;
    const H5::StrType xml_type = text_type(topology_xml.size());
    const H5::DataSet xml = node.createDataSet("topology_xml", xml_type, H5::DataSpace(1, &one), creation({&one, 1}));
    DimensionScales::make(xml, "topology_xml");
    xml.write(topology_xml.empty() ? "" : topology_xml.data(), xml_type);
  } catch (...) {
    throw as_error(impl_->place + ": node snapshot");
  }
}

void TraceFile::start() {
  const Hdf5Access access;
  try {
    if (!impl_->root_group().nameExists("node")) write_snapshot({}, {});
    impl_->scales.write_references(impl_->file.getId());
    // The mode is switched on with no object open: reopening them inside the switch is the library's least trodden
    // path.
    for (Impl::Axis& axis : impl_->axes) axis = {.name = axis.name, .rows_per_chunk = axis.rows_per_chunk};
    for (FamilyFile& family : impl_->families) {
      family.bases = family.values = H5::DataSet();
    }
    for (H5::DataSet* const table : {&impl_->events, &impl_->clocks, &impl_->coverage, &impl_->stored, &impl_->end}) {
      *table = H5::DataSet();
    }
    for_each_table(impl_->tables, [](auto& table) { table.set = H5::DataSet(); });
    if (impl_->live) {
      impl_->file.flush(H5F_SCOPE_LOCAL);
      check_hdf5(H5Fstart_swmr_write(impl_->file.getId()), "H5Fstart_swmr_write");
    }
    impl_->reopen();
  } catch (...) {
    throw as_error(impl_->place);
  }
}

void TraceFile::Impl::reopen() {
  const H5::DSetAccPropList list = access_without_cache();
  const auto open = [&](const std::string& path) { return file.openDataSet(at(path), list); };
  for (Axis& axis : axes) {
    axis.times = open("time_" + axis.name);
    axis.chunk_times = open("chunk_" + axis.name);
  }
  for (FamilyFile& family : families) {
    family.values = open(family.path);
    if (file.nameExists(at(family.path + "_base"))) family.bases = open(family.path + "_base");
  }
  events = open("events");
  for_each_table(tables, [&]<class Row>(RowDataset<Row>& table) { table.set = open(RowTable<Row>::kName); });
  clocks = open("clock");
  coverage = open("coverage");
  stored = open("stored");
  end = open("node/end");
}

void TraceFile::write_channels(std::size_t family, std::size_t first, std::span<const ChannelKey> keys) {
  const Hdf5Access access;
  try {
    impl_->put_channels(impl_->families.at(family), first, keys);
    impl_->families[family].channels = std::max(impl_->families[family].channels, first + keys.size());
  } catch (...) {
    throw as_error(impl_->place + ": " + impl_->families.at(family).path);
  }
}

/// The five tables are opened for it: held open, those of all families cost megabytes.
void TraceFile::Impl::put_channels(const FamilyFile& family, std::size_t first, std::span<const ChannelKey> keys) {
  std::vector<char> metric(keys.size() * kMetricWidth);
  std::vector<char> instance(keys.size() * kInstanceWidth);
  std::vector<char> role(keys.size() * kRoleWidth);
  std::vector<LifeRecord> life(keys.size());
  std::vector<std::int32_t> number(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    keys[i].metric.copy(metric.data() + i * kMetricWidth, kMetricWidth);
    keys[i].instance.copy(instance.data() + i * kInstanceWidth, kInstanceWidth);
    keys[i].role.copy(role.data() + i * kRoleWidth, kRoleWidth);
    life[i] = {keys[i].born_ns, keys[i].died_ns};
    number[i] = static_cast<std::int32_t>(first + i);
  }
  const auto put_into = [&](const std::string& table, const void* records, const H5::DataType& type) {
    H5::DataSet dataset = file.openDataSet(at(family.path + table), access_without_cache());
    put(dataset, records, first, keys.size(), type);
  };
  put_into("_channels/metric", metric.data(), text_type(kMetricWidth));
  put_into("_channels/instance", instance.data(), text_type(kInstanceWidth));
  put_into("_channels/role", role.data(), text_type(kRoleWidth));
  put_into("_channels/life", life.data(), life_type());
  put_into("_channel", number.data(), PredType::NATIVE_INT32);
}

void TraceFile::write_times(std::size_t axis_index, std::span<const std::int64_t> times) {
  if (times.empty()) return;
  const Hdf5Access access;
  try {
    Impl::Axis& axis = impl_->axes.at(axis_index);
    if (times.size() == axis.times_per_chunk() && axis.rows % times.size() == 0) {
      const hsize_t first = axis.rows;
      const hsize_t size = axis.rows + times.size();
      axis.times.extend(&size);
      impl_->chunks.write_whole(axis.times, times, &first);
    } else {
      append(axis.times, times.data(), times.size(), PredType::NATIVE_INT64);
    }
    axis.rows += times.size();
    append(axis.chunk_times, times.data(), 1, PredType::NATIVE_INT64);
  } catch (...) {
    throw as_error(impl_->place + ": time axis");
  }
}

void TraceFile::write_rows(std::size_t family_index, std::size_t channels, std::size_t rows, const void* values,
                           std::span<const std::int64_t> bases) {
  const Hdf5Access access;
  FamilyFile& family = impl_->families.at(family_index);
  try {
    const hsize_t size[2] = {channels, family.rows + rows};
    family.values.extend(size);
    if (values != nullptr)
      impl_->chunks.write(family.values,
                          {family.channels_per_chunk, impl_->axes.at(family.axis).rows_per_chunk, family.missing()},
                          {static_cast<const std::int64_t*>(values), channels * rows}, rows, family.rows, family.stored,
                          impl_->live ? &family.steady : nullptr);
    if (family.bases.getId() > 0) {
      const hsize_t chunks[2] = {channels, family.chunks + 1};
      family.bases.extend(chunks);
      impl_->chunks.write(family.bases, {family.bases_per_chunk, 1, kMissing}, bases, 1, family.chunks,
                          family.stored_bases, nullptr);
    }
    family.rows += rows;
    ++family.chunks;
    if (!impl_->hurried) impl_->note_written(family_index, channels, rows, values, bases);
  } catch (...) {
    throw as_error(impl_->place + ": " + family.path);
  }
}

void TraceFile::Impl::note_written(std::size_t index, std::size_t channels, std::size_t rows, const void* values,
                                   std::span<const std::int64_t> bases) {
  Written& family = written.at(index);
  family.channels = channels;
  if (family.rows == 0) family.rows_at_once = rows;
  family.rows += rows;
  family.checksum = checksum({static_cast<const std::int64_t*>(values), channels * rows}, family.checksum);
  family.checksum = checksum(bases, family.checksum);
}

void TraceFile::Impl::append_records(H5::DataSet& table, const char* name, const void* records, std::size_t count,
                                     H5::CompType (*type)()) {
  if (count == 0) return;
  const Hdf5Access access;
  try {
    append(table, records, count, type());
  } catch (...) {
    throw as_error(place + ": " + name);
  }
}

void TraceFile::write_events(std::span<const EventRecord> events) {
  impl_->append_records(impl_->events, "events", events.data(), events.size(), event_type);
}

template <class Row>
void TraceFile::write_table(std::span<const RowRecord<Row>> rows) {
  H5::DataSet& table = std::get<RowDataset<Row>>(impl_->tables).set;
  impl_->append_records(table, RowTable<Row>::kName, rows.data(), rows.size(), row_type<Row>);
}
template void TraceFile::write_table<TrainingStep>(std::span<const RowRecord<TrainingStep>>);
template void TraceFile::write_table<SampledCollective>(std::span<const RowRecord<SampledCollective>>);

void TraceFile::write_clocks(std::span<const ClockPair> clocks) {
  impl_->append_records(impl_->clocks, "clock", clocks.data(), clocks.size(), clock_type);
}

void TraceFile::write_coverage(std::span<const Coverage> coverage) {
  const Hdf5Access access;
  try {
    std::vector<CoverageRecord> records(coverage.size());
    for (std::size_t i = 0; i < coverage.size(); ++i) {
      copy_text(records[i].probe, coverage[i].probe);
      copy_text(records[i].state, name_in(kCoverageStates, coverage[i].state));
      copy_text(records[i].reason, coverage[i].reason);
    }
    put(impl_->coverage, records.data(), 0, records.size(), coverage_type());
    const hsize_t size = records.size();
    impl_->coverage.extend(&size);
  } catch (...) {
    throw as_error(impl_->place + ": coverage");
  }
}

void TraceFile::write_end_snapshot(const Snapshot& end) {
  const Hdf5Access access;
  try {
    const std::vector<char> records = packed(end, impl_->key_width, impl_->value_width);
    put(impl_->end, records.data(), 0, end.size(), pair_type(impl_->key_width, impl_->value_width));
  } catch (...) {
    throw as_error(impl_->place + ": node snapshot");
  }
}

void TraceFile::flush() {
  const Hdf5Access access;
  try {
    impl_->file.flush(H5F_SCOPE_LOCAL);
  } catch (...) {
    throw as_error(impl_->place);
  }
  impl_->chunks.give_back_memory();
}

void TraceFile::Impl::write_stored() {
  std::vector<StoredRecord> records;
  for (const FamilyFile& family : families) {
    StoredChunks all = family.stored;
    all.add(family.stored_bases);
    StoredRecord& record = records.emplace_back();
    copy_text(record.path, family.path);
    record.channels = static_cast<std::int64_t>(family.channels);
    record.rows = static_cast<std::int64_t>(family.rows);
    record.chunks = static_cast<std::int64_t>(all.count);
    record.digest = static_cast<std::int64_t>(all.digest);
  }
  if (!records.empty()) append(stored, records.data(), records.size(), stored_type());
}

void TraceFile::close(bool complete) {
  const Hdf5Access access;
  const std::string place = impl_->place;
  try {
    impl_->write_stored();
    const std::int64_t value = complete ? 1 : 0;
    impl_->root_group().openAttribute("complete").write(PredType::NATIVE_INT64, &value);
    impl_->file.flush(H5F_SCOPE_LOCAL);
    // Every object goes before the file, which ends SWMR mode; by hand, because ~H5File cannot fail.
    const hid_t file = impl_->file.getId();
    check_hdf5(H5Iinc_ref(file), "H5Iinc_ref");
    auto closed = std::make_unique<Impl>(Form::closed);
    closed->place = place;
    closed->written = std::move(impl_->written);
    impl_ = std::move(closed);
    check_hdf5(H5Fclose(file), "H5Fclose");
  } catch (...) {
    throw as_error(place);
  }
  check_length(place);
}

void TraceFile::was_renamed(const std::filesystem::path& path) {
  impl_->place = path.string();
}

const std::vector<TraceFile::Written>& TraceFile::written() const noexcept {
  return impl_->written;
}

std::uint32_t TraceFile::checksum(std::span<const std::int64_t> values, std::uint32_t before) noexcept {
  return values.empty() ? before : libdeflate_crc32(before, values.data(), values.size_bytes());
}

}  // namespace reveal
