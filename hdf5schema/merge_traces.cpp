#include "hdf5schema/merge_traces.h"

#include <H5Cpp.h>
#include <unistd.h>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/dimension_scales.h"
#include "hdf5schema/disk_space.h"
#include "hdf5schema/hdf5_access.h"
#include "hdf5schema/trace.h"

namespace reveal {
namespace {

void write_text(H5::H5Object& object, const char* name, const std::string& text) {
  const H5::StrType type(H5::PredType::C_S1, text.empty() ? 1 : text.size());
  object.createAttribute(name, type, H5::DataSpace(H5S_SCALAR)).write(type, text);
}

/// Paths of the scales of every dimension, as the trace itself has them.
std::vector<std::vector<std::string>> scales_of(const H5::DataSet& dataset) {
  std::vector<std::vector<std::string>> paths;
  if (!dataset.attrExists("DIMENSION_LIST")) return paths;
  const H5::Attribute attribute = dataset.openAttribute("DIMENSION_LIST");
  const H5::VarLenType type(H5::PredType::STD_REF_OBJ);
  std::vector<hvl_t> lists(static_cast<std::size_t>(attribute.getSpace().getSimpleExtentNpoints()));
  attribute.read(type, lists.data());
  for (const hvl_t& list : lists) {
    paths.emplace_back();
    const auto* references = static_cast<const hobj_ref_t*>(list.p);
    for (std::size_t i = 0; i < list.len; ++i) {
      char name[1024];
      check_hdf5(H5Rget_name(dataset.getId(), H5R_OBJECT, &references[i], name, sizeof name), "H5Rget_name");
      paths.back().emplace_back(name);
    }
  }
  H5Dvlen_reclaim(type.getId(), attribute.getSpace().getId(), H5P_DEFAULT, lists.data());
  return paths;
}

/// References do not survive a copy into another file (H5Ocopy leaves the lists of scales unreadable): made anew.
void renew_scales(const H5::Group& from, const H5::Group& to, const std::string& root, DimensionScales& scales) {
  for (hsize_t i = 0; i < from.getNumObjs(); ++i) {
    const std::string name = from.getObjnameByIdx(i);
    if (from.childObjType(name) == H5O_TYPE_GROUP) {
      renew_scales(from.openGroup(name), to.openGroup(name), root, scales);
      continue;
    }
    if (from.childObjType(name) != H5O_TYPE_DATASET) continue;
    auto paths = scales_of(from.openDataSet(name));
    const H5::DataSet copy = to.openDataSet(name);
    for (const char* list : {"DIMENSION_LIST", "REFERENCE_LIST"}) {
      if (copy.attrExists(list)) copy.removeAttr(list);
    }
    if (paths.empty()) continue;
    for (auto& dimension : paths) {
      for (std::string& path : dimension) path.insert(0, root);
    }
    scales.attach(copy, paths);
  }
}

void copy_into(H5::Group& nodes, const NodeFile& trace, DimensionScales& scales) {
  const H5::H5File from(trace.path.string(), H5F_ACC_RDONLY);
  check_hdf5(H5Ocopy(from.getId(), "/", nodes.getId(), trace.node.c_str(), H5P_DEFAULT, H5P_DEFAULT), "H5Ocopy");
  renew_scales(from.openGroup("/"), nodes.openGroup(trace.node), "/nodes/" + trace.node, scales);
}

void link_into(H5::Group& nodes, const NodeFile& trace) {
  // The name alone: HDF5 looks for it beside job.h5, wherever the directory is moved to.
  check_hdf5(H5Lcreate_external(trace.path.filename().c_str(), "/", nodes.getId(), trace.node.c_str(), H5P_DEFAULT,
                                H5P_DEFAULT),
             "H5Lcreate_external");
}

}  // namespace

void merge_traces(const std::vector<NodeFile>& traces, const std::filesystem::path& to, MergeForm form) {
  const Hdf5Access access;
  std::filesystem::path temporary = to;
  temporary += "." + std::to_string(::getpid()) + ".tmp";
  std::string place = to.string();
  try {
    // H5F_ACC_EXCL refuses a file, or a link of somebody else's, that is already there.
    H5::H5File file(temporary.string(), H5F_ACC_EXCL);
    H5::Group root = file.openGroup("/");
    write_text(root, "schema", "reveal.job");
    const int version = kSchemaVersion;
    root.createAttribute("schema_version", H5::PredType::NATIVE_INT, H5::DataSpace(H5S_SCALAR))
        .write(H5::PredType::NATIVE_INT, &version);
    write_text(root, "form", form == MergeForm::links ? "links" : "self-contained");
    H5::Group nodes = file.createGroup("nodes");
    DimensionScales scales;
    for (const NodeFile& trace : traces) {
      place = trace.path.string();
      if (form == MergeForm::links) {
        link_into(nodes, trace);
      } else {
        copy_into(nodes, trace, scales);
      }
    }
    place = to.string();
    scales.write_references(file.getId());
    nodes.close();
    root.close();
    file.close();
    DiskSpace(temporary).finish();
    rename_and_sync(temporary, to);
  } catch (...) {
    const Error error = as_error(place);
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    throw error;
  }
}

}  // namespace reveal
