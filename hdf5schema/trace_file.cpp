#include "hdf5schema/trace_file.h"

#include <H5Cpp.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "hdf5schema/dimension_scales.h"
#include "hdf5schema/hdf5_access.h"

namespace reveal {
namespace {

using H5::PredType;

constexpr hsize_t kTableChunk = 32;
constexpr int kDeflateLevel = 6;
constexpr std::size_t kMinSnapshotWidth = 1024;

H5::StrType text_type(std::size_t width) {
  H5::StrType type(PredType::C_S1, std::max<std::size_t>(width, 1));
  type.setStrpad(H5T_STR_NULLPAD);
  type.setCset(H5T_CSET_UTF8);
  return type;
}

H5::CompType event_type() {
  H5::CompType type(sizeof(EventRecord));
  type.insertMember("time_ns", HOFFSET(EventRecord, time_ns), PredType::NATIVE_INT64);
  type.insertMember("object", HOFFSET(EventRecord, object), text_type(sizeof(EventRecord::object)));
  type.insertMember("code", HOFFSET(EventRecord, code), text_type(sizeof(EventRecord::code)));
  type.insertMember("text", HOFFSET(EventRecord, text), text_type(sizeof(EventRecord::text)));
  return type;
}

H5::CompType clock_type() {
  H5::CompType type(sizeof(ClockPair));
  type.insertMember("monotonic_ns", HOFFSET(ClockPair, monotonic_ns), PredType::NATIVE_INT64);
  type.insertMember("utc_ns", HOFFSET(ClockPair, utc_ns), PredType::NATIVE_INT64);
  type.insertMember("max_error_ns", HOFFSET(ClockPair, max_error_ns), PredType::NATIVE_INT64);
  return type;
}

H5::CompType coverage_type() {
  H5::CompType type(sizeof(CoverageRecord));
  type.insertMember("probe", HOFFSET(CoverageRecord, probe), text_type(sizeof(CoverageRecord::probe)));
  type.insertMember("state", HOFFSET(CoverageRecord, state), text_type(sizeof(CoverageRecord::state)));
  type.insertMember("reason", HOFFSET(CoverageRecord, reason), text_type(sizeof(CoverageRecord::reason)));
  return type;
}

H5::CompType life_type() {
  H5::CompType type(sizeof(LifeRecord));
  type.insertMember("born_ns", HOFFSET(LifeRecord, born_ns), PredType::NATIVE_INT64);
  type.insertMember("died_ns", HOFFSET(LifeRecord, died_ns), PredType::NATIVE_INT64);
  return type;
}

H5::CompType pair_type(std::size_t key_width, std::size_t value_width) {
  H5::CompType type(key_width + value_width);
  type.insertMember("key", 0, text_type(key_width));
  type.insertMember("value", key_width, text_type(value_width));
  return type;
}

void set_attribute(const H5::H5Object& object, const char* name, std::string_view text) {
  const H5::StrType type = text_type(text.size());
  const std::string padded(text.empty() ? std::string(1, '\0') : std::string(text));
  object.createAttribute(name, type, H5::DataSpace(H5S_SCALAR)).write(type, padded.data());
}

void set_attribute(const H5::H5Object& object, const char* name, std::int64_t value) {
  object.createAttribute(name, PredType::NATIVE_INT64, H5::DataSpace(H5S_SCALAR)).write(PredType::NATIVE_INT64, &value);
}

void set_attribute(const H5::H5Object& object, const char* name, double value) {
  object.createAttribute(name, PredType::NATIVE_DOUBLE, H5::DataSpace(H5S_SCALAR))
      .write(PredType::NATIVE_DOUBLE, &value);
}

/// Every dataset: shuffle, deflate, checksum; attributes in the header (dense storage would cost 4 KiB each).
H5::DSetCreatPropList creation(std::span<const hsize_t> chunk) {
  H5::DSetCreatPropList list;
  list.setChunk(static_cast<int>(chunk.size()), chunk.data());
  list.setShuffle();
  list.setDeflate(kDeflateLevel);
  check_hdf5(H5Pset_fletcher32(list.getId()), "H5Pset_fletcher32");
  check_hdf5(H5Pset_attr_phase_change(list.getId(), 64, 8), "H5Pset_attr_phase_change");
  return list;
}

/// No chunk cache: a chunk is written once and never looked at again, and 60 caches would hold 60 MB.
H5::DSetAccPropList access_without_cache() {
  H5::DSetAccPropList list;
  list.setChunkCache(0, 0, H5D_CHUNK_CACHE_W0_DEFAULT);
  return list;
}

H5::DataSet create_table(const H5::Group& where, const std::string& name, const H5::DataType& type, hsize_t chunk) {
  const hsize_t size = 0;
  const hsize_t maximum = H5S_UNLIMITED;
  return where.createDataSet(name, type, H5::DataSpace(1, &size, &maximum), creation({&chunk, 1}),
                             access_without_cache());
}

H5::Group create_group(const H5::Group& where, const std::string& name) {
  const hid_t list = H5Pcreate(H5P_GROUP_CREATE);
  H5Pset_link_phase_change(list, 1024, 8);  // dense storage would cost 4 KiB for a group of more than eight datasets
  const hid_t id = H5Gcreate2(where.getId(), name.c_str(), H5P_DEFAULT, list, H5P_DEFAULT);
  H5Pclose(list);
  check_hdf5(id, "H5Gcreate2");
  H5::Group group(id);
  H5Idec_ref(id);  // the object holds its own reference
  return group;
}

/// The group of "memory/numa/meminfo", made where it is missing.
H5::Group group_of(const H5::H5File& file, std::string_view path) {
  H5::Group group = file.openGroup("/");
  for (std::size_t slash = path.find('/'); slash != std::string_view::npos; slash = path.find('/')) {
    const std::string name(path.substr(0, slash));
    path.remove_prefix(slash + 1);
    group = group.nameExists(name) ? group.openGroup(name) : create_group(group, name);
  }
  return group;
}

void append(H5::DataSet& table, const void* records, hsize_t count, const H5::DataType& type) {
  hsize_t first = 0;
  table.getSpace().getSimpleExtentDims(&first);
  const hsize_t size = first + count;
  table.extend(&size);
  H5::DataSpace file_space = table.getSpace();
  file_space.selectHyperslab(H5S_SELECT_SET, &count, &first);
  table.write(records, type, H5::DataSpace(1, &count), file_space);
}

/// Overwrites from `first` on and grows as needed.
void put(H5::DataSet& table, const void* records, hsize_t first, hsize_t count, const H5::DataType& type) {
  if (count == 0) return;
  hsize_t size = 0;
  table.getSpace().getSimpleExtentDims(&size);
  if (first + count > size) {
    size = first + count;
    table.extend(&size);
  }
  H5::DataSpace file_space = table.getSpace();
  file_space.selectHyperslab(H5S_SELECT_SET, &count, &first);
  table.write(records, type, H5::DataSpace(1, &count), file_space);
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

}  // namespace

struct TraceFile::Impl {
  struct Axis {
    std::string name;
    std::size_t rows_per_chunk = 0;
    H5::DataSet times;
    H5::DataSet chunk_times;
  };
  struct Family {
    std::string path;
    std::size_t axis = 0;
    bool real = false;
    std::size_t rows = 0;
    std::size_t chunks = 0;
    H5::DataSet values;
    std::optional<H5::DataSet> bases;
    H5::DataSet number;
    H5::DataSet metric;
    H5::DataSet instance;
    H5::DataSet role;
    H5::DataSet life;
  };

