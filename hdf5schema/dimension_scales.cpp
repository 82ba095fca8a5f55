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

struct Reference {
  hobj_ref_t dataset = 0;
  int dimension = 0;
};

void write_list(const H5::DataSet& scale, const std::vector<Reference>& users) {
  H5::CompType type(sizeof(Reference));
  type.insertMember("dataset", HOFFSET(Reference, dataset), H5::PredType::STD_REF_OBJ);
  type.insertMember("dimension", HOFFSET(Reference, dimension), H5::PredType::NATIVE_INT);
  const hsize_t count = users.size();
  scale.createAttribute("REFERENCE_LIST", type, H5::DataSpace(1, &count)).write(type, users.data());
}

H5::Attribute list_of_scales(const H5::DataSet& dataset, hsize_t dimensions) {
  if (dataset.attrExists("DIMENSION_LIST")) return dataset.openAttribute("DIMENSION_LIST");
  return dataset.createAttribute("DIMENSION_LIST", H5::VarLenType(H5::PredType::STD_REF_OBJ),
                                 H5::DataSpace(1, &dimensions));
}

}  // namespace

void DimensionScales::make(const H5::DataSet& scale, const std::string& name, const std::vector<User>& users) {
  set_text(scale, "CLASS", "DIMENSION_SCALE");
  set_text(scale, "NAME", name);
  if (users.empty()) return;
  std::vector<Reference> references;
  references.reserve(users.size());
  for (const User& user : users) references.push_back({reference_to(user.dataset.getId(), "."), user.dimension});
  write_list(scale, references);
}

void DimensionScales::reserve(const H5::DataSet& dataset, std::size_t dimensions) {
  static_cast<void>(list_of_scales(dataset, dimensions));
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
  list_of_scales(dataset, lists.size()).write(H5::VarLenType(H5::PredType::STD_REF_OBJ), lists.data());
}

void DimensionScales::write_references(std::int64_t file_id) const {
  for (const auto& [path, uses] : uses_) {
    const H5::DataSet scale(H5Dopen2(file_id, path.c_str(), H5P_DEFAULT));
    H5Idec_ref(scale.getId());  // the object holds its own reference
    if (scale.attrExists("REFERENCE_LIST")) continue;
    std::vector<Reference> references;
    for (const Use& use : uses) references.push_back({use.dataset, use.dimension});
    write_list(scale, references);
  }
}

}  // namespace reveal
