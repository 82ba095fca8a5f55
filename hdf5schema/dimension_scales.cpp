#include "hdf5schema/dimension_scales.h"

#include <H5Cpp.h>

#include "hdf5schema/hdf5_access.h"

namespace reveal {
namespace {

void set_text(const H5::DataSet& dataset, const char* name, const std::string& text) {
  const H5::StrType type(H5::PredType::C_S1, text.size() + 1);
  dataset.createAttribute(name, type, H5::DataSpace(H5S_SCALAR)).write(type, text.c_str());
}

hobj_ref_t reference_to(hid_t where, const std::string& path) {
  hobj_ref_t reference = 0;
  check_hdf5(H5Rcreate(&reference, where, path.c_str(), H5R_OBJECT, -1), "H5Rcreate");
  return reference;
}

}  // namespace

void DimensionScales::make(const H5::DataSet& scale, const std::string& name) {
  set_text(scale, "CLASS", "DIMENSION_SCALE");
  set_text(scale, "NAME", name);
}

void DimensionScales::attach(const H5::DataSet& dataset,
                             const std::vector<std::vector<std::string>>& scales_per_dimension) {
  const hobj_ref_t self = reference_to(dataset.getId(), ".");
  std::vector<std::vector<hobj_ref_t>> references;
  for (std::size_t dimension = 0; dimension < scales_per_dimension.size(); ++dimension) {
    references.emplace_back();
    for (const std::string& scale : scales_per_dimension[dimension]) {
      references.back().push_back(reference_to(dataset.getId(), scale));
      uses_[scale].push_back({self, static_cast<int>(dimension)});
    }
  }
  std::vector<hvl_t> lists;
  lists.reserve(references.size());
  for (auto& list : references) lists.push_back({list.size(), list.data()});
  const hsize_t dimensions = lists.size();
  const H5::VarLenType type(H5::PredType::STD_REF_OBJ);
  dataset.createAttribute("DIMENSION_LIST", type, H5::DataSpace(1, &dimensions)).write(type, lists.data());
}

void DimensionScales::write_references(std::int64_t file_id) const {
  H5::CompType type(sizeof(Use));
  type.insertMember("dataset", HOFFSET(Use, dataset), H5::PredType::STD_REF_OBJ);
  type.insertMember("dimension", HOFFSET(Use, dimension), H5::PredType::NATIVE_INT);
  for (const auto& [path, uses] : uses_) {
    const H5::DataSet scale(H5Dopen2(file_id, path.c_str(), H5P_DEFAULT));
    H5Idec_ref(scale.getId());  // the object holds its own reference
    const hsize_t count = uses.size();
    scale.createAttribute("REFERENCE_LIST", type, H5::DataSpace(1, &count)).write(type, uses.data());
  }
}

}  // namespace reveal