  std::string place;
  bool live = true;
  H5::H5File file;
  std::vector<Axis> axes;
  std::vector<Family> families;
  DimensionScales scales;
  H5::DataSet events;
  H5::DataSet clocks;
  H5::DataSet coverage;
  H5::DataSet end;
  std::size_t key_width = 64;
  std::size_t value_width = kMinSnapshotWidth;

  void reopen();
  void put_channels(Family& family, std::size_t first, std::span<const ChannelKey> keys);
};

TraceFile::TraceFile(const std::filesystem::path& path, const TraceHeader& header, Form form)
    : impl_(std::make_unique<Impl>()) {
  const Hdf5Access access;
  impl_->live = form == Form::live;
  impl_->place = path.string();
  try {
    H5::FileAccPropList list;
    list.setLibverBounds(H5F_LIBVER_V110, H5F_LIBVER_V110);
    H5::FileCreatPropList root_list;  // links and attributes in the header: dense storage costs 4 KiB each
    check_hdf5(H5Pset_link_phase_change(root_list.getId(), 1024, 8), "H5Pset_link_phase_change");
    check_hdf5(H5Pset_attr_phase_change(root_list.getId(), 1024, 8), "H5Pset_attr_phase_change");
    impl_->file = H5::H5File(path.string(), H5F_ACC_EXCL, root_list, list);
    const H5::Group root = impl_->file.openGroup("/");
    set_attribute(root, "schema", kSchemaName);
    set_attribute(root, "schema_version", std::int64_t{kSchemaVersion});
    set_attribute(root, "complete", std::int64_t{0});
    set_attribute(root, "job", header.job_id);
    set_attribute(root, "job_name", header.job_name);
    set_attribute(root, "user", header.user);
    set_attribute(root, "cluster", header.cluster);
    set_attribute(root, "node", header.node);
    set_attribute(root, "command", header.command);
    set_attribute(root, "tool_version", header.tool_version);
    set_attribute(root, "interval", static_cast<double>(header.interval.count()) / 1e9);
    set_attribute(root, "begin_utc_ns", header.begin_utc_ns);

    // Scales, so that xarray opens the root group: it wants a dimension for every dataset.
    impl_->events = create_table(root, "events", event_type(), kTableChunk);
    DimensionScales::make(impl_->events, "events");
    impl_->clocks = create_table(root, "clock", clock_type(), kTableChunk);
    DimensionScales::make(impl_->clocks, "clock");
    impl_->coverage = create_table(root, "coverage", coverage_type(), kTableChunk);
    DimensionScales::make(impl_->coverage, "coverage");
    for (const auto& [key, value] : header.tags) {
      const std::string name = "tag." + key;
      if (!root.attrExists(name)) set_attribute(root, name.c_str(), value);
    }
  } catch (...) {
    throw as_error(impl_->place);
  }
}

TraceFile::~TraceFile() {
  const Hdf5Access access;
  impl_.reset();
}

std::size_t TraceFile::add_axis(const std::string& name, std::size_t rows_per_chunk) {
  const Hdf5Access access;
  try {
    Impl::Axis axis{.name = name, .rows_per_chunk = rows_per_chunk};
    const H5::Group root = impl_->file.openGroup("/");
    axis.times = create_table(root, "time_" + name, PredType::STD_I64LE, std::max<hsize_t>(rows_per_chunk, 8));
    axis.chunk_times = create_table(root, "chunk_" + name, PredType::STD_I64LE, 64);
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

std::size_t TraceFile::add_family(const FamilySpec& spec, std::size_t axis_index, std::size_t channels_per_chunk) {
  const Hdf5Access access;
  try {
    const Impl::Axis& axis = impl_->axes.at(axis_index);
    const H5::Group group = group_of(impl_->file, spec.path);
    const std::string name = spec.path.substr(spec.path.find_last_of('/') + 1);
    // Hard links: one time axis for all groups, and xarray finds a group's dimensions inside the group.
    for (const std::string& scale : {"time_" + axis.name, "chunk_" + axis.name}) {
      if (!group.nameExists(scale)) {
        check_hdf5(H5Lcreate_hard(impl_->file.getId(), ("/" + scale).c_str(), group.getId(), scale.c_str(), H5P_DEFAULT,
                                  H5P_DEFAULT),
                   "H5Lcreate_hard");
      }
    }

    Impl::Family family{.path = spec.path, .axis = axis_index, .real = stored_as_real(spec.kind, spec.unit)};
    const hsize_t rows = axis.rows_per_chunk;
    const hsize_t keys_per_chunk = std::max<hsize_t>(channels_per_chunk, 4);
    const hsize_t empty[2] = {0, 0};
    const hsize_t values_chunk[2] = {channels_per_chunk, rows};
    // Two unlimited axes cost 2 KiB of index a dataset, and under SWMR many times that.
    const hsize_t values_maximum[2] = {H5S_UNLIMITED, impl_->live ? kMaxChunks * rows : H5S_UNLIMITED};
    H5::DSetCreatPropList values_list = creation(values_chunk);
    const double not_a_number = std::numeric_limits<double>::quiet_NaN();
    if (family.real)
      values_list.setFillValue(PredType::NATIVE_DOUBLE, &not_a_number);
    else
      values_list.setFillValue(PredType::NATIVE_INT64, &kMissing);
    family.values = group.createDataSet(name, family.real ? PredType::IEEE_F64LE : PredType::STD_I64LE,
                                        H5::DataSpace(2, empty, values_maximum), values_list, access_without_cache());
    set_attribute(family.values, "units", name_of(spec.unit));
    set_attribute(family.values, "kind", name_of(spec.kind));
    set_attribute(family.values, "scope", name_of(spec.scope));
    set_attribute(family.values, "subsystem", name_of(spec.subsystem));
    set_attribute(family.values, "long_name", spec.long_name);
    set_attribute(family.values, "source", spec.source);
    set_attribute(family.values, "period", static_cast<double>(spec.period.count()) / 1e9);
    set_attribute(family.values, "stored", stored_as_increments(spec.kind) ? "increments" : "levels");
    set_attribute(family.values, "time", "time_" + axis.name);
    if (!spec.clock.empty()) set_attribute(family.values, "clock", spec.clock);
    if (family.real)
      set_attribute(family.values, "_FillValue", not_a_number);
    else
      set_attribute(family.values, "_FillValue", kMissing);

    const H5::Group keys = create_group(group, name + "_channels");
    family.metric = create_table(keys, "metric", text_type(kMetricWidth), keys_per_chunk);
    family.instance = create_table(keys, "instance", text_type(kInstanceWidth), keys_per_chunk);
    family.role = create_table(keys, "role", text_type(kRoleWidth), keys_per_chunk);
    family.life = create_table(keys, "life", life_type(), keys_per_chunk);
    family.number = create_table(group, name + "_channel", PredType::STD_I32LE, keys_per_chunk);
    DimensionScales::make(family.metric, "metric");
    DimensionScales::make(family.instance, "instance");
    DimensionScales::make(family.role, "role");
    DimensionScales::make(family.number, "channel");
    const std::string path = "/" + spec.path;
    const std::string number = path + "_channel";
    // The number comes last: netCDF4 and h5netcdf take the last scale for the dimension, and netCDF4 crashes on arrays
    // of fixed-length strings (it frees each of them, though they are one block).
    const std::string metric = path + "_channels/metric";
    const std::vector<std::string> channel_scales = {metric, path + "_channels/instance", path + "_channels/role",
                                                     number};
    impl_->scales.attach(family.values, {channel_scales, {"/time_" + axis.name}});
    impl_->scales.attach(family.life, {{metric}});

    if (stored_as_increments(spec.kind)) {
      const hsize_t bases_chunk[2] = {channels_per_chunk, 1};
      const hsize_t bases_maximum[2] = {H5S_UNLIMITED, impl_->live ? kMaxChunks : H5S_UNLIMITED};
      H5::DSetCreatPropList bases_list = creation(bases_chunk);
      bases_list.setFillValue(PredType::NATIVE_INT64, &kMissing);
      family.bases = group.createDataSet(name + "_base", PredType::STD_I64LE, H5::DataSpace(2, empty, bases_maximum),
                                         bases_list, access_without_cache());
      set_attribute(*family.bases, "units", name_of(spec.unit));
      set_attribute(*family.bases, "_FillValue", kMissing);
      impl_->scales.attach(*family.bases, {{number}, {"/chunk_" + axis.name}});
    }
    impl_->families.push_back(std::move(family));
    return impl_->families.size() - 1;
  } catch (...) {
    throw as_error(impl_->place + ": " + spec.path);
  }
}

void TraceFile::write_snapshot(const Snapshot& begin, std::string_view topology_xml) {
  const Hdf5Access access;
  try {
    impl_->key_width = longest(begin, &Snapshot::value_type::first, impl_->key_width);
    impl_->value_width = longest(begin, &Snapshot::value_type::second, impl_->value_width);
    const H5::CompType type = pair_type(impl_->key_width, impl_->value_width);
    const H5::Group node = create_group(impl_->file.openGroup("/"), "node");
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
    if (!impl_->file.nameExists("node")) write_snapshot({}, {});
    impl_->scales.write_references(impl_->file.getId());
    // The mode is switched on with no object open: reopening them inside the switch is the library's least trodden
    // path.
    for (Impl::Axis& axis : impl_->axes) axis = {.name = axis.name, .rows_per_chunk = axis.rows_per_chunk};
    for (Impl::Family& family : impl_->families) {
      const bool has_bases = family.bases.has_value();
      family = {.path = family.path, .axis = family.axis, .real = family.real};
      if (has_bases) family.bases.emplace();
    }
    impl_->events = impl_->clocks = impl_->coverage = impl_->end = H5::DataSet();
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
  const auto open = [&](const std::string& path) { return file.openDataSet(path, list); };
  for (Axis& axis : axes) {
    axis.times = open("time_" + axis.name);
    axis.chunk_times = open("chunk_" + axis.name);
  }
  for (Family& family : families) {
    family.values = open(family.path);
    if (family.bases) family.bases = open(family.path + "_base");
    family.number = open(family.path + "_channel");
    family.metric = open(family.path + "_channels/metric");
    family.instance = open(family.path + "_channels/instance");
    family.role = open(family.path + "_channels/role");
    family.life = open(family.path + "_channels/life");
  }
  events = open("events");
  clocks = open("clock");
  coverage = open("coverage");
  end = open("node/end");
}

void TraceFile::write_channels(std::size_t family, std::size_t first, std::span<const ChannelKey> keys) {
  const Hdf5Access access;
  try {
    impl_->put_channels(impl_->families.at(family), first, keys);
  } catch (...) {
    throw as_error(impl_->place + ": " + impl_->families.at(family).path);
  }
}

void TraceFile::Impl::put_channels(Family& family, std::size_t first, std::span<const ChannelKey> keys) {
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
  put(family.metric, metric.data(), first, keys.size(), text_type(kMetricWidth));
  put(family.instance, instance.data(), first, keys.size(), text_type(kInstanceWidth));
  put(family.role, role.data(), first, keys.size(), text_type(kRoleWidth));
  put(family.life, life.data(), first, keys.size(), life_type());
  put(family.number, number.data(), first, keys.size(), PredType::NATIVE_INT32);
}

void TraceFile::write_times(std::size_t axis_index, std::span<const std::int64_t> times) {
  if (times.empty()) return;
  const Hdf5Access access;
  try {
    Impl::Axis& axis = impl_->axes.at(axis_index);
    append(axis.times, times.data(), times.size(), PredType::NATIVE_INT64);
    append(axis.chunk_times, times.data(), 1, PredType::NATIVE_INT64);
  } catch (...) {
    throw as_error(impl_->place + ": time axis");
  }
}

void TraceFile::write_rows(std::size_t family_index, std::size_t channels, std::size_t rows, const void* values,
                           std::span<const std::int64_t> bases) {
  const Hdf5Access access;
  Impl::Family& family = impl_->families.at(family_index);
  try {
    const hsize_t size[2] = {channels, family.rows + rows};
    family.values.extend(size);
    const hsize_t count[2] = {channels, rows};
    if (channels > 0 && values != nullptr) {
      const hsize_t first[2] = {0, family.rows};
      H5::DataSpace space = family.values.getSpace();
      space.selectHyperslab(H5S_SELECT_SET, count, first);
      family.values.write(values, family.real ? PredType::NATIVE_DOUBLE : PredType::NATIVE_INT64,
                          H5::DataSpace(2, count), space);
    }
    if (family.bases) {
      const hsize_t bases_size[2] = {channels, family.chunks + 1};
      family.bases->extend(bases_size);
      if (!bases.empty()) {
        const hsize_t bases_count[2] = {bases.size(), 1};
        const hsize_t first[2] = {0, family.chunks};
        H5::DataSpace space = family.bases->getSpace();
        space.selectHyperslab(H5S_SELECT_SET, bases_count, first);
        family.bases->write(bases.data(), PredType::NATIVE_INT64, H5::DataSpace(2, bases_count), space);
      }
    }
    family.rows += rows;
    ++family.chunks;
  } catch (...) {
    throw as_error(impl_->place + ": " + family.path);
  }
}

void TraceFile::write_events(std::span<const EventRecord> events) {
  if (events.empty()) return;
  const Hdf5Access access;
  try {
    append(impl_->events, events.data(), events.size(), event_type());
  } catch (...) {
    throw as_error(impl_->place + ": events");
  }
}

void TraceFile::write_clocks(std::span<const ClockPair> clocks) {
  if (clocks.empty()) return;
  const Hdf5Access access;
  try {
    append(impl_->clocks, clocks.data(), clocks.size(), clock_type());
  } catch (...) {
    throw as_error(impl_->place + ": clock");
  }
}

void TraceFile::write_coverage(std::span<const Coverage> coverage) {
  constexpr std::string_view kStates[] = {"ok", "absent", "failed"};
  const Hdf5Access access;
  try {
    std::vector<CoverageRecord> records(coverage.size());
    for (std::size_t i = 0; i < coverage.size(); ++i) {
      copy_text(records[i].probe, coverage[i].probe);
      copy_text(records[i].state, kStates[static_cast<std::size_t>(coverage[i].state)]);
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
}

void TraceFile::close(bool complete) {
  const Hdf5Access access;
  const std::string place = impl_->place;
  try {
    const std::int64_t value = complete ? 1 : 0;
    impl_->file.openGroup("/").openAttribute("complete").write(PredType::NATIVE_INT64, &value);
    impl_->file.flush(H5F_SCOPE_LOCAL);
    impl_ = std::make_unique<Impl>();  // every object goes before the file, which ends SWMR mode
    impl_->place = place;
  } catch (...) {
    throw as_error(place);
  }
}

}  // namespace reveal
