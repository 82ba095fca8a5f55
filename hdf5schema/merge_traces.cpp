#include "hdf5schema/merge_traces.h"

#include <H5Cpp.h>
#include <unistd.h>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/disk_space.h"
#include "hdf5schema/hdf5_access.h"
#include "hdf5schema/rewrite.h"
#include "hdf5schema/trace.h"

namespace reveal {
namespace {

void write_text(H5::H5Object& object, const char* name, const std::string& text) {
  const H5::StrType type(H5::PredType::C_S1, text.empty() ? 1 : text.size());
  object.createAttribute(name, type, H5::DataSpace(H5S_SCALAR)).write(type, text);
}

void link_into(H5::Group& nodes, const NodeFile& trace, const std::filesystem::path& directory) {
  // The name alone: HDF5 looks for it beside job.h5, wherever the directory is moved to.
  const std::filesystem::path name = trace.path.lexically_relative(directory);
  check_hdf5(H5Lcreate_external(name.c_str(), "/", nodes.getId(), trace.node.c_str(), H5P_DEFAULT, H5P_DEFAULT),
             "H5Lcreate_external");
}

/// Objects that are not linked are copied later.
void begin_job_file(const std::filesystem::path& path, const std::vector<NodeFile>& traces, MergeForm form) {
  // H5F_ACC_EXCL refuses a file, or a link of another user, that is already there.
  H5::FileAccPropList list;
  list.setLibverBounds(H5F_LIBVER_V18, H5F_LIBVER_V110);
  const H5::H5File file(path.string(), H5F_ACC_EXCL, H5::FileCreatPropList::DEFAULT, list);
  H5::Group root = file.openGroup("/");
  write_text(root, "schema", "reveal.job");
  const int version = kSchemaVersion;
  root.createAttribute("schema_version", H5::PredType::NATIVE_INT, H5::DataSpace(H5S_SCALAR))
      .write(H5::PredType::NATIVE_INT, &version);
  write_text(root, "form", form == MergeForm::links ? "links" : "self-contained");
  H5::Group nodes = file.createGroup("nodes");
  if (form == MergeForm::self_contained) return;
  for (const NodeFile& trace : traces) link_into(nodes, trace, path.parent_path());
}

}  // namespace

void merge_traces(const std::vector<NodeFile>& traces, const std::filesystem::path& to, MergeForm form) {
  const Hdf5Access access;
  std::filesystem::path temporary = to;
  temporary += "." + std::to_string(::getpid()) + ".tmp";
  std::string place = to.string();
  try {
    begin_job_file(temporary, traces, form);
    if (form == MergeForm::self_contained) {
      for (const NodeFile& trace : traces) {
        place = trace.path.string();
        copy_into(trace.path, temporary, "nodes/" + trace.node);
      }
    }
    place = to.string();
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
