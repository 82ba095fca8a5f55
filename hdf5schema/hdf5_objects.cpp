#include "hdf5schema/hdf5_objects.h"

#include <H5Cpp.h>

#include <algorithm>

#include "hdf5schema/hdf5_access.h"
#include "hdf5schema/record_types.h"

namespace reveal {
namespace {

using H5::PredType;

constexpr int kDeflateLevel = 6;
constexpr hsize_t kCompactBytes = 128;  // up to here a chunk's filters and its place cost more than they save

/// Creation times are of no use, and cost 16 bytes an object.
void forget_times(const H5::DSetCreatPropList& list) {
  check_hdf5(H5Pset_obj_track_times(list.getId(), false), "H5Pset_obj_track_times");
}

/// A file is created for readers of 1.8: its chunk index is the smallest for two unlimited axes. A dataset that does
/// not grow needs the layout of 1.10, which has chunks without an index.
/// https://docs.hdfgroup.org/hdf5/v1_14/group___f_a_p_l.html (H5Pset_libver_bounds)
class LayoutOf110 {
 public:
  explicit LayoutOf110(const H5::Group& where) : file_(H5Iget_file_id(where.getId())) {
    check_hdf5(H5Fset_libver_bounds(file_, H5F_LIBVER_V110, H5F_LIBVER_V110), "H5Fset_libver_bounds");
  }
  ~LayoutOf110() {
    H5Fset_libver_bounds(file_, H5F_LIBVER_V18, H5F_LIBVER_V110);
    H5Fclose(file_);
  }
  LayoutOf110(const LayoutOf110&) = delete;
  LayoutOf110& operator=(const LayoutOf110&) = delete;

 private:
  hid_t file_;
};

}  // namespace

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

H5::DSetCreatPropList creation(std::span<const hsize_t> chunk) {
  H5::DSetCreatPropList list;
  list.setChunk(static_cast<int>(chunk.size()), chunk.data());
  list.setShuffle();
  list.setDeflate(kDeflateLevel);
  check_hdf5(H5Pset_fletcher32(list.getId()), "H5Pset_fletcher32");
  forget_times(list);
  return list;
}

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

H5::DataSet create_raw_table(const H5::Group& where, const std::string& name, const H5::DataType& type, hsize_t chunk) {
  const hsize_t size = 0;
  const hsize_t maximum = H5S_UNLIMITED;
  H5::DSetCreatPropList list;
  list.setChunk(1, &chunk);
  forget_times(list);
  return where.createDataSet(name, type, H5::DataSpace(1, &size, &maximum), list, access_without_cache());
}

H5::DataSet create_final_table(const H5::Group& where, const std::string& name, const H5::DataType& type,
                               hsize_t length) {
  if (length == 0) return create_table(where, name, type, 1);
  const LayoutOf110 layout(where);
  H5::DSetCreatPropList list;
  if (length * type.getSize() > kCompactBytes) {
    list = creation({&length, 1});
  } else {
    list.setLayout(H5D_COMPACT);
    forget_times(list);
  }
  return where.createDataSet(name, type, H5::DataSpace(1, &length), list, access_without_cache());
}

H5::Group create_group(const H5::Group& where, const std::string& name) {
  const hid_t list = H5Pcreate(H5P_GROUP_CREATE);
  H5Pset_obj_track_times(list, false);
  H5Pset_link_phase_change(list, 1024, 8);  // dense storage would cost 4 KiB for a group of more than eight datasets
  const hid_t id = H5Gcreate2(where.getId(), name.c_str(), H5P_DEFAULT, list, H5P_DEFAULT);
  H5Pclose(list);
  check_hdf5(id, "H5Gcreate2");
  H5::Group group(id);
  H5Idec_ref(id);  // the object holds its own reference
  return group;
}

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

}  // namespace reveal
